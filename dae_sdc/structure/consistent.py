r"""Points at which equations and their derivatives hold, and ranks there.

A random point is no point of a solution: the factor of z in :math:`x' - y + z (x - \sin t) = 0` vanishes
where :math:`x = \sin t` is another equation, and nowhere else. So the equations are expanded in the Taylor
coefficients of the unknowns, and solved by the Gauss-Newton method, in doubles and then with many digits.
What is 0 at several such points with many digits is 0 on the whole component of the solutions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import factorial, perm
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.sparse.linalg import splu

from dae_sdc.expressions.dag import UNKNOWN, VEIL, Leaf
from dae_sdc.structure.blocks import Block
from dae_sdc.structure.rank import RankTest
from dae_sdc.structure.real_series import RealArithmetic, Tape, doubles, many_digits
from dae_sdc.structure.signature import Integers

if TYPE_CHECKING:
    from dae_sdc.structure.series import Series
    from dae_sdc.structure.signature import ModelWithGraph

Jet = tuple[int, int]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """Settings of the search for points.

    Parameters
    ----------
    points : int
        Points that are looked for.
    spreads : tuple of float
        Distances from the start values, in units of 1 + their sizes, one for each attempt.
    apart : float
        Distance of further points from the first.
    most_iterations : int
        Most steps of the Gauss-Newton method.
    patience : int
        Steps in a row that bring little after which it ends.
    stiff : float
        Part of a step of a derivative that one of an unknown counts for.
    fast : float
        Time in which unknowns change in every other attempt, relative to the interval.
    converged : float
        Step, relative to 1 + the size of the Taylor coefficients, after which it has converged.
    dependent : float
        Singular value, relative to the largest, of rows of size 1 that counts as 0 in a step.
    dense : int
        Entries of a Jacobian up to which it is decomposed by singular values.
    vanishing : float
        Value of a row, relative to its terms, that is 0 at a point with further derivatives.
    small : float
        Entry of a system Jacobian, relative to the largest, that may be an error of a point.
    tiny : float
        Number that is 0 in the arithmetic with many digits.
    """

    points: int = 2
    spreads: tuple[float, ...] = (0.05, 0.05, 0.2, 0.2, 0.7, 0.7, 2.0, 2.0)
    apart: float = 0.1
    most_iterations: int = 60
    patience: int = 15
    stiff: float = 0.1
    fast: float = 0.01
    converged: float = 1e-11
    dependent: float = 1e-11
    dense: int = 100_000
    vanishing: float = 1e-9
    small: float = 1e-10
    tiny: float = 1e-35


SETTINGS = Settings()


@dataclass(frozen=True)
class Start:
    """Where points are looked for.

    Parameters
    ----------
    values : mapping of (int, int) to float
        Start values of unknowns and derivatives.
    parameters : sequence of (float or None)
        Values of the parameters.
    t, span : float
        Time, and the length of the interval.
    general : bool
        Whether parameters are changed a little, so that ranks are those of general values.
    """

    values: Mapping[Jet, float] = field(default_factory=dict)
    parameters: Sequence[float | None] = ()
    t: float = 0.0
    span: float = 1.0
    general: bool = True

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others."""
        return tuple(self.values.items()), tuple(self.parameters), self.t, self.span, self.general

    @staticmethod
    def of(model: Any, guesses: Mapping[Jet, float] | None = None, t: float | None = None) -> Start:
        """What a model says, with other guesses before its own."""
        own = getattr(model, "start_of_search", None)
        if own is not None:
            return own  # type: ignore[no-any-return]
        variables = getattr(model, "variables_by_name", {}).values()
        values = {(j, k): value for j, one in enumerate(variables) for k, value in one.start.items()}
        parameters = [entry.value for entry in getattr(model, "parameters_by_name", {}).values()]
        begin, end = getattr(model, "interval", (0.0, 1.0))
        t = float(begin) if t is None else t
        return Start({**values, **(guesses or {})}, parameters, t, float(end) - float(begin))


