"""Values at times between the steps satisfy the equations there."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.dae.pointwise import PointwiseEquations
from dae_sdc.initial.hidden import HiddenConstraints
from dae_sdc.problems import PROBLEMS

TIMES = np.linspace(0.003, 0.997, 17)


class Stair(ds.ProblemDAE):
    """y' = cos t, z = floor(8 y): an algebraic unknown that no polynomial follows."""

    index, interval = 1, (0.0, 1.0)

    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=1, n_alg=1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] - np.cos(t), u[1] - np.floor(8.0 * u[0])]


def largest_residual(solution: Any, times: Any) -> float:
    """Largest residual, with u' that satisfies the equations if any does."""
    problem = solution.equations.problem
    worst = 0.0
    for t, u, du in zip(times, solution(times), solution.derivative(times), strict=True):
        problem.start_step(problem.state(u), t)
        residual = problem.eval_f(problem.state(u), problem.state(du), t)
        parts = ds.dae.jacobian.linearize(problem, problem.state(u), problem.state(du), t)
        mass = np.asarray(parts.mass.toarray() if hasattr(parts.mass, "toarray") else parts.mass)
        left = residual - mass @ np.linalg.lstsq(mass, np.asarray(residual), rcond=1e-12)[0]
        worst = max(worst, float(np.abs(left).max()))
    return worst


@pytest.mark.parametrize("simplify", [True, False])
def test_rounded_values_are_whole_numbers_at_the_times_asked_for(simplify: bool, tmp_path: Path) -> None:
    path = tmp_path / "J.mo"
    path.write_text(
        "model J Real u, y; equation u=10*sin(10*time); y=if u>0 then floor(u+0.5) else ceil(u-0.5); end J;"
    )
    times = np.linspace(0.0, 1.0, 11)
    solution = ds.solve(str(path), simplify=simplify, rtol=1e-8, t_end=1.0, t_eval=times)
    exact = 10.0 * np.sin(10.0 * times)
    assert solution.values("u") == pytest.approx(exact, abs=1e-12)
    rounded = np.where(exact > 0, np.floor(exact + 0.5), np.ceil(exact - 0.5))
    assert solution.values("y") == pytest.approx(rounded, abs=1e-12)


@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "radau-iia-5", "edirk4", "bdf3"])
def test_an_algebraic_unknown_that_jumps_has_the_values_of_its_equation(sweeper: str) -> None:
    solution = ds.solve(Stair, u0=[0.0, 0.0], sweeper=sweeper, dt=0.02)
    found = solution(TIMES)
    assert found[:, 1] == pytest.approx(np.floor(8.0 * np.sin(TIMES)), abs=1e-12)
    assert solution.derivative(TIMES)[:, 0] == pytest.approx(np.cos(TIMES), abs=1e-12)


@pytest.mark.parametrize("problem", ["two-transistor", "hessenberg-1", "hessenberg-2", "pendulum", "simple"])
def test_the_equations_without_derivatives_hold_between_the_steps(problem: str) -> None:
    solution = ds.solve(problem, rtol=1e-4, t_end=1.0 if problem != "two-transistor" else 0.02, dense=True)
    times = solution.t[0] + (solution.t[-1] - solution.t[0]) * TIMES
    size = np.abs(solution.u).max()
    assert largest_residual(solution, times) <= 1e-11 * size
    rows = ds.solve(problem, rtol=1e-4, t_end=float(solution.t[-1]), t_eval=times)
    assert np.array_equal(rows.u, solution(times))


def test_scrambled_index_1_is_met_by_its_algebraic_part_alone() -> None:
    mix = np.linalg.qr(np.random.default_rng(3).normal(size=(2, 2)))[0]

    class Mixed(ds.ProblemDAE):
        """y' + y = cos t + sin t, z = sign(sin 20 t) (1 + y), in coordinates that mix y and z."""

        index, interval = 1, (0.0, 1.0)

        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=2, n_alg=0, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            (y, z), (dy, _) = mix @ np.asarray(u), mix @ np.asarray(du)
            return mix.T @ [dy + y - np.cos(t) - np.sin(t), z - np.sign(np.sin(20.0 * t)) * (1.0 + y)]

    solution = ds.solve(Mixed, u0=mix.T @ [0.0, 0.0], sweeper="backward-euler", dt=1.0 / 64)
    y, z = mix @ solution(TIMES).T
    assert z == pytest.approx(np.sign(np.sin(20.0 * TIMES)) * (1.0 + y), abs=1e-11)
    # Cubics through the ends are off by z's jumps, and y must not be moved by them.
    assert y == pytest.approx(np.sin(TIMES), abs=1.0 / 64)


