"""Dense output: orders between the steps, what holds where steps meet, output times, files, and errors."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.pairs import covering_pairs
from helpers.sweepers_for import sweepers_for

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.dae.interpolant import DenseOutput, Scheme, StepData
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.run.description import describe
from dae_sdc.sweepers.collocation import QUADRATURES
from dae_sdc.sweepers.runge_kutta import runge_kutta
from dae_sdc.sweepers.sdc import SWEEPERS, SpectralDeferredCorrectionDAE
from dae_sdc.sweepers.tableaux import METHODS, Tableau

SDC = [name for name, cls in SWEEPERS.items() if issubclass(cls, SpectralDeferredCorrectionDAE)]
NODES = (2, 3, 4)
END = 0.8
GRID = np.linspace(0.0, END, 161)
TOLERANCE = 0.3

COLLOCATION = ("gauss", "radau")
"""Methods whose steps are polynomials of degree s, the number of stages; all others have cubics."""

MEASURABLE = 1e-9
"""Least error from which an order can be told."""

MIDPOINT = Tableau(
    name="midpoint",
    class_name="Midpoint",
    A=np.array([[0.5]]),
    b=np.array([1.0]),
    c=np.array([0.5]),
    order=2,
    orders={1: (2, None)},
    reference="the implicit midpoint rule",
)


class Cubic(ds.ProblemDAE):
    """y' = k (t^3 - y) + 4 t^2 - z, 0 = z - t^2: y = t^3, z = t^2."""

    index = 1
    interval = (0.0, 1.0)
    dt = 0.25

    def __init__(self, k: float = 1.0, **settings: Any) -> None:
        super().__init__(n_diff=1, n_alg=1, **settings)
        self._makeAttributeAndRegister("k", localVars=locals())

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] + self.k * (u[0] - t**3) - 4.0 * t**2 + u[1], u[1] - t**2]

    def u_exact(self, t: float) -> Any:
        return np.array([t**3, t**2])


def exact(problem: str, times: Any, slope: bool = False) -> Any:
    own = ds.PROBLEMS[problem]()
    return np.array([own.du_exact(t) if slope else own.u_exact(t) for t in times])


def errors(problem: str, sweeper: Any, steps: int, **settings: Any) -> tuple[Any, Any, Any]:
    """Largest errors of every unknown between the steps, of its derivative, and at the ends of steps."""
    done = ds.solve(problem, sweeper=sweeper, dt=END / steps, t_end=END, **settings)
    assert done.success, done.message
    return (
        np.abs(done(GRID) - exact(problem, GRID)).max(axis=0),
        np.abs(done.derivative(GRID) - exact(problem, GRID, True)).max(axis=0),
        np.abs(done.u - exact(problem, done.t)).max(axis=0),
    )


def slopes(problem: str, sweeper: Any, steps: int, **settings: Any) -> list[Any]:
    """Orders in dt of what :func:`errors` gives, and which unknowns are off by more than round-off."""
    coarse, fine = (errors(problem, sweeper, n, **settings) for n in (steps, 2 * steps))
    return [*(np.log2(a / b) for a, b in zip(coarse, fine, strict=True)), fine[2] > MEASURABLE]


def by_group(problem: str, orders: dict[str, float]) -> Any:
    """One number an unknown from one a group."""
    own = ds.PROBLEMS[problem]()
    found = np.full(own.n, np.nan)
    for group, order in orders.items():
        found[own.groups[group]] = order
    return found


# --- Orders -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sweeper", "quad", "nodes", "index"), covering_pairs(product(SDC, QUADRATURES, NODES, (1, 2)))
)
def test_sdc_has_the_order_of_its_polynomial(sweeper: str, quad: str, nodes: int, index: int) -> None:
    problem = f"hessenberg-{index}"
    settings = {"quad": quad, "nodes": nodes}
    order = by_group(problem, describe(problem, sweeper=sweeper, **settings).expected())
    steps = 8 if index == 1 else 24 if quad == "LOBATTO" else 16
    between, derivative, *_ = slopes(problem, sweeper, steps, **settings, restol=1e-13)
    # A multiplier that has no order at the ends has none between them.
    known = np.isfinite(order)
    least = np.minimum(order, nodes)[known] - TOLERANCE
    assert (between[known] >= least).all(), between
    assert (derivative[known] >= least - 1.0).all(), derivative


