"""Networks of pipes that carry water: sparse DAEs of index 2."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.declaration import when_asked
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.dae.values import unguarded
from dae_sdc.errors import InputError, require_count
from dae_sdc.problems._library import (
    TEST_SET,
    Parameter,
    SolvedProblem,
    TestSetProblem,
    Values,
    finite,
    pattern,
    positive,
)
from dae_sdc.registry import unknown

# The two nodes of every pipe, in the direction of positive flow.
PIPES = (
    *((1, 2), (2, 3), (2, 6), (3, 4), (3, 5), (4, 5), (5, 10), (6, 5), (7, 4), (7, 8), (8, 5), (8, 10)),
    *((9, 8), (11, 9), (11, 12), (12, 7), (12, 8), (13, 11)),
)
# The nodes in the order of their pressures; the first two have a buffer.
NODES = (5, 8, 1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13)
VISCOSITY = 1.31e-6  # Kinematic viscosity of water in m^2/s.
GRAVITY_OF_PIPES = 9.8  # Acceleration of gravity in m/s^2.
DENSITY = 1000.0  # Density of water in kg/m^3.
CRITICAL = 2300.0  # Reynolds number at which the flow becomes turbulent.
LENGTH, DIAMETER, ROUGHNESS = 1000.0, 1.0, 2e-4
"""Length, diameter and roughness of every pipe in m."""
BUFFER = 200.0  # Surface area of each of the two buffers in m^2.

# Places of the pressures at both nodes of every pipe in the state, and of the balances in F.
_AREA = math.pi * DIAMETER**2 / 4.0
_INERTIA = DENSITY * LENGTH / _AREA
_CAPACITY = BUFFER / (DENSITY * GRAVITY_OF_PIPES)
_REYNOLDS = DIAMETER / (VISCOSITY * _AREA)
_LAMINAR = 32.0 * VISCOSITY * DENSITY * LENGTH / (_AREA * DIAMETER**2)
_TURBULENT = DENSITY * LENGTH / (_AREA**2 * DIAMETER)
_PLACES = np.array([[(18 if k < 2 else 36) + k for k in map(NODES.index, pipe)] for pipe in PIPES])
# A flow within this relative distance from the critical one counts as critical.
_ONE, _TEN, _THIRTEEN = (36 + NODES.index(node) for node in (1, 10, 13))
_NEAR = 1e-10


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
    reference = (
        f"{TEST_SET}, water tube system. Colebrook's law: H. Schlichting: Boundary-Layer Theory, McGraw-Hill "
        "1979, chapter 20"
    )
    interval = (0.0, 61200.0)
    dt = 30.0
    chooses_by_sides = True
    switch_names = tuple(f"kind of flow in pipe {i}-{j}" for i, j in PIPES)
    residual_kernel = water_tube_residual

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

    def switches_at(self, u: Vector, t: Vector) -> Vector:
        """The values of :meth:`switches` at K states, shape (K, 18)."""
        return _excess(u)

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
        self._choose(turbulent=tuple(turbulent.tolist()))


def _excess(u: Vector) -> Vector:
    """R_k / R_c - 1 for each pipe, shape (..., 18)."""
    # abs of a state is its norm, that of a plain array is taken by entries.
    return np.asarray(abs(np.asarray(u)[..., :18]) * (_REYNOLDS / CRITICAL) - 1.0)


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


Places = npt.NDArray[np.intp]

# Mean of the pressures as the height of a column of water in m.
SOURCES = ("wave", "day")
MOST_CROSSINGS = 4_000_000
HEAD = 50.0
VELOCITY = 0.5  # Usual velocity of the water in m/s, which gives the size of a flow.
MAINS = 4  # Distance of mains, which have twice the diameter, in streets.
UNEVEN = 0.25  # Largest relative difference of the length of a pipe from the mean.
# Cosines of the angles between the direction of the wave and the streets to the east and to the north.
DIRECTION = (0.8, 0.6)
_LISTS = 7  # Place of the numbers of pipes in the parameters, after pipes, nodes, tanks and constants.
# Numbers of a pipe: nodes, inertia, friction, square of the threshold, mean flow, two of the wave.
_OF_PIPE = 8


def pipes_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`PipeNetwork`, in Pa along the pipes and m^3/s at the nodes."""
    pipes, nodes, tanks = int(p[0]), int(p[1]), int(p[2])
    omega, capacity, wave = p[3], p[4], p[6] != 0.0
    c, s = math.cos(omega * t), math.sin(omega * t)
    demand = 0.0 if wave else p[5] * math.sin(0.5 * omega * t) ** 4
    places = _LISTS + _OF_PIPE * pipes
    for node in range(nodes):
        if node < tanks:
            rate = omega * (c * p[places + 2 * node] + s * p[places + 2 * node + 1]) if wave else 0.0
            out[pipes + node] = -capacity * (du[pipes + node] - rate)
        else:
            out[pipes + node] = -demand
    for k in range(pipes):
        at = _LISTS + _OF_PIPE * k
        first, second = int(p[at]), int(p[at + 1])
        inertia, friction, threshold = p[at + 2], p[at + 3], p[at + 4]
        flow, rate, fall = u[k], du[k], u[pipes + first] - u[pipes + second]
        loss = friction * flow * math.sqrt(flow * flow + threshold)
        if wave:
            own = p[at + 5] + c * p[at + 6] + s * p[at + 7]
            loss -= friction * own * math.sqrt(own * own + threshold)
            flow -= own
            rate -= omega * (c * p[at + 7] - s * p[at + 6])
            i, j = places + 2 * first, places + 2 * second
            fall -= s * (p[i] - p[j]) - c * (p[i + 1] - p[j + 1])
        out[k] = inertia * rate - fall + loss
        out[pipes + first] -= flow
        out[pipes + second] += flow


