"""Threads and ranks that share the stages of a step: the values of one process, and one choice for all."""

from __future__ import annotations

import gc
import json
import sys
import threading
from importlib import import_module
from itertools import combinations_with_replacement, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.sweepers import teams
from dae_sdc.sweepers.parallel import contiguous, team_of
from dae_sdc.sweepers.runge_kutta import RadauIIA5DAE
from dae_sdc.sweepers.teams import FACTORIZE, LEAST_SHARED, SOLVE, Threads, Trial

CASES: list[tuple[str, dict[str, Any]]] = [
    ("transmission-line", {"params": {"sections": 60}, "rtol": 1e-6}),  # pivots are reused in compiled code
    ("navier-stokes", {"params": {"cells": 12}, "rtol": 1e-5}),  # factors of SuperLU
    ("pipe-network", {"params": {"rows": 10, "columns": 10}, "rtol": 1e-6}),  # pivots depend on the step size
    ("ring-modulator", {"rtol": 1e-4, "t_end": 1e-5}),  # dense
    ("pendulum", {"rtol": 1e-5, "nodes": 4, "t_end": 0.5}),  # an even number of nodes has one matrix more
    ("simple", {"rtol": 1e-4}),
]


def rows(t: float, u: Any, du: Any) -> list[Any]:
    """Decay in Python, of index 1."""
    return [du[0] + u[1], u[1] - u[0]]


@pytest.mark.parametrize(("problem", "settings"), CASES, ids=[name for name, _ in CASES])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_values_of_one_to_the_last_bit(
    problem: str, settings: dict[str, Any], threads: int
) -> None:
    alone = ds.solve(problem, **settings)
    shared = ds.solve(problem, threads=threads, **settings)
    assert alone.success and shared.success
    for name in ("t", "u", "du"):
        np.testing.assert_array_equal(getattr(shared, name), getattr(alone, name), strict=True)
    assert shared.stats == alone.stats
    assert shared.parameters["sharing"] == f"{threads} threads"
    assert "sharing" not in alone.parameters


def test_threads_serve_functions_in_python() -> None:
    given: dict[str, Any] = {"u0": [1.0, 1.0], "t_end": 1.0, "rtol": 1e-6, "trace": False}
    alone, shared = ds.solve(rows, **given), ds.solve(rows, threads=2, **given)
    np.testing.assert_array_equal(shared.u, alone.u)
    assert abs(shared.u[-1, 0] - np.exp(-1.0)) < 1e-6


def test_threads_alone_leave_the_default_method() -> None:
    alone, shared = ds.solve("simple"), ds.solve("simple", threads=2)
    assert shared.parameters["sweeper"] == alone.parameters["sweeper"]
    np.testing.assert_array_equal(shared.u, alone.u)


def test_a_pool_ends_with_its_solver() -> None:
    before = set(threading.enumerate())
    pool = Threads(3)
    assert pool.share(SOLVE, lambda part: 1, 4, None, None)
    own = set(threading.enumerate()) - before
    assert len(own) == 2
    del pool
    gc.collect()
    for thread in own:
        thread.join(30.0)
        assert not thread.is_alive()


def test_every_part_is_done_once_and_the_first_error_is_raised_when_all_have_ended() -> None:
    pool, done = Threads(2), []

    def part(k: int) -> int:
        done.append(k)
        if k in (1, 2):
            raise ValueError(f"part {k}")
        return 1

    for _ in range(3):
        done.clear()
        with pytest.raises(ValueError, match="part 1"):
            pool.share(FACTORIZE, part, 5, None, None)
        assert sorted(done) == [0, 1, 2, 3, 4]
    assert pool.share(FACTORIZE, lambda k: 1, 5, None, None)
    assert not pool.share(FACTORIZE, lambda k: k != 3, 5, None, None)


def test_parts_are_shared_out_by_the_time_they_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teams, "TAKES_OVER", False)
    job = teams._Job(lambda part: 1, [1.0, 3.5, 3.5, 1.0, 1.0], 2)
    loads = [sum(job.costs[part] for part in given) for given in job.given]
    assert max(loads) == 5.5 and sum(loads) == 10.0


@pytest.mark.parametrize("costs", [[1.0, 2.0, 2.0], [1.0, 3.5, 3.5, 3.5], [1.0] * 7, [5.0, 1.0, 1.0, 1.0]])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_blocks_of_neighbours_have_the_least_largest_cost(costs: list[float], size: int) -> None:
    def busiest(bounds: Any) -> float:
        return max(sum(costs[a:b]) for a, b in pairwise(bounds))

    bounds = contiguous(costs, size)
    assert len(bounds) == size + 1 and bounds == sorted(bounds) and (bounds[0], bounds[-1]) == (0, len(costs))
    inner = combinations_with_replacement(range(len(costs) + 1), size - 1)
    assert busiest(bounds) == min(busiest((0, *cuts, len(costs))) for cuts in inner)


@pytest.mark.parametrize(("shared", "pays"), [(0.6, True), (0.94, True), (0.96, False), (5.0, False)])
def test_the_faster_way_is_chosen_after_two_steps(shared: float, pays: bool) -> None:
    trial = Trial(False)
    for way in (False, True):
        trial.next_step(lambda times: times)
        assert trial.shared is way and not trial.settled
        for kind, seconds in ((SOLVE, 1.0), (FACTORIZE, 4.0)):
            # The first call of a kind takes longer than the others.
            for first in (10.0, 1.0, 1.0):
                trial.note(kind, first * seconds * (shared if way else 1.0))
    trial.next_step(lambda times: times)
    assert trial.settled and trial.shared is pays
    assert trial.ratio == pytest.approx(shared)


