"""Programs as machine code and on the interpreter's tape, against NumPy and the C library of Python."""

from __future__ import annotations

import copy
import ctypes
import math
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dae_sdc import sharing
from dae_sdc.dae.kernels import machine
from dae_sdc.errors import DAEWarning, InputError
from dae_sdc.expressions import codegen
from dae_sdc.expressions.codegen import Compiled, compile_program
from dae_sdc.expressions.dag import Cost, Op, cost
from dae_sdc.expressions.graph import Input, Program
from dae_sdc.model.sympy_input import OPERATIONS

INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.75, 2.0, -2.5, 3.0, 1e-300, -1e300, 1e300, 40.25, INF, -INF, NAN]
HOWS = ["llvm", "tape"]

# IEEE 754 fixes every bit of their results.
EXACT = [Op.ADD, Op.MUL, Op.NEG, Op.DIV, Op.INTPOW, Op.SQRT, Op.ABS, Op.SIGN]
EXACT += [Op.MIN, Op.MAX, Op.FLOOR, Op.LT, Op.LE, Op.SELECT]

# The rest, by Python's mathematical functions, which raise where C returns NaN or infinity.
LIBRARY = {
    Op.POW: math.pow,
    Op.EXP: math.exp,
    Op.LOG: math.log,
    Op.SIN: math.sin,
    Op.COS: math.cos,
    Op.TAN: math.tan,
    Op.ASIN: math.asin,
    Op.ACOS: math.acos,
    Op.ATAN: math.atan,
    Op.ATAN2: math.atan2,
    Op.SINH: math.sinh,
    Op.COSH: math.cosh,
    Op.TANH: math.tanh,
    Op.ASINH: math.asinh,
    Op.ACOSH: math.acosh,
    Op.ATANH: math.atanh,
}


@pytest.fixture(autouse=True)
def directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of its own for the object files of every test."""
    base = tmp_path_factory.mktemp("objects")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(base))
    codegen._known.clear()
    return base / "dae_sdc_programs"


def call(compiled: Compiled, t=0.0, u=(), du=(), p=(), c=0.0) -> np.ndarray:
    """The outputs for such arguments."""
    arrays = [np.array(values, dtype=float) for values in (u, du, p)]
    out = np.full(len(compiled.program.outputs), 123.0)
    u, du, p = arrays
    if compiled.form == "residual":
        machine("residual_at")(compiled.address, t, u, du, p, out)
    else:
        machine("jacobian_at")(compiled.address, t, u, du, c, p, out)
    return out


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether all bits agree; NaN has no sign here."""
    number = ~np.isnan(one)
    return bool(
        np.array_equal(number, ~np.isnan(other))
        and np.array_equal(one[number].view(np.int64), other[number].view(np.int64))
    )


def one_operation(op: Op) -> Program:
    arity = op.arity
    inputs = tuple(Input("u", j) for j in range(arity))
    return Program(inputs, [], [[op, *range(arity), *[0] * (3 - arity)]], [arity])


def combinations(arity: int) -> np.ndarray:
    return np.array(np.meshgrid(*[SPECIAL] * arity)).reshape(arity, -1)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("op", [op for op in EXACT if op != Op.INTPOW], ids=lambda op: op.name)
