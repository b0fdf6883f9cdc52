"""Every problem of the catalogue as a plain ``eval_f`` made of its kernels, with nothing declared."""

import numpy as np
import pytest
import scipy.sparse as sparse

import dae_sdc as ds
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.run.adaptive import default_sweeper
from dae_sdc.run.tracing import read


def plain(name):
    """A problem of the catalogue, and a class with the eval_f that its kernels are in Python."""
    own = PROBLEMS[name]()
    cls, p = type(own), np.array(own.kernel_parameters(), dtype=float)
    parts = {} if cls.residual_kernel else {part: own.given_part(part) for part in ("A", "B", "h", "g", "dg")}
    kernels = {
        part: (getattr(cls, f"{given.name}_kernel"), given.shape)
        for part, given in parts.items()
        if given.source == "kernel"
    }
    kernel = cls.residual_kernel

    def value(part, t, q, v=None):
        if part not in kernels:  # B of mechanics
            return value("dg", t, q, v).T
        function, shape = kernels[part]
        out = np.zeros(int(np.prod(shape)))
        function(t, q, q if v is None else v, p, out)
        return out.reshape(shape)

    def eval_f(self, u, du, t):
        if kernel is None:
            return own.residual_of_parts(t, u, du, value)
        out = np.zeros(self.n)
        kernel(t, u, du, p, out)
        return out

    def begins(self, **settings):
        ds.ProblemDAE.__init__(self, own.n_diff, own.n_alg, **{"newton_tol": own.newton_tol, **settings})

    attributes = {"eval_f": eval_f, "__init__": begins, "interval": own.interval, "dt": own.dt}
    attributes["u_exact"] = lambda self, t: own.u_exact(t)
    if own.given_nominal is not None:
        attributes["nominal"] = np.asarray(own.nominal)
    return own, type("Plain", (ds.ProblemDAE,), attributes)


@pytest.mark.parametrize("name", PROBLEMS)
def test_index_and_jacobians_are_those_of_the_catalogue(name):
    own, cls = plain(name)
    found = read(cls())
    assert found.equations == "traced"
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


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name not in OTHER_INDICES])
def test_runs_take_the_steps_of_the_catalogue(name):
    """Up to the first time at which a problem of the catalogue chooses other equations."""
    own, cls = plain(name)
    run = {"rtol": 1e-6, "sweeper": default_sweeper(1e-6, None)}
    end = min((*own.breakpoints(*own.interval), own.interval[1]))
    known = ds.solve(name, t_end=end, **run)
    switched = [time for switch in known.switches for time in np.atleast_1d(switch.t)]
    if switched:
        end = 0.99 * min(switched)
        known = ds.solve(name, t_end=end, **run)
    solution = ds.solve(cls, t_end=end, **run)
    assert solution.parameters["equations"] == "traced" and solution.success is known.success
    # Rounding decides whether single steps of those that are chaotic or very stiff are repeated.
    assert solution.stats["steps"] == pytest.approx(known.stats["steps"], rel=0.1, abs=1)
