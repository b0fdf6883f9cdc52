"""The floors of the package: who may import whom, proved from the syntax trees of all files.

``python tests/test_layers.py`` renews the table of imports between rooms in docs/architecture.md.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers.trees import syntax_trees

import dae_sdc
import dae_sdc as ds

PACKAGE = Path(dae_sdc.__file__).parent

PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"
ROW = re.compile(r"^\| (\d+) \| ((?:`\w+`(?:, )?)+) \| (.+) \|$", re.MULTILINE)
TABLE = ROW.findall(PAGE.read_text(encoding="utf-8"))

FLOORS = {room: int(floor) for floor, rooms, _ in TABLE for room in re.findall(r"\w+", rooms)}
"""A room imports from itself and from rooms on lower floors; the front door, ``__init__``, is above all."""

ONE_ROOM = {room: "ground" for room, floor in FLOORS.items() if floor == 0}
"""Files that may import each other as if they were in one room."""

AT_THE_DOOR = {"dae_sdc.imports"}
"""What the front door opens for, because it must be there before pySDC or another module is imported."""

# Calls at the top of a module that would do something when it is imported.
ACTS = {"print", "open", "write_text", "write_bytes", "mkdir", "save", "savez", "savez_compressed", "savetxt"}


class Import(NamedTuple):
    line: int
    target: str
    name: str | None
    at_import: bool


def module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def read_package(package: Path) -> dict[str, ast.Module]:
    """Syntax trees of all modules of a package; a package is read once."""
    package = package.resolve()
    return {module_name(path, package): tree for path, tree in syntax_trees(package).items()}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).removeprefix("typing.") == "TYPE_CHECKING"


def walk(node: ast.AST, at_import: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    """Every node below ``node``, and whether it is carried out when the module is imported."""
    for child in ast.iter_child_nodes(node):
        yield child, at_import
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            body = child.body if isinstance(child.body, list) else [child.body]
            for part in ast.iter_child_nodes(child):
                yield part, at_import and part not in body
                yield from walk(part, at_import and part not in body)
        elif is_type_checking(child):
            yield from walk(child, False)
        else:
            yield from walk(child, at_import)


@cache
def nodes(tree: ast.Module) -> list[tuple[ast.AST, bool]]:
    """What ``walk`` finds that any check asks about."""
    asked = ast.Import | ast.ImportFrom | ast.Call
    return [(node, at_import) for node, at_import in walk(tree) if isinstance(node, asked)]


def called(call: ast.Call) -> str:
    """The last name of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def imports(name: str, tree: ast.Module, is_package: bool) -> Iterator[Import]:
    for node, at_import in nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, None, at_import)
        elif isinstance(node, ast.ImportFrom):
            target = node.module or ""
            if node.level:
                above = name.split(".")[
                    : None if is_package and node.level == 1 else -node.level + is_package
                ]
                target = ".".join([*above, *([target] if target else [])])
            for alias in node.names:
                yield Import(node.lineno, target, alias.name, at_import)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            if called(node) in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield Import(node.lineno, node.args[0].value, None, at_import)


def room(name: str, package: str) -> str:
    return name.removeprefix(package).lstrip(".").partition(".")[0] or "__init__"


def edges(trees: dict[str, ast.Module], package: Path) -> Iterator[tuple[str, str, Import]]:
    """Pairs of a module and a module of the package that it imports."""
    for name, tree in trees.items():
        is_package = (package.parent / Path(*name.split(".")) / "__init__.py").exists()
        for found in imports(name, tree, is_package):
            if found.target.partition(".")[0] != package.name:
                continue
            inner = f"{found.target}.{found.name}"
            yield name, inner if inner in trees else found.target, found


def wrong_floors(package: Path) -> list[str]:
    trees = read_package(package)
    rooms = {room(name, package.name) for name in trees}
    wrong = [f"the room {name} has no floor; add it to FLOORS" for name in sorted(rooms - FLOORS.keys())]
    for name, target, found in edges(trees, package):
        if target == package.name and found.name == "__version__":
            continue  # defined in the front door itself, which opens nothing for it
        source, goal = room(name, package.name), room(target, package.name)
        if source not in FLOORS or goal not in FLOORS:
            continue
        if ONE_ROOM.get(source, source) == ONE_ROOM.get(goal, goal) or FLOORS[source] > FLOORS[goal]:
            continue
        wrong.append(f"{name}:{found.line} imports {target}, from floor {FLOORS[source]} to {FLOORS[goal]}")
    return wrong


