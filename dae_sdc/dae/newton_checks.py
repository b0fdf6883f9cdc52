"""Checks of Newton's method: whether a residual is as small as its corrections suggest, and a Jacobian right.

It converges with a Jacobian that is somewhat off, only slower. With one that is far off its corrections say
nothing of the error, and nothing in the iteration itself shows that.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.jacobian import NOISE_LIMIT, Linearization, linearize
from dae_sdc.dae.linear import factorize
from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, JacobianError, SolveError

# Largest residual in units of the change of its equation by a change of the unknowns that is tolerated.
# Corrections are measured in another norm, and directions may cancel.
RESIDUAL_FACTOR = 100.0
LEAST_RELATIVE_STEP = 1e-8  # Relative change of the unknowns below which rounding would hide that of F.
# Multiple of the change of F by rounding the unknowns up to which a residual is accepted.
RESIDUAL_NOISE = 50.0
RESIDUAL_ROUNDING = 2.0**-50  # Relative change of the unknowns by rounding.

DIRECTIONS = 3  # Most directions in which the unknowns are changed, until the residual is accepted.


@functools.lru_cache(maxsize=16)
def directions(size: int, count: int = DIRECTIONS) -> Vector:
    """Seeded random directions whose entries have sizes from 1/2 to 1, shape (count, size)."""
    generator = np.random.default_rng(20)
    sizes = generator.uniform(0.5, 1.0, (count, size))
    signed: Vector = np.where(generator.random(sizes.shape) < 0.5, -sizes, sizes)
    signed.setflags(write=False)
    return signed


def above_noise(left: Vector, problem: ProblemDAE) -> Vector:
    """Absolute values of residuals less the noise of the equations, where that is known, and at least 0."""
    # Shapes: left (n,) or (M n,).
    if problem.noise is None:
        return left
    return np.maximum(left - NOISE_LIMIT * np.resize(problem.noise.absolute, len(left)), 0.0)


def is_small(left: Vector, base: Vector, relative: float, changed: Callable[[float, Vector], Vector]) -> bool:
    """Whether each entry of a residual is no larger than what tolerated changes of unknowns make of F."""
    # Unknowns are changed along random directions by as much as their error may be, or by more where that
    # would be lost in rounding.
    # Shapes: left (N,), base (N,).
    enlarged, allowed = max(1.0, LEAST_RELATIVE_STEP / relative), np.zeros_like(left)
    with np.errstate(all="ignore"):
        for direction in directions(len(left)):
            value = _finite(changed, enlarged, direction)
            if value is None:
                return True
            np.maximum(allowed, np.abs(value - base) * (RESIDUAL_FACTOR / enlarged), out=allowed)
            if (left <= allowed).all():
                return True
        for direction in directions(len(left)):
            value = _finite(changed, RESIDUAL_ROUNDING / relative, direction)
            if value is not None:
                np.maximum(allowed, np.abs(value - base) * RESIDUAL_NOISE, out=allowed)
        return bool((left <= allowed).all())


def _finite(changed: Callable[[float, Vector], Vector], factor: float, direction: Vector) -> Vector | None:
    """F at a changed point, on the other side where it is not defined there; None where it is on neither."""
    for sign in (1.0, -1.0):
        value = changed(sign * factor, direction)
        if np.isfinite(value).all():
            return value
    return None


COMPARISON_STEP = 1e-5  # Change of the unknowns in a central difference, relative to their sizes.
# Relative difference between a product with the Jacobian and a difference that needs no explanation.
COMPARISON_SLACK = 1e-4
# Multiple of the difference between forward and backward differences that bounds their error.
COMPARISON_SPREAD = 4.0
# Contraction of Newton's iteration, undamped or damped by a half, from which on a Jacobian is useless.
USELESS_CONTRACTION = 0.95
POWER_ITERATIONS = 12  # Power iterations that measure the contraction.
# FAILURES_IN_A_ROW, FAILURES_ALTOGETHER: failed steps, in a row and altogether, from which on a run with a
# wrong Jacobian ends.
FAILURES_IN_A_ROW = 10
FAILURES_ALTOGETHER = 200
MOST_CRAWLING_STEPS = 1000  # Steps held up by slow contraction after which such a run ends.


class WrongEntry(NamedTuple):
    """An entry of a Jacobian that differences of F contradict."""

    # equation, unknown: row and column.
    equation: int
    unknown: int
    of_derivative: bool  # Whether it belongs to dF/du' rather than to dF/du.
    # given, found: its value, and that of a central difference.
    given: float
    found: float

    def text(self, problem: ProblemDAE, t: float) -> str:
        """What is wrong, for messages."""
        prime = "'" if self.of_derivative else ""
        source = "jacobian_kernel" if problem.jacobian_kernel is not None else "jacobian"
        factor = ""
        if self.found and self.given:
            factor = f", a factor of {self.given / self.found:.3g}"
        return (
            f"{source} of {problem.name} disagrees with differences of F at t={t:.6g}: "
            f"d({problem.equation_names[self.equation]}) / d({problem.names[self.unknown]}{prime}) is "
            f"{self.given:.6g} where they give {self.found:.6g}{factor}"
        )


def gives_jacobian(problem: ProblemDAE) -> bool:
    """Whether a problem has a Jacobian that somebody wrote, and not one that follows from its residual."""
    given = getattr(problem, "jacobian", None)
    return given is not None and not getattr(given, "follows_from_residual", False)


def unknown_sizes(problem: ProblemDAE, u: Vector, du: Vector) -> tuple[Vector, Vector]:
    """Sizes of the unknowns and of their derivatives, by which they are changed in differences."""
    # Shapes: u and du (n,) -> of_u, of_du (n,).
    nominal = np.broadcast_to(np.abs(np.asarray(problem.nominal, dtype=np.float64)), u.shape)
    sizes = np.where(u != 0.0, np.maximum(np.abs(u), 1e-6 * nominal), nominal)
    span = abs(problem.interval[1] - problem.interval[0]) or 1.0
    return sizes, np.where(du != 0.0, np.abs(du), sizes / span)


class _Differences:
    """Central differences of F about one point, and how far products with a Jacobian are from them."""

    def __init__(
        self, problem: ProblemDAE, linearization: Linearization, u: Vector, du: Vector, t: float
    ) -> None:
        self.problem, self.u, self.du, self.t = problem, u, du, t
        self.base = self._at(u, du)
        self.halves: tuple[Any, Any] = linearization.stiffness, linearization.mass
        self._terms_of = linearization.terms
        self._terms = linearization.terms(u, du) + np.abs(self.base)

    def _at(self, u: Vector, du: Vector) -> Vector:
        return np.array(self.problem.evaluate(u, du, self.t))

    def along(self, of_u: Vector, of_du: Vector, step: float) -> tuple[Vector, Vector]:
        """The derivative of F along a direction, and its uncertainty by the two sides; shape (n,) each."""
        ahead = self._at(self.u + step * of_u, self.du + step * of_du)
        behind = self._at(self.u - step * of_u, self.du - step * of_du)
        return (ahead - behind) / (2.0 * step), np.abs(ahead - 2.0 * self.base + behind) / step

    def excess(self, of_u: Vector, of_du: Vector, step: float) -> Vector:
        """How many times more than differences explain the products with a direction are off, shape (n,)."""
        slope, spread = self.along(of_u, of_du, step)
        stiffness, mass = self.halves
        allowed = COMPARISON_SLACK * (self._terms_of(of_u, of_du) + np.abs(slope))
        allowed += COMPARISON_SPREAD * spread + 100.0 * np.finfo(float).eps * self._terms / step
        off = np.abs(mass @ of_du + stiffness @ of_u - slope) / np.maximum(allowed, np.finfo(float).tiny)
        return np.where(np.isfinite(off), off, 0.0)


def wrong_entry(
    problem: ProblemDAE, linearization: Linearization, u: Vector, du: Vector, t: float
) -> WrongEntry | None:
    """An entry of dF/du' or dF/du that is off by more than differences of F explain."""
    # The matrices are multiplied by a random direction and compared with the derivative of F along it, three
    # evaluations. Where they differ, each of them is looked at by itself.
    # Shapes: u and du (n,).
    sizes = unknown_sizes(problem, u, du)
    with np.errstate(all="ignore"):
        differences = _Differences(problem, linearization, u, du, t)
        (direction,) = directions(len(u), 1)
        both = direction * sizes[0], direction[::-1] * sizes[1]
        if not (differences.excess(*both, COMPARISON_STEP) > 1.0).any():
            return None
        of_slopes = _wrong_entry_of(differences, True, sizes[1])
        return of_slopes or _wrong_entry_of(differences, False, sizes[0])


