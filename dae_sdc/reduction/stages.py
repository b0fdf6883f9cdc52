r"""Reduction of the index by the stages of the Sigma-method, with dummy derivatives.

All equations :math:`f_i, f_i', \dots, f_i^{(c_i)}` hold together, for the unknowns
:math:`x_j, x_j', \dots, x_j^{(d_j)}`, each an unknown of its own. Of the relations between an unknown and
its derivative only as many are kept as there are degrees of freedom; the others are given up, and the
derivatives in them are dummies, which the equations determine. In each stage of each block the best
conditioned columns of the system Jacobian are taken for dummies, and the relations of the other columns are
kept. Which these are depends on the solution, and is decided at the beginning of every step.

References
----------
S. E. Mattsson, G. Soederlind: Index reduction in differential-algebraic equations using dummy derivatives,
SIAM J. Sci. Comput. 14 (1993). J. D. Pryce: A simple structural analysis method for DAEs, BIT 41 (2001).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from dae_sdc.dae.linear import superlu
from dae_sdc.dae.state import Vector
from dae_sdc.errors import SingularMatrixError
from dae_sdc.expressions.dag import name_of
from dae_sdc.expressions.graph import Graph
from dae_sdc.reduction.separate import Jet
from dae_sdc.structure.analysis import Structure

if TYPE_CHECKING:
    from dae_sdc.model.model import Equations

# Smallest singular value of the dummies' columns, relative to that of all, below which others are
# sought. States that are badly chosen cost more than another choice: errors in them are amplified in
# the dummies.
WEAK_CHOICE: Final = 0.5
LEAST_IMPROVEMENT: Final = 1.5  # Factor by which others must be better to be taken.
# Equations of a choice up to which it is made by orthogonal elimination; beyond by a matching.
MOST_ELIMINATED: Final = 60
PRICE_OF_ZERO: Final = 1e6  # Price of an entry that is 0 when dummies are given to equations.


@dataclass(frozen=True)
class Choice:
    """Columns of a block from which dummies are chosen."""

    # rows, columns: equations and unknowns, more unknowns than equations.
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    # Where the system Jacobian has entries in them, by equation and unknown.
    entries: tuple[tuple[int, int], ...]

    @property
    def weights(self) -> int:
        """Number of weights: for each column that of its relation, for each entry that of its equation."""
        return len(self.columns) + len(self.entries)


@dataclass(frozen=True)
class Staged:
    """Equations of all stages, and the relations from which states are chosen."""

    graph: Graph  # Graph of the expressions.
    # The nodes of all equations, by equation and how often it is differentiated.
    equations: dict[tuple[int, int], int]
    # c, d: offsets.
    c: tuple[int, ...]
    d: tuple[int, ...]
    plain: list[Jet]  # Jets whose relation to their derivative is kept in any case.
    # Choices and the stages, numbered as those of :class:`~dae_sdc.structure.blocks.Stage`, in which they
    # are made: in stage k between the relations of :math:`x_j^{(d_j + k)}` and the equations
    # :math:`f_i^{(c_i + k)}`.
    open: list[tuple[Choice, int]]
    slopes: dict[tuple[int, int], int]  # Nodes of the system Jacobian in the rows and columns of choices.
    names: Sequence[str]  # Names of the equations.

    index: ClassVar[int] = 1
    passes: ClassVar[tuple[Any, ...]] = ()

    @property
    def differentiations(self) -> int:
        """How often equations were differentiated."""
        return max(order for _, order in self.equations)

    def outputs(self, goal: str, names: Sequence[str]) -> list[int]:
        """All expressions that are calculated."""
        return list(self.equations.values())

    @property
    def choices(self) -> list[Choice]:
        """All choices, each once."""
        return list(dict.fromkeys(choice for choice, _ in self.open))

    @property
    def invariants(self) -> list[tuple[str, int]]:
        """Names and nodes of equations that bind the state: without a derivative that is an entry of u'."""
        rates = {(j, k + 1) for j, k in self.plain if k + 1 == self.d[j]}
        return [
            (name_of(self.names[i], order), node)
            for (i, order), node in self.equations.items()
            if rates.isdisjoint(self.graph.depends(node))
        ]


