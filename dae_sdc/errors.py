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
    """Base of every error that dae_sdc raises itself; its text is one line, whatever values it shows.

    Examples
    --------
    >>> try:
    ...     ds.solve("pendulum", rtol=2.0)
    ... except ds.DAEError as error:
    ...     print(error)
    ...
    rtol must be at least 1e-13 and below 1; got 2.0
    """

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class InputError(DAEError, pysdc.ParameterError, ValueError):  # type: ignore[misc]
    """Something the user gave cannot be used; the command line exits with code 2.

    Examples
    --------
    >>> ds.solve("pendulum", rtol=2.0)
    Traceback (most recent call last):
        ...
    dae_sdc.errors.InputError: rtol must be at least 1e-13 and below 1; got 2.0
    """


def text_of(error: BaseException) -> str:
    """The text of an exception, which one of the user may not have."""
    try:
        return str(error)
    except Exception:
        return "a text that cannot be shown"


def words_of(error: BaseException) -> str:
    """The kind and the text of an exception."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# Largest tolerance of residuals and corrections: beyond it anything would be a solution.
LARGEST_TOLERANCE = 1.0
LARGEST_COUNT = 10**9  # Largest count where there is no reason for a smaller one: no run ends with more.


def require_count(name: str, value: object, most: int = LARGEST_COUNT) -> None:
    """Raise :class:`InputError` unless ``value`` is an integer from 1 to ``most``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(f"{name} must be an integer, at least 1; got {value!r}")
    if int(value) > most:
        raise InputError(f"{name} must be at most {most}; got {_short(value)}")


def require_tolerance(name: str, value: object) -> float:
    """``value`` as a float; raises :class:`InputError` unless it is finite, at most LARGEST_TOLERANCE."""
    tolerance = require_number(name, value)
    if not -float("inf") < tolerance <= LARGEST_TOLERANCE:
        raise InputError(f"{name} must be a finite number, at most {LARGEST_TOLERANCE:g}; got {value!r}")
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
    """A state, or a sweeper, was asked for a part that those of DAEs do not have, such as ``impl``."""


class InconsistentStateError(InputError):
    """An initial value violates equations of the DAE.

    Examples
    --------
    >>> try:
    ...     ds.solve("pendulum", u0=[0.6, -0.8, 0.4, 0.4, 0.0], rtol=1e-6)
    ... except ds.InconsistentStateError as error:
    ...     print(error)
    ...
    u0 of Pendulum2D violates hidden constraints at t=0: 'derivative of length' (-0.16);
    start='consistent' takes the nearest consistent values: der(x) from 0.4 to 0.448, der(y) from 0.4 to
    0.336
    """


class MisreadError(InputError):
    """Equations that were read from a function differ from it along a run."""


class UnresolvedError(InputError):
    """Sweeps to the usual residual tolerance have solved an equation to a large part of its terms alone."""

    restol: float  # The tolerance that would solve it.


class NotReducibleError(InputError):
    """Equations were reduced by their derivatives, and are seen along a run to have none, or other ones."""


class ReferenceRangeError(InputError):
    """A reference solution was asked for outside the range it was computed on.

    Examples
    --------
    >>> try:
    ...     ds.TwoTransistorAmplifier().u_exact(10.0)
    ... except ds.ReferenceRangeError as error:
    ...     print(error)
    ...
    the reference of TwoTransistorAmplifier covers t from 0 to 0.2; got t=10
    """


class ResultFileError(InputError):
    """A file is not a readable result of dae_sdc.

    Examples
    --------
    >>> with open("other.npy", "w") as file:
    ...     _ = file.write("no result")
    ...
    >>> try:
    ...     ds.load("other.npy")
    ... except ds.ResultFileError as error:
    ...     print(error)
    ...
    other.npy is not a .npy file; give the .npy file that a dae-sdc study wrote
    """