class Prolongation:
    r"""Equations and their derivatives, in Taylor coefficients of the unknowns.

    Row (i, m) is :math:`f_i^{(m)} / m!`, column (j, k) is :math:`x_j^{(k)} / k!`.

    Parameters
    ----------
    graph : Graph
        Expressions.
    roots : sequence of int
        The node of each equation.
    times : sequence of int
        How often each equation is differentiated; -1 for one that is left out.
    highest : sequence of int
        Highest derivative of each unknown that the rows contain.
    """

    def __init__(
        self, graph: Any, roots: Sequence[int], times: Sequence[int], highest: Sequence[int]
    ) -> None:
        self.graph, self.times, self.highest, self._every = graph, list(times), list(highest), list(roots)
        self.order = max(0, *self.times)
        self.columns = [(j, k) for j, top in enumerate(highest) for k in range(top + 1)]
        self.place = {jet: at for at, jet in enumerate(self.columns)}
        self._own = [i for i, most in enumerate(self.times) if most >= 0]
        self._roots = [roots[i] for i in self._own]
        self.rows = [(i, m) for i in self._own for m in range(self.times[i] + 1)]
        self._slopes = [
            (i, graph.leaves[leaf].index, graph.leaves[leaf].order, node)
            for i, root in zip(self._own, self._roots, strict=True)
            for leaf, node in graph.gradient(root).items()
            if graph.leaves[leaf].kind == "u"
        ]

    def scales(self, pace: float) -> Floats:
        """Sizes of changes of the Taylor coefficients of unknowns that change in a time of length pace."""
        # Derivatives, of which little is known, change rather than the unknowns themselves.
        return np.array([SETTINGS.stiff if k == 0 else pace**-k for _, k in self.columns])

    def lowered(self, by: int) -> Prolongation:
        """The rows of an earlier stage: all differentiated less, for unknowns of lower orders."""
        highest = [max(0, top - by) for top in self.highest]
        return Prolongation(self.graph, self._every, [most - by for most in self.times], highest)

    def leaf_series(self, x: Sequence[Any], t: Any, p: Sequence[Any], order: int) -> Callable[[Leaf], Series]:
        """Series of the leaves at Taylor coefficients x, which are 0 beyond the last."""

        def series(leaf: Leaf) -> Series:
            if leaf.kind == "t":
                return [t, 1] if order else [t]
            if leaf.kind == "p":
                # Where nobody gives values, any number that is nothing special will do.
                return [p[leaf.index] if leaf.index < len(p) else t * 0 + 0.7 + 0.013 * leaf.index]
            j, k = leaf.index, leaf.order
            found: list[Any] = [
                x[self.place[j, k + m]] * perm(k + m, k) for m in range(order + 1) if (j, k + m) in self.place
            ]
            return found or [0]

        return series

    def values(self, point: Point, x: Sequence[Any], context: Any) -> list[Any] | None:
        """All rows at Taylor coefficients x; None where one has no value."""
        found = self._curves.series(point, x, context)
        if found is None:
            return None
        return self._picked(found)

    def residual(self, point: Point, x: Floats) -> Floats | None:
        """All rows at Taylor coefficients x, in doubles; None where one has no value."""
        found = self._curves.coefficients(point, x)
        if found is None:
            return None
        powers, roots = self._places
        return found[powers, roots]

    def matrix(self, point: Point, x: Floats) -> tuple[Floats, Any] | None:
        """All rows and their derivatives as a matrix, in doubles; None where one is not finite."""
        found = self._whole_curves.coefficients(point, x)
        if found is None:
            return None
        powers, roots = self._places
        rows, columns, powers_of_slopes, slopes, factors = self._pattern
        residual, entries = found[powers, roots], found[powers_of_slopes, slopes] * factors
        if not (np.isfinite(entries).all() and np.isfinite(residual).all()):
            return None
        shape = (len(self.rows), len(self.columns))
        matrix = sparse.coo_matrix((entries, (rows, columns)), shape=shape)
        return residual, matrix.tocsr() if shape[0] * shape[1] > SETTINGS.dense else matrix.toarray()

    @cached_property
    def _places(self) -> tuple[Integers, Integers]:
        """Powers and roots of the rows."""
        number = {i: at for at, i in enumerate(self._own)}
        return np.array([m for _, m in self.rows], dtype=np.int64), np.array(
            [number[i] for i, _ in self.rows], dtype=np.int64
        )

    @cached_property
    def _pattern(self) -> tuple[Integers, Integers, Integers, Integers, Floats]:
        """Rows, columns, powers, roots and factors of the derivatives of the rows."""
        first = dict(zip(self._own, self._row_numbers(), strict=True))
        entries = [
            ((first[i] + m, self.place[j, q + r], m - r, at), float(perm(q + r, q)))
            for at, (i, j, q, _) in enumerate(self._slopes, len(self._roots))
            for m in range(self.times[i] + 1)
            for r in range(m + 1)
            if (j, q + r) in self.place
        ]
        table = np.array([places for places, _ in entries], dtype=np.int64).reshape(-1, 4)
        return *table.T, np.array([factor for _, factor in entries])

    def _picked(self, found: Sequence[Series]) -> list[Any]:
        return [
            series[m] if m < len(series) else 0
            for i, series in zip(self._own, found, strict=True)
            for m in range(self.times[i] + 1)
        ]

    @cached_property
    def _curves(self) -> _Curves:
        return _Curves(self, self._roots)

    @cached_property
    def _whole_curves(self) -> _Curves:
        return _Curves(self, [*self._roots, *(node for *_, node in self._slopes)])

    def linearized(
        self, point: Point, x: Sequence[Any], context: Any
    ) -> tuple[list[Any], dict[tuple[int, int], Any]] | None:
        """All rows and their derivatives, by row and column; None where there are none."""
        found = self._whole_curves.series(point, x, context)
        if found is None:
            return None
        first = dict(zip(self._own, self._row_numbers(), strict=True))
        entries: dict[tuple[int, int], Any] = {}
        for (i, j, q, _), series in zip(self._slopes, found[len(self._roots) :], strict=True):
            for m in range(self.times[i] + 1):
                for r in range(max(0, m - len(series) + 1), m + 1):
                    column = self.place.get((j, q + r))
                    value = series[m - r]
                    if column is not None and value:
                        key = first[i] + m, column
                        entries[key] = entries.get(key, 0) + value * perm(q + r, q)
        return self._picked(found[: len(self._roots)]), entries

    def _row_numbers(self) -> Iterable[int]:
        at = 0
        for i in self._own:
            yield at
            at += self.times[i] + 1


