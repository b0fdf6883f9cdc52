"""The correction of values at single times by the equations, compiled where these are."""

from __future__ import annotations

import importlib

from dae_sdc.dae.branches import Branches
from dae_sdc.dae.pointwise import PointwiseEquations
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector

LARGEST_COMPILED = 64  # Largest number of unknowns: matrices of three times as many rows have no sparsity.


def equations_at_points(problem: ProblemDAE, sizes: Vector) -> PointwiseEquations:
    """The equations of a problem as a correction of values, for sizes of the unknowns in a run."""
    # Shapes: sizes (n,).
    plain = type(problem).start_step is Branches.start_step and problem.n <= LARGEST_COMPILED
    kernels = problem.kernels if plain and problem.sparsity is None else None
    if kernels is None or not kernels.jacobian:
        return PointwiseEquations(problem, sizes)
    machine = importlib.import_module("dae_sdc.compiled.points")
    compiled: PointwiseEquations = machine.MachinePoints(problem, sizes)
    return compiled
