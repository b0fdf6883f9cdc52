"""Linear multistep methods: coefficients, growth, orders, starting values, correctors, breaks of the past."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from fractions import Fraction
from math import factorial
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.sweepers_for import sweepers_for
from numpy.typing import NDArray
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
from scipy import sparse

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.errors import InputError
from dae_sdc.run.convergence import convergence
from dae_sdc.run.description import describe
from dae_sdc.sweepers.linear_multistep import MULTISTEP, MultistepMethod, adams_bashforth, adams_moulton, bdf
from dae_sdc.sweepers.multistep import MultistepDAE, multistep
from dae_sdc.sweepers.sdc import SWEEPERS

Vector = NDArray[np.float64]

ALL = list(MULTISTEP)
BDF = [f"bdf{k}" for k in range(1, 7)]
IMPLICIT = [name for name, method in MULTISTEP.items() if not method.explicit]
ORDER = 0.2
"""Largest distance of a measured order from that of theory."""


class Rotation(ds.ProblemDAE):
    """Two unknowns on a circle, with a mass matrix that depends on them; the solution is (cos t, sin t)."""

    index = 0

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 0, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        x, y = u
        square = x * x + y * y
        first, second = du[0] + y * square, du[1] - x * square
        return [(2.0 + x * y) * first + 0.5 * second, 0.3 * first + second]

    def u_exact(self, t: float) -> Any:
        return [np.cos(t), np.sin(t)]

    def du_exact(self, t: float) -> Any:
        return [-np.sin(t), np.cos(t)]


class Oscillator(ds.ProblemDAE):
    """y'' = -k y from y = 1 at rest."""

    index = 0
    interval: ClassVar[Any] = (0.0, 5.0)
    dt = 0.01

    def __init__(self, k: float = 1500.0, **settings: Any) -> None:
        super().__init__(2, 0, **settings)
        self._makeAttributeAndRegister("k", localVars=locals())

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] - u[1], du[1] + self.k * u[0]]

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        return np.array([[1.0, -c], [c * self.k, 1.0]])

    def u_exact(self, t: float) -> Any:
        w = np.sqrt(self.k)
        return [np.cos(w * t), -w * np.sin(w * t)]


# --- records ------------------------------------------------------------------------------------------------

# E. Hairer, S. P. Norsett, G. Wanner, Solving ODEs I, 2nd ed., Sect. III.1, table 1.1 and eqs. (1.5), (1.8),
# (1.22'), the newest value first.
COEFFICIENTS = {
    "bdf1": ("1 -1", "1 0"),
    "bdf2": ("3/2 -2 1/2", "1 0 0"),
    "bdf3": ("11/6 -3 3/2 -1/3", "1 0 0 0"),
    "bdf4": ("25/12 -4 3 -4/3 1/4", "1 0 0 0 0"),
    "bdf5": ("137/60 -5 5 -10/3 5/4 -1/5", "1 0 0 0 0 0"),
    "bdf6": ("147/60 -6 15/2 -20/3 15/4 -6/5 1/6", "1 0 0 0 0 0 0"),
    "explicit-euler": ("1 -1", "0 1"),
    "adams-bashforth-2": ("1 -1 0", "0 3/2 -1/2"),
    "adams-bashforth-3": ("1 -1 0 0", "0 23/12 -16/12 5/12"),
    "adams-bashforth-4": ("1 -1 0 0 0", "0 55/24 -59/24 37/24 -9/24"),
    "adams-moulton-2": ("1 -1", "1/2 1/2"),
    "adams-moulton-3": ("1 -1 0", "5/12 8/12 -1/12"),
    "adams-moulton-4": ("1 -1 0 0", "9/24 19/24 -5/24 1/24"),
}

# The same, Sect. III.2, tables 2.1 and 2.2; of BDF -1/(k + 1).
ERROR_CONSTANTS = {
    **{f"bdf{k}": Fraction(-1, k + 1) for k in range(1, 7)},
    "explicit-euler": Fraction(1, 2),
    "adams-bashforth-2": Fraction(5, 12),
    "adams-bashforth-3": Fraction(3, 8),
    "adams-bashforth-4": Fraction(251, 720),
    "adams-moulton-2": Fraction(-1, 12),
    "adams-moulton-3": Fraction(-1, 24),
    "adams-moulton-4": Fraction(-19, 720),
}


@pytest.mark.parametrize("name", ALL)
def test_coefficients_and_error_constants_are_those_of_the_books(name: str) -> None:
    method = MULTISTEP[name]
    for mine, text in zip((method.alpha, method.beta), COEFFICIENTS[name], strict=True):
        assert mine == pytest.approx([float(Fraction(part)) for part in text.split()], rel=1e-15, abs=1e-15)
    assert method.error_constant == pytest.approx(float(ERROR_CONSTANTS[name]), rel=1e-11)
    assert method.steps == len(COEFFICIENTS[name][0].split()) - 1


@pytest.mark.parametrize("name", ["bdf3", "adams-moulton-3"])
def test_the_error_constant_does_not_depend_on_a_factor_of_the_formula(name: str) -> None:
    method = MULTISTEP[name]
    scaled = replace(method, alpha=2.5 * method.alpha, beta=2.5 * method.beta)
    assert scaled.error_constant == pytest.approx(method.error_constant, rel=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_the_factor_of_a_step_is_exp_z_up_to_the_order(name: str) -> None:
    method = MULTISTEP[name]
    z = 0.02 * np.exp(0.7j)
    power = method.order + 1
    # sum alpha for the principal root: the local error of u' = lambda u is C z^(p+1) u, normed by sum beta.
    leading = method.error_constant * z**power
    error = np.exp(z) - method.growth(z)
    assert abs(error - leading) <= 0.2 * abs(leading) + 1e-13


@pytest.mark.parametrize("name", ALL)
def test_a_record_says_what_it_is_and_survives_a_pickle(name: str) -> None:
    method, cls = MULTISTEP[name], SWEEPERS[name]
    assert method.name == name and cls.method is method and cls.__name__ == method.class_name
    again = pickle.loads(pickle.dumps(method))
    for field in fields(method):
        assert np.array_equal(getattr(again, field.name), getattr(method, field.name)) or dict(
            getattr(again, field.name)
        ) == dict(getattr(method, field.name))
    assert not again.alpha.flags.writeable
    assert pickle.loads(pickle.dumps(cls)) is cls
    text = ds.info(name)
    assert f"order {method.order}" in text and method.reference.split(",")[0] in text


def test_the_registry_holds_what_the_studies_need() -> None:
    assert set(ALL) == set(COEFFICIENTS)
    assert {name for name in ALL if MULTISTEP[name].explicit} == {
        "explicit-euler",
        *(f"adams-bashforth-{k}" for k in (2, 3, 4)),
    }
    for name in BDF:
        k = MULTISTEP[name].order
        assert dict(MULTISTEP[name].orders) == {0: (k, k), 1: (k, k), 2: (k, k), 3: (k, k, k)}


def test_bdf_of_seven_steps_is_refused_for_a_root_outside_the_circle() -> None:
    # The largest root of its rho is known to have modulus 1.0222 (Cryer 1972).
    with pytest.raises(InputError, match=r"'bdf7': it is not zero-stable: a root .* modulus 1\.02"):
        bdf(7)


def record(**changes: Any) -> MultistepMethod:
    given = {
        "name": "own-two-step",
        "class_name": "OwnTwoStep",
        "alpha": [1.5, -2.0, 0.5],
        "beta": [1.0, 0.0, 0.0],
        "order": 2,
        "orders": {0: (2,)},
        "reference": "a book",
    }
    return MultistepMethod(**{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Own Method"}, "lower-case"),
        ({"class_name": "2step"}, "identifier"),
        ({"reference": " "}, "reference"),
        ({"alpha": [1.5, -2.0]}, "same shape"),
        ({"alpha": ["a", 1, 2]}, "not an array of numbers"),
        ({"alpha": [np.nan, -2.0, 0.5]}, "not finite"),
        ({"alpha": [0.0, 1.0, -1.0]}, "no equation"),
        ({"alpha": [1.0, -1.0, 0.0], "beta": [0.5, 0.5, 0.0]}, "leave the oldest step out"),
        ({"alpha": [1.5, -2.0, 0.4]}, r"misses order 2: t\^0"),
        ({"order": 3}, r"misses order 3: t\^3"),
        ({"order": 1, "orders": {0: (1,)}}, "higher than 1"),
        ({"order": 0}, "at least 1"),
        # Order 3, rho = (z - 1)(z + 5), Dahlquist's example.
        ({"alpha": [1, 4, -5], "beta": [0, 4, 2], "order": 3, "orders": {}}, "not zero-stable: a root"),
        # rho = (z - 1)(z + 1)^2.
        (
            {"alpha": [1, 1, -1, -1], "beta": [0, 4 / 3, 4 / 3, 4 / 3], "order": 1, "orders": {}},
            "double root",
        ),
        ({"orders": {1: (2,)}}, "orders must map"),
        ({"orders": {4: (2,)}}, "orders must map"),
        ({"orders": {0: (0,)}}, "positive or None"),
        ({"alpha": [1, -1, 0], "beta": [0, 1.5, -0.5], "orders": {1: (2, 2)}}, "for index 0"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused_in_one_line(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        record(**changes)
    assert "\n" not in str(caught.value)
    assert "'" in str(caught.value)


@pytest.mark.parametrize("make", [bdf, adams_bashforth, adams_moulton])
def test_methods_without_steps_are_refused(make: Any) -> None:
    with pytest.raises(InputError, match="got 0"):
        make(0)


# --- growth -------------------------------------------------------------------------------------------------

# Growth over 500 steps of the radial mode, z = i h sqrt k with h = 0.01, by spring constant.
GROWTH = {
    10: (1.28, 1.000, 1.000, 1.000, 1.000, 1.000),
    100: (12.0, 0.988, 1.012, 1.000, 1.000, 1.000),
    500: (2.0e5, 0.757, 1.347, 1.02, 0.991, 0.999),
    1000: (2.2e10, 0.367, 3.06, 1.173, 0.938, 0.984),
    1500: (1.5e15, 0.129, 10.35, 1.70, 0.830, 0.927),
}
GROWING = ("explicit-euler", "bdf2", "bdf3", "bdf4", "bdf5", "bdf6")


@pytest.mark.parametrize("k", GROWTH)
def test_the_growth_of_a_fast_oscillation_is_that_of_linear_theory(k: int) -> None:
    for name, known in zip(GROWING, GROWTH[k], strict=True):
        factor = abs(MULTISTEP[name].growth(1j * 0.01 * np.sqrt(k))) ** 500
        assert factor == pytest.approx(known, rel=0.1), name


@pytest.mark.parametrize(
    ("name", "k"), [*((name, 1500) for name in ALL), *((name, 100) for name in ("bdf2", "bdf4"))]
)
def test_a_run_grows_as_its_characteristic_root_says(name: str, k: int) -> None:
    done = ds.solve(Oscillator, sweeper=name, params={"k": float(k)})
    size = np.hypot(done.u[:, 0], done.u[:, 1] / np.sqrt(k))
    factor = abs(MULTISTEP[name].growth(1j * 0.01 * np.sqrt(k)))
    # Multistep methods keep the eigenvectors of a linear equation, so that the amplitude has no ripple once
    # the other roots have died away; of BDF6 the slowest has modulus 0.86.
    assert size[-1] / size[150] == pytest.approx(factor**350, rel=1e-4)
    known = dict(zip(GROWING, GROWTH[k], strict=True)).get(name)
    if known is not None:
        assert size[-1] / size[0] == pytest.approx(known, rel=0.1)


# --- one step -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_every_step_satisfies_the_formula_and_the_equations(name: str) -> None:
    method = MULTISTEP[name]
    done = ds.solve(Rotation, sweeper=name, dt=0.05, t_end=1.0, newton_tol=1e-13)
    assert len(done.t) == 21
    k, P = method.steps, Rotation()
    du = done.du.copy()
    du[0] = P.du_exact(0.0)
    for n in range(k, 21):
        past = slice(n - k, n + 1)
        left, right = method.alpha @ done.u[past][::-1], 0.05 * method.beta @ du[past][::-1]
        assert left == pytest.approx(right, abs=1e-13)
    for t, u, slope in zip(done.t[1:], done.u[1:], done.du[1:], strict=True):
        assert np.abs(P.eval_f(P.state(u), P.state(slope), t)).max() < 1e-11
    # The values before come from a method that is far more exact.
    for n in range(1, k):
        assert done.u[n] == pytest.approx(P.u_exact(done.t[n]), abs=0.05 ** (method.order + 1))


@pytest.mark.parametrize("name", BDF)
def test_matrices_are_kept_over_the_steps(name: str) -> None:
    done = ds.solve(Oscillator, sweeper=name)
    # One of the formula, and those of the starting values: coupled stages, and Euler steps between them.
    starting = sum(done.per_step["factorization"][1 : MULTISTEP[name].steps])
    assert done.stats["factorization"] == starting + 1


# --- orders -------------------------------------------------------------------------------------------------

# End of the run and numbers of steps; second-order errors and first-order ones need more.
WINDOWS: dict[str, tuple[float, tuple[int, ...]]] = {
    "hessenberg-1": (3.0, (60, 80, 120)),
    "hessenberg-2": (1.0, (60, 80, 110)),
    "hessenberg-3": (2.5, (100, 130, 180)),
    "pendulum": (1.0, (160, 200, 260)),
    "simple": (1.5, (30, 40, 60)),
}
FINER = {1: 4, 2: 2}
"""Step sizes of lower orders are so many times shorter, and half of the interval is enough for them."""


def check_orders(problem: Any, name: str, end: float, counts: tuple[int, ...], expected: Any) -> None:
    """Compare the slopes of the errors of all groups with the orders expected."""
    more = FINER.get(MULTISTEP[name].order, 1)
    dts = [end / (more * n) for n in counts]
    data = convergence(problem, sweeper=name, dt=dts, t_end=end / min(more, 2)).data
    for group, order in zip(dict.fromkeys(data["group"]), expected, strict=False):
        rows = data[data["group"] == group]
        line = np.polyfit(np.log(rows["dt"]), np.log(rows["error"]), 1)
        assert line[0] == pytest.approx(order, abs=ORDER), (group, rows["error"])
        assert rows["slope"][0] == pytest.approx(line[0])
        assert rows["expected"][0] == order


# The multiplier of hessenberg-3 is at the round-off of a second difference, eps / dt^2, before order 6 shows.
ORDERS = [
    (name, problem) for name in BDF for problem in WINDOWS if (name, problem) != ("bdf6", "hessenberg-3")
]


@pytest.mark.parametrize(("name", "problem"), ORDERS)
def test_all_components_of_daes_have_the_order_of_the_method(name: str, problem: str) -> None:
    index = ds.PROBLEMS[problem].index
    assert index is not None
    check_orders(problem, name, *WINDOWS[problem], MULTISTEP[name].orders[index])


def free_motion_on_a_circle(t: float, u: Any, du: Any) -> Any:
    x, y, vx, vy, multiplier = u
    forces = du[2] + multiplier * x, du[3] + multiplier * y
    return [du[0] - vx, du[1] - vy, *forces, x**2 + y**2 - 1.0]


@pytest.mark.parametrize(("k", "order", "factor"), [(2, 3, -1.0), (3, 3, 1.0), (4, 5, 4.0 / 3.0)])
def test_the_multiplier_of_even_turning_has_an_odd_order(k: int, order: int, factor: float) -> None:
    """The error of a formula of even k is an odd power of i dt there, which turns and does not brake."""
    start = {"x": 1.0, "y": 0.0, "vx": 0.0, "vy": 1.0, "lambda": 1.0}
    changes = []
    for dt in (0.1, 0.05, 0.025):
        u = ds.solve(free_motion_on_a_circle, u0=start, sweeper=f"bdf{k}", dt=dt, t_end=2.0).u
        changes.append(u[-1, 4] - u[len(u) // 2, 4])
    # The real part of sum_j (1 - exp(-i dt))^j / (j dt), four times in the time 1.
    assert changes[-1] == pytest.approx(factor * 0.025**order, rel=0.05)
    assert np.log2(changes[-2] / changes[-1]) == pytest.approx(order, abs=ORDER)


@pytest.mark.parametrize("name", ALL)
def test_ordinary_equations_are_solved_to_the_order_of_the_method(name: str) -> None:
    check_orders(Rotation, name, 4.0, (80, 100, 140), MULTISTEP[name].orders[0])


def pendulum_ends(name: str, k: float, dts: tuple[float, ...], **settings: Any) -> tuple[Vector, Vector]:
    """End values of the elastic pendulum by step size, and those of its table."""
    params = {"k": k}
    ends = [ds.solve("elastic-pendulum", sweeper=name, dt=dt, params=params, **settings).u[-1] for dt in dts]
    return np.array(ends), np.array(ds.PROBLEMS["elastic-pendulum"](k=k).u_exact(5.0))


@pytest.mark.parametrize("name", ["bdf3", "bdf4"])
@pytest.mark.parametrize("start", ["collocation", "explicit-euler"])
def test_starting_values_by_the_euler_method_cost_all_orders_but_two(name: str, start: str) -> None:
    ends, exact = pendulum_ends(name, 10.0, (0.02, 0.01), starting_procedure=start)
    error = np.abs(ends - exact).max(axis=1)
    order = 2.0 if start == "explicit-euler" else MULTISTEP[name].order
    assert np.log2(error[0] / error[1]) == pytest.approx(order, abs=ORDER)


@pytest.mark.parametrize("name", [name for name in ALL if MULTISTEP[name].order > 1])
def test_the_end_of_the_elastic_pendulum_is_off_by_the_error_of_the_method(name: str) -> None:
    ends, exact = pendulum_ends(name, 10.0, (0.02, 0.01), newton_tol=1e-13)
    # Two runs tell their error, by the order; the table has to be that far away and no further.
    estimate = (ends[0] - ends[1]) / (1.0 - 2.0 ** -MULTISTEP[name].order)
    error = ends[0] - exact
    assert np.abs(error - estimate).max() < 0.25 * np.abs(error).max()
    assert np.abs(ends[1] - exact).max() < np.abs(error).max()


# Steps of BDF6 short enough for the stiffer springs are 5,000 to 14,000; those of seven stages are long.
@pytest.mark.parametrize(
    ("name", "k", "dt"),
    [
        *(("bdf6", 1.0, 0.01), ("bdf6", 10.0, 0.004)),
        *(("radau-iia-13", k, dt) for k, dt in ((100.0, 0.04), (1000.0, 0.02), (1500.0, 0.02))),
    ],
)
def test_ten_digits_of_the_elastic_pendulum_are_right(name: str, k: float, dt: float) -> None:
    ends, exact = pendulum_ends(name, k, (dt,), newton_tol=1e-14)
    # Ten digits: the stiffest springs end with a velocity near 4.
    assert np.abs(ends[0] - exact).max() < 2e-10 * np.abs(exact).max()


@pytest.mark.parametrize("name", ["bdf2", "bdf4", "adams-moulton-4", "explicit-euler"])
def test_a_run_never_takes_a_sliver_of_a_step(name: str) -> None:
    # 500 times 0.01, added up, is less than 5 in floating point.
    assert sum([0.01] * 500) < 5.0
    done = ds.solve("elastic-pendulum", sweeper=name, dt=0.01, t_end=5.0)
    assert done.stats["steps"] == 500 and len(done.t) == 501
    assert np.diff(done.t) == pytest.approx(0.01, rel=1e-9)


@pytest.mark.parametrize("name", BDF)
@pytest.mark.parametrize("index", [1, 2])
def test_between_the_steps_the_order_is_that_at_their_ends_up_to_four(name: str, index: int) -> None:
    problem, end = f"hessenberg-{index}", 1.0
    times = np.linspace(0.5, 1.0, 41)
    exact = np.array([ds.PROBLEMS[problem]().u_exact(t) for t in times])
    count = 32 * FINER.get(MULTISTEP[name].order, 1)

    def error(steps: int) -> Any:
        done = ds.solve(problem, sweeper=name, dt=end / steps, t_end=end, newton_tol=1e-13)
        return np.abs(done(times) - exact).max(axis=0)

    assert (np.log2(error(count) / error(2 * count)) >= min(MULTISTEP[name].order, 4) - 0.3).all()


# --- correctors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IMPLICIT)
@pytest.mark.parametrize("problem", [Rotation, Oscillator])
def test_both_correctors_solve_the_same_equations(name: str, problem: Any) -> None:
    newton = ds.solve(problem, sweeper=name, dt=0.01, t_end=1.0)
    fixed = ds.solve(problem, sweeper=name, dt=0.01, t_end=1.0, corrector="fixed-point")
    assert newton.success and fixed.success
    scale = np.abs(newton.u).max(axis=0)
    assert (np.abs(fixed.u - newton.u).max(axis=0) <= 1e-7 * scale).all()
    # The matrix of Newton's method is that of the oscillator, exactly.
    assert problem is Rotation or fixed.stats["newton"] > newton.stats["newton"]


def test_the_iterations_are_those_that_the_contraction_asks_for() -> None:
    # In an oscillation errors contract by c sqrt k, here 0.258, with c = 2/3 h of BDF2: 17 iterations for ten
    # digits, less what the first guess has already; Newton's matrix is exact.
    fixed = ds.solve(Oscillator, sweeper="bdf2", corrector="fixed-point")
    contraction = 2.0 / 3.0 * 0.01 * np.sqrt(1500.0)
    most = np.log(1e-11) / np.log(contraction)
    assert 0.5 * most < fixed.stats["newton"] / 500 < 1.2 * most
    assert fixed.stats["factorization"] <= 4


@pytest.mark.parametrize("name", ["bdf1", "bdf3", "adams-moulton-2"])
def test_where_functional_iteration_diverges_the_message_has_time_and_contraction(name: str) -> None:
    method = MULTISTEP[name]
    c = 0.1 * method.beta[0] / method.alpha[0]
    done = ds.solve(Oscillator, sweeper=name, dt=0.1, corrector="fixed-point")
    assert not done.success and "\n" not in done.message
    assert f"did not converge at t={(method.steps) * 0.1:g}" in done.message
    assert f"contraction {c * np.sqrt(1500.0):.2g} " in done.message
    assert "reduce dt" in done.message and "newton" in done.message
    assert ds.solve(Oscillator, sweeper=name, dt=0.1).success


def test_a_slow_contraction_is_not_taken_for_convergence() -> None:
    # 0.97 an iteration: the changes are thirty times smaller than the error.
    k = (0.97 / 0.01) ** 2
    done = ds.solve(Oscillator, sweeper="bdf1", corrector="fixed-point", params={"k": k})
    assert "contraction 0.97 " in done.message


def test_a_singular_mass_matrix_is_named() -> None:
    class Singular(Rotation):
        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [du[0] + u[1], u[1] - np.sin(t)]

    for settings in ({"corrector": "fixed-point"}, {"starting_procedure": "explicit-euler"}):
        done = ds.solve(Singular, sweeper="bdf2", dt=0.1, t_end=0.5, trace=False, **settings)
        assert not done.success and "singular" in done.message and "\n" not in done.message


class Rod(ds.ProblemDAE):
    """Heat in a rod of 30 points, from its ends."""

    index = 0

    def __init__(self, as_sparse: bool = True, **settings: Any) -> None:
        super().__init__(30, 0, **settings)
        self._makeAttributeAndRegister("as_sparse", localVars=locals())
        self.matrix = sparse.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(30, 30), format="csc")

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        heat = self.matrix @ np.asarray(u)
        heat[0] += np.sin(t)
        return np.asarray(du) - 4.0 * heat

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        matrix = sparse.identity(30, format="csc") - 4.0 * c * self.matrix
        return matrix if self.as_sparse else matrix.toarray()

    def u_exact(self, t: float) -> Any:
        return np.zeros(30)


@pytest.mark.parametrize("name", ["bdf3", "adams-moulton-3", "adams-bashforth-2"])
def test_sparse_matrices_and_iterative_solvers_give_the_same(name: str) -> None:
    settings: dict[str, Any] = {"sweeper": name, "dt": 0.02, "t_end": 0.4, "newton_tol": 1e-12}
    dense = ds.solve(Rod, params={"as_sparse": False}, **settings)
    others = [{}, {"linear_solver": "gmres"}]
    if not MULTISTEP[name].explicit:
        others.append({"corrector": "fixed-point"})
    for other in others:
        done = ds.solve(Rod, **settings, **other)
        assert done.success, done.message
        assert done.u == pytest.approx(dense.u, abs=1e-10)


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["hessenberg-1", "hessenberg-2", "pendulum"])
def test_methods_that_use_old_derivatives_refuse_daes(problem: str) -> None:
    able = sweepers_for(problem)
    for name in ALL:
        assert (name in able) == name.startswith("bdf")
        if name not in able:
            with pytest.raises(InputError, match=f"'{name}' is for ordinary") as caught:
                ds.solve(problem, sweeper=name)
            assert "\n" not in str(caught.value)
    assert set(ALL) <= set(sweepers_for("elastic-pendulum"))


@pytest.mark.parametrize(
    ("problem", "settings", "message"),
    [
        (
            "hessenberg-1",
            {"sweeper": "bdf2", "corrector": "fixed-point"},
            "corrector='fixed-point' is for",
        ),
        (
            "hessenberg-2",
            {"sweeper": "bdf3", "starting_procedure": "explicit-euler"},
            "starting_procedure='explicit-euler' is for ord",
        ),
        ("elastic-pendulum", {"sweeper": "bdf2", "corrector": "chord"}, "unknown corrector 'chord'"),
        (
            "elastic-pendulum",
            {"sweeper": "bdf2", "starting_procedure": "euler"},
            "available: collocation, explicit-euler",
        ),
        (
            "elastic-pendulum",
            {"sweeper": "bdf1", "starting_procedure": "collocation"},
            "no effect on 'bdf1': starting_procedure",
        ),
        ("elastic-pendulum", {"sweeper": "adams-bashforth-2", "corrector": "newton"}, "no effect.*corrector"),
        (
            "elastic-pendulum",
            {"sweeper": "radau-iia-5", "starting_procedure": "collocation"},
            "no effect.*procedure",
        ),
        ("elastic-pendulum", {"sweeper": "bdf2", "nodes": 3}, "multistep method 'bdf2': nodes"),
        ("elastic-pendulum", {"sweeper": "bdf2", "rtol": 1e-6}, "no error estimate"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_line(
    problem: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        ds.solve(problem, **settings)
    assert "\n" not in str(caught.value)


def test_a_sweeper_made_by_hand_refuses_options_without_effect() -> None:
    description = describe("elastic-pendulum", sweeper="explicit-euler").with_step(0.01)
    description["sweeper_params"] = {"starting_procedure": "explicit-euler"}
    with pytest.raises(InputError, match="starting_procedure has no effect on 'explicit-euler'"):
        controller_nonMPI(1, {"logger_level": 40}, description)


def test_the_command_line_has_both_options(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["solve", "elastic-pendulum", "--sweeper", "bdf2", "--t-end", "0.5"]
    assert cli.main(given) == 0
    plain = capsys.readouterr().out
    assert cli.main([*given, "--corrector", "fixed-point", "--starting-procedure", "explicit-euler"]) == 0
    other = capsys.readouterr().out
    done = ds.solve(
        "elastic-pendulum",
        sweeper="bdf2",
        t_end=0.5,
        corrector="fixed-point",
        starting_procedure="explicit-euler",
    )
    assert f"{done.stats['newton']} Newton iterations" in other and plain != other


# --- a past that breaks off ---------------------------------------------------------------------------------


def controller(name: str, dt: float, problem: Any = "hessenberg-1") -> Any:
    description = describe(problem, sweeper=name, newton_tol=1e-14).with_step(dt)
    return controller_nonMPI(1, {"logger_level": 40}, description)


def advance(own: Any, u: Any, t: float, steps: int, dt: float) -> Any:
    own.MS[0].levels[0].params.dt = dt
    return own.run(u0=u, t0=t, Tend=t + (steps - 0.5) * dt)[0]


@pytest.mark.parametrize("name", BDF)
def test_a_run_that_goes_on_takes_its_past_along(name: str) -> None:
    first = ds.PROBLEMS["hessenberg-1"]().u_exact(0.0)
    whole = advance(controller(name, 0.05), first, 0.0, 12, 0.05)
    own = controller(name, 0.05)
    half = advance(own, first, 0.0, 7, 0.05)
    # The value knows it; whoever takes the steps.
    for other in (own, controller(name, 0.05)):
        assert np.abs(advance(other, half, 0.35, 5, 0.05) - whole).max() < 1e-12


@pytest.mark.parametrize("break_by", ["time", "value", "size", "value without a past"])
@pytest.mark.parametrize("name", BDF[1:])
def test_a_step_that_does_not_follow_the_last_one_begins_anew(name: str, break_by: str) -> None:
    P = ds.PROBLEMS["hessenberg-1"]()
    own = controller(name, 0.05)
    half = advance(own, P.u_exact(0.0), 0.0, 7, 0.05)
    t, dt = 0.35, 0.05
    if break_by == "time":
        t = 0.45
    if break_by == "size":
        dt = 0.04
    if break_by.startswith("value"):
        exact = P.state(P.u_exact(t))
        exact.polynomial = half.polynomial if break_by == "value" else None
        half = exact
    if break_by == "time":
        exact = P.state(P.u_exact(t))
        exact.polynomial = half.polynomial
        exact[:] = half
        half = exact
    again = advance(own, half, t, 9, dt)
    fresh = advance(controller(name, dt), P.state(np.array(half)), t, 9, dt)
    assert np.abs(again - fresh).max() < 1e-12
    # Had the past been used, one of wrong times or values, the difference would show.
    going_on = advance(controller(name, 0.05), P.u_exact(0.0), 0.0, 16, 0.05)
    assert np.abs(going_on - fresh).max() > 1e-10


class Kinked(ds.ProblemDAE):
    """u' = 1 up to t = 0.52, and -2 from there on."""

    index = 0
    dt = 0.04

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 0, **settings)
        self.rate = 1.0

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        return (0.52,)

    def start_step(self, u: Any, t: float) -> None:
        self.rate = 1.0 if t < 0.52 - 1e-9 else -2.0

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] - self.rate]

    def u_exact(self, t: float) -> Any:
        return [t if t < 0.52 else 0.52 - 2.0 * (t - 0.52)]


