"""Hooks for pySDC's controllers: errors by component class, node values, a record of steps, and guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from operator import attrgetter
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from pySDC.core.hooks import Hooks
from pySDC.implementations.hooks.log_solution import LogSolution as LogSolution
from pySDC.implementations.hooks.log_work import LogWork as LogWork

from dae_sdc.dae import interpolant
from dae_sdc.dae.consistency import check_consistent
from dae_sdc.dae.interpolant import STENCIL, StepData
from dae_sdc.dae.memory import COUNTERS, counts_of
from dae_sdc.dae.state import Vector
from dae_sdc.errors import ConvergenceError
from dae_sdc.sweepers.step_sweeps import RESIDUAL_ROUND_OFF
from dae_sdc.sweepers.steps_ahead import Taken

GRID_SLACK = 1e-10  # Distance, in steps, of the end of a step from the time of a grid that it has come to.


def hook_of(controller: Any, kind: type[Any]) -> Any:
    """The hook of a controller that is of a class; None if there is none."""
    return next((hook for hook in controller.hooks if isinstance(hook, kind)), None)


def add_at_end(hook: Hooks, step: Any, L: Any, name: str, value: Any) -> None:
    """Add a value to the statistics at the time of the end of the step."""
    place = {"process": step.status.slot, "process_sweeper": L.sweep.rank, "level": L.level_index}
    count = {"iter": step.status.iter, "sweep": L.status.sweep}
    hook.add_to_stats(**place, **count, time=L.time + L.dt, type=name, value=value)


ERROR_HOOK = """Largest error of the {kind} unknowns after each {moment}, as ``{entry}``.

    Examples
    --------
    >>> log = ds.solve("simple", dt=0.1, hooks=[ds.{name}]).log
    >>> sorted({{key.type for key in log}})
    ['{entry}']
    """


def _logs_error(part: str, moment: str) -> type[Any]:
    """A hook that logs the global error of a part of the state, at the end of the step as it stands."""
    kind = {"diff": "differential", "alg": "algebraic"}[part]
    entry = f"e_global_{kind}_{moment}"
    name = f"LogGlobalError{moment.title().replace('_', '')}{kind.title()}Variable"

    def log(self: Any, step: Any, level_number: int) -> None:
        """Log the error."""
        getattr(Hooks, moment)(self, step, level_number)
        L = step.levels[level_number]
        L.sweep.compute_end_point()
        exact = L.prob.state(L.prob.u_exact(L.time + L.dt))
        error = getattr(exact, part) - getattr(L.uend, part)
        add_at_end(self, step, L, entry, float(np.abs(error).max(initial=0.0)))

    doc = ERROR_HOOK.format(kind=kind, moment=moment.removeprefix("post_"), entry=entry, name=name)
    return type(name, (Hooks,), {moment: log, "__doc__": doc, "__module__": __name__})


LogGlobalErrorPostStepDifferentialVariable = _logs_error("diff", "post_step")
LogGlobalErrorPostStepAlgebraicVariable = _logs_error("alg", "post_step")
LogGlobalErrorPostIterationDifferentialVariable = _logs_error("diff", "post_iteration")
LogGlobalErrorPostIterationAlgebraicVariable = _logs_error("alg", "post_iteration")


class LogSolutionAtNodes(Hooks):  # type: ignore[misc]
    """Times, u and u' at the nodes after each step, as ``t_nodes``, ``u_nodes`` and ``du_nodes``.

    Arrays of shapes (M,), (M, n) and (M, n), copies that later steps do not change.

    Examples
    --------
    >>> log = ds.solve("simple", dt=0.1, hooks=[ds.LogSolutionAtNodes]).log
    >>> sorted({key.type for key in log})
    ['du_nodes', 't_nodes', 'u_nodes']
    """

    def post_step(self, step: Any, level_number: int) -> None:
        """Log the node values of the step."""
        super().post_step(step, level_number)
        L = step.levels[level_number]
        # pySDC's Runge-Kutta collocation carries a leading 0 before the nodes of the stages.
        nodes = np.asarray(L.sweep.coll.nodes)[-len(L.u[1:]) :]
        add_at_end(self, step, L, "t_nodes", L.time + L.dt * nodes)
        add_at_end(self, step, L, "u_nodes", np.array(L.u[1:]))
        add_at_end(self, step, L, "du_nodes", np.array(L.f[1:]))


class StepRecord(Hooks):  # type: ignore[misc]
    """Keeps every accepted step, so that a run that fails later still has what it computed.

    Attributes
    ----------
    rows : Steps
        For each accepted step a mapping: ``t`` (its end), ``u``, ``du``, ``residual``, ``sweeps`` and the
        work counters.
    rejected : int
        Number of steps that were repeated.
    collects : bool
        Whether new steps wait in ``new`` until somebody takes them: a step on a rank of its own may have
        followed one that has failed.
    dense : bool
        Whether rows have ``dense`` too, what dense output needs of the step.
    n_slopes : int
        Number of leading unknowns whose u' is accurate enough for dense output.
    interval : tuple of float, float and int, or None
        Start, end and number of the steps of a fixed size, if it is fixed: the ends of steps are then the
        times of that grid and not sums of step sizes with their round-off.

    Examples
    --------
    >>> from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
    >>> description = {
    ...     "problem_class": ds.SimpleDAE,
    ...     "problem_params": {},
    ...     "sweeper_class": ds.FullyImplicitDAE,
    ...     "sweeper_params": {"num_nodes": 3, "quad_type": "RADAU-RIGHT", "QI": "LU"},
    ...     "level_params": {"dt": 0.1, "restol": 1e-10},
    ...     "step_params": {"maxiter": 50},
    ... }
    >>> controller = controller_nonMPI(1, {"logger_level": 30, "hook_class": [ds.StepRecord]}, description)
    >>> problem = controller.MS[0].levels[0].prob
    >>> end, stats = controller.run(u0=problem.state(problem.u_exact(0.0)), t0=0.0, Tend=1.0)
    >>> record = [hook for hook in controller.hooks if isinstance(hook, ds.StepRecord)][0]
    >>> len(record.rows)
    10
    """

    interval: tuple[float, float, int] | None = None
    collects = False
    dense = False
    n_slopes = 0

    def __init__(self) -> None:
        super().__init__()
        self.rows = Steps()
        self.new: list[tuple[Any, ...]] = []  # What :meth:`Steps.extend` takes of each.
        self.rejected = 0
        self._before: dict[int, list[int]] = {}

    @property
    def is_plain(self) -> bool:
        """Whether a subclass changes nothing of how accepted steps are kept."""
        return _KEEPING(type(self)) == _KEEPING(StepRecord)

    def pre_run(self, step: Any, level_number: int) -> None:
        """Forget the last run."""
        super().pre_run(step, level_number)
        if step.status.first:
            self.rows.clear()
            self.rejected = 0
        self.new.clear()

    def pre_step(self, step: Any, level_number: int) -> None:
        """Remember where the counters stand."""
        super().pre_step(step, level_number)
        self._before[step.status.slot] = counts_of(step.levels[0].prob)

    def post_step(self, step: Any, level_number: int) -> None:
        """Keep the step unless it is to be repeated."""
        super().post_step(step, level_number)
        if step.status.get("restart"):
            self.rejected += 1
            return
        L, sweep = step.levels[0], step.levels[0].sweep
        if getattr(sweep, "failure", None) is not None:
            return
        time, dt, end, polynomial = L.time, L.dt, L.uend.view(np.ndarray), L.uend.polynomial
        sweeps = getattr(sweep, "initial_sweeps", 0) + step.status.iter * L.params.nsweeps
        counts = np.array([sweeps, *np.subtract(counts_of(L.prob), self._before[step.status.slot])])
        dense = []
        if self.dense:
            u0, collocation = L.u[0], getattr(sweep, "collocation", True)
            about = u0.view(np.ndarray), end, polynomial, collocation, self.n_slopes, u0.polynomial
            dense.append(interpolant.step_data(time, dt, *about))
        slope = polynomial.derivative_at_end()
        self.new.append((self._end(time + dt), L.status.residual, end[None], slope[None], counts, dense))
        if not self.collects:
            self.keep(self.take())

    def take_ahead(self, taken: Taken) -> None:
        """Keep steps that were taken one after the other."""
        nodes, ends, u, du = taken.nodes, taken.starts + taken.sizes, taken.u, taken.du
        if self.interval is not None:
            ends = np.array([self._end(time) for time in ends.tolist()])
        dense: Sequence[StepData] = []
        if self.dense:
            # The start of a step stands before its stages: it is the last stage of the one before.
            if taken.collocation or taken.interior:
                dense = interpolant.StepsInRow(taken, self.n_slopes)
            else:
                places = zip(taken.starts.tolist(), taken.sizes.tolist(), strict=True)
                dense = interpolant.steps_of_ends(places, u[:: len(nodes)], taken.slope, du[:, -1])
        counts, residuals = np.column_stack([taken.sweeps, taken.counts]), taken.residuals
        self.rows.extend(ends, residuals, u[len(nodes) :: len(nodes)], taken.slopes_at_end(), counts, dense)
        if len(ends):
            self.show_progress(float(ends[-1]))

    def _end(self, time: float) -> float:
        """The time of the grid that a step has come to, or the time itself where an event has ended it."""
        if self.interval is None:
            return time
        start, end, count = self.interval
        dt = (end - start) / count
        number = round((time - start) / dt)
        # As numpy.linspace has it.
        on_grid = end if number == count else start + number * dt
        rounding = count * float(np.finfo(float).eps) * max(abs(start), abs(end))
        return on_grid if abs(on_grid - time) <= GRID_SLACK * dt + rounding else time

    def take(self) -> list[tuple[Any, ...]]:
        """The steps that are not yet in ``rows``; from then on they are the caller's."""
        new, self.new = self.new, []
        return new

    def keep(self, rows: list[tuple[Any, ...]]) -> None:
        """Add accepted steps."""
        for row in rows:
            self.rows.extend(*row)
            self.show_progress(float(row[0]))

    def show_progress(self, time: float) -> None:
        """Called with the end of each accepted step, or of the last of several; for a progress bar."""


