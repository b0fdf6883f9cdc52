"""Some of the equations of a model, and the parts of the solution scheme."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.state import Vector
from dae_sdc.expressions.dag import Leaf
from dae_sdc.expressions.operations import Op
from dae_sdc.expressions.program import Program
from dae_sdc.initial.jets import ModelJets, offsets_stages

_SWITCHES = frozenset({Op.ABS, Op.SIGN, Op.FLOOR, Op.MIN, Op.MAX, Op.LT, Op.LE})


class Part:
    """Some equations, and their derivatives with respect to all values in them.

    Parameters
    ----------
    system : ModelJets
        All equations.
    rows : sequence of int
        Which of them.

    Attributes
    ----------
    roots : list of int
        Their nodes in the graph.
    pattern : list of (int, int)
        Position of an equation and number of a value in it.
    switches : list of (int, int)
        Position of an equation and number of a value that decides which branch of it is taken.
    depends : ndarray of int
        Numbers of all values in them.
    """

    def __init__(self, system: ModelJets, rows: Sequence[int]) -> None:
        self.system, self.rows = system, list(rows)
        self.roots = [system.roots[i] for i in rows]
        entries = system.slopes(self.roots)
        self.pattern = [(i, j) for i, j, _ in entries]
        self._linear: dict[frozenset[int], bool] = {}
        self._chosen: dict[tuple[int, ...], npt.NDArray[np.int64]] = {}
        self.slopes = {(i, j): slope for i, j, slope in entries}
        self.switches = [
            (i, system.place[leaf.index, leaf.order])
            for i, root in enumerate(self.roots)
            for leaf in self._deciding(root)
            if (leaf.index, leaf.order) in system.place
        ]
        self.depends = np.unique(np.array([j for _, j in self.pattern + self.switches], dtype=np.int64))

    def _deciding(self, root: int) -> list[Leaf]:
        graph = self.system.model.graph
        nodes = [node for node in graph.below([root], veils=True) if graph.op[node] in _SWITCHES]
        return sorted(leaf for leaf in graph.leaves_of(*nodes, veils=True) if leaf.kind == "u")

    @cached_property
    def programs(self) -> tuple[Program, Program]:
        """The equations, and their derivatives in the order of ``pattern``."""
        graph, given = self.system.model.graph, self.system.input_of
        return graph.program(self.roots, given), graph.program(list(self.slopes.values()), given)

    def values(self, x: Vector) -> Vector:
        """The equations at all values x."""
        return self.system.run(self.programs[0], x)

    def terms(self, x: Vector) -> Vector:
        """Sizes of the terms of the equations at all values x."""
        return self.system.sizes(self.programs[0], x)

    def jacobian(self, x: Vector) -> Any:
        """Derivatives of the equations with respect to all values, CSC."""
        entries = self.system.run(self.programs[1], x)
        places = np.array(self.pattern, dtype=np.int64).reshape(-1, 2).T
        return sparse.csc_matrix((entries, places), shape=(len(self.rows), len(self.system.jets)))

    def dense(self, x: Vector, columns: Sequence[int]) -> Vector:
        """Derivatives of the equations with respect to some values, shape (points, rows, columns).

        Parameters
        ----------
        x : ndarray, shape (jets,) or (jets, points)
            All values, at one or several points; for one, the result has shape (rows, columns).
        columns : sequence of int
            Numbers of some of them.
        """
        key = tuple(columns)
        if key not in self._chosen:
            place = {j: at for at, j in enumerate(key)}
            own = [(e, i, place[j]) for e, (i, j) in enumerate(self.pattern) if j in place]
            self._chosen[key] = np.array(own, dtype=np.int64).reshape(-1, 3).T
        entries, at, of = self._chosen[key]
        found = np.zeros((*x.shape[1:], len(self.rows), len(key)))
        found[..., at, of] = self.system.run(self.programs[1], x)[entries].T
        return found

    def is_linear(self, columns: Iterable[int]) -> bool:
        """Whether no derivative with respect to some values depends on one of them."""
        own = frozenset(columns)
        if own not in self._linear:
            self._linear[own] = self._found_linear(own)
        return self._linear[own]

    def _found_linear(self, own: frozenset[int]) -> bool:
        if any(j in own for _, j in self.switches):
            return False
        graph, jets, place = self.system.model.graph, self.system.jets, self.system.place
        leaves = {graph.variable(*jets[j]) for j in own}
        for (_, j), slope in self.slopes.items():
            if j in own and leaves.intersection(graph.below([slope], veils=True)):
                # What is written may cancel.
                inner = {place.get(jet) for jet in graph.depends(slope)}
                if own & inner:
                    return False
        return True


@dataclass(eq=False)
class Group:
    """The equations of a part of a stage, and the values that they are for.

    Parameters
    ----------
    rows, jets : list of int
        Numbers of equations, and of values, at least as many.
    stage : int
        k of the block :math:`B_k`.
    """

    rows: list[int]
    jets: list[int]
    stage: int


def groups_of(system: ModelJets) -> list[Group]:
    """The parts of the stages of the solution scheme, in an order in which they can be solved."""
    analysis = system.analysis
    numbered = {row: i for i, row in enumerate(offsets_stages(analysis.c, analysis.d)[0])}
    last = int(analysis.c.max(initial=0))
    return [
        Group(
            [numbered[row] for row in task.equations],
            [system.place[jet] for jet in (*task.unknowns, *task.free)],
            stage.number + last,
        )
        for stage in analysis.stages
        for task in stage.tasks
    ]


def leaf_values(system: ModelJets, x: Vector) -> Callable[[Leaf], float]:
    """A function for the values of the leaves of a model at x of shape (jets,); 0 for higher derivatives."""
    model = system.model
    parameters = [float(entry.required(model.name)) for entry in model.parameters_by_name.values()]

    def value(leaf: Leaf) -> float:
        if leaf.kind == "u":
            place = system.place.get((leaf.index, leaf.order))
            return 0.0 if place is None else float(x[place])
        return system.t if leaf.kind == "t" else parameters[leaf.index]

    return value
