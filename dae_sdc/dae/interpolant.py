"""Dense output: the solution of a run between the ends of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebder, chebvander

from dae_sdc.dae.state import EndWithInterior, StepPolynomial, Vector, unresolved
from dae_sdc.errors import InputError

STENCIL = 5  # Number of step ends in a difference quotient for u'.
SPREAD_FLOOR = 1e-6  # Change of an unknown over a step, relative to its size, that is assumed at least.
BLOCK = 2**16  # Values of steps that are evaluated together, so that they stay in the cache.
MOST_ROWS = 2048  # Rows of data of a step that a file may have.


class Scheme(NamedTuple):
    """What determines the polynomial of a step, with theta = (t - start) / dt."""

    points: tuple[float, ...]  # Where in theta values of u are given, the first rows of the data of a step.
    slopes: tuple[float, ...] = ()  # Where in theta derivatives by theta are given, the rows that follow.
    first: int = 0  # Number of unknowns that take all rows: those that are integrated.
    without: tuple[int, ...] = ()  # Rows that the polynomials of the other unknowns leave out.

    def weights(self, theta: Vector, order: int) -> tuple[Vector, Vector]:
        """Weights of the rows in u (order 0) or u' dt (1), for the ``first`` unknowns and for the others."""
        # Shapes: theta (K,) -> (K, R) and (K, R).
        few = len(theta) <= FEW
        return weights_at(self, tuple(theta.tolist()), order) if few else self._weights(theta, order)

    def _weights(self, theta: Vector, order: int) -> tuple[Vector, Vector]:
        size = len(self.points) + len(self.slopes)
        rows = [row for row in range(size) if row not in self.without]
        basis = _basis(self.points, self.slopes, tuple(range(size)), order)
        values = _polynomials(theta, len(basis)) @ basis
        if not self.without:
            return values, values
        basis = _basis(self.points, self.slopes, tuple(rows), order)
        others = np.zeros_like(values)
        others[:, rows] = _polynomials(theta, len(basis)) @ basis
        return values, others

    def values(self, theta: Vector, orders: Sequence[int], steps: Sequence[Vector], place: Any) -> Vector:
        """u (order 0) or u' dt (1) in the steps ``place``, whose rows are in ``steps``, (R, n) each."""
        # Shapes: theta and place (K,) -> (orders, K, n).
        n, size = steps[place[0]].shape[1], max(1, BLOCK // steps[place[0]].size)
        values, k = np.zeros((len(orders), len(theta), n)), self.first if self.without else n
        for begin in range(0, len(theta), size):
            block = slice(begin, begin + size)
            numbers = sorted(set(place[block].tolist()))
            data = np.array([steps[number] for number in numbers])[np.searchsorted(numbers, place[block])]
            for into, order in zip(values[:, block], orders, strict=True):
                every, others = self.weights(theta[block], order)
                into[:, :k] = np.einsum("kr,krn->kn", every, data[:, :, :k])
                if k < n:
                    into[:, k:] = np.einsum("kr,krn->kn", others, data[:, :, k:])
        return values


FEW = 2  # Places whose weights are kept: mostly ends of steps.


@lru_cache(maxsize=256)
def weights_at(scheme: Scheme, thetas: tuple[float, ...], order: int = 0) -> tuple[Vector, Vector]:
    """The weights at places that are asked for again and again, see :meth:`Scheme.weights`."""
    return scheme._weights(np.array(thetas), order)


def _polynomials(theta: Vector, count: int) -> Vector:
    """The Chebyshev polynomials on [0, 1] at several places, shape (K, count), as by chebvander."""
    x: Any = 2.0 * theta - 1.0 if len(theta) > 1 else 2.0 * theta.item() - 1.0
    double, values = 2.0 * x, [np.ones(len(theta)) if len(theta) > 1 else 1.0, x]
    while len(values) < count:
        values.append(values[-1] * double - values[-2])
    return np.array(values[:count]).reshape(count, -1).T


@lru_cache(maxsize=128)
def _basis(points: tuple[float, ...], slopes: tuple[float, ...], rows: tuple[int, ...], order: int) -> Vector:
    """Chebyshev coefficients of the polynomials that are 1 in one of the rows and 0 in the others."""
    count = len(rows)
    at_points = chebvander(2.0 * np.array(points) - 1.0, count - 1)
    # Matrix from Chebyshev coefficients on theta in [0, 1] to those of the derivative.
    by_theta = np.asarray(2.0 * chebder(np.eye(count)), dtype=np.float64)
    at_slopes = chebvander(2.0 * np.array(slopes) - 1.0, max(count - 2, 0)) @ by_theta
    coefficients: Vector = np.linalg.inv(np.vstack([at_points, at_slopes])[list(rows)])
    return by_theta @ coefficients if order else coefficients


# Cubic through both ends of a step; the data of a step are u and, where known, u' at its start.
HERMITE = Scheme((0.0, 1.0), (0.0, 1.0))


@lru_cache(maxsize=64)
def _collocation(nodes: tuple[float, ...], n_integrated: int, n_slopes: int) -> Scheme:
    """The collocation polynomial of a step."""
    if nodes[0] != 0.0:
        end = () if nodes[-1] == 1.0 else (1.0,)
        return Scheme((0.0, *nodes, *end), (), n_integrated)
    # The start is one of the M values; what raises the degree is the derivative there, where it is good.
    first = min(n_integrated, n_slopes)
    return Scheme(nodes, (0.0,), first, (len(nodes),)) if first else Scheme(nodes, (), n_integrated)


class StepData(NamedTuple):
    """What is kept of a step for dense output."""

    # time, dt: start and size of the step.
    time: float
    dt: float
    scheme: Scheme  # Meaning of the rows.
    rows: Vector  # Shape (R, n). Values at the points of the scheme, and derivatives times dt.


def step_data(
    time: float,
    dt: float,
    start: Vector,
    end: Vector,
    polynomial: Any,
    collocation: bool,
    n_slopes: int,
    before: Any = None,
) -> StepData:
    """What to keep of a step, as copies."""
    # Shapes: start and end (n,).
    if isinstance(polynomial, EndWithInterior) and polynomial.inner is not None:
        rows = np.vstack([start, polynomial.inner, end])
        return StepData(time, dt, Scheme((0.0, *polynomial.theta, 1.0)), rows)
    if not (collocation and isinstance(polynomial, StepPolynomial)):
        known = start[None].copy() if before is None else np.array([start, before.derivative_at_end()])
        return StepData(time, dt, HERMITE, known)
    _, _, nodes, value, derivative, n_integrated, _ = polynomial
    scheme = _collocation(nodes, n_integrated, n_slopes)
    points, first = scheme.points, nodes[0] != 0.0
    count, number = len(points), len(nodes)
    rows = np.empty((count + len(scheme.slopes), len(start)))
    rows[first : first + number] = value
    if first:
        rows[0] = start
    if scheme.slopes:
        rows[-1] = dt * derivative[0]
    elif nodes[-1] != 1.0:
        rows[-1] = end
    return StepData(time, dt, scheme, rows)


class StepsInRow(Sequence[StepData]):
    """What is kept of collocation steps in a row, made when it is asked for: of most of them nobody asks."""

    def __init__(self, taken: Any, n_slopes: int) -> None:
        self.starts, self.sizes, self._u, self._stages = taken.starts, taken.sizes, taken.u, len(taken.nodes)
        self._scheme = _collocation(taken.nodes, 0 if taken.interior else taken.n_integrated, n_slopes)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[number] for number in range(len(self))[at]]
        number, m = range(len(self))[at], self._stages
        rows = self._u[number * m : (number + 1) * m + 1]
        return StepData(float(self.starts[number]), float(self.sizes[number]), self._scheme, rows)


