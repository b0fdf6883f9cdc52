"""Units of unknowns, equations and time do not matter: the same steps, and the same relative errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.other_units import InOtherUnits

import dae_sdc as ds
from benchmarks.measuring.runs import DONE
from benchmarks.studies.truth.study import repeat
from dae_sdc.dae.consistency import check_consistent
from dae_sdc.dae.scales import Terms, balanced_sizes


class Oscillator(ds.ProblemDAE):
    """y'' = -25 y, z = y y' / s with y(0) = s."""

    index, interval, names = 1, (0.0, 10.0), ("y", "v", "z")

    def __init__(self, size: float = 1.0) -> None:
        super().__init__(n_diff=2, n_alg=1)
        self._makeAttributeAndRegister("size", localVars=locals())

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        y, v, z = u
        return [du[0] - v, du[1] + 25.0 * y, z - y * v / self.size]

    def u_exact(self, t: float) -> Any:
        c, s = np.cos(5.0 * t), np.sin(5.0 * t)
        return [self.size * c, -5.0 * self.size * s, -5.0 * self.size * s * c]


class Clock(ds.ProblemDAE):
    """c x' = y - x, c y' = z (1 + x^2), y = sin(t / c) + cos(t / c)."""

    index, names = 2, ("x", "y", "z")

    def __init__(self, unit: float = 1.0) -> None:
        super().__init__(n_diff=2, n_alg=1)
        self._makeAttributeAndRegister("unit", localVars=locals())
        self.interval = (0.0, unit)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        (x, y, z), s = u, t / self.unit
        forced = z * (1.0 + x * x)
        return [self.unit * du[0] + x - y, self.unit * du[1] - forced, y - np.sin(s) - np.cos(s)]

    def u_exact(self, t: float) -> Any:
        # x' = y - x with y = sin + cos has x = sin for its solution from 0.
        s = t / self.unit
        return [np.sin(s), np.sin(s) + np.cos(s), (np.cos(s) - np.sin(s)) / (1.0 + np.sin(s) ** 2)]


def errors(solution: ds.Solution, problem: ds.ProblemDAE) -> Any:
    """Largest errors of the unknowns in units of their largest values."""
    assert solution.success, solution.message
    exact = np.array([np.asarray(problem.u_exact(float(t))) for t in solution.t])
    return np.abs(solution.u - exact).max(axis=0) / np.abs(exact).max(axis=0)


def alike(own: ds.Solution, other: ds.Solution, count: float = 0.15) -> bool:
    # Where there are few steps, rounding in the estimate may make two of one.
    return abs(own.stats["steps"] - other.stats["steps"]) <= max(2, count * own.stats["steps"])


# --- unknowns -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-9, 1e-6, 1e-3, 1e6])
def test_an_answer_does_not_depend_on_the_unit_of_the_unknowns(size: float) -> None:
    own, other = ds.solve(Oscillator(), rtol=1e-4), ds.solve(Oscillator(size), rtol=1e-4)
    assert alike(own, other)
    ratio = errors(other, Oscillator(size)) / errors(own, Oscillator())
    assert (ratio < 3.0).all() and (ratio > 1.0 / 3.0).all()
    assert errors(other, Oscillator(size)).max() < 1e-4


@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "esdirk43", "radau-iia-5"])
@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_nor_do_those_of_other_methods(sweeper: str, size: float) -> None:
    own = ds.solve(Oscillator(), rtol=1e-4, t_end=2.0, sweeper=sweeper)
    other = ds.solve(Oscillator(size), rtol=1e-4, t_end=2.0, sweeper=sweeper)
    assert alike(own, other)
    ratio = errors(other, Oscillator(size)) / errors(own, Oscillator())
    assert (ratio < 3.0).all() and (ratio > 1.0 / 3.0).all()


# --- time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rtol", [1e-3, 1e-5, 1e-9])
@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e3, 1e6])
def test_weights_of_a_higher_index_do_not_count_in_seconds(unit: float, rtol: float) -> None:
    own, other = ds.solve(Clock(), rtol=rtol), ds.solve(Clock(unit), rtol=rtol)
    assert own.success and other.success and alike(own, other)
    assert other.stats["steps"] <= 24
    assert errors(other, Clock(unit))[:2].max() < 10.0 * rtol


