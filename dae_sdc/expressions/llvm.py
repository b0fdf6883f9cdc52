"""LLVM: the operations in its assembly language, and machine code from it in memory and on disk."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import struct
import sys
from typing import Any, Final

from dae_sdc.expressions import operations
from dae_sdc.expressions.operations import FUNCTIONS, Op
from dae_sdc.sharing import alone, cache_directory, once, read_kept, write_kept

SUBTRACT: Final = len(Op)  # The operation a - b, which compiled code has beside those of programs.

# LLVM replaces these by instructions where the machine has them, and joins the sine and cosine of one angle.
_INTRINSICS: Final = {
    Op.SQRT: "llvm.sqrt.f64",
    Op.SIN: "llvm.sin.f64",
    Op.COS: "llvm.cos.f64",
    Op.ABS: "llvm.fabs.f64",
    Op.FLOOR: "llvm.floor.f64",
}
_LIBRARY: Final = {op: op.name.lower() for op in (Op.POW, *FUNCTIONS) if op not in _INTRINSICS}
_CALLED: Final[dict[Op, str]] = _LIBRARY | _INTRINSICS

_EXTREME: Final = """{{r}}x = fcmp {} double {{a}}, {{b}}
{{r}}n = fcmp uno double {{a}}, 0.0
{{r}}y = or i1 {{r}}x, {{r}}n
{{r}} = select i1 {{r}}y, double {{a}}, double {{b}}"""

# r is the result, a, b and c are the operands; {r}x and so on are values on the way.
_TEXTS: Final[dict[int, str]] = {
    Op.ADD: "{r} = fadd double {a}, {b}",
    SUBTRACT: "{r} = fsub double {a}, {b}",
    Op.MUL: "{r} = fmul double {a}, {b}",
    Op.NEG: "{r} = fneg double {a}",
    Op.DIV: "{r} = fdiv double {a}, {b}",
    **{
        op: f"{{r}} = call double @{name}(double {{a}}{', double {b}' if op.arity == 2 else ''})"
        for op, name in _CALLED.items()
    },
    Op.SIGN: """{r}x = fcmp ogt double {a}, 0.0
{r}y = fcmp olt double {a}, 0.0
{r}p = uitofp i1 {r}x to double
{r}m = uitofp i1 {r}y to double
{r}s = fsub double {r}p, {r}m
{r}n = fcmp uno double {a}, 0.0
{r} = select i1 {r}n, double {a}, double {r}s""",
    Op.MIN: _EXTREME.format("olt"),
    Op.MAX: _EXTREME.format("ogt"),
    Op.LT: """{r}x = fcmp olt double {a}, {b}
{r} = uitofp i1 {r}x to double""",
    Op.LE: """{r}x = fcmp ole double {a}, {b}
{r} = uitofp i1 {r}x to double""",
    Op.SELECT: """{r}x = fcmp une double {a}, 0.0
{r} = select i1 {r}x, double {b}, double {c}""",
}


def declarations() -> list[str]:
    """Lines with which a module must begin in order to use any operation."""
    return [f"declare double @{name}({', '.join(['double'] * op.arity)})" for op, name in _CALLED.items()]


def literal(value: float) -> str:
    """A constant, to the last bit."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def operation(op: int, r: str, a: str, b: str = "", c: str = "") -> str:
    """The lines that give ``r`` its value from operands that are values or constants."""
    return _TEXTS[op].format(r=r, a=a, b=b, c=c)


def integer_power(r: str, base: str, exponent: int) -> tuple[list[str], str]:
    """The power of a value with an integer exponent by squaring."""
    lines: list[str] = []

    def product(a: str, b: str) -> str:
        lines.append(f"{r}p{len(lines)} = fmul double {a}, {b}")
        return f"{r}p{len(lines) - 1}"

    power = operations.integer_power(base, abs(exponent), product) if exponent else literal(1.0)
    if exponent < 0:
        lines.append(f"{r} = fdiv double 1.0, {power}")
        power = r
    return lines, power


class Toolchain:
    """LLVM for the machine that this runs on."""

    def __init__(self) -> None:
        # Imported when the first program is compiled; numba may have initialised it before, which is no harm.
        self.binding = llvm = importlib.import_module("llvmlite.binding")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.target = llvm.Target.from_default_triple()
        self.cpu, self.features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        machine = (llvm.llvm_version_info, llvm.get_default_triple(), self.cpu, self.features)
        self.name = repr(machine)
        self.pointers = llvm.llvm_version_info[0] < 17  # whether pointers have types
        library = ctypes.cdll.ucrtbase if sys.platform == "win32" else ctypes.CDLL(None)
        # C functions that compiled programs may call.
        intrinsic = ("sqrt", "sin", "cos", "sincos", "__sincos_stret", "fabs", "floor", "malloc", "free")
        for name in (*_LIBRARY.values(), *intrinsic):
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
