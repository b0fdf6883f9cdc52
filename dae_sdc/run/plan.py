"""A run as it is decided before its first step: one record, made by one function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pySDC.core.controller import _Pars as ControllerParameters
from pySDC.core.hooks import Hooks

from dae_sdc.arguments import shown
from dae_sdc.control.adaptivity import FUNCTIONS, VALUES, stops_of
from dae_sdc.control.events import Event, LocateEvents, accurate_slopes, as_events, unknowns_looked_at
from dae_sdc.control.invariants import Invariants, require_invariants
from dae_sdc.control.singular import require_way
from dae_sdc.control.stepping import FixedSteps
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError, require_number
from dae_sdc.registry import require_name, unknown
from dae_sdc.run.description import Setup, SolveOptions, number_of_steps, poor_choice, setup_of
from dae_sdc.run.equations import Equations
from dae_sdc.run.method import adapted_to, swept_at_once, with_method, with_shared_stages
from dae_sdc.run.processes import Ranks
from dae_sdc.run.resume import Saving
from dae_sdc.run.solution import DENSE_LIMIT, output_times
from dae_sdc.run.start import Start
from dae_sdc.run.unknowns import During, events_of
from dae_sdc.sharing import tell
from dae_sdc.sweepers.teams import AUTO
from dae_sdc.sweepers.tolerance import Tolerance

MOST_TAGGED = 99  # Iterations that pySDC tells from those of another level: tags are 100 level + iteration.
NEAR_ZERO = 0.05  # Part of its largest value in a step from which on a function is far from its zeros.

Events = tuple[Event, ...]
Fixed = dict[str, Any] | None  # What tells of steps of a fixed size; None where errors choose them.


@dataclass(frozen=True, eq=False)
class Plan:
    """All that is decided of a run before its first step."""

    request: SolveOptions  # What was asked, with the method in place.
    equations: Equations  # What is solved, with what is said of it.
    start: Start  # Where it starts.
    chosen_for: str  # What the method was chosen for; empty where it was named.
    setup: Setup  # Problem, sweeper, and the description of the controller.
    t_end: float  # Where the run ends.
    count: int | None  # Number of steps of a fixed size; None if the controller chooses them.
    t_eval: Vector | None  # Output times; None for the ends of the steps.
    locates: bool  # Whether zeros of event and switching functions are located.
    saving: Saving | None  # Checkpoints.
    automatic: bool  # Whether it is measured if threads or ranks pay.

    @property
    def dt(self) -> float:
        """The fixed step size, or the length of the interval if it is not fixed."""
        return (self.t_end - self.start.t0) / (self.count or 1)

    @property
    def remark(self) -> str:
        """What is said of the equations and their start."""
        return "; ".join(filter(None, (self.equations.remark, self.start.remark)))

    @property
    def keeps(self) -> bool:
        """Whether the solution between the steps is kept after the run."""
        dense = self.request.dense
        return self.setup.problem.n <= DENSE_LIMIT if dense is None else dense

    def on(self, team: Ranks) -> Plan:
        """The plan for ranks: steps that iterate together take more iterations where no limit is named."""
        most = self.setup.description["step_params"]["maxiter"]
        unlimited = self.request.maxiter is None
        if unlimited:
            # A step waits for those before it while it iterates.
            most *= max(self.request.steps or 1, team.steps_at_once)
        if team.steps is not None and self.setup.has_coarse_level:
            if not unlimited and most > MOST_TAGGED:
                raise InputError(
                    f"with a coarse level and steps on ranks of their own, pySDC tells apart the messages of "
                    f"at most {MOST_TAGGED} iterations; got maxiter={most}"
                )
            most = min(most, MOST_TAGGED)
        if most == self.setup.description["step_params"]["maxiter"]:
            return self
        return replace(self, setup=self.setup.with_parts(step_params={"maxiter": most}))


def plan_of(
    request: SolveOptions, equations: Equations, begin: Start, measured: bool, events: Events | None = None
) -> Plan:
    """The plan of a run; ``measured`` where ranks share work only if that pays."""
    for name in ("max_order", "global_error"):
        if getattr(request, name) is not None:
            raise InputError(f"{name} belongs to the sweepers 'ida' and 'cvode'; leave it out")
    if equations.given is None:  # the problem has them already
        request = request.changed(params=None, newton_tol=None, linear_solver=None)
    unnamed = request.sweeper is None and request.nodes is None
    problem, by_class = equations.problem, isinstance(equations.given, type)
    request, chosen_for = with_method(request, problem, measured)
    setup = setup_of(request, problem, equations.arguments if by_class else None)
    setup = with_shared_stages(request, setup, measured, unnamed)
    if poor := poor_choice(setup):
        tell(poor)
    _check(request, setup)
    start, end = begin.t0, begin.t_end
    times = output_times(request.t_eval, request.points, start, end)
    if events is None:  # those of the request, before them those of its equations
        both = equations.own_events, request.events
        parts = [part for part in both if not (isinstance(part, tuple) and not part)]
        during = _during(equations, request.events, begin) if parts else During()
        known = problem, equations.unknowns, during
        read = (as_events(events_of(part, *known)) for part in parts)
        events = tuple(_with_multipliers(request, one, problem, begin) for each in read for one in each)
    setup, fixed = _with_steps(request, setup, begin, events)
    if fixed is None:
        setup.description["sweeper_params"]["tolerance"].check_start(problem, begin.u)
    setup, locates = _locating(request, setup, events, begin, fixed, _may_slide(request, equations, events))
    unlimited = request.maxiter is None and request.nsweeps is None
    if unlimited and not setup.adaptive and request.steps in (None, 1):
        setup = swept_at_once(setup, request.hooks)
    alone = setup.iterates_alone(request.steps) and setup.parallel is None and not setup.adaptive
    if alone and not (len(request.hooks) or request.controller_params):
        setup = _on_grid(setup, fixed)
    if request.project is not None:
        require_invariants(problem)
        setup.require_alone(request.steps, "invariants are looked at", "project out")
        setup = setup.with_parts(convergence_controllers={Invariants: {"project": request.project}})
    automatic, count = measured or request.threads == AUTO, None if fixed is None else fixed["count"]
    plan = Plan(*(request, equations, begin, chosen_for, setup, end, count, times, locates, None, automatic))
    return _with_checkpoints(plan, events, fixed)


def _check(request: SolveOptions, setup: Setup) -> None:
    """Refuse what does not go together, and names that pySDC's controllers do not look at."""
    if request.singular is not None:
        require_way(request.singular, setup.problem)
        setup.require_alone(request.steps, "singular points are looked for", "singular out")
    if strange := [hook for hook in request.hooks if not issubclass(hook, Hooks)]:
        raise InputError(f"hooks must be classes made from pySDC's Hooks; got {shown(strange[0])}")
    for name in request.controller_params or {}:
        known = {*vars(ControllerParameters({})), *ControllerParameters.attrs, "hook_class"}
        known = {name for name in known if name[0] != "_"}
        require_name("parameter of the controller", name, known)


