"""Mechanical systems with constraints, an elastic pendulum with two time scales, and charges on a sphere."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ellipj, ellipk

from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.errors import ReferenceRangeError
from dae_sdc.problems._library import (
    HAIRER_LUBICH_ROCHE,
    TEST_SET,
    TIMES_OF_START,
    SolvedProblem,
    TestSetProblem,
    Values,
    finite,
    positive,
)
from dae_sdc.problems._models import also_model

_PERIOD = 4.0 * float(ellipk(0.5))  # Period of sn and cn for the parameter 1/2.


def pendulum_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    m, l, g = p[0], p[1], p[2]  # noqa: E741
    out[0] = du[0] - u[2]
    out[1] = du[1] - u[3]
    out[2] = m * du[2] + u[4] * u[0]
    out[3] = m * du[3] + u[4] * u[1] + m * g
    out[4] = u[0] * u[0] + u[1] * u[1] - l * l


@also_model("pendulum")
@PROBLEMS.register("pendulum")
class Pendulum2D(SolvedProblem):
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
    """

    title = "pendulum in Cartesian coordinates"
    index, constant_mass = 3, True
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
    reference = (
        f"{HAIRER_LUBICH_ROCHE}, page 8. The solution in elliptic functions: D. F. Lawden: Elliptic "
        "Functions and Applications, Springer 1989, chapter 5"
    )
    interval = (0.0, 2.0)
    dt = 0.02
    residual_kernel = pendulum_residual

    def _solution(self, t: float) -> Values:
        """By the formula above, to 1e-14 (1 + omega t) of each component."""
        m, g = self.m, self.g
        omega = math.sqrt(g / self.l)
        # Errors of ellipj grow with the distance from zero, so whole periods are taken off first.
        phase = omega * t - _PERIOD * round(omega * t / _PERIOD)
        sn, cn, dn, _ = (float(value) for value in ellipj(phase, 0.5))
        s = sn / dn
        x, y = -self.l * cn / dn**2, -0.5 * self.l * s * s
        vx, vy, lam = -omega * s * y, omega * s * x, 1.5 * m * (omega * s) ** 2
        # The rate of the multiplier is that of its hidden constraint.
        rates = [vx, vy, -lam * x / m, -lam * y / m - g, -3.0 * m * g * vy / self.l**2]
        return [x, y, vx, vy, lam], rates


_START = (0.5, -1.0, 0.0, 0.0)
_T_END = 5.0
_ENDS = {
    1.0: (-0.44044208532850143457, -1.7968078124050191542, 0.01070976914944385274, 0.94070690516073781719),
    10.0: (
        -0.035842011561595669606,
        -1.0953859990927661445,
        0.48330057077725281788,
        -0.066378349411677392048,
    ),
    100.0: (0.12199484196891089521, -1.1125072792536142007, 0.41845555545046677237, -0.15105295701423327072),
    1000.0: (0.1275526196626510404, -1.050656211764641409, 0.02123924476009661664, 3.2597188295214592854),
    1500.0: (0.13289278733630587366, -1.0448139517774865917, 0.92652981664784003185, -3.9848222200904158279),
}
"""The solution at t = 5 by spring constant: Taylor series of order 30 in 500 steps with 45 digits.

Series of order 24 differ by 2e-26.
"""


def elastic_pendulum_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    x, y = u[0], u[1]
    pull = p[0] * (1.0 - 1.0 / math.sqrt(x * x + y * y))
    out[0] = du[0] - u[2]
    out[1] = du[1] - u[3]
    out[2] = du[2] + x * pull
    out[3] = du[3] + y * pull + 1.0


