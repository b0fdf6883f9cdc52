"""Newton's method at the nodes of a sweep, in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dae_sdc.dae.jacobian import Linearization, linearize
from dae_sdc.dae.linear import largest
from dae_sdc.dae.newton import KeptMatrix, ModifiedNewton, NodeSystem
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.sweepers import sweep
from dae_sdc.sweepers.sweep import Continuation, SweepArrays
from dae_sdc.sweepers.tolerance import Operators, operators_at


class PythonNodes:
    """Newton solves at the nodes of one process, with a :class:`ModifiedNewton` for each, or one for all."""

    compiled = False

    def __init__(self, problem: ProblemDAE, n_integrated: int, owned: range, diagonal: bool) -> None:
        self.problem, self.owned, self.diagonal = problem, owned, diagonal
        self.system = NodeSystem(problem, n_integrated)
        if diagonal:
            self.newtons = {m: ModifiedNewton(problem, guide=self._common, verifies=False) for m in owned}
        else:
            self.newtons = dict.fromkeys(owned, ModifiedNewton(problem, verifies=False))
        self._linearization: Linearization | None = None
        self.number = 0
        self.norms = np.zeros(0)
        self._copies: list[dict[Any, KeptMatrix]] = []

    @property
    def _distinct(self) -> list[ModifiedNewton]:
        """The Newton iterations, of which one may serve all nodes."""
        return list(dict.fromkeys(self.newtons.values()))

    def measure_by(self, weights: Vector, unit: float) -> None:
        """Measure corrections by the largest in units of weights, shape (n,), times ``unit``."""
        self.system.weights, self.system.unit = weights, unit

    def prepare(self, arrays: SweepArrays) -> None:
        """Take the step that is to be solved."""
        self.arrays = arrays

    def run(self, function: Callable[..., Any], *numbers: Any, **given: Any) -> Any:
        """Call a function of :mod:`dae_sdc.sweepers.sweep` for the step."""
        vars(self).update(given)
        return function(self, *numbers)

    def solve(self, low: int, high: int) -> None:
        """Solve at nodes ``low`` to ``high`` - 1 in turn; raises as :meth:`ModifiedNewton.solve` does."""
        low = max(low, self.arrays.first)
        while low < high:
            low = self.run(sweep.solve_nodes, low, high)
            if low < high:
                self.solve_at(low)
                low += 1

    def sweeps(
        self,
        last: Continuation,
        number: int,
        most: int,
        tolerance: float = 0.0,
        only_last: bool = False,
        failed: int | None = None,
        **given: Any,
    ) -> tuple[int, int, float]:
        """Sweep until the residual or u meets a tolerance; nodes that compiled code cannot solve here."""
        # Such a node may have ``failed`` already, in a sweep that has begun.
        low, done = 0, 0
        while True:
            if failed is None:
                wanted = (number + done, most - done, low, tolerance, only_last, "goal" in given)
                more, low, how, value = self.run(sweep.sweeps, *wanted, last=last, **given)
                done += more
                if low == self.arrays.num_nodes:
                    return done, how, value
                failed = low
            PythonNodes.begin_sweep(self, number + done)
            self.solve_at(failed)
            low, failed, last = failed + 1, None, last._replace(wanted=sweep.NOTHING)

    def operators(self, m: int) -> Operators:
        """The iteration matrix kept for node m, or else one evaluated there."""
        a = self.arrays
        c = float(a.coefficients[m])
        kept = self.newtons[m].kept_matrix(c)
        if kept is not None and kept.factors is not None:
            mass = kept.linearization.mass
            return Operators(lambda v: np.asarray(mass @ v), kept.factors.solve)
        return operators_at(self.problem, a.u[m], a.du[m], float(a.times[m]), c)

    def matrix_at(self, m: int) -> tuple[int, int] | None:
        """Address and slot of the matrix of node m in the memory of compiled code; None if not there."""
        return None

    def verify(self, low: int, high: int) -> None:
        """Raise NewtonError if F at nodes ``low`` to ``high`` - 1 is larger than small corrections imply."""
        for m in range(max(low, self.arrays.first), high):
            self._point_at(m)
            self.newtons[m].verify(self.system)

    def remember(self) -> None:
        """Save the state of the matrices for :meth:`recall`."""
        self._copies = [newton.copies() for newton in self._distinct]

    def recall(self) -> None:
        """Restore the state that the last :meth:`remember` saved; only once for each."""
        for newton, copies in zip(self._distinct, self._copies, strict=True):
            newton.kept = copies

    def forget(self) -> None:
        """Drop the kept matrices."""
        for newton in self.newtons.values():
            newton.forget()

    @property
    def keeps_state(self) -> bool:
        """Whether :meth:`get_state` gives the whole state of the matrices."""
        return all(newton.keeps_state for newton in self.newtons.values())

    def get_state(self) -> dict[str, Any]:
        """The state of the matrices, for a checkpoint."""
        return {"newtons": [newton.get_state() for newton in self._distinct], "split": self.system.split}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """Take the state that :meth:`get_state` gave."""
        for newton, memory in zip(self._distinct, kept["newtons"], strict=True):
            newton.set_state(memory)
        self.system.split = kept["split"]

    def magnitude(self, m: int) -> float:
        """Largest sum of the sizes of the terms of an equation at node m; 0 before a matrix was made."""
        known = self.newtons[m].last_linearization
        if known is None:
            return 0.0
        return float(known.terms(self.arrays.u[m], self.arrays.du[m]).max())

    def begin_sweep(self, number: int) -> None:
        """Begin a sweep; the first one of a step measures the contraction with older matrices anew."""
        self.number = number
        self._linearization = None
        for newton in self.newtons.values():
            newton.trust = number > 0

    def solve_at(self, m: int) -> bool:
        """Solve at node m; returns True, or raises as :meth:`ModifiedNewton.solve` does."""
        self._point_at(m)
        self.newtons[m].solve(self.system)
        return True

    def _point_at(self, m: int) -> None:
        """Set up the Newton iteration at node m."""
        a, newton = self.arrays, self.newtons[m]
        self.system.tau = a.right_hand[m]
        newton.tolerance, newton.residual_tolerance, _, newton.forcing = a.limits
        t, c = float(a.times[m]), float(a.coefficients[m])
        self.system.place(a.u[m], a.du[m], t, c, (a.time, a.dt), m + 1)

    def measure(self, low: int, high: int) -> None:
        """Write the largest abs(F - tau) at nodes ``low`` to ``high`` - 1 into ``norms``."""
        for m, value in enumerate(self.residuals(low, high), low):
            self.norms[m] = largest(value)

    def residuals(self, low: int, high: int) -> Vector:
        """F - tau at nodes ``low`` to ``high`` - 1, a new array; u is ``mixed`` where nodes keep values."""
        a = self.arrays
        values = (a.mixed if a.keeps else a.u)[low:high]
        residuals = self.problem.evaluate_nodes(values, a.du[low:high], a.times[low:high])
        if a.right_hand[0] is not None:
            residuals -= np.array(a.right_hand[low:high])
        return residuals

    def _common(self) -> Linearization:
        """The Jacobian at the guide point; evaluated once a sweep at most."""
        if self._linearization is None:
            a = self.arrays
            u, du = a.guide
            self._linearization = linearize(self.problem, u, du, float(a.times[a.first]))
        return self._linearization
