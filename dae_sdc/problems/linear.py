"""Small test equations with exact solutions: in Hessenberg form for orders, fully implicit, discontinuous."""

from __future__ import annotations

import math
from math import cos, exp, sin

import numpy.typing as npt

from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.dae.values import unguarded
from dae_sdc.errors import InputError, ReferenceRangeError
from dae_sdc.problems._library import SolvedProblem, Values, finite
from dae_sdc.sharing import tell

ASCHER_PETZOLD = (
    "U. M. Ascher, L. R. Petzold: Computer Methods for Ordinary Differential Equations and "
    "Differential-Algebraic Equations, SIAM 1998"
)


def simple_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    a, e, s = p[0], math.exp(t), 2.0 - t
    r = 1.0 / s
    out[0] = (a - r) * u[0] + s * a * u[2] + (s + 1.0) * r * e - du[0]
    out[1] = (a - 1.0) * (r * u[0] + u[2]) - u[1] + 2.0 * e - du[1]
    out[2] = (t + 2.0) * (u[0] - s * u[1] - (t - 1.0) * e)


@PROBLEMS.register("simple")
class SimpleDAE(SolvedProblem):
    r"""Linear index-2 DAE with a known solution.

    The residual is

    .. math::
        F_1 &= -u_1' + \Big(\alpha - \frac{1}{2-t}\Big) u_1 + (2-t)\,\alpha z + \frac{3-t}{2-t}\, e^t \\
        F_2 &= -u_2' + \frac{1-\alpha}{t-2}\, u_1 - u_2 + (\alpha-1) z + 2 e^t \\
        F_3 &= (t+2) u_1 + (t^2-4) u_2 - (t^2+t-2)\, e^t

    and vanishes for :math:`u_1 = u_2 = e^t`, :math:`z = -e^t/(2-t)` and all :math:`\alpha`. The
    derivative of the constraint contains z with the factor :math:`4 - t^2`: the index is 2 for -2 < t < 2,
    and the equations are singular at both ends.
    """

    title = "linear index-2 test equation"
    index, constant_mass = 2, True
    names = ("u1", "u2", "z")
    equation_names = ("rate of u1", "rate of u2", "constraint")
    size = (2, 1)
    parameters = {
        **finite("1", "Strength of the coupling to z; the larger, the harder to treat explicitly", alpha=10.0)
    }
    reference = f"{ASCHER_PETZOLD}, page 267"
    interval = (0.0, 1.0)
    dt = 0.05
    residual_kernel = simple_residual

    def _solution(self, t: float) -> Values:
        if not -2.0 < t < 2.0:
            raise ReferenceRangeError(
                f"SimpleDAE is singular at t=-2 and t=2 and has its solution between them; got t={t:g}"
            )
        e = math.exp(t)
        return [e, e, -e / (2.0 - t)], [e, e, -e * (3.0 - t) / (2.0 - t) ** 2]


def problematic_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    eta, w = p[0], p[0] * t
    out[0] = u[0] + w * u[1] - math.sin(t)
    out[1] = du[0] + w * du[1] + (1.0 + eta) * u[1] - math.cos(t)


