"""Functions in machine code, for tests of functions that Python and compiled code share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as numba compiles it for Python."""
    from numba import njit

    import dae_sdc.compiled.machine_newton  # noqa: F401  # tells numba of functions that others call

    made: Callable[..., Any] = njit(error_model="numpy")(function)
    return made
