"""Steps of a given accuracy by sweepers that go from node to node: SDC and embedded Runge-Kutta pairs."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.in_python import InPython
from helpers.pairs import covering_pairs
from helpers.pairs_of_stages import ENDS_BEHIND, IMPLICIT_FIRST, TWO_DIAGONALS
from helpers.sweepers_for import sweepers_for
from pySDC.core.hooks import Hooks
from pySDC.helpers.stats_helper import get_sorted

import dae_sdc as ds
from dae_sdc.run import execution
from dae_sdc.sharing import Recent
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.sweepers.sweep import MOST_SWEEPS
from dae_sdc.sweepers.tableaux import radau_iia

SDC = ("fully-implicit", "semi-implicit", "constrained")


def can_adapt(name: str) -> bool:
    cls: Any = SWEEPERS[name]
    if not issubclass(cls, DirectMethod):
        return True
    try:
        cls.check_adaptive()
    except ds.InputError:
        return False
    return True


CAPABLE = [name for name in sweepers_for("hessenberg-1") if can_adapt(name)]
COLLOCATION = [name for name in CAPABLE if name in SDC or name.startswith("radau")]
PAIRS = [name for name in CAPABLE if name not in COLLOCATION]


def errors(solution: ds.Solution, name: str) -> Any:
    """Errors by step and unknown, relative to 1 + abs(u), with h^(k - 1) for unknowns of index k."""
    assert solution.success, solution.message
    problem = ds.PROBLEMS[name]()
    exact = np.array([problem.u_exact(t) for t in solution.t[1:]])
    h = np.minimum(np.diff(solution.t), 1.0)[:, None]
    index = np.array(problem.variable_index)
    return np.abs(solution.u[1:] - exact) / (1.0 + np.abs(exact)) * h ** (index - 1)


def test_every_kind_of_sweeper_is_tried() -> None:
    assert set(SDC) <= set(CAPABLE)
    assert {"esdirk32", "esdirk43"} <= set(PAIRS)


NEAR = [
    case
    for case in product(COLLOCATION, ("hessenberg-1", "hessenberg-2", "simple"), (1e-4, 1e-7))
    # Steps that seven nodes allow are too long for Newton's method at index 2.
    if case[0] != "radau-iia-13" or case[2] < 1e-5
]


@pytest.mark.parametrize(("sweeper", "name", "rtol"), covering_pairs(NEAR))
def test_the_error_is_near_the_tolerance(sweeper: str, name: str, rtol: float) -> None:
    assert errors(ds.solve(name, sweeper=sweeper, rtol=rtol), name).max() < 30.0 * rtol


@pytest.mark.parametrize("rtol", [1e-4, 1e-7])
@pytest.mark.parametrize("name", ["pendulum", "hessenberg-3"])
@pytest.mark.parametrize("sweeper", SDC)
def test_the_error_is_near_the_tolerance_at_index_3(sweeper: str, name: str, rtol: float) -> None:
    solution = ds.solve(name, sweeper=sweeper, rtol=rtol)
    assert errors(solution, name).max() < 30.0 * rtol
    assert solution.stats["steps"] < 120


@pytest.mark.parametrize("name", ["pendulum", "pendulum-cash"])
@pytest.mark.parametrize("sweeper", SDC)
def test_the_end_is_met_in_few_steps_where_round_off_disturbs_multipliers(sweeper: str, name: str) -> None:
    solution = ds.solve(name, sweeper=sweeper, rtol=1e-10)
    assert solution.success
    assert np.diff(solution.t)[-3:].min() > 0.1 * np.median(np.diff(solution.t))


@pytest.mark.parametrize("rtol", [1e-4, 1e-6])
@pytest.mark.parametrize("sweeper", PAIRS)
def test_embedded_pairs_meet_the_tolerance_at_index_1(sweeper: str, rtol: float) -> None:
    solution = ds.solve("hessenberg-1", sweeper=sweeper, rtol=rtol)
    assert errors(solution, "hessenberg-1").max() < 30.0 * rtol


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("sweeper", [IMPLICIT_FIRST, TWO_DIAGONALS, ENDS_BEHIND])
def test_pairs_of_a_user_meet_the_tolerance(
    monkeypatch: pytest.MonkeyPatch, sweeper: Any, compiled: bool
) -> None:
    monkeypatch.setattr(execution, "_IDLE", Recent(1))  # no stages of other runs
    problem = ds.PROBLEMS["hessenberg-1"]()
    solution = ds.solve(problem if compiled else InPython(problem), sweeper=sweeper, rtol=1e-5)
    # The end of one that is no stage satisfies the algebraic equation only approximately.
    most = 300.0 if sweeper is ENDS_BEHIND else 30.0
    assert errors(solution, "hessenberg-1").max() < most * 1e-5
    # Two entries of the diagonal want two matrices in every step, of one Jacobian.
    stats = solution.stats
    assert (stats["factorization"] >= 2 * stats["steps"]) == (sweeper is TWO_DIAGONALS)
    assert stats["jacobian"] < 1.5 * stats["steps"]


def test_full_tableaux_with_embedded_weights_are_collocation() -> None:
    radau = radau_iia(2)
    rest = {"reference": "a test", "b_embedded": [1.0, 0.0], "embedded_order": 1}
    full = ds.Tableau("full", "Full", radau.A, radau.b, radau.c, 3, radau.orders, **rest)
    solutions = [ds.solve("robertson", sweeper=s, rtol=1e-4) for s in ("radau-iia-3", ds.runge_kutta(full))]
    np.testing.assert_array_equal(solutions[1].u, solutions[0].u)


@pytest.mark.parametrize("name", ["hessenberg-1", "hessenberg-2", "simple"])
@pytest.mark.parametrize("sweeper", [*SDC, *PAIRS])
def test_the_error_decreases_with_the_tolerance(sweeper: str, name: str) -> None:
    settings: dict[str, Any] = {"nodes": 3} if sweeper in SDC else {}
    solutions = [ds.solve(name, sweeper=sweeper, rtol=rtol, **settings) for rtol in (1e-3, 1e-5, 1e-7)]
    loose, medium, tight = (errors(solution, name).max() for solution in solutions)
    # Proportional to it would be 1e-4 in all; runs of a few steps are more exact than they must be.
    assert tight < 0.3 * medium and medium < loose and tight < 0.1 * loose


@pytest.mark.parametrize("sweeper", SDC)
def test_steps_are_few_at_index_2(sweeper: str) -> None:
    solution = ds.solve("simple", sweeper=sweeper, rtol=1e-6)
    assert solution.stats["steps"] + solution.stats["rejected"] < 40
    assert solution.stats["sweeps"] < MOST_SWEEPS * solution.stats["steps"]


@pytest.mark.parametrize("sweeper", SDC)
def test_steps_are_those_of_the_collocation_method(sweeper: str) -> None:
    # The same solution and estimate: only what iterations leave, and the matrix of the filter, differ.
    radau = ds.solve("two-transistor", sweeper="radau-iia-5", rtol=1e-4, t_end=0.05)
    sweeps = ds.solve("two-transistor", sweeper=sweeper, nodes=3, rtol=1e-4, t_end=0.05)
    assert radau.success and sweeps.success
    assert 0.6 < sweeps.stats["steps"] / radau.stats["steps"] < 1.5


def test_nodes_grow_with_the_accuracy() -> None:
    solutions = [ds.solve("hessenberg-1", sweeper="semi-implicit", rtol=rtol) for rtol in (1e-3, 1e-6, 1e-9)]
    nodes = [solution.parameters["nodes"] for solution in solutions]
    assert nodes == sorted(nodes) and nodes[0] < nodes[-1]


@pytest.mark.parametrize("name", ["hessenberg-1", "hessenberg-2"])
@pytest.mark.parametrize("sweeper", [*SDC, *PAIRS])
def test_a_first_step_that_is_too_large_leaves_no_trace(sweeper: str, name: str) -> None:
    rtol = 1e-5
    end = 5.0 if name == "hessenberg-1" else 1.0
    plain = ds.solve(name, sweeper=sweeper, rtol=rtol, t_end=end)
    forced = ds.solve(name, sweeper=sweeper, rtol=rtol, t_end=end, dt=end)
    assert forced.stats["rejected"] > 0
    assert errors(forced, name).max() < 3.0 * errors(plain, name).max() + 3.0 * rtol


@pytest.mark.parametrize("name", ["hessenberg-2", "transmission-line", "two-transistor"])
@pytest.mark.parametrize("sweeper", SDC)
def test_both_backends_take_the_same_steps(sweeper: str, name: str) -> None:
    end = 0.02 if name == "two-transistor" else None
    found = [ds.solve(name, sweeper=sweeper, rtol=1e-4, backend=b, t_end=end) for b in ("compiled", "numpy")]
    assert all(solution.success for solution in found)
    compiled, plain = (solution.stats["steps"] for solution in found)
    # Sums are taken in another order, which may tip a decision.
    assert abs(compiled - plain) <= 0.1 * plain + 1
    scale = 1.0 + np.abs(found[1].u[-1]).max()
    assert np.abs(found[0].u[-1] - found[1].u[-1]).max() < 1e-2 * scale


def test_sweeps_cost_no_iterations_of_the_controller() -> None:
    solution = ds.solve("hessenberg-2", sweeper="semi-implicit", rtol=1e-6)
    assert {count for _, count in get_sorted(solution.log, type="niter")} <= {0}
    assert (solution.per_step["sweeps"][1:] > 0).all()


class Watch(Hooks):  # type: ignore[misc]
    """Looks at iterations, so that sweeps must be such."""

    seen: list[int] = []

    def post_iteration(self, step: Any, level_number: int) -> None:
        super().post_iteration(step, level_number)
        self.seen.append(step.status.iter)


@pytest.mark.parametrize("how", ["hook", "maxiter"])
def test_sweeps_as_iterations_are_the_same_sweeps(how: str) -> None:
    Watch.seen.clear()
    settings: dict[str, Any] = {"hooks": [Watch]} if how == "hook" else {"maxiter": MOST_SWEEPS}
    plain = ds.solve("hessenberg-2", sweeper="semi-implicit", rtol=1e-5)
    watched = ds.solve("hessenberg-2", sweeper="semi-implicit", rtol=1e-5, **settings)
    assert bool(Watch.seen) == (how == "hook")
    np.testing.assert_array_equal(plain.t, watched.t)
    np.testing.assert_allclose(plain.u, watched.u, rtol=1e-13)
    assert plain.stats["sweeps"] == watched.stats["sweeps"]


def test_a_step_of_too_few_iterations_is_repeated_smaller() -> None:
    plain = ds.solve("hessenberg-1", sweeper="semi-implicit", rtol=1e-6)
    limited = ds.solve("hessenberg-1", sweeper="semi-implicit", rtol=1e-6, maxiter=2)
    assert limited.stats["steps"] > plain.stats["steps"]
    assert limited.stats["rejected"] > 0
    assert errors(limited, "hessenberg-1").max() < 3e-5


class Root(ds.ProblemDAE):
    """y' = -40 y, z = sqrt(y): not defined where a polynomial overshoots."""

    index = 1
    interval = (0.0, 0.5)
    names = ("y", "z")

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        f = self.dtype_f(self.init)
        f[0] = du[0] + 40.0 * u[0]
        f[1] = u[1] - np.sqrt(u[0]) if u[0] >= 0.0 else np.nan
        return f

    def u_exact(self, t: float) -> Any:
        return self.state([np.exp(-40.0 * t), np.exp(-20.0 * t)])


