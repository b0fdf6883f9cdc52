"""Digital circuits of MOS transistors, node by node: a NAND gate and an adder of two-bit numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.sparse.csgraph import connected_components

from dae_sdc.dae.kernels import inlined
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError, ReferenceRangeError
from dae_sdc.problems._library import TEST_SET, Parameter, ReferenceEnd, load_record, pattern
from dae_sdc.problems.circuits import GROUND, SIGNAL, SUPPLY, Pulse, PulsedProblem

VDD, VBB = 5.0, -2.5
"""Potentials of the supply and of the bulk in V."""
THERMAL = 25.85  # Divisor of the voltage in V in the exponent of a junction: kT/q in mV, as in the Test Set.
MODULATION = 0.02  # Channel length modulation in 1/V.
BARRIER = 0.87  # Built-in voltage of a junction in V.

LOAD = 0  # Kind of the depletion transistor between the supply and the output of a gate.


class Transistor(NamedTuple):
    """A MOS transistor with four internal nodes of consecutive numbers."""

    # Number of the first internal node. They are, in this order, the inner ends of the resistances at source
    # and drain, and the bulk ends of the junctions at source and drain.
    node: int
    kind: int  # Place of its kind in ``Technology.kinds``.
    # source, drain, gate: Nodes or given potentials at its three terminals.
    source: int
    drain: int
    gate: int
    # The node from which the voltage over the junction at the drain is taken for the charge at its bulk end.
    # It should be ``drain``; where the Test Set has another one, this circuit has it too.
    drain_charge: int


class Technology(NamedTuple):
    """Data of all transistors of a circuit, in the units of the Test Set."""

    channel: float  # Conductance at source and drain.
    bulk: float  # Conductance between a junction and the bulk.
    gate: float  # Capacitance of the gate against source and drain.
    junction: float  # Capacitance of a junction at zero voltage.
    saturation: float  # Saturation current of a junction.
    # For each kind of transistor its gain in forward and in backward direction, threshold voltage, and
    # coefficient and potential of the body effect.
    kinds: tuple[tuple[float, float, float, float, float], ...]


class Circuit(NamedTuple):
    """A circuit of transistors, and of capacitors to ground."""

    nodes: int  # Number of nodes, which are numbered from 1 as in the Test Set.
    transistors: tuple[Transistor, ...]  # All transistors, including the loads.
    capacitors: tuple[int, ...]  # Nodes with a capacitor to ground.
    capacitance: float  # Capacitance of each of these capacitors.
    technology: Technology  # Data of all transistors.

    def packed(self) -> Vector:
        """The circuit as one array for the kernels, with nodes numbered from 0."""
        technology = self.technology
        sizes = [self.nodes, len(self.transistors), len(self.capacitors), len(technology.kinds)]
        rows = [
            (device.node - 1, device.kind, *(node - (node > 0) for node in device[2:]))
            for device in self.transistors
        ]
        tables = [np.ravel(technology.kinds), np.ravel(rows), np.array(self.capacitors) - 1]
        return np.concatenate([sizes, [self.capacitance], technology[:-1], *tables])

    def reached(self) -> Iterator[tuple[int, int]]:
        """Pairs of nodes, numbered from 0: an equation, and a node on which its sum of currents depends."""
        for node, _, source, drain, gate, _ in self.transistors:
            left, right, low, high = range(node, node + 4)
            around = (left, right, low, high, source, drain, gate)
            yield from _pairs((left, *around), (right, *around), (low, low, source), (high, high, drain))
            yield from _pairs((source, source, left, low), (drain, drain, right, high))

    def charged(self) -> Iterator[tuple[int, int]]:
        """Pairs of nodes, numbered from 0: an equation, and a node on which its charge depends."""
        for node, _, source, drain, gate, drain_charge in self.transistors:
            left, right, low, high = range(node, node + 4)
            yield from _pairs((left, left, gate), (right, right, gate), (gate, gate, left, right))
            yield from _pairs((low, low, source), (source, source, low))
            yield from _pairs((high, high, drain, drain_charge), (drain, drain, high))
        yield from _pairs(*((node, node) for node in self.capacitors))

    def floating(self) -> tuple[tuple[int, ...], ...]:
        """Groups of nodes, numbered from 0, without a capacitance to a given potential.

        No charge changes if the potentials of all nodes of a group change by the same amount.
        """
        ties = [(node, 0) for node in self.capacitors]
        for node, _, source, drain, gate, drain_charge in self.transistors:
            left, right, low, high = range(node, node + 4)
            ties += [(left, gate), (right, gate), (low, source), (high, drain), (high, drain_charge)]
        rows, columns = np.maximum(ties, 0).T
        size = self.nodes + 1
        graph = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))
        count, group = connected_components(graph, directed=False)
        groups = (tuple(np.flatnonzero(group[1:] == g).tolist()) for g in range(count) if g != group[0])
        return tuple(groups)


def _pairs(*rows: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Pairs (row, column), numbered from 0, of rows given with their columns; without given potentials."""
    for row, *columns in rows:
        if row > 0:
            yield from ((row - 1, column - 1) for column in columns if column > 0)


