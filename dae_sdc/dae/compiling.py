"""Compilation by numba, with the result kept on disk where there is a place for it. This imports numba."""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import llvmlite
import numba
from numba import njit
from numba.core import config, event, typeinfer
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.ccallback import CFunc
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaWarning
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

from dae_sdc.deadline import check
from dae_sdc.sharing import filtering, is_safe, read_kept, write_kept

MOST_VERSIONS: Final = 4
"""Most files of one function and signature: of different versions, machines and compilers."""


COMPILED_ROOMS: Final = ("dae", "compiled", "sweepers", "constrained")
"""Rooms whose functions become machine code."""


class _BetweenPasses(event.Listener):  # type: ignore[misc]
    """Looks at the time before each pass of numba's compiler, of which a function has some dozens."""

    def on_start(self, event: Any) -> None:
        check()

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:run_pass", _BetweenPasses())


class _Files:
    """Compiled forms of one function on disk, a file for each.

    numba itself keeps an index and numbers its files, so that processes which compile at the same time, or
    versions that share a directory, write over files that another's index names. Here the name of a file
    has a digest of all that it depends on.
    """

    def __init__(self, directory: str, base: str, stamp: Any) -> None:
        self._directory, self._base = Path(directory), base
        self._stamp = (numba.__version__, llvmlite.__version__, stamp)

    def _family(self, key: Any) -> str:
        return f"{self._base}-{hashlib.sha256(repr(key[0]).encode()).hexdigest()[:8]}"

    def _path(self, key: Any) -> Path:
        about = hashlib.sha256(repr((self._stamp, key)).encode()).hexdigest()[:16]
        return self._directory / f"{self._family(key)}-{about}.nbc"

    def load(self, key: Any) -> Any:
        path = self._path(key)
        content = read_kept(path)
        if content is None:
            return None
        try:
            stamp, known, data = pickle.loads(content)
        except Exception:  # whole, but of a module that cannot be imported here
            return None
        return data if (stamp, known) == (self._stamp, key) else None

    def save(self, key: Any, data: Any) -> None:
        path = self._path(key)
        if not write_kept(path, dumps((self._stamp, key, data))):
            return
        with suppress(OSError):  # another process may remove them too
            others = [other for other in self._directory.glob(f"{self._family(key)}-*.nbc") if other != path]
            for other in sorted(others, key=lambda one: one.stat().st_mtime)[: -MOST_VERSIONS + 1]:
                other.unlink()

    def flush(self) -> None:
        for path in self._directory.glob(f"{self._base}-*.nbc"):
            path.unlink(missing_ok=True)


def _in_safety(locator: Any) -> Any:
    """A locator of numba for the cache directory that ignores directories in which others can write."""

    class Safe(locator):  # type: ignore[misc]
        @classmethod
        def from_function(cls, function: Any, file: str) -> Any:
            found = locator.from_function(function, file)
            return found if found is not None and is_safe(found.get_cache_path()) else None

    return Safe


class _Places(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = tuple(map(_in_safety, CompileResultCacheImpl._locator_classes))


@functools.cache
def _stamp_of_rooms(own: Path) -> str:
    """A digest that changes with any file of the package of which a compiled function may call something.

    numba looks at the file of a function alone, but machine code holds that of all functions it calls.
    """
    package = Path(__file__).parents[1]
    rooms = {*(package / name for name in COMPILED_ROOMS), *({own} if own.parent == package else ())}
    files = sorted(path for room in rooms for path in room.glob("*.py"))
    known = [(path.name, stat.st_mtime_ns, stat.st_size) for path in files for stat in [path.stat()]]
    return hashlib.sha256(repr(known).encode()).hexdigest()


class _Cache(FunctionCache):  # type: ignore[misc]
    _impl_class = _Places

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)
        known = self._impl
        room = Path(function.__code__.co_filename).parent
        stamp = (known.locator.get_source_stamp(), _stamp_of_rooms(room))
        self._cache_file = _Files(known.locator.get_cache_path(), known.filename_base, stamp)

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # there is no place any more
            super().save_overload(sig, data)


def _keep(compiled: Any, function: Any) -> None:
    """Let numba keep a function on disk if there is a place for it."""
    with suppress(RuntimeError):  # typed at a prompt, or there is nowhere to write
        compiled._cache = _Cache(function)


def kept(function: Callable[..., Any], *signature: Any, **options: Any) -> Any:
    """Compile a function, and keep the result on disk if there is a place for it."""
    compiled = njit(**{"error_model": "numpy", **options})(function)
    _keep(compiled, function)
    if signature:
        with typeinfer.register_dispatcher(compiled):
            for kinds in signature:
                compiled.compile(kinds)
            compiled.disable_compile()
    return compiled


def c_function(function: Callable[..., Any], signature: Any, *, keep: bool = True, **options: Any) -> Any:
    """Compile a C function, and keep the result on disk if there is a place for it."""
    made = CFunc(function, normalize_signature(signature), {}, {"error_model": "numpy"}, **options)
    if keep:
        _keep(made, function)
    with filtering("ignore", NumbaWarning):
        made.compile()
    return made


@contextmanager
def lightly_optimized() -> Iterator[None]:
    """Compile with LLVM's level 1, in a fifth less time; what is compiled here hardly runs slower by it."""
    with global_compiler_lock:  # the level is that of the process
        before = config.OPT
        config.OPT = type(before)(1)
        try:
            yield
        finally:
            config.OPT = before


def compiled_lightly(function: Any, *arguments: Any) -> Any:
    """Compile a dispatcher of numba for these arguments, if it is not, at LLVM's level 1; return it."""
    kinds = tuple(function.typeof_pyval(argument) for argument in arguments)
    if kinds not in function.overloads:
        with lightly_optimized():
            function.compile(kinds)
    return function


inner = njit(error_model="numpy", no_cpython_wrapper=True)
"""Decorator of functions that only compiled functions call."""
