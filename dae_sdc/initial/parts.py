"""The parts of the solution scheme of a model, and the values of the leaves of its equations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dae_sdc.dae.state import Vector
from dae_sdc.expressions.dag import Leaf
from dae_sdc.initial.jets import ModelJets, offsets_stages


@dataclass(eq=False)
class Group:
    """Equations of a part of a stage, and the values of that part."""

    # rows, jets: numbers of the equations, and of the values, which are at least as many.
    rows: list[int]
    jets: list[int]
    stage: int  # k of the block :math:`B_k`.


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
    """A function that gives the values of leaves at x of shape (jets,); 0 for higher derivatives."""
    model = system.model
    parameters = [float(entry.required(model.name)) for entry in model.parameters_by_name.values()]

    def value(leaf: Leaf) -> float:
        if leaf.kind == "u":
            place = system.place.get((leaf.index, leaf.order))
            return 0.0 if place is None else float(x[place])
        return system.t if leaf.kind == "t" else parameters[leaf.index]

    return value
