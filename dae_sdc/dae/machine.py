"""How kernels are compiled, and called from compiled code and Python. Importing this imports numba."""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from llvmlite import ir
from numba import from_dtype, njit, types
from numba.core import cgutils, ir as numba_ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import NumbaError as CompilationError
from numba.core.untyped_passes import IRProcessing
from numba.extending import intrinsic, models, overload, overload_method, register_jitable, register_model

from dae_sdc.dae.compiling import IMPLEMENTATIONS, c_function, kept
from dae_sdc.dae.memory import is_inlined

__all__ = [
    "INNER",
    "SIGNATURES",
    "CompilationError",
    "Inlining",
    "KernelCompiler",
    "RecordView",
    "address_of",
    "call_at",
    "call_jacobian",
    "call_residual",
    "compile_function",
    "compiled_as",
    "doubles",
    "integers",
    "jacobian_at",
    "pointer_to",
    "residual_at",
    "residuals_at",
    "short_integers",
    "within_compiled",
]

_DOUBLES, _COMPLEX = types.CPointer(types.float64), types.CPointer(types.complex128)

SIGNATURES = {
    "residual": types.void(types.float64, _DOUBLES, _DOUBLES, _DOUBLES, _DOUBLES),
    "jacobian": types.void(types.float64, _DOUBLES, _DOUBLES, types.float64, _DOUBLES, _DOUBLES),
    "complex": types.void(types.float64, _COMPLEX, _COMPLEX, _DOUBLES, _COMPLEX),
}
"""Types of ``residual(t, u*, du*, p*, out*)`` and ``jacobian(t, u*, du*, c, p*, out*)``.

The complex one is a residual of complex u, du and out.
"""


def compile_function(
    function: Callable[..., Any], signature: Any, compiler: type[KernelCompiler] | None = None
) -> Any:
    """Compile a C function from a Python function, or load it from disk where that was done before."""
    return c_function(function, signature, pipeline_class=KernelCompiler if compiler is None else compiler)


@register_pass(mutates_CFG=False, analysis_only=False)
class Inlining(FunctionPass):  # type: ignore[misc]
    """Puts compiled functions in the place of the plain ones that ``inlined`` marks."""

    _name = "dae_sdc_inlining"
    compiler: ClassVar[type[CompilerBase]]
    compiled: ClassVar[dict[Any, Any]] = {}

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Replace what the function refers to, and change its operators."""
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(numba_ir.Assign):
                value = statement.value
                if isinstance(value, numba_ir.Global | numba_ir.FreeVar):
                    value.value = self.replaced(value.value)
                elif isinstance(value, numba_ir.Expr):
                    self.operate(value)
        return True

    def replaced(self, value: Any) -> Any:
        """The value that takes the place of a global or captured one."""
        return self.function(value) if is_inlined(value) else value

    def operate(self, expression: Any) -> None:
        """Change an expression in place; a subclass may, this class does not."""

    def function(self, plain: Any) -> Any:
        """The compiled form of a plain function."""
        if plain not in self.compiled:
            self.compiled[plain] = njit(error_model="numpy", pipeline_class=self.compiler)(plain)
        return self.compiled[plain]


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """numba's compiler with :class:`Inlining`."""

    step: ClassVar[type[Inlining]] = Inlining

    def define_pipelines(self) -> Any:
        """See numba."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(self.step, IRProcessing)
        passes.finalize()
        return [passes]


Inlining.compiler = KernelCompiler


def pointer_to(kind: Any) -> Any:
    """An intrinsic that turns an address into a pointer to numbers of a kind."""

    @intrinsic
    def view(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    return view


doubles, integers, short_integers = map(pointer_to, (types.float64, types.int64, types.int32))


@intrinsic
def address_of(context: Any, pointer: Any) -> Any:
    """The address that a pointer holds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(arguments[0], context.get_value_type(types.int64))

    return types.int64(pointer), generate


# Options of functions that only compiled code calls: without what Python would need, they compile faster.
INNER = {
    "no_cfunc_wrapper": True,
    "no_cpython_wrapper": True,
    "no_rewrites": True,
    "_nrt": False,
    "error_model": "numpy",
}

