"""Checks of circuits, motors and heat, written from physics and not from the equations of the models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.studies.models import mechanisms
from benchmarks.studies.models.cases import Case, Flight, against, integrated
from dae_sdc.dae.state import Vector


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
    p = flight.parameters
    amplitude, series, load, inductance, capacitance = p.source.V, p.wire.R, p.load.R, p.coil.L, p.capacitor.C
    omega = 2.0 * np.pi * p.source.f
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
    p = flight.parameters
    capacity = np.array([flight.value(f"{part}.C") for part in parts])
    outer, first, second, inner = (flight.value(f"{joint}.G") for joint in joints)
    window, heater = p.window.G, p.heater.Q
    joined = np.diag([first, second, inner], 1) + np.diag([first, second, inner], -1)
    conductance = joined - np.diag([outer + first, first + second, second + inner, inner + window])
    outside = np.array([outer, 0.0, 0.0, window])
    mean, swing, omega = p.weather.T_mean, p.weather.swing, 2.0 * np.pi / p.weather.period
    start = [flight(f"{part}.T")[0] for part in parts]
    given = (outside * mean + [0.0, 0.0, 0.0, heater]) / capacity
    matrix, sine = conductance / capacity[:, None], outside * swing / capacity
    temperatures = _response(matrix, given, sine, omega, start, flight.t)
    weather = mean + swing * np.sin(omega * flight.t)
    brick, insulation, plaster, room = temperatures
    rate = (inner * (plaster - room) + window * (weather - room) + heater) / capacity[3]
    return {
        **{f"{part}.T": values for part, values in zip(parts, temperatures, strict=True)},
        **{"weather.port.T": weather, "window.dT": room - weather},
        **{"outer_film.Q_flow": outer * (weather - brick), "outer_joint.dT": brick - insulation},
        "inner_joint.Q_flow": second * (insulation - plaster),
        "inner_film.port_b.Q_flow": -inner * (plaster - room),
        "weather.port.Q_flow": outer * (brick - weather) + window * (room - weather),
        "room.port.Q_flow": capacity[3] * rate,
    }


def _motor(flight: Flight) -> Mapping[str, Any]:
    """Current and speed of the motor; its angle is that of the equations integrated once over time."""
    p = flight.parameters
    voltage, resistance, inductance = p.source.V, p.resistor.R, p.coil.L
    k, inertia, friction = p.emf.k, p.load.J, p.bearing.d
    matrix = [[-resistance / inductance, -k / inductance], [k / inertia, -friction / inertia]]
    start = [flight("coil.i")[0], flight("load.w")[0]]

    def free(x0: npt.ArrayLike, given: float, since: Vector) -> Vector:
        return _response(matrix, [given / inductance, 0.0], [0.0, 0.0], 1.0, x0, since)

    begin = max(p.source.startTime, flight.t[0])
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


def _ice(flight: Flight) -> Mapping[str, Any]:
    """Enthalpies of the three layers, with the temperatures by interpolation between the melting points."""
    layers = ("top", "middle", "bottom")
    p, top = flight.parameters, flight.parameters.top
    mass, solid, liquid, fusion, flow, joint = top.m, top.c_ice, top.c_water, top.h_f, top.C_flow, p.upper.G
    reach = 1.0 - np.exp(-top.UA / flow)
    walls = np.array([p.wall_top.G, p.wall_middle.G, p.wall_bottom.G])
    around, mean, swing, period = p.cellar.T, p.brine.T_mean, p.brine.swing, p.brine.period

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
        ("spring-damper", _ANGLES, mechanisms.spring_damper, 1e-10),
        ("slider-crank-motor", _ANGLES, mechanisms.motor_crank, 1e-9),
        ("centrifuge", _ANGLES, mechanisms.centrifuge, 1e-9),
        ("pendulum-3d-drag", _ANGLES, mechanisms.dragged_pendulum, 1e-9),
        ("ice-tank", _ANGLES, _ice, 1e-11),
    )
)
