"""Pictures: right panels, curves and labels, readable without a display, whole files, clear refusals."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from helpers.pairs import covering_pairs
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

import dae_sdc.plotting
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.plotting import linear, loglog, plot, semilogy, style
from dae_sdc.plotting.plot import add_arguments, main
from dae_sdc.run.results import Result

COUNTERS = [(name, "i8") for name in ("rhs", "newton", "jacobian", "factorization", "solve")]
CONFIGURATION = [
    *[("problem", "U32"), ("sweeper", "U32"), ("quad", "U16"), ("nodes", "i8"), ("qdelta", "U16")],
    *[("group", "U16"), ("dt", "f8")],
]
RADAU = "RADAU-RIGHT"
SDC = ("fully-implicit", RADAU, 3, "LU")
MANY = [
    *[("fully-implicit", RADAU, nodes, qdelta) for nodes in (2, 3, 4) for qdelta in ("LU", "MIN-SR-S")],
    ("edirk4", "", 0, ""),
]


def solution(names: Sequence[str], units: Sequence[str], n_diff: int, rows: int = 60) -> Result:
    n = len(names)
    data = np.zeros(
        rows,
        dtype=[
            *[("t", "f8"), ("u", "f8", (n,)), ("du", "f8", (n,)), ("residual", "f8"), ("sweeps", "i8")],
            *COUNTERS,
        ],
    )
    data["t"] = np.linspace(0.0, 2.0, rows)
    data["u"] = np.sin(np.outer(data["t"], 1.0 + np.arange(n)))
    parameters = {"names": list(names), "units": list(units), "n_diff": n_diff}
    parameters.update(problem="pendulum", sweeper="fully-implicit", nodes=3, dt=0.05)
    return Result("solution", data, {"t": "s", "dt": "s"}, parameters, info={})


def pendulum(**changes: Any) -> Result:
    return solution(("x", "y", "vx", "vy", "lam"), ("m", "m", "m/s", "m/s", "1/s^2"), 4, **changes)


def power_grid() -> Result:
    names = [f"E{i}" for i in range(27)] + [f"d{i}" for i in range(3)] + [f"V{i}" for i in range(27)]
    return solution(names, ["p.u."] * 27 + ["rad"] * 3 + ["p.u."] * 18 + ["rad"] * 9, 30)


def orders(
    configurations: Sequence[tuple[str, str, int, str]] = (SDC,),
    groups: Sequence[str] = ("algebraic", "differential"),
    *,
    order: float = 5.0,
    expected: float = 5.0,
    dts: Sequence[float] = (0.1, 0.05, 0.025, 0.0125),
    factor: float = 0.3,
) -> Result:
    counters = (4.0, 1, 2, 3, 4, 5)
    rows = [
        (
            "pendulum",
            *setting,
            group,
            dt,
            factor * (1 + number) * dt**order,
            order - 0.02,
            0.01,
            expected,
            *counters,
        )
        for number, setting in enumerate(configurations)
        for group in groups
        for dt in dts
    ]
    columns = [("error", "f8"), ("slope", "f8"), ("fit", "f8"), ("expected", "f8"), ("sweeps", "f8")]
    data = np.array(rows, dtype=[*CONFIGURATION, *columns, *COUNTERS])
    return Result("convergence", data, {"dt": "s", "error": "m"}, {}, info={})


def sweeps(
    configurations: Sequence[tuple[str, str, int, str]] = (SDC,),
    groups: Sequence[str] = ("position", "velocity", "multiplier"),
    dts: Sequence[float] = (0.1,),
) -> Result:
    rows = [
        (
            "pendulum",
            *configuration,
            group,
            dt,
            sweep,
            0.2 * dt**sweep + 1e-9,
            0.0 if sweep == 6 else dt**sweep,
        )
        for configuration in configurations
        for dt in dts
        for group in groups
        for sweep in range(7)
    ]
    data = np.array(rows, dtype=[*CONFIGURATION, ("sweep", "i8"), ("error", "f8"), ("residual", "f8")])
    return Result("iterations", data, {"dt": "s", "error": "", "residual": "m/s"}, {}, info={})


def curves(axes: Axes) -> list[Line2D]:
    """The lines that carry data, which alone are named: not references and the mark of the floor."""
    return [line for line in axes.lines if not str(line.get_label()).startswith("_")]


def looks(lines: Sequence[Line2D]) -> set[tuple[Any, Any, Any]]:
    return {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines}


def values(line: Line2D) -> NDArray[np.float64]:
    return np.asarray(line.get_ydata(), dtype=float)


def legend(holder: Axes | Figure) -> list[str]:
    found = holder.get_legend() if isinstance(holder, Axes) else holder.legends[0]
    assert found is not None
    return [entry.get_text() for entry in found.get_texts()]


def environment(**changes: str) -> dict[str, str]:
    root = str(Path(dae_sdc.plotting.__file__).parents[2])
    kept = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return {**kept, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]), **changes}


def clipped_or_overlapping(figure: Figure) -> list[str]:
    """Texts that leave the figure, and legends that lie on a panel."""
    figure.draw_without_rendering()
    page = figure.bbox
    bad = []
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert box is not None
        if box.x0 < page.x0 - 1 or box.x1 > page.x1 + 1 or box.y0 < page.y0 - 1 or box.y1 > page.y1 + 1:
            bad.append(f"{axes.get_title()} leaves the page")
        for other in figure.axes:
            found = other.get_legend()
            if found is not None and found.get_window_extent().overlaps(axes.bbox):
                bad.append(f"legend on {axes.get_title()}")
    return bad


# ---------------------------------------------------------------- solution over time


def test_solution_has_a_panel_for_each_unit_with_names_and_units() -> None:
    figure = linear(pendulum())
    assert [axes.get_ylabel() for axes in figure.axes] == ["x, y [m]", "vx, vy [m/s]", "lam [1/s$^{2}$]"]
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        *["with a derivative in the equations"] * 2,
        "without a derivative in the equations",
    ]
    assert [len(curves(axes)) for axes in figure.axes] == [2, 2, 1]
    assert figure.axes[-1].get_xlabel() == "time [s]"
    assert legend(figure.axes[0]) == ["x", "y"]
    assert figure.get_suptitle() == "pendulum, fully-implicit, M=3, dt=0.05 s"


def test_solution_draws_the_data() -> None:
    result = pendulum()
    line = curves(linear(result).axes[1])[1]
    assert np.array_equal(values(line), result.data["u"][:, 3])
    assert np.array_equal(np.asarray(line.get_xdata()), result.data["t"])


def test_large_solution_says_how_many_are_not_drawn() -> None:
    figure = linear(power_grid())
    assert [len(curves(axes)) for axes in figure.axes] == [8, 8]
    notes = [axes.get_title(loc="right") for axes in figure.axes]
    assert [note.split(";")[0] for note in notes] == ["37 more not drawn", "4 more not drawn"]
    for axes in figure.axes:
        assert len(looks(curves(axes))) == len(curves(axes))
    assert not clipped_or_overlapping(figure)


def test_unknowns_choose_the_curves_and_lift_the_limit() -> None:
    figure = linear(power_grid(), ["V20", "d1"])
    assert [axes.get_ylabel() for axes in figure.axes] == ["V20, d1 [rad]"]
    everything = linear(power_grid(), power_grid().parameters["names"])
    assert [len(curves(axes)) for axes in everything.axes] == [27, 3, 18, 9]
    assert len(looks(curves(everything.axes[0]))) == 27
    assert not clipped_or_overlapping(everything)


def test_unknown_unknowns_are_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"unknown name 'lamb'; did you mean 'lam'\? Available: lam, vx, vy"):
        linear(pendulum(), ["x", "lamb"])
    with pytest.raises(InputError, match="no unknowns to draw; choose from: x, y"):
        linear(pendulum(), [])


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("names", ["x"], "'names' of the result has 1 entries for 5"),
        ("names", None, "'names' of the result has no entries"),
        ("units", ["m"] * 4, "'units' of the result has 4 entries for 5"),
        ("n_diff", 9, "'n_diff' of the result is 9"),
        ("n_diff", None, "'n_diff' of the result is None"),
    ],
)
def test_parameters_that_do_not_fit_the_data_are_told(key: str, value: Any, words: str) -> None:
    result = pendulum()
    wrong = Result("solution", result.data, result.units, {**result.parameters, key: value}, info={})
    with pytest.raises(ResultFileError, match=words):
        linear(wrong)


def test_odd_names_and_units_are_printed_as_they_are() -> None:
    figure = linear(solution(("_hidden", "a$b$", "c"), ("", "", "kg*m^-1"), 2))
    assert legend(figure.axes[0]) == [" _hidden", r"a\$b\$"]
    assert figure.axes[0].get_ylabel() == r" _hidden, a\$b\$"
    assert figure.axes[1].get_ylabel() == "c [kg·m$^{-1}$]"
    figure.draw_without_rendering()


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_short_and_unfinished_solutions_are_drawn(rows: int) -> None:
    result = pendulum(rows=rows)
    result.data["u"][rows // 2 :] = np.nan
    result.data["u"][:, 0] = np.nan
    linear(result).draw_without_rendering()


def test_scalar_solution_is_drawn() -> None:
    data = pendulum().data[["t", "residual", "sweeps"]]
    scalar = np.zeros(len(data), dtype=[("t", "f8"), ("u", "f8")])
    scalar["t"] = data["t"]
    parameters = {"names": ["x"], "units": ["m"], "n_diff": 1}
    assert linear(Result("solution", scalar, {}, parameters, info={})).axes[0].get_ylabel() == "x [m]"


# ---------------------------------------------------------------- convergence


def test_convergence_has_a_panel_for_each_group_with_orders_and_units() -> None:
    figure = loglog(orders())
    assert [axes.get_title() for axes in figure.axes] == ["differential components", "algebraic components"]
    for axes in figure.axes:
        assert legend(axes) == ["fully-implicit, order 4.98 (5)"]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("time step dt [s]", "error [m]")
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert figure.get_suptitle() == "pendulum, fully-implicit, RADAU-RIGHT, M=3, LU"


def test_convergence_labels_say_only_what_differs() -> None:
    figure = loglog(orders(MANY))
    labels = legend(figure.axes[0])
    assert labels[1] == "fully-implicit, RADAU-RIGHT, M=2, MIN-SR-S, order 4.98 (5)"
    assert labels[-1] == "edirk4, order 4.98 (5)"
    assert len(set(labels)) == len(MANY)
    assert legend(loglog(orders(MANY[:4])).axes[0])[0] == "M=2, LU, order 4.98 (5)"


def test_convergence_curves_differ_in_marker_and_colour() -> None:
    for axes in loglog(orders(MANY)).axes:
        assert len(curves(axes)) == len(MANY) == len(looks(curves(axes)))


def test_looks_repeat_only_after_seventy_curves() -> None:
    assert len({(style.curve(i)["color"], style.curve(i)["marker"]) for i in range(70)}) == 70


def test_reference_line_has_the_expected_order_and_says_so() -> None:
    axes = loglog(orders(order=4.0, expected=5.0)).axes[0]
    (reference,) = [line for line in axes.lines if line not in curves(axes)]
    x, y = np.asarray(reference.get_xdata(), dtype=float), values(reference)
    assert np.diff(np.log(y))[0] / np.diff(np.log(x))[0] == pytest.approx(5.0)
    assert [note.get_text() for note in axes.texts] == ["order 5"]


def test_without_expected_order_the_reference_is_the_measured_one_rounded() -> None:
    axes = loglog(orders(order=3.1, expected=np.nan)).axes[0]
    assert legend(axes) == ["fully-implicit, order 3.08"]
    assert [note.get_text() for note in axes.texts] == ["order 3"]


def test_errors_at_rounding_are_drawn_at_the_floor() -> None:
    axes = loglog(orders(factor=1e-12)).axes[0]
    (line,) = curves(axes)
    assert min(values(line)) == style.FLOOR
    assert "1e-16 or less" in [note.get_text() for note in axes.texts]


def test_errors_that_are_not_finite_are_gaps() -> None:
    result = orders()
    result.data["error"][0] = np.nan
    result.data["error"][1] = np.inf
    result.data["slope"][:] = np.nan
    result.data["expected"][:] = np.nan
    figure = loglog(result)
    assert legend(figure.axes[1]) == ["fully-implicit, no order"]
    assert np.isnan(values(curves(figure.axes[1])[0])).sum() == 2
    result.data["error"][:] = np.nan
    loglog(result).draw_without_rendering()


def test_what_failed_is_shown_at_its_place() -> None:
    result = orders(MANY[:2])
    result.data["error"][[1, 9]] = np.nan
    first, second = loglog(result).axes[1].lines, loglog(result).axes[0].lines
    for lines in (first, second):
        crosses = [line for line in lines if line.get_marker() == "x"]
        assert all(np.asarray(line.get_xdata()).tolist() == [0.05] for line in crosses)
    assert sum(line.get_marker() == "x" for line in [*first, *second]) == 2
    failed = sweeps()
    failed.data["error"][2:7] = np.nan
    axes = semilogy(failed).axes[0]
    assert axes.get_title(loc="right") == "x failed"
    (crosses_of_panel,) = [line for line in axes.lines if line.get_marker() == "x"]
    assert np.asarray(crosses_of_panel.get_xdata()).tolist() == [2, 3, 4, 5, 6]


def test_many_groups_and_curves_fit_on_the_page() -> None:
    groups = ("position", "velocity", "multiplier", "differential", "algebraic")
    figure = loglog(orders(MANY, groups))
    assert len(figure.axes) == 5
    assert not clipped_or_overlapping(figure)


def test_one_time_step_is_drawn() -> None:
    loglog(orders(dts=(0.1,))).draw_without_rendering()


# ---------------------------------------------------------------- iterations


def test_iterations_have_a_panel_for_each_group_and_one_for_the_residual() -> None:
    figure = semilogy(sweeps(MANY))
    titles = ["positions", "velocities", "multipliers", "residual"]
    assert [axes.get_title() for axes in figure.axes] == titles
    assert [axes.get_ylabel() for axes in figure.axes] == ["error"] * 3 + ["residual [m/s]"]
    for axes in figure.axes:
        assert (axes.get_xlabel(), axes.get_yscale()) == ("sweep", "log")
        assert len(curves(axes)) == len(MANY) == len(looks(curves(axes)))
        assert all(len(values(line)) == 7 for line in curves(axes))
    assert len(legend(figure)) == len(MANY)
    assert not clipped_or_overlapping(figure)


def test_iterations_tell_time_steps_apart() -> None:
    figure = semilogy(sweeps(dts=(0.1, 0.05)))
    assert legend(figure) == ["dt=0.1 s", "dt=0.05 s"]
    assert figure.get_suptitle() == "pendulum, fully-implicit, RADAU-RIGHT, M=3, LU"


def test_a_residual_of_zero_is_drawn_at_the_floor() -> None:
    axes = semilogy(sweeps()).axes[-1]
    assert min(values(curves(axes)[0])) == style.FLOOR
    assert [note.get_text() for note in axes.texts] == ["1e-16 or less"]
    assert axes.get_ylim()[0] < style.FLOOR


# ---------------------------------------------------------------- odd but loadable tables

HUGE = 1.7e308


def changed(result: Result, column: str, value: Any, row: Any = slice(None)) -> Result:
    result.data[column][row] = value
    return result


def retyped(result: Result, column: str, kind: Any) -> Result:
    """The table with one column of zeros of another type."""
    types = [(name, kind if name == column else result.data.dtype[name]) for name in result.data.dtype.names]
    data = np.zeros(len(result.data), dtype=types)
    for name in set(result.data.dtype.names) - {column}:
        data[name] = result.data[name]
    return Result(result.kind, data, result.units, result.parameters, info={})


def drawn(tmp_path: Path, kind: str, result: Result) -> Figure:
    """Save and plot like a user, with every warning an error, and return the figure for a look."""
    figures: list[Figure] = []

    def keep(figure: Figure, file: Any, **_: Any) -> None:
        figure.draw_without_rendering()
        figures.append(figure)

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("error")
        patch.setattr(Figure, "savefig", keep)
        plot(kind, result.save(tmp_path / "odd"), out=tmp_path / "odd.png")
    return figures[0]


DRAWN_COLUMNS = [
    ("linear", pendulum, "u"),
    ("loglog", orders, "error"),
    ("loglog", orders, "slope"),
    ("loglog", orders, "expected"),
    ("semilogy", sweeps, "residual"),
]
SIZES = (HUGE, 5e-324, -HUGE, np.nan)
ROWS = {"all": slice(None), "one": 0}


@pytest.mark.parametrize(("drawing", "value", "rows"), covering_pairs(product(DRAWN_COLUMNS, SIZES, ROWS)))
def test_values_of_any_size_are_drawn(
    tmp_path: Path, drawing: tuple[str, Any, str], value: float, rows: str
) -> None:
    (kind, make, column), row = drawing, ROWS[rows]
    figure = drawn(tmp_path, kind, changed(make(), column, value, row))
    lines = [line for axes in figure.axes for line in curves(axes)]
    assert lines
    assert all(np.abs(values(line)[np.isfinite(values(line))]).max(initial=0.0) <= 1e100 for line in lines)
    # No legend may be filled by the 309 digits of a number.
    assert all(len(text) < 60 for axes in figure.axes if axes.get_legend() for text in legend(axes))


@pytest.mark.parametrize(
    ("kind", "make", "column", "panel"),
    [("linear", pendulum, "u", 0), ("loglog", orders, "error", 1), ("semilogy", sweeps, "residual", -1)],
)
def test_a_value_that_is_cut_is_told_and_others_are_not(
    kind: str, make: Any, column: str, panel: int
) -> None:
    draw = {"linear": linear, "loglog": loglog, "semilogy": semilogy}[kind]

    def notes(result: Result) -> list[str]:
        return [note.get_text() for note in draw(result).axes[panel].texts]

    assert "cut at 1e+100" in notes(changed(make(), column, 1e101, 0))
    for value in (1e99, np.inf, np.nan):
        assert "cut at 1e+100" not in notes(changed(make(), column, value, 0))


def test_time_steps_and_errors_over_hundreds_of_decades_are_drawn(tmp_path: Path) -> None:
    wide = orders(dts=tuple(np.linspace(0.1, 0.9, 9)))
    wide.data["dt"] = np.tile(np.logspace(-100, 100, 9), 2)
    wide.data["error"] = np.logspace(-300, 300, len(wide.data))
    drawn(tmp_path, "loglog", wide)
    drawn(tmp_path, "loglog", changed(orders(), "dt", 0.1))


@pytest.mark.parametrize("value", [0.0, -0.1, np.nan, np.inf, 1e308, 5e-324])
@pytest.mark.parametrize("row", [slice(None), 2])
def test_time_steps_without_a_place_on_a_logarithmic_axis_are_refused_with_their_row(
    tmp_path: Path, value: float, row: Any
) -> None:
    first = 0 if row == slice(None) else row
    with pytest.raises(ResultFileError, match=rf"'dt' in row {first} of the result is .*run the study again"):
        plot("loglog", changed(orders(), "dt", value, row).save(tmp_path / "odd"))


@pytest.mark.parametrize("value", [-0.1, np.nan, 1e308])
def test_time_steps_that_are_a_name_only_may_have_any_value(tmp_path: Path, value: float) -> None:
    drawn(tmp_path, "semilogy", changed(sweeps(), "dt", value, 2))


@pytest.mark.parametrize(
    ("kind", "make", "column"), [("linear", pendulum, "t"), ("semilogy", sweeps, "sweep")]
)
def test_places_on_the_horizontal_axis_must_be_finite(kind: str, make: Any, column: str) -> None:
    result = retyped(make(), column, "f8")
    for value in (np.nan, np.inf, -1e308):
        with pytest.raises(ResultFileError, match=f"'{column}' in row 3 of the result is"):
            {"linear": linear, "semilogy": semilogy}[kind](changed(result, column, value, 3))


@pytest.mark.parametrize("unit", [5, 1.5, ["m"], {"a": 1}, True])
@pytest.mark.parametrize(("kind", "make", "column"), [
    ("linear", pendulum, "t"), ("loglog", orders, "error"), ("semilogy", sweeps, "residual"),
])  # fmt: skip
def test_units_that_are_no_text_are_told(
    tmp_path: Path, kind: str, make: Any, column: str, unit: Any
) -> None:
    result = make()
    odd = Result(result.kind, result.data, {**result.units, column: unit}, result.parameters, info={})
    with pytest.raises(ResultFileError, match=f"the unit of '{column}' in the result is .*, not text"):
        plot(kind, odd.save(tmp_path / "odd"))


@pytest.mark.parametrize("key", ["names", "units"])
@pytest.mark.parametrize("value", [5, ["m"], {"a": 1}, True])
def test_names_and_units_of_unknowns_that_are_no_text_are_told(key: str, value: Any) -> None:
    result = pendulum()
    wrong = {**result.parameters, key: ["a", "b", value, "d", "e"]}
    with pytest.raises(ResultFileError, match=f"parameter '{key}' of the result has .*, not text"):
        linear(Result("solution", result.data, result.units, wrong, info={}))


@pytest.mark.parametrize("text", ["m\ns", "\x00", "\ud800", "日本", "$\\foo$", "m^{", "a" * 300, "$"])
def test_texts_of_any_letters_are_drawn(tmp_path: Path, text: str) -> None:
    result = pendulum()
    parameters = {"names": [text, "y", "z", "v", "w"], "units": [text, *["m"] * 4], "nodes": text}
    parameters = {**result.parameters, **parameters, "problem": text, "sweeper": text}
    odd = Result("solution", result.data, {"t": text, "dt": text}, parameters, info={})
    drawn(tmp_path, "linear", odd)
    study = Result("convergence", orders().data, {"dt": text, "error": text}, {}, info={})
    drawn(tmp_path, "loglog", study)


@pytest.mark.parametrize("type_", ["U8", "S8", "c16", "(2,)f8", "(0,)f8", "M8[s]", "m8[s]", "V4"])
@pytest.mark.parametrize(
    ("kind", "make", "column"),
    [
        *[("linear", pendulum, "t"), ("loglog", orders, "dt"), ("loglog", orders, "error")],
        *[("loglog", orders, "slope"), ("loglog", orders, "nodes"), ("semilogy", sweeps, "sweep")],
        *[("semilogy", sweeps, "dt"), ("semilogy", sweeps, "residual")],
    ],
)
def test_columns_that_hold_no_numbers_are_told(
    tmp_path: Path, kind: str, make: Any, column: str, type_: str
) -> None:
    with pytest.raises(ResultFileError, match=rf"column '{column}' of the result holds .*, not real numbers"):
        plot(kind, retyped(make(), column, type_).save(tmp_path / "odd"))


@pytest.mark.parametrize("type_", ["U8", "c16", "V4", "M8[s]", "(0,)f8"])
def test_unknowns_that_are_no_numbers_are_told(type_: str) -> None:
    with pytest.raises(ResultFileError, match=r"column 'u' of the result holds .*, not real numbers"):
        linear(retyped(pendulum(), "u", type_))


@pytest.mark.parametrize("type_", ["i8", "S8", "c16", "(2,)f8", "V4"])
@pytest.mark.parametrize("column", ["group", "problem", "qdelta"])
@pytest.mark.parametrize(("kind", "make"), [("loglog", orders), ("semilogy", sweeps)])
def test_columns_that_hold_no_text_are_told(
    tmp_path: Path, kind: str, make: Any, column: str, type_: str
) -> None:
    with pytest.raises(ResultFileError, match=rf"column '{column}' of the result holds .*, not text"):
        plot(kind, retyped(make(), column, type_).save(tmp_path / "odd"))


# ---------------------------------------------------------------- files


RESULTS = [("linear", pendulum), ("loglog", orders), ("semilogy", sweeps)]
SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".PNG": b"\x89PNG"}


@pytest.mark.parametrize(
    ("kind", "make", "suffix"),
    [
        *(("linear", pendulum, suffix) for suffix in SIGNATURES),
        ("loglog", orders, ".svg"),
    ],
)
def test_formats_follow_the_suffix_and_are_the_same_every_time(
    tmp_path: Path, kind: str, make: Any, suffix: str
) -> None:
    path = make().save(tmp_path / "study")
    first, second = (tmp_path / f"{name}{suffix}" for name in ("one", "two"))
    for target in (first, second):
        assert isinstance(plot(kind, path, out=target), Figure)
    assert first.read_bytes().startswith(SIGNATURES[suffix])
    assert first.read_bytes() == second.read_bytes()
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("given", ["study.npy", "study", "run.0.1"])
def test_the_picture_goes_beside_the_result(tmp_path: Path, given: str) -> None:
    orders().save(tmp_path / given)
    assert main(parse(str(tmp_path / given))) == 0
    assert (tmp_path / f"{given.removesuffix('.npy')}.png").is_file()


@pytest.mark.parametrize("out", ["study.bmp", "study", "study.npy"])
def test_other_suffixes_are_refused_with_the_list(tmp_path: Path, out: str) -> None:
    with pytest.raises(InputError, match=r"a picture ends in \.png, \.svg, \.pdf, \.gif, \.mp4"):
        plot("loglog", orders().save(tmp_path / "study"), out=tmp_path / out)


@pytest.mark.parametrize(
    ("kind", "make", "words"),
    [
        ("loglog", pendulum, "holds 'solution' data, which 'loglog' does not draw; use `dae-sdc plot linear"),
        (
            "linear",
            orders,
            "holds 'convergence' data, which 'linear' does not draw; use `dae-sdc plot loglog",
        ),
        ("linear", sweeps, "holds 'iterations' data, .* use `dae-sdc plot semilogy"),
    ],
)
def test_the_wrong_kind_names_the_right_one(tmp_path: Path, kind: str, make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        plot(kind, make().save(tmp_path / "study"), out=tmp_path / "study.png")
    assert not list(tmp_path.glob("*.png"))


def test_bench_results_have_no_picture(tmp_path: Path) -> None:
    path = Result("bench", np.zeros(1, dtype=[("a", "f8")]), {}, {}).save(tmp_path / "b")
    with pytest.raises(InputError, match=r"holds 'bench' data.*read it with numpy\.load"):
        plot("linear", path)


def test_unknown_kinds_are_listed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown kind of plot 'pie'; .*vailable: .*loglog"):
        plot("pie", tmp_path / "study.npy")


def test_unknowns_without_effect_are_refused(tmp_path: Path) -> None:
    path = orders().save(tmp_path / "study")
    with pytest.raises(InputError, match="no effect on 'loglog'"):
        plot("loglog", path, show=["x"])
    with pytest.raises(InputError, match="x has no effect on 'linear'; leave it away; 'phase' takes it"):
        plot("linear", pendulum().save(tmp_path / "solution"), x="x")
    with pytest.raises(InputError, match="show must be a text or a sequence of texts; got 5"):
        plot("linear", path, show=5)  # type: ignore[arg-type]


def test_results_without_columns_or_rows_are_told(tmp_path: Path) -> None:
    full = orders()
    lacking = Result("convergence", full.data[["dt", "error"]].copy(), {}, {}).save(tmp_path / "lacking")
    with pytest.raises(ResultFileError, match="lacks the columns problem, sweeper,"):
        plot("loglog", lacking)
    with pytest.raises(ResultFileError, match="has no rows"):
        plot("loglog", Result("convergence", full.data[:0], {}, {}).save(tmp_path / "empty"))


def test_missing_result_and_missing_directory_are_told(tmp_path: Path) -> None:
    with pytest.raises(ResultFileError, match="no file"):
        plot("loglog", tmp_path / "study.npy")
    with pytest.raises(InputError, match="does not exist"):
        plot("loglog", orders().save(tmp_path / "study"), out=tmp_path / "nowhere" / "study.png")
    with pytest.raises(ResultFileError, match="is a directory"):
        plot("loglog", "")


def test_a_failing_picture_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "study.png"
    out.write_bytes(b"old")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(InputError, match="No space left"):
        plot("loglog", orders().save(tmp_path / "study"), out=out)
    assert out.read_bytes() == b"old"
    assert not list(tmp_path.glob(".*"))


def test_settings_of_matplotlib_are_neither_used_nor_changed(tmp_path: Path) -> None:
    path = orders().save(tmp_path / "study")
    plot("loglog", path, out=tmp_path / "plain.svg")
    plain = (tmp_path / "plain.svg").read_bytes()
    with matplotlib.rc_context({"font.size": 30.0, "lines.linewidth": 9.0, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        plot("loglog", path, out=tmp_path / "again.svg")
        assert (tmp_path / "again.svg").read_bytes() == plain
        assert dict(matplotlib.rcParams) == before


# ---------------------------------------------------------------- command and import


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


def test_command_prints_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = pendulum().save(tmp_path / "sol")
    out = tmp_path / "sol.svg"
    assert main(parse("linear", str(path), "-o", str(out), "--show", "x, lam")) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert main(parse("linear", str(path))) == 0
    assert (tmp_path / "sol.png").is_file()


def test_a_comma_in_parentheses_belongs_to_the_name(tmp_path: Path) -> None:
    path = solution(("der(x,2)", "x"), ("m", "m"), 2).save(tmp_path / "sol")
    assert main(parse("linear", str(path), "--show", "der(x,2),x")) == 0


def test_module_says_its_verb_and_an_example() -> None:
    lines = (sys.modules["dae_sdc.plotting.plot"].__doc__ or "").splitlines()
    assert lines[0].endswith(".")
    assert "Example: dae-sdc plot loglog conv.npy -o conv.png" in lines


def test_import_loads_neither_matplotlib_nor_numpy() -> None:
    code = (
        "import sys, dae_sdc.plotting as p; import dae_sdc.plotting.plot; "
        "assert callable(p.plot) and 'linear' in dir(p); "
        "assert not {'matplotlib', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


def test_missing_names_raise_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = dae_sdc.plotting.nothing


def test_pictures_need_no_display_whatever_backend_is_set(tmp_path: Path) -> None:
    orders().save(tmp_path / "study")
    code = (
        "import sys; from dae_sdc.plotting import plot; "
        "plot('loglog', 'study.npy', out='study.png'); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env=environment(MPLBACKEND="TkAgg"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "study.png").stat().st_size > 10_000
