"""Rankings of partial derivatives: against all weights, known equations, and the method of lines."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st
from scipy.optimize import linprog

import dae_sdc as ds
from dae_sdc.errors import InputError

T, X, Y = sp.symbols("t x y")
U, V, P = (sp.Function(name)(T, X, Y) for name in "uvp")


def derivative(unknown, k, *orders):
    """The derivative of these orders in t, x and y."""
    return unknown.diff(*(pair for pair in zip((T, X, Y), (k, *orders), strict=False) if pair[1]))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), max_size=4),
)
def test_there_is_a_ranking_where_linear_programming_finds_weights(top, lower):
    lower = [orders for orders in lower if any(orders[1:])]
    equation = U.diff(T, top) + sum((n + 2) * derivative(U, *orders) for n, orders in enumerate(lower))
    # Any order that differentiation keeps is one by positive weights, as far as finitely many are compared.
    rows = [[k - top, *orders] for k, *orders in lower]
    found = linprog([1.0, 1.0, 1.0], rows or None, [-1e-3] * len(rows) or None, bounds=[(1e-3, None)] * 3)
    if found.status == 2:
        with pytest.raises(
            InputError, match="t dominates in no ranking: no derivative of u by t alone is above"
        ):
            ds.ranking([equation])
        return
    weight, structure = ds.ranking([equation])
    assert (structure.dof, structure.index, structure.regular) == (top, 0, True)

    def leads(w):
        return all((w * top, top) > (w * k + sum(orders), k) for k, *orders in lower)

    assert weight == next(w for w in range(1, 20) if leads(w))


@pytest.mark.parametrize(
    ("equation", "weight"),
    [
        (U.diff(T) - U.diff(X, 2), 2),
        (U.diff(T, 2) - U.diff(X, 2) - U.diff(Y, 2), 1),
        (U.diff(T) - 6 * U * U.diff(X) + U.diff(X, 3), 3),
        (sp.Eq(U.diff(T, 2), -U.diff(X, 4)), 2),
        (U.diff(T, 2) - U.diff(T, X, X), 2),
        (sp.Derivative(U * U, T) - U.diff(X), 1),
    ],
    ids=["heat", "waves", "Korteweg-de Vries", "beam", "damped", "product"],
)
def test_known_equations(equation, weight):
    assert ds.ranking([equation])[0] == weight


def test_one_ranking_serves_all_equations():
    weight, structure = ds.ranking([U.diff(T) - U.diff(X, 2) - V, V.diff(T, 2) - V.diff(X, 3) - U])
    assert weight == 2  # 2 for the first, 1.5 for the second
    assert structure.signature.dense().tolist() == [[1, 0], [0, 2]]


def test_a_derivative_by_time_below_a_mixed_one_does_not_dominate():
    with pytest.raises(
        InputError, match=r"alone is above Derivative\(u\(t, x, y\), t, x\) in 'equation 0'; give"
    ):
        ds.ranking([U.diff(T) - U.diff(T, X)])


def test_no_flow_is_dominated_by_time():
    """The pressure of an incompressible flow has no derivatives by time, and div u = 0 none of velocities."""
    viscosity = sp.Symbol("nu")
    inertia = [one.diff(T) + U * one.diff(X) + V * one.diff(Y) for one in (U, V)]
    drag = [viscosity * (one.diff(X, 2) + one.diff(Y, 2)) for one in (U, V)]
    flow = [inertia[0] + P.diff(X) - drag[0], inertia[1] + P.diff(Y) - drag[1], U.diff(X) + V.diff(Y)]
    with pytest.raises(
        InputError, match=r"t dominates in no ranking: no derivative of p by t alone is above"
    ):
        ds.ranking(flow)


def test_waves_are_dominated_by_each_coordinate():
    waves = U.diff(T, 2) - U.diff(X, 2) + U.diff(Y)
    for by, weight, order in (("t", 1, 2), ("x", 1, 2), ("y", 2, 1)):
        found, structure = ds.ranking([waves], by=by)
        assert (found, structure.dof) == (weight, order)


def test_values_of_other_coordinates_and_of_time_stay_apart():
    """With x in the place of time the coefficient t is any number: at t = 0 the rank would be another one."""
    weight, structure = ds.ranking([T * U.diff(X) - U.diff(T) + sp.sin(X)], by="x")
    assert (weight, structure.dof, structure.regular) == (1, 1, True)


def test_the_method_of_lines_has_the_same_offsets():
    s = sp.Symbol("s")
    x, y, z = (sp.Function(name)(T, s) for name in "xyz")
    curtain = [
        x.diff(T, 2) - x.diff(s, 2) + z * x,
        y.diff(T, 2) - y.diff(s, 2) + z * y + 9.81,
        x**2 + y**2 - 1,
    ]
    weight, structure = ds.ranking(curtain)
    assert (weight, structure.index, structure.dof, structure.regular) == (1, 3, 2, True)
    lines, count = ds.Model("lines"), 4
    places = [lines.variables(f"x{i} y{i} z{i}") for i in range(count)]
    step = sp.Symbol("h", real=True)
    lines.parameter("h")
    for at, (x, y, z) in enumerate(places):
        left, right = places[max(at - 1, 0)], places[min(at + 1, count - 1)]
        for one, a, b, force in ((x, left[0], right[0], 0), (y, left[1], right[1], 9.81)):
            lines.equation(lines.der(one, 2) - (a - 2 * one + b) / step**2 + z * one + force)
        lines.equation(x**2 + y**2 - 1)
    found = ds.structure(lines, differentiation=False)
    assert np.array_equal(found.c, np.tile(structure.c, count))
    assert np.array_equal(found.d, np.tile(structure.d, count))


@pytest.mark.parametrize(
    ("equations", "by", "message"),
    [
        ([], "t", "each unknown must be one function of t and of other symbols"),
        ([U.diff(T)], "q", r"each unknown must be one function of q and of other symbols, such as u\(q, x\)"),
        ([U.diff(T) - U.subs(X, 0)], "t", "each unknown must be one function"),
        ([sp.Function("w")(X).diff(X) - U, U.diff(T)], "t", "each unknown must be one function"),
        (["u"], "t", "'u' is no expression of SymPy"),
    ],
)
def test_what_is_no_system_of_partial_equations_is_refused(equations, by, message):
    with pytest.raises(InputError, match=message):
        ds.ranking(equations, by)


def test_equations_and_unknowns_must_match():
    with pytest.raises(ds.StructureError, match="'equation 0' and 'equation 1' contain only unknown 'u'"):
        ds.ranking([U.diff(T), U - 1])