class _Curves:
    """Expressions along the curves of a prolongation."""

    def __init__(self, system: Prolongation, nodes: Sequence[int]) -> None:
        self._system, self._tape = system, Tape(system.graph, nodes)

    def series(self, point: Point, x: Sequence[Any], context: Any) -> list[Series] | None:
        """Their series at Taylor coefficients x; None where one has no value."""
        order = self._system.order
        leaves = self._system.leaf_series(x, context.mpf(point.t), [context.mpf(v) for v in point.p], order)
        found = self._tape.evaluate(RealArithmetic(order, context), leaves)
        known = [series for series in found if series is not None]
        return known if len(known) == len(found) else None

    def coefficients(self, point: Point, x: Floats) -> Floats | None:
        """Their coefficients in doubles, of shape (order + 1, nodes); None where one has no value."""
        if self._tape.is_wide:
            found = self._tape.coefficients(self._leaves(point, x))
            return None if np.isnan(found).any() else found
        series = self.series(point, x.tolist(), doubles())
        if series is None:
            return None
        found = np.zeros((self._system.order + 1, len(series)))
        for at, one in enumerate(series):
            found[: len(one), at] = one
        return found

    def _leaves(self, point: Point, x: Floats) -> Floats:
        places, factors, others = self._jets
        found: Floats = np.append(x, 0.0)[places] * factors
        series = self._system.leaf_series((), point.t, point.p, self._system.order)
        for at in others:
            one = series(self._tape.leaves[at])
            found[: len(one), at] = one
        return found

    @cached_property
    def _jets(self) -> tuple[Integers, Floats, list[int]]:
        """Places of the leaves in the Taylor coefficients, factors, and leaves that are no unknowns."""
        leaves, place = self._tape.leaves, self._system.place
        shape = self._system.order + 1, len(leaves)
        places, factors = np.full(shape, -1, dtype=np.int64), np.zeros(shape)
        for at, (kind, j, k) in enumerate(leaves):
            for m in range(shape[0] if kind == "u" else 0):
                if (j, k + m) in place:
                    places[m, at], factors[m, at] = place[j, k + m], perm(k + m, k)
        return places, factors, [at for at, leaf in enumerate(leaves) if leaf.kind != "u"]


