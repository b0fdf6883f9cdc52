"""Work and precision of this package and of other solvers on test problems; see :func:`peers`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring.limits import TOO_LONG
from benchmarks.studies.peers import solvers as peer_solvers
from benchmarks.studies.peers.solvers import (
    PEERS,
    Case,
    Outcome,
    Peer,
    PeerFailure,
    carry_out,
    known_peers,
    missing,
    times_in_turn,
)
from benchmarks.study import Layout, Option, Table, as_text, chosen, columns, register, tabulated
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.plotting.plot import Picture
from dae_sdc.problems._testset import TestSetProblem, scd
from dae_sdc.run.callbacks import EXCLUDED_TOLERANCE, weighted
from dae_sdc.run.results import Result
from dae_sdc.run.solve import solve
from dae_sdc.run.target import make_problem
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.sweepers.tableaux import METHODS

# Problems that are compared besides those of the Test Set for IVP Solvers
ALSO = ("simple", "two-transistor")
DEFAULT = "dae_sdc"  # Name in tables of what solve does when no sweeper is named
# Methods that are named, besides all Runge-Kutta pairs with an embedded method
SWEEPERS_COMPARED = ("semi-implicit", "fully-implicit", "radau-iia-5")
REFERENCES = (1e-6, 1e-9)  # Tolerances at which the error of the default is what all others have to reach
MOST_SCALES = 12  # Unknowns whose scale a table names
LONGEST_WARM_UP = 60.0  # Time in seconds for the first run of a method, in which code may be compiled
ALL_WEIGHTS = "all"

COLUMNS, UNITS = columns(
    "problem:U32 solver:U24 weights:U8 n:i8 index:i8 rtol[1] success:i8 time[s] runs:i8 error[1] scd[1] "
    "steps rejected rhs jacobian factorization message:U120"
)
COUNTS = ("steps", "rejected", "rhs", "jacobian", "factorization")
HEAD = Layout("solver:<16|weights:<7|rtol:>6.0e")
EQUAL = Layout(
    "problem:<22|rtol:>6.0e|error:>8|default=ours*1e3:>9.2f|our best=best_time*1e3:>9.2f| =best:<16|"
    "best peer=peer_time*1e3:>9.2f| =peer:<13|ratio:>6|casadi=unlike*1e3:>8.2f",
    nan="-",
)
WORK = Layout(
    "steps:>7.0f|rej.=rejected:>5.0f|rhs:>8.0f|jac.=jacobian:>6.0f|fact.=factorization:>6.0f", nan="-"
)
DIGITS = Layout("scd:>5.2f|error:>8.1e")


OPTIONS = {
    "sweepers": Option("methods of this package besides its default", flag="sweeper"),
    "others": Option("peers to compare with", flag="peer"),
}


@tabulated("peers", COLUMNS, UNITS, OPTIONS)
def peers(
    rows: Table,
    *,
    problems: Sequence[str] | None = None,
    rtols: Sequence[float] = tuple(10.0**-power for power in range(3, 13)),
    sweepers: Sequence[str] | None = None,
    others: Sequence[str] | None = None,
    repetitions: int = 3,
    time_limit: float = 20.0,
) -> None:
    """Solve test problems at a row of tolerances, here and with other packages, which take turns.

    IDA (scikit-sundae), Radau and BDF (scipy-dae) get the compiled residual and the exact Jacobian of the
    problem and its consistent start; IDAS of CasADi, with expressions of its own, is no like comparison and
    has rows of its own. All have the relative tolerance rtol and the absolute tolerance rtol times a scale.
    No peer scales the error of unknowns by their index; each is therefore also run with the unknowns of
    index 2 or 3, or all algebraic ones, taken out of its error test. Every solver begins
    anew at the break points of a problem.

    The time is that of the processor in a whole call, set-up included, compiled code loaded. Runs that take
    long are not repeated, and no tighter tolerance is tried after one that has taken too long.
    """
    names = chosen("problem", default_problems() if problems is None else problems, PROBLEMS)
    wanted = chosen("peer", others, PEERS)
    methods = (default_sweepers() if others is None else []) if sweepers is None else list(sweepers)
    methods = chosen("sweeper", methods, SWEEPERS) if methods else []
    tolerances = sorted({float(rtol) for rtol in rtols}, reverse=True)
    known = [peer for peer in known_peers() if peer.name in wanted]
    here = [peer for peer in known if not missing(peer)]
    for package in dict.fromkeys(peer.package for peer in known if missing(peer)):
        rows.leave_out(package, "not installed: pip install 'dae_sdc[bench]'")
    rows.parameters |= {"rtols": tolerances, "default": DEFAULT, "ours": [DEFAULT, *methods]}
    rows.parameters |= {"settings": {}, "scales": {}}
    rows.parameters |= {"like": [peer.name for peer in here if peer.like]}
    rows.parameters |= {"unlike": [peer.name for peer in here if not peer.like]}
    rows.parameters |= {"versions": list(dict.fromkeys(map(peer_solvers.version, here)))}
    with rows.bar(len(names) * len(tolerances), "ladder") as bar:
        for name in names:
            try:
                bench = _Bench(rows, name, methods, here, repetitions, time_limit)
            except InputError as reason:
                rows.leave_out(name, reason)
                bar.update(len(tolerances))
                continue
            for one in bench.contenders:  # what is not compiled yet is compiled here
                if one.solver in rows.parameters["ours"]:
                    carry_out(partial(one.run, tolerances[0], False), max(LONGEST_WARM_UP, time_limit))
            for rtol in tolerances:
                bench.measure(rtol)
                bar.update(1)


def default_problems() -> list[str]:
    """Names of the problems with an official end value, and :data:`ALSO`."""
    official = [name for name in PROBLEMS if issubclass(PROBLEMS[name], TestSetProblem)]
    return [*official, *(name for name in ALSO if name not in official)]


def default_sweepers() -> list[str]:
    """Names of the methods that are compared besides the default."""
    embedded = [name for name, tableau in METHODS.items() if tableau.embedded]
    return [*SWEEPERS_COMPARED, *embedded]


class Score:
    """How far a value is from that at the end of a problem: its reference_end, or u_exact there."""

    def __init__(self, problem: ProblemDAE, scale: Vector) -> None:
        self.problem, self.scale = problem, scale  # shape (n,): atol / rtol of the unknowns
        end = getattr(problem, "reference_end", None)
        self.exact = np.array(problem.u_exact(problem.interval[1]) if end is None else end.u, dtype=float)
        digits = np.full(problem.n, 16.0) if end is None else np.asarray(end.digits, dtype=float)
        scored = range(problem.n) if end is None else end.scored
        self.scored = np.array([i for i in scored if digits[i] > 0.0], dtype=np.int64)
        self.known = 10.0 ** -digits[self.scored] * np.abs(self.exact[self.scored])

    def error(self, u: Vector) -> float:
        """Largest error relative to scale + abs(u), at least what the reference is known to."""
        exact = self.exact[self.scored]
        error = np.maximum(np.abs(u[self.scored] - exact), self.known)
        return float((error / (self.scale[self.scored] + np.abs(exact))).max())

    def digits(self, u: Vector) -> float:
        """Significant correct digits, scd."""
        if hasattr(self.problem, "reference_end"):
            return float(scd(self.problem, u))
        exact = self.exact[self.scored]
        error = np.maximum(np.abs(u[self.scored] - exact), self.known)
        return float(-np.log10(error / np.abs(exact)).max()) if np.all(exact) else math.nan


def scale_of(problem: ProblemDAE) -> Vector:
    """atol / rtol of every unknown: its nominal size, for all solvers alike."""
    return np.array(np.broadcast_to(np.asarray(problem.nominal, dtype=np.float64), (problem.n,)))


@dataclass
class Contender:
    """A solver with a choice of what its error test looks at."""

    # solver, weights: names in the table
    solver: str
    weights: str
    # Integrates with a tolerance, and counts what costs time to count if the second argument says so
    run: Callable[[float, bool], Outcome]
    stopped: str = ""  # Why no further tolerance is tried; empty while they are
    left_out: bool = False  # Whether it cannot solve this problem at all


class _Bench:
    """All solvers on one problem."""

    def __init__(
        self,
        rows: Table,
        name: str,
        methods: Sequence[str],
        others: Iterable[Peer],
        repetitions: int,
        time_limit: float,
    ) -> None:
        self.rows, self.name, self.repetitions, self.time_limit = rows, name, repetitions, time_limit
        problem = make_problem(name)
        self.case, self.scale = Case(problem), scale_of(problem)
        self.score = Score(problem, self.scale)
        self.contenders = [self._ours(DEFAULT, None), *(self._ours(method, method) for method in methods)]
        for peer in others:
            self.contenders += [self._peer(peer, weights) for weights in self.case.exclusions]
        rows.parameters["settings"][name] = {peer.name: peer.settings(self.case) for peer in others}
        sizes = zip(problem.names, self.scale.tolist(), strict=True)
        rows.parameters["scales"][name] = {unknown: size for unknown, size in sizes if size != 1.0}

    def _ours(self, solver: str, sweeper: str | None) -> Contender:
        named: dict[str, Any] = {} if sweeper is None else {"sweeper": sweeper}

        def run(rtol: float, count: bool) -> Outcome:
            atol: Any = rtol * self.scale
            if (self.scale == self.scale[0]).all():
                atol = float(atol[0])
            tic = process_time()
            found = solve(self.name, rtol=rtol, atol=atol, **named)
            time = process_time() - tic
            if not found.success:
                raise PeerFailure(found.message)
            return Outcome(time, found.u[-1], **{name: float(found.stats[name]) for name in COUNTS})

        return Contender(solver, ALL_WEIGHTS, run)

    def _peer(self, peer: Peer, weights: str) -> Contender:
        excluded = self.case.exclusions[weights]

        def run(rtol: float, count: bool) -> Outcome:
            return peer.run(self.case, rtol, weighted(rtol, self.scale, excluded), count)

        return Contender(peer.name, weights, run)

    def measure(self, rtol: float) -> None:
        """The rows of one tolerance."""
        firsts = [self._first(one, rtol) for one in self.contenders]
        again = [partial(carry_out, partial(c.run, rtol, False), self.time_limit) for c in self.contenders]
        times = times_in_turn(again, firsts, self.repetitions, self.time_limit)
        for one, first, time in zip(self.contenders, firsts, times, strict=True):
            if isinstance(first, str):
                if not one.left_out:
                    self.rows.put(**self._about(one, rtol), message=first)
                continue
            self.rows.put(
                **{**self._about(one, rtol), **time, "success": 1},
                **{"error": self.score.error(first.end), "scd": self.score.digits(first.end)},
                **{name: getattr(first, name) for name in COUNTS},
            )

    def _first(self, one: Contender, rtol: float) -> Outcome | str:
        """The run in which all work is counted, or why there is none."""
        if one.stopped:
            return one.stopped
        first = carry_out(partial(one.run, rtol, True), self.time_limit)
        if isinstance(first, str):
            if first.startswith(InputError.__name__):
                one.stopped, one.left_out = first, True
                if one.weights == ALL_WEIGHTS:
                    self.rows.leave_out(f"{self.name}, {one.solver}", first.partition(": ")[2])
            elif first.startswith(TOO_LONG):
                one.stopped = f"not tried: {first} at {rtol:g}"
        return first

    def _about(self, one: Contender, rtol: float) -> dict[str, Any]:
        problem = self.case.problem
        return {
            **{"problem": self.name, "solver": one.solver, "weights": one.weights, "rtol": rtol},
            **{"n": problem.n, "index": problem.index or 0},
        }


def front(error: Vector, time: Vector) -> tuple[Vector, Vector]:
    """The runs that none other beats in both error and time, from cheap to accurate."""
    # Shapes: error and time (k,).
    errors: list[float] = []
    times: list[float] = []
    for place in np.lexsort((error, time)):
        if math.isfinite(error[place]) and (not errors or error[place] < errors[-1]):
            errors.append(float(error[place]))
            times.append(float(time[place]))
    return np.array(errors), np.array(times)


def time_to(target: float, error: Vector, time: Vector) -> float:
    """Time that a solver needs for an error, by logarithms between two runs of its front."""
    # Shapes: error and time (k,).
    errors, times = front(error, time)
    if not len(errors) or target < errors[-1]:
        return math.nan
    if target >= errors[0]:
        return float(times[0])
    return float(np.exp(np.interp(-math.log(target), -np.log(errors), np.log(times))))


@dataclass(frozen=True)
class Equal:
    """Times to the error of one run of the default."""

    problem: str  # Its name
    # rtol, error: tolerance of the default, and the error it reached; NaN if that run failed
    rtol: float
    error: float
    ours: float  # Time of the default to this error, in seconds
    # best, best_time: our fastest method to this error
    best: str
    best_time: float
    # peer, peer_time: the fastest peer with the same equations; NaN if none gets there
    peer: str
    peer_time: float
    ratio: float  # ours / peer_time; 0 if only we get there, infinite if only they do, NaN if nobody does
    unlike: float  # Time of CasADi's IDAS


def equal_accuracy(result: Result) -> list[Equal]:
    """The times to equal errors in a result of :func:`peers`, for :data:`REFERENCES`."""
    found = []
    for problem in dict.fromkeys(result.data["problem"].tolist()):
        for rtol in REFERENCES:
            own = result.data[result.data["problem"] == problem]
            if np.isclose(own["rtol"], rtol, rtol=1e-6, atol=0.0).any():
                found.append(_equal(result.parameters, str(problem), own, rtol))
    return found


def _equal(about: Mapping[str, Any], problem: str, rows: NDArray[np.void], rtol: float) -> Equal:
    here = np.isclose(rows["rtol"], rtol, rtol=1e-6, atol=0.0)
    good = rows[rows["success"] == 1]
    run = rows[(rows["solver"] == about["default"]) & here & (rows["success"] == 1)]
    if not len(run):
        others = rows[here & (rows["success"] == 1) & np.isin(rows["solver"], about["like"])]
        ratio = math.inf if len(others) else math.nan
        nothing = math.nan
        return Equal(problem, rtol, nothing, nothing, "", nothing, "", nothing, ratio, nothing)
    error = float(run["error"][0])

    def fastest(solvers: Iterable[str]) -> tuple[str, float]:
        best, least = "", math.nan
        for solver in solvers:
            own = good[good["solver"] == solver]
            time = time_to(error, own["error"], own["time"])
            if not math.isnan(time) and not time >= least:
                best, least = solver, time
        return best, least

    ours = fastest([about["default"]])[1]
    best, best_time = fastest(about["ours"])
    peer, peer_time = fastest(about["like"])
    ratio = 0.0 if math.isnan(peer_time) else ours / peer_time
    unlike = fastest(about["unlike"])[1]
    return Equal(problem, rtol, error, ours, best, best_time, peer, peer_time, ratio, unlike)


@as_text
def report(result: Result) -> Iterator[str]:
    """The tables of a result of :func:`peers`."""
    data, about = result.data, result.parameters
    yield (
        f"medians of {about['repetitions']} runs in turn, at most {about['time_limit']:g} s each; "
        f"{', '.join(about['versions']) or 'no peer is installed'}"
    )
    yield "atol = rtol times a scale, 1 if not said; error: largest abs(error) / (scale + abs(u)) at the end"
    yield (
        "weights: unknowns in the error test of a peer, all, those of an index up to i or differential ones;"
        f"\nthe others have atol = {EXCLUDED_TOLERANCE:g} rtol"
    )
    for problem in dict.fromkeys(data["problem"].tolist()):
        yield ""
        yield from _ladders(data[data["problem"] == problem], about)
    yield ""
    yield from _equal_lines(equal_accuracy(result))


def _ladders(rows: NDArray[np.void], about: Mapping[str, Any]) -> Iterator[str]:
    """The table of one problem."""
    problem = str(rows["problem"][0])
    sizes = about["scales"].get(problem, {})
    scales = ", ".join(f"{name} {value:.1g}" for name, value in list(sizes.items())[:MOST_SCALES])
    scales += ", ..." if len(sizes) > MOST_SCALES else ""
    yield f"{problem}: n={rows['n'][0]}, index {rows['index'][0]}" + (f"; scales: {scales}" if scales else "")
    yield f"{HEAD.head()} {'ms':>9} {WORK.head()} {DIGITS.head()}"
    for solver, weights in dict.fromkeys((str(row["solver"]), str(row["weights"])) for row in rows):
        for row in rows[(rows["solver"] == solver) & (rows["weights"] == weights)]:
            if row["success"] == 1:
                yield f"{HEAD.line(row)} {1e3 * row['time']:>9.2f} {WORK.line(row)} {DIGITS.line(row)}"
            else:
                yield f"{HEAD.line(row)} {'-':>9} {row['message']}"
    yield from (f"  {name}: {text}" for name, text in about["settings"].get(problem, {}).items())


def _equal_lines(found: Sequence[Equal]) -> Iterator[str]:
    """The table of times to the same error, and how often ours is not the longer."""
    yield "ms to the same error, which the default reached at rtol"
    yield EQUAL.head()
    for one in found:
        error = "failed" if math.isnan(one.error) else f"{one.error:.1e}"
        yield EQUAL.line(vars(one), error=error, ratio=f"{one.ratio:.2f}")
    for rtol in REFERENCES:
        ratios = [one.ratio for one in found if one.rtol == rtol and not math.isnan(one.ratio)]
        if ratios:
            fine = sum(ratio <= 1.0 for ratio in ratios)
            yield (
                f"rtol {rtol:g}: default / best peer at most 1 on {fine} of {len(ratios)} problems, "
                f"largest {max(ratios):.2f}"
            )
    yield "ratio: default / best peer with the same equations; 0: no peer gets there, inf: we do not"


register(
    "peers",
    peers,
    report,
    "--problems simple --rtols 1e-3,1e-5 --repetitions 1",
    Picture("bench", "benchmarks.pictures.peers:peers", "time against error by solver"),
)
