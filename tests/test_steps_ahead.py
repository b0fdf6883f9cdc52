"""Steps taken ahead in one compiled call: those of the controller to the last bit, seen by who wants to."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.in_python import InPython
from helpers.pairs_of_stages import ENDS_BEHIND, IMPLICIT_FIRST, TWO_DIAGONALS
from pySDC.core.hooks import Hooks

import dae_sdc as ds
from dae_sdc.constrained.manifold import MANIFOLD_METHODS, ManifoldDAE
from dae_sdc.control.adaptivity import AdaptivityDAE
from dae_sdc.control.checkpoint import Checkpoints
from dae_sdc.control.stepping import SteppingController
from dae_sdc.dae.declaration import LINEAR_SOLVERS
from dae_sdc.dae.newton_checks import JacobianWatch
from dae_sdc.errors import InputError
from dae_sdc.problems import PROBLEMS
from dae_sdc.problems._models import MODELS
from dae_sdc.run.solution import Solution
from dae_sdc.run.target import make_problem
from dae_sdc.sweepers._machine_stages import MachineStages
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.linear_multistep import MULTISTEP
from dae_sdc.sweepers.multistep import MultistepDAE
from dae_sdc.sweepers.runge_kutta import RungeKuttaDAE
from dae_sdc.sweepers.sdc import SWEEPERS as REGISTERED, SpectralDeferredCorrectionDAE
from dae_sdc.sweepers.steps_ahead import CRAWLING_CONTRACTION
from dae_sdc.sweepers.tolerance import Outcome

WATCHED = ("centrifuge", "diode-ladder", "double-wishbone", "furuta-pendulum", "transistor-amplifier")
"""Models whose runs look for singular points, and the other circuits."""
OTHERS = [
    pytest.param(name, marks=pytest.mark.long)
    for name in sorted({*MODELS} - {*PROBLEMS, *WATCHED})[::3]
    if name != "suspension"  # whose structure takes longer than all of these runs
]

FIRST = ("andrews", "charge-pump", "hires", "nand-gate", "simple", "transmission-line", "two-transistor")
CATALOGUE = [*FIRST, *(pytest.param(name, marks=pytest.mark.long) for name in sorted({*PROBLEMS} - {*FIRST}))]
MANY_STEPS = ("ring-modulator", "slider-crank", "two-bit-adder")
LOOSE_OR_TIGHT = [
    pytest.param(name, rtol, marks=pytest.mark.long)
    for name, rtol in zip(sorted({*PROBLEMS} - {*MANY_STEPS}), cycle((1e-4, 1e-9)), strict=False)
]
"""Problems at a loose and a tight tolerance in turn; those of many steps show all kinds at 1e-6."""

UP_TO_INDEX_2 = [name for name in sorted(PROBLEMS) if max(PROBLEMS[name]().variable_index) <= 2]
OF_PAIRS = ("charge-pump", "hessenberg-2", "hires", "nand-gate", "robertson", "transmission-line")
BY_PAIRS = [
    *zip(OF_PAIRS, cycle(("esdirk43", "esdirk32")), strict=False),
    *[("two-transistor", sweeper) for sweeper in (IMPLICIT_FIRST, TWO_DIAGONALS, ENDS_BEHIND)],
    *[
        pytest.param(name, sweeper, marks=pytest.mark.long)
        for name in UP_TO_INDEX_2
        if name not in MANY_STEPS
        for sweeper in ("esdirk32", "esdirk43")
    ],
]
"""Problems and embedded pairs, whose stages are solved one after the other."""

ON_MANIFOLDS = [
    *[("figure-eight", "chart-dop853"), ("seven-body", "chart-dopri5"), ("skate", "projected-dop853")],
    *[("catalyst", "projected-dopri5"), ("rigid-pendulum", "unprojected-dopri5")],
    *[
        pytest.param(name, sweeper, marks=pytest.mark.long)
        for name in sorted(PROBLEMS)
        if issubclass(PROBLEMS[name], ds.QuasilinearProblem)
        for sweeper in MANIFOLD_METHODS
        if sweeper != "rattle"
    ],
]
"""Problems and methods whose steps stay on the manifold of the constraints."""


SWEEPERS = ("fully-implicit", "semi-implicit", "constrained")
IN_TURN = ("semi-implicit", "constrained", "fully-implicit")  # Which suits all problems in their order.
RTOLS = (1e-4, 1e-6, 1e-8, 1e-5, 1e-7)
BY_SWEEPS = [
    *zip(FIRST, cycle(SWEEPERS), cycle((1e-4, 1e-6)), strict=False),
    *[
        pytest.param(name, sweeper, rtol, marks=pytest.mark.long)
        for name, sweeper, rtol in zip(
            sorted({*PROBLEMS} - {*MANY_STEPS}), cycle(IN_TURN), cycle(RTOLS), strict=False
        )
    ],
]
"""Problems that are swept to a tolerance, with the variants and tolerances in turn."""


BY_SOLVERS = [
    (name, sweeper, solver, kind)
    for (name, sweeper), solver, kind in product(
        [
            ("hires", "semi-implicit"),
            ("transmission-line", "constrained"),
            ("navier-stokes", "fully-implicit"),
        ],
        [solver for solver in LINEAR_SOLVERS if solver != "klu" or find_spec("kvxopt")],
        ({"dt": 0.005, "t_end": 0.1}, {"rtol": 1e-4, "t_end": 0.2}),
    )
]
"""Problems of arrays, chains and grids that are swept with each linear solver."""

OF_ONE_SIZE: list[dict[str, Any]] = [
    {"sweeper": "radau-iia-5"},
    {"sweeper": "esdirk43"},
    {"sweeper": "fully-implicit", "nodes": 3, "restol": 1e-6},
    {"sweeper": "semi-implicit", "nodes": 4, "qdelta": "MIN-SR-S"},
    {"sweeper": "constrained", "nodes": 3},
    {"sweeper": "bdf2"},
    {"sweeper": "bdf4"},
]
"""Methods of steps of a fixed size."""


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SteppingController, "_go_ahead", lambda *_: None)


def solved_twice(monkeypatch: pytest.MonkeyPatch, problem: Any, **options: Any) -> list[Solution]:
    """The solution with steps taken ahead, and that with each of them taken by the controller."""
    ahead = ds.solve(problem, **options)
    with monkeypatch.context() as patch:
        one_by_one(patch)
        return [ahead, ds.solve(problem, **options)]


def require_equal(ahead: Solution, alone: Solution) -> None:
    for name in ("t", "u", "du"):
        np.testing.assert_array_equal(getattr(ahead, name), getattr(alone, name))
    assert ahead.stats == alone.stats
    assert ahead.message == alone.message
    for name, values in ahead.per_step.items():
        np.testing.assert_array_equal(values, alone.per_step[name])


def require_equal_between(ahead: Solution, alone: Solution) -> None:
    if ahead.dense is not None and alone.dense is not None:
        for one, other in zip(ahead.dense.steps, alone.dense.steps, strict=True):
            assert (one.time, one.dt, one.scheme) == (other.time, other.dt, other.scheme)
            np.testing.assert_array_equal(one.rows, other.rows)


@pytest.mark.parametrize("name", CATALOGUE)
def test_steps_are_those_of_the_controller(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    require_equal(*solved_twice(monkeypatch, name, rtol=1e-6))


@pytest.mark.parametrize(("name", "rtol"), LOOSE_OR_TIGHT)
def test_loose_and_tight_steps_are_those_of_the_controller(
    monkeypatch: pytest.MonkeyPatch, name: str, rtol: float
) -> None:
    require_equal(*solved_twice(monkeypatch, name, rtol=rtol))


@pytest.mark.parametrize(("name", "sweeper"), BY_PAIRS)
def test_steps_of_pairs_are_those_of_the_controller(
    monkeypatch: pytest.MonkeyPatch, name: str, sweeper: Any
) -> None:
    ahead, alone = solved_twice(monkeypatch, name, sweeper=sweeper, rtol=1e-4, dense=True)
    require_equal(ahead, alone)
    require_equal_between(ahead, alone)


@pytest.mark.parametrize(("name", "sweeper"), ON_MANIFOLDS)
def test_steps_on_manifolds_are_those_of_the_controller(
    monkeypatch: pytest.MonkeyPatch, name: str, sweeper: str
) -> None:
    crossing = ds.Event(lambda u, t: u[0] - 0.5, terminal=False)
    for options in ({}, {"dense": True, "events": [crossing], "atol": 1e-7}):
        ahead, alone = solved_twice(monkeypatch, name, sweeper=sweeper, rtol=1e-5, **options)
        require_equal(ahead, alone)
        require_equal_between(ahead, alone)
    alone, altogether = steps_of_the_controller(monkeypatch, name, sweeper=sweeper, rtol=1e-5, t_end=None)
    assert alone <= 5 + 0.2 * altogether


@pytest.mark.parametrize(("name", "sweeper", "rtol"), BY_SWEEPS)
def test_steps_of_sweeps_are_those_of_the_controller(
    monkeypatch: pytest.MonkeyPatch, name: str, sweeper: str, rtol: float
) -> None:
    if sweeper != "fully-implicit" and name == "problematic-f":
        pytest.skip("it depends on the derivative of an algebraic unknown")
    ahead, alone = solved_twice(monkeypatch, name, sweeper=sweeper, rtol=rtol, dense=True)
    require_equal(ahead, alone)
    require_equal_between(ahead, alone)


@pytest.mark.parametrize(("name", "sweeper", "solver", "kind"), BY_SOLVERS)
def test_steps_of_every_linear_solver_are_those_of_the_controller(
    monkeypatch: pytest.MonkeyPatch, name: str, sweeper: str, solver: str, kind: dict[str, float]
) -> None:
    options = {"sweeper": sweeper, "linear_solver": solver, "dense": True, **kind}
    ahead, alone = solved_twice(monkeypatch, name, **options)
    assert ahead.success, ahead.message
    require_equal(ahead, alone)
    require_equal_between(ahead, alone)
    expected = ds.solve(name, **{**options, "backend": "numpy"})
    assert ahead.stats["steps"] == expected.stats["steps"]
    scale = np.maximum(np.abs(expected.u).max(axis=0), 1e-3)
    assert (np.abs(ahead.u[-1] - expected.u[-1]) <= 1e-5 * scale).all()


@pytest.mark.parametrize("sweeper", SWEEPERS)
@pytest.mark.parametrize("rtol", [1e-4, pytest.param(1e-6, marks=pytest.mark.long)])
def test_steps_of_sweeps_of_many_gates_are_those_of_the_controller(
    monkeypatch: pytest.MonkeyPatch, sweeper: str, rtol: float
) -> None:
    ahead, alone = solved_twice(monkeypatch, "two-bit-adder", sweeper=sweeper, rtol=rtol, t_end=12.0)
    require_equal(ahead, alone)
    assert ahead.stats["rejected"] > 0


@pytest.mark.parametrize("options", OF_ONE_SIZE, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize("name", CATALOGUE)
def test_steps_of_one_size_are_those_of_the_controller(
    monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, Any]
) -> None:
    problem = PROBLEMS[name]()
    if options["sweeper"] in ("semi-implicit", "constrained") and name == "problematic-f":
        pytest.skip("it depends on the derivative of an algebraic unknown")
    count = 70 if problem.n < 50 else 7
    span = {"dt": problem.dt, "t_end": problem.interval[0] + count * problem.dt}
    ahead, alone = solved_twice(monkeypatch, name, dense=True, **span, **options)
    require_equal(ahead, alone)
    require_equal_between(ahead, alone)


FORMULAS = [
    *[("hires", {"sweeper": name}) for name in ("bdf1", "bdf6", "adams-moulton-2", "adams-moulton-4")],
    *[("elastic-pendulum", {"sweeper": name}) for name, method in MULTISTEP.items() if method.explicit],
    *[
        ("elastic-pendulum", {"sweeper": name, "corrector": "fixed-point"})
        for name in ("bdf1", "bdf3", "adams-moulton-3")
    ],
]
"""Problems, and multistep methods with the way in which their equations are solved."""


@pytest.mark.parametrize(("name", "method"), FORMULAS, ids=str)
def test_steps_of_formulas_are_those_of_the_controller(
    monkeypatch: pytest.MonkeyPatch, name: str, method: dict[str, str]
) -> None:
    dt = 0.01 if name == "hires" else 0.002
    options: dict[str, Any] = {**method, "dt": dt, "t_end": 500 * dt, "dense": True}
    ahead, alone = solved_twice(monkeypatch, name, **options)
    require_equal(ahead, alone)
    require_equal_between(ahead, alone)
    begun = max(1, MULTISTEP[method["sweeper"]].steps - MULTISTEP[method["sweeper"]].explicit)
    assert steps_of_the_controller(monkeypatch, name, **options, rtol=None) == (begun, 500)


REASONS = {
    "manifold": "methods on manifolds have steps of their own, which are in a loop where sizes are chosen",
    "end": "the end of a step is no stage, and is computed from all of them",
    "stages": "the stages of a full matrix have an eigenbasis in compiled code where they are a collocation",
    "solver": "stages of one size are solved with factors that compiled code has for their kind of matrix",
}
"""Why runs are left to the controller, which takes step by step what is in no loop."""


def reason_against(cls: Any, problem: Any, solver: str, to_tolerance: bool) -> str:
    """The key of the reason for which the steps of a method are not taken ahead; empty where they are."""
    if issubclass(cls, ManifoldDAE):
        return "" if to_tolerance else "manifold"
    if issubclass(cls, MultistepDAE) and cls.method.explicit:
        return ""  # dF/du' alone is factorised, whichever solver takes the others
    if not issubclass(cls, DirectMethod) or to_tolerance:
        return ""
    method = cls.method
    if not method.stiffly_accurate:
        return "end"
    if issubclass(cls, RungeKuttaDAE) and not method.diagonally_implicit:
        powers, c = np.arange(method.stages), method.c[:, None]
        if not np.allclose(method.A @ c**powers, c ** (powers + 1) / (powers + 1)):
            return "stages"
    kinds = ("auto", "superlu", "klu") if problem.sparsity is not None else ("auto", "dense")
    return "" if solver in kinds else "solver"


@pytest.mark.parametrize("name", ["hires", pytest.param("transmission-line", marks=pytest.mark.long)])
@pytest.mark.parametrize("sweeper", list(REGISTERED))
def test_every_run_is_taken_ahead_or_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, sweeper: str, name: str
) -> None:
    cls = REGISTERED[sweeper]
    name = "rigid-pendulum" if issubclass(cls, ManifoldDAE) else name
    problem = PROBLEMS[name]()
    ds.solve(name, dt=0.002, t_end=0.004)  # the first two steps of a process, which compare the Jacobian
    solvers = [solver for solver in LINEAR_SOLVERS if solver != "klu" or find_spec("kvxopt")]
    for solver, kind in product(solvers, ({"dt": 0.002}, {"rtol": 1e-4, "t_end": 1.0})):
        options = {"rtol": None, "t_end": 0.06, **kind, "linear_solver": solver, "sweeper": sweeper}
        try:
            with monkeypatch.context() as patch:
                alone, altogether = steps_of_the_controller(patch, name, **options)
        except InputError:  # it has no error estimate, or is for other equations
            continue
        reason = reason_against(cls, problem, solver, "rtol" in kind)
        assert (alone == altogether) if reason else (alone <= 5 + 0.1 * altogether), (solver, kind, reason)
        assert not reason or REASONS[reason]


def test_steps_of_one_size_are_taken_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[float] = []
    for cls in (RungeKuttaDAE, SpectralDeferredCorrectionDAE, MultistepDAE):
        predict = cls.predict
        monkeypatch.setattr(cls, "predict", lambda self, predict=predict: (begun.append(0.0), predict(self)))
    for options in OF_ONE_SIZE:
        begun.clear()
        assert ds.solve("pendulum", dt=0.01, t_end=1.0, **options).stats["steps"] == 100
        assert len(begun) < 10, options


@pytest.mark.parametrize("name", [*WATCHED, *OTHERS])
def test_steps_of_models_are_those_of_the_controller(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    ahead, alone = solved_twice(monkeypatch, name, rtol=1e-6)
    if "singular point" in ahead.message:  # steps beyond it that were rejected are counted
        ahead.stats.update(alone.stats)
    require_equal(ahead, alone)


@pytest.mark.parametrize("options", [{"dense": True}, {"t_eval": 101}, {"nodes": 3}, {"atol": 1e-7}], ids=str)
@pytest.mark.parametrize(
    "name", ["charge-pump", "pendulum", "robertson", "two-transistor", "transmission-line"]
)
def test_steps_are_those_of_the_controller_with_options(
    monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, Any]
) -> None:
    if "t_eval" in options:
        t = ds.solve(name, rtol=1e-3).t
        options = {"t_eval": np.linspace(t[0], t[-1], options["t_eval"])}
    ahead, alone = solved_twice(monkeypatch, name, rtol=1e-6, **options)
    require_equal(ahead, alone)
    require_equal_between(ahead, alone)


def steps_of_the_controller(monkeypatch: pytest.MonkeyPatch, problem: Any, **options: Any) -> tuple[int, int]:
    """How many attempts the controller made itself, and how many were made altogether."""
    taken: list[float] = []
    take = SteppingController._take

    def counted(self: SteppingController, step: Any, level: Any, block: list[Any]) -> None:
        taken.append(level.time)
        take(self, step, level, block)

    monkeypatch.setattr(SteppingController, "_take", counted)
    stats = ds.solve(problem, **{"rtol": 1e-6, **options}).stats
    return len(taken), stats["steps"] + stats["rejected"]


def decay(t: float, u: Any, du: Any) -> Any:
    return [du[0] + u[0] - np.cos(t), u[1] - u[0] ** 2]


@pytest.mark.parametrize(
    "problem",
    ["robertson", "hires", "car-axis", "transmission-line", "pendulum", decay],
    ids=lambda problem: getattr(problem, "__name__", problem),
)
def test_smooth_runs_are_taken_ahead(monkeypatch: pytest.MonkeyPatch, problem: Any) -> None:
    options = {"u0": [1.0, 1.0], "t_end": 30.0} if callable(problem) else {}
    ds.solve(problem, rtol=1e-3, **options)  # the first two steps of a process, which compare the Jacobian
    alone, altogether = steps_of_the_controller(monkeypatch, problem, **options)
    assert alone <= 0.05 * altogether


def test_errors_that_are_let_go_are_told_by_the_sizes_known_at_their_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead, alone = solved_twice(monkeypatch, "pendulum", rtol=1e-4, t_end=20.0)
    assert "errors up to 0.004" in ahead.message
    require_equal(ahead, alone)


@pytest.mark.parametrize("sweeper", SWEEPERS)
@pytest.mark.parametrize("problem", ["hires", "car-axis", "pendulum", "transmission-line", "pipe-network"])
def test_smooth_runs_of_sweeps_are_taken_ahead(
    monkeypatch: pytest.MonkeyPatch, problem: str, sweeper: str
) -> None:
    ds.solve(problem, sweeper=sweeper, rtol=1e-3)
    alone, altogether = steps_of_the_controller(monkeypatch, problem, sweeper=sweeper, rtol=1e-5)
    assert alone <= 2 + 0.1 * altogether


@pytest.mark.parametrize("sweeper", ["esdirk32", "esdirk43", IMPLICIT_FIRST, TWO_DIAGONALS])
@pytest.mark.parametrize("problem", ["robertson", "hires", "hessenberg-2"])
def test_smooth_runs_of_pairs_are_taken_ahead(
    monkeypatch: pytest.MonkeyPatch, problem: str, sweeper: Any
) -> None:
    if problem == "hessenberg-2" and not isinstance(sweeper, str):
        problem = "hessenberg-1"  # nothing is said of their estimates at index 2
    ds.solve(problem, sweeper=sweeper, rtol=1e-3)
    alone, altogether = steps_of_the_controller(monkeypatch, problem, sweeper=sweeper, rtol=1e-5)
    assert alone <= 2 + 0.05 * altogether


@pytest.mark.parametrize("name", ["charge-pump", "figure-eight", "pendulum", "robertson", "two-transistor"])
def test_the_length_of_calls_changes_nothing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    whole = ds.solve(name, rtol=1e-6)
    lengths, go_ahead = np.random.default_rng(0), AdaptivityDAE.go_ahead

    def in_pieces(self: Any, level: Any, value: Any, time: float, most: int, *others: Any) -> Any:
        return go_ahead(self, level, value, time, min(most, int(lengths.integers(1, 6))), *others)

    monkeypatch.setattr(AdaptivityDAE, "go_ahead", in_pieces)
    require_equal(whole, ds.solve(name, rtol=1e-6))


class Ends(Hooks):  # type: ignore[misc]
    """Keeps the ends of accepted steps."""

    ends: list[float]

    def pre_run(self, step: Any, level_number: int) -> None:
        type(self).ends = []

    def post_step(self, step: Any, level_number: int) -> None:
        if not step.status.get("restart"):
            self.ends.append(step.levels[level_number].time + step.levels[level_number].dt)


def test_a_hook_of_the_user_sees_every_step() -> None:
    plain = ds.solve("robertson", rtol=1e-6)
    watched = ds.solve("robertson", rtol=1e-6, hooks=[Ends])
    np.testing.assert_array_equal(watched.u, plain.u)
    np.testing.assert_array_equal(Ends.ends, plain.t[1:])


def test_progress_is_shown_for_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.setattr(ds.StepRecord, "show_progress", lambda self, time: seen.append(time))
    record = type("Record", (ds.StepRecord,), {})
    solution = ds.solve("robertson", rtol=1e-6, hooks=[record])
    assert set(solution.t[1:].tolist()) <= set(seen)


def test_checkpoints_are_those_of_the_controller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written: list[list[int]] = []
    for way in ("ahead", "alone"):
        counts: list[int] = []
        with monkeypatch.context() as patch:
            if way == "alone":
                one_by_one(patch)
            patch.setattr(Checkpoints, "_state", _counted(Checkpoints._state, counts))
            ds.solve("two-transistor", rtol=1e-6, checkpoint=tmp_path / f"{way}.npz", every=7)
        written.append(counts)
    assert written[0] == written[1] == list(range(7, 7 * len(written[0]) + 1, 7))


def _counted(state: Any, counts: list[int]) -> Any:
    def call(self: Any, controller: Any, time: float, value: Any) -> Any:
        counts.append(len(self._record.rows))
        return state(self, controller, time, value)

    return call


def test_a_problem_that_chooses_its_branch_is_asked_in_every_step() -> None:
    seen: set[float] = set()

    class Told(ds.SimpleDAE):  # type: ignore[misc]
        def start_step(self, u: Any, t: float) -> None:
            seen.add(t)

    solution = ds.solve(Told, rtol=1e-6)
    assert set(solution.t[:-1].tolist()) <= seen


@pytest.mark.parametrize("name", ["charge-pump", "nand-gate", "slider-crank", "two-transistor", "wheelset"])
def test_solved_steps_are_counted_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    counts = {"solved": 0, "crawled": 0, "failed": 0}
    judge, went_ahead = RungeKuttaDAE.judge, JacobianWatch.went_ahead

    def judged(self: RungeKuttaDAE) -> Outcome:
        outcome = judge(self)
        counts["solved"] += outcome.solved
        counts["failed"] += not outcome.solved
        counts["crawled"] += outcome.solved and outcome.rate > CRAWLING_CONTRACTION
        return outcome

    def counted(self: JacobianWatch, solved: int, crawls: int, failed: int, in_a_row: int) -> None:
        for what, count in zip(counts, (solved, crawls, failed), strict=True):
            counts[what] += count
        went_ahead(self, solved, crawls, failed, in_a_row)

    monkeypatch.setattr(RungeKuttaDAE, "judge", judged)
    monkeypatch.setattr(JacobianWatch, "went_ahead", counted)
    totals = []
    for way in ("ahead", "alone"):
        if way == "alone":
            one_by_one(monkeypatch)
        counts |= dict.fromkeys(counts, 0)
        ds.solve(name, rtol=1e-6)
        totals.append(dict(counts))
    assert totals[0] == totals[1] and totals[0]["solved"] > 0


def by_branches(t: float, u: Any, du: Any) -> list[Any]:
    """Van der Pol's oscillator with a sum of two numbers in order, which no compiler takes."""
    first, second = sorted([float(u[0]), float(u[1])])
    return [du[0] - u[1], du[1] - 5.0 * (1.0 - u[0] ** 2) * u[1] + u[0], u[2] - u[0] - first - second]


