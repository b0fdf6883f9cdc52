"""The solution of a DAE through any state, as exact as double precision allows over one step."""

from __future__ import annotations

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError, SolveError
from dae_sdc.sweepers.coupled import CoupledStages
from dae_sdc.sweepers.tableaux import radau_iia

NODES = (7, 3)
"""Nodes of the Radau IIA method, whose order is twice that, less one; fewer where stages are not found."""

SUBSTEPS = 2
"""Steps of it in which a time is reached."""


def solution_through(problem: ProblemDAE, u_init: MeshDAE, t_init: float, t: float) -> MeshDAE:
    """The solution at t through a state, on the branch in force; what it takes is not counted as work."""
    if t < t_init:
        raise InputError(f"the solution through a state at t={t_init:g} is not known before it, at t={t:g}")
    counts = {name: counter.niter for name, counter in problem.work_counters.items()}
    u, h = MeshDAE(u_init), (t - t_init) / SUBSTEPS
    for number in range(SUBSTEPS if h > 0.0 else 0):
        u[:] = _step(problem, u, t_init + number * h, h)
    for name, count in counts.items():
        problem.work_counters[name].niter = count
    u.polynomial = None
    return u


def _step(problem: ProblemDAE, u: MeshDAE, t: float, h: float) -> Vector:
    """The end of a step of size h."""
    for nodes in NODES:
        tableau = radau_iia(nodes)
        stages = CoupledStages(problem, tableau.A, tableau.c)
        try:
            stages.start(u, stages.march(u, t, h), t, h)
            stages.solve()
        except SolveError:
            if nodes == NODES[-1]:
                raise
        else:
            break
    last: Vector = stages.u[-1]
    return last


ProblemDAE.solution_through = solution_through
