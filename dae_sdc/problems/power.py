"""Electric power systems: one synchronous machine at an infinite bus, and the WSCC 9-bus system."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.dae.values import unguarded
from dae_sdc.errors import InputError
from dae_sdc.problems._library import Parameter, ReferencedProblem, finite, positive

Phasors = npt.NDArray[np.complex128]

EVENT_SLACK = 1e-12
"""Times up to this many seconds after a disturbance count as before it; relative to its time after 1 s.

Rounding errors of the end of a step stay below this for 10000 equal steps; solutions change by 6e-12 at most.
"""


def slack(event: float) -> float:
    """Seconds after the disturbance at time ``event`` up to which times count as before it."""
    return EVENT_SLACK * max(1.0, abs(event))


def machine_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    l_d, l_q, l_f, l_k, l_1, l_2, l_md, l_mq = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
    r_f, r_k, r_1, r_2 = p[9], p[10], p[11], p[12]
    w, inertia, damping, e_b, v_f = p[13], p[14], p[15], p[16], p[17]
    r, x = p[22] - p[8], p[23]
    pd, pq, pf, pk, p1, p2, delta, om = u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7]
    i_d, i_q, i_f, i_k, i_1, i_2 = u[8], u[9], u[10], u[11], u[12], u[13]
    torque = p[19] if t - p[20] > p[21] else p[18]
    torque += pd * i_q - pq * i_d - damping * w * (om - 1.0)
    out[0] = w * (e_b * math.sin(delta) + r * i_d - x * i_q + om * pq) - du[0]
    out[1] = w * (e_b * math.cos(delta) + r * i_q + x * i_d - om * pd) - du[1]
    out[2] = w * (v_f - r_f * i_f) - du[2]
    out[3] = -w * r_k * i_k - du[3]
    out[4] = -w * r_1 * i_1 - du[4]
    out[5] = -w * r_2 * i_2 - du[5]
    out[6] = w * (om - 1.0) - du[6]
    out[7] = torque / (2.0 * inertia) - du[7]
    out[8] = l_d * i_d + l_md * (i_f + i_k) - pd
    out[9] = l_q * i_q + l_mq * (i_1 + i_2) - pq
    out[10] = l_f * i_f + l_md * (i_d + i_k) - pf
    out[11] = l_k * i_k + l_md * (i_d + i_f) - pk
    out[12] = l_1 * i_1 + l_mq * (i_q + i_2) - p1
    out[13] = l_2 * i_2 + l_mq * (i_q + i_1) - p2


_LINE = -0.2688022164909709 - 0.15007173591230372j


@PROBLEMS.register("synchronous-machine")
class SynchronousMachineInfiniteBus(ReferencedProblem):
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

    where the terminal voltage is that of the bus plus the voltage over the line,
    :math:`v_q - i v_d = E_B e^{-i\delta} + Z_{line} (i_q - i\, i_d)`, that is

    .. math::
        v_d = E_B \sin\delta + \Re Z_{line}\, i_d - \Im Z_{line}\, i_q, \qquad
        v_q = E_B \cos\delta + \Re Z_{line}\, i_q + \Im Z_{line}\, i_d .

    The torque T(t) is ``T_m`` up to and including the time of the disturbance and ``T_m_after`` later. The
    flux linkages start at fixed values, and the currents follow from the flux equations.
    """

    title = "synchronous machine at an infinite bus with a step of the torque"
    index = 1
    names = (
        *("psi_d", "psi_q", "psi_F", "psi_D", "psi_Q1", "psi_Q2", "delta", "omega_m"),
        *("i_d", "i_q", "i_F", "i_D", "i_Q1", "i_Q2"),
    )
    units = (*("pu",) * 6, "rad", "pu", *("pu",) * 6)
    equation_names = (
        *(f"voltage {axis}" for axis in ("d", "q", "F", "D", "Q1", "Q2")),
        *("rotor angle", "swing"),
        *(f"flux {axis}" for axis in ("d", "q", "F", "D", "Q1", "Q2")),
    )
    size = (8, 6)
    parameters = {
        **positive("pu", "Self-inductances of the stator axes", L_d=1.8099, L_q=1.76),
        **positive("pu", "Self-inductance of the field winding", L_F=1.8247),
        **positive("pu", "Self-inductances of the damper windings", L_D=1.8312, L_Q1=2.3352, L_Q2=1.735),
        **positive("pu", "Mutual inductances of the direct and the quadrature axis", L_md=1.6599, L_mq=1.61),
        **finite("pu", "Resistances of stator and field winding", R_s=0.003, R_F=0.0006),
        **finite("pu", "Resistances of the damper windings", R_D=0.0284, R_Q1=0.0062, R_Q2=0.0237),
        **positive("rad/s", "Base frequency", omega_b=376.9911184307752),
        **positive("s", "Inertia constant", H=3.525),
        **finite("s/rad", "Damping factor", K_D=0.0),
        **finite("pu", "Impedance of the line, in the direction of the generator current", Z_line=_LINE),
        **finite("pu", "Voltage of the infinite bus", E_B=0.7),
        **finite("pu", "Voltage of the field winding", v_F=8.736809687330562e-4),
        **finite("pu", "Mechanical torque before the disturbance", T_m=0.854),
        **finite("pu", "Mechanical torque after the disturbance", T_m_after=0.354),
        **finite("s", "Time of the disturbance", t_disturbance=0.05),
    }
    reference = (
        "P. Kundur, N. J. Balu, M. G. Lauby: Power System Stability and Control, McGraw-Hill 1994, figure "
        "3.18. P. C. Krause, O. Wasynczuk, S. D. Sudhoff: Analysis of Electric Machinery, IEEE Press 1995, "
        "page 145"
    )
    interval = (0.0, 1.0)
    dt = 0.01
    residual_kernel = machine_residual
    stored = "synchronous-machine"

    def _check_parameters(self) -> None:
        inductance = np.zeros((6, 6))
        for axis, windings, mutual in (
            ("dFD", (0, 2, 3), self.L_md),
            (("q", "Q1", "Q2"), (1, 4, 5), self.L_mq),
        ):
            inductance[np.ix_(windings, windings)] = mutual
            inductance[windings, windings] = [getattr(self, f"L_{winding}") for winding in axis]
        if not np.linalg.cond(inductance) < 1e12:
            raise InputError(
                "the inductances of SynchronousMachineInfiniteBus do not determine the currents: their "
                "matrix is singular; L_d, L_F, L_D must exceed L_md, and L_q, L_Q1, L_Q2 must exceed L_mq"
            )
        self._inductance = inductance

    def kernel_parameters(self) -> npt.ArrayLike:
        """The parameters in their order without Z_line; then the slack, and Z_line as two real numbers."""
        values = [getattr(self, name) for name in self.parameter_units if name != "Z_line"]
        return [*values, slack(self.t_disturbance), self.Z_line.real, self.Z_line.imag]

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """The time of the disturbance, if it lies strictly between ``t0`` and ``t_end``."""
        return (self.t_disturbance,) if t0 < self.t_disturbance < t_end else ()

    def _start(self) -> Vector:
        flux = [0.7770802016688648, -0.6337183129426077, 1.152966888216155]
        flux += [0.9129958488040036, -0.5797082294536264, -0.579708229453273]
        currents = np.linalg.solve(self._inductance, flux)
        return np.array([*flux, math.radians(39.1), 1.0, *currents])

    def _initial_derivative(self) -> Vector:
        derivative = np.asarray(self.eval_f(self.state(self._start()), self.state(np.zeros(14)), 0.0))
        # The flux equations are linear, so fluxes and their rates have the same matrix.
        derivative[8:] = np.linalg.solve(self._inductance, derivative[:6])
        return derivative


