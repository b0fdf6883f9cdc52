"""States behind jumps that equations force on unknowns with derivatives, and the impulses that do it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.state import Vector, interpolation_matrix
from dae_sdc.errors import SolveError
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