PYTHON = ["andrews", "car-axis", "discontinuous", "hessenberg-2", "robertson", "two-transistor", "water-tube"]
IN_PYTHON = [
    *[(by_branches, sweeper) for sweeper in ("radau-iia-5", "esdirk43", *SWEEPERS)],
    *zip(PYTHON, cycle(("fully-implicit", "radau-iia-5", "semi-implicit", "constrained")), strict=False),
    *[
        pytest.param(name, sweeper, marks=pytest.mark.long)
        for name, sweeper in zip(
            sorted({*PROBLEMS} - {*MANY_STEPS, "problematic-f", "simple", "skate", "wheelset"}),
            cycle(("radau-iia-5", *SWEEPERS)),
            strict=False,
        )
    ],
]
"""Equations that compiled code calls back, and the methods of their runs to a tolerance."""


@pytest.mark.parametrize(("problem", "sweeper"), IN_PYTHON)
def test_steps_of_equations_in_python_are_those_of_the_controller(
    monkeypatch: pytest.MonkeyPatch, problem: Any, sweeper: str
) -> None:
    options: dict[str, Any] = {"u0": [2.0, 0.0, 4.0], "t_end": 8.0, "trace": False}
    if isinstance(problem, str):
        problem, options = InPython(PROBLEMS[problem]()), {}
    ahead, alone = solved_twice(monkeypatch, problem, sweeper=sweeper, rtol=1e-5, dense=True, **options)
    require_equal(ahead, alone)
    require_equal_between(ahead, alone)


