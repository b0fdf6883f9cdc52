"""Solutions as pictures need them: unknowns chosen by name, at as many times as a picture can show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.options import names_in
from dae_sdc.plotting import style
from dae_sdc.registry import MOST_NAMES, unknown
from dae_sdc.run.results import Result
from dae_sdc.run.solution import PICTURE_POINTS, Solution, for_picture
from dae_sdc.run.unknowns import SavedUnknowns

Values = NDArray[np.float64]

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

    def __init__(self, label: str, result: Result, solution: Solution | None = None) -> None:
        style.require_columns(result, ["t"])
        self.label, self.result = label, result
        self.between = solution if solution is not None and solution.dense is not None else None
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
        kinds = [WITHOUT if name in algebraic else other for name in names]
        state = zip(names, units, kinds, range(n), strict=True)
        self.unknowns = {name: Unknown(name, unit, kind, "u", at) for name, unit, kind, at in state}
        self.state_names = tuple(self.unknowns)
        for at, (name, unit) in enumerate(zip(more, more_units, strict=True)):
            self.unknowns.setdefault(name, Unknown(name, unit, COMPUTED, "others", at))

    @cached_property
    def rates(self) -> dict[str, Unknown]:
        """Derivatives of unknowns of the state that are not in it themselves, by name."""
        if "du" not in (self.result.data.dtype.names or ()):
            return {}
        found = {}
        for known in (self.unknowns[name] for name in self.state_names):
            base, order = name_and_order(known.name)
            name, unit = name_of(base, order + 1), f"{known.unit or '1'}/{self.time_unit}"
            if name not in self.unknowns:
                found[name] = Unknown(name, unit, "derivative", "du", known.column)
        return found

    @cached_property
    def fine(self) -> dict[bool, Solution]:
        """The solution at the times of a picture, by whether the axis of time is logarithmic."""
        return {}

    def curves(self, chosen: Sequence[Unknown], logarithmic: bool = False) -> tuple[Values, list[Values]]:
        """Times, and values of unknowns at these times, to be joined by straight lines."""
        if self.between is None:
            return self.rows, [self.at_rows(one) for one in chosen]
        if logarithmic not in self.fine:
            self.fine[logarithmic] = for_picture(self.between, logarithmic)
        fine = self.fine[logarithmic]
        return fine.t, [self._between(fine, one) for one in chosen]

    def _between(self, fine: Solution, one: Unknown) -> Values:
        if one.source == "u":
            return fine.u[:, one.column]
        if one.source == "du":
            return fine.du[:, one.column]
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
        found = []
        for kind, key in (("event", "events"), ("switch", "switches")):
            records = self.result.parameters.get(key)
            for record in records if isinstance(records, list | tuple) else []:
                times: Values = np.array(
                    record.get("t", ()) if isinstance(record, Mapping) else (), dtype=float
                )
                if len(times):
                    found.append((kind, str(record.get("name") or kind), times))
        return found

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
        found: dict[str, Unknown] = {}
        for pattern in patterns:
            exact = self.find(pattern)
            if exact is not None:
                found.setdefault(exact.name, exact)
            else:
                found |= {name: self.unknowns[name] for name in fitting(pattern, self.unknowns)}
        return list(found.values())


_WILD = {"*": ".*", "?": "."}


def fitting(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a pattern with ``*`` and ``?`` fits, or the one name that it is."""
    known = list(names)
    if pattern in known:
        return [pattern]
    wanted = re.compile("".join(_WILD.get(letter, re.escape(letter)) for letter in pattern))
    return [name for name in known if wanted.fullmatch(name)]


def chosen_names(show: str | Sequence[str], names: Sequence[str]) -> list[str]:
    """Names by names and patterns, in the order of these."""
    found: dict[str, None] = {}
    for pattern in patterns_of(show):
        several = fitting(pattern, names)
        if not several:
            raise InputError(unknown("name", pattern, names))
        found |= dict.fromkeys(several)
    if not found:
        raise InputError(f"no unknowns to draw; choose from: {', '.join(names[:MOST_NAMES])}")
    return list(found)


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
    return [_run(label, one) for label, one in several]


def _run(label: str, one: Any) -> Run:
    if isinstance(one, Run):
        return one
    if isinstance(one, Solution):
        return Run(label, one.result(), one)
    if isinstance(one, Result):
        return Run(label, one)
    raise InputError(f"pictures are drawn of solutions and results; got a {type(one).__name__}")


def headline(runs: Sequence[Run]) -> str:
    """The title of a picture: problem and method of one run, the problem of several."""
    parameters, units = runs[0].result.parameters, runs[0].result.units
    if len(runs) == 1:
        return style.headline(parameters, units.get("dt") or units.get("t"))
    names = {str(run.result.parameters.get("problem", "")) for run in runs}
    return style.text(names.pop()) if len(names) == 1 else ""


def patterns_of(show: str | Sequence[str]) -> list[str]:
    """Names and patterns from a text in which commas separate them, but for commas inside brackets."""
    texts = [show] if isinstance(show, str) else list(show)
    return [part for text in texts for part in names_in(text)]


def choose(runs: Sequence[Run], show: str | Sequence[str]) -> list[list[Unknown]]:
    """The unknowns of each run that are asked for."""
    patterns = patterns_of(show)
    names = list(dict.fromkeys(name for run in runs for name in run.unknowns))
    for pattern in patterns:
        if not any(run.select([pattern]) for run in runs):
            raise InputError(unknown("name", pattern, names))
    if not patterns:
        raise InputError(f"no unknowns to draw; choose from: {', '.join(names[:MOST_NAMES])}")
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


def _names(result: Result, n: int) -> tuple[list[str], list[str], list[str]]:
    """Names and units of the unknowns and names of the algebraic ones, checked against ``n`` columns."""
    parameters = result.parameters
    names = parameters.get("names")
    units = parameters.get("units", [""] * n)
    n_diff = parameters.get("n_diff")
    for key, entries in (("names", names), ("units", units)):
        if not isinstance(entries, list | tuple) or len(entries) != n:
            count = len(entries) if isinstance(entries, list | tuple) else "no"
            raise ResultFileError(
                f"parameter '{key}' of the result has {count} entries for {n} unknowns; save it again"
            )
        strange = next((entry for entry in entries if not isinstance(entry, str | None)), None)
        if strange is not None:
            raise ResultFileError(f"parameter '{key}' of the result has {strange!r}, not text; save it again")
    if isinstance(n_diff, bool) or not isinstance(n_diff, int) or not 0 <= n_diff <= n:
        raise ResultFileError(
            f"parameter 'n_diff' of the result is {n_diff!r}, not a number from 0 to {n}; save it again"
        )
    told = [str(name) for name in names or ()]
    algebraic = parameters.get("algebraic", told[n_diff:])
    if not isinstance(algebraic, list) or not set(map(str, algebraic)) <= set(told):
        raise ResultFileError(
            f"parameter 'algebraic' of the result is {algebraic!r}, not a list of its unknowns; save it again"
        )
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
