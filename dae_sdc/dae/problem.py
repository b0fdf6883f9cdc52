"""The base class of every DAE: the fully implicit form F(t, u, u') = 0 as pySDC's controllers take it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pySDC.core.problem import Problem

from dae_sdc.dae.counters import new_counters
from dae_sdc.dae.state import MeshDAE, StateShape, Vector, attach
from dae_sdc.errors import InputError, require_count
from dae_sdc.registry import Registry


class ProblemDAE(Problem):  # type: ignore[misc]
    """A differential-algebraic equation F(t, u, u') = 0 with n = n_diff + n_alg unknowns.

    A subclass gives :meth:`eval_f`. It may give, and is the faster for it,

    - ``jacobian(u, du, t, c)``: dF/du' + c dF/du, shape (n, n), a NumPy array or a SciPy CSC matrix;
    - ``residual_nodes(u, du, t)``: F at several nodes at once, for ``u`` and ``du`` of shape (M, n) and
      ``t`` of shape (M,), result of shape (M, n);
    - ``sparsity``: the pattern of dF/du' + c dF/du as a SciPy sparse matrix, for finite differences by
      colours.

    Parameters
    ----------
    n_diff, n_alg : int
        Number of differential and of algebraic unknowns; the differential ones come first in the state.
    newton_tol : float
        Tolerance of the nonlinear solves: largest change of u' of the differential unknowns relative to
        1 + max abs(u'), and of the algebraic unknowns z relative to 1 + max abs(z).
    newton_maxiter : int
        Largest number of Newton iterations in one solve.

    Attributes
    ----------
    title : str
        One line that says what the equations describe.
    index : int or None
        Differentiation index; None switches off the checks that depend on it.
    names, units : tuple of str
        Name and unit of every unknown, in the order of the state.
    equation_names : tuple of str
        Name of every equation, used in messages.
    parameter_units : mapping of str to str
        Unit of every parameter of the constructor.
    reference : str
        Source of the equations.
    interval : tuple of float
        Start and end time used where the user gives none, in ``time_unit``.
    dt : float
        Step size used where the user gives none.
    work_counters : dict of str to WorkCounter
        Residual evaluations (``rhs``), Newton iterations (``newton``), Jacobian evaluations (``jacobian``),
        factorisations (``factorization``) and solves (``solve``). They are counted by the solvers;
        ``eval_f`` need not count.
    """

    dtype_u = MeshDAE
    dtype_f = MeshDAE

    title: ClassVar[str] = ""
    index: int | None = None
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    equation_names: tuple[str, ...] = ()
    parameter_units: ClassVar[Mapping[str, str]] = {}
    reference: ClassVar[str] = ""
    interval: tuple[float, float] = (0.0, 1.0)
    dt: float = 0.05
    time_unit: ClassVar[str] = "s"
    sparsity: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "eval_f" in cls.__dict__:
            cls.eval_f = _with_controller_call(cls.__dict__["eval_f"])  # type: ignore[method-assign]

    def __init__(self, n_diff: int, n_alg: int, newton_tol: float = 1e-10, newton_maxiter: int = 25) -> None:
        if n_diff < 0 or n_alg < 0 or n_diff + n_alg < 1:
            raise InputError(
                f"{type(self).__name__} needs at least one unknown; got n_diff={n_diff}, n_alg={n_alg}"
            )
        check_newton(newton_tol, newton_maxiter)
        super().__init__(StateShape(n_diff + n_alg, None, np.dtype(np.float64), n_diff))
        self._makeAttributeAndRegister("newton_tol", "newton_maxiter", localVars=locals())
        self.n_diff = n_diff
        self.n_alg = n_alg
        self.n = n_diff + n_alg
        self.work_counters = new_counters()
        self._rhs = self.work_counters["rhs"]
        self._shape = (self.n,)
        self._fill_names()

    def _fill_names(self) -> None:
        defaults = {
            "names": tuple(f"u[{i}]" for i in range(self.n)),
            "units": ("",) * self.n,
            "equation_names": tuple(f"equation {i}" for i in range(self.n)),
        }
        for attribute, default in defaults.items():
            given = getattr(self, attribute)
            if not given:
                setattr(self, attribute, default)
            elif len(given) != self.n:
                raise InputError(
                    f"{type(self).__name__}.{attribute} has {len(given)} entries for {self.n} unknowns"
                )

    @property
    def groups(self) -> dict[str, slice]:
        """Unknowns that converge at one order, by name; mechanics adds position, velocity and multiplier."""
        parts = {"differential": slice(0, self.n_diff), "algebraic": slice(self.n_diff, self.n)}
        return {name: part for name, part in parts.items() if part.stop > part.start}

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> npt.ArrayLike:
        """The residual F(t, u, u').

        Parameters
        ----------
        u, du : MeshDAE
            State and its derivative, shape (n,); ``u.diff`` and ``u.alg`` are views of the two parts.
        t : float
            Time.

        Returns
        -------
        array_like
            F(t, u, u'), shape (n,); all zero along a solution.
        """
        raise InputError(f"{type(self).__name__} defines no eval_f(self, u, du, t)")

    def u_exact(self, t: float) -> npt.ArrayLike:
        """The solution at time ``t``, shape (n,), from a formula or from stored reference data.

        Raises
        ------
        ReferenceRangeError
            Outside the range of the reference data.
        InputError
            If the problem has no reference; then u0 must be passed.
        """
        raise InputError(f"{type(self).__name__} has no u_exact; pass an initial value u0")

    def du_exact(self, t: float) -> npt.ArrayLike:
        """The derivative of the solution at time ``t``, shape (n,); raises like :meth:`u_exact`."""
        raise InputError(f"{type(self).__name__} has no du_exact")

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Called by every sweeper when a step begins at state ``u`` and time ``t``.

        A problem with a state-dependent right-hand side chooses its branch here and keeps it for the whole
        step, so that no Newton iteration meets a jump. The choice may depend on ``u`` and ``t`` only, so that
        a repeated step repeats it.
        """

    def state(self, values: npt.ArrayLike) -> MeshDAE:
        """A new state with the given n values; raises :class:`InputError` on another shape."""
        try:
            given = np.asarray(values)
            if given.dtype.kind not in "biufO":
                raise TypeError(f"entries of type {given.dtype}")
            array = np.array(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            text = " ".join(str(values).split())
            raise InputError(
                f"a state of {type(self).__name__} takes real numbers of shape ({self.n},); got {text} "
                f"({str(error).splitlines()[0]})"
            ) from None
        if array.shape != (self.n,):
            raise InputError(
                f"a state of {type(self).__name__} has shape ({self.n},), differential unknowns first; "
                f"got shape {array.shape}"
            )
        return attach(array, self.n_diff)

    def evaluate(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """The residual as a plain array of shape (n,), counted and checked for its shape."""
        self._rhs.niter += 1
        try:
            value = self.eval_f(u, du, t)
        except ArithmeticError:
            # Plain Python raises where NumPy returns infinity; both mean a step too far.
            return np.full(self._shape, np.nan)
        if type(value) is not np.ndarray or value.dtype != np.float64:
            value = np.asarray(value, dtype=np.float64).view(np.ndarray)
        if value.shape != self._shape:
            raise InputError(
                f"{type(self).__name__}.eval_f must return {self.n} values, one an equation; "
                f"got shape {value.shape}"
            )
        return value

    def evaluate_nodes(self, u: Vector, du: Vector, t: Vector) -> Vector:
        """The residual at M nodes, shape (M, n), in one call where ``residual_nodes`` exists."""
        batched: Callable[[Vector, Vector, Vector], Any] | None = getattr(self, "residual_nodes", None)
        if batched is None:
            rows = zip(u, du, t, strict=True)
            values = np.empty_like(u)
            for i, (x, dx, s) in enumerate(rows):
                # Copied one by one: eval_f may return the same array every time.
                values[i] = self.evaluate(attach(x, self.n_diff), attach(dx, self.n_diff), float(s))
            return values
        self._rhs.niter += len(t)
        value: Vector = np.asarray(batched(u, du, t), dtype=np.float64)
        if value.shape != u.shape:
            raise InputError(
                f"{type(self).__name__}.residual_nodes must return shape {u.shape}; got {value.shape}"
            )
        return value


def check_newton(newton_tol: float, newton_maxiter: int) -> None:
    """Refuse settings with which no Newton iteration can end well."""
    if not newton_tol > 0.0:
        raise InputError(f"newton_tol must be positive; got {newton_tol}")
    require_count("newton_maxiter", newton_maxiter)


def _with_controller_call(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``eval_f`` also be called as pySDC's controllers and transfers do, ``eval_f(u, t)``.

    They expect the right-hand side u' there. A DAE has no such function, so the derivative that the state
    carries from the step it ended is returned, or zeros, which every predictor replaces.
    """

    @functools.wraps(method)
    def eval_f(self: ProblemDAE, u: MeshDAE, du: Any, t: float | None = None) -> Any:
        if t is not None:
            return method(self, u, du, t)
        derivative = self.dtype_f(self.init)
        polynomial = getattr(u, "polynomial", None)
        if polynomial is not None:
            derivative[:] = polynomial.derivative_at_end()
        return derivative

    return eval_f


PROBLEMS: Registry[type[ProblemDAE]] = Registry("problem", "dae_sdc.problems")
"""Every problem of the library by its name."""
