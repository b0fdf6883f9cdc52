"""Plain functions of high index, and such whose coefficients change, with nothing declared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.run.equations import read

# Pendula of which the tension of each sets the length of the next, from rest at 1 rad: values at t = 0, and
# at t = 10 by a Taylor series with 40 digits.
FIRST = [
    [8.414709848078965, 5.403023058681397, 0.0, 0.0, 0.529496259750777],
    [8.459265421993424, 5.431631863690587, 0.0, 0.0, 0.5064138062604681],
    [8.457323100506397, 5.430384713405997, 0.0, 0.0, 0.5064179740393819],
    [8.457323451212899, 5.430384938592052, 0.0, 0.0, 0.5063643384566586],
    [8.457318937934238, 5.43038204064915, 0.0, 0.0, 0.5063585583971181],
]
LAST = [
    [-8.362914205348044, 5.482851994536045, -0.6858272362908219, -1.0460822839111563, 0.5529659668920432],
    [-8.33313607999452, 5.627417944286974, -1.1863657061978479, -1.8117360039050345, 0.5720238741231307],
    [-8.308775973342955, 5.666706423150113, -1.1586036744755959, -1.7921942168387917, 0.5751228624473103],
    [-8.309432197997909, 5.666294197695648, -1.1580757877387404, -1.7908026161363182, 0.5750944366928048],
    [-8.30945961228214, 5.6662489498211, -1.1581041882092848, -1.7908254922560676, 0.5750884559535121],
]


def pendula(t: float, u: Any, du: Any) -> Any:
    rows, length = [], 10.0
    for at in range(0, len(u), 5):
        x, y, vx, vy, tension = u[at : at + 5]
        rows += [du[at] - vx, du[at + 1] - vy, du[at + 2] + tension * x, du[at + 3] + tension * y - 9.8]
        rows.append(x**2 + y**2 - length**2)
        length = 10.0 + 0.1 * tension
    return rows


def values(solution: Any, n: int) -> Any:
    """All unknowns at the end, in the order of the function."""
    return np.array([solution.values(f"u[{i}]")[-1] for i in range(n)])


@pytest.mark.parametrize("count", range(1, 6))
def test_pendula_that_drive_each_other(count: int) -> None:
    start, end = np.ravel(FIRST[:count]), np.ravel(LAST[:count])
    found = ds.solve(pendula, u0=start, t_end=10.0, rtol=1e-10)
    assert found.success and ("index" in found.message) == (count > 1)
    error = np.abs(values(found, 5 * count) - end) / np.maximum(1.0, np.abs(end))
    assert error.reshape(-1, 5)[:, :4].max() < 1e-8 and error.max() < 1e-7


def chained(n: int) -> tuple[Any, Any]:
    """x_k' + x_{k-1} = sin t, x_n = cos t: the equations, of index n, and their solution."""
    factors = [(0.0, 1.0)]  # of sin t and cos t
    for _ in range(n - 1):
        a, b = factors[0]
        factors.insert(0, (1.0 + b, -a))

    def equations(t: float, u: Any, du: Any) -> Any:
        return [*(du[k] + u[k - 1] - np.sin(t) for k in range(1, n)), u[n - 1] - np.cos(t)]

    return equations, lambda t: np.array(factors) @ [np.sin(t), np.cos(t)]


@pytest.mark.parametrize("n", range(4, 9))
def test_linear_equations_of_high_index(n: int) -> None:
    equations, exact = chained(n)
    found = ds.solve(equations, u0=exact(0.0), t_end=10.0, rtol=1e-10)
    assert found.success and f"index {n} reduced" in found.message
    assert values(found, n) == pytest.approx(exact(10.0), abs=1e-9)


