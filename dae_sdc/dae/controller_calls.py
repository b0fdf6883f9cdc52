"""Calls of a DAE by pySDC's controllers, transfers and sweepers, which expect u' = f(u, t)."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from dae_sdc.dae.state import MeshDAE, attach
from dae_sdc.errors import InputError


def with_controller_call(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``eval_f`` also be called as pySDC's controllers and transfers do, ``eval_f(u, t)``."""
    # They expect the right-hand side u' there. A DAE has no such function, so the derivative that the state
    # carries from the step it ended is returned, or zeros, which every predictor of this package replaces.
    # Sweepers that would take it for a right-hand side are refused. What users get from ``eval_f`` is a
    # state, whose abs() is a number; solvers call the method itself, the attribute ``residual``.
    try:
        inspect.signature(method).bind("self", "u", "du", "t")
    except TypeError:
        raise InputError(
            f"{method.__qualname__} must take (self, u, du, t) and return F(t, u, u'); it takes "
            f"{inspect.signature(method)}"
        ) from None

    @functools.wraps(method)
    def eval_f(self: Any, u: MeshDAE, du: Any, t: float | None = None) -> Any:
        if t is not None:
            return _as_state(self, method(self, u, du, t))
        if "_has_sweeper" not in self.__dict__:
            raise InputError(foreign_call(self, "eval_f(u, t)"))
        derivative = self.dtype_f(self.init)
        polynomial = getattr(u, "polynomial", None)
        if polynomial is not None:
            derivative[:] = polynomial.derivative_at_end()
        return derivative

    vars(eval_f)["residual"] = method
    return eval_f


def with_start(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``u_exact(t, u_init, t_init)`` give the solution through a start, for hooks of local errors."""
    if "u_init" in inspect.signature(method).parameters:
        return method

    @functools.wraps(method)
    def u_exact(self: Any, t: float, u_init: Any = None, t_init: float | None = None) -> Any:
        if u_init is None or t_init is None:
            return method(self, t)
        return self.solution_through(self.state(u_init), t_init, t)

    return u_exact


class ForOthers:
    """Base of :class:`~dae_sdc.dae.problem.ProblemDAE`: what hooks and controls of pySDC ask problems for."""

    solution_through: ClassVar[Callable[..., MeshDAE]]

    def begin_steps(self, direct: bool = False) -> None:
        """Tell that a sweeper of this package has the problem: it does not use ``eval_f(u, t)``."""
        self.__dict__.update(_has_sweeper=True, _has_stages=direct)

    def solve_system(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: pySDC's sweepers call it, and they do not solve F(t, u, u') = 0 of this kind."""
        raise InputError(foreign_call(self, "solve_system"))

    def getOutputFile(self: Any, fileName: str) -> Any:
        """The file of pySDC's hook ``LogToFile``: the n unknowns as scalars, at every time."""
        from pySDC.helpers.fieldsIO import Scalar

        file = Scalar(np.float64, fileName)
        file.setHeader(self.n)
        file.initialize()
        return file

    def processSolutionForOutput(self, u: MeshDAE) -> Any:
        """A state as ``LogToFile`` writes it, shape (n,)."""
        return np.array(u)


def _as_state(problem: Any, value: Any) -> Any:
    """What ``eval_f`` returned as a state, whose abs() is a number, where it can be one."""
    if isinstance(value, list | tuple):
        with contextlib.suppress(ValueError):
            value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.shape == problem._shape and value.dtype.kind in "fiu":
        return attach(value.astype(np.float64, copy=False), problem.n_diff)
    return value


def foreign_call(problem: Any, called: str) -> str:
    """The message for a call by a sweeper or transfer that is made for u' = f(u, t)."""
    return (
        f"{called} of {type(problem).__name__} was called, as sweepers and transfers of pySDC for equations "
        f"u' = f(u, t) do, but it is a DAE; use sweepers of dae_sdc (FullyImplicitDAE, SemiImplicitDAE, "
        f"ConstrainedDAE, RungeKuttaDAE; 'dae-sdc list sweepers' shows all), and TransferDAE between levels"
    )
