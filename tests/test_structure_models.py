"""Structural analysis of equations: published tables, the true index, repairs, and the library of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from helpers.timing import within
from hypothesis import assume, given, settings, strategies as st

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import PRIME, Leaf, Op
from dae_sdc.expressions.graph import Graph
from dae_sdc.jets.scalars import Reals, Residues, many_digits, values_of
from dae_sdc.model.model import Model
from dae_sdc.plotting.structure import blocked_signature
from dae_sdc.problems._models import MODELS
from dae_sdc.run.target import make_model
from dae_sdc.structure.analysis import leading_values
from dae_sdc.structure.repair import METHODS
from dae_sdc.structure.signature import StructureError

# --- the table ------------------------------------------------------------------------------------


def runs(text: str) -> list[int]:
    """Numbers, "2x7" for seven times 2."""
    found: list[int] = []
    for part in text.split():
        value, _, count = part.partition("x")
        found += [int(value)] * int(count or 1)
    return found


# Name, arguments, structural index, degrees of freedom, rank, c, d, true index and degrees of freedom. Pryce
# 2001 (pendulum), Nedialkov and Pryce 2009 (pendula), the IVP test set (indices of car axis, Andrews, Akzo
# Nobel, transistor amplifier), Simeon 1996, Brenan, Campbell and Petzold 1996, Campbell and Griepentrog 1995,
# Campbell and Moore 1995, Reissig and others 2000, Gear and Petzold 1984, Mani 2010.
TABLE: list[tuple[str, dict[str, int], int, int, int, str, str, int, int]] = [
    ("pendulum", {}, 3, 2, 3, "0 0 2", "2 2 0", 3, 2),
    ("pendula", {"count": 2}, 5, 4, 6, "2 2 4 0 0 2", "4 4 2 2 2 0", 5, 4),
    ("pendula", {"count": 3}, 7, 6, 9, "4 4 6 2 2 4 0 0 2", "6 6 4 4 4 2 2 2 0", 7, 6),
    (
        *("pendula", {"count": 5}, 11, 10, 15),
        *("8 8 10 6 6 8 4 4 6 2 2 4 0 0 2", "10 10 8 8 8 6 6 6 4 4 4 2 2 2 0", 11, 10),
    ),
    ("car-axis", {}, 3, 4, 6, "0x4 2 2", "2x4 0 0", 3, 4),
    ("seven-body", {}, 3, 2, 13, "0x7 2x6", "2x7 0x6", 3, 2),
    ("charges-on-sphere", {"count": 4}, 3, 16, 16, "0x12 2x4", "2x12 0x4", 3, 16),
    ("flexible-slider-crank", {}, 3, 8, 10, "0x7 2x3", "2x7 0x3", 3, 8),
    ("slider-crank-4", {}, 3, 2, 4, "2 0 0 0", "0 2 0 2", 3, 2),
    ("torus-particle", {}, 3, 4, 4, "0x3 2", "2x3 0", 3, 4),
    ("shuttle-initial", {}, 3, 4, 7, "1 0 0 1 0 0 2", "2 1 1 2 1 1 0", 3, 4),
    ("shuttle-final", {}, 2, 4, 8, "0x6 1 1", "1x6 0 0", 2, 4),
    ("chemical-akzo-nobel", {}, 1, 5, 6, "0x6", "1x5 0", 1, 5),
    ("op-amp-cascade", {"count": 10}, 10, 0, 10, "9 8 7 6 5 4 3 2 1 0", "9 8 7 6 5 4 3 2 1 0", 10, 0),
    ("index-6", {}, 6, 0, 6, "4 3 2 1 0 5", "0 1 2 3 4 5", 6, 0),
    ("reissig", {"stages": 2}, 3, 2, 5, "0 0 1 1 2", "0 1 1 2 2", 1, 2),
    ("robot-arm", {}, 3, 2, 4, "0 0 0 2 2", "2 2 2 0 0", 5, 0),
    ("transistor-amplifier", {}, 0, 8, 5, "0x8", "1x8", 1, 5),
    ("ring-modulator", {"cs": 0}, 1, 11, 14, "0x15", "1x11 0x4", 2, 10),
    ("gear-petzold", {}, 1, 1, 1, "1 0", "1 1", 2, 0),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: "-".join([row[0], *map(str, row[1].values())]))
def test_the_table(row: tuple[str, dict[str, int], int, int, int, str, str, int, int]) -> None:
    name, params, index, dof, rank, c, d, true_index, true_dof = row
    found = ds.structure(name, params=params)
    assert found.c.tolist() == runs(c)
    assert found.d.tolist() == runs(d)
    assert (found.index, found.dof, found.rank) == (index, dof, rank)
    assert (found.differentiation_index, found.true_dof) == (true_index, true_dof)
    assert found.regular == (rank == found.size)
    assert len(found.free) == dof
    warned = " ".join(found.warnings)
    assert ("rank" in warned) == (not found.regular)
    assert ("too high" in warned) == (name == "reissig")
    if not found.regular:
        for method in ("auto", "augmentation"):
            mended = ds.repair(name, params=params, method=method)
            assert mended.structure.regular
            assert mended.structure.dof == true_dof
            again = ds.structure(mended.model)
            assert (again.dof, again.true_dof, again.regular) == (true_dof, true_dof, True)


# --- tractability index ---------------------------------------------------------------------------


def linear_model(leading: sympy.Matrix, other: sympy.Matrix) -> Model:
    """E(t) x' + F(t) x = q(t) with any q."""
    m = ds.Model("linear")
    x = m.variables([f"x{j}" for j in range(len(leading.row(0)))])
    rates = sympy.Matrix([m.der(one) for one in x])
    for i, side in enumerate((leading * rates + other * sympy.Matrix(x)).subs(T, m.t)):
        m.equation(side - sympy.sin((i + 1) * m.t))
    return m


