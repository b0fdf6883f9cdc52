"""Projection: the nearest point by itself, and on invariants after the steps of every kind of method."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
from pySDC.helpers.stats_helper import get_sorted

import dae_sdc as ds
from dae_sdc.control.invariants import moved, nearest
from dae_sdc.dae.state import Vector
from dae_sdc.jets.projection import EquationFunctions, Projection, project
from dae_sdc.sweepers import multistep

PROJECTION = import_module("dae_sdc.jets.projection")
INDEX_1 = {"formulation": "index-1"}


# --- the nearest point --------------------------------------------------------------------------------------


def circle(x: Vector) -> Vector:
    return np.array([x @ x - 1.0])


def circle_jacobian(x: Vector) -> Vector:
    return 2.0 * x[None]


CIRCLE = EquationFunctions(circle, circle_jacobian)


@pytest.mark.parametrize("point", [(3.0, 4.0), (0.6000001, 0.8), (1e-3, 0.0), (100.0, -50.0)])
def test_the_nearest_point_of_a_circle_is_on_the_ray(point: tuple[float, float]) -> None:
    found = project(point, CIRCLE)
    assert found.converged
    np.testing.assert_allclose(found.x, np.array(point) / np.linalg.norm(point), atol=1e-8)
    assert abs(found.after[0]) <= 1e-14
    assert found.before[0] == pytest.approx(np.dot(point, point) - 1.0)


def test_a_point_that_fulfils_the_equations_stays_to_the_last_bit() -> None:
    found = project((0.6, 0.8), CIRCLE)
    assert found.converged
    assert found.iterations == 0
    assert found.x.tolist() == [0.6, 0.8]


def nearest_on_an_ellipse(p: Vector, semi: Vector) -> Vector:
    """From the roots of the polynomial that Lagrange's condition x_i = a_i^2 p_i / (a_i^2 + s) gives."""
    (a, b), (px, py) = semi**2, p
    first, second = np.poly1d([1.0, a]), np.poly1d([1.0, b])
    roots = ((first * second) ** 2 - a * px**2 * second**2 - b * py**2 * first**2).roots
    real = roots[np.abs(roots.imag) < 1e-9].real
    points = np.array([[a * px / (a + s), b * py / (b + s)] for s in real])
    return np.asarray(points[np.argmin(np.linalg.norm(points - p, axis=1))])


@pytest.mark.parametrize("point", [(3.0, 1.0), (0.3, 0.2), (-2.5, 2.5), (0.5, -4.0)])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 3.0)])
def test_the_nearest_point_of_an_ellipse(point: Any, weights: Any) -> None:
    w, semi = np.array(weights), np.array([2.0, 0.7])
    found = project(
        point,
        EquationFunctions(
            lambda x: np.array([((x / semi) ** 2).sum() - 1.0]), lambda x: (2.0 * x / semi**2)[None]
        ),
        weights=w,
    )
    assert found.converged
    # Weighted distances are plain ones in other units.
    np.testing.assert_allclose(w * found.x, nearest_on_an_ellipse(w * np.array(point), w * semi), atol=2e-7)


def test_fixed_entries_stay_and_the_others_do_what_is_left() -> None:
    found = project((0.6, 5.0), CIRCLE, fixed=(True, False))
    assert found.converged
    assert found.x[0] == 0.6
    assert found.x[1] == pytest.approx(0.8, abs=1e-13)


def planes(x: Vector) -> Vector:
    """The second equation follows from the first."""
    return np.array([x.sum() - 1.0, 3.0 * x.sum() - 3.0, x[0] - x[1]])


PLANES = np.array([[1.0, 1.0, 1.0], [3.0, 3.0, 3.0], [1.0, -1.0, 0.0]])


@pytest.mark.parametrize("kind", [np.array, sparse.csr_matrix])
def test_equations_may_follow_from_others(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROJECTION, "MOST_DENSE_ENTRIES", 0)  # take sparse matrices as they are
    found = project((1.0, 2.0, 3.0), EquationFunctions(planes, lambda x: kind(PLANES)))
    assert found.converged
    # Linear equations: minus the pseudoinverse of the residual.
    expected = np.array([1.0, 2.0, 3.0]) - np.linalg.pinv(PLANES) @ planes(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found.x, expected, atol=1e-12)


@pytest.mark.parametrize("kind", [np.array, sparse.csr_matrix])
def test_equations_that_contradict_each_other_are_told_apart(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PROJECTION, "MOST_DENSE_ENTRIES", 0)
    found = project(
        (1.0, 2.0, 3.0),
        EquationFunctions(lambda x: planes(x) + np.array([0.0, 1.0, 0.0]), lambda x: kind(PLANES)),
    )
    assert not found.converged
    assert found.contradictory == (0, 1)