@PROBLEMS.register("problematic-f")
class ProblematicF(SolvedProblem):
    r"""Linear index-2 DAE in which the derivative of the algebraic unknown appears.

    The residual is

    .. math::
        F_1 &= y + \eta t z - f(t), & f(t) &= \sin t \\
        F_2 &= y' + \eta t z' + (1+\eta) z - g(t), & g(t) &= \cos t

    The derivative of :math:`F_1` subtracted from :math:`F_2` gives :math:`z = g - f'`, here z = 0 and
    y = sin t, for every :math:`\eta`. Discretisations depend on :math:`\eta`. Implicit Euler with step h is

    .. math::
        y_n + \eta t_n z_n = f_n, \qquad
        \frac{y_n - y_{n-1}}{h} + \eta t_n \frac{z_n - z_{n-1}}{h} + (1+\eta) z_n = g_n,

    and with :math:`y_n = f_n - \eta t_n z_n` from the first equation at both times, because
    :math:`t_n - t_{n-1} = h`,

    .. math::
        (1+\eta)\, z_n = \eta\, z_{n-1} + g_n - \frac{f_n - f_{n-1}}{h} .

    An error of z is multiplied by :math:`\eta/(1+\eta)` in every step, for every step size: it grows for
    :math:`\eta < -1/2`, and for :math:`\eta = -1` there is no :math:`z_n`: the determinant of
    :math:`\partial F/\partial u' + c\,\partial F/\partial u` is :math:`c^2 (1+\eta)`.

    Each method has a factor of its own, by the same substitution. For a Runge-Kutta method that ends in its
    last stage, with C = diag(c), it is the last entry of

    .. math::
        \big((1+\eta) I + \eta (C A^{-1} - A^{-1} C)\big)^{-1} \eta\, C A^{-1} \mathbb 1,

    which is :math:`s\eta/(1+s\eta)` for s Radau nodes, alone or in spectral deferred corrections, and 0 for
    Lobatto IIIC. For the k-step BDF method it is the largest root of
    :math:`1 + \eta (1 - 1/\zeta)^k = 0`. Errors do not grow for

    ======================================  ============================================================
    method                                  :math:`\eta`
    ======================================  ============================================================
    s Radau nodes, backward Euler (s = 1)   :math:`\eta \ge -1/(2s)`
    Lobatto IIIC                            all but -1
    BDF, k = 1, 2                           :math:`\eta \ge -2^{-k}`
    BDF, k = 3 to 6                         :math:`-2^{-k} \le \eta \le (2\cos(\pi/k))^{-k}`
    Gauss, order 4 and 6                    :math:`0 \le \eta \le 1` and :math:`0 \le \eta \le 1/3`
    trapezoidal rule                        :math:`\eta \ge 0`
    ======================================  ============================================================

    A run in which they grow ends with a message, and with ``reduce`` the equations have index 1.

    Raises
    ------
    InputError
        For ``eta`` = -1.

    Warns
    -----
    DAEWarning
        For ``eta`` below -1/2.
    """

    title = "fully implicit linear index-2 equation that resists discretisation"
    index = 2
    names = ("y", "z")
    equation_names = ("constraint", "rate of y")
    size = (1, 1)
    parameters = {
        **finite(
            "1", "Weight of t z in both equations; from -1/2 on backward Euler is stable; not -1", eta=1.0
        )
    }
    reference = f"{ASCHER_PETZOLD}, page 264"
    interval = (0.0, 1.0)
    dt = 0.05
    residual_kernel = problematic_residual

    def _check_parameters(self) -> None:
        eta = self.eta
        if abs(1.0 + eta) < 1e-12:
            raise InputError(
                "ProblematicF with eta=-1 has a solution but no implicit step: every iteration matrix is "
                "singular (its determinant is c^2 (1 + eta)); take eta > -0.5, or reduce the index"
            )
        if eta < -0.5:
            tell(
                f"ProblematicF with eta={eta:g}: backward Euler multiplies errors of z by "
                f"{abs(eta / (1.0 + eta)):.3g} in every step, however small, and s Radau nodes by "
                f"|s eta / (1 + s eta)|; take a larger eta, reduce the index, or use 'lobatto-iiic-4'"
            )

    def _solution(self, t: float) -> Values:
        return [math.sin(t), 0.0], [math.cos(t), 0.0]


