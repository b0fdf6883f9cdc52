"""Quasilinear equations of first and second order with constraints, and implicit equations of index 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dae_sdc.arguments import is_integer
from dae_sdc.constrained.parts import part, supplied
from dae_sdc.constrained.quasilinear import Block, QuasilinearProblem
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError, require_count


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

    def _first_names(self, names: Sequence[str]) -> list[str]:
        rows = self._count() - self.n_constraints
        return [f"rate {x}" for x in (names[: self.n_u] if rows == self.n_u else range(rows))]

    def state_parts(self, u: Vector) -> tuple[Vector, Vector | None, Vector | None]:
        """See :meth:`QuasilinearProblem.state_parts`."""
        return u[..., : self.n_u], None, u[..., self.n_u :] if self.kind == "daeq2" else None


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

    F = part("g", "The equations F(t, u, u', w), shape (n_u + n_w,).", implicit="F")
    dF = part("dg", "The matrix [F_u F_p F_w], shape (n_u + n_w, 2 n_u + n_w).", implicit="dF")
    dF_dt = part(
        "dg_dt", "The partial derivative of F with respect to t, shape (n_u + n_w,).", implicit="dF_dt"
    )
    g = part("g", "F as a function of t and x = (u, p, w), shape (n_u + n_w,).")
    dg = part("dg", "The matrix dF/dx, shape (n_u + n_w, 2 n_u + n_w).")
    dg_dt = part("dg_dt", "The partial derivative of F with respect to t with x fixed, shape (n_u + n_w,).")

    def A(self, t: float, x: Vector, /) -> Vector:
        """The matrix [I 0 0] of the quasilinear form, shape (n_u, 2 n_u + n_w)."""
        return np.eye(self.n_u, self._size)

    def h(self, t: float, x: Vector, /) -> Vector:
        """The right-hand side p of the quasilinear form, shape (n_u,)."""
        return np.array(x[self.n_u : 2 * self.n_u])

    def part_arguments(self, name: str, q: Vector, v: Vector | None) -> tuple[Vector, ...]:
        """See :meth:`QuasilinearParts.part_arguments`."""
        n = self.n_u
        return (q[:n], q[n : 2 * n], q[2 * n :]) if name in self._user_names else (q,)

    def _blocks(self) -> tuple[Block, ...]:
        return Block("u", self.n_u, 1), Block("p", self.n_u, 1), Block("w", self.n_w, 1)

    def _first_names(self, names: Sequence[str]) -> list[str]:
        return [f"derivative of {name}" for name in names[: self.n_u]]

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

        def state(y: Vector) -> tuple[Vector]:
            x[n:] = y
            return (x,)

        what = f"u' and w that belong to u0 of {self._described(t)}; pass better guesses of them"
        return np.concatenate([q[:n], self._nearest(t, q[n:].copy(), state, what)])


class _SecondOrderProblem(QuasilinearProblem):
    """What equations of second order have in common."""

    _arguments = {name: ("t", "q", "v") for name in ("A", "B", "h", "d2g")} | {
        name: ("t", "q") for name in ("g", "dg", "dg_dt")
    }
    _with_velocity = frozenset(("A", "B", "h", "d2g"))
    _order = 2

    A = part("A", "The matrix A(t, u, u') of masses, shape (n, n).", velocity=True)
    h = part("h", "The forces h(t, u, u'), shape (n,).", velocity=True)

    @supplied
    def B(self, t: float, q: Vector, v: Vector, /) -> npt.ArrayLike:
        """The matrix G^T of the Jacobian of the constraints, shape (n, m)."""
        return self._part("dg", t, q, v).T

    def _blocks(self) -> tuple[Block, ...]:
        n, m, highest = self.n_u, self.n_constraints, self._index()
        velocities = Block("v", n, 1 if highest < 3 else 2)
        stabilisers = Block("mu", m if self.formulation == "ggl" else 0, highest)
        return Block("q", n, 1), velocities, Block("lambda", m, highest), stabilisers

    @property
    def groups(self) -> dict[str, slice]:
        """Positions, velocities and multipliers, and of "ggl" the unknowns that only stabilise."""
        n, end = self.n_u, 2 * self.n_u + self.n_constraints
        parts = {"position": slice(0, n), "velocity": slice(n, 2 * n), "multiplier": slice(2 * n, end)}
        return {**parts, "stabiliser": slice(end, self.n)} if self.n > end else parts

    def _first_names(self, names: Sequence[str]) -> list[str]:
        return [f"{what} {x}" for what in ("velocity", "force") for x in names[: self.n_u]]

    def state_parts(self, u: Vector) -> tuple[Vector, Vector | None, Vector | None]:
        """See :meth:`QuasilinearProblem.state_parts`."""
        n = self.n_u
        return u[..., :n], u[..., n : 2 * n], u[..., 2 * n : 2 * n + self.n_constraints]

    def saddle_point(
        self, t: float, q: npt.ArrayLike, v: npt.ArrayLike | None = None
    ) -> tuple[Vector, Vector]:
        """See :meth:`QuasilinearProblem.saddle_point`; velocities are zero if not given."""
        return super().saddle_point(t, q, np.zeros(self.n_u) if v is None else v)


class QuasiSecondOrderProblem(_SecondOrderProblem):
    r"""Equations of second order with constraints on positions, index 3.

    .. math::
        A(t, u, u')\, u'' + B(t, u, u')\, \lambda = h(t, u, u'), \qquad g(t, u) = 0

    The kind is "daeq3"; the state is (q, v, lambda) with q = u and v = u'. With G = g_u, the last block of
    equations is g = 0 ("index-3"), G v + g_t = 0 ("index-2"), or G v' + d2g = 0 ("index-1"); "ggl" keeps
    the first two with further unknowns mu, which are zero along solutions, in q' = v - G^T mu.

    Methods: ``A(t, q, v)``, shape (n, n); ``B(t, q, v)``, shape (n, m); ``h(t, q, v)``, shape (n,);
    ``g(t, q)``, shape (m,). Optional: ``dg(t, q)`` = g_u, shape (m, n); ``dg_dt(t, q)`` = g_t, shape (m,);
    ``d2g(t, q, v)`` = g_tt + 2 g_tu v + g_uu(v, v), shape (m,). With ``energy(q, v)``,
    a number from positions and velocities of shape (n,), :meth:`drift` gives the energy too.

    Parameters
    ----------
    n, m : int
        Numbers of positions and of constraints.
    formulation : str, optional
        "index-3", "index-2", "ggl" or "index-1".
    **settings
        Those of :class:`QuasilinearProblem`.

    Examples
    --------
    >>> class Rod(ds.QuasiSecondOrderProblem):
    ...     def A(self, t, q, v):
    ...         return np.eye(2)
    ...     def h(self, t, q, v):
    ...         return [0.0, -9.81]
    ...     def g(self, t, q):
    ...         return [0.5 * (q @ q - 1.0)]
    ...     def B(self, t, q, v):
    ...         return q[:, None]
    ...
    >>> Rod(2, 1).consistent(0.0, [0.6, -0.8], [0.0, 0.0]).round(3)
    array([ 0.6  , -0.8  ,  0.   ,  0.   ,  7.848])
    """

    kind = "daeq3"
    formulations = ("index-3", "index-2", "ggl", "index-1")
    _needed: ClassVar[tuple[str, ...]] = ("A", "B", "h", "g")

    B = part("B", "The matrix B(t, u, u') of the multipliers, shape (n, m).", velocity=True)
    g = part("g", "The constraints g(t, u), shape (m,).")
    dg = part("dg", "The matrix G = dg/du, shape (m, n).")
    dg_dt = part("dg_dt", "The partial derivative dg/dt with u fixed, shape (m,).")
    d2g = part(
        "d2g",
        "What the constraints add to G u'' when they are differentiated twice, shape (m,).",
        velocity=True,
    )

    _differentiated = "second derivative of "
    _rest = "d2g"

    def _nearest_consistent(self, t: float, q: Vector, v: Vector | None) -> tuple[Vector, Vector]:
        assert v is not None
        q = self._projected(t, q)
        G = self._part("dg", t, q)
        for _ in range(2):  # a large first defect leaves a rounding error
            v = v - np.linalg.lstsq(G, self._velocity_defect(t, q, v), rcond=None)[0]
        return q, v

    def _check_constraints(self, t: float, q: Vector, v: Vector | None, advice: str) -> None:
        super()._check_constraints(t, q, v, advice)
        assert v is not None
        G, explicit = self._part("dg", t, q), self._part("dg_dt", t, q)
        scale = 1.0 + np.abs(G) @ np.abs(v) + np.abs(explicit)
        self._violated("u'0", "the derivative of constraint", G @ v + explicit, scale, t, advice)


class QuasiLagrangeProblem(QuasiSecondOrderProblem):
    r"""Euler-Lagrange equations with constraints on positions, index 3.

    .. math::
        A(u)\, u'' + g_u(u)^T \lambda = h(u, u'), \qquad g(u) = 0

    The kind is "eulag": a :class:`QuasiSecondOrderProblem` with B = g_u^T, which a class does not give, and
    constraints that do not depend on time, so that g_t = 0.

    Parameters
    ----------
    n, m : int
        Numbers of positions and of constraints.
    formulation : str, optional
        "index-3", "index-2", "ggl" or "index-1".
    **settings
        Those of :class:`QuasilinearProblem`.

    Examples
    --------
    >>> problem = ds.RigidPendulum()
    >>> isinstance(problem, ds.QuasiLagrangeProblem), problem.names
    (True, ('x', 'y', 'v_x', 'v_y', 'lambda'))
    """

    kind = "eulag"
    fixed_constraints = True
    _needed = ("A", "h", "g")

    B = _SecondOrderProblem.B


class NonholonomicProblem(_SecondOrderProblem):
    r"""Equations of second order with constraints on velocities, index 2.

    .. math::
        A(t, u, u')\, u'' + g_{u'}(t, u, u')^T \lambda = h(t, u, u'), \qquad g(t, u, u') = 0

    The kind is "nohol"; the state is (q, v, lambda) with q = u and v = u'.

    Methods: ``A(t, q, v)``, shape (n, n); ``h(t, q, v)``, shape (n,); ``g(t, q, v)``, shape (m,). Optional:
    ``dg(t, q, v)`` = G = g_{u'}, shape (m, n); ``dg_dt(t, q, v)`` = g_t + g_u v with v fixed, shape (m,), so
    that G v' + dg_dt = 0; ``energy(q, v)`` as of a :class:`QuasiSecondOrderProblem`.

    Parameters
    ----------
    n, m : int
        Numbers of positions and of constraints.
    formulation : str, optional
        "index-2" with g = 0, or "index-1" with G v' + dg_dt = 0.
    **settings
        Those of :class:`QuasilinearProblem`.

    Examples
    --------
    >>> problem = ds.Skate()
    >>> isinstance(problem, ds.NonholonomicProblem), problem.names
    (True, ('u1', 'u2', 'v1', 'v2', 'lambda'))
    """

    kind = "nohol"
    formulations = ("index-2", "index-1")
    _arguments = {name: ("t", "q", "v") for name in ("A", "h", "g", "dg", "dg_dt")}
    _needed = ("A", "h", "g")
    _with_velocity = frozenset(("A", "B", "h", "g", "dg", "dg_dt"))

    g = part("g", "The constraints g(t, u, u'), shape (m,).", velocity=True)
    dg = part("dg", "The matrix G = dg/du', shape (m, n).", velocity=True)
    dg_dt = part(
        "dg_dt",
        "What the constraints add to G u'' when they are differentiated, g_t + g_u u', shape (m,).",
        velocity=True,
    )

    def _scale(self, t: float, q: Vector, v: Vector | None = None) -> Vector:
        assert v is not None
        return 1.0 + np.abs(self._part("dg", t, q, v)) @ np.abs(v)

    def _nearest_consistent(self, t: float, q: Vector, v: Vector | None) -> tuple[Vector, Vector]:
        assert v is not None
        what = f"velocities near u'0 that fulfil the constraints of {self._described(t)}; pass better ones"
        return q, self._nearest(t, v, lambda x: (q, x), what)

    def _check_constraints(self, t: float, q: Vector, v: Vector | None, advice: str) -> None:
        assert v is not None
        self._violated("u'0", "constraint", self._part("g", t, q, v), self._scale(t, q, v), t, advice)
