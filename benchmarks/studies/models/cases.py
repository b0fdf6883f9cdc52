"""What it takes to check the solution of a model: how it is solved, and what must hold then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.integrate import solve_ivp

from dae_sdc.dae.state import Vector
from dae_sdc.model.model import Model
from dae_sdc.run.solution import Solution


@dataclass(frozen=True)
class Flight:
    """A model and how it went, for checks."""

    model: Model  # The equations, as they were written
    solution: Solution  # Of the reduced system

    @property
    def t(self) -> Vector:
        """Start and ends of steps, shape (K,)."""
        return self.solution.t

    def __call__(self, name: str) -> Vector:
        """An unknown at these times, shape (K,); of a model that was simplified, any of those before too."""
        return self.solution.values(name)

    def value(self, parameter: str) -> float:
        return float(self.model.parameters_by_name[parameter].required(self.model.name))

    @property
    def parameters(self) -> Any:
        """Their values by attributes, as ``parameters.guide.height``."""
        return _Parameters(self, "")


@dataclass(frozen=True)
class _Parameters:
    flight: Flight
    prefix: str

    def __getattr__(self, name: str) -> Any:
        path = f"{self.prefix}{name}"
        known = path in self.flight.model.parameters_by_name
        return self.flight.value(path) if known else _Parameters(self.flight, f"{path}.")


@dataclass(frozen=True)
class Check:
    what: str  # Of which the error is told
    error: Callable[[Flight], float]  # The error of a Flight
    allowed: float  # Largest error


@dataclass(frozen=True)
class Case:
    """A model of the library, how it is solved, and what must hold then."""

    model: str  # Name
    checks: tuple[Check, ...]  # At least one
    params: Mapping[str, Any] = field(default_factory=dict)  # Arguments of the model
    settings: Mapping[str, Any] = field(default_factory=lambda: {"rtol": 1e-8})  # Arguments of solve

    @property
    def label(self) -> str:
        """Name in tables, and of files."""
        return "-".join([self.model, *(f"{value:g}" for value in self.params.values())])


def integrated(flight: Flight, rates: Callable[[float, Vector], npt.ArrayLike], y0: npt.ArrayLike) -> Any:
    """Values and rates of an ordinary differential equation at the times of a flight, shapes (m, K)."""
    t = flight.t
    # Steps are short enough that no kink of the rates goes unnoticed.
    how = {"rtol": 1e-12, "atol": 1e-13, "max_step": (t[-1] - t[0]) / 100.0}
    found = solve_ivp(rates, (t[0], t[-1]), y0, method="DOP853", t_eval=t, **how)
    return found.y, np.array([rates(time, y) for time, y in zip(t, found.y.T, strict=True)]).T


ALLOWED = 1e-7  # Largest error of a solution, relative to the largest value of the unknown


def against(
    what: str, formulas: Callable[[Flight], Mapping[str, Any]], allowed: float = ALLOWED, least: float = 0.0
) -> Check:
    """Largest error over times and unknowns, each relative to its largest value, or to ``least``."""

    def error(flight: Flight) -> float:
        errors = []
        for name, exact in formulas(flight).items():
            size = max(least, float(np.abs(exact).max()))
            errors.append(np.abs(flight(name) - exact).max() / (size or 1.0))
        # NumPy's maximum, unlike Python's, is NaN, which no check allows, where one is.
        return float(np.max(errors))

    return Check(what, error, allowed)


def exactly(formulas: Callable[[Flight], Mapping[str, Any]], allowed: float) -> Check:
    """Largest error over time, relative to the largest value of the unknown, or to 1 if that is less."""
    return against("exact solution", formulas, allowed, 1.0)
