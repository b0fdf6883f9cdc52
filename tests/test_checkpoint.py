"""Checkpoints: runs that go on from one give the same digits, and no kill damages a file."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.nursery import needs_fork, nursery
from launcher import Launcher
from pySDC.core.hooks import Hooks

import dae_sdc as ds
from dae_sdc.control.checkpoint import CHECKPOINT_EVERY, Checkpoints
from dae_sdc.files import replacing
from dae_sdc.run.resume import _packed, _unpacked, read_checkpoint

RUN = """
ds.solve("pendulum", rtol=1e-9, t_end=20.0, checkpoint=sys.argv[1], every=4, resume=True, out=sys.argv[2])
"""


def same(a: ds.Solution, b: ds.Solution) -> None:
    """Two runs took the same steps, to the last bit and to the last count."""
    for name in ("t", "u", "du"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)
    assert a.per_step.keys() == b.per_step.keys()
    for name in a.per_step:
        np.testing.assert_array_equal(a.per_step[name], b.per_step[name])
    assert a.stats == b.stats
    assert (a.success, a.message) == (b.success, b.message)
    assert (a.dense is None) == (b.dense is None)
    if a.dense is not None:
        between = np.linspace(a.t[0], a.t[-1], 37)
        # What is computed between the steps depends on the last digits of differences.
        for one, other in ((a, b), (a.derivative, b.derivative)):
            np.testing.assert_allclose(one(between), other(between), rtol=1e-9, atol=1e-12)
    for mine, other in zip(a.events + a.switches, b.events + b.switches, strict=True):
        assert mine.name == other.name
        for name in ("t", "u", "direction"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(other, name))


def interrupted(problem: Any, steps: int, **settings: Any) -> None:
    """A run that Ctrl-C ends after so many steps, rejected ones included."""

    class Interrupt(Hooks):  # type: ignore[misc]
        taken: ClassVar[int] = 0

        def post_step(self, step: Any, level_number: int) -> None:
            Interrupt.taken += 1
            if Interrupt.taken == steps:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.solve(problem, hooks=[Interrupt], **settings)


def attempts(solution: ds.Solution) -> int:
    """Number of steps that a run has tried."""
    return int(solution.stats["steps"] + solution.stats["rejected"])


def ends_above(u: Any, t: float) -> float:
    return float(u[0])


RADAU: list[tuple[str, dict[str, Any]]] = [
    ("pendulum", {"rtol": 1e-8}),
    ("pendulum", {"rtol": 1e-6, "events": ends_above}),
    ("robertson", {"rtol": 1e-6}),
    ("nand-gate", {"rtol": 1e-4, "t_end": 30.0}),
    ("charge-pump", {"rtol": 1e-4, "t_end": 4e-7}),
    ("discontinuous", {"rtol": 1e-7}),
    ("wscc9", {"rtol": 1e-5}),
    ("slider-crank-2d", {"rtol": 1e-7}),  # simplified, and without start values of forces
    ("transmission-line", {"rtol": 1e-5, "t_end": 2.0}),
    ("transmission-line", {"rtol": 1e-5, "t_end": 2.0, "linear_solver": "klu"}),
]


@pytest.mark.parametrize(("problem", "settings"), RADAU)
def test_a_resumed_run_to_a_tolerance_is_the_run_without_checkpoints(
    problem: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "run.npz"
    whole = ds.solve(problem, **settings)
    interrupted(problem, attempts(whole) // 2, checkpoint=file, every=3, **settings)
    resumed = ds.solve(problem, checkpoint=file, every=3, resume=True, **settings)
    assert whole.t[2] < resumed.parameters["resumed_at"] < whole.t[-3]
    assert (whole.t == resumed.parameters["resumed_at"]).any()
    same(whole, resumed)


def test_the_rounding_of_multipliers_goes_on_with_a_run(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rtol": 1e-9, "t_end": 0.05}
    whole = ds.solve("slider-crank", **settings)
    often: dict[str, Any] = {"checkpoint": tmp_path / "run", "every": 50, **settings}
    interrupted("slider-crank", attempts(whole) // 2, **often)
    same(whole, ds.solve("slider-crank", resume=True, **often))


def test_full_factors_of_sparse_matrices_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dae_sdc.compiled.triangular.LARGEST_ROW_FILL", 0)
    settings: dict[str, Any] = {"rtol": 1e-6, "t_end": 2.0}
    whole = ds.solve("transmission-line", **settings)
    interrupted("transmission-line", attempts(whole) // 2, checkpoint=tmp_path / "run", every=1, **settings)
    assert len(read_checkpoint(tmp_path / "run.npz")[1]["sweeper"]["factors"]["outside"]) > 1
    same(whole, ds.solve("transmission-line", checkpoint=tmp_path / "run", resume=True, **settings))


def test_rejections_before_and_after_the_checkpoint_are_counted(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rtol": 1e-4, "t_end": 30.0}
    file = tmp_path / "run.npz"
    whole = ds.solve("nand-gate", **settings)
    interrupted("nand-gate", attempts(whole) // 2, checkpoint=file, every=5, **settings)
    before = read_checkpoint(file)[1]["record"]["rejected"]
    resumed = ds.solve("nand-gate", checkpoint=file, resume=True, **settings)
    assert 0 < before < resumed.stats["rejected"] == whole.stats["rejected"]


SAVED: list[tuple[str, dict[str, Any]]] = [
    ("pendulum", {"sweeper": "fully-implicit", "dt": 0.02, "t_end": 0.6}),
    ("pendulum", {"sweeper": "semi-implicit", "dt": 0.02, "t_end": 0.6, "backend": "numpy"}),
    ("pendulum", {"sweeper": "constrained", "dt": 0.02, "t_end": 0.6, "qdelta": "MIN-SR-S"}),
    ("pendulum", {"sweeper": "semi-implicit", "dt": 0.02, "t_end": 0.6, "quad": "LOBATTO", "nodes": 4}),
    ("pendulum", {"sweeper": "semi-implicit", "rtol": 1e-6}),
    ("transmission-line", {"sweeper": "semi-implicit", "dt": 0.05, "t_end": 1.0}),
    ("transmission-line", {"sweeper": "fully-implicit", "rtol": 1e-9}),
    *[
        ("transmission-line", {"sweeper": "semi-implicit", "dt": 0.05, "t_end": 1.0, "linear_solver": solver})
        for solver in ("klu", "gmres", "dense")
    ],
    ("hessenberg-1", {"sweeper": "semi-implicit", "dt": 0.05, "linear_solver": "gmres"}),
    ("hessenberg-1", {"sweeper": "semi-implicit", "dt": 0.05, "initial_guess": "random", "seed": 5}),
    ("hessenberg-1", {"sweeper": "fully-implicit", "dt": 0.05, "quad": "GAUSS", "events": ends_above}),
    ("hessenberg-1", {"sweeper": "radau-iia-9", "dt": 0.05}),
    ("hessenberg-1", {"sweeper": "trapezoidal", "dt": 0.05}),
    ("hessenberg-1", {"sweeper": "esdirk43", "rtol": 1e-7}),
    ("hessenberg-1", {"sweeper": "bdf3", "dt": 0.05, "events": ends_above}),
    ("pendulum", {"sweeper": "bdf5", "dt": 0.02, "t_end": 0.6}),
    ("elastic-pendulum", {"sweeper": "adams-moulton-3", "t_end": 0.2}),
    ("elastic-pendulum", {"sweeper": "bdf2", "t_end": 0.2, "corrector": "fixed-point"}),
    (
        "elastic-pendulum",
        {"sweeper": "adams-bashforth-4", "t_end": 0.2, "starting_procedure": "explicit-euler"},
    ),
]


@pytest.mark.parametrize(("problem", "settings"), SAVED)
def test_with_matrices_in_the_file_no_method_notices_a_checkpoint(
    problem: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "run.npz"
    whole = ds.solve(problem, **settings)
    interrupted(problem, attempts(whole) // 2, checkpoint=file, every=3, **settings)
    resumed = ds.solve(problem, checkpoint=file, every=3, resume=True, **settings)
    assert whole.t[2] < resumed.parameters["resumed_at"] < whole.t[-3]
    same(whole, resumed)


def test_sweeps_with_sparse_matrices_of_python_begin_anew_at_checkpoints(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"sweeper": "semi-implicit", "dt": 0.05, "t_end": 1.0, "backend": "numpy"}
    whole = ds.solve("transmission-line", checkpoint=tmp_path / "whole", every=5, **settings)
    interrupted("transmission-line", 12, checkpoint=tmp_path / "run", every=5, **settings)
    resumed = ds.solve("transmission-line", checkpoint=tmp_path / "run", every=5, resume=True, **settings)
    assert resumed.parameters["resumed_at"] == pytest.approx(resumed.t[10], rel=1e-14)
    same(whole, resumed)
    plain = ds.solve("transmission-line", **settings)
    np.testing.assert_allclose(resumed.u, plain.u, rtol=0.0, atol=1e-8)


class Ratchet(ds.ProblemDAE):
    """x' = -x, and -2 x once x has been below 1/2; that is remembered, not read off the state."""

    names = ("x", "z")
    index = 1

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.rates = [1.0, 2.0]
        self.past = np.zeros(1)
        self.label = "before"

    def start_step(self, u: Any, t: float) -> None:
        if u[0] < 0.5:
            self.past[0], self.label = 1.0, "behind"
            self.rates = [2.0, 2.0]

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] + self.rates[0] * u[0] + 0.0 * self.past[0], u[1] - (self.label == "behind")]

    def u_exact(self, t: float) -> Any:
        return [1.0, 0.0]


