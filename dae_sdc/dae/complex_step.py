"""Exact Jacobians of residual kernels by complex steps. Importing this imports numba.

The residual is compiled for complex numbers a + i b whose imaginary part is a perturbation: so small that b^2
is nothing beside a. Every operation is then that of its real part together with its derivative, f(a) and
f'(a) b, and is compiled as these two. The branches of logarithms and powers of negative numbers, which would
drown the perturbation, do not occur, and comparisons see the real part alone.

The signature of a Jacobian's kernel has no address of a residual. The kernel finds it through two numbers
that stand in memory before the parameters p, see :class:`~dae_sdc.dae.workspaces.Parameters`.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Hashable
from types import FunctionType, ModuleType
from typing import Any, ClassVar

import numpy as np
from numba import types
from numba.core import ir as numba_ir
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic, overload

from dae_sdc.dae import compiling
from dae_sdc.dae.code_digest import IMPLEMENTATIONS
from dae_sdc.dae.compiling import address_of, call_residual, doubles, inner, integers
from dae_sdc.dae.memory import STEP, is_inlined
from dae_sdc.dae.workspaces import SIGN, WorkspaceMemory

# Relative error of a derivative beyond which the pattern is checked for missing entries.
SUSPICIOUS_ERROR = 1e-6
workspace_at = compiling.RecordView(WorkspaceMemory).at

# --- numbers with a perturbation ------------------------------------------------------------------


@inner
def _perturbed(value: Any, slope: Any, change: Any) -> Any:
    """A value and slope times change; an infinite slope is no matter where nothing changes."""
    return complex(value, slope * change if change != 0.0 else 0.0)


def _is_complex(*kinds: Any) -> bool:
    return any(isinstance(kind, types.Complex) for kind in kinds)


def _compiled(function: Callable[..., Any]) -> Any:
    """A function for compiled code; numba knows those that are not written in Python."""
    return inner(function) if isinstance(function, FunctionType) else function


def _by_types(form: Callable[..., Any], choose: Callable[..., Any]) -> Any:
    """A function for compiled code whose form is chosen by the types of its arguments, such as ``form``."""

    def function(*values: Any) -> Any:
        raise NotImplementedError

    for one in (function, choose):
        vars(one)["__signature__"] = inspect.signature(form)
    IMPLEMENTATIONS[function].append(choose)
    overload(function, jit_options=compiling.LINKED)(choose)
    return function


def _unary(value: Callable[..., Any], slope: Callable[..., Any]) -> Any:
    """A function f(x) for numbers with and without a perturbation; the slope is given x and f(x)."""
    plain, rate = _compiled(value), _compiled(slope)

    def simple(x: Any) -> Any:
        return plain(x)

    def perturbed(x: Any) -> Any:
        y = plain(x.real)
        return _perturbed(y, rate(x.real, y), x.imag)

    return _by_types(simple, lambda x: perturbed if _is_complex(x) else simple)


def _binary(value: Callable[..., Any], first: Callable[..., Any], second: Callable[..., Any]) -> Any:
    """A function f(x, y) as :func:`_unary`; its two slopes are given x, y and f(x, y)."""
    plain, rate, other = map(_compiled, (value, first, second))

    def simple(x: Any, y: Any) -> Any:
        return plain(x, y)

    def left(x: Any, y: Any) -> Any:
        z = plain(x.real, y)
        return _perturbed(z, rate(x.real, y, z), x.imag)

    def right(x: Any, y: Any) -> Any:
        z = plain(x, y.real)
        return _perturbed(z, other(x, y.real, z), y.imag)

    def both(x: Any, y: Any) -> Any:
        z = plain(x.real, y.real)
        one = _perturbed(z, rate(x.real, y.real, z), x.imag)
        two = _perturbed(z, other(x.real, y.real, z), y.imag)
        return complex(z, one.imag + two.imag)

    forms = {(False, False): simple, (True, False): left, (False, True): right, (True, True): both}
    return _by_types(simple, lambda x, y: forms[_is_complex(x), _is_complex(y)])


def _comparison(compare: Callable[..., Any]) -> Any:
    """A comparison of real parts."""

    def simple(x: Any, y: Any) -> Any:
        return compare(x, y)

    def perturbed(x: Any, y: Any) -> Any:
        return compare(x.real, y.real)

    return _by_types(simple, lambda x, y: perturbed if _is_complex(x, y) else simple)


def _smallest(of_two: Any, builtin: Callable[..., Any]) -> Any:
    """``min`` or ``max`` of any count of numbers."""

    def simple(*values: Any) -> Any:
        return builtin(*values)

    def two(*values: Any) -> Any:
        return of_two(values[0], values[1])

    def more(*values: Any) -> Any:
        return of_two(values[0], function(*values[1:]))

    def chosen(*values: Any) -> Any:
        kinds = values[0] if len(values) == 1 and isinstance(values[0], types.BaseTuple) else values
        if not _is_complex(*kinds):
            return simple
        return two if len(kinds) == 2 else more

    function = _by_types(simple, chosen)
    return function


OPERATORS: dict[Any, Any] = {
    operator.mul: _binary(lambda x, y: x * y, lambda x, y, z: y, lambda x, y, z: x),
    operator.truediv: _binary(lambda x, y: x / y, lambda x, y, z: 1.0 / y, lambda x, y, z: -z / y),
    operator.pow: _binary(
        lambda x, y: x**y,
        lambda x, y, z: y * x ** (y - 1) if y != 0 else 0.0,
        lambda x, y, z: z * math.log(x),
    ),
    **{
        compare: _comparison(compare)
        for compare in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
    },
}
OPERATORS |= {
    operator.imul: OPERATORS[operator.mul],
    operator.itruediv: OPERATORS[operator.truediv],
    operator.ipow: OPERATORS[operator.pow],
}
"""What replaces operators. Sums, differences and signs of complex numbers are right as they are."""

_ABS = _unary(abs, lambda x, y: 1.0 if x >= 0.0 else -1.0)
_MIN = _binary(min, lambda x, y, z: 1.0 if x <= y else 0.0, lambda x, y, z: 0.0 if x <= y else 1.0)
_MAX = _binary(max, lambda x, y, z: 1.0 if x >= y else 0.0, lambda x, y, z: 0.0 if x >= y else 1.0)
_ATAN2 = _binary(math.atan2, lambda x, y, z: y / (x * x + y * y), lambda x, y, z: -x / (x * x + y * y))
_HYPOT = _binary(math.hypot, lambda x, y, z: x / z, lambda x, y, z: y / z)

_ROOT_PI = math.sqrt(math.pi)
_LN_2, _LN_10 = math.log(2.0), math.log(10.0)

# Functions of one number by their names in :mod:`math`; for an initial a, NumPy has arc.
ONE_NUMBER: dict[str, Any] = {
    "exp": _unary(math.exp, lambda x, y: y),
    "expm1": _unary(math.expm1, lambda x, y: math.exp(x)),
    "log": _unary(math.log, lambda x, y: 1.0 / x),
    "log2": _unary(math.log2, lambda x, y: 1.0 / (_LN_2 * x)),
    "log10": _unary(math.log10, lambda x, y: 1.0 / (_LN_10 * x)),
    "log1p": _unary(math.log1p, lambda x, y: 1.0 / (1.0 + x)),
    "sqrt": _unary(math.sqrt, lambda x, y: 0.5 / y),
    "sin": _unary(math.sin, lambda x, y: math.cos(x)),
    "cos": _unary(math.cos, lambda x, y: -math.sin(x)),
    "tan": _unary(math.tan, lambda x, y: 1.0 + y * y),
    "asin": _unary(math.asin, lambda x, y: 1.0 / math.sqrt((1.0 - x) * (1.0 + x))),
    "acos": _unary(math.acos, lambda x, y: -1.0 / math.sqrt((1.0 - x) * (1.0 + x))),
    "atan": _unary(math.atan, lambda x, y: 1.0 / (1.0 + x * x)),
    "sinh": _unary(math.sinh, lambda x, y: math.cosh(x)),
    "cosh": _unary(math.cosh, lambda x, y: math.sinh(x)),
    "tanh": _unary(math.tanh, lambda x, y: (1.0 - y) * (1.0 + y)),
    "asinh": _unary(math.asinh, lambda x, y: 1.0 / math.hypot(x, 1.0)),
    "acosh": _unary(math.acosh, lambda x, y: 1.0 / math.sqrt((x - 1.0) * (x + 1.0))),
    "atanh": _unary(math.atanh, lambda x, y: 1.0 / ((1.0 - x) * (1.0 + x))),
    "erf": _unary(math.erf, lambda x, y: 2.0 / _ROOT_PI * math.exp(-x * x)),
    "erfc": _unary(math.erfc, lambda x, y: -2.0 / _ROOT_PI * math.exp(-x * x)),
    "fabs": _ABS,
}

_OF_MATH = ONE_NUMBER | {"atan2": _ATAN2, "hypot": _HYPOT, "pow": OPERATORS[operator.pow]}
_OF_NUMPY = {name.replace("a", "arc", 1) if name[0] == "a" else name: f for name, f in _OF_MATH.items()} | {
    "abs": _ABS,
    "absolute": _ABS,
    "power": OPERATORS[operator.pow],
    "minimum": _MIN,
    "maximum": _MAX,
}


def _module(original: ModuleType, changed: dict[str, Any]) -> ModuleType:
    module = ModuleType(original.__name__)
    vars(module).update(vars(original))
    vars(module).update({name: function for name, function in changed.items() if hasattr(original, name)})
    return module


MODULES = {math: _module(math, _OF_MATH), np: _module(np, _OF_NUMPY)}
FUNCTIONS: dict[Any, Any] = {
    getattr(original, name): function
    for original, changed in ((math, _OF_MATH), (np, _OF_NUMPY))
    for name, function in changed.items()
    if hasattr(original, name)
} | {abs: _ABS, min: _smallest(_MIN, min), max: _smallest(_MAX, max), pow: OPERATORS[operator.pow]}


@register_pass(mutates_CFG=False, analysis_only=False)
class Perturbing(FunctionPass):  # type: ignore[misc]
    """Gives operators and functions their meaning for numbers with a perturbation."""

    _name = "dae_sdc_perturbing"
    compiled: ClassVar[dict[Any, Any]] = {}

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Replace operators, and what the function refers to."""
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(numba_ir.Assign):
                value = statement.value
                if isinstance(value, numba_ir.Global | numba_ir.FreeVar):
                    value.value = self.replaced(value.value)
                elif isinstance(value, numba_ir.Expr) and value.op in ("binop", "inplace_binop"):
                    if value.fn in OPERATORS:
                        value.fn = value.immutable_fn = OPERATORS[value.fn]
        return True

    def replaced(self, value: Any) -> Any:
        """What takes the place of a global or captured value; what numba has compiled is compiled anew."""
        if isinstance(value, ModuleType):
            return MODULES.get(value, value)
        plain = value.py_func if isinstance(value, Dispatcher) else value
        if plain is value and not is_inlined(value):
            return FUNCTIONS.get(value, value) if callable(value) and isinstance(value, Hashable) else value
        if plain not in self.compiled:
            self.compiled[plain] = inner(plain, pipeline_class=PerturbedCompiler)
        return self.compiled[plain]


