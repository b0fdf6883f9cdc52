"""Machine code from programs, by LLVM, which numba brings along.

A compiled program is a C function with one of two signatures, which are those of the kernels of a problem
(:mod:`dae_sdc.dae.kernels`)::

    residual(double t, double* u, double* du, double* p, double* out)
    jacobian(double t, double* u, double* du, double c, double* p, double* out)

The time that LLVM needs grows faster than the length of a function, so that a long program becomes many short
ones which pass numbers on in memory. Short programs are optimised, long ones only translated, and the longest
are read by an interpreter. Object files are kept on disk.
"""

from __future__ import annotations

import weakref
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from dae_sdc.deadline import under_way
from dae_sdc.errors import InputError
from dae_sdc.expressions import llvm, tape
from dae_sdc.expressions.instructions import SUBTRACT, declarations, integer_power, literal, operation
from dae_sdc.expressions.operations import Op
from dae_sdc.expressions.program import Program
from dae_sdc.sharing import Lock

Form = Literal["residual", "jacobian"]
How = Literal["auto", "llvm", "tape"]

LONGEST_OPTIMISED: Final = 20_000
"""Instructions and outputs up to which LLVM optimises a program: about 20 us each, in place of 7 us."""

LONGEST_COMPILED: Final = 500_000
"""Instructions and outputs up to which a program is compiled when the caller does not choose."""

SHORTEST_KEPT: Final = 500
"""Instructions and outputs of a program whose object file is kept; shorter ones are made as fast as read."""

FUNCTION_LENGTH: Final = 200
"""Instructions and outputs of one function."""

MOST_IN_FRAME: Final = 480
"""Numbers passed on between functions that have their place in the stack's frame; a page holds them."""

_ARITIES: Final = np.array([*(op.arity for op in Op), 2])


class Compiled:
    """A program as a C function."""

    def __init__(self, program: Program, form: Form, how: How, address: int, owners: tuple[Any, ...]) -> None:
        self.program, self.form, self.how = program, form, how
        self.address = address
        self.owners = owners

    def __reduce__(self) -> Any:
        """As a copy in another process it is compiled again."""
        return compile_program, (self.program, self.form, self.how)

    def __copy__(self) -> Compiled:
        return self

    def __deepcopy__(self, memo: Any) -> Compiled:
        return self

    def __repr__(self) -> str:
        return f"<{self.form} of {len(self.program.code)} instructions, {self.how}>"


_known: weakref.WeakValueDictionary[tuple[str, str, str], Compiled] = weakref.WeakValueDictionary()
_COMPILING: Final = Lock()


def compile_program(program: Program, form: Form, how: How = "auto") -> Compiled:
    """Compile a program."""
    if form not in ("residual", "jacobian"):
        raise InputError(f"a program's form is 'residual' or 'jacobian'; got {form!r}")
    if how not in ("auto", "llvm", "tape"):
        raise InputError(f"how a program is compiled is 'auto', 'llvm' or 'tape'; got {how!r}")
    if form == "residual" and any(entry.kind == "c" for entry in program.inputs):
        raise InputError("a residual has no coefficient c; compile the program as a 'jacobian'")
    program = program.used()
    if how == "auto":
        how = "llvm" if len(program.code) + len(program.outputs) <= LONGEST_COMPILED else "tape"
    key = (program.digest(), form, how)
    with _COMPILING:
        found = _known.get(key)
        if found is None:
            address, owners = (_compile if how == "llvm" else _interpret)(program, form)
            found = _known[key] = Compiled(program, form, how, address, owners)
        return found


@under_way("equations were compiled")
def _compile(program: Program, form: Form) -> tuple[int, tuple[Any, ...]]:
    size = len(program.code) + len(program.outputs)
    content = llvm.assembled(
        _text(program, form), 1 if size <= LONGEST_OPTIMISED else 0, keep=size >= SHORTEST_KEPT
    )
    return llvm.linked(content, "kernel")


