"""What users of pySDC and its DAE project bring along: exceptions, tableaux, start values, problems."""

from __future__ import annotations

import copy
import importlib
import pickle
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import dill
import numpy as np
import pySDC.core.errors as theirs
import pySDC.implementations.sweeper_classes.Runge_Kutta as tableaux
import pytest
import scipy.linalg as sla
from pySDC.core.collocation import CollBase
from pySDC.helpers.stats_helper import get_sorted
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
from pySDC.implementations.convergence_controller_classes.basic_restarting import BasicRestartingNonMPI
from pySDC.projects.PinTSimE.switch_estimator import SwitchEstimator
from qmat.qdelta import QDELTA_GENERATORS

import dae_sdc as ds
from dae_sdc.control.adaptivity import AdaptivityDAE
from dae_sdc.control.events import LocateEvents
from dae_sdc.dae.adapter import adapted
from dae_sdc.run.equations import read
from dae_sdc.run.tracing import ReadEquations
from dae_sdc.sweepers.direct import DirectMethod

QUIET = {"logger_level": 40, "dump_setup": False}


def run(problem: Any, sweeper: Any, t0: float, t_end: float, dt: float, u0: Any = None, **more: Any) -> Any:
    """The controller and the end value of a run of pySDC's controller."""
    direct = issubclass(sweeper, DirectMethod)
    params = {"quad_type": "RADAU-RIGHT", "num_nodes": 3, "QI": "LU", **more.pop("sweeper_params", {})}
    given = {
        "problem_class": problem,
        "problem_params": more.pop("problem_params", {}),
        "sweeper_class": sweeper,
        "sweeper_params": {} if direct else params,
        "level_params": {"dt": dt, "restol": -1.0 if direct else more.pop("restol", 1e-10)},
        "step_params": {"maxiter": 1 if direct else 60},
    }
    controller = controller_nonMPI(1, {**QUIET, **more}, given)
    P = controller.MS[0].levels[0].prob
    end, _ = controller.run(u0=P.u_exact(t0) if u0 is None else u0, t0=t0, Tend=t_end)
    return controller, end


# --- exceptions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "kind"),
    [
        (ds.InputError, theirs.ParameterError),
        (ds.InconsistentStateError, theirs.ParameterError),
        (ds.ConvergenceError, theirs.ConvergenceError),
        (ds.NewtonError, theirs.ConvergenceError),
        (ds.NewtonError, theirs.ProblemError),
        (ds.EvaluationError, theirs.ProblemError),
        (ds.SingularMatrixError, theirs.ProblemError),
    ],
)
def test_an_exception_is_of_the_kind_that_pysdc_has_for_the_case(ours: type, kind: type) -> None:
    assert issubclass(ours, kind)
    assert issubclass(ours, ds.DAEError)


def test_a_wrong_setting_in_a_description_is_a_parameter_error_of_pysdc() -> None:
    with pytest.raises(theirs.ParameterError, match="RADAU-LEFT"):
        run(ds.SimpleDAE, ds.FullyImplicitDAE, 0.0, 0.1, 0.1, sweeper_params={"quad_type": "RADAU-LEFT"})


# --- tableaux -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (tableaux.BackwardEuler, ds.BackwardEulerDAE),
        (tableaux.CrankNicolson, ds.TrapezoidalRuleDAE),
        (tableaux.EDIRK4, ds.EDIRK4DAE),
        (tableaux.DIRK43_2, ds.DIRK43_2DAE),
    ],
)
def test_a_class_with_a_tableau_of_pysdc_steps_like_the_method_of_the_library(theirs: Any, ours: Any) -> None:
    made = type("Made", (ds.RungeKuttaDAE, theirs), {})
    assert made.method.order == ours.method.order
    ends = [np.array(run(ds.SimpleDAE, cls, 0.0, 0.5, 0.1)[1]) for cls in (made, ours)]
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-14)


