"""Read-only arguments for functions that users write: what they are given is the solver's own memory."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from dae_sdc.errors import InputError

S = TypeVar("S", bound=Callable[..., Any])


def read_only(function: S, name: str) -> S:
    """A function that cannot change the arrays it is called with.

    They are not copied, but read-only until it returns. It raises InputError where it writes to one.

    Parameters
    ----------
    function : callable
        Any function.
    name : str
        What it is called in messages.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if named:
            bound = inspect.signature(function).bind(*arguments, **named)
            arguments, named = bound.args, bound.kwargs
        locked = [x for x in arguments if isinstance(x, np.ndarray) and x.flags.writeable]
        for array in locked:
            array.flags.writeable = False
        try:
            return function(*arguments, **named)
        except ValueError as error:
            if isinstance(error, InputError) or "read-only" not in str(error):
                raise
            raise InputError(
                f"{name} writes to one of its arguments or to a view of it; let it work on a copy"
            ) from error
        finally:
            for array in locked:
                array.flags.writeable = True

    vars(call)["unguarded"] = True
    return cast(S, call)


def unguarded(method: S) -> S:
    """Mark a method of the library that only reads, so that its arguments need no guard."""
    vars(method)["unguarded"] = True
    return method


def guard_methods(cls: type[Any], names: tuple[str, ...]) -> None:
    """Give the named methods that a class defines itself read-only arguments."""
    for name in names:
        method = vars(cls).get(name)
        # Those of compiled code and those that the library derives only read.
        if callable(method) and not (hasattr(method, "unguarded") or hasattr(method, "supplied")):
            setattr(cls, name, read_only(method, f"{cls.__name__}.{name}"))