def table_of_imports(package: Path) -> str:
    """A table of the rooms, the upper floors first, and the rooms that each imports from."""
    found: dict[str, set[str]] = {name: set() for name in FLOORS}
    for name, target, _ in edges(read_package(package), package):
        source, goal = room(name, package.name), room(target, package.name)
        if source != goal and FLOORS[goal]:
            found[source].add(goal)
    order = sorted(FLOORS, key=lambda name: (-FLOORS[name], name))
    rows = [
        f"| `{name}` | {FLOORS[name]} | {', '.join(f'`{goal}`' for goal in order if goal in found[name])} |"
        for name in order
        if FLOORS[name] and name != "__init__"
    ]
    return "\n".join(["| room | floor | imports from |", "|---|---|---|", *rows])


def eager_front_door(package: Path) -> list[str]:
    trees = read_package(package)
    return [
        f"{name}:{found.line} imports {target} when the package is imported"
        for name, target, found in edges(trees, package)
        if name == package.name and found.at_import and target not in AT_THE_DOOR
    ]


def circles(package: Path) -> list[str]:
    """Circles among the modules, imports inside functions included; the lazy front door is left out."""
    trees = read_package(package)
    graph: dict[str, list[str]] = {name: [] for name in trees}
    for name, target, _ in edges(trees, package):
        if name != package.name and target != package.name and target in graph:
            graph[name].append(target)
    done: set[str] = set()
    found: list[str] = []

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            found.append(" -> ".join([*path[path.index(name) :], name]))
        elif name not in done:
            for target in graph[name]:
                visit(target, [*path, name])
            done.add(name)

    for name in graph:
        visit(name, [])
    return found


def heavy_imports(package: Path) -> list[str]:
    """Imports at module level of what must load only when it is used."""
    heavy = []
    for name, tree in read_package(package).items():
        for found in imports(name, tree, False):
            if not found.at_import:
                continue
            full = f"{found.target}.{found.name}" if found.name else found.target
            top = full.partition(".")[0]
            pyplot = full.startswith("matplotlib.pyplot") or full.startswith("pylab")
            picture = top == "matplotlib" and room(name, package.name) != "plotting"
            if top == "mpi4py" or pyplot or picture:
                heavy.append(f"{name}:{found.line} imports {full} at module level")
    return heavy


def acts_at_import(package: Path) -> list[str]:
    return [
        f"{name}:{node.lineno} calls {ast.unparse(node.func)} when it is imported"
        for name, tree in read_package(package).items()
        for node, at_import in nodes(tree)
        if at_import and isinstance(node, ast.Call) and called(node) in ACTS
    ]


def imports_of_benchmarks(package: Path) -> list[str]:
    """Imports of what stands beside the house and looks in, which no wheel has."""
    return [
        f"{name}:{found.line} imports {found.target}"
        for name, tree in read_package(package).items()
        for found in imports(name, tree, False)
        if found.target.partition(".")[0] == "benchmarks"
    ]


CHECKS = [wrong_floors, eager_front_door, circles, heavy_imports, acts_at_import, imports_of_benchmarks]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_package_keeps_the_rules(check: object) -> None:
    assert callable(check)
    assert check(PACKAGE) == []


@pytest.mark.parametrize(
    ("rooms", "sentence"), [(rooms, sentence) for floor, rooms, sentence in TABLE if int(floor)]
)
def test_the_table_of_rooms_says_what_the_rooms_say(rooms: str, sentence: str) -> None:
    room = rooms.strip("`")
    path = PACKAGE / room / "__init__.py" if (PACKAGE / room).is_dir() else PACKAGE / f"{room}.py"
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring is not None
    assert docstring.splitlines()[0] == sentence


def test_the_table_of_imports_is_that_of_the_files() -> None:
    assert table_of_imports(PACKAGE) in PAGE.read_text(encoding="utf-8"), "run python tests/test_layers.py"