@pytest.mark.parametrize(
    ("base", "order", "embedded"),
    [
        (tableaux.ImplicitMidpointMethod, 2, None),
        (tableaux.DIRK43, 4, 3),
        (tableaux.ESDIRK53, 5, 3),
        (tableaux.ARK548L2SAESDIRK, 5, 4),
        (tableaux.ARK324L2SAESDIRK, 3, 2),
    ],
)
def test_orders_of_a_tableau_are_found_and_reached_where_it_ends_in_a_stage(
    base: Any, order: int, embedded: int | None
) -> None:
    made = type("Made", (ds.RungeKuttaDAE, base), {})
    assert (made.method.order, made.method.embedded_order) == (order, embedded)
    if embedded is not None:
        assert made.get_update_order() == base.get_update_order()
    if not made.method.orders:
        return
    exact, tight = np.array(ds.DiscontinuousTestDAE().u_exact(2.0)), {"newton_tol": 1e-13}
    ends = [run(ds.DiscontinuousTestDAE, made, 1.0, 2.0, dt, problem_params=tight)[1] for dt in (0.1, 0.05)]
    errors = [abs(end[0] - exact[0]) for end in ends]
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.3


def test_a_method_with_coefficients_of_its_own_needs_no_second_base() -> None:
    class Own(ds.RungeKuttaDAE):
        nodes = np.array([1.0])
        weights = np.array([1.0])
        matrix = np.array([[1.0]])

    ends = [np.array(run(ds.SimpleDAE, cls, 0.0, 0.5, 0.1)[1]) for cls in (Own, ds.BackwardEulerDAE)]
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize(
    ("base", "words"),
    [(tableaux.RK4, "all stages are explicit"), (tableaux.ARK54, "ARK54 splits u' = f")],
)
def test_a_tableau_that_solves_no_dae_is_refused_when_the_class_is_made(base: Any, words: str) -> None:
    with pytest.raises(ds.InputError, match=words):
        type("Made", (ds.RungeKuttaDAE, base), {})


def test_a_runge_kutta_sweeper_without_a_tableau_says_how_to_give_one() -> None:
    with pytest.raises(ds.InputError, match="no tableau"):
        run(ds.SimpleDAE, ds.RungeKuttaDAE, 0.0, 0.1, 0.1)


# --- start values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweeper", [ds.FullyImplicitDAE, ds.BackwardEulerDAE, ds.SWEEPERS["bdf2"]])
@pytest.mark.parametrize("form", ["list", "tuple", "array", "state", "mesh of theirs"])
def test_a_start_may_be_any_row_of_numbers(form: str, sweeper: Any) -> None:
    row = np.array(ds.SimpleDAE().u_exact(0.0))
    forms = {"list": row.tolist(), "tuple": tuple(row.tolist()), "array": row}
    forms |= {"state": ds.SimpleDAE().state(row), "mesh of theirs": peer("SimpleDAE")().u_exact(0.0)}
    _, end = run(ds.SimpleDAE, sweeper, 0.0, 0.1, 0.05, u0=forms[form])
    _, expected = run(ds.SimpleDAE, sweeper, 0.0, 0.1, 0.05)
    assert isinstance(end, ds.MeshDAE) and end.n_diff == 2
    np.testing.assert_array_equal(end, expected)


def test_a_start_of_another_length_is_refused_in_a_line() -> None:
    with pytest.raises(
        ds.InputError, match=r"has shape \(3,\), differential unknowns first; got shape \(2,\)"
    ):
        run(ds.SimpleDAE, ds.FullyImplicitDAE, 0.0, 0.1, 0.05, u0=[1.0, 2.0])


# --- problems of pySDC's DAE project --------------------------------------------------------------------

