"""Where the run of a model starts: at what ds.initial finds, or at a state that is given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dae_sdc.dae.consistency import check_consistent
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.deadline import under_way
from dae_sdc.errors import InconsistentStateError, InputError, ResultFileError, require_number
from dae_sdc.expressions.dag import name_and_order
from dae_sdc.options import names_in, pairs
from dae_sdc.registry import unknown
from dae_sdc.run.results import load
from dae_sdc.text import brief

if TYPE_CHECKING:
    from dae_sdc.initial.consistent import Change, Initial
    from dae_sdc.model.model import Model
    from dae_sdc.model.simplified import Simplified

STARTS = ("given", "consistent")
"""What a run starts at."""

MOST_CHANGES = 6
"""Start values that a message names."""

SAME_VALUE = 1e-6
"""Difference of a value at two starts, relative to its size, that is told."""

MOVED = 1e-12
"""Difference of a value from the given one, relative to its size or 1 for 0, with which that one is kept."""


@dataclass(frozen=True)
class Start:
    """Where a run starts."""

    values: Mapping[str, float]  # Values of unknowns and derivatives by name.
    remark: str = ""  # What the user has to be told.


@dataclass(frozen=True)
class Known:
    """What is given of a start that is looked for, besides the start values of the equations."""

    fixed: Mapping[str, float] | Iterable[str] | None = None  # Values that must not be changed.
    guesses: Mapping[str, float] | None = None  # Guesses.
    kept: Collection[str] = ()  # Names of given values, where a start is completed: the others are told.


def found_start(
    model: Model,
    simplified: Simplified | None,
    t0: float | None,
    guesses_only: bool,
    known: Known | None = None,
) -> Start:
    """The start of a model for which no state is given: that of :func:`dae_sdc.run.initial.initial`.

    Where all differential states have start values that satisfy the equations as they are written, they are
    meant: if they contradict hidden constraints, they are refused. Otherwise start values are guesses.
    """
    from dae_sdc.initial.search import initial_of_model, jets_of
    from dae_sdc.initial.solver import SEARCH

    form = model.form()
    given = dict(zip(form.names, _start_values(model, form), strict=True))
    complete = not any(np.isnan(given[name]) for name in form.names[: form.n_diff])
    given = {name: value for name, value in given.items() if not np.isnan(value)}
    whole = model if simplified is None else simplified.original
    system = None
    with suppress(InputError):  # told below, where it matters
        system = jets_of(whole, t0)
    if complete and not guesses_only and simplified is None:
        try:
            looked = initial_of_model(model, t0=t0, restarts=0, weak=form.names[form.n_diff :], system=system)
        except InputError:
            looked = None
        if looked is not None:
            hidden = looked.violated
            if hidden and all(one.order for one in hidden):
                raise refused(f"the start values of model {model.name}", looked)
            if not hidden and (looked.unique or len(looked.values) > SEARCH.most_values):
                return _kept(given, looked)
    own = known or Known()
    settings: dict[str, Any] = {
        "fixed": own.fixed,
        "guesses": own.guesses,
        "system": system,
        "kept_is_enough": True,
    }
    try:
        start = nearest(
            lambda **more: initial_of_model(whole, t0=t0, **settings, **more),
            complete=set(form.names) <= set(own.guesses or ()),
        )
    except InputError as error:
        if guesses_only or simplified is not None or len(given) < len(form.names):
            raise
        return Start(given, f"whether the start satisfies hidden constraints was not found out: {error}")
    if simplified is None:
        return Start(start.values, told(start, form.names, own.kept))
    time = start.t
    values = {name: value for name, value in start.values.items() if name_and_order(name)[0] in model.names}
    values = {**simplified.kept_values(start.values, time), **values}
    moved = initial_of_model(model, t0=t0, guesses=values, restarts=0)
    remark = told(start, whole.form().names, own.kept)
    strayed = [
        one
        for one in moved.changed
        if abs(one.after - one.before) > SAME_VALUE * (abs(one.before) + abs(one.after))
    ]
    if strayed:
        remark = "; ".join(filter(None, [remark, "simplified equations have " + listed_changes(strayed)]))
    return Start(moved.values, remark)


@under_way("the start was checked")
def checked_start(model: Model, problem: ProblemDAE, given: Mapping[str, float], t0: float | None) -> Start:
    """A state that the user gives: refused if it contradicts hidden constraints.

    Algebraic unknowns that are bound by hidden constraints alone get the values that follow, with a remark.
    """
    from dae_sdc.initial.search import initial_of_model

    form = model.form()
    own = {name: value for name, value in given.items() if name_and_order(name)[0] in model.names}
    try:
        weak = form.names[form.n_diff :]
        looked = initial_of_model(model, t0=t0, guesses=own, restarts=0, weak=weak)
    except InputError as error:
        return Start(given, f"whether u0 satisfies hidden constraints was not found out: {error}")
    hidden = [one for one in looked.violated if one.order]
    if hidden and len(hidden) == len(looked.violated):
        raise refused(f"u0 of model {model.name}", looked)
    if looked.violated:
        return Start(given)  # equations as they are written, which the run refuses
    found = _kept(own, looked)
    if found.remark:
        try:
            check_consistent(problem, problem.state(state_of(problem, {**found.values, **given})), looked.t)
        except InputError:
            return Start(given)
    return Start({**given, **found.values}, found.remark)


def unknowns_of_function(function: Any, u0: Any, fixed: Any, guesses: Mapping[str, float] | None) -> Any:
    """What tells the unknowns of a function F(t, u, du): u0, or the names of the guesses, in their order."""
    if u0 is not None:
        return u0
    if fixed:
        name = getattr(function, "__name__", "F")
        raise InputError(
            f"fixed values do not say where they stand in u; give all unknowns of {name} as guesses, or name "
            f"them by ds.FunctionProblem({name}, n, names=...)"
        )
    return None if guesses is None else tuple(map(str, guesses))


def nearest(find: Callable[..., Initial], complete: bool) -> Initial:
    """The nearest start; where all values are given, random starts are left for where there is none."""
    if complete:
        with suppress(InconsistentStateError):
            return find(restarts=0)
    return find()


def _start_values(model: Model, form: Any) -> list[float]:
    """Start values of the states, NaN where there is none."""
    variables = [model.variables_by_name[name] for name in model.names]
    return [float(variables[j].start.get(k, np.nan)) for j, k in form.states]


def _kept(given: Mapping[str, float], looked: Initial) -> Start:
    """Given values where they are right, and what follows for the others."""
    wrong = {
        name: looked.values[name]
        for name, value in given.items()
        if name in looked.values and not abs(looked.values[name] - value) <= MOVED * (abs(value) or 1.0)
    }
    if not wrong:
        return Start({**looked.values, **given})
    from dae_sdc.initial.consistent import Change

    changes = [Change(name, given[name], value) for name, value in wrong.items()]
    return Start(
        {**looked.values, **given, **wrong}, f"start values made consistent: {listed_changes(changes)}"
    )


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
    said = [
        f"{one.name} from {one.before:.6g} to {one.after:.6g}"
        if f"{one.before:.6g}" != f"{one.after:.6g}"
        else f"{one.name} by {one.after - one.before:.2g}"
        for one in changes
    ]
    return brief(said, MOST_CHANGES)


def _valued(names: Sequence[str], values: Mapping[str, float]) -> str:
    """Values by name, the first ones if there are many."""
    return brief([f"{name} = {values[name]:.6g}" for name in names], MOST_CHANGES)


def told(start: Initial, names: Sequence[str], kept: Collection[str] = ()) -> str:
    """What to say of a start that was found."""
    added = [name for name in names if kept and name not in kept and name in start.values]
    parts = [f"u0 completed with {_valued(added, start.values)}"] if added else []
    if start.changed and not kept:
        parts.append(f"start values made consistent: {listed_changes(start.changed)}")
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


def is_made_consistent(options: Any) -> bool:
    """Whether a run starts at the nearest consistent values, of which those that are given are guesses."""
    return options.start == "consistent" or options.fixed is not None or options.guesses is not None


def keeps_named(options: Any) -> bool:
    """Whether values of u0 by name are kept to the last bit, so that guesses are for the others alone."""
    return isinstance(options.u0, Mapping) and options.fixed is None and options.start != "consistent"


def with_given_start(options: Any) -> Any:
    """The options of a run with a start that was found before by its names, and nothing given twice."""
    found = sys.modules.get("dae_sdc.initial.consistent")  # if it was never imported, it made nothing
    values, time = options.u0, None
    if found is not None and isinstance(values, found.Initial):
        start: Initial = values
        values, time = dict(zip(start.names, start.u.tolist(), strict=True)), start.t
    elif isinstance(values, str | Path):
        values, time = start_in(values)
    if time is not None:
        if options.t0 not in (None, time):
            raise InputError(f"u0 is a start at t={time:.6g}, but t0 is {options.t0:.6g}; leave t0 out")
        options = replace(options, u0=values, t0=time)
    elif values is not options.u0:
        options = replace(options, u0=values)
    if options.start not in (None, *STARTS):
        raise InputError(unknown("start", str(options.start), STARTS))
    if options.start == "given" and is_made_consistent(options):
        raise InputError("fixed and guesses belong to start='consistent'; leave them or start='given' out")
    if isinstance(options.fixed, Iterable) and not isinstance(options.fixed, Mapping | str):
        options = replace(options, fixed=tuple(options.fixed))
    numbers = options.fixed if isinstance(options.fixed, Mapping) else {}
    for other in ("guesses", "u0"):
        values = getattr(options, other)
        twice = sorted(set(numbers) & set(values)) if isinstance(values, Mapping) else []
        if twice:
            raise InputError(f"{twice[0]} is in fixed and in {other}; give it once")
    return options


def start_in(text: str | Path) -> tuple[dict[str, float], float | None]:
    """The start that a text tells: its values by name, and its time where that is known."""
    if "=" in str(text) and not Path(text).exists():
        return pairs("u0", names_in(str(text)), numbers=True), None
    result = load(text)
    if result.kind == "start":
        names, values = result.data["name"].tolist(), result.data["value"]
        time = result.parameters.get("t")
    elif result.kind == "solution" and len(result.data):
        names, values, time = (
            result.parameters.get("names"),
            result.data["u"][-1],
            float(result.data["t"][-1]),
        )
    else:
        raise InputError(f"{text} holds a {result.kind}; give a file that initial or solve wrote for u0")
    if not isinstance(names, list) or len(names) != len(values) or not isinstance(time, int | float):
        raise ResultFileError(f"{text} lacks what a start tells; write it again")
    return dict(zip(names, values.tolist(), strict=True)), float(time)


def state_of(problem: ProblemDAE, values: Mapping[str, float]) -> Vector:
    """The state of a problem with values by name; raises InputError where one is missing."""
    missing = [name for name in problem.names if name not in values]
    if missing:
        raise InputError(
            f"u0 must have a value for every entry of the state; missing are {brief(missing, 5)}"
        )
    return np.array([require_number(name, values[name]) for name in problem.names])


def moved_to(problem: ProblemDAE, values: Mapping[str, float], before: Any) -> Vector:
    """The state of a problem at a start, which notes how far the values before it were from that."""
    u = state_of(problem, values)
    if isinstance(before, Mapping):
        known = np.array([float(before.get(name, np.nan)) for name in problem.names])
    else:
        known = np.asarray(np.nan if np.shape(before) != u.shape else before, dtype=np.float64)
    problem.run_scales.moves[:] = np.nan_to_num(np.abs(u - known))
    return u
