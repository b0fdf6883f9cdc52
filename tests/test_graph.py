"""Expressions with value numbering: equal terms are one node, derivatives are those of SymPy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import PRIME, Cost, Leaf, Op
from dae_sdc.expressions.graph import Graph, Input
from dae_sdc.model.model import Model
from dae_sdc.model.sympy_input import from_sympy, to_sympy
from dae_sdc.reduction.factor import veil

X, Y, Z, T, A = sp.symbols("x y z t a", real=True)
LEAVES = {X: Leaf("u", 0), Y: Leaf("u", 1), Z: Leaf("u", 2), T: Leaf("t"), A: Leaf("p", 0)}
ODD = (Op.SIN, Op.TAN, Op.ASIN, Op.ATAN, Op.SINH, Op.TANH, Op.ASINH, Op.ATANH, Op.SIGN)
EVEN = (Op.COS, Op.COSH, Op.ABS)
PLAIN = sp.Symbol("x")  # of which SymPy does not know that it is real, so that sqrt(x^2) stays
LEAVES_TOO = {**LEAVES, PLAIN: LEAVES[X]}
SYMBOLS = {leaf: symbol for symbol, leaf in LEAVES.items()}
POINT = {X: 0.37, Y: 0.81, Z: -0.45, T: 1.3, A: 0.62}


def node_of(graph: Graph, expression: Any) -> int:
    def resolve(symbol: Any) -> int | None:
        return graph.leaf(LEAVES_TOO[symbol]) if symbol in LEAVES_TOO else None

    return from_sympy(graph, sp.sympify(expression), resolve)


def values(graph: Graph, nodes: list[int], point: dict[Any, Any] = POINT) -> np.ndarray:
    return graph.numeric(nodes, lambda leaf: point[SYMBOLS[leaf]])


EQUAL = [
    ((X + Y) * (X - Y), X**2 - Y**2),
    ((X + Y) ** 3, sp.expand((X + Y) ** 3)),
    (1 / (1 / X + 1 / Y), X * Y / (X + Y)),
    ((X**2 - 1) / (X - 1), X + 1),
    (X / (Y / Z), X * Z / Y),
    (sp.sin(X) ** 2 + sp.cos(X) ** 2, sp.Integer(1)),
    (sp.tan(X) * sp.cos(X), sp.sin(X)),
    (sp.exp(X) * sp.exp(-X), sp.Integer(1)),
    (sp.cosh(X) ** 2 - sp.sinh(X) ** 2, sp.Integer(1)),
    (sp.cosh(X) + sp.sinh(X), sp.exp(X)),
    (sp.sqrt(X + Y) * sp.sqrt(X + Y, evaluate=False), X + Y),
    (X**2 / sp.sqrt(X**2 + Y**2) ** 3 + Y**2 / sp.sqrt(X**2 + Y**2) ** 3, 1 / sp.sqrt(X**2 + Y**2)),
    (X ** sp.Rational(1, 3) * X ** sp.Rational(2, 3), X),
    (sp.asin(X) + sp.acos(X), sp.pi / 2),
    (sp.Max(X, Y) + sp.Min(X, Y), X + Y),
    (sp.Max(X, Y), sp.Max(Y, X)),
]


@pytest.mark.parametrize(("left", "right"), EQUAL, ids=str)
def test_equal_expressions_are_one_node(left: sp.Expr, right: sp.Expr) -> None:
    graph = Graph()
    assert node_of(graph, left) == node_of(graph, right)
    assert graph.is_zero(graph.sub(node_of(graph, left), node_of(graph, right)))


@pytest.mark.parametrize("op", [*ODD, *EVEN])
def test_odd_and_even_functions_are_known(op: Op) -> None:
    # Made of nodes: SymPy would turn the sign itself.
    graph = Graph()
    a = node_of(graph, X - Y)
    turned, plain = graph.call(op, graph.neg(a)), graph.call(op, a)
    assert turned == (graph.neg(plain) if op in ODD else plain)
    assert graph.neg(plain) != plain


# Equal for some real numbers, and therefore not to be merged.
DIFFERENT = [
    (sp.sqrt(PLAIN**2), X),
    (sp.sqrt(PLAIN**2), -X),
    (sp.sqrt(X**2 + 2 * X * Y + Y**2), X + Y),
    (sp.Abs(X), X),
    (sp.sign(X), sp.Integer(1)),
    (sp.floor(X), X),
    (sp.Max(X, Y), X),
    (sp.sin(X), X),
    (X**2, X**3),
    (X**A, X),
    (sp.Piecewise((X, X > 0), (Y, True)), X),
    (sp.Rational(1, 10) ** 18 * X + Y, Y),
]


@pytest.mark.parametrize(("left", "right"), DIFFERENT, ids=str)
def test_different_expressions_are_not_merged(left: sp.Expr, right: sp.Expr) -> None:
    graph = Graph()
    first, second = node_of(graph, left), node_of(graph, right)
    assert first != second
    assert not graph.is_zero(graph.sub(first, second))


# What value numbering does not see, and values with many digits do.
HIDDEN_ZEROS = [
    sp.sin(X + Y) - sp.sin(X) * sp.cos(Y) - sp.cos(X) * sp.sin(Y),
    sp.exp(X + Y) - sp.exp(X) * sp.exp(Y),
    (1 + sp.sqrt(X)) * (1 - sp.sqrt(X)) - 1 + X,
    sp.log(sp.exp(X) * sp.exp(Y)) - X - Y,
    sp.atan(X) - sp.atan2(X, 1),
    2 * sp.atan(X) - sp.asin(2 * X / (1 + X**2)),
]


@pytest.mark.parametrize("expression", HIDDEN_ZEROS, ids=str)
def test_zeros_behind_identities_are_found(expression: sp.Expr) -> None:
    graph = Graph()
    node = node_of(graph, expression)
    assert graph.is_zero(node)
    assert not graph.is_zero(graph.add(node, node_of(graph, sp.exp(-30 + X))))
    assert graph.depends(graph.add(graph.mul(node, graph.variable(5)), graph.variable(1))) == {(1, 0)}


def test_the_slope_of_tanh_at_large_operands_is_not_zero() -> None:
    graph = Graph()
    node = node_of(graph, sp.tanh(10**5 * X) + Y)
    assert graph.depends(node) == {(0, 0), (1, 0)}
    slope = graph.differentiate(node, graph.variable(0))
    assert graph.numeric([slope], lambda leaf: 0.0)[0] == 1e5


def test_a_dependence_that_cancels_is_none() -> None:
    graph = Graph()
    assert graph.depends(node_of(graph, (X + Y) ** 2 - 2 * X * Y - Y**2 + sp.sin(Z))) == {(0, 0), (2, 0)}
    assert graph.depends(node_of(graph, sp.cos(X) * sp.cos(X) + sp.sin(X) ** 2 + Y)) == {(1, 0)}


FUNCTIONS = [
    X * Y * Z + X / Y - Z**5,
    X**-3 + Y ** sp.Rational(7, 3) * sp.sqrt(X) + X**1.4,
    (X + 2) ** Y + Y**A,
    sp.exp(X * Y) + sp.log(X + Y**2),
    sp.sin(X * Y) * sp.cos(Z) + sp.tan(X) + sp.cot(Y) + sp.sec(Z) + sp.csc(X),
    sp.asin(X) + sp.acos(Y * X) + sp.atan(Z) + sp.atan2(X, Z),
    sp.sinh(X) + sp.cosh(Y) * sp.tanh(Z) + sp.coth(X) + sp.sech(Y) + sp.csch(Z),
    sp.asinh(X) + sp.acosh(Y + 2) + sp.atanh(Z),
    sp.Abs(Z) * X + sp.sign(Z) * Y,
    sp.Max(X, Y, Z) * sp.Min(X, Z) + sp.Max(X, 2 * Y) ** 2,
    sp.Piecewise((X**2, X < Y), (Y**3, True)) + sp.Piecewise((X, Z > 0), (Y * Z, Z >= -1), (1, True)),
    sp.Piecewise((X * Y, (X > 0) & (Y > 0)), (X, True)) + sp.Piecewise((Y, (X > 1) | (Y > 1)), (Z, True)),
    sp.Piecewise((X, sp.Not(X > Y) & sp.Ne(X, Z)), (Z, True)) + sp.Piecewise((X, sp.Eq(X, X + 1)), (Y, True)),
    sp.Heaviside(Z) * X + sp.Heaviside(X) * Y + sp.Mod(X, 3) * Y,
    sp.floor(X) + sp.ceiling(Y) * X + sp.floor(-Z) * Z,
    sp.pi * X + sp.E * Y + sp.EulerGamma * Z + sp.Float("0.1", 40) * X,
    T * X + sp.sin(T) * A * Y,
]


@pytest.mark.parametrize("expression", FUNCTIONS, ids=str)
def test_values_and_partial_derivatives_are_those_of_sympy(expression: sp.Expr) -> None:
    graph = Graph()
    node = node_of(graph, expression)
    # SymPy evaluates 30 digits of its own derivative.
    exact = {symbol: sp.Rational(str(value)) for symbol, value in POINT.items()}
    assert values(graph, [node])[0] == pytest.approx(float(expression.subs(exact).evalf(30)), rel=1e-13)
    for symbol, leaf in LEAVES.items():
        slope = graph.differentiate(node, graph.leaf(leaf))
        plain = expression.replace(sp.Mod, lambda a, b: a - b * sp.floor(a / b))
        wanted = sp.diff(plain, symbol).replace(sp.DiracDelta, lambda *_: sp.S.Zero).subs(exact)
        if wanted.has(sp.Derivative, sp.Subs):  # floor has none in SymPy, but is constant here
            wanted = wanted.replace(lambda e: isinstance(e, sp.Derivative | sp.Subs), lambda e: sp.S.Zero)
        expected = float(sp.N(wanted.doit(), 30))
        assert values(graph, [slope])[0] == pytest.approx(expected, rel=1e-12, abs=1e-13), symbol


@pytest.mark.parametrize("bound", [-2, sp.Rational(1, 2), 2])
def test_no_branch_is_overlooked(bound: Any) -> None:
    graph = Graph()
    node = node_of(graph, sp.Piecewise((sp.sin(X), X > bound), (sp.sin(Y), True)) + sp.floor(Z + bound) * Z)
    assert graph.depends(node) == {(0, 0), (1, 0), (2, 0)}
    assert not graph.is_zero(node_of(graph, sp.Max(sp.exp(X) + bound, 0)))


def test_the_derivative_of_a_branch_that_is_not_taken_does_no_harm() -> None:
    graph = Graph()
    for expression, slope in (
        (sp.Piecewise((sp.sqrt(X), X > 0), (2 * X, True)), 2.0),
        (sp.Piecewise((1 / X, sp.Abs(X) > 1), (0, True)), 0.0),
    ):
        found = graph.differentiate(node_of(graph, expression), graph.variable(0))
        at = 0.0 if slope == 0.0 else -1.0
        assert values(graph, [found], {X: at})[0] == slope


def test_the_total_derivative_is_that_of_functions_of_time() -> None:
    graph = Graph()
    functions = [sp.Function(name)(T) for name in "xyz"]
    expressions = [
        X**2 * Y,
        sp.sin(X * Y) / (1 + Z**2),
        sp.exp(T * X) * sp.sqrt(Y) + sp.atan2(Y, Z),
        A * Y ** (X + 1) + sp.Piecewise((X * T, X > 0), (Y, True)),
    ]
    # Along x = sin t + 1/2, y = exp(-t) + 1, z = t^2.
    motion = dict(zip(functions, (sp.sin(T) + sp.Rational(1, 2), sp.exp(-T) + 1, T**2), strict=True))

    def along(leaf: Leaf) -> float:
        if leaf.kind != "u":
            return POINT[SYMBOLS[leaf]]
        rate = sp.diff(list(motion.values())[leaf.index], T, leaf.order)
        return float(rate.subs(T, sp.Rational("1.3")).evalf(30))

    for expression in expressions:
        node = node_of(graph, expression)
        moving = expression.subs(dict(zip((X, Y, Z), motion.values(), strict=True))).subs(
            A, sp.Rational("0.62")
        )
        for order in (1, 2, 3):
            wanted = float(sp.diff(moving, T, order).subs(T, sp.Rational("1.3")).evalf(30))
            found = graph.numeric([graph.total_derivative(node, order)], along)[0]
            assert found == pytest.approx(wanted, rel=1e-12)


def test_a_program_computes_what_the_graph_does() -> None:
    graph = Graph()
    nodes = [node_of(graph, expression) for expression in FUNCTIONS]
    program = graph.program(nodes, lambda leaf: Input(leaf.kind, leaf.index))
    given = program.arguments(t=POINT[T], u=[POINT[X], POINT[Y], POINT[Z]], p=[POINT[A]])
    np.testing.assert_allclose(program.evaluate(given), values(graph, nodes), rtol=1e-14)
    constant = graph.program([node_of(graph, sp.sin(2) * sp.pi)], lambda leaf: Input(leaf.kind, leaf.index))
    assert len(constant.code) == 0 and constant.evaluate([]) == pytest.approx(math.sin(2.0) * math.pi)


def test_arrays_of_points_are_evaluated_at_once() -> None:
    graph = Graph()
    node = node_of(graph, X**2 + 1)
    x = np.linspace(0.0, 1.0, 5)
    np.testing.assert_allclose(values(graph, [node, graph.one], {X: x}), [x**2 + 1.0, np.ones(5)])


@pytest.mark.parametrize("expression", FUNCTIONS[:12], ids=str)
def test_sympy_gets_back_what_it_gave(expression: sp.Expr) -> None:
    graph = Graph()
    (back,) = to_sympy(graph, [node_of(graph, expression)], lambda leaf: SYMBOLS[leaf])
    exact = {symbol: sp.Rational(str(value)) for symbol, value in POINT.items()}
    # x^1.4 has a double for its exponent, which is 7/5 in the graph.
    assert abs(sp.N((back - expression).subs(exact), 30)) < (1e-15 if expression.has(sp.Float) else 1e-25)


def test_substitution() -> None:
    graph = Graph()
    node = node_of(graph, sp.sin(X) * Y**3 + Z)
    x, z = node_of(graph, X), node_of(graph, Z)
    found = graph.substitute([node, z], {x: node_of(graph, Z * T), z: graph.zero})
    assert found == [node_of(graph, sp.sin(Z * T) * Y**3), graph.zero]


def test_operations_are_counted_once() -> None:
    graph = Graph()
    x, y = graph.variable(0), graph.variable(1)
    total = graph.add(x, y)
    square = graph.mul(graph.call(Op.SIN, total), total)  # sin(x + y) (x + y)
    both = [graph.div(square, x), square]
    assert veil(graph, both).shared == Cost(functions=1, multiplications=1, additions=1, divisions=1)


def test_numbers_are_exact() -> None:
    graph = Graph()
    assert graph.numbers[graph.constant(0.1)] == Fraction(1, 10)
    assert graph.add(graph.constant(0.1), graph.constant(np.float64(0.2))) == graph.constant(Fraction(3, 10))
    assert graph.constant(np.int64(7)) == graph.constant(7)
    assert graph.power(graph.constant(Fraction(4, 9)), graph.constant(0.5)) == graph.constant(Fraction(2, 3))
    assert graph.call(Op.FLOOR, graph.constant(-2.5)) == graph.constant(-3)
    assert graph.call(Op.LT, graph.constant(3), graph.constant("pi")) == graph.one
    for wrong in (math.nan, math.inf, 1j):
        with pytest.raises(InputError, match="finite real numbers"):
            graph.constant(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="always 0"):
        graph.div(graph.one, graph.sub(node_of(graph, (X + 1) ** 2), node_of(graph, X**2 + 2 * X + 1)))


def test_deep_expressions_need_no_deep_stack() -> None:
    graph = Graph()
    node, depth = graph.variable(0), 3000
    for _ in range(depth):
        node = graph.call(Op.SIN, graph.add(node, graph.one))
    slope = graph.differentiate(node, graph.variable(0))
    rate = graph.total_derivative(node)
    x, wanted = 0.1, 1.0
    for _ in range(depth):
        wanted *= math.cos(x + 1.0)
        x = math.sin(x + 1.0)
    found = graph.numeric([node, slope, rate], lambda leaf: 0.1 if leaf.order == 0 else 2.0)
    assert found[0] == pytest.approx(x)
    assert found[1] == pytest.approx(wanted) and found[2] == pytest.approx(2.0 * wanted)


REFUSED = [
    (sp.I * X, "the number I"),
    (sp.gamma(X), "gamma"),
    (sp.Symbol("other") + X, "other is no unknown"),
    (sp.Piecewise((X, X > 0)), "end it with True"),
    (sp.zoo * X, "zoo"),
]


@pytest.mark.parametrize(("expression", "message"), REFUSED, ids=str)
def test_what_is_no_real_function_is_refused(expression: sp.Expr, message: str) -> None:
    with pytest.raises(InputError, match=message):
        node_of(Graph(), expression)


@st.composite
def rational(draw: st.DrawFn, depth: int = 4) -> Any:
    """Random rational expressions of x and y."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from([X, Y, sp.Integer(2), sp.Rational(-3, 4), sp.Integer(-1)]))
    left, right = draw(rational(depth=depth - 1)), draw(rational(depth=depth - 1))
    kind = draw(st.sampled_from("+-*/^"))
    if kind == "^":
        return left ** draw(st.integers(1, 3))
    if kind == "/":
        return left / (right**2 + 1)
    return {"+": left + right, "-": left - right, "*": left * right}[kind]


