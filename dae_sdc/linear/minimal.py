"""The minimal form of a linear DAE: its free coordinates, without the infinite poles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.linalg import eig, qr

from dae_sdc.dae.linear import superlu
from dae_sdc.dae.state import Vector
from dae_sdc.errors import SingularMatrixError
from dae_sdc.initial.jets import ModelJets, offsets_stages
from dae_sdc.structure.rank import equilibration

# Singular value, relative to the largest, that counts as 0, of matrices that are known to round-off.
DEPENDENT_POLES = 1e-10
DEPENDENT_BY_DIFFERENCES = 1e-7  # The bound where the matrices are finite differences.
# Smallest pivot of a stage, relative to the largest, with which coordinates are chosen by offsets.
WEAKEST_PIVOT = 1e-11
PREFERENCE = 1e-5  # Factor of the pivots of unknowns that are to be coordinates.

Stacks = tuple[Vector, ...]  # Matrices that belong to an input, its first derivative, and so on.


@dataclass(frozen=True, eq=False)
class Minimal:
    r"""A linear DAE in its free coordinates z, without infinite poles.

    .. math::
        E z' = A z + \sum_k B_k v^{(k)}, \qquad x = S z + \sum_k W_k v^{(k)}
    """

    coordinates: tuple[str, ...]  # Names of the coordinates; empty where they are combinations of unknowns.
    # E, A: shape (r, r). Matrices, E regular.
    E: Vector
    A: Vector
    B: Stacks  # Shape (r, m). One matrix for the inputs v, one for their first derivatives, and so on.
    S: Vector  # Shape (n, r). All unknowns from the coordinates.
    W: Stacks  # Shape (n, m). What inputs and their derivatives add to the unknowns.

    def poles(self) -> npt.NDArray[np.complex128]:
        """The finite poles, by size."""
        if not len(self.A):
            return np.zeros(0, dtype=complex)
        rows, cols = equilibration(np.abs(self.E) + np.abs(self.A))
        plain = np.array_equal(self.E, np.eye(len(self.A)))
        found = (
            np.linalg.eigvals(self.A)
            if plain
            else eig(self.A * rows[:, None] * cols, self.E * rows[:, None] * cols, right=False)
        )
        return np.asarray(found)[np.lexsort((np.imag(found), np.round(np.abs(found), 12)))]

    def with_rate(self, number: int) -> Minimal:
        """Append the derivative of unknown ``number`` to the unknowns."""
        row = np.linalg.solve(self.E.T, self.S[number]) if len(self.A) else self.S[number]
        rates = list(_added([row @ part for part in self.B], [part[number] for part in self.W], 1))
        length = max(len(rates), len(self.W))
        rates = _padded(rates, length, rates[0].shape)
        wide = _padded(list(self.W), length, self.W[0].shape)
        return replace(
            self,
            S=np.vstack([self.S, row @ self.A]),
            W=tuple(np.vstack([one, rate]) for one, rate in zip(wide, rates, strict=True)),
        )

    def standard(self, C: Vector, D: Vector) -> tuple[Vector, Vector, Vector, Stacks]:
        r"""The matrices of :math:`z' = A z + B v, \; y = C z + \sum_k D_k v^{(k)}` with outputs C x + D v.

        The coordinates are shifted by inputs, so that no derivative of an input is left in their equations.
        """
        A = np.asarray(np.linalg.solve(self.E, self.A), dtype=np.float64)
        stack = [np.asarray(np.linalg.solve(self.E, part), dtype=np.float64) for part in self.B]
        own = C @ self.S
        through = _added([D], [C @ part for part in self.W], 0)
        for k in range(len(stack) - 1, 0, -1):
            # z = w + B_k v^(k-1) takes the highest derivative out.
            through = _added(through, [own @ stack[k]], k - 1)
            stack[k - 1] = stack[k - 1] + A @ stack[k]
        return A, stack[0], own, _trimmed(through)


def _padded(stack: list[Vector], length: int, shape: Any) -> list[Vector]:
    return [*stack, *(np.zeros(shape) for _ in range(length - len(stack)))]


def _added(stack: Sequence[Vector], more: Sequence[Vector], later: int) -> list[Vector]:
    """The sum of two stacks, the second of derivatives that are ``later`` orders higher."""
    length = max(len(stack), len(more) + later)
    found = [part.copy() for part in _padded(list(stack), length, (stack or more)[0].shape)]
    for k, part in enumerate(more):
        found[k + later] += part
    return found


def by_ranks(E: Any, A: Any, B: Any, dependent: float = DEPENDENT_POLES) -> tuple[Minimal, int]:
    r"""Deflate the infinite poles of E x' = A x + B v by ranks.

    The rows of A where E has none are constraints; a basis of what satisfies them, and the other rows, give
    a smaller system, until E is regular. Only orthogonal matrices are multiplied.

    References
    ----------
    P. Van Dooren: The computation of Kronecker's canonical form of a singular pencil, Linear Algebra Appl. 27
    (1979).
    """
    # Shapes: E and A (n, n), B (n, m).
    E, A, B = (one.toarray() if sparse.issparse(one) else np.array(one, dtype=float) for one in (E, A, B))
    n = len(E)
    largest = [float(np.abs(one).max(initial=0.0)) or 1.0 for one in (E, A)]
    rows, cols = equilibration(np.abs(E) / largest[0] + np.abs(A) / largest[1])
    E, A, B = E * rows[:, None] * cols, A * rows[:, None] * cols, B * rows[:, None]
    size = [float(np.linalg.norm(one, 2)) or 1.0 for one in (E, A)]
    S, stack, W, steps = np.eye(n), [B], [np.zeros((n, B.shape[1]))], 0
    while True:
        left, values, _ = np.linalg.svd(E)
        rank = int((values > dependent * size[0]).sum())
        if rank == len(E):
            break
        kept, rest = left[:, :rank], left[:, rank:]
        turn, sizes, right = np.linalg.svd(rest.T @ A)
        if sizes.size < len(E) - rank or sizes[-1] <= dependent * size[1]:
            raise SingularMatrixError("the equations are dependent: s E - A is singular for every s")
        bound, free = right[: len(sizes)], right[len(sizes) :].T
        # x = free z + sum_k X_k v^(k)
        shift = [-bound.T @ ((turn.T @ (rest.T @ part)) / sizes[:, None]) for part in stack]
        W = _added(W, [S @ one for one in shift], 0)
        stack = _added([kept.T @ part for part in stack], [kept.T @ A @ one for one in shift], 0)
        stack = _added(stack, [-kept.T @ E @ one for one in shift], 1)
        S, E, A, steps = S @ free, kept.T @ E @ free, kept.T @ A @ free, steps + 1
    unscaled = cols[:, None]
    return Minimal((), E, A, _trimmed(stack), S * unscaled, tuple(part * unscaled for part in W)), steps


def in_coordinates(found: Minimal, names: Sequence[str], preferred: Sequence[str] = ()) -> Minimal:
    """A minimal form whose coordinates are unknowns, chosen by pivots."""
    r = found.S.shape[1]
    if found.coordinates or not r:
        return found
    sizes = np.linalg.norm(found.S, axis=1)
    weights = np.where(np.isin(names, list(preferred)), 1.0 / PREFERENCE, 1.0)
    weights = weights / np.where(sizes > 0.0, sizes, 1.0)
    chosen = np.sort(qr((found.S * weights[:, None]).T, mode="r", pivoting=True)[1][:r])
    # z = S_chosen x_chosen up to what inputs add, which stays in W.
    inverse = np.linalg.inv(found.S[chosen])
    S = found.S @ inverse
    S[chosen] = np.eye(r)
    return replace(
        found, coordinates=tuple(names[j] for j in chosen), E=found.E @ inverse, A=found.A @ inverse, S=S
    )


def by_offsets(
    system: ModelJets,
    x: Vector,
    states: Sequence[tuple[int, int]],
    inputs: Sequence[int],
    preferred: Sequence[str] = (),
    tangent: bool = False,
) -> Minimal:
    r"""The minimal form around a solution, from the equations differentiated as their offsets say.

    Their linearisation J dx = 0 in the values of unknowns and derivatives (jets) has a free part of the size
    of the degrees of freedom. The derivative of a free jet is the next one, which J gives from the free ones:
    this holds along any solution, at rest or not, and needs no rank.

    References
    ----------
    J. D. Pryce: A simple structural analysis method for DAEs, BIT 41 (2001).
    """
    # Shapes: x (jets,).
    matrix = sparse.csc_matrix(system.jacobian(x))
    free = _free(system, matrix, np.where(np.isin(system.jet_names, list(preferred)), PREFERENCE, 1.0))
    bound = np.flatnonzero(~free)
    at_free = np.flatnonzero(free)
    rows, _, _ = offsets_stages(system.analysis.c, system.analysis.d)
    order = int(max((system.analysis.c[i] for i in inputs), default=0))
    pushed = {row: at for at, row in enumerate(rows)}
    right = np.zeros((len(rows), len(inputs) * (order + 1)))
    for k in range(order + 1):
        for at, i in enumerate(inputs):
            if (i, k) in pushed:
                right[pushed[i, k], k * len(inputs) + at] = 1.0
    solved = _solve(matrix[:, bound], np.hstack([-matrix[:, at_free].toarray(), right]))
    r, m = len(at_free), len(inputs)
    everything = np.zeros((len(system.jets), solved.shape[1]))
    everything[bound] = solved
    everything[at_free, np.arange(r)] = 1.0
    place = system.place
    rates = everything[[place[j, k + 1] for j, k in (system.jets[at] for at in at_free)]]
    names = tuple(system.jet_names[at] for at in at_free)
    if tangent:
        to_free, rates = _along_constraints(system, at_free, everything)
        everything, names = everything.copy(), ()
        everything[:, :r], rates[:, :r] = everything[:, :r] @ to_free, rates[:, :r] @ to_free
    known = [place[state] for state in states]
    parts = [slice(r + k * m, r + (k + 1) * m) for k in range(order + 1)]
    return Minimal(
        names,
        np.eye(r),
        rates[:, :r],
        _trimmed([rates[:, part] for part in parts]),
        everything[known][:, :r],
        _trimmed([everything[known][:, part] for part in parts]),
    )


def _along_constraints(system: ModelJets, at_free: Any, everything: Vector) -> tuple[Vector, Vector]:
    """The free jets by coordinates along the constraints, and the derivatives of these by the free jets."""
    # Jets of one order that are free for as many orders have an orthonormal basis V of their free changes: V'
    # x and its derivatives are as many coordinates.
    place, free = system.place, {system.jets[at]: column for column, at in enumerate(at_free)}
    chains: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for j, k in free:
        if (j, k - 1) not in free:
            length = next(count for count in range(1, len(free) + 1) if (j, k + count) not in free)
            chains.setdefault((k, length), []).append((j, k))
    values, rates = [], []
    for (order, length), begins in chains.items():
        like = [j for j, k in system.jets if k == order and (j, order + length) in place]
        columns = [free[one] for one in begins]
        basis = qr(everything[[place[j, order] for j in like]][:, columns], mode="economic")[0]
        levels = [
            basis.T @ everything[[place[j, order + count] for j in like]] for count in range(length + 1)
        ]
        values += levels[:-1]
        rates += levels[1:]
    r = len(at_free)
    if not r:
        return np.zeros((0, 0)), np.zeros((0, everything.shape[1]))
    return np.asarray(np.linalg.inv(np.vstack(values)[:, :r])), np.vstack(rates)


def _trimmed(stack: list[Vector]) -> Stacks:
    """A stack without the highest derivatives of inputs that do not count."""
    while len(stack) > 1 and not stack[-1].any():
        stack.pop()
    return tuple(stack)


def _free(system: ModelJets, matrix: Any, weights: Vector) -> npt.NDArray[np.bool_]:
    """The jets that no stage determines: derivatives of what a stage has determined are determined too."""
    bound = np.zeros(len(system.jets), dtype=bool)
    for stage in system.stages:
        count = len(stage.rows)
        if not count:
            continue
        if count == len(stage.jets):
            bound[stage.jets] = True
            continue
        own = matrix[stage.rows][:, stage.jets].toarray()
        sizes = np.linalg.norm(own, axis=1)
        own = own / np.where(sizes > 0.0, sizes, 1.0)[:, None]
        jets = [system.jets[at] for at in stage.jets]
        carried = np.array([k > 0 and bool(bound[system.place[j, k - 1]]) for j, k in jets])
        left = own[:, ~carried] * weights[stage.jets[~carried]]
        if carried.any():
            basis = qr(own[:, carried], mode="economic")[0]
            left = left - basis @ (basis.T @ left)
        more = count - int(carried.sum())
        triangle, order = qr(left, mode="r", pivoting=True)
        pivots = np.abs(np.diag(triangle))[:more]
        if pivots.size < more or (more and pivots[-1] <= WEAKEST_PIVOT * PREFERENCE):
            raise SingularMatrixError("the equations of a stage are dependent at this state")
        bound[stage.jets[carried]] = True
        bound[stage.jets[~carried][order[:more]]] = True
    return ~bound


def _solve(matrix: Any, right: Vector) -> Vector:
    """The solution of a square sparse system, with rows and columns in units of their largest entries."""
    if not matrix.shape[0]:
        return right
    rows = 1.0 / np.asarray(abs(matrix).max(axis=1).toarray()).ravel()
    scaled = sparse.csc_matrix(sparse.diags(rows) @ matrix)
    cols = 1.0 / np.asarray(abs(scaled).max(axis=0).toarray()).ravel()
    scaled = sparse.csc_matrix(scaled @ sparse.diags(cols))
    try:
        factors = superlu(scaled)
    except SingularMatrixError:
        raise SingularMatrixError("the equations are dependent at this state") from None
    right = right * rows[:, None]
    found = factors.solve(right)
    found += factors.solve(right - scaled @ found)  # as accurate as the matrix allows
    return np.asarray(found * cols[:, None])
