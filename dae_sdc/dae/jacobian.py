"""The halves of a Jacobian, dF/du' and dF/du, by the problem or differences; derivatives of functions."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.linear import Matrix, column_groups, largest
from dae_sdc.dae.memory import STEP
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.dae.values import undefined
from dae_sdc.deadline import check
from dae_sdc.errors import EvaluationError, InputError
from dae_sdc.sharing import filtering

ROOT_EPS = float(np.sqrt(np.finfo(float).eps))

# Change of F, in standard deviations of its noise, below which a difference is taken to be zero.
NOISE_LIMIT = 10.0


@dataclass(frozen=True)
class Linearization:
    """dF/du' (``mass``) and dF/du (``stiffness``) at one point; any iteration matrix is made from them."""

    mass: Matrix
    stiffness: Matrix

    @property
    def dense(self) -> tuple[Vector, Vector]:
        """Both halves as arrays."""
        halves: tuple[Any, Any] = self.mass, self.stiffness
        mass, stiffness = (half.toarray() if sparse.issparse(half) else np.asarray(half) for half in halves)
        return mass, stiffness

    def terms(self, u: Vector, du: Vector) -> Vector:
        """Sum of the absolute terms of each equation, the scale of its round-off; shape (n,)."""
        return np.asarray(abs(self.mass) @ np.abs(du) + abs(self.stiffness) @ np.abs(u))

    def depends_on_derivative(self, first: int) -> bool:
        """Whether F depends on the derivative of an unknown from number ``first`` on."""
        mass: Any = self.mass
        entries = mass.data[mass.indptr[first] :] if sparse.issparse(mass) else mass[:, first:]
        return bool(entries.any())

    def iteration_matrix(self, c: float, n_integrated: int) -> Matrix:
        """The matrix of a node whose value is u = r + c u'."""
        # Shape of the result: (n, n).
        matrix = _combined(self.mass, c, self.stiffness)
        if c == 0.0 and n_integrated < matrix.shape[0]:
            if sparse.issparse(matrix):
                kept, own = self.mass[:, :n_integrated], self.stiffness[:, n_integrated:]
                return sparse.hstack([kept, own], format="csc")
            matrix[:, n_integrated:] = self.stiffness[:, n_integrated:]
        return matrix


def linearize(problem: ProblemDAE, u: Vector, du: Vector, t: float, accurate: bool = False) -> Linearization:
    """Both halves of the Jacobian at (u, u', t), dense or CSC, by the problem's ``jacobian`` or differences.

    With ``accurate``, differences in u are of order 6 too, with errors near round-off: the errors of a simple
    difference, about 1e-8, would change ranks.
    """
    # Shapes: u and du (n,).
    problem.work_counters["jacobian"].niter += 1
    u, du = (x if type(x) is MeshDAE else attach(x, problem.n_diff) for x in (u, du))
    given: Any = getattr(problem, "jacobian", None)
    if given is not None:
        # In units of time of the solution, so that neither half drowns in the other.
        c = problem.run_scales.time
        try:
            pair = given(u, du, t, 0.0), given(u, du, t, c)
        except (ArithmeticError, ValueError) as error:
            if not undefined(error):
                raise
            raise EvaluationError(
                f"jacobian of {problem.name} is not defined at t={t:.6g} ({error}); "
                f"check the state there, or reduce dt"
            ) from None
        mass = checked_matrix(problem, pair[0])
        stiffness = _combined(checked_matrix(problem, pair[1]), -1.0, mass)
        if c != 1.0:
            stiffness = stiffness / c
        if _finite(mass) and _finite(stiffness):
            return Linearization(mass, stiffness)
    # A formula may be 0 times infinity where the derivative exists, as sqrt(abs(x)) x^3 at 0.
    if given is None or problem.jacobian_is_derived:
        mass, stiffness = _differences(problem, u, du, t, accurate)
    for half, symbol in ((mass, "dF/du'"), (stiffness, "dF/du")):
        if not _finite(half):
            raise EvaluationError(
                f"{symbol} of {problem.name} has a NaN or infinite entry at t={t:.6g}; "
                f"check the state there, or reduce dt"
            )
    return Linearization(mass, stiffness)


