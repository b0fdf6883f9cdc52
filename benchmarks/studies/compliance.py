"""A frame of 138 degrees of freedom with symbols in it, and maps of it; see :func:`compliance`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg
from scipy.interpolate import RegularGridInterpolator
from scipy.sparse.linalg import spsolve

from benchmarks.measuring.clock import clocked, in_turn
from benchmarks.study import Layout, Option, Table, chosen, study
from dae_sdc.dae.state import Vector
from dae_sdc.errors import require_count
from dae_sdc.frames.frame import Frame
from dae_sdc.frames.response import ParameterFunction
from dae_sdc.model.model import Model
from dae_sdc.reduction.symbolic_factors import METHODS, typical_values
from dae_sdc.run.results import Result

STEEL = {"E": 2.1e11, "G": 8.0e10, "A": 2.0e-3, "Iy": 3.0e-6, "Iz": 2.0e-6, "J": 4.0e-6}
FORCES = {"x": 4000.0, "y": 3000.0, "z": -5000.0}
MAPS: Mapping[str, Mapping[str, Any]] = {"linear": {}, "cubic": {"solver": spsolve}}
WAYS = (*METHODS, *MAPS)
SPANS = {"W": (1.6, 2.4), "H": (1.0, 1.4)}  # Parameters of a map: width and height
POINTS, PLACES = 13, 60  # Points of a map along a parameter, and random places where it is judged
# Mean, least and largest time in us for a suspension with as many degrees of freedom: slides of D. Stocco's
# doctoral defence, University of Trento
PUBLISHED = {"lu": (181, 42, 417), "linear": (40, 4, 48), "cubic": (193, 84, 880)}
TEXT = Layout(
    "way:<16|s: factorised=time_factor:>13.2f|made=time_make:>5.2f|operations:>10|us: mean=mean*1e6:>8.0f|"
    "least=least*1e6:>5.0f|largest=largest*1e6:>7.0f|published:>17|error:>8.1e",
    nan="",
)


def tower(levels: int = 3, struts: int = 7) -> Frame:
    """Rings of four points on columns with diagonal bars and struts: with 3 and 7 there are 138 freedoms."""
    model = Model("tower")
    section = dict(zip(STEEL, model.parameters(list(STEEL), list(STEEL.values())), strict=True))
    width, depth, height, thin = model.parameters("W D H At", [2.0, 1.5, 1.2, 5e-4])
    forces = model.parameters("Fx Fy Fz", list(FORCES.values()))
    frame = Frame(model)
    for level in range(levels + 1):
        for corner, (a, b) in enumerate([(0, 0), (1, 0), (1, 1), (0, 1)]):
            frame.point(f"P{level}{corner}", width * a, depth * b, height * level)
    for level in range(1, levels + 1):
        for corner in range(4):
            following = f"P{level}{(corner + 1) % 4}"
            frame.beam(f"P{level - 1}{corner}", f"P{level}{corner}", **section)
            frame.beam(f"P{level}{corner}", following, **section)
            frame.bar(f"P{level - 1}{corner}", following, E=section["E"], A=thin)
    for number in range(struts):
        frame.point(f"Q{number}", -1 - 0.1 * number, 0.5 * number, height * (number % 3))
        frame.beam(f"Q{number}", f"P{1 + number % levels}{number % 4}", **section)
        frame.support(f"Q{number}")
    for corner in range(4):
        frame.support(f"P0{corner}")
    frame.load(f"P{levels}2", **dict(zip(FORCES, forces, strict=True)))
    return frame


def in_numbers(frame: Frame) -> tuple[Vector, Vector]:
    """Displacements and reactions of the tower of 138 degrees of freedom by a dense solver."""
    values, n = typical_values(frame.model), len(frame.free)
    assert values is not None
    stiffness, load = np.zeros((len(frame.degrees_of_freedom), n)), np.zeros(n)
    rows = frame.stiffness([*frame.free, *frame.supported], frame.free)
    for numbers, row in zip(stiffness, rows, strict=True):
        numbers[list(row)] = values(list(row.values()))
    load[[frame.free.index(f"P32.{axis}") for axis in FORCES]] = list(FORCES.values())
    moved = linalg.solve(stiffness[:n], load, assume_a="pos")
    return moved, stiffness[n:] @ moved


def _map(kind: str, function: ParameterFunction) -> Any:
    axes = [np.linspace(*span, POINTS) for span in SPANS.values()]
    table = [[function(W=width, H=height) for height in axes[1]] for width in axes[0]]
    return RegularGridInterpolator(axes, np.array(table), kind, **MAPS[kind])


def _error(values: Vector, moved: Vector) -> float:
    return float(np.abs(values[: len(moved)] - moved).max() / np.abs(moved).max())


@study(
    "compliance",
    "way:U16 time_factor[s] time_make[s] operations:i8 mean[s] least[s] largest[s] error[1]",
    example="--ways lu,linear --repetitions 3",
    options={
        "ways": Option(f"what is evaluated, separated by commas: {', '.join(WAYS)}"),
        "repetitions": Option("evaluations of each in turn", check=require_count),
    },
)
def compliance(rows: Table, *, ways: Sequence[str] = WAYS, repetitions: int = 300) -> None:
    """Evaluate a frame of 138 degrees of freedom, factorised with its symbols, and maps of it.

    A tower of beams and bars has 72 free degrees of freedom and 13 parameters. An evaluation gives all its
    displacements and reactions at values of the parameters, by compiled code that a factorisation of the
    stiffness matrix was made into, or from a table over width and height. All take turns. Errors are relative
    to the largest displacement: those of the frame to a dense solver in numbers, those of maps to the frame.
    """
    chosen("way", ways, WAYS)
    frame = tower()
    moved, reactions = in_numbers(frame)
    rows.parameters |= {"free": len(moved), "supported": len(reactions)}
    runs: dict[str, Callable[[], Any]] = {}
    about: dict[str, dict[str, Any]] = {}
    for way in rows.each([way for way in METHODS if way in ways], "factorisation"):
        factored, response = clocked(partial(tower().solve, way))
        compiled, function = clocked(partial(getattr, response, "function"))
        runs[way] = partial(function.at, function.values(), np.empty(len(response.names)))
        about[way] = {"time_factor": factored.processor, "time_make": compiled.processor}
        about[way] |= {"operations": function.operations, "error": _error(runs[way](), moved)}
    exact = frame.solve().function
    low, high = np.array(list(SPANS.values())).T
    places = np.random.default_rng(1).uniform(low, high, (PLACES, len(SPANS)))
    for way in rows.each([way for way in MAPS if way in ways], "map"):
        tabulated, surface = clocked(partial(_map, way, exact))
        errors = [_error(surface((w, h)), exact(W=w, H=h)[: len(moved)]) for w, h in places]
        runs[way] = partial(surface, places[0])
        about[way] = {"time_make": tabulated.processor, "error": max(errors)}
    for way, done in in_turn({way: partial(clocked, run) for way, run in runs.items()}, repetitions).items():
        times = [spent.processor for spent, _ in done]
        rows.put(way=way, mean=np.mean(times), least=min(times), largest=max(times), **about[way])


@compliance.reports
def report(result: Result) -> Iterator[str]:
    free, supported, repetitions = (result.parameters[name] for name in ("free", "supported", "repetitions"))
    yield f"{free + supported} degrees of freedom, {free} free and {supported} supported;"
    yield f"{repetitions} evaluations of each in turn, on a processor; published: another frame with as many"
    yield TEXT.head()
    for row in result.data:
        known = PUBLISHED.get(str(row["way"]))
        published = "{} ({} to {})".format(*known) if known else ""
        yield TEXT.line(row, operations=row["operations"] or "", published=published)