@pytest.mark.parametrize(("sweeper", "quad", "nodes"), covering_pairs(product(SDC, QUADRATURES, NODES)))
def test_at_index_1_the_polynomial_of_degree_m_gains_one_order(sweeper: str, quad: str, nodes: int) -> None:
    ends = describe("hessenberg-1", sweeper=sweeper, quad=quad, nodes=nodes).expected()["differential"]
    between, *_ = slopes("hessenberg-1", sweeper, 8, quad=quad, nodes=nodes, restol=1e-13)
    assert between[:2] == pytest.approx(min(nodes + 1, ends), abs=TOLERANCE)


@pytest.mark.parametrize("index", [1, 2])
@pytest.mark.parametrize("name", [*METHODS, "midpoint"])
def test_between_runge_kutta_steps_the_order_is_that_at_their_ends(name: str, index: int) -> None:
    if (name, index) == ("midpoint", 2):
        pytest.skip("it is no method for index 2")
    method = runge_kutta(MIDPOINT) if name == "midpoint" else name
    highest = METHODS[name].stages if name.startswith(COLLOCATION) else 4
    between, derivative, ends, measurable = slopes(f"hessenberg-{index}", method, 16)
    least = np.where(measurable, np.minimum(ends, highest) - TOLERANCE, -np.inf)
    assert (between >= least).all(), (between, ends)
    if index == 1:
        assert (derivative[:2] >= least[:2] - 1.0).all(), (derivative, ends)


@pytest.mark.parametrize("quad", QUADRATURES)
@pytest.mark.parametrize("sweeper", SDC)
def test_polynomials_of_degree_m_are_reproduced(sweeper: str, quad: str) -> None:
    done = ds.solve(Cubic, sweeper=sweeper, quad=quad, nodes=3, restol=1e-13)
    times = np.linspace(0.0, 1.0, 33)
    assert done(times) == pytest.approx(np.array([times**3, times**2]).T, abs=1e-12)
    assert done.derivative(times) == pytest.approx(np.array([3 * times**2, 2 * times]).T, abs=1e-10)


@pytest.mark.parametrize(
    ("method", "k"),
    # Steps of low stage order are exact for quadrature alone.
    [("esdirk43", 0.0), ("edirk4", 0.0), ("dirk43-2", 0.0), ("radau-iia-5", 1.0), ("lobatto-iiic-6", 1.0)],
)
def test_cubic_polynomials_are_reproduced_by_runge_kutta_methods_too(method: str, k: float) -> None:
    done = ds.solve(Cubic, sweeper=method, params={"k": k}, dt=0.2)
    times = np.linspace(0.0, 1.0, 33)
    assert done(times) == pytest.approx(np.array([times**3, times**2]).T, abs=1e-12)


# --- Where steps meet ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "sweeper"),
    [(index, name) for index in (1, 2, 3) for name in sweepers_for(f"hessenberg-{index}")],
)
def test_the_solution_is_continuous_and_keeps_the_values_at_the_steps(sweeper: str, index: int) -> None:
    if index == 3 and sweeper.startswith("gauss"):
        pytest.skip("it is no method for index 3")
    if index == 2 and sweeper.startswith("gauss"):
        pytest.skip("its end is no stage, and violates the constraints that hold between")
    tight = {"restol": 1e-13} if sweeper in SDC else {}
    done = ds.solve(f"hessenberg-{index}", sweeper=sweeper, dt=0.05, t_end=0.4, newton_tol=1e-13, **tight)
    assert np.array_equal(done(done.t), done.u)
    assert all(np.array_equal(done(t), u) for t, u in zip(done.t, done.u, strict=True))
    inner, near = done.t[1:-1], 1e-10
    jump = np.abs(done(inner + near) - done(inner - near))
    slope = np.maximum(np.abs(done.derivative(inner + near)), np.abs(done.derivative(inner - near)))
    scale = np.abs(done.u).max(axis=0)
    assert (jump <= 4.0 * near * slope + 1e-12 * scale).all()