@inlined
def junction_current(v: float, saturation: float) -> float:
    """Current through a junction of voltage ``v``; zero for v > 0."""
    if v > 0.0:
        return 0.0
    return saturation * (1.0 - math.exp(v / THERMAL))


@inlined
def junction_capacitance(v: float, unbiased: float) -> float:
    """Capacitance of a junction of voltage ``v``."""
    if v > 0.0:
        return unbiased * (1.0 + v / (2.0 * BARRIER))
    return unbiased / math.sqrt(1.0 - v / BARRIER)


@inlined
def channel_current(
    drop: float,
    gate_source: float,
    bulk_source: float,
    gate_drain: float,
    bulk_drain: float,
    p: Vector,
    at: int,
) -> float:
    """Current through a channel from source to drain, in the model of Shichman, Hodges; p[at] is its gain."""
    forward, backward, threshold, body, potential = p[at], p[at + 1], p[at + 2], p[at + 3], p[at + 4]
    if drop >= 0.0:
        gain, v = forward, drop
        over = gate_source - threshold - body * (math.sqrt(potential - bulk_source) - math.sqrt(potential))
    else:
        gain, v = -backward, -drop
        over = gate_drain - threshold - body * (math.sqrt(potential - bulk_drain) - math.sqrt(potential))
    if over <= 0.0:
        return 0.0
    current: float = -gain * over * over if over <= v else -gain * v * (2.0 * over - v)
    return current * (1.0 + MODULATION * v)


@inlined
def potential(node: int, t: float, u: Vector, first: int, p: Vector, lines: int) -> float:
    """Potential of a node, u[first] being node 0, or a given one, which begin at p[lines]."""
    at = lines - 3 * (node + 1)
    value: float = u[first + node] if node >= 0 else p[at + 1] + p[at + 2] * (t - p[at])
    return value


_GATE_LISTS, _KIND, _DEVICE = 10, 5, 6
"""Place of the kinds in a packed circuit, and numbers of entries of a kind and of a transistor."""


