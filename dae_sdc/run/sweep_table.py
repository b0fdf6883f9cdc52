"""Solutions of many runs in one table, which is written run by run and read by the names of unknowns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.dae.memory import COUNTERS
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.registry import require_name, unknown
from dae_sdc.run.files import is_texts, partial_name
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
    unknowns_over_time,
)
from dae_sdc.sharing import tell

START = "u0:"  # What the name of a start value begins with, to tell it from a parameter.
MESSAGE_LENGTH = 300  # Characters of a message that the table keeps.

WORK = ("steps", "rejected", "sweeps", *COUNTERS)

# Columns with a number for each run: whether it is over and has reached its end, the time at which it
# ended, in the units of the problem, the seconds that it took, and its work.
SCALARS: tuple[tuple[str, str], ...] = (
    *(("done", "?"), ("success", "?"), ("t_end", "f8"), ("time", "f8")),
    *((name, "i8") for name in WORK),
)

_OWN = {name for name, _ in SCALARS} | {"t", "u", "others", "message"}

# Largest numbers of runs, unknowns and messages of failed runs that are printed.
SHOWN_RUNS = 40
SHOWN_UNKNOWNS = 4
SHOWN_FAILURES = 10

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
SHARED = tuple("names units n_diff algebraic time_unit sweeper nodes others other_units".split())


@dataclass(frozen=True)
class Outcome:
    """What one run of a sweep has given."""

    message: str  # That of the solution, or the error that ended the run before its first step.
    success: bool = False  # Whether the run has reached its end.
    t: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # Shape (K,). Output times.
    # Units of the unknowns, and values at the first of these times, which the run has reached, by name; empty
    # where no solution was begun.
    unknowns: Mapping[str, tuple[str, NDArray[np.float64]]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)  # Entries of :data:`SHARED`.
    numbers: Mapping[str, float] = field(default_factory=dict)  # Entries of the columns of :data:`SCALARS`.


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
        times: NDArray[np.float64] = self.data["t"][0]
        return times

    @property
    def u(self) -> NDArray[np.float64]:
        """States, shape (S, K, n); NaN at times that a run did not reach."""
        return self.data["u"]

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
        units = {name: unit for name, (unit, _) in unknowns_over_time(self.result).items()}
        return {**units, **self.result.units}

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
            If there is no such unknown, or a part is not in [0, 1].
        """
        parts = np.asarray(q, dtype=np.float64)
        if not ((parts >= 0.0) & (parts <= 1.0)).all():
            raise InputError(f"quantiles are those of parts from 0 to 1; got {q}")
        values = self.values(name)
        reached = np.isfinite(values).any(axis=0)
        found = np.full((*parts.shape, values.shape[1]), np.nan)
        found[..., reached] = np.nanquantile(values[:, reached], parts, axis=0)
        return found

    def quantity(self, name: str) -> NDArray[np.float64]:
        """One number for each run.

        Parameters
        ----------
        name : str
            "x" for the value of an unknown at the end, NaN where the run has failed; "max(x)", "min(x)" or
            "mean(x)" over the output times that were reached; or a column of numbers of the table, such as
            "t_end" or "steps".

        Returns
        -------
        ndarray, shape (S,)
            The numbers.

        Raises
        ------
        InputError
            If there is no such quantity.
        """
        if name in self.all_names:
            values = self.values(name)
            last = np.maximum(0, np.isfinite(self.u).any(axis=2).sum(axis=1) - 1)
            return np.where(self.success, values[np.arange(len(self)), last], np.nan)
        if name in dict(SCALARS):
            return self.data[name].astype(float)
        call = re.fullmatch(r"(\w+)\((.+)\)", name)
        if call and call[1] in SUMMARIES and call[2] in self.all_names:
            return SUMMARIES[call[1]](self.values(call[2]), axis=1)
        of_unknowns = [f"{summary}({self.names[0]})" for summary in SUMMARIES]
        raise InputError(unknown("quantity", name, (*self.all_names, *of_unknowns, *dict(SCALARS))))

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
        about, names = self.result.parameters, self.all_names[:SHOWN_UNKNOWNS]
        time = f"{float(self.t[-1]):g} {about['time_unit'].replace('1', '')}".strip()
        more = f" and {len(self.all_names) - len(names)} more" if len(names) < len(self.all_names) else ""
        title = f"{about['problem']}: {len(self)} runs to t = {time}; values at the end of {', '.join(names)}"
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
        return View(f"{title}{more}", [f"{title}{more}"], cells, below)

    def __repr__(self) -> str:
        about = self.result.parameters
        return f"<Sweep of {about['problem']}: {len(self)} runs over {', '.join(self.parameters)}>"

    def to_xarray(self) -> Any:
        """A data set of xarray over the runs and the time.

        Returns
        -------
        xarray.Dataset
            Unknowns over both dimensions, numbers such as "steps" over the runs, with their unit as attribute
            ``units``. One swept value gives the dimension of the runs its name, several ones are coordinates
            along "run".

        Raises
        ------
        InputError
            If xarray is not installed.
        """
        units = {name: unit for name, unit in self.units.items() if unit}
        xarray, table = needed("xarray", "to_xarray"), Table({}, units, self.result.parameters)
        along = next(iter(self.parameters)) if len(self.parameters) == 1 else "run"
        variables = {name: table.variable((along, "t"), name, self.values(name)) for name in self.all_names}
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
        return cls.of(load(path), str(path))

    @classmethod
    def of(cls, result: Result, source: str = "the result") -> Sweep:
        """The sweep in a result; raises ResultFileError where it lacks what a sweep has."""
        if result.kind != "sweep":
            raise ResultFileError(f"{source} holds a result of kind '{result.kind}'; give a file of a sweep")
        about = result.parameters
        over, names, units, others, other_units = texts = [
            about.get(name, []) for name in ("over", "names", "units", "others", "other_units")
        ]
        good = all(map(is_texts, texts)) and len(result.data) > 0
        if good:
            shapes = {name: result.data.dtype[name].shape for name in result.data.dtype.names or ()}
            times = shapes.get("t", ())
            wanted = {"t": times, "u": (*times, len(names)), "message": ()}
            wanted |= {"others": (*times, len(others))} if others else {}
            wanted |= dict.fromkeys([*map(column_of, over), *dict(SCALARS)], ())
            good = len(times) == 1 and all(shapes.get(name) == shape for name, shape in wanted.items())
            good = good and (len(names), len(others)) == (len(units), len(other_units)) and bool(over)
        if not good or not isinstance(about.get("time_unit"), str):
            raise ResultFileError(f"{source} lacks what a sweep tells of its runs; run the sweep again")
        return cls(result)


