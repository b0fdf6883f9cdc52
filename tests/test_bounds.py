"""Counts that cannot be meant end at once, and nothing that is read becomes code or takes for ever."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sympy

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.errors import DAEError, InputError

HUGE = (10**9, 10**20)


class Simple(ds.ProblemDAE):
    """y' = z - y, z = cos t."""

    index = 1
    interval = (0.0, 0.1)

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return np.array([du[0] + u[0] - u[1], u[1] - np.cos(t)])

    def u_exact(self, t: float) -> Any:
        return [(np.cos(t) + np.sin(t)) / 2.0, np.cos(t)]


def circle() -> Any:
    x, y = sympy.symbols("x y")
    return ds.PolynomialSystem.from_sympy([x**2 + y**2 - 1, x - y], [x, y])


def power(exponent: int) -> Any:
    m = ds.Model("power")
    (x,) = m.variables("x")
    m.equations(m.der(x) - x**exponent)


def derivative(order: int) -> Any:
    m = ds.Model("derivative")
    return m.der(m.variables("x")[0], order)


X, Y = sympy.symbols("x y")

COUNTS: dict[str, Callable[[int], Any]] = {
    "iterations maxiter": lambda n: ds.iterations("simple", maxiter=n),
    "convergence nodes": lambda n: ds.convergence("simple", nodes=n),
    "pendulum_study max_order": lambda n: ds.pendulum_study(max_order=[n]),
    "drift points": lambda n: ds.drift("pendulum", points=n),
    "initial restarts": lambda n: ds.initial("pendulum", restarts=n),
    "initial workers": lambda n: ds.initial("pendulum", all_solutions=True, workers=n),
    "solve_polynomials workers": lambda n: ds.solve_polynomials(circle(), workers=n),
    "unknowns": lambda n: ds.ProblemDAE(n, 1),
    "order of a derivative": derivative,
    "power in an equation": power,
    "power in a polynomial": lambda n: ds.PolynomialSystem.from_sympy([(X + Y) ** n - 1, X - Y], [X, Y]),
    "command line points": lambda n: main_raises("solve", "pendulum", "--t-end", "0.1", "--points", str(n)),
}


def main_raises(*arguments: str) -> None:
    assert main(list(arguments)) == 2
    raise InputError("at most, says the line that another test reads")


@pytest.mark.parametrize("count", HUGE, ids=("1e9", "1e20"))
@pytest.mark.parametrize("call", COUNTS.values(), ids=COUNTS)
def test_counts_that_cannot_be_meant_are_refused_with_their_bound(
    call: Callable[[int], Any], count: int
) -> None:
    with pytest.raises(InputError, match=r"at most|higher than|above|from [01] to \d"):
        call(count)


def counted(registry: Any) -> list[tuple[Any, str]]:
    """Makers of problems or models, and names of their parameters that are counts."""
    found = []
    for name in registry:
        maker = registry[name]
        own = inspect.signature(maker).parameters.values()
        found += [
            (maker, one.name) for one in own if str(one.annotation) == "int" and one.name != "newton_maxiter"
        ]
    return found


