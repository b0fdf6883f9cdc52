"""From a file of a modelling tool to a solution: sizes, times, and broken files."""

import random
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from helpers.timing import within

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.problems._models import DIRECTORY

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
    solution = within(10.0, lambda: ds.solve(str(path), simplify=True, rtol=1e-8))
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
    done = within(15.0, lambda: subprocess.run(command, capture_output=True, text=True, timeout=300))
    assert done.returncode == 0, done.stderr


DECAY = """
connector Pin Real v; flow Real i; end Pin;
model Resistor Pin p, n; parameter Real R = 1; equation p.v - n.v = R*p.i; p.i + n.i = 0; end Resistor;
model Capacitor Pin p, n; parameter Real C = 1; Real v(start = 1, fixed = true);
equation v = p.v - n.v; p.i = C*der(v); p.i + n.i = 0; end Capacitor;
model Ground Pin p; equation p.v = 0; end Ground;
model Decay
  parameter Boolean slow = false;
  parameter Real R = 2;
  Resistor r(R = if slow then 10*R else R);
  Capacitor c(C = 0.5);
  Ground g;
equation
  connect(r.p, c.p); connect(r.n, c.n); connect(r.n, g.p);
end Decay;
"""


@pytest.mark.parametrize(
    ("given", "rate"),
    [("", 1.0), ("c.C=0.25", 2.0), ("R=4", 0.5), ("slow=true", 0.1), ("r.R=8", 0.25), ("slow=true R=1", 0.2)],
)
def test_parameters_of_components_on_the_command_line(given, rate, tmp_path, capsys):
    """v = exp(-t / (R C)); what depends on a parameter follows it."""
    path, found = tmp_path / "decay.mo", tmp_path / "found.npy"
    path.write_text(DECAY)
    pairs = [word for pair in given.split() for word in ("--params", pair)]
    assert main(["solve", str(path), "--rtol", "1e-9", "--out", str(found), *pairs]) == 0, (
        capsys.readouterr().err
    )
    assert abs(ds.Solution.load(found).values("c.v")[-1] - np.exp(-rate)) < 1e-7


@pytest.mark.parametrize("command", ["solve", "simplify", "structure", "reduce", "initial"])
@pytest.mark.parametrize(
    ("target", "given", "words"),
    [
        ("decay.mo", "c.R=1", "no parameter c.R; did you mean r.R?"),
        ("decay.mo", "c.C=big", "parameter c.C must be a number; got 'big'"),
        ("decay.mo", "=1", "takes NAME=VALUE"),
        ("decay.mo", "c.C", "takes NAME=VALUE"),
        ("decay.mo:Decays", "c.C=1", "no model Decays; did you mean Decay?"),
        ("none.mo", "c.C=1", "none.mo cannot be read: No such file"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_one_line(
    command, target, given, words, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "decay.mo").write_text(DECAY)
    assert main([command, target, "--params", given]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_the_report_of_a_run_tells_how_many_unknowns_were_removed(tmp_path, capsys):
    path = tmp_path / "m.mo"
    for more, words in ((0, ""), (1, "and 1 eliminated unknown,"), (2, "and 2 eliminated unknowns,")):
        text = "".join(f" Real y{k} = {k + 2}*x;" for k in range(more))
        path.write_text(f"model M Real x(start=1, fixed=true);{text} equation der(x) = -x; end M;")
        assert main(["solve", str(path), "--rtol", "1e-6"]) == 0
        said = capsys.readouterr().out
        assert words in said and (more > 0) == ("eliminated" in said)


def test_a_file_of_python_is_run_once_a_call(tmp_path, capsys):
    path = tmp_path / "tank.py"
    path.write_text(
        "import dae_sdc as ds\nprint('run')\nmodel = ds.Model('tank')\nx = model.variable('x', start=1.0)\n"
        "k = model.parameter('k', 1.0)\nmodel.equation(model.der(x) + k * x)\n"
    )
    for number, verb in enumerate((ds.structure, ds.reduce, ds.trace), start=1):
        verb(str(path), params={"k": float(number)})
        assert capsys.readouterr().out.count("run") == 1
    assert ds.trace(str(path)).parameters_by_name["k"].value == 1.0


def test_a_parameter_of_a_model_that_is_no_number_is_refused():
    with pytest.raises(ds.InputError, match="l of Pendulum2D must be positive and finite; got 'big'"):
        ds.structure("pendulum", params={"l": "big"})


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
