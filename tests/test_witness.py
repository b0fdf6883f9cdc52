"""Irreducible components of the solutions of polynomials, against what algebra says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp

import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.polynomials.polynomials import PolynomialSystem
from dae_sdc.polynomials.witness import Component, Decomposition, decompose, irreducible

x, y, z = sp.symbols("x y z")
n1, n2, n3, n4 = sp.symbols("n1:5")
half = sp.Rational(1, 2)
sphere = x**2 + y**2 + z**2 - 1

CRANK = [2 * n3 + n1, n1**2 + n2**2 - 1, n3**2 + n4**2 - 1]
EQUAL = [n3 + n1, n1**2 + n2**2 - 1, n3**2 + n4**2 - 1]
BARS = [n1, n2, n3, n4]


def decomposed(expressions: list[Any], variables: list[Any], seed: int = 0) -> Decomposition:
    return decompose(PolynomialSystem.from_sympy([sp.expand(e) for e in expressions], variables), seed=seed)


def shapes(parts: Decomposition) -> list[tuple[int, int, bool, int]]:
    """Dimension, degree, multiplicity and rank of every component."""
    assert parts.failed == 0
    assert all(part.certified for part in parts.components)
    return sorted((p.dimension, p.degree, p.multiplicity_one, p.rank) for p in parts.components)


def values(expression: Any, variables: list[Any], points: Any) -> Any:
    """A polynomial at points, by SymPy."""
    return np.abs(sp.lambdify(variables, expression, "numpy")(*np.asarray(points).T) + 0 * points[:, 0])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("expressions", "variables", "expected"),
    [
        (CRANK, BARS, [(1, 4, True, 3)]),
        (EQUAL, BARS, [(1, 2, True, 3), (1, 2, True, 3)]),
        ([x**2 - y, x * y - z, y**2 - x * z], [x, y, z], [(1, 3, True, 2)]),  # the twisted cubic
        ([x**2 - y, x * y - z], [x, y, z], [(1, 3, True, 2)]),
        ([x * y - z, y**2 - x * z], [x, y, z], [(1, 1, True, 2), (1, 3, True, 2)]),
        ([sphere], [x, y, z], [(2, 2, True, 1)]),
        ([x * y * (x + y + 1)], [x, y], [(1, 1, True, 1)] * 3),
        ([x * z, y * z], [x, y, z], [(1, 1, True, 2), (2, 1, True, 1)]),
        ([x * y, y * z, x * z], [x, y, z], [(1, 1, True, 2)] * 3),
        ([x**2 - 1, y**2 - 4], [x, y], [(0, 1, True, 2)] * 4),
        ([x**4 - y**4], [x, y], [(1, 1, True, 1)] * 4),  # two of the lines are complex
        ([x**2 + y**2 - 1, 2 * x**2 + 2 * y**2 - 2], [x, y], [(1, 2, True, 1)]),
        ([x, x - 1], [x, y], []),
        ([x * y - 1, x], [x, y], []),
    ],
)
def test_components_are_those_of_algebra(
    expressions: list[Any], variables: list[Any], expected: list[Any], seed: int
) -> None:
    parts = decomposed(expressions, variables, seed)
    assert shapes(parts) == expected
    for part in parts.components:
        assert part.witness.shape == (part.degree, len(variables))
        for expression in expressions:
            assert values(expression, variables, part.witness).max() < 1e-9
        np.testing.assert_allclose(
            part.linear @ part.witness.T, np.repeat(part.offset[:, None], part.degree, axis=1), atol=1e-9
        )


@pytest.mark.parametrize(
    ("expressions", "variables", "expected"),
    [
        ([x**2], [x], [(0, 1, False, 0)]),
        ([(x - 3) ** 6], [x], [(0, 1, False, 0)]),
        ([x**2 * y], [x, y], [(1, 1, False, 0), (1, 1, True, 1)]),
        ([(x**2 + y**2 - 1) ** 2], [x, y], [(1, 2, False, 0)]),
        ([(x**2 + y**2 - 1) ** 3], [x, y], [(1, 2, False, 0)]),
        ([z - x, (x**2 + y**2 - 1) ** 2], [x, y, z], [(1, 2, False, 1)]),
        ([x**2 + y**2 - 1, x - 1], [x, y], [(0, 1, False, 1)]),  # a tangent
        ([x**2, x * y], [x, y], [(1, 1, True, 1)]),  # the line x = 0, with a point that adds nothing to it
        ([x**2, x * y, y**2], [x, y], [(0, 1, False, 0)]),
    ],
)
def test_multiple_components_are_told_with_their_own_degree(
    expressions: list[Any], variables: list[Any], expected: list[Any]
) -> None:
    parts = decomposed(expressions, variables)
    assert shapes(parts) == expected
    for line, part in zip(str(parts).splitlines(), parts.components, strict=True):
        assert ("singular component" in line) == (not part.multiplicity_one)
        assert ("degree of the reduced set" in line) == (not part.multiplicity_one and part.dimension > 0)


def test_six_components_of_three_dimensions() -> None:
    parts = decomposed(
        [
            (y - x**2) * sphere * (x - half),
            (z - x**3) * sphere * (y - half),
            (y - x**2) * (z - x**3) * sphere * (z - half),
        ],
        [x, y, z],
        seed=2,
    )
    lines = [(1, 1, True, 2)] * 3
    assert shapes(parts) == [(0, 1, True, 3), *lines, (1, 3, True, 2), (2, 2, True, 1)]
    (point,) = parts.of_dimension(0)
    np.testing.assert_allclose(point.witness, [[0.5, 0.5, 0.5]], atol=1e-12)
    assert str(point) == "point (0.5, 0.5, 0.5), rank of the Jacobian 3"
    surface, cubic = parts.of_dimension(2)[0], parts.of_dimension(1)[0]
    assert values(sphere, [x, y, z], surface.witness).max() < 1e-10
    assert values(y - x**2, [x, y, z], cubic.witness).max() < 1e-9
    assert values(z - x**3, [x, y, z], cubic.witness).max() < 1e-8
    # Each line is where the factors x - 1/2 and so on of two of the polynomials meet a factor of the third.
    exact = [
        (x - half, z - sp.Rational(1, 8)),
        (y - half, x - sp.sqrt(half)),
        (y - half, x + sp.sqrt(half)),
    ]
    for line in parts.of_dimension(1)[1:]:
        found = [
            pair for pair in exact if all(values(e, [x, y, z], line.witness).max() < 1e-10 for e in pair)
        ]
        assert len(found) == 1
        exact.remove(found[0])
    points = [[0.6, 0.0, 0.8], [0.5, 0.25, 0.125], [0.5, 7.0, 0.125], [0.5, 0.5, 0.5], [1.0, 2.0, 3.0]]
    assert surface.contains(points).tolist() == [True, False, False, False, False]
    assert cubic.contains(points).tolist() == [False, True, False, False, False]
    assert point.contains(points).tolist() == [False, False, False, True, False]


@pytest.mark.parametrize("degree", [2, 3, 5])
def test_a_random_surface_is_irreducible_and_has_the_degree_of_its_polynomial(degree: int) -> None:
    random = np.random.default_rng(degree)
    exponents = np.array(
        [
            (i, j, k)
            for i in range(degree + 1)
            for j in range(degree + 1 - i)
            for k in range(degree + 1 - i - j)
        ]
    )
    parts = decompose(PolynomialSystem(random.normal(size=(1, len(exponents))), exponents))
    assert shapes(parts) == [(2, degree, True, 1)]


def test_a_product_of_random_curves_has_them_as_components() -> None:
    random = np.random.default_rng(3)
    curves = [
        sum(sp.Float(random.normal()) * x**i * y**j for i in range(d + 1) for j in range(d + 1 - i))
        for d in (1, 2, 3)
    ]
    parts = decomposed([sp.prod(curves)], [x, y])
    assert shapes(parts) == [(1, d, True, 1) for d in (1, 2, 3)]
    for part, curve in zip(parts.components, reversed(curves), strict=True):
        assert values(curve, [x, y], part.witness).max() < 1e-7


def test_points_of_a_component_are_told_from_others() -> None:
    conic, other = decomposed(EQUAL, BARS).components
    angle = np.array([0.3, 1.1, 2.0])
    ends = [np.cos(angle), np.sin(angle), -np.cos(angle)]
    same, mirrored = (np.array([*ends, sign * np.sin(angle)]).T for sign in (1, -1))
    on = conic.contains(same)
    assert on.all() or not on.any()
    assert (conic.contains(mirrored) != on).all()
    assert (other.contains(same) != on).all()
    meeting = [[1.0, 0.0, -1.0, 0.0], [-1.0, 0.0, 1.0, 0.0]]
    assert conic.contains(meeting).all()
    assert other.contains(meeting).all()
    assert not conic.contains([[0.3, 0.2, 0.1, 0.0]]).any()
    with pytest.raises(InputError, match=r"shape \(p, 4\)"):
        conic.contains([[1.0, 2.0]])


def test_everything_and_nothing() -> None:
    (whole,) = decompose(PolynomialSystem([[0.0]], [[0, 0]])).components
    assert (whole.dimension, whole.degree, whole.rank) == (2, 1, 0)
    assert whole.contains([[3.0, 4.0]]).all()
    none = decompose(PolynomialSystem([[1.0, 0.0], [0.0, 2.0]], [[1, 0], [0, 0]]))
    assert none.components == ()
    assert str(none) == "no solutions"
    zero = decompose(PolynomialSystem([[1.0, -1.0], [0.0, 0.0]], [[1, 0], [0, 1]]))
    assert shapes(zero) == [(1, 1, True, 1)]


def test_units_do_not_matter() -> None:
    """Bars of 1 mm and 1000 m."""
    parts = decomposed([n1**2 + n2**2 - 1e-6, n3**2 + n4**2 - 1e6], BARS)
    assert shapes(parts) == [(2, 4, True, 2)]
    (part,) = parts.components
    assert part.contains([[1e-3, 0.0, 0.0, 1e3], [1e-3, 0.0, 0.0, 1e-3]]).tolist() == [True, False]


def test_lost_witness_points_are_told_by_the_trace_test() -> None:
    (part,) = decomposed(CRANK, BARS).components
    assert part._section is not None
    section = part._section.part(np.arange(3))
    groups = irreducible(section, np.random.default_rng(0))
    assert not any(certified for _, certified in groups)
    told = Component(
        1, 3, True, 3, False, part.witness[:3], part.linear, part.offset, section, part._given, part._scales
    )
    assert "not certified" in str(told)


def test_the_seed_decides_alone() -> None:
    first, second = (decomposed(CRANK, BARS, seed=4).components[0] for _ in range(2))
    np.testing.assert_array_equal(first.witness, second.witness)


def test_everything_is_at_the_front_door() -> None:
    assert ds.decompose is decompose
    assert ds.PolynomialSystem is PolynomialSystem
    with pytest.raises(InputError, match="workers"):
        ds.decompose(PolynomialSystem([[1.0]], [[1]]), workers=0)
