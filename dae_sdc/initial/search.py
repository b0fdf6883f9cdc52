"""Consistent initial values of models and problems, and equations that given values violate."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.optimize import linprog

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.deadline import under_way
from dae_sdc.errors import DAEError, InconsistentStateError, InputError, require_number
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.initial.block_solutions import BLOCKS
from dae_sdc.initial.consistent import Initial, Violation, listed
from dae_sdc.initial.differentiated import ProblemJets
from dae_sdc.initial.every import EveryStart, SolutionSet, solution_sets
from dae_sdc.initial.given import (
    Condition,
    Fixed,
    bounds_of,
    bounds_of_model,
    box_of,
    numbers,
    require_within,
    split,
)
from dae_sdc.initial.index import index_of
from dae_sdc.initial.jets import JetSystem, ModelJets, Part, leaf_values
from dae_sdc.initial.projection import project
from dae_sdc.initial.redundant import left_out, require_implied
from dae_sdc.initial.solver import SEARCH, Booleans, Given, Solver
from dae_sdc.registry import unknown
from dae_sdc.sharing import one_at_a_time

# Largest number of values for which all solutions are sought in order to find the nearest one.
MOST_VALUES_OF_EVERY_START = 200


def _time(interval: Sequence[float], t0: Any) -> float:
    """The given time, or the start of an interval."""
    found = float(interval[0]) if t0 is None else require_number("t0", t0)
    if not np.isfinite(found):
        raise InputError(f"t0 must be finite; got {found}")
    return found


class HiddenByRoundingError(InputError):
    """Expressions do not show hidden constraints, which differences with errors would."""

    def __init__(self, title: str) -> None:
        super().__init__(
            f"rounding errors of numbers in {title} keep hidden constraints from being seen; write them as "
            f"fractions, sympy.Rational(1, 3), or give the equations as a function"
        )


@dataclass(frozen=True, eq=False)
class _Task:
    """Equations and settings of a search for consistent values."""

    system: JetSystem  # The equations and their derivatives.
    given: Given  # The given values.
    # names, units: names and units of the unknowns of the state.
    names: tuple[str, ...]
    units: tuple[str, ...]
    # seed, restarts: arguments of :func:`dae_sdc.run.initial.initial`.
    seed: int = 0
    restarts: int | None = None
    preference: Sequence[int] = ()  # Order in which values are kept as given in a search for all solutions.
    whole: bool = False  # Whether all equations were differentiated equally often.
    hidden: bool = False  # See :func:`violations`.
    kept_is_enough: bool = False  # See :func:`initial_of_model`.
    conditions: tuple[str, ...] = ()  # Expressions that are fixed.


def _solved(task: _Task, remarks: list[str]) -> Initial:
    """The result for the values nearest to the given ones."""
    system, given = task.system, task.given
    solver = Solver(system, given, task.seed, task.restarts)
    known: list[Vector] = []
    every = False
    try:
        x = solver.solve()
    except InconsistentStateError:
        if isinstance(system, ModelJets) and solver.restarts:
            known, every = _every_known(task)
        if not known:
            raise
        x = known[0]
    free: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    solutions = [x]
    unique = _is_unique(solver, x)
    if solver.small:
        if solver.restarts and not unique and isinstance(system, ModelJets):
            if not known:
                known, every = _every_known(task)
            x = solver.nearer(x, known, every) if known or solver.changes(x) else x
        free, followed = solver.free(x)
        found = [x, *(() if unique and task.kept_is_enough else solver.others(x, free, known))]
        # Another solution with the same free values may be nearer.
        nearest = min(found, key=lambda one: given.distance(one, system.stages))
        x = solver.settled(nearest)
        solutions = [x, *(one for one in found if one is not nearest)]
        if followed:
            named = ", ".join(system.jet_names[j] for j in followed)
            remarks.append(
                f"fixed values that follow from the others, and happen to agree with them: {named}"
            )
    else:
        remarks.append("too many values for a look at other solutions")
        free = np.array(sorted(system.usually_free), dtype=np.int64)
    if isinstance(system, ModelJets):
        if np.isin(system.stages[-1].jets, free).any() and system.is_rounded_around(x, given.sizes):
            raise HiddenByRoundingError(system.title)
        for start in (*solutions, *solver.near(x)):
            require_implied(system, start)
    u, du = _state(task, x)
    left = [j for j in free.tolist() if not given.fixed[j]]
    if task.whole:
        # Some derivatives are determined only by equations that are differentiated once more.
        place = {name: number for number, name in enumerate(system.jet_names)}
        determined = solver.determined(x)
        du[[not determined[place[_rate(name)]] for name in task.names]] = np.nan
        left = [j for j in left if system.jets[j][1] == 0]
    return _told(task, solver, (u, du), left, solutions, remarks, unique=unique)


def _is_unique(solver: Solver, x: Vector) -> bool:
    """Whether all given values were kept, and the equations are linear in the others."""
    system = solver.system
    if not isinstance(system, ModelJets) or not solver.small or solver.changes(x):
        return False
    return all(
        Part(system, stage.rows.tolist()).is_linear(stage.jets[~solver.given.known[stage.jets]].tolist())
        for stage in system.stages
        if stage.rows.size
    )


def _every_known(task: _Task) -> tuple[list[Vector], bool]:
    """All solutions, if homotopies find them quickly, the nearest first, and whether there are no others."""
    system: Any = task.system
    if len(system.jets) > MOST_VALUES_OF_EVERY_START:
        return [], False
    search = EveryStart(system, task.given, task.preference, task.seed, 0, most_paths=BLOCKS.few_paths)
    try:
        starts = search.solve()
    except DAEError:  # there is no solution with all values that are taken from guesses
        return [], False
    known = [start.x for start in starts if system.holds_added(start.x)]
    return known, search.complete and not starts[0].chosen


def _told(
    task: _Task,
    solver: Solver,
    state: tuple[Vector, Vector],
    free: list[int],
    solutions: Sequence[Vector],
    remarks: Iterable[str],
    further: Iterable[str] = (),
    **more: Any,
) -> Initial:
    """The result from solutions, of which the first is taken."""
    system, given, x = task.system, task.given, solutions[0]
    guessed = tuple(system.jet_names[j] for j in free if not given.known[j])
    told = [f"nothing was given for what is free: {', '.join(guessed[:6])}"] if guessed else []
    return Initial(
        title=system.title,
        t=system.t,
        names=task.names,
        units=task.units,
        u=state[0],
        du=state[1],
        values=dict(zip(system.jet_names, x.tolist(), strict=True)),
        fixed=(*(system.jet_names[j] for j in np.flatnonzero(given.fixed)), *task.conditions),
        changed=tuple(solver.changes(x)),
        violated=tuple(violations(system, given, x, task.hidden)),
        free=tuple(system.jet_names[j] for j in free),
        guessed=guessed,
        solutions=tuple(dict(zip(system.jet_names, one.tolist(), strict=True)) for one in solutions),
        remarks=(*remarks, *told, *further, *solver.ways),
        ways=tuple(solver.ways),
        **more,
    )


def _state(task: _Task, x: Vector) -> tuple[Vector, Vector]:
    """State and its derivative, NaN where it is not determined."""
    names, place = task.names, {name: number for number, name in enumerate(task.system.jet_names)}
    u = np.array([x[place[name]] if name in place else np.nan for name in names])
    du = np.array([x[place[rate]] if rate in place else np.nan for rate in map(_rate, names)])
    return u, du


def _every(task: _Task, remarks: list[str], search: EveryStart) -> Initial:
    """The result of a search for all solutions, the one nearest to the given values first."""
    starts = search.solve()
    x = starts[0].x
    solver = Solver(task.system, task.given, restarts=0)
    further: list[str] = []
    newton = [block for block in search.blocks if block.kind == "newton"]
    if newton:
        further.append(
            f"no polynomials, so that solutions may be missing: {listed([b.equations[0] for b in newton])}"
        )
    lost = sum(block.lost for block in search.blocks)
    if lost:
        further.append(f"solutions may be missing: {lost} paths were lost; try another seed")
    told = [*(one for start in starts for one in start.singular), *search.singular]
    return _told(
        task,
        solver,
        _state(task, x),
        sorted(starts[0].chosen),
        [one.x for one in starts],
        remarks,
        (*further, *search.remarks, *search.missing),
        complete=search.complete,
        blocks=search.blocks,
        singular=tuple(sorted({id(one): one for one in told}.values(), key=lambda one: one.stage)),
    )


def _rate(name: str) -> str:
    """Name of the derivative of an unknown or of one of its derivatives."""
    base, order = name_and_order(name)
    return name_of(base, order + 1)


KEPT_JETS = 16  # Models whose differentiated equations are kept.
KEPT_NODES = 20_000  # Expressions of the largest of these.

_JETS: dict[tuple[Any, ...], ModelJets] = {}


@one_at_a_time
def jets_of(model: Any, t0: float | None) -> ModelJets:
    """The equations of a model and their derivatives, kept for models that say the same."""
    time = _time(model.interval, t0)
    if len(model.graph) > KEPT_NODES:
        return ModelJets(model, time)
    starts = (tuple(variable.start.items()) for variable in model.variables_by_name.values())
    key = (time, model.interval, *starts, *model.content())
    jets = _JETS.pop(key, None) or ModelJets(model, time)
    _JETS[key] = jets  # the last is the one used last
    if len(_JETS) > KEPT_JETS:
        del _JETS[next(iter(_JETS))]
    return jets


@under_way("consistent initial values were sought", ", or give guesses near them")
def initial_of_model(
    model: Any,
    *,
    fixed: Fixed = None,
    guesses: Mapping[str, float] | None = None,
    t0: float | None = None,
    seed: int = 0,
    restarts: int | None = None,
    every: bool = False,
    workers: int = 1,
    comm: Any = None,
    weak: Collection[str] | None = None,
    system: ModelJets | None = None,
    kept_is_enough: bool = False,
    nominal: Mapping[str, float] | None = None,
    bounds: Mapping[str, Any] | None = None,
) -> Initial:
    """Consistent initial values of a model, see :func:`dae_sdc.run.initial.initial`."""
    system = jets_of(model, t0) if system is None else system
    if system.is_rounded:
        raise HiddenByRoundingError(system.title)
    values, names = split(fixed, model.names, f"unknown of {system.title}")
    conditions = {text: values.pop(text) for text in list(values) if isinstance(text, Condition)}
    if every and conditions:
        raise InputError(
            f"all solutions are looked for with values that are fixed, and {next(iter(conditions))} is an "
            f"expression; leave all_solutions out"
        )
    system = system.with_conditions(conditions) if conditions else system
    own, place = system.model, system.place
    known, wanted = _given_by_name(model, system, (values, names), guesses)
    count = len(system.jets)
    point, has, held = np.zeros(count), np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    for jet, (value, is_fixed) in known.items():
        if jet in place:
            known_well = is_fixed or system.jet_names[place[jet]] not in (weak or ())
            point[place[jet]], has[place[jet]], held[place[jet]] = value, known_well, is_fixed
    limits = bounds_of_model(model, bounds)
    box = box_of(limits, system.jet_names, system.title)
    require_within(system.title, [(name_of(own.names[j], k), known[j, k][0]) for j, k in known], limits)
    point = _within(box, point, held)
    auxiliary = _define(system, point, has, held)
    if nominal is None:
        sizes = np.maximum(1e-6, np.where(point != 0.0, np.abs(point), 1.0))
    else:
        usual = [nominal.get(name, 1.0) for name in own.names]
        sizes = np.abs(point) + np.array([usual[j] for j, _ in system.jets])
    given = _off_bounds(system, Given(point, has, held, sizes, auxiliary, box))
    remarks = [*filter(None, [left_out(model)]), *(f"repaired: {text}" for text in system.repairs)]
    form = model.form()
    first = [place[jet] for jet in (*wanted, *known) if jet in place]
    preference = list(dict.fromkeys([*first, *system.usually_free, *range(count)]))
    task = _Task(
        *(system, given, form.names, form.units, seed, restarts, preference),
        hidden=weak is not None and not every,
        kept_is_enough=kept_is_enough,
        conditions=tuple(map(str, conditions)),
    )
    if every:
        search = EveryStart(system, given, preference, seed, restarts, workers, comm)
        return _every(task, remarks, search)
    return _solved(task, remarks)


def _given_by_name(
    model: Any, system: ModelJets, fixed: tuple[dict[str, float], list[str]], guesses: Any
) -> tuple[dict[tuple[int, int], tuple[float, bool]], list[tuple[int, int]]]:
    """Values of unknowns and derivatives, whether they are fixed, and which are guesses of the call."""
    known = {
        (j, k): (value, k in variable.fixed)
        for j, variable in enumerate(model.variables_by_name.values())
        for k, value in variable.start.items()
    }
    own, jet_of = system.model, _jets_by_name(model, system)
    kept = [name_of(own.names[j], k) for (j, k), (_, held) in known.items() if held]
    wanted = numbers("guess", guesses, model.names, f"unknown of {system.title}", kept)
    known |= {jet_of(name): (value, False) for name, value in wanted.items()}
    known |= {jet_of(name): (value, True) for name, value in fixed[0].items()}
    for name in fixed[1]:
        jet = jet_of(name)
        if jet not in known:
            raise InputError(f"{name} of {system.title} is to be fixed, but has no value; give one")
        known[jet] = known[jet][0], True
    beyond = [jet for jet, (_, held) in known.items() if jet not in system.place and held]
    if beyond:
        j, k = beyond[0]
        raise InputError(
            f"derivative {k} of {own.names[j]} of {system.title} cannot be fixed: it follows from lower "
            f"ones; fix those"
        )
    return known, [jet_of(name) for name in wanted]


def _within(box: Any, point: Vector, held: Booleans) -> Vector:
    """Values within bounds; those of fixed ones, which are not changed, are widened by their round-off."""
    if box is None:
        return point
    box[0, held], box[1, held] = np.minimum(box[0], point)[held], np.maximum(box[1], point)[held]
    return np.asarray(np.clip(point, *box))


def _off_bounds(system: JetSystem, given: Given) -> Given:
    """What is given, with what was not moved off its bounds where the equations have no values there."""
    if given.bounds is None:
        return given
    with np.errstate(all="ignore"):
        if np.isfinite(system.values(given.point)).all():
            return given
    at_bound = ~given.known & (given.point == given.bounds).any(axis=0)
    return replace(given, point=np.where(at_bound, given.apart_by(1.0), given.point))


def _jets_by_name(model: Any, system: ModelJets) -> Callable[[str], tuple[int, int]]:
    """A function from a name in the model to the number of an unknown in a system and an order."""
    index = {name: j for j, name in enumerate(system.model.names)}

    def jet(name: str) -> tuple[int, int]:
        base, order = model.unknown(name)
        return index[base], order

    return jet


def _define(system: ModelJets, point: Vector, known: Any, held: Any) -> Any:
    """Set auxiliary unknowns from the values of the others; returns a mask of these unknowns.

    Start values of auxiliary unknowns do not count as given by the user unless they are fixed.
    """
    auxiliary = np.zeros(len(system.jets), dtype=bool)
    for definition in system.model.definitions:
        own = set(definition.unknowns)
        places = [at for at, (j, _) in enumerate(system.jets) if j in own and not held[at]]
        auxiliary[places], known[places] = True, False
        found = definition.solve(system.model.graph, leaf_values(system, point)) or ()
        for j, value in zip(definition.unknowns, found, strict=False):
            at = system.place.get((j, 0))
            if at is not None and not held[at]:
                point[at] = value
    return auxiliary


def sets_of_model(
    model: Any,
    *,
    fixed: Mapping[str, float] | None = None,
    t0: float | None = None,
    seed: int = 0,
    workers: int = 1,
) -> tuple[SolutionSet, ...]:
    """Solution sets of the blocks of a model, see :func:`dae_sdc.run.initial.solution_sets`."""
    time = _time(model.interval, t0)
    system = ModelJets(model, time)
    jet_of, known = _jets_by_name(model, system), dict[int, float]()
    for name, value in split(fixed, model.names, f"unknown of {system.title}")[0].items():
        jet = jet_of(name)
        if jet not in system.place:
            raise InputError(f"{name} of {system.title} cannot be fixed: it follows from lower derivatives")
        known[system.place[jet]] = value
    return solution_sets(system, known, seed, workers)


@under_way("consistent initial values were sought", ", or give guesses near them")
def initial_of_problem(
    problem: ProblemDAE,
    *,
    u0: Any = None,
    fixed: Fixed = None,
    guesses: Mapping[str, float] | None = None,
    t0: float | None = None,
    seed: int = 0,
    restarts: int | None = None,
    weak: Collection[str] | None = None,
    system: ProblemJets | None = None,
    bounds: Mapping[str, Any] | None = None,
) -> Initial:
    """Consistent initial values of a problem, see :func:`dae_sdc.run.initial.initial`."""
    # Shapes: u0 (n,).
    time = _time(problem.interval, t0)
    n, names = problem.n, problem.names
    point, known = _guesses(problem, u0, time)
    title = type(problem).__name__
    kind = f"unknown of {title}"
    values, chosen = split(fixed, names, kind)
    limits = bounds_of(bounds, names, kind)
    rates, place = ({name: j for j, name in enumerate(own)} for own in (map(_rate, names), names))
    wanted = numbers("guess", guesses, names, kind)
    for name in (*wanted, *values, *chosen):
        if name not in place and (name not in rates or name in chosen):
            raise InputError(unknown(kind, name, names))
    slopes, held, held_rates = np.full(n, np.nan), np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    held[[place[name] for name in chosen]] = True
    for name, value in (wanted | values).items():
        if name in place:
            point[place[name]], known[place[name]], held[place[name]] = value, True, name in values
        else:
            slopes[rates[name]], held_rates[rates[name]] = value, name in values
    given_values = np.concatenate([np.where(known, point, np.nan), slopes]).tolist()
    require_within(title, [*zip((*names, *rates), given_values, strict=True)], limits)
    known[[place[name] for name in weak or ()]] = False
    own = {name: limits[name] for name in names if name in limits}
    point = _within(box_of(own, names, title), point, held)
    if system is None:
        problem.start_step(attach(point.copy(), problem.n_diff), time)
        found = index_of(problem, time, point) if problem.index is None else None
        indexed = copy.copy(problem)
        indexed.index = problem.index if found is None else found.index
        system = ProblemJets(indexed, time, point)
        if system.whole and indexed.index is None:
            raise InputError(f"the index of {title} is not known, nor its hidden constraints; declare it")
    lost = [name for name, j in rates.items() if held_rates[j] and (j, 1) not in system.jets]
    if lost:
        raise InputError(f"{lost[0]} of {title} cannot be fixed: lower derivatives tell it; fix those")
    count = len(system.jets)
    start, has, fast = np.zeros(count), np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    nominal = np.broadcast_to(np.asarray(problem.nominal, dtype=np.float64), (n,))
    sizes = np.ones(count)
    for number, (j, k) in enumerate(system.jets):
        sizes[number] = nominal[j] + abs(point[j])
        if k == 0:
            start[number], has[number], fast[number] = point[j], known[j], held[j]
        elif k == 1 and not np.isnan(slopes[j]):
            start[number], has[number], fast[number] = slopes[j], True, held_rates[j]
    alike = "the structure does not tell which equations hide constraints: all were differentiated alike"
    by_differences = "hidden constraints are differentiated by differences; a Model does without"
    remarks = [by_differences] * system.differentiated + [alike] * system.whole
    box = box_of(limits, system.jet_names, title)
    given = _off_bounds(system, Given(_within(box, start, fast), has, fast, sizes, bounds=box))
    task = _Task(
        *(system, given, tuple(names), problem.units, seed, restarts),
        whole=system.whole,
        hidden=weak is not None,
    )
    return _solved(task, remarks)


def _guesses(problem: ProblemDAE, u0: Any, t: float) -> tuple[Vector, npt.NDArray[np.bool_]]:
    """Guesses of the state, and a mask of those that are given."""
    n = problem.n
    if u0 is not None:
        return np.array(problem.state(u0), dtype=np.float64), np.ones(n, dtype=bool)
    starts = getattr(problem, "start_values", None)
    if starts is not None:
        return np.nan_to_num(np.asarray(starts, dtype=np.float64)), np.isfinite(starts)
    try:
        return np.array(problem.state(problem.u_exact(t)), dtype=np.float64), np.ones(n, dtype=bool)
    except InputError:
        return np.zeros(n), np.zeros(n, dtype=bool)


def violations(system: JetSystem, given: Given, x: Vector, hidden: bool = False) -> list[Violation]:
    """Equations that the given values violate for all choices of the other values."""
    # Shapes: x (jets,).
    point, every = np.where(given.known, given.point, x), np.arange(x.size)
    written = np.array(system.row_orders) == 0
    cost = np.where(written & hidden, SEARCH.written_cost, 1.0)
    for _ in range(SEARCH.linear_problems):
        values, matrix = system.values(point), system.jacobian(point)
        scale = _scale(system, given, point)
        if not (np.abs(values) > 10.0 * system.tolerance * scale).any() or given.known.all():
            break
        found = _fewest(matrix, values, given, point, cost)
        if found is None:
            break
        change, kept = found
        better = project(
            point + change,
            system.functions(point + change, every, None, np.flatnonzero(kept)),
            weights=1.0 / given.sizes,
            fixed=given.known,
            tolerance=system.tolerance,
            bounds=given.bounds,
            most_iterations=SEARCH.restart_iterations,
        )
        if not np.isfinite(better.after).all():
            break
        point = better.x
        if better.converged:
            break
    values = system.values(point)
    scale = _scale(system, given, point)
    wrong = np.flatnonzero(~(np.abs(values) <= 10.0 * system.tolerance * scale))
    return [
        Violation(system.row_names[i], float(values[i]), float(scale[i]), system.row_orders[i]) for i in wrong
    ]


def _scale(system: JetSystem, given: Given, x: Vector) -> Vector:
    """Sizes of all equations at a point, to which residuals are relative."""
    functions = system.functions(x, np.arange(x.size), None)
    return functions.sizes(x, system.jacobian(x), given.sizes, system.tolerance)[1]


def _fewest(
    matrix: Any, values: Vector, given: Given, point: Vector, cost_of_row: Vector
) -> tuple[Vector, Booleans] | None:
    """Change of the values that were not given that satisfies most equations, and which it satisfies.

    The weighted sum of the absolute residuals is minimal, and not that of their squares, so that few
    equations are violated. None if the linear program fails.
    """
    scaled = sparse.csc_matrix(matrix)
    if not (np.isfinite(scaled.data).all() and np.isfinite(values).all()):
        return None
    rows = np.sqrt(np.asarray((scaled.multiply(scaled)).sum(axis=1)).ravel())
    rows = np.where(rows > 1e-14 * rows.max(initial=0.0), rows, 1.0)
    sizes = given.sizes[~given.known]
    own = sparse.diags(1.0 / rows) @ scaled[:, np.flatnonzero(~given.known)] @ sparse.diags(sizes)
    rhs = -values / rows
    largest = float(np.abs(rhs).max())
    k, n = own.shape
    both = sparse.hstack([own, sparse.identity(k), -sparse.identity(k)], format="csc")
    bounds = np.zeros((n + 2 * k, 2))
    bounds[:n, 0], bounds[:, 1] = -np.inf, np.inf
    if given.bounds is not None:
        bounds[:n] = ((given.bounds - point)[:, ~given.known] / (largest * sizes)).T
    cost = np.concatenate([np.zeros(n), cost_of_row, cost_of_row])
    found = linprog(cost, A_eq=both, b_eq=rhs / largest, bounds=bounds, method="highs")
    if found.x is None:
        return None
    change = np.zeros(given.point.size)
    change[~given.known] = largest * sizes * found.x[:n]
    return change, found.x[n : n + k] + found.x[n + k :] <= SEARCH.met
