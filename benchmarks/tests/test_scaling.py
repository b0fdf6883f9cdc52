"""The study of scaling: its model, what it counts, prints and refuses. No measured time is asserted."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.measuring import processes
from benchmarks.measuring.ranks import BEST_SERIAL, expected_calls
from benchmarks.measuring.steps import FAMILIES
from benchmarks.studies.scaling import costs
from benchmarks.studies.scaling.costs import Network, SweepCost
from benchmarks.studies.scaling.study import PREDICTED_RANKS, PREDICTED_STEPS, evaluate, scaling
from dae_sdc.errors import InputError, RemoteError
from dae_sdc.run.results import Result, load
from dae_sdc.run.target import make_problem

MODULE = sys.modules["benchmarks.studies.scaling.study"]  # its package hands out the function of this name
ITERATIONS = {1: 8.0, **dict.fromkeys(PREDICTED_STEPS, 5.0)}
NETWORK = Network(latency=4e-6, bandwidth=2e9)
COST = SweepCost(3e-4, 2e-9, 5e-5, 4e-9, 1.3, (0.2, 0.2, 0.25, 0.35))
SIZES = np.array([10, 100, 1000, 10000])
with_mpi = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py")


@pytest.mark.parametrize("exponent", [1.0, 1.25, 1.5, 2.0])
@pytest.mark.parametrize("shares", [(1.0,), (0.1, 0.2, 0.3, 0.4)])
def test_the_fit_finds_the_coefficients_of_synthetic_times(
    exponent: float, shares: tuple[float, ...]
) -> None:
    true = SweepCost(3e-4, 2e-8, 5e-5, 3e-8, exponent, shares)
    n, ranks = np.repeat(SIZES, 2), np.tile([1, 2], 4)
    times = [true.computing(size, 4, int(p)) for size, p in zip(n, ranks, strict=True)]
    found, deviations = costs.fit_sweep(n, ranks, times, 4, shares)
    assert np.abs(deviations).max() < 1e-8
    assert found.exponent == pytest.approx(exponent)
    for name in ("controller", "replicated", "fixed", "growing"):
        assert getattr(found, name) == pytest.approx(getattr(true, name), rel=1e-4)


def test_the_fit_has_no_negative_cost_and_reports_its_deviation() -> None:
    times = np.array([5e-4, 4e-4, 6e-4, 3e-4, 9e-4, 6e-4, 5e-3, 3e-3])
    found, deviations = costs.fit_sweep(np.repeat(SIZES, 2), np.tile([1, 2], 4), times, 4)
    assert min(found.controller, found.replicated, found.fixed, found.growing) >= 0.0
    model = [found.computing(n, 4, p) for n in SIZES for p in (1, 2)]
    np.testing.assert_allclose(deviations, np.array(model) / times - 1.0)


def test_the_fit_finds_latency_and_bandwidth() -> None:
    ranks, sizes = [2, 2, 4, 8], [64, 320064, 64, 32064]
    times = [NETWORK.gather(p, m) for p, m in zip(ranks, sizes, strict=True)]
    found, deviations = costs.fit_network(ranks, sizes, times)
    assert found.latency == pytest.approx(NETWORK.latency)
    assert found.bandwidth == pytest.approx(NETWORK.bandwidth)
    assert np.abs(deviations).max() < 1e-12


def test_messages_cost_what_the_closed_form_says() -> None:
    assert NETWORK.message(2e9) == pytest.approx(4e-6 + 1.0)
    assert NETWORK.gather(2, 8000) == pytest.approx(4e-6 + 4000 / 2e9)
    assert NETWORK.gather(5, 8000) == pytest.approx(3 * 4e-6 + 6400 / 2e9)
    assert costs.row_bytes(100, 4) == 4 * 102 * 8
    assert costs.sent_bytes(100, 4, 2, 7, 3) == 7 * 4 * 102 * 8 + 3 * 4 * 2 * 8
    assert costs.sent_bytes(100, 4, 1, 0, 0) == 0


@pytest.mark.parametrize("nodes", [2, 4, 5, 8])
def test_equal_nodes_are_shared_as_blocks(nodes: int) -> None:
    for ranks in range(1, nodes + 1):
        assert costs.largest_share((1.0,), nodes, ranks) == pytest.approx(-(-nodes // ranks) / nodes)


def test_unequal_nodes_slow_the_rank_that_has_the_dearest() -> None:
    shares = (0.1, 0.2, 0.3, 0.4)
    assert costs.largest_share(shares, 4, 2) == pytest.approx(0.7)
    assert costs.largest_share(shares, 4, 4) == pytest.approx(0.4)
    assert costs.largest_share(shares, 4, 1) == pytest.approx(1.0)


@pytest.mark.parametrize("n", SIZES)
def test_speed_up_of_sweeps_keeps_to_its_limits(n: int) -> None:
    serial = costs.sweep_time(COST, NETWORK, n, 8, 1, 5.0)
    assert serial == COST.computing(n, 8)
    free = Network(0.0, float("inf"))
    times = [costs.sweep_time(COST, free, n, 8, p, 5.0) for p in range(1, 9)]
    assert all(later <= earlier for earlier, later in pairwise(times))
    bound = serial / (COST.controller + COST.replicated * 8 * n)  # Amdahl
    for p, time in enumerate(times, start=1):
        assert serial / time <= min(p, bound) + 1e-12
        assert costs.sweep_time(COST, NETWORK, n, 8, p, 5.0) >= time


def test_amdahl_holds_with_equality_for_equal_nodes_and_no_messages() -> None:
    cost = SweepCost(1e-3, 0.0, 1e-3, 0.0, 1.0)
    part = 1 / 9  # of a serial sweep is done on every rank
    assert cost.controller == pytest.approx(part * cost.computing(100, 8))
    for p in (1, 2, 4, 8):
        bound = 1 / (part + (1 - part) / p)
        assert cost.computing(100, 8) / cost.computing(100, 8, p) == pytest.approx(bound)


def test_pfasst_keeps_to_its_closed_forms_and_limits() -> None:
    assert costs.pfasst_speedup(1, 1.0, 0.25, (8, 4)) == 1.0
    # S = P K_s / (P alpha + K_p (1 + alpha)) without overhead
    assert costs.pfasst_speedup(4, 1.0, 0.25, (8, 4)) == pytest.approx(32 / (1 + 5))
    values = [costs.pfasst_speedup(p, 1.0, 0.25, (8, 4), 0.1) for p in (2, 4, 8, 16, 32, 64, 10**9)]
    assert values == sorted(values)
    assert values[-1] == pytest.approx(8 / 0.25)
    for p, value in zip((2, 4, 8, 16, 32, 64), values, strict=False):
        assert value <= p * 8 / 4
    small = costs.pfasst(COST, NETWORK, 1000, (4, 2), 8, (8, 5))
    fine, coarse = COST.computing(1000, 4), COST.computing(1000, 2)
    overhead = costs.TRANSFER * (fine + coarse) + 2 * NETWORK.message(8000)
    assert small == pytest.approx(64 * fine / (8 * coarse + 5 * (fine + coarse + overhead)))


@pytest.mark.parametrize(
    ("sweeps", "values", "notes"),
    [
        ([0, 3], 3, 4),  # a first step waits for every residual
        ([3, 3], 3, 1),  # one exchange a sweep, and the residual of the last
        ([3, 5], 5, 3),
        ([5, 3], 4, 0),  # the fourth was computed ahead and dropped
        ([3, 3, 5, 2], 3 + 5 + 3, 1 + 3 + 0),
    ],
)
def test_exchanges_follow_from_the_sweeps(sweeps: list[int], values: int, notes: int) -> None:
    assert expected_calls(sweeps) == (values, notes)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_about_the_unknowns_that_were_asked_for(name: str) -> None:
    for n in (20, 100, 1000, 10000):
        work = FAMILIES[name].work(name, n)
        assert 4 <= work.steps <= 40
        assert make_problem(name, work.params).n == pytest.approx(n, rel=0.1)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("scaling")
    few = {name: replace(family, most=5) for name, family in FAMILIES.items()}
    # Three nodes: the two ranks have different numbers of them.
    command = f"scaling --sizes 10,30 --nodes 3 --repetitions 1 --out {folder}/scaling.npy".split()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "FAMILIES", few)
        patch.setattr(MODULE, "count_iterations", lambda problem, nodes: ITERATIONS)
        assert main(command) == 0
    assert main(["plot", "scaling", f"{folder}/scaling.npy", "-o", f"{folder}/scaling.png"]) == 0
    assert (folder / "scaling.png").read_bytes()[:4] == b"\x89PNG"
    return load(folder / "scaling.npy")


@with_mpi
def test_messages_and_bytes_are_those_of_the_model_and_values_those_of_the_serial_run(result: Result) -> None:
    data = result.data
    rows = data[(data["source"] == "measured") & (data["ranks"] == 2)]
    assert set(rows["problem"]) == set(FAMILIES)
    assert set(rows["pinned"].tolist()) == ({False, True} if hasattr(os, "sched_setaffinity") else {False})
    for name in ("messages", "messages_notes", "bytes"):
        np.testing.assert_array_equal(rows[name], rows[f"{name}_expected"])
        assert (rows[name] > 0).all()
    np.testing.assert_array_equal(
        rows["bytes"], rows["messages"] * 3 * (rows["n"] + 2) * 8 + rows["messages_notes"] * 3 * 2 * 8
    )
    assert (rows["messages_others"] == 0).all()
    assert rows["equal"].all()
    serial = data[(data["source"] == "measured") & (data["ranks"] == 1)]
    assert not serial["bytes"].any() and not serial["messages"].any()
    assert serial["equal"][serial["qdelta"] != BEST_SERIAL].all()


@with_mpi
def test_times_are_split_without_rest(result: Result) -> None:
    rows = result.data[result.data["source"] == "measured"]
    assert (rows["computing"] <= rows["cpu"] * (1 + 1e-12)).all()
    assert (rows["computing_least"] <= rows["computing"]).all()
    assert (rows["undisturbed"] <= rows["computing"]).all()
    assert (rows["communication"] >= 0).all() and (rows["waiting"] >= 0).all()
    for name in "wall computing time model ratio_wall ratio_computing ratio_least speedup".split():
        assert (rows[name] > 0).all(), name


@with_mpi
def test_the_table_and_the_text_have_everything(result: Result) -> None:
    data, about = result.data, result.parameters
    assert list(data.dtype.names or ()) == [name for name, _ in scaling.columns]
    assert {key for key in about["fits"]} == {"network", *FAMILIES}
    assert about["study"] == "scaling" and about["complete"] and about["left_out"] == []
    nodes = data[data["source"] == "nodes"]
    assert set(nodes["ranks"][nodes["ranks"] == nodes["nodes"]]) == {*PREDICTED_RANKS}
    assert (nodes["speedup"][nodes["ranks"] == 1] == 1.0).all()
    assert set(data["ranks"][data["source"] == "pfasst"]) == {*PREDICTED_STEPS}
    text = scaling.report(result)
    words = "process computing exchange waiting assumed PFASST".split()
    assert all(word in text for word in (*FAMILIES, *words, "us ceil(log2 P)"))
    unwrapped = " ".join(text.split())
    assert all(assumption in unwrapped for assumption in about["assumptions"])
    assert max(map(len, text.splitlines())) < 160


@with_mpi
def test_the_picture_shows_points_and_lines(result: Result) -> None:
    from benchmarks.pictures import scaling as draw

    figure = draw(result)
    assert len(figure.axes) == 4 * len(FAMILIES)
    for axes in figure.axes:
        assert len(axes.lines) >= 3
        assert axes.get_xlabel() and axes.get_ylabel() and axes.get_title()


@with_mpi
def test_a_q_delta_that_ranks_cannot_share_is_refused_by_the_ranks() -> None:
    with pytest.raises(InputError, match="'LU' is not diagonal"):
        scaling(problems=["transmission-line"], sizes=[10], qdelta="LU", repetitions=1)


@with_mpi
def test_without_mpirun_one_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"found no mpirun beside .*pip install 'dae_sdc\[mpi\]'"):
        processes.launcher()


def _stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let a script be the mpirun beside the interpreter."""
    fake = tmp_path / "mpirun"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(processes, "launcher", lambda: str(fake))


