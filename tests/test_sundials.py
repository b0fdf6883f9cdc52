"""IDA and CVODE as sweepers: exact solutions, complete results, what they cannot take."""

from __future__ import annotations

import functools
import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from dae_sdc.cli import main
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import MeshDAE
from dae_sdc.errors import DAEError, InconsistentStateError, InputError
from dae_sdc.run import sundials as entry
from dae_sdc.run.solution import Solution
from dae_sdc.run.solve import solve
from dae_sdc.run.sundials import sundials

Vector = NDArray[np.float64]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("sksundae") is None, reason="scikit-sundae is not installed"
)
BOTH = ("ida", "cvode")


class Oscillator(ProblemDAE):
    """M u' = M S u with a matrix M that is neither the unit matrix nor constant: u = (cos 3t, -sin 3t)."""

    index = 0
    interval = (0.0, 2.0)
    calls = 0

    def __init__(self) -> None:
        super().__init__(2, 0)

    @staticmethod
    def mass(t: float, u: Vector) -> Vector:
        return np.array([[2.0 + math.sin(t), 1.0], [0.5 * float(u[0]), 3.0]])

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        self.calls += 1
        wanted = np.array([3.0 * u[1], -3.0 * u[0]])
        return self.mass(t, u) @ (np.asarray(du) - wanted)

    def u_exact(self, t: float) -> Vector:
        return np.array([math.cos(3.0 * t), -math.sin(3.0 * t)])

    def du_exact(self, t: float) -> Vector:
        return np.array([-3.0 * math.sin(3.0 * t), -3.0 * math.cos(3.0 * t)])


class Drive(ProblemDAE):
    """x' = z, z = 1 before t = 0.5 and -1 after: x = t, then 1 - t. It has no Jacobian of its own."""

    index = 1

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.slope = 1.0

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        return (0.5,)

    def start_step(self, u: MeshDAE, t: float) -> None:
        self.slope = 1.0 if t < 0.5 else -1.0

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        return np.array([du[0] - u[1], u[1] - self.slope])

    def u_exact(self, t: float) -> Vector:
        return np.array([min(t, 1.0 - t), 1.0 if t < 0.5 else -1.0])


class Heat(ProblemDAE):
    """u_t = u_xx on (0, 1), zero at the ends, by central differences; u = sin(pi x) at the start."""

    index = 0
    interval = (0.0, 0.05)

    def __init__(self, cells: int = 121, matrix: str = "sparse") -> None:
        super().__init__(cells, 0)
        n = cells
        self.width = 1.0 / (n + 1)
        ones = np.ones(n - 1)
        self.laplace = sp.diags_array([ones, np.full(n, -2.0), ones], offsets=[-1, 0, 1]) / self.width**2
        self.laplace = sp.csc_matrix(self.laplace)
        self.sparsity = sp.csc_matrix(self.laplace + sp.eye(n))
        self.matrix = matrix

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        return np.asarray(du) - self.laplace @ np.asarray(u)

    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
        found = sp.csc_matrix(sp.eye(self.n) - c * self.laplace)
        return found if self.matrix == "sparse" else found.toarray()

    def u_exact(self, t: float) -> Vector:
        x = np.arange(1, self.n + 1) * self.width
        decay = 4.0 / self.width**2 * math.sin(0.5 * math.pi * self.width) ** 2
        return np.asarray(math.exp(-decay * t) * np.sin(math.pi * x))


class Logarithm(ProblemDAE):
    """u' = -1 - log(u)/1e9, which no step may follow below 0: u = 1 - t, nearly."""

    index = 0
    error: BaseException | None = None

    def __init__(self) -> None:
        super().__init__(1, 0)

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> list[float]:
        if self.error is not None and t > 0.3:
            raise self.error
        return [du[0] + 1.0 + 1e-9 * math.log(u[0])]

    def u_exact(self, t: float) -> Vector:
        return np.array([1.0 - t])


def worst(solution: Solution, problem: ProblemDAE) -> float:
    exact = np.array([np.array(problem.u_exact(float(t))) for t in solution.t])
    return float(np.abs(solution.u - exact).max())


