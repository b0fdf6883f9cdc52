"""Steps of a given accuracy: the weights of errors, the outcome of a step, and what rounding makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.linear import factorize
from dae_sdc.dae.newton_checks import directions
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import Scales
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, SolveError, require_number
from dae_sdc.registry import unknown
from dae_sdc.sharing import tell
from dae_sdc.text import brief

EPS = float(np.finfo(float).eps)

TINY = float(np.finfo(float).tiny)
"""Least tolerance of an unknown."""


SMALLEST_RTOL = 1e-13  # Smallest relative tolerance that double precision can be asked for.
LARGEST_ATOL = 1e30  # Largest absolute tolerance that is accepted.
# Smallest relative tolerance in units of the relative noise of the equations. The error that Newton's method
# leaves is ten times the noise, and must be smaller than the tolerance.
NOISE_MARGIN = 50.0
# TIME_PART, TIME_PART_LET_GO, TIME_PART_AT_INDEX_4: the time in which the solution changes by its size, in
# units of the tau of :class:`Tolerance`, in equations of index 2, in others and below FINEST_AT_INDEX_2, and
# for unknowns from index 4 on.
TIME_PART, TIME_PART_LET_GO, TIME_PART_AT_INDEX_4 = 0.5, 0.125, 0.5
# Part of what the inner tolerance is above that of the user which unknowns of index 2 are not granted: their
# error at the end of a step has the order of the estimate, not that of the method.
SHARE_AT_INDEX_2 = 0.25
# FEW_NODES, SHARE_OF_FEW_NODES, LEAST_OF_FEW_NODES: number of nodes up to which steps are so short that their
# errors add up; the part of the inner tolerance that these take at index 2; and its least value.
FEW_NODES, SHARE_OF_FEW_NODES, LEAST_OF_FEW_NODES = 3, 0.1, 0.125
# Smallest relative tolerance that holds unknowns of index 2; below, rounding is divided by the step.
FINEST_AT_INDEX_2 = 1e-9
# TOLD_FROM, TOLD_FROM_AT_INDEX_2: errors of unknowns of a higher index, in units of rtol, from which on a run
# tells of them, and those of index 2 where that is held.
TOLD_FROM, TOLD_FROM_AT_INDEX_2 = 30.0, 50.0
MOST_STEP_GROWTH = 10.0  # Ratio of step sizes from which on an error is the one of the longer step.


def inner_factor(rtol: float, order: int, order_of_method: float, index: int = 1) -> float:
    """Largest accepted error estimate, whose order is lower than that of the method, in units of rtol."""
    # At index 2 few nodes take a part of it: unknowns that follow from the state multiply its global error.
    # E. Hairer, G. Wanner, Stiff differential equations solved by Radau methods, J. Comput. Appl. Math. 111
    # (1999) 93, whose codes choose it so.
    factor = 0.005 * rtol ** (min(1.0, order / (order_of_method + 1.0)) - 1.0)
    if index == 2 and order <= FEW_NODES + 1 and rtol >= FINEST_AT_INDEX_2:
        factor = max(SHARE_OF_FEW_NODES * factor, min(factor, LEAST_OF_FEW_NODES))
    return float(factor)


def effective_order(nodes: int, order: int, index: int) -> float:
    """Order of the global error of a collocation method, for the choice of inner tolerances."""
    # At index 3 velocities have order M only, but their error is in the direction of the constraints, which
    # the positions satisfy; a mean is taken.
    return float(order) if index <= 2 else 0.5 * (order + nodes) - 0.5


def collocation_goal(problem: ProblemDAE, rtol: float, nodes: int, order: int) -> tuple[int, float, float]:
    """Index of a problem; largest accepted error, in units of rtol, and slack of collocation steps for it."""
    index = max(problem.variable_index, default=1)
    factor = inner_factor(rtol, nodes + 1, effective_order(nodes, order, index), index)
    # At index 3 the residual that a step leaves in the constraints looks like a kink to the next step.
    return index, factor, max(1.0, factor) if index < 3 else 1.0


def newton_share(rtol: float, factor: float, index: int, round_off: float = EPS, part: float = 1.0) -> float:
    """Part of the inner tolerance that the error of Newton's method may take, above round-off."""
    # At index 2 and 3 the next step corrects a defect d of the constraints by velocities of size d / h and
    # multipliers of size d / h^2, times squares of the inverse nodes, which are a hundred and more.
    part *= (1.0, 1.0, 0.01, 0.002)[min(index, 3)]
    return max(10.0 * round_off / (rtol * factor), part * min(0.03, 0.01 / factor))


