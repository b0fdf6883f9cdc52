"""Irreducible components of the solutions of polynomials, against what algebra says."""

from __future__ import annotations

from itertools import count
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
    """Dimension, degree, multiplicity, as True where it is 1, and rank of every component."""
    assert parts.failed == 0
    assert all(part.certified for part in parts.components)
    return sorted((p.dimension, p.degree, p.multiplicity == 1, p.rank) for p in parts.components)


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
        assert (f"singular component of multiplicity {part.multiplicity}" in line) == (part.multiplicity > 1)
        assert ("degree of the reduced set" in line) == (part.multiplicity > 1 and part.dimension > 0)


@pytest.mark.parametrize(
    ("expressions", "variables", "expected"),
    [
        ([(x - 1) ** 3 * (x - 2)], [x], [(0, 1), (0, 3)]),
        ([(x - 3) ** 6], [x], [(0, 6)]),
        ([x**2 * y**3], [x, y], [(1, 2), (1, 3)]),
        ([(x**2 + y**2 - 1) ** 3], [x, y], [(1, 3)]),
        ([z - x, (x**2 + y**2 - 1) ** 2], [x, y, z], [(1, 2)]),
        (
            [x**2 * z, y * z**3],
            [x, y, z],
            [(1, 2), (2, 1)],
        ),  # a double line, and z = 0, which the first has once
        ([x**2 + y**2 - 1, x - 1], [x, y], [(0, 2)]),  # a tangent
        ([y - x**3, y], [x, y], [(0, 3)]),  # a tangent in a point of inflection
        ([y**2 - x**3, y], [x, y], [(0, 3)]),  # the tangent of a cusp
        ([y**2 - x**3, x], [x, y], [(0, 2)]),  # another line through it
        ([y**2 - x**3, x**2 - y**3], [x, y], [*[(0, 1)] * 5, (0, 4)]),  # two cusps: 9 by Bezout, 5 simple
        ([x**2 - y**2, x**2 + y**2], [x, y], [(0, 4)]),  # 2 times 2 lines through a point
        ([x**2, x * y], [x, y], [(1, 1)]),
        ([x**2, x * y, y**2], [x, y], [(0, 3)]),  # the square of an ideal of two: 1, x, y
        ([x**3, x * y, y**4], [x, y], [(0, 6)]),  # 1, x, x^2, y, y^2, y^3
        ([x**2, y**2, z**2], [x, y, z], [(0, 8)]),
    ],
)
def test_multiplicities_are_those_of_algebra(
    expressions: list[Any], variables: list[Any], expected: list[Any]
) -> None:
    parts = decomposed(expressions, variables).components
    assert sorted((part.dimension, part.multiplicity) for part in parts) == expected


def test_multiplicities_are_the_numbers_of_paths_that_meet() -> None:
    """In (x y - 1)^2 = 0, (x - y)^3 = 0, and the sum of them is the number of paths."""
    squares = [sp.expand((x * y - 1) ** 2), sp.expand((x - y) ** 3)]
    roots = ds.solve_polynomials(PolynomialSystem.from_sympy(squares, [x, y]))
    parts = decomposed(squares, [x, y]).components
    assert roots.multiplicity.tolist() == [part.multiplicity for part in parts] == [6, 6]
    assert roots.paths == 12
    assert "0 regular, 2 of multiplicity 6" in str(roots)


def test_a_multiplicity_that_is_too_large_is_not_told() -> None:
    many = sp.symbols("u0:6")
    (part,) = decomposed([one**2 for one in many], list(many)).components
    assert part.multiplicity == 0  # it is 64
    assert "singular component: multiple at all of its points" in str(part)


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


LINKAGE: Any = sp.symbols("n1 n2 n3 n4 p q P Q X6 X11")


def linkage() -> PolynomialSystem:
    """Positions, velocities and accelerations of two bars of equal length in a loop."""
    n1, n2, n3, n4, p, q, P, Q, X6, X11 = LINKAGE
    number, inner = sp.Rational, n2 * n4 + n1 * n3
    first = number(13, 4) * Q + number(3, 2) * P * inner - n2 * X11 + number("24.525") * n2
    second = number(3, 2) * Q * inner + number(9, 4) * P - n4 * X11 + number("14.715") * n4
    equations = [
        *(n3 + n1, n1**2 + n2**2 - 1, n3**2 + n4**2 - 1, n4 * p + n2 * q, X6 - n4 - n2),
        -n3 * p**2 + n4 * P - n1 * q**2 + n2 * Q,
        first - number(3, 2) * n2 * p**2 * n3 + number(3, 2) * n1 * p**2 * n4,
        second - number(3, 2) * n4 * q**2 * n1 + number(3, 2) * n3 * q**2 * n2,
    ]
    return PolynomialSystem.from_sympy(equations, LINKAGE)