@pytest.mark.parametrize("solver", BOTH)
def test_errors_follow_the_tolerance(solver: str) -> None:
    problem = Oscillator()
    found = [sundials(problem, solver, rtol=rtol) for rtol in (1e-4, 1e-7, 1e-10)]
    errors = [worst(solution, problem) for solution in found]
    for solution, error, rtol in zip(found, errors, (1e-4, 1e-7, 1e-10), strict=True):
        assert solution.success and solution.message == "" and solution.t[-1] == 2.0
        assert error < 300.0 * rtol
        slopes = np.array([problem.du_exact(float(t)) for t in solution.t])
        assert np.abs(solution.du - slopes).max() < 3e4 * rtol
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("solver", BOTH)
def test_between_the_steps_the_solver_interpolates_itself(solver: str) -> None:
    problem = Oscillator()
    times = np.linspace(0.0, 2.0, 173)
    full = sundials(problem, solver, rtol=1e-8)
    without = sundials(problem, solver, rtol=1e-8, dense=False)
    assert np.array_equal(full.t, without.t) and np.array_equal(full.u, without.u)
    assert without.dense is None
    exact = np.array([problem.u_exact(t) for t in times])
    at_steps = worst(full, problem)
    assert np.abs(full(times) - exact).max() < 2.0 * at_steps
    slopes = np.array([problem.du_exact(t) for t in times])
    assert np.abs(full.derivative(times) - slopes).max() < 1e-4
    rows = sundials(problem, solver, rtol=1e-8, t_eval=times)
    assert np.array_equal(rows.t, times) and np.allclose(rows.u, full(times), atol=1e-14)
    assert rows.stats["steps"] == len(full.t) - 1 and rows.stats == full.stats


@pytest.mark.parametrize("solver", BOTH)
def test_counters_count_calls(solver: str) -> None:
    problem = Oscillator()
    task = entry if callable(entry) else entry.sundials
    seen: list[Oscillator] = []

    class Watched(Oscillator):
        def __init__(self) -> None:
            super().__init__()
            seen.append(self)

    solution = task(Watched, solver, rtol=1e-6)
    # The consistency of the start, and the sizes of unknowns for it, cost some evaluations before the run.
    assert 0 <= seen[0].calls - solution.stats["rhs"] <= 6 * problem.n + 6
    assert solution.per_step["rhs"].sum() == solution.stats["rhs"]
    assert solution.per_step["rhs"][0] == 0 and len(solution.per_step["rhs"]) == len(solution.t)
    assert 0 < solution.stats["jacobian"] < solution.stats["steps"]
    assert solution.parameters["sweeper"] == solver


@pytest.mark.parametrize("solver", BOTH)
def test_the_first_order_needs_as_many_steps_as_its_error_says(solver: str) -> None:
    # The local error of the first order is h^2 u''/2: a hundredth of the tolerance takes ten times the steps,
    # up to a factor of 2, by which IDA's steps change at least. The estimated error of longer runs has them
    # repeated to a finer tolerance.
    few, many = (sundials(Oscillator(), solver, rtol=rtol, max_order=1, t_end=0.1) for rtol in (1e-4, 1e-6))
    assert 5.0 < many.stats["steps"] / few.stats["steps"] < 20.0
    high = sundials(Oscillator(), solver, rtol=1e-6, t_end=0.1)
    assert high.stats["steps"] < 0.2 * many.stats["steps"]


def test_ida_begins_anew_at_break_points() -> None:
    problem = Drive()
    solution = sundials(problem, rtol=1e-8)
    assert 0.5 in solution.t
    assert np.abs(solution.u[-1] - [0.0, -1.0]).max() < 1e-6
    before, after = solution(np.array([0.49, 0.51]))
    assert before == pytest.approx([0.49, 1.0], abs=1e-6)
    assert after[0] == pytest.approx(0.49, abs=1e-6)
    assert np.isnan(solution.du[0, 1]) and solution.du[0, 0] == pytest.approx(1.0)


@pytest.mark.parametrize("matrix", ["sparse", "dense"])
@pytest.mark.parametrize("solver", BOTH)
def test_large_systems_are_sparse(solver: str, matrix: str) -> None:
    problem = Heat(matrix=matrix)
    solution = sundials(problem, solver, rtol=1e-6)
    assert solution.success and worst(solution, problem) < 1e-4
    differences = Heat()
    differences.jacobian = None  # type: ignore[method-assign, assignment]
    again = sundials(differences, solver, rtol=1e-6)
    assert np.abs(again.u[-1] - solution.u[-1]).max() < 1e-5


def test_compiled_and_plain_equations_give_the_same() -> None:
    class Plain(PROBLEMS["simple"]):  # type: ignore[misc]
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            return super().eval_f(u, du, t)

    compiled, plain = sundials("simple", rtol=1e-4), sundials(Plain, rtol=1e-4)
    assert compiled.success and plain.success
    assert np.abs(compiled.u[-1] - plain.u[-1]).max() < 1e-3


