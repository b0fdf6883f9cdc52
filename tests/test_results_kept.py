"""Finished results outlive everything; damaged files, closed streams and signals end in one line."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pySDC.core.hooks import Hooks

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.control import hooks
from dae_sdc.files import replacing
from dae_sdc.run import execution
from dae_sdc.run.resume import read_checkpoint

needs_posix = pytest.mark.skipif(os.name != "posix", reason="needs signals and /dev")
SOLVE = ["solve", "simple", "--sweeper", "semi-implicit", "--nodes", "2", "--dt", "0.1"]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dae_sdc", *arguments]


def names(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


class Broken(Hooks):  # type: ignore[misc]
    """Ends a run after half of it, as Ctrl-C does."""

    def post_step(self, step: Any, level_number: int) -> None:
        super().post_step(step, level_number)
        if step.time > 0.45:
            raise KeyboardInterrupt


# --- finished and partial results ---------------------------------------------------------------------------


@pytest.mark.parametrize("dense", [None, True])
def test_a_run_that_does_not_end_lies_beside_the_finished_one(tmp_path: Path, dense: bool | None) -> None:
    settings: dict[str, Any] = {"dt": 0.1, "out": tmp_path / "run.npy", "dense": dense}
    whole = ds.solve("simple", **settings)
    files = names(tmp_path)
    assert not any("partial" in name for name in files)
    with pytest.raises(KeyboardInterrupt):
        ds.solve("simple", hooks=[Broken], **settings)
    assert np.array_equal(ds.Solution.load(tmp_path / "run.npy").u, whole.u)
    partial = ds.Solution.load(tmp_path / "run.partial.npy")
    assert not partial.success and len(partial.t) < len(whole.t)
    ds.solve("simple", **settings)
    assert names(tmp_path) == files


@pytest.mark.parametrize("sampled", [False, True])
def test_an_interrupt_in_any_line_of_the_steps_leaves_whole_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampled: bool
) -> None:
    monkeypatch.setattr(execution, "WINDOW", 11)
    settings: dict[str, Any] = {"dt": 0.1, "t_end": 1.5, "out": tmp_path / "run.npy", "dense": not sampled}
    if sampled:
        settings["t_eval"] = np.linspace(0.0, 1.5, 61)
    # Of one whose dF/du' is not declared to be constant some steps are looked at one by one.
    simple = type("Undeclared", (ds.SimpleDAE,), {"constant_mass": False})
    whole, left, lengths = ds.solve(simple, **settings), 0, set()

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != hooks.__file__:
            return None if event == "call" else trace
        left -= event == "line"
        if left == 0:
            raise KeyboardInterrupt
        return trace

    for line in range(1, 100_000, 13):
        left = line
        sys.settrace(trace)
        try:
            ds.solve(simple, **settings)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        if left > 0:
            break
        partial = tmp_path / "run.partial.npy"
        if partial.exists():
            steps = ds.Solution.load(partial)
            count = len(steps.t)
            lengths.add(count)
            # Values between the last steps depend on the steps that would have followed.
            bound = 1e-4 if sampled else 0.0
            for name in ("t", "u", "du"):
                np.testing.assert_allclose(
                    getattr(steps, name), getattr(whole, name)[:count], bound, err_msg=f"{name}, line {line}"
                )
            assert sampled or np.array_equal(steps.per_step["newton"], whole.per_step["newton"][:count]), line
            partial.unlink()
    assert len(lengths) >= 5  # several steps are recorded at once


def test_where_there_is_a_partial_result_alone_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        ds.solve("simple", dt=0.1, hooks=[Broken], out=tmp_path / "run.npy")
    with pytest.raises(ds.InputError, match=r"no file .*run\.npy; .*run\.partial\.npy has what a run"):
        ds.load(tmp_path / "run.npy")


def test_a_study_that_does_not_end_lies_beside_the_finished_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[ds.convergence.__module__]
    settings: dict[str, Any] = {"nodes": 2, "dt": [0.5, 0.25], "out": tmp_path / "c.npy"}
    whole = ds.convergence("hessenberg-1", **settings)
    solve, calls = ds.solve, []

    def once(*args: Any, **given: Any) -> Any:
        calls.append(args)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return solve(*args, **given)

    for name in ("dae_sdc.run.convergence", module.__name__):
        monkeypatch.setattr(sys.modules[name], "solve", once, raising=False)
    with pytest.raises(KeyboardInterrupt):
        ds.convergence("hessenberg-1", **settings)
    assert np.array_equal(ds.load(tmp_path / "c.npy").data, whole.data)
    assert not ds.load(tmp_path / "c.partial.npy").parameters["complete"]
    monkeypatch.undo()
    ds.convergence("hessenberg-1", **settings)
    assert names(tmp_path) == {"c.npy", "c.json"}


RERUN = """
import sys
import dae_sdc as ds
from dae_sdc.control import hooks
from dae_sdc.run import execution
ds.solve("simple", dt=0.1)
print("ready", flush=True)
while True:
    ds.solve("simple", dt=1e-3, t_end=5.0, dense=True, out=sys.argv[1])
