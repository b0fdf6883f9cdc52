"""Sweeps whose runs ranks share, with the digits of one process: mpirun -n 2 python sweeps.py DIRECTORY."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import dae_sdc as ds

COMM = MPI.COMM_WORLD
SWEPT: dict[str, Any] = {"problem": "simple", "sweeper": "radau-iia-5", "dt": 0.05, "points": 5}


def assert_same(first: ds.Sweep, second: ds.Sweep) -> None:
    for name in set(first.data.dtype.names or ()) - {"time"}:
        assert first.data[name].tobytes() == second.data[name].tobytes(), name
    for what, of in first.reduced.items():
        assert all(second.reduced[what][name].tobytes() == values.tobytes() for name, values in of.items())


def refused(**options: Any) -> str:
    try:
        ds.sweep(**{**SWEPT, "params": {"alpha": [1.0, 2.0]}, "parallel": "runs", **options})
    except ds.DAEError as error:
        return str(error)
    return ""


def growth(t: float, u: Any, du: Any, r: float = 1.0) -> list[Any]:
    """y' = r y^2, which has no value after t = 1 / r."""
    return [du[0] - r * u[0] ** 2]


def main(directory: str) -> None:
    out = Path(directory) / "runs.npy"
    values = {"alpha": np.linspace(1.0, 9.0, 23)}
    for reduce in (None, "mean,std,quantile(0.1),end"):
        alone = ds.sweep(params=values, reduce=reduce, **SWEPT)
        shared = ds.sweep(params=values, reduce=reduce, **SWEPT, parallel="runs", out=out)
        assert_same(alone, shared)
        assert_same(alone, ds.Sweep.load(out))
        resumed = ds.sweep(
            params=values, reduce=reduce, **SWEPT, parallel="runs", comm=COMM, out=out, resume=True
        )
        assert resumed.data["time"].tobytes() == shared.data["time"].tobytes()
    warnings.simplefilter("ignore")
    failing = ds.sweep(growth, {"r": [0.5, 0.9, 1.5, 2.0]}, u0=[1.0], t_end=1.0, rtol=1e-4, parallel="runs")
    assert failing.success.tolist() == [True, True, False, False] and "singularity" in failing.message[2]
    assert set(COMM.allgather(failing.message)) == {failing.message}
    # What is wrong is told on all ranks, also where it is wrong on rank 0 alone, which writes.
    wrong = {
        "other options": refused(dt=0.05 if COMM.rank else 0.1),
        "no such sweeper": refused(sweeper="radau-iia-4"),
        "no place": refused(out=Path(directory) / "nowhere" / "runs.npy"),
        "workers": refused(workers=2),
        "no ranks": refused(parallel=None, comm=COMM),
    }
    says = ("different sweeps", "unknown sweeper", "does not exist", "not both", "parallel='runs'")
    for (what, message), part in zip(wrong.items(), says, strict=True):
        assert part in message, (what, message)


if __name__ == "__main__":
    main(sys.argv[1])