def _with_multipliers(request: SolveOptions, event: Event, problem: ProblemDAE, begin: Start) -> Event:
    """An event whose function looks at unknowns from index 3 on, as hidden constraints tell them."""
    # Polynomials have them with the error of the state divided by the square of a step.
    read = unknowns_looked_at(problem, [event], begin.u, begin.t0)
    higher = np.array(problem.variable_index) > 2
    wanted = request.rtol if request.hidden_constraints is None else request.hidden_constraints
    if not (wanted and (read & higher).any()):
        return event
    from dae_sdc.initial.hidden import hidden_constraints

    sizes = np.where(begin.u, np.abs(begin.u), 1.0)
    if (hidden := hidden_constraints(problem, begin.t0, sizes, wanted is True)) is None:
        return event

    def corrected(u: Vector, t: Vector) -> Vector:
        u, slopes = np.array(u), np.zeros(u.shape)
        for rows in (u.copy(), u):  # at first for u' alone, which is not known
            hidden.correct(t, rows, slopes, np.zeros(len(t)))
        return u

    def values_at(u: Vector, t: Vector) -> Vector:
        return np.array(list(map(event.function, map(problem.state, u), t.tolist())))

    def several(u: Vector, t: Vector) -> Vector:
        values = values_at(u, t)
        far = np.abs(values).min() > NEAR_ZERO * np.abs(values).max()
        return values if far else values_at(corrected(u, t), t)

    def function(u: MeshDAE, t: float, *more: Any) -> float:
        return float(event.function(problem.state(corrected(np.array([u]), np.array([t]))[0]), t, *more))

    reads = np.flatnonzero(~higher & (read | ~problem.is_algebraic)).tolist()
    return replace(event, function=function, several=several, reads=reads)


def _with_steps(request: SolveOptions, setup: Setup, begin: Start, events: Events) -> tuple[Setup, Fixed]:
    """The setup with its tolerance, and what tells of fixed steps; None where errors choose steps."""
    problem, start, end = setup.problem, begin.t0, begin.t_end
    stops = stops_of(problem, start, end, events)
    if request.rtol is None:
        size = problem.dt if request.dt is None else require_number("dt", request.dt)
        count = number_of_steps(start, end, size)
        return setup, {"dt": (end - start) / count, "count": count, "t_end": end, "stops": stops}
    if request.steps not in (None, 1):
        raise InputError("with rtol steps are taken one at a time; leave steps out, or give dt instead")
    tolerance = Tolerance.checked(problem, request.rtol, request.atol, request.leave_out or ())
    read = unknowns_looked_at(problem, events, begin.u, start)
    output = request.t_eval is not None or request.points is not None
    between = VALUES if output or request.dense else FUNCTIONS if events or read.any() else 0
    return adapted_to(setup, tolerance, request, end, stops, between, read), None