# Lines and transformers of the 9-bus system: two buses; resistance, reactance and line charging in pu.
BRANCHES = (
    *((1, 4, 0.0, 0.0576, 0.0), (4, 5, 0.017, 0.092, 0.158), (5, 6, 0.039, 0.17, 0.358)),
    *((3, 6, 0.0, 0.0586, 0.0), (6, 7, 0.0119, 0.1008, 0.209), (7, 8, 0.0085, 0.072, 0.149)),
    *((8, 2, 0.0, 0.0625, 0.0), (8, 9, 0.032, 0.161, 0.306), (9, 4, 0.01, 0.085, 0.176)),
)
# Power drawn at every bus in pu of 100 MVA.
LOAD = np.array([0, 0, 0, 0, 0.9 + 0.3j, 0, 1.0 + 0.35j, 0, 1.25 + 0.5j])
SYNCHRONOUS_SPEED = 2.0 * math.pi * 60.0  # Synchronous angular frequency of a grid of 60 Hz in rad/s.


def admittance(without: tuple[int, ...] | None = None) -> Phasors:
    """The bus admittance matrix of the 9-bus system in pu, (9, 9), without the branch between two buses."""
    matrix = np.zeros((9, 9), dtype=np.complex128)
    for first, second, resistance, reactance, charging in BRANCHES:
        if without is None or {first, second} != set(without):
            ends = [first - 1, second - 1]
            series = 1.0 / complex(resistance, reactance)
            matrix[np.ix_(ends, ends)] += series * np.array([[1.0, -1.0], [-1.0, 1.0]])
            matrix[ends, ends] += 0.5j * charging
    return matrix


