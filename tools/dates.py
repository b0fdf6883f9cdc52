"""Date the measured tables of a page: when, and with which version of the package, their figures were made.

``make docs`` calls this for the pages that name a study. The history of a page tells when the lines of a
table were changed, the first and the last of them; without a history nothing is added.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

STUDY = "python -m benchmarks"
# A table, or what a study prints.
TABLE = re.compile(r"(?:^\|.*\n)+|^```text\n(?s:.*?)^```\n", re.MULTILINE)


def changes(page: Path) -> Iterator[tuple[datetime, str]]:
    """When each line of a page was changed, and the short name of that state of the project."""
    command = ["git", "-C", str(page.parent), "blame", "--line-porcelain", "--abbrev=8", page.name]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    commit, seconds = "", 0
    for line in told.splitlines():
        if re.match(r"[0-9a-f]{40} ", line):
            commit = line[:8]
        elif line.startswith("committer-time "):
            seconds = int(line.split()[1])
        elif line.startswith("\t"):
            yield datetime.fromtimestamp(seconds, UTC), commit


def dated(page: Path, text: str, version: str) -> str:
    """The text of a page with a line below each table of figures, where a study of the page makes them."""
    lines = list(changes(page)) if STUDY in text else []
    if len(lines) != text.count("\n"):
        return text

    def with_date(table: re.Match[str]) -> str:
        head = 2 if table[0].startswith("|") else 1
        body, first = table[0].split("\n")[head:-1], text.count("\n", 0, table.start()) + head
        made = sorted(lines[first : first + len(body)])
        if not made or not any(character.isdigit() for line in body for character in line):
            return table[0]
        days = dict.fromkeys(f"{at:%d %B %Y}" for at, _ in (made[0], made[-1]))
        return f"{table[0]}\nOf {' to '.join(days)}, {version} ({made[-1][1]}).\n"

    return TABLE.sub(with_date, text)
