"""The manifold of constraints: saddle-point systems, the nearest point, derivatives and multipliers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from dae_sdc.constrained.compiled_parts import CompiledParts
from dae_sdc.dae.consistency import LARGEST_VIOLATION
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.dae.values import real_numbers
from dae_sdc.errors import EvaluationError, InconsistentStateError, InputError, SingularMatrixError

# Reciprocal condition of the matrix with rows and columns of size 1, below which it counts as singular.
LEAST_CONDITION: Final = 1e-13
ROW_ROUND_OFF: Final = 1e-14  # Part of the largest row below which another row is nothing but round-off.
# Part of a row that is independent of those before it, below which it counts as dependent.
LEAST_INDEPENDENCE: Final = 1e-11
PROJECTION_ITERATIONS: Final = 50  # Largest number of Newton iterations of a projection.
# CONVERGED_CHANGE, STALLED_CHANGE: relative change that ends a projection at once, and where changes no
# longer become half as large.
CONVERGED_CHANGE: Final = 1e-15
STALLED_CHANGE: Final = 1e-12
# Largest constraint relative to its scale at a point that counts as a solution; it is mostly round-off.
LARGEST_PROJECTED_VIOLATION: Final = 1e-8


def solve_saddle(
    A: Vector, B: Vector | None, G: Vector, rhs: Vector, names: Sequence[str], what: str
) -> Vector:
    """Solve [A B; G 0] x = rhs, or [A; G] x = rhs where B is None."""
    # Shapes: A (n, n), B (n, m), G (m, n), rhs (n + m,) or (n,) -> (n + m,) or (n,).
    m = len(G)
    matrix = np.vstack([A, G]) if B is None else np.block([[A, B], [G, np.zeros((m, m))]])
    if not (np.isfinite(matrix).all() and np.isfinite(rhs).all()):
        raise EvaluationError(f"the equations of {what} have a NaN or infinite value; check the state there")
    rows = np.abs(matrix).max(axis=1)
    # A row of nothing but round-off must not be scaled to size 1.
    rows[rows <= ROW_ROUND_OFF * rows.max(initial=0.0)] = np.inf
    scaled = matrix / rows[:, None]
    columns = np.abs(scaled).max(axis=0)
    columns[columns == 0.0] = 1.0
    scaled /= columns
    factors, pivots, info = lapack.dgetrf(scaled)
    condition = 0.0
    if info == 0:
        condition, _ = lapack.dgecon(factors, np.abs(scaled).sum(axis=0).max())
    if condition < LEAST_CONDITION:
        raise SingularMatrixError(_reason(A, B, G, names, what))
    solution, _ = lapack.dgetrs(factors, pivots, rhs / rows)
    found: Vector = solution / columns
    return found


def dependent(G: Vector) -> tuple[int, int | None]:
    """Rank of a matrix, and the first row that depends on those before it."""
    # Shapes: G (m, n).
    basis: list[Vector] = []
    first = None
    sizes = np.linalg.norm(G, axis=1)
    least = ROW_ROUND_OFF * max(sizes.max(initial=0.0), 1.0)
    for i, row in enumerate(G):
        rest = row.copy()
        for _ in range(2):  # twice is enough
            for direction in basis:
                rest -= (direction @ rest) * direction
        size = np.linalg.norm(rest)
        if sizes[i] > least and size > LEAST_INDEPENDENCE * sizes[i]:
            basis.append(rest / size)
        elif first is None:
            first = i
    return len(basis), first


def _reason(A: Vector, B: Vector | None, G: Vector, names: Sequence[str], what: str) -> str:
    """Why the matrix [A B; G 0] has no inverse."""
    m = len(G)
    rank, first = dependent(G)
    if first is not None:
        return (
            f"constraints of {what} are rank deficient (rank {rank} of {m}): '{names[first]}' depends on "
            f"those before it or has no gradient there; remove it, or pass another state"
        )
    if B is not None:
        rank, column = dependent(np.ascontiguousarray(B.T))
        if column is not None:
            return (
                f"B of {what} is rank deficient (rank {rank} of {m}): column {column} depends on the others"
            )
    return (
        f"A of {what} is not regular on the kernel of the constraint Jacobian; every direction that the "
        f"constraints leave free needs a mass"
    )


def nearest_point(
    point: Vector,
    constraint: Callable[[Vector], Vector],
    jacobian: Callable[[Vector], Vector],
    scale: Callable[[Vector], Vector],
) -> Vector | None:
    """The nearest point that fulfils constraints, by Newton's method on [x - x0 + G^T l; g(x)] = 0."""
    # Second derivatives of g are left out, so that far away convergence is linear.
    # Shapes: point (n,) -> (n,).
    x, before = point.copy(), np.inf
    for _ in range(PROJECTION_ITERATIONS):
        g, G, back = constraint(x), jacobian(x), point - x
        if not (np.isfinite(g).all() and np.isfinite(G).all()):
            return None
        step = back - np.linalg.lstsq(G, g + G @ back, rcond=None)[0]
        x = x + step
        change = float((np.abs(step) / (1e-300 + np.abs(x).max())).max())
        if change <= CONVERGED_CHANGE or STALLED_CHANGE >= change >= 0.5 * before:
            break
        before = change
    return x if (np.abs(constraint(x)) <= LARGEST_PROJECTED_VIOLATION * scale(x)).all() else None


