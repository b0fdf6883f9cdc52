"""How this process was started: by an MPI launcher, or with a file of the package; imports nothing large."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")
"""Environment variables with the number of processes that an MPI launcher has started."""


def launched() -> int:
    """Number of processes that an MPI launcher has started, by the environment; 1 without one."""
    return max([1, *_counts()])


def by_launcher() -> bool:
    """Whether an MPI launcher has started this process, even if it is the only one."""
    return bool(_counts())


def _counts() -> list[int]:
    counts = [os.environ.get(name, "") for name in LAUNCHERS]
    return [int(count) for count in counts if count.isdigit()]


def script() -> str:
    """The file in a room of the package that Python was started with, as "run/solve.py"; empty for others."""
    started = sys.argv[0] if sys.argv else ""
    if started == "-m" and len(sys.argv) < len(sys.orig_argv):  # what follows stands there until it is found
        package, *place = sys.orig_argv[-len(sys.argv)].split(".")
        return "/".join(place) + ".py" if package == "dae_sdc" and len(place) > 1 else ""
    path = Path(os.path.realpath(started))
    package_of = path.parent.parent
    room = package_of.name == "dae_sdc" and (package_of / "__init__.py").is_file()
    return f"{path.parent.name}/{path.name}" if room and path.suffix == ".py" else ""


class _Interruption(MetaPathFinder):
    """Ends the file that Python was started with, which is the first to import a module of the package."""

    def __init__(self, carry_out: Callable[[str], int], file: str) -> None:
        self._carry_out, self._file = carry_out, file

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if not fullname.startswith("dae_sdc."):
            return None
        sys.meta_path.remove(self)
        with suppress(ValueError):  # its own directory, where other libraries would find our modules
            sys.path.remove(os.path.dirname(os.path.realpath(sys.argv[0])))
        sys.exit(self._carry_out(self._file))


def take_over(carry_out: Callable[[str], int]) -> None:
    """Let a file that Python was started with do what its verb does, when it imports a first module."""
    file = script()
    if file:
        sys.meta_path.insert(0, _Interruption(carry_out, file))
