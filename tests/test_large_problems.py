"""The sparse problems of any size: equations, Jacobians, orders in time, transfer between grids, large n."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.timing import within
from scipy import sparse

from dae_sdc.dae.consistency import check_consistent, violation
from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.linear import LARGEST_DIAGNOSED, SparseLU, column_groups
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InconsistentStateError, InputError, ReferenceRangeError, SingularMatrixError
from dae_sdc.problems.grids import NavierStokes, TransmissionLine
from dae_sdc.run.convergence import convergence
from dae_sdc.run.solve import solve

Make = Callable[..., ProblemDAE]

CASES: dict[str, tuple[type[ProblemDAE], dict[str, Any]]] = {
    "line": (TransmissionLine, {}),
    "line-1": (TransmissionLine, {"sections": 1}),
    "line-2": (TransmissionLine, {"sections": 2, "waves": 0.3, "amplitude": -0.4}),
    "line-end": (TransmissionLine, {"sections": 7, "feed": "end"}),
    "line-linear": (TransmissionLine, {"sections": 9, "I_s": 0.0}),
    "flow": (NavierStokes, {}),
    "flow-2": (NavierStokes, {"cells": 2}),
    "flow-5": (NavierStokes, {"cells": 5, "nu": 0.7, "inertia": 3.0}),
    "stokes": (NavierStokes, {"cells": 4, "inertia": 0.0, "wells": 0.0}),
}
SIZES = [(TransmissionLine, "sections", 1), (TransmissionLine, "sections", 5000), (NavierStokes, "cells", 58)]
TIMES = (0.0, 0.13, 0.5, 1.7, -0.4)


def make(case: str) -> ProblemDAE:
    cls, params = CASES[case]
    return cls(**params)


def random_point(P: ProblemDAE, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return P.state(0.3 * rng.standard_normal(P.n)), P.state(rng.standard_normal(P.n))


def residual(P: ProblemDAE, u: Any, du: Any, t: float) -> Any:
    return np.asarray(P.eval_f(P.state(u), P.state(du), t))


# --- equations ------------------------------------------------------------------------------------


def terms(P: Any, u: Any, du: Any, t: float) -> Any:
    """Size of what every equation adds up, at least that of the sources."""
    halves = linearize(P, u, du, t)
    return 1.0 + abs(halves.mass) @ np.abs(du) + abs(halves.stiffness) @ np.maximum(np.abs(u), 1.0)


@pytest.mark.parametrize(
    ("cls", "params"),
    [*CASES.values(), *((cls, {name: size}) for cls, name, size in SIZES)],
    ids=[*CASES, *(f"{cls.__name__}-{size}" for cls, _, size in SIZES)],
)
def test_the_exact_solution_satisfies_the_equations_to_round_off(
    cls: type[ProblemDAE], params: dict[str, Any]
) -> None:
    P = cls(**params)
    for t in TIMES if params.get("feed") != "end" else (0.0,):
        u, du = P.u_exact(t), P.du_exact(t)
        assert (np.abs(residual(P, u, du, t)) <= 4e-15 * terms(P, u, du, t)).all()


@pytest.mark.parametrize("case", [case for case in CASES if case != "line-end"])
def test_the_derivative_of_the_exact_solution_is_its_derivative(case: str) -> None:
    P, h = make(case), 1e-3
    for t in TIMES:
        near = np.asarray(P.u_exact(t + h)) - np.asarray(P.u_exact(t - h))
        far = np.asarray(P.u_exact(t + 2.0 * h)) - np.asarray(P.u_exact(t - 2.0 * h))
        np.testing.assert_allclose((8.0 * near - far) / (12.0 * h), P.du_exact(t), atol=1e-9)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("c", [0.0, 0.05, 1.0])
def test_the_jacobian_is_the_derivative_of_the_residual_by_groups_of_columns(case: str, c: float) -> None:
    P: Any = make(case)
    for seed in range(3):
        u, du = random_point(P, seed)
        matrix = P.jacobian(u, du, 0.3, c)
        assert matrix.format == "csc" and matrix.has_canonical_format
        assert np.array_equal(matrix.indptr, P.sparsity.indptr)
        assert np.array_equal(matrix.indices, P.sparsity.indices)
        found = np.zeros(matrix.shape)
        h = 2e-4
        for group in column_groups(P.sparsity):
            shift = np.zeros(P.n)
            shift[group] = h
            near, far = (
                residual(P, u + k * c * shift, du + k * shift, 0.3)
                - residual(P, u - k * c * shift, du - k * shift, 0.3)
                for k in (1.0, 2.0)
            )
            change = (8.0 * near - far) / (12.0 * h)
            mine = sparse.csc_array(P.sparsity)[:, group].toarray() != 0.0
            found[:, group] = np.where(mine, change[:, None], 0.0)
            # What no column of the group has in the pattern does not move.
            assert np.abs(change[~mine.any(axis=1)]).max(initial=0.0) == 0.0
        np.testing.assert_allclose(matrix.toarray(), found, atol=2e-9 * (1.0 + np.abs(found).max()))


def test_the_line_is_the_circuit_it_is_said_to_be() -> None:
    """Currents of the resistors, capacitors, diodes and sources summed up node by node."""
    P = TransmissionLine(sections=4, R=2.0, C=0.3, I_s=1e-5, feed="end")
    u, du = random_point(P, 1)
    t, m = 0.6, 4
    v = [0.25 * (1.0 - np.cos(2.0 * np.pi * 0.25 * t)), *u[:m]]
    w = [None, *u[m:]]
    expected = np.empty(2 * m)
    for k in range(1, m + 1):
        into = 2.0 / P.R * (w[k] - v[k]) + (2.0 / P.R * (w[k + 1] - v[k]) if k < m else 0.0)
        capacitance = P.C if k < m else 0.5 * P.C
        expected[k - 1] = du[k - 1] - into / capacitance
        out = 2.0 / P.R * (2.0 * w[k] - v[k - 1] - v[k]) + P.I_s * np.expm1(w[k] / P.U_d)
        expected[m + k - 1] = out * P.R / 4.0
    np.testing.assert_allclose(residual(P, u, du, t), expected, rtol=1e-12, atol=1e-13)


def test_the_flow_is_that_of_the_equations_on_a_staggered_grid() -> None:
    """Every face inside the square by itself, with opposite values behind a wall along which it flows."""
    m, nu, inertia = 5, 0.3, 1.7
    P = NavierStokes(cells=m, nu=nu, inertia=inertia)
    x, _ = random_point(P, 2)
    h, t = 1.0 / m, 0.4
    u, v = np.zeros((m + 1, m + 2)), np.zeros((m + 2, m + 1))
    fields = P.fields(x)
    u[1:-1, 1:-1], v[1:-1, 1:-1], p = fields
    u[:, 0], u[:, -1], v[0], v[-1] = -u[:, 1], -u[:, -2], -v[1], -v[-2]
    force = residual(P, P.state(np.zeros(P.n)), P.state(np.zeros(P.n)), t)
    found = residual(P, x, P.state(np.zeros(P.n)), t) - force
    along_x = np.empty((m - 1, m))
    for i in range(1, m):
        for j in range(1, m + 1):
            corner = [
                0.25 * (u[i, j + s - 1] + u[i, j + s]) * (v[i, j + s - 1] + v[i + 1, j + s - 1])
                for s in (0, 1)
            ]
            squares = [0.25 * (u[i + s - 1, j] + u[i + s, j]) ** 2 for s in (0, 1)]
            laplacian = u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1] - 4.0 * u[i, j]
            along_x[i - 1, j - 1] = (
                -nu * laplacian / h**2
                + inertia * (squares[1] - squares[0] + corner[1] - corner[0]) / h
                + (p[i, j - 1] - p[i - 1, j - 1]) / h
            )
    np.testing.assert_allclose(P.fields(found)[0], along_x, rtol=1e-11, atol=1e-11)
    # Turned over the diagonal the square is itself, and so are the equations of v.
    turned = P.pack(fields[1].T, fields[0].T, p.T)
    over = residual(P, turned, P.state(np.zeros(P.n)), t) - force
    np.testing.assert_allclose(
        P.fields(over)[1], P.fields(residual(P, P.pack(*fields), 0.0 * turned, t) - force)[0].T, atol=1e-11
    )
    divergence = (np.diff(u[:, 1:-1], axis=0) + np.diff(v[1:-1], axis=1)) / h
    np.testing.assert_allclose(found[P.n_diff :], divergence.ravel()[:-1], rtol=1e-12, atol=1e-12)


def test_the_index_is_the_one_stated() -> None:
    line, flow = TransmissionLine(sections=6), NavierStokes(cells=4)
    for P in (line, flow):
        halves = linearize(P, *random_point(P, 0), 0.2)
        m = P.n_diff
        mass, slope = halves.mass.toarray(), halves.stiffness.toarray()
        np.testing.assert_array_equal(mass, np.diag([1.0] * m + [0.0] * P.n_alg))
        if P.index == 1:
            assert np.linalg.cond(slope[m:, m:]) < 1e4
        else:
            assert not slope[m:, m:].any()
            assert np.linalg.cond(slope[m:, :m] @ slope[:m, m:]) < 1e4


def test_a_line_at_rest_starts_from_zero_and_knows_no_later_time() -> None:
    P = TransmissionLine(feed="end")
    assert not np.asarray(P.u_exact(0.0)).any() and not np.asarray(P.du_exact(0.0)).any()
    for ask in (P.u_exact, P.du_exact):
        for t in (1e-6, 0.5, -1.0):
            with pytest.raises(ReferenceRangeError, match=r"known at t=0 only; got t="):
                ask(t)
    solution = solve(TransmissionLine, params={"feed": "end"}, sweeper="semi-implicit", t_end=1.0)
    coarse = solve(TransmissionLine, params={"feed": "end"}, sweeper="radau-iia-5", t_end=1.0, dt=0.02)
    assert solution.success and np.abs(solution.u[-1] - coarse.u[-1]).max() < 1e-4
    # The diodes and resistors let less through the farther it is.
    assert (np.diff(coarse.u[-1][:50]) < 0.0).all() and coarse.u[-1].min() > 0.0


# --- orders in time -------------------------------------------------------------------------------

SDC = ("fully-implicit", "semi-implicit", "constrained")
SMALL: dict[str, tuple[type[ProblemDAE], dict[str, Any], float]] = {
    "line": (TransmissionLine, {"sections": 5, "C": 1.0, "frequency": 0.5}, 2.0),
    "flow": (NavierStokes, {"cells": 4}, 1.0),
    "flow-without-wells": (NavierStokes, {"cells": 4, "wells": 0.0}, 1.0),
}


def theory(case: str, nodes: int) -> list[float]:
    best = 2.0 * nodes - 1.0
    return [best, float(nodes) if case == "flow" else best]


def check_orders(case: str, stages: int, **settings: Any) -> None:
    cls, params, end = SMALL[case]
    counts = [24, 34, 48] if stages == 2 else [8, 12, 18]
    dts = [end / k for k in counts]
    data = convergence(cls, dt=dts, t_end=end, params=params, newton_tol=1e-12, **settings).data
    for group, order in zip(("differential", "algebraic"), theory(case, stages), strict=True):
        rows = data[data["group"] == group]
        if case != "flow-without-wells":
            assert rows["expected"][0] == order
        slope = np.polyfit(np.log(rows["dt"]), np.log(rows["error"]), 1)[0]
        assert slope == pytest.approx(order, abs=0.3), (group, rows["error"])


@pytest.mark.parametrize("case", ["line", "flow"])
@pytest.mark.parametrize("sweeper", SDC)
@pytest.mark.parametrize("nodes", [2, 3])
def test_sweeps_reach_the_orders_of_theory(case: str, sweeper: str, nodes: int) -> None:
    check_orders(case, nodes, sweeper=sweeper, nodes=nodes, restol=1e-13)


@pytest.mark.parametrize("case", SMALL)
def test_radau_reaches_the_orders_of_theory(case: str) -> None:
    """Without wells D y = 0 with a constant D, and the pressure is as exact as the velocity behind it."""
    check_orders(case, 3, sweeper="radau-iia-5")


# --- transfer -------------------------------------------------------------------------------------


def transfer(P: Any) -> tuple[Any, Any]:
    """The transfer from P to the next coarser problem, and that problem."""
    coarse = type(P)(**P.coarse_params())
    return type(P).space_transfer(P, coarse, {}), coarse


PAIRS = {
    "line": lambda k: TransmissionLine(sections=4 * k, R=1.0 / k, C=1.0 / k, I_s=1e-5 / k),
    "flow": lambda k: NavierStokes(cells=4 * k),
}


@pytest.mark.parametrize("case", PAIRS)
@pytest.mark.parametrize("k", [1, 3])
def test_restricting_what_was_prolonged_gives_it_back(case: str, k: int) -> None:
    T, coarse = transfer(PAIRS[case](k))
    state, _ = random_point(coarse, 5)
    fine = T.prolong(state)
    assert type(fine) is type(state) and fine.shape == (T.fine_prob.n,)
    assert fine.diff.shape == (T.fine_prob.n_diff,)
    back = T.restrict(fine)
    assert back.diff.shape == (coarse.n_diff,)
    np.testing.assert_allclose(back, state, atol=1e-14)


@pytest.mark.parametrize("case", PAIRS)
def test_transfers_are_linear_and_keep_the_two_kinds_of_unknowns_apart(case: str) -> None:
    T, coarse = transfer(PAIRS[case](2))
    for move, P in ((T.restrict, T.fine_prob), (T.prolong, coarse)):
        a, b = random_point(P, 7)
        np.testing.assert_allclose(move(a - 2.0 * b), move(a) - 2.0 * move(b), atol=1e-13)
        differential = a.copy()
        differential[P.n_diff :] = 0.0
        moved = move(differential)
        assert moved.diff.any() and not moved.alg.any()
        np.testing.assert_array_equal(moved.diff, move(a).diff)


@pytest.mark.parametrize("case", PAIRS)
def test_transferred_solutions_approach_those_of_the_other_grid_with_the_second_order(case: str) -> None:
    ks, t = (16, 24, 32), 0.3
    errors: dict[str, list[float]] = {"restricted": [], "prolonged": []}
    for k in ks:
        T, coarse = transfer(PAIRS[case](k))
        fine = T.fine_prob
        errors["restricted"].append(np.abs(T.restrict(fine.u_exact(t)) - coarse.u_exact(t)).max())
        errors["prolonged"].append(np.abs(T.prolong(coarse.u_exact(t)) - fine.u_exact(t)).max())
    for kind, found in errors.items():
        if case == "flow" and kind == "restricted":
            assert max(found) < 1e-13, "means of exact differences are exact differences"
            continue
        orders = np.diff(np.log(found)) / np.diff(np.log(1.0 / np.array(ks)))
        assert (np.abs(orders - 2.0) < 0.2).all(), (kind, found)


def test_flow_free_of_divergence_stays_so_on_the_other_grid() -> None:
    T, coarse = transfer(NavierStokes(cells=24))
    fine = T.fine_prob

    def divergence(P: Any, state: Any) -> Any:
        # Less that of the sources.
        zero = P.state(np.zeros(P.n))
        last = (residual(P, state, zero, 0.0) - residual(P, zero, zero, 0.0))[P.n_diff :]
        return np.append(last, -last.sum()).reshape(P.cells, P.cells)

    rng = np.random.default_rng(3)
    for P, Q, move in ((fine, coarse, T.restrict), (coarse, fine, T.prolong)):
        m = P.cells
        stream = np.zeros((m + 1, m + 1))
        stream[1:-1, 1:-1] = rng.standard_normal((m - 1, m - 1)) / m
        u, v = np.diff(stream[1:-1], axis=1) * m, -np.diff(stream[:, 1:-1], axis=0) * m
        state = P.pack(u, v, np.zeros((m, m)))
        assert np.abs(divergence(P, state)).max() < 1e-12
        assert np.abs(divergence(Q, move(state))).max() < 1e-12
        state, _ = random_point(P, 4)
        given, moved = divergence(P, state), divergence(Q, move(state))
        if P is fine:
            means = given.reshape(m // 2, 2, m // 2, 2).mean(axis=(1, 3))
            np.testing.assert_allclose(moved, means, atol=1e-11)
        else:
            np.testing.assert_allclose(moved, np.kron(given, np.ones((2, 2))), atol=1e-11)


@pytest.mark.parametrize(
    ("P", "levels"), [(TransmissionLine(sections=48), 5), (NavierStokes(cells=24), 4), (NavierStokes(), 3)]
)
def test_a_problem_coarsens_until_it_cannot_and_says_so_in_one_line(P: Any, levels: int) -> None:
    for _ in range(levels - 1):
        P = type(P)(**P.coarse_params())
    with pytest.raises(InputError, match=r"coarsens by joining .* it has \d+$") as error:
        P.coarse_params()
    assert "\n" not in str(error.value)


def test_a_coarse_line_is_the_same_line() -> None:
    P = TransmissionLine(sections=8, R=0.7, C=0.2, I_s=1e-6, amplitude=0.3, feed="end")
    coarse = TransmissionLine(**P.coarse_params())
    for name in ("R", "C", "I_s"):
        assert coarse.sections * getattr(coarse, name) == pytest.approx(8 * getattr(P, name), rel=1e-14)
    for name in ("U_d", "amplitude", "frequency", "waves", "feed"):
        assert getattr(coarse, name) == getattr(P, name)


# --- large --------------------------------------------------------------------------------------

LARGE: dict[str, tuple[type[ProblemDAE], dict[str, Any], float, float]] = {
    "line": (TransmissionLine, {"sections": 5000}, 0.1, 1e-7),
    "flow": (NavierStokes, {"cells": 58}, 0.05, 1e-5),
}


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "constrained", "radau-iia-5"])
def test_ten_thousand_unknowns_are_solved(case: str, sweeper: str) -> None:
    cls, params, dt, allowed = LARGE[case]
    settings = {} if sweeper == "radau-iia-5" else {"qdelta": "MIN-SR-S", "nodes": 3}
    solution = within(
        5.0, lambda: solve(cls, params=params, sweeper=sweeper, dt=dt, t_end=2.0 * dt, **settings)
    )
    assert solution.success
    error = np.abs(solution.u[-1] - np.asarray(cls(**params).u_exact(2.0 * dt))).max()
    assert error < allowed


@pytest.mark.parametrize("case", LARGE)
def test_an_inconsistent_start_of_a_large_problem_is_named(case: str) -> None:
    cls, params, _, _ = LARGE[case]
    P = cls(**params)
    u = P.u_exact(0.0)
    check_consistent(P, u, 0.0)
    moved = u.copy()
    moved[17] += 1e-3
    with pytest.raises(InconsistentStateError, match="and 1 more" if case == "line" else "more") as error:
        check_consistent(P, moved, 0.0)
    remains, _ = violation(P, moved, 0.0)
    assert not remains[: P.n_diff].any()
    # The two cells beside a wrong face gain and lose the same but for rounding.
    largest = np.flatnonzero(np.abs(remains) > (1.0 - 1e-9) * np.abs(remains).max())
    assert any(P.equation_names[i] in str(error.value) for i in largest)


@pytest.mark.parametrize("n", [710, 3000])
@pytest.mark.parametrize("kind", ["column", "neumann", "row"])
def test_a_large_singular_matrix_is_found(n: int, kind: str) -> None:
    """A Laplacian without boundary values, and dependent rows or columns: pivots vanish only to round-off."""
    if kind == "neumann":
        rng = np.random.default_rng(1)
        steps = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(n - 1, n))
        matrix = sparse.csc_matrix(steps.T @ sparse.diags_array(rng.uniform(0.1, 3.0, n - 1)) @ steps)
    else:
        P = TransmissionLine(sections=n // 2)
        matrix = sparse.lil_matrix(P.jacobian(P.u_exact(0.0), P.du_exact(0.0), 0.0, 0.1))
        if kind == "column":
            matrix[:, n // 3] = 0.1 * matrix[:, 5] + 0.7 * matrix[:, n - 4]
        else:
            matrix[n // 3] = 0.1 * matrix[5] + 0.7 * matrix[n - 4]
        matrix = matrix.tocsc()
    with pytest.raises(SingularMatrixError) as error:
        SparseLU(matrix)
    assert (str(error.value) == "") == (n > LARGEST_DIAGNOSED)


def test_rows_in_small_units_do_not_make_a_large_matrix_singular() -> None:
    P = TransmissionLine(sections=1500)
    matrix = P.jacobian(P.u_exact(0.0), P.du_exact(0.0), 0.0, 0.1)
    scales = 10.0 ** np.random.default_rng(2).uniform(-25.0, 5.0, P.n)
    rows = sparse.csc_matrix(sparse.diags_array(scales) @ matrix)
    solution = np.cos(np.arange(P.n))
    np.testing.assert_allclose(SparseLU(rows).solve(rows @ solution), solution, rtol=1e-8, atol=1e-8)


def test_halves_of_one_pattern_share_it_and_unsorted_ones_do_not() -> None:
    P: Any = TransmissionLine(sections=20)
    u, du = random_point(P, 3)
    halves: Any = linearize(P, u, du, 0.2)
    matrix: Any = halves.iteration_matrix(0.1, P.n)
    assert np.shares_memory(matrix.indices, P.sparsity.indices)
    np.testing.assert_allclose(matrix.toarray(), P.jacobian(u, du, 0.2, 0.1).toarray(), rtol=1e-14)

    class Unsorted(TransmissionLine):
        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            matrix = super().jacobian(u, du, t, c)
            order = np.concatenate(
                [np.arange(a, b)[::-1] for a, b in zip(*pairs(matrix.indptr), strict=True)]
            )
            parts = (matrix.data[order], matrix.indices[order], matrix.indptr)
            return sparse.csc_matrix(parts, shape=matrix.shape)

    def pairs(starts: Any) -> tuple[Any, Any]:
        return starts[:-1], starts[1:]

    other: Any = linearize(Unsorted(sections=20), u, du, 0.2)
    before = other.mass.toarray(), other.stiffness.toarray()
    again: Any = other.iteration_matrix(0.1, P.n)
    SparseLU(again)
    np.testing.assert_array_equal(again.toarray(), matrix.toarray())
    np.testing.assert_array_equal(other.mass.toarray(), before[0])
    np.testing.assert_array_equal(other.stiffness.toarray(), before[1])


@pytest.mark.parametrize("case", ["line", "flow"])
def test_differences_by_colours_solve_a_large_problem_as_its_jacobian_does(case: str) -> None:
    cls, params = (TransmissionLine, {"sections": 400}) if case == "line" else (NavierStokes, {"cells": 14})
    differenced: Any = type("Differenced", (cls,), {"jacobian": None})
    one, other = (
        solve(problem, params=params, sweeper="semi-implicit", dt=0.05, t_end=0.1)
        for problem in (cls, differenced)
    )
    assert one.success and other.success
    np.testing.assert_allclose(other.u[-1], one.u[-1], atol=1e-8)


@pytest.mark.parametrize("bad", [0, -3, 2.5, float("nan"), "many", True])
def test_impossible_sizes_are_refused(bad: Any) -> None:
    for build, name in ((TransmissionLine, "sections"), (NavierStokes, "cells")):
        with pytest.raises(InputError, match=name):
            build(**{name: bad})


@pytest.mark.parametrize(
    ("cls", "params"),
    [
        (TransmissionLine, {"I_s": -1e-9}),
        (TransmissionLine, {"feed": "both"}),
        (TransmissionLine, {"R": 0.0}),
        (NavierStokes, {"cells": 1}),
        (NavierStokes, {"nu": 0.0}),
    ],
)
def test_impossible_parameters_are_refused(cls: type[ProblemDAE], params: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        cls(**params)
    assert next(iter(params)) in str(error.value) and "\n" not in str(error.value)