@pytest.mark.parametrize("sweeper", SDC)
@pytest.mark.parametrize("quad", ["LOBATTO", "GAUSS"])
def test_other_nodes_are_continuous_too(sweeper: str, quad: str) -> None:
    done = ds.solve("hessenberg-1", sweeper=sweeper, quad=quad, dt=0.05, t_end=0.4)
    assert np.array_equal(done(done.t), done.u)
    inner, near = done.t[1:-1], 1e-10
    jump = np.abs(done(inner + near) - done(inner - near))
    assert (jump <= 4.0 * near * np.abs(done.derivative(GRID[GRID <= 0.4])).max(axis=0) + 1e-12).all()


@pytest.mark.parametrize("sweeper", ["fully-implicit", "radau-iia-5", "edirk4", "backward-euler"])
def test_the_derivative_is_that_of_the_values(sweeper: str) -> None:
    done = ds.solve("hessenberg-1", sweeper=sweeper, dt=0.05, t_end=0.4)
    times, small = np.linspace(0.001, 0.399, 57), 1e-6
    inside = times[np.abs(times[:, None] - done.t).min(axis=1) > 2 * small]
    # The derivative satisfies the equations, the values of y are polynomials: they differ by their errors.
    off = np.abs(done.du[1:] - exact("hessenberg-1", done.t[1:], slope=True)).max()
    quotient = (done(inside + small) - done(inside - small)) / (2.0 * small)
    assert done.derivative(inside) == pytest.approx(quotient, rel=1e-6, abs=1e-7 + 2.0 * off)


def test_collocation_has_the_derivatives_of_its_nodes_at_the_ends_of_steps() -> None:
    done = ds.solve("hessenberg-1", nodes=3, dt=0.05, t_end=0.4, restol=1e-13)
    assert done.derivative(done.t[1:]) == pytest.approx(done.du[1:], rel=1e-9, abs=1e-9)


def test_where_the_solution_jumps_the_limit_from_the_left_is_taken() -> None:
    line = Scheme((0.0, 1.0))
    steps = [
        StepData(0.0, 1.0, line, np.array([[0.0], [1.0]])),
        StepData(1.0, 1.0, line, np.array([[5.0], [7.0]])),
    ]
    ends, values = np.array([1.0, 2.0]), np.array([[1.0], [7.0]])
    slopes_at_ends = np.array([[1.0], [2.0]])
    dense = DenseOutput(0.0, np.zeros(1), ends, values, steps, np.ones(1), slopes_at_ends, 1)
    assert dense([1.0, np.nextafter(1.0, 2.0), 1.5])[:, 0] == pytest.approx([1.0, 5.0, 6.0])
    assert dense.derivative([1.0, 1.5])[:, 0] == pytest.approx([1.0, 2.0])


def test_difference_quotients_do_not_look_across_a_jump() -> None:
    times = np.linspace(0.0, 1.0, 9)
    jump = np.where(times >= 0.5, 10.0, 0.0)
    before = times**2 + np.where(times > 0.5, 10.0, 0.0)
    hermite = Scheme((0.0, 1.0), (0.0, 1.0))
    starts = (times**2 + jump)[:-1]
    steps = [StepData(t, 0.125, hermite, np.array([[u]])) for t, u in zip(times[:-1], starts, strict=True)]
    unknown = np.full((8, 1), np.nan)
    dense = DenseOutput(0.0, np.zeros(1), times[1:], before[1:, None], steps, unknown[0], unknown, 0)
    fine = np.array([0.3, 0.49, 0.51, 0.93])
    assert dense(fine)[:, 0] == pytest.approx(fine**2 + np.where(fine > 0.5, 10.0, 0.0), abs=1e-12)
    assert dense.derivative(fine)[:, 0] == pytest.approx(2.0 * fine, abs=1e-11)