"""


@needs_posix
def test_a_killed_run_leaves_the_finished_result_and_the_next_one_no_hidden_file(tmp_path: Path) -> None:
    out = tmp_path / "run.npy"
    whole = ds.solve("simple", dt=0.1, dense=True, out=out)
    with subprocess.Popen([sys.executable, "-c", RERUN, str(out)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        limit = time.monotonic() + 300.0
        while not (tmp_path / "run.partial.npy").exists() and time.monotonic() < limit:
            time.sleep(0.002)
        child.kill()
    for name in ("run.npy", "run.partial.npy", "run.json", "run.dense.npz", "state.npz"):
        (tmp_path / f".{name}.0123456789ab.tmp").write_bytes(b"half")
    kept = ds.Solution.load(out)
    assert np.array_equal(kept.u, whole.u) and np.array_equal(kept(0.55), whole(0.55))
    assert not ds.Solution.load(tmp_path / "run.partial.npy").success
    ds.solve("simple", dt=0.1, dense=False, out=out)
    assert names(tmp_path) == {"run.npy", "run.json"}


@needs_posix
def test_the_unfinished_file_of_a_living_process_stays(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom dae_sdc.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as (file,):\n print('ready', flush=True)\n sys.stdin.read()\n"
    )
    target = tmp_path / "a.npy"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        (living,) = names(tmp_path)
        with replacing(target) as (file,):
            file.write(b"mine")
        assert names(tmp_path) == {"a.npy", living}
        child.kill()
    with replacing(target) as (file,):
        file.write(b"mine")
    assert names(tmp_path) == {"a.npy"}


# --- damaged files ------------------------------------------------------------------------------------------


def header(text: str) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        content = text.encode()
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(content).to_bytes(2, "little") + content)

    return damage


def sidecar(**changes: Any) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        about = json.loads(path.with_suffix(".json").read_text())
        about["parameters"] |= changes.pop("parameters", {})
        path.with_suffix(".json").write_text(json.dumps({**about, **changes}))

    return damage


def fifo(suffix: str) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        path.with_suffix(suffix).unlink()
        os.mkfifo(path.with_suffix(suffix))

    return damage


def archive(**changes: Any) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        with np.load(path.with_suffix(".dense.npz")) as file:
            arrays = dict(file)
        np.savez(path.with_suffix(".dense.npz"), **{**arrays, **changes})

    return damage


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path.with_suffix(".dense.npz"), "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("ends.npy", bytes(10_000_000))


def huge(path: Path) -> None:
    member = b"\x93NUMPY\x01\x00" + b"\x46\x00"
    member += b"{'descr': '<f8', 'fortran_order': False, 'shape': (20000000000,), }".ljust(70)
    with zipfile.ZipFile(path.with_suffix(".dense.npz"), "w") as file:
        file.writestr("ends.npy", member)


def other_types(path: Path) -> None:
    data = np.load(path)
    np.save(
        path,
        data.astype(
            [(name, "f4") if name == "t" else data.dtype.descr[i] for i, name in enumerate(data.dtype.names)]
        ),
    )


DAMAGE: dict[str, Callable[[Path], object]] = {
    "open bracket": header("{'descr': [('t', '<f8'"),
    "open text": header("{'descr': '<f8"),
    "huge shape": header("{'descr': [('t', '<f8')], 'fortran_order': False, 'shape': (20000000000,)}"),
    "no bytes": header("{'descr': [('t', '|V0')], 'fortran_order': False, 'shape': (20000000000,)}"),
    "negative shape": header("{'descr': [('t', '<f8')], 'fortran_order': False, 'shape': (-1,)}"),
    "nested header": header("(" * 5000),
    "number for a header": header("7"),
    "fifo": fifo(".npy"),
    "fifo for a sidecar": fifo(".json"),
    "fifo beside": fifo(".dense.npz"),
    "other type": other_types,
    "latin-1 sidecar": lambda path: path.with_suffix(".json").write_bytes(b'{"a": "\xe4"}'),
    "nested sidecar": lambda path: path.with_suffix(".json").write_text("[" * 100_000),
    "number for previous": sidecar(previous=3, rows=99),
    "number for columns": sidecar(columns=3),
    "numbers in columns": sidecar(columns=[1, 2]),
    "numbers in units": sidecar(units={"t": 1}),
    "number for names": sidecar(parameters={"names": 3}),
    "text for names": sidecar(parameters={"names": "abc"}),
    "too few units": sidecar(parameters={"units": ["1"]}),
    "number for events": sidecar(parameters={"events": 3}),
    "event without a time": sidecar(parameters={"events": [{"name": "a"}]}),
    "text for stats": sidecar(parameters={"stats": "none"}),
    "others without values": sidecar(parameters={"others": ["a"], "other_units": ["1"]}),
    "bomb": bomb,
    "huge shape beside": huge,
    "other number of steps": archive(sizes=np.ones(3)),
    "texts for times": archive(ends=np.array(["a"] * 10)),
    "other number of unknowns": archive(u0=np.zeros(7)),
    "times that fall": archive(ends=np.linspace(1.0, 0.1, 10)),
}


@needs_posix
@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_solution_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    path = ds.solve("simple", dt=0.1, dense=True).save(tmp_path / "run.npy")
    DAMAGE[name](path)
    tracemalloc.start()
    try:
        with pytest.raises(ds.InputError) as error:
            ds.Solution.load(path)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    assert "run." in str(error.value) and "\n" not in str(error.value)
    assert any(word in str(error.value) for word in ("restore", "give", "again", "check"))


@pytest.mark.parametrize("cut", [0, 5, 9, 60, 200, -17])
def test_every_file_of_a_solution_may_be_cut_short(cut: int, tmp_path: Path) -> None:
    path = ds.solve("simple", dt=0.1, dense=True).save(tmp_path / "run.npy")
    for suffix in (".npy", ".json", ".dense.npz"):
        whole = path.with_suffix(suffix).read_bytes()
        path.with_suffix(suffix).write_bytes(whole[:cut])
        with pytest.raises(ds.InputError):
            ds.Solution.load(path)
        path.with_suffix(suffix).write_bytes(whole)
    ds.Solution.load(path)


@pytest.mark.parametrize("changes", [{"names": 3}, {"names": [1, 2, 3]}, {"units": 5}, {"time_unit": []}])
def test_a_picture_of_a_damaged_sidecar_is_refused(
    changes: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ds.solve("simple", dt=0.1).save(tmp_path / "run.npy")
    sidecar(parameters=changes)(path)
    code = cli.main(["plot", "linear", str(path)])
    said = capsys.readouterr().err
    assert code in (0, 2)
    assert "defect" not in said and said.count("\n") == (code == 2)


@needs_posix
@pytest.mark.parametrize("how", ["fifo", "bomb", "other shapes", "cut"])
def test_a_damaged_checkpoint_is_refused_in_one_line(how: str, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    ds.solve("simple", dt=0.1, checkpoint=path, every=3)
    if how == "fifo":
        path.unlink()
        os.mkfifo(path)
    elif how == "bomb":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("header.npy", bytes(10_000_000))
    elif how == "other shapes":
        with np.load(path) as kept:
            arrays = dict(kept)
        at = next(name for name in arrays if arrays[name].ndim == 2)
        np.savez(path, **{**arrays, at: arrays[at].ravel()})
    else:
        path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ds.InputError, match=r"run\.npz .*; ?|run\.npz is"):
        read_checkpoint(path)


# --- streams and signals ------------------------------------------------------------------------------------


@needs_posix
@pytest.mark.parametrize(
    ("streams", "code"),
    [(">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0), (">/dev/full", 1), (">/dev/null 2>/dev/full", 0)],
)
def test_streams_that_take_nothing_keep_the_result(streams: str, code: int, tmp_path: Path) -> None:
    words = " ".join([*command(*SOLVE), "--out", "run.npy", streams])
    done = subprocess.run(words, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == code
    assert "defect" not in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == code
    assert len(ds.load(tmp_path / "run.npy").data) == 11
    assert names(tmp_path) == {"run.npy", "run.json", "run.dense.npz"}


@needs_posix
@pytest.mark.parametrize("words", [["--help"], ["list"], ["--version"]])
def test_help_on_a_full_device_is_told_in_one_line(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(command(*words), stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr.startswith("dae-sdc: cannot write to standard output: ")
    assert done.stderr.count("\n") == 1


def test_letters_that_the_terminal_has_not_got_are_written_in_others() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    code = (
        "import sys, types\nfrom dae_sdc import cli\nverb = types.ModuleType('verb')\n"
        "verb.add_arguments = lambda parser: None\nverb.main = lambda args: print('\\u03bb \\udcff') or 0\n"
        "sys.modules['verb'] = verb\ncli.find_verbs = lambda: {'verb': cli.Verb('verb', '', '', '')}\n"
        "sys.exit(cli.main(['verb']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\\u03bb \\udcff\n", "")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Lets processes that are started here hear of signals that tests in the background ignore."""
    ways: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, way) for number, way in ways.items()}
    yield
    for number, way in before.items():
        signal.signal(number, way)