def test_multipliers_and_velocities_are_left_out_of_the_error_test() -> None:
    solution = sundials("pendulum", rtol=1e-6)
    assert solution.success
    assert solution.parameters["leave_out"] == ["der(x)", "der(y)", "lambda"]
    exact = np.array(PROBLEMS["pendulum"]().u_exact(solution.t[-1]))
    assert np.abs(solution.u[-1, :2] - exact[:2]).max() < 1e-2
    everything = sundials("pendulum", rtol=1e-6, leave_out=())
    assert not everything.success and len(everything.t) > 1
    assert everything.message.startswith("IDA gave up at t=0.000")


@pytest.mark.parametrize("solver", BOTH)
def test_files_keep_everything(solver: str, tmp_path: Path) -> None:
    out = tmp_path / "run.npy"
    solution = sundials(Oscillator, solver, rtol=1e-6, out=out, dense=True)
    again = Solution.load(out)
    assert np.array_equal(again.u, solution.u) and again.stats == dict(solution.stats)
    assert again.parameters["sweeper"] == solver and again.success
    times = np.linspace(0.0, 2.0, 31)
    assert np.array_equal(again(times), solution(times))


@pytest.mark.parametrize("solver", BOTH)
def test_where_an_equation_is_not_defined_the_run_ends_with_a_message(solver: str) -> None:
    solution = sundials(Logarithm(), solver, rtol=1e-6, t_end=2.0)
    assert not solution.success and "\n" not in solution.message
    assert solution.message.startswith(f"{solver.upper()} gave up at t=")
    assert 0.9 < solution.t[-1] <= 1.001
    assert np.abs(solution.u[:, 0] - (1.0 - solution.t)).max() < 1e-4


@pytest.mark.parametrize("error", [RuntimeError("mine"), KeyError("mine"), KeyboardInterrupt()])
@pytest.mark.parametrize("solver", BOTH)
def test_other_exceptions_end_the_run_as_they_are(solver: str, error: BaseException, tmp_path: Path) -> None:
    problem = Logarithm()
    problem.error = error
    out = tmp_path / "run.npy"
    with pytest.raises(type(error)):
        sundials(problem, solver, rtol=1e-6, dt_max=0.01, out=out)
    kept = Solution.load(tmp_path / "run.partial.npy")
    assert not kept.success and kept.message == f"ended by {type(error).__name__}"
    assert 0.2 < kept.t[-1] <= 0.31


@pytest.mark.parametrize("solver", BOTH)
def test_a_jump_costs_rejected_steps(solver: str) -> None:
    class Jump(ProblemDAE):
        index = 0

        def __init__(self, size: float) -> None:
            super().__init__(1, 0)
            self.size = size

        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> list[float]:
            return [du[0] - (self.size if t > 0.503 else 0.0)]

        def u_exact(self, t: float) -> Vector:
            return np.array([self.size * max(0.0, t - 0.503)])

    # A constant needs no second attempt; a step of 0.1 over a jump of 100 has an error of 10 at least once.
    assert sundials(Jump(0.0), solver, dt=1e-3, dt_max=0.1).stats["rejected"] == 0
    jumped = sundials(Jump(100.0), solver, dt=1e-3, dt_max=0.1)
    assert jumped.stats["rejected"] > 3 and worst(jumped, Jump(100.0)) < 0.01


def test_cvode_takes_ordinary_differential_equations_only() -> None:
    with pytest.raises(InputError, match="dF/du' of SimpleDAE is singular at t=0; use 'ida'"):
        sundials("simple", "cvode")

    class Cubic(Oscillator):
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
            wanted = np.array([3.0 * u[1], -3.0 * u[0]])
            return np.asarray(np.asarray(du) - wanted + 0.1 * (np.asarray(du) ** 3 - wanted**3))

    with pytest.raises(InputError, match="linear in u'; those of Cubic are not"):
        sundials(Cubic(), "cvode")
    assert sundials(Cubic(), "ida", rtol=1e-6).success


def test_a_run_that_takes_too_long_is_given_up() -> None:
    solution = sundials(Oscillator(), rtol=1e-12, max_order=1, time_limit=0.5)
    assert not solution.success and solution.message.startswith("the time limit of 0.5 s ran out at t=")


def test_a_comparison_that_takes_far_more_steps_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[sundials.__module__], "MOST_TIMES", 1)
    found = sundials(Oscillator(), rtol=1e-5)
    assert found.success and "with rtol=1e-06, IDA took" in found.message, found.message


