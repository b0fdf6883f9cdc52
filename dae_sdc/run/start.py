"""Where a run starts: at a state that is given, completed, or made consistent."""

from __future__ import annotations

import copy
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dae_sdc.arguments import shown
from dae_sdc.dae.consistency import check_consistent
from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.deadline import under_way
from dae_sdc.errors import (
    DAEError,
    InconsistentStateError,
    InputError,
    NotReducibleError,
    ResultFileError,
    require_number,
    words_of,
)
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.initial.given import OfResult, bounds_of, bounds_of_model, expanded, of_names, require_within
from dae_sdc.initial.redundant import left_out
from dae_sdc.options import number, pairs
from dae_sdc.registry import unknown
from dae_sdc.run.description import SolveOptions, interval_of
from dae_sdc.run.equations import Equations, compiled, has_hidden_constraints, in_force, renamed
from dae_sdc.run.results import load
from dae_sdc.run.solution import Solution, derivative_at_start
from dae_sdc.run.target import calculated
from dae_sdc.run.unknowns import conditions_in
from dae_sdc.sharing import one_at_a_time
from dae_sdc.structure.dependent import of_closed
from dae_sdc.text import brief

if TYPE_CHECKING:
    from dae_sdc.initial.consistent import Change, Initial
    from dae_sdc.initial.contradictions import Followed
    from dae_sdc.initial.jets import JetSystem
    from dae_sdc.model.model import Model

STARTS = ("given", "consistent")  # What a run starts at.
MOST_CHANGES: Final = 6  # Start values that a message names.
MOST_SOUGHT: Final = 30  # Unknowns up to which other solutions are looked for where some are given.
SAME_VALUE: Final = 1e-6  # Difference of a value at two starts, relative to its size, that is told.
# Difference of a value from the given one, relative to its size or 1 for 0, with which that one is kept.
MOVED: Final = 1e-12
# Largest violation that is accepted, in units of rtol: the end of one run may be the start of the next.
OF_RUN: Final = 100.0

# Bounds of this violation, relative to the terms of the constraint; the larger for fixed step sizes.
LEAST: Final = 1e-7
LARGEST: Final = 1e-4

# Violation from which on a start is projected: the first step changes velocities by it over its size.
ROUND_OFF: Final = 1e-13
# Factor of the steps of differences in a second evaluation, which must confirm a violation.
SHORTENED: Final = 0.125
# Largest order of derivatives by differences that are accurate enough to refuse a start.
MOST_DIFFERENTIATED: Final = 2
# Largest number of unknowns for which functions are differentiated for the check.
MOST_UNKNOWNS: Final = 1000
# Values of unknowns and derivatives by name, and what has to be said of them.
Values = tuple[Mapping[str, float], str]


@dataclass(frozen=True, eq=False)
class Start:
    """Where a run starts."""

    # t0, t_end: the interval of the run.
    t0: float
    t_end: float
    u: MeshDAE
    du: Vector  # NaN where it is not known.
    remark: str = ""  # What the user has to be told.
    # Sides of the switches that are in force; None for those of the state.
    sides: tuple[int, ...] | None = None

    @classmethod
    def at(cls, problem: ProblemDAE, u0: Any, interval: tuple[float, float], remark: str = "") -> Start:
        """The start at ``u0``, or at that of the problem; raises InputError on a wrong shape."""
        t0 = interval[0]
        u = problem.state(problem.u_exact(t0) if u0 is None else u0)
        bad = np.flatnonzero(~np.isfinite(u.view(np.ndarray)))
        if bad.size:
            raise InputError(
                f"u0 of {problem.name} is {u[bad[0]]} in '{problem.names[bad[0]]}' at t={t0:.6g}; "
                f"pass finite values, or None for one that is not known"
            )
        return cls(*interval, u, derivative_at_start(problem, u.view(np.ndarray), t0, u0 is None), remark)


