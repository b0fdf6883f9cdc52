"""The equations of a problem as callbacks for solvers of other packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import lsmr

from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.kernels import machine
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import InputError

SPARSE_FROM = 100  # Number of unknowns from which on solvers of other packages use sparse linear algebra.
MOST_INNER_STEPS = 1_000_000  # Steps to an output after which SUNDIALS gives up; usually time ends first.
EXCLUDED_TOLERANCE = 1e8  # Absolute tolerance, relative to rtol, of unknowns left out of an error test.

MOST_SLOPES = 300  # Number of unknowns up to which slopes at the start are found by dense decompositions.
SMALLEST_SINGULAR = 1e-10  # Singular value, relative to the largest, that is 0 for slopes at the start.


def slope_at(problem: ProblemDAE, u: Vector, t: float) -> Vector:
    """The minimum-norm u' that minimises F(t, u, u'), for F linear or nearly linear in u', shape (n,)."""
    state, zero = problem.state(u), problem.state(np.zeros(problem.n))
    residual = problem.evaluate(state, zero, t).copy()
    mass = linearize(problem, state, zero, t).mass
    if sparse.issparse(mass):
        return np.asarray(-lsmr(mass, residual, atol=1e-14, btol=1e-14)[0])
    # Rows may differ by orders of magnitude (charges and voltages), on which the rank must not depend.
    weights = np.abs(mass).max(axis=1)
    weights[weights == 0.0] = 1.0
    return np.asarray(-np.linalg.lstsq(mass / weights[:, None], residual / weights, rcond=1e-13)[0])


def with_algebraic_slopes(problem: ProblemDAE, u: Vector, du: Vector, t: float, span: float) -> Vector:
    """u' with the part that F = 0 leaves open and its derivative along t determines, shape (n,)."""
    # With the columns of V and U the null spaces of M = dF/du' and of its transpose, u' + V a satisfies F = 0
    # too, nearly, and U^T (F_t + F_u (u' + V a)) = 0. Steps of IDA begin with a prediction from u'; one
    # without a slope of algebraic unknowns fails its error test until steps are as small as the tolerance.
    # What this leaves open, of index 2 and more, stays.
    # Shapes: u and du (n,).
    if problem.n > MOST_SLOPES:
        return du
    state, slope = problem.state(u), problem.state(du)
    mass, stiffness = linearize(problem, state, slope, t).dense
    left, values, right = np.linalg.svd(mass)
    rank = int((values > SMALLEST_SINGULAR * values.max(initial=0.0)).sum())
    rows, columns = left[:, rank:].T, right[rank:].T
    step = float(np.sqrt(np.finfo(float).eps)) * max(abs(t), span)
    before = problem.evaluate(state, slope, t).copy()
    change = (problem.evaluate(state, slope, t + step) - before) / step
    wanted = -rows @ (change + stiffness @ du)
    if not np.isfinite(wanted).all():
        return du
    part: Vector = np.linalg.lstsq(rows @ stiffness @ columns, wanted, rcond=SMALLEST_SINGULAR)[0]
    return np.asarray(du + columns @ part)


class Equations:
    """Residual and Jacobian of a problem in the current piece of the interval between break points."""

    def __init__(self, problem: ProblemDAE, switches: bool) -> None:
        # switches: whether the branch of the equations is chosen by the state at the start of a step.
        self.problem, self.n, self.pattern = problem, problem.n, problem.sparsity
        # Read anew for every piece; not a copy, which Jacobians by complex steps would not see.
        self.parameters = problem.packed_parameters
        kernels = problem.kernels
        if kernels is not None and kernels.jacobian:
            self.residual, self.entries = self._compiled(kernels.residual, kernels.jacobian)
        else:
            self.residual, self.entries = self._in_python()
        if switches:
            self._follow()

    def begin(self, u: Vector, t: float) -> None:
        """Begin the piece that starts at ``t`` with the state ``u``."""
        self.problem.start_step(self.problem.state(u), t)
        self.parameters = self.problem.packed_parameters

    def _follow(self) -> None:
        """Let every evaluation choose the branch of its own state."""
        # Sweepers of this package keep a branch for a step. Other solvers do not tell where a step begins,
        # and restarting them after steps that end on another branch would cost more.
        plain_residual, plain_entries = self.residual, self.entries

        def residual(t: float, y: Vector, yp: Vector, out: Vector) -> None:
            if np.isfinite(y).all():
                self.begin(y, t)
            plain_residual(t, y, yp, out)

        def entries(t: float, y: Vector, yp: Vector, c: float, out: Vector) -> None:
            self.begin(y, t)
            plain_entries(t, y, yp, c, out)

        self.residual, self.entries = residual, entries

    def _compiled(self, at: int, slope_at: int) -> tuple[Callable[..., None], Callable[..., None]]:
        residual_at, jacobian_at = machine("residual_at"), machine("jacobian_at")

        def residual(t: float, y: Vector, yp: Vector, out: Vector) -> None:
            residual_at(at, t, y, yp, self.parameters, out)

        def entries(t: float, y: Vector, yp: Vector, c: float, out: Vector) -> None:
            jacobian_at(slope_at, t, y, yp, c, self.parameters, out)

        return residual, entries

    def _in_python(self) -> tuple[Callable[..., None], Callable[..., None]]:
        problem, n_diff = self.problem, self.problem.n_diff
        if getattr(problem, "jacobian", None) is None:
            raise InputError(f"{problem.name} has no exact Jacobian, which peers get")
        jacobian: Callable[..., Any] = problem.jacobian

        def entries(t: float, y: Vector, yp: Vector, c: float, out: Vector) -> None:
            matrix = jacobian(attach(y, n_diff), attach(yp, n_diff), t, c)
            out[...] = matrix if self.pattern is None else matrix.data

        return self._residual_in_python, entries

    def _residual_in_python(self, t: float, y: Vector, yp: Vector, out: Vector) -> None:
        out[:] = self.problem.eval_f(attach(y, self.problem.n_diff), attach(yp, self.problem.n_diff), t)

    def blank(self) -> Vector:
        """An empty array for the result of ``entries``."""
        return np.empty((self.n, self.n) if self.pattern is None else self.pattern.nnz)

    def places(self) -> tuple[Any, Any]:
        """Rows and columns of the entries of the pattern."""
        pattern = self.pattern
        return pattern.indices, np.repeat(np.arange(self.n), np.diff(pattern.indptr))


def ida_jacobian(equations: Equations, in_pattern: bool) -> Callable[..., None]:
    """IDA's callback for dF/du + cj dF/du', from dF/du' + c dF/du with c = 1 / cj times cj."""
    entries = equations.entries
    if equations.pattern is None or in_pattern:

        def direct(t: float, y: Vector, yp: Vector, res: Vector, cj: float, JJ: Vector) -> None:
            entries(t, y, yp, 1.0 / cj, JJ)
            JJ *= cj

        return direct
    places, values = equations.places(), equations.blank()

    def scattered(t: float, y: Vector, yp: Vector, res: Vector, cj: float, JJ: Vector) -> None:
        entries(t, y, yp, 1.0 / cj, values)
        JJ[:] = 0.0
        JJ[places] = values * cj

    return scattered


def weighted(rtol: float, scale: Vector, excluded: NDArray[np.bool_]) -> Vector:
    """Absolute tolerances, shape (n,): rtol times ``scale``, and huge ones for ``excluded`` unknowns."""
    return np.where(excluded, rtol * EXCLUDED_TOLERANCE * np.maximum(scale, 1.0), rtol * scale)
