"""Where the run of a model starts: at what ds.initial finds, or at a state that is given."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dae_sdc.dae.consistency import check_consistent
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InconsistentStateError, InputError, require_number
from dae_sdc.expressions.names import name_and_order

if TYPE_CHECKING:
    from dae_sdc.initial.consistent import Initial
    from dae_sdc.model.model import Model
    from dae_sdc.model.simplified import Simplified

MOST_CHANGES = 6
"""Start values that a message names."""

SAME_VALUE = 1e-6
"""Difference of a value at two starts, relative to its size, that is told."""

MOVED = 1e-8
"""Difference of a value from the given one, relative to its size or 1 for 0, with which that one is kept."""


@dataclass(frozen=True)
class Start:
    """Where a run starts.

    Parameters
    ----------
    values : mapping of str to float
        Values of unknowns and derivatives by name.
    remark : str
        What the user has to be told.
    """

    values: Mapping[str, float]
    remark: str = ""


def found_start(model: Model, simplified: Simplified | None, t0: float | None, guesses_only: bool) -> Start:
    """The start of a model for which no state is given: that of :func:`dae_sdc.run.initial.initial`.

    Where all differential states have start values that satisfy the equations as they are written, they are
    meant: if they contradict hidden constraints, they are refused. Otherwise start values are guesses.

    Parameters
    ----------
    model : Model
        What is solved, before a reduction of its index.
    simplified : Simplified or None
        What ``model`` is the simplified form of: then the start is that of the model before.
    t0 : float or None
        Time; the start of the interval if None.
    guesses_only : bool
        Whether start values are guesses even if there is one of every state.

    Raises
    ------
    InconsistentStateError
        If there is no consistent start, or the start values of the model contradict hidden constraints.
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
                raise _refused(f"the start values of model {model.name}", looked, "correct the start values")
            if not hidden and (looked.unique or len(looked.values) > SEARCH.most_values):
                return _kept(given, looked)
    try:
        start = initial_of_model(whole, t0=t0, system=system, kept_is_enough=True)
    except InputError as error:
        if guesses_only or simplified is not None or len(given) < len(form.names):
            raise
        return Start(given, f"whether the start satisfies hidden constraints was not found out: {error}")
    if simplified is None:
        return Start(start.values, _told(start, form.names))
    time = start.t
    own = {name: value for name, value in start.values.items() if name_and_order(name)[0] in model.names}
    own = {**simplified.kept_values(start.values, time), **own}
    moved = initial_of_model(model, t0=t0, guesses=own, restarts=0)
    remark = _told(start, whole.form().names)
    strayed = [
        one
        for one in moved.changed
        if abs(one.after - one.before) > SAME_VALUE * (abs(one.before) + abs(one.after))
    ]
    if strayed:
        remark = "; ".join(filter(None, [remark, "simplified equations have " + _listed(strayed)]))
    return Start(moved.values, remark)


def checked_start(model: Model, problem: ProblemDAE, given: Mapping[str, float], t0: float | None) -> Start:
    """A state that the user gives: refused if it contradicts hidden constraints.

    Algebraic unknowns that are bound by hidden constraints alone get the values that follow, with a remark.

    Parameters
    ----------
    model : Model
        The equations.
    problem : ProblemDAE
        What is solved.
    given : mapping of str to float
        Values of its state by name.
    t0 : float or None
        Time; the start of the interval if None.

    Raises
    ------
    InconsistentStateError
        If the state contradicts hidden constraints.
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
        raise _refused(f"u0 of model {model.name}", looked, "give one that satisfies them")
    if looked.violated:
        return Start(given)  # equations as they are written, which the run refuses
    found = _kept(own, looked)
    if found.remark:
        try:
            check_consistent(problem, problem.state(state_of(problem, {**found.values, **given})), looked.t)
        except InputError:
            return Start(given)
    return Start({**given, **found.values}, found.remark)


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
    return Start({**looked.values, **given, **wrong}, f"start values made consistent: {_listed(changes)}")


def _refused(what: str, looked: Initial, advice: str) -> InconsistentStateError:
    """The error for a state that contradicts hidden constraints."""
    worst = sorted(looked.violated, key=lambda one: -abs(one.residual) / one.scale)
    named = ", ".join(f"'{one.equation}' ({one.residual:.3g})" for one in worst[:MOST_CHANGES])
    more = f" and {len(worst) - MOST_CHANGES} more" if len(worst) > MOST_CHANGES else ""
    near = f", for instance {_listed(looked.changed)}" if looked.changed else ""
    return InconsistentStateError(
        f"{what} violate hidden constraints at t={looked.t:.6g}: {named}{more}; {advice}, or start at "
        f"ds.initial(model).u{near}"
    )


def _listed(changes: Any) -> str:
    said = [f"{one.name} from {one.before:.6g} to {one.after:.6g}" for one in changes]
    more = f" and {len(said) - MOST_CHANGES} more" if len(said) > MOST_CHANGES else ""
    return ", ".join(said[:MOST_CHANGES]) + more


def _told(start: Initial, names: tuple[str, ...]) -> str:
    """What to say of a start that was found."""
    parts = [f"start values made consistent: {_listed(start.changed)}"] if start.changed else []
    if start.guessed:
        parts.append(f"nothing was given for what is free at the start: {', '.join(start.guessed)}")
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


def state_of(problem: ProblemDAE, values: Mapping[str, float]) -> Vector:
    """The state of a problem with values by name; raises InputError where one is missing."""
    missing = [name for name in problem.names if name not in values]
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise InputError(f"u0 must have a value for every entry of the state; missing are {shown}")
    return np.array([require_number(name, values[name]) for name in problem.names])
