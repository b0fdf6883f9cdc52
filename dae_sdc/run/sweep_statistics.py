"""Statistics over the runs of a sweep at every output time, accumulated in the order of the runs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.files import damaged, opened, read_archive, replacing
from dae_sdc.options import patterns_of
from dae_sdc.registry import require_name
from dae_sdc.sharing import signals_held
from dae_sdc.text import names_in

OF_EACH_RUN: Final = ("end", "events")  # What may be kept of each run where others are reduced.
# What is accumulated for each statistic over the runs; quantiles take the values of all runs.
ACCUMULATED: Final = {"mean": ("mean",), "std": ("mean", "squares"), "min": ("min",), "max": ("max",)}
QUANTILE: Final = "quantile("  # What the name of a quantile begins with: "quantile(0.05)".
BLOCK_BYTES: Final = 32 * 2**20  # Memory for the values of all runs at the times whose quantiles are taken.


def quantile_name(part: float) -> str:
    """The name of a quantile, "quantile(0.05)"; raises InputError unless the part is in [0, 1]."""
    if not 0.0 <= part <= 1.0:
        raise InputError(f"quantiles are those of parts from 0 to 1; got {part}")
    return f"{QUANTILE}{repr(float(part)).removesuffix('.0')})"


def part_of(name: str) -> float:
    """The part of the runs that lies below the quantile of a name."""
    return float(name[len(QUANTILE) : -1])


def reduction_of(asked: Any) -> dict[str, list[str]]:
    """Patterns of the unknowns, or events, by the name of what is kept of them."""
    texts = [asked] if isinstance(asked, str) else asked
    reduction: dict[str, list[str]] = {}
    for text, patterns in (texts if isinstance(texts, Mapping) else dict.fromkeys(texts, "*")).items():
        for name in names_in(text):
            several = patterns_of(patterns) if isinstance(patterns, str | Sequence) else []
            reduction |= dict.fromkeys(_statistics(name), several)
    if not reduction or not all(reduction.values()):
        raise InputError("reduce names what is kept of the runs; give for instance 'mean,quantile(0.95)'")
    return reduction


def _statistics(name: str) -> Iterable[str]:
    """The name of a statistic, or those of several quantiles: "quantile(0.05, 0.95)"."""
    if (call := re.fullmatch(r"quantile\(([^()]*)\)", name)) is None:
        require_name("statistic", name, (*ACCUMULATED, "quantile(0.5)", *OF_EACH_RUN))
        return [name]
    try:
        parts = [float(part) for part in call[1].split(",")]
    except ValueError:
        raise InputError(f"a quantile is that of a part of the runs, quantile(0.05); got {name}") from None
    return [quantile_name(part) for part in parts]


def quantiles(values: Vector, parts: Any) -> Vector:
    """Quantiles over the runs that have reached a time; NaN where none has."""
    # Shapes: values (S, ...), NaN where a run has not reached a time; returned (*shape of parts, ...).
    result = np.full((*np.shape(parts), *values.shape[1:]), np.nan)
    reached = ~np.isnan(values).all(axis=0)
    if reached.any():
        result[..., reached] = np.nanquantile(values[:, reached], parts, axis=0)
    return result


class Statistics:
    """What is accumulated of the values of runs that come one by one."""

    # The mean and the sum of squares of the deviations from it are those of Welford (1962), so that their
    # digits depend on the order of the runs alone. Where quantiles are wanted, the values themselves lie in a
    # file, of which a block of times is read at once.

    def __init__(
        self, shape: tuple[int, int], wanted: Iterable[str], place: Path | None, before: Mapping[str, Any]
    ) -> None:
        # shape: numbers of output times and unknowns; before: what was accumulated of the first runs.
        names = [array for name in wanted for array in ACCUMULATED.get(name, ())]
        self.runs = int(before.get("runs", 0))  # The runs so far.
        self.whole = True  # Whether every run is in all of the arrays.
        self.place = place  # The file of the sweep that has not ended; None where it has none.
        self.arrays: dict[str, NDArray[Any]] = {"count": np.zeros(shape, np.int64)}
        self.arrays |= {name: np.zeros(shape) for name in ("mean", "squares") if name in names}
        self.arrays |= {name: np.full(shape, np.nan) for name in ("min", "max") if name in names}
        self.parts = [part_of(name) for name in wanted if name.startswith(QUANTILE)]
        for name, array in self.arrays.items() if before else ():
            array[...] = np.array(before[name], dtype=array.dtype)
        self._values: BinaryIO | None = None
        if self.parts:
            beside = None if place is None else open(files_beside(place)[1], "a+b", buffering=0)
            self._values = beside or tempfile.TemporaryFile(buffering=0)
            self._values.truncate(8 * self.runs * self.arrays["count"].size)

    def add(self, values: Vector) -> None:
        """Take in the values of the next run, NaN at times that it has not reached."""
        # Shapes: values (K, n).
        arrays, reached, self.whole = self.arrays, ~np.isnan(values), False
        arrays["count"] += reached
        if "mean" in arrays:
            away = np.where(reached, values - arrays["mean"], 0.0)
            arrays["mean"] += away / np.maximum(arrays["count"], 1)
            if "squares" in arrays:
                arrays["squares"] += away * np.where(reached, values - arrays["mean"], 0.0)
        for name, extremum in (("min", np.fmin), ("max", np.fmax)):
            if name in arrays:
                extremum(arrays[name], values, out=arrays[name])
        if self._values is not None:
            self._values.write(values.tobytes())
        self.runs += 1
        self.whole = True

    def save(self) -> None:
        """Write what is accumulated beside the file of the sweep, but not after an interrupt within a run."""
        if self.place is None or not self.whole:
            return
        arrays: dict[str, Any] = {"runs": np.array(self.runs), **self.arrays}
        with replacing(files_beside(self.place)[0]) as (file,), signals_held():
            np.savez(file, **arrays)

    def finished(self) -> dict[str, Any]:
        """The number of runs, what is accumulated, and the quantiles, by name; arrays of shape (K, n)."""
        results = {"runs": self.runs, **self.arrays}
        if self._values is None:
            return results
        size, width = self.arrays["count"].size, max(1, BLOCK_BYTES // (8 * max(1, self.runs)))
        flat = np.empty((len(self.parts), size))
        for first in range(0, size, width):
            block = np.empty((self.runs, min(width, size - first)))
            for run, row in enumerate(block):
                self._values.seek(8 * (run * size + first))
                self._values.readinto(row.data)  # type: ignore[attr-defined]
            flat[:, first : first + width] = quantiles(block, self.parts)
        of_times = flat.reshape(-1, *self.arrays["count"].shape)
        return results | dict(zip(map(quantile_name, self.parts), of_times, strict=True))

    def close(self) -> None:
        """Let go of the file of the values."""
        if self._values is not None:
            self._values.close()


def files_beside(place: Path) -> tuple[Path, Path]:
    """The files of what is accumulated, and of the values, of a sweep that has not ended."""
    return place.with_suffix(".statistics.npz"), place.with_suffix(".values")


def require_values(place: Path, statistics: Mapping[str, Any], wanted: Iterable[str]) -> None:
    """Refuse to go on with quantiles where the values of the runs so far are not kept."""
    path, length = files_beside(place)[1], 8 * int(statistics["runs"]) * len(statistics["t"])
    length *= len(statistics["names"]) if any(name.startswith(QUANTILE) for name in wanted) else 0
    if length > (path.stat().st_size if path.exists() else 0):
        raise InputError(
            "quantiles are those of the values of all runs, which are kept until a sweep has ended; "
            "leave resume out, or name another file"
        )


def accumulated(place: Path) -> dict[str, NDArray[Any]]:
    """What is accumulated in the file beside that of a sweep that has not ended; empty if there is none."""
    path = files_beside(place)[0]
    if not path.exists():
        return {}
    with damaged(f"{path} is damaged; remove it, and {place}, to begin anew"), opened(path) as file:
        return read_archive(file)


def over_time(parameters: Mapping[str, Any]) -> dict[str, dict[str, Vector]]:
    """Statistics over the runs at each time, by name and unknown, of a result of a sweep that has them."""
    about: Mapping[str, Any] = parameters.get("statistics") or {}
    arrays = {name: np.array(x, float) for name, x in about.items() if name not in ("t", "names", "runs")}
    if "squares" in arrays:
        runs = arrays["count"]
        arrays["std"] = np.sqrt(np.where(runs > 1, arrays["squares"], np.nan) / np.maximum(runs - 1, 1))
    if "mean" in arrays:
        arrays["mean"] = np.where(arrays["count"] > 0, arrays["mean"], np.nan)
    columns = {name: place for place, name in enumerate(about.get("names", ()))}
    return {
        statistic: {name: arrays[statistic][:, columns[name]] for name in of}
        for statistic, of in (parameters["reduce"].items() if about else ())
        if statistic in arrays
    }
