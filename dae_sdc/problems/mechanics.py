"""Mechanical systems with constraints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scipy.special import ellipj, ellipk

from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.problems._models import Expressions, Symbols, equations_of
from dae_sdc.problems._parameters import LibraryProblem, positive

if TYPE_CHECKING:
    from dae_sdc.model.model import Model

_PERIOD = 4.0 * float(ellipk(0.5))
"""Period of sn and cn for the parameter 1/2."""


def pendulum_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`Pendulum2D`."""
    m, l, g = p[0], p[1], p[2]  # noqa: E741
    out[0] = du[0] - u[2]
    out[1] = du[1] - u[3]
    out[2] = m * du[2] + u[4] * u[0]
    out[3] = m * du[3] + u[4] * u[1] + m * g
    out[4] = u[0] * u[0] + u[1] * u[1] - l * l


def pendulum_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    """dF/du' + c dF/du of :class:`Pendulum2D`."""
    m = p[0]
    out[0], out[1], out[2], out[3], out[4] = 1.0, 0.0, -c, 0.0, 0.0
    out[5], out[6], out[7], out[8], out[9] = 0.0, 1.0, 0.0, -c, 0.0
    out[10], out[11], out[12], out[13], out[14] = c * u[4], 0.0, m, 0.0, c * u[0]
    out[15], out[16], out[17], out[18], out[19] = 0.0, c * u[4], 0.0, m, c * u[1]
    out[20], out[21], out[22], out[23], out[24] = 2.0 * c * u[0], 2.0 * c * u[1], 0.0, 0.0, 0.0


@PROBLEMS.register("pendulum")
class Pendulum2D(LibraryProblem):
    r"""Pendulum in Cartesian coordinates, index 3.

    With the velocities u = x' and v = y', which are unknowns named "der(x)" and "der(y)", the residual is

    .. math::
        F_1 &= x' - u, & F_2 &= y' - v, \\
        F_3 &= m u' + \lambda x, & F_4 &= m v' + \lambda y + m g, \\
        F_5 &= x^2 + y^2 - l^2.

    The force of the rod on the mass is :math:`-\lambda (x, y)`, so :math:`\lambda l` is its tension.
    Solutions also satisfy the hidden constraints

    .. math::
        x u + y v = 0, \qquad m (u^2 + v^2) - \lambda (x^2 + y^2) - m g y = 0 .

    The mass is let go from rest at (-l, 0). With :math:`\omega^2 = g/l`, the Jacobian elliptic functions sn,
    cn, dn of :math:`\omega t` for the parameter 1/2 and :math:`s = \mathrm{sn}/\mathrm{dn}`, the solution is

    .. math::
        x = -l\,\mathrm{cn}/\mathrm{dn}^2, \quad y = -\tfrac12 l s^2, \quad
        u = -\omega s y, \quad v = \omega s x, \quad \lambda = \tfrac32 m \omega^2 s^2 .

    References
    ----------
    E. Hairer, C. Lubich, M. Roche: The Numerical Solution of Differential-Algebraic Systems by Runge-Kutta
    Methods, Lecture Notes in Mathematics 1409, Springer 1989, page 8. The solution in elliptic functions:
    D. F. Lawden: Elliptic Functions and Applications, Springer 1989, chapter 5.
    """

    title = "pendulum in Cartesian coordinates"
    index = 3
    variable_index = (1, 1, 2, 2, 3)
    names = ("x", "y", "der(x)", "der(y)", "lambda")
    units = ("m", "m", "m/s", "m/s", "N/m")
    equation_names = ("velocity x", "velocity y", "force x", "force y", "length")
    size = (4, 1)
    group_sizes = {"position": 2, "velocity": 2, "multiplier": 1}
    parameters = {
        **positive("kg", "Mass", m=1.0),
        **positive("m", "Length of the rod", l=1.0),
        **positive("m/s^2", "Acceleration of gravity", g=9.8),
    }
    reference = "Hairer, Lubich, Roche, LNM 1409 (1989), page 8"
    interval = (0.0, 2.0)
    dt = 0.02
    residual_kernel = pendulum_residual
    jacobian_kernel = pendulum_jacobian

    def u_exact(self, t: float) -> MeshDAE:
        """The solution at any time from the formula above, to 1e-14 (1 + omega t) of each component."""
        omega = math.sqrt(self.g / self.l)
        # Errors of ellipj grow with the distance from zero, so whole periods are taken off first.
        phase = omega * t - _PERIOD * round(omega * t / _PERIOD)
        sn, cn, dn, _ = (float(value) for value in ellipj(phase, 0.5))
        s = sn / dn
        x, y = -self.l * cn / dn**2, -0.5 * self.l * s * s
        return self.state([x, y, -omega * s * y, omega * s * x, 1.5 * self.m * (omega * s) ** 2])

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative of the solution at any time."""
        x, y, vx, vy, lam = self.u_exact(t).tolist()
        m, g = self.m, self.g
        # The rate of the multiplier is that of its hidden constraint.
        return self.state([vx, vy, -lam * x / m, -lam * y / m - g, -3.0 * m * g * vy / self.l**2])


@equations_of("pendulum", Pendulum2D)
def pendulum_equations(model: Model, u: Symbols, p: Symbols) -> Expressions:
    """Newton's law in two directions, and the length of the rod."""
    (x, y, tension), (m, l, g) = u, p  # noqa: E741
    return {
        "force x": m * model.der(x, 2) + tension * x,
        "force y": m * model.der(y, 2) + tension * y + m * g,
        "length": x**2 + y**2 - l**2,
    }
