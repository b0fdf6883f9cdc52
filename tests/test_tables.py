"""Tables in models, functions that are read and Modelica: their values, and runs through their corners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp
from scipy import interpolate
from scipy.integrate import quad

import dae_sdc as ds
from dae_sdc.modelica.reader import read_modelica_text

TOLERANCES = (1e-4, 1e-6, 1e-9)
X, Y = np.array([0.0, 0.5, 1.2, 2.0, 3.0]), np.array([0.5, 1.5, 1.3, 2.5, 1.5])
ROWS = "table=[" + "; ".join(f"{x}, {y}" for x, y in zip(X, Y, strict=True)) + "]"


def hermite(interior: Callable[[float, float, float, float], float]) -> Any:
    """A cubic interpolant whose inner slopes are functions of two widths and slopes of lines beside."""
    widths, lines = np.diff(X), np.diff(Y) / np.diff(X)
    inner = [interior(*widths[k : k + 2], *lines[k : k + 2]) for k in range(len(X) - 2)]
    return interpolate.CubicHermiteSpline(X, Y, [lines[0], *inner, lines[-1]])


def fritsch_butland(h: float, k: float, a: float, b: float) -> float:
    return 0.0 if a * b <= 0.0 else 3.0 * (h + k) / ((h + 2.0 * k) / a + (k + 2.0 * h) / b)


def steffen(h: float, k: float, a: float, b: float) -> float:
    parabola = (a * k + b * h) / (h + k)
    return float((np.sign(a) + np.sign(b)) * min(abs(a), abs(b), 0.5 * abs(parabola)))


INTERPOLANTS: dict[str, Any] = {
    "linear": interpolate.make_interp_spline(X, Y, k=1),
    "akima": interpolate.Akima1DInterpolator(X, Y),
    "makima": interpolate.Akima1DInterpolator(X, Y, method="makima"),
    "pchip": interpolate.PchipInterpolator(X, Y),
    "fritsch-butland": hermite(fritsch_butland),
    "steffen": hermite(steffen),
    "spline": interpolate.CubicSpline(X, Y),
    "natural": interpolate.CubicSpline(X, Y, bc_type="natural"),
}
MODELICA = {
    "LinearSegments": "linear",
    "ContinuousDerivative": "akima",
    "ModifiedContinuousDerivative": "makima",
    "MonotoneContinuousDerivative1": "fritsch-butland",
    "MonotoneContinuousDerivative2": "steffen",
}


def expected(kind: str, outside: str, x: Any) -> Any:
    inside = INTERPOLANTS[kind]
    nearest = np.clip(x, X[0], X[-1])
    slope = inside.derivative()(nearest)
    lines = {"hold": 0.0, "linear": slope * (x - nearest), "refuse": np.where(x == nearest, 0.0, np.nan)}
    return inside(nearest) + lines[outside]


@pytest.mark.parametrize("outside", ["hold", "linear", "refuse"])
@pytest.mark.parametrize("kind", INTERPOLANTS)
def test_a_table_has_the_values_of_its_interpolant(kind: str, outside: str) -> None:
    table = ds.LookupTable(X, Y, kind, outside)
    places = np.array([-1.0, -0.1, 0.0, 0.1, 0.5, 0.7, 1.2, 1.9, 2.0, 2.5, 3.0, 3.1, 5.0])
    wanted = expected(kind, outside, places)
    assert table(places) == pytest.approx(wanted, rel=1e-13, nan_ok=True)
    assert [float(table(float(x))) for x in places] == pytest.approx(wanted, rel=1e-13, nan_ok=True)
    x = sp.Symbol("x")
    shown = sp.lambdify(x, table(x), "numpy")
    with np.errstate(invalid="ignore"):
        assert [shown(complex(x)).real for x in places] == pytest.approx(wanted, rel=1e-13, nan_ok=True)
    step = table(np.array([0.7 + 1e-30j]))  # the slope by a complex step
    assert step.imag[0] * 1e30 == pytest.approx(INTERPOLANTS[kind].derivative()(0.7), rel=1e-12)


def moved(how: str, kind: str, outside: str) -> tuple[Any, dict[str, Any]]:
    """v' = table(v) from 0 with w = table(v)^2: passes the places of the table one by one."""
    table = ds.LookupTable(X, Y, kind, outside)
    if how == "model":
        m = ds.Model("moved", interval=(0.0, 2.2))
        v, w = m.variable("v", start=0.0, fixed=True), m.variable("w", start=0.25)
        m.equations(m.der(v) - table(v), w - table(v) ** 2)
        return m, {}
    if how == "modelica":
        (smoothness,) = (word for word, meant in MODELICA.items() if meant == kind)
        extrapolation = {"hold": "HoldLastPoint", "linear": "LastTwoPoints"}[outside]
        text = (
            f"model Moved Modelica.Blocks.Tables.CombiTable1Ds T({ROWS}, "
            f"smoothness=Modelica.Blocks.Types.Smoothness.{smoothness}, "
            f"extrapolation=Modelica.Blocks.Types.Extrapolation.{extrapolation}); "
            "Real v(start=0, fixed=true), w; equation T.u = v; der(v) = T.y[1]; w = T.y[1]^2; "
            "annotation(experiment(StopTime=2.2)); end Moved;"
        )
        return read_modelica_text(text), {}
    return (
        lambda t, u, du: [du[0] - table(u[0]), u[1] - table(u[0]) ** 2],
        {"u0": {"v": 0.0, "w": 0.25}, "t_end": 2.2},
    )