@pytest.mark.parametrize("sweeper", [*SDC, *PAIRS])
def test_a_step_that_leaves_the_domain_is_repeated_smaller(sweeper: str) -> None:
    solution = ds.solve(Root, sweeper=sweeper, rtol=1e-4, atol=1e-3, dt=0.5, t_end=0.1)
    assert solution.success, solution.message
    assert solution.stats["rejected"] > 0
    assert np.abs(solution.u[-1] - Root().u_exact(0.1)).max() < 3e-3


class Wall(Root):
    """y' = -1 with z = sqrt(y), which ends at t = 1."""

    interval = (0.0, 2.0)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        f = self.dtype_f(self.init)
        f[0] = du[0] + 1.0
        f[1] = u[1] - np.sqrt(u[0]) if u[0] >= 0.0 else np.nan
        return f

    def u_exact(self, t: float) -> Any:
        return self.state([1.0 - t, np.sqrt(1.0 - t)])


@pytest.mark.parametrize("sweeper", ["semi-implicit", "esdirk43"])
def test_where_no_step_succeeds_the_run_ends_with_the_reason(sweeper: str) -> None:
    solution = ds.solve(Wall, sweeper=sweeper, rtol=1e-4)
    assert not solution.success
    assert 0.9 < solution.t[-1] <= 1.0
    assert "no step from t=" in solution.message and "down to dt=" in solution.message


