"""The structure of a DAE: index, degrees of freedom, blocks, stages, and what must be given at the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from dae_sdc.deadline import under_way
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import UNKNOWN, name_of
from dae_sdc.jets.graph import residues
from dae_sdc.jets.scalars import NoValueError
from dae_sdc.sharing import Recent, one_at_a_time
from dae_sdc.structure.blocks import (
    Block,
    Stages,
    canonical_offsets,
    find_blocks,
    find_transversal,
    fine_blocks,
)
from dae_sdc.structure.consistent import Leading, Start, leading_rank
from dae_sdc.structure.differentiation import (
    Differentiation,
    differentiate,
    differentiate_at_points,
    highest_orders,
    varies,
)
from dae_sdc.structure.projectors import Tractability, tractability
from dae_sdc.structure.rank import RankTest, choose_states, exact_rank, floating_rank, is_singular
from dae_sdc.structure.signature import Integers, Signature, derivative_name, is_model, listed
from dae_sdc.text import aligned, brief, html_picture, html_table, html_view

if TYPE_CHECKING:
    from dae_sdc.expressions.graph import Graph
    from dae_sdc.model.model import Equations

# Largest number of rows of a derivative array whose differentiation index is found by default.
LARGEST_ARRAY = 20_000
# Largest number of such rows for ranks at points that satisfy the constraints of nonlinear equations.
LARGEST_AT_POINTS = 400
# Operations, a few seconds of them, after which the default search for the index is given up.
MOST_WORK = 20_000_000
LARGEST_CHECKED = 400  # Number of unknowns up to which singular values are looked at for that.
MOST_KEPT = 16  # Largest number of structures that are kept.
_MOST_LINES = 40  # Largest number of equations, blocks or stages that are printed.
_MOST_OF_SERIES = 200  # Unknowns times terms of series, 0.3 s of them, up to which that index is printed.


@dataclass(frozen=True, eq=False)
class Structure:
    r"""The structure of a DAE by its signature matrix and system Jacobian.

    Returned by :func:`structure`, whose example shows it.

    Arrays are in the order of the equations and unknowns of the model.

    Parameters
    ----------
    signature : Signature
        Highest order of derivative of each unknown in each equation.
    transversal : array of int, shape (n,)
        The unknown that each equation is matched with, for the largest sum of orders.
    c, d : array of int, shape (n,)
        Canonical offsets: equation i is differentiated c_i times, and this determines :math:`x_j^{(d_j)}`.
    coarse, fine : tuple of Block
        Irreducible blocks of the signature matrix and of the system Jacobian, in the order of solution.
    states : array of int, shape (n,)
        Number of free initial values of each unknown: of itself, its first derivative, and so on.
    nonlinear : array of bool, shape (n,)
        Equations that are, or may be, nonlinear in the derivatives for which their block is solved.
    test : RankTest or None
        Rank of the system Jacobian :math:`\partial f_i / \partial x_j^{(d_j - c_i)}`; None where only a
        signature is known.
    differentiation : Differentiation or None
        Index and degrees of freedom by the derivative array; None if that was not computed.
    leading : Leading or None
        The system Jacobian at points that satisfy the constraints; None where it has the same rank at random
        points.
    equations : tuple of Graph and list of int, or None
        The expressions of the equations; None where only a signature is known.

    References
    ----------
    J. D. Pryce: A simple structural analysis method for DAEs, BIT 41 (2001).
    N. S. Nedialkov, J. D. Pryce, G. Tan: DAESA, a Matlab tool for structural analysis of DAEs, ACM Trans.
    Math. Softw. 41 (2015).
    """

    signature: Signature
    transversal: Integers
    c: Integers
    d: Integers
    coarse: tuple[Block, ...]
    fine: tuple[Block, ...]
    states: Integers
    nonlinear: npt.NDArray[np.bool_]
    test: RankTest | None = None
    differentiation: Differentiation | None = None
    leading: Leading | None = None
    equations: tuple[Graph, Sequence[int]] | None = None

    @property
    def size(self) -> int:
        """Number of equations."""
        return int(self.c.size)

    @property
    def names(self) -> Sequence[str]:
        """Names of the unknowns."""
        return self.signature.names

    @property
    def equation_names(self) -> Sequence[str]:
        """Names of the equations."""
        return self.signature.equation_names

    @property
    def index(self) -> int:
        """Structural index; the differentiation index can be smaller, or larger if not :attr:`regular`."""
        return int(self.c.max() + (self.d.min() == 0))

    @property
    def differentiation_index(self) -> int | None:
        """Number of differentiations of the equations that determine all derivatives; None if not known."""
        return None if self.differentiation is None else self.differentiation.index

    @property
    def dof(self) -> int:
        """Number of free initial values, by the offsets: sum of d - sum of c."""
        return int(self.d.sum() - self.c.sum())

    @property
    def true_dof(self) -> int | None:
        """Number of free initial values, by the derivative array; None if not known."""
        return None if self.differentiation is None else self.differentiation.dof

    @property
    def _terms(self) -> int:
        """Terms of series of time that tell the tractability index, if it is the differentiation index."""
        return 4 if self.differentiation_index is None else self.differentiation_index + 1

    @cached_property
    def tractability(self) -> Tractability | None:
        """Tractability index with its ranks, found when it is asked for; None where it is not known."""
        if self.equations is None:
            return None
        with suppress(NoValueError):
            return tractability(*self.equations, highest_orders(self.signature), self._terms)
        return None

    @property
    def rank(self) -> int | None:
        """Rank of the system Jacobian; None where only a signature is known."""
        return None if self.test is None else self.test.rank

    @property
    def regular(self) -> bool | None:
        """Whether the system Jacobian is regular, so that index and degrees of freedom can be trusted."""
        return None if self.test is None else self.test.rank == self.size

    @cached_property
    def stages(self) -> Stages:
        """Stages of the solution scheme, from the first values to the highest derivatives."""
        return Stages(self.fine, self.c, self.d, self.states, self.nonlinear)

    @property
    def free(self) -> list[tuple[int, int]]:
        """Unknown and order of derivative of each value that must be given at the start."""
        return [(j, k) for j, count in enumerate(self.states.tolist()) for k in range(count)]

    @property
    def free_names(self) -> list[str]:
        """Names of the values in :attr:`free`."""
        return [name_of(self.names[j], k) for j, k in self.free]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons for which index or degrees of freedom may be wrong, a sentence each."""
        said = []
        differentiation = self.differentiation
        if (self.leading is not None and self.leading.test is None) or (
            differentiation is not None and not differentiation.consistent
        ):
            said.append(
                "no point was found at which the equations and their derivatives hold: ranks, index and "
                "degrees of freedom are those of a random point; give start values near a consistent one"
            )
        if self.test is not None and not self.regular:
            equations = [self.equation_names[i] for i in self.test.rows[:100]]
            unknowns = [name_of(self.names[j], int(self.d[j])) for j in self.test.cols[:100].tolist()]
            said.append(
                f"the system Jacobian has rank {self.rank} of {self.size}: equations "
                f"{listed(equations, self.test.rows.size)} depend on one another in "
                f"{listed(unknowns, self.test.cols.size)}, so that index {self.index} and {self.dof} degrees "
                f"of freedom cannot be trusted; repair the model"
            )
        if differentiation is not None and differentiation.index is None:
            said.append(
                "the equations do not determine all unknowns, however often they are differentiated; one "
                "follows from others, or contradicts them"
            )
        elif self.regular and (true := self.differentiation_index) is not None and true < self.index:
            said.append(f"the structural index {self.index} is too high: the true one is {true}")
        return tuple(said)

    def _repr_html_(self) -> str:
        heads, *rows = self._rows(self.size)
        title = f"{self.size} equations, index {self.index}, degrees of freedom {self.dof}"
        picture = html_picture("dae_sdc.plotting.structure:signature", self)
        return html_view(title, html_table(heads, rows), picture, note="; ".join(self.warnings))

    def __str__(self) -> str:
        largest = [max(block.size for block in blocks) for blocks in (self.coarse, self.fine)]
        known = []
        if self.test is not None:
            kind = "regular" if self.regular else f"singular, rank {self.rank} of {self.size}"
            known.append(f"system Jacobian {kind}")
        if self.differentiation_index is not None:
            known.append(f"differentiation index {self.differentiation_index}")
            if self.true_dof != self.dof:
                known.append(f"true degrees of freedom {self.true_dof}")
        elif self.test is not None and self.differentiation is None:
            known.append("differentiation index not looked for")
        quick = self._terms * sum(highest_orders(self.signature)) <= _MOST_OF_SERIES
        if quick and self.tractability is not None:
            known.append(f"tractability index {self.tractability.index}")
        more = self.size - _MOST_LINES
        lines = [
            f"{self.size} equations, structural index {self.index}, degrees of freedom {self.dof}",
            ", ".join(known) or "system Jacobian not known",
            f"{len(self.coarse)} coarse and {len(self.fine)} fine blocks, the largest of {largest[0]} and "
            f"{largest[1]} equations",
            f"to start: {brief(self.free_names, _MOST_LINES) or 'nothing is free'}",
            "",
            *aligned(self._rows(min(self.size, _MOST_LINES)), gap="  ").split("\n"),
            *([f"... and {more} more equations"] if more > 0 else []),
            "",
            *self._scheme(),
            *(f"warning: {text}" for text in self.warnings),
        ]
        return "\n".join(lines)

    def _rows(self, count: int) -> list[tuple[str, ...]]:
        """The first equations with their offsets and unknowns, below a row of heads."""
        rows: list[tuple[str, ...]] = [("equation", "c", "assigned", "unknown", "d")]
        for i in range(count):
            j = int(self.transversal[i])
            assigned = name_of(self.names[j], int(self.d[j] - self.c[i]))
            rows.append((self.equation_names[i], str(self.c[i]), assigned, self.names[j], str(self.d[j])))
        return rows

    def _scheme(self) -> list[str]:
        lines = ["stage: equations -> what they determine"]
        for stage in self.stages:
            for task in stage.tasks:
                if len(lines) > _MOST_LINES:
                    return [*lines, "      ..."]
                equations = [derivative_name(self.equation_names[i], k) for i, k in task.equations]
                unknowns, free = (
                    [name_of(self.names[j], k) for j, k in pairs] for pairs in (task.unknowns, task.free)
                )
                parts = [f"{brief(equations, 8)} -> {brief(unknowns, 8)}"] if equations else []
                parts += [f"free: {brief(free, 8)}"] if free else []
                parts += ["nonlinear"] if equations and not task.linear else []
                lines.append(f"{stage.number:>4}: {'; '.join(parts)}")
        return lines


