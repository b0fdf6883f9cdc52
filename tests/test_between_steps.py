"""Values at times between the steps satisfy the equations there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds

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
    solution = ds.solve(problem, rtol=1e-4, t_end=1.0 if problem != "two-transistor" else 0.02)
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
