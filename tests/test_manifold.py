"""Methods on the manifold of the constraints: orders, drift, charts, singular points, what they refuse."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import dill
import numpy as np
import pytest
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

import dae_sdc as ds
from dae_sdc.constrained.manifold import MANIFOLD_METHODS, PAIRS, manifold_method
from dae_sdc.errors import InputError
from dae_sdc.run.convergence import errors
from dae_sdc.run.description import describe
from dae_sdc.sweepers.sdc import SWEEPERS

KEEPING = [
    name
    for name, method in MANIFOLD_METHODS.items()
    if method.treatment == "chart" or (method.positions and method.velocities)
]
PAIRED = [name for name, method in MANIFOLD_METHODS.items() if method.pair]


class MovingRing(ds.QuasiSecondOrderProblem):
    """A bead on a ring of radius R(t) = 1 + 0.3 sin t, driven so that its angle is t and lambda = 1 + t."""

    names = ("x", "y", "vx", "vy", "lambda")
    constraint_names = ("ring",)
    interval = (0.0, 2.0)
    dt = 0.1

    def __init__(self, formulation: str | None = None, **settings: Any) -> None:
        super().__init__(2, 1, formulation, **settings)

    def A(self, t: float, q: Any, v: Any) -> Any:
        return np.eye(2)

    def B(self, t: float, q: Any, v: Any) -> Any:
        return np.array([[q[0]], [q[1]]])

    def h(self, t: float, q: Any, v: Any) -> Any:
        return self.motion(t)[2] + (1.0 + t) * np.array([q[0], q[1]])

    def g(self, t: float, q: Any) -> Any:
        return np.array([0.5 * (q[0] ** 2 + q[1] ** 2 - (1.0 + 0.3 * np.sin(t)) ** 2)])

    @staticmethod
    def motion(t: float) -> Any:
        turn = np.exp(1j * t)
        R, dR, ddR = 1.0 + 0.3 * np.sin(t), 0.3 * np.cos(t), -0.3 * np.sin(t)
        z = R * turn, (dR + 1j * R) * turn, (ddR + 2j * dR - R) * turn
        return np.array([[value.real, value.imag] for value in z])

    def u_exact(self, t: float) -> Any:
        q, v, _ = self.motion(t)
        return [*q, *v, 1.0 + t]


class Curve(ds.QuasiFirstOrderProblem):
    """u1 = sin 3t on the curve u2 = exp u1."""

    names = ("u1", "u2")
    constraint_names = ("curve",)
    interval = (0.0, 2.0)
    dt = 0.1

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def A(self, t: float, u: Any) -> Any:
        return np.array([[2.0, 1.0]])

    def h(self, t: float, u: Any) -> Any:
        return np.array([3.0 * (2.0 + u[1]) * np.cos(3.0 * t)])

    def g(self, t: float, u: Any) -> Any:
        return np.array([u[1] - np.exp(u[0])])

    def u_exact(self, t: float) -> Any:
        return [np.sin(3.0 * t), np.exp(np.sin(3.0 * t))]


class Circle(ds.QuasiFirstOrderProblem):
    """A point that goes round the unit circle three times in 2 pi, with lambda = 1 + u1."""

    names = ("u1", "u2", "lambda")
    constraint_names = ("circle",)
    interval = (0.0, 2.0)
    dt = 0.1

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def A(self, t: float, u: Any) -> Any:
        return np.eye(2)

    def B(self, t: float, u: Any) -> Any:
        return np.array([[u[0]], [u[1]]])

    def h(self, t: float, u: Any) -> Any:
        return np.array([-3.0 * u[1], 3.0 * u[0]]) + (1.0 + u[0]) * np.array([u[0], u[1]])

    def g(self, t: float, u: Any) -> Any:
        return np.array([u[0] ** 2 + u[1] ** 2 - 1.0])

    def u_exact(self, t: float) -> Any:
        return [np.cos(3.0 * t), np.sin(3.0 * t), 1.0 + np.cos(3.0 * t)]


class Bead(ds.QuasiLagrangeProblem):
    """A bead that slides on the wires x y = 0 towards where they cross, under a constant force."""

    names = ("x", "y", "vx", "vy", "lambda")
    constraint_names = ("wires",)
    interval = (0.0, 2.0)

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def A(self, t: float, q: Any, v: Any) -> Any:
        return np.eye(2)

    def h(self, t: float, q: Any, v: Any) -> Any:
        return np.array([-1.0, -0.3])

    def g(self, t: float, q: Any) -> Any:
        return np.array([q[0] * q[1]])


KINDS: dict[str, Any] = {
    "eulag": "rigid-pendulum",
    "daeq3": MovingRing,
    "nohol": "skate",
    "daeq2": Circle,
    "daeq1": Curve,
    "daen1": "figure-eight",
}


def exact(problem: Any, times: Any) -> Any:
    instance = ds.PROBLEMS[problem]() if isinstance(problem, str) else problem()
    return np.array([np.asarray(instance.u_exact(float(t)), dtype=float) for t in times])


def drift(problem: Any, solution: ds.Solution) -> dict[str, float]:
    instance = ds.PROBLEMS[problem]() if isinstance(problem, str) else problem()
    rows = [instance.drift(float(t), u) for t, u in zip(solution.t, solution.u, strict=True)]
    return {name: max(row[name] for row in rows) for name in rows[0]}


# --- records ------------------------------------------------------------------------------------------------


def test_every_record_is_a_sweeper_of_its_class() -> None:
    for name, method in MANIFOLD_METHODS.items():
        assert SWEEPERS[name].method is method and SWEEPERS[name].__name__ == method.class_name


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_have_the_quadrature_orders_they_claim(name: str) -> None:
    pair = PAIRS[name]()
    for k in range(1, pair.order + 1):
        assert pair.b @ pair.c ** (k - 1) == pytest.approx(1.0 / k, abs=1e-13)
    assert pair.A.sum(axis=1) == pytest.approx(pair.c, abs=1e-14)
    # The interpolant takes u' = t^k to t^(k + 1) / (k + 1), up to its own degree.
    c = np.concatenate([pair.c, [1.0], pair.c_extra])
    for k in range(len(pair.theta)):
        assert pair.D @ c**k == pytest.approx(pair.theta ** (k + 1) / (k + 1), abs=1e-12)
    # Two methods of different orders agree on low powers, and so the error estimate vanishes there.
    for row in pair.E:
        for k in range(2):
            assert row @ np.append(pair.c, 1.0) ** k == pytest.approx(0.0, abs=1e-13)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"treatment": "sideways"}, "treatment must be one of"),
        ({"pair": ""}, "a pair belongs to"),
        ({"pair": "dopri9"}, "pair must be one of dopri5, dop853"),
        ({"positions": True}, "belong to the treatment ambient"),
        ({"treatment": "ambient", "alpha": -1.0}, "must not be negative"),
        ({"turned": 0.0}, "turned must be"),
        ({"reference": " "}, "reference must say"),
    ],
)
def test_impossible_records_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(MANIFOLD_METHODS["chart-dop853"], **changes)


# --- orders -------------------------------------------------------------------------------------------------


COUNTS = (4, 6, 9, 14, 21, 32, 48, 72, 108, 160, 240, 360, 540)
"""Numbers of steps to be tried."""


def group_errors(problem: Any, name: str, count: int, end: float) -> dict[str, float]:
    done = ds.solve(problem, sweeper=name, dt=end / count, t_end=end, dense=False)
    if not done.success:
        return {}
    return errors(ds.PROBLEMS[problem]() if isinstance(problem, str) else problem(), done)


@pytest.mark.parametrize("name", MANIFOLD_METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_methods_reach_their_orders_on_every_type(kind: str, name: str) -> None:
    problem, order = KINDS[kind], MANIFOLD_METHODS[name].order
    if name == "rattle" and kind != "eulag":
        pytest.skip("it is for separable mechanics")
    end = 1.2 if kind == "daen1" else 2.0  # before the first singular point of the figure eight
    # From steps that are small enough on, down to where round-off begins to show.
    coarse, small = (0.5, 1e-3) if order == 2 else (1e-5, 1e-10)
    found: list[tuple[int, dict[str, float]]] = []
    for count in COUNTS:
        made = group_errors(problem, name, count, end)
        if max(made.values(), default=1.0) < coarse:
            found.append((count, made))
        if len(found) > 2 and min(made.values()) < small:
            break
    counts = np.log([count for count, _ in found])
    for group in found[0][1]:
        slope = -np.polyfit(counts, np.log([made[group] for _, made in found]), 1)[0]
        assert slope > order - 0.9, (group, found)  # before all stages see the end, errors may fall faster


# --- a pendulum ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KEEPING)
def test_the_pendulum_has_the_digits_that_are_asked_for(name: str) -> None:
    done = ds.solve("rigid-pendulum", sweeper=name, rtol=1e-8)
    assert done.success, done.message
    errors = np.abs(done.u - exact("rigid-pendulum", done.t)).max(axis=0)
    assert errors[:2].max() <= 2e-7 and errors[2:4].max() <= 2e-6 and errors[4] <= 1e-5
    kept = drift("rigid-pendulum", done)
    assert kept["constraint"] <= 1e-14 and kept["velocity"] <= 1e-13


@pytest.mark.parametrize("name", KEEPING)
def test_output_between_the_steps_meets_the_constraints_and_the_equations(name: str) -> None:
    times = np.linspace(0.0, 4.0, 41)
    done = ds.solve("rigid-pendulum", sweeper=name, rtol=1e-8, t_eval=times)
    assert np.array_equal(done.t, times)
    kept = drift("rigid-pendulum", done)
    assert kept["constraint"] <= 1e-14 and kept["velocity"] <= 1e-13
    # Rows of u and u' satisfy the equations of motion: mass times acceleration, rod and weight.
    problem = ds.PROBLEMS["rigid-pendulum"]()
    residual = [
        problem.eval_f(problem.state(u), problem.state(np.nan_to_num(du)), t)
        for t, u, du in zip(done.t, done.u, done.du, strict=True)
    ]
    assert np.abs(residual).max() <= 1e-12
    assert done.stats["charts"] >= (name.startswith("chart"))
    # The same at any time, without projection: good to the tolerance.
    free = ds.solve("rigid-pendulum", sweeper=name, rtol=1e-8)
    errors = np.abs(free(times) - exact("rigid-pendulum", times)).max(axis=0)
    assert errors[:2].max() <= 2e-7 and errors[2:4].max() <= 2e-6 and errors[4] <= 1e-5


DRIFT = {
    # |g|, |G v|, error of y, as measured elsewhere with steps of their own at 1e-8 to t = 200.
    "unprojected-dop853": (2.5e-4, 2.4e-6, 1.6e-2),
    "velocity-projected-dop853": (5e-7, None, 1.8e-4),
    "projected-dop853": (None, None, 1.1e-4),
    "baumgarte-dop853": (1.6e-9, 2e-8, 1.3e-5),
}


@pytest.mark.parametrize("name", [*DRIFT, "chart-dop853"])
def test_drift_from_the_constraints_over_a_long_time(name: str) -> None:
    # An absolute tolerance as was given elsewhere; without, errors count relative to the fastest speed.
    done = ds.solve("rigid-pendulum", sweeper=name, rtol=1e-8, atol=1e-8, t_end=200.0, dense=False)
    assert done.success
    kept = drift("rigid-pendulum", done)
    error = np.abs(done.u[:, 1] - exact("rigid-pendulum", done.t)[:, 1]).max()
    if name == "chart-dop853":
        assert kept["constraint"] <= 1e-14 and kept["velocity"] <= 1e-13
        assert error <= 1.1e-4  # no worse than by projection
        return
    place, speed, wrong = DRIFT[name]
    assert kept["constraint"] <= 1e-14 if place is None else place / 5 <= kept["constraint"] <= 5 * place
    assert kept["velocity"] <= 1e-13 if speed is None else speed / 5 <= kept["velocity"] <= 5 * speed
    assert error <= 2.0 * wrong


def test_rattle_does_not_lose_energy() -> None:
    done = ds.solve("rigid-pendulum", sweeper="rattle", dt=0.01, t_end=100.0, dense=False)
    problem = ds.PROBLEMS["rigid-pendulum"]()
    energy = np.array([problem.energy(u[:2], u[2:4]) for u in done.u])
    size = np.abs(energy - energy[0])
    assert size.max() == pytest.approx(7e-3, rel=0.1)
    assert size[-1000:].max() <= 1.01 * size[:1000].max()
    kept = drift("rigid-pendulum", done)
    assert kept["constraint"] <= 1e-14 and kept["velocity"] <= 1e-13


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("seven-body", "needs a constant A"),
        ("torus-particle", "depend on positions alone"),
        ("skate", "type nohol"),
    ],
)
def test_rattle_refuses_what_is_not_separable(problem: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ds.solve(problem, sweeper="rattle", dt=1e-3, t_end=2e-3 if problem == "seven-body" else 0.01)


def test_charts_cost_less_than_three_times_projection() -> None:
    times: dict[str, list[float]] = {"chart-dop853": [], "projected-dop853": []}
    for _ in range(6):
        for name, spent in times.items():
            tic = time.process_time()
            ds.solve("rigid-pendulum", sweeper=name, rtol=1e-8, dense=False)
            spent.append(time.process_time() - tic)
    assert min(times["chart-dop853"]) <= 3.0 * min(times["projected-dop853"])


# --- other problems -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize("kind", KINDS)
def test_every_type_keeps_its_constraints_and_the_tolerance(kind: str, name: str) -> None:
    problem = KINDS[kind]
    done = ds.solve(problem, sweeper=name, rtol=1e-8)
    assert done.success, done.message
    kept = drift(problem, done)
    assert kept["constraint"] <= 1e-13 and kept.get("velocity", 0.0) <= 1e-12
    assert np.abs(done.u - exact(problem, done.t)).max() <= 1e-5


def test_the_particle_stays_on_the_torus() -> None:
    done = ds.solve("torus-particle", sweeper="chart-dop853", rtol=1e-8, t_end=200.0 * np.pi, dense=False)
    assert done.success
    assert drift("torus-particle", done)["constraint"] <= 1e-11


def test_the_seven_bodies_end_where_they_should() -> None:
    for name in KEEPING:
        if "dop853" not in name:
            continue
        times = np.array([0.01, 0.02, 0.03])
        done = ds.solve("seven-body", sweeper=name, rtol=1e-11, t_eval=times)
        assert done.u[-1, 0] == pytest.approx(15.810771195, abs=2e-9)
        assert done.u[-1, 1] == pytest.approx(-15.756371058, abs=2e-9)
        # y'' beside a difference of y' that other output points give.
        near = np.sort(np.concatenate([times[:2] - 1e-7, times[:2] + 1e-7]))
        around = ds.solve("seven-body", sweeper=name, rtol=1e-11, t_eval=near).u[:, 7:14]
        quotient = (around[1::2] - around[::2]) / 2e-7
        second = done.du[:2, 7:14]
        assert np.abs(quotient - second).max() <= 1e-6 * np.abs(second).max()


# --- singular points ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KEEPING)
def test_the_figure_eight_passes_its_singular_points_and_says_so(name: str) -> None:
    done = ds.solve("figure-eight", sweeper=name, rtol=1e-8)
    assert done.success and "passed singular points" in done.message
    places = [float(text) for text in re.findall(r"near t=([\d.]+\d)", done.message)]
    assert places == pytest.approx([0.5 * np.pi, 1.5 * np.pi], abs=1e-5)
    assert done.message.count("rank 2 of 3") == 2 and "u=1" in done.message and "u=-1" in done.message
    assert np.abs(done.u - exact("figure-eight", done.t)).max() <= 1e-6


def test_singular_points_of_one_run_are_not_told_by_the_next() -> None:
    messages = [ds.solve("figure-eight", rtol=1e-4).message for _ in range(3)]
    assert len(set(messages)) == 1 and messages[0].count("near t=") == 2


def test_a_start_at_a_singular_point_is_no_success() -> None:
    for name in KEEPING:
        done = ds.solve(
            "figure-eight", sweeper=name, rtol=1e-8, t0=0.5 * np.pi, u0=[1.0, 0.0, 0.0], t_end=2.0
        )
        assert not done.success and "t=1.5708" in done.message and "regular" in done.message


def test_an_implicit_method_does_not_take_another_branch_in_silence() -> None:
    done = ds.solve("figure-eight", sweeper="esdirk43", rtol=1e-6)
    assert not done.success and "regular" in done.message
    # It ends at one of the singular points, and the branch is right up to there.
    end = float(done.message.partition("t=")[2].split(" ")[0])
    singular = min((0.5 * np.pi, 1.5 * np.pi), key=lambda t: abs(t - end))
    assert end == pytest.approx(singular, abs=0.1)
    before = done.t < singular - 0.1
    assert np.abs(done.u - exact("figure-eight", done.t))[before].max() < 1e-4
    right = ds.solve("figure-eight", sweeper="radau-iia-5", rtol=1e-6)
    assert right.success and np.abs(right.u - exact("figure-eight", right.t)).max() < 1e-4


CROSSING = [
    *(("chart-dop853", how) for how in ({"rtol": 1e-8}, {"dt": 0.05})),
    *((f"projected-{pair}", how) for pair in ("dop853", "dopri5") for how in ({"rtol": 1e-8}, {"dt": 0.05})),
    *(("projected-dopri5", {"dt": 2.0 / steps}) for steps in (9, 10, 11, 12, 13, 37)),
    ("unprojected-dop853", {"rtol": 1e-6}),
    ("rattle", {"dt": 0.005}),
    ("radau-iia-5", {"rtol": 1e-8}),
    ("radau-iia-5", {"dt": 0.05}),
    ("fully-implicit", {"dt": 0.05, "nodes": 3}),
]


@pytest.mark.parametrize(("sweeper", "how"), CROSSING)
def test_a_crossing_of_wires_is_passed_straight_and_told(sweeper: str, how: dict[str, Any]) -> None:
    problem = Bead()
    start = problem.consistent(0.0, [1.0, 0.0], [-1.0, 0.0])
    done = ds.solve(problem, sweeper=sweeper, u0=start, **how)
    crossing = np.sqrt(3.0) - 1.0  # 1 - t - t^2 / 2 = 0
    places = [float(text) for text in re.findall(r"near t=([\d.]+\d)", done.message)]
    assert done.success and places == pytest.approx([crossing], abs=1e-5) and "rank" in done.message
    assert done.u[-1, :2] == pytest.approx([-3.0, 0.0], abs=1e-7)


@pytest.mark.parametrize("sweeper", ["projected-dop853", "rattle", "radau-iia-5"])
def test_a_wire_that_bends_near_another_is_no_crossing(sweeper: str) -> None:
    class Near(Bead):
        def g(self, t: float, q: Any) -> Any:
            return np.array([q[0] * q[1] - 0.01])

    problem = Near()
    start = problem.consistent(0.0, [1.0, 0.01], [-1.0, 0.01])
    done = ds.solve(
        problem, sweeper=sweeper, u0=start, **({"dt": 0.01} if sweeper == "rattle" else {"rtol": 1e-7})
    )
    assert done.success and "singular" not in done.message


# --- how they live with the rest ----------------------------------------------------------------------------


def test_the_method_is_chosen_by_the_type_and_named() -> None:
    done = ds.solve("rigid-pendulum")
    assert done.success and done.parameters["sweeper"] == "projected-dop853"
    assert "eulag" in done.parameters["chosen_for"]
    assert ds.solve("figure-eight", rtol=1e-5).parameters["sweeper"] == "chart-dop853"
    assert ds.solve("rigid-pendulum", dt=0.02, t_end=0.1).parameters["sweeper"] == "projected-dop853"
    other = ds.solve("rigid-pendulum", rtol=1e-5, t_end=0.5, params={"formulation": "ggl"})
    assert other.parameters["sweeper"].startswith("radau") and "chosen_for" not in other.parameters
    assert ds.solve("rigid-pendulum", dt=0.05, t_end=0.1, nodes=3).parameters["sweeper"] == "fully-implicit"


def test_stiff_equations_get_an_implicit_method() -> None:
    class Stiff(MovingRing):
        stiff = True

    assert ds.solve(Stiff, rtol=1e-4, t_end=0.3).parameters["sweeper"].startswith("radau")


def test_a_record_of_ones_own_makes_a_sweeper() -> None:
    own = replace(
        MANIFOLD_METHODS["baumgarte-dop853"], name="soft", class_name="SoftDAE", alpha=1.0, beta=1.0
    )
    done = ds.solve("rigid-pendulum", sweeper=manifold_method(own), rtol=1e-8)
    hard = ds.solve("rigid-pendulum", sweeper="baumgarte-dop853", rtol=1e-8)
    loose = drift("rigid-pendulum", ds.solve("rigid-pendulum", sweeper="unprojected-dop853", rtol=1e-8))
    assert done.parameters["sweeper"] == "SoftDAE"
    between = drift("rigid-pendulum", done)["constraint"]
    assert drift("rigid-pendulum", hard)["constraint"] < between < loose["constraint"]


def test_a_chart_for_every_step_can_be_asked_for() -> None:
    own = replace(MANIFOLD_METHODS["chart-dop853"], name="fresh", class_name="FreshDAE", turned=1.0)
    done = ds.solve("rigid-pendulum", sweeper=manifold_method(own), rtol=1e-8)
    assert done.stats["charts"] >= done.stats["steps"]
    kept = ds.solve("rigid-pendulum", sweeper="chart-dop853", rtol=1e-8).stats["charts"]
    assert 1 < kept < done.stats["steps"]


@pytest.mark.parametrize("name", MANIFOLD_METHODS)
def test_other_equations_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(InputError, match="needs equations of a quasilinear type") as caught:
        ds.solve("pendulum", sweeper=name, dt=0.02)
    assert "\n" not in str(caught.value)


def test_rattle_takes_no_tolerance() -> None:
    with pytest.raises(InputError, match="has no error estimate"):
        ds.solve("rigid-pendulum", sweeper="rattle", rtol=1e-4)


@pytest.mark.parametrize("name", ["chart-dop853", "projected-dopri5"])
def test_methods_in_python_and_in_kernels_give_the_same(name: str) -> None:
    class Plain(ds.QuasiLagrangeProblem):
        names = ("x", "y", "vx", "vy", "lambda")

        def __init__(self, **settings: Any) -> None:
            super().__init__(2, 1, **settings)

        def A(self, t: float, q: Any, v: Any) -> Any:
            return np.eye(2)

        def h(self, t: float, q: Any, v: Any) -> Any:
            return [0.0, -13.7503671]

        def g(self, t: float, q: Any) -> Any:
            return [0.5 * (q[0] ** 2 + q[1] ** 2 - 1.0)]

    times = np.linspace(0.0, 1.0, 21)
    settings: dict[str, Any] = {"sweeper": name, "rtol": 1e-8, "t_end": 1.0, "t_eval": times}
    one = ds.solve("rigid-pendulum", **settings)
    problem = Plain()
    two = ds.solve(problem, u0=problem.consistent(0.0, [1.0, 0.0], [0.0, 0.0]), **settings)
    assert two.success, two.message
    assert two.u[:, :4] == pytest.approx(one.u[:, :4], abs=1e-10)
    assert two.stats["steps"] == one.stats["steps"]


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyError, KeyboardInterrupt])
def test_what_an_equation_raises_comes_through(kind: type[BaseException]) -> None:
    class Failing(MovingRing):
        def h(self, t: float, q: Any, v: Any) -> Any:
            if t > 0.5:
                raise kind("no force")
            return super().h(t, q, v)

    if kind is ZeroDivisionError:  # no value there: shorter steps, and then the end of the run
        done = ds.solve(Failing, sweeper="chart-dop853", rtol=1e-6)
        assert not done.success and 0.49 < done.t[-1] <= 0.5
        assert "the equations are not defined there" in done.message
        return
    with pytest.raises(kind, match="no force"):
        ds.solve(Failing, sweeper="chart-dop853", rtol=1e-6)


def test_a_step_that_cannot_be_taken_names_its_reason() -> None:
    done = ds.solve(MovingRing, sweeper="chart-dopri5", dt=2.0)
    assert not done.success and "cannot be taken" in done.message and "t=0" in done.message


@pytest.mark.parametrize("name", PAIRED)
def test_a_run_goes_on_from_a_checkpoint_to_the_last_bit(name: str, tmp_path: Path) -> None:
    at, killed = tmp_path / "run.npz", True

    def above(u: Any, t: float) -> float:
        if killed and t > 0.7:
            raise RuntimeError("killed")
        return 1.0

    settings: dict[str, Any] = {"sweeper": name, "rtol": 1e-6, "t_end": 1.0, "events": [above]}
    with pytest.raises(RuntimeError):
        ds.solve("rigid-pendulum", checkpoint=at, every=2, **settings)
    killed = False
    rest = ds.solve("rigid-pendulum", checkpoint=at, every=2, resume=True, **settings)
    whole = ds.solve("rigid-pendulum", **settings)
    assert rest.parameters["resumed_at"] > 0.0
    assert np.array_equal(rest.t, whole.t) and np.array_equal(rest.u, whole.u)


def test_copies_of_a_step_go_their_own_way() -> None:
    setup = describe("rigid-pendulum", sweeper="chart-dop853")
    own = controller_nonMPI(1, {"logger_level": 40}, setup.with_step(0.05))
    P = own.MS[0].levels[0].prob
    own.run(u0=P.state(P.u_exact(0.0)), t0=0.0, Tend=0.12)
    copy = dill.copy(own.MS[0])
    level, twin = own.MS[0].levels[0], copy.levels[0]
    start = np.array(level.uend)
    for L in (level, twin):
        L.status.time = 0.15
        L.u[0] = L.prob.state(start)
        L.sweep.predict()
        L.sweep.update_nodes()
        L.sweep.compute_end_point()
    assert np.array_equal(twin.uend, level.uend) and twin.uend is not level.uend


def test_events_end_a_run_on_the_manifold() -> None:
    def lowest(u: Any, t: float) -> float:
        return float(u[0])

    lowest.terminal = True  # type: ignore[attr-defined]
    done = ds.solve("rigid-pendulum", sweeper="chart-dop853", rtol=1e-9, events=[lowest])
    assert done.success and done.t[-1] == pytest.approx(2.00000033 / 4.0, abs=1e-7)
    assert drift("rigid-pendulum", done)["constraint"] <= 1e-14


def test_solutions_are_kept_where_a_constraint_loses_rank() -> None:
    class Ending(MovingRing):
        """The ring shrinks to a point at t = 1."""

        def g(self, t: float, q: Any) -> Any:
            return np.array([0.5 * (q[0] ** 2 + q[1] ** 2 - (1.0 - t) ** 3)])

        def h(self, t: float, q: Any, v: Any) -> Any:
            return np.zeros(2)

    problem = Ending()
    start = problem.consistent(0.0, [1.0, 0.0], [-1.5, 0.0])
    done = ds.solve(problem, sweeper="chart-dop853", rtol=1e-6, u0=start)
    assert not done.success and 0.9 < done.t[-1] <= 1.0 + 1e-9
    assert "no step from t=" in done.message