class Outcome(NamedTuple):
    """The outcome of a step."""

    solved: bool  # Whether the equations of the step were solved.
    error: float  # Norm of the error estimate in units of the tolerance; the step is good up to 1.
    order: int  # Order of the error in the step size.
    effort: float  # Iterations in units of the largest number allowed.
    rate: float  # Contraction of the last iterations; 0 if that is not known.
    reason: str  # Why the equations were not solved; empty if they were.
    worst: int  # The unknown with the largest part in the error.
    # Largest accepted error of a smooth solution, whose true error is of a higher order than the estimate,
    # relative to that of a solution with a kink, see :func:`inner_factor`.
    slack: float = 1.0
    between: float = 0.0  # The error between the nodes, in units of what is allowed there.
    costly: float = 0.0  # 1 where another step size needs factors that take the time of many iterations.
    # Norm of the part of the error that rounding does not explain.
    beyond_rounding: Callable[[], float] = lambda: inf


def require_relative(rtol: object) -> float:
    """A relative tolerance as a float; raises InputError for one that no run can have."""
    relative = require_number("rtol", rtol)
    if not SMALLEST_RTOL <= relative < 1.0:
        raise InputError(f"rtol must be at least {SMALLEST_RTOL:g} and below 1; got {relative!r}")
    return relative


@dataclass(frozen=True)
class Tolerance:
    """Accuracy asked of every step."""

    # The error of unknown i counts in units of ``atol[i] + rtol abs(u[i])``, and that of an unknown of index
    # k is multiplied by min(1, h / tau)^(k - 1), but after the first step by no less than rtol: its local
    # error has k - 1 orders less, and does not accumulate. tau is eight times the time in which the solution
    # changes by its size, and before the first step at most half the interval. In equations of index 2 and
    # for unknowns above index 3 tau is a quarter of that; above index 3 the factor is multiplied by 2^(k-3).

    rtol: float  # Relative tolerance.
    # Shape (n,). Absolute tolerance; None for rtol times the sizes of the unknowns in the run, see
    # :class:`dae_sdc.dae.scales.Scales`.
    atol: Any
    left_out: tuple[str, ...] = field(default=())  # Unknowns whose error does not count.

    @classmethod
    def checked(
        cls, problem: ProblemDAE, rtol: object, atol: Any = None, left_out: Sequence[str] = ()
    ) -> Tolerance:
        """The tolerance a user asks for."""
        relative = require_relative(rtol)
        given = atol
        if atol is None and problem.given_nominal is not None:
            given = relative * np.asarray(problem.given_nominal, dtype=np.float64)
        if isinstance(left_out, str):
            raise InputError(f"leave_out must be a sequence of names, like [{left_out!r}]; got {left_out!r}")
        for name in left_out:
            if name not in problem.names:
                raise InputError(unknown("name in leave_out", name, problem.names))
        if len(left_out) and set(problem.names) <= set(left_out):
            raise InputError("leave_out has all unknowns; leave one of them for the error test")
        if given is None:
            return cls(relative, None, tuple(left_out))
        absolute: Any = np.array("")
        with suppress(ValueError):  # of rows of several lengths
            absolute = np.asarray(given)
        if absolute.dtype.kind not in "iuf":
            raise InputError(f"atol must be a number or one for each unknown; got {atol!r}")
        absolute = absolute.astype(np.float64)
        if absolute.shape not in ((), (problem.n,)):
            raise InputError(
                f"atol must be a number or an array of shape ({problem.n},); got shape {absolute.shape}"
            )
        if not ((absolute >= 0.0) & (absolute <= LARGEST_ATOL)).all():
            raise InputError(f"atol must be a number from 0 to {LARGEST_ATOL:g}; got {atol!r}")
        return cls(relative, absolute, tuple(left_out))

    def above_noise(self, problem: ProblemDAE) -> Tolerance:
        """The tolerance itself, or with a warning the smallest one that the noise of the equations allows."""
        least = 0.0 if problem.noise is None else NOISE_MARGIN * problem.noise.relative
        if self.rtol >= least:
            return self
        assert problem.noise is not None
        equation = problem.equation_names[int(np.argmax(problem.noise.absolute))]
        tell(
            f"the equations of {problem.name} are noisy, by {problem.noise.relative:.1e} of their "
            f"terms, most of all '{equation}'; rtol={self.rtol:g} is below what that allows and is taken as "
            f"{least:.1e}; compute F more exactly, or give a larger rtol"
        )
        absolute = None if self.atol is None else np.asarray(self.atol) * (least / self.rtol)
        return replace(self, rtol=least, atol=absolute)

    def check_start(self, problem: ProblemDAE, u0: Vector) -> None:
        """Raise InputError if the allowed error of an unknown is 0 at the start."""
        if self.atol is None:
            return
        allowed = self.atol + self.rtol * np.abs(u0.view(np.ndarray))
        for name, size in zip(problem.names, allowed.tolist(), strict=True):
            if size == 0.0 and name not in self.left_out:
                raise InputError(f"'{name}' begins at 0 and has atol 0, so no error is allowed; give an atol")

    def weights_of(
        self, problem: ProblemDAE, factor: float, size: int | None = None, plain: bool = False
    ) -> Weights:
        """The weights of all or the first unknowns, ``plain`` ones at any index, for ``factor`` times it."""
        size = problem.n if size is None else size
        absolute = None if self.atol is None else (np.ones(problem.n) * self.atol)[:size] * factor
        exponents = np.array(problem.variable_index[:size], dtype=np.int64) - 1
        if plain:
            exponents[:] = 0
        counted, highest = np.ones(size), int(exponents.max(initial=0))
        part, high = TIME_PART_LET_GO, 1.0
        if highest == 1 and self.rtol >= FINEST_AT_INDEX_2:
            part, high = TIME_PART, max(1.0, SHARE_AT_INDEX_2 * factor)
        if self.left_out:
            counted[[name in self.left_out for name in problem.names[:size]]] = 0.0
        return Weights(absolute, self.rtol * factor, exponents, counted, problem.run_scales, part, high)


