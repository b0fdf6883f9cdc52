"""The study of faults: it sees each kind of fault that is planted, and a handful of cases is clean."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from obedient import obey

import dae_sdc as ds
from benchmarks.__main__ import main as benchmark
from benchmarks.measuring.runs import carry_out
from benchmarks.studies.faults import cases, study
from benchmarks.studies.faults.cases import DONE, HANG, LINES, LOST, NONSENSE, RAW, TOLD, TORN
from benchmarks.studies.faults.kinds import commands, functions, kills
from dae_sdc import cli
from dae_sdc.errors import InputError


def of_the_package(text: str) -> Callable[[], Any]:
    """A statement that stands, as far as a trace tells, in a file of the package."""
    code = compile(text, str(cases.PACKAGE / "dae_sdc" / "planted.py"), "exec")
    return lambda: exec(code, {"InputError": InputError})


def solution(success: bool, value: float, message: str) -> Any:
    found = ds.Solution.__new__(ds.Solution)
    for name, given in {"success": success, "u": np.array([[value]]), "message": message}.items():
        object.__setattr__(found, name, given)
    return found


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("pass", DONE),
        ("raise InputError('dt must be a number; got nan')", TOLD),
        ("raise KeyError('k')", RAW),
        ("raise SystemExit(0)", RAW),
        ("raise InputError('could not be broadcast together')", RAW),
        ("raise InputError('eval_f raised ValueError: could not be broadcast') from ValueError()", TOLD),
        ("raise InputError('  ')", LINES),
    ],
)
def test_an_exception_that_is_none_of_the_package_is_seen(text: str, outcome: str) -> None:
    assert cases.called(of_the_package(text)).outcome == outcome


def test_nonsense_that_is_accepted_is_seen() -> None:
    assert cases.called(lambda: None, nonsense="dt = nan").outcome == NONSENSE
    assert cases.called(lambda: solution(True, float("nan"), "")).outcome == NONSENSE
    assert cases.called(lambda: solution(False, float("nan"), "the iterations diverged")).outcome == TOLD
    assert cases.called(lambda: solution(False, 1.0, "")).outcome == LINES


@pytest.mark.parametrize(
    ("code", "said", "outcome"),
    [
        (0, "dae-sdc: warning: a b\n", DONE),
        (2, "dae-sdc: warning: a b\ndae-sdc: unknown problem 'x'\n", TOLD),
        (141, "", TOLD),
        (2, "", LINES),
        (2, "dae-sdc: unknown problem\nuse another\n", LINES),
        (1, "dae-sdc: KeyError: 'k'; this is a defect in dae_sdc or in the problem\n", RAW),
        (1, 'Traceback (most recent call last):\n  File "x"\nKeyError\n', RAW),
        (-11, "", RAW),
    ],
)
def test_what_a_command_says_is_judged(code: int, said: str, outcome: str) -> None:
    assert cases.command_ended(code, said).outcome == outcome


def test_a_command_that_says_several_lines_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def main(line: list[str]) -> int:
        print("dae-sdc: one\nanother", file=sys.stderr)
        return 2

    assert commands.in_this_process(["solve", "simpel"]).outcome == TOLD
    assert commands.in_this_process(["solve", "--dt", "nan"], "--dt 'nan'").outcome == TOLD
    monkeypatch.setattr(cli, "main", main)
    assert commands.in_this_process(["solve", "simpel"]).outcome == LINES


def test_a_hang_is_seen_in_this_process_and_in_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = dict(carry_out(obey, ["a:0:work", "a:0:die"], 1, 1.0))
    assert study.named("function:0", ended["a:0:work"]).outcome == HANG
    assert study.named("function:0", ended["a:0:die"]).outcome == RAW
    monkeypatch.setattr(cases, "PROCESS_LIMIT", 1)
    for does in ("while 1: 0", "time.sleep(60)"):
        assert cases.process([sys.executable, "-c", f"import time\n{does}"]) is None


def test_results_that_are_torn_lost_or_left_over_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ds.solve("simple", dt=0.1).save("run.npy")
    assert not kills.torn(tmp_path) and kills.finished(tmp_path)
    content = Path("run.npy").read_bytes()
    Path("run.npy").write_bytes(content[:-40])
    assert "run.npy" in kills.torn(tmp_path) and not kills.finished(tmp_path)
    Path("run.npy").unlink()
    assert "run.dense.npz" in kills.torn(tmp_path)
    Path("run.dense.npz").unlink()
    assert "run.json" in kills.torn(tmp_path)
    Path("run.npy").write_bytes(content)
    Path(".run.npy.0123456789ab.tmp").write_bytes(b"half")
    assert not kills.torn(tmp_path) and kills.left(tmp_path) == [".run.npy.0123456789ab.tmp"]


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(
    ("does", "outcome"),
    [
        ("Path('run.npy').unlink(), Path('run.json').unlink()", LOST),
        ("Path('run.npy').write_bytes(b'half')", TORN),
        ("Path('.run.partial.npy.0123456789ab.tmp').write_bytes(b'')", TORN),
    ],
)
def test_a_killed_run_that_spoils_its_result_is_seen(
    does: str, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whole").mkdir()
    ds.solve("simple", dt=0.1, out=tmp_path / "whole" / "run.npy")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    short = "import shutil; [shutil.copy(f'../whole/run.{kind}', '.') for kind in ('npy', 'json')]"
    long = f"import time; from pathlib import Path; {does}; Path('partial').mkdir(); time.sleep(60)"
    monkeypatch.setattr(cases, "words", lambda *line: [sys.executable, "-c", " ".join(line)])
    found = kills.judged(long, short, kills.Kill(9, first=True, delay=0.0, before=True))
    assert found.outcome == outcome, found.message


def test_a_line_repeats_its_case_and_other_numbers_make_others() -> None:
    for name in cases.KINDS:
        texts = [cases.case_of(f"{name}:{number}").text for number in (3, 3, 4, 5, 6)]
        assert texts[0] == texts[1] and len(set(texts)) > 2
    lines = study.planned(1, 10_000, list(cases.KINDS))
    assert len(set(lines)) == 10_000 and lines == study.planned(1, 10_000, list(cases.KINDS))
    assert not set(lines) & set(study.planned(2, 1000, list(cases.KINDS)))
    counts = {name: sum(line.startswith(f"{name}:") for line in lines) for name in cases.KINDS}
    assert counts["kill"] == counts["surroundings"] == 100 and sum(counts.values()) > 9000


def test_what_the_kinds_name_exists() -> None:
    functions_named = {*functions.QUICK, *functions.MUST_STAY}
    assert functions_named <= set(functions.functions())
    given = {(name, key) for name, several in functions.QUICK.items() for case in several for key in case}
    assert not {(name, key) for name, key in given if key not in functions.parameters(name)}
    verbs = {line.split()[0] for line in commands.BASES if not line.startswith("-")} - {"nonsense"}
    assert verbs | set(commands.LONG) <= set(cli.find_verbs())


@pytest.mark.parametrize("name", ["function", "command", "file", "model", "problem"])
def test_a_handful_of_cases_is_clean(name: str) -> None:
    found = {f"{name}:{number}": cases.repeat(f"{name}:{number}") for number in range(100, 106)}
    assert not {line: one.message for line, one in found.items() if one.outcome not in (DONE, TOLD)}


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_the_study_counts_saves_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "faults.npy"
    only = ["--only", "surroundings:0", "--only", "function:1", "--workers", "0"]
    assert benchmark(["faults", *only, "--out", str(out)]) == 0
    assert "0 bad" in capsys.readouterr().out
    data = ds.load(out).data
    assert data["line"].tolist() == ["function:1", "surroundings:0"] and (data["outcome"] != "").all()
