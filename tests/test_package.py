"""The package as it is installed, and the files around it."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.resources
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from helpers.trees import statements, syntax_trees

import dae_sdc

PACKAGE = Path(dae_sdc.__file__).parent
LINKS = ("problems", "sweepers", "run", "plotting")


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def citation(root: Path) -> dict[str, str]:
    lines = (root / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if re.match(r"[a-z-]+: \S", line))


def project_files(root: Path) -> list[Path]:
    """Files under version control, and new ones that are not ignored."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout, so nothing tells project files from others")
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


def test_the_tests_run_on_the_installed_package() -> None:
    site = Path(sysconfig.get_paths()["purelib"])
    importable = [entry for entry in sys.path if (Path(entry) / "dae_sdc" / "__init__.py").exists()]
    if os.environ.get("DAE_SDC_INSTALLED") == "1":
        assert PACKAGE == site / "dae_sdc"
        assert importable == [str(site)]
    else:
        assert PACKAGE.parent in (site, Path(__file__).resolve().parents[1])


def test_everything_in_the_front_door_resolves() -> None:
    for name in dae_sdc._HOME:
        value = getattr(dae_sdc, name)
        assert not isinstance(value, type(sys)), f"dae_sdc.{name} is a module"
    assert set(dae_sdc.__all__) <= set(dir(dae_sdc))


def test_the_front_door_tells_type_checkers_the_same_as_the_interpreter() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    blocks = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    told = {
        alias.asname: node.module
        for block in blocks
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == dae_sdc._HOME


def test_every_problem_class_can_be_taken_from_the_front_door() -> None:
    problems = importlib.import_module("dae_sdc.problems")
    names = dir(problems)
    assert names
    for name in names:
        assert getattr(dae_sdc, name) is getattr(problems, name)


def test_rooms_can_be_taken_from_the_front_door() -> None:
    assert dae_sdc.problems is importlib.import_module("dae_sdc.problems")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'dae_sdc' has no attribute 'NoSuchThing'"):
        _ = dae_sdc.NoSuchThing
    with pytest.raises(ImportError, match="cannot import name 'NoSuchThing'"):
        from dae_sdc import NoSuchThing  # noqa: F401


def test_one_version_everywhere(root: Path, project: dict[str, Any]) -> None:
    version = project["project"]["version"]
    assert importlib.metadata.version("dae_sdc") == version
    assert dae_sdc.__version__ == version
    assert citation(root)["version"] == version
    newest = re.search(r"^## \[([^]]+)\]", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == version


def test_one_licence_and_one_author_everywhere(root: Path, project: dict[str, Any]) -> None:
    text = (root / "LICENSE").read_text(encoding="utf-8")
    authors = project["project"]["authors"][0]["name"]
    assert project["project"]["license"] == citation(root)["license"] == "BSD-2-Clause"
    assert text.startswith("BSD 2-Clause License")
    assert re.search(rf"^Copyright \(c\) \d{{4}}, {re.escape(authors)}$", text, re.MULTILINE)
    assert f'- name: "{authors}"' in (root / "CITATION.cff").read_text(encoding="utf-8")
    assert citation(root)["title"] == project["project"]["name"]
    metadata = importlib.metadata.metadata("dae_sdc")
    assert metadata["License-Expression"] == "BSD-2-Clause"


def test_the_command_is_installed() -> None:
    entry = importlib.metadata.entry_points(group="console_scripts")["dae-sdc"]
    assert entry.value == "dae_sdc.cli:main"
    done = subprocess.run(["dae-sdc", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"dae-sdc {dae_sdc.__version__}\n"


def test_package_data_are_there() -> None:
    files = importlib.resources.files("dae_sdc")
    assert files.joinpath("py.typed").is_file()
    assert [entry.name for entry in files.joinpath("problems", "data").iterdir()]


def test_every_data_file_is_declared_as_package_data(checkout: Path, project: dict[str, Any]) -> None:
    declared = [
        f"{package.replace('.', '/')}/{pattern}"
        for package, patterns in project["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
    ]
    found = [str(path.relative_to(checkout)) for path in project_files(checkout) if PACKAGE in path.parents]
    data = [name for name in found if not name.endswith(".py")]
    assert [name for name in data if not any(fnmatch(name, pattern) for pattern in declared)] == []
    assert [pattern for pattern in declared if not any(fnmatch(name, pattern) for name in data)] == []


def test_every_package_directory_has_an_init_file() -> None:
    directories = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [str(directory) for directory in directories if not (directory / "__init__.py").exists()] == []


def test_what_is_imported_is_declared_and_what_is_declared_is_imported(project: dict[str, Any]) -> None:
    imported = set()
    for tree in syntax_trees(PACKAGE).values():
        for node in statements(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    imported -= {"dae_sdc", *sys.stdlib_module_names}
    names = [re.match(r"[\w-]+", line) for line in project["project"]["dependencies"]]
    declared = {"PIL" if name[0] == "pillow" else name[0] for name in names if name}
    assert imported - {"mpi4py", "flint", "pythonfmu3"} == declared
    assert "mpi4py" in project["project"]["optional-dependencies"]["mpi"]


def test_the_links_at_the_root_lead_into_the_package(checkout: Path) -> None:
    for name in LINKS:
        assert os.readlink(checkout / name) == f"dae_sdc/{name}"
    tracked = subprocess.run(
        ["git", "-C", str(checkout), "ls-files", "--stage", *LINKS],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    for line in tracked.splitlines():
        assert line.startswith("120000 "), f"tracked as something other than a link: {line}"


# Put together here, so that this file does not contain what it forbids.
REGISTRIES = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("anaconda", "org"))]
INDEX_OPTIONS = [
    "-".join(parts) for parts in (("--index", "url"), ("--extra-index", "url"), ("--find", "links"))
]
# "me" and "user" stand for anyone.
MACHINE_PATH = re.compile(r"(?<![\w.~$}/:*-])/(?!home/(?:me|user)/)(?:home|root|Users|tmp|work|opt|mnt)/\w")


def test_no_result_of_a_run_is_tracked(checkout: Path) -> None:
    data = {checkout / "dae_sdc" / "problems" / "data", checkout / "docs" / "images"}
    forms = {".npy", ".npz", ".csv", ".png", ".gif", ".mp4", ".svg", ".pdf", ".tmp"}
    results = [path for path in project_files(checkout) if path.suffix in forms]
    assert [path for path in results if path.parent not in data] == []


def test_no_file_names_a_package_registry_or_a_path_of_one_machine(checkout: Path) -> None:
    found = []
    for path in project_files(checkout):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if any(word in line for word in [*REGISTRIES, *INDEX_OPTIONS]) or MACHINE_PATH.search(line):
                found.append(f"{path.relative_to(checkout)}:{number}: {line.strip()}")
    assert found == []


@pytest.mark.parametrize("where", ["see {}", "('{}')", "cd {}"])
def test_a_path_of_one_machine_would_be_found(where: str) -> None:
    assert MACHINE_PATH.search(where.format("/".join(["", "home", "someone"])))
    assert not MACHINE_PATH.search(where.format("either/home/or"))
