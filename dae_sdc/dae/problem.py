"""The base class of every DAE: the fully implicit form F(t, u, u') = 0 as pySDC's controllers take it."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pySDC.core.problem import Problem
from pySDC.implementations.datatype_classes.mesh import MultiComponentMesh

from dae_sdc.arguments import is_integer, shown
from dae_sdc.dae import declaration
from dae_sdc.dae.branches import Branches
from dae_sdc.dae.declaration import OPTIONAL, PER_UNKNOWN, WITH_DEFAULTS, WhenAsked, when_asked
from dae_sdc.dae.kernels import CompiledEquations, install_kernels, machine
from dae_sdc.dae.memory import new_counters
from dae_sdc.dae.scales import EPS, Noise, Scales
from dae_sdc.dae.state import MeshDAE, StateShape, Vector, attach
from dae_sdc.dae.values import guard_methods, is_sequence, real_numbers, undefined
from dae_sdc.errors import DAEError, InputError, require_count, words_of
from dae_sdc.registry import Registry
from dae_sdc.text import brief


def with_controller_call(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``eval_f`` also be called as pySDC's controllers and transfers do, ``eval_f(u, t)``."""
    # They expect the right-hand side u' there. A DAE has no such function, so the derivative that the state
    # carries from the step it ended is returned, or zeros, which every predictor of this package replaces.
    # Sweepers that would take it for a right-hand side are refused. What users get from ``eval_f`` is a
    # state, whose abs() is a number; solvers call the method itself, the attribute ``residual``.
    try:
        inspect.signature(method).bind("self", "u", "du", "t")
    except TypeError:
        raise InputError(
            f"{method.__qualname__} must take (self, u, du, t) and return F(t, u, u'); it takes "
            f"{inspect.signature(method)}"
        ) from None

    @functools.wraps(method)
    def eval_f(self: Any, u: MeshDAE, du: Any, t: float | None = None) -> Any:
        if t is not None:
            return _as_state(self, method(self, u, du, t))
        if "_has_sweeper" not in self.__dict__:
            raise InputError(foreign_call(self, "eval_f(u, t)"))
        derivative = self.dtype_f(self.init)
        polynomial = getattr(u, "polynomial", None)
        if polynomial is not None:
            derivative[:] = polynomial.derivative_at_end()
        return derivative

    vars(eval_f)["residual"] = method
    return eval_f


def with_start(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``u_exact(t, u_init, t_init)`` give the solution through a start, for hooks of local errors."""
    if "u_init" in inspect.signature(method).parameters:
        return method

    @functools.wraps(method)
    def u_exact(self: Any, t: float, u_init: Any = None, t_init: float | None = None) -> Any:
        if u_init is None or t_init is None:
            return method(self, t)
        return self.solution_through(self.state(u_init), t_init, t)

    return u_exact


class ForOthers:
    """Base of :class:`~dae_sdc.dae.problem.ProblemDAE`: what hooks and controls of pySDC ask problems for."""

    solution_through: ClassVar[Callable[..., MeshDAE]]

    def begin_steps(self, direct: bool = False) -> None:
        """Tell that a sweeper of this package has the problem: it does not use ``eval_f(u, t)``."""
        self.__dict__.update(_has_sweeper=True, _has_stages=direct)

    def solve_system(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: pySDC's sweepers call it, and they do not solve F(t, u, u') = 0 of this kind."""
        raise InputError(foreign_call(self, "solve_system"))

    def getOutputFile(self: Any, fileName: str) -> Any:
        """The file of pySDC's hook ``LogToFile``: the n unknowns as scalars, at every time."""
        from pySDC.helpers.fieldsIO import Scalar

        file = Scalar(np.float64, fileName)
        file.setHeader(self.n)
        file.initialize()
        return file

    def processSolutionForOutput(self, u: MeshDAE) -> Any:
        """A state as ``LogToFile`` writes it, shape (n,)."""
        return np.array(u)


def _as_state(problem: Any, value: Any) -> Any:
    """What ``eval_f`` returned as a state, whose abs() is a number, where it can be one."""
    if isinstance(value, list | tuple):
        with contextlib.suppress(ValueError):
            value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.shape == problem._shape and value.dtype.kind in "fiu":
        return attach(value.astype(np.float64, copy=False), problem.n_diff)
    return value


def foreign_call(problem: Any, called: str) -> str:
    """The message for a call by a sweeper or transfer that is made for u' = f(u, t)."""
    return (
        f"{called} of {problem.name} was called, as sweepers and transfers of pySDC for equations "
        f"u' = f(u, t) do, but it is a DAE; use sweepers of dae_sdc (FullyImplicitDAE, SemiImplicitDAE, "
        f"ConstrainedDAE, RungeKuttaDAE; 'dae-sdc list sweepers' shows all), and TransferDAE between levels"
    )


LARGEST_PROBLEM = 10_000_000  # Largest number of unknowns of a problem.

# Attributes whose values are checked, in classes and instances, and those that are when they are set.
CHECKED = (*declaration.TEXTS, *PER_UNKNOWN, *WITH_DEFAULTS, "variable_index", *OPTIONAL)
CHECKED_WHEN_SET = {*CHECKED, *declaration.SIZES, *declaration.METHODS, "parameter_units"}


def _place(cls: type[Any], name: str) -> Any:
    """An attribute of a class as it stands there; None where it has none."""
    return next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)


