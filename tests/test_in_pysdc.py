"""What ``solve`` does, in pySDC's own controllers from nothing but a description."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pySDC.core.hooks import Hooks
from pySDC.helpers.stats_helper import get_sorted
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

import dae_sdc as ds
from dae_sdc.control.adaptivity import AdaptivityDAE
from dae_sdc.control.events import Event, LocateEvents
from dae_sdc.control.invariants import Invariants
from dae_sdc.control.singular import WatchSingularPoints
from dae_sdc.run.resume import SaveCheckpoints
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.sdc import SWEEPERS

SDC = ("fully-implicit", "semi-implicit", "constrained")
SWITCH = np.arccosh(50.0)
"""Where the problem "discontinuous" takes its other branch."""


def description(
    problem: Any, sweeper: str, controls: Any, dt: float = 0.1, nodes: int = 3, **more: Any
) -> dict[str, Any]:
    """What a user of pySDC writes."""
    cls = SWEEPERS[sweeper]
    direct = issubclass(cls, DirectMethod)
    swept = {"num_nodes": nodes, "quad_type": "RADAU-RIGHT", "QI": "LU", **more}
    return {
        "problem_class": ds.PROBLEMS[problem] if isinstance(problem, str) else problem,
        "problem_params": {},
        "sweeper_class": cls,
        "sweeper_params": {} if direct else swept,
        "level_params": {"dt": dt, "restol": -1.0 if direct else 1e-12},
        "step_params": {"maxiter": 1 if direct else 80},
        "convergence_controllers": controls,
    }


def made(given: dict[str, Any], steps: int = 1, hooks: Any = (), **params: Any) -> Any:
    quiet = {"logger_level": 40, "dump_setup": False, "mssdc_jac": False, "hook_class": list(hooks)}
    return controller_nonMPI(steps, {**quiet, **params}, given)


def run(controller: Any, t_end: float, t0: float | None = None, u0: Any = None) -> tuple[Any, Any]:
    P = controller.MS[0].levels[0].prob
    start = P.interval[0] if t0 is None else t0
    end, stats = controller.run(u0=P.u_exact(start) if u0 is None else u0, t0=start, Tend=t_end)
    return np.array(end), stats


def times(stats: Any, kind: str) -> list[float]:
    return [value for _, value in get_sorted(stats, type=kind)]


def events_of(controller: Any) -> LocateEvents:
    return next(one for one in controller.convergence_controllers if isinstance(one, LocateEvents))


def error(controller: Any, end: Any, t: float) -> float:
    return float(np.abs(end - np.array(controller.MS[0].levels[0].prob.u_exact(t))).max())


# --- events -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweeper", SDC)
def test_a_switch_is_met_in_every_run_of_a_fixed_step_size(sweeper: str) -> None:
    for nodes, dt in product((2, 3, 4, 5), (0.2, 0.1, 0.07, 0.05, 0.04)):
        own = made(description("discontinuous", sweeper, {LocateEvents: {}}, dt, nodes))
        end, stats = run(own, 5.0)
        assert error(own, end, 5.0) <= 1e-10, (nodes, dt)
        assert len(times(stats, "switch")) == 1
        # Back on the grid after the switch.
        ends = [t for t, _ in get_sorted(stats, type="residual_post_step", recomputed=False)]
        off = np.abs((np.array(ends) - 1.0) / dt - np.round((np.array(ends) - 1.0) / dt)) > 1e-6
        assert off.sum() <= 1


@pytest.mark.parametrize(("steps", "jacobi"), [(2, True), (3, False), (4, True)])
@pytest.mark.parametrize("sweeper", SDC)
def test_a_switch_is_met_where_steps_iterate_together(sweeper: str, steps: int, jacobi: bool) -> None:
    for dt in (0.1, 0.07):
        given = description("discontinuous", sweeper, {LocateEvents: {}}, dt, 5)
        own = made(given, steps, mssdc_jac=jacobi)
        end, stats = run(own, 5.0, t0=3.7)
        assert error(own, end, 5.0) <= 1e-10
        assert times(stats, "switch") == pytest.approx([SWITCH], abs=1e-9)
        alone, seen = run(made(given), 5.0, t0=3.7)
        np.testing.assert_allclose(end, alone, rtol=1e-11)
        # Steps that were repeated are marked: what counts is what single steps come to.
        ends = [get_sorted(one, type="residual_post_step", recomputed=False) for one in (stats, seen)]
        np.testing.assert_allclose([t for t, _ in ends[0]], [t for t, _ in ends[1]], rtol=1e-9)


@pytest.mark.parametrize("sweeper", ["radau-iia-5", "esdirk43"])
@pytest.mark.parametrize("steps", [1, 2])
def test_runge_kutta_methods_meet_a_switch(sweeper: str, steps: int) -> None:
    own = made(description("discontinuous", sweeper, {LocateEvents: {}}, 0.05), steps)
    end, stats = run(own, 5.0)
    assert error(own, end, 5.0) <= 1e-9
    assert times(stats, "switch") == pytest.approx([SWITCH], abs=1e-4)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_terminal_event_ends_the_run_and_the_controller_can_run_again(steps: int) -> None:
    watched = [lambda u, t: u[0] - 10.0, Event(lambda u, t: u[0] - 20.0, terminal=True)]
    own = made(
        description("discontinuous", "semi-implicit", {LocateEvents: {"events": watched}}, nodes=5), steps
    )
    for _ in range(2):
        end, stats = run(own, 5.0)
        assert end[0] == pytest.approx(20.0, abs=1e-12)
        assert times(stats, "event") == pytest.approx([np.arccosh(10.0), np.arccosh(20.0)], abs=1e-8)
        assert "ended at event" in events_of(own).message
    ten, twenty = (watch.record(own.MS[0].levels[0].prob.n) for watch in events_of(own).events)
    assert ten.t == pytest.approx([np.arccosh(10.0)], abs=1e-8) and len(twenty) == 1


@pytest.mark.parametrize(("steps", "jacobi"), [(1, False), (3, False), (4, True)])
@pytest.mark.parametrize("sweeper", [*SDC, "radau-iia-5", "esdirk43"])
def test_a_step_ends_behind_its_switch_without_any_control(sweeper: str, steps: int, jacobi: bool) -> None:
    for nodes in (2, 5) if sweeper in SDC else (3,):
        own = made(description("discontinuous", sweeper, {}, nodes=nodes), steps, mssdc_jac=jacobi)
        end, stats = run(own, 4.9, t0=4.6)
        assert error(own, end, 4.9) <= 1e-12
        assert len(get_sorted(stats, type="residual_post_step")) == 3  # the grid stays
    kept = made(description("discontinuous", sweeper, {}), steps, mssdc_jac=jacobi)
    for step in kept.MS:
        step.levels[0].sweep.params.locate_switches = False
        step.levels[0].params.restol *= 100.0  # residuals of larger values round off
    assert error(kept, run(kept, 4.9, t0=4.6)[0], 4.9) > 1.0


class Levels(ds.ProblemDAE):
    """y' = z with z = 1, 3 and 2 as y is below 0.52, up to 0.57 and above; z is algebraic, and jumps."""

    index = 1
    back = False

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.rate = 1.0

    def switches(self, u: Any, t: float) -> tuple[float, float]:
        return u[0] - 0.52, u[0] - 0.57

    def start_step(self, u: Any, t: float) -> None:
        first, second = self.sides(u, t)
        self.rate = (2.0 if second > 0 else 3.0 if first > 0 else 1.0) * (
            -1.0 if self.back and first > 0 else 1.0
        )

    def eval_f(self, u: Any, du: Any, t: float) -> list[float]:
        return [du[0] - u[1], u[1] - self.rate]