def steps_of_ends(
    places: Iterable[tuple[float, float]], u: Vector, slope: Vector | None, slopes: Vector
) -> list[StepData]:
    """What is kept of steps in a row that leave u' at their ends behind, ``slopes``: u is their starts."""
    rows = [u[:1] if slope is None else np.array([u[0], slope])]
    rows += [np.array(pair) for pair in zip(u[1:-1], slopes[:-1], strict=True)]
    return [StepData(*place, HERMITE, kept) for place, kept in zip(places, rows, strict=False)]


@dataclass(frozen=True, eq=False)
class DenseOutput:
    """u(t) and u'(t) on all steps of a run.

    References
    ----------
    E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer (1996), sec. IV.8 and VI.
    """

    t0: float  # Start of the run.
    u0: Vector  # Shape (n,). State there.
    ends: Vector  # Shape (S,). Ends of the steps.
    values: Vector  # Shape (S, n). States there.
    steps: Sequence[StepData]  # Data of the S steps.
    du0: Vector  # Shape (n,). u' at the start of the run, NaN where unknown.
    derivatives: Vector  # Shape (S, n). u' at the ends of the steps.
    # Number of leading unknowns whose u' is accurate enough for a Hermite polynomial; that of others comes
    # from the values at the ends of neighbouring steps.
    n_slopes: int
    behind: Vector | None = None  # Shape (2, n). u and u' behind what events change at the end of the run.

    @property
    def t_end(self) -> float:
        """The last time that is covered."""
        return float(self.ends[-1]) if len(self.ends) else self.t0

    @property
    def slack(self) -> float:
        """Largest distance by which round-off may have moved the end, a sum of the sizes of all steps."""
        return round_off_of_times(self.t0, self.t_end, len(self.ends))

    def check(self, times: Any) -> Vector:
        """Times as an array of floats, see :func:`times_within`."""
        return times_within(times, self.t0, self.t_end, "t", self.slack)

    def __call__(self, t: Any) -> Vector:
        """u at ``t``: shape (n,) for a number, (K, n) for K times."""
        times = self.check(t)
        return self.values_at(times.ravel(), 0).reshape(*times.shape, len(self.u0))

    def derivative(self, t: Any) -> Vector:
        """u' at ``t``: shape (n,) for a number, (K, n) for K times."""
        times = self.check(t)
        return self.values_at(times.ravel(), 1).reshape(*times.shape, len(self.u0))

    def values_at(self, times: Vector, *orders: int) -> Vector:
        """u (order 0) and u' (1) at times that are covered."""
        # Shapes: times (K,) -> (orders, K, n).
        every = self._evaluate(times, orders)
        for values, order in zip(every, orders, strict=True):
            if order and not len(self.ends):
                values[:] = self.du0
            elif not order:
                # What was computed there, to the last bit.
                if len(self.ends):
                    at = np.searchsorted(self.ends, times)
                    hit = times == self.ends[at]
                    values[hit] = self.values[at[hit]]
                values[times == self.t0] = self.u0
            if self.behind is not None:
                values[times == self.t_end] = self.behind[order]
        return every

    def sizes_at(self, times: Vector) -> Vector:
        """Sizes of the steps that several times lie in, negative at the ends of these and at the start."""
        # Shapes: times (K,) -> (K,).
        if not len(self.ends):
            return np.zeros(len(times))
        at = np.minimum(np.searchsorted(self.ends, times), len(self.ends) - 1)
        # The last end may differ by round-off from the time that was meant.
        within = (times != self.ends[at]) & (times > self.t0) & (times < self.t_end)
        return np.where(within, self._places[1][at], -self._places[1][at])

    def spread(self, points: int, logarithmic: bool = False) -> Vector:
        """Increasing times between which a picture of the solution can be drawn by straight lines."""
        # Shape of the result: (K,).
        if not len(self.ends):
            return np.array([self.t0])
        starts, ends, within = self._places[0], self.ends, -(-points // len(self.ends)) + 1
        inner = starts[:, None] + np.outer(self._places[1], np.arange(1, within) / within)
        begins = np.array([step.rows[0] for step in self.steps[1:]])
        jumps = ends[:-1][(begins != self.values[:-1]).any(axis=1)] if len(begins) else ends[:0]
        parts = [inner.ravel(), ends, np.linspace(self.t0, ends[-1], points), np.nextafter(jumps, np.inf)]
        parts += [] if self.behind is None else [np.nextafter(ends[-1:], -np.inf)]
        if logarithmic:
            parts.append(self.t0 + np.geomspace(0.1 * self._places[1][0], ends[-1] - self.t0, points))
        times: Vector = np.unique(np.concatenate(parts))
        return times.clip(self.t0, self.t_end)

    def largest(self) -> Vector:
        """Largest absolute value of every unknown at the ends of steps, shape (n,)."""
        return np.asarray(np.abs(np.vstack([self.u0, self.values])).max(axis=0))

    def errors_between(self, times: Vector) -> Vector:
        """Estimated errors of integrated unknowns between the nodes in the steps of several times."""
        # Shapes: times (K,) -> (n,).
        errors = np.zeros(len(self.u0))
        for number in set(np.searchsorted(self.ends, times).tolist()):
            scheme, rows = self.polynomial(number)
            k = scheme.first
            if k and not scheme.slopes:
                np.maximum(errors[:k], unresolved(scheme.points[1:], rows[:, :k]), out=errors[:k])
        return errors

    def _evaluate(self, times: Vector, orders: Sequence[int]) -> Vector:
        """u or u' from the polynomials; at the end of a step from the step that ends there."""
        values = np.empty((len(orders), len(times), len(self.u0)))
        if not len(self.ends):
            return values
        at = np.searchsorted(self.ends, times)
        theta = (times - self._places[0][at]) / self._places[1][at]
        numbers = sorted(set(at.tolist()))
        place, polynomials = np.searchsorted(numbers, at), [self.polynomial(number) for number in numbers]
        schemes, rows = zip(*polynomials, strict=True) if polynomials else ((), ())
        for scheme in dict.fromkeys(schemes):
            chosen = np.flatnonzero(np.array([other == scheme for other in schemes])[place])
            values[:, chosen] = scheme.values(theta[chosen], orders, rows, place[chosen])
        values[[order > 0 for order in orders]] /= self._places[1][at][:, None]
        return values

    @cached_property
    def _places(self) -> tuple[Vector, Vector]:
        """Starts and sizes of the steps, shape (S,) each."""
        if isinstance(self.steps, StepsInRow):
            return self.steps.starts, self.steps.sizes
        return np.array([step.time for step in self.steps]), np.array([step.dt for step in self.steps])

    def polynomial(self, number: int) -> tuple[Scheme, Vector]:
        """Scheme and rows of a step."""
        step = self.steps[number]
        scheme, rows = step.scheme, step.rows
        if scheme == HERMITE:
            if len(rows) == 4:
                return scheme, rows
            size, (before, after) = step.dt, self._slopes[number]
            return scheme, np.stack([rows[0], self.values[number], size * before, size * after])
        if number == 0 and scheme.first < len(self.u0) and not scheme.without:
            return self._without_guess(scheme, rows), rows
        return scheme, rows

    def _without_guess(self, scheme: Scheme, rows: Vector) -> Scheme:
        """The scheme of the first step, without start values of z that do not fit the values at the nodes."""
        # From index 2 on an initial z need not satisfy any equation. It fits if the polynomial through the
        # nodes, continued to the start, departs from it by no more than the spread of those values.
        alone, others = scheme._replace(without=(0,)), rows[:, scheme.first :]
        gap = np.abs(alone.weights(np.zeros(1), 0)[1] @ others - others[0])
        spread = np.ptp(others[1:], axis=0)
        if not spread.any():
            return scheme  # one node, from which nothing can be concluded
        limit = spread + SPREAD_FLOOR * np.abs(others[1:]).max(axis=0)
        return alone if (gap > limit).any() else scheme

    # --- Hermite polynomials --------------------------------------------------------------------------------

    @cached_property
    def _slopes(self) -> Vector:
        """u' at both ends of every step, shape (S, 2, n), for steps that leave no polynomial behind."""
        k, count = self.n_slopes, len(self.ends)
        slopes = np.full((count, 2, len(self.u0)), np.nan)
        begins = np.array([step.rows[0] for step in self.steps])
        for number, step in enumerate(self.steps):
            if len(step.rows) > 1:
                slopes[number, 0] = step.rows[1]
        # Beyond an event u or u' may jump.
        goes_on = (begins[1:] == self.values[:-1]) & (
            (slopes[1:, 0] == self.derivatives[:-1]) | np.isnan(slopes[1:, 0])
        )
        breaks = [0, *(np.flatnonzero(~goes_on.all(axis=1)) + 1).tolist(), count]
        if np.isnan(slopes[0, 0]).any():
            slopes[0, 0] = self.du0
        slopes[:, 1] = self.derivatives
        slopes[:, :, k:] = np.nan
        for low, high in pairwise(breaks):
            times = np.concatenate([self._places[0][low : low + 1], self.ends[low:high]])
            quotients = _difference_quotients(times, np.vstack([begins[low], self.values[low:high]]))
            both = np.stack([quotients[:-1], quotients[1:]], axis=1)
            slopes[low:high] = np.where(np.isnan(slopes[low:high]), both, slopes[low:high])
        return slopes

    # --- files ----------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, Vector]:
        """All of it as named arrays of numbers, for a file; :meth:`from_arrays` is the inverse."""
        starts, sizes = (places.tolist() for places in self._places)
        places = enumerate(zip(starts, sizes, strict=True))
        steps = [StepData(start, size, *self.polynomial(number)) for number, (start, size) in places]
        packed: dict[str, Any] = {"t0": np.array(self.t0), **{name: getattr(self, name) for name in STORED}}
        packed |= packed_steps(steps)
        return packed if self.behind is None else packed | {"behind": self.behind}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Vector]) -> DenseOutput:
        """The dense output that :meth:`arrays` has written."""
        _check_arrays(arrays)
        stored = {name: arrays[name] for name in (*STORED, *({"behind"} & arrays.keys()))}
        return cls(t0=float(arrays["t0"]), steps=unpacked_steps(arrays), n_slopes=0, **stored)