@pytest.mark.parametrize("n_slopes", [0, 1])
def test_a_kink_between_two_steps_is_kept(n_slopes: int) -> None:
    """u = |t - 1/2|^3 + |t - 1/2|, whose u' at the start of the fifth step is another one."""
    times, hermite = np.linspace(0.0, 1.0, 9), Scheme((0.0, 1.0), (0.0, 1.0))

    def value(t: Any) -> Any:
        return np.abs(t - 0.5) ** 3 + np.abs(t - 0.5)

    def slope(t: Any, side: float) -> Any:
        return np.sign(t - 0.5 + side) * (3.0 * (t - 0.5) ** 2 + 1.0)

    starts = [np.array([[value(t)], [slope(t, 1e-9)]]) for t in times[:-1]]
    steps = [StepData(t, 0.125, hermite, rows) for t, rows in zip(times, starts, strict=False)]
    ends = slope(times[1:, None], -1e-9)
    dense = DenseOutput(0.0, starts[0][0], times[1:], value(times[1:, None]), steps, ends[0], ends, n_slopes)
    fine = np.linspace(0.0, 1.0, 65)
    assert dense(fine)[:, 0] == pytest.approx(value(fine), abs=1e-12)
    assert dense.derivative(fine)[1:, 0] == pytest.approx(slope(fine, -1e-9)[1:], abs=1e-11)


@pytest.mark.parametrize("quad", QUADRATURES)
def test_a_guess_for_the_first_multiplier_does_not_spoil_the_first_step(quad: str) -> None:
    if quad == "LOBATTO":
        pytest.skip("a node at the start solves with what is given there")
    settings: dict[str, Any] = {"sweeper": "semi-implicit", "quad": quad, "dt": 0.05, "t_end": 0.2}
    wrong = np.array(ds.HessenbergIndex2().u_exact(0.0))
    wrong[2] += 50.0
    good, guessed = ds.solve("hessenberg-2", **settings), ds.solve("hessenberg-2", u0=wrong, **settings)
    assert guessed(0.0)[2] == wrong[2]
    times = np.linspace(0.005, 0.2, 40)
    reference = exact("hessenberg-2", times)
    assert np.abs(guessed(times) - reference).max() <= 20.0 * np.abs(good(times) - reference).max()


# --- Shapes, ranges, and what is kept -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def simple() -> Any:
    return ds.solve("simple", dt=0.1)


def test_shapes_follow_those_of_the_times(simple: Any) -> None:
    for function in (simple, simple.derivative):
        assert function(0.25).shape == (3,)
        assert function([0.25]).shape == (1, 3)
        assert function(np.empty(0)).shape == (0, 3)
        times = [0.9, 0.05, 0.5, 0.05]
        assert function(times) == pytest.approx(np.array([function(t) for t in times]), rel=1e-13)


@pytest.mark.parametrize("wrong", [-0.01, 1.001, [0.5, 1.5], np.nan])
def test_times_outside_the_run_are_refused_with_its_range(simple: Any, wrong: Any) -> None:
    for function in (simple, simple.derivative):
        with pytest.raises(InputError, match=r"outside the range \[0, 1\]"):
            function(wrong)


@pytest.mark.parametrize("wrong", ["soon", None, [[0.1, 0.2]], [0.1, "x"]])
def test_what_is_no_time_is_refused(simple: Any, wrong: Any) -> None:
    with pytest.raises(InputError, match=r"t must be a time|outside"):
        simple(wrong)


def test_round_off_in_the_sum_of_steps_does_not_shorten_the_range() -> None:
    dense = ds.solve("simple", dt=0.001).dense
    assert dense is not None
    short = DenseOutput(
        0.0, dense.u0, dense.ends - 1e-14, dense.values, dense.steps, dense.du0, dense.derivatives, 0
    )
    assert short.t_end < 1.0
    assert np.array_equal(short(1.0), dense.values[-1])
    with pytest.raises(InputError, match="outside"):
        short(1.0 + 1e-11)


def test_a_run_that_fails_covers_what_it_computed() -> None:
    done = ds.solve("pendulum", sweeper="semi-implicit", dt=0.1, t_end=1.0, maxiter=7, restol=1e-12)
    assert not done.success
    reached = done.t[-1]
    assert done(np.linspace(0.0, reached, 7)).shape == (7, 5)
    with pytest.raises(InputError, match="outside the range"):
        done(reached + 0.01)
    times = np.linspace(0.0, 1.0, 41)
    some = ds.solve(
        "pendulum", sweeper="semi-implicit", dt=0.1, t_end=1.0, maxiter=7, restol=1e-12, t_eval=times
    )
    assert np.array_equal(some.t, times[times <= reached])
    assert np.array_equal(some.u, done(some.t))


