"""Electric circuits in nodal analysis, trains of trapezoidal pulses, and a charge pump that they drive.

Every equation of a circuit sums the currents into a node.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from dae_sdc.dae.kernels import inlined
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError, ReferenceRangeError
from dae_sdc.problems._library import (
    HAIRER_LUBICH_ROCHE,
    HAIRER_WANNER,
    TEST_SET,
    ReferencedProblem,
    ReferenceEnd,
    TestSetProblem,
    finite,
    load_record,
    positive,
    require_defaults,
)
from dae_sdc.problems._models import also_model

GROUND, SUPPLY, SIGNAL = -1, -2, -3
"""Node numbers of given potentials; where there are several signals, number k = 0, 1, ... has SIGNAL - k."""


_AMPLIFIER_LISTS = 10  # Place of the first component in the parameters of :func:`circuit_residual`.


def circuit_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of an :class:`Amplifier`: the sum of the currents into each node."""
    supply, U_F, alpha, beta = p[4], p[5], p[6], p[7]
    signal, rate = p[8] * math.sin(p[9] * t), p[8] * p[9] * math.cos(p[9] * t)
    for i in range(int(p[0])):
        out[i] = 0.0
    at = _AMPLIFIER_LISTS
    for _ in range(int(p[1])):
        i, j, conductance = int(p[at]), int(p[at + 1]), p[at + 2]
        if j >= 0:
            current = conductance * (u[j] - u[i])
            out[j] -= current
        else:
            current = conductance * ((supply if j == SUPPLY else signal if j == SIGNAL else 0.0) - u[i])
        out[i] += current
        at += 3
    for _ in range(int(p[2])):
        i, j, capacitance = int(p[at]), int(p[at + 1]), p[at + 2]
        if j >= 0:
            current = capacitance * (du[j] - du[i])
            out[j] -= current
        else:
            current = capacitance * ((rate if j == SIGNAL else 0.0) - du[i])
        out[i] += current
        at += 3
    for _ in range(int(p[3])):
        base, emitter, collector = int(p[at]), int(p[at + 1]), int(p[at + 2])
        g = beta * (math.exp((u[base] - u[emitter]) / U_F) - 1.0)
        out[base] -= (1.0 - alpha) * g
        out[emitter] += g
        out[collector] -= alpha * g
        at += 3


class Components(NamedTuple):
    """A circuit of resistors, capacitors and transistors."""

    # resistors, capacitors: Two nodes and the value in ohm or farad; one of the nodes may be GROUND, SUPPLY
    # or SIGNAL.
    resistors: Sequence[tuple[int, int, float]]
    capacitors: Sequence[tuple[int, int, float]]
    transistors: Sequence[tuple[int, int, int]]  # Nodes of base, emitter and collector.


_SOURCE = {
    **positive("V", "Supply voltage", U_b=6.0),
    **positive("V", "Thermal voltage of a transistor", U_F=0.026),
    **finite("1", "Share of the emitter current that the collector takes, below 1", alpha=0.99),
    **positive("A", "Saturation current of a transistor", beta=1e-6),
    **positive("Ohm", "Resistance of the signal source", R_0=1000.0),
}
_STAGE = "Resistances at the {} transistor: base to ground, base to supply, emitter, collector"