_KEEPING = attrgetter("pre_step", "post_step", "keep", "take", "take_ahead")


class MarkProvisionalStarts(Hooks):  # type: ignore[misc]
    """Tells the sweepers whether the step before still changes, where several steps iterate together.

    A sweep that fails then leaves the step as it was, instead of ending the run.

    Examples
    --------
    >>> ds.solve("simple", dt=0.1, hooks=[ds.MarkProvisionalStarts]).success
    True
    """

    def pre_run(self, step: Any, level_number: int) -> None:
        """Tell the sweepers that other steps will take what they hand on."""
        super().pre_run(step, level_number)
        for level in step.levels:
            level.sweep.together = True

    def pre_sweep(self, step: Any, level_number: int) -> None:
        """Set ``provisional`` of the sweeper from the step before."""
        super().pre_sweep(step, level_number)
        step.levels[level_number].sweep.provisional = not (step.status.first or step.status.prev_done)


class CheckInitialValue(Hooks):  # type: ignore[misc]
    """Refuses to start from a value that violates an equation.

    See :func:`dae_sdc.dae.consistency.check_consistent`.

    Examples
    --------
    >>> ds.solve("simple", dt=0.1, hooks=[ds.CheckInitialValue]).success
    True
    """

    def pre_run(self, step: Any, level_number: int) -> None:
        """Check the value of the first step."""
        super().pre_run(step, level_number)
        if step.status.first:
            L = step.levels[0]
            check_consistent(L.prob, L.u[0], L.time)


