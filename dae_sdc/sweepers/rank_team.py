"""Ranks of MPI that share the parts of a step which need nothing of each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.sweepers.parallel import load_mpi, raise_one
from dae_sdc.sweepers.teams import (
    AUTO,
    EVALUATE,
    FACTORIZE,
    FILTER,
    SOLVE,
    SPREAD,
    TEAM,
    T,
    Team,
    Threads,
    cores,
)


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

    who, separate = "rank", True

    def __init__(self, comm: Any, measured: bool = False) -> None:
        super().__init__(comm.Get_size(), measured)
        self._mpi, self.comm, self.rank = load_mpi(), comm, comm.Get_rank()
        self._bounds: list[int] = []
        self._costs = self._own_costs = np.zeros(0)
        self._spent: dict[int, float] = {}
        self._shares_evaluations = False
        self._evaluation, self._exchange = 0.0, np.inf

    def next_step(self) -> bool:

        def agreed(times: Vector) -> Vector:
            found = np.empty_like(times)
            self.comm.Allreduce(times, found, op=self._mpi.MAX)
            return found

        return self.trial.next_step(agreed)

    def share(self, kind: int, do: Callable[[int], int], count: int, rows: Vector | None, ends: Any) -> bool:
        """See :class:`Team`; the exception of the lowest rank that has one is raised on all."""
        if not self.trial.shared:
            return self._alone(kind, do, count)
        began = perf_counter()
        if kind == FACTORIZE:
            done = self._factorize(do, count)
        elif kind == SPREAD:
            done = all([bool(do(part)) for part in range(count)])
        elif kind == FILTER:
            assert rows is not None
            # The solve with the first matrix, by the rank that has its factors.
            owner = next(rank for rank in range(self.size) if self._bounds[rank + 1] > 0)
            failure = self._try(do, range(int(owner == self.rank)), lambda part: rows)
            self.comm.Bcast(rows, root=owner)
            done = self._complete(rows, failure)
        else:
            assert rows is not None
            done = self._by_rows(kind, do, count, rows, ends)
        self._note(kind, count, perf_counter() - began)
        return done

    def everywhere(self, do: Callable[[], T]) -> T:
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
            self._costs = np.array([1.0, *[TEAM.complex_cost] * (count - 1)])
        bounds = contiguous(self._costs.tolist(), self.size)
        if not self._bounds or self._busiest(bounds) < TEAM.moving_gain * self._busiest(self._bounds):
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
        found = np.empty_like(message)
        self.comm.Allreduce(message, found, op=self._mpi.MAX)
        if found[count]:
            raise_one(self.comm, failure)
            return False
        if found[:count].all():
            self._costs = found[:count]
        # Sharing F saves all but a part of its time, and costs another exchange of as many rows as a solve.
        self._shares_evaluations = found[count + 1] * (1.0 - 1.0 / self.size) > -2.0 * found[count + 2]
        return True

    def _by_rows(self, kind: int, do: Callable[[int], int], count: int, rows: Vector, ends: Any) -> bool:
        shared = kind != EVALUATE or self._shares_evaluations
        bounds = self._bounds if kind == SOLVE else contiguous([1.0] * count, self.size)
        parts = range(bounds[self.rank], bounds[self.rank + 1]) if shared else range(count)
        failure = self._try(do, parts, lambda part: rows[ends[part] : ends[part + 1]])
        if kind != SOLVE:
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
    if n < TEAM.least_unknowns and automatic:
        return None, f"serial: {n} unknowns are fewer than {TEAM.least_unknowns}, from which on sharing pays"
    if comm is not None and comm.Get_size() > 1:
        return RankTeam(comm, bool(measured)), ""
    if threads is None or threads == 1:
        return None, ""
    if threads != AUTO:
        return Threads(int(threads)), ""
    several = min(cores(), systems)
    return (Threads(several, True), "") if several > 1 else (None, "serial: this process has one core")