CASES = {  # module, class, parts of the mesh, start, size of a step, residual tolerance
    "simple": ("simpleDAE", "SimpleDAE", (2, 1), 0.0, 1e-2, 1e-11),
    "problematic-f": ("problematicF", "ProblematicF", (2, 0), 0.0, 1e-2, 1e-11),
    "pendulum": ("pendulum2D", "Pendulum2D", (4, 1), 0.0, 1e-2, 1e-10),
    "discontinuous": ("discontinuousTestDAE", "DiscontinuousTestDAE", (1, 1), 1.0, 1e-2, 1e-11),
    "one-transistor": ("transistorAmplifier", "OneTransistorAmplifier", (5, 0), 0.0, 1e-4, 1e-13),
    "two-transistor": ("transistorAmplifier", "TwoTransistorAmplifier", (8, 0), 0.0, 1e-4, 1e-13),
    "synchronous-machine": ("synchronousMachine", "SynchronousMachineInfiniteBus", (8, 6), 0.0, 1e-2, 1e-11),
    "wscc9": ("wscc9BusSystem", "WSCC9BusSystem", (33, 24), 0.0, 1e-2, 1e-11),
}
STEPS = 2


def peer(name: str) -> Any:
    module = next(module for module, cls, *_ in CASES.values() if cls == name)
    return getattr(importlib.import_module(f"pySDC.projects.DAE.problems.{module}"), name)


def of_peer(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"pySDC.projects.DAE.sweepers.{module}"), name)


@pytest.mark.parametrize("case", CASES)
def test_unknowns_of_a_problem_of_theirs_are_found_in_its_mesh(case: str) -> None:
    _, name, (n_diff, n_alg), t0, *_ = CASES[case]
    original = peer(name)(newton_tol=1e-10)
    made = adapted(original)
    assert (made.n_diff, made.n_alg, made.n) == (n_diff, n_alg, original.nvars)
    start = original.u_exact(t0)
    values = np.array(start) if n_alg == 0 else np.concatenate([start.diff[:n_diff], start.alg[:n_alg]])
    np.testing.assert_array_equal(made.u_exact(t0), values)


OURS = (ds.FullyImplicitDAE, ds.SemiImplicitDAE, ds.ConstrainedDAE)
# Steps of the largest problem take longer than those of all others.
RUNS = [(case, sweeper) for case in CASES for sweeper in (OURS[:1] if case == "wscc9" else OURS)]


@pytest.mark.parametrize(("case", "sweeper"), RUNS)
def test_a_problem_of_theirs_ends_in_our_sweepers_where_it_ends_in_theirs(case: str, sweeper: Any) -> None:
    _, name, (_, n_alg), t0, dt, restol = CASES[case]
    theirs = of_peer("fullyImplicitDAE", "FullyImplicitDAE")
    if n_alg and sweeper is not ds.FullyImplicitDAE:
        theirs = of_peer("semiImplicitDAE", "SemiImplicitDAE")
    ends = []
    for cls in (theirs, sweeper):
        given: dict[str, Any] = {"problem_params": {"newton_tol": 1e-12}, "restol": restol}
        controller, end = run(peer(name), cls, t0, t0 + (STEPS - 0.5) * dt, dt, **given)
        ends.append(end)
    P = controller.MS[0].levels[0].prob
    assert isinstance(P, ds.ProblemDAE) and type(P).__name__ == name
    # A multiplier of index 3 is a residual divided by dt^2.
    bound = 1e-5 if case == "pendulum" else 1e-8
    expected = np.array(P.state(ends[0]))
    assert np.abs(np.array(ends[1]) - expected).max() < bound * (1.0 + np.abs(expected).max())


def test_a_script_of_theirs_reads_and_sets_what_it_is_used_to() -> None:
    original = peer("DiscontinuousTestDAE")()
    made = adapted(original)
    made.t_switch = 4.5
    made.count_switches()
    assert (original.t_switch, original.nswitches, made.nvars) == (4.5, 1, 2)
    states = [made.state([y, 1.0]) for y in (40.0, 45.0, 55.0)]
    assert made.get_switching_info(states, 4.6) == original.get_switching_info(states, 4.6)
    assert made.names == ("diff[0]", "alg[0]")
    with pytest.raises(AttributeError, match="no_such"):
        _ = made.no_such
    with pytest.raises(ds.InputError, match="u_exact only available for t>=1"):
        made.u_exact(0.0)