def power_flow() -> Phasors:
    """Bus voltages of the 9-bus system for its set points, shape (9,)."""
    # Bus 1 has 1 pu at angle 0, buses 2 and 3 have 1 pu and generate 1.63 and 0.85 pu of active power; the
    # powers at the other six buses are those of the loads.
    y = admittance()
    magnitude, angle = np.ones(9), np.zeros(9)
    wanted = -LOAD + np.array([0, 1.63, 0.85, 0, 0, 0, 0, 0, 0])
    for _ in range(20):
        unit = np.exp(1j * angle)
        v = magnitude * unit
        current = y @ v
        lack = wanted - v * np.conj(current)
        by_angle = 1j * v[:, None] * np.conj(np.diag(current) - y * v)
        by_magnitude = v[:, None] * np.conj(y * unit) + np.diag(np.conj(current) * unit)
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


# Data of the three generators, their exciters and turbines.
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
KA, TA, KE, TE, KF, TF, Ax, Bx = (np.full(3, x) for x in (20.0, 0.2, 1.0, 0.314, 0.063, 0.35, 0.0039, 1.555))
TCH, TSV, RD = (np.full(3, x) for x in (0.1, 0.05, 0.05))

_TOTAL_INERTIA = float(H.sum())

A1 = (Xdpp - Xls) / (Xdp - Xls)
A2 = (Xdp - Xdpp) / (Xdp - Xls)
A3 = (Xqpp - Xls) / (Xqp - Xls)
A4 = (Xqp - Xqpp) / (Xqp - Xls)

_DIFFERENTIAL = ("Eqp", "Si1d", "Edp", "Si2q", "Delta", "w", "Efd", "RF", "VR", "TM", "PSV")

# Places in the kernel parameters of the set points V_ref and P_C of the generators, and of the entries of the
# admittance matrices before and after the outage: row, column, conductance, susceptance.
_SET_POINTS, _ENTRIES = 5, 11


