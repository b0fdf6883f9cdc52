"""Copies of functions in plain Python that compute with expressions instead of numbers."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import random
import sys
from collections import deque
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

import numpy as np
import scipy.sparse as sparse
from pySDC.core.problem import Problem

from dae_sdc.dae.adapter import AdaptedProblem
from dae_sdc.dae.memory import codes_of
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import StateShape
from dae_sdc.model.symbolic_values import (
    ExecutionPaths,
    Scalar,
    SymbolArray,
    Untraceable,
    array_of,
    has_symbols,
)
from dae_sdc.model.tables import LookupTable

# Top-level modules whose functions return the same for the same arguments at all times.
CONSTANT_MODULES: Final = frozenset(
    {"numpy", "scipy", "math", "cmath", "builtins", "operator", "functools", "itertools", "collections"}
    | {"typing", "fractions", "numbers", "dataclasses", "sympy", "dae_sdc", "__future__"}
)
# Built-in names by which a function can read what is not noted.
UNSEEN: Final = frozenset(
    {"eval", "exec", "compile", "globals", "locals", "vars", "input", "id", "__class__", "__dict__"}
)
DEEPEST: Final = 8  # Lists and mappings inside one another that are looked into.

_NUMBERS: Final = (type(None), bool, int, float, complex, str, bytes, np.generic, StateShape)
_BUILT_IN: Final = (BuiltinFunctionType, np.ufunc, type(np.sum), LookupTable)
_PARTS: Final = {MethodType: ("__func__", "__self__"), functools.partial: ("func", "args", "keywords")}
_ARRAYS: Final = ("data", "indices", "indptr", "shape")

MISSING: Final = object()  # Stands for a global name that does not exist, or for what is in an empty cell.


def _in_cell(function: Any, place: int) -> Any:
    try:
        return function.__closure__[place].cell_contents
    except ValueError:
        return MISSING


_FETCH: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "attribute": getattr,
    "static": lambda owner, name: next(vars(c)[name] for c in type(owner).__mro__ if name in vars(c)),
    "global": lambda function, name: function.__globals__.get(name, MISSING),
    "cell": _in_cell,
    "item": lambda owner, key: owner[key],
    "module": lambda owner, name: sys.modules[name],
}


class Reads:
    """What a function read, compared by contents, and functions by their code and their own reads."""

    def __init__(self, root: Any, is_plain: Callable[[Any], bool]) -> None:
        self.complete = True
        self._is_plain = is_plain
        self._values = [root]  # kept, so that their ids stay theirs
        self._slots = {id(root): 0}
        self._places: list[tuple[int, str, Any, int | Callable[[Any], bool]]] = []
        self._noted: set[tuple[int, str, Any]] = set()

    def note(self, owner: Any, kind: str, name: Any, value: Any, depth: int = 0) -> None:
        """Note what was read from something that was read before."""
        slot = self._slots.get(id(owner))
        if slot is None or depth > DEEPEST or (kind == "global" and name in UNSEEN):
            self.complete = False
        if not self.complete or slot is None or (slot, kind, name) in self._noted:
            return
        self._noted.add((slot, kind, name))
        known = self._slots.get(id(value))
        same, parts = (known, ()) if known is not None else self._compared(value)
        if same is None:
            self.complete = False
            return
        self._places.append((slot, kind, name, same))
        self._values.append(value)
        if known is None and not isinstance(value, _NUMBERS):
            self._slots[id(value)] = len(self._places)
        for part_kind, part in parts:
            self.note(value, part_kind, part, _FETCH[part_kind](value, part), depth + 1)

    def seal(self) -> None:
        """Let go of what was read; nothing more can be noted."""
        self._values, self._slots, self._noted = [], {}, set()

    def unchanged(self, root: Any) -> bool:
        """Whether all that the function of a problem would read is as it was."""
        values = [root]
        for slot, kind, name, same in self._places:
            try:
                value = _FETCH[kind](values[slot], name)
            except Exception:  # there is no such place any more
                return False
            if not (value is values[same] if isinstance(same, int) else same(value)):
                return False
            values.append(value)
        return True

    def _compared(self, value: Any) -> tuple[Callable[[Any], bool] | None, Any]:
        """Whether another value is the same, and the places in it that are noted too; None if unknown."""
        kind = type(value)
        if isinstance(value, Scalar):  # the symbol of an attribute, whose number does not matter
            return lambda now: type(now) is float, ()
        if isinstance(value, _NUMBERS):
            return lambda now: type(now) is kind and bool(now == value or (now != now and value != value)), ()
        if isinstance(value, np.ndarray):
            return (None if value.dtype.hasobject else functools.partial(_same_array, value.copy())), ()
        if kind in (list, tuple) and all(isinstance(entry, _NUMBERS) for entry in value):
            before, kinds = [*value], [*map(type, value)]
            return lambda now: type(now) is kind and [*now] == before and [*map(type, now)] == kinds, ()
        if kind in (list, tuple, dict):
            size, keys = len(value), value if kind is dict else range(len(value))
            return lambda now: type(now) is kind and len(now) == size, [("item", key) for key in keys]
        if isinstance(value, property):
            return lambda now: now is value, [("attribute", "fget")]
        if isinstance(value, FunctionType) and _is_constant(value):
            code = value.__code__
            return lambda now: isinstance(now, FunctionType) and now.__code__ == code, ()
        if value is MISSING or isinstance(value, (*_BUILT_IN, type, ModuleType, FunctionType)):
            return ((lambda now: now is value) if _is_constant(value) else None), ()
        names = _PARTS.get(kind)
        if sparse.issparse(value) and all(hasattr(value, name) for name in _ARRAYS):
            names = _ARRAYS
        if names is None:
            around = (name for name in ("py_func", "__wrapped__"))
            names = tuple(name for name in around if isinstance(getattr(value, name, None), FunctionType))[:1]
        plain = bool(names) or self._is_plain(value)
        return ((lambda now: type(now) is kind) if plain else None), [("attribute", name) for name in names]


def _root_of(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _is_constant(value: Any) -> bool:
    """Whether what a built-in function, class or module does or holds stays, or is noted when it is read."""
    if isinstance(value, ModuleType | FunctionType):
        root = _root_of(value.__name__ if isinstance(value, ModuleType) else value.__module__)
        return root in CONSTANT_MODULES or root not in sys.stdlib_module_names
    if isinstance(value, BuiltinFunctionType):
        own = isinstance(value.__self__, ModuleType | None) and value.__name__ not in UNSEEN
        return own and _root_of(value.__module__) in CONSTANT_MODULES
    return True


def _same_array(before: Any, now: Any) -> bool:
    alike = type(now) is type(before) and (now.dtype, now.shape) == (before.dtype, before.shape)
    return alike and np.array_equal(now, before, equal_nan=now.dtype.kind in "fc")


# Top-level modules whose functions are called without being copied.
FOREIGN: Final = frozenset({*sys.stdlib_module_names, "numpy", "scipy", "sympy", "pandas", "numba", "pySDC"})
# Where pySDC keeps problems, whose functions are copied as those of a user.
PROJECTS: Final = "pySDC.projects."
# Functions of :mod:`math`, and the names of the NumPy functions that replace them.
_MATH: Final = {
    **{name: name for name in "sqrt cbrt exp exp2 expm1 log2 log10 log1p sin cos tan sinh cosh tanh".split()},
    **{name: name for name in "floor ceil fabs copysign degrees radians".split()},
    **{f"a{name}": f"arc{name}" for name in "sin cos tan sinh cosh tanh".split()},
    "atan2": "arctan2",
    "pow": "power",
}

_CONSTRUCTORS: Final = tuple(
    f"{name}{like}" for name in ("zeros", "empty", "ones", "full") for like in ("", "_like")
)
_CONVERSIONS: Final = ("array", "asarray", "asanyarray", "ascontiguousarray", "float64", "copy")
_READERS: Final = ("load", "loadtxt", "genfromtxt", "fromfile", "memmap")


def parameter_names(problem: ProblemDAE) -> list[str]:
    """Names of the public float attributes of a problem, without those that every problem has."""
    owner: Any = problem.original if isinstance(problem, AdaptedProblem) else problem
    own = vars(owner) if owner is problem else (*vars(owner), *owner.params)
    names = [name for name in own if name not in _OF_EVERY_PROBLEM]
    for cls in type(problem).__mro__ if owner is problem else ():
        if issubclass(cls, ProblemDAE) and cls is not ProblemDAE:
            names += [name for name in vars(cls) if name not in names and not hasattr(ProblemDAE, name)]
    value = inspect.getattr_static if owner is problem else getattr
    return [name for name in names if name[0] != "_" and isinstance(value(owner, name), float)]


_OF_EVERY_PROBLEM: Final = {"newton_tol", "dt", "nominal", "interval"}


class Retargeting:
    """Copies of functions that run the same code with substitutes for what accepts numbers only."""

    def __init__(
        self, problem: ProblemDAE, symbol: Callable[[str], Scalar | None], paths: ExecutionPaths
    ) -> None:
        self.paths = paths
        self.codes: set[CodeType] = set()
        self.reads = Reads(problem, _is_plain_object)
        self._copies: dict[int, tuple[Any, Any]] = {}  # the originals are kept, so that ids stay unique
        self._seen: dict[int, tuple[Any, Any]] = {}
        self._spaces: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._cells: list[tuple[CellType, Any]] = []
        self._by_id: dict[int, _Substitute] = {id(module): _Module(self, module) for module in (np, math)}
        self._by_id |= dict.fromkeys((id(random), id(np.random)), _Refused("reads random numbers"))
        self._substitutes = _substitutes()
        self._builtins = {
            **vars(builtins),
            "super": functools.partial(_super, self),
            "max": _extreme(max, np.maximum),
            "min": _extreme(min, np.minimum),
            "print": _Refused("prints, which equations do not"),
            "float": _Float,
            "open": _Refused("reads a file"),
            "__import__": self._imported,
        }
        self._root = problem
        self.problem = _Object(self, problem, symbol)
        if isinstance(problem, AdaptedProblem):
            self._kept(problem.original, _Object(self, problem.original, symbol))

    # Substitutes

    def _imported(self, *args: Any, **kwargs: Any) -> Any:
        module = builtins.__import__(*args, **kwargs)
        self.reads.note(self._root, "module", module.__name__, module)
        return self.of(module)

    def of(self, value: Any) -> Any:
        """The substitute of a value; most values are their own."""
        known = self._by_id.get(id(value)) or self._substitutes.get(id(value)) or self._copies.get(id(value))
        if known is not None:
            return known[1] if isinstance(known, tuple) else known
        if id(value) not in self._seen and isinstance(value, list | dict | set | deque | np.ndarray):
            if not (isinstance(value, np.ndarray) and not value.flags.writeable):
                self._seen[id(value)] = value, value.copy()
        if type(value) in (np.ndarray, float, int, str):  # of which mappings and lists may have many
            return value
        if isinstance(value, ModuleType):
            root = value.__name__.partition(".")[0]
            return value if root in FOREIGN and root != "numpy" else _Module(self, value)
        compiled = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
        if isinstance(value, FunctionType):
            return self.function(_unguarded(value, self.reads))
        is_class = isinstance(value, type) and type(value) is not _FloatType
        if is_class and not _is_foreign(value, _NOT_OF_USERS):
            return self._kept(value, _Class(self, value))
        # Functions of the kinds that numba and functools make.
        if isinstance(compiled, FunctionType) and not _is_foreign(compiled):
            return self.function(compiled)
        if isinstance(value, MethodType):
            return MethodType(self.of(value.__func__), self.of(value.__self__))
        if isinstance(value, functools.partial):
            args = [self.of(part) for part in value.args]
            return functools.partial(
                self.of(value.func), *args, **{key: self.of(part) for key, part in value.keywords.items()}
            )
        if sparse.issparse(value):
            return self._kept(value, _Sparse(value))
        if type(value) in (list, tuple):
            parts = [self.of(part) for part in value]
            same = all(new is old for new, old in zip(parts, value, strict=True))
            return value if same else (parts if isinstance(value, list) else tuple(parts))
        if type(value) is dict:
            entries = {key: self.of(part) for key, part in value.items()}
            return value if all(entries[key] is value[key] for key in value) else entries
        if _is_plain_object(value):
            return self._kept(value, _Object(self, value, {}.get))
        return value

    def undo_changes(self) -> bool:
        """Whether functions have changed lists, mappings, arrays or names outside; restores the contents."""
        changed = any(
            now.get(name, MISSING) is not before[name] for now, before in self._spaces for name in before
        )
        changed = changed or any(cell.cell_contents is not before for cell, before in self._cells)
        for value, before in self._seen.values():
            if isinstance(value, np.ndarray):
                if not np.array_equal(value, before, equal_nan=value.dtype.kind in "fc"):
                    changed, value[...] = True, before
            elif _contents(value) != _contents(before):
                changed = True
                value.clear()
                value.extend(before) if hasattr(value, "extend") else value.update(before)
        return changed

    def _kept(self, original: Any, copy: Any) -> Any:
        self._copies[id(original)] = original, copy
        return copy

    def function(self, function: FunctionType) -> Any:
        """A copy of a function; functions of modules in :data:`FOREIGN` are not copied."""
        known = self._copies.get(id(function))
        if known is not None:
            return known[1]
        if _is_foreign(function):
            return function
        self.codes.update(codes_of(function.__code__))
        space: dict[str, Any] = {"__builtins__": self._builtins, "__name__": function.__module__}
        cells = tuple(type(cell)() for cell in function.__closure__ or ())
        copied = FunctionType(function.__code__, space, function.__name__, None, cells or None)
        called = self._kept(function, self._with_paths(copied))
        for name in ("__defaults__", "__kwdefaults__"):
            self.reads.note(function, "attribute", name, getattr(function, name))
            setattr(copied, name, self.of(getattr(function, name)))
        for name in {name for code in codes_of(function.__code__) for name in code.co_names}:
            value = function.__globals__.get(name, MISSING)
            self.reads.note(function, "global", name, value)
            if value is not MISSING:
                space[name] = self.of(value)
        for place, cell in enumerate(cells):
            contents = _in_cell(function, place)
            self.reads.note(function, "cell", place, contents)
            if contents is not MISSING:
                cell.cell_contents = self.of(contents)
                self._cells.append((cell, cell.cell_contents))
        self._spaces.append((space, dict(space)))
        return called

    def _with_paths(self, function: FunctionType) -> Callable[..., Any]:
        """A function whose branches are merged in its result, if it can change only arrays."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = (*args, *kwargs.values())
            if not all(map(self._is_restored, given)):
                return function(*args, **kwargs)
            arrays = [value for value in given if isinstance(value, np.ndarray) and value.flags.writeable]
            return self.paths.of_call(lambda: function(*args, **kwargs), arrays)

        return call

    def _is_restored(self, value: Any) -> bool:
        """Whether changes of an argument by a function are undone, impossible or refused."""
        if isinstance(value, tuple):
            return all(map(self._is_restored, value)) and not any(isinstance(x, np.ndarray) for x in value)
        return value is None or isinstance(value, _RESTORED) or id(value) in self._seen


