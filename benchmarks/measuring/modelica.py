"""Models of a collection of Modelica texts, and one of them in a process of its own, as far as it comes."""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
from collections.abc import Iterator
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dae_sdc as ds
from dae_sdc.errors import DAEError
from dae_sdc.model.model import Model
from dae_sdc.modelica.front_end import compiled
from dae_sdc.modelica.outline import Outline
from dae_sdc.modelica.reader import read_modelica_text
from dae_sdc.modelica.syntax import Source
from dae_sdc.run.solution import Solution

STAGES = ("text", "read", "structure", "started", "solved", "compared")  # Each with all before it
CLOSE, RTOL, TIGHT, BEHIND = 0.01, 1e-6, 1e-8, 1e-9  # Right distance, tolerances, time behind an event
Values = list[tuple[str, Any]]  # Unknowns, and their values at times
Expected = list[tuple[str, float, float]]  # Unknowns, times and values there
PLACES = np.array((0.137, 0.291, 0.443, 0.618, 0.829, 1.0))  # Where in the interval solutions are compared

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LOADED = re.compile(r'\bloadModel\s*\(\s*(\w+)\s*,\s*\{\s*"(\d+)"')
_NUMBER = r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?"
_LIST = rf"({_NUMBER}|\{{\s*{_NUMBER}(?:\s*,\s*{_NUMBER})*\s*\}})"
_VALUE = re.compile(rf"(?:^|;)\s*val\(([^;{{]+?),\s*{_LIST}\s*\)", re.MULTILINE)  # At times
_PRINTED = re.compile(rf"^/*[ \t]*{_LIST}[ \t]*$", re.MULTILINE)
_SET = re.compile(rf"([\w.]+(?:\[[\d,]+\])?)\s*=\s*({_NUMBER})")  # A name and its number


class Case(NamedTuple):
    """A model of a collection, and what is expected of it."""

    name: str  # How it is called in the table
    text: str  # The text; empty for a class of a library
    model: str = ""  # The class; empty for the last one
    library: bool = True  # Whether libraries are loaded
    numbers: dict[str, float] = {}  # What a script sets: startTime, stopTime, parameters and start values
    expected: Expected = []  # The values that a script prints


def cases(corpus: Path) -> Iterator[Case]:
    """The models of a directory: those that its scripts simulate, the last ones of texts, or examples."""
    scripts = sorted(corpus.rglob("*.mos"))
    for path in scripts:
        yield from _of_script(path, str(path.relative_to(corpus)))
    for path in [] if scripts else sorted(corpus.rglob("*.mo")):
        text = path.read_text(encoding="utf-8", errors="replace")
        within = re.match(r"\s*within\s+([\w.]+)\s*;", text)
        if within is None:
            yield Case(str(path.relative_to(corpus)), text)
        elif "experiment" in text:
            for name, definition in Outline(Source(text, str(path))).classes.items():
                if "experiment" in definition.annotations:
                    yield Case(f"{within[1]}.{name}", "", f"{within[1]}.{name}")


def _of_script(path: Path, title: str) -> Iterator[Case]:
    """The model that a script of OpenModelica simulates first, with the values that it prints."""
    script, _, result = path.read_text(encoding="utf-8", errors="replace").partition("// Result:")
    script = re.sub(r"^\s*//.*$", "", script, flags=re.MULTILINE)
    plain = (text[1:-1].replace(r"\n", "\n").replace(r"\t", "\t") for text in _STRING.findall(script))
    strings, texts = [re.sub(r"\\(.)", r"\1", text) for text in plain], list[str]()
    places = iter(range(len(strings)))
    script = _STRING.sub(lambda _: f'"{next(places)}"', script)
    runs = re.split(r"(?:^|;)\s*(?:simulate|buildModel)\s*\(", script, flags=re.MULTILINE)
    for word, place in re.findall(r'\b(loadFile|loadString)\s*\(\s*"(\d+)"', runs[0]):
        inside = strings[int(place)]
        if word == "loadString":
            texts.append(inside)
        elif inside.endswith(".mo") and (file := path.parent / inside).is_file():
            texts.append(file.read_text(encoding="utf-8-sig", errors="replace"))
    model = re.match(r"\s*([\w.]+)([^;]*)", runs[1]) if len(runs) > 1 else None
    if not texts or model is None:
        return
    call = re.sub(r'"(\d+)"', lambda place: strings[int(place[1])], model[2])
    sets = {name: float(number) for name, number in _SET.findall(call)}
    printed = [(k, *value) for k, run in enumerate(runs) for value in _VALUE.findall(run)]
    asked = [(name.replace(",", "_"), time, k) for k, name, at in printed for time in re.findall(_NUMBER, at)]
    lines = [line for line in _PRINTED.findall(result) if "{" not in line or "{" in str(printed)]
    values = re.findall(_NUMBER, ";".join(lines))
    is_known = len(values) == len(asked) and not re.search("qss|symSolver", call)  # Of large errors
    known = zip(asked, values if is_known else (), strict=False)
    expected = [(name, float(time), float(value)) for (name, time, k), value in known if k == 1]
    loads = bool(re.search(r"\bloadModel\(|\buses\s*\(", "\n".join([script, *texts])))
    used = (f'{name}(version="{strings[int(k)]}")' for name, k in _LOADED.findall(script))
    texts.append(f"package loaded__ annotation(uses({', '.join(used)})); end loaded__;")  # as texts say it
    yield Case(title, "\n".join(texts), model[1], loads, sets, expected)


