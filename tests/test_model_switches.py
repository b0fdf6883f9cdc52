"""Comparisons in models: jumps are located, sliding ends with a message, kinks are left to the step size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp

import dae_sdc as ds


def modelica(tmp_path: Path, text: str) -> str:
    path = tmp_path / f"{text.split()[1]}.mo"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("settings", [{"rtol": 1e-6, "chattering": "stop"}, {"dt": 1.0 / 16}])
def test_a_run_that_slides_along_a_jump_may_end_with_a_message(settings: Any, tmp_path: Path) -> None:
    text = "model A Real x(start=0); equation der(x)=if x<1 then 1 else -0.5; end A;"
    solution = ds.solve(modelica(tmp_path, text), t_end=2.0, **settings)
    assert not solution.success
    assert "'x < 1' switches again and again at t=1," in solution.message
    assert solution.t[-1] == pytest.approx(1.0, abs=1e-12) and solution.stats["steps"] < 100


@pytest.mark.parametrize("simplify", [None, False])
def test_friction_holds(simplify: bool | None, tmp_path: Path) -> None:
    text = "model F Real v(start=1); equation der(v)=-sign(v)+0.1; end F;"
    solution = ds.solve(modelica(tmp_path, text), rtol=1e-6, t_end=4.0, simplify=simplify)
    assert solution.success and solution.t[-1] == 4.0
    assert solution.switches[0].t == pytest.approx([1.0 / 0.9], rel=1e-9)
    assert abs(solution["v"][-1]) < 1e-9


@pytest.mark.parametrize("motion", ["der(x)=1", "x=time"])
@pytest.mark.parametrize("settings", [{"rtol": 1e-6}, {"dt": 0.3}, {"rtol": 1e-6, "simplify": False}])
def test_cases_one_after_the_other_are_located(motion: str, settings: Any, tmp_path: Path) -> None:
    text = f"model B Real x(start=0), y; equation {motion}; " + (
        "y=if x<=1 then 1 elseif x<=3 then 2 else 3; end B;"
    )
    times = np.linspace(0.0, 4.2, 16)
    solution = ds.solve(modelica(tmp_path, text), t_end=4.2, t_eval=times, **settings)
    assert solution.success, solution.message
    assert np.array_equal(solution.values("y"), np.where(times <= 1, 1.0, np.where(times <= 3, 2.0, 3.0)))
    found = sorted(float(t) for record in solution.switches for t in record.t)
    assert found == pytest.approx([1.0, 3.0], abs=1e-9)


def test_a_bouncing_spring_switches_at_the_times_of_its_formula(tmp_path: Path) -> None:
    text = (
        "model C Real x(start=0), v(start=1), h; equation der(x)=v; der(v)=if x<0 then -100*x else -1; "
        "h=if v<0 then 0 else 1; end C;"
    )
    solution = ds.solve(modelica(tmp_path, text), rtol=1e-9, t_end=4.0)
    found = {record.name: record.t for record in solution.switches}
    # Up and down in 2 units of time, then half a period of the spring, pi / 10.
    assert found["x < 0"] == pytest.approx([2.0, 2.0 + np.pi / 10], abs=1e-7)


def test_what_has_a_kink_is_a_switch_that_changes_no_value() -> None:
    m = ds.Model("ramp")
    x, y = m.variables("x y", start=[0.0, 0.0])
    m.equations(m.der(x) - 1, y - sp.Piecewise((0, x < 1), (x - 1, True)) - sp.Max(x, 2) - sp.Abs(x - 3))
    assert sorted(m.problem().switch_names) == ["x - 3 >= 0", "x < 1", "x <= 2"]
    solution = ds.solve(m, t_end=4.0, rtol=1e-8, u0=[0.0, 5.0], t_eval=[0.5, 1.5, 2.5, 3.5])
    assert sorted(float(t) for record in solution.switches for t in record.t) == pytest.approx(
        [1.0, 2.0, 3.0]
    )
    assert solution.values("y") == pytest.approx([4.5, 4.0, 4.5, 6.5], abs=1e-9)


def test_a_comparison_that_is_a_value_itself_is_a_switch() -> None:
    m = ds.Model("thermostat")
    temperature, heat = m.variables("T heat", start=[20.0, 1.0])
    m.equation(m.der(temperature) + temperature - 30.0 * heat)
    m.equation(heat - sp.Piecewise((1, sp.cos(m.t) > 0), (0, True)))
    solution = ds.solve(m, rtol=1e-8, t_end=7.0)
    found = np.sort(np.concatenate([one.t for one in solution.switches]))
    assert found == pytest.approx([np.pi / 2, 3 * np.pi / 2], abs=1e-9)


@pytest.mark.parametrize("sweeper", [None, "radau-iia-5", "fully-implicit", "semi-implicit", "bdf3"])
def test_a_jacobian_whose_formula_is_not_defined_is_found_by_differences(
    sweeper: str | None, tmp_path: Path
) -> None:
    text = "model D Real x(start=0); equation der(x)=1+sqrt(abs(x))*x^3; end D;"
    exact = 1.425225059  # SciPy's Radau and DOP853 at rtol = 1e-12 agree to 10 digits
    settings: dict[str, Any] = {"dt": 1.0 / 256} if sweeper == "bdf3" else {"rtol": 1e-8}
    solution = ds.solve(modelica(tmp_path, text), t_end=1.0, sweeper=sweeper, **settings)
    assert solution.success, solution.message
    assert solution.u[-1, 0] == pytest.approx(exact, rel=2e-5 if sweeper == "bdf3" else 1e-7)
