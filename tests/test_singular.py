"""Singular points along a run: where they are, what is said of them, and that regular runs meet none."""

from __future__ import annotations

import re
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy
from helpers.pairs import covering_pairs
from scipy.integrate import quad

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.control.events import AcceptedStep
from dae_sdc.control.singular import STEPS_REMEMBERED, RecentSteps, watched
from dae_sdc.errors import InputError
from dae_sdc.structure.determinants import Determinants, Follower, null_rows
from dae_sdc.structure.parabola import foretold

RATES = {"rtol": 1e-7}
STEPS = {"dt": 0.02, "sweeper": "radau-iia-5"}


def place(message: str) -> float:
    """The first time that a message gives."""
    found = re.search(r"near t=([-+.\de]*\d)", message)
    assert found is not None, message
    return float(found[1])


def states(solution: Any, *names: str) -> Any:
    return solution.u[:, [solution.names.index(name) for name in names]]


# --- a slider crank with a rod as long as the crank: upright, its constraint loses its rank

CRANK, ROD, START = 2.0, sympy.Rational(2, 3), 0.3


def energy(a: Any, b: Any, va: Any, vb: Any) -> Any:
    """Kinetic energy of crank, thin rod and slider of mass 1/2, for lengths 1 and no gravity."""

    def rate(expression: Any) -> Any:
        return sympy.diff(expression, a) * va + sympy.diff(expression, b) * vb

    cos, sin = sympy.cos, sympy.sin
    middle = rate(cos(a) + cos(b) / 2) ** 2 + rate(sin(a) + sin(b) / 2) ** 2
    return (CRANK * va**2 + ROD * middle + ROD * vb**2 / 12 + rate(cos(a) + cos(b)) ** 2 / 2) / 2


SYMBOLS = sympy.symbols("A B VA VB")
ENERGY = sympy.lambdify(SYMBOLS, energy(*SYMBOLS))


def equal_bars() -> Any:
    """Lagrange's equations of the slider crank on the branch rod = -crank, turning."""
    model = ds.Model("equal-bars", interval=(0.0, 3.0))
    a, b, force = model.variables("crank rod force", start=[START, -START, 0.48])
    turned = dict(zip(SYMBOLS, (a, b, model.der(a), model.der(b)), strict=True))
    A, B, VA, VB = SYMBOLS
    kinetic, constraint = energy(*SYMBOLS), sympy.sin(A) + sympy.sin(B)
    for q, v, name in ((A, VA, "moment on the crank"), (B, VB, "moment on the rod")):
        momentum = sympy.diff(kinetic, v)
        change = sympy.diff(momentum, A) * VA + sympy.diff(momentum, B) * VB
        inertia = sympy.diff(momentum, VA) * model.der(a, 2) + sympy.diff(momentum, VB) * model.der(b, 2)
        rest = change - sympy.diff(kinetic, q) + force * sympy.diff(constraint, q)
        model.equation((inertia + rest).subs(turned), name=name)
    model.equation(constraint.subs(turned), name="height of the slider")
    model.start("der(crank)", 1.0, fixed=True)
    model.start("der(rod)", -1.0)
    return model


def time_in_the_middle() -> float:
    """When the crank stands upright: the kinetic energy is constant, and rod = -crank."""
    at_rest = ENERGY(START, -START, 1.0, -1.0)
    return float(quad(lambda a: np.sqrt(ENERGY(a, -a, 1.0, -1.0) / at_rest), START, 0.5 * np.pi)[0])


@pytest.fixture(scope="module")
def bars() -> tuple[Any, Any, Any]:
    model = equal_bars()
    return model, ds.reduce(model), ds.initial(model)


