"""Problems of functions whose residual is read as equations before they are solved."""

from __future__ import annotations

import copy
import inspect
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from pySDC.core.hooks import Hooks

from dae_sdc.arguments import shown
from dae_sdc.dae.counters import uncounted
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.deadline import under_way
from dae_sdc.errors import DAEError, InputError, MisreadError
from dae_sdc.expressions.dag import MOVING
from dae_sdc.sharing import one_at_a_time

if TYPE_CHECKING:
    from dae_sdc.initial.derivative_arrays import ArrayProblem
    from dae_sdc.initial.index import FoundIndex
    from dae_sdc.initial.jets import ModelJets
    from dae_sdc.model.model import Model
    from dae_sdc.model.problem import Form
    from dae_sdc.model.trace import Traced
    from dae_sdc.structure.analysis import Structure

HIGHEST_INDEX: Final = 3
"""Index above which equations are reduced first: no method takes more."""

FROM_JACOBIANS: Final = "by its Jacobians near the start"
NOT_REDUCED: Final = "not reduced"
"""How an index was found, where it was not from equations."""

MOST_KNOWN: Final = 64
"""Systems of equations whose programs are kept, and functions whose equations are."""

MOST_NODES: Final = 200_000
"""Nodes in the expressions of all functions whose equations are kept, more than one function."""


@dataclass(frozen=True)
class Reading:
    """A problem whose residual was looked at."""

    problem: ProblemDAE  # The problem: with compiled equations where they could be read, or as it was.
    # "traced", or "function: " and the reason; empty for a problem whose form is not a function alone.
    equations: str = ""
    model: Model | None = None  # The equations.
    # Equations with their derivatives, by time and parameters, for all problems that have the same ones.
    systems: dict[Any, ModelJets] = field(default_factory=dict)
    # Whether derivatives stand in combinations that change, and cancel in what is hidden: with these no
    # method is known to converge for an index above 1.
    turns: bool = False
    remark: str = ""  # What is to be said of the problem.
    proved: bool = False  # Whether the index follows from the structure of the equations.
    repaired: bool = False  # Whether their structure shows hidden constraints in combinations alone.
    # The ways to reduce the index that were tried, and why each was not possible.
    not_reduced: tuple[str, ...] = ()
    # The equations with index 1, for a run that fails as they are: what costs much is not done first.
    otherwise: ArrayProblem | None = None

    @property
    def told(self) -> str:
        """What is said of the equations where they came from."""
        left = bool(self.not_reduced) and self.needs_reduction
        tried = f"{NOT_REDUCED} ({'; '.join(self.not_reduced)})" if left else ""
        return "; ".join(filter(None, (self.equations, tried)))

    def without_way(self, why: str) -> Reading:
        """Keep why a way to reduce the index is not possible, if the index must be reduced."""
        return replace(self, not_reduced=(*self.not_reduced, why)) if self.needs_reduction else self

    @property
    def needs_reduction(self) -> bool:
        """Whether no method solves the equations as they are."""
        index = 0 if self.remark else self.problem.index or 0
        return index > HIGHEST_INDEX or (index > 1 and self.turns)


def is_function(problem: ProblemDAE | type[ProblemDAE]) -> bool:
    """Whether a problem, or a class, gives ``eval_f`` alone: no kernels, no Jacobian, no parts."""
    parts = (getattr(problem, name, None) for name in ("residual_kernel", "jacobian", "residual_nodes"))
    return all(part is None for part in parts) and is_of_user(problem)


def is_of_user(problem: ProblemDAE | type[ProblemDAE]) -> bool:
    """Whether the ``eval_f`` of a problem, or of a class, is a user's and not the library's."""
    cls = problem if isinstance(problem, type) else type(problem)
    own = next(base for base in cls.__mro__ if "eval_f" in vars(base))
    users = ("dae_sdc.model.functions", "dae_sdc.dae.adapter")
    return not own.__module__.startswith("dae_sdc.") or own.__module__ in users