@pytest.mark.parametrize("sweeper", [*SDC, "radau-iia-5", "backward-euler"])
def test_several_switches_in_one_step_are_met_one_after_the_other(sweeper: str) -> None:
    own = made(description(Levels, sweeper, {}, dt=0.5))
    end, _ = run(own, 1.0, t0=0.0, u0=[0.0, 1.0])
    # At t = 0.52 and 0.52 + 0.05 / 3.
    np.testing.assert_allclose(end, [0.57 + 2.0 * (0.48 - 0.05 / 3.0), 2.0], rtol=1e-13)
    P = own.MS[0].levels[0].prob
    assert not P.located


def test_a_solution_that_slides_along_a_switch_is_told() -> None:
    own = made(description(type("Sliding", (Levels,), {"back": True}), "semi-implicit", {}, dt=0.5))
    with pytest.raises(ds.SolveError, match=r"again and again.*locate_switches=False"):
        run(own, 1.0, t0=0.0, u0=[0.0, 1.0])


def test_events_need_one_level() -> None:
    given = description("discontinuous", "semi-implicit", {LocateEvents: {}}, num_nodes=[3, 2])
    given |= {"base_transfer_class": ds.TransferDAE, "space_transfer_class": ds.SameUnknowns}
    with pytest.raises(ds.InputError, match="one level"):
        made(given)


