"""Starts that are the only ones by their blocks, and those of which others are not looked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy as sp

import dae_sdc as ds
from dae_sdc.initial.solver import Solver
from dae_sdc.jets.scalars import Ranges, values_of

COUNT = 30
NAMES = tuple(f"{kind}{k}" for kind in "xy" for k in range(COUNT))
STATES = {f"x{k}": 0.1 + 0.03 * k for k in range(COUNT)}
RUN: dict[str, Any] = {"t_end": 1e-3, "rtol": 1e-6}


def rising(t: float, u: Any, du: Any) -> Any:
    """Each y follows from an x and the y before it by an equation that rises."""
    x, y = u[:COUNT], u[COUNT:]
    rows = [du[k] + x[k] - y[k] for k in range(COUNT)]
    before = [0.0, *(y[k] for k in range(COUNT - 1))]
    return [*rows, *(y[k] + np.exp(y[k]) - x[k] - 0.1 * before[k] for k in range(COUNT))]


def ring(t: float, u: Any, du: Any) -> Any:
    """The squares of all y are coupled, so that each of them may have either sign."""
    x, y = u[:COUNT], u[COUNT:]
    rows = [du[k] + x[k] - y[k] for k in range(COUNT)]
    return [*rows, *(y[k] ** 2 + 0.1 * y[(k + 1) % COUNT] - 1.0 - x[k] ** 2 for k in range(COUNT))]


def root(function: Any, low: float, high: float) -> float:
    """The zero of a function that rises, by bisection."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(middle) < 0.0 else (low, middle)
    return 0.5 * (low + high)


def of_functions(equations: Any) -> Any:
    return ds.FunctionProblem(equations, 2 * COUNT, names=NAMES)


def of_models(equations: Any) -> Any:
    model = ds.Model("many", interval=(0.0, 1.0))
    unknowns = model.variables(list(NAMES))
    slopes = [model.der(x) for x in unknowns[:COUNT]]
    if equations is rising:  # NumPy's functions do not take symbols
        x, y, before = unknowns[:COUNT], unknowns[COUNT:], [0, *unknowns[COUNT:-1]]
        model.equations(*(slope + a - b for slope, a, b in zip(slopes, x, y, strict=True)))
        model.equations(*(b + sp.exp(b) - a - c / 10 for a, b, c in zip(x, y, before, strict=True)))
    else:
        model.equations(*equations(0.0, unknowns, slopes))
    return model


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the searches for other solutions that were begun."""
    begun: list[str] = []
    for name in ("others", "nearer"):
        search = getattr(Solver, name)

        def counted(solver: Any, *args: Any, name: str = name, search: Any = search) -> Any:
            begun.extend([name] if solver.restarts else [])
            return search(solver, *args)

        monkeypatch.setattr(Solver, name, counted)
    return begun


@pytest.mark.parametrize("of", [of_functions, of_models])
def test_no_others_are_looked_for_where_each_block_has_one_solution(of: Any, searches: list[str]) -> None:
    start = ds.initial(of(rising), fixed=STATES)
    before = 0.0
    for k in range(COUNT):
        right = STATES[f"x{k}"] + 0.1 * before
        before = root(lambda y, right=right: y + math.exp(y) - right, -5.0, 5.0)  # type: ignore[misc]
        assert start[f"y{k}"] == pytest.approx(before, abs=1e-12)
    assert start.unique and len(start.solutions) == 1 and not start.remarks
    run = ds.solve(of(rising), u0=STATES, **RUN)
    assert run.u[0] == pytest.approx(start.u, abs=1e-12) and "looked for" not in run.message
    assert not searches


@pytest.mark.parametrize("of", [of_functions, of_models])
def test_a_run_that_is_given_some_of_many_unknowns_tells_that_others_were_not_looked_for(
    of: Any, searches: list[str]
) -> None:
    run = ds.solve(of(ring), u0=STATES, guesses={"y*": 1.0}, **RUN)
    x, y = np.split(run.u[0], 2)
    assert list(x) == list(STATES.values()) and (y > 0.0).all()
    assert y**2 + 0.1 * np.roll(y, -1) == pytest.approx(1.0 + x**2, abs=1e-9)
    assert "other solutions were not looked for" in run.message
    assert not searches


def test_starts_of_fewer_unknowns_are_still_told_with_their_number() -> None:
    def two(t: float, u: Any, du: Any) -> Any:
        return [du[0] - u[1], u[1] ** 2 - u[0]]

    problem = ds.FunctionProblem(two, 2, names=("x", "y"))
    run = ds.solve(problem, u0={"x": 4.0}, guesses={"y": 1.0}, **RUN)
    assert run.u[0].tolist() == pytest.approx([4.0, 2.0]) and "nearest of 2 starts" in run.message


@pytest.mark.parametrize(
    ("equation", "bounds", "values"),
    [
        (lambda y: y**2 - 4.0, None, [-2.0, 2.0]),
        (lambda y: y**2 - 4.0, {"y": (0.0, None)}, [2.0]),
        # It rises on either side of its pole, and has a zero on each.
        (lambda y: y - 1.0 / y, None, [-1.0, 1.0]),
        (lambda y: y - 1.0 / y, {"y": (0.5, 5.0)}, [1.0]),
        (lambda y: y**3 - 3.0 * y, None, [-math.sqrt(3.0), 0.0, math.sqrt(3.0)]),
        (lambda y: y**3 + 3.0 * y - 4.0, None, [1.0]),
    ],
)
def test_an_equation_that_rises_or_falls_within_bounds_has_one_solution(
    equation: Any, bounds: Any, values: list[float], searches: list[str]
) -> None:
    problem = ds.FunctionProblem(lambda t, u, du: [du[0] - u[1], equation(u[1])], 2, names=("x", "y"))
    start = ds.initial(problem, fixed={"x": 1.0}, guesses={"y": 1.2}, bounds=bounds)
    assert sorted(one["y"] for one in start.solutions) == pytest.approx(values, abs=1e-9)
    assert ("others" in searches) == (len(values) > 1)


x = sp.Symbol("x")
RANGES = [
    (1 + x**2, (-math.inf, math.inf), (1.0, math.inf)),
    (x * sp.exp(x), (0.0, 1.0), (0.0, math.e)),
    (1 / (1 + x**2), (-math.inf, math.inf), (0.0, 1.0)),
    (x**3 - 2, (-1.0, 2.0), (-3.0, 6.0)),
    (x**4, (-2.0, 1.0), (0.0, 16.0)),
    (sp.log(1 + sp.exp(x)), (0.0, math.inf), (math.log(2.0), math.inf)),
    (1 / x, (-1.0, 1.0), None),
    (x**-2, (0.0, 1.0), None),
    (sp.log(x), (-1.0, 1.0), None),
    (sp.Max(x, 1), (0.0, 3.0), None),
    (sp.sin(x) + 3, (-math.inf, math.inf), (2.0, 4.0)),
]


@pytest.mark.parametrize(("expression", "within", "expected"), RANGES)
def test_ranges_hold_all_values_and_are_unknown_with_poles_and_kinks(
    expression: Any, within: tuple[float, float], expected: Any
) -> None:
    model = ds.Model("range")
    unknown = model.variable("x")
    nodes = model.nodes([expression.subs(x, unknown)])
    with np.errstate(all="ignore"):
        found = values_of(model.graph, nodes, Ranges(lambda leaf: within))
    assert found is None if expected is None else found == [pytest.approx(expected)]
