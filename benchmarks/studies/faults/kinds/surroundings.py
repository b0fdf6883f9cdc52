"""Runs in surroundings that have a fault, none of which needs a privilege."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measuring.outcomes import Finding
from benchmarks.studies.faults.cases import HANG, LOST, TOLD, Case, Random, choice, command_ended, kind
from benchmarks.studies.faults.kinds.commands import write_sources
from benchmarks.studies.faults.processes import PACKAGE, environment, process, words

COMMANDS = (
    "solve simple --dt 0.1 --t-end 0.2",
    "solve simple --rtol 1e-3 --t-end 0.2 --out run.npy",
    "solve model.mo --rtol 1e-3 --t-end 0.1",
    "convergence hessenberg-1 --nodes 2 --dt 0.2,0.1 --t-end 0.2",
    "structure pendulum",
    "initial pendulum --fixed x=0.6",
    "initial model.mo --all-solutions --workers 2",
    "structure pendulum --plot a.png",
    "info",
    "list",
)

SHADOWS = """
numpy random dae_sdc pickle json scipy mpi4py sympy numba types typing enum abc io matplotlib pySDC qmat
problems run tempfile logging sitecustomize token
""".split()


def variables(**changes: str | None) -> dict[str, Any]:
    return {"env": environment(**changes)}


def _shadow(rng: Random) -> dict[str, Any]:
    name = choice(rng, SHADOWS)
    Path(f"{name}.py").write_text("raise RuntimeError('shadowed')\n", encoding="utf-8")
    return {}


def _nowhere() -> str:
    """A directory that does not exist and that nobody can make, not even root."""
    Path("file").write_text("", encoding="utf-8")
    return str(Path("file").absolute() / "below")


def _deep(rng: Random) -> dict[str, Any]:
    place = Path(*["d\u00e9 'x'"] * 20)
    place.mkdir(parents=True)
    return {"cwd": str(place.absolute())}


def _damaged_cache(rng: Random) -> dict[str, Any]:
    """A directory of compiled code of which some files are cut, filled with other bytes, or emptied."""
    place = Path("cache").absolute()
    place.mkdir(mode=0o700)
    given = variables(NUMBA_CACHE_DIR=str(place))
    process(words(*COMMANDS[2].split()), **given)
    for path in sorted(place.rglob("*.*")):
        if path.is_file() and rng.random() < 0.5:
            whole = path.read_bytes()
            others = [b"", whole[: len(whole) // 2], whole[:-3], b"\x80" * 50, whole[::-1]]
            path.write_bytes(choice(rng, others))
    return given


def _broken_mpi(rng: Random) -> dict[str, Any]:
    package = Path("fake").absolute() / "mpi4py"
    package.mkdir(parents=True)
    texts = "raise ImportError('no libmpi')", "raise RuntimeError('broken')", "import nothing_of_this_name"
    text = choice(rng, texts)
    (package / "__init__.py").write_text(choice(rng, ["", text]), encoding="utf-8")
    (package / "MPI.py").write_text(text, encoding="utf-8")
    return variables(PYTHONPATH=f"{package.parent}{os.pathsep}{PACKAGE}")


def _few_files(rng: Random) -> dict[str, Any]:
    import resource

    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))}


# What is changed, as options of a new process
CHANGES: Mapping[str, Callable[[Random], dict[str, Any]]] = {
    "a file that has the name of a module": _shadow,
    "a directory that cannot be written to": lambda rng: {"cwd": "/proc"},
    "no home": lambda rng: variables(HOME=_nowhere(), XDG_CACHE_HOME=None, XDG_CONFIG_HOME=None),
    "HOME missing": lambda rng: variables(HOME=None),
    "a cache that is no directory": lambda rng: variables(NUMBA_CACHE_DIR=_nowhere()),
    "a damaged cache": _damaged_cache,
    "an odd locale": lambda rng: variables(
        LC_ALL=choice(rng, ["xx_YY.UTF-99", "C", "POSIX", "tr_TR.UTF-8", "de_DE.ISO-8859-1", ""]),
        PYTHONIOENCODING=choice(rng, ["ascii", "latin-1", "utf-16", None]),
        PYTHONUTF8="0",
    ),
    "no terminal and no display": lambda rng: variables(
        TERM=None, DISPLAY=None, MPLBACKEND=choice(rng, [None, "TkAgg"])
    ),
    "odd sizes of the terminal": lambda rng: variables(
        COLUMNS=choice(rng, ["0", "-1", "x", "1"]), LINES="0", TERM="dumb"
    ),
    "a broken MPI": _broken_mpi,
    "few open files": _few_files,
    "no environment": lambda rng: {"env": {"PYTHONPATH": str(PACKAGE)}},
    "no path for programs": lambda rng: variables(PATH=""),
    "temporary files nowhere": lambda rng: variables(TMPDIR=_nowhere()),
    "variables of another MPI": lambda rng: variables(
        OMPI_COMM_WORLD_SIZE="x", PMI_SIZE=choice(rng, ["", "x", "1"])
    ),
    "optimised": lambda rng: variables(PYTHONOPTIMIZE="2"),
    "warnings as errors": lambda rng: variables(PYTHONWARNINGS="error::dae_sdc.errors.DAEWarning"),
    "an own hash seed": lambda rng: variables(PYTHONHASHSEED="123"),
    "a deep directory": _deep,
}


@kind("surroundings", 3.0, most=100)
def surroundings(rng: Random) -> Case:
    """A command that works, in surroundings that should not matter to it."""
    change, line = choice(rng, CHANGES), choice(rng, COMMANDS)

    def run() -> Finding:
        write_sources()
        given = CHANGES[change](rng)
        done = process(words(*line.replace("model.mo", str(Path("model.mo").absolute())).split()), **given)
        if done is None:
            return Finding(HANG, "no end")
        finding = command_ended(*done)
        writes = ("run.npy" in line or "a.png" in line) and "written" in change
        if finding.outcome == TOLD and not writes:
            return Finding(LOST, f"it does not run: {finding.message}")
        return finding

    return Case(f"{line} with {change}", run)