@under_way("the function was read as equations", ", or give trace=False")
def read(problem: ProblemDAE, u0: Any = None, wanted: bool | None = None) -> Reading:
    """Read the equations of a problem from its ``eval_f`` and let it run with them."""
    from dae_sdc.model.retargeting import given_by_library
    from dae_sdc.model.trace import use_trace

    if wanted is False:
        return Reading(problem, "function: trace is switched off" if is_function(problem) else "")
    if wanted is None and not is_function(problem):
        return Reading(problem)
    try:
        if _decides(problem):
            raise InputError(f"{type(problem).__name__}.start_step decides in each step what eval_f computes")
        if hasattr(problem, "residual_of_parts") and given_by_library(problem):
            raise InputError(f"{type(problem).__name__} gives its equations by parts, and runs with these")
        traced = _traced(problem, _start(problem, u0))
    except InputError as error:
        if wanted:
            raise
        return Reading(problem, f"function: {error}")
    known = _known(traced.model, problem.n_diff, type(problem).switches is ProblemDAE.switches)
    by_numbers = None
    if known.index is not None and (known.turns or not known.variable_index):
        looked = copy.copy(problem)
        use_trace(looked, traced, known.form)
        by_numbers = _by_numbers(looked, u0)
    # Derivatives that cancel for numbers as they were typed need not for rounded ones, as in other units.
    if by_numbers is not None and known.turns and by_numbers.index != known.index:
        known = replace(known, index=None, variable_index=())
    try:
        _use_index(problem, known)
    except InputError as error:
        if wanted or not traced.branches:
            raise
        # The structure that is analysed has the entries of all branches, of which a run may take a few.
        return Reading(problem, f"function: {error}")
    if known.variable_index and not traced.branches:
        _check_unknowns(problem, known.variable_index, "its equations")
    use_trace(problem, traced, known.form)
    if known.index is not None and not _declares_variables(problem):
        of_unknowns = known.variable_index or (max(1, known.index),) * problem.n
        if not known.variable_index and by_numbers is not None and by_numbers.index == known.index:
            of_unknowns = by_numbers.of_unknowns
        problem.variable_index = of_unknowns
    found = Reading(problem, "traced", traced.model, known.form.systems, known.turns)
    return replace(found, proved=known.index is not None, repaired=known.repaired)


class ReadEquations(Hooks):  # type: ignore[misc]
    """Lets the problems of a run of pySDC's controllers compute with equations read from their ``eval_f``.

    They are read when a run begins, as by ``solve``: compiled, and with branches as switches. Problems whose
    equations cannot be read stay functions, which the log tells with the reason.

    Examples
    --------
    >>> from dae_sdc.run.tracing import ReadEquations
    >>> parameters = {"logger_level": 30, "hook_class": [ReadEquations]}
    """

    def pre_run(self, step: Any, level_number: int) -> None:
        """Read the equations of all levels of a step."""
        super().pre_run(step, level_number)
        for level in step.levels:
            problem = level.prob
            if hasattr(type(problem), "untraced"):  # in an earlier run
                continue
            equations = read(problem, level.u[0]).equations
            self.logger.info("equations of %s: %s", type(problem).__name__, equations)


@dataclass(frozen=True)
class StateCheck:
    """How equations that were read are compared with their function at states of a run."""

    states: int = 4  # Number of states.
    # Relative change of the unknowns: residuals along a solution have nothing but rounding left in them.
    distance: float = 1e-4
    tolerance: float = 1e-5  # Difference, relative to the value of an equation, up to which both are equal.
    # Difference that rounding explains, relative to the largest value of all equations.
    rounding: float = 1e-9
    # Difference that rounding explains, relative to what ``nudge`` changes in the function.
    sensitivity: float = 100.0
    nudge: float = 1e-13  # Relative change of the unknowns for that.