def degree_of_the_turning_linkage() -> int:
    """Number of solutions of two general linear equations where the bars turn against each other."""
    n1, n2, p, z = LINKAGE[0], LINKAGE[1], LINKAGE[4], sp.Symbol("z")
    # n4 = n2, n3 = -n1 and q = -p, Q = -P: the last two equations determine P and X11.
    acceleration = n2 * (sp.Rational("9.81") + 6 * n1 * p**2) / (sp.Rational(5, 2) + 6 * n1**2)
    force = (acceleration / n2) * (3 * n2**2 - sp.Rational(19, 4)) + 3 * n1 * p**2
    on_circle = {n1: (z + 1 / z) / 2, n2: (z - 1 / z) / (2 * sp.I)}
    random = np.random.default_rng(7)
    planes = []
    for _ in range(2):
        a = [sp.Integer(int(k)) for k in random.integers(-9, 10, 6)]
        planes.append(a[0] + a[1] * n1 + a[2] * n2 + a[3] * p + a[4] * acceleration + a[5] * force)
    cleared = [sp.fraction(sp.together(plane.subs(on_circle)))[0] for plane in planes]
    resultant = sp.Poly(sp.resultant(*cleared, p), z)
    # At poles, and where n1 = 0, which makes p infinite, the cleared equations have roots that are none.
    others = sp.Poly(sp.fraction(sp.together((acceleration / n2).subs(on_circle)))[1] * z * (z**2 + 1), z)
    while not (common := sp.gcd(resultant, others)).is_ground:
        resultant = resultant.quo(common)
    return int(resultant.degree())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_the_linkage_of_equal_bars_has_six_components_of_which_four_are_singular(seed: int) -> None:
    n1, n2, n3, n4, p, q, P, Q, X6, _ = LINKAGE
    parts = ds.decompose(linkage(), seed=seed)
    assert shapes(parts) == [(2, 1, False, 7)] * 4 + [
        (2, 2, True, 8),
        (2, degree_of_the_turning_linkage(), True, 8),
    ]
    # Bars in line, whose loop loses a constraint: n2 = n4 = 0, X11 and p are free.
    flat = [n2, n4, P, Q, X6, n1 + n3]
    sets = [[p - s * q, n1 - t, *flat] for s in (1, -1) for t in (1, -1)]
    sets += [[p - q, P - Q, X6, n1 + n3, n2 + n4], [p + q, P + Q, n1 + n3, n2 - n4]]
    for number, equations in enumerate(sets):
        alike = [c for c in parts.components if (c.multiplicity == 1) == (number >= 4)]
        residuals = [max(values(e, LINKAGE, c.witness).max() for e in equations) for c in alike]
        assert sum(residual < 1e-8 for residual in residuals) == 1
    # A point of the first: bars that fold (n4 = -n2) at p = q = 2, and one off it by its acceleration.
    on = [0.6, 0.8, -0.6, -0.8, 2.0, 2.0, -3.924 * 0.8, -3.924 * 0.8, 0.0, 17.658]
    off = [*on[:6], 0.1, 0.1, *on[8:]]
    folded = next(part for part in parts.components if part.degree == 2)
    assert folded.contains([on, off]).tolist() == [True, False]


def test_a_time_limit_leaves_the_components_found_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    from dae_sdc import deadline

    system = PolynomialSystem.from_sympy([x * z, y * z * (x - 1) * (y - 2)], [x, y, z])
    whole = decompose(system)
    assert whole.unfinished == "" and shapes(whole) == [(1, 1, True, 2)] * 2 + [(2, 1, True, 1)]
    told = []
    for looks in range(2, 200, 2):  # a clock that counts how often it is looked at
        clock = count()
        with monkeypatch.context() as patch:
            patch.setattr(deadline, "perf_counter", lambda clock=clock: float(next(clock)))
            try:
                told.append(decompose(system, time_limit=float(looks)))
            except ds.TimeLimitError:
                assert not told
        if told and not told[-1].unfinished:
            break
    # The plane z = 0 solves both equations, and is known before they are intersected.
    assert shapes(told[0]) == [(2, 1, True, 1)] and shapes(told[-1]) == shapes(whole)
    assert "found so far, there may be more: the time limit of" in str(told[0])


def test_components_that_cross_are_followed_without_deflation() -> None:
    """Ever more polynomials of which each vanishes where two components of the others meet."""
    a, b, c = sp.symbols("a:c")
    parts = decomposed([x**2 - y**2, x * a + y * b, (x - y) * c + a - b], [x, y, a, b, c])
    # On x = y: x (a + b) = 0 and a = b, so x = y = 0, a = b, or a = b = 0. On x = -y: x (a - b) = 0 and
    # 2 x c = b - a, so a = b and x c = 0, that is x = y = 0 again, or c = 0.
    assert shapes(parts) == [(2, 1, False, 2), (2, 1, True, 3), (2, 1, True, 3)]
    assert all(part._section.system.variables == 5 for part in parts.components)
