"""Equations of a graph as polynomials: sines and cosines become pairs of variables, choices branches."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError
from dae_sdc.expressions.dag import Leaf, Op
from dae_sdc.expressions.graph import Graph
from dae_sdc.initial.jets import ModelJets
from dae_sdc.jets.graph import leaf_values
from dae_sdc.polynomials.polynomials import Complexes, PolynomialSystem

MOST_TERMS = 5000  # Largest number of terms of a polynomial up to which equations are multiplied out.
MOST_PRODUCTS = 100 * MOST_TERMS  # Largest number of products of terms that are added for that at once.
CANCELLED_SUM = 1e-14  # Size of a sum, relative to its terms, up to which it is round-off.
Monomial = tuple[tuple[int, int], ...]  # Pairs of the number of a variable and its power.
Polynomial = dict[Monomial, complex]  # Coefficients by monomial.
UNIT: Polynomial = {(): 1.0}  # The polynomial 1.


class NotPolynomialError(DAEError):
    """Equations cannot be written as polynomials; caught internally, to solve them in another way."""


def _accumulate(total: Polynomial, monomial: Monomial, value: complex) -> None:
    before = total.get(monomial, 0.0)
    after = before + value
    if abs(after) <= CANCELLED_SUM * max(abs(before), abs(value)):
        total.pop(monomial, None)
    else:
        total[monomial] = after


def plus(a: Mapping[Monomial, complex], b: Mapping[Monomial, complex], factor: complex = 1.0) -> Polynomial:
    """a + factor b."""
    total = dict(a)
    for monomial, value in b.items():
        _accumulate(total, monomial, factor * value)
    return total


def variables_of(rows: Sequence[Polynomial]) -> set[int]:
    """Numbers of the variables in some polynomials."""
    return {variable for row in rows for monomial in row for variable, _ in monomial}


@dataclass(frozen=True, eq=False)
class Quotient:
    """A polynomial over a product of factors, given as a mapping of their numbers to powers."""

    over: Polynomial
    under: Mapping[int, int]


class Quotients:
    """Arithmetic of quotients whose denominators are products of factors from a common list."""

    def __init__(self, n: int) -> None:
        self._n = n
        self.factors: list[Polynomial] = []

    def times(self, a: Mapping[Monomial, complex], b: Mapping[Monomial, complex]) -> Polynomial:
        """The product of polynomials, in which sin^2 is replaced by 1 - cos^2."""
        total: Polynomial = {}
        a, b = sorted((a, b), key=len)
        for monomial, value in a.items():
            for other, factor in b.items():
                self._add_product(total, monomial, other, value * factor)
            if len(a) * len(b) > MOST_PRODUCTS or len(total) > MOST_TERMS:
                raise NotPolynomialError(f"a product of polynomials with {len(a)} and {len(b)} terms")
        return total

    def _add_product(self, total: Polynomial, a: Monomial, b: Monomial, value: complex) -> None:
        powers = dict(a)
        for variable, power in b:
            powers[variable] = powers.get(variable, 0) + power
        n = self._n
        for variable, power in powers.items():
            if power >= 2 and n <= variable < 3 * n and (variable - n) % 2:
                lower = {**powers, variable: power - 2}
                rest = tuple(sorted((v, p) for v, p in lower.items() if p))
                self._add_product(total, rest, (), value)
                self._add_product(total, rest, ((variable - 1, 2),), -value)
                return
        _accumulate(total, tuple(sorted(powers.items())), value)

    def power(self, base: Polynomial, exponent: int) -> Polynomial:
        """A power of a polynomial."""
        return reduce(self.times, [base] * exponent, dict(UNIT))

    def sum(self, a: Quotient, b: Quotient) -> Quotient:
        """a + b."""
        under = {k: max(a.under.get(k, 0), b.under.get(k, 0)) for k in {*a.under, *b.under}}
        return Quotient(plus(self._extended(a, under), self._extended(b, under)), under)

    def _extended(self, part: Quotient, under: Mapping[int, int]) -> Polynomial:
        over = part.over
        for k, power in under.items():
            lacking = power - part.under.get(k, 0)
            if lacking:
                over = self.times(over, self.power(self.factors[k], lacking))
        return over

    def product(self, a: Quotient, b: Quotient) -> Quotient:
        """a b."""
        under = {k: a.under.get(k, 0) + b.under.get(k, 0) for k in {*a.under, *b.under}}
        return Quotient(self.times(a.over, b.over), under)

    def denominator(self, a: Quotient) -> Polynomial:
        """The denominator of a, multiplied out."""
        return reduce(self.times, (self.power(self.factors[k], n) for k, n in a.under.items()), dict(UNIT))

    def inverse(self, a: Quotient) -> Quotient:
        """1 / a."""
        if not a.over:
            raise NotPolynomialError("a division by 0")
        over = self.denominator(a)
        if set(a.over) == {()}:
            return Quotient({monomial: value / a.over[()] for monomial, value in over.items()}, {})
        # Denominators that differ by a constant factor are one.
        first = min(a.over)
        scale = a.over[first]
        factor = {monomial: value / scale for monomial, value in a.over.items()}
        over = {monomial: value / scale for monomial, value in over.items()}
        for k, known in enumerate(self.factors):
            if known.keys() == factor.keys() and all(
                abs(known[key] - factor[key]) <= 1e-12 * abs(factor[key]) for key in factor
            ):
                return Quotient(over, {k: 1})
        self.factors.append(factor)
        return Quotient(over, {len(self.factors) - 1: 1})

    def put(self, row: Polynomial, variable: int, line: Polynomial) -> Polynomial:
        """A polynomial in which a variable is replaced by another polynomial."""
        if variable not in variables_of([row]):
            return row
        total: Polynomial = {}
        for monomial, value in row.items():
            power = dict(monomial).get(variable, 0)
            rest = tuple((v, p) for v, p in monomial if v != variable)
            total = plus(total, self.times({rest: value}, self.power(line, power)))
        return total


MOST_BRANCHES = 64  # Largest number of combinations of branches of choices.
LARGEST_MULTIPLE = 12  # Largest multiple of an angle, and largest denominator of a ratio of two of them.

TRIGONOMETRIC = frozenset({Op.SIN, Op.COS, Op.TAN})
_ARITHMETIC = frozenset({Op.ADD, Op.MUL, Op.NEG, Op.DIV, Op.INPUT})


class _UndecidedError(DAEError):
    """A branch of a choice must be selected before the equations can be read further."""

    def __init__(self, node: int, options: Sequence[int]) -> None:
        super().__init__(f"node {node}")
        self.node, self.options = node, options


@dataclass(frozen=True, eq=False)
class Polynomials:
    """Equations as polynomials, for one combination of branches of the choices in them."""

    system: PolynomialSystem  # The equations times their denominators, with the equations of pairs and roots.
    names: tuple[str, ...]  # Names of the variables, made from those of the unknowns.
    # Kind of each variable, "value", "cos", "sin" or "root", and number of the unknown or root.
    places: tuple[tuple[str, int], ...]
    units: Mapping[int, float]  # For every angle x the factor u of its pair cos(u x), sin(u x).
    denominators: PolynomialSystem | None  # Polynomials that must not vanish.
    # Eliminated unknowns: factors of other unknowns, and a constant.
    sums: Mapping[int, tuple[Mapping[int, float], float]] = field(default_factory=dict)
    # Eliminated unknowns: factors of variables, by their columns, and a constant.
    lines: Mapping[int, tuple[Mapping[int, float], float]] = field(default_factory=dict)

    @property
    def paths(self) -> int:
        """Product of the degrees of the polynomials: number of paths of the homotopy."""
        return math.prod(self.system.degrees.tolist())

    @cached_property
    def scaled(self) -> tuple[PolynomialSystem, Vector]:
        """The system in scaled variables, and the scales; see :meth:`PolynomialSystem.scaled`."""
        return self.system.scaled()

    def defined(self, points: Complexes) -> npt.NDArray[np.bool_]:
        """Whether no denominator vanishes at points of shape (p, variables)."""
        if self.denominators is None:
            return np.ones(len(points), dtype=np.bool_)
        scales, given = self.scaled[1], self.denominators
        scaled = given.coefficients * np.prod(scales ** given.exponents.astype(np.float64), axis=1)
        scaled = scaled / np.abs(scaled).max(axis=1, keepdims=True)
        x = points / scales
        high = (1.0 + np.abs(x).max(axis=1, initial=0.0))[:, None] ** given.degrees
        values = PolynomialSystem(scaled, given.exponents).values(x)
        return np.asarray((np.abs(values) > 1e-9 * high).all(axis=1))

    def sizes(self, usual: Vector) -> Vector:
        """Sizes of the unknowns, shape (unknowns,): the smaller of ``usual`` and the scales of variables."""
        found = usual.copy()
        for (kind, j), scale in zip(self.places, self.scaled[1], strict=True):
            if kind == "value":
                found[j] = min(found[j], scale)
        return found

    def unknowns(self, points: npt.ArrayLike, near: Vector) -> Vector:
        """Values of the unknowns, shape (p, unknowns), at real points, with angles near given values."""
        # Shapes: points (p, variables), near (unknowns,).
        x = np.asarray(points, dtype=np.float64)
        found = np.tile(near, (len(x), 1))
        columns = {place: column for column, place in enumerate(self.places)}
        for (kind, j), column in columns.items():
            if kind == "value":
                found[:, j] = x[:, column]
            elif kind == "cos":
                angle = np.arctan2(x[:, columns["sin", j]], x[:, column]) / self.units[j]
                found[:, j] = nearest_angle(angle, near[j], self.units[j])
        for j, (slopes, constant) in self.lines.items():
            found[:, j] = constant + sum(slope * x[:, column] for column, slope in slopes.items())
        for j, (slopes, constant) in self.sums.items():
            found[:, j] = constant + sum(slope * found[:, i] for i, slope in slopes.items())
        return found


def nearest_angle(angle: npt.ArrayLike, near: float, unit: float) -> Vector:
    """The angles x nearest to ``near`` for which ``unit`` x equals the given angles up to whole turns."""
    period = 2.0 * math.pi / abs(unit)
    given = np.asarray(angle, dtype=np.float64)
    return np.asarray(given + period * np.round((near - given) / period))


class Reader:
    """Conversion of equations of a model to polynomials in some of the values."""

    def __init__(self, system: ModelJets, roots: Sequence[int], cols: Sequence[int], x: Vector) -> None:
        # Shapes: x (jets,).
        graph: Graph = system.model.graph
        self.graph, self.roots = graph, list(roots)
        self.names = tuple(system.jet_names[j] for j in cols)
        self._number = {Leaf("u", *system.jets[j]): at for at, j in enumerate(cols)}
        order = graph.below(roots)
        self._depends: set[int] = set()
        for node in order:
            if graph.leaves.get(node) in self._number or self._depends.intersection(graph.operands(node)):
                self._depends.add(node)
        inner = {arg for node in self._depends for arg in graph.operands(node)}
        edge = sorted((inner | set(roots)) - self._depends)
        values = graph.numeric(edge, leaf_values(system.place, system.known, x))
        self._known = dict(zip(edge, values.tolist(), strict=True))
        self._sines = [n for n in order if n in self._depends and graph.op[n] in TRIGONOMETRIC]
        self._choices: dict[int, int] = {}
        self._units: dict[int, float] = {}
        self._turns: dict[int, tuple[Mapping[int, float], float]] = {}
        self._read: dict[int, Quotient] = {}
        self._ring = Quotients(len(self.names))
        self._roots_of: list[tuple[int, Polynomial, Polynomial]] = []
        self._sums: dict[int, tuple[dict[int, float], float]] = {}

    # --- angles ---------------------------------------------------------------------------------------------

    def angles(self) -> dict[int, float]:
        """Unknowns that occur only in sines, cosines and tangents, with the factors of their pairs."""
        graph = self.graph
        try:
            units = self._find_units()
        except (NotPolynomialError, _UndecidedError):
            return {}
        outside = [node for node in graph.below(self.roots, known=set(self._sines)) if node in graph.leaves]
        plain = {self._number.get(graph.leaves[node]) for node in outside}
        return {j: unit for j, unit in units.items() if j not in plain}

    def _find_units(self) -> dict[int, float]:
        """For each unknown the largest number of which its factors in sines and cosines are multiples."""
        graph = self.graph
        factors: dict[int, list[float]] = {}
        self._turns = {}
        self._reset()
        for node in self._sines:
            (arg,) = graph.args[node]
            inner = self._depends.intersection(graph.below([arg]))
            if any(graph.op[below] in TRIGONOMETRIC for below in inner):
                raise NotPolynomialError("a sine or cosine of a sine or cosine")
            linear = self._as_sum(self._at(arg))
            if linear is None:
                raise NotPolynomialError("a sine or cosine of more than a sum of angles")
            self._turns[node] = linear
            for j, slope in linear[0].items():
                factors.setdefault(j, []).append(slope)
        return {j: _common_unit(found) for j, found in factors.items()}

    def _as_sum(self, given: Quotient) -> tuple[dict[int, float], float] | None:
        """Factors of unknowns and the constant of a linear expression; None if it is not linear."""
        terms = {monomial: value.real for monomial, value in given.over.items() if monomial}
        if given.under or any(len(m) > 1 or m[0][1] > 1 or m[0][0] >= len(self.names) for m in terms):
            return None
        return {m[0][0]: slope for m, slope in terms.items()}, given.over.get((), 0.0).real

    def _eliminate(self) -> set[int]:
        """Eliminate angles that are sums of others and a constant; numbers of the equations used for it."""
        graph, used = self.graph, set()
        self._sums = {}
        turned = graph.leaves_of(*(graph.args[node][0] for node in self._sines))
        angles = {self._number[leaf] for leaf in turned & self._number.keys()}
        for i, root in enumerate(self.roots):
            inner = [below for below in graph.below([root]) if below in self._depends]
            if not angles or not inner or any(graph.op[below] not in _ARITHMETIC for below in inner):
                continue
            self._reset()
            found = self._as_sum(self._at(root))
            if found is None or not angles & set(found[0]):
                continue
            slopes, constant = found
            pivot = min(slopes, key=lambda j: (abs(slopes[j]), j))
            factor = -1.0 / slopes.pop(pivot)
            new = {j: factor * slope for j, slope in slopes.items()}, factor * constant
            for j, (inside, number) in self._sums.items():
                share = inside.pop(pivot, 0.0)
                for other, slope in new[0].items():
                    inside[other] = inside.get(other, 0.0) + share * slope
                self._sums[j] = {k: v for k, v in inside.items() if v}, number + share * new[1]
            self._sums[pivot] = new
            used.add(i)
        return used

    # --- reading --------------------------------------------------------------------------------------------

    def branches(self, isolated: bool = True) -> Iterator[Polynomials]:
        """The equations as polynomials, once for each combination of branches without a contradiction."""
        count = 0
        open_choices: list[dict[int, int]] = [{}]
        while open_choices:
            self._choices = open_choices.pop()
            try:
                found = self._polynomials(isolated)
            except _UndecidedError as undecided:
                options = reversed(undecided.options)
                open_choices += [{**self._choices, undecided.node: option} for option in options]
                if count + len(open_choices) > MOST_BRANCHES:
                    raise NotPolynomialError(f"more than {MOST_BRANCHES} branches") from None
                continue
            count += 1
            if found is not None:
                yield found

    def _reset(self) -> None:
        self._read, self._roots_of, self._ring = {}, [], Quotients(len(self.names))

    def _polynomials(self, isolated: bool) -> Polynomials | None:
        gone = self._eliminate()
        self._units = self._find_units()
        self._reset()
        rows = [self._at(root).over for i, root in enumerate(self.roots) if i not in gone]
        for k, (q, over, under) in enumerate(self._roots_of):
            rows.append(plus(self._ring.times(under, {((self._root(k), q),): 1.0}), over, -1.0))
        astray = self._units.keys() & variables_of(rows)
        if astray:
            raise NotPolynomialError(
                f"the angle {self.names[min(astray)]} occurs outside of sine and cosine too"
            )
        lines = self._straighten(rows)
        if not all(rows):
            raise NotPolynomialError("an equation that holds whatever the unknowns are")
        if any(set(row) == {()} for row in rows):  # a number other than 0 is to vanish
            return None
        used = variables_of(rows)
        for j in self._units:
            cosine, sine = self._pair(j)
            rows.append({((cosine, 2),): 1.0, ((sine, 2),): 1.0, (): -1.0})
            if cosine in used or sine in used:
                used |= {cosine, sine}
        places: list[tuple[str, int]] = []
        for j in sorted(set(range(len(self.names))) - self._sums.keys() - lines.keys()):
            places += [("cos", j), ("sin", j)] if j in self._units else [("value", j)]
        places += [("root", k) for k in range(len(self._roots_of))]
        columns = {self._variable(*place): column for column, place in enumerate(places)}
        names = tuple(self._name(*place) for place in places)
        for variable, column in columns.items():
            if isolated and variable not in used:
                raise NotPolynomialError(f"nothing depends on {names[column]}")
        straight: dict[int, tuple[dict[int, float], float]] = {}
        for j, line in lines.items():
            slopes = {columns[key[0][0]]: value.real for key, value in line.items() if key}
            straight[j] = slopes, line.get((), 0.0).real
        return Polynomials(
            _system(rows, columns),
            names,
            tuple(places),
            dict(self._units),
            _system(self._ring.factors, columns) if self._ring.factors else None,
            dict(self._sums),
            straight,
        )

    def _straighten(self, rows: list[Polynomial]) -> dict[int, Polynomial]:
        """Eliminate unknowns that are no angles by linear polynomials; returns their expressions."""
        lines: dict[int, Polynomial] = {}
        at = 0
        while at < len(rows):
            row = rows[at]
            own = [key[0][0] for key in row if key and key[0][0] < len(self.names)]
            straight = all(len(key) <= 1 and all(power == 1 for _, power in key) for key in row)
            if not own or not straight or len(variables_of(rows)) == 1:
                at += 1
                continue
            pivot = max(own, key=lambda j: (abs(row[((j, 1),)]), -j))
            factor = row[((pivot, 1),)]
            line = {key: -value / factor for key, value in row.items() if key != ((pivot, 1),)}
            rows[:] = [self._ring.put(other, pivot, line) for other in rows if other is not row]
            self._ring.factors = [self._ring.put(other, pivot, line) for other in self._ring.factors]
            lines = {j: self._ring.put(other, pivot, line) for j, other in lines.items()} | {pivot: line}
            at = 0
        return lines

    def _pair(self, j: int) -> tuple[int, int]:
        n = len(self.names)
        return n + 2 * j, n + 2 * j + 1

    def _root(self, k: int) -> int:
        return 3 * len(self.names) + k

    def _variable(self, kind: str, j: int) -> int:
        if kind == "value":
            return j
        return self._root(j) if kind == "root" else self._pair(j)[kind == "sin"]

    def _name(self, kind: str, j: int) -> str:
        if kind == "value":
            return self.names[j]
        if kind == "root":
            return f"root {j + 1}"
        unit = self._units[j]
        return f"{kind}({self.names[j] if unit == 1.0 else f'{unit:.6g} {self.names[j]}'})"

    def _at(self, node: int) -> Quotient:
        if node not in self._depends:
            value = self._known.get(node, math.nan)
            if not math.isfinite(value):
                raise NotPolynomialError("a term that is not defined at the values found before")
            return Quotient({(): value} if value else {}, {})
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [arg for arg in self._needed(top) if arg in self._depends and arg not in self._read]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if top not in self._read:
                self._read[top] = self._made(top)
        return self._read[node]

    def _needed(self, node: int) -> tuple[int, ...]:
        """Operands that must be read before a node; for a choice those of the selected branch only."""
        op, args = self.graph.op[node], self.graph.args[node]
        if op in TRIGONOMETRIC:
            return ()
        if op in (Op.LT, Op.LE):
            self._chosen(node, (1, 0))
            return ()
        if op in (Op.MIN, Op.MAX):
            return (args[self._chosen(node, (0, 1))],)
        if op is Op.SIGN:
            self._chosen(node, (1, -1, 0))
            return ()
        if op is Op.SELECT:
            if args[0] in self._depends and args[0] not in self._read:
                return (args[0],)
            return (self._selected(node),)
        return self.graph.operands(node)

    def _chosen(self, node: int, options: Sequence[int]) -> int:
        if node not in self._choices:
            raise _UndecidedError(node, options)
        return self._choices[node]

    def _selected(self, node: int) -> int:
        condition, first, second = self.graph.args[node]
        value = self._at(condition)
        if value.under or not set(value.over) <= {()}:
            raise NotPolynomialError("a condition that is no comparison")
        return first if value.over.get((), 0.0) != 0.0 else second

    def _made(self, node: int) -> Quotient:
        graph = self.graph
        op, args = graph.op[node], graph.args[node]
        leaf = graph.leaves.get(node)
        if leaf is not None:
            j = self._number[leaf]
            if j not in self._sums:
                return Quotient({((j, 1),): 1.0}, {})
            slopes, constant = self._sums[j]
            over: Polynomial = {((i, 1),): slope for i, slope in slopes.items()}
            return Quotient(plus(over, {(): constant} if constant else {}), {})
        if op in TRIGONOMETRIC:
            return self._turned(node)
        if op in (Op.LT, Op.LE, Op.SIGN):
            value = self._choices[node]
            return Quotient({(): float(value)} if value else {}, {})
        if op in (Op.MIN, Op.MAX):
            return self._at(args[self._choices[node]])
        if op is Op.SELECT:
            return self._at(self._selected(node))
        first = self._at(args[0])
        if op is Op.NEG:
            return Quotient(plus({}, first.over, -1.0), first.under)
        if op is Op.ABS:
            return Quotient(plus({}, first.over, self._chosen(node, (1, -1))), first.under)
        if op is Op.INTPOW:
            return reduce(self._ring.product, [first] * args[1])
        if op is Op.SQRT:
            return self._rooted(first, Fraction(1, 2))
        if op is Op.POW and args[1] not in self._depends:
            return self._raised(first, self._known[args[1]])
        if op in (Op.ADD, Op.MUL, Op.DIV):
            second = self._at(args[1])
            if op is Op.ADD:
                return self._ring.sum(first, second)
            return self._ring.product(first, second if op is Op.MUL else self._ring.inverse(second))
        raise NotPolynomialError(f"the function {op.numpy.__name__.strip('_')}")

    def _raised(self, base: Quotient, exponent: float) -> Quotient:
        simple = Fraction(exponent).limit_denominator(LARGEST_MULTIPLE)
        if abs(float(simple) - exponent) > 1e-13 or abs(simple) > LARGEST_MULTIPLE:
            raise NotPolynomialError(f"a power with exponent {exponent:g}")
        if simple < 0:
            return self._ring.inverse(self._raised(base, -exponent))
        if simple.denominator > 1:
            return self._rooted(base, simple)
        return reduce(self._ring.product, [base] * simple.numerator, Quotient(dict(UNIT), {}))

    def _rooted(self, base: Quotient, exponent: Fraction) -> Quotient:
        self._roots_of.append((exponent.denominator, base.over, self._ring.denominator(base)))
        variable = self._root(len(self._roots_of) - 1)
        return Quotient({((variable, exponent.numerator),): 1.0}, {})

    def _turned(self, node: int) -> Quotient:
        """Sine, cosine or tangent of a sum of angles, by the product of cos + i sin of its terms."""
        slopes, constant = self._turns[node]
        turned: Polynomial = {(): cmath.exp(1j * constant)}
        for j, slope in slopes.items():
            cosine, sine = self._pair(j)
            times = round(slope / self._units[j])
            part: Polynomial = {((cosine, 1),): 1.0, ((sine, 1),): math.copysign(1.0, times) * 1j}
            for _ in range(abs(times)):
                turned = self._ring.times(turned, part)
        real = {key: value.real + 0j for key, value in turned.items() if value.real}
        imaginary = {key: value.imag + 0j for key, value in turned.items() if value.imag}
        op = self.graph.op[node]
        if op is Op.COS:
            return Quotient(real, {})
        if op is Op.SIN:
            return Quotient(imaginary, {})
        return self._ring.product(Quotient(imaginary, {}), self._ring.inverse(Quotient(real, {})))


def _common_unit(factors: Sequence[float]) -> float:
    """The largest number of which all factors are integer multiples."""
    first = abs(factors[0])
    ratios = [Fraction(abs(factor) / first).limit_denominator(LARGEST_MULTIPLE) for factor in factors]
    for ratio, factor in zip(ratios, factors, strict=True):
        if abs(float(ratio) * first - abs(factor)) > 1e-12 * first or ratio == 0:
            raise NotPolynomialError("angles whose ratio is no simple fraction")
    whole = math.lcm(*(ratio.denominator for ratio in ratios))
    common = Fraction(math.gcd(*(int(ratio * whole) for ratio in ratios)), whole)
    if max(ratios) / common > LARGEST_MULTIPLE:
        raise NotPolynomialError(f"an angle and more than {LARGEST_MULTIPLE} times the angle")
    return first * float(common)


def _system(rows: Sequence[Polynomial], columns: Mapping[int, int]) -> PolynomialSystem:
    monomials = sorted({monomial for row in rows for monomial in row})
    place = {monomial: m for m, monomial in enumerate(monomials)}
    coefficients = np.zeros((len(rows), len(monomials)), dtype=np.complex128)
    exponents = np.zeros((len(monomials), len(columns)), dtype=np.int64)
    for i, row in enumerate(rows):
        for monomial, value in row.items():
            coefficients[i, place[monomial]] = value
    for monomial, m in place.items():
        for variable, power in monomial:
            exponents[m, columns[variable]] = power
    return PolynomialSystem(coefficients, exponents, rounded=True)
