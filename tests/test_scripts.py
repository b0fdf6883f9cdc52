"""Files of the package that Python is started with, and rooms under the names of their links at the root."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launcher import Launcher

import dae_sdc
from dae_sdc.cli import find_verbs

RUN = Path(dae_sdc.__file__).parent / "run"
FILES = sorted(path.name for path in RUN.glob("*.py"))
VERBS = {f"{name.replace('-', '_')}.py" for name in find_verbs()}


def started(*command: str, at: Path | None = None) -> Any:
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, check=False, cwd=at
    )


def test_every_file_of_the_room_run_imports_from_the_package() -> None:
    # Which then sees what Python was started with: a verb, or a file that is none.
    for name in FILES:
        text = (RUN / name).read_text(encoding="utf-8")
        assert re.search(r"^(from|import) dae_sdc\b", text, re.MULTILINE), name


@pytest.mark.parametrize("name", sorted({*FILES[::6], *sorted(VERBS & {*FILES})[::6]}))
def test_a_file_of_the_room_run_is_the_verb_or_says_in_a_line_that_it_is_none(name: str) -> None:
    done = started(str(RUN / name), "--no-such-option")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    verb = name.removesuffix(".py").replace("_", "-")
    wanted = f"dae-sdc: {verb}: " if name in VERBS else f"dae-sdc: run/{name} is no script; "
    assert done.stderr.startswith(wanted), done.stderr


@pytest.mark.parametrize("how", ["file", "link", "module"])
def test_a_script_does_what_the_verb_does(how: str, tmp_path: Path, checkout: Path) -> None:
    options = ["simple", "--dt", "0.1", "--t-end", "0.2"]
    by = {
        "file": [str(RUN / "solve.py")],
        "link": [str(checkout / "run" / "solve.py")],
        "module": ["-m", "dae_sdc.run.solve"],
    }
    for out, begin in ("verb.npy", ["-m", "dae_sdc", "solve"]), ("script.npy", by[how]):
        done = started(*begin, *options, "--out", out, at=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    verb, script = dae_sdc.load(tmp_path / "verb.npy"), dae_sdc.load(tmp_path / "script.npy")
    np.testing.assert_array_equal(verb.data["u"], script.data["u"])
    assert script.command == verb.command.replace("verb.npy", "script.npy")


def test_a_verb_that_another_room_carries_out_is_a_script_in_both(tmp_path: Path) -> None:
    for file in (RUN / "structure.py", RUN.parent / "plotting" / "structure.py"):
        assert started(str(file), "pendulum", at=tmp_path).stdout.startswith("pendulum")


def test_pictures_are_drawn_by_a_script_beside_the_others(tmp_path: Path, checkout: Path) -> None:
    dae_sdc.solve("simple", dt=0.1, t_end=0.2, out=tmp_path / "run.npy")
    done = started(str(checkout / "run" / "plot.py"), "run.npy", "-o", "run.png", at=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_files_of_other_rooms_are_no_scripts() -> None:
    for place in ("sweepers/sdc.py", "plotting/convergence.py", "problems/linear.py"):
        done = started(str(RUN.parent / place))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"dae-sdc: {place} is no script")


def test_a_script_fails_with_the_exit_code_of_the_verb() -> None:
    assert started(str(RUN / "solve.py"), "no-such-problem").returncode == 2


@pytest.mark.long
def test_a_script_runs_on_ranks(mpirun: Launcher, tmp_path: Path) -> None:
    out = tmp_path / "end.npy"
    options = ["simple", "--dt", "0.1", "--t-end", "0.2", "--parallel", "nodes", "--out", str(out)]
    done = mpirun(3, RUN / "solve.py", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.strip().splitlines()) >= 1
    exact = dae_sdc.SimpleDAE().u_exact(0.2)
    np.testing.assert_allclose(dae_sdc.load(out).data["u"][-1], exact, rtol=1e-4)


ROOTS = """
import sys
sys.path.insert(0, sys.argv[1])
{first}
import problems, problems.linear, sweepers, sweepers.sdc, run, run.results, plotting, plotting.plot
from run.solve import solve
from problems.linear import SimpleDAE
import dae_sdc, dae_sdc.problems.linear, dae_sdc.sweepers.sdc

assert (problems, sweepers, run) == (dae_sdc.problems, dae_sdc.sweepers, dae_sdc.run)
assert plotting is dae_sdc.plotting
assert problems.linear is dae_sdc.problems.linear and sys.modules["sweepers.sdc"] is dae_sdc.sweepers.sdc
assert problems.linear.__name__ == problems.linear.__spec__.name == "dae_sdc.problems.linear"
assert solve is dae_sdc.solve and SimpleDAE is dae_sdc.SimpleDAE is dae_sdc.PROBLEMS["simple"]
print("one")
"""


@pytest.mark.parametrize("first", ["", "import dae_sdc"])
def test_rooms_imported_from_the_root_are_those_of_the_package(first: str, checkout: Path) -> None:
    done = started("-P", "-c", ROOTS.format(first=first), str(checkout))
    assert (done.stdout, done.stderr) == ("one\n", "")