def test_no_way_leads_from_where_all_derivatives_vanish() -> None:
    found = project((0.0, 0.0), CIRCLE)
    assert not found.converged
    assert found.x.tolist() == [0.0, 0.0]
    assert found.contradictory == (0,)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_equations_without_values_end_the_search(value: float) -> None:
    found = project((1.0, 2.0), EquationFunctions(lambda x: np.array([value]), circle_jacobian))
    assert not found.converged
    assert found.contradictory == ()


def test_a_step_into_the_undefined_is_shortened() -> None:
    # Newton's step from 3 leads to -0.3, where the logarithm has no value.
    found = project((3.0,), EquationFunctions(lambda x: np.log(x), lambda x: np.array([1.0 / x])))
    assert found.converged
    assert found.x[0] == pytest.approx(1.0, abs=1e-12)


# --- invariants of quasilinear problems ---------------------------------------------------------------------


PROBLEMS = [
    (ds.RigidPendulum, INDEX_1, ("length of the rod", "derivative of length of the rod")),
    (ds.TorusParticle, {"formulation": "ggl"}, ("radius of the tube", "derivative of radius of the tube")),
    (ds.RollingDisk, {}, ("rolling in x", "rolling in y")),
]


@pytest.mark.parametrize(("cls", "params", "names"), PROBLEMS)
def test_invariants_vanish_along_solutions_and_have_their_jacobian(
    cls: Any, params: Any, names: tuple[str, ...]
) -> None:
    problem = cls(**params)
    assert problem.invariant_names == names
    u, t = np.array(problem.u_exact(0.7)), 0.7
    np.testing.assert_allclose(problem.invariants(u, t), 0.0, atol=1e-12)
    beside = u + 0.1 * np.cos(np.arange(u.size))
    direction = np.sin(1.0 + np.arange(u.size))
    if cls is ds.RollingDisk:
        direction[: problem.n_u] = 0.0  # positions stay as they are
    h = 1e-5
    slope = (
        problem.invariants(beside + h * direction, t) - problem.invariants(beside - h * direction, t)
    ) / (2 * h)
    np.testing.assert_allclose(problem.invariants_jacobian(beside, t) @ direction, slope, atol=1e-7)


def test_the_nearest_state_is_measured_in_nominal_values() -> None:
    class Line(ds.ProblemDAE):
        names = ("a", "b")
        nominal = (1.0, 10.0)
        invariant_names = ("sum",)

        def __init__(self) -> None:
            super().__init__(2, 0)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [du[0] - 1.0, du[1] + 1.0]

        def invariants(self, u: Any, t: float) -> Any:
            return np.array([u[0] + u[1] - t])

        def invariants_jacobian(self, u: Any, t: float) -> Any:
            return np.array([[1.0, 1.0]])

    found = nearest(Line(), np.array([0.0, 0.0]), 1.01)
    # The change of b, in units of 10, costs a hundredth of that of a.
    np.testing.assert_allclose(found.x, [0.01, 1.0], atol=1e-12)


# --- steps --------------------------------------------------------------------------------------------------


def errors(sweeper: str, project_: bool | None, steps: list[int], **settings: Any) -> tuple[Vector, Any]:
    """Errors of positions and velocities at t = 0.8, and the last solution."""
    exact = np.array(ds.RigidPendulum(formulation="index-1").u_exact(0.8))
    rows = []
    for count in steps:
        solution = ds.solve(
            "rigid-pendulum",
            params=INDEX_1,
            sweeper=sweeper,
            dt=0.8 / count,
            t_end=0.8,
            project=project_,
            **settings,
        )
        error = np.abs(solution.u[-1] - exact)
        rows.append([error[:2].max(), error[2:4].max(), error[4]])
    return np.array(rows), solution


@pytest.mark.parametrize("project_", [False, True])
def test_radau_iia_5_keeps_its_order(project_: bool) -> None:
    found, solution = errors("radau-iia-5", project_, [20, 40, 80])
    orders = np.log2(found[:-1] / found[1:])
    np.testing.assert_allclose(orders[:, :2], 5.0, atol=0.25)
    if project_:
        assert solution.stats["drift"] <= 1e-14
        assert 1e-14 < solution.stats["drift_before_projection"] < 1e-8
        assert solution.stats["projections"] == 80
    else:
        assert solution.stats["drift"] > 1e-11
        assert "projections" not in solution.stats


