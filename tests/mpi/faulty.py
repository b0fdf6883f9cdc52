"""A problem that fails on one rank, for the programs in this directory."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from mpi4py import MPI

from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import InputError

KINDS = ("newton", "nan", "RuntimeError", "MemoryError", "InputError")
"""Ways in which a residual can fail."""


@PROBLEMS.register("decay")
class Decay(ProblemDAE):
    """Decay: y' = -z, 0 = z - y, which fails on one rank from a time on.

    Parameters
    ----------
    kind : str
        One of KINDS or KeyboardInterrupt, or empty for no fault.
    rank : int
        Rank in COMM_WORLD that it happens on.
    after : float
        Time after which it happens.
    pause : float
        Seconds that a residual takes.
    """

    index = 1
    interval = (0.0, 0.9)
    dt = 0.1
    parameters = {"kind": "1", "rank": "1", "after": "s", "pause": "s"}

    def __init__(
        self, kind: str = "", rank: int = 1, after: float = 0.21, pause: float = 0.0, **settings: Any
    ) -> None:
        super().__init__(n_diff=1, n_alg=1, **settings)
        self.kind, self.after, self.pause = kind, after, pause
        self.mine = MPI.COMM_WORLD.Get_rank() == rank

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        time.sleep(self.pause)
        f = np.array([du[0] + u[1], u[1] - u[0]])
        if self.mine and t > self.after:
            if self.kind == "newton":
                f[1] = u[1] ** 2 + 1.0
            elif self.kind == "nan":
                f[1] = np.nan
            elif self.kind == "RuntimeError":
                raise RuntimeError("the model is broken")
            elif self.kind == "MemoryError":
                raise MemoryError("nothing left")
            elif self.kind == "InputError":
                raise InputError("a bad table")
            elif self.kind == "KeyboardInterrupt":
                raise KeyboardInterrupt
        return f

    def u_exact(self, t: float) -> Any:
        return np.exp(-t) * np.ones(2)

    def du_exact(self, t: float) -> Any:
        return -np.exp(-t) * np.ones(2)
