"""README.md and the pages of docs/: every example in them is run, every command in them exists."""

from __future__ import annotations

import argparse
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
from qmat.qdelta import QDELTA_GENERATORS

import benchmarks.__main__ as benchmarks
import dae_sdc as ds
from benchmarks.study import STUDIES
from dae_sdc import cli
from dae_sdc.problems._models import MODELS, ModelicaFile

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
]

PYTHON = ("python", "py", "python3")
SHELL = ("bash", "sh", "shell")
CONSOLE = ("console",)
NOT_RUN = ("text", "json", "toml", "bibtex", "")

# Commands in the pages that are not run here, each with the reason.
ALLOWED = {
    "git clone": "would fetch the repository that these tests run in",
    "cd": "enters the clone",
    "pip install": "has happened before these tests run",
    "python -m pip install": "has happened before these tests run",
    "python3.11 -m venv": "has happened before these tests run",
    ". .venv/bin/activate": "has happened before these tests run",
    "source .venv/bin/activate": "has happened before these tests run",
    "mpirun": "needs free cores for all ranks; the tests of parallel runs start it themselves",
}


class Block(NamedTuple):
    language: str
    line: int
    text: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, with the line on which the text of each begins."""
    path = ROOT / page
    if not path.exists():
        pytest.fail(f"{page} does not exist")
    found: list[Block] = []
    fence, language, start = "", "", 0
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        mark = re.match(r"\s*(`{3,}|~{3,})\s*([\w-]*)", line)
        if mark and not fence:
            fence, language, start = mark[1], mark[2].lower(), number
        elif fence and line.strip() == fence:
            found.append(Block(language, start + 1, "\n".join(lines[start : number - 1])))
            fence = ""
    assert not fence, f"{page}:{start}: a fenced block is never closed"
    return found


def commands(block: Block) -> list[str]:
    """The command lines of a block; in a console block they follow a prompt, and the rest is output."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language in CONSOLE:
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in lines]
    return [line for line in lines if line]


def outputs(block: Block) -> list[list[str]]:
    """What a console block shows below each of its commands, without the dots that stand for others."""
    shown: list[list[str]] = []
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            shown.append([])
        elif shown and line.strip() not in ("", "..."):
            shown[-1].append(line)
    return shown if block.language in CONSOLE else []


def require_output(shown: list[str], printed: str, where: str) -> None:
    """The lines of a page are among those that its command prints, in their order; times of runs differ."""

    def compared(line: str) -> str:
        return " ".join(re.sub(r"\b\d+(\.\d+)? s\b", "... s", line).split())

    lines = iter([compared(line) for line in printed.splitlines()])
    missing = next((line for line in shown if compared(line) not in lines), None)
    assert missing is None, f"{where}: the command does not print '{missing}' any more, but\n{printed}"


def makefile_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", text, re.MULTILINE))


SHELL_SYNTAX = set("|&;<>$`*?")