@dataclass(eq=False)
class Point:
    """A point at which the rows of a prolongation vanish.

    Parameters
    ----------
    system : Prolongation
        The rows.
    x : ndarray, shape (columns,)
        Taylor coefficients.
    t : float
        Time.
    p : sequence of float
        Parameters.
    pace : float
        Time in which unknowns were taken to change when it was found.
    """

    system: Prolongation
    x: Floats
    t: float
    p: Sequence[float]
    pace: float = 1.0

    @cached_property
    def digits(self) -> tuple[Any, list[Any]] | None:
        """Arithmetic with many digits, and the point in it; None if the rows do not vanish near it."""
        context = many_digits()
        system = self.system
        made = system.matrix(self, self.x)
        if made is None:
            return None
        least = _Least(made[1], system.scales(self.pace))
        x = [context.mpf(value) for value in self.x]
        goal = context.mpf(10) ** (10 - context.dps)
        size = 1 + max(map(abs, x), default=0)
        last = context.inf
        for _ in range(40):
            residual = system.values(self, x, context)
            if residual is None:
                return None
            largest = max(map(abs, residual), default=context.mpf(0))
            if largest <= goal * size:
                return context, x
            if not largest < last:
                return None
            last = largest
            step = least.solve(np.array([-float(value / largest) for value in residual]))
            x = [
                value + largest * context.mpf(change) for value, change in zip(x, step.tolist(), strict=True)
            ]
        return None

    def evaluate(self, nodes: Sequence[int], exact: bool = False) -> list[Any] | None:
        """Values of expressions, in doubles or with many digits; None where one has none."""
        found_at = self.digits if exact else (doubles(), self.x.tolist())
        if found_at is None:
            return None
        context, x = found_at
        ring = RealArithmetic(0, context)
        leaves = self.system.leaf_series(x, context.mpf(self.t), [context.mpf(v) for v in self.p], 0)
        found = Tape(self.system.graph, nodes).evaluate(ring, leaves)
        if any(series is None for series in found):
            return None
        return [series[0] for series in found if series is not None]


class _Least:
    """The shortest solutions of linear equations, which may depend on one another."""

    def __init__(self, matrix: Any, scales: Floats) -> None:
        self._scales = scales
        self._dense = isinstance(matrix, np.ndarray)
        if self._dense:
            matrix = matrix * scales
            sizes = np.linalg.norm(matrix, axis=1)
        else:
            matrix = matrix @ sparse.diags(scales)
            sizes = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
        self._rows = np.where(sizes > 0.0, sizes, 1.0)
        if self._dense:
            left, values, right = np.linalg.svd(matrix / self._rows[:, None], full_matrices=False)
            rank = int((values > SETTINGS.dependent * values.max(initial=0.0)).sum())
            self._left, self._values, self._right = left[:, :rank], values[:rank], right[:rank]
            return
        scaled = sparse.csr_matrix(sparse.diags(1.0 / self._rows) @ matrix)
        k, n = scaled.shape
        self._scaled = scaled
        # A little off the diagonal of zeros, so that rows that depend on others have factors.
        blocks = [[sparse.identity(n), scaled.T], [scaled, -1e-12 * sparse.identity(k)]]
        self._factors = splu(sparse.csc_matrix(sparse.bmat(blocks)))

    def solve(self, rhs: Floats, damping: float = 0.0) -> Floats:
        """The solution; with damping, that of least squares of the rows and of the damped solution."""
        left = rhs / self._rows
        if self._dense:
            own = self._left.T @ left
            found: Floats = self._right.T @ (own * self._values / (self._values**2 + damping))
            return self._scales * found
        if damping:
            return self.solve(rhs) / (1.0 + damping)
        n = self._scaled.shape[1]
        total = np.zeros(n)
        for _ in range(3):
            total = total + self._factors.solve(np.concatenate([np.zeros(n), left]))[:n]
            left = rhs / self._rows - self._scaled @ total
        return self._scales * total

    def norm(self, values: Floats) -> float:
        """Size of the rows in units of their derivatives."""
        with np.errstate(over="ignore"):
            return float(np.linalg.norm(values / self._rows))


