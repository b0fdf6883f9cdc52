"""One name is one equation: what has a model and compiled equations has the same of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.run.list import list as listed

BOTH = sorted(set(ds.PROBLEMS) & set(ds.MODELS))
# Parameters other than the defaults, of problems whose form depends on them.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in BOTH),
    ("ring-modulator", {"cs": 0.0}),
    ("ring-modulator", {"R": 2e4, "gamma": 3e-8, "L_s1": 1e-3}),
    ("pendulum", {"m": 2.0, "l": 0.5, "g": 3.7}),
    ("car-axis", {"L": 1.3, "r": 0.2, "w": 5.0}),
    ("torus-particle", {"rho": 3.0, "r": 8.0}),
    ("robertson", {"k1": 0.2}),
    ("chemical-akzo-nobel", {"Ks": 90.0}),
]


@pytest.fixture(params=VARIANTS, ids=lambda row: "-".join([row[0], *row[1]]))
def pair(request: pytest.FixtureRequest) -> tuple[ds.ProblemDAE, ds.ProblemDAE]:
    """A problem with its compiled equations, and the problem of its model."""
    name, params = request.param
    return ds.PROBLEMS[name](**params), ds.MODELS[name](**params).problem()


def test_some_problems_have_models() -> None:
    assert {"pendulum", "car-axis", "seven-body", "ring-modulator", "robertson", "torus-particle"} <= set(
        BOTH
    )


def test_unknowns_interval_and_start_are_the_same(pair: tuple[ds.ProblemDAE, ds.ProblemDAE]) -> None:
    problem, model = pair
    assert model.names == problem.names
    assert (model.n_diff, model.n_alg) == (problem.n_diff, problem.n_alg)
    assert model.interval == problem.interval
    assert model.dt == problem.dt
    assert (model.title, model.reference) == (problem.title, problem.reference)
    t0 = problem.interval[0]
    assert np.array_equal(model.u_exact(t0), problem.u_exact(t0))


def test_residuals_are_the_same_at_random_points(pair: tuple[ds.ProblemDAE, ds.ProblemDAE]) -> None:
    problem, model = pair
    source = np.random.default_rng(7)
    begin, end = problem.interval
    start = np.asarray(problem.u_exact(begin))
    for share in (0.0, 0.2, 0.7):
        u = np.abs(start + source.uniform(0.02, 0.1, problem.n))
        du = source.standard_normal(problem.n)
        t = begin + share * (end - begin)
        expected, found = (np.asarray(p.eval_f(p.state(u), p.state(du), t)) for p in (problem, model))
        slopes = np.abs(problem.jacobian(problem.state(u), problem.state(du), t, 1.0))
        sizes = np.asarray(slopes @ (np.abs(u) + np.abs(du))).ravel() + 1e-300
        assert (np.abs(found - expected) <= 1e-12 * sizes + 1e-13 * np.abs(expected)).all()


@pytest.mark.parametrize("name", BOTH)
def test_solutions_with_and_without_reduction_end_at_the_same_values(name: str) -> None:
    settings: dict[str, Any] = {"rtol": 1e-7}
    begin, end = ds.PROBLEMS[name]().interval
    if name == "robertson":
        settings |= {"t_end": 100.0, "atol": [1e-9, 1e-13, 1e-9]}
    elif name not in ("pendulum", "torus-particle", "car-axis"):
        settings["t_end"] = begin + 0.05 * (end - begin)
    plain, reduced = ds.solve(name, **settings), ds.solve(name, reduce=True, **settings)
    assert plain.success and reduced.success
    assert plain.t[-1] == reduced.t[-1] == settings.get("t_end", end)
    place = [reduced.names.index(unknown) for unknown in plain.names]
    differential = np.arange(ds.PROBLEMS[name]().n_diff)
    sizes = np.maximum(np.abs(plain.u).max(axis=0), 1e-12)
    apart = np.abs(reduced.u[-1][place] - plain.u[-1]) / sizes
    assert apart[differential].max() < 1e-4
    assert reduced.names[: len(plain.names)] == plain.names


@pytest.mark.parametrize("name", BOTH)
def test_structure_and_start_are_those_of_the_equations_that_are_solved(name: str) -> None:
    problem = ds.PROBLEMS[name]()
    found = ds.structure(name)
    assert max(found.differentiation_index, 0) == problem.index
    start = ds.initial(name, restarts=0)
    assert start.names[: problem.n] == problem.names or set(problem.names) <= set(start.names)


def test_parameters_of_a_model_are_those_of_its_problem() -> None:
    for name in BOTH:
        known = ds.PROBLEMS[name].parameter_units
        assert list(ds.MODELS[name]().parameters_by_name) == [
            p for p, unit in known.items() if unit != "none"
        ]
    with pytest.raises(InputError, match="unknown parameter of model pendulum 'L'"):
        ds.structure("pendulum", params={"L": 2.0})
    with pytest.raises(InputError, match="must be positive"):
        ds.reduce("pendulum", params={"l": -1.0})


@pytest.mark.parametrize("name", BOTH)
def test_every_parameter_of_a_problem_is_a_symbol_in_its_model(name: str) -> None:
    model = ds.MODELS[name]()
    symbols = {str(symbol) for expression in model.expressions for symbol in expression.free_symbols}
    assert set(model.parameter_names) <= symbols


def test_angular_frequencies_are_shown_as_multiples_of_pi() -> None:
    assert "sin(2*pi*frequency*t)" in str(ds.MODELS["two-transistor"]())
    shown = str(ds.MODELS["ring-modulator"]())
    assert "sin(2000*pi*t)" in shown
    assert "sin(20000*pi*t)" in shown


def test_equations_that_are_not_the_same_have_names_of_their_own() -> None:
    # The Test Set's formulations have accelerations among the unknowns, or stabilised constraints.
    for name in ("andrews", "fekete"):
        assert name in ds.PROBLEMS and name not in ds.MODELS
        assert ds.trace(name).names == ds.PROBLEMS[name]().names
    assert "charges-on-sphere" in ds.MODELS and "charges-on-sphere" not in ds.PROBLEMS


NAMED = [(kind, name) for kind in ("problems", "models", "sweepers", "qdelta") for name in listed(kind)]


@pytest.mark.parametrize(("kind", "name"), NAMED, ids=lambda text: str(text))
def test_whatever_is_listed_is_shown_in_plain_text(kind: str, name: str) -> None:
    text = ds.info(name)
    assert text.startswith(f"{name}: ") and len(text.splitlines()) > 2, kind
    for markup in (".. math", ":math:", ":class:", "\\", "``", "`_"):
        assert markup not in text
    assert not text.splitlines()[1].endswith(" to 3 1")