NAMED = re.findall(r"`((?:\w+\.){2,}\w+)`", PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(set(NAMED)))
def test_what_the_page_names_exists(name: str) -> None:
    room, module, *attributes = name.split(".")
    found: object = importlib.import_module(f"dae_sdc.{room}.{module}")
    for attribute in attributes:
        found = getattr(found, attribute)


WAY_OF_A_RUN = re.findall(
    r"^\| [a-z ]+ \| `(run\.[\w.]+)` \|",
    PAGE.read_text(encoding="utf-8").partition("## The way of a run")[2].partition("\n## ")[0],
    flags=re.MULTILINE,
)


def test_a_run_walks_the_stages_of_the_page_in_their_order() -> None:
    walked: list[str] = []

    def watch(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        name = f"{frame.f_globals.get('__name__', '')}.{code.co_qualname}".removeprefix("dae_sdc.")
        if event == "return" and name in WAY_OF_A_RUN and name not in walked:
            walked.append(name)

    sys.setprofile(watch)
    try:
        ds.solve("simple", rtol=1e-4, t_end=0.1037)  # which no other test has run
    finally:
        sys.setprofile(None)
    assert len(WAY_OF_A_RUN) >= 7
    assert walked == WAY_OF_A_RUN


BUDGETS = {
    "run": 12_999,
    "sweepers": 10_723,
    "problems": 6_765,
    "dae": 8_052,
    "initial": 5_356,
    "model": 5_986,
    "control": 5_191,
    "constrained": 3_661,
    "structure": 3_240,
    "modelica": 5_324,
    "plotting": 2_854,
    "polynomials": 3_495,
    "files beside the rooms": 3_486,
    "reduction": 2_653,
    "expressions": 2_027,
    "linear": 1_778,
    "compiled": 1_387,
    "jets": 529,
    "frames": 811,
}
"""Most lines that the files of a room may have: a budget is lowered with every move that takes lines out."""


def lines_of_rooms() -> dict[str, int]:
    lines = dict.fromkeys(BUDGETS, 0)
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        room = room if (PACKAGE / room).is_dir() else "files beside the rooms"
        lines[room] = lines.get(room, 0) + path.read_text(encoding="utf-8").count("\n")
    return lines


@pytest.mark.parametrize("room", sorted(lines_of_rooms()))
def test_a_room_keeps_to_its_budget_of_lines(room: str) -> None:
    assert lines_of_rooms()[room] <= BUDGETS[room], "a feature pays with what it replaces"


LINES_OF_BENCHMARKS = 16_890
"""Most lines that the benchmarks and their tests may have; lowered as those of rooms are."""


def test_benchmarks_keep_to_their_budget_of_lines(checkout: Path) -> None:
    paths = (checkout / "benchmarks").rglob("*.py")
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in paths)
    assert lines <= LINES_OF_BENCHMARKS, "a study pays with what it replaces"


REFERENCE = {"Parameters", "Returns", "Raises", "Yields", "Attributes"}


def of_users(node: ast.AST) -> bool:
    """Whether ``info`` or the options show what a registered class or function says of itself."""
    decorators = getattr(node, "decorator_list", [])
    return "{options}" in (ast.get_docstring(node) or "") or any(
        "register" in ast.unparse(one) or "problem(" in ast.unparse(one) for one in decorators
    )


def referenced(tree: ast.AST, public: bool = False) -> Iterator[str]:
    """Names of internal classes and functions that are documented as the API reference is."""
    for node in ast.iter_child_nodes(tree):
        shown = public
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            own = public and (not node.name.startswith("_") or node.name.startswith("__"))
            shown = own or node.name in dae_sdc.__all__ or of_users(node)
            titles = {line for line in (ast.get_docstring(node) or "").splitlines() if line in REFERENCE}
            if titles and not shown:
                yield f"{node.name}: {', '.join(sorted(titles))}"
        yield from referenced(node, shown)


def test_only_what_the_reference_lists_is_documented_as_a_reference() -> None:
    modules = {name: tree for name, tree in read_package(PACKAGE).items() if ".problems" not in name}
    as_reference = {name: found for name, tree in modules.items() if (found := list(referenced(tree)))}
    assert as_reference == {}, "say what it is in a sentence"