@pytest.mark.parametrize(
    ("sweeper", "order", "settings"),
    [
        ("bdf3", 3, {}),
        ("trapezoidal", 2, {}),
        ("esdirk43", 4, {}),
        ("fully-implicit", 5, {"nodes": 3}),
        ("semi-implicit", 5, {"nodes": 3}),
        ("constrained", 5, {"nodes": 3}),
        ("unprojected-dopri5", 5, {}),
    ],
)
def test_every_kind_of_method_keeps_its_order_on_the_invariants(
    sweeper: str, order: int, settings: Any
) -> None:
    found, solution = errors(sweeper, True, [40, 80], **settings)
    assert solution.success
    assert solution.stats["drift"] <= 1e-14
    assert np.log2(found[0, :2] / found[1, :2]).min() >= order - 0.35


def test_a_multistep_method_goes_on_from_projected_values(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, begin = list[float](), multistep.stages_without_guess

    def counted(problem: ds.ProblemDAE, tableau: ds.Tableau, u0: Any, t0: float, dt: float) -> Any:
        begun.append(t0)
        return begin(problem, tableau, u0, t0, dt)

    monkeypatch.setattr(multistep, "stages_without_guess", counted)
    solution = ds.solve("rigid-pendulum", params=INDEX_1, sweeper="bdf3", dt=0.01, t_end=0.5, project=True)
    # Every step that did not know its past would be one of the starting procedure, as the first two are.
    assert solution.success and np.allclose(begun, [0.0, 0.01])


def test_what_a_step_hands_on_belongs_to_the_projected_state() -> None:
    problem = ds.RigidPendulum(formulation="index-1")
    solution = ds.solve(problem, sweeper="radau-iia-5", dt=0.1, t_end=0.5, project=True, dense=True)
    for t, u, du in zip(solution.t[1:], solution.u[1:], solution.du[1:], strict=True):
        # lambda' is no part of the equations.
        residual = problem.evaluate(problem.state(u), problem.state(du), t)
        np.testing.assert_allclose(residual, 0.0, atol=1e-12)
        np.testing.assert_allclose(solution(t), u, rtol=1e-14, atol=1e-14)
        # u(t) is one curve: what lies before an end leads to it.
        assert np.abs(solution(t - 1e-10) - u).max() <= 1e-7


def test_moving_an_end_changes_the_polynomial_at_its_end_only() -> None:
    problem = ds.RigidPendulum(formulation="index-1")
    kept: list[Any] = []

    class Keep(ds.StepRecord):
        def post_step(self, step: Any, level_number: int) -> None:
            kept.append(step.levels[0].uend)

    ds.solve(problem, sweeper="radau-iia-5", dt=0.1, t_end=0.1, hooks=[Keep])
    end = kept[0]
    values = np.array(end) + np.array([1e-6, 0.0, 0.0, 0.0, 0.0])
    found = moved(problem, end, values, 0.1)
    before, after = end.polynomial, found.polynomial
    np.testing.assert_array_equal(after.value[:-1], before.value[:-1])
    np.testing.assert_array_equal(after.derivative[:-1], before.derivative[:-1])
    np.testing.assert_array_equal(after.value[-1], found)
    np.testing.assert_array_equal(np.array(found)[:4], values[:4])
    acceleration, multiplier = problem.saddle_point(0.1, values[:2], values[2:4])
    np.testing.assert_allclose(after.derivative_at_end()[2:4], acceleration, rtol=1e-11)
    assert found[4] == pytest.approx(multiplier[0], rel=1e-11)


def test_hooks_that_ask_for_the_end_get_the_projected_one() -> None:
    problem = ds.RigidPendulum(formulation="index-1")
    hooks = [ds.LogGlobalErrorPostStepDifferentialVariable]
    solution = ds.solve(problem, sweeper="radau-iia-3", dt=0.1, t_end=0.5, project=True, hooks=hooks)
    logged = get_sorted(solution.log, type="e_global_differential_post_step", sortby="time")
    for (t, error), u in zip(logged, solution.u[1:], strict=True):
        assert error == pytest.approx(np.abs(u - np.array(problem.u_exact(t)))[:4].max(), rel=1e-12)
    drifts = dict(get_sorted(solution.log, type="drift_before_projection", sortby="time"))
    assert max(drifts.values()) == solution.stats["drift_before_projection"]


@pytest.mark.parametrize("sweeper", ["radau-iia-5", "unprojected-dop853", "fully-implicit"])
def test_runs_to_a_tolerance_end_their_steps_on_the_invariants(sweeper: str) -> None:
    events = [lambda u, t: float(u[0])]
    solution = ds.solve(
        "rigid-pendulum",
        params=INDEX_1,
        sweeper=sweeper,
        rtol=1e-6,
        t_end=2.0,
        project=True,
        events=events,
    )
    assert solution.success
    assert solution.stats["drift"] <= 1e-14
    # From rest at (1, 0) the mass passes the lowest point after a quarter of its period, and once more.
    np.testing.assert_allclose(solution.events[0].t, [0.5, 1.5], atol=1e-4)
    exact = np.array(ds.RigidPendulum(formulation="index-1").u_exact(2.0))
    assert np.abs(solution.u[-1] - exact)[:2].max() <= 1e-4


def test_a_resumed_run_gives_the_digits_of_the_whole_one(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "params": INDEX_1,
        "sweeper": "radau-iia-5",
        "dt": 0.05,
        "project": True,
        "checkpoint": tmp_path / "kept.npz",
        "every": 3,
    }

    def stop(u: Any, t: float) -> float:
        if t > 0.6:
            raise KeyboardInterrupt
        return 1.0

    whole = ds.solve("rigid-pendulum", t_end=1.0, events=[lambda u, t: 1.0], **settings)
    with pytest.raises(KeyboardInterrupt):
        ds.solve("rigid-pendulum", t_end=1.0, events=[_named(stop)], **settings)
    found = ds.solve("rigid-pendulum", t_end=1.0, events=[_named(lambda u, t: 1.0)], resume=True, **settings)
    assert found.parameters["resumed_at"] > 0.0
    np.testing.assert_array_equal(found.u, whole.u)


def _named(function: Any) -> Any:
    return ds.Event(function, name="one")


def test_the_torus_is_not_left_for_long() -> None:
    # What leaves the torus is not driven back.
    found = {}
    for project_ in (False, True):
        solution = ds.solve(
            "torus-particle",
            params=INDEX_1,
            sweeper="radau-iia-5",
            dt=np.pi / 40,
            t_end=10 * np.pi,
            project=project_,
        )
        exact = np.array(ds.TorusParticle().u_exact(10 * np.pi))
        found[project_] = np.abs(solution.u[-1] - exact)[:3].max(), solution.stats["drift"]
    assert found[True][1] <= 1e-12
    assert found[False][1] >= 1e4 * found[True][1]
    assert max(found[True][0], found[False][0]) <= 1e-5


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "settings", "words"),
    [
        ("simple", {"sweeper": "radau-iia-5", "dt": 0.1}, "no invariants"),
        ("rigid-pendulum", {"steps": 2, "dt": 0.02}, "one step at a time"),
        ("rigid-pendulum", {"project": "yes", "dt": 0.02}, "project must be"),
        ("rigid-pendulum", {"sweeper": "ida", "rtol": 1e-6}, "no effect"),
    ],
)
def test_what_cannot_be_projected_is_said_in_one_line(problem: str, settings: Any, words: str) -> None:
    with pytest.raises(ds.InputError, match=words):
        ds.solve(problem, **{"project": True, **settings})