class Estimator(SwitchEstimator):  # type: ignore[misc]
    """pySDC's own, whose root search returns an array of one entry with some versions of qmat."""

    @staticmethod
    def get_switch(*args: Any) -> float:
        return float(np.ravel(SwitchEstimator.get_switch(*args))[0])


@pytest.mark.parametrize("nodes", [3, 4])
def test_the_switch_estimator_of_pysdc_locates_events_by_our_switches(nodes: int) -> None:
    given = {
        "problem_class": ds.DiscontinuousTestDAE,
        "problem_params": {"newton_tol": 1e-10},
        "sweeper_class": ds.FullyImplicitDAE,
        "sweeper_params": {"quad_type": "RADAU-RIGHT", "num_nodes": nodes, "QI": "LU"},
        "level_params": {"dt": 1e-2, "restol": 1e-10},
        "step_params": {"maxiter": 60},
        "convergence_controllers": {
            Estimator: {"tol": 1e-8, "alpha": 0.96},
            BasicRestartingNonMPI: {"max_restarts": 200, "crash_after_max_restarts": False},
        },
    }
    controller = controller_nonMPI(1, dict(QUIET), given)
    P = controller.MS[0].levels[0].prob
    end, stats = controller.run(u0=P.u_exact(4.6), t0=4.6, Tend=4.7)
    found = get_sorted(stats, type="switch", sortby="time", recomputed=False)
    assert abs(end[0] - 50.0) < 1e-7
    assert abs(found[-1][1] - np.arccosh(50.0)) < 1e-8
    assert P.nswitches >= 1


