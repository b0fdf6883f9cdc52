"""How sweeps get faster with more ranks: measured with few, modelled for many.

See :func:`scaling`.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring.processes import rows_of
from benchmarks.measuring.ranks import BEST_SERIAL
from benchmarks.measuring.steps import FAMILIES
from benchmarks.studies.scaling import costs
from benchmarks.studies.scaling.costs import Network, SweepCost
from benchmarks.study import Layout, Table, chosen, study
from dae_sdc.errors import InputError, SolveError
from dae_sdc.plotting.plot import Picture
from dae_sdc.run.results import Result
from dae_sdc.run.solve import solve
from dae_sdc.sweepers.parallel import DIAGONAL

PREDICTED_RANKS = range(2, 9)  # Numbers of ranks, each with one node, for which sweeps are predicted
# Numbers of time steps, each on one rank, for which PFASST is predicted
PREDICTED_STEPS = (2, 4, 8, 16, 32, 64)
COARSE_NODES = 2
COUNTED_AT = 100  # Number of unknowns with which iterations of PFASST are counted

TIMES = Layout(
    "problem:<18|n:>6|Q_Delta=qdelta:>8|ranks:>5|cores:>5|run=time:>7.3f|wall*1e3:>8.3f|process=cpu*1e3:>8.3f|"
    "computing:>17|exchange=communication*1e3:>8.3f|waiting*1e3:>8.3f|model:>8"
)
COMPARISON = Layout(
    "problem:<18|n:>6|cores:>5|wall=ratio_wall:>6.2f|computing={ratio_computing:.2f} ({ratio_least:.2f}):>13|"
    "exchanges={exchange_share*100:.1f} %:>9|own cores=speedup:>9.2f|messages:>11|"
    "kB={bytes*1e-3:.1f} / {bytes_expected*1e-3:.1f}:>15|same:>4"
)

# What the predictions take for granted
ASSUMPTIONS = (
    "the ranks own blocks of neighbouring nodes, and a node costs in parallel what it costs in serial",
    "with another number of nodes, the share of a node in the work depends on its place in the step alone",
    "the sweeps needed do not change with the number of ranks (they are the same arithmetic), nor with M",
    "work done on all ranks grows with M n; the controller takes the same time for every n and M",
    "every rank has a core of its own and its memory bandwidth; messages cost what they cost between "
    "processes of one machine, also for more ranks",
    "one exchange of the values of all nodes a sweep and one of residuals a step, at a time when all ranks "
    "are ready; no overlap of messages and computing",
    "PFASST: two levels in the nodes, all unknowns on both; the ranks of a step do not share its nodes; the "
    "predictor is one coarse sweep a step in turn",
    f"PFASST: transfers and the FAS correction cost {costs.TRANSFER:g} of the sweeps on both levels",
    f"PFASST: iterations, of the slowest step of a block, are those counted with about {COUNTED_AT} unknowns "
    "and LU on both levels; serial steps have LU, too, and their sweeps cost what the measured ones do",
)


@study(
    "scaling",
    "source:U8 problem:U32 n:i8 nodes:i8 ranks:i8 steps:i8 qdelta:U16 pinned:? wall[s] cpu[s] computing[s] "
    "computing_least[s] undisturbed[s] communication[s] waiting[s] exchange[s] exchange_notes[s] ratio_wall "
    "ratio_computing ratio_least sweeps:i8 dropped:i8 messages:i8 messages_notes:i8 messages_others:i8 "
    "bytes:i8[B] messages_expected:i8 messages_notes_expected:i8 bytes_expected:i8[B] equal:? time[s] "
    "model[s] exchange_share speedup efficiency",
    example="--problems transmission-line --sizes 10,100 --repetitions 1",
    picture=Picture("bench", "benchmarks.pictures:scaling", "times and speed-up against ranks"),
)
def scaling(
    rows: Table,
    *,
    problems: Sequence[str] | None = None,
    sizes: Sequence[int] = (10, 100, 1000, 10000),
    nodes: int = 4,
    qdelta: str = DIAGONAL,
    repetitions: int = 5,
    ranks: int = 2,
    patience: float = 300.0,  # Seconds without a line from the measuring processes after which they are ended
) -> None:
    """Measure sweeps on one rank and on several, fit a model of their cost, and predict more ranks.

    The processes are started here, by the ``mpirun`` that belongs to mpi4py. In one job, serial runs and runs
    on all ranks take turns: left to the operating system, and with all ranks tied to one core, where process
    time is not disturbed by what else the cores do. Every run repeats the same time steps from the same state
    after others that have set up the matrices.
    """
    names = chosen("problem of this study", problems, FAMILIES)
    if not 2 <= ranks <= nodes:
        raise InputError(f"{nodes} nodes are shared by 2 to {nodes} ranks; got {ranks}")
    works = [FAMILIES[name].work(name, size) for name in names for size in sizes]
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    cores = [None] if core is None else [None, core]
    asked = {"works": [asdict(work) for work in works], "nodes": nodes, "qdelta": qdelta, "cores": cores}
    asked["repetitions"] = repetitions
    measured = []
    with rows.bar(len(works) * (2 * len(cores) + (qdelta != BEST_SERIAL)), "row") as bar:
        with closing(rows_of(asked, ranks, patience)) as news:
            for row in news:
                measured.append(row)
                bar.update(1)
        counts = {name: count_iterations(name, nodes) for name in names}
        told = {name: {str(steps): n for steps, n in own.items()} for name, own in counts.items()}
        rows.parameters["iterations"] = told
        evaluated, found = evaluate(measured, counts)
        rows.parameters |= found
        rows.add([rows.filled(row) for row in evaluated])


def count_iterations(problem: str, nodes: int) -> dict[int, float]:
    """Sweeps of a step by itself (for 1), and iterations of PFASST over 2 to 64 steps, counted serially."""
    work = FAMILIES[problem].work(problem, COUNTED_AT)
    found = {}
    for steps in (1, *PREDICTED_STEPS):
        how: dict[str, Any] = {"sweeper": work.sweeper, "nodes": nodes, "qdelta": BEST_SERIAL}
        how |= {"dt": work.dt, "t_end": max(PREDICTED_STEPS) * work.dt, "restol": work.restol}
        how |= {} if steps == 1 else {"steps": steps, "coarse_nodes": min(COARSE_NODES, nodes)}
        solution = solve(problem, params=work.params, **how)
        if not solution.success:
            raise SolveError(f"PFASST over {steps} steps of {problem}: {solution.message}")
        needed = solution.per_step["sweeps"][1:].reshape(-1, steps)
        # A block of steps takes as long as the step that needs most.
        found[steps] = float(needed.max(axis=1).mean())
    return found


def evaluate(
    measured: Sequence[Mapping[str, Any]], iterations: Mapping[str, Mapping[int, float]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Fit the model to what was measured, and predict."""
    # Latency and bandwidth come from the exchanges by themselves.
    exchanges = [
        (row["ranks"], costs.row_bytes(n, row["nodes"]), row[name])
        for row in measured
        for name, n in (("exchange", row["n"]), ("exchange_notes", 0))
        if row["ranks"] > 1 and not row["pinned"] and row[name] > 0.0
    ]
    network, deviations = costs.fit_network(*zip(*exchanges, strict=True))
    fits: dict[str, Any] = {"network": {**asdict(network), "deviation": float(np.abs(deviations).max())}}
    rows: list[dict[str, Any]] = []
    predictions: list[dict[str, Any]] = []
    for problem in dict.fromkeys(row["problem"] for row in measured):
        of_problem = [row for row in measured if row["problem"] == problem]
        cost, deviation = _cost(of_problem)
        fits[problem] = {**asdict(cost), "deviation": deviation}
        rows += [_measured_row(row, cost, network) for row in of_problem]
        predictions += _predictions(of_problem, cost, network, iterations[problem])
    return rows + predictions, {"fits": fits, "assumptions": list(ASSUMPTIONS)}