def stage(graph: Graph, model: Equations, analysed: Structure) -> Staged:
    """The equations of all stages of the Sigma-method."""
    roots, c, d = model.roots, analysed.c.tolist(), analysed.d.tolist()
    equations = {
        (i, order): graph.total_derivative(root, order)
        for i, root in enumerate(roots)
        for order in range(c[i] + 1)
    }
    plain: list[Jet] = []
    chosen: list[tuple[Choice, int]] = []
    slopes: dict[tuple[int, int], int] = {}
    leading: list[dict[int, int]] = [{} for _ in roots]
    for (i, j), node in graph.leading_slopes(roots, c, d).items():
        leading[i][j] = node
    for block in analysed.fine:
        rows, columns = block.rows.tolist(), block.cols.tolist()
        choices: dict[tuple[int, int], Choice] = {}
        for number in range(-max(d[j] for j in columns), 0):
            active = [i for i in rows if c[i] + number >= 0]
            wanted = [j for j in columns if d[j] + number >= 0]
            if not active:
                plain += [(j, d[j] + number) for j in wanted]
            elif len(active) < len(wanted):
                size = len(active), len(wanted)  # rows and columns only become more from stage to stage
                if size not in choices:
                    inside = set(wanted)
                    entries = {(i, j): node for i in active for j, node in leading[i].items() if j in inside}
                    slopes |= entries
                    choices[size] = Choice(tuple(active), tuple(wanted), tuple(entries))
                chosen.append((choices[size], number))
    return Staged(graph, equations, tuple(c), tuple(d), plain, chosen, slopes, model.equation_names)


class Selection:
    """Which relations are kept, as numbers that the equations take as parameters."""

    def __init__(self, choices: Sequence[Choice], entries: Sequence[tuple[int, int]]) -> None:
        place = {key: at for at, key in enumerate(entries)}
        starts = np.cumsum([0, *(choice.weights for choice in choices)])
        self.weights = np.zeros(int(starts[-1]))
        parts = [_Part(choice, place, int(start)) for choice, start in zip(choices, starts, strict=False)]
        # Matrices of one size are checked together.
        sizes: dict[tuple[int, int], list[_Part]] = {}
        for part in parts:
            if len(part.choice.rows) <= MOST_ELIMINATED:
                sizes.setdefault(part.shape, []).append(part)
        self._groups = [(parts, np.array([part.where for part in parts])) for parts in sizes.values()]
        self._large = [part for part in parts if len(part.choice.rows) > MOST_ELIMINATED]

    def update(self, values: Vector) -> int:
        """Choose again where the dummies are badly determined."""
        if not np.isfinite(values).all():
            return 0
        padded = np.append(values, 0.0)
        changed = 0
        for parts, where in self._groups:
            matrices = padded[where]
            for at in np.flatnonzero(_are_weak(parts, matrices)).tolist():
                changed += parts[at].choose(matrices[at], self.weights)
        for part in self._large:
            matrix = part.sparse(values)
            if part.has_faded(matrix):
                changed += part.match(matrix, self.weights)
        return changed


