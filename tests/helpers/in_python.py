"""Equations that have kernels, as functions in Python."""

from __future__ import annotations

from typing import Any

from dae_sdc.dae.problem import ProblemDAE


class InPython(ProblemDAE):
    """The equations of another problem without its kernels: compiled code calls its methods back."""

    def __init__(self, other: ProblemDAE) -> None:
        super().__init__(other.n_diff, other.n - other.n_diff)
        self.other, self.index, self.variable_index = other, other.index, other.variable_index
        self.interval, self.sparsity = other.interval, other.sparsity
        self.run_scales, self.work_counters = other.run_scales, other.work_counters

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return self.other.eval_f(u, du, t)

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        return self.other.jacobian(u, du, t, c)  # type: ignore[attr-defined]

    def u_exact(self, t: float) -> Any:
        return self.other.u_exact(t)