@pytest.mark.parametrize("sweeper", ["backward-euler", "esdirk43", "bdf3"])
def test_steps_of_one_size_of_equations_in_python_are_those_of_the_controller(
    monkeypatch: pytest.MonkeyPatch, sweeper: str
) -> None:
    options: dict[str, Any] = {"u0": [2.0, 0.0, 4.0], "dt": 0.005, "t_end": 1.0, "trace": False}
    options |= {"sweeper": sweeper, "dense": True}
    ahead, alone = solved_twice(monkeypatch, by_branches, **options)
    require_equal(ahead, alone)
    require_equal_between(ahead, alone)
    begun, altogether = steps_of_the_controller(monkeypatch, by_branches, rtol=None, **options)
    assert altogether == 200 and begun <= 3


@pytest.mark.parametrize("sweeper", ["radau-iia-5", "esdirk43", *SWEEPERS])
def test_steps_of_equations_in_python_are_taken_ahead(monkeypatch: pytest.MonkeyPatch, sweeper: str) -> None:
    options: dict[str, Any] = {"u0": [2.0, 0.0, 4.0], "t_end": 8.0, "trace": False, "rtol": 1e-5}
    ds.solve(by_branches, sweeper=sweeper, **options)
    alone, altogether = steps_of_the_controller(monkeypatch, by_branches, sweeper=sweeper, **options)
    assert alone <= 2 + 0.05 * altogether


