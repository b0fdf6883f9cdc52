"""Determinants of the system Jacobian along a solution, which is not determined where one vanishes."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.memory import ArrayMemory
from dae_sdc.expressions.codegen import compile_program
from dae_sdc.expressions.dag import MOVING, Leaf, name_of
from dae_sdc.expressions.graph import Graph, Input
from dae_sdc.sharing import one_at_a_time
from dae_sdc.structure.analysis import Structure, analyse, regular_by_rounding
from dae_sdc.structure.rank import equilibration
from dae_sdc.structure.signature import listed

Vector = npt.NDArray[np.float64]
Place = tuple[float, Vector, Vector]  # A time, the state there, and its derivative.

# Equations of a block up to which its determinant is an expression; that of a larger one is of pivots.
MOST_EXPANDED = 6
# Equations of a block up to which it is watched; to factorise a larger one takes longer than the steps.
MOST_WATCHED = 300
LEAST = 1e-6  # Singular value, relative to the largest of the equilibrated matrix, that counts as zero.
# Minimum of the parabola through the last three determinants, relative to their sizes, below which a step is
# examined.
DEEP = 0.1
INVOLVED = 1e-2  # Entry of a null vector, relative to the largest, from which its equation is listed.
ROUNDED = 1e-7  # Value of an unknown, relative to its values nearby, up to which it is taken to be 0.
MOST_VALUES_LISTED = 6  # Largest number of values that a message lists.


@dataclass(frozen=True)
class Deficiency:
    """Rank deficiency of a matrix at a time and state."""

    what: str  # Name of the matrix: "the system Jacobian" or "the Jacobian of the constraints".
    # rank, size: its rank there, and its number of rows, the rank elsewhere.
    rank: int
    size: int
    equations: tuple[str, ...]  # Names of the equations that depend on one another there.
    # Names and values of the unknowns on which the dependent rows depend.
    values: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        place = ", ".join(f"{name}={value:.6g}" for name, value in self.values[:MOST_VALUES_LISTED])
        more = ", ..." if len(self.values) > MOST_VALUES_LISTED else ""
        alone = len(self.equations) == 1
        how = "has no gradient" if alone else "depend on one another"
        return (
            f"{self.what} has rank {self.rank} of {self.size}, where {listed(self.equations)} {how}"
            f"{f' ({place}{more})' if place else ''}"
        )


@dataclass(frozen=True, eq=False)
class _Block:
    """Equations and unknowns of a diagonal block, with the positions and graph nodes of its entries."""

    rows: tuple[int, ...]
    cols: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    nodes: tuple[int, ...]


class Determinants:
    r"""Determinants of the diagonal blocks of the system Jacobian as functions of the state of a problem.

    The system Jacobian :math:`\partial f_i / \partial x_j^{(d_j - c_i)}` of a model (of the repaired model
    where it is singular everywhere) is block triangular, so it is singular where one of its diagonal blocks
    is. It contains only derivatives that occur in the equations, which the states of a problem made of the
    model hold, whether its index was reduced or not. Constant blocks are left out, and so are blocks with
    derivatives that a state does not hold, which a repair may introduce.
    """

    @one_at_a_time
    def __init__(self, model: Any, states: Sequence[tuple[int, int]]) -> None:
        found = analyse(model)
        # Those of a repair vanish where its pivots do, and those of rounding errors anywhere.
        says_nothing = model.of_function and (not found.regular or regular_by_rounding(model, found))
        if not found.regular:
            from dae_sdc.structure.repair import repair  # which loads SymPy

            repaired = repair(model)
            model, found = repaired.model, repaired.structure
        self._graph: Graph = model.graph
        self._names, self._equation_names = list(model.names), list(model.equation_names)
        self._c = found.c.tolist()
        self._place = {jet: at for at, jet in enumerate(states)}
        self._blocks = [] if says_nothing else self._collected(model, found)
        small = [block for block in self._blocks if len(block.rows) <= MOST_EXPANDED]
        large = [block for block in self._blocks if len(block.rows) > MOST_EXPANDED]
        # The determinant of a block may be constant although its entries are not.
        expanded = [(block, _determinant(self._graph, block)) for block in small]
        expanded = [(block, node) for block, node in expanded if self._graph.mark[node] & MOVING]
        self._blocks = [*(block for block, _ in expanded), *large]
        self._expanded = len(expanded)
        outputs = [node for _, node in expanded] + [node for block in large for node in block.nodes]
        self._program = self._graph.program(outputs, self._given)
        self.needs_derivatives = any(entry.kind == "du" for entry in self._program.inputs)

    def __deepcopy__(self, memo: Any) -> Determinants:
        return self  # it is immutable

    def __len__(self) -> int:
        """Number of determinants that change along a solution."""
        return len(self._blocks)

    def _given(self, leaf: Leaf) -> Input | None:
        if leaf.kind != "u":
            return Input(leaf.kind, leaf.index)
        jet = leaf.index, leaf.order
        if jet in self._place:
            return Input("u", self._place[jet])
        before = leaf.index, leaf.order - 1
        return Input("du", self._place[before]) if before in self._place else None

    def _collected(self, model: Any, found: Structure) -> list[_Block]:
        """Diagonal blocks whose entries vary and can be evaluated from a state."""
        graph, number = self._graph, np.full((2, found.size), -1)
        for at, block in enumerate(found.fine):
            number[0, block.rows] = number[1, block.cols] = at
        entries: dict[int, list[tuple[int, int, int]]] = {}
        for (i, j), node in graph.leading_slopes(model.roots, found.c.tolist(), found.d.tolist()).items():
            if number[0, i] == number[1, j]:
                entries.setdefault(int(number[0, i]), []).append((i, j, node))
        blocks = []
        for at, own in sorted(entries.items()):
            rows, cols = (tuple(part.tolist()) for part in (found.fine[at].rows, found.fine[at].cols))
            nodes = tuple(node for _, _, node in own)
            varies = any(graph.mark[node] & MOVING for node in nodes)
            known = all(self._given(leaf) is not None for leaf in graph.leaves_of(*nodes))
            if varies and known and len(rows) <= MOST_WATCHED:
                places = tuple((rows.index(i), cols.index(j)) for i, j, _ in own)
                blocks.append(_Block(rows, cols, places, nodes))
        return blocks

    # --- rank deficiency ------------------------------------------------------------------------------------

    def matrix(self, at: int, t: float, u: Vector, du: Vector, p: Vector) -> Vector:
        """The entries of a block, shape (k, k)."""
        block = self._blocks[at]
        entries, matrix = self._graph.program(block.nodes, self._given), np.zeros((len(block.rows),) * 2)
        i, j = np.array(block.places, dtype=np.int64).T
        matrix[i, j] = entries.evaluate(entries.arguments(t, u, du, p))
        return matrix

    @one_at_a_time
    def deficiency(
        self, at: int, place: Place, others: Sequence[Place], p: Vector, least: float = LEAST
    ) -> Deficiency | None:
        """The rank deficiency of a block at a time and state; None where it is regular."""
        matrix = self.matrix(at, *place, p)
        usual = sum((np.abs(self.matrix(at, *other, p)) for other in others), np.abs(matrix))
        if not np.isfinite(usual).all():
            return None
        null = null_rows(matrix, usual, least)
        if null is None:
            return None
        block, nullity = self._blocks[at], null.shape[1]
        share = np.abs(null).max(axis=1)
        involved = np.flatnonzero(share > INVOLVED * share.max()).tolist()
        rows = [block.rows[i] for i in involved]
        held = [i for i in block.rows if self._c[i] > 0]
        what, size = "the system Jacobian", len(block.rows)
        if len(held) < size and all(self._c[i] > 0 for i in rows):
            what, size = "the Jacobian of the constraints", len(held)
        # The unknowns in the entries of these rows.
        nodes = [node for node, (i, _) in zip(block.nodes, block.places, strict=True) if i in involved]
        unknowns = []
        for leaf in sorted(self._graph.leaves_of(*nodes)):
            source = self._given(leaf) if leaf.kind == "u" else None
            if source is not None:
                arrays = [u if source.kind == "u" else du for _, u, du in (place, *others)]
                value, *nearby = (float(array[source.index]) for array in arrays)
                unknowns.append((name_of(self._names[leaf.index], leaf.order), rounded(value, nearby)))
        equations = tuple(self._equation_names[i] for i in rows)
        return Deficiency(what, size - nullity, size, equations, tuple(unknowns))


class Follower:
    """Determinants along a run, those of large blocks relative to their first values, and work space."""

    def __init__(self, of: Determinants, problem: Any) -> None:
        self._determinants, self._problem, self.needs_derivatives = of, problem, of.needs_derivatives
        compiled, blocks, n = compile_program(of._program, "residual"), of._blocks, len(of._place)
        own = self._own = importlib.import_module("dae_sdc.structure.following")
        count, large = len(blocks), blocks[of._expanded :]
        side = max((len(block.rows) for block in large), default=0)
        heads = [(len(block.rows), block.places) for block in large]
        layout = [[size, len(places), *(i * size + j for i, j in places)] for size, places in heads]
        structure = own.FollowerMemory(program=compiled.address, n=n, count=count, expanded=of._expanded)
        sizes = {
            **{"out": len(compiled.program.outputs), "matrix": side * side, "last": 2 * n, "middle": 2 * n},
            **{"ends": 3 * count, "between": count, "units": count, "times": 3},
        }
        arrays: dict[str, Any] = {name: np.full(size, np.nan) for name, size in sizes.items()}
        arrays["signs"] = np.zeros(count)
        arrays["blocks"] = np.array([number for part in layout for number in part], dtype=np.int64)
        self._compiled, self._memory = compiled, ArrayMemory(structure, arrays)

    def __len__(self) -> int:
        return len(self._determinants)

    def values(self, place: Place) -> Vector:
        """The determinants at a time and state, shape (blocks,); NaN where one has no value."""
        self._own.values(self._memory.address, self._problem.packed_parameters, *place)
        return self._memory.arrays["between"].copy()

    def begin(self, place: Place) -> None:
        """Begin at a time and state, and forget earlier steps."""
        values, arrays, (t, u, du) = self.values(place), self._memory.arrays, place
        arrays["ends"][:], arrays["times"][:] = np.nan, (np.nan, np.nan, t)
        arrays["ends"][-len(values) :], arrays["last"][:] = values, np.append(u, du)
        arrays["signs"][:] = np.where(np.isfinite(values), np.sign(values), 0.0)

    def follow(self, place: Place) -> int:
        """Advance to the end of a step; the sum of its marks."""
        return self.follow_all(*(np.array([part]) for part in place))[1]

    def follow_all(self, t: Vector, u: Vector, du: Vector) -> tuple[int, int]:
        """Advance to the ends of steps until one has marks; the number of steps, and the sum of its marks."""
        # Determinants are computed there and halfway along straight lines. Shapes: t (K,), u and du (K, n).
        p, places = self._problem.packed_parameters, map(np.ascontiguousarray, (t, u, du))
        steps, marks = self._own.follow(self._memory.address, p, *places, DEEP)
        return int(steps), int(marks)

    def deficiency(self, at: int, place: Place, others: Sequence[Place], least: float) -> Deficiency | None:
        """How a rank falls at a place, by values at others; None where it does not."""
        return self._determinants.deficiency(at, place, others, self._problem.packed_parameters, least)


def null_rows(matrix: Vector, usual: Vector, least: float = LEAST) -> Vector | None:
    """Left null vectors, as columns, of an equilibrated square matrix; None if it is regular."""
    # Shapes: matrix (k, k), usual (k, k).
    rows, cols = equilibration(usual)
    vectors, sizes, _ = np.linalg.svd(matrix * rows[:, None] * cols)
    largest = float(max(sizes[0], 1.0 / len(matrix)))
    if not sizes[-1] <= least * largest:
        return None
    rank = int((sizes > max(min(30.0 * sizes[-1], 1e-2 * largest), least * largest)).sum())
    return np.asarray(vectors[:, rank:])


def rounded(value: float, others: Sequence[float]) -> float:
    """The value, or 0 where it is round-off compared with other values of the same unknown."""
    return 0.0 if abs(value) <= ROUNDED * max(map(abs, others), default=0.0) else value


def _determinant(graph: Graph, block: _Block) -> int:
    """The determinant of a block as a node, expanded row by row."""
    size = len(block.rows)
    entries = [
        [(j, node) for (i, j), node in zip(block.places, block.nodes, strict=True) if i == row]
        for row in range(size)
    ]
    minors = {0: graph.one}
    for row in entries:
        found: dict[int, list[int]] = {}
        for taken, minor in minors.items():
            for j, node in row:
                if taken >> j & 1:
                    continue
                product = graph.mul(node, minor)
                swapped = (taken >> j).bit_count() % 2
                found.setdefault(taken | 1 << j, []).append(graph.neg(product) if swapped else product)
        minors = {taken: graph.add(*parts) for taken, parts in found.items()}
    return minors.get((1 << size) - 1, graph.zero)
