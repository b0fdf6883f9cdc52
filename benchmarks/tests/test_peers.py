"""The comparison with other solvers: what they are given, what is measured, and what is made of it."""

from __future__ import annotations

import importlib
import math
import signal
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from scipy import sparse

from benchmarks.measuring.clock import TimeLimit, limited
from benchmarks.measuring.processes import nominal_of
from benchmarks.measuring.races import Outcome, PeerFailure, carry_out, front, time_to
from benchmarks.studies.peers import solvers as peer_solvers
from benchmarks.studies.peers.solvers import Case, Peer, ScipyDae, missing
from benchmarks.studies.peers.study import Score, equal_accuracy, peers
from benchmarks.studies.truth.generated import differences
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError
from dae_sdc.run.results import Result
from dae_sdc.run.solution import Solution
from dae_sdc.run.sundials import Equations, ida_jacobian, slope_at, weighted
from dae_sdc.run.target import make_problem

MODULE = importlib.import_module("benchmarks.studies.peers.study")  # the name in its package is the function
PEERS = peer_solvers.known_peers()


@pytest.fixture(params=[peer for peer in PEERS if peer.like], ids=lambda peer: peer.name)
def like(request: pytest.FixtureRequest) -> Peer:
    return installed(request.param)


def installed(found: Peer) -> Peer:
    if missing(found):
        pytest.skip(f"{found.package} is not installed")
    return found


class Ramp(ProblemDAE):
    """x' = s with s = 1 up to t = 0.5 and s = -3 from there on, z = 2 x; x(0) = 0, so x(1) = -1."""

    index = 1
    slope, decay = 1.0, 0.0

    def __init__(self) -> None:
        super().__init__(1, 1)

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        return np.array([du[0] - self.slope + self.decay * u[0], u[1] - 2.0 * u[0]])

    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Vector:
        return np.array([[1.0 + c * self.decay, 0.0], [-2.0 * c, c]])

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        return (0.5,)

    def start_step(self, u: MeshDAE, t: float) -> None:
        self.slope = 1.0 if t < 0.5 else -3.0

    def u_exact(self, t: float) -> Vector:
        x = t if t <= 0.5 else 0.5 - 3.0 * (t - 0.5)
        return np.array([x, 2.0 * x])


class Switch(Ramp):
    """x' = 1 while x < 0.25 and x' = -2 x from there on: x(1) = exp(-1.5) / 4."""

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        return ()

    def start_step(self, u: MeshDAE, t: float) -> None:
        self.slope, self.decay = (1.0, 0.0) if t < 0.25 else (0.0, 2.0)

    def u_exact(self, t: float) -> Vector:
        x = t if t <= 0.25 else 0.25 * math.exp(-2.0 * (t - 0.25))
        return np.array([x, 2.0 * x])


def ran(peer: Peer, case: Case, rtol: float, weights: str = "all", count: bool = True) -> Outcome:
    scale = np.ones(case.problem.n)
    atol = weighted(rtol, scale, case.exclusions[weights])
    found = carry_out(lambda: peer.run(case, rtol, atol, count), 20.0)
    assert isinstance(found, Outcome), found
    return found


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_solves_an_index_2_problem_and_tells_its_work(peer: Peer) -> None:
    problem = make_problem("simple")
    case = Case(problem)
    tells = peer.name != "rumoca"  # that takes one tolerance for all unknowns, too
    found = ran(installed(peer), case, 1e-5, "<=1" if tells else "all")
    exact = np.array(problem.u_exact(case.t_end))
    # The multiplier, out of the error test, is worse than the others by 1 / h.
    assert np.abs(found.end - exact)[:2].max() < 1e-3
    assert np.abs(found.end - exact)[2] < 1e-2
    assert found.time > 0.0
    if not tells:
        return
    assert found.rhs > found.steps > 5 and found.jacobian >= 1
    assert found.factorization >= found.jacobian or peer.name.startswith("scipy")


