"""Index reduction: passes, invariants, operations and forms, against the tables of the problems' sources."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sparse
import sympy as sp
from helpers.timing import within

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.errors import InputError
from dae_sdc.model.sympy_input import Unknown
from dae_sdc.problems._models import MODELS
from dae_sdc.reduction import problem as reduced, stages as stages_module
from dae_sdc.reduction.reduction import Method

Vector = npt.NDArray[np.float64]

# Differentiation index and degrees of freedom of the benchmark problems.
KNOWN: list[tuple[str, dict[str, Any], int, int]] = [
    ("pendulum", {}, 3, 2),
    ("pendula", {"count": 2}, 5, 4),
    ("pendula", {"count": 3}, 7, 6),
    ("car-axis", {}, 3, 4),
    ("seven-body", {}, 3, 2),
    ("charges-on-sphere", {}, 3, 16),
    ("flexible-slider-crank", {}, 3, 8),
    ("slider-crank-4", {}, 3, 2),
    ("torus-particle", {}, 3, 4),
    ("shuttle-initial", {}, 3, 4),
    ("shuttle-final", {}, 2, 4),
    ("chemical-akzo-nobel", {}, 1, 5),
    ("op-amp-cascade", {}, 10, 0),
    ("index-6", {}, 6, 0),
    ("reissig", {}, 1, 2),
    ("robot-arm", {}, 5, 0),
    ("transistor-amplifier", {}, 1, 5),
    ("ring-modulator", {"cs": 0.0}, 2, 10),
    ("gear-petzold", {}, 2, 0),
]


def model_of(name: str, **arguments: Any) -> Any:
    return MODELS[name](**arguments)


def dense(matrix: Any) -> Vector:
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def consistent(problem: Any, guess: Any = None, fixed: tuple[str, ...] = ()) -> Vector:
    """A state near a guess at which all invariants vanish, by Gauss-Newton iteration."""
    t = problem.interval[0]
    u = np.nan_to_num(problem.start_values if guess is None else np.asarray(guess, dtype=float))
    free = [i for i, name in enumerate(problem.names) if name not in fixed]
    for _ in range(50):
        values = problem.invariants(u, t)
        slopes = dense(problem.invariants_jacobian(u, t))[:, free]
        change = np.linalg.lstsq(slopes, -values, rcond=1e-12)[0]
        u[free] += change
        if np.abs(change).max() <= 1e-14 * (1.0 + np.abs(u).max()):
            break
    return u


def largest_invariant(problem: Any, solution: Any) -> float:
    rows = zip(solution.u, solution.t, strict=True)
    return max(float(np.abs(problem.invariants(u, t)).max()) for u, t in rows)


def turning(gravity: float = 0.0) -> Any:
    """A particle on the unit circle; without gravity x = cos t, y = sin t, lambda = 1."""
    model = ds.Model("circle", interval=(0.0, 7.0))
    x, y, tension = model.variables("x y lambda", start=[1.0, 0.0, 1.0])
    model.start("der(y)", 1.0)
    model.equation(model.der(x, 2) + x * tension, name="force x")
    model.equation(model.der(y, 2) + y * tension + gravity, name="force y")
    model.equation(x**2 + y**2 - 1, name="radius")
    return model


# What is reduced


@pytest.mark.parametrize(("name", "arguments", "index", "dof"), KNOWN, ids=lambda value: str(value))
def test_passes_are_the_index_and_invariants_leave_the_degrees_of_freedom(
    name: str, arguments: dict[str, Any], index: int, dof: int
) -> None:
    found = within(10.0, lambda: ds.reduce(model_of(name, **arguments), method="separation", form="ode"))
    assert found.index == 0
    assert found.differentiations == index
    problem = found.problem()
    u = consistent(problem)
    slopes = dense(problem.invariants_jacobian(u, problem.interval[0]))
    sizes = np.abs(slopes).max(axis=1, keepdims=True)
    assert problem.n - np.linalg.matrix_rank(slopes / sizes, tol=1e-9) == dof


@pytest.mark.parametrize("method", ["separation", "fraction-free", "stages"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_is_reduced_to_regular_equations(name: str, method: Method) -> None:
    problem = ds.reduce(model_of(name), method=method).problem()
    t = problem.interval[0]
    u = problem.state(consistent(problem) + 1e-3)  # where terms do not happen to vanish
    du = problem.dtype_f(problem.init)
    mass = dense(problem.jacobian(u, du, t, 0.0))
    slopes = dense(problem.jacobian(u, du, t, 1.0)) - mass
    # A system of index 1: the rows without derivatives are regular where the others leave a choice.
    left, sizes, _ = np.linalg.svd(mass / np.maximum(1e-300, np.abs(mass).max(axis=1, initial=0.0))[:, None])
    rank = int((sizes > 1e-9 * max(1.0, sizes[0])).sum())
    weights = np.where(np.abs(mass).max(axis=1) > 0.0, np.abs(mass).max(axis=1), 1.0)
    null = left[:, rank:].T @ (slopes / weights[:, None])
    stacked = np.vstack([mass / weights[:, None], null])
    stacked /= np.maximum(1e-300, np.abs(stacked).max(axis=1))[:, None]
    stacked /= np.maximum(1e-300, np.abs(stacked).max(axis=0))
    assert np.linalg.matrix_rank(stacked, tol=1e-11) == problem.n


@pytest.mark.parametrize(
    ("name", "with_veils", "without"),
    [("robot-arm", 1.1e5, 8.6e7), ("flexible-slider-crank", 5e6, 3.6e7)],
)
def test_fewer_operations_than_published(name: str, with_veils: float, without: float) -> None:
    model = model_of(name)
    found = ds.reduce(model, method="separation", form="ode")
    assert sum(found.cost.shared) < sum(found.cost.trees) < with_veils
    assert found.veils
    everything = ds.reduce(model, method="separation", form="ode", limit=None)
    assert not everything.veils
    assert sum(everything.cost.shared) == sum(found.cost.shared)
    assert sum(found.cost.trees) < sum(everything.cost.trees) < without


def test_robot_arm_at_the_published_point() -> None:
    problem = ds.reduce("robot-arm", method="separation", form="ode").problem()
    u = problem.u_exact(0.0)
    assert np.abs(problem.invariants(u, 0.0)).max() < 1e-12
    du = problem.dtype_f(problem.init)
    mass = problem.jacobian(u, du, 0.0, 0.0)
    rates = np.linalg.solve(mass, -problem.eval_f(u, du, 0.0))
    value = dict(zip(problem.names, rates.tolist(), strict=True))
    assert value["u1"] == pytest.approx(10.780009, rel=1e-7)
    assert value["u2"] == pytest.approx(15.988611, rel=1e-7)
    assert value["der(x2)"] == pytest.approx(-1.1476311, rel=1e-7)


def test_invariants_are_the_constraint_and_its_derivatives() -> None:
    found = ds.reduce(turning(gravity=2.0), method="separation")
    assert found.invariant_names == ("radius", "der(radius)", "der(radius, 2)")
    t = sp.Symbol("t")
    x, y = sp.Function("x")(t), sp.Function("y")(t)
    tension = sp.Symbol("lambda")
    expected = [x**2 + y**2 - 1]
    for _ in range(2):
        expected.append(
            expected[-1].diff(t).subs({x.diff(t, 2): -x * tension, y.diff(t, 2): -y * tension - 2})
        )
    values = {"x": 0.3, "y": -0.8, "der(x)": 1.7, "der(y)": 0.4, "lambda": 2.5}
    for ours, theirs in zip(found.invariants, expected, strict=True):
        left = ours.subs({s: values[s.name] for s in ours.atoms(sp.Symbol) if s.name in values})
        right = theirs.subs({x.diff(t): 1.7, y.diff(t): 0.4}).subs({x: 0.3, y: -0.8, tension: 2.5})
        assert float(left) == pytest.approx(float(right), rel=1e-14)


def test_veils_stand_for_what_they_replace() -> None:
    model = model_of("torus-particle")
    plain = ds.reduce(model, method="separation", limit=None)
    veiled = ds.reduce(model, method="separation", limit=12)
    assert len(veiled.veil_expressions) > 10
    source = np.random.default_rng(1)
    point: dict[Any, float] = {}

    def value(expression: Any) -> float:
        symbols = sorted(expression.free_symbols, key=str)
        for symbol in symbols:
            point.setdefault(symbol, float(source.uniform(0.5, 1.5)))
        names = sp.symbols(f"s:{len(symbols)}")
        plain = expression.xreplace(dict(zip(symbols, names, strict=True)))
        return float(sp.lambdify(names, plain, "math")(*(point[symbol] for symbol in symbols)))

    for symbol, expression in veiled.veil_expressions:
        point[symbol] = value(expression)
    for ours, theirs in zip(veiled.invariants, plain.invariants, strict=True):
        assert value(ours) == pytest.approx(value(theirs), rel=1e-11, abs=1e-11)
    assert sum(veiled.cost.trees) < sum(plain.cost.trees)


def test_reduction_stops_at_index_one() -> None:
    found = ds.reduce(turning())
    assert (found.index, found.differentiations) == (1, 2)
    problem = found.problem()
    assert problem.names == ("x", "y", "der(x)", "der(y)", "lambda")
    assert (problem.n_diff, problem.n_alg, problem.index) == (4, 1, 1)
    assert problem.equation_names[2:] == ("force x", "force y", "der(radius, 2)")
    # An algebraic unknown that occurs linearly is solved for; the model of the result has index 1, too.
    explicit = ds.reduce(turning(), form="explicit")
    assert explicit.index == 1
    assert ds.structure(explicit.model).index == 1
    assert ds.structure(found.model).index == 1
    assert ds.structure(ds.reduce(turning(), form="ode").model).index == 0


def test_fraction_free_elimination_divides_by_numbers_only() -> None:
    model = model_of("pendula", count=2)
    divided = ds.reduce(model, method="separation", form="ode")
    free = ds.reduce(model, method="fraction-free", form="ode")
    assert all(step.cost.shared.divisions == 0 for step in free.steps)
    assert any(step.cost.shared.divisions for step in divided.steps)
    assert free.differentiations == divided.differentiations == 5


def test_derivatives_that_are_not_linear() -> None:
    # x'^2 + x^2 = 1 with x = sin t, and y' = x'.
    model = ds.Model("curved", interval=(0.0, 1.0))
    x, y = model.variables("x y", start=[0.0, 0.0])
    model.start("der(x)", 1.0)
    model.equations(model.der(x) ** 2 + x**2 - 1, model.der(y) - model.der(x))
    problem = ds.reduce(model, method="separation").problem()
    solution = ds.solve(problem, sweeper="radau-iia-5", dt=0.05, t_end=1.0, u0=consistent(problem))
    assert solution.success
    assert solution.u[-1][problem.names.index("y")] == pytest.approx(np.sin(1.0), rel=1e-7)


def test_large_and_explosive_systems_take_the_stages() -> None:
    assert ds.reduce("pendula", params={"count": 2}).method == "separation"
    assert ds.reduce("pendula", params={"count": 5}).method == "stages"
    large = ds.reduce("pendulum-chain", params={"count": 70})
    assert large.method == "stages"
    problem = large.problem()
    assert sparse.issparse(problem.sparsity)
    assert problem.sparsity.nnz < 12 * problem.n


def test_singular_structure_is_repaired_before_the_stages() -> None:
    found = ds.reduce("transistor-amplifier", method="stages")
    assert "repaired" in found.reason
    assert found.problem().n > 8


# Solutions


def circle(t: Any) -> Vector:
    return np.array([np.cos(t), np.sin(t), -np.sin(t), np.cos(t), np.ones_like(t)])


NAMES = ("x", "y", "der(x)", "der(y)", "lambda")


@pytest.mark.parametrize("form", ["implicit", "semi-explicit", "explicit", "ode"])
@pytest.mark.parametrize("method", ["separation", "fraction-free"])
def test_separated_forms_solve_the_same_problem(method: Method, form: Any) -> None:
    problem = ds.reduce(turning(), method=method, form=form).problem()
    assert problem.index == (0 if form == "ode" else 1)
    place = [problem.names.index(name) for name in NAMES]
    u0 = np.empty(problem.n)
    u0[place] = circle(0.0)
    errors = [
        np.abs(ds.solve(problem, sweeper="radau-iia-5", dt=dt, t_end=2.0, u0=u0).u[-1][place] - circle(2.0))
        for dt in (0.2, 0.1)
    ]
    order = np.log2(errors[0].max() / errors[1].max())
    assert 4.5 < order < 5.7
    assert errors[1].max() < 1e-5


@pytest.mark.parametrize("small", [60, 0], ids=["by elimination", "by matching"])
def test_dummies_are_chosen_again_in_every_quarter_of_a_turn(
    small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages_module, "MOST_ELIMINATED", small)
    problem = ds.reduce(turning(), method="stages").problem()
    assert problem.n_alg == 3
    place = [problem.names.index(name) for name in NAMES]
    u0 = consistent(problem, fixed=("x", "y", "der(x)", "der(y)"))
    solution = ds.solve(problem, sweeper="radau-iia-5", dt=0.02, t_end=7.0, u0=u0)
    assert solution.success
    assert problem.reselections >= 4  # x and y vanish in turns, at pi/2, pi, 3 pi/2 and 2 pi
    assert np.abs(solution.u[:, place].T - circle(solution.t)).max() < 1e-7
    assert largest_invariant(problem, solution) < 1e-9


@pytest.mark.parametrize("method", ["separation", "stages"])
def test_order_on_the_torus_where_dummies_change(method: Method) -> None:
    model = model_of("torus-particle")
    exact = np.asarray(ds.PROBLEMS["torus-particle"]().u_exact(2 * np.pi))[:6]
    names = ["x1", "x2", "x3", "der(x1)", "der(x2)", "der(x3)"]
    values = ds.initial(model, fixed=names).values
    errors = []
    for steps in (60, 120):
        problem = ds.reduce(model, method=method).problem()
        place = [problem.names.index(name) for name in names]
        u0, dt = problem.state_of(values), 2 * np.pi / steps
        solution = ds.solve(problem, sweeper="radau-iia-5", dt=dt, t_end=2 * np.pi, u0=u0)
        assert method == "separation" or problem.reselections >= 1
        errors.append(np.abs(solution.u[-1][place] - exact).max())
    assert errors[1] < 1e-5
    assert np.log2(errors[0] / errors[1]) > 4.0


@pytest.mark.parametrize("method", ["separation", "stages"])
def test_robot_arm_follows_its_path(method: Method) -> None:
    model = model_of("robot-arm")
    problem = ds.reduce(model, method=method).problem()
    source: Any = problem.reduction
    u0 = problem.state_of(ds.initial(source.source).values)
    solution = ds.solve(problem, sweeper="radau-iia-5", dt=0.02, t_end=1.0, u0=u0, project=True)
    place = [problem.names.index(name) for name in ("x1", "x3")]
    assert solution.u[-1][place] == pytest.approx([1.0 - np.e, np.e - 1.0], abs=1e-12)


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("car-axis", "car-axis"),
        ("seven-body", "andrews"),
        ("transistor-amplifier", "two-transistor"),
        ("chemical-akzo-nobel", "chemical-akzo-nobel"),
    ],
)
@pytest.mark.parametrize("method", ["separation", "stages"])
def test_end_values_of_the_test_set(method: Method, name: str, library: str) -> None:
    reference = ds.PROBLEMS[library]()
    end = reference.interval[1]
    known = dict(zip(reference.names, np.asarray(reference.u_exact(end)).tolist(), strict=True))
    found = ds.reduce(name, method=method)
    problem = found.problem()
    u0 = problem.state_of(ds.initial(found.source).values)
    solution = ds.solve(problem, t_end=end, rtol=1e-7, u0=u0)
    assert solution.success
    shared = [at for at, unknown in enumerate(problem.names) if unknown in known]
    assert len(shared) >= 4
    for at in shared:
        assert solution.u[-1][at] == pytest.approx(known[problem.names[at]], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_pendula_keep_their_lengths(count: int) -> None:
    model = model_of("pendula", count=count)
    problem = ds.reduce(model, method="stages").problem()
    place = problem.names.index
    guess = np.zeros(problem.n)
    fixed: list[str] = []
    tension = 0.0
    for i in range(1, count + 1):  # near rest, where the lengths follow from the tensions of those before
        length = 1.0 if i == 1 else 1.0 + 0.1 * tension
        tension = 9.8 / length
        guess[place(f"x{i}")], guess[place(f"lambda{i}")] = 0.1 * length, tension
        guess[place(f"y{i}")] = np.sqrt(0.99) * length
        fixed += [f"x{i}", f"der(x{i})"]
    u0 = consistent(problem, guess, tuple(fixed))
    solution = ds.solve(problem, sweeper="radau-iia-5", dt=0.01, t_end=0.5, u0=u0)
    assert solution.success
    for i in range(1, count + 1):
        length = 1.0 if i == 1 else 1.0 + 0.1 * solution.u[:, place(f"lambda{i - 1}")]
        x, y = solution.u[:, place(f"x{i}")], solution.u[:, place(f"y{i}")]
        assert np.abs(np.hypot(x, y) - length).max() < 1e-12


def test_pivots_that_fade_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    # A(w) (x', y') with the determinant cos(w)^2 + 1.7 sin(w)^2.
    rate = np.pi / 2
    model = ds.Model("turning matrix", interval=(0.0, 2.0))
    x, y, w = model.variables("x y w", start=[0.0, 0.0, 0.0])
    turn = rate * model.t  # which is w, but not by its name, so that nothing cancels
    for row in ((sp.cos, lambda a: 1.7 * sp.sin(a)), (lambda a: -sp.sin(a), sp.cos)):
        left = row[0](w) * model.der(x) + row[1](w) * model.der(y)
        model.equation(left - row[0](turn) * (sp.cos(turn) + 0.3) - row[1](turn) * (sp.sin(turn) + 0.4))
    model.equation(model.der(w) - rate)
    exact = np.array([0.6, 2.0 / rate + 0.8, 2.0 * rate])

    def error_and_choices() -> tuple[float, int]:
        problem = ds.reduce(model, method="separation", form="explicit").problem()
        solution = ds.solve(problem, sweeper="radau-iia-5", dt=0.05, t_end=2.0, u0=np.zeros(3))
        return float(np.abs(solution.u[-1] - exact).max()), problem.reselections

    error, choices = error_and_choices()
    assert error < 1e-9
    assert choices >= 1
    monkeypatch.setattr(reduced, "WEAK_PIVOT", 0.0)
    error, choices = error_and_choices()
    assert choices == 0
    assert error > 1e-6  # cos(w) is 6e-17 at the end of a step


@pytest.mark.parametrize("settings", [{"rtol": 1e-8}, {"dt": 0.05}])
@pytest.mark.parametrize("form", ["implicit", "semi-explicit", "explicit"])
@pytest.mark.parametrize("method", ["separation", "fraction-free"])
def test_a_pivot_alone_in_its_row_is_replaced_where_it_vanishes(
    method: Any, form: Any, settings: Any
) -> None:
    # (x - 2 - cos 1) x' vanishes at t = 1, where the Jacobian of the system is regular by the second row.
    model = ds.Model("alone", interval=(0.0, 2.0))
    x, y = model.variables("x y", start=[3.0, 0.0])
    t, exact = model.t, sp.cos(model.t) + 2
    at_one, slope = 2 + sp.cos(1), sp.diff(exact, t)
    model.equation((x - at_one) * model.der(x) + y - (exact - at_one) * slope - sp.sin(2 * t))
    model.equation((2 + x**2) * model.der(x) + x - (2 + exact**2) * slope - exact)
    solution = ds.solve(
        ds.reduce(model, method=method, form=form), sweeper="radau-iia-5", u0=[3.0, 0.0], **settings
    )
    assert solution.success
    known = np.array([np.cos(solution.t) + 2, np.sin(2 * solution.t)]).T
    assert np.abs(solution.u[:, :2] - known).max() < 1e-6


@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "bdf2", "edirk4", "trapezoidal"])
@pytest.mark.parametrize("method", ["separation", "stages"])
def test_every_kind_of_method_takes_a_reduced_problem(sweeper: str, method: Method) -> None:
    problem = ds.reduce(turning(), method=method).problem()
    u0 = consistent(problem, fixed=("x", "y", "der(x)", "der(y)"))
    nodes = {"nodes": 3} if "implicit" in sweeper else {}
    solution = ds.solve(problem, sweeper=sweeper, dt=0.01, t_end=0.5, u0=u0, project=True, **nodes)
    assert solution.success
    assert np.abs(solution.u[-1][:2] - circle(0.5)[:2]).max() < 1e-3
    assert largest_invariant(problem, solution) < 1e-11


def test_invariants_of_the_user() -> None:
    model = turning(gravity=1.0)
    x, y = Unknown("x"), Unknown("y")
    energy = (model.der(x) ** 2 + model.der(y) ** 2) / 2 + y - sp.Rational(1, 2)
    for method in ("separation", "stages"):
        found = ds.reduce(model, method=method, invariants={"energy": energy})
        assert found.invariant_names[-1] == "energy"
        problem = found.problem()
        u0 = consistent(problem, fixed=("x", "y", "der(x)", "der(y)"))
        solution = ds.solve(problem, sweeper="radau-iia-5", dt=0.02, t_end=1.0, u0=u0, project=True)
        assert largest_invariant(problem, solution) < 1e-11
    with pytest.raises(ds.InputError, match=r"energy contains der\(x, 2\).*lower derivatives"):
        ds.reduce(model, method="separation", invariants={"energy": model.der(x, 2)})


def test_consistent_values_by_name_start_a_reduced_problem() -> None:
    model = turning(gravity=9.81)
    values = ds.initial(model, fixed={"x": 0.6, "der(x)": 0.0}).values
    for method in ("separation", "stages"):
        problem = ds.reduce(model, method=method).problem()
        assert np.abs(problem.invariants(problem.state_of(values), 0.0)).max() < 1e-9
    with pytest.raises(ds.InputError, match="needs values of"):
        problem.state_of({"x": 0.6})


@pytest.mark.parametrize("method", ["separation", "stages"])
def test_copies_are_independent(method: Method) -> None:
    problem = ds.reduce(turning(), method=method, form="ode").problem()
    u, du = problem.state(np.linspace(0.3, 0.9, problem.n)), problem.dtype_f(problem.init)
    for twin in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert np.array_equal(twin.eval_f(u, du, 0.0), problem.eval_f(u, du, 0.0))
        assert twin.kernels.residual != 0
        assert np.array_equal(twin.invariants(u, 0.0), problem.invariants(u, 0.0))


# Mistakes


def ill_posed(*equations: str) -> Any:
    model = ds.Model("ill")
    x, y = model.variables("x y", start=1.0)
    known = {"x": x, "y": y, "der": model.der, "sin": sp.sin, "t": model.t}
    for number, text in enumerate(equations):
        model.equation(eval(text, known), name=f"law {number}")
    return model


@pytest.mark.parametrize(
    ("equations", "message"),
    [
        (("der(x) - x",), "1 equation does not determine 2 unknowns"),
        (("der(x) - x - y", "2*der(x) - 2*x - 2*y"), "law 0 follows from the other equations"),
        (("der(x) - x - y", "der(x) - x - y - 1"), "law 1 contradicts the other equations"),
        (("x + y - 1", "2*x + 2*y - sin(t)"), r"contradicts the other equations"),
    ],
)
def test_ill_posed_models_are_refused_with_names(equations: tuple[str, ...], message: str) -> None:
    with pytest.raises(ds.InputError, match=message) as caught:
        ds.reduce(ill_posed(*equations), method="separation")
    assert "\n" not in str(caught.value)


def test_unknown_arguments_are_refused() -> None:
    model = turning()
    with pytest.raises(ds.InputError, match="method must be one of"):
        ds.reduce(model, method="lu")  # type: ignore[arg-type]
    with pytest.raises(ds.InputError, match="form must be one of"):
        ds.reduce(model, form="solved")  # type: ignore[arg-type]
    with pytest.raises(ds.InputError, match="limit of veils"):
        ds.reduce(model, limit=0)
    with pytest.raises(ds.InputError, match="invariant 0 of model circle: q is no unknown"):
        ds.reduce(model, invariants=[sp.Symbol("q")])
    with pytest.raises(ds.InputError, match="have no model"):
        _ = ds.reduce(model, method="stages").model
    with pytest.raises(ds.InputError, match="unknown model 'pendulums'; did you mean"):
        ds.reduce("pendulums")


# The command


def test_command_shows_steps_and_equations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reduce", "pendulum", "--equations", "--form", "explicit"]) == 0
    shown = capsys.readouterr().out
    assert "pendulum: reduced to index 1 by separation" in shown
    assert "2 (1 differentiated)" in shown
    assert "der(length, 2): " in shown
    assert "0 = der(x, 2) + lambda*x" in shown


def test_command_makes_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    # The pendulum has no count.
    assert main(["reduce", "pendulum,op-amp-cascade", "--params", "count=4"]) != 0
    capsys.readouterr()
    assert main(["reduce", "pendulum,gear-petzold", "--form", "ode"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["model", "n", "method", "index"]
    assert lines[1].split()[:5] == ["pendulum", "3", "separation", "0", "3"]
    assert lines[2].split()[:5] == ["gear-petzold", "2", "separation", "0", "2"]
    assert main(["reduce", "pendulum,gear-petzold", "--equations"]) == 2


def test_a_force_that_jumps_is_not_lost() -> None:
    """x'' = f with f = 1 from t = 1/2 on, and v = der(s) with s = x, which asks for a derivative of s - x."""
    model = ds.Model("pushed", interval=(0.0, 1.0))
    x, f, s, v = model.variables("x f s v")
    model.start(x, 0.0, fixed=True)
    model.start(model.der(x), 0.0, fixed=True)
    half = sp.Rational(1, 2)
    model.equations(
        model.der(x, 2) - f, f - sp.Piecewise((0, model.t < half), (1, True)), s - x, v - model.der(s)
    )
    reduced = ds.reduce(model)
    assert reduced.method == "stages"
    problem = reduced.problem()
    solution = ds.solve(problem, u0=np.zeros(problem.n), rtol=1e-9)
    assert solution.success
    end = dict(zip(solution.names, solution.u[-1], strict=True))
    assert abs(end["x"] - 0.125) < 1e-7
    assert abs(end["v"] - 0.5) < 1e-7


def test_invariants_of_stages_bind_the_state_alone() -> None:
    m = ds.Model("kept")
    a, b, z = m.variables("a b z", start=1.0)
    m.equations(m.der(a) - z, m.der(b) + b, a - b)
    found = ds.reduce(m, method="stages")
    derivatives = {str(part) for one in found.invariants for part in one.atoms(sp.Function, sp.Derivative)}
    assert "der(b)" not in {*derivatives, *(str(s) for one in found.invariants for s in one.free_symbols)}
    assert found.invariant_names == found.problem().invariant_names


# Factors


def values_of(table: Any, point: dict[str, float]) -> dict[str, float]:
    """Values of symbols, and of veils in terms of them."""
    for symbol, expression in table:
        point[symbol.name] = float(number_of(expression, point))
    return point


def number_of(expression: Any, point: dict[str, float]) -> Any:
    symbols = sorted(sp.sympify(expression).free_symbols, key=str)
    plain = sp.symbols(f"x:{len(symbols)}")
    renamed = sp.sympify(expression).xreplace(dict(zip(symbols, plain, strict=True)))
    return sp.lambdify(plain, renamed, "math")(*(point[symbol.name] for symbol in symbols))


@pytest.mark.parametrize("method", ["separation", "fraction-free"])
@pytest.mark.parametrize(
    "name", ["pendulum", "reissig", "torus-particle", "transistor-amplifier", "car-axis"]
)
def test_factors_of_every_elimination_multiply_to_its_matrix(name: str, method: Method) -> None:
    found = ds.reduce(name, method=method, form="ode", limit=40)
    system, graph, n = found.system, found.graph, len(found.names)
    source, point = np.random.default_rng(3), {"t": 0.3}

    def value(leaf: Any) -> float:
        """The value of a leaf, by the name of its symbol."""
        return point.setdefault(found._symbol(leaf).name, float(source.uniform(0.5, 1.5)))

    def slopes(nodes: list[int], lowered: int) -> Vector:
        """Derivatives of expressions by the highest derivatives of all unknowns, or by those below them."""
        leaves = [graph.variable(j, order - lowered) for j, order in enumerate(system.orders)]
        gradients = [graph.gradient(node) for node in nodes]
        entries = [row.get(leaf, graph.zero) for row in gradients for leaf in leaves]
        return graph.numeric(entries, value).reshape(len(nodes), n)

    expected, hidden = slopes(found.source.roots, 0), [node for _, node in system.hidden]
    for number, step in enumerate(found.steps):
        factors = found.factors(number)
        veils = {symbol.name for symbol, _ in factors.veils}
        for part in (*factors.L.values(), *factors.U.values(), *(e for _, e in factors.veils)):
            for symbol in sp.sympify(part).free_symbols:
                if symbol.name not in veils:
                    point.setdefault(symbol.name, float(source.uniform(0.5, 1.5)))
        values = values_of(factors.veils, dict(point))
        lower, upper = (
            np.array([[float(number_of(entry, values)) for entry in row] for row in matrix.tolist()])
            for matrix in (factors.L, factors.U)
        )
        p, q = (np.array(matrix.tolist(), dtype=float) for matrix in (factors.P, factors.Q))
        assert (lower.shape, upper.shape) == ((len(p), step.rank), (step.rank, n))
        assert not np.triu(lower, 1).any()
        assert not np.tril(upper, -1).any()
        assert p @ expected @ q == pytest.approx(lower @ upper, rel=1e-12, abs=1e-12)
        # The next one begins with the rows that are left, and the derivatives of the constraints.
        new = (
            slopes(hidden[: len(step.constraints)], 1) if number + 1 < len(found.steps) else np.zeros((0, n))
        )
        expected, hidden = np.vstack([(p @ expected)[: step.rank], new]), hidden[len(step.constraints) :]
    with pytest.raises(InputError, match="have no factors"):
        ds.reduce("pendulum", method="stages").factors()
