"""Results of studies: a structured array in a .npy file, with a .json sidecar that says how it was made."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
import shlex
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dae_sdc.arguments import checked, shown
from dae_sdc.dae.memory import COUNTERS
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.files import check_place, damaged, is_texts, opened, partial_name, read_array, replacing
from dae_sdc.imports import function_at
from dae_sdc.registry import require_name
from dae_sdc.run.sweep_statistics import over_time
from dae_sdc.sharing import signals_held, tell
from dae_sdc.text import aligned, html_picture, html_table, html_view

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST_TEXT_ROWS = 24  # Rows of a table that is printed.
DRAWING = "dae_sdc.plotting.plot:plot"  # The function that draws results, of a higher room.


@dataclass(frozen=True)
class Table:
    """Columns of as many rows by name, and what is known of them."""

    columns: Mapping[str, NDArray[Any]]
    units: Mapping[str, str]  # Those of the columns that have one.
    about: Mapping[str, Any]  # Parameters of the study.
    index: str = ""  # The column over which the others are given; empty where rows have numbers only.

    def without_constants(self) -> tuple[str, Table]:
        """What is the same in all rows as a text, and the other columns."""
        same = {name: x[0] for name, x in self.columns.items() if len(x) > 1 and (x == x[0]).all()}
        others = {name: values for name, values in self.columns.items() if name not in same}
        texts = (f"{name} {cell(value)}" for name, value in same.items() if value != "")
        return ", ".join(texts), replace(self, columns=others)

    def cells(self, most: int) -> list[Sequence[str]]:
        """Names with units, and the first rows, as text."""
        heads = [f"{name} [{self.units[name]}]" if self.units.get(name) else name for name in self.columns]
        rows = zip(*(values[:most] for values in self.columns.values()), strict=True)
        return [heads, *([cell(value) for value in row] for row in rows)]

    def summary(self, most: int) -> list[Sequence[str]]:
        """First and last, smallest and largest value of the first columns, one row each, as text."""
        rows: list[Sequence[str]] = [("unknown", "unit", "start", "end", "smallest", "largest")]
        for name, values in list(self.columns.items())[:most]:
            finite = values[np.isfinite(values)]
            ends = (values[0], values[-1]) if len(values) else (np.nan, np.nan)
            span = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
            rows.append((name, self.units.get(name, ""), *(cell(value) for value in (*ends, *span))))
        return rows

    def csv(self) -> bytes:
        """Text with commas: one line of names, as they stand in a text of Modelica, then numbers."""
        file, heads = io.StringIO(newline=""), map(name_and_order, self.columns)
        writer, labels = csv.writer(file, lineterminator="\n"), self.about.get("labels") or {}
        writer.writerow([name_of(labels.get(base, base), order) for base, order in heads])
        writer.writerows(zip(*(column.tolist() for column in self.columns.values()), strict=True))
        return file.getvalue().encode("utf-8", errors="backslashreplace")

    def variable(self, along: str | tuple[str, ...], name: str, values: NDArray[Any]) -> tuple[Any, ...]:
        """A variable or coordinate of xarray with its unit."""
        return along, values, {"units": self.units[name]} if name in self.units else {}

    def attributes(self) -> dict[str, Any]:
        """Those parameters that files of other packages take: numbers and texts."""
        return {
            name: int(value) if isinstance(value, bool) else value
            for name, value in self.about.items()
            if isinstance(value, str | bool | int | float)
        }


class View(NamedTuple):
    """What is shown of a table."""

    title: str
    above: Sequence[str]  # Lines of text above it.
    cells: Sequence[Sequence[str]]  # Heads, and rows.
    below: Sequence[str]  # Lines below it.


class Tabulated:
    """Base of what is printed, shown in Jupyter, drawn and converted as a table."""

    def _table(self) -> Table:
        raise NotImplementedError

    def _view(self, printed: bool) -> View:
        """What is shown, all of it or as much as is printed."""
        raise NotImplementedError

    def __str__(self) -> str:
        view = self._view(printed=True)
        return "\n".join([*view.above, aligned(view.cells, gap="  "), *view.below])

    def _repr_html_(self) -> str:
        view = self._view(printed=False)
        heads, *rows = view.cells
        parts = html_table(heads, rows), html_picture(DRAWING, self)
        return html_view(view.title, *parts, note="; ".join(view.below))

    def plot(self, kind: str | None = None, **options: Any) -> Figure:
        """Draw it, see :func:`dae_sdc.plotting.plot.plot`.

        Parameters
        ----------
        kind : str, optional
            The kind of picture; the first one that takes the options if not given. Of a solution "linear"
            over time, "phase" or "mechanism"; of a sweep "sweep" for solutions over time, or "end-values" for
            values at the end and other quantities over the parameter.
        **options
            Those of the kind of picture: ``show``, names and patterns of what is drawn, ``steps`` and
            ``log``; ``x`` and ``y`` of a phase plot; ``points`` and ``bars`` of a mechanism; ``out``, the
            file to write.

        Returns
        -------
        matplotlib.figure.Figure
            The picture. It opens no window; Jupyter shows it.

        Raises
        ------
        InputError
            If the kind or an option does not fit, or the picture cannot be written.
        """
        what = (self,) if kind is None else (kind, self)
        figure: Figure = function_at(DRAWING)(*what, **options)
        return figure

    def to_dataframe(self) -> Any:
        """The columns as a table of pandas, a pandas.DataFrame with units and parameters in ``attrs``.

        The time of a solution is its index, and a sweep has a row for each run and time. Raises InputError if
        pandas is not installed.
        """
        pandas, table = needed("pandas", "to_dataframe"), self._table()
        columns = dict(table.columns)
        index = pandas.Index(columns.pop(table.index), name=table.index) if table.index else None
        frame = pandas.DataFrame(columns, index=index)
        frame.attrs = {"units": table.units, **table.attributes()}
        return frame

    def to_xarray(self) -> Any:
        """The columns as a data set of xarray, an xarray.Dataset that has the parameters as attributes.

        A solution is over its time and a study over its rows; variables have their unit as attribute
        ``units``. Raises InputError if xarray is not installed.
        """
        xarray, table = needed("xarray", "to_xarray"), self._table()
        along, columns = table.index or "row", dict(table.columns)
        rows = np.arange(max(map(len, columns.values()), default=0))
        places = {along: table.variable(along, along, columns.pop(table.index, rows))}
        variables = {name: table.variable(along, name, values) for name, values in columns.items()}
        return xarray.Dataset(variables, coords=places, attrs=table.attributes())


def flat(data: NDArray[np.void]) -> dict[str, NDArray[Any]]:
    """The columns of a structured array, those of vectors with an index: "y[0]", "y[1]"."""
    columns = {}
    for name in data.dtype.names or ():
        column = data[name]
        if column.ndim == 1:
            columns[name] = column
        else:
            rows = column.reshape(len(data), -1)
            columns |= {f"{name}[{place}]": rows[:, place] for place in range(rows.shape[1])}
    return columns


def needed(package: str, method: str) -> Any:
    """A package that only one method needs; raises InputError where it is not installed."""
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"{method} needs {package}; install it: pip install {package}") from None


def cell(value: Any) -> str:
    """A value in a table: six digits of a number, a dash where there is none."""
    if isinstance(value, float | np.floating):
        return "-" if np.isnan(value) else f"{value + 0.0:.6g}"
    return str(value)


_FORMAT = "dae_sdc result"
_VERSION = 1
_ROWS = ("u", "du")
_SIDECAR: Mapping[str, type] = {
    **{"kind": str, "rows": int, "columns": list, "units": dict},
    **{"parameters": dict, "command": str, "info": dict},
}
_FIELDS = ("kind", "units", "parameters", "command", "info")

BESIDE = ".dense.npz"  # Suffix of the file with the data for values between the steps of a solution.
Columns = tuple[tuple[str, str], ...]  # Names and types of columns.
Writer = Callable[[BinaryIO], object]
# Columns that identify a run and the component group.
CONFIGURATION: Columns = (
    *(("problem", "U32"), ("sweeper", "U32"), ("quad", "U16"), ("nodes", "i8"), ("qdelta", "U16")),
    *(("group", "U16"), ("dt", "f8")),
)

_WORK: Columns = tuple((name, "i8") for name in COUNTERS)
_ERRORS: Columns = tuple((name, "f8") for name in ("error", "slope", "fit", "expected", "sweeps"))

# Columns that every result of a kind has; other kinds may have any columns.
COLUMNS: Mapping[str, Columns] = {
    "solution": (*((name, "f8") for name in ("t", *_ROWS, "residual")), ("sweeps", "i8"), *_WORK),
    "convergence": (*CONFIGURATION, *_ERRORS, *_WORK),
    "iterations": (*CONFIGURATION, ("sweep", "i8"), ("error", "f8"), ("residual", "f8")),
}


def provenance() -> dict[str, Any]:
    """Versions, machine and time, to be saved with a result."""
    # importing mpi4py would start MPI in a serial process, so it is only looked at when it is there
    mpi = sys.modules.get("mpi4py.MPI")
    library = str(mpi.Get_library_version()).strip("\0 \n").splitlines()[0].strip() if mpi else None
    about: dict[str, Any] = {name: _version(name) for name in ("dae_sdc", "pySDC", "numpy", "scipy")}
    about |= {"mpi4py": _version("mpi4py"), "mpi": library}
    about |= {"python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}
    about |= {"machine": platform.machine(), "processor": _processor(), "cores": os.cpu_count()}
    return {**about, "host": platform.node(), "made": datetime.now(UTC).isoformat(timespec="seconds")}


def command_line() -> str:
    """The command line of this process, for ``Result.command``."""
    program = Path(sys.argv[0]) if sys.argv else Path()
    name = program.name if program.name not in ("", "-c", "-") else "python"
    words = [name]
    if program.parent.name == "dae_sdc" and name in ("__main__.py", "cli.py"):
        words = ["dae-sdc"]
    elif name == "__main__.py":
        words = ["python", "-m", program.parent.name]
    return shlex.join([*words, *sys.argv[1:]])


@dataclass(frozen=True, eq=False, repr=False)
class Result(Tabulated):
    """The table that a study computed, with all information needed to understand and repeat it.

    Parameters
    ----------
    kind : str
        "solution", "convergence", "iterations" or another kind of study.
    data : numpy.ndarray
        One-dimensional structured array without object columns; ``COLUMNS`` names the columns.
    units : mapping of str to str
        Unit of each column that has one.
    parameters : mapping of str to object
        Options of the study: numbers, strings, lists and mappings of them.
    command : str
        Command that made the result; see :func:`command_line`.
    info : mapping of str to object
        Versions, machine and time; see :func:`provenance`.

    Raises
    ------
    InputError
        If ``data`` is not a one-dimensional structured array of plain values.

    Examples
    --------
    >>> study = ds.convergence("simple", sweeper="radau-iia-5", dt=[0.1, 0.05], out="orders.npy")
    >>> ds.load("orders.npy").data.dtype.names[:3]
    ('problem', 'sweeper', 'quad')
    """

    kind: str
    data: NDArray[np.void]
    units: Mapping[str, str]
    parameters: Mapping[str, Any]
    command: str = ""
    info: Mapping[str, Any] = field(default_factory=provenance)

    def __post_init__(self) -> None:
        data = self.data
        if not isinstance(data, np.ndarray) or data.dtype.names is None or data.ndim != 1:
            is_array = isinstance(data, np.ndarray)
            got = f"{data.dtype} of shape {data.shape}" if is_array else type(data).__name__
            raise InputError(f"data of a result must be a 1-D structured array with named columns; got {got}")
        if data.dtype.hasobject:
            raise InputError(
                f"a result cannot hold Python objects; got {data.dtype}; use numbers or fixed-width text"
            )

    def __getitem__(self, name: str) -> NDArray[Any]:
        """``result["error"]``: a column by its name, or an unknown of a solution.

        Raises
        ------
        InputError
            If there is no such column.
        """
        columns = {name: self.data[name] for name in self.data.dtype.names or ()} | self.columns()
        require_name("name", name, columns)
        return columns[name]

    @property
    def t(self) -> NDArray[np.float64]:
        """The times of a result over time, shape (K,); InputError for another."""
        return self["t"]

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns by name: time and unknowns of a solution, and everything of another result.

        Those of a sweep have a row for each run and time, with the swept values before the time; of one that
        was reduced for each time, with statistics such as "mean(x)", or for each run if there are none.
        """
        return dict(self._table().columns)

    def __repr__(self) -> str:
        return f"<Result of kind {self.kind}: {len(self.data)} rows>"

    def _table(self) -> Table:
        units = units_of_unknowns(self.parameters) if self.kind in ("solution", "sweep") else {}
        unknowns, columns = unknowns_over_time(self), dict[str, NDArray[Any]]()
        statistics = over_time(self.parameters) if self.kind == "sweep" else {}
        for what, of in statistics.items():
            columns |= {f"{what}({name})": values for name, values in of.items()}
            units |= {f"{what}({name})": units.get(name, "") for name in of}
        if columns:
            columns = {"t": np.array(self.parameters["statistics"]["t"], dtype=np.float64)} | columns
        elif unknowns:
            for name in self.parameters["over"] if self.kind == "sweep" else ():
                column = f"params:{name}" if f"params:{name}" in (self.data.dtype.names or ()) else name
                columns[column] = np.repeat(self.data[column], self.data["t"].shape[1])
            columns["t"] = self.data["t"].ravel()
            columns |= {name: values.ravel() for name, (_, values) in unknowns.items()}
        units = {**self.units, **{name: unit for name, unit in units.items() if unit}}
        index = "t" if self.kind == "solution" else ""
        return Table(columns or flat(self.data), units, self.parameters, index)

    def _view(self, printed: bool) -> View:
        same, table = self._table().without_constants()
        rows = max(map(len, table.columns.values()), default=len(self.data))
        most = MOST_TEXT_ROWS if printed else rows
        above = [f"{self.kind}, {rows} rows", *([same] if same else []), ""]
        below = [f"and {rows - most} more rows"] if rows > most else []
        for what, key in (("failed", "failures"), ("left out", "left_out")):
            below += [f"{what}: {text}" for text in self.parameters.get(key) or ()]
        return View(f"{self.kind}: {same}", above, table.cells(most), below)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write ``<path>.npy`` and its ``.json`` sidecar, both whole or not at all.

        Parameters
        ----------
        path : path-like
            File to write; ``.npy`` is added if it is missing. A name that ends in ``.csv`` gets the
            :meth:`columns` as text with commas, and no sidecar.

        Returns
        -------
        pathlib.Path
            The file. In the sidecar, NaN and infinities become the strings "nan", "inf" and "-inf",
            because JSON has no such numbers.

        Raises
        ------
        InputError
            If the directory does not exist or cannot be written, or a parameter does not fit into JSON.
        """
        return self.save_with(path)

    def save_with(
        self, path: str | os.PathLike[str], beside: Writer | None = None, unfinished: bool = False
    ) -> Path:
        """Save with a third file that ``beside`` writes; rows that are ``unfinished`` change in the file."""
        target = check_target(path)
        if target.suffix == ".csv":
            with replacing(target) as (file,):
                file.write(self._table().csv())
            return target
        sidecar, more = target.with_suffix(".json"), target.with_suffix(BESIDE)
        about: dict[str, Any] = {
            **{"format": _FORMAT, "version": _VERSION, "kind": self.kind, "rows": len(self.data)},
            **({} if unfinished else {"checksum": checksum(self.data)}),
            "columns": list(self.data.dtype.names or ()),
            **{name: _plain(getattr(self, name), name) for name in _FIELDS[1:]},
        }
        if not unfinished:
            about["previous"] = []
            with suppress(ResultFileError):
                latest = _load_sidecar(target, sidecar)
                about["previous"] = [latest, *_earlier(latest)][:2]
                latest.pop("previous", None)
        text = json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        # The sidecar is replaced first, and keeps its earlier content: if the process is killed between the
        # two, the sidecar still describes the old table. The third file must never belong to another table.
        # A sidecar without a checksum fits any table, so that the old one goes before it comes.
        places = (sidecar, target) if beside is None else (sidecar, target, more)
        gone = (more, target) if unfinished else (more,)
        with replacing(*places, without=gone) as (json_file, array_file, *others), signals_held():
            if beside is not None:
                beside(others[0])
            # file names with bytes that are no text contain lone surrogates
            json_file.write(text.encode(errors="backslashreplace"))
            np.save(array_file, self.data, allow_pickle=False)
        return target


def unknowns_over_time(result: Result) -> dict[str, tuple[str, NDArray[Any]]]:
    """Units and values of the unknowns of a solution or a sweep by name; empty for another kind."""
    unknowns: dict[str, tuple[str, NDArray[Any]]] = {}
    if result.kind in ("solution", "sweep") and "names" in result.parameters:
        units = units_of_unknowns(result.parameters)
        for column, key in (("u", "names"), ("others", "others")):
            names = result.parameters.get(key) or []
            if names and column in (result.data.dtype.names or ()):
                values = np.moveaxis(result.data[column], -1, 0)
                unknowns |= {name: (units[name], values[at]) for at, name in enumerate(names)}
    return unknowns


def units_of_unknowns(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Units of the unknowns of a solution or a sweep by name."""
    units: dict[str, str] = {}
    for key, of in (("names", "units"), ("others", "other_units")):
        names = parameters.get(key) or []
        units |= dict(zip(names, parameters.get(of) or [""] * len(names), strict=True))
    return units


