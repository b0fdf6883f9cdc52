"""What a function reads from outside of itself, and whether that is still what it was."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np
import scipy.sparse as sparse

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

_NUMBERS: Final = (type(None), bool, int, float, complex, str, bytes, np.generic)
_BUILT_IN: Final = (BuiltinFunctionType, np.ufunc, type(np.sum))
_ARRAYS: Final = ("data", "indices", "indptr")


class _Missing:
    """What stands for a global name that does not exist, or for what is in an empty cell."""


MISSING: Final = _Missing()


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
        self._places: list[tuple[int, str, Any, tuple[Any, ...]]] = []
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
        snapshot, parts = (("alias", known), ()) if known is not None else self._snapshot(value)
        if snapshot is None:
            self.complete = False
            return
        self._places.append((slot, kind, name, snapshot))
        self._values.append(value)
        if snapshot[0] not in ("alias", "equal"):
            self._slots[id(value)] = len(self._places)
        for part_kind, part in parts:
            self.note(value, part_kind, part, _FETCH[part_kind](value, part), depth + 1)

    def seal(self) -> None:
        """Let go of what was read; nothing more can be noted."""
        self._values, self._slots, self._noted = [], {}, set()

    def unchanged(self, root: Any) -> bool:
        """Whether all that the function of a problem would read is as it was."""
        values = [root]
        for slot, kind, name, snapshot in self._places:
            try:
                value = _FETCH[kind](values[slot], name)
            except Exception:  # there is no such place any more
                return False
            same = value is values[snapshot[1]] if snapshot[0] == "alias" else _same(value, snapshot)
            if not same:
                return False
            values.append(value)
        return True

    def _snapshot(self, value: Any) -> tuple[tuple[Any, ...] | None, Any]:
        """What a value is compared with, and the places in it that are noted too; None if unknown."""
        if isinstance(value, _NUMBERS):
            return ("equal", value), ()
        if isinstance(value, np.ndarray):
            return (None if value.dtype.hasobject else ("array", value.copy())), ()
        if type(value) in (list, tuple):
            if all(isinstance(entry, _NUMBERS) for entry in value):
                return ("numbers", [*value], type(value)), ()
            return ("length", type(value), len(value)), [("item", place) for place in range(len(value))]
        if type(value) is dict:
            return ("length", dict, len(value)), [("item", key) for key in value]
        if isinstance(value, property):
            return ("is", value), [("attribute", "fget")]
        if value is MISSING or isinstance(value, (*_BUILT_IN, type, ModuleType)):
            return (("is", value) if _is_constant(value) else None), ()
        if isinstance(value, FunctionType):
            if _root_of(value.__module__) not in sys.stdlib_module_names or _is_constant(value):
                return ("code", value.__code__), ()
            return None, ()
        if isinstance(value, MethodType):
            return ("type", MethodType), [("attribute", "__func__"), ("attribute", "__self__")]
        if isinstance(value, functools.partial):
            return ("type", type(value)), [("attribute", name) for name in ("func", "args", "keywords")]
        if sparse.issparse(value) and all(hasattr(value, name) for name in _ARRAYS):
            return ("shape", type(value), value.shape), [("attribute", name) for name in _ARRAYS]
        for name in ("py_func", "__wrapped__"):
            if isinstance(getattr(value, name, None), FunctionType):
                return ("type", type(value)), [("attribute", name)]
        return (("type", type(value)) if self._is_plain(value) else None), ()


def _root_of(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _is_constant(value: Any) -> bool:
    """Whether what a built-in function, class or module does or holds stays, or is noted when it is read."""
    if isinstance(value, ModuleType):
        root = _root_of(value.__name__)
        return root in CONSTANT_MODULES or root not in sys.stdlib_module_names
    if isinstance(value, BuiltinFunctionType):
        own = isinstance(value.__self__, ModuleType | None) and value.__name__ not in UNSEEN
        return own and _root_of(value.__module__) in CONSTANT_MODULES
    if isinstance(value, FunctionType):
        return _root_of(value.__module__) in CONSTANT_MODULES
    return True


def _same(value: Any, snapshot: tuple[Any, ...]) -> bool:
    how, before = snapshot[:2]
    if how == "is":
        return value is before
    if how == "equal":
        return type(value) is type(before) and bool(value == before or (value != value and before != before))
    if how == "array":
        if type(value) is not type(before) or (value.dtype, value.shape) != (before.dtype, before.shape):
            return False
        return np.array_equal(value, before, equal_nan=value.dtype.kind in "fc")
    if how == "numbers":
        return (
            type(value) is snapshot[2] and [*value] == before and [*map(type, value)] == [*map(type, before)]
        )
    if how == "code":
        return isinstance(value, FunctionType) and value.__code__ == before
    if type(value) is not before:
        return False
    return how == "type" or bool(snapshot[2] == (len(value) if how == "length" else value.shape))
