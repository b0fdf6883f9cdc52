"""Mechanisms of the Test Set for IVP Solvers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.kernels import inlined
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.problems._library import HAIRER_WANNER, TEST_SET, Parameter, TestSetProblem, finite, positive
from dae_sdc.problems._models import also_model


def unit_pendulum_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    out[0] = du[0] - u[2]
    out[1] = du[1] - u[3]
    out[2] = du[2] + u[0] * u[4]
    out[3] = du[3] + u[1] * u[4] + 1.0
    square = u[0] * u[0] + u[1] * u[1]
    if p[0] == 3.0:
        out[4] = square - 1.0
    elif p[0] == 2.0:
        out[4] = u[0] * u[2] + u[1] * u[3]
    else:
        out[4] = u[2] * u[2] + u[3] * u[3] - u[4] * square - u[1]


@PROBLEMS.register("pendulum-cash")
class PendulumCash(TestSetProblem):
    r"""Pendulum of unit mass, length and gravity in Cartesian coordinates, index 3, 2 or 1.

    The residual is

    .. math::
        F_1 &= x' - u, & F_2 &= y' - v, \\
        F_3 &= u' + \lambda x, & F_4 &= v' + \lambda y + 1,

    and the last equation, by the index of the formulation,

    .. math::
        F_5^{(3)} = x^2 + y^2 - 1, \qquad F_5^{(2)} = x u + y v, \qquad
        F_5^{(1)} = u^2 + v^2 - \lambda (x^2 + y^2) - y .

    The pendulum starts at (1, 0) with the velocity (0, 1), so :math:`\lambda = 1`. The energy
    :math:`\tfrac12 (u^2 + v^2) + y` stays 1/2.
    """

    title = "pendulum of unit length in formulations of index 3, 2 and 1"
    index = 3
    names = ("x", "y", "u", "v", "lambda")
    equation_names = ("velocity x", "velocity y", "force x", "force y", "length of the rod")
    size = (4, 1)
    group_sizes = {"position": 2, "velocity": 2, "multiplier": 1}
    parameters = {"formulation": Parameter(3, "1", "Index of the formulation", None, "{3, 2, 1}", fixed=True)}
    reference = "J. R. Cash: Test problems of the code MEBDFDAE, Imperial College London, 2000"
    interval = (0.0, 1.0)
    dt = 0.01
    time_unit = "1"
    record = "pendulum-cash"
    independent_of = ("formulation",)
    residual_kernel = unit_pendulum_residual

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        self.index = int(self.formulation)
        if self.index < 3:
            self.variable_index = (1, 1, 1, 1, self.index)

    def _check_parameters(self) -> None:
        if self.formulation not in (3, 2, 1):
            raise InputError(
                f"formulation of {type(self).__name__} must be 3, 2 or 1; got {self.formulation!r}"
            )


def car_axis_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    eps, M, L, L0, r, w, g = p[0], p[1], p[2], p[3], p[4], p[5], p[6]
    k = 0.5 * M * eps * eps
    yb = r * math.sin(w * t)
    xb = math.sqrt(L * L - yb * yb)
    xl, yl, xr, yr, first, second = u[0], u[1], u[2], u[3], u[8], u[9]
    left = L0 / math.sqrt(xl * xl + yl * yl) - 1.0
    right = L0 / math.sqrt((xr - xb) ** 2 + (yr - yb) ** 2) - 1.0
    for i in range(4):
        out[i] = du[i] - u[i + 4]
    out[4] = k * du[4] - left * xl - first * xb - 2.0 * second * (xl - xr)
    out[5] = k * du[5] - left * yl - first * yb - 2.0 * second * (yl - yr) + k * g
    out[6] = k * du[6] - right * (xr - xb) + 2.0 * second * (xl - xr)
    out[7] = k * du[7] - right * (yr - yb) + 2.0 * second * (yl - yr) + k * g
    out[8] = xl * xb + yl * yb
    out[9] = (xl - xr) ** 2 + (yl - yr) ** 2 - L * L


@also_model("car-axis")
@PROBLEMS.register("car-axis")
class CarAxis(TestSetProblem):
    r"""Axis of a car on a bumpy road, index 3.

    The left wheel, at the origin, rolls on a flat road, the right one, at (x_b, y_b), over bumps of height r:
    :math:`y_b = r \sin \omega t`, :math:`x_b = \sqrt{L^2 - y_b^2}`. Springs join the wheels to the ends
    :math:`(x_l, y_l)` and :math:`(x_r, y_r)` of a bar. With the positions :math:`p = (x_l, y_l, x_r, y_r)`,
    velocities v, lengths :math:`L_l = |(x_l, y_l)|` and :math:`L_r = |(x_r - x_b, y_r - y_b)|` of the springs
    and :math:`k = M \varepsilon^2/2`, the residual is :math:`p' - v`, :math:`k v' - f` and two constraints,

    .. math::
        f_1 &= (L_0/L_l - 1) x_l + \lambda_1 x_b + 2 \lambda_2 (x_l - x_r), \\
        f_2 &= (L_0/L_l - 1) y_l + \lambda_1 y_b + 2 \lambda_2 (y_l - y_r) - k g, \\
        f_3 &= (L_0/L_r - 1) (x_r - x_b) - 2 \lambda_2 (x_l - x_r), \\
        f_4 &= (L_0/L_r - 1) (y_r - y_b) - 2 \lambda_2 (y_l - y_r) - k g, \\
        0 &= x_l x_b + y_l y_b, \\
        0 &= (x_l - x_r)^2 + (y_l - y_r)^2 - L^2 .
    """

    title = "axis of a car on a bumpy road"
    index, constant_mass = 3, True
    names = (
        *("x_l", "y_l", "x_r", "y_r", "der(x_l)", "der(y_l)", "der(x_r)", "der(y_r)"),
        *("lambda_1", "lambda_2"),
    )
    equation_names = (
        *(f"velocity {x}" for x in names[:4]),
        *(f"force {x}" for x in names[:4]),
        *("position of the left wheel", "length of the bar"),
    )
    size = (8, 2)
    group_sizes = {"position": 4, "velocity": 4, "multiplier": 2}
    parameters = {
        **positive("1", "Scale of the mass", eps=0.01),
        **positive("1", "Mass", M=10.0),
        **positive("1", "Length of the bar, and of the springs at rest", L=1.0, L0=0.5),
        **finite("1", "Height of the bumps, less than L", r=0.1),
        **finite("1", "Angular frequency at which the bumps are met", w=10.0),
        **finite("1", "Acceleration of gravity", g=1.0),
    }
    reference = (
        "S. Schneider: Intégration de systèmes d'équations différentielles raides et "
        "différentielles-algébriques par des méthodes de collocations et méthodes générales linéaires, PhD "
        f"thesis, University of Geneva 1994. {TEST_SET}, car axis problem"
    )
    interval = (0.0, 3.0)
    dt = 0.005
    time_unit = "1"
    record = "caraxis"
    residual_kernel = car_axis_residual

    def _check_parameters(self) -> None:
        if abs(self.r) >= self.L:
            raise InputError(f"r of {type(self).__name__} must be less than L={self.L}; got {self.r}")

    def _start(self) -> npt.ArrayLike:
        # The springs are at rest length, and the bar turns with the right wheel.
        speed = -self.L0 * self.r * self.w / self.L
        return [0.0, self.L0, self.L, self.L0, speed, 0.0, speed, 0.0, 0.0, 0.0]


# Squeezing mechanism: masses and moments of inertia of the bodies, fixed points, spring and motor, lengths.
_M1, _M2, _M3, _M4, _M5, _M6, _M7 = 0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498
_I1, _I2, _I3, _I4 = 2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7
_I5, _I6, _I7 = 1.169e-5, 5.667e-7, 1.912e-5
_XA, _YA, _XB, _YB, _XC, _YC = -0.06934, -0.00227, -0.03635, 0.03273, 0.014, 0.072
_C0, _L0, _MOMENT = 4530.0, 0.07785, 0.033
_D, _DA, _E, _EA, _RR, _RA = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092
_SS, _SA, _SB, _SC, _SD = 0.035, 0.01874, 0.01043, 0.018, 0.02
_TA, _TB, _U, _UA, _UB, _ZF, _ZT, _FA = 0.02308, 0.00916, 0.04, 0.01228, 0.00449, 0.02, 0.04, 0.01421


@inlined
def squeezer_masses(cth: float, sph: float, som: float) -> tuple[float, ...]:
    """Entries 11, 21, 22, 33, 44, 54, 55, 66, 76 and 77 of the symmetric mass matrix; the others vanish."""
    return (
        _M1 * _RA**2 + _M2 * (_RR**2 - 2.0 * _DA * _RR * cth + _DA**2) + _I1 + _I2,
        _M2 * (_DA**2 - _DA * _RR * cth) + _I2,
        _M2 * _DA**2 + _I2,
        _M3 * (_SA**2 + _SB**2) + _I3,
        _M4 * (_E - _EA) ** 2 + _I4,
        _M4 * ((_E - _EA) ** 2 + _ZT * (_E - _EA) * sph) + _I4,
        _M4 * (_ZT**2 + 2.0 * _ZT * (_E - _EA) * sph + (_E - _EA) ** 2) + _M5 * (_TA**2 + _TB**2) + _I4 + _I5,
        _M6 * (_ZF - _FA) ** 2 + _I6,
        _M6 * ((_ZF - _FA) ** 2 - _U * (_ZF - _FA) * som) + _I6,
        _M6 * ((_ZF - _FA) ** 2 - 2.0 * _U * (_ZF - _FA) * som + _U**2) + _M7 * (_UA**2 + _UB**2) + _I6 + _I7,
    )


@inlined
def squeezer_moments(v: tuple[float, ...], s: tuple[float, ...]) -> tuple[float, ...]:
    """Right-hand sides f(q, v) of the seven angles: motor, spring, and terms quadratic in the velocities."""
    vbe, vth, vph, vde, vom, vep = v
    sth, cph, com, sga, cga = s
    xd, yd = _SD * cga + _SC * sga + _XB, _SD * sga - _SC * cga + _YB
    length = np.sqrt((xd - _XC) ** 2 + (yd - _YC) ** 2)
    force = -_C0 * (length - _L0) / length
    fx, fy = force * (xd - _XC), force * (yd - _YC)
    return (
        _MOMENT - _M2 * _DA * _RR * vth * (vth + 2.0 * vbe) * sth,
        _M2 * _DA * _RR * vbe**2 * sth,
        fx * (_SC * cga - _SD * sga) + fy * (_SD * cga + _SC * sga),
        _M4 * _ZT * (_E - _EA) * vde**2 * cph,
        -_M4 * _ZT * (_E - _EA) * vph * (vph + 2.0 * vde) * cph,
        -_M6 * _U * (_ZF - _FA) * vep**2 * com,
        _M6 * _U * (_ZF - _FA) * vom * (vom + 2.0 * vep) * com,
    )


@inlined
def squeezer_sines(
    be: float, th: float, ga: float, ph: float, de: float, om: float, ep: float
) -> tuple[float, ...]:
    """Sine and cosine of each of beta, beta + Theta, gamma, Phi + delta, delta, Omega + epsilon, epsilon."""
    sbe, cbe, sbt, cbt = np.sin(be), np.cos(be), np.sin(be + th), np.cos(be + th)
    sga, cga, spd, cpd = np.sin(ga), np.cos(ga), np.sin(ph + de), np.cos(ph + de)
    sde, cde, soe, coe = np.sin(de), np.cos(de), np.sin(om + ep), np.cos(om + ep)
    return sbe, cbe, sbt, cbt, sga, cga, spd, cpd, sde, cde, soe, coe, np.sin(ep), np.cos(ep)


@inlined
def squeezer_loops(s: tuple[float, ...]) -> tuple[float, ...]:
    """The six closing conditions of the loops; the argument is the result of :func:`squeezer_sines`."""
    sbe, cbe, sbt, cbt, sga, cga, spd, cpd, sde, cde, soe, coe, sep, cep = s
    x, y = _RR * cbe - _D * cbt, _RR * sbe - _D * sbt
    return (
        x - _SS * sga - _XB,
        y + _SS * cga - _YB,
        x - _E * spd - _ZT * cde - _XA,
        y + _E * cpd - _ZT * sde - _YA,
        x - _ZF * coe - _U * sep - _XA,
        y - _ZF * soe + _U * cep - _YA,
    )


@inlined
def squeezer_gradient(s: tuple[float, ...]) -> tuple[float, ...]:
    """Nonzero derivatives of the closing conditions: in beta and Theta, alike in all, then others."""
    sbe, cbe, sbt, cbt, sga, cga, spd, cpd, sde, cde, soe, coe, sep, cep = s
    return (
        *(_D * sbt - _RR * sbe, _D * sbt, _RR * cbe - _D * cbt, -_D * cbt),
        *(-_SS * cga, -_SS * sga),
        *(-_E * cpd, _ZT * sde - _E * cpd, -_E * spd, -(_ZT * cde + _E * spd)),
        *(_ZF * soe, _ZF * soe - _U * cep, -_ZF * coe, -(_ZF * coe + _U * sep)),
    )


@inlined
def squeezer_bend(
    s: tuple[float, ...], vbe: float, vbt: float, vga: float, vpd: float, vde: float, voe: float, vep: float
) -> tuple[float, ...]:
    """Second derivatives of the closing conditions along velocities, by :func:`squeezer_sines` and rates."""
    sbe, cbe, sbt, cbt, sga, cga, spd, cpd, sde, cde, soe, coe, sep, cep = s
    be, bt, ga, pd, de, oe, ep = vbe**2, vbt**2, vga**2, vpd**2, vde**2, voe**2, vep**2
    x, y = _D * cbt * bt - _RR * cbe * be, _D * sbt * bt - _RR * sbe * be
    return (
        x + _SS * sga * ga,
        y - _SS * cga * ga,
        x + _E * spd * pd + _ZT * cde * de,
        y - _E * cpd * pd + _ZT * sde * de,
        x + _ZF * coe * oe + _U * sep * ep,
        y + _ZF * soe * oe - _U * cep * ep,
    )


ANGLES = ("beta", "Theta", "gamma", "Phi", "delta", "Omega", "epsilon")


def andrews_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    for i in range(14):
        out[i] = du[i] - u[i + 7]
    th, ph, om = u[1], u[3], u[5]
    a1, a2, a3, a4, a5, a6, a7 = u[14], u[15], u[16], u[17], u[18], u[19], u[20]
    l1, l2, l3, l4, l5, l6 = u[21], u[22], u[23], u[24], u[25], u[26]
    sines = squeezer_sines(u[0], th, u[2], ph, u[4], om, u[6])
    m11, m21, m22, m33, m44, m54, m55, m66, m76, m77 = squeezer_masses(np.cos(th), np.sin(ph), np.sin(om))
    f1, f2, f3, f4, f5, f6, f7 = squeezer_moments(
        (u[7], u[8], u[10], u[11], u[12], u[13]), (np.sin(th), np.cos(ph), np.cos(om), sines[4], sines[5])
    )
    xbe, xth, ybe, yth, xga, yga, xph, xde, yph, yde, xom, xep, yom, yep = squeezer_gradient(sines)
    sx, sy = l1 + l3 + l5, l2 + l4 + l6
    out[14] = m11 * a1 + m21 * a2 - f1 + xbe * sx + ybe * sy
    out[15] = m21 * a1 + m22 * a2 - f2 + xth * sx + yth * sy
    out[16] = m33 * a3 - f3 + xga * l1 + yga * l2
    out[17] = m44 * a4 + m54 * a5 - f4 + xph * l3 + yph * l4
    out[18] = m54 * a4 + m55 * a5 - f5 + xde * l3 + yde * l4
    out[19] = m66 * a6 + m76 * a7 - f6 + xom * l5 + yom * l6
    out[20] = m76 * a6 + m77 * a7 - f7 + xep * l5 + yep * l6
    out[21], out[22], out[23], out[24], out[25], out[26] = squeezer_loops(sines)


@PROBLEMS.register("andrews")
class Andrews(TestSetProblem):
    r"""Andrews' squeezing mechanism: seven bodies in a plane driven by a motor, index 3.

    The unknowns are the angles :math:`q = (\beta, \Theta, \gamma, \Phi, \delta, \Omega, \varepsilon)`, their
    velocities v, their accelerations w and six multipliers. The residual is

    .. math::
        q' - v, \qquad v' - w, \qquad M(q)\, w - f(q, v) + G(q)^T \lambda, \qquad g(q)

    with :math:`G = \partial g/\partial q` and the closing conditions of the three loops

    .. math::
        g_1 &= x - ss \sin\gamma - x_b, & g_2 &= y + ss \cos\gamma - y_b, \\
        g_3 &= x - e \sin(\Phi+\delta) - zt \cos\delta - x_a, &
        g_4 &= y + e \cos(\Phi+\delta) - zt \sin\delta - y_a, \\
        g_5 &= x - zf \cos(\Omega+\varepsilon) - u \sin\varepsilon - x_a, &
        g_6 &= y - zf \sin(\Omega+\varepsilon) + u \cos\varepsilon - y_a,

    where :math:`x = rr \cos\beta - d \cos(\beta+\Theta)`, :math:`y = rr \sin\beta - d \sin(\beta+\Theta)` is
    the joint common to the loops. The motor turns :math:`\beta` with a constant moment, a spring pulls at
    :math:`\gamma`; M, f and all numbers are those of the test set. The mechanism starts at rest.
    """

    title = "squeezing mechanism of Andrews"
    index, constant_mass = 3, True
    names = (
        *(f"{prefix}{x}" for prefix in ("", "v_", "a_") for x in ANGLES),
        *(f"lambda_{i}" for i in range(1, 7)),
    )
    units = (*("rad",) * 7, *("rad/s",) * 7, *("rad/s^2",) * 7, *("N",) * 6)
    equation_names = (
        *(f"{kind} {x}" for kind in ("velocity", "acceleration", "moment") for x in ANGLES),
        *(f"loop {i}" for i in range(1, 7)),
    )
    size = (14, 13)
    group_sizes = {"position": 7, "velocity": 7, "acceleration": 7, "multiplier": 6}
    reference = f"{HAIRER_WANNER}, section VII.7. {TEST_SET}, Andrews' squeezing mechanism"
    interval = (0.0, 0.03)
    dt = 1e-4
    record = "andrews"
    residual_kernel = andrews_residual


# Data of the slider crank in SI units: lengths and moments of inertia of crank and rod in the first line.
_CRANK, _ROD, _J1, _J2 = 0.15, 0.30, 0.002727, 0.0045339259
_MASS2, _MASS3, _ELASTICITY, _DENSITY, _SPEED = 0.151104, 0.075552, 2e11, 7870.0, 150.0
_WIDTH = _HEIGHT = 0.008
_PI = 3.1415927
"""The number pi with the digits of the Test Set, on which its reference values depend."""
_FB = _WIDTH * _HEIGHT * _ROD
_FM = _DENSITY * _FB
_FK = _ELASTICITY * _WIDTH * _HEIGHT / _ROD
_K11 = _FK * _PI**4 / 24.0 * (_HEIGHT / _ROD) ** 2
_K22 = _FK * 2.0 / 3.0 * _PI**4 * (_HEIGHT / _ROD) ** 2
_B13, _B14, _B24 = -16.0 * _FB / _PI**3, _FB * (8.0 / _PI**3 - 1.0 / _PI), 0.5 * _FB / _PI


POSITIONS = ("phi_1", "phi_2", "x_3", "q_1", "q_2", "q_3", "q_4")


def crank_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    for i in range(14):
        out[i] = du[i] - u[i + 7]
    q1, q2, q3, q4 = u[3], u[4], u[5], u[6]
    v1, v2, v3, d1, d2, d3, d4 = u[7], u[8], u[9], u[10], u[11], u[12], u[13]
    w1, w2, w3, e1, e2, e3, e4 = u[14], u[15], u[16], u[17], u[18], u[19], u[20]
    l1, l2, l3 = u[21], u[22], u[23]
    s, c = np.sin(u[0] - u[1]), np.cos(u[0] - u[1])
    s1, c1, s2, c2 = np.sin(u[0]), np.cos(u[0]), np.sin(u[1]), np.cos(u[1])

    # Nonzero entries of the vectors c1, c2, c12 and c21 of the rod.
    c13, c14, c21 = _FB * 2.0 / 3.0, _FB / 6.0, 2.0 * _FB / _PI
    c123, c124 = _ROD * _FB / 3.0, _ROD * _FB / 6.0
    c211, c212 = _ROD * _FB / _PI, -0.5 * _ROD * _FB / _PI
    c1q, c2q, c12q = c13 * q3 + c14 * q4, c21 * q1, c123 * q3 + c124 * q4
    c1d, c2d, c12d = c13 * d3 + c14 * d4, c21 * d1, c123 * d3 + c124 * d4
    n1, n2, n3, n4 = 0.5 * _FM * q1, 0.5 * _FM * q2, _FM * (8.0 * q3 + q4), _FM * (q3 + 2.0 * q4)

    m11 = _J1 + _MASS2 * _CRANK**2
    m12 = 0.5 * _CRANK * _ROD * _MASS2 * c + _DENSITY * _CRANK * (s * c2q + c * c1q)
    m22 = _J2 + q1 * n1 + q2 * n2 + q3 * n3 + q4 * n4 + 2.0 * _DENSITY * c12q
    r = _DENSITY * _CRANK
    h1, h3, h4 = r * c * c21, -r * s * c13, -r * s * c14
    # Entries of q^T BQ, with BQ skew-symmetric.
    k1 = _DENSITY * (c211 - _B13 * q3 - _B14 * q4)
    k2 = _DENSITY * (c212 - _B24 * q4)
    k3 = _DENSITY * _B13 * q1
    k4 = _DENSITY * (_B14 * q1 + _B24 * q2)

    half = 0.5 * _CRANK * _ROD * _MASS2 * s
    f1 = -half * v2**2 + r * v2**2 * (c * c2q - s * c1q) - 2.0 * r * v2 * (c * c1d + s * c2d)
    f2 = half * v1**2 + r * v1**2 * (s * c1q - c * c2q)
    f2 -= 2.0 * v2 * (_DENSITY * c12d + d1 * n1 + d2 * n2 + d3 * n3 + d4 * n4)
    a, b, g = v2**2, r * v1**2, 2.0 * _DENSITY * v2
    f4 = a * n1 + b * s * c21 + g * (_B13 * d3 + _B14 * d4) - _K11 * q1
    f5 = a * n2 + g * _B24 * d4 - _K22 * q2
    f6 = a * (n3 + _DENSITY * c123) + b * c * c13 - g * _B13 * d1 - _FK / 3.0 * (16.0 * q3 - 8.0 * q4)
    f7 = (
        a * (n4 + _DENSITY * c124)
        + b * c * c14
        - g * (_B14 * d1 + _B24 * d2)
        - _FK / 3.0 * (7.0 * q4 - 8.0 * q3)
    )

    rod = _ROD + q4
    out[14] = m11 * w1 + m12 * w2 + h1 * e1 + h3 * e3 + h4 * e4 - f1
    out[14] += _CRANK * (c1 * l1 + s1 * l2) + l3
    out[15] = m12 * w1 + m22 * w2 + k1 * e1 + k2 * e2 + k3 * e3 + k4 * e4 - f2 + rod * (c2 * l1 + s2 * l2)
    out[16] = _MASS3 * w3 + l2
    out[17] = h1 * w1 + k1 * w2 + 0.5 * _FM * e1 - f4
    out[18] = k2 * w2 + 0.5 * _FM * e2 - f5
    out[19] = h3 * w1 + k3 * w2 + _FM * (8.0 * e3 + e4) - f6
    out[20] = h4 * w1 + k4 * w2 + _FM * (e3 + 2.0 * e4) - f7 + s2 * l1 - c2 * l2
    out[21] = _CRANK * c1 * v1 + rod * c2 * v2 + s2 * d4
    out[22] = _CRANK * s1 * v1 + rod * s2 * v2 + v3 - c2 * d4
    out[23] = v1 - _SPEED


@PROBLEMS.register("slider-crank")
class SliderCrank(TestSetProblem):
    r"""Slider crank with an elastic connecting rod, index 2.

    The unknowns are the positions :math:`p = (\phi_1, \phi_2, x_3, q_1, \dots, q_4)`, angles of crank and
    rod, place of the slider and four modes of the rod's deformation, their velocities v, their accelerations
    w and three multipliers. The residual is

    .. math::
        p' - v, \qquad v' - w, \qquad M(p)\, w - f(p, v) + G(p)^T \lambda, \qquad
        G(p)\, v - (0, 0, \Omega)^T,

    where :math:`G v - (0, 0, \Omega)^T` is the derivative of the closing conditions
    :math:`L_1 \sin\phi_1 + (L_2 + q_4) \sin\phi_2 = 0`,
    :math:`x_3 - L_1 \cos\phi_1 - (L_2 + q_4) \cos\phi_2 = 0` and of :math:`\phi_1 = \Omega t`. M, f and the
    numbers, among them pi = 3.1415927, are those of the test set, without gravity and damping and with a
    linear stiffness of the rod.

    The initial value is the smooth one of the test set. Its velocities are projected onto the last equation
    in the norm of M, which changes them by 1e-8, and its accelerations and multipliers are computed from the
    equations.
    """

    title = "slider crank with an elastic connecting rod"
    index = 2
    names = (
        *(f"{prefix}{x}" for prefix in ("", "v_", "a_") for x in POSITIONS),
        *("lambda_1", "lambda_2", "lambda_3"),
    )
    units = (
        *("rad", "rad", *("m",) * 5),
        *("rad/s", "rad/s", *("m/s",) * 5),
        *("rad/s^2", "rad/s^2", *("m/s^2",) * 5),
        *("N", "N", "N m"),
    )
    equation_names = (
        *(f"{kind} {x}" for kind in ("velocity", "acceleration", "force") for x in POSITIONS),
        *("vertical velocity of the slider", "horizontal velocity of the slider", "speed of the crank"),
    )
    size = (14, 10)
    group_sizes = {"position": 7, "velocity": 7, "acceleration": 7, "multiplier": 3}
    reference = (
        "B. Simeon: Modelling a flexible slider crank mechanism by a mixed system of DAEs and PDEs, "
        f"Mathematical Modelling of Systems 2 (1996), pages 1-18. {TEST_SET}, slider crank"
    )
    interval = (0.0, 0.1)
    dt = 2e-5
    record = "slidercrank"
    residual_kernel = crank_residual