def less_accurate(problem: ProblemDAE, tolerance: Tolerance) -> str:
    """Which unknowns of index 2 and higher a run has held to less than its tolerance, and to what, if any."""
    scales, indices, rtol = problem.run_scales, np.array(problem.variable_index), tolerance.rtol
    if not (indices > 1).any():
        return ""
    sizes = np.maximum(scales.unknowns, scales.expected)
    if tolerance.atol is not None:
        sizes = np.maximum(sizes, np.asarray(tolerance.atol) / rtol)
    # They are kept relative to values from 1 on, which are many where all of an unknown's are smaller.
    parts = np.where(indices > 1, scales.errors / np.clip(sizes, TINY, 1.0), 0.0)
    held = indices.max() == 2 and rtol >= FINEST_AT_INDEX_2
    least = TOLD_FROM_AT_INDEX_2 if held else TOLD_FROM
    loose = np.flatnonzero(parts > least * rtol)
    if not loose.size:
        return ""
    names = brief([problem.names[j] for j in loose[np.argsort(-parts[loose], kind="stable")].tolist()], 8)
    return (
        f"{names} of index {int(indices[loose].max())}: errors up to {parts.max():.1g} of their sizes, more "
        f"than rtol={rtol:g}; reduce the index for more accuracy"
    )


def in_one_piece(places: Any) -> Any:
    """Places as a slice where they are numbers in a row, which takes a view and not a copy."""
    if len(places) and np.array_equal(places, np.arange(places[0], places[0] + len(places))):
        return slice(int(places[0]), int(places[0]) + len(places))
    return places


