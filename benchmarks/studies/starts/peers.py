"""The same square equations by SciPy's root, and starts by IDACalcIC of SUNDIALS."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
from scipy.optimize import root

from benchmarks.measuring.clock import Spent, clocked, in_turn
from benchmarks.measuring.races import Outcome, carry_out
from benchmarks.measuring.runs import Finding
from benchmarks.studies.truth.draw import Vector
from dae_sdc.errors import InputError
from dae_sdc.run.sundials import MODULE, installed

DENSE_MOST = 100  # Unknowns up to which root has a dense matrix
SOLVED = 1e-6  # Part of the terms of equations that may be left where a peer has solved them
LONGEST = 5.0  # Seconds that a peer may take, each of the repetitions of a start


def terms(residual: Callable[[Any, Any], Any], u: Vector, du: Vector) -> Vector:
    """Sizes of the terms of equations, |dF/du| |u| + |dF/du'| |u'|, by complex steps."""
    both, n = np.concatenate([u, du]).astype(complex), len(u)
    sizes = np.full(n, np.finfo(float).tiny)
    for j in np.flatnonzero(both):
        moved = both.copy()
        moved[j] += 1e-30j
        rows = np.asarray(residual(moved[:n], moved[n:]), dtype=complex)
        sizes += np.abs(rows.imag) / 1e-30 * abs(both[j])
    return sizes


@dataclass
class Square:
    """Equations F(u, u') = 0 with as many values and derivatives to be found, and guesses of all."""

    residual: Callable[[Any, Any], Any]
    u: Vector  # Guesses
    du: Vector
    values: Any  # Which are to be found
    rates: Any

    def rows(self, u: Vector, du: Vector) -> Vector:
        return np.asarray(self.residual(u, du), dtype=float)

    def by_root(self) -> Vector:
        """The equations after SciPy's root."""
        k = int(self.values.sum())

        def rows(z: Vector) -> Vector:
            u, du = self.u.copy(), self.du.copy()
            u[self.values], du[self.rates] = z[:k], z[k:]
            return self.rows(u, du)

        start = np.concatenate([self.u[self.values], self.du[self.rates]])
        return rows(root(rows, start, method="hybr" if len(start) <= DENSE_MOST else "krylov").x)

    def by_ida(self) -> Vector:
        """The equations after IDACalcIC, which finds all values, or algebraic ones and derivatives."""
        steady = bool(self.values.all()) and not self.rates.any()
        if not steady and not np.array_equal(~self.values, self.rates):
            raise InputError("IDA holds values that have a derivative, or all derivatives")

        def residual(t: float, y: Vector, yp: Vector, res: Vector) -> None:
            res[:] = self.rows(y, yp)

        how: dict[str, Any] = {"calc_initcond": "y0" if steady else "yp0", "rtol": 1e-8, "atol": 1e-10}
        how |= {"algebraic_idx": np.flatnonzero(self.values)} if self.values.any() and not steady else {}
        start = importlib.import_module(MODULE).ida.IDA(residual, **how).init_step(0.0, self.u, self.du)
        return self.rows(np.asarray(start.y), np.asarray(start.yp))


def compared(start: Callable[[], Finding], square: Square | None, about: Any, repetitions: int) -> Finding:
    """A start with its time and, in turn with it, those of peers on the same equations."""

    def by(peer: Callable[[], Vector]) -> Outcome:
        spent, end = clocked(peer)
        return Outcome(spent.processor, end)

    runs: dict[str, Callable[[], Any]] = {"": lambda: clocked(start)}
    if square is not None:
        runs["root"] = lambda: carry_out(lambda: by(square.by_root), LONGEST)
        if installed():
            runs["ida"] = lambda: carry_out(lambda: by(square.by_ida), LONGEST)
    done = in_turn(runs, repetitions)
    starts: list[tuple[Spent, Finding]] = done.pop("")
    more = {**about, "time": median(spent.processor for spent, _ in starts)}
    for name, ends in done.items():
        last = ends[-1]
        if isinstance(last, str) and last.startswith(InputError.__name__):
            continue
        solved = isinstance(last, Outcome) and float(np.abs(last.end).max()) <= SOLVED
        more[name] = "yes" if solved else "no"
        if isinstance(last, Outcome):
            more[f"time_{name}"] = median(run.time for run in ends if isinstance(run, Outcome))
    return replace(starts[0][1], more=more)