class PerturbedCompiler(compiling.LinkedCompiler):
    """numba's compiler with :class:`Perturbing`."""

    step = Perturbing


# --- the Jacobian's kernel ------------------------------------------------------------------------


@intrinsic
def address_in(context: Any, number: Any) -> Any:
    """The address that is stored in the bits of a double."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


def _jacobian(t: float, u: Any, du: Any, c: float, p: Any, out: Any) -> None:
    """dF/du' + c dF/du from the derivatives of F along (c, 1) in the plane of u_j and u'_j."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    own = workspace_at(address_in(p[-1]))
    n, first, work = own.n, own.first, own.work
    value, slope, found = doubles(work), doubles(work + 16 * n), doubles(work + 32 * n)
    for i in range(n):
        value[2 * i], value[2 * i + 1] = u[i], 0.0
        slope[2 * i], slope[2 * i + 1] = du[i], 0.0
    starts, columns = integers(own.starts), integers(own.columns)
    begins, rows = integers(first), integers(own.rows)
    for k in range(own.groups):
        for at in range(starts[k], starts[k + 1]):
            j = columns[at]
            value[2 * j + 1], slope[2 * j + 1] = c * STEP, STEP
        call_residual(own.residual, t, work, work + 16 * n, address_of(p), work + 32 * n)
        for at in range(starts[k], starts[k + 1]):
            j = columns[at]
            value[2 * j + 1] = slope[2 * j + 1] = 0.0
            if first == 0:
                for i in range(n):
                    out[i * n + j] = found[2 * i + 1] / STEP
            else:
                for entry in range(begins[j], begins[j + 1]):
                    out[entry] = found[2 * rows[entry] + 1] / STEP
    if first == 0:
        return
    # An entry that the pattern lacks spoils that of another column of its group. It shows in the derivative
    # along a direction with all unknowns, which must be what the entries add up to.
    total, size = doubles(work + 48 * n), doubles(work + 56 * n)
    for i in range(n):
        total[i] = size[i] = 0.0
    for j in range(n):
        weight = 1.0 + (0.6180339887498949 * j) % 1.0
        value[2 * j + 1], slope[2 * j + 1] = weight * c * STEP, weight * STEP
        for entry in range(begins[j], begins[j + 1]):
            total[rows[entry]] += weight * out[entry]
            size[rows[entry]] += weight * abs(out[entry])
    call_residual(own.residual, t, work, work + 16 * n, address_of(p), work + 32 * n)
    for i in range(n):
        if abs(found[2 * i + 1] / STEP - total[i]) > SUSPICIOUS_ERROR * size[i]:
            own.outside = i


C_FUNCTIONS = compiling.c_functions({"jacobian": (_jacobian, compiling.SIGNATURES["jacobian"])})
"""The Jacobian's kernel of every problem that takes complex steps."""
