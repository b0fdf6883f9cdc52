"""The unknowns of solutions over time, one panel for each unit.

Plot: linear of solution, solution over time
    $ dae-sdc solve pendulum --rtol 1e-6 --out pendulum.npy
    $ dae-sdc plot linear pendulum.npy -o linear.png
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator
from numpy.typing import NDArray

from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.options import fitting, patterns_of, require_some
from dae_sdc.plotting import style
from dae_sdc.registry import unknown
from dae_sdc.run.results import Result
from dae_sdc.run.solution import PICTURE_POINTS, Solution, for_picture
from dae_sdc.run.unknowns import SavedUnknowns

Values = NDArray[np.float64]
Key = TypeVar("Key")

WITH, WITHOUT = "with a derivative in the equations", "without a derivative in the equations"
"""What differential and algebraic unknowns are called in pictures."""

COMPUTED = "computed from the others"  # What eliminated unknowns are called in pictures.


@dataclass(frozen=True)
class Unknown:
    """An unknown that can be drawn."""

    # name, unit: as the user called it.
    name: str
    unit: str
    # :data:`WITH`, :data:`WITHOUT` or :data:`COMPUTED`, empty if it is not known which, or "derivative".
    kind: str
    source: str  # Column of the result that holds it: "u", "du" or "others".
    column: int  # Its place there.


class Run:
    """A solution with what pictures need of it."""

    def __init__(self, label: str, drawn: Result | Solution) -> None:
        self.between = drawn if isinstance(drawn, Solution) and drawn.dense is not None else None
        self.fine: dict[bool, Solution] = {}  # At the times of a picture, by whether the axis is logarithmic.
        result = drawn.result() if isinstance(drawn, Solution) else drawn
        style.require_columns(result, ["t"])
        self.label, self.result = label, result
        self.rows = style.require_range(result, "t", -style.CEILING)
        kind = result.data.dtype["u"]
        if kind.base.kind not in "biuf" or 0 in kind.shape:
            raise ResultFileError(
                f"column 'u' of the result holds {kind}, not real numbers; restore the file or run it again"
            )
        n = int(np.prod(kind.shape))
        names, units, algebraic = _names(result, n)
        more, more_units = _eliminated(result)
        self.time_unit = result.units.get("t") or "s"
        # Where all are called differential, nobody may have looked.
        other = WITH if algebraic else ""
        self.unknowns: dict[str, Unknown] = {}
        for at, (name, unit) in enumerate(zip(names, units, strict=True)):
            self.unknowns[name] = Unknown(name, unit, WITHOUT if name in algebraic else other, "u", at)
        self.state_names = tuple(self.unknowns)
        for at, (name, unit) in enumerate(zip(more, more_units, strict=True)):
            self.unknowns.setdefault(name, Unknown(name, unit, COMPUTED, "others", at))

    @cached_property
    def rates(self) -> dict[str, Unknown]:
        """Derivatives of unknowns of the state that are not in it themselves, by name."""
        if "du" not in (self.result.data.dtype.names or ()):
            return {}
        rates = {}
        for known in (self.unknowns[name] for name in self.state_names):
            base, order = name_and_order(known.name)
            name, unit = name_of(base, order + 1), f"{known.unit or '1'}/{self.time_unit}"
            if name not in self.unknowns:
                rates[name] = Unknown(name, unit, "derivative", "du", known.column)
        return rates

    def curves(self, chosen: Sequence[Unknown], logarithmic: bool = False) -> tuple[Values, list[Values]]:
        """Times, and values of unknowns at these times, to be joined by straight lines."""
        if self.between is None:
            return self.rows, [self.at_rows(one) for one in chosen]
        if logarithmic not in self.fine:
            self.fine[logarithmic] = for_picture(self.between, logarithmic)
        fine = self.fine[logarithmic]
        return fine.t, [self._between(fine, one) for one in chosen]

    def _between(self, fine: Solution, one: Unknown) -> Values:
        if one.source != "others":
            return (fine.u if one.source == "u" else fine.du)[:, one.column]
        if isinstance(fine.unknowns, SavedUnknowns):
            return fine.unknowns.interpolated(one.name, fine.t)
        try:
            return fine.values(one.name)
        except InputError:  # it is not determined there
            return np.interp(fine.t, self.rows, self.at_rows(one))

    def at_rows(self, one: Unknown) -> Values:
        """Values of an unknown at the times of the result."""
        column: Values = self.result.data[one.source].astype(float).reshape(len(self.rows), -1)
        return column[:, one.column]

    def marks(self) -> list[tuple[str, str, Values]]:
        """Kind, "event" or "switch", name and times of everything that happened on the way."""
        marks = []
        for kind, key in (("event", "events"), ("switch", "switches")):
            records = self.result.parameters.get(key)
            for record in records if isinstance(records, list | tuple) else []:
                record = record if isinstance(record, Mapping) else {}
                times: Values = np.array(record.get("t", ()), dtype=float)
                if len(times):
                    marks.append((kind, str(record.get("name") or kind), times))
        return marks

    @property
    def failure(self) -> str:
        """Why the run did not come to its end; empty if it did."""
        parameters = self.result.parameters
        if parameters.get("success", True) or not len(self.rows):
            return ""
        return f"stopped at t={self.rows[-1]:.6g}: {parameters.get('message', '')}"

    def find(self, name: str) -> Unknown | None:
        """The unknown or derivative of a name."""
        return self.unknowns.get(name) or self.rates.get(name)

    def select(self, patterns: Sequence[str]) -> list[Unknown]:
        """Unknowns by names and patterns, in the order of these; empty if none fits."""
        chosen: dict[str, Unknown] = {}
        for pattern in patterns:
            exact = self.find(pattern)
            if exact is not None:
                chosen.setdefault(exact.name, exact)
            else:
                chosen |= {name: self.unknowns[name] for name in fitting(pattern, self.unknowns)}
        return list(chosen.values())


def runs_of(given: Any) -> list[Run]:
    """The runs that a picture is to show."""
    if isinstance(given, Mapping):
        labels = list(map(str, given))
        stems = [Path(label).stem if label.endswith(".npy") else label for label in labels]
        labels = stems if len(set(stems)) == len(stems) else labels
        several = list(zip(labels, given.values(), strict=True))
    elif isinstance(given, Sequence):
        several = [(f"run {number}", one) for number, one in enumerate(given, start=1)]
    else:
        several = [("", given)]
    if not several:
        raise InputError("there is no solution to draw; give one or several")
    for _, one in several:
        if not isinstance(one, Run | Solution | Result):
            raise InputError(f"pictures are drawn of solutions and results; got a {type(one).__name__}")
    return [one if isinstance(one, Run) else Run(label, one) for label, one in several]


def headline(runs: Sequence[Run]) -> str:
    """The title of a picture: problem and method of one run, the problem of several."""
    parameters, units = runs[0].result.parameters, runs[0].result.units
    if len(runs) == 1:
        return style.headline(parameters, units.get("dt") or units.get("t"))
    names = {str(run.result.parameters.get("problem", "")) for run in runs}
    return style.text(names.pop()) if len(names) == 1 else ""


def choose(runs: Sequence[Run], show: str | Sequence[str]) -> list[list[Unknown]]:
    """The unknowns of each run that are asked for."""
    patterns = patterns_of(show)
    names = list(dict.fromkeys(name for run in runs for name in run.unknowns))
    for pattern in patterns:
        if not any(run.select([pattern]) for run in runs):
            raise InputError(unknown("name", pattern, names))
    require_some(patterns, names)
    return [run.select(patterns) for run in runs]


def thinned(places: Values, values: Values) -> tuple[Values, Values]:
    """A curve without the points that no picture shows: of each column of pixels four are kept."""
    if len(places) <= 4 * PICTURE_POINTS:
        return places, values
    low, high = np.nanmin(places), np.nanmax(places)
    bins = ((places - low) * (PICTURE_POINTS / (high - low or 1.0))).astype(np.int64)
    order = np.lexsort((values, bins))
    first = np.flatnonzero(np.diff(bins[order], prepend=-1))
    last = np.append(first[1:], len(bins)) - 1
    ends = np.flatnonzero(np.diff(bins, prepend=-1))
    keep = np.unique(np.concatenate([order[first], order[last], ends, np.append(ends[1:], len(bins)) - 1]))
    return places[keep], values[keep]


def _wrong(key: str, what: str) -> ResultFileError:
    return ResultFileError(f"parameter '{key}' of the result {what}; save it again")


def _names(result: Result, n: int) -> tuple[list[str], list[str], list[str]]:
    """Names and units of the unknowns and names of the algebraic ones, checked against ``n`` columns."""
    parameters = result.parameters
    names = parameters.get("names")
    units = parameters.get("units", [""] * n)
    n_diff = parameters.get("n_diff")
    for key, entries in (("names", names), ("units", units)):
        if not isinstance(entries, list | tuple) or len(entries) != n:
            count = len(entries) if isinstance(entries, list | tuple) else "no"
            raise _wrong(key, f"has {count} entries for {n} unknowns")
        strange = next((entry for entry in entries if not isinstance(entry, str | None)), None)
        if strange is not None:
            raise _wrong(key, f"has {strange!r}, not text")
    if isinstance(n_diff, bool) or not isinstance(n_diff, int) or not 0 <= n_diff <= n:
        raise _wrong("n_diff", f"is {n_diff!r}, not a number from 0 to {n}")
    told = [str(name) for name in names or ()]
    algebraic = parameters.get("algebraic", told[n_diff:])
    if not isinstance(algebraic, list) or not set(map(str, algebraic)) <= set(told):
        raise _wrong("algebraic", f"is {algebraic!r}, not a list of its unknowns")
    return told, [unit or "" for unit in units], algebraic


def _eliminated(result: Result) -> tuple[list[str], list[str]]:
    """Names and units of the unknowns that were eliminated from a simplified model."""
    names, units = (result.parameters.get(key, []) for key in ("others", "other_units"))
    if not names:
        return [], []
    lists = isinstance(names, list) and isinstance(units, list) and len(units) == len(names)
    column = result.data["others"] if "others" in (result.data.dtype.names or ()) else np.zeros(0)
    if not lists or column.shape != (len(result.data), len(names)) or column.dtype.kind != "f":
        raise ResultFileError(
            "the eliminated unknowns of the result have other values than names; save it again"
        )
    return [str(name) for name in names], [str(unit) for unit in units]


MOST = 8  # Unknowns in a panel unless the reader names them.
PANELS_OF_A_SOLUTION = 12  # Panels unless the reader names unknowns.
# Ratio of sizes from which the smaller unknown, invisible beside the larger, has a panel of its own.
LARGEST_RATIO = 30.0
# Number of times up to which points are drawn at all of them where nothing is known in between.
FEW_ROWS = 60
BEGINNING = 1e-3  # Part of a run that is too short to be seen where time has equal distances.
# Share of all changes of an unknown that, within the beginning, asks for a logarithmic axis of time.
BEGINNING_CHANGE = 0.1
# Number of runs up to which earlier ones are wider, so that curves that coincide are all seen.
SEVERAL_WIDTHS = 3
STEP: dict[str, Any] = {"marker": ".", "markersize": 4.0, "color": "0.2"}  # Look of the ends of steps.

_LEGEND_ROWS = 14
_LETTERS_BESIDE = 22
_LETTER = 0.068
_MOST_FULL_HEIGHT_MARKS = 40


@dataclass
class _Panel:
    """Curves that share a vertical axis: for each unknown, times and values by the number of the run."""

    unit: str
    kinds: set[str] = field(default_factory=set)
    curves: dict[Unknown, dict[int, tuple[Values, Values]]] = field(default_factory=dict)
    hidden: int = 0

    def pairs(self) -> list[tuple[Values, Values]]:
        """Times and values of all curves."""
        return [pair for curves in self.curves.values() for pair in curves.values()]

    def size(self, one: Unknown) -> float:
        """Largest absolute value of an unknown, 0 if none is finite."""
        sizes = [np.abs(values[np.isfinite(values)]) for _, values in self.curves[one].values()]
        return float(max((values.max() for values in sizes if values.size), default=0.0))


def linear(
    results: Any, show: str | Sequence[str] | None = None, *, steps: bool = False, log: str | None = None
) -> Figure:
    """Draw solutions over time."""
    runs = runs_of(results)
    axis = ("x" if all(_is_crowded(run) for run in runs) else "") if log is None else log
    panels = _panels(runs, show, "x" in axis, split="y" not in axis)
    counts = [len(panel.curves) for panel in panels]
    # One more row of the legend says how many curves have no name there.
    rows = [_LEGEND_ROWS + 1 if n > 2 * _LEGEND_ROWS else min(n, _LEGEND_ROWS) for n in counts]
    heights = [max(1.6, 0.3 + 0.175 * count) for count in rows]
    beside = max(_legend_width(panel) for panel in panels)
    with style.styled():
        figure = style.figure(6.6 + beside, sum(heights) + 0.35 * len(panels) + 1.0, headline(runs))
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        by_run = all(len(panel.curves) == 1 for panel in panels)
        for axes, panel in zip(grid, panels, strict=True):
            _draw(axes, panel, runs, axis, by_run=by_run, steps=steps)
        figure.align_ylabels(list(grid))
        grid[-1].set_xlabel(f"time{style.multiples(grid[-1].xaxis, runs[0].result.units.get('t'))}")
        handles = [
            *some_of(list(_of_runs(runs, by_run))),
            *events_and_switches(runs, lambda times, look: _lines(grid, times, look)),
            *failures(runs, lambda run, look: [axes.axvline(run.rows[-1], **look) for axes in grid]),
        ]
        if steps:
            handles.append(Line2D([], [], linestyle="", label="ends of steps", **STEP))
        place_legend(figure, handles, 6.0 + beside)
    return figure


def _panels(
    runs: list[Run], show: str | Sequence[str] | None, logarithmic: bool, split: bool
) -> list[_Panel]:
    """The panels, first by unit and then, if ``split``, by size."""
    chosen = [list(run.unknowns.values()) for run in runs] if show is None else choose(runs, show)
    alone = len(runs) > len(style.LINES)  # no line style is left for a run: each unknown has a panel
    # Dashed lines tell kinds of unknowns apart in a panel, unless there are too many, or runs are dashed.
    most = max((max(Counter(one.unit for one in own).values(), default=0) for own in chosen), default=0)
    apart = len(runs) > 1 or (show is not None and most > len(style.LINE_COLOURS))
    units: dict[str, str] = {}
    for one in (one for own in chosen for one in own):
        units[one.name] = units.get(one.name) or one.unit  # some runs may have no units
    panels: dict[tuple[str, ...], _Panel] = {}
    counts: dict[tuple[str, ...], set[str]] = {}
    for number, (run, own) in enumerate(zip(runs, chosen, strict=True)):
        drawn = []
        for one in own:
            key = (units[one.name], one.name if alone else "", one.kind if apart else "")
            names = counts.setdefault(key, set())
            if show is None and len(names) >= MOST and one.name not in names:
                panels[key].hidden += number == 0
                continue
            names.add(one.name)
            panels.setdefault(key, _Panel(key[0])).kinds.add(one.kind)
            drawn.append((panels[key], one))
        times, values = run.curves([one for _, one in drawn], logarithmic)
        for (panel, one), column in zip(drawn, values, strict=True):
            known = next((other for other in panel.curves if other.name == one.name), one)
            panel.curves.setdefault(known, {})[number] = (times, column)
    found = [panel for panel in panels.values() if panel.curves]
    found = [part for panel in found for part in (_by_size(panel) if split else [panel])]
    for panel in found[:PANELS_OF_A_SOLUTION][-1:]:
        panel.hidden += sum(len(left.curves) for left in found[PANELS_OF_A_SOLUTION:])
    return found[:PANELS_OF_A_SOLUTION] if show is None else found


def _by_size(panel: _Panel) -> list[_Panel]:
    """The panel in parts, of which each has unknowns that can be seen beside each other."""
    parts = []
    for part in by_size({one: panel.size(one) for one in panel.curves}):
        own = {one: panel.curves[one] for one in part}
        parts.append(_Panel(panel.unit, {one.kind for one in own}, own))
    parts[0].hidden = panel.hidden
    return parts


def by_size(sizes: Mapping[Key, float]) -> list[list[Key]]:
    """Keys in parts, those of larger ones first, whose sizes can be seen beside each other."""
    parts: list[list[Key]] = []
    for key in sorted(sizes, key=lambda key: -sizes[key]):
        if parts and (sizes[key] * LARGEST_RATIO >= sizes[parts[-1][0]] or not sizes[key]):
            parts[-1].append(key)
        else:
            parts.append([key])
    order = list(sizes)
    return [sorted(part, key=order.index) for part in parts]


def _is_crowded(run: Run) -> bool:
    """Whether much happens in the first :data:`BEGINNING`, which only a logarithmic axis shows."""
    since = run.rows - run.rows[0]
    early = int((since < BEGINNING * since[-1]).sum())
    if len(since) <= 4 or run.rows[0] != 0.0 or since[1] <= 0.0 or 2 * early < len(since):
        return False
    for one in (run.unknowns[name] for name in run.state_names):
        change = np.abs(np.diff(run.at_rows(one)))
        if np.isfinite(change).all() and change[:early].sum() > BEGINNING_CHANGE * change.sum():
            return True
    return False


def _draw(axes: Any, panel: _Panel, runs: list[Run], axis: str, *, by_run: bool, steps: bool) -> None:
    dashed = panel.kinds - {WITH} if len(runs) == 1 and WITH in panel.kinds else set()
    lines: list[Line2D] = []
    for number, (one, curves) in enumerate(panel.curves.items()):
        for run, (times, values) in curves.items():
            look = style.line(run, len(runs)) if by_run else style.line(number, len(panel.curves))
            if not by_run:
                look["linestyle"] = style.LINES[run % len(style.LINES)]
            if one.kind in dashed:
                look["linestyle"] = style.LINES[1]
            if by_run and 1 < len(runs) <= SEVERAL_WIDTHS:
                look["linewidth"] = 1.5 + 1.5 * (len(runs) - 1 - run)
            drawn = style.clipped(values, -style.CEILING)
            if len(times) == 1 or (runs[run].between is None and len(times) <= FEW_ROWS):
                look |= {"marker": ".", "markersize": 5.0}
            drawn_line = axes.plot(*thinned(times, drawn), label=style.text(one.name), **look)
            lines += drawn_line if run == min(curves) else []
            if steps:
                rows = np.clip(runs[run].at_rows(one), -style.CEILING, style.CEILING)
                axes.plot(*thinned(runs[run].rows, rows), linestyle="", **{**STEP, "color": look["color"]})
    _scale(axes, axis, runs, panel.pairs())
    style.mark_cut(axes, np.concatenate([values for _, values in panel.pairs()]))
    names = [one.name for one in panel.curves]
    shown = ", ".join(names)
    short = len(shown) + len(panel.unit) <= _LETTERS_BESIDE
    unit = style.multiples(axes.yaxis, panel.unit)
    axes.set_ylabel(f"{style.text(shown) if short else f'{len(names)} unknowns'}{unit}")
    kinds = " or ".join(sorted(dashed or panel.kinds, reverse=True))
    if dashed:
        kinds = f"solid: {WITH}; dashed: {kinds.replace(WITHOUT, 'without')}"
    axes.set_title(kinds, loc="left", fontsize=style.SMALL, color=style.GREY)
    if panel.hidden:
        note = f"{panel.hidden} more not drawn; choose with --show"
        axes.set_title(note, loc="right", fontsize=style.SMALL, color=style.GREY)
    if len(lines) > 1 or not short:
        # The names beside the panel; of many that go from dark to light, some with the first and the last.
        entries = some_of(lines)
        title = f"some of {len(lines)}" if len(entries) < len(lines) else None
        axes.legend(handles=entries, title=title, ncols=-(-len(entries) // _LEGEND_ROWS), **style.BESIDE)
    axes.margins(x=0.01)


def some_of(lines: Sequence[Line2D]) -> list[Line2D]:
    """All lines, or if there are very many, some with the first and the last."""
    if len(lines) <= 2 * _LEGEND_ROWS:
        return list(lines)
    return [lines[place] for place in np.linspace(0, len(lines) - 1, _LEGEND_ROWS).round().astype(int)]


def _legend_width(panel: _Panel) -> float:
    """Inches beside a panel that its names take."""
    names = [one.name for one in panel.curves]
    if len(names) == 1 and len(names[0] + panel.unit) <= _LETTERS_BESIDE:
        return 0.0
    columns = 2 if _LEGEND_ROWS < len(names) <= 2 * _LEGEND_ROWS else 1
    return columns * (0.55 + _LETTER * min(max(map(len, names)), style.MOST_LETTERS))


def _scale(axes: Any, axis: str, runs: list[Run], curves: list[tuple[Values, Values]]) -> None:
    """Logarithmic axes; values of both signs have a linear part around 0."""
    if "x" in axis:
        first = min((run.rows[1] for run in runs if len(run.rows) > 1), default=1.0)
        axes.set_xscale("log") if first > 0.0 else None
        axes.set_xlim(left=first) if first > 0.0 else None
    if "y" in axis:
        values = np.concatenate([values for _, values in curves])
        finite = np.abs(values[np.isfinite(values) & (values != 0.0)])
        if finite.size and (values[np.isfinite(values)] >= 0.0).all():
            axes.set_yscale("log", nonpositive="mask")
            style.few_ticks(axes)
        elif finite.size:
            smallest, largest = max(float(finite.min()), 1e-12 * float(finite.max())), float(finite.max())
            axes.set_yscale("symlog", linthresh=smallest)
            low, high = np.floor(np.log10(smallest)), np.floor(np.log10(largest))
            decades = 10.0 ** np.arange(high, low, -max(1.0, np.ceil((high - low) / 3)))
            axes.yaxis.set_major_locator(FixedLocator([*-decades, 0.0, *decades[::-1]]))


def _of_runs(runs: list[Run], by_run: bool) -> Iterator[Line2D]:
    """Legend entries for several runs."""
    if len(runs) > 1:
        for number, run in enumerate(runs):
            look = style.line(number, len(runs)) if by_run else {"color": "0.2"}
            look["linestyle"] = "-" if by_run else style.LINES[number % len(style.LINES)]
            yield Line2D([], [], label=style.text(run.label), **look)


def _lines(grid: Any, times: Values, look: dict[str, Any]) -> None:
    """Vertical lines at some times in all panels."""
    height = 1.0 if len(times) <= _MOST_FULL_HEIGHT_MARKS else 0.05  # many lines would hide the curves
    for axes in grid:
        axes.vlines(times, 0.0, height, transform=axes.get_xaxis_transform(), **look)


def events_and_switches(
    runs: list[Run], draw: Callable[[Values, dict[str, Any]], object]
) -> Iterator[Line2D]:
    """Draw events and switches of all runs; yields their legend entries."""
    times_of_kind: dict[tuple[str, str], list[Values]] = {}
    for run in runs:
        for kind, name, times in run.marks():
            times_of_kind.setdefault((kind, name), []).append(times)
    for number, ((kind, name), parts) in enumerate(times_of_kind.items()):
        times = np.unique(np.concatenate(parts))
        look: dict[str, Any] = {"color": style.LINE_COLOURS[(number + 3) % 8], "linewidth": 0.9, "zorder": 1}
        look["linestyle"] = style.LINES[1] if kind == "event" else style.LINES[3]
        draw(times, look)
        what = kind if name == kind else f"{kind}: {name}"
        count = f" ({len(times)} times)" if len(times) > 1 else ""
        yield Line2D([], [], label=style.text(f"{what}{count}"), **look)


def failures(runs: list[Run], draw: Callable[[Run, dict[str, Any]], object]) -> Iterator[Line2D]:
    """Mark where runs have stopped before their ends; yields their legend entries."""
    for run in runs:
        if run.failure:
            look: dict[str, Any] = {"color": style.FAILED, "linewidth": 1.2, "linestyle": (0, (1, 1))}
            draw(run, look)
            label = f"{run.label} {run.failure}" if run.label else run.failure
            lines = wrap(label, 80, max_lines=3, placeholder=" …")
            yield Line2D([], [], label="\n".join(map(style.plain, lines)), **look)


def place_legend(figure: Figure, handles: list[Line2D], width: float) -> None:
    """A legend below all panels with as many columns as ``width`` inches have room for."""
    if handles:
        longest = max(len(line) for handle in handles for line in str(handle.get_label()).splitlines())
        columns = max(1, min(len(handles), int(width / (0.9 + _LETTER * longest))))
        rows = -(-len(handles) // columns)
        figure.set_figheight(figure.get_figheight() + 0.175 * (rows - 1))
        figure.legend(handles=handles, loc="outside lower center", ncols=columns)