@inlined
def add_currents(t: float, u: Vector, first: int, p: Vector, out: Vector) -> None:
    """Add to ``out`` the currents that leave each node; u[first] is the potential of node 0."""
    devices = _GATE_LISTS + _KIND * int(p[3])
    lines = devices + _DEVICE * int(p[1]) + int(p[2])
    channel, bulk, gate_capacitance, saturation = p[5], p[6], p[7], p[9]
    for k in range(int(p[1])):
        at = devices + _DEVICE * k
        node, kind = int(p[at]), _GATE_LISTS + _KIND * int(p[at + 1])
        source, drain, gate = int(p[at + 2]), int(p[at + 3]), int(p[at + 4])
        left, right = u[first + node], u[first + node + 1]
        low, high = u[first + node + 2], u[first + node + 3]
        at_source = potential(source, t, u, first, p, lines)
        at_drain = potential(drain, t, u, first, p, lines)
        at_gate = potential(gate, t, u, first, p, lines)
        current = channel_current(
            right - left, at_gate - left, low - at_source, at_gate - right, high - at_drain, p, kind
        )
        into_source = channel * (left - at_source)
        into_drain = channel * (right - at_drain)
        low_current = junction_current(low - at_source, saturation)
        high_current = junction_current(high - at_drain, saturation)
        # A given potential changes with its slope, which drives a current through the gate.
        driven = 0.0 if gate >= 0 else gate_capacitance * p[lines - 3 * (gate + 1) + 2]
        out[node] += into_source + current - driven
        out[node + 1] += into_drain - current - driven
        out[node + 2] += bulk * (low - VBB) - low_current
        out[node + 3] += bulk * (high - VBB) - high_current
        if source >= 0:
            out[source] += low_current - into_source
        if drain >= 0:
            out[drain] += high_current - into_drain


def nand_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`NandGate`: capacitances times rates of the potentials, less the currents."""
    for i in range(int(p[0])):
        out[i] = 0.0
    add_currents(t, u, 0, p, out)
    devices = _GATE_LISTS + _KIND * int(p[3])
    capacitors = devices + _DEVICE * int(p[1])
    lines = capacitors + int(p[2])
    for k in range(int(p[1])):
        at = devices + _DEVICE * k
        node = int(p[at])
        source, drain, gate = int(p[at + 2]), int(p[at + 3]), int(p[at + 4])
        low = junction_capacitance(u[node + 2] - potential(source, t, u, 0, p, lines), p[8])
        high = junction_capacitance(u[node + 3] - potential(drain, t, u, 0, p, lines), p[8])
        at_gate = du[gate] if gate >= 0 else 0.0
        out[node] += p[7] * (du[node] - at_gate)
        out[node + 1] += p[7] * (du[node + 1] - at_gate)
        if gate >= 0:
            out[gate] += p[7] * (2.0 * du[gate] - du[node] - du[node + 1])
        low *= du[node + 2] - (du[source] if source >= 0 else 0.0)
        high *= du[node + 3] - (du[drain] if drain >= 0 else 0.0)
        out[node + 2] += low
        out[node + 3] += high
        if source >= 0:
            out[source] -= low
        if drain >= 0:
            out[drain] -= high
    for k in range(int(p[2])):
        node = int(p[capacitors + k])
        out[node] += p[4] * du[node]


def adder_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`TwoBitAdder`: balances of charges, then charges as functions of the potentials."""
    n = int(p[0])
    for i in range(n):
        out[i] = du[i]
        out[n + i] = u[i]
    add_currents(t, u, n, p, out)
    devices = _GATE_LISTS + _KIND * int(p[3])
    capacitors = devices + _DEVICE * int(p[1])
    lines = capacitors + int(p[2])
    for k in range(int(p[1])):
        at = devices + _DEVICE * k
        node = n + int(p[at])
        source, drain, gate = int(p[at + 2]), int(p[at + 3]), int(p[at + 4])
        left, right = u[node], u[node + 1]
        at_gate = u[n + gate] if gate >= 0 else 0.0
        out[node] -= p[7] * (left - at_gate)
        out[node + 1] -= p[7] * (right - at_gate)
        if gate >= 0:
            out[n + gate] -= p[7] * (2.0 * at_gate - left - right)
        over_source = u[node + 2] - potential(source, t, u, n, p, lines)
        over_drain = u[node + 3] - potential(drain, t, u, n, p, lines)
        charge = junction_capacitance(over_source, p[8]) * over_source
        out[node + 2] -= charge
        if source >= 0:
            out[n + source] += charge
        capacitance = junction_capacitance(over_drain, p[8])
        other = int(p[at + 5])
        out[node + 3] -= capacitance * (u[node + 3] - (u[n + other] if other >= 0 else 0.0))
        if drain >= 0:
            out[n + drain] += capacitance * over_drain
    for k in range(int(p[2])):
        node = n + int(p[capacitors + k])
        out[node] -= p[4] * u[node]