@pytest.mark.parametrize("settings", [RATES | {"project": True}, STEPS, {"dt": 0.02}])
@pytest.mark.parametrize("reduced", [False, True])
def test_equal_bars_stop_where_the_constraint_loses_its_rank(bars: Any, reduced: bool, settings: Any) -> None:
    settings = settings if reduced else {k: v for k, v in settings.items() if k != "project"}
    model, reduction, first = bars
    problem = reduction.problem() if reduced else model.problem()
    start = problem.state_of(first.values) if reduced else first.u
    done = ds.solve(reduction if reduced else model, u0=start, **settings)
    exact = time_in_the_middle()
    assert not done.success and done.t[-1] <= exact + 1e-6 and "\n" not in done.message
    assert place(done.message) == pytest.approx(exact, abs=2e-3)
    assert "rank 0 of 1, where 'height of the slider' has no gradient" in done.message
    assert "crank=1.57" in done.message and "rod=-1.57" in done.message and "singular='pass'" in done.message
    # It has not crept there.
    assert len(done.t) < 100

    passed = ds.solve(reduction if reduced else model, u0=start, singular="pass", **settings)
    assert passed.success and passed.t[-1] == pytest.approx(3.0)
    assert place(passed.message) == pytest.approx(exact, abs=1e-4)
    assert "passed singular points" in passed.message and "rank 0 of 1" in passed.message
    crank, rod, *speeds = states(passed, "crank", "rod", "der(crank)", "der(rod)").T
    assert crank[-1] > 2.0 and np.abs(crank + rod).max() < 1e-5
    assert np.ptp(ENERGY(crank, rod, *speeds)) < 1e-5 * ENERGY(crank[0], rod[0], *[v[0] for v in speeds])


@pytest.mark.parametrize(
    ("rtol", "reduced", "simplified"), covering_pairs(product((1e-6, 1e-7), (False, True), (False, True)))
)
def test_a_run_does_not_creep_onto_the_other_branch(simplified: bool, reduced: bool, rtol: float) -> None:
    settings = {"rtol": rtol, "simplify": simplified, "reduce": reduced, "t_end": 3.0}
    done = ds.solve("equal-bar-slider-crank", **settings)
    assert not done.success and "has no gradient (crank.phi=1.57" in done.message and len(done.t) < 50
    q, w = done.values("crank.phi"), done.values("crank.w")
    # rod = -crank up to there; with one degree of freedom it is the energy that tells the speed.
    assert np.abs(q + done.values("rod.phi")).max() < 1e-5
    values = dict(J1=3.25, J2=6.0, J12=3.0, T1=24.0, T2=29.0)
    inertia = values["J1"] + values["J2"] - 2.0 * values["J12"] * np.cos(2.0 * q)
    energy = 0.5 * inertia * w**2 + (values["T1"] - values["T2"]) * np.sin(q)
    assert np.ptp(energy) < 1e-4
    passed = ds.solve("equal-bar-slider-crank", singular="pass", **settings)
    assert passed.success and "rank" in passed.message and passed.values("crank.phi")[-1] > 1.7


# --- solutions that end: a coil and a resistor whose resistance becomes negative


def impasse() -> Any:
    model = ds.Model("impasse")
    v, i = model.variables("v i", start=[2.0, 8.0 / 3.0 - 2.0])
    model.equation(model.der(i) + v, name="coil")
    model.equation(i - (v**3 / 3 - v), name="resistor")
    return model


IMPASSE = 1.5 - np.log(2.0)  # (v^2 - 1) v' = -v from 2 to 1


@pytest.mark.parametrize("reduced", [False, True])
@pytest.mark.parametrize(
    "settings",
    [{"rtol": 1e-6}, {"rtol": 1e-9}, {"rtol": 1e-6, "sweeper": "esdirk43"}, {"dt": 0.04}]
    + [{"dt": 0.04, "sweeper": name} for name in ("bdf2", "semi-implicit", "backward-euler")],
)
def test_an_impasse_is_told_with_time_place_and_equation(settings: Any, reduced: bool) -> None:
    model = impasse()
    done = ds.solve(ds.reduce(model) if reduced else model, **settings)
    near = 1e-3 if "rtol" in settings else 0.06  # coarse steps know the place to a step
    assert not done.success and done.t[-1] < IMPASSE + 1e-3
    assert place(done.message) == pytest.approx(IMPASSE, abs=near)
    assert "rank 0 of 1, where 'resistor' has no gradient" in done.message and "\n" not in done.message
    value = re.search(r"\(v=([\d.]+)\)", done.message)
    assert value is not None and float(value[1]) == pytest.approx(1.0, abs=1e-3)


