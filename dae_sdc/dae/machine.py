"""How compiled code and Python call kernels. Importing this imports numba, which takes half a second."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, njit, types
from numba.core.errors import NumbaError as CompilationError, NumbaWarning
from numba.extending import intrinsic

__all__ = [
    "SIGNATURES",
    "CompilationError",
    "call_jacobian",
    "call_residual",
    "compile_function",
    "jacobian_at",
    "residual_at",
    "residuals_at",
]

_DOUBLES = types.CPointer(types.float64)

SIGNATURES = {
    "residual": types.void(types.float64, _DOUBLES, _DOUBLES, _DOUBLES, _DOUBLES),
    "jacobian": types.void(types.float64, _DOUBLES, _DOUBLES, types.float64, _DOUBLES, _DOUBLES),
}
"""Types of ``residual(t, u*, du*, p*, out*)`` and ``jacobian(t, u*, du*, c, p*, out*)``."""


def compile_function(function: Callable[..., None], signature: Any) -> Any:
    """A C function from a Python function, from the disk where it was compiled before."""
    marked = _marked(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaWarning)
        if marked is not None:
            try:
                return cfunc(signature, cache=True, error_model="numpy")(marked)
            except RuntimeError:  # typed at a prompt, it has no file to keep the result beside
                pass
        return cfunc(signature, error_model="numpy")(function)


def _marked(function: Any) -> Any:
    """The function with the values of its global numbers in its name, or None where it uses other globals.

    Compiled code holds the values that globals had, and numba keeps it under the name of the function.
    """
    used: dict[str, Any] = {}
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        used |= {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    digest = 0
    for name, value in sorted(used.items()):
        if isinstance(value, ModuleType | BuiltinFunctionType):
            continue
        if not isinstance(value, bool | int | float | np.number | np.ndarray):
            return None
        numbers = np.asarray(value)
        text = f"{name} {type(value).__name__} {numbers.dtype} {numbers.shape}"
        digest = zlib.crc32(text.encode() + numbers.tobytes(), digest)
    if digest == 0:
        return function
    marked = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    marked.__qualname__ = f"{function.__qualname__}-{digest:08x}"
    return marked


def _call(builder: Any, address: Any, arguments: list[Any]) -> None:
    """Call the C function at ``address``; arguments that are integers are addresses of doubles."""
    double = ir.DoubleType()
    pointer = double.as_pointer()
    kinds = [double if value.type == double else pointer for value in arguments]
    function = builder.inttoptr(address, ir.FunctionType(ir.VoidType(), kinds).as_pointer())
    values = [
        value if kind == double else builder.inttoptr(value, pointer)
        for value, kind in zip(arguments, kinds, strict=True)
    ]
    builder.call(function, values)


@intrinsic
def call_residual(context: Any, address: Any, t: Any, u: Any, du: Any, p: Any, out: Any) -> Any:
    """Call a residual at its address with addresses of arrays."""
    place = types.int64
    signature = types.void(types.int64, types.float64, place, place, place, place)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _call(builder, arguments[0], list(arguments[1:]))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def call_jacobian(context: Any, address: Any, t: Any, u: Any, du: Any, c: Any, p: Any, out: Any) -> Any:
    """Call a Jacobian at its address with addresses of arrays."""
    place, number = types.int64, types.float64
    signature = types.void(types.int64, number, place, place, number, place, place)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _call(builder, arguments[0], list(arguments[1:]))
        return context.get_dummy_value()

    return signature, generate


def _kept(function: Callable[..., Any]) -> Any:
    """Compile a function, and keep the result on disk if there is a place for it."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:
        return njit(function)


@_kept
def residual_at(address: Any, t: Any, u: Any, du: Any, p: Any, out: Any) -> Any:
    """F(t, u, u') into ``out``, arrays of shape (n,)."""
    call_residual(address, t, u.ctypes.data, du.ctypes.data, p.ctypes.data, out.ctypes.data)


@_kept
def residuals_at(address: Any, t: Any, u: Any, du: Any, p: Any, out: Any) -> Any:
    """F at M nodes into ``out``; shapes (M,), (M, n), (M, n), (parameters,), (M, n)."""
    for m in range(len(t)):
        call_residual(address, t[m], u[m].ctypes.data, du[m].ctypes.data, p.ctypes.data, out[m].ctypes.data)


@_kept
def jacobian_at(address: Any, t: Any, u: Any, du: Any, c: Any, p: Any, out: Any) -> Any:
    """dF/du' + c dF/du into ``out``, row by row or as entries of a pattern."""
    call_jacobian(address, t, u.ctypes.data, du.ctypes.data, c, p.ctypes.data, out.ctypes.data)
