"""Mechanical systems whose positions lie on a manifold: A u'' + B lambda = h, g(t, u) = 0, of index 3."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dae_sdc.constrained.equations import QuasiLagrangeProblem, QuasiSecondOrderProblem
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError
from dae_sdc.problems._library import (
    HAIRER_LUBICH_ROCHE,
    HAIRER_WANNER,
    TEST_SET,
    SolvedProblem,
    StoredEnds,
    Values,
    finite,
    formulation,
    load_record,
    positive,
)
from dae_sdc.problems._models import Expressions, Symbols, also_model, constraint_forces, total
from dae_sdc.problems.mechanics import Pendulum2D
from dae_sdc.problems.mechanisms import (
    ANGLES,
    squeezer_bend,
    squeezer_gradient,
    squeezer_loops,
    squeezer_masses,
    squeezer_moments,
    squeezer_sines,
)

if TYPE_CHECKING:
    from dae_sdc.model.model import Model

# --- rigid pendulum -------------------------------------------------------------------------------


def unit_mass_of_two(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1] = 1.0, 0.0
    out[2], out[3] = 0.0, 1.0


def pendulum_h(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1] = 0.0, -p[0]


def pendulum_g(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = 0.5 * (u[0] * u[0] + u[1] * u[1] - 1.0)


def pendulum_dg(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1] = u[0], u[1]


def pendulum_d2g(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = v[0] * v[0] + v[1] * v[1]


@PROBLEMS.register("rigid-pendulum")
class RigidPendulum(SolvedProblem, QuasiLagrangeProblem):
    r"""Pendulum of unit mass and length as an Euler-Lagrange problem, index 3.

    .. math::
        x'' + \lambda x = 0, \qquad y'' + \lambda y = -\gamma, \qquad
        g = \tfrac12 (x^2 + y^2 - 1) = 0

    With this factor of the constraint :math:`\lambda` is the tension of the rod. Along solutions also
    :math:`x v_x + y v_y = 0` and :math:`v_x^2 + v_y^2 - \gamma y = \lambda (x^2 + y^2)` hold.

    The mass starts from rest at (1, 0) and returns after the time
    :math:`4 K(1/2)/\sqrt\gamma`, which is 2.00000033 for the default :math:`\gamma`. The solution in elliptic
    functions is that of :class:`~dae_sdc.problems.mechanics.Pendulum2D` with the opposite sign of x.
    """

    title = "pendulum of unit mass and length on its circle"
    index = 3
    names = ("x", "y", "v_x", "v_y", "lambda")
    units = ("1", "1", "1/s", "1/s", "1/s^2")
    constraint_names = ("length of the rod",)
    size = (2, 1)
    parameters = {
        **positive(
            "1/s^2", "Acceleration of gravity :math:`\\gamma` by the length of the rod", gravity=13.7503671
        ),
        **formulation("index-3", "index-2", "ggl", "index-1"),
    }
    reference = (
        f"{HAIRER_LUBICH_ROCHE}, page 8. The solution in elliptic functions: D. F. Lawden: Elliptic "
        "Functions and Applications, Springer 1989, chapter 5"
    )
    interval = (0.0, 4.0)
    dt = 0.02
    A_kernel = unit_mass_of_two
    h_kernel = pendulum_h
    g_kernel = pendulum_g
    dg_kernel = pendulum_dg
    d2g_kernel = pendulum_d2g

    def energy(self, q: npt.ArrayLike, v: npt.ArrayLike) -> float:
        """Kinetic and potential energy of unit mass in 1/s^2, zero along the solution from rest at (1, 0)."""
        _, y = np.asarray(q, dtype=np.float64).tolist()
        vx, vy = np.asarray(v, dtype=np.float64).tolist()
        return float(0.5 * (vx * vx + vy * vy) + self.gravity * y)

    def _solution(self, t: float) -> Values:
        mirrored = Pendulum2D(g=self.gravity)
        x, y, vx, vy, tension = mirrored.u_exact(t).tolist()
        _, _, ax, ay, rate = mirrored.du_exact(t).tolist()
        return self.packed([-x, y], [-vx, vy], [tension]), self.packed([-vx, vy], [-ax, ay], [rate])


# --- particle on a torus --------------------------------------------------------------------------


def torus_A(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    for i in range(9):
        out[i] = 0.0
    out[0], out[4], out[8] = 1.0, 1.0, 1.0


def torus_B(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    c = 1.0 - p[1] / math.sqrt(u[0] * u[0] + u[1] * u[1])
    out[0], out[1], out[2] = -2.0 * c * u[0], -2.0 * c * u[1], -2.0 * u[2]


def torus_h(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    s, c = math.sin(t), math.cos(t)
    out[0] = v[2] * c - u[2] * s - v[1]
    out[1] = v[2] * s + u[2] * c + v[0]
    out[2] = -u[2]


def torus_g(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    distance = math.sqrt(u[0] * u[0] + u[1] * u[1]) - p[1]
    out[0] = distance * distance + u[2] * u[2] - p[0] * p[0]


def torus_dg(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    c = 1.0 - p[1] / math.sqrt(u[0] * u[0] + u[1] * u[1])
    out[0], out[1], out[2] = 2.0 * c * u[0], 2.0 * c * u[1], 2.0 * u[2]


def torus_d2g(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    square = u[0] * u[0] + u[1] * u[1]
    turn = u[0] * v[1] - u[1] * v[0]
    bend = p[1] * turn * turn / (square * math.sqrt(square))
    out[0] = 2.0 * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2] - bend)


@also_model("torus-particle")
@PROBLEMS.register("torus-particle")
class TorusParticle(SolvedProblem, QuasiSecondOrderProblem):
    r"""Particle that is held on a torus and driven along a curve on it, index 3.

    With the velocities :math:`u = x'`, which are unknowns named "der(x1)" to "der(x3)", and
    :math:`c = 1 - r/\sqrt{x_1^2 + x_2^2}` the equations are

    .. math::
        u_1' &= u_3 \cos t - x_3 \sin t - u_2 + 2 c x_1 \lambda, \\
        u_2' &= u_3 \sin t + x_3 \cos t + u_1 + 2 c x_2 \lambda, \\
        u_3' &= -x_3 + 2 x_3 \lambda, \\
        0 &= \Big(\sqrt{x_1^2 + x_2^2} - r\Big)^2 + x_3^2 - \rho^2,

    in the form :math:`A u' + B \lambda = h` with B the negative gradient of the constraint. The forces are
    such that a solution without constraint lies on the torus,

    .. math::
        x = \big((\rho \cos t + r) \cos t,\; (\rho \cos t + r) \sin t,\; -\rho \sin t\big), \qquad
        \lambda = 0 .

    They do work, so no energy is constant, and numerical errors off the torus are not damped.
    """

    title = "particle on a torus"
    index = 3
    names = ("x1", "x2", "x3", "der(x1)", "der(x2)", "der(x3)", "lambda")
    constraint_names = ("radius of the tube",)
    size = (3, 1)
    parameters = {
        **positive("1", "Radius of the tube", rho=5.0),
        **positive("1", "Distance of the middle of the tube from the axis, larger than rho", r=10.0),
        **formulation("index-3", "index-2", "ggl", "index-1"),
    }
    reference = (
        "S. L. Campbell, E. Moore: Constraint preserving integrators for general nonlinear higher index "
        "DAEs, Numerische Mathematik 69 (1995), pages 383-399"
    )
    interval = (0.0, 10.0)
    dt = 0.05
    time_unit = "1"
    A_kernel = torus_A
    B_kernel = torus_B
    h_kernel = torus_h
    g_kernel = torus_g
    dg_kernel = torus_dg
    fixed_constraints = True
    d2g_kernel = torus_d2g

    def _check_parameters(self) -> None:
        if self.rho >= self.r:
            raise InputError(f"rho of {type(self).__name__} must be less than r={self.r}; got {self.rho}")

    def _solution(self, t: float) -> Values:
        s, c = math.sin(t), math.cos(t)
        double, twice = math.sin(2.0 * t), math.cos(2.0 * t)
        distance, rho, r = self.rho * c + self.r, self.rho, self.r
        q = [distance * c, distance * s, -rho * s]
        v = [-rho * double - r * s, rho * twice + r * c, -rho * c]
        a = [-2.0 * rho * twice - r * c, -2.0 * rho * double - r * s, rho * s]
        return self.packed(q, v, [0.0]), self.packed(v, a, [0.0])


# --- seven-body mechanism -------------------------------------------------------------------------


def seven_A(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    for i in range(49):
        out[i] = 0.0
    m11, m21, m22, m33, m44, m54, m55, m66, m76, m77 = squeezer_masses(
        np.cos(u[1]), np.sin(u[3]), np.sin(u[5])
    )
    out[0], out[1], out[7], out[8] = m11, m21, m21, m22
    out[16] = m33
    out[24], out[25], out[31], out[32] = m44, m54, m54, m55
    out[40], out[41], out[47], out[48] = m66, m76, m76, m77


def seven_h(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1], out[2], out[3], out[4], out[5], out[6] = squeezer_moments(
        (v[0], v[1], v[3], v[4], v[5], v[6]),
        (np.sin(u[1]), np.cos(u[3]), np.cos(u[5]), np.sin(u[2]), np.cos(u[2])),
    )


def seven_g(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    sines = squeezer_sines(u[0], u[1], u[2], u[3], u[4], u[5], u[6])
    out[0], out[1], out[2], out[3], out[4], out[5] = squeezer_loops(sines)


def seven_dg(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    xbe, xth, ybe, yth, xga, yga, xph, xde, yph, yde, xom, xep, yom, yep = squeezer_gradient(
        squeezer_sines(u[0], u[1], u[2], u[3], u[4], u[5], u[6])
    )
    for i in range(42):
        out[i] = 0.0
    for i in range(3):
        out[14 * i], out[14 * i + 1], out[14 * i + 7], out[14 * i + 8] = xbe, xth, ybe, yth
    out[2], out[9] = xga, yga
    out[17], out[18], out[24], out[25] = xph, xde, yph, yde
    out[33], out[34], out[40], out[41] = xom, xep, yom, yep


def seven_d2g(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1], out[2], out[3], out[4], out[5] = squeezer_bend(
        squeezer_sines(u[0], u[1], u[2], u[3], u[4], u[5], u[6]),
        *(v[0], v[0] + v[1], v[2], v[3] + v[4], v[4], v[5] + v[6], v[6]),
    )


def seven_equations(model: Model, u: Symbols) -> Expressions:
    """Lagrange's equations of the mechanism, and the loops."""
    from sympy import Matrix, cos, sin, sqrt

    q = be, th, ga, ph, de, om, ep = u[:7]
    speeds = [model.der(angle) for angle in q]
    m11, m21, m22, m33, m44, m54, m55, m66, m76, m77 = squeezer_masses(cos(th), sin(ph), sin(om))
    masses = Matrix.zeros(7, 7)
    entries = {(0, 0): m11, (1, 0): m21, (1, 1): m22, (2, 2): m33, (3, 3): m44, (4, 3): m54, (4, 4): m55}
    for (i, j), value in {**entries, (5, 5): m66, (6, 5): m76, (6, 6): m77}.items():
        masses[i, j] = masses[j, i] = value
    # The motor turns beta with a constant moment; the spring reaches from a point of the third body.
    kinetic = (Matrix(speeds).T * masses * Matrix(speeds))[0] / 2
    xd = 0.02 * cos(ga) + 0.018 * sin(ga) - 0.03635
    yd = 0.02 * sin(ga) - 0.018 * cos(ga) + 0.03273
    stretch = sqrt((xd - 0.014) ** 2 + (yd - 0.072) ** 2) - 0.07785
    potential = 4530 * stretch**2 / 2 - 0.033 * be
    angles = (be, be + th, ga, ph + de, de, om + ep, ep)
    sines = [function(angle) for angle in angles for function in (sin, cos)]
    loops = {f"loop {k}": loop for k, loop in enumerate(squeezer_loops(tuple(sines)), start=1)}
    pulls = constraint_forces(model, loops, q, u[7:])
    moments = {}
    for i, angle in enumerate(q):
        # The derivative of the momentum comes from the product rule.
        momentum = total([masses[i, j] * speeds[j] for j in range(7)])
        force = model.der(momentum) - kinetic.diff(angle) + potential.diff(angle)
        moments[f"moment {angle}"] = force + pulls[i]
        model.start(model.der(angle, 2), load_record("andrews").u0[14 + i])
    return {**moments, **loops}


