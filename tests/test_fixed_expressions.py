"""What is fixed at a start may be an expression of unknowns, their derivatives and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.cli import main

LENGTH, ANGLE, SPIN = 2.0, 0.3, 0.5
GIVEN = {"atan2(x, -y)": ANGLE, "(x*vy - y*vx)/L^2": SPIN}


def model() -> ds.Model:
    m = ds.Model("swing")
    x, y, vx, vy, lam = m.variables("x y vx vy lam")
    length = m.parameter("L", LENGTH)
    m.equation(m.der(x) - vx, name="rate x")
    m.equation(m.der(y) - vy, name="rate y")
    m.equation(m.der(vx) + lam * x, name="force x")
    m.equation(m.der(vy) + lam * y + 9.81, name="force y")
    m.equation(x**2 + y**2 - length**2, name="length")
    return m


class Swing(ds.ProblemDAE):
    names = ("x", "y", "vx", "vy", "lam")

    def __init__(self, L: float = LENGTH, **settings: Any) -> None:
        super().__init__(n_diff=4, n_alg=1, **settings)
        self.L = L

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        x, y, vx, vy, lam = u
        rod = x * x + y * y - self.L**2
        return [du[0] - vx, du[1] - vy, du[2] + lam * x, du[3] + lam * y + 9.81, rod]


EXPECTED = [
    LENGTH * np.sin(ANGLE),
    -LENGTH * np.cos(ANGLE),
    LENGTH * SPIN * np.cos(ANGLE),
    LENGTH * SPIN * np.sin(ANGLE),
    SPIN**2 + 9.81 * np.cos(ANGLE) / LENGTH,
]


@pytest.mark.parametrize("of_model", [True, False])
def test_an_angle_and_a_speed_of_rotation_are_kept(of_model: bool) -> None:
    given = GIVEN if of_model else {name.replace("L^2", "4"): value for name, value in GIVEN.items()}
    equations: Any = model() if of_model else Swing
    start = ds.initial(equations, fixed=given)
    assert start.u == pytest.approx(EXPECTED, rel=1e-9)
    assert set(given) <= set(start.fixed)
    run = ds.solve(equations, fixed=given, t_end=0.1, rtol=1e-8)
    assert run.u[0] == pytest.approx(EXPECTED, rel=1e-9)


def test_derivatives_are_fixed_in_expressions() -> None:
    m = ds.Model("pendulum")
    x, y, lam = m.variables("x y lam")
    m.equations(m.der(x, 2) + lam * x, m.der(y, 2) + lam * y + 9.81, x**2 + y**2 - 1)
    start = ds.initial(m, fixed={"atan2(x, -y)": ANGLE, "x*der(y) - y*der(x)": SPIN})
    assert start["der(x)"] == pytest.approx(SPIN * np.cos(ANGLE))
    assert start["lam"] == pytest.approx(SPIN**2 + 9.81 * np.cos(ANGLE))


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"x + q": 1.0}, r"the fixed 'x \+ q': unknown name 'q'; .*available"),
        ({"x +": 1.0}, r"the fixed 'x \+' is no expression"),
        ({"open('f')": 1.0}, "unknown function 'open'"),
        ({"x.real + 1": 1.0}, "unknown name"),
        ({"2*pi": 1.0}, "has no unknown"),
        ({"x + 9**9**9": 1.0}, "cannot be evaluated"),
        ({"x**2": 9.0}, r"'length'.* of model swing"),
        ({"x": 0.6, "atan2(x, -y)": 0.1, "y": -1.9}, r"'length'"),
    ],
)
def test_what_cannot_be_fixed_is_refused_in_one_line(fixed: Any, words: str) -> None:
    with pytest.raises(ds.InputError, match=words) as caught:
        ds.initial(model(), fixed=fixed)
    assert "\n" not in str(caught.value)


def test_expressions_need_equations_that_are_read() -> None:
    with pytest.raises(ds.InputError, match="is an expression, which needs equations that are read"):
        ds.solve(Swing, fixed={"atan2(x, -y)": ANGLE}, trace=False, t_end=0.1, rtol=1e-6)
    with pytest.raises(ds.InputError, match="leave all_solutions out"):
        ds.initial(model(), fixed=GIVEN, all_solutions=True)


def test_the_command_line_takes_expressions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["initial", "pendulum", "--fixed", "atan2(x, -y)=0.3"]) == 0
    assert "2.95520206661" in capsys.readouterr().out  # sin 0.3