T, ETA = sympy.Symbol("t"), sympy.Rational(3, 2)
COS, SIN, TUBE = sympy.cos(T), sympy.sin(T), 10
# Published systems with index, ranks and degrees of freedom: C. W. Gear, L. R. Petzold 1984 (index 2);
# P. Kunkel, V. Mehrmann 2006, examples 3.1 (solutions are not unique) and 3.2 (index 2); R. Lamour, R. Maerz,
# C. Tischendorf 2013 (index 3 for all eta); S. L. Campbell, E. Moore 1995, linearised (index 3).
LINEAR = {
    "gear-petzold": ([[0, 0], [1, ETA * T]], [[1, ETA * T], [0, 1 + ETA]], 2, (1, 1, 2), 0),
    "kunkel-mehrmann-3.1": ([[-T, T**2], [-1, T]], [[1, 0], [0, 1]], None, (1, 1), None),
    "kunkel-mehrmann-3.2": ([[0, 0], [1, -T]], [[1, -T], [0, 0]], 2, (1, 1, 2), 0),
    "lamour-maerz": (
        [[0, 1, 0], [0, ETA * T, 1], [0, 0, 0]],
        *([[1, 0, 0], [0, 1 + ETA, 0], [0, ETA * T, 1]], 3, (2, 2, 2, 3), 0),
    ),
    "campbell-moore": (
        sympy.diag(1, 1, 1, 1, 1, 1, 0),
        [
            *([0, 0, 0, -1, 0, 0, 0], [0, 0, 0, 0, -1, 0, 0], [0, 0, 0, 0, 0, -1, 0]),
            *([0, 0, SIN, 0, 1, -COS, -TUBE * COS**2], [0, 0, -COS, -1, 0, -SIN, -TUBE * SIN * COS]),
            [0, 0, 1, 0, 0, 0, TUBE * SIN],
            [TUBE * COS**2, TUBE * SIN * COS, -TUBE * SIN, 0, 0, 0, 0],
        ],
        *(3, (6, 6, 6, 7), 4),
    ),
}


@pytest.mark.parametrize("name", LINEAR)
def test_published_tractability_indices(name: str) -> None:
    leading, other, index, ranks, dof = LINEAR[name]
    model = linear_model(sympy.Matrix(leading), sympy.Matrix(other))
    found = ds.structure(model)
    assert found.tractability is not None
    assert (found.tractability.index, found.tractability.ranks, found.tractability.dof) == (index, ranks, dof)
    assert f"tractability index {index}" in str(found)
    assert found.differentiation_index == index
    # But for that of the torus structural analysis fails.
    assert found.regular == (name == "campbell-moore")


@pytest.mark.parametrize("chains", [(1,), (2, 2), (3, 1), (1, 2, 4), (3, 3, 2)])
@pytest.mark.parametrize("states", [0, 2])
def test_ranks_are_those_of_the_chains_of_a_canonical_form(chains: tuple[int, ...], states: int) -> None:
    """y' + y = q, N z' + z = q with x = S(t) (y, z): rank i misses the chains of more than i unknowns."""
    nilpotent = [sympy.Matrix(k, k, lambda i, j: int(j == i + 1)) for k in chains]
    size = states + sum(chains)
    places = range(size)
    above = [[T ** (1 + (i + 2 * j) % 3) if j > i else 0 for j in places] for i in places]
    below = [[sympy.sin((i + j) * T) if j < i else 0 for j in places] for i in places]
    turned, mixed = sympy.eye(size) + sympy.Matrix(above), sympy.eye(size) + sympy.Matrix(below)
    canonical = sympy.diag(sympy.eye(states), *nilpotent)
    model = linear_model(mixed * canonical * turned, mixed * (turned + canonical * turned.diff(T)))
    found = ds.structure(model).tractability
    assert found is not None and found.index == max(chains)
    assert found.ranks == tuple(size - sum(k > i for k in chains) for i in range(max(chains) + 1))
    assert found.dof == states


