"""The Runge-Kutta methods: their coefficients, and the orders they are said to have on ODEs and DAEs."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from dae_sdc.errors import InputError
from dae_sdc.sweepers.tableaux import COMPONENTS, METHODS, Tableau, gauss, lobatto_iiic, radau_iia

sys.path.append(str(Path(__file__).parent))  # tests are no package
import helpers.order_conditions as trees

ALL = list(METHODS)
EMBEDDED = [name for name, tableau in METHODS.items() if tableau.embedded]
STIFFLY_ACCURATE = [name for name, tableau in METHODS.items() if tableau.stiffly_accurate]
FAMILIES = (radau_iia, lobatto_iiic, gauss)

LONG = np.longdouble
needs_long = pytest.mark.skipif(
    np.finfo(LONG).eps > 1e-18, reason="orders are measured in extended precision, which is double here"
)


def changed(tableau: Tableau, **changes: Any) -> Tableau:
    values = {field.name: getattr(tableau, field.name) for field in fields(tableau)}
    return Tableau(**(values | changes))


# --- Coefficients ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_classical_order_is_met_and_not_exceeded(name: str) -> None:
    tableau = METHODS[name]
    assert trees.classical_order(tableau.A, tableau.b, tableau.order + 1) == tableau.order


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_order_is_met_and_not_exceeded(name: str) -> None:
    tableau = METHODS[name]
    assert trees.classical_order(tableau.A, tableau.b_embedded, tableau.order + 1) == tableau.embedded_order


def test_there_are_embedded_pairs() -> None:
    assert {"esdirk32", "esdirk43"} <= set(EMBEDDED)


@pytest.mark.parametrize(
    ("name", "peer"),
    [
        ("backward-euler", "BackwardEuler"),
        ("trapezoidal", "CrankNicolson"),
        ("edirk4", "EDIRK4"),
        ("dirk43-2", "DIRK43_2"),
        ("esdirk32", "ARK324L2SAESDIRK"),
    ],
)
def test_tableau_is_that_of_pysdc(name: str, peer: str) -> None:
    from pySDC.implementations.sweeper_classes import Runge_Kutta

    tableau, other = METHODS[name], getattr(Runge_Kutta, peer)
    weights = np.atleast_2d(other.weights)
    np.testing.assert_allclose(tableau.A, other.matrix, rtol=0, atol=1e-15)
    np.testing.assert_allclose(tableau.c, other.nodes, rtol=0, atol=1e-15)
    np.testing.assert_allclose(tableau.b, weights[0], rtol=0, atol=1e-15)
    if tableau.b_embedded is not None:
        np.testing.assert_allclose(tableau.b_embedded, weights[1], rtol=0, atol=1e-15)


def from_definition(family: Callable[[int], Tableau], s: int) -> tuple[Any, Any, Any]:
    """A, b, c of a fully implicit method in 30 digits, by Vandermonde matrices, not Legendre series."""
    lower = {radau_iia: s - 1, lobatto_iiic: s - 2}.get(family)

    def polynomial(x: Any) -> Any:
        value = mpmath.legendre(s, 2 * x - 1)
        return value - mpmath.legendre(lower, 2 * x - 1) if lower is not None else value

    # Secant steps from slightly moved nodes, so that the tested ones do not decide the result.
    c = [mpmath.findroot(polynomial, (node, node + mpmath.mpf("1e-7"))) for node in family(s).c]
    powers = mpmath.matrix(s, s)
    for k in range(s):
        for j in range(s):
            powers[k, j] = c[j] ** k
    b = mpmath.lu_solve(powers, mpmath.matrix([mpmath.mpf(1) / (k + 1) for k in range(s)]))
    A = mpmath.matrix(s, s)
    if family is lobatto_iiic:
        for j in range(s):
            powers[s - 1, j] = int(j == 0)
    for i in range(s):
        right = [c[i] ** (k + 1) / (k + 1) for k in range(s)]
        if family is lobatto_iiic:
            right[-1] = b[0]
        A[i, :] = mpmath.lu_solve(powers, mpmath.matrix(right)).T
    return A, b, c


@pytest.mark.parametrize("s", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_fully_implicit_method_is_exact_to_roundoff(family: Callable[[int], Tableau], s: int) -> None:
    with mpmath.workdps(30):
        A, b, c = from_definition(family, s)
    tableau = family(s)
    np.testing.assert_allclose(tableau.A, np.array(A.tolist(), dtype=float), rtol=0, atol=5e-16)
    np.testing.assert_allclose(tableau.b, np.array(list(b), dtype=float), rtol=0, atol=5e-16)
    np.testing.assert_allclose(tableau.c, np.array(c, dtype=float), rtol=0, atol=2e-16)


@pytest.mark.parametrize(
    ("family", "kind"), [(radau_iia, "RADAU-RIGHT"), (gauss, "GAUSS")], ids=["radau_iia", "gauss"]
)
def test_collocation_method_is_that_of_qmat(family: Callable[[int], Tableau], kind: str) -> None:
    from qmat.qcoeff.collocation import Collocation

    for s in (2, 3, 5):
        other = Collocation(nNodes=s, nodeType="LEGENDRE", quadType=kind)
        np.testing.assert_allclose(family(s).A, other.Q, rtol=0, atol=1e-14)
        np.testing.assert_allclose(family(s).b, other.weights, rtol=0, atol=1e-14)


def test_fully_implicit_methods_of_any_size_are_valid() -> None:
    for s in (1, 2, 7, 12, 20):
        assert radau_iia(s).order == 2 * s - 1
        assert gauss(s).order == 2 * s
        assert lobatto_iiic(s + 1).order == 2 * s
    np.testing.assert_array_equal(radau_iia(1).A, METHODS["backward-euler"].A)
    assert dict(radau_iia(1).orders) == dict(METHODS["backward-euler"].orders)


@pytest.mark.parametrize(("family", "s"), [(radau_iia, 0), (lobatto_iiic, 1), (gauss, -1)])
def test_too_few_stages_are_refused(family: Callable[[int], Tableau], s: int) -> None:
    with pytest.raises(InputError, match=f"stages; got {s}$"):
        family(s)


# --- Records -----------------------------------------------------------------------------------------------


def test_flags_of_the_methods() -> None:
    explicit = {name for name, tableau in METHODS.items() if tableau.explicit_first_stage}
    coupled = {name for name, tableau in METHODS.items() if not tableau.diagonally_implicit}
    assert explicit == {"trapezoidal", "edirk4", "esdirk32", "esdirk43"}
    assert set(ALL) - set(STIFFLY_ACCURATE) == {"gauss-4", "gauss-6"}
    assert coupled == {
        *("radau-iia-3", "radau-iia-5", "radau-iia-7"),
        *("radau-iia-9", "radau-iia-11", "radau-iia-13"),
        *("lobatto-iiic-4", "lobatto-iiic-6", "gauss-4", "gauss-6"),
    }


def test_end_can_be_a_stage_without_stiff_accuracy() -> None:
    # The midpoint rule with a stage at the end of the step that it does not use.
    tableau = changed(METHODS["backward-euler"], A=[[0.5, 0], [0.5, 0.5]], b=[1, 0], c=[0.5, 1], order=2)
    assert not tableau.stiffly_accurate


@pytest.mark.parametrize("name", ALL)
def test_record_is_complete_and_named_after_its_key(name: str) -> None:
    tableau = METHODS[name]
    assert tableau.name == name
    assert tableau.class_name.endswith("DAE")
    assert set(tableau.orders) == set(COMPONENTS)
    assert tableau.stages == len(tableau.c)
    assert [other.class_name for _, other in METHODS.items()].count(tableau.class_name) == 1


@pytest.mark.parametrize("name", ALL)
def test_record_cannot_be_changed_and_survives_pickling(name: str) -> None:
    tableau = METHODS[name]
    copy = pickle.loads(pickle.dumps(tableau))
    for record in (tableau, copy):
        for array in (record.A, record.b, record.c):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0.0
        with pytest.raises(TypeError):
            record.orders[1] = (9, 9)
        with pytest.raises(AttributeError):
            record.order = 9
    for field in fields(tableau):
        np.testing.assert_equal(getattr(copy, field.name), getattr(tableau, field.name))


def test_record_keeps_its_own_arrays() -> None:
    A = np.array([[1.0]])
    tableau = changed(METHODS["backward-euler"], A=A)
    A[0, 0] = 2.0
    assert tableau.A[0, 0] == 1.0


def wrong_entries(tableau: Tableau) -> Iterator[dict[str, np.ndarray]]:
    for label in ("A", "b", "c", "b_embedded"):
        array = getattr(tableau, label)
        for place in np.ndindex(() if array is None else array.shape):
            if array is not None:
                wrong = array.copy()
                wrong[place] += 1e-6
                yield {label: wrong}


@pytest.mark.parametrize("name", ALL)
def test_single_wrong_entry_is_refused(name: str) -> None:
    tableau = METHODS[name]
    for wrong in wrong_entries(tableau):
        with pytest.raises(InputError, match=rf"^Runge-Kutta method '{name}': [^\n]+$"):
            changed(tableau, **wrong)


@pytest.mark.parametrize("name", [name for name in ALL if METHODS[name].order > 1])
def test_wrong_entry_with_matching_node_is_refused(name: str) -> None:
    """An error that c = A 1 cannot see must be found by an order condition."""
    tableau = METHODS[name]
    for i, j in np.ndindex(tableau.A.shape):
        A, c = tableau.A.copy(), tableau.c.copy()
        A[i, j] += 1e-6
        c[i] += 1e-6
        with pytest.raises(InputError, match=r"misses order|explicit"):
            changed(tableau, A=A, c=c)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": 2}, r"b misses order 2: sum b c\^1 = 1/2 is violated by 5\.0e-01"),
        ({"order": 0}, "order of b must be at least 1; got 0"),
        ({"A": [[1.0, 0.0]]}, r"must have shapes \(s, s\), \(s,\), \(s,\); got \(1, 2\), \(1,\), \(1,\)"),
        ({"A": [], "b": [], "c": []}, "must have shapes"),
        ({"b": [np.nan]}, "b has entries that are not finite"),
        ({"c": ["one"]}, "c is not an array of numbers"),
        ({"c": [0.5]}, "row 1 of A sums to 1, but c is 0.5"),
        ({"A": [[0.0]], "c": [0.0]}, "all stages are explicit"),
        ({"A": [[1, 0], [1, 0]], "b": [1, 0], "c": [1, 1]}, "stage 2 is explicit; only the first"),
        ({"A": [[1, 1], [1, 1]], "b": [1, 0], "c": [2, 2]}, "A is singular"),
        ({"b_embedded": [1.0]}, "b_embedded and embedded_order must be given together"),
        ({"embedded_order": 1}, "b_embedded and embedded_order must be given together"),
        ({"b_embedded": [1.0, 0.0], "embedded_order": 1}, r"b_embedded must have shape \(1,\); got \(2,\)"),
        ({"b_embedded": [0.5], "embedded_order": 1}, "b_embedded misses order 1"),
        ({"orders": {4: (1, 1)}}, r"got 4: \(1, 1\)"),
        ({"orders": {3: (1, 1)}}, r"got 3: \(1, 1\)"),
        ({"orders": {1: (1, 0)}}, "orders at index 1 must be positive or None"),
        ({"name": "Backward-Euler"}, "name must be lower-case"),
        ({"name": "backward--euler"}, "name must be lower-case"),
        ({"class_name": "Backward Euler"}, "class_name must be a Python identifier; got 'Backward Euler'"),
        ({"reference": " "}, "reference must say"),
    ],
)
def test_record_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        changed(METHODS["backward-euler"], **changes)


# --- Orders on DAEs from order conditions ------------------------------------------------------------------


def test_trees_are_those_of_the_literature() -> None:
    assert [len(trees.y_trees(order, 0)) for order in range(1, 8)] == [1, 1, 2, 4, 9, 20, 48]
    for index in (1, 2):
        for order in range(1, 5):
            for found in (trees.y_trees(order, index), trees.z_trees(order, index)):
                assert len(set(found)) == len(found)
                assert all(trees.order_of(tree, index) == order for tree in found)
    point: trees.Tree = ("y", ())
    bend: trees.Tree = ("z", (point, point))
    # sum b_i w_ij w_jk c_k^2 = 2 and sum b_i c_i w_ij c_j^2 = 2/3 with w the inverse of A
    assert trees.density(bend, 2) == trees.Fraction(1, 2)
    assert trees.density(("y", (point, bend)), 2) == trees.Fraction(3, 2)


def reach(declared: int | None) -> int:
    """Order up to which conditions are tried: there are 250 000 of order 7 at index 2.

    Higher orders are measured below; of their methods, conditions show no more here than that all hold.
    """
    return 4 if not declared else declared + 1 if declared < 6 else 5


@pytest.mark.parametrize("index", [1, 2])
@pytest.mark.parametrize("name", ALL)
def test_declared_orders_follow_from_order_conditions(name: str, index: int) -> None:
    tableau = METHODS[name]
    y, z = tableau.orders[index]
    assert y is not None
    largest = reach(y if index == 2 else min(y, 4))
    if index == 2 and not tableau.stiffly_accurate:
        # Gauss methods leave the manifold g(y) = 0, and errors of y off it act on z divided by dt. Order
        # conditions give the local errors; from these to the orders: Hairer, Lubich, Roche (1989).
        s = tableau.stages
        assert trees.local_orders(tableau, 2, largest) == (s + 1, s)
        assert (y, z) == ((s + 1, s - 1) if s % 2 else (s, s - 2 or None))
        return
    found = trees.global_orders(tableau, index, largest)
    # A declared order above the largest condition tried is confirmed as far as the conditions go.
    assert found == (min(y, largest), min(z or 0, largest))


def test_start_error_of_z_belongs_to_the_order_of_y_with_an_explicit_first_stage() -> None:
    """EDIRK4 has order 4 in y at index 2 only because its steps see the error of z of earlier steps."""
    tableau = METHODS["edirk4"]
    assert trees.local_orders(tableau, 2, 4) == (4, 2)
    assert trees.global_orders(tableau, 2, 4) == (4, 2)


@pytest.mark.parametrize("name", STIFFLY_ACCURATE)
def test_errors_of_algebraic_components_do_not_grow(name: str) -> None:
    infinity = trees.stability_at_infinity(METHODS[name])
    expected = {"trapezoidal": -1.0, "edirk4": -379 / 570}
    assert infinity == pytest.approx(expected.get(name, 0.0), abs=1e-14)


# --- Orders on DAEs by measurement -------------------------------------------------------------------------


@dataclass(frozen=True)
class Hessenberg:
    """left(u, u') = left(exact(t), slope(t)), a DAE with a known solution. Arrays have components first.

    Parameters
    ----------
    left : callable
        (u, u') -> F without the forcing.
    exact, slope : callable
        t -> u and u'.
    parts : tuple of slice
        Components with an order of their own.
    """

    left: Callable[[np.ndarray, np.ndarray], np.ndarray]
    exact: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    parts: tuple[slice, ...]


def free(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two coordinates on the surface and an algebraic variable as functions of time.

    Their numbers are binary fractions, so that the derivatives below are exact in any precision.
    """
    return np.sin(1.25 * t) + 0.25 * t, 0.5 * np.cos(t) + 0.125 * t * t, 0.75 + 0.5 * np.sin(0.75 * t)


def free_1(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return 1.25 * np.cos(1.25 * t) + 0.25, -0.5 * np.sin(t) + 0.25 * t, 0.375 * np.cos(0.75 * t)


def free_2(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return -1.5625 * np.sin(1.25 * t), -0.5 * np.cos(t) + 0.25


def place(t: np.ndarray) -> np.ndarray:
    a, b, _ = free(t)
    return np.stack([a, b, a * a / 2 + a * np.sin(b)])


def place_1(t: np.ndarray) -> np.ndarray:
    (a, b, _), (da, db, _) = free(t), free_1(t)
    return np.stack([da, db, (a + np.sin(b)) * da + a * np.cos(b) * db])


def place_2(t: np.ndarray) -> np.ndarray:
    (a, b, _), (da, db, _), (dda, ddb) = free(t), free_1(t), free_2(t)
    bend = da * da + 2 * np.cos(b) * da * db - a * np.sin(b) * db * db
    return np.stack([dda, ddb, (a + np.sin(b)) * dda + a * np.cos(b) * ddb + bend])


def height(y: np.ndarray) -> np.ndarray:
    return y[2] - y[0] * y[0] / 2 - y[0] * np.sin(y[1])


def constraint(y: np.ndarray) -> np.ndarray:
    """Zero on the surface; the factor makes it nonlinear in all coordinates."""
    return height(y) * (1.5 + 0.4 * np.sin(y[0] + 2 * y[2]))


def normal(y: np.ndarray) -> np.ndarray:
    """The gradient of the constraint."""
    factor, slope = 1.5 + 0.4 * np.sin(y[0] + 2 * y[2]), 0.4 * height(y) * np.cos(y[0] + 2 * y[2])
    return np.stack(
        [-(y[0] + np.sin(y[1])) * factor + slope, -y[0] * np.cos(y[1]) * factor, factor + 2 * slope]
    )


def field(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """A right-hand side without symmetry, nonlinear in all of its arguments."""
    return np.stack(
        [
            y[1] * y[2] - y[0] * y[0] / 2 + np.sin(z) * y[1],
            np.cos(y[0]) * y[2] - 0.3 * z * z * y[0],
            -y[2] * y[0] + y[1] * y[1] + 2 * z + 0.4 * z * z * z + z * y[0] / 2,
        ]
    )


def forces(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.stack(
        [
            -q[0] * q[1] + 0.4 * v[1] * v[2] - np.sin(q[2]),
            v[0] * v[0] / 2 - q[1] * v[2] + q[0] * q[2],
            np.cos(q[0]) * v[1] - 0.3 * v[2] * v[2] * q[1],
        ]
    )


def index_1(u: np.ndarray, du: np.ndarray) -> np.ndarray:
    y, z = u[:3], u[3]
    algebraic = z + 0.3 * z * z * z + 0.4 * z * y[0] * y[1] - np.sin(y[2])
    return np.concatenate([du[:3] - field(y, z), algebraic[None]])


def index_2(u: np.ndarray, du: np.ndarray) -> np.ndarray:
    return np.concatenate([du[:3] - field(u[:3], u[3]), constraint(u[:3])[None]])


def index_3(u: np.ndarray, du: np.ndarray) -> np.ndarray:
    """A particle on a curved surface under forces that depend on position and velocity."""
    q, v, multiplier = u[:3], u[3:6], u[6]
    push = forces(q, v) - normal(q) * multiplier
    return np.concatenate([du[:3] - v, du[3:6] - push, constraint(q)[None]])


def circle(u: np.ndarray, du: np.ndarray) -> np.ndarray:
    """A particle with weight on the unit circle."""
    x, y, v, w, multiplier = u
    push = (-2 * x * multiplier, -1 - 2 * y * multiplier)
    return np.stack([du[0] - v, du[1] - w, du[2] - push[0], du[3] - push[1], x * x + y * y - 1])


def circle_exact(t: np.ndarray) -> np.ndarray:
    phi, rate = np.sin(1.25 * t) + 0.25 * t * t, 1.25 * np.cos(1.25 * t) + 0.5 * t
    return np.stack([np.sin(phi), -np.cos(phi), np.cos(phi) * rate, np.sin(phi) * rate, free(t)[2]])


def circle_slope(t: np.ndarray) -> np.ndarray:
    phi, rate = np.sin(1.25 * t) + 0.25 * t * t, 1.25 * np.cos(1.25 * t) + 0.5 * t
    bend, (x, y) = -1.5625 * np.sin(1.25 * t) + 0.5, (np.sin(phi), -np.cos(phi))
    return np.stack(
        [-y * rate, x * rate, -y * bend - x * rate * rate, x * bend - y * rate * rate, free_1(t)[2]]
    )


def with_z(
    place: Callable[..., np.ndarray], z: Callable[..., tuple[np.ndarray, ...]]
) -> Callable[..., np.ndarray]:
    return lambda t: np.concatenate([place(t), z(t)[2][None]])


def with_velocity(
    place: Callable[..., np.ndarray],
    velocity: Callable[..., np.ndarray],
    z: Callable[..., tuple[np.ndarray, ...]],
) -> Callable[..., np.ndarray]:
    return lambda t: np.concatenate([place(t), velocity(t), z(t)[2][None]])


HALVES = (slice(0, 3), slice(3, 4))
PROBLEMS = {
    1: (Hessenberg(index_1, with_z(place, free), with_z(place_1, free_1), HALVES),),
    2: (Hessenberg(index_2, with_z(place, free), with_z(place_1, free_1), HALVES),),
    3: (
        Hessenberg(
            index_3,
            with_velocity(place, place_1, free),
            with_velocity(place_1, place_2, free_1),
            (slice(0, 3), slice(3, 6), slice(6, 7)),
        ),
        Hessenberg(circle, circle_exact, circle_slope, (slice(0, 2), slice(2, 4), slice(4, 5))),
    ),
}


def extended(tableau: Tableau) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, b, c in extended precision; those of fully implicit methods beyond the digits of the record."""
    for prefix, family in (("radau", radau_iia), ("lobatto", lobatto_iiic), ("gauss", gauss)):
        if tableau.name.startswith(prefix):
            with mpmath.workdps(30):
                A, b, c = from_definition(family, tableau.stages)
                lists = (A.tolist(), list(b), c)
                # Through a sum of two doubles: NumPy takes a number of mpmath for one double.
                high = [np.array(part, dtype=float) for part in lists]
                low = [
                    np.array((mpmath.matrix(part) - mpmath.matrix(first.tolist())).tolist(), dtype=float)
                    for part, first in zip(lists, high, strict=True)
                ]
            A, b, c = (
                first.astype(LONG) + rest.reshape(first.shape) for first, rest in zip(high, low, strict=True)
            )
            return A, b, c
    return tableau.A.astype(LONG), tableau.b.astype(LONG), tableau.c.astype(LONG)


def jacobians(problem: Hessenberg, u: np.ndarray, du: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives by u and u', shape (n, n, s), exact to roundoff: an imaginary step cancels nothing."""
    n = len(u)
    turn = 1e-30j * np.eye(n)[:, :, None]
    u, du = u.astype(complex)[:, None], du.astype(complex)[:, None]
    by_u = problem.left(u + turn, du + 0 * turn)
    by_du = problem.left(u + 0 * turn, du + turn)
    return by_u.imag * 1e30, by_du.imag * 1e30


def solve_step(
    problem: Hessenberg, A: np.ndarray, forcing: np.ndarray, u0: np.ndarray, U: np.ndarray, h: Any, first: int
) -> np.ndarray:
    """Derivatives at the stages from the guess U, shape (n, s); those of an explicit first stage are kept."""
    n, s = len(U), U.shape[1] - first
    last, stalled, inverse = np.inf, 0, None
    for _ in range(40):
        u = u0[:, None] + h * (U @ A.T)
        F = (problem.left(u, U) - forcing)[:, first:].astype(float).reshape(n * s)
        if inverse is None:
            by_u, by_du = jacobians(problem, u[:, first:], U[:, first:])
            matrix = np.einsum("eci,ij->eicj", float(h) * by_u, A[first:, first:].astype(float))
            matrix[:, range(s), :, range(s)] += np.moveaxis(by_du, 2, 0)
            inverse = np.linalg.inv(matrix.reshape(n * s, n * s))
        change = -(inverse @ F)
        size = float(np.abs(change).max())
        U[:, first:] += change.reshape(n, s)
        # The correction is computed in double precision, the residual in extended: progress ends in roundoff.
        stalled += size >= 0.5 * last and size < 1e-6 * (1.0 + float(np.abs(U).max()))
        if stalled == 2 or size == 0.0:
            return U
        if size > 0.1 * last:
            inverse = None
        last = size
    raise AssertionError(f"Newton's method stopped at a change of {size:.1e}")


START = 0.5
"""Where the interval starts: from 0 the leading term in the error of the highest order nearly vanishes."""


def global_error(problem: Hessenberg, tableau: Tableau, steps: int) -> np.ndarray:
    """Largest error of each part in the second half of an interval of length 1.

    Errors of the first steps are gone by then; the largest over many steps also sees errors that alternate.
    """
    A, b, c = extended(tableau)
    h, first = LONG(1) / steps, int(tableau.explicit_first_stage)
    ends = START + np.arange(steps + 1) * h
    times = ends[:-1, None] + c * h
    exact, slope = problem.exact(ends), problem.slope(times)
    forcing = problem.left(problem.exact(times), slope)
    u, last = exact[:, 0], slope[:, 0, 0]
    errors = np.zeros(len(problem.parts))
    for k in range(steps):
        guess = slope[:, k].copy()
        if first:
            guess[:, 0] = last
        U = solve_step(problem, A, forcing[:, k], u, guess, h, first)
        u, last = u + h * (U @ b), U[:, -1]
        if 2 * (k + 1) >= steps:
            error = [float(np.abs(u[part] - exact[part, k + 1]).max()) for part in problem.parts]
            errors = np.maximum(errors, error)
    return errors


@pytest.mark.parametrize("index", PROBLEMS)
def test_problem_has_its_solution(index: int) -> None:
    t = np.linspace(0.0, 1.0, 9)
    for problem in PROBLEMS[index]:
        slope = problem.exact(t + 1e-30j).imag * 1e30
        np.testing.assert_allclose(problem.slope(t), slope, rtol=0, atol=1e-14)
        # The forcing must not enter the constraint, nor the definition of the velocity.
        forcing = problem.left(problem.exact(t), problem.slope(t))
        assert index == 1 or np.abs(forcing[-1]).max() < 1e-14
        assert index < 3 or np.abs(forcing[: len(forcing) // 2]).max() < 1e-14


def step_numbers(tableau: Tableau, index: int) -> tuple[int, int]:
    """Numbers of steps at which errors follow their order but stay above roundoff."""
    if index == 3 and tableau.explicit_first_stage:
        # The multiplier of esdirk43 has a small leading term that shows only here.
        return 80 * tableau.order, 160 * tableau.order
    numbers = {1: (80, 160), 2: (40, 80), 3: (40, 80), 4: (32, 64), 5: (16, 32), 6: (8, 16), 9: (7, 14)}
    return {**numbers, 7: (20, 40), 11: (4, 8), 13: (2, 4)}[tableau.order]


@needs_long
@pytest.mark.parametrize("index", PROBLEMS)
@pytest.mark.parametrize("name", ALL)
def test_declared_orders_are_measured(name: str, index: int) -> None:
    tableau = METHODS[name]
    for problem in PROBLEMS[index]:
        coarse, fine = (global_error(problem, tableau, steps) for steps in step_numbers(tableau, index))
        slopes = np.log2(coarse / fine)
        for slope, order in zip(slopes, tableau.orders[index], strict=True):
            if order is not None:
                # Order 11 and more leave above round-off only large steps, at which other terms still count.
                slack = 0.3 if tableau.order < 11 else max(0.5, 0.08 * order)
                assert slope == pytest.approx(order, abs=slack)
        if tableau.orders[index][-1] is None:
            # None must not hide an order: the last component has none.
            assert slopes[-1] < 0.5
