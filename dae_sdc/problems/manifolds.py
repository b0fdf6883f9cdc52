"""Equations of first order on a manifold: implicit ones, and quasilinear ones of index 1."""

from __future__ import annotations

import math

from dae_sdc.constrained.first_order import ImplicitDAE, QuasiFirstOrderProblem
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.problems._parameters import LibraryProblem
from dae_sdc.problems._testset import StoredEnds


def eight_F(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    """Equations of :class:`FigureEight`."""
    out[0] = u[0] * u[0] + u[1] * u[1] - 1.0
    out[1] = 2.0 * u[0] * u[1] - u[2]


def eight_dF(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    """Derivatives of the equations of :class:`FigureEight` in u, u' and w."""
    out[0], out[1], out[2] = 2.0 * u[0], 2.0 * u[1], 0.0
    out[3], out[4], out[5] = 2.0 * u[1], 2.0 * u[0], -1.0


@PROBLEMS.register("figure-eight")
class FigureEight(LibraryProblem, ImplicitDAE):
    r"""Implicit equation whose solution draws a figure of eight, index 1 with singular points.

    .. math::
        u^2 + u'^2 = 1, \qquad 2 u u' = w

    From u(0) = 0 and u'(0) = 1 the solution is :math:`u = \sin t`, :math:`w = \sin 2t`. With :math:`p = u'`
    among the unknowns, the derivative of the equations in p and w has the determinant :math:`-2 p`: it is
    singular at :math:`t = \pi/2 + k \pi`, where u is 1 or -1. The curve (u, p, w) is smooth there, but it
    meets the constant solutions u = 1 and u = -1.

    References
    ----------
    W. C. Rheinboldt: Solving algebraically explicit DAEs with the MANPAK-manifold-algorithms, Computers &
    Mathematics with Applications 33 (1997), pages 31-43.
    """

    title = "implicit equation of a figure of eight with singular points"
    index = 1
    names = ("u", "p", "w")
    units = ("1", "1", "1")
    constraint_names = ("circle of u and u'", "product of u and u'")
    size = (1, 1)
    reference = "Rheinboldt, Comput. Math. Appl. 33 (1997) 31-43"
    interval = (0.0, 6.0)
    dt = 0.05
    time_unit = "1"
    F_kernel = eight_F
    dF_kernel = eight_dF
    fixed_constraints = True

    def u_exact(self, t: float) -> MeshDAE:
        """The solution at any time from the formula above."""
        return self.state([math.sin(t), math.cos(t), math.sin(2.0 * t)])

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative of the solution at any time."""
        return self.state([math.cos(t), -math.sin(t), 2.0 * math.cos(2.0 * t)])


# Data of the catalyst: transport of matter and heat, reaction and its activation, and the pellet.
_JK, _JD, _JH, _GC, _THETA = 143.8, 2.63, 5.26, 10.0, 1.5
_GAMMA, _DC, _PE = 0.478, 0.249, 0.2
_CC1, _CC2, _CC3 = _PE * _JK, _DC / _JD, _GAMMA * _DC


def catalyst_A(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    """Matrix of the derivatives of :class:`Catalyst`."""
    for i in range(24):
        out[i] = 0.0
    out[0], out[7], out[14], out[21] = 1.0, 1.0, 1.0, 1.0


def catalyst_h(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    """Rates of :class:`Catalyst`."""
    out[0] = -_JD * (u[0] - u[5])
    out[1] = -_JH * (u[1] - u[4])
    out[2] = u[3]
    out[3] = _CC1 * (2.0 * u[2] - u[4] - _THETA)


def catalyst_g(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    """Balances on the surface in :class:`Catalyst`."""
    e = math.exp(_GC * (1.0 - 1.0 / u[4]))
    out[0] = _JH * (u[1] - u[4]) + _JK * (u[2] - u[4]) - _CC3 * u[5] * e
    out[1] = u[5] * (1.0 + _CC2 * e) - u[0]


def catalyst_dg(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    """Derivative of the balances on the surface in :class:`Catalyst`."""
    e = math.exp(_GC * (1.0 - 1.0 / u[4]))
    slope = u[5] * e * _GC / (u[4] * u[4])
    out[0], out[1], out[2], out[3] = 0.0, _JH, _JK, 0.0
    out[4], out[5] = -_JH - _JK - _CC3 * slope, -_CC3 * e
    out[6], out[7], out[8], out[9] = -1.0, 0.0, 0.0, 0.0
    out[10], out[11] = _CC2 * slope, 1.0 + _CC2 * e


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

    References
    ----------
    W. C. Rheinboldt: Solving algebraically explicit DAEs with the MANPAK-manifold-algorithms, Computers &
    Mathematics with Applications 33 (1997), pages 31-43.
    """

    title = "catalytic converter"
    index = 1
    names = ("u1", "u2", "u3", "u4", "u5", "u6")
    units = ("1",) * 6
    constraint_names = ("heat on the surface", "matter on the surface")
    size = (6, 2)
    reference = "Rheinboldt, Comput. Math. Appl. 33 (1997) 31-43"
    interval = (0.0, 1.0)
    dt = 0.01
    time_unit = "1"
    record = "catalyst"
    A_kernel = catalyst_A
    h_kernel = catalyst_h
    g_kernel = catalyst_g
    dg_kernel = catalyst_dg
    fixed_constraints = True

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative of the solution; raises like :meth:`u_exact`."""
        rate, _ = self.saddle_point(t, self.u_exact(t))
        return self.state(rate)
