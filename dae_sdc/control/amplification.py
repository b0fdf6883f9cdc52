"""Whether a method lets errors of the state grow from step to step, where the kernel of dF/du' turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from math import exp, inf, log
from typing import Any

import numpy as np
from pySDC.core.hooks import Hooks

from dae_sdc.dae.state import Vector
from dae_sdc.deadline import unchecked
from dae_sdc.errors import EvaluationError, StepSizeError
from dae_sdc.sweepers import amplification as growth
from dae_sdc.sweepers.amplification import LinearStep, Piece
from dae_sdc.sweepers.linear_multistep import MULTISTEP
from dae_sdc.sweepers.steps_ahead import MOST_STEPS, Taken
from dae_sdc.sweepers.tableaux import METHODS

# Logarithm of the amplification of a step from which on a run that fails for another reason tells it.
LEAST_TOLD_GROWTH = 0.2
MOST_GROWN_ERRORS = 100.0  # Amplification by all steps so far from which on the run ends.
WIDEST = 32  # Most steps between two calculations.

Recorded = tuple[float, Vector, Vector]  # Time, u and u' at the end of a step.


class WatchAmplification(Hooks):  # type: ignore[misc]
    """Ends a run whose method lets errors grow in every step, which no estimate of one step can see."""

    # Where the kernel of dF/du' turns, at index 2 and higher, errors of algebraic unknowns may grow by a
    # factor per step that does not tend to 1 with h: K. Brenan, S. Campbell, L. Petzold, Numerical Solution
    # of Initial-Value Problems in DAEs, SIAM (1996), sec. 3.2; R. Maerz, Acta Numerica 1 (1992) 141. dF/du'
    # is looked at after 1, 2, 4, 8, ... accepted steps and at the end; from where it has changed, the growth
    # is calculated, and multiplied up along the run.

    t_end = inf  # End of the run, behind which F is not evaluated.

    def __init__(self) -> None:
        super().__init__()
        self._accepted, self._calculated, self._next = 0, 0, 1
        self._logarithm = self._rate = 0.0
        self._step: LinearStep | None = None
        self._mass: Vector | None = None  # dF/du' at all checks so far; None where it has changed
        self._terms: Vector | None = None
        self._remark: Callable[[], str] | None = None
        self._recorded: deque[Recorded] = deque()

    @property
    def steps_ahead(self) -> int:
        """Number of steps that may be taken before the next check."""
        return self._next - self._accepted if self._next else MOST_STEPS

    def pre_run(self, step: Any, level_number: int) -> None:
        """Look at no step where dF/du' is constant."""
        # Nothing is added to statistics, for which the base keeps a count in all of these methods.
        if step.levels[0].prob.constant_mass:
            self._next = 0

    def take_ahead(self, L: Any, taken: Taken, start: Any) -> None:
        """Take note of steps that were taken ahead, and check the last of them where it is due."""
        if not self._next:
            return
        count = len(taken.starts)
        L.u[0] = start if count == 1 else taken.end(count - 2, L.prob.n_diff)
        m, ends = len(taken.nodes), (taken.starts + taken.sizes).tolist()
        self._accept(L, count, lambda: zip(ends, taken.u[m::m].copy(), taken.slopes_at_end(), strict=True))

    def post_step(self, step: Any, level_number: int) -> None:
        """Check an accepted step."""
        L = step.levels[0]
        if self._next and not step.status.get("restart") and L.uend is not None:
            self._accept(L, 1, lambda: [self._end(L)])

    def _accept(self, L: Any, count: int, ends: Callable[[], Iterable[Recorded]]) -> None:
        """Count accepted steps, and check the last of them where it is due."""
        if not self._accepted:
            self._begin(L)
        if not self._next:
            return
        self._accepted += count
        if self._mass is None:
            self._recorded.extend(ends())
        if self._accepted >= self._next:
            self._next = min(2 * self._accepted, self._accepted + WIDEST)
            self._check(L)

    def post_run(self, step: Any, level_number: int) -> None:
        """Check the steps since the last check; raises as :meth:`post_step` does."""
        if step is not None and self._accepted > self._calculated:
            self._check(step.levels[0])

    def _begin(self, L: Any) -> None:
        self._step = getattr(L.sweep, "linear_step", None)
        if self._step is None or L.prob.n > growth.MOST_AMPLIFIED:
            self._next = 0
            return
        if getattr(L.prob, "jacobian", None) is not None:
            self._mass = self._mass_at(L, *self._start(L))
        if self._mass is None:
            self._begin_record(L)

    def _begin_record(self, L: Any) -> None:
        assert self._step is not None
        self._recorded = deque([self._start(L)], self._step.steps_before + growth.AVERAGED_STEPS + 1)

    @staticmethod
    def _start(L: Any) -> Recorded:
        start = L.u[0].view(np.ndarray).copy()
        # The derivative at the start is not always known; of the parabola with that at the end it is.
        slope = 2.0 * (L.uend.view(np.ndarray) - start) / float(L.dt) - L.uend.polynomial.derivative_at_end()
        return float(L.time), start, slope

    @staticmethod
    def _end(L: Any) -> Recorded:
        return float(L.time + L.dt), L.uend.view(np.ndarray).copy(), L.uend.polynomial.derivative_at_end()

    def _check(self, L: Any) -> None:
        """Calculate the growth, unless dF/du' is the matrix that it was at the start, to the last bit."""
        if self._mass is not None:
            mass = self._mass_at(L, *self._end(L))
            if mass is not None and np.array_equal(mass, self._mass):
                self._calculated = self._accepted
                return
            self._mass = None
            self._begin_record(L)
            self._recorded.append(self._end(L))
        self._calculate(L)

    @staticmethod
    def _mass_at(L: Any, t: float, u: Vector, du: Vector) -> Vector | None:
        """dF/du' at a state, None where it is not defined."""
        with suppress(EvaluationError):
            return growth.mass_matrix(L.prob, u, du, t)
        return None

    def _calculate(self, L: Any) -> None:
        """Add the growth since the last calculation, and end the run if it is too large."""
        assert self._step is not None
        times, values, slopes = zip(*self._recorded, strict=True)
        piece = Piece(L.prob, times, values, slopes, self._terms)
        rate = self._rate
        with suppress(EvaluationError):
            rate = self._growth(piece, self._step, float(L.dt))
        # Growth changes slowly from step to step, as the equations do; it was 0 before the first.
        steps, before = self._accepted - self._calculated, self._rate if self._calculated else rate
        self._logarithm = max(0.0, self._logarithm + 0.5 * steps * (before + rate))
        self._calculated, self._rate = self._accepted, rate
        count, ahead = self._step.steps_before + growth.AVERAGED_STEPS, 0.0
        if rate > 0.0 and piece.linear:  # whose growth was calculated over the steps ahead at the start
            left = min(float(count), (self.t_end - piece.times[-1]) / float(L.dt) + 0.5)
            ahead = rate * max(0.0, min(count - self._accepted, left))
        if self._logarithm + ahead > log(MOST_GROWN_ERRORS):
            self._remark = None
            raise StepSizeError(self._message(piece, L.sweep, float(L.dt), rate))
        if rate > LEAST_TOLD_GROWTH:
            self._remark = partial(self._message, piece, L.sweep, float(L.dt), rate)

    def _growth(self, piece: Piece, step: LinearStep, h: float) -> float:
        """Logarithm of the growth by the method in the last steps, or those ahead at the start."""
        last, self._terms = piece.times[-1], piece.equations
        if not piece.turns(last, last - h):
            return 0.0
        mass, stiffness = piece.matrices(last)
        index = max(piece.problem.index or 0, growth.pencil_index(mass, stiffness) or 0, 2)
        scale = float(np.linalg.norm(mass) / max(float(np.linalg.norm(stiffness)), np.finfo(float).tiny))
        count = step.steps_before + growth.AVERAGED_STEPS
        h = max(h, scale * growth.MATRIX_NOISE ** (1.0 / index) / growth.SHORTER)
        begin = max(piece.times[0], last - count * h)
        # Where the matrices depend on u, nothing is known of them ahead.
        end = self.t_end if last - begin < count * h and piece.linear else last
        return growth.growth_of_method(piece, step, begin, min(h, (end - begin) / count), index)

    def remark(self) -> str:
        """Text on errors that had begun to grow, for the message of a run that ends for another reason."""
        return "" if self._remark is None else f"; {self._remark()}"

    def _message(self, piece: Piece, sweep: Any, h: float, rate: float) -> str:
        """What has grown where, by which method, and what helps."""
        method = getattr(sweep, "method", None)
        name = f"{type(sweep).__name__} with {sweep.coll.num_nodes} nodes" if method is None else method.name
        others: list[Any] = [table[key] for table in (METHODS, MULTISTEP) for key in table]
        steps = [(other.order, other.name, other.linear_step) for other in others]
        with unchecked():  # the run, whose end is explained, would be lost
            stable = [pair for *pair, step in steps if step and self._growth(piece, step, h) <= 0.0]
        kept = f"; '{max(stable)[1]}' does not let them grow here" if stable else ""
        return (
            f"errors grow by a factor of {exp(rate):.3g} in every step of '{name}' with dt={h:.3g} at "
            f"t={piece.times[-1]:.6g}, by {exp(min(self._logarithm, 600.0)):.1e} so far, and not with the "
            f"solution: the kernel of dF/du' turns with time, the index is at least 2; reduce the index, or "
            f"take unknowns of which dF/du' has the same kernel at all times{kept}"
        )
