"""Runs to a tolerance: the choice of the method, and the parameters of pySDC's controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.control.adaptivity import AdaptivityDAE, require_estimate, stops_of as stops_of
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
"""Pairs of a smallest rtol and a number of Radau nodes; MOST_NODES below all of them."""

DEFAULT_RTOL = 1e-6
"""Default of rtol if the method is chosen by the type of the equations."""

LEAST_NODES, MOST_NODES = 2, 7
"""Range of the numbers of nodes of Radau IIA in runs to a tolerance without a named sweeper."""


def default_sweeper(rtol: float, nodes: int | None) -> str:
    """Name of the method for runs to a tolerance without a named sweeper: Radau IIA."""
    if nodes is None:
        nodes = default_nodes(rtol)
    require_count("nodes", nodes)
    if not LEAST_NODES <= nodes <= MOST_NODES:
        raise InputError(f"with rtol and no sweeper, give {LEAST_NODES} to {MOST_NODES} nodes; got {nodes}")
    return f"radau-iia-{2 * nodes - 1}"


def explicit_method(problem: QuasilinearProblem) -> tuple[str, str]:
    """The method for quasilinear equations that are not stiff, and the reason."""
    if problem.stiff or problem.formulation != problem.formulations[0]:
        return "", ""
    sweeper, what = EXPLICIT_METHODS[problem.kind]
    return sweeper, f"{what} (type {problem.kind}) that are not marked as stiff"


def default_nodes(rtol: float) -> int:
    """Most efficient number of Radau nodes for a relative tolerance."""
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
"""Method for each type of equations, and its description; charts pass singular points of implicit ones."""


def first_step(dt: float | None) -> float | None:
    """The first step size of a run to a tolerance; raises InputError unless it is finite and positive."""
    if dt is None:
        return None
    size = require_number("dt", dt)
    if not np.isfinite(size):
        raise InputError(f"dt must be finite; got {dt!r}")
    if not size > 0.0:
        raise InputError(f"dt must be positive; got {dt!r}")
    return size


def adapt(setup: Setup, tolerance: Tolerance, sizes: Steps, t_end: float, stops: Sequence[float]) -> None:
    """Change a setup to one that takes steps of a given accuracy."""
    description: Mapping[str, Any] = setup.description
    cls = setup.sweeper_class
    if setup.has_coarse_level:
        raise InputError("rtol needs a run on one level; leave coarse_nodes out, or give dt instead of rtol")
    if setup.parallel in ("steps", "both"):
        raise InputError("with rtol ranks can share nodes only, not steps; use parallel='nodes', or give dt")
    description["sweeper_params"]["tolerance"] = tolerance
    controllers = description["convergence_controllers"]
    controllers.pop(StopAtRoundOff, None)
    require_estimate(cls, setup.problem, setup.label["nodes"], setup.label["sweeper"])
    if issubclass(cls, DirectMethod):
        description["step_params"]["maxiter"] = 0
    else:
        # The residual of the level is in units of the tolerance.
        description["level_params"]["restol"] = 1.0
    named = {"dt_first": first_step(sizes.dt), "dt_max": sizes.dt_max}
    given = {name: value for name, value in named.items() if value is not None}
    controllers[AdaptivityDAE] = {"t_end": t_end, "stops": tuple(stops), **given}


def locate(
    setup: Setup,
    events: tuple[Event, ...],
    span: float,
    n_slopes: int,
    fixed: Mapping[str, Any] | None,
    steps: int | None,
) -> bool:
    """Let a run find the zeros of event functions, and of the switches of its problem."""
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
        controllers[FixedSteps] = {**fixed, "meets": bool(getattr(setup.problem, "timed_switch_names", ()))}
    controllers[LocateEvents] = {
        "events": events,
        "span": span,
        "n_slopes": n_slopes,
        "requires_convergence": fixed is not None,
    }
    return True
