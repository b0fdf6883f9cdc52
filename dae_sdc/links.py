"""Rooms under their names at the root of the source tree, where links lead to them: ``import problems``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Loader(Loader):
    """Gives a module of the package in place of a second copy."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(f"dae_sdc.{spec.name}")
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # which the import has replaced


class _Finder(MetaPathFinder):
    """Finds the modules of one room under the name of its link."""

    def __init__(self, room: str) -> None:
        self._inside = f"{room}."

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, _Loader()) if fullname.startswith(self._inside) else None


def one_room(name: str) -> None:
    """Let a room that is imported through its link at the root be that of the package with its modules."""
    if name in ("__main__", "") or "." in name:
        return
    sys.meta_path.insert(0, _Finder(name))
    sys.modules[name] = importlib.import_module(f"dae_sdc.{name}")