@pytest.mark.parametrize("way", [copy.deepcopy, dill.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_an_adapted_problem_is_copied_as_pysdc_copies_steps(way: Any) -> None:
    made = adapted(peer("DiscontinuousTestDAE")(newton_tol=1e-9))
    made.t_switch = 4.5
    twin = way(made)
    twin.t_switch = 4.6
    assert type(twin) is type(made)
    assert (made.original.t_switch, twin.original.t_switch, twin.newton_tol) == (4.5, 4.6, 1e-9)


def test_several_steps_at_once_of_a_problem_of_theirs_end_where_single_steps_do() -> None:
    given = {
        "problem_class": peer("SimpleDAE"),
        "sweeper_class": ds.FullyImplicitDAE,
        "sweeper_params": {"quad_type": "RADAU-RIGHT", "num_nodes": 3, "QI": "LU"},
        "level_params": {"dt": 0.05, "restol": 1e-10},
        "step_params": {"maxiter": 60},
    }
    controller = controller_nonMPI(2, dict(QUIET), given)
    P = controller.MS[0].levels[0].prob
    end, _ = controller.run(u0=P.u_exact(0.0), t0=0.0, Tend=0.2)
    np.testing.assert_allclose(end, P.u_exact(0.2), rtol=1e-5)


def test_solve_takes_classes_and_instances_of_theirs(tmp_path: Path) -> None:
    exact = np.array(ds.SimpleDAE().u_exact(0.5))
    cls = peer("SimpleDAE")
    file = tmp_path / "own.py"
    file.write_text("from pySDC.projects.DAE.problems.simpleDAE import SimpleDAE\n", encoding="utf-8")
    for problem in (cls, cls(newton_tol=1e-9), f"{file}:SimpleDAE"):
        solution = ds.solve(problem, t_end=0.5, rtol=1e-8)
        assert solution.success
        np.testing.assert_allclose(solution.u[-1], exact, rtol=1e-8)
    assert ds.solve(cls, t_end=0.5, dt=0.1, sweeper="semi-implicit", params={"newton_tol": 1e-9}).success


def test_solve_finds_the_index_of_a_problem_of_theirs() -> None:
    solution = ds.solve(peer("Pendulum2D"), params={"newton_tol": 1e-10}, t_end=0.5, rtol=1e-6)
    assert solution.success
    x, y, u, v, _ = solution.u[-1]
    assert abs(np.hypot(x, y) - 1.0) < 1e-6
    assert abs((u * u + v * v) / 2.0 + 9.8 * y) < 1e-4


CHANGES_ITSELF = {"synchronous-machine": "sets T_m", "wscc9": "sets YBus"}
"""Problems whose residual assigns to their attributes, which equations do not."""


@pytest.mark.parametrize("case", CASES)
def test_equations_of_a_problem_of_theirs_are_read_unless_it_changes_itself(case: str) -> None:
    _, name, _, t0, *_ = CASES[case]
    problem = adapted(peer(name))(newton_tol=1e-10)
    reading = read(problem, np.array(problem.u_exact(t0)))
    if case in CHANGES_ITSELF:
        assert reading.told.startswith("function: ") and CHANGES_ITSELF[case] in reading.told
    else:
        assert reading.told == "traced"
        for way in (copy.copy, copy.deepcopy):
            copied = way(problem)
            u, du = (copied.state(np.random.default_rng(0).uniform(0.5, 1.0, problem.n)) for _ in range(2))
            function = adapted(peer(name)(newton_tol=1e-10))
            np.testing.assert_allclose(
                copied.evaluate(u, du, 0.1), function.evaluate(u, du, 0.1), rtol=1e-12, atol=1e-12
            )


@pytest.mark.parametrize(
    "options",
    [
        *({"dt": 0.1, "sweeper": name} for name in ("fully-implicit", "constrained", "radau-iia-5")),
        {"rtol": 1e-8},
    ],
)
def test_a_problem_of_theirs_that_jumps_is_solved_across_its_event(options: dict[str, Any]) -> None:
    solution = ds.solve(
        peer("DiscontinuousTestDAE"), params={"newton_tol": 1e-10}, t0=4.0, t_end=5.0, **options
    )
    assert solution.success
    np.testing.assert_allclose(
        solution.u[-1], [50.0, np.sqrt(2499.0)], rtol=1e-12 if "dt" in options else 1e-8
    )


class Jumps(ds.ProblemDAE):
    """y' = z up to y = 50, and constant from there on, as a user writes it."""

    def __init__(self, newton_tol: float = 1e-10) -> None:
        super().__init__(1, 1, newton_tol=newton_tol)

    def eval_f(self, u: Any, du: Any, t: float) -> list[Any]:
        y, z = u
        return [du[0] - z if y < 50.0 else du[0], y**2 - z**2 - 1.0]

    def u_exact(self, t: float) -> list[float]:
        s = min(t, float(np.arccosh(50.0)))
        return [np.cosh(s), np.sinh(s)]


CONTROLS: dict[str, dict[Any, Any]] = {
    "none": {},
    "events": {LocateEvents: {}},
    "tolerance": {AdaptivityDAE: {"rtol": 1e-10, "t_end": 5.0}},
}
ALONE = [
    (sweeper, "tolerance", 1) for sweeper in (ds.FullyImplicitDAE, ds.SemiImplicitDAE, ds.ConstrainedDAE)
]
"""Steps of a given accuracy are taken one at a time, and need an estimate of the error."""


@pytest.mark.parametrize(
    ("sweeper", "controls", "steps"),
    [
        *product(
            (ds.FullyImplicitDAE, ds.SemiImplicitDAE, ds.ConstrainedDAE, ds.EDIRK4DAE),
            ("none", "events"),
            (1, 3),
        ),
        *ALONE,
    ],
)
@pytest.mark.parametrize("problem", [Jumps, "DiscontinuousTestDAE"])
def test_equations_are_read_in_a_description(problem: Any, sweeper: Any, controls: str, steps: int) -> None:
    cls = peer(problem) if isinstance(problem, str) else problem
    direct = issubclass(sweeper, DirectMethod)
    given = {
        "problem_class": cls,
        "problem_params": {"newton_tol": 1e-10},
        "sweeper_class": sweeper,
        "sweeper_params": {} if direct else {"quad_type": "RADAU-RIGHT", "num_nodes": 3, "QI": "LU"},
        "level_params": {"dt": 0.1, "restol": -1.0 if direct else 1e-10},
        "step_params": {"maxiter": 1 if direct else 60},
        "convergence_controllers": {kind: dict(own) for kind, own in CONTROLS[controls].items()},
    }
    params = {**QUIET, "mssdc_jac": False, "hook_class": [ReadEquations]}
    controller = controller_nonMPI(steps, params, given)
    P = controller.MS[0].levels[0].prob
    for _ in range(2):
        end, _ = controller.run(u0=P.u_exact(4.0), t0=4.0, Tend=5.0)
        np.testing.assert_allclose(end, [50.0, np.sqrt(2499.0)], rtol=1e-9)


def test_values_that_a_problem_of_theirs_is_given_later_count() -> None:
    problem = adapted(peer("ProblematicF")(newton_tol=1e-10))
    for eta in (1.0, 2.0):
        problem.eta = eta
        read(made := copy.copy(problem))
        states = made.state([0.3, 0.4]), made.state([0.1, 0.2])
        np.testing.assert_allclose(made.evaluate(*states, 0.5), problem.evaluate(*states, 0.5), rtol=1e-14)
    made.eta = 3.0
    np.testing.assert_allclose(made.evaluate(*states, 0.5), problem.evaluate(*states, 0.5), rtol=1e-14)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("f.diff[0] = u.diff[0] - du.diff[0] + u.alg[0]", "reads 2 entries of its mesh and writes 1"),
        ("raise RuntimeError", "cannot be evaluated beside its solution"),
    ],
)
def test_a_mesh_whose_unknowns_cannot_be_seen_is_refused_in_a_line(body: str, words: str) -> None:
    from pySDC.projects.DAE.misc.problemDAE import ProblemDAE

    space: dict[str, Any] = {}
    code = f"def eval_f(self, u, du, t):\n    f = self.dtype_f(self.init)\n    {body}\n    return f\n"
    exec(code, space)
    own = {"eval_f": space["eval_f"], "__init__": lambda self: ProblemDAE.__init__(self, 2, 1e-10)}
    with pytest.raises(ds.InputError, match=words):
        adapted(type("Own", (ProblemDAE,), own)())


