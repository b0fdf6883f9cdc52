"""Starts from afar: distillation from 25 degrees, diodes from 0 V, power flow from a flat profile."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.runs import DONE, WRONG, Finding
from benchmarks.studies.starts.peers import Square, compared, terms
from benchmarks.studies.truth.families.circuits import Element, equations, unknowns
from dae_sdc.errors import InputError
from dae_sdc.initial.given import by_name
from dae_sdc.model.functions import FunctionProblem
from dae_sdc.registry import unknown

MET = 1e-8  # Part of its terms that may be left of an equation, and error of a power flow
REPETITIONS = 3
PATIENCE = 200.0  # Seconds by the clock that a start may take, on a busy machine
PYPOWER = "pypower"


@dataclass
class Plant:
    function: Callable[[Any, Any, Any], Any]
    names: list[str]
    held: Mapping[str, float]
    guesses: Mapping[str, float]  # By patterns
    bounds: Mapping[str, Any] = field(default_factory=dict)
    judge: Callable[[Any], str] = lambda start: ""  # What is wrong besides, of the values by name


def column(trays: int, bounded: bool) -> Plant:
    """A column for benzene and toluene at rest, from 25 degrees and equal parts everywhere."""
    feed, distillate, reflux, pressure, mix = 1.0, 0.5, 3.0, 101325.0, 0.5
    at, vapour = trays // 2, (1.0 + reflux) * distillate

    def function(t: Any, u: Any, du: Any) -> list[Any]:
        x, y, T = u[:trays], u[trays : 2 * trays], u[2 * trays :]
        rows = []
        for k in range(trays):
            light = np.exp(20.7936 - 2788.51 / (T[k] - 52.36))
            heavy = np.exp(20.9065 - 3096.52 / (T[k] - 53.67))
            above = reflux * distillate + feed * (k - 1 >= at)
            out = reflux * distillate + feed * (k >= at) if k < trays - 1 else feed - distillate
            change = above * (x[k - 1] if k else y[0]) - out * x[k] - vapour * y[k]
            change = change + (vapour * y[k + 1] if k < trays - 1 else 0.0) + (feed * mix if k == at else 0.0)
            rows += [du[k] - change, y[k] - x[k] * light / pressure]
            rows.append((x[k] * light + (1.0 - x[k]) * heavy) / pressure - 1.0)
        return rows

    def judge(start: Mapping[str, float]) -> str:
        x = np.array([start[f"x{k}"] for k in range(trays)])
        balance = feed * mix - distillate * start["y0"] - (feed - distillate) * x[-1]
        falling = bool((x[:-1] > x[1:] - MET).all()) and -MET < x[-1] and x[0] < 1.0 + MET
        return "" if abs(balance) < MET and falling else "no column at rest"

    names = [f"{kind}{k}" for kind in "xyT" for k in range(trays)]
    bounds = {"T*": (250.0, 500.0), "x*": (0.0, 1.0), "y*": (0.0, 1.0)} if bounded else {}
    guesses = {"T*": 298.15, "x*": 0.5, "y*": 0.5}
    return Plant(function, names, {f"der(x{k})": 0.0 for k in range(trays)}, guesses, bounds, judge)


def diodes(kind: str) -> Plant:
    """A circuit of 20 exponential diodes at 20 V, from 0 V everywhere and a discharged capacitor."""
    rng = np.random.default_rng(20)

    def diode(a: int, b: int) -> Element:
        return Element("D", a, b, 1.0, lambda v: 1e-14 * (np.exp(v / 0.0259) - 1.0))

    elements = [Element("V", 1, 0, 20.0, lambda t: 1.0), Element("R", 1, 2, 1e3)]
    if kind == "row":
        elements += [diode(k, k + 1 if k < 21 else 0) for k in range(2, 22)]
    elif kind == "ladder":
        for k in range(2, 22):
            elements += [diode(k, 0), Element("R", k, k + 1, 1e2)]
    else:
        for k in range(3, 23):
            elements += [diode(int(rng.integers(1, k)), k), Element("R", k, int(rng.integers(0, k)), 1e4)]
    last = max(element.a for element in elements) + 1
    elements += [Element("R", 1, last, 1e3), Element("C", last, 0, 1e-6), diode(last, last - 1)]
    names = [f"v{name[1:]}" if name.startswith("e") else name for name in unknowns(elements)]
    names[last - 1] = "c"
    return Plant(equations(elements), names, {"c": 0.0}, {"v*": 0.0, "i*": 0.0})


def power(buses: int) -> Plant:
    """The power flow of a case of PYPOWER, in polar form: from magnitudes 1 and angles 0."""
    api = importlib.import_module(f"{PYPOWER}.api")
    case = getattr(api, f"case{buses}")()
    base, bus, branches = float(case["baseMVA"]), case["bus"], case["branch"]
    place = {int(number): k for k, number in enumerate(bus[:, 0])}
    Y = np.diag((bus[:, 4] + 1j * bus[:, 5]) / base).astype(complex)
    for row in branches[branches[:, 10] > 0]:
        a, b = place[int(row[0])], place[int(row[1])]
        tap = (row[8] or 1.0) * np.exp(1j * np.pi * row[9] / 180)
        series = 1.0 / (row[2] + 1j * row[3])
        shunted = series + 0.5j * row[4]
        Y[a, a] += shunted / abs(tap) ** 2
        Y[b, b] += shunted
        Y[a, b] -= series / np.conj(tap)
        Y[b, a] -= series / tap
    produced, level = np.zeros(buses, dtype=complex), np.full(buses, np.nan)
    for row in case["gen"][case["gen"][:, 7] > 0]:
        produced[place[int(row[0])]] += (row[1] + 1j * row[2]) / base
        level[place[int(row[0])]] = row[5]
    load, kinds = (bus[:, 2] + 1j * bus[:, 3]) / base, bus[:, 1]
    slack = int(np.flatnonzero(kinds == 3)[0])
    machines = np.flatnonzero(kinds > 1).tolist()
    angle = float(bus[slack, 8]) * np.pi / 180
    near = [np.flatnonzero(Y[k]).tolist() for k in range(buses)]
    G, B = Y.real.tolist(), Y.imag.tolist()

    def function(t: Any, u: Any, du: Any) -> list[Any]:
        vm, va, q, p = u[:buses], u[buses : 2 * buses], u[2 * buses : -1], u[-1]
        rows = [va[slack] - angle, *(vm[k] - float(level[k]) for k in machines)]
        for k in range(buses):
            active, reactive = float(load[k].real) - float(produced[k].real), float(load[k].imag)
            active = active + float(produced[k].real) - p if k == slack else active
            reactive = reactive - (q[machines.index(k)] if k in machines else float(produced[k].imag))
            for j in near[k]:
                turn, size = va[k] - va[j], vm[k] * vm[j]
                active = active + size * (G[k][j] * np.cos(turn) + B[k][j] * np.sin(turn))
                reactive = reactive + size * (G[k][j] * np.sin(turn) - B[k][j] * np.cos(turn))
            rows += [active, reactive]
        return rows

    names = [f"{kind}{k}" for kind in ("vm", "va") for k in range(buses)]

    def judge(start: Mapping[str, float]) -> str:
        solved, success = api.runpf(case, api.ppoption(PF_TOL=1e-12, VERBOSE=0, OUT_ALL=0))
        there = np.concatenate([solved["bus"][:, 7], solved["bus"][:, 8] * np.pi / 180])
        off = float(np.abs([start[name] for name in names] - there).max())
        return "" if success and off <= MET else f"off the power flow of PYPOWER by {off:.2g}"

    every = [*names, *(f"q{k}" for k in machines), "p"]
    return Plant(function, every, {}, {"vm*": 1.0, "va*": 0.0, "q*": 0.0, "p": 0.0}, {}, judge)


PLANTS: Mapping[str, Callable[[], Plant]] = {
    **{f"column-{n}": partial(column, n, False) for n in (20, 50, 100)},
    **{f"column-{n}-bounded": partial(column, n, True) for n in (20, 50, 100)},
    **{f"diodes-{kind}": partial(diodes, kind) for kind in ("row", "ladder", "net")},
    **{f"power-{n}": partial(power, n) for n in (9, 14, 30, 57, 118)},
}
FEW = ("diodes-row",)  # Those of a small part of all starts


def repeat(line: str) -> Finding:
    if line not in PLANTS:
        raise InputError(unknown("start", line, PLANTS))
    if line.startswith("power") and importlib.util.find_spec(PYPOWER) is None:
        raise InputError("power flows need PYPOWER: pip install 'dae_sdc[bench]'")
    plant = PLANTS[line]()
    names, n = plant.names, len(plant.names)
    problem = FunctionProblem(plant.function, n, names)

    def residual(u: Any, du: Any) -> Any:
        return np.asarray(plant.function(0.0, u, du))

    def start() -> Finding:
        how: dict[str, Any] = {"guesses": plant.guesses, "bounds": plant.bounds or None}
        initial = ds.initial(problem, fixed=plant.held or None, time_limit=PATIENCE, **how)
        u, du = np.asarray(initial.u), np.nan_to_num(np.asarray(initial.du))
        # Newton's method leaves 1e-30 of a 0, which is a violation of no equation.
        left = np.abs(residual(u, du)) / (terms(residual, u, du) + np.finfo(float).eps)
        bad = plant.judge(dict(zip(names, u.tolist(), strict=True)))
        if left.max() > MET:
            bad = f"equation {left.argmax()} is violated by {left.max():.2g} of its terms"
        if any(initial.values[name] != value for name, value in plant.held.items()):
            bad = "a held value was changed"
        return Finding(WRONG if bad else DONE, bad, float(left.max()))

    guesses = by_name(plant.guesses, names, "unknown")
    values = np.array([name not in plant.held for name in names])
    u = np.array([plant.held.get(name, guesses.get(name, 0.0)) for name in names])
    square = Square(residual, u, np.zeros(n), values, ~values)
    return compared(start, square, {"n": n, "index": 1, "held": len(plant.held)}, REPETITIONS)
