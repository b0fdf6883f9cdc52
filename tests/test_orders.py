"""Orders of convergence: every sweeper and every Runge-Kutta method reaches what theory says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dae_sdc.run.accuracy import step_sizes
from dae_sdc.run.convergence import convergence
from dae_sdc.run.description import describe
from dae_sdc.sweepers.collocation import QUADRATURES
from dae_sdc.sweepers.sdc import SWEEPERS, SpectralDeferredCorrectionDAE
from dae_sdc.sweepers.tableaux import METHODS

TOLERANCE = 0.3

WIDER = 0.08
"""Tolerance, as a part of the order, for the highest orders: they rule only just above round-off."""

MECHANICAL = ("lobatto-iiic-6",)
"""Methods whose order at index 3 is that of mechanical systems, y' = v; for the y' = f(y, v) of hessenberg-3
it is one less in the positions."""

MOST_STEPS_A_LENGTH = 48

SDC = [name for name, cls in SWEEPERS.items() if issubclass(cls, SpectralDeferredCorrectionDAE)]
NODES = (2, 3, 4)


def expected(sweeper: str, index: int, **settings: Any) -> dict[str, float]:
    found = describe(f"hessenberg-{index}", sweeper=sweeper, **settings).expected()
    return {group: order for group, order in found.items() if np.isfinite(order)}


def check_orders(problem: str, sweeper: str, index: int, strict: float, **settings: Any) -> None:
    """Compare slopes with orders, those up to ``strict`` within 0.3."""
    orders = expected(sweeper, index, **settings)
    dts, end = step_sizes(index, max(orders.values()), MOST_STEPS_A_LENGTH)
    data = convergence(problem, sweeper=sweeper, dt=dts, t_end=end, **settings).data
    for group, order in orders.items():
        rows = data[data["group"] == group]
        assert rows["expected"][0] == order
        assert rows["fit"][0] < 0.1, (group, rows["error"])
        best = max(orders.values())
        near = pytest.approx(order, abs=TOLERANCE if best <= strict else WIDER * best)
        assert rows["slope"][0] == near, (group, rows["error"])
        # The study leaves out of its fit what has stopped falling; here nothing may have.
        line = np.polyfit(np.log10(rows["dt"]), np.log10(rows["error"]), 1)
        assert line[0] == near, (group, rows["error"])


SDC_CASES = [
    (sweeper, quad, nodes, index)
    for sweeper in SDC
    for quad in QUADRATURES
    for nodes in NODES
    for index in (1, 2, 3)
    if expected(sweeper, index, nodes=nodes, quad=quad)
]
METHOD_CASES = [
    (name, index)
    for name in METHODS
    for index in (1, 2, 3)
    # In double precision order 11 has no two step sizes above round-off; test_tableaux has more digits.
    if expected(name, index) and METHODS[name].order < 11
]


@pytest.mark.parametrize(("sweeper", "quad", "nodes", "index"), SDC_CASES)
def test_sdc_reaches_the_order_of_its_collocation(sweeper: str, quad: str, nodes: int, index: int) -> None:
    check_orders(f"hessenberg-{index}", sweeper, index, 7, nodes=nodes, quad=quad)


@pytest.mark.parametrize(("name", "index"), METHOD_CASES)
def test_runge_kutta_methods_reach_their_declared_orders(name: str, index: int) -> None:
    problem = "pendulum" if index == 3 and name in MECHANICAL else f"hessenberg-{index}"
    check_orders(problem, name, index, 5)


@pytest.mark.parametrize("nodes", (*NODES, 5))
@pytest.mark.parametrize("sweeper", SDC)
def test_expected_orders_of_radau_nodes_are_those_of_hairer_lubich_roche(sweeper: str, nodes: int) -> None:
    best = 2.0 * nodes - 1.0
    theory = {1: [best, best], 2: [best, nodes], 3: [best, nodes, nodes - 1.0]}
    for index, orders in theory.items():
        assert list(expected(sweeper, index, nodes=nodes).values()) == orders
