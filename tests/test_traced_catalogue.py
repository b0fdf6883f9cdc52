"""Every problem of the catalogue as a plain ``eval_f``, made of its kernels in Python, with nothing declared."""

import numpy as np
import pytest
import scipy.sparse as sparse

import dae_sdc as ds
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.model.trace import trace_problem
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
        ds.ProblemDAE.__init__(self, own.n_diff, own.n_alg, **settings)

    attributes = {"eval_f": eval_f, "__init__": begins, "interval": own.interval, "dt": own.dt}
    attributes["u_exact"] = lambda self, t: own.u_exact(t)
    if own.given_nominal is not None:
        attributes["nominal"] = np.asarray(own.nominal)
    return own, type("Plain", (ds.ProblemDAE,), attributes)
