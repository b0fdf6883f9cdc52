"""Draw result files: solutions over time or over each other, a mechanism, or the result of a study.

Example: dae-sdc plot loglog conv.npy -o conv.png
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dae_sdc.arguments import checked
from dae_sdc.errors import InputError, ResultFileError, words_of
from dae_sdc.imports import function_at
from dae_sdc.registry import Registry, docstrings
from dae_sdc.sharing import bar_of, filtering, meter, metering

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from dae_sdc.run.results import Result


@dataclass(frozen=True)
class Picture:
    """A kind of picture of a result file."""

    draws: str  # Kind of the results that it draws; of kind "bench" only the study of the picture's name.
    # "module:function" that takes the result and returns the figure. Solutions come in a mapping, by their
    # labels. Parameters with names of :data:`OPTIONS` are options. Any other, such as ``method``, makes a
    # figure for each of the names that the function of its plural, here ``methods``, of that module gives
    # for a result.
    home: str
    shows: str  # Description for the help of the command.
    # Commands that make a result and draw it, the last one to the file ``<name>.png``.
    example: tuple[str, ...] = ()


def _pictures() -> Iterator[tuple[str, Picture]]:
    """The kinds of picture that modules of this room draw, each told by lines of the module's docstring."""
    line = re.compile(r"^Plot: (\S+) of (\S+), (.+)$((?:\n +\$ .+)*)", flags=re.MULTILINE)
    for stem, text in docstrings(Path(__file__).parent):
        for name, draws, shows, commands in line.findall(text):
            home = f"dae_sdc.plotting.{stem}:{name.replace('-', '_')}"
            example = tuple(command.strip(" $") for command in commands.split("\n")[1:])
            yield name, Picture(draws, home, shows, example)


# Kinds of picture by name, with where they are drawn as text: listing them loads no matplotlib.
PICTURES: Registry[Picture] = Registry("kind of plot", find=_pictures)

# Without these dates, the same result gives the same file.
_DATES: Mapping[str, dict[str, None]]
_DATES = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}, "gif": {}, "mp4": {}}

ANIMATION_DPI = 80


# What pictures can be asked for, by the names of parameters of the functions that draw, for the parser.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "show": {
        "metavar": "A,B*,der(C)",
        "help": "unknowns over time, by names and patterns with * and ? (up to eight of each unit)",
    },
    "steps": {"action": "store_true", "default": None, "help": "mark the ends of the steps"},
    "log": {"choices": ("x", "y", "xy", "none"), "help": "logarithmic axes (x where steps are crowded at 0)"},
    "x": {"metavar": "NAME", "help": "unknown along the horizontal axis, for a phase plot"},
    "y": {"metavar": "A,B*", "help": "unknowns along the vertical axis of a phase plot"},
    "points": {
        "metavar": "'O=0,0; A=x,y'",
        "help": "points of a planar mechanism, with formulas of unknowns and numbers as coordinates",
    },
    "angular": {"action": "store_true", "default": None, "help": "rad/s in place of Hz"},
    "bars": {"metavar": "O-A,A-B", "help": "bars between these points (each to the next)"},
}