@needs_posix
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_with_its_code_and_keeps_what_there_is(
    number: signal.Signals, tmp_path: Path
) -> None:
    finished = ds.solve("simple", dt=0.1, out=tmp_path / "run.npy")
    words = [*SOLVE[:-1], "1e-6", "--out", "run.npy"]
    partial = tmp_path / "run.partial.npy"
    with subprocess.Popen(command(*words), cwd=tmp_path, stderr=subprocess.PIPE, text=True) as child:
        limit = time.monotonic() + 300.0
        while not partial.exists() and time.monotonic() < limit:
            time.sleep(0.01)
        child.send_signal(number)
        _, said = child.communicate(timeout=300)
    assert child.returncode == 128 + number
    assert said.startswith("dae-sdc: ") and said.count("\n") == 1
    assert np.array_equal(ds.Solution.load(tmp_path / "run.npy").u, finished.u)
    assert ds.Solution.load(partial).message.startswith("ended by")
    assert not any(name.startswith(".") for name in names(tmp_path))


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_within_an_archive_ends_the_run_without_another_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, dropped = zipfile.ZipFile.open, list[Any]()

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        member = original(*args, **kwargs)
        signal.raise_signal(signal.SIGINT)
        return member

    monkeypatch.setattr(zipfile.ZipFile, "open", interrupted)
    monkeypatch.setattr(sys, "unraisablehook", dropped.append)
    settings: dict[str, Any] = {"sweeper": "semi-implicit", "nodes": 2, "dt": 0.01, "every": 40}
    with pytest.raises(KeyboardInterrupt):
        ds.solve("simple", checkpoint=tmp_path / "state.npz", **settings)
    gc.collect()
    assert not dropped
    monkeypatch.undo()
    assert ds.solve("simple", checkpoint=tmp_path / "state.npz", resume=True, **settings).success


