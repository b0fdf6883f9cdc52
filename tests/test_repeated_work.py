"""What a run needs once is not calculated again, and what has changed is."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from helpers.readings import counted_readings

import dae_sdc as ds
from dae_sdc.compiled import triangular
from dae_sdc.control import stepping
from dae_sdc.control.stepping import SteppingController
from dae_sdc.dae import consistency
from dae_sdc.initial import contradictions, index
from dae_sdc.problems.power import WSCC9BusSystem
from dae_sdc.run import execution, target, tracing
from dae_sdc.sharing import Recent
from dae_sdc.sweepers import _answers
from dae_sdc.sweepers._machine_stages import MachineStages

SOLVE: Any = import_module("dae_sdc.run.solve")
# What is kept from run to run, by the module and the name in it.
KEPT: list[tuple[Any, str]] = [
    *((execution, "_IDLE"), (consistency, "_STARTS"), (SOLVE, "_PREPARED")),
    *((_answers, "_PIVOTS"), (tracing, "_COMPARED")),
]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[Recent[Any, Any]]:
    """What runs keep for the next ones, empty as in a new process."""
    empty: list[Recent[Any, Any]] = [Recent(getattr(module, name).most) for module, name in KEPT]
    for (module, name), own in zip(KEPT, empty, strict=True):
        monkeypatch.setattr(module, name, own)
    return empty


def counted_calls(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[str]:
    """The name, once for each call of a function."""
    calls, function = list[str](), getattr(owner, name)

    def counted(*given: Any, **named: Any) -> Any:
        calls.append(name)
        return function(*given, **named)

    monkeypatch.setattr(owner, name, counted)
    return calls


def assert_same_run(one: ds.Solution, other: ds.Solution) -> None:
    """The digits, the work and what is said of two runs are the same."""
    for part in ("t", "u", "du"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    assert (one.message, one.stats, one.parameters) == (other.message, other.stats, other.parameters)


def reaction(t: float, u: Any, du: Any) -> Any:
    """Robertson's reaction, whose start does not tell the size of the second unknown."""
    a, b, c = u
    net, pairs = 0.04 * a - 1e4 * b * c, 3e7 * b * b
    return [du[0] + net, du[1] - net + pairs, a + b + c - 1.0]


def row_of_diodes(t: float, u: Any, du: Any) -> Any:
    """A row of resistors behind a source, with a diode and a capacitor at every second node."""
    before = np.concatenate(([np.sin(100.0 * np.pi * t)], u[:-1]))
    current = (before - u) / 100.0
    into = np.array(current)
    into[:-1] -= current[1:]
    into[1::2] -= 1e-6 * du[1::2] + 1e-12 * (np.exp(u[1::2] / 0.026) - 1.0)
    return into


def test_a_run_begins_with_the_sizes_that_one_like_it_has_learnt(
    monkeypatch: pytest.MonkeyPatch, kept: list[Recent[Any, Any]]
) -> None:
    attempts, runs, counts = counted_calls(monkeypatch, SteppingController, "_carry_out"), [], []
    for rtol in (1e-6, 1e-6, 1e-4, 1e-6):
        attempts.clear()
        runs.append(ds.solve(reaction, u0=[1.0, 0.0, 0.0], t_end=4e4, rtol=rtol))
        counts.append(len(attempts))
    assert counts[0] > 1 and counts[1] == counts[3] == 1 and counts[2] > 1
    assert_same_run(runs[0], runs[1])
    assert_same_run(runs[0], runs[3])


def test_the_next_attempt_at_a_run_begins_with_the_balance_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch, kept: list[Recent[Any, Any]]
) -> None:
    asked: dict[str, Any] = {"u0": [1.0, 0.0, 0.0], "t_end": 4e4, "rtol": 1e-5}
    balances = counted_calls(monkeypatch, consistency, "_balance_at_start")
    attempts = counted_calls(monkeypatch, SteppingController, "_carry_out")
    run = ds.solve(reaction, **asked)
    assert len(attempts) > 1 and len(balances) == 1
    for module in (consistency, stepping):  # nothing is known of any start
        monkeypatch.setattr(module, "known_start", lambda key: None)
    attempts.clear(), balances.clear()
    assert_same_run(run, ds.solve(reaction, **asked))
    assert len(attempts) == len(balances) > 1


