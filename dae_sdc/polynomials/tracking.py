"""Paths of solutions of polynomial equations that depend on a parameter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.state import Vector
from dae_sdc.polynomials.path_ends import INFINITE, UNKNOWN
from dae_sdc.polynomials.polynomials import Complexes, Integers, PolynomialSystem, magnitudes
from dae_sdc.polynomials.pool import run_jobs

Booleans = npt.NDArray[np.bool_]

ATTEMPTS = ((1e-5, False), (1e-7, False), (1e-8, True))
"""Errors of a predictor that are allowed, in coordinates of norm 1, and whether in double-double arithmetic:
the first time that a path is followed, and the next times."""

NUDGE = 1e-6
"""Distance within which solutions of equations with round-off in their coefficients are not told apart."""

TOGETHER = 128
"""Paths that make one job for a process."""

SURELY_REGULAR = 1e-4
"""Smallest singular value of the relative Jacobian at an end that no two paths have, despite round-off."""

SAME = 1e-5
"""Distance of two ends, in units of 1 + their size, that makes them one solution."""

SAME_EXACT = 1e-13
"""The same for simple solutions of equations that are exact."""

FAR = 1e-6
"""First coordinate of a point of norm 1 that lies too far away for sections."""


class Equations(NamedTuple):
    """A homotopy as instructions for registers of complex numbers.

    The registers are 0; 1; the n + 1 homogeneous coordinates; 1 - t; t; numbers of each path; constants;
    results. The instruction (a, b, c, d) is: register d = a b + c.

    Parameters
    ----------
    code : ndarray of int, shape (m, 4)
        The instructions.
    constants, remainders : ndarray, shape (registers,)
        First contents of all registers, and what they lack in the precision of doubles.
    own : ndarray, shape (p, k)
        Numbers of each path; no rows if there are none.
    jacobian, values, changes : ndarray of int, shapes (n, n + 1), (n,), (n,)
        Registers of the Jacobian, the values, and the derivatives with respect to t.
    """

    code: Any
    constants: Any
    remainders: Any
    own: Any
    jacobian: Any
    values: Any
    changes: Any


class _Assembler:
    """Writes the instructions; a product that is needed twice is computed once."""

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


class TrackerOptions(NamedTuple):
    """Settings of the path tracker and of its endgame. Lengths are in coordinates of norm 1.

    Parameters
    ----------
    early : float
        Homotopy parameter t at which the endgame begins.
    shortest : float
        Smallest step, as a part of the way; paths can come very near to each other.
    shortest_to_the_end : float
        The same on the straight way to t = 0, where the endgame does better.
    most_steps, most_steps_to_the_end, most_steps_around : int
        Steps on the way to the endgame; straight to t = 0; and between two points of a circle.
    settled : float
        Second Newton correction with which a point counts as on the path.
    noise : float
        Round-off of a Newton correction near singular ends.
    separate : float
        Predictor error that is allowed on circles, in units of that on the way times the velocity of the path
        with respect to log t: other branches of the path are about as far away as it moves.
    samples : int
        Points on a circle around t = 0, for Cauchy's integral.
    shrink : float
        Radius of a circle in units of the one before.
    circles, begin : int
        Number of the last and of the first circle; larger ones often enclose other branch points than t = 0.
    first_turns, most_turns : int
        Times that a path may go round the first circle, and this more on each one; and at all.
    back : float
        Distance of a coordinate from where it began that means that it is back, in units of how far it went.
    agreed : float
        Difference of the ends by two circles with which no smaller one is needed.
    accepted : float
        The same with which the end is known at all.
    holds : float
        Size of the polynomials, with coefficients of size 1, at ends.
    growth : float
        Difference of the power of t with which the first coordinate vanishes, measured from circle to circle,
        from the one that its turns around 0 tell.
    vanished : float
        Mean of the first coordinate over a circle that is 0, in units of its largest value there.
    deepest : float
        Value of t to which the end of a path is followed to tell near solutions apart.
    surely_regular : float
        Ratio of pivots of the Jacobian up to which an end is regular without more ado.
    aside : float
        Distance from other ends, from where Newton's method must lead back to a regular one.
    """

    early: float = 0.05
    shortest: float = 1e-10
    shortest_to_the_end: float = 1e-4
    most_steps: int = 1000
    most_steps_to_the_end: int = 60
    most_steps_around: int = 60
    settled: float = 1e-8
    noise: float = 1e-7
    separate: float = 300.0
    samples: int = 12
    shrink: float = 0.2
    circles: int = 12
    begin: int = 3
    first_turns: int = 6
    most_turns: int = 24
    back: float = 1e-3
    agreed: float = 1e-9
    accepted: float = 1e-5
    holds: float = 1e-11
    growth: float = 0.01
    vanished: float = 1e-8
    deepest: float = 1e-24
    surely_regular: float = 1e6
    aside: float = 1e-11


OPTIONS = TrackerOptions()

CAREFUL = OPTIONS._replace(shortest_to_the_end=1e-8, most_steps_to_the_end=1000)
"""Settings with which a path is followed again."""


def sizes(points: Complexes) -> Vector:
    """Largest coordinates."""
    found: Vector = np.abs(points).max(axis=1, initial=0.0)
    return found


def norms(points: Complexes) -> Vector:
    """Euclidean norms."""
    found: Vector = np.linalg.norm(points, axis=1)
    return found


@dataclass(frozen=True, eq=False)
class Homotopy:
    """A homotopy to a system of homogeneous polynomials and linear forms.

    Parameters
    ----------
    target : PolynomialSystem
        The polynomials at t = 0, in n + 1 homogeneous coordinates.
    equations : Equations
        All equations, for the compiled tracker.
    forms : ndarray, shape (1 or p, k, n + 1)
        Linear forms at t = 0, the same for all paths or those of each.
    exact : bool
        Whether the coefficients are those of the user, so that solutions near each other may be told apart.
    """

    target: PolynomialSystem
    equations: Equations
    forms: Complexes
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
        r"""The homotopy from these parts; m polynomials come first, then linear forms.

        .. math::
            (1 - t) F_i + \gamma t G_i = 0, \quad i < m; \qquad L x = 0; \qquad
            ((1 - t) L'_k + \gamma t L_k) x = 0

        Parameters
        ----------
        target : PolynomialSystem
            The polynomials F, in n + 1 homogeneous coordinates.
        gamma : complex
            A random number of size 1.
        degrees : ndarray of int, shape (m,), optional
            Degrees d of :math:`G_i = x_{i+1}^d - x_0^d`. If neither these nor factors are given, the
            polynomials do not depend on t.
        factors : ndarray, shape (d, n + 1), optional
            Linear forms whose product is G of the last polynomial, the only one that depends on t.
        slices : ndarray, shape (k, n + 1), optional
            Linear forms that do not depend on t.
        before, after : ndarray, shapes (k, n + 1) and (p, k, n + 1), optional
            Linear forms at t = 1, and at t = 0 for each path.
        exact : bool
            Whether the coefficients are those of the user.

        Returns
        -------
        Homotopy
            The homotopy.
        """
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
            own=np.ascontiguousarray(own, dtype=np.complex128),
            jacobian=np.array(jacobian, dtype=np.int64),
            values=np.array(values, dtype=np.int64),
            changes=np.array(changes, dtype=np.int64),
        )
        forms = after if after is not None else np.zeros((1, 0, size)) if slices is None else slices[None]
        return cls(target, equations, np.asarray(forms, dtype=np.complex128), exact)

    def smallest(self, x: Complexes, which: Integers) -> Vector:
        """Smallest singular values at t = 0 of the relative Jacobian with the patch through x, of norm 1."""
        forms = self.forms[which] if len(self.forms) > 1 else self.forms
        jacobians = with_forms(self.target.relative(x)[1], forms, x)
        patch = x.conj() / magnitudes(x)  # the direction in which nothing changes
        patch /= norms(patch)[:, None]
        matrix = np.concatenate([jacobians, patch[:, None]], axis=1)
        found = np.asarray(np.linalg.svd(matrix, compute_uv=False)[:, -1], dtype=np.float64)
        return found


def with_forms(jacobians: Complexes, forms: Complexes, points: Complexes) -> Complexes:
    """Relative Jacobians at points of norm 1, and below them the linear forms of each, scaled to norm 1."""
    scaled = forms * magnitudes(points)[:, None]
    scaled = scaled / np.linalg.norm(scaled, axis=2, keepdims=True)
    return np.concatenate([jacobians, scaled], axis=1)


class _Batch(NamedTuple):
    """Paths that one process follows."""

    homotopy: Homotopy
    starts: Complexes
    which: Integers
    close: float
    extended: bool
    options: TrackerOptions


class Ends(NamedTuple):
    """Ends of paths.

    Parameters
    ----------
    points : ndarray, shape (p, n + 1)
        Homogeneous coordinates of norm 1.
    state : ndarray of int, shape (p,)
        :data:`UNKNOWN`, :data:`FINITE`, or :data:`INFINITE` where the endgame has proved it.
    regular : ndarray of bool, shape (p,)
        Whether the Jacobian has an inverse at a finite end.
    smallest : ndarray, shape (p,)
        Smallest singular values of the Jacobian at regular ends, otherwise 0.
    steps, retracked : int
        Number of steps of all paths together, and of paths that were followed again.
    """

    points: Complexes
    state: Integers
    regular: Booleans
    smallest: Vector
    steps: int
    retracked: int = 0

    @property
    def known(self) -> Booleans:
        """Which paths have an end."""
        found: Booleans = self.state != UNKNOWN
        return found

    @property
    def infinite(self) -> Booleans:
        """Which ends are at infinity."""
        found: Booleans = self.state == INFINITE
        return found

    @property
    def far(self) -> Booleans:
        """Which ends are at infinity, or too far away to go on from there."""
        near = np.abs(self.points[:, 0]) > np.where(self.regular, FAR, 10.0 * FAR)
        found: Booleans = self.infinite | (self.known & ~near)
        return found


def groups_of(points: Complexes, distance: float = SAME) -> list[Integers]:
    """Numbers of the points that are the same: their distance is at most so many units of 1 + their size."""
    left = np.arange(len(points))
    groups: list[Integers] = []
    while left.size:
        centre = points[left[0]]
        same = sizes(points[left] - centre) <= distance * (1.0 + float(np.abs(centre).max()))
        groups.append(left[same])
        left = left[~same]
    return groups


def _jumped(ends: Complexes, simple: Integers, distance: float) -> Integers:
    """Numbers of simple ends that more than one path has, which can only be by leaving one's own."""
    if simple.size == 0:
        return simple
    # Points on the sphere are the same up to a factor, which a general linear function takes away.
    general = np.exp(1j * np.arange(ends.shape[1]) ** 2)
    turned = ends[simple] / (ends[simple] @ general)[:, None]
    doubtful = [simple[group] for group in groups_of(turned, distance) if group.size > 1]
    return np.concatenate(doubtful) if doubtful else simple[:0]


def _follow(batch: _Batch) -> Ends:
    from dae_sdc.dae.compiling import compiled_lightly
    from dae_sdc.polynomials.paths import follow_paths

    homotopy, count = batch.homotopy, len(batch.starts)
    shape = batch.starts.shape
    ends, remainders = np.zeros(shape, dtype=np.complex128), np.zeros(shape, dtype=np.complex128)
    state, turns = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    regular, smallest = np.zeros(count, dtype=np.bool_), np.zeros(count)
    arguments = (
        homotopy.equations,
        batch.options,
        np.ascontiguousarray(batch.starts),
        np.asarray(batch.which, dtype=np.int64),
        batch.close,
        batch.extended,
        0.0 if homotopy.exact else NUDGE,
        ends,
        remainders,
        state,
        regular,
        turns,
    )
    steps = compiled_lightly(follow_paths, *arguments)(*arguments)
    found = state != UNKNOWN
    ends[found] /= norms(ends[found])[:, None]
    smallest[regular] = homotopy.smallest(ends[regular], batch.which[regular])
    return Ends(ends, state, regular, smallest, int(steps))


def follow(
    homotopy: Homotopy,
    starts: Complexes,
    *,
    workers: int = 1,
    comm: Any = None,
    attempts: int = len(ATTEMPTS),
) -> Ends:
    """Ends of all paths; lost ones, and those with the simple end of another, are followed more carefully.

    Parameters
    ----------
    homotopy : Homotopy
        The equations; path k is number k of theirs.
    starts : ndarray, shape (p, n + 1)
        Solutions at t = 1, in homogeneous coordinates.
    workers : int
        Number of processes that share the paths.
    comm : mpi4py.MPI.Comm, optional
        Communicator whose ranks share the paths.
    attempts : int
        Times that a path is followed, the last ones with more care: see :data:`ATTEMPTS`.

    Returns
    -------
    Ends
        The ends, where t = 0.
    """
    count = len(starts)
    ends, smallest = np.zeros_like(starts), np.zeros(count)
    state, regular = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    todo, retracked, steps = np.arange(count), 0, 0
    for attempt, (close, extended) in enumerate(ATTEMPTS[:attempts]):
        if todo.size == 0:
            break
        retracked += todo.size if attempt else 0
        options = CAREFUL if attempt else OPTIONS
        parts = np.array_split(todo, -(-todo.size // TOGETHER))
        jobs = [_Batch(homotopy, starts[part], part, close, extended, options) for part in parts]
        for part, done in zip(parts, run_jobs(_follow, jobs, workers=workers, comm=comm), strict=True):
            ends[part], state[part], regular[part], smallest[part] = done[:4]
            steps += done.steps
        alone = regular if homotopy.exact else regular & (smallest > SURELY_REGULAR)
        shared = _jumped(ends, np.flatnonzero(alone), SAME_EXACT if homotopy.exact else SAME)
        todo = np.union1d(np.flatnonzero(state == UNKNOWN), shared)
    state[todo] = UNKNOWN
    return Ends(ends, state, regular, smallest, steps, retracked)