def wscc9_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`WSCC9BusSystem` on the branch of the step; unknown k of machine m is u[3 k + m]."""
    # The first 36 entries of out serve as workspace: real and imaginary parts of the bus voltages, then of
    # the currents.
    for i in range(9):
        out[i] = u[39 + i] * math.cos(u[48 + i])
        out[9 + i] = u[39 + i] * math.sin(u[48 + i])
        out[18 + i] = out[27 + i] = 0.0
    entries, at = int(p[3]), _ENTRIES
    if t - p[0] > p[1]:
        entries, at = int(p[4]), _ENTRIES + 4 * entries
    for _ in range(entries):
        i, j, g, b = int(p[at]), int(p[at + 1]), p[at + 2], p[at + 3]
        out[18 + i] += g * out[j] - b * out[9 + j]
        out[27 + i] += b * out[j] + g * out[9 + j]
        at += 4
    for i in range(9):
        row = 39 + i if i < 3 else 42 + i
        out[row] = -LOAD.real[i] - (out[i] * out[18 + i] + out[9 + i] * out[27 + i])
        row += 3 if i < 3 else 6
        out[row] = -LOAD.imag[i] - (out[9 + i] * out[18 + i] - out[i] * out[27 + i])
    for m in range(3):
        xd, xdp, xdpp, xq, xqp, xqpp, rs = Xd[m], Xdp[m], Xdpp[m], Xq[m], Xqp[m], Xqpp[m], Rs[m]
        eqp, si1d, edp, si2q, delta, w = u[m], u[3 + m], u[6 + m], u[9 + m], u[12 + m], u[15 + m]
        efd, rf, vr, tm, psv = u[18 + m], u[21 + m], u[24 + m], u[27 + m], u[30 + m]
        i_d, i_q, v = u[33 + m], u[36 + m], u[39 + m]
        d, q = xdp - Xls[m], xqp - Xls[m]
        lag = si1d + d * i_d - eqp
        out[m] = (-eqp - (xd - xdp) * (i_d - (xdp - xdpp) / (d * d) * lag) + efd) / Td0p[m] - du[m]
        out[3 + m] = -lag / Td0pp[m] - du[3 + m]
        lag = si2q + q * i_q + edp
        out[6 + m] = (-edp + (xq - xqp) * (i_q - (xqp - xqpp) / (q * q) * lag)) / Tq0p[m] - du[6 + m]
        out[9 + m] = -lag / Tq0pp[m] - du[9 + m]
        # The deviation from the mean speed as a mean of differences, without cancellation.
        apart = 0.0
        for j in range(3):
            apart += H[j] * (w - u[15 + j])
        out[12 + m] = apart / _TOTAL_INERTIA - du[12 + m]
        in_d, in_q = A1[m] * eqp + A2[m] * si1d, A3[m] * edp - A4[m] * si2q
        torque = in_d * i_q + in_q * i_d + (xqpp - xdpp) * i_d * i_q
        surplus = tm - torque - Dm[m] * (w - SYNCHRONOUS_SPEED)
        out[15 + m] = SYNCHRONOUS_SPEED / (2.0 * H[m]) * surplus - du[15 + m]
        demand = (KE[m] + Ax[m] * math.exp(Bx[m] * efd)) * efd
        out[18 + m] = (vr - demand) / TE[m] - du[18 + m]
        feedback = KF[m] / TF[m] * efd
        out[21 + m] = (feedback - rf) / TF[m] - du[21 + m]
        out[24 + m] = (KA[m] * (rf - feedback + (p[_SET_POINTS + m] - v)) - vr) / TA[m] - du[24 + m]
        out[27 + m] = (psv - tm) / TCH[m] - du[27 + m]
        opening = p[_SET_POINTS + 3 + m] - psv - (w / SYNCHRONOUS_SPEED - 1.0) / RD[m]
        out[30 + m] = opening / TSV[m] - du[30 + m]
        s, c = math.sin(delta - u[48 + m]), math.cos(delta - u[48 + m])
        out[33 + m] = rs * i_d - xqpp * i_q - in_q + v * s
        out[36 + m] = rs * i_q + xdpp * i_d - in_d + v * c
        out[39 + m] += v * (i_q * c + i_d * s)
        out[42 + m] += v * (i_d * c - i_q * s)
    if p[2] != 0.0:
        out[30] = -du[30]


_DATA = """Which data; "pysdc" reproduces the equations of pySDC 5.9: generator
powers rounded to 1 MW and 1 Mvar, hence an initial value that violates the equations by about 1e-2, and after
the fault the admittance matrix without branch 8-2 with its rows and columns in the bus order 1, 2, 3, 4, 9,
5, 8, 7, 6 while loads and machines keep theirs"""
_OUTAGE = 'The two buses of the branch that is taken out; with data="pysdc" only (8, 2)'


@PROBLEMS.register("wscc9")
class WSCC9BusSystem(ReferencedProblem):
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

    with the first term at the generator buses 1 to 3 only. Valve 1 has a limiter: a step that begins with
    :math:`P_{SV,1} \ge` ``psv_max`` has :math:`F_{11} = -\dot P_{SV,1}` for generator 1. Loads draw constant
    power. Equation j of the first 33 is that of unknown j; the unknowns are grouped by kind, generators 1, 2,
    3 in each.

    The system starts in equilibrium at the solution of its power flow. From ``t_fault`` on, the admittance
    matrix Y is that without the branch ``outage``. Without 8-2, the transformer of generator 2, that machine
    loses synchronism at once, and its angle grows by 30 rad/s; the other two cannot feed loads of constant
    power for long. Voltages fall until, at t = 4.411 s, the equations of the network have no solution any
    more: dF/dz of the algebraic unknowns z is singular there, and every run ends. Without 5-6, which leaves
    all machines connected, the system settles. Bus numbers are those of MATPOWER's case9: generators at
    1, 2 and 3 behind transformers to 4, 8 and 6, loads at 5, 7 and 9.

    Attributes
    ----------
    limited, faulted : bool
        Whether valve 1 is held in the current step, and whether the whole step is after the outage.
    networks : tuple of ndarray
        Admittance matrices before and after the outage in pu, shape (9, 9).
    """

    title = "WSCC 9-bus power system with the outage of a branch"
    index = 1
    names = (
        *(f"{kind}{i}" for kind in (*_DIFFERENTIAL, "Id", "Iq") for i in (1, 2, 3)),
        *(f"{kind}{i}" for kind in ("V", "TH") for i in range(1, 10)),
    )
    units = (*(("pu",) * 12 + ("rad",) * 3 + ("rad/s",) * 3 + ("pu",) * 15), *(("pu",) * 15 + ("rad",) * 9))
    equation_names = (
        *(f"rate of {kind}{i}" for kind in _DIFFERENTIAL for i in (1, 2, 3)),
        *(f"stator {axis}{i}" for axis in "dq" for i in (1, 2, 3)),
        *(f"{kind} power at bus {i}" for kind in ("active", "reactive") for i in (1, 2, 3)),
        *(f"{kind} power at bus {i}" for kind in ("active", "reactive") for i in range(4, 10)),
    )
    size = (33, 24)
    parameters = {
        "data": Parameter("corrected", "none", _DATA, None, '{"corrected", "pysdc"}'),
        "outage": Parameter((8, 2), "none", _OUTAGE, None, "tuple of int"),
        **finite("s", "Time of the outage; a step that ends at it still has the branch", t_fault=0.05),
        **finite("pu", "Largest position of valve 1", psv_max=1.0),
    }
    reference = (
        "P. W. Sauer, M. A. Pai: Power System Dynamics and Stability, Prentice Hall 1998, chapters 3 to 7. "
        "I. Abdulrahman: MATLAB-Based Programs for Power System Dynamics Analysis, IEEE Open Access Journal "
        "of Power and Energy 7 (2020), 59-69. Network: R. D. Zimmerman, C. E. Murillo-Sanchez, R. J. Thomas: "
        "MATPOWER, IEEE Transactions on Power Systems 26 (2011), 12-19, case9"
    )
    interval = (0.0, 1.0)
    dt = 0.01
    chooses_by_sides = True
    switch_names = ("limit of valve 1",)
    residual_kernel = wscc9_residual
    stored = "wscc9"

    outage: tuple[int, ...]

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        self.limited = self.faulted = False
        before, after = admittance(), admittance(without=self.outage)
        if self.data == "corrected":
            voltage = power_flow()
            injected = voltage * np.conj(before @ voltage)
            power = injected[:3]
        else:
            order = np.array([1, 2, 3, 4, 9, 5, 8, 7, 6]) - 1
            after = after[np.ix_(order, order)]
            voltage = power_flow()
            power = np.array([0.71 + 0.24j, 1.63 + 0.14j, 0.85 - 0.03j])
        self.networks = before, after
        self._initial, *self._set_points = self._equilibrium(voltage, power)

    def _check_parameters(self) -> None:
        self.outage = tuple(self.outage)
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

    @staticmethod
    def _equilibrium(voltage: Phasors, power: Phasors) -> tuple[Vector, Vector, Vector]:
        """The equilibrium for given bus voltages and generator powers, and the set points V_ref and P_C."""
        v = voltage[:3]
        current = np.conj(power / v)
        delta = np.angle(v + (Rs + 1j * Xq) * current)
        # The d axis lags the rotor angle by a quarter turn.
        in_axes = current * np.exp(-1j * (delta - np.pi / 2.0))
        i_d, i_q = in_axes.real, in_axes.imag
        edp = (Xq - Xqp) * i_q
        si2q = (Xls - Xq) * i_q
        eqp = Rs * i_q + Xdp * i_d + np.abs(v) * np.cos(delta - np.angle(v))
        si1d = eqp - (Xdp - Xls) * i_d
        efd = eqp + (Xd - Xdp) * i_d
        torque = (A1 * eqp + A2 * si1d) * i_q + (A3 * edp - A4 * si2q) * i_d
        torque += (Xqpp - Xdpp) * i_d * i_q
        v_r = (KE + Ax * np.exp(Bx * efd)) * efd
        speed = np.full(3, SYNCHRONOUS_SPEED)
        state = [eqp, si1d, edp, si2q, delta, speed, efd, KF / TF * efd, v_r, torque, torque, i_d, i_q]
        initial = np.concatenate([*state, np.abs(voltage), np.angle(voltage)])
        return initial, np.abs(v) + v_r / KA, torque

    def kernel_parameters(self) -> npt.ArrayLike:
        """Time of the outage and state of valve 1, set points, and the networks."""
        # The compiled equations use these indices without a check.
        networks = [sparse.coo_array(np.reshape(network, (9, 9))) for network in self.networks]
        entries = [np.column_stack([*of.coords, of.data.real, of.data.imag]).ravel() for of in networks]
        t_fault = -np.inf if self.faulted else self.t_fault
        head = [t_fault, slack(self.t_fault), self.limited, *(network.nnz for network in networks)]
        return np.concatenate([head, *self._set_points, *entries])

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """The time of the outage, if it lies strictly between ``t0`` and ``t_end``."""
        return (self.t_fault,) if t0 < self.t_fault < t_end else ()

    def event(self, u: MeshDAE, t: float) -> float:
        """Position of valve 1 less its limit; the valve is held from the zero of this function on."""
        return float(u[30]) - float(self.psv_max)

    @unguarded
    def switches(self, u: MeshDAE, t: float) -> tuple[float, ...]:
        """The value of :meth:`event`, as the only switch."""
        return (self.event(u, t),)

    def switches_at(self, u: Vector, t: Vector) -> Vector:
        """The values of :meth:`switches` at K states, shape (K, 1)."""
        return u[:, 30:31] - float(self.psv_max)

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Choose whether valve 1 is held in the step: from 1e-10 below its limit on."""
        # A step that begins at the outage is after it, and its initial state is consistent with that.
        faulted = self.located and t >= self.t_fault - slack(self.t_fault)
        self._choose(limited=self.sides(u, t)[0] > 0, faulted=faulted)

    def _start(self) -> Vector:
        return self._initial

    def _initial_derivative(self) -> Vector:
        """Zero; the initial value with data="pysdc" is inconsistent and has none."""
        if self.data == "pysdc":
            raise InputError(
                "WSCC9BusSystem with data='pysdc' starts inconsistently and has no derivative at t=0; "
                "make the initial value consistent first, or use data='corrected'"
            )
        return np.zeros(57)
