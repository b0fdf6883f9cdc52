"""Arguments of public functions and attributes of problems: used, or refused in one line."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import dae_sdc as ds
from dae_sdc import run
from dae_sdc.arguments import kind_of

PUBLIC = {name: getattr(ds, name) for name in ds.__all__ if inspect.isfunction(getattr(ds, name))}
PUBLIC["list"] = run.list

JUNK: tuple[Any, ...] = (
    *(3, 2.5, "abc", None, [1, 2], ["a"], [[1.0, 2.0]], np.ones((2, 2)), np.array(1.0), {"a": 1}, {1: 2}),
    *(object(), True, 3j, b"x", [None], int),
)


def cases() -> list[Any]:
    found = []
    for name, function in PUBLIC.items():
        plain = inspect.unwrap(function)
        for one in inspect.signature(plain).parameters.values():
            if one.kind is one.VAR_KEYWORD or not isinstance(one.annotation, str):
                continue
            kind = kind_of(one.annotation, plain.__module__)
            if kind is not None:
                # A text is taken as the names in it where a list of them is.
                wrong = [
                    value
                    for value in JUNK
                    if value is not one.default
                    and not kind.takes(value)
                    and not (isinstance(value, str) and kind.takes([value]))
                ]
                found.append(pytest.param(function, one.name, wrong, id=f"{name}-{one.name}"))
    return found


def required(function: Any, but: str) -> dict[str, Any]:
    """Something for every argument that must be given; what is tried is refused before they are looked at."""
    parameters = inspect.signature(inspect.unwrap(function)).parameters.values()
    several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    bare = [one.name for one in parameters if one.default is one.empty and one.kind not in several]
    return {name: "simple" for name in bare if name != but}


@pytest.mark.parametrize(
    ("annotation", "taken", "refused"),
    [
        ("float", [1, 2.5, np.float64(0.5), np.inf], [True, np.nan, "1", None, 1j]),
        ("int", [1, np.int64(3)], [False, 1.0, "1"]),
        ("Sequence[float]", [[1.0, 2], (), np.ones(2)], [[1.0, "2"], [True], "12", 1.0]),
        (
            "Mapping[str, float]",
            [{}, {"a": 1.0, "b": 2}],
            [{"a": 1.0, "b": "2"}, {"a": True}, {1: 1.0}, [1.0]],
        ),
        ("Mapping[str, Any]", [{"a": object()}], [{1: 1.0}]),
        ("float | None", [None, 1.0], [True, "1"]),
    ],
)
def test_an_annotation_tells_values_of_its_kind_from_others(
    annotation: str, taken: list[Any], refused: list[Any]
) -> None:
    kind = kind_of(annotation, "typing")
    assert kind is not None
    assert all(map(kind.takes, taken)) and not any(map(kind.takes, refused))


def test_every_public_function_checks_its_arguments() -> None:
    assert len(PUBLIC) >= 25
    assert [name for name, function in PUBLIC.items() if not hasattr(function, "__wrapped__")] == []


@pytest.mark.parametrize(("function", "name", "values"), cases())
def test_values_of_another_type_are_refused_in_one_line(function: Any, name: str, values: list[Any]) -> None:
    others = required(function, name)
    for value in values:
        with pytest.raises(ds.InputError, match=r"must be") as caught:
            function(**others, **{name: value})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_an_unknown_name_is_refused_and_the_nearest_is_named(name: str) -> None:
    function = PUBLIC[name]
    longest = max(inspect.signature(function).parameters, key=len)
    misspelt = longest[:-1] + "qx"
    with pytest.raises(ds.InputError, match=f"option of {name} '{misspelt}'") as caught:
        function(**required(function, ""), **{misspelt: 1})
    assert longest in str(caught.value)


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - {"solve", "playground", "plot"}))
def test_too_many_arguments_are_refused(name: str) -> None:
    with pytest.raises(ds.InputError, match=f"{name}: too many positional arguments"):
        PUBLIC[name](*range(40))


@pytest.mark.parametrize(
    ("study", "given", "said"),
    [
        ("convergence", {"qdelta": "NONSENSE"}, "unknown Q_Delta 'NONSENSE'"),
        ("convergence", {"qdeltas": "LU"}, "did you mean 'qdelta'"),
        ("convergence", {"sweepers": "semi-implicit"}, "did you mean 'sweeper'"),
        ("convergence", {"dts": [0.1, 0.05]}, "did you mean 'dt'"),
        ("iterations", {"qdeltas": "LU"}, "did you mean 'qdelta'"),
        ("iterations", {"restol": 1e-3}, "unknown option of iterations 'restol'"),
        ("solve", {"problem_params": {}}, "Available: .*, params,"),
        ("convergence", {"foo": 1}, "unknown option of convergence 'foo'"),
    ],
)
def test_studies_refuse_options_that_they_do_not_use(study: str, given: Any, said: str) -> None:
    with pytest.raises(ds.InputError, match=said):
        PUBLIC[study]("simple", nodes=3, **given)


def test_studies_warn_of_runs_that_have_failed() -> None:
    class Blocked(ds.ProblemDAE):
        index, interval = 1, (0.0, 1.0)

        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=2, n_alg=1, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [float("nan")] * 3 if t > 0.5 else [du[0] - u[0], du[1] - u[1], u[0] - u[1] + u[2]]

        def u_exact(self, t: float) -> Any:
            return [np.exp(t), np.exp(t), 0.0]

    with pytest.warns(ds.DAEWarning, match="Blocked with dt=") as caught:
        result = ds.convergence(Blocked, dt=[0.5, 0.25], nodes=2)
    assert [str(one.message) for one in caught] == result.parameters["failures"]
    assert len(caught) == 2


# --- attributes and functions of problems --------------------------------------------------------------


class Decay(ds.ProblemDAE):
    index = 0

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 0, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] + u[0], du[1] + u[1]]


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        *(("nominal", value) for value in ("abc", [1.0, 2.0, 3.0], None, [[1.0]], {"u": 1.0}, 3j)),
        *(("sparsity", value) for value in ("abc", 3, [1.0, 2.0], np.ones((3, 3)))),
        *(("interval", value) for value in (1.0, "ab", None, (0.0, 1.0, 2.0))),
        *(("names", value) for value in ("ab", ("a",), (1, 2))),
    ],
)
def test_attributes_of_a_wrong_type_are_refused_when_a_problem_is_made(attribute: str, value: Any) -> None:
    cls = type("Changed", (Decay,), {attribute: value})
    if attribute == "names" and value == ():
        return
    with pytest.raises(ds.InputError, match=f"Changed.{attribute}"):
        cls()
    with pytest.raises(ds.InputError, match=f"Decay.{attribute}"):
        setattr(Decay(), attribute, value)


@pytest.mark.parametrize("attribute", ["title", "reference", "time_unit", "parameter_units"])
def test_texts_of_a_class_are_refused_when_it_is_made(attribute: str) -> None:
    with pytest.raises(ds.InputError, match=attribute):
        type("Changed", (Decay,), {attribute: 3})


@pytest.mark.parametrize("form", [sparse.csc_matrix, sparse.csr_matrix])
def test_indices_outside_of_a_jacobian_are_refused(form: Any) -> None:
    class Outside(Decay):
        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            matrix = form((1.0 + c) * np.eye(2))
            matrix.indices[1] = 7000000
            return matrix

    with pytest.raises(ds.InputError, match=r"Outside.jacobian is a CS. matrix .* indices outside"):
        ds.solve(Outside, u0=[1.0, 2.0], dt=0.1)


def test_a_jacobian_that_is_dense_and_sparse_in_turn_is_taken() -> None:
    class InTurn(Decay):
        calls = 0

        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            self.calls += 1
            matrix = (1.0 + c) * np.eye(2)
            return sparse.csc_matrix(matrix) if self.calls % 3 else matrix

    solution = ds.solve(InTurn, u0=[1.0, 2.0], dt=0.1, t_end=1.0, sweeper="radau-iia-5")
    assert solution.success
    np.testing.assert_allclose(solution.u[-1], np.array([1.0, 2.0]) * np.exp(-1.0), rtol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda u, t: u[0] > 0,
        lambda u, t: bool(u[0] > 0),
        lambda u, t: int(u[0] > 0),
        lambda u, t: np.bool_(True),
    ],
)
def test_an_event_that_is_a_comparison_is_refused(function: Any) -> None:
    with pytest.raises(ds.InputError, match="continuous function changes its sign"):
        ds.solve(Decay, u0=[1.0, -2.0], rtol=1e-4, events=lambda u, t: function(-u, t))


@pytest.mark.parametrize("function", [lambda u: u[0], lambda u, t: "3", lambda u, t: u, lambda u, t: 1j, int])
def test_an_event_that_is_no_function_of_state_and_time_is_refused(function: Any) -> None:
    with pytest.raises(ds.InputError, match=r"f\(u, t\)"):
        ds.solve(Decay, u0=[1.0, -2.0], rtol=1e-4, events=function)


def test_too_few_sweeps_of_a_linear_problem_grow_but_do_not_fail() -> None:
    """One diagonal sweep amplifies from step to step; linear solves succeed however large values become."""
    given: dict[str, Any] = {"sweeper": "fully-implicit", "qdelta": "MIN-SR-S", "restol": -1.0, "maxiter": 1}
    runs = [
        ds.solve("simple", dt=0.05, initial_guess="spread", newton_tol=1e-13, backend=backend, **given)
        for backend in ("compiled", "numpy")
    ]
    assert all(run.success for run in runs)
    assert np.abs(runs[0].u[-1]).max() > 1e10
    np.testing.assert_allclose(runs[0].u[-1], runs[1].u[-1], rtol=1e-6)