@pytest.mark.parametrize("name", ALL)
def test_no_formula_reaches_across_a_breakpoint(name: str) -> None:
    # Every method is exact for straight lines, unless it looks at values from before the kink.
    done = ds.solve(Kinked, sweeper=name, t_end=1.0)
    exact = np.array([Kinked().u_exact(t) for t in done.t])
    assert np.abs(done.u - exact).max() < 1e-12


@pytest.mark.parametrize("name", ["bdf3", "adams-bashforth-3", "adams-moulton-4"])
def test_terminal_events_end_runs_with_a_short_step(name: str) -> None:
    def at_45_degrees(u: Any, t: float) -> float:
        return float(u[0] - u[1])

    done = ds.solve(Rotation, sweeper=name, dt=0.01, t_end=2.0, events=ds.Event(at_45_degrees, terminal=True))
    assert done.events[0].t[0] == pytest.approx(np.pi / 4.0, abs=1e-6)
    assert done.t[-1] == pytest.approx(np.pi / 4.0, abs=1e-6)


# --- methods of one's own -----------------------------------------------------------------------------------


def test_a_record_of_ones_own_makes_a_sweeper() -> None:
    # The explicit midpoint rule, or leapfrog: weakly stable, order 2.
    leapfrog = record(
        name="leapfrog",
        class_name="LeapfrogODE",
        alpha=[1.0, 0.0, -1.0],
        beta=[0.0, 2.0, 0.0],
    )
    cls = multistep(leapfrog)
    assert issubclass(cls, MultistepDAE) and "leapfrog" not in SWEEPERS
    assert cls.options == ("starting_procedure",)
    slope = convergence(Rotation, sweeper=cls, dt=[0.02, 0.01, 0.005], t_end=2.0).data["slope"]
    assert slope == pytest.approx(2.0, abs=ORDER)


@pytest.mark.parametrize("k", range(1, 7))
def test_backward_differences_are_exact_for_polynomials(k: int) -> None:
    method = bdf(k)
    at = -np.arange(k + 1.0)
    for power in range(k + 1):
        # d/dt t^power at 0.
        assert method.alpha @ at**power == pytest.approx(float(power == 1), abs=1e-10 * factorial(power))