@pytest.mark.parametrize(
    "name", ["pendulum", "pendula", "reissig", "robot-arm", "transistor-amplifier", "index-6"]
)
def test_the_tractability_index_is_that_of_differentiation(name: str) -> None:
    found = ds.structure(name)
    assert found.tractability is not None
    assert (found.tractability.index, found.tractability.dof) == (found.differentiation_index, found.true_dof)


def test_printing_does_not_wait_for_an_index_that_takes_long() -> None:
    found = ds.structure("op-amp-cascade", params={"count": 60})
    assert "tractability" not in within(1.0, lambda: str(found))
    assert "tractability index 5" in str(ds.structure("op-amp-cascade", params={"count": 5}))


def test_a_cascade_of_a_hundred_stages() -> None:
    found = within(5.0, lambda: ds.structure("op-amp-cascade", params={"count": 100}))
    assert (found.index, found.differentiation_index, found.dof, found.true_dof) == (100, 100, 0, 0)


@pytest.mark.parametrize("stages", [1, 3, 6])
def test_the_structural_index_can_be_as_high_as_one_wants_while_the_index_is_one(stages: int) -> None:
    found = ds.structure("reissig", params={"stages": stages})
    assert found.index == stages + 1
    assert found.differentiation_index == 1


def test_blocks_of_the_shuttle() -> None:
    # Longitude, and latitude with the rest: the longitude is only integrated in the end.
    found = ds.structure("shuttle-initial")
    assert [block.size for block in found.coarse] == [6, 1]
    assert found.names[found.coarse[1].cols[0]] == "xi"
    assert found.free_names == ["H", "xi", "lambda", "A"]


def test_warnings_name_what_depends() -> None:
    warning = ds.structure("robot-arm").warnings[0]
    for name in ("acceleration x1", "acceleration x3", "path x", "path y"):
        assert f"'{name}'" in warning
    assert "acceleration x2" not in warning
    assert "rank 4 of 5" in warning


def test_large_models() -> None:
    model = make_model("pendulum-chain", {"count": 80})
    found = ds.structure(model)
    assert (found.size, found.index, found.dof) == (240, 3, 160)
    assert found.regular
    assert found.differentiation_index == 3
    ladder = ds.structure("diode-ladder", params={"count": 150}, differentiation=False)
    assert (ladder.size, ladder.index, ladder.dof) == (600, 1, 150)
    assert ladder.regular
    assert ladder.differentiation_index is None
    assert "differentiation index not looked for" in str(ladder)


# --- the rank at a point --------------------------------------------------------------------------


def test_the_rank_at_a_given_point() -> None:
    model = MODELS["pendulum"]()
    assert ds.structure(model, point={"x": 0.6, "y": 0.8}).rank == 3
    assert ds.structure(model, point={"x": 0.0, "y": 0.0}).rank == 2


def test_a_constraint_that_is_regular_but_on_the_constraint() -> None:
    model = Model("twice")
    x, y, tension = model.variables("x y lambda")
    model.equations(model.der(x, 2) + tension * x, model.der(y, 2) + tension * y + 1, (x**2 + y**2 - 1) ** 2)
    assert ds.structure(model).regular
    assert not ds.structure(model, point={"x": 1.0, "y": 0.0}).regular


# --- the true index -------------------------------------------------------------------------------


@st.composite
def pencils(draw: st.DrawFn) -> tuple[sympy.Matrix, sympy.Matrix]:
    n = draw(st.integers(2, 4))
    few = st.sampled_from([0, 0, 0, 1, 1, 2, -1])
    rows = st.lists(st.lists(few, min_size=n, max_size=n), min_size=n, max_size=n)
    return sympy.Matrix(draw(rows)), sympy.Matrix(draw(rows))


@settings(max_examples=30, deadline=None)
@given(pencils())
def test_linear_systems_have_the_index_of_their_pencil(pencil: tuple[sympy.Matrix, sympy.Matrix]) -> None:
    a, b = pencil
    n, s = a.rows, sympy.Symbol("s")
    resolvent = s * a + b
    determinant = resolvent.det()
    assume(determinant != 0)
    model = Model("pencil")
    x = model.variables([f"x{k}" for k in range(n)])
    for row in range(n):
        terms = [a[row, k] * model.der(x[k]) + b[row, k] * x[k] for k in range(n)]
        model.equation(sympy.Add(*terms) - sympy.sin(model.t))
    found = ds.structure(model)
    # By Weierstrass' form: the resolvent grows like s to the power of the index less 1.
    inverse = (resolvent.adjugate() / determinant).applyfunc(sympy.cancel)
    growth = max(
        sympy.degree(sympy.numer(entry), s) - sympy.degree(sympy.denom(entry), s)
        for entry in inverse
        if entry != 0
    )
    assert found.differentiation_index == growth + 1
    assert found.true_dof == sympy.degree(determinant, s)
    if found.regular:
        assert found.dof == found.true_dof
        assert found.index >= found.differentiation_index
    for method in METHODS:
        mended = ds.repair(model, method=method)
        assert mended.structure.regular
        assert mended.structure.dof == sympy.degree(determinant, s)


