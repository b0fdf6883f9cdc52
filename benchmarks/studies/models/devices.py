"""Checks of circuits, motors, heat and other devices: exact solutions, and equations in fewest coordinates.

The equations here are written from physics and not from those of the models: the response of linear systems
by eigenvalues, and Lagrange's equations in angles, solved by SciPy far below the tolerance of the checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.integrate import solve_ivp

from benchmarks.studies.models.cases import Case, Flight, against
from dae_sdc.dae.state import Vector


def integrated(flight: Flight, rates: Callable[[float, Vector], Sequence[float]], y0: npt.ArrayLike) -> Any:
    """Values and rates of an ordinary differential equation at the times of a flight, shapes (m, K)."""
    t = flight.t
    # Steps are short enough that no kink of the rates goes unnoticed.
    how = {"rtol": 1e-12, "atol": 1e-13, "max_step": (t[-1] - t[0]) / 100.0}
    found = solve_ivp(rates, (t[0], t[-1]), y0, method="DOP853", t_eval=t, **how)
    return found.y, np.array([rates(time, y) for time, y in zip(t, found.y.T, strict=True)]).T


def _response(matrix: Any, constant: Any, sine: Any, omega: float, x0: Any, t: Vector) -> Vector:
    """The solution of x' = A x + b + s sin(omega t), shape (m, K), by the eigenvalues of A."""
    a = np.asarray(matrix, dtype=np.float64)
    rest = np.linalg.solve(a, -np.asarray(constant, dtype=np.float64))
    phasor = np.linalg.solve(1j * omega * np.eye(len(a)) - a, np.asarray(sine, dtype=np.float64))
    values, vectors = np.linalg.eig(a)
    free = np.linalg.solve(vectors, np.asarray(x0) - rest - phasor.imag + 0j)
    decay = (vectors * free) @ np.exp(np.outer(values, t))
    swing = (phasor[:, None] * np.exp(1j * omega * t)).imag
    return np.asarray(rest[:, None] + swing + decay.real)


def _rlc(flight: Flight) -> Mapping[str, Any]:
    """Current of the coil and voltage of the capacitor; all else follows from Kirchhoff's laws."""
    amplitude, series, load = (flight.value(name) for name in ("source.V", "wire.R", "load.R"))
    inductance, capacitance = flight.value("coil.L"), flight.value("capacitor.C")
    omega = 2.0 * np.pi * flight.value("source.f")
    matrix = [[-series / inductance, -1.0 / inductance], [1.0 / capacitance, -1.0 / (load * capacitance)]]
    start = [flight("coil.i")[0], flight("capacitor.v")[0]]
    current, voltage = _response(matrix, [0.0, 0.0], [amplitude / inductance, 0.0], omega, start, flight.t)
    source = amplitude * np.sin(omega * flight.t)
    return {
        **{"coil.i": current, "capacitor.v": voltage, "source.v": source, "source.i": -current},
        **{"wire.v": series * current, "wire.n.v": source - series * current},
        **{"coil.v": source - series * current - voltage, "load.i": voltage / load},
        **{"capacitor.i": current - voltage / load, "load.n.i": -voltage / load},
        "ground.p.i": np.zeros_like(current),
    }


