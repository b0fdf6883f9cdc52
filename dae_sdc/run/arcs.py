"""Runs in arcs: where both sides of a switch lead back to it, the solution slides along it for a while."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.control.events import LEAST_PROGRESS_OF_SWITCHES, MOST_SWITCHES, Event, EventRecord
from dae_sdc.dae.interpolant import DenseOutput
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import DAEError, InputError, SolveError
from dae_sdc.run.description import SolveOptions
from dae_sdc.run.equations import Equations
from dae_sdc.run.execution import Carried, carried_out
from dae_sdc.run.plan import Plan, plan_of
from dae_sdc.run.resume import SUFFIX
from dae_sdc.run.solution import Solution, output_times, put_down_of
from dae_sdc.run.start import Start
from dae_sdc.run.target import Target
from dae_sdc.sweepers.restart import RESTART_STEP, consistent_restart

if TYPE_CHECKING:
    from dae_sdc.control.events import LocateEvents, Sliding
    from dae_sdc.model.modes import Slide

BESIDE_VALUES = 1e-6  # Distance from the values of a jump, in their difference, up to which it may slide.


class NotSimplifiedError(InputError):
    """A run must have all unknowns of its model, those that depend on where the solution slides too."""


def in_arcs(request: SolveOptions, equations: Equations, start: Start, measured: bool) -> Solution:
    """The solution of equations from their start, along borders where both sides lead back to them."""
    if request.checkpoint is not None and not request.resume:
        forget_arcs(request.checkpoint)
    carried = carried_out(plan_of(request, equations, start, measured))
    if carried.located is None or carried.located.sliding is None:
        return carried.solution
    if equations.simplified is not None:
        raise NotSimplifiedError(f"the solution slides along a switch; t={carried.located.sliding.t:.10g}")
    return _Arcs(request, equations, start, carried.located.params.events).followed(carried)


def checkpoint_of_arc(checkpoint: Any, number: Any, kind: str = "arc") -> Path:
    """The file of the checkpoints of a later arc, or of one in a mode, beside that of the first."""
    path = Path(checkpoint)
    return path.with_name(f"{path.name.removesuffix(SUFFIX)}.{kind}{number}{SUFFIX}")


def forget_arcs(checkpoint: Any) -> None:
    """Delete the files of arcs of an earlier run."""
    for kind in ("arc", "mode") if Path(checkpoint).name else ():  # others are refused where it is opened
        beside = checkpoint_of_arc(checkpoint, "", kind)
        for path in beside.parent.glob(f"{escape(beside.stem)}*{SUFFIX}"):
            path.unlink(missing_ok=True)  # by another rank perhaps


@dataclass(frozen=True, eq=False)
class Mode:
    """Equations in which some jumps slide."""

    equations: Equations
    columns: NDArray[np.int64]  # Places of the unknowns of the run in the state.
    nodes: tuple[int, ...]  # For each switch the node of its jump in the graph of the written equations.
    names: tuple[str, ...]  # Of the unknowns of the run, in these equations.
    slides: tuple[Slide, ...] = ()  # Inner ones first.
    shares: tuple[str, ...] = ()  # Unknowns that are the values of these jumps.

    def shares_of(self, u: Any) -> list[float]:
        """Values of the jumps that slide, in a state."""
        return [float(u[self.equations.problem.names.index(share)]) for share in self.shares]


@dataclass(frozen=True, eq=False)
class Arc:
    """A part of a run in one mode."""

    mode: Mode
    solution: Solution
    located: LocateEvents | None
    begins: tuple[float, ...]  # Several, where the solution has the steps of more than this arc.


@dataclass(eq=False)
class _Arcs:
    """The arcs of a run, one after the other."""

    request: SolveOptions
    equations: Equations
    start: Start
    events: tuple[Event, ...]
    arcs: list[Arc] = field(default_factory=list)
    modes: dict[tuple[Slide, ...], Mode] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    crossings: list[tuple[str, float, Vector]] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem: Any = self.equations.problem
        self.problem, self.jumps = problem, problem.form.jumps
        nodes = tuple(self.jumps.jumps[i].node for i in self.jumps.watched)
        self.modes[()] = Mode(self.equations, np.arange(problem.n), nodes, problem.names)
        self.least = LEAST_PROGRESS_OF_SWITCHES * (self.start.t_end - self.start.t0)
        self.sizes = np.zeros(problem.n)
        self.labels = {label: name for name, label in self.equations.labels.items()}
        self.times = output_times(self.request.t_eval, self.request.points, self.start.t0, self.start.t_end)

    def followed(self, first: Carried) -> Solution:
        """The whole solution, from its first arc on."""
        self._keep(self.modes[()], first)
        ended, last, stands = "", self.start.t0, 0
        while self.arcs[-1].solution.success:
            try:
                following = self._following(self.arcs[-1])
            except DAEError as error:
                ended = str(error)
                break
            if following is None or not following[1].t0 < self.start.t_end:
                break
            mode, start = following
            stands = 0 if start.t0 - last > self.least else stands + 1
            last = start.t0
            if stands > MOST_SWITCHES:
                ended = f"the solution slides and leaves again and again at t={last:.10g}; smooth the switch"
                break
            try:
                self._keep(mode, carried_out(self._plan(mode, start)))
            except BaseException as error:  # what has been computed is kept in its file
                self._put_down(f"ended by {type(error).__name__}")
                raise
        return self._put_down(ended)

    def _put_down(self, ended: str) -> Solution:
        whole = joined(self.arcs, len(self.events), self.times, self.told, self.crossings, ended)
        return put_down_of(whole, self.request.out)

    def _keep(self, mode: Mode, carried: Carried) -> None:
        begins = (carried.solution.parameters["t0"],)
        self.arcs.append(Arc(mode, carried.solution, carried.located, begins))
        if carried.sizes is not None:
            np.maximum(self.sizes, carried.sizes[mode.columns], out=self.sizes)

    def _following(self, arc: Arc) -> tuple[Mode, Start] | None:
        """The mode after an arc, and where it begins; None where the run has ended."""
        located, mode = arc.located, arc.mode
        if located is None:
            return None
        sides = dict(zip(mode.nodes, (watch.side for watch in located.switches), strict=True))
        if located.sliding is not None:
            return self._entered(arc, located.sliding, sides)
        for number, watch in enumerate(located.events[len(self.events) :]):
            if watch.times:  # a jump is left for the side with one of its values
                slide, t, u = mode.slides[number // 2], watch.times[-1], watch.states[-1]
                following = self._mode(tuple(other for other in mode.slides if other is not slide))
                self.crossings.append((slide.name, t, u[mode.columns]))
                sides |= slide.sides(slide.values[number % 2])
                return following, self._begin(following, mode, t, u, sides, slide.on_border)
        return None

    def _entered(self, arc: Arc, sliding: Sliding, sides: Mapping[int, int]) -> tuple[Mode, Start]:
        """The mode that slides along one switch more, and where it begins."""
        # Of switches that change ever faster together, the one whose border has the others for derivatives.
        assert arc.located is not None
        since, failure, watches = sliding.t - self.least, None, arc.located.switches
        together = [k for k, watch in enumerate(watches) if watch.times and watch.times[-1] >= since]
        for switch in dict.fromkeys([sliding.switch, *together]):
            try:
                return self._along(arc.mode, self._slide(arc.mode, switch, sliding), sliding, sides)
            except DAEError as error:
                failure = failure or error
        assert failure is not None
        raise failure

    def _slide(self, mode: Mode, switch: int, sliding: Sliding) -> Slide:
        """How a solution slides along a switch, with all jumps that have its border."""
        from dae_sdc.model.modes import Slide, same_borders, stand_out

        problem: Any = mode.equations.problem
        model: Any = self.equations.model
        known, taken = self.jumps.jumps, {node for slide in mode.slides for node in slide.sides(1.0)}
        number = next(k for k, jump in enumerate(known) if jump.node == mode.nodes[switch])
        jump, name = known[number], self.jumps.names[number]
        if np.isnan(jump.values[0]):
            return Slide(jump, name, round(problem.floor_argument(switch, sliding.u, sliding.t)))
        signs = zip(known, same_borders(model.graph, known, jump), strict=True)
        group = [(each, sign) for each, sign in signs if sign and each.node not in taken]
        on_border = len(group) > 1 and stand_out(model.graph, model.roots, group)
        inner = next((each for each, _ in group if each.values[0] < 0.0), None)
        if on_border and inner is None:
            why = "it rests there by a value of its own, whose end is not known; write it as S*sign(v)"
            raise _chattering(name, sliding.t, why)
        leader = inner if on_border and inner is not None else jump
        along = next(sign for each, sign in group if each is leader)
        beside = tuple((each, sign * along) for each, sign in group if each is not leader)
        return Slide(leader, self.jumps.names[known.index(leader)], beside=beside, on_border=on_border)

    def _along(self, mode: Mode, slide: Slide, at: Sliding, sides: Mapping[int, int]) -> tuple[Mode, Start]:
        """The mode that slides along a switch too, and where it begins; SolveError where it does not."""
        name, numbers = slide.name, {jump.node: number for number, jump in enumerate(self.jumps.jumps)}
        slides = sorted((*mode.slides, slide), key=lambda slide: numbers[slide.jump.node])
        try:
            other = self._mode(tuple(slides))
            begin = self._begin(other, mode, at.t, at.u, sides)
        except DAEError as error:
            raise _chattering(name, at.t, str(error)) from error
        for slide, value in zip(slides, other.shares_of(begin.u), strict=True):
            low, high = sorted(slide.values)
            if not low - BESIDE_VALUES * (high - low) <= value <= high + BESIDE_VALUES * (high - low):
                raise _chattering(slide.name, at.t, "no value between its two keeps the solution there")
        if not self.crossings:
            self.told.append(f"the solution slides along '{name}' from t={at.t:.10g} on")
        self.crossings.append((name, at.t, np.array(at.u)[mode.columns]))
        return other, begin

    def _begin(
        self, mode: Mode, before: Mode, t: float, u: Vector, sides: Mapping[int, int], jumps: bool = False
    ) -> Start:
        """Where a mode begins after another one, with the sides in force of the switches that both have."""
        from dae_sdc.initial.search import initial_of_model

        problem: Any = mode.equations.problem
        state = np.asarray(u)[before.columns]
        if mode.slides:
            guesses = dict(zip(mode.names, state.tolist(), strict=True))
            shares = dict(zip(before.slides, before.shares_of(u), strict=True))
            of_shares = zip(mode.slides, mode.shares, strict=True)
            guesses |= {name: shares[slide] for slide, name in of_shares if slide in shares}
            weak = [name for name, alone in zip(mode.names, self.problem.is_algebraic, strict=True) if alone]
            search: dict[str, Any] = {"guesses": guesses, "weak": (*weak, *mode.shares), "t0": t}
            start = initial_of_model(mode.equations.model, restarts=0, **search)
            state = np.array([start.values[name] for name in problem.names])
        problem.run_scales.before[mode.columns] = self.sizes
        state, in_force = problem.state(state), None
        if mode.nodes:
            problem.hold_sides(None)
            pairs = zip(mode.nodes, problem.sides(state, t), strict=True)
            in_force = tuple(sides.get(node, side) for node, side in pairs)
            problem.hold_sides(in_force)
        if jumps:
            state = consistent_restart(problem, state, t, RESTART_STEP * self.least**0.5)
        return replace(Start.at(problem, state, (t, self.start.t_end)), sides=in_force)

    def _mode(self, slides: tuple[Slide, ...]) -> Mode:
        """The equations that slide along borders, made when they are first needed."""
        from dae_sdc.model.modes import sliding

        if slides not in self.modes:
            model, problem = self.equations.model, self.problem
            slid = {node for slide in slides for node in slide.sides(1.0)}
            assert model is not None
            numbers = np.asarray(problem.equation_parameters(), dtype=np.float64).tolist()
            values = dict(zip(model.parameters_by_name, numbers, strict=True))
            others = [jump for jump in self.jumps.jumps if jump.node not in slid]
            along = sliding(model, slides, others, values)
            along.model.interval = (problem.interval[0], problem.interval[1])
            settings = {"newton_tol": problem.newton_tol, "newton_maxiter": problem.newton_maxiter}
            other: Any = Target(along.model).make_problem(settings)
            names = [self.labels.get(name, name) for name in problem.names]
            columns = np.array([other.names.index(name) for name in names])
            jumps = getattr(other.form, "jumps", None)
            watched = [] if jumps is None else [jumps.jumps[i].node for i in jumps.watched]
            nodes = tuple(along.places.get(node, -1) for node in watched)
            equations = Equations(other, along.model, of_model=True)
            self.modes[slides] = Mode(equations, columns, nodes, tuple(names), slides, along.shares)
        return self.modes[slides]

    def _plan(self, mode: Mode, start: Start) -> Plan:
        """The plan of an arc, whose events know how often they have happened."""
        events = []
        for k, event in enumerate(self.events):
            happened = sum(len(arc.located.events[k].times) for arc in self.arcs if arc.located)
            events.append(replace(event, terminal=event.last - happened if event.last else 0))
        if mode.slides:
            events = [*(_of_mode(event, mode, self.problem) for event in events), *_leaving(mode)]
        times = None if self.times is None else self.times[self.times > start.t0]
        if times is not None and not len(times):
            times = np.array([self.start.t_end])
        interval: dict[str, Any] = {"t0": start.t0, "t_end": start.t_end, "t_eval": times, "points": None}
        others: dict[str, Any] = dict.fromkeys(("u0", "params", "dt", "out"))
        if self.request.checkpoint is not None:
            others["checkpoint"] = checkpoint_of_arc(self.request.checkpoint, len(self.arcs))
        request = self.request.changed(events=(), **interval, **others)
        return plan_of(request, mode.equations, start, False, tuple(events))


def joined(
    arcs: Sequence[Arc], count: int, times: Vector | None, told: Sequence[str], crossings: Any, ended: str
) -> Solution:
    """All arcs as one solution with as many events, and what has to be told of it."""
    first, parts = arcs[0], [_rows(arc, times, not number) for number, arc in enumerate(arcs)]
    order = np.argsort(np.concatenate([part[0] for part in parts]), kind="stable")
    t, u, du = (np.concatenate([part[k] for part in parts])[order] for k in range(3))
    work = {name: np.concatenate([part[3][name] for part in parts]) for name in first.solution.per_step}
    per_step = {name: counts[order] for name, counts in work.items()}
    solutions = [arc.solution for arc in arcs]
    names = dict.fromkeys(name for solution in solutions for name in solution.stats)
    stats = {name: sum(solution.stats.get(name, 0) for solution in solutions) for name in names}
    stats["arcs"], last = sum(len(arc.begins) for arc in arcs), solutions[-1]
    success = last.success and not ended
    texts = [*told, *(piece for arc in arcs for piece in _said(arc, count))]
    firsts = {text.partition(" at t=")[0]: text for text in reversed(texts)}  # of what is told several times
    message = "; ".join(reversed(firsts.values())) if success else ended or last.message
    missing = any(solution.equations is None for solution in solutions)
    log = {key: value for solution in solutions for key, value in solution.log.items()}
    located = [arc for arc in arcs if arc.solution.events]  # None was in modes that were entered before.
    columns = ([_of_run(record, arc.mode) for record in arc.solution.events[:count]] for arc in located)
    events = tuple(map(_merged, zip(*columns, strict=True)))
    records = [_of_run(record, arc.mode) for arc in arcs for record in arc.solution.switches]
    way = np.zeros(1, np.int64)
    records += [EventRecord(name, np.array([at]), state[None], way) for name, at, state in crossings]
    by_name: dict[str, list[EventRecord]] = {record.name: [] for record in first.solution.switches}
    for record in records:
        by_name.setdefault(record.name, []).append(record)
    resumed = [entry for part in solutions if (entry := part.parameters.get("resumed_at")) is not None]
    begun, columns_of_run = first.solution, first.mode.columns
    about: dict[str, Any] = {"names": tuple(begun.names[column] for column in columns_of_run)}
    about |= {"units": tuple(begun.units[column] for column in columns_of_run), "stats": stats, "log": log}
    about |= {"parameters": {**begun.parameters, **({"resumed_at": resumed[-1]} if resumed else {})}}
    about |= {"events": events, "switches": tuple(map(_merged, by_name.values())), "dense": _dense(arcs)}
    about |= {"success": success, "message": message, "equations": None if missing else PointsOfArcs(arcs)}
    return replace(begun, t=t, u=u, du=du, per_step=per_step, **about)


def _chattering(name: str, t: float, why: str) -> SolveError:
    """The error for a solution that switches again and again, and does not slide."""
    return SolveError(
        f"'{name}' switches again and again at t={t:.10g} without progress, and the solution does not slide "
        f"along it: {why}; smooth the switch, or give it a hysteresis"
    )


def _of_mode(event: Event, mode: Mode, problem: Any) -> Event:
    """An event of a run for the state of one of its modes."""

    def of_run(function: Any) -> Any:
        def call(*given: Any) -> Any:  # states among times
            states = (attach(np.asarray(x)[mode.columns], problem.n_diff) if np.ndim(x) else x for x in given)
            return function(*states)

        return call if function is not None else None

    return replace(event, function=of_run(event.function), only=of_run(event.only))


def _leaving(mode: Mode) -> Iterable[Event]:
    """The events at which a mode ends, two for each jump that slides: at its value below, and above."""
    for slide, share in zip(mode.slides, mode.shares, strict=True):
        place = mode.equations.problem.names.index(share)
        for value, other in (slide.values, slide.values[::-1]):

            def room(u: Any, t: float, j: int = place, end: float = value, up: bool = other > value) -> float:
                return float(u[j]) - end if up else end - float(u[j])

            yield Event(room, terminal=True, direction=-1.0, name=f"'{slide.name}' is left")


def _said(arc: Arc, events: int) -> list[str]:
    """What an arc has to tell, without that it has ended where the mode changes."""
    located = arc.located
    left = located is not None and any(watch.times for watch in located.events[events:])
    hidden = located.message if located is not None and left else ""
    pieces = [piece for piece in arc.solution.message.split("; ") if piece and piece != hidden]
    return [piece for piece in pieces if not any(f"'{share}'" in piece for share in arc.mode.shares)]


def _rows(arc: Arc, times: Vector | None, first: bool) -> tuple[Vector, Vector, Vector, Mapping[str, Vector]]:
    """Times, u, u' and work of an arc in the unknowns of the run, without the start of a later one."""
    part, columns = arc.solution, arc.mode.columns
    keep = np.ones(len(part.t), bool) if first else part.t > part.parameters["t0"]
    if times is not None:
        keep = np.isin(part.t, times)
    work = {name: counts[keep] for name, counts in part.per_step.items()}
    return part.t[keep], part.u[keep][:, columns], part.du[keep][:, columns], work