@pytest.mark.parametrize(
    "method",
    [{"sweeper": "radau-iia-5", "rtol": 1e-5}, {"sweeper": "semi-implicit", "rtol": 1e-5}]
    + [{"sweeper": name, "dt": 0.01} for name in ("backward-euler", "bdf3")],
    ids=lambda method: method["sweeper"],
)
@pytest.mark.parametrize("error", [KeyError("no such key"), KeyboardInterrupt()], ids=repr)
def test_what_equations_in_python_raise_is_raised_at_its_step(
    monkeypatch: pytest.MonkeyPatch, method: dict[str, Any], error: BaseException
) -> None:
    ends: list[float] = []
    take_ahead = ds.StepRecord.take_ahead

    def taken(self: Any, steps: Any) -> None:
        ends.append(float(steps.starts[-1] + steps.sizes[-1]) if len(steps.starts) else 0.0)
        take_ahead(self, steps)

    def fails(t: float, u: Any, du: Any) -> list[Any]:
        if t > 2.0 and u[0] != 2.0:  # with the start the size of F is measured
            raise error
        return by_branches(t, u, du)

    monkeypatch.setattr(ds.StepRecord, "take_ahead", taken)
    with pytest.raises(type(error)):
        ds.solve(fails, u0=[2.0, 0.0, 4.0], t_end=8.0, trace=False, **method)
    assert 1.0 < max(ends) <= 2.0


