"""Which rows of a study belong to one curve, and what the curve is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dae_sdc.plotting import style
from dae_sdc.run.results import CONFIGURATION

KEYS = tuple(name for name, _ in CONFIGURATION if name not in ("group", "dt"))
TEXTS = tuple(name for name, kind in CONFIGURATION if kind[0] == "U")
"""Columns of texts in every study."""

GROUPS = {
    "differential": "differential components",
    "algebraic": "algebraic components",
    "position": "positions",
    "velocity": "velocities",
    "multiplier": "multipliers",
}
"""Component groups in the order of their panels, as readers call them."""


@dataclass(frozen=True)
class Curves:
    """The curves of a study."""

    common: str  # Settings that all curves share, for the title.
    labels: tuple[str, ...]  # Settings in which each curve differs from others.
    rows: tuple[NDArray[np.intp], ...]  # Row numbers of each curve.


def curves(data: NDArray[np.void], keys: Sequence[str] = KEYS, unit: str | None = None) -> Curves:
    """Split the rows of a study into curves, in the order of their first rows."""
    found: dict[tuple[object, ...], list[int]] = {}
    for number in range(len(data)):
        found.setdefault(tuple(data[key][number].item() for key in keys), []).append(number)
    differing = [position for position in range(len(keys)) if len({key[position] for key in found}) > 1]
    same = [position for position in range(len(keys)) if position not in differing]
    if not differing:
        differing = [keys.index("sweeper")]
    first = next(iter(found), ())
    return Curves(
        common=_join(keys, first, same if first else [], unit),
        labels=tuple(_join(keys, key, differing, unit) or "curve" for key in found),
        rows=tuple(np.array(rows, dtype=np.intp) for rows in found.values()),
    )


def groups(data: NDArray[np.void]) -> list[str]:
    """The component groups of a study in the order of :data:`GROUPS`, others after them."""
    there = list(dict.fromkeys(str(group) for group in data["group"]))
    return [group for group in GROUPS if group in there] + [group for group in there if group not in GROUPS]


def _join(keys: Sequence[str], values: Sequence[object], positions: Sequence[int], unit: str | None) -> str:
    parts = []
    for position in positions:
        key, value = keys[position], values[position]
        if value in ("", 0):  # a Runge-Kutta method has neither nodes nor a preconditioner
            continue
        if key == "nodes":
            parts.append(f"M={value}")
        elif key == "dt":
            parts.append(f"dt={value:g}{f' {style.text(unit)}' if unit else ''}")
        else:
            parts.append(style.text(value))
    return ", ".join(parts)
