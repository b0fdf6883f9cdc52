"""Work and precision of this package and of other solvers on test problems; see :func:`peers`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import races
from benchmarks.measuring.clock import clocked
from benchmarks.measuring.processes import nominal_of
from benchmarks.measuring.races import Contender, Equal, Outcome, Race
from benchmarks.measuring.scores import scd
from benchmarks.studies.peers.solvers import PEERS, Case, Peer, known_peers, missing, version
from benchmarks.study import Layout, Option, Table, chosen, study
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.plotting.plot import Picture
from dae_sdc.problems._library import TestSetProblem
from dae_sdc.problems._models import MODELS
from dae_sdc.run.results import Result, combinations_of
from dae_sdc.run.solve import solve
from dae_sdc.run.sundials import EXCLUDED_TOLERANCE, weighted
from dae_sdc.run.target import is_file, make_problem
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.sweepers.tableaux import METHODS

# Problems that are compared besides those of the Test Set for IVP Solvers
ALSO = ("simple", "two-transistor")
MODELICA = "modelica"  # Stands for the models of Modelica, and for a pendulum of index 3
TIGHT = 1e-11  # Tolerance of the run that ends where models without a known solution do
DEFAULT = "dae_sdc"  # Name in tables of what solve does when no sweeper is named
# Methods that are named, besides all Runge-Kutta pairs with an embedded method
SWEEPERS_COMPARED = ("semi-implicit", "fully-implicit", "radau-iia-5")
REFERENCES = (1e-6, 1e-9)  # Tolerances at which the error of the default is what all others have to reach
MOST_SCALES = 12  # Unknowns whose scale a table names

HEAD = Layout("solver:<16|weights:<7|rtol:>6.0e")
EQUAL = Layout(
    "problem:<22|rtol:>6.0e|error:>8|default=ours_time*1e3:>9.2f|our best=best_time*1e3:>9.2f| =best:<16|"
    "best peer=peer_time*1e3:>9.2f| =peer:<13|ratio:>6|unlike=unlike_time*1e3:>8.2f",
    nan="-",
)
WORK = Layout(
    "steps:>7.0f|rej.=rejected:>5.0f|rhs:>8.0f|jac.=jacobian:>6.0f|fact.=factorization:>6.0f", nan="-"
)
DIGITS = Layout("scd:>5.2f|error:>8.1e")


@study(
    "peers",
    "problem:U32 solver:U24 weights:U8 n:i8 index:i8 rtol[1] success:i8 time[s] runs:i8 error[1] scd[1] "
    "steps rejected rhs jacobian factorization message:U120",
    example="--problems simple --rtols 1e-3,1e-5 --repetitions 1",
    picture=Picture("bench", "benchmarks.pictures:peers", "time against error by solver"),
    options={
        "sweepers": Option("methods of this package besides its default", flag="sweeper"),
        "others": Option("peers to compare with", flag="peer"),
    },
)
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
    anew at the break points of a problem. rumoca gets the equations in flat Modelica, and reduces their index
    itself. Problems are models, files of Modelica and "modelica" too, which is all models of Modelica here;
    where no solution of a model is known, that of a run to rtol = 1e-11 takes its place.

    The time is that of the processor in a whole call, set-up included, compiled code loaded. Runs that take
    long are not repeated, and no tighter tolerance is tried after one that has taken too long.
    """
    wanted = default_problems() if problems is None else list(problems)
    wanted = [*from_modelica(), "pendulum"] if wanted == [MODELICA] else wanted
    files = [name for name in wanted if is_file(name)]
    names = chosen("problem", wanted, [*PROBLEMS, *MODELS, *files])
    asked = chosen("peer", others, PEERS)
    methods = (default_sweepers() if others is None else []) if sweepers is None else list(sweepers)
    methods = chosen("sweeper", methods, SWEEPERS) if methods else []
    tolerances = sorted({float(rtol) for rtol in rtols}, reverse=True)
    known = [peer for peer in known_peers() if peer.name in asked]
    here = [peer for peer in known if not missing(peer)]
    for package in dict.fromkeys(peer.package for peer in known if missing(peer)):
        rows.leave_out(package, "not installed: pip install 'dae_sdc[bench]'")
    rows.parameters |= {"rtols": tolerances, "default": DEFAULT, "ours": [DEFAULT, *methods]}
    rows.parameters |= {"settings": {}, "scales": {}}
    rows.parameters |= {"like": [peer.name for peer in here if peer.like]}
    rows.parameters |= {"unlike": [peer.name for peer in here if not peer.like]}
    rows.parameters |= {"versions": list(dict.fromkeys(map(version, here)))}
    for name in rows.each(names, "problem"):
        try:
            race = _race(rows, name, methods, here, repetitions, time_limit)
        except InputError as reason:
            rows.leave_out(name, reason)
            continue
        race.warm_up(tolerances[0], rows.parameters["ours"])
        for rtol in tolerances:
            race.measure(rtol)


def default_problems() -> list[str]:
    """Names of the problems with an official end value, and :data:`ALSO`."""
    official = [name for name in PROBLEMS if issubclass(PROBLEMS[name], TestSetProblem)]
    return [*official, *(name for name in ALSO if name not in official)]


def from_modelica() -> list[str]:
    """Names of the models of the library that are files of Modelica."""
    return [name for name, model in MODELS.items() if getattr(model, "path", None) is not None]


def default_sweepers() -> list[str]:
    """Names of the methods that are compared besides the default."""
    return [*SWEEPERS_COMPARED, *(name for name, tableau in METHODS.items() if tableau.embedded)]


