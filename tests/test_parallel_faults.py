"""What goes wrong on one rank ends on all of them, soon, with a line, and with what was finished on disk."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launcher import PROGRAMS, Job, Launcher, locked

import dae_sdc as ds

# Every process must have ended 10 seconds after the fault; the rest is for a start on a busy machine.
SOON = 300.0
KINDS = ("newton", "nan", "RuntimeError", "MemoryError", "InputError")
DT = 0.1


def exact(t: Any) -> Any:
    return np.exp(-t)[:, None]


def rows_of(path: Path) -> Any:
    """A solution that was saved, with right values, and no other file beside it but its sidecar."""
    data = ds.load(path).data
    assert np.allclose(data["t"], DT * np.arange(len(data)))
    assert np.abs(data["u"] - exact(data["t"])).max() < 1e-8
    files = [f"{path.stem}.dense.npz", f"{path.stem}.json", path.name]
    assert sorted(one.name for one in path.parent.glob(f"{path.stem}*")) == files
    return data


def own_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("dae-sdc: ")]


# --- Errors that ranks tell each other ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(mpirun: Launcher, shared: Path) -> list[dict[str, Any]]:
    """What each rank saw of each fault."""
    place = shared / "errors"
    with locked(shared / "errors.lock"):
        if not (place / "found.json").exists():
            place.mkdir(exist_ok=True)
            done = mpirun(4, "errors.py", place, timeout=300)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return list(json.loads((place / "found.json").read_text(encoding="utf-8")))


WAYS = [("nodes", 2), ("nodes", 4), ("steps", 2), ("steps", 4), ("both", 4)]


@pytest.mark.parametrize(("parallel", "size"), WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_on_one_rank_is_raised_on_all(
    kind: str, parallel: str, size: int, told: list[dict[str, Any]]
) -> None:
    wanted = (kind, parallel, size)
    ranks = [one for one in told if (one["kind"], one["parallel"], one["ranks"]) == wanted]
    assert sorted(one["rank"] for one in ranks) == list(range(size))
    ranks.sort(key=lambda one: int(one["rank"]))
    root, faulty = ranks[0], ranks[1]
    if kind in ("newton", "nan"):
        assert not any(one["success"] for one in ranks)
        assert len({one["message"] for one in ranks}) == 1
        assert ("Newton did not converge" if kind == "newton" else "nan in 'equation 1'") in root["message"]
    else:
        text = {"RuntimeError": "the model is broken", "MemoryError": "nothing left"}.get(kind, "a bad table")
        assert (faulty["raised"], faulty["message"]) == (kind, text)
        for one in (*ranks[:1], *ranks[2:]):
            if kind == "InputError":
                assert (one["raised"], one["message"]) == (kind, text)
            else:
                assert (one["raised"], one["message"]) == ("RemoteError", f"{kind} on rank 1: {text}")
    # All ranks are in step again, so that a program may go on.
    assert all(one["again"] for one in ranks)


@pytest.mark.parametrize(("parallel", "size"), WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_before_a_fault_are_saved(
    kind: str, parallel: str, size: int, told: list[dict[str, Any]]
) -> None:
    wanted = (kind, parallel, size, 0)
    root = next(one for one in told if (one["kind"], one["parallel"], one["ranks"], one["rank"]) == wanted)
    stem = f"{parallel}-{kind}-{size}"
    assert root["files"] == [f"{stem}.partial.{suffix}" for suffix in ("dense.npz", "json", "npy")]
    # The fault comes after t = 0.21: in the third step where rank 1 has nodes of it, and otherwise in the
    # first that rank 1 works on after the second, of which the steps before it are finished.
    first = 3 if parallel in ("nodes", "both") else next(k for k in range(3, 9) if (k - 1) % size == 1)
    assert root["kept"] == first - 1
    assert root["error"] < 1e-8
    assert root.get("steps", root["kept"]) == root["kept"]


# --- Errors that a rank cannot tell, as the others wait elsewhere ------------------------------------------


@pytest.mark.parametrize(("parallel", "ranks"), [("nodes", 3), ("both", 4)])
def test_a_hook_that_raises_on_one_rank_ends_all(
    parallel: str, ranks: int, mpirun: Launcher, tmp_path: Path
) -> None:
    out = tmp_path / "out.npy"
    done = mpirun(ranks, "uncaught.py", "hook", parallel, out, timeout=SOON)
    assert done.returncode != 0
    assert done.stderr.count("rank 1: ValueError: this hook is broken\n") == 1
    # The others know nothing of it and show no trace.
    assert done.stderr.count("Traceback") == 1
    partial = tmp_path / "out.partial.npy"
    if partial.exists():  # it is saved now and then
        assert 2 <= len(rows_of(partial)) <= 7


def test_a_hook_that_raises_an_error_of_this_package_on_one_rank_ends_all(
    mpirun: Launcher, tmp_path: Path
) -> None:
    done = mpirun(2, "uncaught.py", "hook, SolveError", "nodes", tmp_path / "out.npy", timeout=SOON)
    assert done.returncode != 0
    assert "this hook is broken" in done.stderr


def test_bad_input_on_one_rank_ends_all(mpirun: Launcher, tmp_path: Path) -> None:
    done = mpirun(2, "uncaught.py", "input", "nodes", tmp_path / "out.npy", timeout=SOON)
    assert done.returncode != 0
    assert "dt is 0.1 on rank 0 and -0.1 on rank 1; give all ranks the same options" in done.stderr


@pytest.mark.long
def test_an_exception_in_a_script_ends_all(mpirun: Launcher, tmp_path: Path) -> None:
    out = tmp_path / "out.npy"
    done = mpirun(3, "uncaught.py", "between", "nodes", out, timeout=SOON)
    assert done.returncode != 0
    assert done.stderr.count("rank 1: ValueError: this script is broken\n") == 1
    assert len(rows_of(out)) == 10


@pytest.mark.parametrize(
    ("kind", "parallel", "ranks", "code", "line"),
    [
        ("RuntimeError", "nodes", 2, 1, "RuntimeError on rank 1: the model is broken"),
        ("MemoryError", "steps", 2, 1, "MemoryError on rank 1: nothing left"),
        ("newton", "both", 4, 1, "Newton did not converge"),
    ],
)
def test_the_command_says_in_one_line_what_happened_on_any_rank(
    kind: str, parallel: str, ranks: int, code: int, line: str, mpirun: Launcher, tmp_path: Path
) -> None:
    out = tmp_path / "out.npy"
    done = mpirun(ranks, "uncaught.py", kind, parallel, out, timeout=SOON)
    assert done.returncode == code
    said = own_lines(done.stderr)
    assert len(said) == 1 and said[0].startswith(f"dae-sdc: {line}")
    assert "Traceback" not in done.stderr
    assert len(rows_of(tmp_path / "out.partial.npy")) == (4 if parallel == "steps" else 3)


def test_an_interrupt_that_reaches_one_rank_alone_ends_all(mpirun: Launcher, tmp_path: Path) -> None:
    done = mpirun(2, "uncaught.py", "KeyboardInterrupt", "nodes", tmp_path / "out.npy", timeout=SOON)
    assert done.returncode != 0
    assert own_lines(done.stderr) == ["dae-sdc: rank 1: interrupted; files of finished results are kept"]


# --- Signals -----------------------------------------------------------------------------------------------

STUDY = ["convergence", "decay", "--dt", "0.45,0.3,0.0001", "--params", "pause=0.001"]
SOLVE = ["solve", "decay", "--dt", "0.1", "--t-end", "1000", "--params", "pause=0.001"]
COMMON = ["--sweeper", "semi-implicit", "--nodes", "4"]


def wait_for(ready: Callable[[], bool], job: Job, seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert job.process.poll() is None, "the job ended by itself"
        assert time.monotonic() < deadline
        time.sleep(0.1)


def end_by(
    send: Callable[[Job, list[int]], None], words: list[str], ranks: int, mpirun: Launcher, out: Path
) -> tuple[Any, Any]:
    """Start a long command, send a signal when it has finished something, and see what is left."""
    command = ["command.py", *words, *COMMON, "--parallel", "nodes", "--out", out]
    out = out.with_name("out.partial.npy")
    with mpirun.job(ranks, *command) as job:
        # Of a study, two runs have ended; of a solve, some steps.
        enough = 4 if words is STUDY else 3
        wait_for(lambda: out.exists() and len(ds.load(out).data) >= enough, job)
        before = len(ds.load(out).data)
        pids = job.pids(str(PROGRAMS / "command.py"))
        assert len(pids) >= ranks
        send(job, pids[-ranks:])
        done = job.wait(SOON)
    data = ds.load(out).data
    assert len(data) >= before
    suffixes = ["dense.npz"] * (words is SOLVE) + ["json", "npy"]
    assert sorted(path.name for path in out.parent.iterdir()) == [f"out.partial.{one}" for one in suffixes]
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done, data


def kill_one(job: Job, pids: list[int]) -> None:
    os.kill(pids[-1], signal.SIGKILL)


def terminate_mpirun(job: Job, pids: list[int]) -> None:
    job.process.terminate()


def terminate_ranks(job: Job, pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGTERM)


def interrupt_all(job: Job, pids: list[int]) -> None:
    # As a terminal does: everything in the group of mpirun.
    os.killpg(job.process.pid, signal.SIGINT)


needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for ranks in /proc")


@needs_proc
@pytest.mark.parametrize("words", [STUDY, SOLVE], ids=["study", "solve"])
def test_a_killed_rank_takes_the_others_with_it_and_files_stay_whole(
    words: list[str], mpirun: Launcher, tmp_path: Path
) -> None:
    _, data = end_by(kill_one, words, 3, mpirun, tmp_path / "out.npy")
    if words is STUDY:
        assert set(data["dt"][np.isfinite(data["error"])]) == {0.45, 0.3}
    else:
        assert np.abs(data["u"] - exact(data["t"])).max() < 1e-8


@needs_proc
@pytest.mark.parametrize("send", [terminate_mpirun, terminate_ranks, interrupt_all])
def test_finished_results_stay_when_a_run_is_ended(
    send: Callable[[Job, list[int]], None], mpirun: Launcher, tmp_path: Path
) -> None:
    words = STUDY if send is terminate_mpirun else SOLVE
    done, data = end_by(send, words, 2, mpirun, tmp_path / "out.npy")
    if words is STUDY:
        assert set(data["dt"][np.isfinite(data["error"])]) == {0.45, 0.3}
    else:
        assert np.abs(data["u"] - exact(data["t"])).max() < 1e-8
    if send is terminate_ranks:
        assert any(
            "terminated; files of finished results are kept" in line for line in own_lines(done.stderr)
        )