# --- steps of a given accuracy ------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["hessenberg-1", "hessenberg-2", "hessenberg-3", "discontinuous"])
@pytest.mark.parametrize("sweeper", [*SDC, "radau-iia-5", "esdirk43"])
def test_steps_of_a_given_accuracy_are_those_of_solve(sweeper: str, problem: str) -> None:
    nodes = {"nodes": 4} if sweeper in SDC else {}
    t_end = 5.0 if problem == "discontinuous" else 1.0
    controls: dict[Any, Any] = {AdaptivityDAE: {"rtol": 1e-6, "t_end": t_end}}
    if problem == "discontinuous":
        controls[LocateEvents] = {}
    given = description(problem, sweeper, controls, **nodes)
    if (sweeper, problem) == ("esdirk43", "hessenberg-3"):
        with pytest.raises(ds.InputError, match=r"error estimate of 'ESDIRK43DAE' .* index 2"):
            made(given)
        return
    own = made(given)
    end, stats = run(own, t_end)
    known = ds.solve(problem, sweeper=sweeper, rtol=1e-6, t_end=t_end, **nodes)
    assert np.array_equal(end, known.u[-1])
    assert len(get_sorted(stats, type="niter", recomputed=False)) >= known.stats["steps"]


def test_end_and_tolerance_may_stand_in_the_parameters_of_the_controller() -> None:
    def given() -> Any:
        return description("hessenberg-2", "semi-implicit", {AdaptivityDAE: {}})

    end, _ = run(made(given(), rtol=1e-6, t_end=1.0), 1.0)
    known = ds.solve("hessenberg-2", sweeper="semi-implicit", rtol=1e-6, t_end=1.0, nodes=3)
    assert np.array_equal(end, known.u[-1])
    with pytest.raises(ds.InputError, match="needs t_end"):
        made(given(), rtol=1e-6)
    with pytest.raises(ds.InputError, match="needs rtol"):
        made(given(), t_end=1.0)
    with pytest.raises(ds.InputError, match=r"t_end=1, but .* Tend=2"):
        run(made(given(), rtol=1e-6, t_end=1.0), 2.0)
    with pytest.raises(ds.InputError, match=r"one step at a time .* got 2"):
        made(given(), 2, rtol=1e-6, t_end=1.0)


# --- invariants, singular points, checkpoints ---------------------------------------------------------------


@pytest.fixture(scope="module")
def pendulum() -> Any:
    """A pendulum of index 1 with its invariants."""
    return ds.reduce("pendulum")


@pytest.mark.parametrize("controls", [{}, {AdaptivityDAE: {"rtol": 1e-6, "t_end": 1.0}}])
def test_ends_of_steps_are_projected_on_invariants(pendulum: Any, controls: dict[Any, Any]) -> None:
    for project in (True, False):
        given = description(pendulum.problem, "semi-implicit", {**controls, Invariants: {"project": project}})
        own = made(given)
        P = own.MS[0].levels[0].prob
        start = P.state([-1.0, 0.0, 0.0, 0.0, 0.0])
        end, stats = run(own, 1.0, t0=0.0, u0=start)
        drift = [value for _, value in get_sorted(stats, type="drift", recomputed=False)]
        left = np.abs(P.invariants(P.state(end), 1.0)).max()
        assert (max(drift) <= 1e-12) == (left <= 1e-12) == project
        found = next(one for one in own.convergence_controllers if isinstance(one, Invariants)).summary()
        assert found["drift"] == max(drift)


def test_projections_need_invariants_and_single_steps(pendulum: Any) -> None:
    with pytest.raises(ds.InputError, match="has no invariants"):
        made(description("hessenberg-1", "semi-implicit", {Invariants: {}}))
    with pytest.raises(ds.InputError, match=r"Invariants needs one step at a time .* got 2 steps"):
        made(description(pendulum.problem, "semi-implicit", {Invariants: {}}), 2)
    own = made(description(pendulum.problem, "semi-implicit", {Invariants: {"project": False}}, 0.02), 2)
    _, stats = run(own, 0.2, t0=0.0, u0=own.MS[0].levels[0].prob.state([-1.0, 0.0, 0.0, 0.0, 0.0]))
    assert len(get_sorted(stats, type="drift")) == 10


