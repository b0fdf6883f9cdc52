"""DAEs as plain functions F(t, u, du), and what else other solvers need, written by hand.

Nothing of the packages that are compared is imported here, so that a new process can time their imports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Posed:
    function: Callable[..., Any]  # F(t, u, du) for IDA, f(t, y) for SciPy
    start: Any  # Value at the start
    slope: Any = ()  # Derivative at the start, for IDA
    options: Mapping[str, Any] = field(default_factory=dict)  # Options of the solver besides tolerances
    unknowns: Callable[[float, Vector], Any] = lambda t, y: y  # From time and state of the solver


@dataclass(frozen=True)
class PlainProblem:
    about: str  # One line on what it is
    function: Callable[..., Any]  # F(t, u, du), what this package gets
    start: Sequence[float]  # Consistent value at t = 0
    t_end: float  # End
    index: int  # Differentiation index of F
    sizes: Sequence[float]  # In whose units errors at the end count; times rtol the tolerances of peers
    reference: Callable[[], Vector]  # The value at the end, from another source than these solvers
    ida: Mapping[str, Posed]  # Ways to give it to IDA and to SciPy's Radau, by what tells them apart
    radau: Mapping[str, Posed] = field(default_factory=dict)
    without_radau: str = ""  # Why SciPy cannot take it


def robertson(t: float, u: Any, du: Any) -> Any:
    """Robertson's reaction with the conservation of mass, index 1."""
    a, b, c = u
    net, pairs = 0.04 * a - 1e4 * b * c, 3e7 * b * b
    return [du[0] + net, du[1] - net + pairs, a + b + c - 1.0]


def robertson_rates(t: float, y: Any) -> Any:
    """Robertson's reaction without the conservation of mass, as SciPy takes it."""
    a, b, c = y
    net, pairs = 0.04 * a - 1e4 * b * c, 3e7 * b * b
    return [-net, net - pairs, pairs]


# At t = 4e4, to 12 digits: the run with relative tolerance 1e-13 that gives the Test Set's value at 1e11
ROBERTSON_END = (0.03898337708548, 1.62176831591e-07, 0.9610164607377)
# Of a resistor, a capacitor and a diode of the ladder, in Ohm, F, A and V
RESISTANCE, CAPACITANCE, SATURATION, THERMAL = 100.0, 1e-6, 1e-12, 0.026


def into_nodes(t: float, u: Any, resistance: float) -> Any:
    """Currents into the nodes of a row of resistors behind a source."""
    before = np.concatenate(([math.sin(100.0 * math.pi * t)], u[:-1]))
    current = (before - u) / resistance
    into = np.array(current)
    into[:-1] -= current[1:]
    return into


def ladder(t: float, u: Any, du: Any) -> Any:
    """Currents into the nodes of a ladder of resistors, with a diode and a capacitor at every second node."""
    into = into_nodes(t, u, RESISTANCE)
    into[1::2] -= CAPACITANCE * du[1::2] + SATURATION * (np.exp(u[1::2] / THERMAL) - 1.0)
    return into


def ladder_rates(t: float, v: Any) -> Any:
    """Rates of the voltages at the capacitors of the ladder, the nodes between them eliminated by hand."""
    into = into_nodes(t, v, 2.0 * RESISTANCE)
    return (into - SATURATION * (np.exp(v / THERMAL) - 1.0)) / CAPACITANCE


def ladder_voltages(t: float, v: Vector) -> Vector:
    before = np.concatenate(([math.sin(100.0 * math.pi * t)], v[:-1]))
    return np.column_stack([0.5 * (before + v), v]).ravel()