def tabulated(
    kind: str, columns: Any, rows: Any, parameters: Mapping[str, Any], units: Mapping[str, str] | None = None
) -> Result:
    """Rows as a result of the command that runs."""
    return Result(kind, np.array(list(rows), dtype=list(columns)), units or {}, parameters, command_line())


def check_target(path: str | os.PathLike[str]) -> Path:
    """Refuse a path to which no result can be written; called before a study computes."""
    as_text = isinstance(path, str | os.PathLike) and str(path).endswith(".csv")
    return check_place(path, ".csv" if as_text else ".npy")


GROWING: Final = "sweep"  # Kind of results whose sidecar has no checksum before they are finished.
UNWRITTEN: Final[set[str]] = set()  # Files that could not be written although there was something for them.


def put_down(result: Any, path: str | os.PathLike[str], finished: bool) -> str:
    """Save what was computed, unfinished results beside earlier ones; what a warning says if that fails."""
    try:
        target = check_target(path)
        result.save(target if finished else partial_name(target))
    except InputError as error:  # what was computed must not be lost by that
        UNWRITTEN.add(os.fspath(path))
        tell(str(error))
        return str(error)
    UNWRITTEN.discard(os.fspath(path))
    with suppress(OSError):
        suffixes = (".csv",) if target.suffix == ".csv" else (".npy", ".json", BESIDE)
        for suffix in suffixes if finished else ():
            partial_name(target).with_suffix(suffix).unlink(missing_ok=True)
    return ""


