"""A capacitor across a source: equations of index 2 whose system Jacobian is singular as they are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import dae_sdc as ds

END = 0.05


def diode(v: Any) -> Any:
    return (v + np.sqrt(v * v + 0.01)) / 10 + v / 500


def source(t: Any) -> Any:
    return 12 * np.sin(314.159265 * t)


def bridge(t: Any, u: Any, du: Any) -> list[Any]:
    a, b, p, i = u
    across = 1e-6 * (du[0] - du[1])
    return [
        i - across - diode(a - p) + diode(-a),
        -i + across - diode(b - p) + diode(-b),
        diode(a - p) + diode(b - p) - p / 100 - 470e-6 * du[2],
        a - b - source(t),
    ]


@pytest.fixture(scope="module")
def voltage() -> float:
    """The voltage of the load at the end, by the equation that is left when a, b and i are eliminated."""

    def rate(t: float, p: Any) -> list[float]:
        def balance(b: float) -> float:
            a = b + source(t)
            return float(-diode(a - p[0]) + diode(-a) - diode(b - p[0]) + diode(-b))

        b = brentq(balance, -100.0, 100.0, xtol=1e-14)
        return [(diode(b + source(t) - p[0]) + diode(b - p[0]) - p[0] / 100) / 470e-6]

    done = solve_ivp(rate, (0.0, END), [0.0], method="Radau", rtol=1e-9, atol=1e-10, max_step=1e-3)
    return float(done.y[0, -1])


@pytest.mark.parametrize(
    "options", [{}, {"nodes": 3}, {"sweeper": "ida"}], ids=["default", "three nodes", "ida"]
)
@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
def test_a_capacitor_across_a_source_is_solved(rtol: float, options: dict[str, Any], voltage: float) -> None:
    if "sweeper" in options:
        pytest.importorskip("sksundae")
    start = {"a": 0.0, "b": 0.0, "p": 0.0, "i": 0.0}
    solution = ds.solve(bridge, u0=start, t_end=END, rtol=rtol, **options)
    assert solution.success, solution.message
    assert solution["p"][-1] == pytest.approx(voltage, rel=100 * rtol)


def test_an_error_test_without_differential_unknowns_is_refused() -> None:
    pytest.importorskip("sksundae")

    class Unsure(ds.ProblemDAE):
        names = ("x", "z")
        variable_index = (2, 2)

        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=1, n_alg=1, **settings)

        def eval_f(self, u: Any, du: Any, t: Any) -> list[Any]:
            return [du[0] - u[1], u[0] - np.sin(t)]

    with pytest.raises(ds.InputError, match="leaves out unknowns of index 2"):
        ds.solve(Unsure, u0=[0.0, 1.0], sweeper="ida", rtol=1e-6, trace=False)
    with pytest.raises(ds.InputError, match="leave one of them for the error test"):
        ds.solve(bridge, u0=[0.0] * 4, t_end=1.0, rtol=1e-6, leave_out=["u[0]", "u[1]", "u[2]", "u[3]"])
