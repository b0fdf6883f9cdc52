"""Steady states: Newton's method, then pseudo-transient continuation, then a homotopy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.linalg import lstsq
from scipy.linalg.lapack import dgecon, dgetrf, dgetrs

from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.linear import superlu
from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.paths import MOST_PATH_UNKNOWNS, newton_homotopy
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.projection import dense
from dae_sdc.dae.state import Vector, attach
from dae_sdc.deadline import check, under_way
from dae_sdc.errors import ConvergenceError, EvaluationError, SingularMatrixError
from dae_sdc.initial.jets import ModelJets

Booleans = npt.NDArray[np.bool_]

REST_NEWTON_ITERATIONS = 60  # Largest number of damped Newton iterations.
SHORTEST_DAMPED_STEP = 2.0**-12  # Smallest fraction of a Newton step that is tried.
POLISHING_ITERATIONS = 3  # Full steps after convergence, taken as long as they become shorter.
REST_ROUND_OFF = 1e-13  # Residual, relative to the terms, up to which further steps may make it larger.
# Largest residual, relative to the terms of its equation, of an equation that holds.
RELATIVE_REST_RESIDUAL = 1e-9
# Singular value of the scaled Jacobian, relative to the largest, that counts as 0.
DEPENDENT_ROWS = 1e-11
# Number of unknowns up to which steps are found by singular values; beyond it by sparse factors.
MOST_DENSE_VALUES = 500
# Weight of the step beside the scaled residual, where a sparse Jacobian is singular.
REGULARIZATION = 1e-7
TRANSIENT_STEPS = 400  # Largest number of implicit Euler steps.
# Residual, relative to its terms, from which on Newton's method is tried after a step, and the factor by
# which it must be smaller for the next time.
NEWTON_AGAIN = 1e-2
TRANSIENT_ITERATIONS = 10  # Largest number of Newton iterations in such a step.
# FIRST_TRANSIENT_STEP, LONGEST_TRANSIENT_STEP, LARGEST_TRANSIENT_GROWTH: first time step and the one at which
# the steps end, as parts of the interval of the problem, and the largest ratio of one to the one before.
FIRST_TRANSIENT_STEP = 1e-3
LONGEST_TRANSIENT_STEP = 1e12
LARGEST_TRANSIENT_GROWTH = 4.0
SHRINKING_RESIDUAL = 0.25  # Factor of a time step that failed.
# Entry in the null space of the Jacobian from which on an unknown counts as not determined.
UNDETERMINED_PART = 1e-3
# Value, in units of the size of the unknown, that is set to 0: what iterations leave of one that is 0.
VANISHING_SIZE = 1e-30
# Change of a conserved quantity at the guess, relative to the equations, up to which it is conserved.
LAWFUL_PART = 1e-10
# Parts of the interval after which the equations are evaluated again, to see if they depend on time.
LATER_TIMES: tuple[float, ...] = (0.137, 0.419, 0.871)


@dataclass(frozen=True, eq=False)
class Steady:
    """A steady state.

    Returned by :func:`steady_state`, whose example shows it.

    Parameters
    ----------
    title : str
        Name of the equations.
    t : float
        Time at which the equations were taken.
    names, units : tuple of str
        Names and units of the unknowns.
    u, du : ndarray, shape (n,)
        The state, and its derivatives: 0 but for those that were given.
    done : tuple of str
        The methods that were tried, with what came of each.
    undetermined : tuple of str
        Unknowns that the equations leave free at this state, which stay near their guesses.
    remarks : tuple of str
        What else is to be known: equations that depend on time, hidden constraints that do not hold.
    """

    title: str
    t: float
    names: tuple[str, ...]
    units: tuple[str, ...]
    u: Vector
    du: Vector
    done: tuple[str, ...]
    undetermined: tuple[str, ...] = ()
    remarks: tuple[str, ...] = field(default=())

    def __getitem__(self, name: Any) -> float:
        """Value of an unknown, or of a derivative of one as "der(x)"."""
        return self.values[str(name)]

    @property
    def values(self) -> dict[str, float]:
        """Values of the unknowns, and of their derivatives as "der(x)", by name."""
        rates = {f"der({name})": rate for name, rate in zip(self.names, self.du.tolist(), strict=True)}
        return rates | dict(zip(self.names, self.u.tolist(), strict=True))

    def __str__(self) -> str:
        width = max(map(len, self.names))
        lines = [f"{self.title}: steady state at t={self.t:g}, by {self.done[-1]}"]
        for name, unit, value, rate in zip(self.names, self.units, self.u, self.du, strict=True):
            turning = f"   rate {rate:.10g}" if rate else ""
            lines.append(f"  {name:<{width}}  {value:< 18.10g} {unit}{turning}".rstrip())
        lines += [f"before: {text}" for text in self.done[:-1]]
        if self.undetermined:
            lines.append(f"not determined by the equations, near the guess: {', '.join(self.undetermined)}")
        return "\n".join([*lines, *self.remarks])


class Hidden:
    """The hidden constraints of a model, as functions of a state and its derivative; higher ones are 0."""

    def __init__(self, system: ModelJets, states: Sequence[tuple[int, int]]) -> None:
        self.system = system
        place = system.place
        own = [(at, place[state]) for at, state in enumerate(states)]
        rates = [(at, (j, k + 1)) for at, (j, k) in enumerate(states)]
        known = set(states)
        slopes = [(at, place[jet]) for at, jet in rates if jet in place and jet not in known]
        self._values, self._rates = (np.array(one, dtype=np.intp).reshape(-1, 2).T for one in (own, slopes))
        self.rows = np.flatnonzero(np.array(system.row_orders) > 0)

    def point(self, u: Vector, du: Vector, rest: float = 0.0) -> Vector:
        """Values of all jets, with a number for what is neither in u nor in u'."""
        x = np.full(len(self.system.jets), rest)
        x[self._values[1]] = u[self._values[0]]
        x[self._rates[1]] = du[self._rates[0]]
        return x

    def residual(self, u: Vector, du: Vector) -> Vector:
        """Residuals of the differentiated equations."""
        return np.asarray(self.system.values(self.point(u, du))[self.rows])

    def halves(self, u: Vector, du: Vector) -> tuple[Any, Any]:
        """Their derivatives by u' and u, CSC."""
        matrix = sparse.csc_matrix(self.system.jacobian(self.point(u, du)))[self.rows]
        n = len(u)

        def columns(pair: Any) -> Any:
            picked = sparse.csc_matrix(
                (np.ones(pair.shape[1]), (pair[1], pair[0])), shape=(matrix.shape[1], n)
            )
            return sparse.csc_matrix(matrix @ picked)

        return columns(self._rates), columns(self._values)


