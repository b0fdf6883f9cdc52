"""The documentation as a site: an order of reading, a page for every public name, a search that finds it."""

from __future__ import annotations

import ast
import doctest
import fnmatch
import inspect
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.trees import syntax_trees

import dae_sdc
from dae_sdc import cli
from dae_sdc.plotting.plot import PICTURES
from dae_sdc.registry import Registry

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
NAMES = sorted(name for name in dae_sdc.__all__ if not name.startswith("__"))
OF_THE_PACKAGE = [
    name
    for name in NAMES
    if not isinstance(getattr(dae_sdc, name), Registry)
    and getattr(dae_sdc, name).__module__.startswith("dae_sdc")
]


def entries_of_toctrees(page: str) -> list[str]:
    """The pages, or patterns of pages, that the tables of contents of a page name, in their order."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]


def test_every_page_has_one_place_in_the_order_of_reading() -> None:
    entries = [entry for page in PAGES for entry in entries_of_toctrees(page)]
    places = {page: [entry for entry in entries if fnmatch.fnmatch(page, entry)] for page in PAGES}
    wrong = {page: found for page, found in places.items() if len(found) != 1 and page != "index"}
    assert wrong == {}, "name each page once in a toctree of docs/index.md or of one of its chapters"
    missing = [entry for entry in entries if "*" not in entry and entry not in {*PAGES, "api/index"}]
    assert missing == []


@pytest.fixture
def reference_pages(checkout: Path) -> dict[str, Any]:
    return runpy.run_path(str(checkout / "tools" / "reference_pages.py"))


def test_every_public_name_has_a_page_in_the_reference(
    reference_pages: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "Gone.rst").write_text("the page of a name that is gone")
    reference_pages["write"](tmp_path)
    assert sorted(path.stem for path in tmp_path.glob("*.rst")) == sorted([*NAMES, "index"])
    contents = (tmp_path / "index.rst").read_text(encoding="utf-8")
    assert all(contents.count(f":doc:`{name} <{name}>`") == 1 for name in NAMES)


def section(text: str, title: str) -> str:
    """The section of a docstring under this title, empty where there is none."""
    found = re.search(
        rf"^{title}\n-{{{len(title)}}}\n(.*?)(?=^\w[\w ]*\n---|\Z)", text, re.MULTILINE | re.DOTALL
    )
    return found[1] if found else ""


@pytest.mark.parametrize("name", OF_THE_PACKAGE)
def test_docstrings_have_the_parameters_of_the_signature_and_what_is_returned(name: str) -> None:
    entry = getattr(dae_sdc, name)
    text = inspect.getdoc(entry) or ""
    assert re.match(r"\S.*[.:]", text.split("\n\n")[0].replace("\n", " ")), (
        "the first paragraph is a sentence"
    )
    own = not inspect.isclass(entry) or ("__init__" in vars(entry) and "\nMade by :func:" not in text)
    parameters = inspect.signature(entry).parameters.values() if own else ()
    wanted = {
        one.name
        for one in parameters
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        and one.name not in UNTOLD
        and not one.name.startswith("_")
    }
    described = section(text, "Parameters") + section(text, "Attributes")
    told = re.findall(r"^\*{0,2}(\w+(?:, \*{0,2}\w+)*)(?: :|$)", described, re.MULTILINE)
    assert wanted <= {one.strip("* ") for line in told for one in line.split(",")}
    if not inspect.isclass(entry):
        assert section(text, "Returns") or inspect.signature(entry).return_annotation in (None, "None")
        assert section(text, "Raises"), "arguments of the wrong type, at the least"


UNTOLD = {"params", "sweeper_params", "controller", "description", "prob", "level"}
"""Parameters that pySDC's classes hand on to each other, and that no user types."""


def made_from_a_record(name: str) -> bool:
    """Whether the class was made by `runge_kutta`, whose example is that of all of them."""
    entry = getattr(dae_sdc, name)
    return inspect.isclass(entry) and issubclass(entry, dae_sdc.RungeKuttaDAE) and hasattr(entry, "method")


def shown_by_what_makes_it(name: str) -> bool:
    """Whether the docstring of a class names what makes, extends or holds it, whose example shows it."""
    maker = re.search(
        r"(?:Returned by|The base of|The part of) :\w+:`(\w+)`, whose example",
        inspect.getdoc(getattr(dae_sdc, name)) or "",
    )
    return maker is not None and ">>> " in section(
        inspect.getdoc(getattr(dae_sdc, maker[1])) or "", "Examples"
    )


@pytest.mark.parametrize(
    "name",
    [name for name in OF_THE_PACKAGE if not made_from_a_record(name) and not shown_by_what_makes_it(name)],
)
def test_the_example_of_a_public_name_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(getattr(dae_sdc, name)) or ""
    assert ">>> " in section(text, "Examples"), "give a short example; np and ds are imported for it"
    names = {"np": np, "ds": dae_sdc}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
    assert "".join(said) == ""


