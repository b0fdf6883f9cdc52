"""Systems of polynomials, evaluated at many points at once, and homotopies between them as instructions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError

Complexes = npt.NDArray[np.complex128]
Integers = npt.NDArray[np.int64]

MOST_DEGREE = 10_000  # Highest power of a variable or expression that is accepted.
# Lower bound of the sizes of coordinates of a point of norm 1, the units of derivatives.
SMALLEST_MAGNITUDE = 0.01


def magnitudes(points: Complexes) -> npt.NDArray[np.float64]:
    """Sizes of the coordinates of points of norm 1, at least :data:`SMALLEST_MAGNITUDE`."""
    return np.maximum(np.abs(points), SMALLEST_MAGNITUDE)


class PolynomialSystem:
    r"""Polynomials in the same variables.

    .. math::
        F_i(x) = \sum_m c_{im} \prod_j x_j^{e_{mj}}

    Parameters
    ----------
    coefficients : array_like, shape (k, m)
        Coefficients :math:`c` of all monomials in each of the k polynomials; 0 where one does not occur.
    exponents : array_like of int, shape (m, n)
        Exponents :math:`e` of the n variables in each monomial.
    rounded : bool
        Whether the coefficients are rounded, so that simple solutions into which round-off splits a multiple
        one count as one. Otherwise they are taken to be exact.

    Raises
    ------
    InputError
        If the arrays do not fit together, a coefficient is not finite, or an exponent is negative.

    Examples
    --------
    >>> import sympy as sp
    >>> x, y = sp.symbols("x y")
    >>> system = ds.PolynomialSystem.from_sympy([x**2 + y**2 - 1, x - y], [x, y])
    >>> len(ds.solve_polynomials(system).solutions)
    2
    """

    def __init__(
        self, coefficients: npt.ArrayLike, exponents: npt.ArrayLike, *, rounded: bool = False
    ) -> None:
        try:
            given = np.atleast_2d(np.asarray(coefficients, dtype=np.complex128))
            powers = np.asarray(exponents)
        except (TypeError, ValueError, OverflowError):
            raise InputError("coefficients and exponents of polynomials must be arrays of numbers") from None
        if powers.ndim != 2 or given.ndim != 2 or given.shape[1] != powers.shape[0] or powers.size == 0:
            raise InputError(
                "coefficients of polynomials must have shape (k, m), exponents (m, n); "
                f"got {given.shape} and {powers.shape}"
            )
        if not np.issubdtype(powers.dtype, np.integer) or (powers < 0).any():
            raise InputError("exponents of polynomials must be integers, at least 0")
        if not np.isfinite(given).all():
            row = int(np.flatnonzero(~np.isfinite(given).all(axis=1))[0])
            raise InputError(f"polynomial {row + 1}: a coefficient is not finite")
        table, place = np.unique(powers.astype(np.int64), axis=0, return_inverse=True)
        merged = np.zeros((len(given), len(table)), dtype=np.complex128)
        np.add.at(merged.T, place.reshape(-1), given.T)
        used = (merged != 0.0).any(axis=0)
        used[0] |= not used.any()
        self.coefficients: Complexes = merged[:, used]
        self.exponents: Integers = table[used]
        self.rounded = rounded
        # Exact coefficients minus these doubles and, where that is not 0, the exact ones as SymPy numbers.
        self.remainders: Complexes = np.zeros_like(self.coefficients)
        self.exact: dict[tuple[int, int], Any] = {}

    @classmethod
    def from_sympy(cls, expressions: Sequence[Any], variables: Sequence[Any]) -> PolynomialSystem:
        """The system that sets SymPy expressions in SymPy symbols to 0.

        Parameters
        ----------
        expressions : sequence of sympy.Expr or sympy.Eq
            The polynomials.
        variables : sequence of sympy.Symbol
            The variables, in the order of the columns of points.

        Returns
        -------
        PolynomialSystem
            The system.

        Raises
        ------
        InputError
            If an expression is no polynomial in the variables, or has a coefficient that is no number.
        """
        import sympy

        from dae_sdc.model.sympy_input import sympified

        if not variables or not expressions:
            raise InputError("a polynomial system needs at least one polynomial and one variable")
        terms: list[tuple[int, tuple[int, ...], Any, complex]] = []
        for row, given in enumerate(expressions):
            try:
                expression = sympified(given)
                if isinstance(expression, sympy.Eq):
                    expression = expression.lhs - expression.rhs
                if any(one.exp.is_number and one.exp > MOST_DEGREE for one in expression.atoms(sympy.Pow)):
                    raise InputError(
                        f"expression {row + 1} has a power above {MOST_DEGREE}; none can be followed"
                    )
                floats = expression.atoms(sympy.Float) - {sympy.nan}
                expression = expression.xreplace({number: sympy.Rational(number) for number in floats})
                for powers, value in sympy.Poly(expression, *variables).terms():
                    terms.append((row, powers, value, complex(value)))
            except InputError:
                raise
            except (sympy.PolynomialError, TypeError, ValueError):
                names = ", ".join(map(str, variables))
                raise InputError(
                    f"expression {row + 1}, {given}, is no polynomial in {names} with coefficients "
                    "that are numbers; give values to all other symbols"
                ) from None
        coefficients = np.zeros((len(expressions), len(terms)), dtype=np.complex128)
        for column, (row, _, _, number) in enumerate(terms):
            coefficients[row, column] = number
        system = cls(coefficients, np.array([powers for _, powers, *_ in terms], dtype=np.int64))
        columns = {tuple(powers): k for k, powers in enumerate(system.exponents.tolist())}
        for row, powers, value, number in terms:
            rest = value - sympy.Rational(number.real) - sympy.I * sympy.Rational(number.imag)
            if rest != 0:
                place = row, columns[powers]
                system.exact[place], system.remainders[place] = value, complex(rest.evalf(17))
        return system

    @property
    def equations(self) -> int:
        """Number of polynomials."""
        return int(self.coefficients.shape[0])

    @property
    def variables(self) -> int:
        """Number of variables."""
        return int(self.exponents.shape[1])

    @property
    def degrees(self) -> Integers:
        """Total degree of each polynomial, shape (k,); 0 for the zero polynomial."""
        total = np.where(self.coefficients != 0.0, self.exponents.sum(axis=1), 0)
        return np.asarray(total.max(axis=1))

    @cached_property
    def _table(self) -> tuple[Integers, Complexes]:
        """One table of monomials for the polynomials and all their derivatives, and coefficients in it."""
        rows, columns = self.equations, self.variables
        slopes = map(self._slope, range(columns))
        weights, tables = zip((self.coefficients, self.exponents), *slopes, strict=True)
        table, place = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
        joined = np.zeros((len(table), columns + 1, rows), dtype=np.complex128)
        for j, (weight, at) in enumerate(zip(weights, place.reshape(columns + 1, -1), strict=True)):
            np.add.at(joined[:, j], at, weight.T)
        needed = joined.any(axis=(1, 2))
        return table[needed], joined[needed].reshape(needed.sum(), (columns + 1) * rows)

    def both(self, points: npt.ArrayLike) -> tuple[Complexes, Complexes]:
        """Values, shape (p, k), and Jacobians, shape (p, k, n), at points of shape (p, n)."""
        x = np.asarray(points, dtype=np.complex128)
        table, weights = self._table
        powers = np.ones((int(table.max(initial=0)) + 1, *x.shape), dtype=np.complex128)
        for degree in range(1, len(powers)):
            powers[degree] = powers[degree - 1] * x
        monomials = powers[table[:, 0], :, 0]
        for j in range(1, self.variables):
            monomials = monomials * powers[table[:, j], :, j]
        found = (monomials.T @ weights).reshape(len(x), self.variables + 1, self.equations)
        return found[:, 0], found[:, 1:].transpose(0, 2, 1)

    def values(self, points: npt.ArrayLike) -> Complexes:
        """Values, shape (p, k), at points of shape (p, n)."""
        return self.both(points)[0]

    def jacobian(self, points: npt.ArrayLike) -> Complexes:
        """Jacobians, shape (p, k, n), at points of shape (p, n)."""
        return self.both(points)[1]

    @cached_property
    def _without_signs(self) -> PolynomialSystem:
        return PolynomialSystem(np.abs(self.coefficients), self.exponents)

    def relative(self, points: npt.ArrayLike) -> tuple[Complexes, Complexes]:
        """Values and Jacobians at points of norm 1, relative to the sizes of their terms."""
        # Derivatives are with respect to the variables in units of :func:`magnitudes`, with one unit for all
        # derivatives of a polynomial.
        x = np.asarray(points, dtype=np.complex128)
        values, jacobians = self.both(x)
        scales = magnitudes(x)
        units, gradients = self._without_signs.both(scales)
        lengths = np.linalg.norm(gradients * scales[:, None], axis=2)
        tiny = np.finfo(float).tiny
        scaled = jacobians * scales[:, None] / np.maximum(lengths, tiny)[:, :, None]
        return values / np.maximum(units.real, tiny), scaled

    def derivative(self, variable: int) -> PolynomialSystem:
        """Derivatives of the polynomials with respect to the variable of this column, as a system."""
        return PolynomialSystem(*self._slope(variable))

    def _slope(self, variable: int) -> tuple[Complexes, Integers]:
        """Coefficients and exponents of the derivatives with respect to a variable."""
        lowered = self.exponents.copy()
        lowered[:, variable] = np.maximum(lowered[:, variable] - 1, 0)
        return self.coefficients * self.exponents[:, variable], lowered

    def homogenized(self) -> PolynomialSystem:
        r"""The homogeneous system :math:`x_0^{d_i} F_i(x / x_0)`, with :math:`x_0` as the first variable."""
        return self._homogeneous

    @cached_property
    def _homogeneous(self) -> PolynomialSystem:
        rows, columns = np.nonzero(self.coefficients)  # remainders are 0 elsewhere
        lacking = self.degrees[rows] - self.exponents[columns].sum(axis=1)
        exponents = np.column_stack([lacking, self.exponents[columns]])
        coefficients = np.zeros((self.equations, len(rows)), dtype=np.complex128)
        places = rows, np.arange(len(rows))
        coefficients[places] = self.coefficients[rows, columns]
        if not len(rows):
            return PolynomialSystem(
                np.zeros((self.equations, 1)), np.zeros((1, self.variables + 1), np.int64)
            )
        homogeneous = PolynomialSystem(coefficients, exponents)
        column = {tuple(powers): k for k, powers in enumerate(homogeneous.exponents.tolist())}
        new = [column[tuple(powers)] for powers in exponents.tolist()]
        homogeneous.remainders[rows, new] = self.remainders[rows, columns]
        return homogeneous

    def scaled(self) -> tuple[PolynomialSystem, npt.NDArray[np.float64]]:
        """An equivalent system in x / s with coefficients as near to size 1 as possible, and the scales s."""
        # All factors are powers of 2, so that nothing is rounded. Morgan, Solving polynomial systems using
        # continuation for engineering and scientific problems, Prentice-Hall, 1987, chapter 5.
        rows, columns = np.nonzero(self.coefficients)
        logs = np.log2(np.abs(self.coefficients[rows, columns]))
        matrix = np.zeros((len(rows), self.equations + self.variables))
        matrix[np.arange(len(rows)), rows] = 1.0
        matrix[:, self.equations :] = self.exponents[columns]
        found = np.round(np.linalg.lstsq(matrix, -logs, rcond=None)[0])
        scales = 2.0 ** found[self.equations :]
        factors = np.prod(scales ** self.exponents.astype(np.float64), axis=1)
        largest = np.abs(self.coefficients * factors).max(axis=1, initial=0.0)
        units = 2.0 ** -np.round(np.log2(np.where(largest > 0.0, largest, 1.0)))
        whole = factors * units[:, None]
        # The exponents are those of this system, in the same order, and no monomial is lost.
        even = PolynomialSystem(self.coefficients * whole, self.exponents, rounded=self.rounded)
        even.remainders = self.remainders * whole
        if self.exact:
            from sympy import Rational

            even.exact = {place: value * Rational(whole[place]) for place, value in self.exact.items()}
        return even, scales


UNKNOWN, FINITE, INFINITE = 0, 1, 2  # State of the end of a path.


class Care(NamedTuple):
    """How carefully paths are followed."""

    predictor_tolerance: float  # Largest error of a predictor step, in coordinates of norm 1.
    extended: bool = False  # Whether equations are evaluated in double-double arithmetic.
    # Where coefficients have round-off, Newton's method must return to a regular end from points at this
    # distance; 0 if they are exact, and solutions as near to each other as 1e-9 are told apart.
    displacement: float = 0.0
    most_steps: int = 1000  # Largest number of steps on the way to the endgame.
    # On the straight way to t = 0 the smallest step, below which the endgame takes over, and their number.
    shortest_step_to_end: float = 1e-8
    most_steps_to_end: int = 1000


def norms(points: Complexes) -> Vector:
    """Euclidean norms of the rows, shape (p,)."""
    return np.asarray(np.linalg.norm(points, axis=1))


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
        factors: Sequence[Complexes] = (),
        slices: Complexes | None = None,
        before: Complexes | None = None,
        after: Complexes | None = None,
        exact: bool = False,
    ) -> Homotopy:
        r"""The homotopy from products of linear forms, or powers, and from other slices, at t = 1."""
        # (1 - t) F_i + gamma t G_i = 0 for i < m; L x = 0; ((1 - t) L'_k + gamma t L_k) x = 0.
        # Shapes: degrees (m,), factors (d, n + 1) for each of the last polynomials, slices (k, n + 1).
        size, m = target.variables, target.equations
        own = np.zeros((0, 0), dtype=np.complex128) if after is None else after.reshape(len(after), -1)
        asm = _Assembler(size, own.shape[1])
        coordinates = range(2, 2 + size)
        past, minus = asm.times(asm.number(gamma), asm.t), asm.number(-1.0)
        rows: list[tuple[list[int], int, int]] = []  # The Jacobian, the value, and its change with t.

        def numbers(form: Iterable[complex]) -> list[int]:
            return [asm.number(value) for value in form]

        def at_point(form: Iterable[int]) -> int:
            return asm.sum(zip(form, coordinates, strict=True))

        def joined(end: int, start: int) -> int:
            return asm.plus(asm.now, end, asm.times(past, start))

        def change(end: int, start: int) -> int:
            return asm.plus(asm.number(gamma), start, asm.times(minus, end))

        for i in range(m):
            columns = np.flatnonzero(target.coefficients[i])
            coefficients = (part[i, columns].tolist() for part in (target.coefficients, target.remainders))
            value, slopes = asm.polynomial(
                list(zip(*coefficients, target.exponents[columns].tolist(), strict=True)), size
            )
            start, gradient = 0, [0] * size
            if degrees is not None:
                powers = (degrees[i] * np.eye(size, dtype=np.int64)[[i + 1, 0]]).tolist()
                start, gradient = asm.polynomial([(1.0, 0.0, powers[0]), (-1.0, 0.0, powers[1])], size)
            elif i >= m - len(factors):
                start = 1
                for form in map(numbers, factors[i - m].tolist()):
                    term = at_point(form)
                    gradient = [
                        asm.plus(start, f, asm.times(c, term)) for c, f in zip(gradient, form, strict=True)
                    ]
                    start = asm.times(start, term)
            if start:
                slopes = list(map(joined, slopes, gradient))
                rows.append((slopes, joined(value, start), change(value, start)))
            else:
                rows.append((slopes, value, 0))
        for form in [] if slices is None else map(numbers, slices.tolist()):
            rows.append((form, at_point(form), 0))
        for k, old in enumerate([] if before is None else map(numbers, before.tolist())):
            new = [4 + size + k * size + j for j in range(size)]
            form = list(map(joined, new, old))
            rows.append((form, at_point(form), change(at_point(new), at_point(old))))
        code = np.array(asm.code, dtype=np.int64).reshape(-1, 4)
        constants, remainders = np.array(asm.constants, dtype=np.complex128).T.copy()
        # A copy, because the tracker is compiled for writable arrays.
        moving = np.array(own, dtype=np.complex128, order="C")
        places = (np.array(part, dtype=np.int64) for part in zip(*rows, strict=True))
        equations = Equations(code, constants, remainders, moving, *places)
        forms = after if after is not None else np.zeros((1, 0, size)) if slices is None else slices[None]
        return cls(target, equations, np.asarray(forms, dtype=np.complex128), exact)

    def smallest(self, x: Complexes, which: Integers) -> Vector:
        """Smallest singular values at t = 0 of the relative Jacobian with the patch, for x of norm 1."""
        forms = self.forms[which] if len(self.forms) > 1 else self.forms
        jacobians = with_forms(self.target.relative(x)[1], forms, x)
        patch = x.conj() / magnitudes(x)  # the direction in which homogeneous equations do not change
        patch /= norms(patch)[:, None]
        matrix = np.concatenate([jacobians, patch[:, None]], axis=1)
        return np.asarray(np.linalg.svd(matrix, compute_uv=False)[:, -1], dtype=np.float64)


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

    def jacobians(self, x: Complexes, t: Any, which: Integers, patches: Complexes) -> tuple[Complexes, ...]:
        """Jacobians above the patches at points of paths, and the changes with t above 0."""
        rows = np.ones((len(x), 1))
        own = self.own[which] if len(self.own) else rows[:, :0]
        known = np.hstack([0.0 * rows, rows, x, (1.0 - t) * rows, t * rows, own])
        registers = np.hstack([known, rows * self.constants[known.shape[1] :]])
        for a, b, c, d in self.code:
            registers[:, d] = registers[:, a] * registers[:, b] + registers[:, c]
        matrices = np.concatenate([registers[:, self.jacobian], patches[:, None]], axis=1)
        matrices[~np.isfinite(matrices).all(axis=(1, 2))] = 0.0  # of paths that were left
        return matrices, np.hstack([registers[:, self.changes], 0.0 * rows])[..., None]


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
