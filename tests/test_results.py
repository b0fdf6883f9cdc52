"""Result files: what is saved comes back, half files never appear, and damage is told in one line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.files import replacing
from dae_sdc.run import results
from dae_sdc.run.results import Result, command_line, load, provenance


def make(rows: int = 5, **changes: Any) -> Result:
    data = np.zeros(rows, dtype=[("problem", "U32"), ("dt", "f8"), ("u", "f8", (3,)), ("sweeps", "i8")])
    data["problem"] = "pendulum"
    data["dt"] = 0.1 / 2.0 ** np.arange(rows)
    data["u"] = np.arange(3 * rows).reshape(rows, 3)
    given: dict[str, Any] = {
        "kind": "bench",
        "data": data,
        "units": {"dt": "s"},
        "parameters": {"names": ["x", "λ"], "nodes": 3, "tol": 1e-10},
        "command": "dae-sdc solve 'a b'",
    }
    return Result(**{**given, **changes})


def one_line(error: pytest.ExceptionInfo[BaseException], *words: str) -> None:
    message = str(error.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_round_trip_keeps_everything(tmp_path: Path) -> None:
    result = make()
    path = result.save(tmp_path / "run")
    back = load(path)
    assert path == tmp_path / "run.npy"
    assert back.data.dtype == result.data.dtype
    assert np.array_equal(back.data, result.data)
    assert (back.kind, back.units, back.parameters) == (result.kind, result.units, result.parameters)
    assert (back.command, back.info) == (result.command, result.info)


def test_numpy_alone_reads_the_data_and_json_alone_the_sidecar(tmp_path: Path) -> None:
    make().save(tmp_path / "run.npy")
    assert np.load(tmp_path / "run.npy", allow_pickle=False)["dt"][0] == 0.1
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["parameters"]["names"] == [
        "x",
        "λ",
    ]


@pytest.mark.parametrize(
    ("given", "written"), [("a", "a.npy"), ("a.npy", "a.npy"), ("run.0.1", "run.0.1.npy")]
)
def test_npy_is_added_when_missing_and_load_adds_it_too(tmp_path: Path, given: str, written: str) -> None:
    assert make().save(tmp_path / given).name == written
    assert len(load(tmp_path / given).data) == 5
    assert len(list(tmp_path.iterdir())) == 2


def test_parameters_of_numpy_and_paths_and_infinities_become_plain(tmp_path: Path) -> None:
    parameters = {
        "nodes": np.int64(3),
        "dts": np.array([0.1, 0.05]),
        "out": Path("a") / "b",
        "nested": {"values": (1, None, True)},
        "order": float("nan"),
        "limit": np.float64("-inf"),
    }
    back = load(make(parameters=parameters).save(tmp_path / "run")).parameters
    assert back["nodes"] == 3
    assert back["dts"] == [0.1, 0.05]
    assert back["out"] == str(Path("a") / "b")
    assert back["nested"] == {"values": [1, None, True]}
    assert np.isnan(float(back["order"]))
    assert float(back["limit"]) == -np.inf


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"problem": {"solver": object()}}, ("parameters['problem']['solver']", "object")),
        ({"list": [1, {2, 3}]}, ("parameters['list'][1]", "set")),
        ({"z": 1j}, ("parameters['z']", "complex")),
        ({3: "x"}, ("parameters", "key 3", "str(3)")),
    ],
)
def test_what_json_cannot_hold_is_named(
    tmp_path: Path, parameters: dict[Any, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(InputError) as error:
        make(parameters=parameters).save(tmp_path / "run")
    one_line(error, *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "data", [np.zeros(3), np.zeros((2, 2), dtype=[("a", "f8")]), [1.0], np.zeros(2, dtype=[("a", "O")])]
)
def test_data_that_is_no_table_is_refused(data: Any) -> None:
    with pytest.raises(InputError) as error:
        make(data=data)
    one_line(error, "got")


def test_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        make().save(tmp_path / "nowhere" / "run.npy")
    one_line(error, "run.npy", str(tmp_path / "nowhere"), "does not exist", "make it")


@pytest.mark.parametrize("name", ["run.txt", "run.NPZ", "run.h5"])
def test_endings_of_other_forms_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"{name}: the file is .npy; choose that, or .csv for text"):
        make(rows=3).save(tmp_path / name)
    assert not list(tmp_path.iterdir())
    assert make(rows=3).save(tmp_path / "run.v2").name == "run.v2.npy"


def test_names_that_cannot_be_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "run.npy").mkdir()
    with pytest.raises(InputError) as error:
        make().save(tmp_path / "run")
    one_line(error, "run.npy", "is a directory", "choose another")
    with pytest.raises(InputError) as error:
        make().save("")
    one_line(error, "names no file")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a directory that refuses writing")
def test_directory_without_permission_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(InputError) as error:
            make().save(tmp_path / "run")
    finally:
        tmp_path.chmod(0o700)
    one_line(error, "cannot write", "Permission denied")


def test_files_get_the_permissions_of_ordinary_files(tmp_path: Path) -> None:
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    assert make().save(tmp_path / "run").stat().st_mode == ordinary.stat().st_mode


def fail(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(("module", "name"), [(os, "replace"), (os, "fsync"), (np, "save")])
def test_failed_write_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    monkeypatch.setattr(module, name, fail)
    with pytest.raises(InputError) as error:
        make().save(tmp_path / "run")
    one_line(error, "cannot write", "run.npy", "No space left on device")
    assert not list(tmp_path.iterdir())


def test_failed_write_keeps_the_old_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(rows=2).save(tmp_path / "run")
    monkeypatch.setattr(np, "save", fail)
    with pytest.raises(InputError):
        make(rows=7).save(path)
    assert len(load(path).data) == 2
    assert len(list(tmp_path.iterdir())) == 2


def test_interrupt_while_writing_leaves_no_temporary_file(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "a", tmp_path / "b"):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_killed_between_the_renames_leaves_data_with_its_own_sidecar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(rows=2, parameters={"save": 0}).save(tmp_path / "run")
    seen: list[tuple[int, int]] = []
    replace = os.replace

    def watch(source: Any, target: Any) -> None:
        replace(source, target)
        found = load(path)
        seen.append((len(found.data), found.parameters["save"]))

    monkeypatch.setattr(os, "replace", watch)
    make(rows=2, parameters={"save": 1}).save(path)
    make(rows=3, parameters={"save": 2}).save(path)
    # After each renaming: a table as it was until its own file is renamed, with its own parameters. The first
    # two tables are equal, so that the newer sidecar describes both.
    assert seen == [(2, 1), (2, 1), (2, 1), (3, 2)]


WRITER = """
import itertools, sys
import numpy as np
from dae_sdc.run.results import Result
print("ready", flush=True)
for turn in itertools.count():
    rows = 1 + 5000 * (turn % 7)
    data = np.full(rows, turn, dtype=[("turn", "i8"), ("u", "f8", (4,))])
    Result("bench", data, {}, {"turn": turn}, info={}).save(sys.argv[1] + "/run" + str(turn % 3))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_writer_leaves_only_whole_results(tmp_path: Path) -> None:
    found = 0
    for turn in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, env=environment()
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.05 + 0.0219 * turn)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        for path in tmp_path.glob("*.npy"):
            result = load(path)
            assert set(result.data["turn"]) == {result.parameters["turn"]}
            found += 1
        assert all(path.name.startswith(".") for path in tmp_path.iterdir() if path.suffix == ".tmp")
        assert {path.suffix for path in tmp_path.iterdir()} <= {".npy", ".json", ".tmp"}
    assert found


