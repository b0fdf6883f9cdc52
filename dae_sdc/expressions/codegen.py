"""Machine code from programs, by LLVM, which numba brings along, and an interpreter of longer programs.

A compiled program is a C function with one of two signatures, which are those of the kernels of a problem
(:mod:`dae_sdc.dae.kernels`)::

    residual(double t, double* u, double* du, double* p, double* out)
    jacobian(double t, double* u, double* du, double c, double* p, double* out)

The time that LLVM needs grows faster than the length of a function, so that a long program becomes many short
ones which pass numbers on in memory. Short programs are optimised, long ones only translated, and the longest
are read by an interpreter, which is compiled once, from a tape: rows ``op, a, b, c`` of numbers, of which
each leaves its result in the next slot. First come the instructions that load inputs and constants, last
those that write outputs, so that slots are numbered as in the program. Object files are kept on disk.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from dae_sdc.deadline import under_way
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import FUNCTIONS, Op, integer_power
from dae_sdc.expressions.graph import KINDS, Program
from dae_sdc.llvm import add_symbol, assembled, linked, pointer
from dae_sdc.sharing import Lock, Recent, once

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


def power_text(r: str, base: str, exponent: int) -> tuple[list[str], str]:
    """The power of a value with an integer exponent by squaring."""
    lines: list[str] = []

    def product(a: str, b: str) -> str:
        lines.append(f"{r}p{len(lines)} = fmul double {a}, {b}")
        return f"{r}p{len(lines) - 1}"

    power = integer_power(base, abs(exponent), product) if exponent else literal(1.0)
    if exponent < 0:
        lines.append(f"{r} = fdiv double 1.0, {power}")
        power = r
    return lines, power


Form = Literal["residual", "jacobian"]
How = Literal["auto", "llvm", "tape"]

# Instructions and outputs up to which LLVM optimises a program: about 20 us each, in place of 7 us.
LONGEST_OPTIMISED: Final = 20_000
# Instructions and outputs up to which a program is compiled when the caller does not choose.
LONGEST_COMPILED: Final = 500_000
# Instructions and outputs of a program whose object file is kept; shorter ones are made as fast as read.
SHORTEST_KEPT: Final = 500
FUNCTION_LENGTH: Final = 200  # Instructions and outputs of one function.
# Numbers passed on between functions that have their place in the stack's frame; a page holds them.
MOST_IN_FRAME: Final = 480

_ARITIES: Final = np.array([*(op.arity for op in Op), 2])


_RESIDUAL: Final = ctypes.CFUNCTYPE(None, ctypes.c_double, *[ctypes.c_void_p] * 4)


class Compiled:
    """A program as a C function."""

    def __init__(self, program: Program, form: Form, how: How, address: int, owners: tuple[Any, ...]) -> None:
        self.program, self.form, self.how = program, form, how
        self.address = address
        self.owners = owners

    def at(self, t: float, u: npt.ArrayLike, p: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The outputs of a residual without u'."""
        inputs, parameters = (np.ascontiguousarray(values, dtype=np.float64) for values in (u, p))
        outputs = np.empty(len(self.program.outputs))
        u_at, p_at, out = (array.ctypes.data for array in (inputs, parameters, outputs))
        _RESIDUAL(self.address)(t, u_at, u_at, p_at, out)
        return outputs

    def __reduce__(self) -> Any:
        """As a copy in another process it is compiled again."""
        return compile_program, (self.program, self.form, self.how)

    def __deepcopy__(self, memo: Any) -> Compiled:
        return self

    def __repr__(self) -> str:
        return f"<{self.form} of {len(self.program.code)} instructions, {self.how}>"


_known: weakref.WeakValueDictionary[tuple[str, str, str], Compiled] = weakref.WeakValueDictionary()
# Most instructions of the programs that were asked for last, as a run with other parameters needs them
# again, and what each program counts besides.
MOST_INSTRUCTIONS, INSTRUCTIONS_OF_EACH = 600_000, 2_000
_RECENT: Final[Recent[tuple[str, str, str], Compiled]] = Recent(
    MOST_INSTRUCTIONS, lambda compiled: len(compiled.program.code) + INSTRUCTIONS_OF_EACH
)
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
        compiled = _known.get(key)
        if compiled is None:
            address, owners = (_compile if how == "llvm" else _interpret)(program, form)
            compiled = _known[key] = Compiled(program, form, how, address, owners)
        return _RECENT.keep(key, compiled)