def column_of(name: str) -> str:
    """Column of a swept value: its name, unless the table has a column of that name already."""
    return f"params:{name}" if name in _OWN else name


class RunningSweep:
    """The rows of a sweep, marked as done when they are in the file, so that a kill loses no other."""

    def __init__(
        self,
        over: Sequence[str],
        values: Sequence[tuple[float, ...]],
        parameters: Mapping[str, Any],
        units: Mapping[str, str],
        out: str | Path | None,
    ) -> None:
        self.over, self.values, self.units = tuple(over), list(values), dict(units)
        self.parameters: dict[str, Any] = {**parameters, "over": list(over), "complete": False}
        self.target = None if out is None else check_target(out)
        self.rows: Any = None
        self._waiting: list[tuple[int, Outcome]] = []

    def take(self, earlier: Sweep) -> None:
        """Take over the runs of an earlier sweep that are done, with its unknowns and times."""
        done = earlier.data[earlier.data["done"]]
        known = {tuple(row[column_of(name)] for name in self.over): row for row in done}
        if not known.keys().isdisjoint(self.values):
            about = earlier.result.parameters
            kept = [name for name in SHARED if name in about and name not in ("sweeper", "nodes")]
            self.parameters |= {name: about[name] for name in kept}
            self.units |= earlier.result.units
            self._begin(earlier.data.dtype, earlier.t)
            for at, values in enumerate(self.values):
                if values in known:
                    self.rows[at] = known[values]
            self._flush()

    @property
    def missing(self) -> list[int]:
        """Numbers of the runs that are not done."""
        done = np.zeros(len(self.values), bool) if self.rows is None else self.rows["done"]
        return np.flatnonzero(~done).tolist()

    def put(self, run: int, outcome: Outcome) -> None:
        """Set the row of a run; a run that did not begin waits for one that says what the unknowns are."""
        if self.rows is None:
            if not outcome.unknowns:
                self._waiting.append((run, outcome))
                return
            self._declare(outcome)
        self._fill(run, outcome)
        while self._waiting:
            self._fill(*self._waiting.pop())

    def finish(self) -> Sweep:
        """The sweep, which is saved and takes the place of the partial result."""
        if self.rows is None:
            raise InputError(self._waiting[0][1].message)
        data = np.array(self.rows)
        self.parameters["complete"] = True
        result = Result("sweep", data, self.units, self.parameters, command_line())
        if self.target is not None:
            del self.rows
            self.rows = data
            put_down(result, self.target, True)
            for suffix in (".npy", ".json"):  # that of a .csv is not removed with it
                _partial(self.target).with_suffix(suffix).unlink(missing_ok=True)
        return Sweep(result)

    def _declare(self, outcome: Outcome) -> None:
        """Begin the table with the unknowns and times of a run."""
        about, count = outcome.about, len(outcome.t)
        columns: list[tuple[Any, ...]] = [(column_of(name), "f8") for name in self.over]
        columns += [*SCALARS, ("t", "f8", (count,)), ("u", "f8", (count, len(about["names"])))]
        columns += [("others", "f8", (count, len(about["others"])))] if about["others"] else []
        self.parameters |= about
        for name in self.over:
            if name.startswith(START):
                self.units[name], _ = outcome.unknowns.get(name.removeprefix(START), ("", None))
        self.units |= {"t": str(about["time_unit"]), "time": "s"}
        self._begin(np.dtype([*columns, ("message", f"U{MESSAGE_LENGTH}")]), outcome.t)

    def _begin(self, dtype: np.dtype[Any], times: NDArray[np.float64]) -> None:
        """A table in which no run is done, in the partial file if there is a file."""
        blank = np.zeros(len(self.values), dtype)
        for at, name in enumerate(self.over):
            blank[column_of(name)] = [values[at] for values in self.values]
        blank["t"], blank["t_end"], blank["u"] = times, np.nan, np.nan
        if "others" in (dtype.names or ()):
            blank["others"] = np.nan
        self.rows = blank
        if self.target is None:
            return
        partial = _partial(self.target)
        result = Result("sweep", blank, self.units, self.parameters, command_line())
        try:
            result.save_with(partial, unfinished=True)
        except InputError as error:  # the runs are kept in memory, and the file is tried again at the end
            tell(str(error))
            return
        self.rows = np.load(partial, mmap_mode="r+", allow_pickle=False)

    def _fill(self, run: int, outcome: Outcome) -> None:
        row, messages = self.rows[run : run + 1], [outcome.message]
        if outcome.unknowns and not np.array_equal(outcome.t, row["t"][0]):
            raise InputError("the interval depends on the swept values; give t_end, and t0 or t_eval")
        for column, names in (("u", "names"), ("others", "others")) if outcome.unknowns else ():
            for at, name in enumerate(self.parameters[names]):
                if name in outcome.unknowns:
                    _, values = outcome.unknowns[name]
                    row[column][0, : len(values), at] = values
                else:
                    messages.append(f"{name} is not among the unknowns of this run")
        message = "; ".join(filter(None, messages))
        for name, value in outcome.numbers.items():
            row[name] = value
        row["success"] = outcome.success
        row["message"] = message if len(message) <= MESSAGE_LENGTH else f"{message[: MESSAGE_LENGTH - 1]}…"
        self._flush()
        row["done"] = True
        self._flush()

    def _flush(self) -> None:
        if isinstance(self.rows, np.memmap):
            self.rows.flush()


def _partial(target: Path) -> Path:
    """The file of a running sweep, a .npy file also where text is written at the end."""
    return partial_name(target.with_suffix(".npy"))


def earlier_of(out: str | Path, options: Mapping[str, str]) -> Sweep | None:
    """The sweep that a file, or its partial one, holds; None if there is neither."""
    target = check_target(out)
    for path in (path for path in (_partial(target), target) if path.exists()):
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
