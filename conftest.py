"""Surroundings that every test shares; set here, before a test file imports NumPy."""

from __future__ import annotations

import gc
import os
import sys
from itertools import chain
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

# Tests are no packages, and share modules; benchmarks are a package that no wheel has.
sys.path += [str(Path(__file__).parent / part) for part in ("tests/mpi", "tests", "benchmarks/tests", "")]
from helpers.suites import mark_long
from launcher import Launcher, locked, missing

# One thread a process: the test processes already share the cores, and sums come out the same everywhere.
for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{library}_NUM_THREADS"] = "1"
# Ranks that wait sleep between two looks at their messages, where MPICH would keep a core busy with looking.
os.environ |= {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1", "MPIR_CVAR_POLLS_BEFORE_YIELD": "10"}
os.environ["MPLBACKEND"] = "Agg"
os.environ.pop("DAE_SDC_DEBUG", None)
# The many processes that tests start would each compile all files of the package.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The commands of the environment under test come before any others of the same name. Not resolved: in a
# virtual environment the interpreter is a link, and the commands lie beside the link.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

# Thousands of tests are collected in half the time if nobody searches them for garbage meanwhile.
gc.disable()

# The same examples on every run, and no time limit that a busy machine could break.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def root() -> Path:
    """The directory that README.md lies in."""
    return Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def checkout(root: Path) -> Path:
    """The root of the source tree; skips where only the tests stand beside an installed package."""
    if not (root / "dae_sdc").is_dir():
        pytest.skip("there is no source tree, only an installed package")
    return root


@pytest.fixture(scope="session")
def mpirun() -> Launcher:
    """Runs programs on several ranks; skips where there is no MPI, which is no excuse on CI."""
    absent = missing()
    if absent is not None:
        if os.environ.get("CI"):
            pytest.fail(f"parallel runs cannot be tested: {absent}")
        pytest.skip(absent)
    return Launcher()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that all test processes of a run see, so that one of them computes for all."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def three_ranks(mpirun: Launcher, shared: Path) -> Path:
    """Where the programs that share one launch have written what they found, see tests/mpi/together.py."""
    place = shared / "together"
    with locked(shared / "together.lock"):
        if not (place / "done").exists():
            place.mkdir(exist_ok=True)
            done = mpirun(3, "together.py", place, timeout=480)
            assert (done.returncode, done.stderr) == (0, "")
    return place


def pytest_collection_finish() -> None:
    """Leave what is there when tests begin, modules and thousands of tests, to no search for garbage."""
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a part of the tests be chosen."""
    parser.addoption("--part", metavar="K/N", help="the tests of the k-th of n parts, chosen by their names")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is long; begin with the pages, which compile most, with mpirun, and with benchmarks.

    Tests under mpirun keep all cores busy, and each of their ranks would compile for itself. Long tests come
    before short ones, so that no test process has to wait for another in the end.
    """

    def late(item: pytest.Item) -> tuple[bool, ...]:
        return (
            item.path.stem != "test_documents",
            "mpirun" not in getattr(item, "fixturenames", ()),
            "benchmarks" not in item.path.parts,
        )

    mark_long(items)
    items.sort(key=late)
    if part := config.getoption("--part"):
        number, count = map(int, part.split("/"))
        parts: list[list[pytest.Item]] = [[] for _ in range(count)]
        for item in items:
            parts[crc32(item.nodeid.encode()) % count].append(item)
        items[:] = parts.pop(number - 1)
        config.hook.pytest_deselected(items=list(chain.from_iterable(parts)))
