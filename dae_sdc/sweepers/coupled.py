"""All stages of an implicit Runge-Kutta step as one nonlinear system, and solutions through a state by it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsmr

from dae_sdc.dae.jacobian import Linearization, linearize
from dae_sdc.dae.linear import Matrix
from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.newton import ImplicitSystem, ModifiedNewton, NodeSystem
from dae_sdc.dae.newton_checks import jacobian_note
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, interpolation_matrix, reaches
from dae_sdc.errors import InputError, SolveError
from dae_sdc.sweepers.tableaux import Tableau, radau_iia


class CoupledStages(ImplicitSystem):
    """F(t_i, u_0 + dt sum_j a_ij U_j, U_i) = 0 for the derivatives U_i of all s stages together."""

    # Shapes: A (s, s), c (s,).

    def __init__(self, problem: ProblemDAE, A: Vector, c: Vector) -> None:
        self.problem, self.A, self.c = problem, A, c
        self.newton = ModifiedNewton(problem, trust=False)
        self._weights = np.empty((len(c), problem.n))
        self._saved = np.empty((2, len(c), problem.n))

    def start(self, u0: MeshDAE, guess: Vector, t0: float, dt: float) -> None:
        """Begin a step from ``u0`` with ``guess``, shape (n,) or (s, n), for the stage derivatives."""
        shape = (len(self.c), self.problem.n)
        self.du = np.empty(shape)
        self.du[:] = guess
        self._dt_a = dt * self.A
        self.u = u0.view(np.ndarray) + self._dt_a @ self.du
        self._u, self._du = self.u, self.du
        self.times = t0 + dt * self.c
        self.time, self.dt = t0, dt
        self.key = dt
        self.rescale()

    def march(self, u0: MeshDAE, t0: float, dt: float) -> Vector:
        """A guess for the stage derivatives by implicit Euler from node to node; 0 where that fails."""
        # Small steps find the solution near ``u0``; Newton's method for all stages together may find another
        # one.
        problem = self.problem
        system, newton = NodeSystem(problem, problem.n), ModifiedNewton(problem, trust=False)
        values = np.empty((len(self.c), problem.n))
        value, slope = u0.view(np.ndarray), np.zeros(problem.n)
        last = 0.0
        try:
            for i in np.argsort(self.c):
                h = float(dt * (self.c[i] - last))
                if h > 0.0:
                    value, slope = value + h * slope, slope.copy()
                    system.place(value, slope, float(t0 + dt * self.c[i]), h, (t0, dt), int(i) + 1)
                    newton.solve(system)
                    slope[problem.n_diff :], last = 0.0, self.c[i]
                values[i] = value
        except SolveError:
            return np.zeros_like(values)
        return np.linalg.solve(dt * self.A, values - u0.view(np.ndarray))

    def solve_from(self, u0: MeshDAE, t0: float, dt: float) -> None:
        """Solve a step from the extrapolated polynomial or, if that fails, from small steps."""
        n_diff, polynomial = self.problem.n_diff, u0.polynomial
        if reaches(polynomial, t0 + dt, self.problem.n):
            guess = np.empty((len(self.c), self.problem.n))
            nodes = tuple(self.c.tolist())
            polynomial.extrapolate(t0, dt, nodes, guess, guess)
            # From index 2 on the derivative of algebraic unknowns is too rough to be extrapolated, but not
            # the unknowns themselves; kept constant, they could lead to a solution on another branch.
            change = polynomial.continuation(t0, dt, nodes) @ polynomial.value[:, n_diff:]
            change -= u0.view(np.ndarray)[n_diff:]
            guess[:, n_diff:] = np.linalg.solve(dt * self.A, change)
            self.start(u0, guess, t0, dt)
            with suppress(SolveError):
                self.newton.solve(self)
                return
        self.start(u0, self.march(u0, t0, dt), t0, dt)
        self.newton.solve(self)

    def solve_step(self, u0: MeshDAE, guess: Vector, t0: float, dt: float) -> bool:
        """Solve with a Jacobian at each stage and damping; whether that succeeds."""
        self.newton.forget()
        self.start(u0, guess, t0, dt)
        try:
            self.newton.solve(self)
            self.rescale()  # the guess may have been far away
            self.newton.verify(self)
        except SolveError:
            return False
        return True

    @property
    def where(self) -> str:
        """Step and number of stages for messages."""
        return f"the {len(self.c)} coupled stages of the step from {self.time:.6g} with dt={self.dt:.3g}"

    def residual(self) -> Vector:
        return self.problem.evaluate_nodes(self.u, self.du, self.times).ravel()

    def linearize(self) -> list[Linearization]:
        stages = zip(self.u, self.du, self.times.tolist(), strict=True)
        return [linearize(self.problem, *stage) for stage in stages]

    def matrix(self, linearization: list[Linearization]) -> Matrix:
        s, n = self.u.shape
        if sparse.issparse(linearization[0].mass):
            rows: list[list[Any]] = [
                [self._dt_a[i, j] * part.stiffness for j in range(s)] for i, part in enumerate(linearization)
            ]
            for i, part in enumerate(linearization):
                rows[i][i] = rows[i][i] + part.mass
            return sparse.bmat(rows, format="csc")
        matrix = np.empty((s, n, s, n))
        for i, part in enumerate(linearization):
            for j in range(s):
                np.multiply(part.stiffness, self._dt_a[i, j], out=matrix[i, :, j, :])
            matrix[i, :, i, :] += part.mass
        return matrix.reshape(s * n, s * n)

    def remark(self) -> str:
        return jacobian_note(self.problem, self.u[-1], self.du[-1], float(self.times[-1]))

    def move(self, correction: Vector, fraction: float) -> None:
        change = fraction * correction.reshape(self.du.shape)
        self.du -= change
        self.u -= self._dt_a @ change

    def rescale(self) -> None:
        n_diff, scales = self.problem.n_diff, self.problem.run_scales
        differential, algebraic = self._weights[:, :n_diff], self._weights[:, n_diff:]
        if scales.begun:
            slopes = np.maximum(scales.rates, np.abs(self.du).max(axis=0))
            values = np.maximum(scales.unknowns, np.abs(self.u).max(axis=0))
            differential[:], algebraic[:] = 1.0 / slopes[:n_diff], self.dt / values[n_diff:]
            return
        differential[:] = 1.0 / (1.0 + np.abs(self.du[:, :n_diff]).max(initial=0.0))
        algebraic[:] = self.dt / (1.0 + np.abs(self.u[:, n_diff:]).max(initial=0.0))

    def magnitude(self, linearization: list[Linearization]) -> Vector:
        points = zip(linearization, self.u, self.du, strict=True)
        return np.concatenate([part.terms(u, du) for part, u, du in points])

    def equation(self, i: int) -> str:
        return f"{self.problem.equation_names[i % self.problem.n]} (stage {i // self.problem.n + 1})"

    def unknown(self, i: int) -> str:
        return f"{self.problem.names[i % self.problem.n]} (stage {i // self.problem.n + 1})"


def stages_without_guess(
    problem: ProblemDAE, tableau: Tableau, u0: MeshDAE, t0: float, dt: float
) -> CoupledStages:
    """The solved stages of a step from a state of which no step before it tells anything."""
    stages = CoupledStages(problem, tableau.A, tableau.c)
    stages.start(u0, stages.march(u0, t0, dt), t0, dt)
    stages.newton.solve(stages)
    return stages


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
    with suppress(InputError):
        given, value = problem.state(problem.du_exact(t0)), problem.state(problem.u_exact(t0))
        # An unknown that is 0 at this time is measured by its size in the run.
        sizes = np.maximum(np.abs(value), problem.run_scales.unknowns)
        if (np.abs(value - u0) <= STATE_TOLERANCE * sizes).all():
            return np.asarray(given)
    tableau = radau_iia(accuracy + 3)
    stages = stages_without_guess(problem, tableau, u0, t0, dt)
    derivative = interpolation_matrix(tuple(tableau.c), (0.0,))[0] @ stages.du
    return _corrected(problem, u0, derivative, t0) if correct else derivative


def _corrected(problem: ProblemDAE, u0: MeshDAE, derivative: Vector, t0: float) -> Vector:
    """The derivative with the least change that minimises F(t0, u0, u')."""
    # F at a node at the start is part of the residual, and no sweep changes the derivative there.
    for _ in range(START_CORRECTIONS):
        residual = problem.evaluate(u0, derivative, t0).copy()
        mass = linearize(problem, u0, derivative, t0).mass
        if sparse.issparse(mass):
            change = lsmr(mass, residual, atol=1e-15, btol=1e-15)[0]
        else:
            change = np.linalg.lstsq(mass, residual, rcond=None)[0]
        better = derivative - change
        if not np.abs(problem.evaluate(u0, better, t0)).max() < np.abs(residual).max():
            break
        derivative = better
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