def _heat(flight: Flight) -> Mapping[str, Any]:
    """Temperatures of a chain of four capacities between the weather and, by the window, the weather."""
    parts = ("brick", "insulation", "plaster", "room")
    joints = ("outer_film", "outer_joint", "inner_joint", "inner_film")
    capacity = np.array([flight.value(f"{part}.C") for part in parts])
    outer, first, second, inner = (flight.value(f"{joint}.G") for joint in joints)
    window, heater = flight.value("window.G"), flight.value("heater.Q")
    joined = np.diag([first, second, inner], 1) + np.diag([first, second, inner], -1)
    conductance = joined - np.diag([outer + first, first + second, second + inner, inner + window])
    outside = np.array([outer, 0.0, 0.0, window])
    mean, swing = flight.value("weather.T_mean"), flight.value("weather.swing")
    omega = 2.0 * np.pi / flight.value("weather.period")
    start = [flight(f"{part}.T")[0] for part in parts]
    given = (outside * mean + [0.0, 0.0, 0.0, heater]) / capacity
    found = _response(
        conductance / capacity[:, None], given, outside * swing / capacity, omega, start, flight.t
    )
    weather = mean + swing * np.sin(omega * flight.t)
    brick, insulation, plaster, room = found
    rate = (inner * (plaster - room) + window * (weather - room) + heater) / capacity[3]
    return {
        **{f"{part}.T": values for part, values in zip(parts, found, strict=True)},
        **{"weather.port.T": weather, "window.dT": room - weather},
        **{"outer_film.Q_flow": outer * (weather - brick), "outer_joint.dT": brick - insulation},
        "inner_joint.Q_flow": second * (insulation - plaster),
        "inner_film.port_b.Q_flow": -inner * (plaster - room),
        "weather.port.Q_flow": outer * (brick - weather) + window * (room - weather),
        "room.port.Q_flow": capacity[3] * rate,
    }


def _motor(flight: Flight) -> Mapping[str, Any]:
    """Current and speed of the motor; its angle is that of the equations integrated once over time."""
    voltage, resistance, inductance = (flight.value(name) for name in ("source.V", "resistor.R", "coil.L"))
    k, inertia, friction = (flight.value(name) for name in ("emf.k", "load.J", "bearing.d"))
    matrix = [[-resistance / inductance, -k / inductance], [k / inertia, -friction / inertia]]
    start = [flight("coil.i")[0], flight("load.w")[0]]

    def free(x0: npt.ArrayLike, given: float, since: Vector) -> Vector:
        return _response(matrix, [given / inductance, 0.0], [0.0, 0.0], 1.0, x0, since)

    begin = max(flight.value("source.startTime"), flight.t[0])
    after = np.maximum(flight.t - begin, 0.0)
    at_step = free(start, 0.0, np.array([begin - flight.t[0]]))[:, 0]
    before = free(start, 0.0, flight.t - flight.t[0])
    current, speed = np.where(flight.t < begin, before, free(at_step, voltage, after))
    impulse = voltage * after - inductance * (current - start[0])
    angle = (impulse - resistance * inertia / k * (speed - start[1])) / (k + resistance * friction / k)
    angle = angle + flight("load.phi")[0]
    return {
        **{"coil.i": current, "load.w": speed, "load.phi": angle, "source.i": -current},
        "resistor.v": resistance * current,
        "coil.v": np.where(flight.t < begin, 0.0, voltage) - resistance * current - k * speed,
        **{"emf.v": k * speed, "emf.flange.tau": -k * current},
        **{"load.a": (k * current - friction * speed) / inertia, "bearing.tau": friction * speed},
        "housing.flange.tau": friction * speed,
    }


def _spring(flight: Flight) -> Mapping[str, Any]:
    """One mass in one coordinate; the table is that of the thesis."""
    names = ("Mass.m", "Spring.c", "Step.height", "Step.T0")
    mass, stiffness, height, begin = (flight.value(f"Main.{name}") for name in names)
    places = [0.0, 0.05, 0.1, 0.2, 0.25, 0.3]
    coefficients = [750.0, 500.0, 250.0, 75.0, 250.0, 650.0]

    def rates(t: float, y: Vector) -> list[float]:
        pull = stiffness * y[0] + np.interp(y[0], places, coefficients) * y[1]
        return [y[1], ((height if t >= begin else 0.0) - pull) / mass]

    (place, velocity), (_, acceleration) = integrated(
        flight, rates, [flight("Main.Mass.s")[0], flight("Main.Mass.v")[0]]
    )
    damping = np.interp(place, places, coefficients)
    return {
        **{"Main.Mass.s": place, "Main.Mass.v": velocity, "Main.Mass.a": acceleration},
        **{"Main.Spring.f": stiffness * place, "Main.Spring.flange_a.f": -stiffness * place},
        **{"Main.Damper.d": damping, "Main.Damper.f": damping * velocity, "Main.Damper.v_rel": velocity},
        "Main.Fixed.f": stiffness * place + damping * velocity,
    }