def _of_run(record: EventRecord, mode: Mode) -> EventRecord:
    return replace(record, u=record.u[:, mode.columns])


def _merged(records: Sequence[EventRecord]) -> EventRecord:
    """Records of one function, in the order of their times."""
    columns = zip(*((record.t, record.u, record.direction) for record in records), strict=True)
    times, states, directions = map(np.concatenate, columns)
    order = np.argsort(times, kind="stable")
    return EventRecord(records[0].name, times[order], states[order], directions[order])


def _dense(arcs: Sequence[Arc]) -> DenseOutput | None:
    """Dense output of all arcs, in the unknowns of the run; None where an arc has none."""
    parts = [(arc.solution.dense, arc.mode.columns) for arc in arcs if arc.solution.dense is not None]
    if len(parts) < len(arcs):
        return None
    steps = []
    for part, columns in parts:
        for number, step in enumerate(part.steps):
            scheme, rows = part.polynomial(number)
            first = int(np.count_nonzero(columns < scheme.first))
            steps.append(step._replace(scheme=scheme._replace(first=first), rows=rows[:, columns]))
    begin, ends = parts[0][0], np.concatenate([part.ends for part, _ in parts])
    order = np.argsort(ends, kind="stable")
    values = np.concatenate([part.values[:, columns] for part, columns in parts])[order]
    slopes = np.concatenate([part.derivatives[:, columns] for part, columns in parts])[order]
    u0, du0 = (start[parts[0][1]] for start in (begin.u0, begin.du0))
    steps = [steps[number] for number in order.tolist()]
    return DenseOutput(begin.t0, u0, ends[order], values, steps, du0, slopes, begin.n_slopes)


