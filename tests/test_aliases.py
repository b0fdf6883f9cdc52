"""Models without trivial equations: the same solutions, and the way back to all unknowns."""

from __future__ import annotations

import doctest
import itertools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import sympy

import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.symbolic import aliases
from dae_sdc.symbolic.aliases import Simplified, simplify
from dae_sdc.symbolic.model import Model


def model_of(names: str, *equations: str, **starts: float) -> Model:
    """A model of equations in text, with der(x) for derivatives and R, S as parameters."""
    model = Model("m")
    symbols = {name: model.variable(name, starts.get(name)) for name in names.split()}
    symbols |= {name: model.parameter(name, value) for name, value in (("R", 3.0), ("S", None))}
    for number, text in enumerate(equations):
        model.equation(sympy.sympify(text, {**symbols, "der": model.der}), name=f"e{number}")
    return model


def told(found: Simplified) -> set[str]:
    return {str(removed) for removed in found.map.values()}


def test_the_example_holds() -> None:
    assert doctest.testmod(aliases).failed == 0


@pytest.mark.parametrize(
    ("equations", "expected", "kind"),
    [
        (("v", "der(x) + x + v"), "v = 0", "v = 0"),
        (("2*v - 3", "der(x) + x + v"), "v = 3/2", "u = const"),
        (("v - R**2", "der(x) + x + v"), "v = R**2", "u = const"),
        (("v - sqrt(2)", "der(x) + x + v"), "v = sqrt(2)", "u = const"),
        (("x - v", "der(x) + x + v"), "v = x", "u = v"),
        (("x + v", "der(x) + x**2 + v"), "v = -x", "u = -v"),
        (("v - der(x)", "sin(v) + x + v"), "v = der(x)", "w = der(z)"),
        (("2*x - 3*v + 5", "der(x) + x + v"), "v = 2*x/3 + 5/3", "u = a v + b"),
        (("v - x*(x + 1) + x**2", "der(x) + x + v"), "v = x", "u = v"),  # trivial, though it does not look so
    ],
)
def test_trivial_equations_of_every_kind(equations: Sequence[str], expected: str, kind: str) -> None:
    found = simplify(model_of("x v", *equations))
    assert told(found) == {expected} and found.map["v"].kind == kind
    assert found.model.names == ("x",) and found.model.equation_names == ("e1",)
    assert found.removed_equations == ("e0",)
    assert {name for name, count in found.counts().items() if count} == {kind}


@pytest.mark.parametrize(
    "equation",
    [
        "v - R*x",
        "v - x - t",
        "v - sin(x)",
        "der(v) - der(x)",
        "v - floor(x)",
        "v - Abs(x)",
        "v - x/S",
        "v*x - 1",
    ],
)
def test_what_is_not_trivial_stays_as_it_is(equation: str) -> None:
    model = model_of("x v", equation, "der(x) + x*v + v**3")
    found = simplify(model)
    assert not found.map and found.model.expressions == model.expressions
    assert "removed: nothing" in found.report()


def test_equations_become_trivial_as_others_are_used() -> None:
    found = simplify(model_of("x a b c", "der(x) + a*x + b + c", "b - c*a", "c - a - x", "a - 1", x=1.0))
    # a = 1 makes c = x + 1 and b = c of the two that were not.
    assert told(found) == {"a = 1", "c = x + 1", "b = x + 1"}
    assert sympy.expand(found.model.expressions[0]) == sympy.expand(
        found.model.der(found.expression("x")) + 3 * found.expression("x") + 2
    )


def test_derivatives_of_what_is_removed() -> None:
    found = simplify(model_of("x v a y", "v - der(x)", "a - der(v)", "y + 2*v - 1", "a + R*x + y**2"))
    assert found.model.names == ("x",)
    der, x = found.model.der, found.expression("x")
    assert found.expression("a") == der(x, 2) and found.expression("der(a)") == der(x, 3)
    assert found.expression("y") == 1 - 2 * der(x) and found.expression("der(y, 2)") == -2 * der(x, 3)
    # The derivative of a constant vanishes, and with it what is added to it.
    assert told(simplify(model_of("x k w", "k - 4", "w - der(k)", "der(x) + w + k"))) == {"k = 4", "w = 0"}


