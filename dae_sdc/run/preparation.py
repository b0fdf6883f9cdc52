"""From a model to a problem and its start: simplified, reduced, with consistent values."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import DAEError, InputError, require_number
from dae_sdc.registry import unknown
from dae_sdc.run.description import SolveOptions, interval_of
from dae_sdc.run.method import DEFAULT_RTOL
from dae_sdc.run.problem_starts import Equations, has_hidden_constraints, near_start, start_of
from dae_sdc.run.starting import (
    Known,
    Start,
    checked_start,
    found_start,
    is_made_consistent,
    keeps_named,
    moved_to,
    unknowns_of_function,
    with_given_start,
)
from dae_sdc.run.sundials import SOLVERS
from dae_sdc.run.target import FUNCTIONS, Target, calculated, instance_of, resolve
from dae_sdc.run.tracing import (
    HIGHEST_INDEX,
    NOT_REDUCED,
    Reading,
    is_function,
    is_of_user,
    read,
    reduced_by_arrays,
    with_index,
)
from dae_sdc.run.unknowns import Unknowns
from dae_sdc.sharing import one_at_a_time

if TYPE_CHECKING:
    from dae_sdc.initial.derivative_arrays import ArrayProblem
    from dae_sdc.model.model import Model
    from dae_sdc.model.problem import Form
    from dae_sdc.model.simplified import Simplified

_SOLVES = ("newton_tol", "linear_solver")
"""Settings of the nonlinear solves that are options of a run."""

_SETTINGS = (*_SOLVES, "newton_maxiter", "index", "dense")
"""Settings of the problem of a model that may stand among its parameters."""


@dataclass(frozen=True)
class Prepared:
    """What is solved."""

    # The options of the run, with the problem that is solved, its start and the settings that are left.
    options: SolveOptions
    unknowns: Unknowns | None = None  # The unknowns of the model that was given, where it was simplified.
    remark: str = ""  # What was changed at the start.
    # Whether the equations were read from a function, see :class:`dae_sdc.run.tracing.Reading`.
    equations: str = ""
    otherwise: ArrayProblem | None = None  # What is solved if that fails numerically.

    def digest(self) -> str:
        """A text by which ranks see whether they solve the same."""
        problem, u0 = self.options.problem, self.options.u0
        known = problem if isinstance(problem, ProblemDAE) else None
        form: Form | None = getattr(known, "form", None)
        programs = () if form is None else (form.residual.digest(), form.jumps and form.jumps.names)
        start = u0.tobytes() if isinstance(u0, np.ndarray) else repr(u0)
        return repr((self.equations, self.remark, getattr(known, "index", None), programs, start))


def prepare(options: SolveOptions) -> Prepared:
    """The problem of a model, and where it starts."""
    for name in ("simplify", "reduce"):
        value = getattr(options, name)
        if value not in (True, False, None):
            raise InputError(f"{name} must be True or False; got {value!r}")
    target = resolve(options.problem, as_model=bool(options.simplify or options.reduce))
    options = with_given_start(options)
    # A function that is given as an object is one of equations; it is refused where it takes other arguments.
    function = target.function if target.text else target.thing
    if isinstance(function, FUNCTIONS):
        target = Target(_of_plain_function(function, options), "", target.as_model)
    if target.simplified is not None or (target.is_model and (target.as_model or target.of_equations)):
        return _of_equations(options, target)
    if not target.as_model:
        return _of_function(options, target)
    if target.problem is not None and (options.trace is False or not is_function(target.problem)):
        asked = "simplify" if options.simplify else "reduce"
        name = target.text or getattr(target.thing, "__name__", type(target.thing).__name__)
        raise InputError(f"{asked} belongs to models, which are given by their equations; {name} is none")
    return _of_equations(options, target)


def _by_place(u0: Any, problem: ProblemDAE) -> Any:
    """A start in the order of the unknowns, where all of them are named; derivatives may be beside them."""
    if not isinstance(u0, Mapping):
        return u0
    names = problem.names
    for name in u0:
        if name not in names and not str(name).startswith("der("):
            raise InputError(unknown("name in u0", str(name), names))
    return [require_number(name, u0[name]) for name in names] if set(names) <= set(u0) else u0


def _of_plain_function(function: Any, options: SolveOptions) -> ProblemDAE:
    """The problem F(t, u, u') = 0 of a function; the start says how many unknowns there are."""
    from dae_sdc.model.functions import problem_of_function

    start = unknowns_of_function(function, options.u0, options.fixed, options.guesses)
    if start is None or isinstance(start, str):
        raise InputError(
            "a function F(t, u, du) needs u0, the values of all unknowns at the start, or guesses of all of "
            "them by name, in their order"
        )
    return problem_of_function(function, start)


def _of_function(options: SolveOptions, target: Target) -> Prepared:
    """A problem of functions, whose equations are read where that can be done."""
    found, stated = target.problem, cast(Any, target)
    options = replace(options, problem=stated)
    if found is None:
        return Prepared(options)
    settled = options.trace is None and not is_function(found) and found.index is not None
    by_names = isinstance(options.u0, Mapping) or is_made_consistent(options)
    # The library's own starts are consistent.
    home = (found if isinstance(found, type) else type(found)).__module__
    of_library = options.u0 is None and home.startswith("dae_sdc.problems.")
    checked = is_of_user(found) and isinstance(found.index, int) and found.index > 1
    if settled and not by_names and not checked and (of_library or not has_hidden_constraints(found)):
        return Prepared(options)
    own = {name: getattr(options, name) for name in _SOLVES if getattr(options, name) is not None}
    given = {**(options.params or {}), **own}
    problem = instance_of(found, given)
    # What is found of the equations is that of this run, whatever its unit of time.
    problem.interval = interval_of(problem, options.t0, options.t_end)
    options = replace(options, u0=_by_place(options.u0, problem))
    near = near_start(problem, options)
    reading = Reading(problem) if settled else read(problem, near, options.trace)
    searched = problem.index is None or (not reading.proved and is_of_user(found))
    as_it_was = not searched and reading.model is None
    if searched:
        reading = with_index(reading, near, options.t0)
    rtol = DEFAULT_RTOL if options.rtol is None else require_number("rtol", options.rtol)
    rtol_or_fixed = rtol if options.dt is None else None
    end = None if options.t_end is None else require_number("t_end", options.t_end)
    # Where linear equations turn, all pivots of a separation may pass 0; a repair adds many unknowns.
    by_structure = reading.proved and not (reading.turns or reading.repaired)
    arrays_first = not by_structure or problem.index == HIGHEST_INDEX
    # IDA takes steps of order 1 where derivatives of F along t are differences.
    by_arrays = options.reduce is None and options.sweeper not in SOLVERS
    if by_arrays and arrays_first:
        reading = reduced_by_arrays(reading, near, (options.t0, end), rtol_or_fixed)
    if reading.model is not None and reading.needs_reduction and options.reduce is None:
        settings = {name: value for name, value in given.items() if name in _SETTINGS}
        of_model = replace(_by_model(options, problem, reading.model), simplify=None, params=settings)
        try:
            prepared = _of_equations(of_model, Target(reading.model), problem.index)
            return replace(prepared, equations=reading.equations)
        except _NotReducedError as error:
            reading = reading.without_way(f"by its structure: {error}")
        if by_arrays and not arrays_first:
            reading = reduced_by_arrays(reading, near, (options.t0, end), rtol_or_fixed)
    start = start_of(Equations(problem, reading.model), options, reading.systems, reading.turns)
    if not as_it_was or reading.remark:
        options = replace(options, problem=reading.problem, params=None, newton_tol=None, linear_solver=None)
    if start is None:
        return Prepared(options, None, reading.remark, reading.told, reading.otherwise)
    options = replace(options, u0=moved_to(reading.problem, start.values, options.u0))
    remark = "; ".join(part for part in (reading.remark, start.remark) if part)
    return Prepared(options, None, remark, reading.told, reading.otherwise)


def _by_model(options: SolveOptions, problem: ProblemDAE, model: Model) -> SolveOptions:
    """The options of a run of the equations that were read from a problem, with their names."""
    equations = Equations(problem, model)
    u0: Any = options.u0
    if u0 is not None and not isinstance(u0, Mapping):
        u0 = dict(zip(problem.names, problem.state(u0).tolist(), strict=True))
    fixed, guesses = (equations.named_in_model(one) for one in (options.fixed, options.guesses))
    own: Any = model
    return replace(options, problem=own, u0=equations.named_in_model(u0), fixed=fixed, guesses=guesses)


@one_at_a_time
def _of_equations(options: SolveOptions, target: Target, index: int | None = None) -> Prepared:
    """The problem and start values of a model, or of one that is simplified already.

    An ``index`` is that of equations that must be reduced; raises _NotReducedError where they cannot be.
    """
    simplify, from_tool, ready = options.simplify, target.from_tool, target.simplified
    given = dict(options.params or {})
    own = {name: given.pop(name) for name in _SETTINGS if name in given}
    own |= {name: getattr(options, name) for name in _SOLVES if getattr(options, name) is not None}
    left = replace(options, params=None, newton_tol=None, linear_solver=None)
    run = _Wanted(left, own, from_tool, index)
    if ready is not None:
        if simplify is False:
            raise InputError("this model is simplified already; solve its .original, or leave simplify out")
        with _having(ready.model, given), _having(ready.original, _numbers_of(ready)):
            return run.of(ready.model, ready)
    model = target.shared_model
    if simplify or (simplify is None and from_tool):
        from dae_sdc.run.simplify import simplify as simplified

        with _having(model, {}):
            found = simplified(target.text or target.thing, params=given)
            if not found.model.names:  # all of them are constants, and something must be left to solve
                return run.of(found.original, None)
            return run.of(found.model, found)
    parameters = getattr(model, "parameters_by_name", None)
    if parameters is not None and given.keys() <= parameters.keys():
        with _having(model, given):
            return run.of(model, None)
    with _having(model, {}):
        return run.of(target.make_model(given), None)


def _numbers_of(found: Simplified) -> dict[str, float]:
    """Values of the parameters of a model that belong to its simplified form as it is."""
    present = {name: parameter.value for name, parameter in found.model.parameters_by_name.items()}
    return {name: value for name, value in {**found.numbers, **present}.items() if value is not None}


@contextmanager
def _having(model: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Give parameters of a model values for a while; those that it is given meanwhile are taken back too."""
    parameters = getattr(model, "parameters_by_name", {})
    before = {name: parameter.value for name, parameter in parameters.items()}
    try:
        for name, value in values.items():
            if name not in parameters:
                raise InputError(unknown(f"parameter of model {model.name}", name, parameters))
            parameters[name].value = require_number(name, value)
        yield
    finally:
        for name, value in before.items():
            parameters[name].value = value


class _NotReducedError(InputError):
    """The index of equations that must be reduced cannot be."""


@dataclass(frozen=True)
class _Wanted:
    """What is wanted of a model: options of the run, and settings of its problem."""

    options: SolveOptions
    own: Mapping[str, Any]
    from_tool: bool
    index: int | None = None

    def of(self, model: Model, found: Simplified | None) -> Prepared:
        """The problem of a model with its present parameters; found is what it is the simplified form of."""
        problem, reduced = self._problem(model)
        start = self._start(model, problem, found, self.from_tool or bool(self.options.reduce or reduced))
        unknowns = None
        if found is not None:
            parameters = {**found.original.parameters_by_name, **model.parameters_by_name}
            values = {name: p.value for name, p in parameters.items() if p.value is not None}
            unknowns = Unknowns(found, values)
        solved = replace(self.options, problem=problem)
        if start is None:
            return Prepared(solved, unknowns, reduced)
        remark = "; ".join(part for part in (reduced, start.remark) if part)
        u0 = moved_to(problem, start.values, self.options.u0)
        return Prepared(replace(solved, u0=u0), unknowns, remark)

    def _start(
        self, model: Model, problem: ProblemDAE, found: Simplified | None, guesses_only: bool
    ) -> Start | None:
        """Where the run starts; None for a state that is refused when the run begins."""
        options = self.options
        first = float(model.interval[0])
        time = first if options.t0 is None else options.t0
        wanted = is_made_consistent(options)
        if options.u0 is None and not wanted:
            if found is None and not self.from_tool and time != first:
                return None
            look = functools.partial(found_start, model, found, options.t0, guesses_only)
            return look() if found is not None else calculated(model, (options.t0, guesses_only), look)
        states = model.form().names
        given = self._values(states, problem)
        if given is None:
            return None
        if wanted and keeps_named(options):
            return found_start(model, found, options.t0, True, Known(given, options.guesses, kept=given))
        if wanted:
            known = Known(options.fixed, {**given, **(options.guesses or {})})
            return found_start(model, found, options.t0, True, known)
        whole = given if found is None else {**given, **found.kept_values(given, time)}
        if any(name in states and name not in whole for name in problem.names):
            return found_start(model, found, options.t0, True, Known(given, kept=whole))
        return checked_start(model, problem, whole, options.t0)

    def _values(self, states: tuple[str, ...], problem: ProblemDAE) -> dict[str, float] | None:
        """The values that are given, by name; None for a state that is refused when the run begins."""
        u0 = self.options.u0
        if u0 is None:
            return {}
        if isinstance(u0, Mapping):
            return {str(name): require_number(str(name), value) for name, value in u0.items()}
        try:
            values = np.asarray(u0, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return None
        # Who did not ask for a reduction gives the state of the model.
        names = states if self.options.reduce is None and values.shape == (len(states),) else problem.names
        if values.shape != (len(names),) or not np.isfinite(values).all():
            return None
        return dict(zip(names, values.tolist(), strict=True))

    def _problem(self, model: Model) -> tuple[ProblemDAE, str]:
        """The problem, and what is to be said if it was reduced without having been asked for."""
        if self.options.reduce:
            from dae_sdc.reduction.reduction import reduce_index

            return reduce_index(model).problem(**self.own), ""
        index = self.index
        if index is None:
            problem = Target(model).make_problem(self.own)
            if self.options.reduce is False or (problem.index is not None and problem.index <= HIGHEST_INDEX):
                return problem, ""
            index = problem.index
        from dae_sdc.reduction.reduction import reduce_index

        try:
            reduction = calculated(model, "reduction", functools.partial(reduce_index, model))
        except DAEError as error:
            if self.index is not None:
                raise _NotReducedError(str(error)) from error
            return problem, f"{NOT_REDUCED} (by its structure: {error})"
        if index is None:
            if reduction.differentiations < HIGHEST_INDEX:
                return problem, ""
            index = reduction.differentiations + 1
        said = (
            f"index {index} reduced to {reduction.index} first; reduce=False solves the equations as they are"
        )
        return reduction.problem(**self.own), said
