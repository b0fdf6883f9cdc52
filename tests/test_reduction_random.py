"""Index reduction of random DAEs: full rank, constraints that hold along solutions, methods that agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
import sympy as sp
from hypothesis import given, settings, strategies as st

import dae_sdc as ds

Vector = npt.NDArray[np.float64]


@st.composite
def models(draw: st.DrawFn) -> tuple[Any, int, list[int]]:
    """A DAE whose system Jacobian is diagonally dominant after a permutation, its degrees of freedom and d.

    Equation i has the term x_j^(d_j - c_i) with j = p(i), and smaller terms of the other unknowns up to the
    orders d_j - c_i, so that c and d are offsets and the system Jacobian is regular everywhere.
    """
    n = draw(st.integers(2, 4))
    c = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    c = [k - min(c) for k in c]
    order = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    columns = draw(st.permutations(range(n)))
    d = [0] * n
    for i, j in enumerate(columns):
        d[j] = c[i] + order[i]
    model = ds.Model("random", interval=(0.0, 0.1))
    unknowns = model.variables([f"x{j}" for j in range(n)], start=0.0)
    model.parameter("a", 1.3)
    factors = st.integers(-3, 3).map(lambda k: sp.Rational(k, 20 * n))
    for i, own in enumerate(columns):
        terms = [(2 + i) * jet(model, unknowns[own], order[i]), sp.sin((i + 1) * model.t)]
        for j in range(n):
            for k in range(max(0, d[j] - c[i] + 1)):
                shape = draw(st.sampled_from((0, 1, 2, 3)))
                x = jet(model, unknowns[j], k)
                value = (x, sp.sin(x), x * sp.cos(unknowns[0]) if d[0] >= c[i] else sp.tanh(x), 0)[shape]
                if j != own or k < order[i]:
                    terms.append(draw(factors) * value)
        model.equation(sum(terms), name=f"law {i}")
    return model, sum(d) - sum(c), d


def jet(model: Any, unknown: Any, order: int) -> Any:
    return model.der(unknown, order) if order else unknown


def dense(matrix: Any) -> Vector:
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def consistent(problem: Any, guess: Vector) -> Vector:
    u = guess.copy()
    for _ in range(30):
        change = np.linalg.lstsq(
            dense(problem.invariants_jacobian(u, 0.0)), -problem.invariants(u, 0.0), rcond=1e-12
        )[0]
        u += change
        if np.abs(change).max() < 1e-14:
            break
    return u


@settings(max_examples=12, deadline=None, derandomize=True)
@given(models())
def test_random_systems_are_reduced_to_full_rank_and_keep_their_invariants(
    drawn: tuple[Any, int, list[int]],
) -> None:
    model, dof, _ = drawn
    ordinary = ds.reduce(model, method="separation", form="ode").problem()
    u0 = ordinary.state(consistent(ordinary, np.zeros(ordinary.n)))
    # All derivatives follow, and the invariants leave as many values free as the equations.
    mass = dense(ordinary.jacobian(u0, ordinary.dtype_f(ordinary.init), 0.0, 0.0))
    assert np.linalg.cond(mass) < 1e8
    if ordinary.invariant_names:
        slopes = dense(ordinary.invariants_jacobian(u0, 0.0))
        slopes /= np.abs(slopes).max(axis=1, keepdims=True)
        assert ordinary.n - np.linalg.matrix_rank(slopes, tol=1e-10) == dof
    else:
        assert ordinary.n == dof
    solution = ds.solve(ordinary, sweeper="radau-iia-5", dt=0.02, t_end=0.1, u0=u0)
    known = dict(zip(ordinary.names, solution.u[-1].tolist(), strict=True))
    for u, t in zip(solution.u, solution.t, strict=True):
        assert np.abs(ordinary.invariants(u, t)).max(initial=0.0) < 1e-6
    # The other ways give the same solution; the stages keep their equations exactly.
    start = dict(zip(ordinary.names, u0.tolist(), strict=True))
    for method in ("fraction-free", "stages"):
        problem = ds.reduce(model, method=method).problem()
        guess = np.array([start.get(name, 0.0) for name in problem.names])
        free = [i for i, name in enumerate(problem.names) if name not in start]
        v0 = complete(problem, guess, free)
        found = ds.solve(problem, sweeper="radau-iia-5", dt=0.02, t_end=0.1, u0=v0)
        for name, value in zip(problem.names, found.u[-1].tolist(), strict=True):
            assert abs(value - known.get(name, value)) < 1e-5 * (1.0 + abs(value)), name
        for u, t in zip(found.u, found.t, strict=True):
            size = 1.0 + np.abs(u).max()
            assert np.abs(problem.invariants(u, t)).max(initial=0.0) < 1e-6 * size


def complete(problem: Any, guess: Vector, free: list[int]) -> Vector:
    """Values of some unknowns such that the equations hold that contain no derivatives."""
    u = guess.copy()
    for _ in range(30):
        if not free:
            break
        slopes = dense(problem.invariants_jacobian(u, 0.0))[:, free]
        change = np.linalg.lstsq(slopes, -problem.invariants(u, 0.0), rcond=1e-12)[0]
        u[free] += change
        if np.abs(change).max() < 1e-14:
            break
    return u
