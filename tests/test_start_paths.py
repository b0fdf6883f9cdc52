"""Starts that Newton's method does not reach are found along paths; failures name the smallest block."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
import sympy as sp

import dae_sdc as ds
from benchmarks.studies.starts.plants import column
from dae_sdc import deadline
from dae_sdc.dae.paths import newton_homotopy
from dae_sdc.dae.projection import EquationFunctions, project
from dae_sdc.initial import search, solver
from dae_sdc.initial.paths import BlockEquations, blocks_of, continued

VOLTS, OHMS, LEAKAGE, THERMAL = 20.0, 1e3, 1e-14, 0.0259


def chain(count: int) -> ds.FunctionProblem:
    """A source, a resistor and diodes in a row, with the capacitor of a filter beside them."""

    def equations(t: float, u: Any, du: Any) -> Any:
        v, w = u[:count], u[count]
        current, rows = (VOLTS - w - v[0]) / OHMS, []
        for k in range(count):
            below = v[k + 1] if k < count - 1 else 0.0
            through = LEAKAGE * (np.exp((v[k] - below) / THERMAL) - 1.0)
            rows.append(current - through)
            current = through
        return [*rows, du[count] + w - 0.1]

    return ds.FunctionProblem(equations, count + 1, names=[*(f"v{k}" for k in range(count)), "w"])


def current_of(count: int) -> float:
    """The current through the chain by bisection of its one equation."""
    low, high = 0.0, VOLTS / OHMS
    for _ in range(200):
        middle = 0.5 * (low + high)
        too_low = OHMS * middle + count * THERMAL * np.log1p(middle / LEAKAGE) < VOLTS
        low, high = (middle, high) if too_low else (low, middle)
    return low


@pytest.mark.parametrize(("count", "guess"), [(3, 0.0), (3, 10.0), (20, 0.0)])
def test_exponential_diodes_start_from_any_voltage(count: int, guess: float) -> None:
    found = ds.initial(chain(count), fixed={"w": 0.0}, guesses={"v*": guess})
    assert found["v0"] == pytest.approx(VOLTS - OHMS * current_of(count), rel=1e-9)
    drops = -np.diff([found[f"v{k}"] for k in range(count)])
    assert drops == pytest.approx(np.full(count - 1, found["v0"] / count), rel=1e-8)


def reactor(count: int) -> ds.FunctionProblem:
    """Stirred tanks in a row with an exothermic reaction, cooled to 300 K."""

    def equations(t: float, u: Any, du: Any) -> Any:
        c, T, w, rows = u[:count], u[count : 2 * count], u[2 * count], []
        for k in range(count):
            before, warm = (c[k - 1], T[k - 1]) if k else (1.0 + w, 300.0)
            rate = 1e12 * np.exp(-9000.0 / T[k]) * c[k]
            rows += [before - c[k] - rate, warm - T[k] + 150.0 * rate - 0.5 * (T[k] - 300.0)]
        return [*rows, du[2 * count] + w]

    names = [*(f"c{k}" for k in range(count)), *(f"T{k}" for k in range(count)), "w"]
    return ds.FunctionProblem(equations, 2 * count + 1, names=names)


def tank(before: float, warm: float) -> tuple[float, float]:
    """Concentration and temperature of the only steady state of a tank, by bisection of its heat balance."""

    def balance(T: Any) -> Any:
        rate = 1e12 * np.exp(-9000.0 / T)
        return warm - T + 150.0 * before * rate / (1.0 + rate) - 0.5 * (T - 300.0)

    temperatures = np.linspace(290.0, 600.0, 100_000)
    signs = np.sign(balance(temperatures))
    (place,) = np.flatnonzero(np.diff(signs))
    low, high = temperatures[place], temperatures[place + 1]
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if balance(middle) > 0.0 else (low, middle)
    return before / (1.0 + 1e12 * np.exp(-9000.0 / low)), low


def test_a_block_that_newtons_method_does_not_solve_is_solved_along_a_path() -> None:
    found = ds.initial(reactor(5), fixed={"w": 0.0}, guesses={"c*": 1.0, "T*": 300.0})
    before, warm = 1.0, 300.0
    for k in range(5):
        before, warm = tank(before, warm)
        assert (found[f"c{k}"], found[f"T{k}"]) == (pytest.approx(before, rel=1e-8), pytest.approx(warm))
    # What is easy is no matter of paths.
    assert found.ways[0].startswith("'equation 0', 'equation 1' solved along the path of a ")
    assert 0 < len([way for way in found.ways if "along the path of" in way]) < 5
    assert all(way in str(found) for way in found.ways)
    run = ds.solve(reactor(5), u0={"w": 0.0}, guesses={"c*": 1.0, "T*": 300.0}, t_end=0.1, rtol=1e-6)
    assert found.ways[0] in run.message


def s_curve(x: Any) -> Any:
    return np.array([x[0] ** 3 - 3.0 * x[0] + 10.0])


CURVE = EquationFunctions(s_curve, lambda x: np.array([[3.0 * x[0] ** 2 - 3.0]]))
ROOT = float(np.real(np.roots([1.0, 0.0, -3.0, 10.0])[0]))


def test_paths_turn_back_where_they_must() -> None:
    # From 2 the path has to turn at 1 and at -1, beyond the range of s of a path that goes straight on.
    start = np.array([-1.5])
    end = newton_homotopy(CURVE.values, CURVE.jacobian, start, np.ones(1))
    assert end == pytest.approx([ROOT])
    fixed = newton_homotopy(CURVE.values, CURVE.jacobian, np.array([2.0]), np.ones(1), np.array([[9.0]]))
    assert fixed == pytest.approx([ROOT])


def test_a_path_keeps_to_bounds() -> None:
    box = np.array([[-1.0], [5.0]])
    block = BlockEquations(CURVE, np.ones(1), box, 1e-9)
    assert block.followed(np.array([2.0]))[0] is None
    wide = BlockEquations(CURVE, np.ones(1), 10.0 * box, 1e-9)
    found, name = wide.followed(np.array([2.0]))
    assert found is not None and found.x == pytest.approx([ROOT]) and name


def test_parts_of_a_path_are_as_long_as_newtons_method_allows() -> None:
    shares: list[float] = []

    def at(share: float, near: Any, ahead: Any) -> Any:
        shares.append(share)
        moved = EquationFunctions(
            lambda x: np.tanh(50.0 * (x - share)) + x - share,
            lambda x: np.array([[50.0 / np.cosh(50.0 * (x[0] - share)) ** 2 + 1.0]]),
        )
        return project(near, moved, start=ahead, most_iterations=12)

    found = continued(at, np.zeros(1))
    assert found is not None and found.x == pytest.approx([1.0])
    assert shares[-1] == 1.0


def test_blocks_come_in_the_order_in_which_they_are_solved() -> None:
    pattern = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    for waits, order in ((pattern, [([1], [0]), ([2], [1]), ([0], [2])]), (np.ones((3, 3)), [])):
        blocks = blocks_of(pattern, waits)
        whole = [([0, 1, 2], [0, 1, 2])]
        assert [(np.sort(b.rows).tolist(), np.sort(b.cols).tolist()) for b in blocks] == (order or whole)
    assert blocks_of(np.array([[1.0, 0.0], [1.0, 0.0]]), np.ones((2, 2))) == []


def test_what_equations_tell_alone_waits_for_nothing_else() -> None:
    pattern = sparse.csr_matrix([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    waits = pattern.copy()
    for where, alone in (((0, 1), [([0, 1], [0, 1])]), ((0, 2), []), ((2, 0), [([0], [0]), ([1], [1])])):
        depends = waits.tolil()
        depends[where] = 1.0
        blocks = blocks_of(pattern, depends.tocsr(), alone=True)
        assert [(np.sort(b.rows).tolist(), np.sort(b.cols).tolist()) for b in blocks] == alone, where


def wires(count: int) -> ds.Model:
    """Wires whose lengths and widths have no slopes, or those of another branch, where guesses are 0."""
    m = ds.Model("wires", interval=(0.0, 1.0))
    u = m.variable("u", 1.0)
    m.equation(m.der(u) + u)
    for k in range(count):
        x, y, length, width, core = m.variables(
            " ".join(f"{name}{k}" for name in "x y length width core".split())
        )
        m.equations(core - sp.Max(0, width - 0.02), length - sp.sqrt(x**2 + y**2), width * length - 0.5)
        m.equations(x - 3 - 0 * u, y - 4)
    return m


@pytest.mark.parametrize("count", [3, 200])
def test_what_equations_tell_is_solved_before_what_depends_on_it(count: int) -> None:
    start = ds.initial(wires(count))
    for name, value in (("length", 5.0), ("width", 0.1), ("core", 0.08)):
        assert start[f"{name}{count - 1}"] == pytest.approx(value, rel=1e-12)


def loop() -> ds.Model:
    """Equations of which two that are coupled have no solution."""
    m = ds.Model("loop")
    a, b, c, d = m.variables("a b c d", start=[1.0, 0.5, 2.0, None], fixed=[True, False, False, False])
    m.equation(m.der(a) + b, name="storage")
    m.equation(d - b - c, name="sum")
    m.equation(sp.exp(b) + c**2 + a, name="first")
    m.equation(sp.sinh(c) - b * c - 1, name="second")
    return m


def test_a_failure_names_the_smallest_block_its_guesses_and_what_helps() -> None:
    with pytest.raises(ds.InconsistentStateError) as caught:
        ds.initial(loop())
    words = str(caught.value)
    for part in (
        "from b = 0.5, c = 2, also along paths,",
        "'first', 'second', the smallest block without any, of model loop",
        "with the fixed 'a' at t=0",
        "give a guess for 'b', 'c'",
    ):
        assert part in words
    assert "'sum'" not in words


def of_search(monkeypatch: pytest.MonkeyPatch, **settings: float) -> None:
    for module in (search, solver):
        monkeypatch.setattr(module, "SEARCH", replace(solver.SEARCH, **settings))


@pytest.mark.parametrize("limit", [None, 100.0])
def test_a_search_that_takes_long_ends_and_names_the_smallest_block(
    limit: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A path from the guesses lasts longer than 60 s, or than the limit that is given in its place.
    late, ahead = deadline.perf_counter, [0.0]
    monkeypatch.setattr(deadline, "perf_counter", lambda: late() + ahead[0])

    def endless(block: Any, x: Any) -> Any:
        ahead[0] += 70.0
        deadline.check()
        return None, ""

    monkeypatch.setattr(BlockEquations, "followed", endless)
    with pytest.raises(ds.TimeLimitError) as caught:
        ds.initial(loop(), time_limit=limit)
    assert str(caught.value) == (
        f"the time limit of {limit or 60:g} s ran out while 'first', 'second' were solved for b (near 0.5), "
        f"c (near 2); raise time_limit, or give other guesses of these"
    )
    assert ahead[0] == (70.0 if limit is None else 140.0)


def test_a_search_for_other_solutions_that_takes_long_ends_and_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_search(monkeypatch, seconds_of_others=-1.0)
    start = ds.initial(pipe(ds.homotopy))
    assert start["head"] == 4.0 and friction(start["flow"]) == pytest.approx(4.0, rel=1e-12)
    assert "the search for other solutions ended after -1 s" in start.remarks


def test_a_failure_without_fixed_values_names_the_block_too() -> None:
    m = ds.Model("none")
    a, b = m.variables("a b", start=[1.0, 0.5])
    m.equation(m.der(a) + b, name="storage")
    m.equation(sp.cosh(b) + sp.exp(b) + 1, name="never")
    with pytest.raises(
        ds.InconsistentStateError, match=r"near the given ones at which 'never', the smallest"
    ):
        ds.initial(m)


def pipe(operator: Any) -> ds.Model:
    m = ds.Model("pipe")
    flow, head = m.variables("flow head", start=[0.0, 4.0], fixed=[False, True])
    m.equation(m.der(head) + flow, name="tank")
    m.equation(operator(flow * abs(flow) + 0.01 * sp.sinh(flow), flow) - head, name="friction")
    return m


def friction(flow: float) -> float:
    return flow * abs(flow) + 0.01 * np.sinh(flow)


def test_a_homotopy_is_its_actual_expression_in_a_run() -> None:
    with_path, plain = pipe(ds.homotopy), pipe(lambda actual, simplified: actual)
    found = ds.initial(with_path)
    assert friction(found["flow"]) == pytest.approx(4.0, rel=1e-9)
    assert found.ways == ("start found from the simplified expressions of homotopies",)
    one, other = (ds.solve(m, rtol=1e-8, t_end=0.5) for m in (with_path, plain))
    assert one.u[-1] == pytest.approx(other.u[-1], rel=1e-6)
    assert found.ways[0] in one.message and "homotop" not in other.message


def test_the_simplified_expression_decides_which_start_is_found() -> None:
    def roots(simplified: float) -> float:
        m = ds.Model("roots")
        x, y = m.variables("x y", start=[None, 1.0])
        m.equations(m.der(y) + y, ds.homotopy((x**2 - 4) * sp.exp(x / 10), x - simplified))
        return float(ds.initial(m)["x"])

    assert (roots(3.0), roots(-3.0)) == (pytest.approx(2.0), pytest.approx(-2.0))


def test_no_solution_nearer_to_the_guesses_takes_the_place_of_the_end_of_the_path() -> None:
    m = ds.Model("roots")
    w, x, y, z = m.variables("w x y z", start=[1.0, None, None, None])
    m.equations(m.der(w) + w, ds.homotopy(x**2, x) - z, ds.homotopy(y**2, 9) - z, x + y + 9 - z)
    # The path begins at (9, -9, 9); x = y = 1 - sqrt(10) is nearer to 0, where nothing is given.
    start = ds.initial(m)
    assert [start[name] for name in "xyz"] == pytest.approx([3.0, -3.0, 9.0])


def test_a_homotopy_of_numbers_and_in_functions_is_its_actual_value() -> None:
    assert ds.homotopy(2.0, 3.0) == 2.0

    def equations(t: float, u: Any, du: Any) -> Any:
        return [du[0] + u[1], ds.homotopy(u[1] ** 3, u[1]) - u[0]]

    solution = ds.solve(equations, u0=[8.0, 2.0], t_end=0.1, rtol=1e-8)
    assert solution.u[-1, 1] ** 3 == pytest.approx(solution.u[-1, 0], rel=1e-7)
    x, y = sp.symbols("x y")
    assert ds.homotopy(x**2, y * x).diff(x) == ds.homotopy(2 * x, y)


def test_the_operator_of_modelica_leads_to_the_start(tmp_path: Path) -> None:
    path = tmp_path / "roots.mo"
    text = (
        "model Roots\n  Real y(start=1, fixed=true);\n  Real x;\nequation\n  der(y) = -y;\n"
        "  homotopy(actual=(x*x - 4)*exp(x/10), simplified=x - {}) = 0;\nend Roots;\n"
    )
    for simplified, root in ((3, 2.0), (-3, -2.0)):
        path.write_text(text.format(f"({simplified})"))
        assert ds.initial(str(path))["x"] == pytest.approx(root)
        assert ds.solve(str(path), t_end=0.1, rtol=1e-6).values("x")[0] == pytest.approx(root)


@pytest.mark.parametrize(("trays", "bounded"), [(15, False), (100, False), (100, True)])
def test_a_column_comes_to_rest_from_equal_trays_at_25_degrees(trays: int, bounded: bool) -> None:
    plant = column(trays, bounded)
    problem = ds.FunctionProblem(plant.function, len(plant.names), names=plant.names)
    start = ds.initial(problem, fixed=plant.held, guesses=plant.guesses, bounds=plant.bounds or None)
    x, y, T = (np.array([start[f"{kind}{k}"] for k in range(trays)]) for kind in "xyT")
    assert (np.diff(x) < 1e-12).all() and (np.diff(T) > -1e-9).all()
    assert 0.5 * y[0] + 0.5 * x[-1] == pytest.approx(0.5, abs=1e-9)  # what goes in comes out
    # The last tray has what is left of benzene: 2.5 x of the tray above comes, 0.5 x and 2 y go.
    assert 2.5 * x[-2] == pytest.approx(0.5 * x[-1] + 2.0 * y[-1], rel=1e-8, abs=0.0)
    assert any("from what the guesses say of fixed derivatives" in remark for remark in start.remarks)