@also_model("seven-body", equations=seven_equations)
@PROBLEMS.register("seven-body")
class SevenBody(StoredEnds, QuasiLagrangeProblem):
    r"""Andrews' squeezing mechanism as an Euler-Lagrange problem, index 3.

    .. math::
        M(q)\, q'' + G(q)^T \lambda = f(q, q'), \qquad g(q) = 0

    with the angles :math:`q = (\beta, \Theta, \gamma, \Phi, \delta, \Omega, \varepsilon)` and M, f, g and all
    numbers of :class:`~dae_sdc.problems.mechanisms.Andrews`, which has the accelerations among its unknowns.
    Here accelerations and multipliers :math:`\lambda`, the forces in the joints, follow from the equations.
    The mechanism starts at rest.
    """

    title = "seven-body mechanism of Andrews without accelerations"
    index = 3
    names = (
        *ANGLES,
        *(f"der({x})" for x in ANGLES),
        *(f"lambda_{i}" for i in range(1, 7)),
    )
    units = (*("rad",) * 7, *("rad/s",) * 7, *("N",) * 6)
    constraint_names = tuple(f"loop {i}" for i in range(1, 7))
    size = (7, 6)
    parameters = formulation("index-3", "index-2", "ggl", "index-1")
    reference = f"{HAIRER_WANNER}, section VII.7. {TEST_SET}, Andrews' squeezing mechanism"
    interval = (0.0, 0.03)
    dt = 1e-4
    record = "andrews"
    independent_of = ("formulation",)
    A_kernel = seven_A
    h_kernel = seven_h
    g_kernel = seven_g
    dg_kernel = seven_dg
    d2g_kernel = seven_d2g

    def _arranged(self, values: npt.ArrayLike) -> MeshDAE:
        positions, velocities, _, multipliers = np.split(np.asarray(values), (7, 14, 21))
        return self.packed(positions, velocities, multipliers)


