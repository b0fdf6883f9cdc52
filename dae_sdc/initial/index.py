"""The index of equations that are functions, from numbers: Jacobians near a state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.projection import dense, project
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError
from dae_sdc.initial.differentiated import DIFFERENCES, ProblemJets, patterns_near, structure_near
from dae_sdc.initial.neighbourhood import MOST_CORRECTIONS, MOST_DENSE_UNKNOWNS, Neighbourhood
from dae_sdc.initial.solver import Given, Solver
from dae_sdc.structure.analysis import index_of_unknowns

# States near the given one at which the matrix pencil is looked at; all must give the same index.
PENCILS = 3
DEPENDENT_BY_JACOBIANS = 1e-7  # Singular value, relative to the largest, that counts as 0.
# Change of an entry, in units of the largest of its equation, that counts as none.
CONSTANT_ENTRY = 1e-9
# Part of an unknown in a chain of derivatives, relative to the largest, that counts as 0.
REACHED_PART = 1e-5


@dataclass(frozen=True)
class FoundIndex:
    """The index of a DAE and of its unknowns."""

    index: int  # Differentiation index.
    # Index of each unknown, at least 1: how often the equations are differentiated until its rate is known.
    of_unknowns: tuple[int, ...]
    # Whether derivatives stand in combinations that change along solutions, and cancel in what is hidden.
    turns: bool = field(default=False, compare=False)


def index_of(problem: ProblemDAE, t: float, u: Vector) -> FoundIndex | None:
    r"""Find the index of a DAE from its Jacobians near a state.

    Which entries they have gives offsets of the equations and unknowns; where these leave the system Jacobian
    regular, they hold, unless fewer differentiations do. Elsewhere the pencil :math:`\lambda F_{u'} + F_u` is
    reduced by ranks at several points, which is exact for linear equations with constant coefficients; where
    these vary, its index must also be the number of differentiations after which the equations determine u'.
    That number alone is the index of linear equations whose pencils say another one, or different ones.

    References
    ----------
    J. D. Pryce, A simple structural analysis method for DAEs, BIT 41 (2001); P. Kunkel, V. Mehrmann,
    Differential-Algebraic Equations, EMS (2006), chapter 2.
    """
    # Shapes: u (n,).
    by_columns = getattr(problem, "jacobian", None) is None and problem.sparsity is None
    small = problem.n <= MOST_DENSE_UNKNOWNS  # else ranks by singular values are left out
    if by_columns and not small:
        return None
    try:
        near = Neighbourhood(problem, t, u)
        offsets = structure_near(problem, *patterns_near(near))
    except DAEError:
        return None
    by_offsets = None if offsets is None else FoundIndex(offsets.index, index_of_unknowns(offsets))
    if not small or (by_offsets is not None and by_offsets.index <= 1):
        return by_offsets
    pencils = [_pencil(near, number) for number in range(PENCILS)]
    alike, varying = _of_pencils(pencils), None
    if by_offsets is not None:
        # Offsets may have equations differentiated that need not be.
        if alike is None or alike.index >= min(by_offsets.index, len(DIFFERENCES)):
            return by_offsets
        return alike if _known_rates(near, 0, alike.index).all() else by_offsets
    if _are_close(pencils):
        return alike
    if alike is not None and alike.index < len(DIFFERENCES):
        before = alike.index > 0 and _known_rates(near, 0, alike.index - 1).all()
        if not before and _known_rates(near, 0, alike.index).all():
            varying = alike
    if varying is None and is_linear(near):
        varying = _by_arrays(near)
    if varying is None:
        return None
    masses = [pencil[0] for pencil in pencils if pencil is not None]
    turns = not all(np.allclose(masses[0], other, rtol=0.0, atol=CONSTANT_ENTRY) for other in masses)
    return replace(varying, turns=turns)


def _of_pencils(pencils: list[tuple[Vector, Vector] | None]) -> FoundIndex | None:
    """What matrix pencils at several points say; None where they differ."""
    every = [None if pencil is None else _by_chains(*pencil) for pencil in pencils]
    known = [one for one in every if one is not None]
    if len(known) < len(every) or len({one.index for one in known}) > 1:
        return None
    # An unknown may be out of the reach of derivatives at one of the points by chance.
    return FoundIndex(known[0].index, tuple(map(max, *(one.of_unknowns for one in known))))


def is_linear(near: Neighbourhood) -> bool:
    """Whether equations are linear in u and u', by Jacobians near a state at one time."""
    return _are_close([_pencil(near, number, at_start=True) for number in range(PENCILS)])


