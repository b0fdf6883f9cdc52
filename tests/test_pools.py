"""What a run returns crosses to other processes, by every pool, and is the same there."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dae_sdc as ds

PACKAGE = str(Path(ds.__file__).resolve().parents[1])

EQUATIONS = """
import dae_sdc as ds

def decay(t, u, du, rate=1.0):
    return [du[0] + rate * u[0], u[1] - 2.0 * u[0]]

def square(t, u, du):
    return [du[0] - (1.0 if u[0] < 0.5 else 2.0), u[1] - u[0]]

class Own(ds.ProblemDAE):
    index = 1

    def __init__(self, **settings):
        super().__init__(1, 1, **settings)

    def eval_f(self, u, du, t):
        return [du[0] + u[0], u[1] - u[0]]

def pendulum():
    m = ds.Model("pendulum")
    x, y, lam = m.variables("x y lam", start=[1.0, 0.0, 0.0])
    m.equations(m.der(x, 2) + lam * x, m.der(y, 2) + lam * y + 9.81, x**2 + y**2 - 1)
    return m

START = {"u0": [1.0, 2.0], "t_end": 1.0}
WAYS = {
    "function": lambda: ds.solve(decay, **START),
    "function with parameters": lambda: ds.solve(decay, params={"rate": 2.0}, **START),
    "function that is called": lambda: ds.solve(decay, trace=False, **START),
    "function with switches": lambda: ds.solve(square, u0=[0.0, 0.0], t_end=1.0),
    "class": lambda: ds.solve(Own, u0=[1.0, 1.0], t_end=1.0, rtol=1e-6),
    "problem of the library": lambda: ds.solve("pendulum", rtol=1e-6, t_end=0.5),
    "fixed steps": lambda: ds.solve("simple", dt=0.1, t_end=0.5),
    "model": lambda: ds.solve(pendulum(), rtol=1e-6, t_end=0.2),
    "reduced model": lambda: ds.solve(pendulum(), rtol=1e-6, t_end=0.2, reduce=True),
    "simplified model": lambda: ds.solve("rlc-circuit", rtol=1e-6, simplify=True),
    "manifold": lambda: ds.solve("rigid-pendulum", rtol=1e-6, t_end=0.2),
}

def solved(way):
    return WAYS[way]()

def digits(solution):
    times = [solution.t[0] + part * (solution.t[-1] - solution.t[0]) for part in (0.0, 0.3, 0.71, 1.0)]
    return solution.u.tobytes(), solution.names, solution.message, solution(times).tobytes()
"""

POOLS = """
import concurrent.futures, multiprocessing, sys, warnings
warnings.simplefilter("ignore")
from equations import WAYS, digits, solved

if __name__ == "__main__":
    here = {way: digits(solved(way)) for way in WAYS}
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1) as pool:
        print("Pool", [way for way, there in zip(WAYS, pool.map(solved, WAYS)) if digits(there) != here[way]])
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        again = pool.map(digits, map(solved, WAYS))
        print("executor", [way for way, there in zip(WAYS, again) if there != here[way]])
"""

OTHERS = """
import pickle, sys
import dae_sdc as ds
from equations import Own, decay, pendulum
run = ds.solve("pendulum", rtol=1e-6, t_end=0.2)
things = [
    Own(), ds.FunctionProblem(decay, 2), pendulum(), pendulum().problem(), ds.SimpleDAE(),
    ds.initial("pendulum", fixed={"x": 0.6}), ds.initial(decay, u0=[1.0, 2.0]), ds.steady_state("pendulum"),
    ds.sweep("simple", {"alpha": "5:10:2"}, rtol=1e-4), ds.linearize("pendulum", at={"x": 0.0, "y": -1.0}),
    ds.convergence("simple", sweeper="radau-iia-5", dt=[0.1, 0.05]), ds.structure("pendulum"),
    ds.reduce("pendulum"), ds.simplify("rlc-circuit"), ds.eigenvalues("pendulum", along=run, points=2),
]
with open("things.pickle", "wb") as file:
    pickle.dump([(thing, type(thing).__name__) for thing in things], file)
"""

LOADED = """
import pickle
with open("things.pickle", "rb") as file:
    things = pickle.load(file)
print(len(things), [name for thing, name in things if type(thing).__name__ != name or not str(thing)])
"""

LAMBDA = """
import pickle
import dae_sdc as ds
run = ds.solve(lambda t, u, du: [du[0] + u[0]], u0=[1.0], t_end=1.0)
try:
    pickle.dumps(run)
except Exception as error:
    print(error)
"""


def python(directory: Path, text: str) -> str:
    """What a program prints that stands beside the equations."""
    (directory / "equations.py").write_text(EQUATIONS)
    (directory / "program.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(directory), PACKAGE])}
    command = [sys.executable, str(directory / "program.py")]
    done = subprocess.run(
        command, env=environment, cwd=directory, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_solutions_come_back_from_every_pool_with_the_values_between_their_steps(tmp_path: Path) -> None:
    assert python(tmp_path, POOLS).splitlines() == ["Pool []", "executor []"]


def test_all_that_a_user_gets_is_read_by_another_process(tmp_path: Path) -> None:
    python(tmp_path, OTHERS)
    assert python(tmp_path, LOADED).strip() == "15 []"


def test_what_has_no_name_says_so_in_one_line(tmp_path: Path) -> None:
    (line,) = python(tmp_path, LAMBDA).splitlines()
    assert "lambda" in line


@pytest.mark.parametrize("trace", [None, False])
def test_copies_of_a_problem_stay_of_its_class(trace: bool | None) -> None:
    run = ds.solve(lambda t, u, du: [du[0] + u[0]], u0=[1.0], t_end=1.0, trace=trace)
    problem: object = run.equations.problem  # type: ignore[union-attr]
    assert type(copy.deepcopy(problem)) is type(problem)


def test_a_sweep_by_workers_of_what_has_no_name_says_so_in_one_line() -> None:
    with pytest.raises(ds.InputError, match=r"lambda.*; define functions in a file, or leave workers out"):
        ds.sweep(
            lambda t, u, du, k=1.0: [du[0] + k * u[0]], {"k": [1.0, 2.0]}, u0=[1.0], t_end=1.0, workers=2
        )
