"""The one look of all pictures: colours every reader can tell apart, markers, line styles and checks."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from dae_sdc.errors import ResultFileError
from dae_sdc.run.results import Result
from dae_sdc.sharing import Lock, filtering

FLOOR = 1e-16  # Smallest value on a logarithmic axis; below it there is only rounding.
CEILING = 1e100  # Largest value on an axis: matplotlib computes with margins and squares of what it is given.
MOST_LETTERS = 60  # Letters of a name or unit in a picture; longer ones would leave no room for the curves.

# Okabe and Ito's palette without its yellow, which is too light for lines on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Ten markers and seven colours have no common factor: 70 curves pass before a pair comes again.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
# Lines of solutions have no markers, so eight of them need eight colours.
LINE_COLOURS = (*COLOURS, "#8C613C")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1.2, 1.2)))
# Units that are counted in milli or kilo, and by which powers of ten; between the sizes they are as they are.
WITH_PREFIX = frozenset("s m A V VA W N J Pa Hz F H S T Wb Ohm ohm Ω rad mol bar eV g L".split())
PREFIXES = {-15: "f", -12: "p", -9: "n", -6: "µ", -3: "m", 3: "k", 6: "M", 9: "G", 12: "T"}
SMALLEST, LARGEST = 0.1, 1e4
GREY = "0.35"
FAILED = "#C00000"
SMALL = 8.0
BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.04), "borderaxespad": 0.3}

_RC: dict[str, Any] = {
    **{"font.size": 10, "axes.titlesize": 10, "axes.labelsize": 10, "figure.titlesize": 11},
    **{"legend.fontsize": SMALL, "legend.title_fontsize": SMALL, "xtick.labelsize": 9, "ytick.labelsize": 9},
    **{"legend.frameon": False, "legend.handlelength": 3.0, "grid.color": "0.87", "grid.linewidth": 0.5},
    **{"axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False},
    **{"axes.formatter.useoffset": True, "axes.formatter.limits": (-3, 4)},
    **{"lines.linewidth": 1.4, "lines.markersize": 5.0, "figure.dpi": 150, "savefig.dpi": "figure"},
    **{"figure.constrained_layout.w_pad": 0.1, "figure.constrained_layout.h_pad": 0.06},
    **{"pdf.fonttype": 42, "svg.hashsalt": "dae_sdc"},
}


_SETTINGS = Lock()  # To be held while settings of matplotlib, which are those of the process, are changed.


@contextmanager
def styled() -> Iterator[None]:
    """Our settings of matplotlib inside the block, the user's again after it."""
    # Start from matplotlib's own defaults, so that no user's settings file changes the pictures.
    # Backend, toolbar, keys and the like are his affair.
    settings: dict[Any, Any] = {
        key: value for key, value in matplotlib.rcParamsDefault.items() if key.startswith(_FAMILIES)
    }
    with _SETTINGS, matplotlib.rc_context(settings | _RC):
        yield


class Picture(Figure):
    """A figure that needs no display, and shows itself in Jupyter."""

    frames: int = 0
    # Shows a frame and returns the artists that move.
    show_frame: Callable[[int], list[Any]] = staticmethod(lambda number: [])

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        with styled(), filtering("ignore", UserWarning):
            self.savefig(file, format="png")
        return file.getvalue()


def figure(width: float, height: float, title: str = "") -> Picture:
    """An empty figure of ``width`` x ``height`` inches that needs no display; use inside :func:`styled`."""
    picture = Picture(figsize=(width, height), layout="constrained")
    if title:
        picture.suptitle(title)
    return picture


def line(index: int, count: int) -> dict[str, Any]:
    """Look of one of several lines: up to eight have colours of their own, more go from dark to light."""
    if count <= len(LINE_COLOURS):
        return {"color": LINE_COLOURS[index]}
    return {"color": matplotlib.colormaps["viridis"](0.93 * index / (count - 1)), "linewidth": 1.1}


def curve(index: int) -> dict[str, Any]:
    """Keyword arguments of ``Axes.plot`` for the curve of a number; every second marker is hollow."""
    colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
    look = {"color": colour, "marker": marker, "linestyle": LINES[index % len(LINES)]}
    return look | {"markerfacecolor": "none" if index % 2 else colour}


