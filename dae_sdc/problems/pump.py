"""Trains of trapezoidal pulses, and a charge pump that they drive."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from dae_sdc.dae.kernels import COMPLEX_STEP, inlined
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import ReferenceRangeError
from dae_sdc.problems._library import TestSetProblem


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
        rise = number * self.period + self.delay
        high = number * self.period + (self.delay + self.rise)
        fall = number * self.period + (self.delay + self.rise + self.high)
        low = number * self.period + (self.delay + self.rise + self.high + self.fall)
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
        lines = tuple(pulse.line(t) for pulse in self.pulses)
        self._lasting = t, min((pulse.lasts_until(t) for pulse in self.pulses), default=math.inf)
        # An assignment makes the problem pack the parameters of its kernels anew.
        if lines != self.lines:
            self.lines = lines


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

    References
    ----------
    M. Guenther, U. Feldmann, P. Rentrop: Choice and performance of numerical schemes in circuit simulation,
    Progress in Industrial Mathematics at ECMI 94, Teubner 1996, 423. F. Mazzia, C. Magherini: Test Set for
    IVP Solvers, release 2.4, 2008, charge pump.
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
    reference = "Test Set for IVP Solvers 2.4, charge pump"
    interval = (0.0, 1.2e-6)
    dt = 1e-9
    record = "charge-pump"
    residual_kernel = pump_residual
    jacobian_kernel = COMPLEX_STEP
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