PLACES = ("points", "slopes", "without")  # Fields of :class:`Scheme` with several numbers.
STORED = ("u0", "du0", "ends", "values", "derivatives")  # Attributes that a file has as they are.


def _check_arrays(arrays: Mapping[str, Vector]) -> None:
    """Raise ValueError or KeyError where arrays are not such as :meth:`DenseOutput.arrays` makes."""
    count, n = len(arrays["ends"]), len(arrays["u0"])
    shapes: dict[str, tuple[int, ...]] = {"t0": (), "u0": (n,), "du0": (n,), "ends": (count,)}
    shapes |= {"values": (count, n), "derivatives": (count, n), "starts": (count,), "sizes": (count,)}
    schemes, of_each = np.unique(arrays["scheme"], return_counts=True)
    whole = {"scheme"}
    for i, uses in zip(schemes.tolist(), of_each.tolist(), strict=True):
        points, slopes = (len(arrays[f"{name}{i}"]) for name in ("points", "slopes"))
        if not 1 < points + slopes <= MOST_ROWS or len(np.unique(arrays[f"points{i}"])) < points:
            raise ValueError(f"scheme {i} is no polynomial")
        shapes |= {f"points{i}": (points,), f"slopes{i}": (slopes,), f"rows{i}": (uses, points + slopes, n)}
        shapes |= {f"first{i}": (), f"without{i}": (len(arrays[f"without{i}"]),)}
        whole |= {f"first{i}", f"without{i}"}
        if not 0 <= int(arrays[f"first{i}"]) <= n or not set(arrays[f"without{i}"].tolist()) <= set(
            range(points + slopes)
        ):
            raise ValueError(f"scheme {i} has rows that do not exist")
    shapes |= {"behind": (2, n)} if "behind" in arrays else {}
    for name, shape in {**shapes, "scheme": (count,)}.items():
        if arrays[name].shape != shape or arrays[name].dtype.kind != ("i" if name in whole else "f"):
            raise ValueError(f"{name} is no array of shape {shape}")
    if not (np.diff(arrays["ends"]) > 0.0).all() or not (arrays["sizes"] > 0.0).all():
        raise ValueError("times do not increase")