def say_written(path: str | os.PathLike[str] | None, finished: bool = True) -> None:
    """Print where the result of a verb lies, if it has been written to a file."""
    if path is not None and os.fspath(path) not in UNWRITTEN:
        target = check_target(path)
        print(f"written to {target if finished else partial_name(target)}")


@checked()
def load(path: str | os.PathLike[str]) -> Result:
    """Read a result and its sidecar.

    Parameters
    ----------
    path : path-like
        The ``.npy`` file; the suffix may be left out.

    Returns
    -------
    Result
        The saved result.

    Raises
    ------
    ResultFileError
        If the file or its sidecar is missing, damaged or not written by dae_sdc.

    Examples
    --------
    >>> study = ds.convergence("simple", sweeper="radau-iia-5", dt=[0.1, 0.05], out="orders.npy")
    >>> ds.load("orders.npy").kind
    'convergence'
    """
    source = Path(path)
    if source.suffix != ".npy" and not os.path.isfile(source):
        source = source.with_name(f"{source.name}.npy") if source.name else source
    data = _load_array(source)
    sidecar = source.with_suffix(".json")
    latest = _load_sidecar(source, sidecar)
    checked_sum = checksum(data)
    for about in (latest, *_earlier(latest)):
        same = about["rows"] == len(data) and about["columns"] == list(data.dtype.names or ())
        # Rows of a running sweep change in the file.
        if same and checked_sum == about.get("checksum", checked_sum if about["kind"] == GROWING else None):
            break
    else:
        raise ResultFileError(
            f"{sidecar} describes other data than {source} holds; restore the pair or run the study again"
        )
    _check_columns(source, about["kind"], data)
    return Result(data=data, **{name: about[name] for name in _FIELDS})