class Amplifier(ReferencedProblem):
    """Base class of the transistor amplifiers: equations and derivative at the start by a list of components.

    Each equation is the sum of the currents into a node. A transistor with
    g = beta (exp((u_base - u_emitter) / U_F) - 1) sends -(1 - alpha) g into its base, g into its emitter and
    -alpha g into its collector. A subclass declares the parameters U_b, U_F, alpha, beta, amplitude and
    frequency, and those of its :meth:`components`.
    """

    frequency: float
    residual_kernel = circuit_residual

    def components(self) -> Components:
        """Those of a first stage with the current values of the parameters; nodes are numbered from 0."""
        return Components(
            [
                *((SIGNAL, 0, self.R_0), (1, GROUND, self.R_1), (SUPPLY, 1, self.R_2), (2, GROUND, self.R_3)),
                *((SUPPLY, 3, self.R_4), (4, GROUND, self.R_5)),
            ],
            [(0, 1, self.C_1), (2, GROUND, self.C_2), (3, 4, self.C_3)],
            [(1, 2, 3)],
        )

    def _base(self, to_ground: float, to_supply: float) -> float:
        """The voltage between two resistances at rest."""
        voltage: float = self.U_b * to_ground / (to_ground + to_supply)
        return voltage

    @property
    def _omega(self) -> float:
        return 2.0 * math.pi * self.frequency

    def kernel_parameters(self) -> npt.ArrayLike:
        """Numbers of nodes and components, data of supply, transistor and signal, then the components."""
        resistors, capacitors, transistors = self.components()
        parts = [*((i, j, 1.0 / value) for i, j, value in resistors), *capacitors]
        # A given potential, which is negative, comes second.
        parts = [(max(i, j), min(i, j), value) for i, j, value in parts]
        nodes = {node for three in transistors for node in three} | {i for i, _, _ in parts}
        if not nodes <= set(range(self.n)) or min((j for _, j, _ in parts), default=0) < SIGNAL:
            # The compiled equations use these numbers as indices without a check.
            raise InputError(
                f"the components of {type(self).__name__} must join nodes 0 to {self.n - 1}, resistors and "
                f"capacitors also one node and GROUND, SUPPLY or SIGNAL; got {self.components()}"
            )
        head: list[float] = [self.n, len(resistors), len(capacitors), len(transistors)]
        head += [self.U_b, self.U_F, self.alpha, self.beta, self.amplitude, self._omega]
        return np.concatenate([head, np.ravel([*parts, *transistors])])

    def _check_parameters(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise InputError(f"alpha of {type(self).__name__} must lie between 0 and 1; got {self.alpha}")

    def _initial_derivative(self) -> Vector:
        """The derivative at t = 0."""
        # A capacitor between two nodes takes as much from one as it gives to the other, so the sum of the two
        # equations is a constraint; its derivative replaces the equation of the first node.
        u, rest = self.state(self.u_exact(0.0)), self.state(np.zeros(self.n))
        by_rate = self.jacobian(u, rest, 0.0, 0.0)
        slope = self.jacobian(u, rest, 0.0, 1.0) - by_rate
        matrix, known = -by_rate, np.array(self.eval_f(u, rest, 0.0))
        resistors, capacitors, _ = self.components()
        rate = np.zeros(self.n)
        for i, j, value in resistors:
            if SIGNAL in (i, j):
                rate[max(i, j)] += self.amplitude * self._omega / value
        for i, j, _ in capacitors:
            if i >= 0 and j >= 0:
                matrix[i] = slope[i] + slope[j]
                known[i] = -rate[i] - rate[j]
        return np.linalg.solve(matrix, known)


@PROBLEMS.register("one-transistor")
class OneTransistorAmplifier(Amplifier):
    r"""Amplifier with one transistor, index 1 with a singular mass matrix.

    The residual is, with :math:`g = \beta (e^{(U_2 - U_3)/U_F} - 1)` and
    :math:`U_e = \mathrm{amplitude} \sin(2 \pi\,\mathrm{frequency}\; t)`,

    .. math::
        F_1 &= (U_e - U_1)/R_0 + C_1 (U_2' - U_1') \\
        F_2 &= (U_b - U_2)/R_2 - U_2/R_1 + C_1 (U_1' - U_2') - (1-\alpha)\, g \\
        F_3 &= g - U_3/R_3 - C_2 U_3' \\
        F_4 &= (U_b - U_4)/R_4 + C_3 (U_5' - U_4') - \alpha g \\
        F_5 &= -U_5/R_5 + C_3 (U_4' - U_5')

    :math:`F_1 + F_2` and :math:`F_4 + F_5` contain no derivative. The circuit starts at rest:
    :math:`U_2 = U_3 = U_b R_1/(R_1+R_2)`, :math:`U_4 = U_b`, :math:`U_1 = U_5 = 0`.
    """

    title = "amplifier with one transistor"
    index = 1
    names = ("U_1", "U_2", "U_3", "U_4", "U_5")
    units = ("V",) * 5
    equation_names = tuple(f"current into node {i}" for i in range(1, 6))
    size = (5, 0)
    parameters = {
        **_SOURCE,
        **positive("Ohm", "Resistances of the base to ground and to the supply", R_1=9e3, R_2=9e3),
        **positive("Ohm", "Resistances at emitter, collector and output", R_3=9e3, R_4=9e3, R_5=9e3),
        **positive("F", "Capacitances at input, emitter and output", C_1=1e-6, C_2=2e-6, C_3=3e-6),
        **finite("V", "Amplitude of the input signal", amplitude=0.4),
        **positive("Hz", "Frequency of the input signal", frequency=100.0),
    }
    reference = f"{HAIRER_WANNER}, section VI.1, page 377"
    interval = (0.0, 0.1)
    dt = 1e-4
    stored = "one-transistor"

    def _start(self) -> list[float]:
        base = self._base(self.R_1, self.R_2)
        return [0.0, base, base, self.U_b, 0.0]


@also_model("two-transistor")
@also_model("transistor-amplifier")  # its name in the Test Set
@PROBLEMS.register("two-transistor")
class TwoTransistorAmplifier(Amplifier):
    r"""Amplifier with two transistors, index 1 with a singular mass matrix.

    The residual is, with :math:`g_1 = \beta (e^{(U_2 - U_3)/U_F} - 1)`,
    :math:`g_2 = \beta (e^{(U_5 - U_6)/U_F} - 1)` and
    :math:`U_e = \mathrm{amplitude} \sin(2 \pi\,\mathrm{frequency}\; t)`,

    .. math::
        F_1 &= (U_e - U_1)/R_0 + C_1 (U_2' - U_1') \\
        F_2 &= (U_b - U_2)/R_2 - U_2/R_1 + C_1 (U_1' - U_2') - (1-\alpha)\, g_1 \\
        F_3 &= g_1 - U_3/R_3 - C_2 U_3' \\
        F_4 &= (U_b - U_4)/R_4 + C_3 (U_5' - U_4') - \alpha g_1 \\
        F_5 &= (U_b - U_5)/R_6 - U_5/R_5 + C_3 (U_4' - U_5') - (1-\alpha)\, g_2 \\
        F_6 &= g_2 - U_6/R_7 - C_4 U_6' \\
        F_7 &= (U_b - U_7)/R_8 + C_5 (U_8' - U_7') - \alpha g_2 \\
        F_8 &= -U_8/R_9 + C_5 (U_7' - U_8')

    :math:`F_1 + F_2`, :math:`F_4 + F_5` and :math:`F_7 + F_8` contain no derivative. The circuit starts at
    rest: :math:`U_2 = U_3 = U_b R_1/(R_1+R_2)`, :math:`U_5 = U_6 = U_b R_5/(R_5+R_6)`,
    :math:`U_4 = U_7 = U_b`, :math:`U_1 = U_8 = 0`.
    """

    title = "amplifier with two transistors"
    index = 1
    names = ("U_1", "U_2", "U_3", "U_4", "U_5", "U_6", "U_7", "U_8")
    units = ("V",) * 8
    equation_names = tuple(f"current into node {i}" for i in range(1, 9))
    size = (8, 0)
    parameters = {
        **_SOURCE,
        **positive("Ohm", _STAGE.format("first"), R_1=9e3, R_2=9e3, R_3=9e3, R_4=9e3),
        **positive("Ohm", _STAGE.format("second"), R_5=9e3, R_6=9e3, R_7=9e3, R_8=9e3),
        **positive("Ohm", "Resistance of the output", R_9=9e3),
        **positive("F", "Capacitances at input and first emitter", C_1=1e-6, C_2=2e-6),
        **positive(
            "F", "Capacitances between the stages, at second emitter and output", C_3=3e-6, C_4=4e-6, C_5=5e-6
        ),
        **finite("V", "Amplitude of the input signal", amplitude=0.1),
        **positive("Hz", "Frequency of the input signal", frequency=100.0),
    }
    reference = f"{HAIRER_LUBICH_ROCHE}, page 108. {TEST_SET}, transistor amplifier"
    interval = (0.0, 0.2)
    dt = 1e-4
    stored = "two-transistor"

    def components(self) -> Components:
        """Both stages; see the base class."""
        resistors, capacitors, transistors = super().components()
        second = (SUPPLY, 4, self.R_6), (5, GROUND, self.R_7), (SUPPLY, 6, self.R_8), (7, GROUND, self.R_9)
        more = (5, GROUND, self.C_4), (6, 7, self.C_5)
        return Components([*resistors, *second], [*capacitors, *more], [*transistors, (4, 5, 6)])

    @property
    def reference_end(self) -> ReferenceEnd:
        """The reference value of the test set; raises :class:`ReferenceRangeError` for other parameters."""
        require_defaults(self)
        return load_record("transistor-amplifier").end

    def _start(self) -> list[float]:
        first, second = self._base(self.R_1, self.R_2), self._base(self.R_5, self.R_6)
        return [0.0, first, first, self.U_b, second, second, self.U_b, 0.0]


_LOW, _HIGH = 2000.0 * math.pi, 20000.0 * math.pi
"""Angular frequencies of the signal and of the carrier in 1/s."""


def modulator_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`RingModulator`; the last three entries of p are the places of U_3, U_7 and I_1 in u."""
    cs, C, C_p, L_h, L_s1, L_s = p[0], p[1], p[2], p[3], p[4], p[5]
    R, R_p, R_i, R_c, R_g1, R_g, gamma, delta = p[6], p[7], p[8], p[9], p[10], p[11], p[12], p[13]
    ring, carrier, coils = int(p[14]), int(p[15]), int(p[16])
    signal, high = 0.5 * math.sin(_LOW * t), 2.0 * math.sin(_HIGH * t)
    u1, u2, u7 = u[0], u[1], u[carrier]
    u3, u4, u5, u6 = u[ring], u[ring + 1], u[ring + 2], u[ring + 3]
    i1, i2, i3, i4 = u[coils], u[coils + 1], u[coils + 2], u[coils + 3]
    i5, i6, i7, i8 = u[coils + 4], u[coils + 5], u[coils + 6], u[coils + 7]
    d1 = gamma * (math.exp(delta * (u3 - u5 - u7 - high)) - 1.0)
    d2 = gamma * (math.exp(delta * (u6 - u4 - u7 - high)) - 1.0)
    d3 = gamma * (math.exp(delta * (u4 + u5 + u7 + high)) - 1.0)
    d4 = gamma * (math.exp(delta * (u7 + high - u3 - u6)) - 1.0)
    out[0] = C * du[0] - (i1 - 0.5 * i3 + 0.5 * i4 + i7 - u1 / R)
    out[1] = C * du[1] - (i2 - 0.5 * i5 + 0.5 * i6 + i8 - u2 / R)
    out[ring] = cs * du[ring] - (i3 - d1 + d4)
    out[ring + 1] = cs * du[ring + 1] - (d2 - i4 - d3)
    out[ring + 2] = cs * du[ring + 2] - (i5 + d1 - d3)
    out[ring + 3] = cs * du[ring + 3] - (d4 - i6 - d2)
    out[carrier] = C_p * du[carrier] - (d1 + d2 - d3 - d4 - u7 / R_p)
    out[coils] = L_h * du[coils] + u1
    out[coils + 1] = L_h * du[coils + 1] + u2
    out[coils + 2] = L_s * du[coils + 2] - (0.5 * u1 - u3 - R_g * i3)
    out[coils + 3] = L_s * du[coils + 3] - (u4 - 0.5 * u1 - R_g * i4)
    out[coils + 4] = L_s * du[coils + 4] - (0.5 * u2 - u5 - R_g * i5)
    out[coils + 5] = L_s * du[coils + 5] - (u6 - 0.5 * u2 - R_g * i6)
    out[coils + 6] = L_s1 * du[coils + 6] - (signal - u1 - (R_i + R_g1) * i7)
    out[coils + 7] = L_s1 * du[coils + 7] + u2 + (R_c + R_g1) * i8


_VOLTAGES = tuple(f"U_{k}" for k in range(1, 8))
_CURRENTS = tuple(f"I_{k}" for k in range(1, 9))


@also_model("ring-modulator", held=("cs",))
@PROBLEMS.register("ring-modulator")
class RingModulator(TestSetProblem):
    r"""Ring modulator; a stiff ODE with the parasitic capacitances C_s, of index 2 without them.

    With the voltages over the four diodes

    .. math::
        V_1 &= U_3 - U_5 - U_7 - U_c, & V_3 &= U_4 + U_5 + U_7 + U_c, \\
        V_2 &= -U_4 + U_6 - U_7 - U_c, & V_4 &= -U_3 - U_6 + U_7 + U_c,

    and their currents :math:`q_k = \gamma (e^{\delta V_k} - 1)` the residual is

    .. math::
        F_1 &= C U_1' - I_1 + \tfrac12 I_3 - \tfrac12 I_4 - I_7 + U_1 / R, \\
        F_2 &= C U_2' - I_2 + \tfrac12 I_5 - \tfrac12 I_6 - I_8 + U_2 / R, \\
        F_3 &= C_s U_3' - I_3 + q_1 - q_4, \qquad F_4 = C_s U_4' + I_4 - q_2 + q_3, \\
        F_5 &= C_s U_5' - I_5 - q_1 + q_3, \qquad F_6 = C_s U_6' + I_6 + q_2 - q_4, \\
        F_7 &= C_p U_7' + U_7 / R_p - q_1 - q_2 + q_3 + q_4, \\
        F_8 &= L_h I_1' + U_1, \qquad F_9 = L_h I_2' + U_2, \\
        F_{10} &= L_s I_3' - \tfrac12 U_1 + U_3 + R_g I_3, \qquad
        F_{11} = L_s I_4' + \tfrac12 U_1 - U_4 + R_g I_4, \\
        F_{12} &= L_s I_5' - \tfrac12 U_2 + U_5 + R_g I_5, \qquad
        F_{13} = L_s I_6' + \tfrac12 U_2 - U_6 + R_g I_6, \\
        F_{14} &= L_{s1} I_7' + U_1 - U_e + (R_i + R_{g1}) I_7, \qquad
        F_{15} = L_{s1} I_8' + U_2 + (R_c + R_{g1}) I_8

    with the signal :math:`U_e = \tfrac12 \sin 2000 \pi t` and the carrier
    :math:`U_c = 2 \sin 20000 \pi t`. For :math:`C_s > 0` the unknowns are in the order of the Test Set, and
    the solution has small oscillations of high frequency. For :math:`C_s = 0` they are :math:`U_1, U_2, U_7,
    I_1 \dots I_8` and the algebraic :math:`U_3 \dots U_6`, with the equations in the same order; then
    :math:`F_3 - F_4 + F_5 - F_6` is a constraint of the currents alone and implies a hidden one,

    .. math::
        I_3 + I_4 + I_5 + I_6 = 0, \qquad -U_3 + U_4 - U_5 + U_6 = 0 .

    Both start at rest, with all unknowns zero.
    """

    title = "ring modulator with four diodes"
    parameters = {
        **finite("F", "Parasitic capacitance C_s of each half of a coil, not negative", cs=2e-12),
        **positive("F", "Capacitances of the two sides and of the carrier", C=1.6e-8, C_p=1e-8),
        **positive(
            "H", "Inductances of the sides, their inputs and the half coils", L_h=4.45, L_s1=2e-3, L_s=5e-4
        ),
        **positive("Ohm", "Resistances beside the capacitances C and C_p", R=25e3, R_p=50.0),
        **positive("Ohm", "Resistances of the source and of the load", R_i=50.0, R_c=600.0),
        **positive("Ohm", "Resistances of the coils", R_g1=36.3, R_g=17.3),
        **positive("A", "Saturation current of the diodes", gamma=40.67286402e-9),
        **positive("1/V", "Steepness of their characteristic", delta=17.7493332),
    }
    reference = (
        "E. H. Horneber: Analyse nichtlinearer RLCU-Netzwerke mit Hilfe der gemischten Potentialfunktion, "
        "dissertation, Kaiserslautern 1976. G. Denk, P. Rentrop: Mathematical models in electric circuit "
        f"simulation and their numerical treatment, Teubner-Texte zur Mathematik 121 (1991) 305. {TEST_SET}, "
        "ring modulator"
    )
    interval = (0.0, 1e-3)
    dt = 2e-8
    record = "ring-modulator"
    residual_kernel = modulator_residual

    def _check_parameters(self) -> None:
        if self.cs < 0.0:
            raise InputError(f"cs of RingModulator must not be negative; got {self.cs}")

    def _counts(self) -> tuple[int, int]:
        """Numbers of differential and algebraic unknowns; sets their names."""
        algebraic = self.cs == 0.0
        ring, rest = _VOLTAGES[2:6], (*_VOLTAGES[:2], _VOLTAGES[6], *_CURRENTS)
        self.names = (*rest, *ring) if algebraic else (*_VOLTAGES, *_CURRENTS)
        self.units = tuple("V" if name[0] == "U" else "A" for name in self.names)
        self.equation_names = tuple(
            f"balance of {'currents' if name[0] == 'U' else 'voltages'} for {name}" for name in self.names
        )
        self.index = 2 if algebraic else 0
        if algebraic:
            self.record, self.independent_of = "ring-modulator-index-2", ("cs",)
        return (11, 4) if algebraic else (15, 0)

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        if self.cs == 0.0:
            stored = load_record(RingModulator.record).nominal
            self.nominal = stored[[(*_VOLTAGES, *_CURRENTS).index(name) for name in self.names]]

    def kernel_parameters(self) -> npt.ArrayLike:
        """The parameters in their order, and the places of U_3, U_7 and I_1 in the state."""
        own = np.asarray(super().kernel_parameters())
        return [*own, *(self.names.index(name) for name in ("U_3", "U_7", "I_1"))]

    def _start(self) -> npt.ArrayLike:
        return np.zeros(15)

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative at t = 0, where only the carrier changes; raises like :meth:`u_exact` elsewhere."""
        if t != self.interval[0]:
            raise ReferenceRangeError(f"the derivative of RingModulator is known at t=0 only; got t={t:g}")
        slope = np.zeros(15)
        if self.cs == 0.0:
            # From the differentiated constraints; at rest all diodes have the same conductance.
            slope[11:] = np.array([1.0, -1.0, -1.0, 1.0]) * _HIGH
        return self.state(slope)


class Line(NamedTuple):
    """A linear piece of a signal: value + slope (t - start)."""

    start: float  # Time at which the piece begins.
    value: float  # Signal at ``start``.
    slope: float  # Derivative of the signal on the piece.

    def at(self, t: float) -> float:
        """The signal at time ``t``."""
        return self.value + self.slope * (t - self.start)


class Pulse(NamedTuple):
    """A periodic trapezoid: zero, a rise, a plateau, a fall, and zero again."""

    delay: float  # Time from the start of a period to the rise.
    # rise, high, fall: Durations of rise, plateau and fall; rise and fall are positive.
    rise: float
    high: float
    fall: float
    period: float  # Duration of a period, at least the sum of delay, rise, high and fall.
    level: float  # Height of the plateau.

    def _cycle(self, number: int) -> tuple[Line, Line, Line, Line]:
        """The four pieces that begin in period ``number``; the last one reaches into the next period."""
        ends = accumulate((self.delay, self.rise, self.high, self.fall))
        rise, high, fall, low = (number * self.period + end for end in ends)
        return (
            Line(rise, 0.0, self.level / self.rise),
            Line(high, self.level, 0.0),
            Line(fall, self.level, -self.level / self.fall),
            Line(low, 0.0, 0.0),
        )

    def line(self, t: float) -> Line:
        """The piece that contains ``t``; from 1e-12 max(abs(t), period) before a corner on, the next one."""
        slack = self._slack(t)
        return max(line for line in self._lines_near(t) if line.start <= t + slack)

    def lasts_until(self, t: float) -> float:
        """A time just before the first corner after ``t``, until which :meth:`line` stays the same."""
        slack = self._slack(t)
        corner = min(line.start for line in self._lines_near(t) if line.start > t + slack)
        return corner - 2.0 * self._slack(corner)

    def _slack(self, t: float) -> float:
        """Distance before a corner from which on the next piece counts."""
        return 1e-12 * max(abs(t), self.period)

    def _lines_near(self, t: float) -> Iterator[Line]:
        """The pieces of the period that contains ``t`` and of those before and after it."""
        cycle = math.floor(t / self.period)
        return (line for number in (cycle - 1, cycle, cycle + 1) for line in self._cycle(number))

    def corners(self, t0: float, t_end: float) -> set[float]:
        """Times strictly between ``t0`` and ``t_end`` at which the slope jumps."""
        cycles = range(math.floor(t0 / self.period) - 1, math.floor(t_end / self.period) + 1)
        slack = max(self._slack(t0), self._slack(t_end))
        starts = (line.start for number in cycles for line in self._cycle(number))
        return {start for start in starts if t0 + slack < start < t_end - slack}


class PulsedProblem(TestSetProblem):
    """A problem driven by trains of pulses; the linear pieces are chosen anew at the start of each step."""

    pulses: ClassVar[tuple[Pulse, ...]] = ()
    lines: tuple[Line, ...]  # Piece of every train in the current step, chosen by :meth:`start_step`.

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        self.lines = tuple(pulse.line(self.interval[0]) for pulse in self.pulses)
        self._lasting = (0.0, 0.0)  # the times at which the pieces are those that were chosen last

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """The corners of all trains strictly between ``t0`` and ``t_end``, in order."""
        return tuple(sorted(set().union(*(pulse.corners(t0, t_end) for pulse in self.pulses))))

    @property
    def starts_alike(self) -> bool:
        """True where the pieces, which change at breakpoints alone, are all that is chosen."""
        return type(self).start_step is PulsedProblem.start_step

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Choose the pieces that contain ``t``; at a corner, those that begin there."""
        if self._lasting[0] <= t < self._lasting[1]:
            return
        self._lasting = t, min((pulse.lasts_until(t) for pulse in self.pulses), default=math.inf)
        self._choose(lines=tuple(pulse.line(t) for pulse in self.pulses))


_CS, _CD, _COX = 1.6e-12, 0.4e-12, 4e-12
"""Capacitances at the source, at the drain and of the oxide in F."""
# Flat-band voltage in V.
_THRESHOLD, _BODY, _POTENTIAL = 0.2, 0.035, 1.01
_FLAT = _THRESHOLD - _BODY * math.sqrt(_POTENTIAL) - _POTENTIAL
# Voltage at the drain divided by that at the source; their capacitors have the same charge.
_RATIO = _CS / _CD


@inlined
def transistor_charges(gate_bulk: float, gate_source: float, gate_drain: float) -> tuple[float, float]:
    """Charge of the gate in C, and that of the source, which is also that of the drain."""
    # The model is symmetric: the terminal with the higher of the two voltages counts as source.
    first, second = max(gate_source, gate_drain), min(gate_source, gate_drain)
    bulk = first - gate_bulk
    if gate_bulk <= _FLAT:
        return _COX * (gate_bulk - _FLAT), 0.0
    root = math.sqrt(_POTENTIAL - bulk)
    threshold = _THRESHOLD + _BODY * (root - math.sqrt(_POTENTIAL))
    if first <= threshold:
        return _COX * _BODY * (math.sqrt(0.25 * _BODY * _BODY + gate_bulk - _FLAT) - 0.5 * _BODY), 0.0
    a, b = first - threshold, max(second - threshold, 0.0)
    third = (a + b - a * b / (a + b)) / 3.0
    return _COX * (2.0 * third + _BODY * root), -_COX * third


def pump_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`ChargePump`; p is start, value and slope of the current piece of the input."""
    gate, channel = transistor_charges(u[5], u[5] - u[6], u[5] - u[7])
    out[0] = du[0] + u[8]
    out[1] = du[1] + du[2]
    out[2] = du[3] + du[4]
    out[3] = p[1] + p[2] * (t - p[0]) - u[5]
    out[4] = u[0] - gate
    out[5] = u[1] - _CS * u[6]
    out[6] = u[2] - channel
    out[7] = u[3] - _CD * u[7]
    out[8] = u[4] - channel


def _gate_capacitance(V: float, source: float) -> float:
    """Total derivative of the charge of the gate with respect to the input V."""
    root = math.sqrt(_POTENTIAL + source)
    threshold = _THRESHOLD + _BODY * (root - math.sqrt(_POTENTIAL))
    a, b = V - source - threshold, max(V - _RATIO * source - threshold, 0.0)
    bend = 0.5 * _BODY / root
    if a <= 0.0:
        return 0.5 * _COX * _BODY / math.sqrt(0.25 * _BODY * _BODY + V - _FLAT)
    by_a, by_b = 1.0 - (b / (a + b)) ** 2, (1.0 - (a / (a + b)) ** 2)
    pull = by_a * (1.0 + bend) + by_b * (_RATIO + bend)
    slope = (by_a + by_b) / (3.0 * _CS / _COX + pull)
    return (2.0 * _CS + _COX * bend) * slope


@PROBLEMS.register("charge-pump")
class ChargePump(PulsedProblem):
    r"""Charge pump of one MOS transistor and two capacitors, index 2.

    With the charges of the transistor :math:`Q = Q(U_1, U_1 - U_2, U_1 - U_3)` the residual is

    .. math::
        F_1 &= Y_{T1}' + I, & F_2 &= Y_S' + Y_{T2}', & F_3 &= Y_D' + Y_{T3}', \\
        F_4 &= V_{in}(t) - U_1, & F_5 &= Y_{T1} - Q_G, & F_6 &= Y_S - C_S U_2, \\
        F_7 &= Y_{T2} - Q_S, & F_8 &= Y_D - C_D U_3, & F_9 &= Y_{T3} - Q_D .

    Unknowns keep the order of the Test Set. With the larger :math:`v` and the smaller :math:`w` of
    :math:`v_{GS}` and :math:`v_{GD}`, :math:`V_F = V_0 - \gamma \sqrt\varphi - \varphi`,
    :math:`r = \sqrt{\varphi - v + v_{GB}}`, :math:`V_T = V_0 + \gamma (r - \sqrt\varphi)`,
    :math:`a = v - V_T`, :math:`b = \max(w - V_T, 0)` and :math:`z = a + b - ab/(a + b)` the charges are
    continuous functions,

    .. math::
        (Q_G,\, Q_S = Q_D) = C_{ox} \begin{cases}
            (v_{GB} - V_F,\; 0) & v_{GB} \le V_F \\
            \bigl(\gamma (\sqrt{\gamma^2/4 + v_{GB} - V_F} - \gamma/2),\; 0\bigr)
                & v_{GB} > V_F,\; v \le V_T \\
            \bigl(\tfrac23 z + \gamma r,\; -\tfrac13 z\bigr) & \text{otherwise.} \end{cases}

    The input :math:`V_{in}` is a train of trapezoidal pulses of 20 V with corners 50, 60, 110 and 120 ns
    after the start of each period of 120 ns; the current I jumps there. The charges :math:`Y_S + Y_{T2}` and
    :math:`Y_D + Y_{T3}` stay zero, so the state is a function of :math:`V_{in}`, and
    :math:`U_3 = U_2 C_S / C_D`. At the end of the interval all but the first charge and the current,

    .. math::
        I = 2 \cdot 10^9\,\mathrm{V/s}\; \frac{C_{ox} \gamma}{2 \sqrt{\gamma^2 / 4 - V_F}}
          = 1.5225661038485337 \cdot 10^{-4}\,\mathrm{A},

    vanish; the published values of I have five and seven correct digits.
    """

    title = "charge pump with one MOS transistor"
    index = 2
    names = ("Y_T1", "Y_S", "Y_T2", "Y_D", "Y_T3", "U_1", "U_2", "U_3", "I")
    units = (*("C",) * 5, *("V",) * 3, "A")
    equation_names = (
        *("current into the gate", "current into the source", "current into the drain", "input"),
        *("charge of the gate", "charge at the source", "charge of the source"),
        *("charge at the drain", "charge of the drain"),
    )
    size = (5, 4)
    reference = (
        "M. Guenther, U. Feldmann, P. Rentrop: Choice and performance of numerical schemes in circuit "
        f"simulation, Progress in Industrial Mathematics at ECMI 94, Teubner 1996, 423. {TEST_SET}, charge "
        "pump"
    )
    interval = (0.0, 1.2e-6)
    dt = 1e-9
    record = "charge-pump"
    residual_kernel = pump_residual
    pulses = (Pulse(50e-9, 10e-9, 50e-9, 10e-9, 120e-9, 20.0),)

    def kernel_parameters(self) -> npt.ArrayLike:
        """Start, value and slope of the current piece of the input."""
        return np.ravel(self.lines)

    def u_exact(self, t: float) -> MeshDAE:
        """The solution at any t by a scalar equation; I is its left limit at corners, and zero at t = 0."""
        (pulse,) = self.pulses
        later = pulse.line(t)
        earlier = later if t == self.interval[0] else pulse.line(t - 2e-12 * max(abs(t), pulse.period))
        V = later.at(t)

        def balance(v: float) -> float:
            return _CS * v + transistor_charges(V, V - v, V - _RATIO * v)[1]

        source = brentq(balance, 0.0, V, xtol=1e-300, rtol=1e-15)
        drain = _RATIO * source
        gate, charge = transistor_charges(V, V - source, V - drain)[0], _CS * source
        current = 0.0 - earlier.slope * _gate_capacitance(V, source)
        return self.state([gate, charge, 0.0 - charge, charge, 0.0 - charge, V, source, drain, current])

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative at t = 0, which is zero; raises like :meth:`u_exact` elsewhere."""
        if t != self.interval[0]:
            raise ReferenceRangeError(f"the derivative of ChargePump is known at t=0 only; got t={t:g}")
        return self.state(np.zeros(9))