def _wrong_entry_of(differences: _Differences, of_derivative: bool, size: Vector) -> WrongEntry | None:
    """A wrong entry of one of the halves; halving the set of unknowns finds its column."""
    none = np.zeros(len(size))

    def pair(direction: Vector) -> tuple[Vector, Vector]:
        return (none, direction) if of_derivative else (direction, none)

    first, second = directions(len(size), 2) * size
    rows = differences.excess(*pair(first), COMPARISON_STEP)
    if (rows > 1.0).any():  # a second direction has to confirm it
        rows = np.minimum(rows, differences.excess(*pair(second), 0.3 * COMPARISON_STEP))
    row = int(np.argmax(rows))
    if rows[row] <= 1.0:
        return None
    low, high = 0, len(size)
    while high - low > 1:
        middle, parts = (low + high) // 2, np.zeros((2, len(size)))
        parts[0, low:middle], parts[1, middle:high] = first[low:middle], first[middle:high]
        before, after = (differences.excess(*pair(part), COMPARISON_STEP)[row] for part in parts)
        low, high = (middle, high) if after > before else (low, middle)
    column, direction = low, np.zeros(len(size))
    direction[column] = size[column]
    slope = differences.along(*pair(direction), COMPARISON_STEP)[0][row] / size[column]
    entry = differences.halves[of_derivative][row, column]
    return WrongEntry(row, column, of_derivative, float(entry), float(slope))