# --- memory -------------------------------------------------------------------------------------------------


def memory_of(steps: int, **settings: Any) -> tuple[int, ds.Solution]:
    """Bytes that were asked for at most, above those before the run."""
    settings |= {"sweeper": "semi-implicit", "nodes": 1, "dense": False}
    ds.solve("simple", dt=0.1, **settings)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        solution = ds.solve("simple", dt=1.0 / steps, **settings)
        return tracemalloc.get_traced_memory()[1] - before, solution
    finally:
        tracemalloc.stop()


def test_a_run_keeps_210_bytes_a_step_besides_its_solution() -> None:
    few, _ = memory_of(1000)  # more than are taken at once
    many, solution = memory_of(3000)
    own = sum(values.nbytes for values in (solution.t, solution.u, solution.du)) // 3001
    assert len(solution.t) == 3001 and not solution.log
    assert (many - few) / 2000 - own < 210


def test_with_output_times_a_run_keeps_nothing_of_its_steps() -> None:
    few, _ = memory_of(20_000, t_eval=[0.5, 1.0])  # more than fill the memory of steps that are taken at once
    many, solution = memory_of(40_000, t_eval=[0.5, 1.0])
    assert solution.stats["steps"] == 40_000 and len(solution.t) == 2
    assert (many - few) / 20_000 < 20


@pytest.mark.parametrize("sweeper", ["edirk4", "semi-implicit", "bdf3"])
def test_output_times_have_the_same_digits_where_steps_are_forgotten(sweeper: str) -> None:
    given: dict[str, Any] = {
        "dt": 1e-3,
        "t_end": 0.6,
        "t_eval": np.linspace(0.0, 0.6, 119),
        "sweeper": sweeper,
    }
    kept, forgotten = (ds.solve("pendulum", dense=dense, **given) for dense in (True, False))
    assert forgotten.stats == kept.stats and forgotten.stats["steps"] == 600
    for name in ("t", "u", "du"):
        assert np.array_equal(getattr(kept, name), getattr(forgotten, name))
    for name, values in kept.per_step.items():
        assert np.array_equal(values, forgotten.per_step[name])