def discontinuous_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`DiscontinuousTestDAE` on the branch of the current step."""
    out[0] = du[0] if p[0] != 0.0 else du[0] - u[1]
    out[1] = u[0] * u[0] - u[1] * u[1] - 1.0


@PROBLEMS.register("discontinuous")
class DiscontinuousTestDAE(SolvedProblem):
    r"""Index-1 DAE whose right-hand side switches off when h(y) = 2 y - 100 reaches zero.

    The residual is

    .. math::
        F_1 &= y' - z \text{ before the event}, \qquad F_1 = y' \text{ after it} \\
        F_2 &= y^2 - z^2 - 1

    with the solution (cosh t, sinh t) from t = 1 up to :math:`t^* = \operatorname{arccosh} 50` and constant
    values after. The branch is chosen at the start of a step and kept for the step. Runs that locate events
    end a step at the event.

    Attributes
    ----------
    t_switch_exact : float
        Time t* of the event.
    switched : bool
        Whether the current step runs on the branch after the event.
    """

    title = "index-1 equation with a state-dependent switch"
    index = 1
    names = ("y", "z")
    equation_names = ("rate of y", "constraint")
    size = (1, 1)
    reference = (
        "L. Lopez, S. Maset: Numerical event location techniques in discontinuous differential algebraic "
        "equations, Appl. Numer. Math. 178 (2022), 98-122"
    )
    interval = (1.0, 5.0)
    dt = 0.05
    chooses_by_sides = True
    switch_names = ("y = 50",)
    residual_kernel = discontinuous_residual
    t_switch_exact, switched = math.acosh(50.0), False

    def event(self, u: MeshDAE, t: float) -> float:
        """The function 2 y - 100 whose zero is the event."""
        return 2.0 * float(u[0]) - 100.0

    @unguarded
    def switches(self, u: MeshDAE, t: float) -> tuple[float, ...]:
        """The event function in units of 100."""
        return (0.01 * self.event(u, t),)

    def switches_at(self, u: Vector, t: Vector) -> Vector:
        """The values of :meth:`switches` at K states, shape (K, 1)."""
        return 0.01 * (2.0 * u[:, :1] - 100.0)

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Choose the branch of the step; a state with 2 y - 100 >= -1e-8 counts as after the event."""
        self._choose(switched=self.sides(u, t)[0] > 0)

    def kernel_parameters(self) -> npt.ArrayLike:
        """1 after the event, 0 before."""
        return [self.switched]

    def _solution(self, t: float) -> Values:
        if not t >= 1.0:
            raise ReferenceRangeError(f"the solution of DiscontinuousTestDAE starts at t=1; got t={t:g}")
        s = min(t, self.t_switch_exact)
        y, z = math.cosh(s), math.sinh(s)
        # The derivative at the event is the left one.
        return [y, z], [z, y] if t <= self.t_switch_exact else [0.0, 0.0]


def index_1_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    y1, y2, z = u[0], u[1], u[2]
    s, c, e = sin(t), cos(t), exp(-t)
    out[0] = du[0] + y1 * y1 - z - c * c + s + e
    out[1] = du[1] - y1 * z + y2 - s - c + e * c
    out[2] = z + z * z * z / 3.0 - y1 * y2 - e - e * e * e / 3.0 + s * c


@PROBLEMS.register("hessenberg-1")
class HessenbergIndex1(SolvedProblem):
    r"""Nonlinear semi-explicit DAE of index 1 with a manufactured solution.

    .. math::
        0 &= y_1' + y_1^2 - z - \cos^2 t + \sin t + e^{-t}, \\
        0 &= y_2' - y_1 z + y_2 - \sin t - \cos t + e^{-t}\cos t, \\
        0 &= z + z^3 / 3 - y_1 y_2 - e^{-t} - e^{-3t} / 3 + \sin t \cos t.

    The exact solution is y_1 = cos t, y_2 = sin t, z = exp(-t). The constraint has the derivative 1 + z^2
    in z.
    """

    title = "nonlinear Hessenberg DAE with a manufactured solution"
    index = 1
    names = ("y1", "y2", "z")
    equation_names = ("equation of y1", "equation of y2", "constraint")
    size = (2, 1)
    reference = (
        "Made for this package; U. M. Ascher, L. R. Petzold, Computer Methods for Ordinary Differential "
        "Equations and Differential-Algebraic Equations, SIAM (1998), sec. 9.1.1 for the form"
    )
    interval = (0.0, 1.0)
    dt = 0.1
    residual_kernel = index_1_residual

    def _solution(self, t: float) -> Values:
        return [cos(t), sin(t), exp(-t)], [-sin(t), cos(t), -exp(-t)]


