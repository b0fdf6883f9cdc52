"""Structural analysis of patterns: matching, offsets, blocks, stages, ranks, and messages on bad models."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import sympy
from helpers.timing import within
from hypothesis import assume, given, settings, strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import PRIME
from dae_sdc.structure.analysis import structure
from dae_sdc.structure.blocks import (
    Block,
    canonical_offsets,
    find_blocks,
    find_transversal,
    fine_blocks,
    strong_components,
)
from dae_sdc.structure.rank import Echelon, WorkLimitError, choose_states, exact_rank, floating_rank
from dae_sdc.structure.signature import (
    MOST_LISTED,
    Signature,
    StructureError,
    derivative_name,
    dulmage_mendelsohn,
    listed,
)

_ = -np.inf

PENDULUM = [[2, _, 0], [_, 2, 0], [0, 0, _]]


@st.composite
def matrices(draw: st.DrawFn, largest: int = 5) -> np.ndarray:
    n = draw(st.integers(1, largest))
    entries = st.sampled_from([_, _, 0, 0, 1, 2, 3])
    return np.array(draw(st.lists(st.lists(entries, min_size=n, max_size=n), min_size=n, max_size=n)))


def highest_value(matrix: np.ndarray) -> float:
    """By trying all transversals."""
    n = len(matrix)
    return max(sum(matrix[i, p[i]] for i in range(n)) for p in permutations(range(n)))


# --- offsets --------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(matrices())
def test_transversal_and_offsets_are_the_optimum_and_its_smallest_dual(matrix: np.ndarray) -> None:
    value = highest_value(matrix)
    pattern = Signature.from_dense(matrix)
    if not np.isfinite(value):
        with pytest.raises(StructureError):
            find_transversal(pattern)
        return
    transversal = find_transversal(pattern)
    n = len(matrix)
    assert sorted(transversal) == list(range(n))
    assert matrix[np.arange(n), transversal].sum() == value
    c, d = canonical_offsets(pattern, transversal)
    assert d.sum() - c.sum() == value
    # The smallest dual by linear programming: least sum of c with d_j - c_i >= sigma_ij, and the best value.
    rows = [-np.eye(2 * n)[n + j] + np.eye(2 * n)[i] for i, j in np.argwhere(np.isfinite(matrix))]
    bounds = [-matrix[i, j] for i, j in np.argwhere(np.isfinite(matrix))]
    cost = np.r_[np.ones(n), np.zeros(n)]
    best = linprog(cost, rows, bounds, [np.r_[-np.ones(n), np.ones(n)]], [value], bounds=(0, None))
    np.testing.assert_allclose(np.r_[c, d], best.x, atol=1e-6)


def test_offsets_of_the_pendulum() -> None:
    found = structure(PENDULUM)
    assert found.c.tolist() == [0, 0, 2]
    assert found.d.tolist() == [2, 2, 0]
    assert (found.index, found.dof) == (3, 2)
    assert found.rank is None
    assert found.regular is None


@pytest.mark.parametrize("n", [10, 1000])
def test_offsets_along_a_path_that_is_longer_than_the_rounds_of_the_vectorised_search(n: int) -> None:
    # x_1 = ..., x_{k+1} = x_k': equation k must be differentiated n - k times.
    rows, cols = np.r_[np.arange(n), np.arange(1, n)], np.r_[np.arange(n), np.arange(n - 1)]
    pattern = Signature.make((rows, cols, np.r_[np.zeros(n), np.ones(n - 1)]), (n, n))
    found = structure(pattern)
    assert found.c.tolist() == list(range(n - 1, -1, -1))
    assert found.d.tolist() == list(range(n - 1, -1, -1))
    assert (found.index, found.dof) == (n, 0)
    assert [block.rows.tolist() for block in found.coarse] == [[k] for k in range(n)]


def coupled_pendula(count: int) -> Signature:
    entries = []
    for i in range(count):
        a = 3 * i
        entries += [
            (a, a, 2),
            (a, a + 2, 0),
            (a + 1, a + 1, 2),
            (a + 1, a + 2, 0),
            (a + 2, a, 0),
            (a + 2, a + 1, 0),
        ]
        if i:
            entries.append((a + 2, a - 1, 0))
    rows, cols, orders = zip(*entries, strict=True)
    return Signature.make((rows, cols, orders), (3 * count, 3 * count))


def test_large_patterns_that_are_coupled_one_way_have_long_chains_of_offsets() -> None:
    count = 2000
    found = structure(coupled_pendula(count))
    assert found.index == 2 * count + 1
    assert found.dof == 2 * count
    assert found.c[:3].tolist() == [2 * count - 2, 2 * count - 2, 2 * count]
    assert len(found.coarse) == count
    assert len(found.stages) == found.d.max() + 1  # made one by one: all of them would have 1e7 entries
    assert len(found.stages[0].tasks) == 1
    assert len(found.stages[-1].tasks) == count


# --- blocks ---------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(matrices(6))
def test_blocks_are_triangular_and_connected(matrix: np.ndarray) -> None:
    pattern = Signature.from_dense(matrix)
    try:
        transversal = find_transversal(pattern)
    except StructureError:
        assume(False)
    c, d = canonical_offsets(pattern, transversal)
    reaches = np.isfinite(matrix) & (matrix == d - c[:, None])
    for found, occurs in (
        (find_blocks(pattern.rows, pattern.cols, transversal), np.isfinite(matrix)),
        (fine_blocks(pattern, transversal, c, d), reaches),
    ):
        number = np.empty(len(matrix), dtype=int)
        for k, block in enumerate(found):
            number[block.rows] = k
            assert transversal[block.rows].tolist() == block.cols.tolist()
        graph = occurs[:, transversal]  # equation i uses the unknown of equation k
        for i, k in np.argwhere(graph):
            assert number[k] <= number[i]
        power = np.linalg.matrix_power(np.eye(len(matrix)) + graph, len(matrix)) > 0
        assert np.array_equal(power & power.T, number[:, None] == number)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_the_order_of_strong_components_is_topological(pairs: list[tuple[int, int]]) -> None:
    source, goal = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    labels = strong_components(8, source, goal)
    assert np.all(labels[source] <= labels[goal])


def hidden_blocks(n: int, size: int, seed: int) -> tuple[Signature, np.ndarray, np.ndarray]:
    """A pattern made of cyclic blocks with known offsets, its rows and columns shuffled.

    Block k is a cycle of zeros on the diagonal and beside it, with 0 or 1 added to both offsets; entries
    below the blocks are as high as the offsets allow.
    """
    source = np.random.default_rng(seed)
    count = n // size
    at = np.arange(n)
    block = at // size
    after = block * size + (at + 1) % size
    # Each block but the last determines, differentiated once more, what the next needs: c falls along chains.
    chain = block % 5
    c, d = 4 - chain, 5 - chain
    head = at[(at % size == 0) & (chain > 0)]
    below = np.repeat(head, 2)
    before = (block[below] - 1) * size + source.integers(0, size, below.size)
    rows, cols = np.r_[at, at, below], np.r_[at, after, before]
    orders = np.r_[np.ones(2 * n), d[before] - c[below]].astype(np.int64)
    p, q = source.permutation(n), source.permutation(n)
    hidden_c, hidden_d = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    hidden_c[p], hidden_d[q] = c, d
    assert count % 5 == 0
    return Signature.make((p[rows], q[cols], orders), (n, n)), hidden_c, hidden_d


def test_a_hundred_thousand_equations_with_known_structure() -> None:
    n, size = 100_000, 4
    pattern, c, d = hidden_blocks(n, size, 0)
    found = within(10.0, lambda: structure(pattern))
    np.testing.assert_array_equal(found.c, c)
    np.testing.assert_array_equal(found.d, d)
    assert found.index == 4
    assert found.dof == n
    assert {block.size for block in found.coarse} == {size}
    assert {block.size for block in found.fine} == {size}


# --- what does not match --------------------------------------------------------------------------


def names_in(matrix: Any, equations: list[str], unknowns: list[str]) -> str:
    with pytest.raises(StructureError) as error:
        structure(Signature.from_dense(matrix, unknowns, equations))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_equations_that_are_too_many_and_unknowns_that_are_not_determined_are_named() -> None:
    matrix = [[0, _, _, _], [1, _, _, _], [_, 0, 1, 0], [_, 0, 0, 0]]
    said = names_in(matrix, ["mass", "rest", "heat", "flow"], ["m", "T", "p", "v"])
    assert "equations 'mass' and 'rest' contain only unknown 'm' (1 too many)" in said
    assert "unknowns 'T', 'p' and 'v' occur only in equations 'heat' and 'flow' (1 equation missing)" in said


def test_an_empty_equation_and_an_unknown_that_never_occurs_are_named() -> None:
    said = names_in([[0, _], [_, _]], ["a", "b"], ["x", "y"])
    assert "equation 'b' contains no unknown" in said
    assert "unknown 'y' occurs in no equation" in said


def test_more_equations_than_unknowns() -> None:
    said = names_in([[0], [1]], ["a", "b"], ["x"])
    assert said == (
        "2 equations do not determine 1 unknown: equations 'a' and 'b' contain only unknown 'x' (1 too many)"
    )


def test_more_unknowns_than_equations() -> None:
    said = names_in([[0, 1, _]], ["a"], ["x", "y", "z"])
    assert "1 equation does not determine 3 unknowns" in said
    assert "unknowns 'x', 'y' and 'z' occur only in equation 'a' (2 equations missing)" in said


def test_no_equations() -> None:
    with pytest.raises(StructureError, match="no equations"):
        structure(np.empty((0, 0)))


def test_long_lists_of_names_are_cut() -> None:
    n = MOST_LISTED + 3
    assert listed([str(k) for k in range(n)]).endswith("and 3 more")
    said = names_in(np.zeros((n, 1)), [f"e{k}" for k in range(n)], ["x"])
    assert "'e0'" in said
    assert "and 3 more" in said


@given(st.integers(1, 6), st.integers(1, 6), st.randoms(use_true_random=False))
def test_parts_of_dulmage_and_mendelsohn_have_their_properties(m: int, n: int, source: Any) -> None:
    matrix = np.array([[source.choice([0, _, _]) for _column in range(n)] for _row in range(m)])
    occurs = np.isfinite(matrix)
    parts = dulmage_mendelsohn(Signature.from_dense(matrix))
    size = len(parts.over_rows) - len(parts.over_cols), len(parts.under_cols) - len(parts.under_rows)
    assert size == (len(parts.surplus_rows), len(parts.surplus_cols))
    # Over-determined equations contain nothing else, under-determined unknowns occur nowhere else.
    others = np.setdiff1d(np.arange(n), parts.over_cols)
    assert not occurs[np.ix_(parts.over_rows, others)].any()
    rest = np.setdiff1d(np.arange(m), parts.under_rows)
    assert not occurs[np.ix_(rest, parts.under_cols)].any()
    assert m - size[0] == n - size[1]  # the size of a largest matching


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (([0, 5], [0, 1], [0, 0]), "a row of the signature"),
        (([0, 1], [0, -1], [0, 0]), "a column of the signature"),
        (([0, 1], [0, 1], [0, -1]), "negative"),
        (([0, 1], [0], [0, 0]), "equally long"),
    ],
)
def test_entries_that_are_none(entries: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Signature.make(entries, (2, 2))


def test_orders_are_integers() -> None:
    with pytest.raises(InputError, match="integers"):
        structure([[0.5]])
    with pytest.raises(InputError, match="two dimensions"):
        structure([1, 2])


def test_names_must_fit() -> None:
    with pytest.raises(InputError, match="3 names for 2 unknowns"):
        Signature.from_dense(np.zeros((2, 2)), ["a", "b", "c"])


def test_the_higher_of_two_entries_counts() -> None:
    pattern = Signature.make(([0, 0, 0], [0, 0, 0], [1, 3, 2]), (1, 1))
    assert pattern.orders.tolist() == [3]
    assert pattern.dense().tolist() == [[3.0]]


def test_names_of_derivatives() -> None:
    assert [derivative_name("x", k) for k in (0, 1, 3, 4)] == ["x", "x'", "x'''", "x^(4)"]


# --- ranks ----------------------------------------------------------------------------------------


@st.composite
def singular(draw: st.DrawFn) -> np.ndarray:
    n = draw(st.integers(1, 6))
    entry = st.integers(-3, 3)
    matrix = np.array(draw(st.lists(st.lists(entry, min_size=n, max_size=n), min_size=n, max_size=n)))
    return matrix * np.array(
        draw(st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=n, max_size=n))
    )


def support(vectors: list[Any]) -> list[int]:
    return sorted({i for vector in vectors for i in range(vector.rows) if vector[i] != 0})


@settings(max_examples=80, deadline=None)
@given(singular())
def test_ranks_and_dependences_are_those_that_sympy_finds(matrix: np.ndarray) -> None:
    n = len(matrix)
    exact = sympy.Matrix(matrix)
    values = {(int(i), int(j)): int(matrix[i, j]) % PRIME for i, j in np.argwhere(matrix)}
    whole = [Block(np.arange(n), np.arange(n))]
    for test in (exact_rank(n, values, whole), floating_rank(csr_matrix(matrix.astype(float)), whole)):
        assert test.rank == exact.rank()
        assert test.rows.tolist() == support(exact.T.nullspace())
        assert test.cols.tolist() == support(exact.nullspace())


def test_ranks_of_badly_scaled_matrices() -> None:
    source = np.random.default_rng(1)
    matrix = (
        source.normal(size=(8, 8))
        * 10.0 ** source.integers(-8, 9, (8, 1))
        * 10.0 ** source.integers(-8, 9, 8)
    )
    whole = [Block(np.arange(8), np.arange(8))]
    assert floating_rank(csr_matrix(matrix), whole).rank == 8
    matrix[5] = 1e6 * matrix[2]
    assert floating_rank(csr_matrix(matrix), whole).rank == 7


def test_a_matrix_that_is_not_finite() -> None:
    with pytest.raises(InputError, match="not finite"):
        floating_rank(csr_matrix([[np.nan]]), [Block(np.arange(1), np.arange(1))])


def test_a_narrow_band_in_any_order_is_eliminated_in_little_time() -> None:
    n = 3000
    source = np.random.default_rng(2)
    p, q = source.permutation(n), source.permutation(n)
    values = {
        (int(p[i]), int(q[j])): int(source.integers(1, PRIME // 2**70))
        for i in range(n)
        for j in (i - 1, i, (i + 1) % n)
    }
    whole = [Block(np.arange(n), q[np.argsort(p)])]
    assert within(5.0, lambda: exact_rank(n, values, whole)).rank == n


def test_an_elimination_stops_at_its_limit() -> None:
    echelon = Echelon(limit=3)
    echelon.add({0: 1, 1: 1, 2: 1})
    echelon.add({1: 1, 2: 1})
    with pytest.raises(WorkLimitError):
        echelon.add({0: 2, 1: 3, 2: 5})


# --- stages and free values -----------------------------------------------------------------------


def test_stages_of_the_pendulum() -> None:
    found = structure(PENDULUM)
    assert [stage.number for stage in found.stages] == [-2, -1, 0]
    first, second, last = found.stages
    assert first.equations == [(2, 0)]
    assert second.equations == [(2, 1)]
    assert sorted(last.equations) == [(0, 0), (1, 0), (2, 2)]
    assert sorted(last.unknowns) == [(0, 2), (1, 2), (2, 0)]
    assert len(first.free) == len(second.free) == 1
    assert first.free[0][0] == second.free[0][0]  # the same coordinate


@settings(max_examples=60, deadline=None)
@given(matrices(6))
def test_stages_find_every_derivative_once_and_leave_the_degrees_of_freedom(matrix: np.ndarray) -> None:
    try:
        found = structure(matrix)
    except StructureError:
        assume(False)
    stages = list(found.stages)
    solved = [pair for stage in stages for pair in stage.unknowns]
    free = [pair for stage in stages for pair in stage.free]
    everything = [(j, k) for j in range(found.size) for k in range(found.d[j] + 1)]
    assert sorted(solved + free) == everything
    assert sorted(free) == found.free
    assert len(free) == found.dof
    for stage in stages:
        assert all(order == stage.number + found.c[i] for i, order in stage.equations)
        for task in stage.tasks:
            assert len(task.equations) == len(task.unknowns)
    assert len([pair for stage in stages for pair in stage.equations]) == sum(found.c + 1)


def test_free_values_are_such_that_the_constraints_determine_the_others() -> None:
    # x + y + z = 0 and x + y + 2 z = 0 determine z: it cannot be free, though a transversal may say so.
    rows = [{0: 1, 1: 1, 2: 1}, {0: 1, 1: 1, 2: 2}, {0: 1, 2: 1}]
    values = {(i, j): value for i, row in enumerate(rows) for j, value in row.items()}
    c, d = np.array([1, 1, 0]), np.array([1, 1, 1])
    block = Block(np.array([0, 1, 2]), np.array([0, 1, 2]))
    states = choose_states(values, [block], c, d)
    assert states.sum() == 1
    assert states[2] == 0
    given_well = Block(np.array([0, 1, 2]), np.array([1, 2, 0]))
    assert choose_states(values, [given_well], c, d).tolist() == [1, 0, 0]


def test_structural_index_counts_one_more_for_unknowns_that_are_not_differentiated() -> None:
    assert structure([[1, _], [_, 1]]).index == 0
    assert structure([[1, _], [_, 0]]).index == 1


def test_a_structure_prints_itself() -> None:
    text = str(ds.structure(PENDULUM))
    assert "structural index 3, degrees of freedom 2" in text
    assert "f3''" in text
    long = str(structure(coupled_pendula(200)))
    assert "and 560 more equations" in long
    assert len(long.splitlines()) < 100
