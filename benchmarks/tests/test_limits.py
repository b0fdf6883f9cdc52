"""The limit of the time of a block ends with the block."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from benchmarks.measuring.limits import TimeLimit, limited


def test_an_alarm_that_comes_while_the_timer_is_switched_off_is_the_last(monkeypatch: Any) -> None:
    before, switch = signal.getsignal(signal.SIGALRM), signal.setitimer
    alarms: list[float] = []

    def late(which: int, seconds: float, interval: float = 0.0) -> Any:
        if seconds == 0.0 and not alarms:
            alarms.append(seconds)
            signal.raise_signal(signal.SIGALRM)
        return switch(which, seconds, interval)

    monkeypatch.setattr(signal, "setitimer", late)
    with pytest.raises(TimeLimit), limited(0.05):
        time.sleep(10.0)
    assert alarms
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