def _cost(rows: Sequence[Mapping[str, Any]]) -> tuple[SweepCost, float]:
    """The cost of a sweep from all runs of one problem with the Q_Delta of the ranks."""
    qdelta = next(row["qdelta"] for row in rows if row["ranks"] > 1)
    used = [row for row in rows if row["qdelta"] == qdelta]
    largest = max(row["n"] for row in used)
    at_node = [row["at_node"] for row in used if row["n"] == largest and row["ranks"] == 1]
    mean = np.mean(at_node, axis=0)
    n, ranks = ([row[name] for row in used] for name in ("n", "ranks"))
    # A sweep that was computed ahead and dropped is work, too.
    seconds = [row["undisturbed"] / (row["sweeps"] + row["dropped"]) for row in used]
    cost, deviations = costs.fit_sweep(n, ranks, seconds, used[0]["nodes"], (mean / mean.sum()).tolist())
    return cost, float(np.abs(deviations).max())


def _measured_row(row: Mapping[str, Any], cost: SweepCost, network: Network) -> dict[str, Any]:
    """A measurement with what the model says of it."""
    sweeps, ranks, n, nodes = row["sweeps"], row["ranks"], row["n"], row["nodes"]
    exchanged = row["messages"] * row["exchange"] + row["messages_notes"] * row["exchange_notes"]
    speedup = row["undisturbed"] / row["ratio_least"] / (row["undisturbed"] + exchanged)
    values, notes = row["expected"]
    model = costs.sweep_time(cost, network, n, nodes, ranks, sweeps / row["steps"])
    names = [name for name, _ in scaling.columns]
    return {
        **{name: row[name] for name in (*names[1:8], *names[15:26], "equal")},
        **{name: row[name] / sweeps for name in names[8:15]},  # times of a run, told by sweep
        **{"source": "measured", "messages_expected": values, "messages_notes_expected": notes},
        **{"bytes_expected": costs.sent_bytes(n, nodes, ranks, values, notes), "time": row["wall"]},
        **{"model": (sweeps + row["dropped"]) / sweeps * model, "speedup": speedup},
        "exchange_share": exchanged / (exchanged + row["undisturbed"]),
        "efficiency": speedup / ranks,
    }