def packed_steps(steps: Sequence[StepData]) -> dict[str, Vector]:
    """The data of steps as named arrays of numbers, for a file; :func:`unpacked_steps` is the inverse."""
    forms = list(dict.fromkeys((step.scheme, len(step.rows)) for step in steps))
    of_each = [forms.index((step.scheme, len(step.rows))) for step in steps]
    starts, sizes = np.array([step[:2] for step in steps]).reshape(-1, 2).T
    packed: dict[str, Any] = {"starts": starts, "sizes": sizes, "scheme": np.array(of_each, dtype=np.int64)}
    for i, (scheme, _) in enumerate(forms):
        for name, value in scheme._asdict().items():
            packed[f"{name}{i}"] = np.array(value, float if name in ("points", "slopes") else np.int64)
        packed[f"rows{i}"] = np.array(
            [step.rows for step, own in zip(steps, of_each, strict=True) if own == i]
        )
    return packed


def unpacked_steps(arrays: Mapping[str, Vector]) -> list[StepData]:
    """The data of steps that :func:`packed_steps` has written."""
    schemes: dict[int, tuple[Scheme, Iterator[Vector]]] = {}
    for i in set(arrays["scheme"].tolist()):
        points, slopes, without = (tuple(arrays[f"{name}{i}"].tolist()) for name in PLACES)
        schemes[i] = Scheme(points, slopes, int(arrays[f"first{i}"]), without), iter(arrays[f"rows{i}"])
    parts = zip(*(arrays[name].tolist() for name in ("starts", "sizes", "scheme")), strict=True)
    return [StepData(start, size, schemes[i][0], next(schemes[i][1])) for start, size, i in parts]


