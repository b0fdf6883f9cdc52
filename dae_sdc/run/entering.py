"""How modes are entered: states and impulses behind jumps, and the mode that follows behind a border."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.scales import balanced
from dae_sdc.dae.state import Vector, interpolation_matrix
from dae_sdc.errors import SolveError
from dae_sdc.expressions.dag import COMPARISONS, Leaf, Op
from dae_sdc.expressions.graph import Input
from dae_sdc.model.modes import Choice
from dae_sdc.sweepers.coupled import stages_without_guess
from dae_sdc.sweepers.tableaux import radau_iia

NODES = 3  # Of the Radau IIA steps that land on constraints.
STEPS = (1e-4, 1e-5, 1e-3, 1e-6)  # Their sizes, in lengths of the run, in the order of trial.
STEP_HALVINGS = 3  # Of a step, for the extrapolation to size 0.
CONVERGED = 1e-11  # Difference of the last two extrapolations, in sizes of unknowns, that ends the trials.
LARGEST_DIFFERENCE = 1e-8  # That of a state that is taken at all.
LEAST_IMPULSE = 1e-6  # Impulse, relative to the largest one, that is not rounding.


class Landing(NamedTuple):
    """Where unknowns come to by a jump."""

    values: dict[str, float]
    impulses: dict[str, float]  # Integrals over the jump of the unknowns that have one.


def landing(problem: Any, before: Mapping[str, float], t: float, span: float) -> Landing:
    """The state of equations behind a jump at t that begins at values that do not satisfy them."""
    # A Radau IIA step lands on all constraints along the directions M^-1 G^T in which multipliers act, and
    # keeps what these leave alone; its integrals of multipliers tend to their impulses with its size.
    # S. Trenn, Switched differential algebraic equations, in: Dynamics and Control of Switched Electronic
    # Systems, Springer (2012), ch. 6; B. Brogliato, Nonsmooth Mechanics, Springer (2016), ch. 4.
    start, names = problem.state(np.array([before.get(name, 0.0) for name in problem.names])), problem.names
    scale = float(np.abs(start).max(initial=0.0)) or 1.0
    best, least = None, np.inf
    for size in STEPS:
        try:
            values, difference = _extrapolated(problem, start, t, size * span)
        except SolveError:
            continue
        error = float((difference / np.maximum(np.abs(values[0]), scale))[: problem.n_diff].max(initial=0.0))
        if error < least:
            best, least = values, error
        if least <= CONVERGED:
            break
    if best is None or not least <= LARGEST_DIFFERENCE:
        raise SolveError("its state behind the jump is not found; give it by an event")
    sums = {name: float(best[1, k]) for k, name in enumerate(names) if k >= problem.n_diff}
    most = max(map(abs, sums.values()), default=0.0)
    impulses = {name: size for name, size in sums.items() if abs(size) > LEAST_IMPULSE * most}
    return Landing(dict(zip(names, best[0].tolist(), strict=True)), impulses)


def _extrapolated(problem: Any, start: Any, t: float, h: float) -> tuple[Vector, Vector]:
    """State at t, and integrals over the step, as h tends to 0; and differences of the last two states."""
    # Shapes: (2, n), (n,).
    tableau, rows = radau_iia(NODES), []
    back = interpolation_matrix(tableau.nodes, (0.0,))[0]
    for k in range(STEP_HALVINGS + 1):
        problem.start_step(start, t)
        step = h * 0.5**k
        stages = stages_without_guess(problem, tableau, start, t, step)
        rows.append(np.array([back @ stages.u, step * tableau.b @ stages.u]))
    for order in range(1, STEP_HALVINGS + 1):
        last = rows[-1]
        rows = [b + (b - a) / (2.0**order - 1.0) for a, b in pairwise(rows)]
    return rows[0], np.abs(rows[0][0] - last[0])


MOST_PIVOTS = 20  # Borders that are crossed on the way, for each choice.
MOST_LINEARIZATIONS = 8  # Of nonlinear equations, at the end of the way before.
SINGULAR = 1e-13  # Singular value of balanced equations, relative to the largest, that is 0.
AT_END = 1e-9  # Part by which a border may be nearer than the end of the way, but for rounding.
GAP = 1e-6  # Residual, relative to the largest term, that is not 0.

# Values and slopes of equations and borders, shapes (n + K,) and (n + K, n), on sides of the choices.
Linear = Callable[[Vector], tuple[Vector, Vector]]


class Pivoting:
    """The equations of all modes of a model, with the sides of its choices as parameters."""

    # An implicit Euler step whose size tends to 0 has the consistent mode behind it, by the signs of values,
    # of derivatives and of impulses: J. Heemels, J. Schumacher, S. Weiland, The rational complementarity
    # problem, Linear Algebra Appl. 294 (1999). Its equations G are continuous, and linear in each mode. From
    # G = s r, with r and s for which a regular mode has all borders on their sides, a way leads to s = 0
    # through modes, singular ones too, with one more choice changed in each: C. Lemke, Bimatrix equilibrium
    # points and mathematical programming, Management Sci. 11 (1965). Of passive circuits it always does.

    def __init__(self, model: Any, choices: Sequence[Choice], parameters: Sequence[float]) -> None:
        graph, self._parameters = model.graph.copy(), list(parameters)
        put, borders = dict[int, int](), list[int]()
        for number, choice in enumerate(choices):
            side = graph.parameter(len(parameters) + number)
            taken = [choice.taken(graph, on, put) for on in (True, False)]
            borders.append(choice.border(graph, put))
            put[choice.node] = side if choice.op in COMPARISONS else graph.call(Op.SELECT, side, *taken)
        nodes = [*graph.substitute(model.roots, put), *borders]
        slopes = [(row, *item) for row, node in enumerate(nodes) for item in graph.slopes(node).items()]
        self._n, self._jets = len(model.roots), graph.jets_of(*nodes)
        place = {jet: number for number, jet in enumerate(self._jets)}
        self._order = [max((k for i, k in self._jets if i == j), default=0) for j in range(self._n)]
        self._at = np.array([(row, place[jet]) for row, jet, _ in slopes]).reshape(-1, 2).T
        self._free = np.array([not choice.is_timed for choice in choices], dtype=bool)
        # An equation of an unknown that nothing else has, as that of a Boolean, may jump at a border.
        uses = np.zeros((len(nodes), self._n), dtype=bool)
        uses[self._at[0], [j for _, (j, _), _ in slopes]] = True
        while (outputs := uses[: self._n][:, uses.sum(axis=0) == 1].any(axis=1)).any():
            uses[: self._n][outputs] = False
        self._coupled = uses[: self._n].any(axis=1)

        def source(leaf: Leaf) -> Input:
            return Input("u", place[leaf[1:]]) if leaf.kind == "u" else Input(leaf.kind, leaf.index)

        self._program = graph.program([*nodes, *(slope for *_, slope in slopes)], source)

    def behind(
        self, values: Mapping[tuple[int, int], float], t: float, h: float, sides: Vector, sizes: Vector
    ) -> Vector | None:
        """The sides after a step from values of jets, near those before; None where no way leads there."""
        # Unknowns are the highest derivatives, from which those below follow in the step.
        step, before = np.zeros((len(self._jets), self._n)), np.zeros(len(self._jets))
        for number, (j, k) in enumerate(self._jets):
            step[number, j] = h ** (self._order[j] - k)
            before[number] = sum(h ** (i - k) * values.get((j, i), 0.0) for i in range(k, self._order[j]))
        y = np.array([0.0 if top else values.get((j, 0), 0.0) for j, top in enumerate(self._order)])

        def linear(sides: Vector) -> tuple[Vector, Vector]:
            inputs = {"t": t + h, "u": before + step @ y, "p": [*self._parameters, *sides]}
            outputs = self._program.evaluate(self._program.arguments(**inputs))
            slopes = np.zeros((self._n + len(sides), len(self._jets)))
            slopes[*self._at] = outputs[len(slopes) :]
            return outputs[: len(slopes)], slopes @ step

        for _ in range(MOST_LINEARIZATIONS):
            if (way := self._way(linear, y, self._regular(linear, sides), sizes)) is None:
                return None
            sides, change = way
            y = y + change
            rest, matrix = (each[: self._n] for each in linear(sides))
            if _vanishes(rest, matrix, np.abs(y) + np.abs(change)):
                return sides
        return None

    def _regular(self, linear: Linear, sides: Vector) -> Vector:
        """Sides on which the equations determine all unknowns, with few choices changed, if there are any."""
        deficiency, flips = self._n + 1, np.eye(len(sides))[self._free]
        while deficiency:
            every = [sides] if deficiency > self._n else [np.abs(sides - flip) for flip in flips]
            lacks = [self._n - _rank(linear(each)[1][: self._n]) for each in every]
            if min(lacks, default=deficiency) >= deficiency:
                return sides
            sides, deficiency = every[int(np.argmin(lacks))], min(lacks)
        return sides

    def _way(self, linear: Linear, y: Vector, sides: Vector, sizes: Vector) -> tuple[Vector, Vector] | None:
        """The sides at the end of the way, and the change of unknowns; None where it leads nowhere."""
        n, numbers = self._n, np.arange(len(sides))
        values, matrix = linear(sides)
        if not np.isfinite(np.column_stack([values, matrix])).all():
            return None
        rows, columns = balanced(matrix[:n])
        signs = 2.0 * sides - 1.0
        weights = sizes * np.random.default_rng(0).uniform(0.5, 1.0, len(sides))
        scaled, free = matrix / columns, self._free
        away = np.linalg.pinv((signs[:, None] * scaled[n:])[free]) @ weights[free] / columns
        change = np.linalg.lstsq(scaled[:n] / rows[:, None], -values[:n] / rows, SINGULAR)[0] / columns
        distance, rates = signs * (values[n:] + matrix[n:] @ change), signs * (matrix[n:] @ away)
        if not (rates[free] > 0.0).all():
            return None
        begins = np.where(free, -distance / np.where(free, rates, 1.0), 0.0)
        crossed, share, first = int(np.argmax(begins)), float(begins.max()), matrix[:n] @ away
        if share <= 0.0:
            return sides, change
        change = change + share * away
        for _ in range(MOST_PIVOTS * len(sides)):
            sides = np.where(numbers == crossed, 1.0 - sides, sides)
            values, matrix = linear(sides)
            rest = values[:n] + matrix[:n] @ change - share * first
            if not _vanishes(rest * self._coupled, matrix[:n], np.abs(change) + np.abs(y)):
                return None  # the equations jump at the border
            both = np.column_stack([matrix[:n], -first])
            rows, columns = balanced(both)
            along = np.linalg.qr((both / rows[:, None] / columns).T, "complete")[0][:, -1] / columns
            signs = 2.0 * sides - 1.0
            rates, distance = signs * (matrix[n:] @ along[:-1]), signs * (values[n:] + matrix[n:] @ change)
            turn = np.sign(rates[crossed])
            along, rates = turn * along, turn * rates
            left = self._free & (rates < 0.0) & (numbers != crossed)
            lengths = np.divide(-distance, rates, out=np.full(len(sides), np.inf), where=left)
            end = -share / along[-1] if along[-1] < 0.0 else np.inf
            crossed = int(np.argmin(lengths))
            if end * (1.0 - AT_END) <= lengths[crossed] and end < np.inf:
                return sides, change + end * along[:-1]
            if not turn or lengths[crossed] == np.inf:
                return None
            change, share = change + lengths[crossed] * along[:-1], share + lengths[crossed] * along[-1]
        return None


def _rank(matrix: Vector) -> int:
    if not np.isfinite(matrix).all():
        return 0  # such equations determine nothing
    singular = np.linalg.svd(matrix / np.outer(*balanced(matrix)), compute_uv=False)
    return int((singular > SINGULAR * singular[0]).sum())


def _vanishes(rest: Vector, matrix: Vector, sizes: Vector) -> bool:
    """Whether a residual is 0 but for rounding, beside the terms of unknowns of these sizes."""
    rows = balanced(matrix)[0]
    return bool((np.abs(rest) / rows).max() <= GAP * (np.abs(matrix) @ sizes / rows).max())
