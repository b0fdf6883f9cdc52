"""Processes that begin with the package imported, for tests that kill one after the other."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks and signals")

_FORKING = """
import os, shlex, sys
import dae_sdc as ds
import dae_sdc.run.solve
program = sys.argv[1]
for line in sys.stdin:
    child = os.fork()
    if not child:
        sys.argv[1:] = shlex.split(line)
        exec(program)
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Nursery:
    """Starts the same program again and again, in a process of its own each time.

    Parameters
    ----------
    process : subprocess.Popen
        A process that forks when it reads a line of arguments.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._asked, self._told = process.stdin, process.stdout
        self._child: int | None = None

    def start(self, *arguments: object) -> None:
        """Begin the program with these arguments; the one before must have ended."""
        self._asked.write(shlex.join(map(str, arguments)) + "\n")
        self._asked.flush()
        self._child = int(self._told.readline())

    def kill(self) -> None:
        """Send SIGKILL to what was started; nothing happens where it has ended."""
        if self._child is not None:
            with suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)

    def wait(self) -> int:
        """Exit code of what was started, once it has ended; -9 if it was killed."""
        code = int(self._told.readline())
        self._child = None
        return code


@contextmanager
def nursery(program: str, cwd: Path | None = None) -> Iterator[Nursery]:
    """Processes that begin where another has imported what they need, and run no longer than this context.

    Parameters
    ----------
    program : str
        What each process does, with ``ds`` and ``sys.argv[1:]``.
    cwd : Path, optional
        Their current directory.
    """
    command = [sys.executable, "-c", _FORKING, program]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=cwd
    ) as process:
        children = Nursery(process)
        try:
            yield children
        finally:
            children.kill()
