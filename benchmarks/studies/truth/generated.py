"""A generated DAE with all that is known of it, as a problem and as a model, and the kinds of its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy as sp

import dae_sdc as ds
from benchmarks.measuring.outcomes import Finding
from benchmarks.studies.truth.signals import Numbers, Signals, Symbols
from dae_sdc.registry import Registry

Vector = npt.NDArray[np.float64]
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

    family: str  # Its family
    seed: int  # What it was drawn from
    terms: Terms  # H(u, u', t, functions), shape (n,): polymorphic in numbers and expressions
    solution: Signals  # shape (n,): u_e(t)
    n_diff: int  # Number of differential unknowns, which come first
    index: int  # Differentiation index
    variable_index: tuple[int, ...]  # Index of each unknown
    dof: int  # Number of values that are free at the start
    # mix(F, u, t, functions) makes equivalent equations of the rows F
    mix: Callable[[Any, Any, Any, Any], Any] | None = None
    # c(u, t), all constraints and hidden constraints of u at time t, shape (n - dof,)
    constraints: Callable[[Any, float], Any] | None = None
    # What theory says of fixed steps: "table" (the orders of the records hold) or "one" (order 1 at index
    # 1, nothing above)
    orders: str = "table"
    interval: tuple[float, float] = (0.0, 2.0)  # Start and end
    # problem_class(generated, declared) makes a problem of another type of the same unknowns
    problem_class: Callable[..., ds.ProblemDAE] | None = field(default=None)

    @property
    def n(self) -> int:
        return len(self.variable_index)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f"x{i}" for i in range(self.n))

    @cached_property
    def slope(self) -> Signals:
        """u_e'(t)."""
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
            return self.problem_class(self, declared)
        return GeneratedProblem(self, declared, units)

    def model(self, units: Units | None = None, start: Vector | None = None) -> Any:
        """The DAE as a model that begins at the exact solution, or at ``start``."""
        units = units or Units(np.ones(self.n))
        t0, t_end = (t * units.time for t in self.interval)
        model = ds.Model(f"{self.family}-{self.seed}", interval=(t0, t_end))
        values = self.solution(self.interval[0]) if start is None else start
        unknowns = model.variables(list(self.names), start=(values * units.unknowns).tolist())
        sizes, second = [_number(size) for size in units.unknowns], _number(units.time)
        scaled = [x / size for x, size in zip(unknowns, sizes, strict=True)]
        slopes = [model.der(x) * second / size for x, size in zip(unknowns, sizes, strict=True)]
        u, du = np.array(scaled, dtype=object), np.array(slopes, dtype=object)
        model.equations(*self.residual(u, du, model.t / second, SYMBOLS))
        return model

    def with_rows(self, mix: Callable[[Any, Any, Any, Any], Any], family: str) -> Generated:
        """The same DAE with other, equivalent equations."""
        return replace(self, mix=mix, family=family)

    def reordered(self, order: Sequence[int]) -> Generated:
        """The same DAE with its unknowns in another order; ``order`` holds their present places."""
        back, constraints, mix = np.argsort(order), self.constraints, self.mix
        changes: dict[str, Any] = {}
        if constraints is not None:
            changes["constraints"] = lambda u, t: constraints(np.asarray(u)[back], t)
        if mix is not None:
            changes["mix"] = lambda rows, u, t, functions: mix(rows, u[back], t, functions)
        return replace(
            self,
            terms=lambda u, du, t, functions: self.terms(u[back], du[back], t, functions),
            solution=self.solution[list(order)],
            variable_index=tuple(self.variable_index[j] for j in order),
            **changes,
        )


def _number(value: float) -> Any:
    return sp.Rational(repr(float(value)))


class GeneratedProblem(ds.ProblemDAE):
    """A generated DAE as a user would write it: ``eval_f``, and what is declared."""

    def __init__(
        self, generated: Generated, declared: bool = True, units: Units | None = None, **settings: Any
    ) -> None:
        super().__init__(generated.n_diff, generated.n - generated.n_diff, **settings)
        self.generated = generated
        self.scale = np.ones(generated.n) if units is None else units.unknowns
        self.second = 1.0 if units is None else units.time
        if declared:
            self.index = generated.index
            self.variable_index = generated.variable_index
        self.names = generated.names
        self.interval = (generated.interval[0] * self.second, generated.interval[1] * self.second)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        own = np.asarray(u) / self.scale
        slope = np.asarray(du) * self.second / self.scale
        return self.generated.residual(own, slope, t / self.second)

    def u_exact(self, t: float) -> Any:
        return self.generated.solution(t / self.second) * self.scale

    def du_exact(self, t: float) -> Any:
        return self.generated.slope(t / self.second) * self.scale / self.second


# Every family by its name: a function that makes a DAE from a seed
FAMILIES: Registry[Callable[[int], Generated]] = Registry("family", "benchmarks.studies.truth.families")


@dataclass(frozen=True)
class Kind:
    """Runs besides solves: structure, initialisation, events, units, plain functions."""

    run: Callable[..., Finding]  # run(family, seed, *rest of the line) -> Finding
    plan: Callable[[list[str], range, bool], Iterable[str]]  # plan(families, seeds, quick) -> lines
    summary: Callable[[Any], list[str]] = lambda rows: []  # summary(rows) -> lines of the report
    families: Registry[Any] = FAMILIES  # The families that it takes


# Every kind by its name, which stands third in its lines
KINDS: Registry[Kind] = Registry("kind", "benchmarks.studies.truth.checks")
