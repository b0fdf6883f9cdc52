"""What ranks of MPI share: the nodes of sweeps, and the parts of a step which need nothing of each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from time import perf_counter, thread_time
from typing import Any, NoReturn

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError, InputError, RemoteError, text_of
from dae_sdc.sweepers import sdc, teams
from dae_sdc.sweepers.collocation import diagonal
from dae_sdc.sweepers.nodes import OK, RESIDUAL_FAILED, SWEEP_FAILED, NodeCommunicator, Stages
from dae_sdc.sweepers.sdc import SpectralDeferredCorrectionDAE
from dae_sdc.sweepers.teams import AUTO, LEAST_SHARED, T, Team, Threads, cores

# Names of the ways to share work among ranks: nodes of a step, steps of a block, or both.
WAYS = ("nodes", "steps", "both")
DIAGONAL = "MIN-SR-S"  # Q_Delta of the parallel sweeps where none is given.
# Time of a factorisation and the solves of a complex matrix in units of a real one, until measured.
COMPLEX_COST = 2.0
# Largest ratio of the busiest rank's time after and before, for which matrices move to other ranks.
MOVING_GAIN = 0.9


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
        """Whether ``holds`` is true on all processes; it is written into the notes of the rows."""
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
        super().settle(failure)

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
                f"Q_Delta '{self._qdelta_name}' is not diagonal, so its nodes cannot be solved at once on "
                f"several ranks; use one of {', '.join(diagonal(self.coll))}"
            )

    def _communicator(self) -> NodeCommunicator:
        return MPINodes(self.params.comm, self.coll.num_nodes)

    @property
    def comm(self) -> Any:
        """The communicator of the nodes."""
        return self.params.comm


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


ON_NODES = """:class:`{0}` with its nodes on several ranks, see :class:`SweeperDAEMPI`.

    Examples
    --------
    >>> issubclass(ds.{0}MPI, ds.SweeperDAEMPI)
    True
    """


def across_nodes(sweeper: type[SpectralDeferredCorrectionDAE]) -> type[SweeperDAEMPI]:
    """The node-parallel form of an SDC sweeper: one that is known, or one that is made here."""
    twin: type[SweeperDAEMPI]
    for twin in SweeperDAEMPI.__subclasses__():
        if sweeper in (twin, twin.__bases__[-1]):
            return twin
    about = {"__doc__": ON_NODES.format(sweeper.__name__), "__module__": __name__}
    return type(f"{sweeper.__name__}MPI", (SweeperDAEMPI, sweeper), about)


FullyImplicitDAEMPI = across_nodes(sdc.FullyImplicitDAE)
SemiImplicitDAEMPI = across_nodes(sdc.SemiImplicitDAE)
ConstrainedDAEMPI = across_nodes(sdc.ConstrainedDAE)


def serial_form(sweeper: type[SpectralDeferredCorrectionDAE]) -> type[SpectralDeferredCorrectionDAE]:
    """The serial sweeper whose node-parallel form this class is; the class itself if it is serial."""
    return sweeper.__bases__[-1] if issubclass(sweeper, SweeperDAEMPI) else sweeper


def contiguous(costs: Sequence[float], size: int) -> list[int]:
    """Starts of ``size`` blocks of neighbours, and the end of the last, with the least largest sum of costs.

    >>> contiguous([1.0, 2.0, 2.0], 2)
    [0, 2, 3]
    """
    sums = np.concatenate(([0.0], np.cumsum(costs)))
    count = len(costs)
    limits = sorted({sums[j] - sums[i] for i in range(count) for j in range(i + 1, count + 1)})
    for limit in limits:
        starts = [0]
        while starts[-1] < count:
            reached = int(np.searchsorted(sums, (sums[starts[-1]] + limit) * (1.0 + 1e-12), "right")) - 1
            if reached == starts[-1]:
                break
            starts.append(reached)
        if starts[-1] == count and len(starts) - 1 <= size:
            return starts + [count] * (size + 1 - len(starts))
    return [0, *[count] * size]


class RankTeam(Team):
    """Ranks of MPI, each of which has the factors of some matrices."""

    # Where factors are, and whether the evaluations of F are shared too, is decided by measured times when
    # matrices are factorised, on all ranks alike. A part that could not be done gives NaN in its rows, which
    # all ranks see after the one Allgatherv of a piece of work.

    who, separate, least = "rank", True, 1

    def __init__(self, comm: Any, measured: bool = False) -> None:
        super().__init__(comm.Get_size(), measured)
        self._mpi, self.comm, self.rank = load_mpi(), comm, comm.Get_rank()
        self._bounds: list[int] = []
        self._costs = self._own_costs = np.zeros(0)
        self._spent: dict[int, float] = {}
        self._shares_evaluations = False
        self._evaluation, self._exchange = 0.0, np.inf

    def next_step(self) -> bool:
        """See :class:`Team`; the times of the slowest rank count."""
        return self.trial.next_step(self._largest)

    def _largest(self, numbers: Vector) -> Vector:
        """The largest of each of these numbers on any rank."""
        found = np.empty_like(numbers)
        self.comm.Allreduce(numbers, found, op=self._mpi.MAX)
        return found

    def _share(self, kind: int, do: Callable[[int], int], count: int, rows: Any, ends: Any) -> bool:
        """See :class:`Team`; the exception of the lowest rank that has one is raised on all."""
        if kind == teams.FACTORIZE:
            return self._factorize(do, count)
        if kind == teams.SPREAD:
            return all([bool(do(part)) for part in range(count)])
        if kind == teams.FILTER:
            # The solve with the first matrix, by the rank that has its factors.
            owner = next(rank for rank in range(self.size) if self._bounds[rank + 1] > 0)
            failure = self._try(do, range(int(owner == self.rank)), lambda part: rows)
            self.comm.Bcast(rows, root=owner)
            return self._complete(rows, failure)
        return self._by_rows(kind, do, count, rows, ends)

    def everywhere(self, do: Callable[[], T]) -> T:
        """See :class:`Team`."""
        try:
            found = do()
        except BaseException as error:
            raise_one(self.comm, error)
            raise
        raise_one(self.comm, None)
        return found

    def _try(self, do: Callable[[int], int], parts: range, rows: Any) -> BaseException | None:
        """Do parts and note their times; NaN in the rows of those that cannot be done."""
        failure = None
        self._spent.clear()
        for part in parts:
            began = thread_time()
            try:
                if do(part):
                    self._spent[part] = thread_time() - began
                    continue
            except BaseException as error:
                failure = error
            rows(part).fill(np.nan)
        return failure

    def _place(self, count: int) -> None:
        """Decide which rank factorises which matrix, from the times of all ranks."""
        if len(self._costs) != count:
            self._own_costs, self._bounds = np.zeros(count), []
            self._costs = np.array([1.0, *[COMPLEX_COST] * (count - 1)])
        bounds = contiguous(self._costs.tolist(), self.size)
        if not self._bounds or self._busiest(bounds) < MOVING_GAIN * self._busiest(self._bounds):
            self._bounds = bounds

    def _busiest(self, bounds: list[int]) -> float:
        return float(max(self._costs[start:end].sum() for start, end in itertools.pairwise(bounds)))

    def _factorize(self, do: Callable[[int], int], count: int) -> bool:
        self._place(count)
        failed = np.zeros(1)
        parts = range(self._bounds[self.rank], self._bounds[self.rank + 1])
        failure = self._try(do, parts, lambda part: failed)
        self._own_costs[:] = [self._spent.get(part, 0.0) for part in range(count)]
        message = np.array([*self._own_costs, float(np.isnan(failed[0])), self._evaluation, -self._exchange])
        found = self._largest(message)
        if found[count]:
            raise_one(self.comm, failure)
            return False
        if found[:count].all():
            self._costs = found[:count]
        # Sharing F saves all but a part of its time, and costs another exchange of as many rows as a solve.
        self._shares_evaluations = found[count + 1] * (1.0 - 1.0 / self.size) > -2.0 * found[count + 2]
        return True

    def _by_rows(self, kind: int, do: Callable[[int], int], count: int, rows: Vector, ends: Any) -> bool:
        shared = kind != teams.EVALUATE or self._shares_evaluations
        bounds = self._bounds if kind == teams.SOLVE else contiguous([1.0] * count, self.size)
        parts = range(bounds[self.rank], bounds[self.rank + 1]) if shared else range(count)
        failure = self._try(do, parts, lambda part: rows[ends[part] : ends[part + 1]])
        if kind != teams.SOLVE:
            self._evaluation = sum(self._spent.values()) * count / max(1, len(parts))
        if not shared:
            # Every rank has the same rows; an exception of one alone ends the job.
            if failure is not None:
                raise failure
            return bool(np.isfinite(rows).all())
        n, at = rows.shape[1], [ends[bound] for bound in bounds]
        counts, places = [n * (b - a) for a, b in itertools.pairwise(at)], [n * a for a in at[:-1]]
        began = perf_counter()
        self.comm.Allgatherv(self._mpi.IN_PLACE, [rows, counts, places, self._mpi.DOUBLE])
        self._exchange = min(self._exchange, perf_counter() - began)
        return self._complete(rows, failure)

    def _complete(self, rows: Vector, failure: BaseException | None) -> bool:
        """Whether the rows of all ranks are there; what was raised on one is raised on all."""
        if np.isfinite(rows.sum()):
            return True
        raise_one(self.comm, failure)
        return bool(np.isfinite(rows).all())


def team_of(
    n: int, systems: int, comm: Any = None, threads: int | str | None = None, measured: bool | None = False
) -> tuple[Team | None, str]:
    """Those who share the stages of a step."""
    automatic = bool(measured) or threads == AUTO
    if systems == 1 and automatic:
        return None, "serial: a step has one linear system"
    if n < LEAST_SHARED and automatic:
        return None, f"serial: {n} unknowns are fewer than {LEAST_SHARED}, from which on sharing pays"
    if comm is not None and comm.Get_size() > 1:
        return RankTeam(comm, bool(measured)), ""
    if threads is None or threads == 1:
        return None, ""
    if threads != AUTO:
        return Threads(int(threads)), ""
    several = min(cores(), systems)
    return (Threads(several, True), "") if several > 1 else (None, "serial: this process has one core")
