"""A tyre of ribs that roll side by side, on a quarter of a car."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_banded
from scipy.optimize import brentq

from dae_sdc.dae.kernels import inlined
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, require_count
from dae_sdc.problems._library import Parameter, SolvedProblem, Values, finite, positive

GRAVITY_OF_CAR = 9.81  # Acceleration of gravity in m/s^2.

BUMP_AT, BRAKE_AT = 0.3, 0.6
"""Times in s at which the wheel is on top of the bump, and at which half of the brake torque acts."""

_BODY = 6  # Number of unknowns of body and wheel; those of the ribs follow.
_ROOT_TOLERANCE = 1e-15  # Absolute and relative tolerance of deflections (m) and velocities (rad/s) at rest.


@inlined
def in_contact(deflection: float) -> float:
    """The deflection of a rib, zero where it is above the road."""
    return deflection if deflection > 0.0 else 0.0 * deflection


@inlined
def tread_load(stiffness: float, compression: float) -> float:
    """Load of a tread under a compression, stiffness * compression^1.5; zero where it has lifted."""
    if compression > 0.0:
        return stiffness * compression * math.sqrt(compression)
    return 0.0 * compression


@inlined
def brush_force(adhesion: float, limit: float) -> float:
    """Friction of the bristles in a contact patch under a parabolic pressure.

    Bristles stick where their own force is below that of friction. With q = ``adhesion``, the force if all
    stuck, and P = 3 ``limit``, where ``limit`` is friction times load, the force is
    q (1 - abs(q)/P + q^2/(3 P^2)) for abs(q) < P, and beyond, where all slide, ``limit`` in the direction
    of q.
    """
    size = adhesion if adhesion > 0.0 else -adhesion
    whole = 3.0 * limit
    if size < whole:
        part = size / whole
        return adhesion * (1.0 - part + part * part / 3.0)
    return limit if adhesion > 0.0 else -limit


def brush_tyre_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    n, m_s, m_u, spring, damper, inertia = int(p[0]), p[1], p[2], p[3], p[4], p[5]
    radius, width, tilt, friction, bristle = p[6], p[7], math.tan(p[8]), p[9], p[10]
    tread, belt, bending = p[11] / n, p[12] / n, p[13] * n
    carcass, loss, shear, drag = p[14] / n, p[15] / n, p[16] * n, p[17]
    height, bump, brake, ramp, drive = p[19], p[20], p[21], p[22], p[23]
    z_s, z_u, v, omega = u[0], u[1], u[4], u[5]
    d, w, slip = _BODY, _BODY + n, _BODY + 2 * n
    passed = (t - BUMP_AT) / bump
    road = height * math.exp(-passed * passed)
    braked = 0.5 * brake * (1.0 + math.tanh((t - BRAKE_AT) / ramp))
    load, force, torque = 0.0 * z_u, 0.0 * z_u, 0.0 * z_u
    for i in range(n):
        deflection = road - z_u + width * ((i + 0.5) / n - 0.5) * tilt
        normal = tread_load(tread, deflection - u[w + i])
        # Half of the patch is a with a^2 = 2 R deflection, the chord of a circle that is little deflected.
        stiff = 4.0 * bristle * radius / n * in_contact(deflection)
        rolling = radius - deflection / 3.0
        carried = omega * rolling
        pull = brush_force(stiff * u[slip + i], friction * normal)
        rate = carried * (1.0 - u[slip + i]) - v
        bent, sheared = belt * u[w + i], carcass * u[d + i] + loss * rate
        if i > 0:
            bent += bending * (u[w + i] - u[w + i - 1])
            sheared += shear * (u[d + i] - u[d + i - 1])
        if i < n - 1:
            bent += bending * (u[w + i] - u[w + i + 1])
            sheared += shear * (u[d + i] - u[d + i + 1])
        out[d + i] = du[d + i] - rate
        out[w + i] = bent - normal
        out[slip + i] = sheared - pull
        load += normal
        force += pull
        torque += pull * rolling
    suspension = spring * (z_u - z_s) + damper * (u[3] - u[2])
    out[0] = du[0] - u[2]
    out[1] = du[1] - u[3]
    out[2] = m_s * du[2] - suspension
    out[3] = m_u * du[3] + suspension + (m_s + m_u) * GRAVITY_OF_CAR - load
    out[4] = (m_s + m_u) * du[4] - force + drag * v * abs(v)
    out[5] = inertia * du[5] + torque + braked - drive


class Cruise(NamedTuple):
    """A tyre that rolls at constant speed on a flat road."""

    state: Vector  # All unknowns, shape (6 + 3 ribs,).
    torque: float  # Torque at the wheel that holds the speed (N m).


@PROBLEMS.register("brush-tyre")
class BrushTyre(SolvedProblem):
    r"""Quarter of a car on a tyre of ribs, over a bump and then braked, index 1.

    Body and wheel move up and down by :math:`z_s` and :math:`z_u`, and roll with the speed v and the angular
    velocity :math:`\omega`. The tyre consists of N ribs side by side, of the lateral positions
    :math:`y_i`. Rib i is deflected by :math:`\delta_i`, which is shared by the belt (:math:`w_i`) and the
    tread; its tread is carried along by the belt, displaced by :math:`d_i` along the wheel, and slips by
    :math:`\sigma_i`,

    .. math::
        m_s z_s'' &= S, \qquad m_u z_u'' = \textstyle\sum_i N_i - S - (m_s + m_u) g, \qquad
            S = k (z_u - z_s) + c (z_u' - z_s') \\
        (m_s + m_u) v' &= \textstyle\sum_i F_i - c_w v |v|, \qquad
            J \omega' = T - B(t) - \textstyle\sum_i F_i R_i \\
        d_i' &= \omega R_i (1 - \sigma_i) - v \\
        0 &= k_w w_i + k_b (2 w_i - w_{i-1} - w_{i+1}) - N_i \\
        0 &= k_d d_i + c_d d_i' + k_h (2 d_i - d_{i-1} - d_{i+1}) - F_i

    with, for the road :math:`h(t) = h_0 e^{-((t - 0.3)/\tau)^2}` and the camber :math:`\gamma`,

    .. math::
        \delta_i = h - z_u + y_i \tan(\gamma), \qquad R_i = R - \delta_i/3, \qquad
        N_i = k_t \max(\delta_i - w_i, 0)^{3/2} .

    The bristles of a rib are bent by :math:`(a - \xi) \sigma` along its patch of the length 2 a,
    :math:`a^2 = 2 R \delta_i`, until their force exceeds that of friction under the pressure
    :math:`3 N (a^2 - \xi^2) / (4 a^3)`. All of them together give

    .. math::
        F = q \Big(1 - \frac{|q|}{3 \mu N} + \frac{q^2}{27 \mu^2 N^2}\Big), \qquad
        q = 2 c_p a^2 \sigma, \qquad |q| < 3 \mu N,

    and :math:`\mu N` in the direction of q where :math:`|q| \ge 3 \mu N` and all slide. At small slip
    :math:`F = 2 c_p a^2 \sigma`. Stiffnesses are those of the whole tyre; a rib has 1/N of
    :math:`k_t, k_w, k_d, c_d` and :math:`c_p`, and the neighbours that it has are joined to it by N times
    :math:`k_b` and :math:`k_h`.

    The constraints determine :math:`w_i` and :math:`\sigma_i`: the first are monotone in w, and the second in
    :math:`\sigma` as long as the wheel turns, also where all bristles slide, because of the damping
    :math:`c_d`. The car starts at rest relative to itself: the torque T holds the speed ``speed`` on the flat
    road. The brake torque rises as :math:`B = \tfrac12 B_0 (1 + \tanh((t - 0.6)/\tau_b))`. F has continuous
    first derivatives; second ones jump where a rib begins to slide as a whole and where its slip changes its
    sign, and are infinite where a rib lifts off.
    """

    title = "quarter of a car on a brush tyre of ribs"
    index = 1
    parameters = {
        "ribs": Parameter(5, "1", "Number of ribs"),
        **positive("kg", "Mass of the body", m_s=350.0),
        **positive("kg", "Mass of the wheel", m_u=40.0),
        **positive("N/m", "Stiffness of the suspension", k=2e4),
        **positive("N s/m", "Damping of the suspension", c=1500.0),
        **positive("kg m^2", "Moment of inertia of the wheel", J=1.0),
        **positive("m", "Radius of the tyre", R=0.31),
        **positive("m", "Width of the tyre", width=0.2),
        **finite("rad", "Camber", camber=0.03),
        **positive("1", "Coefficient of friction", mu=1.0),
        **positive("N/m^2", "Stiffness of the bristles along the patch", c_p=3e6),
        **positive("N/m^1.5", "Stiffness of the tread under load", k_t=2.5e7),
        **positive("N/m", "Stiffness of the belt under load", k_w=2.5e5),
        **finite("N/m", "Bending stiffness of the belt from rib to rib, not negative", k_b=1e4),
        **positive("N/m", "Stiffness of the carcass along the wheel", k_d=4e5),
        **positive("N s/m", "Damping of the carcass along the wheel", c_d=500.0),
        **finite("N/m", "Shear stiffness of the carcass from rib to rib, not negative", k_h=2e4),
        **finite("kg/m", "Drag by the square of the speed, not negative", c_w=0.1),
        **positive("m/s", "Speed at the start", speed=25.0),
        **finite("m", "Height of the bump", h_0=0.02),
        **positive("s", "Time in which the wheel passes the bump", tau=0.03),
        **finite("N m", "Brake torque", B_0=1000.0),
        **positive("s", "Time in which the brake torque rises", tau_b=0.02),
    }
    reference = (
        "H. B. Pacejka: Tire and Vehicle Dynamics, 3rd edition, Elsevier 2012, chapter 3, for the brush; the "
        "ribs, their carcass and the car are made for this package"
    )
    interval = (0.0, 1.0)
    dt = 0.002
    residual_kernel = brush_tyre_residual

    ribs: int
    speed: float
    camber: float

    def _check_parameters(self) -> None:
        require_count("ribs of BrushTyre", self.ribs, 10_000)
        for name in ("k_b", "k_h", "c_w"):
            if getattr(self, name) < 0.0:
                raise InputError(f"{name} of BrushTyre must not be negative; got {getattr(self, name)}")

    def _counts(self) -> tuple[int, int]:
        """Numbers of differential and algebraic unknowns; sets the names of all."""
        n = int(self.ribs)
        numbers = range(1, n + 1)
        self.names = (
            *("z_s", "z_u", "der(z_s)", "der(z_u)", "v", "omega"),
            *(f"{name}[{i}]" for name in ("d", "w", "sigma") for i in numbers),
        )
        self.units = (*("m",) * 2, *("m/s",) * 3, "rad/s", *("m",) * (2 * n), *("1",) * n)
        self.equation_names = (
            *("velocity of the body", "velocity of the wheel", "body up", "wheel up", "car along", "spin"),
            *(f"{what} {i}" for what in ("slip of rib", "belt under rib", "carcass at rib") for i in numbers),
        )
        return _BODY + n, 2 * n

    def kernel_parameters(self) -> npt.ArrayLike:
        """The parameters in the order of the table, and the torque that holds the speed."""
        return [*np.asarray(super().kernel_parameters()).tolist(), self.cruise().torque]

    def cruise(self) -> Cruise:
        """The tyre that rolls on a flat road at the speed of the start, without brake."""
        n, weight = self.n_alg // 2, (self.m_s + self.m_u) * GRAVITY_OF_CAR
        offsets = self.offsets()
        belt = _joined(n, self.k_w / n, self.k_b * n)

        def excess(height: float) -> float:
            return float(self._pressed(offsets - height, belt)[1].sum() - weight)

        z_u = _root(excess, float(offsets.max()), -self.R, "the tyre does not carry the car")
        deflections = offsets - z_u
        w, loads = self._pressed(deflections, belt)
        radii = self.R - deflections / 3.0
        stiff = 4.0 * self.c_p * self.R / n * np.maximum(deflections, 0.0)

        def pulls(omega: float) -> Vector:
            adhesion = stiff * (1.0 - self.speed / (omega * radii))
            return np.array([brush_force(q, self.mu * load) for q, load in zip(adhesion, loads, strict=True)])

        drag = self.c_w * self.speed**2
        rolling = self.speed / radii
        omega = _root(
            lambda omega: float(pulls(omega).sum()) - drag,
            0.5 * float(rolling.min()),
            2.0 * float(rolling.max()),
            "friction cannot overcome drag",
        )
        forces = pulls(omega)
        d = _solved(_joined(n, self.k_d / n, self.k_h * n), forces)
        slips = 1.0 - self.speed / (omega * radii)
        state = np.concatenate([[z_u, z_u, 0.0, 0.0, self.speed, omega], d, w, slips])
        return Cruise(state, float(forces @ radii))

    def offsets(self) -> Vector:
        """How much more the ribs are deflected than the middle of the tyre, by camber; shape (ribs,)."""
        n = self.n_alg // 2
        return np.asarray(self.width * ((np.arange(n) + 0.5) / n - 0.5) * math.tan(self.camber))

    def _pressed(self, deflections: Vector, belt: Vector) -> tuple[Vector, Vector]:
        """Deflections of belt and ribs; Newton's iterates rise to them, as Jacobians are M-matrices."""
        n = len(deflections)
        w = np.zeros(n)
        while True:
            compressions = np.maximum(deflections - w, 0.0)
            loads = self.k_t / n * compressions**1.5
            matrix = belt.copy()
            matrix[1] += 1.5 * self.k_t / n * np.sqrt(compressions)
            shared = belt[1] * w
            shared[1:] += belt[0, 1:] * w[:-1]
            shared[:-1] += belt[0, 1:] * w[1:]
            step = _solved(matrix, loads - shared)
            w += step
            if not step.max() > _ROOT_TOLERANCE:
                return w, loads

    def _solution(self, t: float) -> Values:
        self._only_at_start(t)
        return self.cruise().state, np.zeros(self.n)

    def road(self, t: float) -> float:
        """Height of the road under the tyre in m."""
        return float(self.h_0 * math.exp(-(((t - BUMP_AT) / self.tau) ** 2)))

    def energy(self, u: npt.ArrayLike, t: float) -> float:
        """Kinetic energy and the potentials of springs, ribs and weight.

        It changes by the powers of torques, drag and the moving road, and by the losses of damper, carcass
        and friction, and is zero at rest with the tyre just above the road; in J.
        """
        z_s, z_u, v_s, v_u, v, omega, *rest = np.asarray(u, dtype=np.float64).tolist()
        n = self.n_alg // 2
        d, w, _ = np.reshape(rest, (3, n))
        offsets = self.offsets()
        compressions = np.maximum(self.road(t) + offsets - z_u - w, 0.0)
        moving = self.m_s * v_s**2 + self.m_u * v_u**2 + (self.m_s + self.m_u) * v**2 + self.J * omega**2
        springs = self.k * (z_u - z_s) ** 2
        for bent, own, joint in ((w, self.k_w / n, self.k_b * n), (d, self.k_d / n, self.k_h * n)):
            springs += own * (bent @ bent) + joint * (np.diff(bent) @ np.diff(bent))
        ribs = 0.4 * self.k_t / n * (compressions**2.5).sum()
        # The suspension carries the body at rest, so that its weight moves with the wheel.
        weight = (self.m_s + self.m_u) * GRAVITY_OF_CAR
        return float(0.5 * (moving + springs) + weight * z_u + ribs)


def _joined(n: int, own: float, joint: float) -> Vector:
    """The stiffness matrix of n springs in a row of joints, upper bands of shape (2, n)."""
    bands = np.full((2, n), -joint)
    bands[1] = own + 2.0 * joint
    bands[1, 0] -= joint
    bands[1, -1] -= joint
    return bands


def _solved(bands: Vector, right: Vector) -> Vector:
    """The solution of a system with a matrix of :func:`_joined`."""
    whole = np.vstack([bands, np.append(bands[0, 1:], 0.0)])
    return np.asarray(solve_banded((1, 1), whole, right))


def _root(function: Callable[[float], float], below: float, above: float, problem: str) -> float:
    """Where a function that increases from ``below`` to ``above`` is zero; refused if it is not between."""
    if not function(below) <= 0.0 <= function(above):
        raise InputError(f"BrushTyre has no start: {problem}")
    return float(brentq(function, below, above, xtol=_ROOT_TOLERANCE, rtol=_ROOT_TOLERANCE))
