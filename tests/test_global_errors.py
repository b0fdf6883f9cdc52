"""Runs of IDA and CVODE are right in every unknown, or say in which they are not."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.model.functions import problem_of_function
from dae_sdc.run.solution import MOST_INACCURATE, estimated, inaccurate, not_estimated
from dae_sdc.run.sundials import with_algebraic_slopes

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("sksundae") is None, reason="scikit-sundae is not installed"
)

CAPACITY, INDUCTANCE = 1e-6, 0.14
FREQUENCY = 1.0 / np.sqrt(INDUCTANCE * CAPACITY)


def oscillating_circuit(t: Any, u: Any, du: Any) -> list[Any]:
    """A coil and a capacitor in V, A and s, and the voltage of the capacitor once more."""
    voltage, current, copy = u
    return [CAPACITY * du[0] - current, INDUCTANCE * du[1] + voltage, copy - voltage]


def capacitor_at_a_source(t: Any, u: Any, du: Any) -> list[Any]:
    """A source sin(t) with a capacitor and a resistor beside it, and a charge that its current collects."""
    voltage, current, charge = u
    return [du[0] + 0.5 * voltage - current, voltage - np.sin(t), du[2] + charge - current]


def unstable(t: Any, u: Any, du: Any) -> list[Any]:
    """Errors of 'x' grow by exp(20 t), and those of 'y' decay."""
    return [du[0] - 20.0 * (u[0] - np.sin(t)) - np.cos(t), du[1] + u[1]]


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
def test_small_currents_of_a_circuit_do_not_spoil_its_voltages(rtol: float) -> None:
    # A current of rtol amperes is a voltage of (L / C)^(1/2) rtol = 374 rtol.
    start = {"e": 1.0, "i": 0.0, "copy": 1.0}
    solution = ds.solve(oscillating_circuit, u0=start, t_end=0.01, rtol=rtol, sweeper="ida")
    voltage = np.cos(FREQUENCY * solution.t)
    assert solution.success and "errors up to" not in solution.message
    for name in ("e", "copy"):
        assert np.abs(solution[name] - voltage).max() < 60.0 * rtol
    current = -CAPACITY * FREQUENCY * np.sin(FREQUENCY * solution.t)
    assert np.abs(solution["i"] - current).max() < 60.0 * rtol * CAPACITY * FREQUENCY


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
def test_unknowns_outside_the_error_test_follow_from_hidden_constraints(rtol: float) -> None:
    start = {"e": 0.0, "i": 1.0, "q": 0.0}
    solution = ds.solve(capacitor_at_a_source, u0=start, t_end=3.0, rtol=rtol, sweeper="ida")
    assert solution.success and "errors up to" not in solution.message
    current = np.cos(solution.t) + 0.5 * np.sin(solution.t)
    assert np.abs(solution["i"] - current).max() < 1e-11  # i = d/dt sin(t) + sin(t) / 2, without an integral
    between = np.linspace(0.1, 2.9, 57)
    assert np.abs(solution(between)[:, 1] - np.cos(between) - 0.5 * np.sin(between)).max() < 1e-11


@pytest.mark.parametrize("solver", ["ida", "cvode"])
def test_an_unknown_whose_errors_grow_is_named_and_no_other(solver: str) -> None:
    start = {"x": 0.0, "y": 1.0}
    solution = ds.solve(unstable, u0=start, t_end=1.0, rtol=1e-6, sweeper=solver)
    # Of an error of the first step of 1e-8, the smallest tolerance of the three, exp(20) = 5e8 times is left.
    assert solution.success and np.abs(solution["x"] - np.sin(solution.t)).max() > 1e-3
    assert solution.message.startswith("x: errors up to ")
    assert np.abs(solution["y"] - np.exp(-solution.t)).max() < 60e-6
    alone = ds.solve(unstable, u0=start, t_end=1.0, rtol=1e-6, sweeper=solver, global_error=False)
    assert alone.message == "" and alone.stats["rhs"] < solution.stats["rhs"]


def test_slopes_of_algebraic_unknowns_are_those_of_their_equations() -> None:
    def equations(t: Any, u: Any, du: Any) -> list[Any]:
        return [du[0] - u[1], u[1] - np.sin(2.0 * t) - u[0] ** 2]

    problem = problem_of_function(equations, {"x": 0.5, "z": 0.25})
    # z' = 2 cos(2 t) + 2 x x' with x' = z = 0.25 at t = 0.
    found = with_algebraic_slopes(problem, np.array([0.5, 0.25]), np.array([0.25, 0.0]), 0.0, 1.0)
    assert found == pytest.approx([0.25, 2.25], abs=1e-6)


def test_errors_are_held_against_the_tolerance_of_each_unknown() -> None:
    coarse, fine = np.zeros((2, 3)), np.array([[1e-3, 1e-5, np.nan], [0.0, 0.0, 0.0]])
    errors = estimated(coarse, fine)
    assert errors[0].tolist() == [5e-4, 5e-6, np.inf] and not errors[1].any()
    said = inaccurate(("a", "b", "c"), errors, np.full((2, 3), 1e-6), 1e-6)
    assert said.startswith("c, a: errors up to inf")
    assert inaccurate(("b",), errors[:, 1:2], np.full((2, 1), 1e-6), 1e-6) == ""
    # An error of the voltage that is allowed and one of the current that is not, though it is the smaller.
    allowed, errors = np.tile([1e-6, 1e-12], (2, 1)), np.array([[2e-6, 0.0], [0.0, 1e-9]])
    said = inaccurate(("voltage", "current"), errors, allowed, 1e-6)
    assert said.startswith("current: errors up to 1e-09, 1e+03 times what rtol=1e-06 allows")
    many = [f"u{k}" for k in range(MOST_INACCURATE + 7)]
    assert " and 7 more: errors up to any size" in not_estimated(many, "why")


def test_sweepers_refuse_it() -> None:
    with pytest.raises(ds.InputError, match="global_error belongs to the sweepers 'ida' and 'cvode'"):
        ds.solve("pendulum", rtol=1e-6, global_error=True)
