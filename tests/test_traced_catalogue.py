"""Every problem of the catalogue as a plain ``eval_f`` made of its kernels, with nothing declared."""

import numpy as np
import pytest
import scipy.sparse as sparse

import dae_sdc as ds
from benchmarks.studies.traced import first_change, plain_function
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.run.equations import read
from dae_sdc.run.method import default_sweeper
from dae_sdc.sweepers import _machine_stages


@pytest.mark.parametrize("name", PROBLEMS)
def test_index_and_jacobians_are_those_of_the_catalogue(name):
    own, cls = plain_function(name)
    found = read(cls())
    assert found.origin == "traced"
    traced = found.problem
    assert max(1, traced.index) == max(1, own.index)
    if name not in OTHER_INDICES:
        assert traced.variable_index == own.variable_index
    if own.sparsity is not None:
        assert (traced.sparsity != own.sparsity).nnz == 0
    t, source = own.interval[0], np.random.default_rng(0)
    start = np.array(own.u_exact(t))
    sizes = np.maximum(np.abs(start), 1e-3)
    for _ in range(3):
        u, du = start + 1e-3 * sizes * source.uniform(-1.0, 1.0, own.n), source.uniform(-1.0, 1.0, own.n)
        matrices = [one.jacobian(one.state(u), one.state(du), t, 0.3) for one in (own, traced)]
        true, made = (one.toarray() if sparse.issparse(one) else one for one in matrices)
        assert ((made != 0.0) == (true != 0.0)).all()
        assert made == pytest.approx(true, rel=1e-9, abs=1e-14 * np.abs(true).max())


OTHER_INDICES = {
    "problematic-f": "counts as index 1 by default an unknown of index 2",
    "two-bit-adder": "the offsets of its charges say nothing of single unknowns, so all count as index 2",
}
# Their laws have kinks, which runs locate in equations that are read, and which these classes leave to steps.
KINKS = ("brush-tyre", "wheelset")


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name not in (*OTHER_INDICES, *KINKS)])
def test_runs_take_the_steps_of_the_catalogue(name, monkeypatch):
    """Up to the first time at which a problem of the catalogue chooses other equations."""
    run = {"rtol": 1e-6, "sweeper": default_sweeper(1e-6, None)}
    if name == "fekete":  # its factors as sparse ones have so many entries that steps keep them for longer
        monkeypatch.setattr(_machine_stages, "COSTLY_ROW_FILL", 10**6)
    end = first_change(name, **run)
    known = ds.solve(name, t_end=end, **run)
    solution = ds.solve(plain_function(name)[1], t_end=end, hidden_constraints=False, **run)
    assert solution.parameters["equations"] == "traced" and solution.success is known.success
    # Rounding decides whether single steps of those that are chaotic or very stiff are repeated.
    assert solution.stats["steps"] == pytest.approx(known.stats["steps"], rel=0.1, abs=1)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name == "wheelset")) for name in KINKS]
)
def test_runs_that_locate_kinks_end_where_those_of_the_catalogue_do(name):
    run = {"rtol": 1e-6, "sweeper": default_sweeper(1e-6, None)}
    end = first_change(name, **run)
    known = ds.solve(name, t_end=end, **run)
    solution = ds.solve(plain_function(name)[1], t_end=end, hidden_constraints=False, **run)
    assert solution.success and solution.parameters["equations"] == "traced"
    plain = np.array(PROBLEMS[name]().variable_index) < 2
    errors = np.abs(solution.u[-1] - known.u[-1]) / np.abs(known.u).max(axis=0)
    assert errors[plain].max() <= 10.0 * run["rtol"]
