"""How the package is imported: MPI later, rooms by links at the root, files that Python was started with.

Modules of pySDC that import mpi4py at once get it later: pySDC's states and its output of fields import
``mpi4py.MPI`` wherever it is installed. That starts MPI, or ends the process where MPI is broken, and is of
use to runs on ranks only.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

LATER: Final = frozenset({"pySDC.implementations.datatype_classes.mesh", "pySDC.helpers.fieldsIO"})
"""Modules that import mpi4py and can do without it until they are given a communicator."""

PACKAGE: Final = "mpi4py"

WHOLE: Final = frozenset({"llvmlite", "matplotlib", "numba", "numpy", "qmat", "scipy"})
"""Packages that do not survive an interrupt of their import: they swallow it, or cannot be imported again."""


def function_at(home: str) -> Callable[..., Any]:
    """The function at "module:function", whose module is imported now; it may be in a higher room."""
    module, _, name = home.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


class LaterModule:
    """A module that is imported when an attribute of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


class Later:
    """Something of mpi4py, imported when it is called or an attribute of it is asked for."""

    def __init__(self, module: str, name: str) -> None:
        self._place = module, name
        self._importing = True

    def _found(self) -> Any:
        module, name = self._place
        whole = importlib.import_module(module)
        return getattr(whole, name) if hasattr(whole, name) else importlib.import_module(f"{module}.{name}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return object if self._importing else getattr(self._found(), name)  # annotations ask at once

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what it stands for."""
        return self._found()(*args, **kwargs)


class _Loader(Loader):
    """A loader whose module is imported as a whole, for which signals wait, or defers imports from mpi4py."""

    holds = False  # Whether an import of a whole package is under way.

    def __init__(self, loader: Any, whole: bool) -> None:
        self._loader, self._whole = loader, whole

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        if not self._whole:
            return self._execute_deferring(module)
        from dae_sdc.sharing import signals_held

        _Loader.holds = True
        try:
            with signals_held():
                self._loader.exec_module(module)
        finally:
            _Loader.holds = False

    def _execute_deferring(self, module: ModuleType) -> None:
        given: list[Later] = []

        def import_(name: str, *args: Any, **kwargs: Any) -> Any:
            wanted = args[2] if len(args) > 2 else None
            asked = wanted and name.partition(".")[0] == PACKAGE and f"{PACKAGE}.MPI" not in sys.modules
            if not (asked and find_spec(PACKAGE)):
                return builtins.__import__(name, *args, **kwargs)
            parts = {part: Later(name, part) for part in wanted or ()}
            given.extend(parts.values())
            return SimpleNamespace(**parts)

        # Names like __import__ are looked up here first, so that no other module or thread sees this one.
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": import_}
        self._loader.exec_module(module)
        for part in given:
            part._importing = False


class _Finder(MetaPathFinder):
    """Finds the modules of :data:`LATER` and :data:`WHOLE`, and looks at the variables of numba before it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        threads = os.environ.get("NUMBA_NUM_THREADS", "").strip() if fullname == "numba" else ""
        if threads.lstrip("-").isdigit() and int(threads) < 1:
            from dae_sdc.errors import InputError

            raise InputError(
                f"NUMBA_NUM_THREADS must be at least 1; got {threads}; change this variable or unset it"
            )
        # An import within one of a whole package is a part of that one.
        whole = fullname.partition(".")[0] in WHOLE and not _Loader.holds
        spec = PathFinder.find_spec(fullname, path, target) if whole or fullname in LATER else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, whole)
        return spec


def defer_mpi() -> None:
    """From now on, let pySDC import MPI when it needs it."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")
"""Environment variables with the number of processes that an MPI launcher has started."""


def launched() -> int:
    """Number of processes that an MPI launcher has started, by the environment; 1 without one."""
    return max([1, *launchers()])


def launchers() -> list[int]:
    """The numbers of processes that MPI launchers have started, also of one that started this one alone."""
    counts = [os.environ.get(name, "") for name in LAUNCHERS]
    return [int(count) for count in counts if count.isdigit()]


def script() -> str:
    """The file in a room of the package that Python was started with, as "run/solve.py"; empty for others."""
    started = sys.argv[0] if sys.argv else ""
    if started == "-m" and len(sys.argv) < len(sys.orig_argv):  # what follows stands there until it is found
        package, *place = sys.orig_argv[-len(sys.argv)].split(".")
        return "/".join(place) + ".py" if package == "dae_sdc" and len(place) > 1 else ""
    try:
        path = Path(os.path.realpath(started))
    except OSError:  # the current directory is gone
        return ""
    package_of = path.parent.parent
    room = package_of.name == "dae_sdc" and (package_of / "__init__.py").is_file()
    return f"{path.parent.name}/{path.name}" if room and path.suffix == ".py" else ""


class _Interruption(MetaPathFinder):
    """Ends the file that Python was started with, which is the first to import a module of the package."""

    def __init__(self, carry_out: Callable[[str], int], file: str) -> None:
        self._carry_out, self._file = carry_out, file

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if not fullname.startswith("dae_sdc."):
            return None
        sys.meta_path.remove(self)
        with suppress(ValueError):  # its own directory, where other libraries would find our modules
            sys.path.remove(os.path.dirname(os.path.realpath(sys.argv[0])))
        sys.exit(self._carry_out(self._file))


def take_over(carry_out: Callable[[str], int]) -> None:
    """Let a file that Python was started with do what its verb does, when it imports a first module."""
    file = script()
    if file:
        sys.meta_path.insert(0, _Interruption(carry_out, file))
