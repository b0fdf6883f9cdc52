"""Determinants whose zeros are singular points of equations, and impasses, found from the steps of a run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sparse

from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import InputError
from dae_sdc.registry import unknown
from dae_sdc.structure.determinants import DETERMINANTS, Deficiency, Determinants, null_rows, rounded
from dae_sdc.structure.parabola import foretold

if TYPE_CHECKING:
    from dae_sdc.model.problem import ModelProblem


# Types at whose singular points solutions branch: a method may follow any, and its error is small.
FIRST_ORDER = ("daen1", "daeq1", "daeq2")
# What a run may do at a singular point: end before it, or go on along the branch that the method takes.
WAYS = ("stop", "pass")

_DETERMINANTS: WeakKeyDictionary[Any, dict[Any, Determinants]] = WeakKeyDictionary()


class Place(NamedTuple):
    """A time, the state there, and its derivative: NaN where not known, anything where not needed."""

    t: float
    u: Vector
    du: Vector


class Watched(Protocol):
    """Determinants whose zeros are singular points of a problem, followed along a run."""

    needs_derivatives: bool

    def __len__(self) -> int:
        """Number of determinants."""

    def values(self, place: Place) -> Vector:
        """The determinants, NaN where one has no value."""

    def begin(self, place: Place) -> None:
        """Begin a run."""

    def follow(self, place: Place) -> int:
        """Go on to the end of a step; see :meth:`dae_sdc.structure.determinants.Follower.follow`."""

    def deficiency(self, at: int, place: Place, others: list[Place], least: float) -> Deficiency | None:
        """How a rank falls at a place; None where it does not."""


class _ModelDeterminants:
    """The determinants of the system Jacobian of a model."""

    def __init__(self, problem: ModelProblem) -> None:
        model, states = problem.origin.model, problem.form.states
        known, key = _DETERMINANTS.setdefault(model, {}), (len(model.roots), states)
        if key not in known:
            known[key] = Determinants(model, states)
        self._problem, self._determinants = problem, known[key]
        self._follower = self._determinants.follower() if len(self._determinants) else None
        self.needs_derivatives = self._determinants.needs_derivatives

    def __len__(self) -> int:
        return len(self._determinants)

    def values(self, place: Place) -> Vector:
        assert self._follower is not None
        return self._follower.values(*place, self._problem.packed_parameters)

    def begin(self, place: Place) -> None:
        assert self._follower is not None
        self._follower.begin(*place, self._problem.packed_parameters)

    def follow(self, place: Place) -> int:
        assert self._follower is not None
        return self._follower.follow(*place, self._problem.packed_parameters)

    def deficiency(self, at: int, place: Place, others: list[Place], least: float) -> Deficiency | None:
        return self._determinants.deficiency(at, place, others, self._problem.packed_parameters, least)


class _SaddleDeterminant:
    """The determinant of the matrix of the derivatives and multipliers of quasilinear equations."""

    needs_derivatives = False

    def __init__(self, problem: QuasilinearProblem) -> None:
        self._problem = problem
        self._last: tuple[Place, float] | None = None

    def __len__(self) -> int:
        return 1

    def _matrix(self, place: Place) -> Vector:
        q, v, _ = self._problem.state_parts(place.u)
        return self._problem.saddle_matrix(place.t, q, v)

    def values(self, place: Place) -> Vector:
        matrix = self._matrix(place)
        return np.array([np.linalg.det(matrix) if np.isfinite(matrix).all() else np.nan])

    def begin(self, place: Place) -> None:
        self._last = place, float(self.values(place)[0])

    def follow(self, place: Place) -> int:
        assert self._last is not None
        before, value = self._last
        middle = Place(0.5 * (before.t + place.t), 0.5 * (before.u + place.u), place.du)
        self._last = place, float(self.values(place)[0])
        between, end = float(self.values(middle)[0]), self._last[1]
        if value * end < 0.0 or value * between < 0.0:
            return 1
        half = 0.5 * (place.t - before.t)
        return 2 if foretold(abs(value), abs(between), abs(end), half, half) <= DETERMINANTS.suspicious else 0

    def deficiency(self, at: int, place: Place, others: list[Place], least: float) -> Deficiency | None:
        matrix = self._matrix(place)
        usual = sum((np.abs(self._matrix(other)) for other in others), np.abs(matrix))
        null = null_rows(matrix, usual, least) if np.isfinite(usual).all() else None
        if null is None:
            return None
        names, size, nullity = self._problem.constraint_names, len(matrix), null.shape[1]
        first = size - len(names)
        share = np.abs(null).max(axis=1)
        rows = np.flatnonzero(share > DETERMINANTS.involved * share.max()).tolist()
        what = "the matrix of the derivatives"
        if first and rows[0] >= first:
            what, size = "the Jacobian of the constraints", len(names)
        q, *usual_q = (self._problem.state_parts(at.u)[0].tolist() for at in (place, *others))
        values = (rounded(value, column) for value, *column in zip(q, *usual_q, strict=True))
        return Deficiency(
            what,
            size - nullity,
            size,
            tuple(f"equation {i}" if i < first else names[i - first] for i in rows),
            tuple(zip(self._problem.names, values, strict=False)),
        )


def _is_of_a_model(problem: Any) -> TypeGuard[ModelProblem]:
    """Whether a problem was made from a model; without importing SymPy, which takes long."""
    models = sys.modules.get("dae_sdc.model.problem")  # if it was never imported, it made nothing
    return models is not None and isinstance(problem, models.ModelProblem)


def watched(problem: Any) -> Watched | None:
    """The determinants to watch along a run of a problem; None where there are none."""
    found: Watched | None = None
    if _is_of_a_model(problem) and problem.origin.model is not None:
        found = _ModelDeterminants(problem)
    elif isinstance(problem, QuasilinearProblem):
        found = _SaddleDeterminant(problem)
    return found if found is not None and len(found) else None


def require_way(way: Any, problem: Any) -> None:
    """Raise InputError for an unknown way, or a problem that is neither of a model nor quasilinear."""
    if way not in WAYS:
        raise InputError(unknown("way at singular points", way, WAYS))
    if not (_is_of_a_model(problem) or isinstance(problem, QuasilinearProblem)):
        raise InputError(
            f"singular points are looked for in models and quasilinear equations; {type(problem).__name__} "
            f"is neither, leave singular out"
        )


def default_way(problem: Any) -> str | None:
    """What is done at singular points where the user does not say: "stop", "pass", or None to not look."""
    if isinstance(problem, QuasilinearProblem):
        return "pass"
    return "stop" if _is_of_a_model(problem) else None


LOOKS_ALONG_RUN = 6  # Number of steps along the run that are looked at besides the last.
# Smallest singular value at the end, relative to the largest at these steps, below which the algebraic part
# counts as singular. At a fold it falls with the square root of the time left, and steps end at round-off of
# the time.
SINGULAR_DROP = 1e-3
# Singular value, of rows of largest entry 1, from which on the algebraic part was regular before; at a higher
# index it never is.
REGULAR_BEFORE = 1e-9
RANK_OF_MASS = 1e-12  # Relative singular value of dF/du' that counts as 0.
MOST_IMPASSE_UNKNOWNS = 500  # Unknowns up to which singular values are computed.
# Entry of the singular vector, relative to the largest, from which on an unknown is named.
NAMED_PART = 0.3
MOST_NAMED_AT_IMPASSE = 4  # Largest number of unknowns that are named.


def impasse(problem: ProblemDAE, t: Vector, u: Vector, du: Vector) -> str:
    r"""What to say of a run whose steps end where its algebraic unknowns are no longer determined.

    With bases V and W of the null spaces of :math:`F_{u'}` and its transpose, equations of index 1 have a
    regular matrix :math:`W^T F_u V`. Where it becomes singular along a solution, algebraic unknowns change
    infinitely fast, and a solution goes on at most by a jump: voltages collapse, a surface folds back.

    References
    ----------
    P. J. Rabier, W. C. Rheinboldt: On impasse points of quasilinear differential-algebraic equations, J.
    Math. Anal. Appl. 181 (1994).
    """
    # Shapes: t (K,), u and du (K, n).
    if len(t) < 3 or problem.n > MOST_IMPASSE_UNKNOWNS:
        return ""
    sizes = np.maximum(np.abs(u).max(axis=0), np.finfo(float).tiny)
    marks = np.unique(np.linspace(1, len(t) - 2, LOOKS_ALONG_RUN).astype(int))
    with uncounted(problem):
        last = _weakest(problem, t[-1], u[-1], du[-1], sizes)
        known = [_weakest(problem, t[k], u[k], du[k], sizes) for k in marks.tolist()]
    before = max((value for value, _ in known), default=0.0)
    value, direction = last
    if not (REGULAR_BEFORE <= before < np.inf and value <= SINGULAR_DROP * before):
        return ""
    return (
        f"; near t={t[-1]:.6g} the equations no longer determine {_named(problem.names, direction)}: the "
        f"smallest singular value of their algebraic part has fallen from {before:.1g} to {value:.1g}; a "
        f"solution ends or folds back there, or passes with an infinite slope"
    )


def _weakest(problem: ProblemDAE, t: float, u: Vector, du: Vector, sizes: Vector) -> tuple[float, Vector]:
    """Smallest singular value of the scaled algebraic part, infinite without one, and its direction."""
    none = np.inf, np.zeros(problem.n)
    if not np.isfinite(du).all():
        return none
    first = problem.n_diff
    parts = linearize(problem, attach(u.copy(), first), attach(du.copy(), first), float(t), accurate=True)
    halves: tuple[Any, Any] = parts.mass, parts.stiffness
    mass, stiffness = (np.asarray(half.toarray() if sparse.issparse(half) else half) for half in halves)
    if not (np.isfinite(mass).all() and np.isfinite(stiffness).all()):
        return none
    stiffness, mass = stiffness * sizes, mass * sizes
    rows = np.abs(stiffness).max(axis=1) + np.abs(mass).max(axis=1)
    rows[rows == 0.0] = 1.0
    left, values, right = np.linalg.svd(mass / rows[:, None])
    rank = int((values > RANK_OF_MASS * values.max(initial=0.0)).sum())
    if rank == problem.n:
        return none
    algebraic = left[:, rank:].T @ (stiffness / rows[:, None]) @ right[rank:].T
    _, found, directions = np.linalg.svd(algebraic)
    return float(found[-1]), np.asarray(directions[-1] @ right[rank:])


def _named(names: Sequence[str], direction: Vector) -> str:
    """The unknowns that change most along a direction, in units of their sizes."""
    size = np.abs(direction)
    order = np.argsort(-size, kind="stable")
    chosen = [f"'{names[j]}'" for j in order[:MOST_NAMED_AT_IMPASSE] if size[j] >= NAMED_PART * size.max()]
    return ", ".join(chosen)