def test_a_class_of_the_project_with_another_base_is_told_what_to_write() -> None:
    class Decay(ds.ProblemDAE):
        def __init__(self, newton_tol: float = 1e-10) -> None:
            super().__init__(nvars=3, newton_tol=newton_tol)  # type: ignore[arg-type]

    with pytest.raises(ds.InputError, match="Decay is made with n_diff and n_alg in place of nvars=3"):
        Decay()


# --- a Q_Delta and a collocation of one's own -------------------------------------------------------------


class OwnQDelta(ds.SemiImplicitDAE):
    """Gives what ``matrix`` makes of the nodes, as sweepers of pySDC may."""

    @staticmethod
    def matrix(coll: Any, k: int | None) -> Any:
        return np.tril(sla.lu(coll.Qmat[1:, 1:].T)[2].T)

    def get_Qdelta_implicit(self, qd_type: str, k: int | None = None) -> Any:
        given = np.zeros_like(self.coll.Qmat)
        given[1:, 1:] = self.matrix(self.coll, k)
        return given


def own_qdelta(matrix: Any, name: str = "Made") -> Any:
    return type(name, (OwnQDelta,), {"matrix": staticmethod(matrix)})


def generated(name: str) -> Any:
    """Coefficients of qmat for a sweep, by the hook alone."""
    kind = QDELTA_GENERATORS[name]
    return lambda coll, k: kind(qGen=coll.generator, tLeft=coll.tleft).genCoeffs(k=k)


