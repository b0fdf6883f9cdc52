"""Runge-Kutta methods for F(t, u, u') = 0 as pySDC sweepers, each made from its record."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pySDC.implementations.sweeper_classes.Runge_Kutta import (
    ButcherTableau,
    ButcherTableauEmbedded,
    RungeKutta,
)

from dae_sdc.dae.newton import ModifiedNewton, NodeSystem
from dae_sdc.dae.polynomial import EndDerivative, StepPolynomial, reaches
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, attach
from dae_sdc.errors import InputError, SolveError
from dae_sdc.sweepers.coupled import CoupledStages
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.sweepers.start import starting_derivative
from dae_sdc.sweepers.tableaux import METHODS, Tableau


class RungeKuttaDAE(RungeKutta):  # type: ignore[misc]
    r"""A Runge-Kutta step for a DAE in the derivative form.

    .. math::
        F\Big(t_0 + c_i \Delta t,\; u_0 + \Delta t \sum_j a_{ij} U_j,\; U_i\Big) = 0, \qquad
        u_1 = u_0 + \Delta t \sum_j b_j U_j

    Lower triangular tableaux are solved stage by stage, all others as one coupled system. An explicit first
    stage takes U_1 = u'(t_0) from the last stage of the step before, and in the first step from a consistent
    derivative.

    Parameters
    ----------
    params : dict
        Nothing that belongs to the method itself; the tableau is the class attribute ``method``.
    level : pySDC.core.level.Level
        The level that steps. pySDC wants ``maxiter`` 1 for direct methods.

    References
    ----------
    E. Hairer, C. Lubich, M. Roche, The Numerical Solution of Differential-Algebraic Systems by Runge-Kutta
    Methods, LNM 1409, Springer (1989), eq. (1.11).
    """

    method: ClassVar[Tableau]

    def __init__(self, params: dict[str, Any], level: Any) -> None:
        super().__init__(dict(params), level)
        self._problem: ProblemDAE | None = None

    @classmethod
    def get_Butcher_tableau(cls) -> Any:
        """The tableau in pySDC's form."""
        tableau = cls.method
        if tableau.b_embedded is None:
            return ButcherTableau(tableau.b, tableau.c, tableau.A)
        return ButcherTableauEmbedded(np.array([tableau.b, tableau.b_embedded]), tableau.c, tableau.A)

    @classmethod
    def get_update_order(cls) -> int:
        """Order of the local error of the embedded method, the exponent of step size control."""
        if cls.method.embedded_order is None:
            raise InputError(
                f"'{cls.method.name}' has no embedded weights for an error estimate; "
                f"use one of {', '.join(name for name, tableau in METHODS.items() if tableau.embedded)}"
            )
        return cls.method.embedded_order + 1

    def _bind(self, problem: ProblemDAE) -> None:
        if not isinstance(problem, ProblemDAE):
            raise InputError(f"{type(self).__name__} solves a ProblemDAE; got {type(problem).__name__}")
        tableau = self.method
        if tableau.diagonally_implicit:
            self._system = NodeSystem(problem, problem.n)
            self._newton = ModifiedNewton(problem, trust=False)
        else:
            self._coupled = CoupledStages(problem, tableau.A, tableau.c)
        self._problem = problem

    def predict(self) -> None:
        """Begin a step: new stage arrays, and u' at its start where the tableau needs it."""
        L = self.level
        P = L.prob
        if self._problem is not P:
            self._bind(P)
        P.start_step(L.u[0], L.time)
        self._take(np.zeros((self.method.stages, P.n)), np.zeros((self.method.stages, P.n)))
        self._u[:] = L.u[0]
        L.f[0] = P.dtype_f(P.init)
        if self.method.explicit_first_stage:
            L.f[0][:] = starting_derivative(P, L.u[0], L.time, L.dt, self.method.order)
        elif L.u[0].polynomial is not None:
            L.f[0][:] = L.u[0].polynomial.derivative_at_end()
        self._solved = False
        L.status.unlocked = True
        L.status.updated = True

    def _take(self, u: Any, du: Any) -> None:
        L = self.level
        self._u, self._du = u, du
        L.u[1:] = [attach(row, L.prob.n_diff) for row in u]
        L.f[1:] = [attach(row, L.prob.n_diff) for row in du]

    def update_nodes(self) -> None:
        """Solve all stages of the step.

        Raises
        ------
        InputError
            If a second sweep is asked for: the first one solves the step.
        NewtonError, SingularMatrixError, EvaluationError
            If a stage cannot be solved.
        """
        L = self.level
        if self._solved:
            raise InputError(
                f"'{self.method.name}' solves a step in one sweep; set step_params maxiter and level_params "
                f"nsweeps to 1, and one step at a time"
            )
        if self.method.diagonally_implicit:
            self._solve_one_by_one()
        else:
            self._solve_together()
        self._solved = True
        L.status.updated = True

    def _solve_together(self) -> None:
        """All stages at once, from the last polynomial if that leads anywhere, else from small steps."""
        L, stages, n_diff = self.level, self._coupled, self.level.prob.n_diff
        polynomial = L.u[0].polynomial
        solved = False
        if reaches(polynomial, L.time + L.dt, L.prob.n):
            guess = np.empty_like(self._du)
            nodes = tuple(self.method.c.tolist())
            polynomial.extrapolate(L.time, L.dt, nodes, guess, guess)
            # From index 2 on the derivative of algebraic unknowns is too rough to be continued, but not the
            # unknowns themselves; left as they are, Newton's method may find a solution on another branch.
            matrix = polynomial.continuation(L.time, L.dt, nodes)
            change = matrix @ polynomial.value[:, n_diff:] - L.u[0].view(np.ndarray)[n_diff:]
            guess[:, n_diff:] = np.linalg.solve(L.dt * self.method.A, change)
            stages.start(L.u[0], guess, L.time, L.dt)
            with suppress(SolveError):
                stages.solve()
                solved = True
        if not solved:
            stages.start(L.u[0], stages.march(L.u[0], L.time, L.dt), L.time, L.dt)
            stages.solve()
        self._take(stages.u, stages.du)

    def _solve_one_by_one(self) -> None:
        L, A, c, n_diff = self.level, self.method.A, self.method.c, self.level.prob.n_diff
        dt, u, du = L.dt, self._u, self._du
        start = L.u[0].view(np.ndarray)
        step = (L.time, dt)
        before, slope = start, L.f[0].view(np.ndarray)
        for i in range(len(c)):
            if A[i, i] == 0.0:
                du[i] = L.f[0]
                continue
            factor = float(dt * A[i, i])
            du[i] = slope
            known = start + dt * (A[i, :i] @ du[:i])
            du[i, n_diff:] = (before[n_diff:] - known[n_diff:]) / factor
            u[i] = known + factor * du[i]
            t = float(L.time + c[i] * dt)
            self._system.place(L.u[i + 1], L.f[i + 1], (u[i], du[i]), t, factor, step, i + 1)
            self._newton.solve(self._system)
            before, slope = u[i], du[i]

    def compute_residual(self, stage: str = "") -> None:
        """Largest abs(F) over the stages; pySDC skips it for direct methods unless told otherwise."""
        L = self.level
        if stage in self.params.skip_residual_computation:
            L.status.residual = 0.0 if L.status.residual is None else L.status.residual
            return
        times = L.time + L.dt * self.method.c
        L.status.residual = float(np.abs(L.prob.evaluate_nodes(self._u, self._du, times)).max())
        L.status.updated = False

    def compute_end_point(self) -> None:
        """u at the end of the step, and the embedded solution where there is one."""
        L, tableau = self.level, self.method
        P = L.prob
        end = P.dtype_u(P.init)
        start = L.u[0].view(np.ndarray)
        end[:] = self._u[-1] if tableau.stiffly_accurate else start + L.dt * (tableau.b @ self._du)
        if tableau.diagonally_implicit:
            end.polynomial = EndDerivative(self._du[-1])
        else:
            end.polynomial = StepPolynomial(L.time, L.dt, tuple(tableau.c.tolist()), self._u, self._du, P.n)
        L.uend = end
        if tableau.b_embedded is not None:
            self.u_secondary = P.state(start + L.dt * (tableau.b_embedded @ self._du))

    def integrate(self) -> list[MeshDAE]:
        """dt sum_j a_ij U_j at the stages."""
        rows = self.level.dt * (self.method.A @ self._du)
        return [attach(row, self.level.prob.n_diff) for row in rows]


def runge_kutta(tableau: Tableau) -> type[RungeKuttaDAE]:
    """The sweeper class of a tableau, for instance one of your own.

    Parameters
    ----------
    tableau : Tableau
        The record of the method.

    Returns
    -------
    type
        A subclass of :class:`RungeKuttaDAE` named ``tableau.class_name``.
    """
    embedded = ButcherTableau if tableau.b_embedded is None else ButcherTableauEmbedded
    doc = f"Runge-Kutta sweeper '{tableau.name}': {tableau.reference}"
    attributes = {
        "method": tableau,
        "ButcherTableauClass": embedded,
        "__doc__": doc,
        "__module__": __name__,
    }
    return type(tableau.class_name, (RungeKuttaDAE,), attributes)


for _name, _tableau in METHODS.items():
    # The classes are attributes of this module, so that they can be imported and pickled by name.
    globals()[_tableau.class_name] = _sweeper = runge_kutta(_tableau)
    SWEEPERS.add(_name, _sweeper)

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[RungeKuttaDAE]: ...