def test_messages_of_the_page_on_troubleshooting_are_messages_of_the_package(checkout: Path) -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    literals = {
        node.value
        for tree in syntax_trees(checkout / "dae_sdc").values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert len(messages) > 30
    assert [one for one in messages if not any(one in literal for literal in literals)] == []


def test_every_error_text_says_what_to_do_or_has_a_row_on_the_page_on_troubleshooting(checkout: Path) -> None:
    messages = runpy.run_path(str(checkout / "tools" / "messages.py"))
    texts = {text for own in messages["texts"]().values() for text in own}
    assert len(texts) > 500
    silent = [text for text in sorted(texts) if not messages["advice"](text)]
    assert silent == [], "say what to do after a semicolon, or add a row to docs/troubleshooting.md"
    page = messages["page"]()
    assert all(f"``` {text} ```".replace("|", "\\|").replace("\n", " ") in page for text in texts)


@pytest.mark.parametrize("name", list(PICTURES))
def test_the_example_of_a_kind_of_picture_draws_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = PICTURES[name].example
    assert commands, "give the commands of an example below the line 'Plot:', for the gallery"
    assert re.match(rf"dae-sdc plot {name} .*-o {name}\.png", commands[-1])
    for command in commands:
        assert cli.main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    assert list(tmp_path.glob(f"{name}*.png"))


def test_measured_tables_are_dated_by_the_history_of_their_page(checkout: Path, tmp_path: Path) -> None:
    dated = runpy.run_path(str(checkout / "tools" / "dates.py"))["dated"]
    page = tmp_path / "page.md"
    rows = [
        "# Times",
        "`python -m benchmarks work`",
        "",
        "| n | s |",
        "|---|---|",
        "| 1 | 0.5 |",
        "| 2 | 0.7 |",
        "",
    ]
    rows += ["| word | meaning |", "|---|---|", "| a | b |", "", "```text", "n = 3", "```", "the end"]

    def commit(day: int) -> None:
        page.write_text("\n".join(rows) + "\n", encoding="utf-8")
        at = {name: f"2026-03-{day:02}T12:00:00+0000" for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE")}
        who = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
        for words in (["init", "-q"], ["add", page.name], [*who, "commit", "-qm", "measured"]):
            subprocess.run(["git", *words], cwd=tmp_path, env={**os.environ, **at}, check=True)

    commit(1)
    rows[6] = "| 2 | 0.6 |"
    commit(9)
    found = dated(page, page.read_text(encoding="utf-8"), "dae_sdc 1.2").split("\n")
    told = {at: line for at, line in enumerate(found) if line.startswith("Of ")}
    assert list(told) == [8, 18]
    assert re.fullmatch(r"Of 01 March 2026 to 09 March 2026, dae_sdc 1\.2 \([0-9a-f]{8}\)\.", told[8])
    assert re.fullmatch(r"Of 01 March 2026, dae_sdc 1\.2 \([0-9a-f]{8}\)\.", told[18])
    assert [line for line in found if not line.startswith("Of ")][:7] == rows[:7]
    elsewhere = tmp_path / "other.md"
    assert dated(elsewhere, "\n".join(rows), "dae_sdc 1.2") == "\n".join(rows)


# --- The site that `make docs` has built ------------------------------------------------------------


@pytest.fixture(scope="module")
def site() -> Path:
    place = os.environ.get("DAE_SDC_SITE")
    if not place:
        pytest.skip("'make docs' builds the site and runs these tests on it")
    return Path(place)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_name_shows_what_its_docstring_has(name: str, site: Path) -> None:
    shown = re.sub(r"<[^>]*>", "", (site / "api" / f"{name}.html").read_text(encoding="utf-8"))
    entry = getattr(dae_sdc, name)
    text = "" if isinstance(entry, Registry) else inspect.getdoc(entry) or ""
    for title in ("Parameters", "Returns", "Raises", "Examples"):
        assert title in shown or not section(text, title)


def test_every_picture_of_the_gallery_is_there(site: Path) -> None:
    shown = (site / "gallery.html").read_text(encoding="utf-8")
    found = re.findall(r'<img[^>]*src="(_images/[^"]+)"', shown)
    assert {Path(one).stem.partition("-")[0] for one in found} >= {
        name.partition("-")[0] for name in PICTURES
    }
    assert all((site / one).stat().st_size > 1000 for one in found)


def test_a_search_finds_the_fitting_page_among_the_first_three(site: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("the search of the site is JavaScript, and there is no node to run it")
    pages = {"inconsistent": "initial", "index": "structure", "event": "events", "CSV": "studies"}
    pages |= {"tolerance": "tolerances", "mpirun": "parallel", "error": "troubleshooting"}
    pages |= {"sweep": "sweeps", "gallery": "gallery", "ModelingToolkit": "hard_cases"}
    program = [node, str(ROOT / "tests" / "site" / "search.js"), str(site), *pages]
    found = json.loads(subprocess.run(program, check=True, capture_output=True, text=True).stdout)
    assert {word: page for word, page in pages.items() if page not in found[word][:3]} == {}