def test_arithmetic_agrees_with_numpy_to_the_last_bit(op: Op, how: str) -> None:
    program = one_operation(op)
    points = combinations(op.arity)
    if op.arity == 3:
        points = points[:, ::7]
    compiled = compile_program(program, "residual", how)
    found = np.array([call(compiled, u=point)[0] for point in points.T])
    assert same_bits(found, program.evaluate(points)[0])


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("op", list(LIBRARY), ids=lambda op: op.name)
def test_functions_agree_with_the_library_of_python(op: Op, how: str) -> None:
    program = one_operation(op)
    compiled = compile_program(program, "residual", how)
    points = combinations(op.arity)
    tested = 0
    for point, reference in zip(points.T, program.evaluate(points)[0], strict=True):
        (found,) = call(compiled, u=point)
        try:
            expected = LIBRARY[op](*point)
        except (ValueError, OverflowError):  # a pole, a result too large, or no value
            assert not math.isfinite(found), point
            assert found == reference or (math.isnan(found) and math.isnan(reference)), point
            continue
        tested += 1
        for value in (found, reference):
            assert value == pytest.approx(expected, rel=1e-15, abs=0, nan_ok=True), point
    assert tested > len(points.T) / 4


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    ("op", "operands", "expected"),
    [
        (Op.DIV, (1.0, 0.0), INF),
        (Op.DIV, (1.0, -0.0), -INF),
        (Op.DIV, (0.0, 0.0), NAN),
        (Op.LOG, (0.0,), -INF),
        (Op.LOG, (-1.0,), NAN),
        (Op.SQRT, (-1.0,), NAN),
        (Op.ASIN, (1.5,), NAN),
        (Op.ACOSH, (0.5,), NAN),
        (Op.ATANH, (1.0,), INF),
        (Op.EXP, (1000.0,), INF),
        (Op.POW, (-8.0, 1 / 3), NAN),
        (Op.POW, (-8.0, 3.0), -512.0),
        (Op.POW, (0.0, -1.0), INF),
        (Op.POW, (NAN, 0.0), 1.0),
        (Op.ATAN2, (1.0, -1.0), 0.75 * math.pi),
        (Op.ATAN2, (-0.0, -1.0), -math.pi),
        (Op.SIGN, (-3.0,), -1.0),
        (Op.SIGN, (-0.0,), 0.0),
        (Op.SIGN, (NAN,), NAN),
        (Op.MIN, (NAN, 1.0), NAN),
        (Op.MIN, (1.0, NAN), NAN),
        (Op.MAX, (1.0, NAN), NAN),
        (Op.MAX, (-2.0, 3.0), 3.0),
        (Op.FLOOR, (-1.5,), -2.0),
        (Op.LT, (1.0, 1.0), 0.0),
        (Op.LE, (1.0, 1.0), 1.0),
        (Op.LE, (NAN, NAN), 0.0),
        (Op.SELECT, (0.5, 2.0, 3.0), 2.0),
        (Op.SELECT, (-0.0, 2.0, 3.0), 3.0),
        (Op.SELECT, (NAN, 2.0, 3.0), 2.0),
        (Op.SELECT, (0.0, NAN, 3.0), 3.0),
    ],
)
def test_special_values_are_those_of_c(op: Op, operands: tuple, expected: float, how: str) -> None:
    program = one_operation(op)
    (found,) = call(compile_program(program, "residual", how), u=operands)
    for value in (found, program.evaluate(operands)[0]):
        assert value == pytest.approx(expected, rel=1e-15, abs=0, nan_ok=True)
        assert math.isnan(expected) or math.copysign(1.0, value) == math.copysign(1.0, expected)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 10, 1000, -1, -2, -5, 2**31 - 1, -(2**31)])
