"""Solve a problem for several values of its parameters or start values, and draw the solutions.

Every run is in the file of --out as soon as it is over; --resume goes on where a killed sweep was.

Example: dae-sdc sweep simple --params alpha=5:50:20 --rtol 1e-6 --out sweep.npy --plot sweep.png
Plot: sweep of sweep, solutions over time in colours of the parameter
    $ dae-sdc sweep pendulum --params g=1:20:20 --rtol 1e-6 --out gravity.npy
    $ dae-sdc plot sweep gravity.npy --show x,lambda -o sweep.png
Plot: end-values of sweep, values at the end of the runs (or max(x), t_end, steps, ...) over the parameter
    $ dae-sdc sweep pendulum --params g=1:20:20 --rtol 1e-6 --out gravity.npy
    $ dae-sdc plot end-values gravity.npy --show "max(lambda),steps" -o end-values.png
Plot: bands of sweep, parts of the runs over time: the median, and where half and nine tenths of them are
    $ dae-sdc sweep pendulum --params "g=norm(9.81,0.5)" --samples 64 --rtol 1e-6 --out drawn.npy
    $ dae-sdc plot bands drawn.npy --show x,lambda -o bands.png
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from dae_sdc.errors import InputError
from dae_sdc.options import add_options, chosen_names, fitting, given_options, patterns_of, require_some
from dae_sdc.plotting import style
from dae_sdc.plotting.plot import form_of, save
from dae_sdc.run.results import Result, say_written
from dae_sdc.run.sweep import SweepOptions, sweep as run_sweep
from dae_sdc.run.sweep_statistics import OF_EACH_RUN, QUANTILE, part_of, quantile_name
from dae_sdc.run.sweep_table import SCALARS, SUMMARIES, Sweep

DRAWN_UNKNOWNS = 8  # Unknowns that are drawn where none are named.
# Runs up to which each has a colour and an entry of the legend of its own; more have colours of a scale.
DISTINCT = 7
# Parts of the runs between which the bands of a picture lie.
BANDS = ((0.05, 0.95), (0.25, 0.75))
CROWD = 60  # Number of runs from which on lines are thin and let others show through.
SHORT_NAME = 18  # Letters of a name up to which it has place beside a panel.
# Ratio of the largest to the smallest value of a parameter from which on its axis is logarithmic, where the
# values lie in equal ratios rather than in equal distances.
LOG_RATIO = 50.0
# Ratio of the largest to the smallest quantity, all positive, above which its axis is logarithmic.
WIDE_RATIO = 1e3

# Part of the scale of colours that is used: the palest ones are lost on white.
_COLOURS = "viridis"
_PALEST = 0.92

_FAILED: dict[str, Any] = {"marker": "x", "color": style.COLOURS[1], "linestyle": "", "markersize": 6.0}


def sweep(result: Result, show: str | Sequence[str] | None = None) -> Figure:
    """Draw the solutions of a sweep over time in colours of its parameter; a cross is where one fails."""
    runs = Sweep.of(result)
    if runs.is_reduced:
        return bands(result, show)
    # Few runs have a label and a colour each, many a scale of colours.
    few = len(runs) <= DISTINCT
    labels = [style.text(runs.label(run)) for run in range(len(runs))] if few else []
    colours: Sequence[Any] = style.COLOURS[: len(runs)]
    scale: ScalarMappable | None = None
    if not few:
        colours, scale = _scale(next(iter(runs.parameters.values())))
    lines = [] if labels else _lines(runs)
    failed = runs.data["done"] & ~runs.success
    look: dict[str, Any] = {"linewidth": 1.2} if len(runs) <= CROWD else {"linewidth": 0.6, "alpha": 0.6}
    with style.styled():
        figure, panels, names = _panels(runs, None if show is None else chosen_names(show, runs.all_names))
        for axes, name in zip(panels, names, strict=True):
            values = style.clipped(runs.values(name), -style.CEILING)
            for run, (curve, colour) in enumerate(zip(values, colours, strict=True)):
                own = {"color": colour, "linestyle": lines[run][1] if lines else "-"}
                axes.plot(runs.data["t"][run], curve, label=labels[run] if labels else None, **own, **look)
                last = np.flatnonzero(np.isfinite(curve))
                if failed[run] and last.size:
                    axes.plot(runs.data["t"][run, last[-1]], curve[last[-1]], **_FAILED)
            _log_if_wide(axes, values, np.fmax.reduce(values, axis=1))
            style.mark_cut(axes, runs.values(name))
            _name_over_time(axes, runs, name)
        if labels:
            panels[0].legend(**style.BESIDE)
        elif scale is not None:
            _colorbar(figure, scale, panels, runs, next(iter(runs.parameters)))
        if lines:
            several = dict(lines).items()
            shown = [Line2D([], [], color="black", linestyle=line, label=label) for label, line in several]
            figure.legend(handles=shown, loc="outside lower center", ncols=len(shown))
    return figure


def bands(result: Result, show: str | Sequence[str] | None = None) -> Figure:
    """Draw where the solutions of a sweep are over time: their median, one half, and nine tenths of them.

    Of runs that were reduced, what was kept: bands between quantiles, of one standard deviation on both sides
    of the mean, and between the extrema; the median, the mean, and other quantiles.
    """
    runs = Sweep.of(result)
    over_time = [of for what, of in runs.reduced.items() if what not in OF_EACH_RUN]
    every = [name for name in runs.all_names if any(name in of for of in over_time) or not runs.is_reduced]
    if not every:
        raise InputError("nothing over time was kept of these runs; draw 'end-values', or keep quantiles")
    few = every[:DRAWN_UNKNOWNS] if runs.is_reduced else None
    with style.styled():
        figure, panels, names = _panels(runs, few if show is None else chosen_names(show, every))
        for axes, name in zip(panels, names, strict=True):
            kept = _statistics(runs, name).items()
            own = {what: style.clipped(values, -style.CEILING) for what, values in kept}
            look = {"color": style.COLOURS[0], "lw": 0}
            for label, lower, upper, alpha in _bands(own):
                axes.fill_between(runs.t, lower, upper, alpha=alpha, label=label, **look)
            for (label, values), colour in zip(_curves(own), style.COLOURS, strict=False):
                axes.plot(runs.t, values, color=colour, linewidth=1.4, label=label)
            _name_over_time(axes, runs, name)
        panels[0].legend(**style.BESIDE)
    return figure


def _statistics(runs: Sweep, name: str) -> dict[str, NDArray[np.float64]]:
    """Statistics of an unknown over time by name: those that were kept, or quantiles of the values."""
    if runs.is_reduced:
        return {what: of[name] for what, of in runs.reduced.items() if what not in OF_EACH_RUN and name in of}
    parts = [*(part for band in BANDS for part in band), 0.5]
    return dict(zip(map(quantile_name, parts), runs.quantile(name, parts), strict=True))


def _upper(name: str, own: Collection[str]) -> str:
    """The statistic that is the upper end of a band with a lower end; empty where there is none."""
    upper = {"min": "max"}.get(name, "")
    if name.startswith(QUANTILE) and part_of(name) < 0.5:
        upper = quantile_name(round(1.0 - part_of(name), 12))
    return upper if upper in own else ""


def _bands(
    own: Mapping[str, NDArray[np.float64]],
) -> Iterator[tuple[str, NDArray[np.float64], NDArray[np.float64], float]]:
    """Labels, lower and upper ends, and opacity of bands, the widest ones first."""
    lower = {-1.0 if name == "min" else part_of(name): name for name in own if _upper(name, own)}
    for part, name in sorted(lower.items()):
        share = 1.0 - 2.0 * max(part, 0.0)
        label = "all runs" if part < 0.0 else f"{100 * share:.0f} % of the runs"
        yield label, own[name], own[_upper(name, own)], 0.55 - 0.4 * share
    if "mean" in own and "std" in own:
        yield "mean ± std", own["mean"] - own["std"], own["mean"] + own["std"], 0.3


def _curves(own: Mapping[str, NDArray[np.float64]]) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Labels and values of the curves: the median, the mean, and what is no end of a band."""
    ends = {name for lower in own for name in (lower, _upper(lower, own)) if _upper(lower, own)}
    ends |= {"std"} if "mean" in own else set()
    median = quantile_name(0.5)
    for name in sorted(own.keys() - ends, key=lambda name: (name != median, name != "mean", name)):
        yield "median" if name == median else name, own[name]


