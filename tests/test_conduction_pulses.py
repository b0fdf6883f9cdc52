"""Bridges of exponential diodes: rows between the pulses in which they conduct, and steps across these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import dae_sdc as ds

VT = 0.025

NODES, FLOATING, IDEAL = 0, 1, 2
"""Nodes a, p, n with the capacitor from p to n; a source between a and b through a resistor; without one."""


class Bridge(NamedTuple):
    """A rectifier: diodes Is (exp(v / VT) - 1) + gmin v, a sine through Rs, and R beside C as its load."""

    kind: int
    saturation: float
    gmin: float
    amplitude: float
    frequency: float
    source_resistance: float
    load: float
    capacitance: float
    periods: float
    rtol: float
    trace: bool | None

    def diode(self, v: Any) -> Any:
        with np.errstate(over="ignore"):
            return self.saturation * (np.exp(v / VT) - 1.0) + self.gmin * v

    def source(self, t: Any) -> Any:
        return self.amplitude * np.sin(2.0 * np.pi * self.frequency * t)

    @property
    def names(self) -> str:
        return "apn" if self.kind == NODES else "abpi"

    @property
    def equations(self) -> Callable[[Any, Any, Any], list[Any]]:
        d = self.diode

        def nodes(t: Any, u: Any, du: Any) -> list[Any]:
            a, p, n = u
            load = (p - n) / self.load + self.capacitance * (du[1] - du[2])
            supplied = (self.source(t) - a) / self.source_resistance
            return [supplied - d(a - p) + d(n - a), d(a - p) + d(-p) - load, load - d(n - a) - d(n)]

        def floating(t: Any, u: Any, du: Any) -> list[Any]:
            a, b, p, i = u
            drop = self.source_resistance * i if self.kind == FLOATING else 0.0
            return [
                i - d(a - p) + d(-a),
                -i - d(b - p) + d(-b),
                d(a - p) + d(b - p) - p / self.load - self.capacitance * du[2],
                a - b + drop - self.source(t),
            ]

        return nodes if self.kind == NODES else floating

    def across(self, t: float, v: float) -> float:
        """Voltage w between the ends of the source, where v is that of the load.

        The bridge is symmetric: two diodes have (w - v) / 2, and two others -(w + v) / 2.
        """
        s, resistance = self.source(t), self.source_resistance
        if self.kind == IDEAL:
            return float(s)

        def balance(w: float) -> float:
            return float((s - w) / resistance - self.diode((w - v) / 2) + self.diode(-(w + v) / 2))

        low, high = min(s, -v) - 1e-3, max(s, v) + 1e-3
        return float(brentq(balance, max(low, -v - 2.4), min(high, v + 2.4), xtol=1e-15, rtol=1e-15))

    def reference(self, times: Any) -> Any:
        """All unknowns at times, by Radau's method for the voltage of the load alone; shape (K, n)."""

        def rate(t: float, y: Any) -> list[float]:
            v = float(y[0])
            w = self.across(t, v)
            charging = self.diode((w - v) / 2) + self.diode(-(w + v) / 2)
            return [(charging - v / self.load) / self.capacitance]

        found = solve_ivp(
            rate,
            (0.0, times[-1]),
            [0.0],
            method="Radau",
            t_eval=times,
            rtol=1e-10,
            atol=1e-12 * self.amplitude,
            max_step=1.0 / (500.0 * self.frequency),
        )
        rows = []
        for t, v in zip(times, found.y[0], strict=True):
            w = self.across(t, v)
            high, low = (w + v) / 2, (v - w) / 2
            if self.kind == NODES:
                rows.append([w, high, high - v])
            else:
                rows.append([high, low, v, self.diode(high - v) - self.diode(-high)])
        return np.array(rows)


