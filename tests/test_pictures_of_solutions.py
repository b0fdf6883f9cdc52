"""Pictures of solutions show the solution: between the steps, by name, with what happened on the way."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.errors import InputError
from dae_sdc.options import patterns_of
from dae_sdc.plotting import mechanism
from dae_sdc.plotting.solution import thinned
from dae_sdc.run.results import Result
from dae_sdc.run.unknowns import compiled_expression, evaluated

plotting = importlib.import_module("dae_sdc.plotting.plot")

STATE = [("t", "f8"), ("residual", "f8"), ("sweeps", "i8")]
WORK = [(name, "i8") for name in ("rhs", "newton", "jacobian", "factorization", "solve")]


def table(
    values: dict[str, Any], units: dict[str, str] | None = None, n_diff: int = 1, **more: Any
) -> Result:
    """A result with a column of values for each unknown over the times from 0 to 1."""
    columns = np.column_stack(list(values.values()))
    rows, n = columns.shape
    data = np.zeros(rows, dtype=[*STATE, ("u", "f8", (n,)), ("du", "f8", (n,)), *WORK])
    data["t"], data["u"] = np.linspace(0.0, 1.0, rows), columns
    names = list(values)
    about = {"names": names, "units": [(units or {}).get(name, "") for name in names], "n_diff": n_diff}
    return Result("solution", data, {"t": "s"}, {**about, "success": True, "message": "", **more}, info={})


def curves(axes: Axes) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in axes.lines if not str(line.get_label()).startswith("_")}


def points(line: Line2D) -> Any:
    return np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.fixture(scope="module")
def oscillator() -> Any:
    """x = cos 5 t and its speed, with x + y = 1, in a few steps."""

    def equations(t: float, u: Any, du: Any) -> Any:
        return [du[0] - u[1], du[1] + 25.0 * u[0], u[2] + u[0] - 1.0]

    return ds.solve(equations, u0=[1.0, 0.0, 0.0], t_end=2.0, rtol=1e-6, sweeper="radau-iia-13")


def test_curves_are_the_solution_between_the_steps(oscillator: Any, tmp_path: Path) -> None:
    assert len(oscillator.t) < 30
    oscillator.save(tmp_path / "run.npy")
    for figure in (oscillator.plot(), ds.plot(tmp_path / "run.npy"), ds.plot("linear", oscillator)):
        found = {name: line for axes in figure.axes for name, line in curves(axes).items()}
        t, x = points(found[oscillator.names[0]])
        assert len(t) > 1000 and np.abs(x - np.cos(5.0 * t)).max() < 1e-4
        assert np.isin(oscillator.t, t).all()
        t, y = points(found[oscillator.names[2]])
        assert np.abs(y - (1.0 - np.cos(5.0 * t))).max() < 1e-4


def test_unknowns_without_a_derivative_are_dashed() -> None:
    both = table({"x": np.ones(4), "z": np.ones(4)})
    axes = both.plot().axes[0]
    assert {name: line.get_linestyle() for name, line in curves(axes).items()} == {"x": "-", "z": "--"}
    assert axes.get_title(loc="left") == "solid: with a derivative in the equations; dashed: without"
    nobody_looked = table({"x": np.ones(4), "z": np.ones(4)}, n_diff=2).plot().axes[0]
    assert nobody_looked.get_title(loc="left") == ""


def test_eliminated_unknowns_are_called_what_they_are() -> None:
    made = table({"x": np.ones(4), "y": np.ones(4)}, n_diff=1, others=["force"], other_units=[""])
    types = [*((name, made.data.dtype[name]) for name in made.data.dtype.names or ()), ("others", "f8", (1,))]
    data = np.zeros(4, dtype=types)
    data["t"], data["u"], data["others"] = made.data["t"], 1.0, 0.5
    axes = ds.plot(Result("solution", data, {"t": "s"}, made.parameters, info={})).axes[0]
    assert list(curves(axes)) == ["x", "y", "force"]
    assert axes.get_title(loc="left") == (
        "solid: with a derivative in the equations; dashed: without or computed from the others"
    )


def test_steps_are_marked_if_asked(oscillator: Any) -> None:
    plain, marked = oscillator.plot(show="u[0]"), oscillator.plot(show="u[0]", steps=True)
    assert all(line.get_marker() in ("None", "") for line in plain.axes[0].lines)
    (ends,) = [line for line in marked.axes[0].lines if line.get_marker() == "."]
    assert np.array_equal(points(ends)[0], oscillator.t)
    assert legend(marked) == ["ends of steps"]


def test_values_at_given_times_alone_are_points_joined_by_lines() -> None:
    figure = ds.plot(table({"x": np.arange(5.0)}))
    assert points(curves(figure.axes[0])["x"])[0].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert curves(figure.axes[0])["x"].get_marker() == "."


def test_eliminated_unknowns_are_drawn_between_the_steps_from_the_file(tmp_path: Path) -> None:
    m = ds.Model("force", interval=(0.0, 2.0))
    x, v, force = m.variables("x v force", start=[1.0, 0.0, 0.0])
    m.equations(m.der(x) - v, m.der(v) - force, force + 25.0 * x)
    done = ds.solve(m, simplify=True, rtol=1e-6, sweeper="radau-iia-13", out=tmp_path / "run.npy")
    assert "force" not in done.names and len(done.t) < 40
    for figure in (done.plot(show="force"), ds.plot(tmp_path / "run.npy", show="force")):
        t, values = points(curves(figure.axes[0])["force"])
        assert len(t) > 1000 and np.abs(values + 25.0 * np.cos(5.0 * t)).max() < 1e-3


def test_jumps_are_steep() -> None:
    def stairs(t: float, u: Any, du: Any) -> Any:
        return [du[0] - 1.0, u[1] - np.floor(4.0 * u[0])]

    figure = ds.solve(stairs, u0=[0.0, 0.0], t_end=1.0, rtol=1e-6).plot(show="u[1]")
    t, values = points(curves(figure.axes[0])["u[1]"])
    jumps = np.abs(np.diff(values)) > 0.5
    assert jumps.sum() >= 3 and np.diff(t)[jumps].max() < 2e-3


@pytest.mark.parametrize(
    ("show", "names"),
    [
        ("x,y", ["x", "y"]),
        ("Main.*", ["Main.Hinge.x", "Main.Hinge.r[1]", "Main.Hinge.r[2]"]),
        ("Main.Hinge.r[?]", ["Main.Hinge.r[1]", "Main.Hinge.r[2]"]),
        (["y", "x"], ["y", "x"]),
        ("der(x), x", ["der(x)", "x"]),
        ("*r[2]", ["Main.Hinge.r[2]"]),
    ],
)
def test_unknowns_are_chosen_by_name_and_pattern(show: Any, names: list[str]) -> None:
    known = ("x", "y", "Main.Hinge.x", "Main.Hinge.r[1]", "Main.Hinge.r[2]")
    figure = ds.plot(table({name: np.ones(5) for name in known}), show=show)
    assert sorted(name for axes in figure.axes for name in curves(axes)) == sorted(names)


def test_patterns_that_fit_nothing_are_told() -> None:
    with pytest.raises(InputError, match=r"unknown name 'z\*'; available: x"):
        ds.plot(table({"x": np.ones(3)}), show="x,z*")
    assert patterns_of("a[1,2], der(x, 2),b") == ["a[1,2]", "der(x, 2)", "b"]


def test_unknowns_of_one_unit_share_a_panel_unless_one_would_be_invisible() -> None:
    names = {f"c{place}": 10.0**place * np.ones(4) for place in range(-6, 7)}
    figure = ds.plot(table(names, dict.fromkeys(names, "mol")), show="*")
    sizes = [[np.abs(points(line)[1]).max() for line in curves(axes).values()] for axes in figure.axes]
    assert sum(map(len, sizes)) == 13 and all(max(panel) <= 30.0 * min(panel) for panel in sizes)
    together = ds.plot(table({"a": np.ones(3), "b": 0.5 * np.ones(3)}, {"a": "V", "b": "V"}))
    assert [axes.get_ylabel() for axes in together.axes] == ["a, b [V]"]
    assert together.axes[0].get_title(loc="left").startswith("solid: with a derivative in the equations")


@pytest.mark.parametrize(
    ("size", "unit", "label", "factor"),
    [
        *[(0.02, "A", "y [mA]", 1e-3), (3e-7, "F", "y [nF]", 1e-9), (4e4, "V", "y [kV]", 1e3)],
        *[(2e-3, "m/s", "y [mm/s]", 1e-3), (5e6, "N*m", "y [MN·m]", 1e6), (4e-5, "rad", "y [µrad]", 1e-6)],
        *[(0.6, "m", "y [m]", 1.0), (0.02, "m^2", "y [m$^{2}$]", 1.0), (0.02, "kg", "y [kg]", 1.0)],
        *[(0.02, "", "y", 1.0), (0.02, "1/s", "y [1/s]", 1.0), (0.0, "V", "y [V]", 1.0)],
    ],
)
def test_axes_count_in_milli_or_kilo_of_a_unit(size: float, unit: str, label: str, factor: float) -> None:
    t = np.linspace(0.0, 2e-6, 21)
    run = table({"y": size * np.cos(1e6 * t)}, {"y": unit})
    run.data["t"] = t
    for figure, axis in ((ds.plot(run), "y"), (ds.plot(run, x="y", y="y"), "x")):
        axes = figure.axes[0]
        assert (axes.get_ylabel() if axis == "y" else axes.get_xlabel()) == label
        assert np.abs(points(axes.lines[0])[0 if axis == "x" else 1]).max() == size
        if factor != 1.0:
            told = (axes.yaxis if axis == "y" else axes.xaxis).get_major_formatter()
            assert told(-0.5 * size, 0) == f"{-0.5 * size / factor:.6g}".replace("-", "\N{MINUS SIGN}")
    assert ds.plot(run).axes[-1].get_xlabel() == "time [µs]"
    logarithmic = ds.plot(table({"y": np.full(3, 0.02)}, {"y": "A"}), log="y")
    assert logarithmic.axes[0].get_ylabel() == "y [A]"


def test_arcs_between_impacts_are_one_curve_whose_jumps_are_steep() -> None:
    m = ds.Model("ball", interval=(0.0, 1.5))
    h, v = m.variables("h v", start=[1.0, 0.0])
    m.equations(m.der(h) - v, m.der(v) + 9.81)
    m.when(h, {v: -0.8 * v}, direction=-1)
    solution = ds.solve(m, rtol=1e-6)
    assert len(solution.events[0].t) == 2
    drawn = [line for axes in ds.plot(solution).axes for line in curves(axes).items()]
    assert sorted(name for name, _ in drawn) == ["h", "v"]
    assert all(np.isfinite(np.asarray(line.get_ydata())).all() for _, line in drawn)
    phase = ds.plot(solution, x="h", y="v").axes[0]
    assert len({line.get_color() for line in phase.lines if np.size(line.get_xdata()) > 2}) == 1


def test_a_curve_in_the_plane_is_as_smooth_as_the_solution() -> None:
    """A circle of radius 1 in few steps: no chord of what is drawn is seen beside it."""
    run = ds.solve(lambda t, u, du: [du[0] - u[1], du[1] + u[0]], u0=[0.0, 1.0], t_end=6.0, rtol=1e-6)
    line = max(ds.plot(run, x="u[0]", y="u[1]").axes[0].lines, key=lambda one: np.size(one.get_xdata()))
    x, y = (np.asarray(data) for data in (line.get_xdata(), line.get_ydata()))
    middles = np.hypot(x[1:] + x[:-1], y[1:] + y[:-1]) / 2.0
    assert len(run.t) < 40 and abs(1.0 - middles).max() < 1e-3


def test_phase_plots_show_unknowns_of_very_different_sizes() -> None:
    t = np.linspace(0.0, 1.0, 50)
    sizes = table({"t1": t, "large": np.sin(t), "small": 1e-9 * np.cos(t), "near": 0.5 * t})
    figure = ds.plot(sizes, x="t1", y="large,small,near")
    assert [axes.get_ylabel() for axes in figure.axes] == ["large, near", "small"]
    many = table({f"x{k}": np.sin(k * t) for k in range(60)})
    assert len(ds.plot(many, x="x1", y="x*").legends[0].get_texts()) < 20


def test_solutions_that_coincide_are_all_seen() -> None:
    one = table({"x": np.linspace(0.0, 1.0, 5)})
    widths = [line.get_linewidth() for line in ds.plot({"a": one, "b": one}).axes[0].lines]
    assert widths[0] > 1.5 * widths[1]


def test_logarithmic_axes() -> None:
    many = table({"x": 10.0 ** np.linspace(-6, 6, 9), "z": -(10.0 ** np.linspace(-6, 6, 9))})
    assert ds.plot(many, show="x", log="y").axes[0].get_yscale() == "log"
    assert ds.plot(many, log="y").axes[0].get_yscale() == "symlog"
    assert ds.plot(many, log="xy").axes[-1].get_xscale() == "log"
    crowded = table({"x": np.linspace(0.0, 1.0, 30)})
    crowded.data["t"] = [0.0, *np.geomspace(1e-9, 1e6, 29)]
    assert ds.plot(crowded).axes[0].get_xscale() == "log"
    assert ds.plot(crowded, log="none").axes[0].get_xscale() == "linear"
    crowded.data["u"][:, 0] = np.sin(
        1e-6 * crowded.data["t"]
    )  # small steps at first, in which nothing happens
    assert ds.plot(crowded).axes[0].get_xscale() == "linear"
    with pytest.raises(InputError, match="log is one of x, y, xy, none; got 'z'"):
        ds.plot(many, log="z")


def test_several_solutions_lie_over_each_other(tmp_path: Path) -> None:
    files = [table({"x": value * np.ones(4)}).save(tmp_path / f"run{value}") for value in (1, 2, 3)]
    figure = ds.plot(*files)
    assert legend(figure) == ["run1", "run2", "run3"]
    assert [points(line)[1][0] for line in figure.axes[0].lines] == [1.0, 2.0, 3.0]
    assert len({line.get_color() for line in figure.axes[0].lines}) == 3
    pair = {name: table({"x": np.ones(3), "y": np.ones(3)}, n_diff=2) for name in ("R=0.5", "R=2.5")}
    figure = ds.plot(pair)
    assert legend(figure) == ["R=0.5", "R=2.5"]
    assert {line.get_linestyle() for line in figure.axes[0].lines} == {"-", "--"}


def test_events_switches_and_failures_are_marked() -> None:
    records = {"events": [{"name": "ground", "t": [0.2, 0.7]}], "switches": [{"name": "valve", "t": [0.5]}]}
    failed = {"success": False, "message": "Newton's iteration diverged; take smaller steps"}
    figure = ds.plot(table({"x": np.ones(4)}, **records, **failed))
    texts = [re.sub(r"\s+", " ", text) for text in legend(figure)]
    assert texts == [
        "event: ground (2 times)",
        "switch: valve",
        "stopped at t=1: Newton's iteration diverged; take smaller steps",
    ]
    lines = [part.get_segments() for part in figure.axes[0].collections]
    assert sorted(float(line[0][0]) for lines_ in lines for line in lines_) == [0.2, 0.5, 0.7]


def test_phase_plots_have_unknowns_on_both_axes(oscillator: Any) -> None:
    figure = oscillator.plot(x="u[0]", y="u[1]")
    x, y = points(figure.axes[0].lines[0])
    assert len(x) > 1000 and np.abs(x**2 + (y / 5.0) ** 2 - 1.0).max() < 1e-4
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("u[0]", "u[1]")
    assert legend(figure) == ["start", "end"]
    with pytest.raises(InputError, match="needs the unknowns of both axes"):
        oscillator.plot(x="u[0]")
    with pytest.raises(InputError, match="no picture of a solution takes all of show, x"):
        oscillator.plot(x="u[0]", show="u[1]")


def test_a_mechanism_is_drawn_and_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mechanism.FRAMES == 150
    monkeypatch.setattr(mechanism, "FRAMES", 12)
    angle = np.linspace(0.0, 1.5, 40)
    turning = table({"phi": angle}, params={"length": 2.0})
    points_ = "O=0,0; A=length*cos(phi),length*sin(phi); B=length*cos(phi),0"
    figure = ds.plot(turning, points=points_, bars="O-A,A-B", out=tmp_path / "crank.png")
    x, y = points(figure.axes[0].lines[1])
    assert np.allclose(x**2 + y**2, 4.0)
    ds.plot(turning, points=points_, bars="O-A,A-B", out=tmp_path / "crank.gif")
    with Image.open(tmp_path / "crank.gif") as motion:
        assert getattr(motion, "n_frames", 1) == 12 and getattr(motion, "is_animated", False)
    for wrong, words in (
        ({"points": "O=0"}, "a point is NAME=X,Y"),
        ({"points": "O=0,q"}, "unknown name 'q'"),
        ({"points": "O=0,0;A=1,1", "bars": "O-C"}, "a bar joins two of the points O, A"),
        ({}, "no unknowns are called like coordinates"),
    ):
        with pytest.raises(InputError, match=words):
            turning.plot("mechanism", **wrong)
    with pytest.raises(InputError, match="only a mechanism moves"):
        ds.plot(turning, out=tmp_path / "x.gif")


def test_a_frame_is_what_the_whole_picture_shows() -> None:
    angle = np.linspace(0.0, 1.5, 40)
    turning = table({"phi": angle}, params={"length": 2.0})
    figure: Any = ds.plot(turning, points="O=0,0; A=length*cos(phi),length*sin(phi)", bars="O-A")
    frames = [frame.astype(int) for frame in plotting._frames(figure)]
    whole: Any = FigureCanvasAgg(figure)
    for number in (20, 70, 120):  # drawn anew, with all that stands still
        figure.show_frame(number)
        whole.draw()
        different = (np.abs(frames[number] - np.asarray(whole.buffer_rgba())) > 8).any(axis=-1)
        assert different.mean() < 1e-4


def test_a_video_is_written_by_ffmpeg_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanism, "FRAMES", 5)
    turning = table({"x": np.cos(np.linspace(0.0, 1.5, 40)), "y": np.linspace(0.0, 1.0, 40)})
    motion: dict[str, Any] = {"points": "O=0,0; A=x,y", "out": tmp_path / "crank.mp4"}
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="a video needs the program ffmpeg, which is not there; install it"):
        ds.plot(turning, **motion)
    program = tmp_path / "ffmpeg"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nbytes = sys.stdin.buffer.read()\n"
        "width, height = map(int, sys.argv[sys.argv.index('-s') + 1].split('x'))\n"
        "print(len(bytes) / (4 * width * height), sys.argv[-3:])\n"
    )
    program.chmod(0o755)
    ds.plot(turning, **motion)
    assert (tmp_path / "crank.mp4").read_text() == "5.0 ['-f', 'mp4', '-']\n"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no such codec')\n")
    with pytest.raises(InputError, match="ffmpeg cannot write the video: no such codec"):
        ds.plot(turning, **motion)
    assert (tmp_path / "crank.mp4").read_text().startswith("5.0")  # whole or not at all


def test_points_are_found_by_their_names() -> None:
    pendulum = table({"x1": np.zeros(4), "y1": np.ones(4), "x2": np.ones(4), "y2": np.zeros(4)})
    assert legend(pendulum.plot("mechanism"))[:2] == ["1", "2"]


def evaluate(text: str, values: dict[str, float]) -> Any:
    code, names, _ = compiled_expression(text, list(values), f"the formula '{text}'")
    return evaluated(code, [values[name] for name in names])


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "x.real", "().__class__", "x if x else 1", "lambda: 1", "open(x)", "'a'", "True"],
)
def test_formulas_are_arithmetic_alone(text: str) -> None:
    with pytest.raises(InputError):
        evaluate(text, {"x": 1.0})


def test_formulas_know_names_of_any_form() -> None:
    values = {"x": 2.0, "der(x)": 3.0, "a.x": 5.0, "r[1]": 7.0, "r[1].x": 11.0}
    assert evaluate("x*der(x) + a.x - r[1] + 2^3*r[1].x", values) == 2 * 3 + 5 - 7 + 88
    assert evaluate("arctan2(x, -x)/pi", values) == pytest.approx(0.75)


def test_thinning_keeps_peaks() -> None:
    t = np.linspace(0.0, 1.0, 1_000_001)
    values = np.sin(40.0 * t)
    values[123_456] = 7.0
    few_t, few = thinned(t, values)
    assert len(few) < 6000 and few.max() == 7.0 and few_t[0] == 0.0 and few_t[-1] == 1.0
    assert np.abs(few - np.where(few == 7.0, 7.0, np.sin(40.0 * few_t))).max() < 1e-12


def test_the_command_finds_the_kind_and_takes_several_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        table({"x": np.ones(4), "y": np.ones(4)}).save(name)
    assert cli.main(["plot", "a.npy", "b.npy", "--show", "x"]) == 0
    assert cli.main(["plot", "a.npy", "--x", "x", "--y", "y", "-o", "phase.svg"]) == 0
    assert capsys.readouterr().out == "a.png\nphase.svg\n"
    assert cli.main(["plot", "pie", "a.npy"]) == 2
    assert "unknown kind of plot 'pie'" in capsys.readouterr().err
    assert cli.main(["plot", "linear"]) == 2
    assert "'linear' is a kind of picture; name the file" in capsys.readouterr().err


def test_figures_show_themselves_in_notebooks() -> None:
    figure: Any = ds.plot(table({"x": np.ones(4)}))
    assert figure._repr_png_().startswith(b"\x89PNG")