def test_without_dense_the_steps_are_the_same_and_nothing_lies_between(simple: Any) -> None:
    bare = ds.solve("simple", dt=0.1, dense=False)
    assert np.array_equal(bare.u, simple.u)
    for function in (bare, bare.derivative):
        with pytest.raises(InputError, match="dense=True"):
            function(0.5)


def test_large_problems_keep_nothing_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = __import__("sys").modules["dae_sdc.run.plan"]
    monkeypatch.setattr(module, "DENSE_LIMIT", 2)
    assert ds.solve("simple", dt=0.5).dense is None
    assert ds.solve("simple", dt=0.5, dense=True).dense is not None


# --- Output times -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dense", [None, True, False])
def test_output_times_take_the_place_of_the_steps(simple: Any, dense: bool | None) -> None:
    times = np.array([0.0, 0.03, 0.1, 0.55, 1.0])
    done = ds.solve("simple", dt=0.1, t_eval=times, dense=dense)
    assert np.array_equal(done.t, times)
    assert np.array_equal(done.u, simple(times))
    assert np.array_equal(done.du, simple.derivative(times))
    assert done.stats == simple.stats
    # The work of a step stands in the first row that is not before its end.
    for name, values in done.per_step.items():
        gather = np.max if name == "residual" else np.sum
        spans = [(simple.t > low) & (simple.t <= high) for low, high in pairwise(times)]
        expected = [0, *(gather(simple.per_step[name], where=span, initial=0) for span in spans)]
        assert np.array_equal(values, expected), name
    assert len(done.result().data) == len(times)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([0.5, 0.2], "increasing"),
        ([0.2, 0.2], "increasing"),
        ([], "increasing"),
        (0.5, "increasing"),
        ([0.5, 1.2], "outside the range"),
        ([-0.1], "outside the range"),
        ([0.1, np.nan], "outside the range"),
        ("often", "t_eval must be"),
    ],
)
def test_output_times_that_cannot_be_used_are_refused(wrong: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ds.solve("simple", dt=0.1, t_eval=wrong)


def test_dense_must_be_true_or_false() -> None:
    with pytest.raises(InputError, match="dense must be"):
        ds.solve("simple", dense="yes")  # type: ignore[arg-type]


def test_the_command_line_gives_equally_spaced_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "few.npy"
    assert cli.main(["solve", "simple", "--dt", "0.1", "--points", "11", "--out", str(path)]) == 0
    assert ds.load(path).data["t"] == pytest.approx(np.linspace(0.0, 1.0, 11))
    assert cli.main(["solve", "simple", "--points", "1"]) == 2
    assert "points must be an integer from 2 to" in capsys.readouterr().err


# --- Files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t_eval", [None, (0.1, 0.15, 0.4)])
@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "edirk4", "lobatto-iiic-4"])
def test_a_solution_comes_back_from_its_files(sweeper: str, t_eval: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.npy"
    done = ds.solve("hessenberg-1", sweeper=sweeper, dt=0.1, t_end=0.4, dense=True, out=path, t_eval=t_eval)
    again = ds.Solution.load(tmp_path / "run")
    times = np.linspace(0.0, 0.4, 33)
    assert np.array_equal(again(times), done(times))
    assert np.array_equal(again.derivative(times), done.derivative(times))
    assert np.array_equal(again(done.dense.ends), done(done.dense.ends))
    for name in ("t", "u", "du"):
        assert np.array_equal(getattr(again, name), getattr(done, name), equal_nan=True)
    for name in ("names", "units", "success", "message", "stats"):
        assert getattr(again, name) == getattr(done, name)
    for name, values in done.per_step.items():
        assert np.array_equal(again.per_step[name], values)
    assert {entry.name for entry in tmp_path.iterdir()} == {"run.npy", "run.json", "run.dense.npz"}
    again.save(tmp_path / "copy")
    assert np.array_equal(ds.Solution.load(tmp_path / "copy")(times), done(times))


def test_those_who_do_not_want_it_get_no_second_file(
    tmp_path: Path, simple: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    simple.save(tmp_path / "run")
    assert (tmp_path / "run.dense.npz").exists()
    with monkeypatch.context() as patch:
        patch.setattr("dae_sdc.run.solution.DENSE_FILE_LIMIT", 1)
        simple.save(tmp_path / "large")
        assert not (tmp_path / "large.dense.npz").exists()
    ds.solve("simple", dt=0.1, dense=False).save(tmp_path / "run")
    assert not (tmp_path / "run.dense.npz").exists()
    bare = ds.Solution.load(tmp_path / "run.npy")
    assert np.array_equal(bare.u, simple.u)
    with pytest.raises(InputError, match="not kept"):
        bare(0.5)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    ds.solve("simple", dt=0.1, dense=True, out=tmp_path / "one")
    ds.solve("simple", dt=0.2, dense=True, out=tmp_path / "two")
    (tmp_path / "two.dense.npz").replace(tmp_path / "one.dense.npz")
    with pytest.raises(ResultFileError, match="belongs to another solution"):
        ds.Solution.load(tmp_path / "one.npy")


@pytest.mark.parametrize("how", ["cut", "text", "empty", "missing array"])
def test_damaged_files_are_refused(how: str, tmp_path: Path) -> None:
    ds.solve("simple", dt=0.1, dense=True, out=tmp_path / "run")
    path = tmp_path / "run.dense.npz"
    content = path.read_bytes()
    if how == "missing array":
        with np.load(path) as file:
            kept = {name: file[name] for name in file if name != "rows0"}
        np.savez(path, **kept)
    else:
        path.write_bytes({"cut": content[:-100], "text": b"no archive", "empty": b""}[how])
    with pytest.raises(ResultFileError, match="is damaged"):
        ds.Solution.load(tmp_path / "run.npy")


def test_a_study_is_no_solution(tmp_path: Path) -> None:
    ds.convergence("hessenberg-1", dt=[0.1, 0.05], out=tmp_path / "study")
    with pytest.raises(ResultFileError, match="kind 'convergence'"):
        ds.Solution.load(tmp_path / "study.npy")


def test_an_empty_run_has_its_start_alone() -> None:
    done = ds.solve("pendulum", sweeper="semi-implicit", dt=0.1, maxiter=1, restol=1e-14)
    assert not done.success
    assert len(done.t) == 1
    assert np.array_equal(done(0.0), done.u[0])
    with pytest.raises(InputError, match=r"\[0, 0\]"):
        done(0.05)


# --- Ranks --------------------------------------------------------------------------------------------------


def test_runs_on_ranks_have_the_dense_output_of_serial_ones(three_ranks: Path) -> None:
    records = json.loads((three_ranks / "dense.json").read_text(encoding="utf-8"))
    assert len(records) == 18
    for record in records:
        assert record["same"], record
        assert record["ends"], record
        assert record["apart"] <= 1e-10, record


def test_many_times_are_evaluated_in_blocks() -> None:
    # u and u' have 40 bytes a time each; a row of data for every time would take ten times that.
    run = ds.solve("pendulum", rtol=1e-8)
    times = np.linspace(run.t[0], run.t[-1], 100_000)
    run(times[:10])
    tracemalloc.start()
    try:
        values = run(times)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert values.shape == (100_000, 5)
    assert peak < 8 * values.nbytes
    assert run.dense is not None
    assert np.array_equal(run.dense(times[::5_000]), run.dense(times)[::5_000])


def test_a_solution_at_other_times_takes_a_number_a_list_and_an_array() -> None:
    solution = ds.solve("robertson", rtol=1e-4, t_end=10.0)
    times = np.array([0.5, 2.0, 20.0])
    assert (solution.at(times).t == times[:2]).all()
    for given in (times.tolist(), tuple(times)):
        assert (solution.at(given).u == solution.at(times).u).all()
    np.testing.assert_allclose(solution.at(0.5).u, solution.at(times).u[:1], rtol=1e-12)
    for wrong in ("soon", [0.5, np.nan], -1.0):
        with pytest.raises(InputError, match="times"):
            solution.at(wrong)
