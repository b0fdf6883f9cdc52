"""Draw a result file: a solution over time, or what a study found.

Example: dae-sdc plot loglog conv.npy -o conv.png
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dae_sdc.arguments import checked
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.sharing import filtering

if TYPE_CHECKING:
    from dae_sdc.run.results import Result

STUDIES = ("scaling", "size", "work", "profile", "peers")
"""Studies of ``bench`` that have a picture, of the same name."""

KINDS = {
    **{"linear": "solution", "loglog": "convergence", "semilogy": "iterations"},
    **dict.fromkeys(STUDIES, "bench"),
    **{"pendulum": "pendulum", "drift": "drift"},
}
"""Kinds of picture, and the kind of result each one draws."""

_DRAWN_BY = {
    **{"loglog": ("convergence", "loglog"), "semilogy": ("iterations", "semilogy")},
    **{"scaling": ("ranks", "scaling"), "size": ("growth", "size"), "drift": ("histories", "drift")},
    **{"work": ("steps", "work"), "profile": ("steps", "profile")},
}

# Without these dates, the same result gives the same file.
_DATES: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


@checked()
def plot(
    kind: str,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    unknowns: Sequence[str] | None = None,
) -> Path:
    """Draw a result file.

    Parameters
    ----------
    kind : str
        "linear" for a solution over time, "loglog" for errors against the time step, "semilogy" for
        errors and residuals against sweeps, "scaling", "size", "work", "profile" and "peers" for the studies
        of these names of ``bench``, "pendulum" for a study of the elastic pendulum, "drift" for errors of
        constraints and energy; "peers" draws a picture for each problem, "pendulum" for each method.
    path : path-like
        The ``.npy`` file of the result.
    out : path-like, optional
        Picture to write, ending in ``.png``, ``.svg`` or ``.pdf``; ``path`` with ``.png`` if not given. Of
        several pictures, each has the name of its problem or method added.
    unknowns : sequence of str, optional
        Names of the unknowns to draw (only for "linear"); all of a small problem, and up to eight of
        each unit of a large one, if not given.

    Returns
    -------
    pathlib.Path
        The picture, the first of several.

    Raises
    ------
    InputError
        If the kind does not fit what the file holds, an unknown does not exist, or the picture cannot
        be written.
    ResultFileError
        If the file is not a readable result.
    """
    return plot_all(kind, path, out, unknowns)[0]


def plot_all(
    kind: str,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    unknowns: Sequence[str] | None = None,
) -> list[Path]:
    """Draw a result file, see :func:`plot`; returns all pictures."""
    if kind not in KINDS:
        raise InputError(f"unknown kind of plot '{kind}'; available: {', '.join(KINDS)}")
    source = Path(path)
    beside = Path(f"{source.with_suffix('') if source.suffix == '.npy' else source}.png")
    target = beside if out is None else Path(out)
    form = target.suffix[1:].lower()
    if form not in _DATES:
        raise InputError(
            f"cannot write {target}: a picture ends in .{', .'.join(_DATES)}; choose one of them"
        )
    if isinstance(unknowns, str):
        raise InputError(f"unknowns must be a list of names; got the text '{unknowns}'")
    if unknowns is not None and kind != "linear":
        raise InputError(
            f"unknowns have no effect on '{kind}'; leave --unknowns away, or plot a solution with 'linear'"
        )

    # Imported here, so that listing the commands loads neither NumPy nor matplotlib.
    from dae_sdc.run.results import load

    result = load(path)
    fitting = [name for name, drawn in KINDS.items() if drawn == result.kind]
    if result.kind == "bench":
        fitting = [name for name in fitting if name == result.parameters.get("study")]
    if kind not in fitting:
        advice = f"use `dae-sdc plot {fitting[0]} {path}`" if fitting else "read it with numpy.load"
        raise InputError(f"{path} holds '{result.kind}' data, which '{kind}' does not draw; {advice}")
    if not len(result.data):
        raise ResultFileError(f"{path} has no rows to draw; run the study again")

    from dae_sdc.plotting.style import styled
    from dae_sdc.run.files import replacing

    with styled():
        try:
            figures = _drawn(kind, result, target, unknowns)
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # What a study puts into its file is known to its picture alone.
            raise ResultFileError(
                f"{path} or its sidecar lacks what '{kind}' draws ({type(error).__name__}: {error}); restore "
                f"them or run the study again"
            ) from error
        for place, picture in figures.items():
            # A letter that the font lacks is drawn as a box, which says so.
            with replacing(place) as (file,), filtering("ignore", UserWarning):
                picture.savefig(file, format=form, metadata=_DATES[form])
    return list(figures)


def _drawn(kind: str, result: Result, target: Path, unknowns: Sequence[str] | None) -> dict[Path, Any]:
    """The pictures of a result, by the files that they are for."""
    if kind == "peers":
        from dae_sdc.plotting import work_precision

        return _each(target, work_precision.problems(result), partial(work_precision.peers, result))
    if kind == "pendulum":
        from dae_sdc.plotting import trajectories

        return _each(target, trajectories.methods(result), partial(trajectories.pendulum, result))
    if kind == "linear":
        from dae_sdc.plotting.solution import linear

        return {target: linear(result, unknowns)}
    module, name = _DRAWN_BY[kind]
    return {target: getattr(import_module(f"dae_sdc.plotting.{module}"), name)(result)}


def _each(target: Path, names: Sequence[str], draw: Callable[[str], Any]) -> dict[Path, Any]:
    """A picture for each name, which is part of its file's unless there is one alone."""
    if len(names) == 1:
        return {target: draw(names[0])}
    return {target.with_stem(f"{target.stem}-{name}"): draw(name) for name in names}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Give ``parser`` the arguments of ``dae-sdc plot``.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Parser of the verb.
    """
    parser.add_argument(
        "kind",
        choices=list(KINDS),
        help="linear: solution over time, loglog: error against dt, semilogy: error against sweeps, "
        "scaling: times and speed-up against ranks, size: time and memory against unknowns, "
        "work: time of a step by problem, profile: its parts, peers: time against error by solver, "
        "pendulum: trajectories by method, drift: errors of constraints and energy over time",
    )
    parser.add_argument("file", metavar="FILE.npy", help="result of solve or of a study")
    parser.add_argument(
        "-o",
        "--out",
        metavar="FIG",
        help="picture to write, .png, .svg or .pdf (default: FILE.png beside FILE.npy)",
    )
    parser.add_argument("--unknowns", metavar="A,B,C", help="unknowns to draw (linear only)")


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc plot`` and print the picture's path.

    Parameters
    ----------
    args : argparse.Namespace
        What :func:`add_arguments` parsed.

    Returns
    -------
    int
        Exit code 0; what goes wrong is raised.
    """
    unknowns = None
    if args.unknowns is not None:
        # a comma inside parentheses belongs to the name, as in der(x,2)
        unknowns = [name.strip() for name in re.split(r",(?![^()]*\))", args.unknowns) if name.strip()]
    for picture in plot_all(args.kind, args.file, args.out, unknowns):
        print(picture)
    return 0