def text(raw: object) -> str:
    """``raw`` in one line as it is: no mathematics between dollars, not hidden in legends, not too long."""
    shown = str(raw)
    return plain(f"{shown[: MOST_LETTERS - 1]}…" if len(shown) > MOST_LETTERS else shown)


def plain(raw: str) -> str:
    """A line of text as it is, however long: no mathematics between dollars, not hidden in legends."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in raw)
    escaped = shown.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


def bracket(unit: str | None) -> str:
    """A unit for an axis label: ``" [m/s²]"`` for "m/s^2", ``" [-]"`` for a pure number, nothing for none."""
    shown = "" if unit is None else unit.strip()
    if not shown:
        return ""
    if shown in ("1", "-"):
        return " [-]"
    powers = re.sub(r"(?:\^|\*\*)\(?(-?\d+)\)?", r"$^{\1}$", text(shown))
    return f" [{powers.replace('*', '·')}]"


def multiples(axis: Any, unit: str | None) -> str:
    """The unit of an axis for its label: milli or kilo of it where that suits its values, as in its ticks."""
    word = (re.match(r"[A-Za-zΩ]+(?![\w^]|\*\*)", unit or "") or [""])[0]
    size = float(np.abs(axis.get_data_interval()).max())
    if axis.get_scale() != "linear" or word not in WITH_PREFIX or SMALLEST <= size < LARGEST:
        return bracket(unit)
    if not 0.0 < size < np.inf:  # of nothing but 0, or of no values
        return bracket(unit)
    power = min(max(3 * math.floor(math.log10(size) / 3), min(PREFIXES)), 0 if word == "s" else max(PREFIXES))
    if power:
        axis.set_major_formatter(lambda x, _: f"{x / 10.0**power:.6g}".replace("-", "\N{MINUS SIGN}"))
    return bracket(f"{PREFIXES.get(power, '')}{unit}")


def clipped(values: NDArray[np.float64], low: float = FLOOR) -> NDArray[np.float64]:
    """Values for an axis, by default a logarithmic one, up to :data:`CEILING`; a gap where not finite."""
    numbers = np.asarray(values, dtype=float)
    return np.where(np.isfinite(numbers), np.clip(numbers, low, CEILING), np.nan)


def label(name: str, unit: str | None) -> str:
    """What an axis is called."""
    return f"{text(name)}{bracket(unit)}"


def error_label(result: Result) -> str:
    """What an axis of errors is called: they may be those against a reference that was computed."""
    computed = " against a computed reference" if result.parameters.get("reference") else ""
    return f"error{computed}{bracket(result.units.get('error'))}"


def headline(parameters: Mapping[str, Any], unit: str | None = None) -> str:
    """Problem, sweeper, number of nodes, and time step or tolerance, as far as they are known."""
    parts = [text(parameters[key]) for key in ("problem", "sweeper") if parameters.get(key)]
    if parameters.get("nodes"):
        parts.append(f"M={text(parameters['nodes'])}")
    if isinstance(parameters.get("rtol"), int | float):
        parts.append(f"rtol={parameters['rtol']:g}")
    elif isinstance(parameters.get("dt"), int | float):
        parts.append(f"dt={parameters['dt']:g}{f' {text(unit)}' if unit else ''}")
    return ", ".join(parts)


_FAMILIES = (
    *("axes.", "figure.", "font.", "grid.", "legend.", "lines.", "markers.", "mathtext.", "patch."),
    *("path.", "pdf.", "savefig.", "svg.", "text.", "xtick.", "ytick."),
)


_AGAIN = "restore the file or run the study again"


def require_columns(
    result: Result,
    numbers: Sequence[str],
    texts: Sequence[str] = (),
    of: str = "",
    others: Sequence[str] = (),
) -> None:
    """Refuse a table that lacks columns, or has anything but a number or a text in a row of them."""
    known = result.data.dtype.names or ()
    lacking = [name for name in (*numbers, *texts, *others) if name not in known] if of else []
    if lacking:
        raise ResultFileError(f"the result lacks the columns {', '.join(lacking)} of {of}")
    for names, kinds, wanted in ((numbers, "biuf", "real numbers"), (texts, "U", "text")):
        for name in names:
            kind = result.data.dtype[name]
            if kind.kind not in kinds or kind.shape:
                raise ResultFileError(f"column '{name}' of the result holds {kind}, not {wanted}; {_AGAIN}")
    for name, unit in result.units.items():
        if unit is not None and not isinstance(unit, str):
            raise ResultFileError(f"the unit of '{name}' in the result is {unit!r}, not text; {_AGAIN}")


def require_range(result: Result, name: str, low: float) -> NDArray[np.float64]:
    """A column as doubles; raises :class:`ResultFileError` at a value that no axis has a place for."""
    values: NDArray[np.float64] = result.data[name].astype(float)
    bad = np.flatnonzero(~((values >= low) & (values <= CEILING)))
    if bad.size:
        row = int(bad[0])
        raise ResultFileError(
            f"'{name}' in row {row} of the result is {values[row]:g}, which cannot be drawn: it must lie "
            f"between {low:g} and {CEILING:g}; {_AGAIN}"
        )
    return values


def mark_cut(axes: Any, values: NDArray[Any]) -> None:
    """Say in the panel that some of its ``values`` are larger than can be drawn, and were cut."""
    numbers = np.asarray(values, dtype=float)
    if np.any(np.isfinite(numbers) & (np.abs(numbers) > CEILING)):
        place: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "top"}
        axes.annotate(f"cut at {CEILING:g}", (0.99, 0.97), fontsize=8.0, **place)


def note(axes: Any, told: str, place: tuple[float, float], ha: str) -> None:
    """Write a small grey line at a place, in fractions of a panel."""
    axes.annotate(told, place, xycoords="axes fraction", ha=ha, fontsize=SMALL, color=GREY)


def mark_failed(axes: Any, places: NDArray[Any], values: NDArray[Any], colour: str) -> None:
    """Put crosses at the upper edge of a panel where a curve has no finite value."""
    # Shapes: places and values (K,).
    failed = np.asarray(places)[~np.isfinite(np.asarray(values, dtype=float))]
    if failed.size:
        before = sum(line.get_marker() == "x" for line in axes.lines)
        heights = np.full(len(failed), 0.98 - 0.03 * (before % 20))
        look = {"linestyle": "", "marker": "x", "markersize": 5.0, "color": colour}
        axes.plot(failed, heights, transform=axes.get_xaxis_transform(), **look)
        axes.set_title("x failed", loc="right", fontsize=SMALL, color=GREY)


def mark_limits(axes: Any, values: NDArray[Any]) -> None:
    """Say in a panel with a logarithmic axis that some of its ``values`` are too small or too large."""
    if np.any(clipped(values) <= FLOOR):
        axes.set_ylim(bottom=FLOOR / 30)  # room for the note
        axes.axhline(FLOOR, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        place |= {"xytext": (0, -6), "ha": "right", "va": "top"}
        axes.annotate(f"{FLOOR:g} or less", (0.99, FLOOR), fontsize=SMALL, color=GREY, **place)
    mark_cut(axes, values)


def few_ticks(axes: Any) -> None:
    """Ticks at whole decades of a logarithmic vertical axis, not too many, and no numbers between them."""
    axes.yaxis.set_major_locator(LogLocator(numticks=9))
    axes.yaxis.set_minor_formatter(NullFormatter())


def panels_of(count: int) -> tuple[int, int]:
    """Rows and columns for a number of panels, at most three across, in rows of about one length."""
    across = math.ceil(count / math.ceil(count / 3))
    return math.ceil(count / across), across


def panels(figure: Figure, count: int, down: int, across: int, sharex: bool = False) -> Any:
    """The axes of a number of panels, row by row."""
    every = figure.subplots(down, across, squeeze=False, sharex=sharex).ravel()
    for axes in every[count:]:
        axes.remove()
    return every[:count]


def legend_below(figure: Figure, axes: Any, columns: int) -> None:
    """A legend below all panels with the entries of one."""
    handles, _ = axes.get_legend_handles_labels()
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)
