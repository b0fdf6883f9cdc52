"""Every study that is registered: it explains itself, refuses, measures, prints, saves and draws.

No measured time is asserted.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from benchmarks.__main__ import main
from benchmarks.measuring import ida, processes
from benchmarks.measuring.runs import BAD, DONE, WRONG
from benchmarks.measuring.scores import scd
from benchmarks.measuring.steps import STEPS
from benchmarks.studies.profile import CALLS, LEFT, PARTS, STEP
from benchmarks.studies.starts.generated import Chain, Given, judged
from benchmarks.study import OPTIONS, STUDIES
from dae_sdc.cli import Parser
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.imports import function_at
from dae_sdc.plotting import plot
from dae_sdc.plotting.plot import PICTURES
from dae_sdc.run.results import Result, combinations_of, load
from dae_sdc.run.target import make_problem

# Options of runs that show more than the examples of the studies, or take less time
RUNS = {
    "auto": "--problems simple,problematic-f --repetitions 1 --quick --time-limit 60",
    "faults": "--kind function,model --cases 4 --workers 0",
    "many": "--runs 6 --quick",
    "models": "--problems reissig,op-amp-cascade-10",
    "peers": "--problems simple,chemical-akzo-nobel --rtols 1e-4,1e-6 --sweeper semi-implicit,rattle "
    "--peer ida,scipy-radau5,casadi-idas --repetitions 1",
    "plain": "--problems amplifier --rtols 1e-4 --accuracies 1e-3 --repetitions 1",
    "polynomials": "--problems katsura-5,equal-bars --repetitions 2",
    "profile": "--problems simple,transmission-line --sizes 40 --repetitions 2",
    "quasi-newton": "--ribs 2,5 --contacts 20 --repetitions 1 --problems chemical-akzo-nobel",
    "starts": "--kind generated --quick --count 3 --workers 0",
    "size": "--sizes 10,20 --linear-solver auto --accuracies 1e-4 --repetitions 1",
    "testset": "--problems pendulum-cash,chemical-akzo-nobel --rtols 1e-3,1e-6",
    "traced": "--problems simple,rigid-pendulum --repetitions 1 --time-limit 600",
    "truth": "--family ordinary --kind structure --seeds 1",
    "upstream": "--problems discontinuous --repetitions 1 --adapted",
    "work": "--problems problematic-f,transmission-line --sizes 20 --qdelta LU --repetitions 1 "
    "--sweeper semi-implicit,fully-implicit",
}
LEFT_OUT = {
    **{"auto": ["problematic-f: "], "work": ["problematic-f, semi-implicit"]},
    "peers": ["simple, rattle: ", "chemical-akzo-nobel, rattle: "],
    "plain": ["amplifier, scipy-radau: the matrix of du is singular"],
}
ELSEWHERE = ("start", "scaling")  # Carried out in test_measuring.py and test_scaling.py

Rows = Any


@pytest.mark.parametrize("name", [name for name in STUDIES if name not in ELSEWHERE])
def test_a_study_is_carried_out_printed_saved_and_drawn(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "parallel" and importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py")
    study, out, picture = STUDIES[name], tmp_path / "study.npy", tmp_path / "study.png"
    assert main([name, *RUNS.get(name, study.example).split(), "--out", str(out)]) == 0
    result = load(out)
    about, printed = result.parameters, capsys.readouterr().out
    assert printed == f"{study.report(result)}\nwritten to {out}\n"
    assert len(result.data) and result.data.dtype == np.dtype(study.columns)
    assert result.kind == "bench" and about["study"] == name and about["complete"]
    left_out = about.get("left_out", [])
    for said, expected in zip(left_out, LEFT_OUT.get(name, []), strict=True):
        assert said.startswith(expected) and f"left out: {said}" in printed
    if shows := globals().get(f"shows_{name.replace('-', '_')}"):
        shows(result.data, about, printed)
    if study.picture is not None:
        assert main(["plot", name, str(out), "-o", str(picture)]) == 0
        pictures = list(tmp_path.glob("study*.png"))  # one of each problem, if the picture is of one
        assert pictures and all(path.read_bytes()[:4] == b"\x89PNG" for path in pictures)
        for axes in function_at(study.picture.home)(result).axes:
            assert axes.lines or axes.patches
            assert len(axes.get_yticklabels())


def shows_auto(rows: Rows, about: dict[str, Any], text: str) -> None:
    (row,) = rows
    assert row["n"] == 3 and row["part"] == 1.0 and row["equal"] and row["choice"].startswith("serial: 3")
    assert row["serial"] > 0.0 and row["wall"] > 0.0 and row["computing"] > 0.0


def shows_many(rows: Rows, about: dict[str, Any], text: str) -> None:
    for (problem,), several in combinations_of(rows, ("problem",)):
        assert several["equal"].all() and (several["runs"] == 6).all() and (several["processor"] > 0.0).all()
        peers = np.char.startswith(several["way"], "ida")
        assert len(several) == (5 if ida.installed() else 3) and several["ratio"][0] == 1.0
        assert (several["error"][~peers] == several["error"][0]).all()
        assert (several["error"][peers] <= several["error"][0]).all()
        assert (several["rtol"][peers] < 1e-3).all()
        assert about[f"memory of {problem}"] < 1e8 and f"{problem}: 6 runs that are reduced take" in text


def shows_work(rows: Rows, about: dict[str, Any], text: str) -> None:
    known = {tuple(row) for row in rows[["problem", "sweeper", "backend"]].tolist()}
    for problem in ("transmission-line", "problematic-f"):
        for sweeper in ("semi-implicit", "fully-implicit"):
            there = (problem, sweeper) != ("problematic-f", "semi-implicit")
            assert ((problem, sweeper, "numpy") in known) == there
    assert ("transmission-line", "semi-implicit", "compiled") in known
    assert set(rows["n"][rows["problem"] == "transmission-line"].tolist()) == {20}
    compiled, others = rows[rows["backend"] == "compiled"], rows[rows["backend"] == "numpy"]
    # Backends do the same work, and end at the same values.
    assert (compiled["difference"] < 1e-8).all() and (compiled["ratio"] > 0.0).all()
    assert np.isnan(others["ratio"]).all()
    for row in compiled:
        same = (others["problem"] == row["problem"]) & (others["sweeper"] == row["sweeper"])
        assert row["sweeps"] == pytest.approx(others[same]["sweeps"][0], abs=1.0)
    assert all((rows[name] > 0.0).all() for name in ("time", "time_sweep", "sweeps", "rhs", "newton"))
    assert (rows["sweeps"] >= rows["iterations"]).all() and (rows["rhs"] >= rows["newton"]).all()
    assert (rows["steps"] == STEPS).all() and "0.1 ms" in text and "0.05 s" in text


def shows_profile(rows: Rows, about: dict[str, Any], text: str) -> None:
    seen = set()
    for key, own in combinations_of(rows, ("problem", "backend")):
        (whole,) = own[own["part"] == STEP]
        top, inside = own[(own["part"] != STEP) & (own["inside"] == "")], own[own["inside"] != ""]
        assert set(top["part"].tolist()) <= set(PARTS) and top["part"][-1] == LEFT
        assert top["time"].sum() == pytest.approx(whole["time"], rel=1e-12)
        assert top["share"].sum() == pytest.approx(1.0, rel=1e-12)
        for name in ("controller", "hooks", "convergence controllers", "sweeper, Python"):
            assert top["calls"][top["part"] == name][0] > 0.0
        assert set(inside["inside"].tolist()) <= {CALLS} and (inside["time"] >= 0.0).all()
        assert bool(len(inside)) == (CALLS in top["part"])
        seen.add(key)
    assert {("simple", "compiled"), ("simple", "numpy"), ("transmission-line", "numpy")} <= seen
    for word in (STEP, "controller", LEFT, "of these, equations", "the timers themselves", "n=40, numpy"):
        assert word in text


def shows_size(rows: Rows, about: dict[str, Any], text: str) -> None:
    steps, compared = rows[rows["source"] == "step"], rows[rows["source"] == "accuracy"]
    assert steps["n"].tolist() == [10, 20] and (steps["error"] < 1e-5).all()
    for name in ("time", "time_cold", "memory", "memory_before", "sweeps", "rhs", "newton", "factorization"):
        assert (steps[name] > 0.0).all(), name
    assert (steps["memory"] >= steps["memory_before"]).all()
    growth = np.log(steps["time"][1] / steps["time"][0]) / np.log(2.0)
    assert math.isnan(steps["exponent"][0]) and steps["exponent"][1] == pytest.approx(growth)
    assert about["exponents"]["auto"] == pytest.approx(growth)
    if not ida.installed():
        return
    ours, theirs = compared[compared["solver"] == "dae_sdc"], compared[compared["solver"] == "ida"]
    assert len(ours) == len(theirs) == 4  # two sizes with three and with five nodes
    assert (ours["error"] <= ours["accuracy"]).all() and (theirs["error"] <= ours["error"]).all()
    for name in ("steps", "rhs", "jacobian", "time_run", "tolerance"):
        assert (theirs[name] > 0.0).all() and (ours[name] > 0.0).all(), name
    assert (theirs["ratio"] > 0.0).all() and np.isnan(ours["ratio"]).all()
    assert "linsolver=sparse" in text and "ida/ours" in text and "jacfn=exact" in text


def shows_upstream(rows: Rows, about: dict[str, Any], text: str) -> None:
    (row,) = rows
    assert row["n"] == 2 and row["rhs_upstream"] > row["rhs"] > row["sweeps"]
    assert "discontinuous " in text and "geometric mean" in text
    assert max(row["error"], row["error_upstream"], row["difference"]) < 1e-9
    (own,) = STUDIES["upstream"](problems=["discontinuous"], repetitions=1).data
    assert max(own["error"], own["error_upstream"], own["difference"]) < 1e-9


def shows_traced(rows: Rows, about: dict[str, Any], text: str) -> None:
    assert (rows["equations"] == "traced").all() and (rows["steps"] == rows["steps_traced"]).all()
    assert (rows["done"] == 1.0).all() and "geometric means" in text


def shows_poles(rows: Rows, about: dict[str, Any], text: str) -> None:
    own, real = rows[rows["problem"] != ""]
    assert own["complex_factorizations"] > 0
    assert real["complex_factorizations"] == real["complex_solves"] == 0
    assert max(own["error"], real["error"]) < 1e-8
    assert real["real_solves"] > own["real_solves"] + own["complex_solves"]


def shows_parallel(rows: Rows, about: dict[str, Any], text: str) -> None:
    ranks = rows[rows["way"] == "ranks"]
    assert len(ranks) and ranks["equal"].all() and (ranks["workers"] == 2).all()


def shows_starts(rows: Rows, about: dict[str, Any], text: str) -> None:
    assert len(rows) == 3 and not np.isin(rows["outcome"], BAD).any() and (rows["time"] > 0.0).all()
    assert set(rows["kind"].tolist()) == {"generated"} and "0 bad" in text


def test_a_start_that_is_not_consistent_is_told_apart() -> None:
    chain = Chain("hessenberg-2", 4, 3)
    found = SimpleNamespace(u=chain.u.copy(), du=chain.du.copy(), names=chain.names)
    for j in range(chain.n):
        held = Given({chain.names[j]: float(chain.u[j])}, {}, {chain.names[j]: (-9.0, 9.0)})
        found.values = dict(zip(chain.names, chain.u.tolist(), strict=True))
        assert judged(chain, held, found).outcome == DONE
        found.u[j] += 1e-6
        found.values = dict(zip(chain.names, found.u.tolist(), strict=True))
        assert judged(chain, held, found).message.startswith(f"{chain.names[j]} was held at")
        assert judged(chain, Given({}, {}), found).outcome == WRONG
        found.u[j] -= 1e-6


def shows_plain(rows: Rows, about: dict[str, Any], text: str) -> None:
    solvers = {"dae_sdc", "dae_sdc, trace=False"} | ({"ida"} if ida.installed() else set())
    assert set(rows["solver"].tolist()) == solvers and set(rows["n"].tolist()) == {8}
    (own,) = rows[rows["solver"] == "dae_sdc"]
    assert own["success"] == 1 and own["time"] > 0.0 and own["steps"] > 10.0
    assert own["error"] <= 1e-3 and own["rtol"] == 1e-4


def shows_peers(rows: Rows, about: dict[str, Any], text: str) -> None:
    assert about["rtols"] == [1e-4, 1e-6] and not (rows["solver"] == "rattle").any()
    keys = rows[["problem", "solver", "weights", "rtol"]].tolist()
    assert len(keys) == len(set(keys))
    for problem in ("simple", "chemical-akzo-nobel"):
        solvers = rows["solver"][rows["problem"] == problem].tolist()
        assert all(solvers.count(name) >= 2 for name in ("dae_sdc", "semi-implicit", *about["like"]))
    ours, good = rows[rows["solver"] == "dae_sdc"], rows[rows["success"] == 1]
    assert (ours["success"] == 1).all() and (ours["runs"] == 1).all() and (ours["rhs"] > ours["steps"]).all()
    assert (good["error"][good["rtol"] < 1e-5] < 1e-2).all() and (good["time"] > 0.0).all()
    tight = ours[(ours["problem"] == "chemical-akzo-nobel") & (ours["rtol"] == 1e-6)]
    assert tight["scd"][0] > 4.0 and tight["error"][0] < 1e-4
    assert all(f"  {name}: " in text for name in (*about["like"], *about["unlike"]))
    assert "at most 1 on" in text


def shows_testset(rows: Rows, about: dict[str, Any], text: str) -> None:
    for row in rows:
        name, rtol = str(row["problem"]), float(row["rtol"])
        solution, problem = ds.solve(name, rtol=rtol), make_problem(name)
        assert row["success"] == 1 and row["message"] == solution.message and row["time"] > 0.0
        assert (row["n"], row["index"]) == (problem.n, problem.index)
        assert row["method"] == solution.parameters["sweeper"]
        for key in ("steps", "rejected", "rhs", "jacobian", "factorization"):
            assert row[key] == solution.stats[key]
        assert row["scd"] == scd(problem, solution.u[-1])
        assert row["required"] == pytest.approx(-math.log10(rtol) - 1.0)
    assert "chemical-akzo-nobel  PSIDE 1e-19: 5535, 100411, 7" in text
    assert "short of what is required: none" in text


def shows_compliance(rows: Rows, about: dict[str, Any], text: str) -> None:
    frame, table = rows
    assert (frame["way"], table["way"], about["free"], about["supported"]) == ("lu", "linear", 72, 66)
    assert frame["error"] < 1e-10 < 1e-5 < table["error"] < 1e-3 and (rows["least"] > 0.0).all()
    assert "138 degrees of freedom" in text and "181 (42 to 417)" in text and "40 (4 to 48)" in text


def shows_polynomials(rows: Rows, about: dict[str, Any], text: str) -> None:
    assert text.count("2 of 2") == 2 and "32 solutions, 16 real" in text and "degrees 2 2" in text


def shows_quasi_newton(rows: Rows, about: dict[str, Any], text: str) -> None:
    cold = rows[(rows["part"] == "cold") & (rows["ribs"] == 5)]
    assert set(cold["method"]) >= {"ours", "D-ours", "newton", "BGM", "D-BCM"}
    assert cold["success"][cold["method"] == "D-ours"] > 90.0
    assert "chemical-akzo-nobel, fully-implicit" in text and "robertson" not in text
    assert "5 ribs" in text and "99.9 % 62.5 us" in text and "published, us" in text


DRAWN = [name for name, study in STUDIES.items() if study.picture is not None]


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_needs_its_columns_and_draws_no_other_study(name: str, tmp_path: Path) -> None:
    data = np.zeros(1, dtype=[("a", "f8")])
    own = Result("bench", data, {}, {"study": name}).save(tmp_path / "own")
    with pytest.raises(ResultFileError, match="lacks the columns"):
        plot(name, own)
    for other in [other for other in (*DRAWN, "linear") if other != name]:
        with pytest.raises(InputError, match=f"use `python -m benchmarks plot {name}"):
            plot(other, own)
    with pytest.raises(InputError, match=rf"which '{name}' does not draw; use .* numpy\.load"):
        plot(name, Result("bench", data, {}, {"study": "upstream"}).save(tmp_path / "other"))


# What no study takes for a parameter, and what it says
REFUSED: dict[str, list[tuple[Any, str]]] = {
    "problems": [(["nothing"], "unknown .*'nothing'"), ([], "need at least one")],
    "repetitions": [(0, "repetitions must be an integer, at least 1"), (10**10, "at most")],
    "sizes": [
        ([], "at least one number of unknowns"),
        ([0], "number of unknowns must be an integer, at least 1"),
        ([1.5], "sizes must be a sequence of integers"),
    ],
    "nodes": [(0, "nodes must be")],
    "rtols": [
        ([], "at least one tolerance"),
        ([1.0], "between 0 and 1"),
        (["small"], "rtols must be a sequence of numbers"),
    ],
    "accuracies": [([-1.0], "accuracy must"), (["small"], "accuracies must be a sequence of numbers")],
    "time_limit": [(0.0, "time_limit must be positive"), ("long", "time_limit must be a number")],
    "out": [("/nowhere/x.npy", "does not exist")],
}


@pytest.mark.parametrize("name", STUDIES)
def test_what_no_study_can_measure_is_refused_at_once(name: str) -> None:
    for parameter in inspect.signature(STUDIES[name].run).parameters:
        for value, says in REFUSED.get(parameter, ()):
            with pytest.raises(InputError, match=says):
                STUDIES[name](**{parameter: value})


@pytest.mark.parametrize(
    ("study", "given", "says"),
    [
        ("work", {"sweepers": ["radau-iia-5"]}, "unknown SDC sweeper 'radau-iia-5'"),
        ("work", {"qdelta": []}, "at least one Q_Delta"),
        ("size", {"linear_solvers": ["qr"]}, "unknown linear solver 'qr'"),
        ("peers", {"sweepers": ["nothing"]}, "unknown sweeper 'nothing'"),
        ("peers", {"others": ["nothing"]}, "unknown peer 'nothing'"),
        ("plain", {"accuracies": [2.0]}, "the accuracy must lie between 0 and 1"),
        ("scaling", {"problems": ["pendulum"]}, "unknown problem of this study 'pendulum'"),
        ("scaling", {"nodes": 1}, "1 nodes are shared"),
        ("scaling", {"ranks": 5}, "4 nodes are shared by 2 to 4 ranks; got 5"),
        ("scaling", {"ranks": 1}, "got 1"),
        ("parallel", {"ways": ["trains"]}, "unknown way to run 'trains'"),
        ("parallel", {"workers": []}, "need at least one number of workers"),
        ("quasi-newton", {"ribs": [0]}, "number of ribs must be"),
        ("testset", {"problems": ["pendulum"]}, "problem with a reference at its end"),
        ("testset", {"problems": ["hirs"]}, "hires"),
        ("compliance", {"ways": ["quintic"]}, "unknown way 'quintic'"),
        ("models", {"problems": ["car-axle"]}, "unknown model with a check 'car-axle'.*car-axis"),
        ("truth", {"families": ["nothing"]}, "unknown family 'nothing'"),
        ("truth", {"kinds": ["nothing"]}, "unknown kind of run 'nothing'"),
        ("faults", {"kinds": ["nothing"]}, "unknown kind of faults 'nothing'"),
        ("faults", {"only": ["function"]}, "a case is KIND:NUMBER"),
    ],
)
def test_what_a_study_cannot_measure_is_refused_at_once(study: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        STUDIES[study](**given)


def test_what_was_finished_before_an_interrupt_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = sys.modules["benchmarks.studies.work"]
    original, calls = module._measure, iter([True, False])

    def once(*args: Any) -> None:
        if not next(calls):
            raise KeyboardInterrupt
        original(*args)

    monkeypatch.setattr(module, "_measure", once)
    with pytest.raises(KeyboardInterrupt):
        chosen: dict[str, Any] = {"problems": ["simple"], "sweepers": ["semi-implicit"]}
        STUDIES["work"](**chosen, qdelta=["LU", "MIN-SR-S"], repetitions=1, out=tmp_path / "w")
    kept = load(tmp_path / "w.partial")
    assert set(kept.data["qdelta"].tolist()) == {"LU"}
    assert not kept.parameters["complete"]


def test_every_file_of_a_study_registers_it(checkout: Path) -> None:
    folder = checkout / "benchmarks" / "studies"
    found = {path.stem.replace("_", "-") for path in folder.iterdir() if path.stem[0] not in "._"}
    shown = {name[6:].replace("_", "-") for name in globals() if name.startswith("shows_")}
    assert set(STUDIES) == found and {*shown, *RUNS, *LEFT_OUT} <= found
    page = (checkout / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for name, study in STUDIES.items():
        assert f"`{name}`" in page
        assert study.picture is None or PICTURES[name] is study.picture


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_explains_itself_and_its_example_is_understood(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    study = STUDIES[name]
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    told = capsys.readouterr().out
    assert study.about.splitlines()[0] in told
    parser = Parser()
    study.add_arguments(parser)
    given = vars(parser.parse_args(study.example.split()))
    assert any(given.values()) and given["out"] is None
    assert {"out", "progress"} <= set(inspect.signature(study.run).parameters)


def test_every_option_is_one_of_a_study() -> None:
    used = {parameter.name for _, study in STUDIES.items() for parameter, _ in study.parameters}
    assert set(OPTIONS) <= used


def test_the_command_lists_the_studies_and_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", "--problems", "transmission-line", "--ranks", "1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "got 1" in line
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    told = capsys.readouterr().out
    for name, study in STUDIES.items():
        assert f"  {name} " in told and f"python -m benchmarks {name} {study.example}" in told
    assert main(["word"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("python -m benchmarks: unknown study 'word'; did you mean 'work'?")
    for wrong, says in (
        ([], "no study named"),
        (["work", "--ranks", "2"], "work: unrecognized arguments: --ranks 2"),
        (["work", "--rtols", "1e-3"], "work: unrecognized arguments: --rtols"),
        (["size", "--sizes", "a,b"], "needs integers, separated by commas"),
        (["truth", "--seed", "one"], "invalid int value"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(wrong)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("python -m benchmarks: ") and says in line


def test_a_result_says_the_command_that_made_it(tmp_path: Path) -> None:
    command = ["polynomials", "--problems", "equal-bars", "--repetitions", "1", "--out"]
    how: dict[str, Any] = {"cwd": processes.ROOT, "capture_output": True, "text": True, "check": True}
    whole = [sys.executable, "-m", "benchmarks", *command, str(tmp_path / "p.npy")]
    done = subprocess.run(whole, env=processes.environment(), **how)
    assert f"written to {tmp_path / 'p.npy'}" in done.stdout
    made = load(tmp_path / "p.npy")
    assert made.command == f"python -m benchmarks {' '.join(command)} {tmp_path / 'p.npy'}"