def test_where_the_equations_have_no_solution_near_the_values_it_is_said() -> None:
    class Vanishing(ds.ProblemDAE):
        """z^2 = w(t), and no real z in the middle of a step."""

        index, interval = 1, (0.0, 1.0)

        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=1, n_alg=1, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            dip = 1.0 - 2.0 * np.exp(-(((t - 0.125) / 0.01) ** 2))
            return [du[0], u[1] ** 2 - dip]

    solution = ds.solve(Vanishing, u0=[0.0, 1.0], sweeper="backward-euler", dt=0.25)
    with pytest.warns(ds.DAEWarning, match=r"1 time between the steps, the first t=0\.125, the equations"):
        solution(0.125)
    rows = ds.solve(Vanishing, u0=[0.0, 1.0], sweeper="backward-euler", dt=0.25, t_eval=[0.0, 0.125, 1.0])
    assert rows.success and "the first t=0.125" in rows.message


# --- many times ---------------------------------------------------------------------------------------------


class Counted(ds.ProblemDAE):
    """y' = -y, and z + slope(t) z^3 = y + slope(t) y^3, which is z = y."""

    index, interval = 1, (0.0, 1.0)

    def __init__(self, bend: float = 0.1, jump: float = 1.0) -> None:
        super().__init__(n_diff=1, n_alg=1)
        self.bend, self.jump, self.evaluated = bend, jump, 0

    def factor(self, t: float) -> float:
        """What the algebraic equation is multiplied with: a jump in the middle."""
        return self.jump if t > 0.5 else 1.0

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        y, z = u
        return [du[0] + y, self.factor(t) * (z - y + self.bend * (z**3 - y**3))]

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        self.evaluated += 1
        y, z = (self.factor(t) * (1.0 + 3.0 * self.bend * one**2) for one in u)
        return np.array([[1.0 + c, 0.0], [-c * y, c * z]])


def corrected(problem: Any, error: float) -> float:
    """The largest error of z after the correction of 1000 values, in no order, with an error."""
    t = np.random.default_rng(0).permutation(np.linspace(0.0, 1.0, 1000))
    exact = np.exp(-t)
    u, du = np.stack([exact, exact + error * np.cos(40.0 * t)], axis=1), np.stack([-exact, -exact], axis=1)
    done = PointwiseEquations(problem, np.ones(2)).correct(t, u, du, np.full(1000, 0.1))
    assert done.all() and (u[:, 0] == exact).all()
    # The iteration ends where 1e-13 is left.
    return float(np.abs(u[:, 1] - exact).max())


@pytest.mark.parametrize("error", [1e-3, 1e-6, 1e-9, 1e-12])
def test_many_values_are_exact_with_few_jacobians(error: float) -> None:
    problem = Counted()
    assert corrected(problem, error) <= 1.5e-13
    assert problem.evaluated < 200


@pytest.mark.parametrize("jump", [1e-9, 1e-3, 1e3, 1e9])
def test_factors_of_other_equations_are_not_used(jump: float) -> None:
    for error in (1e-3, 1e-8):
        assert corrected(Counted(jump=jump), error) <= 1.5e-13
    assert corrected(Counted(bend=100.0, jump=jump), 1e-2) <= 1.5e-13


def dangling(t: Any, u: Any, du: Any) -> list[Any]:
    """A source, and a resistor and an inductor from it to a node where nothing else is; no current flows."""
    a, b, i, current = u
    drop = (a - b) / 570.0
    return [
        drop - current + i,
        current - drop,
        a - 0.5 + 0.5 * np.cos(2.0 * np.pi * 200.0 * t),
        du[3] * 0.42 + b - a,
    ]


