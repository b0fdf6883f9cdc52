"""A digest of the code of a problem, by which a sweep that goes on sees that its equations have changed."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from dae_sdc.dae.memory import codes_of
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.model.model import Model

# Packages whose code is that of their version.
LIBRARIES = {"dae_sdc", "pySDC", "numpy", "scipy", "sympy", "numba", *sys.stdlib_module_names} - {"__main__"}


def code_digest(problem: Any) -> str:
    """A text that changes with the code of a problem of a user; empty for those of the library."""
    parts = sorted(set(_parts(problem, set())))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16] if parts else ""


def _parts(value: Any, known: set[int]) -> Iterator[str]:
    if isinstance(value, bool | int | float | complex | str | np.number):
        yield repr(value)
    elif id(value) not in known:
        known.add(id(value))
        reader = next((reader for kind, reader in _READERS if isinstance(value, kind)), None)
        yield from () if reader is None else reader(value, known)


def _of_all(values: Iterable[Any], known: set[int]) -> Iterator[str]:
    return (f"{at} {part}" for at, value in enumerate(values) for part in _parts(value, known))


def _of_problem(problem: ProblemDAE, known: set[int]) -> Iterator[str]:
    cls = type(problem)
    own = [value for value in vars(problem).values() if callable(value)]
    return _of_all([getattr(cls, "untraced", cls), *own], known)


def _of_class(cls: type, known: set[int]) -> Iterator[str]:
    for base in cls.__mro__:
        # Docstrings and what Python itself notes of a class are no code.
        entries = {} if _is_of_library(base) else vars(base)
        own = {name: entry for name, entry in entries.items() if callable(entry) or not name.startswith("__")}
        for name, entry in own.items():
            yield from (f"{base.__qualname__}.{name} {part}" for part in _parts(entry, known))


def _of_array(array: Any, known: set[int]) -> Iterator[str]:
    if not array.dtype.hasobject:
        yield f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"


def _of_function(function: FunctionType, known: set[int]) -> Iterator[str]:
    if _is_of_library(function):
        return
    name = function.__qualname__
    for code in codes_of(function.__code__):
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


def _is_of_library(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").partition(".")[0] in LIBRARIES


# What tells the parts of a value, by its type.
_READERS: Sequence[tuple[Any, Callable[[Any, set[int]], Iterator[str]]]] = (
    (Model, lambda model, known: map(str, model.expressions)),
    (ProblemDAE, _of_problem),
    (functools.partial, lambda one, known: _of_all([one.func, *one.args, *one.keywords.values()], known)),
    (staticmethod | classmethod | MethodType, lambda method, known: _parts(method.__func__, known)),
    (property, lambda one, known: _parts(one.fget, known)),
    (FunctionType, _of_function),
    (type, _of_class),
    (np.ndarray, _of_array),
    (list | tuple, _of_all),
)