def _interpret(program: Program, form: Form) -> tuple[int, tuple[Any, ...]]:
    """A function that hands its arguments to the interpreter together with a tape."""
    name, owners = tape.interpreter()
    rows = tape.tape(program, _with_subtractions(program))
    slots = program.first_result + len(program.code)
    place = llvm.pointer("double")
    c = "%c" if form == "jacobian" else literal(0.0)
    text = f"""{tape.declaration()}
define void @kernel({_parameters(form)}) nounwind {{
call void @{name}(i64 {rows.ctypes.data}, i64 {program.constants.ctypes.data}, i64 {slots}, double %t, \
{place} %u, {place} %du, double {c}, {place} %p, {place} %out)
ret void
}}"""
    address, own = llvm.linked(llvm.assembled(text, 0, keep=False), "kernel")
    return address, (*own, *owners, rows, program)


def _parameters(form: Form) -> str:
    place = llvm.pointer("double")
    coefficient = "double %c, " if form == "jacobian" else ""
    return f"double %t, {place} %u, {place} %du, {coefficient}{place} %p, {place} %out"


def _with_subtractions(program: Program) -> npt.NDArray[np.int32]:
    """The instructions, with a - b for a + (-b); a sign that nothing else needs is kept in its place."""
    code = program.code.copy()
    first = program.first_result
    negative = np.zeros(first + len(code), dtype=bool)
    negative[first:] = code[:, 0] == Op.NEG
    origin = np.arange(first + len(code), dtype=np.int32)
    origin[first:][negative[first:]] = code[negative[first:], 1]
    sums = code[:, 0] == Op.ADD
    second = sums.copy()
    second[sums] = negative[code[sums, 2]]
    other = sums & ~second
    other[other] = negative[code[other, 1]]
    code[other, 1:3] = code[other, 2:0:-1]
    both = second | other
    code[both, 0] = SUBTRACT
    code[both, 2] = origin[code[both, 2]]
    return code