def test_an_unknown_that_is_nothing_but_rounding_does_not_hide_the_others() -> None:
    times = np.linspace(0.0, 0.01, 131)
    solution = ds.solve(
        dangling, u0=dict(a=0.0, b=0.0, i=0.0, current=0.0), t_end=0.01, rtol=1e-6, t_eval=times
    )
    exact = 0.5 - 0.5 * np.cos(2.0 * np.pi * 200.0 * times)
    assert solution.success and "interpolated" not in solution.message
    assert np.abs(solution.u[:, :2] - exact[:, None]).max() <= 1e-11


def fast(t: Any, u: Any, du: Any) -> list[Any]:
    return [du[0] - np.cos(t), u[1] - np.sin(60.0 * t)]


def test_unknowns_that_are_only_interpolated_are_named_with_their_errors(monkeypatch: Any) -> None:
    solution = ds.solve(fast, u0=dict(y=0.0, z=0.0), dt=0.05, t_end=1.0)
    polynomial = solution.dense(TIMES)[:, 1]
    monkeypatch.setattr(PointwiseEquations, "correct", lambda self, t, u, du, h: np.zeros(len(t), dtype=bool))
    with pytest.warns(ds.errors.DAEWarning, match="no solution near the interpolated values") as caught:
        found = solution(TIMES)
    assert (found[:, 1] == polynomial).all()
    # The equation is linear in z, so that the first change of Newton's method is the error.
    error = np.abs(polynomial - np.sin(60.0 * TIMES)).max() / np.abs(solution.u[:, 1]).max()
    assert f"given instead, z with errors up to {error:.1g} of their sizes" in str(caught[0].message)