class DAEWarning(UserWarning):
    """A setting that is allowed but known to give poor results.

    Examples
    --------
    >>> issubclass(ds.DAEWarning, UserWarning)
    True
    """


class SolveError(DAEError):
    """A computation failed numerically; the command line exits with code 1.

    Examples
    --------
    >>> def ends(t, u, du):
    ...     return [du[0] - u[0] ** 2, u[1] - u[0]]
    ...
    >>> solution = ds.solve(ends, u0=[1.0, 1.0], t_end=2.0, rtol=1e-6)
    >>> print(solution.message)
    the steps shrink in proportion to the time left to t=1.000000005, down to dt=5.1e-09 at
    t=0.9999999895, and do not get there: the error is largest in '...'; look there for a singularity
    of the solution or of the equations, and end the run before it
    """


class RemoteError(DAEError):
    """Another process of a parallel run raised an exception that is no :class:`DAEError`.

    Examples
    --------
    >>> issubclass(ds.RemoteError, ds.DAEError)
    True
    """


class EvaluationError(SolveError, pysdc.ProblemError):  # type: ignore[misc]
    """A residual or Jacobian returned NaN or infinity.

    Examples
    --------
    >>> def root(t, u, du):
    ...     return [du[0] - (0.5 - t) ** 0.5 + u[0]]
    ...
    >>> print(ds.solve(root, u0=[1.0], sweeper="backward-euler", dt=0.25, t_end=2.0).message)
    eval_f of root returned nan in 'equation 0' at t=0.75, node 1 of the step from 0.5 with
    dt=0.25; check the initial value and the initial guess, or reduce dt
    """


class SingularMatrixError(SolveError, pysdc.ProblemError):  # type: ignore[misc]
    """An iteration matrix has no inverse.

    Examples
    --------
    >>> issubclass(ds.errors.SingularMatrixError, ds.errors.SolveError)
    True
    """


class JacobianError(SolveError, pysdc.ProblemError):  # type: ignore[misc]
    """A Jacobian that a problem gives is wrong, and no solution is found with it."""


class StepSizeError(SolveError, pysdc.ConvergenceError):  # type: ignore[misc]
    """No step from a state is good enough, however small."""


class TimeLimitError(SolveError):
    """A call took longer than its ``time_limit``; a run that has begun returns its steps instead.

    Examples
    --------
    >>> try:
    ...     ds.structure("pendulum", time_limit=1e-9)
    ... except ds.TimeLimitError as error:
    ...     print(str(error).partition(" while")[0])
    ...
    the time limit of 1e-09 s ran out
    """


class ConvergenceError(SolveError, pysdc.ConvergenceError):  # type: ignore[misc]
    """The sweeps of a step ended above their residual tolerance.

    Examples
    --------
    >>> solution = ds.solve("simple", sweeper="fully-implicit", dt=0.1, maxiter=2, restol=1e-12)
    >>> print(solution.message)
    the sweeps of the step from t=0 with dt=0.1 ended after 2 iterations with residual 1.0e+00 above
    restol=1.0e-12; reduce dt, raise maxiter, or use another Q_Delta; index 2 is declared, with 'z' of
    index 2
    """


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

    Examples
    --------
    >>> def grows(t, u, du):
    ...     return [du[0] - u[0] ** 2]
    ...
    >>> print(ds.solve(grows, u0=[1.0], sweeper="backward-euler", dt=1.0, t_end=2.0).message)
    Newton did not converge at t=1, node 1 of the step from 0 with dt=1: last corrections 1.0e+00,
    1.0e+00, 1.0e+00, 1.0e+00 (tolerance 1.0e-10), worst equation 'equation 0'; reduce dt, or check the
    initial value and the Jacobian
    """

    def __init__(self, message: str, *, time: float, history: Sequence[float], equation: str) -> None:
        super().__init__(message)
        self.time = time
        self.history = tuple(history)
        self.equation = equation
