"""The elastic pendulum: an ordinary differential equation with a fast and a slow motion."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import ReferenceRangeError
from dae_sdc.problems._parameters import LibraryProblem, positive

_START = (0.5, -1.0, 0.0, 0.0)
_T_END = 5.0
_SLACK = 1e-9
"""Times up to this distance from an end of the interval count as that end."""

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
    """F of :class:`ElasticPendulum`."""
    x, y = u[0], u[1]
    pull = p[0] * (1.0 - 1.0 / math.sqrt(x * x + y * y))
    out[0] = du[0] - u[2]
    out[1] = du[1] - u[3]
    out[2] = du[2] + x * pull
    out[3] = du[3] + y * pull + 1.0


def elastic_pendulum_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    """dF/du' + c dF/du of :class:`ElasticPendulum`."""
    x, y = u[0], u[1]
    square = x * x + y * y
    r = math.sqrt(square)
    pull, bend = c * p[0] * (1.0 - 1.0 / r), c * p[0] / (square * r)
    out[0], out[1], out[2], out[3] = 1.0, 0.0, -c, 0.0
    out[4], out[5], out[6], out[7] = 0.0, 1.0, 0.0, -c
    out[8], out[9], out[10], out[11] = pull + bend * x * x, bend * x * y, 1.0, 0.0
    out[12], out[13], out[14], out[15] = bend * x * y, pull + bend * y * y, 0.0, 1.0


@PROBLEMS.register("elastic-pendulum")
class ElasticPendulum(LibraryProblem):
    r"""Mass on a spring that swings and bounces: an ordinary differential equation.

    In units of the mass, the length of the spring at rest and gravity, the residual is

    .. math::
        F_1 &= y_1' - y_3, & F_3 &= y_3' + L y_1, \\
        F_2 &= y_2' - y_4, & F_4 &= y_4' + L y_2 + 1,

    with :math:`L = k (r - 1)/r` and :math:`r = \sqrt{y_1^2 + y_2^2}`. The mass starts from rest at
    (0.5, -1). It swings with a frequency near 1 and bounces along the spring with a frequency near
    :math:`\sqrt k`: a stiff spring has a fast undamped oscillation, which many methods damp or amplify.
    The energy :math:`\tfrac12 (y_3^2 + y_4^2) + \tfrac12 k (r - 1)^2 + y_2` is constant.

    References
    ----------
    P. Lynch: Resonant motions of the three-dimensional elastic pendulum, International Journal of Non-Linear
    Mechanics 37 (2002), pages 345-367. The end values were computed for this package with 45 digits.
    """

    title = "elastic pendulum"
    index = 0
    names = ("y1", "y2", "y3", "y4")
    units = ("1", "1", "1", "1")
    equation_names = ("velocity y1", "velocity y2", "force y1", "force y2")
    size = (4, 0)
    group_sizes = {"position": 2, "velocity": 2}
    parameters = {
        **positive("1", "Spring constant in units of weight by length at rest", k=1.0),
    }
    reference = "Lynch, Int. J. Non-Linear Mech. 37 (2002) 345-367"
    interval = (0.0, _T_END)
    dt = 0.01
    time_unit = "1"
    residual_kernel = elastic_pendulum_residual
    jacobian_kernel = elastic_pendulum_jacobian

    def energy(self, q: npt.ArrayLike, v: npt.ArrayLike) -> float:
        """Kinetic energy and the potentials of spring and gravity, constant along a solution.

        Parameters
        ----------
        q, v : array_like
            Position (y1, y2) and velocity (y3, y4), shape (2,).

        Returns
        -------
        float
            Energy in units of weight times length at rest.
        """
        x, y = np.asarray(q, dtype=np.float64).tolist()
        vx, vy = np.asarray(v, dtype=np.float64).tolist()
        stretch = math.hypot(x, y) - 1.0
        energy: float = 0.5 * (vx * vx + vy * vy) + 0.5 * self.k * stretch * stretch + y
        return energy

    def u_exact(self, t: float) -> MeshDAE:
        """The initial value at t = 0, and at t = 5 the stored solution for k = 1, 10, 100, 1000, 1500.

        Raises
        ------
        ReferenceRangeError
            At other times, and at t = 5 for another k.
        """
        if abs(t) <= _SLACK:
            return self.state(_START)
        if abs(t - _T_END) > _SLACK:
            raise ReferenceRangeError(
                f"the solution of ElasticPendulum is stored at t=0 and t={_T_END:g} only; got t={t:g}"
            )
        if self.k not in _ENDS:
            raise ReferenceRangeError(
                f"the solution of ElasticPendulum is stored for k={', '.join(f'{k:g}' for k in _ENDS)}; "
                f"this one has k={self.k}; compute a reference with a tight tolerance"
            )
        return self.state(_ENDS[self.k])

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative of the solution; raises like :meth:`u_exact`."""
        x, y, vx, vy = self.u_exact(t).tolist()
        pull = self.k * (1.0 - 1.0 / math.hypot(x, y))
        return self.state([vx, vy, -x * pull, -y * pull - 1.0])