def _finite(half: Matrix) -> bool:
    entries: Any = half if type(half) is np.ndarray or not sparse.issparse(half) else half.data
    return largest(entries.ravel()) < np.inf


def _combined(first: Any, factor: float, second: Any) -> Any:
    """first + factor * second; by their entries alone where both are CSC matrices of one pattern."""
    both = type(first) is not np.ndarray and sparse.issparse(first) and sparse.issparse(second)
    if both and len(first.data) == len(second.data):
        pairs = (first.indptr, second.indptr), (first.indices, second.indices)
        same = all(own is other or np.array_equal(own, other) for own, other in pairs)
        # Matrices that share their indices must have them in order: SuperLU sorts others, in place.
        if same and first.has_canonical_format:
            data = factor * second.data
            data += first.data
            return type(first)((data, first.indices, first.indptr), shape=first.shape)
    return first + factor * second


def checked_matrix(problem: ProblemDAE, matrix: Any) -> Any:
    """The matrix that ``jacobian`` returned, checked, of doubles, dense or CSC as in its first call."""
    dense = type(matrix) is np.ndarray and problem.__dict__.get("_jacobian_is_sparse") is False
    if dense and matrix.dtype == np.float64 and matrix.shape == (problem.n, problem.n):
        return matrix  # asking whether it is sparse takes longer than all the rest
    try:
        if sparse.issparse(matrix):
            require_indices(matrix, f"{problem.name}.jacobian")
            matrix = matrix.tocsc()
        else:
            matrix = np.asarray(matrix)
        if matrix.dtype.kind not in "biuf":
            raise TypeError(f"entries of type {matrix.dtype}")
        matrix = matrix.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{problem.name}.jacobian must return real numbers of shape "
            f"({problem.n}, {problem.n}); got {str(error).splitlines()[0]}"
        ) from None
    if matrix.shape != (problem.n, problem.n):
        raise InputError(
            f"{problem.name}.jacobian must return shape ({problem.n}, {problem.n}); got {matrix.shape}"
        )
    # Solvers keep the kind of matrix they have begun with.
    kept_sparse = problem.__dict__.setdefault("_jacobian_is_sparse", sparse.issparse(matrix))
    if kept_sparse != sparse.issparse(matrix):
        matrix = sparse.csc_matrix(matrix) if kept_sparse else matrix.toarray()
    return matrix


def require_indices(matrix: Any, name: str) -> None:
    """Refuse a compressed sparse matrix with indices outside of it, which compiled code would follow."""
    if matrix.format not in ("csc", "csr"):
        return
    long, wide = matrix.shape if matrix.format == "csc" else matrix.shape[::-1]
    pointers, indices = matrix.indptr, matrix.indices
    bad = len(pointers) != wide + 1 or pointers[0] != 0 or bool((np.diff(pointers) < 0).any())
    bad = bad or pointers[-1] > min(len(indices), len(matrix.data))
    if not bad and indices.size:
        bad = bool(indices.min() < 0 or indices.max() >= long)
    if bad:
        raise InputError(
            f"{name} is a {matrix.format.upper()} matrix of shape {matrix.shape} with indices outside of it; "
            f"check indices and indptr, matrix.check_format() tells more"
        )


class _Colouring(NamedTuple):
    """The pattern of a problem and its groups of columns, by which the Jacobian is differenced."""

    given: Any
    pattern: Any
    groups: list[npt.NDArray[np.intp]]


_COLOURINGS: weakref.WeakKeyDictionary[ProblemDAE, _Colouring] = weakref.WeakKeyDictionary()


def _colouring(problem: ProblemDAE) -> _Colouring:
    """The colouring of a problem, made once for a pattern."""
    known = _COLOURINGS.get(problem)
    if known is not None and known.given is problem.sparsity:
        return known
    n = problem.n
    if sparse.issparse(problem.sparsity):
        require_indices(problem.sparsity, f"{problem.name}.sparsity")
    # A copy, because its indices are put in order.
    pattern = sparse.csc_matrix(problem.sparsity, dtype=np.float64, copy=True)
    if pattern.shape != (n, n):
        raise InputError(f"{problem.name}.sparsity must have shape ({n}, {n}); got {pattern.shape}")
    pattern.sum_duplicates()
    colouring = _COLOURINGS[problem] = _Colouring(problem.sparsity, pattern, column_groups(pattern))
    return colouring


