"""The same equations in other units, for tests of what must not depend on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

import dae_sdc as ds


class InOtherUnits(ds.ProblemDAE):
    """R F(t / c, u / s, c u' / s) = 0 of another problem, in whose place it stands; without nominal sizes.

    Parameters
    ----------
    own : ProblemDAE
        The problem.
    unknowns, equations : array_like, shape (n,)
        Factors s and R.
    time : float
        Factor c.
    """

    def __init__(
        self, own: ds.ProblemDAE, unknowns: Any = 1.0, equations: Any = 1.0, time: float = 1.0
    ) -> None:
        super().__init__(own.n_diff, own.n_alg)
        self.own, self.time = own, time
        self.sizes = np.broadcast_to(np.asarray(unknowns, dtype=float), (own.n,))
        self.rows = np.broadcast_to(np.asarray(equations, dtype=float), (own.n,))
        self.names, self.equation_names = own.names, own.equation_names
        self.index, self.variable_index = own.index, own.variable_index
        self.interval = (own.interval[0] * time, own.interval[1] * time)
        self.dt = own.dt * time
        if getattr(own, "jacobian", None) is not None:
            self.jacobian = self._jacobian
        elif own.sparsity is not None:
            self.sparsity = own.sparsity

    def _own_state(self, u: Any) -> Any:
        return self.own.state(np.asarray(u) / self.sizes)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        slope = self.own.state(np.asarray(du) * (self.time / self.sizes))
        return self.rows * self.own.eval_f(self._own_state(u), slope, t / self.time)

    def _jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        slope = self.own.state(np.asarray(du) * (self.time / self.sizes))
        own: Any = self.own
        matrix = own.jacobian(self._own_state(u), slope, t / self.time, c / self.time)
        if sparse.issparse(matrix):
            rows, columns = sparse.diags_array(self.rows * self.time), sparse.diags_array(1.0 / self.sizes)
            return sparse.csc_matrix(rows @ matrix @ columns)
        return self.rows[:, None] * np.asarray(matrix) * (self.time / self.sizes)

    def u_exact(self, t: float) -> Any:
        return np.asarray(self.own.u_exact(t / self.time)) * self.sizes

    def breakpoints(self, t0: float, t_end: float) -> Any:
        c = self.time
        return tuple(t * c for t in self.own.breakpoints(t0 / c, t_end / c))

    def start_step(self, u: Any, t: float) -> None:
        self.own.start_step(self._own_state(u), t / self.time)

    def switches(self, u: Any, t: float) -> Any:
        return self.own.switches(self._own_state(u), t / self.time)

    def sides(self, u: Any, t: float) -> Any:
        return self.own.sides(self._own_state(u), t / self.time)

    def hold_sides(self, sides: Any) -> None:
        super().hold_sides(sides)
        self.own.hold_sides(sides)
