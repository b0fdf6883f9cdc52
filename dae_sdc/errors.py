"""Exceptions of dae_sdc: one line each that says what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real


class DAEError(Exception):
    """Base of every error that dae_sdc raises itself; its text is one line, whatever values it shows."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class InputError(DAEError, ValueError):
    """Something the user gave cannot be used; the command line exits with code 2."""


def require_count(name: str, value: object) -> None:
    """Raise :class:`InputError` unless ``value`` is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(f"{name} must be an integer, at least 1; got {value!r}")


def require_number(name: str, value: object) -> float:
    """``value`` as a float; raises :class:`InputError` unless it is a real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} must be a number; got {value!r}")
    return float(value)


class MissingPartError(InputError, AttributeError):
    """A part was asked of a state that states of DAEs do not have."""


class InconsistentStateError(InputError):
    """An initial value violates equations of the DAE."""


class ReferenceRangeError(InputError):
    """A reference solution was asked for outside the range it was computed on."""


class ResultFileError(InputError):
    """A file is not a readable result of dae_sdc."""


class DAEWarning(UserWarning):
    """A setting that is allowed but known to give poor results."""


class SolveError(DAEError):
    """A computation failed numerically; the command line exits with code 1."""


class RemoteError(DAEError):
    """Another process of a parallel run raised an exception that is none of dae_sdc."""


class EvaluationError(SolveError):
    """A residual or Jacobian returned NaN or infinity."""


class SingularMatrixError(SolveError):
    """An iteration matrix has no inverse."""


class StepSizeError(SolveError):
    """No step from a state is good enough, however small."""


class TimeLimitError(SolveError):
    """A run took longer than it may."""


class ConvergenceError(SolveError):
    """The sweeps of a step ended above their residual tolerance."""


class NewtonError(SolveError):
    """The Newton iteration at a node did not converge.

    Parameters
    ----------
    message : str
        The one-line explanation.
    time : float
        Time of the node in the units of the problem.
    history : sequence of float
        Scaled size of the Newton correction in each iteration.
    equation : str
        Name of the equation with the largest scaled residual.
    """

    def __init__(self, message: str, *, time: float, history: Sequence[float], equation: str) -> None:
        super().__init__(message)
        self.time = time
        self.history = tuple(history)
        self.equation = equation