class ConstraintManifold(CompiledParts):
    """States that fulfil constraints, with derivatives and multipliers that follow from the equations."""

    def _described(self, t: float) -> str:
        return f"{type(self).__name__} at t={t:.6g}"

    def _constraint_rest(self, t: float, q: Vector, v: Vector | None) -> Vector:
        """r of :meth:`saddle_point`."""
        return self._part("dg_dt", t, q, v)

    def saddle_point(
        self, t: float, q: npt.ArrayLike, v: npt.ArrayLike | None = None
    ) -> tuple[Vector, Vector]:
        r"""Derivative and multipliers from the equations and the differentiated constraints.

        .. math::
            \begin{pmatrix} A & B \\ G & 0 \end{pmatrix}
            \begin{pmatrix} a \\ \lambda \end{pmatrix} =
            \begin{pmatrix} h \\ -r \end{pmatrix}

        with the highest derivative a, and r what the constraints add to G a when they are differentiated.
        """
        # Shapes: q and v (n_u,) -> derivative (n_u,), multipliers (n_constraints,).
        t, n = float(t), self._size
        place = self._vector("u", q)
        rate = None if v is None else self._vector("u'", v)
        A, h, G = (self._part(name, t, place, rate) for name in ("A", "h", "dg"))
        B = None if "B" not in self._parts_of_kind() else self._part("B", t, place, rate)
        rhs = np.concatenate([h, -self._constraint_rest(t, place, rate)])
        found = solve_saddle(A, B, G, rhs, self.constraint_names, self._described(t))
        return found[:n], found[n:]

    def saddle_matrix(self, t: float, q: Vector, v: Vector | None = None) -> Vector:
        """The matrix [A B; G 0], [A; G] where there are no multipliers, of :meth:`saddle_point`."""
        # Shapes: q and v (n_u,) -> (k, k).
        A, G = self._part("A", t, q, v), self._part("dg", t, q, v)
        if "B" not in self._parts_of_kind():
            return np.vstack([A, G])
        return np.block([[A, self._part("B", t, q, v)], [G, np.zeros((len(G), len(G)))]])

    def _vector(self, name: str, values: Any, count: int | None = None) -> Vector:
        """Values that a user gave as a new array; raises InputError for unusable ones."""
        count = self._size if count is None else count
        try:
            array = real_numbers(values)
        except TypeError as error:
            raise InputError(f"{name} of {type(self).__name__} must be real numbers ({error})") from None
        if array.shape != (count,):
            raise InputError(f"{name} of {type(self).__name__} must have shape ({count},); got {array.shape}")
        if not np.isfinite(array).all():
            raise InputError(f"{name} of {type(self).__name__} has a NaN or infinite entry")
        return np.array(array)

    def _violated(self, what: str, rule: str, values: Vector, scale: Vector, t: float, advice: str) -> None:
        """Raise InconsistentStateError for values of constraints beyond the tolerance."""
        relative = np.abs(values) / scale
        worst = int(np.argmax(np.where(np.isnan(relative), np.inf, relative)))
        tolerance = LARGEST_VIOLATION
        if relative[worst] <= tolerance:
            return
        raise InconsistentStateError(
            f"{what} of {type(self).__name__} violates {rule} '{self.constraint_names[worst]}' at t={t:.6g}: "
            f"residual {values[worst]:.2g} (tolerance {tolerance * scale[worst]:.1e}); {advice}"
        )

    def _scale(self, t: float, q: Vector, v: Vector | None = None) -> Vector:
        """1 + the size of the terms of the constraints."""
        return 1.0 + np.abs(self._part("dg", t, q, v)) @ np.abs(q)

    def _projected(self, t: float, q: Vector) -> Vector:
        """The nearest functions u that fulfil the constraints."""
        found = nearest_point(
            q,
            lambda x: self._part("g", t, x),
            lambda x: self._part("dg", t, x),
            lambda x: self._scale(t, x),
        )
        if found is None:
            raise InconsistentStateError(
                f"found no values near u0 that fulfil the constraints of {self._described(t)}; "
                f"pass better ones"
            )
        return found

    def packed(
        self, q: npt.ArrayLike, v: npt.ArrayLike | None = None, multipliers: npt.ArrayLike = ()
    ) -> MeshDAE:
        """The state of the formulation from its parts; multipliers that only stabilise are zero."""
        # Shapes: q (n_u,), v (n_u,), multipliers (n_constraints,).
        parts = [np.asarray(q, dtype=float), np.asarray(() if v is None else v, dtype=float)]
        values = np.concatenate([*parts, np.asarray(multipliers, dtype=float)])
        return self.state(np.concatenate([values, np.zeros(max(0, self.n - len(values)))]))

    def state_parts(self, u: Vector) -> tuple[Vector, Vector | None, Vector | None]:
        """Views of u, u' and the multipliers in a packed state or rows of them, shape (..., n)."""
        # Shape of the result: q (..., n_u).
        raise NotImplementedError

    def on_manifold(self, t: float, u_row: Vector, du_row: Vector) -> tuple[Vector, Vector]:
        """A state moved to the constraints, with derivatives and multipliers that belong to it."""
        # Shapes: u_row and du_row (n,) -> u_row, du_row (n,).
        raise NotImplementedError

    def check_start(self, u: MeshDAE, t: float) -> None:
        """Refuse a state from which no solution begins, and, once, given derivatives that are wrong."""
        q, v, _ = self.state_parts(np.array(u, dtype=np.float64))
        t = float(t)
        self._check_derivatives(t, q, v)
        self._check_constraints(t, q, v, "start='consistent' takes the nearest one, or see consistent()")
        self.saddle_point(t, q, v)

    def _check_constraints(self, t: float, q: Vector, v: Vector | None, advice: str) -> None:
        self._violated("u0", "constraint", self._part("g", t, q, v), self._scale(t, q, v), t, advice)

    def drift(self, t: float, u: Vector) -> dict[str, float]:
        """How far a state is from the manifold of the constraints.

        Parameters
        ----------
        t : float
            Time.
        u : array_like, shape (n,)
            State of the formulation.

        Returns
        -------
        dict of str to float
            Largest absolute value of g as "constraint" and, for holonomic constraints, of G v + g_t as
            "velocity"; "energy" where the class has a method ``energy(q, v)``.
        """
        q, v, _ = self.state_parts(np.asarray(u, dtype=float))
        found = {"constraint": float(np.abs(self._part("g", float(t), q, v)).max())}
        if v is not None and "g" not in self._with_velocity:
            found["velocity"] = float(np.abs(self._velocity_defect(float(t), q, v)).max())
        energy: Callable[..., Any] | None = getattr(self, "energy", None)
        if energy is not None and v is not None:
            found["energy"] = float(energy(q, v))
        return found

    @property
    def invariant_names(self) -> tuple[str, ...]:
        """Names of the entries of :meth:`invariants`."""
        names = self.constraint_names
        return (*names, *(f"derivative of {name}" for name in names)) if self._is_holonomic else names

    @property
    def _is_holonomic(self) -> bool:
        """Whether the derivatives of the constraints bind a state too."""
        return bool(self._with_velocity) and "g" not in self._with_velocity

    def invariants(self, u: npt.ArrayLike, t: float) -> Vector:
        """The invariants g and, for constraints on positions, G v + g_t, which vanish along solutions."""
        # Shapes: u (n,) -> (k,).
        q, v, _ = self.state_parts(np.asarray(u, dtype=float))
        value = self._part("g", float(t), q, v)
        if not self._is_holonomic:
            return value
        assert v is not None
        return np.concatenate([value, self._velocity_defect(float(t), q, v)])

    def invariants_jacobian(self, u: npt.ArrayLike, t: float) -> Vector:
        """The derivative of :meth:`invariants` with respect to the state.

        For constraints on velocities the derivative by positions is left out, so that projections keep them.
        """
        # Shapes: u (n,) -> (k, n).
        t, size = float(t), self._size
        q, v, _ = self.state_parts(np.asarray(u, dtype=float))
        found = np.zeros((len(self.invariant_names), self.n))
        G = self._part("dg", t, q, v)
        m = len(G)
        if "g" in self._with_velocity:
            found[:, size : 2 * size] = G
            return found
        found[:m, :size] = G
        if self._is_holonomic:
            assert v is not None
            found[m:, size : 2 * size] = G
            # d2g is quadratic in v: its central differences are exact, and twice the derivative of G v + g_t.
            for j, e in enumerate(np.diag(1.0 + np.abs(v))):
                above, below = self._part("d2g", t, q, v + e), self._part("d2g", t, q, v - e)
                found[m:, j] = (above - below) / (4.0 * e[j])
        return found

    def _velocity_defect(self, t: float, q: Vector, v: Vector) -> Vector:
        return self._part("dg", t, q) @ v + self._part("dg_dt", t, q)
