"""Real matrices in the place of the complex ones of coupled stages; see :func:`poles`."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from qmat.qdelta import QDELTA_GENERATORS
from scipy.linalg import lu
from scipy.optimize import minimize
from scipy.sparse import csc_matrix

from benchmarks.study import Layout, Option, Table, chosen, study
from dae_sdc.dae.linear import factorize
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, SingularMatrixError
from dae_sdc.run.results import Result
from dae_sdc.run.solve import solve
from dae_sdc.run.target import make_problem
from dae_sdc.sweepers import _machine_stages, simultaneous, together
from dae_sdc.sweepers._machine_stages import MachineStages
from dae_sdc.sweepers.tableaux import METHODS
from dae_sdc.sweepers.teams import FACTORIZE, FILTER, SOLVE, Threads

NODES = (3, 4, 5, 7)
MEASURED_NODES = 5  # Nodes of the runs
MOST_ITERATIONS = 40  # Largest number of Newton iterations of a step in the runs
# Tolerance of the Newton iterations in the runs, in units of the usual one, as slow ones stop early
TIGHTER = 1e-3

# Problems of index 1, 2 and 3, a chain and a grid, and how they are run
CASES: Mapping[str, dict[str, Any]] = {
    "hessenberg-1": {"rtol": 1e-6},
    "hessenberg-2": {"rtol": 1e-6},
    "hessenberg-3": {"rtol": 1e-6},
    "transmission-line": {"rtol": 1e-6, "params": {"sections": 500}},
    "navier-stokes": {"rtol": 1e-5, "params": {"cells": 20}, "t_end": 0.05},
}

SAMPLES = np.logspace(-2.0, 3.0, 101)  # Sizes of h lambda for which iterations are judged

TEXT = Layout(
    "problem:<18|n:>6|way:<9|steps:>6|rej.=rejected:>5|"
    "factorisations={real_factorizations} {complex_factorizations:>5}:>15|"
    "solves={real_solves} {complex_solves:>6}:>15|error:>8.1e"
)
COUNTED = ("real_factorizations", "complex_factorizations", "real_solves", "complex_solves")


def collocation(nodes: int) -> tuple[Vector, Vector]:
    """The coefficients A, shape (M, M), and the nodes, shape (M,), of Radau IIA with M nodes."""
    method: Any = METHODS[f"radau-iia-{2 * nodes - 1}"]
    return np.asarray(method.A), np.asarray(method.c)


def radii(A: Vector, T: Vector) -> tuple[float, float]:
    """The largest spectral radii of h lambda (I - h lambda T)^-1 (A - T), by which errors are multiplied."""
    identity = np.eye(len(A))

    def largest(z: npt.NDArray[np.complexfloating[Any, Any]]) -> float:
        matrices = np.linalg.solve(identity - z[:, None, None] * T, z[:, None, None] * (A - T))
        return float(np.abs(np.linalg.eigvals(matrices)).max())

    return largest(1j * SAMPLES), largest(-SAMPLES + 0j)


def distinct(nodes: int) -> Vector:
    """The lower factor of A = L U with ones on the diagonal of U, which has distinct poles."""
    A, _ = collocation(nodes)
    swapped, _, upper = lu(A.T)
    if not np.array_equal(swapped, np.eye(nodes)):
        raise InputError(f"the collocation matrix of {nodes} nodes has no such factors without an exchange")
    return np.asarray(upper.T, dtype=np.float64)


def diagonal(nodes: int) -> Vector:
    """The diagonal matrix MIN-SR-S of G. Caklovic, T. Lunet, S. Goetschel, D. Ruprecht (2024)."""
    A, c = collocation(nodes)
    generator: Any = QDELTA_GENERATORS["MIN-SR-S"]
    how = {"nNodes": nodes, "nodeType": "LEGENDRE", "quadType": "RADAU-RIGHT"}
    return np.asarray(generator(Q=A, nodes=c, **how).genCoeffs(), dtype=np.float64)


@functools.cache
def equal(nodes: int) -> Vector:
    """A lower triangular matrix with equal poles, for which the larger of both radii is least."""
    A, _ = collocation(nodes)
    below = np.tril_indices(nodes, -1)
    start = distinct(nodes)

    def matrix(x: Vector) -> Vector:
        T: Vector = np.exp(x[0]) * np.eye(nodes)
        T[below] = x[1:]
        return T

    def worst(x: Vector) -> float:
        return max(radii(A, matrix(x)))

    x = np.array([np.log(np.diagonal(start)).mean(), *start[below]])
    for _ in range(3):
        # The simplex collapses at kinks of the largest value: it is set up anew.
        x = minimize(worst, x, method="Nelder-Mead", options={"maxfev": 2000, "adaptive": True}).x
    return matrix(x)


# What stands for A in Newton's matrix, by name
WAYS: Mapping[str, Callable[[int], Vector]] = {
    "A": lambda nodes: collocation(nodes)[0],
    "distinct": distinct,
    "diagonal": diagonal,
    "equal": equal,
}


class CountedStages(MachineStages):
    """Stages with their tolerance in these runs, whose linear algebra is counted."""

    T: Vector
    work: Counter[str]

    def __init__(self, problem: Any, A: Vector, c: Vector, *_: Any) -> None:
        super().__init__(problem, A, c, Threads(1))

    def set_tolerance(self, share: float, rtol: float) -> None:
        super().set_tolerance(TIGHTER * share, rtol / TIGHTER)

    def _share_parts(self, kind: int, count: int) -> int:
        self._note(kind, (1, count - 1), (self.m % 2, int(self._memory.pairs)))
        return super()._share_parts(kind, count)

    def _note(self, kind: int, *work: tuple[int, int]) -> None:
        counts = {FACTORIZE: (*work[0], 0, 0), SOLVE: (0, 0, *work[1]), FILTER: (0, 0, 1)}.get(kind, ())
        self.work.update(dict(zip(COUNTED, counts, strict=False)))


class TriangularStages(CountedStages):
    """:class:`CountedStages` with a lower triangular T in the place of A in Newton's matrix.

    Stage i is solved with M + h t_ii J, after those before it; equal poles have one matrix. The error is
    estimated with the matrix of the last stage.
    """

    def _tell_problem(self) -> None:
        super()._tell_problem()
        # One matrix for each pole that differs from the others.
        self._poles, self._matrix_of = np.unique(np.diagonal(self.T).round(12), return_inverse=True)
        self.numbers.gamma = float(self.T[-1, -1])

    def _share_parts(self, kind: int, count: int) -> int:
        self._note(kind, (len(self._poles), 0), (self.m, 0))
        arrays, value = self._arrays, self.value
        places = [arrays[name] for name in ("indices", "starts") if name in arrays]

        def half(entries: Vector) -> Any:
            return csc_matrix((entries, *places)) if places else entries

        if kind == FACTORIZE:  # the real matrix has gamma times this part of dF/du
            self._stiffness = half(arrays["coefficients"][0].real / self.real * arrays["stiffness"])
            self._solves = [factorize(half(arrays["mass"]) + p * self._stiffness).solve for p in self._poles]
        elif kind == SOLVE:
            for i, k in enumerate(self._matrix_of):
                value[i] = self._solves[k](value[i] - self._stiffness @ (self.T[i, :i] @ value[:i]))
            arrays["transformed"][:] = arrays["to"] @ value
        elif kind == FILTER:
            self.error[:] = self._solves[self._matrix_of[-1]](self.error)
        return 1 if kind in (FACTORIZE, SOLVE, FILTER) else MachineStages._share_parts(self, kind, count)


@study(
    "poles",
    "problem:U32 n:i8 way:U8 nodes:i8 imaginary real steps:i8 rejected:i8 real_factorizations:i8 "
    "complex_factorizations:i8 real_solves:i8 complex_solves:i8 error",
    example="--problems hessenberg-1 --ways A,distinct",
    options={"ways": Option("what stands for A, separated by commas: A, distinct, diagonal, equal")},
)
def poles(
    rows: Table,
    *,
    problems: Sequence[str] = tuple(CASES),
    ways: Sequence[str] = tuple(WAYS),
    time_limit: float = 60.0,
) -> None:
    """Compare Radau IIA with iterations whose matrices are real: of distinct, of equal poles, and diagonal.

    Rows without a problem are the largest spectral radii of the iteration for u' = lambda u. The others are
    runs under the step size control of the default method, with at most 40 iterations a step that are
    continued to a thousandth of the usual tolerance.

    P. J. van der Houwen, J. J. B. de Swart, Triangularly implicit iteration methods for ODE-IVP solvers, SIAM
    J. Sci. Comput. 18 (1997) 41, for distinct poles.
    """
    chosen("problem of this study", problems, CASES)
    chosen("way", ways, WAYS)
    rows.parameters["nodes"] = MEASURED_NODES
    for problem, way in rows.each([*product(("", *problems), ways)], "run"):
        if problem:
            with rows.or_left_out(f"{problem} by {way}", SingularMatrixError):
                rows.put(**_run(problem, way, time_limit), way=way, nodes=MEASURED_NODES)
            continue
        counted = {name: -1 for name, kind in poles.columns if kind == "i8"}
        for nodes in (nodes for nodes in NODES if way != "equal" or nodes == MEASURED_NODES):
            imaginary, real = radii(collocation(nodes)[0], WAYS[way](nodes))
            rows.put(**counted | {"n": 0, "way": way, "nodes": nodes}, imaginary=imaginary, real=real)


def _run(problem: str, way: str, time_limit: float) -> dict[str, Any]:
    case = CASES[problem]
    made: Any = make_problem(problem, case.get("params", {}))
    work: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
    base = CountedStages if way == "A" else TriangularStages
    kind = type("Stages", (base,), {"T": WAYS[way](MEASURED_NODES), "work": work})
    iterations = patch.object(simultaneous, "MOST_NEWTON_ITERATIONS", MOST_ITERATIONS)
    cheap = patch.object(_machine_stages, "COSTLY_ROW_FILL", np.inf)  # no iterations in place of factors
    with patch.object(together, "MachineStages", kind), iterations, cheap:
        sweeper = f"radau-iia-{2 * MEASURED_NODES - 1}"
        solution = solve(problem, sweeper=sweeper, dense=False, time_limit=time_limit, **case)
    if not solution.success:
        raise InputError(solution.message)
    exact = np.asarray(made.u_exact(float(solution.t[-1])))
    error = float(np.abs(np.asarray(solution.u[-1]) - exact).max() / np.abs(exact).max())
    steps = {name: solution.stats[name] for name in ("steps", "rejected")}
    return {"problem": problem, "n": made.n, "error": error, **steps, **work}


@poles.reports
def report(result: Result) -> Iterator[str]:
    data = result.data
    yield "largest spectral radius for imaginary and for negative real lambda"
    yield f"{'nodes':<10}" + "".join(f"{nodes:>14}" for nodes in NODES)
    for way in dict.fromkeys(data["way"][data["problem"] == ""]):
        known = {row["nodes"]: row for row in data if row["way"] == way and not row["problem"]}
        shown = (f"{known[m]['imaginary']:.2f}, {known[m]['real']:.2f}" if m in known else "" for m in NODES)
        yield f"{way:<10}" + "".join(f"{text:>14}" for text in shown)
    yield ""
    yield f"runs with {result.parameters['nodes']} nodes; real and complex factorisations and solves"
    yield from TEXT.lines(data[data["problem"] != ""])
