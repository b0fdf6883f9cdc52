"""C functions whose machine code lies on disk, loaded without numba, which compiles those that do not.

A function that numba has compiled for C needs nothing of numba but to show an exception, for which it is
imported then.
"""

from __future__ import annotations

import builtins
import ctypes
import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import time
from typing import Any, Final, NamedTuple

import llvmlite
import numpy as np

from dae_sdc.llvm import add_symbol, assembled, linked, pointer, toolchain
from dae_sdc.sharing import cache_directory, once, read_kept, write_kept

ROOMS: Final = ("", "dae", "compiled", "sweepers", "constrained")  # Of functions that are loaded by names.
# Variables of numba that do not change what it compiles.
WITHOUT_EFFECT: Final = {"NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "NUMBA_NUM_THREADS"}
# Functions of numba that machine code calls when an exception was raised in it.
OF_NUMBA: Final = (
    *("numba_gil_ensure", "numba_gil_release", "numba_unpickle", "numba_do_raise"),
    *("numba_runtime_build_excinfo_struct", "NRT_Free"),
)

_IMPORTED: Final = time()


class CFunction(NamedTuple):
    """A function with integers, addresses and doubles for arguments."""

    address: int
    owners: Any  # What must live as long as the address is used.
    file: str = ""  # Name of the object file that has it.


_LOADED: Final[list[CFunction]] = []  # Code stays where it is, as numba's does: others know its address.


@once
def entry(home: str) -> CFunction:
    """The C function at "module:name", which ``C_FUNCTIONS`` of the module compiles; it imports numba."""
    module, _, name = home.partition(":")
    return loaded(name, home, lambda: import_module(module).C_FUNCTIONS[name]())


def loaded(name: str, about: str, compile_it: Callable[[], CFunction]) -> CFunction:
    """The C function of a name that depends on what is told about it, compiled where it is not on disk."""
    # Object files are named by all that their code holds, which numba must be imported to know. What code is
    # made of tells it as well: a small file that is named by that leads to the one that has the code.
    if not _surroundings():
        return compile_it()
    digest = hashlib.sha256(f"{_surroundings()} {about}".encode()).hexdigest()[:32]
    place = cache_directory("functions") / f"{name.strip('<>')}-{digest}.at"
    file = (read_kept(place) or b"").decode()
    function = function_in(file) if file else None
    if function is None:
        function = compile_it()
        if function.file not in ("", file):
            write_kept(place, function.file.encode())
    return function


def function_in(file: str) -> CFunction | None:
    """The function of an object file, in which the code stands behind a line with all names that it needs."""
    header, _, code = (read_kept(cache_directory("functions") / file) or b"").partition(b"\n")
    name, *called = header.decode().split("\t")
    if not (code and all(map(_is_reachable, called))):
        return None
    function = CFunction(*linked(code, name), file)
    _LOADED.append(function)
    return function


@cache
def _surroundings() -> str:
    """What compiles: files of the package, versions, machine and settings; empty where files have changed."""
    package, content = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(path for room in ROOMS for path in (package / room).glob("*.py")):
        status = path.stat()
        if max(status.st_mtime, status.st_ctime) > _IMPORTED:
            return ""  # The modules of this process are others than those that the files have.
        content.update(path.read_bytes())
    numba = find_spec("numba")
    if numba is not None and numba.origin:
        content.update((Path(numba.origin).parent / "_version.py").read_bytes())
    settings = sorted(pair for pair in os.environ.items() if pair[0].startswith("NUMBA_"))
    settings = [(name, value) for name, value in settings if name not in WITHOUT_EFFECT]
    versions = llvmlite.__version__, np.__version__, sys.version_info[:2], toolchain().name
    return f"{content.hexdigest()} {versions} {settings}"


def _is_reachable(symbol: str) -> bool:
    """Whether an object file can refer to something by its name; LLVM ends the process if it cannot."""
    exception = getattr(builtins, symbol.removeprefix("PyExc_"), None) if symbol[:6] == "PyExc_" else None
    if exception is not None:  # numba refers to the objects, where Python has variables of these names
        add_symbol(symbol, id(exception))
    address_of = toolchain().binding.address_of_symbol
    if symbol in OF_NUMBA and address_of(symbol) is None:
        _forwarders()
    elif symbol.startswith("NRT_") and address_of(symbol) is None:  # of a kernel that makes arrays
        runtime, registry = import_module("numba.core.runtime"), import_module("numba.core.registry")
        runtime.rtsys.initialize(registry.cpu_target.target_context)
    return address_of(symbol) is not None


@once
def _forwarders() -> Any:
    """Functions by the names of :data:`OF_NUMBA` that import numba and call those which it has."""

    def of_numba(which: int) -> int:
        library, _, name = OF_NUMBA[which].partition("_")
        home = "numba._helperlib" if library == "numba" else "numba.core.runtime._nrt_python"
        return int(import_module(home).c_helpers[name])

    callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(of_numba)
    add_symbol("dae_sdc_of_numba", int(ctypes.cast(callback, ctypes.c_void_p).value or 0))
    place, lines = pointer("i64 (i64, i64, i64)"), ["declare i64 @dae_sdc_of_numba(i64)"]
    for which, name in enumerate(OF_NUMBA):
        lines += [
            f"define i64 @{name}(i64 %a, i64 %b, i64 %c) nounwind {{",
            f"%at = call i64 @dae_sdc_of_numba(i64 {which})",
            f"%function = inttoptr i64 %at to {place}",
            "%result = call i64 %function(i64 %a, i64 %b, i64 %c)",
            "ret i64 %result",
            "}",
        ]
    _, owners = linked(assembled("\n".join(lines), 0, keep=True), OF_NUMBA[0])
    for name in OF_NUMBA:
        add_symbol(name, owners[0].get_function_address(name))
    return callback, owners