@PROBLEMS.register("pipe-network")
class PipeNetwork(SolvedProblem):
    r"""Water in the pipes of a town, a street grid with gaps and any number of crossings; index 2.

    The nodes are the crossings of streets in rows and columns. A random tree of streets that joins all nodes
    has pipes, and of the other streets the share ``left_out``, chosen at random, has none. Every fourth
    street in each direction is a main of twice the diameter; lengths of pipes differ from their mean by up to
    a quarter. One node out of ``nodes_per_tank``, chosen at random, has a tank with a free surface. A
    ``seed`` gives the same network on every machine.

    With the flow :math:`\phi_k` from node i to node j in pipe k, which has the length :math:`l_k`, the
    diameter :math:`d_k` and the cross section :math:`A_k`, the pressures :math:`p_n` and the surface S of a
    tank,

    .. math::
        0 &= \frac{\rho\, l_k}{A_k} \phi_k' - (p_i - p_j) + a_k \phi_k \sqrt{\phi_k^2 + \varphi_k^2} - h_k(t),
            \qquad a_k = \frac{\lambda\, \rho\, l_k}{2 d_k A_k^2}, \quad
            \varphi_k = \frac{64\, \nu A_k}{\lambda\, d_k}, \\
        0 &= \textstyle\sum_{\to n} \phi_k - \sum_{n \to} \phi_k - e_n(t) - \frac{S}{\rho g}\, p_n'
            \qquad \text{at nodes with a tank}, \\
        0 &= \textstyle\sum_{\to n} \phi_k - \sum_{n \to} \phi_k - e_n(t) \qquad \text{at the other nodes.}

    The friction is that of Darcy and Weisbach for large flows, that of Hagen and Poiseuille for small ones,
    and smooth between them. Flows and pressures of tanks are differential, the other pressures algebraic.
    The derivatives of the last equations determine these, by a weighted Laplacian of the graph that is
    positive definite because every node is joined with a tank.

    With ``sources="wave"`` the heads :math:`h_k` of pumps and the demands :math:`e_n` are such that

    .. math::
        p_n &= \rho g\, (50\,\mathrm{m} + b \sin(\omega t - \theta_n)), \qquad
            \omega = 2 \pi / \mathrm{period}, \\
        \phi_k &= A_k\, (v + w \cos(\omega t - \theta_k)), \qquad \theta = 2 \pi x / L,

    solves the equations up to round-off for every size. The height b is ``level_change``, v is
    ``mean_velocity``, w ``velocity_change``, L ``wave_length``, and x is the place of the node or of the
    middle of the pipe along a direction between the streets. Heads are about as large as friction; negative
    demands are supplies. Flows with w > v turn round, one after another. The slope of the friction, about
    :math:`2 a_k |\phi_k|`, all but vanishes there, and Newton iterations with one Jacobian for a step
    converge for shorter steps only.

    With ``sources="day"`` there are no pumps, and every node without a tank needs
    :math:`e_n = \mathrm{demand}\, \sin^4(\omega t / 2)`, nothing at midnight. The water is at rest then, all
    derivatives are zero, and there is no closed form for later times.
    """

    title = "water in the pipes of a town, any number of crossings"
    index = 2
    parameters = {
        "rows": Parameter(4, "1", "Number of streets that lead to the east"),
        "columns": Parameter(4, "1", "Number of streets that lead to the north"),
        "left_out": Parameter(0.6, "1", "Share of the streets outside of the tree that have no pipe"),
        "nodes_per_tank": Parameter(12, "1", "Number of nodes with one tank among them"),
        "seed": Parameter(1, "none", "Number of the random choices"),
        **positive("m", "Mean length of a pipe", length=100.0),
        **positive("m", "Diameter of a pipe that is no main", diameter=0.2),
        **positive("1", "Coefficient lambda of friction in turbulent flow", friction=0.02),
        **positive("m^2/s", "Kinematic viscosity", nu=1.31e-6),
        **positive("kg/m^3", "Density", rho=1000.0),
        **positive("m/s^2", "Acceleration of gravity", g=9.81),
        **positive("m^2", "Surface of the water in a tank", surface=100.0),
        **positive("s", "Period of the demands", period=86400.0),
        **positive("m^3/s", 'Largest demand of a node with sources "day"', demand=1e-3),
        **finite("m", 'Largest change of a pressure with sources "wave", as a head', level_change=1.25),
        **finite("m/s", 'Mean velocity in a pipe with sources "wave"', mean_velocity=0.4),
        **finite("m/s", 'Largest change of a velocity with sources "wave"', velocity_change=0.2),
        **positive("m", 'Wave length with sources "wave"', wave_length=5000.0),
        "sources": Parameter("wave", "none", '"wave" or "day", as above'),
    }
    reference = (
        "Made for this package. E. Todini, S. Pilati: A gradient algorithm for the analysis of pipe "
        "networks, in: B. Coulbeck, C.-H. Orr, Computer Applications in Water Supply 1, Research Studies "
        f"Press 1988, for the steady equations. {TEST_SET}, water tube system, for those with inertia and "
        "tanks, see :class:`WaterTube`"
    )
    interval = (0.0, 86400.0)
    dt = 1800.0
    residual_kernel = pipes_residual

    def _check_parameters(self) -> None:
        for name in ("rows", "columns"):
            require_count(f"{name} of PipeNetwork", getattr(self, name), MOST_CROSSINGS)
        require_count("nodes_per_tank of PipeNetwork", self.nodes_per_tank, MOST_CROSSINGS)
        require_count("seed of PipeNetwork", self.seed)
        nodes = self.rows * self.columns
        if not 2 <= nodes <= MOST_CROSSINGS:
            raise InputError(f"rows * columns of PipeNetwork must be from 2 to {MOST_CROSSINGS}; got {nodes}")
        if self.nodes_per_tank < 2:
            raise InputError(f"nodes_per_tank of PipeNetwork must be at least 2; got {self.nodes_per_tank}")
        if not (isinstance(self.left_out, (int, float, np.number)) and 0.0 <= self.left_out <= 1.0):
            raise InputError(f"left_out of PipeNetwork must be from 0 to 1; got {self.left_out!r}")
        if self.sources not in SOURCES:
            raise InputError(unknown("sources", self.sources, SOURCES))

    def _counts(self) -> tuple[int, int]:
        """Numbers of flows and pressures of tanks, and of the other pressures; lays the network out."""
        self._lay_out()
        pipes, nodes, tanks = len(self._ends), int(self.rows * self.columns), self._tanks
        return pipes + tanks, nodes - tanks

    def _lay_out(self) -> None:
        """Set streets, nodes and lengths, by bits that are the same in every version of NumPy."""
        rows, columns = int(self.rows), int(self.columns)
        nodes = rows * columns
        random = np.random.PCG64(int(self.seed))

        def drawn(count: int) -> Vector:
            return np.asarray((random.random_raw(count) >> np.uint64(11)) * 2.0**-53)

        crossing = np.arange(nodes).reshape(rows, columns)
        east = np.column_stack([crossing[:, :-1].ravel(), crossing[:, 1:].ravel()])
        north = np.column_stack([crossing[:-1].ravel(), crossing[1:].ravel()])
        # Every node but the first is joined with that in the west or in the south, which makes a tree.
        to_west = drawn(nodes).reshape(rows, columns) < 0.5
        to_west[0], to_west[:, 0] = True, False
        to_south = ~to_west
        needed = np.concatenate([to_west[:, 1:].ravel(), to_south[1:].ravel()])
        others = np.flatnonzero(~needed)
        order = np.argsort(drawn(len(others)), kind="stable")
        kept = np.ones(len(needed), dtype=bool)
        kept[others[order[: round(self.left_out * len(others))]]] = False
        self._streets: Places = np.concatenate([east, north])[kept]
        self._to_east = np.arange(len(needed))[kept] < len(east)
        self._relative_length = 1.0 + UNEVEN * (2.0 * drawn(len(self._streets)) - 1.0)
        self._tanks = -(-nodes // int(self.nodes_per_tank))
        by_chance = np.argsort(drawn(nodes), kind="stable")
        has_tank = np.zeros(nodes, dtype=bool)
        has_tank[by_chance[: self._tanks]] = True
        self._crossings: Places = np.concatenate([np.flatnonzero(has_tank), np.flatnonzero(~has_tank)])
        number = np.empty(nodes, dtype=np.intp)
        number[self._crossings] = np.arange(nodes)
        self._ends: Places = number[self._streets]

    @when_asked
    def names(self) -> tuple[str, ...]:
        """Flows to the east and to the north, and pressures, by row and column of the node."""
        columns = int(self.columns)
        towards = np.where(self._to_east, "east", "north").tolist()
        starts = np.column_stack(np.divmod(self._streets[:, 0], columns)).tolist()
        nodes = np.column_stack(np.divmod(self._crossings, columns)).tolist()
        return (
            *(f"phi_{way}[{i},{j}]" for way, (i, j) in zip(towards, starts, strict=True)),
            *(f"p[{i},{j}]" for i, j in nodes),
        )

    @when_asked
    def units(self) -> tuple[str, ...]:
        """Those of flows and pressures."""
        pipes = len(self._ends)
        return ("m^3/s",) * pipes + ("Pa",) * (self.n - pipes)

    @when_asked
    def equation_names(self) -> tuple[str, ...]:
        """Balances of momentum and of water."""
        pipes = len(self._ends)
        return (
            *(f"momentum of {name}" for name in self.names[:pipes]),
            *(f"balance of node {name[1:]}" for name in self.names[pipes:]),
        )

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        self.sparsity = self._pattern()
        nodes = np.full(len(self._crossings), self.rho * self.g * HEAD)
        self.nominal = np.concatenate([VELOCITY * self._geometry()[0], nodes])

    def _pattern(self) -> Any:
        """Sparsity pattern of the Jacobian: each flow and the pressures at both ends, and the tanks."""
        pipes = len(self._ends)
        k, tanks = np.arange(pipes), pipes + np.arange(self._tanks)
        first, second = pipes + self._ends.T
        rows = np.concatenate([k, first, second, k, k, tanks])
        columns = np.concatenate([k, k, k, first, second, tanks])
        return pattern(self.n, rows, columns)

    def kernel_parameters(self) -> npt.ArrayLike:
        """Sizes and constants, then numbers of pipes and of nodes."""
        pipes, nodes = len(self._ends), len(self._crossings)
        area, diameter, length = self._geometry()
        flow, pressure = self._wave()
        constants = [pipes, nodes, self._tanks, self._omega, self.surface / (self.rho * self.g)]
        constants += [self.demand, self.sources == "wave"]
        of_pipes = np.column_stack(
            [
                self._ends,
                self.rho * length / area,
                self.friction * self.rho * length / (2.0 * diameter * area**2),
                (64.0 * self.nu * area / (self.friction * diameter)) ** 2,
                self.mean_velocity * area,
                flow,
            ]
        )
        return np.concatenate([constants, of_pipes.ravel(), pressure.ravel()])

    def _geometry(self) -> tuple[Vector, Vector, Vector]:
        """Cross section, diameter and length of every pipe."""
        row, column = np.divmod(self._streets[:, 0], int(self.columns))
        main = np.where(self._to_east, row, column) % MAINS == 0
        diameter = np.where(main, 2.0 * self.diameter, self.diameter)
        return 0.25 * math.pi * diameter**2, diameter, self.length * self._relative_length

    @property
    def _omega(self) -> float:
        return float(2.0 * math.pi / self.period)

    def _wave(self) -> tuple[Vector, Vector]:
        """Cosine and sine of the phase of every pipe and node as columns, times the amplitudes."""
        row, column = np.divmod(np.arange(self.rows * self.columns), int(self.columns))
        phase = 2.0 * math.pi * self.length / self.wave_length * (DIRECTION[0] * column + DIRECTION[1] * row)
        of_pipe = phase[self._streets].mean(axis=1)
        of_node = phase[self._crossings]
        flow = self.velocity_change * self._geometry()[0]
        pressure = self.rho * self.g * self.level_change
        return (
            flow[:, None] * np.column_stack([np.cos(of_pipe), np.sin(of_pipe)]),
            pressure * np.column_stack([np.cos(of_node), np.sin(of_node)]),
        )

    def _solution(self, t: float) -> Values:
        """The wave at any t; the water at rest at t = 0 with ``sources="day"``."""
        u, du = np.zeros(self.n), np.zeros(self.n)
        u[len(self._ends) :] = self.rho * self.g * HEAD
        if self.sources == "day":
            self._only_at_start(t, " with sources='day'", "use sources='wave', or ")
            return u, du
        flow, pressure = self._wave()
        c, s = math.cos(self._omega * t), math.sin(self._omega * t)
        u[: len(flow)] = self.mean_velocity * self._geometry()[0] + flow @ [c, s]
        u[len(flow) :] += pressure @ [s, -c]
        c, s = self._omega * c, self._omega * s
        du[: len(flow)] = flow @ [-s, c]
        du[len(flow) :] = pressure @ [c, s]
        return u, du