def test_what_a_problem_has_chosen_is_restored(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"dt": 0.05, "t_end": 2.0}
    interrupted(Ratchet, 22, checkpoint=tmp_path / "run", every=20, **settings)
    chosen = read_checkpoint(tmp_path / "run.npz")[1]["problem"]["attributes"]
    assert chosen.keys() == {"past", "label", "rates"}
    assert chosen["label"] == "behind" and chosen["rates"] == [2.0, 2.0] and chosen["past"] == 1.0
    resumed = ds.solve(Ratchet, checkpoint=tmp_path / "run", resume=True, **settings)
    assert resumed.parameters["resumed_at"] == pytest.approx(1.0)
    same(ds.solve(Ratchet, **settings), resumed)


def test_a_terminal_event_ends_a_resumed_run(tmp_path: Path) -> None:
    end = ds.Event(ends_above, terminal=2, name="lowest")
    settings: dict[str, Any] = {"rtol": 1e-6, "events": end}
    whole = ds.solve("pendulum", **settings)
    assert whole.message.startswith("the run ended at event")
    steps = whole.stats["steps"] + whole.stats["rejected"] - 5
    interrupted("pendulum", steps, checkpoint=tmp_path / "run", every=2, **settings)
    resumed = ds.solve("pendulum", checkpoint=tmp_path / "run", resume=True, **settings)
    assert resumed.events[0].t[0] < resumed.parameters["resumed_at"]
    same(whole, resumed)


