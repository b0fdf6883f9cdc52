"""The two halves of a Jacobian, dF/du' and dF/du, from the problem or by finite differences."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.colouring import column_groups
from dae_sdc.dae.linear import Matrix, largest
from dae_sdc.dae.problem import ProblemDAE, undefined
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import EvaluationError, InputError

ROOT_EPS = float(np.sqrt(np.finfo(float).eps))

NOISE_LIMIT = 10.0
"""Change of F, in standard deviations of its noise, below which a difference is taken to be zero."""


@dataclass(frozen=True)
class Linearization:
    """dF/du' (``mass``) and dF/du (``stiffness``) at one point; any iteration matrix is made from them."""

    mass: Matrix
    stiffness: Matrix

    def depends_on_derivative(self, first: int) -> bool:
        """Whether F depends on the derivative of an unknown from number ``first`` on."""
        mass: Any = self.mass
        entries = mass.data[mass.indptr[first] :] if sparse.issparse(mass) else mass[:, first:]
        return bool(entries.any())

    def iteration_matrix(self, c: float, n_integrated: int) -> Matrix:
        """The matrix of a node whose value is u = r + c u'.

        Parameters
        ----------
        c : float
            Time step times the diagonal entry of Q_Delta or of a tableau, in the unit of time.
        n_integrated : int
            Number of leading unknowns that are integrated; the others are unknowns themselves.

        Returns
        -------
        ndarray or CSC matrix, shape (n, n)
            dF/du' + c dF/du. For c = 0 the columns of the unknowns that are not integrated hold dF/du alone:
            there the correction is that of the unknown itself and not c times it.
        """
        matrix = _combined(self.mass, c, self.stiffness)
        if c == 0.0 and n_integrated < matrix.shape[0]:
            if sparse.issparse(matrix):
                kept, own = self.mass[:, :n_integrated], self.stiffness[:, n_integrated:]
                return sparse.hstack([kept, own], format="csc")
            matrix[:, n_integrated:] = self.stiffness[:, n_integrated:]
        return matrix


def linearize(problem: ProblemDAE, u: MeshDAE, du: MeshDAE, t: float) -> Linearization:
    """Evaluate both halves of the Jacobian at (u, u', t).

    Parameters
    ----------
    problem : ProblemDAE
        Its ``jacobian`` is used where it has one (two calls, c = 0 and c = 1), finite differences otherwise,
        by groups of columns where it gives a ``sparsity``.
    u, du : MeshDAE
        State and derivative, shape (n,).
    t : float
        Time.

    Raises
    ------
    EvaluationError
        If an entry is NaN or infinite.
    InputError
        If the Jacobian has another shape than (n, n).
    """
    problem.work_counters["jacobian"].niter += 1
    given: Any = getattr(problem, "jacobian", None)
    if given is not None:
        try:
            pair = given(u, du, t, 0.0), given(u, du, t, 1.0)
        except (ArithmeticError, ValueError) as error:
            if not undefined(error):
                raise
            raise EvaluationError(
                f"jacobian of {type(problem).__name__} is not defined at t={t:.6g} ({error}); "
                f"check the state there, or reduce dt"
            ) from None
        mass = _checked(problem, pair[0])
        stiffness = _combined(_checked(problem, pair[1]), -1.0, mass)
    else:
        mass, stiffness = _differences(problem, u, du, t)
    for half, symbol in ((mass, "dF/du'"), (stiffness, "dF/du")):
        entries = half.data if sparse.issparse(half) else half
        if not largest(entries.ravel()) < np.inf:
            raise EvaluationError(
                f"{symbol} of {type(problem).__name__} has a NaN or infinite entry at t={t:.6g}; "
                f"check the state there, or reduce dt"
            )
    return Linearization(mass, stiffness)


def _combined(first: Any, factor: float, second: Any) -> Any:
    """first + factor * second; by their entries alone where both are CSC matrices of one pattern."""
    if not _same_pattern(first, second):
        return first + factor * second
    data = factor * second.data
    data += first.data
    return type(first)((data, first.indices, first.indptr), shape=first.shape)