def test_all_evaluations_are_counted(like: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    original, residuals, entries = Equations.__init__, Mock(), Mock()

    def counting(self: Equations, case: Case, *switches: Any) -> None:
        original(self, case, *switches)
        residual, jacobian = self.residual, self.entries
        # A solver of C looks at the number of arguments.
        self.residual = lambda t, y, yp, out: (residuals(), residual(t, y, yp, out))[1]
        self.entries = lambda t, y, yp, c, out: (entries(), jacobian(t, y, yp, c, out))[1]

    monkeypatch.setattr(Equations, "__init__", counting)
    found = ran(like, Case(make_problem("simple")), 1e-4, "<=1")
    # scipy-dae takes Jacobians by y and y' from two evaluations.
    assert entries.call_count == found.jacobian * (2 if isinstance(like, ScipyDae) else 1)
    assert residuals.call_count == found.rhs


def test_ida_counts_steps_only_if_asked() -> None:
    ida, case = installed(peer_solvers.PEERS["ida"]), Case(make_problem("chemical-akzo-nobel"))
    counted, plain = ran(ida, case, 1e-5), ran(ida, case, 1e-5, count=False)
    assert counted.steps > 10 and math.isnan(plain.steps)
    assert np.array_equal(counted.end, plain.end) and counted.rhs == plain.rhs


def test_every_peer_with_our_equations_begins_anew_at_break_points(like: Peer) -> None:
    case = Case(Ramp())
    assert case.pieces == (0.0, 0.5, 1.0) and not case.switches
    assert np.allclose(case.slope, [1.0, 0.0])  # z' does not occur; the smallest is taken
    found = ran(like, case, 1e-6, "diff")
    assert np.allclose(found.end, [-1.0, -2.0], atol=1e-5)


def test_every_peer_with_our_equations_follows_the_branch_of_the_state(like: Peer) -> None:
    case = Case(Switch())
    assert case.switches
    found = ran(like, case, 1e-6, "diff")
    assert np.allclose(found.end, Switch().u_exact(1.0), atol=1e-3)


def test_casadi_refuses_equations_that_change() -> None:
    casadi = installed(peer_solvers.PEERS["casadi-idas"])
    for problem in (Ramp(), Switch()):
        with pytest.raises(InputError, match="change on the way"):
            casadi.run(Case(problem), 1e-6, np.full(2, 1e-6), True)


def test_both_jacobians_come_from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_solvers, "SPARSE_FROM", 10)
    problem = make_problem("transmission-line", {"sections": 8})
    case = Case(problem)
    assert case.sparse and problem.sparsity is not None
    equations = Equations(case.problem, case.switches)
    y, yp = 1e-2 * np.random.default_rng(3).standard_normal((2, problem.n))  # diodes are exponential
    dy, dyp = ScipyDae._jacobian(equations, True)(0.3, y, yp)
    dense = ScipyDae._jacobian(equations, False)(0.3, y, yp)
    assert sparse.issparse(dy) and sparse.issparse(dyp)
    assert np.array_equal(dy.toarray(), dense[0]) and np.array_equal(dyp.toarray(), dense[1])

    def residual(*at: Vector) -> Vector:
        equations.residual(0.3, *at, out := np.empty(problem.n))
        return out

    assert np.allclose(differences(lambda v: residual(v, yp), y), dense[0], atol=1e-6)
    assert np.allclose(differences(lambda v: residual(y, v), yp), dense[1], atol=1e-6)
    values, full, cj = equations.blank(), np.empty((problem.n, problem.n)), 7.0
    ida_jacobian(equations, True)(0.3, y, yp, y, cj, values)
    ida_jacobian(equations, False)(0.3, y, yp, y, cj, full)
    expected = dense[0] + cj * dense[1]
    assert np.allclose(full, expected) and np.allclose(full[equations.places()], values)


def test_a_problem_without_an_exact_jacobian_is_refused() -> None:
    class Bare(Ramp):
        jacobian: Any = None

    with pytest.raises(InputError, match="no exact Jacobian"):
        Equations(Bare(), False)