def end_values(result: Result, show: str | Sequence[str] | None = None) -> Figure:
    """Draw a number of each run of a sweep over its parameter."""
    runs = Sweep.of(result)
    first, *others = runs.parameters
    if result.parameters.get("combine") == "zip":
        others = []
    over = runs.parameters[first]
    groups: dict[tuple[float, ...], list[int]] = {}
    for run in np.argsort(over, kind="stable").tolist():
        groups.setdefault(tuple(float(runs.parameters[name][run]) for name in others), []).append(run)
    keys = sorted(groups)
    shades, scale = _scale(np.array([key[0] for key in keys])) if len(keys) > DISTINCT else ((), None)
    failed = runs.data["done"] & ~runs.success
    with style.styled():
        figure, panels, names = _panels(runs, None if show is None else _quantities(runs, show))
        for axes, name in zip(panels, names, strict=True):
            values = style.clipped(runs.quantity(name), -style.CEILING)
            for number, key in enumerate(keys):
                look = {"color": shades[number], "marker": "."} if scale is not None else style.curve(number)
                label = ", ".join(f"{other}={value:g}" for other, value in zip(others, key, strict=True))
                axes.plot(over[groups[key]], values[groups[key]], label=style.text(label) or None, **look)
            if failed.any():
                place = np.full(int(failed.sum()), 0.02)
                axes.plot(over[failed], place, transform=axes.get_xaxis_transform(), clip_on=False, **_FAILED)
            if _is_geometric(over):
                axes.set_xscale("log")
            _log_if_wide(axes, values, values)
            style.mark_cut(axes, runs.quantity(name))
            what = name if name in dict(SCALARS) or "(" in name else f"{name} at the end"
            _name(axes, what, _unit(runs, name))
        panels[-1].set_xlabel(f"{style.text(first)}{_unit(runs, first)}")
        if scale is not None:
            _colorbar(figure, scale, panels, runs, others[0])
        elif len(keys) > 1:
            panels[0].legend(**style.BESIDE)
    return figure


