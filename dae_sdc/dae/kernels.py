"""The equations of a problem as C functions, which compiled sweeps call by their addresses.

A pair of kernels has one fixed signature::

    residual(t, u*, du*, p*, out*)
    jacobian(t, u*, du*, c, p*, out*)

with the time t, the state u and its derivative du (n doubles each), the coefficient c, the parameters p of
the problem, and F(t, u, u') or dF/du' + c dF/du for the result: row by row, or the entries of a CSC matrix in
the order of the problem's ``sparsity``. In place of a Jacobian, :data:`COMPLEX_STEP` stands for the exact
derivatives of the residual. A kernel may call plain functions of numbers that :func:`inlined` marks.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.code_digest import kept_digest
from dae_sdc.dae.machine_code import CFunction, entry, loaded
from dae_sdc.dae.memory import inlined as inlined, new_counters
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.dae.values import unguarded
from dae_sdc.dae.workspaces import Parameters, Workspace
from dae_sdc.errors import InputError
from dae_sdc.sharing import once


class ComplexStep:
    """The type of :data:`COMPLEX_STEP`."""

    def __repr__(self) -> str:
        return "COMPLEX_STEP"

    def __reduce__(self) -> str:
        return "COMPLEX_STEP"

    def __call__(self, *arguments: Any) -> None:
        """Refused: it has no form in plain Python."""
        raise InputError("COMPLEX_STEP is no function; call jacobian(u, du, t, c) of the problem")


COMPLEX_STEP: Final = ComplexStep()
"""As ``jacobian_kernel``: the exact dF/du' + c dF/du of ``residual_kernel``, by complex steps.

The residual is compiled a second time, for numbers whose imaginary part is a perturbation too small to change
the real part, so that nothing cancels. Comparisons, ``abs``, ``min`` and ``max`` look at the real part.

References
----------
W. Squire, G. Trapp, Using complex variables to estimate derivatives of real functions, SIAM Review 40 (1998)
110.
"""


@dataclass(frozen=True)
class Kernels:
    """Addresses of the two C functions of a problem."""

    # residual, jacobian: addresses; 0 for a Jacobian that is not given.
    residual: int
    jacobian: int
    # What must live as long as the addresses are used.
    owners: tuple[Any, ...] = field(default=(), repr=False)


# Arguments of calls of kernels behind the address: numbers and arrays of doubles in C order.
_NUMBER, _ARRAY = ctypes.c_double, ctypes.py_object
ARGUMENTS: Final[dict[str, tuple[Any, ...]]] = {
    "residual_at": (_NUMBER, *4 * [_ARRAY]),  # t, u, du, p and out: F(t, u, u'), shape (n,)
    # The same at M nodes: t of shape (M,), u and u' of (M, n), and F or others, (M, K), for out.
    "residuals_at": 5 * (_ARRAY,),
    "jacobian_at": (_NUMBER, _ARRAY, _ARRAY, _NUMBER, _ARRAY, _ARRAY),  # t, u, du, c, p and out
}


@functools.cache
def machine(name: str) -> Any:
    """The call of kernels of a name in :data:`ARGUMENTS` from Python, which checks nothing."""
    # Python's lock is kept: giving it back would take longer than most evaluations.
    kind = ctypes.PYFUNCTYPE(None, ctypes.c_int64, *ARGUMENTS[name])
    return kind(entry(f"dae_sdc.dae.compiling:{name}").address)


def stepped_jacobian() -> CFunction:
    """The C function that is the Jacobian's kernel of every problem that takes complex steps."""
    return entry("dae_sdc.dae.complex_step:jacobian")


@once
def compile_kernel(function: Callable[..., None], kind: str) -> CFunction:
    """Compile a Python function, once a machine: the result is kept on disk."""
    digest, compiled = kept_digest(function, {}), functools.partial(_compiled_kernel, function, kind)  # type: ignore
    return compiled() if digest is None else loaded(function.__name__, f"{kind} {digest}", compiled)


def _compiled_kernel(function: Callable[..., None], kind: str) -> CFunction:
    module = importlib.import_module("dae_sdc.dae.compiling")
    try:
        module.register_inlined()
        compiler = module.LinkedCompiler
        if kind == "complex":
            compiler = importlib.import_module("dae_sdc.dae.complex_step").PerturbedCompiler
        compiled: CFunction = module.c_function(function, module.SIGNATURES[kind], pipeline_class=compiler)
        return compiled
    except module.CompilationError as error:
        reason = " ".join(str(error).split())[:300]
        if "Untyped global name" in reason:
            reason += "; mark functions that kernels call with dae_sdc.dae.kernels.inlined"
        if kind == "complex":
            raise InputError(
                f"numba cannot compile the kernel {function.__qualname__} for complex steps; use functions "
                f"of math or numpy on single numbers, or write a jacobian_kernel: {reason}"
            ) from error
        raise InputError(f"numba cannot compile the kernel {function.__qualname__}: {reason}") from error