@PROBLEMS.register("elastic-pendulum")
class ElasticPendulum(SolvedProblem):
    r"""Mass on a spring that swings and bounces: an ordinary differential equation.

    In units of the mass, the length of the spring at rest and gravity, the residual is

    .. math::
        F_1 &= y_1' - y_3, & F_3 &= y_3' + L y_1, \\
        F_2 &= y_2' - y_4, & F_4 &= y_4' + L y_2 + 1,

    with :math:`L = k (r - 1)/r` and :math:`r = \sqrt{y_1^2 + y_2^2}`. The mass starts from rest at
    (0.5, -1). It swings with a frequency near 1 and bounces along the spring with a frequency near
    :math:`\sqrt k`: a stiff spring has a fast undamped oscillation, which many methods damp or amplify.
    The energy :math:`\tfrac12 (y_3^2 + y_4^2) + \tfrac12 k (r - 1)^2 + y_2` is constant.
    """

    title = "elastic pendulum"
    index = 0
    names = ("y1", "y2", "y3", "y4")
    equation_names = ("velocity y1", "velocity y2", "force y1", "force y2")
    size = (4, 0)
    group_sizes = {"position": 2, "velocity": 2}
    parameters = {**positive("1", "Spring constant in units of weight by length at rest", k=1.0)}
    reference = (
        "P. Lynch: Resonant motions of the three-dimensional elastic pendulum, International Journal of "
        "Non-Linear Mechanics 37 (2002), pages 345-367. The end values were computed for this package with "
        "45 digits"
    )
    interval = (0.0, _T_END)
    dt = 0.01
    time_unit = "1"
    residual_kernel = elastic_pendulum_residual

    def energy(self, q: npt.ArrayLike, v: npt.ArrayLike) -> float:
        """Kinetic energy and the potentials of spring and gravity, constant along a solution.

        Of position (y1, y2) and velocity (y3, y4), in units of weight times length at rest.
        """
        x, y = np.asarray(q, dtype=np.float64).tolist()
        vx, vy = np.asarray(v, dtype=np.float64).tolist()
        stretch = math.hypot(x, y) - 1.0
        return float(0.5 * (vx * vx + vy * vy) + 0.5 * self.k * stretch * stretch + y)

    def _solution(self, t: float) -> Values:
        """The initial value at t = 0, and at t = 5 the stored solution for k = 1, 10, 100, 1000, 1500."""
        at_start = abs(t) <= TIMES_OF_START
        if not at_start and abs(t - _T_END) > TIMES_OF_START:
            raise ReferenceRangeError(
                f"the solution of ElasticPendulum is stored at t=0 and t={_T_END:g} only; got t={t:g}"
            )
        if not at_start and self.k not in _ENDS:
            raise ReferenceRangeError(
                f"the solution of ElasticPendulum is stored for k={', '.join(f'{k:g}' for k in _ENDS)}; "
                f"this one has k={self.k}; compute a reference with a tight tolerance"
            )
        x, y, vx, vy = _START if at_start else _ENDS[self.k]
        pull = self.k * (1.0 - 1.0 / math.hypot(x, y))
        return [x, y, vx, vy], [vx, vy, -x * pull, -y * pull - 1.0]


_POINTS = 20


def fekete_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`Fekete`, with one evaluation of each pair of points."""
    n, alpha = int(p[0]), p[1]
    q, lam, mu = 3 * n, 6 * n, 7 * n
    for i in range(n):
        length, speed = -1.0, 0.0
        for k in range(3 * i, 3 * i + 3):
            out[k] = du[k] - u[q + k] - 2.0 * u[mu + i] * u[k]
            out[q + k] = du[q + k] + alpha * u[q + k] - 2.0 * u[lam + i] * u[k]
            length += u[k] * u[k]
            speed += u[k] * u[q + k]
        out[lam + i] = length
        out[mu + i] = 2.0 * speed
    for i in range(n):
        a = 3 * i
        for j in range(i):
            b = 3 * j
            x, y, z = u[a] - u[b], u[a + 1] - u[b + 1], u[a + 2] - u[b + 2]
            w = 1.0 / (x * x + y * y + z * z)
            out[q + a] -= w * x
            out[q + a + 1] -= w * y
            out[q + a + 2] -= w * z
            out[q + b] += w * x
            out[q + b + 1] += w * y
            out[q + b + 2] += w * z


def fekete_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    """dF/du' + c dF/du of :class:`Fekete`; row i begins at 8 n i."""
    n, alpha = int(p[0]), p[1]
    size, q, lam, mu = 8 * n, 3 * n, 6 * n, 7 * n
    for k in range(size * size):
        out[k] = 0.0
    for i in range(n):
        for k in range(3 * i, 3 * i + 3):
            row = size * k
            out[row + k] = 1.0 - 2.0 * c * u[mu + i]
            out[row + q + k] = -c
            out[row + mu + i] = -2.0 * c * u[k]
            row = size * (q + k)
            out[row + k] = -2.0 * c * u[lam + i]
            out[row + q + k] = 1.0 + c * alpha
            out[row + lam + i] = -2.0 * c * u[k]
            out[size * (lam + i) + k] = 2.0 * c * u[k]
            row = size * (mu + i)
            out[row + k] = 2.0 * c * u[q + k]
            out[row + q + k] = 2.0 * c * u[k]
    for i in range(n):
        a = 3 * i
        for j in range(i):
            b = 3 * j
            x, y, z = u[a] - u[b], u[a + 1] - u[b + 1], u[a + 2] - u[b + 2]
            w = 1.0 / (x * x + y * y + z * z)
            f = c * w
            # The derivative of d / |d|^2 is (1 - 2 d d^T / |d|^2) / |d|^2, a symmetric block.
            for k in range(3):
                first, second = size * (q + a + k), size * (q + b + k)
                rest = -2.0 * f * w * (u[a + k] - u[b + k])
                for m in range(3):
                    entry = rest * (u[a + m] - u[b + m])
                    if m == k:
                        entry += f
                    out[first + a + m] -= entry
                    out[first + b + m] = entry
                    out[second + a + m] = entry
                    out[second + b + m] -= entry