def _check_columns(source: Path, kind: str, data: NDArray[np.void]) -> None:
    """Refuse a table that lacks columns of its kind, or has them with other types."""
    fields: Mapping[str, Any] = data.dtype.fields or {}
    if lacking := ", ".join(name for name, _ in COLUMNS.get(kind, ()) if name not in fields):
        raise ResultFileError(f"{source} lacks the columns {lacking} of a {kind}; run the study again")
    for name, meant in COLUMNS.get(kind, ()):
        base, shape = fields[name][0].base, fields[name][0].shape
        row = fields["u"][0].shape[:1] or (0,) if name in _ROWS else ()
        if base.kind not in ("U" if meant[0] == "U" else "iuf") or shape != row:
            wanted = "text" if meant[0] == "U" else "real numbers"
            raise ResultFileError(
                f"column '{name}' of the result holds {fields[name][0]}, not {wanted}; restore {source} or "
                f"run the study again"
            )


def combinations_of(data: NDArray[np.void], keys: Sequence[str]) -> Iterator[tuple[Any, NDArray[np.void]]]:
    """Every combination of values in the columns ``keys``, in the order of its first row, with its rows."""
    found: dict[Any, list[int]] = {}
    for number, row in enumerate(data):
        found.setdefault(tuple(row[name] for name in keys), []).append(number)
    yield from ((key, data[rows]) for key, rows in found.items())


