"""Pictures of studies: what they need, and how their logarithmic axes are marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from dae_sdc.plotting import style
from dae_sdc.plotting.style import require_columns, require_range
from dae_sdc.run.results import Result


def require(
    result: Result, study: str, numbers: Sequence[str], texts: Sequence[str], flags: Sequence[str] = ()
) -> None:
    """Refuse results of another kind than a study, and counts below 1 in its columns."""
    require_columns(result, numbers, texts, f"a study of {study}; run the study again", flags)
    for name in ("n", "nodes", "ranks", "steps"):
        if name in numbers:
            require_range(result, name, 1.0)


def parameters_of(about: Mapping[str, Any], *names: str) -> str:
    """Parameters of a study for the title of its picture."""
    words = [f"{'M=' * (name == 'nodes')}{style.text(about.get(name, '?'))}" for name in names]
    return ", ".join(words)


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
