"""Sizes of unknowns and time at the start of a run, from the equations there."""

from __future__ import annotations

from typing import Any

import numpy as np

from dae_sdc.dae.jacobian import ROOT_EPS, Linearization, groups_of_columns, linearize
from dae_sdc.dae.linear import largest
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import Balance, Terms, balanced_sizes, zeros
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import SolveError

LOOKS = (0.29, 0.61, 0.97, 2.0**-10)
"""Places in the interval, in units of it, at which F is asked for what is 0 at the start."""

ROUNDING = 2.0**-40
"""Part of the terms of an equation below which their sum is 0."""

LARGEST_TRIAL, SMALLEST_TRIAL, RATIO = 2.0**40, 2.0**-80, 2.0**-10
"""Sizes that an unknown at 0 is tried to have, from the largest on, for differences of F."""

STRAIGHT = 1e-5
"""Relative difference of F from a straight line up to which it counts as one."""


def begin_scales(problem: ProblemDAE, u0: MeshDAE, t0: float, span: float, rtol: float) -> None:
    """Let the scales of a problem take the start of a run.

    Parameters
    ----------
    problem : ProblemDAE
        The equations.
    u0 : MeshDAE
        State, shape (n,).
    t0, span : float
        Start and length of the interval.
    rtol : float
        Relative tolerance of the run.
    """
    u0 = without_left_overs(problem, u0)
    try:
        guess_scales(problem, u0, t0, span, rtol)
        parts = linearize(problem, u0, problem.dtype_f(problem.init), t0)
    except SolveError:  # what there is no Jacobian of is told when a step needs it
        return
    problem.run_scales.begin(u0.view(np.ndarray), balance_at(problem, u0, t0, parts, span), rtol)


def without_left_overs(problem: ProblemDAE, u0: MeshDAE) -> MeshDAE:
    """A state with 0 for what would pass for constants of F or entries of its Jacobian, see :func:`zeros`."""
    values = u0.view(np.ndarray)
    left_over = zeros(values)
    if not values[left_over].any():
        return u0
    return attach(np.where(left_over, 0.0, values), problem.n_diff)


def guess_scales(problem: ProblemDAE, u0: MeshDAE, t0: float, span: float, rtol: float) -> None:
    """Let the scales of a problem take what differences of F need; see :func:`begin_scales`."""
    values = u0.view(np.ndarray)
    problem.run_scales.begin(values, Balance.unknown(values, span), rtol)
    problem.start_step(u0, t0)
    if getattr(problem, "jacobian", None) is None:
        _try_sizes(problem, u0, problem.dtype_f(problem.init), t0)


def balance_at(problem: ProblemDAE, u0: MeshDAE, t0: float, parts: Linearization, span: float) -> Balance:
    """Sizes that the equations give the unknowns and time at a state.

    Parameters
    ----------
    problem : ProblemDAE
        The equations.
    u0 : MeshDAE
        State, shape (n,).
    t0 : float
        Time.
    parts : Linearization
        dF/du' and dF/du there with u' = 0.
    span : float
        Length of the interval.
    """
    scales, values = problem.run_scales, u0.view(np.ndarray)
    constants = _constants(problem, u0, problem.dtype_f(problem.init), parts.stiffness, t0, span)
    known = values if scales.running else np.maximum(scales.nominal, np.abs(values))
    return balanced_sizes(Terms.of(parts.mass, parts.stiffness, constants), known, span)


def _constants(
    problem: ProblemDAE, u0: MeshDAE, slope: MeshDAE, stiffness: Any, t0: float, span: float
) -> Vector:
    """Sizes of F with the start for u and 0 for u'; where they are 0 or rounding, at a later time."""
    least = ROUNDING * (abs(stiffness) @ np.abs(u0.view(np.ndarray)))
    found = np.abs(problem.evaluate(u0, slope, t0))
    found[found <= least] = 0.0
    for place in LOOKS:
        if found.all():
            break
        # The start need not be a state that F is defined for at other times, nor one near a solution.
        value = np.abs(problem.evaluate(u0, slope, t0 + place * span))
        np.copyto(found, value, where=(found == 0.0) & (value > least) & (value < np.inf))
    return found


def _try_sizes(problem: ProblemDAE, u0: MeshDAE, slope: MeshDAE, t0: float) -> None:
    """Give unknowns at 0 the largest size over which F is a straight line, for the first differences of F."""
    sizes, rates = problem.run_scales.unknowns, problem.run_scales.rates
    base = problem.evaluate(u0, slope, t0).copy()

    def change(values: Any, of: Any, step: float) -> Vector:
        before = values[of]
        values[of] = step
        found = problem.evaluate(u0, slope, t0) - base
        values[of] = before
        return found

    for values, found in ((u0.view(np.ndarray), sizes), (slope.view(np.ndarray), rates)):
        at_zero = zeros(values)
        for group in groups_of_columns(problem):
            small = group[at_zero[group]]
            trial = LARGEST_TRIAL
            # The smallest where F is nowhere straight, as x^2 at 0.
            while trial > SMALLEST_TRIAL and len(small):
                found[small] = trial
                step = ROOT_EPS * trial
                once, twice = change(values, small, step), change(values, small, 2.0 * step)
                bend = np.abs(twice - 2.0 * once)
                if largest(twice) < np.inf and (bend <= STRAIGHT * np.abs(twice)).all():
                    break
                trial *= RATIO
