"""Embedded diagonally implicit pairs that the package does not have."""

from __future__ import annotations

from typing import Any

import dae_sdc as ds

GAMMA = 1.0 - 0.5**0.5


def pair(name: str, rows: Any, b: Any, b_embedded: Any) -> Any:
    """The sweeper of a pair of orders 2 and 1."""
    rest = {"order": 2, "orders": {1: (2, 2)}, "reference": "a test", "embedded_order": 1}
    A = [[row[0], row[1]] for row in rows]
    made = ds.Tableau(name, name.upper(), A, b, [sum(row) for row in A], b_embedded=b_embedded, **rest)
    return ds.runge_kutta(made)


IMPLICIT_FIRST = pair("alexander", [(GAMMA, 0.0), (1.0 - GAMMA, GAMMA)], [1.0 - GAMMA, GAMMA], [0.5, 0.5])
TWO_DIAGONALS = pair("unequal", [(0.25, 0.0), (2.0 / 3.0, 1.0 / 3.0)], [2.0 / 3.0, 1.0 / 3.0], [0.5, 0.5])
"""The two entries of its diagonal differ."""
ENDS_BEHIND = pair("behind", [(GAMMA, 0.0), (1.0 - 2.0 * GAMMA, GAMMA)], [0.5, 0.5], [1.0, 0.0])
"""Its step does not end in a stage."""