def test_what_an_error_test_may_leave_out() -> None:
    class Mechanism(Ramp):
        variable_index = (1, 2, 3, 1)

        def __init__(self) -> None:
            ProblemDAE.__init__(self, 2, 2)

        def u_exact(self, t: float) -> Vector:
            return np.zeros(4)

        du_exact = u_exact

    found = {name: mask.tolist() for name, mask in Case(Mechanism()).exclusions.items()}
    assert found == {
        **{"all": [False, False, False, False], "<=2": [False, False, True, False]},
        **{"<=1": [False, True, True, False], "diff": [False, False, True, True]},
    }
    # The same choice does not stand there twice, and not one that leaves nothing.
    assert list(Case(make_problem("simple")).exclusions) == ["all", "<=1"]
    assert list(Case(make_problem("hires")).exclusions) == ["all"]
    tolerances = weighted(1e-3, np.array([1.0, 1e-9]), np.array([False, True]))
    assert tolerances[0] == 1e-3 and tolerances[1] >= 1e4


def test_slopes_satisfy_the_equations() -> None:
    for name in ("chemical-akzo-nobel", "two-transistor", "pendulum-cash"):
        problem = make_problem(name)
        t0 = problem.interval[0]
        u = np.array(problem.u_exact(t0))
        residual = problem.evaluate(problem.state(u), problem.state(slope_at(problem, u, t0)), t0)
        assert np.abs(residual).max() < 1e-9


@pytest.mark.parametrize("name", ["simple", "two-transistor", "pendulum-cash"])
def test_expressions_are_the_equations(name: str) -> None:
    casadi = pytest.importorskip("casadi")
    problem = make_problem(name)
    form = peer_solvers.SemiExplicit(Case(problem), casadi)
    symbols = [form.equations[part] for part in ("t", "x", "z")]
    function = casadi.Function("f", symbols, [form.equations["ode"], form.equations["alg"]])
    random = np.random.default_rng(1)
    u = np.array(problem.u_exact(problem.interval[0])) + 1e-3 * random.standard_normal(problem.n)
    turned = form._turned(u)
    f, g = function(0.01, turned[form.differential], turned[form.algebraic])
    slope = np.zeros(problem.n)
    slope[form.differential] = np.array(f).ravel()
    back = slope if form.turn is None else form.turn @ slope
    residual = problem.evaluate(problem.state(u), problem.state(back), 0.01)
    # With u' = f what is left of F are the constraints, turned at most.
    assert np.linalg.norm(residual) == pytest.approx(np.linalg.norm(np.array(g)), rel=1e-9, abs=1e-15)
    assert np.linalg.norm(residual) > 1e-8
    assert np.allclose(form.end(turned[form.differential], turned[form.algebraic]), u)


def test_models_of_modelica_have_the_end_of_a_tight_run(tmp_path: Path) -> None:
    installed(peer_solvers.PEERS["rumoca"])
    path = tmp_path / "decay.mo"
    path.write_text(
        "model Decay Real 'a.x'(start = 2, fixed = true); Real y; equation der('a.x') = -y; y = 3*'a.x'; "
        "annotation(experiment(StopTime = 0.5)); end Decay;"
    )
    result = peers(problems=[str(path)], rtols=[1e-6], others=["rumoca"], repetitions=1)
    assert dict(zip(result.data["solver"].tolist(), result.data["success"].tolist(), strict=True)) == {
        "dae_sdc": 1,
        "rumoca": 1,
    }
    assert (result.data["error"] < 1e-4).all() and (result.data["error"] > 0.0).all()
    score = Score(make_problem(str(path)), np.ones(2), last := np.array([2.0, 6.0]) * math.exp(-1.5))
    assert score.columns(last * (1.0 + 1e-3))["scd"] == pytest.approx(3.0)
    assert len(MODULE.from_modelica()) >= 18 and not {*MODULE.from_modelica()} & {"pendulum", "simple"}


def test_expressions_cannot_follow_branches() -> None:
    casadi = installed(peer_solvers.PEERS["casadi-idas"])

    class Branching(ProblemDAE):
        index = 0

        def residual_kernel(t: Any, u: Any, du: Any, p: Any, out: Any) -> None:  # type: ignore[override,misc]
            out[0] = du[0] + (u[0] if u[0] > 0.5 else 1.0)

        def __init__(self) -> None:
            super().__init__(1, 0)

        def u_exact(self, t: float) -> Vector:
            return np.ones(1)

    with pytest.raises(InputError, match="branch on unknowns"):
        casadi.run(Case(Branching()), 1e-6, np.full(1, 1e-6), True)


