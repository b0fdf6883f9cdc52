"""Rows of sparse matrices matched with columns: against SciPy's matching, and where that does not end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import maximum_bipartite_matching

from dae_sdc.dae.linear import is_structurally_singular, maximum_matching
from dae_sdc.run.target import make_problem


@pytest.mark.parametrize("seed", range(10))
def test_as_many_rows_have_a_column_as_in_other_maximum_matchings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        rows, columns = rng.integers(0, 12, 2)
        matrix = sparse.csr_matrix(rng.random((rows, columns)) < rng.random())
        found = maximum_matching(matrix)
        pairs = [(row, column) for row, column in enumerate(found) if column >= 0]
        assert len({column for _, column in pairs}) == len(pairs)
        assert all(matrix[pair] for pair in pairs)
        other = maximum_bipartite_matching(matrix, perm_type="column") if matrix.nnz else np.zeros(0)
        assert len(pairs) == (other >= 0).sum() if matrix.nnz else not pairs


def test_the_stages_of_a_flow_are_matched_in_any_order_of_their_rows() -> None:
    pattern: Any = sparse.csc_matrix(make_problem("navier-stokes", {"cells": 20}).sparsity)
    stages = sparse.csc_matrix(sparse.kron(np.ones((5, 5)), abs(pattern)))
    stages.data[:] = 1.0
    n = stages.shape[0]
    moved = stages[np.random.default_rng(1).permutation(n)].tocsc()
    assert np.array_equal(np.sort(maximum_matching(moved)), np.arange(n))
    assert not is_structurally_singular(moved)
    moved.data[moved.indices == 3] = 0.0
    moved.eliminate_zeros()
    assert is_structurally_singular(moved)
