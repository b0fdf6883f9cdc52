"""Electric power systems: one synchronous machine at an infinite bus, and the WSCC 9-bus system."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError
from dae_sdc.problems._reference import StoredReference, require_finite, require_positive

Phasors = npt.NDArray[np.complex128]

EVENT_SLACK = 1e-12
"""Seconds by which a time must exceed that of a disturbance to be after it; part of the time if that is
later than 1 s. A step that ends at the disturbance does not see it although its end is a sum of steps, whose
rounding stays below this for 10000 equal steps. The solution is disturbed that much too late, by which it
changes up to 6e-12 of its size: less than the accuracy of the reference."""


def is_after(t: Any, event: float) -> Any:
    """Whether the time ``t``, or each of an array of times, is later than ``event`` by more than rounding."""
    return t - event > EVENT_SLACK * max(1.0, abs(event))


@PROBLEMS.register("synchronous-machine")
class SynchronousMachineInfiniteBus(ProblemDAE):
    r"""Synchronous machine behind a transmission line at an infinite bus, index 1.

    The residual is

    .. math::
        F_1 &= -\psi_d' + \omega_b (v_d - R_s i_d + \omega_m \psi_q), &
        F_2 &= -\psi_q' + \omega_b (v_q - R_s i_q - \omega_m \psi_d), \\
        F_3 &= -\psi_F' + \omega_b (v_F - R_F i_F), &
        F_4 &= -\psi_D' - \omega_b R_D i_D, \\
        F_5 &= -\psi_{Q1}' - \omega_b R_{Q1} i_{Q1}, &
        F_6 &= -\psi_{Q2}' - \omega_b R_{Q2} i_{Q2}, \\
        F_7 &= -\delta' + \omega_b (\omega_m - 1), \\
        F_8 &= -\omega_m' + \frac{T(t) - (\psi_q i_d - \psi_d i_q) - K_D \omega_b (\omega_m - 1)}{2H}, \\
        F_9 &= -\psi_d + L_d i_d + L_{md} (i_F + i_D), &
        F_{10} &= -\psi_q + L_q i_q + L_{mq} (i_{Q1} + i_{Q2}), \\
        F_{11} &= -\psi_F + L_{md} (i_d + i_D) + L_F i_F, &
        F_{12} &= -\psi_D + L_{md} (i_d + i_F) + L_D i_D, \\
        F_{13} &= -\psi_{Q1} + L_{mq} (i_q + i_{Q2}) + L_{Q1} i_{Q1}, &
        F_{14} &= -\psi_{Q2} + L_{mq} (i_q + i_{Q1}) + L_{Q2} i_{Q2},

    where the terminal voltage is that of the bus plus the drop along the line,
    :math:`v_q - i v_d = E_B e^{-i\delta} + Z_{line} (i_q - i\, i_d)`, that is

    .. math::
        v_d = E_B \sin\delta + \Re Z_{line}\, i_d - \Im Z_{line}\, i_q, \qquad
        v_q = E_B \cos\delta + \Re Z_{line}\, i_q + \Im Z_{line}\, i_d .

    The torque T(t) is ``T_m`` up to and including the time of the disturbance and ``T_m_after`` from then on.
    The flux linkages start at fixed values, the currents at those which the flux equations give for them.

    Parameters
    ----------
    L_d, L_q, L_F, L_D, L_Q1, L_Q2 : float
        Self-inductances of the stator axes, the field winding and the damper windings; unit pu.
    L_md, L_mq : float
        Mutual inductances of the direct and the quadrature axis; unit pu.
    R_s, R_F, R_D, R_Q1, R_Q2 : float
        Resistances of stator, field and damper windings; unit pu.
    omega_b : float
        Base frequency; unit rad/s.
    H : float
        Inertia constant; unit s.
    K_D : float
        Damping factor; unit s/rad.
    Z_line : complex
        Impedance of the line, in the direction of the generator current; unit pu.
    E_B : float
        Voltage of the infinite bus; unit pu.
    v_F : float
        Voltage of the field winding; unit pu.
    T_m : float
        Mechanical torque before the disturbance; unit pu.
    T_m_after : float
        Mechanical torque after the disturbance; unit pu.
    t_disturbance : float
        Time of the disturbance; unit s.
    **settings
        ``newton_tol`` and ``newton_maxiter`` of :class:`ProblemDAE`.

    References
    ----------
    P. Kundur, N. J. Balu, M. G. Lauby: Power System Stability and Control, McGraw-Hill 1994,
    figure 3.18. P. C. Krause, O. Wasynczuk, S. D. Sudhoff: Analysis of Electric Machinery, IEEE Press 1995,
    page 145.
    """

    title = "synchronous machine at an infinite bus with a step of the torque"
    index = 1
    names = (
        *("psi_d", "psi_q", "psi_F", "psi_D", "psi_Q1", "psi_Q2", "delta", "omega_m"),
        *("i_d", "i_q", "i_F", "i_D", "i_Q1", "i_Q2"),
    )
    units = (*("pu",) * 6, "rad", "pu", *("pu",) * 6)
    equation_names = (
        *(
            "voltage d",
            "voltage q",
            "voltage F",
            "voltage D",
            "voltage Q1",
            "voltage Q2",
            "rotor angle",
            "swing",
        ),
        *("flux d", "flux q", "flux F", "flux D", "flux Q1", "flux Q2"),
    )
    parameter_units = {
        **dict.fromkeys(("L_d", "L_q", "L_F", "L_D", "L_Q1", "L_Q2", "L_md", "L_mq"), "pu"),
        **dict.fromkeys(("R_s", "R_F", "R_D", "R_Q1", "R_Q2"), "pu"),
        **{"omega_b": "rad/s", "H": "s", "K_D": "s/rad", "Z_line": "pu", "E_B": "pu", "v_F": "pu"},
        **{"T_m": "pu", "T_m_after": "pu", "t_disturbance": "s"},
    }
    reference = "Kundur, Balu, Lauby 1994, figure 3.18"
    interval = (0.0, 1.0)
    dt = 0.01
    stored = StoredReference("synchronous-machine")

    def __init__(
        self,
        L_d: float = 1.8099,
        L_q: float = 1.76,
        L_F: float = 1.8247,
        L_D: float = 1.8312,
        L_Q1: float = 2.3352,
        L_Q2: float = 1.735,
        L_md: float = 1.6599,
        L_mq: float = 1.61,
        R_s: float = 0.003,
        R_F: float = 0.0006,
        R_D: float = 0.0284,
        R_Q1: float = 0.0062,
        R_Q2: float = 0.0237,
        omega_b: float = 376.9911184307752,
        H: float = 3.525,
        K_D: float = 0.0,
        Z_line: complex = -0.2688022164909709 - 0.15007173591230372j,
        E_B: float = 0.7,
        v_F: float = 8.736809687330562e-4,
        T_m: float = 0.854,
        T_m_after: float = 0.354,
        t_disturbance: float = 0.05,
        **settings: Any,
    ) -> None:
        super().__init__(8, 6, **settings)
        self._makeAttributeAndRegister(*self.parameter_units, localVars=locals())
        require_positive(self, "L_d", "L_q", "L_F", "L_D", "L_Q1", "L_Q2", "L_md", "L_mq", "omega_b", "H")
        require_finite(self, *self.parameter_units)
        inductance = np.zeros((6, 6))
        inductance[np.ix_((0, 2, 3), (0, 2, 3))] = [[L_d, L_md, L_md], [L_md, L_F, L_md], [L_md, L_md, L_D]]
        inductance[np.ix_((1, 4, 5), (1, 4, 5))] = [[L_q, L_mq, L_mq], [L_mq, L_Q1, L_mq], [L_mq, L_mq, L_Q2]]
        if not np.linalg.cond(inductance) < 1e12:
            raise InputError(
                "the inductances of SynchronousMachineInfiniteBus do not determine the currents: their "
                "matrix is singular; L_d, L_F, L_D must exceed L_md, and L_q, L_Q1, L_Q2 must exceed L_mq"
            )
        self._inductance = inductance
        self._set_constant_slopes()

    def _set_constant_slopes(self) -> None:
        """The parts of the Jacobian that do not depend on the state; ``jacobian`` fills in the others."""
        slope = np.zeros((14, 14))
        w, r, x = self.omega_b, self.Z_line.real - self.R_s, self.Z_line.imag
        slope[0:2, 8:10] = [[w * r, -w * x], [w * x, w * r]]
        for row, resistance in ((2, self.R_F), (3, self.R_D), (4, self.R_Q1), (5, self.R_Q2)):
            slope[row, row + 8] = -w * resistance
        slope[6, 7] = w
        slope[7, 7] = -self.K_D * w / (2.0 * self.H)
        slope[8:, :6] = -np.eye(6)
        slope[8:, 8:] = self._inductance
        self._slope = slope

    def torque(self, t: float) -> float:
        """The mechanical torque T(t), left-continuous."""
        return float(self.T_m_after if is_after(t, self.t_disturbance) else self.T_m)

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> npt.ArrayLike:
        """The residual as printed above, shape (14,)."""
        pd, pq, pf, pk, p1, p2, delta, om, i_d, i_q, i_f, i_k, i_1, i_2 = u.tolist()
        dpd, dpq, dpf, dpk, dp1, dp2, ddelta, dom, *_ = du.tolist()
        w, r, x = self.omega_b, self.Z_line.real - self.R_s, self.Z_line.imag
        try:
            bus_d, bus_q = self.E_B * math.sin(delta), self.E_B * math.cos(delta)
        except ValueError:
            bus_d = bus_q = math.nan
        torque = self.torque(t) - pq * i_d + pd * i_q - self.K_D * w * (om - 1.0)
        l_md, l_mq = self.L_md, self.L_mq
        return np.array(
            [
                w * (bus_d + r * i_d - x * i_q + om * pq) - dpd,
                w * (bus_q + r * i_q + x * i_d - om * pd) - dpq,
                w * (self.v_F - self.R_F * i_f) - dpf,
                -w * self.R_D * i_k - dpk,
                -w * self.R_Q1 * i_1 - dp1,
                -w * self.R_Q2 * i_2 - dp2,
                w * (om - 1.0) - ddelta,
                torque / (2.0 * self.H) - dom,
                self.L_d * i_d + l_md * (i_f + i_k) - pd,
                self.L_q * i_q + l_mq * (i_1 + i_2) - pq,
                self.L_F * i_f + l_md * (i_d + i_k) - pf,
                self.L_D * i_k + l_md * (i_d + i_f) - pk,
                self.L_Q1 * i_1 + l_mq * (i_q + i_2) - p1,
                self.L_Q2 * i_2 + l_mq * (i_q + i_1) - p2,
            ]
        )

    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Vector:
        """The matrix dF/du' + c dF/du, shape (14, 14)."""
        pd, pq, *_, delta, om, i_d, i_q = u.tolist()[:10]
        w, per_h = self.omega_b, 0.5 / self.H
        matrix = self._slope.copy()
        try:
            matrix[0, 6], matrix[1, 6] = w * self.E_B * math.cos(delta), -w * self.E_B * math.sin(delta)
        except ValueError:
            matrix[0, 6] = matrix[1, 6] = math.nan
        matrix[0, 1], matrix[0, 7] = w * om, w * pq
        matrix[1, 0], matrix[1, 7] = -w * om, -w * pd
        matrix[7, 0], matrix[7, 1] = per_h * i_q, -per_h * i_d
        matrix[7, 8], matrix[7, 9] = -per_h * pq, per_h * pd
        matrix *= c
        matrix[range(8), range(8)] -= 1.0
        return matrix

    def _start(self) -> Vector:
        flux = [0.7770802016688648, -0.6337183129426077, 1.152966888216155]
        flux += [0.9129958488040036, -0.5797082294536264, -0.579708229453273]
        currents = np.linalg.solve(self._inductance, flux)
        return np.array([*flux, math.radians(39.1), 1.0, *currents])

    def u_exact(self, t: float) -> MeshDAE:
        """The initial value at t = 0 for any parameters, the stored reference elsewhere."""
        return self.state(self._start() if t == 0.0 else self.stored.value(self, t))

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative at t = 0 for any parameters, that of the stored reference elsewhere."""
        if t != 0.0:
            return self.state(self.stored.derivative(self, t))
        derivative = np.asarray(self.eval_f(self.state(self._start()), self.state(np.zeros(14)), 0.0))
        # The flux equations are linear, so the same matrix maps the rates of the fluxes to those of the
        # currents.
        derivative[8:] = np.linalg.solve(self._inductance, derivative[:6])
        return self.state(derivative)


BRANCHES = (
    (1, 4, 0.0, 0.0576, 0.0),
    (4, 5, 0.017, 0.092, 0.158),
    (5, 6, 0.039, 0.17, 0.358),
    (3, 6, 0.0, 0.0586, 0.0),
    (6, 7, 0.0119, 0.1008, 0.209),
    (7, 8, 0.0085, 0.072, 0.149),
    (8, 2, 0.0, 0.0625, 0.0),
    (8, 9, 0.032, 0.161, 0.306),
    (9, 4, 0.01, 0.085, 0.176),
)
"""Lines and transformers of the 9-bus system: two buses, resistance, reactance, line charging, in pu."""

LOAD = np.array([0, 0, 0, 0, 0.9 + 0.3j, 0, 1.0 + 0.35j, 0, 1.25 + 0.5j])
"""Power drawn at every bus in pu of 100 MVA."""

SYNCHRONOUS_SPEED = 2.0 * math.pi * 60.0
"""In rad/s."""


def admittance(without: tuple[int, int] | None = None) -> Phasors:
    """The bus admittance matrix of the 9-bus system in pu, shape (9, 9), if wanted without one branch."""
    matrix = np.zeros((9, 9), dtype=np.complex128)
    for first, second, resistance, reactance, charging in BRANCHES:
        if without is None or {first, second} != set(without):
            ends = [first - 1, second - 1]
            series = 1.0 / complex(resistance, reactance)
            matrix[np.ix_(ends, ends)] += series * np.array([[1.0, -1.0], [-1.0, 1.0]])
            matrix[ends, ends] += 0.5j * charging
    return matrix


def power_slopes(y: Phasors, magnitude: Vector, angle: Vector) -> tuple[Phasors, Phasors]:
    """Derivatives of the powers v conj(y v) that leave the buses by the angles and magnitudes of v."""
    unit = np.exp(1j * angle)
    v = magnitude * unit
    current = y @ v
    by_angle = 1j * v[:, None] * np.conj(np.diag(current) - y * v)
    by_magnitude = v[:, None] * np.conj(y * unit) + np.diag(np.conj(current) * unit)
    return by_angle, by_magnitude


def power_flow() -> Phasors:
    """Bus voltages of the 9-bus system for its set points, shape (9,).

    Bus 1 has 1 pu at angle 0, buses 2 and 3 have 1 pu and generate 1.63 and 0.85 pu of active power; the
    powers at the other six buses are those of the loads.
    """
    y = admittance()
    magnitude, angle = np.ones(9), np.zeros(9)
    wanted = -LOAD + np.array([0, 1.63, 0.85, 0, 0, 0, 0, 0, 0])
    for _ in range(20):
        v = magnitude * np.exp(1j * angle)
        lack = wanted - v * np.conj(y @ v)
        by_angle, by_magnitude = power_slopes(y, magnitude, angle)
        slope = np.block(
            [
                [by_angle.real[1:, 1:], by_magnitude.real[1:, 3:]],
                [by_angle.imag[3:, 1:], by_magnitude.imag[3:, 3:]],
            ]
        )
        step = np.linalg.solve(slope, np.concatenate([lack.real[1:], lack.imag[3:]]))
        angle[1:] += step[:8]
        magnitude[3:] += step[8:]
        if np.abs(step).max() < 1e-14:
            break
    voltage: Phasors = magnitude * np.exp(1j * angle)
    return voltage


class _Machines:
    """Data of the three generators, their exciters and turbines; every entry has shape (3,)."""

    H = np.array([23.64, 6.4, 3.01])
    Xd = np.array([0.146, 0.8958, 1.3125])
    Xdp = np.array([0.0608, 0.1198, 0.1813])
    Xdpp = np.array([0.0489, 0.0881, 0.1133])
    Xq = np.array([0.0969, 0.8645, 1.2578])
    Xqp = np.array([0.0969, 0.1969, 0.25])
    Xqpp = np.array([0.0396, 0.0887, 0.0833])
    Td0p = np.array([8.960000000000001, 6.0, 5.89])
    Td0pp = np.array([0.115, 0.0337, 0.042])
    Tq0p = np.array([0.31, 0.535, 0.6])
    Tq0pp = np.array([0.033, 0.078, 0.1875])
    Rs = np.array([0.0041, 0.0026, 0.0035])
    Xls = np.array([0.12, 0.102, 0.075])
    Dm = np.array([0.1, 0.2, 0.3]) * 2.0 * H / SYNCHRONOUS_SPEED
    KA, TA, KE, TE, KF, TF, Ax, Bx = (
        np.full(3, x) for x in (20.0, 0.2, 1.0, 0.314, 0.063, 0.35, 0.0039, 1.555)
    )
    TCH, TSV, RD = (np.full(3, x) for x in (0.1, 0.05, 0.05))

    a1 = (Xdpp - Xls) / (Xdp - Xls)
    a2 = (Xdp - Xdpp) / (Xdp - Xls)
    a3 = (Xqpp - Xls) / (Xqp - Xls)
    a4 = (Xqp - Xqpp) / (Xqp - Xls)


_DIFFERENTIAL = ("Eqp", "Si1d", "Edp", "Si2q", "Delta", "w", "Efd", "RF", "VR", "TM", "PSV")
_PLACE = {name: slice(3 * i, 3 * i + 3) for i, name in enumerate((*_DIFFERENTIAL, "Id", "Iq"))}
_PLACE |= {"V": slice(39, 48), "TH": slice(48, 57)}
_D, _Q = slice(33, 36), slice(36, 39)
"""Stator equations of the two axes."""
_POWER = slice(39, 57)
"""Power balances: active at generators, reactive at generators, active at loads, reactive at loads."""
_BALANCE = np.array([*range(0, 6, 2), *range(1, 6, 2), *range(6, 18, 2), *range(7, 18, 2)])
"""Order of the balances in an array that alternates active and reactive power of the nine buses."""


@PROBLEMS.register("wscc9")
class WSCC9BusSystem(ProblemDAE):
    r"""The WSCC 9-bus system with three two-axis machines, exciters and turbines, index 1.

    For each generator i = 1, 2, 3 the residual has eleven differential equations, written here without i,

    .. math::
        T_{d0}' F_1 &= -E_q' - (X_d - X_d') \Big(I_d - \frac{X_d' - X_d''}{(X_d' - X_{ls})^2}
            (\psi_{1d} + (X_d' - X_{ls}) I_d - E_q')\Big) + E_{fd} - T_{d0}' \dot E_q' \\
        T_{d0}'' F_2 &= -\psi_{1d} + E_q' - (X_d' - X_{ls}) I_d - T_{d0}'' \dot\psi_{1d} \\
        T_{q0}' F_3 &= -E_d' + (X_q - X_q') \Big(I_q - \frac{X_q' - X_q''}{(X_q' - X_{ls})^2}
            (\psi_{2q} + (X_q' - X_{ls}) I_q + E_d')\Big) - T_{q0}' \dot E_d' \\
        T_{q0}'' F_4 &= -\psi_{2q} - E_d' - (X_q' - X_{ls}) I_q - T_{q0}'' \dot\psi_{2q} \\
        F_5 &= \omega - \sum_j \omega_j H_j \Big/ \sum_j H_j - \dot\delta \\
        F_6 &= \frac{\omega_s}{2H} \big(T_M - T_e - D_m (\omega - \omega_s)\big) - \dot\omega \\
        T_E F_7 &= -(K_E + A_x e^{B_x E_{fd}}) E_{fd} + V_R - T_E \dot E_{fd} \\
        T_F F_8 &= -R_F + \tfrac{K_F}{T_F} E_{fd} - T_F \dot R_F \\
        T_A F_9 &= -V_R + K_A R_F - \tfrac{K_A K_F}{T_F} E_{fd} + K_A (V_{ref} - V) - T_A \dot V_R \\
        T_{CH} F_{10} &= -T_M + P_{SV} - T_{CH} \dot T_M \\
        T_{SV} F_{11} &= -P_{SV} + P_C
            - \frac{1}{R_D} \Big(\frac{\omega}{\omega_s} - 1\Big) - T_{SV} \dot P_{SV}

    with the electric torque, where :math:`a_1 = 1 - a_2 = (X_d'' - X_{ls})/(X_d' - X_{ls})` and
    :math:`a_3 = 1 - a_4 = (X_q'' - X_{ls})/(X_q' - X_{ls})`,

    .. math::
        T_e = (a_1 E_q' + a_2 \psi_{1d}) I_q + (a_3 E_d' - a_4 \psi_{2q}) I_d + (X_q'' - X_d'') I_d I_q ,

    and the two stator equations

    .. math::
        F_{12} &= R_s I_d - X_q'' I_q - a_3 E_d' + a_4 \psi_{2q} + V \sin(\delta - \theta) \\
        F_{13} &= R_s I_q + X_d'' I_d - a_1 E_q' - a_2 \psi_{1d} + V \cos(\delta - \theta) .

    For each bus i = 1..9 there are the balances of active and reactive power

    .. math::
        F_{14} + i F_{15} = (I_q + i I_d)\, V_i e^{i (\theta_i - \delta_i)} - S_i^{load}
            - V_i e^{i \theta_i} \overline{\sum_j Y_{ij} V_j e^{i \theta_j}} ,

    the first term at the generator buses 1 to 3 only. Valve 1 has a limiter: a step that begins with
    :math:`P_{SV,1} \ge` ``psv_max`` has :math:`F_{11} = -\dot P_{SV,1}` for generator 1. Loads draw constant
    power. Equation j of the first 33 is that of unknown j; the unknowns are grouped by kind, generators 1, 2,
    3 in each.

    The system starts in equilibrium at the solution of its power flow. From ``t_fault`` on, the admittance
    matrix Y is that without the branch ``outage``. Bus numbers are those of MATPOWER's case9: generators at
    1, 2 and 3 behind transformers to 4, 8 and 6, loads at 5, 7 and 9.

    Parameters
    ----------
    data : {"corrected", "pysdc"}
        "pysdc" takes the data of pySDC 5.9 as they are, to solve the same equations: generator powers rounded
        to 1 MW and 1 Mvar, hence an initial value that violates the equations by about 1e-2, and
        after the fault the admittance matrix without branch 8-2 with its rows and columns in the bus order 1,
        2, 3, 4, 9, 5, 8, 7, 6 while loads and machines keep theirs; unit none.
    outage : tuple of int
        The two buses of the branch that is taken out; with data="pysdc" only (8, 2); unit none.
    t_fault : float
        Time of the outage; a step that ends at it still has the branch; unit s.
    psv_max : float
        Largest position of valve 1; unit pu.
    **settings
        ``newton_tol`` and ``newton_maxiter`` of :class:`ProblemDAE`.

    Attributes
    ----------
    limited : bool
        Whether valve 1 is held in the current step.

    References
    ----------
    P. W. Sauer, M. A. Pai: Power System Dynamics and Stability, Prentice Hall 1998, chapters 3 to 7.
    I. Abdulrahman: MATLAB-Based Programs for Power System Dynamics Analysis, IEEE Open Access Journal of
    Power and Energy 7 (2020), 59-69. Network: R. D. Zimmerman, C. E. Murillo-Sanchez, R. J. Thomas:
    MATPOWER, IEEE Transactions on Power Systems 26 (2011), 12-19, case9.
    """

    title = "WSCC 9-bus power system with the outage of a branch"
    index = 1
    names = (
        *(f"{kind}{i}" for kind in (*_DIFFERENTIAL, "Id", "Iq") for i in (1, 2, 3)),
        *(f"{kind}{i}" for kind in ("V", "TH") for i in range(1, 10)),
    )
    units = (
        *(("pu",) * 12 + ("rad",) * 3 + ("rad/s",) * 3 + ("pu",) * 15),
        *(("pu",) * 15 + ("rad",) * 9),
    )
    equation_names = (
        *(f"rate of {kind}{i}" for kind in _DIFFERENTIAL for i in (1, 2, 3)),
        *(f"stator {axis}{i}" for axis in "dq" for i in (1, 2, 3)),
        *(f"{kind} power at bus {i}" for kind in ("active", "reactive") for i in (1, 2, 3)),
        *(f"{kind} power at bus {i}" for kind in ("active", "reactive") for i in range(4, 10)),
    )
    parameter_units = {"data": "none", "outage": "none", "t_fault": "s", "psv_max": "pu"}
    reference = "Sauer, Pai 1998; MATPOWER case9; Abdulrahman 2020"
    interval = (0.0, 1.0)
    dt = 0.01
    stored = StoredReference("wscc9")

    def __init__(
        self,
        data: str = "corrected",
        outage: tuple[int, int] = (8, 2),
        t_fault: float = 0.05,
        psv_max: float = 1.0,
        **settings: Any,
    ) -> None:
        super().__init__(33, 24, **settings)
        outage = tuple(outage)  # type: ignore[assignment]
        self._makeAttributeAndRegister("data", "outage", "t_fault", "psv_max", localVars=locals())
        self._check_parameters()
        self.limited = False
        self._before = admittance()
        self._after = admittance(without=outage)
        if data == "corrected":
            voltage = power_flow()
            injected = voltage * np.conj(self._before @ voltage)
            power = injected[:3]
        else:
            order = np.array([1, 2, 3, 4, 9, 5, 8, 7, 6]) - 1
            self._after = self._after[np.ix_(order, order)]
            voltage = power_flow()
            power = np.array([0.71 + 0.24j, 1.63 + 0.14j, 0.85 - 0.03j])
        self._initial, v_ref, p_c = self._equilibrium(voltage, power)
        self._set_linear_part(v_ref, p_c)

    def _check_parameters(self) -> None:
        if self.data not in ("corrected", "pysdc"):
            raise InputError(f"data of WSCC9BusSystem is 'corrected' or 'pysdc'; got {self.data!r}")
        branches = [branch[:2] for branch in BRANCHES]
        if not any(set(self.outage) == set(branch) for branch in branches):
            listed = ", ".join(f"{first}-{second}" for first, second in branches)
            raise InputError(
                f"outage of WSCC9BusSystem must be one of the branches {listed}; got {self.outage}"
            )
        if self.data == "pysdc" and set(self.outage) != {8, 2}:
            raise InputError(
                f"data='pysdc' has the outage of branch 8-2 only; got outage={self.outage}, "
                f"which needs data='corrected'"
            )
        require_finite(self, "t_fault", "psv_max")

    @staticmethod
    def _equilibrium(voltage: Phasors, power: Phasors) -> tuple[Vector, Vector, Vector]:
        """State at rest for bus voltages and generator powers; set points of exciters and turbines."""
        k, v = _Machines, voltage[:3]
        current = np.conj(power / v)
        delta = np.angle(v + (k.Rs + 1j * k.Xq) * current)
        # The d axis lags the rotor angle by a quarter turn.
        in_axes = current * np.exp(-1j * (delta - np.pi / 2.0))
        i_d, i_q = in_axes.real, in_axes.imag
        edp = (k.Xq - k.Xqp) * i_q
        si2q = (k.Xls - k.Xq) * i_q
        eqp = k.Rs * i_q + k.Xdp * i_d + np.abs(v) * np.cos(delta - np.angle(v))
        si1d = eqp - (k.Xdp - k.Xls) * i_d
        efd = eqp + (k.Xd - k.Xdp) * i_d
        torque = (k.a1 * eqp + k.a2 * si1d) * i_q + (k.a3 * edp - k.a4 * si2q) * i_d
        torque += (k.Xqpp - k.Xdpp) * i_d * i_q
        v_r = (k.KE + k.Ax * np.exp(k.Bx * efd)) * efd
        speed = np.full(3, SYNCHRONOUS_SPEED)
        state = [eqp, si1d, edp, si2q, delta, speed, efd, k.KF / k.TF * efd, v_r, torque, torque, i_d, i_q]
        initial = np.concatenate([*state, np.abs(voltage), np.angle(voltage)])
        return initial, np.abs(v) + v_r / k.KA, torque

    def _set_linear_part(self, v_ref: Vector, p_c: Vector) -> None:
        """Matrix and vector of the linear part of F, with valve 1 free (False) and held (True)."""
        k = _Machines
        matrix, vector = np.zeros((57, 57)), np.zeros(57)

        def put(row: slice, factor: Vector, **terms: Any) -> None:
            for name, value in terms.items():
                column = _PLACE[name]
                block = matrix[row, column.start : column.start + 3]
                block[range(3), range(3)] += factor * value

        one = np.ones(3)
        d, q = k.Xdp - k.Xls, k.Xqp - k.Xls
        kd, kq = (k.Xd - k.Xdp) * (k.Xdp - k.Xdpp) / d**2, (k.Xq - k.Xqp) * (k.Xqp - k.Xqpp) / q**2
        put(_PLACE["Eqp"], one / k.Td0p, Eqp=-1.0 - kd, Si1d=kd, Id=kd * d - (k.Xd - k.Xdp), Efd=1.0)
        put(_PLACE["Si1d"], one / k.Td0pp, Si1d=-1.0, Eqp=1.0, Id=-d)
        put(_PLACE["Edp"], one / k.Tq0p, Edp=-1.0 - kq, Si2q=-kq, Iq=(k.Xq - k.Xqp) - kq * q)
        put(_PLACE["Si2q"], one / k.Tq0pp, Si2q=-1.0, Edp=-1.0, Iq=-q)
        put(_PLACE["Delta"], one, w=1.0)
        matrix[_PLACE["Delta"], _PLACE["w"]] -= k.H / k.H.sum()
        put(_PLACE["w"], SYNCHRONOUS_SPEED / (2.0 * k.H), TM=1.0, w=-k.Dm)
        put(_PLACE["Efd"], one / k.TE, Efd=-k.KE, VR=1.0)
        put(_PLACE["RF"], one / k.TF, RF=-1.0, Efd=k.KF / k.TF)
        put(_PLACE["VR"], one / k.TA, VR=-1.0, RF=k.KA, Efd=-k.KA * k.KF / k.TF, V=-k.KA)
        put(_PLACE["TM"], one / k.TCH, TM=-1.0, PSV=1.0)
        put(_PLACE["PSV"], one / k.TSV, PSV=-1.0, w=-1.0 / (k.RD * SYNCHRONOUS_SPEED))
        put(_D, one, Id=k.Rs, Iq=-k.Xqpp, Edp=-k.a3, Si2q=k.a4)
        put(_Q, one, Iq=k.Rs, Id=k.Xdpp, Eqp=-k.a1, Si1d=-k.a2)
        vector[_PLACE["w"]] = SYNCHRONOUS_SPEED**2 / (2.0 * k.H) * k.Dm
        vector[_PLACE["VR"]] = k.KA / k.TA * v_ref
        vector[_PLACE["PSV"]] = (p_c + 1.0 / k.RD) / k.TSV
        vector[_POWER] = -LOAD.view(np.float64)[_BALANCE]
        held, held_vector = matrix.copy(), vector.copy()
        held[_PLACE["PSV"].start], held_vector[_PLACE["PSV"].start] = 0.0, 0.0
        self._linear = {False: (matrix, vector), True: (held, held_vector)}
        self._per_inertia = SYNCHRONOUS_SPEED / (2.0 * k.H)
        self._saturation = k.Ax / k.TE

    def network(self, t: float) -> Phasors:
        """The admittance matrix at time ``t``, left-continuous."""
        return self._after if is_after(t, self.t_fault) else self._before

    def event(self, u: MeshDAE, t: float) -> float:
        """The position of valve 1 above its limit; the valve is held from its zero on."""
        return float(u[_PLACE["PSV"].start]) - float(self.psv_max)

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Choose whether valve 1 is held in the step; a state at the limit, to 1e-10, is."""
        self.limited = self.event(u, t) >= -1e-10

    @np.errstate(over="ignore", invalid="ignore")
    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> npt.ArrayLike:
        """The residual as printed above, shape (57,), on the branch of the current step."""
        x = u.view(np.ndarray)
        matrix, vector = self._linear[self.limited]
        f: Vector = matrix @ x
        f += vector
        f[:33] -= du.view(np.ndarray)[:33]
        v = x[39:48] * np.exp(1j * x[48:57])
        current = x[36:39] + 1j * x[33:36]
        terminal = v[:3] * np.exp(-1j * x[12:15])
        # With the linear parts s of the two stator equations, the torque is R_s |I|^2 - I_q s_q - I_d s_d.
        axes = f[36:39] + 1j * f[33:36]
        f[15:18] += self._per_inertia * (np.conj(current) * (axes - _Machines.Rs * current)).real
        f[18:21] -= self._saturation * np.exp(_Machines.Bx * x[18:21]) * x[18:21]
        f[33:36] -= terminal.imag
        f[36:39] += terminal.real
        power = v * np.conj(self.network(t) @ v)
        power[:3] -= current * terminal
        f[39:] -= power.view(np.float64)[_BALANCE]
        return f

    @np.errstate(over="ignore", invalid="ignore")
    def residual_nodes(self, u: Vector, du: Vector, t: Vector) -> Vector:
        """The residual at M nodes, shape (M, 57), on the branch of the current step."""
        matrix, vector = self._linear[self.limited]
        f = u @ matrix.T
        f += vector
        f[:, :33] -= du[:, :33]
        v = u[:, 39:48] * np.exp(1j * u[:, 48:57])
        current = u[:, 36:39] + 1j * u[:, 33:36]
        terminal = v[:, :3] * np.exp(-1j * u[:, 12:15])
        axes = f[:, 36:39] + 1j * f[:, 33:36]
        f[:, 15:18] += self._per_inertia * (np.conj(current) * (axes - _Machines.Rs * current)).real
        f[:, 18:21] -= self._saturation * np.exp(_Machines.Bx * u[:, 18:21]) * u[:, 18:21]
        f[:, 33:36] -= terminal.imag
        f[:, 36:39] += terminal.real
        faulted = is_after(t, self.t_fault)
        from_network = np.where(faulted[:, None], v @ self._after.T, v @ self._before.T)
        power = v * np.conj(from_network)
        power[:, :3] -= current * terminal
        f[:, 39:] -= power.view(np.float64)[:, _BALANCE]
        return f

    @np.errstate(over="ignore", invalid="ignore")
    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Vector:
        """The matrix dF/du' + c dF/du, shape (57, 57)."""
        x = u.view(np.ndarray)
        linear = self._linear[self.limited][0]
        slope = linear.copy()
        i_d, i_q = x[33:36], x[36:39]
        # Torque: its derivatives by the linear parts of the stator equations, and by the currents directly.
        slope[15:18] += (self._per_inertia * i_q)[:, None] * linear[36:39]
        slope[15:18] += (self._per_inertia * i_d)[:, None] * linear[33:36]
        axes = linear[33:39] @ x
        g = np.arange(3)
        slope[15 + g, 33 + g] += self._per_inertia * (axes[:3] - 2.0 * _Machines.Rs * i_d)
        slope[15 + g, 36 + g] += self._per_inertia * (axes[3:] - 2.0 * _Machines.Rs * i_q)
        growth = np.exp(_Machines.Bx * x[18:21])
        slope[18 + g, 18 + g] -= self._saturation * growth * (1.0 + _Machines.Bx * x[18:21])
        unit = np.exp(1j * (x[48:51] - x[12:15]))
        terminal = x[39:42] * unit
        for row, part in ((33, -unit), (36, 1j * unit)):
            # F_12 holds -Im(terminal) and F_13 Re(terminal) = Im(i terminal).
            slope[row + g, 39 + g] += part.imag
            turned = 1j * part * x[39:42]
            slope[row + g, 48 + g] += turned.imag
            slope[row + g, 12 + g] -= turned.imag
        by_state = np.zeros((9, 57), dtype=np.complex128)
        by_angle, by_magnitude = power_slopes(self.network(t), x[39:48], x[48:57])
        by_state[:, 39:48], by_state[:, 48:57] = -by_magnitude, -by_angle
        current = i_q + 1j * i_d
        by_state[g, 33 + g] += 1j * terminal
        by_state[g, 36 + g] += terminal
        by_state[g, 39 + g] += current * unit
        by_state[g, 48 + g] += 1j * current * terminal
        by_state[g, 12 + g] -= 1j * current * terminal
        slope[39:42], slope[42:45] = by_state[:3].real, by_state[:3].imag
        slope[45:51], slope[51:57] = by_state[3:].real, by_state[3:].imag
        slope *= c
        slope[range(33), range(33)] -= 1.0
        return slope

    def u_exact(self, t: float) -> MeshDAE:
        """The initial value at t = 0 for any parameters, the stored reference elsewhere."""
        return self.state(self._initial if t == 0.0 else self.stored.value(self, t))

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative, zero at t = 0 for any parameters, that of the stored reference elsewhere.

        Raises
        ------
        InputError
            With data="pysdc", where the initial value satisfies no equation exactly.
        """
        if t == 0.0 and self.data == "pysdc":
            raise InputError(
                "WSCC9BusSystem with data='pysdc' starts inconsistently and has no derivative at t=0; "
                "make the initial value consistent first, or use data='corrected'"
            )
        return self.state(np.zeros(57) if t == 0.0 else self.stored.derivative(self, t))