@dataclass(frozen=True, eq=False)
class Rest:
    """The equations F(t, u, u') = 0 at known derivatives, as functions of the values that are looked for."""

    problem: ProblemDAE  # The equations; its ``invariants``, if it has any, are added to them.
    t: float  # Time.
    du: Vector  # Shape (n,). The derivatives.
    # free, turning: shape (n,). Unknowns whose values, and those whose derivatives are looked for; all
    # others are those of ``u`` and ``du``.
    free: Booleans
    turning: Booleans
    u: Vector  # Shape (n,). Guesses and fixed values.
    # Hidden constraints, which do not hold by themselves where derivatives are not 0.
    hidden: Hidden | None = None
    # Shape (k, n). Rows of linear conservation laws: their products with the state stay what they are for
    # ``u``.
    conserved: Vector | None = None

    @property
    def equation_names(self) -> tuple[str, ...]:
        """Names of the equations, invariants, hidden constraints and conservation laws."""
        hidden = self.hidden
        names = () if hidden is None else tuple(hidden.system.row_names[row] for row in hidden.rows)
        laws = () if self.conserved is None else ("conservation law",) * len(self.conserved)
        return (*self.problem.equation_names, *getattr(self.problem, "invariant_names", ()), *names, *laws)

    @property
    def title(self) -> str:
        """Name of the equations."""
        return self.problem.name

    @classmethod
    def at(cls, problem: ProblemDAE, t: float, u: Vector, du: Vector) -> Rest:
        """The equations at a state and derivative, all values of which are looked for."""
        return cls(problem, t, du, np.ones(problem.n, dtype=bool), np.zeros(problem.n, dtype=bool), u)

    @property
    def begin(self) -> Vector:
        """Guesses of what is looked for: values, then derivatives."""
        return np.concatenate([self.u[self.free], self.du[self.turning]])

    def state(self, x: Vector) -> tuple[Vector, Vector]:
        """All values and derivatives, from those that are looked for."""
        u, du = self.u.copy(), self.du.copy()
        count = int(self.free.sum())
        u[self.free], du[self.turning] = x[:count], x[count:]
        return u, du

    def residual(self, x: Vector, t: float | None = None) -> Vector:
        """The equations and invariants at values x; of NaN where they are not defined."""
        return self.with_rates(*self.state(x), self.t if t is None else t)

    def with_rates(self, u: Vector, du: Vector, t: float) -> Vector:
        """The equations and invariants at a state and derivative."""
        check()
        problem: Any = self.problem
        first, place = problem.n_diff, self.problem.n_diff
        with np.errstate(all="ignore"):
            F = np.array(problem.evaluate(attach(u, first), attach(du, place), t))
            if getattr(problem, "invariants", None) is not None:
                F = np.concatenate([F, np.asarray(problem.invariants(attach(u, first), t)).ravel()])
            if self.hidden is not None:
                F = np.concatenate([F, self.hidden.residual(u, du)])
            if self.conserved is not None:
                F = np.concatenate([F, self.conserved @ (u - self.u)])
        return F

    def halves(self, u: Vector, du: Vector) -> tuple[Any, Any]:
        """Derivatives of equations and invariants by u' and by u, dense or CSC, all columns."""
        problem: Any = self.problem
        first = problem.n_diff
        state, slope = attach(u, first), attach(du, first)
        given = getattr(problem, "jacobian", None)
        pair = exact_halves(given, state, slope, self.t) if given is not None else None
        if pair is None:
            parts = linearize(problem, state, slope, self.t, accurate=True)
            pair = parts.mass, parts.stiffness
        more = []
        if getattr(problem, "invariants", None) is not None:
            own = sparse.csc_matrix(problem.invariants_jacobian(state, self.t))
            more.append((sparse.csc_matrix(own.shape), own))
        if self.hidden is not None:
            more.append(self.hidden.halves(u, du))
        if self.conserved is not None:
            more.append((sparse.csc_matrix(self.conserved.shape), sparse.csc_matrix(self.conserved)))
        if not more:
            return pair
        mass, stiffness = (
            sparse.vstack([sparse.csc_matrix(one) for one in half], format="csc")
            for half in zip(pair, *more, strict=True)
        )
        return mass, stiffness

    def jacobian(self, x: Vector) -> Any:
        """Derivatives of the equations by what is looked for."""
        return self.columns(*self.halves(*self.state(x)))

    def columns(self, mass: Any, stiffness: Any) -> Any:
        """The columns of what is looked for."""
        if not self.turning.any():
            return stiffness[:, self.free]
        parts = [stiffness[:, self.free], mass[:, self.turning]]
        return sparse.hstack(parts, format="csc") if sparse.issparse(stiffness) else np.hstack(parts)

    @property
    def sizes(self) -> Vector:
        """Sizes of what is looked for."""
        nominal = np.broadcast_to(np.asarray(self.problem.nominal, dtype=np.float64), self.u.shape)
        rates = np.maximum(np.abs(self.du), nominal)[self.turning]
        return np.concatenate([np.maximum(np.abs(self.u), nominal)[self.free], rates])


