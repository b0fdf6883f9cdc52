"""Linear descriptor systems E x' = A x + B v, y = C x + D v by names: poles, modes, zeros and responses."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.linalg import eig, expm, qr
from scipy.sparse.linalg import ArpackNoConvergence, eigs

from dae_sdc.dae.linear import superlu
from dae_sdc.dae.projection import dense
from dae_sdc.dae.state import Vector
from dae_sdc.errors import ConvergenceError, InputError, SingularMatrixError
from dae_sdc.expressions.dag import name_and_order
from dae_sdc.initial.jets import ModelJets, offsets_stages
from dae_sdc.registry import require_name
from dae_sdc.structure.rank import equilibration

# Singular value, relative to the largest, that counts as 0, of matrices that are known to round-off.
DEPENDENT_POLES = 1e-10
DEPENDENT_BY_DIFFERENCES = 1e-7  # The bound where the matrices are finite differences.
# Smallest pivot of a stage, relative to the largest, with which coordinates are chosen by offsets.
WEAKEST_PIVOT = 1e-11
PREFERENCE = 1e-5  # Factor of the pivots of unknowns that are to be coordinates.


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
    B: Vector  # Shape (K, r, m). One matrix for the inputs v, one for their first derivatives, and so on.
    S: Vector  # Shape (n, r). All unknowns from the coordinates.
    W: Vector  # Shape (K, n, m). What inputs and their derivatives add to the unknowns.

    def poles(self) -> npt.NDArray[np.complex128]:
        """The finite poles, by size."""
        if not len(self.A):
            return np.zeros(0, dtype=complex)
        rows, cols = equilibration(np.abs(self.E) + np.abs(self.A))
        plain = np.array_equal(self.E, np.eye(len(self.A)))
        values = (
            np.linalg.eigvals(self.A)
            if plain
            else eig(self.A * rows[:, None] * cols, self.E * rows[:, None] * cols, right=False)
        )
        return np.asarray(values)[np.lexsort((np.imag(values), np.round(np.abs(values), 12)))]

    def with_rate(self, number: int) -> Minimal:
        """Append the derivative of unknown ``number`` to the unknowns."""
        row = np.linalg.solve(self.E.T, self.S[number]) if len(self.A) else self.S[number]
        rates = _added(np.array([row @ part for part in self.B]), self.W[:, number], 1)
        wide = _added(np.zeros((len(rates), *self.W.shape[1:])), self.W, 0)
        W = np.concatenate([wide, rates[:, None]], axis=1)
        return replace(self, S=np.vstack([self.S, row @ self.A]), W=W)

    def standard(self, C: Vector, D: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        r"""The matrices of :math:`z' = A z + B v, \; y = C z + \sum_k D_k v^{(k)}` with outputs C x + D v.

        The coordinates are shifted by inputs, so that no derivative of an input is left in their equations.
        """
        A = np.asarray(np.linalg.solve(self.E, self.A), dtype=np.float64)
        stack = [np.asarray(np.linalg.solve(self.E, part), dtype=np.float64) for part in self.B]
        own = C @ self.S
        through = _added(D[None], C @ self.W, 0)
        for k in range(len(stack) - 1, 0, -1):
            # z = w + B_k v^(k-1) takes the highest derivative out.
            through = _added(through, (own @ stack[k])[None], k - 1)
            stack[k - 1] = stack[k - 1] + A @ stack[k]
        return A, stack[0], own, _trimmed(through)


def _added(stack: Vector, more: Vector, later: int) -> Vector:
    """The sum of two stacks of matrices, the second of derivatives that are ``later`` orders higher."""
    total = np.zeros((max(len(stack), len(more) + later), *stack.shape[1:]))
    total[: len(stack)] = stack
    total[later : later + len(more)] += more
    return total


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
    E, A, B = map(dense, (E, A, B))
    n = len(E)
    largest = [float(np.abs(one).max(initial=0.0)) or 1.0 for one in (E, A)]
    rows, cols = equilibration(np.abs(E) / largest[0] + np.abs(A) / largest[1])
    E, A, B = E * rows[:, None] * cols, A * rows[:, None] * cols, B * rows[:, None]
    size = [float(np.linalg.norm(one, 2)) or 1.0 for one in (E, A)]
    S, stack, W, steps = np.eye(n), B[None], np.zeros((1, n, B.shape[1])), 0
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
        shift = -bound.T @ ((turn.T @ (rest.T @ stack)) / sizes[:, None])
        W = _added(W, S @ shift, 0)
        stack = _added(_added(kept.T @ stack, kept.T @ A @ shift, 0), -kept.T @ E @ shift, 1)
        S, E, A, steps = S @ free, kept.T @ E @ free, kept.T @ A @ free, steps + 1
    return Minimal((), E, A, _trimmed(stack), S * cols[:, None], W * cols[:, None]), steps


def in_coordinates(form: Minimal, names: Sequence[str], preferred: Sequence[str] = ()) -> Minimal:
    """A minimal form whose coordinates are unknowns, chosen by pivots."""
    r = form.S.shape[1]
    if form.coordinates or not r:
        return form
    sizes = np.linalg.norm(form.S, axis=1)
    weights = np.where(np.isin(names, list(preferred)), 1.0 / PREFERENCE, 1.0)
    weights = weights / np.where(sizes > 0.0, sizes, 1.0)
    chosen = np.sort(qr((form.S * weights[:, None]).T, mode="r", pivoting=True)[1][:r])
    # z = S_chosen x_chosen up to what inputs add, which stays in W.
    inverse = np.linalg.inv(form.S[chosen])
    S = form.S @ inverse
    S[chosen] = np.eye(r)
    return replace(
        form, coordinates=tuple(names[j] for j in chosen), E=form.E @ inverse, A=form.A @ inverse, S=S
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
    try:
        solved = _solved(matrix[:, bound], np.hstack([-matrix[:, at_free].toarray(), right]))
    except SingularMatrixError:
        raise SingularMatrixError("the equations are dependent at this state") from None
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
    unknowns = everything[[place[state] for state in states]]
    parts = [slice(r + k * m, r + (k + 1) * m) for k in range(order + 1)]
    B, W = (_trimmed(np.array([rows[:, part] for part in parts])) for rows in (rates, unknowns))
    return Minimal(names, np.eye(r), rates[:, :r], B, unknowns[:, :r], W)


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


def _trimmed(stack: Vector) -> Vector:
    """A stack without the highest derivatives of inputs that do not count."""
    while len(stack) > 1 and not stack[-1].any():
        stack = stack[:-1]
    return stack


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


def _solved(matrix: Any, right: Any) -> Any:
    """The solution of a square system in units of its rows and columns, as accurate as the matrix allows."""
    if not matrix.shape[0]:
        return right
    if sparse.issparse(matrix):
        rows = 1.0 / np.asarray(abs(matrix).max(axis=1).toarray()).ravel()
        cols = 1.0 / np.asarray(abs(sparse.diags(rows) @ matrix).max(axis=0).toarray()).ravel()
        scaled: Any = sparse.csc_matrix(sparse.diags(rows) @ matrix @ sparse.diags(cols))
        solve: Any = superlu(scaled).solve
    else:
        rows, cols = equilibration(np.abs(matrix))
        scaled = matrix * rows[:, None] * cols
        solve = partial(np.linalg.solve, scaled)
    right = np.asarray(right * rows[:, None], dtype=np.result_type(scaled.dtype, right))
    solution = solve(right)
    return np.asarray((solution + solve(right - scaled @ solution)) * cols[:, None])


Complex = npt.NDArray[np.complex128]


LEAST_PARTICIPATION: Final = 0.3  # Part of the largest participation from which on an unknown names a mode.
MOST_NAMED: Final = 3  # Largest number of unknowns in the name of a mode.
# Number of unknowns up to which the matrices of a transfer function are dense.
MOST_DENSE_STATES: Final = 60
FREQUENCIES_OF_RESPONSE: Final = 400  # Frequencies of a response.
DECADES_BESIDE: Final = 1.5  # Decades of frequencies on either side of the poles and zeros.
# Distances from a resonance, in half its width, at which frequencies are added.
WIDTHS_BESIDE: Final[tuple[float, ...]] = (0.25, 0.5, 1.0, 2.0, 4.0)
NARROWEST_RESONANCE: Final = 1e-3  # Smallest half width that counts, relative to the frequency.
# Entry of a matrix of derivatives of inputs, relative to the largest of all, that counts as 0.
PROPER_ENTRY: Final = 1e-13
# Size of a pole, relative to the largest, that counts as 0 where a frequency is chosen.
POLE_AT_ORIGIN: Final = 1e-9


class Mode(NamedTuple):
    """A finite pole, or a pair of complex ones, with what moves in it."""

    pole: complex  # The pole, that with positive imaginary part of a pair, in 1/(unit of time).
    frequency: float  # Undamped natural frequency abs(pole), in rad per unit of time.
    damping: float  # Damping ratio -Re(pole)/abs(pole); NaN for a pole at 0.
    unknowns: tuple[str, ...]  # The unknowns that take part in it, the strongest first.
    shape: Complex  # Shape (n,). All unknowns in the mode, the largest of them 1.


class StateSpace(NamedTuple):
    r"""A minimal form :math:`z' = A z + B v, \; y = C z + D v + \sum_{k \ge 1} D_k v^{(k)}`."""

    # A, B, C, D: matrices of shapes (r, r), (r, m), (p, r) and (p, m).
    A: Vector
    B: Vector
    C: Vector
    D: Vector
    # Shape (p, m). What the first, second, ... derivative of the inputs adds; empty where the system is
    # proper.
    of_derivatives: tuple[Vector, ...]
    # The unknowns that are the coordinates z, up to what derivatives of inputs add to them.
    coordinates: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class LinearSystem:
    r"""The linear system that a DAE is near a state, in deviations from it.

    Returned by :func:`linearize`, whose example shows it.

    .. math::
        E x' = A x + B v, \qquad y = C x + D v

    Parameters
    ----------
    title : str
        Name of the equations.
    t : float
        Time of the state.
    E, A, B, C, D : csc_matrix
        Sparse matrices of shapes (n, n), (n, n), (n, m), (p, n) and (p, m).
    states, state_units : tuple of str
        Names and units of the n unknowns; outputs that are derivatives have unknowns of their own at the end.
    inputs, outputs : tuple of str
        Names of the inputs and outputs.
    input_units, output_units : tuple of str
        Their units.
    u, du : ndarray, shape (n,)
        The state and its derivative.
    index : int
        Differentiation index of the equations.
    reduced : Minimal
        The minimal form.
    remarks : tuple of str
        What else is to be known.
    """

    title: str
    t: float
    E: Any
    A: Any
    B: Any
    C: Any
    D: Any
    states: tuple[str, ...]
    state_units: tuple[str, ...]
    inputs: tuple[str, ...]
    input_units: tuple[str, ...]
    outputs: tuple[str, ...]
    output_units: tuple[str, ...]
    u: Vector
    du: Vector
    index: int
    reduced: Minimal = field(repr=False)
    remarks: tuple[str, ...] = ()

    @cached_property
    def poles(self) -> Complex:
        """The finite poles, by size."""
        return self.reduced.poles()

    @property
    def infinite(self) -> int:
        """Number of infinite poles of s E - A."""
        return int(self.E.shape[0]) - len(self.reduced.A)

    @property
    def stable(self) -> bool:
        """Whether all finite poles have negative real parts."""
        return bool((self.poles.real < 0.0).all())

    def poles_near(self, target: complex, count: int = 6) -> Complex:
        """The finite poles nearest to a number, of large sparse systems: by shifts, without the minimal form.

        Parameters
        ----------
        target : complex
            Where poles are looked for; no pole itself.
        count : int
            How many, less than n - 1.

        Raises
        ------
        ConvergenceError
            If they are not found.
        """
        try:
            shifted = superlu(sparse.csc_matrix(target * self.E - self.A, dtype=complex))
        except SingularMatrixError:
            raise InputError(f"{target} is a pole itself; give a number beside it") from None

        def applied(x: Complex) -> Complex:
            return np.asarray(shifted.solve(np.asarray(self.E @ x, dtype=complex)))

        shape = self.E.shape
        if not 0 < count < shape[0] - 1:
            raise InputError(f"count must be from 1 to {shape[0] - 2}; got {count}")
        operator = sparse.linalg.LinearOperator(shape, matvec=applied, dtype=complex)
        start = np.random.default_rng(0).standard_normal(shape[0]).astype(complex)
        try:
            values = eigs(operator, count, which="LM", v0=applied(start), return_eigenvectors=False)
        except ArpackNoConvergence:
            raise ConvergenceError(f"the {count} poles nearest to {target} were not found") from None
        # (target E - A)^-1 E has the eigenvalue 1 / (target - pole).
        near = target - 1.0 / values
        return np.asarray(near[np.argsort(np.abs(near - target))])

    @cached_property
    def modes(self) -> tuple[Mode, ...]:
        """The modes by frequency, with damping and the unknowns that take part."""
        form = self.reduced
        if not len(form.A):
            return ()
        poles, right = np.linalg.eig(np.linalg.solve(form.E, form.A))
        try:
            left = np.linalg.inv(right)
        except np.linalg.LinAlgError:  # chains of one eigenvector
            left = np.linalg.pinv(right)
        shapes = form.S @ right
        every = []
        for at in np.lexsort((-poles.imag, np.round(np.abs(poles), 12))):
            pole = complex(poles[at])
            if pole.imag < 0.0:
                continue
            parts = np.abs(right[:, at] * left[at])
            shape = shapes[:, at]
            shape = shape / (shape[np.argmax(np.abs(shape))] or 1.0)
            size = abs(pole)
            damping = 0.0 - pole.real / size if size else float("nan")
            every.append(Mode(pole, size, damping, self._named(parts, shape), shape))
        return tuple(every)

    def _named(self, parts: Vector, shape: Complex) -> tuple[str, ...]:
        """Unknowns with the largest parts in a mode, without derivatives beside what they belong to."""
        names: Sequence[str] = self.reduced.coordinates
        if not names:
            names, parts = self.states, np.abs(shape)
        order = [at for at in np.argsort(-parts) if parts[at] >= LEAST_PARTICIPATION * parts.max()]
        bases = dict.fromkeys(name_and_order(names[at])[0] for at in order)
        return tuple(bases)[:MOST_NAMED]

    def zeros(self, input: str | None = None, output: str | None = None) -> Complex:
        """The finite zeros: numbers s at which inputs act that no output shows.

        Parameters
        ----------
        input, output : str, optional
            Names of one input and one output; all of them, of equal number, if not given.

        Returns
        -------
        ndarray of complex
            The zeros by size, those of modes that no input moves or no output shows among them.

        Raises
        ------
        InputError
            If the numbers of inputs and outputs differ, or the outputs do not depend on the inputs.
        """
        columns, rows = self._chosen(input, output)
        if len(columns) != len(rows) or not len(rows):
            raise InputError(
                f"zeros need as many outputs as inputs, at least 1; got {len(rows)} and {len(columns)}: name "
                f"one input and one output"
            )
        n, m = self.E.shape[0], len(columns)
        mass = sparse.bmat([[self.E, None], [None, sparse.csc_matrix((m, m))]])
        matrix = sparse.bmat([[self.A, self.B[:, columns]], [self.C[rows], self.D[rows][:, columns]]])
        try:
            return by_ranks(mass, matrix, np.zeros((n + m, 0)))[0].poles()
        except SingularMatrixError:
            raise InputError("the outputs do not depend on the inputs, or on each other: no zeros") from None

    def _chosen(self, input: str | None, output: str | None) -> tuple[list[int], list[int]]:
        asked = (("input", input, self.inputs), ("output", output, self.outputs))
        columns, rows = (
            list(range(len(names))) if name is None else [require_name(what, name, names)]
            for what, name, names in asked
        )
        return columns, rows

    def transfer(self, s: Any) -> Complex:
        r"""The transfer function :math:`G(s) = C (s E - A)^{-1} B + D`.

        Parameters
        ----------
        s : complex or array_like, shape (K,)
            Where it is evaluated.

        Returns
        -------
        ndarray of complex, shape (p, m) or (K, p, m)
            The values; infinite at a pole.
        """
        points = np.asarray(s, dtype=complex)
        through = self.D.toarray()
        E, A, B, C = self.E, self.A, self.B.toarray(), self.C
        dense = E.shape[0] <= MOST_DENSE_STATES
        if dense:
            E, A, C = E.toarray(), A.toarray(), C.toarray()
        values = np.empty((points.size, *through.shape), dtype=complex)
        for at, point in enumerate(points.ravel()):
            try:
                values[at] = C @ _solved(point * E - A, B) + through
            except (SingularMatrixError, np.linalg.LinAlgError):
                values[at] = np.inf
        return values.reshape(*points.shape, *through.shape)

    def frequency_response(self, omega: Any) -> Complex:
        """The transfer function at i omega, for angular frequencies in rad per unit of time."""
        return self.transfer(1j * np.asarray(omega, dtype=float))

    def frequencies(self) -> Vector:
        """Angular frequencies, shape (K,), that show the poles and zeros of all channels."""
        special = [self.poles]
        with suppress(InputError):  # the output does not depend on the input
            special += [self.zeros()] if len(self.inputs) == len(self.outputs) == 1 else []
        every = np.concatenate(special)
        sizes = np.abs(every)
        sizes = sizes[sizes > POLE_AT_ORIGIN * sizes.max(initial=0.0)]
        low, high = (sizes.min(), sizes.max()) if sizes.size else (1.0, 1.0)
        ends = np.log10(low) - DECADES_BESIDE, np.log10(high) + DECADES_BESIDE
        grid: list[Any] = [np.logspace(*ends, FREQUENCIES_OF_RESPONSE)]
        for one in every[every.imag > 0.0]:
            # At the frequency of a mode without damping the response is infinite.
            width = max(abs(one.real), NARROWEST_RESONANCE * one.imag)
            grid += [one.imag + width * side * np.array(WIDTHS_BESIDE) for side in (-1.0, 1.0)]
            grid += [[one.imag]] if abs(one.real) >= NARROWEST_RESONANCE * one.imag else []
        omega = np.unique(np.concatenate(grid))
        return np.asarray(omega[(omega >= 10.0 ** ends[0]) & (omega <= 10.0 ** ends[1])])

    def minimal(self) -> StateSpace:
        """The system in its free coordinates, without infinite poles."""
        A, B, C, through = self.reduced.standard(self.C.toarray(), self.D.toarray())
        largest = max(float(np.abs(part).max(initial=0.0)) for part in through)
        more = list(through[1:])
        while more and np.abs(more[-1]).max(initial=0.0) <= PROPER_ENTRY * largest:
            more.pop()
        return StateSpace(A, B, C, through[0], tuple(more), self.reduced.coordinates)

    def step(self, t: Any) -> Vector:
        """The answer to a unit step of each input at time 0.

        Parameters
        ----------
        t : array_like, shape (K,)
            Increasing times, not negative.

        Returns
        -------
        ndarray, shape (K, p, m)
            The outputs; without the impulses at 0 where outputs depend on derivatives of inputs.
        """
        times = np.asarray(t, dtype=float)
        if times.ndim != 1 or (times < 0.0).any() or (np.diff(times) <= 0.0).any():
            raise InputError("t must be increasing times, not negative")
        form = self.minimal()
        r, m = form.B.shape
        matrix = np.zeros((r + m, r + m))
        matrix[:r, :r], matrix[:r, r:] = form.A, form.B
        state, last, known = np.vstack([np.zeros((r, m)), np.eye(m)]), 0.0, (0.0, np.eye(r + m))
        responses = np.empty((len(times), *form.D.shape))
        for at, time in enumerate(times.tolist()):
            h = time - last
            if abs(h - known[0]) > 1e-12 * abs(h):
                known = h, expm(h * matrix)
            state, last = (known[1] @ state if h else state), time
            responses[at] = form.C @ state[:r] + form.D
        return responses

    def to_control(self) -> Any:
        """The minimal form as a ``StateSpace`` of the package control, with names.

        Raises
        ------
        InputError
            If the package is not installed, or outputs depend on derivatives of inputs.
        """
        form = self.minimal()
        if form.of_derivatives:
            raise InputError(
                "outputs depend on derivatives of inputs, which the package control has no state space for; "
                "choose other outputs"
            )
        try:
            control = importlib.import_module("control")
        except ImportError:
            raise InputError(
                "to_control needs the package control; install it: pip install control"
            ) from None
        names = {"states": list(form.coordinates), "inputs": list(self.inputs), "outputs": list(self.outputs)}
        return control.ss(form.A, form.B, form.C, form.D, **{key: one for key, one in names.items() if one})

    def __str__(self) -> str:
        n, r = self.E.shape[0], len(self.reduced.A)
        lines = [
            f"{self.title}: linear at t={self.t:g}, {n} unknowns, index {self.index}",
            f"{r} finite poles, {self.infinite} infinite; coordinates: "
            f"{', '.join(self.reduced.coordinates) or 'none of the unknowns'}",
        ]
        if self.modes:
            lines.append(f"  {'pole':<30} {'frequency':>12} {'Hz':>12} {'damping':>9}  unknowns")
        for mode in self.modes[:40]:
            pole = f"{mode.pole.real:.6g}" + (f" ± {mode.pole.imag:.6g}i" if mode.pole.imag else "")
            hertz = mode.frequency / (2.0 * np.pi)
            lines.append(
                f"  {pole:<30} {mode.frequency:12.6g} {hertz:12.6g} {mode.damping:9.4f}  "
                f"{', '.join(mode.unknowns)}"
            )
        if len(self.modes) > 40:
            lines.append(f"  and {len(self.modes) - 40} more")
        return "\n".join([*lines, *self.remarks])
