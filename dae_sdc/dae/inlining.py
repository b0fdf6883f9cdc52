"""Plain functions that kernels call."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from dae_sdc.errors import InputError

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MARK = "_dae_sdc_inlined"


def inlined(function: _Function) -> _Function:
    """Mark a plain Python function as callable from kernels; a decorator."""
    if not isinstance(function, FunctionType):
        raise InputError(f"inlined takes a plain Python function; got {function!r}")
    setattr(function, _MARK, True)
    return function


def is_inlined(value: Any) -> bool:
    """Whether :func:`inlined` has marked it."""
    return isinstance(value, FunctionType) and getattr(value, _MARK, False)
