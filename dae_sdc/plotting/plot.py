"""Draw a result file: a solution over time, or the result of a study.

Example: dae-sdc plot loglog conv.npy -o conv.png
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dae_sdc.arguments import checked
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.options import names_in
from dae_sdc.registry import Registry, docstrings
from dae_sdc.sharing import filtering

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dae_sdc.run.results import Result


@dataclass(frozen=True)
class Picture:
    """A kind of picture of a result file.

    Parameters
    ----------
    draws : str
        Kind of the results that it draws; of kind "bench" only the study of the picture's name.
    home : str
        "module:function" that takes the result and returns the figure. A second parameter ``unknowns`` gets
        names of unknowns, or None. Any other, such as ``method``, makes a figure for each of the names that
        the function of its plural, here ``methods``, of that module gives for a result.
    shows : str
        Description for the help of the command.
    """

    draws: str
    home: str
    shows: str


def _pictures() -> Iterator[tuple[str, Picture]]:
    """The kinds of picture that modules of this room draw, each told by a line of the module's docstring."""
    for stem, text in docstrings(Path(__file__).parent):
        for name, draws, shows in re.findall(r"^Plot: (\S+) of (\S+), (.+)$", text, flags=re.MULTILINE):
            yield name, Picture(draws, f"dae_sdc.plotting.{stem}:{name.replace('-', '_')}", shows)


PICTURES: Registry[Picture] = Registry("kind of plot", find=_pictures)
"""Kinds of picture by name, with where they are drawn as text: listing them loads no matplotlib."""

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
        errors and residuals against sweeps, "pendulum" for a study of the elastic pendulum, with a picture
        for each method, "drift" for errors of constraints and energy, "bode" for a linear system; all are in
        :data:`PICTURES`.
    path : path-like
        The ``.npy`` file of the result.
    out : path-like, optional
        Picture to write, ending in ``.png``, ``.svg`` or ``.pdf``; ``path`` with ``.png`` if not given. Of
        several pictures, each has the name of its method added.
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
    picture = PICTURES[kind]
    source = Path(path)
    beside = Path(f"{source.with_suffix('') if source.suffix == '.npy' else source}.png")
    target = beside if out is None else Path(out)
    form_of(target)
    if isinstance(unknowns, str):
        raise InputError(f"unknowns must be a list of names; got the text '{unknowns}'")
    if unknowns is not None and _part(function_at(picture.home)) != "unknowns":
        raise InputError(
            f"unknowns have no effect on '{kind}'; leave --unknowns away, or plot a solution with 'linear'"
        )

    # Imported here, so that listing the commands loads neither NumPy nor matplotlib.
    from dae_sdc.run.results import load

    result = load(path)
    if not _draws(kind, result):
        fitting = next((name for name in PICTURES if _draws(name, result)), None)
        advice = "read it with numpy.load" if fitting is None else f"use `dae-sdc plot {fitting} {path}`"
        if result.kind == "bench":
            study = result.parameters.get("study", "NAME")
            advice = f"use `python -m benchmarks plot {study} {path}`, or read it with numpy.load"
        raise InputError(f"{path} holds '{result.kind}' data, which '{kind}' does not draw; {advice}")
    if not len(result.data):
        raise ResultFileError(f"{path} has no rows to draw; run the study again")

    from dae_sdc.plotting.style import styled

    with styled():
        try:
            figures = _drawn(picture, result, target, unknowns)
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # What a study puts into its file is known to its picture alone.
            raise ResultFileError(
                f"{path} or its sidecar lacks what '{kind}' draws ({type(error).__name__}: {error}); restore "
                f"them or run the study again"
            ) from error
        for place, figure in figures.items():
            save(figure, place)
    return list(figures)


def form_of(target: Path) -> str:
    """The form of a picture, by the ending of its file; raises InputError for another."""
    form = target.suffix[1:].lower()
    if form not in _DATES:
        raise InputError(
            f"cannot write {target}: a picture ends in .{', .'.join(_DATES)}; choose one of them"
        )
    return form


def save(figure: Figure, target: Path) -> None:
    """Write a figure to a file, whole or not at all; use inside :func:`dae_sdc.plotting.style.styled`."""
    from dae_sdc.run.files import replacing

    form = form_of(target)
    # A letter that the font lacks is drawn as a box, which says so.
    with replacing(target) as (file,), filtering("ignore", UserWarning):
        figure.savefig(file, format=form, metadata=_DATES[form])


def _draws(kind: str, result: Result) -> bool:
    """Whether a kind of picture draws what a result holds."""
    fits = PICTURES[kind].draws == result.kind
    return fits and (result.kind != "bench" or result.parameters.get("study") == kind)


def function_at(home: str) -> Callable[..., Any]:
    """The function at "module:function"."""
    module, _, name = home.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


def _part(draw: Callable[..., Any]) -> str:
    """The second parameter of a function that draws; empty if there is none."""
    return "".join(list(inspect.signature(draw).parameters)[1:2])


def _drawn(picture: Picture, result: Result, target: Path, unknowns: Sequence[str] | None) -> dict[Path, Any]:
    """The figures of a result by their files, whose names differ where there are several figures."""
    draw = function_at(picture.home)
    part = _part(draw)
    if part in ("", "unknowns"):
        return {target: draw(result, unknowns) if part else draw(result)}
    names = function_at(f"{picture.home.partition(':')[0]}:{part}s")(result)
    if len(names) == 1:
        return {target: draw(result, names[0])}
    return {target.with_stem(f"{target.stem}-{name}"): draw(result, name) for name in names}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc plot``."""
    parser.add_argument(
        "kind",
        choices=list(PICTURES),
        help="; ".join(f"{name}: {picture.shows}" for name, picture in PICTURES.items()),
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
    """Run ``dae-sdc plot`` and print the paths of the pictures."""
    unknowns = None if args.unknowns is None else names_in(args.unknowns)
    for picture in plot_all(args.kind, args.file, args.out, unknowns):
        print(picture)
    return 0
