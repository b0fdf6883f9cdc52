"""An interpreter of programs that are too long to be compiled.

It is compiled once and reads the instructions of any program from a tape: rows ``op, a, b, c`` of numbers, of
which each leaves its result in the next slot. First come the instructions that load inputs and constants,
last those that write outputs, so that slots are numbered as in the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dae_sdc.expressions import llvm
from dae_sdc.expressions.instructions import SUBTRACT, declarations, operation
from dae_sdc.expressions.operations import Op
from dae_sdc.expressions.program import KINDS, Program
from dae_sdc.sharing import once

_LOAD_INPUT: Final = SUBTRACT + 1  # one for each kind of input, in the order of KINDS
_LOAD_CONSTANT: Final = _LOAD_INPUT + len(KINDS)
_OUTPUT: Final = _LOAD_CONSTANT + 1
_END: Final = _OUTPUT + 1
_NAME: Final = "dae_sdc_interpret"


def tape(program: Program, code: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The tape of a program whose instructions are ``code``."""
    kinds = [_LOAD_INPUT + KINDS.index(entry.kind) for entry in program.inputs]
    indices = [entry.index for entry in program.inputs]
    k, n = len(program.constants), len(program.outputs)
    heads = [*kinds, *[_LOAD_CONSTANT] * k, *code[:, 0], *[_OUTPUT] * n, _END]
    first = [*indices, *range(k), *code[:, 1], *program.outputs, 0]
    second = [0] * (len(kinds) + k)
    rows = np.zeros((len(heads), 4), dtype=np.int32)
    rows[:, 0], rows[:, 1] = heads, first
    at = len(second)
    rows[at : at + len(code), 2:] = code[:, 2:]
    rows[at + len(code) : -1, 2] = np.arange(n)
    return rows


@once
def interpreter() -> tuple[str, tuple[Any, ...]]:
    """The name by which compiled code calls the interpreter, and its owners.

    ``void dae_sdc_interpret(i64 tape, i64 constants, i64 slots, double t, double* u, double* du, double c,
    double* p, double* out)``
    """
    content = llvm.assembled(_text(), 2, keep=True)
    address, owners = llvm.linked(content, _NAME)
    llvm.add_symbol(_NAME, address)
    return _NAME, owners


def declaration() -> str:
    """How a module declares the interpreter."""
    place = llvm.pointer("double")
    return f"declare void @{_NAME}(i64, i64, i64, double, {place}, {place}, double, {place}, {place})"


def _text() -> str:
    """The interpreter; the code of each operation ends with a jump to that of the next one, by a table."""
    place, word, byte = (llvm.pointer(kind) for kind in ("double", "i32", "i8"))
    handlers = _handlers(place)
    ops = sorted(handlers)
    targets = ", ".join(f"label %op{op}" for op in ops)
    table = ", ".join(
        f"{byte} blockaddress(@{_NAME}, %op{op if op in handlers else _END})" for op in range(_END + 1)
    )
    size = f"[{_END + 1} x {byte}]"

    def jump(row: str, tag: str) -> list[str]:
        return [
            f"%head{tag} = load i32, {word} {row}",
            f"%at{tag} = zext i32 %head{tag} to i64",
            f"%entry{tag} = getelementptr inbounds {size}, {llvm.pointer(size)} @table, i64 0, i64 %at{tag}",
            f"%next{tag} = load {byte}, {llvm.pointer(byte)} %entry{tag}",
            f"indirectbr {byte} %next{tag}, [{targets}]",
        ]

    lines = [
        *declarations(),
        f"declare {byte} @malloc(i64)",
        f"declare void @free({byte})",
        f"@table = internal constant {size} [{table}]",
        f"define void @{_NAME}(i64 %tape, i64 %constants, i64 %slots, double %t, {place} %u, {place} %du, "
        f"double %c, {place} %p, {place} %out) nounwind {{",
        "start:",
        f"%row = inttoptr i64 %tape to {word}",
        f"%k = inttoptr i64 %constants to {place}",
        "%size = mul i64 %slots, 8",
        f"%memory = call {byte} @malloc(i64 %size)",
        f"%w = bitcast {byte} %memory to {place}",
        *jump("%row", ""),
    ]
    for op in ops:
        comes = [("start", "%row", "%w")]
        comes += [(f"end{one}", f"%row{one}n", f"%result{one}n") for one in ops if one != _END]
        rows = ", ".join(f"[{row}, %{block}]" for block, row, _ in comes)
        results = ", ".join(f"[{result}, %{block}]" for block, _, result in comes)
        lines += [f"op{op}:", f"%row{op} = phi {word} {rows}", f"%result{op} = phi {place} {results}"]
        if op == _END:
            lines += [f"call void @free({byte} %memory)", "ret void"]
            continue
        for at in (1, 2, 3):
            lines += [
                f"%field{op}_{at} = getelementptr inbounds i32, {word} %row{op}, i64 {at}",
                f"%f{op}_{at} = load i32, {word} %field{op}_{at}",
                f"%i{op}_{at} = sext i32 %f{op}_{at} to i64",
            ]
        lines += handlers[op](op)
        lines += [
            f"br label %end{op}",
            f"end{op}:",
            f"%row{op}n = getelementptr inbounds i32, {word} %row{op}, i64 4",
            f"%result{op}n = getelementptr inbounds double, {place} %result{op}, i64 1",
            *jump(f"%row{op}n", str(op)),
        ]
    return "\n".join([*lines, "}"])