def environment() -> dict[str, str]:
    root = str(Path(results.__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-17])


def truncate_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def garble_header(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"'descr'", b"'des\xffr'"))


def pickled(path: Path) -> None:
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)


DAMAGE: list[tuple[Callable[[Path], object], tuple[str, ...]]] = [
    (lambda path: path.unlink(), ("no file", "run.npy", "check the name")),
    (lambda path: path.write_text("t,u\n0,1\n"), ("run.npy", "not a .npy file", "give")),
    (lambda path: path.write_bytes(b""), ("run.npy", "not a .npy file")),
    (truncate, ("run.npy", "damaged", "run the study again")),
    (truncate_header, ("run.npy", "damaged")),
    (garble_header, ("run.npy", "damaged")),
    (pickled, ("run.npy", "damaged or holds objects")),
    (lambda path: np.save(path, np.zeros((2, 3))), ("run.npy", "plain array", "named columns")),
    (lambda path: path.with_suffix(".json").unlink(), ("run.npy", "no run.json beside it", "keep both")),
    (lambda path: path.with_suffix(".json").write_text("{"), ("run.json", "not readable JSON")),
    (lambda path: path.with_suffix(".json").write_bytes(b"\xff\xfe"), ("run.json", "not readable JSON")),
    (lambda path: path.with_suffix(".json").write_text('{"a": 1}'), ("run.json", "not written by dae_sdc")),
    (lambda path: path.with_suffix(".json").write_text("[1]"), ("run.json", "not written by dae_sdc")),
    (lambda path: edit(path, version=2), ("run.json", "version 2", "use the dae_sdc that wrote it")),
    (lambda path: edit(path, units=None, kind=3), ("run.json", "lacks kind, units")),
    (lambda path: edit(path, rows=99), ("run.json", "describes other data", "run.npy")),
    (lambda path: np.save(path, make(rows=3).data), ("run.json", "describes other data")),
]