def test_integer_powers(exponent: int, how: str) -> None:
    program = Program((Input("u"),), [], [[Op.INTPOW, 0, exponent, 0]], [1])
    compiled = compile_program(program, "residual", how)
    for base in SPECIAL:
        (found,) = call(compiled, u=[base])
        assert same_bits(np.array([found]), program.evaluate([base]))
        if abs(exponent) <= 10 and 0.1 < abs(base) < 100:
            assert found == pytest.approx(base**exponent, rel=4e-15)
    assert math.isnan(call(compiled, u=[NAN])[0]) == (exponent != 0)  # pow(NaN, 0) is 1


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Any program of operations whose results are exact."""
    inputs = [Input("t"), Input("c"), Input("u", 2), Input("du", 1), Input("p", 3), Input("u", 0)]
    inputs = inputs[: draw(st.integers(0, len(inputs)))]
    constants = draw(st.lists(st.sampled_from(SPECIAL), min_size=0 if inputs else 1, max_size=3))
    code = []
    slots = len(inputs) + len(constants)
    for _ in range(draw(st.integers(0, 25))):
        op = draw(st.sampled_from([*EXACT, Op.ADD, Op.NEG]))
        operands = [draw(st.integers(0, slots - 1)) for _ in range(3)]
        if op == Op.INTPOW:
            operands[1] = draw(st.integers(-5, 20))
        code.append([op, *operands])
        slots += 1
    outputs = draw(st.lists(st.integers(0, slots - 1), max_size=8))
    return Program(tuple(inputs), constants, code, outputs)


NUMBERS = st.one_of(st.sampled_from(SPECIAL), st.floats(-10, 10))


@given(program=programs(), values=st.lists(NUMBERS, min_size=10, max_size=10), data=st.data())
def test_any_program_agrees_with_numpy(program: Program, values: list[float], data: st.DataObject) -> None:
    t, c, u, du, p = values[0], values[1], values[2:5], values[5:7], values[6:10]
    expected = program.evaluate(program.arguments(t, u, du, p, c))
    assert same_bits(program.used().evaluate(program.arguments(t, u, du, p, c)), expected)
    with pytest.MonkeyPatch.context() as patch:
        # Parts of a few instructions, on both ways through memory, and both ways of LLVM.
        patch.setattr(codegen, "FUNCTION_LENGTH", data.draw(st.integers(1, 5)))
        patch.setattr(codegen, "MOST_IN_FRAME", data.draw(st.sampled_from([0, 480])))
        patch.setattr(codegen, "LONGEST_OPTIMISED", data.draw(st.sampled_from([0, 20_000])))
        for how in HOWS:
            codegen._known.clear()
            found = call(compile_program(program, "jacobian", how), t, u, du, p, c)
            assert same_bits(found, expected), how


def long_program(length: int, exact: bool = True) -> Program:
    """Of numbers a and b in [-1, 1], near ones and some from far back: 1 - 2 |a b|, or -sin(1 + a b)."""
    random = np.random.default_rng(1)
    inputs = tuple(Input("u", j) for j in range(50))
    base, groups = len(inputs) + 2, np.arange(length // 4)[:, None]
    near = groups - random.geometric(0.05, (len(groups), 2))
    far = (random.random((len(groups), 2)) * groups).astype(int)
    group = np.where(random.random((len(groups), 2)) < 0.9, near, far)
    operands = np.where((group >= 0) & (groups > 0), base + 4 * group + 3, group % 50)
    first = base + 4 * groups[:, 0]
    code = np.zeros((len(groups), 4, 4))
    code[:, 0, 0], code[:, 0, 1:3] = Op.MUL, operands
    code[:, 1:, 1] = first[:, None] + np.arange(3)
    if exact:
        code[:, 1, 0], code[:, 2, 0], code[:, 3, 0] = Op.ABS, Op.MUL, Op.ADD
        code[:, 2, 2], code[:, 3, 2] = base - 1, base - 2
    else:
        code[:, 1, 0], code[:, 2, 0], code[:, 3, 0] = Op.ADD, Op.SIN, Op.NEG
        code[:, 1, 2] = base - 2
    chosen = np.sort(random.choice(len(groups), len(groups) // 10, replace=False))
    return Program(inputs, [1.0, -2.0], code.reshape(-1, 4), [*first[chosen] + 3, first[-1] + 3])


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("exact", [True, False])
def test_long_programs(exact: bool, how: str) -> None:
    program = long_program(30_000, exact)
    u = np.random.default_rng(2).uniform(-1, 1, 50)
    expected = program.evaluate(u)
    assert len(program.used().code) > 20_000
    assert np.abs(expected).max() <= 1.0 and np.std(expected) > 0.01  # numbers that say something
    found = call(compile_program(program, "residual", how), u=u)
    if exact:
        assert same_bits(found, expected)
    else:
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_several_points_are_evaluated_at_once() -> None:
    program = long_program(200)
    points = np.random.default_rng(3).uniform(-1, 1, (50, 2, 3))
    found = program.evaluate(points)
    assert found.shape == (len(program.outputs), 2, 3)
    for j in range(2):
        for k in range(3):
            assert found[:, j, k] == pytest.approx(program.evaluate(points[:, j, k]), rel=1e-13, nan_ok=True)


def test_the_longest_programs_go_to_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    program = long_program(300)
    size = len(program.used().code) + len(program.outputs)
    monkeypatch.setattr(codegen, "LONGEST_COMPILED", size)
    assert compile_program(program, "residual").how == "llvm"
    monkeypatch.setattr(codegen, "LONGEST_COMPILED", size - 1)
    assert compile_program(program, "residual").how == "tape"


# --- pendulum: a residual and a Jacobian as kernels -----------------------------------------------


@pytest.fixture
def pendulum() -> tuple[Program, Program]:
    """u = (x, y), p = (g): x' - y, y' + g sin x; c dF/du + dF/du' by columns."""
    residual = Program(
        (Input("u", 0), Input("u", 1), Input("du", 0), Input("du", 1), Input("p", 0)),
        [],
        [[Op.NEG, 1, 0, 0], [Op.ADD, 5, 2, 0], [Op.SIN, 0, 0, 0], [Op.MUL, 4, 7, 0], [Op.ADD, 3, 8, 0]],
        [6, 9],
    )
    jacobian = Program(
        (Input("u", 0), Input("p", 0), Input("c")),
        [1.0],
        [[Op.COS, 0, 0, 0], [Op.MUL, 4, 1, 0], [Op.MUL, 5, 2, 0], [Op.NEG, 2, 0, 0]],
        [3, 6, 7, 3],
    )
    return residual, jacobian


