"""A railway wheelset that rolls along a straight track."""

from __future__ import annotations

import math

import numpy as np

from dae_sdc.dae.kernels import inlined
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.problems._library import TEST_SET, TestSetProblem, positive

MASS = 16.08  # Mass of the wheelset in kg.
GRAVITY = 9.81  # Acceleration of gravity in m/s^2.
NOMINAL_RADIUS = 0.1  # Rolling radius of the centred wheelset in m.
AXIAL_INERTIA, INERTIA = 0.0605, 0.366
"""Moments of inertia about the axle and across it in kg m^2."""
ARM = 0.19  # Distance of the springs from the centre of the axle in m.
SPRING_X, SPRING_Z = 6400.0, 6400.0
"""Stiffness of the suspension across and along the track in N/m."""
HERTZ_E, HERTZ_G = 1.3537956, 0.7115218
"""Constants of Hertz's contact ellipse, its eccentricity and the ratio of its half-axes; unit 1."""
POISSON = 0.28  # Poisson's number of wheel and rail.
SHEAR = 7.92e10  # Shear modulus of wheel and rail in N/m^2.
CREEP_11, CREEP_22, CREEP_23 = 4.72772197, 4.27526987, 1.97203505
"""Kalker's creepage coefficients; unit 1."""
CONICITY = 0.0262  # Angle of the wheel cone in rad.
HALF_GAUGE = 0.1506  # Distance of the nominal contact points from the centre of the axle in m.
RAIL_RADIUS = 0.06  # Radius of the head of the rails in m.
FORCE = 1e4  # Unit of the multipliers in N.
PI = 3.1415926  # The number pi with the digits of the Test Set, on which its reference values depend.

Reals = tuple[float, ...]
_CONE = math.tan(CONICITY)
_RAIL_CENTRE = HALF_GAUGE + RAIL_RADIUS * math.sin(CONICITY)


@inlined
def _contact(side: float, x: float, angles: Reals, psi: float, xi: float) -> Reals:
    """R_s, S_s', S_s'', Q_s4, Q_s5, sine and cosine of the contact angle, and the two contact equations."""
    sth, cth, sph, cph = angles
    spsi, cpsi = np.sin(psi), np.cos(psi)
    radius = NOMINAL_RADIUS + _CONE * (HALF_GAUGE - side * xi)
    place = x + xi * cth * cph + radius * (cth * sph * cpsi - sth * spsi)
    inside = _RAIL_CENTRE - side * place
    height = np.sqrt(RAIL_RADIUS * RAIL_RADIUS - inside * inside)
    slope = side * inside / height
    bend = -RAIL_RADIUS * RAIL_RADIUS / (height * height * height)
    q4 = slope * (radius * (-cth * spsi - cpsi * sph * sth) - cph * sth * xi)
    q5 = -cpsi * radius * sph - cph * xi + slope * (cph * cpsi * cth * radius - cth * sph * xi)
    leaning = -side * _CONE * cph - sph * cpsi
    across, upward = leaning * cth + spsi * sth, -side * _CONE * sph + cpsi * cph
    tangent = -side * across / upward
    cosine = 1.0 / np.sqrt(1.0 + tangent * tangent)
    away, skew = slope * upward + across, leaning * sth - cth * spsi
    return radius, slope, bend, q4, q5, tangent * cosine, cosine, away, skew


