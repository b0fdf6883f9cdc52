"""Scalars and arrays of expressions that NumPy and Python accept in place of numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple, cast

import numpy as np

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import MOVING, Op
from dae_sdc.expressions.graph import Graph
from dae_sdc.model.tables import LookupTable

LARGEST_SOLVE: Final = 12  # Most rows of linear systems of expressions, which elimination solves.


class Untraceable(BaseException):
    """An operation on a symbol has no expression. No ``except Exception`` of the user's code catches this."""


# Function that gives the truth value of an expression on which a traced function branches, or None.
CONDITIONS: Final[ContextVar[Callable[[Scalar], bool] | None]] = ContextVar("CONDITIONS", default=None)


class NumberNeeded(BaseException):
    """An expression of parameters alone was used where a number is needed."""

    def __init__(self, parameters: set[int]) -> None:
        super().__init__(parameters)
        self.parameters = parameters


class _InNumPy:
    """What NumPy hands to this module, where one of its functions is called with it."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _function(func, args, kwargs)


class Scalar(_InNumPy):
    """An expression that is used like a number."""

    __slots__ = ("graph", "node")

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph, self.node = graph, node

    def __getattr__(self, name: str) -> Any:
        # NumPy calls methods with the names of its functions on the elements of object arrays.
        if name in _UNARY or (name in _OPERATIONS and _OPERATIONS[name].arity == 1):
            return lambda: _elementwise(name, self)
        if name in ("real", "T"):
            return self
        raise AttributeError(name)

    def __pos__(self) -> Scalar:
        return self

    conjugate = item = __pos__  # it is real, and returned as a NumPy scalar returns its number

    def __hash__(self) -> int:
        return id(self)

    def __neg__(self) -> Any:
        return _elementwise("negative", self)

    def __abs__(self) -> Any:
        return _elementwise("absolute", self)

    def __bool__(self) -> bool:
        outcome = CONDITIONS.get()
        if outcome is not None and self.graph.mark[self.node] & MOVING:
            return outcome(self)
        return bool(self._number("branches on a value"))

    def __float__(self) -> float:
        return self._number("needs a number and has an expression of the unknowns")

    def __complex__(self) -> complex:
        return complex(float(self))

    def __int__(self) -> int:
        return int(float(self))

    __index__ = __trunc__ = __int__

    def __round__(self, digits: int | None = None) -> float:
        return round(float(self), digits)

    def _number(self, reason: str) -> float:
        if self.graph.mark[self.node] & MOVING:
            raise Untraceable(reason)
        parameters = {leaf.index for leaf in self.graph.leaves_of(self.node)}
        if parameters:
            raise NumberNeeded(parameters)
        return float(self.graph.numeric([self.node], lambda leaf: math.nan)[0])


def _operators(short: str, name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    order = getattr(operator, short) if short in ("lt", "le", "gt", "ge") else None

    def forward(self: Scalar, other: Any) -> Any:
        if order is not None and isinstance(other, float) and math.isinf(other):
            return order(0.0, other)  # as for every number
        return _elementwise(name, self, other) if _is_scalar(other) else NotImplemented

    def backward(self: Scalar, other: Any) -> Any:
        return _elementwise(name, other, self) if _is_scalar(other) else NotImplemented

    return forward, backward


_OPERATORS: Final = {
    **{"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power"},
    **{"mod": "remainder", "floordiv": "floor_divide", "and": "logical_and", "or": "logical_or"},
    **{"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"},
    **{"eq": "equal", "ne": "not_equal"},
}
for _short, _long in _OPERATORS.items():
    _forward, _backward = _operators(_short, _long)
    setattr(Scalar, f"__{_short}__", _forward)
    if _short not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Scalar, f"__r{_short}__", _backward)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, Scalar | int | float | np.number | np.bool_ | Fraction)


def node_of(graph: Graph, value: Any) -> int:
    """The node of a scalar or number."""
    if isinstance(value, Scalar):
        return value.node
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return node_of(graph, value[()])
    if not _is_scalar(value):
        raise Untraceable(f"has {type(value).__name__} in the place of a number")
    number = value if isinstance(value, int | Fraction) else float(value)
    if isinstance(number, float) and not math.isfinite(number):
        raise Untraceable(f"computes with {number}")
    return graph.constant(int(number) if isinstance(number, bool) else number)


# The functions of NumPy, by their names, that are operations of the graph.
_OPERATIONS: Final[dict[str, Op]] = {
    **{op.numpy.__name__: op for op in Op if isinstance(op.numpy, np.ufunc)},
    **{"fabs": Op.ABS, "float_power": Op.POW, "where": Op.SELECT, "less": Op.LT, "less_equal": Op.LE},
    **{"maximum": Op.MAX, "fmax": Op.MAX, "minimum": Op.MIN, "fmin": Op.MIN},
}
_UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("positive", "conjugate"), lambda x: x),
    **dict.fromkeys(("deg2rad", "radians"), lambda x: x * (math.pi / 180.0)),
    **dict.fromkeys(("rad2deg", "degrees"), lambda x: x * (180.0 / math.pi)),
    "square": lambda x: x**2,
    "reciprocal": lambda x: 1 / x,
    "ceil": lambda x: -(-x).floor(),
    "exp2": lambda x: 2**x,
    "log2": lambda x: x.log() / math.log(2.0),
    "log10": lambda x: x.log() / math.log(10.0),
    "log1p": lambda x: (1 + x).log(),
    "expm1": lambda x: 2 * (x / 2).sinh() * (x / 2).exp(),  # exp(x) - 1 loses the digits of a small x
    "cbrt": lambda x: x.sign() * abs(x) ** Fraction(1, 3),
    "logical_not": lambda x: _elementwise("where", x, 0, 1),
    "expit": lambda x: (1 + (x / 2).tanh()) / 2,
}
_OTHERS: Final[dict[str, Callable[..., Any]]] = {
    "subtract": lambda a, b: Scalar(a.graph, a.graph.sub(a.node, b.node)),
    "greater": lambda a, b: b < a,
    "greater_equal": lambda a, b: b <= a,
    "equal": lambda a, b: (a <= b) & (b <= a),
    "not_equal": lambda a, b: (a == b).logical_not(),
    **dict.fromkeys(
        ("logical_and", "bitwise_and"),
        lambda a, b: _elementwise("where", a, _elementwise("where", b, 1, 0), 0),
    ),
    **dict.fromkeys(
        ("logical_or", "bitwise_or"), lambda a, b: (a.logical_not() & b.logical_not()).logical_not()
    ),
    "hypot": lambda a, b: (a**2 + b**2).sqrt(),
    "floor_divide": lambda a, b: (a / b).floor(),
    "remainder": lambda a, b: a - b * (a // b),
    "copysign": lambda a, b: _elementwise("where", b < 0, -abs(a), abs(a)),
    "logaddexp": lambda a, b: _elementwise("maximum", a, b) + (1 + (-abs(a - b)).exp()).log(),
    "heaviside": lambda x, middle: _elementwise(
        "where", x < 0, 0, _elementwise("where", _elementwise("less", 0, x), 1, middle)
    ),
    "clip": lambda x, low, high: _elementwise("minimum", _elementwise("maximum", x, low), high),
}


def _elementwise(name: str, *values: Any) -> Any:
    """Value of a NumPy function, given by its name, of scalars; a number if all of them are."""
    symbol = next((value for value in values if isinstance(value, Scalar)), None)
    if symbol is None:
        if name == "expit":  # no function of NumPy
            return 0.5 + 0.5 * math.tanh(0.5 * values[0])
        result = getattr(np, name)(*values)
        return result.item() if isinstance(result, np.generic | np.ndarray) else result
    graph = symbol.graph
    if name in _OPERATIONS:
        return Scalar(graph, graph.call(_OPERATIONS[name], *(node_of(graph, value) for value in values)))
    function = _UNARY.get(name) or _OTHERS.get(name)
    if function is None:
        raise Untraceable(f"calls {name}, which has no expression")
    return function(*(Scalar(graph, node_of(graph, value)) for value in values))


def array_of(values: Any) -> SymbolArray:
    """An array of scalars and numbers from lists, arrays or scalars."""
    return np.asarray(_plain(values), dtype=object).view(SymbolArray)


def _plain(value: Any) -> Any:
    """A value as a plain NumPy object, on which NumPy does not call the methods of these classes."""
    if isinstance(value, Scalar):
        box = np.empty((), dtype=object)
        box[()] = value
        return box
    return value.view(np.ndarray) if isinstance(value, SymbolArray) else value


def has_symbols(value: Any, depth: int = 4) -> bool:
    """Whether a value is an expression, or a list or array that contains one."""
    if isinstance(value, Scalar):
        return True
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(isinstance(entry, Scalar) for entry in value.flat)
    return bool(
        depth and isinstance(value, list | tuple) and any(has_symbols(entry, depth - 1) for entry in value)
    )


def _part(entries: Callable[[int], slice]) -> Any:
    """A part of a state, the differential or the algebraic unknowns, as an attribute that can be set."""

    def view(state: SymbolArray) -> Any:
        if state.n_diff is None:
            raise AttributeError("an array cut from a state has no differential and algebraic part")
        return state[entries(state.n_diff)]

    return property(view, lambda state, values: view(state).__setitem__(..., values))


class SymbolArray(_InNumPy, np.ndarray[Any, Any]):
    """An array whose entries are expressions or numbers."""

    n_diff: int | None = None

    def __array_finalize__(self, other: Any) -> None:
        if isinstance(other, SymbolArray) and other.shape == self.shape:
            self.n_diff = other.n_diff

    diff, alg = _part(slice), _part(lambda n_diff: slice(n_diff, None))

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """A copy with another type of numbers; expressions have no other type."""
        if has_symbols(self):
            return self.copy()
        return self.view(np.ndarray).astype(dtype, *args, **kwargs)


def _ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = kwargs.pop("out", None)
    if kwargs.pop("where", True) is not True:
        raise Untraceable("calls a function with where=")
    plain, name = _objects(inputs), ufunc.__name__
    identity = {"add": 0.0, "multiply": 1.0}.get(name)
    function = np.frompyfunc(lambda *x: _elementwise(name, *x), ufunc.nin, 1, identity=identity)
    if ufunc is np.matmul:
        result = np.matmul(*plain)
    elif method == "__call__":
        result = function(*plain)
    elif ufunc.nin > 1 and method == "outer":
        result = function.outer(*plain)
    elif ufunc.nin > 1 and method in ("reduce", "accumulate"):
        options = {key: kwargs[key] for key in ("axis", "keepdims", "initial") if key in kwargs}
        positions = [int(value) for value in inputs[1:]]
        result = getattr(function, method)(plain[0], *positions, **options)
    else:
        raise Untraceable(f"calls {name}.{method}")
    if out is not None:
        if out[0].dtype != object and has_symbols(np.asarray(result, dtype=object)):
            raise Untraceable("writes expressions of the unknowns into an array of numbers")
        out[0][...] = result
        return out[0]
    return _wrapped(result, inputs)


def _wrapped(result: Any, inputs: Any = ()) -> Any:
    if isinstance(result, np.ndarray) and result.dtype == object:
        if result.ndim == 0:
            return result[()]
        array = result.view(SymbolArray)
        for value in inputs:
            if isinstance(value, SymbolArray) and value.shape == array.shape and value.n_diff is not None:
                array.n_diff = value.n_diff
        return array
    return result


def _function(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    substitute = _FUNCTIONS.get(func)
    if substitute is not None:
        return substitute(*args, **kwargs)
    implementation = getattr(func, "_implementation", None)
    if implementation is None:
        raise Untraceable(f"calls {func.__name__}, which has no expression")
    boxed = [_boxed(value) for value in args]
    return _wrapped(implementation(*boxed, **{key: _boxed(value) for key, value in kwargs.items()}))


def _boxed(value: Any) -> Any:
    if isinstance(value, Scalar):
        return array_of(value)
    if isinstance(value, list | tuple) and any(isinstance(entry, Scalar | list | tuple) for entry in value):
        return type(value)(map(_boxed, value))
    return value


def _where(condition: Any, *branches: Any) -> Any:
    if len(branches) != 2:
        raise Untraceable("looks for the entries where something is true")
    plain = _objects((condition, *branches))
    return _wrapped(np.frompyfunc(lambda *x: _elementwise("where", *x), 3, 1)(*plain))


def _clip(a: Any, a_min: Any = None, a_max: Any = None, **kwargs: Any) -> Any:
    low, high = kwargs.get("min", a_min), kwargs.get("max", a_max)
    a = a if low is None else np.maximum(a, low)
    return a if high is None else np.minimum(a, high)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    array: Any = array_of(x)
    over: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if array.ndim > 1 and axis is None and ord not in (None, "fro"):
        raise Untraceable("takes a norm of a matrix")
    if ord in (None, 2, "fro"):
        return np.sqrt(np.add.reduce(np.square(array), **over))
    if ord == 1:
        return np.add.reduce(np.absolute(array), **over)
    if ord == np.inf and array.ndim == 1:
        return np.maximum.reduce(np.absolute(array), **over)
    raise Untraceable(f"takes a norm of order {ord}")


def _eliminated(a: Any, b: Any) -> tuple[Any, Any]:
    """The solution of a small linear system by elimination, and the determinant of its matrix."""
    matrix, right = np.array(_plain(a), dtype=object), np.array(_plain(b), dtype=object)
    n = len(matrix)
    if matrix.shape != (n, n) or n > LARGEST_SOLVE:
        raise Untraceable(f"solves a linear system of {n} equations")
    columns = right.reshape(n, -1)
    determinant: Any = 1.0
    for k in range(n):
        row = max(range(k, n), key=lambda i: _pivot(matrix[i, k]))
        if _pivot(matrix[row, k]) < 0.0:
            raise Untraceable("solves a singular linear system")
        if row != k:
            matrix[[k, row]], columns[[k, row]] = matrix[[row, k]], columns[[row, k]]
            determinant = -determinant
        determinant = determinant * matrix[k, k]
        for i in range(k + 1, n):
            factor = matrix[i, k] / matrix[k, k]
            matrix[i, k:] = matrix[i, k:] - factor * matrix[k, k:]
            columns[i] = columns[i] - factor * columns[k]
    for k in reversed(range(n)):
        for j in range(k + 1, n):
            columns[k] = columns[k] - matrix[k, j] * columns[j]
        columns[k] = columns[k] / matrix[k, k]
    return _wrapped(columns.reshape(right.shape)), determinant


def _pivot(value: Any) -> float:
    """Rank of a pivot: its size; small for an expression, which may vanish; negative for 0."""
    if isinstance(value, Scalar):
        number = value.graph.numbers.get(value.node)
        if number is None or isinstance(number, str):
            return 1e-12
        value = float(number)
    return abs(float(value)) or -1.0


def _objects(values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(_plain(value), dtype=object) for value in values]


def _interp(x: Any, xp: Any, fp: Any, **beyond: Any) -> Any:
    if beyond or has_symbols(xp) or has_symbols(fp):
        raise Untraceable("reads a table that changes, or that has other values beyond its ends")
    try:
        return LookupTable(xp, fp)(x)
    except InputError as error:
        raise Untraceable(f"reads a table: {error}") from None


_FUNCTIONS: Final[dict[Any, Callable[..., Any]]] = {
    np.where: _where,
    np.clip: _clip,
    np.einsum: lambda subscripts, *operands, **kwargs: _wrapped(
        np.einsum(subscripts, *_objects(operands), optimize=False)
    ),
    np.linalg.norm: _norm,
    np.linalg.solve: lambda a, b: _eliminated(a, b)[0],
    np.linalg.inv: lambda a: _eliminated(a, np.eye(len(a)))[0],
    np.linalg.det: lambda a: _eliminated(a, np.zeros(len(a)))[1],
    np.interp: _interp,
    np.shape: lambda a: np.shape(_plain(a)),
    np.ndim: lambda a: np.ndim(_plain(a)),
    np.size: lambda a, axis=None: np.size(_plain(a), axis),
}


def entries_of(values: Any) -> list[Any]:
    """The entries of what a residual returned, in one row."""
    if isinstance(values, list | tuple):
        return [entry for value in values for entry in entries_of(value)]
    return list(np.asarray(_plain(values), dtype=object).ravel())


MOST_PATHS_OF_CALL: Final = 32  # Largest number of paths through the branches of one call of a function.
MOST_PATHS: Final = 10_000  # Largest number of paths through all calls of a function.
_NUMBERS: Final = (Scalar, int, float, np.number, np.bool_)


class Unmergeable(Exception):
    """The results of two paths cannot be merged into one expression."""


class _HalfLine(NamedTuple):
    """The half-line on which a comparison of an expression with a number is true."""

    expression: int
    upward: bool
    end: Fraction
    closed: bool

    def contrary(self) -> _HalfLine:
        return self._replace(upward=not self.upward, closed=not self.closed)

    def decides(self, other: _HalfLine) -> bool | None:
        """True if all its points are in ``other``, False if none is, None if some are or it is not known."""
        if self.expression != other.expression:
            return None
        within = self.end > other.end if self.upward else self.end < other.end
        if self.upward is other.upward:
            return True if within or (self.end == other.end and self.closed <= other.closed) else None
        return False if within or (self.end == other.end and not (self.closed and other.closed)) else None


@dataclass
class ExecutionPaths:
    """Paths through the branches of a function, whose results are merged into one expression per value."""

    # Where Python takes the truth value of an expression, the first call proceeds with True. Further calls
    # take the other branches, and the results are merged with the conditions as by ``numpy.where``.

    graph: Graph  # Graph of the expressions.
    count: int = 0  # Number of paths taken so far.
    branches: bool = False  # Whether any branch depends on the value of an expression.
    _under_way: list[tuple[dict[int, bool], Iterator[int]]] = field(default_factory=list)

    def of_function(self, call: Callable[[], Any]) -> Any:
        """The merged result of a call over all its paths."""
        before = CONDITIONS.set(self._outcome)
        try:
            return self._from(call, {}, iter(range(1, MOST_PATHS_OF_CALL)))
        finally:
            CONDITIONS.reset(before)

    def of_call(self, call: Callable[[], Any], arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
        """The merged result of a call inside the function; if it cannot be merged, the call is repeated."""
        before = [(array, array.copy()) for array in arrays]
        path: dict[int, bool] = {}

        def called() -> Any:
            value = call()
            if self._under_way[-1][0] and any(now.tobytes() != then.tobytes() for now, then in before):
                raise Unmergeable("arrays that change on one of its paths")
            return value

        try:
            return self._from(called, path, iter(range(1, MOST_PATHS_OF_CALL)))
        except Exception:
            if not path:
                raise
            for array, values in before:
                array[...] = values
            return call()

    def _from(self, call: Callable[[], Any], path: dict[int, bool], left: Iterator[int]) -> Any:
        """The merged result of a call over all paths on which conditions have the values in ``path``."""
        self.count += 1
        decided = len(path)
        self._under_way.append((path, left))
        try:
            value = call()
        finally:
            self._under_way.pop()
        asked = list(path)
        for k in reversed(range(decided, len(asked))):
            other = {condition: path[condition] for condition in asked[:k]} | {asked[k]: False}
            value = self._merged(asked[k], value, self._from(call, other, left))
        return value

    def _outcome(self, condition: Scalar) -> bool:
        node, true = self._normal(condition.node)
        number = self.graph.numbers.get(node)
        known = self._known(node) if number is None else number != 0
        if known is None:
            path, left = self._under_way[-1]
            if next(left, None) is None or self.count > MOST_PATHS:
                raise Untraceable(f"branches on values in more than {MOST_PATHS_OF_CALL} ways")
            self.branches = known = path[node] = True
        return known is true

    def _normal(self, node: int) -> tuple[int, bool]:
        """The condition without negations; False if it is the negation of the given one, else True."""
        graph, true = self.graph, True
        while graph.op[node] is Op.SELECT and graph.args[node][1:] == (graph.zero, graph.one):
            node, true = graph.args[node][0], not true
        if graph.op[node] is Op.LT:
            a, b = graph.args[node]
            return graph.call(Op.LE, b, a), not true
        return node, true

    def _known(self, node: int) -> bool | None:
        """Truth value of a condition by earlier ones on the path; None if it does not follow from them."""
        asked = self._half_line(node)
        for path, _ in self._under_way:
            if node in path:
                return path[node]
            for other, outcome in path.items() if asked else ():
                line = self._half_line(other)
                told = line and (line if outcome else line.contrary()).decides(cast(_HalfLine, asked))
                if told is not None:
                    return told
        return None

    def _half_line(self, node: int) -> _HalfLine | None:
        """The half-line of a comparison with a number; None for other conditions."""
        if self.graph.op[node] is not Op.LE:
            return None
        numbers = [self.graph.numbers.get(arg) for arg in self.graph.args[node]]
        for side, number in enumerate(numbers):
            if isinstance(number, Fraction):
                return _HalfLine(self.graph.args[node][1 - side], side == 0, number, True)
        return None

    def _merged(self, condition: int, one: Any, other: Any) -> Any:
        """``one`` where a condition is true, else ``other``, entry by entry."""
        if one is other:
            return one
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.shape == other.shape:
            pairs = zip(one.ravel().tolist(), other.ravel().tolist(), strict=True)
            merged = np.empty(one.size, dtype=object)
            merged[:] = [self._merged(condition, *pair) for pair in pairs]
            return merged.reshape(one.shape).view(SymbolArray)
        if type(one) is type(other) and isinstance(one, list | tuple) and len(one) == len(other):
            parts = [self._merged(condition, *pair) for pair in zip(one, other, strict=True)]
            return type(one)(*parts) if hasattr(one, "_fields") else type(one)(parts)
        for value in (one, other):
            if not isinstance(value, _NUMBERS):
                raise Unmergeable(f"{type(value).__name__} on one of its paths")
        if all(isinstance(value, int | np.integer | np.bool_) for value in (one, other)):
            if one == other:
                return one
            raise Unmergeable("whole numbers that differ on its paths")
        nodes = [node_of(self.graph, value) for value in (one, other)]
        return Scalar(self.graph, self.graph.call(Op.SELECT, condition, *nodes))
