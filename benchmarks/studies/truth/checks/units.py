"""The same DAE in other units: it takes the same steps, and has the same relative errors.

Unknowns are multiplied by 1e-9 to 1e9, all by one number or each by its own, and time by 1e-6 to 1e6. The run
is compared with that of the DAE as it was generated, and held against its contract, which makes it WRONG. The
catalogue takes part without its ``nominal`` values (family ``catalogue``, the seed counts units). A run that
differs is compared with runs in units that differ from 1 by 1e-12: what it has in common with one of those
depends on rounding, which may turn into another sequence of steps, and not on units.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.runs import DONE, FAILED, WRONG, Finding
from benchmarks.studies.truth import solves
from benchmarks.studies.truth.draw import Generator, Vector
from benchmarks.studies.truth.generated import KINDS, Kind, Units
from benchmarks.studies.truth.solves import DEFAULT, drawn, generate, rtol_of
from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.run.target import make_problem

# Differences that are none, in the number of steps and in the largest errors of unknowns in units of their
# largest values, of which one is above a thousandth of the tolerance
STEPS, ERRORS = 0.15, 3.0
SHARE = 0.98  # Part of the cases that must be the same
# Relative change of units that is nothing but rounding, and how many runs show what it makes
ROUNDED, RUNS = 1e-12, 6
DIFFERS = "differs in other units"
BY_ROUNDING = "as much as by rounding"
NEITHER = "neither runs"
VARIANTS = ("one", "each", "time", "all")
CATALOGUE = "catalogue"

# Problems of the catalogue that take too long without compiled code
SLOW = "two-bit-adder water-tube slider-crank wheelset ring-modulator navier-stokes nand-gate".split()
PER_SEED = 2


def units_of(n: int, variant: str, rng: Generator) -> Units:
    unknowns: Vector = np.ones(n)
    if variant in ("each", "all"):
        unknowns = 10.0 ** rng.integers(-9, 10, n).astype(float)
    if variant == "one":
        unknowns = np.full(n, 10.0 ** rng.choice([-9, -6, -3, 3, 6, 9]))
    second = 10.0 ** float(rng.choice([-6, -3, 3, 6])) if variant in ("time", "all") else 1.0
    return Units(unknowns, second)


class InOtherUnits(ProblemDAE):
    """A problem of the catalogue whose unknowns and time are told in other units, without ``nominal``."""

    def __init__(self, base: ProblemDAE, units: Units, **settings: Any) -> None:
        super().__init__(base.n_diff, base.n_alg, **settings)
        self.base, self.scale, self.second = base, units.unknowns, units.time
        self.index, self.variable_index, self.names = base.index, base.variable_index, base.names
        self.interval = base.interval[0] * self.second, base.interval[1] * self.second
        self.sparsity = base.sparsity

    def _own(self, u: Any) -> Any:
        return self.base.state(np.asarray(u) / self.scale)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        slope = self.base.state(np.asarray(du) * self.second / self.scale)
        return np.array(self.base.eval_f(self._own(u), slope, t / self.second), dtype=float)

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        times = self.base.breakpoints(t0 / self.second, t_end / self.second)
        return tuple(t * self.second for t in times)

    def switches(self, u: Any, t: float) -> Any:
        return self.base.switches(self._own(u), t / self.second)

    def hold_sides(self, sides: tuple[int, ...] | None) -> None:
        super().hold_sides(sides)
        self.base.hold_sides(sides)

    def start_step(self, u: Any, t: float) -> None:
        self.base.start_step(self._own(u), t / self.second)


class Outcome(NamedTuple):
    success: bool
    message: str
    steps: int
    error: float = np.inf  # Largest relative error of an unknown
    contract: float = 0.0  # Largest error in units of what is allowed


def _solved(problem: Any, u0: Any, method: str, rtol: float) -> Any:
    return ds.solve(problem, u0=u0, rtol=rtol, time_limit=solves.PATIENCE, **solves.options_of(method))


def _generated(family: str, seed: int, method: str, rtol: float, units: Units | None) -> Outcome:
    dae = generate(family, seed)
    scale, second = (np.ones(dae.n), 1.0) if units is None else (units.unknowns, units.time)
    run = _solved(dae.problem(True, units), dae.solution(dae.interval[0]) * scale, method, rtol)
    steps = int(run.stats["steps"])
    if not run.success:
        return Outcome(False, run.message, steps)
    times, values = run.t / second, run.u / scale
    exact = np.array([dae.solution(t) for t in times])
    size = np.abs(exact).max(axis=0)
    error = np.abs(values - exact).max(axis=0) / np.where(size > 0.0, size, 1.0)
    # In the units of the DAE as generated.
    smallest = solves.smallest_step(times, *dae.interval)
    contract = solves.ratios(dae, values - exact, exact, rtol, smallest)
    return Outcome(True, "", steps, float(error.max()), float(contract.max()))


def _in_units(name: str, units: Units, rtol: float) -> Any:
    problem = make_problem(name)
    start = np.array(problem.u_exact(problem.interval[0]), dtype=float)
    return _solved(InOtherUnits(problem, units), start * units.unknowns, DEFAULT, rtol)


@lru_cache(maxsize=4)
def _as_it_is(name: str, rtol: float) -> tuple[Any, Any]:
    """Runs of a problem of the catalogue, of which the second has a smaller tolerance."""
    same = Units(np.ones(make_problem(name).n))
    return _in_units(name, same, rtol), _in_units(name, same, max(1e-12, 1e-3 * rtol))


def _of_catalogue(name: str, rtol: float, units: Units | None) -> Outcome:
    """Errors are those at the end, against the run with a smaller tolerance."""
    run, tight = _as_it_is(name, rtol)
    size = np.maximum(np.abs(run.u).max(axis=0), 1e-300)
    run = run if units is None else _in_units(name, units, rtol)
    end = run.u[-1] if units is None else run.u[-1] / units.unknowns
    error = float((np.abs(end - tight.u[-1]) / size).max())
    error = error if tight.success and run.success else 0.0
    return Outcome(run.success, run.message, int(run.stats["steps"]), error)


def run(family: str, seed: int, variant: str, method: str = DEFAULT, size: str = "rtol=1e-06") -> Finding:
    """A run in other units, compared with that in the units of the DAE."""
    rtol, told, ask = rtol_of(size), "", partial(_generated, family, seed, method, rtol_of(size))
    if family == CATALOGUE:
        name, variant, ask = variant, VARIANTS[seed % len(VARIANTS)], partial(_of_catalogue, variant, rtol)
        n, told, key = make_problem(name).n, f"{variant}: ", [17, *name.encode()]
    else:
        n, key = generate(family, seed).n, [VARIANTS.index(variant), *family.encode()]
    units = units_of(n, variant, np.random.default_rng([seed, *key]))
    shown = units.unknowns[: 1 if (units.unknowns == units.unknowns[0]).all() else 8]
    factors = ", ".join(f"{value:g}" for value in shown)
    told = f"({told}unknowns times {factors}, time times {units.time:g})"
    base, other = ask(None), ask(units)
    if not (base.success or other.success):
        return Finding(DONE, NEITHER, steps=other.steps, solves=1)
    if other.contract > 1.0:
        said = f"{other.contract:.2g} times what is allowed, in units of the DAE as generated {told}"
        return Finding(WRONG, said, other.contract, other.steps, 1)
    said = _difference(base, other, rtol)
    if not said:
        return Finding(DONE, "", steps=other.steps, solves=1)
    for k in range(RUNS):
        rng = np.random.default_rng([k, n, 41])
        rounded = Units(1.0 + ROUNDED * rng.standard_normal(n), 1.0 + ROUNDED * float(rng.standard_normal()))
        if not _difference(ask(rounded), other, rtol):
            return Finding(DONE, f"{BY_ROUNDING}: {said} {told}", steps=other.steps, solves=k + 2)
    return Finding(FAILED, f"{DIFFERS}: {said} {told}", steps=other.steps, solves=RUNS + 1)


def _difference(first: Outcome, second: Outcome, rtol: float) -> str:
    """What two runs do not have in common, by more than rounding."""
    if not (first.success and second.success):
        same = first.success == second.success
        return "" if same else f"runs in one and not in the other: {first.message or second.message}"
    floor, said = 1e-3 * rtol, []
    ratio = max(first.error, floor) / max(second.error, floor)
    if abs(second.steps - first.steps) > max(STEPS * first.steps, 1.0):
        said.append(f"{second.steps} steps for {first.steps}")
    if max(ratio, 1.0 / ratio) > ERRORS:
        said.append(f"error {second.error:.2g} for {first.error:.2g}")
    return " and ".join(said)


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    for family, seed, _ in drawn(families, seeds, quick, PER_SEED):
        rng = np.random.default_rng([seed, 14, *family.encode()])
        for variant in VARIANTS if not quick else rng.choice(VARIANTS, 1):
            method = str(rng.choice([DEFAULT, DEFAULT, "radau-iia-5", "fully-implicit"]))
            yield f"{family}:{seed}:units:{variant}:{method}:rtol={rng.choice([1e-4, 1e-6, 1e-8]):g}"
    if quick:
        return
    names = [name for name, cls in PROBLEMS.items() if not issubclass(cls, QuasilinearProblem)]
    for name, seed, variant in product(names, seeds, range(len(VARIANTS))):
        if name not in SLOW:
            yield f"{CATALOGUE}:{4 * seed + variant}:units:{name}:{DEFAULT}:rtol=1e-05"


def summary(rows: Any) -> list[str]:
    lines, of_catalogue = [], rows["family"] == CATALOGUE
    parts = {"generated": ~of_catalogue, "catalogue": of_catalogue, "all": rows["family"] != ""}
    for title, chosen in parts.items():
        part = rows[chosen & (rows["message"] != NEITHER)]
        if len(part):
            same = int((part["outcome"] == DONE).sum())
            rounding = int(np.char.startswith(part["message"], BY_ROUNDING).sum())
            lines.append(
                f"in other units, {title}: {same} of {len(part)} the same, {same / len(part):.1%}, of which "
                f"{rounding} differ as they do by rounding alone"
            )
    return ["", *lines, f"wanted are {SHARE:.0%}"] if lines else []


KINDS.add("units", Kind(run, plan, summary))
