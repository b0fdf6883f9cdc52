"""Starts programs under mpirun, one job at a time, and leaves no process behind."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

PROGRAMS = Path(__file__).parent
TAG = "DAE_SDC_TEST_JOB"

# Open MPI wants to be told that it may run as root and that there may be more ranks than cores; others do not
# look at these.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def find_launcher() -> str | None:
    """The mpirun to use: DAE_SDC_MPIRUN, or the one beside the interpreter, or the first on the path."""
    beside = Path(sys.executable).parent / "mpirun"
    named = os.environ.get("DAE_SDC_MPIRUN") or (str(beside) if beside.exists() else "mpirun")
    return shutil.which(named)


def missing() -> str | None:
    """What is not there of all that a parallel run needs."""
    if find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    if find_launcher() is None:
        return "there is no mpirun"
    return None


class Job:
    """A running mpirun in a session of its own."""

    def __init__(self, ranks: int, arguments: list[str], cwd: Path | None, more: dict[str, str]) -> None:
        launcher = find_launcher()
        assert launcher is not None
        self.tag = secrets.token_hex(8)
        # Neither this process nor an mpirun it may run under is the parent of the ranks.
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("PMI", "OMPI_", "MPI_"))
        }
        self._out, self._err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [launcher, "-n", str(ranks), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            text=True,
            cwd=cwd,
            env={**own, **ENVIRONMENT, **more, TAG: self.tag},
            start_new_session=True,
        )

    def pids(self, word: str = "") -> list[int]:
        """The processes of the job, those whose command line has a word; as far as /proc tells."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if f"{TAG}={self.tag}".encode() not in (place / "environ").read_bytes():
                    continue
                command = (place / "cmdline").read_bytes().decode().split("\0")
                stat = (place / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            python = "python" in Path(command[0]).name
            if stat != "Z" and (not word or (python and any(word in part for part in command))):
                found.append(int(place.name))
        return sorted(found)

    def end(self) -> None:
        """Kill whatever is left of the job."""
        for pid in {*self.pids(), self.process.pid}:
            if self.process.poll() is None or pid != self.process.pid:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        self.process.wait()

    def close(self) -> None:
        """Forget what was printed."""
        self._out.close()
        self._err.close()

    def wait(self, timeout: float) -> subprocess.CompletedProcess[str]:
        """What the job printed and its exit code; TimeoutExpired, with what it printed, if it hangs."""
        try:
            code = self.process.wait(timeout)
            # Ranks outlive mpirun by a moment where it does not wait for those it has killed.
            deadline = time.monotonic() + 10.0
            while self.pids() and time.monotonic() < deadline:
                time.sleep(0.05)
            left = self.pids()
        except subprocess.TimeoutExpired as error:
            self.end()
            raise AssertionError(
                f"the job hangs after {error.timeout} s\n{_text(self._out)}\n{_text(self._err)}"
            ) from None
        self.end()
        out, err = _text(self._out), _text(self._err)
        assert not left, f"processes outlive their mpirun\n{out}\n{err}"
        return subprocess.CompletedProcess(self.process.args, code, out, err)

    def printed(self, text: str, timeout: float = 300.0) -> None:
        """Wait until a text stands on standard output."""
        deadline = time.monotonic() + timeout
        while text not in _text(self._out):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.end()
                raise AssertionError(f"no {text!r} was printed\n{_text(self._out)}\n{_text(self._err)}")
            time.sleep(0.05)


def _text(file: IO[str]) -> str:
    # By its descriptor: the job writes at the same offset.
    return os.pread(file.fileno(), 1 << 24, 0).decode(errors="replace")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold off the other processes that want this file locked."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def one_at_a_time() -> AbstractContextManager[None]:
    """Hold off the jobs of other test processes: ranks that wait for each other spin."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    return locked(Path(tempfile.gettempdir()) / f"dae_sdc-test-mpirun-{user}")


class Launcher:
    """Runs programs of tests/mpi, or any others, on several ranks."""

    def __call__(
        self, ranks: int, *arguments: Any, timeout: float = 300.0, cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Start, wait, and return what came of it."""
        with self.job(ranks, *arguments, cwd=cwd, **environment) as job:
            return job.wait(timeout)

    @contextmanager
    def job(self, ranks: int, *arguments: Any, cwd: Path | None = None, **environment: str) -> Iterator[Job]:
        """A running job, ended when the block is left; ``name.py`` is a program of tests/mpi."""
        command = [str(argument) for argument in arguments]
        if command[0].endswith(".py"):
            own = PROGRAMS / command[0]
            command[:1] = [sys.executable, str(own if own.exists() else command[0])]
        with one_at_a_time():
            job = Job(ranks, command, cwd, environment)
            try:
                yield job
            finally:
                job.end()
                job.close()