def _predictions(
    measurements: Sequence[Mapping[str, Any]],
    cost: SweepCost,
    network: Network,
    iterations: Mapping[int, float],
) -> Iterator[dict[str, Any]]:
    """What the model says of more ranks, and of PFASST over more steps."""
    measured = measurements[0]["nodes"]
    for n in sorted({row["n"] for row in measurements}):
        per_step = next(r["sweeps"] / r["steps"] for r in measurements if r["ranks"] > 1 and r["n"] == n)
        about = {"problem": measurements[0]["problem"], "n": n}
        cases = [(measured, ranks) for ranks in range(1, measured + 1)]
        for nodes, ranks in cases + [(ranks, ranks) for ranks in PREDICTED_RANKS if ranks != measured]:
            time = costs.sweep_time(cost, network, n, nodes, ranks, per_step)
            speedup = cost.computing(n, nodes) / time
            gain = {"model": time, "speedup": speedup, "efficiency": speedup / ranks}
            yield about | {"source": "nodes", "nodes": nodes, "ranks": ranks, "steps": 1} | gain
        for steps in PREDICTED_STEPS:
            needed = iterations[1], iterations[steps]
            speedup = costs.pfasst(cost, network, n, (measured, min(COARSE_NODES, measured)), steps, needed)
            gain = {"speedup": speedup, "efficiency": speedup / steps}
            yield about | {"source": "pfasst", "nodes": measured, "ranks": steps, "steps": steps} | gain