CASES = [
    *(("model", kind, "hold") for kind in INTERPOLANTS),
    *(("function", kind, "linear") for kind in ("linear", "akima", "pchip", "spline")),
    *(("modelica", kind, "hold") for kind in MODELICA.values()),
    ("modelica", "akima", "linear"),
]


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize(("how", "kind", "outside"), CASES)
def test_a_run_passes_the_places_of_a_table_at_their_times(
    how: str, kind: str, outside: str, rtol: float
) -> None:
    parts = zip(X, [*X[1:]], strict=False)
    passed = np.cumsum(
        [quad(lambda x: 1.0 / float(INTERPOLANTS[kind](x)), *part, epsabs=1e-13)[0] for part in parts]
    )
    problem, start = moved(how, kind, outside)
    solution = ds.solve(problem, rtol=rtol, **start)
    assert solution.success, solution.message
    found = np.sort(np.concatenate([record.t for record in solution.switches]))
    beyond = outside == "linear" and kind == "linear"  # its last line goes on, and has no corner there
    assert np.allclose(found, passed[:-1] if beyond else passed, rtol=0.0, atol=10.0 * rtol)
    left = 2.2 - passed[-1]
    slope = 0.0 if outside == "hold" else float(INTERPOLANTS[kind].derivative()(X[-1]))
    end = X[-1] + Y[-1] * (left if slope == 0.0 else np.expm1(slope * left) / slope)
    assert solution["v"][-1] == pytest.approx(end, abs=10.0 * rtol)
    assert solution["w"][-1] == pytest.approx((Y[-1] + slope * (end - X[-1])) ** 2, abs=20.0 * rtol)
    inside = np.linspace(0.01, passed[-1] - 0.01, 20)
    v, w = (solution(inside)[:, solution.names.index(name)] for name in "vw")
    assert np.allclose(w, INTERPOLANTS[kind](v) ** 2, rtol=10.0 * rtol)