@pytest.mark.parametrize("sweeper", ["radau-iia-5", "esdirk43", "semi-implicit"])
def test_a_run_whose_steps_would_not_come_to_the_end_is_ended_unless_an_event_ends_it(
    sweeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def turns(t: float, u: Any, du: Any) -> Any:
        return [du[0] - u[1], du[1] + u[0], du[2] - 1.0]

    # 1e12 / 2 pi turns, each of more than two steps; the event comes in twice the time of the other run.
    monkeypatch.setattr("dae_sdc.control.adaptivity.STEPS_OF_PACE", 1000)
    options: dict[str, Any] = {"u0": [1.0, 0.0, 0.0], "t_end": 1e12, "rtol": 1e-6, "sweeper": sweeper}
    endless = ds.solve(turns, **options)
    assert not endless.success
    assert len(endless.t) < 2_000
    assert "steps have led from t=" in endless.message and "more than 1e+10 like them" in endless.message
    end = 2.0 * float(endless.t[-1])
    ended = ds.solve(turns, events=f"u[2] - {end!r}; terminal", **options)
    assert ended.success and len(ended.t) > len(endless.t)
    assert ended.t[-1] == pytest.approx(end, rel=1e-6)


def test_left_out_unknowns_do_not_count() -> None:
    everything = ds.solve("two-transistor", sweeper="semi-implicit", rtol=1e-5, t_end=0.012)
    names = ds.PROBLEMS["two-transistor"]().names
    one = ds.solve("two-transistor", sweeper="semi-implicit", rtol=1e-5, t_end=0.012, leave_out=names[1:])
    assert one.success and one.stats["steps"] < everything.stats["steps"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sweeper": "semi-implicit", "quad": "GAUSS"}, "RADAU-RIGHT"),
        ({"sweeper": "fully-implicit", "quad": "LOBATTO"}, "RADAU-RIGHT"),
        ({"sweeper": "semi-implicit", "restol": 1e-8}, "restol"),
        ({"sweeper": "semi-implicit", "qdelta": "EE"}, "Q_Delta"),
        ({"sweeper": "dirk43-2"}, "error estimate"),
        ({"sweeper": "semi-implicit", "coarse_nodes": 2}, "one level"),
    ],
)
def test_what_cannot_be_done_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ds.InputError, match=words):
        ds.solve("hessenberg-1", rtol=1e-4, **settings)


