"""A plugin of pytest: modules of ``pySDC.projects.DAE`` that hold what this package has under the same names.

    python -m pytest -p peer_names FILE

Problems, sweepers, states and hooks are those of this package; tests and scripts are pySDC's as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import dae_sdc

PROJECT = "pySDC.projects.DAE"
ROOMS = ("misc", "problems", "sweepers")


class Names(ModuleType):
    """A module that has the names of the package."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(dae_sdc, name)


class Finder(MetaPathFinder, Loader):
    """Finds the modules of the rooms of the project."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        room, _, rest = fullname.removeprefix(f"{PROJECT}.").partition(".")
        mapped = fullname.startswith(PROJECT) and room in ROOMS
        return ModuleSpec(fullname, self, is_package=not rest) if mapped else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Names(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: names are looked up when they are asked for."""


sys.meta_path.insert(0, Finder())