class Score:
    """How far a value is from that at the end of a problem: its reference_end, or u_exact there."""

    def __init__(self, problem: ProblemDAE, scale: Vector, last: Vector | None = None) -> None:
        self.problem, self.scale = problem, scale  # shape (n,): atol / rtol of the unknowns
        end = getattr(problem, "reference_end", None)
        last = problem.u_exact(problem.interval[1]) if end is None and last is None else last
        self.exact = np.array(last if end is None else end.u, dtype=float)
        digits = np.full(problem.n, 16.0) if end is None else np.asarray(end.digits, dtype=float)
        scored = range(problem.n) if end is None else end.scored
        self.scored = np.array([i for i in scored if digits[i] > 0.0], dtype=np.int64)
        self.known = 10.0 ** -digits[self.scored] * np.abs(self.exact[self.scored])

    def columns(self, u: Vector) -> dict[str, float]:
        """Largest error relative to scale + abs(u), at least what the reference is known to, and scd."""
        exact = self.exact[self.scored]
        error = np.maximum(np.abs(u[self.scored] - exact), self.known)
        if hasattr(self.problem, "reference_end"):
            digits = float(scd(self.problem, u))
        else:
            digits = float(-np.log10(error / np.abs(exact)).max()) if np.all(exact) else math.nan
        return {"error": float((error / (self.scale[self.scored] + np.abs(exact))).max()), "scd": digits}


def _race(
    rows: Table,
    name: str,
    methods: Sequence[str],
    others: Sequence[Peer],
    repetitions: int,
    time_limit: float,
) -> Race:
    problem, start, last = make_problem(name), None, None
    if name not in PROBLEMS:
        known = solve(name, rtol=TIGHT)
        start, last = np.array([known[unknown] for unknown in problem.names]).T[[0, -1]]
    case, scale = Case(problem, start), nominal_of(problem)  # atol / rtol, for all solvers alike
    score = Score(problem, scale, last)

    def ours(named: Mapping[str, Any], rtol: float, count: bool) -> Outcome:
        atol: Any = rtol * scale
        atol = float(atol[0]) if (scale == scale[0]).all() else atol
        spent, solution = clocked(lambda: solve(name, rtol=rtol, atol=atol, **named))
        if not solution.success:
            raise races.PeerFailure(solution.message)
        work = {name: float(solution.stats[name]) for name in races.COUNTS}
        end = np.array([solution[unknown][-1] for unknown in problem.names])
        return Outcome(spent.processor, end, **work)

    def of_a_peer(peer: Peer, excluded: NDArray[np.bool_], rtol: float, count: bool) -> Outcome:
        return peer.run(case, rtol, weighted(rtol, scale, excluded), count)

    contenders = [Contender(DEFAULT, races.ALL_WEIGHTS, partial(ours, {}))]
    for method in methods:
        contenders.append(Contender(method, races.ALL_WEIGHTS, partial(ours, {"sweeper": method})))
    for peer in others:
        for weights, excluded in case.exclusions.items():
            contenders.append(Contender(peer.name, weights, partial(of_a_peer, peer, excluded)))
    rows.parameters["settings"][name] = {peer.name: peer.settings(case) for peer in others}
    sizes = zip(problem.names, scale.tolist(), strict=True)
    rows.parameters["scales"][name] = {unknown: size for unknown, size in sizes if size != 1.0}
    about = {"problem": name, "n": problem.n, "index": problem.index or 0}
    return Race(rows, about, contenders, score.columns, repetitions, time_limit)


def equal_accuracy(result: Result) -> list[Equal]:
    """The times to the errors of the default in a result of :func:`peers`, for :data:`REFERENCES`."""
    times, about = [], result.parameters
    for ((problem,), rows), rtol in product(combinations_of(result.data, ["problem"]), REFERENCES):
        here = rows[np.isclose(rows["rtol"], rtol, rtol=1e-6, atol=0.0)]
        good = here[here["success"] == 1]
        run = good[good["solver"] == about["default"]]
        if len(run):
            others = (*about["ours"], *about["unlike"])
            error = float(run["error"][0])
            times.append(races.equal(rows, error, about["default"], about["like"], others, rtol=rtol))
        elif len(here):
            ratio = math.inf if np.isin(good["solver"], about["like"]).any() else math.nan
            times.append(Equal(str(problem), math.nan, {}, ratio, rtol))
    return times


@peers.reports
def report(result: Result) -> Iterator[str]:
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
    yield from _equal_lines(equal_accuracy(result), about)


def _ladders(rows: NDArray[np.void], about: Mapping[str, Any]) -> Iterator[str]:
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


def _equal_lines(times: Sequence[Equal], about: Mapping[str, Any]) -> Iterator[str]:
    """The table of times to the same error, and how often ours is not the longer."""
    yield "ms to the same error, which the default reached at rtol"
    yield EQUAL.head()
    for at in times:
        row: dict[str, Any] = {"problem": at.problem, "rtol": at.rtol, "ratio": f"{at.ratio:.2f}"}
        row["error"] = "failed" if math.isnan(at.error) else f"{at.error:.1e}"
        sides = {"ours": [about["default"]], "best": about["ours"], "peer": about["like"]}
        for name, solvers in (sides | {"unlike": about["unlike"]}).items():
            row[name], row[f"{name}_time"] = at.best(solvers)
        yield EQUAL.line(row)
    for rtol in REFERENCES:
        ratios = [at.ratio for at in times if at.rtol == rtol and not math.isnan(at.ratio)]
        if ratios:
            fine = sum(ratio <= 1.0 for ratio in ratios)
            yield (
                f"rtol {rtol:g}: default / best peer at most 1 on {fine} of {len(ratios)} problems, "
                f"largest {max(ratios):.2f}"
            )
    yield "ratio: default / best peer with the same equations; 0: no peer gets there, inf: we do not"
