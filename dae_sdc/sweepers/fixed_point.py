"""Functional iteration for implicit steps of ordinary differential equations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from dae_sdc.dae.iteration import BACKWARD_ERROR, LAST_CORRECTION, ROUND_OFF_CORRECTION
from dae_sdc.dae.jacobian import Linearization
from dae_sdc.dae.linear import DenseLU, Factorization, factorize
from dae_sdc.dae.newton import NodeSystem
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.residual_check import above_noise, is_small
from dae_sdc.errors import SingularMatrixError, SolveError

MOST_FIXED_POINT_ITERATIONS = 100  # Iterations after which the iteration is given up.
MOST_GROWING = 6  # Iterations in succession that do not contract, after which it is given up.
# Contraction above which dF/du' is evaluated again for the next step: it may have changed.
RENEWING_CONTRACTION = 0.5
# Relative difference up to which two dF/du', found with finite differences, are one.
EQUAL_MATRICES = 1e-6


class FixedPoint:
    r"""Fixed-point iteration for u = r + c f(t, u), where F(t, u, u') = 0 determines u' = f(t, u).

    .. math::
        U \leftarrow U - \Big(\frac{\partial F}{\partial u'}\Big)^{-1} F(t, r + c U, U)

    With F linear in u' each iteration is u <- r + c f(t, u) at the cost of one residual and one solve. The
    matrix is kept over the steps. Errors contract by c times the Lipschitz constant of f: a stiff equation
    needs a small step, or Newton's method.

    The contraction is measured over two iterations: that of an oscillation alternates between its components.

    References
    ----------
    E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, 2nd ed., 1996, Sect. IV.8.
    """

    def __init__(self, problem: ProblemDAE) -> None:
        self.problem = problem
        self._factors: Factorization | None = None
        self._linearization: Linearization | None = None
        self._aged = self._constant = False

    def solve(self, system: NodeSystem) -> None:
        """Move the iterate of ``system`` to its solution; raises SolveError where it does not converge."""
        system.save()
        fresh = self._factors is None or (self._aged and not self._constant)
        if fresh:
            self._renew(system)
        rate = self._iterate(system)
        if rate is not None and not fresh:
            system.restore()
            self._renew(system)
            rate = self._iterate(system)
        if rate is not None:
            raise SolveError(
                f"fixed-point iteration did not converge at t={system.time:.6g}, {system.where}: "
                f"contraction {rate:.2g} in the last iterations, where it must be well below 1; "
                f"reduce dt, or use corrector='newton'{system.remark()}"
            )

    def _iterate(self, system: NodeSystem) -> float | None:
        """Iterate; None where it has converged, otherwise the contraction."""
        assert self._factors is not None and self._linearization is not None
        goal, counters = self.problem.newton_tol, self.problem.work_counters
        sizes: list[float] = []
        growing, rate = 0, np.inf
        for _ in range(MOST_FIXED_POINT_ITERATIONS):
            residual = system.residual()
            delta = self._factors.solve(residual)
            size = system.size(delta)
            counters["newton"].niter += 1
            counters["solve"].niter += 1
            if not size < np.inf:
                return rate
            system.move(delta, 1.0)
            sizes.append(size)
            if size <= LAST_CORRECTION * goal:
                return None if self._verified(system) else np.inf
            if len(sizes) < 3:
                continue
            rate = float(np.sqrt(size / sizes[-3]))
            self._aged = rate > RENEWING_CONTRACTION
            if rate < 1.0 and max(sizes[-2:]) * rate / (1.0 - rate) <= goal:
                return None if self._verified(system) else rate
            growing = growing + 1 if rate >= 1.0 else 0
            if growing and size < ROUND_OFF_CORRECTION:
                scale = system.magnitude(self._linearization)
                if (np.abs(system.residual()) <= BACKWARD_ERROR * scale).all() and self._verified(system):
                    return None
            if growing == MOST_GROWING:
                return rate
        return rate

    def _verified(self, system: NodeSystem) -> bool:
        """Whether the residual is as small as the corrections say, see :mod:`dae_sdc.dae.residual_check`."""
        goal = self.problem.newton_tol
        tolerated, residual = system.tolerated(goal), np.array(system.residual())
        left = above_noise(np.abs(residual), self.problem)
        return is_small(left, residual, goal, lambda factor, v: system.changed(v * tolerated, factor))

    def _renew(self, system: NodeSystem) -> None:
        """Evaluate and factorise dF/du' at the iterate."""
        problem, before = self.problem, self._linearization
        self._linearization = system.linearize()
        if before is not None:
            change: Any = abs(self._linearization.mass - before.mass).max()
            self._constant = bool(change <= EQUAL_MATRICES * abs(before.mass).max())
        self._aged = False
        solver = "auto" if problem.linear_solver == "gmres" else problem.linear_solver
        problem.work_counters["factorization"].niter += 1
        try:
            matrix = self._linearization.iteration_matrix(0.0, problem.n)
            self._factors = factorize(matrix, solver, like=self._factors)
        except SingularMatrixError:
            raise SingularMatrixError(
                f"dF/du' of {type(problem).__name__} is singular at t={system.time:.6g}: fixed-point "
                f"iteration is for ordinary differential equations; use corrector='newton'"
            ) from None

    @property
    def keeps_state(self) -> bool:
        """Whether :meth:`get_state` gives the whole state, as it does for factors of LAPACK."""
        known = self._linearization
        dense = known is None or not sparse.issparse(known.mass)
        return dense and (self._factors is None or isinstance(self._factors, DenseLU))

    def get_state(self) -> dict[str, Any]:
        """The state that later solves depend on, as numbers and arrays, for a checkpoint."""
        known = self._linearization
        return {
            "factors": self._factors.parts() if isinstance(self._factors, DenseLU) else None,
            "halves": None if known is None else (known.mass, known.stiffness),
            "aged": self._aged,
            "constant": self._constant,
        }

    def set_state(self, memory: Mapping[str, Any]) -> None:
        """Take what :meth:`get_state` gave, to the last bit."""
        factors, halves = memory["factors"], memory["halves"]
        self._factors = None if factors is None else DenseLU.of_parts(*factors)
        self._linearization = None if halves is None else Linearization(*halves)
        self._aged, self._constant = bool(memory["aged"]), bool(memory["constant"])