def test_a_run_that_takes_too_long_is_stopped() -> None:
    def forever() -> Outcome:
        while True:
            pass

    before = signal.getsignal(signal.SIGALRM)
    assert carry_out(forever, 0.05) == "took more than 0.05 s"
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    with pytest.raises(TimeLimit), limited(0.02):
        forever()


def test_a_peer_is_stopped_inside_its_own_code(like: Peer) -> None:
    case = Case(make_problem("robertson"))
    found = carry_out(partial(like.run, case, 1e-12, np.full(3, 1e-24), True), 0.01)
    assert found == "took more than 0.01 s"


def test_the_reason_of_a_failure_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    def fail(error: Exception) -> Outcome:
        print("noise")
        raise error

    assert carry_out(partial(fail, PeerFailure("t=1: too\n small")), 1.0) == "t=1: too small"
    assert carry_out(partial(fail, ValueError("wrong")), 1.0) == "ValueError: wrong"
    assert "not finite" in str(carry_out(lambda: Outcome(1.0, np.array([np.nan])), 1.0))
    assert "noise" not in "".join(capfd.readouterr())


def test_errors_are_those_of_scored_unknowns() -> None:
    problem = make_problem("nand-gate")
    scored = problem.reference_end.scored  # type: ignore[attr-defined]
    assert len(scored) < problem.n
    score = Score(problem, np.ones(problem.n))
    u = np.array(problem.u_exact(problem.interval[1])) + 0.5
    u[list(scored)] -= 0.5
    # What the reference is not known to cannot be told from zero.
    assert score.columns(u)["error"] < 1e-10 and score.columns(u)["scd"] > 10.0
    place = scored[0]
    exact = u[place]
    u[place] += 1e-4
    assert score.columns(u)["error"] == pytest.approx(1e-4 / (1.0 + abs(exact)), rel=1e-6)
    assert score.columns(u)["scd"] == pytest.approx(-math.log10(1e-4 / abs(exact)), rel=1e-6)


def test_scores_where_there_is_no_official_one() -> None:
    problem = make_problem("simple")
    exact = np.array(problem.u_exact(1.0))
    score = Score(problem, np.array([1.0, 1.0, 0.0]))
    assert score.columns(exact * (1.0 + 1e-5))["error"] == pytest.approx(1e-5, rel=1e-6)
    assert score.columns(exact * (1.0 + 1e-5))["scd"] == pytest.approx(5.0, rel=1e-6)
    assert score.columns(exact)["scd"] == pytest.approx(16.0)


def test_scales_are_the_nominal_sizes_of_the_unknowns() -> None:
    assert (nominal_of(make_problem("simple")) == 1.0).all()
    pump = make_problem("charge-pump")
    assert np.array_equal(nominal_of(pump), pump.nominal)
    assert nominal_of(make_problem("robertson")).max() <= 1.0


def test_the_test_set_is_compared_by_default() -> None:
    names = MODULE.default_problems()
    assert {"chemical-akzo-nobel", "car-axis", "simple", "two-transistor"} <= set(names) <= set(PROBLEMS)
    assert len(names) == len(set(names))
    assert {"semi-implicit", "radau-iia-5", "esdirk43"} <= set(MODULE.default_sweepers())


def test_the_front_drops_what_another_run_beats() -> None:
    error, time = np.array([1e-2, 1e-4, 1e-3, np.inf, 1e-8]), np.array([1.0, 2.0, 3.0, 0.1, 10.0])
    errors, times = front(error, time)
    assert errors.tolist() == [1e-2, 1e-4, 1e-8] and times.tolist() == [1.0, 2.0, 10.0]


def test_times_between_runs_follow_the_power_law() -> None:
    error = np.array([1e-3, 1e-5, 1e-9])
    time = error**-0.25
    for target in (1e-4, 3e-7, 1e-9):
        assert time_to(target, error, time) == pytest.approx(target**-0.25)
    assert time_to(1.0, error, time) == pytest.approx(time[0])
    assert math.isnan(time_to(1e-10, error, time))
    assert math.isnan(time_to(1.0, np.empty(0), np.empty(0)))