# --- slider crank of rigid bodies -----------------------------------------------------------------


def rigid_crank_A(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    for i in range(81):
        out[i] = 0.0
    for body in range(3):
        out[30 * body], out[30 * body + 10], out[30 * body + 20] = p[body], p[body], p[body + 3]


def rigid_crank_h(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    for body in range(3):
        out[3 * body], out[3 * body + 1], out[3 * body + 2] = 0.0, -p[body] * p[8], 0.0
    out[2] = p[9]


def rigid_crank_g(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    half, other = 0.5 * p[6], 0.5 * p[7]
    x, y, a, b = half * math.cos(u[2]), half * math.sin(u[2]), other * math.cos(u[5]), other * math.sin(u[5])
    out[0], out[1] = u[0] - x, u[1] - y
    out[2], out[3] = u[0] + x - u[3] + a, u[1] + y - u[4] + b
    out[4], out[5] = u[3] + a - u[6], u[4] + b - u[7]
    out[6], out[7] = u[7], u[8]


def rigid_crank_dg(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    half, other = 0.5 * p[6], 0.5 * p[7]
    x, y, a, b = half * math.cos(u[2]), half * math.sin(u[2]), other * math.cos(u[5]), other * math.sin(u[5])
    for i in range(72):
        out[i] = 0.0
    out[0], out[2] = 1.0, y
    out[10], out[11] = 1.0, -x
    out[18], out[20], out[21], out[23] = 1.0, -y, -1.0, -b
    out[28], out[29], out[31], out[32] = 1.0, x, -1.0, a
    out[39], out[41], out[42] = 1.0, -b, -1.0
    out[49], out[50], out[52] = 1.0, a, -1.0
    out[61] = 1.0
    out[71] = 1.0


def rigid_crank_d2g(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    half, other = 0.5 * p[6] * v[2] * v[2], 0.5 * p[7] * v[5] * v[5]
    x, y, a, b = half * math.cos(u[2]), half * math.sin(u[2]), other * math.cos(u[5]), other * math.sin(u[5])
    out[0], out[1] = x, y
    out[2], out[3] = -x - a, -y - b
    out[4], out[5] = -a, -b
    out[6], out[7] = 0.0, 0.0


@PROBLEMS.register("rigid-slider-crank")
class RigidSliderCrank(SolvedProblem, QuasiLagrangeProblem):
    r"""Slider crank of three rigid bodies in absolute coordinates, index 3.

    Crank, rod and slider have the positions :math:`(x_i, y_i)` of their centres of mass and the angles
    :math:`\phi_i`. Crank and rod are thin and uniform, with the moments of inertia
    :math:`J_i = m_i l_i^2/12`. Gravity pulls down, and a constant torque T turns the crank,

    .. math::
        m_i x_i'' + (G^T \lambda)_{x_i} &= 0, \\
        m_i y_i'' + (G^T \lambda)_{y_i} &= -m_i \gamma, \\
        J_i \phi_i'' + (G^T \lambda)_{\phi_i} &= \delta_{i1} T,

    where G is the derivative of the joints: bearing, crank pin, wrist pin, and the guide of the slider,

    .. math::
        0 &= x_1 - \tfrac12 l_1 \cos\phi_1, & 0 &= y_1 - \tfrac12 l_1 \sin\phi_1, \\
        0 &= x_1 + \tfrac12 l_1 \cos\phi_1 - x_2 + \tfrac12 l_2 \cos\phi_2, &
        0 &= y_1 + \tfrac12 l_1 \sin\phi_1 - y_2 + \tfrac12 l_2 \sin\phi_2, \\
        0 &= x_2 + \tfrac12 l_2 \cos\phi_2 - x_3, & 0 &= y_2 + \tfrac12 l_2 \sin\phi_2 - y_3, \\
        0 &= y_3, & 0 &= \phi_3 .

    The multipliers are the forces in the joints and the moment on the guide. With :math:`l_2 > l_1` the
    crank passes no singular position. The mechanism starts at rest with
    :math:`\phi_1 = \pi/4`; :meth:`assembled` gives other starts for :meth:`consistent`.
    """

    title = "slider crank of rigid bodies in absolute coordinates"
    index = 3
    names = (
        *(f"{x}_{i}" for i in (1, 2, 3) for x in ("x", "y", "phi")),
        *(f"v_{x}_{i}" for i in (1, 2, 3) for x in ("x", "y", "phi")),
        *(f"lambda_{i}" for i in range(1, 9)),
    )
    units = (*("m", "m", "rad") * 3, *("m/s", "m/s", "rad/s") * 3, *("N",) * 7, "N m")
    constraint_names = (
        *("bearing x", "bearing y", "crank pin x", "crank pin y", "wrist pin x", "wrist pin y"),
        *("height of the slider", "angle of the slider"),
    )
    size = (9, 8)
    parameters = {
        **positive("kg", "Masses of crank, rod and slider", m1=1.0, m2=2.0, m3=1.0),
        **positive("m", "Lengths of crank and rod, of which the rod is the longer", l1=0.5, l2=1.0),
        **positive("kg m^2", "Moment of inertia of the slider, which does not turn", J3=0.01),
        **finite("m/s^2", "Acceleration of gravity", gravity=9.81),
        **finite("N m", "Torque on the crank", torque=0.0),
        **formulation("index-3", "index-2", "ggl", "index-1"),
    }
    reference = (
        "E. J. Haug: Computer Aided Kinematics and Dynamics of Mechanical Systems, volume 1, Allyn and Bacon "
        "1989, section 5.5 and chapter 6"
    )
    interval = (0.0, 2.0)
    dt = 0.01
    A_kernel = rigid_crank_A
    h_kernel = rigid_crank_h
    g_kernel = rigid_crank_g
    dg_kernel = rigid_crank_dg
    d2g_kernel = rigid_crank_d2g

    def _check_parameters(self) -> None:
        if self.l1 >= self.l2:
            raise InputError(f"l1 of {type(self).__name__} must be less than l2={self.l2}; got {self.l1}")

    def kernel_parameters(self) -> npt.ArrayLike:
        """Masses, moments of inertia, lengths, gravity, and torque."""
        inertia = [self.m1 * self.l1**2 / 12.0, self.m2 * self.l2**2 / 12.0, self.J3]
        return [self.m1, self.m2, self.m3, *inertia, self.l1, self.l2, self.gravity, self.torque]

    def energy(self, q: npt.ArrayLike, v: npt.ArrayLike) -> float:
        """Kinetic and potential energy in J, less the work T phi_1 of the torque; constant."""
        place, speed = (np.asarray(x, dtype=np.float64).reshape(3, 3) for x in (q, v))
        p = np.asarray(self.kernel_parameters(), dtype=np.float64)
        inertia = np.stack([p[:3], p[:3], p[3:6]], axis=1)
        potential = self.gravity * p[:3] @ place[:, 1] - self.torque * place[0, 2]
        return float(0.5 * (inertia * speed**2).sum() + potential)

    def assembled(self, phi: float, rate: float = 0.0) -> tuple[Vector, Vector]:
        """Positions and velocities of the bodies, shape (9,), by angle and angular velocity of the crank.

        The slider is to the right of the crank.
        """
        x, y = 0.5 * self.l1 * math.cos(phi), 0.5 * self.l1 * math.sin(phi)
        rod = -math.asin(2.0 * y / self.l2)
        a, b = 0.5 * self.l2 * math.cos(rod), -y
        turn = -x * rate / a
        q = [x, y, phi, 2.0 * x + a, y, rod, 2.0 * (x + a), 0.0, 0.0]
        speed = -2.0 * y * rate - b * turn
        v = [-y * rate, x * rate, rate, speed, x * rate, turn, speed - b * turn, 0.0, 0.0]
        return np.array(q), np.array(v)

    def _solution(self, t: float) -> Values:
        """The start, from which the motion is even in time, so that the multipliers do not change there."""
        self._only_at_start(t)
        q, v = self.assembled(0.25 * math.pi)
        acceleration, multipliers = self.saddle_point(0.0, q, v)
        return self.packed(q, v, multipliers), self.packed(v, acceleration, np.zeros(8))