def solve(system: Prolongation, x: Floats, t: float, p: Sequence[float], pace: float = 1.0) -> Point | None:
    """A point near Taylor coefficients x at which all rows vanish; None where none is found."""
    point = Point(system, x, t, p, pace)
    scales = system.scales(pace)
    made = system.matrix(point, point.x)
    least_of_all, slow, factor = np.inf, 0, 1.0
    for _ in range(SETTINGS.most_iterations):
        if made is None:
            return None
        residual, matrix = made
        try:
            least = _Least(matrix, scales)
        except (np.linalg.LinAlgError, RuntimeError):
            return None
        before = least.norm(residual)
        step = least.solve(-residual)
        if not np.isfinite(step).all():
            return None
        if before < 1e-8 and (np.abs(step) <= SETTINGS.converged * (1.0 + np.abs(point.x))).all():
            return Point(system, point.x + step, t, p, pace)
        slow = slow + 1 if before > 0.8 * least_of_all else 0
        least_of_all = min(before, least_of_all)
        if slow > SETTINGS.patience:
            return None
        for attempt in range(12):
            # The step without damping first, which is taken where it brings much.
            damping = factor * min(before, before**2) if attempt else 0.0
            wanted = 0.5 * before if not attempt else before
            change = least.solve(-residual, damping) if damping else step
            place = Point(system, point.x + change, t, p, pace)
            values = system.residual(place, place.x)
            if values is not None and least.norm(values) < wanted:
                factor = max(1e-6, 0.2 * factor) if attempt == 1 else factor
                break
            factor *= 5.0 if attempt else 1.0
        else:
            at_limit = np.abs(step) <= 1e-7 * (1.0 + np.abs(point.x))
            return point if at_limit.all() and before < 1e-8 else None
        point = place
        made = system.matrix(point, point.x)
    return None


def find_points(system: Prolongation, start: Start, near: Point | None = None) -> Iterator[Point]:
    """Points at which all rows vanish, near the start values or, if there are none, elsewhere.

    Parameters
    ----------
    system : Prolongation
        The rows.
    start : Start
        Where to begin.
    near : Point, optional
        A point of another prolongation of the same equations to begin with.

    Yields
    ------
    Point
        At most as many as :class:`Settings` says, the further ones near the first but no special ones.
    """
    for attempt, spread in enumerate(SETTINGS.spreads):
        source = np.random.default_rng([attempt, 1])
        t = start.t + min(spread, 1.0) * 0.2 * start.span * float(source.uniform(0.2, 1.0))
        pace = SETTINGS.fast * start.span if attempt % 2 else 1.0
        if near is None:
            first = _by_stages(system, start, spread, source, attempt, t, pace) if attempt % 2 else None
            if not attempt % 2:
                x = _beginning(system, start, None, spread, source, positive=attempt % 4 == 2)
                first = solve(system, x, t, _parameters(start, source))
        else:
            x = _beginning(system, start, near, spread, source, positive=False)
            first = solve(system, x, near.t, near.p, pace)
        if first is not None:
            break
    else:
        return
    yield first
    found = 1
    for attempt in range(3 * SETTINGS.points):
        if found == SETTINGS.points:
            break
        source = np.random.default_rng([attempt, 2])
        away = SETTINGS.apart * source.standard_normal(first.x.size) * (0.3 + np.abs(first.x))
        t = first.t + 0.05 * start.span * float(source.uniform(0.2, 1.0))
        other = solve(system, first.x + away, t, first.p, first.pace)
        if other is not None:
            yield other
            found += 1


def prolonged(point: Point, wanted: Prolongation) -> Point | None:
    """A point at which more derivatives of the equations vanish; None where the system Jacobian is singular.

    Each further Taylor coefficient follows from linear equations with the system Jacobian as matrix.

    Parameters
    ----------
    point : Point
        Where equations vanish with as many derivatives as their offsets say.
    wanted : Prolongation
        The rows that are to vanish, of the same equations.
    """
    known = point.system
    stages = wanted.order - min(known.times)
    system = known.lowered(-stages)
    found = Point(system, np.zeros(len(system.columns)), point.t, point.p, point.pace)
    for jet, at in known.place.items():
        found.x[system.place[jet]] = point.x[at]
    row_of = {row: at for at, row in enumerate(system.rows)}
    for stage in range(1, stages + 1):
        made = system.matrix(found, found.x)
        if made is None:
            return None
        residual, matrix = made
        rows = [row_of[i, c + stage] for i, c in enumerate(known.times)]
        columns = [system.place[j, d + stage] for j, d in enumerate(known.highest)]
        try:
            least = _Least(matrix[rows][:, columns], np.ones(len(columns)))
        except (np.linalg.LinAlgError, RuntimeError):
            return None
        found.x[columns] = least.solve(-residual[rows])
    x = np.array([found.x[system.place[jet]] if jet in system.place else 0.0 for jet in wanted.columns])
    end = Point(wanted, x, point.t, point.p, point.pace)
    made = wanted.matrix(end, end.x)
    if made is None:
        return None
    terms = abs(made[1]) @ np.abs(x) + 1.0
    return end if (np.abs(made[0]) <= SETTINGS.vanishing * terms).all() else None