def start_of(equations: Equations, request: SolveOptions) -> Start:
    """Where a run starts: as it is given, completed or made consistent, or where its equations say."""
    request = _with_names(equations, request)
    problem, u0 = equations.problem, request.u0
    if equations.is_trusted:
        values = None
    elif not equations.of_model:
        if isinstance(u0, Mapping) and set(problem.names) <= set(u0):  # which leaves nothing to guess
            u0, request = equations.near, request.changed(guesses=None) if _keeps_named(request) else request
        values = _of_functions(equations, request, u0)
    else:
        if equations.labels:
            if u0 is not None and not isinstance(u0, Mapping):
                assert equations.near is not None  # or the state was refused when the equations were read
                u0 = dict(zip(equations.labels.values(), equations.near.tolist(), strict=True))
            parts = (u0, request.fixed, request.guesses, request.bounds)
            u0, fixed, guesses, bounds = map(equations.named_in_model, parts)
            request = request.changed(u0=u0, fixed=fixed, guesses=guesses, bounds=bounds)
        values = _of_model(equations, request)
    remark = ""
    if values is not None:
        state = _state_of(problem, values[0])
        if equations.given is None:  # how far values are moved bounds what is left of them
            problem.run_scales.moves[:] = _moves(problem, state, u0)
        u0, remark = state, values[1]
    if equations.model is not None:
        remark = "; ".join(filter(None, (left_out(equations.whole), remark)))
    start = Start.at(problem, u0, interval_of(problem, request.t0, request.t_end), remark)
    if values is not None and np.isnan(start.du).any():  # those that were computed with the state
        rates = (name_of(base, order + 1) for base, order in map(name_and_order, problem.names))
        computed = [values[0].get(rate, np.nan) for rate in rates]
        start.du[:] = np.where(np.isnan(start.du), computed, start.du)
    bounds = request.bounds  # within which a start must lie, too, that is given as it is
    if equations.of_model:
        with in_force(equations.parameters):
            limits = bounds_of_model(equations.model if bounds is None else equations.whole, bounds)
    else:
        limits = bounds_of(bounds, equations.written.names, "unknown of the function")
    pairs = zip(problem.names, start.u.tolist(), strict=True)
    require_within(f"the start at t={start.t0:.6g}", pairs, limits)
    return start


def _with_names(equations: Equations, request: SolveOptions) -> SolveOptions:
    """What is given of the start, with names in place of patterns, and guesses of what there is alone."""
    by_name = request.u0 if isinstance(request.u0, Mapping) else None
    if by_name is None and request.fixed is None and request.guesses is None and request.bounds is None:
        return request
    named: Any = equations.whole if equations.of_model else equations.written
    title = f"model {named.name}" if equations.of_model else type(named).__name__
    names = [equations.labels.get(name, name) for name in named.names]
    given = {
        "fixed": conditions_in(request.fixed, equations.whole, equations.labels),
        "guesses": of_names(request.guesses, [*names, *equations.problem.names], title),
        "bounds": request.bounds,
    }
    given |= {} if by_name is None else {"u0": by_name}
    kind = f"unknown of {title}"
    return request.changed(**{what: expanded(values, names, kind) for what, values in given.items()})


def guesses_of(given: Any) -> Any:
    """Guesses by name: as they are given, or the values at the end of a result or of the file of one."""
    if given is None or isinstance(given, Mapping):
        return given
    if isinstance(given, str | Path):
        return OfResult(_start_in(given)[0])
    if isinstance(given, Solution):
        return OfResult((name, float(given.values(name)[-1])) for name in given.all_names)
    if hasattr(given, "names") and hasattr(given, "u"):
        return OfResult(zip(given.names, given.u.tolist(), strict=True))
    wanted = "a mapping of names to values, a Solution, Initial, Steady or a file"
    raise InputError(f"guesses must be {wanted}; got {shown(given)}")


def _state_of(problem: ProblemDAE, values: Mapping[str, float]) -> Vector:
    """The state of a problem with values by name; raises InputError where one is missing."""
    if missing := brief([name for name in problem.names if name not in values], 5):
        raise InputError(f"u0 must have a value for every entry of the state; missing are {missing}")
    return np.array([require_number(name, values[name]) for name in problem.names])


def _moves(problem: ProblemDAE, u: Vector, before: Any) -> Vector:
    """How far the values of a start are from those before it, 0 where none were given."""
    if isinstance(before, Mapping):
        known = np.array([float(before.get(name, np.nan)) for name in problem.names])
    else:
        known = np.asarray(np.nan if np.shape(before) != u.shape else before, dtype=np.float64)
    return np.asarray(np.nan_to_num(np.abs(u - known)))


