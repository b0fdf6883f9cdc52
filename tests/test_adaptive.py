"""Runs to a tolerance: errors, step sizes, ends, failures, and the parts that decide about a step."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
import sympy
from helpers.jacobians_by_hand import index_1_jacobian
from helpers.pairs import covering_pairs
from scipy.integrate import solve_ivp

import dae_sdc as ds
from dae_sdc.dae.state import Vector
from dae_sdc.problems.linear import (
    HessenbergIndex1,
    HessenbergIndex2,
    HessenbergIndex3,
    index_1_residual,
)
from dae_sdc.run.method import default_nodes, default_sweeper
from dae_sdc.sweepers import steps_ahead
from dae_sdc.sweepers.steps_ahead import StepSizes
from dae_sdc.sweepers.tableaux import METHODS
from dae_sdc.sweepers.tolerance import (
    SMALLEST_RTOL,
    Outcome,
    Tolerance,
    effective_order,
    inner_factor,
    newton_share,
)

ABLE = tuple(name for name, tableau in METHODS.items() if tableau.estimate_index)
RADAU = tuple(name for name in ABLE if name.startswith("radau"))
EXACT = ("hessenberg-1", "hessenberg-2", "hessenberg-3", "pendulum", "simple")


def error_at_end(solution: ds.Solution, problem: ds.ProblemDAE) -> float:
    """Largest error of a differential unknown at the end, relative to 1 + abs(u)."""
    assert solution.success, solution.message
    exact = np.asarray(problem.u_exact(float(solution.t[-1])))
    errors = np.abs(solution.u[-1] - exact) / (1.0 + np.abs(exact))
    return float(errors[: problem.n_diff].max())


def problem_of(name: str) -> ds.ProblemDAE:
    cls: Any = ds.PROBLEMS[name]
    made: ds.ProblemDAE = cls()
    return made


# --- accuracy -----------------------------------------------------------------------------------------------


def test_velocities_that_follow_accelerations_may_carry_their_rounding() -> None:
    # Modes of the rod, of 1e-5 m, have tolerances near the rounding of the large rates of crank and rod.
    problem = problem_of("slider-crank")
    solution = ds.solve(problem, rtol=1e-10, t_end=0.02)
    assert solution.success, solution.message
    loose = ds.solve(problem, rtol=1e-10, atol=1e-9, t_end=0.02)
    assert np.abs(solution.u[-1] - loose.u[-1])[:7].max() < 1e-11


@pytest.mark.parametrize(("rtol", "most"), [(1e-6, 40), (1e-9, 100)])
def test_the_default_needs_few_steps_at_index_2(rtol: float, most: int) -> None:
    solution = ds.solve("simple", rtol=rtol)
    assert solution.stats["steps"] + solution.stats["rejected"] < most
    assert error_at_end(solution, ds.SimpleDAE()) <= 10.0 * rtol


def too_much(method: str, name: str, rtol: float) -> bool:
    """Whether a method is no choice for a tolerance.

    Two nodes take 9000 to 39000 steps at index 3 there, so short that rounding in the positions, over the
    square of a step, is what limits the velocities.
    """
    return method == "radau-iia-3" and rtol < 1e-7 and name in ("hessenberg-3", "pendulum")


ACCURACIES = [
    (name, method, rtol)
    for name in EXACT
    for method in (None, *RADAU)
    for rtol in (1e-4, 1e-7, 1e-10)
    if method is None or not too_much(method, name, rtol)
]


@pytest.mark.parametrize(("name", "method", "rtol"), ACCURACIES)
def test_the_error_follows_the_tolerance(name: str, method: str | None, rtol: float) -> None:
    solution = ds.solve(name, sweeper=method, rtol=rtol)
    assert error_at_end(solution, problem_of(name)) <= (40.0 if name == "hessenberg-3" else 30.0) * rtol


@pytest.mark.parametrize("sweeper", ["radau-iia-5", None])
def test_short_steps_are_solved_where_places_are_measured_from_rest(sweeper: str | None) -> None:
    """The rounding of a constraint is that of its constants, 0.37 here, beside unknowns that are near 0."""
    model = ds.Model("arm")
    x, y, tension = model.variables("x y tension", start=0.0)
    a, b = 0.37, -0.02
    length = math.hypot(a, b)
    model.equation(35.0 * model.der(x, 2) + tension * (a + x) / length - 1813.0 * a / length)
    model.equation(35.0 * model.der(y, 2) + tension * (b + y) / length - 1813.0 * b / length + 5e4 * y)
    model.equation(((a + x) ** 2 + (b + y) ** 2 - length**2) / (2.0 * length))
    for variable in model.variables_by_name.values():
        size = 1e3 if variable.name == "tension" else 1e-2
        variable.nominal.update({0: size, 1: 10.0 * size})
    options = {} if sweeper is None else {"sweeper": sweeper}
    solution = ds.solve(model, rtol=1e-6, dt_max=1e-5, t_end=3e-4, u0={"y": 1e-9}, **options)
    assert solution.success
    assert solution["tension"] == pytest.approx(1813.0, rel=1e-4)
    assert np.abs(solution["y"]).max() <= 1.1e-9


def test_first_steps_are_not_so_short_that_rounding_spoils_them() -> None:
    # At index 3 an error of 1e-16 in a position is one of 1e-16 / h in a velocity.
    for rtol in (1e-9, 1e-11):
        solution = ds.solve("hessenberg-3", rtol=rtol)
        assert np.finfo(float).eps / solution.t[1] < 30.0 * rtol
        assert error_at_end(solution, problem_of("hessenberg-3")) <= 30.0 * rtol


@pytest.mark.parametrize("rtol", [1e-4, 1e-6])
@pytest.mark.parametrize("sweeper", ["radau-iia-5", "semi-implicit", "fully-implicit"])
@pytest.mark.parametrize(("name", "part"), [("hessenberg-2", 1e-6), ("hessenberg-3", 1e-2)])
def test_multipliers_are_right_in_an_interval_in_which_little_changes(
    name: str, part: float, sweeper: str, rtol: float
) -> None:
    problem = ds.PROBLEMS[name]()
    begin, end = problem.interval
    settings = {} if sweeper == "radau-iia-5" else {"qdelta": "LU"}
    found = ds.solve(name, rtol=rtol, t_end=begin + part * (end - begin), sweeper=sweeper, **settings)
    assert found.success, found.message
    exact = np.asarray(problem.u_exact(found.t[-1]))
    assert (np.abs(np.asarray(found.u[-1]) - exact) <= 10.0 * rtol * np.abs(exact)).all()


def test_a_co_simulation_may_ask_for_a_millionth_of_a_second_of_a_mechanism() -> None:
    found = ds.solve("andrews", rtol=1e-4, t_end=1e-6)
    assert found.success and len(found.t) < 8


def test_capable_methods_are_those_with_an_estimate() -> None:
    # Embedded pairs, and collocation methods without a node at 0 that end at their last stage.
    assert {"radau-iia-3", "radau-iia-5", "radau-iia-9", "radau-iia-13", "esdirk32", "esdirk43"} <= set(ABLE)
    assert not {"gauss-4", "gauss-6", "lobatto-iiic-4", "dirk43-2", "trapezoidal"} & set(ABLE)


@pytest.mark.parametrize("name", ["car-axis", "pendulum-cash", "andrews"])
def test_steps_do_not_run_away_at_index_3(name: str) -> None:
    solution = ds.solve(name, rtol=1e-6, time_limit=300.0)
    assert solution.success, solution.message
    assert solution.stats["steps"] + solution.stats["rejected"] < 400


@pytest.mark.parametrize(
    ("name", "part"),
    [("hessenberg-1", 1.0), ("simple", 0.5), ("simple", 1.0), ("pendulum", 0.5), ("pendulum", 1.0)],
)
def test_a_first_step_that_is_too_large_leaves_no_trace(name: str, part: float) -> None:
    rtol, problem = 1e-8, problem_of(name)
    span = problem.interval[1] - problem.interval[0]
    solution = ds.solve(name, rtol=rtol, dt=part * span)
    assert solution.stats["rejected"] > 0
    assert solution.t[1] - solution.t[0] < part * span
    assert error_at_end(solution, problem) <= 30.0 * rtol
    assert (np.diff(solution.t) > 0.0).all()


# --- times --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", RADAU)
@pytest.mark.parametrize("rtol", [1e-5, 1e-6, 1e-7, 1e-8, 1e-9])
def test_iterations_do_not_end_before_what_follows_from_others(method: str, rtol: float) -> None:
    model = ds.Model("outputs", interval=(0.0, 0.5))
    x, square, bent = model.variables("x square bent", start=[0.64, 0.2048, 0.64])
    corner = sympy.Piecewise((x, x > 0.5), (1.5 - 2 * x, True))
    model.equations(model.der(x) + 1.3 * x, square - x**2 / 2, bent - corner)
    done = ds.solve(model, rtol=rtol, sweeper=method)
    x, square, bent = done.u.T
    assert np.abs(square - x**2 / 2).max() <= 100.0 * rtol
    assert np.abs(bent - np.where(x > 0.5, x, 1.5 - 2.0 * x)).max() <= 100.0 * rtol


class Rectifier(ds.ProblemDAE):
    """C v' = i(10 sin(100 pi t) - v) - v / R, with a diode whose current grows e-fold every 26 mV."""

    index = 0
    interval = (0.0, 0.04)

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 0, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        drop = (10.0 * math.sin(100.0 * math.pi * t) - u[0]) / 0.026
        # Beyond 40 the current goes on along its tangent.
        current = 1e-9 * (math.exp(min(drop, 40.0)) * (1.0 + max(drop - 40.0, 0.0)) - 1.0)
        return [1e-5 * du[0] - current + u[0] / 1000.0]


