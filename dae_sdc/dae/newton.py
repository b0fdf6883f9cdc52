"""Modified Newton iteration with kept factorisations, for one node or for all stages at once."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg.blas import daxpy

from dae_sdc.dae.jacobian import NOISE_LIMIT, ROOT_EPS, Linearization, improve_differences, linearize
from dae_sdc.dae.linear import DenseLU, Factorization, Matrix, factorize, krylov, largest
from dae_sdc.dae.newton_checks import above_noise, is_small, jacobian_note
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import EvaluationError, NewtonError, SingularMatrixError

SLOW_CONTRACTION = 0.2  # Contraction above which a kept factorisation is renewed at once.
# Contraction above which an iterate is given up, and the solve begins again with a new matrix each time.
DIVERGING_CONTRACTION = 0.9
AGED_CONTRACTION = 0.01  # Contraction above which a kept factorisation is renewed when the next step begins.
# Smallest contraction that is believed: a measured one may be luck, and the matrix ages.
LEAST_CONTRACTION = 1e-4

# Factor by which first corrections at a node must fall from solve to solve for a known rate to be trusted.
# Errors of one node come back from the others: a matrix that contracts well along the solution may hardly
# contract what the sweeps bring back.
BELIEVED_DECREASE = 0.5

# Part of the tolerance below which a correction is the last one, whatever the contraction.
LAST_CORRECTION = 0.1
# Relative correction above which an iteration that stands still has failed and is not at round-off.
ROUND_OFF_CORRECTION = 1e-3
# Backward error at which an iteration that no longer contracts is as exact as the arithmetic allows.
BACKWARD_ERROR = 64.0 * 2.0**-52
SOLVED, UNSOLVED, SINGULAR = 0, 1, 2  # How an iteration ends.

# Which linearisation a matrix is to be made of: ``NEWEST`` is the newest that is known, or one at the iterate
# if none is; ``NOT_THE_SAME`` the newest unless the kept matrix is made of it, and then one at the iterate,
# which is ``HERE``.
NEWEST, NOT_THE_SAME, HERE = 0, 1, 2


class KeptNumbers(ctypes.Structure):
    """What is known of a kept matrix, for Python and for compiled code."""

    _fields_ = [(name, ctypes.c_double) for name in ("age", "rate", "is_aged", "last_change")]


def factorize_anew(work: Any, which: int) -> bool:
    """Replace the kept matrix by one made of another linearisation, see :data:`NEWEST`."""
    kept, newest = work.kept_numbers(), work.newest_age()
    if which == HERE or newest < 0.0 or (which == NOT_THE_SAME and kept.age == newest):
        work.linearize_here()
    regular: bool = work.factor()
    kept.age = work.newest_age() if regular else -1.0
    kept.rate = 1.0
    kept.is_aged = 0.0
    kept.last_change = 0.0
    return regular


def iterate(
    work: Any, trust: bool, tolerance: float, residual_tolerance: float, forcing: float, maxiter: int
) -> int:
    """Move an iterate to the solution with a matrix that is kept while it contracts."""
    # The operations are methods of the object ``work``: in Python a :class:`ModifiedNewton`, where they are
    # described, in compiled code the memory of :mod:`dae_sdc.compiled.machine_newton`.
    kept = work.kept_numbers()
    which = -1
    if kept.age < 0.0:
        which = NEWEST
    elif kept.is_aged > 0.0 and not trust:
        which = NOT_THE_SAME
    rate = kept.rate if trust and which < 0 else 1.0
    fresh = full = False
    last = 0.0
    for count in range(maxiter):
        if which >= 0:
            if not work.renew(which):
                return SINGULAR
            which = -1
        size = work.correct()
        if not size < float("inf"):
            return UNSOLVED
        work.move()
        if count == 0:
            if size > BELIEVED_DECREASE * kept.last_change:
                rate = 1.0
            kept.last_change = size
        residual = work.largest_residual()
        if count == 0:
            tolerance = max(tolerance, forcing * size)
            residual_tolerance = max(residual_tolerance, forcing * residual)
        if size <= LAST_CORRECTION * tolerance and residual <= residual_tolerance:
            return SOLVED
        measured = size / last if last > 0.0 else 0.0
        last = size
        if measured > SLOW_CONTRACTION:
            if size < ROUND_OFF_CORRECTION and work.at_round_off():
                return SOLVED
            if measured > DIVERGING_CONTRACTION:
                if full:
                    return UNSOLVED
                # What an old matrix led to may be near another solution: begin again where the guess was,
                # and if a new matrix there is of no use either, with a new one each time.
                work.restore()
                which, full, fresh, rate, last = HERE, fresh, True, 1.0, 0.0
                continue
            if size * measured / (1.0 - measured) <= tolerance:
                return SOLVED
            if not full:
                full, which = fresh, HERE if fresh else NOT_THE_SAME
                fresh, rate = True, 1.0
                last = size if full else 0.0
                continue
        elif measured > 0.0:
            if measured > AGED_CONTRACTION:
                kept.is_aged = 1.0
            rate = measured if measured > LEAST_CONTRACTION else LEAST_CONTRACTION
            if rate < 0.2 * kept.rate < 0.2:
                rate = 0.2 * kept.rate
            kept.rate = rate
            if size * rate / (1.0 - rate) <= tolerance and residual * rate <= residual_tolerance:
                return SOLVED
        elif rate < 1.0 and size * rate / (1.0 - rate) <= tolerance:
            if residual * rate <= residual_tolerance:
                return SOLVED
        if full:
            which = HERE
    return UNSOLVED


# Relative residual to which GMRES solves for a correction; the Newton iteration then contracts by it.
GMRES_TOLERANCE = 1e-2
GMRES_PRODUCTS = 30  # Products with the matrix after which GMRES gives up.
# Correction, in units of the relative noise of F, below which no iteration gets reliably.
NOISE_CORRECTION = 10.0
# Decrease of the next correction, relative to the damping factor, for which a step is taken.
DAMPING_DECREASE = 0.25
LEAST_DAMPING = 1e-3  # Damping factor below which the damped iteration ends.
MOST_KEPT_MATRICES = 64  # Most matrices that are kept; all are dropped where another one is needed.


class ImplicitSystem(ABC):
    """A nonlinear system for the Newton iteration; its iterate is ``_u`` and ``_du``, saved in ``_saved``."""

    problem: ProblemDAE
    key: Any
    time: float
    u: Any
    du: Any
    _u: Vector
    _du: Vector
    _saved: Vector
    _weights: Vector  # Of the unknowns in the size of a correction.

    @property
    @abstractmethod
    def where(self) -> str:
        """Step and node, for messages."""

    @abstractmethod
    def residual(self) -> Vector:
        """F at the current iterate, shape (N,)."""

    def linearize(self) -> Any:
        """The Jacobian at the current iterate, in the form :meth:`matrix` takes."""
        return linearize(self.problem, self.u, self.du, self.time)

    @abstractmethod
    def matrix(self, linearization: Any) -> Matrix:
        """The iteration matrix, shape (N, N)."""

    def changed(self, correction: Vector, fraction: float) -> Vector:
        """F where ``fraction`` times the correction has been subtracted; the iterate stays where it is."""
        u, du = self._u.copy(), self._du.copy()
        self.move(correction, fraction)
        value = np.array(self.residual())
        self._u[:], self._du[:] = u, du
        return value

    def tolerated(self, tolerance: float) -> Vector:
        """The correction of every unknown whose :meth:`size` is the tolerance, shape (N,)."""
        return tolerance / self._weights.ravel()

    def residual_is_small(self, tolerance: float) -> bool:
        """Whether the residual is as small as such corrections say, see :mod:`dae_sdc.dae.newton_checks`."""
        tolerated, residual = self.tolerated(tolerance), np.array(self.residual())
        left = above_noise(np.abs(residual), self.problem)
        return is_small(left, residual, tolerance, lambda factor, v: self.changed(v * tolerated, factor))

    @abstractmethod
    def move(self, correction: Vector, fraction: float) -> None:
        """Subtract ``fraction`` times the correction from the iterate."""

    def size(self, correction: Vector) -> float:
        """Largest change of u' of the differential unknowns, relative to 1 + max abs(u')."""
        # Algebraic unknowns z are measured by their own change, relative to 1 + max abs(z). For the others u'
        # is what is solved for, and changes of u would be smaller by a factor of dt. Runs to a tolerance may
        # have another norm.
        return largest(self._weights.ravel() * correction)

    @abstractmethod
    def rescale(self) -> None:
        """Measure corrections from here on by the current iterate."""

    def save(self) -> None:
        """Remember the current iterate."""
        self._saved[0], self._saved[1] = self._u, self._du

    def restore(self) -> None:
        """Return to the remembered iterate."""
        self._u[:], self._du[:] = self._saved

    def magnitude(self, linearization: Any) -> Vector:
        """Sum of the absolute terms of each equation, the scale of its round-off; shape (N,)."""
        return np.asarray(linearization.terms(self._u, self._du))

    def remark(self) -> str:
        """End of the message of a failed solve: what is wrong with a given Jacobian, or nothing."""
        return jacobian_note(self.problem, self._u, self._du, self.time)

    def equation(self, i: int) -> str:
        """Name of equation i."""
        return self.problem.equation_names[i]

    def unknown(self, i: int) -> str:
        """Name of unknown i."""
        return self.problem.names[i]


@dataclass
class KeptMatrix:
    """Factors of an iteration matrix, the Jacobian it was made of, and its :class:`KeptNumbers`."""

    factors: Factorization | None = None
    linearization: Any = None
    numbers: Any = field(default_factory=lambda: KeptNumbers(-1.0, 1.0, 0.0, 0.0))


def undetermined(problem: ProblemDAE, u: Vector, du: Vector, t: float, factor: float) -> str:
    """What a singular iteration matrix dF/du' + factor * dF/du leaves open, by name; empty if nothing."""
    # Shapes: u and du (n,).
    try:
        parts = linearize(problem, problem.state(u), problem.state(du), t)
        factorize(parts.mass + factor * parts.stiffness)
    except SingularMatrixError as error:
        return _undetermined(str(error), problem.names.__getitem__, problem.equation_names.__getitem__)
    except EvaluationError:
        pass
    return ""