def edit(path: Path, **changes: Any) -> None:
    sidecar = path.with_suffix(".json")
    sidecar.write_text(json.dumps({**json.loads(sidecar.read_text(encoding="utf-8")), **changes}))


@pytest.mark.parametrize(("damage", "words"), DAMAGE, ids=[" ".join(words)[:40] for _, words in DAMAGE])
def test_damage_is_told_in_one_line(
    tmp_path: Path, damage: Callable[[Path], object], words: tuple[str, ...]
) -> None:
    path = make().save(tmp_path / "run")
    damage(path)
    with pytest.raises(ResultFileError) as error:
        load(path)
    one_line(error, *words)


def test_directory_instead_of_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "run.npy").mkdir()
    for path in (tmp_path, tmp_path / "run.npy", Path()):
        with pytest.raises(ResultFileError) as error:
            load(path)
        one_line(error, "npy")


def test_a_sidecar_given_as_the_result_is_told(tmp_path: Path) -> None:
    make().save(tmp_path / "run")
    with pytest.raises(ResultFileError, match=r"not a \.npy file"):
        load(tmp_path / "run.json")


def test_pair_can_be_moved_together(tmp_path: Path) -> None:
    path = make().save(tmp_path / "run")
    (tmp_path / "there").mkdir()
    for suffix in (".npy", ".json"):
        shutil.move(path.with_suffix(suffix), tmp_path / "there" / f"run{suffix}")
    assert len(load(tmp_path / "there" / "run.npy").data) == 5


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["/usr/bin/dae-sdc", "solve", "a b", "--out=x.npy"], "dae-sdc solve 'a b' --out=x.npy"),
        (["/lib/dae_sdc/cli.py", "list"], "dae-sdc list"),
        (["/lib/dae_sdc/__main__.py", "list"], "dae-sdc list"),
        (["/home/me/study.py", "7"], "study.py 7"),
        (["-c"], "python"),
        ([""], "python"),
        ([], "python"),
    ],
)
def test_command_line_is_what_one_types(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], command: str
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    assert command_line() == command


def test_undecodable_arguments_can_be_saved(tmp_path: Path) -> None:
    assert load(make(command="dae-sdc \udcff").save(tmp_path / "run")).command == "dae-sdc \udcff"


def test_provenance_knows_versions_and_machine_without_loading_mpi() -> None:
    code = (
        "import sys; from dae_sdc.run.results import provenance; before = set(sys.modules); "
        "info = provenance(); new = set(sys.modules) - before; "
        "assert not any(name.startswith('mpi4py') for name in new), new; "
        "assert (info['mpi'] is None) == ('mpi4py.MPI' not in sys.modules); "
        "assert all(info[name] for name in ('numpy', 'scipy', 'pySDC', 'machine', 'system', 'made'))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


def test_provenance_names_the_mpi_library_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(
        Get_library_version=lambda: "MPICH Version:      4.3.1\nMPICH Release date: x\n\0"
    )
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", library)
    assert provenance()["mpi"] == "MPICH Version:      4.3.1"


def test_data_that_are_not_those_of_the_sidecar_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "orders.npy"
    ds.convergence("simple", sweeper="backward-euler", dt=[0.1, 0.05], out=path)
    data = np.load(path)
    data["error"][0] *= 2.0
    np.save(path, data)
    with pytest.raises(ResultFileError, match="describes other data than"):
        load(path)