def test_singular_systems_are_no_daes() -> None:
    model = Model("singular")
    x, y = model.variables("x y")
    model.equation(model.der(x) + model.der(y) + x + y, name="first")
    model.equation(2 * model.der(x) + 2 * model.der(y) + 2 * x + 2 * y, name="second")
    found = ds.structure(model)
    assert found.differentiation_index is None
    assert found.true_dof is None
    assert any("do not determine" in warning for warning in found.warnings)
    with pytest.raises(StructureError, match="'second' follows from 'first' or contradicts"):
        ds.repair(model)


# --- values in a finite field, and with many digits -------------------------------------------------

BINARY = [op for op in Op if op.arity == 2 and op not in (Op.MIN, Op.MAX, Op.LT, Op.LE)]
UNARY = [op for op in Op if op.arity == 1 and op not in (Op.INTPOW, Op.SIGN, Op.FLOOR)]


def leaf_graph() -> tuple[Graph, int, int]:
    graph = Graph()
    x, y, t = graph.variable(0), graph.variable(1, 1), graph.time()
    return graph, graph.add(graph.mul(x, y), t), graph.sub(y, graph.parameter(0))


@pytest.mark.parametrize("op", [*UNARY, *BINARY, Op.INTPOW, Op.MIN, Op.MAX, Op.SELECT])
def test_derivatives_of_the_graph_are_those_of_values_with_many_digits(op: Op) -> None:
    graph, a, b = leaf_graph()
    if op is Op.INTPOW:
        node = graph.div(a, graph.integer_power(b, 3))
    elif op is Op.SELECT:
        node = graph.call(op, graph.call(Op.LT, a, b), a, graph.mul(a, b))
    elif op is Op.POW:
        node = graph.power(a, graph.constant(Fraction(1, 3)))
    else:
        node = graph.call(op, a, b) if op.arity == 2 else graph.call(op, a)
    context, time = many_digits(), 0.4
    # a = x y' + t lies between 0.1 and 0.9, but for acosh, and b = y' - p below it.
    size = 4.0 if op is Op.ACOSH else 0.5

    def along(node: int, t: Any) -> Any:
        curves = [lambda s: size * context.cos(s), lambda s: context.sin(s) + s * s / 5]

        def value(leaf: Leaf) -> Any:
            if leaf.kind == "p":
                return context.mpf(1) / 3
            return t if leaf.kind == "t" else context.diff(curves[leaf.index], t, leaf.order)

        values = values_of(graph, [node], Reals(context, value))
        assert values is not None
        return values[0]

    for order in range(1, 4):
        expected = context.diff(lambda t: along(node, t), time, order)
        assert context.almosteq(
            along(graph.total_derivative(node, order), context.mpf(time)), expected, 1e-12
        )


@pytest.mark.parametrize("exponent", [-1, 0, 1])
def test_powers_whose_exponents_differ_by_1_differ_by_a_factor(exponent: int) -> None:
    graph, a, b = leaf_graph()
    nodes = [graph.call(Op.POW, a, b), graph.call(Op.POW, a, graph.add(b, graph.constant(exponent))), a]
    power, other, base = values_of(graph, nodes, Residues()) or ()
    assert other == power * pow(base, exponent, PRIME) % PRIME


def test_identities_of_functions_hold_in_the_field() -> None:
    graph, a, _ = leaf_graph()
    nodes = [graph.call(op, a) for op in (Op.SIN, Op.COS, Op.COSH, Op.SINH, Op.EXP)]
    for order in range(5):
        rates = [graph.total_derivative(node, order) for node in nodes]
        s, c, h, g, e = values_of(graph, [*rates], Residues()) or ()
        assert (h + g) % PRIME == e
        if not order:
            assert (s * s + c * c) % PRIME == (h * h - g * g) % PRIME == 1


def test_a_power_with_a_variable_exponent_obeys_its_differential_equation() -> None:
    graph, a, b = leaf_graph()
    power, log = graph.call(Op.POW, a, b), graph.call(Op.LOG, a)
    slope = graph.mul(power, graph.total_derivative(graph.mul(b, log)))
    for order in range(3):
        nodes = [graph.total_derivative(power, order + 1), graph.total_derivative(slope, order)]
        found = values_of(graph, nodes, Residues())
        assert found is not None
        assert found[0] == found[1]


def test_what_divides_by_zero_has_no_value_unless_it_is_not_chosen() -> None:
    graph, a, _ = leaf_graph()
    same, context = graph.sub(graph.variable(3), graph.variable(4)), many_digits()
    quotient = graph.div(a, same)
    chosen = graph.call(Op.SELECT, graph.call(Op.LT, same, a), a, quotient)
    numbers = Reals(context, lambda leaf: context.mpf(1))
    assert values_of(graph, [quotient], numbers) is None
    assert values_of(graph, [chosen], numbers) == [2]
    field = Residues()
    field.leaf = lambda leaf: 1  # type: ignore[method-assign]
    assert values_of(graph, [quotient], field) is None


