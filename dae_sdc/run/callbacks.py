"""The equations of a problem as solvers of other packages take them: callbacks that do nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import lsmr

from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.kernels import machine
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import InputError

SPARSE_FROM = 100
"""Smallest number of unknowns with which peers solve sparse linear systems."""

MOST_INNER_STEPS = 1_000_000
"""Steps to the next output after which SUNDIALS gives up; the time limit comes first in most problems."""

OUT = 1e8
"""Absolute tolerance, relative to rtol, of unknowns that are taken out of a peer's error test."""


def slope_at(problem: ProblemDAE, u: Vector, t: float) -> Vector:
    """The smallest u' with F(t, u, u') = 0, as far as u' can; F is linear in u' or nearly so."""
    state, zero = problem.state(u), problem.state(np.zeros(problem.n))
    residual = problem.evaluate(state, zero, t).copy()
    mass = linearize(problem, state, zero, t).mass
    if sparse.issparse(mass):
        found: Vector = -lsmr(mass, residual, atol=1e-14, btol=1e-14)[0]
        return found
    # Rows differ by orders of magnitude, charges beside volts; the rank must not depend on that.
    weights = np.abs(mass).max(axis=1)
    weights[weights == 0.0] = 1.0
    solved: Vector = -np.linalg.lstsq(mass / weights[:, None], residual / weights, rcond=1e-13)[0]
    return solved


class Posed(Protocol):
    """What a solver has to know of a problem besides its equations."""

    @property
    def problem(self) -> ProblemDAE:
        """The problem."""

    @property
    def switches(self) -> bool:
        """Whether the branch of the equations is chosen by the state at the start of a step."""


class Equations:
    """Residual and Jacobian of a problem in the piece of the interval that was begun last.

    Parameters
    ----------
    case : Posed
        What to solve; its problem has an exact Jacobian.
    """

    def __init__(self, case: Posed) -> None:
        problem = case.problem
        self.problem, self.n, self.pattern = problem, problem.n, problem.sparsity
        # Parameters change with the pieces; a copy of them would not do for Jacobians by complex steps.
        self.parameters = problem.packed_parameters
        kernels = problem.kernels
        if kernels is not None and kernels.jacobian:
            self.residual, self.entries = self._compiled(kernels.residual, kernels.jacobian)
        else:
            self.residual, self.entries = self._in_python()
        if case.switches:
            self._follow()

    def begin(self, u: Vector, t: float) -> None:
        """Choose the piece that begins at ``t``."""
        self.problem.start_step(self.problem.state(u), t)
        self.parameters = self.problem.packed_parameters

    def _follow(self) -> None:
        """Let every evaluation choose the branch of its own state.

        Here a branch is kept for a step; no peer lets one know where a step begins, and restarts after steps
        that end on another branch cost them more.
        """
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
        residual_at, jacobian_at = machine().residual_at, machine().jacobian_at

        def residual(t: float, y: Vector, yp: Vector, out: Vector) -> None:
            residual_at(at, t, y, yp, self.parameters, out)

        def entries(t: float, y: Vector, yp: Vector, c: float, out: Vector) -> None:
            jacobian_at(slope_at, t, y, yp, c, self.parameters, out)

        return residual, entries

    def _in_python(self) -> tuple[Callable[..., None], Callable[..., None]]:
        problem, n_diff = self.problem, self.problem.n_diff
        if getattr(problem, "jacobian", None) is None:
            raise InputError(f"{type(problem).__name__} has no exact Jacobian, which peers get")
        jacobian: Callable[..., Any] = problem.jacobian

        def residual(t: float, y: Vector, yp: Vector, out: Vector) -> None:
            out[:] = problem.eval_f(attach(y, n_diff), attach(yp, n_diff), t)

        def entries(t: float, y: Vector, yp: Vector, c: float, out: Vector) -> None:
            matrix = jacobian(attach(y, n_diff), attach(yp, n_diff), t, c)
            out[...] = matrix if self.pattern is None else matrix.data

        return residual, entries

    def blank(self) -> Vector:
        """An array for what ``entries`` writes."""
        return np.empty((self.n, self.n) if self.pattern is None else self.pattern.nnz)

    def places(self) -> tuple[Any, Any]:
        """Rows and columns of the entries of the pattern."""
        pattern = self.pattern
        return pattern.indices, np.repeat(np.arange(self.n), np.diff(pattern.indptr))


def ida_jacobian(equations: Equations, in_pattern: bool) -> Callable[..., None]:
    """The callback; IDA's Jacobian is dF/du + cj dF/du', here it is dF/du' + c dF/du."""
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
    """Absolute tolerances: rtol times ``scale``, and huge ones for unknowns that are left out."""
    return np.where(excluded, rtol * OUT * np.maximum(scale, 1.0), rtol * scale)