class _Plan:
    """The division of a program into functions, and the places of results that they pass on."""

    def __init__(self, program: Program) -> None:
        code, first = _with_subtractions(program), program.first_result
        needed = np.arange(3) < _ARITIES[code[:, 0]][:, None]
        operands = np.where(needed, code[:, 1:], 0)
        uses = np.bincount(operands[needed], minlength=first + len(code))
        uses += np.bincount(program.outputs, minlength=len(uses))
        self.first = first
        self.kept = np.flatnonzero(uses[first:])  # the others are signs in subtractions
        self.code = code[self.kept]
        # A result goes out where it is found; inputs, constants and repetitions go out in the end.
        slots, where = np.unique(program.outputs, return_index=True)
        at_once = slots >= first
        self.outputs = dict(zip(slots[at_once].tolist(), where[at_once].tolist(), strict=True))
        early = np.zeros(len(program.outputs), dtype=bool)
        early[where[at_once]] = True
        late = np.flatnonzero(~early)
        weights = np.ones(len(code), dtype=np.int64)
        weights[slots[at_once] - first] = 2
        chunk = np.cumsum(weights[self.kept]) // FUNCTION_LENGTH
        end = int(chunk[-1]) + 1 if len(chunk) else 0
        late_chunk = end + np.arange(len(late)) // FUNCTION_LENGTH
        self.chunks = max(1, int(late_chunk[-1]) + 1 if len(late) else end)
        last = np.zeros(first + len(code), dtype=np.int64)
        rows, columns = np.nonzero(needed[self.kept])
        np.maximum.at(last, operands[self.kept][rows, columns], chunk[rows])
        np.maximum.at(last, program.outputs[late], late_chunk)
        self.bounds = np.searchsorted(chunk, np.arange(self.chunks + 1)).tolist()
        self.late = [late[late_chunk == at].tolist() for at in range(self.chunks)] if len(late) else []
        self._place(chunk, last[first + self.kept])

    def _place(self, chunk: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> None:
        """Give results that later functions need a place in memory, and free it after the last one."""
        self.places: dict[int, int] = {}
        self.memory = 0
        free: list[int] = []
        ends: list[list[int]] = [[] for _ in range(self.chunks)]
        at = 0
        passed = np.flatnonzero(last > chunk)
        for row, now, end in zip(passed.tolist(), chunk[passed].tolist(), last[passed].tolist(), strict=True):
            while at < now:
                free += ends[at]
                at += 1
            if free:
                place = free.pop()
            else:
                place = self.memory
                self.memory += 1
            self.places[self.first + int(self.kept[row])] = place
            ends[end].append(place)


def _text(program: Program, form: Form) -> str:
    """The program in LLVM's assembly language."""
    plan = _Plan(program)
    place, byte = llvm.pointer("double"), llvm.pointer("i8")
    parameters = _parameters(form)
    lines = [*declarations(), f"declare {byte} @malloc(i64)", f"declare void @free({byte})"]
    constants = [literal(value) for value in program.constants.tolist()]
    for number in range(plan.chunks):
        lines.append(f"define internal void @part{number}({parameters}, {place} %w) nounwind {{")
        lines += _chunk(program, plan, constants, number)
        lines += ["ret void", "}"]
    lines.append(f"define void @kernel({parameters}) nounwind {{")
    if plan.memory > MOST_IN_FRAME:
        lines += [f"%m = call {byte} @malloc(i64 {8 * plan.memory})", f"%w = bitcast {byte} %m to {place}"]
    else:
        lines.append(f"%w = alloca double, i64 {max(1, plan.memory)}")
    lines += [f"call void @part{number}({parameters}, {place} %w)" for number in range(plan.chunks)]
    if plan.memory > MOST_IN_FRAME:
        lines.append(f"call void @free({byte} %m)")
    lines += ["ret void", "}"]
    return "\n".join(lines)


def _chunk(program: Program, plan: _Plan, constants: list[str], number: int) -> list[str]:
    """The lines of one function's body."""
    place = llvm.pointer("double")
    n_inputs, first = len(program.inputs), plan.first
    values: dict[int, str] = {}
    lines: list[str] = []

    def value(slot: int) -> str:
        """The name of a value, which is loaded where the function does not have it."""
        name = values.get(slot)
        if name is not None:
            return name
        if n_inputs <= slot < first:
            return constants[slot - n_inputs]
        name = f"%v{slot}"
        if slot >= first:
            base, index = "w", plan.places[slot]
        else:
            base, index = program.inputs[slot].kind, program.inputs[slot].index
        if base in ("t", "c"):
            name = f"%{base}"
        else:
            lines.append(f"%g{slot} = getelementptr inbounds double, {place} %{base}, i64 {index}")
            lines.append(f"{name} = load double, {place} %g{slot}")
        values[slot] = name
        return name

    def store(text: str, base: str, index: int) -> None:
        lines.append(f"%{base}{index} = getelementptr inbounds double, {place} %{base}, i64 {index}")
        lines.append(f"store double {text}, {place} %{base}{index}")

    arities = _ARITIES.tolist()
    begin, end = plan.bounds[number], plan.bounds[number + 1]
    for row, own in zip(plan.code[begin:end].tolist(), plan.kept[begin:end].tolist(), strict=True):
        op, slot = row[0], first + own
        operands = [value(at) for at in row[1 : 1 + arities[op]]]
        name = f"%v{slot}"
        if op == Op.INTPOW:
            more, name = integer_power(name, operands[0], row[2])
            lines += more
        else:
            lines.append(operation(op, name, *operands))
        values[slot] = name
        if slot in plan.places:
            store(name, "w", plan.places[slot])
        if slot in plan.outputs:
            store(name, "out", plan.outputs[slot])
    for at in plan.late[number] if plan.late else ():
        store(value(int(program.outputs[at])), "out", at)
    return lines