@functools.cache
def _substitutes() -> dict[int, Any]:
    """What takes the places of functions of :mod:`math` and NumPy, by the ids of these."""
    pairs = ((getattr(math, name), getattr(np, other)) for name, other in _MATH.items())
    substitutes: dict[int, Any] = {id(one): _chosen(one, other) for one, other in pairs}
    substitutes[id(math.hypot)] = _chosen(math.hypot, lambda *x: np.sqrt(sum(one * one for one in x)))
    substitutes[id(math.log)] = _chosen(
        math.log, lambda x, base=None: np.log(x) if base is None else np.log(x) / np.log(base)
    )
    kinds = {_constructor: _CONSTRUCTORS, _conversion: _CONVERSIONS, _changeable: ("eye", "identity", "diag")}
    for kind, names in kinds.items():
        substitutes |= {id(getattr(np, name)): kind(getattr(np, name)) for name in names}
    return substitutes | {id(getattr(np, name)): _Refused("reads a file") for name in _READERS}


def _is_foreign(value: Any, more: frozenset[str] = frozenset()) -> bool:
    """Whether a function or class is of a module in :data:`FOREIGN` or in ``more``."""
    module = getattr(value, "__module__", "") or ""
    return module.partition(".")[0] in FOREIGN | more and not module.startswith(PROJECTS)