class Impossible(ds.ProblemDAE):
    """u = t, with a claim that u^2 stays below what it comes to."""

    names = ("u",)
    invariant_names = ("claim",)
    index = 0

    def __init__(self, claim: float = 0.5) -> None:
        super().__init__(1, 0)
        self.claim = claim

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] - 1.0]

    def u_exact(self, t: float) -> Any:
        return [t]

    def invariants(self, u: Any, t: float) -> Any:
        return np.array([u[0] ** 2 + max(0.0, t - self.claim) - u[0] ** 2])

    def invariants_jacobian(self, u: Any, t: float) -> Any:
        return np.zeros((1, 1))


def test_a_run_ends_where_invariants_cannot_be_met() -> None:
    solution = ds.solve(Impossible(), sweeper="radau-iia-3", dt=0.1, t_end=1.0, project=True)
    assert not solution.success
    assert solution.t[-1] == pytest.approx(0.5)
    assert "'claim' is 0.1" in solution.message


def test_a_start_beside_the_invariants_is_refused() -> None:
    with pytest.raises(ds.InconsistentStateError, match="'claim'"):
        ds.solve(Impossible(-1.0), sweeper="radau-iia-3", dt=0.1, t_end=1.0, project=True)


def test_what_a_projection_says_of_itself() -> None:
    found = project((0.6, 5.0), CIRCLE)
    assert isinstance(found, Projection)
    # The gradient times the point, 2 on the circle, and times unknowns of size 1.
    assert found.scale[0] == pytest.approx(2.0 + 2.0 * np.abs(found.x).sum())
