"""The method of a run: which sweeper, why, and its parameters in the description of pySDC's controllers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pySDC.core.hooks import Hooks

from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.control.adaptivity import AdaptivityDAE, require_estimate
from dae_sdc.control.driver import StopAtRoundOff
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError, require_count, require_number
from dae_sdc.options import Method, Multistep, Parallel, Steps, Sweeps
from dae_sdc.run.description import Setup, SolveOptions
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.sdc import SWEEPERS, SpectralDeferredCorrectionDAE
from dae_sdc.sweepers.teams import AUTO
from dae_sdc.sweepers.tolerance import Tolerance

LOOSE_RTOL, NODES_OF_LOOSE = 1e-5, 5  # Smallest rtol, and its Radau nodes; below it most nodes pay.
DEFAULT_RTOL = 1e-6  # Default of rtol if the method is chosen by the type of the equations.
# Solvers of SUNDIALS by the names under which runs accept them in place of a sweeper.
SOLVERS: Mapping[str, str] = {
    "ida": "IDA, variable-order BDF for F(t, u, u') = 0",
    "cvode": "CVODE, variable-order BDF for u' = f(t, u)",
}

LEAST_NODES, MOST_NODES = 2, 7  # Numbers of nodes of Radau IIA in runs to a tolerance without a sweeper.


def default_sweeper(rtol: float, nodes: int | None) -> str:
    """Name of the method for runs to a tolerance without a named sweeper: Radau IIA."""
    nodes = default_nodes(rtol) if nodes is None else nodes
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
    return NODES_OF_LOOSE if rtol >= 0.99 * LOOSE_RTOL else MOST_NODES


# Method for each type of equations, and its description; charts pass singular points of implicit ones.
_SECOND_ORDER = "second-order equations with constraints on "
EXPLICIT_METHODS = {
    "eulag": ("projected-dop853", f"{_SECOND_ORDER}positions"),
    "daeq3": ("projected-dop853", f"{_SECOND_ORDER}positions"),
    "nohol": ("projected-dop853", f"{_SECOND_ORDER}velocities"),
    "daeq2": ("projected-dop853", "first-order equations with multipliers"),
    "daeq1": ("projected-dop853", "first-order equations with constraints"),
    "daen1": ("chart-dop853", "implicit equations"),
}


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


INITIAL_SWEEPS = 20  # Sweeps of a step before the controller iterates, where nothing looks at iterations.
PER_ITERATION = ("pre_iteration", "post_iteration", "pre_sweep", "post_sweep")  # Methods of hooks.


def with_method(request: SolveOptions, problem: ProblemDAE, measured: bool) -> tuple[SolveOptions, str]:
    """The options with a sweeper and a number of nodes, and what the sweeper was chosen for."""
    reason = ""
    if request.sweeper is None:
        asked = request.chosen(Method, Sweeps, Multistep)
        about_steps = request.rtol, request.dt, request.convergence_controllers
        of_steps = len(request.hooks) > 0 or any(value is not None for value in about_steps)
        shared = ("threads", *(("parallel", "comm") if measured else ()))
        if not of_steps and asked.keys() <= {"nodes"} and not request.chosen(Parallel, without=shared):
            request = request.changed(rtol=DEFAULT_RTOL)
        if isinstance(problem, QuasilinearProblem) and not asked and not request.convergence_controllers:
            sweeper, reason = explicit_method(problem)
            request = request.changed(sweeper=sweeper) if sweeper else request
    if request.rtol is None:
        if bounds := [name for name in ("atol", "leave_out", "dt_max") if name in request.chosen()]:
            raise InputError(f"{', '.join(bounds)} without effect on steps of a fixed size; give rtol too")
        return request, reason
    rtol = require_number("rtol", request.rtol)
    if request.sweeper is None:
        return request.changed(sweeper=default_sweeper(rtol, request.nodes), nodes=None), reason
    cls = SWEEPERS[request.sweeper] if isinstance(request.sweeper, str) else request.sweeper
    if isinstance(cls, type) and issubclass(cls, SpectralDeferredCorrectionDAE):
        unused = [name for name in ("restol", "residual_type") if getattr(request, name) is not None]
        if unused:
            raise InputError(f"{', '.join(unused)} have no effect with rtol, which tells when sweeps end")
        if request.nodes is None:
            request = request.changed(nodes=default_nodes(rtol))
    return request, reason


def adapted_to(
    setup: Setup,
    tolerance: Tolerance,
    sizes: Steps,
    t_end: float,
    stops: Sequence[float],
    between: int = 0,
    read: Any = False,
) -> Setup:
    """The setup of a run that takes steps of a given accuracy, at their ends or also between their nodes."""
    cls = setup.sweeper_class
    if setup.has_coarse_level:
        raise InputError("rtol needs a run on one level; leave coarse_nodes out, or give dt instead of rtol")
    if setup.parallel in ("steps", "both"):
        raise InputError("with rtol ranks can share nodes only, not steps; use parallel='nodes', or give dt")
    require_estimate(cls, setup.problem, setup.label["nodes"], setup.label["sweeper"])
    bounds = {"dt_first": first_step(sizes.dt), "dt_max": np.inf if sizes.dt_max is None else sizes.dt_max}
    controller = {"t_end": t_end, "stops": tuple(stops), "between": between, "read": read, **bounds}
    direct = issubclass(cls, DirectMethod)
    return setup.with_parts(
        sweeper_params={"tolerance": tolerance},
        step_params={"maxiter": 0} if direct else {},
        # The residual of the level is in units of the tolerance.
        level_params={} if direct else {"restol": 1.0},
        convergence_controllers={StopAtRoundOff: None, AdaptivityDAE: controller},
    )


def swept_at_once(setup: Setup, hooks: Sequence[type[Any]] = ()) -> Setup:
    """The setup with the sweeps of a step in its prediction, which costs no iterations of the controller."""
    sweeps = issubclass(setup.sweeper_class, SpectralDeferredCorrectionDAE)
    single = setup.parallel is None and not setup.has_coarse_level
    if not sweeps or not single or not setup.description["level_params"]["restol"] > 0.0:
        return setup
    if any(getattr(hook, name) is not getattr(Hooks, name) for hook in hooks for name in PER_ITERATION):
        return setup
    left = setup.description["step_params"]["maxiter"] - INITIAL_SWEEPS
    return setup.with_parts(sweeper_params={"initial_sweeps": INITIAL_SWEEPS}, step_params={"maxiter": left})


def with_shared_stages(request: SolveOptions, setup: Setup, measured: bool, unnamed: bool) -> Setup:
    """The setup whose threads or ranks share the stages of a step, or whose steps may have fewer of them."""
    cls, name, threads = setup.sweeper_class, setup.label["sweeper"], request.threads
    if issubclass(cls, DirectMethod) and cls.shares_stages() and request.rtol is not None:
        shared = {"threads": threads, "measured": measured or None, "fewer_nodes": unnamed or None}
        setup = setup.with_parts(sweeper_params=shared)
    elif threads not in (None, 1, AUTO):
        raise InputError(
            f"'{name}' has nothing that threads could share; they share the stages of Radau IIA, with rtol"
        )
    elif setup.parallel == "nodes" and (measured or issubclass(cls, DirectMethod)):
        raise InputError(
            f"ranks share the stages of Radau IIA with rtol, and the nodes of SDC sweepers with "
            f"parallel='nodes'; got '{name}'{'' if request.rtol is None else ' with rtol'}"
        )
    if setup.parallel is not None and threads not in (None, 1, AUTO):
        raise InputError("ranks share the work already; leave threads out, or start without MPI")
    return setup
