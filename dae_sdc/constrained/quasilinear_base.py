"""What all quasilinear problems with constraints have in common.

A class says what A, B, h and the constraints g are. From these come the residual F(t, u, u') in the
formulation that is asked for, and the parts as C functions for solvers that work on the manifold of the
constraints, see :class:`~dae_sdc.constrained.quasilinear_parts.Pointers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dae_sdc.constrained.quasilinear_parts import (
    PARTS,
    QuasilinearParts,
    _constraint_machine,
    _gives,
    _machine,
)
from dae_sdc.constrained.saddle import nearest_point, solve_saddle
from dae_sdc.dae.differences import STEP
from dae_sdc.dae.guard import unguarded
from dae_sdc.dae.kernels import COMPLEX_STEP, Kernels, compile_kernel
from dae_sdc.dae.problem import _is_integer, _matrix, _real, _taken, follows_from_residual, undefined
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import InconsistentStateError, InputError
from dae_sdc.registry import unknown

CONSISTENT = 1e-8
"""Largest violation of a constraint, relative to 1 + the size of its terms, of a consistent state."""

WRONG = 1e-5
"""Relative difference from automatic derivatives beyond which a given one is refused."""

CUBE_ROOT_EPS = float(np.cbrt(np.finfo(float).eps))


class QuasilinearProblem(QuasilinearParts):
    """Base of the problems that say their equations by A, B, h and the constraints g.

    Use :class:`QuasiFirstOrderProblem`, :class:`QuasiSecondOrderProblem`, :class:`NonholonomicProblem`,
    :class:`QuasiLagrangeProblem` or :class:`ImplicitDAE`. Methods take and return arrays; each may instead be
    a kernel with the name of the method and ``_kernel`` behind it: a class attribute, a function
    ``kernel(t, u, v, p, out)`` of the form of residual kernels (see :mod:`dae_sdc.dae.kernels`) that writes
    the entries of the part row by row, with parameters p from :meth:`kernel_parameters`. Where all parts are
    kernels, so are the residual and its Jacobian in every formulation.

    Derivatives that are not given are those by complex steps where the functions take complex numbers, which
    is tried once, and central differences of order 6 else. ``dt`` and ``nominal`` set their steps. Given ones
    are compared with these when a run begins.

    Parameters
    ----------
    n : int
        Number of functions u (positions).
    m : int
        Number of constraints.
    formulation : str, optional
        Which equations :meth:`eval_f` gives; one of ``formulations``, the first if not given.
    **settings
        ``newton_tol``, ``newton_maxiter`` and ``linear_solver`` of :class:`ProblemDAE`.

    Attributes
    ----------
    kind : str
        Which of the six types: "daen1", "daeq1", "daeq2", "daeq3", "nohol" or "eulag".
    n_u, n_constraints : int
        n and m.
    names : tuple of str
        Of the unknowns of the first formulation; names of further unknowns are added.
    constraint_names : tuple of str
        Of the constraints, for messages.
    stiff : bool
        A hint for the choice of a method.

    References
    ----------
    P. J. Rabier, W. C. Rheinboldt: Theoretical and numerical analysis of differential-algebraic equations,
    Handbook of Numerical Analysis VIII, Elsevier 2002. C. W. Gear, B. Leimkuhler, G. K. Gupta: Automatic
    integration of Euler-Lagrange equations with constraints, J. Comput. Appl. Math. 12 (1985) 77.
    """

    formulations: ClassVar[tuple[str, ...]] = ("index-1",)
    constraint_names: tuple[str, ...] = ()
    stiff: ClassVar[bool] = False

    _needed: ClassVar[tuple[str, ...]] = ()

    def __init__(self, n: int, m: int, formulation: str | None = None, **settings: Any) -> None:
        cls = type(self).__name__
        for count in (n, m):
            if not _is_integer(count):
                raise InputError(f"the numbers n and m of {cls} must be integers; got n={n!r}, m={m!r}")
        if not 1 <= m <= n:
            raise InputError(f"{cls} needs from 1 to n constraints; got n={n}, m={m}")
        if formulation is None:
            formulation = self.formulations[0]
        if formulation not in self.formulations:
            raise InputError(unknown(f"formulation of {cls}", formulation, self.formulations))
        if self.kind in ("eulag", "nohol") and self._given("B"):
            raise InputError(f"{cls} defines B, but its B is the transposed of dg; remove it")
        missing = [name for name in self._needed if not self._given(name)]
        if missing:
            signatures = ", ".join(f"{name}({', '.join(self._arguments[name])})" for name in missing)
            raise InputError(f"{cls} defines no {signatures}")
        self.__dict__.update(_size=int(n), n_u=int(n), n_constraints=int(m), formulation=formulation)
        self._set_texts()
        n_diff = self._n_diff()
        super().__init__(n_diff, self._count() - n_diff, **settings)
        self._makeAttributeAndRegister("formulation", localVars=locals())
        self.index = self._index()
        self.variable_index = self._variable_indices()
        self._begin_parts()
        self._derivatives_checked = False

    # --- what the formulations differ in --------------------------------------------------------------

    n_u: int
    formulation: str

    def _n_diff(self) -> int:
        raise NotImplementedError

    def _count(self) -> int:
        raise NotImplementedError

    def _index(self) -> int:
        return {"index-3": 3, "index-2": 2, "ggl": 2, "index-1": 1}[self.formulation]

    def _variable_indices(self) -> tuple[int, ...]:
        raise NotImplementedError

    def _default_names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def _rows(self, names: Sequence[str], constraints: Sequence[str]) -> tuple[str, ...]:
        """Names of the equations from those of the unknowns and of the constraints."""
        raise NotImplementedError

    def _residual(self, t: float, x: Vector, dx: Vector, at: Callable[..., Vector]) -> Vector:
        """F(t, x, x') of packed arrays, real or complex, with ``at`` to evaluate the parts."""
        raise NotImplementedError

    def _set_texts(self) -> None:
        """Names, units and sizes of all unknowns, for which a class gives those of the first formulation."""
        m, total = self.n_constraints, self._count()
        given = tuple(self.constraint_names) or tuple(f"constraint {i}" for i in range(m))
        if len(given) != m:
            raise InputError(
                f"{type(self).__name__}.constraint_names has {len(given)} entries for {m} constraints"
            )
        self.__dict__["constraint_names"] = given
        extra = tuple(f"mu_{i}" for i in range(m)) if self.formulation == "ggl" else ()
        texts = {"names": extra, "units": ("",) * len(extra)}
        for attribute, added in texts.items():
            if isinstance(getattr(type(self), attribute, None), property):
                continue
            own: Any = getattr(self, attribute)
            if isinstance(own, tuple | list) and len(own) == total - len(added) and added:
                self.__dict__[attribute] = (*own, *added)
            elif attribute == "names" and not len(own):
                self.__dict__["names"] = (*self._default_names(), *added)
        sizes = np.asarray(self.nominal, dtype=float)
        if extra and sizes.ndim == 1 and len(sizes) == total - len(extra):
            self.__dict__["nominal"] = np.concatenate([sizes, np.ones(len(extra))])
        names = self.names
        if len(names) == total and len(self.equation_names) != total:
            self.__dict__["equation_names"] = self._rows(names, given)

    # --- the form F(t, u, u') = 0 ----------------------------------------------------------------------

    @classmethod
    def _forget_equations(cls, own: Mapping[str, Any], new: set[str]) -> None:
        for name, kernel in (("eval_f", "residual_kernel"), ("jacobian", "jacobian_kernel")):
            above = next(base for base in cls.__mro__[1:] if name in vars(base))
            if own.get(kernel) is COMPLEX_STEP:
                stale = cls.residual_kernel is None
            else:
                stale = name not in own and any(_gives(above, part) for part in new)
            if stale:
                setattr(cls, kernel, None)
                setattr(cls, name, getattr(QuasilinearProblem, name))
        nodes = next((base for base in cls.__mro__ if "residual_nodes" in vars(base)), cls)
        if nodes is not cls and "residual_nodes" not in own and any(_gives(nodes, part) for part in new):
            cls.residual_nodes = None

    def _gives_equations(self) -> bool:
        return type(self).eval_f is not QuasilinearProblem.eval_f

    def _last_rows(self) -> str:
        if self.kind in ("daeq3", "eulag"):
            forms = {"index-3": "constraint", "index-2": "hidden", "ggl": "both", "index-1": "derivative"}
            return forms[self.formulation]
        differentiated = self.formulation == "index-1" and self.kind in ("daeq2", "nohol")
        return "derivative" if differentiated else "constraint"

    @property
    def kernels(self) -> Kernels | None:
        """Residual and Jacobian as C functions; None where a part is not given as a kernel."""
        if not self._compiles_equations:
            return super().kernels
        own = _constraint_machine()
        first, second = own.function("residual"), None
        if type(self).jacobian is QuasilinearProblem.jacobian:
            self._enter_complex_parts()
            second = own.function("jacobian")
        elif self.jacobian_kernel is not None:
            given: Any = type(self).jacobian_kernel
            second = compile_kernel(given, "jacobian")
        return Kernels(first.address, second.address if second else 0, (first, second, self._workspace()))

    def _residual_address(self) -> int:
        if not self._compiles_equations:
            return super()._residual_address()
        return int(_constraint_machine().function("residual").address)

    @unguarded
    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """The residual F(t, u, u') of the formulation, shape (n,)."""
        if self._compiles_equations:
            out, place, slope = np.empty(self.n), _taken(self, u), _taken(self, du)
            address, p = _constraint_machine().function("residual").address, self.packed_parameters
            _machine().residual_at(address, float(t), place, slope, p, out)
            return out
        x, dx = np.asarray(u, dtype=float), np.asarray(du, dtype=float)
        return self._residual(float(t), x, dx, self._at)

    @follows_from_residual
    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Vector:
        """The matrix dF/du' + c dF/du, shape (n, n), by complex steps where all parts take them."""
        if self._compiles_equations:
            self._enter_complex_parts()
            matrix: Vector = _matrix(self, _constraint_machine().function("jacobian").address, u, du, t, c)
            return matrix
        x, dx, t = u.view(np.ndarray), du.view(np.ndarray), float(t)
        q, v = self._motion(x)
        names = [name for name in PARTS if self._given(name)]
        columns = []
        if all(self._takes_complex(name, t, q, v) for name in names):
            # The parts are functions of u and u' alone, and F is linear in all else.
            known: dict[str, Vector] = {}

            def fixed(name: str, *at: Any) -> Vector:
                if name not in known:
                    known[name] = self._at(name, t, q, v)
                return known[name]

            def moving(name: str, *at: Any) -> Vector:
                return fixed(name) if j >= self._size and self._rests(name) else self._at_complex(name, *at)

            moved = 0 if c == 0.0 else self._size * (1 if v is None else 2)
            for j, e in enumerate(np.eye(self.n)):
                step = x + 1j * c * STEP * e, dx + 1j * STEP * e
                columns.append(np.imag(self._residual(t, *step, moving if j < moved else fixed)) / STEP)
        else:
            steps = CUBE_ROOT_EPS * np.maximum(1.0, np.maximum(np.abs(x), np.abs(dx)))
            for e in np.diag(steps):
                above, below = (
                    self.evaluate(attach(x + c * s, self.n_diff), attach(dx + s, self.n_diff), t)
                    for s in (e, -e)
                )
                columns.append((above - below) / (2.0 * e.sum()))
        return np.ascontiguousarray(np.transpose(columns))

    def _rests(self, name: str) -> bool:
        """Whether a part does not depend on u'."""
        return name not in self._with_velocity

    def _motion(self, x: Vector) -> tuple[Vector, Vector | None]:
        """u, and u' where it is part of a packed state."""
        return x[: self._size], None

    # --- services -------------------------------------------------------------------------------------

    def _what(self, t: float) -> str:
        return f"{type(self).__name__} at t={t:.6g}"

    def _rest(self, t: float, q: Vector, v: Vector | None) -> Vector:
        """What the constraints add to G times the highest derivative when they are differentiated."""
        return self._at("dg_dt", t, q, v)

    def saddle_point(
        self, t: float, q: npt.ArrayLike, v: npt.ArrayLike | None = None
    ) -> tuple[Vector, Vector]:
        r"""Derivative and multipliers from the equations and the differentiated constraints.

        .. math::
            \begin{pmatrix} A & B \\ G & 0 \end{pmatrix}
            \begin{pmatrix} a \\ \lambda \end{pmatrix} =
            \begin{pmatrix} h \\ -r \end{pmatrix}

        Parameters
        ----------
        t : float
            Time.
        q, v : array_like, shape (n_u,)
            Functions u, and for equations of second order their derivatives.

        Returns
        -------
        derivative : ndarray, shape (n_u,)
            u' of equations of first order, u'' of those of second order.
        multipliers : ndarray, shape (n_constraints,)
            Lambda; of shape (0,) where the equations have none.

        Raises
        ------
        SingularMatrixError
            If the constraints are rank deficient, or A is not regular on the kernel of their Jacobian.
        """
        t, n = float(t), self._size
        place = self._vector("u", q)
        rate = None if v is None else self._vector("u'", v)
        A, h, G = (self._at(name, t, place, rate) for name in ("A", "h", "dg"))
        B = None if "B" not in self._has() else self._at("B", t, place, rate)
        rhs = np.concatenate([h, -self._rest(t, place, rate)])
        found = solve_saddle(A, B, G, rhs, self.constraint_names, self._what(t))
        return found[:n], found[n:]

    def saddle_matrix(self, t: float, q: Vector, v: Vector | None = None) -> Vector:
        """The matrix [A B; G 0], [A; G] where there are no multipliers, of :meth:`saddle_point`.

        Parameters
        ----------
        t : float
            Time.
        q, v : ndarray, shape (n_u,)
            Functions u, and for equations of second order their derivatives.

        Returns
        -------
        ndarray, shape (k, k)
            The rows of the constraints are the last.
        """
        A, G = self._at("A", t, q, v), self._at("dg", t, q, v)
        if "B" not in self._has():
            return np.vstack([A, G])
        return np.block([[A, self._at("B", t, q, v)], [G, np.zeros((len(G), len(G)))]])

    def _vector(self, name: str, values: Any, count: int | None = None) -> Vector:
        """What a user gave for some functions as a new array."""
        count = self._size if count is None else count
        try:
            array = _real(values)
        except TypeError as error:
            raise InputError(f"{name} of {type(self).__name__} must be real numbers ({error})") from None
        if array.shape != (count,):
            raise InputError(f"{name} of {type(self).__name__} must have shape ({count},); got {array.shape}")
        if not np.isfinite(array).all():
            raise InputError(f"{name} of {type(self).__name__} has a NaN or infinite entry")
        return np.array(array)

    def _violated(self, what: str, rule: str, values: Vector, scale: Vector, t: float, advice: str) -> None:
        """Refuse values of constraints beyond the tolerance."""
        relative = np.abs(values) / scale
        worst = int(np.argmax(np.where(np.isnan(relative), np.inf, relative)))
        if relative[worst] <= CONSISTENT:
            return
        raise InconsistentStateError(
            f"{what} of {type(self).__name__} violates {rule} '{self.constraint_names[worst]}' at t={t:.6g}: "
            f"residual {values[worst]:.2g} (tolerance {CONSISTENT * scale[worst]:.1e}); {advice}"
        )

    def _scale(self, t: float, q: Vector, v: Vector | None = None) -> Vector:
        """1 + the size of the terms of the constraints."""
        size: Vector = 1.0 + np.abs(self._at("dg", t, q, v)) @ np.abs(q)
        return size

    def _projected(self, t: float, q: Vector) -> Vector:
        """The nearest functions u that fulfil the constraints."""
        found = nearest_point(
            q,
            lambda x: self._at("g", t, x),
            lambda x: self._at("dg", t, x),
            lambda x: self._scale(t, x),
        )
        if found is None:
            raise InconsistentStateError(
                f"found no values near u0 that fulfil the constraints of {self._what(t)}; pass better ones"
            )
        return found

    def packed(
        self, q: npt.ArrayLike, v: npt.ArrayLike | None = None, multipliers: npt.ArrayLike = ()
    ) -> MeshDAE:
        """The state of the formulation from its parts; multipliers that only stabilise are zero."""
        parts = [np.asarray(q, dtype=float), np.asarray(() if v is None else v, dtype=float)]
        values = np.concatenate([*parts, np.asarray(multipliers, dtype=float)])
        return self.state(np.concatenate([values, np.zeros(max(0, self.n - len(values)))]))

    def state_parts(self, u: Vector) -> tuple[Vector, Vector | None, Vector | None]:
        """Views of u, u' and the multipliers in a packed state or rows of them, shape (..., n).

        Returns
        -------
        q : ndarray, shape (..., n_u)
            The functions; (u, u', w) of an :class:`ImplicitDAE`.
        v, multipliers : ndarray or None
            Velocities, shape (..., n_u), and multipliers, shape (..., n_constraints); None where a state has
            none.
        """
        raise NotImplementedError

    def check_start(self, u: MeshDAE, t: float) -> None:
        """Refuse a state from which no solution begins; called before every run.

        Constraints, hidden ones too, are looked at, their rank, the regularity of A, and once the derivatives
        that the class gives.

        Parameters
        ----------
        u : MeshDAE
            State of the formulation, shape (n,).
        t : float
            Time.

        Raises
        ------
        InconsistentStateError
            Naming the constraint that is violated most.
        SingularMatrixError
            If derivatives and multipliers are not determined.
        InputError
            If something that the class gives has a wrong shape or value.
        """
        q, v, _ = self.state_parts(np.array(u, dtype=np.float64))
        t = float(t)
        self._check_derivatives(t, q, v)
        self._check_constraints(t, q, v, "pass a consistent u0, see consistent()")
        self.saddle_point(t, q, v)

    def _check_constraints(self, t: float, q: Vector, v: Vector | None, advice: str) -> None:
        self._violated("u0", "constraint", self._at("g", t, q, v), self._scale(t, q, v), t, advice)

    def _check_derivatives(self, t: float, q: Vector, v: Vector | None) -> None:
        """Compare derivatives that the class gives with automatic ones, once."""
        if self._derivatives_checked:
            return
        # Beside the start, where nothing vanishes by symmetry or because the system is at rest; at the start
        # where the parts are not defined there.
        turn = np.cos(1.0 + 2.0 * np.arange(self._size))
        place = q + 0.01 * self._scales(q)[0] * turn
        rate = None if v is None else v + (1.0 + np.abs(v)) * 0.3 * turn[::-1]
        if self.kind == "eulag" and self._changes(t, q):
            raise InputError(
                f"g of {type(self).__name__} depends on t; a QuasiLagrangeProblem has fixed constraints, "
                f"use a QuasiSecondOrderProblem"
            )
        known = self._complex
        if self._given("g") == "kernel":
            # Differences will do; compiling for complex numbers takes longer than all the rest.
            self._complex = {"g": False, "g(t)": False, "dg": False}
        try:
            for name in ("dg", "dg_dt", "d2g"):
                if name in self._has() and self._given(name):
                    for at in ((t, place, rate), (t, q, v)):
                        if self._compare(name, *at):
                            break
        finally:
            self._complex = known
        self._derivatives_checked = True

    def _changes(self, t: float, q: Vector) -> bool:
        """Whether constraints depend on time."""
        time, now = self._scales(q)[1], self._at("g", t, q)
        try:
            return any((self._at("g", t + k * time, q) != now).any() for k in (-1, 1))
        except (ArithmeticError, ValueError) as error:
            if not undefined(error):
                raise
            return False

    def _compare(self, name: str, t: float, q: Vector, v: Vector | None) -> bool:
        """Refuse a wrong derivative; False where there is none to compare with."""
        derive: Callable[..., Vector] = getattr(self, f"_derived_{name}")
        try:
            given, expected = self._at(name, t, q, v), derive(t, q, v)
        except (ArithmeticError, ValueError) as error:
            if not undefined(error):
                raise
            return False
        if not (np.isfinite(expected).all() and np.isfinite(given).all()):
            return False
        size = np.maximum(np.abs(given), np.abs(expected)).reshape(len(given), -1).max(axis=1)
        scale = (size + 1e-4).reshape((-1,) + (1,) * (given.ndim - 1))
        relative = np.abs(given - expected) / scale
        worst = np.unravel_index(int(relative.argmax()), relative.shape)
        if relative[worst] > WRONG:
            label = self._user_names.get(name, name)
            entry = ", ".join(str(int(i)) for i in worst)
            raise InputError(
                f"{label} of {type(self).__name__} is wrong in entry ({entry}), constraint "
                f"'{self.constraint_names[int(worst[0])]}': it gives {given[worst]:.6g} near t={t:.6g}, "
                f"differentiation {expected[worst]:.6g}; correct it, or leave it out"
            )
        return True

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
        found = {"constraint": float(np.abs(self._at("g", float(t), q, v)).max())}
        if v is not None and "g" not in self._with_velocity:
            found["velocity"] = float(np.abs(self._velocity_defect(float(t), q, v)).max())
        energy: Callable[..., Any] | None = getattr(self, "energy", None)
        if energy is not None and v is not None:
            found["energy"] = float(energy(q, v))
        return found

    @property
    def invariant_names(self) -> tuple[str, ...]:
        """Names of what :meth:`invariants` gives."""
        names = self.constraint_names
        return (*names, *(f"derivative of {name}" for name in names)) if self._is_holonomic else names

    @property
    def _is_holonomic(self) -> bool:
        """Whether the derivatives of the constraints bind a state too."""
        return bool(self._with_velocity) and "g" not in self._with_velocity

    def invariants(self, u: npt.ArrayLike, t: float) -> Vector:
        """What vanishes along solutions: g and, for constraints on positions, also G v + g_t.

        Parameters
        ----------
        u : array_like, shape (n,)
            State of the formulation.
        t : float
            Time.

        Returns
        -------
        ndarray, shape (k,)
            One entry for each of ``invariant_names``.
        """
        q, v, _ = self.state_parts(np.asarray(u, dtype=float))
        value = self._at("g", float(t), q, v)
        if not self._is_holonomic:
            return value
        assert v is not None
        return np.concatenate([value, self._velocity_defect(float(t), q, v)])

    def invariants_jacobian(self, u: npt.ArrayLike, t: float) -> Vector:
        """The derivative of :meth:`invariants` with respect to the state.

        For constraints on velocities that with respect to positions is left out: they stay as they are.

        Parameters
        ----------
        u : array_like, shape (n,)
            State of the formulation.
        t : float
            Time.

        Returns
        -------
        ndarray, shape (k, n)
            The matrix.
        """
        t, size = float(t), self._size
        q, v, _ = self.state_parts(np.asarray(u, dtype=float))
        found = np.zeros((len(self.invariant_names), self.n))
        G = self._at("dg", t, q, v)
        m = len(G)
        if "g" in self._with_velocity:
            found[:, size : 2 * size] = G
            return found
        found[:m, :size] = G
        if self._is_holonomic:
            assert v is not None
            found[m:, size : 2 * size] = G
            # d2g is quadratic in v: its differences are exact, and those of G v + g_t times 4.
            for j, e in enumerate(np.diag(1.0 + np.abs(v))):
                above, below = self._at("d2g", t, q, v + e), self._at("d2g", t, q, v - e)
                found[m:, j] = (above - below) / (4.0 * e[j])
        return found

    def _velocity_defect(self, t: float, q: Vector, v: Vector) -> Vector:
        return self._at("dg", t, q) @ v + self._at("dg_dt", t, q)