def index_2_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    y1, y2, z = u[0], u[1], u[2]
    out[0] = du[0] - y1 * y2 * y2 * z * z
    out[1] = du[1] - y1 * y1 * y2 * y2 + 3.0 * y2 * y2 * z
    out[2] = y1 * y1 * y2 - 1.0


@PROBLEMS.register("hessenberg-2")
class HessenbergIndex2(SolvedProblem):
    r"""Nonlinear DAE of index 2 with an exact solution.

    .. math::
        0 &= y_1' - y_1 y_2^2 z^2, \\
        0 &= y_2' - y_1^2 y_2^2 + 3 y_2^2 z, \\
        0 &= y_1^2 y_2 - 1.

    The exact solution is y_1 = exp(t), y_2 = exp(-2t), z = exp(2t). The hidden constraint
    2 y_2 z^2 - 3 z + y_1^2 = 0 has a second root, z = exp(2t) / 2, to which Newton iterations with too long
    a step or a poor initial guess may converge.
    """

    title = "nonlinear Hessenberg DAE of index 2"
    index, constant_mass = 2, True
    names = ("y1", "y2", "z")
    equation_names = ("equation of y1", "equation of y2", "constraint")
    size = (2, 1)
    reference = (
        "L. Jay, Convergence of a class of Runge-Kutta methods for differential-algebraic systems of index "
        "2, BIT 33 (1993) 137, sec. 6"
    )
    interval = (0.0, 1.0)
    dt = 0.1
    residual_kernel = index_2_residual

    def _solution(self, t: float) -> Values:
        y1, y2, z = exp(t), exp(-2.0 * t), exp(2.0 * t)
        return [y1, y2, z], [y1, -2.0 * y2, 2.0 * z]


def index_3_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    y1, y2, v1, v2, w = u[0], u[1], u[2], u[3], u[4]
    out[0] = du[0] - 2.0 * y1 * y2 * v1 * v2
    out[1] = du[1] + y1 * y2 * v2 * v2
    out[2] = du[2] - (y1 * y2 + v1 * v2) * w
    out[3] = du[3] + y1 * y2 * y2 * v2 * v2 * w
    out[4] = y1 * y2 * y2 - 1.0


@PROBLEMS.register("hessenberg-3")
class HessenbergIndex3(SolvedProblem):
    r"""Nonlinear DAE of index 3 with an exact solution; y are positions, v velocities, w the multiplier.

    .. math::
        0 &= y_1' - 2 y_1 y_2 v_1 v_2, \\
        0 &= y_2' + y_1 y_2 v_2^2, \\
        0 &= v_1' - (y_1 y_2 + v_1 v_2) w, \\
        0 &= v_2' + y_1 y_2^2 v_2^2 w, \\
        0 &= y_1 y_2^2 - 1.

    The exact solution is y_1 = v_1 = exp(2t), y_2 = v_2 = exp(-t), w = exp(t).
    """

    title = "nonlinear Hessenberg DAE of index 3"
    index, constant_mass = 3, True
    names = ("y1", "y2", "v1", "v2", "w")
    variable_index = (1, 1, 2, 2, 3)
    equation_names = ("equation of y1", "equation of y2", "equation of v1", "equation of v2", "constraint")
    size = (4, 1)
    group_sizes = {"position": 2, "velocity": 2, "multiplier": 1}
    reference = (
        "L. Jay, Convergence of Runge-Kutta methods for differential-algebraic systems of index 3, Appl. "
        "Numer. Math. 17 (1995) 97, sec. 6"
    )
    interval = (0.0, 1.0)
    dt = 0.1
    residual_kernel = index_3_residual

    def _solution(self, t: float) -> Values:
        rise, fall, w = exp(2.0 * t), exp(-t), exp(t)
        return [rise, fall, rise, fall, w], [2.0 * rise, -fall, 2.0 * rise, -fall, w]