class PointsOfArcs:
    """The corrections of values between steps by the equations of each arc, see :class:`Pointwise`."""

    def __init__(self, arcs: Sequence[Arc]) -> None:
        self.points = [arc.solution.equations for arc in arcs]
        self.columns = [arc.mode.columns for arc in arcs]
        # Polynomials of the unknowns that the run does not have.
        counts = [(arc.solution, len(arc.mode.columns)) for arc in arcs]
        self.dense = [part.dense if count < len(part.names) else None for part, count in counts]
        begins = np.array([(begin, number) for number, arc in enumerate(arcs) for begin in arc.begins])
        begins = begins[np.argsort(begins[:, 0], kind="stable")]
        # Of all arcs but the first, and to which of these solutions each of them belongs.
        self.begins, self._owners = begins[1:, 0], begins[:, 1].astype(int)
        self.at_ends = all(points is not None and points.at_ends for points in self.points)

    def _of_mode(self, k: int, t: Vector, u: Vector, du: Vector) -> tuple[Any, Vector, Vector]:
        """The correction of an arc, and states and rates of its mode, which has further unknowns."""
        points, dense, columns = self.points[k], self.dense[k], self.columns[k]
        if dense is None:
            return points, u.copy(), du.copy()
        whole, slopes = dense.values_at(dense.check(t), 0, 1)
        whole[:, columns], slopes[:, columns] = u, du
        return points, whole, slopes

    def correct(self, t: Vector, u: Vector, du: Vector, h: Vector) -> NDArray[np.bool_]:
        """See :meth:`Pointwise.correct`."""
        done, at = np.zeros(len(t), dtype=bool), self._owners[np.searchsorted(self.begins, t)]
        for k in np.unique(at).tolist():
            rows, columns = np.flatnonzero(at == k), self.columns[k]
            points, whole, slopes = self._of_mode(k, t[rows], u[rows], du[rows])
            done[rows] = points.correct(t[rows], whole, slopes, h[rows])
            u[rows], du[rows] = whole[:, columns], slopes[:, columns]
        return done

    def errors(self, t: float, u: Vector, du: Vector, h: float) -> Vector:
        """See :meth:`Pointwise.errors`."""
        k = int(self._owners[np.searchsorted(self.begins, t)])
        points, whole, slopes = self._of_mode(k, np.array([t]), u[None], du[None])
        return np.asarray(points.errors(t, whole[0], slopes[0], h)[self.columns[k]])
