"""Expressions along curves: a program of many at once has the values of one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp

from dae_sdc.expressions.dag import Leaf
from dae_sdc.expressions.graph import Input
from dae_sdc.model.model import Model
from dae_sdc.structure.prolongation import Tape
from dae_sdc.structure.series import RealArithmetic, Recorder, doubles

COUNT = 24
FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{
        name: lambda x, y, t, name=name: getattr(sp, name)(x + y * t)
        for name in (
            "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp log sqrt Abs sign".split()
        )
    },
    "quotient": lambda x, y, t: (x + t) / (y - t),
    "negative powers": lambda x, y, t: x**-3 + y**5,
    "power": lambda x, y, t: (x + t) ** (y * t),
    "power of a number": lambda x, y, t: x ** sp.Rational(5, 3),
    "atan2": lambda x, y, t: sp.atan2(x + t, y),
    "floor": lambda x, y, t: sp.floor(3 * x) * y,
    "least": lambda x, y, t: sp.Min(x, y + t) + sp.Max(x * t, y),
    "choice": lambda x, y, t: sp.Piecewise((sp.log(x), x > t), (y * y, True)),
}


@pytest.mark.parametrize("order", [0, 1, 4])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_has_the_values_of_one_after_another(name: str, order: int) -> None:
    model, source = Model("many"), np.random.default_rng(3)
    unknowns = model.variables([f"x{k}" for k in range(COUNT)])
    c = model.parameter("c", 0.3)
    for k, x in enumerate(unknowns):
        y = unknowns[(k + 1) % COUNT]
        model.equation(FUNCTIONS[name](x, c if k % 5 == 0 else y, model.t) + model.der(x) * c)
    tape = Tape(model.graph, model.roots)
    curves = source.uniform(-2.0, 2.0, (COUNT, order + 2))
    curves[3, :] = 0.0
    curves[7, 0] = 0.0

    def leaf(one: Leaf) -> list[Any]:
        if one.kind == "t":
            return [0.25, 1.0] if order else [0.25]
        if one.kind == "p":
            return [0.3]
        slope = curves[one.index, 1:] * np.arange(1, order + 2)
        return (slope if one.order else curves[one.index, :-1]).tolist()  # type: ignore[no-any-return]

    expected = tape.evaluate(RealArithmetic(order, doubles()), leaf)
    values = [value for one in tape.leaves for value in leaf(one)]
    recorder = Recorder(order, [Input("u", at) for at in range(len(values))])
    slots = iter(recorder.inputs)
    recorded = {one: [next(slots) for _ in leaf(one)] for one in tape.leaves}
    program = tape.program(recorder, recorded.__getitem__)
    found = program.evaluate(values).reshape(order + 1, -1).T
    assert sum(series is not None for series in expected) > 1
    for series, row in zip(expected, found, strict=True):
        if series is None:
            assert np.isnan(row).any()
        else:
            whole = np.zeros(order + 1)
            whole[: len(series)] = series
            np.testing.assert_allclose(row, whole, rtol=1e-12, atol=1e-300)


def test_the_sign_of_a_number_is_minus_one_zero_or_one() -> None:
    assert [doubles().sign(value) for value in (-2.0, -0.0, 0.0, 3.0)] == [-1.0, 0.0, 0.0, 1.0]
