"""Paths of homotopies as data: where they lead, what they satisfy, and what the predictor does alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp

import dae_sdc as ds
from benchmarks.studies.polynomials import katsura, product_of
from dae_sdc import cli
from dae_sdc.errors import InputError
from dae_sdc.polynomials.polynomials import PolynomialSystem
from dae_sdc.run.initial import initial

x, y = sp.symbols("x y")
SIMPLE = [3.0, 0.5 + 5j, 1j, 7j]
FOUR = product_of(3, "1/2 + 5*I", "I", "7*I")


def solved(system: PolynomialSystem, steps: int | None = None, **options: Any) -> tuple[ds.Roots, Any]:
    """Solutions, and a row for each point with its variables as ``x``."""
    roots, paths = ds.record_paths(
        lambda: ds.solve_polynomials(system, certify=False, **options), predictor_steps=steps
    )
    assert paths.kind == "paths"
    return roots, paths


def values(paths: ds.Result) -> Any:
    return paths["re"] + 1j * paths["im"]


def test_paths_go_from_the_start_to_the_solutions_and_what_is_solved_is_as_without_a_record() -> None:
    system = katsura(3)
    roots, paths = solved(system)
    alone = ds.solve_polynomials(system, certify=False)
    np.testing.assert_array_equal(roots.solutions, alone.solutions)
    assert roots.steps == alone.steps
    starts, ends = (values(paths)[paths["t"] == t] for t in (1.0, 0.0))
    assert sorted(set(paths["path"].tolist())) == list(range(roots.paths))
    assert len(starts) == len(ends) == roots.paths
    scales = system.scaled()[1]
    degrees = system.degrees
    np.testing.assert_allclose((starts / scales) ** degrees, np.ones((8, 4)), atol=1e-14)
    away = np.abs(ends[:, None] - roots.solutions[None]).max(axis=2)
    assert away.min(axis=1).max() < 1e-12
    assert sorted(away.argmin(axis=1).tolist()) == list(range(8))


def test_points_satisfy_the_homotopy_and_steps_are_differences_of_t() -> None:
    # (1 - t) c F(x) + gamma t (x^4 - s^4) = 0 for one factor c and one gamma, which two points determine.
    paths = solved(FOUR)[1]
    scale = FOUR.scaled()[1][0]
    z, t = values(paths)[:, 0], paths["t"]
    within = (t > 0.0) & (t < 1.0)
    z, t = z[within], t[within]
    ratio = (1.0 - t) * np.prod([z - root for root in SIMPLE], axis=0) / (t * (z**4 - scale**4))
    np.testing.assert_allclose(ratio, np.full(len(z), ratio[0]), rtol=1e-6)
    for path in range(4):
        rows = paths.data[paths["path"] == path]
        assert (np.diff(rows["t"]) < 0.0).all()
        np.testing.assert_allclose(rows["step"][1:], -np.diff(rows["t"]), rtol=1e-15)


def test_condition_numbers_are_those_of_the_jacobian_with_the_patch() -> None:
    """Of x^2 - 4 at t = 0 in homogeneous coordinates, by hand: (2 x, -8 w) and the conjugate point."""
    paths = solved(PolynomialSystem([[1.0, -4.0]], [[2], [0]]))[1]
    ends = paths.data[paths["t"] == 0.0]
    scaled, scales = PolynomialSystem([[1.0, -4.0]], [[2], [0]]).scaled()
    lead, last = scaled.coefficients[0, np.argsort(-scaled.exponents[:, 0])]
    for row in ends:
        point = np.array([1.0, row["re"][0] / scales[0]])
        point /= np.linalg.norm(point)
        matrix = [[2.0 * last * point[0], 2.0 * lead * point[1]], point]
        assert row["condition"] == pytest.approx(np.linalg.cond(np.array(matrix)), rel=1e-9)


def test_the_predictor_alone_is_of_order_4_at_simple_solutions() -> None:
    errors = []
    for steps in (200, 400, 800):
        paths = solved(FOUR, steps)[1]
        ends = paths["t"] == 0.0
        alone = values(paths)[ends & ~paths["corrected"], 0]
        errors.append(np.abs(alone - np.array(SIMPLE)[np.abs(alone[:, None] - SIMPLE).argmin(axis=1)]))
        assert (paths["corrected"] == 0).sum() == 4 * (steps + 1)
        together = values(paths)[ends & paths["corrected"], 0]
        assert np.abs(together[:, None] - SIMPLE).min(axis=1).max() < 1e-12
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert orders.min() > 3.3
    assert orders[1].max() < 4.3


def test_at_a_double_solution_it_is_of_order_one_half() -> None:
    """The path is a power series of the square root of t, whose steepest part the last steps miss."""
    away = []
    for steps in (1000, 8000):
        paths = solved(product_of(3, 3), steps)[1]
        ends = (paths["t"] == 0.0) & ~paths["corrected"]
        away.append(np.abs(values(paths)[ends, 0] - 3.0).max())
    assert np.log(away[0] / away[1]) / np.log(8.0) == pytest.approx(0.5, abs=0.05)


def test_ends_at_infinity_have_no_values() -> None:
    system = PolynomialSystem.from_sympy([x * y - 1, x * (y - 2)], [x, y])
    roots, paths = solved(system)
    lost = np.isnan(paths["re"]).all(axis=1)
    assert lost.sum() == roots.at_infinity == 3
    assert (paths["t"][lost] == 0.0).all()


def test_the_last_way_of_a_path_that_is_followed_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    tracking = pytest.importorskip("dae_sdc.polynomials.tracking")
    first = tracking.FOLLOWED[0]._replace(most_steps=3)
    monkeypatch.setattr(tracking, "FOLLOWED", [first, *tracking.FOLLOWED[1:]])
    roots, paths = solved(katsura(2))
    assert roots.retracked > 0
    assert sorted(paths["path"][paths["t"] == 0.0].tolist()) == list(range(4))


def test_workers_record_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dae_sdc.polynomials.tracking.PATHS_PER_JOB", 4)
    alone, shared = (solved(katsura(3), 5, workers=workers)[1] for workers in (1, 2))
    np.testing.assert_array_equal(alone.data, shared.data)


def test_paths_of_a_decomposition_stay_on_the_polynomials_before() -> None:
    """A conic and a hyperplane: from the second polynomial on, all paths lie on the first, the plane."""
    system = PolynomialSystem.from_sympy([x + y - 1, x**2 + y**2 - 4], [x, y])
    parts, paths = ds.record_paths(lambda: ds.decompose(system))
    assert len(parts.components) == 2
    ends = values(paths)[(paths["t"] == 0.0) & (paths["homotopy"] == paths["homotopy"].max())]
    exact = np.array([(1 + np.sqrt(7)) / 2, (1 - np.sqrt(7)) / 2])
    np.testing.assert_allclose(np.sort(ends[:, 0].real), np.sort(exact), rtol=1e-12)
    np.testing.assert_allclose(ends.sum(axis=1), 1.0, rtol=1e-12)


def test_what_follows_no_paths_is_refused() -> None:
    with pytest.raises(InputError, match="no paths were followed"):
        ds.record_paths(lambda: 3)
    with pytest.raises(InputError, match="call is called without arguments; it needs t, u"):
        ds.record_paths(lambda t, u: None)
    with pytest.raises(InputError, match="predictor_steps"):
        ds.record_paths(lambda: 3, predictor_steps=0)
    with pytest.raises(InputError, match="predictor_steps has no effect without paths"):
        initial("slider-crank-4", all_solutions=True, predictor_steps=3)


def test_the_verb_writes_paths_in_the_units_of_the_model_and_draws_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = "initial slider-crank-4 --all-solutions --paths ways.npy --predictor-steps 20"
    assert cli.main(command.split()) == 0
    assert "written to ways.npy" in capsys.readouterr().out
    paths = ds.load("ways.npy")
    ends = values(paths)[(paths["t"] == 0.0) & paths["corrected"]]
    rods = [one["rod"] for one in initial("slider-crank-4", all_solutions=True).solutions]
    exact = np.array([[np.cos(rod), np.sin(rod)] for rod in rods])
    np.testing.assert_allclose(ends[np.argsort(ends[:, 0])], exact[np.argsort(exact[:, 0])], atol=1e-12)
    assert cli.main(["plot", "ways.npy"]) == 0
    assert Path("ways.png").stat().st_size > 5000
    figure = ds.plot(paths)
    assert len(figure.axes) == paths["re"].shape[1]