def test_nothing_passes_an_impasse() -> None:
    done = ds.solve(impasse(), rtol=1e-6, singular="pass")
    assert not done.success and done.t[-1] == pytest.approx(IMPASSE, abs=1e-5)
    assert any(end in done.message for end in ("no step from", "in proportion to the time left"))
    assert "are singular near" in done.message or "has no gradient (v=1)" in done.message


# --- branches that cross


def crossing(copies: int = 1) -> Any:
    """Lines y = x and y = -x, the second from x = -1 on."""
    model = ds.Model("crossing", interval=(0.0, 2.0))
    for k in range(copies):
        x, y = model.variables(f"x{k} y{k}", start=[-1.0, 1.0])
        model.equation(model.der(x) - 1, name=f"drive {k}")
        model.equation(y**2 - x**2, name=f"lines {k}")
    return model


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "radau-iia-5", "bdf2"])
def test_a_crossing_of_branches_ends_a_run_or_is_passed_straight(sweeper: str, copies: int) -> None:
    model = crossing(copies)  # two at once do not change the sign of the whole determinant
    done = ds.solve(model, sweeper=sweeper, dt=0.06, t_end=1.8)
    assert not done.success and done.t[-1] == pytest.approx(0.96)
    assert place(done.message) == pytest.approx(1.0, abs=1e-6)
    assert "'lines 0' has no gradient (y0=0)" in done.message
    passed = ds.solve(model, sweeper=sweeper, dt=0.06, t_end=1.8, singular="pass")
    assert passed.success and passed.message.count("near t=1") == 1
    assert passed.u[-1] == pytest.approx([0.8] * copies + [-0.8] * copies, abs=1e-8)


def test_a_step_onto_the_other_branch_is_not_taken_in_silence() -> None:
    done = ds.solve(crossing(), rtol=1e-6, sweeper="esdirk43")
    assert not done.success and done.t[-1] < 1.0 and place(done.message) == pytest.approx(1.0, abs=1e-6)


def test_determinants_of_derivatives_are_watched_too() -> None:
    model = ds.Model("lever", interval=(0.0, 3.0))
    x, y = model.variables("x y", start=[0.0, 0.0])
    model.equation(model.der(x) - sympy.cos(model.t), name="drive")
    force = model.t * (2 * sympy.cos(model.t) + 1)
    model.equation(y * (2 * model.der(x) + 1) - force, name="lever")  # y = t
    done = ds.solve(model, dt=0.05, sweeper="radau-iia-5")
    exact = 2.0 * np.pi / 3.0
    assert not done.success and done.t[-1] <= exact and place(done.message) == pytest.approx(exact, abs=1e-3)
    assert "'lever' has no gradient (der(x)=-0.5)" in done.message
    passed = ds.solve(model, dt=0.05, sweeper="radau-iia-5", singular="pass")
    assert passed.success and passed.u[:, 1] == pytest.approx(passed.t, abs=1e-8)


# --- constraints that vanish with their gradient: a rope of length |1 - t|


def rope() -> Any:
    model = ds.Model("rope", interval=(0.0, 2.0))
    x, y, tension = model.variables("x y tension", start=[1.0, 0.0, 0.0])
    model.start("der(x)", -1.0)
    model.start("der(y)", 0.0)
    model.equation(model.der(x, 2) + tension * x, name="force x")
    model.equation(model.der(y, 2) + tension * y, name="force y")
    model.equation(x**2 + y**2 - (1 - model.t) ** 2, name="length")
    return model


