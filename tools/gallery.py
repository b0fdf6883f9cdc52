"""Make the pictures of the gallery: an example of every kind of picture, and those of docs/gallery.md.

``make docs`` calls this. Kinds of pictures come from their registry with their commands, and the other
commands from the page. Usage: python tools/gallery.py [docs/gallery]
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import matplotlib

from dae_sdc import cli
from dae_sdc.plotting.plot import PICTURES

matplotlib.use("agg")


def run(command: str) -> None:
    """Run a command of the program in this process; raises RuntimeError where it fails."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        with redirect_stderr(nowhere):
            code = cli.main(shlex.split(command)[1:])
    if code != 0:
        raise RuntimeError(f"a command of the gallery ended with code {code}: {command}")


def commands_of(page: Path) -> Iterator[str]:
    """The commands in the console blocks of a page."""
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        yield from re.findall(r"^\$ (.*)$", block, re.M)


def section(name: str) -> str:
    """The part of the gallery that shows a kind of picture, whose commands have been run here."""
    picture = PICTURES[name]
    lines = [f"### {name}", "", f"{picture.shows[0].upper()}{picture.shows[1:]}.", ""]
    lines += ["```text", *(f"{command}" for command in picture.example), "```", ""]
    files = sorted(Path().glob(f"{name}.png")) or sorted(Path().glob(f"{name}-*.png"))
    for file in files:
        lines += [f"```{{image}} gallery/{file.name}", f":alt: {picture.shows}", ":width: 75%", "```", ""]
    return "\n".join(lines)


def write(directory: Path) -> None:
    """Run all commands in a directory, and write a section for each kind of picture to ``kinds.md`` there."""
    directory.mkdir(exist_ok=True)
    with chdir(directory):
        examples = [command for name in PICTURES for command in PICTURES[name].example]
        for command in dict.fromkeys([*examples, *commands_of(directory.with_suffix(".md"))]):
            run(command)
        text = "\n".join(section(name) for name in PICTURES if PICTURES[name].example)
        Path("kinds.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(
        Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "gallery").resolve()
    )
