"""Progress bars with the remaining time, on standard error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from tqdm import tqdm

T = TypeVar("T")

_OF_THE_INTERVAL = "{percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"


def bar_of(total: int, unit: str, progress: bool | None, done: int = 0) -> Any:
    """A bar of so many runs, steps or other pieces of work."""
    return tqdm(total=total, initial=done, unit=unit, disable=_disable(progress), leave=False)


class TimeBar:
    """A bar of the part of an interval that a run has covered, where the number of steps is not known."""

    def __init__(self, t0: float, t_end: float, progress: bool | None) -> None:
        self.t0, self.length, self.steps = t0, t_end - t0, 0
        self._bar = tqdm(total=1.0, bar_format=_OF_THE_INTERVAL, disable=_disable(progress), leave=False)

    def __enter__(self) -> TimeBar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def reach(self, time: float) -> None:
        """A step has ended at ``time``."""
        self.steps += 1
        if not self._bar.disable:
            self._bar.postfix = f"t={time:.4g}, {self.steps} steps"
            self._bar.update(min(1.0, (time - self.t0) / self.length) - self._bar.n)


def each(pieces: Sequence[T], unit: str, progress: bool | None) -> Iterator[T]:
    """The pieces one after the other, with a bar as of :func:`bar_of`."""
    with bar_of(len(pieces), unit, progress) as bar:
        for piece in pieces:
            yield piece
            bar.update(1)


def _disable(progress: bool | None) -> bool | None:
    """What tqdm is told; it looks for a terminal itself where that is None."""
    return None if progress is None else not progress