# --- repairs --------------------------------------------------------------------------------------


def test_the_exact_solution_solves_the_repaired_equations() -> None:
    t = sympy.Symbol("t", real=True)
    y = sympy.cos(t) - sympy.cos(t) ** 2
    x = sympy.sin(t) - t * y
    mended = ds.repair("gear-petzold")
    model = mended.model
    assert isinstance(model, Model)
    assert mended.steps[0].method == "lc"
    jets = {
        model.der(s, k) if k else s: sympy.diff(f, t, k)
        for s, f in zip([model.symbol(Leaf("u", 0)), model.symbol(Leaf("u", 1))], (x, y), strict=True)
        for k in range(3)
    }
    for expression in model.expressions:
        residual = expression.xreplace(jets)
        for at in (0.3, 1.7):
            assert abs(residual.evalf(subs={t: at})) < 1e-12


def test_augmentation_keeps_the_solution_of_the_robot_arm() -> None:
    # At the published point the new unknowns follow from the copies, and the replaced equation then holds
    # with the u1, u2 and x2 of the solution.
    mended = ds.repair("robot-arm")
    model = mended.model
    assert isinstance(model, Model)
    (step,) = mended.steps
    assert step.method == "augmentation"
    assert "acceleration x3" in str(step)
    known = ROBOT_START
    fresh = [model.symbol(Leaf("u", j)) for j in range(5, 8)]
    assert tuple(str(symbol) for symbol in fresh) == step.unknowns
    values = {
        symbol: known[str(symbol)]
        for symbol in (model.symbol(Leaf("u", j, k)) for j in range(5) for k in range(3) if not (j > 2 and k))
        if str(symbol) in known
    }
    system = [e.xreplace(values).subs(model.t, 0) for e in model.expressions]
    changed = [e for e in system if e.free_symbols & set(fresh)]
    assert len(changed) == 4
    solution = sympy.nsolve(changed[1:], fresh, [0.0] * 3)
    at = dict(zip(fresh, solution, strict=True))
    for expression in system:
        assert abs(expression.xreplace(at).evalf()) < 1e-6  # the published digits


def test_copies_have_the_values_that_nonlinear_equations_need() -> None:
    # x = -tan(t), y = -1, z = 0 and w = 1 / sqrt(2). With x' = 0 in the copies, w^2 would be -1/2.
    model = ds.Model("turning")
    x, y, z, w = model.variables("x y z w", start=[0.1, -0.9, 0.0, 0.6])
    s, c = sympy.sin(model.t), sympy.cos(model.t)
    along = x * s + y * c + model.der(z) + 1 / c
    across = model.der(x) * c - model.der(y) * s + w**2 - sympy.Rational(1, 2) + 1 / c
    model.equations(x * c - y * s, along * s + across * c, along * c - across * s, z)
    assert [step.method for step in ds.repair(model).steps] == ["augmentation"]
    start = ds.initial(model)
    assert [start[name] for name in "xyzw"] == pytest.approx([0.0, -1.0, 0.0, 0.5**0.5], abs=1e-12)
    assert start["der(x)"] == pytest.approx(-1.0, abs=1e-12)


def test_factors_that_are_not_constant_need_augmentation() -> None:
    with pytest.raises(InputError, match="use augmentation"):
        ds.repair("robot-arm", method="lc")
    with pytest.raises(InputError, match="unknown method of repair 'oki'"):
        ds.repair("robot-arm", method="oki")


@pytest.mark.parametrize("product", [False, True])
def test_leading_derivatives_that_stand_together_in_nonlinear_terms(product: bool) -> None:
    model = Model("together")
    x, y, z = model.variables("x y z", start=1.0)
    together = model.der(x) * model.der(y) if product else model.der(x) + model.der(y)
    model.equation(sympy.sin(together) + x, name="first")
    model.equation(together**2 + y * z, name="second")
    model.equation(model.der(z) + together, name="third")
    found = ds.structure(model)
    assert not found.regular
    mended = ds.repair(model)
    assert {step.method for step in mended.steps} >= {"augmentation"}
    # The first equation gives the sum or product by x, the second then y by x and z, and its derivative x'.
    assert (mended.structure.dof, found.true_dof, found.differentiation_index) == (2, 2, 1)
    assert ds.structure(mended.model).true_dof == 2


def test_many_dependences_are_repaired_at_once() -> None:
    count = 300
    model = Model("ladder")
    u = model.variables([f"u{k}" for k in range(2 * count)])
    before = sympy.sin(model.t)
    for k in range(count):
        through = model.der(u[2 * k]) - model.der(u[2 * k + 1])
        model.equation(through + u[2 * k] - before)
        model.equation(-through + 2 * u[2 * k + 1] - u[2 * k])
        before = u[2 * k + 1]
    found = ds.structure(model, differentiation=False)
    assert found.rank == count
    mended = within(20.0, lambda: ds.repair(model))
    assert len(mended.steps) == count
    # Of each capacitor, the voltage is free.
    assert (mended.structure.index, mended.structure.dof, mended.structure.regular) == (1, count, True)