@once
def compile_kernels(residual: Callable[..., None], jacobian: Callable[..., None] | None) -> Kernels:
    """Compile the two functions of a problem, see :func:`compile_kernel`."""
    first = compile_kernel(residual, "residual")
    if jacobian is COMPLEX_STEP:
        stepped = stepped_jacobian()
        return Kernels(first.address, stepped.address, (first, stepped, compile_kernel(residual, "complex")))
    second = None if jacobian is None else compile_kernel(jacobian, "jacobian")
    return Kernels(first.address, second.address if second else 0, (first, second))


S = TypeVar("S", bound=Callable[..., Any])


class CompiledEquations:
    """Base of :class:`~dae_sdc.dae.problem.ProblemDAE`: equations as C functions, and their parameters p."""

    n: int
    linear_solver: str
    sparsity: Any = None
    residual_kernel: ClassVar[Callable[..., None] | None] = None
    jacobian_kernel: ClassVar[Callable[..., None] | None] = None
    stepped_kernel: ClassVar[Callable[..., None] | None] = None  # What complex steps are taken of.

    def kernel_parameters(self) -> npt.ArrayLike:
        """The numbers p that the kernels of this problem take, shape (any,).

        They are computed anew when a public attribute has been set; the branch that :meth:`start_step`
        chooses is among them.
        """
        return ()

    def _taken(self, values: npt.ArrayLike) -> Vector:
        """Values of the unknowns as contiguous doubles: a kernel checks neither type nor length."""
        array = np.ascontiguousarray(values, dtype=np.float64)
        if array.shape != (self.n,):
            raise InputError(
                f"{type(self).__name__} has {self.n} unknowns; got an array of shape {array.shape}"
            )
        return array

    @property
    def packed_parameters(self) -> Vector:
        """The parameters p of the kernels in one array, shape (any,), see :meth:`kernel_parameters`."""
        known: Any = self.__dict__.get("_parameters")
        if known is None:
            workspace = self.kernel_workspace()
            if workspace is None:
                known = np.ascontiguousarray(self.kernel_parameters(), dtype=np.float64)
            else:
                known = Parameters(workspace, self.kernel_parameters())
            self.__dict__["_parameters"] = known
        if type(known) is np.ndarray:
            return known
        if not known.workspace.serves(self.sparsity):  # changed in place
            self.__dict__["_parameters"] = None
            return self.packed_parameters
        found: Vector = known.array
        return found

    def kernel_workspace(self) -> Any:
        """The workspace of a Jacobian by complex steps, see :mod:`dae_sdc.dae.complex_step`, or None."""
        kernel = type(self).stepped_kernel
        if kernel is None:
            return None
        known = self.__dict__.get("_stepped")
        if known is None or not known.serves(self.sparsity):
            address = compile_kernel(kernel, "complex").address
            known = Workspace(address, self.n, self.sparsity, type(self).__name__)
            self.__dict__["_stepped"] = known
        return known

    @property
    def kernels(self) -> Kernels | None:
        """The compiled kernels; None where a class gives its equations in another form."""
        cls = type(self)
        if cls.residual_kernel is None:
            return None
        return compile_kernels(cls.residual_kernel, cls.jacobian_kernel)

    @property
    def compiled_solvers(self) -> tuple[str, ...]:
        """The linear solvers whose factors or pivots compiled code uses itself for matrices of this kind."""
        return ("auto", "dense") if self.sparsity is None else ("auto", "superlu", "klu")

    @property
    def solver_kernels(self) -> Kernels | None:
        """The kernels with which compiled code can solve for a step; None where it cannot."""
        known = self.kernels
        return known if known is not None and known.jacobian else None

    def likeness(self: Any) -> tuple[Any, ...] | None:
        """What problems with other numbers in the same compiled equations have in common; None for others."""
        kernels, nominal = self.solver_kernels, self.given_nominal
        if kernels is None or not self.starts_alike or getattr(self.sparsity, "format", "csc") != "csc":
            return None
        names = "n_diff names index variable_index linear_solver newton_tol newton_maxiter noise".split()
        alike = (getattr(self, name) for name in names)
        size = None if nominal is None else np.asarray(nominal).tobytes()
        return kernels.residual, kernels.jacobian, id(self.sparsity), size, *alike

    def take_numbers(self: Any, other: Any) -> None:
        """Have the numbers of another problem that is like this one, for a run of its own."""
        own, scales = self.__dict__, self.run_scales
        for name, value in vars(other.run_scales).items():
            if isinstance(value, np.ndarray):
                vars(scales)[name][:] = value  # others know the array
            else:
                vars(scales)[name] = value
        kept = {"run_scales": scales, "work_counters": new_counters(), "_stepped": own.get("_stepped")}
        own.clear()
        own.update(vars(other), **kept, _parameters=None)

    def residual_address(self) -> int:
        """Address of the compiled residual; 0 without one."""
        kernel: Any = type(self).residual_kernel
        return 0 if kernel is None else int(compile_kernel(kernel, "residual").address)


