r"""Points at which equations and their derivatives hold.

Ranks at a random point may differ from those on a solution: if :math:`x = \sin t` is one equation, the factor
of z in another, :math:`x' - y + z (x - \sin t) = 0`, vanishes on solutions, but not at random points. So the
equations are expanded in Taylor coefficients of the unknowns, and solved by the Gauss-Newton method, in
doubles and then with many digits. An expression that is 0 at several such points, to many digits, is taken to
be 0 on the whole component of the solutions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import factorial
from typing import Any

import numpy as np

from dae_sdc.errors import SingularMatrixError
from dae_sdc.structure.prolongation import POINT_SEARCH, Jet, Point, Prolongation
from dae_sdc.structure.series import Floats


@dataclass(frozen=True)
class Start:
    """Values near which points that satisfy the constraints are sought."""

    values: Mapping[Jet, float] = field(default_factory=dict)  # Start values of unknowns and derivatives.
    parameters: Sequence[float | None] = ()  # Values of the parameters; random ones for None.
    # t, span: time, and the length of the interval.
    t: float = 0.0
    span: float = 1.0
    # Whether parameters are perturbed by up to 2 %, so that ranks are those of general values.
    general: bool = True

    @property
    def key(self) -> tuple[Any, ...]:
        """The values of all fields, as a key of a dictionary."""
        return tuple(self.values.items()), tuple(self.parameters), self.t, self.span, self.general

    @staticmethod
    def of(model: Any, guesses: Mapping[Jet, float] | None = None, t: float | None = None) -> Start:
        """Start values, parameters and interval of a model."""
        own = getattr(model, "start_of_search", None)
        if own is not None:
            return own  # type: ignore[no-any-return]
        variables = getattr(model, "variables_by_name", {}).values()
        values = {(j, k): value for j, one in enumerate(variables) for k, value in one.start.items()}
        parameters = [entry.value for entry in getattr(model, "parameters_by_name", {}).values()]
        begin, end = getattr(model, "interval", (0.0, 1.0))
        t = float(begin) if t is None else t
        return Start({**values, **(guesses or {})}, parameters, t, float(end) - float(begin))


def solve(system: Prolongation, x: Floats, t: float, p: Sequence[float], pace: float = 1.0) -> Point | None:
    """A point at which all rows of a prolongation vanish, by the Gauss-Newton method.

    The iteration begins at Taylor coefficients ``x``; ``pace`` is the time in which unknowns change, the unit
    of their derivatives. None where no point is found.
    """
    point = Point(system, x, t, p, pace)
    scales = system.scales(pace)
    made = system.matrix(point, point.x)
    least_of_all, slow, factor = np.inf, 0, 1.0
    for _ in range(POINT_SEARCH.most_iterations):
        if made is None:
            return None
        residual, matrix = made
        try:
            least = system.least_squares(matrix, scales)
        except (np.linalg.LinAlgError, SingularMatrixError):
            return None
        before = least.norm(residual)
        step = least.solve(-residual)
        if not np.isfinite(step).all():
            return None
        if (
            before < 1e-8
            and (np.abs(step) <= POINT_SEARCH.correction_tolerance * (1.0 + np.abs(point.x))).all()
        ):
            return Point(system, point.x + step, t, p, pace)
        slow = slow + 1 if before > 0.8 * least_of_all else 0
        least_of_all = min(before, least_of_all)
        if slow > POINT_SEARCH.most_slow_steps:
            return None
        for attempt in range(12):
            # First the step without damping, which is taken if it halves the residual.
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
    """Points at which all rows of a prolongation vanish, near start values or, without any, elsewhere."""
    for attempt, spread in enumerate(POINT_SEARCH.spreads):
        source = np.random.default_rng([attempt, 1])
        t = start.t + min(spread, 1.0) * 0.2 * start.span * float(source.uniform(0.2, 1.0))
        pace = POINT_SEARCH.fast_time * start.span if attempt % 2 else 1.0
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
    found = 1
    for attempt in range(3 * POINT_SEARCH.most_points):
        if found == POINT_SEARCH.most_points:
            break
        source = np.random.default_rng([attempt, 2])
        away = (
            POINT_SEARCH.further_point_distance
            * source.standard_normal(first.x.size)
            * (0.3 + np.abs(first.x))
        )
        t = first.t + 0.05 * start.span * float(source.uniform(0.2, 1.0))
        other = solve(system, first.x + away, t, first.p, first.pace)
        if other is not None:
            yield other
            found += 1


def prolonged(point: Point, wanted: Prolongation) -> Point | None:
    """A point extended to more derivatives of the equations; None where the system Jacobian is singular.

    Each further Taylor coefficient follows from linear equations with the system Jacobian as matrix.
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
            least = system.least_squares(matrix[rows][:, columns], np.ones(len(columns)))
        except (np.linalg.LinAlgError, SingularMatrixError):
            return None
        found.x[columns] = least.solve(-residual[rows])
    x = np.array([found.x[system.place[jet]] if jet in system.place else 0.0 for jet in wanted.columns])
    end = Point(wanted, x, point.t, point.p, point.pace)
    made = wanted.matrix(end, end.x)
    if made is None:
        return None
    terms = abs(made[1]) @ np.abs(x) + 1.0
    return end if (np.abs(made[0]) <= POINT_SEARCH.row_tolerance * terms).all() else None


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
    """Values of the parameters: perturbed if ``start.general``, random where none is given."""
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
