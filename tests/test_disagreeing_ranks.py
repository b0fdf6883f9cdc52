"""Ranks that ask for different runs are told so, and a rank that leaves ends the job, within seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from disagree import OTHERS
from launcher import Launcher


def test_an_option_that_differs_between_ranks_is_named_on_all(mpirun: Launcher, tmp_path: Path) -> None:
    done = mpirun(2, "disagree.py", "options", tmp_path / "told.json", timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    for of_rank in told:
        assert set(of_rank) == set(OTHERS)
        for name, message in of_rank.items():
            assert (
                message.startswith(f"{name} is ") and "on rank 1; give all ranks the same options" in message
            )


def test_ranks_whose_problems_have_other_values_are_told_so(mpirun: Launcher) -> None:
    done = mpirun(2, "disagree.py", "attribute", timeout=300)
    lines = ["the ranks were given different equations or starts; give all of them the same"] * 2
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, lines, "")


@pytest.mark.parametrize(
    ("case", "line"),
    [
        ("exit", "rank 1: SystemExit: 3"),
        ("leave", "rank 1 has ended, and rank 0 waits for it to begin a run"),
        ("argument", "unknown option of solve 'nodez'"),
        ("before", "rank 1 has ended, and rank 0 waits for it to begin a run"),
    ],
)
def test_a_rank_that_leaves_ends_the_others(case: str, line: str, mpirun: Launcher) -> None:
    done = mpirun(2, "disagree.py", case, timeout=300)
    assert done.returncode != 0
    assert line in done.stderr
