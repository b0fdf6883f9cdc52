"""States from which a run goes on where other equations begin to hold: algebraic unknowns and u' may jump."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import qr, solve_triangular

from dae_sdc.dae.consistency import LARGEST_VIOLATION, violation
from dae_sdc.dae.jacobian import ROOT_EPS, Linearization, linearize
from dae_sdc.dae.linear import Matrix, largest
from dae_sdc.dae.newton import ImplicitSystem, ModifiedNewton
from dae_sdc.dae.paths import MOST_PATH_UNKNOWNS, newton_homotopy
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import balanced
from dae_sdc.dae.state import (
    EndDerivative,
    MeshDAE,
    Vector,
    attach,
    differentiation_row,
    interpolation_matrix,
)
from dae_sdc.errors import DAEError, EvaluationError, SolveError
from dae_sdc.sweepers.coupled import stages_without_guess
from dae_sdc.sweepers.tableaux import radau_iia

EPS = float(np.finfo(float).eps)

# Nodes of the Radau IIA step from which algebraic unknowns behind a switch are extrapolated to it.
RESTART_NODES = 5
# Relative error of u' and of the algebraic unknowns behind a switch of equations of index 1.
RESTART_TOLERANCE = 1e-13
# Move of an unknown behind a change, relative to its size, above which the changed state is inconsistent.
INCONSISTENT_MOVE = 1e-5
RESTART_RANK = 1e-12  # Pivot of the balanced dF/du', relative to the largest, that counts as 0.
# Distance, in steps, behind the time of a change at which the equations are taken: functions of time may have
# either value at the time itself.
DISTANCE_BEHIND = 1e-12


class AlgebraicPart(ImplicitSystem):
    r"""F(t, u, u') = 0 for the algebraic part of u and the determined part of u', the rest of u held.

    With a basis V of the null space of :math:`M = F_{u'}`, u may move along V alone, and of u' the pivot
    columns of M are looked for. At index 1 the matrix of M's pivot columns and :math:`F_u V` is regular.
    """

    key = "algebraic part"

    def __init__(self, problem: ProblemDAE, u: MeshDAE, du: MeshDAE, t: float, h: float) -> None:
        self.problem, self.time, self._h = problem, t, h
        self.u, self.du = u, du
        self._u, self._du = u.view(np.ndarray), du.view(np.ndarray)
        self._saved = np.empty((2, problem.n))
        self._newton = ModifiedNewton(problem, trust=False, tolerance=RESTART_TOLERANCE)
        self._find_kernel(linearize(problem, u, du, t).mass)
        self._turns = np.zeros(problem.n, dtype=bool)
        self._turns[self._slopes] = True
        self._is_split = np.array_equal(self._slopes, np.arange(len(self._slopes)))
        self._weights = np.full(problem.n, np.inf)
        self.rescale()

    def _find_kernel(self, mass: Any) -> None:
        """Numbers of the unknowns with a derivative to be found and of the others, which parametrise V."""
        n, k = self.problem.n, self.problem.n_diff
        self._slopes, self._free = np.arange(k), np.arange(k, n)
        self._coupling: Vector | None = None
        if sparse.issparse(mass) and n > MOST_PATH_UNKNOWNS:
            return
        dense = mass.toarray() if sparse.issparse(mass) else mass
        rows, columns = balanced(dense)
        triangle, order = qr(dense / rows[:, None] / columns, mode="r", pivoting=True)
        pivots = np.abs(np.diagonal(triangle))
        rank = int((pivots > RESTART_RANK * pivots.max(initial=0.0)).sum())
        self._slopes, self._free = order[:rank], order[rank:]
        if rank and np.abs(triangle[:rank, rank:]).any():
            coupling = solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:])
            self._coupling = coupling / columns[self._slopes, None] * columns[self._free]

    @property
    def where(self) -> str:
        return "with the differential unknowns held"

    def residual(self) -> Vector:
        return self.problem.evaluate(self.u, self.du, self.time)

    def matrix(self, linearization: Linearization) -> Matrix:
        mass: Any = linearization.mass
        stiffness: Any = linearization.stiffness
        if sparse.issparse(mass) and self._coupling is None:
            return (
                linearization.iteration_matrix(0.0, len(self._slopes))
                if self._is_split
                else self._mixed(mass.tocsc(), stiffness.tocsc())
            )
        if sparse.issparse(mass):
            mass, stiffness = mass.toarray(), stiffness.toarray()
        return self._mixed(mass, stiffness)

    def _mixed(self, mass: Any, stiffness: Any) -> Matrix:
        """The columns of dF/du' and of dF/du V, each at the number of its unknown."""
        if sparse.issparse(mass):
            parts = sparse.hstack([mass[:, self._slopes], stiffness[:, self._free]], format="csc")
            return parts[:, np.argsort(np.concatenate([self._slopes, self._free]))]
        matrix = np.empty(mass.shape)
        matrix[:, self._slopes], matrix[:, self._free] = mass[:, self._slopes], stiffness[:, self._free]
        if self._coupling is not None:
            matrix[:, self._free] -= stiffness[:, self._slopes] @ self._coupling
        return matrix

    def move(self, correction: Vector, fraction: float) -> None:
        change = fraction * correction
        self._du[self._slopes] -= change[self._slopes]
        self._u[self._free] -= change[self._free]
        if self._coupling is not None:
            self._u[self._slopes] += self._coupling @ change[self._free]

    def size(self, correction: Vector) -> float:
        return largest(self._weights * correction)

    def tolerated(self, tolerance: float) -> Vector:
        return tolerance / self._weights

    @property
    def sizes(self) -> Vector:
        """Sizes of what is looked for."""
        scales = self.problem.run_scales
        known = scales.unknowns if scales.begun else np.ones(self.problem.n)
        whole = np.maximum(known, np.abs(self._u))
        return np.where(self._turns, np.maximum(np.abs(self._du), whole / self._h), whole)

    def rescale(self) -> None:
        np.minimum(self._weights, 1.0 / np.maximum(self.sizes, np.finfo(float).tiny), out=self._weights)

    def solve(self) -> None:
        """Solve by Newton's method, damped where need be, then by a homotopy; else the state is as it was."""
        start = self._u.copy(), self._du.copy()
        try:
            self._newton.solve(self)
            return
        except SolveError as error:
            failure = str(error).partition(";")[0]
        self._u[:], self._du[:] = start
        try:
            self._follow_homotopy()
            self._newton.solve(self)
        except (DAEError, np.linalg.LinAlgError) as error:
            self._u[:], self._du[:] = start
            raise SolveError(f"{failure}; homotopy: {error}") from None

    def _follow_homotopy(self) -> None:
        """Move to the end of the path of F = (1 - s) F(start)."""
        if self.problem.n > MOST_PATH_UNKNOWNS:
            raise SolveError(f"it is for at most {MOST_PATH_UNKNOWNS} unknowns; begin a run behind the jump")
        u, du, n, sizes = self._u.copy(), self._du.copy(), self.problem.n, self.sizes

        def place(x: Vector) -> None:
            self._u[:], self._du[:] = u, du
            self.move(x, -1.0)

        def residual(x: Vector) -> Vector:
            place(x)
            return np.array(self.residual())

        def jacobian(x: Vector) -> Vector:
            place(x)
            if getattr(self.problem, "jacobian", None) is None:
                # More accurate formulas reach across kinks.
                base, change = np.array(self.residual()), np.diag(ROOT_EPS * sizes)
                return np.column_stack([(residual(x + row) - base) / row.sum() for row in change])
            matrix: Any = self.matrix(self.linearize())
            return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)

        if not np.isfinite(residual(np.zeros(n))).all():
            raise EvaluationError("the equations are not defined at its start; begin a run behind the jump")
        place(newton_homotopy(residual, jacobian, np.zeros(n), sizes))


