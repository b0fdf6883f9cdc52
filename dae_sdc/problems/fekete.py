"""Charges that repel each other on a sphere: Fekete points."""

from __future__ import annotations

import numpy.typing as npt

from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.problems._parameters import finite
from dae_sdc.problems._testset import TestSetProblem

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

    References
    ----------
    F. Mazzia, C. Magherini: Test Set for Initial Value Problem Solvers, release 2.4, University of Bari 2008,
    Fekete problem. Points: M. Shub, S. Smale: Complexity of Bezout's theorem III, J. Complexity 9 (1993),
    4-14. Form: C. W. Gear, B. Leimkuhler, G. K. Gupta, J. Comput. Appl. Math. 12/13 (1985), 77-90.
    """

    title = "Fekete points on a sphere, with stabilised constraints"
    record = "fekete"
    index = 2
    names = (
        *(f"{kind}{i}{axis}" for kind in "pq" for i in range(1, _POINTS + 1) for axis in "xyz"),
        *(f"{kind}{i}" for kind in ("lambda", "mu") for i in range(1, _POINTS + 1)),
    )
    units = ("1",) * (8 * _POINTS)
    equation_names = (
        *(f"velocity p{i}{axis}" for i in range(1, _POINTS + 1) for axis in "xyz"),
        *(f"force q{i}{axis}" for i in range(1, _POINTS + 1) for axis in "xyz"),
        *(f"sphere of point {i}" for i in range(1, _POINTS + 1)),
        *(f"tangent of point {i}" for i in range(1, _POINTS + 1)),
    )
    size = (6 * _POINTS, 2 * _POINTS)
    group_sizes = {"position": 3 * _POINTS, "velocity": 3 * _POINTS, "lambda": _POINTS, "mu": _POINTS}
    parameters = {**finite("1", "Friction", alpha=0.5)}
    reference = "Mazzia, Magherini, Test Set for IVP Solvers 2.4 (2008), Fekete problem"
    interval = (0.0, 1000.0)
    dt = 0.5
    time_unit = "1"
    residual_kernel = fekete_residual
    jacobian_kernel = fekete_jacobian

    def kernel_parameters(self) -> npt.ArrayLike:
        """The number of points and alpha."""
        return [_POINTS, self.alpha]
