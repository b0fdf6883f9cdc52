"""DAEs as users write them, with nothing declared, or something, or something that is wrong.

Unknowns and equations are in random order. A form names what is given: ``function`` and ``problem`` tell
nothing of the index; ``index``, ``indices`` and ``both`` that of the DAE, those of the unknowns, or both;
``wrong`` others than the true ones. ``+jacobian`` adds a Jacobian of the user's, ``+units`` tells unknowns
and time in units of 1e-12 to 1e12. The index that is found where nothing is declared is the true one or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.measuring.runs import BAD, WRONG, Finding, done_of, outcome_of
from benchmarks.studies.truth.generated import KINDS, Generated, Kind, PlainProblem, Told, Units, derivative
from benchmarks.studies.truth.solves import drawn, generate, rtol_of
from benchmarks.studies.truth.written import solved
from dae_sdc.errors import InputError
from dae_sdc.model.functions import FunctionProblem
from dae_sdc.run.equations import read, with_index

TOLERANCES = tuple(10.0**-k for k in range(4, 10))
UNDECLARED = ("function", "problem")
DECLARED = ("index", "indices", "both", "wrong")
JACOBIAN, UNITS = "+jacobian", "+units"
FORMS = (
    *(*UNDECLARED, *DECLARED, *(f"{name}{JACOBIAN}" for name in ("problem", *DECLARED))),
    *(f"{name}{UNITS}" for name in ("function", "problem", f"both{JACOBIAN}", "indices")),
)
LARGEST = 12  # Units are 1e-12 to 1e12
READINGS = {"traced": None, "untraced": False}  # Whether equations are read, as ds.solve is told by its trace
PER_SEED = 3
INDEX = "index"  # With which messages begin that tell what was found of the index
RIGHT, NOT_SURE = f"{INDEX} right", f"{INDEX} not sure"


class WithJacobian(PlainProblem):
    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        """dF/du' + c dF/du by complex steps, as exact as a formula."""
        u, du = np.array(u), np.array(du)
        return derivative(lambda s: self.told.residual(t, u + c * s, du + s), np.zeros(u.size))


def scrambled(given: Generated) -> Generated:
    """The same DAE with its unknowns and its equations in random order."""
    rng = np.random.default_rng([given.seed, 17, *given.family.encode()])
    rows = rng.permutation(given.n)
    dae = given.reordered(rng.permutation(given.n).tolist())

    def mix(mixed: Any, *at: Any) -> Any:
        return (mixed if dae.mix is None else dae.mix(mixed, *at))[rows]

    return replace(dae, mix=mix)


def told_of(given: Generated, form: str) -> Told:
    rng = np.random.default_rng([given.seed, 18, *form.encode()])
    name, n = form.partition("+")[0], given.n
    units = Units(np.ones(n))
    if form.endswith(UNITS):
        each = rng.random() < 0.5
        powers = rng.integers(-LARGEST, LARGEST + 1, n) if each else rng.choice((-LARGEST, LARGEST))
        units = Units(np.full(n, 10.0**powers), 10.0 ** float(rng.choice((-LARGEST, -6, 0, 6, LARGEST))))
    index = given.index if name in ("index", "both") else None
    indices = given.variable_index if name in ("indices", "both") else None
    if name == "wrong":
        others = [k for k in range(5) if k != given.index]
        guesses = [(1,) * n, (2,) * n, tuple(rng.permutation(given.variable_index).tolist())]
        false = [k for k in guesses if k != given.variable_index]
        which = int(rng.integers(3))
        index = int(rng.choice(others)) if which != 1 else None
        indices = false[int(rng.integers(len(false)))] if which != 0 else None
    return Told(given, units, index, indices)


def run(family: str, seed: int, form: str, reading: str, size: str) -> Finding:
    if form not in FORMS:
        raise InputError(f"unknown form '{form}'; there are {', '.join(FORMS)}")
    given = scrambled(generate(family, seed))
    told, trace = told_of(given, form), READINGS[reading]
    start, end = (t * told.units.time for t in given.interval)
    values = told.exact(np.array([start]))[0]
    given.residual(given.solution(start), given.slope(start), start)  # makes matrices of numbers once
    called, kind = form.startswith("function"), WithJacobian if JACOBIAN in form else PlainProblem

    def function(t: Any, u: Any, du: Any) -> Any:
        return told.residual(t, u, du)

    said, mistaken = "", False
    if form.partition("+")[0] in UNDECLARED:
        plain = FunctionProblem(function, given.n, given.names) if called else kind(told)
        plain.interval = start, end  # as a run has it
        equations = read(plain, values, trace)
        index = equations.problem.index
        if index is None:
            index = with_index(equations).problem.index
        mistaken = index not in (None, given.index)
        said = NOT_SURE if index is None else RIGHT
        said = f"{INDEX} {index} found, not {given.index}" if mistaken else said

    def solve() -> Finding:
        u0 = dict(zip(given.names, values.tolist(), strict=True))
        options: dict[str, Any] = {"u0": u0, "t0": start, "trace": trace, "rtol": rtol_of(size)}
        target: Any = function if called else kind(told)
        return solved(target, told.exact, end=end, scale=told.units.unknowns, **options)

    finding = outcome_of(solve)
    if mistaken and finding.outcome not in BAD:
        finding = replace(finding, outcome=WRONG, message=f"the run is {finding.outcome}: {finding.message}")
    return replace(finding, message="; ".join(filter(None, [said, finding.message])))


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    wanted = seeds if quick else range(seeds.start * PER_SEED, seeds.stop * PER_SEED)
    for family, seed, _ in drawn(families, wanted, quick, 1):
        rng = np.random.default_rng([seed, 17, *family.encode()])
        for reading in READINGS:
            for form in rng.choice(FORMS, 2, replace=False) if quick else FORMS:
                yield f"{family}:{seed}:plain:{form}:{reading}:rtol={rng.choice(TOLERANCES):g}"


def summary(rows: Any) -> list[str]:
    lines = []
    parts = [(str(row["line"]).split(":"), row) for row in rows]
    for reading in READINGS:
        own = [row for part, row in parts if part[4] == reading and part[3] in UNDECLARED]
        if not own:
            continue
        told, right, not_sure = (
            sum(str(row["message"]).startswith(text) for row in own) for text in (INDEX, RIGHT, NOT_SURE)
        )
        lines.append(
            f"nothing declared, {reading}: {done_of(own)}; index right in "
            f"{right} ({right / len(own):.1%}), not sure in {not_sure}, wrong in {told - right - not_sure}"
        )
    expected = [row for part, row in parts if not part[3].startswith("wrong")]
    if expected:
        lines.append(f"plain, nothing wrong declared: {done_of(expected)}")
    for form in FORMS:
        told_so = [row for part, row in parts if part[3] == form]
        if told_so:
            bad = sum(row["outcome"] in BAD for row in told_so)
            lines.append(f"plain {form}: {done_of(told_so)}, {bad} bad")
    return ["", *lines] if lines else []


KINDS.add("plain", Kind(run, plan, summary))
