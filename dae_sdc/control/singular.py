"""Points at which first-order equations with constraints no longer determine their solution."""

from __future__ import annotations

from typing import Any

import numpy as np
from pySDC.core.hooks import Hooks

from dae_sdc.dae.quasilinear import QuasilinearProblem

FIRST_ORDER = ("daen1", "daeq1", "daeq2")
"""Types at whose singular points solutions branch: a method may follow any, and its error is small."""


class RefuseSingularPoints(Hooks):  # type: ignore[misc]
    """Ends a run at a step that comes to a singular point, for methods that do not notice.

    There the matrix of the derivatives and multipliers has no inverse, and more than one solution may go on:
    u^2 + u'^2 = 1 has sin t, and from t = pi/2 on also the constant 1.
    """

    def post_step(self, step: Any, level_number: int) -> None:
        """Look at the end of an accepted step.

        Raises
        ------
        SingularMatrixError
            With the time, and which of the equations are dependent.
        """
        super().post_step(step, level_number)
        L = step.levels[0]
        problem = L.prob
        if step.status.get("restart") or not watches(problem):
            return
        place, _, _ = problem.state_parts(L.uend.view(np.ndarray))
        problem.saddle_point(L.time + L.dt, place)


def watches(problem: Any) -> bool:
    """Whether solutions of a problem may branch."""
    return isinstance(problem, QuasilinearProblem) and problem.kind in FIRST_ORDER
