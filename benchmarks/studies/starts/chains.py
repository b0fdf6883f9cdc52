"""Generated DAEs in a row, told in unknowns that couple neighbours and bend some values.

With members w_i of a family, w = phi(T x): T = I + C couples the unknowns of every second member to those of
its neighbours, phi is x, a square with a second solution, or an exponential function, and is x at the truth
but for a constant. The rows of the other members get those of their neighbours besides. So all constraints
and hidden constraints of x are those of the members at w.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.linalg import block_diag, null_space

import dae_sdc as ds
from benchmarks.studies.truth.draw import Generator
from benchmarks.studies.truth.generated import FAMILIES, NUMBERS, SYMBOLS, differences
from benchmarks.studies.truth.signals import Vector
from dae_sdc.model.functions import FunctionProblem

COUPLING = 0.25
SAME, SQUARE, EXPONENTIAL = range(3)
LEAST = 0.1  # Part of a direction that must be new for a value to count as free besides others
RANK = 1e-7  # Singular values below this part of the largest are zero


class Chain:
    """Members of a family, and a point where all their equations hold; as they are if not ``mixed``."""

    def __init__(self, family: str, seed: int, count: int = 1, mixed: bool = True) -> None:
        rng = np.random.default_rng([seed, count, 21, *family.encode()])
        self.name = f"{family}-{seed}"
        self.members = [FAMILIES[family](seed + k) for k in range(count)]
        self.t = self.members[0].interval[0]
        ends = np.cumsum([member.n for member in self.members]).tolist()
        self.parts = [slice(end - member.n, end) for member, end in zip(self.members, ends, strict=True)]
        self.n, self.dof = ends[-1], sum(member.dof for member in self.members)
        self.index = max(member.index for member in self.members)
        self.linear = family.startswith(("pencil", "varying"))
        self.pairs, self.rows = self._coupled(rng)
        shape = rng.choice((SAME, SQUARE, EXPONENTIAL), self.n, p=(0.7, 0.15, 0.15))
        shape[[j for j, _ in self.pairs] if mixed else slice(None)] = SAME
        self.square, self.exponential = (np.flatnonzero(shape == kind) for kind in (SQUARE, EXPONENTIAL))
        self.w0 = np.concatenate([member.solution(self.t) for member in self.members])
        self.v0 = self.w0.copy()
        self.v0[self.square] = rng.choice((-1.0, 1.0), len(self.square)) * rng.uniform(0.8, 2.0)
        places = np.arange(self.n)
        self.order, self.row_order = (rng.permutation(places) if mixed else places for _ in range(2))
        self.names = tuple(f"x{j}" for j in range(self.n))
        slopes = np.concatenate([member.slope(self.t) for member in self.members])
        self.u, self.du = (_added(v, self.pairs, -COUPLING)[self.order] for v in (self.v0, slopes))

    def _coupled(self, rng: Generator) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Pairs of unknowns, and of rows of one kind, of neighbours."""
        moved = []  # which rows have derivatives in them
        for member in self.members:
            rows_of = partial(member.residual, member.solution(self.t), t=self.t)
            moved.append(np.abs(differences(rows_of, member.slope(self.t))).max(axis=1) > 0.0)
        unknowns, rows = [], []
        for k in range(1, len(self.members)):
            even, odd = sorted((k - 1, k), key=lambda i: i % 2)
            first, second = self.members[even], self.members[odd]
            at, beside = self.parts[even].start, self.parts[odd].start
            unknowns += [(at + j, beside + j) for j in range(min(first.n_diff, second.n_diff))]
            for j in range(min(first.n, second.n)):
                if moved[even][j] == moved[odd][j] and rng.random() < 0.5:
                    rows.append((beside + j, at + j))
        return unknowns, rows

    def by_name(self, values: Vector) -> dict[str, float]:
        return dict(zip(self.names, values.tolist(), strict=True))

    def bent(self, x: Any, dx: Any, functions: Any = NUMBERS) -> tuple[Any, Any]:
        """The unknowns of the members and their derivatives."""
        back = np.argsort(self.order)
        v, dv = (_added(np.asarray(values)[back], self.pairs, COUPLING) for values in (x, dx))
        w, dw = v.copy(), dv.copy()
        for j in self.square:
            w[j] = float(self.w0[j]) + (v[j] ** 2 - float(self.v0[j]) ** 2) / (2.0 * float(self.v0[j]))
            dw[j] = v[j] / float(self.v0[j]) * dv[j]
        for j in self.exponential:
            grown = functions.exp(v[j : j + 1] - float(self.v0[j]))[0]
            w[j], dw[j] = float(self.w0[j]) + grown - 1.0, grown * dv[j]
        return w, dw

    def residual(self, t: Any, x: Any, dx: Any, functions: Any = NUMBERS) -> Any:
        """F(t, x, x')."""
        w, dw = self.bent(x, dx, functions)
        parts = zip(self.members, self.parts, strict=True)
        rows = functions.stack([member.residual(w[part], dw[part], t, functions) for member, part in parts])
        return _added(rows, self.rows, COUPLING)[self.row_order]

    def here(self, x: Any, dx: Any) -> Any:
        return np.asarray(self.residual(self.t, x, dx))

    def _constrained(self, x: Vector) -> list[tuple[Callable[[Vector, float], Vector], Vector]]:
        w, _ = self.bent(x, np.zeros(self.n))
        parts = zip(self.members, self.parts, strict=True)
        return [(member.constraints, w[part]) for member, part in parts if member.constraints is not None]

    def constraints(self, x: Vector, t: float) -> Vector:
        return np.concatenate([constraints(w, t) for constraints, w in self._constrained(x)])

    def slopes(self, x: Vector) -> Vector:
        """Their Jacobian, shape (n - dof, n)."""
        blocks = [differences(lambda v, c=c: c(v, self.t), w) for c, w in self._constrained(x)]
        turn = np.array([self.bent(x, direction)[1] for direction in np.eye(self.n)]).T
        return np.asarray(block_diag(*blocks) @ turn)

    def rates(self, x: Vector, dx: Vector) -> Vector:
        return np.ravel(differences(lambda s: self.constraints(x + s[0] * dx, self.t + s[0]), np.zeros(1)))

    @cached_property
    def moved(self) -> Vector:
        """Which unknowns have a derivative in the equations."""
        slopes = differences(lambda dx: self.here(self.u, dx), self.du)
        return np.asarray(np.abs(slopes).max(axis=0) > 1e-9)

    def free_directions(self, with_rates: bool) -> Vector:
        """A basis of what constraints leave of the values, and of the derivatives besides, as columns."""
        if self.dof == 0:
            return np.zeros((2 * self.n if with_rates else self.n, 0))
        if not with_rates:
            return np.asarray(null_space(self.slopes(self.u), RANK)) if self.dof < self.n else np.eye(self.n)

        def conditions(both: Vector) -> Vector:
            x, dx = both[: self.n], both[self.n :]
            return np.concatenate([self.here(x, dx), self.constraints(x, self.t), self.rates(x, dx)])

        return np.asarray(null_space(differences(conditions, np.concatenate([self.u, self.du])), 1e-6))

    def problem(self, declared: bool) -> ds.ProblemDAE:
        """The DAE as a plain function, or as a class that declares its index."""
        problem = FunctionProblem(lambda t, u, du: self.residual(t, u, du), self.n, self.names)
        if declared:
            problem.index = self.index
        problem.interval = self.members[0].interval
        return problem

    def model(self, guesses: dict[str, float]) -> Any:
        model = ds.Model(self.name, interval=self.members[0].interval)
        unknowns = model.variables(list(self.names), start=[guesses.get(name) for name in self.names])
        slopes = np.array([model.der(x) for x in unknowns], dtype=object)
        model.equations(*self.residual(model.t, np.array(unknowns, dtype=object), slopes, SYMBOLS))
        return model


def _added(values: Any, pairs: list[tuple[int, int]], factor: float) -> Any:
    """Values, to some of which others are added."""
    sums = np.array(values)
    for j, k in pairs:
        sums[j] = sums[j] + factor * values[k]
    return sums


def independent(directions: Vector, places: Vector, most: int) -> list[int]:
    """Places whose values may be chosen together, in the order in which they are tried."""
    rest, chosen = directions.copy(), list[int]()
    for j in places.tolist():
        size = float(np.linalg.norm(rest[j]))
        if len(chosen) < most and size > LEAST:
            chosen.append(j)
            rest -= np.outer(rest @ rest[j], rest[j]) / size**2
    return chosen
