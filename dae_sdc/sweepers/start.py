"""Solutions through a state: their derivative at the start of a step, and their values one step on."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsmr

from dae_sdc.dae.counters import uncounted
from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.polynomial import interpolation_matrix
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import InputError, SolveError
from dae_sdc.sweepers.coupled import stages_without_guess
from dae_sdc.sweepers.tableaux import radau_iia

START_CORRECTIONS = 3  # Newton steps in u' at the start of a step; one is enough where F is linear in u'.
# Largest distance of ``u_exact`` from the state, relative to its size, at which ``du_exact`` is its
# derivative.
STATE_TOLERANCE = 1e-9


def starting_derivative(
    problem: ProblemDAE, u0: MeshDAE, t0: float, dt: float, accuracy: int, correct: bool = False
) -> Vector:
    """u'(t0) of the solution through u0, and that of z, which F(t0, u0, u') = 0 leaves open."""
    # From the polynomial of the last step where the state carries one, then from ``du_exact`` of the problem
    # if that belongs to this state; otherwise a Radau IIA collocation over the step is solved, and its
    # polynomial of u' at t0 corrected to satisfy F if asked.
    # Shape of the result: (n,).
    if u0.polynomial is not None:
        return np.asarray(u0.polynomial.derivative_at_end())
    try:
        given, value = problem.state(problem.du_exact(t0)), problem.state(problem.u_exact(t0))
    except InputError:
        pass
    else:
        # An unknown that is 0 at this time is measured by its size in the run.
        sizes = np.maximum(np.abs(value), problem.run_scales.unknowns)
        if (np.abs(value - u0) <= STATE_TOLERANCE * sizes).all():
            return np.asarray(given.view(np.ndarray))
    tableau = radau_iia(accuracy + 3)
    stages = stages_without_guess(problem, tableau, u0, t0, dt)
    derivative: Vector = interpolation_matrix(tuple(tableau.c), (0.0,))[0] @ stages.du
    return _corrected(problem, u0, derivative, t0) if correct else derivative


def _corrected(problem: ProblemDAE, u0: MeshDAE, derivative: Vector, t0: float) -> Vector:
    """The derivative with the least change that minimises F(t0, u0, u')."""
    # F at a node at the start is part of the residual, and no sweep changes the derivative there.
    for _ in range(START_CORRECTIONS):
        slope = attach(derivative, problem.n_diff)
        residual = problem.evaluate(u0, slope, t0).copy()
        mass = linearize(problem, u0, slope, t0).mass
        if sparse.issparse(mass):
            change = lsmr(mass, residual, atol=1e-15, btol=1e-15)[0]
        else:
            change = np.linalg.lstsq(mass, residual, rcond=None)[0]
        better = attach(derivative - change, problem.n_diff)
        if not np.abs(problem.evaluate(u0, better, t0)).max() < np.abs(residual).max():
            break
        derivative = better.view(np.ndarray)
    return derivative


# Nodes of the Radau IIA method, whose order is twice that, less one; fewer where stages are not found.
NODES = (7, 3)
SUBSTEPS = 2  # Steps of it in which a time is reached.


def solution_through(problem: ProblemDAE, u_init: MeshDAE, t_init: float, t: float) -> MeshDAE:
    """The solution at t through a state, on the branch in force; what it takes is not counted as work."""
    if t < t_init:
        raise InputError(f"the solution through a state at t={t_init:g} is not known before it, at t={t:g}")
    u, h = MeshDAE(u_init), (t - t_init) / SUBSTEPS
    most, least = map(radau_iia, NODES)
    with uncounted(problem):
        for number in range(SUBSTEPS if h > 0.0 else 0):
            try:
                stages = stages_without_guess(problem, most, u, t_init + number * h, h)
            except SolveError:
                stages = stages_without_guess(problem, least, u, t_init + number * h, h)
            u[:] = stages.u[-1]
    u.polynomial = None
    return u


ProblemDAE.solution_through = solution_through