def check_at_states(
    problem: ProblemDAE, t: Vector, u: Vector, du: Vector, check: StateCheck | None = None
) -> None:
    """Compare equations that were read with their function near states of a run; not those that jump."""
    untraced = getattr(type(problem), "untraced", None)
    if untraced is None or hasattr(problem, "confirm_jumps"):
        return
    check = check or StateCheck()
    function, equations = copy.copy(problem), copy.copy(problem)
    object.__setattr__(function, "__class__", untraced)
    for one in (function, equations):  # each packs its own parameters
        one.__dict__.update(_parameters=None)
    source = np.random.default_rng(2)
    for k in np.unique(np.linspace(len(t) - 1, 0, check.states, endpoint=False).astype(int)).tolist():
        place, rate = (x[k] * (1.0 + check.distance * source.uniform(-1.0, 1.0, x[k].shape)) for x in (u, du))
        nudged = place * (1.0 + check.nudge * source.uniform(-1.0, 1.0, place.shape))
        calls = ((equations, place), (function, place), (function, nudged))
        try:
            with uncounted(problem), np.errstate(all="ignore"):
                read, true, beside = (
                    np.array(one.evaluate(one.state(at), one.state(rate), float(t[k]))) for one, at in calls
                )
        except Exception:  # of a function that is not made for values beside those of the run
            continue
        with np.errstate(all="ignore"):
            largest = np.abs(true[np.isfinite(true)]).max(initial=0.0)
            bound = check.tolerance * np.abs(true) + check.rounding * largest
            bound += check.sensitivity * np.abs(beside - true)
            wrong = np.flatnonzero(np.abs(read - true) > bound)
        if wrong.size:
            i = wrong[0]
            raise MisreadError(
                f"{type(problem).__name__}.eval_f was read wrongly: '{problem.equation_names[i]}' is "
                f"{true[i]:.6g} near the solution at t={t[k]:.6g}, and {read[i]:.6g} as it was read; solve "
                f"with trace=False"
            )


def _by_numbers(problem: ProblemDAE, u0: Any) -> FoundIndex | None:
    """The index by the Jacobians near the start; None where these do not say it."""
    from dae_sdc.initial.index import index_of

    time = problem.interval[0]
    # Of a start that is missing or wrong, which is told when the run begins, or of values beside it.
    with suppress(DAEError, np.linalg.LinAlgError), uncounted(problem):
        start = np.array(problem.state(problem.u_exact(time) if u0 is None else u0))
        return index_of(problem, time, start) if np.isfinite(start).all() else None
    return None


@under_way("the index was found")
def with_index(reading: Reading, u0: Any, t0: float | None) -> Reading:
    """A problem with the index, and that of each unknown, that its Jacobians near the start tell."""
    from dae_sdc.initial.index import index_of

    problem, declared = reading.problem, reading.problem.index
    time = problem.interval[0] if t0 is None else t0
    try:
        start = np.array(problem.state(problem.u_exact(time) if u0 is None else u0))
    except DAEError:  # told when the run begins
        return reading
    why = "its index is not found"
    try:
        with uncounted(problem):
            found = index_of(problem, time, start) if np.isfinite(start).all() else None
    except Exception as error:  # of a function that is not made for values beside the start
        found = None
        why = f"{why} ({type(error).__name__} beside the start: {shown(str(error))})"
    if found is None:
        if declared is not None:  # the run begins with the declaration, which nothing contradicts
            return reading
        return replace(reading, equations=f"{reading.equations}; {why}".lstrip("; "))
    if declared is not None and max(1, found.index) != max(1, declared):
        raise InputError(
            f"{type(problem).__name__} declares index {declared}, but its Jacobians near the start have "
            f"index {found.index}; correct or drop it"
        )
    _check_unknowns(problem, found.of_unknowns, "its Jacobians near the start")
    if not _declares_variables(problem):
        problem.variable_index = found.of_unknowns
    turns = reading.turns or found.turns
    if declared is not None:
        return replace(reading, turns=turns)
    problem.index = found.index
    told = f"{reading.equations}; index {found.index} {FROM_JACOBIANS}"
    return replace(reading, equations=told.lstrip("; "), turns=turns)


