"""The equations of a problem as C functions, which compiled sweeps call by their addresses.

A pair of kernels has one fixed signature::

    residual(t, u*, du*, p*, out*)
    jacobian(t, u*, du*, c, p*, out*)

with the time t, the state u and its derivative du (n doubles each), the coefficient c, the parameters p of
the problem, and F(t, u, u') or dF/du' + c dF/du for the result: row by row, or the entries of a CSC matrix in
the order of the problem's ``sparsity``. In place of a Jacobian, :data:`COMPLEX_STEP` stands for the exact
derivatives of the residual. A kernel may call plain functions of numbers that :func:`inlined` marks.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from dae_sdc.dae.memory import inlined
from dae_sdc.errors import InputError
from dae_sdc.sharing import once

__all__ = [
    "COMPLEX_STEP",
    "Kernels",
    "compile_kernel",
    "compile_kernels",
    "complex_step",
    "inlined",
    "machine",
]


class ComplexStep:
    """The type of :data:`COMPLEX_STEP`."""

    def __repr__(self) -> str:
        return "COMPLEX_STEP"

    def __reduce__(self) -> str:
        return "COMPLEX_STEP"

    def __call__(self, *arguments: Any) -> None:
        """Refused: it has no form in plain Python."""
        raise InputError("COMPLEX_STEP is no function; call jacobian(u, du, t, c) of the problem")


COMPLEX_STEP: Final = ComplexStep()
"""As ``jacobian_kernel``: the exact dF/du' + c dF/du of ``residual_kernel``, by complex steps.

The residual is compiled a second time, for numbers whose imaginary part is a perturbation too small to change
the real part, so that nothing cancels. Comparisons, ``abs``, ``min`` and ``max`` look at the real part.

References
----------
W. Squire, G. Trapp, Using complex variables to estimate derivatives of real functions, SIAM Review 40 (1998)
110.
"""


@dataclass(frozen=True)
class Kernels:
    """Addresses of the two C functions of a problem."""

    # residual, jacobian: addresses; 0 for a Jacobian that is not given.
    residual: int
    jacobian: int
    # What must live as long as the addresses are used.
    owners: tuple[Any, ...] = field(default=(), repr=False)


@functools.cache
def machine() -> Any:
    """The module that calls kernels from Python; numba is imported with it, and only then."""
    return importlib.import_module("dae_sdc.dae.machine")


@functools.cache
def complex_step() -> Any:
    """The module of Jacobians by complex steps, imported when one is wanted."""
    return importlib.import_module("dae_sdc.dae.complex_step")


@once
def compile_kernel(function: Callable[..., None], kind: str) -> Any:
    """Compile a Python function, once a machine: the result is kept on disk beside its file."""
    module = machine()
    try:
        if kind == "complex":
            return complex_step().compile_residual(function)
        return module.compile_function(function, module.SIGNATURES[kind])
    except module.CompilationError as error:
        reason = " ".join(str(error).split())[:300]
        if "Untyped global name" in reason:
            reason += "; mark functions that kernels call with dae_sdc.dae.kernels.inlined"
        if kind == "complex":
            raise InputError(
                f"numba cannot compile the kernel {function.__qualname__} for complex steps; use functions "
                f"of math or numpy on single numbers, or write a jacobian_kernel: {reason}"
            ) from error
        raise InputError(f"numba cannot compile the kernel {function.__qualname__}: {reason}") from error


def compile_kernels(residual: Callable[..., None], jacobian: Callable[..., None] | None) -> Kernels:
    """Compile the two functions of a problem, see :func:`compile_kernel`."""
    first = compile_kernel(residual, "residual")
    if jacobian is COMPLEX_STEP:
        second = complex_step().jacobian_function()
        return Kernels(first.address, second.address, (first, second, compile_kernel(residual, "complex")))
    second = None if jacobian is None else compile_kernel(jacobian, "jacobian")
    return Kernels(first.address, second.address if second else 0, (first, second))