def rectifier() -> Any:
    model = ds.Model("rectifier", interval=(0.0, 0.04))
    v = model.variable("v", 0.0, fixed=True)
    drop = (10 * sympy.sin(100 * sympy.pi * model.t) - v) / sympy.Rational(26, 1000)
    growth = sympy.exp(sympy.Min(drop, 40)) * (1 + sympy.Max(drop - 40, 0))
    current = (growth - 1) / 10**9
    model.equation(model.der(v) / 10**5 - current + v / 1000)
    return model


@pytest.fixture(scope="module")
def rectified() -> float:
    from scipy.integrate import solve_ivp

    problem = Rectifier()

    def rates(t: float, v: Any) -> list[float]:
        return [-1e5 * problem.eval_f(v, [0.0], t)[0]]

    found = solve_ivp(rates, problem.interval, [0.0], method="Radau", rtol=1e-10, atol=1e-12, max_step=1e-4)
    return float(found.y[0, -1])


# With a method of order 3, eight digits take thousands of steps that are all alike.
FAR_UP = [
    case
    for case in itertools.product((1e-4, 1e-6, 1e-8), RADAU, (Rectifier, rectifier))
    if case[:2] != (1e-8, "radau-iia-3")
]


@pytest.mark.parametrize(
    ("rtol", "method", "make"),
    covering_pairs(FAR_UP),
)
def test_a_guess_far_up_an_exponential_is_no_solution(
    rtol: float, method: str, make: Any, rectified: float
) -> None:
    # Its Jacobian of 1e10 made all that was left of the equations look small.
    done = ds.solve(make(), u0=[0.0], rtol=rtol, sweeper=method)
    assert done.success
    assert done.u[-1, 0] == pytest.approx(rectified, rel=100.0 * rtol)


