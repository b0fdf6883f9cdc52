r"""What a sweep, a message and a parallel run cost: a model with few numbers, fitted to measured times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from dae_sdc.sweepers.parallel import blocks

DOUBLE = 8  # Bytes of a number
NOTES = 2  # Numbers that travel beside the n values of a node
# Powers of n with which the cost of a node may grow: sparse LU of lines has 1, of planes up to 3/2
EXPONENTS = np.linspace(1.0, 2.0, 101)
ENOUGH = 1.1  # Deviation of a fit, relative to that of the best, that is good enough for a simpler model
# Cost of restriction, prolongation and the FAS correction as a part of the sweeps on both levels
TRANSFER = 0.1


@dataclass(frozen=True)
class Network:
    """Time of a message: latency and bandwidth.

    R. W. Hockney, The communication challenge for MPP: Intel Paragon and Meiko CS-2, Parallel Comput. 20
    (1994) 389. R. Thakur, R. Rabenseifner, W. Gropp, Optimization of collective communication operations in
    MPICH, Int. J. High Perform. Comput. Appl. 19 (2005) 49, sec. 4.1.
    """

    latency: float  # Seconds of an empty message
    bandwidth: float  # Bytes a second; may be infinite

    def message(self, size: float) -> float:
        return self.latency + size / self.bandwidth

    def gather(self, ranks: int, size: float) -> float:
        r"""Seconds in which all ranks receive the parts of all.

        .. math:: \lceil \log_2 P \rceil\, \alpha + \frac{P - 1}{P} \frac{m}{\beta}
        """
        return self.latency * math.ceil(math.log2(ranks)) + (ranks - 1) / ranks * size / self.bandwidth


@dataclass(frozen=True)
class SweepCost:
    r"""Computing time of a sweep on each of P ranks.

    .. math::
        T(n, M, P) = t_0 + r M n + \lambda_P\, M (a + b\, n^p), \qquad
        \lambda_P = \max_{\mathrm{ranks}} \sum_{m\; \mathrm{owned}} s_m

    The first two terms are the same on every rank: the controller, and what is done with the values of all
    nodes everywhere. The last one is shared: solving at a node and the residual there. The shares s_m of the
    nodes, with sum 1, are not equal where late nodes need more iterations; if they are,
    :math:`\lambda_P = \lceil M / P \rceil / M`.
    """

    controller: float  # t_0 in seconds
    replicated: float  # r in seconds
    fixed: float  # a in seconds
    growing: float  # b in seconds
    exponent: float  # p
    shares: tuple[float, ...] = (1.0,)  # s_m as measured; for other numbers of nodes interpolated over m / M

    def computing(self, n: float, nodes: int, ranks: int = 1) -> float:
        """Seconds of one sweep on the rank that has most to do."""
        node: float = self.fixed + self.growing * n**self.exponent
        alike = self.controller + self.replicated * nodes * n
        return alike + largest_share(self.shares, nodes, ranks) * nodes * node


def largest_share(shares: Sequence[float], nodes: int, ranks: int) -> float:
    """Largest part of the work at the nodes that one rank has."""
    place = (np.arange(nodes) + 0.5) / nodes
    known = (np.arange(len(shares)) + 0.5) / len(shares)
    weights = np.interp(place, known, shares)
    counts, starts = blocks(nodes, ranks)
    parts = [weights[first : first + count].sum() for first, count in zip(starts, counts, strict=True)]
    return float(max(parts) / weights.sum())


def fit_sweep(
    n: ArrayLike, ranks: ArrayLike, seconds: ArrayLike, nodes: int, shares: Sequence[float] = (1.0,)
) -> tuple[SweepCost, NDArray[np.float64]]:
    """Fit the computing time of a sweep, with least squares of relative deviations and no negative cost."""
    # Shapes: n, ranks, seconds (K,) -> (K,).
    sizes, times = np.asarray(n, float), np.asarray(seconds, float)
    load = nodes * np.array([largest_share(shares, nodes, int(p)) for p in np.asarray(ranks).tolist()])
    fits: list[tuple[float, float, NDArray[np.float64]]] = []
    for exponent in EXPONENTS.tolist():
        terms = np.column_stack([np.ones_like(sizes), nodes * sizes, load, load * sizes**exponent])
        scaled = terms / times[:, None]
        scale = scaled.max(axis=0)
        found, deviation = nnls(scaled / scale, np.ones_like(times))
        fits.append((float(deviation), exponent, found / scale))
    # Noise must not look like growth: the smallest exponent that fits nearly as well as any.
    limit = ENOUGH * min(deviation for deviation, _, _ in fits) + 1e-9
    _, exponent, terms = next(fit for fit in fits if fit[0] <= limit)
    coefficients = dict(zip(("controller", "replicated", "fixed", "growing"), terms.tolist(), strict=True))
    cost = SweepCost(**coefficients, exponent=exponent, shares=tuple(shares))
    model = [cost.computing(size, nodes, int(p)) for size, p in zip(sizes, np.asarray(ranks), strict=True)]
    return cost, np.array(model) / times - 1.0


def fit_network(ranks: ArrayLike, size: ArrayLike, seconds: ArrayLike) -> tuple[Network, NDArray[np.float64]]:
    """Fit latency and bandwidth to measured times of :meth:`Network.gather`; the same returns."""
    p, m, t = (np.asarray(values, float) for values in (ranks, size, seconds))
    terms = np.column_stack([np.ceil(np.log2(p)), (p - 1.0) / p * m]) / t[:, None]
    scale = terms.max(axis=0)
    latency, inverse = nnls(terms / scale, np.ones_like(t))[0] / scale
    network = Network(float(latency), 1.0 / float(inverse) if inverse > 0.0 else math.inf)
    model = [network.gather(int(k), size) for k, size in zip(p, m, strict=True)]
    return network, np.array(model) / t - 1.0


def row_bytes(n: int, nodes: int) -> int:
    """Bytes of the values of all nodes in one exchange."""
    return DOUBLE * nodes * (n + NOTES)


def sent_bytes(n: int, nodes: int, ranks: int, values: int, notes: int) -> int:
    """Bytes that all ranks together give to a number of exchanges of values, and of notes alone."""
    return (values * row_bytes(n, nodes) + notes * DOUBLE * NOTES * nodes) if ranks > 1 else 0


def sweep_time(cost: SweepCost, network: Network, n: int, nodes: int, ranks: int, sweeps: float) -> float:
    """Seconds of a sweep on P ranks with its exchange of values and its part of one of notes a step."""
    time = cost.computing(n, nodes, ranks)
    if ranks == 1:
        return time
    notes = network.gather(ranks, DOUBLE * NOTES * nodes) / sweeps
    return time + network.gather(ranks, row_bytes(n, nodes)) + notes


def pfasst_speedup(
    steps: int, fine: float, coarse: float, iterations: tuple[float, float], overhead: float = 0.0
) -> float:
    r"""Speed-up of PFASST with two levels, one rank a step, over sweeps on the fine level step by step.

    .. math:: S = \frac{P K_s \Upsilon}{P \upsilon + K_p (\Upsilon + \upsilon + \beta)}

    M. Emmett, M. L. Minion, Toward an efficient parallel in time method for partial differential equations,
    Comm. App. Math. Comp. Sci. 7 (2012) 105, sec. 4.2.
    """
    serial, parallel = iterations
    if steps == 1:
        return 1.0
    return steps * serial * fine / (steps * coarse + parallel * (fine + coarse + overhead))


def pfasst(
    cost: SweepCost,
    network: Network,
    n: int,
    nodes: tuple[int, int],
    steps: int,
    iterations: tuple[float, float],
) -> float:
    """Speed-up of PFASST with the costs of a problem: :func:`pfasst_speedup` with transfers and messages."""
    fine, coarse = (cost.computing(n, number) for number in nodes)
    overhead = TRANSFER * (fine + coarse) + 2.0 * network.message(DOUBLE * n)
    return pfasst_speedup(steps, fine, coarse, iterations, overhead)