def with_given_start(request: SolveOptions) -> SolveOptions:
    """The options of a run with a start that was found before by its names, and nothing given twice."""
    consistent = sys.modules.get("dae_sdc.initial.consistent")  # if it was never imported, it made nothing
    values: Any = request.u0
    time = None
    with suppress(AttributeError, TypeError, ValueError, ArgumentTypeError):  # where it is no text of numbers
        values = [number(part) for part in values.split(",")]
    if consistent is not None and isinstance(values, consistent.Initial):
        values, time = dict(zip(values.names, values.u.tolist(), strict=True)), values.t
    elif isinstance(values, str | Path):
        values, time = _start_in(values)
    if time is not None and request.t0 not in (None, time):
        raise InputError(f"u0 is a start at t={time:.6g}, but t0 is {request.t0:.6g}; leave t0 out")
    if values is not request.u0:
        request = request.changed(u0=values, t0=request.t0 if time is None else time)
    if request.start not in (None, *STARTS):
        raise InputError(unknown("start", str(request.start), STARTS))
    if request.start == "given" and request.is_made_consistent:
        raise InputError("fixed and guesses belong to start='consistent'; leave them or start='given' out")
    if isinstance(request.fixed, Iterable) and not isinstance(request.fixed, Mapping | str):
        request = request.changed(fixed=tuple(request.fixed))
    numbers = request.fixed if isinstance(request.fixed, Mapping) else {}
    for other in ("guesses", "u0") if numbers else ():
        values = getattr(request, other)
        twice = sorted(set(numbers) & set(values)) if isinstance(values, Mapping) else []
        if twice:
            raise InputError(f"{twice[0]} is in fixed and in {other}; give it once")
    return request if request.guesses is None else request.changed(guesses=guesses_of(request.guesses))


def _start_in(text: str | Path) -> tuple[dict[str, float], float | None]:
    """The start that a text tells: its values by name, and its time where that is known."""
    if "=" in str(text) and not Path(text).exists():
        return pairs("u0", [str(text)], numbers=True), None
    result = load(text)
    names: Any = result.parameters.get("names")
    if result.kind == "start":
        names, values = result.data["name"].tolist(), result.data["value"]
        time = result.parameters.get("t")
    elif result.kind == "solution" and len(result.data):
        values, time = result.data["u"][-1], float(result.data["t"][-1])
    else:
        raise InputError(f"{text} holds a {result.kind}; give a file that initial or solve wrote for u0")
    if not isinstance(names, list) or len(names) != len(values) or not isinstance(time, int | float):
        raise ResultFileError(f"{text} lacks what a start tells; write it again")
    return dict(zip(names, values.tolist(), strict=True)), float(time)


def _keeps_named(request: SolveOptions) -> bool:
    """Whether values of u0 by name are kept to the last bit, so that guesses are for the others alone."""
    return isinstance(request.u0, Mapping) and request.fixed is None and request.start != "consistent"


@one_at_a_time
def _of_model(equations: Equations, request: SolveOptions) -> Values | None:
    """Where a model starts; None for a state that is refused."""
    model, simplified, t0 = equations.model, equations.simplified, request.t0
    assert model is not None
    with in_force(equations.parameters):
        first = float(model.interval[0])
        if request.u0 is None and not request.is_made_consistent:
            if simplified is None and not equations.from_tool and t0 not in (None, first):
                return None
            guesses_only = equations.from_tool or bool(request.reduce or equations.remark)
            look = partial(_sought, equations, request, guesses_only)
            return calculated(model, (t0, guesses_only, repr(request.bounds)), look)
        states = model.form().names
        if (given := _values_of(equations, request, states)) is None:
            return None
        sought = partial(_sought, equations, request, True)
        if request.is_made_consistent and _keeps_named(request):
            return sought(fixed=given, guesses=request.guesses, kept=given)
        if request.is_made_consistent:
            return sought(fixed=request.fixed, guesses={**given, **(request.guesses or {})})
        kept = {} if simplified is None else simplified.kept_values(given, first if t0 is None else t0)
        whole = {**given, **kept}
        if any(name in states and name not in whole for name in equations.problem.names):
            return sought(fixed=given, kept=whole)
        what = (t0, request.reduce, repr((whole, request.bounds)))
        return calculated(model, what, partial(_checked_start, equations, whole, request))


