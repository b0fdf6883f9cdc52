"""Names for what users choose by name: entered once, found without a list, and refused with a list."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import InputError
from dae_sdc.registry import Registry, unknown
from dae_sdc.sweepers.sdc import SWEEPERS


@pytest.fixture
def tools() -> Registry[type[object]]:
    return Registry("tool")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a registry, whose name no other test uses."""
    name = f"tools_{tmp_path.name}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "table.py").write_text(
        f"from dae_sdc.registry import Registry\nTOOLS = Registry('tool', '{name}')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for loaded in [module for module in sys.modules if module.split(".")[0] == name]:
        del sys.modules[loaded]


def add_file(package: Path, stem: str, *names: str) -> None:
    lines = [f"from {package.name}.table import TOOLS"]
    lines += [f"\n@TOOLS.register('{name}')\nclass Tool{i}:\n    pass" for i, name in enumerate(names)]
    (package / f"{stem}.py").write_text("\n".join(lines) + "\n")


def table(package: Path) -> Registry[type[object]]:
    module = __import__(f"{package.name}.table", fromlist=["TOOLS"])
    registry: Registry[type[object]] = module.TOOLS
    return registry


# --- entering -------------------------------------------------------------------------------------


def test_the_decorator_returns_what_it_decorates(tools: Registry[type[object]]) -> None:
    class Hammer:
        pass

    assert tools.register("hammer")(Hammer) is Hammer
    assert tools["hammer"] is Hammer


def test_a_second_entry_of_a_name_is_refused_with_both_modules_and_the_hint_about_the_links(
    tools: Registry[type[object]],
) -> None:
    first = type("Hammer", (), {"__module__": "dae_sdc.tools.steel"})
    second = type("Hammer", (), {"__module__": "tools.steel"})
    tools.add("hammer", first)
    with pytest.raises(InputError) as error:
        tools.register("hammer")(second)
    text = str(error.value)
    assert "\n" not in text
    assert "tool 'hammer' is registered twice" in text
    assert "by dae_sdc.tools.steel and by tools.steel" in text
    assert "import modules as dae_sdc.*" in text and "links to the same files" in text
    assert tools["hammer"] is first


def test_one_class_may_have_two_names(tools: Registry[type[object]]) -> None:
    tools.add("hammer", int)
    tools.add("mallet", int)
    assert dict(tools.items()) == {"hammer": int, "mallet": int}


# --- looking up -----------------------------------------------------------------------------------


def test_an_unknown_name_lists_all_names(tools: Registry[type[object]]) -> None:
    for name in ("saw", "hammer", "file"):
        tools.add(name, object)
    with pytest.raises(InputError) as error:
        tools["xyz"]
    assert str(error.value) == "unknown tool 'xyz'; available: file, hammer, saw"


def test_an_unknown_name_near_a_known_one_asks_whether_that_was_meant(tools: Registry[type[object]]) -> None:
    for name in ("saw", "hammer", "file"):
        tools.add(name, object)
    with pytest.raises(InputError) as error:
        tools["hamer"]
    text = str(error.value)
    assert text.startswith("unknown tool 'hamer'; did you mean 'hammer'?")
    assert text.endswith("Available: file, hammer, saw")
    assert "\n" not in text


@given(
    name=st.text(min_size=1, max_size=10), known=st.sets(st.text("abc-", min_size=1, max_size=6), max_size=6)
)
def test_the_message_about_an_unknown_name_holds_the_name_and_all_known_ones(
    name: str, known: set[str]
) -> None:
    text = unknown("tool", name, known)
    assert text.startswith(f"unknown tool '{name}'")
    assert text.lower().endswith("available: " + ", ".join(sorted(known)) if known else "there are none")


def test_the_message_about_an_unknown_name_does_not_list_thousands() -> None:
    text = unknown("name", "x1O7", [f"x{k}" for k in range(1000)])
    assert text.startswith("unknown name 'x1O7'; did you mean 'x1") and "x0, x1, x10, " in text
    assert len(text) < 1000 and text.endswith(" and 940 more")


def test_names_that_differ_in_case_or_underscores_are_told_the_right_spelling() -> None:
    for wrong, right in (("one_transistor", "one-transistor"), ("Pendulum", "pendulum")):
        with pytest.raises(InputError, match=f"did you mean '{right}'"):
            PROBLEMS[wrong]
    with pytest.raises(InputError, match="did you mean 'fully-implicit'"):
        SWEEPERS["fully_implicit"]


def test_iteration_is_sorted_whatever_the_order_of_entering(tools: Registry[type[object]]) -> None:
    for name in ("saw", "axe", "hammer"):
        tools.add(name, object)
    assert list(tools) == ["axe", "hammer", "saw"]
    assert [name for name, _ in tools.items()] == ["axe", "hammer", "saw"]
    assert len(tools) == 3


def test_membership_is_by_name(tools: Registry[type[object]]) -> None:
    tools.add("saw", object)
    assert "saw" in tools
    assert "axe" not in tools
    assert object not in tools


# --- finding --------------------------------------------------------------------------------------


def test_a_new_file_in_the_package_is_found_without_being_listed(package: Path) -> None:
    add_file(package, "steel", "saw", "axe")
    add_file(package, "wood", "mallet")
    assert list(table(package)) == ["axe", "mallet", "saw"]


@pytest.mark.parametrize("question", ["name", "membership", "length", "unknown"])
def test_every_question_looks_into_the_package_first(package: Path, question: str) -> None:
    add_file(package, "steel", "saw")
    registry = table(package)
    assert f"{package.name}.steel" not in sys.modules, "nothing is imported before it is asked for"
    if question == "name":
        assert registry["saw"].__name__ == "Tool0"
    elif question == "membership":
        assert "saw" in registry
    elif question == "length":
        assert len(registry) == 1
    else:
        with pytest.raises(InputError, match="available: saw"):
            registry["xyz"]


def test_one_name_in_two_files_of_a_package_is_refused_with_both_files(package: Path) -> None:
    add_file(package, "steel", "saw")
    add_file(package, "wood", "saw")
    with pytest.raises(InputError, match=rf"by {package.name}\.steel and by {package.name}\.wood"):
        list(table(package))


def test_a_file_that_cannot_be_imported_is_not_hidden_by_asking_again(package: Path) -> None:
    add_file(package, "steel", "saw")
    (package / "broken.py").write_text("raise RuntimeError('this file is broken')\n")
    registry = table(package)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="this file is broken"):
            list(registry)


def test_every_problem_and_every_sweeper_of_the_library_has_a_name_of_the_command_line() -> None:
    for registry in (PROBLEMS, SWEEPERS):
        assert len(registry) > 3
        for name in registry:
            assert name == name.lower() and " " not in name and "_" not in name
            assert registry[name].__module__.startswith("dae_sdc.")


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("BDF", ["bdf1", "bdf2"]), ("Radau", ["radau-iia-5"]), ("IDA", ["ida"]), ("Wrench", ["wrench"])],
)
def test_names_are_near_whatever_their_case_or_their_end(asked: str, meant: list[str]) -> None:
    text = unknown("tool", asked, [*meant, "hammer", "pliers"])
    assert f"did you mean {' or '.join(map(repr, meant))}?" in text
