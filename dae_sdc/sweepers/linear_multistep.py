"""Linear multistep methods as records: coefficients, orders for DAEs, source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb, factorial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dae_sdc.registry import Registry
from dae_sdc.sweepers.amplification import LinearStep
from dae_sdc.sweepers.tableaux import DEFECT_TOLERANCE, Array, MethodRecord, Orders, require_least

# Numbers of orders that may be given at each index; at index 0 one, or two (positions and velocities).
GROUPS: Mapping[int, tuple[int, ...]] = MappingProxyType({0: (1, 2), 1: (2,), 2: (2,), 3: (3,)})
EQUAL_ROOTS = 1e-6  # Distance up to which a root is taken to lie on the unit circle, and two roots to be one.


@dataclass(frozen=True, eq=False)
class MultistepMethod(MethodRecord):
    r"""A linear multistep method with k steps, newest values first.

    .. math::
        \sum_{j=0}^{k} \alpha_j u_{n-j} = \Delta t \sum_{j=0}^{k} \beta_j u'_{n-j}, \qquad
        F(t_n, u_n, u'_n) = 0

    Parameters
    ----------
    name : str
        Name in the registry, lower case with hyphens.
    class_name : str
        Name of the sweeper class that is made from the record.
    alpha, beta : array_like, shape (k + 1,)
        Coefficients of the values and of the derivatives.
    order : int
        Order on ordinary differential equations.
    orders : mapping of int to tuple
        Order of the global error at fixed dt from accurate starting values: at index 0 of all unknowns (or of
        positions and velocities), on DAEs in Hessenberg form of index 1, 2 (y, z) and 3 (position, velocity,
        multiplier of a constrained mechanical system). Methods that use derivatives of the past are for
        index 0 alone.
    reference : str
        Author, title, year and place of the coefficients.

    Raises
    ------
    InputError
        If the coefficients contradict each other, have not the order they are said to have, or are not
        zero-stable.

    References
    ----------
    E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, 2nd ed., 1993, Sect. III.2
    and III.3.

    Examples
    --------
    >>> method = ds.MULTISTEP["bdf3"]
    >>> method.order
    3
    """

    kind = "multistep method"
    parts = "0 to (y,), 1 and 2 to (y, z), 3 to (position, velocity, multiplier)"

    name: str
    class_name: str
    alpha: Array
    beta: Array
    order: int
    orders: Orders
    reference: str

    def __post_init__(self) -> None:
        for label in ("alpha", "beta"):
            object.__setattr__(self, label, self._array(label, getattr(self, label)))
        object.__setattr__(self, "orders", MappingProxyType(dict(self.orders)))
        self._check_names()
        self._check_coefficients()
        self._check_convergence()
        self._check_orders()

    @property
    def stages(self) -> int:
        """Number of values that a step solves for: 1."""
        return 1

    @property
    def stiffly_accurate(self) -> bool:
        """Whether the end of a step satisfies the equations; True for every multistep method."""
        return True

    @property
    def steps(self) -> int:
        """Number of steps k: how many past values it takes."""
        return len(self.alpha) - 1

    @property
    def explicit(self) -> bool:
        """Whether the new value does not depend on its own derivative."""
        return not self.beta[0]

    @cached_property
    def uses_slopes(self) -> bool:
        """Whether derivatives of the past enter, which only ordinary differential equations determine."""
        return bool(self.beta[1:].any())

    @cached_property
    def linear_step(self) -> LinearStep | None:
        """What a step does with errors of the past; None for methods of ordinary differential equations."""
        return None if self.uses_slopes else LinearStep.of_multistep(self.alpha, self.beta)

    @cached_property
    def error_constant(self) -> float:
        r"""C in the local error C dt^(p+1) u^(p+1), for coefficients normed by sum beta = 1."""
        p = self.order + 1
        j = -np.arange(self.steps + 1.0)
        defect = self.alpha @ j**p / factorial(p) - self.beta @ j ** (p - 1) / factorial(p - 1)
        return float(defect / self.beta.sum())

    def growth(self, z: complex) -> complex:
        """Factor by which a step multiplies the solution of u' = lambda u, where z = lambda dt.

        Parameters
        ----------
        z : complex
            Rate times step size.

        Returns
        -------
        complex
            The root of the characteristic polynomial that is nearest to exp(z), its exact value.
        """
        roots = self.roots(z)
        return complex(roots[np.abs(roots - np.exp(z)).argmin()])

    def roots(self, z: complex) -> NDArray[np.complex128]:
        """All roots of the characteristic polynomial at z = lambda dt; at z = 0 they show zero-stability."""
        return np.roots(self.alpha - z * self.beta).astype(np.complex128)

    def _check_coefficients(self) -> None:
        alpha, beta = self.alpha, self.beta
        if alpha.ndim != 1 or alpha.size < 2 or alpha.shape != beta.shape:
            raise self._error(
                f"alpha and beta must have the same shape (k + 1,) with k at least 1; "
                f"got {alpha.shape} and {beta.shape}"
            )
        if not alpha[0]:
            raise self._error("alpha[0] is 0; the new value has no equation")
        if not (alpha[-1] or beta[-1]):
            raise self._error("alpha and beta both end in 0; leave the oldest step out")

    def _defect(self, power: int) -> float:
        """Defect of the formula for u = t^power, relative to the size of its terms."""
        j = -np.arange(float(len(self.alpha)))
        values = self.alpha * j**power
        slopes = power * self.beta * j ** max(power - 1, 0)
        return float(abs(values.sum() - slopes.sum()) / (np.abs(values).sum() + np.abs(slopes).sum()))

    def _check_convergence(self) -> None:
        if self.order < 1:
            raise self._error(f"the order must be at least 1; got {self.order}")
        for power in range(self.order + 1):
            defect = self._defect(power)
            if defect > DEFECT_TOLERANCE:
                raise self._error(f"it misses order {self.order}: t^{power} has a defect of {defect:.1e}")
        if self._defect(self.order + 1) <= DEFECT_TOLERANCE:
            raise self._error(f"its order is higher than {self.order}")
        roots = self.roots(0.0)
        outside = np.abs(roots).max()
        if outside > 1.0 + EQUAL_ROOTS:
            raise self._error(f"it is not zero-stable: a root of alpha has modulus {outside:.3g}")
        circle = roots[np.abs(roots) > 1.0 - EQUAL_ROOTS]
        apart = np.abs(circle[:, None] - circle) + np.eye(len(circle))
        if (apart <= EQUAL_ROOTS).any():
            raise self._error("it is not zero-stable: alpha has a double root on the unit circle")

    def _check_orders(self) -> None:
        for index, expected in self.orders.items():
            self._check_order(index, expected, GROUPS.get(index, ()))
            if index > 0 and self.uses_slopes:
                raise self._error(f"orders at index {index}: with derivatives of the past it is for index 0")


_HAIRER = "E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, 2nd ed., 1993"

MULTISTEP: Registry[MultistepMethod] = Registry("multistep method")  # All methods by name.


def _integrals(points: Sequence[int]) -> list[Fraction]:
    """Integrals from -1 to 0 of the Lagrange polynomials of integer points."""
    moments = np.array([Fraction((-1) ** i, i + 1) for i in range(len(points))])
    integrals = []
    for point in points:
        polynomial = np.array([Fraction(1)])  # lowest power first
        for other in points:
            if other != point:
                factor = Fraction(-other, point - other), Fraction(1, point - other)
                polynomial = np.convolve(polynomial, factor)
        integrals.append(np.dot(polynomial, moments))
    return integrals


def bdf(k: int) -> MultistepMethod:
    """The backward differentiation formula with k steps, order k; zero-stable up to k = 6."""
    # On DAEs of index 1, 2 and 3 all components have order k at fixed dt. The multiplier of index 3 has one
    # less in the first steps of the formula, as long as it reaches back to starting values of another method.
    # K. E. Brenan, S. L. Campbell, L. R. Petzold, Numerical Solution of Initial-Value Problems in
    # Differential-Algebraic Equations, SIAM (1996), Sect. 3.2. E. Hairer, G. Wanner, Solving Ordinary
    # Differential Equations II, 2nd ed., 1996, Sect. VII.3.
    require_least("backward differentiation formulas", k, 1, "{} step")
    # The sum over m = 1 ... k of the m-th backward difference divided by m.
    alpha = [sum([Fraction((-1) ** j * comb(m, j), m) for m in range(1, k + 1)]) for j in range(k + 1)]
    coefficients = np.array(alpha, dtype=np.float64), np.eye(1, k + 1)[0]
    orders = {0: (k, k), 1: (k, k), 2: (k, k), 3: (k, k, k)}
    reference = f"{_HAIRER}, Sect. III.1, eq. (1.22'); C. F. Curtiss, J. O. Hirschfelder (1952)"
    return MultistepMethod(f"bdf{k}", f"BDF{k}DAE", *coefficients, k, orders, reference)


def _adams(name: str, class_name: str, beta: list[Fraction], order: int, equation: str) -> MultistepMethod:
    """The Adams method with these coefficients of the derivatives."""
    coefficients = np.array([1.0, -1.0] + [0.0] * (len(beta) - 2)), np.array(beta, dtype=np.float64)
    orders, reference = {0: (order, order)}, f"{_HAIRER}, Sect. III.1, eq. {equation}"
    return MultistepMethod(name, class_name, *coefficients, order, orders, reference)


def adams_bashforth(k: int) -> MultistepMethod:
    """The explicit Adams method with k steps, order k; with one step it is the explicit Euler method."""
    require_least("Adams-Bashforth methods", k, 1, "{} step")
    beta = [Fraction(0), *_integrals(range(-1, -k - 1, -1))]
    names = f"adams-bashforth-{k}", f"AdamsBashforth{k}ODE"
    return _adams(*(names if k > 1 else ("explicit-euler", "ExplicitEulerODE")), beta, k, "(1.5)")


def adams_moulton(order: int) -> MultistepMethod:
    """The implicit Adams method with order - 1 steps; order 2, the least, is the trapezoidal rule."""
    require_least("Adams-Moulton methods with a past", order, 2, "order {}")
    beta = _integrals(range(0, -order, -1))
    return _adams(f"adams-moulton-{order}", f"AdamsMoulton{order}ODE", beta, order, "(1.8)")


for _method in (
    *(bdf(_k) for _k in range(1, 7)),
    *(adams_bashforth(_k) for _k in range(1, 5)),
    *(adams_moulton(_k) for _k in range(2, 5)),
):
    MULTISTEP.add(_method.name, _method)
