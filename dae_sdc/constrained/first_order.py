"""Quasilinear equations of first order with constraints, and implicit equations of index 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dae_sdc.constrained.constraint_manifold import nearest_point
from dae_sdc.constrained.parts import part, supplied
from dae_sdc.constrained.quasilinear import Block, QuasilinearProblem
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.dae.values import is_integer
from dae_sdc.errors import InconsistentStateError, InputError, require_count


class QuasiFirstOrderProblem(QuasilinearProblem):
    r"""Equations of first order with constraints.

    .. math::
        A(t, u)\, u' = h(t, u), \quad g(t, u) = 0
        \qquad\text{or}\qquad
        A(t, u)\, u' + B(t, u)\, \lambda = h(t, u), \quad g(t, u) = 0

    A class without B has kind "daeq1", index 1, with n - m rows in A and h; the state is u. A class with B
    has kind "daeq2", index 2; the state is (u, lambda).

    Methods: ``A(t, u)``, shape (n - m, n) or (n, n); ``B(t, u)``, shape (n, m); ``h(t, u)``, shape (n - m,)
    or (n,); ``g(t, u)``, shape (m,). Optional: ``dg(t, u)`` = g_u, shape (m, n); ``dg_dt(t, u)`` = g_t, shape
    (m,).

    Parameters
    ----------
    n, m : int
        Numbers of functions u and of constraints.
    formulation : str, optional
        With B "index-2", or "index-1" with g_u u' + g_t = 0 in place of g = 0; without B "index-1".
    **settings
        Those of :class:`QuasilinearProblem`.

    Examples
    --------
    >>> class Tank(ds.QuasiFirstOrderProblem):
    ...     names = ("level", "flow")
    ...     def A(self, t, u):
    ...         return [[1.0, 0.0]]
    ...     def h(self, t, u):
    ...         return [-u[1]]
    ...     def g(self, t, u):
    ...         return [u[1] - 0.5 * u[0]]
    ...
    >>> problem = Tank(2, 1)
    >>> problem.kind, problem.eval_f(problem.state([2.0, 1.0]), problem.state([-1.0, 0.0]), 0.0)
    ('daeq1', MeshDAE([0., 0.]))
    """

    kind = "daeq1"
    _arguments = {name: ("t", "u") for name in ("A", "B", "h", "g", "dg", "dg_dt")}
    _needed = ("A", "h", "g")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "B" in cls._arguments:
            with_multipliers = cls.B_kernel is not None or not hasattr(cls.B, "supplied")
            cls.kind = "daeq2" if with_multipliers else "daeq1"
            cls.formulations = ("index-2", "index-1") if with_multipliers else ("index-1",)

    A = part("A", "The matrix A(t, u), shape (n, n), without B (n - m, n).")
    B = part("B", "The matrix B(t, u), shape (n, m).")
    h = part("h", "The right-hand side h(t, u), shape (n,), without B (n - m,).")
    g = part("g", "The constraints g(t, u), shape (m,).")
    dg = part("dg", "The matrix dg/du, shape (m, n).")
    dg_dt = part("dg_dt", "The partial derivative dg/dt with u fixed, shape (m,).")

    def _blocks(self) -> tuple[Block, ...]:
        multipliers = self.n_constraints if self.kind == "daeq2" else 0
        return Block("u", self.n_u, 1), Block("lambda", multipliers, self._index())

    def _index(self) -> int:
        return 2 if self.kind == "daeq2" and self.formulation == "index-2" else 1

    def _rows(self, names: Sequence[str], constraints: Sequence[str]) -> tuple[str, ...]:
        rows = self._count() - self.n_constraints
        prefix = "derivative of " if self.kind == "daeq2" and self.formulation == "index-1" else ""
        first = names[: self.n_u] if rows == self.n_u else [str(i) for i in range(rows)]
        return (*(f"rate {name}" for name in first), *(prefix + name for name in constraints))

    def residual_of_parts(self, t: float, x: Vector, dx: Vector, at: Callable[..., Vector]) -> Vector:
        """See :meth:`QuasilinearProblem.residual_of_parts`."""
        n = self.n_u
        u, du = x[:n], dx[:n]
        rates = at("A", t, u) @ du - at("h", t, u)
        if self.kind == "daeq2":
            rates = rates + at("B", t, u) @ x[n:]
            if self.formulation == "index-1":
                return np.concatenate([rates, at("dg", t, u) @ du + at("dg_dt", t, u)])
        return np.concatenate([rates, at("g", t, u)])

    def state_parts(self, u: Vector) -> tuple[Vector, Vector | None, Vector | None]:
        """See :meth:`QuasilinearProblem.state_parts`."""
        return u[..., : self.n_u], None, u[..., self.n_u :] if self.kind == "daeq2" else None

    def _consistent(self, t: float, u: Any, v: Any, project: bool, w: Any) -> MeshDAE:
        if v is not None or w is not None:
            raise InputError(f"{type(self).__name__} is of first order: consistent() takes u alone")
        place = self._vector("u0", u)
        if project:
            place = self._projected(t, place)
        self._check_constraints(t, place, None, "pass consistent values, or project=True for the nearest")
        return self.packed(place, None, self.saddle_point(t, place)[1])

    def on_manifold(self, t: float, u_row: Vector, du_row: Vector) -> tuple[Vector, Vector]:
        """See :meth:`QuasilinearProblem.on_manifold`."""
        values, rates = np.array(u_row, dtype=float), np.array(du_row, dtype=float)
        n = self.n_u
        values[:n] = self._projected(float(t), values[:n])
        rates[:n], values[n:] = self.saddle_point(t, values[:n])
        return values, rates


class ImplicitDAE(QuasilinearProblem):
    r"""Implicit equations of index 1.

    .. math::
        F(t, u, u', w) = 0

    with n_u functions u and n_w functions w without derivatives, and n_u + n_w equations whose derivatives
    with respect to (u', w) form a regular matrix. The kind is "daen1"; the state is x = (u, p, w) with
    p = u', of which the u are differential.

    Methods: ``F(t, u, p, w)``, shape (n_u + n_w,). Optional: ``dF(t, u, p, w)`` = [F_u F_p F_w], shape
    (n_u + n_w, 2 n_u + n_w); ``dF_dt(t, u, p, w)`` = F_t, shape (n_u + n_w,). Kernels take x for u.

    To solvers for quasilinear equations it is A x' = h, F = 0 of kind "daeq1" in x, with A = [I 0 0] and
    h = p.

    Parameters
    ----------
    n_u, n_w : int
        Numbers of functions with and without derivatives.
    formulation : str, optional
        "index-1".
    **settings
        Those of :class:`QuasilinearProblem`.

    Attributes
    ----------
    n_u, n_w, n_constraints : int
        Numbers of functions with and without derivatives, and of equations, n_u + n_w.

    Examples
    --------
    >>> class Tank(ds.ImplicitDAE):
    ...     def F(self, t, u, p, w):
    ...         return [p[0] + w[0], w[0] - 0.5 * u[0]]
    ...
    >>> problem = Tank(1, 1)
    >>> problem.names
    ('u_0', 'p_0', 'w_0')
    """

    kind = "daen1"
    _arguments = {name: ("t", "u", "p", "w") for name in ("F", "dF", "dF_dt")}
    _needed = ("F",)
    _user_names = {"g": "F", "dg": "dF", "dg_dt": "dF_dt"}

    F_kernel: ClassVar[Callable[..., None] | None] = None
    dF_kernel: ClassVar[Callable[..., None] | None] = None
    dF_dt_kernel: ClassVar[Callable[..., None] | None] = None

    def __init__(self, n_u: int, n_w: int, formulation: str | None = None, **settings: Any) -> None:
        require_count("n_u", n_u)
        if not is_integer(n_w) or n_w < 0:
            raise InputError(f"n_w must be an integer, at least 0; got {n_w!r}")
        self.__dict__["n_w"] = int(n_w)
        super().__init__(2 * n_u + n_w, n_u + n_w, formulation, **settings)

    def _set_texts(self) -> None:
        self.__dict__["n_u"] = self._size - self.n_constraints
        super()._set_texts()

    @supplied
    def F(self, t: float, u: Vector, p: Vector, w: Vector, /) -> npt.ArrayLike:
        """The equations F(t, u, u', w), shape (n_u + n_w,)."""
        return self._supply("g", t, np.concatenate([u, p, w]))

    @supplied
    def dF(self, t: float, u: Vector, p: Vector, w: Vector, /) -> npt.ArrayLike:
        """The matrix [F_u F_p F_w], shape (n_u + n_w, 2 n_u + n_w)."""
        return self._supply("dg", t, np.concatenate([u, p, w]))

    @supplied
    def dF_dt(self, t: float, u: Vector, p: Vector, w: Vector, /) -> npt.ArrayLike:
        """The partial derivative of F with respect to t, shape (n_u + n_w,)."""
        return self._supply("dg_dt", t, np.concatenate([u, p, w]))

    def A(self, t: float, x: Vector, /) -> Vector:
        """The matrix [I 0 0] of the quasilinear form, shape (n_u, 2 n_u + n_w)."""
        return np.eye(self.n_u, self._size)

    def h(self, t: float, x: Vector, /) -> Vector:
        """The right-hand side p of the quasilinear form, shape (n_u,)."""
        return np.array(x[self.n_u : 2 * self.n_u])

    def g(self, t: float, x: Vector, /) -> npt.ArrayLike:
        """F as a function of t and x = (u, p, w), shape (n_u + n_w,)."""
        value: npt.ArrayLike = self.F(t, *self._split(x))
        return value

    def dg(self, t: float, x: Vector, /) -> npt.ArrayLike:
        """The matrix dF/dx, shape (n_u + n_w, 2 n_u + n_w)."""
        value: npt.ArrayLike = self.dF(t, *self._split(x))
        return value

    def dg_dt(self, t: float, x: Vector, /) -> npt.ArrayLike:
        """The partial derivative of F with respect to t with x fixed, shape (n_u + n_w,)."""
        value: npt.ArrayLike = self.dF_dt(t, *self._split(x))
        return value

    def part_arguments(self, name: str, q: Vector, v: Vector | None) -> tuple[Vector, ...]:
        """See :meth:`QuasilinearParts.part_arguments`."""
        return self._split(q)

    def _split(self, x: Vector) -> tuple[Vector, Vector, Vector]:
        n = self.n_u
        return x[:n], x[n : 2 * n], x[2 * n :]

    def _blocks(self) -> tuple[Block, ...]:
        return Block("u", self.n_u, 1), Block("p", self.n_u, 1), Block("w", self.n_w, 1)

    def _rows(self, names: Sequence[str], constraints: Sequence[str]) -> tuple[str, ...]:
        return (*(f"derivative of {name}" for name in names[: self.n_u]), *constraints)

    def residual_of_parts(self, t: float, x: Vector, dx: Vector, at: Callable[..., Vector]) -> Vector:
        """See :meth:`QuasilinearProblem.residual_of_parts`."""
        n = self.n_u
        return np.concatenate([dx[:n] - x[n : 2 * n], at("g", t, x)])

    def _substitutes(self) -> dict[str, str]:
        return {**super()._substitutes(), "A": "selection", "h": "derivative"}

    def state_parts(self, u: Vector) -> tuple[Vector, Vector | None, Vector | None]:
        """See :meth:`QuasilinearProblem.state_parts`."""
        return u, None, None

    def _consistent(self, t: float, u: Any, v: Any, project: bool, w: Any) -> MeshDAE:
        n = self.n_u
        guessed = v is None or (w is None and self.n_w > 0)
        place = self._vector("u0", u, n)
        rate = np.zeros(n) if v is None else self._vector("u'0", v, n)
        other = np.zeros(self.n_w) if w is None else self._vector("w0", w, self.n_w)
        x = np.concatenate([place, rate, other])
        if project or guessed:
            x = self._projected(t, x)
        self._check_constraints(t, x, None, "pass consistent values, or project=True for the nearest")
        self.saddle_point(t, x)
        return self.packed(x)

    def _projected(self, t: float, q: Vector) -> Vector:
        """A state (u, p, w) with the u of ``q``, and p and w from F = 0."""
        n, x = self.n_u, q.copy()

        def at(y: Vector) -> Vector:
            x[n:] = y
            return x

        found = nearest_point(
            q[n:].copy(),
            lambda y: self._part("g", t, at(y)),
            lambda y: self._part("dg", t, at(y))[:, n:],
            lambda y: self._scale(t, at(y)),
        )
        if found is None:
            raise InconsistentStateError(
                f"found no u' and w that belong to u0 of {self._described(t)}; pass better guesses of them"
            )
        return np.concatenate([q[:n], found])

    def on_manifold(self, t: float, u_row: Vector, du_row: Vector) -> tuple[Vector, Vector]:
        """See :meth:`QuasilinearProblem.on_manifold`."""
        values = self._projected(float(t), np.array(u_row, dtype=float))
        return values, self.saddle_point(t, values)[0]
