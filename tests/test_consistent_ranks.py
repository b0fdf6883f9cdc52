"""Ranks, index and degrees of freedom count where the constraints hold; calls in any order; invariants."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import sympy as sp

import dae_sdc as ds
from dae_sdc.errors import InconsistentStateError, InputError
from dae_sdc.structure.consistent import general_values


def factor_that_vanishes() -> ds.Model:
    """z has a factor that is 0 where x = sin t: index 3, nothing free; x = sin, y = cos, z = -sin."""
    model = ds.Model("factor that vanishes")
    x, y, z = model.variables("x y z", start=[0.0, 1.0, 0.0])
    sine, der = sp.sin(model.t), model.der
    model.equations(der(x) - y + z * (x - sine), x - sine, der(y) - z)
    return model


def singular_everywhere() -> ds.Model:
    model = ds.Model("singular everywhere")
    x, y = model.variables("x y", start=[1.0, 0.0])
    der, t = model.der, model.t
    model.equations(der(x) + der(y) + x - sp.sin(t), der(x) + der(y) + y - sp.cos(t))
    return model


def pendulum() -> tuple[ds.Model, sp.Expr]:
    """A pendulum and its energy."""
    model = ds.Model("pendulum")
    x, y, tension = model.variables("x y tension", start=[0.6, -0.8, 0.0])
    der, g = model.der, sp.Rational(981, 100)
    model.equations(der(x, 2) + tension * x, der(y, 2) + tension * y + g, x**2 + y**2 - 1)
    return model, der(x) ** 2 / 2 + der(y) ** 2 / 2 + g * y + g * sp.Rational(4, 5)


def test_index_and_freedom_are_those_where_the_constraints_hold() -> None:
    found = ds.structure(factor_that_vanishes())
    assert (found.differentiation_index, found.true_dof) == (3, 0)
    assert not found.regular
    assert found.test is not None
    assert found.test.rank == 2


def test_a_value_that_only_random_points_allow_is_refused() -> None:
    with pytest.raises(InconsistentStateError, match="z"):
        ds.initial(factor_that_vanishes(), fixed={"z": 0.7})


def test_the_repair_of_what_is_singular_on_the_constraints_has_the_true_freedom() -> None:
    found = ds.repair(factor_that_vanishes())
    assert found.structure.regular
    assert found.structure.dof == 0
    values = ds.initial(found.model).values
    assert [values[name] for name in "xyz"] == pytest.approx([0.0, 1.0, 0.0], abs=1e-9)


def test_a_separation_that_would_divide_by_what_vanishes_is_refused() -> None:
    with pytest.raises(InputError, match="singular where the constraints hold"):
        ds.reduce(factor_that_vanishes(), method="separation")


def test_a_start_at_a_singular_point_does_not_hide_the_general_rank() -> None:
    # Both bars lie on the x-axis: the derivatives of the constraints are parallel there, and nowhere else.
    model = ds.Model("slider")
    a, b, x, force, other = model.variables("a b x f g", start=[0.0, 0.0, 2.0, 0.0, 0.0])
    der = model.der
    first, second = sp.cos(a) + sp.cos(b) - x, sp.sin(a) + sp.sin(b)
    model.equations(
        der(a, 2) + force * sp.sin(a) - other * sp.cos(a),
        der(b, 2) + force * sp.sin(b) - other * sp.cos(b),
        der(x, 2) + force,
        first,
        second,
    )
    found = ds.structure(model, differentiation=False)
    assert found.regular
    assert (found.index, found.dof) == (3, 2)


def test_ranks_of_a_random_point_are_called_so() -> None:
    model = ds.Model("no real point")
    x, y, z = model.variables("x y z")
    model.equations(model.der(x) - y + z * x, x**2 + y**2 + 1, model.der(y) - z)
    assert any("random point" in text for text in ds.structure(model).warnings)


def test_new_unknowns_of_a_repair_follow_from_the_guesses_of_the_others() -> None:
    model = ds.Model("pencil")
    x, y, z = model.variables("x y z")
    der, t = model.der, model.t
    c = sp.cos(t) / 2

    def equations(x: sp.Expr, y: sp.Expr, z: sp.Expr, rate: object) -> list[sp.Expr]:
        assert callable(rate)
        both = rate(y) + rate(z) - x * c + y + 2 * z
        return [both + (y + z) * c, both + x, -x * c + x + z]

    exact = sp.sin(t) + 1, sp.cos(t), sp.sin(2 * t) + 2
    forced = equations(*exact, lambda e: sp.diff(e, t))
    model.equations(*(a - b for a, b in zip(equations(x, y, z, der), forced, strict=True)))
    found = ds.initial(ds.repair(model).model, guesses={"x": 1.0, "y": 1.0, "z": 2.0})
    assert [found.values[name] for name in "xyz"] == pytest.approx([1.0, 1.0, 2.0], abs=1e-9)
    assert not found.changed


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("t0", [0.0, math.pi / 2.0])
def test_a_repair_divides_by_nothing_that_vanishes_where_the_search_begins(t0: float, swapped: bool) -> None:
    model = ds.Model("turning", interval=(t0, 4.0))
    x, y = model.variables("x y")
    t = model.t

    def equations(x: Any, y: Any, rate: Any) -> list[Any]:
        along = sp.cos(t) * rate(x) + sp.sin(t) * rate(y) + x + 2 * y
        return [along, sp.sin(2 * t) * along + sp.cos(t) * y - sp.sin(t) * x]

    exact = sp.sin(3 * t) + 2, sp.cos(2 * t) / 2
    forced = equations(*exact, lambda e: sp.diff(e, t))
    rows = [a - b for a, b in zip(equations(x, y, model.der), forced, strict=True)]
    model.equations(*(reversed(rows) if swapped else rows))
    known = {name: float(e.subs(t, t0)) for name, e in zip("xy", exact, strict=True)}
    found = ds.initial(model, guesses=known)
    assert not found.changed
    assert found.values["der(x)"] == pytest.approx(float(sp.diff(exact[0], t).subs(t, t0)), abs=1e-9)
    assert found.values["der(y)"] == pytest.approx(float(sp.diff(exact[1], t).subs(t, t0)), abs=1e-9)


def test_a_factor_that_is_no_more_than_round_off_does_not_make_a_block_regular() -> None:
    model = ds.Model("rounded")
    x, y, a, b, c = model.variables("x y a b c")
    value = sp.Rational(7, 10) + sp.sin(model.t) / 3
    none = x - value  # vanishes with the first equation, but for the error of its cubic root
    model.equations(x**3 + x - value**3 - value, y - model.der(x))
    model.equations(a + none * b - c, a + 2 * none * b - sp.cos(model.t), model.der(c) + b)
    found = ds.structure(model)
    assert (found.rank, found.true_dof) == (4, 0)  # a = c = cos t, b = sin t
    assert ds.repair(model).structure.dof == 0


CALLS = {
    "initial": ds.initial,
    "repair": ds.repair,
    "stages": lambda model: ds.reduce(model, method="stages").problem(),
    "separation": lambda model: ds.reduce(model, method="separation").problem(),
}


@pytest.mark.parametrize("order", list(permutations(CALLS, 2)))
def test_the_order_of_calls_does_not_matter(order: tuple[str, ...]) -> None:
    model = singular_everywhere()
    for name in order:
        CALLS[name](model)


def test_derivatives_that_cancel_as_they_are_written_are_no_unknowns() -> None:
    model = ds.Model("cancels")
    x, y, z = model.variables("x y z", start=[1.0, 2.0, 2.0])
    der = model.der
    model.equations(der(x) - y, der(y) + y - z, y * (der(y, 2) + z) - y * der(y, 2) - y * x - y)
    for name in ("auto", "separation", "fraction-free", "stages"):
        problem = ds.reduce(model, method=name).problem()
        assert np.isfinite(problem.evaluate(problem.state(np.ones(problem.n)), np.ones(problem.n), 0.0)).all()


@pytest.mark.parametrize("method", ["separation", "stages"])
def test_an_invariant_that_changes_is_refused_with_its_rate(method: str) -> None:
    model, energy = pendulum()
    assert "energy" in ds.reduce(model, method=method, invariants={"energy": energy}).invariant_names
    x = model.symbol(model.graph.leaves[model.graph.variable(0)])
    for wrong in (energy + x / 10, x - sp.Rational(3, 5)):
        with pytest.raises(InputError, match=r"energy is no invariant .* changes at a rate of"):
            ds.reduce(model, method=method, invariants={"energy": wrong})


@pytest.mark.parametrize("guess", [(3.0, 0.7, 0.5), (3.1, 0.3, -1.0), (3.2, 1.5, 0.5), (3.5, 0.6, 2.0)])
@pytest.mark.parametrize("repaired", [False, True])
def test_a_start_satisfies_the_equations_that_a_repair_has_replaced(
    repaired: bool, guess: tuple[float, ...]
) -> None:
    model = ds.Model("mixed")
    x, y, z = model.variables("x y z", start=guess)
    first, second = model.der(y) + y - z, model.der(x) + x - z - 1
    second += sp.cos(y) * first / 2
    first += sp.sin(x) * second / 2  # Where sin(x) = 0 what takes the place of the second does not tell it.
    model.equations(x * y - 2 + sp.sin(y) * first + sp.sin(x) * second / 3, first, second)
    found = ds.initial(ds.repair(model).model if repaired else model, restarts=0)
    x, y, z = (found.values[name] for name in "xyz")
    assert x * y == pytest.approx(2.0, abs=1e-8)
    assert z * (x + y) + y == pytest.approx(2.0 * x * y, abs=1e-8)  # the derivative of x y = 2 without rates


def test_all_starts_satisfy_the_equations_that_a_repair_has_replaced() -> None:
    model = ds.Model("mixed")
    x, y, z = model.variables("x y z", start=[3.0, 0.7, 0.5])
    first, second = model.der(y) + y - z, model.der(x) + x - z - 1
    second += y * first / 2
    first += (x - 3) * second
    model.equations(x * y - 2 + (y - 1) * first + (x - 3) * second, first, second)
    found = ds.initial(model, fixed={"z": 0.5}, all_solutions=True)
    # With x y = 2 and z (x + y) + y = 2 x y, 3 y^2 - 8 y + 2 = 0; at y = 1 what was replaced does not follow.
    values = sorted(solution["y"] for solution in found.solutions)
    assert values == pytest.approx([(4.0 - math.sqrt(10.0)) / 3.0, (4.0 + math.sqrt(10.0)) / 3.0], abs=1e-9)


@pytest.mark.parametrize("smooth", [True, False])
def test_whether_equations_are_analytic_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, smooth: bool
) -> None:
    model = ds.Model("one")
    x, k = model.variable("x"), model.parameter("k", 1.0)
    model.equations(model.der(x) + k * (x if smooth else sp.Abs(x)))
    looked_at: list[Any] = []
    below = model.graph.below
    monkeypatch.setattr(model.graph, "below", lambda nodes: looked_at.append(nodes) or below(nodes))
    one, other, far = (general_values(model, [value]) for value in (1.0, 1.5, -1.0))
    assert (one == other) == smooth and one != far and len(looked_at) == 1
    model.equations(model.variable("y") - sp.Abs(x))  # more equations are looked at again
    assert general_values(model, [1.0]) != general_values(model, [1.5])