def _crank(flight: Flight) -> Mapping[str, Any]:
    """Lagrange's equation in the angle of the crank: the rod of length 2 follows the crank of length 1."""
    resistance, inductance = flight.value("Main.R.R"), flight.value("Main.L.L")
    k, height, begin = (flight.value(f"Main.{name}") for name in ("EMF.k", "Step.height", "Step.T0"))

    def follows(angle: Any) -> tuple[Any, Any, Any]:
        """The angle of the rod and its first two derivatives with respect to that of the crank."""
        rod = -np.arcsin(np.sin(angle) / 2.0)
        slope = -np.cos(angle) / (2.0 * np.cos(rod))
        return rod, slope, (np.sin(angle) + 2.0 * np.sin(rod) * slope**2) / (2.0 * np.cos(rod))

    def rates(t: float, y: Vector) -> list[float]:
        angle, speed, current = y
        rod, slope, bend = follows(angle)
        inertia = 3.25 + 6.0 * np.cos(angle - rod) * slope + 6.0 * slope**2
        change = -6.0 * np.sin(angle - rod) * (1.0 - slope) * slope
        change += 6.0 * np.cos(angle - rod) * bend + 12.0 * slope * bend
        weight = 24.0 * np.cos(angle) + 29.0 * np.cos(rod) * slope
        torque = k * current - weight - change * speed**2 / 2.0
        voltage = (height if t >= begin else 0.0) - resistance * current - k * speed
        return [speed, torque / inertia, voltage / inductance]

    start = [flight(f"Main.{name}")[0] for name in ("Crank.theta", "Crank.w", "L.i")]
    (angle, speed, current), (_, acceleration, growth) = integrated(flight, rates, start)
    rod, slope, bend = follows(angle)
    turn = bend * speed**2 + slope * acceleration
    pull = 3.0 * np.cos(angle - rod) * acceleration + 6.0 * turn - 3.0 * np.sin(angle - rod) * speed**2
    force = (pull + 29.0 * np.cos(rod)) / (2.0 * np.cos(rod))
    return {
        **{"Main.Crank.theta": angle, "Main.Crank.w": speed, "Main.Crank.alpha": acceleration},
        **{"Main.Crank.tau": k * current, "Main.Rod.theta": rod, "Main.Rod.w": slope * speed},
        **{"Main.Rod.alpha": turn, "Main.Slider.x": 2.0 * np.cos(rod) + np.cos(angle)},
        "Main.Slider.v": -2.0 * np.sin(rod) * slope * speed - np.sin(angle) * speed,
        **{"Main.Slider.F": force, "Main.Guide.F": -force, "Main.L.i": current},
        **{"Main.L.v": inductance * growth, "Main.EMF.v": k * speed, "Main.Source.i": -current},
    }


