"""Start of a run of a problem given by functions: as given, completed, or made consistent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dae_sdc.arguments import shown
from dae_sdc.dae.consistency import check_consistent
from dae_sdc.dae.counters import uncounted
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.deadline import under_way
from dae_sdc.errors import DAEError, InconsistentStateError, require_number
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.run.starting import (
    MOVED,
    Start,
    is_made_consistent,
    keeps_named,
    listed_changes,
    nearest,
    refused,
    told,
)
from dae_sdc.sharing import one_at_a_time

if TYPE_CHECKING:
    from dae_sdc.initial.consistent import Initial
    from dae_sdc.initial.contradictions import Followed
    from dae_sdc.initial.jets import JetSystem
    from dae_sdc.model.model import Model
    from dae_sdc.run.description import SolveOptions


@dataclass(frozen=True)
class CheckOptions:
    """Settings of the check of a start for hidden constraints."""

    # Largest violation that is accepted, in units of the relative tolerance of the run, since the end of
    # one run may be the start of the next.
    of_run: float = 100.0
    # least, largest: bounds of this violation, relative to the terms of the constraint; ``largest`` holds
    # for fixed step sizes.
    least: float = 1e-7
    largest: float = 1e-4
    # Factor of the steps of differences in a second evaluation, which must confirm a violation.
    shortened: float = 0.125
    # Largest order of derivatives by differences that are accurate enough to refuse a start.
    most_differentiated: int = 2
    # Largest number of unknowns for which functions are differentiated for the check.
    most_unknowns: int = 1000
    # Violation, relative to the terms of the constraint, from which on an accepted start is projected: what
    # the first step takes up of it changes velocities by its size over that of the step.
    round_off: float = 1e-13


CHECK = CheckOptions()


@dataclass(frozen=True)
class Equations:
    """A problem, and the model that its function was traced to, if any."""

    problem: ProblemDAE  # The problem.
    model: Model | None = None  # The traced equations, with the unknowns in the order of the problem.

    def initial(
        self,
        *,
        u0: Any = None,
        fixed: Any = None,
        guesses: Mapping[str, float] | None = None,
        **search: Any,
    ) -> Initial:
        """Consistent values by the names and in the order of the problem.

        Parameters
        ----------
        u0 : array_like, shape (n,), optional
            Guesses of all unknowns.
        fixed, guesses : mapping or iterable of str, optional
            As in :func:`dae_sdc.run.initial.initial`.
        **search
            Other arguments of :func:`dae_sdc.initial.search.initial_of_problem`.
        """
        from dae_sdc.initial.search import initial_of_model, initial_of_problem
        from dae_sdc.model.trace import without_starts

        problem, model = self.problem, self.model
        if model is None:
            with uncounted(problem):
                return initial_of_problem(problem, u0=u0, fixed=fixed, guesses=guesses, **search)
        if not _has_start(problem, search.get("t0")):  # the zeros near which it was read are no start
            model = without_starts(model)
        back = dict(zip(model.names, problem.names, strict=True))
        own = {} if u0 is None else dict(zip(model.names, problem.state(u0).tolist(), strict=True))
        own |= self.named_in_model(guesses) or {}
        search["weak"] = self.named_in_model(search.get("weak"))
        nominal = np.broadcast_to(np.asarray(problem.nominal, dtype=np.float64), (problem.n,))
        search["nominal"] = dict(zip(model.names, nominal.tolist(), strict=True))
        found = initial_of_model(model, fixed=self.named_in_model(fixed), guesses=own, **search)
        values = {self._renamed(name, back): value for name, value in found.values.items()}
        place = {name: number for number, name in enumerate(found.names)}
        order = [place[name] for name in model.names]
        return replace(
            found,
            names=problem.names,
            units=problem.units,
            u=found.u[order],
            du=found.du[order],
            values=values,
            fixed=tuple(self._renamed(name, back) for name in found.fixed),
            changed=tuple(replace(one, name=self._renamed(one.name, back)) for one in found.changed),
            free=tuple(self._renamed(name, back) for name in found.free),
            guessed=tuple(self._renamed(name, back) for name in found.guessed),
            solutions=tuple(
                {self._renamed(name, back): value for name, value in one.items()} for one in found.solutions
            ),
        )

    def named_in_model(self, given: Any) -> Any:
        """A mapping by names, or a list of names, with each replaced by the name in the model."""
        if self.model is None or given is None or isinstance(given, str):
            return given
        names = dict(zip(self.problem.names, self.model.names, strict=True))
        if isinstance(given, Mapping):
            return {self._renamed(str(name), names): value for name, value in given.items()}
        return [self._renamed(str(name), names) for name in given]

    def _renamed(self, name: str, names: Mapping[str, str]) -> str:
        """Name in the model of an unknown or derivative of the problem."""
        base, order = (name, 0) if name in names else name_and_order(name)
        return name_of(names.get(base, base), order)

    def system(self, t: float, u: Vector, known: dict[Any, Any]) -> JetSystem:
        """The equations and their derivatives at a time, near a state; those of the model are cached."""
        from dae_sdc.initial.differentiated import ProblemJets
        from dae_sdc.initial.jets import ModelJets

        if self.model is None:
            self.problem.start_step(attach(u.copy(), self.problem.n_diff), t)
            return ProblemJets(self.problem, t, u, forward=True)
        parameters = tuple(entry.value for entry in self.model.parameters_by_name.values())
        if (t, parameters) not in known:
            known.clear()
            known[t, parameters] = ModelJets(self.model, t)
        found: JetSystem = known[t, parameters]
        return found

    def algebraic(self, system: Any) -> Any:
        """Mask, shape (n,), of the unknowns whose derivatives are in no equation."""
        if self.model is None:
            return system.algebraic
        form = self.model.form()
        return np.isin(self.model.names, form.names[form.n_diff :])


def has_hidden_constraints(problem: ProblemDAE | type[ProblemDAE]) -> bool:
    """Whether equations may have hidden constraints."""
    if getattr(problem, "check_start", None) is not None:
        return True
    if isinstance(problem, type) and problem.index is None:
        return True
    return problem.index is not None and problem.index > 1


def checked_values(
    equations: Equations, u: Vector, t: float, rtol: float | None, systems: dict[Any, Any]
) -> Start | None:
    """Check of a complete given start for hidden constraints.

    Algebraic unknowns that only hidden constraints determine get the values that follow, with a remark.
    """
    # Shapes: u (n,).
    problem = equations.problem
    if not has_hidden_constraints(problem) or not np.isfinite(u).all():
        return None
    tolerance = CHECK.largest if rtol is None else CHECK.of_run * float(rtol)
    tolerance = min(CHECK.largest, max(CHECK.least, tolerance))
    try:
        with uncounted(problem):
            found = _looked_at(equations, u, t, tolerance, systems)
    except Exception as error:  # the function may not be defined near the start
        why = f"{type(error).__name__}: {shown(str(error))}"
        return Start(
            _by_name(problem, u), f"whether u0 satisfies hidden constraints was not found out ({why})"
        )
    if isinstance(found, InconsistentStateError):
        raise found
    return found


@one_at_a_time
def _looked_at(
    equations: Equations, u: Vector, t: float, tolerance: float, systems: dict[Any, Any]
) -> InconsistentStateError | Start | None:
    """As :func:`checked_values`, but the error is returned, to distinguish it from errors of functions."""
    from dae_sdc.initial.contradictions import follow

    problem = equations.problem
    if getattr(problem, "check_start", None) is not None:
        violated = _is_refused(problem.check_start, u, t)
        return _contradiction(equations, u, t, problem.names[problem.n_diff :]) if violated else None
    if equations.model is None and problem.n > CHECK.most_unknowns:
        return None
    system = equations.system(t, u, systems)
    if equations.model is None and max(system.row_orders) > CHECK.most_differentiated:
        return None
    jets = np.array(system.jets)
    plain = (jets[:, 1] == 0) & (jets[:, 0] < problem.n)
    x, sizes = np.zeros(len(jets)), np.ones(len(jets))
    x[plain] = u[jets[plain, 0]]
    own = jets[:, 0] < problem.n
    sizes[own] = (np.asarray(problem.nominal, dtype=np.float64) + np.abs(u))[jets[own, 0]]
    if follow(system, x, plain, sizes, tolerance).stage is None:
        return _projected(equations, u, t, system, x, plain, sizes)
    bound = plain.copy()
    bound[plain] = ~equations.algebraic(system)[jets[plain, 0]]
    found = follow(system, x, bound, sizes, tolerance)
    if found.stage is None:
        if _is_refused(lambda state, time: check_consistent(problem, state, time), u, t):
            return None  # an original equation is violated, for which the run raises its own error
        followed = plain & ~bound
        if not _is_confirmed(system, found, x, bound, sizes, tolerance, followed):
            return None
        moved = u.copy()
        moved[jets[followed, 0]] = found.x[followed]
        x[plain] = moved[jets[plain, 0]]
        return _projected(equations, moved, t, system, x, plain, sizes) or _moved(problem, u, moved)
    if not found.certain or not _is_confirmed(system, found, x, bound, sizes, tolerance):
        return None
    weak = [problem.names[j] for j in jets[plain & ~bound, 0].tolist()]
    return _contradiction(equations, u, t, weak, system)


def _is_refused(check: Callable[[Any, float], None], u: Vector, t: float) -> bool:
    """Whether a check raises InconsistentStateError; other errors are raised when the run begins."""
    try:
        check(u, t)
    except InconsistentStateError:
        return True
    except DAEError:
        return False
    return False


def _is_confirmed(
    system: Any,
    found: Followed,
    x: Vector,
    known: Any,
    sizes: Vector,
    tolerance: float,
    followed: Any = None,
) -> bool:
    """Whether differences with shorter steps confirm a result of :func:`follow`.

    With ``followed``, a mask of values, their changes are compared, else the residuals.
    """
    from dae_sdc.initial.contradictions import alike, follow

    shorter = getattr(system, "with_steps", None)
    if shorter is None:
        return True
    other = follow(shorter(CHECK.shortened), x, known, sizes, tolerance)
    if followed is None:
        return other.stage == found.stage and other.certain and alike(found.left, other.left)
    change, again = (one.x[followed] - x[followed] for one in (found, other))
    return other.stage is None and alike(change, again)


def _projected(
    equations: Equations, u: Vector, t: float, system: Any, x: Vector, known: Any, sizes: Vector
) -> Start | None:
    """The start nearest to an accepted one at which constraints hold to round-off; None if they do.

    What differences alone show is a violation if those with shorter steps show the same.
    """
    from dae_sdc.initial.contradictions import follow

    left = follow(system, x, known, sizes, CHECK.round_off)
    if left.stage is None or not _is_confirmed(system, left, x, known, sizes, CHECK.round_off):
        return None
    # Multipliers follow from the others, which they do not pull to what is known of them.
    problem, algebraic = equations.problem, equations.algebraic(system)
    weak = [name for name, follows in zip(problem.names, algebraic, strict=True) if follows]
    try:
        looked = equations.initial(u0=u.copy(), t0=t, restarts=0, system=system, weak=weak)
    except DAEError as error:
        return Start(_by_name(problem, u), f"u0 was not projected on hidden constraints: {error}")
    return _moved(problem, u, looked.u)


def _by_name(problem: ProblemDAE, u: Vector) -> dict[str, float]:
    return dict(zip(problem.names, u.tolist(), strict=True))


def _moved(problem: ProblemDAE, u: Vector, moved: Vector) -> Start | None:
    """A start that was moved, with what is told of it; None if no value changes but by round-off."""
    from dae_sdc.initial.consistent import Change

    changes = [
        Change(name, before, after)
        for name, before, after in zip(problem.names, u.tolist(), moved.tolist(), strict=True)
        if not abs(after - before) <= MOVED * (abs(before) or 1.0)
    ]
    if not changes:
        return None
    return Start(_by_name(problem, moved), f"start values made consistent: {listed_changes(changes)}")


def _contradiction(
    equations: Equations, u: Vector, t: float, weak: Sequence[str], system: JetSystem | None = None
) -> InconsistentStateError | Start | None:
    """The error for a start that contradicts hidden constraints; None if the run raises its own error."""
    problem = equations.problem
    search: dict[str, Any] = {
        "t0": t,
        "restarts": 0,
        "weak": weak,
        **({} if system is None else {"system": system}),
    }
    try:
        looked = equations.initial(u0=u, **search)
    except DAEError as error:
        return Start(
            _by_name(problem, u), f"whether u0 satisfies hidden constraints was not found out: {error}"
        )
    if system is not None:
        if not any(one.order for one in looked.violated):
            return None
        written = any(not one.order for one in looked.violated)
        if written and _is_refused(lambda state, time: check_consistent(problem, state, time), u, t):
            return None
    return refused(f"u0 of {type(problem).__name__}", looked) if looked.violated else None


# --- requested starts ---------------------------------------------------------------------------------------


@under_way("the start was checked")
def start_of(equations: Equations, options: SolveOptions, systems: dict[Any, Any]) -> Start | None:
    """The start of the run of a problem."""
    problem, u0 = equations.problem, options.u0
    search: dict[str, Any] = {"t0": options.t0}
    if keeps_named(options):
        found = equations.initial(fixed=u0, guesses=options.guesses, **search)
        return Start(found.values, told(found, problem.names, kept=u0))
    if is_made_consistent(options):
        guesses = {**(u0 if isinstance(u0, Mapping) else {}), **(options.guesses or {})}
        search |= {"fixed": options.fixed, "guesses": guesses}
        search["u0"] = None if isinstance(u0, Mapping) else u0
        own = u0 is None and options.fixed is None and not guesses and _has_start(problem, options.t0)
        complete = own or search["u0"] is not None or set(problem.names) <= set(guesses)
        found = nearest(partial(equations.initial, **search), complete)
        return Start(found.values, told(found, problem.names))
    t = float(problem.interval[0]) if options.t0 is None else require_number("t0", options.t0)
    try:
        u = np.array(problem.state(problem.u_exact(t) if u0 is None else u0))
    except Exception:  # raised again when the run begins
        return None
    return checked_values(equations, u, t, options.rtol, systems)


def _has_start(problem: ProblemDAE, t0: float | None) -> bool:
    """Whether a problem has a start of its own."""
    try:
        return bool(
            np.isfinite(problem.state(problem.u_exact(problem.interval[0] if t0 is None else t0))).all()
        )
    except DAEError:
        return False


def near_start(problem: ProblemDAE, options: SolveOptions) -> Any:
    """A state near the start if u0 gives some unknowns by name, else u0."""
    if not isinstance(options.u0, Mapping):
        return options.u0
    t = problem.interval[0] if options.t0 is None else options.t0
    try:
        u = np.array(problem.state(problem.u_exact(t)))
    except DAEError:
        u = np.zeros(problem.n)
    place = {name: number for number, name in enumerate(problem.names)}
    for name, value in options.u0.items():
        if name in place:
            u[place[name]] = require_number(name, value)
    return u
