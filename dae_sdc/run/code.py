"""A digest of the code of a problem, by which a sweep that goes on sees that its equations have changed."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from dae_sdc.dae.code_digest import contents
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
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    elif id(value) not in known:
        known.add(id(value))
        reader = next((reader for kind, reader in _READERS if isinstance(value, kind)), None)
        yield from () if reader is None else reader(value, known)


def _of_all(values: Iterable[Any], known: set[int]) -> Iterator[str]:
    return (f"{at} {part}" for at, value in enumerate(values) for part in _parts(value, known))


def _of_problem(problem: ProblemDAE, known: set[int]) -> Iterator[str]:
    own = [value for value in vars(problem).values() if callable(value)]
    return _of_all([getattr(type(problem), "untraced", type(problem)), *own], known)


def _of_class(cls: type, known: set[int]) -> Iterator[str]:
    for base in cls.__mro__:
        # Docstrings and what Python itself notes of a class are no code.
        entries = {} if _is_of_library(base) else vars(base)
        own = {name: entry for name, entry in entries.items() if callable(entry) or not name.startswith("__")}
        for name, entry in own.items():
            yield from (f"{base.__qualname__}.{name} {part}" for part in _parts(entry, known))


def _of_function(function: FunctionType, known: set[int]) -> Iterator[str]:
    if not _is_of_library(function):
        texts, called, others = contents(function, {})
        yield from texts
        yield from _of_all([*called, *others], known)


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
    (list | tuple, _of_all),
)