# Decorator of functions that compiled code calls and Python may call.
within_compiled = register_jitable(**INNER)


def _one_form(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """What numba calls for the form of a function by types: one implementation for all."""

    def typed(*_: Any) -> Any:
        return implementation

    vars(typed)["__signature__"] = inspect.signature(implementation)
    return typed


def compiled_as(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Decorator of a function that compiled code calls in place of a Python one with the same parameters."""

    def register(implementation: Any) -> Any:
        IMPLEMENTATIONS[function].append(implementation)
        overload(function, jit_options=INNER)(_one_form(implementation))
        return implementation

    return register


class RecordView:
    """Structures of C that Python has made, as compiled code sees them: with fields and methods."""

    def __init__(self, structure: type[ctypes.Structure]) -> None:
        plain = from_dtype(np.dtype(structure))
        self._kind: Any = type(structure.__name__, (types.Record,), {})
        register_model(self._kind)(models.RecordModel)
        fields = [(name, field._asdict()) for name, field in plain.fields.items()]
        record = self._kind(fields, plain.size, plain.aligned)

        @intrinsic
        def at(context: Any, address: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

            return record(types.int64), generate

        self.at = at

    def method(self, **options: Any) -> Callable[[Any], Any]:
        """Decorator that makes a function of a structure its method of that name in compiled code."""

        def register(implementation: Any) -> Any:
            name = implementation.__name__.removeprefix("_")
            IMPLEMENTATIONS[name].append(implementation)
            overload_method(self._kind, name, jit_options=INNER | options)(_one_form(implementation))
            return implementation

        return register


@intrinsic
def call_at(context: Any, address: Any, arguments: Any) -> Any:
    """Call the C function at an address with integers or addresses; the integer it returns."""
    integer, count = ir.IntType(64), arguments.count

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(integer, [integer] * count)
        function = builder.inttoptr(values[0], kind.as_pointer())
        return builder.call(function, cgutils.unpack_tuple(builder, values[1], count))

    return types.int64(types.int64, types.UniTuple(types.int64, count)), generate


def _call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Call the C function at the first argument; others that are integers are addresses of doubles."""
    double = ir.DoubleType()
    pointer = double.as_pointer()
    address, *values = arguments
    kinds = [double if value.type == double else pointer for value in values]
    function = builder.inttoptr(address, ir.FunctionType(ir.VoidType(), kinds).as_pointer())
    pairs = zip(values, kinds, strict=True)
    builder.call(function, [one if kind == double else builder.inttoptr(one, pointer) for one, kind in pairs])
    return context.get_dummy_value()


@intrinsic
def call_residual(context: Any, address: Any, t: Any, u: Any, du: Any, p: Any, out: Any) -> Any:
    """Call a residual at its address with addresses of arrays."""
    place, number = types.int64, types.float64
    return types.void(place, number, place, place, place, place), _call


@intrinsic
def call_jacobian(context: Any, address: Any, t: Any, u: Any, du: Any, c: Any, p: Any, out: Any) -> Any:
    """Call a Jacobian at its address with addresses of arrays."""
    place, number = types.int64, types.float64
    return types.void(place, number, place, place, number, place, place), _call


@kept
def residual_at(address: Any, t: Any, u: Any, du: Any, p: Any, out: Any) -> Any:
    """F(t, u, u') into ``out``, arrays of shape (n,)."""
    call_residual(address, t, u.ctypes.data, du.ctypes.data, p.ctypes.data, out.ctypes.data)


@kept
def residuals_at(address: Any, t: Any, u: Any, du: Any, p: Any, out: Any) -> Any:
    """F at M nodes into ``out``; shapes (M,), (M, n), (M, n), (parameters,), (M, n)."""
    for m in range(len(t)):
        call_residual(address, t[m], u[m].ctypes.data, du[m].ctypes.data, p.ctypes.data, out[m].ctypes.data)


@kept
def jacobian_at(address: Any, t: Any, u: Any, du: Any, c: Any, p: Any, out: Any) -> Any:
    """dF/du' + c dF/du into ``out``, row by row or as entries of a pattern."""
    call_jacobian(address, t, u.ctypes.data, du.ctypes.data, c, p.ctypes.data, out.ctypes.data)