_STRUCTURES: Final[Recent[tuple[Any, ...], Structure]] = Recent(MOST_KEPT)


@under_way("the structure was analysed")
def structure(
    model: Equations | Signature | npt.ArrayLike,
    *,
    point: Any = None,
    differentiation: bool | None = None,
    start: Start | None = None,
) -> Structure:
    """Find the structure of a DAE."""
    found = analyse(model, start)
    if not is_model(model):
        return found
    if point is not None:
        test = floating_rank(model.system_jacobian(found.c, found.d, point), found.fine)
        found = replace(found, test=test)
    sought = _differentiate(model, found, differentiation, start or Start.of(model))
    return replace(found, differentiation=sought)


@one_at_a_time
def structure_of(model: Equations) -> Structure:
    """The structure of a model, which is kept for models that have the same equations and start values."""
    key = *model.equations_alone(), *Start.of(model).key_for(model)
    return _STRUCTURES.of(key, lambda: structure(model))


@one_at_a_time
def analyse(model: Equations | Signature | npt.ArrayLike, start: Start | None = None) -> Structure:
    """The structure of a DAE without its differentiation index, which takes longest to find."""
    if not is_model(model):
        return _generic(model)[0]
    # What does not depend on values of parameters is kept for models that have the same equations.
    found, values = _GENERIC.of(model.equations_alone(), lambda: _generic(model))
    test, leading, states, size = found.test, None, found.states, found.c.size
    if test is not None and test.rank == size:
        leading = leading_rank(model, found.c, found.d, found.fine, start or Start.of(model))
        if leading is not None and leading.test is not None:
            test = leading.test
            values = {key: value for key, value in values.items() if key not in leading.vanishing}
        if test.rank == size:
            states = choose_states(values, found.fine, found.c, found.d)
    return replace(found, test=test, leading=leading, states=states)