class RequireConvergence(Hooks):  # type: ignore[misc]
    """Ends the run at the first step whose sweeps did not reach their tolerance.

    pySDC itself goes on with whatever ``maxiter`` iterations gave. Levels without a tolerance (``restol`` not
    positive) do a fixed number of sweeps and are left alone, and so is a step that is to be repeated.

    Examples
    --------
    >>> ds.solve("simple", dt=0.1, hooks=[ds.RequireConvergence]).success
    True
    """

    def post_step(self, step: Any, level_number: int) -> None:
        """Compare the residual of the step with its tolerance; raise :class:`ConvergenceError` above it."""
        super().post_step(step, level_number)
        if (error := unconverged(step)) is not None:
            raise error


def unconverged(step: Any) -> ConvergenceError | None:
    """The error for a step that has ended above its residual tolerance; None for one that has not."""
    L = step.levels[0]
    restol, residual = L.params.restol, L.status.residual
    if restol <= 0.0 or residual <= restol or step.status.get("restart") or L.params.get("e_tol"):
        return None
    if step.status.get("at_round_off") or residual <= RESIDUAL_ROUND_OFF * L.sweep.residual_scale():
        return None
    iterations = getattr(L.sweep, "initial_sweeps", 0) + step.status.iter
    return ConvergenceError(
        f"the sweeps of the step from t={L.time:.6g} with dt={L.dt:.3g} ended after "
        f"{iterations} iterations with residual {residual:.1e} above restol={restol:.1e}; "
        f"reduce dt, raise maxiter, or use another Q_Delta"
    )