def test_runs_in_a_loop_do_not_grow() -> None:
    def run() -> None:
        ds.solve("simple", dt=0.02, sweeper="semi-implicit", nodes=2)

    for _ in range(3):
        run()
    tracemalloc.start()
    try:
        run()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(10):
            run()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 50_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dense", [True, False])
def test_a_run_that_reaches_no_time_asked_for_leaves_its_start(dense: bool, tmp_path: Path) -> None:
    out = tmp_path / "stopped.npy"
    run = ds.solve("simple", rtol=1e-9, t_eval=[0.5, 0.9], time_limit=1e-9, dense=dense, out=out)
    assert not run.success and "time limit" in run.message
    assert run.t.tolist() == [0.0] and np.array_equal(run.u[0], ds.SimpleDAE().u_exact(0.0))
    assert all(len(values) == 1 for values in run.per_step.values())
    assert "t = 0 to 0" in str(run) and "0" in repr(run)
    assert ds.load(tmp_path / "stopped.partial.npy").data["t"].tolist() == [0.0]


# --- a disk that is full ------------------------------------------------------------------------------------

LIMITED = """
import resource, warnings
import dae_sdc as ds
from dae_sdc.control import hooks
from dae_sdc.run import execution

ds.solve("simple", dt=0.1, t_end=0.2)  # what it compiles is kept
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as told:
    run = ds.solve("simple", dt=0.001, t_end=0.2, out="run.npy", checkpoint="run.npz", every=50)
    start = ds.initial("pendulum", fixed={"x": 0.6}, out="start.npy")
    study = ds.convergence("simple", sweeper="radau-iia-5", dt=[0.1, 0.05], t_end=0.2, out="study.npy")
    sweep = ds.sweep("simple", {"alpha": [5.0, 6.0]}, rtol=1e-4, t_end=0.2, out="sweep.npy")
    linear = ds.linearize("pendulum", at={"x": 0.0, "y": -1.0}, out="linear.npy")
print(run.success, len(run.t), abs(start.values["y"]), len(study.data), sweep.success.all(), linear.index)
print(run.message)
for warning in told:
    print(warning.category.__name__, warning.message)
"""


@pytest.mark.skipif(os.name != "posix", reason="sizes of files are limited by POSIX")
def test_what_was_computed_comes_back_from_a_full_disk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-c", LIMITED], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    numbers, message, *told = done.stdout.splitlines()
    assert numbers == "True 201 0.8 4 True 3", done.stderr
    assert message.startswith("cannot write run.npy: ")
    assert message.endswith("; free space or choose another place")
    for name in ("run.npy", "run.npz", "start.npy", "study.npy", "sweep.npy", "linear.npy"):
        assert any(line.startswith(f"DAEWarning cannot write {name}: ") for line in told), name
    assert any("the run goes on without this checkpoint" in line for line in told)
    assert not [path for path in tmp_path.iterdir() if path.stat().st_size > 600 or "tmp" in path.name]


@pytest.mark.skipif(os.name != "posix", reason="sizes of files are limited by POSIX")
def test_a_disk_that_is_full_at_any_byte_of_a_table_leaves_no_part_of_it(tmp_path: Path) -> None:
    import resource

    study = ds.convergence("simple", sweeper="radau-iia-5", dt=[0.1, 0.05], t_end=0.2)
    study.save(tmp_path / "whole.npy")
    whole, most = (tmp_path / "whole.npy").read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in range(0, len(whole), 16):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, most[1]))
        try:
            with pytest.raises(ds.InputError, match=r"cannot write .*whole\.npy: "):
                study.save(tmp_path / "whole.npy")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, most)
        assert (tmp_path / "whole.npy").read_bytes() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["whole.json", "whole.npy"]


@pytest.mark.skipif(os.name != "posix", reason="sizes of files are limited by POSIX")
@pytest.mark.parametrize(
    "words",
    [
        "solve simple --dt 0.001 --t-end 0.2 --out run.npy",
        "initial pendulum --fixed x=0.6 --out start.npy",
        "sweep simple --param alpha=5,6 --rtol 1e-3 --t-end 0.2 --out sweep.npy",
    ],
)
def test_a_verb_shows_its_values_and_fails_where_the_disk_is_full(words: str, tmp_path: Path) -> None:
    text = "import resource, sys; from dae_sdc.cli import main; "
    text += "resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600)); sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-B", "-c", text, *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert len(done.stdout.splitlines()) > 3
    assert "written to" not in done.stdout
    assert f"cannot write {words.split()[-1]}: " in done.stderr