@pytest.mark.parametrize("backend", ["compiled", "numpy"])
@pytest.mark.parametrize("name", ["LU", "MIN-SR-S"])
def test_a_q_delta_of_ones_own_is_that_of_all_sweeps(name: str, backend: str) -> None:
    ends = []
    for sweeper, qdelta in (
        (ds.SemiImplicitDAE, name),
        (own_qdelta(generated(name)), "LU"),
        (own_qdelta(generated(name)), "no name of qmat"),
    ):
        params = {"QI": qdelta, "backend": backend}
        controller, end = run(ds.SimpleDAE, sweeper, 0.0, 0.5, 0.1, sweeper_params=params)
        ends.append((*end, *controller.MS[0].levels[0].sweep.QI.flatten()))
    assert ends[0] == ends[1] == ends[2]


def test_a_q_delta_that_is_registered_later_than_pysdc_was_imported_may_change_from_sweep_to_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    class Late(QDELTA_GENERATORS["LU"]):  # type: ignore[misc]
        """LU, with a look at which sweep it is for."""

        _K_DEPENDENT = True

        def computeQDelta(self, k: int | None = None) -> Any:
            asked.append(k)
            return super().computeQDelta(k)

    monkeypatch.setitem(QDELTA_GENERATORS, "LATE", Late)
    ends = [
        run(ds.SimpleDAE, ds.SemiImplicitDAE, 0.0, 0.2, 0.1, sweeper_params={"QI": name})[1]
        for name in ("LU", "LATE")
    ]
    np.testing.assert_array_equal(*ends)
    assert {1, 2, 3} <= set(asked)


def test_a_q_delta_that_is_changed_by_a_subclass_changes_from_sweep_to_sweep_as_its_generator_does() -> None:
    class Reversed(ds.SemiImplicitDAE):
        """Takes the coefficients of the last sweeps first."""

        asked: ClassVar[set[int]] = set()

        def get_Qdelta_implicit(self, qd_type: str, k: int | None = None) -> Any:
            self.asked.add(k or 1)
            return super().get_Qdelta_implicit(qd_type, k=max(4 - (k or 1), 1))

    params = {"QI": "MIN-SR-FLEX"}
    _, end = run(ds.SimpleDAE, Reversed, 0.0, 0.1, 0.1, sweeper_params=params)
    plain = run(ds.SimpleDAE, ds.SemiImplicitDAE, 0.0, 0.1, 0.1, sweeper_params=params)[1]
    np.testing.assert_allclose(end, plain, atol=1e-8)
    assert {1, 2, 3, 4} <= Reversed.asked


def test_a_q_delta_of_ones_own_decides_how_many_sweeps_are_needed() -> None:
    """Twice the Q_Delta of LU leaves half of an error where LU leaves none; the end is the collocation's."""
    halved = own_qdelta(lambda coll, k: 2.0 * np.tril(sla.lu(coll.Qmat[1:, 1:].T)[2].T))
    controllers, ends = zip(
        *(run(ds.SimpleDAE, one, 0.0, 0.1, 0.1) for one in (ds.SemiImplicitDAE, halved)), strict=True
    )
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-8)
    sweeps = [one.MS[0].status.iter for one in controllers]
    assert sweeps[1] > 1.5 * sweeps[0]


