"""What an addition costs: one file each for a problem, a method, a study with options, a picture, a peer."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import dae_sdc as ds
from dae_sdc.registry import Registry
from dae_sdc.run.list import list as names_of

PACKAGE = Path(ds.__file__).parent

Import = Callable[[str, str], ModuleType]

PROBLEM = '''
"""A problem of a user."""

import dae_sdc as ds


@ds.PROBLEMS.register("cooling")
class Cooling(ds.ProblemDAE):
    """A body cools: T' + q = 0, q = k T."""

    title = "a body that cools"
    index = 1
    names = ("T", "q")
    interval = (0.0, 1.0)
    dt = 0.1

    def __init__(self, k=2.0, **settings):
        super().__init__(1, 1, **settings)
        self.k = k

    def eval_f(self, u, du, t):
        return [du[0] + u[1], u[1] - self.k * u[0]]

    def u_exact(self, t):
        from math import exp

        return [exp(-self.k * t), self.k * exp(-self.k * t)]
'''

TABLEAU = '''
"""A method of a user: R. Alexander, Diagonally implicit Runge-Kutta methods for stiff ODEs, 1977."""

from dae_sdc.sweepers.runge_kutta import runge_kutta
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.sweepers.tableaux import Tableau

gamma = 1.0 - 0.5**0.5
method = Tableau(
    name="sdirk2",
    class_name="SDIRK2DAE",
    A=[[gamma, 0.0], [1.0 - gamma, gamma]],
    b=[1.0 - gamma, gamma],
    c=[gamma, 1.0],
    order=2,
    orders={1: (2, 2), 2: (2, 1), 3: (None, None, None)},
    reference="Alexander (1977)",
)
SWEEPERS.add(method.name, runge_kutta(method))
'''

STUDY = '''
"""Count to a number and say how long it took.

Example: dae-sdc count-up --to 3 --out count.npy
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dae_sdc.options import Output, count, option, takes
from dae_sdc.run.results import Result
from dae_sdc.run.study import verb


@dataclass(frozen=True, kw_only=True)
class CountOptions(Output):
    to: int = option(2, "number to which is counted (2)", "There is no 0.", check=count(1000))


@takes(CountOptions)
def count_up(given: CountOptions) -> Result:
    """Count from 1 to a number.

    {options}
    """
    numbers = [(k, 1.0 / k) for k in range(1, given.to + 1)]
    data = np.array(numbers, dtype=[("number", "i8"), ("share", "f8")])
    result = Result("count", data, {"share": "1"}, {"to": given.to, "failures": []})
    if given.out is not None:
        result.save(given.out)
    return result


def summary(result):
    return f"counted to {len(result.data)}"


add_arguments, main = verb(count_up, summary)
'''

PICTURE = '''
"""Draw what has been counted.