def of_the_shell(command: str) -> tuple[int, str]:
    """Exit code of a command line, and what it printed."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])  # for the benchmarks
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths},
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout + done.stderr


def in_this_process(main: Callable[[list[str]], int], words: list[str]) -> tuple[int, str]:
    """Exit code of a command with these words and what it printed, without the start of a process."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), warnings.catch_warnings():
        warnings.simplefilter("default")
        try:
            code = main(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, printed.getvalue()


def require_study(name: str, *words: str) -> None:
    """A study takes these arguments; benchmarks/tests/test_studies.py carries out and draws each of them."""
    parser = argparse.ArgumentParser(prog=name)
    STUDIES[name].add_arguments(parser)
    for option, value in STUDIES[name].asked(parser.parse_args(words)).items():
        STUDIES[name].options[option].require(option, value)


def run_command(command: str, where: str) -> str:
    """Run a command of a page, or look whether it could be run; what it printed, if that is known."""
    words, printed = shlex.split(command), ""
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
        assert set(targets) <= makefile_targets(), f"{where}: no such Makefile target: {command}"
    elif words[0] == "dae-sdc" and not set(command) & SHELL_SYNTAX:
        code, printed = in_this_process(cli.main, words[1:])
        assert code == 0, f"{where}: {command}\n{printed}"
    elif words[0] == "python" and words[1].startswith("run/"):  # tests/test_scripts.py starts them so
        verb = Path(words[1]).stem.replace("_", "-")
        code, printed = in_this_process(cli.main, [verb, *words[2:]])
        assert code == 0, f"{where}: {command}\n{printed}"
    elif words[:3] == ["python", "-m", "benchmarks"] and "--out" in words:
        require_study(*words[3:])
    elif words[:4] == ["python", "-m", "benchmarks", "plot"]:
        assert words[4] in STUDIES, f"{where}: no such study: {command}"
    elif words[:3] == ["python", "-m", "benchmarks"] and not set(command) & SHELL_SYNTAX:
        code, printed = in_this_process(benchmarks.main, words[3:])
        assert code == 0, f"{where}: {command}\n{printed}"
    elif words[0] == "dae-sdc":
        code, printed = of_the_shell(command)
        assert code == 0, f"{where}: {command}\n{printed}"
    else:
        known = any(words[: len(start.split())] == start.split() for start in ALLOWED)
        assert known, f"{where}: neither run nor in ALLOWED: {command}"
    return printed


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """The names of one page, in a module of its own, so that its classes can be copied and pickled."""
    from dae_sdc.registry import Registry

    list(STUDIES)  # studies enter what draws their results when they are looked up first
    # What a page registers must not be there for the tests that follow in this process.
    registries = {
        id(value): value
        for name, module in list(sys.modules.items())
        if name.startswith("dae_sdc")
        for value in vars(module).values()
        if isinstance(value, Registry)
    }
    kept = [(registry, dict(registry.items())) for registry in registries.values()]
    of_qmat = dict(QDELTA_GENERATORS)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    yield vars(module)
    for registry, entries in kept:
        registry._entries = entries
    QDELTA_GENERATORS.clear()
    QDELTA_GENERATORS.update(of_qmat)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run_in_their_order(
    page: str, namespace: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        where = f"{page}:{block.line}"
        if block.language in PYTHON:
            # Empty lines before it, so that a traceback shows the line of the page.
            code = "\n" * (block.line - 1) + block.text
            exec(compile(code, str(ROOT / page), "exec"), namespace)
        elif block.language in SHELL + CONSOLE:
            shown = outputs(block)
            for at, command in enumerate(commands(block)):
                printed = run_command(command, where)
                if printed and at < len(shown):
                    require_output(shown[at], printed, where)
        else:
            assert block.language in NOT_RUN, f"{where}: nobody knows whether to run '{block.language}'"
            hidden = re.search(r"^(\$ |>>> |import |from \w+ import )", block.text, re.MULTILINE)
            assert not hidden, f"{where}: this block has commands; name its language so that they are run"


def tables_of_models() -> Iterator[tuple[str, list[str]]]:
    """The models of the page on the library, and the cells of their rows."""
    text = (ROOT / "docs" / "models_library.md").read_text(encoding="utf-8")
    for model, row in re.findall(r"^\| (`[\w-]+`[^|]*) \|(.*)\|$", text, re.MULTILINE):
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) > 4:  # not of the table of published sizes
            yield model, cells


@pytest.mark.parametrize(
    ("model", "cells"), [pytest.param(*row, id=row[0].replace("`", "")) for row in tables_of_models()]
)
def test_the_tables_of_models_have_the_sizes_that_the_program_finds(model: str, cells: list[str]) -> None:
    name, argument = re.findall(r"`([\w-]+)`,?\s*(.*)", model)[0]
    params = {key: float(value) for key, value in re.findall(r"`(\w+)=(\w+)`", argument)}
    sizes = [int(number) for number in re.findall(r"\d+", "" if params else argument)] or [0]
    expected = []
    for size in sizes:
        sized = {next(iter(inspect.signature(MODELS[name]).parameters)): size} if size else params
        written = MODELS[name](**sized)
        simple = ds.simplify(written).model if isinstance(MODELS[name], ModelicaFile) else written
        found, reduced = ds.structure(simple), ds.reduce(simple)
        left = f"{len(reduced.problem().names)}{', in stages' * (reduced.method == 'stages')}"
        counts = [len(written.names), len(simple.names)] if simple is not written else [len(written.names)]
        indices = f"{found.index}, {found.differentiation_index}"
        expected.append([indices, str(found.true_dof), ", ".join(map(str, counts)), left])
    told = [" and ".join([row[0] for row in expected]), expected[0][1]]
    told += [", ".join(row[2] for row in expected), ", ".join(row[3] for row in expected)]
    # Models as tools write them have a column that says what they are.
    assert cells[simple is not written :][:4] == told


def test_the_readme_begins_with_the_two_commands() -> None:
    first = next((block for block in blocks("README.md") if block.language in SHELL + CONSOLE), None)
    assert first is not None, "README.md has no block of commands"
    assert [line for line in commands(first) if line.startswith("make ")][:2] == ["make demo", "make test"]


def test_the_readme_shows_a_newcomer_a_function_of_his_own_a_picture_and_how_to_install() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 110
    assert "`pip install ." in text
    pictures = re.findall(r"^!\[[^]]+\]\(([^)]+)\)$", text, flags=re.MULTILINE)
    assert pictures and all((ROOT / picture).is_file() for picture in pictures)
    first = next(block.text for block in blocks("README.md") if block.language == "python")
    assert re.search(r"^def \w+\(t, u, du\b.*=", first, flags=re.MULTILINE)  # with a parameter
    assert "ds.solve(" in first and "ds.sweep(" in first
    told = " ".join(text.split())
    assert "`eval_f(u, du, t)`, the order of pySDC; functions take the time first" in told
    assert "The first run on a machine compiles for half a minute or less" in told
    assert len(re.findall(r"\]\(docs/[^)]*\.md", text.partition("## Dependencies")[0])) <= 6


LOOKED_FOR = (
    "gmin|PWM|duty|redundant constraint|frequency response|floating node|limits of time|units of time"
)


@pytest.mark.parametrize("words", LOOKED_FOR.split("|"))
def test_what_newcomers_look_for_is_the_heading_of_a_page_or_a_part(words: str) -> None:
    headings = [
        line
        for page in PAGES
        for line in (ROOT / page).read_text(encoding="utf-8").splitlines()
        if line.startswith("#")
    ]
    assert any(words.lower() in heading.lower() for heading in headings)


def test_there_are_pages_besides_the_readme() -> None:
    assert PAGES[1:], "docs/ has no page"


@pytest.mark.parametrize("page", PAGES)
def test_the_relative_links_of_a_page_lead_somewhere(page: str, checkout: Path) -> None:
    path = checkout / page
    assert path.exists(), f"{page} does not exist"
    text = re.sub(r"^(```|~~~).*?^\1", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    broken = [t for t in targets if t and not re.match(r"\w+:", t) and not (path.parent / t).exists()]
    assert broken == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```console\n$ dae-sdc no-such-verb\n```\n", "unknown verb"),
        ("```bash\nmake no-such-target\n```\n", "no such Makefile target"),
        ("```bash\ncurl somewhere\n```\n", "neither run nor in ALLOWED"),
        ("```python\nx = 1\n```\n```python\nassert x == 2, x\n```\n", "1"),
        ("```\n$ dae-sdc --help\n```\n", "this block has commands"),
        ("```python\nx = 1\n", "never closed"),
        ("```console\n$ dae-sdc structure gear-petzold\n3 equations\n```\n", "not print '3 equations'"),
        (
            "```console\n$ dae-sdc structure gear-petzold\nto start: y\n...\n1 coarse and 1 fine blocks, "
            "the largest of 2 and 2 equations\n```\n",
            "does not print '1 coarse",
        ),
    ],
)
def test_a_wrong_example_is_found(
    text: str, message: str, namespace: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    os.symlink(ROOT / "Makefile", tmp_path / "Makefile")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    with pytest.raises(AssertionError, match=message):
        test_the_examples_of_a_page_run_in_their_order("README.md", namespace, tmp_path, monkeypatch)


def test_a_right_example_passes(
    namespace: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "```console\n$ dae-sdc --version | head -1  # comment\ndae-sdc VERSION\n$ git clone \\\n  y\n```\n"
    text += "```python\nx = 1\n```\n\n~~~text\nanything\n~~~\n\n"
    text += "```python\nassert x == 1\nassert __name__ == 'page'\n```\n"
    text = text.replace("VERSION", ds.__version__)
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    test_the_examples_of_a_page_run_in_their_order("README.md", namespace, tmp_path, monkeypatch)
