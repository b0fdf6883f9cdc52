"""A time limit covers all of a call, whatever it does; one line says what was under way."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
import sympy as sp
from helpers.timing import spent
from launcher import Launcher

import dae_sdc as ds
from dae_sdc.cli import main

N = 60
WEIGHTS = np.random.default_rng(3).normal(size=(N, N))

LONGEST = 5.0
"""Seconds that a call with a limit of a fifth of a second may take on a busy machine."""


def coupled(t: Any, u: Any, du: Any) -> list[Any]:
    """Sixty unknowns, half of them algebraic, each in every equation."""
    sums = [sum(WEIGHTS[i, j] * np.sin(u[j]) for j in range(N)) for i in range(N)]
    first = [du[i] + u[i] - 0.1 * sums[i] for i in range(N // 2)]
    return first + [u[i] * (1.0 + u[i] ** 2) - 0.01 * sums[i] - 1.0 for i in range(N // 2, N)]


def named() -> ds.FunctionProblem:
    return ds.FunctionProblem(coupled, N, names=[f"x{i}" for i in range(N)])


def polynomials() -> Any:
    a, b, c, d, e, f = unknowns = sp.symbols("a:f")
    equations = [
        *(a**3 * b - c * d**2 + e**4, b * c**3 - e * f + a**4),
        *(c**2 * f**2 - a * d**3, a * f**3 + b**2 * e - c * d),
    ]
    return ds.PolynomialSystem.from_sympy(equations, unknowns)


STARTS = {f"x{i}": 1.0 for i in range(N // 2)}

CALLS: dict[str, Callable[..., Any]] = {
    "solve from values by name": lambda **limit: ds.solve(named(), u0=STARTS, t_end=1.0, **limit),
    "solve of a model of high index": lambda **limit: ds.solve(
        "pendula-two-loops", reduce=True, rtol=1e-9, **limit
    ),
    "initial": lambda **limit: ds.initial(coupled, u0=np.ones(N), **limit),
    "initial of a model": lambda **limit: ds.initial("pendula-two-loops", **limit),
    "steady state of a function": lambda **limit: ds.steady_state(named(), **limit),
    "structure": lambda **limit: ds.structure("charges-on-sphere", params={"count": 20}, **limit),
    "decompose": lambda **limit: ds.decompose(polynomials(), **limit),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_time_limit_covers_all_of_a_call(call: str) -> None:
    began = spent()
    try:  # what has some components tells that there may be more
        told = getattr(CALLS[call](time_limit=0.2), "unfinished", "")
    except ds.TimeLimitError as error:
        told = str(error)
    assert spent() - began < LONGEST
    words = r"the time limit of 0\.2 s ran out while [\w' ,().-]+; raise time_limit(, or [\w= ]+)?"
    assert re.fullmatch(words, told), told


def test_the_stage_that_was_under_way_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from dae_sdc import deadline

    stages = set()
    for looks in (1, 30, 40, 60, 80, 150, 300, 600):
        clock = count()
        with monkeypatch.context() as patch:
            patch.setattr(deadline, "perf_counter", lambda clock=clock: float(next(clock)))
            try:
                ds.solve(
                    "pendulum-chain",
                    u0={"x1": 1.0},
                    reduce=True,
                    rtol=1e-4,
                    t_end=0.1,
                    time_limit=float(looks),
                )
            except ds.TimeLimitError as error:
                stages.add(str(error).partition(" while ")[2].partition(";")[0])
            except ds.DAEError:
                pass
    assert len(stages) >= 2, stages


FIXED: dict[str, dict[str, Any]] = {
    "one step at a time": {},
    "several steps at once": {"steps": 4},
    "located events": {"events": lambda u, t: u[0] - 10.0},
}


@pytest.mark.parametrize("way", FIXED)
def test_a_run_with_a_fixed_step_size_keeps_its_steps(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dae_sdc import deadline

    # Of one whose dF/du' is not declared to be constant some steps are looked at one by one.
    simple = type("Undeclared", (ds.SimpleDAE,), {"constant_mass": False})
    settings = {"dt": 0.01, "sweeper": "fully-implicit", "nodes": 2, "t_end": 0.4, **FIXED[way]}
    whole = ds.solve(simple, **settings)
    assert ds.solve(simple, time_limit=1e6, **settings).u.tobytes() == whole.u.tobytes()
    clock = count()
    looks = 0
    with monkeypatch.context() as patch:  # a clock that only counts how often it is read
        patch.setattr(deadline, "perf_counter", lambda: float(next(clock)))
        ds.solve(simple, time_limit=1e6, **settings)
        looks, clock = next(clock), count()
        part = ds.solve(simple, time_limit=looks - 5.0, **settings)
    assert whole.success and not part.success
    assert 2 <= len(part.t) < len(whole.t)
    assert part.u.tobytes() == whole.u[: len(part.t)].tobytes()
    words = rf"the time limit of {looks - 5} s ran out at t=[\d.]+; raise time_limit or dt"
    assert re.fullmatch(words, part.message), part.message


def test_a_run_that_has_come_to_its_end_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    from dae_sdc import deadline
    from dae_sdc.run import execution

    late = 0.0
    monkeypatch.setattr(deadline, "perf_counter", lambda: late)
    original = execution.Execution.solution

    def solution(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal late
        late = 1e9
        return original(self, *args, **kwargs)

    monkeypatch.setattr(execution.Execution, "solution", solution)
    assert ds.solve("pendulum", rtol=1e-6, time_limit=1.0).success


def test_a_call_that_was_ended_leaves_its_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    from dae_sdc import deadline

    def made() -> ds.Model:
        m = ds.Model("pendulum")
        x, y, force = m.variable("x", 0.6), m.variable("y", -0.8), m.variable("force")
        m.equation(m.der(x, 2) + x * force)
        m.equation(m.der(y, 2) + y * force + 9.81)
        m.equation(x**2 + y**2 - 1)
        return m

    ended, fresh = made(), made()
    for looks in (3, 10, 30, 100):
        clock = count()
        with monkeypatch.context() as patch:
            patch.setattr(deadline, "perf_counter", lambda clock=clock: float(next(clock)))
            try:
                ds.solve(ended, u0={"x": 0.6}, reduce=True, rtol=1e-6, t_end=0.1, time_limit=float(looks))
            except ds.TimeLimitError:
                pass
    one, other = (ds.solve(m, u0={"x": 0.6}, reduce=True, rtol=1e-6, t_end=0.1) for m in (ended, fresh))
    assert one.success and one.u.tobytes() == other.u.tobytes()


def test_a_limit_ends_the_compiler_too() -> None:
    from numba import njit

    from dae_sdc.dae import compiling  # noqa: F401  that looks at the time between passes
    from dae_sdc.deadline import limited

    function = njit(lambda x: x + 1.0)
    with pytest.raises(ds.TimeLimitError), limited(1e-9):
        function.compile("(float64,)")
    assert function(1.0) == 2.0


def test_a_limit_around_another_counts() -> None:
    from dae_sdc.deadline import check, limited, unchecked

    with pytest.raises(ds.TimeLimitError, match="of 1e-09 s"), limited(1e-9), limited(1e9), unchecked():
        check()  # does nothing
        with limited():
            check()


@pytest.mark.parametrize(
    "line",
    [
        "structure pendula-two-loops --time-limit 0.1",
        "initial pendula-two-loops --time-limit 0.1",
        "steady centrifuge --time-limit 0.001",
        "solve pendula-two-loops --reduce --rtol 1e-6 --time-limit 0.1",
    ],
)
def test_verbs_take_a_time_limit(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 1
    told = capsys.readouterr().err
    assert re.fullmatch(
        r"dae-sdc: the time limit of 0\.\d+ s ran out while .+; raise time_limit.*\n", told
    ), told


@pytest.mark.parametrize("call", ["initial", "structure", "steady_state", "solution_sets"])
def test_a_time_limit_is_positive(call: str) -> None:
    with pytest.raises(ds.InputError, match="time_limit must be positive; got -1"):
        getattr(ds, call)("pendulum", time_limit=-1.0)


def test_ranks_end_together(mpirun: Launcher) -> None:
    done = mpirun(2, "late.py", "late", "jobs", "nodes", "steps", timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


# --- runs that end where algebraic unknowns are not determined ---


def test_a_power_system_that_loses_its_voltage_says_so() -> None:
    collapse = ds.solve("wscc9", t_end=200.0, rtol=1e-6)
    assert not collapse.success and 4.411 < collapse.t[-1] < 4.412
    assert re.search(r"near t=4\.41\d+ the equations no longer determine '[\w', ]+'", collapse.message)
    assert ds.solve("wscc9", t_end=200.0, rtol=1e-3, params={"outage": (5, 6)}).success


@pytest.mark.parametrize("trace", [None, False])
def test_a_fold_is_named_and_a_pole_is_not(trace: bool | None) -> None:
    def fold(t: Any, u: Any, du: Any) -> list[Any]:
        return [du[0] + 1.0, u[1] ** 2 - u[0]]

    def pole(t: Any, u: Any, du: Any) -> list[Any]:
        return [du[0] - u[0] ** 2, u[1] - u[0]]

    names: dict[str, Any] = {"rtol": 1e-6, "t_end": 2.0, "trace": trace}
    folded, blown = ds.solve(fold, u0={"x": 1.0, "z": 1.0}, **names), ds.solve(pole, u0=[1.0, 1.0], **names)
    assert "near t=1 the equations no longer determine 'z': the smallest singular value" in folded.message
    assert not blown.success and "no longer determine" not in blown.message


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_where_compiling_takes_more_than_two_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dae_sdc.dae import compiling

    times, passes, terminal = [0.0], compiling._BetweenPasses(), Terminal()
    monkeypatch.setattr(compiling, "perf_counter", lambda: times[-1])
    monkeypatch.setattr(sys, "stderr", terminal)
    # A pass of 1.2 s and, after a minute of other things, three within each other.
    for time, call, lines in (
        *((0.0, "start", 0), (1.2, "end", 0), (61.2, "start", 0)),
        *((61.9, "start", 0), (62.1, "start", 1), (63.0, "end", 1), (64.0, "start", 1)),
    ):
        times.append(time)
        getattr(passes, f"on_{call}")(None)
        assert terminal.getvalue().count("\n") == lines
    assert "compiled" in terminal.getvalue()
