"""Small nonlinear DAEs in Hessenberg form of index 1, 2 and 3 with exact solutions, for measuring orders."""

from __future__ import annotations

from math import cos, exp, sin

from dae_sdc.dae.kernels import COMPLEX_STEP
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.problems._parameters import LibraryProblem


def index_1_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`HessenbergIndex1`."""
    y1, y2, z = u[0], u[1], u[2]
    s, c, e = sin(t), cos(t), exp(-t)
    out[0] = du[0] + y1 * y1 - z - c * c + s + e
    out[1] = du[1] - y1 * z + y2 - s - c + e * c
    out[2] = z + z * z * z / 3.0 - y1 * y2 - e - e * e * e / 3.0 + s * c


def index_1_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    """dF/du' + c dF/du of :class:`HessenbergIndex1`."""
    y1, y2, z = u[0], u[1], u[2]
    out[0], out[1], out[2] = 1.0 + 2.0 * c * y1, 0.0, -c
    out[3], out[4], out[5] = -c * z, 1.0 + c, -c * y1
    out[6], out[7], out[8] = -c * y2, -c * y1, c * (1.0 + z * z)


@PROBLEMS.register("hessenberg-1")
class HessenbergIndex1(LibraryProblem):
    r"""Nonlinear semi-explicit DAE of index 1 with a manufactured solution.

    .. math::
        0 &= y_1' + y_1^2 - z - \cos^2 t + \sin t + e^{-t}, \\
        0 &= y_2' - y_1 z + y_2 - \sin t - \cos t + e^{-t}\cos t, \\
        0 &= z + z^3 / 3 - y_1 y_2 - e^{-t} - e^{-3t} / 3 + \sin t \cos t.

    The exact solution is y_1 = cos t, y_2 = sin t, z = exp(-t). The constraint has the derivative 1 + z^2
    in z.

    References
    ----------
    Made for this package; U. M. Ascher, L. R. Petzold, Computer Methods for Ordinary Differential Equations
    and Differential-Algebraic Equations, SIAM (1998), sec. 9.1.1 for the form.
    """

    title = "nonlinear Hessenberg DAE with a manufactured solution"
    index = 1
    names = ("y1", "y2", "z")
    units = ("1", "1", "1")
    equation_names = ("equation of y1", "equation of y2", "constraint")
    size = (2, 1)
    reference = "manufactured solution"
    interval = (0.0, 1.0)
    dt = 0.1
    residual_kernel = index_1_residual
    jacobian_kernel = index_1_jacobian

    def u_exact(self, t: float) -> MeshDAE:
        """The exact solution at any t."""
        return self.state([cos(t), sin(t), exp(-t)])

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative of the exact solution at any t."""
        return self.state([-sin(t), cos(t), -exp(-t)])


def index_2_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`HessenbergIndex2`."""
    y1, y2, z = u[0], u[1], u[2]
    out[0] = du[0] - y1 * y2 * y2 * z * z
    out[1] = du[1] - y1 * y1 * y2 * y2 + 3.0 * y2 * y2 * z
    out[2] = y1 * y1 * y2 - 1.0


def index_2_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    """dF/du' + c dF/du of :class:`HessenbergIndex2`."""
    y1, y2, z = u[0], u[1], u[2]
    out[0] = 1.0 - c * y2 * y2 * z * z
    out[1] = -2.0 * c * y1 * y2 * z * z
    out[2] = -2.0 * c * y1 * y2 * y2 * z
    out[3] = -2.0 * c * y1 * y2 * y2
    out[4] = 1.0 + c * (6.0 * y2 * z - 2.0 * y1 * y1 * y2)
    out[5] = 3.0 * c * y2 * y2
    out[6], out[7], out[8] = 2.0 * c * y1 * y2, c * y1 * y1, 0.0