def round_off_of_times(first: float, last: float, steps: int) -> float:
    """Bound of the round-off in a time that is a sum of step sizes."""
    return (steps + 2) * float(np.finfo(float).eps) * max(abs(first), abs(last))


def times_within(times: Any, first: float, last: float, label: str, slack: float = 0.0) -> Vector:
    """Times as an array of floats, those outside the range by no more than ``slack`` moved to its ends."""
    # Shapes: times () or (K,) -> () or (K,).
    try:
        found = np.array(times, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{label} must be a time or an array of times; got {times!r}") from None
    if found.ndim > 1:
        raise InputError(f"{label} must be a time or an array of times; got an array of shape {found.shape}")
    outside = found[~((found >= first - slack) & (found <= last + slack))]
    if outside.size:
        raise InputError(
            f"{label} is {outside[0]:.10g}, outside the range [{first:.10g}, {last:.10g}] of the solution; "
            f"take times within it"
        )
    clipped: Vector = np.clip(found, first, last)
    return clipped


def _difference_quotients(times: Vector, values: Vector) -> Vector:
    """u' at all times from the polynomials through the nearest values, shape (K, n)."""
    count = min(STENCIL, len(times))
    first = np.clip(np.arange(len(times)) - count // 2, 0, len(times) - count)
    near = first[:, None] + np.arange(count)
    offsets = times[near] - times[:, None]
    size = np.abs(offsets).max(axis=1, keepdims=True)
    powers = np.swapaxes((offsets / size)[:, :, None] ** np.arange(count), 1, 2)
    derivative = np.zeros((len(times), count, 1))
    derivative[:, 1] = 1.0
    weights = np.linalg.solve(powers, derivative)[:, :, 0] / size
    quotients: Vector = np.einsum("kj,kjn->kn", weights, values[near])
    return quotients
