"""Where the libraries of a text lie, by the names and versions that it uses."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

from dae_sdc.errors import InputError

_USES: Final = re.compile(r"\buses\s*\(((?:[^()]|\([^()]*\))*)\)")
_USED: Final = re.compile(r'\b(\w+)\s*\(\s*version\s*=\s*"([^"]+)"')
_VERSION: Final = re.compile(r'(?:\bannotation\s*\(|,)\s*version\s*=\s*"([^"]+)"')
_ENTRY: Final = re.compile(r"(\w+)(?: (\d.*?))?(?:\.mo)?")


class Roots:
    """The libraries that a text may use, each in the version that it, or another library, says."""

    def __init__(self, text: str, libraries: Sequence[str | Path]) -> None:
        more = filter(None, os.environ.get("MODELICAPATH", "").split(os.pathsep))
        directories = [Path(path) for path in (*libraries, *more)]
        self.known: dict[str, dict[str, Path]] = {}  # The places of each library by its version, "" without.
        for directory in directories:
            if not directory.is_dir():
                what = f"the library {directory} is no directory"
                raise InputError(f"{what}; give the one in which Modelica/ lies")
            for path in sorted(directory.iterdir()):
                entry = _ENTRY.fullmatch(path.name)
                if entry is not None and (path.suffix == ".mo" or (path / "package.mo").is_file()):
                    self.known.setdefault(entry[1], {}).setdefault(entry[2] or "", path)
        self.used, self._chosen = _uses(text), dict[str, tuple[Path, str]]()
        waiting = [*self.used, *(name for name in self.known if re.search(rf"\b{name}\b", text))]
        for name in waiting:  # which grows by what these use
            if name in self.known and name not in self._chosen:
                path = _nearest(self.known[name], self.used.get(name, ""))
                package = path if path.suffix == ".mo" else path / "package.mo"
                inside = package.read_text(encoding="utf-8", errors="replace")
                self._chosen[name] = path, inside
                self.used = {**_uses(inside), **self.used}
                waiting += _uses(inside)
        has_versions = any(version for places in self.known.values() for version in places)
        paths = [path for path, _ in self._chosen.values()] if has_versions else directories
        self.paths = [*map(str, paths)]
        # rumoca looks only for those that the text itself names.
        self.imports = "".join(f" import {name};" for name in self._chosen if has_versions)

    def remark(self) -> str:
        """What a message says of a library that is at hand in another major version than that in use."""
        for name, (path, text) in self._chosen.items():
            version, wanted = _VERSION.search(_USES.sub("", text)), self.used.get(name)
            if version and wanted and _numbers(version[1])[:1] != _numbers(wanted)[:1]:
                place = f"{path.parent / name} {wanted}"
                return f"; {name} {wanted} is used, and {path} is {version[1]}: put that one into {place}"
        return ""


def _uses(text: str) -> dict[str, str]:
    return dict(_USED.findall(" ".join(_USES.findall(text))))


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _nearest(places: Mapping[str, Path], wanted: str) -> Path:
    """The place of a version, of another one with the same first numbers, or of that without a version."""

    def nearness(version: str) -> tuple[bool, int, bool, list[int]]:
        pairs = zip(_numbers(version), _numbers(wanted), strict=False)
        equal = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
        return version == wanted, min(equal, 2), not version, _numbers(version)

    return places[max(places, key=nearness)]
