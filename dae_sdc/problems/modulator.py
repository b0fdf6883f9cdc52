"""The ring modulator, which mixes a low with a high frequency in four diodes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.kernels import COMPLEX_STEP
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError, ReferenceRangeError
from dae_sdc.problems._models import Expressions, Symbols, equations_of
from dae_sdc.problems._parameters import finite, positive, require_defaults
from dae_sdc.problems._testset import ReferenceEnd, TestSetProblem, load_record

if TYPE_CHECKING:
    from dae_sdc.model.model import Model

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


_WITHOUT_CAPACITANCES = "ring-modulator-index-2"
"""Record of the solution for C_s = 0."""

_VOLTAGES = tuple(f"U_{k}" for k in range(1, 8))
_CURRENTS = tuple(f"I_{k}" for k in range(1, 9))


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

    References
    ----------
    E. H. Horneber: Analyse nichtlinearer RLCU-Netzwerke mit Hilfe der gemischten Potentialfunktion,
    dissertation, Kaiserslautern 1976. G. Denk, P. Rentrop: Mathematical models in electric circuit simulation
    and their numerical treatment, Teubner-Texte zur Mathematik 121 (1991) 305. F. Mazzia, C. Magherini: Test
    Set for IVP Solvers, release 2.4, 2008, ring modulator.
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
    reference = "Test Set for IVP Solvers 2.4, ring modulator"
    interval = (0.0, 1e-3)
    dt = 2e-8
    record = "ring-modulator"
    residual_kernel = modulator_residual
    jacobian_kernel = COMPLEX_STEP

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
        return (11, 4) if algebraic else (15, 0)

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        if self.cs == 0.0:
            self.variable_index = (1,) * 11 + (2,) * 4
            stored = load_record(self.record).nominal
            self.nominal = stored[[(*_VOLTAGES, *_CURRENTS).index(name) for name in self.names]]

    def kernel_parameters(self) -> npt.ArrayLike:
        """The parameters in their order, and the places of U_3, U_7 and I_1 in the state."""
        own = np.asarray(super().kernel_parameters())
        return [*own, *(self.names.index(name) for name in ("U_3", "U_7", "I_1"))]

    @property
    def reference_end(self) -> ReferenceEnd:
        """The reference solution at the end of the interval, stored for cs = 2e-12 and cs = 0."""
        if self.cs != 0.0:
            self._require_defaults()
            return super().reference_end
        self._require_other_defaults()
        return load_record(_WITHOUT_CAPACITANCES).end

    def u_exact(self, t: float) -> MeshDAE:
        """The state of rest at t = 0 for all parameters, the stored value at the end of the interval."""
        start, end = self.interval
        if t == start:
            return self.state(np.zeros(15))
        if self.cs == 0.0 and abs(t - end) <= 1e-9 * (end - start):
            self._require_other_defaults()
            return self.state(load_record(_WITHOUT_CAPACITANCES).end.u)
        return super().u_exact(t)

    def _require_other_defaults(self) -> None:
        require_defaults(self, ("cs",))

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative at t = 0, where only the carrier changes; raises like :meth:`u_exact` elsewhere."""
        if t != self.interval[0]:
            raise ReferenceRangeError(f"the derivative of RingModulator is known at t=0 only; got t={t:g}")
        slope = np.zeros(15)
        if self.cs == 0.0:
            # From the differentiated constraints; at rest all diodes have the same conductance.
            slope[11:] = np.array([1.0, -1.0, -1.0, 1.0]) * _HIGH
        return self.state(slope)


@equations_of("ring-modulator", RingModulator)
def modulator_equations(model: Model, unknowns: Symbols, p: Symbols) -> Expressions:
    """Balances of currents for the voltages, and balances of voltages for the currents."""
    from sympy import exp, pi, sin

    cs, C, C_p, L_h, L_s1, L_s, R, R_p, R_i, R_c, R_g1, R_g, gamma, delta = p
    symbols = {str(symbol): symbol for symbol in unknowns}
    u = (None, *(symbols[name] for name in _VOLTAGES))
    i = (None, *(symbols[name] for name in _CURRENTS))
    der = model.der
    signal, carrier = sin(2000 * pi * model.t) / 2, 2 * sin(20000 * pi * model.t)
    voltages = (
        u[3] - u[5] - u[7] - carrier,
        -u[4] + u[6] - u[7] - carrier,
        u[4] + u[5] + u[7] + carrier,
        -u[3] - u[6] + u[7] + carrier,
    )
    q1, q2, q3, q4 = (gamma * (exp(delta * voltage) - 1) for voltage in voltages)
    # For cs = 0 these terms are left out, since a derivative times zero still counts as a derivative.
    held = model.parameters_by_name["cs"].value == 0.0
    stray = [0 if held else cs * der(voltage) for voltage in u[3:7]]
    rows = {
        "U_1": C * der(u[1]) - (i[1] - i[3] / 2 + i[4] / 2 + i[7] - u[1] / R),
        "U_2": C * der(u[2]) - (i[2] - i[5] / 2 + i[6] / 2 + i[8] - u[2] / R),
        "U_3": -i[3] + q1 - q4 + stray[0],
        "U_4": i[4] - q2 + q3 + stray[1],
        "U_5": -i[5] - q1 + q3 + stray[2],
        "U_6": i[6] + q2 - q4 + stray[3],
        "U_7": C_p * der(u[7]) - (-u[7] / R_p + q1 + q2 - q3 - q4),
        "I_1": L_h * der(i[1]) + u[1],
        "I_2": L_h * der(i[2]) + u[2],
        "I_3": L_s * der(i[3]) - (u[1] / 2 - u[3] - R_g * i[3]),
        "I_4": L_s * der(i[4]) - (-u[1] / 2 + u[4] - R_g * i[4]),
        "I_5": L_s * der(i[5]) - (u[2] / 2 - u[5] - R_g * i[5]),
        "I_6": L_s * der(i[6]) - (-u[2] / 2 + u[6] - R_g * i[6]),
        "I_7": L_s1 * der(i[7]) - (-u[1] + signal - (R_i + R_g1) * i[7]),
        "I_8": L_s1 * der(i[8]) - (-u[2] - (R_c + R_g1) * i[8]),
    }
    return {
        f"balance of {'currents' if name[0] == 'U' else 'voltages'} for {name}": rows[name]
        for name in map(str, unknowns)
    }
