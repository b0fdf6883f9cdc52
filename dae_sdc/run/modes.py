"""Runs through modes of models whose structure changes: each has an index, a start and code of its own."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat, starmap
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.linalg import null_space

from dae_sdc.control.borders import Borders
from dae_sdc.control.events import MOST_SWITCHES, Event, LocateEvents, accurate_slopes, as_events
from dae_sdc.control.hooks import COUNTS, StepRecord
from dae_sdc.control.stepping import SteppingController
from dae_sdc.dae.branches import INITIAL, MESSAGE, TERMINAL, TIE
from dae_sdc.dae.interpolant import DenseOutput, StepData, StepsInRow
from dae_sdc.dae.scales import ROUNDING_OF_TERMS, balanced
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError, InputError, ResultFileError, SolveError, TimeLimitError
from dae_sdc.expressions.dag import MOVING, Leaf, Op, name_and_order
from dae_sdc.initial.jets import jets_of
from dae_sdc.initial.search import initial_of_model
from dae_sdc.model.jumps import timetable_of
from dae_sdc.model.modes import Choice, Mode, choices_of, in_mode
from dae_sdc.run import arcs
from dae_sdc.run.description import SolveOptions
from dae_sdc.run.entering import Landing, Pivoting, landing
from dae_sdc.run.equations import Equations
from dae_sdc.run.execution import CONTROLLER
from dae_sdc.run.method import SOLVERS
from dae_sdc.run.plan import plan_of
from dae_sdc.run.processes import everyone, is_root
from dae_sdc.run.solution import Solution, output_times, put_down_of
from dae_sdc.run.start import Start
from dae_sdc.run.target import calculated
from dae_sdc.run.unknowns import During, events_of
from dae_sdc.sharing import told_before
from dae_sdc.structure.analysis import analyse
from dae_sdc.structure.signature import StructureError
from dae_sdc.sweepers.steps_ahead import Taken

TIME_BEHIND = 8.0 * float(np.finfo(float).eps)  # Relative distance at which conditions of time have changed.
LEAST_PROGRESS = 1e-7  # Length of a mode, relative to that of the run, that counts as progress.
AT_ONCE = 1e-7  # That of an arc in which unknowns with derivatives stay, and another mode may go on longer.
MOST_JUMPS_TOLD = 5  # In the message of a run.
MOST_MODES_TRIED = 64  # Modes that are tried where one is looked for.
MOST_IMPULSES = 8  # Impulses at one time, each from the state behind the one before.
STEPS = (1e-6, 1e-4, 1e-8)  # Steps behind which modes are looked for, in lengths of the run, in this order.
# Move of an unknown, relative to its size, with which it goes on; and value of a border that may be 0.
LARGEST_JUMP = 1e-6
LARGEST_CORRECTION = 1e-8  # Move, relative to the size, by which constraints are met before a jump.
LEAST_SIZE = 1e-9  # Of an unknown, relative to the largest.
VALUE_OF_ZERO = 1e-13  # Value of an unknown, relative to its size, that is 0.
MOST_GROWTH = 4.0  # Of a size of an unknown, from which on an arc is judged anew.
RANK_OF_START = 1e-10  # Singular value of balanced linear equations, relative to the largest, that is 0.
SAID_OF_ARCS = ("start values made consistent", "the run ended at event")  # What is not said of the whole.

Sides = dict[Choice, bool]
Values = Mapping[str, float]
LinearStart = Callable[..., dict[str, float]]


class JumpError(SolveError):
    """Unknowns with derivatives would have to jump into a mode."""


class StructureChangesError(InputError):
    """A model must be solved through its modes, by its choices and discrete unknowns."""

    about: tuple[SolveOptions, Any, list[Choice], list[str]]
    failed: Solution | None  # What the model has given as it is.


def through_modes(error: StructureChangesError, prepared: Any) -> Solution:
    """The solution through modes, or that of the model as it is where this has come farther."""
    try:
        solution = Modes(*error.about, prepared).solution()
    except DAEError:
        if error.failed is None:
            raise
        return error.failed
    return solution if error.failed is None or solution.t[-1] > error.failed.t[-1] else error.failed


def require_one_structure(
    equations: Equations, request: SolveOptions, failed: Solution | StructureError | None = None
) -> None:
    """Raise StructureChangesError for a model to be solved through modes, in a run that can do so."""
    # Where all modes have one index they are needed only by a model that has failed as it is, and those of a
    # function that was read only if it has failed.
    model: Any = equations.whole
    together = request.steps not in (None, 1) or request.coarse_nodes is not None
    fails, u0, alone = failed is not None, request.u0, failed is None or not together
    if fails and not equations.of_model and equations.near is not None and equations.labels:
        u0 = dict(zip(equations.labels, equations.near.tolist(), strict=True))
        alone = alone and all(name == label for name, label in equations.labels.items())
    elif not equations.of_model:
        return
    plain = request.rtol is None and not together  # It finds a singular point where another mode begins.
    unstarted = isinstance(failed, StructureError)  # As it is the model has no start.
    regular = plain and not unstarted and "singular" not in getattr(failed, "message", "")
    other = request.sweeper if request.sweeper in SOLVERS else None
    if (other and not unstarted) or not alone or regular:
        return
    for either in (False, True)[: 1 + fails]:
        choices, numbers, modes = calculated(model, f"choices {either}", partial(choices_of, model, either))
        differ = partial(_differ, (model, *modes))
        needed = fails and equations.of_model and not either
        if modes and (needed or calculated(model, f"structures {either}", differ)):
            changes = f"the structure of model {model.name} changes"
            if other:
                raise InputError(f"{changes}, which '{other}' does not follow; leave sweeper out")
            if plain:
                raise InputError(f"{changes}, which a run to a tolerance follows; give rtol in place of dt")
            if together:
                raise InputError(f"{changes}, which one step on one level follows; give rtol without steps")
            error = StructureChangesError(changes)
            if not equations.of_model:  # whose algebraic unknowns must have values, which are guesses
                held = model.form().names[: model.form().n_diff]
                request = request.changed(guesses=u0)
                u0 = {name: value for name, value in u0.items() if name in held}
            error.about = request.changed(u0=u0, simplify=None), model, choices, numbers
            error.failed = None if isinstance(failed, StructureError) else failed
            raise error


def _differ(models: Iterable[Any]) -> bool:
    """Whether models have several indices or degrees of freedom."""
    kinds: set[Any] = set()
    for model in models:
        try:
            structure = analyse(model)
            kinds.add((structure.regular, structure.index, structure.dof))
        except DAEError:
            kinds.add(None)
        if len(kinds) > 1:
            return True
    return False


def linear_start(model: Any, held: Iterable[str], t: float) -> LinearStart | None:
    """How unknowns follow from those that are held; None where linear constant equations do not tell all."""
    # Those that are held move where hidden constraints want it alone.
    # With the Jacobian J = (H, W) of the equations and their derivatives, with residuals r, in values that
    # are held and others: dh = -(NH)^+ Nr with NW = 0, and dw = -W^+ (r + H dh).
    system = jets_of(model, t)
    part, graph, names, jets = system.part(None), system.model.graph, model.form().names, system.jet_names
    moving = any(graph.mark[slope] & MOVING for slope in part.slopes.values())
    if moving or part.switches or system.repairs or system.is_rounded or not {*names} <= {*jets}:
        return None
    matrix = part.dense(np.zeros(len(jets)), range(len(jets)))
    rows, columns = balanced(matrix)
    scaled, fixed, one = matrix / rows[:, None] / columns, np.isin(jets, list(held)), np.eye(len(matrix))
    follows, inverse = np.linalg.pinv(scaled[:, ~fixed], RANK_OF_START), np.zeros(matrix.T.shape)
    hidden = null_space(scaled[:, ~fixed].T, RANK_OF_START).T
    inverse[fixed] = -np.linalg.pinv(hidden @ scaled[:, fixed], RANK_OF_START) @ hidden
    inverse[~fixed] = -follows @ (one + scaled[:, fixed] @ inverse[fixed])
    wanted, stays = [jets.index(name) for name in names], np.eye(len(jets)) + inverse @ scaled
    free = np.abs(stays[wanted][:, ~fixed]).max(initial=0.0)
    if max(np.abs(one + scaled @ inverse).max(), free) > LARGEST_JUMP:
        return None
    inverse = inverse / columns[:, None] / rows
    timed = np.array([any(leaf.kind == "t" for leaf in graph.leaves_of(root)) for root in part.nodes])
    other = timed * rows * np.random.default_rng(0).uniform(0.5, 1.0, len(rows))
    constant = part.values(np.zeros(len(jets)), t=np.array(t))
    kept = [name for name, on in zip(jets, fixed, strict=True) if on]

    def at(time: float, values: Values, change: float = 0.0) -> dict[str, float]:
        """Values of all unknowns; with a change of what depends on time, by which any other time is told."""
        x = np.zeros(len(jets))
        x[fixed] = [values[name] for name in kept]
        rest = part.values(np.zeros(len(jets)), t=np.array(time)) if timed.any() else constant
        rest = rest + change * other
        for _ in range(2):  # the second time for rounding
            x += inverse @ (matrix @ x + rest)
        return dict(zip(names, x[wanted].tolist(), strict=True))

    return at


class FollowedMode:
    """A mode that was entered before, whose plain arcs are taken by a controller that is made once."""

    def __init__(self, borders: Sequence[str]) -> None:
        self._borders, self.arcs, self._taken = borders, list[SimpleNamespace](), list[Taken]()

    def begin(self, run: tuple[SolveOptions, Equations, Start], arc: Solution) -> None:
        """Go on like an arc that was taken in another way."""
        self._run, self._arc = run, arc
        self._columns = [arc.names.index(name) for name in self._borders]
        self._controller: Any = None
        self._sizes: Vector | None = None  # Of the unknowns in the arc before, by which it was judged.

    def _begun(self) -> SteppingController:
        """The controller without hooks, and with the events of the user alone."""
        setup = plan_of(*self._run, False).setup
        description = setup.with_step(1.0)
        controllers = description["convergence_controllers"]
        located = controllers.pop(LocateEvents, {"events": ()})
        self._events = located["events"][: len(located["events"]) - len(self._columns)]
        if self._events:
            controllers[LocateEvents] = {**located, "events": self._events}
        with told_before():
            controller = SteppingController({**CONTROLLER, "hook_class": [StepRecord]}, description)
        controller.show_stages(False)
        self._n_slopes = accurate_slopes(setup.sweeper_class, setup.problem)
        return controller

    def arc(
        self, values: Values, t: float, stop: float, signs: Sequence[int], largest: Values
    ) -> tuple[SimpleNamespace, list[int]] | None:
        """What is asked of a solution, and the borders it ends at; None where steps are not plain."""
        self._controller = controller = self._controller or self._begun()
        problem: Any = controller.MS[0].levels[0].prob
        scales, names, borders = problem.run_scales, problem.names, Borders(self._columns, signs)
        sizes = np.array([largest.get(name, 0.0) for name in names])
        sizes = np.maximum(sizes, LEAST_SIZE * sizes.max())
        self._sizes = sizes if self._sizes is None else self._sizes
        due = any(event.times is not None and len([*event.times(t, stop)]) for event in self._events)
        if due or (sizes > MOST_GROWTH * self._sizes).any():
            return None
        scales.before[:] = np.maximum(scales.unknowns, sizes, out=scales.unknowns)
        followed = controller.follow(problem.state([values[name] for name in names]), t, stop, borders)
        if followed is None:
            return None
        times = np.concatenate([[t], *(taken.starts + taken.sizes for taken in followed)])
        states = [taken.u[len(taken.nodes) * (k > 0) :: len(taken.nodes)] for k, taken in enumerate(followed)]
        if len(times) > 2:  # as long as the errors of the first steps have let the next be
            controller.adaptivity.params.dt_first = max(np.diff(times[:4]).tolist())
        about: dict[str, Any] = {"names": self._arc.names, "success": True, "events": ()}
        self.arcs.append(arc := SimpleNamespace(t=times, u=np.concatenate(states), **about))
        self._taken += followed
        return arc, borders.crossed

    def solution(self) -> tuple[Solution, tuple[float, ...]]:
        """All arcs as one, with ends of steps that satisfy hidden constraints, and where they begin."""
        before, dense, rows = self._arc, list[StepData](), list[Any]()
        for taken in self._taken:
            m = len(taken.nodes)
            dense += StepsInRow(taken, self._n_slopes)
            ends = taken.starts + taken.sizes, taken.u[m::m], taken.slopes_at_end(), taken.sizes
            rows.append((*ends, taken.residuals, taken.sweeps, taken.counts))
        t, u, du, sizes, *work, counts = map(np.concatenate, zip(*rows, strict=True))
        points = before.equations
        if points is not None and points.at_ends:
            points.correct(t, u, du, -sizes)
            for arc, end in zip(self.arcs, np.cumsum([len(arc.t) - 1 for arc in self.arcs]), strict=True):
                arc.u[-1] = u[end - 1]
        columns = zip(before.per_step.items(), (*work, *counts.T), strict=True)
        per_step = {name: column.astype(kind.dtype) for (name, kind), column in columns}
        stats = {"steps": len(t), "rejected": sum(taken.rejected for taken in self._taken)}
        stats |= {name: int(per_step[name].sum()) for name in COUNTS}
        t0, u0 = float(self.arcs[0].t[0]), self.arcs[0].u[0]
        output = DenseOutput(t0, u0, t, u, dense, np.full_like(u0, np.nan), du, self._n_slopes)
        about: dict[str, Any] = {"t": t, "u": u, "du": du, "per_step": per_step, "stats": stats}
        about["dense"] = before.dense and output
        about["parameters"] = {**before.parameters, "t0": t0, "resumed_at": None}
        return replace(before, **about, message="", events=()), tuple(arc.t[0] for arc in self.arcs)


@dataclass(eq=False)
class Modes:
    """A run of a model through its modes, one after the other."""

    request: SolveOptions
    model: Any
    choices: list[Choice]
    numbers: list[str]  # Discrete unknowns on whose values the structure depends.
    prepared: Callable[[SolveOptions], tuple[SolveOptions, Equations, Start]]
    solutions: list[Any] = field(default_factory=list)  # Or what is asked of those of followed arcs.
    # Choices that have ended which arc, and impulses behind it.
    crossings: list[tuple[Choice | str, Solution]] = field(default_factory=list)
    modes: dict[Any, Mode] = field(default_factory=dict)  # By sides of choices and discrete unknowns.
    distinct: dict[tuple[int, ...], Mode] = field(default_factory=dict)  # By their equations.
    # The sides of the mode that was entered last, by those before it and those that were tried first.
    entered: dict[tuple[Any, ...], Sides] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)  # Of unknowns so far, borders among them.
    # Sides, and values of ``numbers``, of the mode that was entered last.
    last: tuple[Sides, list[float]] = field(default_factory=lambda: ({}, []))
    jumps: list[str] = field(default_factory=list)  # What is told of jumps, and of events between modes.
    linear: dict[Mode, LinearStart | None] = field(default_factory=dict)  # See :func:`linear_start`.
    watched: dict[Mode, list[tuple[Choice, str]]] = field(default_factory=dict)  # Choices and borders.
    pivoting: Pivoting | None = None  # The equations of all modes.
    begun: int = 0  # Arcs, those in modes that were tried too.
    followed: dict[Mode, FollowedMode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        request, model = self.request, self.model
        given = [request.events] if isinstance(request.events, str) else list(request.events or ())
        self.events = [*model.events, *given]
        texts = [text.partition(MESSAGE)[0] if isinstance(text, str) else "terminal=" for text in self.events]
        if any(re.search(r"terminal\s*=", text) for text in texts):
            raise InputError(f"model {model.name} changes its structure: give events as texts, none counted")
        if not isinstance(request.u0, Mapping | None):
            raise InputError(f"model {model.name} changes its structure: give u0 by the names of unknowns")
        if request.checkpoint is not None and not request.resume:
            arcs.forget_arcs(request.checkpoint)
        (first, last), (t0, t_end) = model.interval, (request.t0, request.t_end)
        self.t0, self.t_end = first if t0 is None else float(t0), last if t_end is None else float(t_end)
        self.times = output_times(self.request.t_eval, self.request.points, self.t0, self.t_end)
        self.parameters = model.parameter_values | (request.params or {})
        self.untimed = [choice for choice in self.choices if not choice.is_timed]
        self.timed = [choice for choice in self.choices if choice.is_timed]
        values = self.values = [float(value) for value in self.parameters.values()]
        nodes = [choice.node for choice in self.timed], model.roots
        tables = (timetable_of(model.graph, each, values, self.t0, self.t_end) for each in nodes)
        times, self.jump_times = ([] if table is None else table.times.tolist() for table in tables)
        self.stops = [*times, self.t_end]
        starts = np.array([self.t0, *times])
        # Sides of the choices of time alone, before each of the stops.
        self.timed_sides = self._sides({}, 0.5 * (starts + np.array(self.stops)), self.timed)
        form = model.form()
        self.moving = form.names[: form.n_diff]
        leaves = model.graph.leaves_of(*(choice.node for choice in self.choices))
        self.deciding = {*self.numbers, *(model.names[leaf.index] for leaf in leaves if leaf.kind == "u")}

    def solution(self) -> Solution:
        """The whole solution."""
        unknowns = self.model.unknowns(self.parameters)
        state = {unknown.name: float(unknown.start.get(0, 0.0)) for unknown in unknowns}
        state |= {**(self.request.guesses or {}), **(self.request.u0 or {})}
        sides = {choice: bool(side) for choice, side in self._sides(state, self.t0, self.choices).items()}
        t, ended, ends, stands = self.t0, "", False, 0
        while (behind := t + TIME_BEHIND * abs(t)) < self.t_end:
            stop = self.stops[number := bisect_right(self.stops, behind)]
            timed = {choice: bool(on[number]) for choice, on in self.timed_sides.items()}
            changed = [choice for choice, side in timed.items() if side != sides[choice]]
            self.crossings += [(choice, last) for last in self.solutions[-1:] for choice in changed]
            sides |= timed
            before = [state[name] for name in self.numbers]
            try:
                solution, left, sides = self._entered(t, stop, state, sides)
                self.last = sides, before
            except DAEError as error:
                if not self.solutions:
                    raise
                ended = str(error)
                break
            # Unknowns may have to jump by a source that does, which no step can follow.
            if not solution.success and t < solution.t[-1] and solution.t[-1] in self.jump_times:
                solution = replace(solution, success=True, message="")
                stop = float(solution.t[-1])
            self.solutions.append(solution)
            stands = stands + 1 if solution.t[-1] - t < LEAST_PROGRESS * (self.t_end - self.t0) else 0
            if stands > MOST_SWITCHES:
                lately = dict.fromkeys(self._text(each) for each, _ in self.crossings[-MOST_JUMPS_TOLD:])
                ended = f"modes follow one another again and again at t={t:.10g}, by '"
                ended += "', '".join(lately) + "'; smooth a choice"
                break
            for text, record in zip(self.events, solution.events, strict=False):
                options, _, message = text.partition(MESSAGE)
                ends = ends or (len(record) > 0 and "terminal" in " ".join(options.split(";")[1:]).split())
                if message and len(record) and self._event(text).endswith("terminal"):
                    self.jumps.append(f"{message.strip()} at t={record.t[-1]:.10g}")
            t, state = float(solution.t[-1]), dict(zip(solution.names, solution.u[-1].tolist(), strict=True))
            if ends or not solution.success:
                break
            self.crossings += [(choice, solution) for choice in left]
            sides = sides | {choice: not sides[choice] for choice in left}
        return self._joined(ended)

    def _sides(self, state: Values, t: Any, choices: Sequence[Choice]) -> dict[Choice, Any]:
        """The sides of choices at a state, by its values without derivatives, at a time or at several."""
        graph, names, numbers = self.model.graph.copy(), self.model.names, list(self.parameters.values())

        def value(leaf: Leaf) -> Any:
            if leaf.kind == "u":
                return 0.0 if leaf.order else state.get(names[leaf.index], 0.0)
            return t if leaf.kind == "t" else numbers[leaf.index]

        values = graph.numeric([*(each.border(graph, {}) for each in choices), graph.time()], value)[:-1]
        pairs = zip(choices, values, strict=True)
        return {each: at > 0.0 if each.op is Op.LT else at >= 0.0 for each, at in pairs}

    def _entered(
        self, t: float, stop: float, state: Values, sides: Sides, impulses: int = 0
    ) -> tuple[Any, list[Choice], Sides]:
        """The arc in the mode that is consistent with a state, the borders at its end, and its sides."""
        wanted, failure = (*self.last[0].values(), *sides.values()), ""
        near = [self.entered[wanted]] if wanted in self.entered else []
        # Modes with choices changed that were wrong, those into which unknowns jump, and what ends at once.
        flipped, jumping, brief = list[Sides](), list[Sides](), list[tuple[Any, ...]]()
        # Choices whose borders lie on the other side in a mode, and modes that were tried.
        back, seen = dict[str, None](), set[tuple[bool, ...]]()
        plain = chain(near, [sides], self._pivoted(t, state, sides), flipped)
        for jumps, sides in chain(zip(repeat(False), plain), zip(repeat(True), jumping)):
            if not jumps and (tuple(sides.values()) in seen or len(seen) >= MOST_MODES_TRIED):
                continue
            seen.add(tuple(sides.values()))
            try:
                mode, start, landed = self._start(t, state, sides, jumps)
                values = {name: np.array([value]) for name, value in start.items()}
                forces = {} if landed is None else landed.impulses
                pairs = zip(self.untimed, mode.borders, strict=True)
                if any(name in forces and (forces[name] > 0.0) is not sides[each] for each, name in pairs):
                    continue  # backward through a choice
                ends = False
                if not (wrong := self._wrong(mode, sides, values)):
                    arc, left = self._arc(mode, start, t, stop, sides, state)
                    if arc.events and len(arc.t) > 1:  # at whose end an event may have changed the state
                        wrong = self._wrong(mode, sides, dict(zip(arc.names, arc.u[:-1].T, strict=True)))
                    if not arc.success and len(arc.t) < 2:
                        raise SolveError(arc.message)
                    ends = bool(left) and arc.t[-1] - t < AT_ONCE * (self.t_end - self.t0)
                    last = dict(zip(arc.names, arc.u[-1].tolist(), strict=True))
                    for name in self.moving if ends else ():
                        if name in last and not self._stays(name, start[name], last[name], LARGEST_JUMP):
                            raise SolveError(
                                f"'{name}' changes from {start[name]:.6g} at once by rounding errors; "
                                f"give a state there by an event"
                            )
            except DAEError as error:
                if isinstance(error, TimeLimitError | ResultFileError):
                    raise
                jumping += [sides] * (isinstance(error, JumpError) and not jumps and bool(self.solutions))
                failure = failure or str(error)
                continue
            if landed is not None:
                self._tell(t, state, sides, landed, mode)
                if (wrong or ends) and impulses < MOST_IMPULSES:
                    return self._entered(t, stop, {**state, **start}, sides, impulses + 1)
            if wrong:
                back |= dict.fromkeys(map(self._text, wrong))
                flipped.append(sides | {choice: not sides[choice] for choice in wrong})
                continue
            brief.insert(len(brief) * ends, (arc, left, sides))
            if not ends:
                break
        if not brief:
            failure = "; ".join([failure] * bool(failure) + [f"'{text}' leads back" for text in back])
            raise SolveError(
                f"no mode goes on from t={t:.10g}, of {len(seen)} that were tried ({failure}); give a state "
                f"there by an event"
            )
        arc, left, sides = brief[0]
        for name, size in zip(arc.names, np.abs(arc.u).max(axis=0).tolist(), strict=True):
            self.largest[name] = max(self.largest.get(name, 0.0), size)
        self.entered[wanted] = sides
        return arc, left, sides

    def _pivoted(self, t: float, state: Values, sides: Sides) -> Iterator[Sides]:
        """The modes behind small steps from a state."""
        place, borders = self.model._index, next(iter(self.distinct.values())).borders
        jets = ((state[each], *name_and_order(each)) for each in state)
        values = {(place[name], order): value for value, name, order in jets if name in place}
        largest = dict(zip(self.untimed, map(self._size, borders), strict=True))
        last = self.last[0] or sides  # a regular mode
        begin = np.array([(sides if choice.is_timed else last)[choice] for choice in sides], dtype=float)
        sizes = np.array([largest.get(choice) or 1.0 for choice in sides])
        for part in STEPS if self.untimed else ():
            self.pivoting = self.pivoting or Pivoting(self.model, self.choices, self.values)
            behind = self.pivoting.behind(values, t, part * (self.t_end - self.t0), begin, sizes)
            if behind is not None:
                yield dict(zip(sides, (behind > 0.5).tolist(), strict=True))

    def _wrong(self, mode: Mode, sides: Sides, every: Mapping[str, Vector]) -> list[Choice]:
        """The choices whose borders are not on their sides, but for errors."""
        part, wrong = max(LARGEST_JUMP, 10.0 * (self.request.rtol or 0.0)), []
        least = LEAST_SIZE * float(np.abs(list(every.values())).max())
        for choice, name in zip(self.untimed, mode.borders, strict=True):
            values = every[name] if sides[choice] else -every[name]
            size = max(self._size(name), least, float(np.abs(values).max()) if len(values) > 1 else 0.0)
            if values.min() < -part * size:
                wrong.append(choice)
        return wrong

    def _size(self, name: str) -> float:
        """Size of an unknown so far; those that were nothing but rounding have a part of the largest one."""
        return max(self.largest.get(name, 0.0), LEAST_SIZE * max(self.largest.values(), default=0.0))

    def _tell(self, t: float, state: Values, sides: Sides, landed: Landing, mode: Mode) -> None:
        """Note a jump: which unknowns, by which equations, and the impulses."""
        graph, model, (last, numbers) = self.model.graph, self.model, self.last
        changed = {choice.node for choice in sides if sides[choice] is not last.get(choice, sides[choice])}
        pairs = zip(self.numbers, numbers, strict=True)
        changed |= {graph.variable(model._index[name], 0) for name, old in pairs if state[name] != old}
        roots = zip(model.equation_names, model.roots, strict=True)
        equations = [name for name, root in roots if not changed.isdisjoint(graph.below([root]))]
        jumps = list[str]()
        for name in self.moving:
            old, new = state.get(name, 0.0), landed.values.get(name, state.get(name, 0.0))
            if not self._stays(name, old, new, LARGEST_JUMP):
                new = 0.0 if self._stays(name, 0.0, new, LARGEST_JUMP) else new  # not -0.0
                jumps.append(f"'{name}' jumps from {old:.6g} to {new:.6g}")
        impulses = {name: size for name, size in landed.impulses.items() if name not in mode.borders}
        sizes = ", ".join(f"{size:.6g} of '{name}'" for name, size in impulses.items())
        where = " by '" + "', '".join(equations) + "'" if equations else ""
        self.jumps.append(f"at t={t:.10g} {', '.join(jumps)}{where}{', impulse ' * bool(sizes)}{sizes}")
        self.crossings += [(f"impulse of '{name}'", self.solutions[-1]) for name in impulses]

    def _start(
        self, t: float, state: Values, sides: Sides, jumps: bool
    ) -> tuple[Mode, dict[str, float], Landing | None]:
        """A mode, its values at a time, and how they jump; JumpError where they must and may not."""
        numbers = {name: state[name] for name in self.numbers}
        key = tuple(sides.values()), tuple(numbers.values())
        if key not in self.modes:
            mode = in_mode(self.model, sides, numbers, self.parameters)
            equations = tuple(mode.model.graph.value[root] for root in mode.model.roots)
            self.modes[key] = self.distinct.setdefault(equations, mode)
        mode, request = self.modes[key], self.request
        names = mode.model.form().names
        state = {name: x * (abs(x) > VALUE_OF_ZERO * self._size(name)) for name, x in state.items()}
        behind = t + TIME_BEHIND * abs(t)
        if not self.solutions:
            held = dict(request.u0 or {})
            guesses = {**held, **(request.guesses or {})}
            values = initial_of_model(mode.model, fixed=request.fixed, guesses=guesses, t0=t).values
        else:
            held = {name: state[name] for name in self.moving if name in state}
            values = self._nearest(mode, behind, state, held)
        landed: Any = None
        # Constraints are met but for errors, or to the tolerance where no finite impulse leads onto them.
        for part in (LARGEST_CORRECTION, min(LARGEST_JUMP, request.rtol or LARGEST_JUMP)) if jumps else ():
            both = held.keys() & values.keys()
            met = {n: values[n] for n in both if self._stays(n, held[n], values[n], part)}
            with suppress(*[SolveError] * (part == LARGEST_CORRECTION)):
                landed = landing(mode.model.problem(), {**held, **met}, t, self.t_end - self.t0)
                break
        if jumps:
            held = {name: landed.values[name] for name in held if name in landed.values}
            values = self._nearest(mode, behind, {**state, **held}, held)
        for name, value in held.items():
            if name in values and not self._stays(name, value, values[name], LARGEST_JUMP):
                raise JumpError(
                    f"'{name}' would jump from {value:.6g} to {values[name]:.6g}; change it by an event"
                )
        # Rounding beside what unknowns were so far would be taken for their size.
        least = {name: VALUE_OF_ZERO * self._size(name) for name in names}
        return mode, {name: float(values[name] * (abs(values[name]) > least[name])) for name in names}, landed

    def _nearest(self, mode: Mode, t: float, state: Values, held: Values) -> Mapping[str, float]:
        """Consistent values near a state, whose held unknowns move where constraints want it alone."""
        if (linear := self._linear(mode, t)) is not None:
            return linear(t, state)
        names = mode.model.form().names
        guesses = {name: state[name] for name in names if name in state and name not in mode.borders}
        weak = [name for name in names if name not in held]
        return initial_of_model(mode.model, guesses=guesses, weak=weak, restarts=0, t0=t).values

    def _linear(self, mode: Mode, t: float) -> LinearStart | None:
        """How unknowns of a mode follow from those that are held, see :func:`linear_start`."""
        if mode not in self.linear:
            self.linear[mode] = linear_start(mode.model, self.moving, t)
        return self.linear[mode]

    def _watched(self, mode: Mode, t: float) -> list[tuple[Choice, str]]:
        """Choices with their borders in a mode, but those whose linear equations have them at 0 all along."""
        if mode not in self.watched:
            pairs, linear = list(zip(self.untimed, mode.borders, strict=True)), self._linear(mode, t)
            rng = np.random.default_rng(1)
            held = {name: (self._size(name) or 1.0) * rng.uniform(0.5, 1.0) for name in self.moving}
            values = {} if linear is None else linear(t, held, 1.0)
            least = VALUE_OF_ZERO * max(map(abs, values.values()), default=0.0)
            self.watched[mode] = [pair for pair in pairs if abs(values.get(pair[1], 1.0)) > least]
        return self.watched[mode]

    def _stays(self, name: str, value: float, other: float, part: float) -> bool:
        """Whether two values of an unknown are equal but for a part of its size."""
        return abs(other - value) <= part * max(abs(value), self._size(name))

    def _arc(
        self, mode: Mode, start: Values, t: float, stop: float, sides: Sides, state: Values
    ) -> tuple[Any, list[Choice]]:
        """The solution in a mode, until borders are left, the structure changes, or the run ends."""
        self.begun += 1
        begin = float(np.nextafter(t, np.inf)) if self.solutions else t  # behind what has happened there
        watched = self._watched(mode, t)
        if mode in self.followed:
            signs = [1 if sides[choice] else -1 for choice, _ in watched]
            if (plain := self.followed[mode].arc(start, begin, stop, signs, self.largest)) is not None:
                return plain[0], [watched[number][0] for number in plain[1]]
        events = [self._event(text, stop) for text in self.events]
        events += [f"{name}; {'falling' if sides[on] else 'rising'}; terminal" for on, name in watched]
        mode.model.interval = (self.model.interval[0], self.model.interval[1])
        options: dict[str, Any] = dict.fromkeys(("fixed", "guesses", "params", "t_eval", "points", "out"))
        options |= {"problem": mode.model, "u0": start, "t0": begin, "t_end": stop, "events": events}
        options["dense"] = self.times is not None or self.request.dense
        if self.request.checkpoint is not None:
            options["checkpoint"] = arcs.checkpoint_of_arc(self.request.checkpoint, self.begun, "mode")
        run = request, equations, begun = self.prepared(self.request.changed(**options))
        problem: Any = equations.problem
        problem.run_scales.before[:] = [self.largest.get(name, 0.0) for name in problem.names]
        if self.solutions:
            states = [[values.get(name, start[name]) for name in problem.names] for values in (state, start)]
            located = as_events(events_of(request.events, problem, equations.unknowns, During(begin, stop)))
            slacks = [TIE] * len(self.events) + [ROUNDING_OF_TERMS * self._size(name) for _, name in watched]
            each = zip(located, slacks, repeat(t), *(repeat(problem.state(values)) for values in states))
            request = request.changed(events=[*starmap(_with_side, each)])
        arc = arcs.in_arcs(request, equations, begun, False)
        looks = len(request.hooks) or request.controller_params or equations.simplified
        linear = self.linear.get(mode) is not None and problem.form.jumps is None
        if linear and not looks and arc.success and {*problem.names} <= start.keys():
            self.followed.setdefault(mode, FollowedMode([name for _, name in watched])).begin(run, arc)
        records = arc.events[len(self.events) :]
        return arc, [choice for (choice, _), record in zip(watched, records, strict=True) if len(record)]

    def _event(self, text: str, stop: float = np.inf) -> str:
        """An event of the run for an arc, which it ends where it changes the structure."""
        for moment, is_other in ((INITIAL, bool(self.solutions)), (TERMINAL, stop < self.t_end)):
            text = text.replace(moment, f"(time < {self.t0 - 1.0!r})") if is_other else text
        parts = text.partition(MESSAGE)[0].split(";")
        changes = [part.partition("=")[0].rstrip(": ").strip() for part in parts[1:] if "=" in part]
        # With a message a terminal event would be a failure.
        ends = not self.deciding.isdisjoint(changes)
        return f"{';'.join(parts).rstrip('; ')}; terminal" if ends else text

    def _text(self, crossing: Choice | str) -> str:
        """The text of a choice, or of an impulse."""
        return crossing if isinstance(crossing, str) else self.model.texts([crossing.node])[0]

    def _joined(self, ended: str) -> Solution:
        """All arcs as one solution, with the unknowns that all modes have."""
        every, solved, parts = self.solutions, list[tuple[Any, tuple[float, ...]]](), list[arcs.Arc]()
        borders = {name for mode in self.distinct.values() for name in mode.borders}
        shared = set(every[0].names).intersection(*{part.names for part in every}) - borders
        names, last = tuple(name for name in every[0].names if name in shared), len(every) - 1
        runs = [(number, part) for number, part in enumerate(every) if isinstance(part, Solution)]
        for number, part in runs:
            if part.success:
                hidden: tuple[str, ...] = SAID_OF_ARCS if number < last else SAID_OF_ARCS[:1]
                hidden += tuple(f"the run ended at event '{name}'" for name in borders)
                said = [piece for piece in part.message.split("; ") if not piece.startswith(hidden)]
                named = "|".join(f", {name}\\b" for name in borders) or "$"
                part = replace(part, message=re.sub(named, "", "; ".join(said)))
            if number < last and part.dense is not None and part.dense.behind is not None:
                # Values at the end of an arc are those before what changes there.
                dense = replace(part.dense, behind=None)
                end = dense.values[-1] if len(dense.values) else dense.u0
                part = replace(part, u=np.vstack([part.u[:-1], end]), dense=dense)
            solved.append((part, (part.parameters["t0"],)))
        followed = [mode.solution() for mode in self.followed.values() if mode.arcs]
        for part, begins in [solved[0], *followed, *solved[1:]]:
            columns = np.array([part.names.index(name) for name in names])
            mode: Any = arcs.Mode(None, columns, (), names)  # type: ignore[arg-type]
            parts.append(arcs.Arc(mode, part, None, begins))
        more = len(self.jumps) - MOST_JUMPS_TOLD
        told = [f"{len(self.distinct)} modes of the structure were analysed", *self.jumps[:MOST_JUMPS_TOLD]]
        told += [f"and {more} more jumps"] * (more > 0)
        texts = {each: self._text(each) for each in {each for each, _ in self.crossings}}
        crossings = [
            (texts[each], float(arc.t[-1]), arc.u[-1, [arc.names.index(name) for name in names]])
            for each, arc in self.crossings
        ]
        whole = arcs.joined(parts, len(self.events), None, told, crossings, ended)
        written = zip(whole.events, (text.partition(";")[0].strip() for text in self.events), strict=True)
        whole = replace(whole, events=tuple(replace(record, name=name) for record, name in written))
        algebraic = [name for name in names if name in whole.parameters["algebraic"]]
        about = {"problem": self.model.name, "names": list(names), "units": list(whole.units)}
        about |= {"algebraic": algebraic, "n_diff": len(names) - len(algebraic)}
        whole = replace(whole, parameters={**whole.parameters, **about, "t_end": self.t_end})
        times, kept = self.times, None if self.request.dense is False else whole.dense
        out = self.request.out if is_root(everyone(self.request.parallel, self.request.comm)) else None
        return put_down_of(replace(whole if times is None else whole.at(times), dense=kept), out)


def _with_side(event: Event, slack: float, t: float, before: Any, behind: Any) -> Event:
    """An event that has happened where the state has changed by another mode, and begins with a slack."""
    old, new = event.function(before, t), event.function(behind, t)
    moves = abs(new - old) > LARGEST_CORRECTION * np.abs(behind).max()
    return replace(event, slack=slack, side=int(np.sign(old)) * (old * new < 0.0 and moves))