_NOT_OF_USERS: Final = frozenset({"builtins", "dae_sdc"})


def _is_plain_object(value: Any) -> bool:
    """Whether a value is an object of a class of the user whose methods may be called with expressions."""
    kinds = type | np.ndarray | np.ufunc | Scalar | _Substitute | _Sparse
    if isinstance(value, kinds) or _is_foreign(type(value), _NOT_OF_USERS):
        return False
    own = {name for one in type(value).__mro__[:-1] for name in vars(one)}
    return not own & {"__getitem__", "__len__", "__iter__", "__add__", "__mul__", "__getattr__"}


# Modules and objects


class _Substitute:
    """What takes a place in calls with expressions; ``_of`` is the work, and what it stands for."""

    def __init__(self, *of: Any) -> None:
        self.__dict__["_of"] = of

    def __setattr__(self, name: str, value: Any) -> None:
        what = {_Module: " of a module", _Class: " of a class"}.get(type(self), "")
        raise Untraceable(f"sets {name}{what}: state that changes between calls")


class _Module(_Substitute):
    """A module with substitutes for its functions."""

    def __getattr__(self, name: str) -> Any:
        work, module = self.__dict__["_of"]
        value = getattr(module, name)
        if module is not np and module is not math:
            work.reads.note(module, "attribute", name, value)
        found = work.of(value)
        if found is value and module.__name__.partition(".")[0] == "numpy" and callable(value):
            return value if isinstance(value, type) else _WithLists(value)
        return found


