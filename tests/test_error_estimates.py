"""Error estimates hold for the index and the noise of the equations, or are not used; runs end in time."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers.pairs import covering_pairs

import dae_sdc as ds
from dae_sdc.dae.scales import measured_noise
from dae_sdc.dae.state import EndDerivative, attach
from dae_sdc.errors import DAEWarning, InputError
from dae_sdc.run.convergence import fit_order, fitted_points
from dae_sdc.sweepers.amplification import Piece, amplification, pencil_index
from dae_sdc.sweepers.simultaneous import JUDGE, RENEW
from dae_sdc.sweepers.steps_ahead import StepSizes, approached
from dae_sdc.sweepers.tableaux import METHODS
from dae_sdc.sweepers.together import StagesTogether
from dae_sdc.sweepers.tolerance import Tolerance, operators_at

COLLOCATION = ("radau-iia-5", "radau-iia-9", "fully-implicit")


def curve(n: int, t: Any, order: int = 0) -> Any:
    """A derivative of n smooth functions."""
    w = np.linspace(0.6, 1.9, n)
    return w**order * np.sin(w * t + np.arange(n) + order * np.pi / 2)


def turning(size: int, rate: float, declared: bool) -> type[ds.ProblemDAE]:
    """Two differential unknowns and a nilpotent block, in coordinates that rotate; a known solution.

    E (Q u)' + C Q u = E (Q x)' + C Q x, Q' = S Q with constant skew S: index ``size``.
    """
    n = 2 + size
    E, C = np.eye(n), np.eye(n)
    E[2:, 2:] = np.eye(size, k=1)
    C[:2, :2] = [[0.5, 1.0], [-1.0, 0.3]]
    mixed = np.linalg.qr(np.vander(np.linspace(0.5, 1.5, n)))[0]
    upper = np.triu(np.cos(np.arange(1.0, n * n + 1.0)).reshape(n, n), 1)
    skew = rate * (upper - upper.T)
    values, vectors = np.linalg.eigh(1j * skew)

    class Turning(ds.ProblemDAE):
        interval = (0.0, 2.0)

        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=n, n_alg=0, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            Q = (vectors @ np.diag(np.exp(-1j * values * t)) @ vectors.conj().T).real @ mixed
            error, slope = np.asarray(u) - curve(n, t), np.asarray(du) - curve(n, t, 1)
            return E @ (Q @ slope + skew @ Q @ error) + C @ (Q @ error)

    if declared:
        Turning.index = size
        Turning.variable_index = (size,) * n  # type: ignore[assignment]
    return Turning


class Rotated(ds.ProblemDAE):
    """N (R (u - x))' + R (u - x) = 0 with a nilpotent N of index 3 and a rotation R."""

    index: int | None = 3
    interval = (0.0, 2.0)
    variable_index = (3, 3, 3)

    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=3, n_alg=0, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        c, s = np.cos(3 * t), np.sin(3 * t)
        R = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
        D = 3 * np.array([[-s, 0, c], [0, 0, 0], [-c, 0, -s]])
        error, slope = np.asarray(u) - curve(3, t), np.asarray(du) - curve(3, t, 1)
        return np.eye(3, k=1) @ (R @ slope + D @ error) + R @ error


class Unknown(Rotated):
    index = None
    variable_index = (1, 1, 1)


def noisy(size: float) -> type[ds.ProblemDAE]:
    """u' = z - u, z = u cos(t) / 2, with normal noise in both equations."""
    random = np.random.default_rng(7)

    class Noisy(ds.ProblemDAE):
        index = 1
        interval = (0.0, 5.0)

        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=1, n_alg=1, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            one, two = size * random.standard_normal(2)
            return [du[0] + u[0] - u[1] + one, u[1] - 0.5 * u[0] * np.cos(t) + two]

    return Noisy


def noisy_error(solution: Any) -> float:
    exact = np.exp(-solution.t + 0.5 * np.sin(solution.t))
    return float(np.abs(solution.u[:, 0] - exact).max())


# --- the index ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["esdirk32", "esdirk43"])
def test_embedded_pairs_are_refused_where_their_estimate_does_not_hold(method: str) -> None:
    with pytest.raises(InputError, match=r"holds up to index 2.*index 3"):
        ds.solve(Rotated, u0=curve(3, 0.0), rtol=1e-3, sweeper=method, reduce=False)
    with pytest.raises(InputError, match="holds up to index 2"):
        ds.solve("hessenberg-3", rtol=1e-3, sweeper=method)


