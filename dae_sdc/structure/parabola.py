"""The parabola through three values."""

from __future__ import annotations

import numpy as np


def foretold(x: float, y: float, z: float, a: float, b: float) -> float:
    """Least value of a parabola through three, relative to the larger outer one, or infinite without one."""
    left, right = (y - x) / a, (z - y) / b
    bend = (right - left) / (a + b)
    if not bend > 0.0:
        return np.inf
    # Newton's form has its vertex at this distance from the first of the three.
    vertex = 0.5 * (a - left / bend)
    if not 0.0 <= vertex <= a + b:
        return np.inf
    return (x + vertex * (left + bend * (vertex - a))) / max(x, z)
