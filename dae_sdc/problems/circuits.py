"""Electric circuits in nodal analysis: every equation sums the currents into a node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.kernels import COMPLEX_STEP
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.problems._models import MODELS, Expressions, ModelOfProblem, Symbols, equations_of, total
from dae_sdc.problems._parameters import finite, positive, require_defaults
from dae_sdc.problems._reference import ReferencedProblem, StoredReference
from dae_sdc.problems._testset import ReferenceEnd, load_record

if TYPE_CHECKING:
    from dae_sdc.model.model import Model

GROUND, SUPPLY, SIGNAL = -1, -2, -3
"""Node numbers of the three given potentials."""


_AMPLIFIER_LISTS = 10
"""Place of the first component in the parameters of :func:`circuit_residual`."""


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
    """A circuit of resistors, capacitors and transistors.

    Parameters
    ----------
    resistors, capacitors : sequence of (int, int, float)
        Two nodes and the value in ohm or farad; one of the nodes may be GROUND, SUPPLY or SIGNAL.
    transistors : sequence of (int, int, int)
        Nodes of base, emitter and collector.
    """

    resistors: Sequence[tuple[int, int, float]]
    capacitors: Sequence[tuple[int, int, float]]
    transistors: Sequence[tuple[int, int, int]]


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
    frequency and gives :meth:`components`.
    """

    frequency: float
    residual_kernel = circuit_residual
    jacobian_kernel = COMPLEX_STEP

    def components(self) -> Components:
        """The components with the current values of the parameters; nodes are numbered from 0."""
        raise InputError(f"{type(self).__name__} has no components")

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
        """The derivative at t = 0.

        A capacitor between two nodes takes as much from one as it gives to the other, so the sum of the two
        equations is a constraint; its derivative replaces the equation of the first node.
        """
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
        derivative: Vector = np.linalg.solve(matrix, known)
        return derivative


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

    References
    ----------
    E. Hairer, G. Wanner: Solving Ordinary Differential Equations II, 2nd edition, Springer 1996, section
    VI.1, page 377.
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
    reference = "Hairer, Wanner 1996, page 377"
    interval = (0.0, 0.1)
    dt = 1e-4
    stored = StoredReference("one-transistor")

    def components(self) -> Components:
        """The components with the current values of the parameters; nodes are numbered from 0."""
        return Components(
            [
                *((SIGNAL, 0, self.R_0), (1, GROUND, self.R_1), (SUPPLY, 1, self.R_2), (2, GROUND, self.R_3)),
                *((SUPPLY, 3, self.R_4), (4, GROUND, self.R_5)),
            ],
            [(0, 1, self.C_1), (2, GROUND, self.C_2), (3, 4, self.C_3)],
            [(1, 2, 3)],
        )

    def _start(self) -> list[float]:
        base = self.U_b * self.R_1 / (self.R_1 + self.R_2)
        return [0.0, base, base, self.U_b, 0.0]


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

    References
    ----------
    E. Hairer, C. Lubich, M. Roche: The Numerical Solution of Differential-Algebraic Systems by Runge-Kutta
    Methods, Lecture Notes in Mathematics 1409, Springer 1989, page 108. F. Mazzia, C. Magherini: Test Set for
    IVP Solvers, release 2.4, 2008, transistor amplifier.
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
    reference = "Hairer, Lubich, Roche, LNM 1409 (1989), page 108"
    interval = (0.0, 0.2)
    dt = 1e-4
    stored = StoredReference("two-transistor")

    def components(self) -> Components:
        """The components with the current values of the parameters; nodes are numbered from 0."""
        return Components(
            [
                *((SIGNAL, 0, self.R_0), (1, GROUND, self.R_1), (SUPPLY, 1, self.R_2), (2, GROUND, self.R_3)),
                *((SUPPLY, 3, self.R_4), (4, GROUND, self.R_5), (SUPPLY, 4, self.R_6), (5, GROUND, self.R_7)),
                *((SUPPLY, 6, self.R_8), (7, GROUND, self.R_9)),
            ],
            [
                (0, 1, self.C_1),
                (2, GROUND, self.C_2),
                (3, 4, self.C_3),
                (5, GROUND, self.C_4),
                (6, 7, self.C_5),
            ],
            [(1, 2, 3), (4, 5, 6)],
        )

    @property
    def reference_end(self) -> ReferenceEnd:
        """The reference value of the test set; raises :class:`ReferenceRangeError` for other parameters."""
        require_defaults(self)
        return load_record("transistor-amplifier").end

    def _start(self) -> list[float]:
        first = self.U_b * self.R_1 / (self.R_1 + self.R_2)
        second = self.U_b * self.R_5 / (self.R_5 + self.R_6)
        return [0.0, first, first, self.U_b, second, second, self.U_b, 0.0]


@equations_of("two-transistor", TwoTransistorAmplifier)
def amplifier_equations(model: Model, u: Symbols, p: Symbols) -> Expressions:
    """The sum of the currents into each node."""
    from sympy import exp, pi, sin

    given: Any = SimpleNamespace(**dict(zip(model.parameters_by_name, p, strict=True)))
    kind: Any = TwoTransistorAmplifier
    resistors, capacitors, transistors = kind.components(given)
    signal = given.amplitude * sin(2 * pi * given.frequency * model.t)
    voltage = {GROUND: 0, SUPPLY: given.U_b, SIGNAL: signal, **dict(enumerate(u))}
    rate = {GROUND: 0, **{node: model.der(unknown) for node, unknown in enumerate(u)}}
    into: dict[int, list[Any]] = {node: [] for node in voltage}
    for i, j, resistance in resistors:
        into[i].append((voltage[j] - voltage[i]) / resistance)
        into[j].append((voltage[i] - voltage[j]) / resistance)
    for i, j, capacitance in capacitors:
        into[i].append(capacitance * (rate[j] - rate[i]))
        into[j].append(capacitance * (rate[i] - rate[j]))
    for base, emitter, collector in transistors:
        g = given.beta * (exp((voltage[base] - voltage[emitter]) / given.U_F) - 1)
        for node, current in ((base, -(1 - given.alpha) * g), (emitter, g), (collector, -given.alpha * g)):
            into[node].append(current)
    return {f"current into node {node + 1}": total(into[node]) for node in range(len(u))}


# Name of the same circuit in the Test Set.
MODELS.add(
    "transistor-amplifier",
    ModelOfProblem("transistor-amplifier", TwoTransistorAmplifier, amplifier_equations.equations),
)