@inlined
def _creep(
    side: float, speed: float, mu: float, rates: Reals, turned: Reals, contact: Reals, normal: float
) -> Reals:
    """Creep force in one contact: across, upwards and along the track.

    ``rates`` are the velocities vx, vy, vz, vtheta, vphi and the spin, ``turned`` is (theta, sin phi,
    cos phi), and ``contact`` is (psi, xi, R_s, S_s', S_s'', sine, cosine) with values of :func:`_contact`.
    """
    vx, vy, vz, vth, vph, spin = rates
    theta, sph, cph = turned
    psi, xi, radius, slope, bend, sd, cd = contact
    spsi, cpsi = np.sin(psi), np.cos(psi)
    st, ct = np.sin(theta / cd), np.cos(theta / cd)
    # Velocity (k1, k2, k3) of the contact point on the wheel, first without that of the centre of the axle.
    levered = xi * sph - radius * cph * cpsi
    k1 = -spin * radius * (st * cpsi + ct * sph * spsi) - vph * ct * levered
    k1 -= vth * (radius * (st * sph * cpsi + ct * spsi) + xi * st * cph)
    k2 = spin * radius * cph * spsi + vph * (xi * cph + radius * sph * cpsi)
    k3 = -spin * radius * (ct * cpsi - st * sph * spsi) + vph * st * levered
    k3 -= vth * (xi * ct * cph + radius * (ct * sph * cpsi - st * spsi))
    w1, w2, w3 = k1 - vx, k2 - vy, k3 - vz - speed
    rolling = 0.5 * np.sqrt(w1 * w1 + w2 * w2 + w3 * w3)
    k1, k2, k3 = k1 + vx, k2 + vy, k3 + vz + speed
    nx = (st * k1 + ct * k3) / rolling
    ny = (ct * cd * k1 + side * sd * k2 - st * cd * k3) / rolling
    spun = (cd * vth - side * sd * spin) / rolling
    # Size of the contact ellipse, from the curvatures of wheel and rail.
    flat, lean = 1.0 + _CONE * _CONE, 1.0 + slope * slope
    curvature = 0.5 / (radius * np.sqrt(flat)) - 0.5 * bend / (lean * np.sqrt(lean))
    size = normal if normal.real >= 0.0 else -normal
    size = size * 3.0 * (1.0 - POISSON) * HERTZ_E / (2.0 * PI * SHEAR * np.sqrt(HERTZ_G))
    ellipse = np.exp(np.log(size / curvature) / 3.0)
    limit = mu * normal
    stiff = SHEAR * ellipse * ellipse / limit
    t1 = -limit * np.tanh(stiff * CREEP_11 * nx)
    t2 = -limit * np.tanh(stiff * (CREEP_22 * ny + CREEP_23 * ellipse * spun))
    ratio = np.sqrt(t1 * t1 + t2 * t2) / limit
    if ratio.real < 0.0:
        ratio = -ratio
    if ratio.real > 1.0:
        t1, t2 = t1 / ratio, t2 / ratio
    return st * t1 + ct * cd * t2, side * sd * t2, ct * t1 - st * cd * t2


@inlined
def _torque(angles: Reals, psi: float, xi: float, radius: float, force: Reals) -> Reals:
    """Torque of one creep force about the vertical axis, the track and the axle."""
    sth, cth, sph, cph = angles
    t1, t2, t3 = force
    spsi, cpsi = radius * np.sin(psi), radius * np.cos(psi)
    yaw = (-xi * cth + spsi * sth * cph) * t3 - (xi * sth + spsi * cth * cph) * t1 - spsi * sph * t2
    roll = (xi * cph + cpsi * sph) * t2 + (xi * sth * sph - cpsi * sth * cph) * t3
    roll -= (xi * cth * sph - cpsi * cth * cph) * t1
    turn = spsi * cph * t2 - (cpsi * sth + spsi * cth * sph) * t1 - (cpsi * cth - spsi * sth * sph) * t3
    return yaw, roll, turn


