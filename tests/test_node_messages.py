"""What ranks that share nodes send each other, by ranks of one process that stand for those of MPI."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from dae_sdc.sweepers import parallel
from dae_sdc.sweepers.nodes import OK, RESIDUAL_FAILED, SWEEP_FAILED, Stages
from dae_sdc.sweepers.parallel import MPINodes

NODES = (0.1, 0.3, 0.5, 0.8, 1.0)
DOUBLE = 8


class RowType:
    """What of a row is sent: places by the blocks that MPI is told, and the distance of two rows."""

    def __init__(self, lengths: list[int] | None = None, offsets: list[int] | None = None) -> None:
        pairs = zip(lengths or [], offsets or [], strict=True)
        self.places = [offset + i for length, offset in pairs for i in range(length)]

    def Create_indexed(self, lengths: list[int], offsets: list[int]) -> RowType:
        return RowType(lengths, offsets)

    def Create_resized(self, lower: int, extent: int) -> RowType:
        assert lower == 0
        self.extent = extent
        return self

    def Get_size(self) -> int:
        return DOUBLE

    def Commit(self) -> RowType:
        return self

    def Free(self) -> None:
        pass


class MPI:
    """In place of ``mpi4py.MPI``."""

    IN_PLACE = "in place"
    DOUBLE = RowType()


class Rank:
    """A communicator of one of several ranks; what all have said is carried out by :meth:`gather`."""

    def __init__(self, rank: int, world: list[Rank], values: list[float]) -> None:
        self.rank, self.world, self.values = rank, world, values
        self.message: Any = None

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return len(self.world)

    def Allgatherv(self, place: Any, message: Any) -> None:
        assert place == MPI.IN_PLACE
        self.message = message

    def Bcast(self, message: Any, root: int) -> None:
        message[0] = self.values[root]

    def gather(self) -> None:
        """Take the rows of the others."""
        rows, counts, displacements, kind = self.message
        assert kind.extent == DOUBLE * rows.shape[1]
        for other in self.world:
            theirs = slice(displacements[other.rank], displacements[other.rank] + counts[other.rank])
            rows[theirs, kind.places] = other.message[0][theirs, kind.places]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the nodes of so many ranks, which each have a value of their own."""
    monkeypatch.setattr(parallel, "load_mpi", lambda: MPI)
    monkeypatch.setattr(parallel, "_row_type", parallel._row_type.__wrapped__)

    def made(size: int) -> list[MPINodes]:
        ranks: list[Rank] = []
        values = [10.0 + rank for rank in range(size)]
        ranks += [Rank(rank, ranks, values) for rank in range(size)]
        return [MPINodes(rank, len(NODES)) for rank in ranks]

    return made


def filled(n: int, n_integrated: int, owned: range) -> Stages:
    """Rows of numbers of which each is its place, NaN at the nodes of others."""
    stages = Stages(NODES, n, n_integrated, 0.0, 0.1)
    stages.rows[:] = np.nan
    for m in owned:
        stages.rows[m] = 100.0 * m + np.arange(2 * n + 2)
    return stages


@pytest.mark.parametrize(("size", "n_integrated"), list(product((2, 3, 5), (0, 2, 3))))
def test_a_message_carries_what_every_node_has_solved_for(world: Any, size: int, n_integrated: int) -> None:
    n, nodes = 3, world(size)
    stages = [filled(n, n_integrated, own.owned) for own in nodes]
    for own, rows in zip(nodes, stages, strict=True):
        own.exchange(rows)
    for own in nodes:
        own.comm.gather()
    assert sorted(m for own in nodes for m in own.owned) == list(range(len(NODES)))
    whole = filled(n, n_integrated, range(len(NODES)))
    for own, found in zip(nodes, stages, strict=True):
        # z and U are what the equations were solved for, the rest follows from them.
        np.testing.assert_array_equal(found.u[:, n_integrated:], whole.u[:, n_integrated:])
        np.testing.assert_array_equal(found.integrated, whole.integrated)
        np.testing.assert_array_equal(found.norms, whole.norms)
        np.testing.assert_array_equal(found.states, whole.states)
        others = [m for m in range(len(NODES)) if m not in own.owned]
        assert np.isnan(found.u[others, :n_integrated]).all()


def test_notes_are_sent_alone_and_say_who_failed(world: Any) -> None:
    nodes = world(3)
    stages = [filled(2, 1, own.owned) for own in nodes]
    for rank, (own, rows) in enumerate(zip(nodes, stages, strict=True)):
        own.agree(rows, rank != 1)
    for own in nodes:
        own.comm.gather()
    for own, found in zip(nodes, stages, strict=True):
        expected = [RESIDUAL_FAILED if m in nodes[1].owned else OK for m in range(len(NODES))]
        assert found.states.tolist() == expected
        others = [m for m in range(len(NODES)) if m not in own.owned]
        assert np.isnan(found.u[others]).all() and np.isnan(found.du[others]).all()
    for rank, (own, rows) in enumerate(zip(nodes, stages, strict=True)):
        own.complete_sweep(rows, rank == 2)
        own.comm.gather()
    assert (stages[2].states[list(nodes[2].owned)] == SWEEP_FAILED).all()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_what_the_last_node_knows_comes_from_the_rank_that_owns_it(world: Any, size: int) -> None:
    nodes = world(size)
    (owner,) = (own.rank for own in nodes if len(NODES) - 1 in own.owned)
    for own in nodes:
        assert own.from_last(float(own.rank)) == 10.0 + owner
