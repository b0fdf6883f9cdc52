"""The equations of a problem as C functions, which compiled sweeps call by their addresses.

A pair of kernels has one fixed signature::

    residual(t, u*, du*, p*, out*)
    jacobian(t, u*, du*, c, p*, out*)

with the time t, the state u and its derivative du (n doubles each), the coefficient c, the parameters p of
the problem, and F(t, u, u') or dF/du' + c dF/du for the result: row by row, or the entries of a CSC matrix in
the order of the problem's ``sparsity``.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dae_sdc.errors import InputError


@dataclass(frozen=True)
class Kernels:
    """Addresses of the two C functions of a problem.

    Parameters
    ----------
    residual, jacobian : int
        Addresses; 0 for a Jacobian that is not given.
    owners : tuple
        What must live as long as the addresses are used.
    """

    residual: int
    jacobian: int
    owners: tuple[Any, ...] = field(default=(), repr=False)


def machine() -> Any:
    """The module that calls kernels from Python; numba is imported with it, and only then."""
    return importlib.import_module("dae_sdc.dae.machine")


@functools.lru_cache(maxsize=256)
def compile_kernel(function: Callable[..., None], kind: str) -> Any:
    """Compile a Python function, once a machine: the result is kept on disk beside its file.

    Parameters
    ----------
    function : callable
        A function of one of the signatures above in the part of Python that numba compiles: numbers, loops,
        the functions of :mod:`math`, and reading and writing single entries ``u[i]``; arguments have no
        length, and dividing by zero gives infinity or NaN. Global numbers are read once, when it is compiled;
        what may change belongs to the parameters p.
    kind : {"residual", "jacobian"}
        Which of the signatures.

    Returns
    -------
    numba.core.ccallback.CFunc
        With its ``address``.

    Raises
    ------
    InputError
        If numba cannot compile it, with the reason.
    """
    module = machine()
    try:
        return module.compile_function(function, module.SIGNATURES[kind])
    except module.CompilationError as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"numba cannot compile the kernel {function.__qualname__}: {reason[:300]}"
        ) from error


def compile_kernels(residual: Callable[..., None], jacobian: Callable[..., None] | None) -> Kernels:
    """Compile the two functions of a problem, see :func:`compile_kernel`."""
    first = compile_kernel(residual, "residual")
    second = None if jacobian is None else compile_kernel(jacobian, "jacobian")
    return Kernels(first.address, second.address if second else 0, (first, second))