Entries = dict[tuple[int, int], int]  # Of the system Jacobian in the finite field, by equation and unknown.
_GENERIC: Final[Recent[tuple[Any, ...], tuple[Structure, Entries]]] = Recent(MOST_KEPT)


def _generic(model: Equations | Signature | npt.ArrayLike) -> tuple[Structure, Entries]:
    """The structure for almost all values, and the entries of the system Jacobian."""
    signature = Signature.of(model)
    transversal = find_transversal(signature)
    c, d = canonical_offsets(signature, transversal)
    # Equations that can be solved separately with all derivatives, and those that can within a stage.
    coarse = find_blocks(signature.rows, signature.cols, transversal)
    fine = fine_blocks(signature, transversal, c, d)
    # Free initial values of each unknown: its order in the equation matched with it.
    states = np.zeros(transversal.size, dtype=np.int64)
    on = signature.cols == transversal[signature.rows]
    states[signature.cols[on]] = signature.orders[on]
    test, values, nonlinear, equations = None, Entries(), np.ones(c.size, dtype=bool), None
    if is_model(model):
        equations = model.graph, list(model.roots)
        values = leading_values(model, c, d)
        test, nonlinear = exact_rank(c.size, values, fine), _nonlinear_rows(model, fine, c, d)
    found = Structure(
        signature, transversal, c, d, coarse, fine, states, nonlinear, test, equations=equations
    )
    return found, values


def regular_by_rounding(model: Equations, found: Structure, least: float = 1e-10) -> bool:
    """Whether the system Jacobian is regular by a ratio of singular values that may be rounding errors."""
    if not found.regular or found.c.size > LARGEST_CHECKED:
        return False
    return is_singular(model.system_jacobian(found.c, found.d).toarray(), least)


