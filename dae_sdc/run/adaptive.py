"""Runs to a tolerance: which method takes them, and what pySDC's controller is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dae_sdc.control.adaptivity import AdaptivityDAE
from dae_sdc.control.stagnation import StopAtRoundOff
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError, require_number
from dae_sdc.run.description import Setup
from dae_sdc.sweepers.runge_kutta import RungeKuttaDAE
from dae_sdc.sweepers.tolerance import Tolerance

NODES_BY_TOLERANCE = ((1e-4, 3), (1e-7, 5))
"""Number of Radau nodes for tolerances down to a limit; 7 below all."""

MOST_NODES = 7


def default_sweeper(rtol: float, nodes: int | None) -> str:
    """Name of the method that takes runs to a tolerance where the user names none: Radau IIA.

    Parameters
    ----------
    rtol : float
        Relative tolerance.
    nodes : int or None
        Number of nodes, chosen by the tolerance if None.
    """
    if nodes is None:
        nodes = next((count for limit, count in NODES_BY_TOLERANCE if rtol >= 0.99 * limit), MOST_NODES)
    return f"radau-iia-{2 * nodes - 1}"


@dataclass(frozen=True)
class Limits:
    """What bounds a run to a tolerance besides it.

    Parameters
    ----------
    dt_first, dt_max : float or None
        First and largest step.
    time_limit : float or None
        Seconds that a run may take.
    """

    dt_first: float | None = None
    dt_max: float | None = None
    time_limit: float | None = None

    @classmethod
    def checked(cls, **given: object) -> Limits:
        """Limits as a user gives them; raises InputError for what is no positive number."""
        values: dict[str, float | None] = {}
        for name, value in given.items():
            values[name] = None if value is None else require_number(name, value)
            if value is not None and not values[name] > 0.0:  # type: ignore[operator]
                raise InputError(f"{name} must be positive; got {value!r}")
        return cls(**values)


def adapt(
    setup: Setup, tolerance: Tolerance, limits: Limits, t0: float, t_end: float, stops: Sequence[float]
) -> None:
    """Change a setup to one that takes steps of a given accuracy.

    Parameters
    ----------
    setup : Setup
        Of one level, with one step at a time.
    tolerance : Tolerance
        What every step is to reach.
    limits : Limits
        Bounds of steps and time.
    t0, t_end : float
        The interval.
    stops : sequence of float
        Times between at which steps must end.

    Raises
    ------
    InputError
        For a method that cannot estimate its error.
    """
    description: Mapping[str, Any] = setup.description
    cls = setup.sweeper_class
    if isinstance(description["sweeper_class"], list):
        raise InputError("rtol needs a run on one level; leave coarse_nodes out, or give dt instead of rtol")
    if setup.parallel in ("steps", "both"):
        raise InputError("with rtol ranks can share nodes only, not steps; use parallel='nodes', or give dt")
    description["sweeper_params"]["tolerance"] = tolerance
    controllers = description["convergence_controllers"]
    controllers.pop(StopAtRoundOff, None)
    if issubclass(cls, RungeKuttaDAE):
        cls.check_adaptive()
        description["step_params"]["maxiter"] = 0
    given = {name: value for name, value in vars(limits).items() if value is not None}
    controllers[AdaptivityDAE] = {"t_end": t_end, "stops": tuple(stops), **given}


def stops_of(problem: ProblemDAE, t0: float, t_end: float) -> tuple[float, ...]:
    """Times between ``t0`` and ``t_end`` at which the equations have a kink or a jump, in order."""
    times = np.unique(np.asarray(problem.breakpoints(t0, t_end), dtype=np.float64))
    tiny = 1e-12 * max(abs(t0), abs(t_end), t_end - t0)
    return tuple(times[(times > t0 + tiny) & (times < t_end - tiny)].tolist())
