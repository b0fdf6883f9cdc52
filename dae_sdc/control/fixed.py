"""Steps of one size in the controller of steps of different sizes, for runs that events interrupt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dae_sdc.control.controls import Control
from dae_sdc.control.driver import LEAST_REMAINDER
from dae_sdc.sweepers.step_sizes import TIME_SLACK, time_slack


class FixedSteps(Control):
    """Keeps the times of a grid; after a step that an event has cut short, the next ends on the grid again.

    Of its parameters ``dt`` is the step size, ``count`` the number of steps of the run, and ``stops`` are
    times at which the equations have a kink or a jump; with ``meets`` steps end there, else on the grid.
    """

    remark = ""

    order = 250  # where AdaptivityDAE runs
    defaults: ClassVar = {"stops": (), "meets": False}

    def begin(self, step: Any, t0: float, u0: Any) -> None:
        """Begin a run."""
        # Sums, one after the other, as pySDC's controllers have them.
        self._grid = np.cumsum([t0, *[self.params.dt] * self.params.count]).tolist()
        self._next = 1
        self._given: float | None = None
        step.levels[0].params.dt = self._stopped(t0, self.params.dt)

    def _stopped(self, now: float, dt: float) -> float:
        """The size of a step from now that ends at the next stop, if that comes first."""
        if not self.params.meets:
            return dt
        slack = TIME_SLACK * self.params.dt
        return min((stop - now for stop in self.params.stops if slack < stop - now < dt - slack), default=dt)

    @property
    def t_end(self) -> float:
        """The last time of the grid."""
        return float(self._grid[-1])

    def finds_wrong_scales(self, L: Any, value: Any) -> bool:
        """False: steps of a fixed size do not depend on the sizes of unknowns."""
        return False

    def must_repeat_run(self, L: Any, value: Any) -> bool:
        """False: steps of a fixed size do not depend on the sizes of unknowns."""
        return False

    def repeat_step(self, dt: float) -> None:
        """Let the next step have this size: the repetition of one that has been accepted."""
        self._given = dt

    def at_stop(self, time: float) -> bool:
        """Whether the equations have a kink or a jump at the time that an accepted step has come to."""
        return any(abs(time - stop) <= TIME_SLACK * self.params.dt for stop in self.params.stops)

    def restart(self) -> None:
        """Does nothing: the size of the next step does not depend on the last."""

    def end_of_step(self, L: Any) -> float:
        """The time that an accepted step has come to."""
        end, slack = L.time + L.dt, time_slack(L.dt, L.time + L.dt)
        meant = (self._grid[self._next], *(self.params.stops if self.params.meets else ()))
        return float(next((time for time in meant if abs(end - time) <= slack), end))

    def get_state(self) -> dict[str, Any]:
        """State on which later steps depend, for a checkpoint between two steps."""
        return {"next": self._next, "given": self._given}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """Restore what :meth:`get_state` gave."""
        self._next, self._given = kept["next"], kept["given"]

    def prepare_next_block(
        self, controller: Any, S: Any, size: int, time: Any, Tend: float, **kwargs: Any
    ) -> None:
        """Give the next step its size."""
        L, now = S.levels[0], float(time[0])
        given, self._given = self._given, None
        if given is not None:
            L.params.dt = given
            return
        last = len(self._grid) - 1
        while self._next < last and self._grid[self._next] <= now:
            self._next += 1
        if now == self._grid[self._next - 1]:
            L.params.dt = self._stopped(now, self.params.dt)
            return
        # What is nearly nothing to the next time of the grid goes on to the one after it.
        if self._next < last and self._grid[self._next] - now < LEAST_REMAINDER * self.params.dt:
            self._next += 1
        L.params.dt = self._stopped(now, self._grid[self._next] - now)