def test_a_sweep_leaves_what_is_kept_of_other_runs(
    monkeypatch: pytest.MonkeyPatch, kept: list[Recent[Any, Any]]
) -> None:
    asked: dict[str, Any] = {"u0": [1.0, 1.0], "t_end": 1.0, "rtol": 1e-6}
    ds.solve(decay_by_rates, **asked)
    prepared = counted_calls(monkeypatch, SOLVE, "start_of")
    runs = ds.sweep(decay_by_rates, {"power": np.linspace(1.0, 2.0, SOLVE.MOST_PREPARED + 1)}, **asked)
    assert len(runs) == len(prepared) == SOLVE.MOST_PREPARED + 1
    ds.solve(decay_by_rates, **asked)
    assert len(prepared) == SOLVE.MOST_PREPARED + 1


@pytest.mark.parametrize(("speed", "looks"), [(0.0, 1), (1e-8, 3)])
def test_a_start_that_satisfies_all_constraints_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, speed: float, looks: int
) -> None:
    looked = counted_calls(monkeypatch, contradictions, "follow")
    start = {"x": 1.0, "y": 0.0, "vx": speed, "vy": 0.0, "tension": 0.0}
    solution = ds.solve(pendulum, u0=start, t_end=0.1, rtol=1e-3 * (1.0 + looks))
    assert abs(solution.u[0, 2]) <= 1e-13 and len(looked) == looks


def test_runs_with_other_numbers_go_on_with_what_is_bound_and_give_the_same(
    monkeypatch: pytest.MonkeyPatch, kept: list[Recent[Any, Any]]
) -> None:
    told = counted_calls(monkeypatch, MachineStages, "_ask_equations")
    asked: dict[str, Any] = {"problem": "pendulum", "rtol": 1e-6}
    for gravity in (9.0, 10.0, 9.5):
        run = ds.solve(**asked, params={"g": gravity, "l": 1.1})
        assert len(told) == 1
        with monkeypatch.context() as alone:
            for module, name in KEPT:
                alone.setattr(module, name, Recent(getattr(module, name).most))
            assert_same_run(run, ds.solve(**asked, params={"g": gravity, "l": 1.1}))
        assert told.pop() and len(told) == 1


def test_a_run_that_is_interrupted_leaves_nothing_to_the_next(
    monkeypatch: pytest.MonkeyPatch, kept: list[Recent[Any, Any]]
) -> None:
    asked: dict[str, Any] = {"u0": [1.0, 0.0, 0.0], "t_end": 40.0, "rtol": 1e-4}
    expected, take = ds.solve(reaction, **asked), MachineStages.take_steps

    def interrupted(self: Any, *given: Any) -> Any:
        take(self, *given)
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped, pytest.raises(KeyboardInterrupt):
        stopped.setattr(MachineStages, "take_steps", interrupted)
        ds.solve(reaction, **asked)
    assert not kept[0]
    assert_same_run(expected, ds.solve(reaction, **asked))


def test_pivots_of_equal_matrices_are_chosen_once(
    monkeypatch: pytest.MonkeyPatch, kept: list[Recent[Any, Any]]
) -> None:
    chosen = counted_calls(monkeypatch, triangular, "superlu_factors")
    asked: dict[str, Any] = {"u0": [0.0] * 100, "t_end": 0.02, "rtol": 1e-6}
    first = ds.solve(row_of_diodes, **asked)
    assert chosen and not chosen.clear()
    assert_same_run(first, ds.solve(row_of_diodes, **asked))
    assert not chosen


RATES = {"k": 1.0}


def decay_by_rates(t: float, u: Any, du: Any, power: float = 1.0) -> Any:
    """x' = -k x with a rate that stands outside of the function, and y = x^power."""
    return [du[0] + RATES["k"] * u[0], u[1] - u[0] ** power]


def test_a_function_is_prepared_once_and_again_where_what_it_reads_has_changed(
    monkeypatch: pytest.MonkeyPatch, kept: list[Recent[Any, Any]]
) -> None:
    prepared = counted_calls(monkeypatch, SOLVE, "start_of")
    for rate, power, times in ((1.0, 1.0, 1), (1.0, 1.0, 1), (2.0, 1.0, 2), (2.0, 1.0, 2), (2.0, 3.0, 3)):
        monkeypatch.setitem(RATES, "k", rate)
        monkeypatch.setattr(decay_by_rates, "__defaults__", (power,))
        run = ds.solve(decay_by_rates, u0=[1.0, 1.0], t_end=1.0, rtol=1e-8)
        assert len(prepared) == times
        assert run.u[-1] == pytest.approx([np.exp(-rate), np.exp(-power * rate)], rel=1e-6)
    run = ds.solve(decay_by_rates, u0=[2.0, 8.0], t_end=1.0, rtol=1e-8)
    assert len(prepared) == 4 and run.u[-1, 0] == pytest.approx(2.0 * np.exp(-2.0), rel=1e-6)


