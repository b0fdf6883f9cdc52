"""Published-style contraction factors of the sweeps, entry by entry.

One step of dt = 0.05 from t = 0 with M = 3 RADAU-RIGHT nodes. The factor is the geometric mean, from the
second to the sixth sweep, of the reduction of the error of z at the end of the step against the converged
collocation solution. Fully and semi-implicit sweeps start from u' = 0, constrained ones from u' = u'(0). The
DAEs of index 2 and 3 are Jay's; that of index 1 is the linear one whose eigenvalue 4.3 gives the factors of
all its entries.
"""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest
from pySDC.core.step import Step

from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.sweepers.sdc import SWEEPERS

EIGENVALUE = 4.3
FIRST, LAST = 2, 6
WITHIN = 0.2


class LinearIndex1(ProblemDAE):
    """y' = 1.3 y + 3 z, 0 = z - y, so y' = 4.3 y on the constraint."""

    index = 1

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)

    def eval_f(self, u, du, t):
        return [du[0] - 1.3 * u[0] - 3.0 * u[1], u[1] - u[0]]

    def u_exact(self, t):
        return [exp(EIGENVALUE * t)] * 2

    def du_exact(self, t):
        return [EIGENVALUE * exp(EIGENVALUE * t)] * 2


INDEX = {1: LinearIndex1, 2: PROBLEMS["hessenberg-2"], 3: PROBLEMS["hessenberg-3"]}

# Semi-implicit, fully implicit and constrained; None where no figure is known. At index 1 the fully implicit
# factors depend on the nonlinearity of a problem that is not known.
TABLE = {
    (1, "LU"): (0.045, None, 0.045),
    (1, "IE"): (0.055, None, 0.054),
    (1, "MIN-SR-S"): (0.053, None, 0.067),
    (1, "MIN-SR-NS"): (0.008, None, 0.011),
    (2, "LU"): (0.10, 0.21, None),
    (2, "IE"): (0.52, 0.70, None),
    (2, "MIN-SR-S"): (0.52, 0.43, 0.27),
    (2, "MIN-SR-FLEX"): (0.30, 0.60, 0.30),
    (3, "LU"): (0.14, 0.62, 0.12),
    (3, "IE"): (0.62, 0.89, 0.62),
    (3, "MIN-SR-S"): (0.28, 0.52, 0.32),
    (3, "MIN-SR-FLEX"): (0.32, 0.76, 0.32),
}
COLUMNS = ("semi-implicit", "fully-implicit", "constrained")
ENTRIES = [
    pytest.param(index, qdelta, sweeper, value, id=f"{index}-{qdelta}-{sweeper}")
    for (index, qdelta), values in TABLE.items()
    for sweeper, value in zip(COLUMNS, values, strict=True)
    if value is not None
]


def step(index: int, sweeper: str, qdelta: str) -> Any:
    """A level at t = 0 with its prediction made."""
    description = {
        "problem_class": INDEX[index],
        "problem_params": {"newton_tol": 1e-14},
        "sweeper_class": SWEEPERS[sweeper],
        "sweeper_params": {"num_nodes": 3, "QI": qdelta, "initial_guess": "spread"},
        "level_params": {"dt": 0.05},
        "step_params": {"maxiter": 1},
    }
    level = Step(description).levels[0]
    level.status.time = 0.0
    level.u[0] = level.prob.state(level.prob.u_exact(0.0))
    level.sweep.predict()
    if sweeper == "constrained":
        start = np.array(level.prob.du_exact(0.0))
        start[level.prob.n_diff :] = 0.0
        for derivative in level.f[1:]:
            derivative[:] = start
    return level


def multiplier_at_end(level: Any, sweeps: int) -> list[np.ndarray]:
    values = []
    for _ in range(sweeps):
        level.sweep.updateVariableCoeffs(1)
        level.sweep.update_nodes()
        values.append(np.array(level.u[-1].alg))
    return values


@pytest.mark.parametrize(("index", "qdelta", "sweeper", "value"), ENTRIES)
def test_sweeps_contract_as_in_the_table(index, qdelta, sweeper, value):
    converged = multiplier_at_end(step(index, sweeper, "LU"), 60)[-1]
    errors = [np.abs(z - converged).max() for z in multiplier_at_end(step(index, sweeper, qdelta), LAST)]
    factor = (errors[LAST - 1] / errors[FIRST - 1]) ** (1.0 / (LAST - FIRST))
    assert abs(factor / value - 1.0) < WITHIN


@pytest.mark.parametrize("index", [2, 3])
@pytest.mark.parametrize("sweeper", COLUMNS)
def test_min_sr_ns_diverges_from_index_2_on_and_is_refused(index, sweeper):
    with pytest.raises(InputError, match=r"MIN-SR-NS.*diverge"):
        step(index, sweeper, "MIN-SR-NS")


def test_min_sr_ns_diverges_for_the_fully_implicit_sweeper_at_index_1():
    with pytest.raises(InputError, match=r"MIN-SR-NS.*diverge"):
        step(1, "fully-implicit", "MIN-SR-NS")