def _by_stages(
    system: Prolongation,
    start: Start,
    spread: float,
    source: np.random.Generator,
    attempt: int,
    t: float,
    pace: float,
) -> Point | None:
    """A point from one at which fewer derivatives of the rows vanish, and so on."""
    found: Point | None = None
    p = _parameters(start, source)
    for by in range(system.order, -1, -1):
        lower = system.lowered(by)
        if not lower.rows:
            continue
        if found is None:
            x = _beginning(lower, start, None, spread, source, positive=attempt % 4 == 3)
        else:
            x = _beginning(lower, start, found, 0.0, source, positive=False)
        found = solve(lower, x, t, p, pace)
        if found is None:
            return None
    return found


def _parameters(start: Start, source: np.random.Generator) -> list[float]:
    """Values of the parameters."""
    return [
        float(source.uniform(0.5, 1.5))
        if value is None
        else value
        if not start.general
        else float(value) * float(source.uniform(0.98, 1.02))
        if value
        else float(source.uniform(0.1, 0.3))
        for value in start.parameters
    ]


def _beginning(
    system: Prolongation,
    start: Start,
    near: Point | None,
    spread: float,
    source: np.random.Generator,
    positive: bool,
) -> Floats:
    x = np.empty(len(system.columns))
    for at, (j, k) in enumerate(system.columns):
        drawn = float(source.standard_normal())
        if near is not None and (j, k) in near.system.place:
            value = float(near.x[near.system.place[j, k]])
            x[at] = value if spread <= 0.05 else value + spread * drawn
            continue
        known = start.values.get((j, k))
        if near is not None:
            x[at] = spread * drawn / factorial(k) if spread > 0.05 else 0.0
        elif known is not None:
            x[at] = (known + spread * drawn * (0.3 + abs(known))) / factorial(k)
        elif k == 0 and positive:
            x[at] = 0.2 + abs(drawn)
        else:
            x[at] = (1.0 if k == 0 else 0.5 / factorial(k)) * drawn
    return x


class Echelon:
    """Rows with many digits in echelon form; see :class:`~dae_sdc.structure.rank.Echelon` for the field.

    Parameters
    ----------
    level : callable, optional
        Leading columns are of the highest level that is left in a row, and the largest in it.
    """

    def __init__(self, level: Callable[[int], int] | None = None) -> None:
        self._level = level
        self._number: dict[int, int] = {}
        self._rows: list[tuple[int, dict[int, Any], dict[int, Any]]] = []

    def add(self, row: Mapping[int, Any], tag: int) -> tuple[int | None, dict[int, Any]]:
        """Reduce a row and keep what is left.

        Returns
        -------
        int or None
            The leading column; None for a row that depends on those before.
        dict of int to number
            By tag, the factors with which the rows add to what is left.
        """
        size = max(map(abs, row.values()), default=0)
        if not size:
            return None, {tag: 1}
        left = {j: value / size for j, value in row.items()}
        factors: dict[int, Any] = {tag: 1 / size}
        ahead = [self._number[j] for j in left if j in self._number]
        heapify(ahead)
        while ahead:
            lead, known, combined = self._rows[heappop(ahead)]
            factor = left.pop(lead, None)
            if factor is None:
                continue
            for j, value in known.items():
                if j == lead:
                    continue
                before = left.get(j)
                now = (before or 0) - factor * value
                if abs(now) <= SETTINGS.tiny:
                    left.pop(j, None)
                    continue
                left[j] = now
                if before is None and j in self._number:
                    heappush(ahead, self._number[j])
            for at, value in combined.items():
                factors[at] = factors.get(at, 0) - factor * value
        left = {j: value for j, value in left.items() if abs(value) > SETTINGS.tiny}
        largest = max(map(abs, factors.values()))
        factors = {at: value for at, value in factors.items() if abs(value) > SETTINGS.tiny * largest}
        if not left:
            return None, factors
        top = 0 if self._level is None else max(map(self._level, left))
        lead = max(
            (j for j in left if self._level is None or self._level(j) == top), key=lambda j: abs(left[j])
        )
        scale = 1 / left[lead]
        self._number[lead] = len(self._rows)
        self._rows.append(
            (
                lead,
                {j: value * scale for j, value in left.items()},
                {at: value * scale for at, value in factors.items()},
            )
        )
        return lead, factors


