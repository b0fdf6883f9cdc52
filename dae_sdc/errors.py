"""Exceptions of dae_sdc: one line each that says what is wrong, where, and what to do.

Where pySDC has an exception for the case, that of dae_sdc is one of its kind too: an InputError is a
ParameterError, a failure of a residual, a Jacobian or Newton's method a ProblemError, and what does not
converge a ConvergenceError.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real

from pySDC.core import errors as pysdc


class DAEError(Exception):
    """Base of every error that dae_sdc raises itself; its text is one line, whatever values it shows."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class InputError(DAEError, pysdc.ParameterError, ValueError):  # type: ignore[misc]
    """Something the user gave cannot be used; the command line exits with code 2."""


LARGEST_TOLERANCE = 1.0
"""Largest tolerance of residuals and corrections: beyond it anything would be a solution."""

LARGEST_COUNT = 10**9
"""Largest count where there is no reason for a smaller one: no run ends with more."""


def require_count(name: str, value: object, most: int = LARGEST_COUNT) -> None:
    """Raise :class:`InputError` unless ``value`` is an integer from 1 to ``most``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(f"{name} must be an integer, at least 1; got {value!r}")
    if int(value) > most:
        raise InputError(f"{name} must be at most {most}; got {_short(value)}")


def require_tolerance(name: str, value: object, largest: float = LARGEST_TOLERANCE) -> float:
    """``value`` as a float; raises :class:`InputError` unless it is a finite number up to ``largest``."""
    tolerance = require_number(name, value)
    if not -float("inf") < tolerance <= largest:
        raise InputError(f"{name} must be a finite number, at most {largest:g}; got {value!r}")
    return tolerance


def _short(value: object) -> str:
    """A number in a few characters."""
    try:
        text = str(value)
    except ValueError:  # Python writes out no more than some thousand digits
        return "a number of thousands of digits"
    return text if len(text) <= 12 else f"a number of {len(text)} digits"


def require_number(name: str, value: object) -> float:
    """``value`` as a float; raises :class:`InputError` unless it is a real number."""
    if isinstance(value, bool) or not isinstance(value, Real) or value != value:
        raise InputError(f"{name} must be a number; got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"{name} is {_short(value)}, too large for a float; give a smaller one") from None


class MissingPartError(InputError, AttributeError):
    """A state was asked for a part that states of DAEs do not have, such as ``impl``."""


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
    """Another process of a parallel run raised an exception that is no :class:`DAEError`."""


class EvaluationError(SolveError, pysdc.ProblemError):  # type: ignore[misc]
    """A residual or Jacobian returned NaN or infinity."""


class SingularMatrixError(SolveError, pysdc.ProblemError):  # type: ignore[misc]
    """An iteration matrix has no inverse."""


class JacobianError(SolveError, pysdc.ProblemError):  # type: ignore[misc]
    """A Jacobian that a problem gives is wrong, and no solution is found with it."""


class StepSizeError(SolveError, pysdc.ConvergenceError):  # type: ignore[misc]
    """No step from a state is good enough, however small."""


class TimeLimitError(SolveError):
    """A run took longer than it may."""


class ConvergenceError(SolveError, pysdc.ConvergenceError):  # type: ignore[misc]
    """The sweeps of a step ended above their residual tolerance."""


class NewtonError(SolveError, pysdc.ProblemError, pysdc.ConvergenceError):  # type: ignore[misc]
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
