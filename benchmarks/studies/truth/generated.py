"""A generated DAE with all that is known of it, as a problem and as a model, and the kinds of its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.runs import Finding
from benchmarks.studies.truth.draw import Generator, Numbers, Signals, Symbols, Vector
from dae_sdc.registry import Registry

# H(u, u', t, functions), an array of n terms of numbers or of expressions
Terms = Callable[[Any, Any, Any, Any], Any]
NUMBERS, SYMBOLS = Numbers(), Symbols()


@dataclass(frozen=True, eq=False)
class Units:
    """Numbers by which unknowns and time of a DAE are multiplied when they are told in other units."""

    unknowns: Vector  # shape (n,): Factor of each unknown
    time: float = 1.0  # Factor of time


@dataclass(frozen=True, eq=False)
class Generated:
    r"""The DAE H(u, u', t) - H(u_e, u_e', t) = 0 with the solution u_e, rows mixed."""

    terms: Terms  # H(u, u', t, functions), shape (n,): polymorphic in numbers and expressions
    solution: Signals  # shape (n,): u_e(t)
    n_diff: int  # Differential unknowns come first
    variable_index: tuple[int, ...]
    dof: int  # Number of values that are free at the start
    # mix(F, u, t, functions) makes equivalent equations of the rows F
    mix: Callable[[Any, Any, Any, Any], Any] | None = None
    # c(u, t), all constraints and hidden constraints of u at time t, shape (n - dof,); where there are none,
    # those of equations whose rows behind the first n_diff have no derivatives
    constraints: Callable[[Any, float], Any] | None = None
    # What theory says of fixed steps: "table" (the orders of the records hold) or "one" (order 1 at index
    # 1, nothing above)
    orders: str = "table"
    interval: tuple[float, float] = (0.0, 2.0)
    # problem_class(generated) makes a problem of another type of the same unknowns, which knows its index
    problem_class: Callable[[Any], ds.ProblemDAE] | None = None
    family: str = ""
    seed: int = 0

    @property
    def n(self) -> int:
        return len(self.variable_index)

    @property
    def index(self) -> int:
        """Differentiation index: 0 of an ordinary differential equation, else that of its last unknown."""
        return max(self.variable_index) if self.dof < self.n else 0

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f"x{i}" for i in range(self.n))

    @cached_property
    def slope(self) -> Signals:
        return self.solution.derivative()

    @property
    def tau(self) -> float:
        """Time scale of the solution: that of its fastest wave, sin(t / tau)."""
        return 1.0 / self.solution.fastest

    def residual(self, u: Any, du: Any, t: Any, functions: Any = NUMBERS) -> Any:
        """F(t, u, u'), shape (n,)."""
        exact = functions.signal(self.solution, t), functions.signal(self.slope, t)
        rows = self.terms(u, du, t, functions) - self.terms(*exact, t, functions)
        return rows if self.mix is None else self.mix(rows, u, t, functions)

    def problem(self, declared: bool = True, units: Units | None = None) -> ds.ProblemDAE:
        """The DAE as a problem, which knows its index or does not."""
        if self.problem_class is not None and units is None:
            return self.problem_class(self)
        known = (self.index, self.variable_index) if declared else ()
        return GeneratedProblem(Told(self, units or Units(np.ones(self.n)), *known))

    def model(self) -> Any:
        model = ds.Model(f"{self.family}-{self.seed}", interval=self.interval)
        unknowns = model.variables(list(self.names), start=self.solution(self.interval[0]).tolist())
        u = np.array(unknowns, dtype=object)
        du = np.array([model.der(x) for x in unknowns], dtype=object)
        model.equations(*self.residual(u, du, model.t, SYMBOLS))
        return model

    def reordered(self, order: Sequence[int]) -> Generated:
        """The same DAE with its unknowns in another order; ``order`` holds their present places."""
        back, constraints, mix = np.argsort(order), self.constraints, self.mix
        return replace(
            self,
            terms=lambda u, du, t, functions: self.terms(u[back], du[back], t, functions),
            solution=self.solution[list(order)],
            variable_index=tuple(self.variable_index[j] for j in order),
            constraints=constraints and (lambda u, t: constraints(np.asarray(u)[back], t)),
            mix=mix and (lambda rows, u, t, functions: mix(rows, u[back], t, functions)),
        )


def derivative(function: Any, v: Any) -> Any:
    """Jacobian of a function of an array by complex steps."""
    directions = np.eye(len(v))
    return np.array([np.imag(function(v + 1e-30j * direction)) / 1e-30 for direction in directions]).T


def differences(function: Any, v: Any) -> Any:
    """Jacobian of a function of an array by central differences of order 6."""
    step, columns = 5e-3, []
    for direction in np.eye(len(v)):
        odd = [function(v + k * step * direction) - function(v - k * step * direction) for k in (1, 2, 3)]
        columns.append((45.0 * odd[0] - 9.0 * odd[1] + odd[2]) / (60.0 * step))
    return np.array(columns).T


def constraints_of(terms: Terms, solution: Signals, p: int, hidden: int) -> Callable[[Any, float], Any]:
    """The rows behind the first p, without derivatives in them, and ``hidden`` derivatives of these in time.

    The rows before are solved for the derivatives of the first p unknowns, on which alone all but the last of
    these derivatives may depend.
    """
    slope, still = solution.derivative(), np.zeros(len(solution.entries))

    def bound(u: Any, t: Any) -> Any:
        return (terms(u, still, t, NUMBERS) - terms(solution(t), still, t, NUMBERS))[p:]

    def motion(u: Any, t: Any) -> Any:
        def rows(du: Any) -> Any:
            return terms(u, np.concatenate([du, still[p:]]), t, NUMBERS)[:p]

        rest = rows(still[:p]) - terms(solution(t), slope(t), t, NUMBERS)[:p]
        return np.concatenate([-np.linalg.solve(derivative(rows, still[:p]), rest), still[p:]])

    def rate(u: Any, t: Any) -> Any:
        return np.imag(bound(u + 1e-30j * motion(u, t), t + 1e-30j)) / 1e-30

    def second_rate(u: Any, t: Any) -> Any:
        du = motion(u, t)
        return np.ravel(differences(lambda s: rate(u + s[0] * du, t + s[0]), np.zeros(1)))

    every = (bound, rate, second_rate)[: hidden + 1]
    return lambda u, t: np.concatenate([rows(np.asarray(u), t) for rows in every])


@dataclass(frozen=True, eq=False)
class Told:
    """A generated DAE and what its user tells of it."""

    given: Generated
    units: Units
    index: int | None = None
    indices: tuple[int, ...] | None = None  # Of the unknowns

    def residual(self, t: Any, u: Any, du: Any) -> Any:
        """F(t, u, u') in these units."""
        second, scale = self.units.time, self.units.unknowns
        return self.given.residual(u / scale, du * (second / scale), t / second)

    def exact(self, times: Vector) -> Vector:
        """The solution at times of shape (K,), shape (K, n)."""
        return np.array([self.given.solution(t / self.units.time) for t in times]) * self.units.unknowns


class PlainProblem(ds.ProblemDAE):
    """A generated DAE as a class with ``eval_f``, names of its unknowns, and what is told."""

    def __init__(self, told: Told, n_diff: int | None = None, **settings: Any) -> None:
        n = told.given.n
        super().__init__(n if n_diff is None else n_diff, 0 if n_diff is None else n - n_diff, **settings)
        self.told, self.names = told, told.given.names
        if told.index is not None:
            self.index = told.index
        if told.indices is not None:
            self.variable_index = told.indices

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return self.told.residual(t, np.asarray(u), np.asarray(du))


class GeneratedProblem(PlainProblem):
    """One that knows its interval and its solution."""

    def __init__(self, told: Told, **settings: Any) -> None:
        super().__init__(told, told.given.n_diff, **settings)
        start, end = told.given.interval
        self.interval = start * told.units.time, end * told.units.time

    def u_exact(self, t: float) -> Any:
        return self.told.exact(np.array([t]))[0]

    def du_exact(self, t: float) -> Any:
        units = self.told.units
        return self.told.given.slope(t / units.time) * units.unknowns / units.time


# Every family by its name: a function that makes a DAE from a seed
FAMILIES: Registry[Callable[[int], Generated]] = Registry("family", "benchmarks.studies.truth.families")


def family(name: str, *key: int) -> Callable[[Callable[[Generator], Generated]], Any]:
    """Decorator that enters what makes DAEs from random numbers, which are those of a seed and a key."""

    def enter(make: Callable[[Generator], Generated]) -> Callable[[Generator], Generated]:
        def generate(seed: int) -> Generated:
            dae = make(np.random.default_rng([seed, *key]))
            hidden = max(dae.index - 1, 0)
            constraints = dae.constraints or constraints_of(dae.terms, dae.solution, dae.n_diff, hidden)
            return replace(dae, family=name, seed=seed, constraints=constraints)

        FAMILIES.add(name, generate)
        return make

    return enter


@dataclass(frozen=True)
class Kind:
    """Runs besides solves: structure, initialisation, events, units, plain functions."""

    run: Callable[..., Finding]  # run(family, seed, *rest of the line) -> Finding
    plan: Callable[[list[str], range, bool], Iterable[str]]  # plan(families, seeds, quick) -> lines
    summary: Callable[[Any], list[str]] = lambda rows: []  # summary(rows) -> lines of the report
    families: Registry[Any] = FAMILIES  # The families that it takes


# Every kind by its name, which stands third in its lines
KINDS: Registry[Kind] = Registry("kind", "benchmarks.studies.truth.checks")
