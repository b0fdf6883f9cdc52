"""Equations and their derivatives along t: from the graph, and by differences."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from dae_sdc.expressions.dag import Leaf, Op
from dae_sdc.expressions.graph import Graph
from dae_sdc.jets.differences import Stencil, derivative_array
from dae_sdc.jets.graph import GraphJets, leaf_values, residues, slopes_of
from dae_sdc.jets.scalars import Reals, many_digits

X, Y = 0, 1
HIGHEST = 4
PLACE = {(j, k): 2 * k + j for k in range(HIGHEST + 1) for j in (X, Y)}
KNOWN = {"t": np.array([0.3]), "p": np.array([2.0])}


def product(order: int) -> GraphJets:
    graph = Graph()
    root = graph.mul(graph.variable(X), graph.variable(Y))
    return GraphJets(graph, [(root, order)], PLACE, KNOWN)


@pytest.mark.parametrize("order", range(HIGHEST + 1))
def test_a_product_is_differentiated_by_leibniz_rule(order: int) -> None:
    jets, points = product(order), np.random.default_rng(order).standard_normal((len(PLACE), 3))
    x, y = ({k: points[PLACE[j, k]] for k in range(HIGHEST + 1)} for j in (X, Y))
    expected = sum(comb(order, k) * x[k] * y[order - k] for k in range(order + 1))
    assert jets.values(points)[0] == pytest.approx(expected, rel=1e-13)
    slopes = np.zeros((3, len(PLACE)))
    for k in range(order + 1):
        slopes[:, PLACE[X, k]] = comb(order, k) * y[order - k]
        slopes[:, PLACE[Y, k]] = comb(order, k) * x[order - k]
    assert jets.dense(points, range(len(PLACE)))[:, 0] == pytest.approx(slopes, rel=1e-13)
    for at, point in enumerate(points.T):
        assert jets.jacobian(point).toarray() == pytest.approx(slopes[at : at + 1], rel=1e-13)


def test_partial_derivatives_that_cancel_are_left_out() -> None:
    graph = Graph()
    x, rate = graph.variable(X), graph.variable(X, 1)
    # Of (x' e^-x)' by x': that of the first factor is 0, as is what Leibniz' rule adds to it.
    root = graph.mul(rate, graph.call(Op.EXP, graph.neg(x)))
    whole = slopes_of(graph, root, 1)
    assert whole.keys() == {(X, 0), (X, 1), (X, 2)}
    less = graph.sub(graph.total_derivative(graph.mul(x, x)), graph.mul(graph.constant(2), x, rate))
    assert slopes_of(graph, graph.add(less, x), 2).keys() == {(X, 2)}


def test_numbers_of_all_kinds_have_the_same_derivatives() -> None:
    graph, context = Graph(), many_digits()
    x, y = graph.variable(X), graph.variable(Y)
    root = graph.div(
        graph.call(Op.SIN, graph.mul(graph.parameter(0), x, graph.time())), graph.add(y, graph.one)
    )
    jets = GraphJets(graph, [(root, order) for order in range(3)], PLACE, KNOWN)
    point = np.linspace(0.2, 1.1, len(PLACE))
    exact = jets.in_numbers(Reals(context, leaf_values(PLACE, KNOWN, point, context.mpf)))
    assert exact is not None
    assert jets.values(point) == pytest.approx([float(value) for value in exact[0]], rel=1e-12)
    assert jets.entries(point) == pytest.approx([float(value) for value in exact[1]], rel=1e-12)
    assert [set(row) for row in residues(graph, jets.derivatives)] == [
        {jet for jet, place in PLACE.items() if (i, place) in jets.slopes} for i in range(3)
    ]


def test_leaves_have_the_values_of_jets_and_0_beyond() -> None:
    value = leaf_values(PLACE, KNOWN, np.arange(len(PLACE), dtype=float))
    assert [value(leaf) for leaf in (Leaf("t"), Leaf("p", 0), Leaf("u", Y, 2))] == [0.3, 2.0, 5.0]
    assert value(Leaf("u", Y, HIGHEST + 1)) == 0.0


@pytest.mark.parametrize("first", [-3, -6, 0])
def test_taylor_coefficients_are_exact_for_polynomials(first: int) -> None:
    stencil, distance = Stencil(first, 2, 3), 0.5
    t = distance * np.array(stencil.points)
    for power in range(7):
        expected = [float(power == order) for order in range(3)]
        assert stencil.taylor(t**power, distance) == pytest.approx(expected, abs=1e-8)
        # Two points fewer are exact up to degree 4.
        assert (np.abs(stencil.doubts(t**power)).max() > 1e-6) == (power > 4)


def test_the_derivative_array_is_that_of_taylor_coefficients_along_a_curve() -> None:
    # F = a(t) u' + b(t) u with u' = sum z_l t^l: the coefficient k of F is what its definition says.
    a, b, z = np.array([1.0, 2.0, -1.0]), np.array([0.5, -3.0, 4.0]), np.array([2.0, -1.0, 3.0])
    u = [0.0, *(z[k] / (k + 1) for k in range(3))]
    expected = [
        sum(a[k - m] * z[m] for m in range(k + 1)) + sum(b[k - m] * u[m] for m in range(k + 1))
        for k in range(3)
    ]
    assert derivative_array(a.reshape(3, 1, 1), b.reshape(3, 1, 1)) @ z == pytest.approx(expected)