@pytest.mark.parametrize("how", HOWS)
def test_compiled_functions_are_kernels(pendulum: tuple[Program, Program], how: str) -> None:
    residual, jacobian = (
        compile_program(program, form, how)
        for program, form in zip(pendulum, ("residual", "jacobian"), strict=True)
    )
    g, c = 9.81, 3.5
    u, du = np.array([0.3, -1.2]), np.array([0.25, 4.0])
    expected = [0.25 + 1.2, 4.0 + g * math.sin(0.3)]
    assert call(residual, u=u, du=du, p=[g]) == pytest.approx(expected, rel=1e-15)
    found = call(jacobian, u=u, du=du, p=[g], c=c)
    assert found == pytest.approx([1.0, c * g * math.cos(0.3), -c, 1.0], rel=1e-15)
    nodes = 3  # at several nodes, from compiled code
    out = np.zeros((nodes, 2))
    several = np.tile(u, (nodes, 1)), np.tile(du, (nodes, 1))
    machine("residuals_at")(residual.address, np.zeros(nodes), *several, np.array([g]), out)
    assert out == pytest.approx(np.tile(expected, (nodes, 1)), rel=1e-15)


@pytest.mark.parametrize("how", HOWS)
def test_threads_do_not_disturb_each_other(how: str) -> None:
    program = long_program(6_000)
    compiled = compile_program(program, "residual", how)
    pointer = ctypes.POINTER(ctypes.c_double)
    function = ctypes.CFUNCTYPE(None, ctypes.c_double, *[pointer] * 4)(compiled.address)
    points = np.random.default_rng(4).uniform(-1, 1, (4, 50))
    expected = [call(compiled, u=u) for u in points]

    def repeat(number: int) -> bool:
        u, out = points[number], np.zeros(len(program.outputs))
        address = u.ctypes.data_as(pointer)
        return all(
            function(0.0, address, address, address, out.ctypes.data_as(pointer)) is None
            and same_bits(out, expected[number])
            for _ in range(200)
        )

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(repeat, range(4)))


def test_copies(pendulum: tuple[Program, Program]) -> None:
    compiled = compile_program(pendulum[0], "residual")
    assert copy.deepcopy(compiled) is compiled
    assert compile_program(pendulum[0], "residual") is compiled
    content = pickle.dumps(compiled)
    expected = call(compiled, u=[0.3, -1.2], du=[0.25, 4.0], p=[9.81])
    codegen._known.clear()
    again = pickle.loads(content)
    assert again is not compiled
    assert same_bits(call(again, u=[0.3, -1.2], du=[0.25, 4.0], p=[9.81]), expected)