@pytest.mark.parametrize("settings", [{"rtol": 1e-6}, {"rtol": 1e-9}, {"dt": 0.06, "t_end": 1.8}])
@pytest.mark.parametrize("reduced", [False, True])
def test_a_gradient_that_vanishes_without_a_change_of_sign_is_found(reduced: bool, settings: Any) -> None:
    model = rope()
    form = ds.reduce(model) if reduced else model
    done = ds.solve(form, **settings)
    assert not done.success and done.t[-1] < 1.0 and place(done.message) == pytest.approx(1.0, abs=1e-4)
    assert "constraints has rank 0 of 1, where 'length' has no gradient (x=0, y=0)" in done.message
    passed = ds.solve(form, singular="pass", **settings)
    assert passed.success and passed.message.count("near t=1") == 1
    assert states(passed, "x", "y") == pytest.approx(
        np.column_stack([1.0 - passed.t, 0.0 * passed.t]), abs=1e-6
    )


def test_a_start_at_a_singular_point_is_told() -> None:
    model = crossing()
    done = ds.solve(model, dt=0.1, t0=1.0, u0=[0.0, 0.0])
    assert not done.success and "begins at a singular point" in done.message and "lines 0" in done.message
    going = ds.solve(rope(), dt=0.1, t0=1.0, u0=[0.0, 0.0, -1.0, 0.0, 0.0])
    assert not going.success and "'length' has no gradient" in going.message


# --- regular runs meet no singular points


def steep() -> Any:
    """A determinant that falls by thirteen orders and rises again, and never vanishes."""
    model = ds.Model("steep", interval=(0.0, 3.0))
    x, y = model.variables("x y", start=[1.0, 1.0])
    model.equation(model.der(x) + x)
    model.equation(sympy.exp(-30 * sympy.sin(model.t)) * (y - x))
    return model


def pole() -> Any:
    """A determinant that changes its sign at a pole."""
    model = ds.Model("pole", interval=(0.0, 2.0))
    x, y = model.variables("x y", start=[-1.0, -1.0])
    model.equation(model.der(x) - 1)
    model.equation(y / x - 1)
    return model


def jump() -> Any:
    """A determinant that jumps from -2 to 2."""
    model = ds.Model("jump", interval=(0.0, 2.0))
    x, y = model.variables("x y", start=[-1.0, -0.5])
    model.equation(model.der(x) - 1)
    model.equation(2 * sympy.sign(x) * y - x * sympy.sign(x))
    return model


@pytest.mark.parametrize("make", [steep, pole, jump])
@pytest.mark.parametrize("sweeper", ["radau-iia-5", "bdf2"])
def test_steep_determinants_poles_and_jumps_are_no_singular_points(make: Any, sweeper: str) -> None:
    done = ds.solve(make(), dt=0.06, t_end=1.98, sweeper=sweeper)
    assert done.success and done.message == ""


WITHOUT_START = ["charges-on-sphere", "pendula", "pendulum-chain", "robot-arm", "slider-crank-4"]
REGULAR = [*WITHOUT_START, "car-axis", "pendulum", "shuttle-final", "torus-particle"]
REGULAR += ["transistor-amplifier"]


@pytest.mark.parametrize("name", REGULAR)
def test_regular_models_report_nothing(name: str) -> None:
    reduction = ds.reduce(name)
    problem = reduction.problem()
    assert watched(problem) is not None
    start = problem.state_of(ds.initial(name).values) if name in WITHOUT_START else None
    for settings in ({"rtol": 1e-4}, {"rtol": 1e-7}):
        done = ds.solve(reduction, u0=start, singular="pass", **settings)
        # The multiplier on the torus is 0 and may be told to stay below its tolerance.
        assert done.success and done.message.partition(" never rises above its tolerance")[0] in (
            "",
            "'lambda'",
        )


