"""Whatever is given to a public function or a verb is carried out, or refused in one line with advice."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.arguments import OTHERS


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


@pytest.mark.parametrize("several", ["x, der(x,2)", np.array(["x", "der(x,2)"]), ("x", "der(x,2)")])
def test_names_come_as_a_text_as_an_array_and_in_a_row(several: Any) -> None:
    at = {"x": 0.0, "y": -1.0}
    system = ds.linearize("pendulum", at=at, inputs="force x", outputs=several)
    assert system.outputs == ("x", "der(x, 2)") and system.inputs == ("force x",)
    with pytest.raises(ds.InputError, match=r"unknown output 'z'; available: .*x, y"):
        ds.linearize("pendulum", at=at, outputs="x, z")
    with pytest.raises(ds.InputError, match=r"unknown name in pendulum 'z'; available: .*x, y"):
        ds.steady_state("pendulum", turning="z")
    watched = ds.solve("pendulum", t_end=0.01, rtol=1e-3, watch="x, y", progress=False)
    assert watched.success


def decay_of_two(t: float, u: Any, du: Any, k: float = 1.0) -> list[Any]:
    x, y = u
    return [du[0] + k * x, y - 2.0 * x]


def by_index(t: float, u: Any, du: Any, k: float = 1.0) -> list[Any]:
    return [du[0] + k * u[0], u[1] - 2.0 * u[0]]


# Functions with a start of equations, by what it is called there
STARTS: dict[str, Callable[[Any, Any], Any]] = {
    "solve": lambda f, start: ds.solve(f, u0=start, t_end=0.1),
    "solve with IDA": lambda f, start: ds.solve(f, u0=start, t_end=0.1, rtol=1e-4, sweeper="ida"),
    "sundials": lambda f, start: ds.sundials(f, u0=start, t_end=0.1, rtol=1e-4),
    "sweep": lambda f, start: ds.sweep(f, {"k": [1.0, 2.0]}, u0=start, t_end=0.1),
    "initial": lambda f, start: ds.initial(f, u0=start),
    "steady_state": lambda f, start: ds.steady_state(f, guess=start),
    "steady_branch": lambda f, start: ds.steady_branch(f, vary={"k": (1.0, 2.0)}, guess=start),
    "linearize": lambda f, start: ds.linearize(f, at=start),
}


@pytest.mark.parametrize("function", [decay_of_two, by_index])
@pytest.mark.parametrize("name", STARTS)
def test_a_start_of_another_length_is_told_with_the_number_of_unknowns(name: str, function: Any) -> None:
    for start in ([1.0], np.ones(1), (1.0, 1.0, 1.0)):
        with pytest.raises(ds.InputError) as told:
            STARTS[name](function, start)
        counts = f"has 2 unknowns, and {len(start)} values of them are given; give one for each"
        counts = f"{counts} (None stands for a value that is not known)"
        returned = f"must return {len(start)} values, one an equation; got shape (2,)"
        says = returned if function is by_index and len(start) > 2 else counts
        assert str(told.value) == f"{function.__name__} {says}"
    for strange in (1.0, [], {}, np.ones((2, 2)), [[1.0], [1.0, 2.0]], object()):
        with pytest.raises(ds.InputError, match=r"at least one unknown|has shape|real numbers") as told:
            STARTS[name](function, strange)
        assert "\n" not in str(told.value)


NAMED = ds.FunctionProblem(by_index, 2, names="x, y")


@pytest.mark.parametrize("name", sorted(set(STARTS) - {"sweep", "steady_branch"}))
@pytest.mark.parametrize("problem", [NAMED, "simple"])
def test_a_start_of_another_length_is_told_with_the_names_of_unknowns(name: str, problem: Any) -> None:
    names = "u1, u2, z" if problem == "simple" else "x, y"
    with pytest.raises(ds.InputError) as told:
        STARTS[name](problem, [1.0])
    assert str(told.value).endswith(f"got shape (1,) for {names}")


def test_homotopy_takes_expressions_and_numbers_alone() -> None:
    x = sp.Symbol("x")
    assert ds.homotopy(x**2, 1.0) is not None
    for strange in (1j, "x", None, b"x", [1.0], float, Decimal(2), sp.true, sp.Interval(0, 1), 10**400):
        with pytest.raises(ds.InputError, match="homotopy takes two expressions or real numbers") as told:
            ds.homotopy(x, strange)
        assert "\n" not in str(told.value)


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


@pytest.mark.parametrize(
    "words", ["--t-end 1_000", "--nodes 1_0", "--atol 1_0", "--t-eval 0.1,0_2", "--rtol 1e-0_3"]
)
def test_numbers_with_underscores_are_typing_errors_in_a_shell(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["solve", "simple", *words.split()])
    said = capsys.readouterr().err
    assert "needs" in said and "number" in said and said.count("\n") == 1


def test_a_solution_whose_sidecar_has_no_checksum_is_refused(tmp_path: Path) -> None:
    ds.solve("simple", dt=0.1, t_end=0.2, out=tmp_path / "run.npy")
    table, sidecar = np.load(tmp_path / "run.npy"), tmp_path / "run.json"
    table["u"] = np.nan
    np.save(tmp_path / "run.npy", table)
    about = json.loads(sidecar.read_text())
    del about["checksum"]
    sidecar.write_text(json.dumps(about))
    with pytest.raises(ds.ResultFileError, match="describes other data than"):
        ds.load(tmp_path / "run.npy")


# --- equations in files -------------------------------------------------------------------------------------

TANK = '''
import dae_sdc as ds

class Tank(ds.ProblemDAE):
    """Water in a tank."""

    index = 1

    def __init__(self, k=1.0, **settings):
        super().__init__(1, 1, **settings)

    def eval_f(self, u, du, t):
        return [du[0] + u[0], u[1] - u[0]]

def helper(x):
    return x
'''
DECAY = '''
def decay(t, u, du, rate=1.5):
    """Decay at a rate."""
    return [du[0] + rate * u[0], u[1] - u[0]]
'''
MODELICA = "model Flow parameter Real k=2; Real x(start=1); equation der(x) = -k*x; end Flow;\n"
SEVERAL = f"{DECAY}\ndef growth(t, u, du):\n    return [du[0] - u[0]]\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "tank.py": TANK,
        "decay.py": DECAY,
        "flow.mo": MODELICA,
        "several.py": SEVERAL,
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tank.py", ("tank.py\n", "class Tank, index 1", "Water in a tank.")),
        ("tank.py:Tank", ("class Tank, index 1", "Water in a tank.")),
        ("decay.py", ("a function of 2 unknowns", "rate = 1.5", "Decay at a rate.")),
        ("flow.mo", ("model of 1 equations", "unknowns: x", "k = 2")),
    ],
)
def test_info_tells_of_files_and_takes_the_only_class_or_function(
    files: Path, name: str, says: tuple[str, ...]
) -> None:
    told = ds.info(name)
    for part in says:
        assert part in told


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tank.py:Tnak", "unknown name in tank.py 'Tnak'; did you mean 'Tank'? Available: Tank"),
        ("tanc.py", "there is no file tanc.py; did you mean tank.py?"),
        ("flo.mo", "did you mean flow.mo?"),
        ("several.py", "several.py defines no 'model', but decay, growth; give several.py:NAME with one"),
    ],
)
def test_the_nearest_file_or_name_in_a_file_is_told(files: Path, name: str, says: str) -> None:
    for function in (ds.info, ds.structure):
        with pytest.raises(ds.InputError) as told:
            function(name)
        assert says in str(told.value)


def test_help_says_that_files_of_python_are_run(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (
        "solve",
        "initial",
        "info",
        "structure",
        "sweep",
        "reduce",
        "simplify",
        "steady",
        "linearize",
    ):
        with pytest.raises(SystemExit):
            cli.main([verb, "--help"])
        assert "FILE.py:NAME, which is run" in " ".join(capsys.readouterr().out.split()), verb


# --- mistakes of every kind, in every argument and option ---------------------------------------------------

# What hardly anybody means as any argument, made when it is given.
MISTAKES: dict[str, Callable[[], Any]] = {
    "object": object,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "negative": lambda: -1,
    "huge": lambda: 10**400,
    "text": lambda: "nonsense",
    "no text": str,
    "empty list": list,
    "unknown key": lambda: {"nonsense": 1.0},
    "text for a number": lambda: {"x": "a"},
    "NaN by name": lambda: {"x": float("nan")},
    "number for a name": lambda: {3: 1.0},
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "unknown names": lambda: ["nonsense"],
    "bytes": lambda: b"x",
    "complex": lambda: 1j,
    "matrix": lambda: np.zeros((2, 3)),
    "array of texts": lambda: np.array(["a"]),
    "masked": lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    "class": lambda: int,
    "function without arguments": lambda: lambda: None,
    "unknown file": lambda: "nonsense/missing.npy",
    "unknown Python file": lambda: "missing.py",
    "unknown Modelica file": lambda: "missing.mo",
    "zero byte": lambda: "a\0b",
    "truth": lambda: True,
    "set": lambda: {"x"},
    "nested": lambda: {"x": {"y": 1}},
    "one number": lambda: 1.0,
    "a row of one": lambda: [1.0],
    "text of several": lambda: "x, nonsense",
}
# Arguments with which functions are quick; others get a mistake in place of each that they need.
QUICK: dict[str, dict[str, Any]] = {
    "solve": {"problem": "simple", "dt": 0.1, "t_end": 0.2},
    "sundials": {"problem": "hessenberg-1", "rtol": 1e-3, "t_end": 0.2},
    "initial": {"equations": "pendulum"},
    "sweep": {"problem": "simple", "params": {"alpha": [5.0, 6.0]}, "rtol": 1e-3, "t_end": 0.2},
    "convergence": {"problem": "hessenberg-1", "dt": [0.2, 0.1], "nodes": 2, "t_end": 0.2},
    "iterations": {"problem": "simple", "dt": 0.1, "maxiter": 3, "nodes": 2, "t_end": 0.2},
    "drift": {"case": ["radau-iia-9/ggl"], "t_end": 0.05, "points": 2},
    "playground": {"name": "synchronous-machine", "t_end": 0.02},
    "pendulum_study": {"k": [1.0], "sweeper": ["bdf2"], "dt": 0.05, "rtol": [1e-2], "max_order": [1]},
    "accuracy": {"sweeper": "none", "nodes": 2},
    "linearize": {"problem": "pendulum", "at": AT},
    "steady_branch": {"problem": "simple", "vary": {"alpha": (5.0, 6.0)}},
    "steady_state": {"problem": "pendulum"},
    "plot": {"out": "a.png"},
}
# What must stay for a call to end in seconds.
STAYS = {("accuracy", "sweeper"), ("pendulum_study", "dt"), ("drift", "t_end"), ("playground", "t_end")}


def arguments() -> dict[str, list[tuple[str, str]]]:
    """For each public function pairs of an argument and the name of a mistake, so that all occur in turn."""
    found: dict[str, list[tuple[str, str]]] = {}
    mistakes = itertools.cycle(MISTAKES)
    for name in ds.__all__:
        function = getattr(ds, name)
        if not inspect.isfunction(function):
            continue
        several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        names = [
            key for key, one in inspect.signature(function).parameters.items() if one.kind not in several
        ]
        kept = [key for key in names if (name, key) not in STAYS]
        found[name] = [(key, next(mistakes)) for key in kept for _ in range(2)]
    return found


ARGUMENTS = arguments()


def test_there_are_enough_mistakes_and_each_kind_of_them() -> None:
    pairs = [pair for own in ARGUMENTS.values() for pair in own]
    assert len(pairs) > 300
    assert {mistake for _, mistake in pairs} == set(MISTAKES)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_mistake_in_an_argument_is_carried_out_or_told_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function = getattr(ds, name)
    for argument, mistake in ARGUMENTS[name]:
        try:
            function(**{**QUICK.get(name, {}), argument: MISTAKES[mistake]()})
        except ds.DAEError as error:
            assert str(error) and "\n" not in str(error), (argument, mistake)
        except Exception as error:
            raise AssertionError(f"{name}({argument}={mistake}): {error!r}") from error


TEXTS = [
    *("nonsense", "", "=", "x=", "=1", "x=a", "nonsense=1", "-1", "nan", "inf", "1e400", "1_0", ",", "a,b"),
    *("1:", "0:1:2:3", "missing.npy", "missing.py", "missing.mo", "a\0b", "*", "x*=1", "--", "[", "9" * 400),
]
WORDS = {
    "solve": "simple --dt 0.1 --t-end 0.2",
    "convergence": "hessenberg-1 --nodes 2 --dt 0.2,0.1 --t-end 0.2",
    "iterations": "simple --nodes 2 --dt 0.1 --t-end 0.2 --maxiter 3",
    "drift": "rigid-pendulum --case radau-iia-9/ggl --t-end 0.05 --points 2",
    "sweep": "simple --param alpha=5,6 --rtol 1e-3 --t-end 0.2",
    "playground": "synchronous-machine --t-end 0.02",
    "accuracy": "--sweeper none",
    "pendulum-study": "--sweeper none",
    "initial": "pendulum --fixed x=0.6",
    "linearize": "pendulum --at x=0 --at y=-1",
    **dict.fromkeys(("steady", "structure", "reduce", "info"), "pendulum"),
    "simplify": "rlc-circuit",
    "plot": "linear missing.npy",
}
LONG = {("accuracy", "--sweeper"), ("pendulum-study", "--sweeper"), ("drift", "--t-end"), ("drift", "--case")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("verb", cli.find_verbs())
def test_every_mistake_in_an_option_of_a_verb_is_carried_out_or_told_in_one_line(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    parser = cli.Parser()
    importlib.import_module(cli.find_verbs()[verb].module).add_arguments(parser)
    first, *others = WORDS.get(verb, "").split() or [""]
    texts = itertools.islice(itertools.cycle(TEXTS), sum(map(ord, verb)) % len(TEXTS), None)
    for action in parser._actions:
        option = action.option_strings[-1:]
        if action.nargs == 0 or (option and (verb, option[0]) in LONG):
            continue
        text = next(texts)
        words = [first, *others, f"{option[0]}={text}"] if option else [text, *others]
        try:
            code = cli.main([verb, *filter(None, words)])
        except SystemExit as end:
            code = end.code  # type: ignore[assignment]
        said = capsys.readouterr().err
        lines = [line for line in said.splitlines() if line.startswith("dae-sdc: ")]
        assert "this is a defect" not in said, (words, said)
        assert code in (0, 1) or (code == 2 and len(lines) == 1), (words, said)


@pytest.mark.parametrize(
    ("other", "own"),
    [
        (word, own)
        for own, words in OTHERS.items()
        for word in words.split()[:2]
        if own not in ("at", "guesses")
    ],
)
def test_words_of_other_libraries_are_answered_with_ours_in_a_shell(
    other: str, own: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["solve", "simple", f"--{other.replace('_', '-')}=1"])
    flags = {"params": "--params", "dense": "--dense"}
    assert f"did you mean {flags.get(own, '--' + own.replace('_', '-'))}?" in capsys.readouterr().err


WARNED: dict[str, Callable[[], Any]] = {
    "convergence": lambda: ds.convergence("simple", sweeper="semi-implicit", nodes=2, maxiter=1, dt=[0.2]),
    "sweep": lambda: ds.sweep("simple", {"alpha": [5.0, 6.0]}, rtol=1e-6, time_limit=1e-9),
}


@pytest.mark.parametrize("name", WARNED)
def test_a_warning_shows_the_line_of_the_user(name: str) -> None:
    with pytest.warns(ds.DAEWarning) as told:
        WARNED[name]()
    assert {warning.filename for warning in told} == {__file__}


REACTOR = """
import numpy as np

