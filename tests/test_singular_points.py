"""Singular points of curves and surfaces, against what algebra says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp

from dae_sdc.polynomials.polynomials import PolynomialSystem
from dae_sdc.polynomials.singular_points import SingularPoints, singular_points
from dae_sdc.polynomials.witness import decompose

x, y, z = sp.symbols("x y z")
n1, n2, n3, n4 = sp.symbols("n1:5")
BARS = [n1, n2, n3, n4]


def found(expressions: list[Any], variables: list[Any], seed: int = 0) -> SingularPoints:
    system = PolynomialSystem.from_sympy([sp.expand(e) for e in expressions], variables)
    return singular_points(system, seed=seed)


@pytest.mark.parametrize(
    ("expressions", "variables", "exact", "ranks"),
    [
        ([y**2 - x**2 * (x + 1)], [x, y], [(0, 0)], (0, 1)),  # a node
        ([y**2 - x**3], [x, y], [(0, 0)], (0, 1)),  # a cusp
        ([x**2 + y**2 + z**2 - 1], [x, y, z], [], (0, 1)),
        ([x**2 + y**2 - z**2], [x, y, z], [(0, 0, 0)], (0, 1)),  # the apex of a cone
        ([x * (y - 2)], [x, y], [(0, 2)], (0, 1)),
        ([x**2 - y, x * y - z, y**2 - x * z], [x, y, z], [], (0, 2)),
        ([x * y, y * z, x * z], [x, y, z], [(0, 0, 0)], (0, 2)),  # the three axes
        ([x * z, y * z], [x, y, z], [(0, 0, 0)], (0, 2)),  # a plane and a line through it
        ([x**2 + y**2 + 1], [x, y], [], (0, 1)),
        ([(x**2 + 1) ** 2 - y**2], [x, y], [(1j, 0), (-1j, 0)], (0, 1)),  # two parabolas, without real points
        ([x**2 - 1, (y - 1) ** 2], [x, y], [], (0, 1)),  # points, which have none around them
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_singular_points_are_those_of_algebra(
    expressions: list[Any], variables: list[Any], exact: list[Any], ranks: tuple[int, int], seed: int
) -> None:
    points = found(expressions, variables, seed)
    assert (points.failed, points.sets) == (0, ())
    assert (len(points.points), points.generic_rank) == (len(exact), ranks[1])
    for one in exact:
        assert np.abs(points.points - np.array(one)).max(axis=1).min() < 1e-8
    assert points.ranks.tolist() == [ranks[0]] * len(exact)
    assert len(points.real) == sum(not np.iscomplexobj(np.array(one)) for one in exact)


@pytest.mark.parametrize("seed", range(5))
def test_the_slider_crank_of_equal_bars_has_two(seed: int) -> None:
    points = found([n3 + n1, n1**2 + n2**2 - 1, n3**2 + n4**2 - 1], BARS, seed)
    order = np.argsort(points.real[:, 0])
    np.testing.assert_allclose(points.real[order], [[-1, 0, 1, 0], [1, 0, -1, 0]], atol=1e-10)
    assert (points.ranks.tolist(), points.generic_rank, points.sets) == ([2, 2], 3, ())
    assert "rank 2 instead of 3 at (-1, 0, 1, 0)" in str(points)


def test_the_slider_crank_of_other_bars_has_none() -> None:
    points = found([2 * n3 + n1, n1**2 + n2**2 - 1, n3**2 + n4**2 - 1], BARS)
    assert (points.points.shape, points.real.shape) == ((0, 4), (0, 4))
    assert str(points) == "no isolated singular points"


@pytest.mark.parametrize("seed", range(3))
def test_a_linkage_of_four_bars_at_the_limit_of_grashof_has_a_change_point(seed: int) -> None:
    # Bars 2, 5 and 3 on a ground of 4: 2 + 5 = 4 + 3, so that all lie in line where the gradients depend.
    loop = [n1**2 + n2**2 - 4, (n3 - 4) ** 2 + n4**2 - 9, (n3 - n1) ** 2 + (n4 - n2) ** 2 - 25]
    points = found(loop, BARS, seed)
    np.testing.assert_allclose(points.real, [[2, 0, 7, 0]], atol=1e-8)
    assert (points.ranks.tolist(), points.generic_rank, points.failed) == ([2], 3, 0)


@pytest.mark.parametrize(
    ("expressions", "variables", "sets"),
    [
        ([x**2 - y**2 * z], [x, y, z], (1,)),  # Whitney's umbrella, along its handle
        ([x * y], [x, y, z], (1,)),  # two planes
        ([(x**2 + y**2 - 1) ** 2], [x, y], (1,)),
    ],
)
def test_sets_of_singular_points_are_told(expressions: list[Any], variables: list[Any], sets: Any) -> None:
    points = found(expressions, variables)
    assert points.sets == sets
    assert len(points.points) == 0
    assert f"a set of singular points of dimension {sets[0]}" in str(points)


def test_a_decomposition_may_be_given() -> None:
    system = PolynomialSystem.from_sympy([y**2 - x**3], [x, y])
    points = singular_points(system, decomposition=decompose(system))
    np.testing.assert_allclose(points.real, [[0.0, 0.0]], atol=1e-10)
