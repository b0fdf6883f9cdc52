"""The differentiation index by its definition: how often the equations must be differentiated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import perm
from typing import TYPE_CHECKING

from dae_sdc.structure.rank import Echelon, WorkLimitError
from dae_sdc.structure.series import NoValueError, Series, evaluate
from dae_sdc.structure.signature import Signature
from dae_sdc.symbolic.residues import PRIME

if TYPE_CHECKING:
    from dae_sdc.symbolic.graph import Graph


@dataclass(frozen=True)
class Differentiation:
    """What the derivative array tells.

    Parameters
    ----------
    index : int or None
        Differentiation index; None if the equations do not determine the unknowns up to the highest number
        of derivatives that was tried.
    dof : int or None
        Number of values that can be chosen freely at the start.
    """

    index: int | None
    dof: int | None


def differentiate(
    graph: Graph, roots: list[int], signature: Signature, most: int, limit: int | None = None
) -> Differentiation | None:
    r"""Differentiation index and degrees of freedom of a DAE at a generic point.

    With s_j the highest order of x_j in the equations, at least 1, the index is the smallest k such that
    F = 0, F' = 0, ..., F^(k) = 0 determine all :math:`x_j^{(s_j)}`: such that the Jacobian of this array by
    the derivatives of these and higher orders is 1-full in :math:`x^{(s)}`. The rank is exact, at a random
    point; it is that at consistent points unless it is smaller just there.

    Parameters
    ----------
    graph, roots : Graph and list of int
        Equations.
    signature : Signature
        True orders of derivative.
    most : int
        Largest k that is tried.
    limit : int, optional
        Operations of the elimination after which it is given up.

    Returns
    -------
    Differentiation or None
        The index and the dimension of the set of consistent values; None if that took too long.

    References
    ----------
    S. L. Campbell, C. W. Gear: The index of general nonlinear DAEs, Numer. Math. 72 (1995).
    """
    order = min(3, most)
    while True:
        try:
            found = _search(graph, roots, signature, order, Echelon(limit))
        except WorkLimitError:
            return None
        if found.index is not None or order >= most:
            return found
        order = min(2 * order, most)


def _search(
    graph: Graph, roots: list[int], signature: Signature, most: int, echelon: Echelon
) -> Differentiation:
    n = signature.shape[1]
    highest = [1] * n
    for j, k in zip(signature.cols.tolist(), signature.orders.tolist(), strict=True):
        highest[j] = max(highest[j], k)
    shift = max(highest)
    try:
        outputs = evaluate(graph, roots, most)
    except NoValueError:
        return Differentiation(None, None)
    determined = constraints = 0
    for k in range(most + 1):
        for _, partials in outputs:
            row: dict[int, int] = {}
            for (j, q), series in partials.items():
                for m, value in _coefficients(series, k, q):
                    at = (q + m - highest[j] + shift) * n + j
                    row[at] = (row.get(at, 0) + value) % PRIME
            lead = echelon.add({at: value for at, value in row.items() if value})
            if lead is not None:
                level = lead // n - shift
                determined += level == 0
                constraints += level < 0
        if determined == n:
            return Differentiation(k, sum(highest) - constraints)
    return Differentiation(None, None)


def _coefficients(series: Series, k: int, q: int) -> Iterator[tuple[int, int]]:
    """Derivatives of coefficient k of f by the Taylor coefficients q + m of x, where f depends on x^(q)."""
    for m in range(max(0, k - len(series) + 1), k + 1):
        yield m, series[k - m] * perm(q + m, q)
