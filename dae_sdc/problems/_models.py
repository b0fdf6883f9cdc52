"""The library of DAEs that are given by their equations: structure, index reduction and start are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dae_sdc.errors import InputError, require_count
from dae_sdc.registry import Registry

if TYPE_CHECKING:
    from dae_sdc.model.model import Model

MODELS: Registry[Callable[..., Model]] = Registry("model", "dae_sdc.problems")
"""Functions that return a new model, by name; their arguments are numbers of equations or constants."""


def start_at(model: Model, names: Sequence[str], values: Iterable[float], order: int = 0) -> None:
    """Set start values of unknowns, or of derivatives of one order."""
    for name, value in zip(names, values, strict=True):
        model.start(name if order == 0 else f"der({name}, {order})", float(value))


MOST_PARTS = 10_000
"""Largest number of parts of a model: equations of SymPy take about a millisecond each."""


def require_size(what: str, count: int, least: int = 1) -> int:
    """A number of parts of a model; raises :class:`InputError` unless it is an integer of some size."""
    require_count(what, count, MOST_PARTS)
    if count < least:
        raise InputError(f"{what} must be at least {least}; got {count}")
    return int(count)


def total(terms: Sequence[Any]) -> Any:
    """The sum of SymPy's expressions, without taking it apart again and again."""
    from sympy import Add

    return Add(*terms)