@pytest.mark.parametrize("end", [0.1, 1.0 / 3.0, 0.7000000000000001, math.pi / 4.0])
def test_runs_end_at_their_end(end: float) -> None:
    assert ds.solve("hessenberg-1", rtol=1e-6, t_end=end).t[-1] == end


@pytest.mark.parametrize("rtol", [1e-3, 1e-6])
def test_steps_end_at_breakpoints(rtol: float) -> None:
    problem = problem_of("nand-gate")
    solution = ds.solve(problem, rtol=rtol)
    stops = problem.breakpoints(*problem.interval)
    assert len(stops) > 10
    assert set(stops) <= set(solution.t.tolist())
    assert solution.t[-1] == problem.interval[1]


@pytest.mark.parametrize("name", ["nand-gate", "simple", "pendulum", "hessenberg-2"])
def test_there_are_no_slivers(name: str) -> None:
    problem = problem_of(name)
    solution = ds.solve(problem, rtol=1e-6)
    sizes, ends = np.diff(solution.t), solution.t[1:].tolist()
    stops = {*problem.breakpoints(*problem.interval), problem.interval[1]}
    start = 0
    for end in [i + 1 for i, t in enumerate(ends) if t in stops]:
        piece = sizes[start:end]
        # Behind a start steps grow from what they are there.
        for i in range(1, len(piece)):
            assert piece[i] > 1e-3 * piece[i - 1 : i + 2].max()
        start = end
    assert start == len(sizes)


def test_the_largest_step_is_respected() -> None:
    free = ds.solve("hessenberg-1", rtol=1e-6)
    bounded = ds.solve("hessenberg-1", rtol=1e-6, dt_max=0.05)
    assert np.diff(free.t).max() > 0.1
    assert np.diff(bounded.t).max() <= 0.05 * (1.0 + 1e-9)
    assert bounded.stats["steps"] >= 20


# --- the same equations in other forms ----------------------------------------------------------------------


class Python(ds.ProblemDAE):
    """``hessenberg-1`` as functions of Python, with differences for a Jacobian."""

    index, names, interval = 1, HessenbergIndex1.names, HessenbergIndex1.interval

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)
        self.equations = HessenbergIndex1()

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return self.equations.eval_f(u, du, t)

    def u_exact(self, t: float) -> Any:
        return self.equations.u_exact(t)


class WithJacobian(Python):
    """The same with its Jacobian."""

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        return self.equations.jacobian(u, du, t, c)


class Sparse(Python):
    """The same with differences for the entries of a pattern."""

    sparsity = sparse.csc_matrix(np.ones((3, 3)))


def by_columns(t: float, u: Any, du: Any, c: float, p: Any, out: Any) -> None:
    """The Jacobian of ``hessenberg-1``, column after column."""
    y1, y2, z = u[0], u[1], u[2]
    out[0], out[1], out[2] = 1.0 + 2.0 * c * y1, -c * z, -c * y2
    out[3], out[4], out[5] = 0.0, 1.0 + c, -c * y1
    out[6], out[7], out[8] = -c, -c * y1, c * (1.0 + z * z)


class Kernels(ds.ProblemDAE):
    """The same compiled, with a dense Jacobian."""

    index, names, interval = 1, HessenbergIndex1.names, HessenbergIndex1.interval
    residual_kernel, jacobian_kernel = index_1_residual, index_1_jacobian

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def u_exact(self, t: float) -> Any:
        return HessenbergIndex1().u_exact(t)


class SparseKernels(Kernels):
    """The same compiled, with the entries of a pattern."""

    sparsity = sparse.csc_matrix(np.ones((3, 3)))
    jacobian_kernel = by_columns


@pytest.mark.parametrize("form", [Python, WithJacobian, Sparse, Kernels, SparseKernels])
@pytest.mark.parametrize("rtol", [1e-4, 1e-9])
def test_every_form_of_the_equations_takes_the_same_steps(form: Any, rtol: float) -> None:
    reference = ds.solve(HessenbergIndex1, rtol=rtol)
    solution = ds.solve(form, rtol=rtol)
    assert solution.success and solution.stats["steps"] == reference.stats["steps"]
    # The error estimate sees the derivatives, which differences give to 1e-8.
    assert np.abs(solution.t - reference.t).max() < 1e-4
    assert np.abs(solution.u[-1] - reference.u[-1]).max() < 1e-9


@pytest.mark.parametrize("base", [HessenbergIndex2, HessenbergIndex3])
def test_equations_in_python_are_as_exact_at_a_higher_index(base: Any) -> None:
    class Plain(ds.ProblemDAE):
        index, names, interval = base.index, base.names, base.interval

        def __init__(self) -> None:
            self.equations = base()
            super().__init__(self.equations.n_diff, self.equations.n_alg)
            self.variable_index = self.equations.variable_index

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return self.equations.eval_f(u, du, t)

        def u_exact(self, t: float) -> Any:
            return self.equations.u_exact(t)

    compiled, plain = ds.solve(base, rtol=1e-7), ds.solve(Plain, rtol=1e-7)
    assert error_at_end(plain, base()) <= 3e-6
    # Where Newton's method just converges, rounding decides; the sizes of all steps after it differ.
    assert abs(plain.stats["steps"] - compiled.stats["steps"]) <= 0.3 * compiled.stats["steps"] + 2


