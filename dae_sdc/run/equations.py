"""Equations as they are solved: read from functions, with their index, simplified or reduced."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dae_sdc.arguments import shown
from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.deadline import limited, under_way
from dae_sdc.errors import DAEError, InputError, require_number, text_of, words_of
from dae_sdc.expressions.dag import MOVING, name_and_order, name_of
from dae_sdc.initial.given import Condition, by_name, is_pattern
from dae_sdc.initial.redundant import closed_function, square_function, with_redundant
from dae_sdc.registry import require_name, unknown
from dae_sdc.run.description import SolveOptions, interval_of
from dae_sdc.run.method import DEFAULT_RTOL, SOLVERS
from dae_sdc.run.target import Target, calculated, is_model, is_plain_function, resolve
from dae_sdc.run.unknowns import Unknowns
from dae_sdc.sharing import Recent, one_at_a_time
from dae_sdc.structure.dependent import closed, square
from dae_sdc.structure.signature import listed
from dae_sdc.text import brief

if TYPE_CHECKING:
    from dae_sdc.initial.derivative_arrays import ArrayProblem
    from dae_sdc.initial.index import FoundIndex
    from dae_sdc.model.model import Model, Parameter
    from dae_sdc.model.problem import Form
    from dae_sdc.model.simplified import Simplified
    from dae_sdc.model.trace import Traced
    from dae_sdc.structure.signature import Signature

HIGHEST_INDEX: Final = 3  # Index above which equations are reduced first: no method takes more.

# How an index was found, where it was not from equations.
FROM_JACOBIANS: Final = "by its Jacobians near the start"
NOT_REDUCED: Final = "not reduced"

MOST_KNOWN: Final = 64  # Systems of equations whose programs are kept.
# Nodes in the expressions of all functions whose equations are kept, and what each function counts besides.
MOST_NODES, NODES_OF_EACH = 200_000, 3_000
_SOLVES = ("newton_tol", "linear_solver")  # Settings of the nonlinear solves that are options of a run.
# Settings of the problem of a model that may stand among its parameters.
_SETTINGS = (*_SOLVES, "newton_maxiter", "index", "dense")


Valued = tuple[tuple["Parameter", Any], ...]  # Parameters with values.


@dataclass(frozen=True, eq=False)
class Equations:
    """Equations as they are solved; the problem has their index, and that of each unknown."""

    problem: ProblemDAE  # What is solved.
    model: Model | None = None  # The equations as expressions, where they are known.
    # Names in the function, by those in the model that was read from it.
    labels: Mapping[str, str] = field(default_factory=dict)
    original: ProblemDAE | None = None  # What was looked at, where another problem is solved.
    near: Vector | None = None  # A state near the start, where functions were looked at.
    # The problem or class that was given, and its arguments, where it is solved as it is.
    given: ProblemDAE | type[ProblemDAE] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    is_trusted: bool = False  # Whether the start needs no look at hidden constraints.
    # "traced", or "function: " and the reason; empty for a problem whose form is not a function alone.
    origin: str = ""
    # Whether derivatives stand in combinations that change, and cancel in what is hidden: with these no
    # method is known to converge for an index above 1.
    turns: bool = False
    is_proved: bool = False  # Whether the index follows from the structure of the equations.
    is_repaired: bool = False  # Whether their structure shows hidden constraints in combinations alone.
    remark: str = ""  # What is to be said of them.
    # The ways to reduce the index that were tried, and why each was not possible.
    not_reduced: tuple[str, ...] = ()
    # The equations with index 1, for a run that fails as they are: what costs much is not done first.
    otherwise: ArrayProblem | None = None
    of_model: bool = False  # Whether the problem is that of the model, with its start values.
    simplified: Simplified | None = None  # What the model is the simplified form of.
    parameters: Valued = ()  # Of the model, with their values in this run.
    from_tool: bool = False  # Whether the model is one of Modelica, whose start values are guesses.
    unknowns: Unknowns | None = None  # The unknowns of the model that was given, where it was simplified.

    @property
    def written(self) -> ProblemDAE:
        """The equations as they are written."""
        return self.problem if self.original is None else self.original

    @property
    def whole(self) -> Model | None:
        """The model whose start is looked for, before its trivial equations are removed."""
        return self.model if self.simplified is None else self.simplified.original

    @property
    def own_events(self) -> tuple[Any, ...]:
        """Events that belong to the equations."""
        model = self.whole
        return model.events if self.of_model and model is not None else self.written.events

    @property
    def told(self) -> str:
        """What is said of the equations where they came from."""
        left = bool(self.not_reduced) and self.needs_reduction
        tried = f"{NOT_REDUCED} ({'; '.join(self.not_reduced)})" if left else ""
        return "; ".join(filter(None, (self.origin, tried)))

    @property
    def needs_reduction(self) -> bool:
        """Whether no method solves the equations as they are."""
        index = 0 if self.remark else self.problem.index or 0
        return index > HIGHEST_INDEX or (index > 1 and self.turns)

    def without_way(self, why: str) -> Equations:
        """Keep why a way to reduce the index is not possible, if the index must be reduced."""
        return replace(self, not_reduced=(*self.not_reduced, why)) if self.needs_reduction else self

    def at_start(self, what: Hashable, calculate: Callable[[], Any]) -> Any:
        """A result that depends on the equations, as they were read, and the state near the start alone."""
        if self.model is None or self.near is None or hasattr(self.written, "check_start"):
            return calculate()
        sizes = np.asarray(self.written.nominal, dtype=np.float64).tobytes()
        return calculated(self.model, (what, self.written.interval, sizes, self.near.tobytes()), calculate)

    def named_in_model(self, given: Any) -> Any:
        """A mapping by names of a function, or a list of them, with the names in the model."""
        if not self.labels or given is None or isinstance(given, str):
            return given
        names = {label: name for name, label in self.labels.items()}
        if isinstance(given, Mapping):
            return {
                name if isinstance(name, Condition) else renamed(str(name), names): value
                for name, value in given.items()
            }
        return [renamed(str(name), names) for name in given]


def renamed(name: str, names: Mapping[str, str]) -> str:
    """The name of an unknown, or of a derivative of one, by other names of the unknowns."""
    base, order = (name, 0) if name in names else name_and_order(name)
    return name_of(names.get(base, base), order)


def is_function(problem: ProblemDAE | type[ProblemDAE]) -> bool:
    """Whether a problem, or a class, gives ``eval_f`` alone: no kernels, no Jacobian, no parts."""
    forms = ("residual_kernel", "jacobian", "residual_nodes")
    return is_of_user(problem) and all(getattr(problem, form, None) is None for form in forms)


def is_of_user(problem: ProblemDAE | type[ProblemDAE]) -> bool:
    """Whether the ``eval_f`` of a problem, or of a class, is a user's and not the library's."""
    bases = (problem if isinstance(problem, type) else type(problem)).__mro__
    base = next((base for base in bases if "eval_f" in vars(base)), object)
    users = ("dae_sdc.model.functions", "dae_sdc.dae.adapter")
    return not base.__module__.startswith("dae_sdc.") or base.__module__ in users


def has_hidden_constraints(problem: ProblemDAE | type[ProblemDAE]) -> bool:
    """Whether equations may have hidden constraints."""
    if getattr(problem, "check_start", None) is not None:
        return True
    return problem.index > 1 if problem.index is not None else isinstance(problem, type)


def with_unknowns(
    target: Target, u0: Any, fixed: Any = None, guesses: Any = None, mass: Any = None, run: bool = False
) -> Target:
    """The problem of a plain function, whose unknowns u0 or the names of guesses tell; others as they are."""
    from dae_sdc.model.functions import problem_of_function

    # A function that is run as an object is one of equations; it is refused where it takes other arguments.
    function: Any = target.thing if run and not target.text else target.function
    if not is_plain_function(function):
        if mass is not None:
            raise InputError(
                "mass belongs to a function f(t, u); leave it out, or give M u' - f(t, u) itself"
            )
        return target
    if u0 is None and fixed and not set(fixed) <= set(guesses or ()):
        name = getattr(function, "__name__", "F")
        raise InputError(
            f"fixed values do not say where they stand in u; give all unknowns of {name} as guesses, or name "
            f"them by ds.FunctionProblem({name}, n, names=...)"
        )
    start = tuple(map(str, guesses)) if u0 is None and guesses is not None else u0
    patterns = [name for name in start if is_pattern(str(name))] if isinstance(start, Mapping | tuple) else []
    if patterns:
        raise InputError(
            f"{patterns[0]} stands for unknowns by their names, which a function does not have; name them by "
            f"ds.FunctionProblem(F, n, names=...)"
        )
    if run and (start is None or isinstance(start, str)):
        raise InputError(
            "a function F(t, u, du) needs u0, the values of all unknowns at the start, or guesses of all of "
            "them by name, in their order"
        )
    return Target(problem_of_function(function, start, mass), "", target.as_model, is_new=True)


def state_near(problem: ProblemDAE, u0: Any = None, guesses: Any = None) -> Vector | None:
    """The state at the start, of which u0 may give some unknowns by name; None where none is known."""
    by_names, names = isinstance(u0, Mapping), problem.names
    values = by_name(u0, names, "name in u0") if by_names else {}
    for name in values:
        if name not in names and not name.startswith("der("):
            raise InputError(unknown("name in u0", name, names))
    known: dict[str, Any] = {}
    with suppress(InputError):  # of names that are told where the start is looked for
        known = by_name(guesses if by_names and guesses else {}, names, "guess")
    known |= values
    u = np.zeros(problem.n)
    if not by_names or not set(names) <= set(values):
        try:
            u[:] = problem.state(problem.u_exact(problem.interval[0]) if by_names or u0 is None else u0)
        except DAEError:
            if not by_names:  # told when the run starts
                return None
    for place, name in enumerate(names):
        if name in known:
            u[place] = require_number(name, known[name])
    return u


def with_known_values(target: Target, request: SolveOptions) -> tuple[Target, SolveOptions]:
    """The problem of a plain function, and ``u0`` by names without those that are None, which follow."""
    u0 = request.u0
    target = with_unknowns(target, u0, request.fixed, request.guesses, request.mass, run=True)
    if isinstance(u0, list | tuple) and any(value is None for value in u0):
        names = target.make_problem(request.params or {}).names
        if len(names) != len(u0):
            raise InputError(f"u0 has {len(u0)} entries for the {len(names)} unknowns {brief(names, 5)}")
        u0 = dict(zip(names, u0, strict=True))
    if isinstance(u0, Mapping):
        request = request.changed(u0={name: value for name, value in u0.items() if value is not None})
    return target, request


# --- the stage of a run -------------------------------------------------------------------------------------


def equations_of(target: Target, request: SolveOptions) -> Equations:
    """The equations of a run, read, simplified or reduced as its options say and its methods need."""
    for name in ("simplify", "reduce"):
        if (value := getattr(request, name)) not in (True, False, None):
            raise InputError(f"{name} must be True or False; got {value!r}")
    given = target.problem
    is_other = target.simplified is None and not (target.text or is_model(target.thing))
    if not target.as_model and (given is not None or is_other):
        return _of_problem(target, request)
    if given is not None and (request.trace is False or not is_function(given)):
        asked = "simplify" if request.simplify else "reduce"
        name = target.text or getattr(target.thing, "__name__", type(target.thing).__name__)
        raise InputError(f"{asked} belongs to models, which are given by their equations; {name} is none")
    return _of_model(target, request)


def _of_problem(target: Target, request: SolveOptions) -> Equations:
    """A problem of functions, whose equations are read where that can be done."""
    given = target.problem
    arguments = {**(request.params or {}), **_solves(request)}
    problem = target.make_problem(arguments)
    if given is None:
        square_one = problem if request.trace is False else square_function(problem, None)
        return Equations(square_one, is_trusted=True)
    settled = request.trace is None and given.index is not None and not is_function(given)
    takes_parameters = hasattr(problem, "set_parameters")
    by_names = isinstance(request.u0, Mapping) or request.is_made_consistent
    # The library's own starts are consistent.
    home = (given if isinstance(given, type) else type(given)).__module__
    of_library = request.u0 is None and home.startswith("dae_sdc.problems.")
    checked = isinstance(given.index, int) and given.index > 1 and is_of_user(given)
    needs_look = takes_parameters or by_names or checked
    if settled and not needs_look and (of_library or not has_hidden_constraints(given)):
        return Equations(problem, given=given, arguments=arguments, is_trusted=True)
    near = state_near(problem, request.u0, request.guesses)
    problem = problem if request.trace is False else square_function(problem, near)
    if takes_parameters:
        check_function(problem, request.t0, near)
        if request.t_end is None and problem.interval is ProblemDAE.interval:
            times = np.ravel([] if request.t_eval is None else request.t_eval)
            if not times.size:
                raise InputError(f"nothing tells where the run of {problem.model_name} ends; give t_end")
            problem.interval = (min(0.0, request.t0 or 0.0), require_number("the last of t_eval", times[-1]))
    # What is found of the equations is that of this run, whatever its unit of time.
    problem.interval = interval_of(problem, request.t0, request.t_end)
    plain = copy.copy(problem)
    equations = read(problem, request.u0 if near is None else near, False if settled else request.trace)
    if equations.model is not None and not equations.is_proved:
        other = closed_function(plain, equations.model)
        if other is not None:
            problem, equations = other, read(other, near, request.trace)
    if problem.index is None or (not equations.is_proved and is_of_user(given)):
        equations = with_index(equations)
    elif equations.model is None:
        again = target.make_problem(arguments)  # with its interval
        return replace(equations, problem=again, original=problem, given=given, arguments=arguments)
    return _reduced(equations, request, arguments)


def check_function(problem: Any, t0: float | None, near: Vector | None) -> None:
    """Refuse a function that cannot be called at the start."""
    t0 = problem.interval[0] if t0 is None else t0
    try:
        with np.errstate(all="ignore"), uncounted(problem):
            if near is not None:
                problem.evaluate(attach(near.copy(), problem.n_diff), problem.dtype_f(problem.init), t0)
    except DAEError:
        raise
    except Exception as error:
        from dae_sdc.model.functions import FunctionProblem, number_of_unknowns

        name, fits, hint = problem.model_name, problem.n, " (None stands for a value that is not known)"
        with suppress(InputError):
            fits = number_of_unknowns(problem.function, 3 if isinstance(problem, FunctionProblem) else 2)
        if fits != problem.n:
            counts = f"{fits} unknowns, and {problem.n} values of them are given"
            raise InputError(f"{name} has {counts}; give one for each{hint}") from error
        kind, _, text = words_of(error).partition(": ")
        said = f"{name} raised {kind} at the start, t={t0:.6g}, for {fits} values in u0: {text}"
        raise InputError(f"{said}; check both{hint}") from error


def _reduced(equations: Equations, request: SolveOptions, arguments: Mapping[str, Any]) -> Equations:
    """Equations of functions, with their index reduced where no method solves them or errors are let go."""
    rtol = DEFAULT_RTOL if request.rtol is None else require_number("rtol", request.rtol)
    rtol_or_fixed = rtol if request.dt is None else None
    # IDA takes steps of order 1 where derivatives of F along t are differences.
    by_arrays = request.reduce is None and request.sweeper not in SOLVERS
    problem, model = equations.problem, equations.model
    # Where linear equations turn, all pivots of a separation may pass 0; a repair adds many unknowns.
    by_structure = equations.is_proved and not (equations.turns or equations.is_repaired)
    first = not by_structure or problem.index == HIGHEST_INDEX
    if by_arrays and first:
        equations = reduced_by_arrays(equations, rtol_or_fixed)
    if model is None or not equations.needs_reduction or request.reduce is not None:
        return equations
    if request.u0 is not None and equations.near is None:
        problem.state(request.u0)  # raises
    settings = {name: value for name, value in arguments.items() if name in _SETTINGS}
    own = request.changed(simplify=None, params=settings)
    try:
        reduced = _of_model(Target(model), own, problem.index)
        return replace(reduced, origin=equations.origin, labels=equations.labels, near=equations.near)
    except _NotReducedError as error:
        equations = equations.without_way(f"by its structure: {error}")
    return equations if first or not by_arrays else reduced_by_arrays(equations, rtol_or_fixed)


@one_at_a_time
def _of_model(target: Target, request: SolveOptions, index: int | None = None) -> Equations:
    """The equations of a model, or of one that is simplified already, see :func:`closed`."""
    # An ``index`` is that of equations that must be reduced; _NotReducedError is raised where they cannot be.
    refused: InputError | None = None
    try:
        equations = _as_written(target, request, index)
        with in_force(equations.parameters):
            model, is_regular = equations.model, equations.problem.index is not None
            if not _may_be_open(model, is_regular) or closed(model) is model:
                return equations
    except InputError as error:
        refused = error
    if target.simplified is None and not isinstance(refused, _NotReducedError):
        params = dict(request.params or {})
        settings = {name: params.pop(name) for name in _SETTINGS if name in params}
        whole: Any = None
        with suppress(DAEError):
            whole = target.make_model(params)
        other = whole if whole is None else closed(whole)
        if other is not whole:
            simplify = request.simplify or target.from_tool or None
            request = request.changed(params=settings, simplify=simplify)
            return replace(_as_written(Target(other), request, index), from_tool=target.from_tool)
    if refused is not None:
        raise refused
    return equations


def _as_written(target: Target, request: SolveOptions, index: int | None) -> Equations:
    """The equations of a model, as they are or simplified."""
    simplified, params = target.simplified, dict(request.params or {})
    settings = {name: params.pop(name) for name in _SETTINGS if name in params} | _solves(request)
    if simplified is not None:
        if request.simplify is False:
            raise InputError("this model is simplified already; solve its .original, or leave simplify out")
        model = simplified.model
    else:
        model = target.shared_model
    simplifies = request.simplify or (request.simplify is None and target.from_tool)
    known = getattr(model, "parameters_by_name", None)
    as_it_is = known is not None and params.keys() <= known.keys() and not (simplifies and target.text)
    values = _values(model, params if simplified is not None or as_it_is else {})
    if simplified is not None:
        # Parameters of the whole model that belong to its simplified form as it is.
        numbers = {**simplified.numbers, **{parameter.name: value for parameter, value in values}}
        numbers = {name: value for name, value in numbers.items() if value is not None}
        values = (*_values(simplified.original, numbers), *values)
    with in_force(values):
        if simplified is None and simplifies:
            from dae_sdc.run.simplify import simplify

            whole = model if as_it_is else target.model_with(params)
            whole = square(whole) if known is not None and len(model.roots) > len(model.names) else whole
            simplified = calculated(whole, "simplified", functools.partial(simplify, whole))
            model = simplified.model
            if not model.names:  # all of them are constants, and something must be left to solve
                model, simplified = simplified.original, None
        elif simplified is None and not as_it_is:
            is_read = not (target.text or target.problem is None)  # once for all that read alike
            model = _traced(target.make_problem(params), None).model if is_read else target.model_with(params)
        if simplified is None and hasattr(model, "roots"):
            model = square(model)
        problem, remark = _problem_of_model(model, request, settings, index)
        parameters = (*(() if simplified is None else _values(simplified.original, {})), *_values(model, {}))
        merged = {parameter.name: value for parameter, value in parameters}
        numbers = {name: value for name, value in merged.items() if value is not None}
        return Equations(
            problem,
            model,
            remark=remark,
            of_model=True,
            simplified=simplified,
            parameters=parameters,
            from_tool=target.from_tool,
            unknowns=None if simplified is None else Unknowns(simplified, numbers),
        )


def _problem_of_model(
    model: Model, request: SolveOptions, settings: Mapping[str, Any], index: int | None
) -> tuple[ProblemDAE, str]:
    """The problem of a model, and what is to be said if it was reduced without having been asked for."""
    from dae_sdc.reduction.reduction import reduce_index

    reduced = functools.partial(calculated, model, "reduction", functools.partial(reduce_index, model))
    if request.reduce:
        return reduced().problem(**settings), _not_located(model)
    must, first = index is not None, HIGHEST_INDEX
    if index is None:
        problem = Target(model).make_problem(settings)
        jumps = problem.form.jumps is not None  # a run may go through modes of other indices
        if problem.index is None and not (jumps or any(order for _, order in problem.form.states)):
            known = calculated(model, "index", functools.partial(_known_of, model, problem.form))
            # Where equations turn no method solves index 2; weights of a repair are too rough for index 3.
            first = 1 if known.turns else HIGHEST_INDEX - 1
            problem.index, own = known.index, known.variable_index or (max(1, known.index or 0),) * problem.n
            problem.variable_index = tuple(own[j] for j, _ in problem.form.states)
        index = problem.index
        if request.reduce is False or (index is not None and index <= first):
            return problem, ""
    try:
        reduction = reduced()
    except DAEError as error:
        if must:
            raise _NotReducedError(str(error)) from error
        return problem, f"{NOT_REDUCED} (by its structure: {error})"
    if index is None:
        index = reduction.differentiations + 1
        if index <= 1 or (index <= HIGHEST_INDEX and (jumps or closed(model) is not model)):
            return problem, ""
    said = f"index {index} reduced to {reduction.index} first; reduce=False solves the equations as they are"
    return reduction.problem(**settings), "; ".join(filter(None, (said, _not_located(model))))


def _not_located(model: Model) -> str:
    """Which switches of a model a run of its reduced equations does not locate."""
    jumps = model.form().jumps
    names = () if jumps is None else jumps.watched_names
    return f"zeros of {listed(names)} are not located in reduced equations; give dt_max" if names else ""


class _NotReducedError(InputError):
    """The index of equations that must be reduced cannot be."""


def _solves(request: SolveOptions) -> dict[str, Any]:
    """The settings of the nonlinear solves that a run asks for."""
    return {name: getattr(request, name) for name in _SOLVES if getattr(request, name) is not None}


def _values(model: Any, values: Mapping[str, Any]) -> Valued:
    """The parameters of a model with their values, some of which are given by name."""
    parameters = getattr(model, "parameters_by_name", {})
    for name in values:
        require_name(f"parameter of model {model.name}", name, parameters)
    return tuple(
        (entry, require_number(name, values[name]) if name in values else entry.value)
        for name, entry in parameters.items()
    )


@contextmanager
def in_force(parameters: Valued) -> Iterator[None]:
    """Parameters with given values for a while; those that they are given meanwhile are taken back too."""
    before = [parameter.value for parameter, _ in parameters]
    try:
        for parameter, value in parameters:
            parameter.value = value
        yield
    finally:
        for (parameter, _), value in zip(parameters, before, strict=True):
            parameter.value = value


# --- equations that are read from functions -----------------------------------------------------------------


@under_way("the function was read as equations", ", or give trace=False")
def read(problem: ProblemDAE, u0: Any = None, wanted: bool | None = None) -> Equations:
    """Read the equations of a problem from its ``eval_f`` and let it run with them."""
    from dae_sdc.model.retargeting import given_by_library
    from dae_sdc.model.trace import IdleEquationError, use_trace

    near, plain = state_near(problem, u0), is_function(problem)
    if wanted is False or (wanted is None and not plain):
        return Equations(problem, near=near, origin="function: trace is switched off" if plain else "")
    try:
        if problem.chooses_branch:
            raise InputError(f"{problem.name}.start_step decides in each step what eval_f computes")
        if hasattr(problem, "residual_of_parts") and given_by_library(problem):
            raise InputError(f"{problem.name} gives its equations by parts, and runs with these")
        traced = _traced(problem, near)
    except InputError as error:
        if wanted or isinstance(error, IdleEquationError):
            raise
        return Equations(problem, near=near, origin=f"function: {error}")
    known = _known(traced.model, problem.n_diff, type(problem).switches is ProblemDAE.switches)
    by_numbers = None
    if known.index is not None and (known.turns or not known.variable_index):
        looked = copy.copy(problem)
        use_trace(looked, traced, known.form)
        with suppress(DAEError, np.linalg.LinAlgError):  # of values beside the start
            by_numbers = _index_near(looked, looked.interval[0], near)
    # Derivatives that cancel for numbers as they were typed need not for rounded ones, as in other units.
    if by_numbers is not None and known.turns and by_numbers.index != known.index:
        known = replace(known, index=None, variable_index=())
    index, declared = known.index, problem.index
    if index is not None and declared is not None and max(1, declared) != max(1, index):
        why = (
            f"{problem.name} declares index {declared}, but its equations have index {index}; "
            f"correct or drop it"
        )
        if wanted or not traced.branches:
            raise InputError(why)
        # The structure that is analysed has the entries of all branches, of which a run may take a few.
        return Equations(problem, near=near, origin=f"function: {why}")
    problem.index = declared if index is None else index
    if known.variable_index and not traced.branches:
        _check_unknowns(problem, known.variable_index, "its equations")
    use_trace(problem, traced, known.form)
    if index is not None and not _declares_variables(problem):
        of_unknowns = known.variable_index or (max(1, index),) * problem.n
        if not known.variable_index and by_numbers is not None and by_numbers.index == index:
            of_unknowns = by_numbers.of_unknowns
        problem.variable_index = of_unknowns
    return Equations(
        problem,
        with_redundant(traced.model, problem),
        dict(zip(traced.model.names, problem.names, strict=True)),
        near=near,
        origin="traced",
        turns=known.turns,
        is_proved=index is not None,
        is_repaired=known.repaired,
    )


def with_model(equations: Equations) -> Equations:
    """Equations with the model that is read from their problem, where they have none and it can be read."""
    from dae_sdc.model.trace import trace_problem

    if equations.model is not None:
        return equations
    try:
        model = with_redundant(trace_problem(equations.problem).model, equations.problem)
    except DAEError:
        return equations
    labels = dict(zip(model.names, equations.problem.names, strict=True))
    return replace(equations, model=model, labels=labels)


def compiled(problem: ProblemDAE) -> ProblemDAE:
    """A problem that computes by compiled code, where it is a function that was read."""
    from dae_sdc.model.trace import use_trace

    if is_function(problem):
        problem, traced = copy.copy(problem), _traced(problem, None)
        use_trace(problem, traced, _known(traced.model, problem.n_diff, True).form)
    return problem


def equations_near(given: Any, params: Mapping[str, Any] | None, guess: Any, t0: float | None) -> Equations:
    """Equations in any form as they are given, for verbs that look at them without a run."""
    target = with_unknowns(resolve(given, as_model=True), guess)
    if target.simplified is not None:
        target = Target(target.simplified.model)
    if target.problem is not None:
        problem = target.make_problem(params or {})
        if target.is_new and guess is not None:
            check_function(problem, t0, state_near(problem, guess))
        return Equations(problem)
    model = target.make_model(params or {})
    return Equations(model.problem(), model, of_model=True)


def _index_near(problem: ProblemDAE, t: float, u: Vector | None) -> FoundIndex | None:
    """The index by the Jacobians near a state; None where these do not say it, or there is no such state."""
    from dae_sdc.initial.index import index_of

    if u is None or not np.isfinite(u).all():  # a start that is wrong is told when the run begins
        return None
    with uncounted(problem):
        return index_of(problem, t, u)


def _declares_variables(problem: ProblemDAE) -> bool:
    return "variable_index" in vars(type(problem)) or "_variable_index" in vars(problem)


def _check_unknowns(problem: ProblemDAE, indices: tuple[int, ...], seen: str) -> None:
    """Raise InputError where a user declares a lower index of an unknown than is found."""
    if not (_declares_variables(problem) and is_of_user(problem)):
        return
    for name, declared, index in zip(problem.names, problem.variable_index, indices, strict=True):
        if declared < index:  # errors of one declared too high are let go, which the run tells
            raise InputError(
                f"{problem.name}.variable_index declares index {declared} of '{name}', but "
                f"{seen} give it index {index}; correct or drop variable_index"
            )


_READ: Final[Recent[tuple[Any, ...], Traced]] = Recent(
    MOST_NODES, lambda traced: len(traced.model.graph) + NODES_OF_EACH
)


def _traced(problem: ProblemDAE, start: Vector | None) -> Traced:
    """The equations of a problem, not read again where its function and all that it reads are as before."""
    from dae_sdc.model.trace import trace_problem, traced_before

    key = (
        *(type(problem), problem.n_diff, problem.names, problem.units, problem.equation_names),
        *(tuple(problem.parameter_units.items()), problem.title, problem.reference),
        problem.dt,
    )
    begins = problem.interval, None if start is None else start.tobytes()
    kept = list(reversed(_READ.items()))
    # Those that begin alike come first, of which the last one mostly is the one.
    order = (entry for alike in (True, False) for entry in kept if (entry[0][1] == begins) is alike)
    again = (traced_before(problem, before, start) for (about, *_), before in order if about == key)
    traced = next(filter(None, again), None) or trace_problem(problem, start)
    if traced.reads is not None:
        _READ.keep((key, begins, id(traced)), traced)
    return traced


@dataclass(frozen=True)
class _Known:
    """Equations as programs, their index (None where it is not certain), and that of unknowns by offsets."""

    form: Form
    index: int | None = None
    variable_index: tuple[int, ...] = ()
    turns: bool = False
    repaired: bool = False


_KNOWN: Final[Recent[tuple[Any, ...], _Known]] = Recent(MOST_KNOWN)
# Of equations whatever the values of their parameters.
_FORMS: Final[Recent[tuple[Any, ...], Form]] = Recent(MOST_KNOWN)


@one_at_a_time
def _known(model: Model, n_diff: int, borders: bool) -> _Known:
    """What is known of the equations of a model, found once for all models that have the same ones."""
    # ``borders``: those of jumps are switches, where a problem has none of its own.
    from dae_sdc.model.problem import in_given_order
    from dae_sdc.structure.consistent import general_values

    alike = n_diff, borders, *model.equations_alone()

    def form() -> Form:
        known = _FORMS.of(alike, lambda: in_given_order(model, n_diff, borders=borders))
        nodes = () if known.jumps is None else [jump.border for jump in known.jumps.jumps]
        # Jumps are those of the graph of another model with the same equations.
        missing = max(nodes, default=0) >= len(model.graph.op)
        return in_given_order(model, n_diff, borders=borders) if missing else known

    key = *alike, *general_values(model, model.parameter_values.values())
    return _KNOWN.of(key, lambda: _known_of(model, form()))


def _known_of(model: Model, form: Form) -> _Known:
    """The differentiation index of equations of first order, and of unknowns, as far as they are certain."""
    from dae_sdc.structure.analysis import index_of_unknowns, regular_by_rounding, structure, structure_of

    try:
        analysed = structure(model, differentiation=False)
        if _may_be_open(model, bool(analysed.regular)) and closed(model) is not model:
            return _Known(form)
        leading = analysed.leading
        # Offsets prove the index where equations are differentiated for algebraic unknowns alone.
        if not analysed.regular or analysed.c.any() or (leading is not None and not leading.points):
            analysed = structure_of(model)
    except DAEError:
        return _Known(form)
    index = analysed.differentiation_index
    if index is None and analysed.regular:
        index = analysed.index
    rounded = regular_by_rounding(model, analysed)
    # Offsets above the index come from derivatives that cancel.
    cancels = not analysed.regular or (index is not None and analysed.index > max(1, index))
    # Derivatives may stand in combinations that change along solutions.
    graph = model.graph
    slopes = (item for root in model.roots for item in graph.gradient(root).items())
    turns = cancels and any(graph.leaves[leaf].order and graph.mark[node] & MOVING for leaf, node in slopes)
    if index is None or rounded:
        return _Known(form, turns=turns)
    if analysed.regular:
        return _Known(form, index, index_of_unknowns(analysed), turns)
    repaired = _of_repaired(model, analysed.signature)
    if max(repaired, default=0) != index:  # the repair has differentiated constraints away
        repaired = ()
    return _Known(form, index, repaired, turns, repaired=True)


def _may_be_open(model: Any, is_regular: bool) -> bool:
    """Whether equations may leave unknowns open: those that are regular for other values where some are 0."""
    values = (one.value for one in getattr(model, "parameters_by_name", {}).values())
    return hasattr(model, "roots") and (not is_regular or 0.0 in values)


def _of_repaired(model: Model, signature: Signature) -> tuple[int, ...]:
    """Index of each unknown of equations whose system Jacobian is singular, by those after a repair."""
    from dae_sdc.structure.analysis import index_of_unknowns
    from dae_sdc.structure.repair import repair

    try:
        repaired = repair(model)
    except DAEError:
        return ()
    names = repaired.model.names
    if not repaired.structure.regular or any(name not in names for name in model.names):
        return ()
    of_unknowns = index_of_unknowns(repaired.structure)
    indices = np.array([of_unknowns[names.index(name)] for name in model.names])
    # What an equation without derivatives determines by unknowns of index 1 has index 1, too: the blocks of
    # repaired equations are larger than those that determine it.
    flat = ~np.isin(signature.rows, signature.rows[signature.orders > 0])
    rows, columns = signature.rows[flat], signature.cols[flat]
    while True:
        higher = indices[columns] > 1
        last = np.bincount(rows[higher], minlength=len(indices))[rows] == 1
        if not (higher & last).any():
            return tuple(indices.tolist())
        indices[columns[higher & last]] = 1


# --- the index by Jacobians and by differences --------------------------------------------------------------


@under_way("the index was found")
def with_index(equations: Equations) -> Equations:
    """Equations with the index, and that of each unknown, that their Jacobians near the start tell."""
    problem, near, declared = equations.problem, equations.near, equations.problem.index
    if near is None:  # told when the run begins
        return equations
    why, at_start = "its index is not found", None
    try:
        at_start = _index_near(problem, problem.interval[0], near)
    except Exception as error:  # of a function that is not made for values beside the start
        why = f"{why} ({type(error).__name__} beside the start: {shown(text_of(error))})"
    if at_start is None:
        if declared is not None:  # the run begins with the declaration, which nothing contradicts
            return equations
        return replace(equations, origin="; ".join(filter(None, (equations.origin, why))))
    if declared is not None and max(1, at_start.index) != max(1, declared):
        raise InputError(
            f"{problem.name} declares index {declared}, but its Jacobians near the start have "
            f"index {at_start.index}; correct or drop it"
        )
    _check_unknowns(problem, at_start.of_unknowns, "its Jacobians near the start")
    if not _declares_variables(problem):
        problem.variable_index = at_start.of_unknowns
    equations = replace(equations, turns=equations.turns or at_start.turns)
    if declared is not None:
        return equations
    problem.index = at_start.index
    told = f"index {at_start.index} {FROM_JACOBIANS}"
    return replace(equations, origin="; ".join(filter(None, (equations.origin, told))))


def index_near_end(problem: ProblemDAE, origin: str, t: float, u: Vector) -> str:
    """What to say of a run whose index, found from Jacobians near the start, is another one near its end."""
    # Shapes: u (n,).
    if FROM_JACOBIANS not in origin or hasattr(problem, "original"):
        return ""
    at_end = None
    # Exceptions are those of a function that is not made for values beside u, or there is no time left.
    with suppress(Exception), limited(), under_way("the index at the end was found"):
        at_end = _index_near(problem, t, u)
    if at_end is None or at_end.index == problem.index:
        return ""
    return (
        f"the index is {problem.index} near the start, but {at_end.index} near t={t:.6g}; end the run "
        f"before the equations change their kind"
    )


@under_way("hidden constraints were found from derivatives by differences", ", or give reduce=False")
def reduced_by_arrays(equations: Equations, rtol: float | None) -> Equations:
    """Linear equations of a function with their hidden constraints, from derivatives by differences."""
    # In a run to a tolerance the indices that methods solve are reduced too, as the errors of unknowns of
    # these are let go; index 2 only of equations whose structure does not tell the hidden constraints that
    # results are corrected by, and not where jumps were read.
    from dae_sdc.initial.derivative_arrays import ArrayProblem, CurveArrayProblem
    from dae_sdc.initial.index import is_linear
    from dae_sdc.initial.neighbourhood import USUAL_TOLERANCE, Neighbourhood
    from dae_sdc.structure.analysis import is_nonlinear

    problem, near, index, model = equations.problem, equations.near, equations.problem.index, equations.model
    known = model is not None or (is_of_user(problem) and not problem.chooses_branch)
    form = getattr(problem, "form", None)
    least = 2 if (form is None or form.jumps is None) and not equations.is_proved else HIGHEST_INDEX
    let_go = rtol is not None and index is not None and index >= least
    if let_go and model is not None:
        let_go = not any(is_nonlinear(model.graph, root, lambda *_: True) for root in model.roots)
    if near is None or index is None or not known or not (equations.needs_reduction or let_go):
        return equations
    try:
        around = Neighbourhood(copy.copy(problem), problem.interval[0], near)
        with uncounted(problem):
            linear = equations.at_start("linear", lambda: is_linear(around))
        if not linear and equations.needs_reduction:
            return replace(equations, otherwise=CurveArrayProblem(around, index, rtol or USUAL_TOLERANCE))
        if not linear:
            return equations
        reduced = ArrayProblem(around, index, rtol or USUAL_TOLERANCE)
    except DAEError as error:
        return equations.without_way(f"by derivatives along t: {error}")
    said = f"index {index} reduced to 1 first; reduce=False solves the equations as they are"
    return replace(equations, problem=reduced, original=problem, remark=said)