def _undetermined(place: str, unknown: Callable[[int], str], equation: Callable[[int], str]) -> str:
    """What the place of a singularity in a matrix, if that is known, leaves open."""
    row, column = map(int, place.split(",")) if place else (0, 0)
    return f"it does not determine '{unknown(column)}' (equation '{equation(row)}')" if place else ""


def krylov_correction(system: ImplicitSystem, factors: Factorization, residual: Vector) -> tuple[Vector, int]:
    """The correction for a residual by GMRES, with differences of F, and how many of them it takes."""
    size = max(1.0, largest(system._u.ravel()), largest(system._du.ravel()))

    def product(v: Vector) -> Vector:
        step = ROOT_EPS * size / (largest(v) or 1.0)
        return (system.changed(v, -step) - residual) / step

    return krylov(product, residual, factors, GMRES_TOLERANCE, GMRES_PRODUCTS)


@dataclass(eq=False)
class ModifiedNewton:
    """Newton's method with a matrix for each ``key`` of systems that is kept while it contracts."""

    # An iterate is accepted when rate / (1 - rate) * size(delta) <= tolerance, and rate * max abs(F) <=
    # residual_tolerance, with the measured contraction rate; see :func:`iterate`, whose operations these are.
    # P. Deuflhard, Newton Methods for Nonlinear Problems, Springer (2004), sec. 2.1 and 3.3. E. Hairer,
    # G. Wanner, Solving Ordinary Differential Equations II, Springer (1996), sec. IV.8.

    problem: ProblemDAE  # Gives tolerance, iteration limit and work counters.
    # Whether a contraction rate measured in an earlier solve may end this one: right for sweeps that return
    # to a node in the same step; a Runge-Kutta stage and the first sweep of a step measure their own.
    trust: bool = True
    # Tolerance of the size of the error; ``newton_tol`` of the problem if None.
    tolerance: float | None = None
    # Largest abs(F) at the end besides: sweeps cannot reach a smaller residual than the solves.
    residual_tolerance: float = float("inf")
    # Gives the Jacobian to begin with in each solve, where one serves several systems. Without it the last
    # one evaluated is taken, whatever system that was for.
    guide: Callable[[], Any] | None = None
    # Fraction of the first correction at which to stop, see :func:`dae_sdc.dae.newton.iterate`.
    forcing: float = 0.0
    # Whether the residual is checked when the corrections are small: with a wrong Jacobian it may be large.
    # Sweeps, which measure the residual of the whole step, do without.
    verifies: bool = True
    kept: dict[Any, KeptMatrix] = field(default_factory=dict)  # By the keys of systems.
    matrix: KeptMatrix = field(default_factory=KeptMatrix)  # The one of the last solve.
    _linearization: Any = None
    last_linearization: Any = None  # The Jacobian used last.
    _age: int = 0
    _history: list[float] = field(default_factory=list)

    @property
    def _goal(self) -> float:
        wanted = self.problem.newton_tol if self.tolerance is None else self.tolerance
        noise = self.problem.noise
        return wanted if noise is None else max(wanted, NOISE_CORRECTION * noise.relative)

    def kept_matrix(self, key: Any) -> KeptMatrix | None:
        """The matrix kept for a key; with GMRES the one that serves all."""
        return self.kept.get(None if self.problem.linear_solver == "gmres" else key)

    def forget(self, *keys: Any) -> None:
        """Drop the matrices of these keys, all if there are none, and the last Jacobian."""
        self._linearization = None
        for key in keys or list(self.kept):
            self.kept.pop(key, None)

    def copies(self) -> dict[Any, KeptMatrix]:
        """The matrices with what is known of them now, to be put back in the place of ``kept``."""
        return {key: replace(one, numbers=copy(one.numbers)) for key, one in self.kept.items()}

    @property
    def keeps_state(self) -> bool:
        """Whether :meth:`get_state` is complete: only where all Jacobians and factors are dense."""
        known = [one for one in self.kept.values() if one.factors is not None]
        points = [one.linearization for one in known] + [self._linearization, self.last_linearization]
        first = [point[0] if isinstance(point, list) else point for point in points]
        dense = all(point is None or isinstance(point.mass, np.ndarray) for point in first)
        return dense and all(isinstance(one.factors, DenseLU) for one in known)

    def get_state(self) -> dict[str, Any]:
        """State on which later solves depend, as numbers and arrays, for a checkpoint."""
        used = [one.linearization for one in self.kept.values()]
        used += self._linearization, self.last_linearization
        # Several matrices may share a Jacobian; none has the place -1.
        points = list({id(point): point for point in used if point is not None}.values())
        places = [next((k for k, other in enumerate(points) if other is point), -1) for point in used]
        parts = [point if isinstance(point, list) else [point] for point in points]
        halves = [[(part.mass, part.stiffness) for part in several] for several in parts]
        packed = [(isinstance(point, list), half) for point, half in zip(points, halves, strict=True)]
        kept = []
        for (key, one), place in zip(self.kept.items(), places, strict=False):
            factors = one.factors.parts() if isinstance(one.factors, DenseLU) else None
            kept.append((key, np.frombuffer(one.numbers).tolist(), place, factors))
        return {"points": packed, "kept": kept, "newest": places[-2], "used": places[-1], "age": self._age}

    def set_state(self, memory: Mapping[str, Any]) -> None:
        """Restore what :meth:`get_state` gave, to the last bit."""
        points: list[Any] = []
        for several, halves in memory["points"]:
            parts = [Linearization(mass, stiffness) for mass, stiffness in halves]
            points.append(parts if several else parts[0])
        points.append(None)
        self.kept = {
            key: KeptMatrix(
                None if factors is None else DenseLU.of_parts(*factors), points[place], KeptNumbers(*numbers)
            )
            for key, numbers, place, factors in memory["kept"]
        }
        self._linearization, self.last_linearization = points[memory["newest"]], points[memory["used"]]
        self._age = memory["age"]

    def solve(self, system: ImplicitSystem) -> None:
        """Move the iterate to the solution; raises NewtonError, SingularMatrixError or EvaluationError."""
        system.save()
        self._system = system
        if self.guide is not None:
            self._linearization = None
            self._age += 1
        self._take_kept(system.key)
        history = self._history = list[float]()
        try:
            limits = self._goal, self.residual_tolerance, self.forcing, self.problem.newton_maxiter
            how = iterate(self, self.trust, *limits)
        except SingularMatrixError:
            if len(history) < 2:
                raise
            how = None
        self.problem.work_counters["newton"].niter += len(history)
        if how == SOLVED and (not self.verifies or self._is_small(system)):
            return
        if len(history) == 1 and not history[0] < np.inf:
            self.check_finite(system, self._residual)
        system.restore()
        improve_differences(self.problem)
        try:
            solved = self._damped(system, history)
        except SingularMatrixError:  # met on the way, at a point that is no solution
            solved = False
        if not solved:
            self._fail(system, history)

    def _take_kept(self, key: Any) -> None:
        """Use the matrix kept for a key; with GMRES a single preconditioner serves all keys."""
        kept = self.kept_matrix(key)
        if kept is None:
            if len(self.kept) >= MOST_KEPT_MATRICES:
                self.kept.clear()
            kept = self.kept[None if self.problem.linear_solver == "gmres" else key] = KeptMatrix()
        elif kept.factors is not None:
            self.last_linearization = kept.linearization
        self.matrix = kept

    # --- the operations of dae_sdc.dae.newton ------------------------------------------------------------

    def correct(self) -> float:
        """Evaluate the residual and solve for the correction; its size."""
        self._residual = self._system.residual()
        self._delta = self._solved(self._residual)
        size = self._system.size(self._delta)
        self._history.append(size)
        return size

    def _solved(self, residual: Vector) -> Vector:
        """The correction for a residual at the iterate."""
        system, factors = self._system, self.matrix.factors
        assert factors is not None
        if self.problem.linear_solver != "gmres":
            self.problem.work_counters["solve"].niter += 1
            return factors.solve(residual)
        correction, products = krylov_correction(system, factors, residual)
        self.problem.work_counters["solve"].niter += products + 1
        # One that has not converged shows in the contraction, and brings a new preconditioner.
        return correction

    def move(self) -> None:
        """Subtract the correction."""
        self._system.move(self._delta, 1.0)

    def largest_residual(self) -> float:
        """Largest absolute value of the residual."""
        return largest(self._residual)

    def at_round_off(self) -> bool:
        """Whether the residual at the iterate is nothing but round-off, or below its tolerance."""
        system = self._system
        scale = system.magnitude(self.matrix.linearization)
        # The terms of an equation may all be what rounding leaves of 0.
        least = self.residual_tolerance if self.residual_tolerance < np.inf else 0.0
        allowed = np.maximum(BACKWARD_ERROR * scale, least)
        if self.problem.noise is not None:
            allowed = allowed + NOISE_LIMIT * np.resize(self.problem.noise.absolute, len(scale))
        return bool((np.abs(system.residual()) <= allowed).all())

    def restore(self) -> None:
        """Return to the iterate at which the solve began."""
        self._system.restore()

    def kept_numbers(self) -> Any:
        """What is known of the matrix in use."""
        return self.matrix.numbers

    def newest_age(self) -> float:
        """Number of the newest linearisation; a guide can always give one."""
        known = self._linearization is not None or self.guide is not None
        return float(self._age) if known else -1.0

    def linearize_here(self) -> None:
        """Evaluate the Jacobian at the iterate."""
        self._linearization = self._system.linearize()
        self._age += 1

    def factor(self) -> bool:
        """Factorise; raises SingularMatrixError instead of returning False."""
        if self._linearization is None and self.guide is not None:
            self._linearization = self.guide()
        kept, matrix = self.matrix, self._iteration_matrix()
        self.problem.work_counters["factorization"].niter += 1
        chosen = self.problem.linear_solver
        try:
            kept.factors = factorize(matrix, "auto" if chosen == "gmres" else chosen, like=kept.factors)
        except SingularMatrixError as error:
            raise SingularMatrixError(self._explain_singular(self._system, str(error))) from None
        kept.linearization = self.last_linearization = self._linearization
        return True

    def _iteration_matrix(self) -> Matrix:
        return self._system.matrix(self._linearization)

    def renew(self, which: int) -> bool:
        """Call :func:`factorize_anew`, for which compiled code has a C function of its own."""
        return factorize_anew(self, which)

    @np.errstate(over="ignore")  # which a shorter step cures
    def _damped(self, system: ImplicitSystem, history: list[float]) -> bool:
        """Newton's method with a fresh matrix each time and steps cut until the next correction shrinks."""
        residual = system.residual()
        for _ in range(2 * self.problem.newton_maxiter):
            factorize_anew(self, HERE)
            delta = self._solved(residual)
            size = system.size(delta)
            self.problem.work_counters["newton"].niter += 1
            history.append(size)
            fraction = 1.0
            while True:
                system.move(delta, fraction)
                residual = system.residual()
                next_size = system.size(self._solved(residual))
                if next_size <= (1.0 - DAMPING_DECREASE * fraction) * size:
                    break
                if next_size < ROUND_OFF_CORRECTION and self.at_round_off():
                    return self._is_small(system)
                system.move(delta, -fraction)
                fraction *= 0.5
                if fraction < LEAST_DAMPING:
                    return False
            settled = fraction == 1.0 and next_size <= self._goal
            if settled or fraction * size > 1.0:
                # From a guess much smaller than the solution, round-off alone looks like a large correction.
                # From one far away that has come back a large correction looks like round-off.
                system.rescale()
            if settled and system.size(self._solved(residual)) <= self._goal:
                return self._is_small(system)
        return False

    def verify(self, system: ImplicitSystem) -> None:
        """Raise NewtonError where the residual of a solved system is not as small as the corrections said."""
        if not self._is_small(system):
            self._fail(system, self._history)

    def _is_small(self, system: ImplicitSystem) -> bool:
        """Whether the residual is as small as the corrections say."""
        tolerance = self._goal
        if self.forcing > 0.0 and self._history:
            tolerance = max(tolerance, self.forcing * self._history[0])
        return system.residual_is_small(tolerance)

    def check_finite(self, system: ImplicitSystem, residual: Vector) -> None:
        """Raise EvaluationError for the first equation that is not finite, if there is one."""
        bad = np.flatnonzero(~np.isfinite(residual))
        if bad.size:
            # An eval_f that raises gives NaN in all equations, and none can be blamed.
            where = "" if bad.size == residual.size > 1 else f" in '{system.equation(int(bad[0]))}'"
            raise EvaluationError(
                f"eval_f of {self.problem.name} returned {residual[bad[0]]}{where} at "
                f"t={system.time:.6g}, {system.where}; "
                f"check the initial value and the initial guess, or reduce dt"
            )

    def _explain_singular(self, system: ImplicitSystem, indices: str) -> str:
        blame = _undetermined(indices, system.unknown, system.equation)
        blame = blame and f": {blame}"
        return (
            f"the iteration matrix of {self.problem.name} is singular at t={system.time:.6g}, "
            f"{system.where}{blame}; the index may be higher than this method or Q_Delta can take "
            f"(index stated: {self.problem.index}), or two equations say the same"
        )

    def _fail(self, system: ImplicitSystem, history: list[float]) -> None:
        residual = system.residual()
        self.check_finite(system, residual)
        scaled = np.abs(residual)
        if self.last_linearization is not None:
            scaled /= np.maximum(system.magnitude(self.last_linearization), 1e-300)
        worst = system.equation(int(np.nanargmax(scaled)))
        tail = ", ".join(f"{size:.1e}" for size in history[-4:])
        raise NewtonError(
            f"Newton did not converge at t={system.time:.6g}, {system.where}: "
            f"last corrections {tail} (tolerance {self._goal:.1e}), worst equation '{worst}'; "
            f"reduce dt, or check the initial value and the Jacobian{system.remark()}",
            time=system.time,
            history=history,
            equation=worst,
        )


