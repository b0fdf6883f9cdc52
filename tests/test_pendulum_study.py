"""The study of the elastic pendulum: known amplitudes, linear theory, its table, file and pictures."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from dae_sdc.cli import main
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.plotting import pendulum, plot
from dae_sdc.plotting.mechanism import methods
from dae_sdc.plotting.plot import plot_all
from dae_sdc.run.pendulum_study import METHODS, Method, pendulum_study, summary, windows
from dae_sdc.run.results import Result, load
from dae_sdc.run.sundials import installed

FIXED = ("reference", "explicit-euler", "bdf2", "bdf2/fixed-point", "bdf3", "bdf4")
CVODE = pytest.mark.skipif(not installed(), reason="scikit-sundae is not installed")


@pytest.fixture(scope="module")
def stiff() -> Result:
    """All methods of fixed steps at the stiffest spring."""
    return pendulum_study(k=[1500.0], sweeper=FIXED)


@pytest.fixture(scope="module")
def soft() -> Result:
    return pendulum_study(k=[10.0, 100.0], sweeper=["reference", "bdf3"], starting_procedure="collocation")


def row_of(result: Result, label: str, k: float = 1500.0) -> Any:
    data = result.data
    (row,) = data[(data["method"] == label) & (data["k"] == k)]
    return row


def test_windows_have_a_period_of_the_bounce_and_a_fifth_at_least() -> None:
    times = np.linspace(0.0, 5.0, 501)
    for k, length in ((1500.0, 0.2), (100.0, 2.0 * math.pi / 10.0), (1.0, 2.5)):
        first, last = windows(k, times)
        assert times[first].max() == pytest.approx(length, abs=0.01) and times[first].max() <= length + 1e-9
        assert times[last].min() == pytest.approx(5.0 - length, abs=0.01)
        assert first[0] and last[-1]


@pytest.mark.parametrize(
    ("label", "first", "last"),
    [
        ("reference", 0.1174, 0.1166),
        ("explicit-euler", 0.301, 5.9e13),
        ("bdf2", 0.122, 0.0175),
        ("bdf2-fixed-point", 0.122, 0.0175),
        ("bdf3", 0.145, 1.27),
        ("bdf4", 0.152, 0.253),
    ],
)
def test_the_bounce_is_that_of_the_classical_study(
    stiff: Result, label: str, first: float, last: float
) -> None:
    row = row_of(stiff, label)
    assert row["amplitude_start"] == pytest.approx(first, rel=5e-3)
    assert row["amplitude_end"] == pytest.approx(last, rel=5e-3)
    assert row["steps"] == (500 if label != "reference" else row["steps"])


def test_linear_theory_gives_the_factor_of_the_bounce(stiff: Result) -> None:
    # Roots of the characteristic polynomials at z = i h sqrt(k), to the power of 500; that of Euler is 1 + z.
    z = 0.01j * math.sqrt(1500.0)
    assert row_of(stiff, "explicit-euler")["theory"] == pytest.approx(abs(1.0 + z) ** 500, rel=1e-9)
    for label, alpha in (("bdf2", [1.5, -2.0, 0.5]), ("bdf3", [11.0 / 6.0, -3.0, 1.5, -1.0 / 3.0])):
        roots = np.roots(np.array(alpha) - np.eye(len(alpha))[0] * z)
        principal = roots[np.abs(roots - np.exp(z)).argmin()]
        row = row_of(stiff, label)
        assert row["theory"] == pytest.approx(abs(principal) ** 500, rel=1e-9)
        # Half of a window of 20 steps lies between the two amplitudes and the ends of the run, twice.
        assert row["amplitude_end"] / row["amplitude_start"] == pytest.approx(row["theory"], rel=0.2)
    assert np.isnan(row_of(stiff, "reference")["theory"])


def test_the_damping_is_that_of_the_method_and_not_of_its_corrector(stiff: Result) -> None:
    newton, fixed = row_of(stiff, "bdf2"), row_of(stiff, "bdf2-fixed-point")
    assert np.abs(newton["y1"] - fixed["y1"]).max() < 1e-6
    assert newton["rhs"] < fixed["rhs"]
    assert fixed["corrector"] == "fixed-point" and newton["corrector"] == ""


def test_the_accurate_solution_is_accurate_and_errors_are_measured(stiff: Result, soft: Result) -> None:
    exact = row_of(stiff, "reference")
    assert exact["error"] < 1e-9 and abs(exact["energy"]) < 1e-9
    # The energy of the end is lower by what the bounce has lost: k/2 (A0^2 - A1^2), nearly.
    damped = row_of(stiff, "bdf2")
    lost = 0.5 * 1500.0 * (0.118**2 - damped["amplitude_end"] ** 2)
    assert damped["energy"] == pytest.approx(-lost, rel=0.05)
    coarse, fine = (row_of(soft, "bdf3", k)["error"] for k in (100.0, 10.0))
    halved = pendulum_study(k=[10.0], sweeper=["bdf3"], dt=0.005, starting_procedure="collocation")
    assert fine / halved.data["error"][0] == pytest.approx(8.0, rel=0.1)
    assert fine < coarse


def test_trajectories_begin_at_the_start(stiff: Result) -> None:
    for row in stiff.data:
        assert (row["y1"][0], row["y2"][0]) == (0.5, -1.0)
        assert row["y1"].shape == (501,) and np.isfinite(row["y1"]).all()
    assert stiff.kind == "pendulum" and stiff.parameters["interval"] == [0.0, 5.0]


@CVODE
def test_cvode_is_stable_at_a_tight_tolerance_and_changes_the_bounce_at_loose_ones() -> None:
    found = pendulum_study(k=[1500.0], sweeper=["cvode"], rtol=[1e-6, 1e-3, 1e-2], max_order=[5])
    assert found.data["method"].tolist() == [f"cvode-{rtol}-order-5" for rtol in ("1e-06", "0.001", "0.01")]
    ratios = found.data["amplitude_end"] / found.data["amplitude_start"]
    assert ratios[0] == pytest.approx(0.1166 / 0.1174, abs=0.01)
    assert (np.abs(ratios[1:] - 1.0) > 0.1).all()
    assert (np.diff(found.data["steps"]) < 0).all() and found.data["error"][0] < 1e-3


@CVODE
def test_every_tolerance_goes_with_every_order() -> None:
    found = pendulum_study(k=[10.0], sweeper=["ida"], rtol=[1e-2, 1e-3], max_order=[1, 2])
    assert [(row["rtol"], row["max_order"]) for row in found.data] == [
        (1e-2, 1),
        (1e-2, 2),
        (1e-3, 1),
        (1e-3, 2),
    ]
    assert np.isnan(found.data["dt"]).all()


@pytest.mark.filterwarnings("ignore::dae_sdc.errors.DAEWarning")
def test_a_run_that_fails_is_a_finding() -> None:
    # h sqrt(k) = 31.6: the factor of a step is 31.6, so 500 steps pass the largest number.
    found = pendulum_study(k=[1e7], sweeper=["explicit-euler", "bdf2"])
    euler, bdf2 = found.data
    assert np.isnan(euler["amplitude_end"]) and np.isnan(euler["error"])
    assert np.isfinite(bdf2["amplitude_end"])
    assert len(found.parameters["failures"]) == 1
    assert found.parameters["failures"][0].startswith("explicit-euler, k=1e+07: ")


@pytest.mark.filterwarnings("ignore::dae_sdc.errors.DAEWarning")
def test_without_sundials_the_rest_is_run_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[pendulum_study.__module__], "installed", lambda: False)
    found = pendulum_study(k=[10.0], dt=0.5)
    assert found.parameters["left_out"] == ["cvode: scikit-sundae is not installed"]
    assert {row["sweeper"] for row in found.data} == {name.partition("/")[0] for name in METHODS} - {"cvode"}
    assert "left out: cvode" in summary(found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": []}, "spring constants must be positive"),
        ({"k": [10.0, -1.0]}, "spring constants must be positive"),
        ({"sweeper": []}, "name at least one sweeper"),
        ({"sweeper": 3}, "sweeper must be a text or a sequence of texts"),
        ({"sweeper": ["bdf9"]}, "unknown sweeper 'bdf9'; did you mean"),
        ({"sweeper": ["cvode/newton"]}, "has no choice of correctors"),
        ({"sweeper": ["radau-iia-5/newton"]}, "no effect on 'radau-iia-5': corrector"),
        ({"sweeper": ["cvode"], "rtol": []}, "nothing to run"),
        ({"dt": 0.3}, "does not divide"),
    ],
)
def test_what_cannot_be_used_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        pendulum_study(**given)


def test_labels_name_what_was_chosen() -> None:
    assert Method("bdf2").label == "bdf2" and Method("bdf2", "fixed-point").label == "bdf2-fixed-point"
    assert Method("cvode", rtol=1e-6, max_order=2).label == "cvode-1e-06-order-2"


def test_every_method_has_a_picture_with_the_start_in_it(stiff: Result, tmp_path: Path) -> None:
    file = stiff.save(tmp_path / "study.npy")
    pictures = list(plot_all(("pendulum", file), tmp_path / "way.png", {}))
    assert [picture.name for picture in pictures] == [f"way-{name}.png" for name in methods(stiff)]
    assert all(picture.stat().st_size > 5000 for picture in pictures)
    for name in methods(stiff):
        (axes,) = pendulum(stiff, name).get_axes()
        points = [line.get_xydata().tolist() for line in axes.get_lines()]
        assert [[0.5, -1.0]] in points
    assert "bounce 0.145 to 1.27" in panel(stiff, "bdf3").get_title()
    texts = [text.get_text() for text in panel(stiff, "explicit-euler").texts]
    assert texts == ["leaves the picture"]


def panel(result: Result, name: str) -> Axes:
    (axes,) = pendulum(result, name).get_axes()
    return axes


def test_a_panel_for_each_spring_with_the_accurate_solution_behind(soft: Result) -> None:
    panels = [axes for axes in pendulum(soft, "bdf3").get_axes() if axes.get_visible()]
    assert [axes.get_title().partition(":")[0] for axes in panels] == ["k=10", "k=100"]
    for axes, k in zip(panels, (10.0, 100.0), strict=True):
        behind, own = axes.get_lines()[:2]
        assert np.array_equal(behind.get_xdata(), row_of(soft, "reference", k)["y1"])
        assert np.array_equal(own.get_xdata(), row_of(soft, "bdf3", k)["y1"])
    assert len(panels[0].get_lines()) == 4
    assert len(pendulum(soft).get_axes()[0].get_lines()) == 3  # the accurate solution alone


def test_pictures_of_damaged_files_are_refused(stiff: Result, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no method 'bdf7'; it has reference, "):
        pendulum(stiff, "bdf7")
    short = Result("pendulum", stiff.data[["method", "k"]].copy(), {}, {}, info={})
    with pytest.raises(ResultFileError, match="lacks the columns amplitude_start"):
        plot("pendulum", short.save(tmp_path / "short.npy"))
    flat = np.zeros(1, dtype=[(name, "f8" if name == "y1" else stiff.data.dtype[name]) for name in
                              (stiff.data.dtype.names or ())])  # fmt: skip
    with pytest.raises(ResultFileError, match="column 'y1' of the result holds no trajectories"):
        pendulum(Result("pendulum", flat, {}, {}, info={}))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "study.npy"
    arguments = ["--sweeper", "bdf2,bdf2/fixed-point", "--k", "10,100", "--dt", "0.05", "--out", str(out)]
    assert main(["pendulum-study", *arguments, "--starting-procedure", "collocation"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == f"written to {out}" and len(said) == 6
    result = load(out)
    assert result.parameters["k"] == [10.0, 100.0] and result.parameters["complete"] is True
    assert set(result.data["starting_procedure"]) == {"collocation"} and result.units["time"] == "s"
    assert main(["plot", "pendulum", str(out)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