def test_new_names_are_new() -> None:
    model = MODELS["robot-arm"]()
    taken = Model("taken")
    for name in model.names:
        taken.variable({"x1": "x1", "u1": "x1_2"}.get(name, name))
    symbols = dict(
        zip(
            (model.symbol(Leaf("u", j, k)) for j in range(5) for k in range(3)),
            (taken.symbol(Leaf("u", j, k)) for j in range(5) for k in range(3)),
            strict=True,
        )
    )
    for name, expression in zip(model.equation_names, model.expressions, strict=True):
        taken.equation(expression.xreplace(symbols), name=name)
    mended = ds.repair(taken)
    assert len(set(mended.model.names)) == len(mended.model.names) == 8


def test_a_regular_model_is_returned_as_it_is() -> None:
    model = MODELS["pendulum"]()
    mended = ds.repair(model)
    assert mended.model is model
    assert mended.steps == ()


def test_a_repaired_model_keeps_variables_and_parameters() -> None:
    model = MODELS["transistor-amplifier"]()
    mended = ds.repair(model).model
    assert isinstance(mended, Model)
    assert mended.names == model.names
    assert mended.parameter_names == model.parameter_names
    assert mended.variables_by_name["U_2"].start == {0: 3.0}
    assert mended.equation_names == model.equation_names
    # What cancels is gone: the sum of two currents contains no derivative.
    leaves = mended.graph.leaves_of(mended.roots[1])
    assert all(leaf.order == 0 for leaf in leaves if leaf.kind == "u")


# --- models against hand-written equations --------------------------------------------------------


def residual(model: Model, values: Mapping[str, float], t: float = 0.3) -> np.ndarray:
    """Equations of a model at a point; "x''" is the second derivative of x."""
    numbers = {name: float(parameter.value or 0.0) for name, parameter in model.parameters_by_name.items()}

    def value(leaf: Leaf) -> float:
        if leaf.kind == "t":
            return t
        if leaf.kind == "p":
            return numbers[model.parameter_names[leaf.index]]
        return values[model.names[leaf.index] + "'" * leaf.order]

    return np.array(model.graph.numeric(model.roots, value))


def second_order(n: int, multipliers: int, accelerations: bool = False) -> Callable[..., Any]:
    """Values by names from a random state (q, v, [w,] lambda) of a mechanical problem."""

    def split(model: Model, u: np.ndarray, du: np.ndarray) -> dict[str, float]:
        names = model.names
        values = {name: u[k] for k, name in enumerate(names[:n])}
        values |= {f"{name}'": u[n + k] for k, name in enumerate(names[:n])}
        last = u[2 * n : 3 * n] if accelerations else du[n : 2 * n]
        values |= {f"{name}''": last[k] for k, name in enumerate(names[:n])}
        return values | {name: u[len(u) - multipliers + k] for k, name in enumerate(names[n:])}

    return split


def first_order(model: Model, u: np.ndarray, du: np.ndarray) -> dict[str, float]:
    values = dict(zip(model.names, u, strict=True))
    return values | {f"{name}'": du[k] for k, name in enumerate(model.names)}