def test_constant_matrices_are_not_looked_at() -> None:
    assert watched(ds.reduce("robertson").problem()) is None


# --- quasilinear equations


@pytest.mark.parametrize("sweeper", ["chart-dop853", "projected-dop853", "radau-iia-5"])
def test_quasilinear_equations_tell_time_place_and_rank(sweeper: str) -> None:
    done = ds.solve("figure-eight", sweeper=sweeper, rtol=1e-7)
    assert done.success and done.message.count("rank 2 of 3") == 2
    assert place(done.message) == pytest.approx(0.5 * np.pi, abs=1e-5) and "(u=1, p=0, w=0)" in done.message
    stopped = ds.solve("figure-eight", sweeper=sweeper, rtol=1e-7, singular="stop")
    assert not stopped.success and stopped.t[-1] < 0.5 * np.pi
    assert place(stopped.message) == pytest.approx(0.5 * np.pi, abs=1e-5)
    regular = ds.solve("rigid-slider-crank", sweeper=sweeper, rtol=1e-4, singular="stop", t_end=0.5)
    assert regular.success and "rank" not in regular.message


# --- the parts


def matrix_model(size: int) -> tuple[Any, Any]:
    """Equations t A z = x with a full matrix; x' = 0."""
    A = np.random.default_rng(size).integers(-4, 5, (size, size)) + 9 * np.eye(size, dtype=int)[::-1]
    model = ds.Model("matrix")
    x = model.variable("x", start=1.0)
    z = model.variables([f"z{k}" for k in range(size)], start=0.0)
    model.equation(model.der(x))
    for row in A.tolist():
        model.equation(sum(int(a) * model.t * zk for a, zk in zip(row, z, strict=True)) - x)
    return model, A


@pytest.mark.parametrize("size", [1, 2, 5, 6, 7, 12])
def test_determinants_are_those_of_the_matrix(size: int) -> None:
    model, A = matrix_model(size)
    form = model.form()
    found = Determinants(model, form.states)
    u, p = np.ones(len(form.states)), np.empty(0)
    follower = Follower(found, SimpleNamespace(packed_parameters=p))
    first, second = (follower.values((t, u, u)) for t in (1.0, -0.5))
    # Equations and unknowns of a block may come in any order; large ones are in units of the first.
    assert len(first) == 1 and second[0] / first[0] == pytest.approx((-0.5) ** size, rel=1e-12)
    assert abs(first[0]) == pytest.approx(abs(np.linalg.det(A)) if size <= 6 else 1.0, rel=1e-12)
    assert np.linalg.svd(found.matrix(0, 2.0, u, u, p))[1] == pytest.approx(np.linalg.svd(2.0 * A)[1])
    fallen = found.deficiency(0, (0.0, u, u), [(1.0, u, u)], p)
    assert fallen is not None and fallen.rank == 0 and fallen.size == size and len(fallen.equations) == size
    assert found.deficiency(0, (1.0, u, u), [(2.0, u, u)], p) is None


def test_followers_keep_signs_of_their_own() -> None:
    model, _ = matrix_model(7)
    form = model.form()
    found = Determinants(model, form.states)
    u, problem = np.ones(len(form.states)), SimpleNamespace(packed_parameters=np.empty(0))
    one, other = Follower(found, problem), Follower(found, problem)
    one.begin((1.0, u, u))
    other.begin((-1.0, u, u))
    signs = [follower._memory.arrays["signs"] for follower in (one, other)]
    assert signs[0] == -signs[1] != 0.0


def test_null_vectors_name_rows_in_any_units() -> None:
    A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [0.0, 0.0, 7.0]])
    A[1] = 2.0 * A[0]
    units = np.diag([1e-8, 1e6, 1.0])
    null = null_rows(units @ A, np.abs(units @ A))
    assert null is not None and null.shape == (3, 1)
    assert np.abs(null[2, 0]) < 1e-12 < np.abs(null[:2, 0]).min()
    assert null_rows(A + np.eye(3), np.abs(A) + np.eye(3)) is None