def depends_on_the_point(
    model: ModelWithGraph, c: Integers, d: Integers, leading: Mapping[tuple[int, int], int]
) -> bool:
    """Whether the rank of the system Jacobian may be another at consistent points than at random ones.

    Not if its entries contain no unknowns, or only such that no constraint binds.

    Parameters
    ----------
    model : Model
        Equations.
    c, d : array of int, shape (n,)
        Offsets.
    leading : mapping of (int, int) to int
        The nodes of the entries of the system Jacobian, by equation and unknown.
    """
    graph = model.graph
    moving = [node for node in leading.values() if graph.mark[node] & (UNKNOWN | VEIL)]
    if not moving:
        return False
    used = {(leaf.index, leaf.order) for leaf in graph.leaves_of(*moving, veils=True) if leaf.kind == "u"}
    if any(k >= d[j] for j, k in used):
        return True
    bound = {
        (j, k + m)
        for i, root in enumerate(model.roots)
        if c[i] > 0
        for j, k in graph.depends(root)
        for m in range(int(c[i]))
    }
    return not used.isdisjoint(bound)


@dataclass(frozen=True, eq=False)
class Leading:
    """The system Jacobian at points that satisfy the equations as far as they are differentiated.

    Parameters
    ----------
    test : RankTest or None
        Its rank there; None where no such point was found.
    points : tuple of Point
        The points.
    vanishing : frozenset of (int, int)
        Entries that vanish at all of them.
    rows : mapping of int to mapping of int to number
        Its entries at one of them with many digits, by equation and unknown, where it is singular.
    """

    test: RankTest | None
    points: tuple[Point, ...] = ()
    vanishing: frozenset[tuple[int, int]] = frozenset()
    rows: Mapping[int, Mapping[int, Any]] = field(default_factory=dict)


def leading_nodes(model: ModelWithGraph, c: Integers, d: Integers) -> dict[tuple[int, int], int]:
    """The nodes of the entries of the system Jacobian, by equation and unknown."""
    graph = model.graph
    return {
        (i, graph.leaves[leaf].index): node
        for i, root in enumerate(model.roots)
        for leaf, node in graph.gradient(root).items()
        if graph.leaves[leaf].kind == "u" and graph.leaves[leaf].order == d[graph.leaves[leaf].index] - c[i]
    }


def leading_rank(
    model: ModelWithGraph, c: Integers, d: Integers, blocks: Sequence[Block], start: Start
) -> Leading | None:
    """The rank of a system Jacobian, regular at random points, at points that satisfy the equations.

    Parameters
    ----------
    model : Model
        Equations.
    c, d : array of int, shape (n,)
        Offsets.
    blocks : sequence of Block
        Fine blocks.
    start : Start
        Where points are looked for.

    Returns
    -------
    Leading or None
        None where the rank is the same as at random points.
    """
    nodes = leading_nodes(model, c, d)
    if not depends_on_the_point(model, c, d, nodes):
        return None
    asked = ("leading rank", tuple(model.roots), c.tobytes(), d.tobytes(), start.key)
    remembered = model.graph.remembered
    if asked not in remembered:
        remembered[asked] = _found_leading(model, c, d, blocks, start, nodes)
    found: Leading = remembered[asked]
    return found


def _found_leading(
    model: ModelWithGraph,
    c: Integers,
    d: Integers,
    blocks: Sequence[Block],
    start: Start,
    nodes: Mapping[tuple[int, int], int],
) -> Leading:
    system = Prolongation(model.graph, model.roots, c.tolist(), d.tolist())
    keys, wanted = list(nodes), list(nodes.values())
    usable: list[Point] = []
    values: list[Floats] = []
    doubtful = list(blocks)
    for point in find_points(system, start):
        entries = point.evaluate(wanted)
        if entries is None or not np.isfinite(np.array(entries, dtype=np.float64)).all():
            continue
        usable.append(point)
        values.append(np.array(entries, dtype=np.float64))
        doubtful = [block for block in doubtful if not _is_regular(block, keys, values[-1])]
        if not doubtful:
            small = np.all([_small(v) for v in values], axis=0)
            vanishing = frozenset(key for key, zero in zip(keys, small.tolist(), strict=True) if zero)
            return Leading(RankTest(c.size, *[np.empty(0, dtype=np.int64)] * 2), tuple(usable), vanishing)
    return _exactly(c, keys, wanted, usable) if usable else Leading(None)


