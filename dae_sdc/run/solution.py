"""The solution of one run: values at the ends of the steps, work, and whether it got to the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.dae.counters import COUNTERS
from dae_sdc.run.results import Result, command_line


@dataclass(frozen=True, eq=False)
class Solution:
    """What :func:`dae_sdc.run.solve` returns.

    Parameters
    ----------
    t : ndarray, shape (K,)
        Start time and end of every accepted step.
    u, du : ndarray, shape (K, n)
        State and its derivative there; NaN where a derivative is not known.
    names, units : tuple of str
        Name and unit of every unknown.
    success : bool
        Whether the run reached its end time.
    message : str
        Why it did not.
    stats : mapping
        ``steps``, ``rejected``, ``sweeps`` and the work counters ``rhs``, ``newton``, ``jacobian``,
        ``factorization``, ``solve`` of the whole run.
    per_step : mapping of str to ndarray, shape (K,)
        ``residual``, ``sweeps`` and the work counters of every step; 0 at the start.
    parameters : mapping
        What was run.
    log : mapping
        pySDC's statistics of the run, for :func:`pySDC.helpers.stats_helper.get_sorted`.
    """

    t: NDArray[np.float64]
    u: NDArray[np.float64]
    du: NDArray[np.float64]
    names: tuple[str, ...]
    units: tuple[str, ...]
    success: bool
    message: str
    stats: Mapping[str, Any]
    per_step: Mapping[str, NDArray[Any]] = field(repr=False)
    parameters: Mapping[str, Any] = field(repr=False)
    log: Mapping[Any, Any] = field(repr=False, default_factory=dict)

    def result(self) -> Result:
        """The solution as a result table of kind "solution"."""
        n = self.u.shape[1]
        columns: list[tuple[Any, ...]] = [
            ("t", "f8"),
            ("u", "f8", (n,)),
            ("du", "f8", (n,)),
            ("residual", "f8"),
        ]
        columns += [(name, "i8") for name in ("sweeps", *COUNTERS)]
        data = np.zeros(len(self.t), dtype=columns)
        data["t"], data["u"], data["du"] = self.t, self.u, self.du
        for name, values in self.per_step.items():
            data[name] = values
        time_unit = self.parameters.get("time_unit", "s")
        parameters = {
            **self.parameters,
            "success": self.success,
            "message": self.message,
            "stats": self.stats,
        }
        return Result("solution", data, {"t": time_unit}, parameters, command_line())

    def save(self, path: str | Path) -> Path:
        """Write the solution to ``path`` (.npy with a .json beside it); returns the path of the .npy file."""
        return self.result().save(path)
