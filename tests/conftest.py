"""Surroundings that every test shares; set here, before a test file imports NumPy."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# One thread a process: the test processes already share the cores, and sums come out the same everywhere.
for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{library}_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "Agg"
os.environ.pop("DAE_SDC_DEBUG", None)

# The commands of the environment under test come before any others of the same name. Not resolved: in a
# virtual environment the interpreter is a link, and the commands lie beside the link.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

# The same examples on every run, and no time limit that a busy machine could break.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def root() -> Path:
    """The directory that README.md lies in."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def checkout(root: Path) -> Path:
    """The root of the source tree; skips where only the tests stand beside an installed package."""
    if not (root / "dae_sdc").is_dir():
        pytest.skip("there is no source tree, only an installed package")
    return root
