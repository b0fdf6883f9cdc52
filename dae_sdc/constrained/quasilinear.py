"""Quasilinear equations with constraints: what their six types have in common.

A class gives A, B, h and the constraints g. From these come the residual F(t, u, u') in the
formulation that is asked for, and the parts as C functions for solvers that work on the manifold of the
constraints, see :class:`~dae_sdc.constrained.parts.Pointers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from dae_sdc.arguments import is_integer
from dae_sdc.constrained.parts import PARTS, CompiledParts, how_given, machine_function, slope_along
from dae_sdc.dae.consistency import LARGEST_VIOLATION
from dae_sdc.dae.kernels import (
    COMPLEX_STEP,
    Kernels,
    compile_kernel,
    follows_from_residual,
    matrix_of_kernel,
    residual_of_kernel,
)
from dae_sdc.dae.projection import EquationFunctions, project
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.dae.values import real_numbers, unguarded
from dae_sdc.errors import EvaluationError, InconsistentStateError, InputError, SingularMatrixError
from dae_sdc.registry import unknown

# Reciprocal condition of the matrix with rows and columns of size 1, below which it counts as singular.
LEAST_CONDITION: Final = 1e-13
ROW_ROUND_OFF: Final = 1e-14  # Part of the largest row below which another row is nothing but round-off.
# Part of a row that is independent of those before it, below which it counts as dependent.
LEAST_INDEPENDENCE: Final = 1e-11
# Largest constraint relative to its scale at a point that counts as a solution; it is mostly round-off.
LARGEST_PROJECTED_VIOLATION: Final = 1e-8


def _saddle(A: Vector, B: Vector | None, G: Vector) -> Vector:
    return np.vstack([A, G]) if B is None else np.block([[A, B], [G, np.zeros((len(G), len(G)))]])


def solve_saddle(
    A: Vector, B: Vector | None, G: Vector, rhs: Vector, names: Sequence[str], what: str
) -> Vector:
    """Solve [A B; G 0] x = rhs, or [A; G] x = rhs where B is None."""
    # Shapes: A (n, n), B (n, m), G (m, n), rhs (n + m,) or (n,) -> (n + m,) or (n,).
    matrix = _saddle(A, B, G)
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
    return np.asarray(solution / columns)


def dependent(G: Vector) -> tuple[int, int | None]:
    """Rank of a matrix, and the first row that depends on those before it."""
    # Shapes: G (m, n), m <= n.
    sizes = np.linalg.norm(G, axis=1)
    is_row = sizes > ROW_ROUND_OFF * max(sizes.max(initial=0.0), 1.0)
    unit_rows = G / np.where(is_row, sizes, np.inf)[:, None]
    rests = np.abs(np.diagonal(np.linalg.qr(unit_rows.T, mode="r")))
    weak = np.flatnonzero(rests <= LEAST_INDEPENDENCE)
    rank = int(np.linalg.matrix_rank(unit_rows, LEAST_INDEPENDENCE))
    return rank, int(weak[0]) if len(weak) else None


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


class ConstraintManifold(CompiledParts):
    """States that fulfil constraints, with derivatives and multipliers that follow from the equations."""

    def _described(self, t: float) -> str:
        return f"{type(self).__name__} at t={t:.6g}"

    _rest: ClassVar[str] = "dg_dt"  # the part that is r of :meth:`saddle_point`

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
        rhs = np.concatenate([self._part("h", t, place, rate), -self._part(self._rest, t, place, rate)])
        blocks = self._saddle_blocks(t, place, rate)
        solution = solve_saddle(*blocks, rhs, self.constraint_names, self._described(t))
        return solution[:n], solution[n:]

    def saddle_matrix(self, t: float, q: Vector, v: Vector | None = None) -> Vector:
        """The matrix [A B; G 0], [A; G] where there are no multipliers, of :meth:`saddle_point`."""
        # Shapes: q and v (n_u,) -> (k, k).
        return _saddle(*self._saddle_blocks(t, q, v))

    def _saddle_blocks(self, t: float, q: Vector, v: Vector | None) -> tuple[Vector, Vector | None, Vector]:
        B = self._part("B", t, q, v) if self._has_multipliers else None
        return self._part("A", t, q, v), B, self._part("dg", t, q, v)

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
        if relative[worst] <= LARGEST_VIOLATION:
            return
        raise InconsistentStateError(
            f"{what} of {type(self).__name__} violates {rule} '{self.constraint_names[worst]}' at t={t:.6g}: "
            f"residual {values[worst]:.2g} (tolerance {LARGEST_VIOLATION * scale[worst]:.1e}); {advice}"
        )

    def _scale(self, t: float, q: Vector, v: Vector | None = None) -> Vector:
        """1 + the size of the terms of the constraints."""
        return 1.0 + np.abs(self._part("dg", t, q, v)) @ np.abs(q)

    def _projected(self, t: float, q: Vector) -> Vector:
        """The nearest functions u that fulfil the constraints."""
        what = f"values near u0 that fulfil the constraints of {self._described(t)}; pass better ones"
        return self._nearest(t, q, lambda x: (x,), what)

    def _nearest(
        self, t: float, point: Vector, state: Callable[[Vector], tuple[Vector, ...]], what: str
    ) -> Vector:
        """The nearest point at which the constraints of its state hold; an error says ``what`` is not."""
        count = len(point)  # the last of the unknowns that constraints bind
        equations = EquationFunctions(
            lambda x: self._part("g", t, *state(x)),
            lambda x: self._part("dg", t, *state(x))[:, -count:],
            lambda x: self._scale(t, *state(x)),
        )
        found = project(point, equations, sizes=np.abs(point).max(initial=0.0))
        if (np.abs(found.after) > LARGEST_PROJECTED_VIOLATION * self._scale(t, *state(found.x))).any():
            raise InconsistentStateError(f"found no {what}")
        return found.x

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
        # Shapes: u_row and du_row (n,) -> u_row, du_row (n,). Rates of multipliers stay.
        q, v, _ = self.state_parts(np.array(u_row, dtype=float))
        q, v = self._nearest_consistent(float(t), q, v)
        rate, multipliers = self.saddle_point(t, q, v)
        values, rates = np.array(self.packed(q, v, multipliers)), np.array(du_row, dtype=float)
        moving = rate if v is None else np.concatenate([v, rate])
        rates[: len(moving)] = moving
        rates[len(moving) + len(multipliers) :] = 0.0
        return values, rates

    def _nearest_consistent(self, t: float, q: Vector, v: Vector | None) -> tuple[Vector, Vector | None]:
        """The nearest positions, and there the nearest velocities, that fulfil the constraints."""
        return self._projected(t, q), None

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
        values = np.abs(self.invariants(u, t)).reshape(-1, self.n_constraints).max(axis=1)
        errors = dict(zip(("constraint", "velocity"), values.tolist(), strict=False))
        energy: Callable[..., Any] | None = getattr(self, "energy", None)
        if energy is not None and v is not None:
            errors["energy"] = float(energy(q, v))
        return errors

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
        jacobian = np.zeros((len(self.invariant_names), self.n))
        G = self._part("dg", t, q, v)
        m = len(G)
        if "g" in self._with_velocity:
            jacobian[:, size : 2 * size] = G
            return jacobian
        jacobian[:m, :size] = G
        if self._is_holonomic:
            assert v is not None
            jacobian[m:, size : 2 * size] = G
            # d2g is quadratic in v: its central differences are exact, and twice the derivative of G v + g_t.
            for j, e in enumerate(np.diag(1.0 + np.abs(v))):
                above, below = self._part("d2g", t, q, v + e), self._part("d2g", t, q, v - e)
                jacobian[m:, j] = (above - below) / (4.0 * e[j])
        return jacobian

    def _velocity_defect(self, t: float, q: Vector, v: Vector) -> Vector:
        return self._part("dg", t, q) @ v + self._part("dg_dt", t, q)


class Block(NamedTuple):
    """Unknowns of one kind in a state: the letter of their names, how many they are, and their index."""

    letter: str
    size: int
    variable_index: int


class QuasilinearProblem(ConstraintManifold):
    """Base of the problems that give their equations by A, B, h and the constraints g.

    The base of :class:`QuasiSecondOrderProblem`, whose example shows it.

    Use :class:`QuasiFirstOrderProblem`, :class:`QuasiSecondOrderProblem`, :class:`NonholonomicProblem`,
    :class:`QuasiLagrangeProblem` or :class:`ImplicitDAE`. Methods take and return arrays; each may instead be
    a kernel with the name of the method and ``_kernel`` behind it: a class attribute, a function
    ``kernel(t, u, v, p, out)`` of the form of residual kernels (see :mod:`dae_sdc.dae.kernels`) that writes
    the entries of the part row by row, with parameters p from :meth:`kernel_parameters`. Where all parts are
    kernels, so are the residual and its Jacobian in every formulation.

    Derivatives that are not given are computed by complex steps where the functions take complex numbers,
    which is tried once, else by central differences of order 6, whose steps ``dt`` and ``nominal`` set. Given
    derivatives are compared with these when a run begins.

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
        Names of the unknowns of the first formulation; those of further unknowns are added.
    constraint_names : tuple of str
        Names of the constraints, for messages.
    stiff : bool
        A hint for the choice of a method.

    References
    ----------
    P. J. Rabier, W. C. Rheinboldt: Theoretical and numerical analysis of differential-algebraic equations,
    Handbook of Numerical Analysis VIII, Elsevier 2002. C. W. Gear, B. Leimkuhler, G. K. Gupta: Automatic
    integration of Euler-Lagrange equations with constraints, J. Comput. Appl. Math. 12 (1985) 77.
    """

    formulations: ClassVar[tuple[str, ...]] = ("index-1",)
    stiff: ClassVar[bool] = False

    _needed: ClassVar[tuple[str, ...]] = ()
    _order: ClassVar[int] = 1  # of the equations
    _differentiated: ClassVar[str] = "derivative of "  # what stands before the name of a constraint

    def __init__(self, n: int, m: int, formulation: str | None = None, **settings: Any) -> None:
        cls = type(self).__name__
        for count in (n, m):
            if not is_integer(count):
                raise InputError(f"the numbers n and m of {cls} must be integers; got n={n!r}, m={m!r}")
        if not 1 <= m <= n:
            raise InputError(f"{cls} needs from 1 to n constraints; got n={n}, m={m}")
        if formulation is None:
            formulation = self.formulations[0]
        if formulation not in self.formulations:
            raise InputError(unknown(f"formulation of {cls}", formulation, self.formulations))
        if self.kind in ("eulag", "nohol") and self._source_of("B"):
            raise InputError(f"{cls} defines B, but its B is the transposed of dg; remove it")
        missing = [name for name in self._needed if not self._source_of(name)]
        if missing:
            signatures = ", ".join(f"{name}({', '.join(self._arguments[name])})" for name in missing)
            raise InputError(f"{cls} defines no {signatures}")
        self.__dict__.update(_size=int(n), n_u=int(n), n_constraints=int(m), formulation=formulation)
        self._set_texts()
        n_diff = self._order * self.n_u
        super().__init__(n_diff, self._count() - n_diff, **settings)
        self._makeAttributeAndRegister("formulation", localVars=locals())
        self.index = self._index()
        self.variable_index = tuple(k for _, size, k in self._blocks() for _ in range(size))
        self._begin_parts()

    # --- what the formulations differ in --------------------------------------------------------------

    n_u: int
    formulation: str

    def _blocks(self) -> tuple[Block, ...]:
        """The unknowns of the formulation in their order."""
        raise NotImplementedError

    def _count(self) -> int:
        return sum(block.size for block in self._blocks())

    def _index(self) -> int:
        return {"index-3": 3, "index-2": 2, "ggl": 2, "index-1": 1}[self.formulation]

    def _rows(self, names: Sequence[str], constraints: Sequence[str]) -> tuple[str, ...]:
        """Names of the equations from those of the unknowns and of the constraints."""
        hidden = "first derivative of "
        prefixes = {"constraint": ("",), "hidden": (hidden,), "both": ("", hidden)}
        last = prefixes.get(self._last_rows(), (self._differentiated,))
        return (*self._first_names(names), *(prefix + name for prefix in last for name in constraints))

    def _first_names(self, names: Sequence[str]) -> list[str]:
        """Names of the equations before the constraints."""
        raise NotImplementedError

    def residual_of_parts(self, t: float, x: Vector, dx: Vector, at: Callable[..., Vector]) -> Vector:
        """The residual F(t, x, x') of the formulation by its parts, for numbers or expressions."""
        # A part has its value ``at`` its name, the time, positions and, if it depends on them, velocities.
        form, (q, v, multipliers) = self._last_rows(), self.state_parts(x)
        n, place = self.n_u, (q,) if v is None else (q, v)
        rates = dx[:n] if v is None else dx[n : 2 * n]
        forces = at("A", t, *place) @ rates
        if multipliers is not None:
            forces = forces + at("B", t, *place) @ multipliers
        blocks = [forces - at("h", t, *place)]
        if v is not None:
            blocks = [dx[:n] - v, *blocks]
        if form == "constraint":
            return np.concatenate([*blocks, at("g", t, *place)])
        G = at("dg", t, *place)
        if form == "derivative":
            return np.concatenate([*blocks, G @ rates + at(self._rest, t, *place)])
        assert v is not None
        hidden = G @ v + at("dg_dt", t, q)
        if form == "hidden":
            return np.concatenate([*blocks, hidden])
        blocks[0] = blocks[0] + G.T @ x[2 * n + self.n_constraints :]
        return np.concatenate([*blocks, at("g", t, q), hidden])

    def consistent(
        self,
        t: float,
        u: npt.ArrayLike,
        v: npt.ArrayLike | None = None,
        project: bool = False,
        w: npt.ArrayLike | None = None,
    ) -> MeshDAE:
        """A consistent state with its multipliers.

        Parameters
        ----------
        t : float
            Time.
        u : array_like, shape (n_u,)
            Values of the functions. Those of an :class:`ImplicitDAE` are kept.
        v : array_like, shape (n_u,), optional
            Of equations of second order the velocities, zero if not given; of an :class:`ImplicitDAE` the
            derivatives p. Other equations take none.
        project : bool
            Take the nearest u, and then the nearest velocities, that fulfil the constraints. An
            :class:`ImplicitDAE` takes ``v`` and ``w`` as a guess.
        w : array_like, shape (n_w,), optional
            Of an :class:`ImplicitDAE` alone. Where v and w are both given they must fulfil F = 0; else they
            are computed from a first guess, which is what is given, or zero.

        Returns
        -------
        MeshDAE
            State of the formulation, shape (n,).

        Raises
        ------
        InconsistentStateError
            If a constraint or its derivative is violated without ``project``, or no values are found that
            fulfil it.
        SingularMatrixError
            If derivatives and multipliers are not determined.
        InputError
            For arguments that these equations do not have.
        """
        return self._consistent(float(t), u, v, project, w)

    def _consistent(self, t: float, u: Any, v: Any, project: bool, w: Any) -> MeshDAE:
        if self._order == 1 and (v is not None or w is not None):
            raise InputError(f"{type(self).__name__} is of first order: consistent() takes u alone")
        if w is not None:
            raise InputError(f"{type(self).__name__} has no w: consistent() takes u and v")
        place, rate = self._vector("u0", u), None
        if self._order == 2:
            rate = np.zeros(self.n_u) if v is None else self._vector("u'0", v)
        if project:
            place, rate = self._nearest_consistent(t, place, rate)
        self._check_constraints(t, place, rate, "pass consistent values, or project=True for the nearest")
        return self.packed(place, rate, self.saddle_point(t, place, rate)[1])

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
                named = ((letter, i) for letter, size, _ in self._blocks() for i in range(size))
                self.__dict__["names"] = tuple(f"{letter}_{i}" for letter, i in named)
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
                stale = name not in own and any(how_given(above, part) for part in new)
            if stale:
                setattr(cls, kernel, None)
                setattr(cls, name, getattr(QuasilinearProblem, name))
        nodes = next((base for base in cls.__mro__ if "residual_nodes" in vars(base)), cls)
        if nodes is not cls and "residual_nodes" not in own and any(how_given(nodes, part) for part in new):
            cls.residual_nodes = None

    def _gives_equations(self) -> bool:
        return type(self).eval_f is not QuasilinearProblem.eval_f

    def _last_rows(self) -> str:
        if self._is_holonomic:
            forms = {"index-3": "constraint", "index-2": "hidden", "ggl": "both", "index-1": "derivative"}
            return forms[self.formulation]
        return "derivative" if self.formulation == "index-1" and self._has_multipliers else "constraint"

    @property
    def kernels(self) -> Kernels | None:
        """Residual and Jacobian as C functions; None where a part is not given as a kernel."""
        if not self._compiles_equations:
            return super().kernels
        first, second = machine_function("residual"), None
        if type(self).jacobian is QuasilinearProblem.jacobian:
            self._enter_complex_parts()
            second = machine_function("jacobian")
        elif self.jacobian_kernel is not None:
            given: Any = type(self).jacobian_kernel
            second = compile_kernel(given, "jacobian")
        return Kernels(
            first.address, second.address if second else 0, (first, second, self.kernel_workspace())
        )

    def residual_address(self) -> int:
        """Address of the compiled residual, of the formulation or of the class itself; 0 without one."""
        if not self._compiles_equations:
            return super().residual_address()
        return int(machine_function("residual").address)

    @unguarded
    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """The residual F(t, u, u') of the formulation, shape (n,)."""
        if self._compiles_equations:
            return residual_of_kernel(self, machine_function("residual").address, u, du, t)
        x, dx = np.asarray(u, dtype=float), np.asarray(du, dtype=float)
        return self.residual_of_parts(float(t), x, dx, self._part)

    @follows_from_residual
    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Vector:
        """The matrix dF/du' + c dF/du, shape (n, n), by complex steps, or by differences of order 6."""
        if self._compiles_equations:
            self._enter_complex_parts()
            address = machine_function("jacobian").address
            return np.asarray(matrix_of_kernel(self, address, u, du, t, c))
        x, dx, t = u.view(np.ndarray), du.view(np.ndarray), float(t)
        q, v, _ = self.state_parts(x)
        names = [name for name in PARTS if self._source_of(name)]
        overridden = self._gives_equations()  # by equations that may be others than those of the parts
        exact = not overridden and all(self._takes_complex(name, t, q, v) for name in names)
        # The parts are functions of u and u' alone, and F is linear in all else.
        known: dict[str, Vector] = {}
        of_velocity = self._with_velocity - ({"B"} if self.kind == "eulag" else set())

        def fixed(name: str, *at: Any) -> Vector:
            if name not in known:
                known[name] = self._part(name, t, q, v)
            return known[name]

        def moving(name: str, *at: Any) -> Any:
            return fixed(name) if j >= self._size and name not in of_velocity else self._at(name, *at)

        def along(s: Any) -> Vector:
            value, rate = x + c * s * unit[j], dx + s * unit[j]
            if overridden:
                return self.evaluate(attach(value, self.n_diff), attach(rate, self.n_diff), t).copy()
            return self.residual_of_parts(t, value, rate, moving if j < moved else fixed)

        unit, moved = np.eye(self.n), 0 if c == 0.0 else self._size * (1 if v is None else 2)
        sizes = np.maximum(1.0, np.abs(x))
        rates = np.maximum(sizes, np.abs(dx))
        lengths = rates / np.maximum(1.0, abs(c) * rates / sizes)
        columns = []
        for j in range(self.n):
            columns.append(slope_along(along, exact, float(lengths[j])))
        return np.ascontiguousarray(np.transpose(columns))