def _load_array(path: Path) -> NDArray[np.void]:
    try:
        if path.is_dir():
            raise ResultFileError(f"{path} is a directory; give the .npy file of a result")
        with opened(path) as file:
            if file.read(6) != b"\x93NUMPY":
                raise ResultFileError(
                    f"{path} is not a .npy file; give the .npy file that a dae-sdc study wrote"
                )
            file.seek(0)
            data = read_array(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        partial = partial_name(path)
        what = "check the name, or run the study that writes it"
        if partial.is_file():
            what = f"{partial} has what a run computed that did not come to its end"
        raise ResultFileError(f"no file {path}; {what}") from None
    except OSError as error:
        raise ResultFileError(
            f"{shown(str(path))} cannot be read: {error.strerror}; check the name and its rights"
        ) from None
    except ResultFileError:  # is a ValueError too
        raise
    except ValueError as error:
        raise ResultFileError(
            f"{path} is damaged or holds objects ({error}); restore it or run the study again"
        ) from None
    if data.dtype.names is None or data.ndim != 1:
        raise ResultFileError(
            f"{path} holds a plain array ({data.dtype}, shape {data.shape}), not a table with named columns; "
            f"give a file that a dae-sdc study wrote"
        )
    return data


def _load_sidecar(path: Path, sidecar: Path) -> dict[str, Any]:
    try:
        with damaged(f"{sidecar} is not readable JSON; restore it or run the study again"):
            with opened(sidecar) as file:
                about = json.loads(file.read())
    except FileNotFoundError:
        raise ResultFileError(
            f"{path} has no {sidecar.name} beside it; keep both files of a result together"
        ) from None
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise ResultFileError(
            f"{sidecar} was not written by dae_sdc; {path} needs the sidecar it was saved with"
        )
    if about.get("version") != _VERSION:
        raise ResultFileError(
            f"{sidecar} has format version {about.get('version')}, this dae_sdc reads {_VERSION}; "
            f"use the dae_sdc that wrote it"
        )
    if wrong := _lacking(about):
        units = about.get("units")
        for name, unit in units.items() if isinstance(units, dict) else ():
            if not isinstance(unit, str):
                raise ResultFileError(
                    f"the unit of '{name}' in the result is {shown(unit)}, not text; restore {sidecar} or "
                    f"run the study again"
                )
        raise ResultFileError(f"{sidecar} lacks {', '.join(wrong)}; restore it or run the study again")
    return about


def _lacking(about: Mapping[str, Any]) -> list[str]:
    """Names of the entries that a sidecar lacks, or has with another type."""
    wrong = [key for key, kind in _SIDECAR.items() if not isinstance(about.get(key), kind)]
    texts = {} if wrong else {"columns": about["columns"], "units": list(about["units"].values())}
    return wrong or [key for key, values in texts.items() if not is_texts(values)]


def _earlier(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The valid earlier contents that a sidecar holds."""
    contents = about["previous"] if isinstance(about.get("previous"), list) else []
    return [earlier for earlier in contents if isinstance(earlier, dict) and not _lacking(earlier)]


def checksum(data: NDArray[np.void]) -> int:
    """A checksum that distinguishes the successive tables of a running study."""
    contiguous = np.ascontiguousarray(data)
    return zlib.crc32(contiguous.view(np.uint8).data) if contiguous.itemsize else 0


def _plain(value: Any, where: str) -> Any:
    """``value`` in types of JSON; InputError, with the name ``where``, if that is not possible."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(
                    f"cannot save {where} in a result: its key {key!r} is not text; use str({key!r})"
                )
        return {key: _plain(entry, f"{where}['{key}']") for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry, f"{where}[{index}]") for index, entry in enumerate(value)]
    raise InputError(
        f"cannot save {where}, a {type(value).__name__}, in a result; use numbers, text, lists and mappings"
    )


@cache
def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


@cache
def _processor() -> str:
    # platform.processor() starts a process, which some MPI libraries forbid
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
