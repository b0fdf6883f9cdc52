"""How long a call may take: a time that the long loops of every room ask for, and what is under way then.

A public function opens :func:`limited`. Below it, a part of the work names itself by :func:`under_way`, and
loops that may take long call :func:`check`, which costs a tenth of a microsecond where there is no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import TypeVar

from dae_sdc.errors import TimeLimitError

T = TypeVar("T")


@dataclass(frozen=True)
class TimeLimit:
    """The end of the time that a call may take."""

    seconds: float  # The time.
    end: float  # When it is over, on the clock of ``time.perf_counter``.

    @classmethod
    def from_now(cls, seconds: float) -> TimeLimit:
        """A limit that begins now."""
        return cls(seconds, perf_counter() + seconds)

    def check_at(self, time: float, advice: str, agreed: Callable[[float], float] | None = None) -> None:
        """End a run if the time is over, see :func:`check_at`."""
        left = self.end - perf_counter()
        if (left if agreed is None else agreed(left)) < 0.0:
            raise self.error(f"at t={time:.6g}", advice)

    def error(self, when: str, advice: str) -> TimeLimitError:
        """The error of a call whose time is over, at what time or stage, and what else to do."""
        return TimeLimitError(
            f"the time limit of {self.seconds:g} s ran out {when}; raise time_limit{advice}"
        )


class OutOfTime(BaseException):
    """The time is over. Nothing that handles failures catches it, until it is a TimeLimitError."""

    def __init__(self, error: TimeLimitError) -> None:
        super().__init__(str(error))
        self.error = error


_limit: ContextVar[TimeLimit | None] = ContextVar("_limit", default=None)
_checked: ContextVar[TimeLimit | None] = ContextVar("_checked", default=None)
_stage: ContextVar[tuple[str, str]] = ContextVar("_stage", default=("the call was prepared", ""))


def current() -> TimeLimit | None:
    """The limit of the call that is under way; None if there is none."""
    return _limit.get()


def check_at(time: float, advice: str, agreed: Callable[[float], float] | None = None) -> None:
    """End a run that has come to ``time`` if the time of its call is over."""
    limit = _limit.get()
    if limit is not None:
        limit.check_at(time, advice, agreed)


def check() -> None:
    """End the call if its time is over."""
    limit = _checked.get()
    if limit is not None and perf_counter() > limit.end:
        doing, advice = _stage.get()
        raise OutOfTime(limit.error(f"while {doing}", advice))


@contextmanager
def limited(seconds: float | None = None) -> Iterator[None]:
    """Let :func:`check` end what is inside after so many seconds, or with the call around it."""
    outer = _limit.get()
    own = outer if seconds is None else TimeLimit.from_now(seconds)
    if own is not None and outer is not None and outer.end < own.end:
        own = outer
    try:
        with within(_limit, own), within(_checked, own):
            yield
    except OutOfTime as over:
        raise over.error from None


@contextmanager
def within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Let a variable of this thread have a value inside."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def unchecked(wanted: bool = True) -> AbstractContextManager[None]:
    """Let :func:`check` do nothing inside, where what would be lost is worth more, or other ranks wait."""
    return within(_checked, None if wanted else _checked.get())


@contextmanager
def under_way(doing: str, advice: str = "") -> Iterator[None]:
    """Name the work inside, also as a decorator: "the index is reduced", and what else to do than to wait."""
    with within(_stage, (doing, advice)):
        check()
        yield