@under_way("equations were compiled")
def _compile(program: Program, form: Form) -> tuple[int, tuple[Any, ...]]:
    size = len(program.code) + len(program.outputs)
    plan = _Plan(program)
    place, byte = pointer("double"), pointer("i8")
    parameters = parameters_of(form)
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
    optimise = int(size <= LONGEST_OPTIMISED)
    return linked(assembled("\n".join(lines), optimise, keep=size >= SHORTEST_KEPT), "kernel")


def _interpret(program: Program, form: Form) -> tuple[int, tuple[Any, ...]]:
    """A function that hands its arguments to the interpreter together with a tape."""
    owners = _interpreter()
    rows = tape(program, _with_subtractions(program))
    slots = program.first_result + len(program.code)
    place = pointer("double")
    c = "%c" if form == "jacobian" else literal(0.0)
    text = f"""declare void @{_NAME}(i64, i64, i64, double, {place}, {place}, double, {place}, {place})
define void @kernel({parameters_of(form)}) nounwind {{
call void @{_NAME}(i64 {rows.ctypes.data}, i64 {program.constants.ctypes.data}, i64 {slots}, double %t, \
{place} %u, {place} %du, double {c}, {place} %p, {place} %out)
ret void
}}"""
    address, own = linked(assembled(text, 0, keep=False), "kernel")
    return address, (*own, *owners, rows, program)


def parameters_of(form: Form) -> str:
    """The parameters of a compiled program in assembly language."""
    place = pointer("double")
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
        # Results that later functions need have a place in memory, which is free after the last one.
        last = last[first + self.kept]
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
            if not free:
                free, self.memory = [self.memory], self.memory + 1
            place = self.places[self.first + int(self.kept[row])] = free.pop()
            ends[end].append(place)


def _chunk(program: Program, plan: _Plan, constants: list[str], number: int) -> list[str]:
    """The lines of one function's body."""
    place = pointer("double")
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
            more, name = power_text(name, operands[0], row[2])
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


# The interpreter

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
    at = len(kinds) + k
    rows = np.zeros((at + len(code) + n + 1, 4), dtype=np.int32)
    rows[:, 0] = [*kinds, *[_LOAD_CONSTANT] * k, *code[:, 0].tolist(), *[_OUTPUT] * n, _END]
    rows[:, 1] = [*indices, *range(k), *code[:, 1].tolist(), *program.outputs.tolist(), 0]
    rows[at : at + len(code), 2:] = code[:, 2:]
    rows[at + len(code) : -1, 2] = np.arange(n)
    return rows


@once
def _interpreter() -> tuple[Any, ...]:
    """What owns the interpreter, which compiled code calls by its name from now on."""
    address, owners = linked(assembled(_text_of_interpreter(), 2, keep=True), _NAME)
    add_symbol(_NAME, address)
    return owners