def index_near_end(problem: ProblemDAE, equations: str, t: float, u: Vector) -> str:
    """What to say of a run whose index, found from Jacobians near the start, is another one near its end."""
    # Shapes: u (n,).
    if FROM_JACOBIANS not in equations or hasattr(problem, "original"):
        return ""
    from dae_sdc.initial.index import index_of

    found = None
    with (
        suppress(Exception),
        uncounted(problem),
    ):  # of a function that is not made for values beside the state
        found = index_of(problem, t, u)
    if found is None or found.index == problem.index:
        return ""
    return (
        f"the index is {problem.index} near the start, but {found.index} near t={t:.6g}; end the run "
        f"before the equations change their kind"
    )


@under_way("hidden constraints were found from derivatives by differences", ", or give reduce=False")
def reduced_by_arrays(
    reading: Reading, u0: Any, interval: tuple[float | None, float | None], rtol: float | None
) -> Reading:
    """Linear equations of a function with their hidden constraints, from derivatives by differences.

    In a run to a tolerance the indices that methods solve are reduced too, as the errors of unknowns of these
    are let go; index 2 only of equations whose structure does not tell the hidden constraints that results
    are corrected by, and not where jumps were read.
    """
    from dae_sdc.initial.derivative_arrays import ArrayProblem, CurveArrayProblem
    from dae_sdc.initial.index import is_linear
    from dae_sdc.initial.neighbourhood import USUAL_TOLERANCE, Neighbourhood

    problem, index = reading.problem, reading.problem.index
    time, end = (
        own if bound is None else bound for bound, own in zip(interval, problem.interval, strict=True)
    )
    known = reading.model is not None or (is_of_user(problem) and not _decides(problem))
    form = getattr(problem, "form", None)
    smooth = form is None or form.jumps is None
    least = 2 if smooth and not reading.proved else HIGHEST_INDEX
    let_go = rtol is not None and index is not None and index >= least
    if index is None or not known or not (reading.needs_reduction or let_go):
        return reading
    try:
        start = np.array(problem.state(problem.u_exact(time) if u0 is None else u0))
        if end > time:  # refused when the run begins
            problem = copy.copy(problem)
            problem.interval = time, end
        near = Neighbourhood(problem, time, start)
        linear = is_linear(near)
        if not linear and not reading.needs_reduction:
            return reading
        if not linear:
            return replace(reading, otherwise=CurveArrayProblem(near, index, rtol or USUAL_TOLERANCE))
        made = ArrayProblem(near, index, rtol or USUAL_TOLERANCE)
    except DAEError as error:
        return reading.without_way(f"by derivatives along t: {error}")
    said = f"index {index} reduced to 1 first; reduce=False solves the equations as they are"
    return replace(reading, problem=made, remark=said)


def _decides(problem: ProblemDAE) -> bool:
    """Whether a problem chooses its equations when a step begins."""
    own = inspect.getattr_static(type(problem), "start_step")
    return own is not inspect.getattr_static(ProblemDAE, "start_step")


def _mixes(model: Model) -> bool:
    """Whether derivatives stand in combinations that change along solutions."""
    graph = model.graph
    slopes = [item for root in model.roots for item in graph.gradient(root).items()]
    return any(graph.leaves[leaf].order and graph.mark[node] & MOVING for leaf, node in slopes)


def _declares_variables(problem: ProblemDAE) -> bool:
    return "variable_index" in vars(type(problem)) or "_variable_index" in vars(problem)


def _check_unknowns(problem: ProblemDAE, indices: tuple[int, ...], seen: str) -> None:
    """Raise InputError where a user declares a lower index of an unknown than is found."""
    if not (_declares_variables(problem) and is_of_user(problem)):
        return
    for name, declared, index in zip(problem.names, problem.variable_index, indices, strict=True):
        if declared < index:  # errors of one declared too high are let go, which the run tells
            raise InputError(
                f"{type(problem).__name__}.variable_index declares index {declared} of '{name}', but "
                f"{seen} give it index {index}; correct or drop variable_index"
            )