def mixed(size: int, seed: int) -> tuple[Any, Any]:
    """A chain of derivatives in equations and unknowns mixed by matrices of 16 digits, and its solution."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.normal(size=(size, size)))[0] for _ in range(2))
    E, A = left @ np.eye(size, k=1) @ right, left @ right

    def exact(t: float, order: int = 0) -> Any:
        return np.sin(t + np.arange(size) + order * np.pi / 2.0)

    def equations(t: float, u: Any, du: Any) -> Any:
        phases = np.arange(size)
        return E @ (du - np.cos(t + phases)) + A @ (u - np.sin(t + phases))

    return equations, exact


@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("seed", range(3))
def test_numbers_that_are_rounded_hide_no_constraint(seed: int, trace: bool | None) -> None:
    equations, exact = mixed(5, seed)
    found = ds.solve(equations, u0=exact(0.0), t_end=1.0, rtol=1e-8, trace=trace)
    assert found.success and "index 5 reduced" in found.message
    assert found.names[:5] == tuple(f"u[{i}]" for i in range(5))
    assert values(found, 5) == pytest.approx(exact(1.0), abs=1e-7)


def turning(t: float, u: Any, du: Any) -> Any:
    """Linear equations of index 3 in unknowns that turn with time; the solution is that of :func:`turned`."""
    c, s = np.cos(3.0 * t), np.sin(3.0 * t)
    turn = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
    rate = 3.0 * np.array([[-s, 0.0, c], [0.0, 0.0, 0.0], [-c, 0.0, -s]])
    off, slope = u - turned(t), du - np.array([np.cos(t), -np.sin(t), 2.0 * np.cos(2.0 * t)])
    return np.eye(3, k=1) @ (turn @ slope + rate @ off) + turn @ off


def turned(t: float) -> Any:
    return np.array([np.sin(t), np.cos(t), np.sin(2.0 * t)])


@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
def test_derivatives_in_combinations_that_change(rtol: float, trace: bool | None) -> None:
    found = ds.solve(turning, u0=turned(0.0), t_end=2.0, rtol=rtol, trace=trace)
    assert found.success and "index 3 reduced to 1 first" in found.message
    assert np.abs(found.u - np.array([turned(t) for t in found.t])).max() <= 10.0 * rtol


class Turning(ds.ProblemDAE):
    """The turning equations as a class."""

    interval = (0.0, 2.0)

    def __init__(self, **settings: Any) -> None:
        super().__init__(3, 0, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return turning(t, u, du)


def test_an_exact_start_at_which_all_terms_of_unknowns_vanish() -> None:
    found = ds.solve(Turning, u0=turned(0.0), rtol=1e-6, reduce=True)
    assert found.success and np.abs(found.u[-1] - turned(2.0)).max() < 1e-6


@pytest.mark.parametrize("trace", [None, False])
def test_the_index_of_equations_that_turn_is_found(trace: bool | None) -> None:
    from dae_sdc.run.equations import with_index

    reading = read(Turning(), turned(0.0), trace)
    assert (reading if trace is None else with_index(reading)).problem.index == 3


def overestimated(t: float, u: Any, du: Any) -> Any:
    """Equations of index 1 whose offsets say 3 (Reissig, Martinson, Barton)."""
    return [
        du[1] + du[2] + u[0] - np.cos(t),
        du[1] + du[2] + u[1] - np.cos(t),
        du[3] + du[4] + u[2] - np.cos(t),
        du[3] + du[4] + u[3] - np.cos(t),
        u[4] - np.cos(t),
    ]


def test_offsets_that_differentiate_more_than_is_needed() -> None:
    found = ds.solve(overestimated, u0=[0.0, 0.0, 0.0, 0.0, 1.0], t_end=10.0, rtol=1e-8, trace=False)
    assert found.success and "index 1 by its Jacobians" in found.parameters["equations"]
    exact = np.array([0.0, 0.0, np.sin(10.0), np.sin(10.0), np.cos(10.0)])
    assert found.u[-1] == pytest.approx(exact, abs=1e-6)


def test_reduction_by_differences_can_be_switched_off_and_needs_linear_equations() -> None:
    plain = ds.solve(turning, u0=turned(0.0), t_end=2.0, rtol=1e-6, trace=False, reduce=False)
    assert not plain.success and "index" in plain.message

    def bent(t: float, u: Any, du: Any) -> Any:
        off = u + 0.1 * u**2 - turned(t) - 0.1 * turned(t) ** 2
        return turning(t, u, du) + off * off

    found = ds.solve(bent, u0=turned(0.0), t_end=2.0, rtol=1e-6, trace=False)
    assert "reduced" not in found.message


@pytest.mark.parametrize("trace", [None, False])
def test_a_start_that_violates_hidden_constraints_is_refused(trace: bool | None) -> None:
    equations, exact = mixed(5, 0)
    with pytest.raises(ds.InconsistentStateError, match="violates"):
        ds.solve(equations, u0=exact(0.0) + 1e-4 * np.arange(5), t_end=1.0, rtol=1e-8, trace=trace)