# Factor of dF/du at which dF/du' is lost beside it: a power of two, which rounds nothing.
SEPARATING = 2.0**60


def exact_halves(jacobian: Any, u: Any, du: Any, t: float) -> tuple[Any, Any] | None:
    """dF/du' and dF/du from a function for dF/du' + c dF/du, each to round-off; None if one is not finite."""
    with np.errstate(all="ignore"):
        mass = jacobian(u, du, t, 0.0).copy()
        stiffness = (jacobian(u, du, t, SEPARATING) - mass) / SEPARATING
    entries = [half.data if sparse.issparse(half) else half for half in (mass, stiffness)]
    return (mass, stiffness) if all(np.isfinite(one).all() for one in entries) else None


def row_scales(matrix: Any, sizes: Vector) -> Vector:
    """Change of each equation when all values change by their sizes; 1 where that is 0."""
    scales = np.asarray(abs(matrix) @ sizes).ravel()
    return np.where(scales > 0.0, scales, 1.0)


def least_step(matrix: Any, residual: Vector, sizes: Vector) -> Vector:
    """The change, least in units of the sizes, by which a linear model of the residual vanishes best."""
    rows = row_scales(matrix, sizes)
    if sparse.issparse(matrix):
        scaled = sparse.csc_matrix(sparse.diags(1.0 / rows) @ matrix @ sparse.diags(sizes))
    else:
        scaled = matrix * sizes / rows[:, None]
    right = -residual / rows
    step = _direct(scaled, right) if scaled.shape[0] == scaled.shape[1] else None
    if step is None and scaled.shape[1] <= MOST_DENSE_VALUES:
        step = lstsq(dense(scaled), right, cond=DEPENDENT_ROWS, lapack_driver="gelsy")[0]
    if step is None:
        m, n = scaled.shape
        small = -(REGULARIZATION**2) * sparse.eye(n)
        both = sparse.bmat([[sparse.eye(m), scaled], [scaled.T, small]], format="csc")
        step = superlu(both).solve(np.concatenate([right, np.zeros(n)]))[m:]
    return np.asarray(sizes * step)


