"""Stored reference solutions of problems."""

from __future__ import annotations

import functools
import io
from importlib import resources
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError, ReferenceRangeError
from dae_sdc.problems._parameters import LibraryProblem, require_defaults


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


class StoredReference:
    """Reference solution of a problem with its default parameters at any time of the stored interval.

    ``tools/make_references.py`` makes the data; the JSON file beside each states the method and the
    difference of two independent methods. Values are accurate to 1e-11, derivatives to 1e-9, relative to the
    largest value of the component and of its derivative. At an event, both are those before it.

    Parameters
    ----------
    name : str
        Name of the files in ``dae_sdc/problems/data`` and of the problem.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def interval(self) -> tuple[float, float]:
        """First and last time of the stored data."""
        breaks = load(self.name).breaks
        return float(breaks[0]), float(breaks[-1])

    def value(self, problem: LibraryProblem, t: float) -> Vector:
        """The solution at time ``t``, shape (n,).

        Raises
        ------
        ReferenceRangeError
            Outside the stored range, or if ``problem`` has other than its default parameters.
        """
        x, coefficients, _ = self._piece(problem, t)
        return np.asarray(chebyshev.chebval(x, coefficients))

    def derivative(self, problem: LibraryProblem, t: float) -> Vector:
        """The derivative of the solution at time ``t``, shape (n,); raises like :meth:`value`."""
        x, coefficients, scale = self._piece(problem, t)
        return np.asarray(chebyshev.chebval(x, chebyshev.chebder(coefficients, scl=scale)))

    def _piece(self, problem: LibraryProblem, t: float) -> tuple[float, Vector, float]:
        """x in [-1, 1] of ``t`` in its piece, the coefficients of the piece, and dx/dt."""
        require_defaults(problem)
        breaks, coefficients = load(self.name)
        start, end = breaks[0], breaks[-1]
        # A sum of time steps misses the end of the interval by round-off.
        slack = 1e-9 * (end - start)
        if not start - slack <= t <= end + slack:
            raise ReferenceRangeError(
                f"the reference of {type(problem).__name__} covers t from {start:g} to {end:g}; got t={t:g}"
            )
        piece = min(max(int(np.searchsorted(breaks, t, side="left")) - 1, 0), len(breaks) - 2)
        scale = 2.0 / float(breaks[piece + 1] - breaks[piece])
        return (t - float(breaks[piece])) * scale - 1.0, coefficients[piece], scale


class ReferencedProblem(LibraryProblem):
    """A problem with a start for all parameters and a :class:`StoredReference` for the default ones."""

    stored: ClassVar[StoredReference]

    def _start(self) -> npt.ArrayLike:
        """The state at t = 0, shape (n,)."""
        raise InputError(f"{type(self).__name__} has no initial value")

    def _initial_derivative(self) -> npt.ArrayLike:
        """The derivative at t = 0, shape (n,)."""
        raise InputError(f"{type(self).__name__} has no derivative at the start")

    def u_exact(self, t: float) -> MeshDAE:
        """The initial value at t = 0 for any parameters, the stored reference elsewhere."""
        return self.state(self._start() if t == 0.0 else self.stored.value(self, t))

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative at t = 0 for any parameters, that of the stored reference elsewhere."""
        return self.state(self._initial_derivative() if t == 0.0 else self.stored.derivative(self, t))