def consistent_restart(problem: ProblemDAE, u: MeshDAE, t: float, h: float, changed: bool = False) -> MeshDAE:
    r"""A state with the differential unknowns of ``u`` that is consistent with the branch in force.

    At index 1 the algebraic unknowns and u' at t are found from F = 0, see :class:`AlgebraicPart`: where they
    jump, those behind the jump. One Radau IIA step of size h is solved from there. The polynomials through
    its nodes, without the start, give the algebraic unknowns and u' at t to an order in h that is high for
    any index, the derivatives of algebraic unknowns included. Where the step cannot be solved the state has
    no polynomial.

    References
    ----------
    E. Hairer, C. Lubich, M. Roche, The Numerical Solution of Differential-Algebraic Systems by Runge-Kutta
    Methods, LNM 1409, Springer (1989), theorems 4.6 and 6.4.
    """
    k = problem.n_diff
    state = MeshDAE(u)
    state.polynomial = None
    problem.start_step(state, t)
    slope = attach(u.derivative(), k)
    low = problem.index in (0, 1) and not restart_failure(problem, state, slope, t, h)
    tableau = radau_iia(RESTART_NODES)
    try:
        stages = stages_without_guess(problem, tableau, state, t, h)
    except SolveError:
        return state
    nodes = tableau.nodes
    back = interpolation_matrix(nodes, (0.0,))[0]
    slope[:] = back @ stages.du
    slope[k:] = differentiation_row(nodes, 0.0) @ stages.u[:, k:] / h
    if low:  # derivatives of unknowns in the null space are known now, and the others follow
        restart_failure(problem, state, slope, t, h)
    else:
        if changed:
            _require_kept(problem, state, back @ stages.u, t)
        state[k:] = back @ stages.u[:, k:]
    state.polynomial = EndDerivative(slope.view(np.ndarray))
    return state