def groups_of_columns(problem: ProblemDAE) -> list[Any]:
    """Columns of the Jacobian that differences find together: by the sparsity where it is given."""
    if problem.sparsity is None:
        return [np.array([j]) for j in range(problem.n)]
    return _colouring(problem).groups


# Increments of differences relative to the sizes of the unknowns, and formulas. An error of dF/du' counts as
# itself, while dF/du is multiplied by the step size: where dF/du' is singular, as in every DAE, short steps
# need all its digits. FORWARD_INCREMENT, CENTRAL_INCREMENT, SIXTH_ORDER_INCREMENT: increments of formulas of
# order 1, 2 and 6.
FORWARD_INCREMENT = ROOT_EPS
CENTRAL_INCREMENT = 2.0**-17
SIXTH_ORDER_INCREMENT = 2.0**-9
# Departure of F from a linear function of u', relative to its terms, that counts as round-off.
LINEAR_DEPARTURE = 2.0**-46
# SUSPECTED_JUMP, CERTAIN_JUMP: difference of the changes of F over the two halves of an increment, relative
# to their sum, above which a jump is looked for, and above which it is one: 1 at a jump, 1/2 at an extremum,
# 0 at a kink.
SUSPECTED_JUMP = 0.3
CERTAIN_JUMP = 0.75

# Points, in increments, and weights of differences by their order; the weight of the base is left out.
_FORMULAS = {
    1: ((1.0, 1.0),),
    2: ((1.0, 0.5), (-1.0, -0.5)),
    6: tuple((k, w / 60.0) for k, w in ((1, 45), (-1, -45), (2, -9), (-2, 9), (3, 1), (-3, -1))),
}

_IMPROVED: weakref.WeakSet[ProblemDAE] = weakref.WeakSet()


def may_improve_differences(problem: ProblemDAE) -> bool:
    """Whether Jacobians are differenced, and not by higher orders yet."""
    return getattr(problem, "jacobian", None) is None and problem not in _IMPROVED


def improve_differences(problem: ProblemDAE) -> bool:
    """Let Jacobians be differenced by higher orders from here on: short steps need more digits."""
    improves = may_improve_differences(problem)
    if improves:
        _IMPROVED.add(problem)
    return improves


def _differences(problem: ProblemDAE, u: MeshDAE, du: MeshDAE, t: float, accurate: bool) -> tuple[Any, Any]:
    """Differences of F in u' and in u, by groups of columns; large increments where F is linear in u'."""
    base = problem.evaluate(u, du, t).copy()  # eval_f may return the same array every time
    improved = accurate or problem in _IMPROVED
    with np.errstate(all="ignore"):
        scales = problem.run_scales
        sizes = np.maximum(scales.unknowns, np.abs(u.view(np.ndarray)))
        rates = np.maximum(scales.rates, np.abs(du.view(np.ndarray)))
        for known in (sizes, rates):  # some are 0 where the Jacobian was not to be differenced
            known[known == 0.0] = known.max() or 1.0
        # Where derivatives are much larger than expected at the start, all increments grow with the largest.
        slopes = rates * np.maximum(
            1.0, 0.1 * (rates / np.where(scales.rates > 0.0, scales.rates, rates)).max()
        )
        slopes = np.exp2(np.ceil(np.log2(slopes)))
        linear = _is_linear_in_slope(problem, u, du, t, base, slopes)
        order = 1 if linear else 6 if improved else 2
        steps = slopes if linear else slopes * _increment(problem, order)
        mass = _difference(problem, u, du, t, base, steps, order, False)
        order = 6 if accurate else 2 if improved else 1
        stiffness = _difference(problem, u, du, t, base, sizes * _increment(problem, order), order, True)
        if order == 2 and not _finite(stiffness):
            # Sizes of unknowns at 0 are those for which the shorter increments of order 1 stay where F is.
            stiffness = _difference(problem, u, du, t, base, sizes * _increment(problem, 1), 1, True)
    return mass, stiffness


