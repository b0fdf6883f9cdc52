"""Reduced systems as source code, compiled and run, against the forms inside."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sparse
import sympy as sp

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.dae.projection import EquationFunctions, project
from dae_sdc.errors import InputError
from dae_sdc.problems._models import MODELS
from dae_sdc.reduction.code import Code
from dae_sdc.reduction.reduction import FORMS

Vector = npt.NDArray[np.float64]

POINTS = 100
TOLERANCE = 1e-12  # Relative to the sizes of terms.
ROUNDING = 1e-15  # Relative change of unknowns that is rounding.
C_FLAGS = "-std=c11 -Wall -Wextra -pedantic -Werror -O0 -ffp-contract=off -shared -fPIC".split()

COMPILER = shutil.which("gcc") or shutil.which("cc")
with_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


def module_of(text: str, name: str = "code") -> Any:
    """Python code as a module."""
    module = ModuleType(name)
    exec(compile(text, f"<{name}>", "exec"), vars(module))
    return module


def library_of(text: str, place: Path, file: str = "code.c", flags: tuple[str, ...] = ()) -> Any:
    """C code as a library, in which a warning is an error."""
    (place / file).write_text(text, encoding="utf-8")
    command = [str(COMPILER), *C_FLAGS, *flags, file, "-o", "code.so", "-lm"]
    result = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[:2000]
    return ctypes.CDLL(str(place / "code.so"))


class OfC:
    """The functions of C code, called as those of Python."""

    def __init__(self, reduction: Any, place: Path) -> None:
        self.code = Code(reduction, "c")
        self._library = library_of(self.code.text(), place)
        self._shapes = {routine.name: routine.shape for routine in self.code.routines}
        n = len(self.code.assembled.form.states)
        self.START = np.array((ctypes.c_double * n).in_dll(self._library, f"{self.code.model}_start"))
        if self.code.values:
            size = 8 * len(self.code.values)
            self._defaults = (ctypes.c_char * size).in_dll(self._library, f"{self.code.model}_defaults")

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, f"{self.code.model}_{name}")
        shape = self._shapes.get(name, self.START.shape)

        def call(*arguments: Any) -> Any:
            arrays = [np.array(one, dtype=float) for one in arguments]
            passed = [
                ctypes.c_double(float(one)) if one.ndim == 0 else ctypes.c_void_p(one.ctypes.data)
                for one in arrays
            ]
            passed += [ctypes.byref(self._defaults)] if self.code.values else []
            out = np.full(shape, np.nan)
            status = function(*passed, ctypes.c_void_p(out.ctypes.data))
            if name == "project" and status:
                raise ArithmeticError
            return out

        return call


def points(problem: Any, count: int = POINTS) -> list[tuple[float, Vector, Vector]]:
    """Random times, states and derivatives near the start."""
    source = np.random.default_rng(1)
    start = np.nan_to_num(problem.start_values)
    steps = source.uniform(-1.0, 1.0, (count, 2, problem.n))
    times = source.uniform(*problem.interval, count)
    return [(t, start + 0.2 * (1.0 + abs(start)) * a, b) for t, (a, b) in zip(times, steps, strict=True)]


def dense(matrix: Any) -> Vector:
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def filled(pattern: Any, values: Vector, shape: tuple[int, int]) -> Vector:
    """A matrix of the values of its entries."""
    if pattern is None:
        return values.reshape(shape)
    return sparse.csc_matrix((values, pattern.indices, pattern.indptr), shape=shape).toarray()


class Matrices:
    """Matrices at points, compared with those inside, relative to the sizes of the terms of their entries."""

    def __init__(self, program: Any, pattern: Any, shape: tuple[int, int]) -> None:
        self._program, self._pattern, self._shape = program.sizes, pattern, shape
        self._arguments: list[Vector] = []
        self._differences: list[Vector] = []

    def add(self, arguments: tuple[Any, ...], values: Vector, expected: Any) -> Vector:
        """Compare values at a point, which has such arguments of the program; what is expected, dense."""
        expected = dense(expected)
        assert values.shape == expected.shape
        self._arguments.append(self._program.arguments(*arguments))
        self._differences.append(np.abs(values - expected))
        return expected

    def close(self) -> None:
        """Judge all differences."""
        if self._differences:
            sizes = self._program.evaluate(np.transpose(self._arguments)).T
            sizes = np.array([filled(self._pattern, one, self._shape) for one in sizes])
            differences = np.array(self._differences)
            assert not (differences > TOLERANCE * sizes).any()


def agree(values: Vector, expected: Vector, scale: Vector, program: Any, *arguments: Any) -> bool:
    """Compare values; whether all are numbers.

    Where terms cancel, of which the scale knows nothing, it is the sizes of the terms of the program.
    """
    sound = np.isfinite(expected) & np.isfinite(scale)
    if not (np.abs(values - expected) <= TOLERANCE * scale)[sound].all():
        scale = np.maximum(scale, program.sizes.evaluate(program.sizes.arguments(*arguments)))
    assert (np.abs(values - expected) <= TOLERANCE * scale)[sound].all()
    return bool(sound.all())


def compare(code: Any, reduction: Any, problem: Any) -> int:
    """Compare functions of code with the form inside; the number of points at which all are numbers.

    Values may differ by a part of what they change by when each unknown changes by its size, or by what the
    form inside shows where it changes by rounding, in which elimination may lose digits.
    """
    assembled, form, p = problem._assembled, problem.form, problem.kernel_parameters()
    n, k, n_diff = problem.n, len(problem.invariant_names), form.n_diff
    matrix = Matrices(form.jacobian, form.pattern, (n, n))
    slopes = Matrices(assembled.programs[1], assembled.invariants_pattern, (k, n))
    explicit = reduction.goal == "explicit" and n > n_diff
    count, rounding = 0, 1.0 + ROUNDING * np.random.default_rng(4).uniform(-1.0, 1.0, (4, n))
    for t, u, du in points(problem):
        if reduction.goal in ("implicit", "stages"):
            left = code.residual(t, u, du)
            found = problem.jacobian(problem.state(u), problem.state(du), t, 0.7)
            matrix.add((t, u, du, p, 0.7), code.jacobian(t, u, du, 0.7), found)
        else:
            if explicit:
                u[n_diff:] = code.algebraic(t, u[:n_diff])
            du = np.concatenate([code.rates(t, u[:n_diff] if explicit else u), np.zeros(n - n_diff)])
            left = np.zeros(n)
            if reduction.goal == "semi-explicit" and n > n_diff:
                left[n_diff:] = code.constraints(t, u)
        place, rates = problem.state(u), problem.state(du)
        mass = dense(problem.jacobian(place, rates, t, 0.0))
        by_state = np.abs(dense(problem.jacobian(place, rates, t, 1.0)) - mass)
        scale = np.abs(left) + np.abs(mass) @ np.abs(du) + by_state @ np.abs(u)
        values = problem.eval_f(place, rates, t)
        near = [problem.eval_f(problem.state(u * factors), rates, t) for factors in rounding]
        scale += np.abs(np.array(near) - values).max(axis=0) / ROUNDING
        if explicit:  # and by the rounding of the algebraic unknowns
            scale += by_state[:, n_diff:] @ scale[n_diff:]
        sound = agree(left, values, scale, form.residual, t, u, du, p)
        if k:
            values = code.invariants(t, u)
            found = slopes.add(
                (t, u, (), p), code.invariants_jacobian(t, u), problem.invariants_jacobian(u, t)
            )
            scale, program = np.abs(values) + np.abs(found) @ np.abs(u), assembled.programs[0]
            sound &= agree(values, problem.invariants(u, t), scale, program, t, u, (), p)
        if assembled.rivals:
            watched = problem._values(assembled.watch, u, t)
            if np.isfinite(watched).all():
                assert min(1.0, code.pivots(t, u).min()) == pytest.approx(problem._weakest(watched), rel=1e-8)
        count += sound
    matrix.close()
    slopes.close()
    return count


def reduced(name: str, form: str) -> tuple[Any, Any]:
    """A reduction, and its problem with the dummy derivatives of the start; skips what is no other form."""
    reduction = ds.reduce(name, form=form)
    problem = reduction.problem()
    if reduction.goal == "stages":
        if form != "implicit":
            pytest.skip("stages have one form")
        problem.start_step(problem.state(np.nan_to_num(problem.start_values)), problem.interval[0])
    return reduction, problem


# The first form of each model and one of the others, in turn: compiling takes the time.
IN_TURN = [(name, FORMS[k]) for at, name in enumerate(sorted(MODELS)) for k in (0, 1 + at % 3)]


@with_compiler
@pytest.mark.parametrize(("name", "form"), IN_TURN)
def test_code_of_a_model_gives_what_the_form_inside_gives(name: str, form: str, tmp_path: Path) -> None:
    reduction, problem = reduced(name, form)
    for code in module_of(reduction.code("python")), OfC(reduction, tmp_path):
        with np.errstate(all="ignore"):
            assert compare(code, reduction, problem) > POINTS / 4


RK4 = """
#include "code.c"
void run(double t, double dt, int steps, const double *start, double *x)
{
    double u[5][N], k[4][N];
    for (int j = 0; j < N; j++)
        x[j] = start[j];
    for (int step = 0; step < steps; step++) {
        for (int stage = 0; stage < 4; stage++) {
            const double part = stage == 0 ? 0.0 : stage == 3 ? dt : 0.5 * dt;
            for (int j = 0; j < N; j++)
                u[stage][j] = stage == 0 ? x[j] : x[j] + part * k[stage - 1][j];
            RATES(t + step * dt + part, u[stage], PARAMETERS k[stage]);
        }
        for (int j = 0; j < N; j++)
            x[j] = x[j] + dt / 6.0 * (k[0][j] + 2.0 * k[1][j] + 2.0 * k[2][j] + k[3][j]);
    }
}
"""


def runge_kutta(rates: Any, t: float, dt: float, steps: int, start: Vector) -> Vector:
    """The classical method, as in C."""
    x = start.copy()
    for step in range(steps):
        k = rates(t + step * dt + 0.0, x)
        total = k
        for stage in (1, 2, 3):
            part = dt if stage == 3 else 0.5 * dt
            k = rates(t + step * dt + part, x + part * k)
            total = total + (k if stage == 3 else 2.0 * k)
        x = x + dt / 6.0 * total
    return x


@with_compiler
@pytest.mark.parametrize("name", sorted(MODELS)[::2])
def test_steps_of_runge_kutta_have_equal_digits_in_c_and_numba(name: str, tmp_path: Path) -> None:
    reduction, problem = reduced(name, "explicit")
    if reduction.goal == "stages":
        pytest.skip("stages have no explicit form")
    code = Code(reduction, "c")
    n = code.assembled.form.n_diff
    (tmp_path / "code.c").write_text(code.text(), encoding="utf-8")
    passed = f"&{code.model}_defaults," if code.values else ""
    settings = "-O1", f"-DN={n}", f"-DRATES={code.model}_rates", f"-DPARAMETERS={passed}"
    library = library_of(RK4, tmp_path, "run.c", settings)
    start = np.array(code.start[:n]) + np.random.default_rng(0).uniform(1e-3, 1e-2, n)
    numpy_rates = module_of(reduction.code("python")).rates
    t, steps = float(problem.interval[0]), 20
    with np.errstate(all="ignore"):
        moved = [numpy_rates(t, start + 1e-6 * row) - numpy_rates(t, start) for row in np.eye(n)]
        dt = min(1e-3 * (problem.interval[1] - t), 0.1 / np.linalg.norm(np.array(moved) / 1e-6))
    x = np.empty(n)
    places = (ctypes.c_void_p(array.ctypes.data) for array in (start, x))
    library.run(ctypes.c_double(t), ctypes.c_double(dt), steps, *places)
    with np.errstate(all="ignore"):
        numba_x = runge_kutta(module_of(reduction.code("numba")).rates, t, dt, steps, start)
        numpy_x = runge_kutta(numpy_rates, t, dt, steps, start)
    assert x.tobytes() == numba_x.tobytes()
    assert np.isfinite(x).all()
    assert x == pytest.approx(numpy_x, rel=1e-9, abs=1e-9)


# Other values, projection, names


def test_parameters_are_passed_by_name(tmp_path: Path) -> None:
    code = module_of(ds.reduce("pendulum", form="explicit").code())
    moon = ds.reduce("pendulum", form="explicit", params={"g": 1.62, "l": 2.0}).problem()
    u = np.array([0.3, -0.4, 1.0, 2.0, 0.0])
    (u[4],) = code.algebraic(0.0, u, g=1.62, l=2.0)
    rates = np.append(code.rates(0.0, u, l=2.0, g=1.62), 0.0)
    assert np.abs(moon.eval_f(moon.state(u), moon.state(rates), 0.0)).max() < 1e-13
    assert code.invariants(0.0, u, l=2.0)[0] == pytest.approx(0.25 - 4.0)


def nearest(problem: Any, t: float, u: Vector) -> Vector:
    """The nearest point at which the invariants hold, by the projection inside."""
    slopes = EquationFunctions(
        lambda x: problem.invariants(x, t), lambda x: dense(problem.invariants_jacobian(x, t))
    )
    found = project(u, slopes)
    assert found.converged
    return found.x


@with_compiler
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_projection_is_the_nearest_point_on_the_invariants(name: str, tmp_path: Path) -> None:
    reduction, problem = reduced(name, "implicit")
    if not problem.invariant_names:
        pytest.skip("no invariants")
    t = problem.interval[0]
    guess = np.nan_to_num(problem.start_values)
    # The guesses of one are far from where its bars meet; the other starts where two of its motions meet.
    fixed = {"pendula-loop": None, "equal-bar-slider-crank": {"crank.phi": np.pi / 2}}
    if name in fixed:
        start = ds.initial(name, fixed=fixed[name]).values
        guess = np.array([start.get(unknown, 0.0) for unknown in problem.names])
    on = nearest(problem, t, guess)
    sizes = 1.0 + np.abs(on)
    off = on + 1e-4 * sizes * np.random.default_rng(1).uniform(-1.0, 1.0, problem.n)
    codes = [module_of(reduction.code()), OfC(reduction, tmp_path)]
    codes += [module_of(reduction.code("numba"))] if name == "pendulum" else []
    for code in codes:
        if name == "equal-bar-slider-crank":
            with pytest.raises(ArithmeticError):
                code.project(t, off)
            continue
        found = code.project(t, off)
        assert (np.abs(found - nearest(problem, t, off)) < 1e-8 * sizes).all()
        assert code.project(t, found) == pytest.approx(found, rel=1e-11, abs=1e-11)


@with_compiler
def test_a_projection_fails_where_no_point_satisfies_the_invariants(tmp_path: Path) -> None:
    model = ds.Model("nowhere", interval=(0.0, 1.0))
    x, y, force, size = model.variables("x y force size", start=[0.3, 0.4, 0.0, 0.0])
    model.equations(model.der(x, 2) - x * force, model.der(y, 2) - y * force, x**2 + y**2 - size, size + 1)
    reduction = ds.reduce(model)
    u = np.nan_to_num(reduction.problem().start_values)
    for code in module_of(reduction.code()), module_of(reduction.code("numba")), OfC(reduction, tmp_path):
        with pytest.raises(ArithmeticError):
            code.project(0.0, u)


def test_veils_have_the_names_and_the_order_of_the_reduction() -> None:
    reduction = ds.reduce("robot-arm", form="ode")
    text = reduction.code()
    module = module_of(text)
    problem = reduction.problem()
    body = text[text.index("def rates(") : text.index("def invariants(")]
    veils = [int(number) for number in re.findall(r"^    v(\d+) =", body, re.MULTILINE)]
    assert len(veils) > 50
    assert veils == sorted(veils)
    # The value that the code gives to a veil is that of its expression in SymPy.
    told = body.replace("    return out", "    return dict(locals())").replace("def rates", "def told")
    exec(told, vars(module))
    u = problem.start_values + 0.1
    values = module.told(0.3, u)
    point = {str(name): value for name, value in zip(problem.names, u, strict=True)} | {"t": 0.3}
    for number, (symbol, expression) in enumerate(reduction.veil_expressions):
        symbols = sorted(expression.free_symbols, key=str)
        plain = sp.symbols(f"x:{len(symbols)}")
        function = sp.lambdify(plain, expression.xreplace(dict(zip(symbols, plain, strict=True))), "math")
        point[str(symbol)] = function(*(point[str(one)] for one in symbols))
        if number in veils:
            assert values[f"v{number}"] == pytest.approx(point[str(symbol)], rel=1e-10)


NAMES = "x[1] der_x lambda class int sin 2nd v0 s1 out par u".split()


@with_compiler
def test_names_that_no_language_takes_and_names_of_the_code_itself(tmp_path: Path) -> None:
    model = ds.Model("int main", interval=(0.0, 1.0))
    unknowns = [model.variable(name, start=0.1 * at, unit='*/ """') for at, name in enumerate(NAMES, start=1)]
    p, q = model.parameter("double", 2.0), model.parameter("rates", 3.0)
    for number, unknown in enumerate(unknowns):
        model.equation(model.der(unknown) - p * sp.sin(q * unknowns[number - 1]) * (number + 1))
    reduction = ds.reduce(model, form="ode")
    problem = reduction.problem()
    u = problem.start_values
    expected = -np.asarray(problem.eval_f(problem.state(u), problem.state(0.0 * u), 0.0))
    for code in module_of(reduction.code()), OfC(reduction, tmp_path):
        assert code.rates(0.0, u) == pytest.approx(expected, rel=1e-14)


