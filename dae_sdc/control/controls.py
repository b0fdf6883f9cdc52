"""What the convergence controllers of this room have in common, and the one that keeps a time limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pySDC.core.convergence_controller import ConvergenceController

from dae_sdc.deadline import check_at
from dae_sdc.errors import InputError


class Control(ConvergenceController):  # type: ignore[misc]
    """A convergence controller with a place among the others."""

    order: ClassVar[int]
    defaults: ClassVar[Mapping[str, Any]] = {}

    def setup(
        self, controller: Any, params: dict[str, Any], description: dict[str, Any], **kwargs: Any
    ) -> Any:
        """The parameters, with the defaults for those that are not given."""
        given = super().setup(controller, params, description, **kwargs)
        return {"control_order": self.order, **self.defaults, **given}


class RepeatingControl(Control):
    """A convergence controller that may let a step be repeated."""

    def setup_status_variables(self, controller: Any, **kwargs: Any) -> None:
        """Add the mark of a step that is to be repeated."""
        self.add_status_variable_to_step("restart", False)

    def reset_status_variables(self, controller: Any, **kwargs: Any) -> None:
        """Take the mark away for the next step."""
        self.set_step_status_variable("restart", False)


def require_single_steps(controller: Any, comm: Any, what: str, needed: bool = True) -> None:
    """Raise InputError unless a controller takes one step at a time on one level."""
    steps = len(controller.steps) if comm is None else comm.Get_size()
    levels = len(controller.steps[0].levels)
    if needed and (steps > 1 or levels > 1):
        raise InputError(
            f"{what} needs one step at a time on one level; got {steps} steps and {levels} levels; let ranks "
            f"share the nodes of a step instead"
        )


class KeepTimeLimit(Control):
    """Ends a run between two blocks of steps where the time of the call around it is over, on all ranks."""

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
