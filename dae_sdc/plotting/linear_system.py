"""Pictures of a linear system, of branches of steady states, and of paths of homotopies.

Plot: eigenvalues of eigenvalues, poles over time along a solution
    $ dae-sdc solve pendulum --rtol 1e-6 --out pendulum.npy
    $ dae-sdc linearize pendulum --along pendulum.npy --out along.npy
    $ dae-sdc plot eigenvalues along.npy -o eigenvalues.png
Plot: bode of linear-system, magnitude and phase over frequency
    $ dae-sdc linearize dc-motor --at coil.i=0 --inputs source.V --outputs load.w,coil.i --out motor.npy
    $ dae-sdc plot bode motor.npy -o bode.png
Plot: nyquist of linear-system, frequency responses in the complex plane
    $ dae-sdc linearize dc-motor --at coil.i=0 --inputs source.V --outputs load.w,coil.i --out motor.npy
    $ dae-sdc plot nyquist motor.npy -o nyquist.png
Plot: poles of linear-system, poles and zeros in the complex plane
    $ dae-sdc linearize dc-motor --at coil.i=0 --inputs source.V --outputs load.w,coil.i --out motor.npy
    $ dae-sdc plot poles motor.npy -o poles.png
Plot: step of linear-system, step responses
    $ dae-sdc linearize dc-motor --at coil.i=0 --inputs source.V --outputs load.w,coil.i --out motor.npy
    $ dae-sdc plot step motor.npy -o step.png
Plot: branch of branch, steady states over a parameter
    $ dae-sdc steady pendulum --guess x=0.1 --guess y=-1 --vary l=1:2 --out lengths.npy
    $ dae-sdc plot branch lengths.npy --show y,lambda -o branch.png
Plot: paths of paths, homotopies of polynomials in the complex plane
    $ dae-sdc initial slider-crank-4 --all-solutions --paths ways.npy --predictor-steps 10
    $ dae-sdc plot paths ways.npy -o paths.png
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from dae_sdc.errors import ResultFileError
from dae_sdc.options import chosen_names
from dae_sdc.plotting import style
from dae_sdc.run.results import Result, combinations_of

NO_PART = 1e-9  # Part of the largest pole up to which all real or imaginary parts are rounding errors of 0.


def eigenvalues(result: Result) -> Figure:
    """Draw real and imaginary parts of the poles over time, with grey lines where coordinates change."""
    style.require_columns(
        result, ("t", "number", "re", "im"), (), "eigenvalues along a solution; run it again"
    )
    data, about = result.data, result.parameters
    largest = float(np.nanmax(np.hypot(data["re"], data["im"]), initial=0.0)) or 1.0
    with style.styled():
        figure = style.figure(6.8, 6.0, f"{style.text(about['problem'])}: poles along the solution")
        panels = figure.subplots(2, 1, sharex=True)
        parts = ("re", "real part [1/s]"), ("im", "imaginary part [rad/s]")
        for axes, (name, label) in zip(panels, parts, strict=True):
            for number in np.unique(data["number"]).tolist():
                rows = data[data["number"] == number]
                look = style.curve(number) | {"marker": "", "linewidth": 1.1}
                axes.plot(rows["t"], np.where(np.isfinite(rows[name]), rows[name], np.nan), **look)
            for t in about["changes"]:
                axes.axvline(t, color="0.7", linewidth=0.7, linestyle=":")
            axes.axhline(0.0, color="black", linewidth=0.5)
            axes.set_ylabel(label)
            extent = np.nanmax(np.abs(data[name]), initial=0.0)
            if extent <= NO_PART * largest:  # what rounding leaves of 0 is no curve
                axes.set_ylim(-0.1 * largest, 0.1 * largest)
        panels[1].set_xlabel(style.label("t", result.units.get("t")))
        coordinates = style.text(", ".join(about["coordinates"]) or "along the constraints")
        style.note(panels[0], f"coordinates: {coordinates}", (1.0, 1.02), "right")
    return figure


_SMALLEST = 1e-200  # Magnitude below which a response is not drawn on a logarithmic axis.


# Size of a response, relative to that of the largest channel, up to which it may be rounding of 0.
ROUNDING = 1e-9
# Median of the changes from one point to the next, relative to the values there, that tells rounding.
NOISE = 0.1


def _channels(result: Result, what: str) -> Iterator[tuple[str, str, Any]]:
    """Input, output and rows of every channel; of a response that is rounding all values are 0."""
    rows = result.data[result.data["what"] == what]
    channels = list(combinations_of(rows, ("input", "output")))
    sizes = [np.hypot(own["re"], own["im"]) for _, own in channels]
    largest = max((np.nanmax(size, initial=0.0) for size in sizes), default=0.0)
    for ((source, output), own), size in zip(channels, sizes, strict=True):
        if what != "zero" and np.nanmax(size, initial=0.0) <= ROUNDING * largest:
            values = own["re"] + 1j * own["im"]
            sums = np.abs(values[1:]) + np.abs(values[:-1])
            known = np.isfinite(sums) & (sums > 0.0)
            if known.any() and np.median(np.abs(np.diff(values)[known]) / sums[known]) > NOISE:
                own = own.copy()
                own["re"] = own["im"] = 0.0
        yield str(source), str(output), own


def _checked(result: Result, what: str) -> None:
    style.require_columns(
        result, ("at", "re", "im"), ("what", "input", "output"), "a linear system; run it again"
    )
    if not (result.data["what"] == what).any():
        raise ResultFileError(
            f"the result has no rows for this picture ({what}); linearise with inputs and outputs"
        )


def _label(result: Result, source: str, output: str) -> str:
    """A channel with its units."""
    of = result.parameters["output_units"].get(output, "")
    by = result.parameters["input_units"].get(source, "")
    compound = any(letter in by for letter in " /*")
    unit = f"{of or 1}/{f'({by})' if compound else by}" if by else of
    return f"{style.text(output)} by {style.text(source)}{style.bracket(unit or None)}"


def bode(result: Result, *, angular: bool = False) -> Figure:
    """Draw magnitude in decibels and phase of every channel over the frequency."""
    _checked(result, "frequency")
    about, turn = result.parameters, 1.0 if angular else 2.0 * np.pi
    with style.styled():
        figure = style.figure(6.8, 6.0, f"{style.text(about['problem'])}: frequency response")
        upper, lower = figure.subplots(2, 1, sharex=True)
        for number, (source, output, rows) in enumerate(_channels(result, "frequency")):
            values = rows["re"] + 1j * rows["im"]
            look = style.curve(number) | {"marker": ""}
            size = np.where(np.isfinite(values) & (np.abs(values) > _SMALLEST), np.abs(values), np.nan)
            absent = "" if np.isfinite(size).any() else ": 0"
            upper.plot(
                rows["at"] / turn,
                20.0 * np.log10(size),
                label=f"{_label(result, source, output)}{absent}",
                **look,
            )
            finite = np.isfinite(values) & (np.abs(values) > 0.0)
            degrees = np.full(len(values), np.nan)
            degrees[finite] = np.degrees(np.unwrap(np.angle(values[finite])))
            lower.plot(rows["at"] / turn, degrees, **look)
        omega = result.data["at"][result.data["what"] == "frequency"]
        for frequency, damping, _ in about["modes"]:
            if omega.min() <= frequency <= omega.max() and damping < 1.0:
                for axes in (upper, lower):
                    axes.axvline(frequency / turn, color=style.GREY, linewidth=0.7, linestyle=":", zorder=1)
        upper.set(xscale="log", ylabel="magnitude [dB]")
        lower.set(
            ylabel="phase [degrees]", xlabel="angular frequency [rad/s]" if angular else "frequency [Hz]"
        )
        lower.yaxis.set_major_locator(MaxNLocator(steps=[1, 1.5, 3, 4.5, 9, 10]))
        style.legend_below(figure, upper, 1 if len(upper.get_legend_handles_labels()[1]) < 3 else 2)
    return figure


def nyquist(result: Result) -> Figure:
    """Draw the frequency response of every channel in the complex plane."""
    _checked(result, "frequency")
    channels = list(_channels(result, "frequency"))
    down, across = style.panels_of(len(channels))
    with style.styled():
        title = f"{style.text(result.parameters['problem'])}: Nyquist curves"
        figure = style.figure(1.4 + 3.6 * across, 1.6 + 3.2 * down, title)
        panels = style.panels(figure, len(channels), down, across)
        for axes, (source, output, rows) in zip(panels, channels, strict=True):
            order = np.argsort(rows["at"])
            re, im = rows["re"][order], rows["im"][order]
            axes.plot(re, im, color=style.COLOURS[0])
            axes.plot(re, -im, color=style.COLOURS[0], linestyle=style.LINES[1], linewidth=1.0)
            middle = int(np.argmax(np.hypot(re, im)))
            if 0 < middle < len(re) - 1:
                ahead = {"arrowstyle": "-|>", "color": style.COLOURS[0]}
                behind, before = ((re[k], im[k]) for k in (middle + 1, middle - 1))
                axes.annotate("", behind, before, arrowprops=ahead)
            if re.min() - 0.5 * np.ptp(re) <= -1.0:
                axes.plot([-1.0], [0.0], "+", color=style.COLOURS[1], markersize=9.0)
            axes.set_title(_label(result, source, output), fontsize=9)
            axes.set_xlabel("real part")
            axes.set_aspect("equal", adjustable="datalim")
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.ticklabel_format(style="sci", scilimits=(-2, 3))
        panels[0].set_ylabel("imaginary part")
        signs = (style.LINES[0], "positive frequencies"), (style.LINES[1], "negative frequencies")
        colour = style.COLOURS[0]
        handles = [Line2D([], [], color=colour, linestyle=line, label=text) for line, text in signs]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def poles(result: Result) -> Figure:
    """Draw the finite poles, and the zeros of every channel, in the complex plane."""
    _checked(result, "pole")
    data = result.data
    with style.styled():
        figure = style.figure(6.4, 5.4, f"{style.text(result.parameters['problem'])}: poles and zeros")
        axes = figure.subplots()
        own = data[data["what"] == "pole"]
        axes.plot(own["re"], own["im"], "x", color=style.COLOURS[0], markersize=8.0, label="pole", zorder=3)
        for number, (source, output, rows) in enumerate(_channels(result, "zero")):
            look: dict[str, Any] = {"color": style.COLOURS[1 + number % 5], "markersize": 7.0}
            look |= {"marker": style.MARKERS[number % 8], "markerfacecolor": "none", "linestyle": ""}
            text = f"zero, {style.text(output)} by {style.text(source)}"
            axes.plot(rows["re"], rows["im"], label=text, **look)
        axes.axvline(0.0, color="black", linewidth=0.8)
        axes.axhline(0.0, color="black", linewidth=0.5)
        axes.margins(0.12)
        shown = data[np.isin(data["what"], ("pole", "zero"))]
        largest = float(np.hypot(shown["re"], shown["im"]).max()) or 1.0
        for part, limit in (("re", axes.set_xlim), ("im", axes.set_ylim)):
            if np.abs(shown[part]).max() <= NO_PART * largest:
                limit(-0.6 * largest, 0.6 * largest)
        axes.set(xlabel="real part [1/s]", ylabel="imaginary part [rad/s]")
        figure.legend(loc="outside lower center", ncols=3)
    return figure


def step(result: Result) -> Figure:
    """Draw the step response of every channel."""
    _checked(result, "step")
    channels = list(_channels(result, "step"))
    outputs = list(dict.fromkeys(output for _, output, _ in channels))
    inputs = list(dict.fromkeys(source for source, _, _ in channels))
    down, across = style.panels_of(len(outputs))
    with style.styled():
        title = f"{style.text(result.parameters['problem'])}: answers to unit steps"
        figure = style.figure(1.6 + 3.8 * across, 1.5 + 2.8 * down, title)
        panels = style.panels(figure, len(outputs), down, across, sharex=True)
        for source, output, rows in channels:
            axes = panels[outputs.index(output)]
            look = style.curve(inputs.index(source)) | {"marker": ""}
            axes.plot(rows["at"], rows["re"], label=f"step of {style.text(source)}", **look)
            unit = style.multiples(axes.yaxis, result.parameters["output_units"].get(output))
            axes.set_ylabel(f"{style.text(output)}{unit}")
        _name_lowest(panels[-across:], f"t{style.multiples(panels[0].xaxis, 's')}")
        style.legend_below(figure, panels[0], 3)
    return figure


def _name_lowest(panels: Any, label: str) -> None:
    """Name the horizontal axis at the panels that have none below them."""
    for axes in panels:
        axes.set_xlabel(label)
        axes.tick_params(labelbottom=True)


# Unknowns that are drawn where none are named: those that change most, relative to their sizes.
MOST_PANELS = 6
NOTHING = 1e-30  # Size of an unknown up to which it is what rounding leaves of 0.

_MARKS: dict[str, tuple[str, str]] = {"fold": ("s", "fold"), "hopf": ("^", "Hopf point")}


def branch(result: Result, show: str | Sequence[str] | None = None) -> Figure:
    """Draw a result of ``dae-sdc steady --vary``."""
    style.require_columns(result, ("value", "unstable"), ("special",), "a branch; run it again", ("u",))
    data, about = result.data, result.parameters
    names, units = list(about["names"]), list(about["unknown_units"])
    if data["u"].shape[1:] != (len(names),) or len(units) != len(names):
        raise ResultFileError("the result has other unknowns than names; run the branch again")
    wanted = [] if show is None else chosen_names(show, names)
    line = data[data["special"] == ""]
    chosen = [names.index(name) for name in wanted] if wanted else _moving(line["u"])
    down, across = style.panels_of(len(chosen))
    mark: dict[str, Any] = {"color": style.COLOURS[1], "markersize": 6.0, "zorder": 3}
    with style.styled():
        title = f"{style.text(about['problem'])}: steady states"
        figure = style.figure(1.4 + 3.4 * across, 1.4 + 2.7 * down, title)
        panels = style.panels(figure, len(chosen), down, across, sharex=True)
        for axes, j in zip(panels, chosen, strict=True):
            x = line["value"]
            unstable = line["unstable"]
            looks = np.where(unstable < 0, 2, np.where(unstable > 0, 1, 0))
            begin = 0
            for end in [*(np.flatnonzero(np.diff(looks)) + 1).tolist(), len(x)]:
                axes.plot(x[begin : end + 1], line["u"][:, j][begin : end + 1], **_LOOKS[int(looks[begin])])
                begin = end
            for kind, (marker, _) in _MARKS.items():
                rows = data[data["special"] == kind]
                axes.plot(rows["value"], rows["u"][:, j], marker, **mark)
            axes.set_ylabel(style.label(names[j], units[j]))
        _name_lowest(panels[-across:], style.label(about["parameter"], result.units.get("value")))
        figure.legend(handles=_handles(data), loc="outside lower center", ncols=4)
    return figure


def _moving(u: Any) -> list[int]:
    """Numbers of the unknowns that change most."""
    sizes = np.abs(u).max(axis=0)
    change = np.where(sizes > NOTHING, np.ptp(u, axis=0) / np.maximum(sizes, NOTHING), 0.0)
    order = [int(j) for j in np.argsort(-change, kind="stable") if change[j] > 1e-9]
    return sorted(order[:MOST_PANELS]) or [0]


_LOOKS: tuple[dict[str, Any], ...] = (
    {"color": style.COLOURS[0], "linestyle": "-", "linewidth": 1.6, "label": "stable"},
    {"color": style.COLOURS[0], "linestyle": style.LINES[1], "linewidth": 1.2, "label": "unstable"},
    {"color": style.GREY, "linestyle": style.LINES[3], "linewidth": 1.2, "label": "stability not known"},
)


def _handles(data: Any) -> list[Line2D]:
    line = data["unstable"][data["special"] == ""]
    seen = [(line == 0).any(), (line > 0).any(), (line < 0).any()]
    handles = [Line2D([], [], **look) for look, there in zip(_LOOKS, seen, strict=True) if there]
    for kind, (marker, text) in _MARKS.items():
        if (data["special"] == kind).any():
            handles.append(Line2D([], [], linestyle="", marker=marker, color=style.COLOURS[1], label=text))
    return handles


def paths(result: Result) -> Figure:
    """Draw each variable along the paths of homotopies, dashed without corrections; ends are points."""
    columns = "homotopy", "path", "corrected", "t"
    style.require_columns(result, columns, (), "paths of homotopies; run it again", ("re", "im"))
    data, ends = result.data, result.data[(result.data["t"] == 0.0) & result.data["corrected"]]
    count = data["re"].shape[1]
    down, across = style.panels_of(count)
    with style.styled():
        figure = style.figure(1.4 + 3.6 * across, 1.6 + 3.2 * down, "paths, dashed without corrections")
        for j, axes in enumerate(style.panels(figure, count, down, across)):
            for (_, path, corrected), rows in combinations_of(data, columns[:3]):
                colour, line = style.COLOURS[path % len(style.COLOURS)], style.LINES[not corrected]
                axes.plot(rows["re"][:, j], rows["im"][:, j], color=colour, linestyle=line)
            axes.plot(ends["re"][:, j], ends["im"][:, j], "ko")
            size = 2.0 * np.nanquantile(np.hypot(data["re"][:, j], data["im"][:, j]), 0.9) or 1.0
            axes.set(xlim=(-size, size), ylim=(-size, size), aspect="equal", title=f"variable {j + 1}")
            axes.set(xlabel="real part", ylabel="imaginary part")
    return figure
