"""From a file of a modelling tool to a solution: sizes, times, and broken files."""

import random
import signal
import subprocess
import sys
from contextlib import contextmanager
from time import perf_counter, process_time

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.problems.models_modelica import DIRECTORY

FILES = sorted(DIRECTORY.glob("*.mo"))
MUTATIONS = 108
PATIENCE = 60


def ladder(cells: int, extra: int) -> str:
    """An RC ladder of `cells` capacitors as a tool writes it, with `extra` trivial equations a cell.

    C der(v_k) = (v_{k-1} - v_k) / R - (v_k - v_{k+1}) / R with v_0 = 1 and nothing behind the last.
    """
    lines = ['model Ladder "RC ladder"', "  parameter Real R = 1.0;", "  parameter Real C = 0.5;"]
    equations = []
    for k in range(1, cells + 1):
        lines += [f"  Real v{k}(start = 0, fixed = true);", f"  Real w{k}_0;"]
        equations.append(f"  w{k}_0 = v{k};")
        for i in range(1, extra):
            lines.append(f"  Real w{k}_{i};")
            sign = "-" if i % 2 else ""
            equations.append(f"  w{k}_{i} = {sign}w{k}_{i - 1};")
        last = f"w{k}_{extra - 1}" if extra % 2 else f"(-w{k}_{extra - 1})"
        before = "1" if k == 1 else f"v{k - 1}"
        after = f" - ({last} - v{k + 1}) / R" if k < cells else ""
        equations.append(f"  C * der(v{k}) = ({before} - {last}) / R{after};")
    text = [*lines, "equation", *equations, "  annotation(experiment(StopTime = 1.0));", "end Ladder;"]
    return "\n".join(text) + "\n"


def exact_ladder(cells: int, t: float) -> np.ndarray:
    """Voltages at time t, by the eigenvectors of the matrix of second differences."""
    matrix = np.zeros((cells, cells))
    for k in range(cells):
        matrix[k, k] = -2.0 if k < cells - 1 else -1.0
        if k:
            matrix[k, k - 1] = matrix[k - 1, k] = 1.0
    values, vectors = np.linalg.eigh(matrix / 0.5)
    forcing = np.zeros(cells)
    forcing[0] = 2.0
    return vectors @ ((np.exp(values * t) - 1.0) / values * (vectors.T @ forcing))


def test_a_thousand_trivial_equations(tmp_path):
    path = tmp_path / "ladder.mo"
    path.write_text(ladder(100, 10))
    began = process_time()
    solution = ds.solve(str(path), simplify=True, rtol=1e-8)
    assert process_time() - began < 10.0
    assert solution.success
    exact = exact_ladder(100, 1.0)
    found = np.array([solution.values(f"v{k}")[-1] for k in range(1, 101)])
    assert np.abs(found - exact).max() < 1e-7
    removed = np.array([solution.values(f"w{k}_9")[-1] for k in range(1, 101)])
    assert np.abs(removed + exact).max() < 1e-7


def test_from_the_command_line(tmp_path):
    path = tmp_path / "ladder.mo"
    path.write_text(ladder(100, 10))
    command = [sys.executable, "-m", "dae_sdc", "solve", str(path), "--rtol", "1e-6"]
    began = perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert perf_counter() - began < 15.0


# --- broken files ---------------------------------------------------------------------------------------


@contextmanager
def limited(seconds: int):
    def stop(*_):
        raise TimeoutError(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def mutated(text: str, seed: int) -> str:
    """The text with one to three small things broken."""
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 3)):
        lines = text.split("\n")
        at = chance.randrange(len(lines))
        place = chance.randrange(max(len(text), 1))
        way = chance.randrange(9)
        if way == 0:  # a character is lost
            text = text[:place] + text[place + 1 :]
        elif way == 1:  # a character too many
            text = text[:place] + chance.choice("();=+-*/^.,'\"[]{}aZ0 \n") + text[place:]
        elif way == 2:  # a line is lost
            text = "\n".join(lines[:at] + lines[at + 1 :])
        elif way == 3:  # a line twice
            text = "\n".join(lines[: at + 1] + lines[at:])
        elif way == 4:  # two lines change places
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            text = "\n".join(lines)
        elif way == 5:  # the end is lost
            text = text[:place]
        elif way == 6:  # another sign
            signs = [("+", "-"), ("-", "+"), ("=", "=="), ("*", "/"), ("(", "")]
            text = text.replace(*chance.choice(signs), 1)
        elif way == 7:  # another word
            words = ["der", "sin", "cos", "parameter", "Real", "equation", "start", "end"]
            text = text.replace(chance.choice(words), chance.choice([*words, "when", "foo", "0"]), 1)
        else:  # another number
            text = text.replace(chance.choice("0123456789"), chance.choice("0123456789e."), 1)
    return text


@pytest.mark.parametrize("number", range(MUTATIONS))
def test_broken_files_say_so_in_one_line(number, tmp_path):
    path = tmp_path / "broken.mo"
    source = FILES[number % len(FILES)]
    path.write_text(mutated(source.read_text(encoding="utf-8"), number), encoding="utf-8")
    try:
        with limited(PATIENCE):
            model = ds.read_modelica(path)
            found = ds.simplify(model)
            ds.structure(found.model)
            ds.initial(found.model, restarts=0)
    except ds.DAEError as error:
        message = str(error)
        assert message.strip() and "\n" not in message and len(message) < 1000
