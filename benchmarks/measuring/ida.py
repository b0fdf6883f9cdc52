"""IDA of SUNDIALS on problems of this package, through scikit-sundae, with the settings that suit it."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.measuring.clock import limited
from benchmarks.measuring.processes import largest_error, nominal_of
from benchmarks.measuring.races import Outcome, PeerFailure
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.run.sundials import MODULE, MOST_INNER_STEPS, Equations, ida_jacobian, installed, slope_at
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


def integrator(equations: Equations, sparse: bool, rtol: float, atol: Any) -> Any:
    """A new integrator of the equations of a problem by their residual and exact Jacobian."""
    problem, given = equations.problem, {"rtol": rtol, "atol": atol, **settings(sparse)}
    given |= {"sparsity": problem.sparsity} if sparse else {}
    given |= {"algebraic_idx": np.arange(problem.n_diff, problem.n)} if problem.n_alg else {}
    given |= {"jacfn": ida_jacobian(equations, sparse)}
    with filtering("ignore", UserWarning):  # that the exact Jacobian takes the place of one by differences
        return importlib.import_module(MODULE).ida.IDA(equations.residual, **given)


def integrate(solver: Any, case: Any, each: bool) -> Outcome:
    """Integrate a case piece by piece; the steps are counted where ``each`` is taken apart.

    A case has the times between its ``pieces``, its ``start``, its ``slope`` there, and its equations.
    """
    tic = perf_counter()
    u, steps, rhs, jacobians = case.start, 0, 0, 0
    for t, end in pairwise(case.pieces):
        case.equations.begin(u, t)
        solver.init_step(t, u, case.slope if t == case.t0 else slope_at(case.problem, u, t))
        reached = t
        while reached < end:
            answer = solver.step(end, method="onestep" if each else "normal", tstop=end)
            reached = float(answer.t)
            if not answer.success:
                raise PeerFailure(f"t={reached:.4g}: {answer.message}")
            steps += 1
        u = np.array(answer.y)
        # Every piece begins to count anew.
        rhs += int(answer.nfev)
        jacobians += int(answer.njev)
    # IDA evaluates the Jacobian whenever it sets up a linear system, and factorises it then.
    work = {"rhs": float(rhs), "jacobian": float(jacobians), "factorization": float(jacobians)}
    return Outcome(perf_counter() - tic, u, float(steps) if each else math.nan, **work)


class Ida:
    """IDA with a sparse direct solver (SuperLU_MT), the exact Jacobian and a consistent start."""

    def __init__(self, problem: ProblemDAE, t0: float, t_end: float) -> None:
        if not installed():
            raise InputError("comparing with IDA needs scikit-sundae: pip install 'dae_sdc[bench]'")
        self.problem, self.t0, self.pieces = problem, t0, (t0, t_end)
        self.start, self.slope = np.array(problem.u_exact(t0)), np.array(problem.du_exact(t0))
        self.exact = np.array(problem.u_exact(t_end))
        self.equations = Equations(problem, False)

    def run(self, tolerance: float, each: bool = False) -> Outcome:
        """Integrate with a relative tolerance; what makes a new integrator is not timed."""
        scaled = tolerance * nominal_of(self.problem)
        return integrate(integrator(self.equations, True, tolerance, scaled), self, each)

    def error(self, tolerance: float, seconds: float | None = None) -> float:
        """Largest error at the end in units of nominal values; infinite for a run that fails."""
        try:
            with nullcontext() if seconds is None else limited(seconds):
                return largest_error(self.problem, self.run(tolerance).end, self.exact)
        except PeerFailure:
            return math.inf


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
