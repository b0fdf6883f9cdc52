"""Compares step-parallel runs with emulated and serial ones: mpirun -n 4 python steps.py result.json."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from pySDC.implementations.controller_classes.controller_MPI import controller_MPI
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

import dae_sdc as ds
from dae_sdc.dae.memory import COUNTERS
from dae_sdc.errors import DAEError
from dae_sdc.problems import HessenbergIndex1

WORLD = MPI.COMM_WORLD


def apart(a: Any, b: Any) -> float:
    """Largest difference of two arrays relative to their size; infinite where shapes differ."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return float("inf")
    return float(np.abs(a - b).max() / np.abs(b).max())


def outcome(*args: Any, **settings: Any) -> Any:
    try:
        return ds.solve(*args, **settings)
    except DAEError as error:
        return str(error)


def fingerprint(solution: Any) -> list[Any]:
    """All that a solution holds, to be compared among ranks."""
    if isinstance(solution, str):
        return [solution]
    arrays = [solution.t, solution.u, solution.du, *solution.per_step.values()]
    return [solution.success, solution.message, solution.stats, *(array.tobytes() for array in arrays)]


def record(comm: Any, about: dict[str, Any], run: Any, alone: Any, serial: Any) -> dict[str, Any]:
    """One case: a run on ranks, beside the same in one process and beside one step at a time."""
    prints = comm.allgather(fingerprint(run))
    about = {**about, "ranks": comm.size, "all the same": all(one == prints[0] for one in prints)}
    if isinstance(run, str) or isinstance(alone, str):
        return {**about, "messages": [run, alone] if run != alone else [run, run], "error": True}
    about["messages"] = [run.message, alone.message]
    about["steps"] = [len(run.t), len(alone.t)]
    about["sweeps"] = [run.per_step["sweeps"].tolist(), alone.per_step["sweeps"].tolist()]
    about["emulated"] = max(apart(run.u, alone.u), apart(run.du[1:], alone.du[1:]))
    about["serial"] = apart(run.u, serial.u)
    about["stats"] = [run.stats, alone.stats, serial.stats]
    about["sums"] = {name: int(run.per_step[name].sum()) for name in COUNTERS}
    return about


def compare(comm: Any) -> list[dict[str, Any]]:
    """Runs on the ranks of one communicator."""
    P, records = comm.size, []
    problems = {"hessenberg-1": 0.05, "hessenberg-2": 0.02, "hessenberg-3": 0.02}
    for i, (sweeper, (problem, dt)) in enumerate(
        itertools.product(("fully-implicit", "semi-implicit", "constrained"), problems.items())
    ):
        if (i + P) % 2:
            continue
        # A block that is not full, one step, full blocks, fewer steps than ranks; Jacobi and Gauss-Seidel.
        counts = (2 * P + 1, 1, 2 * P, max(1, P - 1))
        for count, jacobi in ((counts[i % 4 if P > 1 else 0], False), (P + 1, True)):
            common = {"sweeper": sweeper, "dt": dt, "t_end": count * dt, "qdelta": "LU", "restol": 1e-11}
            # One step at a time would begin with more sweeps, of another kind, before its first iteration.
            common["nsweeps"] = 1
            if jacobi and problem != "hessenberg-1":
                continue  # see dae_sdc.run.solve.CONTROLLER
            params = {"controller_params": {"mssdc_jac": jacobi}}
            alone = outcome(problem, steps=P, **common, **params)
            serial = outcome(problem, **common)
            about = {"problem": problem, "sweeper": sweeper, "count": count, "jacobi": jacobi}
            run = outcome(problem, parallel="steps", comm=comm, **common, **params)
            records.append(record(comm, {**about, "parallel": "steps"}, run, alone, serial))
        if P != 4:
            continue
        ways = ((5, False, 2), (4, False, None), (3, False, 2), (5, False, 4), (5, False, 1))
        for count, jacobi, steps in (ways[i % 5], ways[(i + 2) % 5], (3, True, 2)):
            if jacobi and problem != "hessenberg-1":
                continue
            common = {
                "sweeper": sweeper,
                "dt": dt,
                "t_end": count * dt,
                "restol": 1e-11,
                "qdelta": "MIN-SR-S",
                "nsweeps": 1,
            }
            params = {"controller_params": {"mssdc_jac": jacobi}}
            nodes = {"nodes": 4 if steps == 1 else 3}
            # Left to itself, the run puts as many ranks on the nodes as divide their number.
            at_once = steps or P // max(k for k in (1, 2, 3) if P % k == 0)
            alone = outcome(problem, steps=at_once, **common, **params, **nodes)
            serial = outcome(problem, **common, **nodes)
            run = outcome(problem, parallel="both", comm=comm, steps=steps, **common, **params, **nodes)
            about = {"problem": problem, "sweeper": sweeper, "count": count, "jacobi": jacobi}
            records.append(record(comm, {**about, "parallel": "both"}, run, alone, serial))
    return records