# --- the library --------------------------------------------------------------------------------------------

CATALOGUE = ("hessenberg-1", "hessenberg-2", "hessenberg-3", "pendulum", "simple", "chemical-akzo-nobel")


def in_units(name: str, seed: int, base: float) -> tuple[ds.ProblemDAE, ds.ProblemDAE]:
    """A problem of the library without nominal sizes, and the same in units that are powers of a number."""
    made: Any = ds.PROBLEMS[name]
    generator, span = np.random.default_rng(seed), np.log(1e9) / np.log(base)
    n = made().n
    s, r = (base ** np.round(generator.uniform(-span, span, n)) for _ in range(2))
    time = base ** round(generator.uniform(-span, span) * 2 / 3)
    return InOtherUnits(made()), InOtherUnits(made(), s, r, time)


def solved(problem: Any, rtol: float = 1e-5, **settings: Any) -> ds.Solution:
    start = np.asarray(problem.u_exact(problem.interval[0]))
    return ds.solve(problem, u0=start, rtol=rtol, **settings)


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("seed", [1, 2])
def test_units_that_are_powers_of_two_change_next_to_nothing(name: str, seed: int) -> None:
    own, other = in_units(name, seed, 2.0)
    first, second = solved(own), solved(other)
    assert first.success and second.success
    assert first.stats["steps"] == second.stats["steps"]
    # Equations in other units have other pivots and so another rounding, which multipliers magnify: in the
    # first step it is a part of the error, which the size of the next follows.
    np.testing.assert_allclose(second.t / other.time, first.t, rtol=3e-2)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CATALOGUE)
def test_any_other_units_take_the_same_steps(name: str) -> None:
    own, other = in_units(name, 3, 10.0)
    first, second = solved(own), solved(other)
    assert first.success and second.success and alike(first, second)


@pytest.mark.parametrize("name", ["hessenberg-1", "chemical-akzo-nobel"])
def test_without_a_jacobian_units_do_not_matter_either(name: str) -> None:
    own, other = in_units(name, 4, 2.0)
    for problem in (own, other):
        del problem.jacobian  # type: ignore[attr-defined]
    first, second = solved(own), solved(other)
    assert first.success and second.success and alike(first, second)


# --- sizes --------------------------------------------------------------------------------------------------


def test_sizes_balance_the_terms_of_every_equation() -> None:
    # a b u1 + c u2 = 0 and u2' = d u1 with u1 = 8.
    mass = np.array([[0.0, 0.0], [0.0, 4.0]])
    stiffness = np.array([[16.0, 2.0], [8.0, 0.0]])
    found = balanced_sizes(Terms.of(mass, stiffness, np.zeros(2)), np.array([8.0, 0.0]), 1.0)
    # 16 * 8 = 2 * 64, and 4 * 64 / time = 8 * 8.
    np.testing.assert_allclose(found.sizes, [8.0, 64.0], rtol=1e-3)
    assert found.time == pytest.approx(4.0, rel=1e-3)


def test_rounding_in_a_start_is_no_size() -> None:
    terms = Terms.of(np.diag([1.0, 0.0]), np.array([[1.0, 0.0], [1.0, 1.0]]), np.zeros(2))
    found = balanced_sizes(terms, np.array([1.0, 1e-16]), 8.0)
    assert found.known.tolist() == [True, False] and found.sizes[1] == 1.0
    kept = balanced_sizes(terms, np.array([1.0, 1e-6]), 8.0)
    assert kept.known.all() and kept.sizes[1] == 1e-6


class Robertson(ds.ProblemDAE):
    """Robertson's reaction, whose second concentration begins at 0 and comes to 4e-5 at most."""

    index, interval, names = 1, (0.0, 40.0), ("a", "b", "c")

    def __init__(self) -> None:
        super().__init__(n_diff=2, n_alg=1)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        a, b, c = u
        rate = 0.04 * a - 1e4 * b * c
        return [du[0] + rate, du[1] - rate + 3e7 * b * b, a + b + c - 1.0]


