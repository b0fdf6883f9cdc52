"""Shares paths by ranks, and writes what each rank has found: mpirun -n 3 python paths.py DIRECTORY."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import sympy as sp
from mpi4py import MPI

from dae_sdc.errors import DAEError, InputError
from dae_sdc.polynomials.homotopy import solve_polynomials
from dae_sdc.polynomials.polynomials import PolynomialSystem
from dae_sdc.polynomials.pool import run_jobs


def halve(number: int) -> int:
    if number % 2:
        raise InputError(f"number {number} is odd")
    return number // 2


def main(directory: str) -> None:
    comm = MPI.COMM_WORLD
    tracking = importlib.import_module("dae_sdc.polynomials.tracking")
    u = sp.symbols("u0:5")
    system = PolynomialSystem.from_sympy([u[i] ** 2 - u[(i + 1) % 5] - 1 for i in range(5)], u)
    follow, own = tracking._follow, []

    def counted(*work):  # type: ignore[no-untyped-def]
        found = follow(*work)
        own.append(found.steps)
        return found

    with patch.multiple(tracking, PATHS_PER_JOB=10, _follow=counted):
        shared = solve_polynomials(system, comm=comm)
        steps = sum(own)
        alone = solve_polynomials(system)
    error = ""
    try:
        run_jobs(halve, [3, 2, 4], comm=comm)
    except DAEError as raised:
        error = str(raised)
    found = {
        "same": bool(np.array_equal(shared.solutions, alone.solutions)),
        "solutions": len(shared.solutions),
        "steps": steps,
        "all_steps": shared.steps,
        "error": error,
    }
    (Path(directory) / f"paths-{comm.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