@checked()
def plot(
    *what: Any,
    out: str | os.PathLike[str] | None = None,
    show: str | Sequence[str] | None = None,
    steps: bool | None = None,
    log: str | None = None,
    x: str | None = None,
    y: str | Sequence[str] | None = None,
    points: str | None = None,
    bars: str | None = None,
    angular: bool | None = None,
) -> Figure:
    """Draw a solution, several solutions together, or the result of a study.

    Parameters
    ----------
    *what : str, path-like, Solution, Sweep or Result
        What is drawn: ``.npy`` files or objects; a mapping gives several solutions names. The kind of the
        picture may stand before them: "linear" for solutions over time, "phase" for unknowns over another
        one, "mechanism" for a planar mechanism, "loglog" for errors against the time step, "semilogy" for
        errors and residuals against sweeps, "sweep" and "end-values" for runs over a parameter, "pendulum"
        for a study of the elastic pendulum, with a picture for each method, "drift" for errors of constraints
        and energy, "bode" for a linear system; all are in :data:`PICTURES`. Without it, the first one that
        fits.
    out : path-like, optional
        Picture to write, ending in ``.png``, ``.svg`` or ``.pdf``, or ``.gif`` for the motion of a mechanism,
        or ``.mp4``, which takes the program ffmpeg.
        Of several pictures, each has the name of its method added.
    show : str or sequence of str, optional
        Unknowns over time: names, patterns with ``*`` and ``?``, and derivatives "der(x)"; if not given, all
        of a small problem, and up to eight of each unit of a large one.
    steps : bool, optional
        Whether the ends of steps, or the times of ``t_eval``, are marked.
    log : {"x", "y", "xy", "none"}, optional
        Logarithmic axes of a picture over time; if not given, that of time is where most steps are in a small
        part of the run.
    x, y : str, optional
        Unknowns along the axes of a phase plot; ``y`` may be several, as ``show``.
    points : str, optional
        Points of a mechanism, "O=0,0; A=x,y", see :func:`dae_sdc.plotting.mechanism.mechanism`.
    bars : str, optional
        Bars between them, "O-A, A-B"; each to the next if not given.
    angular : bool, optional
        Whether a frequency response is drawn over rad/s in place of Hz.

    Returns
    -------
    matplotlib.figure.Figure
        The picture, the first of several. It opens no window; Jupyter shows it.

    Raises
    ------
    InputError
        If the kind or an option does not fit what is drawn, an unknown does not exist, or the picture cannot
        be written.
    ResultFileError
        If a file is not a readable result.

    Examples
    --------
    >>> study = ds.convergence("simple", sweeper="radau-iia-5", dt=[0.1, 0.05], out="orders.npy")
    >>> picture = ds.plot("loglog", "orders.npy", out="orders.png")
    """
    given = (show, steps, log, x, y, points, angular, bars)
    options = {name: value for name, value in zip(OPTIONS, given, strict=True) if value is not None}
    pictures = plot_all(what, None if out is None else Path(out), options)
    return next(iter(pictures.values()))


def plot_all(what: Sequence[Any], out: Path | None, options: Mapping[str, Any]) -> dict[Path | None, Figure]:
    """Draw results, see :func:`plot`; returns all figures by their files."""
    kind, given = _named(what)
    if out is not None:
        form_of(out)
    log, choices = options.get("log"), OPTIONS["log"]["choices"]
    if log is not None and log not in choices:
        raise InputError(f"log is one of {', '.join(choices)}; got '{log}'")
    results = _results(given)
    label, first = next(iter(results.items()), ("", None))
    if first is None:
        raise InputError("there is nothing to draw; give a file, a solution or a result")
    result, origin = _table(first), label or "the result"
    kind = _fitting(result, options, origin) if kind is None else kind
    picture = PICTURES[kind]
    if not _draws(kind, result):
        raise InputError(
            f"{origin} holds '{result.kind}' data, which '{kind}' does not draw; {_advice(result, origin)}"
        )
    useless = sorted(options.keys() - _parameters(picture))
    if useless:
        alike = (name for name, other in PICTURES.items() if other.draws == picture.draws)
        takers = [name for name in alike if _parameters(PICTURES[name]).issuperset(useless)]
        advice = f"; '{takers[0]}' takes it" if takers and len(useless) == 1 else ""
        raise InputError(f"{', '.join(useless)} has no effect on '{kind}'; leave it away{advice}")
    if len(results) > 1 and picture.draws != SEVERAL:
        raise InputError(f"'{kind}' draws one result; got {len(results)}; draw each by itself")
    if not len(result.data):
        raise ResultFileError(f"{origin} has no rows to draw; run the study again")

    from dae_sdc.plotting.style import styled

    with styled():
        try:
            figures = _drawn(picture, results if picture.draws == SEVERAL else result, out, options)
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # What a study puts into its file is known to its picture alone.
            raise ResultFileError(
                f"{origin} or its sidecar lacks what '{kind}' draws ({words_of(error)}); "
                f"restore them or run the study again"
            ) from error
        for place, figure in figures.items():
            if place is not None:
                save(figure, place)
    return figures


SEVERAL = "solution"  # Kind of the results of which several can be drawn in one picture.


