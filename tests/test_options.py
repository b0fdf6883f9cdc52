"""Every option is declared once: signatures, docstrings, the command line and the docs agree with it."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import dae_sdc as ds
from dae_sdc import cli, options
from dae_sdc.run import (
    accuracy,
    convergence,
    description,
    drift,
    initial,
    iterations,
    pendulum_study,
    playground,
    sundials,
    sweep,
)
from dae_sdc.run.description import SolveOptions

DOCS = Path(__file__).parent.parent / "docs"


def record_of(function: Any) -> Any:
    """The record of a function, from its module: its name is that of the function."""
    module = importlib.import_module(function.__module__)
    return next(
        record
        for record in vars(module).values()
        if isinstance(record, type)
        and issubclass(record, options.Group)
        and list(inspect.signature(record).parameters) == list(inspect.signature(function).parameters)
    )


FUNCTIONS = [ds.solve, accuracy, convergence, drift, initial, iterations, pendulum_study, playground, sweep]
FUNCTIONS += [sundials, description.describe, ds.solution_sets]
VERBS = {function.__name__.replace("_", "-"): function for function in FUNCTIONS[:9]}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_signature_and_docstring_are_those_of_the_declarations(function: Any) -> None:
    record = record_of(function)
    fields = {one.name: one for one in dataclasses.fields(record)}
    parameters = inspect.signature(function).parameters
    assert parameters.keys() == fields.keys() and options.names_of_options(record) != []
    for name, parameter in parameters.items():
        field = fields[name]
        assert parameter.annotation == field.type
        required = field.default is dataclasses.MISSING
        assert parameter.default is (parameter.empty if required else field.default)
        assert field.metadata["option"].help.rstrip(".") == field.metadata["option"].help
    section = function.__doc__.partition("Parameters\n")[2].partition("\n    Returns\n")[0]
    assert set(re.findall(r"^ {4}(\w+) : ", section, flags=re.MULTILINE)) == fields.keys()
    assert max(map(len, function.__doc__.splitlines())) <= 110


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_has_the_options_of_its_function_with_dashes(verb: str) -> None:
    function = VERBS[verb]
    parser = argparse.ArgumentParser()
    module: Any = importlib.import_module(cli.find_verbs()[verb].module)
    module.add_arguments(parser)
    fields = [one for one in dataclasses.fields(record_of(function)) if one.metadata["option"].shell]
    named = [one for one in fields if one.kw_only or one.metadata["option"].flag]
    wanted = {f"--{one.name.replace('_', '-')}" if one in named else one.name for one in fields}
    had = {action.option_strings[0] if action.option_strings else action.dest for action in parser._actions}
    assert wanted <= had
    # What is not given on the command line is left to the function.
    bare = [one.name for one in fields if not one.kw_only and one.default is dataclasses.MISSING]
    given = options.given_options(parser.parse_args(["x" for _ in bare]), record_of(function))
    assert set(given) - set(bare) <= {"parallel"}


def test_a_group_that_is_made_looks_at_bounds() -> None:
    with pytest.raises(ds.InputError, match="maxiter must be at most 100000"):
        options.Sweeps(maxiter=10**6)
    with pytest.raises(ds.InputError, match="dt_max must be positive"):
        options.Steps(dt_max=0.0)
    for seed in (-1, 2**32, 0.5, True):
        with pytest.raises(
            ds.InputError, match=rf"seed must be an integer from 0 to {2**32 - 1}; got {seed}"
        ):
            options.Sweeping(seed=seed)  # type: ignore[arg-type]
    assert options.Sweeping(seed=0).seed == 0 and options.Sweeping(seed=2**32 - 1).seed == 2**32 - 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.Steps().dt = 1.0  # type: ignore[misc]


def test_one_name_has_one_kind_of_value() -> None:
    """An option that takes several values in a study takes one of the same kind in a run."""
    kinds: dict[str, set[str]] = {}
    for function in FUNCTIONS:
        for one in dataclasses.fields(record_of(function)):
            words = set(re.findall(r"\b(float|int|str|bool|Mapping|Any)\b", str(one.type)))
            kinds.setdefault(one.name, set()).add(" ".join(sorted(words - {"Any"})))
    several = {name: found for name, found in kinds.items() if len(found) > 1}
    assert several.keys() <= {"problem", "fixed", "sweeper", "reduce"}


def tables() -> list[Any]:
    found = []
    for page in sorted(DOCS.glob("*.md")):
        head: list[str] = []
        for line in page.read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")] if line[:1] == "|" else []
            if not cells:
                head = []
            elif not head:
                head = cells
            elif head[0] == "option" and cells[0].strip("-|"):
                found.append(pytest.param(dict(zip(head, cells, strict=False)), id=f"{page.stem}-{cells[0]}"))
    return found


@pytest.mark.parametrize("row", tables())
def test_tables_of_options_agree_with_the_declarations(row: dict[str, str]) -> None:
    known = {one.name: one for one in dataclasses.fields(SolveOptions)}
    named = re.findall(r"`(--)?([\w-]+)[^`]*`", row["option"])
    for dashes, name in named:
        assert name.replace("-", "_") in known
        assert not dashes or known[name.replace("-", "_")].metadata["option"].shell
    if "default" in row and row["default"] != "-":
        words = known[named[0][1]].metadata["option"].help
        assert f"({row['default'].replace('`', '')})" in words


def test_help_says_what_the_docstring_says(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["solve", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for one in dataclasses.fields(SolveOptions):
        about = one.metadata["option"]
        words = f"{about.help[0].upper()}{about.help[1:]}."
        assert words in " ".join(ds.solve.__doc__.split())
        assert not about.shell or about.help.replace("-", "") in shown.replace("- ", "").replace("-", "")
