"""Newton's method at the nodes of a sweep, in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.jacobian import Linearization, linearize
from dae_sdc.dae.linear import largest
from dae_sdc.dae.newton import KeptMatrix, ModifiedNewton, NodeSystem
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.sweepers import sweep
from dae_sdc.sweepers.nodes import Stages
from dae_sdc.sweepers.step_error import Operators, operators_at
from dae_sdc.sweepers.sweep import Continuation, SweepArrays


class Place(NamedTuple):
    """The data of a step that the solves at its nodes need."""

    stages: Stages  # The rows that hold the iterate.
    arrays: SweepArrays  # The iterate and the matrices of a sweep.
    # time, dt: start and size of the step.
    time: float
    dt: float
    # times, coefficients: shape (M,). Times of the nodes, and the diagonal of dt Q_Delta.
    times: Vector
    coefficients: Vector
    # Right-hand sides of F at the nodes, shape (n,) each, where a finer level asks for them.
    tau: Sequence[Vector | None]
    # Tolerance of a solve, largest abs(F) allowed after it, its largest number of iterations, and the
    # fraction of its first correction at which it may stop.
    limits: tuple[float, float, int, float]


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

    def prepare(self, place: Place) -> None:
        """Take the step that is to be solved."""
        self.place, self.arrays = place, place.arrays

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
        c = float(self.place.coefficients[m])
        kept = self.newtons[m].kept_matrix(c)
        if kept is not None and kept.factors is not None:
            mass = kept.linearization.mass
            return Operators(lambda v: np.asarray(mass @ v), kept.factors.solve)
        a, t = self.arrays, float(self.place.times[m])
        return operators_at(self.problem, a.u[m], a.du[m], t, c)

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
        place = self.place
        stages = place.stages
        t, c = float(place.times[m]), float(place.coefficients[m])
        self.system.tau = place.tau[m]
        newton = self.newtons[m]
        newton.tolerance = place.limits[0]
        newton.residual_tolerance, newton.forcing = place.limits[1], place.limits[3]
        self.system.place(stages.u[m], stages.du[m], t, c, (place.time, place.dt), m + 1)

    def measure(self, low: int, high: int) -> None:
        """Write the largest abs(F - tau) at nodes ``low`` to ``high`` - 1 into ``norms``."""
        for m, value in enumerate(self.residuals(low, high), low):
            self.norms[m] = largest(value)

    def residuals(self, low: int, high: int) -> Vector:
        """F - tau at nodes ``low`` to ``high`` - 1, a new array; u is ``mixed`` where nodes keep values."""
        place = self.place
        a = self.arrays
        values = (a.mixed if a.keeps else a.u)[low:high]
        residuals = self.problem.evaluate_nodes(values, a.du[low:high], place.times[low:high])
        if place.tau[0] is not None:
            residuals -= np.array(place.tau[low:high])
        return residuals

    def _common(self) -> Linearization:
        """The Jacobian at the guide point; evaluated once a sweep at most."""
        if self._linearization is None:
            (u, du), time = self.arrays.guide, float(self.place.times[self.arrays.first])
            self._linearization = linearize(self.problem, u, du, time)
        return self._linearization