def _named(what: Sequence[Any]) -> tuple[str | None, list[Any]]:
    """The kind of the picture, if it is named, and what is to be drawn."""
    given = list(what)
    first = given[0] if given else None
    if isinstance(first, str) and first in PICTURES:
        return first, given[1:]
    if isinstance(first, str) and len(given) > 1 and not Path(first).suffix:
        if not any(os.path.isfile(name) for name in (first, f"{first}.npy")):
            if first in {picture.draws for _, picture in PICTURES.items()}:
                return None, given[1:]  # a kind of result, of which a picture is taken that draws it
            PICTURES[first]  # raises an error that lists the kinds
    return None, given


def _results(given: Sequence[Any]) -> dict[str, Any]:
    """Results and solutions by their labels; files are read."""
    # Imported here, so that listing the commands loads neither NumPy nor matplotlib.
    from dae_sdc.run.results import load
    from dae_sdc.run.solution import Solution, file_between
    from dae_sdc.run.sweep_table import Sweep

    results: dict[str, Any] = {}
    for number, one in enumerate(given, start=1):
        if isinstance(one, Mapping):
            results |= {str(label): part for label, part in one.items()}
        elif isinstance(one, str | os.PathLike):
            result = load(one)
            polynomials = result.kind == SEVERAL and file_between(one).exists()
            results[os.fspath(one)] = Solution.load(one) if polynomials else result
        elif isinstance(one, Sequence):
            results |= {f"run {place}": part for place, part in enumerate(one, start=1)}
        else:
            results["" if len(given) == 1 else f"run {number}"] = one
    return {label: one.result if isinstance(one, Sweep) else one for label, one in results.items()}


def _table(one: Any) -> Result:
    """The table of a result or a solution."""
    from dae_sdc.run.results import Result
    from dae_sdc.run.solution import Solution

    if isinstance(one, Solution):
        return one.result()
    if not isinstance(one, Result):
        raise InputError(f"pictures are drawn of files, solutions and results; got a {type(one).__name__}")
    return one


def _fitting(result: Result, options: Mapping[str, Any], origin: str) -> str:
    """The kind of picture that draws a result and takes all options: that of its name, or the first one."""
    several = (name for name in PICTURES if _draws(name, result))
    fitting = sorted(several, key=lambda name: name != result.kind)
    for name in fitting:
        if _parameters(PICTURES[name]).issuperset(options):
            return name
    if not fitting:
        raise InputError(
            f"{origin} holds '{result.kind}' data, of which there is no picture; {_advice(result, origin)}"
        )
    raise InputError(
        f"no picture of a {result.kind} takes all of {', '.join(options)}; leave some of them away"
    )


def _parameters(picture: Picture) -> set[str]:
    """Names of the parameters of the function that draws a kind of picture."""
    return set(inspect.signature(function_at(picture.home)).parameters)


def _advice(result: Result, origin: str) -> str:
    """What draws a result, or reads it."""
    if result.kind == "bench":
        study = result.parameters.get("study", "NAME")
        return f"use `python -m benchmarks plot {study} {origin}`, or read it with numpy.load"
    fitting = next((name for name in PICTURES if _draws(name, result)), None)
    return "read it with numpy.load" if fitting is None else f"use `dae-sdc plot {fitting} {origin}`"


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
    from dae_sdc.files import replacing

    form = form_of(target)
    if form in ("gif", "mp4") and not getattr(figure, "frames", 0):
        raise InputError(f"cannot write {target}: only a mechanism moves; choose .png, .svg or .pdf")
    # A letter that the font lacks is drawn as a box, which says so.
    with replacing(target) as (file,), filtering("ignore", UserWarning):
        if form in ("gif", "mp4"):
            from dae_sdc.plotting.mechanism import FRAMES_PER_SECOND

            (_gif if form == "gif" else _mp4)(figure, file, FRAMES_PER_SECOND)
        else:
            figure.savefig(file, format=form, metadata=_DATES[form])


