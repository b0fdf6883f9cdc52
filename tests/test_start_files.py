"""From a start to a run by way of files, and progress bars of what takes long."""

from __future__ import annotations

import argparse
import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from tqdm import tqdm

import dae_sdc as ds
from dae_sdc.cli import find_verbs, main
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.sharing import TimeBar

FUNCTION = """
def swing(t, u, du):
    x, y, vx, vy, tension = u
    return [du[0] - vx, du[1] - vy, du[2] + tension * x, du[3] + tension * y + 9.81, x * x + y * y - 1.0]
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_initial_writes_is_where_solve_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("initial pendulum --fixed x=0.6 --guesses y=0.5 --t0 0.5 --out start".split()) == 0
    assert "written to start.npy" in capsys.readouterr().out
    data = np.load("start.npy", allow_pickle=False)
    found = ds.initial("pendulum", fixed={"x": 0.6}, guesses={"y": 0.5}, t0=0.5)
    assert data["name"].tolist() == list(found.names) and data["value"].tolist() == found.u.tolist()
    assert np.array_equal(data["rate"], found.du, equal_nan=True) and data["unit"][0] == "m"
    assert ds.load("start.npy").parameters["t"] == 0.5
    assert main("solve pendulum --u0 start.npy --rtol 1e-6 --t-end 0.6 --out run.npy".split()) == 0
    run, same = ds.Solution.load("run.npy"), ds.solve("pendulum", u0=found, rtol=1e-6, t_end=0.6)
    assert run.t[0] == 0.5 and run.values("x")[0] == 0.6 and run.values("y")[0] == pytest.approx(0.8)
    assert np.array_equal(run.u, same.u)


def test_the_end_of_a_run_and_a_text_are_starts_too() -> None:
    whole = ds.solve("pendulum", sweeper="radau-iia-5", dt=0.05, t_end=0.4)
    ds.solve("pendulum", sweeper="radau-iia-5", dt=0.05, t_end=0.2, out="half.npy")
    rest = ds.solve("pendulum", u0=Path("half.npy"), sweeper="radau-iia-5", dt=0.05, t_end=0.4)
    assert rest.t[0] == 0.2 and "start values made consistent" in rest.message
    exact = ds.solve("pendulum", rtol=1e-10, t_end=0.4).u[-1]
    assert abs(rest.u[-1] - exact).max() <= 2.0 * abs(whole.u[-1] - exact).max()
    Path("my.py").write_text(FUNCTION)
    assert main("initial my.py:swing --guesses x=0.6 --guesses y=-0.8 --guesses vx=0 --guesses vy=0 "
                "--guesses tension=0 --out s.npy".split()) == 0  # fmt: skip
    assert main("solve my.py:swing --u0 s.npy --rtol 1e-5 --t-end 0.1".split()) == 0
    assert (
        main("solve my.py:swing --u0 x=0.6,y=-0.8,vx=0,vy=0,tension=7.848 --rtol 1e-5 --t-end 0.1".split())
        == 0
    )


def test_what_is_no_start_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    ds.convergence("hessenberg-1", nodes=1, dt=[0.5, 0.25], out="c.npy")
    ds.initial("pendulum", out="s.npy")
    with pytest.raises(
        InputError, match=r"c\.npy holds a convergence; give a file that initial or solve wrote"
    ):
        ds.solve("pendulum", u0="c.npy")
    with pytest.raises(InputError, match="u0 is a start at t=0, but t0 is 1; leave t0 out"):
        ds.solve("pendulum", u0="s.npy", t0=1.0)
    with pytest.raises(ResultFileError, match="no file nowhere"):
        ds.solve("pendulum", u0="nowhere")
    assert main("solve pendulum --u0 x=a".split()) == 2
    assert "NAME=VALUE" in capsys.readouterr().err
    about = json.loads(Path("s.json").read_text())
    Path("s.json").write_text(json.dumps({**about, "parameters": {}}))
    with pytest.raises(ResultFileError, match="lacks what a start tells"):
        ds.solve("pendulum", u0="s.npy")
    with pytest.raises(InputError, match="does not exist"):
        ds.initial("pendulum", out="nowhere/s.npy")


LONG = {
    "solve": "simple --rtol 1e-6 --t-end 0.3",
    "sweep": "simple --params alpha=1,2 --sweeper radau-iia-5 --dt 0.1 --t-end 0.2",
    "convergence": "hessenberg-1 --nodes 1 --dt 0.5,0.25",
    "iterations": "hessenberg-1 --sweeper semi-implicit --nodes 2 --maxiter 2 --dt 0.5",
    "drift": "rigid-pendulum --case projected-dopri5 --t-end 0.1",
    "pendulum-study": "--sweeper bdf2 --k 100",
    "playground": "fully-implicit --t-end 0.2",
    "initial": "slider-crank-4 --all-solutions --fixed crank=0.7853981633974483",
    "steady": "pendulum --guess x=0.1 --guess y=-1 --vary g=5:10",
    "structure": "pendulum,pendulum",
    "reduce": "pendulum,pendulum",
    "simplify": "pendulum,pendulum",
}


@pytest.mark.parametrize("verb", LONG)
def test_progress_is_shown_when_asked_and_not_into_a_pipe(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [verb, *LONG[verb].split()]
    assert main(command) == 0
    plain = capsys.readouterr()
    assert plain.err == ""
    assert main([*command, "--progress"]) == 0
    shown = capsys.readouterr()
    assert "%|" in shown.err and "<" in shown.err
    assert len(shown.out.splitlines()) == len(plain.out.splitlines())


@pytest.mark.parametrize("more", [["--dt", "0.01"], ["--rtol", "1e-6"]])
def test_unknowns_are_seen_while_a_run_goes(
    more: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dae_sdc.sharing.tqdm", functools.partial(tqdm, mininterval=0.0))  # at each step
    command = ["solve", "simple", *more, "--watch", "u1,z*", "--progress"]
    assert main(command) == 0
    lines = capsys.readouterr().err.replace("\r", "\n").splitlines()
    told = [dict(re.findall(r"([\w\[\]]+)=([-+.\de]+)", line)) for line in lines if "dt=" in line]
    assert told and all(values.keys() == {"t", "dt", "u1", "z"} for values in told)
    for values in told:  # u1 = exp(t), to the digits that are shown
        assert float(values["u1"]) == pytest.approx(np.exp(float(values["t"])), rel=2e-3)
    assert main(["solve", "simple", "--watch", "nobody"]) == 2
    assert "unknown name 'nobody'; available: u1, u2, z" in capsys.readouterr().err


def test_a_bar_counts_the_steps_of_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[tuple[float, int]] = []
    monkeypatch.setattr(TimeBar, "reach", lambda self, time, steps, u: ends.append((time, steps)))
    solution = ds.solve("simple", dt=0.01, progress=True)
    assert sum(steps for _, steps in ends) == len(solution.t) - 1 == 100
    assert ends[-1][0] == solution.t[-1]


def test_a_start_is_told_in_order_in_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "decay.py").write_text("def decay(t, u, du):\n    return [du[0] + u[0], u[1] - 2.0 * u[0]]\n")
    target = f"{tmp_path}/decay.py:decay"
    assert main(["solve", target, "--u0", "2,4", "--t-end", "1", "--rtol", "1e-9"]) == 0
    value = re.search(r"u\[0\] +(\S+)", capsys.readouterr().out)
    assert value and float(value[1]) == pytest.approx(2.0 * np.exp(-1.0), rel=1e-8)
    assert main(["solve", target, "--u0", "2,4,6", "--t-end", "1"]) == 2
    assert "decay must return 3 values, one an equation; got shape (2,)" in capsys.readouterr().err


def test_every_verb_that_computes_can_show_progress() -> None:
    import importlib

    shows = set()
    for name, verb in find_verbs().items():
        parser = argparse.ArgumentParser()
        importlib.import_module(verb.module).add_arguments(parser)
        if "--progress" in parser.format_help():
            shows.add(name)
    assert shows == {*LONG, "accuracy"} and set(find_verbs()) - shows <= {"info", "linearize", "list", "plot"}
