"""A digest of the code of a problem, by which a sweep that goes on sees that its equations have changed."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.model.model import Model

LIBRARIES = {"dae_sdc", "pySDC", "numpy", "scipy", "sympy", "numba", *sys.stdlib_module_names} - {"__main__"}
"""Packages whose code is that of their version."""


def code_digest(problem: Any) -> str:
    """A text that changes with the code of a problem of a user; empty for those of the library.

    Parameters
    ----------
    problem : type, ProblemDAE, Model or callable
        A class, an instance or a function: their functions, those that these call by name, and the numbers
        and arrays that stand in them, in their closures and in globals that they name. Of a model, the
        equations.
    """
    parts = sorted(set(_parts(problem, set())))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16] if parts else ""


def _parts(value: Any, known: set[int]) -> Iterator[str]:
    if id(value) in known:
        return
    known.add(id(value))
    if isinstance(value, Model):
        yield from map(str, value.expressions)
    elif isinstance(value, ProblemDAE):
        cls = type(value)
        yield from _parts(getattr(cls, "untraced", cls), known)
        yield from (
            part for entry in vars(value).values() if callable(entry) for part in _parts(entry, known)
        )
    elif isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from _parts(part, known)
    elif isinstance(value, staticmethod | classmethod | MethodType):
        yield from _parts(value.__func__, known)
    elif isinstance(value, property):
        yield from _parts(value.fget, known)
    elif isinstance(value, FunctionType):
        yield from _of_function(value, known)
    elif isinstance(value, type):
        for cls in value.__mro__:
            if not _is_of_library(cls):
                # Docstrings and what Python itself notes of a class are no code.
                own = {k: v for k, v in vars(cls).items() if callable(v) or not k.startswith("__")}
                for name, entry in own.items():
                    yield from (f"{cls.__qualname__}.{name} {part}" for part in _parts(entry, known))
    elif isinstance(value, bool | int | float | complex | str | np.number):
        known.discard(id(value))
        yield repr(value)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    elif isinstance(value, list | tuple):
        yield from (f"{at} {part}" for at, entry in enumerate(value) for part in _parts(entry, known))


def _of_function(function: FunctionType, known: set[int]) -> Iterator[str]:
    if _is_of_library(function):
        return
    name = function.__qualname__
    for code in _codes(function.__code__):
        constants = [_plain(entry) for entry in code.co_consts if entry != function.__doc__]
        yield f"{name} {code.co_code.hex()} {constants} {code.co_names}"
        for used in code.co_names:
            yield from (f"{used} {part}" for part in _parts(function.__globals__.get(used), known))
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield from (f"{name} {part}" for part in _parts(default, known))
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:  # of a name that is not bound yet
            continue
        yield from _parts(content, known)


def _plain(constant: Any) -> str:
    """A constant of a code as text, sets in an order that is the same in all processes."""
    if isinstance(constant, CodeType):
        return constant.co_name
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code and those of functions and comprehensions in it."""
    yield code
    for entry in code.co_consts:
        if isinstance(entry, CodeType):
            yield from _codes(entry)


def _is_of_library(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").partition(".")[0] in LIBRARIES