def test_a_kind_of_work_that_was_not_met_is_waited_for() -> None:
    trial = Trial(False)
    trial.next_step(lambda times: times)
    trial.note(SOLVE, 1.0)
    trial.note(FACTORIZE, 10.0)
    trial.next_step(lambda times: times)
    trial.note(SOLVE, 2.0)
    trial.next_step(lambda times: times)
    assert not trial.settled
    trial.note(FACTORIZE, 5.0)
    trial.next_step(lambda times: times)
    assert trial.settled and trial.shared


def test_the_result_says_what_was_chosen_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    small = ds.solve("pendulum", rtol=1e-5, threads="auto", parallel="auto")
    least = LEAST_SHARED
    assert small.parameters["sharing"] == (
        f"serial: 5 unknowns are fewer than {least}, from which on sharing pays"
    )
    monkeypatch.setattr("dae_sdc.sweepers.parallel.cores", lambda: 2)
    settings: dict[str, Any] = {"params": {"sections": least}, "rtol": 1e-6}
    large, alone = (ds.solve("transmission-line", threads=way, **settings) for way in ("auto", None))
    np.testing.assert_array_equal(large.u, alone.u)
    assert "of the serial time on 2 threads" in large.parameters["sharing"]
    monkeypatch.setattr("dae_sdc.sweepers.parallel.cores", lambda: 1)
    assert team_of(10**4, 3, threads="auto")[1] == "serial: this process has one core"
    other = ds.solve("simple", sweeper="semi-implicit", rtol=1e-4, threads="auto")
    assert other.parameters["sharing"] == "serial: 'semi-implicit' on one rank has nothing to share"


def test_the_choice_of_a_small_problem_looks_at_no_machine_and_costs_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def must_not_be_asked() -> int:
        raise AssertionError

    monkeypatch.setattr("dae_sdc.sweepers.parallel.cores", must_not_be_asked)
    monkeypatch.setattr("dae_sdc.sweepers.parallel.load_mpi", must_not_be_asked)

    def calls(**how: Any) -> int:
        """Calls of functions in a run: unlike times, these do not depend on what else the machine does."""
        count = 0

        def counted(frame: Any, event: str, arg: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(counted)
        try:
            ds.solve("simple", rtol=1e-6, **how)
        finally:
            sys.setprofile(None)
        return count

    serial: dict[str, Any] = {"parallel": None, "threads": 1}
    both = {"parallel": "auto", "threads": "auto"}
    for how in 2 * [serial, both]:
        calls(**how)  # imports, and what is kept from one run to the next
    assert calls(**both) <= 1.05 * calls(**serial)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"threads": 0, "rtol": 1e-4}, "threads must be an integer, at least 1; got 0"),
        ({"threads": "many", "rtol": 1e-4}, "threads must be an integer, at least 1; got 'many'"),
        (
            {"threads": 2, "sweeper": "semi-implicit", "rtol": 1e-4},
            "'semi-implicit' has nothing",
        ),
        ({"threads": 2, "sweeper": "radau-iia-5", "dt": 0.1}, "'radau-iia-5' has nothing that threads"),
    ],
)
def test_threads_without_effect_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        ds.solve("simple", **settings)


def test_a_copy_of_a_sweeper_keeps_the_pool() -> None:
    import copy

    pool = Threads(2)
    assert copy.deepcopy(pool) is pool
    assert RadauIIA5DAE.shares_stages() and not ds.BackwardEulerDAE.shares_stages()


def test_ranks_that_share_stages_give_the_values_of_one_process(three_ranks: Path) -> None:
    records = json.loads((three_ranks / "stages.json").read_text(encoding="utf-8"))
    assert {record["ranks"] for record in records} == {1, 2, 3}
    for record in records:
        assert record["same_everywhere"] and record["equal"] and record["stats"], record
        many = record["ranks"]
        assert record["sharing"] == ("" if many == 1 else f"{many} ranks")


def test_what_one_rank_raises_in_a_shared_stage_is_raised_on_all(three_ranks: Path) -> None:
    found = json.loads((three_ranks / "stages_failed.json").read_text(encoding="utf-8"))
    for name, ranks in found.items():
        assert len(ranks) == 3, name
        own, *others = ranks[1], ranks[0], ranks[2]
        for text in others:
            assert text in (own, f"RemoteError: {own.replace(': ', ' on rank 1: ', 1)}"), (name, ranks)
        assert own != "", name


def test_the_machine_says_what_could_share_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for ways, said in ((4, "1 or up to 4 threads, with threads='auto'"), (1, "1 thread")):
        monkeypatch.setattr(import_module("dae_sdc.run.info"), "cores", lambda ways=ways: ways)
        told = ds.info("machine")
        assert f"auto             {said}; serial below {LEAST_SHARED} unknowns" in told
        assert [line.split("  ")[0] for line in told.splitlines()] == [
            "cores",
            "threads of BLAS",
            "MPI",
            "auto",
        ]