def _require_kept(problem: ProblemDAE, u: MeshDAE, taken: Vector, t: float) -> None:
    """Refuse a changed state which the constraints do not allow: with them it would jump to ``taken``."""
    # Shapes: taken (n,).
    sizes = np.maximum(problem.run_scales.unknowns, np.abs(u.view(np.ndarray)))
    moves = np.abs(taken - u)[: problem.n_diff] / sizes[: problem.n_diff]
    worst = int(moves.argmax()) if len(moves) else 0
    if len(moves) and not moves[worst] <= INCONSISTENT_MOVE:
        raise SolveError(
            f"the change at t={t:.10g} leaves a state that violates a constraint or one that is hidden: "
            f"'{problem.names[worst]}' is {u[worst]:.6g} and would go to {taken[worst]:.6g}; let the change "
            f"satisfy them"
        )


def restart_failure(problem: ProblemDAE, u: MeshDAE, du: MeshDAE, t: float, h: float) -> str:
    """Solve for the algebraic part of u and the determined part of u' just behind t, in place."""
    try:
        AlgebraicPart(problem, u, du, t + _distance(t, h), h).solve()
    except SolveError as error:
        return str(error)
    return ""


def jump_behind(
    problem: ProblemDAE, u: MeshDAE, t: float, h: float, least: float = LARGEST_VIOLATION
) -> tuple[bool, str]:
    """Move the algebraic part of u, and u', to where they have jumped just behind t, if they have."""
    if problem.index != 1:  # at index 0 nothing is algebraic
        return False, ""
    behind = t + _distance(t, h)
    try:
        remains, scale = violation(problem, u, behind)
    except EvaluationError as error:
        return False, str(error)
    if (np.abs(remains) <= least * scale).all():
        return False, ""
    slope = problem.dtype_f(problem.init)
    failure = restart_failure(problem, u, slope, t, h)
    if not failure:
        u.polynomial = EndDerivative(slope.view(np.ndarray))
    return not failure, failure


def _distance(t: float, h: float) -> float:
    """Distance behind a time at which functions of time have the value that holds from there on."""
    return max(8.0 * EPS * abs(t), DISTANCE_BEHIND * h)