TIMED = [("np.interp", "linear")]
TIMED += [(how, kind) for how in ("model", "function") for kind in ("linear", "akima", "pchip", "natural")]


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize(("how", "kind"), TIMED)
def test_a_run_is_the_integral_of_a_table_of_time(how: str, kind: str, rtol: float) -> None:
    """v' = table(t), w = v^2: steps end at the places, to the last bit."""
    table = ds.LookupTable(X, Y, kind)
    m = ds.Model("driven", interval=(0.0, 3.5))
    v, w = m.variable("v", start=0.0, fixed=True), m.variable("w", start=0.0)
    m.equations(m.der(v) - table(m.t), w - v**2)

    def function(t: Any, u: Any, du: Any) -> list[Any]:
        value = np.interp(t, X, Y) if how == "np.interp" else table(t)
        return [du[0] - value, u[1] - u[0] ** 2]

    start: dict[str, Any] = {} if how == "model" else {"u0": [0.0, 0.0], "t_end": 3.5}
    solution = ds.solve(function if start else m, rtol=rtol, **start)
    assert solution.success and np.isin(X, solution.t).all()
    end = float(INTERPOLANTS[kind].antiderivative()(X[-1])) + 0.5 * Y[-1]
    assert solution.u[-1] == pytest.approx([end, end**2], rel=10.0 * rtol)
    middle = INTERPOLANTS[kind].antiderivative()(X[1:-1])
    assert np.allclose(solution(X[1:-1])[:, 0], middle, rtol=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("how", ["time", "state"])
@pytest.mark.parametrize("kind", ["pchip", "spline"])
def test_a_force_follows_from_a_motion_by_a_table(kind: str, how: str, rtol: float) -> None:
    """x'' = f and x = table(t), of index 3: f is the second derivative, which jumps where pieces meet."""
    table, force = ds.LookupTable(X, Y, kind), INTERPOLANTS[kind].derivative(2)
    m = ds.Model("cam", interval=(0.0, 2.9))
    x, s, f = m.variable("x", start=0.5), m.variable("s", start=0.0, fixed=True), m.variable("f", start=0.0)
    m.equations(m.der(x, 2) - f, x - table(m.t if how == "time" else s), m.der(s) - 1)
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    times = np.array([0.1, 0.45, 0.55, 1.1, 1.3, 1.9, 2.1, 2.8])
    found = solution(times)[:, solution.names.index("f")]
    size = np.abs(force(times)).max()
    assert np.allclose(found, force(times), rtol=0.0, atol=10.0 * rtol * size)


VECTORS: dict[str, Callable[[Any, Any], Any]] = {
    "array": lambda table, u: table(u),
    "list": lambda table, u: table([u[0], u[1]]),
    "np.interp": lambda table, u: np.interp(u, X, Y),
    "np.interp of a list": lambda table, u: np.interp([u[0], u[1]], X, Y),
}


@pytest.mark.parametrize("written", VECTORS)
def test_a_table_takes_vectors_of_unknowns(written: str) -> None:
    table = ds.LookupTable(X, Y)

    def function(t: Any, u: Any, du: Any) -> Any:
        return du - VECTORS[written](table, u)

    solution = ds.solve(function, u0=[0.1, 1.3], t_end=1.0, rtol=1e-8)
    assert solution.parameters["equations"] == "traced"
    assert sum(map(len, solution.switches)) == 4  # at 0.5 and 1.2, and at 2 and 3
    for entry, start in enumerate((0.1, 1.3)):
        end = float(solution.u[-1, entry])
        corners = [x for x in X if start < x < end]
        time = quad(lambda x: 1.0 / float(np.interp(x, X, Y)), start, end, points=corners or None)[0]
        assert time == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("kind", ["linear", "pchip"])
def test_a_solution_may_rest_at_a_place_of_a_table_or_swing_about_it(kind: str) -> None:
    table = ds.LookupTable([-2.0, -1.0, 0.0, 1.0, 2.0], [3.0, 1.0, 0.0, -2.0, -3.0], kind, "linear")
    for rtol in (1e-4, 1e-9):
        rests = ds.solve(lambda t, u, du: [du[0] - table(u[0])], u0=[0.7], t_end=100.0, rtol=rtol)
        assert rests.success and abs(rests.u[-1, 0]) < rtol

        def swinging(t: Any, u: Any, du: Any) -> list[Any]:
            return [du[0] - u[1], du[1] - table(u[0]) + 0.3 * u[1]]

        swings = ds.solve(swinging, u0=[0.7, 0.0], t_end=100.0, rtol=rtol)
        assert swings.success and np.abs(swings.u[-1]).max() < 1e-5


@pytest.mark.parametrize("how", ["model", "function"])
def test_a_table_of_many_places_is_left_to_the_step_size(how: str) -> None:
    places = np.linspace(0.0, 8.0, 151)
    table, inside = (
        ds.LookupTable(places, np.sin(places), "spline"),
        interpolate.CubicSpline(places, np.sin(places)),
    )
    m = ds.Model("waves", interval=(0.0, 8.0))
    v = m.variable("v", start=0.0, fixed=True)
    m.equation(m.der(v) - table(m.t))
    start: dict[str, Any] = {} if how == "model" else {"u0": [0.0], "t_end": 8.0}
    solution = ds.solve((lambda t, u, du: [du[0] - table(t)]) if start else m, rtol=1e-8, **start)
    assert solution.success and not solution.switches and solution.stats["steps"] < 50
    assert solution.u[-1, 0] == pytest.approx(inside.integrate(0.0, 8.0), abs=1e-7)
    shown = sp.lambdify(m.t, table(m.t), "numpy")
    assert [float(shown(x)) for x in (0.01, 3.3, 7.99)] == pytest.approx(inside([0.01, 3.3, 7.99]), rel=1e-13)


@pytest.mark.parametrize("how", ["model", "function", "called", "modelica"])
def test_a_table_that_refuses_what_is_beyond_its_ends_ends_the_run_there(how: str) -> None:
    table = ds.LookupTable(X, Y, "akima", "refuse")
    start: dict[str, Any] = {}
    if how == "modelica":
        problem: Any = read_modelica_text(
            f"model Ends Modelica.Blocks.Tables.CombiTable1Ds T({ROWS}, "
            "smoothness=Modelica.Blocks.Types.Smoothness.ContinuousDerivative, "
            "extrapolation=Modelica.Blocks.Types.Extrapolation.NoExtrapolation); "
            "Real v(start=0, fixed=true); equation der(v) = 1; T.u = v; end Ends;"
        )
    elif how == "model":
        problem = ds.Model("ends")
        v, w = problem.variable("v", start=0.0, fixed=True), problem.variable("w", start=0.5)
        problem.equations(problem.der(v) - 1, w - table(v))
    else:
        problem = lambda t, u, du: [du[0] - 1.0, u[1] - table(u[0])]  # noqa: E731
        start = {"u0": [0.0, 0.5], "trace": None if how == "function" else False}
    within, beyond = (ds.solve(problem, t_end=end, rtol=1e-6, **start) for end in (3.0, 3.5))
    assert within.success, within.message
    assert not beyond.success and beyond.t[-1] == pytest.approx(3.0, abs=1e-5)
    assert ("the table T ends at t=3" if how == "modelica" else "NaN") in beyond.message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([0.0, 1.0], [1.0, 2.0], "cubic"), "unknown 'kind' of a table 'cubic'"),
        (([0.0, 1.0], [1.0, 2.0], "linear", "repeat"), "unknown 'outside' of a table 'repeat'"),
        (([0.0], [1.0]), "at least 2"),
        (([0.0, 1.0], [1.0, 2.0, 3.0]), "as many x as y"),
        (([0.0, 0.0], [1.0, 2.0]), "must increase"),
        (([0.0, 1.0], [1.0, np.nan]), "must be finite"),
    ],
)
def test_what_is_no_table_is_refused(arguments: Any, says: str) -> None:
    with pytest.raises(ds.InputError, match=says):
        ds.LookupTable(*arguments)


def test_numbers_of_a_cubic_table_of_modelica_are_those_of_its_parameters() -> None:
    text = (
        "model M parameter Real top = 2; Modelica.Blocks.Tables.CombiTable1Ds T(table=[0, 0; 1, top; 2, 0], "
        "smoothness=Modelica.Blocks.Types.Smoothness.ContinuousDerivative); Real x(start=0, fixed=true); "
        "equation T.u = time; der(x) = T.y[1]; end M;"
    )
    for top in (2.0, 3.0):
        solution = ds.solve(read_modelica_text(text, parameters={"top": top}), t_end=2.0, rtol=1e-8)
        area = interpolate.Akima1DInterpolator([0.0, 1.0, 2.0], [0.0, top, 0.0]).integrate(0.0, 2.0)
        assert solution["x"][-1] == pytest.approx(area, rel=1e-7)
    with pytest.raises(ds.InputError):
        ds.solve(read_modelica_text(text), params={"top": 3.0}, rtol=1e-6)
