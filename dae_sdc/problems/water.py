"""Networks of pipes that carry water."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.guard import unguarded
from dae_sdc.dae.kernels import COMPLEX_STEP
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.problems._testset import TestSetProblem

PIPES = (
    *((1, 2), (2, 3), (2, 6), (3, 4), (3, 5), (4, 5), (5, 10), (6, 5), (7, 4), (7, 8), (8, 5), (8, 10)),
    *((9, 8), (11, 9), (11, 12), (12, 7), (12, 8), (13, 11)),
)
"""The two nodes of every pipe, in the direction of positive flow."""
NODES = (5, 8, 1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13)
"""The nodes in the order of their pressures; the first two have a buffer."""
VISCOSITY = 1.31e-6
"""Kinematic viscosity of water in m^2/s."""
GRAVITY_OF_PIPES = 9.8
"""Acceleration of gravity in m/s^2."""
DENSITY = 1000.0
"""Density of water in kg/m^3."""
CRITICAL = 2300.0
"""Reynolds number at which the flow becomes turbulent."""
LENGTH, DIAMETER, ROUGHNESS = 1000.0, 1.0, 2e-4
"""Length, diameter and roughness of every pipe in m."""
BUFFER = 200.0
"""Surface area of each of the two buffers in m^2."""

_AREA = math.pi * DIAMETER**2 / 4.0
_INERTIA = DENSITY * LENGTH / _AREA
_CAPACITY = BUFFER / (DENSITY * GRAVITY_OF_PIPES)
_REYNOLDS = DIAMETER / (VISCOSITY * _AREA)
_LAMINAR = 32.0 * VISCOSITY * DENSITY * LENGTH / (_AREA * DIAMETER**2)
_TURBULENT = DENSITY * LENGTH / (_AREA**2 * DIAMETER)
_PLACES = np.array([[(18 if k < 2 else 36) + k for k in map(NODES.index, pipe)] for pipe in PIPES])
"""Places of the pressures at both nodes of every pipe in the state, and of the balances in F."""
_ONE, _TEN, _THIRTEEN = (36 + NODES.index(node) for node in (1, 10, 13))
_NEAR = 1e-10
"""A flow within this relative distance from the critical one counts as critical."""


def water_tube_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`WaterTube` with the kinds of flow of the current step."""
    hours = t / 3600.0
    inflow = 1.0 - math.cos(math.exp(-hours) - 1.0)
    for k in range(38, 49):
        out[k] = 0.0
    for k in range(2):
        out[18 + k] = -_CAPACITY * du[18 + k]
    out[_ONE] = inflow / 200.0
    out[_THIRTEEN] = inflow / 80.0
    out[_TEN] = -1e-6 * hours * hours * (3.0 * hours * hours - 92.0 * hours + 720.0)
    for k in range(18):
        start, end, flow, lam = _PLACES[k, 0], _PLACES[k, 1], u[k], u[20 + k]
        out[start] -= flow
        out[end] += flow
        reynolds, friction = CRITICAL, _LAMINAR * flow
        if p[k] != 0.0:
            reynolds, friction = _REYNOLDS * abs(flow), _TURBULENT * lam * flow * abs(flow)
        out[k] = _INERTIA * du[k] - (u[start] - u[end] - friction)
        root = math.sqrt(lam)
        inside = 2.0 * ROUGHNESS / DIAMETER + 18.7 / (reynolds * root)
        out[20 + k] = 1.0 / root - 1.74 + 2.0 * math.log10(inside)


