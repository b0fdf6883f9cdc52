"""Exchange between steps on ranks of their own at the end of a block."""

from __future__ import annotations

from typing import Any

from dae_sdc.control.controls import Control
from dae_sdc.control.hooks import StepRecord, unconverged
from dae_sdc.sweepers.parallel import raise_everywhere


class ShareBlock(Control):
    """Brings the finished steps of a block to the first rank, and the error of one step to all ranks.

    Sweepers keep their errors until then, as a rank that leaves a block early leaves the others waiting. The
    steps before the first that failed are finished; those after it started from what it left, and are not
    recorded.

    Examples
    --------
    >>> description["convergence_controllers"] = {ds.ShareBlock: {}}  # doctest: +SKIP
    """

    order = -1000  # before the others that communicate at the end of a block

    def setup_status_variables(self, controller: Any, **kwargs: Any) -> None:
        """Tell the sweepers to keep their errors."""
        for step in controller.steps:
            for level in step.levels:
                level.sweep.defers = True
        self._record = next(hook for hook in controller.hooks if isinstance(hook, StepRecord))

    def prepare_next_block(
        self, controller: Any, S: Any, size: int, time: float, Tend: float, comm: Any, **kwargs: Any
    ) -> None:
        """Exchange errors and steps.

        Raises
        ------
        Exception
            The error of the earliest step that failed, on all ranks.
        """
        failures = (level.sweep.failure for level in S.levels)
        failure = next((error for error in failures if error is not None), None) or unconverged(S)
        failed = comm.allgather(failure is not None)
        first = failed.index(True) if any(failed) else len(failed)
        new = self._record.take() if comm.Get_rank() < first else []
        collected = comm.gather(new, root=0)
        if collected is not None:
            self._record.keep([row for rows in collected for row in rows])
        if any(failed):
            raise_everywhere(comm, first, failure)
