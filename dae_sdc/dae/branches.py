"""Equations with branches: times and switches at which they change, and the signs that are in force."""

from __future__ import annotations

from collections.abc import Sequence

from dae_sdc.dae.state import MeshDAE
from dae_sdc.errors import InputError

# Size of a negative value of a switch that counts as 0, so as positive, where zeros are not located.
SIDE_SLACK = 1e-10


class Branches:
    """Base of :class:`~dae_sdc.dae.problem.ProblemDAE`: which branch of the equations a step takes."""

    switch_names: tuple[str, ...] = ()

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """Times strictly between ``t0`` and ``t_end`` at which a step must end, in ascending order.

        There F jumps or has a kink as a function of time. Which piece is in force is chosen in
        :meth:`start_step` and kept for the whole step, so that a stage at its end sees the limit from the
        left. None by default.
        """
        return ()

    def switches(self, u: MeshDAE, t: float) -> Sequence[float]:
        """Functions of state and time at whose zeros :meth:`start_step` chooses another branch, shape (S,).

        They are continuous along a solution, of size 1 away from their zeros, and may be evaluated at states
        somewhat past a zero. Runs of one step at a time locate the zeros and end a step there; :meth:`sides`
        says which sign holds from there on. None by default.
        """
        return ()

    def sides(self, u: MeshDAE, t: float) -> tuple[int, ...]:
        """For each switch 1 or -1, the sign that is in force in a step from ``u`` at ``t``.

        By these :meth:`start_step` chooses a branch. In a run that locates the zeros they change only there;
        in all others they are the signs of the values, of which those from -1e-10 on count as positive.
        """
        held: tuple[int, ...] | None = self.__dict__.get("_held")
        if held is not None:
            return held
        return tuple(1 if value >= -SIDE_SLACK else -1 for value in self.switches(u, t))

    def hold_sides(self, sides: tuple[int, ...] | None) -> None:
        """Let :meth:`sides` give these signs, whatever the state; with None, those of the state again."""
        self.__dict__["_held"] = sides

    @property
    def held_sides(self) -> tuple[int, ...] | None:
        """The signs that :meth:`hold_sides` has set, or None."""
        return self.__dict__.get("_held")

    @property
    def located(self) -> bool:
        """Whether the run locates zeros of switches, and makes states consistent behind breakpoints."""
        return self.__dict__.get("_held") is not None

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Called by every sweeper when a step begins at state ``u`` and time ``t``.

        A problem with a state-dependent right-hand side chooses its branch here and keeps it for the whole
        step, so that no Newton iteration meets a jump. The choice may depend on ``u``, ``t`` and
        :meth:`sides` only, so that a repeated step repeats it.
        """

    @property
    def starts_alike(self) -> bool:
        """Whether :meth:`start_step` changes nothing in the steps between two breakpoints."""
        return type(self).start_step is Branches.start_step

    def get_switching_info(self, u: Sequence[MeshDAE], t: float) -> tuple[bool, int, list[float]]:
        """What pySDC's ``SwitchEstimator`` asks for after a step: the first switch that changes its sign."""
        if self.__dict__.get("_has_stages"):
            raise InputError(
                "pySDC's SwitchEstimator reads the nodes of spectral deferred corrections and no stages; use "
                "LocateEvents of dae_sdc with Runge-Kutta methods"
            )
        values = [list(self.switches(state, t)) for state in u]
        for m in range(len(u) - 1):
            for i, (before, after) in enumerate(zip(values[m], values[m + 1], strict=True)):
                if (before < 0.0) != (after < 0.0):
                    return True, m, [float(row[i]) for row in values]
        return False, -100, [float(row[0]) if row else 1.0 for row in values]

    def count_switches(self) -> None:
        """Count an event, as pySDC's ``SwitchEstimator`` asks for."""
        self.nswitches = getattr(self, "nswitches", 0) + 1