@pytest.mark.parametrize("options", [{"dt": 0.1}, {"rtol": 1e-6}])
def test_solve_takes_a_sweeper_with_a_q_delta_of_its_own(options: dict[str, float]) -> None:
    own = own_qdelta(generated("MIN-SR-S"))
    solutions = [
        ds.solve("simple", sweeper=one, nodes=3, **more, **options)
        for one, more in ((own, {}), ("semi-implicit", {"qdelta": "MIN-SR-S"}))
    ]
    np.testing.assert_array_equal(solutions[0].u, solutions[1].u)
    assert solutions[0].stats["sweeps"] == solutions[1].stats["sweeps"]


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (lambda coll, k: coll.Qmat[1:, 1:], "'OwnQDelta.get_Qdelta_implicit' is not lower triangular"),
        (lambda coll, k: np.full(coll.Qmat[1:, 1:].shape, np.nan), "has no coefficients for 3"),
        (lambda coll, k: np.zeros_like(coll.Qmat[1:, 1:]), "'OwnQDelta.get_Qdelta_implicit' has a zero"),
        (lambda coll, k: np.diag(coll.nodes) / 3, "'OwnQDelta.get_Qdelta_implicit' diverge .* 2.00 a sweep"),
    ],
)
def test_a_q_delta_of_ones_own_that_cannot_converge_is_refused_by_the_name_of_its_method(
    matrix: Any, words: str
) -> None:
    with pytest.raises(ds.InputError, match=words):
        run(ds.SimpleDAE, own_qdelta(matrix), 0.0, 0.1, 0.1)


def test_a_q_delta_of_another_shape_is_refused() -> None:
    def of_the_nodes(self: Any, qd_type: str, k: int | None = None) -> Any:
        return self.coll.Qmat[1:, 1:]

    made = type("Made", (ds.SemiImplicitDAE,), {"get_Qdelta_implicit": of_the_nodes})
    with pytest.raises(ds.InputError, match="a row and a column of zeros"):
        run(ds.SimpleDAE, made, 0.0, 0.1, 0.1)


def test_an_explicit_q_delta_is_refused_where_nothing_would_ask_for_it() -> None:
    made = type("Made", (ds.SemiImplicitDAE,), {"get_Qdelta_explicit": lambda self, qd_type, k=None: None})
    with pytest.raises(ds.InputError, match="Made takes no part of F"):
        run(ds.SimpleDAE, made, 0.0, 0.1, 0.1)
    with pytest.raises(ds.InputError, match="leave out QE and get_Qdelta_explicit"):
        run(ds.SimpleDAE, ds.SemiImplicitDAE, 0.0, 0.1, 0.1, sweeper_params={"QE": "EE"})


@pytest.mark.parametrize("name", ["MIN-SR-NS", "LU"])
def test_a_collocation_of_ones_own_has_its_own_coefficients(name: str) -> None:
    """Equal numbers of nodes and equal names of kinds are not equal nodes."""

    class Equidistant(CollBase):
        def __init__(self, **params: Any) -> None:
            super().__init__(**{**params, "node_type": "EQUID"})
            self.node_type = "LEGENDRE"

    deltas = []
    for own in (CollBase, Equidistant):
        params = {"collocation_class": own, "QI": name}
        controller, end = run(
            ds.DiscontinuousTestDAE, ds.SemiImplicitDAE, 1.0, 2.0, 0.1, sweeper_params=params
        )
        assert abs(end - ds.DiscontinuousTestDAE().u_exact(2.0)) < 1e-3
        deltas.append(controller.MS[0].levels[0].sweep.QI[1:, 1:])
    Q = controller.MS[0].levels[0].sweep.coll.Qmat[1:, 1:]
    np.testing.assert_allclose(Q.sum(axis=1), [1 / 3, 2 / 3, 1.0], rtol=1e-12)
    of_equidistant = {"MIN-SR-NS": np.diag([1 / 9, 2 / 9, 1 / 3]), "LU": sla.lu(Q.T)[2].T}
    np.testing.assert_allclose(deltas[1], of_equidistant[name], atol=1e-14)
    assert abs(deltas[0] - deltas[1]).max() > 0.01