CHATTERING = ("slide", "stop")  # What a run does where both sides of a switch lead back to it.


def _may_slide(request: SolveOptions, equations: Equations, events: Events) -> bool:
    """Whether a run goes on along borders of its equations, with equations of their own."""
    way, form = request.chattering, getattr(equations.problem, "form", None)
    if way not in (None, *CHATTERING):
        raise InputError(unknown("way at chattering switches", way, CHATTERING))
    reasons = {
        "steps of a fixed size": request.rtol is None,
        "equations that are not read": equations.model is None or getattr(form, "jumps", None) is None,
        "simplify=True": equations.simplified is not None and request.simplify is not None,
        "checkpoints, without simplify=False": request.checkpoint is not None
        and equations.simplified is not None,
        "ranks": request.parallel is not None,
        "events that change the state": any(event.change is not None for event in events),
    }
    why = next((reason for reason, holds in reasons.items() if holds), None)
    if way == "slide" and why is not None:
        raise InputError(f"a run cannot slide along switches with {why}; leave chattering out, or the other")
    return way != "stop" and why is None


def _during(equations: Equations, given: Any, begin: Start) -> During:
    """The run of events, with the unknowns of a model that they alone change, and values that stay."""
    events = [*equations.own_events, *(given if isinstance(given, tuple | list) else (given,))]
    run = During(begin.t0, begin.t_end)
    if (model := equations.model) is None or any(getattr(event, "change", None) for event in events):
        return run
    words = [word for text in events if isinstance(text, str) for word in text.split(";")[1:]]
    changed = {word.partition("=")[0].rstrip(": ").strip() for word in words}
    leaves = map(model.graph.leaves.get, model.roots)
    constant = {model.names[leaf.index] for leaf in leaves if leaf and leaf[::2] == ("u", 1)}
    values = zip(equations.problem.names, begin.u.tolist(), strict=True)
    stays = {name: value for name, value in values if name in constant - changed}
    return run._replace(stays=stays, constant=constant)


def _locating(
    request: SolveOptions, setup: Setup, events: Events, start: Start, fixed: Fixed, slides: bool
) -> tuple[Setup, bool]:
    """The setup that finds zeros of event functions and switches of its problem; whether there are any."""
    others = "other step size controllers out"
    if events:
        setup.require_alone(request.steps, "events are located", others, adaptive=False)
    alone = setup.iterates_alone(request.steps) and not setup.adaptive
    if not alone or not (events or type(setup.problem).switches is not ProblemDAE.switches):
        return setup, False
    controllers: dict[Any, Mapping[str, Any]] = {}
    if fixed is not None:
        meets = bool(getattr(setup.problem, "timed_switch_names", ()))
        meets = meets or any(event.times is not None for event in events)
        controllers[FixedSteps] = {**fixed, "meets": meets}
    slopes = accurate_slopes(setup.sweeper_class, setup.problem)
    about = {"events": events, "span": start.t_end - start.t0, "n_slopes": slopes}
    about |= {"requires_convergence": fixed is not None, "sides": start.sides, "slides": slides}
    controllers[LocateEvents] = about
    return setup.with_parts(convergence_controllers=controllers), True


def _on_grid(setup: Setup, fixed: Fixed) -> Setup:
    """The setup whose fixed steps, if they are, keep the times of a grid in the package's own controller."""
    if fixed is None or FixedSteps in setup.description["convergence_controllers"]:
        return setup
    return setup.with_parts(convergence_controllers={FixedSteps: fixed})


def _with_checkpoints(plan: Plan, events: Events, fixed: Fixed) -> Plan:
    """The plan with the checkpoints that are asked for, and with what tells the run from others."""
    request, setup = plan.request, plan.setup
    if (saving := Saving.checked(request)) is None:
        return plan
    others = "other step size controllers out, or checkpoint"
    setup.require_alone(request.steps, "checkpoints are written", others, adaptive=False)
    setup = _on_grid(setup, fixed)
    size = setup.problem.dt if request.dt is None else float(request.dt)
    about = {
        **{"rtol": request.rtol, "atol": request.atol, "t0": plan.start.t0, "t_end": plan.t_end},
        "leave_out": tuple(request.leave_out or ()),
        **{"dt": request.dt if fixed is None else size, "dt_max": request.dt_max},
        "u0": np.array(plan.start.u),
        "dense output": plan.keeps or request.t_eval is not None or request.points is not None,
        "project": request.project,
    }
    saving.describe(setup, about, events)
    return replace(plan, setup=setup, saving=saving)
