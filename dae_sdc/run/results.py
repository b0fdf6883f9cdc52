"""Results of studies: a structured array in a .npy file, with a .json sidecar that says how it was made."""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dae_sdc.arguments import checked, shown
from dae_sdc.deferred import function_at
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.registry import unknown
from dae_sdc.run.files import check_place, opened, partial_name, read_array, replacing
from dae_sdc.run.tables import MOST_TEXT_ROWS, cell, cells_of, csv_of, flat, needed, plain_attributes, varying
from dae_sdc.text import aligned, html_picture, html_table, html_view

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMAT = "dae_sdc result"
_VERSION = 1
_COUNTERS = ("rhs", "newton", "jacobian", "factorization", "solve")
_ROWS = ("u", "du")
_SIDECAR: Mapping[str, type] = {
    **{"kind": str, "rows": int, "columns": list, "units": dict},
    **{"parameters": dict, "command": str, "info": dict},
}

_OF_UNKNOWNS = ("solution", "sweep")
"""Kinds whose columns are unknowns over time."""

_FAILURES: Mapping[str, str] = {"failed": "failures", "left out": "left_out"}
"""What is said of cases that gave no row, and the parameter that lists them."""

DRAWING = "dae_sdc.plotting.plot:plot"
"""The function that draws results, of a higher room."""

BESIDE = ".dense.npz"
"""Suffix of the file with the data for values between the steps of a solution."""

Columns = tuple[tuple[str, str], ...]
"""Names and types of columns."""

CONFIGURATION: Columns = (
    *(("problem", "U32"), ("sweeper", "U32"), ("quad", "U16"), ("nodes", "i8"), ("qdelta", "U16")),
    *(("group", "U16"), ("dt", "f8")),
)
"""Columns that identify a run and the component group."""

_WORK: Columns = tuple((name, "i8") for name in _COUNTERS)
_ERRORS: Columns = tuple((name, "f8") for name in ("error", "slope", "fit", "expected", "sweeps"))

COLUMNS: Mapping[str, Columns] = {
    "solution": (*((name, "f8") for name in ("t", *_ROWS, "residual")), ("sweeps", "i8"), *_WORK),
    "convergence": (*CONFIGURATION, *_ERRORS, *_WORK),
    "iterations": (*CONFIGURATION, ("sweep", "i8"), ("error", "f8"), ("residual", "f8")),
}
"""Columns that every result of a kind has; other kinds may have any columns."""


