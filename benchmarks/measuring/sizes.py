"""What errors are measured in: the sizes that the unknowns of a problem usually have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.dae.problem import ProblemDAE


def nominal_of(problem: ProblemDAE) -> Any:
    """The ``nominal`` values of a problem, 1 where it gives none."""
    return np.asarray(problem.nominal, dtype=np.float64)


def largest_error(problem: ProblemDAE, found: NDArray[np.float64], exact: NDArray[np.float64]) -> float:
    """Largest error of an unknown in units of its nominal value."""
    return float(np.abs((found - exact) / nominal_of(problem)).max())


def common_sizes(problem: ProblemDAE, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The size of the largest unknown, for all of them: each in units of its nominal value."""
    # Shapes: values (n,).
    nominal = np.broadcast_to(nominal_of(problem), values.shape)
    return np.asarray(nominal * np.abs(values / nominal).max(), dtype=np.float64)
