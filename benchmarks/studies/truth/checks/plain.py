"""DAEs as users write them who know nothing of them: a plain function or ``eval_f``, and nothing declared.

No index, no indices of unknowns, no parts of differential and algebraic unknowns, no Jacobian; unknowns and
equations in random order. They are solved to a tolerance as ``ds.solve`` takes them, read as equations or
called as they are, and held against the contract of solves. Besides, the index that is found must be the true
one, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.outcomes import DONE, WRONG, Finding, outcome_of
from benchmarks.studies.truth.generated import Generated
from benchmarks.studies.truth.kinds import KINDS, Kind
from benchmarks.studies.truth.solves import PATIENCE, exact_values, generate, judge
from dae_sdc.model.functions import FunctionProblem
from dae_sdc.run.tracing import read, with_index

TOLERANCES = tuple(10.0**-k for k in range(4, 10))

FORMS = ("function", "problem")

READINGS = {"traced": None, "untraced": False}
"""Whether equations are read, as ``ds.solve`` is told by its ``trace``."""

INDEX = "index"
"""With which messages begin that tell what was found of the index."""

RIGHT, NOT_SURE = f"{INDEX} right", f"{INDEX} not sure"


class PlainProblem(ds.ProblemDAE):
    """A generated DAE as a class with ``eval_f`` and names of its unknowns alone."""

    def __init__(self, given: Generated, **settings: Any) -> None:
        super().__init__(given.n, 0, **settings)
        self.given = given
        self.names = given.names

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        """The residual."""
        return self.given.residual(u, du, t)


def scrambled(given: Generated) -> Generated:
    """The same DAE with its unknowns and its equations in random order."""
    rng = np.random.default_rng([given.seed, 17, *given.family.encode()])
    rows = rng.permutation(given.n)
    mixed = given.reordered(rng.permutation(given.n).tolist())
    return mixed.with_rows(lambda found, u, t, functions: found[rows], given.family)


def run(family: str, seed: int, form: str, reading: str, size: str) -> Finding:
    """One run with nothing declared."""
    given = scrambled(generate(family, seed))
    start, end = given.interval
    u0, trace, rtol = exact_values(given), READINGS[reading], float(size.removeprefix("rtol="))
    given.residual(given.solution(start), given.slope(start), start)  # makes matrices of numbers once

    def function(t: Any, u: Any, du: Any) -> Any:
        return given.residual(u, du, t)

    def made() -> ds.ProblemDAE:
        return PlainProblem(given) if form == "problem" else FunctionProblem(function, given.n, given.names)

    values = given.solution(start)
    looked = read(made(), values, trace)
    known = looked.problem.index
    if known is None:
        known = with_index(looked, values, start).problem.index
    if known not in (None, given.index):
        return Finding(WRONG, f"{INDEX} {known} found, not {given.index}")

    def solve() -> Finding:
        equations: Any = function if form == "function" else made()
        found = ds.solve(equations, u0=u0, t_end=end, rtol=rtol, trace=trace, time_limit=PATIENCE)
        return judge(given, found, rtol)

    found = outcome_of(solve)
    told = NOT_SURE if known is None else RIGHT
    return replace(found, message="; ".join(filter(None, [told, found.message])))


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    """Lines of all runs."""
    for family in families:
        for seed in seeds:
            if generate(family, seed).problem_class is not None:
                continue
            rng = np.random.default_rng([seed, 17, *family.encode()])
            for reading in READINGS:
                for rtol in rng.choice(TOLERANCES, 1) if quick else TOLERANCES:
                    yield f"{family}:{seed}:plain:{rng.choice(FORMS)}:{reading}:rtol={rtol:g}"


def summary(rows: Any) -> list[str]:
    """Shares of what was done, and of what was found of the index."""
    lines = []
    for reading in READINGS:
        own = [row for row in rows if f":{reading}:" in str(row["line"])]
        if not own:
            continue
        done = sum(row["outcome"] == DONE for row in own)
        told, right, not_sure = (
            sum(str(row["message"]).startswith(text) for row in own) for text in (INDEX, RIGHT, NOT_SURE)
        )
        lines.append(
            f"nothing declared, {reading}: {done} of {len(own)} done ({done / len(own):.1%}); index right in "
            f"{right} ({right / len(own):.1%}), not sure in {not_sure}, wrong in {told - right - not_sure}"
        )
    return ["", *lines] if lines else []


KINDS.add("plain", Kind(run, plan, summary))
