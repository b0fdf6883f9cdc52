"""Solutions of many runs in one table, which is written run by run and read by the names of unknowns."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.dae.memory import COUNTERS
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.files import damaged, is_texts, partial_name
from dae_sdc.options import chosen_names
from dae_sdc.registry import require_name, unknown
from dae_sdc.run.results import (
    Result,
    Table,
    Tabulated,
    View,
    check_target,
    command_line,
    load,
    needed,
    put_down,
    units_of_unknowns,
    unknowns_over_time,
)
from dae_sdc.run.sweep_statistics import (
    OF_EACH_RUN,
    Statistics,
    accumulated,
    files_beside,
    over_time,
    quantile_name,
    quantiles,
    require_values,
)
from dae_sdc.sharing import tell
from dae_sdc.text import brief

START = "u0:"  # What the name of a start value begins with, to tell it from a parameter.
MESSAGE_LENGTH = 300  # Characters of a message that the table keeps.

WORK = ("steps", "rejected", "sweeps", *COUNTERS)

# Columns with a number for each run: whether it is over and has reached its end, the time at which it
# ended, in the units of the problem, the seconds that it took, a mean of short ones, and its work.
SCALARS: tuple[tuple[str, str], ...] = (
    *(("done", "?"), ("success", "?"), ("t_end", "f8"), ("time", "f8")),
    *((name, "i8") for name in WORK),
)

_OWN = {name for name, _ in SCALARS} | {"t", "u", "others", "end", "events", "message"}

MOST_EVENT_TIMES = 16  # Times of an event that are kept of each run, the first ones.
MARKING_SHARE = 0.1  # Part of the time of a sweep in which rows are marked as done in the file.
# Seconds after which that is done in any case: a kill loses the runs since then. Statistics are a file more.
LONGEST_UNMARKED, LONGEST_UNSAVED = 0.05, 1.0
ROWS_AT_ONCE = 4096  # Rows of the file that are in memory at once where the runs are reduced.

SHOWN_RUNS, SHOWN_UNKNOWNS, SHOWN_FAILURES = 40, 4, 10  # Most runs, unknowns and failures that are printed.

# What makes one number of the values of an unknown at all times, by name.
SUMMARIES: Mapping[str, Callable[..., NDArray[np.float64]]] = {
    "max": np.fmax.reduce,
    "min": np.fmin.reduce,
    "mean": lambda values, axis: (
        np.where(np.isnan(values).all(axis=axis), np.nan, np.nansum(values, axis=axis))
        / np.maximum(1, np.isfinite(values).sum(axis=axis))
    ),
}


# Parameters of a solution that are those of all runs of a sweep.
SHARED = tuple("names labels units n_diff algebraic time_unit sweeper nodes others other_units".split())


@dataclass(frozen=True)
class Outcome:
    """What one run of a sweep has given."""

    message: str  # That of the solution, or the error that ended the run before its first step.
    success: bool = False  # Whether the run has reached its end.
    t: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # Shape (K,). Output times.
    # Units, and values at the times that the run has reached, by unknown; empty where no solution was begun.
    unknowns: Mapping[str, tuple[str, NDArray[np.float64]]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)  # Entries of :data:`SHARED`.
    numbers: Mapping[str, float] = field(default_factory=dict)  # Entries of the columns of :data:`SCALARS`.
    events: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)  # Times, by event.


@dataclass(frozen=True, eq=False)
class Sweep(Tabulated):
    """The solutions of a sweep, returned by :func:`dae_sdc.run.sweep`.

    Parameters
    ----------
    result : Result
        The table, of kind "sweep", with a row for each run.

    Examples
    --------
    >>> runs = ds.sweep("simple", {"alpha": [5, 10]}, rtol=1e-6)
    >>> runs.parameters["alpha"]
    array([ 5., 10.])
    >>> runs["u1"].shape
    (2, 201)
    """

    result: Result

    @property
    def data(self) -> NDArray[np.void]:
        """The table, shape (S,)."""
        return self.result.data

    @property
    def parameters(self) -> dict[str, NDArray[np.float64]]:
        """Swept values by name, each of shape (S,); a start value of x is called "u0:x"."""
        return {name: self.data[column_of(name)] for name in self.result.parameters["over"]}

    @property
    def t(self) -> NDArray[np.float64]:
        """Output times, shape (K,)."""
        reduced = self.result.parameters.get("statistics")
        return np.asarray(self.data["t"][0] if reduced is None else np.array(reduced["t"], float))

    @property
    def u(self) -> NDArray[np.float64]:
        """States, shape (S, K, n); NaN at times that a run did not reach. InputError if they are reduced."""
        self._require_values()
        return self.data["u"]

    @cached_property
    def reduced(self) -> dict[str, dict[str, NDArray[np.float64]]]:
        """What was kept by ``reduce``: statistics over the runs, and values of each, by name and unknown.

        ``reduced["mean"]["x"]`` has shape (K,), as "std", "min", "max" and "quantile(0.05)", of the runs that
        have reached each time; ``reduced["end"]["x"]`` shape (S,), NaN where a run has failed; and
        ``reduced["events"]["name"]`` is that of :attr:`events`. Empty without ``reduce``.
        """
        kept = self.result.parameters.get("reduce")
        reduced = over_time(self.result.parameters)
        if isinstance(kept, Mapping) and "end" in kept:
            reduced["end"] = dict(zip(kept["end"], np.moveaxis(self.data["end"], 1, 0), strict=True))
        if isinstance(kept, Mapping) and "events" in kept:
            reduced["events"] = self.events
        return reduced

    @property
    def events(self) -> dict[str, NDArray[np.float64]]:
        """Times of events by their names, shape (S, E): the first ones of each run, and NaN behind them."""
        names = self.result.parameters.get("event_names", ())
        return {name: self.data["events"][:, at] for at, name in enumerate(names)}

    def _require_values(self) -> None:
        if self.is_reduced:
            kept = ", ".join(self.result.parameters["reduce"])
            raise InputError(f"of these runs {kept} were kept; leave reduce out to keep the values of each")

    @property
    def is_reduced(self) -> bool:
        """Whether values of the single runs were not kept."""
        return "statistics" in self.result.parameters

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the n unknowns of the state."""
        return tuple(self.result.parameters["names"])

    @property
    def all_names(self) -> tuple[str, ...]:
        """Names of the unknowns of the state, and of those that were eliminated from a simplified model."""
        return (*self.names, *self.result.parameters.get("others", ()))

    @property
    def units(self) -> dict[str, str]:
        """Units by name, of unknowns, and of swept values as far as they are known."""
        return {**units_of_unknowns(self.result.parameters), **self.result.units}

    @property
    def success(self) -> NDArray[np.bool_]:
        """Whether each run has reached its end, shape (S,)."""
        return self.data["success"]

    @property
    def message(self) -> tuple[str, ...]:
        """What each run has to tell: of a failed one, why."""
        return tuple(self.data["message"].tolist())

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self.values(name)

    def values(self, name: str) -> NDArray[np.float64]:
        """Values of an unknown in all runs at all times, shape (S, K); raises InputError if there is none."""
        require_name("name", name, self.all_names)
        self._require_values()
        return unknowns_over_time(self.result)[name][1]

    def quantile(self, name: str, q: Any) -> NDArray[np.float64]:
        """Quantiles over the runs of an unknown at all times, of the runs that have reached each time.

        Parameters
        ----------
        name : str
            The unknown.
        q : float or array_like
            Parts of the runs that lie below, 0 to 1.

        Returns
        -------
        ndarray, shape (K,) or (Q, K)
            The values, NaN at times that no run has reached.

        Raises
        ------
        InputError
            If there is no such unknown, a part is not in [0, 1], or ``reduce`` did not name it.
        """
        parts = np.asarray(q, dtype=np.float64)
        wanted = [quantile_name(part) for part in parts.ravel().tolist()]
        if not self.is_reduced:
            return quantiles(self.values(name), parts)
        require_name("name", name, self.all_names)
        if not {statistic for statistic, of in self.reduced.items() if name in of}.issuperset(wanted):
            self._require_values()
        return np.array([self.reduced[statistic][name] for statistic in wanted]).reshape(*parts.shape, -1)

    def quantity(self, name: str) -> NDArray[np.float64]:
        """One number for each run.

        Parameters
        ----------
        name : str
            "x" for the value of an unknown at the end, NaN where the run has failed; "max(x)", "min(x)" or
            "mean(x)" over the output times that were reached; the name of an event for its first time, NaN
            where there was none; or a column of numbers of the table, such as "t_end" or "steps".

        Returns
        -------
        ndarray, shape (S,)
            The numbers.

        Raises
        ------
        InputError
            If there is no such quantity.
        """
        if name in self.all_names and name in self.reduced.get("end", ()):
            return self.reduced["end"][name]
        if name in self.all_names:
            values = self.values(name)
            last = np.maximum(0, np.isfinite(self.u).any(axis=2).sum(axis=1) - 1)
            return np.where(self.success, values[np.arange(len(self)), last], np.nan)
        if name in dict(SCALARS):
            return self.data[name].astype(float)
        if name in self.events:
            return self.events[name][:, 0]
        call = re.fullmatch(r"(\w+)\((.+)\)", name)
        if call and call[1] in SUMMARIES and call[2] in self.all_names:
            return SUMMARIES[call[1]](self.values(call[2]), axis=1)
        others = (*[f"{summary}({self.names[0]})" for summary in SUMMARIES], *self.events, *dict(SCALARS))
        raise InputError(unknown("quantity", name, (*self.all_names, *others)))

    def failures(self) -> list[str]:
        """A line for each run that has failed."""
        failed = np.flatnonzero(self.data["done"] & ~self.success).tolist()
        return [f"{self.label(run)}: {self.message[run]}" for run in failed]

    def label(self, run: int) -> str:
        """The swept values of a run, "R=10, C=2e-06"."""
        return ", ".join(f"{name}={values[run]:g}" for name, values in self.parameters.items())

    def _table(self) -> Table:
        return self.result._table()

    def _view(self, printed: bool) -> View:
        about, every = self.result.parameters, self.all_names
        if self.is_reduced:
            every = tuple(self.reduced.get("end", ()))
        names = every[:SHOWN_UNKNOWNS]
        time = f"{float(self.t[-1]):g} {about['time_unit'].replace('1', '')}".strip()
        title = f"{about['problem']}: {len(self)} runs to t = {time}"
        title += f"; values at the end of {brief(every, SHOWN_UNKNOWNS)}" if names else ""
        ends, cells = [self.quantity(name) for name in names], [[*self.parameters, *names, "steps", ""]]
        for run, row in enumerate(self.data[:SHOWN_RUNS]):
            swept = [f"{values[run]:g}" for values in self.parameters.values()]
            state = "" if row["success"] else "failed" if row["done"] else "not run yet"
            cells.append([*swept, *(f"{end[run]: .9g}" for end in ends), str(row["steps"]), state])
        below = [f"... and {len(self) - SHOWN_RUNS} more runs"] if len(self) > SHOWN_RUNS else []
        failures = self.failures()
        below += [f"failed: {failure}" for failure in failures[:SHOWN_FAILURES]]
        if len(failures) > SHOWN_FAILURES:
            below.append(f"... and {len(failures) - SHOWN_FAILURES} more failed")
        return View(title, [title], cells, below)

    def __repr__(self) -> str:
        about = self.result.parameters
        return f"<Sweep of {about['problem']}: {len(self)} runs over {', '.join(self.parameters)}>"

    def to_xarray(self) -> Any:
        """A data set of xarray over the runs and the time.

        Returns
        -------
        xarray.Dataset
            Unknowns over both dimensions, numbers such as "steps" over the runs, with their unit as attribute
            ``units``; times of events over the runs and their number; and what ``reduce`` has kept, such as
            "mean(x)" over the time and "end(x)" over the runs. One swept value gives the dimension of the
            runs its name, several ones are coordinates along "run".

        Raises
        ------
        InputError
            If xarray is not installed.
        """
        units = {name: unit for name, unit in self.units.items() if unit}
        xarray, table = needed("xarray", "to_xarray"), Table({}, units, self.result.parameters)
        along = next(iter(self.parameters)) if len(self.parameters) == 1 else "run"
        each = () if self.is_reduced else self.all_names
        variables = {name: table.variable((along, "t"), name, self.values(name)) for name in each}
        dimensions = {"end": (along,), "events": (along, "occurrence")}
        for what, of in {**self.reduced, "events": self.events}.items():
            for name, values in of.items():
                unit = units.get("t" if what == "events" else name)
                about = {} if unit is None else {"units": unit}
                variables[f"{what}({name})"] = dimensions.get(what, ("t",)), values, about
        scalars = [name for name, _ in SCALARS if name not in variables]
        variables |= {name: table.variable((along,), name, self.data[name]) for name in scalars}
        places = {name: table.variable((along,), name, values) for name, values in self.parameters.items()}
        places["t"] = table.variable(("t",), "t", self.t)
        return xarray.Dataset(variables, coords=places, attrs=table.attributes())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the table to a .npy file with a .json beside it, or as .csv, see :meth:`Result.save`."""
        return self.result.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Sweep:
        """Read a sweep that :func:`dae_sdc.run.sweep` wrote, also one that has not come to its end.

        Raises
        ------
        ResultFileError
            If the file is missing, damaged, or holds no sweep.
        """
        result = load(path)
        if not result.parameters.get("complete") and isinstance(result.parameters.get("statistics"), dict):
            result.parameters["statistics"].update(accumulated(Path(path)))
        return cls.of(result, str(path))

    @classmethod
    def of(cls, result: Result, source: str = "the result") -> Sweep:
        """The sweep in a result; raises ResultFileError where it lacks what a sweep has."""
        if result.kind != "sweep":
            raise ResultFileError(f"{source} holds a result of kind '{result.kind}'; give a file of a sweep")
        with damaged(f"{source} lacks what a sweep tells of its runs; run the sweep again"):
            _check(result.data, result.parameters)
        return cls(result)


def _check(data: NDArray[np.void], about: Mapping[str, Any]) -> None:
    """Raise an exception unless the rows and the parameters of a sweep are what they should be."""
    over, names, others, events = (about.get(key, []) for key in ("over", "names", "others", "event_names"))
    texts = [over, names, others, events, about.get("units", []), about.get("other_units", [])]
    shapes = {name: data.dtype[name].shape for name in data.dtype.names or ()}
    columns = ["message", *map(column_of, over), *dict(SCALARS)]
    wanted: dict[str, tuple[int, ...]] = dict.fromkeys(columns, ())
    wanted |= {"events": (len(events), MOST_EVENT_TIMES)} if events else {}
    if "statistics" in about:
        kept, statistics = about["reduce"], about["statistics"]
        texts += [statistics["names"], *kept.values()]
        times = np.array(statistics["t"], dtype=np.float64).shape
        values = [array.shape for of in over_time(about).values() for array in of.values()]
        wanted |= {"end": (len(kept["end"]),)} if "end" in kept else {}
    else:
        times, values = shapes["t"], []
        wanted |= {"u": (*times, len(names))} | ({"others": (*times, len(others))} if others else {})
    good = all(map(is_texts, texts)) and len(times) == 1 and all(shape == times for shape in values)
    good = good and all(shapes.get(name) == shape for name, shape in wanted.items())
    good = good and (len(names), len(others)) == (len(texts[4]), len(texts[5]))
    if not (good and over and len(data) and isinstance(about["time_unit"], str)):
        raise ValueError("lacks a column or a parameter")


def column_of(name: str) -> str:
    """Column of a swept value: its name, unless the table has a column of that name already."""
    return f"params:{name}" if name in _OWN else name


class RunningSweep:
    """The rows of a sweep, marked as done when they are in the file, so that a kill loses only the last."""

    # Where the runs are reduced, they are taken in their order: those before the first that lacks are done.

    def __init__(
        self,
        over: Sequence[str],
        values: Sequence[tuple[float, ...]],
        parameters: Mapping[str, Any],
        units: Mapping[str, str],
        out: str | Path | None,
        reduction: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.over, self.values, self.units = tuple(over), list(values), dict(units)
        self.parameters: dict[str, Any] = {**parameters, "over": list(over), "complete": False}
        self.target = None if out is None else check_target(out)
        self.reduction = reduction
        self.rows: Any = None
        self._mapped: np.memmap[Any, Any] | None = None  # The rows, where they are in a file.
        self._times = np.zeros(0)
        self._statistics: Statistics | None = None
        self._finished: Result | None = None  # That of an earlier sweep, where no run is missing.
        self._waiting: list[tuple[int, Outcome]] = []
        self._ahead: dict[int, Outcome] = {}  # Runs that have come before others whose turn is first.
        self._unmarked: list[int] = []  # Rows that are to be marked as done.
        self._marked, self._marking = perf_counter(), 0.0  # When that was done last, and how long it took.
        # The file of the rows while runs are under way; where they are reduced, no memory has all rows.
        self._folder = tempfile.TemporaryDirectory() if self.target is None and reduction else None
        beside = self.target and partial_name(self.target.with_suffix(".npy"))
        self._place = Path(self._folder.name, "runs.npy") if self._folder else beside

    def take(self, earlier: Sweep) -> None:
        """Take over the runs of an earlier sweep that are done, with its unknowns and times."""
        about = earlier.result.parameters
        before: Mapping[str, Any] = about["statistics"] if self.reduction else {}
        done = earlier.data[: int(before.get("runs", 0))] if before else earlier.data[earlier.data["done"]]
        known = {tuple(row[column_of(name)] for name in self.over): row for row in done}
        if self.reduction and (list(known) != self.values[: len(known)] or not done["done"].all()):
            raise InputError(
                f"what was reduced are {len(known)} runs, which must be the first ones here too: more "
                "samples may be drawn, other values not; leave resume out, or name another file"
            )
        if known.keys().isdisjoint(self.values):
            return
        if self.reduction and about["complete"] and len(known) == len(self.values):
            self.rows, self._finished = earlier.data, earlier.result
            return
        if before and self._place is not None:
            require_values(self._place, before, self.reduction or ())
        kept = [name for name in SHARED if name in about and name not in ("sweeper", "nodes")]
        kept += ["reduce", "statistics"] if self.reduction else []
        self.parameters |= {name: about[name] for name in (*kept, "event_names") if name in about}
        self.units |= earlier.result.units
        types = [(name, earlier.data.dtype[name]) for name in earlier.data.dtype.names or ()]
        types[-1] = ("message", np.dtype(f"U{MESSAGE_LENGTH}"))
        rows = np.array(np.broadcast_to(self._blank(np.dtype(types), earlier.t), len(self.values)))
        for at, values in enumerate(self.values):
            if values in known:
                rows[at] = known[values]
        self._begin(rows, earlier.t, before)

    @property
    def missing(self) -> list[int]:
        """Numbers of the runs that are not done."""
        done = np.zeros(len(self.values), bool) if self.rows is None else self.rows["done"]
        return np.flatnonzero(~done).tolist()

    def put(self, run: int, outcome: Outcome) -> None:
        """Set the row of a run; a run that did not begin waits for one that says what the unknowns are."""
        if not self.reduction:
            self._take_in(run, outcome)
            return
        self._ahead[run] = outcome
        first = len(self._waiting) if self._statistics is None else self._statistics.runs
        while first in self._ahead:
            self._take_in(first, self._ahead.pop(first))
            first += 1

    def _take_in(self, run: int, outcome: Outcome) -> None:
        self._waiting.append((run, outcome))
        if self.rows is None and outcome.unknowns:
            self._declare(outcome)
        if self.rows is not None:
            for waiting in self._waiting:
                self._fill(*waiting)
            self._waiting.clear()
            longest = LONGEST_UNMARKED if self._statistics is None else LONGEST_UNSAVED
            late = perf_counter() - self._marked > min(longest, self._marking / MARKING_SHARE)
            if late if self._folder is None else len(self._unmarked) >= ROWS_AT_ONCE:
                self.mark()

    def mark(self) -> None:
        """Mark the rows that have come as done, once they are in the file."""
        if self.rows is None:
            return
        began = perf_counter()
        mapped = self._mapped if self._unmarked else None
        lasts = mapped is not None and self._folder is None  # Whether somebody reads the file after a kill.
        if mapped is not None and lasts:
            mapped.flush()
        self.rows["done"][self._unmarked] = True
        if mapped is not None and lasts:
            mapped.flush()
            if self._statistics is not None:  # which say how many rows of the file count
                self._statistics.save()
        if mapped is not None:
            self._map()
        self._unmarked.clear()
        self._marked = perf_counter()
        self._marking = self._marked - began

    def finish(self) -> Result:
        """The table of all runs, which is saved and takes the place of the partial one."""
        if self._finished is not None:
            return self._finished
        if self.rows is None:
            raise InputError(self._waiting[0][1].message)
        self.mark()
        data = np.array(self.rows) if self._statistics is None else self._with_short_messages()
        self.parameters["complete"] = True
        if self._statistics is not None:
            self.parameters["statistics"] |= self._statistics.finished()
        result = Result("sweep", data, self.units, self.parameters, command_line())
        self.rows, self._mapped = data, None
        said = "" if self.target is None else put_down(result, self.target, True)
        if self._place is not None and not said:
            several = [self._place.with_suffix(suffix) for suffix in (".npy", ".json")]
            for path in (*several, *files_beside(self._place)):  # those of a .csv are not removed with it
                path.unlink(missing_ok=True)
        return result

    def close(self) -> None:
        """Mark what has come, and let go of the files."""
        self.mark()
        if self._statistics is not None:
            self._statistics.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _declare(self, outcome: Outcome) -> None:
        """Begin the table with the unknowns and times of a run."""
        about, count, events = outcome.about, len(outcome.t), list(outcome.events)
        columns: list[tuple[Any, ...]] = [*((column_of(name), "f8") for name in self.over), *SCALARS]
        self.parameters |= about
        if self.reduction:
            names = [*about["names"], *about["others"]]
            if "events" in self.reduction and not events:
                raise InputError("reduce keeps times of events, and there are none; give events")
            events = chosen_names(self.reduction["events"], events) if "events" in self.reduction else []
            kept = {what: chosen_names(of, names) for what, of in self.reduction.items() if what != "events"}
            of_runs = {name for what, of in kept.items() if what not in OF_EACH_RUN for name in of}
            self.parameters["reduce"] = kept | ({"events": events} if events else {})
            names = [name for name in names if name in of_runs]
            self.parameters["statistics"] = {"t": outcome.t.tolist(), "names": names}
            columns += [("end", "f8", (len(kept["end"]),))] if "end" in kept else []
        else:
            columns += [("t", "f8", (count,)), ("u", "f8", (count, len(about["names"])))]
            columns += [("others", "f8", (count, len(about["others"])))] if about["others"] else []
        if events:
            self.parameters["event_names"] = events
            columns += [("events", "f8", (len(events), MOST_EVENT_TIMES))]
        for name in self.over:
            if name.startswith(START):
                self.units[name], _ = outcome.unknowns.get(name.removeprefix(START), ("", None))
        self.units |= {"t": str(about["time_unit"]), "time": "s"}
        types = np.dtype([*columns, ("message", f"U{MESSAGE_LENGTH}")])
        self._begin(np.broadcast_to(self._blank(types, outcome.t), len(self.values)), outcome.t, {})

    def _blank(self, types: np.dtype[Any], times: NDArray[np.float64]) -> NDArray[np.void]:
        """The row of a run that is not done, shape (1,), without its values."""
        row = np.zeros(1, types)
        for name in {"t_end", "u", "others", "end", "events"} & set(types.names or ()):
            row[name] = np.nan
        if "t" in (types.names or ()):
            row["t"] = times
        return row

    def _begin(self, rows: NDArray[np.void], times: NDArray[np.float64], before: Mapping[str, Any]) -> None:
        """A table of these rows, in the partial file if there is a file."""
        self.rows, self._mapped, self._times = None, None, times
        if self._place is not None:
            for path in files_beside(self._place) if not before else ():
                path.unlink(missing_ok=True)  # those of another sweep that was killed
            result = Result("sweep", rows, self.units, self.parameters, command_line())
            try:
                result.save_with(self._place, unfinished=True)
                self._map()
            except InputError as error:  # the runs are kept in memory, and the file is tried again at the end
                self._place = None
                tell(str(error))
        if self.rows is None:
            self.rows = np.array(rows)
        for part in self._parts():
            for at, name in enumerate(self.over):
                self.rows[part][column_of(name)] = [values[at] for values in self.values[part]]
        if self.reduction:
            shape = len(times), len(self.parameters["statistics"]["names"])
            self._statistics = Statistics(shape, self.parameters["reduce"], self._place, before)

    def _map(self) -> None:
        """Read and write the rows in their file, of which no page is in memory yet."""
        assert self._place is not None
        self._mapped = np.load(self._place, mmap_mode="r+", allow_pickle=False)
        self.rows = self._mapped.view(np.ndarray)  # Which is read and written in less time.

    def _parts(self) -> Iterator[slice]:
        """Parts of the rows, of which one after the other is in memory."""
        for first in range(0, len(self.values), ROWS_AT_ONCE):
            yield slice(first, first + ROWS_AT_ONCE)
            if self._mapped is not None:
                self._map()

    def _with_short_messages(self) -> NDArray[np.void]:
        """The rows, in memory, with a column of messages that is as wide as the longest one."""
        types = [(name, self.rows.dtype[name]) for name in self.rows.dtype.names]
        longest = max(int(np.char.str_len(self.rows[part]["message"]).max()) for part in self._parts())
        data = np.empty(len(self.values), [*types[:-1], ("message", f"U{max(1, longest)}")])
        for part in self._parts():
            data[part] = self.rows[part]
        return data

    def _fill(self, run: int, outcome: Outcome) -> None:
        row, messages = self.rows[run : run + 1], [outcome.message]
        if outcome.unknowns and not np.array_equal(outcome.t, self._times):
            raise InputError("the interval depends on the swept values; give t_end, and t0 or t_eval")
        if self._statistics is not None:
            of_times = np.full(self._statistics.arrays["count"].shape, np.nan)
            places = [(of_times, self.parameters["statistics"]["names"])]
            ends = self.parameters["reduce"].get("end", ())
        else:
            places, ends = [(row["u"][0], self.parameters["names"])], ()
            if self.parameters["others"]:
                places.append((row["others"][0], self.parameters["others"]))
        for values, names in places if outcome.unknowns else ():
            for at, name in enumerate(names):
                if name in outcome.unknowns:
                    values[: len(outcome.unknowns[name][1]), at] = outcome.unknowns[name][1]
        for at, name in enumerate(ends if outcome.success else ()):
            if name in outcome.unknowns:
                row["end"][0, at] = outcome.unknowns[name][1][-1]
        for at, name in enumerate(self.parameters.get("event_names", ())):
            times = outcome.events.get(name, ())[:MOST_EVENT_TIMES]
            row["events"][0, at, : len(times)] = times
        if outcome.unknowns:
            every = dict.fromkeys([*ends, *(name for _, names in places for name in names)])
            lacking = [name for name in every if name not in outcome.unknowns]
            messages += [f"{name} is not among the unknowns of this run" for name in lacking]
        message = "; ".join(filter(None, messages))
        for name, value in outcome.numbers.items():
            row[name] = value
        row["success"] = outcome.success
        row["message"] = message if len(message) <= MESSAGE_LENGTH else f"{message[: MESSAGE_LENGTH - 1]}…"
        self._unmarked.append(run)
        if self._statistics is not None:
            self._statistics.add(of_times)


def earlier_of(out: str | Path, options: Mapping[str, str]) -> Sweep | None:
    """The sweep that a file, or its partial one, holds; None if there is neither."""
    target = check_target(out)
    for path in filter(Path.exists, (partial_name(target.with_suffix(".npy")), target)):
        if path.suffix == ".csv":
            raise InputError(f"{path} keeps no settings to go on from; name a .npy file, or leave resume out")
        earlier = Sweep.load(path)
        other = earlier.result.parameters.get("sweep", {})
        for name in {**other, **options}:
            if other.get(name) != options.get(name):
                raise InputError(
                    f"{path} is of another sweep ({name}: {other.get(name, 'none')}, now "
                    f"{options.get(name, 'none')}); leave resume out, or name another file"
                )
        return earlier
    return None