def test_parabolas_foretell_their_least_value() -> None:
    def f(s: float) -> float:
        return 3.0 * (s - 0.7) ** 2 + 0.2

    assert foretold(f(0.0), f(0.4), f(1.1), 0.4, 0.7) == pytest.approx(0.2 / f(0.0))
    assert foretold(f(1.0), f(1.4), f(2.0), 0.4, 0.6) == np.inf  # behind the least value
    assert foretold(1.0, 2.0, 1.0, 1.0, 1.0) == np.inf


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(InputError, match="'pas'"):
        ds.solve(crossing(), dt=0.1, singular="pas")
    with pytest.raises(InputError, match="is neither"):
        ds.solve("hessenberg-1", dt=0.1, singular="stop")
    with pytest.raises(InputError, match="one step at a time"):
        ds.solve(crossing(), dt=0.1, singular="stop", steps=2)
    with pytest.raises(InputError, match="no effect on 'ida': singular"):
        ds.solve(crossing(), rtol=1e-6, singular="pass", sweeper="ida")


def test_the_command_line_stops_or_passes(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lines.py"
    file.write_text(
        "import dae_sdc as ds\nmodel = ds.Model('lines', interval=(0.0, 1.8))\n"
        "x, y = model.variables('x y', start=[-1.0, 1.0])\n"
        "model.equations(model.der(x) - 1, lines=y**2 - x**2)\n"
    )
    asked = ["solve", str(file), "--dt", "0.06", "--sweeper", "radau-iia-5"]
    assert main(asked) == 1
    assert "comes to a singular point" in capsys.readouterr().err
    assert main([*asked, "--singular", "pass"]) == 0
    assert "passed singular points of the equations near t=1" in capsys.readouterr().out


@pytest.mark.parametrize("nominal", [True, False])
def test_sizes_of_unknowns_make_no_start_singular(nominal: bool) -> None:
    # After nonlinearSolverTests.bug_2841 of OpenModelica's testsuite: x is 1e10 times as large as y.
    model = ds.Model("scaled")
    x, y = model.variables("x y", start=[5e4, 5e-6])
    a, b = x / 100000, y * 100000
    model.equations(-a * sympy.exp(-a * b) - 1, b * sympy.exp(-a + b) - 1)
    if nominal:
        for name, size in (("x", 1e5), ("y", 1e-5)):
            model.variables_by_name[name].nominal[0] = size
    run = ds.solve(model, rtol=1e-6, t_end=1.0)
    assert run.success, run.message
    p, q = run.u[-1] * [1e-5, 1e5]
    assert [-p * np.exp(-p * q), q * np.exp(-p + q)] == pytest.approx([1.0, 1.0], rel=1e-9)


def test_steps_are_remembered_together_as_one_by_one() -> None:
    rng = np.random.default_rng(3)
    sizes = np.exp(np.cumsum(rng.normal(-0.05, 0.5, 300)))
    starts = np.concatenate([[0.0], np.cumsum(sizes)[:-1]])

    def step(k: int) -> AcceptedStep:
        return AcceptedStep(None, starts[k], sizes[k], None, None, None, 1)

    one_by_one, together = RecentSteps(), RecentSteps()
    for k in range(300):
        one_by_one.remember(range(k, k + 1), starts, sizes, step)
    for first, end in ((0, 1), (1, 20), (20, 150), (150, 151), (151, 300)):
        together.remember(range(first, end), starts, sizes, step)
    assert one_by_one.history == together.history
    assert (
        list(one_by_one.last) == list(together.last) == [step(k) for k in range(300 - STEPS_REMEMBERED, 300)]
    )
    # Whatever the sizes of the steps, the first one is known, and their ages are spread over many scales.
    assert together.history[0].time == 0.0 and len(together.history) == STEPS_REMEMBERED
