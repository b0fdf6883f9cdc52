"""Where the libraries of a text lie, by the names and versions that it uses."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
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
        more = os.environ.get("MODELICAPATH", "").split(os.pathsep)
        directories = [Path(path) for path in (*libraries, *filter(None, more))]
        self.known: dict[str, dict[str, Path]] = {}  # The places of each library by its version, "" without.
        for directory in directories:
            if not directory.is_dir():
                what = f"the library {directory} is no directory"
                raise InputError(f"{what}; give the one in which Modelica/ lies")
            for path in sorted(directory.iterdir()):
                entry = _ENTRY.fullmatch(path.name)
                if entry is not None and _package(path).is_file():
                    self.known.setdefault(entry[1], {}).setdefault(entry[2] or "", path)
        self.used, self._chosen = _uses(text), dict[str, Path]()
        waiting = [*self.used, *(name for name in self.known if re.search(rf"\b{name}\b", text))]
        while waiting:
            name = waiting.pop(0)
            if name in self.known and name not in self._chosen:
                self._chosen[name] = path = _nearest(self.known[name], self.used.get(name, ""))
                further = _uses(_package(path).read_text(encoding="utf-8", errors="replace"))
                self.used, waiting = {**further, **self.used}, [*further, *waiting]
        has_versions = any(version for places in self.known.values() for version in places)
        self.paths = [str(path) for path in (self._chosen.values() if has_versions else directories)]
        # rumoca looks only for those that the text itself names.
        self.imports = "".join(f" import {name};" for name in self._chosen if has_versions)

    def remark(self) -> str:
        """What a message says of a library that is at hand in another major version than that in use."""
        for name, path in self._chosen.items():
            text = _package(path).read_text(encoding="utf-8", errors="replace")
            version = _VERSION.search(_USES.sub("", text))
            if version is not None and _major(version[1]) != _major(
                wanted := self.used.get(name, version[1])
            ):
                there = f"{path.parent / name} {wanted}"
                return f"; {name} {wanted} is used, and {path} is {version[1]}: put that one into {there}"
        return ""


def _package(path: Path) -> Path:
    return path if path.suffix == ".mo" else path / "package.mo"


def _uses(text: str) -> dict[str, str]:
    return dict(_USED.findall(" ".join(_USES.findall(text))))


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _major(version: str) -> list[int]:
    return _numbers(version)[:1]


def _nearest(places: Mapping[str, Path], wanted: str) -> Path:
    """The place of a version, of another one with the same first numbers, or of that without a version."""

    def nearness(version: str) -> tuple[bool, int, bool, list[int]]:
        pairs = enumerate(zip(_numbers(version), _numbers(wanted), strict=False))
        equal = next((k for k, (a, b) in pairs if a != b), 2 if wanted and version else 0)
        return version == wanted, min(equal, 2), not version, _numbers(version)

    return places[max(places, key=nearness)]