def provenance() -> dict[str, Any]:
    """Versions, machine and time, to be saved with a result."""
    # importing mpi4py would start MPI in a serial process, so it is only looked at when it is there
    mpi = sys.modules.get("mpi4py.MPI")
    library = str(mpi.Get_library_version()).strip("\0 \n").splitlines()[0].strip() if mpi else None
    return {
        **{name: _version(name) for name in ("dae_sdc", "pySDC", "numpy", "scipy")},
        "mpi4py": _version("mpi4py") if mpi else None,
        "mpi": library,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "host": platform.node(),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }


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
class Result:
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
            got = (
                f"{data.dtype} of shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
            )
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
        found = self.columns()
        if name in found:
            return found[name]
        if name in (self.data.dtype.names or ()):
            column: NDArray[Any] = self.data[name]
            return column
        raise InputError(unknown("name", name, [*found, *(self.data.dtype.names or ())]))

    @property
    def t(self) -> NDArray[np.float64]:
        """The times of a result over time, shape (K,); InputError for another."""
        return self["t"]

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns by name: time and unknowns of a solution, and everything of another result.

        Those of a sweep have a row for each run and time, with the swept values before the time.
        """
        if self.kind not in _OF_UNKNOWNS or "names" not in self.parameters:
            return flat(self.data)
        found: dict[str, NDArray[Any]] = {}
        if self.kind == "sweep":
            over = ((name, f"params:{name}") for name in self.parameters["over"])
            known = [other if other in (self.data.dtype.names or ()) else name for name, other in over]
            found |= {name: np.repeat(self.data[name], self.data["t"].shape[1]) for name in known}
        found["t"] = self.data["t"].ravel()
        for key, column in (("names", "u"), ("others", "others")):
            names = self.parameters.get(key)
            if names:
                values = self.data[column].reshape(-1, len(names)).T
                found |= dict(zip(names, values, strict=True))
        return found

    def column_units(self) -> dict[str, str]:
        """Units of the :meth:`columns` that have one."""
        found = dict(self.units)
        if self.kind in _OF_UNKNOWNS:
            for names, units in (("names", "units"), ("others", "other_units")):
                both = self.parameters.get(names, ()), self.parameters.get(units, ())
                found |= {name: unit for name, unit in zip(*both, strict=True) if unit}
        return found

    def to_dataframe(self) -> Any:
        """The columns as a table of pandas, with the time of a solution for its index.

        That of a sweep has a row for each run and time.

        Returns
        -------
        pandas.DataFrame
            Units and parameters are in ``attrs``.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        pandas, columns = needed("pandas", "to_dataframe"), self.columns()
        index = pandas.Index(columns.pop("t"), name="t") if self.kind == "solution" else None
        table = pandas.DataFrame(columns, index=index)
        table.attrs = {"units": self.column_units(), **plain_attributes(self.parameters)}
        return table

    def to_xarray(self) -> Any:
        """The columns as a data set of xarray, a solution over its time and a study over its rows.

        Returns
        -------
        xarray.Dataset
            Variables have their unit as attribute ``units``, and the data set has the parameters.

        Raises
        ------
        InputError
            If xarray is not installed.
        """
        xarray, columns, units = needed("xarray", "to_xarray"), self.columns(), self.column_units()
        along = "t" if self.kind == "solution" else "row"
        places = columns.pop("t") if along == "t" else np.arange(max(map(len, columns.values()), default=0))

        def with_unit(name: str, values: NDArray[Any]) -> tuple[str, NDArray[Any], dict[str, str]]:
            return along, values, {"units": units[name]} if name in units else {}

        variables = {name: with_unit(name, values) for name, values in columns.items()}
        coordinates = {along: with_unit(along, places)}
        return xarray.Dataset(variables, coords=coordinates, attrs=plain_attributes(self.parameters))

    def __repr__(self) -> str:
        return f"<Result of kind {self.kind}: {len(self.data)} rows>"

    def __str__(self) -> str:
        same, different = self._told_once()
        rows = max(map(len, different.values()), default=len(self.data))
        lines = [f"{self.kind}, {rows} rows", *([same] if same else []), ""]
        lines.append(aligned(cells_of(different, self.column_units(), MOST_TEXT_ROWS), gap="  "))
        if rows > MOST_TEXT_ROWS:
            lines.append(f"and {rows - MOST_TEXT_ROWS} more rows")
        return "\n".join([*lines, *self._failures()])

    def _repr_html_(self) -> str:
        same, different = self._told_once()
        heads, *rows = cells_of(different, self.column_units(), len(self.data))
        note = "; ".join(self._failures())
        parts = html_table(heads, rows), html_picture(DRAWING, self)
        return html_view(f"{self.kind}: {same}", *parts, note=note)

    def _told_once(self) -> tuple[str, dict[str, NDArray[Any]]]:
        """What is the same in all rows as a text, and the other columns."""
        same, different = varying(self.columns())
        return ", ".join(f"{name} {cell(value)}" for name, value in same.items() if value != ""), different

    def _failures(self) -> list[str]:
        """A line for each run that failed, and for each case that was left out."""
        found = ((what, self.parameters.get(key)) for what, key in _FAILURES.items())
        return [f"{what}: {text}" for what, texts in found for text in texts or ()]

    def plot(self, kind: str | None = None, **options: Any) -> Figure:
        """Draw the result, see :func:`dae_sdc.plotting.plot.plot`.

        Parameters
        ----------
        kind : str, optional
            A kind of picture of this kind of result; the first one if not given.
        **options
            Those of the kind of picture; ``out``, the file to write.

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
        return self.save_with(path, None)

    def save_with(self, path: str | os.PathLike[str], beside: Callable[[BinaryIO], object] | None) -> Path:
        """Save as :meth:`save` does, and a third file that ``beside`` writes; None removes an old one."""
        target = check_target(path)
        if target.suffix == ".csv":
            with replacing(target) as (file,):
                file.write(csv_of(self.columns()))
            return target
        sidecar, more = target.with_suffix(".json"), target.with_suffix(BESIDE)
        about = {
            "format": _FORMAT,
            "version": _VERSION,
            "kind": self.kind,
            "rows": len(self.data),
            "checksum": checksum(self.data),
            "columns": list(self.data.dtype.names or ()),
            "units": _plain(self.units, "units"),
            "parameters": _plain(self.parameters, "parameters"),
            "command": self.command,
            "info": _plain(self.info, "info"),
        }
        about["previous"] = _previous(sidecar)
        text = json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        # The sidecar is replaced first, and keeps its earlier content: if the process is killed between the
        # two, the sidecar still describes the old table. The third file must never belong to another table.
        places = (sidecar, target) if beside is None else (sidecar, target, more)
        with replacing(*places, without=(more,)) as (json_file, array_file, *others):
            if beside is not None:
                beside(others[0])
            # file names with bytes that are no text contain lone surrogates
            json_file.write(text.encode(errors="backslashreplace"))
            np.save(array_file, self.data, allow_pickle=False)
        return target


def check_target(path: str | os.PathLike[str]) -> Path:
    """Refuse a path to which no result can be written; called before a study computes."""
    as_text = isinstance(path, str | os.PathLike) and str(path).endswith(".csv")
    return check_place(path, ".csv" if as_text else ".npy")


def put_down(result: Any, path: str | os.PathLike[str], finished: bool) -> Path:
    """Save what has a method ``save``; an unfinished result does not replace an earlier one."""
    target = check_target(path)
    partial = partial_name(target)
    if not finished:
        return Path(result.save(partial))
    result.save(target)
    with suppress(OSError):
        for suffix in (".csv",) if target.suffix == ".csv" else (".npy", ".json", BESIDE):
            partial.with_suffix(suffix).unlink(missing_ok=True)
    return target


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
    found = checksum(data)
    for about in (latest, *_earlier(latest)):
        same = about["rows"] == len(data) and about["columns"] == list(data.dtype.names or ())
        if same and about.get("checksum", found) == found:
            break
    else:
        raise ResultFileError(
            f"{sidecar} describes other data than {source} holds; restore the pair or run the study again"
        )
    _check_columns(source, about["kind"], data)
    return Result(
        kind=about["kind"],
        data=data,
        units=about["units"],
        parameters=about["parameters"],
        command=about["command"],
        info=about["info"],
    )


def _check_columns(source: Path, kind: str, data: NDArray[np.void]) -> None:
    """Refuse a table that lacks columns of its kind, or has them with other types."""
    fields: Mapping[str, Any] = data.dtype.fields or {}
    lacking = [name for name, _ in COLUMNS.get(kind, ()) if name not in fields]
    if lacking:
        raise ResultFileError(
            f"{source} lacks the columns {', '.join(lacking)} of a {kind}; run the study again"
        )
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
    for key in dict.fromkeys(tuple(row[name] for name in keys) for row in data):
        yield (
            key,
            data[np.all([data[name] == value for name, value in zip(keys, key, strict=True)], axis=0)],
        )


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
        with opened(sidecar) as file:
            about = json.loads(file.read())
    except FileNotFoundError:
        raise ResultFileError(
            f"{path} has no {sidecar.name} beside it; keep both files of a result together"
        ) from None
    except ResultFileError:  # is a ValueError too
        raise
    except (ValueError, RecursionError):
        raise ResultFileError(f"{sidecar} is not readable JSON; restore it or run the study again") from None
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise ResultFileError(
            f"{sidecar} was not written by dae_sdc; {path} needs the sidecar it was saved with"
        )
    if about.get("version") != _VERSION:
        raise ResultFileError(
            f"{sidecar} has format version {about.get('version')}, this dae_sdc reads {_VERSION}; "
            f"use the dae_sdc that wrote it"
        )
    wrong = _lacking(about)
    if wrong:
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
    if not wrong:
        texts = {"columns": about["columns"], "units": about["units"].values()}
        wrong = [key for key, values in texts.items() if not all(isinstance(text, str) for text in values)]
    return wrong


def _earlier(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The valid earlier contents that a sidecar holds."""
    found = about.get("previous")
    found = found if isinstance(found, list) else []
    return [earlier for earlier in found if isinstance(earlier, dict) and not _lacking(earlier)]


def checksum(data: NDArray[np.void]) -> int:
    """A checksum that distinguishes the successive tables of a running study."""
    return zlib.crc32(np.ascontiguousarray(data).tobytes())


def _previous(sidecar: Path) -> list[dict[str, Any]]:
    """The last two contents of a sidecar, to be kept in the new one."""
    try:
        about = _load_sidecar(sidecar.with_suffix(".npy"), sidecar)
    except ResultFileError:
        return []
    earlier = _earlier(about)
    about.pop("previous", None)
    return [about, *earlier][:2]


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
        return {_key(key, where): _plain(entry, f"{where}['{key}']") for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry, f"{where}[{index}]") for index, entry in enumerate(value)]
    raise InputError(
        f"cannot save {where}, a {type(value).__name__}, in a result; use numbers, text, lists and mappings"
    )


def _key(key: Any, where: str) -> str:
    if isinstance(key, str):
        return key
    raise InputError(f"cannot save {where} in a result: its key {key!r} is not text; use str({key!r})")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    # platform.processor() starts a process, which some MPI libraries forbid
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
