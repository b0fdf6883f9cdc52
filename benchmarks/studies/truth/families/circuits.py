"""Random circuits by nodal analysis: R, C, L, sources and diodes, with what makes them index 2.

A variant says what is in them: ``linear`` resistors, capacitors and inductors alone; ``smooth`` diodes of
currents g (v + sqrt(v^2 + s)), ``exponential`` ones of the law of Shockley with a small conductance beside;
``bridge`` a rectifier of four with its load. ``loop`` adds a loop of capacitors and a voltage source,
``cutset`` a node with inductors and a current source alone; of ``driven`` ones the voltage of the source is
put into the laws of the elements. Half of them are told in SI units, the others in V, mA and ms.

References have nothing in common with what the package does: nodal analysis, modified for inductors and
voltage sources, has the form E x' + G x + D g(D^T x) = S s(t) with a symmetric E. With Z its null space and
Y the rest, x = Y y + Z z, and with W the left null space of Z^T (G + D D^T) Z, which is that of loops of
capacitors and voltage sources and of cut sets of inductors and current sources, the constraints
W^T Z^T (G Y y - S s) = 0 are linear: y = B^+ r(t) + N w, and what is left is an ordinary equation for w.

D. Estevez Schwarz, C. Tischendorf: Structural analysis of electric circuits and consequences for MNA,
International Journal of Circuit Theory and Applications 28 (2000) 131-162.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.ndimage import maximum_filter1d

from benchmarks.studies.truth.draw import Generator, Vector
from benchmarks.studies.truth.written import WAYS, WRITTEN, Written, WrittenFamily

TIGHT = 1e-12  # Relative tolerance of references
LESS_TIGHT = 1e-11  # Relative tolerance of the solutions that tell the errors of references
PLACES = 1001  # Number of times at which both are compared
NEARBY = 41  # Number of these of which the largest difference counts
# Part of the difference that is left open as error of the tighter solution: three times what is expected.
OPEN = 0.3
MOST_ITERATIONS = 500  # Largest number of Newton iterations at a time and state
RANK = 1e-9  # Singular values below this part of the largest are zero


@dataclass(frozen=True)
class Element:
    """A resistor R, capacitor C, inductor L, voltage source V, current source I or diode D."""

    kind: str  # Its letter
    a: int  # Nodes from which and to which its current flows; 0 is ground
    b: int
    value: float = 1.0  # Resistance, capacitance, inductance or amplitude
    # Of a source its signal(t), of a diode its current(v); both work on numbers of any kind
    law: Callable[[Any], Any] | None = None
    slope: Callable[[Any], Any] | None = None  # The derivative of law in its argument
    # Voltage of a diode, above all that it takes in the solution, from which on Newton's method of the
    # reference goes along a straight line
    top: float = np.inf

    def tangent(self, v: float) -> tuple[float, float]:
        """Current of a diode at a voltage, and its derivative."""
        low = min(v, self.top)
        slope = float(self.slope(low))  # type: ignore[misc]
        return float(self.law(low)) + slope * (v - low), slope  # type: ignore[misc]


def _driven(elements: Sequence[Element], wanted: bool) -> dict[int, Element]:
    """The nodes whose potentials are those of voltage sources to ground, where these are put in."""
    return {element.a: element for element in elements if wanted and element.kind == "V" and not element.b}


def equations(elements: Sequence[Element], driven: bool = False) -> Callable[[Any, Any, Any], list[Any]]:
    """F(t, u, u') of modified nodal analysis: laws of Kirchhoff at nodes, then inductors and voltage sources.

    Its unknowns are the potentials of nodes 1, 2, ... and the currents of inductors and voltage sources in
    the order of the elements; without those of ``driven`` nodes, whose potentials are given.
    """
    given = _driven(elements, driven)
    free = [node for node in range(1, nodes_of(elements) + 1) if node not in given]

    def potentials(t: Any, u: Any, order: int) -> dict[int, Any]:
        waves = {node: (source.slope if order else source.law) for node, source in given.items()}
        driving = {node: given[node].value * wave(t) for node, wave in waves.items()}  # type: ignore[misc]
        return {0: 0.0} | driving | {node: u[at] for at, node in enumerate(free)}

    def function(t: Any, u: Any, du: Any) -> list[Any]:
        out: list[Any] = [0.0] * (len(free) + len(given) + 1)
        rows, at = [], len(free)
        e, de = potentials(t, u, 0), potentials(t, du, 1)
        for element in elements:
            if element in given.values():
                continue
            law: Any = element.law
            v, dv = e[element.a] - e[element.b], de[element.a] - de[element.b]
            if element.kind == "R":
                current = v / element.value
            elif element.kind == "C":
                current = element.value * dv
            elif element.kind in "LV":
                inductive = element.kind == "L"
                rows.append(element.value * du[at] - v if inductive else v - element.value * law(t))
                current = u[at]
                at += 1
            else:
                current = element.value * law(t) if element.kind == "I" else law(v)
            out[element.a] = out[element.a] + current
            out[element.b] = out[element.b] - current
        return [*(out[node] for node in free), *rows]

    return function


def nodes_of(elements: Sequence[Element]) -> int:
    return max(max(element.a, element.b) for element in elements)


def unknowns(elements: Sequence[Element], driven: bool = False) -> list[str]:
    given = _driven(elements, driven)
    numbered = [(k, element) for k, element in enumerate(elements) if element not in given.values()]
    branches = [f"i_{element.kind}{k}" for k, element in numbered if element.kind in "LV"]
    return [f"e{node}" for node in range(1, nodes_of(elements) + 1) if node not in given] + branches


def _spaces(matrix: Vector) -> tuple[Vector, Vector]:
    """Orthonormal bases of what a matrix's rows span and of its null space, as columns."""
    if not matrix.shape[0]:
        return np.zeros((matrix.shape[1], 0)), np.eye(matrix.shape[1])
    _, values, right = np.linalg.svd(matrix)
    rank = int((values > RANK * max(values.max(initial=0.0), 1e-300)).sum())
    return right[:rank].T, right[rank:].T


class ReducedCircuit:
    """A circuit reduced to an ordinary differential equation w' = phi(t, w), and its unknowns x(t, w)."""

    def __init__(self, elements: Sequence[Element]) -> None:
        self.nodes = nodes_of(elements)
        self.diodes = [element for element in elements if element.kind == "D"]
        self.sources = [element for element in elements if element.kind in "VI"]
        n = len(unknowns(elements))
        self.E, self.G = np.zeros((n, n)), np.zeros((n, n))
        self.D, self.S = np.zeros((n, len(self.diodes))), np.zeros((n, len(self.sources)))
        at = self.nodes
        for element in elements:
            between = np.eye(n + 1, n, -1)[element.a] - np.eye(n + 1, n, -1)[element.b]
            if element.kind == "C":
                self.E += element.value * np.outer(between, between)
            elif element.kind == "R":
                self.G += np.outer(between, between) / element.value
            elif element.kind in "LV":
                self.G[:, at] += between
                self.G[at] -= between if element.kind == "L" else -between
                if element.kind == "L":
                    self.E[at, at] = element.value
                else:
                    self.S[at, self.sources.index(element)] = element.value
                at += 1
            elif element.kind == "I":
                self.S[:, self.sources.index(element)] = -element.value * between
            else:
                self.D[:, self.diodes.index(element)] = between
        self.Y, self.Z = _spaces(self.E)
        H = self.Z.T @ (self.G + self.D @ self.D.T) @ self.Z
        complement, self.W = _spaces(H.T)
        self._left = np.vstack([self.Y.T, complement.T @ self.Z.T])  # combines the equations that are left
        self.B = self.W.T @ self.Z.T @ self.G @ self.Y
        _, self.N = _spaces(self.B)
        self.right = np.linalg.pinv(self.B)
        self._guess = np.zeros(self.N.shape[1] + self.Z.shape[1])

    @property
    def index(self) -> int:
        return 2 if self.W.shape[1] else 1 if self.Z.shape[1] else 0

    @property
    def sound(self) -> bool:
        """Whether the reduction goes through, by far: the circuit determines its unknowns."""
        if self.W.shape[1] and np.abs(self.W.T @ self.Z.T @ self.D).max(initial=0.0) > 1e-9:
            return False
        for conductance in (1e-3, 1.0):
            values = np.linalg.svd(self._matrix(np.full(len(self.diodes), conductance)), compute_uv=False)
            if values.min(initial=1.0) < 1e-5 * values.max(initial=1.0):
                return False
        return True

    def _linear(self, slopes: Vector) -> Vector:
        """Derivative of the equations that are left in x, where diodes have these conductances."""
        return np.asarray(self._left @ (self.G + (self.D * slopes) @ self.D.T))

    def _matrix(self, slopes: Vector) -> Vector:
        return np.hstack([self._left @ self.E @ self.Y @ self.N, self._linear(slopes) @ self.Z])

    def _diodes(self, x: Vector) -> tuple[Vector, Vector]:
        """Currents of diodes, and their derivatives in the voltages."""
        pairs = [element.tangent(v) for element, v in zip(self.diodes, self.D.T @ x, strict=True)]
        current, slopes = np.array(pairs).reshape(-1, 2).T
        return current, slopes

    def solved(self, t: float, w: Vector) -> tuple[Vector, Vector]:
        law = [float(element.law(t)) for element in self.sources]  # type: ignore[misc]
        slope = [float(element.slope(t)) for element in self.sources]  # type: ignore[misc]
        bound = self.right @ (self.W.T @ self.Z.T @ self.S)
        fixed = self.Y @ (bound @ law + self.N @ w)
        moving = self._left @ (self.E @ self.Y @ (bound @ slope) - self.S @ law)
        size, states = self._guess.size, self.N.shape[1]

        def rest(point: Vector) -> tuple[Vector, Vector, Vector]:
            x = fixed + self.Z @ point[states:]
            current, slopes = self._diodes(x)
            linear = self.E @ self.Y @ self.N @ point[:states] + self.G @ x
            return self._left @ (linear + self.D @ current) + moving, x, slopes

        point = self._guess
        residual, x, slopes = rest(point)
        for _ in range(MOST_ITERATIONS if size else 0):
            step = np.linalg.solve(self._matrix(slopes), -residual)
            part, before = 1.0, np.abs(residual).max()
            residual, x, slopes = rest(point + step)
            while np.abs(residual).max() > before + 1e-13 and part > 1e-9:
                part *= 0.5
                residual, x, slopes = rest(point + part * step)
            point = point + part * step
            rounding = before <= 1e-13 and np.abs(residual).max() >= before
            if not self.diodes or rounding or np.abs(step).max() <= 1e-10 * (1.0 + np.abs(point).max()):
                break
        else:
            if size:
                raise ArithmeticError(f"Newton's method of the reference of a circuit stops at t={t:g}")
        self._guess = point
        return point[:states], x

    def solution(self, w0: Vector, end: float) -> tuple[Callable[[Vector], Vector], ...]:
        """x at times of shape (K,), shape (K, n), by LSODA at a tight tolerance, and its error.

        A current of some microamperes through a coil that is in series with a diode tells the voltage of the
        diode, and is one of w with others that are a million times larger: the errors of w are those between
        solutions of two tolerances, and those of x what they make of it.
        """

        def slope(t: float, w: Vector) -> Vector:
            return self.solved(t, w)[0]

        def values(times: Vector) -> Vector:
            states = (fine.sol(t) if len(w0) else w0 for t in times)
            return np.array([self.solved(float(t), w)[1] for t, w in zip(times, states, strict=True)])

        def left_open(times: Vector) -> Vector:
            rows, basis = [], self.Y @ self.N
            for x, k in zip(values(times), np.searchsorted(places, times).clip(0, PLACES - 1), strict=True):
                _, slopes = self._diodes(x)
                z = np.linalg.solve(self._matrix(slopes), self._linear(slopes) @ basis)[basis.shape[1] :]
                rows.append(np.abs(basis - self.Z @ z) @ errors[:, k])  # derivative of x by w
            return np.array(rows)

        fine: Any = None
        places, errors = np.linspace(0.0, end, PLACES), np.zeros((len(w0), PLACES))
        if len(w0):
            how: dict[str, Any] = {"t_span": (0.0, end), "method": "LSODA", "dense_output": True}
            tolerances = ({"rtol": rtol, "atol": 1e-2 * rtol} for rtol in (LESS_TIGHT, TIGHT))
            coarse, fine = (solve_ivp(slope, y0=w0, **how, **tolerance) for tolerance in tolerances)
            if not (coarse.success and fine.success):
                raise ArithmeticError(f"the reference of a circuit was not computed: {fine.message}")
            errors = maximum_filter1d(OPEN * np.abs(coarse.sol(places) - fine.sol(places)), NEARBY)
        return values, left_open


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

    def told(values: Callable[[Vector], Vector], times: Vector) -> Vector:
        return np.asarray(values(np.asarray(times) / second)[:, columns] * units)

    values = told(solution, np.zeros(1))[0]
    values[np.abs(values) < ROUNDING] = 0.0  # a circuit at rest starts from 0
    start = dict(zip(names, values.tolist(), strict=True))
    of_time = partial(told, solution), partial(told, error)
    return Written(equations(elements, driven), start, END * second, *of_time)


WRITTEN.add("circuits", WrittenFamily(_circuit, CIRCUITS, per_seed=8, ways=tuple(WAYS)))
_tolerances = tuple(10.0**-k for k in range(4, 10))
WRITTEN.add("bridges", WrittenFamily(_circuit, BRIDGES, 3, _tolerances, tuple(WAYS)))
