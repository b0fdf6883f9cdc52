"""Mechanical systems with constraints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ellipj, ellipk

from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.problems._reference import require_positive

_PERIOD = 4.0 * float(ellipk(0.5))
"""Period of sn and cn for the parameter 1/2."""


@PROBLEMS.register("pendulum")
class Pendulum2D(ProblemDAE):
    r"""Pendulum in Cartesian coordinates, index 3.

    The residual is

    .. math::
        F_1 &= p' - u, & F_2 &= q' - v, \\
        F_3 &= m u' + \lambda p, & F_4 &= m v' + \lambda q + m g, \\
        F_5 &= p^2 + q^2 - l^2.

    The force of the rod on the mass is :math:`-\lambda (p, q)`, so :math:`\lambda l` is its tension.
    Solutions also satisfy the hidden constraints

    .. math::
        p u + q v = 0, \qquad m (u^2 + v^2) - \lambda (p^2 + q^2) - m g q = 0 .

    The mass is let go from rest at (-l, 0). With :math:`\omega^2 = g/l`, the Jacobian elliptic functions sn,
    cn, dn of :math:`\omega t` for the parameter 1/2 and :math:`s = \mathrm{sn}/\mathrm{dn}`, the solution is

    .. math::
        p = -l\,\mathrm{cn}/\mathrm{dn}^2, \quad q = -\tfrac12 l s^2, \quad
        u = -\omega s q, \quad v = \omega s p, \quad \lambda = \tfrac32 m \omega^2 s^2 .

    Parameters
    ----------
    m : float
        Mass; unit kg.
    l : float
        Length of the rod; unit m.
    g : float
        Acceleration of gravity; unit m/s^2.
    **settings
        ``newton_tol`` and ``newton_maxiter`` of :class:`ProblemDAE`.

    References
    ----------
    E. Hairer, C. Lubich, M. Roche: The Numerical Solution of Differential-Algebraic Systems by Runge-Kutta
    Methods, Lecture Notes in Mathematics 1409, Springer 1989, page 8. The solution in elliptic functions:
    D. F. Lawden: Elliptic Functions and Applications, Springer 1989, chapter 5.
    """

    title = "pendulum in Cartesian coordinates"
    index = 3
    names = ("p", "q", "u", "v", "lambda")
    units = ("m", "m", "m/s", "m/s", "N/m")
    equation_names = ("velocity p", "velocity q", "force p", "force q", "length of the rod")
    parameter_units = {"m": "kg", "l": "m", "g": "m/s^2"}
    reference = "Hairer, Lubich, Roche, LNM 1409 (1989), page 8"
    interval = (0.0, 2.0)
    dt = 0.02

    def __init__(self, m: float = 1.0, l: float = 1.0, g: float = 9.8, **settings: Any) -> None:  # noqa: E741
        super().__init__(4, 1, **settings)
        self._makeAttributeAndRegister("m", "l", "g", localVars=locals())
        require_positive(self, "m", "l", "g")

    @property
    def groups(self) -> dict[str, slice]:
        """Positions, velocities and the multiplier, which converge at different orders."""
        return {"position": slice(0, 2), "velocity": slice(2, 4), "multiplier": slice(4, 5)}

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> npt.ArrayLike:
        """The residual as printed above, shape (5,)."""
        p, q, vp, vq, lam = u.tolist()
        dp, dq, ap, aq, _ = du.tolist()
        m = self.m
        return np.array(
            [
                dp - vp,
                dq - vq,
                m * ap + lam * p,
                m * aq + lam * q + m * self.g,
                p * p + q * q - self.l * self.l,
            ]
        )

    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Vector:
        """The matrix dF/du' + c dF/du, shape (5, 5)."""
        p, q, _, _, lam = u.tolist()
        m = self.m
        return np.array(
            [
                [1.0, 0.0, -c, 0.0, 0.0],
                [0.0, 1.0, 0.0, -c, 0.0],
                [c * lam, 0.0, m, 0.0, c * p],
                [0.0, c * lam, 0.0, m, c * q],
                [2.0 * c * p, 2.0 * c * q, 0.0, 0.0, 0.0],
            ]
        )

    def u_exact(self, t: float) -> MeshDAE:
        """The solution at any time from the formula above, to 1e-14 (1 + omega t) of each component."""
        omega = math.sqrt(self.g / self.l)
        # Errors of ellipj grow with the distance from zero, so whole periods are taken off first.
        phase = omega * t - _PERIOD * round(omega * t / _PERIOD)
        sn, cn, dn, _ = (float(value) for value in ellipj(phase, 0.5))
        s = sn / dn
        p, q = -self.l * cn / dn**2, -0.5 * self.l * s * s
        return self.state([p, q, -omega * s * q, omega * s * p, 1.5 * self.m * (omega * s) ** 2])

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative of the solution at any time."""
        p, q, vp, vq, lam = self.u_exact(t).tolist()
        m, g = self.m, self.g
        # The rate of the multiplier is that of its hidden constraint.
        return self.state([vp, vq, -lam * p / m, -lam * q / m - g, -3.0 * m * g * vq / self.l**2])
