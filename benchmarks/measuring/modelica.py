"""Models of a collection of Modelica texts, and one of them in a process of its own, as far as it comes."""

from __future__ import annotations

import json
import math
import random
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dae_sdc as ds
from dae_sdc.errors import DAEError
from dae_sdc.modelica.reader import read_modelica_text

STAGES = ("text", "read", "structure", "started", "solved", "compared")  # Each with all before it
CLOSE = 0.01  # Relative distance from an expected value that is right
RTOL = 1e-6

_STRING = r'"(?:[^"\\]|\\.)*"'
_STATEMENT = re.compile(rf"(?:[^\";]|{_STRING})+")
_STOP = re.compile(r"(startTime|stopTime)\s*=\s*([-\d.eE+]+)")
_NUMBER = re.compile(r"^/*[ \t]*(-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)[ \t]*$", re.MULTILINE)
_EXAMPLE = re.compile(r"annotation\s*\(.*\bexperiment\s*\(", re.DOTALL)


class Case(NamedTuple):
    """A model of a collection, and what is expected of it."""

    name: str  # How it is called in the table
    text: str  # The text; empty for a class of a library
    model: str  # The class; empty for the last one
    times: dict[str, float]  # startTime and stopTime, where a script says them
    expected: list[tuple[str, float, float]]  # Unknowns, times and values there


def cases(corpus: Path) -> Iterator[Case]:
    """The models of a directory: those that its scripts simulate, or the last one of each text."""
    scripts = sorted(corpus.rglob("*.mos"))
    for path in scripts:
        yield from _of_script(path, corpus)
    for path in [] if scripts else sorted(corpus.rglob("*.mo")):
        text = path.read_text(encoding="utf-8", errors="replace")
        within = re.search(r"^\s*within\s+([\w.]+)\s*;", text)
        name = str(path.relative_to(corpus))
        if within is None:
            yield Case(name, text, "", {}, [])
        elif path.name != "package.mo" and _EXAMPLE.search(text):
            yield Case(name, "", f"{within[1]}.{path.stem}", {}, [])


def _of_script(path: Path, corpus: Path) -> Iterator[Case]:
    """The model that a script of OpenModelica simulates first, with the values that it prints."""
    script = path.read_text(encoding="utf-8", errors="replace")
    script, _, result = script.partition("// Result:")
    script = re.sub(r"^\s*//.*$", "", script, flags=re.MULTILINE)
    texts, model, options, runs, asked = list[str](), "", "", 0, list[tuple[str, float, int]]()
    for statement in _STATEMENT.findall(script):
        called = re.match(r"\s*(\w+)\s*\(", statement)
        word = called[1] if called else ""
        if word == "loadFile" and (file := re.search(r'"([^"]+\.mo)"', statement)):
            inner = path.parent / file[1]
            texts += [inner.read_text(encoding="utf-8-sig", errors="replace")] if inner.is_file() else []
        elif word == "loadString" and (inside := re.search(_STRING, statement, re.DOTALL)):
            texts.append(re.sub(r"\\(.)", r"\1", inside[0][1:-1]))
        elif word in ("simulate", "buildModel"):
            runs += 1
            if not model and (name := re.match(r"\s*\w+\s*\(\s*([\w.]+)", statement)):
                model, options = name[1], statement
        elif word == "val" and (pair := re.match(r"\s*val\(\s*(.+?)\s*,\s*([-\d.eE+]+)\s*\)", statement)):
            asked.append((pair[1], float(pair[2]), runs))
    if not texts or not model:
        return
    values = [float(number) for number in _NUMBER.findall(result)]
    pairs = zip(asked, values, strict=True) if len(values) == len(asked) else ()
    expected = [(name.replace(",", "_"), time, value) for (name, time, run), value in pairs if run == 1]
    times = {word: float(number) for word, number in _STOP.findall(options)}
    yield Case(str(path.relative_to(corpus)), "\n".join(texts), model, times, expected)


def drawn(every: list[Case], number: int, seed: int) -> list[Case]:
    """So many of the models, drawn by a seed; all of them for 0."""
    return every if not 0 < number < len(every) else random.Random(seed).sample(every, number)


def one(asked: dict[str, Any]) -> dict[str, Any]:
    """How far a model comes, what ended it, and the largest distance from the values that are expected."""
    answer: dict[str, Any] = {"stage": 0, "message": "", "unknowns": 0, "distance": math.nan}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _go(asked, answer)
    except DAEError as error:
        answer["message"] = _line(error)
    except Exception as error:
        answer["message"] = f"CRASHED {type(error).__name__}: {_line(error)}"
    return answer


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _go(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    model = read_modelica_text(
        asked["text"], name=asked["model"] or None, libraries=asked["libraries"], reader=asked["reader"]
    )
    answer |= {"stage": 1, "unknowns": len(model.names)}
    begin = asked["times"].get("startTime", model.interval[0])
    end = asked["times"].get("stopTime", max(model.interval[1], begin + 1.0))
    model.interval = begin, max(end, begin + 1.0)
    ds.structure(model)
    answer["stage"] = 2
    start = ds.initial(model, time_limit=asked["limit"])
    answer["stage"] = 3
    solution = None
    if end > begin:
        solution = ds.solve(model, rtol=RTOL, time_limit=asked["limit"])
        if not solution.success:
            answer["message"] = solution.message
            return
    answer["stage"] = 4
    distances = []
    names = list(start.names if solution is None else solution.names)
    for name, time, value in asked["expected"]:
        if name in names and begin <= time <= end:
            place = names.index(name)
            ours = start.u[place] if solution is None else solution.at([time]).u[0, place]
            scale = 0.0 if solution is None else np.max(np.abs(solution.u[:, place]))
            distances.append(float(abs(ours - value) / max(abs(value), 1e-3 * scale, 1e-6)))
    if distances:
        answer["distance"] = max(distances)
        if answer["distance"] > CLOSE:
            answer["message"] = "differs from the expected values"
        else:
            answer["stage"] = 5


if __name__ == "__main__":
    print(json.dumps(one(json.load(sys.stdin))))