def by_hand(comm: Any) -> dict[str, Any]:
    """What a user of pySDC writes: a description of his own, and a controller of pySDC."""
    dt, end = 0.05, 0.25
    description = {
        "problem_class": HessenbergIndex1,
        "problem_params": {"newton_tol": 1e-13},
        "sweeper_class": ds.SemiImplicitDAE,
        "sweeper_params": {"num_nodes": 3, "quad_type": "RADAU-RIGHT", "QI": "MIN-SR-S"},
        "level_params": {"dt": dt, "restol": 1e-11},
        "step_params": {"maxiter": 50},
    }
    controller_params = {"logger_level": 40, "mssdc_jac": False}

    def copied(sweeper: Any = None, **more: Any) -> dict[str, Any]:
        parts = {key: dict(value) if isinstance(value, dict) else value for key, value in description.items()}
        parts["sweeper_params"].update(more)
        parts["sweeper_class"] = sweeper or parts["sweeper_class"]
        return parts

    def nodes_alone(sweeper: Any = None, **more: Any) -> Any:
        controller = controller_nonMPI(1, dict(controller_params), copied(sweeper, **more))
        return run(controller, controller.MS[0].levels[0].prob)

    def run(controller: Any, P: Any) -> Any:
        value, _ = controller.run(u0=P.state(P.u_exact(0.0)), t0=0.0, Tend=end - 0.5 * dt)
        return np.array(value)

    expected = nodes_alone()
    found = {}
    three = comm.Split(0 if comm.rank < 3 else MPI.UNDEFINED, comm.rank)
    if three != MPI.COMM_NULL:
        found["nodes"] = apart(nodes_alone(ds.SemiImplicitDAEMPI, comm=three), expected)
        three.Free()
    nodes, steps = ds.split_communicator(comm, 2)
    found["split"] = [nodes.size, steps.size, nodes.rank, steps.rank]
    for name, sweeper, own, other in (
        ("both", ds.SemiImplicitDAEMPI, nodes, steps),
        ("steps", ds.SemiImplicitDAE, None, comm),
    ):
        given = copied(sweeper, **({} if own is None else {"comm": own}))
        controller = controller_MPI(dict(controller_params), given, other)
        value = run(controller, controller.S.levels[0].prob)
        found[name] = apart(value, expected)
    nodes.Free()
    steps.Free()
    return found


def main(path: str) -> None:
    records: list[Any] = []
    for sizes in ([4], [3, 1], [2, 2]):
        color = next(i for i in range(len(sizes)) if WORLD.rank < sum(sizes[: i + 1]))
        comm = WORLD.Split(color, WORLD.rank)
        if comm.size != 2 or color == 0:
            records += compare(comm)
        comm.Free()
    collected, hands = WORLD.gather(records), WORLD.gather(by_hand(WORLD))
    if collected is not None:
        text = json.dumps({"runs": [one for part in collected for one in part], "by hand": hands})
        Path(path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
