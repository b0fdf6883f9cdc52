"""Models of circuits, of a flight, of small systems for structural analysis, and of mechanical systems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dae_sdc.problems._library import TEST_SET, load_record
from dae_sdc.problems._models import constraint_forces, library_model, start_at, total
from dae_sdc.problems.mechanisms import POSITIONS

if TYPE_CHECKING:
    from dae_sdc.model.model import Model


@library_model("op-amp-cascade", "{count} ideal differentiators in a row", interval=(0.0, 10.0))
def op_amp_cascade(model: Model, count: int = 10) -> None:
    """Differentiators made of ideal operational amplifiers, in a chain of length count: index count.

    The last voltage is the derivative of order count - 1 of the input, times (-1)^(count - 1).
    """
    from sympy import cos

    u = model.variables([f"u{k}" for k in range(1, count + 1)], unit="V")
    # -cos, -sin, cos, sin, -cos, ... at t = 0.
    values = (-1.0, 0.0, 1.0, 0.0)
    turns = [values[k % 4] for k in range(count)]
    start_at(model, [f"u{k}" for k in range(1, count + 1)], turns)
    model.equation(u[0] + cos(model.t), name="input")
    for k in range(1, count):
        model.equation(u[k] + model.der(u[k - 1]), name=f"stage {k}")


@library_model("diode-ladder", "ladder of {count} diodes", interval=(0.0, 0.02))
def diode_ladder(model: Model, count: int = 10) -> None:
    """Ladder of resistors with a capacitor and a diode from every second node to ground.

    The voltages of the other nodes and all currents of the resistors are algebraic: index 1 with 2 count
    unknown voltages and 2 count currents.
    """
    from sympy import exp, pi, sin

    resistance, capacitance = model.parameter("R", 100.0, unit="Ohm"), model.parameter("C", 1e-6, unit="F")
    saturation, thermal = model.parameter("I_s", 1e-12, unit="A"), model.parameter("U_T", 0.026, unit="V")
    before = sin(100 * pi * model.t)
    rungs = []
    for k in range(1, 2 * count + 1):
        voltage, current = model.variables([f"u{k}", f"i{k}"], start=0.0)
        rungs.append((voltage, current))
        model.equation(before - voltage - resistance * current, name=f"resistor {k}")
        before = voltage
    for k, (voltage, current) in enumerate(rungs, start=1):
        terms = [current]
        if k < 2 * count:
            terms.append(-rungs[k][1])
        if k % 2 == 0:
            terms += [-capacitance * model.der(voltage), -saturation * (exp(voltage / thermal) - 1)]
        model.equation(total(terms), name=f"node {k}")


_NAMES = ("H", "xi", "lambda", "V", "gamma", "A", "beta")
_UNITS_OF_SOURCE = ("ft", "rad", "rad", "ft/s", "rad", "rad", "rad")
_SOURCE = (
    "K. E. Brenan, S. L. Campbell, L. R. Petzold: Numerical Solution of Initial-Value Problems in "
    "Differential-Algebraic Equations, SIAM 1996, section 6.2"
)


def _flight(model: Model, state: tuple[Any, ...], lift: Any, drag: Any, area_by_mass: Any) -> Any:
    """Add the six equations of motion to the model; returns the deceleration by drag."""
    from sympy import cos, exp, sin, tan

    height, longitude, latitude, speed, path, azimuth, bank = state
    earth = model.parameter("a_e", 20902900.0, unit="ft")
    mu = model.parameter("mu", 0.1407653916e17, unit="ft^3/s^2")
    omega = model.parameter("Omega", 7.292115e-5, unit="rad/s")
    density = model.parameter("rho_0", 0.002378, unit="slug/ft^3")
    scale = model.parameter("scale", 23800.0, unit="ft")
    r = height + earth
    gravity = mu / r**2
    pressure = density * exp(-height / scale) * speed**2 / 2 * area_by_mass
    up, back = lift * pressure, drag * pressure
    cg, sg, ca, sa = cos(path), sin(path), cos(azimuth), sin(azimuth)
    cl, sl = cos(latitude), sin(latitude)
    rates = {
        height: speed * sg,
        longitude: speed * cg * sa / (r * cl),
        latitude: speed * cg * ca / r,
        speed: -back - gravity * sg - omega**2 * r * cl * (sl * ca * cg - cl * sg),
        path: up * cos(bank) / speed
        + cg / speed * (speed**2 / r - gravity)
        + 2 * omega * cl * sa
        + omega**2 * r * cl / speed * (sl * ca * sg + cl * cg),
        azimuth: up * sin(bank) / (speed * cg)
        + speed / r * cg * sa * tan(latitude)
        - 2 * omega * (cl * ca * tan(path) - sl)
        + omega**2 * r * cl * sl * sa / (speed * cg),
    }
    for unknown, rate in rates.items():
        model.equation(model.der(unknown) - rate, name=f"rate of {unknown}")
    return back


@library_model(
    "shuttle-initial",
    "reentry of the space shuttle, initial stage",
    interval=(332.868734542, 419.868734542),
    reference=_SOURCE,
)
def shuttle_initial(model: Model) -> None:
    """Reentry of the space shuttle, initial stage: the drag is a cubic polynomial of the speed, index 3."""
    state = model.variables(_NAMES, unit=_UNITS_OF_SOURCE)
    area = model.parameter("S", 2690.0, unit="ft^2")
    mass = model.parameter("m", 5964.496499824, unit="slug")
    # Coefficients of lift and drag at an angle of attack of 40 degrees.
    lift = model.parameter("C_L", 0.84 - 0.48 * (38.0 - 40.0) / 26.0)
    drag = model.parameter("C_D", 0.78 - 0.58 * (38.0 - 40.0) / 26.0)
    back = _flight(model, state, lift, drag, area / mass)
    coefficients = [3.974960446019, -0.01448947694635, -0.2156171551995e-4, -0.1089609507291e-7]
    start_speed = 24317.0798
    above = state[3] - model.parameter("V_0", start_speed, unit="ft/s")
    c = model.parameters("C_0 C_1 C_2 C_3", coefficients)
    model.equation(back - (c[0] + above * (c[1] + above * (c[2] + above * c[3]))), name="drag")
    degrees = [177.718047, 32.0417885, -0.749986488, 62.7883367, 41.100771834]
    longitude, latitude, path, azimuth, bank = (math.radians(value) for value in degrees)
    start_at(model, _NAMES, [264039.328, longitude, latitude, start_speed, path, azimuth, bank])


@library_model(
    "shuttle-final", "reentry of the space shuttle, final stage", interval=(0.0, 300.0), reference=_SOURCE
)
def shuttle_final(model: Model) -> None:
    """Reentry of the space shuttle, final stage: path angle and azimuth are prescribed, index 2."""
    from sympy import pi

    *state, attack = model.variables([*_NAMES, "alpha"], unit=[*_UNITS_OF_SOURCE, "rad"])
    lift = attack * 180 / pi / 100
    _flight(model, tuple(state), lift, lift**2 / 10 + 0.04, 1 / model.parameter("m/S", 2.890532728))
    part = (model.t / 300) ** 2
    model.equation(state[4] + pi / 180 * (1 + 9 * part), name="path angle")
    model.equation(state[5] - pi / 180 * (45 + 90 * part), name="azimuth")
    start = [100000.0, 0.0, 0.0, 12000.0, math.radians(-1.0), math.radians(45.0)]
    # From the equations; the published -0.9112291796e-3 and 0.4665038328e-1 agree to 6 and 8 digits.
    start_at(model, [*_NAMES, "alpha"], [*start, -0.911229054603211e-3, 0.4665038317151279e-1])


@library_model(
    "index-6",
    "linear system of index 6",
    interval=(0.0, 10.0),
    reference="example 'Index 6' of the package Indigo (D. Stocco, E. Bertolazzi, University of Trento)",
)
def index_six(model: Model) -> None:
    """Linear system of index 6: each equation contains the derivative of the unknown of the next one."""
    from sympy import cos, sin

    # The solution is 2 sin t, cos t, -sin t - cos t, sin t - 2 cos t, 2 sin t, cos t.
    x = model.variables([f"x{i}" for i in range(1, 7)], start=[0.0, 1.0, -1.0, -2.0, 0.0, 1.0])
    for i in range(1, 6):
        model.equation(model.der(x[6 - i]) + x[5 - i] - sin(model.t), name=f"link {i}")
    model.equation(x[5] - cos(model.t), name="drive")


@library_model(
    "reissig",
    "system of index 1 with a high structural index",
    interval=(0.0, 10.0),
    reference=(
        "G. Reissig, W. S. Martinson, P. I. Barton: Differential-algebraic equations of index 1 may have an "
        "arbitrarily high structural index, SIAM J. Sci. Comput. 21 (2000)"
    ),
)
def reissig(model: Model, stages: int = 2) -> None:
    """Linear systems of index 1 with the structural index stages + 1."""
    from sympy import cos

    model.name = f"reissig-{2 * stages + 1}"
    x = model.variables([f"x{i}" for i in range(1, 2 * stages + 2)])
    drive = cos(model.t)
    for i in range(stages):
        before, first, second = x[2 * i : 2 * i + 3]
        rates = model.der(first) + model.der(second)
        model.equation(rates + before - drive, name=f"sum {i + 1}")
        model.equation(rates + first - drive, name=f"difference {i + 1}")
    model.equation(x[-1] - drive, name="drive")
    # One unknown of each stage is free, the others follow.
    start_at(model, [f"x{2 * i}" for i in range(1, stages + 1)], [1.0] * stages)


@library_model(
    "gear-petzold",
    "linear system of index 2 with a factor t",
    interval=(0.0, 1.0),
    reference=(
        "C. W. Gear, L. R. Petzold: ODE methods for the solution of differential/algebraic systems, SIAM J. "
        "Numer. Anal. 21 (1984)"
    ),
)
def gear_petzold(model: Model) -> None:
    """Two equations whose matrix pencil is singular in time: index 2, no degree of freedom.

    The factors t hide from the signature matrix that a combination of the equations has no derivatives.
    """
    from sympy import cos, sin

    x, y = model.variables("x y", start=0.0)
    model.equation(x + model.t * y - sin(model.t), name="constraint")
    model.equation(model.der(x) + model.t * model.der(y) - cos(model.t) ** 2, name="rates")


def _elastic_rod(length: Any, width: Any, height: Any, density: Any, elasticity: Any) -> tuple[Any, ...]:
    """Mass, stiffness and skew-symmetric matrix of four modes of a rod, and its vectors c1, c2, c12, c21."""
    from sympy import Matrix, Rational, diag

    pi = Rational(31415927, 10000000)  # digits of the Test Set, on which its reference values depend
    half, third = Rational(1, 2), Rational(1, 3)
    area = width * height
    volume, ratio = area * length, (height / length) ** 2
    coupled = Matrix([[Rational(16, 3), -Rational(8, 3)], [-Rational(8, 3), Rational(7, 3)]])
    mass = density * volume * diag(half, half, Matrix([[8, 1], [1, 2]]))
    stiffness = elasticity * area / length * diag(pi**4 / 24 * ratio, 2 * pi**4 / 3 * ratio, coupled)
    turn = volume * Matrix(
        [
            [0, 0, -16 / pi**3, 8 / pi**3 - 1 / pi],
            [0, 0, 0, 1 / (2 * pi)],
            [16 / pi**3, 0, 0, 0],
            [1 / pi - 8 / pi**3, -1 / (2 * pi), 0, 0],
        ]
    )
    vectors = (
        volume * Matrix([0, 0, 2 * third, half * third]),
        volume * Matrix([2 / pi, 0, 0, 0]),
        volume * length * Matrix([0, 0, third, half * third]),
        volume * length * Matrix([1 / pi, -1 / (2 * pi), 0, 0]),
    )
    return mass, stiffness, turn, vectors


@library_model(
    "flexible-slider-crank",
    "slider crank with an elastic connecting rod",
    interval=(0.0, 0.1),
    dt=2e-5,
    reference=(
        "B. Simeon: Modelling a flexible slider crank mechanism by a mixed system of DAEs and PDEs, "
        f"Mathematical Modelling of Systems 2 (1996). {TEST_SET}"
    ),
)
def flexible_slider_crank(model: Model) -> None:
    """Slider crank with an elastic connecting rod and a crank at constant angular velocity, index 3."""
    from sympy import Matrix, cos, sin

    p = model.variables(POSITIONS, unit=["rad", "rad", *["m"] * 5])
    v = [model.der(x) for x in p]
    p1, p2, x3, *modes = p
    v1, v2 = v[:2]
    q, w = Matrix(modes), Matrix(v[3:])
    l1, l2 = model.parameters("L_1 L_2", [0.15, 0.30], unit="m")
    m2, m3 = model.parameters("m_2 m_3", [0.151104, 0.075552], unit="kg")
    j1, j2 = model.parameters("J_1 J_2", [0.002727, 0.0045339259], unit="kg m^2")
    h, d = model.parameters("height width", [0.008, 0.008], unit="m")
    rho, young = model.parameter("rho", 7870.0, unit="kg/m^3"), model.parameter("E", 2e11, unit="N/m^2")
    omega = model.parameter("Omega", 150.0, unit="rad/s")
    mass, stiffness, turn, (c1, c2, c12, c21) = _elastic_rod(l2, d, h, rho, young)
    s, c = sin(p1 - p2), cos(p1 - p2)

    coupling = l1 * l2 * m2 / 2
    matrix = Matrix.zeros(7, 7)
    matrix[0, 0] = j1 + m2 * l1**2
    matrix[0, 1] = matrix[1, 0] = coupling * c + rho * l1 * (c * c1.dot(q) + s * c2.dot(q))
    matrix[1, 1] = j2 + q.dot(mass * q) + 2 * rho * c12.dot(q)
    matrix[2, 2] = m3
    rows = (rho * l1 * (c * c2 - s * c1), rho * c21 + rho * turn.T * q)
    for k in range(4):
        for i, row in enumerate(rows):
            matrix[i, 3 + k] = matrix[3 + k, i] = row[k]
        for j in range(4):
            matrix[3 + k, 3 + j] = mass[k, j]
    forces = [
        -coupling * v2**2 * s
        + rho * l1 * v2**2 * (c * c2.dot(q) - s * c1.dot(q))
        - 2 * rho * l1 * v2 * (c * c1.dot(w) + s * c2.dot(w)),
        coupling * v1**2 * s
        + rho * l1 * v1**2 * (s * c1.dot(q) - c * c2.dot(q))
        - 2 * rho * v2 * c12.dot(w)
        - 2 * v2 * w.dot(mass * q)
        - rho * w.dot(turn * w),
        0,
        *(
            v2**2 * mass * q
            + rho * (v2**2 * c12 + l1 * v1**2 * (c * c1 + s * c2) + 2 * v2 * turn * w)
            - stiffness * q
        ),
    ]
    constraints = {
        "height of the slider": l1 * sin(p1) + (l2 + modes[3]) * sin(p2),
        "place of the slider": x3 - l1 * cos(p1) - (l2 + modes[3]) * cos(p2),
        "turn of the crank": p1 - omega * model.t,
    }
    pulls = constraint_forces(model, constraints, p)
    accelerations = [model.der(x, 2) for x in p]
    for i, name in enumerate(POSITIONS):
        inertia = total([matrix[i, j] * accelerations[j] for j in range(7)])
        model.equation(inertia - forces[i] + pulls[i], name=f"force {name}")
    model.equations(**constraints)
    record = load_record("slidercrank")
    for order in range(3):
        start_at(model, POSITIONS, record.u0[7 * order : 7 * order + 7], order)
    start_at(model, [f"lambda_{k}" for k in range(1, 4)], record.u0[21:])


@library_model(
    "slider-crank-4",
    "rigid slider crank in four unknowns",
    interval=(0.0, 1.0),
    reference="N. Mani: Symbolic-numeric analysis of DAEs, thesis, University of Western Ontario 2010",
)
def slider_crank_four(model: Model) -> None:
    """Rigid slider crank with four unknowns, among them one multiplier: index 3."""
    from sympy import cos, sin

    place, crank, force, rod = model.variables("x crank force rod")
    c, s, cr, sr = cos(crank), sin(crank), cos(rod), sin(rod)
    v, w = model.der(crank), model.der(rod)
    a, b = model.der(crank, 2), model.der(rod, 2)
    model.equation(2 * sr + s, name="height of the slider")
    model.equation(place - 2 * cr - c, name="place of the slider")
    together = c * cr + s * sr
    model.equation(
        13 * a / 4 + 3 * b * together - c * force + 24 * c - 3 * w**2 * (c * sr - s * cr), name="moment crank"
    )
    model.equation(
        3 * a * together + 6 * b - 2 * cr * force + 29 * cr - 3 * v**2 * (cr * s - sr * c), name="moment rod"
    )
    # At rest with the crank at 30 degrees.
    angle = math.pi / 6
    swing = -math.asin(math.sin(angle) / 2)
    start_at(model, ["x", "crank", "rod"], [2 * math.cos(swing) + math.cos(angle), angle, swing])
    start_at(model, ["crank", "rod"], [0.0, 0.0], 1)


@library_model(
    "robot-arm",
    "robot arm with a flexible joint that follows a path",
    interval=(0.0, 1.0),
    reference=(
        "S. L. Campbell, E. Griepentrog: Solvability of general differential algebraic equations, SIAM J. "
        "Sci. Comput. 16 (1995)"
    ),
)
def robot_arm(model: Model) -> None:
    """Two-link robot arm with a flexible joint and a prescribed path: index 5, structural index 3.

    The path is prescribed by the angles x1 = 1 - exp(t), x3 = exp(t) - t.
    """
    from sympy import cos, exp, sin

    x1, x2, x3 = model.variables("x1 x2 x3", unit="rad")
    u1, u2 = model.variables("u1 u2")
    below = 2 - cos(x3) ** 2
    a, b, c, d = 2 / below, cos(x3) / below, sin(x3) / below, sin(x3) * cos(x3) / below
    v1, v3 = model.der(x1), model.der(x3)
    both, bend = (v1 + v3) ** 2, 2 * x3 - x2
    first = 2 * c * both + v1**2 * d + bend * (a + 2 * b) + a * (u1 - u2)
    second = -2 * c * both - v1**2 * d + bend * (1 - 3 * a - 2 * b) - a * u1 + (a + 1) * u2
    third = -2 * c * both - v1**2 * d + bend * (a - 9 * b) - 2 * v1**2 * c - d * both - (a + b) * (u1 - u2)
    for x, expression in ((x1, first), (x2, second), (x3, third)):
        model.equation(model.der(x, 2) - expression, name=f"acceleration {x}")
    t = model.t
    model.equation(cos(x1) + cos(x1 + x3) - cos(1 - exp(t)) - cos(1 - t), name="path x")
    model.equation(sin(x1) + sin(x1 + x3) - sin(1 - exp(t)) - sin(1 - t), name="path y")
    # There is no degree of freedom: path and equations determine all initial values.
    start = [0.0, 0.953750351180719, 1.0, -4.278125486452564, -0.7437526892113923]
    start_at(model, ["x1", "x2", "x3", "u1", "u2"], start)
    start_at(model, ["x1", "x2", "x3"], [-1.0, -2.531916879010538, 0.0], 1)


@library_model(
    "charges-on-sphere",
    "{count} charges on a sphere",
    interval=(0.0, 1000.0),
    dt=0.5,
    reference=f"{TEST_SET}, Fekete problem",
    least=2,
)
def charges_on_sphere(model: Model, count: int = 4) -> None:
    """Charges on the unit sphere that repel each other until they rest, index 3.

    For 20 charges these are equations and start of the Fekete problem without its stabilisation;
    :class:`~dae_sdc.problems.mechanics.Fekete` is the stabilised form of index 2.
    """
    alpha = model.parameter("alpha", 0.5)
    points = [model.variables([f"p{i}{axis}" for axis in "xyz"]) for i in range(1, count + 1)]
    multipliers = model.variables([f"lambda{i}" for i in range(1, count + 1)], start=0.0)
    for i, point in enumerate(points):
        pushes: list[list[Any]] = [[], [], []]
        for j, other in enumerate(points):
            if j != i:
                apart = [x - y for x, y in zip(point, other, strict=True)]
                square = total([x**2 for x in apart])
                for push, x in zip(pushes, apart, strict=True):
                    push.append(x / square)
        for x, push in zip(point, pushes, strict=True):
            force = model.der(x, 2) + alpha * model.der(x) - 2 * multipliers[i] * x
            model.equation(force - total(push), name=f"force {x}")
    for i, point in enumerate(points, start=1):
        model.equation(total([x**2 for x in point]) - 1, name=f"sphere of point {i}")
    names = [f"p{i}{axis}" for i in range(1, count + 1) for axis in "xyz"]
    if count == 20:  # the start of the Test Set
        record = load_record("fekete")
        start_at(model, names, record.u0[:60])
        start_at(model, names, record.u0[60:120], 1)
        start_at(model, [f"lambda{i}" for i in range(1, 21)], record.u0[120:140])
        return
    # Otherwise at rest on a spiral from pole to pole.
    height = 1 - (2 * np.arange(count) + 1) / count
    turn = math.pi * (3 - math.sqrt(5)) * np.arange(count)
    width = np.sqrt(1 - height**2)
    places = np.stack([width * np.cos(turn), width * np.sin(turn), height], axis=1)
    start_at(model, names, places.ravel())
    start_at(model, names, [0.0] * len(names), 1)


# Points of the suspension in m: x forwards, y to the left, z up; chosen for this package, like a small car.
_CHASSIS = {
    "upper front": (0.15, 0.35, 0.50),
    "upper rear": (-0.15, 0.35, 0.48),
    "lower front": (0.18, 0.25, 0.20),
    "lower rear": (-0.18, 0.25, 0.18),
    "rack": (-0.12, 0.28, 0.26),
    "strut": (0.0, 0.38, 0.62),
}
_UPRIGHT = {"u": (-0.01, 0.62, 0.50), "l": (0.01, 0.68, 0.17), "r": (-0.12, 0.66, 0.25)}
_MASSES = {"u": 6.0, "l": 22.0, "r": 4.0}


@library_model("double-wishbone", "double-wishbone suspension on a bumpy road", interval=(0.0, 1.0))
def double_wishbone(model: Model) -> None:
    """Double-wishbone suspension of a wheel on a bumpy road: rigid links, one degree of freedom, index 3.

    The upright consists of three point masses at fixed distances: the upper and lower ball joint u and l, and
    the end r of the tie rod. Two links of each wishbone and the tie rod join them to the chassis, which does
    not move. A strut with a damper supports the lower joint, and the tyre is a spring on a wavy road. All
    data are chosen for this package.
    """
    from sympy import pi, sin, sqrt

    joints = {
        joint: model.variables([f"{axis}_{joint}" for axis in "xyz"], start=list(place), unit="m")
        for joint, place in _UPRIGHT.items()
    }
    g = model.parameter("g", 9.81, unit="m/s^2")
    stiffness, damping = model.parameter("k", 30e3, unit="N/m"), model.parameter("d", 2e3, unit="N s/m")
    tyre, wave = model.parameter("k_t", 180e3, unit="N/m"), model.parameter("h", 0.02, unit="m")
    rest, load = model.parameter("rest", 0.649, unit="m"), model.parameter("load", 3000.0, unit="N")

    def square(first: Sequence[Any], second: Sequence[Any]) -> Any:
        return total([(a - b) ** 2 for a, b in zip(first, second, strict=True)])

    links = {
        "upright u-l": ("u", "l"),
        "upright l-r": ("l", "r"),
        "upright r-u": ("r", "u"),
        **{name: ("u" if name[0] == "u" else "l", name) for name in list(_CHASSIS)[:4]},
        "tie rod": ("r", "rack"),
    }
    places = {**_UPRIGHT, **_CHASSIS}
    ends = {**joints, **_CHASSIS}
    constraints = {
        f"length {name}": square(ends[a], ends[b]) - round(math.dist(places[a], places[b]) ** 2, 12)
        for name, (a, b) in links.items()
    }
    q = [x for joint in joints.values() for x in joint]
    pulls = dict(zip(q, constraint_forces(model, constraints, q), strict=True))
    lower, top = joints["l"], _CHASSIS["strut"]
    length = sqrt(square(lower, top))
    push = stiffness * (rest - length) - damping * model.der(length)
    # On an even road the force of the tyre is the load; the frequency of the wave is 5 Hz.
    road = wave * sin(10 * pi * model.t)
    ground = load + tyre * (road - (lower[2] - _UPRIGHT["l"][2]))
    for joint, position in joints.items():
        for axis, x in zip("xyz", position, strict=True):
            force = -_MASSES[joint] * g if axis == "z" else 0
            if joint == "l":
                force += push * (x - top["xyz".index(axis)]) / length + (ground if axis == "z" else 0)
            model.equation(_MASSES[joint] * model.der(x, 2) - force + pulls[x], name=f"force {x}")
    model.equations(**constraints)
    names = [str(x) for x in q]
    start_at(model, names, [0.0] * len(names), 1)


_UNITS_OF_PENDULUM = ("m", "m", "1/s^2")  # Units of x, y and of the tension by mass and length.


@library_model(
    "pendula",
    "{count} pendula, the tension of each setting the length of the next",
    interval=(0.0, 10.0),
    reference='N. S. Nedialkov, J. D. Pryce: DAETS user guide, 2009: "chained pendula"',
)
def pendula(model: Model, count: int = 2) -> None:
    """Row of pendula in which the tension of each changes the length of the next: index 2 count + 1."""
    g = model.parameter("g", 9.8, unit="m/s^2")
    coupling = model.parameter("c", 0.1, unit="m s^2")
    # Near the equilibrium, so that no length comes close to zero, where a pendulum is singular.
    angle, rest = 0.1, 1.0
    before: Any = None
    for i in range(1, count + 1):
        start = [rest * math.sin(angle), rest * math.cos(angle), 9.8 / rest]
        x, y, tension = model.variables(
            [f"x{i}", f"y{i}", f"lambda{i}"], start=start, unit=_UNITS_OF_PENDULUM
        )
        start_at(model, [f"x{i}", f"y{i}"], [0.0, 0.0], 1)
        rest = 1.0 + 0.1 * start[2]
        length = 1 if before is None else 1 + coupling * before
        model.equation(model.der(x, 2) + x * tension, name=f"force x{i}")
        model.equation(model.der(y, 2) + y * tension - g, name=f"force y{i}")
        model.equation(x**2 + y**2 - length**2, name=f"length {i}")
        before = tension


@library_model("pendulum-chain", "chain of {count} point masses on rigid links", interval=(0.0, 1.0))
def pendulum_chain(model: Model, count: int = 10) -> None:
    """Chain of point masses on rigid links: 3 count equations of index 3."""
    g = model.parameter("g", 9.81, unit="m/s^2")
    # The chain starts from rest along a straight line, 30 degrees below the horizontal.
    across, down = math.cos(math.pi / 6.0), -math.sin(math.pi / 6.0)
    points = [
        model.variables(
            [f"x{i}", f"y{i}", f"lambda{i}"], start=[i * across, i * down, 0.0], unit=_UNITS_OF_PENDULUM
        )
        for i in range(1, count + 1)
    ]
    links = []
    for i, (x, y, _) in enumerate(points):
        x0, y0 = points[i - 1][:2] if i else (0, 0)
        links.append((x - x0, y - y0))
    for i, (x, y, tension) in enumerate(points):
        pull_x, pull_y = tension * links[i][0], tension * links[i][1]
        if i + 1 < count:
            follower = points[i + 1][2]
            pull_x, pull_y = pull_x - follower * links[i + 1][0], pull_y - follower * links[i + 1][1]
        model.equation(model.der(x, 2) + pull_x, name=f"force x{i + 1}")
        model.equation(model.der(y, 2) + pull_y + g, name=f"force y{i + 1}")
        model.equation(links[i][0] ** 2 + links[i][1] ** 2 - 1, name=f"link {i + 1}")
        start_at(model, [f"x{i + 1}", f"y{i + 1}"], [0.0, 0.0], 1)