def _same_pattern(first: Any, second: Any) -> bool:
    if not (sparse.issparse(first) and sparse.issparse(second) and len(first.data) == len(second.data)):
        return False
    for own, other in ((first.indptr, second.indptr), (first.indices, second.indices)):
        if own is not other and not np.array_equal(own, other):
            return False
    # Matrices that share their indices must have them in order: SuperLU sorts where they are not, in place.
    return bool(first.has_canonical_format)


def _checked(problem: ProblemDAE, matrix: Any) -> Any:
    try:
        matrix = matrix.tocsc() if sparse.issparse(matrix) else np.asarray(matrix)
        if matrix.dtype.kind not in "biuf":
            raise TypeError(f"entries of type {matrix.dtype}")
        matrix = matrix.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{type(problem).__name__}.jacobian must return real numbers of shape "
            f"({problem.n}, {problem.n}); got {str(error).splitlines()[0]}"
        ) from None
    if matrix.shape != (problem.n, problem.n):
        raise InputError(
            f"{type(problem).__name__}.jacobian must return shape ({problem.n}, {problem.n}); "
            f"got {matrix.shape}"
        )
    return matrix


class _Colouring(NamedTuple):
    """The pattern of a problem and its groups of columns, by which the Jacobian is differenced."""

    given: Any
    pattern: Any
    groups: list[npt.NDArray[np.intp]]


_COLOURINGS: weakref.WeakKeyDictionary[ProblemDAE, _Colouring] = weakref.WeakKeyDictionary()


def _colouring(problem: ProblemDAE) -> _Colouring:
    """Made once for a problem, and anew when it is given another pattern."""
    known = _COLOURINGS.get(problem)
    if known is not None and known.given is problem.sparsity:
        return known
    n = problem.n
    # A copy, because its indices are put in order.
    pattern = sparse.csc_matrix(problem.sparsity, dtype=np.float64, copy=True)
    if pattern.shape != (n, n):
        raise InputError(f"{type(problem).__name__}.sparsity must have shape ({n}, {n}); got {pattern.shape}")
    pattern.sum_duplicates()
    made = _COLOURINGS[problem] = _Colouring(problem.sparsity, pattern, column_groups(pattern))
    return made


def _differences(problem: ProblemDAE, u: MeshDAE, du: MeshDAE, t: float) -> tuple[Any, Any]:
    """Forward differences of F in u' and in u, one evaluation for each group of columns."""
    n = problem.n
    colouring = None if problem.sparsity is None else _colouring(problem)
    groups = [np.array([j]) for j in range(n)] if colouring is None else colouring.groups
    base = problem.evaluate(u, du, t).copy()  # eval_f may return the same array every time
    halves = []
    for varied, fixed, first in ((du, u, False), (u, du, True)):
        values = varied.view(np.ndarray)
        steps = (
            float(np.sqrt(problem.round_off))
            * np.maximum(1.0, np.abs(values))
            * np.where(values < 0.0, -1.0, 1.0)
        )
        # The step that is really taken, after rounding, is what the difference must be divided by.
        steps = (values + steps) - values
        point = values.copy()
        state = attach(point, problem.n_diff)
        changes = np.empty((len(groups), n))
        for k, group in enumerate(groups):
            point[group] += steps[group]
            shifted = problem.evaluate(state, fixed, t) if first else problem.evaluate(fixed, state, t)
            point[group] = values[group]
            np.subtract(shifted, base, out=changes[k])
        if problem.noise is not None:
            changes[np.abs(changes) <= NOISE_LIMIT * problem.noise.absolute] = 0.0
        halves.append(
            np.ascontiguousarray((changes / steps[:, None]).T)
            if colouring is None
            else _scatter(colouring, changes, steps)
        )
    return halves[0], halves[1]


def _scatter(colouring: _Colouring, changes: Vector, steps: Vector) -> Any:
    """The matrix of the pattern from the changes of F by each group, shape (groups, n)."""
    pattern = colouring.pattern
    group_of = np.empty(len(steps), dtype=np.intp)
    for k, group in enumerate(colouring.groups):
        group_of[group] = k
    column = np.repeat(np.arange(len(steps)), np.diff(pattern.indptr))
    data = changes[group_of[column], pattern.indices] / steps[column]
    return sparse.csc_matrix((data, pattern.indices, pattern.indptr), shape=pattern.shape)