def _increment(problem: ProblemDAE, order: int) -> float:
    """Relative increment of a formula, at which its own error is about that by round-off or noise."""
    exact = {1: FORWARD_INCREMENT, 2: CENTRAL_INCREMENT, 6: SIXTH_ORDER_INCREMENT}[order]
    return max(exact, float(problem.round_off ** (1.0 / (order + 1.0))) if problem.noise is not None else 0.0)


def _is_linear_in_slope(
    problem: ProblemDAE, u: MeshDAE, du: MeshDAE, t: float, base: Vector, sizes: Vector
) -> bool:
    """Whether F changes along a direction in u' as a linear function, to round-off."""
    # No two entries are alike, so that nothing cancels.
    direction = sizes * np.cos(1.0 + np.arange(len(sizes)))
    once, twice = (np.array(problem.evaluate(u, du.view(np.ndarray) + k * direction, t)) for k in (1.0, 2.0))
    scale = np.abs(base) + np.abs(once) + np.abs(twice) + np.abs(once - base).max(initial=0.0)
    allowed = LINEAR_DEPARTURE * scale
    if problem.noise is not None:
        allowed += 4.0 * NOISE_LIMIT * problem.noise.absolute
    return bool((np.abs(twice - 2.0 * once + base) <= allowed).all())


def _difference(
    problem: ProblemDAE,
    u: MeshDAE,
    du: MeshDAE,
    t: float,
    base: Vector,
    steps: Vector,
    order: int,
    of_u: bool,
) -> Any:
    """dF/du or dF/du' by a formula of an order, with one increment for each unknown."""
    n = problem.n
    colouring = None if problem.sparsity is None else _colouring(problem)
    groups = groups_of_columns(problem)
    values, fixed = (u.view(np.ndarray), du) if of_u else (du.view(np.ndarray), u)
    steps = steps * np.where(values < 0.0, -1.0, 1.0)
    # The step that is really taken, after rounding, is what the difference must be divided by.
    steps = (values + steps) - values
    point = values.copy()
    state = attach(point, problem.n_diff)
    changes, reach = np.zeros((len(groups), n)), max(distance for distance, _ in _FORMULAS[order])

    def value(group: Any, distance: float) -> Vector:
        check()
        point[group] = values[group] + distance * steps[group]
        shifted = problem.evaluate(state, fixed, t) if of_u else problem.evaluate(fixed, state, t)
        point[group] = values[group]
        return shifted

    def change(group: Any, part: float) -> Vector:
        return np.asarray(value(group, part * reach) - base)

    across = np.zeros(n, dtype=bool)
    if order > 1 and problem.noise is None:
        across = _jumps(*_secants(change, slice(None)), SUSPECTED_JUMP)
    for k, group in enumerate(groups):
        for distance, weight in _FORMULAS[order]:
            if order == 1:
                np.subtract(value(group, distance), base, out=changes[k])
            else:
                changes[k] += weight * value(group, distance)
        if across.any():
            nearer, farther = _secants(change, group)
            secants = 2.0 / reach * np.concatenate([nearer, farther])
            smallest = np.take_along_axis(secants, np.abs(secants).argmin(axis=0)[None], axis=0)[0]
            jumps = across & _jumps(nearer, farther, CERTAIN_JUMP)
            changes[k, jumps] = smallest[jumps]
    if problem.noise is not None:
        changes[np.abs(changes) <= NOISE_LIMIT * problem.noise.absolute] = 0.0
    if colouring is None:
        return np.ascontiguousarray((changes / steps[:, None]).T)
    pattern, group_of = colouring.pattern, np.empty(n, dtype=np.intp)
    for k, group in enumerate(groups):
        group_of[group] = k
    column = np.repeat(np.arange(n), np.diff(pattern.indptr))
    data = changes[group_of[column], pattern.indices] / steps[column]
    return sparse.csc_matrix((data, pattern.indices, pattern.indptr), shape=pattern.shape)