class _Refused(_Substitute):
    """What equations do not have, such as a random number, in a function that is called with expressions."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise Untraceable(*self.__dict__["_of"])

    __getattr__ = __call__


class _Object(_Substitute):
    """An object with copied methods, some of whose attributes are replaced by expressions."""

    __class__: Any = property(lambda self: type(self.__dict__["_of"][1]))  # for isinstance and super()

    def __getattr__(self, name: str) -> Any:
        work, target, symbol_of = self.__dict__["_of"]
        symbol = symbol_of(name)
        if symbol is not None:
            work.reads.note(target, "attribute", name, symbol)
            return symbol
        if isinstance(target, Problem) and name in ("dtype_u", "dtype_f"):
            return functools.partial(state_of, target)
        if name in getattr(target, "__dict__", {}):
            work.reads.note(target, "attribute", name, target.__dict__[name])
            return work.of(target.__dict__[name])
        static = inspect.getattr_static(target, name)
        if isinstance(static, property | FunctionType):
            work.reads.note(target, "static", name, static)
        found = _copied(work, static, self)
        if found is not None:
            return found
        if isinstance(static, FunctionType) and name in ("u_init", "f_init"):
            return _unguarded(static)(self)
        if isinstance(static, property) and name in ("u_init", "f_init"):
            return static.__get__(self, type(target))
        value = getattr(target, name)
        work.reads.note(target, "attribute", name, value)
        return work.of(value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__getattr__("__call__")(*args, **kwargs)


def _copied(work: Retargeting, static: Any, owner: Any) -> Any:
    """A bound copy of a method of the user, or the value of a copied property; None for anything else."""
    if isinstance(static, property) and static.fget is not None and not _of_library(static.fget):
        return work.function(cast(FunctionType, static.fget))(owner)
    if isinstance(static, FunctionType) and not _of_library(_unguarded(static)):
        return MethodType(work.function(_unguarded(static, work.reads)), owner)
    return None


class _Class(_Substitute):
    """A class of the user with copied methods."""

    def __getattr__(self, name: str) -> Any:
        work, target = self.__dict__["_of"]
        value = getattr(target, name)
        work.reads.note(target, "attribute", name, value)
        return work.of(value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        work, target = self.__dict__["_of"]
        work.reads.complete = False  # its constructor reads what it wants
        return work.of(target(*args, **kwargs))

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self.__dict__["_of"][1])


class _Super(_Substitute):
    """The object that ``super()`` returns in a copied method."""

    def __getattr__(self, name: str) -> Any:
        work, cls, owner = self.__dict__["_of"]
        work.reads.complete = False
        bases = owner.__class__.__mro__
        for base in bases[bases.index(cls) + 1 :]:
            if name in vars(base):
                found = _copied(work, vars(base)[name], owner)
                return work.of(getattr(super(cls, owner), name)) if found is None else found
        raise AttributeError(f"'super' object has no attribute '{name}'")


def _super(work: Retargeting, cls: Any = None, owner: Any = None) -> Any:
    """``super``, which finds its arguments in the calling method where none are given."""
    if cls is None:
        method = sys._getframe(1)
        cls, owner = method.f_locals["__class__"], method.f_locals[method.f_code.co_varnames[0]]
    cls = cls.__dict__["_of"][1] if type(cls) is _Class else cls
    return _Super(work, cls, owner) if type(owner) is _Object else super(cls, owner)


def _of_library(function: Any) -> bool:
    module = getattr(function, "__module__", "") or ""
    own = module.startswith(("dae_sdc.dae.", "dae_sdc.constrained.", "pySDC."))
    return own and not module.startswith(PROJECTS)


def given_by_library(problem: ProblemDAE) -> bool:
    """Whether ``eval_f`` of a problem comes from a class of the library that builds it from parts."""
    function = inspect.getattr_static(type(problem), "eval_f")
    return not isinstance(problem, AdaptedProblem) and _of_library(_unguarded(function))


def _unguarded(function: Any, reads: Reads | None = None) -> Any:
    """A method without the wrappers that classes of problems add, see :mod:`dae_sdc.dae.values`."""
    around = ("dae_sdc.dae.problem", "dae_sdc.dae.values")
    while hasattr(function, "__wrapped__") and getattr(function, "__globals__", {}).get("__name__") in around:
        if reads is not None:
            reads.note(function, "attribute", "__wrapped__", function.__wrapped__)
        function = function.__wrapped__
    return function


def _contents(value: Any) -> Any:
    """What is in a list, mapping or set, to be compared with what is in its copy."""
    if isinstance(value, dict):
        return {key: id(entry) for key, entry in value.items()}
    return set(value) if isinstance(value, set) else [*map(id, value)]


def state_of(problem: Problem, init: Any = None, val: float = 0.0, **kwargs: Any) -> SymbolArray:
    """A state of a problem, or a flattened mesh of one of pySDC's DAE project, whose parts are its halves."""
    if isinstance(init, SymbolArray):
        return init.copy()
    is_dae = isinstance(problem, ProblemDAE)
    mesh = np.empty(problem.n) if is_dae else problem.dtype_f(problem.init)
    halves = mesh.size // mesh.shape[0] if mesh.ndim == 2 else None
    state = np.full(mesh.size, val, dtype=object).view(SymbolArray)
    state.n_diff = problem.n_diff if is_dae else halves
    return state


