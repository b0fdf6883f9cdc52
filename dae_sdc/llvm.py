"""Machine code by LLVM, which numba brings along: translated, kept on disk as object files, and linked."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import math
import sys
from typing import Any

from dae_sdc.sharing import alone, cache_directory, once, read_kept, write_kept


class Toolchain:
    """LLVM for the machine that this runs on."""

    def __init__(self) -> None:
        # Imported when the first code is needed; numba may have initialised it before, which is no harm.
        self.binding = llvm = importlib.import_module("llvmlite.binding")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.target = llvm.Target.from_default_triple()
        self.cpu, self.features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        self.name = repr((llvm.llvm_version_info, llvm.get_default_triple(), self.cpu, self.features))
        self.pointers = llvm.llvm_version_info[0] < 17  # whether pointers have types
        library = ctypes.cdll.ucrtbase if sys.platform == "win32" else ctypes.CDLL(None)
        for name in (*dir(math), "sincos", "__sincos_stret", "malloc", "free"):  # what code may call
            function = getattr(library, name, None)
            if function is not None and llvm.address_of_symbol(name) is None:
                llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)

    def machine(self, optimise: int) -> Any:
        """A new target machine; an engine that gets it owns it."""
        return self.target.create_target_machine(cpu=self.cpu, features=self.features, opt=optimise, jit=True)

    def emit(self, text: str, optimise: int) -> bytes:
        """The object file of a module."""
        module = self.binding.parse_assembly(text, self.binding.create_context())
        return bytes(self.machine(optimise).emit_object(module))


@once
def toolchain() -> Toolchain:
    """The toolchain of this process."""
    return Toolchain()


def pointer(kind: str) -> str:
    """LLVM's type of pointers to a kind of numbers."""
    return f"{kind}*" if toolchain().pointers else "ptr"


def add_symbol(name: str, address: int) -> None:
    """Let programs call the function at an address by a name."""
    toolchain().binding.add_symbol(name, address)


def assembled(text: str, optimise: int, keep: bool) -> bytes:
    """The object file of a module."""
    tools = toolchain()
    if not keep:
        return tools.emit(text, optimise)
    about = hashlib.sha256(f"2 {tools.name} {optimise}\n{text}".encode()).hexdigest()
    place = cache_directory("programs") / f"{about}.o"
    content = read_kept(place)
    if content is None:
        with alone(place):
            content = read_kept(place)
            if content is None:
                content = tools.emit(text, optimise)
                write_kept(place, content)
    return content


def linked(content: bytes, name: str) -> tuple[int, tuple[Any, ...]]:
    """The address of a function of an object file, and what must live as long as it is used."""
    tools = toolchain()
    llvm = tools.binding
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), tools.machine(0))
    engine.add_object_file(llvm.ObjectFileRef.from_data(content))
    engine.finalize_object()
    return int(engine.get_function_address(name)), (engine, content)
