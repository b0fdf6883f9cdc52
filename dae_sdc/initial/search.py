"""Consistent initial values of models and problems, and equations that given values violate."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.optimize import linprog

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.projection import project
from dae_sdc.dae.state import Vector, attach
from dae_sdc.deadline import current, limited, under_way
from dae_sdc.errors import DAEError, InconsistentStateError, InputError
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.initial.block_solutions import BLOCKS
from dae_sdc.initial.consistent import NOT_SOUGHT, Initial, Violation, listed
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
from dae_sdc.initial.jets import JetSystem, ModelJets, jets_of, start_time
from dae_sdc.initial.redundant import left_out, require_implied
from dae_sdc.initial.solver import SEARCH, Booleans, Given, Solver
from dae_sdc.jets.graph import leaf_values
from dae_sdc.registry import unknown

# Largest number of values for which all solutions are sought in order to find the nearest one.
MOST_VALUES_OF_EVERY_START = 200


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
    known, every = list[Vector](), False
    try:
        with limited(None if current() else SEARCH.seconds):
            x = solver.solve()
    except InconsistentStateError:
        if isinstance(system, ModelJets) and solver.restarts:
            known, every = _every_known(task)
        if not known:
            raise
        x = known[0]
    if isinstance(system, ModelJets) and system.replaced and not system.whole.holds_added(x):
        return _solved(replace(task, system=system.whole), remarks)
    solutions, unique = [x], False
    if solver.small:
        free, followed = solver.free(x)
        alone = solver.is_alone(x, free)
        unique = not solver.changes(x) and (alone or solver.is_alone(x, np.flatnonzero(given.known)))
        if solver.restarts and not unique and not solver.is_meant and isinstance(system, ModelJets):
            known, every = (known, every) if known else _every_known(task)
            x = solver.nearer(x, known, every) if known or solver.changes(x) else x
            free, followed = solver.free(x)
            alone = solver.is_alone(x, free)
        is_enough = alone or (unique and task.kept_is_enough)
        others = [] if is_enough else solver.others(x, free, known)
        found = [x, *(filter(system.holds_added, others) if isinstance(system, ModelJets) else others)]
        remarks += [NOT_SOUGHT] * (not is_enough and not solver.restarts)
        # Another solution with the same free values may be nearer, but not be meant.
        nearest = x if solver.is_meant else min(found, key=lambda one: given.distance(one, system.stages))
        x = solver.settled(nearest)
        solutions = [x, *(one for one in found if one is not nearest)]
        if followed:
            named = ", ".join(system.jet_names[j] for j in followed)
            remarks.append(f"fixed values that follow from the others, and agree with them: {named}")
    else:
        remarks.append(NOT_SOUGHT)
        free = np.array(sorted(system.usually_free), dtype=np.int64)
    if isinstance(system, ModelJets):
        if np.isin(system.stages[-1].jets, free).any() and system.is_rounded_around(x, given.sizes):
            raise HiddenByRoundingError(system.title)
        for start in (*solutions, *solver.near(x)):
            require_implied(system, start)
    left = [j for j in free.tolist() if not given.fixed[j] and not (task.whole and system.jets[j][1])]
    return _told(task, solver, left, solutions, remarks, unique=unique)


def _every_known(task: _Task) -> tuple[list[Vector], bool]:
    """All solutions, if homotopies find them quickly, the nearest first, and whether there are no others."""
    system: Any = task.system
    if len(system.jets) > MOST_VALUES_OF_EVERY_START:
        return [], False
    options = replace(BLOCKS, seed=task.seed, random_starts=0, most_paths=BLOCKS.few_paths)
    search = EveryStart(system, task.given, task.preference, options)
    try:
        starts = search.solve()
    except DAEError:  # there is no solution with all values that are taken from guesses
        return [], False
    return [start.x for start in starts], search.complete and not starts[0].chosen


def _told(
    task: _Task,
    solver: Solver,
    free: list[int],
    solutions: Sequence[Vector],
    remarks: Iterable[str],
    further: Iterable[str] = (),
    **more: Any,
) -> Initial:
    """The result from solutions, of which the first is taken."""
    system, given, x = task.system, task.given, solutions[0]
    values = rates = dict(zip(system.jet_names, x.tolist(), strict=True))
    if task.whole:
        # Some derivatives are determined only by equations that are differentiated once more.
        known = np.where(solver.determined(x), x, np.nan)
        rates = dict(zip(system.jet_names, known.tolist(), strict=True))
    guessed = tuple(system.jet_names[j] for j in free if not given.known[j])
    told = [f"nothing was given for what is free: {', '.join(guessed[:6])}"] if guessed else []
    return Initial(
        title=system.title,
        t=system.t,
        names=task.names,
        units=task.units,
        u=np.array([values.get(name, np.nan) for name in task.names]),
        du=np.array([rates.get(_rate(name), np.nan) for name in task.names]),
        values=values,
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


def _every(task: _Task, remarks: list[str], search: EveryStart) -> Initial:
    """The result of a search for all solutions, the one nearest to the given values first."""
    starts = search.solve()
    further = list[str]()
    solver = Solver(task.system, task.given, restarts=0)
    if newton := [block for block in search.blocks if block.kind == "newton"]:
        names = listed([block.equations[0] for block in newton])
        further.append(f"no polynomials, so that solutions may be missing: {names}")
    if lost := sum(block.lost for block in search.blocks):
        further.append(f"solutions may be missing: {lost} paths were lost; try another seed")
    told = [*(one for start in starts for one in start.singular), *search.singular]
    return _told(
        task,
        solver,
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
    own, place, jet_of = system.model, system.place, _jets_by_name(model, system)
    known = {
        (j, k): (value, k in variable.fixed)
        for j, variable in enumerate(model.unknowns())
        for k, value in variable.start.items()
    }
    kept = [name_of(own.names[j], k) for (j, k), (_, is_fixed) in known.items() if is_fixed]
    wanted = numbers("guess", guesses, model.names, f"unknown of {system.title}", kept)
    known |= _known(system.title, jet_of, known, wanted, (values, names))
    limits = bounds_of_model(model, bounds)
    point, has, held, box = _placed(system, own.names, known, weak or (), limits)
    auxiliary = _define(system, point, has, held)
    if nominal is None:
        sizes = np.maximum(1e-6, np.where(point != 0.0, np.abs(point), 1.0))
    else:
        usual = [nominal.get(name, 1.0) for name in own.names]
        sizes = np.abs(point) + np.array([usual[j] for j, _ in system.jets])
    given = _off_bounds(system, Given(point, has, held, sizes, auxiliary, box))
    remarks = [*filter(None, [left_out(model)]), *(f"repaired: {text}" for text in system.repairs)]
    form = model.form()
    first = [place[jet] for jet in (*map(jet_of, wanted), *known) if jet in place]
    preference = list(dict.fromkeys([*first, *system.usually_free, *range(len(place))]))
    task = _Task(
        *(system, given, form.names, form.units, seed, restarts, preference),
        hidden=weak is not None and not every,
        kept_is_enough=kept_is_enough,
        conditions=tuple(map(str, conditions)),
    )
    if every:
        starts = BLOCKS.random_starts if restarts is None else restarts
        options = replace(BLOCKS, seed=seed, workers=workers, comm=comm, random_starts=starts)
        return _every(task, remarks, EveryStart(system, given, preference, options))
    return _solved(task, remarks)


# Values of unknowns and derivatives, by their jets, and whether they are fixed.
Known = dict[tuple[int, int], tuple[float, bool]]


def _known(
    title: str,
    jet_of: Callable[[str], tuple[int, int]],
    before: Known,
    guesses: Mapping[str, float],
    fixed: tuple[Mapping[str, float], Sequence[str]],
) -> Known:
    """What guesses and fixed values say beside values that were known before."""
    known = {jet_of(name): (value, False) for name, value in guesses.items()}
    known |= {jet_of(name): (value, True) for name, value in fixed[0].items()}
    for name in fixed[1]:
        jet = jet_of(name)
        if jet not in known and jet not in before:
            raise InputError(f"{name} of {title} is to be fixed, but has no value; give one")
        known[jet] = (known.get(jet) or before[jet])[0], True
    return known


def _placed(
    system: JetSystem, names: Sequence[str], known: Known, weak: Collection[str], limits: Any
) -> tuple[Any, ...]:
    """Values within their bounds, masks of the known and the fixed ones, and bounds, shape (jets,) each.

    Values whose names are in ``weak`` do not count as known; bounds of fixed ones are widened by round-off.
    """
    place = {jet: number for number, jet in enumerate(system.jets)}
    point, (has, held) = np.zeros(len(place)), np.zeros((2, len(place)), dtype=bool)
    for jet, (value, is_fixed) in known.items():
        at = place.get(jet)
        if at is not None:
            point[at], held[at], has[at] = value, is_fixed, is_fixed or system.jet_names[at] not in weak
        elif is_fixed:
            raise InputError(
                f"{name_of(names[jet[0]], jet[1])} of {system.title} cannot be fixed: it follows from lower "
                f"ones; fix those"
            )
    values = [(system.jet_names[place[jet]], value) for jet, (value, _) in known.items() if jet in place]
    require_within(system.title, values, limits)
    box = box_of(limits, system.jet_names, system.title)
    if box is not None:
        box[0, held], box[1, held] = np.minimum(box[0], point)[held], np.maximum(box[1], point)[held]
        point = np.clip(point, *box)
    return point, has, held, box


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
        found = definition.solve(system.model.graph, leaf_values(system.place, system.known, point)) or ()
        for j, value in zip(definition.unknowns, found, strict=False):
            at = system.place.get((j, 0))
            if at is not None and not held[at]:
                point[at] = value
    return auxiliary


def sets_of_model(
    model: Any, *, fixed: Mapping[str, float] | None, t0: float | None, seed: int, workers: int
) -> tuple[SolutionSet, ...]:
    """Solution sets of the blocks of a model, see :func:`dae_sdc.run.initial.solution_sets`."""
    system = jets_of(model, t0)
    values = split(fixed, model.names, f"unknown of {system.title}")
    known = _known(system.title, _jets_by_name(model, system), {}, {}, values)
    point, _, held, _ = _placed(system, system.model.names, known, (), {})
    own = {at: float(point[at]) for at in np.flatnonzero(held).tolist()}
    return solution_sets(system, own, seed, workers)


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
    time = start_time(problem.interval, t0)
    n, names, title = problem.n, problem.names, problem.name
    point, given = guesses_of_state(problem, u0, time)
    kind = f"unknown of {title}"
    jets = {_rate(name): (j, 1) for j, name in enumerate(names)}
    jets |= {name: (j, 0) for j, name in enumerate(names)}

    def jet_of(name: str) -> tuple[int, int]:
        if name not in jets:
            raise InputError(unknown(kind, name, names))
        return jets[name]

    limits = bounds_of(bounds, names, kind)
    before = {(j, 0): (value, False) for j, value in enumerate(point.tolist()) if given[j]}
    wanted = numbers("guess", guesses, names, kind)
    known = before | _known(title, jet_of, before, wanted, split(fixed, names, kind))
    point[[j for j, k in known if k == 0]] = [value for (_, k), (value, _) in known.items() if k == 0]
    point = np.clip(point, *np.array([limits.get(name, (-np.inf, np.inf)) for name in names]).T)
    if system is None:
        problem.start_step(attach(point.copy(), problem.n_diff), time)
        found = index_of(problem, time, point) if problem.index is None else None
        indexed = copy.copy(problem)
        indexed.index = problem.index if found is None else found.index
        system = ProblemJets(indexed, time, point)
        if system.whole and indexed.index is None:
            raise InputError(f"the index of {title} is not known, nor its hidden constraints; declare it")
        if system.whole and any(k and is_fixed for (_, k), (_, is_fixed) in known.items()):
            indexed.index = int(indexed.index or 0) + 1  # once more, so that all derivatives are determined
            system = ProblemJets(indexed, time, point)
    start, has, held, box = _placed(system, names, known, weak or (), limits)
    nominal = np.broadcast_to(np.asarray(problem.nominal, dtype=np.float64), (n,))
    sizes = np.array([nominal[j] + abs(point[j]) for j, _ in system.jets])
    alike = "the structure does not tell which equations hide constraints: all were differentiated alike"
    by_differences = "hidden constraints are differentiated by differences; a Model does without"
    remarks = [by_differences] * system.differentiated + [alike] * system.whole
    task = _Task(
        system,
        _off_bounds(system, Given(start, has, held, sizes, bounds=box)),
        *(tuple(names), problem.units, seed, restarts),
        whole=system.whole,
        hidden=weak is not None,
    )
    return _solved(task, remarks)


def guesses_of_state(problem: ProblemDAE, u0: Any, t: float) -> tuple[Vector, npt.NDArray[np.bool_]]:
    """Guesses of the state, 0 where there are none, and a mask of those that are given."""
    if u0 is not None:
        return np.array(problem.state(u0), dtype=np.float64), np.ones(problem.n, dtype=bool)
    u = getattr(problem, "start_values", None)
    if u is None:
        u = np.full(problem.n, np.nan)
        with suppress(DAEError):
            u = problem.state(problem.u_exact(t))
    u = np.array(u, dtype=np.float64)
    return np.nan_to_num(u), np.isfinite(u)


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
    values, scale = system.values(point), _scale(system, given, point)
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
