"""The base class of every DAE: the fully implicit form F(t, u, u') = 0 as pySDC's controllers take it."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from pySDC.core.problem import Problem

from dae_sdc.dae.counters import new_counters
from dae_sdc.dae.guard import guard_methods, guarded, unguarded
from dae_sdc.dae.kernels import (
    COMPLEX_STEP,
    Kernels,
    compile_kernel,
    compile_kernels,
    complex_step,
    machine,
)
from dae_sdc.dae.linear import SOLVERS
from dae_sdc.dae.noise import EPS, Noise
from dae_sdc.dae.scales import Scales
from dae_sdc.dae.state import MeshDAE, StateShape, Vector, attach
from dae_sdc.errors import DAEError, InputError, require_count, require_tolerance
from dae_sdc.registry import Registry, unknown

S = TypeVar("S", bound=Callable[..., Any])

PER_UNKNOWN = ("names", "units", "equation_names")
"""Attributes that hold one text for every unknown or equation."""

DEFAULTS = ("index", "interval", "dt", "nominal", "sparsity", "noise")
"""Attributes whose values are checked besides."""

METHODS: Mapping[str, int] = {
    "eval_f": 3,
    "jacobian": 4,
    "residual_nodes": 3,
    "switches": 2,
    "sides": 2,
    "breakpoints": 2,
    "start_step": 2,
    "u_exact": 1,
    "du_exact": 1,
    "invariants": 2,
    "invariants_jacobian": 2,
    "kernel_parameters": 0,
}
"""Methods that a class may define, and how many arguments they are called with."""

OPTIONAL = ("jacobian", "residual_nodes", "invariants", "invariants_jacobian")
"""Those of them that may be None."""

KERNELS = {"residual_kernel": 5, "jacobian_kernel": 6}
"""Kernels that a class may give, and how many arguments they are called with."""

SIZES = ("n_diff", "n_alg", "n", "init")
"""Attributes that cannot change once a problem is made."""

MOST_UNKNOWNS = 10_000_000
"""Largest number of unknowns of a problem."""

TEXTS = ("title", "reference", "time_unit")
"""Attributes of a class that hold one text."""

SIDE_SLACK = 1e-10
"""Value of a switch that counts as 0, and so as being past it, at a start that nobody has located."""

MOST_ITERATIONS = 10_000
"""Largest number of Newton iterations that may be allowed in a solve."""

LINEAR_SOLVERS = (*SOLVERS, "gmres")
"""How the linear systems of Newton iterations may be solved."""

# What the standard library and NumPy say where a function has no value; Python 3.14 has words for each.
_UNDEFINED = re.compile(
    r"math (domain|range) error"
    r"|expected (a (nonnegative|positive|finite) input|a number (in range|between)|a noninteger)"
    r"|expected argument value"
    r"|cannot convert float NaN to integer"
)
_UNSOLVABLE = re.compile(r"singular|converge|positive definite|infs or nans", re.IGNORECASE)

_NOT_REAL = (str, bytes, complex, np.complexfloating, np.ndarray)


class ProblemDAE(Problem):  # type: ignore[misc]
    """A differential-algebraic equation F(t, u, u') = 0 with n = n_diff + n_alg unknowns.

    A subclass gives :meth:`eval_f`, or the same as a kernel. It may give, and is the faster for it,

    - ``jacobian(u, du, t, c)``: dF/du' + c dF/du, shape (n, n), a NumPy array or a SciPy CSC matrix;
    - ``residual_nodes(u, du, t)``: F at several nodes at once, for ``u`` and ``du`` of shape (M, n) and
      ``t`` of shape (M,), result of shape (M, n);
    - ``sparsity``: the pattern of dF/du' + c dF/du as a SciPy sparse matrix, for finite differences by
      colours;
    - ``jacobian_is_derived``: whether ``jacobian`` was derived from the equations by rules that may not be
      defined where the derivative is, so that differences take its place there;
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
        run is the relative one times these where none is given. A class that does not give them leaves sizes
        to the solution, see :attr:`run_scales`; to what asks for a number, they are 1 then.
    switch_names : tuple of str
        Name of every switch, see :meth:`switches`.
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
    noise : Noise or None
        What F has of noise besides round-off, None for nothing that is known; runs to a tolerance measure it
        at their start, see :func:`dae_sdc.dae.noise.measured_noise`.
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
    nominal: npt.ArrayLike = 1.0
    switch_names: tuple[str, ...] = ()
    sparsity: Any = None
    noise: Noise | None = None
    _guarded: ClassVar[tuple[str, ...]] = (
        "eval_f",
        "jacobian",
        "residual_nodes",
        "switches",
        "sides",
        "breakpoints",
        "start_step",
        "invariants",
        "invariants_jacobian",
        "u_exact",
        "du_exact",
    )
    jacobian_is_derived: ClassVar[bool] = False
    residual_kernel: ClassVar[Callable[..., None] | None] = None
    jacobian_kernel: ClassVar[Callable[..., None] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own: Any = cls.__dict__
        for name in TEXTS:
            if name in own and not isinstance(own[name], str | property):
                raise InputError(f"{cls.__qualname__}.{name} must be a text; got {_shortened(own[name])}")
        if "parameter_units" in own and not isinstance(own["parameter_units"], Mapping):
            raise InputError(
                f"{cls.__qualname__}.parameter_units must map names of parameters to units; got "
                f"{_shortened(own['parameter_units'])}"
            )
        for name in SIZES:
            if isinstance(own.get(name), property):
                raise InputError(
                    f"{cls.__qualname__}.{name} is set by ProblemDAE; name the property otherwise"
                )
        for name, count in METHODS.items():
            # A function that is none of a DAE is refused in words of its own.
            elsewhere = name == "eval_f" and inspect.isfunction(own.get(name))
            if name in own and not elsewhere and not isinstance(own[name], staticmethod | classmethod):
                may_lack = name in OPTIONAL and (own[name] is None or isinstance(own[name], property))
                if not may_lack:
                    _require_method(f"{cls.__qualname__}.{name}", own[name], count + 1)
        for name, count in KERNELS.items():
            given: Any = own.get(name)
            if given is not None and given is not COMPLEX_STEP:
                _require_kernel(f"{cls.__qualname__}.{name}", given, count)
        if "residual_kernel" in own:
            if "eval_f" in own:
                raise InputError(
                    f"{cls.__qualname__} gives its equations twice, as eval_f and as residual_kernel"
                )
            given = cls.residual_kernel
            if not callable(given):
                raise InputError(f"{cls.__qualname__}.residual_kernel must be a function; got {given!r}")
            cls.eval_f = _compiled_residual(given)  # type: ignore[method-assign]
        elif "eval_f" in own:
            # Other equations than those of the class above, whose kernels are therefore not its own.
            cls.residual_kernel = None
        if "jacobian_kernel" in own:
            given = cls.jacobian_kernel
            if not callable(given):
                raise InputError(
                    f"{cls.__qualname__}.jacobian_kernel must be a function or COMPLEX_STEP of "
                    f"dae_sdc.dae.kernels; got {given!r}"
                )
            if given is COMPLEX_STEP and cls.residual_kernel is None:
                raise InputError(
                    f"{cls.__qualname__} has jacobian_kernel = COMPLEX_STEP, which needs a residual_kernel"
                )
            cls.jacobian = _stepped_jacobian if given is COMPLEX_STEP else _compiled_jacobian(given)
        elif "jacobian" in own or cls.residual_kernel is None:
            if cls.jacobian_kernel is COMPLEX_STEP and "jacobian" not in own:
                cls.jacobian = None  # that of equations which are no longer those of the class
            cls.jacobian_kernel = None
        guard_methods(cls, cls._guarded)
        if "eval_f" in cls.__dict__:
            cls.eval_f = _with_controller_call(cls.__dict__["eval_f"])  # type: ignore[method-assign]

    def __init__(
        self,
        n_diff: int,
        n_alg: int,
        newton_tol: float = 1e-10,
        newton_maxiter: int = 25,
        linear_solver: str = "auto",
    ) -> None:
        if not (_is_integer(n_diff) and _is_integer(n_alg)):
            raise InputError(
                f"the numbers of unknowns of {type(self).__name__} must be integers; "
                f"got n_diff={n_diff!r}, n_alg={n_alg!r}"
            )
        if n_diff < 0 or n_alg < 0 or n_diff + n_alg < 1:
            raise InputError(
                f"{type(self).__name__} needs at least one unknown; got n_diff={n_diff}, n_alg={n_alg}"
            )
        require_count(f"the number of unknowns of {type(self).__name__}", n_diff + n_alg, MOST_UNKNOWNS)
        n_diff, n_alg = int(n_diff), int(n_alg)
        check_newton(newton_tol, newton_maxiter, linear_solver)
        super().__init__(StateShape(n_diff + n_alg, None, np.dtype(np.float64), n_diff))
        self._makeAttributeAndRegister("newton_tol", "newton_maxiter", "linear_solver", localVars=locals())
        self.n_diff = n_diff
        self.n_alg = n_alg
        self.n = n_diff + n_alg
        self.work_counters = new_counters()
        self._rhs = self.work_counters["rhs"]
        self._shape = (self.n,)
        defaults = {
            "names": tuple(f"u[{i}]" for i in range(self.n)),
            "units": ("",) * self.n,
            "equation_names": tuple(f"equation {i}" for i in range(self.n)),
        }
        for name in (*PER_UNKNOWN, *DEFAULTS):
            if isinstance(getattr(type(self), name, None), property):
                continue  # it may need what the constructor of the subclass is yet to set
            if name == "nominal" and not self._gives_nominal:
                continue  # not given, and so none of the object
            given = getattr(self, name)
            missing = name in defaults and (given is None or (_is_sequence(given) and not len(given)))
            setattr(self, name, defaults[name] if missing else given)
        if not isinstance(inspect.getattr_static(type(self), "variable_index"), property):
            self.variable_index = self.variable_index  # given by the class, and to be checked

    def __setattr__(self, name: str, value: Any) -> None:
        if name[0] != "_":
            self.__dict__["_parameters"] = None
        # Checked where it is written, so that no message or table meets a wrong one in the middle of a run.
        if "n" in self.__dict__:
            value = self._checked_attribute(name, value)
        super().__setattr__(name, value)

    def _checked_attribute(self, name: str, value: Any) -> Any:
        """The value of an attribute in the form in which it is kept; raises InputError if it cannot be."""
        which = f"{type(self).__name__}.{name}"
        if name in PER_UNKNOWN:
            return self._texts(name, value)
        if name == "variable_index":
            return self._indices(value)
        if name in SIZES:
            raise InputError(f"{which} cannot be set once the problem is made; make another one")
        if name in TEXTS and not isinstance(value, str):
            raise InputError(f"{which} must be a text; got {_shortened(value)}")
        if name in DEFAULTS:
            self._check_default(name, value)
        if name in METHODS and not (value is None and name in OPTIONAL):
            _require_method(which, value, METHODS[name])
            return guarded(value, which)
        return value

    def check_properties(self) -> None:
        """Refuse properties of a subclass whose values cannot be used; they may need what it has set last."""
        for name in (*TEXTS, *PER_UNKNOWN, *DEFAULTS, "variable_index", *OPTIONAL):
            own = inspect.getattr_static(type(self), name, None)
            if not isinstance(own, property) or own is ProblemDAE.__dict__.get(name):
                continue
            try:
                value = getattr(self, name)
            except DAEError:
                raise
            except Exception as error:
                where = f"{type(self).__name__}.{name}"
                raise InputError(f"{where} raised {type(error).__name__}: {error}; correct it") from error
            self._checked_attribute(name, value)

    def _texts(self, attribute: str, given: Any) -> tuple[str, ...]:
        """``given`` as a tuple with one text for every unknown."""
        which = f"{type(self).__name__}.{attribute}"
        if not _is_sequence(given):
            raise InputError(f"{which} must be a tuple with one text for each unknown; got {given!r}")
        texts = tuple(given)
        if len(texts) != self.n:
            raise InputError(f"{which} has {len(texts)} entries for {self.n} unknowns")
        twice = attribute == "names" and len(set(map(str, texts))) < len(texts)
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"{which} must be a tuple of texts; entry {i} is {text!r}")
            if twice and text in texts[:i]:
                raise InputError(
                    f"{which} has '{text}' twice, in places {texts.index(text)} and {i}; give every unknown "
                    f"a name of its own"
                )
        return tuple(str(text) for text in texts)

    def _indices(self, given: Any) -> tuple[int, ...]:
        """``given`` as a tuple with the index of every unknown."""
        which = f"{type(self).__name__}.variable_index"
        if not _is_sequence(given):
            raise InputError(f"{which} must be a tuple with the index of each unknown; got {given!r}")
        if len(given) != self.n:
            raise InputError(f"{which} has {len(given)} entries for {self.n} unknowns")
        for i, entry in enumerate(given):
            if not (_is_integer(entry) and entry >= 1):
                raise InputError(f"{which} must hold integers from 1 on; entry {i} is {entry!r}")
        return tuple(int(entry) for entry in given)

    def _check_default(self, name: str, value: Any) -> None:
        if name == "index":
            fine, wanted = value is None or (_is_integer(value) and value >= 0), "an integer or None"
        elif name == "dt":
            fine, wanted = _is_number(value), "a number"
        elif name == "nominal":
            fine, wanted = _is_number_or_row(value, self.n), f"a number or {self.n} of them, one an unknown"
        elif name == "sparsity":
            fine = value is None or _shape(value) == (self.n, self.n)
            fine = fine and (value is None or np.dtype(getattr(value, "dtype", float)).kind in "biuf")
            wanted = f"None or a matrix of shape ({self.n}, {self.n}), the pattern of the Jacobian"
        elif name == "noise":
            fine, wanted = value is None or isinstance(value, Noise), "None or a Noise of dae_sdc.dae.noise"
        else:
            fine = _is_sequence(value) and len(value) == 2
            fine, wanted = fine and all(map(_is_number, value)), "a pair of numbers, start and end time"
        if not fine:
            raise InputError(f"{type(self).__name__}.{name} must be {wanted}; got {value!r}")

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
        return self.nominal if self._gives_nominal else None

    @property
    def _gives_nominal(self) -> bool:
        own = inspect.getattr_static(type(self), "nominal")
        return "nominal" in self.__dict__ or own is not ProblemDAE.__dict__["nominal"]

    @property
    def run_scales(self) -> Scales:
        """Sizes of unknowns and time in the present run."""
        known: Scales | None = self.__dict__.get("_run_scales")
        if known is None:
            known = self.__dict__["_run_scales"] = Scales(self.given_nominal, self.variable_index)
        return known

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
            F(t, u, u'), shape (n,), real; all zero along a solution. Where F is not defined, NaN, or an
            ArithmeticError or the ValueError of a function of :mod:`math`: the solver then takes a shorter
            way there, or ends with an error that gives the time. Any other exception ends the run as it is.
        """
        raise InputError(f"{type(self).__name__} defines no eval_f(self, u, du, t)")

    def begin_steps(self) -> None:
        """Called by the sweepers of this package, which take the state of a DAE for what it is.

        pySDC's controllers then may call ``eval_f(u, t)``, whose values these sweepers do not use.
        """
        self.__dict__["_has_sweeper"] = True

    def solve_system(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: pySDC's sweepers call it, and they do not solve F(t, u, u') = 0 of this kind."""
        raise InputError(_foreign(self, "solve_system"))

    @property
    def round_off(self) -> float:
        """Relative round-off of F, or its noise where that is known to be more."""
        return EPS if self.noise is None else max(EPS, self.noise.relative)

    def kernel_parameters(self) -> npt.ArrayLike:
        """The numbers p that the kernels of this problem take, shape (any,).

        They are asked for again when a public attribute has been set since; what a step decides in
        :meth:`start_step` belongs to them.
        """
        return ()

    @property
    def packed_parameters(self) -> Vector:
        """What :meth:`kernel_parameters` gave last."""
        known: Any = self.__dict__.get("_parameters")
        if known is None:
            workspace = self._workspace()
            if workspace is None:
                known = np.ascontiguousarray(self.kernel_parameters(), dtype=np.float64)
            else:
                known = complex_step().Parameters(workspace, self.kernel_parameters())
            self.__dict__["_parameters"] = known
        if type(known) is np.ndarray:
            return known
        if not known.workspace.serves(self.sparsity):  # changed in place
            self.__dict__["_parameters"] = None
            return self.packed_parameters
        found: Vector = known.array
        return found

    def _workspace(self) -> Any:
        """What the header of the parameters leads to, see :mod:`dae_sdc.dae.complex_step`, or None."""
        if self.jacobian_kernel is not COMPLEX_STEP:
            return None
        known = self.__dict__.get("_stepped")
        if known is None or not known.serves(self.sparsity):
            cls = type(self)
            assert cls.residual_kernel is not None
            address = compile_kernel(cls.residual_kernel, "complex").address
            known = complex_step().Workspace(address, self.n, self.sparsity, cls.__name__)
            self.__dict__["_stepped"] = known
        return known

    @property
    def kernels(self) -> Kernels | None:
        """The compiled kernels; None where a class gives its equations in another form."""
        cls = type(self)
        if cls.residual_kernel is None:
            return None
        return compile_kernels(cls.residual_kernel, cls.jacobian_kernel)

    def _residual_address(self) -> int:
        """Where the compiled residual is; 0 without one."""
        kernel: Any = type(self).residual_kernel
        return 0 if kernel is None else int(compile_kernel(kernel, "residual").address)

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

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """Times strictly between ``t0`` and ``t_end`` at which a step must end, in ascending order.

        There F jumps or has a kink as a function of time. Which piece is in force is chosen in
        :meth:`start_step` and kept for the whole step, so that a stage at its end sees the limit from the
        left. None by default.
        """
        return ()

    def switches(self, u: MeshDAE, t: float) -> Sequence[float]:
        """Functions of state and time at whose zeros :meth:`start_step` chooses another branch, shape (S,).

        They are continuous along a solution, of size 1 away from their zeros, and may be asked for states
        that lie somewhat behind them. Runs of one step at a time locate the zeros and end a step there; which
        sign holds from there on is what :meth:`sides` says. None by default.
        """
        return ()

    def sides(self, u: MeshDAE, t: float) -> tuple[int, ...]:
        """For each switch 1 or -1, the sign that is in force in a step from ``u`` at ``t``.

        It is what :meth:`start_step` decides by. In a run that locates the zeros it changes there alone. In
        all others it is that of the value, where from -1e-10 on all count as positive.
        """
        held: tuple[int, ...] | None = self.__dict__.get("_held")
        if held is not None:
            return held
        return tuple(1 if value >= -SIDE_SLACK else -1 for value in self.switches(u, t))

    def hold_sides(self, sides: tuple[int, ...] | None) -> None:
        """Let :meth:`sides` give these signs, whatever the state; with None, those of the state again."""
        self.__dict__["_held"] = sides

    @property
    def held_sides(self) -> tuple[int, ...] | None:
        """What :meth:`hold_sides` was told last."""
        held: tuple[int, ...] | None = self.__dict__.get("_held")
        return held

    @property
    def located(self) -> bool:
        """Whether the run locates zeros of switches, and makes states consistent behind breakpoints."""
        return self.__dict__.get("_held") is not None

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Called by every sweeper when a step begins at state ``u`` and time ``t``.

        A problem with a state-dependent right-hand side chooses its branch here and keeps it for the whole
        step, so that no Newton iteration meets a jump. The choice may depend on ``u``, ``t`` and
        :meth:`sides` only, so that a repeated step repeats it.
        """

    def state(self, values: npt.ArrayLike) -> MeshDAE:
        """A new state with the given n values; raises :class:`InputError` on another shape."""
        try:
            array = _real(values)
        except TypeError as error:
            raise InputError(
                f"a state of {type(self).__name__} takes real numbers of shape ({self.n},); "
                f"got {_shortened(values)} ({error})"
            ) from None
        if array.shape != (self.n,):
            raise InputError(
                f"a state of {type(self).__name__} has shape ({self.n},), differential unknowns first; "
                f"got shape {array.shape}"
            )
        return attach(array.copy(), self.n_diff)

    def evaluate(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """The residual as a plain array of shape (n,), counted and checked for its shape."""
        self._rhs.niter += 1
        try:
            value = self.eval_f(u, du, t)
        except (ArithmeticError, ValueError) as error:
            if not undefined(error):
                raise
            # Plain Python raises where NumPy returns NaN or infinity; both mean a step too far.
            return np.full(self._shape, np.nan)
        if type(value) is not np.ndarray or value.dtype != np.float64:
            value = self._returned("eval_f", value, self._shape)
        if value.shape != self._shape:
            raise InputError(
                f"{type(self).__name__}.eval_f must return {self.n} values, one an equation; "
                f"got shape {value.shape}"
            )
        return value

    def evaluate_nodes(self, u: Vector, du: Vector, t: Vector) -> Vector:
        """The residual at M nodes, shape (M, n), in one call where ``residual_nodes`` exists."""
        batched: Callable[[Vector, Vector, Vector], Any] | None = getattr(self, "residual_nodes", None)
        if batched is not None:
            try:
                value = batched(u, du, t)
            except (ArithmeticError, ValueError) as error:
                if not undefined(error):
                    raise
                # One node is undefined, but it does not say which: ask them one by one.
                batched = None
        address = self._residual_address() if batched is None and u.shape[1] == self.n else 0
        if address:
            values, residual_at, p = np.empty(u.shape), machine().residual_at, self.packed_parameters
            for i, time in enumerate(t.tolist()):
                residual_at(address, time, u[i], du[i], p, values[i])
            self._rhs.niter += len(t)
            return values
        if batched is None:
            rows = zip(u, du, t, strict=True)
            values = np.empty_like(u)
            for i, (x, dx, s) in enumerate(rows):
                # Copied one by one: eval_f may return the same array every time.
                values[i] = self.evaluate(attach(x, self.n_diff), attach(dx, self.n_diff), float(s))
            return values
        self._rhs.niter += len(t)
        if type(value) is not np.ndarray or value.dtype != np.float64:
            value = self._returned("residual_nodes", value, u.shape)
        if value.shape != u.shape:
            raise InputError(
                f"{type(self).__name__}.residual_nodes must return shape {u.shape}; got {value.shape}"
            )
        found: Vector = value
        return found

    def _returned(self, method: str, value: Any, shape: tuple[int, ...]) -> Vector:
        """What a method of a subclass returned as a plain array of real numbers."""
        try:
            return _real(value)
        except TypeError as error:
            reason = str(error)
            if value is None:
                reason = "is its return statement missing?"
            elif "complex" in reason:
                reason += ": Python's root of a negative number is one; return NaN where F is not defined"
            raise InputError(
                f"{type(self).__name__}.{method} must return real numbers of shape {shape}; "
                f"got {_shortened(value)} ({reason})"
            ) from None


def follows_from_residual(method: S) -> S:
    """Mark a ``jacobian`` that is made from the residual by itself, and need not be compared with it."""
    vars(method)["follows_from_residual"] = True
    return unguarded(method)


def undefined(error: Exception) -> bool:
    """Whether what an equation raised means that it has no value there, rather than a mistake in it.

    Parameters
    ----------
    error : Exception
        What ``eval_f`` raised.

    Returns
    -------
    bool
        True for arithmetic errors, for the ValueErrors by which functions of :mod:`math` and :mod:`cmath`
        refuse a number, and for matrices without a solution in :mod:`numpy.linalg`; False for all others,
        such as those about shapes.
    """
    if isinstance(error, np.linalg.LinAlgError):
        return _UNSOLVABLE.search(str(error)) is not None
    # A subclass of ValueError is something else than a function that refuses its argument.
    return isinstance(error, ArithmeticError) or (
        type(error) is ValueError and _UNDEFINED.match(str(error)) is not None
    )


def _real(values: Any) -> Vector:
    """``values`` as an array of doubles; raises TypeError with the reason where they are no real numbers."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise TypeError("entries of different shapes") from None
    if array.dtype.kind not in "biufO":
        raise TypeError(f"entries of type {array.dtype}")
    if array.dtype.kind == "O":
        # NumPy would read text as numbers, None as NaN, and drop imaginary parts.
        for entry in array.ravel():
            if isinstance(entry, _NOT_REAL) or not hasattr(entry, "__float__"):
                raise TypeError(f"entries of type {type(entry).__name__}")
    try:
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(str(error).partition("\n")[0]) from None


def _shortened(value: Any, length: int = 80) -> str:
    """``value`` in one line of at most ``length`` characters."""
    try:
        text = " ".join(str(value).split())
    except Exception:  # a message must come about, whatever a value says of itself
        text = f"a {type(value).__name__}"
    return text if len(text) <= length else f"{text[: length - 4]} ..."


def _is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _require_method(where: str, value: Any, count: int) -> None:
    """Refuse what is no function of so many arguments."""
    if not callable(value) or isinstance(value, type):
        raise InputError(f"{where} must be a function; got {_shortened(value)}")
    try:
        signature = inspect.signature(value)
    except ValueError:  # functions in machine code may have none
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise InputError(
            f"{where} is called with {count} arguments, but takes {signature} ({error}); define it so"
        ) from None


def _require_kernel(where: str, value: Any, count: int) -> None:
    """Refuse what numba cannot compile as a function of so many arguments."""
    plain = value.__func__ if isinstance(value, staticmethod) else value
    function = getattr(plain, "py_func", plain)
    if not inspect.isfunction(function):
        other = " or COMPLEX_STEP of dae_sdc.dae.kernels" if where.endswith("jacobian_kernel") else ""
        raise InputError(f"{where} must be a function{other}, which numba compiles; got {_shortened(value)}")
    parameters = inspect.signature(function).parameters.values()
    if len(parameters) != count or any(one.kind is not one.POSITIONAL_OR_KEYWORD for one in parameters):
        raise InputError(
            f"{where} must take {count} arguments, see dae_sdc.dae.kernels; it takes "
            f"{inspect.signature(function)}"
        )


def _shape(value: Any) -> Any:
    """Shape of a matrix of any kind; None of what is none."""
    try:
        return getattr(value, "shape", None) or np.shape(value)
    except ValueError:
        return None


def _is_number_or_row(value: Any, n: int) -> bool:
    try:
        array = np.asarray(value)
    except ValueError:
        return False
    return array.dtype.kind in "fiu" and array.shape in ((), (n,))


def check_newton(newton_tol: float, newton_maxiter: int, linear_solver: str) -> None:
    """Refuse settings with which no Newton iteration can end well."""
    if linear_solver not in LINEAR_SOLVERS:
        raise InputError(unknown("linear_solver", linear_solver, LINEAR_SOLVERS))
    if not _is_number(newton_tol):
        raise InputError(f"newton_tol must be a positive number; got {newton_tol!r}")
    if not newton_tol > 0.0:
        raise InputError(f"newton_tol must be positive; got {newton_tol}")
    require_tolerance("newton_tol", newton_tol)
    require_count("newton_maxiter", newton_maxiter, MOST_ITERATIONS)


def _taken(problem: ProblemDAE, values: npt.ArrayLike) -> Vector:
    """Values of the unknowns as a kernel reads them, which looks at neither type nor length."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.shape != (problem.n,):
        raise InputError(
            f"{type(problem).__name__} has {problem.n} unknowns; got an array of shape {array.shape}"
        )
    return array


def _compiled_residual(kernel: Callable[..., None]) -> Callable[..., Vector]:
    @unguarded
    def eval_f(self: ProblemDAE, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """The residual F(t, u, u'), shape (n,)."""
        out = np.empty(self.n)
        address = compile_kernel(kernel, "residual").address
        place, slope = _taken(self, u), _taken(self, du)
        machine().residual_at(address, float(t), place, slope, self.packed_parameters, out)
        return out

    return eval_f


def _compiled_jacobian(kernel: Callable[..., None]) -> Callable[..., Any]:
    @unguarded
    def jacobian(self: ProblemDAE, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
        """The matrix dF/du' + c dF/du, shape (n, n), dense or CSC of the pattern ``sparsity``."""
        pattern = self.sparsity
        if pattern is not None and getattr(pattern, "format", "") != "csc":
            raise InputError(
                f"{type(self).__name__}.jacobian_kernel writes the entries of a CSC matrix; sparsity must be "
                f"one, got {type(pattern).__name__}"
            )
        return _matrix(self, compile_kernel(kernel, "jacobian").address, u, du, t, c)

    return jacobian


@follows_from_residual
def _stepped_jacobian(self: ProblemDAE, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
    """The matrix dF/du' + c dF/du by complex steps, shape (n, n), dense or CSC of ``sparsity``."""
    workspace = self._workspace()
    matrix = _matrix(self, complex_step().jacobian_function().address, u, du, t, c)
    place, slope = _taken(self, u), _taken(self, du)
    outside = workspace.outside(float(t), place, slope, float(c), self.packed_parameters)
    if outside is not None:
        i, j = outside
        raise InputError(
            f"{type(self).__name__}.sparsity has no entry ({i}, {j}), but equation {i} "
            f"({self.equation_names[i]}) depends on {self.names[j]}; add it"
        )
    return matrix


def _matrix(self: ProblemDAE, address: int, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
    """What the Jacobian's kernel at an address writes, as a matrix."""
    pattern = self.sparsity
    out = np.empty((self.n, self.n) if pattern is None else pattern.nnz)
    place, slope = _taken(self, u), _taken(self, du)
    machine().jacobian_at(address, float(t), place, slope, float(c), self.packed_parameters, out)
    if pattern is None:
        return out
    matrix = type(pattern)((out, pattern.indices, pattern.indptr), shape=pattern.shape)
    matrix.has_sorted_indices = True
    return matrix


def _with_controller_call(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``eval_f`` also be called as pySDC's controllers and transfers do, ``eval_f(u, t)``.

    They expect the right-hand side u' there. A DAE has no such function, so the derivative that the state
    carries from the step it ended is returned, or zeros, which every predictor of this package replaces.
    Sweepers that would take it for a right-hand side are refused.
    """
    try:
        inspect.signature(method).bind("self", "u", "du", "t")
    except TypeError:
        raise InputError(
            f"{method.__qualname__} must take (self, u, du, t) and return F(t, u, u'); it takes "
            f"{inspect.signature(method)}"
        ) from None

    @functools.wraps(method)
    def eval_f(self: ProblemDAE, u: MeshDAE, du: Any, t: float | None = None) -> Any:
        bound = "_has_sweeper" in self.__dict__
        if t is not None:
            value = method(self, u, du, t)
            return value if bound else _as_state(self, value)
        if not bound:
            raise InputError(_foreign(self, "eval_f(u, t)"))
        derivative = self.dtype_f(self.init)
        polynomial = getattr(u, "polynomial", None)
        if polynomial is not None:
            derivative[:] = polynomial.derivative_at_end()
        return derivative

    return eval_f


def _as_state(problem: ProblemDAE, value: Any) -> Any:
    """What ``eval_f`` returned as a state, whose abs() is a number, where it can be one."""
    if isinstance(value, list | tuple):
        with contextlib.suppress(ValueError):
            value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.shape == problem._shape and value.dtype.kind in "fiu":
        return attach(value.astype(np.float64, copy=False), problem.n_diff)
    return value


def _foreign(problem: ProblemDAE, called: str) -> str:
    """The message for a call that only sweepers and transfers made for other problems make."""
    return (
        f"{called} of {type(problem).__name__} was called, as sweepers and transfers of pySDC for equations "
        f"u' = f(u, t) do, but it is a DAE; use sweepers of dae_sdc (FullyImplicitDAE, SemiImplicitDAE, "
        f"ConstrainedDAE, RungeKuttaDAE; 'dae-sdc list sweepers' shows all), and TransferDAE between levels"
    )


PROBLEMS: Registry[type[ProblemDAE]] = Registry("problem", "dae_sdc.problems")
"""Every problem of the library by its name."""