def contraction(
    problem: ProblemDAE, linearization: Linearization, u: Vector, du: Vector, t: float, c: float
) -> float:
    """By how much Newton's iteration with a given matrix reduces errors, at a point and a coefficient c."""
    # The spectral radius of I - theta (M + c J)^{-1} (F_u' + c F_u) with the given M and J, F by differences,
    # for theta = 1 and 1/2, whichever is less, by power iteration. Infinite for a singular matrix.
    try:
        factors = factorize(linearization.iteration_matrix(c, problem.n), "auto")
    except SolveError:
        return np.inf
    of_u, of_du = unknown_sizes(problem, u, du)
    sizes = of_u / c + of_du
    rates = []
    with np.errstate(all="ignore"):
        differences = _Differences(problem, linearization, u, du, t)
        for damping in (1.0, 0.5):
            v, growth = directions(len(u), 1)[0] * sizes, []
            for _ in range(POWER_ITERATIONS):
                v = v / np.abs(v / sizes).max()
                slope, _ = differences.along(c * v, v, 0.1 * COMPARISON_STEP)
                v = v - damping * factors.solve(slope)
                growth.append(float(np.abs(v / sizes).max()))
                if not 1e-6 < growth[-1] < np.inf:
                    break
            last = growth[-4:]
            rates.append(float(np.prod(last)) ** (1.0 / len(last)))
    return float(np.nanmin(rates)) if np.isfinite(rates).any() else 0.0


MOST_COMPARED = 4  # Sets of parameters with which a Jacobian is compared in a process.
# Jacobians and parameters of the classes that have been compared in this process.
_COMPARED: weakref.WeakKeyDictionary[type, set[Any]] = weakref.WeakKeyDictionary()