@pytest.fixture
def reductions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the models whose index is reduced in a test that begins with none known."""
    from dae_sdc.reduction import reduction

    names: list[str] = []
    reduce_index = reduction.reduce_index

    def counted(model: Any, *given: Any, **named: Any) -> Any:
        names.append(model.name)
        return reduce_index(model, *given, **named)

    monkeypatch.setattr(reduction, "reduce_index", counted)
    known = dict(target._CALCULATED)
    target._CALCULATED.clear()
    yield names
    target._CALCULATED.clear()
    target._CALCULATED.update(known)


def test_a_model_of_the_library_is_analysed_once(reductions: list[str]) -> None:
    run = {"t_end": 0.01, "rtol": 1e-5, "reduce": True}
    first, second = (ds.solve("transistor-amplifier", **run) for _ in range(2))
    assert reductions == ["transistor-amplifier"]
    np.testing.assert_array_equal(first.u, second.u)


def test_whether_equations_are_linear_is_found_once_for_all_tolerances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def driven(t: float, u: Any, du: Any) -> Any:
        """A mass at the place sin(t) on a spring, and the force that holds it there, of index 3."""
        place, speed, force = u
        return [du[0] - speed, du[1] + place - force, place - np.sin(t)]

    asked, runs = counted_calls(monkeypatch, index, "is_linear"), []
    for rtol in (1e-5, 1e-6):
        runs.append(ds.solve(driven, u0=[0.0, 1.0, 0.0], t_end=1.0, rtol=rtol))
        assert runs[-1].u[-1, :2] == pytest.approx([np.sin(1.0), np.cos(1.0)], abs=1e-5)
    assert all("index 3 reduced to 1 first" in run.message for run in runs) and len(asked) == 1


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the classes of the problems whose equations are read in a test."""
    return counted_readings(monkeypatch)


def pendulum(t: float, u: Any, du: Any) -> Any:
    """A pendulum of length 1 in Cartesian coordinates, of index 3."""
    x, y, vx, vy, tension = u
    forces = [du[2] + tension * x, du[3] + tension * y + 9.81]
    return [du[0] - vx, du[1] - vy, *forces, x**2 + y**2 - 1.0]


def test_a_reduction_that_is_asked_for_is_found_once_for_all_starts(
    reductions: list[str], reads: list[str]
) -> None:
    asked: dict[str, Any] = {"t_end": 0.3, "rtol": 1e-8, "reduce": True}
    for angle in (0.0, 0.0, 0.5):
        place = [float(np.cos(angle)), float(-np.sin(angle))]
        solution = ds.solve(pendulum, u0=[*place, 0.0, 0.0, -9.81 * place[1]], **asked)
        x, y, vx, vy, _ = solution.u[-1]
        assert x**2 + y**2 == pytest.approx(1.0, abs=1e-7)
        energy = 0.5 * (vx**2 + vy**2) + 9.81 * y
        assert energy == pytest.approx(9.81 * place[1], abs=1e-5)
    assert len(reductions) == len(reads) == 1


def test_a_class_that_makes_its_residual_as_those_of_pysdc_do_is_read_once(reads: list[str]) -> None:
    class Decay(ds.ProblemDAE):
        def __init__(self, rate: float = 1.0) -> None:
            super().__init__(1, 1)
            self.rate = rate

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            residual = self.dtype_f(self.init)
            residual.diff[:] = du.diff + self.rate * u.alg
            residual.alg[:] = u.alg - u.diff
            return residual

    for rate in (1.0, 1.0, 3.0):
        solution = ds.solve(Decay, params={"rate": rate}, u0=[1.0, 1.0], t_end=1.0, rtol=1e-8)
        assert solution.parameters["equations"] == "traced"
        assert solution.u[-1, 0] == pytest.approx(np.exp(-rate), rel=1e-6)
    assert reads == ["Decay"]