@scaling.reports
def report(result: Result) -> Iterator[str]:
    data, about = result.data, result.parameters
    rows, fits = data[data["source"] == "measured"], about["fits"]
    yield f"M={about['nodes']}, {about['qdelta']}; ms a sweep, medians of {about['repetitions']} runs in turn"
    yield f"  {TIMES.head()}"
    for row in rows:
        texts = {"computing": f"{1e3 * row['computing']:.3f}", "cores": "one" if row["pinned"] else "free"}
        texts["computing"] += f" ({1e3 * row['computing_least']:.3f})" * bool(row["ranks"] > 1)
        texts["model"] = f"{1e3 * row['model']:.3f}" if row["qdelta"] == about["qdelta"] else "-"
        yield f"  {TIMES.line(row, **texts)}"
    yield "run: s to the solution; process: process time; computing: process time outside MPI, of the rank"
    yield "with most work (with least); exchange: in MPI while no rank is late; waiting: in MPI for others"
    yield ""
    yield f"{about['ranks']} ranks against one in the same minute"
    yield f"  {COMPARISON.head()}"
    for row in rows[rows["ranks"] > 1]:
        counted, expected = (row[f"messages{of}"] + row[f"messages_notes{of}"] for of in ("", "_expected"))
        texts = {"cores": "one" if row["pinned"] else "free", "same": "yes" if row["equal"] else "NO"}
        texts["messages"] = f"{counted} / {expected}"
        yield f"  {COMPARISON.line(row, **texts)}"
    yield from (
        "wall, computing: divided by that of one rank (the least of all runs by the least); exchanges: timed",
        "by themselves, as part of a sweep; own cores: speed-up from process time and these exchanges;",
        "messages, kB: counted / by the model; same: the end values are those of the serial run, bit by bit",
        "",
    )
    yield "cost of a sweep, fitted to the least disturbed runs: t0 + r M n + share M (a + b n^p), with the"
    yield "share of the fullest rank in the work at the nodes"
    for problem in dict.fromkeys(rows["problem"].tolist()):
        fit = fits[problem]
        shares = " ".join(f"{share:.2f}" for share in fit["shares"])
        yield (
            f"  {problem:<18} t0={1e3 * fit['controller']:.3f} ms, r={1e9 * fit['replicated']:.2f} ns, "
            f"a={1e3 * fit['fixed']:.3f} ms, b={1e9 * fit['growing']:.3g} ns, p={fit['exponent']:.2f}; "
            f"shares {shares}; within {100 * fit['deviation']:.0f} %"
        )
    network = fits["network"]
    yield (
        f"  exchange: {1e6 * network['latency']:.1f} us ceil(log2 P) + bytes (P-1)/P / "
        f"{float(network['bandwidth']) / 1e9:.2f} GB/s; within {100 * network['deviation']:.0f} %"
    )
    yield from ("", "predicted speed-up (efficiency) of sweeps with M = P nodes on P ranks")
    yield from _grid(data[data["nodes"] == data["ranks"]], "nodes", PREDICTED_RANKS)
    yield from ("", "predicted speed-up (efficiency) of PFASST over P steps")
    yield from _grid(data, "pfasst", PREDICTED_STEPS)
    for problem, counts in about["iterations"].items():
        iterations = ", ".join(f"{counts[str(k)]:.1f} (P={k})" for k in PREDICTED_STEPS)
        yield f"  {problem}: {counts['1']:.1f} sweeps a step in serial, iterations {iterations}"
    yield from ("", "assumed:")
    for text in about["assumptions"]:
        yield from textwrap.wrap(f"- {text}", 110, subsequent_indent="  ")


def _grid(data: NDArray[np.void], source: str, numbers: Sequence[int]) -> Iterator[str]:
    yield f"  {'problem':<18} {'n':>6} " + " ".join(f"{f'P={number}':>12}" for number in numbers)
    rows = data[data["source"] == source]
    for problem, n in dict.fromkeys((str(row["problem"]), int(row["n"])) for row in rows):
        cells = {int(row["ranks"]): row for row in rows if row["problem"] == problem and row["n"] == n}
        text = [f"{cells[k]['speedup']:.2f} ({100 * cells[k]['efficiency']:.0f} %)" for k in numbers]
        yield f"  {problem:<18} {n:>6} " + " ".join(f"{cell:>12}" for cell in text)