COUNTS = ("sweeps", *COUNTERS)  # Counters of a step.
FEWEST_ROWS = 64  # Rows by which the arrays of steps grow at least.


class Steps(Sequence[dict[str, Any]]):
    """Rows of accepted steps, which are mappings when read: end, state, u', residual, counts, dense data."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        # In a row of the first: end of the step, residual, u and u'. Rows from ``_used`` on are not rows yet:
        # it changes last, so that an interrupt finds whole ones only.
        self._values, self._counts = np.empty((0, 2)), np.empty((0, len(COUNTS)), dtype=np.int64)
        self._dense: Sequence[StepData] = []
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def dense(self) -> Sequence[StepData]:
        """What dense output needs of each step; empty where it is not kept."""
        return self._dense if len(self._dense) == self._used else self._dense[: self._used]

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(at, slice):
            return [self[number] for number in range(len(self))[at]]
        number = range(len(self))[at]
        values, counts = self._values[number].copy(), self._counts[number].tolist()
        n = len(values) // 2 - 1
        row = {"t": float(values[0]), "u": values[2 : 2 + n], "du": values[2 + n :]}
        row |= {"residual": float(values[1]), **dict(zip(COUNTS, counts, strict=True))}
        return row | ({"dense": self._dense[number]} if len(self._dense) else {})

    def extend(
        self, ends: Any, residuals: Any, u: Vector, du: Vector, counts: Any, dense: Sequence[StepData]
    ) -> None:
        """Add several steps."""
        # Shapes: ends and residuals (K,), u and du (K, n), counts (K, 6).
        n, stop = u.shape[1], self._used + len(u)
        if stop >= len(self._counts):  # they grow by a sixteenth where they are full
            size = stop + max(FEWEST_ROWS, stop // 16)
            self._values.resize((size, 2 * n + 2), refcheck=False)  # nobody has a view of them
            self._counts.resize((size, len(COUNTS)), refcheck=False)
        new = slice(self._used, stop)
        values, self._counts[new] = self._values[new], counts
        values[:, 0], values[:, 1], values[:, 2 : 2 + n], values[:, 2 + n :] = ends, residuals, u, du
        if not new.start:
            self._dense = dense  # as they came: of a run without others few are asked for
        else:
            self._dense = kept = self._dense if isinstance(self._dense, list) else list(self._dense)
            kept[new] = dense
        self._used = new.stop

    def fit(self) -> None:
        """Give back the room of rows that have not come."""
        for array in (self._values, self._counts):
            if array.flags.owndata:  # not those that came from other ranks
                array.resize((self._used, array.shape[1]), refcheck=False)  # nobody has a view of them

    def fill(self, columns: Mapping[str, Any], dense: Sequence[StepData]) -> None:
        """Replace all rows by those of whole columns."""
        values = np.column_stack([columns[name] for name in ("t", "residual", "u", "du")]).astype(float)
        counts = np.column_stack([columns[name] for name in COUNTS]).astype(np.int64)
        self._values, self._counts, self._dense, self._used = values, counts, list(dense), len(values)

    def columns(self, start: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """All rows as arrays by name, with the values of ``start`` in front; without ``dense``."""
        *several, counts = self.arrays()
        columns, more = {}, int(start is not None)
        for name, values in zip(("t", "residual", "u", "du", *COUNTS), [*several, *counts.T], strict=True):
            first = values[:0] if start is None else [start.get(name, 0)]
            shape = np.shape(first)[1:]  # before the first step the size of the state is not known here
            columns[name] = column = np.empty((self._used + more, *shape), values.dtype)
            column[:more], column[more:] = first, values.reshape(-1, *shape)
        return columns

    def arrays(self) -> tuple[Vector, Vector, Vector, Vector, NDArray[np.int64]]:
        """Ends (K,), residuals (K,), u (K, n), u' (K, n) and counts (K, 6), as views until rows come."""
        values, du = self._values[: self._used], self._values.shape[1] // 2 + 1
        return values[:, 0], values[:, 1], values[:, 2:du], values[:, du:], self._counts[: self._used]

    def since(self, first: int) -> Steps:
        """A copy without the rows before ``first``."""
        later = Steps()
        later.fill({name: values[first:] for name, values in self.columns().items()}, self.dense[first:])
        return later