# fmt: off
BRIDGES = (
    Bridge(
        IDEAL,
        1.0021577872791914e-12,
        4.4647319829528535e-09,
        11.99255664281314,
        50.304421819058,
        0.3038835567751732,
        9487.579920257069,
        1.7287018560114196e-05,
        1.8032028184279052,
        0.0001,
        None,
    ),
    Bridge(
        FLOATING,
        2.0692208917142636e-10,
        1.0314051854133224e-07,
        18.4739418942725,
        183.35611521431474,
        31.129448021363277,
        9890.816404645078,
        8.85913873996212e-06,
        1.9807442699397542,
        1e-05,
        None,
    ),
    Bridge(
        FLOATING,
        3.507347715936284e-10,
        1.0484960916922195e-07,
        16.898574711049452,
        930.1178016787956,
        5.394804153387171,
        66.92577040137449,
        4.49524040268506e-05,
        3.030425685686116,
        1e-06,
        None,
    ),
    Bridge(
        IDEAL,
        5.018928262610632e-10,
        1.7695663993781087e-07,
        21.794775408011255,
        98.8318896535717,
        6.881350632367485,
        1324.3083891649426,
        7.802751903363244e-06,
        2.207199304548205,
        1e-07,
        None,
    ),
    Bridge(
        FLOATING,
        1.2074469861918277e-12,
        5.0564902806262795e-08,
        20.167357117156527,
        105.3143301807544,
        1.8099012806465724,
        264.2398630586174,
        1.6033659952249052e-05,
        2.76886288196619,
        1e-08,
        False,
    ),
    Bridge(
        NODES,
        5.264960464514337e-10,
        3.51176972236105e-08,
        7.643700916130133,
        808.0523581167886,
        0.46521381726948896,
        6083.617695577945,
        3.4475849990618797e-06,
        3.1699376276034665,
        1e-08,
        None,
    ),
    Bridge(
        NODES,
        2.2200216983337616e-10,
        7.92649897842582e-08,
        15.452106264865858,
        510.2245021146789,
        0.5092009879587733,
        56.24792742480377,
        0.00019649218319275864,
        2.5013316651030575,
        1e-08,
        None,
    ),
    Bridge(
        IDEAL,
        6.037059252585303e-10,
        1.706100754769135e-07,
        15.475833781518046,
        964.7055533024369,
        3.8978941668634173,
        4318.84070733761,
        4.658775126386689e-06,
        3.429340788472092,
        1e-05,
        None,
    ),
    Bridge(
        IDEAL,
        1.4839441386350232e-10,
        9.259083032690375e-09,
        23.339255171497555,
        459.3917398981809,
        1.3979607597104131,
        104.44332051126983,
        6.670924727406383e-06,
        3.46066212092144,
        1e-05,
        None,
    ),
    Bridge(
        IDEAL,
        2.2419087376629473e-10,
        3.289849110386053e-09,
        14.136054187240207,
        180.2411283785432,
        0.29609324648687213,
        704.3029402933108,
        1.9961643081943742e-05,
        3.3271919891883766,
        1e-06,
        False,
    ),
    Bridge(
        IDEAL,
        1.853568567327614e-12,
        2.6463785664424825e-07,
        18.902850768940326,
        564.4038799433929,
        0.2828238090869742,
        39.80520654775919,
        8.757077407892116e-05,
        2.127962595217732,
        1e-05,
        None,
    ),
)
# fmt: on


@pytest.mark.parametrize("bridge", BRIDGES, ids=[str(k) for k in range(len(BRIDGES))])
def test_a_bridge_is_right_in_every_row(bridge: Bridge) -> None:
    end = bridge.periods / bridge.frequency
    start = dict.fromkeys(bridge.names, 0.0)
    equations: Any = bridge.equations
    solution = ds.solve(equations, u0=start, t_end=end, rtol=bridge.rtol, trace=bridge.trace)
    assert solution.success, solution.message
    reference = bridge.reference(solution.t)
    assert (np.abs(solution.u - reference) <= 100 * bridge.rtol * (1.0 + np.abs(reference))).all()


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("begin", [1.1, 1.7, 1.9, 2.5, 2.7])
def test_a_pulse_of_the_input_of_a_called_function_is_not_stepped_over(begin: float, rtol: float) -> None:
    """Steps from rest grow to the whole interval; places where F is evaluated are 0.12 of a step apart."""
    end, width = 5.0, 0.12 * 5.0

    def equations(t: Any, u: Any, du: Any) -> list[Any]:
        return [du[0] + u[0] - np.where((t >= begin) & (t < begin + width), 1.0, 0.0), u[1] - u[0]]

    called: Any = equations
    solution = ds.solve(called, u0=[0.0, 0.0], t_end=end, rtol=rtol, trace=False)
    assert solution.success, solution.message
    t = solution.t
    risen = 1.0 - np.exp(begin - np.clip(t, begin, begin + width))
    exact = risen * np.exp(np.minimum(begin + width - t, 0.0))
    assert np.abs(solution.u - exact[:, None]).max() <= 100 * rtol