def test_t_eval_and_out_give_the_whole_run(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rtol": 1e-6, "t_eval": np.linspace(0.0, 2.0, 11)}
    interrupted("pendulum", 20, checkpoint=tmp_path / "run", every=4, out=tmp_path / "part.npy", **settings)
    part = ds.Solution.load(tmp_path / "part.partial.npy")
    assert not part.success and 1 < len(part.t) < 11
    resumed = ds.solve(
        "pendulum", checkpoint=tmp_path / "run", resume=True, out=tmp_path / "all.npy", **settings
    )
    same(ds.solve("pendulum", **settings), resumed)
    np.testing.assert_array_equal(ds.Solution.load(tmp_path / "all.npy").u, resumed.u)


WALL = [1e9]


class Walled(ds.ProblemDAE):
    """x' = z, z = cos t, which nobody can evaluate behind a certain time."""

    index = 1

    def __init__(self) -> None:
        super().__init__(1, 1)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] - u[1], u[1] - np.cos(t) if t < WALL[0] else np.nan]

    def u_exact(self, t: float) -> Any:
        return [np.sin(t), np.cos(t)]


def test_a_failed_run_returns_and_saves_what_it_has_and_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"rtol": 1e-6, "t_end": 20.0, "every": 3}
    monkeypatch.setitem(globals(), "WALL", [12.0])
    failed = ds.solve(Walled, checkpoint=tmp_path / "run", out=tmp_path / "part.npy", **settings)
    assert not failed.success and "no step from t=1" in failed.message
    assert 11.0 < failed.t[-1] < 12.0
    kept = ds.Solution.load(tmp_path / "part.partial.npy")
    assert kept.message == failed.message
    np.testing.assert_array_equal(kept.u, failed.u)
    monkeypatch.undo()
    resumed = ds.solve(Walled, checkpoint=tmp_path / "run", resume=True, **settings)
    assert resumed.success and 6.0 < resumed.parameters["resumed_at"] <= failed.t[-1]
    kept_steps = int(np.searchsorted(resumed.t, resumed.parameters["resumed_at"])) + 1
    np.testing.assert_array_equal(resumed.u[:kept_steps], failed.u[:kept_steps])
    np.testing.assert_allclose(resumed.u[:, 0], np.sin(resumed.t), rtol=0.0, atol=1e-4)