def test_nothing_of_benchmarks_is_documented_as_a_reference(checkout: Path) -> None:
    modules = read_package(checkout / "benchmarks")
    as_reference = {name: found for name, tree in modules.items() if (found := list(referenced(tree)))}
    assert as_reference == {}, "say what it is in a sentence"


def test_every_file_is_read() -> None:
    assert {"dae_sdc", "dae_sdc.errors", "dae_sdc.dae.problem"} <= set(read_package(PACKAGE))


BAD = [
    (
        wrong_floors,
        {"sweepers/a.py": "def f():\n    from dae_sdc.run.solve import solve\n"},
        "from floor 3 to 9",
    ),
    (wrong_floors, {"sweepers/a.py": "import dae_sdc.model\n"}, "from floor 3 to 3"),
    (
        wrong_floors,
        {"run/a.py": "import importlib as i\ni.import_module('dae_sdc.plotting')\n"},
        "9 to 10",
    ),
    (
        wrong_floors,
        {"dae/a.py": "from ..control import hooks\n", "control/hooks.py": ""},
        "dae_sdc.control.hooks",
    ),
    (wrong_floors, {"run/a.py": "from dae_sdc import solve\n"}, "from floor 9 to 12"),
    (wrong_floors, {"cellar/a.py": ""}, "has no floor"),
    (eager_front_door, {"__init__.py": "from dae_sdc.errors import InputError\n"}, "dae_sdc:1"),
    (
        circles,
        {"dae/a.py": "from . import b\n", "dae/b.py": "def f():\n    import dae_sdc.dae.a\n"},
        "dae_sdc.dae.a",
    ),
    (
        heavy_imports,
        {"sweepers/a.py": "try:\n    from mpi4py import MPI\nexcept ImportError:\n    pass\n"},
        "mpi4py",
    ),
    (heavy_imports, {"plotting/a.py": "import matplotlib.pyplot as plt\n"}, "pyplot"),
    (heavy_imports, {"run/a.py": "from matplotlib.figure import Figure\n"}, "matplotlib.figure"),
    (
        imports_of_benchmarks,
        {"run/a.py": "def f():\n    from benchmarks.study import STUDIES\n"},
        "run.a:2 imports benchmarks.study",
    ),
    (acts_at_import, {"run/a.py": "class A:\n    print(1)\n"}, "print"),
    (acts_at_import, {"run/a.py": "def f(x=open('x')):\n    pass\n"}, "open"),
]


@pytest.mark.parametrize(("check", "files", "message"), BAD)
def test_a_broken_rule_is_found(check: object, files: dict[str, str], message: str, tmp_path: Path) -> None:
    package = tmp_path / "dae_sdc"
    for name, text in {"__init__.py": "", "errors.py": "", **files}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")
    assert callable(check)
    found = check(package)
    assert len(found) == 1
    assert message in found[0]


def test_what_is_allowed_is_not_reported(tmp_path: Path) -> None:
    package = tmp_path / "dae_sdc"
    for name, text in {
        "__init__.py": "def __getattr__(name):\n    from dae_sdc.run import solve\n    return solve\n",
        "errors.py": "",
        "registry.py": "from dae_sdc.errors import InputError\n",
        "run/__init__.py": "from dae_sdc.run.solve import solve\n",
        "run/solve.py": "from dae_sdc import __version__\nfrom . import results\n"
        "def solve():\n    print(1)\n    import mpi4py\n    import matplotlib.pyplot\n",
        "run/results.py": "from dae_sdc.errors import InputError\n",
        "plotting/__init__.py": "",
        "plotting/a.py": "from matplotlib.figure import Figure\nfrom dae_sdc.run.results import load\n",
    }.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert [found for check in CHECKS for found in check(package)] == []


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    old = re.search(r"\| room \| floor \| imports from \|\n(\|.*\n)+", text)
    assert old is not None, f"there is no table of imports in {PAGE}"
    PAGE.write_text(text.replace(old[0], table_of_imports(PACKAGE) + "\n"), encoding="utf-8")