Example: dae-sdc draw-count count.npy
Plot: shares of count, a share for each number
"""


def add_arguments(parser):
    parser.add_argument("file")


def shares(result):
    from dae_sdc.plotting.style import figure

    made = figure(4.0, 3.0)
    made.add_subplot().plot(result.data["number"], result.data["share"])
    return made


def main(args):
    from dae_sdc.plotting.style import styled
    from dae_sdc.run.results import load

    with styled():
        shares(load(args.file)).savefig("count.png")
    return 0
'''

PEER = '''
"""A solver of a user, which knows the solution."""

from benchmarks.measuring.races import Outcome
from benchmarks.studies.peers.solvers import PEERS


class Oracle:
    name = "oracle"
    module = package = "numpy"
    like = True

    def settings(self, case):
        return "no questions"

    def run(self, case, rtol, atol, count):
        return Outcome(1e-3, case.problem.state(case.problem.u_exact(case.t_end)))


PEERS.add("oracle", Oracle())
'''


@pytest.fixture
def imported(tmp_path: Path) -> Iterator[Import]:
    """Imports the text of a file from outside of the package; registries forget it afterwards."""
    registries = [
        value
        for name, module in list(sys.modules.items())
        if name.startswith(("dae_sdc", "benchmarks"))
        for value in vars(module).values()
        if isinstance(value, Registry)
    ]
    kept = [(registry, dict(registry.items())) for registry in registries]
    names = []

    def from_file(text: str, name: str) -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        names.append(name)
        spec.loader.exec_module(module)
        return module

    yield from_file
    for registry, entries in kept:
        registry._entries = entries
    for name in names:
        sys.modules.pop(name)


def test_a_problem_is_one_file(imported: Import) -> None:
    imported(PROBLEM, "own_problem")
    done = ds.solve("cooling", rtol=1e-8)
    assert done.success and abs(done.values("T")[-1] - ds.PROBLEMS["cooling"]().u_exact(1.0)[0]) < 1e-7
    assert "a body that cools" in names_of("problems")["cooling"]
    assert "cooling" in ds.info("cooling")


def test_a_runge_kutta_method_is_one_file(imported: Import) -> None:
    imported(TABLEAU, "own_method")
    study = ds.convergence("hessenberg-1", sweeper="sdirk2", dt=[0.1, 0.05, 0.025, 0.0125])
    for group in ("differential", "algebraic"):
        rows = study.data[study.data["group"] == group]
        assert rows["expected"][0] == 2.0 and abs(rows["slope"][0] - 2.0) < 0.3
    assert "sdirk2" in names_of("sweepers")


def test_a_peer_is_one_file(imported: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("benchmarks")
    study = importlib.import_module("benchmarks.studies.peers.study")
    solvers = importlib.import_module("benchmarks.studies.peers.solvers")
    monkeypatch.setattr(solvers.PEERS, "_entries", dict(solvers.PEERS.items()))
    imported(PEER, "own_peer")
    monkeypatch.setattr(study, "missing", lambda peer: peer.name != "oracle")
    result = study.peers(problems=["simple"], rtols=[1e-3], sweepers=[], repetitions=1)
    rows = result.data[result.data["solver"] == "oracle"]
    assert len(rows) and (rows["error"] < 1e-12).all() and (rows["time"] == 1e-3).all()
    assert "oracle" in study.peers.report(result)


def test_a_verb_a_study_its_options_and_a_picture_are_one_file_each(tmp_path: Path) -> None:
    """In a package of links to the files of this one, and one file more in each of two rooms."""
    package = tmp_path / "tree" / "dae_sdc"
    package.mkdir(parents=True)
    for path in PACKAGE.iterdir():
        if path.name not in ("run", "plotting", "__pycache__"):
            (package / path.name).symlink_to(path)
    for room, text, name in (("run", STUDY, "count_up"), ("plotting", PICTURE, "draw_count")):
        (package / room).mkdir()
        for path in (PACKAGE / room).glob("*.py"):
            (package / room / path.name).symlink_to(path)
        (package / room / f"{name}.py").write_text(text.lstrip(), encoding="utf-8")
    code = """
from dae_sdc import cli
from dae_sdc.run import count_up
verbs = cli.find_verbs()
assert verbs["count-up"].summary == "Count to a number and say how long it took.", verbs["count-up"]
for words in ("count-up --to 4 --out count.npy", "draw-count count.npy", "plot shares count.npy -o s.png"):
    assert cli.main(words.split()) == 0
assert cli.main(["count-up", "--to", "0"]) == 2
assert "to : int, optional\\n        Number to which is counted (2). There is no 0." in count_up.__doc__
try:
    cli.main(["count-up", "--help"])
except SystemExit:
    pass
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = "dae-sdc: to must be an integer, at least 1; got 0\n"
    assert (done.returncode, done.stderr) == (0, told)
    first, written, picture, rest = done.stdout.split("\n", 3)
    assert (first, written, picture) == ("counted to 4", "written to count.npy", "s.png")
    assert re.search(r"^  --to TO +number to which is counted \(2\)$", rest, flags=re.MULTILINE)
    assert ds.load(tmp_path / "count.npy").data["number"].tolist() == [1, 2, 3, 4]
    about = json.loads((tmp_path / "count.json").read_text(encoding="utf-8"))
    assert about["parameters"] == {"to": 4, "failures": []}
    for name in ("count.png", "s.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