def ladder_end(nodes: int, t_end: float) -> Vector:
    """The voltages at the end by an explicit Runge-Kutta method of order 8, which no side uses."""
    from scipy.integrate import solve_ivp

    run = solve_ivp(ladder_rates, (0.0, t_end), np.zeros(nodes // 2), "DOP853", rtol=1e-12, atol=1e-14)
    return ladder_voltages(t_end, run.y[:, -1])


def diode_ladder(nodes: int) -> PlainProblem:
    """The ladder with so many nodes, an even number, from rest over one period of its source."""
    slope = np.zeros(nodes)
    slope[0] = 50.0 * math.pi
    t_end = 0.02
    between = {"algebraic_idx": np.arange(0, nodes, 2)}
    band = {"linsolver": "band", "lband": 1, "uband": 1}
    half = np.zeros(nodes // 2)
    sparse = {"jac_sparsity": np.abs(np.subtract.outer(np.arange(nodes // 2), np.arange(nodes // 2))) <= 1}
    return PlainProblem(
        about=f"ladder of {nodes} nodes, half of them with diode and capacitor",
        function=ladder,
        start=[0.0] * nodes,
        t_end=t_end,
        index=1,
        sizes=[1.0] * nodes,
        reference=lambda: ladder_end(nodes, t_end),
        ida={
            "dense": Posed(ladder, np.zeros(nodes), slope, between),
            "band": Posed(ladder, np.zeros(nodes), slope, {**between, **band}),
        },
        radau={
            "dense": Posed(ladder_rates, half, unknowns=ladder_voltages),
            "sparse": Posed(ladder_rates, half, options=sparse, unknowns=ladder_voltages),
        },
    )


def amplifier(t: float, u: Any, du: Any) -> Any:
    """Currents into the nodes of an amplifier with two transistors; the matrix of du is singular, index 1."""
    u1, u2, u3, u4, u5, u6, u7, u8 = u
    d1, d2, d3, d4, d5, d6, d7, d8 = du
    source = 0.1 * math.sin(200.0 * math.pi * t)
    first = 1e-6 * (math.exp((u2 - u3) / 0.026) - 1.0)
    second = 1e-6 * (math.exp((u5 - u6) / 0.026) - 1.0)
    return [
        (source - u1) / 1000.0 + 1e-6 * (d2 - d1),
        (6.0 - u2) / 9000.0 - u2 / 9000.0 + 1e-6 * (d1 - d2) - 0.01 * first,
        first - u3 / 9000.0 - 2e-6 * d3,
        (6.0 - u4) / 9000.0 + 3e-6 * (d5 - d4) - 0.99 * first,
        (6.0 - u5) / 9000.0 - u5 / 9000.0 + 3e-6 * (d4 - d5) - 0.01 * second,
        second - u6 / 9000.0 - 4e-6 * d6,
        (6.0 - u7) / 9000.0 + 5e-6 * (d8 - d7) - 0.99 * second,
        -u8 / 9000.0 + 5e-6 * (d7 - d8),
    ]


AMPLIFIER_START = [0.0, 3.0, 3.0, 6.0, 3.0, 3.0, 6.0, 0.0]
AMPLIFIER_SLOPE = (
    *(51.338775, 51.338775, -166.66666666666666, -24.9757667),
    *(-24.9757667, -83.33333333333333, -10.00564453, -10.00564453),
)
# Derivative at t = 0, and value at t = 0.2: Test Set for IVP Solvers, release 2.4, to 12 digits
AMPLIFIER_END = (
    *(-0.005562145012262709, 3.006522471903042, 2.849958788608128, 2.926422536206241),
    *(2.704617865010554, 2.761837778393145, 4.770927631616772, 1.236995868091548),
)


def pendulum(t: float, u: Any, du: Any) -> Any:
    """Pendulum of unit length, mass and gravity in Cartesian coordinates, index 3."""
    x, y, v, w, tension = u
    return [du[0] - v, du[1] - w, du[2] + tension * x, du[3] + tension * y + 1.0, x * x + y * y - 1.0]


def pendulum_index_1(t: float, u: Any, du: Any) -> Any:
    """The pendulum with its constraint differentiated twice by hand."""
    x, y, v, w, tension = u
    constraint = v * v + w * w - y - tension * (x * x + y * y)
    return [du[0] - v, du[1] - w, du[2] + tension * x, du[3] + tension * y + 1.0, constraint]


def pendulum_rates(t: float, u: Any) -> Any:
    """The pendulum with its tension eliminated by hand."""
    x, y, v, w = u
    tension = (v * v + w * w - y) / (x * x + y * y)
    return [v, w, -tension * x, -tension * y - 1.0]


def pendulum_index_0(t: float, u: Any, du: Any) -> Any:
    """The pendulum with its tension eliminated by hand, as IDA takes it."""
    x, y, v, w = u
    tension = (v * v + w * w - y) / (x * x + y * y)
    return [du[0] - v, du[1] - w, du[2] + tension * x, du[3] + tension * y + 1.0]


def pendulum_unknowns(t: float, y: Vector) -> Vector:
    tension = (y[2] * y[2] + y[3] * y[3] - y[1]) / (y[0] * y[0] + y[1] * y[1])
    return np.array([*y, tension])


PENDULUM_START, PENDULUM_SLOPE = [1.0, 0.0, 0.0, 1.0, 1.0], [0.0, 1.0, -1.0, -1.0, -3.0]
# At t = 10; an explicit Runge-Kutta method of order 8 with tolerance 1e-13 agrees to 2e-12
PENDULUM_END = (
    *(0.8843923830927204, 0.46674416196410956, 0.12037265524170206),
    *(-0.22808353720039315, -0.4002324858923288),
)


# The problems of the study by name
PLAIN: Mapping[str, PlainProblem] = {
    "robertson": PlainProblem(
        about="Robertson's reaction to t = 4e4",
        function=robertson,
        start=[1.0, 0.0, 0.0],
        t_end=4e4,
        index=1,
        sizes=ROBERTSON_END,
        reference=lambda: np.array(ROBERTSON_END),
        ida={"dense": Posed(robertson, [1.0, 0.0, 0.0], [-0.04, 0.04, 0.0], {"algebraic_idx": [2]})},
        radau={"rates": Posed(robertson_rates, [1.0, 0.0, 0.0])},
    ),
    "ladder-10": diode_ladder(10),
    "ladder-100": diode_ladder(100),
    "amplifier": PlainProblem(
        about="amplifier with two transistors to t = 0.2",
        function=amplifier,
        start=AMPLIFIER_START,
        t_end=0.2,
        index=1,
        sizes=[0.1, 3.0, 3.0, 6.0, 3.0, 3.0, 6.0, 3.0],
        reference=lambda: np.array(AMPLIFIER_END),
        ida={"dense": Posed(amplifier, AMPLIFIER_START, AMPLIFIER_SLOPE)},
        without_radau="the matrix of du is singular, and its constraints have no closed solution",
    ),
    "pendulum": PlainProblem(
        about="pendulum to t = 10, for peers with its index lowered by hand",
        function=pendulum,
        start=PENDULUM_START,
        t_end=10.0,
        index=3,
        sizes=[1.0] * 5,
        reference=lambda: np.array(PENDULUM_END),
        ida={
            "index 1": Posed(pendulum_index_1, PENDULUM_START, PENDULUM_SLOPE, {"algebraic_idx": [4]}),
            "index 0": Posed(pendulum_index_0, PENDULUM_START[:4], PENDULUM_SLOPE[:4], {}, pendulum_unknowns),
        },
        radau={"index 0": Posed(pendulum_rates, PENDULUM_START[:4], unknowns=pendulum_unknowns)},
    ),
}
