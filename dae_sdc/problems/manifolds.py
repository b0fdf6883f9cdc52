"""Equations on manifolds: of first order, and mechanical systems whose velocities are constrained."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dae_sdc.constrained.equations import ImplicitDAE, NonholonomicProblem, QuasiFirstOrderProblem
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.problems._library import SolvedProblem, StoredEnds, Values, finite, formulation, positive
from dae_sdc.problems.constrained import unit_mass_of_two

RHEINBOLDT = (
    "W. C. Rheinboldt: Solving algebraically explicit DAEs with the MANPAK-manifold-algorithms, Computers & "
    "Mathematics with Applications 33 (1997), pages 31-43"
)


def eight_F(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = u[0] * u[0] + u[1] * u[1] - 1.0
    out[1] = 2.0 * u[0] * u[1] - u[2]


@PROBLEMS.register("figure-eight")
class FigureEight(SolvedProblem, ImplicitDAE):
    r"""Implicit equation whose solution draws a figure of eight, index 1 with singular points.

    .. math::
        u^2 + u'^2 = 1, \qquad 2 u u' = w

    From u(0) = 0 and u'(0) = 1 the solution is :math:`u = \sin t`, :math:`w = \sin 2t`. With :math:`p = u'`
    among the unknowns, the derivative of the equations in p and w has the determinant :math:`-2 p`: it is
    singular at :math:`t = \pi/2 + k \pi`, where u is 1 or -1. The curve (u, p, w) is smooth there, but it
    meets the constant solutions u = 1 and u = -1.
    """

    title = "implicit equation of a figure of eight with singular points"
    index = 1
    names = ("u", "p", "w")
    constraint_names = ("circle of u and u'", "product of u and u'")
    size = (1, 1)
    reference = RHEINBOLDT
    interval = (0.0, 6.0)
    dt = 0.05
    time_unit = "1"
    F_kernel = eight_F
    fixed_constraints = True

    def _solution(self, t: float) -> Values:
        s, c, twice = math.sin(t), math.cos(t), 2.0 * t
        return [s, c, math.sin(twice)], [c, -s, 2.0 * math.cos(twice)]


# Data of the catalyst: transport of matter and heat, reaction and its activation, and the pellet.
_JK, _JD, _JH, _GC, _THETA = 143.8, 2.63, 5.26, 10.0, 1.5
_GAMMA, _DC, _PE = 0.478, 0.249, 0.2
_CC1, _CC2, _CC3 = _PE * _JK, _DC / _JD, _GAMMA * _DC


def catalyst_A(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    for i in range(24):
        out[i] = 0.0
    out[0], out[7], out[14], out[21] = 1.0, 1.0, 1.0, 1.0


def catalyst_h(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = -_JD * (u[0] - u[5])
    out[1] = -_JH * (u[1] - u[4])
    out[2] = u[3]
    out[3] = _CC1 * (2.0 * u[2] - u[4] - _THETA)


def catalyst_g(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    e = math.exp(_GC * (1.0 - 1.0 / u[4]))
    out[0] = _JH * (u[1] - u[4]) + _JK * (u[2] - u[4]) - _CC3 * u[5] * e
    out[1] = u[5] * (1.0 + _CC2 * e) - u[0]


@PROBLEMS.register("catalyst")
class Catalyst(StoredEnds, QuasiFirstOrderProblem):
    r"""Catalytic converter, a quasilinear problem of index 1.

    .. math::
        u_1' &= -j_d (u_1 - u_6), & u_2' &= -j_h (u_2 - u_5), \\
        u_3' &= u_4, & u_4' &= c_1 (2 u_3 - u_5 - \theta), \\
        0 &= j_h (u_2 - u_5) + j_k (u_3 - u_5) - c_3 u_6 e, & 0 &= u_6 (1 + c_2 e) - u_1

    with :math:`e = \exp(\gamma_c (1 - 1/u_5))`, :math:`j_k = 143.8`, :math:`j_d = 2.63`, :math:`j_h = 5.26`,
    :math:`\gamma_c = 10`, :math:`\theta = 1.5`, :math:`\gamma = 0.478`, :math:`d_c = 0.249`,
    :math:`p_e = 0.2`, :math:`c_1 = p_e j_k`, :math:`c_2 = d_c/j_d` and :math:`c_3 = \gamma d_c`. The start
    is :math:`u_1 = u_2 = 1`, :math:`u_3 = 1.486788276286347`, :math:`u_4 = 0`, with :math:`u_5` and
    :math:`u_6` from the constraints. A change of :math:`u_3(0)` changes :math:`u_4(1)` by 614 times as much.
    """

    title = "catalytic converter"
    index = 1
    names = ("u1", "u2", "u3", "u4", "u5", "u6")
    constraint_names = ("heat on the surface", "matter on the surface")
    size = (6, 2)
    reference = RHEINBOLDT
    interval = (0.0, 1.0)
    dt = 0.01
    time_unit = "1"
    record = "catalyst"
    A_kernel = catalyst_A
    h_kernel = catalyst_h
    g_kernel = catalyst_g
    fixed_constraints = True

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative of the solution; raises like :meth:`u_exact`."""
        rate, _ = self.saddle_point(t, self.u_exact(t))
        return self.state(rate)


def skate_h(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1] = math.sin(p[0]), 0.0


def skate_g(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = v[1] * math.cos(t) - v[0] * math.sin(t)


def skate_dg(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1] = -math.sin(t), math.cos(t)


def skate_dg_dt(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = -v[0] * math.cos(t) - v[1] * math.sin(t)


@PROBLEMS.register("skate")
class Skate(SolvedProblem, NonholonomicProblem):
    r"""Skate on an inclined plane that turns at a constant rate and does not slip sideways, index 2.

    In units of its mass, of gravity and of the rate at which it turns, with :math:`u_1` downhill,

    .. math::
        u_1'' - \lambda \sin t = \sin\alpha, \qquad u_2'' + \lambda \cos t = 0, \qquad
        -u_1' \sin t + u_2' \cos t = 0 .

    From rest, the skate does not go down the plane but sideways, along a cycloid,

    .. math::
        u_1 = \tfrac12 \sin\alpha\, \sin^2 t, \qquad
        u_2 = \tfrac12 \sin\alpha\, \big(t - \tfrac12 \sin 2t\big), \qquad
        \lambda = -2 \sin\alpha\, \sin t .
    """

    title = "skate on an inclined plane"
    index = 2
    names = ("u1", "u2", "v1", "v2", "lambda")
    constraint_names = ("no slip sideways",)
    size = (2, 1)
    parameters = {**finite("rad", "Inclination of the plane", alpha=0.8), **formulation("index-2", "index-1")}
    reference = (
        "Ju. I. Neimark, N. A. Fufaev: Dynamics of Nonholonomic Systems, American Mathematical Society 1972, "
        "page 108"
    )
    interval = (0.0, 10.0)
    dt = 0.05
    time_unit = "1"
    A_kernel = unit_mass_of_two
    h_kernel = skate_h
    g_kernel = skate_g
    dg_kernel = skate_dg
    dg_dt_kernel = skate_dg_dt

    def energy(self, q: npt.ArrayLike, v: npt.ArrayLike) -> float:
        """Kinetic and potential energy in weight times length, zero along the solution from rest."""
        down, _ = np.asarray(q, dtype=np.float64).tolist()
        v1, v2 = np.asarray(v, dtype=np.float64).tolist()
        return float(0.5 * (v1 * v1 + v2 * v2) - math.sin(self.alpha) * down)

    def _solution(self, t: float) -> Values:
        slope, s, c = math.sin(self.alpha), math.sin(t), math.cos(t)
        q, v = [0.5 * slope * s * s, 0.5 * slope * (t - s * c)], [slope * s * c, slope * s * s]
        a = [slope * (c * c - s * s), 2.0 * slope * s * c]
        return [*q, *v, -2.0 * slope * s], [*v, *a, -2.0 * slope * c]


_TURN, _ROLL = 0.5, 2.0
"""Rates at which the disk turns and rolls, in rad/s."""


def disk_A(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    for i in range(16):
        out[i] = 0.0
    out[0], out[5], out[10], out[15] = p[0], p[0], p[2], p[3]


def disk_h(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    for i in range(4):
        out[i] = 0.0


def disk_g(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    roll = p[1] * v[3]
    out[0], out[1] = v[0] - roll * math.cos(u[2]), v[1] - roll * math.sin(u[2])


def disk_dg(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1], out[2], out[3] = 1.0, 0.0, 0.0, -p[1] * math.cos(u[2])
    out[4], out[5], out[6], out[7] = 0.0, 1.0, 0.0, -p[1] * math.sin(u[2])


def disk_dg_dt(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    turn = p[1] * v[3] * v[2]
    out[0], out[1] = turn * math.sin(u[2]), -turn * math.cos(u[2])


@PROBLEMS.register("rolling-disk")
class RollingDisk(SolvedProblem, NonholonomicProblem):
    r"""Upright disk that rolls on a plane without slipping, index 2.

    The unknowns are the point of contact (x, y), the heading :math:`\theta`, the angle :math:`\phi` through
    which the disk has rolled, their velocities and two multipliers,

    .. math::
        m x'' + \lambda_1 &= 0, & J_\theta \theta'' &= 0, \\
        m y'' + \lambda_2 &= 0, &
        J_\phi \phi'' - R (\lambda_1 \cos\theta + \lambda_2 \sin\theta) &= 0, \\
        0 &= x' - R \phi' \cos\theta, & 0 &= y' - R \phi' \sin\theta .

    The velocities :math:`\theta' = \omega` and :math:`\phi' = \Omega` are constant, here 0.5 and 2 rad/s, and
    the disk runs on a circle of the radius :math:`R \Omega/\omega`,

    .. math::
        x = \frac{R \Omega}{\omega} \sin \omega t, \qquad
        y = \frac{R \Omega}{\omega} (1 - \cos \omega t), \qquad
        \lambda = m R \Omega \omega\, (\sin \omega t,\; -\cos \omega t) .
    """

    title = "upright disk that rolls without slipping"
    index = 2
    names = ("x", "y", "theta", "phi", "v_x", "v_y", "v_theta", "v_phi", "lambda_1", "lambda_2")
    units = ("m", "m", "rad", "rad", "m/s", "m/s", "rad/s", "rad/s", "N", "N")
    constraint_names = ("rolling in x", "rolling in y")
    size = (4, 2)
    parameters = {
        **positive("kg", "Mass", m=1.0),
        **positive("m", "Radius", R=1.0),
        **positive(
            "kg m^2", "Moments of inertia about a diameter and about the axis", J_theta=0.25, J_phi=0.5
        ),
        **formulation("index-2", "index-1"),
    }
    reference = "A. M. Bloch: Nonholonomic Mechanics and Control, Springer 2003, section 1.4"
    interval = (0.0, 10.0)
    dt = 0.05
    A_kernel = disk_A
    h_kernel = disk_h
    g_kernel = disk_g
    dg_kernel = disk_dg
    dg_dt_kernel = disk_dg_dt

    def energy(self, q: npt.ArrayLike, v: npt.ArrayLike) -> float:
        """Kinetic energy in J, constant along a solution."""
        speed = np.asarray(v, dtype=np.float64)
        return float(0.5 * np.array([self.m, self.m, self.J_theta, self.J_phi]) @ speed**2)

    def _solution(self, t: float) -> Values:
        turn, roll = _TURN * t, self.R * _ROLL
        s, c = math.sin(turn), math.cos(turn)
        # 1 - cos without cancellation.
        q = [roll / _TURN * s, 2.0 * roll / _TURN * math.sin(0.5 * turn) ** 2, turn, _ROLL * t]
        force = self.m * roll * _TURN
        rate = force * _TURN
        v = [roll * c, roll * s, _TURN, _ROLL]
        a = [-roll * _TURN * s, roll * _TURN * c, 0.0, 0.0]
        return [*q, *v, force * s, -force * c], [*v, *a, rate * c, rate * s]
