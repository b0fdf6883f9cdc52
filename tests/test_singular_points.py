"""Singular points of curves and surfaces, against what algebra says."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest
import sympy as sp

from dae_sdc.polynomials.polynomials import PolynomialSystem
from dae_sdc.polynomials.singular_points import SingularPoints, singular_points
from dae_sdc.polynomials.witness import decompose
from tests.test_witness import LINKAGE, linkage

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


@pytest.mark.parametrize(
    ("expressions", "variables", "exact"),
    [
        # Cayley's cubic: 12 x^2 = 3 (x + y + z + 1)^2 and so on, with three equal signs of four.
        (
            [4 * (x**3 + y**3 + z**3 + 1) - (x + y + z + 1) ** 3],
            [x, y, z],
            [(1, 1, -1), (1, -1, 1), (-1, 1, 1), (-1, -1, -1)],
        ),
        # Each of t (t^2 - 1) is 0, and one of the squares is 1: t = 0 there, and t^2 = 1 elsewhere.
        (
            [(x**2 - 1) ** 2 + (y**2 - 1) ** 2 + (z**2 - 1) ** 2 - 1],
            [x, y, z],
            [[*[s, t][:at], 0, *[s, t][at:]] for at in range(3) for s in (1, -1) for t in (1, -1)],
        ),
        ([(x**2 + y**2 + z**2 - 3) ** 2 - 4 * (x**2 + y**2)], [x, y, z], [(0, 0, 3**0.5), (0, 0, -(3**0.5))]),
        ([x * n1 - y * z], [x, y, z, n1], [(0, 0, 0, 0)]),
        # The cone over a rational normal scroll, a determinantal set of dimension 3.
        ([x * n1 - y * z, x * n2 - y * n1, z * n2 - n1**2], [x, y, z, n1, n2], [(0, 0, 0, 0, 0)]),
        ([x**2 + y**2 + z**2 - 4, (x - 1) ** 2 + y**2 - 1], [x, y, z], [(2, 0, 0)]),  # Viviani's curve
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_isolated_points_of_surfaces_and_of_sets_of_three_dimensions(
    expressions: list[Any], variables: list[Any], exact: list[Any], seed: int
) -> None:
    points = found(expressions, variables, seed)
    assert (points.failed, points.sets, len(points.points)) == (0, (), len(exact))
    for one in exact:
        assert np.abs(points.points - np.array(one)).max(axis=1).min() < 1e-7


@pytest.mark.parametrize(
    ("expressions", "degree"),
    [
        ([x**2 * y**2 + y**2 * z**2 + z**2 * x**2 - x * y * z], 3),  # Steiner's surface: three double lines
        ([(x**2 + y**2 + z**2 - 1) * ((x - 1) ** 2 + y**2 + z**2 - 1)], 2),  # two spheres meet in a circle
        ([y**2 - x**3], 1),
    ],
)
def test_curves_of_singular_points_have_a_degree(expressions: list[Any], degree: int) -> None:
    points = found(expressions, [x, y, z])
    assert (points.failed, points.sets, len(points.points)) == (0, (1,), 0)
    told = {(part.dimension, part.rank, part.generic_rank, len(part.witness)) for part in points.parts}
    assert told == {(1, 0, 1, degree)}
    assert all(part.certified for part in points.parts)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_ranks_drop_on_curves_of_all_components_of_the_linkage(seed: int) -> None:
    """Where the bars lie in line, and on the four planes of these positions where they are at rest."""
    n1, n2, n3, n4, p, q, P, Q, X6, X11 = LINKAGE
    system = linkage()
    components = decompose(system, seed=seed)
    points = singular_points(system, seed=seed, decomposition=components)
    assert (points.failed, points.sets, len(points.points)) == (0, (2, 1), 0)
    shapes = {
        (components.components[part.component].degree, part.rank, part.generic_rank): part
        for part in points.parts
    }
    assert [part.component for part in points.parts] == list(range(6))
    flat = [n2, n4, P, Q, X6, n1 + n3, n1**2 - 1]
    # On the first, n4 = n2, X11 is (9.81 + 6 n1 p^2) (3 n2^2 - 19/4) / (5/2 + 6 n1^2) + 3 n1 p^2 and a
    # constant, a parabola for each sign of n1. On the second, X11 is constant, and p is free.
    turning, folding = shapes[10, 7, 8], shapes[2, 7, 8]
    assert (len(turning.witness), len(folding.witness)) == (4, 2)
    for part, equations in ((turning, [p + q]), (folding, [p - q, X11 - sp.Rational("17.658")])):
        for equation in [*flat, *equations]:
            assert np.abs(sp.lambdify(LINKAGE, equation)(*part.witness.T)).max() < 1e-7
    n, speed, force = turning.witness[:, 0], turning.witness[:, 4], turning.witness[:, 9]
    curved = force + (9.81 + 6 * n * speed**2) * 19 / 4 / 8.5 - 3 * n * speed**2
    np.testing.assert_allclose(curved, curved[0], atol=1e-6)
    # On a plane of bars in line four equations vanish at rest, p = q = 0, two of which hold elsewhere.
    planes = [part for part in points.parts if part.generic_rank == 7]
    assert [(part.dimension, part.rank, len(part.witness)) for part in planes] == [(1, 5, 1)] * 4
    assert max(np.abs(part.witness[:, 4:6]).max() for part in planes) < 1e-8


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


def test_progress_is_told_and_a_time_limit_leaves_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from dae_sdc import deadline

    system = PolynomialSystem.from_sympy([(y**2 - x**3) * (x - 1)], [x, y])
    told: list[tuple[int, int, str]] = []
    whole = singular_points(system, progress=lambda *counts: told.append(counts))
    assert len(whole.points) == 3 and whole.unfinished == ""
    assert [counts for counts in told if counts[2] == "component"] == [
        (1, 2, "component"),
        (2, 2, "component"),
    ]
    assert (1, 1, "polynomial") in told and any(unit == "path" for *_, unit in told)
    parts, less = decompose(system), []
    for looks in range(1, 200):  # a clock that counts how often it is looked at
        clock = count()
        with monkeypatch.context() as patch:
            patch.setattr(deadline, "perf_counter", lambda clock=clock: float(next(clock)))
            less.append(singular_points(system, decomposition=parts, time_limit=float(looks)))
        if not less[-1].unfinished:
            break
    assert less[0].parts == () and "there may be more: the time limit" in str(less[0])
    assert {part.component for one in less for part in one.parts if one.unfinished} == {0}
    assert len(less[-1].points) == 3
