"""Runge-Kutta methods as records: coefficients, orders for DAEs, source. A new method is one new record."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial.legendre import Legendre, legint, legval, legvander
from numpy.typing import ArrayLike, NDArray

from dae_sdc.errors import InputError
from dae_sdc.registry import Registry
from dae_sdc.sweepers.amplification import LinearStep

Array = NDArray[np.float64]

# Largest defect of an order condition; row sums, end point and stiff accuracy are held to a tenth of it.
DEFECT_TOLERANCE = 1e-12


class MethodRecord:
    """A method described by its coefficients, which checks itself when it is made."""

    kind: ClassVar[str] = "method"
    parts: ClassVar[str]  # The parts of a solution that have an order of their own, by index, for messages.

    name: str
    class_name: str
    reference: str

    def __reduce__(self) -> tuple[object, ...]:
        # Through the constructor, as arrays forget in a pickle that they are read-only.
        record: Any = self  # a dataclass
        values = (getattr(self, field.name) for field in fields(record))
        plain = (dict(value) if isinstance(value, MappingProxyType) else value for value in values)
        return type(self), tuple(plain)

    def sweeper(self, base: type[Any], **attributes: Any) -> type[Any]:
        """The class of sweepers by this method, a subclass of one in whose module it is known by its name."""
        doc = f"{self.kind.removesuffix('method')}sweeper '{self.name}': {self.reference}"
        attributes |= {"method": self, "__doc__": doc, "__module__": base.__module__}
        return type(self.class_name, (base,), attributes)

    def _check_order(self, index: int, expected: tuple[int | None, ...], counts: Sequence[int]) -> None:
        """Refuse orders at an index that are not one for each part of a solution, or not positive."""
        if len(expected) not in counts:
            raise self._error(f"orders must map {self.parts}; got {index}: {expected}")
        if min([order for order in expected if order is not None], default=1) < 1:
            raise self._error(f"orders at index {index} must be positive or None; got {expected}")

    def _error(self, message: str) -> InputError:
        return InputError(f"{self.kind} '{self.name}': {message}")

    def _array(self, label: str, value: ArrayLike) -> Array:
        """Coefficients as a read-only array of finite numbers."""
        try:
            array = np.array(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise self._error(f"{label} is not an array of numbers") from None
        if not np.isfinite(array).all():
            raise self._error(f"{label} has entries that are not finite")
        array.setflags(write=False)
        return array

    def _check_names(self) -> None:
        if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise self._error("name must be lower-case words and numbers joined by hyphens")
        if not self.class_name.isidentifier():
            raise self._error(f"class_name must be a Python identifier; got '{self.class_name}'")
        if not self.reference.strip():
            raise self._error("reference must say where the coefficients come from")


Orders = Mapping[int, tuple[int | None, ...]]

# The components that have an order of their own, for each index in Hessenberg form.
COMPONENTS: Mapping[int, tuple[str, ...]] = MappingProxyType(
    {1: ("y", "z"), 2: ("y", "z"), 3: ("position", "velocity", "multiplier")}
)


@dataclass(frozen=True, eq=False)
class Tableau(MethodRecord):
    """A Runge-Kutta method for F(t, u, u') = 0.

    One step from u0 at t0 solves F(t0 + c_i dt, u_i, U_i) = 0 for the derivatives U_i of all components at
    the stages u_i = u0 + dt sum_j a_ij U_j, and ends in u1 = u0 + dt sum_j b_j U_j. An explicit first stage
    has u_1 = u0 and takes U_1 over from the end of the last step.

    Parameters
    ----------
    name : str
        Name in the registry, lower case with hyphens.
    class_name : str
        Name of the sweeper class that is made from the record.
    A : array_like, shape (s, s)
        Runge-Kutta matrix: lower triangular, or full and nonsingular.
    b, c : array_like, shape (s,)
        Weights and nodes of the stages; c is the sum of each row of A.
    order : int
        Classical order, that on ordinary differential equations.
    orders : mapping of int to tuple
        Order of the global error at fixed dt from consistent initial values, on DAEs in Hessenberg form of
        index 1, 2 (y, z) and 3 (position, velocity, multiplier of a constrained mechanical system). None
        where the method does not converge, or no order can be relied on.
    reference : str
        Author, title, year and place of the coefficients.
    b_embedded : array_like or None, shape (s,)
        Weights of the embedded method for error estimates.
    embedded_order : int or None
        Classical order of the embedded method.
    estimate_orders : mapping of int to int
        Order in h of the embedded error estimate of one step, for each index at which it holds; the error of
        an unknown of index k is multiplied by h^(k - 1). The end of the embedded method is no stage and
        satisfies no constraint, so from index 2 on the estimate is of order q + 1, with q the stage order,
        and not ``embedded_order`` + 1. At index 2 that is the order of y, which the estimate bounds. At index
        3 positions are of order q only (Hairer, Lubich, Roche, LNM 1409 (1989), ch. 6): the smaller the
        tolerance, the more errors exceed an estimate of order q + 1, so a pair with q = 2 has none there.

    Raises
    ------
    InputError
        If the coefficients contradict each other or miss the order they are said to have.

    Examples
    --------
    >>> gamma = 1.0 - 0.5**0.5
    >>> sdirk2 = ds.Tableau(
    ...     name="sdirk2",
    ...     class_name="SDIRK2DAE",
    ...     A=[[gamma, 0.0], [1.0 - gamma, gamma]],
    ...     b=[1.0 - gamma, gamma],
    ...     c=[gamma, 1.0],
    ...     order=2,
    ...     orders={1: (2, 2), 2: (2, 1), 3: (None, None, None)},
    ...     reference="R. Alexander, Diagonally implicit Runge-Kutta methods for stiff ODEs, 1977",
    ... )
    >>> ds.solve("hessenberg-1", sweeper=ds.runge_kutta(sdirk2), dt=0.1).success
    True
    """

    kind = "Runge-Kutta method"
    parts = "1 and 2 to (y, z), 3 to (position, velocity, multiplier)"

    name: str
    class_name: str
    A: Array
    b: Array
    c: Array
    order: int
    orders: Orders
    reference: str
    b_embedded: Array | None = None
    embedded_order: int | None = None
    estimate_orders: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for label in ("A", "b", "c", "b_embedded"):
            value = getattr(self, label)
            if value is not None:
                object.__setattr__(self, label, self._array(label, value))
        for label in ("orders", "estimate_orders"):
            object.__setattr__(self, label, MappingProxyType(dict(getattr(self, label))))
        self._check_names()
        self._check_coefficients()
        self._check_orders()

    @cached_property
    def stages(self) -> int:
        """Number of stages s."""
        return len(self.b)

    @cached_property
    def diagonally_implicit(self) -> bool:
        """Whether A is lower triangular, so that the stages can be solved one after the other."""
        return not np.triu(self.A, 1).any()

    @cached_property
    def explicit_first_stage(self) -> bool:
        """Whether the first stage is the value at the start of the step."""
        return not self.A[0].any()

    @cached_property
    def stiffly_accurate(self) -> bool:
        """Whether b is the last row of A: the step ends in its last stage and meets the constraints there."""
        return bool(np.allclose(self.b, self.A[-1], rtol=0.0, atol=DEFECT_TOLERANCE / 10))

    @cached_property
    def nodes(self) -> tuple[float, ...]:
        """Times of the stages, in units of the step."""
        return tuple(self.c.tolist())

    @cached_property
    def linear_step(self) -> LinearStep:
        """What a step does with errors of its start."""
        return LinearStep.of_runge_kutta(self.A, self.b, self.c)

    @property
    def embedded(self) -> bool:
        """Whether there is an embedded method."""
        return self.b_embedded is not None

    @cached_property
    def estimate_index(self) -> int:
        """Largest index at which error estimates hold; 0 for a method without any.

        With varying steps unknowns of index k have order s + 2 - k in collocation with s stages, so they
        converge up to k = s + 1.
        """
        if self.embedded and self.diagonally_implicit:
            return max(self.estimate_orders, default=1)
        collocation = not self.diagonally_implicit and self.stiffly_accurate and self.c.min() > 0.0
        return self.stages + 1 if collocation else 0

    def estimate_factor(self, rtol: float, index: int, turns: bool = False) -> float:
        """Largest accepted error estimate of an embedded pair at an index, in units of the tolerance."""
        # An estimate of order q, held to e, gives h ~ e^(1/q) and a global error h^p ~ e^(p/q), p the order
        # of the unknowns of index 1: the tolerance for e ~ rtol^(q/p). Where the kernel of dF/du' turns with
        # time, equations of index 1 behave like u' = v, F(t, u, v) = 0, which have index 2, and u converges
        # with the order of y at index 2: E. Hairer, C. Lubich, M. Roche, LNM 1409 (1989), ch. 4 and 6.
        estimated = self.estimate_orders.get(max(index, 1), 1)
        reached = self.orders.get(2 if turns and index <= 1 else max(index, 1), (None,))[0] or 1
        # From index 2 on stages have a lower order than the estimate assumes.
        return float((1.0 if index <= 1 else 0.1) * rtol ** max(0.0, estimated / reached - 1.0))

    def _check_coefficients(self) -> None:
        A, b, c = self.A, self.b, self.c
        s = b.size
        if s == 0 or b.shape != (s,) or A.shape != (s, s) or c.shape != (s,):
            raise self._error(
                f"A, b, c must have shapes (s, s), (s,), (s,); got {A.shape}, {b.shape}, {c.shape}"
            )
        defect = np.abs(A.sum(axis=1) - c)
        if defect.max() > DEFECT_TOLERANCE / 10:
            row = int(defect.argmax())
            raise self._error(f"row {row + 1} of A sums to {A[row].sum():.16g}, but c is {c[row]:.16g}")
        explicit = np.flatnonzero(np.diag(A) == 0.0)
        if not self.diagonally_implicit:
            # A zero eigenvalue leaves derivatives of algebraic components undetermined.
            if np.linalg.cond(A) > 1e12:
                raise self._error("A is singular, but not lower triangular with an explicit first stage")
        elif len(explicit) == s:
            raise self._error("all stages are explicit; a DAE needs an implicit one")
        elif (explicit > 0).any():
            raise self._error(f"stage {explicit[-1] + 1} is explicit; only the first stage may be")

    def _check_orders(self) -> None:
        self._check_classical("b", self.b, self.order)
        if (self.b_embedded is None) != (self.embedded_order is None):
            raise self._error("b_embedded and embedded_order must be given together")
        if self.b_embedded is not None and self.embedded_order is not None:
            if self.b_embedded.shape != self.b.shape:
                raise self._error(f"b_embedded must have shape {self.b.shape}; got {self.b_embedded.shape}")
            self._check_classical("b_embedded", self.b_embedded, self.embedded_order)
        for index, expected in self.orders.items():
            self._check_order(index, expected, [len(COMPONENTS[index])] if index in COMPONENTS else ())

    def _check_classical(self, label: str, b: Array, order: int) -> None:
        if order < 1:
            raise self._error(f"the order of {label} must be at least 1; got {order}")
        for condition, defect in _order_defects(self.A, b, self.c, order):
            if abs(defect) > DEFECT_TOLERANCE:
                raise self._error(
                    f"{label} misses order {order}: {condition} is violated by {abs(defect):.1e}"
                )


def _order_defects(A: Array, b: Array, c: Array, order: int) -> list[tuple[str, Any]]:
    """Conditions of an order with their defects: all of them up to order 4, then those of quadrature."""
    Ac = A @ c
    Acc, AAc = A @ c**2, A @ Ac
    conditions = [(f"sum b c^{k - 1} = 1/{k}", b @ c ** (k - 1) - 1.0 / k) for k in range(1, order + 1)]
    if order >= 3:
        conditions.append(("sum b A c = 1/6", b @ Ac - 1.0 / 6.0))
    if order >= 4:
        conditions += [
            ("sum b c A c = 1/8", b @ (c * Ac) - 1.0 / 8.0),
            ("sum b A c^2 = 1/12", b @ Acc - 1.0 / 12.0),
            ("sum b A A c = 1/24", b @ AAc - 1.0 / 24.0),
        ]
    if order >= 5:
        conditions += [
            ("sum b c^2 A c = 1/10", b @ (c**2 * Ac) - 1.0 / 10.0),
            ("sum b (A c)^2 = 1/20", b @ Ac**2 - 1.0 / 20.0),
            ("sum b c A c^2 = 1/15", b @ (c * Acc) - 1.0 / 15.0),
            ("sum b A c^3 = 1/20", b @ (A @ c**3) - 1.0 / 20.0),
            ("sum b c A A c = 1/30", b @ (c * AAc) - 1.0 / 30.0),
            ("sum b A c A c = 1/40", b @ (A @ (c * Ac)) - 1.0 / 40.0),
            ("sum b A A c^2 = 1/60", b @ (A @ Acc) - 1.0 / 60.0),
            ("sum b A A A c = 1/120", b @ (A @ AAc) - 1.0 / 120.0),
        ]
    return conditions


def _classical_order(A: Array, b: Array, c: Array) -> int:
    """Largest order up to 5 whose conditions hold; at least 1."""
    orders = (
        p for p in range(5, 1, -1) if all(abs(d) <= DEFECT_TOLERANCE for _, d in _order_defects(A, b, c, p))
    )
    return next(orders, 1)


def tableau_of_coefficients(class_name: str, A: Any, weights: Any, c: Any, reference: str) -> Tableau:
    """The record of coefficients whose orders are not given: classical orders up to 5 are found from them."""
    # Shapes: weights (s,) or (2, s).
    A, c, rows = (np.asarray(one, dtype=np.float64) for one in (A, c, weights))
    fitting = rows.ndim in (1, 2) and A.shape == 2 * rows.shape[-1:] and c.shape == rows.shape[-1:]
    if not fitting or (rows.ndim == 2 and len(rows) != 2):
        raise InputError(
            f"{class_name}: matrix, nodes and weights of a Runge-Kutta method have shapes (s, s), (s,), and "
            f"(s,) or (2, s); got {A.shape}, {c.shape}, {rows.shape}"
        )
    b, *embedded = np.atleast_2d(rows)
    order = _classical_order(A, b, c)
    stiffly_accurate = np.allclose(b, A[-1], rtol=0.0, atol=DEFECT_TOLERANCE / 10)
    # The end of the step is a stage, where z is a function of y; of high index the orders are not known.
    orders: Orders = {1: (order, order)} if stiffly_accurate else {}
    name = "-".join(re.findall(r"[a-z0-9]+", class_name.lower()))
    pair: Any = (embedded[0], _classical_order(A, embedded[0], c)) if embedded else ()
    return Tableau(name, class_name, A, b, c, order, orders, reference, *pair)


def tableau_of_bases(cls: type[Any]) -> Tableau | None:
    """The tableau of a class with one of pySDC's Runge-Kutta classes as a base; None where it has its own."""
    for base in cls.__mro__:
        if "method" in vars(base):
            return None
        if vars(base).get("matrix") is not None:
            if getattr(cls, "matrix_explicit", None) is not None:
                raise InputError(
                    f"{cls.__name__}: {base.__name__} splits u' = f(u, t) into two parts, which "
                    f"F(t, u, u') = 0 does not have; use an implicit method"
                )
            known: Any = cls
            source = f"{base.__name__} of {base.__module__}"
            return tableau_of_coefficients(cls.__name__, known.matrix, known.weights, known.nodes, source)
    return None


_HAIRER_WANNER = "E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, 2nd ed., 1996, Sect. IV.5"

METHODS: Registry[Tableau] = Registry("Runge-Kutta method")  # All methods by name.


def _positive(order: int) -> int | None:
    """The order, or None for 0 and below: errors then do not go to zero."""
    return order if order > 0 else None


def _nodes(series: list[float]) -> Array:
    """Roots of a Legendre series in [-1, 1], ascending; all of them real and simple."""
    polynomial = Legendre(series)
    slope = polynomial.deriv()
    x: Array = np.sort(np.real(polynomial.roots()))
    for _ in range(3):
        # One Newton step: eigenvalues of the companion matrix have errors of round-off times its norm.
        x = x - polynomial(x) / slope(x)
    # An end point that is a root is set to -1 or 1 exactly.
    return np.where(np.abs(np.abs(x) - 1.0) < 1e-14, np.sign(x), x)


def require_least(methods: str, number: int, least: int, unit: str = "{} stages") -> None:
    """Refuse a number of stages, steps or an order below the least that methods have."""
    if number < least:
        raise InputError(f"{methods} have at least {unit.format(least)}; got {number}")


def _of_family(name: str, family: str, order: int, A: Array, b: Array, c: Array, orders: Orders) -> Tableau:
    """The method of an order of a family of Hairer and Wanner."""
    names = f"{name}-{order}", f"{family}{order}DAE"
    return Tableau(*names, A, b, c, order, orders, _HAIRER_WANNER)


def _collocation(x: Array) -> tuple[Array, Array, Array]:
    """A, b, c of the collocation method with nodes x in [-1, 1], by integrals of Legendre polynomials."""
    s = len(x)
    values, integrals = legvander(x, s - 1), _integrals(x, s)
    whole = np.zeros(s)
    whole[0] = 1.0
    A = np.asarray(np.linalg.solve(values.T, integrals.T).T, dtype=np.float64)
    b = np.asarray(np.linalg.solve(values.T, whole), dtype=np.float64)
    return A, b, (1.0 + x) / 2.0


def _integrals(x: Array, count: int) -> Array:
    """Integrals from 0 to (1 + x)/2 of the first Legendre polynomials on [0, 1], shape (s, count)."""
    return np.asarray(legval(x, legint(np.eye(count), lbnd=-1.0)).T / 2.0, dtype=np.float64)


@cache
def radau_iia(s: int) -> Tableau:
    """The Radau IIA method with s stages, order 2s - 1: collocation at the right Radau nodes."""
    # Orders at index 2 and 3: Hairer, Lubich, Roche, LNM 1409 (1989), from B(2s-1), C(s), D(s-1), R(inf) = 0;
    # at index 3 also L. Jay, "Collocation methods for differential-algebraic equations of index 3", Numer.
    # Math. 65 (1993).
    require_least("Radau IIA methods", s, 1)
    A, _, c = _collocation(_nodes([0.0] * (s - 1) + [-1.0, 1.0]))
    p = 2 * s - 1
    # With one stage it is backward Euler, whose errors cancel in the multiplier when dt is fixed.
    orders = {1: (p, p), 2: (p, s), 3: (p, s, s - 1 if s > 1 else 1)}
    return _of_family("radau-iia", "RadauIIA", p, A, A[-1], c, orders)


@cache
def lobatto_iiic(s: int) -> Tableau:
    """The Lobatto IIIC method with s stages, order 2s - 2: a_i1 = b_1 and C(s-1) at the Lobatto nodes."""
    # Orders at index 2 and 3: Hairer, Lubich, Roche, LNM 1409 (1989), from B(2s-2), C(s-1), D(s-1) and
    # R(inf) = 0.
    require_least("Lobatto IIIC methods", s, 2)
    x = _nodes([0.0] * (s - 2) + [-1.0, 0.0, 1.0])
    _, b, c = _collocation(x)
    first = np.zeros((s, 1))
    first[0] = 1.0
    # Columns: C(1) to C(s-1) in a Legendre basis, then the value of the first column of A.
    given = np.hstack([_integrals(x, s - 1), np.full((s, 1), b[0])])
    A = np.linalg.solve(np.hstack([legvander(x, s - 2), first]).T, given.T).T
    p = 2 * s - 2
    orders = {1: (p, p), 2: (p, s - 1), 3: (p, s - 1, _positive(s - 2))}
    return _of_family("lobatto-iiic", "LobattoIIIC", p, A, A[-1], c, orders)


@cache
def gauss(s: int) -> Tableau:
    """The Gauss method with s stages, order 2s: collocation at the Gauss nodes."""
    # The end of a step is no stage, so constraints hold there only approximately, and R(inf) = (-1)^s: errors
    # of algebraic components add up for even s and cancel from step to step for odd s. Orders: Hairer,
    # Lubich, Roche, LNM 1409 (1989). At index 3 the multiplier does not converge for s = 2 and 3.
    require_least("Gauss methods", s, 1)
    A, b, c = _collocation(_nodes([0.0] * s + [1.0]))
    p, odd = 2 * s, s % 2
    orders: Orders = {1: (p, s + odd), 2: (s + odd, _positive(s - 2 + odd)), 3: (None, None, None)}
    return _of_family("gauss", "Gauss", p, A, b, c, orders)


def _enter(
    name: str, class_name: str, rows: Sequence[Sequence[float]], c: Sequence[float], **more: Any
) -> None:
    """Enter a method into :data:`METHODS`; ``rows`` of A end at the diagonal, the last one is the weights."""
    A = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        A[i, : len(row)] = row
    METHODS.add(name, Tableau(name, class_name, A, A[-1], np.array(c), **more))


_enter(
    "backward-euler",
    "BackwardEulerDAE",
    [(1.0,)],
    [1.0],
    order=1,
    orders={1: (1, 1), 2: (1, 1), 3: (1, 1, 1)},
    reference=f"{_HAIRER_WANNER}: Radau IIA with s = 1",
)

_enter(
    "trapezoidal",
    "TrapezoidalRuleDAE",
    [(0.0,), (0.5, 0.5)],
    [0.0, 1.0],
    order=2,
    # R(inf) = -1: the error of an algebraic component returns with the other sign in every step. At index 2
    # it keeps its size dt^2. At index 3 the error of the velocity, divided by dt, drives that of the
    # multiplier in resonance; it grows to size 1, but acts on the velocity with alternating sign only.
    orders={1: (2, 2), 2: (2, 2), 3: (2, 2, None)},
    reference=f"{_HAIRER_WANNER}: Lobatto IIIA with s = 2",
)

_enter(
    "edirk4",
    "EDIRK4DAE",
    [(0.0,), (3 / 4, 3 / 4), (447 / 675, -357 / 675, 855 / 675), (13 / 42, 84 / 42, -125 / 42, 70 / 42)],
    [0.0, 3 / 2, 7 / 5, 1.0],
    order=4,
    # Order 4 of y at index 2 rests on the error of z that earlier steps leave, which cancels one of y.
    orders={1: (4, 4), 2: (4, 2), 3: (2, 2, 1)},
    reference="C. A. Kennedy, M. H. Carpenter, Diagonally Implicit Runge-Kutta Methods for Ordinary "
    "Differential Equations. A Review, NASA/TM-2016-219173, 2016, second method of eq. (216)",
)

_enter(
    "dirk43-2",
    "DIRK43_2DAE",
    [(1 / 2,), (1 / 6, 1 / 2), (-1 / 2, 1 / 2, 1 / 2), (3 / 2, -3 / 2, 1 / 2, 1 / 2)],
    [1 / 2, 2 / 3, 1 / 2, 1.0],
    order=3,
    # Stage order 1.
    orders={1: (3, 3), 2: (2, 1), 3: (1, 1, None)},
    reference="U. M. Ascher, S. J. Ruuth, R. J. Spiteri, Implicit-explicit Runge-Kutta methods for "
    "time-dependent partial differential equations, Appl. Numer. Math. 25 (1997) 151-167, Sect. 2.8, "
    "implicit part",
)

_ARK = (
    "C. A. Kennedy, M. H. Carpenter, Additive Runge-Kutta schemes for convection-diffusion-reaction "
    "equations, Appl. Numer. Math. 44 (2003) 139-181, implicit part of "
)

_GAMMA32 = 1767732205903 / 4055673282236
_enter(
    "esdirk32",
    "ESDIRK32DAE",
    [
        (0.0,),
        (_GAMMA32, _GAMMA32),
        (2746238789719 / 10658868560708, -640167445237 / 6845629431997, _GAMMA32),
        (
            *(1471266399579 / 7840856788654, -4482444167858 / 7529755066697),
            *(11266239266428 / 11593286722821, _GAMMA32),
        ),
    ],
    [0.0, 1767732205903 / 2027836641118, 3 / 5, 1.0],
    order=3,
    orders={1: (3, 3), 2: (3, 2), 3: (2, 2, 1)},
    reference=_ARK + "ARK3(2)4L[2]SA",
    b_embedded=(
        *(2756255671327 / 12835298489170, -10771552573575 / 22201958757719),
        *(9247589265047 / 10645013368117, 2193209047091 / 5459859503100),
    ),
    embedded_order=2,
    estimate_orders={1: 3, 2: 3},
)

_enter(
    "esdirk43",
    "ESDIRK43DAE",
    [
        (0.0,),
        (1 / 4, 1 / 4),
        (8611 / 62500, -1743 / 31250, 1 / 4),
        (5012029 / 34652500, -654441 / 2922500, 174375 / 388108, 1 / 4),
        (15267082809 / 155376265600, -71443401 / 120774400, 730878875 / 902184768, 2285395 / 8070912, 1 / 4),
        (82889 / 524892, 0.0, 15625 / 83664, 69875 / 102672, -2260 / 8211, 1 / 4),
    ],
    [0.0, 1 / 2, 83 / 250, 31 / 50, 17 / 20, 1.0],
    order=4,
    orders={1: (4, 4), 2: (3, 2), 3: (2, 2, 1)},
    reference=_ARK + "ARK4(3)6L[2]SA",
    b_embedded=(
        *(4586570599 / 29645900160, 0.0, 178811875 / 945068544, 814220225 / 1159782912),
        *(-3700637 / 11593932, 61727 / 225920),
    ),
    embedded_order=3,
    estimate_orders={1: 4, 2: 3},
)

for _tableau in (*map(radau_iia, range(2, 8)), *map(lobatto_iiic, (3, 4)), *map(gauss, (2, 3))):
    METHODS.add(_tableau.name, _tableau)