PAIRS: list[tuple[str, dict[str, int], str, dict[str, Any], Callable[..., Any], slice | list[int]]] = [
    ("seven-body", {}, "andrews", {}, second_order(7, 6, True), slice(14, 27)),
    ("flexible-slider-crank", {}, "slider-crank", {}, second_order(7, 3, True), slice(14, 21)),
    ("transistor-amplifier", {}, "two-transistor", {}, first_order, slice(0, 8)),
    ("charges-on-sphere", {"count": 20}, "fekete", {}, second_order(60, 20), slice(60, 140)),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_models_are_the_hand_written_problems(pair: tuple[Any, ...]) -> None:
    name, params, problem_name, settings_of, split, rows = pair
    model = make_model(name, params)
    problem = PROBLEMS[problem_name](**settings_of)
    source = np.random.default_rng(5)
    u, du = (np.asarray(source.uniform(0.1, 0.9, problem.n)) for _ in range(2))
    if name == "charges-on-sphere":
        u[140:] = 0.0  # the multipliers of the velocity constraint, which the model does not have
        u = u.copy()
        values = split(model, u[:140], du)
    else:
        values = split(model, u, du)
    t = 0.3 * problem.interval[1]
    expected = np.asarray(problem.eval_f(problem.state(u), problem.state(du), t))[rows]
    found = residual(model, values, t)[: len(expected)]
    scale = 1e-12 * np.maximum(1.0, np.abs(expected)) + 1e-10 * np.abs(expected).max()
    np.testing.assert_array_less(np.abs(found - expected), scale + 1e-15)


def test_velocity_constraints_of_the_slider_crank_are_derivatives_of_the_model_s() -> None:
    model = MODELS["flexible-slider-crank"]()
    problem = PROBLEMS["slider-crank"]()
    u = np.random.default_rng(6).uniform(0.1, 0.9, problem.n)
    values = second_order(7, 3, True)(model, u, u)
    model.roots[7:] = [model.graph.total_derivative(root) for root in model.roots[7:]]
    expected = np.asarray(problem.eval_f(problem.state(u), problem.state(u), 0.0))[21:]
    np.testing.assert_allclose(residual(model, values)[7:], expected, rtol=1e-12)


ROBOT_START = {
    **{"x1": 0.0, "x2": 0.9537503511807, "x3": 1.0, "u1": -4.278125486452565, "u2": -0.7437526892114},
    **{"der(x1)": -1.0, "der(x2)": -2.53191687901054, "der(x3)": 0.0},
    **{"der(x1, 2)": -1.0, "der(x2, 2)": -1.1476311, "der(x3, 2)": 1.0},
}
"""The consistent values of Campbell and Griepentrog at t = 0; on the path x1'' = -1 and x3'' = 1 there."""


def test_the_robot_arm_starts_at_the_published_point() -> None:
    model = MODELS["robot-arm"]()
    values = {
        k.replace("der(", "").replace(", 2)", "''").replace(")", "'"): v for k, v in ROBOT_START.items()
    }
    np.testing.assert_allclose(residual(model, values, 0.0), 0.0, atol=1e-6)
    for name, variable in model.variables_by_name.items():
        for order, value in variable.start.items():
            assert value == pytest.approx(values[name + "'" * order], abs=1e-12)


@pytest.mark.parametrize("name", list(MODELS))
def test_models_say_what_they_are(name: str) -> None:
    make = MODELS[name]
    model = make()
    assert (make.__doc__ or "").splitlines()[0].endswith(".")
    assert model.title
    assert model.name.startswith(name)
    assert model.interval[1] > model.interval[0]
    assert all(parameter.value is not None for parameter in model.parameters_by_name.values())


@pytest.mark.parametrize("name", list(MODELS))
def test_ranks_of_the_library_are_those_on_solutions(name: str) -> None:
    assert [text for text in ds.structure(name).warnings if "no point" in text] == []


@pytest.mark.parametrize("slope", [1e1, 1e3, 1e5, 1e7])
def test_a_steep_table_is_evaluated_where_the_stage_before_it_says(slope: float) -> None:
    """A damper whose coefficient has kinks at two lengths, which are copies of a place; index 2."""
    m = ds.Model("damper")
    s, v, x, length, rate, coefficient, force = m.variables("s v x length rate coefficient force")
    table = sympy.Piecewise(
        (9 * slope / 10 - 5 * length * slope, length < sympy.Rational(1, 10)),
        (slope / 5 + 2 * length * slope, True),
    )
    m.equations(m.der(s) - v, m.der(v) + force - 1, x - s, length - x, rate - m.der(length))
    m.equations(coefficient - table, force - coefficient * rate * sympy.exp(-(rate**2)))
    found = ds.structure(m)
    assert found.warnings == ()
    assert (found.index, found.differentiation_index, found.true_dof) == (2, 2, 2)


def starts(model: Model) -> dict[str, float]:
    variables = model.variables_by_name.items()
    return {name + "'" * k: value for name, variable in variables for k, value in variable.start.items()}


@pytest.mark.parametrize(
    "name", ["pendulum-chain", "double-wishbone", "slider-crank-4", "charges-on-sphere", "op-amp-cascade"]
)
def test_start_values_satisfy_the_constraints(name: str) -> None:
    model = MODELS[name]()
    graph, values = model.graph, starts(model)
    for rate in (0, 1):
        nodes = [graph.total_derivative(root, rate) for root in model.roots]
        constraints = [
            node
            for node, count in zip(nodes, ds.structure(model).c, strict=True)
            if count > rate and all(leaf.order <= rate for leaf in graph.leaves_of(node) if leaf.kind == "u")
        ]
        assert constraints
        model.roots[:] = constraints
        if all(f"{n}'" in values for n in model.names if not n.startswith("lambda")) or not rate:
            np.testing.assert_allclose(residual(model, Start(values), 0.0), 0.0, atol=1e-10)
        model = MODELS[name]()
        graph = model.graph


class Start(dict[str, float]):
    """Start values, 0 where there is none."""

    def __missing__(self, name: str) -> float:
        return 0.0


def test_the_shuttle_starts_on_its_path() -> None:
    # Published angle of attack and bank keep path angle and azimuth still at t = 0, as is prescribed.
    model = MODELS["shuttle-final"]()
    values = starts(model)
    rates = {f"{name}'": 0.0 for name in model.names}
    found = residual(model, values | rates, 0.0)
    np.testing.assert_allclose(found[6:], 0.0, atol=1e-12)
    np.testing.assert_allclose(found[4:6], 0.0, atol=1e-11)  # of terms that are 2e-3: ten digits are printed
    # The drag of the initial stage is what the polynomial says, for the printed digits.
    initial = MODELS["shuttle-initial"]()
    drag = residual(initial, Start(starts(initial)), initial.interval[0])[6]
    assert abs(drag) < 1e-7 * initial.parameters_by_name["C_0"].value


# --- models from files, by name, and bad ones -----------------------------------------------------


def test_models_by_name_function_and_file(tmp_path: Path) -> None:
    assert make_model("pendula", {"count": 3}).name == "pendula-3"
    assert make_model(MODELS["pendula"], {"count": 2, "g": 1.0}).parameters_by_name["g"].value == 1.0
    path = tmp_path / "mine.py"
    path.write_text(
        "import dae_sdc as ds\nmodel = ds.Model('mine')\nx = model.variable('x')\n"
        "model.equation(model.der(x) + x)\ndef other(): return model\nnumber = 3\n"
    )
    assert make_model(path).name == "mine"
    assert make_model(f"{path}:other").name == "mine"
    for wrong, message in (
        (f"{path}:third", "unknown name in .* 'third'"),
        (f"{path}:number", "equations are a name"),
        (str(tmp_path / "no.py"), "there is no file"),
        ("pendulm", "did you mean 'pendulum'"),
    ):
        with pytest.raises(InputError, match=message):
            make_model(wrong)
    with pytest.raises(InputError, match="unknown parameter of model pendulum 'G'"):
        make_model("pendulum", {"G": 1.0})
    with pytest.raises(InputError, match="count"):
        make_model("pendula", {"count": 0})
    with pytest.raises(InputError, match="needs size"):
        make_model(lambda size: MODELS["pendulum"](), {})


def test_models_that_do_not_match_end_in_one_line_with_names() -> None:
    model = Model("bad")
    x, y, z = model.variables("x y z")
    model.equation(model.der(x) + x, name="growth")
    model.equation(model.der(x) - 2 * x, name="decay")
    model.equation(y + z, name="sum")
    with pytest.raises(StructureError) as error:
        ds.structure(model)
    assert "'growth' and 'decay' contain only unknown 'x'" in str(error.value)
    assert "'y' and 'z'" in str(error.value)
    assert "\n" not in str(error.value)


# --- command and picture --------------------------------------------------------------------------


def test_the_command_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "robot.png"
    assert main(["structure", "robot-arm", "--repair", "--plot", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert "structural index 3, degrees of freedom 2" in shown
    assert "differentiation index 5" in shown
    assert "repaired:" in shown
    assert "warning: the system Jacobian has rank 4 of 5" in shown
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["structure", "reissig,transistor-amplifier", "--repair"]) == 0
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines()]
    assert rows[1][:7] == ["reissig-5", "5", "3", "2", "5", "1", "2"]
    assert rows[2][:7] == ["transistor-amplifier", "8", "0", "8", "5", "1", "5"]
    assert rows[3][:7] == ["repaired", "8", "1", "5", "8", "1", "5"]
    assert "the structural index 3 is too high: the true one is 1" in shown


def test_the_command_refuses_a_model_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["structure", "robot-am"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("dae-sdc: unknown model 'robot-am'; did you mean 'robot-arm'?")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("model", "params", "forms"),
    [
        ("pendulum", {}, ("png", "svg", "pdf")),
        ("shuttle-initial", {}, ("svg",)),
        ("pendulum-chain", {"count": 14}, ("pdf",)),  # of dots in place of numbers
    ],
)
def test_pictures(model: str, params: dict[str, int], forms: tuple[str, ...], tmp_path: Path) -> None:
    found = ds.structure(model, params=params)
    for form in forms:
        path = blocked_signature(found, tmp_path / f"{model}.{form}", model)
        assert path.stat().st_size > 1000
    with pytest.raises(InputError, match="a picture ends in"):
        blocked_signature(found, tmp_path / "picture.bmp")


def test_pictures_show_orders_and_offsets(tmp_path: Path) -> None:
    text = blocked_signature(ds.structure("pendulum"), tmp_path / "p.svg", "pendulum").read_text()
    for word in ("index 3", "degrees of freedom"):
        assert word in text or "<path" in text
    from dae_sdc.plotting.structure import signature

    figure = signature(ds.structure("pendulum"), "pendulum")
    axes = figure.axes[0]
    orders = sorted(int(entry.get_text()) for entry in axes.texts)
    assert orders == [0, 0, 0, 0, 2, 2]
    assert {label.get_text() for label in axes.get_yticklabels()} == {"force x", "force y", "length"}


def test_system_jacobian_values_are_those_of_numbers() -> None:
    # Of the pendulum: rows (m, 0, x), (0, m, y), (2x, 2y, 0) in x'', y'', lambda, or of second derivatives.
    found = ds.structure("pendulum")
    values = leading_values(MODELS["pendulum"](), found.c, found.d)
    assert values[0, 0] == values[1, 1] != 0
    assert values[2, 0] == 2 * values[0, 2] % PRIME
    assert values[2, 1] == 2 * values[1, 2] % PRIME
    assert set(values) == {(0, 0), (0, 2), (1, 1), (1, 2), (2, 0), (2, 1)}