def _secants(change: Callable[[Any, float], Vector], group: Any) -> tuple[Vector, Vector]:
    """Changes of F over the nearer and the farther half of the increment, on both sides, each (2, n)."""
    nearer = np.array([side * change(group, 0.5 * side) for side in (1.0, -1.0)])
    return nearer, np.array([side * change(group, side) for side in (1.0, -1.0)]) - nearer


def _jumps(nearer: Vector, farther: Vector, least: float) -> npt.NDArray[np.bool_]:
    """Rows in which one half of the increment has more of the change than smooth functions allow."""
    return np.asarray((np.abs(nearer - farther) > least * np.abs(nearer + farther)).any(axis=0))


# Step of first differences of order 6 relative to the scale of the argument: round-off 3e-13.
FIRST_DIFFERENCE: Final = 1e-3
# Step of second differences of order 6 relative to the scale of the argument: round-off 2e-12.
SECOND_DIFFERENCE: Final = 2e-2
# Relative difference up to which a derivative by complex steps and one by differences are the same.
LARGEST_DISAGREEMENT: Final = 1e-6


def slope(function: Callable[[float], Any], step: float) -> Any:
    """f'(0) by central differences of order 6."""
    one, two, three = (function(k * step) - function(-k * step) for k in (1, 2, 3))
    return (45.0 * one - 9.0 * two + three) / (60.0 * step)


def curvature(function: Callable[[float], Any], step: float) -> Any:
    """f''(0) by central differences of order 6, see :func:`slope`."""
    middle = 2.0 * function(0.0)
    # By pairs, so that a constant function has exactly zero for derivative.
    one, two, three = (function(k * step) + function(-k * step) - middle for k in (1, 2, 3))
    return (270.0 * one - 27.0 * two + 2.0 * three) / (180.0 * step * step)


def most_accurate(slopes: Vector) -> tuple[Vector, Vector]:
    """The best of derivatives by differences with growing steps, and its error, for each entry."""
    # Small steps leave round-off and large ones what the formula neglects, so that a derivative is as far
    # from those by the next smaller and the next larger step as it is wrong, or farther. The smallest steps
    # may be lost in rounding, and give exactly 0; if others give something else, these do not count.
    # Shapes: slopes (k, ...).
    lost = ~np.logical_or.accumulate(slopes != 0.0, axis=0)
    changes = np.nan_to_num(np.abs(np.diff(np.where(lost, np.nan, slopes), axis=0)), nan=np.inf)
    errors = np.maximum(changes[:-1], changes[1:])
    at = errors.argmin(axis=0)[None]
    best, error = np.take_along_axis(slopes, at + 1, axis=0)[0], np.take_along_axis(errors, at, axis=0)[0]
    return best, np.where(lost[0] & (error >= np.abs(best)), np.inf, error)


def complex_slope(function: Callable[[complex], Any]) -> Vector:
    """f'(0) by a complex step, exact to round-off where f is analytic."""
    derivative: Vector = np.imag(function(1j * STEP)) / STEP
    return derivative


def takes_complex(function: Callable[[Any], Any]) -> bool:
    """Whether f of one number gives its derivative by a complex step."""
    try:
        with filtering("ignore"):
            real = np.asarray(function(0.0))
            expected = np.asarray(slope(function, FIRST_DIFFERENCE))
            with filtering("error", np.exceptions.ComplexWarning):
                stepped = np.asarray(function(1j * STEP))
    except Exception:  # whatever a function says to numbers it was not made for
        return False
    if stepped.shape != real.shape or stepped.dtype.kind not in "cfiu" or not np.isfinite(expected).all():
        return False
    size = float(np.abs(real).max(initial=0.0))
    derivative = np.imag(stepped) / STEP
    same_value = np.abs(np.real(stepped) - real).max(initial=0.0) <= 1e-12 * size
    tolerance = LARGEST_DISAGREEMENT * (np.abs(expected).max(initial=0.0) + 1e-6 * size)
    return bool(same_value and np.abs(derivative - expected).max(initial=0.0) <= tolerance)
