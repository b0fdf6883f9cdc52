"""Linear multistep methods for F(t, u, u') = 0 as pySDC sweepers, each made from its record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.dae.linear import Matrix
from dae_sdc.dae.newton import ImplicitSystem, KeptMatrix, ModifiedNewton
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, StepPolynomial, Vector, attach
from dae_sdc.errors import InputError, SolveError
from dae_sdc.registry import unknown
from dae_sdc.sweepers.coupled import stages_without_guess
from dae_sdc.sweepers.direct import DirectSweeper
from dae_sdc.sweepers.linear_multistep import MULTISTEP, MultistepMethod
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.sweepers.steps_ahead import StepsAhead
from dae_sdc.sweepers.tableaux import radau_iia
from dae_sdc.sweepers.together import PlainStages


@dataclass
class FixedPoint(ModifiedNewton):
    """Fixed-point iteration for u = r + c f(t, u), where F(t, u, u') = 0 determines u' = f(t, u)."""

    # An iteration takes (dF/du')^{-1} F(t, r + c U, U) from U: E. Hairer, G. Wanner, Solving Ordinary
    # Differential Equations II, 2nd ed., 1996, Sect. IV.8. Compiled code does so, and leaves to this what has
    # not converged.

    most: ClassVar[int] = 100  # Iterations after which it is given up.
    rate: float = np.inf  # The contraction of the last iterations.

    def solve(self, system: ImplicitSystem) -> None:
        """Raise the SolveError that tells why there is no solution."""
        self._system, self.matrix = system, KeptMatrix()
        self.linearize_here()
        self.factor()
        raise SolveError(
            f"fixed-point iteration did not converge at t={system.time:.6g}, {system.where}: "
            f"contraction {self.rate:.2g} in the last iterations, where it must be well below 1; "
            f"reduce dt, or use corrector='newton'{system.remark()}"
        )

    def _iteration_matrix(self) -> Matrix:
        matrix: Matrix = self._linearization.iteration_matrix(0.0, self.problem.n)
        return matrix

    def _explain_singular(self, system: ImplicitSystem, indices: str) -> str:
        return (
            f"dF/du' of {self.problem.name} is singular at t={system.time:.6g}: fixed-point "
            f"iteration is for ordinary differential equations; use corrector='newton'"
        )


CORRECTORS = ("newton", "fixed-point")  # Names of the ways to solve implicit equations.
# Names of the methods that take the first k - 1 steps, before a k-step formula has its past.
STARTING_PROCEDURES = ("collocation", "explicit-euler")
CHOICES = {"corrector": CORRECTORS, "starting_procedure": STARTING_PROCEDURES}  # The first for any DAE.

EQUAL_STEPS = 1e-9  # Difference of times and of step sizes, in steps, up to which they are equal.
# Difference of times allowed in addition, relative to the time, for rounding in sums of step sizes.
EQUAL_TIMES = 16.0 * float(np.finfo(float).eps)


class MultistepDAE(DirectSweeper):
    r"""A step of a linear multistep method with constant step size.

    .. math::
        \sum_{j=0}^{k} \alpha_j u_{n-j} = \Delta t \sum_{j=0}^{k} \beta_j u'_{n-j}, \qquad
        F(t_n, u_n, u'_n) = 0

    The past values travel with the state, as its polynomial, so that a repeated step has the same past. A
    step that does not continue the last one (another time, value or step size), or that begins at a
    breakpoint of the problem, begins with the starting procedure.

    Parameters
    ----------
    params : dict
        ``corrector``: "newton" (default; modified Newton method with matrices kept over the steps) or
        "fixed-point" (ODEs only). ``starting_procedure``: "collocation" (default; each of the first k - 1
        steps is a Radau IIA step of enough stages for full order) or "explicit-euler" (ODEs only; limits the
        order to 2).
    level : pySDC.core.level.Level
        The level that steps. pySDC wants ``maxiter`` 1 for direct methods.

    References
    ----------
    K. E. Brenan, S. L. Campbell, L. R. Petzold, Numerical Solution of Initial-Value Problems in
    Differential-Algebraic Equations, SIAM (1996), ch. 3.

    Examples
    --------
    >>> ds.solve("pendulum", sweeper="bdf3", dt=0.01).success
    True
    """

    method: ClassVar[MultistepMethod]
    family = "multistep method"
    corrector: str
    starting_procedure: str
    _solver: PlainStages

    def __init__(self, params: dict[str, Any], level: Any) -> None:
        given = dict(params)
        for option, known in CHOICES.items():
            value = given.pop(option, known[0])
            if value not in known:
                raise InputError(unknown(option, value, known))
            if value != known[0] and option not in self.options:
                raise InputError(f"{option} has no effect on '{self.method.name}'; leave it out")
            setattr(self, option, value)
        super().__init__(given, level)
        method, k = self.method, self.method.steps
        # At least two rows, which show that the past is one of this class; k + 1 values give a first guess.
        self._kept_rows = max(2, k if method.explicit else k + 1)
        self._weights = {count: weights_of(method, count) for count in {k, self._kept_rows}}
        self._own = np.array([[method.beta[0] / method.alpha[0]]])

    @classmethod
    def check_problem(cls, problem: ProblemDAE) -> None:
        """Raise InputError for a DAE where the method is one for ODEs."""
        if cls.method.uses_slopes and not is_ordinary(problem):
            raise _needs_ordinary(f"'{cls.method.name}'", problem, "bdf1 to bdf6")

    @classmethod
    def summary(cls) -> list[str]:
        """A description of the method, line by line."""
        _, *orders = super().summary()
        method = cls.method
        kind = "explicit" if method.explicit else "implicit"
        number = f"{method.steps} step{'s' if method.steps > 1 else ''}"
        return [f"{number}, {kind}, order {method.order}, constant step size", *orders]

    def _bind(self, problem: ProblemDAE, *_: Any) -> None:
        if not is_ordinary(problem):
            for option, known in CHOICES.items():
                if (chosen := getattr(self, option)) != known[0]:
                    raise _needs_ordinary(f"{option}='{chosen}'", problem, f"{option}='{known[0]}'")
        solver = None if self.corrector == "newton" else FixedPoint(problem)
        self._solver = PlainStages(problem, self._own, np.ones(1), False, self._weights, solver)

    def steps_ahead(self, value: Any, time: float) -> StepsAhead | None:
        """See :class:`DirectMethod`."""
        dt = self.level.params.dt
        known = self._continued(value, time, dt)
        goes = known is not None and known.dt == dt and len(known.nodes) == self._kept_rows
        return super().steps_ahead(value, time) if goes else None

    def _step(self) -> None:
        L, k = self.level, self.method.order
        values, slopes, h = self._past()
        count, start = len(values), L.time + (L.dt - h)
        if count >= self.method.steps:
            known_slopes = np.nan_to_num(slopes)  # unknown ones have no weight
            past = StepPolynomial(start - h, h, past_nodes(count), values, known_slopes, L.prob.n)
            u, du = (rows[-1] for rows in self._solver.step(L.u[0], past, start, h))
        elif self.starting_procedure == "explicit-euler":
            u, du = self._solved_for_slope(values[-1] + h * slopes[-1], slopes[-1].copy(), L.time + L.dt)
        else:
            # The error of s stages is of order s + 1 in stiff components, s in velocities, s - 1 in
            # multipliers.
            tableau = radau_iia(max(k, 2) if L.prob.index in (0, 1) else k + 2)
            stages = stages_without_guess(L.prob, tableau, L.u[0], L.time, L.dt)
            u, du = stages.u[-1].copy(), stages.du[-1].copy()
        if len(values) == 1 and np.isnan(slopes[0]).any():
            slopes = du[None]  # u' at the start is unknown; that at the end stands in
        rows = self._kept_rows
        values, slopes = np.vstack([values, u])[-rows:], np.vstack([slopes, du])[-rows:]
        nodes = past_nodes(len(values))
        self._left = StepPolynomial(start, h, nodes, values, slopes, L.prob.n)
        L.u[1], L.f[1] = attach(u, L.prob.n_diff), attach(du, L.prob.n_diff)

    def _continued(self, start: MeshDAE, time: float, dt: float) -> StepPolynomial | None:
        """The past values up to a state that a step from there continues; None where it begins anew."""
        known, slack = start.polynomial, EQUAL_STEPS * dt + EQUAL_TIMES * abs(time)
        if not isinstance(known, StepPolynomial) or known.nodes != past_nodes(len(known.nodes)):
            return None
        late, longer = abs(known.time + known.dt - time), abs(known.dt - dt)
        follows = late <= slack and longer <= slack and np.array_equal(known.value[-1], start)
        # A formula that reaches across a jump of F, or a kink, has no order.
        if follows and not len(self.level.prob.breakpoints(time - dt + slack, time + slack)):
            return known
        return None

    def _past(self) -> tuple[Vector, Vector, float]:
        """Values and derivatives at equal distances up to the start, oldest first, and the distance."""
        L, start = self.level, self.level.u[0].view(np.ndarray)
        known = self._continued(L.u[0], L.time, L.dt)
        if known is not None:
            # The distance of the past, so that step sizes that differ by rounding share a matrix.
            return known.value[-self._kept_rows :], known.derivative[-self._kept_rows :], known.dt
        # The start is the only row.
        before = L.u[0].polynomial
        slope = L.f[0].view(np.ndarray) if before is not None else np.full(L.prob.n, np.nan)
        if self.method.uses_slopes or self.starting_procedure == "explicit-euler":
            guess = np.zeros(L.prob.n) if before is None else slope.copy()
            _, slope = self._solved_for_slope(start.copy(), guess, L.time)
            L.f[0] = attach(slope, L.prob.n_diff)
        return start[None], slope[None], float(L.dt)

    def _solved_for_slope(self, u: Vector, guess: Vector, t: float) -> tuple[Vector, Vector]:
        """``u`` and the u' that solves F(t, u, u') = 0, an ordinary differential equation, from ``guess``."""
        L = self.level
        system = self._solver.system
        system.place(u, guess, t, 0.0, (L.time, L.dt), 1)
        ModifiedNewton(L.prob).solve(system)
        return u, guess

    def _end_step(self) -> None:
        """u at the end of the step, with the past that the next step needs."""
        L, left = self.level, self._left
        # Hooks and convergence controllers may have assigned other values to the level.
        left.value[-1], left.derivative[-1] = L.u[1], L.f[1]
        L.uend = L.prob.dtype_u(L.u[1])
        L.uend.polynomial = left


def is_ordinary(problem: ProblemDAE) -> bool:
    """Whether a problem is an ordinary differential equation by its stated index or its lack of z."""
    return problem.index == 0 or (problem.index is None and problem.n_alg == 0)


def _needs_ordinary(what: str, problem: ProblemDAE, other: str) -> InputError:
    """The error for what a problem is given that is no ordinary differential equation."""
    index = "no stated index" if problem.index is None else f"index {problem.index}"
    return InputError(
        f"{what} is for ordinary differential equations, index 0; {problem.name} has {index} and "
        f"{problem.n_alg} algebraic unknowns; use {other}"
    )


@lru_cache(maxsize=32)
def past_nodes(count: int) -> tuple[float, ...]:
    """Times of ``count`` past values, oldest first, in step sizes from the start of the last step."""
    return tuple(float(i + 2 - count) for i in range(count))


def weights_of(method: MultistepMethod, count: int) -> Vector:
    """Weights of past values and of their u' in a formula, oldest first, and of values in a guess, (3, P)."""
    weights, k = np.zeros((3, count)), method.steps
    weights[0, count - k :] = (-method.alpha[1:] / method.alpha[0])[::-1]
    weights[1, count - k :] = (method.beta[1:] / method.alpha[0])[::-1]
    weights[2] = [(-1.0) ** j * comb(count, j + 1) for j in reversed(range(count))]
    return weights


@checked()
def multistep(method: MultistepMethod) -> type[MultistepDAE]:
    """The sweeper class of a multistep method, for instance one of your own.

    Parameters
    ----------
    method : MultistepMethod
        The record of the method.

    Returns
    -------
    type
        A subclass of :class:`MultistepDAE` named ``method.class_name``.

    Raises
    ------
    InputError
        If ``method`` is no :class:`MultistepMethod`.

    Examples
    --------
    >>> ds.solve("pendulum", sweeper=ds.multistep(ds.MULTISTEP["bdf3"]), dt=0.01).success
    True
    """
    takes = {"corrector": not method.explicit, "starting_procedure": method.steps > 1}
    return method.sweeper(MultistepDAE, options=tuple(option for option, taken in takes.items() if taken))


for _name, _method in MULTISTEP.items():
    # The classes are attributes of this module, so that they can be imported and pickled by name.
    globals()[_method.class_name] = _sweeper = multistep(_method)
    SWEEPERS.add(_name, _sweeper)

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[MultistepDAE]: ...
