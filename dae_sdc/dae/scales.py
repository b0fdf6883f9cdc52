"""Scales of a run: sizes of unknowns and of time, by which quantities of any units are compared, and noise.

Every formula of sizes is covariant: with an unknown, an equation or time in other units, sizes change by the
same factor and nothing else does. Estimates are rounded to a grid that has all powers of two, so that units
which are powers of two change no digit. Noise is what tables, inner iterations or random numbers leave in F
besides round-off.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dae_sdc.dae.linear import superlu
from dae_sdc.dae.state import MeshDAE, Vector, attach

EPS = float(np.finfo(float).eps)

# Size below which only an absolute error counts of an unknown that begins at 0, relative to the one expected
# from the equations; a repeated run may lower it.
FLOOR = 2.0**-7
# The floor of unknowns of index 2 and more, which have larger rounding errors.
FLOOR_OF_MULTIPLIERS = 0.5
# Start value, in units of :attr:`Balance.own`, below which it is a rounding error of 0.
NOISE_OF_START = 2.0**-34
# UNDERFLOW, LEFT_OVER: start values that count as 0: absolute, and relative to the largest one. An iteration
# with many digits leaves such values.
UNDERFLOW = 1e-30
LEFT_OVER = 1e-25
# Size of an unknown, in units of :attr:`Balance.own`, that rounding of other terms hides; no absolute
# tolerance is less.
ROUNDING_OF_TERMS = 2.0**-42
# WRONG_FLOOR, WRONG_FLOOR_MIDWAY: largest value of an unknown in a run, in units of its floor, below which
# the floor was too large and the run is repeated: at the end of a run, and before it.
WRONG_FLOOR = 2.0**-3
WRONG_FLOOR_MIDWAY = 2.0**-7
# Size of an unknown, in units of its absolute tolerance, below which the run has not resolved it.
UNSEEN_SIZE = 10.0
# Part of its value in an earlier run with larger floors that a value must keep to count as no error.
LASTING_PART = 0.5
# Smallest ratio of a lowered floor to the one before: values with a wrong floor may be too small.
LARGEST_CHANGE_OF_FLOOR = 2.0**-14
MOST_RETURNS = 3  # Largest number of times that a run is repeated.
# Least ratio of the rates of change of the solution in one step and in the step before.
KEPT_RATE = 0.5
# Least number of times that the solution is taken to change by its size in the interval.
LEAST_CHANGES = 1.0
# Part of the interval that is the scale of time where nothing else determines one.
FIRST_PART = 0.125
# Longest scale of time, in units of the interval: noise of the equations could suggest any.
LONGEST_TIME = 16.0


class Scales:
    r"""Sizes of the unknowns and of time in one run.

    The size of an unknown is the largest value it has had so far, and at least a floor: where it begins at 0,
    a part of the size at which its terms are as large as the other terms of their equations,

    .. math::
        |M_{kj}| s_j / \tau \approx |K_{kj}| s_j \approx r_k, \qquad M = dF/du', \quad K = dF/du,

    for all nonzero entries at the start, in the least squares of logarithms.

    References
    ----------
    A. R. Curtis, J. K. Reid, On the automatic scaling of matrices for Gaussian elimination, IMA J. Appl.
    Math. 10 (1972) 118.
    """

    # Shapes: nominal (n,), unknowns (n,), expected (n,), rates (n,), nominal (n,), seen (n,), errors (n,),
    # hidden (n,), moves (n,).

    def __init__(self, nominal: Any, index: tuple[int, ...]) -> None:
        n, self.running = len(index), nominal is None
        self._multipliers = np.array(index) > 1
        self._parts = np.where(self._multipliers, FLOOR_OF_MULTIPLIERS, FLOOR)
        sizes = np.empty(n)
        sizes[:] = 1.0 if nominal is None else nominal
        self.unknowns, self.expected, self.rates = sizes.copy(), sizes.copy(), sizes.copy()
        self.nominal = sizes
        self.time, self.rate, self.begun = 1.0, 1.0, False
        self.least_rate = 0.0
        self.returns = 0
        self.errors, self.moves = np.zeros(n), np.zeros(n)
        self.seen, self.watched = np.zeros(n), False
        self._floors, self._least, self.hidden = np.zeros(n), np.zeros(n), np.zeros(n)
        self._earlier = np.zeros(n)
        self._learned, self._zero = np.full(n, np.nan), np.zeros(n, dtype=bool)
        self.before = np.zeros(n)  # sizes in the arcs of the run before this one

    def begin(self, u0: Vector, balance: Balance, rtol: float) -> None:
        """Take the start of a run."""
        # Shapes: u0 (n,).
        time, expected = balance.time, balance.sizes
        self.time, self.rate, self.begun = time, 1.0 / time, True
        self.errors[:] = 0.0
        if not self.running:
            np.divide(self.unknowns, time, out=self.rates)
            return
        self.expected[:] = expected
        sizes, known = np.maximum(np.abs(u0), self.before), balance.known | (self.before > 0.0)
        floors = np.where(known, 0.0, self._parts * expected)
        learned = np.isfinite(self._learned)
        floors[learned] = self._learned[learned]
        # Below that an unknown is nothing but rounding of the other terms of its equations.
        self._least[:] = min(1.0, ROUNDING_OF_TERMS / rtol) * balance.own
        # Values that rounding of other terms hides count as 0.
        self.hidden[:] = ROUNDING_OF_TERMS * balance.own
        np.maximum(floors, self._least, out=self._floors)
        np.maximum(sizes, self._floors, out=self.unknowns)
        self._zero[:] = ~known
        self.seen[:], self.watched = sizes, bool(self._zero.any())
        np.divide(np.maximum(self.unknowns, expected), time, out=self.rates)

    def look_back(self, end: Vector, rtol: float, ended: bool) -> tuple[bool, tuple[int, ...]]:
        """Decide at the end of a run, or before, whether its floors are too large."""
        # Shapes: end (n,).
        if not (self.running and self.watched):
            return False, ()
        seen = np.maximum(self.seen, np.abs(end))
        lost = self._zero & (seen <= UNSEEN_SIZE * rtol * self._floors)
        part = WRONG_FLOOR if ended else WRONG_FLOOR_MIDWAY
        # Small multipliers may be nothing but the error of what they multiply, magnified by short steps.
        wrong = self._zero & ~self._multipliers & (np.maximum(seen, self._least) < part * self._floors)
        # A value below its tolerance may be noise; it lowers a floor only once.
        wrong &= ~lost | ((self.returns == 0) & (seen > self._least))
        if wrong.any() and self.returns < MOST_RETURNS:
            self.returns += 1
            self._earlier[:] = seen
            least = LARGEST_CHANGE_OF_FLOOR * self._floors
            self._learned[wrong] = np.maximum(seen, least)[wrong]
            return True, ()
        # An error falls with the floor by which it was measured, a value stays.
        reported = lost & (seen > self.hidden) & (seen > LASTING_PART * self._earlier)
        return False, tuple(np.flatnonzero(reported).tolist())

    def raise_floors(self, there: Scales, rtol: float) -> bool:
        """Whether floors are too small for a run that has failed, by those of one that begins there."""
        # One that has moved from 0 may decide what becomes of the solution.
        rests = self._zero & (self.seen <= np.maximum(self._floors, UNSEEN_SIZE * rtol * there._floors))
        small = rests & (there._floors > self.unknowns)
        if not small.any() or self.returns >= MOST_RETURNS:
            return False
        self.returns += 1
        self._learned[small] = there._floors[small]
        return True

    def without_hidden(self, u: MeshDAE, there: Scales) -> MeshDAE:
        """A state with 0 for what began at 0 and is but rounding beside the terms of another start."""
        hidden = self._zero & (np.abs(u.view(np.ndarray)) <= there._least)
        return attach(np.where(hidden, 0.0, u.view(np.ndarray)), u.n_diff)

    def twin(self) -> Scales:
        """The same sizes for another run."""
        twin = copy.copy(self)
        vars(twin).update({name: x.copy() for name, x in vars(self).items() if isinstance(x, np.ndarray)})
        return twin

    def get_state(self) -> dict[str, Any]:
        """State on which later steps depend, by name, for a checkpoint."""
        return {name: np.array(vars(self)[name]) for name in KEPT}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """Restore what :meth:`get_state` gave, to the last bit."""
        for name in _NUMBERS:
            setattr(self, name, kept[name].item())
        for name in _ARRAYS:
            vars(self)[name][:] = kept[name]  # others know the array


_NUMBERS = ("time", "rate", "least_rate", "begun", "returns", "watched")
_ARRAYS = tuple("unknowns expected rates seen errors _floors _least hidden _earlier _learned _zero".split())
KEPT = _NUMBERS + _ARRAYS  # Attributes of :class:`Scales` that change in a run.

# WEIGHT_OF_SIZES, WEIGHT_OF_TIME: weights in the least squares of two preferences, for sizes that nothing
# determines to be near 1, and for time to be near a part of the interval.
WEIGHT_OF_SIZES = 1e-12
WEIGHT_OF_TIME = 1e-5
SMALLEST_TERM = 2.0**-30  # Part of the largest term of an equation below which another is ignored.
LARGEST_DENSE_ORDER = 400  # Order up to which the normal equations are solved as a dense matrix.
GRID_OF_SIZES = 2.0**20  # Number of steps in a factor of two to which estimates are rounded.
# Time scale of an equation, in units of that of the slowest, below which it counts as algebraic.
FASTEST_EQUATION = 2.0**-40
# Times that the least squares are solved, each without the terms that were too small in the last.
LEAST_SQUARES_ROUNDS = 3
BALANCING_ROUNDS = 30  # Times that rows and columns of a matrix are balanced.


def _entries(matrix: Any) -> tuple[Any, Any, Vector]:
    """Rows, columns and values of the entries of a matrix."""
    if sparse.issparse(matrix):
        triples = sparse.coo_array(matrix)
        return triples.row, triples.col, triples.data
    rows, columns = np.nonzero(matrix)
    return rows, columns, matrix[rows, columns]


class Terms(NamedTuple):
    """Nonzero terms of linearised equations, T of them."""

    # rows, columns: shape (T,). Equation and unknown; column -1 for a constant.
    rows: Any
    columns: Any
    entries: Vector  # Shape (T,). Absolute values of the coefficients, or of the constant.
    derivatives: Any  # Shape (T,). Whether the coefficient multiplies u' rather than u.

    @classmethod
    def of(cls, mass: Any, stiffness: Any, constants: Vector) -> Terms:
        """Terms from the halves of a Jacobian and constants."""
        # Shapes: mass and stiffness (n, n), constants (n,).
        some, of_rates = np.flatnonzero(constants), _entries(mass)
        of_constants = some, np.full(len(some), -1), constants[some]
        parts = zip(of_rates, _entries(stiffness), of_constants, strict=True)
        rows, columns, values = map(np.concatenate, parts)
        entries, derivatives = np.abs(values), np.arange(len(rows)) < len(of_rates[0])
        used = entries > 0.0
        return cls(rows[used], columns[used], entries[used], derivatives[used])


class Balance(NamedTuple):
    """Sizes with which the terms of every equation are of one size."""

    sizes: Vector  # Shape (n,). Of the unknowns.
    known: Any  # Shape (n,). Which sizes are those of start values.
    # Shape (n,). Least size at which a term of the unknown is as large as the largest other term of an
    # equation, with the sizes above; 0 where it is alone. Below it the unknown does not matter.
    own: Vector
    time: float  # Scale of time.

    @classmethod
    def unknown(cls, u0: Vector, span: float) -> Balance:
        """The balance from the start and the interval alone."""
        time = float(rounded(np.log2(FIRST_PART * span)))
        return cls(np.abs(u0), np.ones(len(u0), dtype=bool), np.zeros(len(u0)), time)


def balanced(matrix: Vector) -> tuple[Vector, Vector]:
    """Powers of two for rows, (n,), and columns, (m,); divided by them, all have largest entries of about 1.

    References
    ----------
    D. Ruiz, A scaling algorithm to equilibrate both rows and columns norms in matrices, RAL-TR-2001-034.
    """
    # Shapes: matrix (n, m).
    entries = np.abs(matrix)
    factors = [np.ones(size) for size in entries.shape]
    for _ in range(BALANCING_ROUNDS):
        changed = False
        for axis, factor in enumerate(factors):
            largest = entries.max(axis=1 - axis, initial=0.0)
            largest[largest == 0.0] = 1.0
            share = np.exp2(np.round(np.log2(largest) * (0.5 if axis == 0 else 1.0)))
            factor *= share
            entries /= share[:, None] if axis == 0 else share
            changed = changed or bool((share != 1.0).any())
        if not changed:
            break
    return factors[0], factors[1]


def rounded(logarithm: Any) -> Any:
    """2 to the power of ``logarithm``, rounded to a fine grid that has all powers of two."""
    with np.errstate(over="ignore"):
        return np.exp2(np.round(GRID_OF_SIZES * logarithm) / GRID_OF_SIZES)


def zeros(u0: Vector) -> Any:
    """Which start values count as 0, see :data:`UNDERFLOW`; bool, shape (n,)."""
    sizes = np.abs(u0)
    return sizes <= max(UNDERFLOW, LEFT_OVER * float(sizes.max(initial=0.0)))


def balanced_sizes(terms: Terms, u0: Vector, span: float, reach: Vector | None = None) -> Balance:
    r"""Sizes of unknowns and time with which the terms of every equation are of one size."""
    # Shapes: u0 (n,), reach (n,).
    n = len(u0)
    sizes = np.abs(u0)
    given = known = ~zeros(u0)
    bounded = np.zeros(n, dtype=bool) if reach is None else np.isfinite(reach)
    if reach is not None:
        sizes, known = np.where(bounded, np.maximum(sizes, reach), sizes), known | bounded
    prior = float(np.log2(FIRST_PART * span))
    while True:
        logs, theta, lost = _least_squares(terms, n, sizes, known, prior)
        result = np.where(known, sizes, rounded(logs))
        time = float(rounded(min(theta, np.log2(LONGEST_TIME * span))))
        own = _own_sizes(terms, n, result, time)
        # Where all terms of an unknown are far smaller than others, it may be so large that one matters.
        result = np.where(lost & (own > 0.0), own, result)
        # A start found by an iteration has rounding for zeros, far below what its equations say.
        noise = known & ~bounded & (sizes < NOISE_OF_START * own)
        if not noise.any():
            # Beyond its reach the equations are others, which rounding beside these terms says nothing of.
            own = np.where(bounded, np.minimum(own, sizes), own)
            return Balance(result, known & (given | ~bounded), own, time)
        known = known & ~noise


def _least_squares(
    terms: Terms, n: int, sizes: Vector, known: Any, prior: float
) -> tuple[Vector, float, Any]:
    """Logarithms to base 2 of the sizes and of the scale of time, and which sizes no term determines."""
    free = np.flatnonzero(~known)
    count = len(free)
    place = np.full(n + 1, -1)
    place[free] = np.arange(count)
    fixed = np.zeros(n + 1)
    fixed[:n][known] = np.log2(sizes[known])
    logs = np.log2(terms.entries) + fixed[terms.columns]
    of_column = place[terms.columns]
    size = count + n
    # Each term is one row: of its equation, of its unknown where that is free, and of time where it is u'.
    equations, unknowns = count + terms.rows, np.maximum(of_column, 0)
    is_free = (of_column >= 0).astype(np.float64)
    rows = np.concatenate([np.arange(size), equations, equations, unknowns, unknowns])
    columns = np.concatenate([np.arange(size), equations, unknowns, equations, unknowns])
    of_time = np.where(terms.derivatives, -1.0, 0.0)
    weight = np.where(_fast(terms, n, sizes, known), 0.0, 1.0)
    for _ in range(LEAST_SQUARES_ROUNDS):
        # Time, which all equations share, is eliminated first: the rest is as sparse as the equations.
        part = weight * is_free
        right = 0.0 - np.bincount(equations, weight * logs, size) - np.bincount(unknowns, part * logs, size)
        border = np.bincount(equations, weight * of_time, size) + np.bincount(unknowns, part * of_time, size)
        entries = np.concatenate([np.full(size, WEIGHT_OF_SIZES), weight, part, part, part])
        sides = np.array([right, border]).T
        if size <= LARGEST_DENSE_ORDER:
            normal = np.bincount(rows * size + columns, entries, size * size).reshape(size, size)
            whole, with_time = np.linalg.solve(normal, sides).T
        else:
            normal = sparse.csc_array((entries, (rows, columns)), shape=(size, size))
            whole, with_time = superlu(normal).solve(sides).T
        own_time = WEIGHT_OF_TIME + weight @ of_time**2
        right_of_time = WEIGHT_OF_TIME * prior - (weight * of_time) @ logs
        theta = float((right_of_time - border @ whole) / (own_time - border @ with_time))
        x = whole - theta * with_time
        term = logs + x[equations] + is_free * x[unknowns] + theta * of_time
        largest = np.full(n, -np.inf)
        np.maximum.at(largest, terms.rows, term)
        smaller = (term < largest[terms.rows] + np.log2(SMALLEST_TERM)) & (weight > 0.0)
        if not smaller.any():
            break
        weight[smaller] = 0.0
    logs_of_all = np.zeros(n)
    logs_of_all[free] = x[:count]
    determined = np.bincount(terms.columns + 1, weight, n + 1)[1:] > 0.0
    return logs_of_all, theta, ~known & ~determined


def _fast(terms: Terms, n: int, sizes: Vector, known: Any) -> Any:
    """Which derivatives are in equations so fast that they count as algebraic, as by noise; shape (T,)."""
    values = terms.entries * np.append(sizes, 1.0)[terms.columns]
    open_ = np.append(~known, False)[terms.columns]
    unsure = np.bincount(terms.rows, open_, n) > 0.0
    parts = np.zeros((2, n))
    np.maximum.at(parts, (terms.derivatives.astype(int), terms.rows), values)
    some = (parts > 0.0).all(axis=0) & ~unsure
    times = np.divide(parts[1], parts[0], out=np.full(n, np.inf), where=some)
    slowest = times[some].max(initial=0.0)
    return terms.derivatives & (times < FASTEST_EQUATION * slowest)[terms.rows]


def _own_sizes(terms: Terms, n: int, sizes: Vector, time: float) -> Vector:
    """Sizes :attr:`Balance.own`, shape (n,)."""
    entries = terms.entries / np.where(terms.derivatives, time, 1.0)
    with_constant = np.append(sizes, 1.0)
    values = entries * with_constant[terms.columns]
    first, second, where = np.zeros(n), np.zeros(n), np.full(n, -2)
    np.maximum.at(first, terms.rows, values)
    largest = values == first[terms.rows]
    where[terms.rows[largest]] = terms.columns[largest]
    of_others = where[terms.rows] != terms.columns
    np.maximum.at(second, terms.rows[of_others], values[of_others])
    others = np.where(where[terms.rows] == terms.columns, second[terms.rows], first[terms.rows])
    limits = np.full(n + 1, np.inf)
    counts = others > 0.0
    with np.errstate(over="ignore"):
        np.minimum.at(limits, terms.columns[counts], others[counts] / entries[counts])
    return np.where(np.isfinite(limits[:n]), limits[:n], 0.0)


NOISE_INTERVALS = 7  # Number of equal intervals of the line along which F is evaluated.
# Length of an interval relative to the sizes of the unknowns: smooth parts vanish in its third power.
NOISE_SPACING = 1e-6
NOISE_SHIFT = 1e-3  # Relative change of the unknowns by which the sizes of the terms of F are estimated.
NOISE_LOOKS = 4  # Number of directions of such changes: along one, terms may cancel.
# Largest ratio of the levels by differences of three successive orders at which they agree.
LEVEL_AGREEMENT = 4.0
SIGN_BALANCE = 0.01  # Least ratio of the largest differences of both signs.
# Level, relative to the terms of F, in units of eps, above which it is more than round-off.
LEAST_NOISE = 30.0


class Noise(NamedTuple):
    """Noise of a residual."""

    # Level in units of the change of F with a relative change of its arguments, the largest of all
    # equations.
    relative: float
    absolute: Vector  # Shape (n,). Level in every equation, as a standard deviation.


def measured_noise(problem: Any, u: Vector, du: Vector, t: float) -> Noise | None:
    """The noise of F at a point, from differences of high order along a line.

    References
    ----------
    J. More, S. Wild, Estimating computational noise, SIAM J. Sci. Comput. 33 (2011) 1292 (ECNoise).
    """
    # Shapes: u and du (n,).
    known = problem.run_scales
    scales = [np.maximum(known.expected, np.abs(u)), np.maximum(known.expected / known.time, np.abs(du))]
    numbers = np.arange(1.0, 2.0 * problem.n + 1.0).reshape(2, problem.n)

    def residual(distance: float, look: int = 0) -> Vector:
        # The same directions in every run.
        moved = np.array([u, du]) + distance * np.cos((look + 1.0) * numbers) * scales
        return np.array(problem.evaluate(*moved, t))

    absolute = np.full(problem.n, np.inf)
    # Noise is on both sides of the point, and a jump nearby on one of them.
    for sign in (1.0, -1.0):
        rows = np.array([residual(sign * NOISE_SPACING * i) for i in range(NOISE_INTERVALS + 1)])
        if not np.isfinite(rows).all():
            return None
        np.minimum(absolute, _level(rows), out=absolute)
        if not absolute.any():
            return None
    changes = [(residual(NOISE_SHIFT, look) - rows[0]) / NOISE_SHIFT for look in range(NOISE_LOOKS)]
    # Cosines have the mean square 1/2.
    terms = np.sqrt(2.0 * np.mean(np.square(changes), axis=0)) + np.abs(rows[0])
    if not np.isfinite(terms).all():
        return None
    absolute[absolute <= LEAST_NOISE * EPS * terms] = 0.0
    relative = float((absolute / np.maximum(terms, np.finfo(float).tiny)).max())
    return Noise(relative, absolute) if relative > 0.0 else None


def _level(rows: Vector) -> Vector:
    """Standard deviation of the noise in every column of equidistant values, 0 where there is none."""
    levels, signs, table = [], [], rows
    for k in range(1, NOISE_INTERVALS):
        table = np.diff(table, axis=0)
        factor = factorial(k) ** 2 / factorial(2 * k)
        levels.append(np.sqrt(factor * np.mean(np.square(table), axis=0)))
        # A jump at the first of the values leaves one large difference, and slopes besides.
        signs.append(
            np.minimum(table.max(axis=0), -table.min(axis=0)) > SIGN_BALANCE * np.abs(table).max(axis=0)
        )
    level = np.zeros(rows.shape[1])
    for k in range(len(levels) - 2):
        three = np.array(levels[k : k + 3])
        agree = signs[k] & (three.max(axis=0) <= LEVEL_AGREEMENT * three.min(axis=0)) & (level == 0.0)
        level[agree] = levels[k][agree]
    return level