def _panels(runs: Sweep, chosen: list[str] | None) -> tuple[Figure, Any, list[str]]:
    """A figure with a panel for each name that is chosen, or else of the first unknowns, and the names."""
    names = list(runs.all_names[:DRAWN_UNKNOWNS]) if chosen is None else chosen
    hidden = len(runs.all_names) - len(names) if chosen is None else 0
    failed, left = int((runs.data["done"] & ~runs.success).sum()), int((~runs.data["done"]).sum())
    parts = [style.headline(runs.result.parameters), "1 run" if len(runs) == 1 else f"{len(runs)} runs"]
    parts += [f"{failed} failed (crosses)"] if failed else []
    parts += [f"{left} not run yet"] if left else []
    parts += [f"{hidden} more unknowns not drawn"] if hidden else []
    title = ", ".join(parts)
    figure = style.figure(8.0, 0.9 + 1.9 * len(names), title)
    return figure, figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0], names


def _name(axes: Any, name: str, unit: str) -> None:
    """Say what a panel shows: at its axis, or above it where that is long."""
    if len(name) <= SHORT_NAME:
        axes.set_ylabel(f"{style.text(name)}{unit}")
    else:
        axes.set_title(f"{style.text(name)}{unit}", loc="left", fontsize=9)


def _name_over_time(axes: Any, runs: Sweep, name: str) -> None:
    """Say what a panel over time shows, and below the last one what time is."""
    _name(axes, name, style.multiples(axes.yaxis, runs.units[name]))
    axes.margins(x=0.01)
    if axes.get_subplotspec().is_last_row():
        axes.set_xlabel(f"time{style.multiples(axes.xaxis, runs.units.get('t'))}")


