"""Branches of steady states over a parameter, with their stability, folds and Hopf points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.paths import MOST_PATH_UNKNOWNS, PathEquations, PathPoint, corrected, follow, tangent_at
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError, InputError, require_number
from dae_sdc.jets.projection import dense
from dae_sdc.linear.equilibrium import Rest, Steady, row_scales
from dae_sdc.linear.system import DEPENDENT_BY_DIFFERENCES, DEPENDENT_POLES, by_ranks
from dae_sdc.registry import require_name
from dae_sdc.sharing import meter

PART_OF_RANGE: Final = 1e-6  # Change of the parameter in differences, relative to its range.
# Real part of a pole, relative to the largest pole, up to which it counts as on the imaginary axis.
ON_IMAGINARY_AXIS: Final = 1e-9
MOST_HALVINGS: Final = 40  # Halvings of a step in which a fold or Hopf point lies.


@dataclass(frozen=True, eq=False)
class SpecialPoint:
    """A point of a branch at which its stability changes."""

    kind: str  # Where the branch turns back, or where a pair of poles crosses the imaginary axis.
    value: float  # Value of the parameter.
    u: Vector  # Shape (n,). The steady state.
    frequency: float = 0.0  # Angular frequency of the pair at a Hopf point, else 0.


@dataclass(frozen=True, eq=False)
class Branch:
    """Steady states over a parameter."""

    # title, parameter, parameter_unit: names of the equations and of the parameter, and its unit.
    title: str
    parameter: str
    parameter_unit: str
    # names, units: names and units of the unknowns.
    names: tuple[str, ...]
    units: tuple[str, ...]
    values: Vector  # Shape (K,). Values of the parameter, in the order of the branch.
    u: Vector  # Shape (K, n). The states.
    # Shape (K,). Number of poles with positive real part; -1 where the poles are not found.
    unstable: npt.NDArray[np.int64]
    special: tuple[SpecialPoint, ...]  # Folds and Hopf points, in the order of the branch.
    complete: bool  # Whether the branch ends on a border of the range of the parameter.

    def __getitem__(self, name: Any) -> Vector:
        """Values of an unknown, shape (K,)."""
        return np.asarray(self.u[:, require_name("unknown", str(name), self.names)])

    def __str__(self) -> str:
        ends = f"{self.values[0]:.6g} to {self.values[-1]:.6g}"
        stable = int((self.unstable == 0).sum())
        lines = [
            f"{self.title}: {len(self.values)} steady states, {self.parameter} from {ends}, {stable} stable"
        ]
        for one in self.special:
            what = f", angular frequency {one.frequency:.6g}" if one.kind == "hopf" else ""
            lines.append(f"  {one.kind} at {self.parameter} = {one.value:.8g}{what}")
        if not self.complete:
            lines.append("the branch was lost there, or turns for ever")
        return "\n".join(lines)


class ParameterOfProblem:
    """A parameter of a problem, to be set to several values."""

    def __init__(self, problem: ProblemDAE, name: str) -> None:
        self.problem: Any = problem
        self.name = name
        self._of_model = getattr(problem, "values", None)
        if self._of_model is not None:
            require_name("parameter", name, self._of_model)
            return
        value = None if name.startswith("_") else getattr(problem, name, None)
        if not isinstance(value, float | int) or isinstance(value, bool):
            require_name("parameter", name, problem.parameter_units)

    @property
    def value(self) -> float:
        """Its present value."""
        return float(
            self._of_model[self.name] if self._of_model is not None else getattr(self.problem, self.name)
        )

    @value.setter
    def value(self, value: float) -> None:
        if self._of_model is None:
            setattr(self.problem, self.name, value)
        else:
            self._of_model = self.problem.values = {**self._of_model, self.name: value}


class _Path:
    """The steady equations of a problem as functions of the unknowns and the parameter."""

    def __init__(self, rest: Rest, parameter: ParameterOfProblem, span: float) -> None:
        self.rest, self.parameter, self.span = rest, parameter, span
        self.rows = np.ones(0)

    def residual(self, values: Vector) -> Vector:
        self.parameter.value = float(values[-1])
        found = self.rest.residual(values[:-1])
        return np.asarray(found / self.rows if self.rows.size else found)

    def jacobian(self, values: Vector) -> Vector:
        step = PART_OF_RANGE * self.span
        sides = [self.residual(np.append(values[:-1], values[-1] + sign * step)) for sign in (1.0, -1.0)]
        self.parameter.value = float(values[-1])
        matrix = dense(self.rest.jacobian(values[:-1]))
        scaled = matrix / self.rows[:, None] if self.rows.size else matrix
        return np.column_stack([scaled, (sides[0] - sides[1]) / (2.0 * step)])

    def poles(self, values: Vector) -> npt.NDArray[np.complex128]:
        self.parameter.value = float(values[-1])
        n = self.rest.problem.n
        mass, stiffness = (
            sparse.csc_matrix(one)[:n] for one in self.rest.halves(*self.rest.state(values[:-1]))
        )
        exact = getattr(self.rest.problem, "jacobian", None) is not None
        bound = DEPENDENT_POLES if exact else DEPENDENT_BY_DIFFERENCES
        return by_ranks(mass, -stiffness, np.zeros((n, 0)), bound)[0].poles()


def branch_of(
    problem: ProblemDAE, start: Steady, parameter: str, within: tuple[float, float], unit: str = ""
) -> Branch:
    """Follow steady states over a parameter, see :func:`dae_sdc.run.steady.steady_branch`."""
    first, last = (require_number(parameter, one) for one in within)
    if not np.isfinite([first, last]).all() or first == last:
        raise InputError(
            f"{parameter} needs two different values from which and to which it goes; got {within}"
        )
    if problem.n > MOST_PATH_UNKNOWNS:
        raise InputError(f"branches are followed for at most {MOST_PATH_UNKNOWNS} unknowns; got {problem.n}")
    handle = ParameterOfProblem(problem, parameter)
    before = handle.value
    rest = Rest.at(problem, start.t, start.u, start.du)
    path = _Path(rest, handle, abs(last - first))
    sizes = np.append(rest.sizes, abs(last - first))
    begin = np.append(start.u, first)
    try:
        with uncounted(problem):
            path.rows = row_scales(path.jacobian(begin), sizes)
            equations = PathEquations(path.residual, path.jacobian, sizes)
            ends = min(first, last), max(first, last)
            forward = 1.0 if last > first else -1.0
            points, reached = [], 0.0
            with meter(100, "%") as bar:
                for point in follow(equations, begin, ends, forward):
                    points.append(point)
                    part = 100.0 * abs(point.values[-1] - first) / abs(last - first)
                    bar.update(max(0.0, part - reached))
                    reached = max(reached, part)
            unstable = np.array([_unstable(path, point) for point in points])
            special = _special(path, points, unstable, equations)
    finally:
        handle.value = before
    values = np.array([point.values for point in points])
    return Branch(
        *(start.title, parameter, unit, problem.names, problem.units, values[:, -1], values[:, :-1]),
        unstable=unstable,
        special=tuple(special),
        complete=len(points) > 1 and bool(values[-1, -1] in ends),
    )


def _unstable(path: _Path, point: PathPoint) -> int:
    try:
        poles = path.poles(point.values)
    except DAEError:
        return -1
    return int((poles.real > ON_IMAGINARY_AXIS * np.abs(poles).max(initial=0.0)).sum())


def _special(
    path: _Path, points: list[PathPoint], unstable: npt.NDArray[np.int64], equations: PathEquations
) -> list[SpecialPoint]:
    """Folds, where the parameter turns back, and Hopf points, where a pair of poles crosses the axis."""
    found = []
    for at, (one, other) in enumerate(pairwise(points)):
        if one.tangent[-1] * other.tangent[-1] < 0.0:

            def turns(values: Vector, along: Vector = one.tangent) -> float:
                return float(tangent_at(equations, values, along)[-1])

            values = _located(equations, one, other, turns)
            found.append(SpecialPoint("fold", float(values[-1]), values[:-1]))
        elif min(unstable[at : at + 2]) >= 0 and abs(int(unstable[at + 1] - unstable[at])) == 2:
            try:
                values = _located(equations, one, other, lambda values: _nearest_pair(path, values).real)
                pair = _nearest_pair(path, values)
            except DAEError:
                continue
            found.append(SpecialPoint("hopf", float(values[-1]), values[:-1], abs(pair.imag)))
    return found


def _nearest_pair(path: _Path, values: Vector) -> complex:
    """The complex pole nearest to the imaginary axis."""
    poles = path.poles(values)
    pairs = poles[poles.imag > ON_IMAGINARY_AXIS * np.abs(poles).max(initial=0.0)]
    if not pairs.size:
        raise InputError("two real poles cross the axis, and no pair")
    return complex(pairs[np.argmin(np.abs(pairs.real))])


def _located(
    equations: PathEquations, one: PathPoint, other: PathPoint, function: Callable[[Vector], float]
) -> Vector:
    """The point between two of a path at which a function changes its sign, by bisection."""
    low, high, sign = 0.0, 1.0, np.sign(function(one.values))
    found = one.values
    chord = other.values - one.values
    normal = chord / equations.sizes / np.linalg.norm(chord / equations.sizes)
    for _ in range(MOST_HALVINGS):
        part = 0.5 * (low + high)
        values, _ = corrected(equations, one.values + part * chord, normal)
        if values is None:
            break
        found = values
        if np.sign(function(values)) == sign:
            low = part
        else:
            high = part
    return found