class NodeSystem(ImplicitSystem):
    """F(t, r + c U, U) = 0 at a node, for integrated U = u' and other z, in views of the stages."""

    def __init__(self, problem: ProblemDAE, n_integrated: int) -> None:
        self.problem = problem
        self.n_integrated = n_integrated
        n = problem.n
        self._saved = np.empty((2, n))
        self.split = problem.n_diff
        self.key: Any = None
        self.tau: Vector | None = None
        self.weights: Vector | None = None
        self.unit = self._grown = 1.0

    def place(self, u: Vector, du: Vector, t: float, c: float, step: tuple[float, float], node: int) -> None:
        """Point the system at a node, whose values it writes into."""
        n_diff = self.problem.n_diff
        self.u, self.du, self._u, self._du = attach(u, n_diff), attach(du, n_diff), u, du
        self.time, self.c = t, c
        self._own = c if c > 0.0 else 1.0
        self.key = c
        self._step, self._node = step, node
        self._weight = self._algebraic_weight = np.inf
        self._grown = 1.0
        if self.weights is None:
            self.rescale()

    @property
    def where(self) -> str:
        return f"node {self._node} of the step from {self._step[0]:.6g} with dt={self._step[1]:.3g}"

    def residual(self) -> Vector:
        value = self.problem.evaluate(self.u, self.du, self.time)
        return value if self.tau is None else value - self.tau

    def matrix(self, linearization: Linearization) -> Matrix:
        if self.split < self.problem.n and linearization.depends_on_derivative(self.split):
            self.split = self.problem.n
        return linearization.iteration_matrix(self.c, self.n_integrated)

    def tolerated(self, tolerance: float) -> Vector:
        if self.weights is not None:
            # Unknowns that are left out have no weight.
            whole = self.problem.run_scales.unknowns + np.abs(self._u)
            least = tolerance / np.maximum(whole, np.finfo(float).tiny)
            return tolerance / (self._own * np.maximum(self._grown * self.unit * self.weights, least))
        allowed = np.full(self.problem.n, tolerance / self._weight)
        if self.split < self.problem.n:
            allowed[self.split :] = tolerance / self._algebraic_weight
        return allowed

    def move(self, correction: Vector, fraction: float) -> None:
        # daxpy works in place, at a third of the time of NumPy's product and difference; not on nothing.
        k, n = self.n_integrated, correction.size
        if k > 0:
            daxpy(correction, self._du, n=k, a=-fraction)
        if self.c > 0.0 or k == n:
            daxpy(correction, self._u, a=-fraction * self.c)
        else:
            daxpy(correction, self._u, n=n - k, offx=k, offy=k, a=-fraction)

    def size(self, correction: Vector) -> float:
        if self.weights is not None:
            return self._own * self._grown * self.unit * largest(correction * self.weights)
        split = self.split
        if split == correction.size:
            return self._weight * largest(correction)
        differential = self._weight * largest(correction[:split])
        algebraic = self._algebraic_weight * largest(correction[split:])
        both = differential + algebraic
        return max(differential, algebraic) if both < np.inf else both

    def rescale(self) -> None:
        if self.weights is not None:
            self._grown = min(1.0, 1.0 / (self.unit * largest(self._u * self.weights) or 1.0))
            return
        split = self.split
        self._weight = 1.0 / (1.0 + largest(self._du[:split]))
        if split < self.problem.n:
            self._algebraic_weight = self._own / (1.0 + largest(self._u[split:]))
