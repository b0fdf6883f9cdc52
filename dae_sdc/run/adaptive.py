"""Runs to a tolerance: which method takes them, and what pySDC's controller is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.control.adaptivity import AdaptivityDAE
from dae_sdc.control.events import Event, LocateEvents
from dae_sdc.control.fixed import FixedSteps
from dae_sdc.control.stagnation import StopAtRoundOff
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError, require_count, require_number
from dae_sdc.options import Steps
from dae_sdc.run.description import Setup
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.tolerance import Tolerance

NODES_BY_TOLERANCE = ((1e-5, 5),)
"""Number of Radau nodes for tolerances down to a limit; 7 below all."""

DEFAULT_RTOL = 1e-6
"""Relative tolerance where the method is chosen by the type of the equations and the user gives none."""

LEAST_NODES, MOST_NODES = 2, 7
"""Numbers of nodes of the Radau IIA methods that take runs to a tolerance."""


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
        nodes = default_nodes(rtol)
    require_count("nodes", nodes)
    if not LEAST_NODES <= nodes <= MOST_NODES:
        raise InputError(f"with rtol and no sweeper, give {LEAST_NODES} to {MOST_NODES} nodes; got {nodes}")
    return f"radau-iia-{2 * nodes - 1}"


def explicit_method(problem: QuasilinearProblem) -> tuple[str, str]:
    """The method for quasilinear equations that are not stiff, and why it is that.

    Parameters
    ----------
    problem : QuasilinearProblem
        The equations.

    Returns
    -------
    sweeper, reason : str
        Name of the sweeper, and what it was chosen by; two empty texts for equations that are stiff, or that
        the user has asked for in another formulation than their first, which is one for implicit methods.
    """
    if problem.stiff or problem.formulation != problem.formulations[0]:
        return "", ""
    sweeper, what = EXPLICIT_METHODS[problem.kind]
    return sweeper, f"{what} (type {problem.kind}) that are not marked as stiff"


def default_nodes(rtol: float) -> int:
    """Number of Radau nodes that pay at a relative tolerance."""
    return next((count for limit, count in NODES_BY_TOLERANCE if rtol >= 0.99 * limit), MOST_NODES)


_SECOND_ORDER = "second-order equations with constraints on "
EXPLICIT_METHODS = {
    "eulag": ("projected-dop853", f"{_SECOND_ORDER}positions"),
    "daeq3": ("projected-dop853", f"{_SECOND_ORDER}positions"),
    "nohol": ("projected-dop853", f"{_SECOND_ORDER}velocities"),
    "daeq2": ("projected-dop853", "first-order equations with multipliers"),
    "daeq1": ("projected-dop853", "first-order equations with constraints"),
    "daen1": ("chart-dop853", "implicit equations"),
}
"""Method for each type of equations, and what to call them: charts pass singular points of implicit ones."""


def first_step(dt: float | None) -> float | None:
    """The first step of a run to a tolerance; raises InputError for one that is none."""
    if dt is None:
        return None
    size = require_number("dt", dt)
    if not np.isfinite(size):
        raise InputError(f"dt must be finite; got {dt!r}")
    if not size > 0.0:
        raise InputError(f"dt must be positive; got {dt!r}")
    return size


def adapt(setup: Setup, tolerance: Tolerance, sizes: Steps, t_end: float, stops: Sequence[float]) -> None:
    """Change a setup to one that takes steps of a given accuracy.

    Parameters
    ----------
    setup : Setup
        Of one level, with one step at a time.
    tolerance : Tolerance
        What every step is to reach.
    sizes : Steps
        First and largest step, and the time that the run may take.
    t_end : float
        End of the run.
    stops : sequence of float
        Times between at which steps must end.

    Raises
    ------
    InputError
        For a method that cannot estimate its error.
    """
    description: Mapping[str, Any] = setup.description
    cls = setup.sweeper_class
    if setup.has_coarse_level:
        raise InputError("rtol needs a run on one level; leave coarse_nodes out, or give dt instead of rtol")
    if setup.parallel in ("steps", "both"):
        raise InputError("with rtol ranks can share nodes only, not steps; use parallel='nodes', or give dt")
    description["sweeper_params"]["tolerance"] = tolerance
    controllers = description["convergence_controllers"]
    controllers.pop(StopAtRoundOff, None)
    if issubclass(cls, DirectMethod):
        cls.check_adaptive()
        _check_index(setup)
        description["step_params"]["maxiter"] = 0
    else:
        _check_index(setup)
        # In units of what the tolerance allows.
        description["level_params"]["restol"] = 1.0
    named = {"dt_first": first_step(sizes.dt), "dt_max": sizes.dt_max, "time_limit": sizes.time_limit}
    given = {name: value for name, value in named.items() if value is not None}
    controllers[AdaptivityDAE] = {"t_end": t_end, "stops": tuple(stops), **given}


def _check_index(setup: Setup) -> None:
    """Raise InputError where the error estimate of a method does not hold for the index of the problem."""
    limit = getattr(setup.sweeper_class, "estimate_index", None)
    index = max(setup.problem.index or 0, *setup.problem.variable_index)
    nodes = setup.label["nodes"]
    if limit is not None and index > limit(nodes):
        raise InputError(
            f"the error estimate of '{setup.label['sweeper']}' with {nodes} stages holds up to index "
            f"{limit(nodes)}, and {type(setup.problem).__name__} has index {index}; use Radau IIA with at "
            f"least {index - 1} nodes, or reduce the index"
        )


def locate(
    setup: Setup,
    events: tuple[Event, ...],
    span: float,
    n_slopes: int,
    fixed: Mapping[str, Any] | None,
    steps: int | None,
) -> bool:
    """Let a run find the zeros of event functions, and of the switches of its problem.

    Parameters
    ----------
    setup : Setup
        Is changed if there is anything to find.
    events : tuple of Event
        The functions of the user.
    span : float
        Length of the run.
    n_slopes : int
        Number of unknowns whose u' is as good as u.
    fixed : mapping, optional
        Parameters of :class:`FixedSteps` where steps are of a fixed size.
    steps : int or None
        How many steps iterate together. Where it is more than one, switches act at the starts of steps only.

    Returns
    -------
    bool
        Whether there is.

    Raises
    ------
    InputError
        If steps do not come one at a time, with events of the user to find.
    """
    description = setup.description
    alone = setup.iterates_alone(steps) and not setup.adaptive
    if events and not alone:
        raise InputError(
            "events are located in runs of one step at a time on one level; leave steps, coarse_nodes, "
            "parallel='steps' and other step size controllers out"
        )
    if not alone or not (events or type(setup.problem).switches is not ProblemDAE.switches):
        return False
    controllers = description["convergence_controllers"]
    if fixed is not None:
        controllers[FixedSteps] = dict(fixed)
    controllers[LocateEvents] = {
        "events": events,
        "span": span,
        "n_slopes": n_slopes,
        "requires_convergence": fixed is not None,
    }
    return True


def stops_of(problem: ProblemDAE, t0: float, t_end: float) -> tuple[float, ...]:
    """Times between ``t0`` and ``t_end`` at which the equations have a kink or a jump, in order."""
    times = np.unique(np.asarray(problem.breakpoints(t0, t_end), dtype=np.float64))
    if np.isnan(times).any():
        raise InputError(f"{type(problem).__name__}.breakpoints returned nan among its times; check it")
    tiny = 1e-12 * max(abs(t0), abs(t_end), t_end - t0)
    return tuple(times[(times > t0 + tiny) & (times < t_end - tiny)].tolist())
