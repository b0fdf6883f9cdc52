"""Electric circuits in nodal analysis: every equation sums the currents into a node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError
from dae_sdc.problems._reference import StoredReference, require_finite, require_positive

GROUND, SUPPLY, SIGNAL = -1, -2, -3
"""Numbers that stand for the three potentials that are given, where a node number is expected."""


class Amplifier(ProblemDAE):
    """What the transistor amplifiers share: Jacobian, batched residual and start from a list of components.

    The residual is F = I(t) - G u - C u' + sum_k s_k g(u_base - u_emitter) with the constant matrices G and C
    of the resistors and capacitors and the directions s_k in which transistor k drives its three nodes.
    A subclass declares the parameters U_b, U_F, alpha, beta, amplitude and frequency and calls :meth:`build`.
    """

    U_b: float
    U_F: float
    alpha: float
    beta: float
    amplitude: float
    frequency: float
    stored: StoredReference

    def build(
        self,
        resistors: Sequence[tuple[int, int, float]],
        capacitors: Sequence[tuple[int, int, float]],
        transistors: Sequence[tuple[int, int, int]],
    ) -> None:
        """Set up the matrices of the circuit.

        Parameters
        ----------
        resistors, capacitors : sequence of (int, int, float)
            The two nodes and the value in ohm or farad.
        transistors : sequence of (int, int, int)
            Nodes of base, emitter and collector.
        """
        n = self.n
        self._omega = 2.0 * math.pi * self.frequency
        self._conductance, self._capacitance = np.zeros((n, n)), np.zeros((n, n))
        self._from_supply, self._from_signal = np.zeros(n), np.zeros(n)
        sources = {SUPPLY: self._from_supply, SIGNAL: self._from_signal}
        for matrix, parts in (
            (self._conductance, [(i, j, 1.0 / value) for i, j, value in resistors]),
            (self._capacitance, capacitors),
        ):
            for i, j, value in parts:
                for node, other in ((i, j), (j, i)):
                    if node >= 0:
                        matrix[node, node] += value
                        if other >= 0:
                            matrix[node, other] -= value
                        elif other in sources:
                            sources[other][node] += value
        self._floating = [(i, j) for i, j, _ in capacitors if i >= 0 and j >= 0]
        self._transistors = [list(nodes) for nodes in transistors]
        self._drive = np.array([self.alpha - 1.0, 1.0, -self.alpha])

    def _check_parameters(self, *components: str) -> None:
        require_positive(self, "U_b", "U_F", "beta", "frequency", *components)
        require_finite(self, "amplitude")
        if not 0.0 < self.alpha < 1.0:
            raise InputError(f"alpha of {type(self).__name__} must lie between 0 and 1; got {self.alpha}")

    def _current(self, voltage: float) -> float:
        """Emitter current g of a transistor; infinite where the exponential overflows."""
        try:
            return self.beta * (math.exp(voltage / self.U_F) - 1.0)
        except OverflowError:
            return math.inf

    def _slope(self, u: Vector) -> Vector:
        """The matrix of the derivatives of the residual with respect to u, shape (n, n)."""
        slope = -self._conductance
        for nodes in self._transistors:
            base, emitter, _ = nodes
            g = (self._current(float(u[base] - u[emitter])) + self.beta) / self.U_F
            change = g * self._drive
            slope[nodes, base] += change
            slope[nodes, emitter] -= change
        return slope

    @np.errstate(over="ignore", invalid="ignore")
    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Vector:
        """The matrix dF/du' + c dF/du, shape (n, n)."""
        matrix = self._slope(u.view(np.ndarray))
        matrix *= c
        matrix -= self._capacitance
        return matrix

    def _initial_derivative(self) -> Vector:
        """The derivative at t = 0.

        A capacitor between two nodes takes as much from one as it gives to the other, so the sum of the two
        equations is a constraint; its derivative replaces the equation of the first node.
        """
        u = np.asarray(self.u_exact(0.0))
        matrix, slope = self._capacitance.copy(), self._slope(u)
        known = self._from_supply * self.U_b - self._conductance @ u
        rate = self._from_signal * self.amplitude * self._omega
        for first, second in self._floating:
            matrix[first] = slope[first] + slope[second]
            known[first] = -rate[first] - rate[second]
        derivative: Vector = np.linalg.solve(matrix, known)
        return derivative

    def _start(self) -> list[float]:
        """Node voltages at rest with the signal at zero."""
        raise InputError(f"{type(self).__name__} has no initial value")

    def u_exact(self, t: float) -> MeshDAE:
        """The initial value at t = 0 for any parameters, the stored reference elsewhere."""
        return self.state(self._start() if t == 0.0 else self.stored.value(self, t))

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative at t = 0 for any parameters, that of the stored reference elsewhere."""
        return self.state(self._initial_derivative() if t == 0.0 else self.stored.derivative(self, t))


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

    Parameters
    ----------
    U_b : float
        Supply voltage; unit V.
    U_F : float
        Thermal voltage of the transistor; unit V.
    alpha : float
        Share of the emitter current that the collector takes; unit 1.
    beta : float
        Saturation current of the transistor; unit A.
    R_0 : float
        Resistance of the signal source; unit Ohm.
    R_1, R_2 : float
        Resistances of the base to ground and to the supply; unit Ohm.
    R_3, R_4, R_5 : float
        Resistances at emitter, collector and output; unit Ohm.
    C_1, C_2, C_3 : float
        Capacitances at input, emitter and output; unit F.
    amplitude : float
        Amplitude of the input signal; unit V.
    frequency : float
        Frequency of the input signal; unit Hz.
    **settings
        ``newton_tol`` and ``newton_maxiter`` of :class:`ProblemDAE`.

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
    parameter_units = {
        **{"U_b": "V", "U_F": "V", "alpha": "1", "beta": "A"},
        **{f"R_{i}": "Ohm" for i in range(6)},
        **{f"C_{i}": "F" for i in range(1, 4)},
        **{"amplitude": "V", "frequency": "Hz"},
    }
    reference = "Hairer, Wanner 1996, page 377"
    interval = (0.0, 0.1)
    dt = 1e-4
    stored = StoredReference("one-transistor")

    def __init__(
        self,
        U_b: float = 6.0,
        U_F: float = 0.026,
        alpha: float = 0.99,
        beta: float = 1e-6,
        R_0: float = 1000.0,
        R_1: float = 9000.0,
        R_2: float = 9000.0,
        R_3: float = 9000.0,
        R_4: float = 9000.0,
        R_5: float = 9000.0,
        C_1: float = 1e-6,
        C_2: float = 2e-6,
        C_3: float = 3e-6,
        amplitude: float = 0.4,
        frequency: float = 100.0,
        **settings: Any,
    ) -> None:
        super().__init__(5, 0, **settings)
        self._makeAttributeAndRegister(*self.parameter_units, localVars=locals())
        self._check_parameters(*(name for name in self.parameter_units if name[:2] in ("R_", "C_")))
        self.build(
            [
                *((SIGNAL, 0, R_0), (1, GROUND, R_1), (SUPPLY, 1, R_2), (2, GROUND, R_3)),
                *((SUPPLY, 3, R_4), (4, GROUND, R_5)),
            ],
            [(0, 1, C_1), (2, GROUND, C_2), (3, 4, C_3)],
            [(1, 2, 3)],
        )

    def _start(self) -> list[float]:
        base = self.U_b * self.R_1 / (self.R_1 + self.R_2)
        return [0.0, base, base, self.U_b, 0.0]

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> npt.ArrayLike:
        """The residual as printed above, shape (5,)."""
        u1, u2, u3, u4, u5 = u.tolist()
        du1, du2, du3, du4, du5 = du.tolist()
        g = self._current(u2 - u3)
        through_1 = self.C_1 * (du1 - du2)
        through_3 = self.C_3 * (du4 - du5)
        return np.array(
            [
                (self.amplitude * math.sin(self._omega * t) - u1) / self.R_0 - through_1,
                (self.U_b - u2) / self.R_2 - u2 / self.R_1 + through_1 - (1.0 - self.alpha) * g,
                g - u3 / self.R_3 - self.C_2 * du3,
                (self.U_b - u4) / self.R_4 - through_3 - self.alpha * g,
                through_3 - u5 / self.R_5,
            ]
        )


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

    Parameters
    ----------
    U_b : float
        Supply voltage; unit V.
    U_F : float
        Thermal voltage of the transistors; unit V.
    alpha : float
        Share of the emitter current that the collector takes; unit 1.
    beta : float
        Saturation current of the transistors; unit A.
    R_0 : float
        Resistance of the signal source; unit Ohm.
    R_1, R_2, R_3, R_4 : float
        Resistances at the first transistor: base to ground, base to supply, emitter, collector; unit Ohm.
    R_5, R_6, R_7, R_8 : float
        The same at the second transistor; unit Ohm.
    R_9 : float
        Resistance of the output; unit Ohm.
    C_1, C_2, C_3, C_4, C_5 : float
        Capacitances at input, first emitter, between the stages, second emitter, output; unit F.
    amplitude : float
        Amplitude of the input signal; unit V.
    frequency : float
        Frequency of the input signal; unit Hz.
    **settings
        ``newton_tol`` and ``newton_maxiter`` of :class:`ProblemDAE`.

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
    parameter_units = {
        **{"U_b": "V", "U_F": "V", "alpha": "1", "beta": "A"},
        **{f"R_{i}": "Ohm" for i in range(10)},
        **{f"C_{i}": "F" for i in range(1, 6)},
        **{"amplitude": "V", "frequency": "Hz"},
    }
    reference = "Hairer, Lubich, Roche, LNM 1409 (1989), page 108"
    interval = (0.0, 0.2)
    dt = 1e-4
    stored = StoredReference("two-transistor")

    def __init__(
        self,
        U_b: float = 6.0,
        U_F: float = 0.026,
        alpha: float = 0.99,
        beta: float = 1e-6,
        R_0: float = 1000.0,
        R_1: float = 9000.0,
        R_2: float = 9000.0,
        R_3: float = 9000.0,
        R_4: float = 9000.0,
        R_5: float = 9000.0,
        R_6: float = 9000.0,
        R_7: float = 9000.0,
        R_8: float = 9000.0,
        R_9: float = 9000.0,
        C_1: float = 1e-6,
        C_2: float = 2e-6,
        C_3: float = 3e-6,
        C_4: float = 4e-6,
        C_5: float = 5e-6,
        amplitude: float = 0.1,
        frequency: float = 100.0,
        **settings: Any,
    ) -> None:
        super().__init__(8, 0, **settings)
        self._makeAttributeAndRegister(*self.parameter_units, localVars=locals())
        self._check_parameters(*(name for name in self.parameter_units if name[:2] in ("R_", "C_")))
        self.build(
            [
                *((SIGNAL, 0, R_0), (1, GROUND, R_1), (SUPPLY, 1, R_2), (2, GROUND, R_3)),
                *((SUPPLY, 3, R_4), (4, GROUND, R_5), (SUPPLY, 4, R_6), (5, GROUND, R_7)),
                *((SUPPLY, 6, R_8), (7, GROUND, R_9)),
            ],
            [(0, 1, C_1), (2, GROUND, C_2), (3, 4, C_3), (5, GROUND, C_4), (6, 7, C_5)],
            [(1, 2, 3), (4, 5, 6)],
        )

    def _start(self) -> list[float]:
        first = self.U_b * self.R_1 / (self.R_1 + self.R_2)
        second = self.U_b * self.R_5 / (self.R_5 + self.R_6)
        return [0.0, first, first, self.U_b, second, second, self.U_b, 0.0]

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> npt.ArrayLike:
        """The residual as printed above, shape (8,)."""
        u1, u2, u3, u4, u5, u6, u7, u8 = u.tolist()
        du1, du2, du3, du4, du5, du6, du7, du8 = du.tolist()
        g1, g2 = self._current(u2 - u3), self._current(u5 - u6)
        through_1 = self.C_1 * (du1 - du2)
        through_3 = self.C_3 * (du4 - du5)
        through_5 = self.C_5 * (du7 - du8)
        to_base = 1.0 - self.alpha
        return np.array(
            [
                (self.amplitude * math.sin(self._omega * t) - u1) / self.R_0 - through_1,
                (self.U_b - u2) / self.R_2 - u2 / self.R_1 + through_1 - to_base * g1,
                g1 - u3 / self.R_3 - self.C_2 * du3,
                (self.U_b - u4) / self.R_4 - through_3 - self.alpha * g1,
                (self.U_b - u5) / self.R_6 - u5 / self.R_5 + through_3 - to_base * g2,
                g2 - u6 / self.R_7 - self.C_4 * du6,
                (self.U_b - u7) / self.R_8 - through_5 - self.alpha * g2,
                through_5 - u8 / self.R_9,
            ]
        )