def _direct(matrix: Any, right: Vector) -> Vector | None:
    """The solution by LU factors; None where the matrix is singular, or nearly so."""
    if sparse.issparse(matrix):
        if not np.isfinite(matrix.data).all():
            return None
        try:
            factors = superlu(matrix)
        except SingularMatrixError:
            return None
        pivots = np.abs(factors.U.diagonal())
        good = pivots.min() > DEPENDENT_ROWS * pivots.max()
        return np.asarray(factors.solve(right)) if good else None
    triangles, order, failed = dgetrf(matrix)
    if failed or not dgecon(triangles, np.abs(matrix).sum(axis=0).max())[0] > DEPENDENT_ROWS:
        return None
    return np.asarray(dgetrs(triangles, order, right)[0])


def newton(rest: Rest, x: Vector) -> tuple[Vector, float]:
    """Damped Newton iterations; returns the values and their largest residual relative to its terms."""
    sizes, full = rest.sizes, False
    residual = rest.residual(x)
    if not np.isfinite(residual).all():
        return x, np.inf
    for _ in range(REST_NEWTON_ITERATIONS):
        matrix = rest.jacobian(x)
        rows = row_scales(matrix, np.maximum(sizes, np.abs(x)))
        worst = float(np.abs(residual / rows).max(initial=0.0))
        if full and worst <= RELATIVE_REST_RESIDUAL:
            break
        step = least_step(matrix, residual, sizes)
        norm, part = np.linalg.norm(residual / rows), 1.0
        while part >= SHORTEST_DAMPED_STEP:
            trial = rest.residual(x + part * step)
            if np.isfinite(trial).all() and np.linalg.norm(trial / rows) <= (1.0 - 0.1 * part) * norm:
                break
            part *= 0.5
        else:
            # Nothing is less than what round-off leaves.
            return (_polished(rest, x), worst) if worst <= RELATIVE_REST_RESIDUAL else (x, worst)
        x, residual, full = x + part * step, trial, part == 1.0
    return _polished(rest, x), worst


def _polished(rest: Rest, x: Vector) -> Vector:
    """Values after further steps, as long as these become shorter."""
    sizes = np.maximum(rest.sizes, np.abs(x))
    before = np.inf
    for _ in range(POLISHING_ITERATIONS):
        matrix, residual = rest.jacobian(x), rest.residual(x)
        step, rows = least_step(matrix, residual, rest.sizes), row_scales(matrix, sizes)
        length = float(np.abs(step / sizes).max(initial=0.0))
        left = np.abs(rest.residual(x + step) / rows).max(initial=0.0)
        allowed = max(np.abs(residual / rows).max(initial=0.0), REST_ROUND_OFF)
        if not (length < 0.5 * before and left <= allowed):
            break
        x, before = x + step, length
        if length == 0.0:
            break
    return np.asarray(np.where(np.abs(x) <= VANISHING_SIZE * rest.sizes, 0.0, x))