def test_every_method_that_estimates_says_up_to_which_index() -> None:
    for name, tableau in METHODS.items():
        collocation = name.startswith("radau-iia")
        assert (tableau.estimate_index > 0) == (tableau.embedded or collocation), name
        if collocation:
            # The order at index k, s + 2 - k with steps that vary, is positive.
            assert tableau.stages + 2 - tableau.estimate_index == 1
        for index in tableau.estimate_orders:
            assert None not in tableau.orders[index]


@pytest.mark.parametrize("sweeper, nodes", [("fully-implicit", 2), ("radau-iia-3", None)])
def test_too_few_nodes_for_the_index_are_refused(sweeper: str, nodes: int | None) -> None:
    with pytest.raises(InputError, match=r"holds up to index 3.*at least 3 nodes"):
        given = {"u0": curve(6, 0.0), "rtol": 1e-3, "reduce": False}
        ds.solve(turning(4, 0.0, True), sweeper=sweeper, nodes=nodes, **given)


@pytest.mark.parametrize("method", COLLOCATION)
@pytest.mark.parametrize("problem", [Rotated, Unknown])
def test_errors_that_grow_in_every_step_end_the_run_with_the_reason(
    method: str, problem: type[ds.ProblemDAE]
) -> None:
    given = {"u0": curve(3, 0.0), "rtol": 1e-3, "time_limit": 2.0, "reduce": False}
    solution = ds.solve(problem, sweeper=method, **given)
    assert not solution.success
    assert "errors grow" in solution.message or problem is Unknown, solution.message
    assert np.abs(solution.u - [curve(3, t) for t in solution.t]).max() < 10.0


TURNED = product(
    [None, "radau-iia-5", "esdirk43", "fully-implicit"], [True, False], [(1, 1.0), (2, 0.05), (2, 1.0)]
)


@pytest.mark.parametrize(("method", "declared", "speed"), covering_pairs(TURNED))
def test_with_success_turning_coordinates_cost_no_more_than_is_told(
    method: str | None, declared: bool, speed: tuple[int, float]
) -> None:
    size, rate = speed
    n = size + 2
    rtol, problem = 1e-4, turning(size, rate, declared)
    given = {"u0": curve(n, 0.0), "rtol": rtol, "time_limit": 60.0, "reduce": False}
    solution = ds.solve(problem, sweeper=method, **given)
    if not solution.success:
        assert size == 2
        return
    exact = np.array([curve(n, t) for t in solution.t])
    error = (np.abs(solution.u - exact) / (1.0 + np.abs(exact))).max()
    assert error < 100.0 * rtol * np.diff(solution.t)[1:-1].min() ** (1 - size)


def test_fourth_order_pairs_reach_the_tolerance_where_a_kernel_of_index_one_turns() -> None:
    """u is of order 3 there, as y of index 2, and the estimate of order 4."""
    problem = turning(1, 1.0, True)
    for rtol in (1e-5, 1e-7):
        solution = ds.solve(problem, u0=curve(3, 0.0), rtol=rtol, sweeper="esdirk43")
        error = np.abs(solution.u - [curve(3, t) for t in solution.t]).max()
        assert solution.success and error < 20.0 * rtol, (rtol, error / rtol)