@with_compiler
def test_operations_of_every_kind(tmp_path: Path) -> None:
    model = ds.Model("operations", interval=(0.0, 1.0))
    x, y = model.variables("x y", start=[0.3, -0.7])
    smooth = [sp.exp, sp.log, sp.sin, sp.cos, sp.tan, sp.asin, sp.acos, sp.atan, sp.sinh, sp.cosh, sp.tanh]
    smooth += [sp.asinh, sp.acosh, sp.atanh, sp.sqrt]
    terms = [function(x) if function is not sp.acosh else function(2 + x) for function in smooth]
    terms += [sp.Abs(y), sp.sign(y), sp.floor(3 * y), sp.Min(x, y), sp.Max(x, y), sp.atan2(y, x), x**y]
    terms += [sp.Piecewise((x, y < x), (y, True)), sp.Piecewise((x, y >= x), (2 * y, True)), x**7, y**-3]
    model.equations(model.der(x) - sum(terms), model.der(y) - sum(k * term for k, term in enumerate(terms)))
    reduction = ds.reduce(model, form="ode")
    problem = reduction.problem()
    codes = module_of(reduction.code()), module_of(reduction.code("numba")), OfC(reduction, tmp_path)
    for u in np.random.default_rng(2).uniform([0.1, -0.9], [0.9, 0.9], (20, 2)):
        expected = -np.asarray(problem.eval_f(problem.state(u), problem.state(0.0 * u), 0.0))
        for code in codes:
            assert code.rates(0.0, u) == pytest.approx(expected, rel=1e-13)


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(InputError, match="unknown language 'fortran'; available: "):
        ds.reduce("pendulum").code("fortran")
    model = ds.Model("free", interval=(0.0, 1.0))
    x, rate = model.variable("x", start=1.0), model.parameter("rate")
    model.equation(model.der(x) - rate * x)
    with pytest.raises(InputError, match="parameter rate of model free has no value"):
        ds.reduce(model).code()


def test_the_command_writes_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file, language, begin in (
        ("p.py", (), '"""'),
        ("p.c", (), "/*"),
        ("q.py", ("--language", "numba"), '"""'),
    ):
        place = tmp_path / file
        assert main(["reduce", "pendulum", "--form", "explicit", "--code", str(place), *language]) == 0
        assert place.read_text().startswith(f"{begin}" + ("\n" if begin == "/*" else "") + "pendulum: ")
        assert f"wrote {place}" in capsys.readouterr().out
    assert "@numba.njit" in (tmp_path / "q.py").read_text()
    for arguments in (
        ["pendulum", "--code", "p.f"],
        ["pendulum", "--code", "p"],
        ["pendul*", "--code", "p.c"],
    ):
        assert main(["reduce", *arguments]) == 2