def _values_of(
    equations: Equations, request: SolveOptions, states: tuple[str, ...]
) -> dict[str, float] | None:
    """The values that are given, by name; None for a state that is refused."""
    u0 = request.u0
    if u0 is None:
        return {}
    if isinstance(u0, Mapping):
        return {str(name): require_number(str(name), value) for name, value in u0.items()}
    try:
        values = np.asarray(u0, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    # Who did not ask for a reduction gives the state of the model.
    names = states if request.reduce is None and values.shape == (len(states),) else equations.problem.names
    if values.shape != (len(names),) or not np.isfinite(values).all():
        return None
    return dict(zip(names, values.tolist(), strict=True))


def _sought(
    equations: Equations,
    request: SolveOptions,
    guesses_only: bool,
    fixed: Any = None,
    guesses: Mapping[str, float] | None = None,
    kept: Collection[str] = (),
) -> Values:
    """The start of a model for which no state is given: that of :func:`dae_sdc.run.initial.initial`."""
    # Where all differential states have start values that satisfy the equations as they are written, they are
    # meant: if they contradict hidden constraints, they are refused. Otherwise start values are guesses.
    # Where a start is completed, the others than the names that are ``kept`` are told.
    from dae_sdc.initial.search import initial_of_model
    from dae_sdc.initial.solver import SEARCH

    model, simplified, t0 = equations.model, equations.simplified, request.t0
    assert model is not None
    form, bounds = model.form(), request.bounds
    variables = model.unknowns()
    starts = [float(variables[j].start.get(k, np.nan)) for j, k in form.states]
    given = {name: value for name, value in zip(form.names, starts, strict=True) if not np.isnan(value)}
    whole = model if simplified is None else simplified.original
    if simplified is None and not guesses_only and given.keys() >= set(form.names[: form.n_diff]):
        looked = None
        with suppress(InputError):  # told below, where it matters
            weak = form.names[form.n_diff :]
            looked = initial_of_model(model, t0=t0, restarts=0, weak=weak, bounds=bounds)
        if looked is not None:
            if looked.violated and all(one.order for one in looked.violated):
                raise refused(f"the start values of model {model.name}", looked)
            if not looked.violated and (looked.unique or len(looked.values) > SEARCH.most_values):
                return _kept(given, looked.values)
    parts: dict[str, Any] = {"fixed": fixed, "guesses": guesses, "bounds": bounds}
    search = partial(initial_of_model, whole, t0=t0, kept_is_enough=True, **parts)
    try:
        many = bool(kept) and len(form.names) > MOST_SOUGHT
        start = nearest(search, complete=many or set(form.names) <= set(guesses or ()))
    except InputError as error:
        if guesses_only or simplified is not None or len(given) < len(form.names) or model.redundant:
            raise
        return given, f"whether the start satisfies hidden constraints was not found out: {error}"
    remark = told(start, whole.form().names, kept)
    if simplified is None:
        return start.values, remark
    of_whole = _of_unknowns(whole, start.values)
    values = {**simplified.kept_values(of_whole, start.t), **_of_unknowns(model, of_whole)}
    own = _of_unknowns(model, bounds or {})
    moved = initial_of_model(model, t0=t0, guesses=values, restarts=0, bounds=own)
    strayed = [
        one
        for one in moved.changed
        if abs(one.after - one.before) > SAME_VALUE * (abs(one.before) + abs(one.after))
    ]
    if strayed:
        remark = "; ".join(filter(None, [remark, "simplified equations have " + listed_changes(strayed)]))
    return moved.values, remark


def _of_unknowns(model: Model, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in values.items() if name_and_order(name)[0] in model.variables_by_name}


@under_way("the start was checked")
def _checked_start(equations: Equations, given: Mapping[str, float], request: SolveOptions) -> Values:
    """A state that the user gives: refused if it contradicts hidden constraints."""
    # Algebraic unknowns that are bound by hidden constraints alone get the values that follow, with a remark.
    from dae_sdc.initial.search import initial_of_model

    problem, model = equations.problem, equations.model
    assert model is not None
    form = model.form()
    own = _of_unknowns(model, given)
    try:
        weak = form.names[form.n_diff :]
        looked = initial_of_model(
            model, t0=request.t0, guesses=own, restarts=0, weak=weak, bounds=request.bounds
        )
    except InputError as error:
        if model.redundant:
            raise
        if not given.keys() >= set(problem.names):  # nothing tells those that the reduction has added
            raise NotReducibleError(str(error)) from error
        return given, f"whether u0 satisfies hidden constraints was not found out: {error}"
    if looked.violated and all(one.order for one in looked.violated):
        raise refused(f"u0 of model {model.name}", looked)
    if looked.violated:
        return given, ""  # equations as they are written, which the run refuses
    values, remark = _kept(own, looked.values)
    if remark:
        try:
            check_consistent(problem, problem.state(_state_of(problem, {**values, **given})), looked.t)
        except InputError:
            return given, ""
    return {**given, **values}, remark


def _kept(given: Mapping[str, float], values: Mapping[str, float]) -> Values:
    """Given values where they are right, and what follows for the others."""
    from dae_sdc.initial.consistent import Change

    pairs = ((name, value, values[name]) for name, value in given.items() if name in values)
    changes = [Change(*pair) for pair in pairs if not abs(pair[2] - pair[1]) <= MOVED * (abs(pair[1]) or 1.0)]
    every = {**values, **given, **{one.name: one.after for one in changes}}
    return every, f"start values made consistent: {listed_changes(changes)}" if changes else ""


def nearest(find: Callable[..., Initial], complete: bool) -> Initial:
    """The nearest start; if ``complete``, random starts are left for where there is none without them."""
    if complete:
        with suppress(InconsistentStateError):
            return find(restarts=0)
    return find()


@under_way("the start was checked")
def _of_functions(equations: Equations, request: SolveOptions, u0: Any) -> Values | None:
    """Where the problem of a function starts; None for its own start or a state that is refused."""
    problem, near, t0 = equations.written, equations.near, request.t0
    names, named = problem.names, isinstance(u0, Mapping)
    keeps = named and _keeps_named(request)
    if keeps or request.is_made_consistent:
        guesses = {**(u0 if named and not keeps else {}), **(request.guesses or {})}
        own = u0 is None and request.fixed is None and not guesses
        has_start = own and near is not None and bool(np.isfinite(near).all())
        complete = has_start or not (u0 is None or named) or set(names) <= set(guesses)
        fixed = u0 if keeps else request.fixed
        settings: dict[str, Any] = {"u0": None if named else u0, "fixed": fixed, "guesses": guesses}
        find = partial(consistent_values, equations, t0=t0, bounds=request.bounds, **settings)
        found = nearest(find, complete or (keeps and len(names) > MOST_SOUGHT))
        return found.values, told(found, names, kept=u0 if keeps else ())
    model = equations.model
    if model is not None and model.redundant and near is not None and bool(np.isfinite(near).all()):
        whole = consistent_values(equations, u0=near, t0=t0, restarts=0, bounds=request.bounds)
        left = {name for name, _ in model.redundant}
        # What is left out of a closed model is a function of the others, which are looked at below.
        if whole.violated and not (model.held and left.isdisjoint(one.equation for one in whole.violated)):
            raise refused(f"u0 of {problem.name}", whole)
    if near is None or not has_hidden_constraints(problem) or not np.isfinite(near).all():
        return None
    of_rtol = LARGEST if request.rtol is None else OF_RUN * float(request.rtol)
    # The repair of equations that turn may divide by what is small here; differences do not.
    looked_at = replace(equations, model=None) if equations.turns else equations
    check = _StartCheck(looked_at, near, problem.interval[0], min(LARGEST, max(LEAST, of_rtol)))
    looked: InconsistentStateError | Values | None
    try:
        with uncounted(problem):
            (looked,) = equations.at_start(check.tolerance, lambda: (check.look(),))
    except Exception as error:  # the function may not be defined near the start
        why = words_of(error)
        return _by_name(problem, near), f"whether u0 satisfies hidden constraints was not found out ({why})"
    if isinstance(looked, InconsistentStateError):
        raise copy.copy(looked)
    return looked


def consistent_values(
    equations: Equations,
    *,
    u0: Any = None,
    fixed: Any = None,
    guesses: Mapping[str, float] | None = None,
    **search: Any,
) -> Initial:
    """Consistent values in the order of a problem, see :func:`dae_sdc.run.initial.initial`."""
    from dae_sdc.initial.search import HiddenByRoundingError, initial_of_problem

    asked = {"u0": u0, "fixed": fixed, "guesses": guesses, "search": search}
    if equations.model is not None:
        try:
            return of_closed(partial(_values_of_model, equations, **asked), equations.model)
        except HiddenByRoundingError:
            if not equations.model.of_function:
                raise
            equations = replace(equations, original=compiled(equations.written))
    with uncounted(equations.written):
        return initial_of_problem(equations.written, u0=u0, fixed=fixed, guesses=guesses, **search)


def _values_of_model(
    equations: Equations, model: Model, *, u0: Any, fixed: Any, guesses: Any, search: Mapping[str, Any]
) -> Initial:
    """Consistent values of the model of a problem, in the order of the problem."""
    from dae_sdc.initial.search import guesses_of_state, initial_of_model
    from dae_sdc.model.trace import with_starts

    problem, labels, named = equations.written, equations.labels, equations.named_in_model
    t0 = search.get("t0")
    start = guesses_of_state(problem, None, problem.interval[0] if t0 is None else t0)
    if not start[1].all():  # the zeros near which it was read are no start
        model = with_starts(model, lambda j: {}, model.interval)
    kind = f"unknown of {problem.name}"
    fixed = conditions_in(fixed, model, labels)
    fixed, guesses, bounds = (
        expanded(given, problem.names, kind) for given in (fixed, guesses, search.get("bounds"))
    )
    own = {} if u0 is None else dict(zip(model.names, problem.state(u0).tolist(), strict=True))
    own |= named(guesses) or {}
    search = {**search, "weak": named(search.get("weak")), "bounds": named(bounds)}
    nominal = np.broadcast_to(np.asarray(problem.nominal, dtype=np.float64), (problem.n,))
    search["nominal"] = dict(zip(model.names, nominal.tolist(), strict=True))
    found = initial_of_model(model, fixed=named(fixed), guesses=own, **search)
    order = [found.names.index(name) for name in model.names]

    def by_label(values: Mapping[str, float]) -> dict[str, float]:
        return {renamed(name, labels): value for name, value in values.items()}

    return replace(
        found,
        names=problem.names,
        units=problem.units,
        u=found.u[order],
        du=found.du[order],
        values=by_label(found.values),
        changed=tuple(replace(one, name=renamed(one.name, labels)) for one in found.changed),
        solutions=tuple(map(by_label, found.solutions)),
        fixed=tuple(renamed(name, labels) for name in found.fixed),
        free=tuple(renamed(name, labels) for name in found.free),
        guessed=tuple(renamed(name, labels) for name in found.guessed),
    )


@dataclass(frozen=True, eq=False)
class _StartCheck:
    """The look at a complete start of functions for hidden constraints that it contradicts."""

    equations: Equations
    u: Vector
    t: float
    tolerance: float

    @property
    def problem(self) -> ProblemDAE:
        """The problem as it is written."""
        return self.equations.written

    @cached_property
    def system(self) -> JetSystem:
        """The equations and their derivatives."""
        from dae_sdc.initial.differentiated import ProblemJets
        from dae_sdc.initial.jets import jets_of
        from dae_sdc.initial.neighbourhood import Neighbourhood

        problem: Any = self.problem
        if self.equations.model is None:
            problem.start_step(attach(self.u.copy(), problem.n_diff), self.t)
            return ProblemJets(problem, self.t, self.u, forward=True)
        system = copy.copy(jets_of(self.equations.model, self.t))
        system.near = partial(Neighbourhood, problem, self.t, self.u)
        return system

    @cached_property
    def algebraic(self) -> Any:
        """Mask, shape (n,), of the unknowns whose derivatives are in no equation."""
        system: Any = self.system
        if self.equations.model is None:
            return system.algebraic
        form = self.equations.model.form()
        return np.isin(self.equations.model.names, form.names[form.n_diff :])

    @one_at_a_time
    def look(self) -> InconsistentStateError | Values | None:
        """The start with what follows for algebraic unknowns that only hidden constraints determine."""
        # An error is returned, to distinguish it from errors of functions.
        from dae_sdc.initial.contradictions import follow

        problem, u, by_model = self.problem, self.u, self.equations.model is not None
        if getattr(problem, "check_start", None) is not None:
            violated = _is_refused(problem.check_start, u, self.t)
            return self.contradiction(problem.names[problem.n_diff :], {}) if violated else None
        if not by_model and (problem.n > MOST_UNKNOWNS or max(self.system.row_orders) > MOST_DIFFERENTIATED):
            return None
        system: Any = self.system
        jets = np.array(system.jets)
        plain = (jets[:, 1] == 0) & (jets[:, 0] < problem.n)
        x, sizes = np.zeros(len(jets)), np.ones(len(jets))
        x[plain] = u[jets[plain, 0]]
        own = jets[:, 0] < problem.n
        sizes[own] = (np.asarray(problem.nominal, dtype=np.float64) + np.abs(u))[jets[own, 0]]
        if follow(system, x, plain, sizes, ROUND_OFF).stage is None:  # most starts are as good as they can be
            return None
        if follow(system, x, plain, sizes, self.tolerance).stage is None:
            return self.projected(u, x, plain, sizes)
        bound = plain.copy()
        bound[plain] = ~self.algebraic[jets[plain, 0]]
        found = follow(system, x, bound, sizes, self.tolerance)
        if found.stage is None:
            if self.violates_as_written():
                return None  # for which the run raises its own error
            followed = plain & ~bound
            if not self.is_confirmed(found, x, bound, sizes, self.tolerance, followed):
                return None
            moved = u.copy()
            moved[jets[followed, 0]] = found.x[followed]
            x[plain] = moved[jets[plain, 0]]
            return self.projected(moved, x, plain, sizes) or self.moved(u, moved)
        if not found.certain or not self.is_confirmed(found, x, bound, sizes, self.tolerance):
            return None
        weak = [problem.names[j] for j in jets[plain & ~bound, 0].tolist()]
        return self.contradiction(weak, {"system": system})

    def violates_as_written(self) -> bool:
        """Whether the start contradicts an equation as it is written."""
        return _is_refused(lambda u, t: check_consistent(self.problem, u, t), self.u, self.t)

    def is_confirmed(
        self, found: Followed, x: Vector, known: Any, sizes: Vector, tolerance: float, followed: Any = None
    ) -> bool:
        """Whether differences with shorter steps confirm a result of :func:`follow`."""
        # With ``followed``, a mask of values, their changes are compared, else the residuals.
        from dae_sdc.initial.contradictions import alike, follow

        if (shorter := getattr(self.system, "with_steps", None)) is None:
            return True
        other = follow(shorter(SHORTENED), x, known, sizes, tolerance)
        if followed is None:
            return other.stage == found.stage and other.certain and alike(found.left, other.left)
        change, again = (one.x[followed] - x[followed] for one in (found, other))
        return other.stage is None and alike(change, again)

    def projected(self, u: Vector, x: Vector, known: Any, sizes: Vector) -> Values | None:
        """The start nearest to an accepted one at which constraints hold to round-off; None if they do."""
        # What differences alone show is a violation if those with shorter steps show the same.
        from dae_sdc.initial.contradictions import follow

        left = follow(self.system, x, known, sizes, ROUND_OFF)
        if left.stage is None or not self.is_confirmed(left, x, known, sizes, ROUND_OFF):
            return None
        # Multipliers follow from the others, which they do not pull to what is known of them.
        weak = [name for name, follows in zip(self.problem.names, self.algebraic, strict=True) if follows]
        search: dict[str, Any] = {"t0": self.t, "restarts": 0, "system": self.system, "weak": weak}
        try:
            looked = consistent_values(self.equations, u0=u.copy(), **search)
        except DAEError as error:
            return _by_name(self.problem, u), f"u0 was not projected on hidden constraints: {error}"
        return self.moved(u, looked.u)

    def moved(self, u: Vector, moved: Vector) -> Values | None:
        """A start that was moved, with what is told of it; None if no value changes but by round-off."""
        values = _by_name(self.problem, moved)
        told = _kept(_by_name(self.problem, u), values)[1]
        return (values, told) if told else None

    def contradiction(
        self, weak: Sequence[str], system: Mapping[str, Any]
    ) -> InconsistentStateError | Values | None:
        """The error for a start that contradicts hidden constraints; None if the run raises its own error."""
        search: dict[str, Any] = {"t0": self.t, "restarts": 0, "weak": weak, **system}
        try:
            looked = consistent_values(self.equations, u0=self.u, **search)
        except DAEError as error:
            why = f"whether u0 satisfies hidden constraints was not found out: {error}"
            return _by_name(self.problem, self.u), why
        orders = [one.order for one in looked.violated]
        if system and (not any(orders) or (not all(orders) and self.violates_as_written())):
            return None
        return refused(f"u0 of {self.problem.name}", looked) if orders else None


def _by_name(problem: ProblemDAE, u: Vector) -> dict[str, float]:
    return dict(zip(problem.names, u.tolist(), strict=True))


def _is_refused(check: Callable[[Any, float], None], u: Vector, t: float) -> bool:
    """Whether a check raises InconsistentStateError; other errors are raised when the run begins."""
    try:
        check(u, t)
    except DAEError as error:
        return isinstance(error, InconsistentStateError)
    return False


def refused(what: str, looked: Initial) -> InconsistentStateError:
    """The error for a state that contradicts hidden constraints: which, by how much, and what is nearest."""
    worst = sorted(looked.violated, key=lambda one: -abs(one.residual) / one.scale)
    named = brief([f"'{one.equation}' ({one.residual:.3g})" for one in worst], MOST_CHANGES)
    near = f": {listed_changes(looked.changed)}" if looked.changed else ""
    return InconsistentStateError(
        f"{what} violate{'' if what.startswith('the ') else 's'} hidden constraints at t={looked.t:.6g}: "
        f"{named}; start='consistent' takes the nearest consistent values{near}"
    )


def listed_changes(changes: Sequence[Change]) -> str:
    """What was changed from and to, the first ones if there are many; nothing that looks alike."""
    sizes = {one.name: abs(one.after - one.before) / (abs(one.before) or 1.0) for one in changes}
    large = [one for one in changes if sizes[one.name] > SAME_VALUE]
    changes = large or sorted(changes, key=lambda one: -sizes[one.name])
    said = []
    for one in changes:
        before, after = f"{one.before:.6g}", f"{one.after:.6g}"
        change = f"from {before} to {after}" if before != after else f"by {one.after - one.before:.2g}"
        said.append(f"{one.name} {change}")
    return brief(said, MOST_CHANGES)


def told(start: Initial, names: Sequence[str], kept: Collection[str] = ()) -> str:
    """What to say of a start that was found."""
    from dae_sdc.initial.consistent import NOT_SOUGHT

    added = [name for name in names if kept and name not in kept and name in start.values]
    values = brief([f"{name} = {start.values[name]:.6g}" for name in added], MOST_CHANGES)
    parts = [f"u0 completed with {values}"] if added else []
    if start.changed and not kept:
        parts.append(f"start values made consistent: {listed_changes(start.changed)}")
    parts += [*start.ways, *([NOT_SOUGHT] if kept and NOT_SOUGHT in start.remarks else ())]
    if start.guessed:
        parts.append(f"nothing was given for what is free at the start: {brief(start.guessed, MOST_CHANGES)}")
    if len(start.solutions) > 1:
        first, others = start.solutions[0], start.solutions[1:]
        apart = [
            name
            for name in names
            if name in first
            and any(abs(one[name] - first[name]) > SAME_VALUE * (1.0 + abs(first[name])) for one in others)
        ]
        if apart:
            shown = ", ".join(f"{name} = {first[name]:.6g}" for name in apart[:MOST_CHANGES])
            parts.append(
                f"started at {shown}, the nearest of {len(start.solutions)} starts that were found; "
                "ds.initial lists them, guesses or u0 choose another"
            )
    return "; ".join(parts)
