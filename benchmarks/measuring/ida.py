"""IDA of SUNDIALS on problems of this package, through scikit-sundae, with the settings that suit it."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring.clock import limited
from benchmarks.measuring.sizes import largest_error, nominal_of
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.run.callbacks import MOST_INNER_STEPS, Equations, ida_jacobian
from dae_sdc.run.sundials import MODULE, installed as installed
from dae_sdc.sharing import filtering

LOOSEST, TIGHTEST = -2.0, -14.0  # Range in which a tolerance is searched for, as powers of ten
STRIDE = 0.5  # Distance in powers of ten of the tolerances that are tried before the bisection
HALVINGS = 4


def settings(sparse: bool) -> dict[str, Any]:
    """What IDA is given besides residual, Jacobian, sparsity, algebraic_idx and tolerances."""
    # The steps to the next output are bounded, and the end is the only one.
    steps = {"max_num_steps": MOST_INNER_STEPS, "calc_initcond": None}
    return {"linsolver": "sparse" if sparse else "dense", "max_order": 5, **steps}


SETTINGS = settings(True)


def integrator(
    problem: ProblemDAE, residual: Any, jacobian: Any, sparse: bool, rtol: float, atol: Any
) -> Any:
    """A new integrator of the equations of a problem by their residual and exact Jacobian."""
    given = {"rtol": rtol, "atol": atol, **settings(sparse)}
    given |= {"sparsity": problem.sparsity} if sparse else {}
    given |= {"algebraic_idx": np.arange(problem.n_diff, problem.n)} if problem.n_alg else {}
    with filtering("ignore", UserWarning):  # that the exact Jacobian takes the place of one by differences
        return importlib.import_module(MODULE).ida.IDA(residual, jacfn=jacobian, **given)


def advance(solver: Any, end: float, each: bool) -> tuple[Any, int]:
    """The answer of an integrator at a time, and how many steps it took where ``each`` is taken apart."""
    steps = 0
    while True:
        found = solver.step(end, method="onestep" if each else "normal", tstop=end)
        steps += bool(found.success)
        if not found.success or found.t >= end:
            return found, steps


@dataclass
class Outcome:
    time: float  # Seconds of the integration, its set-up included
    end: NDArray[np.float64]  # shape (n,): Value at the end
    success: bool  # Whether it came there
    # rhs, jacobian: evaluations of the residual and of the Jacobian
    rhs: int
    jacobian: int
    steps: int  # Steps where each is taken apart, else 1


class Ida:
    """IDA with a sparse direct solver (SuperLU_MT), the exact Jacobian and a consistent start."""

    switches = False

    def __init__(self, problem: ProblemDAE, t0: float, t_end: float) -> None:
        if not installed():
            raise InputError("comparing with IDA needs scikit-sundae: pip install 'dae_sdc[bench]'")
        self.problem, self.t0, self.t_end = problem, t0, t_end
        self.start = np.array(problem.u_exact(t0)), np.array(problem.du_exact(t0))
        self.exact = np.array(problem.u_exact(t_end))
        equations = Equations(self)
        self.residual, self.jacobian = equations.residual, ida_jacobian(equations, True)

    def run(self, tolerance: float, each: bool = False) -> Outcome:
        """Integrate with a relative tolerance; what makes a new integrator is not timed."""
        scaled = tolerance * nominal_of(self.problem)
        solver = integrator(self.problem, self.residual, self.jacobian, True, tolerance, scaled)
        tic = perf_counter()
        solver.init_step(self.t0, *self.start)
        found, steps = advance(solver, self.t_end, each)
        time = perf_counter() - tic
        work = int(found.nfev), int(found.njev), steps
        return Outcome(time, np.array(found.y), bool(found.success), *work)

    def error(self, tolerance: float, seconds: float | None = None) -> float:
        """Largest error at the end in units of nominal values; infinite for a run that fails."""
        with nullcontext() if seconds is None else limited(seconds):
            found = self.run(tolerance)
        return largest_error(self.problem, found.end, self.exact) if found.success else math.inf


def loosest(error_at: Callable[[float], float], target: float) -> float:
    """The loosest tolerance that is accurate enough; the first, where errors do not fall with tolerances."""
    power = LOOSEST
    while not error_at(10.0**power) <= target:
        power -= STRIDE
        if power < TIGHTEST:
            return math.nan
    tight, loose = power, power if power == LOOSEST else power + STRIDE
    for _ in range(HALVINGS):
        middle = 0.5 * (tight + loose)
        if error_at(10.0**middle) <= target:
            tight = middle
        else:
            loose = middle
    return math.pow(10.0, tight)
