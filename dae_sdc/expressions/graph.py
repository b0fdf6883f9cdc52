"""Expressions that are differentiated and evaluated, and the straight-line programs that they become.

Programs are the neutral form between expressions and machine code.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partialmethod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dae_sdc.errors import InputError
from dae_sdc.expressions.arithmetic import TIMES_SLOPE, Derivatives
from dae_sdc.expressions.dag import CONSTANTS, IRRATIONAL, STEPS, Leaf, Op
from dae_sdc.sharing import Recent

_IDLE_NUMBERS: Final[tuple[Fraction, ...]] = (Fraction(0), Fraction(1), Fraction(2), Fraction(3, 8))


class Graph(Derivatives):
    """Expressions of unknowns, their derivatives, parameters and time.

    Examples
    --------
    >>> graph = Graph()
    >>> x, y = graph.variable(0), graph.variable(1)
    >>> graph.mul(graph.add(x, y), graph.sub(x, y)) == graph.sub(graph.mul(x, x), graph.mul(y, y))
    True
    """

    def copy(self) -> Graph:
        """A copy of the graph, to which nodes can be added without changing the original."""
        graph = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | dict):
                setattr(graph, name, value.copy())
        graph._digits = None
        return graph

    def substitute(self, nodes: Sequence[int], values: Mapping[int, int]) -> list[int]:
        """Expressions with other nodes in the places of some; what does not depend on these stays."""
        replaced = dict(values)
        for node in self.below(nodes):
            if node in replaced:
                continue
            args = self.args[node]
            operands = self.operands(node)
            if all(replaced[arg] == arg for arg in operands):
                replaced[node] = node
            else:
                put = [replaced[arg] for arg in operands]
                replaced[node] = self.call(self.op[node], *put, *args[len(put) :])
        return [replaced[node] for node in nodes]

    def without(self, nodes: Sequence[int], idle: Iterable[int]) -> list[int]:
        """Expressions without leaves on which they do not depend: a number takes the place of these."""
        leaves = list(idle)
        known = self._known
        *first, last = _IDLE_NUMBERS
        for number in (*first, last):
            # An expression that is equal but written with the leaves must not be found.
            self._known = {self.value[node]: node for node in (*self.numbers, *self.leaves)}
            try:
                others = self.substitute(nodes, dict.fromkeys(leaves, self.constant(number)))
            except InputError:
                if number == last:
                    raise
                continue
            finally:
                known.update(self._known)
                self._known = known
            return others
        raise AssertionError("the last number has been tried")

    def numeric(
        self, nodes: Sequence[int], values: Callable[[Leaf], Any], known: dict[int, Any] | None = None
    ) -> npt.NDArray[np.float64]:
        """Values of expressions by NumPy; those of all their parts are added to ``known`` ones."""
        # Shape of the result: (nodes,) or (nodes, points).
        slots: dict[int, Any] = {} if known is None else known
        with np.errstate(all="ignore"):
            for node in self.below(nodes, known=slots):
                slots[node] = self._evaluated(node, slots, values)
        found = np.broadcast_arrays(*(slots[node] for node in nodes)) if nodes else []
        return np.array(found, dtype=np.float64)

    def _evaluated(self, node: int, slots: Mapping[int, Any], values: Callable[[Leaf], Any]) -> Any:
        number = self.numbers.get(node)
        if number is not None:
            try:
                return np.float64(CONSTANTS[number] if isinstance(number, str) else number)
            except OverflowError:
                raise InputError(
                    "a number in the equations is too large for a float; use other units"
                ) from None
        leaf = self.leaves.get(node)
        if leaf is not None:
            return np.asarray(values(leaf), dtype=np.float64)
        op = self.op[node]
        return op.numpy(*[slots[arg] for arg in self.operands(node)], *self.args[node][op.arity :])

    def program(self, nodes: Sequence[int], inputs: Callable[[Leaf], Input | None]) -> Program:
        """The instructions that compute expressions."""
        order = self.below(nodes)
        given: dict[Input, int] = {}
        slots: dict[int, int] = {}
        idle: list[int] = []
        for node in order:
            leaf = self.leaves.get(node)
            if leaf is not None:
                source = inputs(leaf)
                if source is None:
                    idle.append(node)
                else:
                    slots[node] = given.setdefault(source, len(given))
        # Nodes made of numbers alone are computed here, once.
        fixed = [node for node in order if not self.mark[node] & ~IRRATIONAL]
        constants = self.numeric(fixed, lambda leaf: np.nan) if fixed else np.empty(0)
        slots.update({node: len(given) + at for at, node in enumerate([*fixed, *idle])})
        constants = np.concatenate([constants, np.full(len(idle), 0.7)])  # 0/0 would not cancel
        first = len(given) + len(constants)
        code: list[tuple[int, ...]] = []
        for node in order:
            if node in slots:
                continue
            op, args = self.op[node], self.args[node]
            slots[node] = first + len(code)
            if len(args) == 2:
                code.append((op, slots[args[0]], args[1] if op is Op.INTPOW else slots[args[1]], 0))
            else:
                code.append((op, *[slots[arg] for arg in args], *[0] * (3 - len(args))))
        outputs = [slots[node] for node in nodes]
        return Program(
            tuple(given),
            constants,
            np.array(code, dtype=np.int32).reshape(-1, 4),
            np.array(outputs, dtype=np.int32),
        ).used()


# Kinds of inputs: time, unknowns, their derivatives, parameters, the coefficient of a Jacobian.
KINDS: Final = ("t", "u", "du", "p", "c")

_FIRST = int(Op.ADD)  # constants and inputs have slots, and no instructions
_ARITIES = np.array([op.arity for op in Op])
_FUNCTIONS = [op.numpy for op in Op]


@dataclass(frozen=True, slots=True)
class Input:
    """A number that a program is given: one of :data:`KINDS`, and which of them (0 for t and c)."""

    kind: str
    index: int = 0


@dataclass(frozen=True, eq=False)
class Program:
    """Instructions that each refer to slots before their own: of inputs, constants, and results."""

    inputs: tuple[Input, ...]  # Inputs, in the order in which :meth:`evaluate` takes their values.
    constants: npt.NDArray[np.float64]  # Shape (K,). Numbers.
    # Shape (L, 4). Rows ``op, a, b, c``: an :class:`~dae_sdc.expressions.dag.Op` and the slots of
    # its operands. What an operation does not need is 0; INTPOW has its exponent for b.
    code: npt.NDArray[np.int32]
    outputs: npt.NDArray[np.int32]  # Shape (n_out,). Slots of the results.

    def __post_init__(self) -> None:
        for entry in self.inputs:
            if entry.kind not in KINDS or entry.index < 0:
                raise InputError(
                    f"{entry} is no input of a program; its kind is one of {', '.join(KINDS)}, its index >= 0"
                )
        object.__setattr__(self, "inputs", tuple(self.inputs))
        object.__setattr__(self, "constants", np.array(self.constants, dtype=np.float64).reshape(-1))
        object.__setattr__(self, "code", np.array(self.code, dtype=np.int32).reshape(-1, 4))
        object.__setattr__(self, "outputs", np.array(self.outputs, dtype=np.int32).reshape(-1))
        for array in (self.constants, self.code, self.outputs):
            array.flags.writeable = False
        ops = self.code[:, 0]
        wrong = (ops < _FIRST) | (ops >= len(Op))
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise InputError(f"instruction {at} of the program has no operation: {self.code[at].tolist()}")
        own = self.first_result + np.arange(len(ops))
        needed = np.arange(3) < _ARITIES[ops][:, None]
        operands = self.code[:, 1:]
        missing = needed & ((operands < 0) | (operands >= own[:, None]))
        if missing.any():
            at = int(np.flatnonzero(missing.any(axis=1))[0])
            raise InputError(
                f"instruction {at} of the program, {self.code[at].tolist()}, has an operand without a value; "
                f"its own slot is {own[at]}"
            )
        if ((self.outputs < 0) | (self.outputs >= self.first_result + len(ops))).any():
            raise InputError("an output of the program is no slot of it")

    @property
    def first_result(self) -> int:
        """Slot of the first instruction's result."""
        return len(self.inputs) + len(self.constants)

    @cached_property
    def _instructions(self) -> list[tuple[Any, list[int], list[int]]]:
        """For every instruction NumPy's function, the slots of its operands, and the exponent of INTPOW."""
        found = []
        for op, *operands in self.code.tolist():
            count = 1 if op == Op.INTPOW else int(_ARITIES[op])
            found.append((_FUNCTIONS[op], operands[:count], operands[1:2] if op == Op.INTPOW else []))
        return found

    @cached_property
    def places(self) -> dict[str, tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
        """For each kind of input the slots of those of this kind, and which of the kind they are."""
        found: dict[str, tuple[list[int], list[int]]] = {}
        for slot, entry in enumerate(self.inputs):
            slots, numbers = found.setdefault(entry.kind, ([], []))
            slots.append(slot)
            numbers.append(entry.index)
        return {
            kind: (np.array(a, dtype=np.intp), np.array(b, dtype=np.intp)) for kind, (a, b) in found.items()
        }

    def evaluate(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Carry the program out by NumPy, slowly: the reference for compiled forms."""
        # Shapes: values (inputs,) or (inputs, ...) -> (n_out,) or (n_out, ...).
        given = np.asarray(values, dtype=np.float64)
        if given.ndim == 0 or len(given) != len(self.inputs):
            raise InputError(f"the program has {len(self.inputs)} inputs; got values of shape {given.shape}")
        slots: list[Any] = [*given, *self.constants]
        with np.errstate(all="ignore"):
            for operation, operands, exponent in self._instructions:
                slots.append(operation(*[slots[at] for at in operands], *exponent))
        result = np.empty((len(self.outputs), *given.shape[1:]))
        for at, slot in enumerate(self.outputs.tolist()):
            result[at] = slots[slot]
        return result

    def arguments(
        self,
        t: npt.ArrayLike = 0.0,
        u: npt.ArrayLike = (),
        du: npt.ArrayLike = (),
        p: npt.ArrayLike = (),
        c: npt.ArrayLike = 0.0,
    ) -> npt.NDArray[np.float64]:
        """Values of the inputs from t, u, du, p and c, for :meth:`evaluate`."""
        given = {kind: np.ravel(values) for kind, values in zip(KINDS, (t, u, du, p, c), strict=True)}
        return np.array([given[entry.kind][entry.index] for entry in self.inputs], dtype=np.float64)

    def used(self) -> Program:
        """The program without the instructions and constants on which no output depends."""
        first, n_inputs = self.first_result, len(self.inputs)
        needed = np.arange(3) < _ARITIES[self.code[:, 0]][:, None]
        kept = np.ones(first + len(self.code), dtype=bool)
        while True:
            slots = np.concatenate([self.code[:, 1:][kept[first:, None] & needed], self.outputs])
            used = np.bincount(slots, minlength=len(kept)) > 0
            used[:n_inputs] = True
            if (used == kept).all():
                break
            kept = used
        if kept.all():
            return self
        place = np.cumsum(kept, dtype=np.int32) - 1
        rows, needed = self.code[kept[first:]], needed[kept[first:]]
        operands = np.where(needed, place[np.where(needed, rows[:, 1:], 0)] if len(place) else 0, rows[:, 1:])
        return Program(
            self.inputs,
            self.constants[kept[n_inputs:first]],
            np.column_stack([rows[:, :1], operands]),
            place[self.outputs],
        )

    @cached_property
    def sizes(self) -> Program:
        """A program for the sizes of the outputs if no terms cancelled, to which rounding is relative."""
        return _SIZES.of(self.digest(), lambda: _Sizes(self).program(self))

    def digest(self) -> str:
        """A hash of the inputs, constants, instructions and outputs of the program."""
        inputs = [(entry.kind, entry.index) for entry in self.inputs]
        text = repr((inputs, self.constants.shape, self.code.shape, self.outputs.shape))
        content = hashlib.sha256(text.encode())
        for array in (self.constants, self.code, self.outputs):
            content.update(array.tobytes())
        return content.hexdigest()


MOST_SIZES: Final = 64  # Programs of sizes that are kept.
_SIZES: Final[Recent[str, Program]] = Recent(MOST_SIZES)


class _Sizes:
    """Instructions for the sizes of the results of a program, with the arithmetic of a graph on slots.

    They are the sizes if no terms cancelled: |a + b| <= A + B, |a b| <= A B, |f(a)| <= |f(a)| + |f'(a)| A, as
    4 for (x - 1)^2 at x = 1.

    References
    ----------
    N. Higham, Accuracy and stability of numerical algorithms, SIAM (2002), section 3.3.
    """

    def __init__(self, program: Program) -> None:
        self.rows: list[list[int]] = program.code.tolist()
        self.first = program.first_result
        self.constants: dict[float, int] = {}  # slots of further constants, below 0 until all are known
        self.one = self.constant(1.0)
        self.sizes = [self.call(Op.ABS, slot) for slot in range(self.first)]
        for place, row in enumerate(program.code.tolist()):
            value, size = self.first + place, self._size(Op(row[0]), self.first + place, *row[1:])
            least = self.call(Op.ABS, value)
            finite = self.call(Op.SELECT, self.call(Op.LT, size, self.constant(np.inf)), size, least)
            self.sizes.append(self.call(Op.MAX, finite, least))

    def constant(self, value: float) -> int:
        """The slot of a number."""
        return self.constants.setdefault(float(value), -1 - len(self.constants))

    def call(self, op: Op, *slots: int) -> int:
        """The slot of the result of an operation."""
        self.rows.append([int(op), *slots, *[0] * (3 - len(slots))])
        return self.first + len(self.rows) - 1

    add = partialmethod(call, Op.ADD)
    mul = partialmethod(call, Op.MUL)
    div = partialmethod(call, Op.DIV)
    neg = partialmethod(call, Op.NEG)
    integer_power = partialmethod(call, Op.INTPOW)

    def sub(self, a: int, b: int) -> int:
        """The slot of a - b."""
        return self.add(a, self.neg(b))

    def _size(self, op: Op, value: int, a: int, b: int, c: int) -> int:
        """The slot of the size of a result, which may be smaller than its value, or infinite."""
        first = self.sizes[a]
        if op is Op.INTPOW:
            return self.integer_power(first if b > 0 else self.div(self.mul(a, a), first), b)
        if op in (Op.NEG, Op.ABS):
            return first
        if op in TIMES_SLOPE:
            slope = self.call(Op.ABS, TIMES_SLOPE[op](self, a, value, self.one))
            return self.add(self.call(Op.ABS, value), self.mul(slope, first))
        if op in STEPS:
            return self.constant(0.0)
        second = self.sizes[b]
        if op is Op.SELECT:
            return self.call(Op.SELECT, a, second, self.sizes[c])
        if op is Op.ADD:
            return self.add(first, second)
        if op is Op.MUL:
            return self.mul(first, second)
        if op is Op.DIV:
            return self.div(self.mul(first, second), self.mul(b, b))
        if op is Op.POW:
            x, y, value = (self.call(Op.ABS, slot) for slot in (a, b, value))
            exponent = self.mul(self.call(Op.ABS, self.call(Op.LOG, x)), second)
            return self.mul(value, self.add(self.add(self.one, self.div(self.mul(y, first), x)), exponent))
        if op is Op.ATAN2:
            x, y, value = (self.call(Op.ABS, slot) for slot in (a, b, value))
            both = self.add(self.mul(x, second), self.mul(y, first))
            return self.add(value, self.div(both, self.add(self.mul(a, a), self.mul(b, b))))
        return self.call(Op.MAX, first, second)

    def program(self, of: Program) -> Program:
        """The program whose outputs are the sizes of those of another."""
        count, rows = len(self.constants), np.array(self.rows, dtype=np.int32).reshape(-1, 4)
        slots = np.array([*rows[:, 1:].ravel(), *(self.sizes[slot] for slot in of.outputs.tolist())])
        slots = np.where(slots < self.first, slots, slots + count)
        slots = np.where(slots < 0, self.first - 1 - slots, slots)
        operands, outputs = slots[: 3 * len(rows)].reshape(-1, 3), slots[3 * len(rows) :]
        needed = np.arange(3) < _ARITIES[rows[:, 0]][:, None]
        code = np.column_stack([rows[:, :1], np.where(needed, operands, rows[:, 1:])])
        return Program(of.inputs, np.array([*of.constants, *self.constants]), code, outputs).used()