def test_a_run_ends_before_a_singular_point() -> None:
    # x' = -1/2, z^2 = x: the rank falls where z = 0, at t = 2.
    m = ds.Model("root")
    x, z = m.variables("x z", start=[1.0, 1.0])
    m.equations(m.der(x) + 0.5, z**2 - x)
    controls = {AdaptivityDAE: {"rtol": 1e-6, "t_end": 3.0}}
    own = made(description(m.problem, "semi-implicit", controls), hooks=[WatchSingularPoints])
    with pytest.raises(ds.SolveError, match="singular"):
        run(own, 3.0, t0=0.0, u0=own.MS[0].levels[0].prob.state([1.0, 1.0]))
    assert 1.5 < own.MS[0].time <= 2.0
    with pytest.raises(ds.InputError, match="models and quasilinear"):
        run(made(description("hessenberg-1", "semi-implicit", {}), hooks=[WatchSingularPoints]), 0.5)
    own = made(description(m.problem, "semi-implicit", {}), 2, hooks=[WatchSingularPoints])
    with pytest.raises(ds.InputError, match="got 2 steps"):
        run(own, 0.5, 0.0, own.MS[0].levels[0].prob.state([1.0, 1.0]))


class Crash(Hooks):  # type: ignore[misc]
    """Ends a run behind a time."""

    at = np.inf

    def post_step(self, step: Any, level_number: int) -> None:
        super().post_step(step, level_number)
        if step.levels[0].time > self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("controls", [{}, {AdaptivityDAE: {"rtol": 1e-7, "t_end": 5.0}}])
@pytest.mark.parametrize("sweeper", ["semi-implicit", "radau-iia-5"])
def test_a_run_goes_on_from_its_checkpoint_to_the_last_bit(
    sweeper: str, controls: dict[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(at: float, resume: bool, name: str = "run.npz") -> Any:
        monkeypatch.setattr(Crash, "at", at)
        saved = {"checkpoint": tmp_path / name, "every": 3, "resume": resume}
        given = description(
            "discontinuous", sweeper, {**controls, LocateEvents: {}, SaveCheckpoints: saved}, 0.05, 4
        )
        own = made(given, hooks=[Crash])
        end, _ = run(own, 5.0)
        record = next(one for one in own.convergence_controllers if isinstance(one, SaveCheckpoints)).record
        rows = record.rows.columns()
        return end.tolist(), rows["t"].tolist(), events_of(own).switches[0].times

    whole = outcome(np.inf, False, "whole.npz")
    with pytest.raises(KeyboardInterrupt):
        outcome(3.0, False)
    assert outcome(np.inf, True) == whole
    with pytest.raises(ds.InputError, match="checkpoint of another run"):
        other = {SaveCheckpoints: {"checkpoint": tmp_path / "run.npz", "resume": True}}
        made(description("hessenberg-1", sweeper, other))


def test_checkpoints_need_a_file_and_single_steps(tmp_path: Path) -> None:
    with pytest.raises(ds.InputError, match="needs checkpoint"):
        made(description("simple", "semi-implicit", {SaveCheckpoints: {}}))
    with pytest.raises(ds.InputError, match="SaveCheckpoints needs one step at a time"):
        made(
            description("simple", "semi-implicit", {SaveCheckpoints: {"checkpoint": tmp_path / "run.npz"}}), 2
        )


# --- on ranks -----------------------------------------------------------------------------------------------


def test_events_and_tolerances_work_on_ranks(three_ranks: Path) -> None:
    found = json.loads((three_ranks / "in_pysdc.json").read_text(encoding="utf-8"))
    assert len(found["fixed"]) == 20
    for *case, error_at_end, switches in found["fixed"]:
        assert error_at_end <= 1e-10, case
        assert len(switches[0]) == 1 and switches == [switches[0]] * 3, case
    for one in found["terminal"]:
        assert one["u"][0] == pytest.approx(20.0, abs=1e-12)
        assert one["events"] == pytest.approx([np.arccosh(10.0), np.arccosh(20.0)], abs=1e-8)
    for runs in (*found["nodes"], found["alone"]):
        assert runs == [runs[0]] * 3
        assert runs[0]["error"] <= 1e-9 and len(runs[0]["switches"]) == 1
    assert found["refused"] == [found["refused"][0]] * 3
    assert "got 3 steps" in found["refused"][0]