def wheelset_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    speed, mu = p[0], p[1]
    x, theta, vx, vy, vz, vth, vph = u[0], u[3], u[5], u[6], u[7], u[8], u[9]
    psir, xir, psil, xil = u[11], u[12], u[13], u[14]
    e1, e2 = FORCE * u[15], FORCE * u[16]
    spin = speed / NOMINAL_RADIUS + u[10]
    sph, cph = np.sin(u[4]), np.cos(u[4])
    angles = np.sin(theta), np.cos(theta), sph, cph
    rl, sl, bl, ql4, ql5, sdl, cdl, awayl, skewl = _contact(1.0, x, angles, psil, xil)
    rr, sr, br, qr4, qr5, sdr, cdr, awayr, skewr = _contact(-1.0, x, angles, psir, xir)
    # The sum (w1, w2) of the constraint forces across and upwards is resolved into the two normal forces.
    w1, w2 = sl * e1 + sr * e2, -e1 - e2
    crossed = -sdl * cdr - sdr * cdl
    nl, nr = (cdr * w1 - sdr * w2) / crossed, (-cdl * w1 - sdl * w2) / crossed
    rates, turned = (vx, vy, vz, vth, vph, spin), (theta, sph, cph)
    fl1, fl2, fl3 = left = _creep(1.0, speed, mu, rates, turned, (psil, xil, rl, sl, bl, sdl, cdl), nl)
    fr1, fr2, fr3 = right = _creep(-1.0, speed, mu, rates, turned, (psir, xir, rr, sr, br, sdr, cdr), nr)
    yawl, rolll, turnl = _torque(angles, psil, xil, rl, left)
    yawr, rollr, turnr = _torque(angles, psir, xir, rr, right)
    yaw = yawl + yawr + ql4 * e1 + qr4 * e2 - 2.0 * ARM * ARM * SPRING_Z * theta * cph
    yaw += (2.0 * INERTIA - AXIAL_INERTIA) * vth * vph * sph - AXIAL_INERTIA * spin * vph
    roll = rolll + rollr + ql5 * e1 + qr5 * e2 + AXIAL_INERTIA * spin * vth * cph
    roll += (AXIAL_INERTIA - INERTIA) * vth * vth * sph * cph
    turn = turnl + turnr - 2.0 * ARM * ARM * SPRING_Z * theta * sph - AXIAL_INERTIA * vth * vph * cph
    for k in range(5):
        out[k] = du[k] - u[5 + k]
    out[5] = MASS * du[5] - (fl1 + fr1 + w1 - 2.0 * SPRING_X * x)
    out[6] = MASS * du[6] - (fl2 + fr2 + w2 - MASS * GRAVITY)
    out[7] = MASS * du[7] - (fl3 + fr3 - 2.0 * SPRING_Z * u[2])
    out[8] = INERTIA * cph * du[8] - yaw
    out[9] = INERTIA * du[9] - roll
    out[10] = AXIAL_INERTIA * (du[10] + sph * du[8]) - turn
    out[11] = awayl
    out[12] = skewl
    out[13] = awayr
    out[14] = skewr
    out[15] = sl * vx - vy + ql4 * vth + ql5 * vph
    out[16] = sr * vx - vy + qr4 * vth + qr5 * vph