def bench_result(rows: list[tuple[Any, ...]]) -> Result:
    kinds = [("problem", "U8"), ("solver", "U8"), ("weights", "U8"), ("n", "i8"), ("index", "i8")]
    kinds += [("rtol", "f8"), ("success", "i8"), ("time", "f8"), ("error", "f8")]
    about = {"study": "peers", "default": "d", "ours": ["d", "o"], "like": ["p", "q"], "unlike": ["c"]}
    data = np.array([(row[0], row[1], "all", 2, 1, *row[2:]) for row in rows], dtype=kinds)
    return Result("bench", data, {}, about)


def test_times_to_the_error_of_the_default() -> None:
    result = bench_result(
        [
            ("a", "d", 1e-6, 1, 2.0, 1e-4),
            ("a", "o", 1e-6, 1, 1.5, 1e-5),
            ("a", "p", 1e-3, 1, 1.0, 1e-3),
            ("a", "p", 1e-6, 1, 4.0, 1e-5),  # at 1e-4, half way in the logarithm: 2
            ("a", "q", 1e-6, 1, 0.1, 1e-2),
            ("a", "c", 1e-6, 1, 0.5, 1e-8),
            ("b", "d", 1e-6, 0, np.nan, np.nan),
            ("b", "p", 1e-6, 1, 1.0, 1e-3),
            ("c", "d", 1e-6, 1, 1.0, 1e-3),
            ("c", "p", 1e-6, 0, np.nan, np.nan),
        ]
    )
    first, failed, alone = equal_accuracy(result)
    assert (first.problem, first.rtol, first.error, first.times["d"]) == ("a", 1e-6, 1e-4, 2.0)
    assert first.best(["d", "o"]) == ("o", 1.5) and first.times["c"] == 0.5
    assert first.best(["p", "q"]) == ("p", pytest.approx(2.0)) and first.ratio == pytest.approx(1.0)
    assert failed.problem == "b" and failed.ratio == math.inf
    assert alone.best(["p", "q"])[0] == "" and alone.ratio == 0.0


def stub(name: str, *, rtol: float, atol: Any, sweeper: str = "default") -> Solution:
    problem = make_problem(name)
    t0, t_end = problem.interval
    u = np.array([problem.u_exact(t0), np.array(problem.u_exact(t_end)) * (1.0 + rtol)])
    if sweeper == "radau-iia-5":
        raise InputError("not for this problem")
    success = sweeper != "fully-implicit"
    counts = dict.fromkeys(("steps", "rejected", "rhs", "jacobian", "factorization"), 7)
    given: dict[str, Any] = {"t": np.array([t0, t_end]), "u": u, "du": u, "names": problem.names}
    given |= {"units": problem.units, "success": success, "message": "" if success else "stopped on purpose"}
    return Solution(**given, stats=counts, per_step={}, parameters={})


@pytest.mark.parametrize(
    ("given", "packages"),
    [({"sweepers": []}, {peer.package for peer in PEERS}), ({"others": ["ida"]}, {"scikit-sundae"})],
)
def test_chosen_peers_that_are_not_installed_are_left_out(
    given: dict[str, Any], packages: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULE, "solve", stub)
    monkeypatch.setattr(MODULE, "missing", lambda peer: True)
    result = peers(problems=["simple"], rtols=[1e-3], repetitions=1, **given)
    assert result.data["solver"].tolist() == result.parameters["ours"] == ["dae_sdc"]
    assert {text.partition(":")[0] for text in result.parameters["left_out"]} == packages
    text = peers.report(result)
    assert "pip install 'dae_sdc[bench]'" in text and "no peer is installed" in text


def test_no_tighter_tolerance_is_tried_after_one_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(name: str, *, rtol: float, **given: Any) -> Solution:
        while rtol < 1e-3:
            pass
        return stub(name, rtol=rtol, **given)

    monkeypatch.setattr(MODULE, "solve", slow)
    monkeypatch.setattr(MODULE, "known_peers", tuple)
    result = peers(problems=["simple"], rtols=[1e-3, 1e-4, 1e-5], sweepers=[], repetitions=1, time_limit=1.0)
    assert result.data["success"].tolist() == [1, 0, 0]
    assert result.data["message"].tolist()[1:] == [
        "took more than 1 s",
        "not tried: took more than 1 s at 0.0001",
    ]
    assert not equal_accuracy(result)
