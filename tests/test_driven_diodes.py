"""A rectifier whose source stands in the law of its diode, from rest, beside an ordinary equation."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers.pairs import covering_pairs
from scipy.integrate import solve_ivp
from scipy.special import wrightomega

import dae_sdc as ds

AMPLITUDE, RESISTANCE, CAPACITY, LOAD, END = 5.0, 10.0, 0.01, 50.0, 2.4


def source(t: Any) -> Any:
    return AMPLITUDE * np.sin(2.0 * np.pi * t)


def currents(t: Any, u: Any, du: Any, volt: float, leak: float) -> list[Any]:
    """Unknowns: voltage of the capacitor, and current of the diode with the source in its exponent."""
    v, i = u
    law = leak * (np.exp((source(t) - v - RESISTANCE * i) / volt) - 1.0)
    return [CAPACITY * du[0] + v / LOAD - i, i - law]


def drops(t: Any, u: Any, du: Any, volt: float, leak: float) -> list[Any]:
    """Unknowns: voltage of the capacitor, and that over the diode."""
    v, drop = u
    law = leak * (np.exp(drop / volt) - 1.0)
    return [CAPACITY * du[0] + v / LOAD - law, source(t) - v - drop - RESISTANCE * law]


def nodes(t: Any, u: Any, du: Any, volt: float, leak: float) -> list[Any]:
    """Unknowns: voltage of the capacitor, of the node behind the diode, and its current."""
    v, e, i = u
    law = leak * (np.exp((source(t) - e) / volt) - 1.0)
    return [CAPACITY * du[0] + v / LOAD - i, (e - v) / RESISTANCE - i, i - law]


@cache
def voltage(volt: float, leak: float) -> float:
    """Voltage of the capacitor at the end: the current of the diode is a Wright omega function."""

    def slope(t: float, v: Any) -> list[float]:
        drop = source(t) - v[0]
        exponent = np.log(RESISTANCE * leak / volt) + (drop + RESISTANCE * leak) / volt
        current = volt / RESISTANCE * wrightomega(exponent).real - leak
        return [(current - v[0] / LOAD) / CAPACITY]

    how: dict[str, Any] = {"method": "Radau", "rtol": 1e-11, "atol": 1e-13, "max_step": 0.02}
    return float(solve_ivp(slope, (0.0, END), [0.0], **how).y[0, -1])


@pytest.mark.filterwarnings("ignore:overflow")  # of the functions where they are called
@pytest.mark.parametrize(
    ("circuit", "trace", "law", "rtol"),
    covering_pairs(
        product((currents, drops, nodes), (None, False), ((0.05, 1e-6), (0.026, 1e-12)), (1e-4, 1e-7))
    ),
)
def test_a_large_value_of_an_exponential_law_is_no_size_of_an_unknown(
    circuit: Any, trace: bool | None, law: tuple[float, float], rtol: float
) -> None:
    volt, leak = law
    count = 3 if circuit is nodes else 2
    run = ds.solve(
        lambda t, u, du: circuit(t, u, du, volt, leak), u0=[0.0] * count, t_end=END, rtol=rtol, trace=trace
    )
    assert run.success
    assert run.u[-1, 0] == pytest.approx(voltage(volt, leak), abs=30.0 * rtol)


def bridge(t: Any, u: Any, du: Any) -> list[Any]:
    """A bridge of ideal diodes: voltage of the capacitor, and currents of both pairs, each with 0.3 ohms."""
    v, forward, backward = u
    over_first, over_second = v + 0.3 * forward - source(t), v + 0.3 * backward + source(t)
    charge = 0.05 * du[0] + v / 10.0 - forward - backward
    return [charge, np.minimum(forward, over_first), np.minimum(backward, over_second)]


def bridge_with_source(t: Any, u: Any, du: Any) -> list[Any]:
    """The bridge with the voltage of the source among the unknowns."""
    v, forward, backward, e = u
    over_first, over_second = v + 0.3 * forward - e, v + 0.3 * backward + e
    charge = 0.05 * du[0] + v / 10.0 - forward - backward
    return [charge, np.minimum(forward, over_first), np.minimum(backward, over_second), e - source(t)]


@cache
def voltage_of_bridge(start: float) -> float:
    def slope(t: float, v: Any) -> list[float]:
        return [(max(0.0, (abs(source(t)) - v[0]) / 0.3) - v[0] / 10.0) / 0.05]

    how: dict[str, Any] = {"method": "Radau", "rtol": 1e-11, "atol": 1e-13, "max_step": 0.002}
    return float(solve_ivp(slope, (0.0, 1.1), [start], **how).y[0, -1])


@pytest.mark.parametrize("rtol", [1e-5, 1e-6, 1e-7])
@pytest.mark.parametrize("start", [0.0, 1e-12, 1e-9, 1e-8, 1e-6])
@pytest.mark.parametrize("circuit", [bridge, bridge_with_source])
def test_a_start_near_zero_is_no_size_of_what_begins_to_flow_later(
    circuit: Any, start: float, rtol: float
) -> None:
    count = 3 if circuit is bridge else 4
    run = ds.solve(circuit, u0=[start] + [0.0] * (count - 1), t_end=1.1, rtol=rtol)
    assert run.success, run.message
    assert run.u[-1, 0] == pytest.approx(voltage_of_bridge(start), abs=3.0 * rtol)
