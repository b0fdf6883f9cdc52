"""Whatever can be called with a time and two arrays is a function F(t, u, du), in every public function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numba import njit

import dae_sdc as ds


def decay(t: float, u: Any, du: Any, rate: float = 1.0) -> list[Any]:
    """x' = -rate x and y = 2 x, so that x(1) = exp(-rate)."""
    return [du[0] + rate * u[0], u[1] - 2.0 * u[0]]


class Decay:
    """The same as an object."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, t: float, u: Any, du: Any) -> list[Any]:
        return decay(t, u, du, self.rate)

    def method(self, t: float, u: Any, du: Any) -> list[Any]:
        return decay(t, u, du, self.rate)

    @functools.lru_cache  # noqa: B019
    def cached(self, t: float, u: Any, du: Any) -> list[Any]:
        return decay(t, u, du, self.rate)


@njit
def compiled(t: float, u: Any, du: Any) -> Any:
    values = np.empty(2)
    values[0] = du[0] + u[0]
    values[1] = u[1] - 2.0 * u[0]
    return values


CALLABLES: dict[str, Callable[..., Any]] = {
    "object": Decay(1.0),
    "method": Decay(1.0).method,
    "partial": functools.partial(decay, rate=1.0),
    "partial of an object": functools.partial(Decay(1.0)),
    "compiled by numba": compiled,
    "with a cache": functools.lru_cache(decay),
    "with a cache of any size": functools.cache(decay),
    "wrapped": functools.wraps(decay)(lambda *arguments, **named: decay(*arguments, **named)),
}


@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("name", [*CALLABLES, "arguments in a tuple"])
def test_any_callable_is_solved(name: str, trace: bool | None) -> None:
    function = CALLABLES.get(name, lambda *arguments: decay(*arguments))
    run = ds.solve(function, u0=[1.0, 2.0], t_end=1.0, rtol=1e-8, trace=trace)
    assert run.success, run.message
    assert np.allclose(run.u[-1], [np.exp(-1.0), 2.0 * np.exp(-1.0)], rtol=1e-7)


@pytest.mark.parametrize("name", CALLABLES)
def test_any_callable_is_analysed(name: str) -> None:
    function = CALLABLES[name]
    assert ds.structure(function).index == 1
    assert ds.initial(function, u0=[1.0, 2.0]).u.tolist() == [1.0, 2.0]
    assert np.allclose(ds.linearize(function, at=[0.0, 0.0]).poles, [-1.0])


@pytest.mark.parametrize("wrap", [lambda f: f, functools.lru_cache, functools.partial, njit])
def test_events_and_mass_matrices_are_any_callables_too(wrap: Callable[[Any], Any]) -> None:
    # x = exp(-t) is 1/2 at t = log 2
    slope = wrap(lambda t, u: np.array([-u[0], u[1] - 2.0 * u[0]]))
    problem = ds.MassMatrixProblem(slope, np.diag([1.0, 0.0]))
    event = wrap(lambda u, t: u[0] - 0.5)
    run = ds.solve(problem, u0=[1.0, 2.0], t_end=1.0, rtol=1e-8, events=event)
    assert np.allclose(run.events[0].t, [np.log(2.0)], rtol=1e-7)


def test_a_mock_of_a_cache_is_taken_or_told() -> None:
    # It says that it has a cache, and no function inside of it.
    with pytest.raises(ds.InputError):
        ds.solve(mock.Mock(side_effect=decay), u0=[1.0, 2.0], t_end=1.0, rtol=1e-6)


def test_what_is_no_function_is_told_that_functions_are_taken() -> None:
    with pytest.raises(ds.InputError, match=r"or a function F\(t, u, du\); got 3"):
        ds.solve(3, rtol=1e-6)  # type: ignore[arg-type]