def test_a_run_that_measures_by_a_wrong_size_goes_back() -> None:
    from scipy.integrate import solve_ivp

    def rates(t: float, u: Any) -> Any:
        rate, fast = 0.04 * u[0] - 1e4 * u[1] * u[2], 3e7 * u[1] ** 2
        return [-rate, rate - fast, fast]

    found = solve_ivp(rates, (0.0, 40.0), [1.0, 0.0, 0.0], method="Radau", rtol=1e-10, atol=1e-16)
    reference = found.y[:, -1]
    for rtol in (1e-3, 1e-5):
        solution = ds.solve(Robertson(), u0=[1.0, 0.0, 0.0], rtol=rtol)
        assert solution.success and not solution.message
        np.testing.assert_allclose(solution.u[-1], reference, rtol=rtol)


class Still(ds.ProblemDAE):
    """x' = -x, y' = -y, z = x - y, which is 0."""

    index, names = 1, ("x", "y", "z")

    def __init__(self) -> None:
        super().__init__(n_diff=2, n_alg=1)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] + u[0], du[1] + u[1], u[2] - u[0] + u[1]]


class Faint(Still):
    """The same with a z that is 1e-9 sin t, a small difference of large numbers."""

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] + u[0], du[1] + u[1], u[2] - u[0] + u[1] - 1e-9 * np.sin(t)]


def test_an_unknown_that_stays_0_is_no_matter() -> None:
    solution = ds.solve(Still(), u0=[1.0, 1.0, 0.0], rtol=1e-5)
    assert solution.success and solution.message == ""


@pytest.mark.parametrize("rtol", [1e-3, 1e-5, 1e-7, 1e-9, 1e-11])
def test_a_small_difference_is_right_or_told_not_to_rise_above_its_tolerance(rtol: float) -> None:
    solution = ds.solve(Faint(), u0=[1.0, 1.0, 0.0], rtol=rtol)
    exact = 1e-9 * np.sin(solution.t)
    # Rounding of x and y leaves 1e-16, a part of 1e-7 of z.
    right = np.abs(solution.u[:, 2] - exact).max() <= max(10.0 * rtol, 1e-6) * exact.max()
    assert (solution.success and right) or ("'z' never rises above its tolerance" in solution.message)


def test_an_unknown_that_fades_away_needs_no_short_steps() -> None:
    long = ds.solve(Still(), u0=[1.0, 1.0, 0.0], rtol=1e-5, t_end=1000.0)
    assert long.success and long.stats["steps"] < 60


class Small(ds.ProblemDAE):
    """x' = -x, z = s cos t."""

    index, names, size = 1, ("x", "z"), 1e-12

    def __init__(self) -> None:
        super().__init__(n_diff=1, n_alg=1)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] + u[0], u[1] - self.size * np.cos(t)]


@pytest.mark.parametrize("unit", [1e-300, 1e-60, 1e-30, 1e30, 1e100])
def test_an_equation_may_be_in_any_unit(unit: float) -> None:
    def equations(t: Any, u: Any, du: Any) -> list[Any]:
        return [du[0] + u[0], unit * (u[1] * u[1] - u[0] * u[0])]

    found = ds.solve(equations, u0=[1.0, 1.0], t_end=1.0, rtol=1e-6)
    assert found.success
    np.testing.assert_allclose(found.u[-1], np.exp(-1.0), rtol=5e-6)


def test_a_start_that_violates_an_equation_of_small_terms_is_refused() -> None:
    problem = Small()
    check_consistent(problem, problem.state([1.0, 1e-12]), 0.0)
    with pytest.raises(ds.InconsistentStateError, match="equation 1"):
        check_consistent(problem, problem.state([1.0, 1.1e-12]), 0.0)


@pytest.mark.parametrize("sizes", [(1e5, 1e-4, 1e12), (1.0, 1.0, 1.0)])
def test_a_consistent_start_of_a_function_is_kept_in_any_units(sizes: tuple[float, ...]) -> None:
    """At u' = 0 a difference for dF/du' is lost in rounding if its step knows nothing of sizes and time."""
    own, unit = Clock(), 1e-12
    scaled = InOtherUnits(own, unknowns=sizes, time=unit)
    start = np.array(own.u_exact(0.0)) * sizes
    run = ds.solve(
        lambda t, u, du: scaled.eval_f(u, du, t), u0=start, t_end=unit, rtol=1e-6, trace=False, reduce=False
    )
    assert run.success and run.message == "", run.message
    assert (run.u[0] == start).all()