def _by_arrays(near: Neighbourhood) -> FoundIndex | None:
    """How often linear equations with coefficients that vary are differentiated until all rates are known."""
    of_unknowns = np.zeros(near.n, dtype=np.int64)
    for times in range(len(DIFFERENCES)):
        # At one of the times an unknown may be out of the reach of derivatives by chance.
        known = np.all([_known_rates(near, number, times) for number in range(PENCILS)], axis=0)
        of_unknowns[~known] = times + 1
        if known.all():
            return FoundIndex(times, tuple(np.maximum(1, of_unknowns).tolist()))
    return None


def _pencil(near: Neighbourhood, number: int, at_start: bool = False) -> tuple[Vector, Vector] | None:
    """dF/du' and dF/du at a point near a start, in units of the largest entry of each equation."""
    u, du = near.point(number)
    t = near.t if at_start else near.later(number)
    try:
        if not at_start:
            u, du = near.where_they_hold(t, u, du)
        mass, stiffness = map(dense, near.halves(t, u, du))
    except DAEError:
        return None
    rows = np.maximum(np.abs(mass), np.abs(stiffness)).max(axis=1)[:, None]
    return (mass / rows, stiffness / rows) if (rows > 0.0).all() else None


def _are_close(pencils: list[tuple[Vector, Vector] | None]) -> bool:
    """Whether pencils are the same up to what differences leave."""
    known = [pencil for pencil in pencils if pencil is not None]
    return len(known) == len(pencils) and all(
        np.allclose(pencil, known[0], rtol=0.0, atol=CONSTANT_ENTRY) for pencil in known
    )


def _by_chains(mass: Vector, stiffness: Vector) -> FoundIndex | None:
    r"""The index of a matrix pencil by the chains of its infinite eigenvalues.

    With :math:`G = (\lambda E + A)^{-1} E`, the range of :math:`G^m` on the kernel of :math:`G^\nu`, where
    powers of G have no more kernel, holds the unknowns that depend on the m-th derivative of a perturbation.
    """
    n = len(mass)
    shift = (1.0 + np.linalg.norm(stiffness)) / (1.0 + np.linalg.norm(mass))
    pencil = shift * mass + stiffness
    if _kernel(pencil).shape[1]:
        return None
    step = np.linalg.solve(pencil, shift * mass)
    kernel, size, grows = np.zeros((n, 0)), float(np.linalg.norm(step, 2)), True
    while grows:
        # The kernel of the next power: what G maps into the last kernel.
        more = _kernel(step - kernel @ (kernel.T @ step), size)
        grows = more.shape[1] > kernel.shape[1]
        kernel = more if grows else kernel
    of_unknowns, chain = np.ones(n, dtype=np.int64), kernel
    for index in range(n + 1):
        reached = np.linalg.norm(chain, axis=1) > REACHED_PART
        if not reached.any():
            return FoundIndex(index, tuple(of_unknowns.tolist()))
        of_unknowns[reached] = index + 1
        chain = step @ chain
    return None


def _known_rates(near: Neighbourhood, number: int, times: int) -> npt.NDArray[np.bool_]:
    """The unknowns whose u' the equations determine for given u, differentiated so many times, by a rank."""
    try:
        system = ProblemJets(near.problem, near.later(number), near.point(number)[0], times=times)
        sizes = near.typical(system.jets)
        point, none = np.zeros(len(sizes)), np.zeros(len(sizes), dtype=bool)
        point[: 2 * near.n] = np.concatenate(near.point(number))
        functions = system.functions(point, np.arange(len(sizes)), None)
        at = project(point, functions, weights=1.0 / sizes, most_iterations=MOST_CORRECTIONS)
        solver = Solver(system, Given(point, none, none, sizes))
        return solver.determined(at.x if at.converged else point)[near.n : 2 * near.n]
    except DAEError:
        return np.zeros(near.n, dtype=bool)


def _kernel(matrix: Vector, size: float | None = None) -> Vector:
    """An orthonormal basis of what a square matrix maps to 0, in units of a size, by default its own."""
    _, values, right = np.linalg.svd(matrix)
    return np.asarray(right[values <= DEPENDENT_BY_JACOBIANS * (values[0] if size is None else size)].T)
