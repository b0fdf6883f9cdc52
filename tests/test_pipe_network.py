"""The network of pipes: its graph, its equations, what it conserves, and runs of any size."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from helpers.timing import within
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from dae_sdc.dae.jacobian import linearize
from dae_sdc.errors import InputError, ReferenceRangeError
from dae_sdc.problems.pipes import PipeNetwork
from dae_sdc.run.convergence import convergence
from dae_sdc.run.solve import solve

DAY = 86400.0
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "two": {"rows": 1, "columns": 2},
    "column": {"rows": 7, "columns": 1},
    "grid": {"rows": 3, "columns": 6, "left_out": 0.0},
    "tree": {"rows": 6, "columns": 5, "left_out": 1.0, "seed": 3},
    "turning": {"rows": 9, "columns": 9, "mean_velocity": 0.0, "nu": 1e-4, "seed": 8},
    "other": {
        "rho": 800.0,
        "g": 3.7,
        "surface": 7.0,
        "period": 1e4,
        "wave_length": 300.0,
        "level_change": -2.0,
    },
    "day": {"rows": 5, "columns": 4, "sources": "day", "demand": 3e-3},
}
TIMES = tuple(share * DAY for share in (0.0, 0.13, 0.5, 1.7, -0.4))


class Graph:
    """The network as its names tell it: pipes from node to node, and the columns of pressures."""

    def __init__(self, P: Any) -> None:
        ways = {"east": (0, 1), "north": (1, 0)}
        flows = [re.fullmatch(r"phi_(east|north)\[(\d+),(\d+)\]", name) for name in P.names]
        self.pipes = [
            ((int(m[2]), int(m[3])), (int(m[2]) + ways[m[1]][0], int(m[3]) + ways[m[1]][1]))
            for m in flows
            if m is not None
        ]
        nodes = [re.fullmatch(r"p\[(\d+),(\d+)\]", name) for name in P.names[len(self.pipes) :]]
        self.nodes = [(int(m[1]), int(m[2])) for m in nodes if m is not None]
        assert len(self.pipes) + len(self.nodes) == P.n
        # One column a pipe: -1 where it begins, 1 where it ends.
        self.incidence = np.zeros((len(self.nodes), len(self.pipes)))
        for k, ends in enumerate(self.pipes):
            for sign, end in zip((-1.0, 1.0), ends, strict=True):
                self.incidence[self.nodes.index(end), k] = sign
        self.tanks = P.n_diff - len(self.pipes)


def random_point(P: Any, seed: int) -> tuple[Any, Any]:
    """Flows, pressures and their rates of usual size."""
    rng = np.random.default_rng(seed)
    return P.nominal * rng.standard_normal(P.n), P.nominal * rng.standard_normal(P.n) / 1000.0


def residual(P: Any, u: Any, du: Any, t: float) -> Any:
    return np.asarray(P.eval_f(P.state(u), P.state(du), t))


# --- graph ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [1, 2, 77])
def test_all_nodes_are_joined_by_streets_of_the_grid(case: str, seed: int) -> None:
    P: Any = PipeNetwork(**{**CASES[case], "seed": seed})
    graph = Graph(P)
    size, streets = P.rows * P.columns, P.rows * (P.columns - 1) + (P.rows - 1) * P.columns
    assert sorted(graph.nodes) == [(i, j) for i in range(P.rows) for j in range(P.columns)]
    assert len(set(graph.pipes)) == len(graph.pipes) == streets - round(P.left_out * (streets - size + 1))
    joined = sparse.csr_array(graph.incidence @ graph.incidence.T)
    assert connected_components(joined, directed=False)[0] == 1
    assert graph.tanks == -(-size // P.nodes_per_tank)


def test_a_seed_is_a_network() -> None:
    one, same, other = (PipeNetwork(rows=12, columns=9, seed=seed) for seed in (4, 4, 5))
    assert one.names == same.names != other.names
    np.testing.assert_array_equal(one.packed_parameters, same.packed_parameters)
    # Neither streets nor tanks are in rows.
    degrees = np.abs(Graph(one).incidence).sum(axis=1)
    assert set(degrees) >= {1.0, 2.0, 3.0}


# --- equations ------------------------------------------------------------------------------------


def balances(P: Any, u: Any, du: Any) -> Any:
    """F without pumps and demands, by the incidence of the graph and the laws of a pipe."""
    graph = Graph(P)
    pipes = len(graph.pipes)
    flow, pressure = u[:pipes], u[pipes:]
    main = np.array([(a[0] if a[0] == b[0] else a[1]) % 4 == 0 for a, b in graph.pipes])
    d = P.diameter * np.where(main, 2.0, 1.0)
    area = np.pi * d**2 / 4.0
    l = P.length * P._relative_length  # noqa: E741
    # Darcy and Weisbach: half rho v^2 lambda l / d; Hagen and Poiseuille: 32 nu rho l v / d^2.
    v, slow = flow / area, 64.0 * P.nu / (P.friction * d)
    loss = P.friction * l / d * 0.5 * P.rho * v * np.sqrt(v**2 + slow**2)
    momentum = P.rho * l * du[:pipes] / area + graph.incidence.T @ pressure + loss
    stored = np.zeros(len(pressure))
    stored[: graph.tanks] = P.surface / (P.rho * P.g) * du[pipes : P.n_diff]
    return np.concatenate([momentum, graph.incidence @ flow - stored])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("t", TIMES)
def test_the_residual_is_that_of_incidences_and_of_what_drives_the_water(case: str, t: float) -> None:
    P: Any = PipeNetwork(**CASES[case])
    u, du = random_point(P, 1)
    if P.sources == "day":
        driven = np.zeros(P.n)
        driven[P.n_diff :] = P.demand * np.sin(np.pi * t / P.period) ** 4
    else:
        driven = balances(P, np.asarray(P.u_exact(t)), np.asarray(P.du_exact(t)))
    expected, found = balances(P, u, du) - driven, residual(P, u, du, t)
    pipes = P.n - P.rows * P.columns
    for part in (slice(0, pipes), slice(pipes, None)):
        np.testing.assert_allclose(found[part], expected[part], atol=1e-13 * np.abs(expected[part]).max())


@pytest.mark.parametrize("case", [case for case in CASES if case != "day"])
def test_the_wave_is_the_one_described_and_has_its_derivative(case: str) -> None:
    P: Any = PipeNetwork(**CASES[case])
    graph, omega = Graph(P), 2.0 * np.pi / P.period
    along = np.array([0.8, 0.6])
    place = P.length * np.array(graph.nodes)[:, ::-1] @ along
    middle = P.length * np.array(graph.pipes).mean(axis=1)[:, ::-1] @ along
    pipes, k = len(graph.pipes), 2.0 * np.pi / P.wave_length
    areas = np.array([0.25 * np.pi * d**2 for d in P._geometry()[1]])
    for t in TIMES:
        u, du = np.asarray(P.u_exact(t)), np.asarray(P.du_exact(t))
        level = 50.0 + P.level_change * np.sin(omega * t - k * place)
        velocity = P.mean_velocity + P.velocity_change * np.cos(omega * t - k * middle)
        np.testing.assert_allclose(u[pipes:], P.rho * P.g * level, rtol=1e-13)
        np.testing.assert_allclose(u[:pipes], areas * velocity, atol=1e-13 * areas.max())
        h = 1e-3 * P.period
        near, far = (np.asarray(P.u_exact(t + s)) - np.asarray(P.u_exact(t - s)) for s in (h, 2.0 * h))
        np.testing.assert_allclose((8.0 * near - far) / (12.0 * h), du, atol=1e-9 * P.nominal.max() * omega)
        assert (np.abs((8.0 * near - far) / (12.0 * h) - du) <= 1e-9 * P.nominal * omega).all()


@pytest.mark.parametrize("size", [(3, 4), (65, 65)])
def test_the_exact_solution_satisfies_the_equations_to_round_off(size: tuple[int, int]) -> None:
    P: Any = PipeNetwork(rows=size[0], columns=size[1])
    for t in TIMES:
        u, du = np.asarray(P.u_exact(t)), np.asarray(P.du_exact(t))
        halves = linearize(P, P.state(u), P.state(du), t)
        size_of = abs(halves.mass) @ np.abs(du) + abs(halves.stiffness) @ np.abs(u)
        assert (np.abs(residual(P, u, du, t)) <= 1e-14 * size_of).all()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("c", [0.0, 2.0, 500.0])
def test_the_jacobian_is_the_derivative_of_the_residual(case: str, c: float) -> None:
    P: Any = PipeNetwork(**CASES[case])
    t = 0.3 * P.period
    for seed in range(2):
        u, du = random_point(P, seed)
        matrix: Any = P.jacobian(P.state(u), P.state(du), t, c)
        assert matrix.has_canonical_format and np.array_equal(matrix.indices, P.sparsity.indices)
        exact = matrix.toarray()
        # Without the friction F is linear; its second derivatives bend over the flow of a slow pipe.
        for j in range(P.n):
            h = 1e-4 * P.nominal[j] / max(c, 1.0)
            e = np.zeros(P.n)
            e[j] = h
            near, far = (
                residual(P, u + s * c * e, du + s * e, t) - residual(P, u - s * c * e, du - s * e, t)
                for s in (1.0, 2.0)
            )
            noise = 1e-16 * np.abs(residual(P, u, du, t)).max() / h + 1e-16 * np.abs(exact) @ np.abs(u) / h
            allowed = 1e-7 * np.abs(exact[:, j]).max() + 20.0 * noise
            assert (np.abs((8.0 * near - far) / (12.0 * h) - exact[:, j]) <= allowed).all()


def test_the_index_is_two_for_any_tanks() -> None:
    for case in CASES.values():
        P: Any = PipeNetwork(**case)
        u, du = random_point(P, 0)
        halves: Any = linearize(P, P.state(u), P.state(du), 0.2)
        mass, slope, m = halves.mass.toarray(), halves.stiffness.toarray(), P.n_diff
        assert not slope[m:, m:].any() and not mass[m:].any() and not mass[:, m:].any()
        hidden = slope[m:, :m] @ np.linalg.solve(mass[:m, :m], slope[:m, m:])
        eigenvalues = np.linalg.eigvalsh(-hidden)
        assert eigenvalues.max() < 0.0 or eigenvalues.min() > 0.0


# --- runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{}, {"rows": 20, "columns": 21}, {"rows": 64, "columns": 65}])
@pytest.mark.parametrize("rtol", [1e-4, 1e-6])
def test_the_default_method_solves_any_size_in_a_few_steps(params: dict[str, int], rtol: float) -> None:
    solution = within(10.0, lambda: solve("pipe-network", params=params, rtol=rtol))
    P: Any = PipeNetwork(**params)
    assert solution.success and solution.stats["steps"] <= 20
    for t, u in zip(solution.t, solution.u, strict=True):
        assert (np.abs(u - np.asarray(P.u_exact(t))) <= rtol * P.nominal).all()


def test_flows_that_turn_round_are_solved_as_accurately() -> None:
    turning = {"rows": 8, "columns": 8, "mean_velocity": 0.0}
    solution = solve("pipe-network", params=turning, rtol=1e-6)
    P: Any = PipeNetwork(**turning)
    assert solution.success
    for t, u in zip(solution.t, solution.u, strict=True):
        assert (np.abs(u - np.asarray(P.u_exact(t))) <= 1e-6 * P.nominal).all()


def test_tanks_lose_in_a_day_what_the_town_needs() -> None:
    """The mean of sin^4 is 3/8, and no water gets lost on the way."""
    params = {"rows": 9, "columns": 7, "sources": "day"}
    P: Any = PipeNetwork(**params)
    solution = solve("pipe-network", params=params, rtol=1e-8)
    assert solution.success
    tanks = slice(P.n - P.rows * P.columns, P.n_diff)
    lost = P.surface / (P.rho * P.g) * (solution.u[0] - solution.u[-1])[tanks].sum()
    assert lost == pytest.approx(P.n_alg * P.demand * DAY * 3.0 / 8.0, rel=1e-7)
    u = P.u_exact(0.0)
    np.testing.assert_array_equal(residual(P, u, P.du_exact(0.0), 0.0), np.zeros(P.n))
    for ask in (P.u_exact, P.du_exact):
        with pytest.raises(ReferenceRangeError, match=r"known at t=0 only; got t=60"):
            ask(60.0)


def test_radau_has_the_orders_of_theory() -> None:
    """With wide smooth pipes, large tanks and a short period nothing is stiff."""
    smooth = {"diameter": 0.5, "friction": 1e-3, "surface": 2e4, "period": 2000.0}
    data = convergence(
        PipeNetwork,
        dt=[2000.0 / k for k in (12, 17, 24)],
        t_end=2000.0,
        params=smooth,
        sweeper="radau-iia-5",
        newton_tol=1e-12,
    ).data
    for group, order in (("differential", 5.0), ("algebraic", 3.0)):
        rows = data[data["group"] == group]
        assert rows["expected"][0] == order
        slope = np.polyfit(np.log(rows["dt"]), np.log(rows["error"]), 1)[0]
        assert slope == pytest.approx(order, abs=0.3), (group, rows["error"])


@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "constrained"])
def test_sweeps_solve_ten_thousand_unknowns(sweeper: str) -> None:
    params = {"rows": 64, "columns": 65}
    solution = solve(
        "pipe-network",
        params=params,
        sweeper=sweeper,
        qdelta="MIN-SR-S",
        nodes=3,
        dt=900.0,
        t_end=1800.0,
        restol=1e-6,
    )
    P: Any = PipeNetwork(**params)
    assert solution.success
    assert (np.abs(solution.u[-1] - np.asarray(P.u_exact(1800.0))) <= 1e-6 * P.nominal).all()


# --- parameters -----------------------------------------------------------------------------------


def test_a_million_unknowns_are_made_in_time() -> None:
    P = within(10.0, lambda: PipeNetwork(rows=650, columns=645))
    assert P.n > 1_000_000 and P.sparsity.nnz == 5 * (P.n - 650 * 645) + P.n_diff - (P.n - 650 * 645)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"rows": 0}, "rows of PipeNetwork must be an integer, at least 1"),
        ({"columns": 2.5}, "columns of PipeNetwork"),
        ({"rows": 1, "columns": 1}, r"rows \* columns of PipeNetwork must be from 2"),
        ({"rows": 10_000, "columns": 10_000}, r"rows \* columns of PipeNetwork"),
        ({"left_out": 1.1}, "left_out of PipeNetwork must be from 0 to 1; got 1.1"),
        ({"left_out": "half"}, "left_out of PipeNetwork"),
        ({"nodes_per_tank": 1}, "nodes_per_tank of PipeNetwork must be at least 2; got 1"),
        ({"seed": 0}, "seed of PipeNetwork"),
        ({"diameter": 0.0}, "diameter of PipeNetwork"),
        ({"sources": "night"}, "sources 'night'"),
    ],
)
def test_impossible_parameters_are_refused(params: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        PipeNetwork(**params)
    assert "\n" not in str(error.value)
