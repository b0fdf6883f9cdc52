"""Pictures of studies: what they need of a result, and curves of one column over another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from benchmarks.study import STUDIES
from dae_sdc.plotting import style
from dae_sdc.plotting.style import require_columns, require_range
from dae_sdc.run.results import Result, combinations_of

# A line to compare with
DOTTED: dict[str, Any] = {"color": style.GREY, "linewidth": 0.9, "linestyle": ":", "zorder": 1}
NOTE: dict[str, Any] = {"fontsize": style.SMALL, "color": style.GREY}
Rows = NDArray[np.void]


def require(result: Result, of: str) -> None:
    """Refuse results that lack columns of their study, and those with counts below 1 in them."""
    kinds = dict(STUDIES[result.parameters["study"]].columns)
    numbers, texts, flags = ([name for name in kinds if kinds[name][0] in kind] for kind in ("fi", "U", "?"))
    require_columns(result, numbers, texts, f"{of}; run the study again", flags)
    for name in ("n", "nodes", "ranks", "steps"):
        if kinds.get(name) == "i8":
            require_range(result, name, 1.0)


def parameters_of(about: Mapping[str, Any], *names: str) -> str:
    """Parameters of a study for the title of its picture."""
    words = [f"{'M=' * (name == 'nodes')}{style.text(about.get(name, '?'))}" for name in names]
    return ", ".join(words)


def curves(
    axes: Any,
    rows: Rows,
    x: str,
    y: str,
    apart: Sequence[str],  # Columns by whose values curves are told apart
    label: Callable[..., str] = lambda *key: "",  # From these values; no label if empty
    *,
    factor: float = 1.0,
    # Numbers of looks by these values, if they are not in the order of the curves
    looks: Mapping[Any, int] | None = None,
    **look: Any,  # What is drawn otherwise than usual
) -> None:
    """Draw a column, times a factor, over another, one curve for each combination of values."""
    for number, (key, curve) in enumerate(combinations_of(rows, apart)):
        curve = np.sort(curve, order=x)
        place = number if looks is None else looks[key]
        shown = style.curve(place) | {"label": style.text(label(*key)) or None} | look
        if shown["markerfacecolor"] == "full":
            shown["markerfacecolor"] = shown["color"]
        axes.plot(curve[x], style.clipped(factor * curve[y]), **shown)


def decimal(axis: Any, subs: tuple[float, ...] = (1.0,), numticks: int = 9) -> None:
    """Mark a logarithmic axis by decimal numbers."""
    axis.set_major_locator(LogLocator(subs=subs, numticks=numticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def logarithmic(axes: Any, x: str, y: str, room: float = 0.0) -> None:
    """Label two logarithmic axes, with a part of its height left free above for a legend."""
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * max(high / low, 10.0) ** room if room else high)
    # There are marks between powers of ten where the axis is short.
    decimal(axes.yaxis, (1.0, 2.0, 5.0) if high < 30.0 * low else (1.0,))
