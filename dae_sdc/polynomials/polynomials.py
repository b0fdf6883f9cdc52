"""Systems of polynomials with complex coefficients, evaluated at many points at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.errors import InputError

Complexes = npt.NDArray[np.complex128]
Integers = npt.NDArray[np.int64]

MOST_DEGREE = 10_000  # Highest power of a variable or expression that is accepted.
# Lower bound of the sizes of coordinates of a point of norm 1, the units of derivatives.
SMALLEST_MAGNITUDE = 0.01


def magnitudes(points: Complexes) -> npt.NDArray[np.float64]:
    """Sizes of the coordinates of points of norm 1, at least :data:`SMALLEST_MAGNITUDE`."""
    return np.maximum(np.abs(points), SMALLEST_MAGNITUDE)


def _rational(value: complex) -> Any:
    """A complex double as an exact number of SymPy."""
    import sympy

    return sympy.Rational(value.real) + sympy.I * sympy.Rational(value.imag)


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
        self._prepare()

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
        terms: list[tuple[int, tuple[int, ...], complex]] = []
        exact: dict[tuple[int, tuple[int, ...]], Any] = {}
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
                    nearest = complex(value)
                    terms.append((row, powers, nearest))
                    rational = all(part.is_Rational for part in value.as_real_imag())
                    if not (rational and value == _rational(nearest)):
                        exact[row, powers] = value
            except InputError:
                raise
            except (sympy.PolynomialError, TypeError, ValueError):
                names = ", ".join(map(str, variables))
                raise InputError(
                    f"expression {row + 1}, {given}, is no polynomial in {names} with coefficients "
                    "that are numbers; give values to all other symbols"
                ) from None
        coefficients = np.zeros((len(expressions), len(terms)), dtype=np.complex128)
        for column, (row, _, value) in enumerate(terms):
            coefficients[row, column] = value
        found = cls(coefficients, np.array([powers for _, powers, _ in terms], dtype=np.int64))
        columns = {tuple(powers): k for k, powers in enumerate(found.exponents.tolist())}
        for (row, powers), value in exact.items():
            place = row, columns[powers]
            found.exact[place] = value
            found.remainders[place] = complex((value - _rational(found.coefficients[place])).evalf(17))
        return found

    def _prepare(self) -> None:
        """Make one table of monomials for the polynomials and all their derivatives."""
        rows, columns = self.coefficients.shape[0], self.exponents.shape[1]
        tables, weights = [self.exponents], [np.zeros((0, 0), dtype=np.complex128)] * (columns + 1)
        weights[0] = self.coefficients
        for j in range(columns):
            lowered = self.exponents.copy()
            lowered[:, j] = np.maximum(lowered[:, j] - 1, 0)
            tables.append(lowered)
            weights[j + 1] = self.coefficients * self.exponents[:, j]
        table, place = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
        places = place.reshape(columns + 1, -1)
        joined = np.zeros((len(table), columns + 1, rows), dtype=np.complex128)
        for j, weight in enumerate(weights):
            np.add.at(joined[:, j], places[j], weight.T)
        needed = joined.any(axis=(1, 2))
        self._table = table[needed]
        self._weights = joined[needed].reshape(-1, (columns + 1) * rows)
        self._highest = int(self._table.max(initial=0))

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
        found: Integers = total.max(axis=1)
        return found

    def both(self, points: npt.ArrayLike) -> tuple[Complexes, Complexes]:
        """Values and Jacobians at many points.

        Parameters
        ----------
        points : array_like, shape (p, n)
            The points.

        Returns
        -------
        values : ndarray, shape (p, k)
            Values of the polynomials.
        jacobians : ndarray, shape (p, k, n)
            Their derivatives.
        """
        x = np.asarray(points, dtype=np.complex128)
        powers = np.ones((self._highest + 1, *x.shape), dtype=np.complex128)
        for degree in range(1, self._highest + 1):
            powers[degree] = powers[degree - 1] * x
        monomials = powers[self._table[:, 0], :, 0]
        for j in range(1, self.variables):
            monomials = monomials * powers[self._table[:, j], :, j]
        found = (monomials.T @ self._weights).reshape(len(x), self.variables + 1, self.equations)
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
        """Values and Jacobians relative to the sizes of their terms.

        Parameters
        ----------
        points : array_like, shape (p, n)
            Points of norm 1.

        Returns
        -------
        values : ndarray, shape (p, k)
            Values of the polynomials.
        jacobians : ndarray, shape (p, k, n)
            Their derivatives with respect to the variables in units of :func:`magnitudes`, with one unit for
            all derivatives of a polynomial.
        """
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
        lowered = self.exponents.copy()
        lowered[:, variable] = np.maximum(lowered[:, variable] - 1, 0)
        return PolynomialSystem(self.coefficients * self.exponents[:, variable], lowered)

    def homogenized(self) -> PolynomialSystem:
        r"""The homogeneous system :math:`x_0^{d_i} F_i(x / x_0)`, with :math:`x_0` as the first variable."""
        rows, columns = np.nonzero(self.coefficients)  # remainders are 0 elsewhere
        lacking = self.degrees[rows] - self.exponents[columns].sum(axis=1)
        exponents = np.column_stack([lacking, self.exponents[columns]])
        coefficients = np.zeros((self.equations, len(rows)), dtype=np.complex128)
        places = rows, np.arange(len(rows))
        coefficients[places] = self.coefficients[rows, columns]
        found = PolynomialSystem(coefficients, exponents)
        column = {tuple(powers): k for k, powers in enumerate(found.exponents.tolist())}
        new = [column[tuple(powers)] for powers in exponents.tolist()]
        found.remainders[rows, new] = self.remainders[rows, columns]
        return found

    def scaled(self) -> tuple[PolynomialSystem, npt.NDArray[np.float64]]:
        r"""An equivalent system whose coefficients are as near to size 1 as scaling allows.

        Returns
        -------
        system : PolynomialSystem
            The system in the variables :math:`y_j = x_j / s_j`, times a factor for each polynomial.
        scales : ndarray, shape (n,)
            Scales :math:`s_j`. All factors are powers of 2, so that nothing is rounded.

        References
        ----------
        Morgan, Solving polynomial systems using continuation for engineering and scientific problems,
        Prentice-Hall, 1987, chapter 5.
        """
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