def test_the_balance_of_sizes_at_a_start_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    balances: list[float] = []
    balance = consistency._balance

    def counted(problem: Any, u0: Any, *given: Any) -> Any:
        balances.append(float(u0[0]))
        return balance(problem, u0, *given)

    monkeypatch.setattr(consistency, "_balance", counted)
    monkeypatch.setattr(consistency, "_STARTS", Recent(consistency.REMEMBERED_STARTS))
    for rate, start in ((1.0, 1.0), (1.0, 1.0), (1.0, 2.0), (3.0, 2.0), (1.0, 2.0)):
        solution = ds.solve(decay(1.0), params={"k": rate}, u0={"x": start, "y": start}, rtol=1e-8)
        assert solution["x"][-1] == pytest.approx(start * np.exp(-rate), rel=1e-6)
    assert balances == [1.0, 2.0, 2.0]  # for other starts and other parameters, and not again


def decay(rate: float) -> Any:
    """x' = -k y with y = x, from x = 1; the derivatives stand in a singular matrix."""
    model = ds.Model("decay", interval=(0.0, 1.0))
    x, y = model.variables("x y", start=[1.0, 1.0], fixed=[True, False])
    k = model.parameter("k", rate)
    model.equations(model.der(x) + model.der(y) + 2 * k * y, x - y)
    return model


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda model: setattr(model.parameters_by_name["k"], "value", 3.0), np.exp(-3.0)),
        (lambda model: model.variables_by_name["x"].start.update({0: 2.0}), 2.0 * np.exp(-1.0)),
        (lambda model: None, np.exp(-1.0)),
    ],
)
def test_a_model_that_has_changed_is_analysed_again(change: Any, expected: float) -> None:
    model = decay(1.0)
    assert ds.solve(model, rtol=1e-8).u[-1, 0] == pytest.approx(np.exp(-1.0), rel=1e-6)
    change(model)
    assert ds.solve(model, rtol=1e-8)["x"][-1] == pytest.approx(expected, rel=1e-6)


def test_results_of_few_models_are_kept() -> None:
    for number in range(target.REMEMBERED + 3):
        ds.solve(decay(1.0 + number), rtol=1e-4)
    assert len(target._CALCULATED) <= target.REMEMBERED


def test_a_twin_counts_and_has_sizes_by_itself() -> None:
    problem = ds.PROBLEMS["robertson"]()
    problem.run_scales.moves[:] = 0.5  # of values at the start, which the run is to know
    twin = target.twin_of(problem)
    twin.evaluate(problem.u_exact(0.0), problem.du_exact(0.0), 0.0)
    twin.run_scales.unknowns[:] = 7.0
    assert twin.work_counters["rhs"].niter == 1 and problem.work_counters["rhs"].niter == 0
    assert twin.run_scales.moves.tolist() == [0.5] * 3 and (problem.run_scales.unknowns < 7.0).all()


def test_steps_have_a_problem_of_a_user_for_themselves_as_it_may_change() -> None:
    seen: dict[int, list[float]] = {}

    class Slower(ds.ProblemDAE):
        def __init__(self) -> None:
            super().__init__(1, 0)
            self.times: list[float] = []

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            seen.setdefault(id(self.times), self.times).append(t)
            return [du[0] + u[0]]

    for _ in range(2):  # the second run has the controller of the first
        seen.clear()
        ds.solve(Slower, u0=[1.0], t_end=1.0, rtol=1e-4)
        assert len(seen) == 2  # before and after the steps, and in these


def kept_of(recent: Recent[str, str], *keys: str) -> list[str]:
    """The keys of the results that are calculated, of those that are asked for in this order."""
    calculated: list[str] = []

    def calculate(key: str) -> str:
        calculated.append(key)
        return key.upper()

    for key in keys:
        assert recent.of(key, lambda key=key: calculate(key)) == key.upper()  # type: ignore[misc]
    return calculated


def test_results_used_last_are_kept_and_stand_last() -> None:
    recent: Recent[str, str] = Recent(2)
    assert kept_of(recent, "a", "b", "a", "c", "a", "b") == ["a", "b", "c", "b"]
    assert list(recent) == ["a", "b"]


def test_the_last_result_is_kept_whatever_its_size_and_lets_others_go() -> None:
    recent: Recent[str, str] = Recent(5, len)
    assert kept_of(recent, "aa", "bb", "c", "aa") == ["aa", "bb", "c"]
    assert kept_of(recent, "dd") == ["dd"] and list(recent) == ["c", "aa", "dd"]  # 2 of 5 were those of bb
    assert kept_of(recent, "eeeeeeee", "eeeeeeee") == ["eeeeeeee"] and list(recent) == ["eeeeeeee"]


def test_a_calculation_that_fails_leaves_nothing() -> None:
    recent: Recent[str, float] = Recent(2)
    with pytest.raises(ZeroDivisionError):
        recent.of("a", lambda: 1.0 / 0.0)
    assert not recent and recent.of("a", lambda: 1.0) == 1.0


