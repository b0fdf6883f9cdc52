"""Runs in arcs: where both sides of a switch lead back to it, the solution slides along it for a while."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.control.events import Event, EventRecord, LocateEvents, Sliding, as_events
from dae_sdc.dae.interpolant import DenseOutput
from dae_sdc.dae.pointwise import Pointwise
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import DAEError
from dae_sdc.run.description import SolveOptions
from dae_sdc.run.equations import Equations
from dae_sdc.run.execution import Carried, carried_out
from dae_sdc.run.plan import plan_of
from dae_sdc.run.results import put_down
from dae_sdc.run.solution import Solution, output_times
from dae_sdc.run.start import Start
from dae_sdc.run.target import Target
from dae_sdc.run.unknowns import events_of

MOST_ARCS = 100  # Arcs in a row without progress, after which a run is given up.
LEAST_PROGRESS = 1e-9  # Part of the interval that counts as progress.
# Distance from the two values of a jump, in units of their difference, up to which a solution may slide.
BESIDE_VALUES = 1e-6


def in_arcs(request: SolveOptions, equations: Equations, start: Start, measured: bool) -> Solution:
    """The solution of equations from their start, along borders where both sides lead back to them."""
    carried = carried_out(plan_of(request, equations, start, measured))
    if carried.located is None or carried.located.sliding is None:
        return carried.solution
    return _Arcs(request, equations, start).followed(carried)


@dataclass(frozen=True, eq=False)
class Mode:
    """Equations in which some jumps slide."""

    equations: Equations
    columns: NDArray[np.int64]  # Places of the unknowns of the run in the state.
    # For each switch the node of its jump in the graph of the equations as they are written.
    nodes: tuple[int, ...]
    slides: tuple[Any, ...] = ()  # Of :class:`dae_sdc.model.sliding.Slide`, inner ones first.
    shares: tuple[str, ...] = ()  # Unknowns that are the values of these jumps.


@dataclass(frozen=True, eq=False)
class Arc:
    """A part of a run in one mode."""

    mode: Mode
    solution: Solution
    located: LocateEvents | None


@dataclass(eq=False)
class _Arcs:
    """The arcs of a run, one after the other."""

    request: SolveOptions
    equations: Equations
    start: Start
    arcs: list[Arc] = field(default_factory=list)
    modes: dict[tuple[Any, ...], Mode] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    crossings: list[tuple[str, float, Vector]] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem, form = self.equations.problem, self.equations.problem.form  # type: ignore[attr-defined]
        self.problem, self.jumps = problem, form.jumps
        nodes = tuple(self.jumps.jumps[i].node for i in self.jumps.watched)
        self.modes[()] = Mode(self.equations, np.arange(problem.n), nodes)
        request, self.span = self.request, self.start.t_end - self.start.t0
        given = [part for part in (self.equations.own_events, request.events) if part != ()]
        self.own = len(as_events(events_of(given[0], problem, None))) if self.equations.own_events else 0
        self.events = tuple(e for part in given for e in as_events(events_of(part, problem, None)))
        self.sizes = np.zeros(problem.n)
        self.times = output_times(request.t_eval, request.points, self.start.t0, self.start.t_end)

    def followed(self, first: Carried) -> Solution:
        """The whole solution, from its first arc on."""
        self._keep(self.modes[()], first)
        ended, last, stands = "", self.start.t0, 0
        while self.arcs[-1].solution.success:
            arc = self.arcs[-1]
            try:
                following = self._following(arc)
                if following is None:
                    break
                mode, start = following
                stands = 0 if start.t0 - last > LEAST_PROGRESS * self.span else stands + 1
                last = start.t0
                if stands > MOST_ARCS:
                    ended = f"the solution slides and leaves again and again at t={last:.10g}"
                    break
                request = self._request(mode, start)
                self._keep(mode, carried_out(plan_of(request, mode.equations, start, False)))
            except DAEError as error:
                ended = str(error)
                break
        whole = self._joined(ended)
        if self.request.out is not None:
            put_down(whole, self.request.out, whole.success)
        return whole

    def _keep(self, mode: Mode, carried: Carried) -> None:
        self.arcs.append(Arc(mode, carried.solution, carried.located))
        if carried.sizes is not None:
            np.maximum(self.sizes, carried.sizes[mode.columns], out=self.sizes)

    # --- from arc to arc ------------------------------------------------------------------------------------

    def _following(self, arc: Arc) -> tuple[Mode, Start] | None:
        """The mode after an arc, and where it begins; None where the run has ended."""
        located, mode = arc.located, arc.mode
        if located is None:
            return None
        sides = dict(zip(mode.nodes, (watch.side for watch in located.switches), strict=True))
        if located.sliding is not None:
            return self._entered(mode, located.sliding, sides)
        for number, watch in enumerate(located.events[len(self.events) :]):
            if watch.times:
                slide, upper = mode.slides[number // 2], bool(number % 2)
                return self._left(mode, slide, slide.values[upper], sides, watch.times[-1], watch.states[-1])
        return None

    def _entered(self, mode: Mode, sliding: Sliding, sides: Mapping[int, int]) -> tuple[Mode, Start]:
        from dae_sdc.model.sliding import Slide

        node = mode.nodes[sliding.switch]
        place = next(i for i, jump in enumerate(self.jumps.jumps) if jump.node == node)
        jump, name, level = self.jumps.jumps[place], self.jumps.names[place], 0
        if np.isnan(jump.values[0]):
            own = mode.equations.problem
            level = round(float(_argument(own, sliding.switch, sliding.u, sliding.t)))
        slides = (*mode.slides, Slide(jump, name, level))
        order = {jump.node: i for i, jump in enumerate(self.jumps.jumps)}
        other = self._mode(tuple(sorted(slides, key=lambda slide: order[slide.jump.node])))
        begin = self._begin(other, mode, sliding.t, sliding.u, sides)
        values = [float(begin.u[other.equations.problem.names.index(share)]) for share in other.shares]
        for slide, value in zip(other.slides, values, strict=True):
            low, high = sorted(slide.values)
            if not low - BESIDE_VALUES * (high - low) <= value <= high + BESIDE_VALUES * (high - low):
                raise _Chattering(slide.name, sliding.t)
        self._tell(f"slides along '{name}'", sliding.t, name, sliding.u[mode.columns])
        return other, begin

    def _left(
        self, mode: Mode, slide: Any, value: float, sides: Mapping[int, int], t: float, u: Vector
    ) -> tuple[Mode, Start]:
        other = self._mode(tuple(one for one in mode.slides if one is not slide))
        self._tell(f"leaves '{slide.name}'", t, slide.name, u[mode.columns])
        return other, self._begin(other, mode, t, u, {**sides, slide.jump.node: slide.side(value)})

    def _tell(self, what: str, t: float, name: str, u: Vector) -> None:
        if not self.crossings:
            self.told.append(f"the solution {what} from t={t:.10g} on")
        self.crossings.append((name, t, np.array(u)))

    def _begin(self, mode: Mode, before: Mode, t: float, u: Vector, sides: Mapping[int, int]) -> Start:
        """Where a mode begins after another one, with the sides in force of the switches that both have."""
        from dae_sdc.initial.search import initial_of_model

        problem: Any = mode.equations.problem
        known = dict(zip(before.equations.problem.names, np.asarray(u).tolist(), strict=True))
        if mode.slides:
            weak = [
                name
                for name, is_so in zip(self.problem.names, self.problem.is_algebraic, strict=True)
                if is_so
            ]
            labels = {label: name for name, label in self.equations.labels.items()}
            guesses = {labels.get(name, name): known[name] for name in self.problem.names}
            guesses |= {share: known[share] for share in mode.shares if share in known}
            weak = [*(labels.get(name, name) for name in weak), *mode.shares]
            found = initial_of_model(mode.equations.model, guesses=guesses, weak=weak, t0=t, restarts=0)
            state = np.array([found.values[name] for name in problem.names])
        else:
            state = np.asarray(u)[before.columns]
        problem.run_scales.before[mode.columns] = self.sizes
        state = problem.state(state)
        own = None
        if mode.nodes:
            problem.hold_sides(None)
            own = tuple(
                sides.get(node, side) for node, side in zip(mode.nodes, problem.sides(state, t), strict=True)
            )
            problem.hold_sides(own)
        start = Start.at(problem, state, (t, self.start.t_end))
        return replace(start, sides=own)

    def _mode(self, slides: tuple[Any, ...]) -> Mode:
        """The equations that slide along borders, made when they are first needed."""
        from dae_sdc.model.sliding import sliding

        key = tuple((slide.jump.node, slide.level) for slide in slides)
        if key not in self.modes:
            model, own = self.equations.model, {node for node, _ in key}
            assert model is not None
            problem: Any = self.problem
            values = dict(
                zip(model.parameters_by_name, np.asarray(problem.equation_parameters()).tolist(), strict=True)
            )
            others = [jump for jump in self.jumps.jumps if jump.node not in own]
            made = sliding(model, slides, others, values)
            made.model.interval = tuple(problem.interval)
            settings = {"newton_tol": problem.newton_tol, "newton_maxiter": problem.newton_maxiter}
            other: Any = Target(made.model).make_problem(settings)
            labels = self.equations.labels
            names = [labels.get(name, name) for name in other.names]
            columns = np.array([names.index(name) for name in problem.names])
            jumps = getattr(other.form, "jumps", None)
            nodes = (
                ()
                if jumps is None
                else tuple(made.places.get(jumps.jumps[i].node, -1) for i in jumps.watched)
            )
            equations = Equations(other, made.model, of_model=True)
            self.modes[key] = Mode(equations, columns, nodes, slides, made.shares)
        return self.modes[key]

    def _request(self, mode: Mode, start: Start) -> SolveOptions:
        """The options of the run of an arc."""
        happened = [
            sum(len(arc.located.events[k].times) for arc in self.arcs if arc.located)
            for k in range(len(self.events))
        ]
        events = [
            replace(event, terminal=event.last - count if event.last else 0)
            for event, count in zip(self.events, happened, strict=True)
        ]
        if not mode.slides:
            events = events[self.own :]
        else:
            events = [*(_of_mode(event, mode, self.problem) for event in events), *_leaving(mode)]
        times = None if self.times is None else self.times[self.times > start.t0]
        if times is not None and not len(times):
            times = np.array([self.start.t_end])
        own = {
            "t_eval": times,
            "points": None,
            "events": tuple(events),
            "out": None,
            "dt": None,
            "params": None,
        }
        return replace(self.request, t0=start.t0, t_end=start.t_end, u0=None, **own)

    # --- the whole ------------------------------------------------------------------------------------------

    def _joined(self, ended: str) -> Solution:
        """All arcs as one solution."""
        first, rest = self.arcs[0], self.arcs[1:]
        parts = [_rows(first, self.times, True), *(_rows(arc, self.times, False) for arc in rest)]
        t, u, du = (np.concatenate([part[k] for part in parts]) for k in range(3))
        per_step = {
            name: np.concatenate([part[3][name] for part in parts]) for name in first.solution.per_step
        }
        solutions = [arc.solution for arc in self.arcs]
        stats = {
            name: sum(one.stats.get(name, 0) for one in solutions)
            for name in dict.fromkeys(name for one in solutions for name in one.stats)
        }
        last = solutions[-1]
        success = last.success and not ended
        texts = [
            *self.told,
            *(piece for arc in self.arcs for piece in _said(arc, self.own, len(self.events))),
        ]
        message = "; ".join(dict.fromkeys(texts)) if success else (ended or last.message)
        dense = None if any(one.dense is None for one in solutions) else _dense(self.arcs)
        points = None if any(one.equations is None for one in solutions) else PointsOfArcs(self.arcs)
        log = {key: value for one in solutions for key, value in one.log.items()}
        columns = [
            [_of_run(record, arc.mode) for record in arc.solution.events[: len(self.events)]]
            for arc in self.arcs
        ]
        events = tuple(map(_merged, zip(*columns, strict=True)))
        records = [_of_run(record, arc.mode) for arc in self.arcs for record in arc.solution.switches]
        records += [
            EventRecord(name, np.array([at]), state[None], np.zeros(1, np.int64))
            for name, at, state in self.crossings
        ]
        by_name: dict[str, list[EventRecord]] = {
            name: [] for name in (record.name for record in first.solution.switches)
        }
        for record in records:
            by_name.setdefault(record.name, []).append(record)
        return replace(
            first.solution,
            **{"t": t, "u": u, "du": du, "per_step": per_step, "stats": stats, "success": success},
            **{"message": message, "dense": dense, "equations": points, "log": log, "events": events},
            switches=tuple(map(_merged, by_name.values())),
        )


class _Chattering(DAEError):
    """A solution that switches again and again and does not slide."""

    def __init__(self, name: str, t: float) -> None:
        super().__init__(
            f"'{name}' switches again and again at t={t:.10g}, and no value between its two "
            f"keeps the solution there; smooth the switch, or give it a hysteresis"
        )


def _argument(problem: Any, switch: int, u: Any, t: float) -> float:
    """What a floor is taken of, at a state."""
    from dae_sdc.model.problem import _borders

    jumps = problem.form.jumps
    values = _borders(problem, u, t, problem.packed_parameters)
    return float(values[len(jumps.watched) + jumps.levels.tolist().index(switch)])


def _of_mode(event: Event, mode: Mode, problem: Any) -> Event:
    """An event of a run for the state of one of its modes."""
    function, columns, n_diff = event.function, mode.columns, problem.n_diff
    return replace(event, function=lambda u, t: function(attach(np.asarray(u)[columns], n_diff), t))


def _leaving(mode: Mode) -> Iterable[Event]:
    """The events at which a mode ends, two for each jump that slides: at its value below, and above."""
    for slide, share in zip(mode.slides, mode.shares, strict=True):
        place = mode.equations.problem.names.index(share)
        for value in slide.values:
            other = sum(slide.values) - value
            sign = 1.0 if other > value else -1.0
            yield Event(
                lambda u, t, place=place, value=value, sign=sign: sign * (float(u[place]) - value),
                terminal=True,
                direction=-1.0,
                name=f"the solution leaves '{slide.name}'",
            )


def _said(arc: Arc, own: int, events: int) -> list[str]:
    """What an arc has to tell, without that it has ended where the mode changes."""
    located = arc.located
    left = located is not None and any(watch.times for watch in located.events[events:])
    hidden = located.message if located is not None and left else ""
    return [piece for piece in arc.solution.message.split("; ") if piece and piece != hidden]


def _rows(arc: Arc, times: Vector | None, first: bool) -> tuple[Vector, Vector, Vector, Mapping[str, Vector]]:
    """Times, u, u' and work of an arc in the unknowns of the run, without the start of a later one."""
    one, columns = arc.solution, arc.mode.columns
    keep = np.ones(len(one.t), bool) if first else one.t > one.parameters["t0"]
    if times is not None:
        keep = np.isin(one.t, times)
    return (
        one.t[keep],
        one.u[keep][:, columns],
        one.du[keep][:, columns],
        {k: v[keep] for k, v in one.per_step.items()},
    )