def one(asked: dict[str, Any]) -> dict[str, Any]:
    """How far a model comes, what ended it, and the largest distance from the values that are expected."""
    answer: dict[str, Any] = {"stage": 0, "message": "", "unknowns": 0, "distance": math.nan, "check": ""}
    try:
        _go(asked, answer)
    except Exception as error:
        kind = "" if isinstance(error, DAEError) else f"CRASHED {type(error).__name__}: "
        answer["message"] = kind + " ".join(str(error).split())
    return answer


def _go(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    model = read_modelica_text(asked["text"], name=asked["model"] or None, libraries=asked["libraries"])
    answer |= {"stage": 1, "unknowns": len(model.names)}
    sets, (begin, end) = asked["numbers"], model.interval
    begin, end = sets.get("startTime", begin), sets.get("stopTime", end)
    model.interval = begin, end = begin, end if end > begin else begin + 1.0
    for name in sets.keys() & {*model.parameter_names}:
        model.parameters_by_name[name].value = sets[name]
    for name in sets.keys() & {*model.names}:
        model.start(name, sets[name], fixed=0 in model.variables_by_name[name].fixed)
    ds.structure(model)
    answer["stage"] = 2
    ds.initial(model, time_limit=asked["limit"])
    answer["stage"] = 3
    solution = ds.solve(model, rtol=RTOL, simplify=True, time_limit=asked["limit"])  # as that of a file
    if not solution.success:
        answer["message"] = solution.message
        return
    answer |= {"stage": 4, "check": "script"}
    if asked["expected"]:
        return _compare(solution, asked["expected"], 0.1, answer)
    times = begin + PLACES * (end - begin)
    for values_of in (_by_rumoca, _by_another_method):
        known = values_of(model, times, asked, answer)
        expected = [(name, *pair) for name, row in known for pair in zip(times, row, strict=True)]
        _compare(solution, expected, 1.0, answer)
        if answer["stage"] == 5:
            return


def _compare(solution: Solution, expected: Expected, part: float, answer: dict[str, Any]) -> None:
    """Tell how far a solution is from values, relative to them and to a part of the largest of an unknown."""
    begin, end, names = solution.t[0], solution.t[-1], {*solution.all_names}
    expected = [each for each in expected if each[0] in names and begin <= each[1] <= end]
    if not expected:
        return
    unknowns, at, wanted = zip(*expected, strict=True)
    spots, rows = np.unique(at, return_inverse=True)
    largest = {name: np.abs(solution.values(name)).max() for name in {*unknowns}}
    sides = [solution.at(np.clip(spots + k * BEHIND * (end - begin), begin, end)) for k in (-1, 0, 1)]
    reached = [[side.values(name)[row] for name, row in zip(unknowns, rows, strict=True)] for side in sides]
    scales = np.maximum(np.maximum(np.abs(wanted), [part * largest[name] for name in unknowns]), 1e-6)
    answer["distance"] = float(np.max(np.abs(np.subtract(reached, wanted)).min(axis=0) / scales))
    is_right = answer["distance"] <= CLOSE
    answer |= {"stage": 5, "message": ""} if is_right else {"message": "differs from the expected values"}


def _by_another_method(model: Model, times: Any, asked: dict[str, Any], answer: dict[str, Any]) -> Values:
    """Values of the reduced equations by a method of order 9 to a smaller tolerance."""
    options: Any = {"simplify": True, "reduce": True, "sweeper": "radau-iia-9", "rtol": 0.1 * RTOL}
    run = ds.solve(model, time_limit=asked["limit"], **options)
    if not run.success:
        return []
    at, answer["check"] = run.at(times), "method"
    return [(name, at.values(name)) for name in run.all_names]


def _by_rumoca(model: Model, times: Any, asked: dict[str, Any], answer: dict[str, Any]) -> Values:
    """Values by rumoca's own simulation to a smaller tolerance; none where that fails."""
    (begin, end), answer["check"], name = model.interval, "rumoca", asked["model"] or model.name
    config = importlib.import_module("rumoca").SimConfig(rtol=TIGHT, max_wall_seconds=asked["limit"])
    simulate = methodcaller("simulate", (begin, end), dt=(end - begin) / 1000, config=config)
    try:
        run = compiled(Outline(Source(asked["text"], "")), name, asked["libraries"], simulate)
    except DAEError as error:
        answer["message"] = f"unchecked: {error}"
        return []
    return [(name, np.interp(times, run.time, run[name])) for name in run.names]


if __name__ == "__main__":
    print(json.dumps(one(json.load(sys.stdin))))