WINDOW = 512  # Number of steps that are kept until values are sampled from them.


class Samples:
    """Values of a run at its output times, and sums over its steps."""

    # Polynomials of a step depend on a few steps before and after it, so the last ones wait for further ones.

    def __init__(self, times: Vector, t0: float, u0: Vector, du0: Vector, n_slopes: int) -> None:
        # Shapes: times (K,), increasing, u0 and du0 (n,): state and derivative at the start.
        count, n = len(times), len(u0)
        self.times, self.t0, self.n_slopes = times, t0, n_slopes
        self.done = self.steps = 0  # number of known rows, and of steps taken
        self.u, self.du = np.empty((count, n)), np.empty((count, n))  # the first ``done`` rows are known
        self.sizes = np.zeros(count)  # of the steps in which the times lie; 0 at the ends of steps
        # Largest residual, and counts, of the steps that ended since the previous time.
        self.residuals, self.counts = np.zeros(count), np.zeros((count, len(COUNTS)), dtype=np.int64)
        self.largest, self.total = np.abs(u0), np.zeros(len(COUNTS), dtype=np.int64)
        # Where the kept steps begin, and from how many of them values were sampled.
        self._start, self._settled = (t0, u0, du0), 0

    def advance(self, record: StepRecord) -> None:
        """Sample values from steps with enough others after them, and drop steps no longer needed."""
        stop = len(record.rows) - STENCIL
        self._look(record.rows, stop)
        first, (ends, _, u, du, _) = stop - STENCIL, record.rows.arrays()
        start = ends[first - 1], u[first - 1].copy(), du[first - 1].copy()
        kept = record.rows.since(first)
        # In one assignment, so that an interrupt finds all of them before or after it.
        self._start, self._settled, record.rows = start, STENCIL, kept

    def ended(self, rows: Steps, last: bool) -> Samples:
        """The samples at the end of the run, or a copy as if the run had ended with its last step."""
        samples = self if last else deepcopy(self)
        samples._look(rows, len(rows), ended=True)
        return samples

    def _look(self, rows: Steps, stop: int, ended: bool = False) -> None:
        """Sample values from the first ``stop`` kept steps."""
        settled, (t, u0, du0), n = self._settled, self._start, len(self.largest)
        ends, residuals, values, slopes, counts = rows.arrays()
        values, slopes = values.reshape(-1, n), slopes.reshape(-1, n)
        dense = interpolant.DenseOutput(t, u0, ends, values, rows.dense, du0, slopes, self.n_slopes)
        new = slice(settled, stop)
        largest = np.maximum(self.largest, np.abs(values[new]).max(axis=0, initial=0.0))
        total = self.total + counts[new].sum(axis=0)
        steps = self.steps + stop - settled
        of_step = np.searchsorted(self.times, ends[new])
        within = of_step < len(self.times)
        last = float(ends[stop - 1]) if stop else self.t0
        slack = interpolant.round_off_of_times(self.t0, last, steps) if ended else 0.0
        upto = int(np.searchsorted(self.times, last + slack, side="right"))
        if upto > self.done:
            chosen = slice(self.done, upto)
            times = np.minimum(self.times[chosen], last)
            self.u[chosen], self.du[chosen] = dense.values_at(dense.check(times), 0, 1)
            self.sizes[chosen] = dense.sizes_at(times)
        np.maximum.at(self.residuals, of_step[within], residuals[new][within])
        np.add.at(self.counts, of_step[within], counts[new][within])
        self.steps, self.largest, self.total, self.done = steps, largest, total, max(self.done, upto)