def _of_run(record: EventRecord, mode: Mode) -> EventRecord:
    return replace(record, u=record.u[:, mode.columns])


def _merged(records: Sequence[EventRecord]) -> EventRecord:
    """Records of one function, in the order of their times."""
    times = np.concatenate([record.t for record in records])
    order = np.argsort(times, kind="stable")
    states = np.concatenate([record.u for record in records])[order]
    return EventRecord(
        records[0].name, times[order], states, np.concatenate([r.direction for r in records])[order]
    )


def _dense(arcs: Sequence[Arc]) -> DenseOutput:
    """The polynomials of all arcs, in the unknowns of the run."""
    steps, pieces = [], [(arc.solution.dense, arc.mode.columns) for arc in arcs]
    for piece, columns in pieces:
        assert piece is not None
        for number, step in enumerate(piece.steps):
            scheme, rows = piece._polynomial(number)
            first = int(np.count_nonzero(columns < scheme.first))
            steps.append(step._replace(scheme=scheme._replace(first=first), rows=rows[:, columns]))
    denses: list[Any] = [piece for piece, _ in pieces]
    ends = np.concatenate([one.ends for one in denses])
    values = np.concatenate(
        [one.values[:, columns] for one, (_, columns) in zip(denses, pieces, strict=True)]
    )
    slopes = np.concatenate(
        [one.derivatives[:, columns] for one, (_, columns) in zip(denses, pieces, strict=True)]
    )
    begin = denses[0]
    return DenseOutput(begin.t0, begin.u0, ends, values, steps, begin.du0, slopes, begin.n_slopes)


