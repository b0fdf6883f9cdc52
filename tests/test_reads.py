"""Functions whose equations were read before are read anew where something that they read has changed."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
from helpers.readings import counted_readings

import dae_sdc as ds
from dae_sdc.run import equations
from dae_sdc.sharing import Recent
from dae_sdc.structure import analysis

RATE = 1.0
HELPERS = types.ModuleType("helpers_of_a_user")


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A name for every time that a function is called with symbols, of which none was read before."""
    monkeypatch.setattr(equations, "_READ", Recent(equations.MOST_NODES))
    return counted_readings(monkeypatch)


def reached(function: Any, u0: Any = (0.0,)) -> float:
    """u(1) of u' = rate, whatever the function takes for its rate."""
    found = ds.solve(function, u0=None if u0 is None else list(u0), t_end=1.0, rtol=1e-8)
    assert found.success and found.parameters["equations"].startswith("traced")
    return float(found.u[-1][0])


def rate_of(value: float) -> float:
    return RATE * value


class Settings:
    def __init__(self) -> None:
        self.rate = 1.0

    def twice(self) -> float:
        return 2.0 * self.rate


Changing = Callable[[], tuple[Any, Callable[[], None], float, float]]
CASES: dict[str, Changing] = {}


def case(function: Changing) -> Changing:
    CASES[function.__name__.removeprefix("of_").replace("_", " ")] = function
    return function


@case
def of_a_global_number() -> Any:
    def change() -> None:
        globals()["RATE"] = 3.0

    globals()["RATE"] = 1.0
    return lambda t, u, du: [du[0] - RATE], change, 1.0, 3.0


@case
def of_a_global_of_a_helper() -> Any:
    def change() -> None:
        globals()["RATE"] = 3.0

    globals()["RATE"] = 1.0
    return lambda t, u, du: [du[0] - rate_of(2.0)], change, 2.0, 6.0


@case
def of_a_captured_number() -> Any:
    rate = 1.0

    def change() -> None:
        nonlocal rate
        rate = 3.0

    return lambda t, u, du: [du[0] - rate], change, 1.0, 3.0


@case
def of_a_number_that_counts_late() -> Any:
    late = 0.5

    def change() -> None:
        nonlocal late
        late = 0.75

    return lambda t, u, du: [du[0] - np.where(t > late, 0.0, 1.0)], change, 0.5, 0.75


@case
def of_an_array() -> Any:
    rates = np.array([1.0, 2.0])
    return lambda t, u, du: [du[0] - rates[1]], lambda: rates.__setitem__(1, 5.0), 2.0, 5.0


@case
def of_a_list() -> Any:
    rates = [1.0, [2.0, "text"]]
    return lambda t, u, du: [du[0] - rates[1][0]], lambda: rates[1].__setitem__(0, 5.0), 2.0, 5.0


@case
def of_a_mapping() -> Any:
    rates = {"one": 1.0}
    return lambda t, u, du: [du[0] - rates["one"]], lambda: rates.update(one=5.0), 1.0, 5.0


@case
def of_a_sparse_matrix() -> Any:
    matrix = sparse.csr_matrix([[2.0]])
    change = functools.partial(matrix.data.__setitem__, 0, 5.0)
    return lambda t, u, du: du - matrix @ np.ones(1), change, 2.0, 5.0


@case
def of_an_attribute() -> Any:
    settings = Settings()
    return lambda t, u, du: [du[0] - settings.twice()], lambda: setattr(settings, "rate", 3.0), 2.0, 6.0


@case
def of_a_method() -> Any:
    class Own(Settings):
        pass

    settings = Own()
    return (
        lambda t, u, du: [du[0] - settings.twice()],
        lambda: setattr(Own, "twice", lambda self: 5.0),
        2.0,
        5.0,
    )


@case
def of_a_module() -> Any:
    HELPERS.rate = 1.0  # type: ignore[attr-defined]
    return lambda t, u, du: [du[0] - HELPERS.rate], lambda: setattr(HELPERS, "rate", 4.0), 1.0, 4.0


@case
def of_a_default_argument() -> Any:
    def function(t: float, u: Any, du: Any, rate: float = 1.0) -> Any:
        return [du[0] - rate]

    return function, lambda: setattr(function, "__defaults__", (4.0,)), 1.0, 4.0


@case
def of_code() -> Any:
    def function(t: float, u: Any, du: Any) -> Any:
        return [du[0] - 1.0]

    other = (lambda t, u, du: [du[0] - 4.0]).__code__
    return function, lambda: setattr(function, "__code__", other), 1.0, 4.0


