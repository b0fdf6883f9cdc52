"""Limits of the time that a block takes, also inside code of others."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TOO_LONG = "took more than"  # How the reason of a run that was stopped begins


class TimeLimit(Exception):
    """A run took longer than it may."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeLimit` inside the block when it has taken too long.

    Outside the main thread, and on systems without alarms, nothing limits the block.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise TimeLimit(f"{TOO_LONG} {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    # Again and again: an exception raised in a finaliser is lost.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        try:
            yield
        finally:
            # An alarm that has come since the first one is raised here, before the timer is off.
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