@pytest.mark.parametrize(
    ("maker", "name"),
    [*counted(ds.PROBLEMS), *counted(ds.MODELS)],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_sizes_of_problems_of_the_library_have_a_bound(maker: Any, name: str) -> None:
    for count in HUGE:
        with pytest.raises(InputError, match=name):
            maker(**{name: count})


def test_seeds_below_0_are_refused() -> None:
    for call in (ds.solve_polynomials, ds.decompose, ds.singular_points):
        with pytest.raises(InputError, match="seed must be an integer, at least 0"):
            call(circle(), seed=-1)


BAD = sp.csc_matrix(np.eye(2))
BAD.indices = np.array([0, 77], dtype=np.int32)

VALUES: dict[str, Any] = {
    "None": None,
    "3": 3,
    "text": "abc",
    "list": [],
    "nested": [[1]],
    "nan": float("nan"),
    "object": object(),
    "dict": {},
    "bytes": b"ab",
    "complex": 1j,
    "huge": 10**30,
    "class": int,
    "no argument": lambda: 1,
    "nine arguments": lambda a, b, c, d, e, f, g, h, i: 1,
    "gives None": lambda *a: None,
    "gives text": lambda *a: "abc",
    "gives an object": lambda *a: object(),
    "gives ragged lists": lambda *a: [1, [2, 3]],
    "gives another shape": lambda *a: np.ones((3, 3, 3)),
    "gives complex numbers": lambda *a: 1j * np.ones(2),
    "gives a huge integer": lambda *a: [10**400, 1],
    "raises": lambda *a: {}["mine"],
    "indices out of range": BAD,
    "property": property(lambda self: object()),
    "property that raises": property(lambda self: {}["mine"]),
}

ATTRIBUTES = (
    *(
        "names units equation_names n_diff n_alg n nominal index variable_index sparsity interval dt noise"
    ).split(),
    *(
        "title reference time_unit parameter_units jacobian jacobian_kernel residual_kernel eval_f u_exact"
    ).split(),
    *("du_exact residual_nodes switches start_step").split(),
)


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_attributes_of_a_wrong_type_are_errors_of_one_line(attribute: str) -> None:
    raw = []
    for name, value in VALUES.items():
        for of_class in (True, False):
            try:
                if of_class:
                    ds.solve(type("Own", (Simple,), {attribute: value}), dt=0.1)
                else:
                    problem = Simple()
                    setattr(problem, attribute, value)
                    ds.solve(problem, dt=0.1)
            except DAEError as error:
                assert "\n" not in str(error)
            except Exception as error:
                own = name == "raises" and error.args == ("mine",)
                if not own:  # exceptions of one's own come through
                    where = "class" if of_class else "object"
                    raw.append(f"{name}, {where}: {type(error).__name__}: {error}")
    assert not raw


def test_texts_and_strangers_are_no_expressions(tmp_path: Path) -> None:
    target = tmp_path / "made"
    code = f"__import__('pathlib').Path({str(target)!r}).touch()"

    class Stranger:
        def __str__(self) -> str:
            return code

        __repr__ = __str__

    m = ds.Model("m")
    for given in (code, Stranger(), [code], (Stranger(),)):
        calls: list[Callable[[Any], Any]] = [
            m.equation,
            m.equations,
            m.der,
            lambda one: ds.PolynomialSystem.from_sympy([one], [X]),
        ]
        for call in calls:
            with pytest.raises(InputError):
                call(given)
    assert not target.exists()


def test_names_are_data_in_generated_code() -> None:
    names = ['a"b', "a'b", "a\\b", "*/int_x/*", 'a"exit', "ä%s{0}"]
    m = ds.Model("m")
    for name in names:
        x = m.variable(name, start=1.0)
        m.equation(m.der(x) + x, name=f"of {name}")
    found = ds.solve(m, rtol=1e-6, t_end=1.0)
    assert found.names[: len(names)] == tuple(names)
    assert np.allclose(found.u[-1], np.exp(-1.0), rtol=1e-4)


def test_5000_branches_are_analysed() -> None:
    branches = "".join(f"elseif x > {i} then {i} " for i in range(5_000))
    m = ds.read_modelica_text(f"model M Real x; equation der(x) = if x > -1 then 1 {branches} else 0; end M;")
    assert ds.structure(m).index == 0


def test_start_values_of_the_catalogue_say_where_they_are_not_defined() -> None:
    for call in (ds.solve, ds.sundials):
        with pytest.raises(ds.DAEError, match=r"HessenbergIndex1.u_exact has no value at t=-1e\+300"):
            call("hessenberg-1", rtol=1e-3, t0=-1e300, t_end=0.2)


@pytest.mark.parametrize("number", [Fraction(1, 10**8), np.float32(1e-8), np.longdouble(1e-8)])
def test_a_tolerance_may_be_a_number_of_any_class(number: Any) -> None:
    found = ds.solve("hessenberg-1", sweeper="bdf2", dt=0.1, t_end=0.5, newton_tol=number)
    wanted = ds.solve("hessenberg-1", sweeper="bdf2", dt=0.1, t_end=0.5, newton_tol=float(number))
    assert np.array_equal(found.u, wanted.u)


def test_a_switch_that_is_no_function_of_t_and_u_is_named() -> None:
    random = np.random.default_rng(1)

    class Restless(ds.PROBLEMS["simple"]):
        def switches(self, u: Any, t: float) -> list[float]:
            return [random.normal()]

    with pytest.raises(ds.InputError, match="gives another value at the same t and u"):
        for _ in range(20):
            ds.solve(Restless, rtol=1e-6, t_end=1.0)


def test_an_empty_array_of_hooks_is_none() -> None:
    assert ds.solve("simple", rtol=1e-3, t_end=0.2, hooks=np.array([])).success