def install_kernels(cls: type[Any]) -> None:
    """Define ``eval_f`` and ``jacobian`` of a class by its kernels; raises InputError for unusable ones."""
    own = cls.__dict__
    if "residual_kernel" in own:
        if "eval_f" in own:
            raise InputError(
                f"{cls.__qualname__} gives its equations twice, as eval_f and as residual_kernel"
            )
        cls.eval_f = _compiled_residual(cls.residual_kernel)
    elif "eval_f" in own:
        # Other equations than those of the class above, whose kernels are therefore not its own.
        cls.residual_kernel = None
    if "jacobian_kernel" in own:
        given = cls.jacobian_kernel
        if given is COMPLEX_STEP and cls.residual_kernel is None:
            raise InputError(
                f"{cls.__qualname__} has jacobian_kernel = COMPLEX_STEP, which needs a residual_kernel"
            )
        cls.jacobian = _stepped_jacobian if given is COMPLEX_STEP else _compiled_jacobian(given)
    elif "jacobian" in own or cls.residual_kernel is None:
        if "jacobian" not in own and getattr(cls, "jacobian", None) is _stepped_jacobian:
            cls.jacobian = None  # that of equations which are no longer those of the class
        cls.jacobian_kernel = None
    # A class that gives equations or a Jacobian of its own may still call those of the class above.
    if getattr(cls, "jacobian", None) is None:
        cls.stepped_kernel = None
    elif cls.residual_kernel is not None and (cls.stepped_kernel or cls.jacobian_kernel is COMPLEX_STEP):
        cls.stepped_kernel = cls.residual_kernel


def follows_from_residual(method: S) -> S:
    """Mark a ``jacobian`` that is made from the residual by itself, and need not be compared with it."""
    vars(method)["follows_from_residual"] = True
    return unguarded(method)


def _compiled_residual(kernel: Callable[..., None]) -> Callable[..., Vector]:
    @unguarded
    def eval_f(self: Any, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """The residual F(t, u, u'), shape (n,)."""
        return residual_of_kernel(self, compile_kernel(kernel, "residual").address, u, du, t)

    return eval_f


def _compiled_jacobian(kernel: Callable[..., None]) -> Callable[..., Any]:
    @unguarded
    def jacobian(self: Any, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
        """The matrix dF/du' + c dF/du, shape (n, n), dense or CSC of the pattern ``sparsity``."""
        pattern = self.sparsity
        if pattern is not None and getattr(pattern, "format", "") != "csc":
            raise InputError(
                f"{type(self).__name__}.jacobian_kernel writes the entries of a CSC matrix; sparsity must be "
                f"one, got {type(pattern).__name__}"
            )
        return matrix_of_kernel(self, compile_kernel(kernel, "jacobian").address, u, du, t, c)

    return jacobian


@follows_from_residual
def _stepped_jacobian(self: Any, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
    """The matrix dF/du' + c dF/du by complex steps, shape (n, n), dense or CSC of ``sparsity``."""
    workspace = self.kernel_workspace()
    if workspace is None:
        raise InputError(
            f"{type(self).__name__} has other equations than the class whose Jacobian it calls; "
            f"give their own"
        )
    matrix = matrix_of_kernel(self, stepped_jacobian().address, u, du, t, c)
    place, slope = self._taken(u), self._taken(du)
    outside = workspace.outside(float(t), place, slope, float(c), self.packed_parameters)
    if outside is not None:
        i, j = outside
        raise InputError(
            f"{type(self).__name__}.sparsity has no entry ({i}, {j}), but equation {i} "
            f"({self.equation_names[i]}) depends on {self.names[j]}; add it"
        )
    return matrix


def residual_of_kernel(problem: Any, address: int, u: npt.ArrayLike, du: npt.ArrayLike, t: float) -> Vector:
    """The residual F(t, u, u') that a C function writes."""
    # Shape of the result: (n,).
    out = np.empty(problem.n)
    place, slope = problem._taken(u), problem._taken(du)
    machine("residual_at")(address, float(t), place, slope, problem.packed_parameters, out)
    return out


def matrix_of_kernel(
    problem: Any, address: int, u: npt.ArrayLike, du: npt.ArrayLike, t: float, c: float
) -> Any:
    """The matrix dF/du' + c dF/du that the C function of a Jacobian writes."""
    # Shape of the result: (n, n).
    pattern = problem.sparsity
    out = np.empty((problem.n, problem.n) if pattern is None else pattern.nnz)
    place, slope = problem._taken(u), problem._taken(du)
    machine("jacobian_at")(address, float(t), place, slope, float(c), problem.packed_parameters, out)
    if pattern is None:
        return out
    matrix = type(pattern)((out, pattern.indices, pattern.indptr), shape=pattern.shape)
    matrix.has_sorted_indices = True
    return matrix
