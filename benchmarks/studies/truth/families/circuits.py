"""Random circuits by nodal analysis: R, C, L, sources and diodes, with what makes them index 2.

A variant says what is in them: ``linear`` resistors, capacitors and inductors alone; ``smooth`` diodes of
currents g (v + sqrt(v^2 + s)), ``exponential`` ones of the law of Shockley with a small conductance beside;
``bridge`` a rectifier of four with its load. ``loop`` adds a loop of capacitors and a voltage source,
``cutset`` a node with inductors and a current source alone; of ``driven`` ones the voltage of the source is
put into the laws of the elements. Half of them are told in SI units, the others in V, mA and ms.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.studies.truth.draw import Generator
from benchmarks.studies.truth.netlists import Element, ReducedCircuit, equations, nodes_of, unknowns
from benchmarks.studies.truth.signals import Vector
from benchmarks.studies.truth.written import WAYS, WRITTEN, Written, WrittenFamily

CIRCUITS = (
    *("linear", "linear-loop", "linear-cutset", "linear-loop-cutset", "smooth", "smooth-loop"),
    *("smooth-cutset", "exponential", "exponential-loop", "exponential-cutset"),
    *("linear-driven", "smooth-driven", "exponential-driven"),
)
BRIDGES = ("bridge-smooth", "bridge-smooth-loop", "bridge-exponential", "bridge-exponential-loop")

END = 10.0  # End of runs in ms
ROUNDING = 1e-14  # Values at the start that are 0 but for rounding are smaller
# Size of V and mA above which a circuit is none that is built: an inductor works against closed diodes
LARGEST = 300.0
# Values 1 of elements of V, mA and ms in SI units
SMALL = {"R": 1e3, "C": 1e-6, "L": 1.0, "V": 1.0, "I": 1e-3}


def logarithmic(rng: Generator, low: float, high: float) -> float:
    """A random number, with few digits, that is as often in one decade as in another."""
    return float(f"{np.exp(rng.uniform(np.log(low), np.log(high))):.2g}")


def _passive(rng: Generator, kind: str, a: int, b: int) -> Element:
    low, high = (0.05, 2.0) if kind == "L" else (0.1, 10.0)
    return Element(kind, a, b, logarithmic(rng, low, high))


def _source(rng: Generator, kind: str, a: int, b: int, amplitude: float, gentle: bool) -> Element:
    """A source whose wave begins at 0; its derivative does so too where it is ``gentle``."""
    w = float(f"{rng.uniform(0.4, 2.0):.2g}")
    wave: tuple[Any, Any] = (lambda t: np.sin(w * t)), (lambda t: w * np.cos(w * t))
    if gentle:
        wave = (lambda t: 0.5 - 0.5 * np.cos(w * t)), (lambda t: 0.5 * w * np.sin(w * t))
    return Element(kind, a, b, amplitude, *wave)


def _diode(rng: Generator, exponential: bool, a: int, b: int) -> Element:
    """A diode; exponential ones take at most 1 A."""
    if not exponential:
        g, s = logarithmic(rng, 0.5, 20.0), float(rng.choice((0.1, 0.01)))
        least = logarithmic(rng, 1e-3, 1e-2)
        return Element(
            "D", a, b, 1.0,
            lambda v: g * (v + np.sqrt(v * v + s)) + least * v,
            lambda v: g * (1.0 + v / np.sqrt(v * v + s)) + least,
        )  # fmt: skip
    current, volt = 10.0 ** float(rng.integers(-9, -5)), float(rng.choice((0.026, 0.035, 0.05)))
    least = 10.0 ** float(rng.integers(-6, -2))
    return Element(
        "D", a, b, 1.0,
        lambda v: current * (np.exp(v / volt) - 1.0) + least * v,
        lambda v: current / volt * np.exp(v / volt) + least,
        top=volt * np.log(1e3 / current),
    )  # fmt: skip


def _random(rng: Generator, variant: str) -> list[Element]:
    """Elements on a random tree, so that no node is loose, and some more."""
    nodes, gentle = int(rng.integers(2, 6)), "exponential" in variant
    kinds = ["R", "C", "L", "R"] + (["D", "D"] if "linear" not in variant else [])

    def between(a: int, b: int) -> Element:
        kind = str(rng.choice(kinds))
        return _diode(rng, gentle, a, b) if kind == "D" else _passive(rng, kind, a, b)

    big = float(rng.choice((1.0, 5.0, 12.0)))
    elements = [_source(rng, "V", 1, 0, big, gentle)]
    elements += [between(node, int(rng.integers(0, node))) for node in range(2, nodes + 1)]
    if nodes > 2 and rng.random() < 0.3:
        a, b = rng.choice(nodes + 1, 2, replace=False)
        elements.append(_source(rng, "I", int(a), int(b), logarithmic(rng, 0.1, 2.0), gentle))
    for _ in range(int(rng.integers(1, nodes + 2))):
        a, b = rng.choice(nodes + 1, 2, replace=False)
        elements.append(between(int(a), int(b)))
    if "linear" not in variant and not any(element.kind == "D" for element in elements):
        elements.append(_diode(rng, gentle, nodes, int(rng.integers(0, nodes))))
    return elements


def _bridge(rng: Generator, variant: str) -> list[Element]:
    """A rectifier: source between nodes 1 and 2, load between 3 and ground."""
    exponential = "exponential" in variant
    source = _source(rng, "V", 1, 2, float(rng.choice((5.0, 12.0))), exponential)
    pattern = _diode(rng, exponential, 1, 3)
    four = [replace(pattern, a=a, b=b) for a, b in ((1, 3), (2, 3), (0, 1), (0, 2))]
    load = Element("R", 3, 0, logarithmic(rng, 0.1, 2.0)), Element("C", 3, 0, logarithmic(rng, 0.5, 20.0))
    return [source, *four, *load]


def _with_loop(rng: Generator, elements: list[Element], nodes: int) -> list[Element]:
    source = next(element for element in elements if element.kind == "V")
    if rng.random() < 0.5:
        return [*elements, _passive(rng, "C", source.a, source.b)]
    between = nodes + 1
    around = [_passive(rng, "C", source.a, between), _passive(rng, "C", between, source.b)]
    return [*elements, *around, _passive(rng, "R", between, 0)]


def _with_cut_set(rng: Generator, elements: list[Element], nodes: int) -> list[Element]:
    """A node from which inductors alone go on, and perhaps a current source."""
    others = rng.choice(nodes + 1, int(rng.integers(2, min(nodes, 3) + 1)), replace=False)
    around = [_passive(rng, "L", nodes + 1, int(b)) for b in others]
    if rng.random() < 0.4:
        around.append(_source(rng, "I", 0, nodes + 1, logarithmic(rng, 0.1, 2.0), True))
    return [*elements, *around]


def netlists(seed: int, variant: str) -> Iterator[tuple[list[Element], ReducedCircuit]]:
    """Circuits in V, mA and ms whose unknowns are determined, and their reductions."""
    rng = np.random.default_rng([seed, 2, 9, *variant.encode()])
    for _ in itertools.repeat(None):
        elements = _bridge(rng, variant) if "bridge" in variant else _random(rng, variant)
        for kind, added in (("loop", _with_loop), ("cutset", _with_cut_set)):
            if kind in variant:
                elements = added(rng, elements, nodes_of(elements))
        reduced = ReducedCircuit(elements)
        wanted = 2 if "loop" in variant or "cutset" in variant else 1
        if reduced.sound and reduced.index == wanted and reduced.N.shape[1]:
            yield elements, reduced


def in_si(elements: list[Element]) -> list[Element]:
    """The same circuit in V, A and s."""

    def told(element: Element) -> Element:
        law, slope = element.law, element.slope
        if element.kind == "D":
            return replace(element, law=lambda v: 1e-3 * law(v), slope=None)  # type: ignore[misc]
        if law is not None and slope is not None:
            element = replace(element, law=lambda t: law(1e3 * t), slope=lambda t: 1e3 * slope(1e3 * t))
        return replace(element, value=element.value * SMALL[element.kind])

    return list(map(told, elements))


def _circuit(seed: int, variant: str) -> Written:
    """The first circuit that is of a size as built, and whose reference is computed."""
    rng = np.random.default_rng([seed, 3, 9, *variant.encode()])
    for elements, reduced in netlists(seed, variant):  # noqa: B007
        size = reduced.N.shape[1]
        w0 = np.zeros((size,)) if "exponential" in variant else rng.uniform(-1.0, 1.0, (size,))
        with suppress(ArithmeticError):
            solution, error = reduced.solution(w0, END)
            if np.abs(solution(np.linspace(0.0, END, 101))).max() < LARGEST:
                break
    driven = "driven" in variant
    every, names = unknowns(elements), unknowns(elements, driven)
    columns = [every.index(name) for name in names]
    units: Vector = np.ones(len(names))
    second = 1.0
    if rng.random() < 0.5:
        elements, second = in_si(elements), 1e-3
        units = np.array([1e-3 if name.startswith("i") else 1.0 for name in names])

    def reference(times: Vector) -> Vector:
        return np.asarray(solution(np.asarray(times) / second)[:, columns] * units)

    def slack(times: Vector) -> Vector:
        return np.asarray(error(np.asarray(times) / second)[:, columns] * units)

    values = reference(np.zeros(1))[0]
    values[np.abs(values) < ROUNDING] = 0.0  # a circuit at rest starts from 0
    start = dict(zip(names, values.tolist(), strict=True))
    return Written(equations(elements, driven), start, END * second, reference, slack)


WRITTEN.add("circuits", WrittenFamily(_circuit, CIRCUITS, per_seed=8, ways=tuple(WAYS)))
_tolerances = tuple(10.0**-k for k in range(4, 10))
WRITTEN.add("bridges", WrittenFamily(_circuit, BRIDGES, 3, _tolerances, tuple(WAYS)))
