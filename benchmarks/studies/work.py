"""Time of a step and of a sweep, by problem, sweeper, Q_Delta and backend; see :func:`work`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from statistics import median

from benchmarks.measuring import steps
from benchmarks.measuring.clock import in_turn
from benchmarks.measuring.ranks import Work
from benchmarks.measuring.steps import COMPILED, NUMPY, Steps
from benchmarks.study import Layout, Table, chosen, study
from dae_sdc.dae.memory import COUNTERS
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import InputError
from dae_sdc.plotting.plot import Picture
from dae_sdc.run.results import Result
from dae_sdc.sweepers.parallel import DIAGONAL
from dae_sdc.sweepers.sdc import SWEEPERS, SpectralDeferredCorrectionDAE

RESTOL = 1e-9

TEXT = Layout(
    "problem:<19|sweeper:<14|Q_Delta=qdelta:<8|backend:<8|n:>5|dt:>10|us/step=time*1e6:>9.0f|"
    "us/sweep=time_sweep*1e6:>9.1f|sweeps:>6.1f|iter.=iterations:>5.1f|rhs:>6.1f|newton:>6.1f|"
    "jac.=jacobian:>5.1f|fact.=factorization:>5.1f|ratio:>6.2f|difference:>10.1e",
    nan="-",
)


@study(
    "work",
    "problem:U32 sweeper:U32 qdelta:U16 backend:U16 nodes:i8 n:i8 dt steps:i8 time[s] time_sweep[s] sweeps "
    f"iterations {' '.join(COUNTERS)} ratio[1] difference[1]",
    example="--problems simple --sweeper semi-implicit --repetitions 1",
    picture=Picture("bench", "benchmarks.pictures:work", "time of a step by problem"),
)
def work(
    rows: Table,
    *,
    problems: Sequence[str] | None = None,
    sweepers: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    nodes: int = 3,
    qdelta: str | Sequence[str] = ("LU", DIAGONAL),
    repetitions: int = 5,
) -> None:
    """Time warm steps of every problem, with every sweeper that takes it, compiled and with NumPy.

    After three steps that are not counted, the same ten steps of the problem's own size are repeated from the
    same state; the backends take turns. Hooks are those of :func:`dae_sdc.run.solve.solve`.
    """
    names = chosen("problem", problems, PROBLEMS)
    iterating = [name for name, cls in SWEEPERS.items() if issubclass(cls, SpectralDeferredCorrectionDAE)]
    kinds = chosen("SDC sweeper", sweepers, iterating)
    qdeltas = [qdelta] if isinstance(qdelta, str) else list(qdelta)
    if not qdeltas:
        raise InputError("need at least one Q_Delta")
    rows.parameters |= {"qdelta": qdeltas, "restol": RESTOL}
    cases = [
        (name, params, sweeper, kind)
        for name in names
        for params in steps.several_sizes(name, sizes)
        for sweeper, kind in product(kinds, qdeltas)
    ]
    rows.parameters["time_units"] = {name: PROBLEMS[name].time_unit for name in names}
    for name, params, sweeper, kind in rows.each(cases, "case"):
        _measure(rows, steps.steps_of(name, params, sweeper, RESTOL), nodes, kind, repetitions)


def _measure(rows: Table, what: Work, nodes: int, qdelta: str, repetitions: int) -> None:
    runs: dict[str, Steps] = {}
    for backend in steps.backends(what.problem, what.params):
        run = steps.measured(rows, what, nodes, qdelta, backend)
        if run is None:
            continue
        for other in runs.values():  # from the same state
            run.u0 = other.u0
            run()
        runs[backend] = run
    timings = in_turn(runs, repetitions)
    times = {backend: [timing.wall / what.steps for timing in of] for backend, of in timings.items()}
    in_sweeper = in_turn({backend: run.time_in_the_sweeper for backend, run in runs.items()}, repetitions)
    for backend, run in runs.items():
        counts = run.work_of_a_step()
        row = {
            **{"problem": what.problem, "sweeper": what.sweeper, "qdelta": qdelta, "backend": backend},
            **{"nodes": nodes, "n": run.problem.n, "dt": what.dt, "steps": what.steps},
            **counts,
            "time": median(times[backend]),
            "time_sweep": median(in_sweeper[backend]) / max(counts["sweeps"], 1.0),
        }
        if backend == COMPILED and NUMPY in runs:
            pairs = zip(times[NUMPY], times[COMPILED], strict=True)
            row["ratio"] = median(slow / fast for slow, fast in pairs)
            row["difference"] = steps.distance(timings[COMPILED][-1].end, timings[NUMPY][-1].end)
        rows.put(**row)


@work.reports
def report(result: Result) -> Iterator[str]:
    data, about = result.data, result.parameters
    yield (
        f"M={about['nodes']}, residual {about['restol']:g}; medians of {about['repetitions']} runs of "
        f"{data['steps'][0] if len(data) else 0} warm steps in turn; counts a step"
    )
    yield TEXT.head()
    for row in data:
        yield TEXT.line(row, dt=f"{row['dt']:g} {about['time_units'].get(str(row['problem']), '')}")
    yield "us/sweep: time in the sweeper, by sweeps; ratio: numpy / compiled; difference of their end values"