def _frames(figure: Any) -> Iterator[NDArray[Any]]:
    """All frames of a figure as colours, shape (height, width, 4); what stands still is drawn once."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(ANIMATION_DPI)
    canvas: Any = FigureCanvasAgg(figure)
    moving = figure.show_frame(0)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # what is placed stays there, and is not placed anew in every frame
    for artist in moving:
        artist.set_visible(False)
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)
    with meter(figure.frames, "frame") as bar:
        for number in range(figure.frames):
            canvas.restore_region(still)
            for artist in figure.show_frame(number):
                artist.set_visible(True)
                figure.draw_artist(artist)
            yield np.asarray(canvas.buffer_rgba())
            bar.update(1)


def _gif(figure: Any, file: Any, rate: int) -> None:
    """Write the frames of a figure as a GIF that is repeated for ever."""
    from PIL import Image

    every = (Image.fromarray(frame).convert("RGB") for frame in _frames(figure))
    first = next(every).quantize(method=Image.Quantize.MAXCOVERAGE)  # whose colours are those of all
    others = (frame.quantize(palette=first, dither=Image.Dither.NONE) for frame in every)
    first.save(file, "GIF", save_all=True, append_images=others, duration=1000 // rate, loop=0)


def _mp4(figure: Any, file: Any, rate: int) -> None:
    """Write the frames of a figure as a video by ffmpeg."""
    if shutil.which("ffmpeg") is None:
        raise InputError("a video needs the program ffmpeg, which is not there; install it, or choose .gif")
    every = _frames(figure)
    first = next(every)
    height, width = first.shape[:2]
    words = f"-loglevel error -f rawvideo -pix_fmt rgba -s {width}x{height} -r {rate} -i - -pix_fmt yuv420p"
    words += " -vf pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white"  # to even sizes, which the format asks for
    command = ["ffmpeg", *words.split(), *"-movflags frag_keyframe+empty_moov -f mp4 -".split()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.PIPE) as video:
        pipe: Any = video.stdin
        with suppress(BrokenPipeError):  # told below
            for frame in chain([first], every):
                pipe.write(frame.tobytes())
        told = video.communicate()[1].decode(errors="replace")
    if video.returncode:
        raise InputError(f"ffmpeg cannot write the video: {' '.join(told.split())}")


def _draws(kind: str, result: Result) -> bool:
    """Whether a kind of picture draws what a result holds."""
    fits = PICTURES[kind].draws == result.kind
    return fits and (result.kind != "bench" or result.parameters.get("study") == kind)


def _drawn(
    picture: Picture, result: Any, target: Path | None, options: Mapping[str, Any]
) -> dict[Path | None, Any]:
    """The figures of a result by their files, whose names differ where there are several figures."""
    draw = function_at(picture.home)
    part = next((name for name in list(inspect.signature(draw).parameters)[1:] if name not in OPTIONS), None)
    if part is None:
        return {target: draw(result, **options)}
    names = function_at(f"{picture.home.partition(':')[0]}:{part}s")(result)
    if len(names) == 1 or target is None:
        return {target: draw(result, names[0])}
    return {target.with_stem(f"{target.stem}-{name}"): draw(result, name) for name in names}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc plot``."""
    kinds = "; ".join(f"{name}: {picture.shows}" for name, picture in PICTURES.items())
    parser.add_argument(
        "what",
        nargs="+",
        metavar="[KIND] FILE.npy",
        help=f"results of solve, several in one picture, or of a study; before them a kind of picture may be "
        f"named, else it is the one that fits. {kinds}".replace("%", "%%"),
    )
    out = "picture to write, .png, .svg or .pdf, or .gif or .mp4 of a mechanism (FILE.png beside FILE.npy)"
    parser.add_argument("-o", "--out", metavar="FIG", help=out)
    for name, given in OPTIONS.items():
        parser.add_argument(f"--{name}", **given)


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc plot`` and print the paths of the pictures."""
    options = {name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    _, files = _named(args.what)
    if not files:
        raise InputError(f"'{args.what[0]}' is a kind of picture; name the file that is to be drawn")
    source = Path(files[0])
    beside = Path(f"{source.with_suffix('') if source.suffix == '.npy' else source}.png")
    with metering(lambda total, unit: bar_of(total, unit, None)):
        pictures = plot_all(args.what, Path(args.out) if args.out else beside, options)
    print(*pictures, sep="\n")
    return 0