@pytest.mark.parametrize(
    ("script", "patience", "says"),
    [
        ("exec sleep 60", 0.5, "said nothing for 0.5 s"),
        ("cat > /dev/null; echo broken >&2; exit 3", 30.0, "ended with code 3: broken"),
        ("cat > /dev/null; echo hello", 30.0, "printed 'hello', which is no row"),
        ("exec >&-; exec sleep 60", 0.5, "has not ended 0.5 s after its work"),
        ("exit 1", 30.0, "ended with code 1: it said nothing"),
    ],
)
def test_processes_that_fail_or_fall_silent_end_in_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, patience: float, says: str
) -> None:
    _stand_in(tmp_path, monkeypatch, script)
    with pytest.raises(RemoteError, match=says):
        scaling(problems=["transmission-line"], sizes=[10], patience=patience)


def test_processes_are_ended_with_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _stand_in(tmp_path, monkeypatch, f"echo $$ > {tmp_path}/pid; exec sleep 60")
    with pytest.raises(RemoteError):
        scaling(problems=["transmission-line"], sizes=[10], patience=1.0)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@with_mpi
def test_under_mpirun_it_is_refused() -> None:
    code = "from benchmarks.__main__ import main; raise SystemExit(main(['scaling', '--sizes', '10']))"
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 300}
    environment = {**os.environ, "MPI_LOCALNRANKS": "2"}
    done = subprocess.run([sys.executable, "-c", f"import os; {code}"], env=environment, **how)
    assert done.returncode == 2
    assert "mpirun" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_iterations_of_pfasst_are_counted() -> None:
    counts = MODULE.count_iterations("navier-stokes", 3)
    assert list(counts) == [1, *PREDICTED_STEPS]
    assert counts[1] > 1.0
    assert counts[64] >= counts[2] > 1.0