# --- work ---------------------------------------------------------------------------------------------------


class Driven(ds.ProblemDAE):
    """x'' = -x + z, z = sin(3 t): the Jacobian is constant."""

    index, names, interval = 1, ("x", "v", "z"), (0.0, 20.0)

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] - u[1], du[1] + u[0] - u[2], u[2] - math.sin(3.0 * t)]

    def u_exact(self, t: float) -> Any:
        # x(0) = 0, v(0) = 1: x = 11/8 sin t - 1/8 sin 3 t
        x = (11.0 * math.sin(t) - math.sin(3.0 * t)) / 8.0
        v = (11.0 * math.cos(t) - 3.0 * math.cos(3.0 * t)) / 8.0
        return self.state([x, v, math.sin(3.0 * t)])


def test_jacobians_are_kept() -> None:
    solution = ds.solve(Driven, rtol=1e-8)
    assert error_at_end(solution, Driven()) <= 3e-7
    # One for the sizes of unknowns, one for the first step size, one for the first step.
    assert solution.stats["jacobian"] <= solution.stats["steps"] / 5 > 3
    slow = ds.solve("hires", rtol=1e-5)
    assert slow.stats["jacobian"] < slow.stats["steps"]


def test_factors_are_kept_with_the_step_size() -> None:
    # From 0.9 to 1.2 times the last size a step is kept as it is: far from every step has new factors.
    bounded = ds.solve(Driven, rtol=1e-6, dt=0.05, dt_max=0.05)
    pairs = 1 + (default_nodes(1e-6) - 1) // 2
    assert bounded.stats["steps"] >= 400
    assert bounded.stats["factorization"] <= 10 * pairs


# --- what counts --------------------------------------------------------------------------------------------


def test_unknowns_that_are_left_out_do_not_count() -> None:
    def apart(t: Any, u: Any, du: Any) -> list[Any]:
        return [du[0] + u[0], du[1] - 50.0 * np.cos(50.0 * t)]

    settings: dict[str, Any] = {"rtol": 1e-6, "sweeper": "radau-iia-5"}
    start = {"slow": 1.0, "fast": 0.0}
    every, slow = (
        ds.solve(apart, u0=start, t_end=5.0, leave_out=names, **settings) for names in ((), ("fast",))
    )
    assert every.stats["steps"] > 5 * slow.stats["steps"]
    assert np.abs(slow.u[:, 0] - np.exp(-slow.t)).max() <= 1e-6
    few = ds.solve("hessenberg-3", leave_out=("v1", "v2", "w"), **settings)
    assert np.abs(few.u[-1, :2] - HessenbergIndex3().u_exact(1.0)[:2]).max() < 1e-4


def test_absolute_tolerances_count_by_unknown() -> None:
    def steps(atol: Any) -> int:
        return int(ds.solve("hessenberg-1", rtol=1e-9, sweeper="radau-iia-5", atol=atol).stats["steps"])

    assert steps(1e-3) < steps(1e-9) == steps([1e-9] * 3) < steps(1e-12)
    # y2 begins at 0, where its absolute tolerance alone counts.
    assert steps([1e-9, 1e-12, 1e-9]) > steps(1e-9)


def test_the_absolute_tolerance_is_that_of_the_nominal_sizes() -> None:
    class Nominal(Kernels):
        nominal = (1.0, 1e-3, 1.0)

    by_size = ds.solve(Nominal, rtol=1e-6)
    by_hand = ds.solve(Kernels, rtol=1e-6, atol=[1e-6, 1e-9, 1e-6])
    np.testing.assert_array_equal(by_size.t, by_hand.t)
    np.testing.assert_array_equal(by_size.u, by_hand.u)