def reactor(t, u, du, setpoint=350.0, gain=4.0):
    c, T, cooling = u
    rate = 7.2e10 * np.exp(-8750.0 / T) * c
    return [
        du[0] - (1.0 - c) + rate,
        du[1] - (350.0 - T) - 209.0 * rate - 2.09 * (cooling - T),
        cooling - np.clip(300.0 + gain * (setpoint - T), 280.0, 320.0),
    ]
"""


def test_values_by_name_stand_behind_one_another_or_behind_commas_in_every_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reactor.py").write_text(REACTOR, encoding="utf-8")
    said = []
    for joined in (True, False):
        values = [f"{name}={value}" for name, value in {"c": 0.5, "T": 350, "cooling": 300}.items()]
        for verb, flag, *more in (
            ("steady", "--guess"),
            ("linearize", "--at", "--inputs", "setpoint", "--outputs", "T"),
            ("initial", "--guesses", "--fixed", "c=0.5", "--fixed", "T=350"),
            ("sweep", "--u0", "--param", "gain=1,4", "--t-end", "0.1"),
        ):
            parts = [",".join(values)] if joined or flag == "--u0" else values
            words = [word for part in parts for word in (flag, part)]
            assert cli.main([verb, "reactor.py", *words, *more]) == 0, capsys.readouterr()
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert cli.main(["info", "reactor.py"]) == 0
    assert "a function of 3 unknowns, t_end is yours to give" in capsys.readouterr().out


def test_a_kind_of_result_draws_the_picture_of_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ds.solve("simple", t_end=0.1, rtol=1e-3, out="run.npy")
    by_kind, by_file = (ds.plot(*what, "run.npy") for what in (("solution",), ()))
    assert [axes.get_ylabel() for axes in by_kind.axes] == [axes.get_ylabel() for axes in by_file.axes]
    with pytest.raises(ds.InputError, match="unknown kind of plot 'solutoin'"):
        ds.plot("solutoin", "run.npy")
