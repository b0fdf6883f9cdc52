"""Pictures of studies, and how their logarithmic axes are marked."""

from __future__ import annotations

from typing import Any

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter


def decimal(axis: Any, subs: tuple[float, ...] = (1.0,), numticks: int = 9) -> None:
    """Mark a logarithmic axis by decimal numbers."""
    axis.set_major_locator(LogLocator(subs=subs, numticks=numticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def logarithmic(axes: Any, x: str, y: str) -> None:
    """Label two logarithmic axes, of which y has marks between powers of ten where it is short."""
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    low, high = axes.get_ylim()
    decimal(axes.yaxis, (1.0, 2.0, 5.0) if high < 30.0 * low else (1.0,))
