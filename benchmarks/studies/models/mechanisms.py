"""Checks of the mechanisms in files of Modelica: motions by Lagrange's equations in fewest coordinates.

Intervals are short enough, and motions quiet enough, that errors do not grow as they do in chaos.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import sympy as sp

from benchmarks.studies.models.cases import Case, Flight, against, integrated
from dae_sdc.dae.state import Vector

TIME = sp.Symbol("t")
_TURNS = ("theta", "w", "alpha")  # What the thesis calls an angle, its velocity and acceleration
Point = tuple[Any, Any]
Start = str | tuple[str | float, str | float]


class Motion:
    r"""The motion of a mechanism by its energies, at the times of a flight.

    .. math::
        \frac{d}{dt} \frac{\partial T}{\partial v} - \frac{\partial (T - V)}{\partial q}
        = Q + \left(\frac{\partial h}{\partial q}\right)^T \mu, \qquad h(q) = 0
    """

    def __init__(
        self,
        flight: Flight,
        starts: Sequence[Start],  # Of free coordinates: unknowns or numbers, or a part whose angle it is
        q: Sequence[Any],  # Coordinates, those first that loops do not determine, and their rates
        v: Sequence[Any],
        kinetic: Any,
        potential: Any,
        forces: Mapping[Any, Any] | None = None,  # Generalized forces by coordinate
        loops: Sequence[Any] = (),  # What vanishes where loops are closed
        closed: Callable[[Sequence[float]], Sequence[float]] = lambda free: free,  # All q from the free ones
    ) -> None:
        self.symbols, self.t = [q, v, sp.symbols(f"a:{len(q)}"), TIME], flight.t
        free, held = len(starts), len(loops)
        rates, places = sp.Matrix(v), sp.Matrix(q)
        momentum = sp.Matrix([kinetic]).jacobian(rates).T
        force = sp.Matrix([kinetic - potential]).jacobian(places).T
        force += sp.Matrix([(forces or {}).get(x, 0) for x in q])
        turns = sp.Matrix(held, 1, list(loops)).jacobian(places) if held else sp.zeros(0, len(q))
        drift = (turns * rates).jacobian(places) * rates if held else sp.zeros(0, 1)
        parts = [momentum.jacobian(rates), force - momentum.jacobian(places) * rates, turns, drift]
        evaluate = sp.lambdify([q, v, TIME], [part.tolist() for part in parts], "math", cse=True)

        def state(time: float, y: Vector) -> tuple[Vector, Vector, Vector, Vector]:
            """Coordinates, rates, accelerations and multipliers."""
            place, speed = np.array(closed(y[:free].tolist())), np.concatenate([y[free:], np.zeros(held)])
            if held:
                turn = np.array(evaluate(place.tolist(), speed.tolist(), time)[2])
                speed[free:] = np.linalg.solve(turn[:, free:], -turn[:, :free] @ speed[:free])
            mass, right, turn, bend = evaluate(place.tolist(), speed.tolist(), time)
            turn = np.reshape(turn, (held, len(q)))
            matrix = np.block([[np.array(mass), -turn.T], [turn, np.zeros((held, held))]])
            both = np.linalg.solve(matrix, np.concatenate([np.ravel(right), -np.ravel(bend)]))
            return place, speed, both[: len(q)], both[len(q) :]

        def slope(time: float, y: Vector) -> Vector:
            _, speed, change, _ = state(time, y)
            return np.concatenate([speed[:free], change[:free]])

        pairs = [(f"{each}.phi", f"{each}.w") if isinstance(each, str) else each for each in starts]
        first = [pair[order] for order in (0, 1) for pair in pairs]
        begin = [flight(each)[0] if isinstance(each, str) else each for each in first]
        y, _ = integrated(flight, slope, begin)
        columns = zip(*(state(float(t), each) for t, each in zip(self.t, y.T, strict=True)), strict=True)
        # Coordinates, rates and accelerations, shape (n, K), and multipliers of the loops, shape (m, K)
        *self.values, self.pulls = (np.array(column).T for column in columns)

    def __call__(self, expression: Any, order: int = 0) -> Vector:
        """An expression of coordinates and time, or its first or second derivative, shape (K,)."""
        expression, (q, v, a, _) = sp.sympify(expression), self.symbols
        for _ in range(order):
            moved = [expression.diff(x) * y for x, y in zip((*q, *v), (*v, *a), strict=True)]
            expression = sp.Add(*moved) + expression.diff(TIME)
        values = sp.lambdify(self.symbols, expression, "numpy", cse=True)(*self.values, self.t)
        return np.broadcast_to(np.asarray(values, dtype=float), self.t.shape)

    def named(self, names: Sequence[str], expression: Any) -> dict[str, Vector]:
        """An expression and its derivatives, by name."""
        return {name: self(expression, order) for order, name in enumerate(names)}

    def along(self, vector: Sequence[Vector], axis: Any) -> Vector:
        return np.asarray(np.sum([f * self(x) for f, x in zip(vector, axis, strict=True)], axis=0))


def _symbols(count: int) -> tuple[Sequence[Any], Sequence[Any]]:
    return sp.symbols(f"q:{count}"), sp.symbols(f"v:{count}")


def _crank_and_rod(
    q: Sequence[Any],
    v: Sequence[Any],
    l1: float,
    l2: float,
    j1: float,
    j2: float,
    j12: float,
    t1: float,
    t2: float,
) -> dict[str, Any]:
    """A slider crank by its lengths, inertias and weights; the multiplier is the force of its guide."""
    (crank, rod), (w1, w2) = q, v
    return {
        "kinetic": j1 * w1**2 / 2 + j2 * w2**2 / 2 + j12 * w1 * w2 * sp.cos(crank - rod),
        "potential": t1 * sp.sin(crank) + t2 * sp.sin(rod),
        "loops": [l1 * sp.sin(crank) + l2 * sp.sin(rod)],
        "closed": lambda free: [*free, -math.asin(l1 / l2 * math.sin(free[-1]))],
    }


def _slider_crank(flight: Flight) -> dict[str, Any]:
    p, ((crank, rod), v) = flight.parameters, _symbols(2)
    system = _crank_and_rod((crank, rod), v, p.l1, p.l2, p.J1, p.J2, p.J12, p.T1, p.T2)
    motion = Motion(flight, ["crank"], (crank, rod), v, **system)
    return {
        **motion.named(("crank.phi", "crank.w", "crank.z"), crank),
        **{"rod.phi": motion(rod), "rod.z": motion(rod, 2), "bearing.w": motion(crank, 1)},
        **motion.named(("slider.s", "slider.v", "slider.a"), p.l1 * sp.cos(crank) + p.l2 * sp.cos(rod)),
        **{"guide.f_n": motion.pulls[0], "guide.frame.f_y": -motion.pulls[0]},
    }


def motor_crank(flight: Flight) -> dict[str, Any]:
    """A crank of length 1 and a rod of length 2 behind a motor, whose charge is a coordinate."""
    main, (q, v) = flight.parameters.Main, _symbols(2)
    (crank, rod), (turn, _) = q, v
    system = _crank_and_rod(q, v, 1.0, 2.0, 3.25, 6.0, 3.0, 24.0, 29.0)
    charge, current = sp.symbols("q_e i")
    voltage = _step(flight) - main.R.R * current - main.EMF.k * turn
    system["kinetic"] += main.L.L * current**2 / 2
    forces = {crank: main.EMF.k * current, charge: voltage}
    starts = (0.0, "Main.L.i"), ("Main.Crank.theta", "Main.Crank.w")
    motion = Motion(flight, starts, (charge, *q), (current, *v), forces=forces, **system)
    force = motion.pulls[0]
    return {
        **motion.named([f"Main.Crank.{name}" for name in _TURNS], crank),
        **motion.named([f"Main.Rod.{name}" for name in _TURNS], rod),
        **{"Main.Crank.tau": main.EMF.k * motion(current), "Main.EMF.v": main.EMF.k * motion(turn)},
        **motion.named(("Main.Slider.x", "Main.Slider.v"), sp.cos(crank) + 2.0 * sp.cos(rod)),
        **{"Main.Slider.F": force, "Main.Guide.F": -force, "Main.L.i": motion(current)},
        **{"Main.L.v": motion(voltage), "Main.Source.i": -motion(current)},
    }


def _spatial_slider_crank(flight: Flight) -> dict[str, Any]:
    p, (q, v) = flight.parameters, _symbols(2)
    g, r, length, height, rod = p.g, p.r, p.L, p.guide.height, p.rod.m
    (phi, place), (w, speed) = q, v
    ends = sp.Matrix([0, r * sp.cos(phi), r * sp.sin(phi)]), sp.Matrix([place, 0, height])
    v1, v2 = (end.jacobian(sp.Matrix(q)) * sp.Matrix(v) for end in ends)
    across = ends[1] - ends[0]
    kinetic = p.crank.J * w**2 / 2 + p.slider.m * speed**2 / 2
    kinetic += rod / 6 * (v1.dot(v1) + v1.dot(v2) + v2.dot(v2))
    potential = p.crank.m * g * ends[0][2] / 2 + rod * g * (ends[0][2] + height) / 2
    forces = {phi: p.motor.T - p.motor.k * w, place: -p.slider.d * speed}

    def closed(free: Sequence[float]) -> list[float]:
        aside, below = r * math.cos(free[0]), height - r * math.sin(free[0])
        return [free[0], math.sqrt(length**2 - aside**2 - below**2)]

    loops = [(across.dot(across) - length**2) / 2]
    motion = Motion(flight, ["crank"], q, v, kinetic, potential, forces, loops, closed)
    pull = -motion.pulls[0]
    side, lift = (rod / 6 * motion(ends[0][k], 2) + pull * motion(across[k]) for k in (1, 2))
    lift = lift + rod * g / 2
    # The universal joint turns about z first, and then towards it
    turns = sp.atan2(across[1], across[0]), sp.asin(across[2] / length)
    return {
        **{"crank.phi": motion(phi), "crank.w": motion(w), "crank.z": motion(phi, 2)},
        **motion.named(("rod.phi1", "rod.w1", "rod.z1"), turns[0]),
        **motion.named(("rod.phi2", "rod.w2", "rod.z2"), turns[1]),
        **motion.named(("slider.s", "slider.v", "slider.a"), place),
        **{"motor.t": motion(forces[phi]), "ball.fy": side, "ball.fz": lift},
        **{"guide.fz": lift + p.slider.m * g},
        "ball.fx": -p.slider.m * motion(place, 2) - p.slider.d * motion(speed),
    }


def _rotating_pendulum(flight: Flight) -> dict[str, Any]:
    p, (q, v) = flight.parameters, _symbols(1)
    g, length, m, speed = p.g, p.l, p.m, p.motor.speed
    (phi,), (w,) = q, v
    s, c, turn = sp.sin(phi), sp.cos(phi), speed * TIME
    kinetic = m * length**2 * (w**2 + (speed * s) ** 2) / 2
    motion = Motion(flight, ["hinge"], q, v, kinetic, -m * g * length * c, {phi: -p.hinge.d * w})
    side = 2 * m * length * speed * w * c
    return {
        **{"hinge.phi": motion(phi), "hinge.w": motion(w), "hinge.t": motion(-p.hinge.d * w)},
        **{"shaft.phi": speed * flight.t, "shaft.w": speed + 0 * flight.t, "ball.z": motion(-length * c)},
        **{"ball.x": motion(length * s * sp.cos(turn)), "ball.vy": motion(length * s * sp.sin(turn), 1)},
        **{"ball.ax": motion(length * s * sp.cos(turn), 2), "bearing.fz": motion(-m * length * c, 2) + m * g},
        **{"rod.side": motion(side), "motor.t": motion(side * length * s)},
        "rod.f": motion(m * (length * w**2 + length * (speed * s) ** 2 + g * c)),
        "shaft.frame_b.t": motion(-side * length * s),
    }


def _step(flight: Flight) -> Any:
    step = flight.parameters.Main.Step
    return sp.Piecewise((step.height, TIME >= step.T0), (0.0, True))


def spring_damper(flight: Flight) -> dict[str, Any]:
    """One mass in one coordinate; the damping between places of the table, which is that of the thesis."""
    main, (q, v) = flight.parameters.Main, _symbols(1)
    (place,), (speed,) = q, v
    table = [(0.0, 750.0), (0.05, 500.0), (0.1, 250.0), (0.2, 75.0), (0.25, 250.0), (0.3, 650.0)]
    pieces = [(table[0][1], place < table[0][0])]
    for (x, y), (end, other) in pairwise(table):
        pieces.append((y + (other - y) / (end - x) * (place - x), place < end))
    damping = sp.Piecewise(*pieces, (table[-1][1], True))
    energies = main.Mass.m * speed**2 / 2, main.Spring.c * place**2 / 2
    forces = {place: _step(flight) - damping * speed}
    motion = Motion(flight, [("Main.Mass.s", "Main.Mass.v")], q, v, *energies, forces)
    pull, damped = main.Spring.c * motion(place), motion(damping * speed)
    return {
        **motion.named(("Main.Mass.s", "Main.Mass.v", "Main.Mass.a"), place),
        **{"Main.Spring.f": pull, "Main.Spring.flange_a.f": -pull, "Main.Fixed.f": pull + damped},
        **{"Main.Damper.d": motion(damping), "Main.Damper.f": damped, "Main.Damper.v_rel": motion(speed)},
    }


def centrifuge(flight: Flight) -> dict[str, Any]:
    """Rotor and hinge by their angles; the forces in cylindrical coordinates."""
    main, g, (q, v) = flight.parameters.Main, flight.parameters.g, _symbols(2)
    inertia, m, own, length = main.Rotor.J, main.Gondola.m, main.Gondola.I, main.Gondola.l
    (phi, theta), (turn, swing) = q, v
    radius, height = main.Rotor.R + length * sp.sin(theta), -length * sp.cos(theta)
    motor = main.Motor.k * (main.Motor.w_max * (1.0 - sp.exp(-TIME / main.Motor.T)) - turn)
    kinetic = (inertia + own + m * radius**2) * turn**2 / 2 + (own + m * length**2) * swing**2 / 2
    forces = {phi: motor - main.Bearing.d * turn, theta: -main.Hinge.d * swing}
    starts = [("Main.Rotor.phi", "Main.Rotor.w"), ("Main.Hinge.theta", "Main.Hinge.w")]
    motion = Motion(flight, starts, q, v, kinetic, m * g * height, forces)
    place = {"x": radius * sp.cos(phi), "y": radius * sp.sin(phi), "z": height}
    force = [m * motion(place[name], 2) for name in "xy"]
    along = motion.along(force, (sp.cos(phi), sp.sin(phi)))
    across = motion.along(force, (-sp.sin(phi), sp.cos(phi)))
    return {
        **motion.named(("Main.Rotor.phi", "Main.Rotor.w", "Main.Rotor.alpha"), phi),
        **{f"Main.Gondola.{name}": motion(x) for name, x in place.items()},
        **{f"Main.Gondola.v_{name}": motion(place[name], 1) for name in "xz"},
        **{"Main.Rotor.tau": inertia * motion(phi, 2), "Main.Motor.tau": motion(motor)},
        **{"Main.Gondola.theta": motion(theta), "Main.Hinge.w": motion(swing)},
        **{"Main.Gondola.alpha": motion(theta, 2), "Main.Gondola.F_x": force[0]},
        **{"Main.Gondola.F_y": force[1], "Main.Gondola.F_z": m * (motion(height, 2) + g)},
        **{"Main.Hinge.F_r": along, "Main.Hinge.F_t": across},
        "Main.Hinge.M_z": own * motion(phi, 2) + motion(length * sp.sin(theta)) * across,
        "Main.Hinge.M_r": motion(own * swing * turn) - motion(height) * across,
    }


def dragged_pendulum(flight: Flight) -> dict[str, Any]:
    p, (q, v) = flight.parameters, _symbols(2)
    m, length, g, drag = p.m, p.L, p.g, p.c_d * p.rho * p.A / 2.0
    (theta, phi), (swing, turn) = q, v
    wide, height = length * sp.sin(theta), -length * sp.cos(theta)
    speed = sp.sqrt((length * swing) ** 2 + (wide * turn) ** 2)
    forces = {theta: -drag * speed * length**2 * swing, phi: -drag * speed * wide**2 * turn}
    x, y, z, v_x, v_y, v_z = (float(flight(name)[0]) for name in ("x", "y", "z", "v_x", "v_y", "v_z"))
    far = math.hypot(x, y)
    # The angle from the vertical and the one about it
    starts = (math.atan2(far, -z), v_z / far), (math.atan2(y, x), (x * v_y - y * v_x) / far**2)
    motion = Motion(flight, starts, q, v, m * speed**2 / 2, m * g * height, forces)
    place = {"x": wide * sp.cos(phi), "y": wide * sp.sin(phi), "z": height}
    force = motion(m * (speed**2 - g * height) / length**2)
    return {
        **{name: motion(at) for name, at in place.items()},
        **{f"v_{name}": motion(at, 1) for name, at in place.items()},
        **{"lambda": force, "speed": motion(speed), "a_z": motion(height, 2)},
        **{"rod.F_z": -force * motion(height), "joint.F_x": force * motion(place["x"])},
        **{"drag.F_x": motion(-drag * speed) * motion(place["x"], 1), "weight": motion(m * g)},
    }


def _furuta(flight: Flight) -> dict[str, Any]:
    p, (q, v) = flight.parameters, _symbols(2)
    r, arm, m, along = p.r, p.arm.J, p.pendulum.m, p.pendulum.I3
    (phi, swing), (turn, w) = q, v
    s, c, up = sp.sin(swing), sp.cos(swing), sp.Matrix([0, 0, 1])
    radial, tangent = sp.Matrix([sp.cos(phi), sp.sin(phi), 0]), sp.Matrix([-sp.sin(phi), sp.cos(phi), 0])
    place = r * radial + p.a * (s * tangent - c * up)
    speed = place.jacobian(sp.Matrix(q)) * sp.Matrix(v)
    spin = p.pendulum.I * (w**2 + (turn * s) ** 2) + along * (turn * c) ** 2
    drive, friction = p.motor.T * sp.sin(p.motor.speed * TIME), p.arm.d * turn
    kinetic = arm * turn**2 / 2 + m * speed.dot(speed) / 2 + spin / 2
    forces = {phi: drive - friction, swing: -p.hinge.d * w}
    motion = Motion(flight, ["arm", "hinge"], q, v, kinetic, m * p.g * place[2], forces)
    accelerations = [motion(x, 2) for x in place]
    force = [m * accelerations[0], m * accelerations[1], m * (accelerations[2] + p.g)]
    return {
        **{"arm.phi": motion(phi), "arm.w": motion(turn), "arm.z": motion(phi, 2)},
        **{"hinge.phi": motion(swing), "hinge.w": motion(w), "hinge.y": motion(r * sp.sin(phi))},
        **{f"pendulum.{x}": motion(place[k]) for k, x in enumerate("xyz")},
        **{"pendulum.vx": motion(place[0], 1), "pendulum.ay": accelerations[1], "pendulum.fz": force[2]},
        **{"pendulum.w2": motion(turn * s), "pendulum.z3": motion(turn * c, 1)},
        **{"hinge.f1": motion.along(force, radial), "hinge.f2": motion.along(force, c * tangent + s * up)},
        **{"hinge.f3": motion.along(force, c * up - s * tangent), "hinge.t3": along * motion(turn * c, 1)},
        "arm.frame_b.t": arm * motion(phi, 2) + motion(friction) - motion(drive),
    }


def _gimbal(flight: Flight) -> dict[str, Any]:
    p, (q, v) = flight.parameters, _symbols(3)
    outer, c1 = p.outer.J, p.rotor.J1
    (alpha, beta, _), (a, b, w) = q, v
    s, c = sp.sin(beta), sp.cos(beta)
    rates = sp.Matrix([b, a * s, a * c])
    spin = rates + sp.Matrix([0, 0, w])
    momentum = sp.Matrix([c1 * spin[0], c1 * spin[1], p.rotor.J3 * spin[2]])
    kinetic = outer * a**2 / 2 + momentum.dot(spin) / 2
    kinetic += sum(j * x**2 for j, x in zip((p.inner.J1, p.inner.J2, p.inner.J3), rates, strict=True)) / 2
    names = [f"bearing{k}" for k in (1, 2, 3)]
    friction = {x: -flight.value(f"{name}.d") * y for name, x, y in zip(names, q, v, strict=True)}
    motion = Motion(flight, names, q, v, kinetic, p.weight.T * c, friction)
    # The momentum of the rotor in space, along the axes of the inner ring in space.
    first, up = sp.Matrix([sp.cos(alpha), sp.sin(alpha), 0]), sp.Matrix([0, 0, 1])
    across = sp.Matrix([-sp.sin(alpha), sp.cos(alpha), 0])
    axes = [first, c * across + s * up, c * up - s * across]
    whole = sum((x * axis for x, axis in zip(momentum, axes, strict=True)), sp.zeros(3, 1))
    torque = [motion(x, 1) for x in whole]
    return {
        **{f"{name}.phi": motion(x) for name, x in zip(names, q, strict=True)},
        **{f"{name}.w": motion(x) for name, x in zip(names, v, strict=True)},
        **{"outer.phi": motion(alpha), "outer.z": motion(alpha, 2), "inner.w2": motion(a * s)},
        **{"inner.z3": motion(a * c, 1), "rotor.w3": motion(a * c + w), "rotor.z2": motion(a * s, 1)},
        **{f"bearing3.t{k + 1}": motion.along(torque, axes[k]) for k in (0, 1)},
        "weight.t": motion(p.weight.T * s),
        "outer.frame_b.t": outer * motion(alpha, 2) + p.bearing1.d * motion(a),
    }


class _Bars:
    """Bars in a plane, each from a point in the direction of its angle."""

    def __init__(self, flight: Flight, names: Sequence[str], count: int = 0) -> None:
        self.flight, self.names = flight, names
        self.q, self.v = _symbols(count + len(names))
        self.angles = dict(zip(names, self.q[count:], strict=True))
        self.centres: dict[str, Point] = {}

    def along(self, name: str, start: Point, part: float = 1.0) -> Point:
        """The point at a part of the length of a bar that begins at another point."""
        reach, angle = part * self.flight.value(f"{name}.l"), self.angles[name]
        return start[0] + reach * sp.cos(angle), start[1] + reach * sp.sin(angle)

    def put(self, name: str, start: Point) -> Point:
        """Put a bar at a point; its other end."""
        self.centres[name] = self.along(name, start, 0.5)
        return self.along(name, start)

    def support(self, name: str) -> Point:
        return self.flight.value(f"{name}.place"), self.flight.value(f"{name}.height")

    def energies(self) -> tuple[Any, Any]:
        kinetic, potential = sp.Integer(0), sp.Integer(0)
        rates = dict(zip(self.q, self.v, strict=True))
        for name, centre in self.centres.items():
            speeds = [sum(x.diff(y) * rate for y, rate in rates.items()) for x in centre]
            m, inertia = self.flight.value(f"{name}.m"), self.flight.value(f"{name}.I")
            kinetic += m * sum(speed**2 for speed in speeds) / 2
            kinetic += inertia * rates[self.angles[name]] ** 2 / 2
            potential += m * self.flight.value("g") * centre[1]
        return kinetic, potential

    def values(self, motion: Motion) -> dict[str, Vector]:
        values: dict[str, Vector] = {}
        for name, (x, y) in self.centres.items():
            values |= motion.named([f"{name}.{turn}" for turn in ("phi", "w", "z")], self.angles[name])
            for axis, place in (("x", x), ("y", y)):
                values |= motion.named([f"{name}.{order}{axis}" for order in ("", "v", "a")], place)
        return values

    def push(self, motion: Motion, names: Sequence[str]) -> tuple[Vector, Vector]:
        """The force in both directions that moves some bars, beside their weight."""
        m = [self.flight.value(f"{name}.m") for name in names]
        x, y = (
            np.sum([w * motion(self.centres[n][k], 2) for n, w in zip(names, m, strict=True)], axis=0)
            for k in range(2)
        )
        return x, y + sum(m) * self.flight.value("g")


def _met(p: Sequence[float], q: Sequence[float], r: float, s: float) -> tuple[float, float]:
    """Where circles about two points with two radii meet, to the right of the way between them."""
    far = math.dist(p, q)
    ahead = (r**2 - s**2 + far**2) / (2 * far)
    aside = math.sqrt(r**2 - ahead**2)
    x, y = (q[0] - p[0]) / far, (q[1] - p[1]) / far
    return p[0] + ahead * x + aside * y, p[1] + ahead * y - aside * x


def _angle(p: Sequence[float], q: Sequence[float]) -> float:
    return math.atan2(q[1] - p[1], q[0] - p[0])


def _tip(p: Sequence[float], length: float, angle: float) -> tuple[float, float]:
    return p[0] + length * math.cos(angle), p[1] + length * math.sin(angle)


def _five_pendula(flight: Flight) -> dict[str, Any]:
    names = [f"bar{k}" for k in range(1, 6)]
    bars = _Bars(flight, names)
    end = bars.support("support")
    for name in names:
        end = bars.put(name, end)
    motion = Motion(flight, names, bars.q, bars.v, *bars.energies())
    whole, last = bars.push(motion, names), bars.push(motion, names[3:])
    return {
        **bars.values(motion),
        **{"bar5.frame_b.x": motion(end[0]), "bar5.frame_b.y": motion(end[1])},
        **{"support.fx": -whole[0], "support.fy": -whole[1]},
        **{"bar4.frame_a.fx": last[0], "bar3.frame_b.fy": -last[1]},
    }


def _triplets(flight: Flight) -> dict[str, Any]:
    names = ["bar1", "bar2", "bar3"]
    bars = _Bars(flight, names, 2)
    middle, last = tuple(bars.q[:2]), bars.along("bar2", tuple(bars.q[:2]), 0.5)
    # The first bar ends where the second begins.
    begin = bars.along("bar1", bars.along("bar2", middle, -0.5), -1.0)
    for name, start in zip(names, (begin, bars.along("bar2", middle, -0.5), last), strict=True):
        bars.put(name, start)
    kinetic, potential = bars.energies()
    _, _, *turns = bars.v
    angles = [bars.angles[name] for name in names]
    forces = dict.fromkeys(angles, sp.Integer(0))
    for k in (1, 2):
        potential += flight.value(f"pin{k}.c") * (angles[k] - angles[k - 1]) ** 2 / 2
        friction = flight.value(f"pin{k}.d") * (turns[k] - turns[k - 1])
        forces[angles[k]] -= friction
        forces[angles[k - 1]] += friction
    starts: list[Start] = [("bar2.x", "bar2.vx"), ("bar2.y", "bar2.vy"), *names]
    motion = Motion(flight, starts, bars.q, bars.v, kinetic, potential, forces)
    first, third = bars.push(motion, names[:1]), bars.push(motion, names[2:])
    bend = angles[1] - angles[0]
    return {
        **bars.values(motion),
        **{"bar1.frame_b.fx": first[0], "bar2.frame_a.fy": -first[1], "bar2.frame_b.fx": -third[0]},
        **{"pin1.phi": motion(bend), "pin1.w": motion(bend, 1)},
        "pin1.t": flight.value("pin1.c") * motion(bend) + flight.value("pin1.d") * motion(bend, 1),
    }


def _pendula_loop(flight: Flight) -> dict[str, Any]:
    bars = _Bars(flight, ["bar1", "bar2", "bar3", "bar4"])
    end = bars.support("support1")
    for name in ("bar1", "bar2", "bar3"):
        end = bars.put(name, end)
    other = bars.put("bar4", bars.support("support2"))
    lengths = [flight.value(f"{name}.l") for name in bars.names]
    first, second = bars.support("support1"), bars.support("support2")

    def closed(own: Sequence[float]) -> list[float]:
        elbow = _tip(_tip(first, lengths[0], own[0]), lengths[1], own[1])
        met = _met(elbow, second, lengths[2], lengths[3])
        return [*own, _angle(elbow, met), _angle(second, met)]

    loops = [a - b for a, b in zip(end, other, strict=True)]
    friction = {bars.q[0]: -flight.value("pin1.d") * bars.v[0]}
    system = (*bars.energies(), friction, loops, closed)
    motion = Motion(flight, ["bar1", "bar2"], bars.q, bars.v, *system)
    weight = bars.push(motion, ["bar1", "bar2", "bar3"])
    return {
        **bars.values(motion),
        **{"bar3.frame_b.fx": motion.pulls[0], "bar4.frame_b.fy": -motion.pulls[1]},
        **{"support1.fx": motion.pulls[0] - weight[0], "support1.fy": motion.pulls[1] - weight[1]},
        **{"bar4.frame_b.x": motion(end[0]), "pin1.t": motion(-friction[bars.q[0]])},
    }


def _two_loops(flight: Flight) -> dict[str, Any]:
    names = ["pendulum1", "pendulum2", "pendulum3", "rod1", "rod2"]
    bars = _Bars(flight, names)
    places = [bars.support(f"support{k}") for k in (1, 2, 3)]
    ends = [bars.put(name, place) for name, place in zip(names, places, strict=False)]
    rods = [bars.put(name, end) for name, end in zip(names[3:], ends, strict=False)]
    lengths = {name: flight.value(f"{name}.l") for name in names}

    def closed(own: Sequence[float]) -> list[float]:
        points = [_tip(places[0], lengths["pendulum1"], own[0])]
        for k in (1, 2):
            points.append(_met(points[-1], places[k], lengths[f"rod{k}"], lengths[f"pendulum{k + 1}"]))
        hanging = [_angle(places[k], points[k]) for k in (1, 2)]
        return [*own, *hanging, *(_angle(points[k], points[k + 1]) for k in (0, 1))]

    loops = [rods[k][i] - ends[k + 1][i] for k in (0, 1) for i in (0, 1)]
    friction = {bars.q[1]: -flight.value("pin2.d") * bars.v[1]}
    system = (*bars.energies(), friction, loops, closed)
    motion = Motion(flight, ["pendulum1"], bars.q, bars.v, *system)
    pulls = motion.pulls
    weight = bars.push(motion, ["pendulum3"])
    return {
        **bars.values(motion),
        **{"rod1.frame_b.fx": pulls[0], "rod1.frame_b.fy": pulls[1], "rod2.frame_b.fx": pulls[2]},
        **{"pendulum3.frame_b.fy": -pulls[3], "support3.fx": -weight[0] - pulls[2]},
        **{"support3.fy": -weight[1] - pulls[3], "pin2.t": motion(-friction[bars.q[1]])},
    }


# Mechanisms, joint by joint as tools write them; their solutions are compared by the names of the files
CASES: tuple[Case, ...] = tuple(
    Case(name, (against("minimal coordinates", formulas),), settings={"rtol": 1e-9})
    for name, formulas in {
        **{"slider-crank-2d": _slider_crank, "equal-bar-slider-crank": _slider_crank},
        **{"slider-crank-3d": _spatial_slider_crank, "rotating-pendulum": _rotating_pendulum},
        **{"gimbal": _gimbal, "furuta-pendulum": _furuta, "triplets": _triplets},
        **{"five-pendula": _five_pendula, "pendula-loop": _pendula_loop, "pendula-two-loops": _two_loops},
    }.items()
)