def test_who_is_kept() -> None:
    # Differentiated; then with a start; then the shorter name.
    assert simplify(model_of("a long", "a - long", "der(long) + a")).model.names == ("long",)
    assert simplify(model_of("a long", "a - long", "long**3 - t", long=1.0)).model.names == ("long",)
    assert simplify(model_of("long a", "a - long", "long**3 - t")).model.names == ("a",)


@pytest.mark.parametrize(
    ("equations", "parts"),
    [
        (("u - 1", "u - 2"), ("e1", "contradicts e0;")),
        (("u - v", "v - w", "u - w - 1"), ("e2", "contradicts e0, e1;")),
        (("u - v", "v - u", "w - 1"), ("e1", "says again", "follows from e0;")),
        (("u - v", "v + u - 2", "w - v", "w - 1"), ("e3", "says again", "from e0, e1, e2;")),
        (("u - R", "v - 7", "u - 3"), ("e2", "contradicts e0;")),
        (("u - 2", "v - u", "u*v - 5", "w**2 - 3*w"), ("e2", "contradicts e0, e1;")),
        (("u", "v/u - w", "w - 1"), ("e1", "divides")),
    ],
)
def test_contradictions_and_cycles_are_named(equations: Sequence[str], parts: Sequence[str]) -> None:
    with pytest.raises(InputError) as caught:
        simplify(model_of("u v w", *equations))
    text = str(caught.value)
    assert "\n" not in text and all(part in text for part in parts), text


def test_starts_and_bounds_move_to_the_kept_unknown() -> None:
    model = Model("moved")
    x = model.variable("x", 5.0, minimum=-10.0)
    y = model.variable("y_long", 4.0, fixed=True, minimum=-2.0, maximum=8.0)  # x = -y/2 + 1 = -1
    w = model.variable("w", 7.0, fixed=True)
    model.equations(y - 2 + 2 * x, w - model.der(x), model.der(w) + x)
    kept = simplify(model).model.variables_by_name["x"]
    assert kept.start == {0: -1.0, 1: 7.0} and kept.fixed == {0, 1}
    # -2 <= 2 - 2 x <= 8 is -3 <= x <= 2
    assert (kept.minimum, kept.maximum) == (-3.0, 2.0)


def test_fixed_starts_that_contradict_are_refused() -> None:
    def with_start(value: float, equation: str) -> Model:
        model = model_of("x long", equation, "der(x) + long + x")
        model.start("x", 1.0, fixed=True)
        model.start("long", value, fixed=True)
        return model

    assert simplify(with_start(-1.0, "x + long")).model.variables_by_name["x"].start == {0: 1.0}
    with pytest.raises(InputError, match=r"fixes the starts of x and long.*contradict"):
        simplify(with_start(-2.0, "x + long"))
    with pytest.raises(InputError, match="fixes the start of long at 2, but its equations say long = 3"):
        simplify(with_start(2.0, "long - R"))


def wired_pendulum() -> Model:
    """The pendulum as a tool writes it: 3 equations and 8 trivial ones."""
    m = Model("wired", interval=(0.0, 1.0), dt=0.02)
    x, y, lam = m.variables("x y lambda", start=[1.0, 0.0, 0.0])
    vx, vy, ax, ay = m.variables("vx vy ax ay", start=[0.0, 0.0, 0.0, -9.81])
    rod_x, rod_y, down, off = m.variables("rod_x rod_y down off", start=[1.0, 0.0, 0.0, 0.0])
    g = m.parameter("g", 9.81)
    m.equations(vx - m.der(x), ax - m.der(vx), vy - m.der(y), ay - m.der(vy))
    m.equations(rod_x - x, rod_y - y + off, down + rod_y, off)
    m.equations(ax + lam * rod_x, ay - lam * down + g, rod_x**2 + down**2 - 1)
    return m