@PROBLEMS.register("wheelset")
class Wheelset(TestSetProblem):
    r"""A wheelset that rolls along a straight track and swings from side to side, index 2.

    The centre of the wheelset is (x, y, z), x across the track, y upwards and z along the track relative to a
    point of speed v. It has the yaw angle :math:`\theta`, the roll angle :math:`\varphi` and the spin
    :math:`\omega + \beta` with :math:`\omega = v/r_0`. On each side s = L, R it touches the rail at the
    coordinate :math:`\xi_s` along its axle and the angle :math:`\psi_s` around it. With
    :math:`\sigma_L = 1` and :math:`\sigma_R = -1`, the wheel has the radius
    :math:`R_s = r_0 + \tan\delta_0\,(a - \sigma_s \xi_s)` there, of slope
    :math:`R_s' = -\sigma_s \tan\delta_0`, and the x coordinate of the contact is

    .. math::
        X_s = x + \xi_s \cos\theta \cos\varphi
            + R_s (\cos\theta \sin\varphi \cos\psi_s - \sin\theta \sin\psi_s) .

    The head of the rail is a circle of radius r. Its slope there is

    .. math::
        S_s' = \frac{\sigma_s d_s}{\sqrt{r^2 - d_s^2}}, \qquad d_s = a + r \sin\delta_0 - \sigma_s X_s ,

    and is defined only while the wheel is on the rail. The wheel keeps contact without penetration if
    :math:`Q_s^T (v_x, v_y, v_z, v_\theta, v_\varphi) = 0` with

    .. math::
        Q_{s1} &= S_s', \qquad Q_{s2} = -1, \qquad Q_{s3} = 0 \\
        Q_{s4} &= -S_s' \big(R_s (\cos\theta \sin\psi_s + \cos\psi_s \sin\varphi \sin\theta)
            + \xi_s \cos\varphi \sin\theta\big) \\
        Q_{s5} &= -R_s \cos\psi_s \sin\varphi - \xi_s \cos\varphi
            + S_s' (R_s \cos\varphi \cos\psi_s \cos\theta - \xi_s \cos\theta \sin\varphi) .

    With the constraint forces :math:`Q_s e_s`, where :math:`e_L = 10^4 \lambda_1` and
    :math:`e_R = 10^4 \lambda_2`, the creep forces :math:`T_s` and their torques :math:`M_s`, the residual is

    .. math::
        F_{1..5} &= (x, y, z, \theta, \varphi)' - (v_x, v_y, v_z, v_\theta, v_\varphi) \\
        F_6 &= m v_x' + 2 c_x x - \textstyle\sum_s (T_{s1} + Q_{s1} e_s) \\
        F_7 &= m v_y' + m g - \textstyle\sum_s (T_{s2} + Q_{s2} e_s) \\
        F_8 &= m v_z' + 2 c_z z - \textstyle\sum_s T_{s3} \\
        F_9 &= I_2 v_\theta' \cos\varphi - (2 I_2 - I_1) v_\theta v_\varphi \sin\varphi
            + I_1 (\omega + \beta) v_\varphi + 2 l^2 c_z \theta \cos\varphi
            - \textstyle\sum_s (M_{s1} + Q_{s4} e_s) \\
        F_{10} &= I_2 v_\varphi' - I_1 (\omega + \beta) v_\theta \cos\varphi
            + (I_2 - I_1) v_\theta^2 \sin\varphi \cos\varphi - \textstyle\sum_s (M_{s2} + Q_{s5} e_s) \\
        F_{11} &= I_1 (\beta' + v_\theta' \sin\varphi) + I_1 v_\theta v_\varphi \cos\varphi
            + 2 l^2 c_z \theta \sin\varphi - \textstyle\sum_s M_{s3} \\
        F_{12, 14} &= S_s' (R_s' \sin\varphi + \cos\varphi \cos\psi_s) + R_s' \cos\theta \cos\varphi
            - \cos\theta \sin\varphi \cos\psi_s + \sin\theta \sin\psi_s \\
        F_{13, 15} &= R_s' \sin\theta \cos\varphi - \sin\theta \sin\varphi \cos\psi_s
            - \cos\theta \sin\psi_s \\
        F_{16, 17} &= Q_{s1} v_x - v_y + Q_{s4} v_\theta + Q_{s5} v_\varphi

    with L before R. By :math:`F_{12}` to :math:`F_{15}` the surfaces of wheel and rail are parallel at the
    contact. The creep forces along the rail and across it, in the plane of contact, follow from the
    velocities :math:`\nu_1, \nu_2` and the spin :math:`\nu_3` of the contact point, relative to the rolling
    speed, by Kalker's linear theory with a bound,

    .. math::
        T_1 = -\mu N \tanh\frac{G c^2 C_{11} \nu_1}{\mu N}, \qquad
        T_2 = -\mu N \tanh\frac{G c^2 C_{22} \nu_2 + G c^3 C_{23} \nu_3}{\mu N} ,

    and the vector :math:`(T_1, T_2)` is shortened to the length :math:`\mu N` if it is longer. Here N is the
    normal force and c the size of Hertz's contact ellipse.

    The state is (x, y, z, theta, phi, their velocities, beta, psi_R, xi_R, psi_L, xi_L, lambda_1, lambda_2),
    the order of the test set.
    """

    title = "wheelset that rolls on a straight track"
    record = "wheelset"
    index = 2
    names = (
        *("x", "y", "z", "theta", "phi", "vx", "vy", "vz", "vtheta", "vphi", "beta"),
        *("psi_R", "xi_R", "psi_L", "xi_L", "lambda1", "lambda2"),
    )
    units = (
        *("m", "m", "m", "rad", "rad", "m/s", "m/s", "m/s", "rad/s", "rad/s", "rad/s"),
        *("rad", "m", "rad", "m", "1e4 N", "1e4 N"),
    )
    equation_names = (
        *(f"velocity {name}" for name in names[:5]),
        *(f"force {name}" for name in "xyz"),
        *("torque theta", "torque phi", "torque of the axle"),
        *(f"profiles {way} the track {side}" for side in "LR" for way in ("across", "along")),
        *("contact L", "contact R"),
    )
    size = (11, 6)
    group_sizes = {"position": 5, "velocity": 6, "contact": 4, "multiplier": 2}
    parameters = {
        **positive("m/s", "Speed along the track", v=30.0),
        **positive("1", "Coefficient of friction between wheel and rail", mu=0.12),
    }
    reference = (
        "B. Simeon, C. Fuehrer, P. Rentrop: Differential-algebraic equations in vehicle system dynamics, "
        f"Surveys Math. Indust. 1 (1991), 1-37. Data and solution: {TEST_SET}, wheelset"
    )
    interval = (0.0, 10.0)
    dt = 0.001
    residual_kernel = wheelset_residual
