"""Processes of cases: each in a session of its own, so that what it has started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import dae_sdc

PROCESS_LIMIT = 60.0  # Seconds that a process of a case may take
PACKAGE = Path(dae_sdc.__file__).resolve().parents[1]


def environment(**changes: str | None) -> dict[str, str]:
    """Variables for processes that use this package; None leaves one out."""
    given = {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PACKAGE), **changes}
    return {name: value for name, value in {**os.environ, **given}.items() if value is not None}


def words(*arguments: str) -> list[str]:
    """The command line in a new process, which imports nothing from the current directory."""
    return [sys.executable, "-P", "-m", "dae_sdc", *arguments]


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """A process in a session of its own, of which standard error is kept."""
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "env": environment(), **options}
    given |= {"stderr": subprocess.PIPE, "start_new_session": True, "text": True, "errors": "replace"}
    return subprocess.Popen(command, **given)


def finish(child: subprocess.Popen[str], limit: float = PROCESS_LIMIT) -> tuple[int, str] | None:
    """Exit code and standard error of a process, None if it does not end in time; all it started is ended."""
    with child:
        try:
            _, said = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return child.returncode, said


def process(command: Sequence[str], limit: float = PROCESS_LIMIT, **options: Any) -> tuple[int, str] | None:
    return finish(start(command, **options), limit)