@pytest.mark.parametrize("name", ["hessenberg-2", "pendulum"])
def test_diagonal_sweeps_with_many_nodes_take_steps_as_large(name: str) -> None:
    # What a node's solve leaves grows 400 times in these sweeps before they reduce it.
    settings: dict[str, Any] = {"sweeper": "semi-implicit", "nodes": 7, "rtol": 1e-6}
    plain, diagonal = (ds.solve(name, qdelta=qdelta, **settings) for qdelta in ("LU", "MIN-SR-S"))
    assert errors(diagonal, name).max() < 3e-5
    assert diagonal.stats["steps"] <= 3 * plain.stats["steps"]


def test_changing_coefficients_keep_the_tolerance() -> None:
    solution = ds.solve("hessenberg-2", sweeper="semi-implicit", rtol=1e-6, qdelta="MIN-SR-FLEX")
    assert errors(solution, "hessenberg-2").max() < 3e-5


def test_nodes_on_ranks_take_the_steps_of_one_process(three_ranks: Path) -> None:
    records = json.loads((three_ranks / "adaptive.json").read_text(encoding="utf-8"))
    assert {record["ranks"] for record in records} == {2, 3}
    alone = {
        record["problem"]: ds.solve(record["problem"], nodes=3, qdelta="MIN-SR-S", **record["settings"])
        for record in records[: len(records) // 2]
    }
    for record in records:
        assert record["same_everywhere"], record
        serial = alone[record["problem"]]
        assert record["message"] == serial.message
        assert record["stats"] == [serial.stats[word] for word in ("steps", "rejected", "sweeps")], record
        np.testing.assert_allclose(record["t"], serial.t, rtol=1e-12)
        np.testing.assert_allclose(record["u"], serial.u[-1], rtol=1e-10, atol=1e-12)
    assert any(record["stats"][1] for record in records)