def test_the_wired_pendulum_is_the_pendulum() -> None:
    model = wired_pendulum()
    found = simplify(model)
    assert set(found.model.names) == {"x", "y", "lambda"} and len(model.names) == 11
    before, after = ds.structure(model), ds.structure(found.model)
    assert (before.index, before.dof) == (after.index, after.dof) == (3, 2)
    # The same trajectory as that of the 11 equations, on which the energy is 0.
    options: dict[str, Any] = {"sweeper": "radau-iia-5", "dt": 0.01, "t_end": 0.5}
    whole, small = ds.solve(model, **options), ds.solve(found.model, **options)
    values = found.values(small.names, small.u, small.du)
    assert tuple(values) == model.names
    for name in ("x", "y", "vx", "vy", "rod_x", "rod_y", "down", "off"):
        np.testing.assert_allclose(values[name], whole.u[:, whole.names.index(name)], rtol=0, atol=1e-6)
    energy = (values["vx"] ** 2 + values["vy"] ** 2) / 2 + 9.81 * values["y"]
    np.testing.assert_allclose(energy, 0.0, rtol=0, atol=1e-5)
    assert values["y"].min() < -0.5


def test_definitions_of_derivatives_carry_the_index_of_what_is_constrained() -> None:
    # z = sin t tells z without a differentiation; v = z' needs one, a = v' another.
    model = model_of("z v a b", "z - sin(t)", "v - der(z)", "a - der(v)", "b - a")
    whole, kept, bare = model, simplify(model, derivatives=False), simplify(model)
    assert [ds.structure(m).index for m in (whole, kept.model, bare.model)] == [3, 3, 1]
    assert [ds.structure(m).dof for m in (whole, kept.model, bare.model)] == [0, 0, 0]
    assert told(kept) == {"b = a"}
    assert told(bare) == {"v = der(z)", "a = der(z, 2)", "b = der(z, 2)"}


def test_values_say_what_they_lack() -> None:
    found = simplify(model_of("x v k q", "v - der(x)", "k - S", "q - 2*x + R", "v + x**2"))
    with pytest.raises(InputError, match=r"does not tell v = der\(x\).*give du"):
        found.values(("x",), [[1.0], [2.0]], parameters={"S": 1.0})
    with pytest.raises(InputError, match="parameter S of model m has no value"):
        found.values(("x",), [1.0], [2.0])
    with pytest.raises(InputError, match="no parameter Z"):
        found.values(("x",), [1.0], parameters={"Z": 1.0})
    with pytest.raises(InputError, match="1 names; got an array of shape"):
        found.values(("x",), [1.0, 2.0])
    values = found.values(("x",), [[1.0], [2.0]], [[-1.0], [-4.0]], {"S": 6.0})
    assert {name: value.tolist() for name, value in values.items()} == {
        "x": [1.0, 2.0],
        "v": [-1.0, -4.0],
        "k": [6.0, 6.0],
        "q": [-1.0, 1.0],
    }


@pytest.mark.parametrize("step", [1, -1])
def test_many_trivial_equations_in_little_time(step: int) -> None:
    model = Model("big")
    equations: list[Any] = []
    for i in range(100):
        x = last = model.variable(f"x{i}", 1.0)
        for k in range(10):
            wire = model.variable(f"x{i}.wire{k}")
            equations.append(wire + last)
            last = wire
        equations.append(model.der(x) + last * x)
    model.equations(*equations[::step])
    began = time.perf_counter()
    found = simplify(model)
    assert time.perf_counter() - began < 2.0
    assert len(found.model.names) == 100 and found.counts()["u = v"] == found.counts()["u = -v"] == 500
    assert "unknowns     1100    100" in found.report() and "500 of u = -v" in found.report()


@pytest.mark.parametrize("step", [1, -1])
def test_long_chains(step: int) -> None:
    model = Model("chain")
    x = model.variables([f"x{i}" for i in range(3000)])
    links = [a + b for a, b in itertools.pairwise(x)]
    model.equations(*links[::step], model.der(x[0]) + x[-1])
    found = simplify(model)
    assert found.model.names == ("x0",)
    assert found.model.expressions == (model.der(x[0]) - x[0],)  # an odd number of signs
