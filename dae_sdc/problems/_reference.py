"""What the problems of the library share: checks of their parameters and stored reference solutions."""

from __future__ import annotations

import functools
import inspect
import io
import math
from collections.abc import Mapping
from importlib import resources
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, ReferenceRangeError


def require_positive(problem: ProblemDAE, *names: str) -> None:
    """Raise :class:`InputError` unless the named parameters of ``problem`` are positive and finite."""
    for name in names:
        value = getattr(problem, name)
        if not isinstance(value, (int, float, np.number)) or not 0.0 < value < math.inf:
            raise InputError(f"{name} of {type(problem).__name__} must be positive and finite; got {value!r}")


def require_finite(problem: ProblemDAE, *names: str) -> None:
    """Raise :class:`InputError` unless the named parameters of ``problem`` are finite numbers."""
    for name in names:
        value = getattr(problem, name)
        if not isinstance(value, (int, float, complex, np.number)) or not np.isfinite(value):
            raise InputError(f"{name} of {type(problem).__name__} must be finite; got {value!r}")


class ManyParameters(ProblemDAE):
    """A problem whose parameters are a table: the constructor takes all of them by name.

    Parameters
    ----------
    n_diff, n_alg : int
        Numbers of unknowns.
    **settings
        Values of parameters, and the settings of :class:`ProblemDAE`.

    Attributes
    ----------
    defaults : mapping of str to number
        Default value of every parameter, in their order.
    """

    defaults: ClassVar[Mapping[str, complex]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "defaults" in cls.__dict__:
            kind = inspect.Parameter.KEYWORD_ONLY
            given = [inspect.Parameter(name, kind, default=value) for name, value in cls.defaults.items()]
            rest = inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)
            cls.__signature__ = inspect.Signature([*given, rest])
        elif "__init__" in cls.__dict__:
            own = inspect.signature(cls.__dict__["__init__"]).parameters
            cls.__signature__ = inspect.Signature(list(own.values())[1:])

    def __init__(self, n_diff: int, n_alg: int, **settings: Any) -> None:
        values = {name: settings.pop(name, default) for name, default in self.defaults.items()}
        super().__init__(n_diff, n_alg, **settings)
        self._makeAttributeAndRegister(*values, localVars=values)


class Pieces(NamedTuple):
    """A piecewise polynomial.

    Parameters
    ----------
    breaks : ndarray
        Ends of the P pieces, shape (P + 1,), increasing.
    coefficients : ndarray
        Chebyshev coefficients on each piece mapped to [-1, 1], shape (P, K, n).
    """

    breaks: Vector
    coefficients: Vector


@functools.cache
def load(name: str) -> Pieces:
    """The stored piecewise polynomial ``name``, read once."""
    content = (resources.files("dae_sdc.problems") / "data" / f"{name}.npz").read_bytes()
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return Pieces(stored["breaks"], stored["coefficients"])


@functools.cache
def _defaults(problem_class: Any) -> dict[str, Any]:
    """Default value of every parameter of the constructor of a problem."""
    given = inspect.signature(problem_class).parameters.values()
    return {p.name: p.default for p in given if p.kind is not inspect.Parameter.VAR_KEYWORD}


class StoredReference:
    """Reference solution of a problem with its default parameters, evaluated anywhere in its range.

    The data are made by ``tools/make_references.py``; the JSON file beside each says how and how far two
    independent methods agree. Values are accurate to 1e-11, derivatives to 1e-9, relative to the largest
    value of the component and of its derivative. At an event, value and derivative are those before it.

    Parameters
    ----------
    name : str
        Name of the files in ``dae_sdc/problems/data``, which is the name of the problem.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def interval(self) -> tuple[float, float]:
        """First and last time of the stored data."""
        breaks = load(self.name).breaks
        return float(breaks[0]), float(breaks[-1])

    def value(self, problem: ProblemDAE, t: float) -> Vector:
        """The solution at time ``t``, shape (n,).

        Raises
        ------
        ReferenceRangeError
            Outside the stored range, or if ``problem`` has other than its default parameters.
        """
        x, coefficients, _ = self._piece(problem, t)
        return np.asarray(chebyshev.chebval(x, coefficients))

    def derivative(self, problem: ProblemDAE, t: float) -> Vector:
        """The derivative of the solution at time ``t``, shape (n,); raises like :meth:`value`."""
        x, coefficients, scale = self._piece(problem, t)
        return np.asarray(chebyshev.chebval(x, chebyshev.chebder(coefficients, scl=scale)))

    def _piece(self, problem: ProblemDAE, t: float) -> tuple[float, Vector, float]:
        """Place of ``t`` in its piece, the coefficients there, and dx/dt."""
        problem_class: Any = type(problem)
        for parameter, default in _defaults(problem_class).items():
            if getattr(problem, parameter) != default:
                raise ReferenceRangeError(
                    f"the reference of {type(problem).__name__} is for default parameters and this one has "
                    f"{parameter}={getattr(problem, parameter)}; compute a reference with a tight tolerance"
                )
        breaks, coefficients = load(self.name)
        start, end = breaks[0], breaks[-1]
        # Times that a run reaches by adding steps miss the end by round-off.
        slack = 1e-9 * (end - start)
        if not start - slack <= t <= end + slack:
            raise ReferenceRangeError(
                f"the reference of {type(problem).__name__} covers t from {start:g} to {end:g}; got t={t:g}"
            )
        piece = min(max(int(np.searchsorted(breaks, t, side="left")) - 1, 0), len(breaks) - 2)
        scale = 2.0 / float(breaks[piece + 1] - breaks[piece])
        return (t - float(breaks[piece])) * scale - 1.0, coefficients[piece], scale