# --- object files on disk -------------------------------------------------------------------------


def objects(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.exists() else []


def constant_program(number: float) -> Program:
    """Long enough to be kept; its first output is the number."""
    code = [[Op.MUL, 1, 0, 0], *([Op.ADD, 1 + k, 0, 0] for k in range(1, 600))]
    return Program((Input("t"),), [number], code, [1, 601])


def value(program: Program) -> float:
    """What a program finds at the first output, compiled afresh."""
    codegen._known.clear()
    return float(call(compile_program(program, "residual", "llvm"))[0])


def test_object_files_are_kept_and_read(directory: Path) -> None:
    assert value(constant_program(1.0)) == 1.0
    (one,) = objects(directory)
    assert value(constant_program(1.0)) == 1.0
    assert objects(directory) == [one]
    assert value(constant_program(2.0)) == 2.0
    (other,) = set(objects(directory)) - {one}
    one.write_bytes(
        other.read_bytes()
    )  # whole, but that of the other program: only a file that is read shows
    assert value(constant_program(1.0)) == 2.0


def test_short_programs_are_not_kept(directory: Path) -> None:
    compile_program(one_operation(Op.ADD), "residual", "llvm")
    assert objects(directory) == []


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "other"])
def test_damaged_object_files_are_made_again(directory: Path, damage: str) -> None:
    assert value(constant_program(1.0)) == 1.0
    (path,) = objects(directory)
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 255
    path.write_bytes({"cut": whole[:-1], "changed": changed, "empty": b"", "other": b"no object" * 9}[damage])
    with pytest.warns(DAEWarning, match=f"{path.name} was damaged"):
        assert value(constant_program(1.0)) == 1.0
    assert objects(directory) == [path]
    assert path.read_bytes() == whole


def test_without_a_place_for_object_files(directory: Path) -> None:
    directory.parent.mkdir(exist_ok=True)
    directory.write_text("a file in the place of the directory")
    assert value(constant_program(1.0)) == 1.0
    assert directory.read_text() == "a file in the place of the directory"


def test_a_directory_in_the_place_of_an_object_file(directory: Path) -> None:
    assert value(constant_program(1.0)) == 1.0
    (path,) = objects(directory)
    path.unlink()
    path.mkdir()
    assert value(constant_program(1.0)) == 1.0
    assert objects(directory) == [path]  # nothing unfinished beside it