@dataclass(eq=False)
class Weights:
    """Weights of errors: 1 / (atol + rtol abs(u)), times min(1, h / tau)^(k - 1) at index k, or 0."""

    atol: Vector | None  # This, exponents and counted have the shape (n,).
    rtol: float
    exponents: Any
    counted: Vector
    scales: Scales
    part: float = TIME_PART
    high: float = 1.0
    least_factor: float = 0.0

    def __post_init__(self) -> None:
        self._sizes = self.scales.unknowns[: len(self.counted)]
        higher = [k for k in sorted(set(self.exponents.tolist())) if k > 0]
        self._scaled = [(k, in_one_piece(np.flatnonzero(self.exponents == k))) for k in higher]
        self.lets_go = bool(self._scaled) and self.part == TIME_PART_LET_GO
        self._least = 1.0 if self.atol is None else np.maximum(1.0, self.atol / self.rtol)

    def see(
        self,
        error: Vector,
        u: Vector | None = None,
        nodes: int = 1,
        growth: Any = 1.0,
        sizes: Vector | None = None,
    ) -> None:
        """Keep the estimated errors of accepted steps, in rows, relative to the unknowns from size 1 on."""
        # Those at the end u of a step of Radau IIA that is growth times as long as the last: the jump of an
        # unknown of index k between both has r = growth^(M + 2 - k) parts of it and M of the last one, as
        # pi'(1) = M |pi'(0)| for pi(t) = t (t - c_1) ... (t - c_M), and so for the derivative of what takes
        # the values of pi' at 0 and the nodes. The error has M r parts; above index 2 at least the estimate.
        # The sizes of unknowns are those known when each of the steps began, if not those of now.
        if not self._scaled or (u is None and not self.lets_go):
            return
        sizes, factor = self._sizes if sizes is None else sizes, np.ones(1)
        if u is not None and not self.lets_go:
            sizes = np.abs(u)
        if u is not None:
            r = np.minimum(growth, MOST_STEP_GROWTH) ** (nodes + 1 - self.exponents)
            factor = np.maximum(nodes * np.maximum(1.0, r) / (nodes + r), self.exponents > 1)
        seen = self.scales.errors[: len(self.counted)]
        errors = np.atleast_2d(factor * np.abs(error) / np.maximum(self._least, sizes))
        np.maximum(seen, errors.max(axis=0), out=seen)

    def of_stages(self, stages: Vector, h: float) -> Vector:
        """The weights by the largest values of unknowns at the stages of a step, and by their sizes."""
        out: Vector = np.abs(stages).max(axis=0)
        if self.atol is None:
            out += self._sizes
            out *= self.rtol
        else:
            out *= self.rtol
            out += self.atol
        np.maximum(out, TINY, out=out)
        np.divide(1.0, out, out=out)
        for k, where in self._scaled:
            part, first = self.part, 1.0
            if k > 2:
                part, first = TIME_PART_AT_INDEX_4, TIME_PART_AT_INDEX_4 ** (2 - k)
            out[where] *= (
                self.high * first * max(min(1.0, part * h * self.scales.rate) ** k, self.least_factor)
            )
        out *= self.counted
        return out


SMALLEST_NODE_TOLERANCE = 1e-14  # Smallest tolerance of the solve at a node.
# Rounding error of multipliers at the stages, relative to that of one implicit step of the same size: the
# inverse nodes enter once or twice.
MULTIPLIER_AMPLIFICATION = 1000.0
# Likewise for other unknowns, into which the errors of multipliers are integrated.
AMPLIFICATION_OF_OTHERS = 10.0
# Part of the tolerance that rounding may take of unknowns that are no multipliers.
ROUNDING_SHARE = 0.01


class Operators(NamedTuple):
    """A kept iteration matrix dF/du' + c dF/du."""

    mass: Callable[[Vector], Vector]  # Function that multiplies a vector, shape (n,), by dF/du'.
    # Function that multiplies a vector, shape (n,), by the inverse of the iteration matrix.
    solve: Callable[[Vector], Vector]


def operators_at(problem: ProblemDAE, u: Vector, du: Vector, t: float, c: float) -> Operators:
    """The iteration matrix dF/du' + c dF/du, evaluated and factorised at a point."""
    parts = linearize(problem, u, du, t)
    solver = problem.linear_solver
    problem.work_counters["factorization"].niter += 1
    factors = factorize(parts.iteration_matrix(c, problem.n), "auto" if solver == "gmres" else solver)
    return Operators(lambda v: np.asarray(parts.mass @ v), factors.solve)


def multipliers(problem: ProblemDAE) -> npt.NDArray[np.bool_]:
    """Mask of unknowns whose rounding error short steps amplify: of index 2 and 3, or of one not known."""
    # From index 4 on short steps leave no correct digit of these unknowns.
    index = np.array(problem.variable_index)
    return np.asarray((problem.index is None) | (index > 1) & (index.max(initial=0) <= 3))


def rounding_noise(
    problem: ProblemDAE,
    u: Vector,
    du: Vector,
    t: float,
    c: float,
    which: npt.NDArray[np.bool_],
    by_sizes: bool = False,
) -> Vector | None:
    """Error of unknowns by rounding of F in an implicit step, of constants ``by_sizes``; None if singular."""
    # Shapes: u and du (n,), which (n,).
    try:
        parts = linearize(problem, u, du, t)
        factors = factorize(parts.iteration_matrix(c, problem.n), "auto")
    except SolveError:
        return None
    terms = parts.terms(u, du)
    if by_sizes and hasattr(problem, "residual_sizes"):
        terms = np.maximum(terms, problem.residual_sizes(u, du, t))
    found = [np.abs(factors.solve(c * problem.round_off * terms * one)) for one in directions(len(u))]
    largest_of_all = np.maximum(np.max(found, axis=0), TINY)
    return np.asarray(largest_of_all * np.where(which, MULTIPLIER_AMPLIFICATION, AMPLIFICATION_OF_OTHERS))