def _start(problem: ProblemDAE, u0: Any) -> npt.NDArray[np.float64] | None:
    try:
        return None if u0 is None else np.array(problem.state(u0))
    except InputError:  # told when the run begins
        return None


_READ: Final[list[tuple[tuple[Any, ...], Traced]]] = []


def _traced(problem: ProblemDAE, start: npt.NDArray[np.float64] | None) -> Traced:
    """The equations of a problem, not read again where its function and all that it reads are as before."""
    from dae_sdc.model.trace import trace_problem, traced_before

    key = (
        *(type(problem), problem.n_diff, problem.names, problem.units, problem.equation_names),
        *(tuple(problem.parameter_units.items()), problem.title, problem.reference),
        *(tuple(problem.interval), problem.dt),
    )
    for known in _READ[::-1]:
        if known[0] == key:
            again = traced_before(problem, known[1], start)
            if again is not None:
                return again
    found = trace_problem(problem, start)
    if found.reads is not None:
        _READ.append((key, found))
        nodes = sum(len(known.model.graph) for _, known in _READ)
        while len(_READ) > 1 and (len(_READ) > MOST_KNOWN or nodes > MOST_NODES):
            nodes -= len(_READ.pop(0)[1].model.graph)
    return found


@dataclass(frozen=True)
class _Known:
    """Equations as programs, their index (None where it is not certain), and that of unknowns by offsets."""

    form: Form
    index: int | None = None
    variable_index: tuple[int, ...] = ()
    turns: bool = False
    repaired: bool = False


_KNOWN: Final[dict[tuple[Any, ...], _Known]] = {}


@one_at_a_time
def _known(model: Model, n_diff: int, borders: bool) -> _Known:
    """What is known of the equations of a model, found once for all models that have the same ones.

    The borders of jumps are switches, where a problem has none of its own.
    """
    from dae_sdc.model.problem import in_given_order

    key = (n_diff, borders, *model.content())
    found = _KNOWN.get(key)
    if found is None:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        found = _KNOWN[key] = _known_of(model, in_given_order(model, n_diff, borders=borders))
    return found


def _known_of(model: Model, form: Form) -> _Known:
    """The differentiation index of equations of first order, and of unknowns, as far as they are certain."""
    from dae_sdc.structure.analysis import index_of_unknowns, regular_by_rounding, structure

    try:
        found = structure(model, differentiation=False)
        if not _is_settled(found):
            found = structure(model)
    except DAEError:
        return _Known(form)
    index = found.differentiation_index
    if index is None and found.regular:
        index = found.index
    rounded = regular_by_rounding(model, found)
    # Offsets above the index come from derivatives that cancel.
    cancels = not found.regular or (index is not None and found.index > max(1, index))
    turns = cancels and _mixes(model)
    if index is None or rounded:
        return _Known(form, turns=turns)
    if not found.regular:
        repaired = _of_repaired(model)
        if max(repaired, default=0) != index:  # the repair has differentiated constraints away
            repaired = ()
        return _Known(form, index, repaired, turns=turns, repaired=True)
    return _Known(form, index, index_of_unknowns(found), turns=turns)


def _of_repaired(model: Model) -> tuple[int, ...]:
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
    return tuple(of_unknowns[names.index(name)] for name in model.names)


def _is_settled(found: Structure) -> bool:
    """Whether the offsets prove the index: equations are differentiated for algebraic unknowns alone."""
    consistent = found.leading is None or bool(found.leading.points)
    return bool(found.regular) and consistent and not found.c.any()


def _use_index(problem: ProblemDAE, known: _Known) -> None:
    """Set the index of a problem, where it is found."""
    index = known.index
    if index is None:
        return
    if problem.index is not None and max(1, problem.index) != max(1, index):
        raise InputError(
            f"{type(problem).__name__} declares index {problem.index}, but its equations have index {index}; "
            f"correct or drop it"
        )
    problem.index = index