class JacobianWatch:
    """Compares a given Jacobian with differences in the first two steps of a class, and where steps fail."""

    def __init__(self, problem: ProblemDAE, may_shrink: bool) -> None:
        self.problem, self._may_shrink = problem, may_shrink
        self._given = gives_jacobian(problem)
        known = _COMPARED.setdefault(type(problem), set())
        given = getattr(problem, "jacobian", None)
        self._jacobian = id(getattr(given, "__func__", given))
        alike = sum(jacobian == self._jacobian for jacobian, _ in known)
        compared = alike >= MOST_COMPARED or self._key in known
        # Beside the start, where much may vanish, the end of the first step is looked at.
        self._at_start = self._behind_start = self._given and not compared
        self._kernels_checked = compared or problem.residual_kernel is None
        self.in_a_row = self._failures = self._crawled = 0
        # Steps that may fail one after the other before :meth:`failed` looks at the next.
        self.most_in_a_row = 1.0 if self._given else np.inf
        self._look_at = 2

    @functools.cached_property
    def _key(self) -> tuple[int, str]:
        return self._jacobian, str(sorted(self.problem.params.items()))

    @property
    def looks(self) -> bool:
        """Whether :meth:`begin` has still to check something."""
        return self._at_start or self._behind_start or not self._kernels_checked

    def begin(self, u0: Any, t: float, dt: float) -> None:
        """Check the Jacobian at the start of a step, of the first two alone."""
        if not self._kernels_checked:
            self._check_kernels(u0, t)
            if not self._given:
                _COMPARED[type(self.problem)].add(self._key)
        if not (self._at_start or self._behind_start):
            return
        if u0.polynomial is not None:
            self._behind_start = False
        elif not self._at_start:
            return
        self._at_start = False
        # Only the first run of a class looks, and the work of a run must not depend on that.
        with uncounted(self.problem):
            wrong = self._wrong(u0.view(np.ndarray), u0.derivative(), t, (dt, 1e-3 * dt, 1e-6 * dt))
        if wrong:
            raise InputError(
                f"{wrong}, and Newton's method does not converge with it; correct it, or leave it out"
            )
        if not self._behind_start:
            _COMPARED[type(self.problem)].add(self._key)

    def _check_kernels(self, u0: Any, t: float) -> None:
        """Refuse kernels that write to their arguments: nothing guards the memory that they are given."""
        self._kernels_checked = True
        problem = self.problem
        # Beside the start, which may already have been written to.
        u = np.array(u0) + 1e-6 * (1.0 + np.abs(u0))
        du = np.linspace(1e-6, 2e-6, problem.n)
        p, before = problem.packed_parameters, (u.copy(), du.copy())
        kept = p.copy()
        for name in ("residual_kernel", "jacobian_kernel")[: 1 + self._given]:
            call: Any = problem.eval_f if name == "residual_kernel" else problem.jacobian
            call(u, du, t, *((1.0,) if name == "jacobian_kernel" else ()))
            after = zip((u, du, p), (*before, kept), ("u", "du", "p"), strict=True)
            for now, then, argument in after:
                if not np.array_equal(now, then, equal_nan=True):
                    raise InputError(
                        f"{name} of {problem.name} writes to its argument {argument}; let it write "
                        f"to out alone"
                    )

    def _wrong(self, u: Vector, du: Vector, t: float, coefficients: tuple[float, ...]) -> str:
        """What is wrong, if Newton's method converges with no coefficient; else empty."""
        found = self._entry(u, du, t)
        if found is None:
            return ""
        linearization, entry = found
        known = coefficients if self._may_shrink else coefficients[:1]
        useless = (
            contraction(self.problem, linearization, u, du, t, c) >= USELESS_CONTRACTION for c in known
        )
        return entry.text(self.problem, t) if all(useless) else ""

    def _entry(self, u: Vector, du: Vector, t: float) -> tuple[Linearization, WrongEntry] | None:
        problem, u, du = self.problem, np.array(u), np.array(du)
        if not (np.isfinite(u).all() and np.isfinite(du).all()):
            return None
        try:
            with np.errstate(all="ignore"):
                linearization = linearize(problem, u, du, t)
        except SolveError:
            return None
        entry = wrong_entry(problem, linearization, u, du, t)
        return None if entry is None else (linearization, entry)

    def succeeded(self, crawls: int) -> None:
        """Steps were solved, so many of which slow contraction held up."""
        self.in_a_row = 0
        self._crawled += crawls
        if self._crawled >= MOST_CRAWLING_STEPS:
            self._crawled = 0
            self._failures = FAILURES_ALTOGETHER

    def went_ahead(self, solved: int, crawls: int, failed: int, in_a_row: int) -> None:
        """So many steps were solved, and so many were not, the last ones ``in_a_row``."""
        if solved:
            self.succeeded(crawls)
        self._failures += failed
        self.in_a_row = in_a_row

    def failed(self, points: Any, dt: float) -> None:
        """A step was not solved."""
        self._failures += 1
        self.in_a_row += 1
        hopeless = self.in_a_row >= FAILURES_IN_A_ROW or self._failures >= FAILURES_ALTOGETHER
        if not self._given or self.in_a_row < 2 or not (hopeless or self.in_a_row >= self._look_at):
            return
        # Each look that finds nothing lets the next wait for more: steps fail for other reasons, too.
        self._look_at *= 2
        for u, du, t in points:
            wrong = self._wrong(u, du, t, (dt,))
            if not wrong and hopeless:
                found = self._entry(u, du, t)
                wrong = "" if found is None else found[1].text(self.problem, t)
            if wrong:
                raise JacobianError(
                    f"{wrong}, and no step can be solved with it; correct it, or leave it out"
                )


def jacobian_note(problem: ProblemDAE, u: Vector, du: Vector, t: float) -> str:
    """What to add to the message of a failed solve: the wrong entry of a given Jacobian, if there is one."""
    # Shapes: u and du (n,).
    if not gives_jacobian(problem):
        return ""
    wrong = JacobianWatch(problem, False)._entry(u, du, t)
    return "" if wrong is None else f"; {wrong[1].text(problem, t)}"
