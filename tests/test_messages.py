"""Whatever is given to a public function or a verb is carried out, or refused in one line with advice."""

from __future__ import annotations

from typing import Any

import pytest

import dae_sdc as ds


class Speechless(Exception):
    """An exception whose text cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")


def late(t: float, u: Any, du: Any) -> list[Any]:
    if t > 0.1:
        raise Speechless
    return [du[0] + u[0]]


def never(t: float, u: Any, du: Any) -> list[Any]:
    raise Speechless


@pytest.mark.parametrize("trace", [None, False])
def test_exceptions_without_a_text_come_through_or_are_told_by_their_names(trace: bool | None) -> None:
    with pytest.raises(Speechless):
        ds.solve(late, u0=[1.0], t_end=1.0, trace=trace)
    with pytest.raises(ds.InputError) as told:
        ds.solve(never, u0=[1.0], t_end=1.0, trace=trace)
    assert str(told.value).startswith("never raised Speechless at the start, t=0, for 1 values in u0: a text")


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ("u__0.__class__", "unknown name 'u__0.__class__'; available: der(x)"),
        ("x - u__3", "unknown name 'x - u__3'; available: der(x)"),
        ("x; x = u__0", "unknown name 'u__0'; available: der(x)"),
        ("x-0x" + "f" * 300, "has a number too large for a float; give a smaller one"),
        ("(" * 5000 + "x" + ")" * 5000, "is no expression; write one such as x - 0.5"),
    ],
)
def test_events_that_no_expression_can_be_are_told(event: str, says: str) -> None:
    with pytest.raises(ds.InputError) as told:
        ds.solve("pendulum", rtol=1e-4, t_end=0.1, events=event)
    assert says in str(told.value)
    assert len(str(told.value)) < 300


@pytest.mark.parametrize(
    "inputs", [3, 2.5, None, object(), b"x", {"a": 3}, {"a": {"length": "b"}}, {"a": {"length": None}}, [3]]
)
def test_inputs_that_are_no_names_are_told(inputs: Any) -> None:
    with pytest.raises(ds.InputError):
        ds.linearize("pendulum", at={"x": 0.0, "y": -1.0}, inputs=inputs)


def test_an_input_may_act_on_several_equations_by_their_names() -> None:
    at = {"x": 0.0, "y": -1.0}
    by_names = ds.linearize("pendulum", at=at, inputs={"f": ["force x", "force y"]}, outputs=["x"])
    factors = {"f": {"force x": 1.0, "force y": 1.0}}
    by_factors = ds.linearize("pendulum", at=at, inputs=factors, outputs=["x"])
    assert (by_names.B != by_factors.B).nnz == 0


# --- options without an effect ------------------------------------------------------------------------------

AT = {"x": 0.0, "y": -1.0}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"omega": "foo", "out": "a.npy"}, "omega takes increasing positive frequencies"),
        ({"omega": "nan:1", "out": "a.npy"}, "omega takes increasing positive frequencies"),
        ({"omega": "1:inf", "out": "a.npy"}, "omega takes increasing positive frequencies"),
        ({"omega": "1:10"}, "omega and t_step are of the responses in the file; give out"),
        ({"t_step": 1.0}, "omega and t_step are of the responses in the file; give out"),
        ({"t_step": -1.0, "out": "a.npy"}, "t_step must be a positive finite time; got -1.0"),
        ({"coordinates": ["x", "foo"]}, "unknown coordinate 'foo'; available: "),
        ({"outputs": ["der(q,2)"]}, "unknown output 'der(q,2)'"),
    ],
)
def test_options_of_linearize_that_have_no_effect_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ds.InputError) as told:
        ds.linearize("pendulum", at=AT, **options)
    assert says in str(told.value)


@pytest.mark.parametrize("rtol", [float("inf"), 1.0, 0.0, -1.0])
def test_tolerances_that_no_run_can_have_are_refused_by_drift(rtol: float) -> None:
    with pytest.raises(ds.InputError, match="rtol must be at least 1e-13 and below 1"):
        ds.drift("rigid-pendulum", rtol=rtol, t_end=0.1)