class _Sparse:
    """A sparse matrix of numbers that can be multiplied by arrays of expressions."""

    __array_ufunc__ = None

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.matrix, name)
        return _Sparse(value) if sparse.issparse(value) else value

    def __getitem__(self, key: Any) -> Any:
        value = self.matrix[key]
        return _Sparse(value) if sparse.issparse(value) else value

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, _Sparse):
            return _Sparse(self.matrix @ other.matrix)
        if not has_symbols(other):
            return self.matrix @ (other.astype(float) if isinstance(other, SymbolArray) else other)
        vector, rows = array_of(other), self.matrix.tocsr()
        products = []
        for i in range(rows.shape[0]):
            entries = range(rows.indptr[i], rows.indptr[i + 1])
            products.append(sum(float(rows.data[k]) * vector[rows.indices[k]] for k in entries))
        if vector.ndim > 1:
            return np.stack([np.broadcast_to(row, vector.shape[1:]) for row in products]).view(SymbolArray)
        return array_of(products)

    dot = __matmul__

    def __rmatmul__(self, other: Any) -> Any:
        return _Sparse(self.matrix.T) @ other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int | float):
            return _Sparse(self.matrix * other)
        if isinstance(self.matrix, sparse.sparray) or isinstance(other, Scalar):
            raise Untraceable("multiplies a sparse matrix by an expression")
        return self @ other

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return _Sparse(-self.matrix)

    def __add__(self, other: Any) -> Any:
        return _Sparse(self.matrix + getattr(other, "matrix", other))

    def __sub__(self, other: Any) -> Any:
        return _Sparse(self.matrix - getattr(other, "matrix", other))


