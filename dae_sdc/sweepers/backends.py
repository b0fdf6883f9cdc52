"""Which code solves at the nodes of a sweep: compiled code where that can be, Python otherwise."""

from __future__ import annotations

import importlib
from typing import Any

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.sweepers.solvers import PythonNodes

BACKENDS = ("compiled", "numpy")
"""Names of the kinds of code that can solve at the nodes."""


def node_solver(
    problem: ProblemDAE, n_integrated: int, owned: range, diagonal: bool, num_nodes: int, backend: str | None
) -> PythonNodes:
    """The solver for the nodes of a process: in compiled code where that is possible, in Python otherwise."""
    kernels = None if backend == "numpy" else problem.kernels
    solvers = ("auto", "dense" if problem.sparsity is None else "superlu")
    if kernels is not None and kernels.jacobian and problem.linear_solver in solvers:
        module: Any = importlib.import_module("dae_sdc.sweepers._compiled")
        kind = module.DenseNodes if problem.sparsity is None else module.SparseNodes
        made: PythonNodes = kind(problem, n_integrated, owned, diagonal, num_nodes)
        return made
    if backend == "compiled":
        given = 0 if kernels is None else 1 + (kernels.jacobian != 0)
        raise InputError(
            f"backend='compiled' needs a problem with residual_kernel and jacobian_kernel, and one of "
            f"the linear solvers {', '.join(solvers)}; {type(problem).__name__} has {given} "
            f"kernels and linear_solver='{problem.linear_solver}'"
        )
    return PythonNodes(problem, n_integrated, owned, diagonal)