def leading_values(model: Equations, c: Integers, d: Integers) -> Entries:
    """The system Jacobian at a random point of the finite field: entries by equation and unknown."""
    # Shapes: c and d (n,).
    try:
        partials = residues(model.graph, [(root, 0) for root in model.roots])
    except NoValueError:
        raise InputError(
            "an equation divides by something that is 0 for all values; write it without the quotient"
        ) from None
    return {
        (i, j): slope
        for i, slopes in enumerate(partials)
        for (j, k), slope in slopes.items()
        if k == d[j] - c[i] and slope
    }


@under_way("the differentiation index was found", ", or leave it out with differentiation=False")
def _differentiate(
    model: Equations, found: Structure, wanted: bool | None, start: Start
) -> Differentiation | None:
    # Every hidden constraint that the offsets do not show takes one degree of freedom.
    most = found.index if found.regular else found.index + found.dof + 1
    limit, graph, roots = None, model.graph, list(model.roots)
    varying = varies(graph, roots)
    rows, searches = found.size * (found.index + 1), True
    if wanted is None:
        wanted, limit, searches = rows <= LARGEST_ARRAY, MOST_WORK, rows <= LARGEST_AT_POINTS
    if not wanted:
        return None
    if not varying:
        return differentiate(graph, roots, found.signature, most, limit)
    points = found.leading.points if found.leading is not None else ()
    # A regular system Jacobian at a point that satisfies the constraints proves these degrees of freedom.
    expected = Differentiation(found.index, found.dof) if found.regular and points else None
    if searches:
        near = points[0] if points else None
        at_points = differentiate_at_points(graph, roots, found.signature, most, start, near, expected)
        if at_points is not None:
            return at_points
    at_random = differentiate(graph, roots, found.signature, most, limit)
    if at_random is None or at_random == expected:
        return at_random
    return replace(at_random, consistent=False)


def _nonlinear_rows(
    model: Equations, blocks: Sequence[Block], c: Integers, d: Integers
) -> npt.NDArray[np.bool_]:
    """Equations that are nonlinear in the derivatives that their fine block is solved for."""
    graph = model.graph
    block_of_row, block_of_col = np.empty_like(c), np.empty_like(d)
    for number, block in enumerate(blocks):
        block_of_row[block.rows] = block_of_col[block.cols] = number
    nonlinear = np.zeros(c.size, dtype=bool)
    for i, root in enumerate(model.roots):
        own = block_of_row[i], c[i]  # What is leading belongs to the block, and has all derivatives.
        nonlinear[i] = is_nonlinear(graph, root, lambda j, k: (block_of_col[j], d[j] - k) == own)  # noqa: B023
    return nonlinear


def is_nonlinear(graph: Graph, node: int, is_chosen: Callable[[int, int], bool]) -> bool:
    """Whether an expression is nonlinear in derivatives, chosen by unknown and order, together."""
    slopes = {jet: slope for jet, slope in graph.slopes(node).items() if is_chosen(*jet)}
    return any(
        graph.mark[slope] & UNKNOWN and not slopes.keys().isdisjoint(graph.jets_of(slope))
        for slope in slopes.values()
    )


def index_of_unknowns(found: Structure) -> tuple[int, ...]:
    r"""Index of each unknown: number of differentiations of equations that determine its first derivative.

    In stage k of the solution scheme a block determines the derivatives of order :math:`d_j + k` of its
    unknowns by its equations i, differentiated :math:`c_i + k` times. These contain other unknowns, of orders
    up to :math:`\sigma_{ij} + c_i + k`, from earlier stages or other blocks. The largest number of
    differentiations in all these equations is the index, at least 1; the largest index is that of the DAE.
    """
    c, d, signature = found.c.tolist(), found.d.tolist(), found.signature
    block_of = np.empty(found.size, dtype=np.int64)
    for number, block in enumerate(found.fine):
        block_of[block.cols] = number
    entries: list[list[tuple[int, int]]] = [[] for _ in range(found.size)]
    for i, j, order in np.column_stack([signature.rows, signature.cols, signature.orders]).tolist():
        entries[i].append((int(block_of[j]), order + c[i] - d[j]))
    known: dict[tuple[int, int], int] = {}
    # Each depends on earlier stages, and on blocks before it in its own.
    for stage, (number, block) in product(range(-max(d), 2), enumerate(found.fine)):
        rows = [i for i in block.rows.tolist() if c[i] + stage >= 0]
        others = (known.get((other, stage + by), 0) for i in rows for other, by in entries[i])
        known[number, stage] = max((*(c[i] + stage for i in rows), *others), default=0)
    return tuple(max(1, known[int(block_of[j]), 1 - d[j]]) for j in range(found.size))
