"""Correct digits at the end of a run of a problem of the Test Set, as its authors count them."""

from __future__ import annotations

import math

import numpy.typing as npt

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.problems._library import ReferenceEnd


def scd(problem: ProblemDAE, u: npt.ArrayLike) -> float:
    r"""Significant correct digits of ``u`` at the end of the interval.

    .. math::
        \mathrm{scd} = \min_i\, -\log_{10} \frac{|u_i - u_i^{\mathrm{ref}}|}{|u_i^{\mathrm{ref}}|}

    over the scored unknowns with known digits. A component counts with no more digits than the reference has;
    the score is NaN if one is NaN.

    References
    ----------
    F. Mazzia, C. Magherini: Test Set for IVP Solvers, release 2.4, 2008.
    """
    return _digits(problem, u, _reference(problem).scored)


def scd_differential(problem: ProblemDAE, u: npt.ArrayLike) -> float:
    """:func:`scd` over those scored unknowns that are differential and of index 1.

    Unknowns of higher index are less accurate by powers of the step size and hide the accuracy of the others.
    """
    index, scored = problem.variable_index, _reference(problem).scored
    return _digits(problem, u, tuple(i for i in scored if i < problem.n_diff and index[i] == 1))


def _reference(problem: ProblemDAE) -> ReferenceEnd:
    reference = getattr(problem, "reference_end", None)
    if not isinstance(reference, ReferenceEnd):
        raise InputError(f"{type(problem).__name__} has no reference_end; it cannot be scored")
    return reference


def _digits(problem: ProblemDAE, u: npt.ArrayLike, scored: tuple[int, ...]) -> float:
    reference, state = _reference(problem), problem.state(u)
    scored = tuple(i for i in scored if reference.digits[i] > 0.0)
    if not scored:
        raise InputError(f"no unknown of {type(problem).__name__} that is to be scored has known digits")
    least = math.inf
    for i in scored:
        error = abs(float(state[i] - reference.u[i])) / abs(float(reference.u[i]))
        if math.isnan(error):
            return math.nan
        known = float(reference.digits[i])
        least = min(least, known if error < 10.0**-known else -math.log10(error))
    return least
