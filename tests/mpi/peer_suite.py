"""Tests of pySDC's DAE project on ranks, with the names of this package: peer_suite.py DIRECTORY WORDS.

Each rank writes what became of them to DIRECTORY/<rank>.xml. The tests are those whose names have WORDS.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mpi4py import MPI

ROOT = Path(__file__).resolve().parents[1]


def main(directory: str, words: str) -> None:
    import pySDC.projects.DAE as project

    sys.path.append(str(ROOT / "helpers"))
    file = Path(next(iter(project.__path__))) / "tests" / "test_MPI_sweepers.py"
    report = Path(directory) / f"{MPI.COMM_WORLD.Get_rank()}.xml"
    options = [
        "-q",
        "-c",
        "/dev/null",
        f"--rootdir={directory}",
        "-p",
        "peer_names",
        "-p",
        "no:cacheprovider",
    ]
    pytest.main([*options, "-W", "ignore", "-k", words, f"--junitxml={report}", str(file)])


if __name__ == "__main__":
    main(*sys.argv[1:])