@case
def of_a_partial_function() -> Any:
    values = [1.0]

    def function(rates: Any, t: float, u: Any, du: Any) -> Any:
        return [du[0] - rates[0]]

    return functools.partial(function, values), lambda: values.__setitem__(0, 4.0), 1.0, 4.0


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_seen_and_nothing_else(name: str, readings: list[str]) -> None:
    function, change, before, after = CASES[name]()
    assert reached(function) == pytest.approx(before, abs=1e-6)
    assert reached(function) == pytest.approx(before, abs=1e-6)
    assert len(readings) == 1
    change()
    assert reached(function) == pytest.approx(after, abs=1e-6)
    assert len(readings) == 2


def test_a_built_in_name_that_is_hidden_later_is_seen(
    readings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def function(t: float, u: Any, du: Any) -> Any:
        return [du[0] - abs(-1.0)]

    assert reached(function) == pytest.approx(1.0)
    monkeypatch.setitem(globals(), "abs", lambda x: 7.0)
    assert reached(function) == pytest.approx(7.0)


def test_an_equal_function_is_not_read_again(readings: list[str]) -> None:
    def made(rate: float) -> Any:
        values = np.array([rate, 2.0])
        return lambda t, u, du: [du[0] - values[0]]

    assert reached(made(1.0)) == pytest.approx(1.0) and reached(made(1.0)) == pytest.approx(1.0)
    assert len(readings) == 1
    assert reached(made(3.0)) == pytest.approx(3.0)
    assert len(readings) == 2


def test_another_start_is_no_reason_to_read_a_function_again(readings: list[str]) -> None:
    def function(t: float, u: Any, du: Any) -> Any:
        return [du[0] - 1.0, u[1] - 2.0 * u[0]]

    assert reached(function, (1.0, 2.0)) == pytest.approx(2.0)
    assert reached(function, (5.0, 10.0)) == pytest.approx(6.0)
    assert len(readings) == 1


class Filling(ds.ProblemDAE):
    """A level that rises with its inflow."""

    names = ("level",)
    inflow = 1.0

    def __init__(self, area: float = 1.0, **settings: Any) -> None:
        super().__init__(1, 0, **settings)
        self.area = area

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [self.area * du[0] - self.inflow]

    def u_exact(self, t: float) -> Any:
        return [0.0]


def test_parameters_are_no_reason_to_read_a_problem_again(
    readings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reached(Filling, None) == pytest.approx(1.0) and reached(Filling(), None) == pytest.approx(1.0)
    assert reached(Filling(area=2.0), None) == pytest.approx(0.5)
    monkeypatch.setattr(Filling, "inflow", 3.0)
    assert reached(Filling, None) == pytest.approx(3.0)
    assert len(readings) == 1
    monkeypatch.setattr(Filling, "inflow", 3)  # not a parameter any more
    assert reached(Filling, None) == pytest.approx(3.0)
    assert len(readings) == 2


def oscillation(t: float, u: Any, du: Any, k: float = 4.0, damping: float = 0.1) -> Any:
    x, v, force = u
    law = force - k * x if k > 2.0 else force - 2.0 * x * k
    return [du[0] - v, du[1] + force + damping * v, law]


def test_values_of_parameters_give_the_run_of_a_new_process(
    readings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(k: float, damping: float) -> bytes:
        values = {"k": k, "damping": damping}
        force = k if k > 2.0 else 2.0 * k
        found = ds.solve(oscillation, u0=[1.0, 0.0, force], t_end=3.0, rtol=1e-6, params=values)
        return found.t.tobytes() + found.u.tobytes() + found.du.tobytes()

    cases = [(4.0, 0.1), (4.0, 0.3), (1.0, 0.3), (5.0, 0.0), (1.0, 0.7)]
    together = [run(*case) for case in cases]
    assert len(readings) == 3  # for each value of k, by which the function decides
    for case, before in zip(cases, together, strict=True):
        for kept in (equations._READ, equations._KNOWN, equations._FORMS, analysis._GENERIC):
            kept.clear()
        assert run(*case) == before


def test_what_reads_more_than_is_noted_is_read_every_time(readings: list[str]) -> None:
    class Steeper(Filling):
        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [super().eval_f(u, du, t)[0] - 1.0]

    assert reached(Steeper, None) == pytest.approx(2.0) and reached(Steeper, None) == pytest.approx(2.0)

    class Same(Filling):
        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [self.area * du[0] - self.__class__.inflow]

    assert reached(Same, None) == pytest.approx(1.0)
    assert reached(lambda t, u, du: [du[0] - eval("1.0")]) == pytest.approx(1.0)
    assert not equations._READ


def test_models_that_users_get_are_their_own() -> None:
    first, second = ds.trace(Filling), ds.trace(Filling)
    first.parameters_by_name["area"].value = 9.0
    assert second.parameters_by_name["area"].value == 1.0
    assert reached(Filling, None) == pytest.approx(1.0)