@PROBLEMS.register("hessenberg-2")
class HessenbergIndex2(LibraryProblem):
    r"""Nonlinear DAE of index 2 with an exact solution.

    .. math::
        0 &= y_1' - y_1 y_2^2 z^2, \\
        0 &= y_2' - y_1^2 y_2^2 + 3 y_2^2 z, \\
        0 &= y_1^2 y_2 - 1.

    The exact solution is y_1 = exp(t), y_2 = exp(-2t), z = exp(2t). The hidden constraint
    2 y_2 z^2 - 3 z + y_1^2 = 0 has a second root, z = exp(2t) / 2, to which Newton iterations with too long
    a step or a poor initial guess may converge.

    References
    ----------
    L. Jay, Convergence of a class of Runge-Kutta methods for differential-algebraic systems of index 2,
    BIT 33 (1993) 137, sec. 6.
    """

    title = "nonlinear Hessenberg DAE of index 2"
    index = 2
    names = ("y1", "y2", "z")
    units = ("1", "1", "1")
    equation_names = ("equation of y1", "equation of y2", "constraint")
    size = (2, 1)
    reference = "Jay (1993)"
    interval = (0.0, 1.0)
    dt = 0.1
    residual_kernel = index_2_residual
    jacobian_kernel = index_2_jacobian

    def u_exact(self, t: float) -> MeshDAE:
        """The exact solution at any t."""
        return self.state([exp(t), exp(-2.0 * t), exp(2.0 * t)])

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative of the exact solution at any t."""
        return self.state([exp(t), -2.0 * exp(-2.0 * t), 2.0 * exp(2.0 * t)])


def index_3_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`HessenbergIndex3`."""
    y1, y2, v1, v2, w = u[0], u[1], u[2], u[3], u[4]
    out[0] = du[0] - 2.0 * y1 * y2 * v1 * v2
    out[1] = du[1] + y1 * y2 * v2 * v2
    out[2] = du[2] - (y1 * y2 + v1 * v2) * w
    out[3] = du[3] + y1 * y2 * y2 * v2 * v2 * w
    out[4] = y1 * y2 * y2 - 1.0


@PROBLEMS.register("hessenberg-3")
class HessenbergIndex3(LibraryProblem):
    r"""Nonlinear DAE of index 3 with an exact solution; y are positions, v velocities, w the multiplier.

    .. math::
        0 &= y_1' - 2 y_1 y_2 v_1 v_2, \\
        0 &= y_2' + y_1 y_2 v_2^2, \\
        0 &= v_1' - (y_1 y_2 + v_1 v_2) w, \\
        0 &= v_2' + y_1 y_2^2 v_2^2 w, \\
        0 &= y_1 y_2^2 - 1.

    The exact solution is y_1 = v_1 = exp(2t), y_2 = v_2 = exp(-t), w = exp(t).

    References
    ----------
    L. Jay, Convergence of Runge-Kutta methods for differential-algebraic systems of index 3,
    Appl. Numer. Math. 17 (1995) 97, sec. 6.
    """

    title = "nonlinear Hessenberg DAE of index 3"
    index = 3
    names = ("y1", "y2", "v1", "v2", "w")
    units = ("1",) * 5
    variable_index = (1, 1, 2, 2, 3)
    equation_names = ("equation of y1", "equation of y2", "equation of v1", "equation of v2", "constraint")
    size = (4, 1)
    group_sizes = {"position": 2, "velocity": 2, "multiplier": 1}
    reference = "Jay (1995)"
    interval = (0.0, 1.0)
    dt = 0.1
    residual_kernel = index_3_residual
    jacobian_kernel = COMPLEX_STEP

    def u_exact(self, t: float) -> MeshDAE:
        """The exact solution at any t."""
        return self.state([exp(2.0 * t), exp(-t), exp(2.0 * t), exp(-t), exp(t)])

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative of the exact solution at any t."""
        return self.state([2.0 * exp(2.0 * t), -exp(-t), 2.0 * exp(2.0 * t), -exp(-t), exp(t)])
