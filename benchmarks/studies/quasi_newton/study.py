"""Quasi-Newton updates beside the modified Newton iteration; see :func:`quasi_newton`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks.measuring.clock import clocked, in_turn
from benchmarks.study import Layout, Option, Table, chosen, study
from dae_sdc.dae.newton import ImplicitSystem, ModifiedNewton
from dae_sdc.dae.state import Vector
from dae_sdc.errors import require_count
from dae_sdc.problems.tyre import GRAVITY_OF_CAR, BrushTyre
from dae_sdc.run.results import Result
from dae_sdc.run.solution import Solution
from dae_sdc.run.solve import solve
from dae_sdc.sweepers import solvers

MOST_PAIRS = 10  # Most updates of one factorisation
SMALLEST_DENOMINATOR = 1e-8  # Size of s^T H y relative to s^T s below which a matrix is not updated


class UpdatedNewton(ModifiedNewton):
    """A modified Newton iteration whose kept matrices get the good update of Broyden in every iteration.

    H_k+1 g = H_k g - v_k (s_k^T H_k g) / (s_k^T H_k y_k) with v_k = H_k F_k+1, in the weights of the
    unknowns, so that an update costs two inner products. Updates of a solve are dropped when it ends, in a
    subclass they stay until a matrix is factorised anew.
    """

    stays = False

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        self._pairs: dict[int, list[tuple[Vector, Vector]]] = {}

    def solve(self, system: ImplicitSystem) -> None:
        self._last: tuple[Vector, Any] | None = None
        if not self.stays:
            self._pairs.clear()
        super().solve(system)

    def factor(self) -> bool:
        self._pairs.pop(id(self.matrix), None)
        return super().factor()

    def restore(self) -> None:
        super().restore()
        self._last = None

    def correct(self) -> float:
        self._residual = self._system.residual()
        pairs = self._pairs.setdefault(id(self.matrix), [])
        delta = self._solved(self._residual)
        allowed = self._system.tolerated(1.0)
        squared = np.where((allowed > 0.0) & np.isfinite(allowed), allowed, 1.0) ** -2.0
        for s, r in pairs:
            delta = delta + r * ((s * squared) @ delta)
        if self._last is not None and self._last[1] is self.matrix and len(pairs) < MOST_PAIRS:
            s = -self._last[0]
            weighted = s * squared
            product = weighted @ (delta + s)
            if abs(product) > SMALLEST_DENOMINATOR * (weighted @ s):
                r = -delta / product
                pairs.append((s, r))
                delta = delta + r * (weighted @ delta)
        self._delta = delta
        self._last = delta.copy(), self.matrix
        size = self._system.size(delta)
        self._history.append(size)
        return size


class LastingNewton(UpdatedNewton):
    stays = True


# Iterations by name
KINDS = {"ours": ModifiedNewton, "BGM in solve": UpdatedNewton, "BGM stays": LastingNewton}


def counted(kind: str, problem: str, sweeper: str) -> Solution:
    """A run at rtol = 1e-6 with an iteration in Python."""
    with patch.object(solvers, "ModifiedNewton", KINDS[kind]):
        return solve(problem, sweeper=sweeper, rtol=1e-6, backend="numpy")


# Updates H + (s - H y) z^T / (z^T y) of the inverse H, in the order in which compiled code knows them
UPDATES: Mapping[str, str] = {
    "BGM": "good update of Broyden",
    "BBM": "bad update of Broyden",
    "BCM": "either of both by the test of Martinez",
    "G1M": "first update of Greenstadt",
    "G2M": "second update of Greenstadt",
    "CUM": "update of one column",
    "ICM": "update of one column of the inverse",
    "ENM": "update of Eirola and Nevanlinna",
    "PIM": "none, as in Picard's iteration: the first inverse stays",
}

# Success in per cent and mean time in us with five ribs, and the time of BCM by ribs, of another tyre: slides
# of D. Stocco's doctoral defence, University of Trento. An overflow is no success; PIM is not spelt out.
PUBLISHED_SUCCESS = dict(BGM=99.9, BCM=100.0, G2M=99.5, ENM=99.4, BBM=0.0, G1M=0.0, PIM=0.0)
PUBLISHED_SUCCESS |= {f"D-{name}": success for name, success in PUBLISHED_SUCCESS.items()}
PUBLISHED_SUCCESS |= {"D-ENM": 99.5, "D-BBM": 100.0}
PUBLISHED_TIME = {"BCM": 55.7, "BGM": 62.5, "G2M": 69.0, "ENM": 81.5, "PIM": 617.2}
PUBLISHED_RIBS = {1: 19.4, 5: 55.7, 10: 167.3, 15: 249.4, 20: 332.9, 25: 414.0}

# Largest correction, in units of 1 cm and of a slip of 0.1, and residual, in units of the car's weight
CORRECTION_TOLERANCE, RESIDUAL_TOLERANCE, MOST_ITERATIONS = 1e-9, 1e-9, 100

TEXT = Layout(
    "run=case:<36|matrix=method:<12|iterations:>10.0f|evaluations:>11.0f|Jacobians=jacobians:>9.0f|time:>6.2f"
)

# Problems and methods whose steps are solved with and without updates
STEPS = (
    *product(("brush-tyre", "chemical-akzo-nobel", "robertson"), ("fully-implicit", "semi-implicit")),
    *(("pendulum", "semi-implicit"), ("transmission-line", "semi-implicit")),
)


class Cases(NamedTuple):
    times: Any  # Shape (K,)
    states: Any  # States, whose last entries are the guesses, shape (K, n)
    parameters: Any  # Parameters of the equations, shape (K, any)


@study(
    "quasi-newton",
    "part:U8 case:U48 method:U16 ribs:i8 runs:i8 success[%] iterations evaluations jacobians time",
    example="--ribs 1,5 --contacts 100 --repetitions 1",
    options={
        "ribs": Option("numbers of ribs, separated by commas", check=require_count, what="number of ribs"),
        "contacts": Option("contacts with random states", check=require_count),
    },
)
def quasi_newton(
    rows: Table,
    *,
    problems: Sequence[str] | None = None,
    ribs: Sequence[int] = tuple(PUBLISHED_RIBS),
    contacts: int = 1000,
    repetitions: int = 5,
    seed: int = 1,
) -> None:
    """Solve the contact of a tyre by quasi-Newton updates, by Newton's method and by our modified one.

    The contact are the algebraic equations of ``brush-tyre`` for loads and slips of all ribs at given values
    of the others. In part "cold" these are random, the guesses are poor and updates begin with the inverse of
    the Jacobian there; in part "unit" with a multiple of the unit matrix. In part "warm" contacts follow one
    another by 1 ms along a run, and guess and matrix are those of the contact before. All run compiled, with
    the Jacobians that steps have. Part "steps" has whole runs at rtol = 1e-6, whose modified Newton iteration
    is given the good update of Broyden or not, both in Python.
    """
    names = chosen("problem", problems, dict.fromkeys(problem for problem, _ in STEPS))
    runs = [(problem, sweeper) for problem, sweeper in STEPS if problem in names]
    for n in rows.each(ribs, "tyre"):
        tyre = BrushTyre(ribs=n)
        random = random_contacts(tyre, contacts, seed)
        _measure(rows, "cold", tyre, random, repetitions)
        times = np.linspace(*tyre.interval, 1001)  # 1 ms apart
        states = np.array(solve(tyre, rtol=1e-6, t_eval=times).u)
        run = Cases(times, states, np.tile(tyre.packed_parameters, (len(times), 1)))
        _measure(rows, "warm", tyre, run, repetitions)
        if n == 5:
            _measure(rows, "unit", tyre, random, repetitions)
    for problem, sweeper in rows.each(runs, "run"):
        _measure_steps(rows, problem, sweeper, repetitions)


def random_contacts(tyre: BrushTyre, count: int, seed: int) -> Cases:
    """Contacts at random states, with the deflection of the belt at 3/4 and the slip of a rigid carcass."""
    rng = np.random.default_rng(seed)
    n, places = tyre.ribs, list(tyre.parameters)
    states = np.zeros((count, tyre.n))
    parameters = np.tile(tyre.packed_parameters, (count, 1))
    for state, given in zip(states, parameters, strict=True):
        camber, sunk, speed = rng.uniform(-0.1, 0.1), rng.uniform(0.008, 0.028), rng.uniform(5.0, 50.0)
        omega = speed / tyre.R * rng.uniform(0.5, 1.5)
        given[places.index("camber")], given[places.index("mu")] = camber, rng.uniform(0.3, 1.2)
        tilted = tyre.width * ((np.arange(n) + 0.5) / n - 0.5) * math.tan(camber)
        deflections = np.maximum(sunk + tilted, 0.0)
        state[:6] = -sunk, -sunk, 0.0, 0.0, speed, omega
        state[6 : 6 + n] = rng.uniform(-0.008, 0.008)
        state[6 + n : 6 + 2 * n] = 0.75 * deflections
        state[6 + 2 * n :] = 1.0 - speed / (omega * (tyre.R - deflections / 3.0))
    return Cases(np.zeros(count), states, parameters)


def _measure(rows: Table, part: str, tyre: BrushTyre, cases: Cases, repetitions: int) -> None:
    from benchmarks.studies.quasi_newton import _machine

    contact = _machine.contact_of(tyre)
    warm, start = part == "warm", tyre.c_p * 1e-2 / tyre.ribs if part == "unit" else 0.0
    goal = RESIDUAL_TOLERANCE * (tyre.m_s + tyre.m_u) * GRAVITY_OF_CAR
    settings = (CORRECTION_TOLERANCE, goal, MOST_ITERATIONS)
    methods = {name: (k, False) for k, name in enumerate(UPDATES)}
    methods |= {f"D-{name}": (k, True) for k, name in enumerate(UPDATES)}
    if part != "unit":
        own = {"newton": (_machine.NEWTON, False), "ours": (_machine.OURS, False)}
        methods = own | {"D-ours": (_machine.OURS, True)} | methods

    def solved(method: int, damped: bool) -> Any:
        return _machine.run(contact, tuple(cases), method, damped, warm, start, settings)

    solved(0, False)  # compiles
    count = len(cases.times)
    runs = {name: partial(clocked, partial(solved, *how)) for name, how in methods.items()}
    for name, done in in_turn(runs, repetitions).items():
        solves = done[-1][1]
        good = solves[solves[:, 0] > 0]
        means = good[:, 1:].mean(axis=0) if len(good) else np.full(3, np.nan)
        rows.put(
            **{"part": part, "case": "", "method": name, "ribs": tyre.ribs, "runs": count},
            **{"success": 100.0 * len(good) / count, "evaluations": means[0], "jacobians": means[1]},
            **{"iterations": means[2], "time": 1e6 * median(spent.processor for spent, _ in done) / count},
        )


def _measure_steps(rows: Table, problem: str, sweeper: str, repetitions: int) -> None:
    """A row for each kind of iteration on a run."""
    runs = {kind: partial(clocked, partial(counted, kind, problem, sweeper)) for kind in KINDS}
    in_turn(runs, 1)  # compiles
    for kind, done in in_turn(runs, repetitions).items():
        solution = done[-1][1]
        stats = solution.stats
        rows.put(
            **{"part": "steps", "case": f"{problem}, {sweeper}", "method": kind, "ribs": 0, "runs": 1},
            **{"success": 100.0 * solution.success, "iterations": stats["newton"]},
            **{"evaluations": stats["rhs"], "jacobians": stats["jacobian"]},
            time=median(spent.processor for spent, _ in done),
        )


quasi_newton.units["time"] = "us, s in part steps"


@quasi_newton.reports
def report(result: Result) -> Iterator[str]:
    data = result.data
    titles = {
        "cold": "random contacts, Jacobian at the guess to start with; published: another tyre, five ribs",
        "unit": "the same contacts, beginning with a multiple of the unit matrix",
        "warm": "contacts of a run, guess and matrix of the one before",
    }
    for part, title in titles.items():
        of_part = data[data["part"] == part]
        counts = list(dict.fromkeys(of_part["ribs"].tolist()))
        if counts:
            yield from (title, "", *_by_ribs(of_part, counts, part == "cold"), "")
    yield from ("whole runs at rtol = 1e-6; ratios to ours", "", TEXT.head())
    steps = data[data["part"] == "steps"]
    for row in steps:
        own = steps[(steps["case"] == row["case"]) & (steps["method"] == "ours")][0]
        failed = "" if row["success"] == 100.0 else "  fails"
        yield f"{TEXT.line(row, time=row['time'] / own['time'])}{failed}"


def _by_ribs(data: Any, counts: Sequence[int], beside: bool) -> list[str]:
    """Success and time of every method by number of ribs, and beside those that are published."""
    head = "".join(f"{f'{count} rib' + 's' * (count > 1):>24}" for count in counts)
    lines = [f"{'':<8}{head}{'   published' if beside else ''}"]
    lines.append(f"{'method':<8}" + f"{'% ok':>7} {'iter':>5} {'J':>4} {'us':>5}" * len(counts))
    for method in dict.fromkeys(data["method"].tolist()):
        text = f"{method:<8}"
        for row in data[data["method"] == method]:
            text += f"{row['success']:>7.1f} {row['iterations']:>5.1f} {row['jacobians']:>4.1f}"
            text += f" {row['time']:>5.0f}"
        if beside and method in PUBLISHED_SUCCESS:
            time = PUBLISHED_TIME.get(method)
            text += f"{PUBLISHED_SUCCESS[method]:>8.1f} %" + (f" {time:.1f} us" if time else "")
        lines.append(text)
    if beside:
        times = "".join(f"{f'{time:.1f}' if time else '':>24}" for time in map(PUBLISHED_RIBS.get, counts))
        lines.append(f"{'BCM':<8}{times}  published, us")
    return lines