@pytest.mark.parametrize("sweeper", ["backward-euler", "esdirk43", "adams-bashforth-2", "adams-moulton-3"])
def test_where_equations_in_python_are_not_defined_is_told(sweeper: str) -> None:
    def rises(t: float, u: Any, du: Any) -> list[Any]:
        first = sorted([float(u[0]), float(u[1])])[0]
        return [du[0] - u[1], du[1] + u[0] + 0.0 * first + (np.log(0.9 - t) if t < 0.9 else np.nan)]

    done = ds.solve(rises, sweeper=sweeper, u0=[2.0, 0.0], dt=0.01, t_end=1.0, trace=False)
    assert not done.success and done.t[-1] == pytest.approx(0.89)
    assert "returned nan in 'equation 1' at t=0.9" in done.message


def test_rounding_in_models_is_estimated_in_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    for name in ("_noise_at_end", "_tell_term_sizes"):
        method = getattr(MachineStages, name)
        monkeypatch.setattr(
            MachineStages, name, lambda *all_of_it, m=method: (asked.append(m.__name__), m(*all_of_it))[1]
        )
    solution = ds.solve("slider-crank-motor", rtol=1e-4)
    assert solution.success and solution.stats["steps"] > 50
    assert asked.count("_tell_term_sizes") == 1
    assert asked.count("_noise_at_end") <= 2  # of a matrix that may be singular


@pytest.mark.parametrize("name", ["transistor-amplifier", "furuta-pendulum", "diode-ladder", "robot-arm"])
def test_sizes_of_equations_are_those_of_their_program(name: str) -> None:
    problem: Any = make_problem(name)
    program, rng = problem.form.residual.sizes, np.random.default_rng(5)
    for t in (0.0, 0.3):
        u, du = rng.normal(size=(2, problem.n))
        exact = program.evaluate(program.arguments(t, u, du, problem.kernel_parameters()))
        np.testing.assert_allclose(problem.residual_sizes(u, du, t), exact, rtol=1e-13)