@PROBLEMS.register("fekete")
class Fekete(TestSetProblem):
    r"""Twenty charges on the unit sphere that repel each other until they rest, index 2.

    For each point i = 1..20 at :math:`p_i \in R^3` with velocity :math:`q_i \in R^3` the residual is

    .. math::
        F_1 &= p_i' - q_i - 2 \mu_i p_i \\
        F_2 &= q_i' + \alpha q_i - 2 \lambda_i p_i - \sum_{j \ne i} \frac{p_i - p_j}{|p_i - p_j|^2} \\
        F_3 &= p_i^T p_i - 1 \\
        F_4 &= 2 p_i^T q_i .

    The potential is :math:`-\sum_{i<j} \log |p_i - p_j|`, so points at rest are a stationary point of the
    product of all distances, and friction leads to a (local) maximum of it: Fekete points. The multipliers
    :math:`\lambda_i` keep the points on the sphere; :math:`\mu_i = 0`, those of the velocity constraints
    in the stabilised form of Gear, Gupta and Leimkuhler, reduce the index to 2. At rest all
    :math:`\lambda_i = -(n - 1)/4` for n points, because
    :math:`p_i^T (p_i - p_j) = |p_i - p_j|^2 / 2` on the sphere.

    The state is (p, q, lambda, mu), with the three coordinates of each point together in p and q. The
    points start at rest on four circles of latitude and are in equilibrium long before t = 1000.
    """

    title = "Fekete points on a sphere, with stabilised constraints"
    record = "fekete"
    index = 2
    names = (
        *(f"{kind}{i}{axis}" for kind in "pq" for i in range(1, _POINTS + 1) for axis in "xyz"),
        *(f"{kind}{i}" for kind in ("lambda", "mu") for i in range(1, _POINTS + 1)),
    )
    equation_names = (
        *(f"velocity p{i}{axis}" for i in range(1, _POINTS + 1) for axis in "xyz"),
        *(f"force q{i}{axis}" for i in range(1, _POINTS + 1) for axis in "xyz"),
        *(f"sphere of point {i}" for i in range(1, _POINTS + 1)),
        *(f"tangent of point {i}" for i in range(1, _POINTS + 1)),
    )
    size = (6 * _POINTS, 2 * _POINTS)
    group_sizes = {"position": 3 * _POINTS, "velocity": 3 * _POINTS, "lambda": _POINTS, "mu": _POINTS}
    parameters = {**finite("1", "Friction", alpha=0.5)}
    reference = (
        f"{TEST_SET}, Fekete problem. Points: M. Shub, S. Smale: Complexity of Bezout's theorem III, J. "
        "Complexity 9 (1993), 4-14. Form: C. W. Gear, B. Leimkuhler, G. K. Gupta, J. Comput. Appl. Math. "
        "12/13 (1985), 77-90"
    )
    interval = (0.0, 1000.0)
    dt = 0.5
    time_unit = "1"
    residual_kernel = fekete_residual
    jacobian_kernel = fekete_jacobian

    def kernel_parameters(self) -> npt.ArrayLike:
        """The number of points and alpha."""
        return [_POINTS, self.alpha]
