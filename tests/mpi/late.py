"""Time limits of ranks: mpirun -n 2 python late.py CASE ...; every rank is told, or has the same steps."""

from __future__ import annotations

import sys
from time import sleep
from typing import Any

from mpi4py import MPI

import dae_sdc as ds
from dae_sdc import deadline
from dae_sdc.polynomials.pool import run_jobs

RANK = MPI.COMM_WORLD.Get_rank()
SETTINGS: dict[str, Any] = {"sweeper": "fully-implicit", "nodes": 2, "qdelta": "MIN-SR-S", "t_end": 1.0}


def equations(t: Any, u: Any, du: Any) -> list[Any]:
    return [du[0] + u[0] * u[1], u[1] - 1.0 - 0.1 * u[0]]


def slow_on_one(t: Any, u: Any, du: Any) -> list[Any]:
    if RANK == 1:
        sleep(0.1)
    return equations(t, u, du)


def job(number: int) -> int:
    deadline.check()
    return number


def main(case: str) -> None:
    """What the case says."""
    told = ""
    if case == "late":  # one rank does not get ready in time
        try:
            ds.solve(slow_on_one, u0=[1.0, 1.1], dt=0.1, parallel="nodes", time_limit=0.3, **SETTINGS)
        except ds.TimeLimitError as error:
            told = str(error)
        assert told.startswith("the time limit of 0.3 s ran out while "), told
    elif case == "jobs":  # paths of a homotopy, which ranks share, are such
        try:
            with deadline.limited(1e-9 if RANK else 1e9), deadline.unchecked():
                run_jobs(job, range(4), comm=MPI.COMM_WORLD)
        except ds.TimeLimitError as error:
            told = str(error)
        assert told.startswith("the time limit of 1e-09 s ran out while "), told
    else:
        calls = 0  # of the equations on this rank, by which the time goes on here

        def counted(t: Any, u: Any, du: Any) -> list[Any]:
            nonlocal calls
            calls += 1
            return equations(t, u, du)

        deadline.perf_counter = lambda: float(calls)

        solution = ds.solve(
            counted, u0=[1.0, 1.1], dt=1e-6, parallel=case, trace=False, time_limit=2e3, **SETTINGS
        )
        told = solution.message
        if told == "":
            raise AssertionError("the run came to its end")
        assert "the time limit of 2000 s ran out at t=" in told, told
    assert len(set(MPI.COMM_WORLD.allgather(told))) == 1, told


if __name__ == "__main__":
    for case in sys.argv[1:]:
        main(case)