class DigitalCircuit(PulsedProblem):
    """Base class of the digital circuits, given by a list of transistors and pulses at their gates."""

    circuit: Circuit

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        self._packed = self.circuit.packed()

    def kernel_parameters(self) -> npt.ArrayLike:
        """The packed circuit; then start, value and slope of ground, supply and signals."""
        return np.concatenate([self._packed, (0.0, 0.0, 0.0), (0.0, VDD, 0.0), np.ravel(self.lines)])


def _gate(first: int, *transistors: tuple[int, int, int, int, int]) -> tuple[Transistor, ...]:
    """A gate: its load, and transistors by node, source (0: ground), drain from ``first``, kind, gate."""
    output = first + 4
    load = Transistor(first, LOAD, output, SUPPLY, output, GROUND)
    others = (
        Transistor(
            first + node, kind, first + source if source else GROUND, first + drain, gate, first + drain
        )
        for node, source, drain, kind, gate in transistors
    )
    return (load, *others)


def _nand(first: int, a: int, b: int, kind: int = 2) -> tuple[Transistor, ...]:
    """Not (a and b), at node first + 4."""
    return _gate(first, (5, 9, 4, kind, a), (10, 0, 9, kind, b))


def _nor(first: int, a: int, b: int) -> tuple[Transistor, ...]:
    """Not (a or b), at node first + 4; with the misprint in the last charge, a node of another gate."""
    *others, last = _gate(first, (5, 0, 4, 1, a), (9, 0, 4, 1, b))
    return (*others, last._replace(drain_charge=first + 14))


def _and_or(first: int, a: int, b: int, c: int) -> tuple[Transistor, ...]:
    """Not (a or (b and c)), at node first + 4."""
    return _gate(first, (5, 0, 4, 1, a), (9, 13, 4, 2, b), (14, 0, 13, 2, c))


def _or_and(first: int, a: int, b: int, c: int) -> tuple[Transistor, ...]:
    """Not (a and (b or c)), at node first + 4."""
    return _gate(first, (5, 9, 4, 2, a), (10, 0, 9, 2, b), (14, 0, 9, 2, c))


