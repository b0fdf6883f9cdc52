"""A digest of a function and of all that its machine code holds, by which code on disk is known."""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher

# Libraries whose functions a digest has by name; the version of each is part of what code is kept under.
VERSIONED: Final = sys.stdlib_module_names | {"numba", "llvmlite", "numpy", "scipy"}
# What compiled code calls in place of a Python function, or as a method of this name.
IMPLEMENTATIONS: Final[dict[Any, list[Any]]] = defaultdict(list)


class _UnknownError(Exception):
    """Machine code may hold a value of which there is no digest."""


def machine_code_digest(function: FunctionType) -> str | None:
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
    codes = list(codes_of(function.__code__))
    names = sorted({name for code in codes for name in code.co_names})
    yield f"\n{function.__qualname__} {function.__code__.co_varnames}"
    for code in codes:
        constants = [entry for entry in code.co_consts if not isinstance(entry, CodeType)]
        if code is function.__code__ and constants and constants[0] == function.__doc__:
            del constants[0]
        yield f"{code.co_code.hex()} {code.co_argcount} {code.co_names} {code.co_freevars} {code.co_cellvars}"
        yield from _value(constants, names)
    yield from _value([function.__defaults__, function.__kwdefaults__], names)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name
        yield from _value(cell.cell_contents, names)
    for name in names:
        yield from IMPLEMENTATIONS.get(name, ())
        if name in function.__globals__:
            yield f" {name}="
            yield from _value(function.__globals__[name], names)


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """A code and those of functions and comprehensions in it."""
    yield code
    for entry in code.co_consts:
        if isinstance(entry, CodeType):
            yield from codes_of(entry)


def _value(value: Any, names: list[str]) -> Iterator[str | FunctionType]:
    """A value, of modules what they have of these names, as texts, and the functions that it is or has."""
    text = _text(value)
    if text is not None:
        yield text
    elif isinstance(value, FunctionType) and value in IMPLEMENTATIONS:
        yield from IMPLEMENTATIONS[value]
    elif isinstance(value, ModuleType):
        yield from _of_module(value, names)
    elif isinstance(value, tuple | list):
        yield f"{type(value).__name__} {getattr(value, '_fields', '')} {len(value)}:"
        for entry in value:
            yield from _value(entry, names)
    elif isinstance(value, dict):
        yield from _value(list(value.items()), names)
    else:
        yield from _of_compiled(value)


def _text(value: Any) -> str | None:
    """A value that holds no others as text; None for another."""
    if isinstance(value, bool | int | float | complex | str | bytes | np.number | types.Type | None):
        return f"{type(value).__name__} {value!r},"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.dtype} {value.shape} {value.tobytes().hex()},"
    return f"{sorted(map(repr, value))}," if isinstance(value, frozenset) else None


def _of_module(module: ModuleType, names: list[str]) -> Iterator[str | FunctionType]:
    for name in names:
        entry = getattr(module, name, None)
        if hasattr(module, name) and (not _versioned(module.__name__) or isinstance(entry, int | float)):
            yield f" {name}="
            yield from _value(entry, names)


def _of_compiled(value: Any) -> Iterator[str | FunctionType]:
    """What numba compiles or knows by its name."""
    intrinsic = getattr(value, "_defn", None)
    if isinstance(value, Dispatcher):
        yield f"{sorted(value.targetoptions.items())}"
        yield value.py_func
    elif isinstance(value, FunctionType) and not _versioned(value.__module__):
        yield value
    elif isinstance(intrinsic, FunctionType):
        yield intrinsic
    elif hasattr(value, "_fields") or isinstance(value, Enum):  # a class of named tuples
        yield f"{value!r} {getattr(value, '_fields', '')},"
    else:
        text = getattr(value, "__qualname__", None) or repr(value)
        if not _versioned(getattr(value, "__module__", None) or type(value).__module__) or " at 0x" in text:
            raise _UnknownError
        yield f"{text},"