def _centrifuge(flight: Flight) -> Mapping[str, Any]:
    """Lagrange's equations in the angles of rotor and hinge; the forces in cylindrical coordinates."""
    inertia, arm = flight.value("Main.Rotor.J"), flight.value("Main.Rotor.R")
    mass, own, length = (flight.value(f"Main.Gondola.{name}") for name in "mIl")
    hinge, bearing, g = flight.value("Main.Hinge.d"), flight.value("Main.Bearing.d"), flight.value("g")
    gain, fastest, ramp = (flight.value(f"Main.Motor.{name}") for name in ("k", "w_max", "T"))

    def rates(t: float, y: Vector) -> list[float]:
        _, theta, turn, swing = y
        radius = arm + length * np.sin(theta)
        motor = gain * (fastest * (1.0 - np.exp(-t / ramp)) - turn) - bearing * turn
        coriolis = 2.0 * mass * radius * length * np.cos(theta) * swing * turn
        outwards = mass * length * (radius * np.cos(theta) * turn**2 - g * np.sin(theta)) - hinge * swing
        return [
            turn,
            swing,
            (motor - coriolis) / (inertia + own + mass * radius**2),
            outwards / (mass * length**2 + own),
        ]

    start = [flight(f"Main.{name}")[0] for name in ("Rotor.phi", "Hinge.theta", "Rotor.w", "Hinge.w")]
    (phi, theta, turn, swing), (_, _, faster, swinging) = integrated(flight, rates, start)
    radius, height = arm + length * np.sin(theta), -length * np.cos(theta)
    out, up = length * np.cos(theta) * swing, length * np.sin(theta) * swing
    along = mass * (length * np.cos(theta) * swinging - length * np.sin(theta) * swing**2 - radius * turn**2)
    across = mass * (radius * faster + 2.0 * out * turn)
    lift = mass * (length * np.sin(theta) * swinging + length * np.cos(theta) * swing**2 + g)
    return {
        **{"Main.Rotor.phi": phi, "Main.Rotor.w": turn, "Main.Rotor.alpha": faster},
        "Main.Rotor.tau": inertia * faster,
        "Main.Motor.tau": gain * (fastest * (1.0 - np.exp(-flight.t / ramp)) - turn),
        **{"Main.Gondola.theta": theta, "Main.Hinge.w": swing, "Main.Gondola.alpha": swinging},
        **{"Main.Gondola.x": radius * np.cos(phi), "Main.Gondola.y": radius * np.sin(phi)},
        **{"Main.Gondola.z": height, "Main.Gondola.v_x": out * np.cos(phi) - radius * turn * np.sin(phi)},
        **{"Main.Gondola.v_z": up, "Main.Gondola.F_x": along * np.cos(phi) - across * np.sin(phi)},
        **{"Main.Gondola.F_y": along * np.sin(phi) + across * np.cos(phi), "Main.Gondola.F_z": lift},
        **{"Main.Hinge.F_r": along, "Main.Hinge.F_t": across},
        "Main.Hinge.M_z": own * faster + length * np.sin(theta) * across,
        "Main.Hinge.M_r": own * swing * turn + length * np.cos(theta) * across,
    }


def _ball(flight: Flight) -> Mapping[str, Any]:
    """The pendulum in the angle from the vertical and the one about it."""
    mass, length, g = (flight.value(name) for name in "mLg")
    drag = flight.value("c_d") * flight.value("rho") * flight.value("A") / 2.0

    def rates(_: float, y: Vector) -> list[float]:
        theta, _, swing, turn = y
        speed = length * np.hypot(swing, np.sin(theta) * turn)
        swinging = np.sin(theta) * np.cos(theta) * turn**2 - g / length * np.sin(theta)
        turning = -2.0 * np.cos(theta) / np.sin(theta) * swing * turn
        return [swing, turn, swinging - drag / mass * speed * swing, turning - drag / mass * speed * turn]

    x, y, z = (flight(name)[0] for name in "xyz")
    v_x, v_y, v_z = (flight(name)[0] for name in ("v_x", "v_y", "v_z"))
    wide = np.hypot(x, y)
    start = [np.arctan2(wide, -z), np.arctan2(y, x), v_z / wide, (x * v_y - y * v_x) / wide**2]
    (theta, phi, swing, turn), _ = integrated(flight, rates, start)
    wide, place = length * np.sin(theta), -length * np.cos(theta)
    out, round_ = length * np.cos(theta) * swing, wide * turn
    speed = length * np.hypot(swing, np.sin(theta) * turn)
    force = mass * (speed**2 - g * place) / length**2
    velocity = out * np.cos(phi) - round_ * np.sin(phi)
    return {
        **{"x": wide * np.cos(phi), "y": wide * np.sin(phi), "z": place, "lambda": force, "v_x": velocity},
        **{"v_y": out * np.sin(phi) + round_ * np.cos(phi), "v_z": wide * swing, "speed": speed},
        **{"rod.F_z": -force * place, "joint.F_x": force * wide * np.cos(phi)},
        "drag.F_x": -drag * speed * velocity,
        "a_z": (-force * place - drag * speed * wide * swing) / mass - g,
        "weight": np.full_like(theta, mass * g),
    }