def _exactly(c: Integers, keys: Sequence[Jet], nodes: Sequence[int], points: Sequence[Point]) -> Leading:
    """The rank with many digits: the largest one of several points."""
    best: tuple[int, dict[int, dict[int, Any]]] | None = None
    for point in points:
        entries = point.evaluate(nodes, exact=True)
        if entries is None:
            continue
        rows: dict[int, dict[int, Any]] = {i: {} for i in range(c.size)}
        largest = max(map(abs, entries))
        for (i, j), value in zip(keys, entries, strict=True):
            if abs(value) > SETTINGS.tiny * largest:
                rows[i][j] = value
        rank = c.size - len(dependent_rows(rows, c))
        if best is None or rank > best[0]:
            best = rank, rows
    if best is None:
        return Leading(None)
    rank, rows = best
    columns: dict[int, dict[int, Any]] = {j: {} for j in range(c.size)}
    for i, row in rows.items():
        for j, value in row.items():
            columns[j][i] = value
    dependent = [dependent_rows(part, order) for part, order in ((rows, c), (columns, np.zeros_like(c)))]
    supports = [np.unique([i for one in part for i in one]).astype(np.int64) for part in dependent]
    present = {(i, j) for i, row in rows.items() for j in row}
    vanishing = frozenset(key for key in keys if key not in present)
    return Leading(RankTest(rank, supports[0], supports[1]), tuple(points), vanishing, rows)


def dependent_rows(rows: Mapping[int, Mapping[int, Any]], c: Integers) -> list[dict[int, Any]]:
    """For each row that is too many, itself first, the factors with which it and others add to 0.

    Rows that are differentiated least come last, and so depend on the others.
    """
    echelon, found = Echelon(), []
    for i in sorted(rows, key=lambda i: (-int(c[i]), i)):
        lead, factors = echelon.add(rows[i], i)
        if lead is None:
            found.append({i: factors.pop(i), **factors})
    return found


def independent_columns(rows: Iterable[Mapping[int, Any]]) -> list[int]:
    """Columns in which some rows are independent, as many as rows."""
    echelon = Echelon()
    leads = [echelon.add(row, at)[0] for at, row in enumerate(rows)]
    return sorted(lead for lead in leads if lead is not None)


def _small(values: Floats) -> npt.NDArray[np.bool_]:
    """Entries of a system Jacobian that may be no more than errors of the point."""
    found: npt.NDArray[np.bool_] = np.abs(values) <= SETTINGS.small * np.abs(values).max(initial=0.0)
    return found


def _is_regular(block: Block, keys: Sequence[Jet], values: Floats) -> bool:
    """Whether a diagonal block is regular in doubles without doubt: with small entries, and without them."""
    small = _small(values)
    return _is_clear(block, keys, values) and (
        not small.any() or _is_clear(block, keys, np.where(small, 0.0, values))
    )


def _is_clear(block: Block, keys: Sequence[Jet], values: Floats) -> bool:
    rows = {i: at for at, i in enumerate(block.rows.tolist())}
    cols = {j: at for at, j in enumerate(block.cols.tolist())}
    own = [
        (rows[i], cols[j], v)
        for (i, j), v in zip(keys, values.tolist(), strict=True)
        if i in rows and j in cols
    ]
    if block.size == 1:
        return bool(own) and abs(own[0][2]) > 1e-6
    at, of, data = zip(*own, strict=True)
    matrix = sparse.csr_matrix((data, (at, of)), shape=(block.size, block.size))
    for _ in range(3):
        for axis in (1, 0):
            size = abs(matrix).max(axis=axis).toarray().ravel()
            scale = sparse.diags(1.0 / np.sqrt(np.where(size > 0.0, size, 1.0)))
            matrix = scale @ matrix if axis else matrix @ scale
    if block.size <= 300:
        sizes = np.linalg.svd(matrix.toarray(), compute_uv=False)
        return bool(sizes[-1] > 1e-6 * sizes[0])
    try:
        factors = splu(sparse.csc_matrix(matrix))
    except RuntimeError:
        return False
    probes = np.random.default_rng(0).choice((-1.0, 1.0), (block.size, 4))
    return bool(np.abs(factors.solve(probes)).max() < 1e7)
