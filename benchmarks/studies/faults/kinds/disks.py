"""Disks that are full after so many bytes: nothing that was computed is lost, and no file is torn."""

from __future__ import annotations

import resource
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dae_sdc as ds
from benchmarks.measuring.runs import Finding
from benchmarks.studies.faults import cases
from benchmarks.studies.faults.cases import DONE, LOST, TOLD, TORN, Case, Random, choice, kind
from benchmarks.studies.faults.kinds.commands import in_this_process
from benchmarks.studies.faults.kinds.kills import left, torn

SAVERS = cases.functions_of(cases.tables()["savers"], ds=ds, in_this_process=in_this_process)
FULL = "cannot write"  # What the package says of a file that could not be written


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """A limit on the size of files, as a full disk is seen by those who write them."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def judged(save: Any, size: int, again: bool) -> Finding:
    """What comes of a call that writes files, on a full disk, where older files stand or none."""
    if again:
        cases.called(save)
    older = {path.name for path in Path().iterdir()}
    with warnings.catch_warnings(record=True) as said, disk_of(size):
        warnings.simplefilter("always")
        answer = save()
    finding = answer if isinstance(answer, Finding) else Finding(DONE)
    # A partial result stays where there is no room for the finished one.
    if broken := torn(Path()) or ", ".join(name for name in left(Path()) if name[0] == "."):
        return replace(finding, outcome=TORN, message=broken)
    if gone := older - {path.name for path in Path().iterdir()}:
        return replace(finding, outcome=LOST, message=f"{gone} of an earlier run")
    if finding.outcome == DONE and not older and not list(Path().iterdir()):
        told = any(FULL in str(one.message) for one in said)
        return Finding(TOLD, "") if told else replace(finding, outcome=LOST, message="no file and no word")
    return finding


@kind("disk", 3.0)
def disk(rng: Random) -> Case:
    """A call with files to write, on a disk with room for some of their bytes."""
    saver, size, again = choice(rng, SAVERS), int(10 ** rng.uniform(0.0, 5.0)), bool(rng.random() < 0.5)

    def run() -> Finding:
        answers: list[Finding] = []
        finding = cases.called(lambda: answers.append(judged(SAVERS[saver], size, again)))
        # What computes gives back what it has; what writes alone may say that it could not.
        if finding.outcome == TOLD and "out" in saver:
            return replace(finding, outcome=LOST, message=f"refused: {finding.message}")
        return answers[0] if answers else finding

    return Case(f"{saver} with {size} bytes left{', over older files' * again}", run)
