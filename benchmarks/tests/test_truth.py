"""Generated DAEs with exact solutions: that the instrument is right, and what it shows in a minute."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from obedient import obey

import dae_sdc as ds
from benchmarks.__main__ import main as benchmark
from benchmarks.measuring.runs import BAD, CRASHED, DONE, FAILED, REFUSED, WRONG, Finding, carry_out, judged
from benchmarks.studies.truth import solves, study
from benchmarks.studies.truth.checks import plain
from benchmarks.studies.truth.checks.structures import dependent, disguised
from benchmarks.studies.truth.draw import Trig, signal
from benchmarks.studies.truth.families.circuits import BRIDGES, CIRCUITS, END, ReducedCircuit, netlists
from benchmarks.studies.truth.families.square_waves import IDIOMS, Pulses, response
from benchmarks.studies.truth.generated import FAMILIES, Units, differences
from benchmarks.studies.truth.written import WRITTEN, Written, held, solved
from dae_sdc.errors import InputError, NewtonError

PLAIN = [name for name in FAMILIES if not name.startswith("quasi")]


def residuals(dae: Written, times: Any, h: float) -> Any:
    """F along the reference of a DAE, with the derivative of the reference by differences."""
    near = [dae.reference(times + k * h) for k in (-2, -1, 1, 2)]
    slopes = (near[0] - 8.0 * near[1] + 8.0 * near[2] - near[3]) / (12.0 * h)
    states = zip(times, dae.reference(times), slopes, strict=True)
    return np.array([dae.function(t, u, du) for t, u, du in states], dtype=float)


def series(trig: Trig, t: float) -> float:
    terms = [(float(w), pair) for w, pair in trig.terms.items()]
    return sum(float(a) * np.cos(w * t) + float(b) * np.sin(w * t) for w, (a, b) in terms)


def test_signals_add_multiply_and_differentiate_as_functions_do() -> None:
    rng = np.random.default_rng(0)
    a, b = signal(rng), signal(rng)
    x, y, dx, dy = (series(trig, 0.83) for trig in (a, b, a.derivative(), b.derivative()))
    for trig, value in (
        *((a + b, x + y), (a * b, x * y), (a - b * 2, x - 2 * y)),
        ((a * b).derivative(), dx * y + x * dy),
    ):
        assert series(trig, 0.83) == pytest.approx(value, abs=1e-14)


@pytest.mark.parametrize("family", list(FAMILIES))
def test_the_exact_solution_satisfies_the_equations_and_all_constraints(family: str) -> None:
    for seed in range(3):
        given = FAMILIES[family](seed)
        units = Units(10.0 ** np.arange(given.n), 1e3)
        for t in (0.0, 0.7, 1.9):
            u, du = given.solution(t), given.slope(t)
            moved = (given.solution(t + 1e-4) - given.solution(t - 1e-4)) / 2e-4
            assert np.abs(moved - du).max() < 1e-6
            assert np.abs(given.residual(u, du, t)).max() < 1e-13
            problem = given.problem(True, units)
            there = problem.eval_f(problem.u_exact(1e3 * t), problem.du_exact(1e3 * t), 1e3 * t)
            assert np.abs(np.asarray(there)).max() < 1e-9
            if given.problem_class is not None:
                own = given.problem()
                assert np.abs(np.asarray(own.eval_f(own.state(u), own.state(du), t))).max() < 1e-12
            assert np.abs(given.constraints(u, t)).max(initial=0.0) < 1e-11


@pytest.mark.parametrize("family", FAMILIES)
def test_as_many_constraints_as_the_degrees_of_freedom_leave_are_independent(family: str) -> None:
    for seed in range(3):
        given = FAMILIES[family](seed)
        slopes = differences(partial(given.constraints, t=0.3), given.solution(0.3))
        values = np.linalg.svd(slopes, compute_uv=False)
        assert slopes.shape == (given.n - given.dof, given.n) and values.min(initial=1.0) > 1e-2


@pytest.mark.parametrize("family", PLAIN)
def test_the_pencil_along_the_solution_has_the_index_of_the_family(family: str) -> None:
    """The local pencil of a Hessenberg form has the index of the DAE; that of turning equations need not."""
    if family.startswith("varying"):
        pytest.skip("its local pencil says nothing")
    for seed in range(3):
        given = FAMILIES[family](seed)
        u, du, t = given.solution(0.4), given.slope(0.4), 0.4
        E = differences(lambda v: given.residual(u, v, t), du)  # noqa: B023
        A = differences(lambda v: given.residual(v, du, t), u)  # noqa: B023
        shifted = np.linalg.solve(A + 0.7 * E, E)
        ranks = [np.linalg.matrix_rank(np.linalg.matrix_power(shifted, k), tol=1e-7) for k in range(6)]
        assert next(k for k in range(5) if ranks[k] == ranks[k + 1]) == given.index
        assert ranks[-1] == given.dof


def test_disguises_change_no_solution_and_dependent_equations_leave_some_out() -> None:
    given = FAMILIES["pencil-2"](1)
    u, du, t = given.solution(0.2), given.slope(0.2), 0.2
    rng = np.random.default_rng(0)
    elsewhere = u + rng.standard_normal(given.n), du + rng.standard_normal(given.n), t
    mixed = disguised(given, 0)
    assert np.abs(mixed.residual(u, du, t)).max() < 1e-13
    assert np.abs(mixed.residual(*elsewhere) - given.residual(*elsewhere)).max() > 1e-3
    rows = dependent(given, 0).residual(*elsewhere)
    assert np.linalg.matrix_rank(np.array([dependent(given, 0).residual(*elsewhere), rows])) == 1
    problem = mixed.model().problem()
    order = [given.names.index(name) for name in problem.names]
    assert np.abs(problem.eval_f(problem.state(u[order]), problem.state(du[order]), t)).max() < 1e-12


@pytest.mark.parametrize("name", IDIOMS)
def test_square_waves_are_1_in_their_intervals_and_0_elsewhere(name: str) -> None:
    rng = np.random.default_rng(5)
    for k in (1, 2, 3):
        pulses = Pulses(0.7, 0.3, k, np.cumsum(rng.uniform(0.3, 0.9, 16)), 6.0)
        wave, on = partial(IDIOMS[name].wave, pulses), IDIOMS[name].on(pulses)
        for s in rng.uniform(0.0, 6.0, 300):
            inside = any(first < s < last for first, last in on)
            assert float(wave(s)) == pytest.approx(float(inside), abs=1e-15), s
        times, h = np.linspace(0.0, 6.0, 11) + 1e-3, 1e-5
        before, x, behind = (response(on, 1.3, 0.4, times + k * h) for k in (-1, 0, 1))
        values = np.array([float(wave(t)) for t in times])
        assert np.abs((behind - before) / (2 * h) + 1.3 * x - values).max() < 1e-6
        assert response(on, 1.3, 0.4, np.zeros(1))[0] == 0.4


@pytest.mark.parametrize("variant", (*BRIDGES, *CIRCUITS))
def test_references_of_circuits_satisfy_the_equations_that_are_solved(variant: str) -> None:
    dae = WRITTEN["circuits"].make(1, variant)
    assert np.abs(residuals(dae, np.linspace(0.07, 0.93, 9) * dae.end, 1e-5 * dae.end)).max() < 1e-6
    still = dict(zip(dae.start, dae.reference(np.zeros(1))[0], strict=True))
    assert all(abs(still[name] - value) < 1e-9 for name, value in dae.start.items())


@pytest.mark.parametrize("variant", [one for one in WRITTEN["circuits"].variants if "linear" in one])
def test_circuits_without_diodes_have_the_solution_of_their_pencil(variant: str) -> None:
    """Phasors, and the exponential of the regular part of the pencil, share nothing with the reduction."""
    for seed in range(3):
        elements, _ = next(netlists(seed, variant))
        w = {k: 0.7 + 0.1 * k for k, one in enumerate(elements) if one.kind in "VI"}
        for k, rate in w.items():
            law, slope = (lambda t, w=rate: np.sin(w * t)), (lambda t, w=rate: w * np.cos(w * t))
            elements[k] = replace(elements[k], law=law, slope=slope)
        circuit = ReducedCircuit(elements)
        times = np.linspace(0.0, END, 7)
        values, left_open = circuit.solution(np.linspace(-1.0, 1.0, circuit.N.shape[1]), END)
        found = values(times)
        E, G, S = circuit.E, circuit.G, circuit.S
        phasors = [np.linalg.solve(1j * rate * E + G, -1j * S[:, j]) for j, rate in enumerate(w.values())]

        def forced(t: float) -> Any:
            pairs = zip(w.values(), phasors, strict=True)  # noqa: B023
            return sum(np.real(phasor * np.exp(1j * rate * t)) for rate, phasor in pairs)

        # (1.7 E + G)^-1 E has the eigenvalue 1 / (1.7 - lambda) for a mode exp(lambda t), else 0.
        shifted = np.linalg.solve(1.7 * E + G, E).astype(complex)
        T, Q, finite = scipy.linalg.schur(shifted, output="complex", sort=lambda value: abs(value) > 1e-5)
        assert finite == circuit.N.shape[1]
        modes, rates = Q[:, :finite], 1.7 * np.eye(finite) - np.linalg.inv(T[:finite, :finite])
        begin, *_ = np.linalg.lstsq(modes, (found[0] - forced(0.0)).astype(complex), rcond=None)
        for t, u, error in zip(times, found, left_open(times), strict=True):
            exact = forced(t) + np.real(modes @ scipy.linalg.expm(rates * t) @ begin)
            size = 1.0 + np.abs(exact).max()
            assert np.abs(u - exact).max() < 1e-9 * size
            assert (np.abs(u - exact) <= 10.0 * error + 1e-11 * size).all()


@pytest.mark.parametrize("variant", [one for one in WRITTEN["typed-starts"].variants if one.endswith("/8")])
def test_references_of_mechanisms_satisfy_the_equations_that_are_solved(variant: str) -> None:
    dae = WRITTEN["typed-starts"].make(3, variant)
    times = np.linspace(0.1, 0.9, 5) * dae.end
    assert np.abs(residuals(dae, times, 1e-3)).max() < 1e-6
    begin, open_ = dae.reference(np.zeros(1))[0], dae.slack
    assert 0.0 < np.abs(begin - list(dae.start.values())).max() < 1e-5
    assert open_ is not None and 0.0 < open_(times).max() < 1e-4


def test_jacobians_of_users_are_those_of_their_equations_in_any_units() -> None:
    for family in ("mixed-rows", "mechanics-index-3"):
        given = plain.scrambled(FAMILIES[family](2))
        told = plain.told_of(given, "both+jacobian+units")
        problem = plain.WithJacobian(told)
        assert problem.index == given.index and problem.variable_index == given.variable_index
        t, c, scale = 0.3 * told.units.time, 2.0 * told.units.time, told.units.unknowns
        u, du = told.exact(np.array([t]))[0], given.slope(0.3) * scale / told.units.time
        assert np.abs(told.residual(t, u, du)).max() < 1e-9

        def moved(v: Any) -> Any:
            shift = np.asarray(v) * scale  # noqa: B023
            return told.residual(t, u + shift, du + shift / c)  # noqa: B023

        slopes = differences(moved, np.zeros(given.n)) / scale * c
        assert np.abs((problem.jacobian(u, du, t, c) - slopes) * scale / c).max() < 1e-7


class Told:
    """A solution with errors that are put into it."""

    success, dense = True, None

    def __init__(self, given: Any, t: Any, error: Any, message: str = "") -> None:
        self.given, self.t, self.message = given, np.asarray(t), message
        self.u = np.array([given.solution(s) for s in t]) + error
        self.stats, self.names = {"steps": len(t) - 1}, given.names

    def values(self, name: str) -> Any:
        return self.u[:, self.given.names.index(name)]


def test_errors_are_held_against_the_tolerance_and_the_index_of_the_unknown() -> None:
    given = FAMILIES["hessenberg-3"](1)
    assert given.variable_index == (1, 2, 3)
    h = given.tau / 10.0
    t = np.array([0.0, *(h * np.arange(1, int(2.0 / h))), 2.0])
    for j, amplified in enumerate((1.0, 10.0, 100.0)):
        size = 1.0 + np.abs(given.solution(t[3])[j])
        for factor, outcome in ((0.98, DONE), (1.02, WRONG)):
            error = np.zeros((len(t), 3))
            error[3, j] = factor * 100.0 * 1e-6 * size * amplified
            found = solves.judge(given, Told(given, t, error), 1e-6)
            assert found.outcome == outcome, found.message
    error[:] = np.nan
    assert solves.judge(given, Told(given, t, error), 1e-6).outcome == WRONG
    early = solves.judge(given, Told(given, t[:-1], error[:-1]), 1e-6)
    assert early.message.startswith("success, but the run ended")


def test_written_daes_are_held_to_the_tolerance_in_every_unknown_whatever_its_index() -> None:
    given = FAMILIES["hessenberg-3"](1)
    t = np.linspace(0.0, 2.0, 21)
    exact = np.array([given.solution(s) for s in t])
    for j in range(3):
        for factor, outcome in ((0.98, DONE), (1.02, WRONG)):
            error = np.zeros((len(t), 3))
            error[3, j] = factor * 100.0 * 1e-6 * (1.0 + np.abs(exact[3, j]))
            told = Told(given, t, error)
            finding, off = held(told, exact, 1e-6)
            assert finding.outcome == outcome and off[j] == (outcome == WRONG) and off.sum() == off[j]
            assert held(told, exact, 1e-6, slack=1e-5)[0].outcome == DONE
            assert held(told, exact, 1e-6, scale=np.full(3, 1e-9))[0].outcome == WRONG
    finding, off = held(Told(given, t, np.nan), exact, 1e-6)
    assert finding.outcome == WRONG and off.all()


def test_wrong_numbers_are_refused_only_where_every_unknown_that_is_off_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = FAMILIES["hessenberg-3"](1)
    t, (first, second, third) = np.linspace(0.0, 2.0, 21), given.names

    def solve(*_: Any, warned: str, message: str, error: Any, **_options: Any) -> Told:
        if warned:
            warnings.warn(warned, ds.DAEWarning, stacklevel=2)
        return Told(given, t, error, message)

    def exact(times: Any) -> Any:
        return np.array([given.solution(s) for s in times])

    monkeypatch.setattr(ds, "solve", solve)
    last, both = np.array([0.0, 0.0, 1e-2]), np.array([0.0, 1e-2, 1e-2])
    for warned, message, error, outcome in (
        ("", "", last, WRONG),
        ("rtol is taken as 1e-2", "", last, WRONG),
        ("", f"{first} of index 3: errors up to 0.01", last, WRONG),
        ("", f"start values made consistent: {third} by 1e-9", last, WRONG),
        ("", f"{third}0 of index 3: errors up to 0.01", last, WRONG),
        ("", f"{third} of index 3: errors up to 0.01", last, REFUSED),
        ("", f"{third} of index 3: errors up to 0.01", both, WRONG),
        (f"{second} has errors up to 0.1", f"{third} of index 3: errors up to 0.01", both, REFUSED),
        ("", f"{third} of index 3: errors up to 0.01", 1e-5 * last, DONE),
    ):
        found = solved(None, exact, end=2.0, rtol=1e-6, warned=warned, message=message, error=error)
        assert found.outcome == outcome and found.message.startswith("told, ") == (outcome == REFUSED)
        assert outcome == DONE or (warned in found.message and message in found.message)
    early = solved(None, exact, end=3.0, rtol=1e-6, warned="", message="", error=0.0)
    assert early.outcome == WRONG


def test_the_first_and_the_last_step_do_not_count_as_smallest() -> None:
    assert solves.smallest_step(np.array([0.0, 1e-6, 0.3, 0.8, 0.9, 1.0]), 0.0, 1.0) == pytest.approx(0.1)
    assert solves.smallest_step(np.array([0.0, 0.5, 1.0]), 0.0, 1.0) == 0.5


@pytest.mark.parametrize("broken", ["stays where it is", "does not converge"])
def test_fixed_steps_that_do_not_converge_are_wrong(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = FAMILIES["hessenberg-1"](0)
    original = ds.solve

    def solve(*args: Any, **options: Any) -> Any:
        solution = original(*args, **options)
        wrong = given.solution(0.0) if broken == "stays where it is" else solution.u + 0.1
        object.__setattr__(solution, "u", np.broadcast_to(wrong, solution.u.shape).copy())
        return solution

    line = "hessenberg-1:0:declared:radau-iia-5:fixed"
    assert study.repeat(line).outcome == DONE
    monkeypatch.setattr(ds, "solve", solve)
    assert study.repeat(line).outcome == WRONG


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (InputError("u0 has 3 entries for 2 unknowns"), REFUSED),
        (InputError("could not be broadcast together with shapes (3,) (2,)"), CRASHED),
        (InputError(""), CRASHED),
        (NewtonError("did not converge", time=0.0, history=(), equation="a"), FAILED),
        (ValueError("u0 has 3 entries"), CRASHED),
        (KeyError("x"), CRASHED),
    ],
)
def test_exceptions_are_refusals_failures_or_crashes(error: Exception, outcome: str) -> None:
    def run() -> Finding:
        raise error

    assert judged(run).outcome == outcome


def test_messages_that_differ_in_numbers_and_names_are_one_class() -> None:
    one = Finding(FAILED, "no step from t=0.125 succeeds, down to dt=3e-17: 'x0' (equation 3)")
    two = Finding(FAILED, "no step from t=1.7e-3 succeeds, down to dt=4.4e-192: 'x12' (equation 0)")
    assert one.kind == two.kind and "0.125" not in one.kind


def test_runs_that_take_too_long_or_kill_their_process_are_counted_and_the_others_go_on() -> None:
    lines = ["a:0:well", "a:0:die", "a:0:work", "a:0:well again"]
    found = dict(carry_out(obey, lines, 1, 1.0))
    assert [found[line].outcome for line in lines] == [DONE, CRASHED, FAILED, DONE]
    assert found["a:0:work"].message == "time limit"


SHORT = (
    *("pencil-1:0:declared:default:rtol=1e-06", "pencil-2:1:declared:radau-iia-5:rtol=1e-05"),
    *("pencil-2:2:declared:radau-iia-5:rtol=1e-08", "pencil-2:1:undeclared:default:rtol=1e-05"),
    *("varying-1:0:declared:default:rtol=1e-07", "varying-3:0:declared:default:rtol=1e-09"),
    *("hessenberg-1:2:declared:esdirk43:rtol=1e-04", "hessenberg-2:0:declared:fully-implicit:rtol=1e-06"),
    *("hessenberg-3:0:declared:default:rtol=1e-08", "hessenberg-3:1:declared:bdf3:fixed"),
    *("implicit-1:1:declared:default:rtol=1e-06", "mechanics-index-3:0:declared:semi-implicit:rtol=1e-05"),
    *("mechanics-ggl:1:declared:radau-iia-7:rtol=1e-09", "ordinary:0:declared:adams-bashforth-3:fixed"),
    *("ordinary:1:declared:gauss-6:fixed", "pencil-3:2:reduce:default:rtol=1e-06"),
    *("pencil-2:0:started:default:rtol=1e-06", "hessenberg-2:0:initial:near"),
    *("hessenberg-2:0:initial:impossible", "pencil-3:1:initial:fixed", "pencil-2:1:structure:plain"),
    *("varying-2:1:structure:repair", "pencil-1:1:structure:dependent:1", "pencil-1:1:structure:dependent:0"),
    *("pencil-2:0:structure:mixed-repair:0", "hessenberg-2:0:structure:mixed:0"),
    *("hessenberg-2:2:units:one:radau-iia-5:rtol=1e-06", "hessenberg-3:0:declared:fully-implicit:rtol=1e-06"),
    *("hessenberg-3:1:declared:semi-implicit:rtol=1e-10", "hessenberg-1:0:events:pair:default:rtol=1e-07"),
    "hessenberg-2:0:events:terminal:radau-iia-5:rtol=1e-07",
    "square-waves-time:0:written:floor-equal:traced:rtol=1e-06",
    "square-waves-time:0:written:match:untraced:rtol=1e-06",
    "square-waves-state:0:written:parity-equal:traced:rtol=1e-06",
    "typed-starts:0:written:pendulum/index-2/8:traced:rtol=1e-08",
    *("mixed-rows:0:plain:both+jacobian:untraced:rtol=1e-06", "pencil-2:0:plain:index:traced:rtol=1e-06"),
    "pencil-1:0:plain:wrong:untraced:rtol=1e-06",
    "hessenberg-1:0:plain:function+units:untraced:rtol=1e-06",
    "circuits:0:written:linear-loop:traced:rtol=1e-06",
    "circuits:0:written:linear-cutset:untraced:rtol=1e-06",
    "circuits:0:written:bridge-smooth-loop:traced:rtol=1e-06",
)


def test_nothing_wrong_comes_back_as_if_it_were_right() -> None:
    result = study.truth(chosen=SHORT, workers=0)
    data = result.data
    bad = data[np.isin(data["outcome"], BAD)]
    assert not len(bad), [(str(row["line"]), str(row["message"])) for row in bad]
    assert data["line"].tolist() == list(SHORT)
    assert (data["outcome"] == DONE).sum() >= len(SHORT) - 2
    text = study.truth.report(result)
    assert f"{len(SHORT)} runs" in text and "0 bad" in text


def test_every_planned_run_has_its_own_line_and_is_understood() -> None:
    for quick in (True, False):
        families = ["pencil-1", "quasi-daeq1", "circuits"]
        lines = study.planned(families, range(2), ["solve", *study.KINDS], quick)
        assert len(set(lines)) == len(lines)
        assert all(len(line) <= 96 for line in lines)
        kinds = {study.kind_of(line) for line in lines}
        assert kinds == {"solve", *study.KINDS}
        methods = {line.split(":")[3] for line in lines if study.kind_of(line) == "solve"}
        assert quick or set(ds.SWEEPERS) <= methods
    every = study.planned([*FAMILIES, *WRITTEN], range(2), ["solve", *study.KINDS], False)
    counts = Counter(map(study.kind_of, every))
    assert counts["structure"] >= 500 and counts["initial"] >= 300 and counts["events"] >= 300
    assert sum(1 + line.endswith("fixed") for line in every if study.kind_of(line) == "solve") >= 3000


def test_runs_with_nothing_declared_say_what_was_found_of_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "varying-3:1:plain:function:traced:rtol=1e-06",
        "varying-2:0:plain:problem:untraced:rtol=1e-06",
        "mechanics-index-3:0:plain:function:traced:rtol=1e-09",
        "pencil-4:0:plain:problem:untraced:rtol=1e-09",
    ]
    found = truth_of(lines)
    assert "traced: 2 of 2 done (100.0%); index right in 2 (100.0%), not sure in 0, wrong in 0" in found
    assert "untraced: 2 of 2 done" in found
    monkeypatch.setattr(plain, "with_index", lambda reading, *_: reading)
    assert "untraced: 2 of 2 done (100.0%); index right in 0 (0.0%), not sure in 2" in truth_of(lines)


def truth_of(lines: list[str]) -> str:
    return study.truth.report(study.truth(chosen=lines, workers=0))


def test_the_command_repeats_a_run_by_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    line = "ordinary:1:declared:default:rtol=1e-06"
    assert benchmark(["truth", "--only", line]) == 0
    assert capsys.readouterr().out.startswith(f"done {line}")
    assert benchmark(["truth", "--only", "nothing:1:declared:default:rtol=1e-06"]) == 0
    assert "refused" in capsys.readouterr().out
    for wrong, says in (
        (["truth", "--only", "pencil-1:0:sideways:default:fixed"], "unknown way 'sideways'"),
        (["truth", "--only", "pencil-1:zero:declared:default:fixed"], "a run is FAMILY:SEED:WAY:METHOD:SIZE"),
    ):
        assert benchmark(wrong) == 2
        assert says in capsys.readouterr().err
