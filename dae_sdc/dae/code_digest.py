"""A digest of a function and of all that its machine code holds, by which code on disk is told apart."""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from dae_sdc.dae.memory import codes_of

# Libraries whose functions a digest has by name; the version of each is part of what code is kept under.
VERSIONED: Final = sys.stdlib_module_names | {"numba", "llvmlite", "numpy", "scipy"}
PLAIN: Final = (bool, int, float, complex, str, bytes, np.number, type(None))  # Hold no others.
# What compiled code calls in place of a Python function, or as a method of this name.
IMPLEMENTATIONS: Final[dict[Any, list[Any]]] = defaultdict(list)


class _UnknownError(Exception):
    """Machine code may hold a value of which there is no digest."""


def kept_digest(
    function: FunctionType, implementations: Mapping[Any, list[Any]] = IMPLEMENTATIONS
) -> str | None:
    """The digest under which code is kept; None for what is typed at a prompt, or has no digest."""
    if not Path(function.__code__.co_filename).exists():
        return None
    content, reached, waiting = hashlib.sha256(), {function}, [function]
    try:
        for caller in waiting:
            texts, called, others = contents(caller, implementations, function.__module__)
            content.update("\n".join([*texts, *map(_name_of, others)]).encode())
            for callee in called:
                if callee not in reached:
                    reached.add(callee)
                    waiting.append(callee)
    except _UnknownError:
        return None
    return content.hexdigest()


@cache
def versioned(module: str | None) -> bool:
    """Whether a module is told by the version of its library."""
    return (module or "").partition(".")[0] in VERSIONED


def contents(
    function: FunctionType, implementations: Mapping[Any, list[Any]], home: str = ""
) -> tuple[list[str], list[FunctionType], list[Any]]:
    """What a function does and holds, as texts, functions that it may call, and values of other kinds."""
    # There are no instances of classes of numba before it is imported.
    plain = (*PLAIN, getattr(sys.modules.get("numba.core.types"), "Type", ()))
    dispatcher = getattr(sys.modules.get("numba.core.dispatcher"), "Dispatcher", ())
    code, names, called, others = function.__code__, set[str](), list[FunctionType](), list[Any]()
    texts, values = [f"{function.__qualname__} {code.co_varnames}"], list[Any]()
    values += function.__defaults__, function.__kwdefaults__
    for inner in codes_of(code):
        texts.append(f"{inner.co_code.hex()} {inner.co_argcount} {inner.co_freevars} {inner.co_cellvars}")
        texts.append(f"{inner.co_names}")
        documented = inner is code and inner.co_consts[:1] == (function.__doc__,)
        values.append(inner.co_consts[documented:])
        names.update(inner.co_names)
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # of a name that is not bound yet
            values.append(cell.cell_contents)
    for name in sorted(names):
        methods = implementations.get(name, ())  # of several structures: those of the module ``home`` first
        called += [method for method in methods if method.__module__ == home] or methods
        if name in function.__globals__:
            values += name, function.__globals__[name]
    places: dict[int, int] = {}  # where each list and dictionary is described; it may hold itself
    for value in values:  # which grows by what these hold
        kind, place = type(value), len(texts)
        if isinstance(value, plain):
            texts.append(f"{kind.__name__} {value!r}")
            continue
        if isinstance(value, np.ndarray) and value.dtype != object:
            texts.append(f"{value.dtype} {value.shape} {value.tobytes().hex()}")
            continue
        if isinstance(value, ModuleType):
            for name in sorted(names):
                entry = getattr(value, name, _UnknownError)
                known = entry is _UnknownError or versioned(value.__name__)
                values += () if known and not isinstance(entry, int | float) else (name, entry)
            continue
        if isinstance(value, list | dict) and places.setdefault(id(value), place) != place:
            texts.append(f"that at {places[id(value)]}")
            continue
        if isinstance(value, tuple | list | dict | frozenset):
            texts.append(f"{kind.__name__} {getattr(value, '_fields', '')} {len(value)}")
            entries = value.items() if isinstance(value, dict) else value
            values += sorted(entries, key=repr) if isinstance(value, frozenset) else entries
            continue
        if isinstance(value, dispatcher):
            stands = value.py_func
            texts.append(f"{sorted(value.targetoptions.items())}")
        else:
            stands = getattr(value, "_defn", value)  # that of an intrinsic of numba
        if isinstance(value, FunctionType) and implementations.get(value):
            called += implementations[value]
        elif isinstance(stands, FunctionType) and not (stands is value and versioned(value.__module__)):
            called.append(stands)
        elif kind is not CodeType:
            texts.append(kind.__name__)
            others.append(value)
    return texts, called, others


def _name_of(value: Any) -> str:
    """What tells a value that numba knows by its name; raises where nothing does."""
    if hasattr(value, "_fields") or isinstance(value, Enum):  # a class of named tuples
        return f"{value!r} {getattr(value, '_fields', '')}"
    text = getattr(value, "__qualname__", None) or repr(value)
    if not versioned(getattr(value, "__module__", None) or type(value).__module__) or " at 0x" in text:
        raise _UnknownError
    return str(text)