def pseudo_transient(rest: Rest, x: Vector) -> Vector:
    r"""Implicit Euler steps that grow as the residual of the steady equations becomes smaller.

    .. math:: F(t, u_{k+1}, v + (u_{k+1} - u_k) / h_k) = 0, \qquad h_{k+1} = h_k \|R_{k-1}\| / \|R_k\|

    with the given derivatives v, and the time t kept.

    References
    ----------
    C. T. Kelley, D. E. Keyes: Convergence analysis of pseudo-transient continuation, SIAM J. Numer. Anal. 35
    (1998).
    """
    begin, end = map(float, rest.problem.interval)
    h = FIRST_TRANSIENT_STEP * (end - begin)
    before, tried = _worst(rest, x), NEWTON_AGAIN
    for _ in range(TRANSIENT_STEPS):
        new = _euler_step(rest, x, h)
        if new is None:
            h *= SHRINKING_RESIDUAL
            continue
        now, x = _worst(rest, new), new
        if now <= tried:
            tried = NEWTON_AGAIN * now
            near, worst = newton(rest, x)
            if worst <= RELATIVE_REST_RESIDUAL:
                return near
        h *= min(LARGEST_TRANSIENT_GROWTH, max(1.5, before / now if now else np.inf))
        before = now
        if h > LONGEST_TRANSIENT_STEP * (end - begin):
            break
    return x


def _worst(rest: Rest, x: Vector) -> float:
    """The largest residual relative to the terms of its equation."""
    residual, rows = rest.residual(x), row_scales(rest.jacobian(x), np.maximum(rest.sizes, np.abs(x)))
    return float(np.abs(residual / rows).max(initial=0.0)) if np.isfinite(residual).all() else np.inf


def _euler_step(rest: Rest, x: Vector, h: float) -> Vector | None:
    """The values after an implicit Euler step; None if Newton's method does not converge."""
    (old, _), new, sizes = rest.state(x), x.copy(), rest.sizes
    before = np.inf
    for _ in range(TRANSIENT_ITERATIONS):
        u, rates = rest.state(new)
        rates = rates + (u - old) / h
        residual = rest.with_rates(u, rates, rest.t)
        if not np.isfinite(residual).all():
            return None
        mass, stiffness = rest.halves(u, rates)
        step = least_step(rest.columns(mass, mass / h + stiffness), residual, sizes)
        new = new + step
        length = float(np.abs(step / np.maximum(sizes, np.abs(new))).max(initial=0.0))
        if length <= 1e-8:
            return new
        if not length < 2.0 * before:
            return None
        before = length
    return None


def homotopy(rest: Rest, x: Vector) -> Vector:
    """The end of a path to a steady state, see :func:`dae_sdc.dae.paths.newton_homotopy`."""
    if len(x) > MOST_PATH_UNKNOWNS:
        raise ConvergenceError(f"only for at most {MOST_PATH_UNKNOWNS} unknowns")
    if len(x) != len(rest.equation_names):
        raise ConvergenceError("only for as many equations as unknowns")
    return newton_homotopy(rest.residual, lambda values: dense(rest.jacobian(values)), x, rest.sizes)


@under_way("a steady state was sought")
def steady_state(
    problem: ProblemDAE,
    u0: Vector,
    *,
    t: float,
    du: Vector,
    fixed: Booleans,
    turning: Booleans,
    hidden: Hidden | None,
) -> Steady:
    """A steady state near a guess, see :func:`dae_sdc.run.steady.steady_state`."""
    # Unknowns that are ``fixed`` keep the values of the guess, and those that are ``turning`` do but have a
    # derivative to be found. Hidden constraints have the derivatives of algebraic unknowns too, which follow.
    rated = turning if hidden is None else turning | ((np.arange(problem.n) >= problem.n_diff) & (du == 0.0))
    rest = Rest(problem, t, du, ~(fixed | turning), rated, u0, hidden)
    with uncounted(problem), np.errstate(over="ignore", invalid="ignore"):
        rest, x, done = _search(rest)
        u, rates = rest.state(x)
        loose = _undetermined(rest, x)
        remarks = _of_time(rest, x)
    names = tuple(problem.names[j] for j in loose)
    return Steady(rest.title, t, problem.names, problem.units, u, rates, done, names, remarks)