@settings(max_examples=60, deadline=None)
@given(rational(), rational())
def test_nodes_are_equal_if_and_only_if_the_expressions_are(left: sp.Expr, right: sp.Expr) -> None:
    graph = Graph()
    assert node_of(graph, left) == node_of(graph, sp.together(left))
    same = sp.cancel(sp.together(left - right)) == 0
    assert (node_of(graph, left) == node_of(graph, right)) == same


@settings(max_examples=40, deadline=None)
@given(rational())
def test_values_at_the_random_point_are_those_of_the_field(expression: sp.Expr) -> None:
    graph = Graph()
    node = node_of(graph, expression)
    over, under = sp.fraction(sp.together(expression))
    point = {X: graph.value[graph.variable(0)], Y: graph.value[graph.variable(1)]}
    number = sp.Rational(over.subs(point), under.subs(point))
    assert graph.value[node] == int(number.p) * pow(int(number.q), -1, PRIME) % PRIME


@st.composite
def mixed(draw: st.DrawFn, depth: int = 3) -> Any:
    """Random expressions of functions and roots, which SymPy leaves as they are."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from([X, Y, X + Y, sp.Integer(2), sp.Rational(3, 4)]))
    left = draw(mixed(depth=depth - 1))
    kind = draw(
        st.sampled_from(["root", "third", "sin", "cos", "exp", "abs", "sign", "max", "+", "-", "*", "/"])
    )
    if kind in ("root", "third"):
        return (left**2 + 1) ** sp.Rational(
            draw(st.sampled_from([-3, -1, 1, 3, 5])), 2 if kind == "root" else 3
        )
    if kind in ("sin", "cos", "abs", "sign"):
        return {"sin": sp.sin, "cos": sp.cos, "abs": sp.Abs, "sign": sp.sign}[kind](left)
    if kind == "exp":
        return sp.exp(sp.sin(left))
    right = draw(mixed(depth=depth - 1))
    if kind == "/":
        return left / sp.sqrt(right**2 + 2)
    return {"max": sp.Max(left, right), "+": left + right, "-": left - right, "*": left * right}[kind]


@settings(max_examples=30, deadline=None)
@given(mixed(), mixed())
def test_merging_never_changes_a_value(left: sp.Expr, right: sp.Expr) -> None:
    graph = Graph()
    expressions = [left, right, left * right, left - right, sp.sqrt(left**2), left / sp.sqrt(1 + left**2)]
    nodes = [node_of(graph, expression) for expression in expressions]
    for point in ({X: 0.37, Y: -0.81}, {X: -1.6, Y: 0.3}):
        exact = {symbol: sp.Rational(str(value)) for symbol, value in point.items()}
        wanted = [float(sp.N(expression.subs(exact), 20)) for expression in expressions]
        np.testing.assert_allclose(values(graph, nodes, point), wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "text", ["-sqrt(2)*pi", "-pi", "-2*pi*x", "pi*(-x)*sqrt(3)", "-pi**2*sqrt(2)*x", "(-pi)*(-sqrt(2))"]
)
def test_signs_numbers_and_roots_meet_in_any_order(text: str) -> None:
    x = sp.Symbol("x")
    expression = sp.sympify(text, locals={"x": x})
    model = Model("signs")
    unknown = model.variable("x", start=0.3)
    model.equations(model.der(unknown) - expression.subs(x, unknown))
    problem = model.problem()
    value = problem.eval_f(problem.state([0.3]), problem.state([0.0]), 0.0)
    assert value[0] == pytest.approx(-float(expression.subs(x, 0.3)), rel=1e-14)


def test_a_constant_times_its_negative() -> None:
    graph = Graph()
    pi = node_of(graph, sp.pi)
    minus = graph.neg(pi)
    assert graph.mul(pi, minus) == graph.mul(minus, pi) == graph.neg(graph.integer_power(pi, 2))
    assert graph.mul(minus, minus) == graph.integer_power(pi, 2)


def test_powers_of_small_numbers_are_different_numbers() -> None:
    graph = Graph()
    values = [Fraction(base) ** power for base in (2, 3, 5, 6, 10) for power in range(-400, 401)]
    numbers = {value: graph.constant(value) for value in values}
    assert len(set(numbers.values())) == len(numbers)
