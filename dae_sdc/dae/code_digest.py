"""A digest of a function and of all that its machine code holds: functions it calls, values it names.

Machine code on disk is known by it, so that neither the time of a file nor another function of it matters.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher

VERSIONED: Final = sys.stdlib_module_names | {"numba", "llvmlite", "numpy", "scipy"}
"""Libraries whose functions a digest has by name; the version of each is part of what code is kept under."""

IMPLEMENTATIONS: Final[dict[Any, list[FunctionType]]] = defaultdict(list)
"""What compiled code calls in place of a Python function, or as a method of this name."""


class _UnknownError(Exception):
    """Machine code may hold a value of which there is no digest."""


def code_digest(function: FunctionType) -> str | None:
    """The digest; None if there is none, so that what is compiled from the function cannot be kept."""
    content, reached, waiting = hashlib.sha256(), {function}, [function]
    try:
        while waiting:
            for part in _parts(waiting.pop()):
                if not isinstance(part, FunctionType):
                    content.update(part.encode())
                elif part not in reached:
                    reached.add(part)
                    waiting.append(part)
    except _UnknownError:
        return None
    return content.hexdigest()


@cache
def files_digest(classes: tuple[type, ...]) -> str:
    """A digest of the files in which these classes and those above them stand, but for those of numba."""
    modules = {kind.__module__ for one in classes for kind in one.__mro__}
    paths = sorted(str(sys.modules[name].__file__) for name in modules if not _versioned(name))
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in paths)).hexdigest()


def _versioned(module: str | None) -> bool:
    return (module or "").partition(".")[0] in VERSIONED


def _parts(function: FunctionType) -> Iterator[str | FunctionType]:
    """What a function does and names, as texts, and the functions that it may call."""
    codes = list(_codes(function.__code__))
    names = sorted({name for code in codes for name in code.co_names})
    yield f"\n{function.__qualname__} {function.__code__.co_varnames}"
    for code in codes:
        constants = [entry for entry in code.co_consts if not isinstance(entry, CodeType)]
        if code is function.__code__ and constants and constants[0] == function.__doc__:
            del constants[0]
        yield f"{code.co_code.hex()} {code.co_argcount} {code.co_names} {code.co_freevars} {code.co_cellvars}"
        yield from _values(constants, names)
    yield from _values([function.__defaults__, function.__kwdefaults__], names)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name
        yield from _value(cell.cell_contents, names)
    for name in names:
        yield from IMPLEMENTATIONS.get(name, ())
        if name in function.__globals__:
            yield f" {name}="
            yield from _value(function.__globals__[name], names)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code and those defined in it."""
    yield code
    for entry in code.co_consts:
        if isinstance(entry, CodeType):
            yield from _codes(entry)


def _values(values: Iterable[Any], names: list[str]) -> Iterator[str | FunctionType]:
    for value in values:
        yield from _value(value, names)


def _value(value: Any, names: list[str]) -> Iterator[str | FunctionType]:
    """A value, of modules what they have of these names, as texts, and the functions that it is or has."""
    if isinstance(value, bool | int | float | complex | str | bytes | np.number | types.Type | None):
        yield f"{type(value).__name__} {value!r},"
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype} {value.shape} {value.tobytes().hex()},"
    elif isinstance(value, ModuleType):
        known = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
        for name, entry in known:
            if not _versioned(value.__name__) or isinstance(entry, int | float):
                yield f" {name}="
                yield from _value(entry, names)
    elif isinstance(value, FunctionType) and value in IMPLEMENTATIONS:
        yield from IMPLEMENTATIONS[value]
    elif isinstance(value, Dispatcher):
        yield f"{sorted(value.targetoptions.items())}"
        yield value.py_func
    elif isinstance(value, tuple | list):
        yield f"{type(value).__name__} {getattr(value, '_fields', '')} {len(value)}:"
        yield from _values(value, names)
    elif isinstance(value, frozenset):
        yield f"{sorted(map(repr, value))},"
    elif isinstance(value, dict):
        yield from _values(value.items(), names)
    elif isinstance(value, FunctionType) and not _versioned(value.__module__):
        yield value
    elif isinstance(getattr(value, "_defn", None), FunctionType):  # an intrinsic of numba
        yield value._defn
    elif hasattr(value, "_fields") or isinstance(value, Enum):  # a class of named tuples
        yield f"{value!r} {getattr(value, '_fields', '')},"
    elif _versioned(getattr(value, "__module__", None) or type(value).__module__):
        text = getattr(value, "__qualname__", None) or repr(value)
        if " at 0x" in text:
            raise _UnknownError
        yield f"{text},"
    else:
        raise _UnknownError


def implements(function: Callable[..., Any] | str, implementation: Any) -> None:
    """Note what compiled code calls for a function or a method of this name."""
    IMPLEMENTATIONS[function].append(implementation)