def _log_if_wide(axes: Any, values: NDArray[np.float64], sizes: NDArray[np.float64]) -> None:
    """A logarithmic axis for positive values whose ``sizes`` differ by decades."""
    known, sizes = values[np.isfinite(values)], sizes[np.isfinite(sizes)]
    if known.size and known.min() > 0.0 and sizes.max() > WIDE_RATIO * sizes.min():
        axes.set_yscale("log")
        style.few_ticks(axes)


def _colorbar(figure: Figure, scale: ScalarMappable, panels: Any, runs: Sweep, name: str) -> None:
    figure.colorbar(scale, ax=list(panels), label=f"{style.text(name)}{_unit(runs, name)}", aspect=30)


def _quantities(runs: Sweep, show: str | Sequence[str]) -> list[str]:
    """Quantities by their names, with patterns for unknowns in them."""
    quantities: dict[str, None] = {}
    for name in patterns_of(show):
        summary, opened, inner = name.partition("(")
        if opened and summary in SUMMARIES and name.endswith(")"):
            several = [f"{summary}({one})" for one in fitting(inner[:-1], runs.all_names)]
        else:
            several = fitting(name, runs.all_names)
        quantities |= dict.fromkeys(several or [name])
    require_some(quantities, runs.all_names)
    for name in quantities:
        runs.quantity(name)
    return list(quantities)


def _lines(runs: Sweep) -> list[tuple[str, Any]]:
    """For each run a label of its values but the first, and a line for it; empty if lines are too few."""
    _, *others = runs.parameters.items()
    keys = [", ".join(f"{name}={values[run]:g}" for name, values in others) for run in range(len(runs))]
    known = dict(zip(dict.fromkeys(keys), style.LINES, strict=False))
    if not others or len(set(keys)) > len(style.LINES):
        return []
    return [(style.text(key), known[key]) for key in keys]


def _scale(values: NDArray[np.float64]) -> tuple[Sequence[Any], ScalarMappable]:
    low, high = float(values.min()), float(values.max())
    norm = LogNorm(low, high) if _is_geometric(values) else Normalize(low, high if high > low else low + 1.0)
    shades = matplotlib.colormaps[_COLOURS](np.linspace(0.0, _PALEST, 256))
    scale = ScalarMappable(norm, matplotlib.colors.ListedColormap(shades))
    return list(scale.to_rgba(values)), scale


def _is_geometric(values: NDArray[np.float64]) -> bool:
    """Whether values are closer to equal ratios than to equal distances, over a large range."""
    own = np.unique(values)
    if len(own) < 3 or own[0] <= 0.0 or own[-1] < LOG_RATIO * own[0]:
        return False
    ratios, distances = np.diff(np.log(own)), np.diff(own)
    return bool(np.ptp(ratios) / ratios.mean() < np.ptp(distances) / distances.mean())


def _unit(runs: Sweep, name: str) -> str:
    """The unit of an unknown, a swept value or a column behind its name."""
    inner = name.partition("(")[2].removesuffix(")") if name not in runs.units else ""
    own = "t" if name == "t_end" else inner or name
    return style.bracket(runs.units.get(own))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc sweep``."""
    add_options(parser, SweepOptions)
    parser.add_argument("--plot", metavar="FIG", help="picture of the sweep, .png, .svg or .pdf")
    parser.add_argument(
        "--show",
        metavar="A,B",
        help="unknowns in the picture, also by patterns with * and ?; over the parameter: x (at its end), "
        "max(x), t_end, ...",
    )
    parser.add_argument(
        "--over", choices=("time", "parameter"), default="time", help="horizontal axis of the picture (time)"
    )
    parser.add_argument(
        "--bands", action="store_true", help="in the picture over time parts of the runs, not each of them"
    )


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc sweep``."""
    target = None if args.plot is None else Path(args.plot)
    if target is not None:
        form_of(target)
    done = run_sweep(**{"progress": None, **given_options(args, SweepOptions)})
    print(done)
    say_written(args.out)
    if target is not None:
        draw = end_values if args.over == "parameter" else bands if args.bands else sweep
        with style.styled():
            save(draw(done.result, args.show), target)
        print(f"drawn in {target}")
    return int(not done.success.all())
