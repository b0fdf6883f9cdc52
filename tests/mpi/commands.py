"""Runs command lines of dae-sdc on all ranks: mpirun -n 3 python commands.py directory.

The directory holds commands.json, a list of lists of arguments; each rank leaves the exit codes and what it
has printed on standard output and standard error. A command that begins with "strict" is the order check with
a tolerance that no measured order meets.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from dae_sdc import cli

accuracy = import_module("dae_sdc.run.accuracy")  # dae_sdc.run has a function of that name


def carry_out(arguments: list[str]) -> dict[str, Any]:
    """Exit code and output of one command on this rank."""
    kept = [os.dup(1), os.dup(2)]
    files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
    try:
        for number, file in enumerate(files, start=1):
            os.dup2(file.fileno(), number)
        try:
            code: Any = cli.main(arguments)
        except SystemExit as stop:
            code = stop.code
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        for number, copy in enumerate(kept, start=1):
            os.dup2(copy, number)
            os.close(copy)
    texts = []
    for file in files:
        with file:
            texts.append(os.pread(file.fileno(), 1 << 20, 0).decode())
    return {"arguments": arguments, "code": code, "out": texts[0], "err": texts[1]}


def main(directory: str) -> None:
    from mpi4py import MPI  # not above: tests of commands without it take carry_out too

    place = Path(directory)
    comm = MPI.COMM_WORLD
    found = []
    for arguments in json.loads((place / "commands.json").read_text(encoding="utf-8")):
        strict = arguments[0] == "strict"
        if strict:
            vars(accuracy).update(TOLERANCE=1e-6, PROBLEMS=("hessenberg-1",))
        found.append(carry_out(arguments[1:] if strict else arguments))
        comm.Barrier()
    everything = comm.gather(found)
    if everything is not None:
        (place / "found.json").write_text(json.dumps(everything), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