def test_rows_of_a_study_can_be_evaluated_again() -> None:
    """The model needs nothing but what the processes print, which is JSON."""
    base = {"problem": "transmission-line", "nodes": 4, "steps": 10, "dt": 0.1, "sweeper": "semi-implicit"}
    base |= {"qdelta": "MIN-SR-S", "restol": 1e-9, "sweeps": 50, "dropped": 0, "messages_others": 0}
    base |= {"computing_least": 0.0, "communication": 0.0, "waiting": 0.0, "bytes": 0, "pinned": False}
    base |= {"equal": True, "at_node": [1.0] * 4, "ratio_wall": 1.0}
    rows = []
    even = SweepCost(3e-4, 2e-9, 5e-5, 4e-9, 1.3)
    for n in SIZES.tolist():
        for ranks in (1, 2):
            time = 50 * even.computing(n, 4, ranks)
            row = base | {"n": n, "ranks": ranks}
            row |= dict.fromkeys(("wall", "cpu", "computing", "undisturbed"), time)
            row |= dict.fromkeys(("ratio_computing", "ratio_least"), time / (50 * even.computing(n, 4)))
            row |= {"exchange": NETWORK.gather(2, costs.row_bytes(n, 4)) if ranks == 2 else 0.0}
            row |= {"exchange_notes": NETWORK.gather(2, 64) if ranks == 2 else 0.0}
            row |= {"messages": 50 * (ranks - 1), "messages_notes": 10 * (ranks - 1)}
            rows.append({**row, "expected": [50, 10] if ranks == 2 else [0, 0]})
    table, about = evaluate(json.loads(json.dumps(rows)), {"transmission-line": ITERATIONS})
    for row in (row for row in table if row["source"] != "pfasst"):
        time = costs.sweep_time(even, NETWORK, row["n"], row["nodes"], row["ranks"], 5.0)
        if row["source"] == "measured":
            assert row["model"] == pytest.approx(time, rel=1e-6)
        else:
            expected = even.computing(row["n"], row["nodes"]) / time
            assert row["speedup"] == pytest.approx(expected, rel=1e-5)
            assert row["efficiency"] == pytest.approx(expected / row["ranks"], rel=1e-5)
    assert about["fits"]["transmission-line"]["deviation"] < 1e-6