class _Part:
    """One choice and its present dummies."""

    def __init__(self, choice: Choice, place: Mapping[tuple[int, int], int], start: int) -> None:
        self.choice, self._start = choice, start
        self.shape = len(choice.rows), len(choice.columns)
        row = {i: at for at, i in enumerate(choice.rows)}
        column = {j: at for at, j in enumerate(choice.columns)}
        self._rows = np.array([row[i] for i, _ in choice.entries])
        self._columns = np.array([column[j] for _, j in choice.entries])
        self._values = np.array([place[key] for key in choice.entries])
        self._weight = {
            key: at for at, key in enumerate(zip(self._rows.tolist(), self._columns.tolist(), strict=True))
        }
        self.dummies: tuple[int, ...] = ()  # of each row, its column
        self._inverse = 0.0  # norm of the inverse of the dummies' columns when they were chosen

    @property
    def where(self) -> npt.NDArray[Any]:
        """Places of the values of the matrix; -1, that of a 0 put behind them, where it has no entry."""
        places = np.full(self.shape, -1)
        places[self._rows, self._columns] = self._values
        return places

    def sparse(self, values: Vector) -> csr_matrix:
        """The matrix at a point."""
        return csr_matrix((values[self._values], (self._rows, self._columns)), shape=self.shape)

    def choose(self, matrix: npt.NDArray[Any], weights: Vector) -> int:
        """Take the columns with which orthogonal elimination with pivoting begins; returns 1 if new."""
        best = qr(matrix, mode="r", pivoting=True, check_finite=False)[1][: len(matrix)]
        if self.dummies:
            sizes = [
                np.linalg.svd(matrix[:, list(part)], compute_uv=False)[-1] for part in (best, self.dummies)
            ]
            if sizes[0] <= LEAST_IMPROVEMENT * sizes[1]:
                return 0
        with np.errstate(divide="ignore"):
            prices = -np.log(np.abs(matrix[:, best]))
        prices[~np.isfinite(prices)] = PRICE_OF_ZERO
        return self._take(best[linear_sum_assignment(prices)[1]].tolist(), weights)

    def match(self, matrix: csr_matrix, weights: Vector) -> int:
        """Take the columns of the matching with the largest product of relative entries; returns 1 if new."""
        sizes = abs(matrix)
        sizes.eliminate_zeros()
        if not np.diff(sizes.indptr).all():
            return 0
        largest = np.maximum.reduceat(sizes.data, sizes.indptr[:-1])
        sizes.data = 1.0 - np.log(sizes.data / np.repeat(largest, np.diff(sizes.indptr)))
        try:
            columns = min_weight_full_bipartite_matching(sizes)[1].tolist()
        except ValueError:  # no columns are independent here
            return 0
        changed = self._take(columns, weights)
        self._inverse = self._norm_of_inverse(matrix)
        return changed

    def has_faded(self, matrix: csr_matrix) -> bool:
        """Whether the columns of the dummies are nearer to singular than when they were chosen."""
        return not (self.dummies and self._norm_of_inverse(matrix) * WEAK_CHOICE <= self._inverse)

    def _norm_of_inverse(self, matrix: csr_matrix) -> float:
        try:
            factors = superlu(matrix[:, list(self.dummies)].tocsc())
        except SingularMatrixError:
            return np.inf
        n = len(self.dummies)
        # A few vectors are enough for the size, which is compared with another one found in the same way.
        probes = np.random.default_rng(0).choice((-1.0, 1.0), (n, 4))
        return float(np.abs(factors.solve(probes)).max() * np.abs(matrix.data).max())

    def _take(self, columns: list[int], weights: Vector) -> int:
        before = set(self.dummies)
        if set(columns) == before:
            return 0
        self.dummies = tuple(columns)
        width = self.shape[1]
        part = weights[self._start : self._start + self.choice.weights]
        part[:width] = 1.0
        part[columns] = 0.0
        part[width:] = 0.0
        for row, column in enumerate(columns):
            part[width + self._weight[row, column]] = 1.0
        return 1


def _are_weak(parts: Sequence[_Part], matrices: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where the columns of the dummies are much nearer to singular than all columns are."""
    if any(not part.dummies for part in parts):
        return np.ones(len(parts), dtype=bool)
    chosen = np.array([part.dummies for part in parts])
    own = np.take_along_axis(matrices, chosen[:, None, :], axis=2)
    smallest = np.linalg.svd(own, compute_uv=False)[:, -1]
    best = np.linalg.svd(matrices, compute_uv=False)[:, -1]
    return smallest < WEAK_CHOICE * best