@pytest.mark.parametrize("size", [1.0, 1e-12])
def test_what_an_unknown_of_index_3_is_held_to_is_told_in_any_units(size: float) -> None:
    own: Any = ds.PROBLEMS["hessenberg-3"]()
    run = ds.solve(InOtherUnits(own, unknowns=size), u0=size * np.array(own.u_exact(0.0)), rtol=1e-10)
    assert run.success and "w of index 3: errors up to" in run.message


@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("time", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize("size", [1.0, 1e12])
def test_multipliers_follow_from_hidden_constraints_in_any_units(
    size: float, time: float, trace: Any
) -> None:
    """Start values of index 3 are rounded, and divided by squares of first steps in the unit of time."""

    def pendulum(t: float, u: Any, du: Any) -> Any:
        (x, y, v, w, tension), slope = u / size, du * (time / size)
        forces = [slope[2] + tension * x, slope[3] + tension * y + 1.0]
        return [slope[0] - v, slope[1] - w, *forces, x * x + y * y - 1.0]

    angle, rate = 0.7, 0.4
    x, y = np.sin(angle), -np.cos(angle)
    start = size * np.array([x, y, -rate * y, rate * x, rate**2 - y])
    equations: Any = pendulum
    run = ds.solve(equations, u0=start, t_end=time, rtol=1e-9, trace=trace)
    _, y, v, w, tension = run.u.T / size
    error = float(np.abs(tension - (v * v + w * w - y)).max())
    assert run.success and (
        error < 1e-9 or (trace is False and "u[4] of index 3: errors up to" in run.message)
    )
    assert np.finfo(float).eps / (run.t[1] / time) ** 2 < 1e-9


@pytest.mark.parametrize(
    "line",
    [
        # Of turning equations, whose derivatives cancel but for rounding in these units.
        "varying-2:12301:plain:problem+units:traced:rtol=1e-09",
        "varying-3:12301:plain:problem+units:traced:rtol=1e-07",
        "varying-2:24600:plain:problem+units:traced:rtol=1e-05",
        # Where balanced entries hide a derivative.
        "hessenberg-3:24600:plain:problem+units:traced:rtol=0.0001",
        # Regular but for rounding, and not turning.
        "mechanics-index-2:12302:plain:indices+units:traced:rtol=1e-07",
        # Repaired, with unknowns that have no sizes.
        "pencil-4:7802:plain:indices+units:traced:rtol=1e-08",
        # Where points that satisfy the derivatives are sought by the sizes of the unknowns.
        "mixed-rows:48001:plain:problem+units:traced:rtol=1e-06",
    ],
)
def test_generated_equations_are_solved_in_units_of_12_orders_of_magnitude(line: str) -> None:
    found = repeat(line)
    assert found.outcome == DONE, found.message


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize(
    "options",
    [
        *({"sweeper": name, "nodes": 3} for name in ("fully-implicit", "semi-implicit", "constrained")),
        {"sweeper": "semi-implicit", "steps": 2},
        {"sweeper": "semi-implicit", "qdelta": "IE"},
        {"sweeper": "fully-implicit", "initial_guess": "spread"},
        {"sweeper": "semi-implicit", "trace": False},
        *({"sweeper": name} for name in ("radau-iia-5", "bdf2", "backward-euler", "gauss-4")),
        {"sweeper": "esdirk43", "trace": False},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_steps_of_a_fixed_size_are_those_in_other_units_or_told(
    options: dict[str, Any], scale: float
) -> None:
    def equations(t: float, u: Any, du: Any) -> Any:
        x = u[0] / scale
        return [du[0] + u[0] * (1.0 + x * x) - scale * np.cos(t), u[1] - u[0]]

    def solved(size: float) -> Any:
        return ds.solve(equations, u0=[size, size], t_end=4.0, dt=0.1, **options)

    small, size, scale = solved(scale), scale, 1.0
    whole = solved(1.0)
    assert whole.success and "newton_tol" not in whole.message
    told = not small.success or "newton_tol=1e-10 does not resolve" in small.message
    np.testing.assert_allclose(
        0.0 if told else small.u[-1] / size - whole.u[-1], 0.0, atol=1e-5 + 1e-10 / size
    )