def _text_of_interpreter() -> str:
    """The interpreter; the code of each operation jumps to that of the next one, by a table."""
    place, word, byte = (pointer(kind) for kind in ("double", "i32", "i8"))
    handlers = _handlers(place)
    targets = ", ".join(f"label %op{op}" for op in (*handlers, _END))
    table = ", ".join(
        f"{byte} blockaddress(@{_NAME}, %op{op if op in handlers else _END})" for op in range(_END + 1)
    )
    size = f"[{_END + 1} x {byte}]"
    lines = [
        *declarations(),
        f"declare {byte} @malloc(i64)",
        f"declare void @free({byte})",
        f"@table = internal constant {size} [{table}]",
        f"define void @{_NAME}(i64 %tape, i64 %constants, i64 %slots, double %t, {place} %u, {place} %du, "
        f"double %c, {place} %p, {place} %out) nounwind {{",
        "start:",
        f"%begin = inttoptr i64 %tape to {word}",
        f"%k = inttoptr i64 %constants to {place}",
        "%size = mul i64 %slots, 8",
        f"%memory = call {byte} @malloc(i64 %size)",
        f"%w = bitcast {byte} %memory to {place}",
        "br label %read",
        "read:",
        f"%row = phi {word} [%begin, %start], [%following, %next]",
        f"%result = phi {place} [%w, %start], [%behind, %next]",
        f"%following = getelementptr inbounds i32, {word} %row, i64 4",
        f"%behind = getelementptr inbounds double, {place} %result, i64 1",
        f"%op = load i32, {word} %row",
        "%number = zext i32 %op to i64",
        f"%entry = getelementptr inbounds {size}, {pointer(size)} @table, i64 0, i64 %number",
        f"%target = load {byte}, {pointer(byte)} %entry",
        f"indirectbr {byte} %target, [{targets}]",
    ]
    for op, handler in handlers.items():
        lines += [f"op{op}:", *handler, "br label %next"]
    lines += ["next:", "br label %read", f"op{_END}:", f"call void @free({byte} %memory)", "ret void", "}"]
    return "\n".join(lines)


def _handlers(place: str) -> dict[int, list[str]]:
    """The lines of every operation."""

    def field(op: int, at: int) -> list[str]:
        return [
            f"%field{op}_{at} = getelementptr inbounds i32, {pointer('i32')} %row, i64 {at}",
            f"%f{op}_{at} = load i32, {pointer('i32')} %field{op}_{at}",
            f"%i{op}_{at} = sext i32 %f{op}_{at} to i64",
        ]

    def load(op: int, base: str, at: int) -> list[str]:
        return [
            *field(op, at),
            f"%g{op}_{at} = getelementptr inbounds double, {place} {base}, i64 %i{op}_{at}",
            f"%v{op}_{at} = load double, {place} %g{op}_{at}",
        ]

    def store(value: str) -> str:
        return f"store double {value}, {place} %result"

    def calculate(op: int) -> list[str]:
        operands = range(1, 1 + int(_ARITIES[op]))
        lines = [line for at in operands for line in load(op, "%w", at)]
        lines.append(operation(op, f"%r{op}", *(f"%v{op}_{at}" for at in operands)))
        return [*lines, store(f"%r{op}")]

    def from_memory(op: int, base: str) -> list[str]:
        return [*load(op, base, 1), store(f"%v{op}_1")]

    handlers = {int(op): calculate(op) for op in [*Op, SUBTRACT] if op in _TEXTS}
    handlers[int(Op.INTPOW)] = [  # squares, as integer_power, in a loop
        *load(Op.INTPOW, "%w", 1),
        *field(Op.INTPOW, 2),
        f"%negative = icmp slt i32 %f{Op.INTPOW}_2, 0",
        f"%minus = sub i32 0, %f{Op.INTPOW}_2",
        f"%exponent = select i1 %negative, i32 %minus, i32 %f{Op.INTPOW}_2",
        "br label %squares",
        "squares:",
        f"%left = phi i32 [%exponent, %op{Op.INTPOW}], [%rest, %again]",
        f"%square = phi double [%v{Op.INTPOW}_1, %op{Op.INTPOW}], [%higher, %again]",
        f"%found = phi double [1.0, %op{Op.INTPOW}], [%more, %again]",
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
        store("%power"),
    ]
    for op, kind in enumerate(KINDS, _LOAD_INPUT):
        handlers[op] = [store(f"%{kind}")] if kind in ("t", "c") else from_memory(op, f"%{kind}")
    handlers[_LOAD_CONSTANT] = from_memory(_LOAD_CONSTANT, "%k")
    handlers[_OUTPUT] = [
        *load(_OUTPUT, "%w", 1),
        *field(_OUTPUT, 2),
        f"%o = getelementptr inbounds double, {place} %out, i64 %i{_OUTPUT}_2",
        f"store double %v{_OUTPUT}_1, {place} %o",
    ]
    return handlers
