"""What an addition costs: a problem, a method, a study and a picture are one file each."""

from __future__ import annotations

import importlib.util
import json
import os
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

import numpy as np

from dae_sdc.run.results import Result


def count_up(to, out=None):
    """Count from 1 to a number."""
    data = np.array([(k, 1.0 / k) for k in range(1, to + 1)], dtype=[("number", "i8"), ("share", "f8")])
    result = Result("count", data, {"share": "1"}, {"to": to})
    if out is not None:
        result.save(out)
    return result


def add_arguments(parser):
    parser.add_argument("--to", type=int, default=2)
    parser.add_argument("--out")


def main(args):
    print(f"counted to {len(count_up(args.to, args.out).data)}")
    return 0
'''

PICTURE = '''
"""Draw what has been counted.

Example: dae-sdc draw-count count.npy
"""


def add_arguments(parser):
    parser.add_argument("file")


def main(args):
    from matplotlib.figure import Figure

    from dae_sdc.plotting.style import styled
    from dae_sdc.run.results import load

    result = load(args.file)
    with styled():
        figure = Figure()
        figure.add_subplot().plot(result.data["number"], result.data["share"])
        figure.savefig("count.png")
    return 0
'''


@pytest.fixture
def imported(tmp_path: Path) -> Iterator[Import]:
    """Imports the text of a file from outside of the package; registries forget it afterwards."""
    registries = [
        value
        for name, module in list(sys.modules.items())
        if name.startswith("dae_sdc")
        for value in vars(module).values()
        if isinstance(value, Registry)
    ]
    kept = [(registry, dict(registry.items())) for registry in registries]

    def from_file(text: str, name: str) -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    yield from_file
    for registry, entries in kept:
        registry._entries = entries
    for name in ("own_problem", "own_method"):
        sys.modules.pop(name, None)


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


def test_a_verb_a_study_and_a_picture_are_one_file_each(tmp_path: Path) -> None:
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
verbs = cli.find_verbs()
assert verbs["count-up"].summary == "Count to a number and say how long it took.", verbs["count-up"]
for words in ("count-up --to 4 --out count.npy", "draw-count count.npy"):
    assert cli.main(words.split()) == 0
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "counted to 4\n", "")
    assert ds.load(tmp_path / "count.npy").data["number"].tolist() == [1, 2, 3, 4]
    assert json.loads((tmp_path / "count.json").read_text(encoding="utf-8"))["parameters"] == {"to": 4}
    assert (tmp_path / "count.png").read_bytes().startswith(b"\x89PNG")
