"""Runs for tests of the processes that do runs: a module of its own, which is imported in no time."""

from __future__ import annotations

import os

from benchmarks.measuring.runs import DONE, Finding


def obey(line: str) -> Finding:
    if line.endswith("die"):
        os._exit(3)
    while line.endswith("work"):
        sum(range(1000))
    return Finding(DONE)