def _handlers(place: str) -> dict[int, Callable[[int], list[str]]]:
    """The lines of every operation, given the fields of its row as i{op}_1 to i{op}_3."""

    def load(op: int, base: str, at: int) -> list[str]:
        return [
            f"%g{op}_{at} = getelementptr inbounds double, {place} {base}, i64 %i{op}_{at}",
            f"%v{op}_{at} = load double, {place} %g{op}_{at}",
        ]

    def store(op: int, value: str) -> str:
        return f"store double {value}, {place} %result{op}"

    def calculate(op: int) -> list[str]:
        operands = range(1, 1 + (2 if op == SUBTRACT else Op(op).arity))
        lines = [line for at in operands for line in load(op, "%w", at)]
        lines.append(operation(op, f"%r{op}", *(f"%v{op}_{at}" for at in operands)))
        return [*lines, store(op, f"%r{op}")]

    def from_memory(base: str) -> Callable[[int], list[str]]:
        return lambda op: [*load(op, base, 1), store(op, f"%v{op}_1")]

    def output(op: int) -> list[str]:
        return [
            *load(op, "%w", 1),
            f"%o{op} = getelementptr inbounds double, {place} %out, i64 %i{op}_2",
            f"store double %v{op}_1, {place} %o{op}",
        ]

    def power(op: int) -> list[str]:
        """Squares, as integer_power, in a loop."""
        return [
            *load(op, "%w", 1),
            f"%negative = icmp slt i32 %f{op}_2, 0",
            f"%minus = sub i32 0, %f{op}_2",
            f"%exponent = select i1 %negative, i32 %minus, i32 %f{op}_2",
            "br label %squares",
            "squares:",
            f"%left = phi i32 [%exponent, %op{op}], [%rest, %again]",
            f"%square = phi double [%v{op}_1, %op{op}], [%higher, %again]",
            f"%found = phi double [1.0, %op{op}], [%more, %again]",
            "%done = icmp eq i32 %left, 0",
            "br i1 %done, label %last, label %again",
            "again:",
            "%bit = and i32 %left, 1",
            "%odd = icmp ne i32 %bit, 0",
            "%product = fmul double %found, %square",
            "%more = select i1 %odd, double %product, double %found",
            "%higher = fmul double %square, %square",
            "%rest = lshr i32 %left, 1",
            "br label %squares",
            "last:",
            "%inverse = fdiv double 1.0, %found",
            "%power = select i1 %negative, double %inverse, double %found",
            store(op, "%power"),
        ]

    plain = [op for op in Op if op not in (Op.CONSTANT, Op.INPUT, Op.INTPOW)]
    handlers: dict[int, Callable[[int], list[str]]] = {int(op): calculate for op in [*plain, SUBTRACT]}
    handlers[int(Op.INTPOW)] = power
    for at, kind in enumerate(KINDS):
        if kind in ("t", "c"):
            handlers[_LOAD_INPUT + at] = lambda op, kind=kind: [store(op, f"%{kind}")]  # type: ignore[misc]
        else:
            handlers[_LOAD_INPUT + at] = from_memory(f"%{kind}")
    handlers[_LOAD_CONSTANT] = from_memory("%k")
    handlers[_OUTPUT] = output
    handlers[_END] = lambda op: []
    return handlers