@PROBLEMS.register("water-tube")
class WaterTube(TestSetProblem):
    r"""The flow of water through a network of 18 pipes in 17 hours, index 2.

    With the flow :math:`\phi_k`, the Reynolds number :math:`R_k = |\phi_k| d/(\nu a)` and the resistance
    :math:`\lambda_k` of pipe k from node i to node j, the pressures :math:`p_n` of the 13 nodes and the
    external flows :math:`e_n`, the residual is

    .. math::
        F_{1..18} &= \frac{\rho l}{a} \phi_k' - (p_i - p_j - r_k) \\
        F_{19, 20} &= \textstyle\sum_{\to n} \phi_k - \sum_{n \to} \phi_k - C p_n', \qquad n = 5, 8 \\
        F_{21..38} &= \frac{1}{\sqrt{\lambda_k}} - 1.74
            + 2 \log_{10}\Big(\frac{2 k_s}{d} + \frac{18.7}{\bar R_k \sqrt{\lambda_k}}\Big) \\
        F_{39..49} &= \textstyle\sum_{\to n} \phi_k - \sum_{n \to} \phi_k + e_n
            \qquad \text{at the other nodes}

    with, for laminar flow, :math:`R_k < R_c = 2300`, and for turbulent flow,

    .. math::
        r_k = \frac{32 \nu \rho l}{a d^2} \phi_k, \quad \bar R_k = R_c, \qquad \text{and} \qquad
        r_k = \frac{\rho l}{a^2 d} \lambda_k \phi_k |\phi_k|, \quad \bar R_k = R_k .

    Buffers at two nodes have the capacity :math:`C = b/(\rho g)`. With the time h in hours,
    :math:`e_1 = (1 - \cos(e^{-h} - 1))/200` and :math:`e_{13} = (1 - \cos(e^{-h} - 1))/80` flow in, and
    :math:`e_{10} = -h^2 (3 h^2 - 92 h + 720)/10^6` flows out. The state is (phi, p5, p8, lambda, the other
    pressures); the test set has both pressures after lambda.

    The solution has weakly damped oscillations between buffers and pipes with a period of 514 s. The friction
    r_k jumps at :math:`R_c` from 0.126 to 0.431 Pa. So pressures jump by up to 0.3 Pa and rates of flows by
    up to four fifths when a flow passes :math:`R_c`, at t = 3536, 6864, 9201 (two pipes in a row), 10489,
    12207, 47694, 48166, 58324 and 59090 s. The kind of flow in every pipe is chosen at the start of a step
    and kept for the step, so a run with steps that do not end at zeros of :meth:`event` has no more than two
    to three correct digits in the flows. A flow within 1e-10 of :math:`R_c` is turbulent if its size does
    not decrease with turbulent friction.

    Attributes
    ----------
    turbulent : tuple of bool
        Whether the flow in each pipe is turbulent in the current step.

    References
    ----------
    F. Mazzia, C. Magherini: Test Set for Initial Value Problem Solvers, release 2.4, University of Bari 2008,
    water tube system. Colebrook's law: H. Schlichting: Boundary-Layer Theory, McGraw-Hill 1979, chapter 20.
    """

    title = "water in a network of pipes, laminar and turbulent"
    record = "water-tube"
    index = 2
    names = (
        *(f"phi{i}-{j}" for i, j in PIPES),
        *(f"p{node}" for node in NODES[:2]),
        *(f"lambda{i}-{j}" for i, j in PIPES),
        *(f"p{node}" for node in NODES[2:]),
    )
    units = (*("m^3/s",) * 18, *("Pa",) * 2, *("1",) * 18, *("Pa",) * 11)
    equation_names = (
        *(f"momentum in pipe {i}-{j}" for i, j in PIPES),
        *(f"balance of buffer {node}" for node in NODES[:2]),
        *(f"resistance of pipe {i}-{j}" for i, j in PIPES),
        *(f"balance of node {node}" for node in NODES[2:]),
    )
    size = (20, 29)
    reference = "Mazzia, Magherini, Test Set for IVP Solvers 2.4 (2008), water tube system"
    interval = (0.0, 61200.0)
    dt = 30.0
    switch_names = tuple(f"kind of flow in pipe {i}-{j}" for i, j in PIPES)
    residual_kernel = water_tube_residual
    jacobian_kernel = COMPLEX_STEP

    def __init__(self, **settings: Any) -> None:
        # The same tolerance has to suit pressures of size 1e5 and resistances of size 0.05.
        super().__init__(**{"newton_tol": 1e-13, **settings})
        self.turbulent = (False,) * 18

    def kernel_parameters(self) -> npt.ArrayLike:
        """For each pipe 1 if its flow is turbulent in the current step, else 0."""
        return self.turbulent

    def event(self, u: MeshDAE, t: float) -> float:
        """Largest relative distance by which a flow is beyond R_c for its current kind; else negative."""
        excess = _excess(u)
        return float(np.where(self.turbulent, -excess, excess).max())

    @unguarded
    def switches(self, u: MeshDAE, t: float) -> tuple[float, ...]:
        """R_k / R_c - 1 for each pipe."""
        return tuple(_excess(u).tolist())

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Choose the kind of flow in every pipe by the flow, and for a critical flow by its rate."""
        if self.located:
            turbulent = np.array(self.sides(u, t)) > 0
        else:
            excess = _excess(u)
            turbulent = excess > -_NEAR
            critical = abs(excess) <= _NEAR
            if critical.any():
                rates = _rates(t, np.asarray(u), turbulent)
                turbulent[critical] = (rates * np.asarray(u[:18]))[critical] >= 0.0
        chosen = tuple(turbulent.tolist())
        # An assignment makes the problem pack the parameters of its kernels anew.
        if chosen != self.turbulent:
            self.turbulent = chosen


def _excess(u: Vector) -> Vector:
    """R_k / R_c - 1 for each pipe, shape (18,)."""
    # abs of a state is its norm, that of a plain array is taken by entries.
    return np.asarray(abs(np.asarray(u[:18])) * (_REYNOLDS / CRITICAL) - 1.0)


def _rates(t: float, u: Vector, turbulent: npt.NDArray[np.bool_]) -> Vector:
    """The rates of the flows, shape (18,), for which the derivatives of the balances vanish."""
    flow, lam = u[:18], u[20:38]
    friction = np.where(turbulent, _TURBULENT * lam * flow * abs(flow), _LAMINAR * flow)
    drop = np.zeros((18, 49))
    np.put_along_axis(drop, _PLACES[:, :1], 1.0, 1)
    np.put_along_axis(drop, _PLACES[:, 1:], -1.0, 1)
    hours = t / 3600.0
    angle = math.exp(-hours) - 1.0
    outer = np.zeros(49)
    outer[[_ONE, _THIRTEEN]] = -math.sin(angle) * math.exp(-hours) / np.array([200.0, 80.0])
    outer[_TEN] = -1e-6 * hours * (12.0 * hours * hours - 276.0 * hours + 1440.0)
    free = drop[:, 38:]
    driven = drop[:, 18:20] @ u[18:20] - friction
    # The balance of a node without buffer is -drop^T phi + e = 0, so drop^T phi' = e'.
    pressures = np.linalg.solve(free.T @ free, _INERTIA * outer[38:] / 3600.0 - free.T @ driven)
    return np.asarray((driven + free @ pressures) / _INERTIA)
