"""Files of solutions: what a table, its sidecar and the polynomials beside them give back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dae_sdc.control.events import EventRecord
from dae_sdc.dae.counters import COUNTERS
from dae_sdc.dae.interpolant import DenseOutput
from dae_sdc.dae.pointwise import Pointwise, PointwiseEquations
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.run.files import opened, read_archive
from dae_sdc.run.results import BESIDE, Result, checksum, load
from dae_sdc.run.unknowns import SavedUnknowns

SAMPLES = ("sample_times", "samples")
"""Arrays of the values of eliminated unknowns between the steps."""


def file_between(path: str | os.PathLike[str]) -> Path:
    """The file for values between the steps that belongs to a ``.npy`` file, whose suffix may be left out."""
    source = Path(path)
    source = source if source.suffix == ".npy" else source.with_name(f"{source.name}.npy")
    return source.with_suffix(BESIDE)


def fields_of_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of a :class:`~dae_sdc.run.solution.Solution` from its files."""
    result = load(path)
    if result.kind != "solution":
        raise ResultFileError(f"{path} holds a result of kind '{result.kind}'; give a file of a solution")
    data, parameters = result.data, dict(result.parameters)
    n = data["u"].shape[1]
    wrong = _lacking(parameters, n)
    if wrong:
        raise ResultFileError(
            f"{path} lacks what a solution tells of its run ({', '.join(wrong)}); solve again"
        )
    found = {
        kind: tuple(EventRecord.of(record, n) for record in parameters.pop(kind, ()))
        for kind in ("events", "switches")
    }
    beside = file_between(path)
    dense, samples = _load_dense(beside, result) if beside.exists() else (None, {})
    others, units = parameters.pop("others", ()), parameters.pop("other_units", ())
    fields: Mapping[str, Any] = data.dtype.fields or {}
    shape = fields["others"][0].shape if "others" in fields else (0,)
    if not len(others) == len(units) == sum(shape):
        raise ResultFileError(f"{path} lacks the values of eliminated unknowns; solve again")
    unknowns = None
    if others:
        unknowns = SavedUnknowns(others, units, data["t"].copy(), data["others"].copy(), samples)
    return {
        "t": data["t"].copy(),
        "u": data["u"].copy(),
        "du": data["du"].copy(),
        "names": tuple(parameters["names"]),
        "units": tuple(parameters["units"]),
        "success": parameters.pop("success"),
        "message": parameters.pop("message"),
        "stats": parameters.pop("stats"),
        "per_step": {name: data[name].copy() for name in ("residual", "sweeps", *COUNTERS)},
        **found,
        "parameters": parameters,
        "dense": dense,
        "equations": None if dense is None else _equations(parameters, dense),
        "saves_dense": dense is not None,
        "unknowns": unknowns,
    }


def _equations(parameters: Mapping[str, Any], dense: DenseOutput) -> Pointwise | None:
    """The correction by the equations of a problem of the library, from the parameters in a file."""
    name = parameters.get("problem")
    if not isinstance(name, str) or name not in PROBLEMS:
        return None
    with suppress(InputError, TypeError, ValueError, ArithmeticError):  # parameters of another version
        problem = PROBLEMS[name](**parameters.get("params", {}))
        if problem.n == len(dense.u0):
            return PointwiseEquations(problem, dense.largest())
    return None


def _lacking(parameters: Mapping[str, Any], n: int) -> list[str]:
    """Names of parameters that a saved solution of n unknowns lacks, or has with another type."""
    kinds = {"success": bool, "message": str, "stats": dict, "params": dict}
    given = {"params": {}, **parameters}
    wrong = [name for name, kind in kinds.items() if not isinstance(given.get(name), kind)]
    for name, count in {"names": n, "units": n, "others": None, "other_units": None}.items():
        texts = given.get(name, None if count is not None else [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            wrong.append(name)
        elif count is not None and len(texts) != count:
            wrong.append(name)
    for name in ("events", "switches"):
        try:
            for record in given.get(name, ()):
                EventRecord.of(record, n)
        except (TypeError, ValueError, KeyError, OverflowError):
            wrong.append(name)
    return wrong


def _load_dense(path: Path, result: Result) -> tuple[DenseOutput, dict[str, Vector]]:
    """The polynomials in a file, and samples of eliminated unknowns."""
    try:
        with opened(path) as file:
            arrays = read_archive(file)
        belongs, dense = int(arrays.pop("checksum")), DenseOutput.from_arrays(arrays)
        if dense.values.shape[1:] != result.data["u"].shape[1:]:
            raise ValueError("has another number of unknowns")
        samples = {name: table for name, table in arrays.items() if name in SAMPLES}
        if samples and samples["samples"].shape != (
            len(samples["sample_times"]),
            *result.data["others"].shape[1:],
        ):
            raise ValueError("has another number of eliminated unknowns")
    except ResultFileError:  # is a ValueError too
        raise
    except (ValueError, KeyError, IndexError, TypeError, OverflowError):
        raise ResultFileError(
            f"{path} is damaged; restore it, or delete it to load the values at the steps alone"
        ) from None
    if belongs != checksum(result.data):
        raise ResultFileError(
            f"{path} belongs to another solution; restore the files, or delete it to load the values at the "
            f"steps alone"
        )
    return dense, samples
