"""Models: what is written in them, their structure, and the problems they become."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dill
import numpy as np
import pytest
import sympy as sp

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.dae.jacobian import linearize
from dae_sdc.errors import InputError, ReferenceRangeError
from dae_sdc.model.model import Model
from dae_sdc.model.problem import ModelProblem
from dae_sdc.model.sympy_input import with_pi
from dae_sdc.run.convergence import several
from dae_sdc.run.target import make_problem, problem_name

SEED = 7


def pendulum() -> Model:
    m = Model("rod", title="a pendulum", interval=(0.0, 2.0), dt=0.02)
    p, q, lam = m.variables("p q lambda", start=[-1.0, 0.0, 0.0], unit=["m", "m", "1/s^2"])
    g = m.parameter("g", 9.8, unit="m/s^2")
    m.equations(m.der(p, 2) + lam * p, m.der(q, 2) + lam * q + g, rod=p**2 + q**2 - 1)
    return m


def dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def test_a_model_says_what_it_consists_of() -> None:
    m = pendulum()
    assert m.names == ("p", "q", "lambda") and m.units == ("m", "m", "1/s^2")
    assert m.equation_names == ("equation 0", "equation 1", "rod")
    assert m.parameter_names == ("g",) and m.parameters_by_name["g"].value == 9.8
    assert repr(m) == "<Model rod: 3 unknowns, 3 equations, 1 parameter>"
    assert str(m).splitlines() == [
        "rod (a pendulum): 3 unknowns, 3 equations, 1 parameter",
        "  unknowns",
        "    p       start -1  [m]",
        "    q       start 0   [m]",
        "    lambda  start 0   [1/s^2]",
        "  parameters",
        "    g  9.8  [m/s^2]",
        "  equations",
        "    equation 0  0 = der(p, 2) + lambda*p",
        "    equation 1  0 = g + der(q, 2) + lambda*q",
        "    rod         0 = p**2 + q**2 - 1",
    ]
    latex = m.latex()
    assert r"\ddot{p}" in latex and r"\lambda" in latex and latex.count("&=") == 3
    assert m._repr_latex_() == f"$\\displaystyle {latex}$"


def test_the_signature_is_that_of_the_published_pendulum() -> None:
    # Pryce, A simple structural analysis method for DAEs, BIT 41 (2001), example 1.
    m = pendulum()
    rows, cols, orders = m.signature()
    sigma = np.full((3, 3), -np.inf)
    sigma[rows, cols] = orders
    np.testing.assert_array_equal(sigma, [[2, -np.inf, 0], [-np.inf, 2, 0], [0, 0, -np.inf]])
    point = {"p": 0.6, "q": -0.8, "lambda": 5.0}
    jacobian = m.system_jacobian([0, 0, 2], [2, 2, 0], point).toarray()
    np.testing.assert_allclose(jacobian, [[1, 0, 0.6], [0, 1, -0.8], [1.2, -1.6, 0]])
    at_random = m.system_jacobian([0, 0, 2], [2, 2, 0])
    assert at_random.nnz == 6 and np.linalg.matrix_rank(at_random.toarray()) == 3
    np.testing.assert_array_equal(at_random.toarray(), m.system_jacobian([0, 0, 2], [2, 2, 0]).toarray())


def test_random_points_are_such_that_functions_have_values() -> None:
    m = Model()
    x, y = m.variables("x y")
    m.equations(m.der(x) - sp.log(x - 3) - sp.sqrt(-y), y - x * sp.asin(y + 1))
    c, d = [0, 0], [1, 0]
    point = {x: 4.0, y: -0.5}
    assert np.isfinite(m.system_jacobian(c, d, point).toarray()).all()
    m = Model()
    x = m.variable("x")
    m.equation(sp.sqrt(-x) * m.der(x) - 1)
    assert np.isfinite(m.system_jacobian([0], [1]).data).all()


def test_what_cancels_is_no_part_of_the_structure() -> None:
    m = Model()
    x, y = m.variables("x y", start=1.0)
    v = m.der(x, 2)
    m.equations((v + 1) ** 2 - v**2 - 2 * v + x - 3 * y, m.der(y) + sp.sin(x) ** 2 + sp.cos(x) ** 2 * 2 + y)
    assert [part.tolist() for part in m.signature()] == [[0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]]
    problem = m.problem()
    assert problem.names == ("y", "x") and problem.n_diff == 1
    residual = problem.eval_f(problem.state([2.0, 0.5]), problem.state([0.25, 9.0]), 0.0)
    np.testing.assert_allclose(residual, [1 + 0.5 - 6.0, 0.25 + 1 + np.cos(0.5) ** 2 + 2.0])


def test_the_problem_is_the_one_written_by_hand() -> None:
    own, theirs = pendulum().problem(index=3), ds.Pendulum2D()
    assert own.names == ("p", "q", "der(p)", "der(q)", "lambda")
    assert own.units == ("m", "m", "m/s", "m/s", "1/s^2")
    assert own.equation_names[:3] == ("definition of der(p)", "definition of der(q)", "equation 0")
    assert (own.n_diff, own.n_alg, own.index) == (4, 1, 3)
    assert (own.interval, own.dt, own.title) == ((0.0, 2.0), 0.02, "a pendulum")
    rng = np.random.default_rng(SEED)
    for c in (0.0, 0.3, 2.0):
        u, du = own.state(rng.normal(size=5)), own.state(rng.normal(size=5))
        np.testing.assert_allclose(own.eval_f(u, du, 0.5), theirs.eval_f(u, du, 0.5), rtol=1e-14)
        np.testing.assert_allclose(own.jacobian(u, du, 0.5, c), theirs.jacobian(u, du, 0.5, c), rtol=1e-14)


def general(n: int) -> Model:
    """Equations with everything in them, for any number of unknowns."""
    m = Model("general", interval=(0.25, 1.0))
    x = m.variables([f"x{i}" for i in range(n)], start=0.5)
    z = m.variables([f"z{i}" for i in range(n)], start=0.25)
    a, b = m.parameters("a b", [0.75, 2.0])
    for i in range(n):
        before = x[i - 1]
        m.equation(
            m.der(x[i], 2) + a * sp.sin(before) * m.der(x[i]) ** 2 - sp.exp(-b * z[i]) * sp.cos(3 * m.t)
        )
        m.equation(z[i] ** 3 + z[i] - sp.Piecewise((x[i], x[i] > sp.Rational(1, 2)), (before**2, True)))
    return m


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_residual_and_jacobian_are_those_of_sympy(form: str) -> None:
    m = general(3)
    problem = m.problem(dense=form == "dense")
    assert (problem.sparsity is None) == (form == "dense")
    rng = np.random.default_rng(SEED)
    symbols = [sp.Symbol(f"s{i}") for i in range(9)]
    rates = [sp.Symbol(f"r{i}") for i in range(9)]
    # States: x, der(x), z.
    assert problem.names == tuple(f"x{i}" for i in range(3)) + tuple(f"der(x{i})" for i in range(3)) + tuple(
        f"z{i}" for i in range(3)
    )
    x, v, z = symbols[:3], symbols[3:6], symbols[6:]
    a, b, t, c = sp.symbols("a b t c")
    wanted = [rates[i] - v[i] for i in range(3)]
    for i in range(3):
        wanted.append(rates[3 + i] + a * sp.sin(x[i - 1]) * v[i] ** 2 - sp.exp(-b * z[i]) * sp.cos(3 * t))
        choice = sp.Piecewise((x[i], x[i] > sp.Rational(1, 2)), (x[i - 1] ** 2, True))
        wanted.append(z[i] ** 3 + z[i] - choice)
    vector = sp.Matrix(wanted)
    matrix = vector.jacobian(rates) + c * vector.jacobian(symbols)
    given = (symbols, rates, t, c, a, b)
    residual_of, jacobian_of = sp.lambdify(given, vector), sp.lambdify(given, matrix)
    for _ in range(3):
        u, du, factor = rng.uniform(0.1, 0.9, 9), rng.normal(size=9), rng.uniform()
        numbers = (u, du, 0.4, factor, 0.75, 2.0)
        found = problem.eval_f(problem.state(u), problem.state(du), 0.4)
        np.testing.assert_allclose(found, np.ravel(residual_of(*numbers)), rtol=1e-13, atol=1e-14)
        jacobian = problem.jacobian(problem.state(u), problem.state(du), 0.4, factor)
        np.testing.assert_allclose(dense(jacobian), jacobian_of(*numbers), rtol=1e-13, atol=1e-14)


def test_a_large_model_has_a_sparse_jacobian() -> None:
    problem = general(20).problem()
    assert problem.n == 60 and problem.sparsity.nnz < 60 * 8 and problem.sparsity.format == "csc"
    rng = np.random.default_rng(SEED)
    u, du = problem.state(rng.uniform(0.1, 0.9, 60)), problem.state(rng.normal(size=60))
    # Against finite differences of the compiled residual.
    for c, jacobian in ((0.0, problem.jacobian(u, du, 0.4, 0.0)), (0.5, problem.jacobian(u, du, 0.4, 0.5))):
        direction = rng.normal(size=60)
        h = 1e-6
        ahead = problem.eval_f(problem.state(u + c * h * direction), problem.state(du + h * direction), 0.4)
        behind = problem.eval_f(problem.state(u - c * h * direction), problem.state(du - h * direction), 0.4)
        np.testing.assert_allclose(jacobian @ direction, (ahead - behind) / (2 * h), rtol=1e-7, atol=1e-8)
    pair = linearize(problem, u, du, 0.4)
    np.testing.assert_allclose(dense(pair.mass), dense(problem.jacobian(u, du, 0.4, 0.0)))


def test_nodes_are_evaluated_at_once() -> None:
    problem = general(2).problem()
    rng = np.random.default_rng(SEED)
    u, du, t = rng.uniform(size=(4, 6)), rng.normal(size=(4, 6)), rng.uniform(size=4)
    rows = [problem.eval_f(problem.state(x), problem.state(v), s) for x, v, s in zip(u, du, t, strict=True)]
    np.testing.assert_array_equal(problem.residual_nodes(u, du, t), rows)
    np.testing.assert_array_equal(problem.evaluate_nodes(u, du, t), rows)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p)), dill.copy])
def test_a_copy_of_a_problem_computes_the_same(duplicate: Callable[[Any], Any]) -> None:
    problem = general(2).problem(a=0.3)
    other = duplicate(problem)
    u, du = problem.state(np.linspace(0.1, 0.6, 6)), problem.state(np.ones(6))
    np.testing.assert_array_equal(other.eval_f(u, du, 0.4), problem.eval_f(u, du, 0.4))
    assert other.names == problem.names and other.values == {"a": 0.3, "b": 2.0}


def test_parameters_are_set_when_the_problem_is_made() -> None:
    m = pendulum()
    u = m.problem().state([0.6, -0.8, 0.0, 0.0, 0.0])
    zero = m.problem().state(np.zeros(5))
    for problem in (m.problem(g=1.5), m.problem(parameters={"g": 1.5}), make_problem(m, {"g": 1.5})):
        assert problem.eval_f(u, zero, 0.0)[3] == 1.5
    assert m.problem().eval_f(u, zero, 0.0)[3] == 9.8
    assert m.problem(newton_tol=1e-6).newton_tol == 1e-6


# The same equations in other words.
def with_functions(m: Model) -> list[Any]:
    t = sp.Symbol("t")
    p, q = sp.Function("p")(t), sp.Function("q")(t)
    lam = sp.Symbol("lambda")
    return [p.diff(t, 2) + lam * p, sp.Derivative(q, t, t) + lam * q + sp.Symbol("g"), p**2 + q**2 - 1]


def with_names(m: Model) -> list[Any]:
    p, q, lam, g = sp.symbols("p q lambda g")
    return [
        sp.Symbol("der(p, 2)") + lam * p,
        sp.Eq(sp.Symbol("der(q,2)"), -lam * q - g),
        sp.Eq(p**2, 1 - q**2),
    ]


def with_diff(m: Model) -> list[Any]:
    p, q, lam = (m.symbol(leaf) for leaf in sorted(m.graph.leaves.values()) if leaf.kind == "u")
    energy = (m.der(p) ** 2 + m.der(q) ** 2) / 2 - sp.Symbol("g") * q - lam * (p**2 + q**2 - 1) / 2
    return sp.Matrix([m.der(energy.diff(m.der(s))) - energy.diff(s) for s in (p, q)]).col_join(
        sp.Matrix([-2 * energy.diff(lam)])
    )


@pytest.mark.parametrize("wording", [with_functions, with_names, with_diff])
def test_equations_can_be_worded_in_several_ways(wording: Callable[[Model], Any]) -> None:
    m = Model()
    for j, name in enumerate(("p", "q", "lambda")):
        m.variable(name, start=0.0)
        m.graph.variable(j)
    m.parameter("g", 9.8)
    m.equations(wording(m))
    wanted = pendulum()
    assert [m.graph.value[root] for root in m.roots] == [wanted.graph.value[root] for root in wanted.roots]


def test_any_expression_has_a_derivative_in_time() -> None:
    m = Model()
    x, y = m.variables("x y")
    dx, dy = m.der(x), m.der(y)
    assert sp.expand(m.der(x * y, 2) - (m.der(x, 2) * y + 2 * dx * dy + x * m.der(y, 2))) == 0
    assert (m.t**2 * sp.sin(x)).diff(m.t) == 2 * m.t * sp.sin(x) + m.t**2 * sp.cos(x) * dx
    # Partial derivatives leave the derivatives alone.
    assert (dx**2 * x).diff(x) == dx**2 and (dx**2 * x).diff(dx) == 2 * dx * x and dx.diff(x) == 0
    assert m.der(dx) == m.der(x, 2) and str(m.der(x, 2)) == "der(x, 2)"
    assert pickle.loads(pickle.dumps(dx * y)) == dx * y
    assert sp.latex(m.der(x, 5) ** 2) == r"\left(x^{(5)}\right)^{2}"


def test_start_values_are_those_given_and_derivatives_begin_at_rest() -> None:
    m = pendulum()
    m.start("der(q)", -1.5, fixed=True)
    problem = m.problem()
    np.testing.assert_array_equal(problem.u_exact(0.0), [-1.0, 0.0, 0.0, -1.5, 0.0])
    assert m.variables_by_name["q"].fixed == {1}
    with pytest.raises(ReferenceRangeError, match=r"start values at t=0 .* got t=1"):
        problem.u_exact(1.0)
    m = Model("nothing known")
    x = m.variable("x")
    m.equation(m.der(x) - 1)
    with pytest.raises(InputError, match="no start value for x; give start, or u0"):
        m.problem().u_exact(0.0)


@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "radau-iia-5"])
def test_a_model_is_solved_as_the_problem_written_by_hand(sweeper: str) -> None:
    own = ds.solve(pendulum(), sweeper=sweeper, t_end=0.4)
    theirs = ds.solve("pendulum", sweeper=sweeper, t_end=0.4, dt=0.02)
    assert own.success and own.names == ("p", "q", "der(p)", "der(q)", "lambda")
    np.testing.assert_allclose(own.u, theirs.u, atol=1e-8)


def test_a_model_is_solved_to_a_tolerance_and_knows_its_index() -> None:
    problem = make_problem(pendulum())
    assert problem.index == 3 and problem.variable_index == ds.Pendulum2D().variable_index
    assert problem_name(problem) == "rod" and several(pendulum())[0].name == "rod"
    solution = ds.solve(pendulum(), rtol=1e-6, t_end=1.0)
    assert solution.success
    np.testing.assert_allclose(solution.u[-1, :2], ds.Pendulum2D().u_exact(1.0)[:2], atol=1e-4)


def test_a_model_can_grow() -> None:
    m = Model()
    x = m.variable("x", 1.0)
    m.equation(m.der(x) + x)
    assert m.problem().n == 1
    y = m.variable("y", 1.0)
    m.equation(y - x**2)
    assert m.problem().names == ("x", "y")
    assert make_problem(m).index == 1


def small() -> tuple[Model, Any, Any]:
    m = Model("m")
    x, y = m.variables("x lam")
    return m, x, y


MISTAKES: list[tuple[Callable[[Model, Any, Any], Any], str]] = [
    (
        lambda m, x, y: m.equation(x + sp.Symbol("lamb")),
        r"equation 0 of model m: lamb is no unknown and no parameter; did you mean lam\?",
    ),
    (lambda m, x, y: m.equation(x == y), r"equation 0 of model m is False: '==' compares at once"),
    (lambda m, x, y: m.equation(3), "equation 0 of model m never holds: no unknown is left in it"),
    (lambda m, x, y: m.equation((x + 1) ** 2 - x**2 - 2 * x - 1), "holds always"),
    (lambda m, x, y: m.equation(x + sp.I), "equation 0 of model m: the number I cannot be used"),
    (lambda m, x, y: m.equation("x + "), "no expression of SymPy"),
    (lambda m, x, y: m.equation(x > 0), "no equation but a StrictGreaterThan"),
    (lambda m, x, y: m.equation(sp.Function("f")(x)), "is no function of t alone"),
    (
        lambda m, x, y: m.equation(sp.Derivative(sp.Function("f")(x, y), x)),
        "no derivative with respect to time",
    ),
    (lambda m, x, y: m.equation(1 / (x - x * sp.sin(y) ** 2 - x * sp.cos(y) ** 2)), "always 0"),
    (lambda m, x, y: m.variable("x"), "model m has x already"),
    (lambda m, x, y: m.parameter("lam"), "model m has lam already"),
    (lambda m, x, y: m.variable("t"), "t is time in model m"),
    (lambda m, x, y: m.variable("a b"), "a word without brackets"),
    (lambda m, x, y: m.variables("a b", start=[1.0]), "start in model m has 1 entries for 2 names"),
    (lambda m, x, y: m.variable("a", start="one"), "start of a in model m must be a number"),
    (lambda m, x, y: m.variable("a", start=np.nan), "must be a number; got nan"),
    (lambda m, x, y: m.variable("a", fixed=True), "a of model m is fixed, but has no start value"),
    (lambda m, x, y: m.der(x, 0), "the order of a derivative"),
    (lambda m, x, y: m.start("der(xx)", 1.0), "model m has no unknown xx; did you mean x"),
    (lambda m, x, y: (m.equation(x, name="a"), m.equation(y, name="a")), "two equations named a"),
    (lambda m, x, y: m.problem(), "model m has 0 equations for 2 unknowns"),
    (
        lambda m, x, y: (m.equations(x - 1, x**2), m.problem()),
        r"model m cannot determine all unknowns \(lam in none of them\)",
    ),
    (lambda m, x, y: (m.equation(x - 1), m.problem()), "1 equations for 2 unknowns .lam in none of them"),
    (
        lambda m, x, y: (m.equations(x - m.parameter("k"), y), m.problem()),
        "parameter k of model m has no value; give it one",
    ),
    (
        lambda m, x, y: (m.equations(x, y), m.problem(kk=1.0)),
        "unknown parameter of model m 'kk'; available: .*newton_tol",
    ),
    (lambda m, x, y: (m.equations(x, y), m.problem().eval_f([1.0], [1.0], 0.0)), "a state of 2 unknowns"),
    (
        lambda m, x, y: (m.equations(x - y, 2 * x - y), m.system_jacobian([0, 0], [0, 0], {"z": 1})),
        "no unknown z",
    ),
]


@pytest.mark.parametrize(("act", "message"), MISTAKES, ids=[message[:40] for _, message in MISTAKES])
def test_mistakes_end_in_one_line_with_names(act: Callable[[Model, Any, Any], Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        act(*small())
    assert "\n" not in str(caught.value)


def test_the_front_door_has_the_model() -> None:
    assert ds.Model is Model and ds.ModelProblem is ModelProblem
    assert isinstance(pendulum().problem(), ds.ProblemDAE)


def test_a_model_of_the_library_is_solved_by_its_name() -> None:
    done = ds.solve("double-wishbone", rtol=1e-5, t_end=0.05)
    assert done.success, done.message
    assert done.parameters["problem"] == ds.MODELS["double-wishbone"]().name
    with pytest.raises(ds.InputError, match="unknown problem"):
        ds.solve("no-such-model", rtol=1e-6)


def test_a_model_in_a_file_is_solved_after_reduction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "swing.py"
    path.write_text(
        "import dae_sdc as ds\n"
        "def swing():\n"
        "    m = ds.Model('swing')\n"
        "    x, y, lam = m.variables('x y lam', start=[1.0, 0.0, 0.0])\n"
        "    m.start('der(x)', 0.0); m.start('der(y)', 0.0)\n"
        "    m.equations(m.der(x, 2) + lam * x, m.der(y, 2) + lam * y + 9.81, x**2 + y**2 - 1)\n"
        "    return m\n"
    )
    assert main(["solve", f"{path}:swing", "--reduce", "--project", "--rtol", "1e-8", "--t-end", "1"]) == 0
    printed = {line.split()[0]: float(line.split()[1]) for line in capsys.readouterr().out.splitlines()[1:]}
    assert printed["x"] ** 2 + printed["y"] ** 2 == pytest.approx(1.0, abs=1e-13)


@pytest.mark.parametrize(
    ("number", "text"),
    [(2.0 * np.pi, "2*pi*x"), (np.pi / 180.0, "pi*x/180"), (3.14159, "314159*x/100000"), (0.1, "x/10")],
)
def test_numbers_of_equations_are_multiples_of_pi_only_where_they_are_its_doubles(number, text) -> None:
    assert str(with_pi(sp.Rational(repr(float(number))) * sp.Symbol("x"))) == text