class ProblemDAE(Branches, ForOthers, CompiledEquations, Problem):  # type: ignore[misc]
    """A differential-algebraic equation F(t, u, u') = 0 with n = n_diff + n_alg unknowns.

    A subclass gives its residual, as :meth:`eval_f` or as ``residual_kernel``. It may also give

    - ``jacobian(u, du, t, c)``: dF/du' + c dF/du, shape (n, n), a NumPy array or a SciPy CSC matrix;
    - ``residual_nodes(u, du, t)``: F at several nodes at once, for ``u`` and ``du`` of shape (M, n) and
      ``t`` of shape (M,), result of shape (M, n);
    - ``sparsity``: the pattern of dF/du' + c dF/du as a SciPy sparse matrix, for finite differences by
      colours;
    - ``jacobian_is_derived``: whether ``jacobian`` is a formula derived by rules, whose value may be NaN
      where the derivative exists; differences take its place there;
    - ``residual_kernel`` and ``jacobian_kernel``: the equations as functions that numba compiles, see
      :mod:`dae_sdc.dae.kernels`, in place of ``eval_f`` and ``jacobian``, and :meth:`kernel_parameters`;
      ``jacobian_kernel = COMPLEX_STEP`` takes exact derivatives of the residual.

    Parameters
    ----------
    n_diff, n_alg : int
        Number of differential and of algebraic unknowns; the differential ones come first in the state.
    newton_tol : float
        Tolerance of the nonlinear solves: largest change of u' of the differential unknowns relative to
        1 + max abs(u'), and of the algebraic unknowns z relative to 1 + max abs(z).
    newton_maxiter : int
        Largest number of Newton iterations in one solve.
    linear_solver : str
        "dense" (LAPACK), "superlu", "klu" (with the package kvxopt), or "gmres": matrix-free, with the
        factors of one iteration matrix as preconditioner for all others. "auto" takes LAPACK for arrays and
        SuperLU for sparse Jacobians.
    nvars : None
        The number of unknowns of pySDC.projects.DAE, which does not tell how many are differential: refused.

    Attributes
    ----------
    title : str
        One line that says what the equations describe.
    index : int or None
        Differentiation index; None switches off the checks that depend on it.
    names, units : tuple of str
        Name and unit of every unknown, in the order of the state; no name twice. Checked when they are set.
    equation_names : tuple of str
        Name of every equation, used in messages.
    nominal : float or array_like, shape (n,)
        Typical sizes of the unknowns, below which only an absolute error counts: the absolute tolerance of a
        run is the relative one times these where none is given. Where a class gives none they read 1, and
        runs take sizes from the solution, see :attr:`run_scales`.
    switch_names : tuple of str
        Name of every switch, see :meth:`switches`.
    chooses_by_sides : bool
        Whether :meth:`start_step` chooses by :meth:`sides` and the breakpoints that have passed alone.
    variable_index : tuple of int
        Index of every unknown, from 1 on: an error in an unknown of index k is worth dt^(k-1) of one of
        index 1. A class may give it, one entry for each unknown. By default 1 for differential unknowns and,
        for algebraic ones, ``index``, but at least 1; 1 for all where ``index`` is None.
    parameter_units : mapping of str to str
        Unit of every parameter of the constructor.
    reference : str
        Source of the equations.
    interval : tuple of float
        Start and end time used where the user gives none, in ``time_unit``.
    dt : float
        Step size used where the user gives none.
    events : tuple of Event or str
        Events of every run of :func:`dae_sdc.solve`, before those that the user gives, such as changes of the
        state.
    constant_mass : bool
        Whether dF/du' is known to be the same matrix at all times and states.
    noise : Noise or None
        Noise of F besides round-off, None if none is known; runs to a tolerance measure it at their start,
        see :func:`dae_sdc.dae.scales.measured_noise`.
    work_counters : dict of str to WorkCounter
        Residual evaluations (``rhs``), Newton iterations (``newton``), Jacobian evaluations (``jacobian``),
        factorisations (``factorization``) and solves (``solve``). They are counted by the solvers;
        ``eval_f`` need not count.

    Examples
    --------
    >>> class Tank(ds.ProblemDAE):
    ...     def eval_f(self, u, du, t):
    ...         level, flow = u
    ...         return [du[0] + flow, flow - level / 2.0]
    ...
    >>> ds.solve(Tank(n_diff=1, n_alg=1), u0=[2.0, 1.0], t_end=2.0).u[-1].round(5)
    array([0.73576, 0.36788])
    """

    dtype_f = MeshDAE

    title: ClassVar[str] = ""
    index: int | None = None
    names: tuple[str, ...] = when_asked(lambda self: tuple(map("u[{}]".format, range(self.n))))
    units: tuple[str, ...] = when_asked(lambda self: ("",) * self.n)
    equation_names: tuple[str, ...] = when_asked(lambda self: tuple(map("equation {}".format, range(self.n))))
    parameter_units: ClassVar[Mapping[str, str]] = {}
    reference: ClassVar[str] = ""
    interval: tuple[float, float] = (0.0, 1.0)
    dt: float = 0.05
    events: tuple[Any, ...] = ()
    time_unit: ClassVar[str] = "s"
    nominal: npt.ArrayLike = 1.0
    noise: Noise | None = None
    constant_mass: bool = False
    jacobian_is_derived: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declaration.check_class(cls)
        install_kernels(cls)
        guard_methods(cls, declaration.GUARDED)
        if "eval_f" in cls.__dict__:
            cls.eval_f = with_controller_call(cls.__dict__["eval_f"])  # type: ignore[method-assign]
            cls.constant_mass = cls.__dict__.get("constant_mass", False)  # not that of other equations
        if "u_exact" in cls.__dict__:
            cls.u_exact = with_start(cls.__dict__["u_exact"])  # type: ignore[method-assign]

    def __init__(
        self,
        n_diff: int = 0,
        n_alg: int = 0,
        newton_tol: float = 1e-10,
        newton_maxiter: int = 25,
        linear_solver: str = "auto",
        nvars: None = None,
    ) -> None:
        if nvars is not None:
            raise InputError(
                f"{type(self).__name__} is made with n_diff and n_alg in place of nvars={nvars!r}, and has "
                f"packed states; or keep ProblemDAE of pySDC.projects.DAE as its base, which is taken too"
            )
        if not (is_integer(n_diff) and is_integer(n_alg)):
            raise InputError(
                f"the numbers of unknowns of {type(self).__name__} must be integers; "
                f"got n_diff={n_diff!r}, n_alg={n_alg!r}"
            )
        if n_diff < 0 or n_alg < 0 or n_diff + n_alg < 1:
            raise InputError(
                f"{type(self).__name__} needs at least one unknown; got n_diff={n_diff}, n_alg={n_alg}"
            )
        require_count(f"the number of unknowns of {type(self).__name__}", n_diff + n_alg, LARGEST_PROBLEM)
        n_diff, n_alg = int(n_diff), int(n_alg)
        declaration.check_newton(newton_tol, newton_maxiter, linear_solver)
        newton_tol, newton_maxiter = float(newton_tol), int(newton_maxiter)
        super().__init__(StateShape(n_diff + n_alg, None, np.dtype(np.float64), n_diff))
        self._makeAttributeAndRegister("newton_tol", "newton_maxiter", "linear_solver", localVars=locals())
        self.n_diff = n_diff
        self.n_alg = n_alg
        self.n = self.nvars = n_diff + n_alg
        self.work_counters = new_counters()
        self._shape = (self.n,)
        for name in (*PER_UNKNOWN, *WITH_DEFAULTS):
            place = _place(type(self), name)
            if isinstance(place, property):
                continue  # it may need what the constructor of the subclass is yet to set
            if name not in self.__dict__ and (place is DEFAULTS[name] or isinstance(place, WhenAsked)):
                if name in WITH_DEFAULTS and name != "nominal":  # which is not given, and none of the object
                    self.__dict__[name] = place
                continue
            given = getattr(self, name)
            if name in PER_UNKNOWN and (given is None or (is_sequence(given) and not len(given))):
                given = ProblemDAE.__dict__[name].func(self)
            setattr(self, name, given)
        if not isinstance(type(self).variable_index, property):
            self.variable_index = self.variable_index  # given by the class, and to be checked

    def __setattr__(self, name: str, value: Any) -> None:
        if name[0] != "_":
            self.__dict__["_parameters"] = None
        # Checked where it is written, so that no message or table meets a wrong one in the middle of a run.
        if name in CHECKED_WHEN_SET and "n" in self.__dict__:
            value = declaration.checked_attribute(self, name, value)
        super().__setattr__(name, value)

    def check_properties(self) -> None:
        """Refuse properties of a subclass whose values cannot be used; they may need what it has set last."""
        for name in CHECKED:
            place = getattr(type(self), name, None)
            if not isinstance(place, property) or place is DEFAULTS[name]:
                continue
            try:
                value = getattr(self, name)
            except DAEError:
                raise
            except Exception as error:
                where = f"{type(self).__name__}.{name}"
                raise InputError(f"{where} raised {words_of(error)}; correct it") from error
            declaration.checked_attribute(self, name, value)

    @property
    def variable_index(self) -> tuple[int, ...]:
        """Index of every unknown, by which its error is scaled: 1 for differential unknowns."""
        known: tuple[int, ...] | None = self.__dict__.get("_variable_index")
        if known is not None:
            return known
        return (1,) * self.n_diff + (max(1, self.index or 1),) * self.n_alg

    @variable_index.setter
    def variable_index(self, value: Any) -> None:
        self.__dict__["_variable_index"] = value

    @property
    def given_nominal(self) -> npt.ArrayLike | None:
        """``nominal`` where the class or its user gives it."""
        gives = "nominal" in self.__dict__ or type(self).nominal is not ProblemDAE.nominal
        return self.nominal if gives else None

    @functools.cached_property
    def run_scales(self) -> Scales:
        """Sizes of unknowns and time in the present run."""
        return Scales(self.given_nominal, self.variable_index)

    @property
    def groups(self) -> dict[str, slice]:
        """Slices of the unknowns that converge at one order, by name: "differential" and "algebraic"."""
        parts = {"differential": slice(0, self.n_diff), "algebraic": slice(self.n_diff, self.n)}
        return {name: part for name, part in parts.items() if part.stop > part.start}

    @property
    def is_algebraic(self) -> npt.NDArray[np.bool_]:
        """Mask of the algebraic unknowns, shape (n,)."""
        return np.arange(self.n) >= self.n_diff

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
            F(t, u, u'), shape (n,), real; all zero along a solution. Where F is not defined, NaN, or an
            ArithmeticError or the ValueError of a function of :mod:`math`: the solver then takes a shorter
            way there, or ends with an error that gives the time. Any other exception ends the run as it is.
        """
        raise InputError(f"{type(self).__name__} defines no eval_f(self, u, du, t)")

    @functools.cached_property
    def name(self) -> str:
        """What messages call the problem: its model, its function or its class."""
        return str(getattr(self, "model_name", type(self).__name__))

    @property
    def round_off(self) -> float:
        """Relative round-off of F, or its noise where that is known to be more."""
        return EPS if self.noise is None else max(EPS, self.noise.relative)

    @with_start
    def u_exact(self, t: float) -> npt.ArrayLike:
        """The solution at time ``t``, shape (n,), from a formula or from stored reference data.

        Raises
        ------
        ReferenceRangeError
            Outside the range of the reference data.
        InputError
            If the problem has no reference; then u0 must be passed.
        """
        raise InputError(f"{self.name} has no u_exact; pass an initial value u0")

    def du_exact(self, t: float) -> npt.ArrayLike:
        """The derivative of the solution at time ``t``, shape (n,); raises like :meth:`u_exact`."""
        raise InputError(f"{self.name} has no du_exact")

    def dtype_u(self, init: StateShape | npt.ArrayLike, val: float = 0.0) -> MeshDAE:
        """A new state: of a shape, filled with ``val``, or a copy of a state or of n numbers.

        Parameters
        ----------
        init : StateShape, MeshDAE or array_like
            The shape, ``problem.init``; or the values, shape (n,), as pySDC's controllers get them as u0.
        val : float
            Value of all unknowns of a state made from a shape.
        """
        return MeshDAE(init, val) if isinstance(init, MeshDAE | StateShape) else self.state(init)

    def state(self, values: npt.ArrayLike) -> MeshDAE:
        """A new state with the given n values; raises :class:`InputError` on another shape.

        Of a mesh of pySDC's DAE project, the first ``n_diff`` and ``n_alg`` entries of its parts are taken.
        """
        if isinstance(values, MultiComponentMesh) and values.components == ["diff", "alg"]:
            values = np.concatenate([values.diff[: self.n_diff], values.alg[: self.n_alg]])
        try:
            array = real_numbers(values)
        except TypeError as error:
            raise InputError(
                f"a state of {self.name} takes real numbers of shape ({self.n},); "
                f"got {shown(values)} ({error})"
            ) from None
        if array.shape != (self.n,):
            raise InputError(
                f"a state of {self.name} has shape ({self.n},), differential unknowns first; "
                f"got shape {array.shape} for {brief(self.names)}"
            )
        return attach(array.copy(), self.n_diff)

    def evaluate(self, u: Vector, du: Vector, t: float) -> Vector:
        """The residual as a plain array, counted and checked for its shape.

        Parameters
        ----------
        u, du : MeshDAE or ndarray
            State and derivative, shape (n,).
        t : float
            Time.

        Returns
        -------
        ndarray, shape (n,)
            F(t, u, u'), of NaN where it is not defined.

        Raises
        ------
        InputError
            If ``eval_f`` returns anything but n real numbers.
        """
        self.work_counters["rhs"].niter += 1
        if type(u) is not MeshDAE:
            u = attach(u, self.n_diff)
        if type(du) is not MeshDAE:
            du = attach(du, self.n_diff)
        try:
            own: Any = self.__dict__.get("eval_f")
            defined: Any = type(self).eval_f
            value: Any = (
                getattr(defined, "residual", defined)(self, u, du, t) if own is None else own(u, du, t)
            )
        except (ArithmeticError, ValueError) as error:
            if not undefined(error):
                raise
            # Plain Python raises where NumPy returns NaN or infinity; both mean a step too far.
            return np.full(self._shape, np.nan)
        if type(value) is not np.ndarray or value.dtype != np.float64:
            value = self._returned("eval_f", value, self._shape)
        if value.shape != self._shape:
            which = self._method("eval_f")
            raise InputError(f"{which} must return {self.n} values, one an equation; got shape {value.shape}")
        found: Vector = value
        return found

    def evaluate_nodes(self, u: Vector, du: Vector, t: Vector) -> Vector:
        """The residual at M nodes, one row a node, in one call where ``residual_nodes`` exists."""
        # Shapes: u and du (M, n), t (M,) -> (M, n).
        batched: Callable[[Vector, Vector, Vector], Any] | None = getattr(self, "residual_nodes", None)
        if batched is not None:
            try:
                value = batched(u, du, t)
            except (ArithmeticError, ValueError) as error:
                if not undefined(error):
                    raise
                # F is undefined at a node, and nothing says at which: evaluate them one by one.
                batched = None
        address = self.residual_address() if batched is None and u.shape[1] == self.n else 0
        if address:
            values, rows = np.empty(u.shape), map(np.ascontiguousarray, (t, u, du))
            machine("residuals_at")(address, *rows, self.packed_parameters, values)
            self.work_counters["rhs"].niter += len(t)
            return values
        if batched is None:
            values = np.empty_like(u)
            for i, row in enumerate(zip(u, du, t.tolist(), strict=True)):
                # Copied one by one: eval_f may return the same array every time.
                values[i] = self.evaluate(*row)
            return values
        self.work_counters["rhs"].niter += len(t)
        if type(value) is not np.ndarray or value.dtype != np.float64:
            value = self._returned("residual_nodes", value, u.shape)
        if value.shape != u.shape:
            raise InputError(
                f"{type(self).__name__}.residual_nodes must return shape {u.shape}; got {value.shape}"
            )
        found: Vector = value
        return found

    def _method(self, name: str) -> str:
        """What messages call a method."""
        return f"{self.name}.{name}"

    def _returned(self, method: str, value: Any, shape: tuple[int, ...]) -> Vector:
        """What a method of a subclass returned as a plain array of real numbers."""
        try:
            return real_numbers(value)
        except TypeError as error:
            reason = str(error)
            if value is None:
                reason = "is its return statement missing?"
            elif "complex" in reason:
                reason += ": Python's root of a negative number is one; return NaN where F is not defined"
            which = self._method(method)
            raise InputError(
                f"{which} must return real numbers of shape {shape}; got {shown(value)} ({reason})"
            ) from None


# What stands for the checked attributes in a class that gives none of them.
DEFAULTS = {name: _place(ProblemDAE, name) for name in CHECKED}

# Every problem of the library by its name.
PROBLEMS: Registry[type[ProblemDAE]] = Registry("problem", "dae_sdc.problems")
