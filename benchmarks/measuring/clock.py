"""Where time goes: blocks, methods that are timed from outside, and limits of what a block may take."""

from __future__ import annotations

import functools
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

CALIBRATION = 2000  # Calls of nothing by which the cost of a timer is measured
ROUNDS = 5
OUTSIDE = ""  # What calls a timed method that no other has called
TOO_LONG = "took more than"  # How the reason of a run that was stopped begins


T = TypeVar("T")


@dataclass
class Spent:
    wall: float = 0.0  # By the clock
    processor: float = 0.0  # Of all threads of this process


@contextmanager
def stopwatch() -> Iterator[Spent]:
    """The time that the block takes, which is known after it."""
    spent, tic, busy = Spent(), perf_counter(), process_time()
    yield spent
    spent.wall, spent.processor = perf_counter() - tic, process_time() - busy


def clocked(run: Callable[[], T]) -> tuple[Spent, T]:
    """What a run takes and gives."""
    with stopwatch() as spent:
        answer = run()
    return spent, answer


def in_turn(runs: Mapping[str, Callable[[], T]], repetitions: int) -> dict[str, list[T]]:
    """What runs give that take turns, so that what disturbs the machine disturbs all of them."""
    answers: dict[str, list[T]] = {name: [] for name in runs}
    for _ in range(repetitions):
        for name, run in runs.items():
            answers[name].append(run())
    return answers


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage is collected inside, also none that was made before: as timeit does, others pay for it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def tied(core: int | None) -> Iterator[None]:
    """On one core alone, unless it is None, this process runs inside."""
    if core is None:
        yield
        return
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, everywhere)


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


class Clock(ExitStack):
    """Timers around methods of objects, taken away again at the end of a ``with`` block.

    A timed call adds its time to its part, without the time of timed calls inside it. What the timers
    themselves cost, a part of a microsecond a call, is taken off in :meth:`times`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, int] = {}
        self._own: dict[str, float] = {}
        self._called_from: dict[str, int] = {OUTSIDE: 0}
        self._parts, self._inner = [OUTSIDE], [0.0]

    def time(self, owner: Any, name: str, part: str) -> None:
        """Time the calls of one method, or of one function of a module, and count them as ``part``."""
        original = getattr(owner, name)
        parts, inner, own = self._parts, self._inner, self._own
        calls, called_from = self.calls, self._called_from
        for sums in (own, calls, called_from):
            sums.setdefault(part, 0)

        def timed(*args: Any, **options: Any) -> Any:
            parts.append(part)
            inner.append(0.0)
            tic = perf_counter()
            try:
                return original(*args, **options)
            finally:
                spent = perf_counter() - tic
                own[part] += spent - inner.pop()
                parts.pop()
                inner[-1] += spent
                calls[part] += 1
                called_from[parts[-1]] += 1

        self.enter_context(patch.object(owner, name, timed))

    @property
    def number(self) -> int:
        return sum(self.calls.values())

    def times(self, a_call: float | None = None) -> dict[str, float]:
        """Seconds of each part without the parts inside it and without what the timers cost."""
        inside, outside = cost()
        if a_call is not None:
            outside = a_call - inside
        cost_of = {part: inside * self.calls[part] + outside * self._called_from[part] for part in self._own}
        return {part: own - cost_of[part] for part, own in self._own.items()}


@functools.cache
def cost() -> tuple[float, float]:
    """What a timer adds to the part it times and to the one that called it, seconds a call; measured once."""
    return min((_calibrated() for _ in range(ROUNDS)), key=sum)


def _calibrated() -> tuple[float, float]:
    nothing = SimpleNamespace(call=lambda: None)

    def a_call() -> float:
        tic = perf_counter()
        for _ in range(CALIBRATION):
            nothing.call()
        return (perf_counter() - tic) / CALIBRATION

    plain = a_call()
    with Clock() as clock:
        clock.time(nothing, "call", "nothing")
        whole = a_call()
    timed = clock._own["nothing"] / CALIBRATION
    # The call of nothing is in both loops and in the timed part.
    inside = timed - min(plain, timed)
    return inside, max(whole - plain - inside, 0.0)
