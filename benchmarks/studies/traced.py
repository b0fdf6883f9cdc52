"""What it costs to read equations from a function, and what it saves; see :func:`traced`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measuring.clock import clocked, in_turn
from benchmarks.study import Layout, Table, chosen, study
from dae_sdc.constrained.parts import PARTS
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.model.trace import trace_problem
from dae_sdc.run.method import default_sweeper
from dae_sdc.run.results import Result
from dae_sdc.run.solve import solve


def plain_function(name: str) -> tuple[Any, Any]:
    """A problem of the catalogue, and a class with the eval_f that its kernels are in Python."""
    cls: Any = PROBLEMS[name]
    own = cls()
    p = np.array(own.kernel_parameters(), dtype=float)
    kernel = cls.residual_kernel
    given = {} if kernel else {part: own.given_part(part) for part in PARTS}
    kernels = {
        part: (getattr(cls, f"{name}_kernel"), shape)
        for part, (source, name, shape) in given.items()
        if source == "kernel"
    }

    def value(part: str, t: float, q: Any, v: Any = None) -> Any:
        if part not in kernels:  # B of mechanics
            return value("dg", t, q, v).T
        function, shape = kernels[part]
        out = np.zeros(int(np.prod(shape)))
        function(t, q, q if v is None else v, p, out)
        return out.reshape(shape)

    def of_parts(self: Any, u: Any, du: Any, t: float) -> Any:
        return own.residual_of_parts(t, u, du, value)

    def of_kernel(self: Any, u: Any, du: Any, t: float) -> Any:
        out = np.zeros(self.n)
        kernel(t, u, du, p, out)
        return out

    def begin(self: Any, **settings: Any) -> None:
        ProblemDAE.__init__(self, own.n_diff, own.n_alg, **{"newton_tol": own.newton_tol, **settings})

    members: dict[str, Any] = {"__init__": begin, "interval": own.interval, "dt": own.dt}
    members["eval_f"] = of_parts if kernel is None else of_kernel
    members["u_exact"] = lambda self, t: own.u_exact(t)
    members |= {} if own.given_nominal is None else {"nominal": np.asarray(own.nominal)}
    return own, type("Plain", (ProblemDAE,), members)


def first_change(name: str, **run: Any) -> float:
    """The first time at which a catalogue problem chooses other equations, or the end of its interval."""
    cls: Any = PROBLEMS[name]
    own = cls()
    end = min((*own.breakpoints(*own.interval), own.interval[1]))
    switches = solve(name, t_end=end, **run).switches
    times = [float(time) for switch in switches for time in np.atleast_1d(switch.t)]
    return 0.99 * min(times) if times else end


RTOL = 1e-6

TEXT = Layout(
    "problem:<20|n:>4|steps: own, read, called={steps:>9} {steps_traced:>9} {steps_function:>9}:>29|"
    "ms: own, read, called={time*1e3:>10.1f} {time_traced*1e3:>10.1f} {time_function*1e3:>10.1f}:>32|"
    "reading=time_read*1e3:>8.1f|read/own=ratio:>8.2f|called/read=gain:>11"
)


@study(
    "traced",
    "problem:U32 n:i8 equations:U200 steps:i8 steps_traced:i8 steps_function:i8 time[s] time_traced[s] "
    "time_read[s] time_function[s] done",
    example="--problems simple,skate --repetitions 1",
)
def traced(
    rows: Table, *, problems: Sequence[str] | None = None, repetitions: int = 5, time_limit: float = 10.0
) -> None:
    """Time problems of the catalogue, the same as plain functions that are read, and as ones that are called.

    All run with the default method at rtol = 1e-6, up to the first time at which the problem chooses other
    equations. Times are those of a whole call of ``solve``, which reads the equations anew; machine code is
    there from a run that is not counted.
    """
    rows.parameters["rtol"] = RTOL
    for name in rows.each(chosen("problem", problems, PROBLEMS), "problem"):
        rows.put(**_compared(name, repetitions, time_limit))


def _compared(name: str, repetitions: int, time_limit: float) -> dict[str, Any]:
    own, cls = plain_function(name)
    run: dict[str, Any] = {"rtol": RTOL, "sweeper": default_sweeper(RTOL, None)}
    run["t_end"] = first_change(name, **run)
    solve(cls, **run)
    runs: dict[str, Any] = {"time": partial(solve, name, **run), "time_traced": partial(solve, cls, **run)}
    runs["time_read"] = lambda: trace_problem(cls())
    done = in_turn({way: partial(clocked, each) for way, each in runs.items()}, repetitions)
    first, second = (done[way][-1][1] for way in ("time", "time_traced"))
    spent, called = clocked(partial(solve, cls, trace=False, time_limit=time_limit, **run))
    start = own.interval[0]
    return {
        **{"problem": name, "n": own.n, "equations": second.parameters["equations"]},
        **{"steps": first.stats["steps"], "steps_traced": second.stats["steps"]},
        **{way: median(one.wall for one, _ in several) for way, several in done.items()},
        **{"steps_function": called.stats["steps"], "time_function": spent.wall},
        "done": (called.t[-1] - start) / (second.t[-1] - start),
    }


@traced.reports
def report(result: Result) -> Iterator[str]:
    data, limit = result.data, result.parameters["time_limit"]
    ratios, gains = data["time_traced"] / data["time"], data["time_function"] / data["time_traced"]
    comes_far = (data["done"] > 0.99) | (data["time_function"] > limit)
    yield TEXT.head()
    for row, ratio, gain, far in zip(data, ratios, gains, comes_far, strict=True):
        told = (f"{gain:.1f}" if row["done"] > 0.99 else f"> {gain:.1f}") if far else "stops"
        reason = "" if row["equations"] == "traced" else f"  {row['equations']}"
        yield f"{TEXT.line(row, ratio=ratio, gain=told)}{reason}"
    logs = np.log(ratios), np.log(gains[comes_far])
    means = [np.exp(values.mean()) if len(values) else np.nan for values in logs]
    yield f"geometric means: read / own {means[0]:.2f}; called / read {means[1]:.1f} or more"