# --- files --------------------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The checkpoint of an interrupted run."""
    file = tmp_path / "run.npz"
    interrupted("pendulum", 12, checkpoint=file, every=5, rtol=1e-6)
    return file


def _packed_bytes(file: Path) -> bytes:
    """All that a checkpoint says."""
    arrays: list[Any] = []
    text = json.dumps([_packed(part, arrays) for part in read_checkpoint(file)])
    return b"".join([text.encode(), *(array.tobytes() for array in arrays)])


def refusal(file: Path, problem: Any = "pendulum", **changes: Any) -> str:
    settings = {"rtol": 1e-6, **changes}
    with pytest.raises(ds.ResultFileError) as caught:
        ds.solve(problem, checkpoint=file, resume=True, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"problem": "pendulum-cash"}, "problem was 'pendulum', and is now 'pendulum-cash'"),
        ({"params": {"m": 2.0}}, "parameter m was 1.0, and is now 2.0"),
        ({"rtol": 1e-7}, "rtol was 1e-06, and is now 1e-07"),
        ({"atol": 1e-9}, "atol was None, and is now 1e-09"),
        ({"leave_out": ["lambda"]}, "leave_out was [], and is now ['lambda']"),
        ({"sweeper": "radau-iia-5"}, "sweeper was "),
        ({"t_end": 3.0}, "t_end was 2.0, and is now 3.0"),
        ({"rtol": None, "dt": 0.1}, "rtol was 1e-06, and is now None"),
        ({"sweeper": "semi-implicit", "nodes": 4}, "sweeper was "),
        ({"newton_tol": 1e-12}, "newton_tol was 1e-10, and is now 1e-12"),
        ({"events": ends_above}, "events was []"),
        ({"dense": False}, "dense output was True, and is now False"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(changes: dict[str, Any], what: str, written: Path) -> None:
    before = written.read_bytes()
    message = refusal(written, **changes)
    assert "is the checkpoint of another run" in message and what in message
    assert written.read_bytes() == before


def test_a_larger_time_limit_and_another_number_of_steps_are_no_other_run(written: Path) -> None:
    resumed = ds.solve("pendulum", rtol=1e-6, checkpoint=written, every=7, resume=True, time_limit=1e3)
    same(ds.solve("pendulum", rtol=1e-6), resumed)


def test_a_damaged_file_is_refused(written: Path) -> None:
    whole, state = written.read_bytes(), _packed_bytes(written)
    places, noticed = random.Random(2), 0
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[places.randrange(len(whole))] ^= 1 << places.randrange(8)
        written.write_bytes(damaged)
        try:
            assert _packed_bytes(written) == state
        except ds.ResultFileError as error:
            assert "is damaged or no checkpoint" in str(error)
            noticed += 1
    assert noticed > 40
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        written.write_bytes(whole[:length])
        assert "is damaged or no checkpoint" in refusal(written)
    np.savez(written, allow_pickle=False, a=np.zeros(3))
    assert "is damaged or no checkpoint" in refusal(written)


def test_a_file_of_another_version_is_refused(written: Path) -> None:
    arrays = dict(np.load(written))
    about = json.loads(arrays["header"].tobytes())
    about["version"] += 1
    arrays["header"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez(written, allow_pickle=False, **arrays)
    assert f"is a checkpoint of version {about['version']}, written by dae_sdc" in refusal(written)


def test_objects_are_neither_written_nor_read(written: Path) -> None:
    with np.load(written, allow_pickle=False) as archive:
        assert {array.dtype.kind for array in (archive[name] for name in archive.files)} <= set("biufc")


def test_every_double_comes_back_as_it_was() -> None:
    rng = np.random.default_rng(8)
    doubles = rng.integers(0, 2**63, 2000, dtype=np.int64).view(np.float64)
    values = {"list": [*doubles[np.isfinite(doubles)].tolist(), np.inf, -np.inf, -0.0, 5e-324]}
    arrays: list[Any] = []
    packed = _packed({**values, "tuple": (1, None, "x", True, np.float64(0.1)), "array": doubles}, arrays)
    back = _unpacked(json.loads(json.dumps(packed)), arrays)
    assert np.array(back["list"]).tobytes() == np.array(values["list"]).tobytes()
    assert back["tuple"] == (1, None, "x", True, 0.1)
    assert back["array"].tobytes() == doubles.tobytes()


def test_without_a_file_a_run_begins_at_its_start(tmp_path: Path) -> None:
    solution = ds.solve("pendulum", rtol=1e-6, checkpoint=tmp_path / "run", resume=True)
    assert solution.parameters["resumed_at"] is None
    assert "resumed_at" not in ds.solve("pendulum", rtol=1e-6).parameters


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"resume": True}, "give checkpoint"),
        ({"every": 5}, "give checkpoint"),
        ({"checkpoint": "x", "every": 0}, "every, the number of steps between two checkpoints"),
        ({"checkpoint": 5}, "checkpoint must be a text or a path"),
        ({"checkpoint": "no/such/place"}, "does not exist"),
        ({"checkpoint": "x", "steps": 2}, "one step at a time"),
        ({"checkpoint": "x", "sweeper": "semi-implicit", "coarse_nodes": 2}, "one step at a time"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_run(
    given: dict[str, Any], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ds.InputError, match=what):
        ds.solve("pendulum", dt=0.1, **given)
    assert list(tmp_path.iterdir()) == []


def test_unasked_checkpoints_take_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("dae_sdc.control.checkpoint.perf_counter", lambda: now[0])
    written: list[float] = []

    class Sweep:
        keeps_state = True

    class Parts:
        sweep = Sweep
        levels = MS = property(lambda self: [self])

    class Slow(Checkpoints):
        def _state(self, *_: Any) -> dict[str, Any]:
            return {}

    def write(_: Any) -> None:
        written.append(now[0])
        now[0] += 1.0

    for every, gap in ((None, 10.0), (CHECKPOINT_EVERY, 0.0)):
        written.clear()
        record: Any = type("Record", (), {"rows": []})()
        checkpoints = Slow(Parts(), record, every, write)  # type: ignore[arg-type]
        for _ in range(1000):
            now[0] += 0.02
            record.rows.append({})
            checkpoints.look(Parts(), now[0], None)  # type: ignore[arg-type]
        assert len(written) > 1
        assert min(np.diff(written)) > gap
        if every is not None:
            assert len(written) == 1000 // CHECKPOINT_EVERY


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    left = tmp_path / ".run.npz.0123456789ab.tmp"
    left.write_bytes(b"half")
    with replacing(tmp_path / "run.npz") as (file,):
        ds.solve("pendulum", rtol=1e-4, checkpoint=tmp_path / "run")
        assert not left.exists() and Path(file.name).exists()  # this one is being written


# --- the command line, kills and ranks ----------------------------------------------------------------------


def test_the_command_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dae_sdc import cli

    file = ["--checkpoint", str(tmp_path / "run.npz"), "--every", "4"]
    command = ["solve", "pendulum", "--rtol", "1e-6", *file]
    assert cli.main([*command, "--resume"]) == 0
    first = capsys.readouterr().out
    assert first.startswith(f"no checkpoint {tmp_path / 'run.npz'}, begun at the start\n")
    assert cli.main([*command, "--resume"]) == 0
    second = capsys.readouterr().out
    assert second.startswith("resumed at t = ")
    assert first.splitlines()[1:] == second.splitlines()[1:]
    assert cli.main(["solve", "pendulum", "--rtol", "1e-3", *file, "--resume"]) == 2
    assert "rtol was 1e-06, and is now 0.001" in capsys.readouterr().err


@needs_fork
def test_kills_at_random_times_lose_no_step_and_damage_no_file(tmp_path: Path) -> None:
    times, file, out = random.Random(4), tmp_path / "run.npz", tmp_path / "run.npy"

    def written() -> int:
        return file.stat().st_mtime_ns if file.exists() else 0

    steps, kills, code = 0, 0, 1
    with nursery(RUN) as runs:
        for _ in range(40):
            before = written()
            runs.start(file, out)
            if kills < 3:
                limit = time.monotonic() + 300.0
                while written() == before and time.monotonic() < limit:
                    time.sleep(0.002)
                time.sleep(0.05 * times.random())
                runs.kill()
            code = runs.wait()
            if code == 0:
                break
            kills += 1
            assert code == -signal.SIGKILL
            now = len(read_checkpoint(file)[1]["record"]["t"])
            assert now > steps
            steps = now
    assert code == 0 and kills >= 3
    whole, resumed = ds.solve("pendulum", rtol=1e-9, t_end=20.0), ds.Solution.load(out)
    for name in ("t", "u", "du"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(resumed, name))
    assert whole.stats == resumed.stats


def test_ranks_that_share_nodes_go_on_together(mpirun: Launcher, tmp_path: Path) -> None:
    done = mpirun(2, "checkpoint.py", tmp_path)
    assert done.returncode == 0, done.stderr
    for record in json.loads((tmp_path / "result.json").read_text(encoding="utf-8")):
        assert record["steps"] > 9, record
        assert record["resumed_at"] > 0.0, record
        assert record["same_on_one_rank"], record
        assert record["same"] and record["same_work"] and record["same_everywhere"], record
        assert "setting num_nodes was 3, and is now 2" in record["refusal"], record


@pytest.mark.long
def test_killed_ranks_leave_a_checkpoint_to_go_on_from(mpirun: Launcher, tmp_path: Path) -> None:
    def command(name: str) -> list[Any]:
        what = ["solve", "two-transistor", "--parallel", "nodes", "--dt", "5e-5", "--t-end", "0.01"]
        files = ["--checkpoint", tmp_path / f"{name}.npz", "--every", "20", "--out", tmp_path / f"{name}.npy"]
        return [sys.executable, "-m", "dae_sdc", *what, *files, "--resume"]

    file = tmp_path / "killed.npz"
    with mpirun.job(2, *command("killed")) as job:
        deadline = time.monotonic() + 300.0
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        job.end()
        assert job.process.returncode == -signal.SIGKILL
    steps = len(read_checkpoint(file)[1]["record"]["t"])
    assert 0 < steps < 200 and steps % 20 == 0
    for ranks, name, told in ((2, "killed", "resumed at t = "), (1, "whole", "no checkpoint")):
        done = mpirun(ranks, *command(name))
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(told)
    killed, whole = (ds.Solution.load(tmp_path / f"{name}.npy") for name in ("killed", "whole"))
    for name in ("t", "u", "du"):
        np.testing.assert_array_equal(getattr(killed, name), getattr(whole, name))
