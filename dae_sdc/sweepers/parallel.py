"""Sweeps whose nodes are shared among the ranks of an MPI communicator."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError, InputError, RemoteError, text_of
from dae_sdc.sweepers.collocation import diagonal
from dae_sdc.sweepers.nodes import OK, RESIDUAL_FAILED, SWEEP_FAILED, NodeCommunicator, Stages
from dae_sdc.sweepers.sdc import (
    ConstrainedDAE,
    FullyImplicitDAE,
    SemiImplicitDAE,
    SpectralDeferredCorrectionDAE,
)

# Names of the ways to share work among ranks: nodes of a step, steps of a block, or both.
WAYS = ("nodes", "steps", "both")
DIAGONAL = "MIN-SR-S"  # Q_Delta of the parallel sweeps where none is given.


def load_mpi() -> Any:
    """The module ``mpi4py.MPI``."""
    try:
        from mpi4py import MPI
    except Exception as error:  # whatever a broken installation raises
        raise no_mpi(str(error) or type(error).__name__) from None
    return MPI


def no_mpi(reason: str) -> InputError:
    """The error for MPI that cannot be used."""
    return InputError(
        f"parallel runs need mpi4py and an MPI library that works: pip install 'dae_sdc[mpi]', or mpi4py "
        f"beside the MPI of the system ({' '.join(reason.split())})"
    )


class MPINodes(NodeCommunicator):
    """Contiguous blocks of nodes on the ranks of a communicator, as equal as can be."""

    def __init__(self, comm: Any, num_nodes: int) -> None:
        self._mpi = load_mpi()
        self.comm, self.rank, self.size = comm, comm.Get_rank(), comm.Get_size()
        if self.size > num_nodes:
            raise InputError(
                f"{self.size} ranks cannot share {num_nodes} nodes: use 1 to {num_nodes} ranks, more nodes, "
                f"or several steps at a time beside (--parallel both)"
            )
        self.counts, self.displacements = blocks(num_nodes, self.size)
        first = self.displacements[self.rank]
        self.owned = range(first, first + self.counts[self.rank])
        self._own_rows = slice(first, first + self.counts[self.rank])
        self.shared, self.keeps_state = self.size > 1, False

    def exchange(self, stages: Stages, notes_only: bool = False) -> None:
        """See :class:`NodeCommunicator`: one Allgatherv in place, of n + 2 or of two numbers a node."""
        if not self.shared:
            return
        n, k = stages.u.shape[1], stages.integrated.shape[1]
        message = [stages.rows, self.counts, self.displacements, _row_type(n, k, notes_only)]
        self.comm.Allgatherv(self._mpi.IN_PLACE, message)

    def complete_sweep(self, stages: Stages, failed: bool) -> bool:
        """See :class:`NodeCommunicator`; failures travel in the notes of the rows."""
        stages.states[self._own_rows] = SWEEP_FAILED if failed else OK
        self.exchange(stages)
        return bool((stages.states != OK).any())

    def agree(self, stages: Stages, holds: bool) -> bool:
        """See :class:`NodeCommunicator`."""
        stages.states[self._own_rows] = OK if holds else RESIDUAL_FAILED
        self.exchange(stages, notes_only=True)
        return bool((stages.states == OK).all())

    def complete_rows(self, rows: Vector, stages: Stages, failure: BaseException | None) -> None:
        """See :class:`NodeCommunicator`."""
        if not self.agree(stages, failure is None):
            self.settle(failure)
        if self.shared:
            n = rows.shape[1]
            counts, displacements = [n * c for c in self.counts], [n * d for d in self.displacements]
            message = [rows, counts, displacements, self._mpi.DOUBLE]
            self.comm.Allgatherv(self._mpi.IN_PLACE, message)

    def settle(self, failure: BaseException | None) -> None:
        """See :class:`NodeCommunicator`; the exception of the lowest rank that has one is raised."""
        if self.shared:
            raise_one(self.comm, failure)
        elif failure is not None:
            raise failure

    def from_last(self, value: float) -> float:
        """See :class:`NodeCommunicator`."""
        message = np.array([value])
        self.comm.Bcast(message, root=self.size - 1)
        return float(message[0])


@lru_cache(maxsize=64)
def _row_type(n: int, k: int, notes_only: bool) -> Any:
    """MPI type of the part of a row that is sent: [z, U] and the notes, or the notes alone."""
    lengths, offsets = ([2], [2 * n]) if notes_only else ([n, 2], [k, 2 * n])
    double = load_mpi().DOUBLE
    parts = double.Create_indexed(lengths, offsets)
    whole = parts.Create_resized(0, (2 * n + 2) * double.Get_size())
    parts.Free()
    return whole.Commit()


def blocks(num_nodes: int, size: int) -> tuple[list[int], list[int]]:
    """Lengths and starts of contiguous blocks that share ``num_nodes`` among ``size`` processes."""
    counts = [num_nodes // size + (rank < num_nodes % size) for rank in range(size)]
    return counts, [sum(counts[:rank]) for rank in range(size)]


def raise_one(comm: Any, failure: BaseException | None) -> None:
    """Raise the exception of the lowest rank that has one on all ranks of a communicator."""
    failed = comm.allgather(failure is not None)
    if any(failed):
        raise_everywhere(comm, failed.index(True), failure)


def raise_everywhere(comm: Any, rank: int, failure: BaseException | None) -> NoReturn:
    """Raise on all ranks of a communicator the exception ``failure`` of the rank numbered ``rank``."""
    # The others raise an error of the package as its type, which callers handle, and all else as RemoteError.
    if comm.Get_rank() == rank and failure is not None:
        known, place = isinstance(failure, DAEError), load_mpi().COMM_WORLD.Get_rank()
        text = str(failure) if known else f"{type(failure).__name__} on rank {place}: {text_of(failure)}"
        comm.bcast((type(failure).__name__ if known else "", text, vars(failure) if known else {}), root=rank)
        raise failure
    name, text, attributes = comm.bcast(None, root=rank)
    kind = _kinds(DAEError).get(name, RemoteError)
    error = kind.__new__(kind, text)
    vars(error).update(attributes)
    raise error


def _kinds(base: type[DAEError]) -> dict[str, type[DAEError]]:
    """The errors of the package, by name."""
    found = {base.__name__: base}
    for kind in base.__subclasses__():
        found |= _kinds(kind)
    return found


class SweeperDAEMPI(SpectralDeferredCorrectionDAE):
    """An SDC sweeper whose nodes are shared among ranks; to be put before one of the serial sweepers.

    Every rank solves at a contiguous block of nodes and holds the values of all, so that hooks, transfers and
    convergence controllers find what they find in a serial sweeper. One Allgatherv a sweep carries the
    values; the residual of a sweep travels with the values of the next.

    Parameters
    ----------
    params : dict
        The parameters of the serial sweeper, and ``comm``, the communicator of the nodes (default
        COMM_WORLD), with 1 to M ranks. ``QI`` must be diagonal (default MIN-SR-S).
    level : pySDC.core.level.Level
        The level that sweeps.

    Raises
    ------
    InputError
        For a Q_Delta that is not diagonal, more ranks than nodes, or without mpi4py.

    Examples
    --------
    >>> from mpi4py import MPI  # doctest: +SKIP
    >>> description["sweeper_class"] = ds.FullyImplicitDAEMPI  # doctest: +SKIP
    >>> description["sweeper_params"]["comm"] = MPI.COMM_WORLD  # doctest: +SKIP
    """

    def __init__(self, params: dict[str, Any], level: Any) -> None:
        given = {"QI": DIAGONAL, "comm": None, **params}
        if given["comm"] is None:
            given["comm"] = load_mpi().COMM_WORLD
        super().__init__(given, level)
        if not self.matrices.diagonal:
            raise InputError(
                f"Q_Delta '{self.params.QI}' is not diagonal, so its nodes cannot be solved at once on "
                f"several ranks; use one of {', '.join(diagonal(self.coll))}"
            )

    def _communicator(self) -> NodeCommunicator:
        return MPINodes(self.params.comm, self.coll.num_nodes)

    @property
    def comm(self) -> Any:
        """The communicator of the nodes."""
        return self.params.comm


class FullyImplicitDAEMPI(SweeperDAEMPI, FullyImplicitDAE):
    """:class:`FullyImplicitDAE` with its nodes on several ranks, see :class:`SweeperDAEMPI`.

    Examples
    --------
    >>> issubclass(ds.FullyImplicitDAEMPI, ds.SweeperDAEMPI)
    True
    """


class SemiImplicitDAEMPI(SweeperDAEMPI, SemiImplicitDAE):
    """:class:`SemiImplicitDAE` with its nodes on several ranks, see :class:`SweeperDAEMPI`.

    Examples
    --------
    >>> issubclass(ds.SemiImplicitDAEMPI, ds.SweeperDAEMPI)
    True
    """


class ConstrainedDAEMPI(SweeperDAEMPI, ConstrainedDAE):
    """:class:`ConstrainedDAE` with its nodes on several ranks, see :class:`SweeperDAEMPI`.

    Examples
    --------
    >>> issubclass(ds.ConstrainedDAEMPI, ds.SweeperDAEMPI)
    True
    """


@checked()
def split_communicator(comm: Any, node_ranks: int) -> tuple[Any, Any]:
    """Split ranks in two directions: those that share the nodes of a step, and the steps of a block.

    Neighbouring ranks share a step. A sweeper takes ``nodes`` as its ``comm``, and pySDC's ``controller_MPI``
    takes ``steps``.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        All ranks.
    node_ranks : int
        Number of ranks that share the nodes of one step; divides the number of all.

    Returns
    -------
    nodes, steps : mpi4py.MPI.Intracomm
        The two communicators of this rank; to be freed by the caller.

    Raises
    ------
    InputError
        If ``node_ranks`` does not divide the number of ranks.

    Examples
    --------
    >>> from mpi4py import MPI  # doctest: +SKIP
    >>> nodes, steps = ds.split_communicator(MPI.COMM_WORLD, 3)  # doctest: +SKIP
    """
    size, rank = comm.Get_size(), comm.Get_rank()
    if node_ranks < 1 or size % node_ranks:
        divisors = ", ".join(str(k) for k in range(1, size + 1) if size % k == 0)
        raise InputError(f"{size} ranks cannot be split into groups of {node_ranks}; use one of {divisors}")
    return comm.Split(rank // node_ranks, rank), comm.Split(rank % node_ranks, rank)


def across_nodes(sweeper: type[SpectralDeferredCorrectionDAE]) -> type[SweeperDAEMPI]:
    """The node-parallel form of an SDC sweeper: a declared class, or one that is made here."""
    twin: type[SweeperDAEMPI]
    for twin in SweeperDAEMPI.__subclasses__():
        if sweeper in (twin, twin.__bases__[-1]):
            return twin
    about = {"__doc__": f"{sweeper.__name__} with its nodes on several ranks.", "__module__": __name__}
    return type(f"{sweeper.__name__}MPI", (SweeperDAEMPI, sweeper), about)


def serial_form(sweeper: type[SpectralDeferredCorrectionDAE]) -> type[SpectralDeferredCorrectionDAE]:
    """The serial sweeper whose node-parallel form this class is; the class itself if it is serial."""
    return sweeper.__bases__[-1] if issubclass(sweeper, SweeperDAEMPI) else sweeper