def _ice(flight: Flight) -> Mapping[str, Any]:
    """Enthalpies of the three layers, with the temperatures by interpolation between the melting points."""
    layers = ("top", "middle", "bottom")
    mass, solid, liquid, fusion = (flight.value(f"top.{name}") for name in ("m", "c_ice", "c_water", "h_f"))
    flow = flight.value("top.C_flow")
    reach = 1.0 - np.exp(-flight.value("top.UA") / flow)
    joint = flight.value("upper.G")
    walls = np.array([flight.value(f"wall_{layer}.G") for layer in layers])
    around, mean = flight.value("cellar.T"), flight.value("brine.T_mean")
    swing, period = flight.value("brine.swing"), flight.value("brine.period")

    def temperature(h: Any) -> Any:
        return np.interp(h, [-1e3 * solid, 0.0, fusion, fusion + 1e3 * liquid], [-1e3, 0.0, 0.0, 1e3])

    def brine(t: Any, at: Any) -> tuple[Any, Any]:
        """Heat to each layer, and the brine behind it; the brine comes in at the bottom."""
        entering = mean - swing * np.sin(2.0 * np.pi * t / period)
        heat, leaving = np.empty_like(at), np.empty_like(at)
        for layer in (2, 1, 0):
            heat[layer] = flow * reach * (entering - at[layer])
            entering = leaving[layer] = at[layer] + (1.0 - reach) * (entering - at[layer])
        return heat, leaving

    def rates(t: float, h: Vector) -> list[float]:
        at = temperature(h)
        heat, _ = brine(t, at)
        upper, lower = joint * (at[0] - at[1]), joint * (at[1] - at[2])
        between = np.array([-upper, upper - lower, lower])
        return list((heat + between + walls * (around - at)) / mass)

    h, growth = integrated(flight, rates, [flight(f"{layer}.h")[0] for layer in layers])
    at = temperature(h)
    heat, leaving = brine(flight.t, at)
    return {
        **{f"{layer}.h": h[k] for k, layer in enumerate(layers)},
        **{f"{layer}.T": at[k] for k, layer in enumerate(layers)},
        **{f"{layer}.ice": np.clip(1.0 - h[k] / fusion, 0.0, 1.0) for k, layer in enumerate(layers)},
        **{"top.T_out": leaving[0], "middle.T_in": leaving[2], "bottom.Q_brine": heat[2]},
        "upper.Q_flow": joint * (at[0] - at[1]),
        "wall_bottom.port_b.Q_flow": -walls[2] * (around - at[2]),
        "middle.port.Q_flow": mass * growth[1] - heat[1],
    }


_LINEAR, _ANGLES = "exact solution", "fewest coordinates, by SciPy"

# All models of this kind
CASES: tuple[Case, ...] = tuple(
    Case(model, (against(what, formulas),), settings={"rtol": rtol})
    for model, what, formulas, rtol in (
        ("rlc-circuit", _LINEAR, _rlc, 1e-9),
        ("heat-transfer", _LINEAR, _heat, 1e-9),
        ("dc-motor", _LINEAR, _motor, 1e-9),
        ("spring-damper", _ANGLES, _spring, 1e-10),
        ("slider-crank-motor", _ANGLES, _crank, 1e-9),
        ("centrifuge", _ANGLES, _centrifuge, 1e-9),
        ("pendulum-3d-drag", _ANGLES, _ball, 1e-9),
        ("ice-tank", _ANGLES, _ice, 1e-11),
    )
)