class PointsOfArcs:
    """The corrections of values between steps by the equations of each arc, see :class:`Pointwise`."""

    def __init__(self, arcs: Sequence[Arc]) -> None:
        self.arcs = list(arcs)
        self.begins = np.array([arc.solution.parameters["t0"] for arc in arcs[1:]])
        self.at_ends = all(self._points(k).at_ends for k in range(len(arcs)))

    def _points(self, k: int) -> Pointwise:
        points = self.arcs[k].solution.equations
        assert points is not None
        return points

    def _whole(self, k: int, t: Vector, u: Vector, du: Vector) -> tuple[Vector, Vector]:
        """States of the mode of an arc, with the shares that its polynomials have."""
        arc = self.arcs[k]
        if not arc.mode.slides:
            return u.copy(), du.copy()
        dense: Any = arc.solution.dense
        whole, slopes = dense(t), dense.derivative(t)
        whole[:, arc.mode.columns], slopes[:, arc.mode.columns] = u, du
        return whole, slopes

    def correct(self, t: Vector, u: Vector, du: Vector, h: Vector) -> NDArray[np.bool_]:
        """See :meth:`Pointwise.correct`."""
        done, at = np.zeros(len(t), dtype=bool), np.searchsorted(self.begins, t)
        for k in np.unique(at).tolist():
            rows, columns = np.flatnonzero(at == k), self.arcs[k].mode.columns
            whole, slopes = self._whole(k, t[rows], u[rows], du[rows])
            done[rows] = self._points(k).correct(t[rows], whole, slopes, h[rows])
            u[rows], du[rows] = whole[:, columns], slopes[:, columns]
        return done

    def errors(self, t: float, u: Vector, du: Vector, h: float) -> Vector:
        """See :meth:`Pointwise.errors`."""
        k = int(np.searchsorted(self.begins, t))
        whole, slopes = self._whole(k, np.array([t]), u[None], du[None])
        return self._points(k).errors(t, whole[0], slopes[0], h)[self.arcs[k].mode.columns]
