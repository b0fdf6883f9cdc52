"""Circuits, motors, heat and other devices as Modelica files: sizes, structure, start, simulation, and checks."""

from __future__ import annotations

import functools
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc import problems
from dae_sdc.run.device_cases import ALLOWED, CASES
from dae_sdc.run.model_cases import Case, Flight
from dae_sdc.symbolic.aliases import Simplified, simplify
from dae_sdc.symbolic.modelica import read_modelica
from dae_sdc.symbolic.model import Model

FILES = Path(problems.__file__).parent / "modelica"


class Size(NamedTuple):
    """Equations in the file and after simplification, index before and after, and degrees of freedom."""

    before: int
    after: int
    index: int
    index_after: int
    dof: int


SIZES = {
    "rlc-circuit": Size(32, 2, 1, 0, 2),
    "heat-transfer": Size(46, 4, 1, 0, 4),
    "dc-motor": Size(42, 1, 2, 0, 3),
    "spring-damper": Size(28, 2, 2, 1, 2),
    "slider-crank-motor": Size(33, 4, 3, 3, 3),
    "centrifuge": Size(35, 4, 3, 3, 4),
    "pendulum-3d-drag": Size(28, 4, 3, 3, 4),
    "ice-tank": Size(46, 3, 1, 0, 3),
}
"""Index and degrees of freedom are those of theory: circuits and heat flows store what their states say and
their algebraic unknowns follow at once; where a damper or a motor differentiates the angle of another part,
that must be differentiated too; and rigid bodies at joints have index 3."""

CHANGED = {
    "rlc-circuit": ("source.V", "source.f", "wire.R", "coil.L", "capacitor.C", "load.R"),
    "heat-transfer": ("weather.swing", "outer_film.G", "insulation.C", "inner_joint.G", "window.G", "heater.Q"),
    "dc-motor": ("source.V", "resistor.R", "coil.L", "emf.k", "load.J", "bearing.d"),
    "spring-damper": ("Main.Mass.m", "Main.Spring.c", "Main.Step.height", "Main.Step.T0"),
    "slider-crank-motor": ("Main.R.R", "Main.L.L", "Main.EMF.k", "Main.Step.height"),
    "centrifuge": ("Main.Rotor.J", "Main.Rotor.R", "Main.Gondola.I", "Main.Gondola.l", "Main.Hinge.d", "g"),
    "pendulum-3d-drag": ("m", "L", "g", "rho", "c_d"),
    "ice-tank": ("top.c_ice", "top.c_water", "top.h_f", "top.UA", "upper.G", "wall_top.G", "cellar.T"),
}
"""Parameters to which a check must not be blind."""
