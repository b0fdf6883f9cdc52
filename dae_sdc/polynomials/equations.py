"""Homotopies between systems of homogeneous polynomials, as instructions for the compiled tracker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.polynomials.polynomials import Complexes, Integers, PolynomialSystem, magnitudes

UNKNOWN, FINITE, INFINITE = 0, 1, 2  # State of the end of a path.


class EndgameOptions(NamedTuple):
    """Settings of the endgame, which follows a path on ever smaller circles around t = 0."""

    # Predictor tolerance on circles, in units of that elsewhere times the speed of the path with respect to
    # log t: other branches of the path are about as far away as it moves.
    predictor_factor: float = 300.0
    samples: int = 12  # Number of points on a circle, for Cauchy's integral.
    most_steps_per_sample: int = 60  # Largest number of steps between two points of a circle.
    radius_ratio: float = 0.2  # Radius of a circle in units of the one before.
    # circles, first_circle: number of the last and of the first circle; larger ones often enclose other
    # branch points than t = 0.
    circles: int = 12
    first_circle: int = 3
    # more_turns, most_turns: turns that a path may take on the first circle, and more on each further one;
    # and the largest number.
    more_turns: int = 6
    most_turns: int = 24
    # A loop is closed when all coordinates are back to this distance, relative to how far they moved.
    closing: float = 1e-3
    # Difference of the ends computed on two circles at which no smaller circle is needed.
    agreement: float = 1e-9
    # Largest difference of the ends computed on two circles at which the end is known.
    accepted_difference: float = 1e-5
    largest_value: float = 1e-11  # Largest size of the polynomials, with coefficients of size 1, at an end.
    # Largest difference of the power of t with which the first coordinate vanishes, as measured from circle
    # to circle, from the power given by its winding number.
    growth_tolerance: float = 0.01
    # Mean of the first coordinate over a circle, relative to its largest value there, that counts as 0.
    vanishing_mean: float = 1e-8
    smallest_t: float = 1e-24  # Value of t to which a path is followed to tell nearby solutions apart.


class TrackerOptions(NamedTuple):
    """Settings of the path tracker. Lengths are in coordinates of norm 1, steps relative to the whole way."""

    endgame_start: float = 0.05  # Homotopy parameter t at which the endgame begins.
    # Smallest step on the way to the endgame, where paths can come very near to each other.
    shortest_step: float = 1e-10
    # Smallest step on the straight way to t = 0, below which the endgame takes over.
    shortest_step_to_end: float = 1e-4
    # most_steps, most_steps_to_end: largest numbers of steps on the way to the endgame, and straight to t =
    # 0.
    most_steps: int = 1000
    most_steps_to_end: int = 60
    # A point counts as on the path when the second Newton correction is smaller than this.
    newton_correction_tolerance: float = 1e-8
    newton_noise: float = 1e-7  # Round-off of a Newton correction near singular ends.
    # Ratio of pivots of the Jacobian up to which an end counts as regular without a further check.
    regular_pivot_ratio: float = 1e6
    displacement: float = 1e-11  # Newton's method must return to a regular end from points at this distance.
    vanishing_coordinate: float = 1e-20  # Lower bound of the first coordinate of a finite end.
    endgame: EndgameOptions = EndgameOptions()  # Settings of the endgame.


class Care(NamedTuple):
    """How carefully paths are followed."""

    predictor_tolerance: float  # Largest error of a predictor step, in coordinates of norm 1.
    extended: bool = False  # Whether equations are evaluated in double-double arithmetic.
    # Where coefficients have round-off, Newton's method must return to a regular end from points at this
    # distance; 0 if they are exact, and solutions as near to each other as 1e-9 are told apart.
    displacement: float = 0.0
    # Settings of the tracker.
    options: TrackerOptions = TrackerOptions(shortest_step_to_end=1e-8, most_steps_to_end=1000)


def norms(points: Complexes) -> Vector:
    """Euclidean norms of the rows, shape (p,)."""
    found: Vector = np.linalg.norm(points, axis=1)
    return found


@dataclass(frozen=True, eq=False)
class Homotopy:
    """A homotopy to a system of homogeneous polynomials and linear forms."""

    target: PolynomialSystem  # The polynomials at t = 0, in n + 1 homogeneous coordinates.
    equations: Equations  # All equations, for the compiled tracker.
    # Shape (1 or p, k, n + 1). Linear forms at t = 0: common to all paths, or one set for each path.
    forms: Complexes
    # Whether the coefficients are exact, so that solutions near each other are different.
    exact: bool = False

    @classmethod
    def to(
        cls,
        target: PolynomialSystem,
        gamma: complex = 1.0,
        *,
        degrees: Integers | None = None,
        factors: Complexes | None = None,
        slices: Complexes | None = None,
        before: Complexes | None = None,
        after: Complexes | None = None,
        exact: bool = False,
    ) -> Homotopy:
        r"""The homotopy of m polynomials, followed by linear forms.

        .. math::
            (1 - t) F_i + \gamma t G_i = 0, \quad i < m; \qquad L x = 0; \qquad
            ((1 - t) L'_k + \gamma t L_k) x = 0
        """
        # Shapes: degrees (m,), factors (d, n + 1), slices (k, n + 1).
        size, m = target.variables, target.equations
        own = np.zeros((0, 0), dtype=np.complex128) if after is None else after.reshape(len(after), -1)
        asm = _Assembler(size, own.shape[1])
        coordinates = range(2, 2 + size)
        past, minus = asm.times(asm.number(gamma), asm.t), asm.number(-1.0)
        jacobian, values, changes = [], [], []

        def linear(form: Iterable[complex]) -> list[int]:
            return [asm.number(value) for value in form]

        for i in range(m):
            columns = np.flatnonzero(target.coefficients[i])
            value, slopes = asm.polynomial(
                [
                    (complex(target.coefficients[i, k]), complex(target.remainders[i, k]), powers)
                    for k, powers in zip(columns.tolist(), target.exponents[columns].tolist(), strict=True)
                ],
                size,
            )
            start, change = 0, [0] * size
            if degrees is not None:
                terms = [(1.0, 0.0, [0] * size), (-1.0, 0.0, [0] * size)]
                for place, (_, _, powers) in zip((i + 1, 0), terms, strict=True):
                    powers[place] = int(degrees[i])
                start, change = asm.polynomial(terms, size)
            elif factors is not None and i == m - 1:
                start = 1
                for form in map(linear, factors.tolist()):
                    term = asm.sum(zip(form, coordinates, strict=True))
                    change = [
                        asm.plus(start, f, asm.times(c, term)) for c, f in zip(change, form, strict=True)
                    ]
                    start = asm.times(start, term)
            if start:
                jacobian.append(
                    [asm.plus(asm.now, a, asm.times(past, b)) for a, b in zip(slopes, change, strict=True)]
                )
                values.append(asm.plus(asm.now, value, asm.times(past, start)))
                changes.append(asm.plus(asm.number(gamma), start, asm.times(minus, value)))
            else:
                jacobian.append(slopes)
                values.append(value)
                changes.append(0)
        for form in [] if slices is None else map(linear, slices.tolist()):
            jacobian.append(form)
            values.append(asm.sum(zip(form, coordinates, strict=True)))
            changes.append(0)
        if before is not None:
            for k, old in enumerate(map(linear, before.tolist())):
                new = [4 + size + k * size + j for j in range(size)]
                form = [asm.plus(asm.now, a, asm.times(past, b)) for a, b in zip(new, old, strict=True)]
                jacobian.append(form)
                values.append(asm.sum(zip(form, coordinates, strict=True)))
                ends = asm.sum(zip(new, coordinates, strict=True))
                begins = asm.sum(zip(old, coordinates, strict=True))
                changes.append(asm.plus(asm.number(gamma), begins, asm.times(minus, ends)))
        constants = np.array(asm.constants, dtype=np.complex128)
        equations = Equations(
            code=np.array(asm.code, dtype=np.int64).reshape(-1, 4),
            constants=constants[:, 0].copy(),
            remainders=constants[:, 1].copy(),
            own=np.array(
                own, dtype=np.complex128, order="C"
            ),  # a copy, because the tracker is compiled for writable arrays
            jacobian=np.array(jacobian, dtype=np.int64),
            values=np.array(values, dtype=np.int64),
            changes=np.array(changes, dtype=np.int64),
        )
        forms = after if after is not None else np.zeros((1, 0, size)) if slices is None else slices[None]
        return cls(target, equations, np.asarray(forms, dtype=np.complex128), exact)

    def smallest(self, x: Complexes, which: Integers) -> Vector:
        """Smallest singular values at t = 0 of the relative Jacobian with the patch, for x of norm 1."""
        forms = self.forms[which] if len(self.forms) > 1 else self.forms
        jacobians = with_forms(self.target.relative(x)[1], forms, x)
        patch = x.conj() / magnitudes(x)  # the direction in which homogeneous equations do not change
        patch /= norms(patch)[:, None]
        matrix = np.concatenate([jacobians, patch[:, None]], axis=1)
        found = np.asarray(np.linalg.svd(matrix, compute_uv=False)[:, -1], dtype=np.float64)
        return found


def with_forms(jacobians: Complexes, forms: Complexes, points: Complexes) -> Complexes:
    """Relative Jacobians at points of norm 1, stacked on the linear forms, which are scaled to norm 1."""
    scaled = forms * magnitudes(points)[:, None]
    scaled = scaled / np.linalg.norm(scaled, axis=2, keepdims=True)
    return np.concatenate([jacobians, scaled], axis=1)


class Equations(NamedTuple):
    """A homotopy as instructions (a, b, c, d), register d = a b + c, of complex numbers."""

    # The registers are 0; 1; the n + 1 homogeneous coordinates; 1 - t; t; the path's own numbers; constants;
    # results.

    code: Any  # Shape (m, 4). The instructions.
    # constants, remainders: shape (registers,). Initial contents of all registers, and their rounding
    # errors, for double-double arithmetic.
    constants: Any
    remainders: Any
    own: Any  # Shape (p, k). Numbers of each path; no rows if there are no such numbers.
    # jacobian, values, changes: registers of the Jacobian, the values, and the derivatives with respect to
    # t.
    jacobian: Any
    values: Any
    changes: Any


class _Assembler:
    """Builds the instructions; a product that occurs twice is computed once."""

    def __init__(self, size: int, own: int) -> None:
        self.now, self.t = 2 + size, 3 + size
        self.constants: list[tuple[complex, complex]] = [(0j, 0j)] * (4 + size + own)
        self.constants[1] = (1.0 + 0j, 0j)
        self.code: list[tuple[int, int, int, int]] = []
        self._known: dict[tuple[int, int], int] = {}
        self._numbers: dict[tuple[complex, complex], int] = {(0j, 0j): 0, (1.0 + 0j, 0j): 1}

    def number(self, value: complex, rest: complex = 0j) -> int:
        key = (complex(value), complex(rest))
        if key not in self._numbers:
            self._numbers[key] = len(self.constants)
            self.constants.append(key)
        return self._numbers[key]

    def plus(self, a: int, b: int, c: int) -> int:
        """Register of a b + c."""
        if a == 0 or b == 0:
            return c
        if c == 0:
            return self.times(a, b)
        self.code.append((a, b, c, len(self.constants)))
        self.constants.append((0j, 0j))
        return len(self.constants) - 1

    def times(self, a: int, b: int) -> int:
        if 0 in (a, b):
            return 0
        if 1 in (a, b):
            return a if b == 1 else b
        key = (min(a, b), max(a, b))
        if key not in self._known:
            self._known[key] = len(self.constants)
            self.code.append((a, b, 0, len(self.constants)))
            self.constants.append((0j, 0j))
        return self._known[key]

    def power(self, a: int, exponent: int) -> int:
        found = 1
        for _ in range(exponent):
            found = self.times(found, a)
        return found

    def sum(self, pairs: Iterable[tuple[int, int]]) -> int:
        total = 0
        for a, b in pairs:
            total = self.plus(a, b, total)
        return total

    def polynomial(
        self, terms: Sequence[tuple[complex, complex, Sequence[int]]], size: int
    ) -> tuple[int, list[int]]:
        """Registers of a polynomial and of its derivatives, from coefficients and exponents."""
        value, slopes = 0, [0] * size
        for number, rest, exponents in terms:
            used = [j for j, e in enumerate(exponents) if e]
            powers = [self.power(2 + j, exponents[j]) for j in used]
            ahead = [1]
            for one in powers:
                ahead.append(self.times(ahead[-1], one))
            value = self.plus(self.number(number, rest), ahead[-1], value)
            behind = 1
            for place in range(len(used) - 1, -1, -1):
                j, e = used[place], exponents[used[place]]
                rest_of = self.times(self.times(ahead[place], behind), self.power(2 + j, e - 1))
                slopes[j] = self.plus(self.number(e * number, e * rest), rest_of, slopes[j])
                behind = self.times(behind, powers[place])
        return value, slopes