def test_old_object_files_make_way(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value(constant_program(1.0))
    (first,) = objects(directory)
    value(constant_program(2.0))
    (second,) = set(objects(directory)) - {first}
    monkeypatch.setattr(sharing, "CACHE_BYTES", int(2.5 * first.stat().st_size))
    os.utime(first, (1000, 1000))
    os.utime(second, (2000, 2000))
    value(constant_program(1.0))  # used again, so that the second is the older one
    value(constant_program(3.0))
    assert first.exists() and not second.exists()
    assert len(objects(directory)) == 2


PROCESS = """
import ctypes
from dae_sdc.expressions.codegen import compile_program
from dae_sdc.expressions.dag import Op
from dae_sdc.expressions.graph import Input, Program
for number in range(1, 21):
    code = [[Op.MUL, 1, 0, 0], *([Op.ADD, 1 + k, 0, 0] for k in range(1, 600))]
    compiled = compile_program(Program((Input("t"),), [number], code, [1, 601]), "residual")
    out = (ctypes.c_double * 2)()
    place = ctypes.POINTER(ctypes.c_double)
    ctypes.CFUNCTYPE(None, ctypes.c_double, *[place] * 4)(compiled.address)(0.0, None, None, None, out)
    assert out[0] == number
"""


def test_processes_share_object_files(directory: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", PROCESS], stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    assert len(objects(directory)) == 20
    assert all(path.suffix == ".o" for path in objects(directory))


# --- programs themselves --------------------------------------------------------------------------


def test_instructions_that_nothing_needs_are_dropped() -> None:
    program = Program(
        (Input("t"), Input("u", 3)),
        [7.0, 2.0],
        [
            [Op.SIN, 0, 0, 0],
            [Op.MUL, 1, 3, 0],
            [Op.INTPOW, 5, -3, 0],
            [Op.SELECT, 0, 1, 2],
            [Op.EXP, 4, 0, 0],
        ],
        [6, 1, 6],
    )
    used = program.used()
    assert used.inputs == program.inputs
    assert used.constants.tolist() == [2.0]
    assert used.code.tolist() == [[Op.MUL, 1, 2, 0], [Op.INTPOW, 3, -3, 0]]
    assert used.outputs.tolist() == [4, 1, 4]
    assert used.evaluate([9.0, 0.25]).tolist() == [8.0, 0.25, 8.0]
    assert used.used() is used


def test_costs_of_operations() -> None:
    plain = [cost(op) for op in (Op.SIN, Op.ADD, Op.NEG, Op.DIV, Op.MUL, Op.SQRT)]
    # x^7 = x x^2 x^4 is four products, and its inverse a division
    powers = [cost(Op.INTPOW, exponent) for exponent in (-7, 2, 2)]
    totals = Cost(*map(sum, zip(*plain, *powers, strict=True)))
    assert totals == Cost(functions=2, multiplications=7, additions=1, divisions=2)


@given(st.integers(-300, 300))
def test_the_cost_of_an_integer_power_is_what_it_takes(exponent: int) -> None:
    class Counted:
        products = divisions = 0

        def __mul__(self, other: object) -> Counted:
            Counted.products += 1
            return self

        def __rtruediv__(self, other: object) -> Counted:
            Counted.divisions += 1
            return self

    Counted.products = Counted.divisions = 0
    if exponent:
        Op.INTPOW.numpy(Counted(), exponent)
    assert cost(Op.INTPOW, exponent) == (0, Counted.products, 0, Counted.divisions)


def test_tables_are_complete() -> None:
    evaluated = {op for op in Op if op.numpy is not None}
    assert evaluated == set(Op) - {Op.CONSTANT, Op.INPUT} == {op for op in Op if op.arity}
    assert set(EXACT) | set(LIBRARY) == evaluated
    assert set(OPERATIONS.values()) == {op for op in Op if op.sympy}


def test_programs_with_the_same_content_share_a_digest() -> None:
    def program(constant: float = 1.0, kind: str = "u", op: Op = Op.ADD, output: int = 2) -> Program:
        return Program((Input(kind),), [constant], [[op, 0, 1, 0]], [output])

    assert program().digest() == program().digest()
    others = [program(2.0), program(kind="p"), program(op=Op.MUL), program(output=1), program(-0.0)]
    assert len({other.digest() for other in [program(), *others]}) == 6


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (((Input("v"),), [], [], []), "its kind is one of t, u, du, p, c"),
        (((Input("u", -1),), [], [], []), "its index >= 0"),
        (((Input("t"),), [], [[99, 0, 0, 0]], []), "instruction 0 of the program has no operation"),
        (((Input("t"),), [], [[Op.INPUT, 0, 0, 0]], []), "instruction 0 of the program has no operation"),
        (((Input("t"),), [], [[Op.SIN, 0, 0, 0], [Op.ADD, 0, 2, 0]], []), "instruction 1 of the program"),
        (((Input("t"),), [], [[Op.SIN, -1, 0, 0]], []), "an operand without a value"),
        (((Input("t"),), [2.0], [], [2]), "an output of the program is no slot of it"),
    ],
)
def test_what_is_no_program_is_refused(arguments: tuple, part: str) -> None:
    with pytest.raises(InputError) as caught:
        Program(*arguments)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_requests_are_refused(pendulum: tuple[Program, Program]) -> None:
    residual, jacobian = pendulum
    with pytest.raises(InputError, match="a residual has no coefficient c"):
        compile_program(jacobian, "residual")
    with pytest.raises(InputError, match="got 'complex'"):
        compile_program(residual, "complex")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="got 'njit'"):
        compile_program(residual, "residual", "njit")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="5 inputs; got values of shape"):
        residual.evaluate([1.0, 2.0])