def test_solve_hands_over() -> None:
    direct, through = sundials(Oscillator, "cvode", rtol=1e-5, max_order=2), None
    through = solve(Oscillator, sweeper="cvode", rtol=1e-5, max_order=2)
    assert np.array_equal(direct.u, through.u)
    at = solve("elastic-pendulum", sweeper="ida", rtol=1e-5, t_eval=[1.0, 2.0], params={"k": 10.0})
    assert at.t.tolist() == [1.0, 2.0] and at.parameters["params"]["k"] == 10.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'ida' chooses its steps by a tolerance; give rtol"),
        ({"rtol": 1e-6, "nodes": 3, "hooks": [object]}, "no effect on 'ida': nodes, hooks"),
        ({"rtol": 1e-6, "events": [lambda u, t: 1.0]}, "no effect on 'ida': events"),
        ({"rtol": 1e-6, "resume": True, "checkpoint": "a.npz"}, "no effect on 'ida': checkpoint, resume"),
        ({"rtol": 1e-6, "seed": 0, "steps": 1}, "no effect on 'ida': seed, steps"),
        ({"rtol": 1e-6, "max_order": 6}, "max_order must be an integer from 1 to 5; got 6"),
        ({"rtol": 1e-6, "max_order": True}, "max_order must be an integer"),
        ({"rtol": 2.0}, "rtol must be at least"),
        ({"rtol": 1e-6, "dt_max": 0.0}, "dt_max must be positive"),
        ({"rtol": 1e-6, "leave_out": ["q"]}, "unknown name in leave_out 'q'"),
        ({"rtol": 1e-6, "t_end": -1.0}, "need t_end > t0"),
        ({"rtol": 1e-6, "dense": 1.5}, "dense must be"),
        ({"rtol": 1e-6, "t_eval": [0.5, 0.1]}, "increasing times"),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        solve(Oscillator, sweeper="ida", **options)


class Counted:
    """Equations as an object, which raises or returns what is none after so many calls."""

    def __init__(self, fault: Any = None, after: int = 10**9) -> None:
        self.fault, self.left = fault, after

    def __call__(self, t: float, u: Any, du: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            if isinstance(self.fault, BaseException):
                raise self.fault
            return self.fault
        return [du[0] + u[0], u[1] - 2.0 * u[0]]


@pytest.mark.parametrize("direct", [True, False])
def test_functions_of_any_kind_are_run_and_their_faults_come_through(direct: bool) -> None:
    def run(function: Any) -> Any:
        if direct:
            return sundials(function, "ida", u0=[1.0, 2.0], rtol=1e-8, t_end=1.0)
        return solve(function, sweeper="ida", u0=[1.0, 2.0], rtol=1e-8, t_end=1.0, trace=False)

    for whole in (Counted(), functools.partial(Counted()), Counted().__call__):
        assert abs(run(whole).u[-1, 0] - np.exp(-1.0)) < 1e-6
    for error in (RuntimeError("mine"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            run(Counted(error, 60))
    for strange in ([1.0], [1.0, "x"], None, [[1.0, 2.0]]):
        with pytest.raises(DAEError) as told:
            run(Counted(strange, 60))
        assert "\n" not in str(told.value)


def test_names_and_starts_that_are_wrong_are_refused() -> None:
    with pytest.raises(InputError, match="unknown solver of SUNDIALS 'cvodes'; did you mean 'cvode'"):
        sundials(Oscillator, "cvodes")
    with pytest.raises(InconsistentStateError, match="violates"):
        sundials(Drive(), "ida", u0=[0.0, 0.3])
    with pytest.raises(InputError, match="max_order belongs to the sweepers 'ida' and 'cvode'"):
        solve(Oscillator, sweeper="fully-implicit", max_order=2)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"'cvode' needs the package scikit-sundae: pip install 'dae_sdc"):
        sundials(Oscillator, "cvode")


def test_the_command_line_takes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run.npy"
    arguments = ["solve", "elastic-pendulum", "--sweeper", "cvode", "--rtol", "1e-4", "--max-order", "2"]
    assert main([*arguments, "--params", "k=10", "--out", str(out)]) == 0
    assert "elastic-pendulum: t = 5 after" in capsys.readouterr().out
    assert Solution.load(out).parameters["max_order"] == 2


def test_what_the_problem_prints_is_seen_and_what_sundials_prints_is_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Talks(Logarithm):
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> list[float]:
            if t > 0.9:
                print("near")
            return super().eval_f(u, du, t)

    assert not sundials(Talks(), t_end=2.0).success
    said = capfd.readouterr()
    assert set(said.out.split()) == {"near"} and said.err == ""