@PROBLEMS.register("nand-gate")
class NandGate(DigitalCircuit):
    r"""NAND gate of one depletion and two enhancement transistors, an implicit ODE of 14 node potentials.

    The balance of currents at the nodes reads

    .. math::
        C(U)\, U' = f(t, U, V_1(t), V_2(t), V_1'(t), V_2'(t)) .

    Each transistor has an inner source :math:`U_j`, an inner drain :math:`U_{j+1}` and two bulk nodes
    :math:`U_{j+2}`, :math:`U_{j+3}`; source S, drain D and gate G are other nodes or given potentials. With
    the current :math:`I(U_{j+1} - U_j,\, U_G - U_j,\, U_{j+2} - U_S,\, U_G - U_{j+1},\, U_{j+3} - U_D)` of
    its channel it adds to the equations of its own nodes

    .. math::
        F_j &= C_G (U_j' - U_G') + (U_j - U_S) / R_S + I, \\
        F_{j+1} &= C_G (U_{j+1}' - U_G') + (U_{j+1} - U_D) / R_D - I, \\
        F_{j+2} &= C(U_{j+2} - U_S) (U_{j+2}' - U_S') + (U_{j+2} - V_{BB}) / R_B - i(U_{j+2} - U_S), \\
        F_{j+3} &= C(U_{j+3} - U_D) (U_{j+3}' - U_D') + (U_{j+3} - V_{BB}) / R_B - i(U_{j+3} - U_D)

    and the currents into S, D and G with the other sign to the equations of these, if they are nodes.
    Junctions have :math:`i(v) = -I_s (e^{v / 25.85} - 1)` and
    :math:`C(v) = C_J (1 - v / 0.87)^{-1/2}` for :math:`v \le 0`, :math:`i = 0` and
    :math:`C(v) = C_J (1 + v / 1.74)` for :math:`v > 0`. The channel has, for a drop :math:`d \ge 0` and
    :math:`x = v_{GS} - V_T - \gamma (\sqrt{\varphi - v_{BS}} - \sqrt\varphi)`,

    .. math::
        I = \begin{cases} 0 & x \le 0 \\ -\beta x^2 (1 + 0.02\, d) & x \le d \\
            -\beta d (2 x - d) (1 + 0.02\, d) & x > d \end{cases}

    For :math:`d < 0`, :math:`v_{GS}`, :math:`v_{BS}` and d are replaced by :math:`v_{GD}`, :math:`v_{BD}`
    and -d and I has the other sign; there the Test Set has a tenth of the gain :math:`\beta` for
    enhancement transistors. The load (j = 1) leads from node 5,
    which is its source and gate and the output, to the supply; the transistor of :math:`V_1` (j = 6) from
    node 10 to 5, that of :math:`V_2` (j = 11) from ground to node 10. Nodes 5 and 10 have a capacitor to
    ground. Both signals are trains of trapezoidal pulses with corners at multiples of 5 ns. All nodes keep
    the order of the Test Set.
    """

    title = "NAND gate of three transistors"
    index = 0
    names = tuple(f"U_{k}" for k in range(1, 15))
    units = ("V",) * 14
    equation_names = tuple(f"current into node {k}" for k in range(1, 15))
    size = (14, 0)
    reference = (
        f"{TEST_SET}, NAND gate. H. Shichman, D. A. Hodges: Modeling and simulation of insulated-gate "
        "field-effect transistor switching circuits, IEEE J. Solid-State Circuits 3 (1968) 285"
    )
    interval = (0.0, 80.0)
    dt = 0.1
    time_unit: ClassVar[str] = "ns"
    record = "nand"
    residual_kernel = nand_residual
    pulses = (Pulse(5.0, 5.0, 5.0, 5.0, 20.0, 5.0), Pulse(15.0, 5.0, 15.0, 5.0, 40.0, 5.0))
    circuit = Circuit(
        14,
        _nand(1, SIGNAL, SIGNAL - 1, kind=1),
        (5, 10),
        0.5e-4,
        Technology(
            *(1.0 / 4.0, 1.0 / 10.0, 0.6e-4, 2.4e-5, 1e-14),
            ((5.35e-4, 5.35e-4, -2.43, 0.2, 1.28), (1.748e-3, 1.748e-4, 0.2, 0.035, 1.01)),
        ),
    )

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative at t = 0, which the equations determine; raises like :meth:`u_exact` elsewhere."""
        if t != self.interval[0]:
            raise ReferenceRangeError(f"the derivative of NandGate is known at t=0 only; got t={t:g}")
        u, rest = self.state(self.u_exact(t)), self.state(np.zeros(self.n))
        capacitances = self.jacobian(u, rest, t, 0.0)
        return self.state(np.linalg.solve(capacitances, -np.asarray(self.eval_f(u, rest, t))))


# Factor of all currents of the adder in the Test Set.
_V1, _V2, _V3, _V4, _CIN = range(SIGNAL, SIGNAL - 5, -1)
_MISPRINT = "Whether the NOR gates have the charge of the official source instead of their own"
_SCALE = 5e4


# Potentials of the outputs of :class:`TwoBitAdder` at the end, and their digits, without the misprint.
ADDER_OUTPUTS = ((0.204041912816696, 12.0), (4.99724244317585, 11.5), (0.203898575901523, 12.0))

ADDER_OUTPUTS_SOURCE = (
    "Outputs recomputed: Radau IIA of orders 11 and 13 and IDA without error test of potentials of index 2, "
    "all at tolerance 1e-12, agree to the digits given; the values of the Test Set for IVP Solvers, release "
    "2.4, have 7.5, 5.7 and 6.2 digits"
)


@PROBLEMS.register("two-bit-adder")
class TwoBitAdder(DigitalCircuit):
    r"""Adder of two numbers of two bits and a carry: ten gates, 175 nodes, charges and potentials.

    The unknowns are the charges Q of all nodes and their potentials U, both numbered from 1 as in the Test
    Set, with

    .. math::
        0 &= Q' - f(t, U, V(t), V'(t)), \\
        0 &= Q - g(U) .

    Currents f, junctions and transistors are those of :class:`NandGate`, but with the same gain in both
    directions. A transistor has the charges

    .. math::
        g_j &= C_G (U_j - U_G), & g_{j+2} &= C(U_{j+2} - U_S) (U_{j+2} - U_S), \\
        g_{j+1} &= C_G (U_{j+1} - U_G), & g_{j+3} &= C(U_{j+3} - U_D) (U_{j+3} - U_D),

    where :math:`U_G` is replaced by 0 if the gate is a signal, whose derivative is a current in f; S, D and
    G, if they are nodes, have the opposite charges. Loads have the charge of the official source,
    :math:`g_{j+3} = C(U_{j+3} - V_{DD})\, U_{j+3}`.

    In the NOR gates the official source has :math:`g_{i+12} = C(U_{i+12} - U_{i+4}) (U_{i+12} - U_{i+14})`, i
    being the first node of the gate, and i + 14 a node of the next gate. So has ``misprint=True``.
    A charge that depends on a foreign node makes :math:`U_7` and :math:`U_{44}` oscillate some 2000
    times in a unit of time from t = 10 on: steps for tolerances of 1e-4 to 1e-6 damp it, those for 1e-8
    resolve it, which takes hours. With either charge the outputs agree with all digits of the official ones;
    the other entries of the stored end value are those of ``misprint=True``. Without the misprint the outputs
    are stored with 11 digits and more.

    Signals are the trains of trapezoidal pulses :math:`V_1` and :math:`V_2`, :math:`V_3` and :math:`V_4` (the
    lower and the higher bits of the two numbers, inverted) and :math:`C_{in}` (the carry), with corners at
    multiples of 5; in 320 units of time they take all 32 combinations. Outputs are the bits of the sum at
    nodes 49 and 130 and its carry, inverted, at node 148; only these are scored. The initial value is the
    state at rest before t = 0, when :math:`V_1` begins to rise. Time, charges and currents are scaled as in
    the Test Set.

    Between 16 groups of nodes and the given potentials there is no capacitance, so
    :math:`\partial g / \partial U` has rank 159 (with the misprint 13 groups and 162): the currents into
    each such group add up to zero, which is a hidden constraint of :math:`Q' = f`, and the potentials of
    these nodes are of index 2. The Test Set states index 1, which is that of
    :math:`(g(U))' = f` without the unknowns Q.
    """

    title = "adder of two-bit numbers, ten gates of MOS transistors"
    index = 2
    parameters = {"misprint": Parameter(False, "none", _MISPRINT, fixed=True)}
    reference = (
        f"{TEST_SET}, two bit adding unit. M. Guenther, U. Feldmann: CAD-based electric-circuit modeling in "
        "industry, part I, Surveys Math. Indust. 8 (1999) 97"
    )
    interval = (0.0, 320.0)
    dt = 0.1
    time_unit: ClassVar[str] = "1"
    record = "twobit"
    independent_of = ("misprint",)
    residual_kernel = adder_residual
    pulses = (
        Pulse(0.0, 5.0, 5.0, 5.0, 20.0, 5.0),
        Pulse(10.0, 5.0, 15.0, 5.0, 40.0, 5.0),
        Pulse(30.0, 5.0, 35.0, 5.0, 80.0, 5.0),
        Pulse(70.0, 5.0, 75.0, 5.0, 160.0, 5.0),
        Pulse(150.0, 5.0, 155.0, 5.0, 320.0, 5.0),
    )
    circuit = Circuit(
        175,
        (
            *(*_nor(1, _V1, _V2), *_and_or(14, 5, _V2, _V1)),
            *(*_nor(32, 18, _CIN), *_and_or(45, 36, _CIN, 18), *_and_or(63, 5, _CIN, 18)),
            *(*_nor(81, _V3, _V4), *_and_or(94, 85, _V4, _V3)),
            *(*_nand(112, 67, 98), *_or_and(126, 116, 67, 98), *_and_or(144, 85, 5, 98)),
            Transistor(162, 3, 166, 148, 98, 148),
            Transistor(167, 3, 171, 166, 18, 166),
            Transistor(172, 3, GROUND, 171, _CIN, 171),
        ),
        (49, 130, 148),
        2e-4 * 1e4,
        Technology(
            *(_SCALE / 40.0, _SCALE / 100.0, 0.6e-4 * 1e4, 2.4e-5 * 1e4, 1e-15 * _SCALE),
            (
                (53.5e-6 * _SCALE, 53.5e-6 * _SCALE, -2.43, 0.2, 1.28),
                *((gain, gain, 0.2, 0.035, 1.01) for gain in (4.0 * n * 43.7e-6 * _SCALE for n in (1, 2, 3))),
            ),
        ),
    )

    def _check_parameters(self) -> None:
        if not isinstance(self.misprint, bool):
            raise InputError(f"misprint of TwoBitAdder must be True or False; got {self.misprint!r}")

    def _counts(self) -> tuple[int, int]:
        """Numbers of charges and of potentials, with the names of both."""
        if not self.misprint:
            transistors = (
                one if one.kind == LOAD else one._replace(drain_charge=one.drain)
                for one in self.circuit.transistors
            )
            self.circuit = self.circuit._replace(transistors=tuple(transistors))
        n = self.circuit.nodes
        numbers = range(1, n + 1)
        self.names = (*(f"Q[{k}]" for k in numbers), *(f"U[{k}]" for k in numbers))
        self.units = (*("1",) * n, *("V",) * n)
        self.equation_names = (
            *(f"current into node {k}" for k in numbers),
            *(f"charge of node {k}" for k in numbers),
        )
        return n, n

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        n = self.circuit.nodes
        own = [(k, k) for k in range(n)]
        pairs = [*own, *((n + i, j) for i, j in own)]
        pairs += [(i, n + j) for i, j in self.circuit.reached()]
        pairs += [(n + i, n + j) for i, j in self.circuit.charged()]
        self.sparsity = pattern(2 * n, *np.array(sorted(set(pairs))).T)
        floating = {n + node for group in self.circuit.floating() for node in group}
        self.variable_index = tuple(2 if i in floating else 1 for i in range(2 * n))

    def _start(self) -> Vector:
        """The stored potentials at the start, and the charges g(U) of them."""
        start = np.array(load_record(self.record).u0)
        if not self.misprint:
            state, rest = self.state(start), self.state(np.zeros(self.n))
            self.start_step(state, self.interval[0])
            start[: self.n_diff] -= np.asarray(self.eval_f(state, rest, self.interval[0]))[self.n_diff :]
        return start

    def _end(self) -> ReferenceEnd:
        """The stored end, for the charges of the circuit with recomputed outputs."""
        end = super()._end()
        if self.misprint:
            return end
        u, digits = np.array(end.u), np.array(end.digits)
        for place, (output, known) in zip(end.scored, ADDER_OUTPUTS, strict=True):
            u[place], digits[place] = output, known
        u.flags.writeable = digits.flags.writeable = False
        return end._replace(u=u, digits=digits, source=ADDER_OUTPUTS_SOURCE)