@pytest.mark.parametrize("rtol", [1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("sweeper", [None, "fully-implicit"])
def test_fast_components_are_as_good_between_long_steps_where_that_is_asked(
    rtol: float, sweeper: str | None
) -> None:
    def driven(rate: float) -> Any:
        """u' = -rate (u - sin t) + cos t, and as much for another frequency: u = (sin t, cos 3 t)."""

        def equations(t: Any, u: Any, du: Any) -> list[Any]:
            first = du[0] + rate * (u[0] - np.sin(t)) - np.cos(t)
            return [first, du[1] + rate * (u[1] - np.cos(3 * t)) + 3 * np.sin(3 * t)]

        return equations

    times = np.linspace(0.0, 20.0, 401)
    exact = np.stack([np.sin(times), np.cos(3.0 * times)], axis=1)
    settings: dict[str, Any] = dict(u0=dict(x=0.0, y=1.0), t_end=20.0, rtol=rtol, sweeper=sweeper)
    asked = ds.solve(driven(1e5), t_eval=times, **settings)
    kept = ds.solve(driven(1e5), dense=True, **settings)
    # Twice the tolerance in units of |u| and its size in the run, and 1.3 for what interpolation makes of it.
    assert np.abs(asked.u - exact).max() <= 6.0 * rtol
    assert np.array_equal(kept(times), asked.u)
    # What follows within a thousandth of a step comes from the equations alone, what follows within a
    # hundredth from these and the polynomial, whose errors are up to 1,000 times the tolerance.
    for rate, most in ((1e5, 20.0), (1e3, 200.0)):
        free = ds.solve(driven(rate), **settings)
        assert np.abs(free.u[:, 0] - np.sin(free.t)).max() < 20.0 * rtol
        if rtol < 1e-9:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                error = np.abs(free(times) - exact).max()
            assert error <= (most if told else 6.0) * rtol
            for warning in told:
                assert re.search("between them y.* off by up to .* times the tol", str(warning.message))
            assert told or rate < 1e4 or sweeper is None


@pytest.mark.parametrize("index", [1, 2])
@pytest.mark.parametrize(("leak", "bend"), [(1.0, 3.0), (0.1, 8.0), (0.01, 50.0), (0.001, 50.0)])
def test_a_fast_current_does_not_spoil_what_it_flows_through(leak: float, bend: float, index: int) -> None:
    def node(t: Any, u: Any, du: Any) -> list[Any]:
        """An inductor to a node with a diode that leaks; the voltage v of the node is nearly sin t."""
        v, current, source, charging = u
        capacitor = du[2] - charging if index == 2 else source - charging
        diode = current - 1e-6 * (v + leak * np.tanh(bend * v))
        return [diode, 0.1 * du[1] + v - source, source - np.sin(t), capacitor]

    times, start = np.linspace(0.0, 10.0, 301), dict(v=0.0, current=0.0, source=0.0, charging=index - 1.0)
    solution = ds.solve(node, u0=start, t_end=10.0, rtol=1e-8, t_eval=times)
    assert solution.success and solution.equations.at_ends == (index == 2)
    slope = 1e-6 * (1.0 + leak * bend / np.cosh(bend * np.sin(times)) ** 2) * np.cos(times)
    assert np.abs(solution.values("v") - (np.sin(times) - 0.1 * slope))[1:].max() <= 10.0 * 1e-8


def test_errors_of_values_that_are_not_corrected_are_asked_for_the_size_of_their_step(
    monkeypatch: Any,
) -> None:
    sizes: list[float] = []

    def errors(self: Any, t: float, u: Any, du: Any, h: float) -> Any:
        sizes.append(h)
        return np.zeros(len(u))

    monkeypatch.setattr(HiddenConstraints, "correct", lambda self, t, u, du, h: np.zeros(len(t), dtype=bool))
    monkeypatch.setattr(PointwiseEquations, "errors", errors)

    def capacitor(t: Any, u: Any, du: Any) -> list[Any]:
        return [u[0] - np.sin(t), du[0] - u[1]]

    times = np.linspace(0.0, 1.0, 5)
    solution = ds.solve(capacitor, u0=dict(voltage=0.0, current=1.0), t_end=1.0, rtol=1e-6, t_eval=times)
    assert "interpolated" in solution.message
    assert len(sizes) == 5 and min(sizes) > 0.0


DENSE = ("car-axis", "chemical-akzo-nobel", "hires", "pendulum", "robertson", "simple", "two-transistor")


@pytest.mark.parametrize("name", DENSE)
def test_compiled_corrections_are_those_of_numpy(name: str) -> None:
    from dae_sdc.compiled.pointwise import MachinePoints

    problem, solution = PROBLEMS[name](), ds.solve(name, rtol=1e-6, dense=True)
    rng, sizes = np.random.default_rng(3), np.abs(solution.u).max(axis=0)
    times = np.sort(rng.uniform(solution.t[0], solution.t[-1], 60))
    values, slopes = solution.dense(times), solution.dense.derivative(times)
    values += 1e-9 * sizes * rng.standard_normal(values.shape)
    results = []
    for way in (PointwiseEquations, MachinePoints):
        u, du = values.copy(), slopes.copy()
        done = way(problem, sizes).correct(times, u, du, solution.dense.sizes_at(times))
        results.append((done, u))
    (done, u), (done_too, u_too) = results
    np.testing.assert_array_equal(done, done_too)
    assert done.mean() > 0.9
    # Both iterations end where changes are below 1e-13 of the sizes.
    assert (np.abs(u - u_too)[done] <= 1e-12 * sizes).all()


class Tiny(ds.ProblemDAE):
    """y' = -y, z = y^2, the second equation in units in which its pivot looks like rounding."""

    index = 1

    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=1, n_alg=1, **settings)

    @staticmethod
    def residual_kernel(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = du[0] + u[0]
        out[1] = 1e-25 * (u[1] - u[0] ** 2)

    @staticmethod
    def jacobian_kernel(t: float, u: Any, du: Any, c: float, p: Any, out: Any) -> None:
        out[0], out[1] = 1.0 + c, 0.0
        out[2], out[3] = -2e-25 * c * u[0], 1e-25 * c


def test_what_compiled_code_takes_for_singular_is_done_in_python() -> None:
    from dae_sdc.compiled.pointwise import MachinePoints

    problem, sizes = Tiny(), np.ones(2)
    times = np.array([0.1, 0.2])
    u, du = np.array([[0.9, 0.5], [0.8, 0.1]]), np.zeros((2, 2))
    done = MachinePoints(problem, sizes).correct(times, u, du, np.full(2, 0.1))
    assert done.all()
    np.testing.assert_allclose(u, [[0.9, 0.81], [0.8, 0.64]], rtol=1e-12)
    np.testing.assert_allclose(du[:, 0], [-0.9, -0.8], rtol=1e-12)