def _search(rest: Rest) -> tuple[Rest, Vector, tuple[str, ...]]:
    """Values at which the equations hold, by the first method that finds some, with conservation laws."""
    begin, done = rest.begin, list[str]()
    methods: dict[str, Callable[[Rest, Vector], Vector]] = {
        "Newton's method": lambda rest, x: x,
        "pseudo-transient continuation": pseudo_transient,
        "homotopy": homotopy,
    }
    for name, method in methods.items():
        try:
            with under_way(f"a steady state was sought by {name}", ", or give a guess near it"):
                x, worst = newton(rest, method(rest, begin))
            if worst <= RELATIVE_REST_RESIDUAL:
                return *_lawful(rest, x), (*done, name)
            done.append(f"{name}: {_left(rest, x, worst)}")
        except (EvaluationError, ConvergenceError, SingularMatrixError, np.linalg.LinAlgError) as error:
            done.append(f"{name}: {error}")
    raise ConvergenceError(
        f"no steady state of {rest.title} found at t={rest.t:g}; {'; '.join(done)}; there "
        f"may be none, or give another guess"
    )


def _lawful(rest: Rest, x: Vector) -> tuple[Rest, Vector]:
    r"""The steady state with the conserved quantities of the guess, and the equations with them if any.

    Linear conservation laws are :math:`w^T F_{u'} u` with :math:`w^T F(u) = 0` at rest and at the guess.
    """
    n = rest.problem.n
    if n > MOST_DENSE_VALUES:
        return rest, x
    u, du = rest.state(x)
    mass, stiffness = map(dense, rest.halves(u, du))
    rows = row_scales(stiffness, np.maximum(np.abs(u), 1.0))
    left, values, _ = np.linalg.svd((stiffness * np.maximum(np.abs(u), 1.0) / rows[:, None])[:n])
    null = left[:, int((values > DEPENDENT_ROWS * values[0]).sum()) :].T
    start = rest.with_rates(rest.u, rest.du, rest.t)[:n] / rows[:n]
    laws: Vector = null @ (mass[:n] / rows[:n, None])
    holds = np.abs(null @ start).max(initial=0.0) <= LAWFUL_PART * np.abs(start).max(initial=0.0)
    if holds and np.abs(laws).max(initial=0.0) > 0.0:
        bound = replace(rest, conserved=laws)
        for begin in (x, rest.begin):
            found, worst = newton(bound, begin)
            if worst <= RELATIVE_REST_RESIDUAL:
                return bound, found
    return rest, x


def _left(rest: Rest, x: Vector, worst: float) -> str:
    """Which equation is furthest from vanishing."""
    if not np.isfinite(worst):
        return "the equations are not defined at the guess"
    residual = rest.residual(x)
    rows = row_scales(rest.jacobian(x), np.maximum(rest.sizes, np.abs(x)))
    at = int(np.argmax(np.abs(residual / rows)))
    return f"{rest.equation_names[at]} stays at {residual[at]:.3g}"


def _undetermined(rest: Rest, x: Vector) -> list[int]:
    """Numbers of the unknowns that the Jacobian leaves free."""
    matrix = rest.jacobian(x)
    if matrix.shape[1] > MOST_DENSE_VALUES or not matrix.shape[1]:
        return []
    sizes = rest.sizes
    scaled = dense(matrix) * sizes / row_scales(matrix, sizes)[:, None]
    _, values, right = np.linalg.svd(scaled)
    rank = int((values > DEPENDENT_ROWS * values[0]).sum())
    loose = np.abs(right[rank:]).max(axis=0, initial=0.0) > UNDETERMINED_PART
    numbers = np.concatenate([np.flatnonzero(rest.free), np.flatnonzero(rest.turning)])[loose]
    return [int(j) for j in np.unique(numbers)]


def _of_time(rest: Rest, x: Vector) -> tuple[str, ...]:
    """A remark where the equations do not hold at later times."""
    begin, end = map(float, rest.problem.interval)
    rows = row_scales(rest.jacobian(x), np.maximum(rest.sizes, np.abs(x)))
    for part in LATER_TIMES:
        later = rest.residual(x, rest.t + part * (end - begin))
        with np.errstate(invalid="ignore"):
            wrong = np.flatnonzero(~(np.abs(later / rows) <= 1e3 * RELATIVE_REST_RESIDUAL))
        if wrong.size:
            return (f"at t={rest.t:g} only: '{rest.equation_names[wrong[0]]}' depends on time",)
    return ()
