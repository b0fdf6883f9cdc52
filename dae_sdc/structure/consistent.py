r"""Points at which equations and their derivatives hold, and ranks of the system Jacobian there.

Ranks at a random point may differ from those on a solution: if :math:`x = \sin t` is one equation, the factor
of z in another, :math:`x' - y + z (x - \sin t) = 0`, vanishes on solutions, but not at random points. So the
equations and their derivatives are solved for unknowns and derivatives by the Gauss-Newton method, in
doubles and then with many digits. An expression that is 0 at several such points, to many digits, is taken to
be 0 on the whole component of the solutions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import factorial, frexp
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.linear import superlu
from dae_sdc.errors import SingularMatrixError
from dae_sdc.expressions.dag import NOT_ANALYTIC, UNKNOWN, Leaf
from dae_sdc.jets.graph import GraphJets, Jet
from dae_sdc.sharing import Recent
from dae_sdc.structure.blocks import Block
from dae_sdc.structure.prolongation import Point, Prolongation
from dae_sdc.structure.rank import NO_ROWS, Floats, RankTest, ReducedRows, is_singular
from dae_sdc.structure.signature import Integers

if TYPE_CHECKING:
    from dae_sdc.model.model import Equations

USUAL_NUMBERS = (1e-3, 1e3)  # Sizes of numbers whose unit is 1.
ATTEMPTS_AT_ANOTHER = 6  # How often a second point is sought.
# Distances from the start values, relative to 0.3 + their sizes, one for each attempt.
SPREADS = (0.05, 0.05, 0.2, 0.2, 0.7, 0.7, 2.0, 2.0)
# Distance of further points from the first, relative to 0.3 + the sizes of its coordinates.
FURTHER_POINT_DISTANCE = 0.1
MOST_GAUSS_NEWTON_STEPS = 60  # Largest number of steps of the Gauss-Newton method.
# Number of steps in a row that reduce the residual by less than 20 %, after which it ends.
MOST_SLOW_STEPS = 15
# Time in which unknowns are taken to change in every other attempt, relative to the interval.
FAST_TIME = 0.01
# Step, relative to the units and sizes of the values, at which the method has converged.
SETTLED_CORRECTION = 1e-11
# Value of a row, relative to its terms, that counts as 0 where a point is extended to more derivatives.
ROW_TOLERANCE = 1e-9
# Value of an equation that follows from others, relative to its terms, that counts as 0 at their points.
IMPLIED_TOLERANCE = 1e-7
# Entry of a system Jacobian, relative to the largest, that may be 0 but for the error of a point.
DOUBTFUL_ENTRY = 1e-10
VANISHING_NUMBER = 1e-35  # Number that counts as 0 in the arithmetic with many digits.


@dataclass(frozen=True)
class Start:
    """Values near which points that satisfy the constraints are sought."""

    values: dict[Jet, float] = field(default_factory=dict)  # Start values of unknowns and derivatives.
    parameters: Sequence[float | None] = ()  # Values of the parameters; random ones for None.
    # t, span: time, and the length of the interval.
    t: float = 0.0
    span: float = 1.0
    nominal: Mapping[int, float] = field(default_factory=dict)  # Nominal values of unknowns.
    # Whether parameters are perturbed by up to 2 %, so that ranks are those of general values.
    general: bool = True

    def key_for(self, model: Equations) -> tuple[Any, ...]:
        """What the ranks of a model depend on, as a key of a dictionary."""
        parameters = general_values(model, self.parameters) if self.general else tuple(self.parameters)
        values = tuple(self.values.items()), tuple(self.nominal.items())
        return parameters, *values, self.t, self.span, self.general

    def value(self, leaf: Leaf) -> float | None:
        """The value of a leaf of the equations; None where none is known."""
        if leaf.kind == "p":
            return self.parameters[leaf.index] if leaf.index < len(self.parameters) else None
        return self.t if leaf.kind == "t" else self.values.get(leaf[1:])

    def unit(self, jet: Jet) -> float:
        """The unit of a Taylor coefficient, by the nominal value of its unknown or its start value."""
        j, k = jet
        return _unit(self.nominal.get(j) or self.values.get((j, 0), 1.0)) * _unit(self.span) ** -k

    @staticmethod
    def of(model: Equations, guesses: Mapping[Jet, float] | None = None, t: float | None = None) -> Start:
        """Start values, parameters and interval of a model."""
        variables = model.unknowns()
        values = {(j, k): value for j, one in enumerate(variables) for k, value in one.start.items()}
        parameters = [entry.value for entry in model.parameters_by_name.values()]
        begin, end = model.interval
        t = float(begin) if t is None else t
        nominal = {j: one.nominal[0] for j, one in enumerate(variables) if 0 in one.nominal}
        return Start({**values, **(guesses or {})}, parameters, t, float(end) - float(begin), nominal)


def _unit(value: float) -> float:
    """The unit of a number of this size: 1, where it is a usual number."""
    size = abs(value)
    return 1.0 if size == 0.0 or USUAL_NUMBERS[0] <= size <= USUAL_NUMBERS[1] else size


def solve(
    system: Prolongation, x: Floats, t: float, p: Sequence[float], pace: float = 1.0, held: Sequence[int] = ()
) -> Point | None:
    """A point at which all rows of a prolongation vanish, by the Gauss-Newton method.

    The iteration begins at values ``x``; ``pace`` is the time in which unknowns change, in units of time.
    Where columns ``held`` keep their values, steps are full ones. None where no point is found.
    """
    point = Point(system, x, t, p, pace)
    scales = system.scales(pace)
    scales[held,] = 0.0
    linearized = system.matrix(point)
    least_of_all, slow, factor = np.inf, 0, 1.0
    for _ in range(MOST_GAUSS_NEWTON_STEPS):
        if linearized is None:
            return None
        residual, matrix = linearized
        try:
            least = system.least_squares(matrix, scales)
        except (np.linalg.LinAlgError, SingularMatrixError):
            return None
        before = least.norm(residual)
        step = least.solve(-residual)
        if not np.isfinite(step).all():
            return None
        if before < 1e-8 and (np.abs(step) <= SETTLED_CORRECTION * (system.units + np.abs(point.x))).all():
            return Point(system, point.x + step, t, p, pace)
        slow = slow + 1 if before > 0.8 * least_of_all else 0
        least_of_all = min(before, least_of_all)
        if slow > MOST_SLOW_STEPS:
            return None
        for attempt in range(12):
            # First the step without damping, which is taken if it halves the residual or values are held.
            damping = factor * min(before, before**2) if attempt else 0.0
            wanted = (np.inf if held else 0.5 * before) if not attempt else before
            change = least.solve(-residual, damping) if damping else step
            place = Point(system, point.x + change, t, p, pace)
            values = system.residual(place)
            if values is not None and least.norm(values) < wanted:
                factor = max(1e-6, 0.2 * factor) if attempt == 1 else factor
                break
            factor *= 5.0 if attempt else 1.0
        else:
            at_limit = np.abs(step) <= 1e-7 * (system.units + np.abs(point.x))
            return point if at_limit.all() and before < 1e-8 else None
        point = place
        linearized = system.matrix(point)
    return None


def find_points(system: Prolongation, start: Start, near: Point | None = None) -> Iterator[Point]:
    """Points at which all rows of a prolongation vanish, near start values or, without any, elsewhere."""
    # Small start values may be rounding rather than the size of their unknowns.
    usual = all(system.unit(jet) == 1.0 for jet in system.columns)
    systems = (system,) if usual else (system, system.lowered(0, lambda jet: 1.0))
    for system, (attempt, spread) in product(systems, enumerate(SPREADS)):
        source = np.random.default_rng([attempt, 1])
        t = start.t + min(spread, 1.0) * 0.2 * start.span * float(source.uniform(0.2, 1.0))
        pace = FAST_TIME * start.span / _unit(start.span) if attempt % 2 else 1.0
        if near is not None:
            x = _beginning(system, start, near, spread, source, positive=False)
            first = solve(system, x, near.t, near.p, pace)
        elif attempt % 2:
            first = _by_stages(system, start, spread, source, attempt, t, pace)
        else:
            x = _beginning(system, start, None, spread, source, positive=attempt % 4 == 2)
            first = solve(system, x, t, _parameters(start, source))
        if first is not None:
            break
    else:
        return
    yield first
    for attempt in range(ATTEMPTS_AT_ANOTHER):
        source = np.random.default_rng([attempt, 2])
        sizes = 0.3 * system.units + np.abs(first.x)
        away = FURTHER_POINT_DISTANCE * source.standard_normal(first.x.size) * sizes
        t = first.t + 0.05 * start.span * float(source.uniform(0.2, 1.0))
        other = solve(system, first.x + away, t, first.p, first.pace)
        if other is not None:
            yield other
            return


def prolonged(point: Point, wanted: Prolongation) -> Point | None:
    """A point extended to more derivatives by linear equations with the system Jacobian; None if singular."""
    before, stages = point.system, wanted.order - min(point.system.times)
    system = before.lowered(-stages)
    extended = Point(system, np.zeros(len(system.columns)), point.t, point.p, point.pace)
    extended.x[[system.place[jet] for jet in before.columns]] = point.x
    linearized = before.matrix(point)
    if linearized is None:
        return None
    counts = (before.times, before.highest, system.times, system.highest)
    rows, columns, *tops = (np.cumsum(np.add(count, 1)) - 1 for count in counts)
    try:  # each derivative of the equations has the same system Jacobian
        least = system.least_squares(linearized[1][rows][:, columns], np.ones(len(columns)))
    except (np.linalg.LinAlgError, SingularMatrixError):
        return None
    for stage in range(1 - stages, 1):
        residual = system.residual(extended)
        if residual is None:
            return None
        extended.x[tops[1] + stage] = least.solve(-residual[tops[0] + stage])
    x = np.array([extended.x[system.place[jet]] if jet in system.place else 0.0 for jet in wanted.columns])
    end = Point(wanted, x, point.t, point.p, point.pace)
    linearized = wanted.matrix(end)
    if linearized is None:
        return None
    terms = abs(linearized[1]) @ (np.abs(x) + wanted.units)
    return end if (np.abs(linearized[0]) <= ROW_TOLERANCE * terms).all() else None


def _by_stages(
    system: Prolongation,
    start: Start,
    spread: float,
    source: np.random.Generator,
    attempt: int,
    t: float,
    pace: float,
) -> Point | None:
    """A point found in stages, each with one more derivative of the equations; None where one fails."""
    point: Point | None = None
    p = _parameters(start, source)
    for lower in filter(lambda lower: lower.rows, map(system.lowered, range(system.order, -1, -1))):
        positive, away = point is None and attempt % 4 == 3, spread if point is None else 0.0
        x = _beginning(lower, start, point, away, source, positive)
        # The equations of a stage determine its derivatives. Steps of least norm would change what a steep
        # function with kinks depends on instead of its value, from one side of a kink to the other.
        tops = [top - system.order + lower.order for top in system.highest]
        held = [at for at, (j, k) in enumerate(lower.columns) if k < tops[j]] if point else []
        point = (solve(lower, x, t, p, pace, held) if held else None) or solve(lower, x, t, p, pace)
        if point is None:
            return None
    return point


def _parameters(start: Start, source: np.random.Generator) -> list[float]:
    """Values of the parameters: perturbed if ``start.general``, random where none is given."""

    def number(value: float | None) -> float:
        if value is None:
            return source.uniform(0.5, 1.5)
        if not start.general:
            return value
        return value * source.uniform(0.98, 1.02) if value else source.uniform(0.1, 0.3)

    return [float(number(value)) for value in start.parameters]


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
        drawn, unit = float(source.standard_normal()), system.unit((j, k))
        if near is not None and (j, k) in near.system.place:
            value = float(near.x[near.system.place[j, k]])
            x[at] = value if spread <= 0.05 else value + spread * drawn * factorial(k) * unit
            continue
        known = start.values.get((j, k))
        if near is not None:
            x[at] = spread * drawn * unit if spread > 0.05 else 0.0
        elif known is not None:
            x[at] = known + spread * drawn * (0.3 * unit + abs(known))
        elif k == 0 and positive:
            x[at] = (0.2 + abs(drawn)) * unit
        else:
            x[at] = (1.0 if k == 0 else 0.5) * drawn * unit
    return x


def _depends_on_the_point(
    model: Equations, c: Integers, d: Integers, leading: Mapping[tuple[int, int], int]
) -> bool:
    """Whether a rank may differ at consistent points: entries have unknowns that are in constraints."""
    graph = model.graph
    moving = [node for node in leading.values() if graph.mark[node] & UNKNOWN]
    if not moving:
        return False
    used = set(graph.jets_of(*moving))
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
    """The system Jacobian at points where the equations and their derivatives hold, equation i up to c_i."""

    test: RankTest | None  # Its rank there; None if no such point was found.
    points: tuple[Point, ...] = ()  # The points that were found.
    # Entries, by equation and unknown, that vanish at all points.
    vanishing: frozenset[tuple[int, int]] = frozenset()
    # Entries at one of the points with many digits, by equation and unknown, if the matrix is singular.
    rows: Mapping[int, Mapping[int, Any]] = field(default_factory=dict)


MOST_RANKS = 16  # Ranks that a graph keeps, for values of parameters and starts.
DECADE = 4  # Powers of two within which values of a parameter have one rank.


def general_values(model: Equations, parameters: Iterable[float | None]) -> tuple[Any, ...]:
    """Values of parameters; their signs and sizes where analytic equations have one rank for almost all."""
    graph, asked = model.graph, ("analytic", *model.roots)
    if asked not in graph.remembered:
        graph.remembered[asked] = all(graph.op[node] not in NOT_ANALYTIC for node in graph.below(model.roots))
    if not graph.remembered[asked]:
        return tuple(parameters)
    return tuple(value and (value > 0.0, frexp(value)[1] // DECADE) for value in parameters)


def leading_rank(
    model: Equations, c: Integers, d: Integers, blocks: Sequence[Block], start: Start
) -> Leading | None:
    """The rank of a system Jacobian, regular at random points, at points that satisfy the equations."""
    # Shapes: c and d (n,).
    nodes = model.graph.leading_slopes(model.roots, c.tolist(), d.tolist())
    if not _depends_on_the_point(model, c, d, nodes):
        return None
    asked = (tuple(model.roots), c.tobytes(), d.tobytes(), start.key_for(model))
    known: Recent[Any, Leading] = model.graph.remembered.setdefault("leading rank", Recent(MOST_RANKS))
    if asked in known:
        return known[asked]
    system = Prolongation(model.graph, model.roots, c.tolist(), d.tolist(), start.unit)
    keys, wanted = list(nodes), list(nodes.values())
    usable: list[Point] = []
    values: list[Floats] = []
    doubtful = list(blocks)
    replaced = [definition.replaced[1] for definition in model.definitions]
    implied = [(root, 0) for root in replaced if set(model.graph.depends(root)) <= system.place.keys()]
    for point in find_points(system, start):
        entries, left = point.evaluate(wanted), GraphJets(model.graph, implied, system.place, point.known)
        holds = np.abs(left.values(point.x)) <= IMPLIED_TOLERANCE * left.terms(point.x) if implied else True
        if entries is None or not (np.isfinite(np.array(entries, dtype=np.float64)).all() and np.all(holds)):
            continue
        usable.append(point)
        values.append(np.array(entries, dtype=np.float64))
        # Diagonal blocks are regular without doubt if they are so with small entries, and without them.
        small = _small(values[-1])
        parts = [values[-1], np.where(small, 0.0, values[-1])] if small.any() else values[-1:]
        both = [dict(zip(keys, part.tolist(), strict=True)) for part in parts]
        doubtful = [block for block in doubtful if not all(_is_clear(block, part) for part in both)]
        if not doubtful:
            small = np.all([_small(v) for v in values], axis=0)
            vanishing = frozenset(key for key, zero in zip(keys, small.tolist(), strict=True) if zero)
            return known.keep(asked, Leading(RankTest(c.size, NO_ROWS, NO_ROWS), tuple(usable), vanishing))
    return known.keep(asked, _exactly(c, keys, wanted, usable) if usable else Leading(None))


def _exactly(c: Integers, keys: Sequence[Jet], nodes: Sequence[int], points: Sequence[Point]) -> Leading:
    """The rank computed with many digits, the largest at several points."""
    best: tuple[int, dict[int, dict[int, Any]]] | None = None
    for point in points:
        entries = point.evaluate(nodes, exact=True)
        if entries is None:
            continue
        rows: dict[int, dict[int, Any]] = {i: {} for i in range(c.size)}
        largest = max(map(abs, entries))
        for (i, j), value in zip(keys, entries, strict=True):
            if abs(value) > VANISHING_NUMBER * largest:
                rows[i][j] = value
        rank = c.size - len(dependent_rows(rows, c))
        if best is None or rank > best[0]:
            best = rank, rows
    if best is None:
        return Leading(None)
    rank, rows = best
    columns = {j: {i: row[j] for i, row in rows.items() if j in row} for j in range(c.size)}
    dependent = [dependent_rows(part, order) for part, order in ((rows, c), (columns, np.zeros_like(c)))]
    supports = [np.unique([i for one in part for i in one]).astype(np.int64) for part in dependent]
    vanishing = frozenset((i, j) for i, j in keys if j not in rows[i])
    return Leading(RankTest(rank, supports[0], supports[1]), tuple(points), vanishing, rows)


def dependent_rows(rows: Mapping[int, Mapping[int, Any]], c: Integers) -> list[dict[int, Any]]:
    """Linear dependences: factors by row, first that of the redundant one, which has the smallest c."""
    echelon, found = RealEchelon(), []
    for i in sorted(rows, key=lambda i: (-int(c[i]), i)):
        lead, factors = echelon.add(rows[i], i)
        if lead is None:
            found.append({i: factors.pop(i), **factors})
    return found


def independent_columns(rows: Iterable[Mapping[int, Any]]) -> list[int]:
    """As many columns as there are rows, in which the rows are independent."""
    echelon = RealEchelon()
    leads = [echelon.add(row, at)[0] for at, row in enumerate(rows)]
    return sorted(lead for lead in leads if lead is not None)


def _small(values: Floats) -> npt.NDArray[np.bool_]:
    """Entries of a system Jacobian that are small enough to be errors of the point."""
    return np.asarray(np.abs(values) <= DOUBTFUL_ENTRY * np.abs(values).max(initial=0.0))


def _is_clear(block: Block, values: Mapping[Jet, float]) -> bool:
    rows, cols = ({i: at for at, i in enumerate(part.tolist())} for part in (block.rows, block.cols))
    entries = [(rows[i], cols[j], v) for (i, j), v in values.items() if i in rows and j in cols]
    if block.size == 1:
        return bool(entries) and abs(entries[0][2]) > 1e-6
    at, of, data = zip(*entries, strict=True)
    matrix = sparse.csr_matrix((data, (at, of)), shape=(block.size, block.size))
    if block.size <= 300:
        return not is_singular(matrix.toarray(), 1e-6)
    for _ in range(3):
        for axis in (1, 0):
            size = abs(matrix).max(axis=axis).toarray().ravel()
            scale = sparse.diags(1.0 / np.sqrt(np.where(size > 0.0, size, 1.0)))
            matrix = scale @ matrix if axis else matrix @ scale
    try:
        factors = superlu(sparse.csc_matrix(matrix))
    except SingularMatrixError:
        return False
    probes = np.random.default_rng(0).choice((-1.0, 1.0), (block.size, 4))
    return bool(np.abs(factors.solve(probes)).max() < 1e7)


class RealEchelon:
    """Rows of numbers with many digits in echelon form, to which rows are added one by one."""

    def __init__(self, level: Callable[[int], int] = lambda j: 0) -> None:
        self._level = level
        self._rows = ReducedRows(self._less)
        self._sizes: dict[int, Any] = {}

    @staticmethod
    def _less(a: Any, b: Any) -> Any:
        difference = a - b
        return difference if abs(difference) > VANISHING_NUMBER else 0

    def add(self, row: Mapping[int, Any], tag: int) -> tuple[int | None, dict[int, Any]]:
        """Reduce a row, and keep what is left of it; its pivot, and the factors of the rows in it by tags."""
        size = self._sizes[tag] = max(map(abs, row.values()), default=0)
        if not size:
            return None, {tag: 1}
        # Columns below 0 say which rows were combined.
        whole = {-1 - tag: size / size} | {j: value / size for j, value in row.items()}
        self._rows.reduce(whole)
        # Factors are compared as those of rows of one size: equations have units of any size.
        combined = {-1 - j: value for j, value in whole.items() if j < 0}
        least = VANISHING_NUMBER * max(map(abs, combined.values()))
        factors = {at: value / self._sizes[at] for at, value in combined.items() if abs(value) > least}
        left = {j: abs(value) for j, value in whole.items() if j >= 0 and self._less(value, 0)}
        if not left:
            return None, factors
        top = max(map(self._level, left))
        lead = max((j for j in left if self._level(j) == top), key=left.__getitem__)
        scale = 1 / whole[lead]
        self._rows.keep({j: value * scale for j, value in whole.items()}, lead)
        return lead, factors