# --- failures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        *(({"rtol": rtol}, "rtol must be at least 1e-13 and below 1") for rtol in (0.0, -1.0, 1.0, 1e-14)),
        ({"rtol": math.nan}, "rtol must be a number; got nan"),
        ({"rtol": "1e-4x"}, "rtol must be a number"),
        ({"rtol": 1e-4, "atol": [1e-4, 1e-4]}, r"shape \(3,\); got shape \(2,\)"),
        ({"rtol": 1e-4, "atol": -1e-4}, "atol must be a number from 0 to"),
        ({"rtol": 1e-4, "atol": [1e-4, math.nan, 1e-4]}, "atol must be a number from 0 to"),
        ({"rtol": 1e-4, "atol": math.inf}, "atol must be a number from 0 to"),
        ({"rtol": 1e-4, "atol": "small"}, "atol must be a number or one for each unknown"),
        ({"rtol": 1e-4, "leave_out": ("zz",)}, "'zz'; did you mean 'z'"),
        ({"rtol": 1e-4, "steps": 2}, "leave steps out"),
        ({"rtol": 1e-4, "sweeper": "semi-implicit", "coarse_nodes": 2}, "leave coarse_nodes out"),
        ({"rtol": 1e-4, "sweeper": "semi-implicit", "parallel": "steps"}, "parallel='nodes'"),
        ({"rtol": 1e-4, "dt": -0.1}, "dt must be positive; got -0.1"),
        ({"rtol": 1e-4, "leave_out": b"z"}, "leave_out must be a sequence of texts"),
        ({"rtol": 1e-4, "leave_out": np.array(["zz"])}, "'zz'; did you mean 'z'"),
        ({"rtol": 1e-4, "atol": 0.0, "u0": [0.0, 0.0, 0.0]}, "'y1' begins at 0 and has atol 0"),
        ({"rtol": 1e-4, "dt_max": 0.0}, "dt_max must be positive"),
        ({"rtol": 1e-4, "time_limit": -1.0}, "time_limit must be positive"),
        ({"dt": 0.1, "dt_max": 0.1}, "dt_max without effect"),
        ({"dt": 0.1, "atol": 1e-4, "leave_out": ("z",)}, "atol, leave_out without effect"),
    ],
)
def test_what_cannot_be_used_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ds.InputError, match=words) as caught:
        ds.solve("hessenberg-1", **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sweeper", ["radau-iia-5", "ida"])
@pytest.mark.parametrize("names", ["z", np.array(["z"]), np.array([]), np.array(["z"], dtype=object)])
def test_names_to_leave_out_come_as_a_text_and_as_an_array(names: Any, sweeper: str) -> None:
    listed = np.atleast_1d(names).tolist()
    settings: dict[str, Any] = {"rtol": 1e-5, "sweeper": sweeper, "t_end": 0.2}
    solution = ds.solve("hessenberg-1", leave_out=names, **settings)
    assert list(solution.parameters["leave_out"]) == listed
    assert solution.u.tobytes() == ds.solve("hessenberg-1", leave_out=listed, **settings).u.tobytes()


@pytest.mark.parametrize("method", ["backward-euler", "gauss-4", "lobatto-iiic-4", "dirk43-2"])
def test_a_method_without_an_estimate_is_told_those_that_have_one(method: str) -> None:
    with pytest.raises(ds.InputError, match=f"'{method}' has no error estimate") as caught:
        ds.solve("hessenberg-1", rtol=1e-4, sweeper=method)
    told = str(caught.value).split("use one of ")[1].split(", ")
    assert sorted(told) == sorted(ABLE)


@pytest.mark.parametrize("before", [4, 5])  # calls of steps before the end of the run
def test_a_time_limit_keeps_what_is_there(monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    from pySDC.core.hooks import Hooks

    from dae_sdc import deadline

    class SeesSteps(Hooks):  # type: ignore[misc]
        def post_step(self, step: Any, level_number: int) -> None:
            super().post_step(step, level_number)

    # Of steps that a hook looks at, each is taken by the controller.
    whole = ds.solve("simple", rtol=1e-9, hooks=[SeesSteps])
    # A clock that goes on by a second at every look: one a step is the last ones.
    clock = itertools.count()
    monkeypatch.setattr(deadline, "perf_counter", lambda: next(clock))
    ds.solve("simple", rtol=1e-9, time_limit=1e6, hooks=[SeesSteps])
    looks, clock = next(clock), itertools.count()
    part = ds.solve("simple", rtol=1e-9, time_limit=float(looks - before), hooks=[SeesSteps])
    assert whole.success and not part.success
    assert 3 <= part.stats["steps"] < whole.stats["steps"]
    np.testing.assert_array_equal(part.u, whole.u[: len(part.t)])
    time = part.message.split("ran out at t=")[1].split(";")[0]
    assert (
        part.message.startswith(f"the time limit of {looks - before} s ran out at t=")
        and "\n" not in part.message
    )
    assert abs(float(time) - whole.t[len(part.t) - 1]) <= 1e-5 * float(time) or float(time) == 0.0


def blow_up_residual(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
    out[0] = du[0] - u[1]
    out[1] = u[1] - u[0] * u[0]


def blow_up_jacobian(t: float, u: Any, du: Any, c: float, p: Any, out: Any) -> None:
    out[0], out[1] = 1.0, -c
    out[2], out[3] = -2.0 * c * u[0], c


class BlowUp(ds.ProblemDAE):
    """y' = z, z = y^2 with y = 1 / (1 - t)."""

    index, names, interval = 1, ("y", "z"), (0.0, 2.0)
    residual_kernel, jacobian_kernel = blow_up_residual, blow_up_jacobian

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)

    def u_exact(self, t: float) -> Any:
        return self.state([1.0 / (1.0 - t), 1.0 / (1.0 - t) ** 2])


class BlowUpInPython(ds.ProblemDAE):
    """The same in Python."""

    index, names, interval = 1, ("y", "z"), (0.0, 2.0)

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        with np.errstate(all="ignore"):
            return [du[0] - u[1], u[1] - u[0] * u[0]]

    def u_exact(self, t: float) -> Any:
        return self.state([1.0 / (1.0 - t), 1.0 / (1.0 - t) ** 2])


@pytest.mark.parametrize(
    ("problem", "where"),
    [
        ("simple", 2.0),
        (BlowUp, 1.0),
        (BlowUpInPython, 1.0),
    ],
)
def test_a_run_into_a_singularity_ends_with_time_and_unknown(problem: Any, where: float) -> None:
    solution = ds.solve(problem, rtol=1e-6, t_end=1.5 * where)
    assert not solution.success
    assert abs(solution.t[-1] - where) < 1e-6
    found = solution.message
    assert (
        f"no step from t={solution.t[-1]:.10g} succeeds" in found or "in proportion to the time left" in found
    )
    assert any(f"'{name}'" in solution.message for name in solution.names)
    assert "\n" not in solution.message and len(solution.message) < 400
    # Far from the end of the solution what is kept is right.
    early = int(np.searchsorted(solution.t, 0.9 * where))
    made = problem_of(problem) if isinstance(problem, str) else problem()
    exact = np.asarray(made.u_exact(float(solution.t[early - 1])))
    assert np.abs(solution.u[early - 1] / exact - 1.0)[: made.n_diff].max() < 1e-4


def test_time_goes_on_in_every_step() -> None:
    solution = ds.solve(BlowUp, rtol=1e-6, t_end=1.5)
    assert (np.diff(solution.t) > 0.0).all()


# --- which method -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rtol", "nodes"), [(1e-2, 5), (1e-5, 5), (9e-6, 7), (1e-12, 7)])
def test_the_tolerance_chooses_the_nodes(rtol: float, nodes: int) -> None:
    assert default_nodes(rtol) == nodes
    assert default_sweeper(rtol, None) == f"radau-iia-{2 * nodes - 1}"
    assert ds.solve("hessenberg-1", rtol=rtol).parameters["sweeper"] == f"radau-iia-{2 * nodes - 1}"


def test_nodes_may_be_given() -> None:
    assert default_sweeper(1e-8, 3) == "radau-iia-5"
    assert ds.solve("hessenberg-1", rtol=1e-8, nodes=3).parameters["sweeper"] == "radau-iia-5"


# --- the inner tolerance ------------------------------------------------------------------------------------


def test_the_inner_factor_is_that_of_its_formula() -> None:
    # Radau IIA with 3 nodes: an estimate of order 4 for a local error of order 6.
    assert inner_factor(1e-6, 4, 5.0) == pytest.approx(0.005 * 1e-6 ** (4.0 / 6.0 - 1.0))
    assert inner_factor(1e-9, 6, 5.0) == 0.005
    assert inner_factor(1e-9, 7, 5.0) == 0.005


@pytest.mark.parametrize("nodes", [2, 3, 5, 7])
def test_the_inner_tolerance_makes_the_error_proportional(nodes: int) -> None:
    order, local = nodes + 1, 2.0 * nodes
    # Steps of h^order = inner tolerance have a local error of h^local.
    rtols = np.array([1e-4, 1e-7, 1e-10])
    errors = [(rtol * inner_factor(rtol, order, local - 1.0)) ** (local / order) for rtol in rtols.tolist()]
    np.testing.assert_allclose(errors / rtols, 0.005 ** (local / order), rtol=1e-12)


@pytest.mark.parametrize("nodes", [2, 3, 5, 7])
def test_the_effective_order_is_that_of_the_index(nodes: int) -> None:
    order = 2 * nodes - 1
    assert effective_order(nodes, order, 1) == effective_order(nodes, order, 2) == order
    # At index 3 half a step below the mean of the orders of positions and velocities.
    assert effective_order(nodes, order, 3) == (order + nodes) / 2.0 - 0.5


def test_the_share_of_newtons_method_is_above_round_off() -> None:
    assert newton_share(1e-4, 1.0, 1) == pytest.approx(0.01)
    assert newton_share(1e-4, 0.01, 1) == pytest.approx(0.03)
    assert newton_share(1e-4, 100.0, 1) == newton_share(1e-4, 100.0, 0) == pytest.approx(1e-4)
    assert newton_share(1e-4, 1.0, 3) < newton_share(1e-4, 1.0, 2) < newton_share(1e-4, 1.0, 1)
    for index in (1, 2, 3):
        left = newton_share(1e-12, 1.0, index) * 1e-12
        assert left >= 10.0 * np.finfo(float).eps


# --- weights ------------------------------------------------------------------------------------------------


def test_weights_are_those_of_the_tolerance_and_the_index() -> None:
    problem, h, u = HessenbergIndex3(), 0.1, np.array([2.0, -1.0, 0.0, 4.0, 5.0])
    tolerance = Tolerance.checked(problem, 1e-3, [1e-4, 1e-5, 1e-6, 1e-7, 1e-8])
    weights = tolerance.weights_of(problem, 10.0)
    out = weights.of_stages(u[None], h)
    plain = 1.0 / (10.0 * (np.array([1e-4, 1e-5, 1e-6, 1e-7, 1e-8]) + 1e-3 * np.abs(u)))
    # Eight times the scale of time, which is 1 before a run has begun.
    np.testing.assert_allclose(out, plain * (h / 8.0) ** np.array([0, 0, 1, 1, 2]), rtol=1e-14)
    out = weights.of_stages(u[None], 0.0)
    np.testing.assert_allclose(out, plain * [1.0, 1.0, 0.0, 0.0, 0.0], rtol=1e-14)


def test_weights_of_what_is_left_out_are_0() -> None:
    problem = HessenbergIndex1()
    weights = Tolerance.checked(problem, 1e-3, None, ("y2",)).weights_of(problem, 1.0)
    out = weights.of_stages(np.ones((1, 3)), 0.1)
    np.testing.assert_allclose(out, [500.0, 0.0, 500.0])


def test_a_weight_without_a_tolerance_is_finite() -> None:
    problem = HessenbergIndex1()
    weights = Tolerance.checked(problem, 1e-3, 0.0).weights_of(problem, 1.0)
    assert np.isfinite(weights.of_stages(np.zeros((1, 3)), 0.1)).all()


def test_the_smallest_tolerance_is_allowed() -> None:
    assert Tolerance.checked(HessenbergIndex1(), SMALLEST_RTOL).rtol == SMALLEST_RTOL


# --- step sizes ---------------------------------------------------------------------------------------------

ORDER = 4


def good(error: float, **known: Any) -> Outcome:
    settings = {"order": ORDER, "effort": 0.0, "rate": 0.0, "reason": "", "worst": 0}
    return Outcome(solved=True, error=error, **{**settings, **known})


def about(value: float) -> Any:
    return pytest.approx(value)


def unsolved(rate: float) -> Outcome:
    return good(math.inf, rate=rate)._replace(solved=False, reason="diverged")


@pytest.mark.parametrize("error", [0.3, 0.03, 0.003])
def test_the_first_step_is_followed_by_one_of_the_tolerance(error: float) -> None:
    accepted, size = StepSizes().take(good(error), 0.1)
    assert accepted and size == pytest.approx(0.1 * steps_ahead.SAFETY * error ** (-1.0 / ORDER))


def test_growth_is_limited() -> None:
    assert StepSizes().take(good(1e-9), 0.1) == (True, about(0.1 * steps_ahead.LARGEST_FACTOR))


def test_a_size_that_would_hardly_grow_is_kept() -> None:
    barely, clearly = (
        (steps_ahead.SAFETY / factor) ** ORDER
        for factor in (steps_ahead.KEPT_GROWTH - 0.01, steps_ahead.KEPT_GROWTH + 0.01)
    )
    assert StepSizes().take(good(barely), 0.1) == (True, 0.1)
    assert StepSizes().take(good(clearly), 0.1)[1] > 0.12
    # It shrinks where it must.
    assert StepSizes().take(good(1.0), 0.1)[1] == pytest.approx(0.09)


def test_costly_factors_keep_a_size_that_would_not_grow_much() -> None:
    error = (steps_ahead.SAFETY / (steps_ahead.KEPT_GROWTH_OF_COSTLY - 0.1)) ** ORDER
    assert StepSizes().take(good(error, costly=1.0), 0.1) == (True, 0.1)
    assert StepSizes().take(good(error), 0.1) == (True, about(0.19))
    # They are not kept where the iterations have become slow.
    assert StepSizes().take(good(error, costly=1.0, rate=0.31), 0.1)[1] == 0.1
    assert StepSizes().take(good(1e-9, costly=1.0), 0.1) == (True, about(0.1 * steps_ahead.LARGEST_FACTOR))


def test_a_rejection_makes_growth_wary_where_factors_are_costly() -> None:
    for costly, factor in ((0.0, 1.0), (1.0, steps_ahead.GROWTH_AFTER_OVERSHOOT)):
        sizes = StepSizes()
        for error in (1.0, 2.0, 0.2):
            sizes.take(good(error, costly=costly), 0.1)
        found = sizes.take(good(1e-9, costly=costly), 0.1)[1]
        assert found == about(0.1 * factor * steps_ahead.LARGEST_FACTOR)


def test_iterations_make_steps_shorter() -> None:
    size = StepSizes().take(good(1e-3, effort=1.0), 0.1)[1]
    assert size == pytest.approx(0.1 * steps_ahead.SAFETY * 0.7 * 1e-3 ** (-1.0 / ORDER))
    assert StepSizes().take(good(1e-9, rate=0.15), 0.1)[1] == pytest.approx(
        0.1 * steps_ahead.WANTED_CONTRACTION / 0.15
    )
    # Slow iterations do not shorten a step that succeeded with them.
    assert StepSizes().take(good(1e-9, rate=0.6), 0.1) == (True, 0.1)


def test_errors_that_grow_are_foreseen() -> None:
    # Hairer, Wanner II (1996), eq. (IV.8.25).
    sizes = StepSizes()
    sizes.take(good(0.05), 0.1)
    size = sizes.take(good(0.5), 0.11)[1]
    assert size == pytest.approx(0.11 * steps_ahead.SAFETY * 0.5**-0.25 * (0.11 / 0.1) * (0.05 / 0.5) ** 0.25)
    assert size < 0.11 * steps_ahead.SAFETY * 0.5**-0.25


def test_a_rejected_step_is_repeated_shorter_and_followed_by_none_that_is_longer() -> None:
    sizes = StepSizes()
    sizes.take(good(0.5), 0.1)
    accepted, again = sizes.take(good(3.0), 0.1)
    assert not accepted and again == pytest.approx(0.1 * steps_ahead.SAFETY * 3.0**-0.25)
    assert sizes.take(good(1e-6), again) == (True, again)
    assert sizes.take(good(1e-6), again)[1] > again


@pytest.mark.parametrize("error", [1e9, 1e3, 1.0001])
def test_shrinking_is_limited(error: float) -> None:
    sizes = StepSizes()
    sizes.take(good(0.5), 0.1)
    accepted, again = sizes.take(good(error), 0.1)
    assert (
        not accepted
        and 0.1 * steps_ahead.SMALLEST_FACTOR * (1.0 - 1e-12) <= again <= 0.1 * steps_ahead.SAFETY
    )


def test_a_first_step_without_an_estimate_to_trust_is_a_tenth() -> None:
    assert StepSizes().take(good(5.0), 0.1) == (False, about(0.01))
    sizes = StepSizes()
    sizes.take(good(0.5), 0.1)
    assert sizes.take(good(math.inf), 0.1) == (False, about(0.01))
    assert sizes.take(good(math.nan), 0.1) == (False, about(0.01))


@pytest.mark.parametrize(("rate", "factor"), [(0.0, 0.5), (0.5, 0.6), (0.31, 0.7), (30.0, 0.1)])
def test_iterations_that_fail_shorten_by_their_rate(rate: float, factor: float) -> None:
    assert StepSizes().take(unsolved(rate), 0.1) == (False, about(0.01))
    sizes = StepSizes()
    sizes.take(good(0.5), 0.1)
    assert sizes.take(unsolved(rate), 0.1) == (False, about(0.1 * factor))


def test_where_iterations_failed_sizes_come_back_slowly() -> None:
    sizes = StepSizes()
    sizes.take(good(0.5), 1.0)
    failed, size = sizes.take(unsolved(0.6), 1.0)
    assert not failed and size == pytest.approx(0.5)
    limit, growth = 0.5, steps_ahead.LIMIT_GROWTH
    for _ in range(4):
        size = sizes.take(good(1e-6), size)[1]
        limit, growth = limit * growth, growth * steps_ahead.LIMIT_GROWTH
        assert size <= limit * (1.0 + 1e-12)
    assert size > 0.5
    for _ in range(20):
        size = sizes.take(good(1e-6), size)[1]
    assert size > 10.0
    sizes.take(unsolved(0.6), size)
    sizes.forget()
    assert sizes.limit == math.inf


def test_behind_a_kink_the_tolerance_of_the_user_counts() -> None:
    slack = 100.0
    sizes = StepSizes()
    sizes.take(good(0.005, slack=slack), 1.0)
    # As the last step foretells, or somewhat more: smooth.
    assert sizes.take(good(0.005 * 0.9 * steps_ahead.KINK_RATIO, slack=slack), 1.0)[0]
    sizes.take(good(0.005, slack=slack), 1.0)
    # A kink, where the estimate of a lower order is no bound.
    assert not sizes.take(good(0.005 * 1.1 * steps_ahead.KINK_RATIO, slack=slack), 1.0)[0]
    for _ in range(int(steps_ahead.WARY_STEPS)):
        assert not sizes.take(good(0.02, slack=slack), 1.0)[0]
        assert sizes.take(good(0.005, slack=slack), 1.0)[0]
    assert sizes.take(good(0.02, slack=slack), 1.0)[0]


def test_longer_steps_with_larger_errors_are_no_kink() -> None:
    sizes = StepSizes()
    sizes.take(good(1e-3, slack=100.0), 1.0)
    assert sizes.take(good(1e-3 * 4.0**ORDER, slack=100.0), 4.0)[0]
    assert sizes.rough == 0


def test_a_method_without_slack_takes_a_kink_as_it_is() -> None:
    sizes = StepSizes()
    sizes.take(good(0.005), 1.0)
    assert sizes.take(good(0.9), 1.0)[0]


class Undetermined(ds.ProblemDAE):
    """Two equations that say the same of y, and none that says what z is."""

    index, names, equation_names = 1, ("x", "y", "z"), ("motion", "law", "law again")

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 2, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] - u[1], u[1] - u[0], 2.0 * u[1] - 2.0 * u[0]]

    def u_exact(self, t: float) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("options", [{}, {"sweeper": "esdirk43", "rtol": 1e-5}, {"dt": 0.1}])