# Functions


def _chosen(of_numbers: Callable[..., Any], of_symbols: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        args = tuple(arg.item() if isinstance(arg, SymbolArray) else arg for arg in args)
        return (of_symbols if any(isinstance(arg, Scalar) for arg in args) else of_numbers)(*args)

    return call


def _extreme(of_numbers: Callable[..., Any], of_two: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        values = list(args[0]) if len(args) == 1 else list(args)
        if kwargs or not any(isinstance(value, Scalar) for value in values):
            return of_numbers(values, **kwargs)
        return functools.reduce(of_two, values)

    return call


class _FloatType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, float | Scalar)

    def __eq__(cls, other: Any) -> bool:
        return other is cls or other is float

    def __hash__(cls) -> int:
        return hash(float)


class _Float(float, metaclass=_FloatType):
    """Substitute of ``float`` that returns expressions unchanged."""

    def __new__(cls, value: Any = 0.0) -> Any:
        if isinstance(value, SymbolArray) and value.size == 1:
            value = value.item()
        return value if isinstance(value, Scalar) else float(value)


def _constructor(function: Callable[..., Any]) -> Callable[..., Any]:
    # Python without docstrings knows no signature of those two, which take what np.ones takes.
    signature = inspect.signature(np.ones if function in (np.zeros, np.empty) else function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        dtype = given.get("dtype")
        if dtype not in (None, _Float) and np.dtype(dtype).kind in "iubUS":
            return function(*args, **kwargs)
        source = next(iter(given.values()))
        shape = np.shape(source) if function.__name__.endswith("_like") else source
        array = np.empty(shape, dtype=object).view(SymbolArray)
        array[...] = given.get("fill_value", 1.0 if "ones" in function.__name__ else 0.0)
        if "fill_value" not in given and isinstance(source, SymbolArray) and source.shape == array.shape:
            array.n_diff = source.n_diff
        return array

    return call


def _conversion(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function, updated=())
    def call(value: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(value, Scalar) and function is np.float64:
            return value
        if has_symbols(value) or isinstance(value, SymbolArray):
            array = array_of(value)
            return array.copy() if function in (np.array, np.copy) else array
        args = tuple(float if arg is _Float else arg for arg in args)
        kwargs = {key: float if arg is _Float else arg for key, arg in kwargs.items()}
        return function(value, *args, **kwargs)

    return call


def _changeable(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple(array_of(arg) if has_symbols(arg) else arg for arg in args)
        return array_of(function(*args, **{k: v for k, v in kwargs.items() if k != "dtype"})).copy()

    return call


_RESTORED: Final = (np.ndarray, Scalar, int, float, str, np.generic, _Object, _Class, _Module, _Sparse)


class _WithLists:
    """A function of NumPy that also accepts lists of expressions."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self.function(*map(_row, args), **{key: _row(value) for key, value in kwargs.items()})
        return found.view(SymbolArray) if type(found) is np.ndarray and found.dtype == object else found


def _row(value: Any) -> Any:
    if not isinstance(value, list | tuple) or not has_symbols(value):
        return value
    if all(np.ndim(entry) == 0 for entry in value if not isinstance(entry, Scalar | list | tuple)):
        if not any(isinstance(entry, list | tuple | np.ndarray) for entry in value):
            return array_of(list(value))
    return type(value)(map(_row, value))
