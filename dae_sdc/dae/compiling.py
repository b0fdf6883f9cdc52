"""Compilation by numba, with the result kept on disk where there is a place for it. This imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def kept(function: Callable[..., Any], *signature: Any, **options: Any) -> Any:
    """Compile a function, and keep the result on disk if there is a place for it.

    Parameters
    ----------
    function : callable
        What is compiled; numbers follow IEEE 754, so that a division by 0 is infinite.
    *signature : numba signature, optional
        Types of the arguments; compiled for those of each call if not given.
    **options
        More options of :func:`numba.njit`.
    """
    options = {"error_model": "numpy", **options}
    try:
        return njit(*signature, cache=True, **options)(function)
    except RuntimeError:  # there is no place on disk
        return njit(*signature, **options)(function)


inner = njit(error_model="numpy", no_cpython_wrapper=True)
"""For functions that are called by other compiled ones alone."""