def test_a_switch_that_rests_at_its_zero_is_not_followed_by_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A valve that is held at its limit is there but for rounding: the samples of a step are enough."""
    calls: list[float] = []
    switches = WSCC9BusSystem.switches

    def counted(self: Any, u: Any, t: float) -> Any:
        calls.append(t)
        return switches(self, u, t)

    monkeypatch.setattr(WSCC9BusSystem, "switches", counted)
    solution = ds.solve("wscc9", rtol=1e-6)
    limit = solution.switches[0].t[0]
    steps = int((solution.t > limit).sum())
    assert steps > 3
    assert sum(t > limit + 1e-9 for t in calls) <= 17 * steps


def test_newton_failures_that_shorter_steps_cure_do_not_call_for_fewer_nodes() -> None:
    """In front of the jumps of its gates every second step of the charge pump fails."""
    solution = ds.solve("charge-pump", rtol=1e-6)
    assert solution.success and "fewer_nodes" not in solution.stats


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "kernels": ("robertson", {"rtol": 1e-6, "t_end": 100.0}),
    "other parameters": ("robertson", {"rtol": 1e-6, "t_end": 100.0, "params": {"newton_tol": 1e-9}}),
    "another tolerance": ("robertson", {"rtol": 1e-8, "t_end": 100.0}),
    "index 3": ("pendulum", {"rtol": 1e-8}),
    "model": ("transistor-amplifier", {"rtol": 1e-5, "t_end": 0.01}),
    "output times": ("pendulum", {"rtol": 1e-5, "points": 30, "dense": False}),
    "embedded pair": ("simple", {"rtol": 1e-6, "sweeper": "esdirk43"}),
    "function": (
        lambda t, u, du, k=1.0: [du[0] + k * u[0], u[1] - u[0] ** 2],
        {"u0": [1.0, 1.0], "t_end": 2.0, "rtol": 1e-7, "params": {"k": 1.5}},
    ),
    "sizes learnt": (reaction, {"u0": [1.0, 0.0, 0.0], "t_end": 4e4, "rtol": 1e-6}),
    "sparse": (row_of_diodes, {"u0": [0.0] * 100, "t_end": 0.02, "rtol": 1e-5}),
    "function of index 3": (
        pendulum,
        {"u0": [1.0, 0.0, 0.0, 0.0, 0.0], "t_end": 1.0, "rtol": 1e-6, "reduce": False},
    ),
}


def test_runs_are_those_of_a_new_process_whatever_ran_before(kept: list[Recent[Any, Any]]) -> None:
    alone = {}
    for name, (problem, options) in KINDS.items():
        for recent in kept:
            recent.clear()
        alone[name] = ds.solve(problem, **options)
    for recent in kept:
        recent.clear()
    failing = {"u0": [1.0, 1.0], "t_end": 2.0, "rtol": 1e-7}
    for name in (*KINDS, *reversed(KINDS), *KINDS):
        problem, options = KINDS[name]
        other = ds.solve(lambda t, u, du: [du[0] - u[0] ** 2, u[1] - u[0]], **failing)
        assert not other.success  # its solution ends at t = 1
        assert_same_run(ds.solve(problem, **options), alone[name])
    for recent in kept:
        assert 0 < len(recent) <= recent.most


def test_controllers_of_few_kinds_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_IDLE", Recent(2))
    for problem in ("simple", "robertson", "pendulum"):
        ds.solve(problem, rtol=1e-4, t_end=0.1)
    assert len(execution._IDLE) == 2
    kept = [one for several in execution._IDLE.values() for one in several]
    assert [type(one.MS[0].levels[0].prob).__name__ for one in kept] == ["Robertson", "Pendulum2D"]


def test_runs_that_go_on_together_share_no_controller_and_few_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution, "_IDLE", Recent(4, len))
    together = ds.sweep("simple", {"alpha": np.linspace(5.0, 10.0, 20)}, rtol=1e-6, points=3)
    assert sum(map(len, execution._IDLE.values())) <= 4 + 8  # those of one kind came last, all at once
    ds.solve("robertson", rtol=1e-4, t_end=0.1)
    assert sum(map(len, execution._IDLE.values())) <= 4
    alone = ds.solve("simple", params={"alpha": 10.0}, rtol=1e-6, points=3, dense=False)
    assert together.u[-1].tobytes() == alone.u.tobytes()