def test_an_unknown_that_no_equation_determines_is_named(options: dict[str, Any]) -> None:
    solution = ds.solve(Undetermined(), u0=[1.0, 1.0, 0.0], t_end=1.0, trace=False, **options)
    assert not solution.success
    assert "singular" in solution.message
    assert re.search(r"it does not determine 'z\b.*\(equation 'law\b", solution.message)


def test_a_solution_that_is_left_to_be_implemented_is_none() -> None:
    with pytest.raises(ds.InputError, match="u_exact is not implemented; pass an initial value u0"):
        ds.solve(Undetermined(), t_end=1.0)


@pytest.mark.parametrize("seed", [1, 8, 9])
def test_a_potential_between_an_inductor_and_a_diode_that_opens_is_held_at_the_end_of_each_step(
    seed: int,
) -> None:
    # The potential e follows the source within microseconds while the diode is closed: e = s - L i', whose
    # error is that of i' at the end of a step.
    bounds = [[0.05, 0.5, 0.01, 1e-3, 0.5], [2.0, 20.0, 0.1, 1e-2, 2.0]]
    L, g, s, least, w = np.exp(np.random.default_rng(seed).uniform(*np.log(bounds)))

    def current(e: Any) -> Any:
        return g * (e + np.sqrt(e * e + s)) + least * e

    def rate(t: float, e: Vector) -> Vector:
        return np.asarray((12.0 * np.sin(w * t) - e) / L / (g * (1.0 + e / np.sqrt(e * e + s)) + least))

    found = ds.solve(
        lambda t, u, du: [L * du[1] - (12.0 * np.sin(w * t) - u[0]), u[1] - current(u[0])],
        u0=[0.5, float(current(0.5))],
        t_end=10.0,
        rtol=1e-8,
    )
    exact = solve_ivp(rate, (0.0, 10.0), [0.5], method="Radau", rtol=1e-12, atol=1e-12, t_eval=found.t).y[0]
    assert found.success
    # Twice what is allowed: rtol times the size in the run, or twenty times the value where that is more.
    assert (np.abs(found.u[:, 0] - exact) <= 2e-8 * np.maximum(24.0, 20.0 * np.abs(exact))).all()


def test_what_rounding_leaves_of_multipliers_is_not_sought_in_every_step_anew() -> None:
    # At 1e-9 rounding in the forces of the joints, which grows like 1 / h, is above their tolerance.
    def iterations(rtol: float) -> float:
        stats = ds.solve("slider-crank", rtol=rtol, t_end=0.05).stats
        return float(stats["newton"] / (stats["steps"] + stats["rejected"]))

    assert iterations(1e-9) <= iterations(1e-8) + 2.0
