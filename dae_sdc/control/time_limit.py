"""The time limit of runs with a fixed step size; :class:`AdaptivityDAE` asks for that of others itself."""

from __future__ import annotations

from typing import Any, ClassVar

from dae_sdc.control.controls import Control
from dae_sdc.deadline import check_at


class KeepTimeLimit(Control):
    """Ends a run between two blocks of steps where the time of the call around it is over.

    Parameters (in ``params``)
    --------------------------
    comm : mpi4py.MPI.Intracomm or None
        All ranks of the run, which end together, or go on.
    """

    order = 1100  # behind what collects steps and gives them sizes
    defaults: ClassVar = {"comm": None}

    def prepare_next_block(
        self, controller: Any, S: Any, size: int, time: Any, Tend: float, **kwargs: Any
    ) -> None:
        """Look at the time before a block."""
        ranks, active = self.params.comm, kwargs.get("comm")
        now = float(time if active is not None else time[0])
        # Ranks that have left, as there are fewer steps than ranks at the end, would not take part.
        if now >= Tend or (active is not None and active.Get_size() < controller.comm.Get_size()):
            return
        check_at(now, " or dt", None if ranks is None else lambda left: float(ranks.bcast(left, root=0)))