@pytest.mark.parametrize("size, expected", [(1, 1.0), (2, 1.0), (3, 1.0)])
def test_steps_in_fixed_coordinates_forget_errors(
    size: int, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = size + 2
    times = [0.0, 1.0]
    known = [curve(n, t) for t in times], [curve(n, t, 1) for t in times]
    # Errors of index 3 begin with 1 / h^2, and a pair with R(infinity) near 1 forgets them slowly.
    piece = Piece(turning(size, 0.0, True)(), times, *known)
    monkeypatch.setattr("dae_sdc.sweepers.amplification.STEPS_BEFORE", 20)
    for name in ("radau-iia-5", "esdirk43"):
        found = amplification(piece, METHODS[name].linear_step, 0.0, 0.01)
        assert np.exp(found) == pytest.approx(expected, abs=0.02)
    mass, stiffness = piece.matrices(0.0)
    assert pencil_index(mass, stiffness) == size


def test_a_repeated_estimate_of_a_pair_keeps_unknowns_of_index_2() -> None:
    class Chain(ds.ProblemDAE):
        """x' + y = 0, x = 0: the filter of an error estimate is nilpotent."""

        index, variable_index = 2, (2, 2)

        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=2, n_alg=0, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [du[0] + u[1], u[0]]

    problem, c = Chain(), 0.01
    at_rest = np.zeros(2)
    made = operators_at(problem, at_rest, at_rest, 0.0, c)
    estimate = np.array([1.0, 0.0])
    np.testing.assert_allclose(made.solve(made.mass(estimate)), [0.0, 1.0 / c], atol=1e-9)
    tableau = METHODS["esdirk32"]
    stages = StagesTogether(problem, tableau, Tolerance(1e-6, None)).stages
    start = attach(at_rest.copy(), 2)
    start.polynomial = EndDerivative(at_rest)
    h = c / float(tableau.A[-1, -1])
    stages.begin(start, 0.0, h)
    assert stages.act(RENEW, 0.0, h)
    difference = stages.differences
    stages.du[:] = np.outer(difference, estimate) / (h * difference @ difference)
    once, again = (stages.act(JUDGE, 0.0, h, (0, again, False)) for again in (False, True))
    assert once > 1.0 and again == once


# --- runs that do not advance -------------------------------------------------------------------------------


@pytest.mark.parametrize("method, rtol", [("esdirk43", 1e-4), ("radau-iia-5", 1e-4), (None, 1e-8)])
def test_a_run_into_a_pole_ends_before_it_and_says_where_it_is(method: str | None, rtol: float) -> None:
    solution = ds.solve("simple", rtol=rtol, t_end=3.0, sweeper=method)
    assert not solution.success
    # Where the tolerance is tight, round-off of the equations may stop the steps first.
    ends = ("in proportion to the time left to t=", "no step from t=1.999999")
    assert solution.message.startswith(ends) or ends[0] in solution.message
    assert 2.0 - 1e-5 < solution.t[-1] < 2.0


@pytest.mark.parametrize("kind", ["time", "state"])
def test_a_jump_is_no_pole_and_is_passed_at_the_tightest_tolerances(kind: str) -> None:
    class Jump(ds.ProblemDAE):
        """x' = 5 behind t = 0.15 or y = 0.2, at rest before; y = sin t."""

        index, interval = 1, (0.0, 1.0)

        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=2, n_alg=1, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            behind = t >= 0.15 if kind == "time" else u[1] >= 0.2
            return [du[0] - u[2], du[1] - np.cos(t), u[2] - 5.0 * behind]

    solution = ds.solve(Jump, u0=[0.0, 0.0, 0.0], rtol=1e-10)
    assert solution.success, solution.message
    since = 0.15 if kind == "time" else np.arcsin(0.2)
    assert solution.u[-1, 0] == pytest.approx(5.0 * (1.0 - since), rel=1e-8)


class Steep:
    """The end of steps at which u' is infinite."""

    @staticmethod
    def end_slope() -> float:
        return math.inf


def test_steps_in_proportion_to_the_time_left_are_an_approach() -> None:
    for share in (0.3, 0.03):
        sizes, time, found = StepSizes(1e-6), 0.0, math.nan
        for _ in range(10_000):
            dt = share * (2.0 - time)
            found = approached(sizes, Steep, time, dt)
            if not math.isnan(found):
                break
            time += dt
        assert found == pytest.approx(2.0, abs=1e-3 * (2.0 - time) + 1e-6)
        assert 1e-9 < 2.0 - time < 1e-6


def test_a_drop_into_a_fast_transient_is_no_approach() -> None:
    for ratio in (0.2, 0.7):
        sizes, time, dt = StepSizes(1e-6), 0.0, 1.0
        for _ in range(3):
            # Down at once, up again slowly: a relaxation oscillation.
            while dt > 1e-9:
                dt *= 0.1 * ratio
                assert math.isnan(approached(sizes, Steep, time, dt))
                time += dt
            while dt < 1.0:
                dt *= 2.0
                assert math.isnan(approached(sizes, Steep, time, dt))
                time += dt


# --- noise --------------------------------------------------------------------------------------------------


# The terms of the second equation are 0.7, and eight samples tell the level to a factor of 2; 50 times
# that is below rtol = 1e-6 up to a size of 7e-9, whatever the random numbers.
@pytest.mark.parametrize("size", [1e-12, 5e-9])
@pytest.mark.parametrize("method", [None, "radau-iia-5", "esdirk43", "semi-implicit", "fully-implicit"])
def test_noise_below_the_tolerance_costs_nothing(method: str | None, size: float) -> None:
    clean = ds.solve(noisy(0.0), u0=[1.0, 0.5], rtol=1e-6, sweeper=method)
    solution = ds.solve(noisy(size), u0=[1.0, 0.5], rtol=1e-6, sweeper=method)
    assert solution.success, solution.message
    assert noisy_error(solution) < 1e-5
    assert solution.stats["steps"] <= 1.5 * clean.stats["steps"]


def test_a_tolerance_below_the_noise_is_told_and_raised_to_it() -> None:
    with pytest.warns(DAEWarning, match=r"noisy, by \d\.\de-0[78] .* rtol=1e-09"):
        solution = ds.solve(noisy(1e-7), u0=[1.0, 0.5], rtol=1e-9)
    assert solution.success and noisy_error(solution) < 100 * 50 * 1e-7


@pytest.mark.parametrize("size", [1e-12, 1e-8, 1e-4])
def test_the_level_of_noise_is_measured(size: float) -> None:
    found = measured_noise(noisy(size)(), np.array([1.0, 0.5]), np.zeros(2), 0.3)
    assert found is not None
    assert (found.absolute > size / 3).all() and (found.absolute < 3 * size).all()


@pytest.mark.parametrize("name", ["simple", "hessenberg-3", "problematic-f"])
def test_round_off_is_no_noise(name: str) -> None:
    problem = ds.PROBLEMS[name]()
    start = np.asarray(problem.u_exact(0.1))
    assert measured_noise(problem, start, np.zeros(problem.n), 0.1) is None


@pytest.mark.parametrize(("rtol", "asked"), [(1e-8, [0.0, 1e-3, 2e-3]), (1e-9, None), (1e-11, None)])
def test_steps_of_index_2_do_not_sink_to_where_rounding_is_the_whole_estimate(
    rtol: float, asked: Any
) -> None:
    solution = ds.solve("slider-crank", rtol=rtol, t_eval=asked)
    assert solution.success, solution.message
    # The crank turns at a constant speed: its acceleration vanishes, where that of the rod reaches 1e4.
    assert np.abs(solution["a_phi_1"]).max() < 1e-3
    assert asked or np.abs(solution["a_phi_2"]).max() > 1e4
    if not asked:
        # The fastest vibration of the rod along itself, of 2.5e4 1/s, takes 3e-4 s.
        assert np.diff(solution.t)[20:].min() > 1e-8


# --- studies and times --------------------------------------------------------------------------------------


def test_a_point_that_is_part_round_off_is_left_out_of_a_fit() -> None:
    dts, found = 0.1 * 0.5 ** np.arange(5), np.array([2.2e-9, 7.1e-11, 2.2e-12, 6.9e-14, 4.5e-14])
    assert fitted_points(dts, found, 4.4e-14).tolist() == [0, 1, 2, 3]
    assert fit_order(dts, found, 4.4e-14)[0] == pytest.approx(4.99, abs=0.02)
    # Far above round-off a fall of the order is a result and stays.
    assert len(fitted_points(dts, 1e6 * found, 4.4e-14)) == 5


def test_a_study_says_which_points_are_round_off() -> None:
    study = ds.convergence(
        "simple", sweeper="fully-implicit", nodes=3, dt=[0.05, 0.025, 0.0125, 0.00625, 0.003125]
    )
    (text,) = study.parameters["at_round_off"]
    assert "differential: dt=0.003125" in text
    of_group = study.data[study.data["group"] == "differential"]
    assert of_group["slope"][0] == pytest.approx(5.0, abs=0.1)


@pytest.mark.parametrize("method", ["fully-implicit", "semi-implicit", "esdirk43", "radau-iia-5", "bdf2"])
@pytest.mark.parametrize("more", [{}, {"events": [lambda u, t: t - 0.55]}])
def test_steps_of_a_fixed_size_end_on_their_grid(method: str, more: dict[str, Any]) -> None:
    solution = ds.solve("simple", dt=0.1, t_end=1.0, sweeper=method, **more)
    assert solution.success and np.array_equal(solution.t, np.linspace(0.0, 1.0, 11))


def test_several_steps_at_once_end_on_their_grid() -> None:
    solution = ds.solve("simple", dt=0.1, t_end=1.0, steps=2)
    assert np.array_equal(solution.t, np.linspace(0.0, 1.0, 11))
