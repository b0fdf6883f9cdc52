"""Write the page of all messages: every error text of the package, by room, with what to do.

``make docs`` calls this. What to do is what the text says after its last semicolon, or what it asks for, or
the row of docs/troubleshooting.md whose words it has.
Usage: python tools/messages.py [docs/gallery/messages.md]
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dae_sdc import errors

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(errors.__file__).parent
PAGE = ROOT / "docs" / "troubleshooting.md"

RAISED = {name for name, entry in vars(errors).items() if isinstance(entry, type)}
"""Names of the exceptions that users see; others are caught inside of the package."""

FEWEST_LETTERS = 9
"""Letters up to which a text is filled in but for some words, and is that of another message."""

ASKS = re.compile(
    r"\b(must|needs?|takes?|gives?|wants|is one of|are one of|unknown|available|choose|install|use|leave|"
    r"belongs?|cannot|can not|not both|expected|only|without|instead)\b"
)
"""Words of a text that says itself what it wants."""


def template(node: ast.expr | None) -> str:
    """The text of an expression, with "…" for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp):
        return template(node.left) + template(node.right)
    return "…"


def raised(file: Path) -> Iterator[str]:
    """The error texts of a file, in their order."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            name = ast.unparse(node.exc.func)
            text = template(node.exc.args[0])
            if name in RAISED and len(re.findall(r"[a-zA-Z]", text)) > FEWEST_LETTERS:
                yield text


@cache
def texts() -> dict[str, list[str]]:
    """Every error text by the room that raises it; those of single files are under ``dae_sdc``."""
    found: dict[str, dict[str, None]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).parts
        room = f"dae_sdc.{parts[0]}" if len(parts) > 1 else "dae_sdc"
        found.setdefault(room, {}).update(dict.fromkeys(raised(file)))
    return {room: sorted(own) for room, own in found.items() if own}


@cache
def rows() -> dict[str, str]:
    """What to do by the words of a message, from the tables of the page on troubleshooting."""
    page = PAGE.read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `([^`]+)` \| [^|]+ \| (.+) \|$", page, re.MULTILINE))


def advice(text: str) -> str:
    """What to do about a message; empty where nobody says it."""
    known = next((what for words, what in rows().items() if words in text), "")
    if known:
        return known
    _, semicolon, last = text.rpartition("; ")
    if semicolon and last.strip("… "):
        return last
    return "as the message says" if ASKS.search(text) else ""


def page() -> str:
    """The tables, in Markdown."""
    lines = []
    for room, own in texts().items():
        lines += [f"## {room}", "", "| message | what to do |", "|---|---|"]
        for text in own:
            cells = (f"``` {text} ```", advice(text))
            lines.append(
                "| " + " | ".join(cell.replace("\n", " ").replace("|", "\\|") for cell in cells) + " |"
            )
        lines.append("")
    return "\n".join(lines)


def write(file: Path) -> None:
    """Write the tables to a file, which docs/messages.md includes."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "gallery" / "messages.md")
