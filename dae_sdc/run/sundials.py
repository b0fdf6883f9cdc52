"""IDA and CVODE of SUNDIALS on problems of this package, by scikit-sundae; global errors of their runs."""

from __future__ import annotations

import importlib
import importlib.util
import io
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import lsmr

from dae_sdc.control.adaptivity import stops_of
from dae_sdc.dae.consistency import check_consistent
from dae_sdc.dae.interpolant import DenseOutput, Scheme, StepData
from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.kernels import machine
from dae_sdc.dae.linear import superlu
from dae_sdc.dae.memory import COUNTERS, counts_of
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.dae.values import undefined
from dae_sdc.deadline import check_at, unchecked
from dae_sdc.errors import EvaluationError, InputError, SolveError
from dae_sdc.options import HIGHEST_ORDER, Output, Start, Steps, Times, about, places_of, redeclared, takes
from dae_sdc.registry import require_name
from dae_sdc.run.description import EquationOptions, interval_of
from dae_sdc.run.equations import check_function, state_near, with_unknowns
from dae_sdc.run.method import SOLVERS, first_step
from dae_sdc.run.results import check_target, put_down
from dae_sdc.run.solution import (
    DENSE_LIMIT,
    REFINEMENT,
    Solution,
    about_problem,
    estimated,
    inaccurate,
    not_estimated,
    output_times,
    put_down_of,
)
from dae_sdc.run.start import Start as StartOfRun
from dae_sdc.run.target import problem_name, resolve
from dae_sdc.run.tracing import check_at_states
from dae_sdc.sharing import Lock, TimeBar, filtering
from dae_sdc.structure.signature import listed
from dae_sdc.sweepers.restart import RESTART_STEP, consistent_restart
from dae_sdc.sweepers.tolerance import SMALLEST_RTOL, Tolerance

if TYPE_CHECKING:
    from dae_sdc.initial.hidden import HiddenConstraints


SPARSE_FROM = 100  # Number of unknowns from which on solvers of other packages use sparse linear algebra.
MOST_INNER_STEPS = 1_000_000  # Steps to an output after which SUNDIALS gives up; usually time ends first.
EXCLUDED_TOLERANCE = 1e8  # Absolute tolerance, relative to rtol, of unknowns left out of an error test.

MOST_SLOPES = 300  # Number of unknowns up to which slopes at the start are found by dense decompositions.
SMALLEST_SINGULAR = 1e-10  # Singular value, relative to the largest, that is 0 for slopes at the start.


def slope_at(problem: ProblemDAE, u: Vector, t: float) -> Vector:
    """The minimum-norm u' that minimises F(t, u, u'), for F linear or nearly linear in u', shape (n,)."""
    state, zero = problem.state(u), problem.state(np.zeros(problem.n))
    residual = problem.evaluate(state, zero, t).copy()
    mass = linearize(problem, state, zero, t).mass
    if sparse.issparse(mass):
        return np.asarray(-lsmr(mass, residual, atol=1e-14, btol=1e-14)[0])
    # Rows may differ by orders of magnitude (charges and voltages), on which the rank must not depend.
    weights = np.abs(mass).max(axis=1)
    weights[weights == 0.0] = 1.0
    return np.asarray(-np.linalg.lstsq(mass / weights[:, None], residual / weights, rcond=1e-13)[0])


def with_algebraic_slopes(problem: ProblemDAE, u: Vector, du: Vector, t: float, span: float) -> Vector:
    """u' with the part that F = 0 leaves open and its derivative along t determines, shape (n,)."""
    # With the columns of V and U the null spaces of M = dF/du' and of its transpose, u' + V a satisfies F = 0
    # too, nearly, and U^T (F_t + F_u (u' + V a)) = 0. Steps of IDA begin with a prediction from u'; one
    # without a slope of algebraic unknowns fails its error test until steps are as small as the tolerance.
    # What this leaves open, of index 2 and more, stays.
    # Shapes: u and du (n,).
    if problem.n > MOST_SLOPES:
        return du
    state, slope = problem.state(u), problem.state(du)
    mass, stiffness = linearize(problem, state, slope, t).dense
    left, values, right = np.linalg.svd(mass)
    rank = int((values > SMALLEST_SINGULAR * values.max(initial=0.0)).sum())
    rows, columns = left[:, rank:].T, right[rank:].T
    step = float(np.sqrt(np.finfo(float).eps)) * max(abs(t), span)
    before = problem.evaluate(state, slope, t).copy()
    change = (problem.evaluate(state, slope, t + step) - before) / step
    wanted = -rows @ (change + stiffness @ du)
    if not np.isfinite(wanted).all():
        return du
    part: Vector = np.linalg.lstsq(rows @ stiffness @ columns, wanted, rcond=SMALLEST_SINGULAR)[0]
    return np.asarray(du + columns @ part)


class Equations:
    """Residual and Jacobian of a problem in the current piece of the interval between break points."""

    def __init__(self, problem: ProblemDAE, switches: bool) -> None:
        # switches: whether the branch of the equations is chosen by the state at the start of a step.
        self.problem, self.n, self.pattern = problem, problem.n, problem.sparsity
        # Read anew for every piece; not a copy, which Jacobians by complex steps would not see.
        self.parameters = problem.packed_parameters
        kernels = problem.kernels
        if kernels is not None and kernels.jacobian:
            self.residual, self.entries = self._compiled(kernels.residual, kernels.jacobian)
        else:
            self.residual, self.entries = self._in_python()
        if switches:
            self._follow()

    def begin(self, u: Vector, t: float) -> None:
        """Begin the piece that starts at ``t`` with the state ``u``."""
        self.problem.start_step(self.problem.state(u), t)
        self.parameters = self.problem.packed_parameters

    def _follow(self) -> None:
        """Let every evaluation choose the branch of its own state."""
        # Sweepers of this package keep a branch for a step. Other solvers do not tell where a step begins,
        # and restarting them after steps that end on another branch would cost more.
        plain_residual, plain_entries = self.residual, self.entries

        def residual(t: float, y: Vector, yp: Vector, out: Vector) -> None:
            if np.isfinite(y).all():
                self.begin(y, t)
            plain_residual(t, y, yp, out)

        def entries(t: float, y: Vector, yp: Vector, c: float, out: Vector) -> None:
            self.begin(y, t)
            plain_entries(t, y, yp, c, out)

        self.residual, self.entries = residual, entries

    def _compiled(self, at: int, slope_at: int) -> tuple[Callable[..., None], Callable[..., None]]:
        residual_at, jacobian_at = machine("residual_at"), machine("jacobian_at")

        def residual(t: float, y: Vector, yp: Vector, out: Vector) -> None:
            residual_at(at, t, y, yp, self.parameters, out)

        def entries(t: float, y: Vector, yp: Vector, c: float, out: Vector) -> None:
            jacobian_at(slope_at, t, y, yp, c, self.parameters, out)

        return residual, entries

    def _in_python(self) -> tuple[Callable[..., None], Callable[..., None]]:
        problem, n_diff = self.problem, self.problem.n_diff
        if getattr(problem, "jacobian", None) is None:
            raise InputError(f"{problem.name} has no exact Jacobian, which peers get")
        jacobian: Callable[..., Any] = problem.jacobian

        def entries(t: float, y: Vector, yp: Vector, c: float, out: Vector) -> None:
            matrix = jacobian(attach(y, n_diff), attach(yp, n_diff), t, c)
            out[...] = matrix if self.pattern is None else matrix.data

        return self._residual_in_python, entries

    def _residual_in_python(self, t: float, y: Vector, yp: Vector, out: Vector) -> None:
        out[:] = self.problem.eval_f(attach(y, self.problem.n_diff), attach(yp, self.problem.n_diff), t)

    def blank(self) -> Vector:
        """An empty array for the result of ``entries``."""
        return np.empty((self.n, self.n) if self.pattern is None else self.pattern.nnz)

    def places(self) -> tuple[Any, Any]:
        """Rows and columns of the entries of the pattern."""
        pattern = self.pattern
        return pattern.indices, np.repeat(np.arange(self.n), np.diff(pattern.indptr))


def ida_jacobian(equations: Equations, in_pattern: bool) -> Callable[..., None]:
    """IDA's callback for dF/du + cj dF/du', from dF/du' + c dF/du with c = 1 / cj times cj."""
    entries = equations.entries
    if equations.pattern is None or in_pattern:

        def direct(t: float, y: Vector, yp: Vector, res: Vector, cj: float, JJ: Vector) -> None:
            entries(t, y, yp, 1.0 / cj, JJ)
            JJ *= cj

        return direct
    places, values = equations.places(), equations.blank()

    def scattered(t: float, y: Vector, yp: Vector, res: Vector, cj: float, JJ: Vector) -> None:
        entries(t, y, yp, 1.0 / cj, values)
        JJ[:] = 0.0
        JJ[places] = values * cj

    return scattered


def weighted(rtol: float, scale: Vector, excluded: NDArray[np.bool_]) -> Vector:
    """Absolute tolerances, shape (n,): rtol times ``scale``, and huge ones for ``excluded`` unknowns."""
    return np.where(excluded, rtol * EXCLUDED_TOLERANCE * np.maximum(scale, 1.0), rtol * scale)


MODULE = "sksundae"

INNER = (0.2, 0.4, 0.6, 0.8)  # Where in a step the interpolant is read: with both ends, of degree 5.

NOTHING: Vector = np.empty((0, 0))

UNCHANGED_MATRIX = 1e-13  # Largest relative F at u' = f for which an earlier dF/du' counts as current.
LINEAR_IN_DERIVATIVES = 1e-7  # The same with the current dF/du'; more shows F not linear in u'.
# Power of rtol that is the tolerance of a run for sizes of unknowns, and their least, in nominal values.
SIZING_POWER, LEAST_NOMINAL = 0.5, 1e-4
MOST_TOLERANCES, MOST_TIMES = 3, 1000  # Runs that are compared; steps of each, in those of the one before.
STUCK = 3  # Number of steps in a row without a change of time after which the solver has failed.

_MESSAGE = re.compile(r"\s*\[\w+, (Error|Warning): -?\d+\]")


def installed() -> bool:
    """Whether scikit-sundae is installed."""
    return importlib.util.find_spec(MODULE) is not None


@dataclass(frozen=True, kw_only=True)
class SundialsOptions(Output, Times, Start, Steps, EquationOptions):
    """Options of :func:`sundials`."""

    rtol: float = redeclared(Steps, "rtol", 1e-6, "")
    solver: str = field(default="ida", kw_only=False, metadata=about("ida or cvode (ida)"))


@takes(SundialsOptions)
def sundials(request: SundialsOptions) -> Solution:
    """Solve a problem with IDA or CVODE of SUNDIALS.

    The solver gets the compiled equations and the exact Jacobian if the problem has them, finite differences
    otherwise, and restarts at every break point. CVODE solves ordinary differential equations,
    u' = -(dF/du')^(-1) F(t, u, 0), with F linear in u' and dF/du' regular.

    {options}

    Returns
    -------
    Solution
        If the solver gave up, ``success`` is False, and ``message`` is that of the solver. In ``stats``,
        ``rhs`` counts evaluations of F, those for differences included. The solvers do not report rejected
        steps: ``rejected`` counts evaluations of F at an earlier time than before, without those of CVODE's
        first step. Other counts that they do not report are 0.

    Raises
    ------
    InputError
        If scikit-sundae is missing, or for invalid options.

    References
    ----------
    A. C. Hindmarsh et al., SUNDIALS: Suite of nonlinear and differential/algebraic equation solvers,
    ACM Trans. Math. Software 31 (2005) 363.

    Examples
    --------
    >>> solution = ds.sundials("robertson", sweeper="ida", rtol=1e-6)  # doctest: +SKIP
    >>> print(solution.stats["steps"])  # doctest: +SKIP
    """
    return integrate(request)


def integrate(
    request: SundialsOptions, own: ProblemDAE | None = None, name: str = "", begin: StartOfRun | None = None
) -> Solution:
    """The solution for options that were checked, see :func:`sundials`, of a problem with its start."""
    solver, out = request.solver, request.out
    require_name("solver of SUNDIALS", solver, SOLVERS)
    if not installed():
        raise InputError(f"'{solver}' needs the package scikit-sundae: pip install 'dae_sdc[bench]'")
    if own is None:
        target = with_unknowns(resolve(request.problem), request.u0, run=True)
        own, name = target.make_problem(request.params or {}), target.text
        if target.is_new:
            check_function(own, request.t0, state_near(own, request.u0))
    start, end = interval_of(own, request.t0, request.t_end)
    leave_out = request.leave_out
    if leave_out is None:
        leave_out = [name for name, index in zip(own.names, own.variable_index, strict=True) if index > 1]
        if own.n_diff and set(own.names[: own.n_diff]) <= set(leave_out):
            raise InputError(
                f"the error test of '{solver}' leaves out unknowns of index 2 and more, and so all "
                f"differential ones of {type(own).__name__}; use another sweeper, or name them in leave_out"
            )
    tolerance = Tolerance.checked(own, request.rtol, request.atol, leave_out)
    sized = tolerance.atol is None
    if sized:
        # Solvers of SUNDIALS do not know the sizes of the unknowns in the run.
        tolerance = replace(tolerance, atol=tolerance.rtol * np.asarray(own.nominal, dtype=np.float64))
    times = output_times(request.t_eval, request.points, start, end)
    begin = begin or StartOfRun.at(own, request.u0, (start, end))
    tolerance.check_start(own, begin.u)
    if out is not None:
        check_target(out)
    own.start_step(begin.u, start)
    check_consistent(own, begin.u, start)
    task = Task(own, solver, start, end, np.array(begin.u), begin.du, tolerance, request)
    kept = own.n <= DENSE_LIMIT if request.dense is None else request.dense
    label: dict[str, Any] = {"problem": name or problem_name(own), "sweeper": solver, "quad": ""}
    label |= {"nodes": 0, "qdelta": "", "rtol": tolerance.rtol, "atol": tolerance.atol}
    label |= {"leave_out": list(tolerance.left_out), "max_order": request.max_order or HIGHEST_ORDER}
    runs = _Runs(task, request, label, kept, times, sized, counts_of(own))
    with unchecked():
        record, message, remark = runs.carry_out()
        found = runs.solution(record, message)
        check_at_states(own, found.t, found.u, found.du)
    if found.success and request.global_error is False and request.leave_out is None and leave_out:
        untested = f"{listed(leave_out)} of index 2 and more: not in the error test of '{solver}'"
        remark = f"{untested}, errors up to any size; reduce the index, or use another sweeper"
    if found.success and remark:
        found = replace(found, message="; ".join(filter(None, (remark, found.message))))
    return put_down_of(found, out)


@dataclass
class _Runs:
    """Runs of a task to ever smaller tolerances, until two of them agree to the one that was asked for."""

    # Errors that are accepted in steps accumulate; the norm is a mean, without unknowns of index 2 and more.

    task: Task
    given: SundialsOptions
    label: Mapping[str, Any]
    keeps: bool
    times: Vector | None
    sized: bool
    work: list[int]  # Counts of the problem before the first run.

    def carry_out(self) -> tuple[_Record, str, str]:
        """The last run, the message if it ended early, and what is to be said of its errors."""
        task, rtol = self.task, self.task.tolerance.rtol
        if self.given.global_error is False:
            record = self._record(task)
            return record, self._run(record), ""
        sizes = None
        if self.sized:  # largest values of all unknowns in a run to a loose tolerance, unless it ends early
            first = _Record(self._to(max(rtol, rtol**SIZING_POWER), None), False, None, self.work)
            sizes = None if self._run(first) else first.sizes()
        kept = self._record(self._to(rtol, sizes))
        if message := self._run(kept):
            return kept, message, ""
        remark = not_estimated(task.problem.names, f"no rtol is below {rtol:g}")
        for k in range(1, MOST_TOLERANCES):
            finer = rtol * REFINEMENT**k
            if finer < SMALLEST_RTOL:
                break
            task = self._to(finer, kept.sizes())
            if self.given.dt is None:
                # The solver's choice for a small tolerance is so small that rounding is left of u'.
                task.sizes = replace(self.given, dt=kept.t[1] - kept.t[0])
            record = self._record(task, kept.t)
            if failure := self._run(record):
                if k == 1:
                    remark = not_estimated(task.problem.names, f"with rtol={finer:g}, {failure}")
                break
            remark = self._compare(kept, record)
            kept = record
            if not remark:
                break
        return kept, "", remark

    def solution(self, record: _Record, message: str) -> Solution:
        found = record.solution(message, self.label, self.given.dense)
        if self.times is not None:
            found = found.at(self.times)
        return found if self.keeps else replace(found, dense=None)

    def _to(self, rtol: float, sizes: Vector | None) -> Task:
        before = self.task.tolerance
        absolute = before.atol * (rtol / before.rtol)
        if self.sized and sizes is not None:
            absolute = rtol * np.maximum(sizes, LEAST_NOMINAL * (np.asarray(before.atol) / before.rtol))
        return replace(self.task, tolerance=replace(before, rtol=rtol, atol=absolute))

    def _record(self, task: Task, watched: Sequence[float] = ()) -> _Record:
        return _Record(task, self.keeps, self.times, self.work, watched)

    def _run(self, record: _Record) -> str:
        """Carry out a run; returns the message if it ended early."""
        task, out = record.task, self.given.out
        # The solver calls back from C, and the time is asked for after each step.
        watched = places_of(self.given.watch, task.problem.names)
        with TimeBar(task.t0, task.t_end, self.given.progress, watched) as bar:
            try:
                task.carry_out(record, bar)
            except SolveError as error:
                return str(error)
            except BaseException as error:
                # The steps are kept even if an interrupt or an exception of the problem ends the run.
                if out is not None and len(record.t) > 1:
                    put_down(self.solution(record, f"ended by {type(error).__name__}"), out, False)
                raise
        return ""

    def _compare(self, coarse: _Record, fine: _Record) -> str:
        """What is to be said of the errors of the finer run, by its difference to the other one."""
        before, after = coarse.states()[0], np.array([u for u, _ in fine.seen])
        fine.correct(fine.watched, after, np.array([du for _, du in fine.seen]))
        wanted = self.task.tolerance
        allowed = wanted.atol + wanted.rtol * np.abs(after)
        allowed = np.where(allowed > 0.0, allowed, np.finfo(float).tiny)
        return inaccurate(self.task.problem.names, estimated(before, after), allowed, wanted.rtol)


@dataclass
class Task:
    """Problem, interval and accuracy for a solver of SUNDIALS."""

    problem: ProblemDAE  # The equations.
    solver: str  # Name in :data:`SOLVERS`.
    t0: float  # Start of the interval.
    t_end: float  # End of the interval.
    start: Vector  # State at the start, shape (n,).
    rate: Vector  # Its derivative as far as it is known, shape (n,).
    tolerance: Tolerance  # Accuracy, and unknowns whose error does not count.
    sizes: Steps  # First and largest step size, and highest order.

    @cached_property
    def pieces(self) -> tuple[float, ...]:
        """Ends of the parts of the interval between break points."""
        return (self.t0, *stops_of(self.problem, self.t0, self.t_end), self.t_end)

    @cached_property
    def slope(self) -> Vector:
        """u' at the start: that of the problem if it is known, else from F = 0 and its derivative."""
        if not np.isnan(self.rate).any():
            return self.rate
        least = slope_at(self.problem, self.start, self.t0)
        return with_algebraic_slopes(self.problem, self.start, least, self.t0, self.t_end - self.t0)

    def carry_out(self, record: _Record, bar: Any) -> None:
        """Integrate all pieces between break points."""
        name = self.solver.upper()
        driver = record.driver = _IdaDriver(self) if self.solver == "ida" else _CvodeDriver(self)
        u, last, sizes, tolerance, problem = self.start, 0.0, self.sizes, self.tolerance, self.problem
        left_out = np.array([name in tolerance.left_out for name in problem.names])
        scale = np.broadcast_to(tolerance.atol / tolerance.rtol, (problem.n,))
        given = {"rtol": tolerance.rtol, "atol": weighted(tolerance.rtol, scale, left_out)}
        given |= {"max_order": sizes.max_order or HIGHEST_ORDER, "max_num_steps": MOST_INNER_STEPS}
        given |= {"first_step": first_step(sizes.dt) or 0.0, "max_step": sizes.dt_max or 0.0}
        with _OUTPUT, redirect_stdout(_WithoutMessages(sys.stdout)):
            # scikit-sundae warns that the exact Jacobian replaces that by differences.
            with filtering("ignore", UserWarning):
                solver = driver.make(importlib.import_module(MODULE), given)
            for begin, end in pairwise(self.pieces):
                start = driver.begin(solver, begin, u, last)
                if begin == self.t0:
                    record.du[0] = driver.slope
                time, stuck = begin, 0
                while time < end:
                    found = solver.step(end, method="onestep", tstop=end)
                    if not found.success:
                        raise SolveError(f"{name} gave up at t={float(found.t):.6g}: {found.message}")
                    u = np.array(found.y)
                    if not np.isfinite(u).all():
                        raise EvaluationError(f"{name} gave NaN or infinity after t={time:.6g}")
                    stuck = stuck + 1 if found.t <= time else 0
                    if stuck == STUCK:
                        raise SolveError(f"{name} gave up at t={time:.6g}: steps too small for the time")
                    if stuck:
                        continue
                    reached = min(float(found.t), end)
                    record.step(solver, time, reached, start, u, driver.derivative(found))
                    driver.watches = True
                    time, last, start = reached, reached - time, u
                    if 0 < MOST_TIMES * len(record.watched) < len(record.t):
                        raise SolveError(f"{name} took {len(record.t)} steps up to t={time:.6g}; raise rtol")
                    if bar.shown:
                        bar.reach(time, 1, u)
                    if time < self.t_end:
                        check_at(time, " or rtol")


class _Record:
    """The steps of a run, with interpolants on all of them, or only on those that contain output times."""

    def __init__(
        self, task: Task, keeps: bool, times: Vector | None, work: list[int], watched: Sequence[float] = ()
    ) -> None:
        self.task, self.keeps, self.times = task, keeps, times
        self.scheme = Scheme((0.0, *INNER, 1.0), (), task.problem.n)
        self.t, self.u, self.du = [task.t0], [task.start], [np.full(task.problem.n, np.nan)]
        self.steps: list[StepData] = []
        self.driver: _IdaDriver | _CvodeDriver | None = None
        self.work, self.watched = [work], watched
        self.seen: list[tuple[Vector, Vector]] = [(task.start, task.slope)] if watched else []

    def step(self, solver: Any, begin: float, end: float, start: Vector, u: Vector, du: Vector) -> None:
        """Add a step from ``start`` to ``u``, with values of the solver's interpolant inside it."""
        size, rows = end - begin, NOTHING
        keeps = self.keeps
        if not keeps and self.times is not None:  # an output time may lie in the step
            side: Any = "left" if begin == self.task.t0 else "right"
            asked = np.searchsorted(self.times, begin, side=side)
            keeps = bool(asked < np.searchsorted(self.times, end, side="right"))
        watched = self.watched[len(self.seen) : bisect_right(self.watched, end)]
        if keeps or watched:
            # The end of the step is read last; otherwise the next call would return it once more.
            assert self.driver is not None
            for time in watched:
                found = solver.step(time, method="normal")
                self.seen.append((np.array(found.y), self.driver.interpolated_slope(found)))
            if keeps:
                inner = [np.array(solver.step(begin + theta * size, method="normal").y) for theta in INNER]
                rows = np.array([start, *inner, u])
            solver.step(end, method="normal")
        self.steps.append(StepData(begin, size, self.scheme, rows))
        self.t.append(end)
        self.u.append(u)
        self.du.append(du)
        self.work.append(counts_of(self.task.problem))

    def sizes(self) -> Vector:
        return np.asarray(np.abs(np.array(self.u)).max(axis=0))

    def states(self) -> tuple[Vector, Vector]:
        """u and u' at the start and after all steps, with unknowns of index 2 from hidden constraints."""
        u, du = np.array(self.u), np.array(self.du)
        self.correct(self.t, u, du)
        return u, du

    def correct(self, t: Sequence[float], u: Vector, du: Vector) -> None:
        """Compute unknowns of index 2 from hidden constraints, in place."""
        if self.constraints is not None:
            self.constraints.correct(np.array(t[1:]), u[1:], du[1:], -np.diff(t))

    @cached_property
    def constraints(self) -> HiddenConstraints | None:
        """What determines unknowns that the error test leaves out, where that is known."""
        problem = self.task.problem
        if max(problem.variable_index) <= 1 or not hasattr(problem, "form"):
            return None
        from dae_sdc.initial.hidden import hidden_constraints

        return hidden_constraints(problem, self.task.t0, self.sizes(), any_size=False)

    def solution(self, message: str, label: Mapping[str, Any], saves_dense: bool | None) -> Solution:
        task, problem = self.task, self.task.problem
        work = np.diff(np.array(self.work), axis=0, prepend=[self.work[0]])
        per_step: dict[str, Any] = {name: work[:, i] for i, name in enumerate(COUNTERS)}
        t, (u, du) = np.array(self.t), self.states()
        if task.solver == "ida" and np.isnan(task.rate).any():
            du[0, problem.n_diff :] = np.nan  # of least norm, and not those of the solution
        between = None
        if self.keeps or self.times is not None:
            between = DenseOutput(task.t0, u[0], t[1:], u[1:], self.steps, du[0], du[1:], 0)
        rejected = 0 if self.driver is None else self.driver.rejected
        stats = {"steps": len(t) - 1, "rejected": rejected, "sweeps": 0}
        stats |= {name: int(per_step[name].sum()) for name in COUNTERS}
        per_step = {"residual": np.zeros(len(t)), "sweeps": np.zeros(len(t), dtype=int), **per_step}
        parameters = {**label, "t0": task.t0, "t_end": task.t_end, **about_problem(problem)}
        known: dict[str, Any] = {"names": problem.names, "units": problem.units, "parameters": parameters}
        known |= {"success": not message, "message": message, "stats": stats, "per_step": per_step}
        known |= {"dense": between, "saves_dense": saves_dense, "equations": self.constraints}
        return Solution(t=t, u=u, du=du, **known)


class CountedEquations(Equations):
    """Equations with counted evaluations that are NaN where not defined; their checked Jacobian."""

    def __init__(self, task: Task) -> None:
        # The branch is chosen by the state at the start of a step where no break point chooses it.
        super().__init__(task.problem, task.problem.chooses_branch and len(task.pieces) == 2)
        self.counters = task.problem.work_counters
        plain_residual, plain_entries = self.residual, self.entries

        def residual(t: float, y: Vector, yp: Vector, out: Vector) -> None:
            self.counters["rhs"].niter += 1
            try:
                plain_residual(t, y, yp, out)
            except (ArithmeticError, ValueError) as error:
                if not undefined(error):
                    raise
                out[:] = np.nan

        def entries(t: float, y: Vector, yp: Vector, c: float, out: Vector) -> None:
            try:
                plain_entries(t, y, yp, c, out)
            except (EvaluationError, ArithmeticError, ValueError) as error:
                if not (isinstance(error, EvaluationError) or undefined(error)):
                    raise
                out[...] = np.nan

        self.residual, self.entries = residual, entries

    def _in_python(self) -> tuple[Callable[..., None], Callable[..., None]]:
        problem, n, n_diff = self.problem, self.n, self.problem.n_diff
        if self.pattern is not None:
            self.pattern = sparse.csc_matrix(self.pattern, dtype=float, copy=True)
            self.pattern.sum_duplicates()
            rows, columns = self.places()
            known = columns * n + rows

        def entries(t: float, y: Vector, yp: Vector, c: float, out: Vector) -> None:
            halves: Any = linearize(problem, attach(y.copy(), n_diff), attach(yp.copy(), n_diff), t)
            problem.work_counters["jacobian"].niter -= 1  # the caller counts it
            matrix = halves.mass + c * halves.stiffness
            if self.pattern is None:
                out[...] = matrix.toarray() if sparse.issparse(matrix) else matrix
                return
            found = sparse.coo_matrix(matrix)
            wanted = found.col.astype(np.int64) * n + found.row
            place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            inside = known[place] == wanted
            out[:] = 0.0
            np.add.at(out, place[inside], found.data[inside])

        return self._residual_in_python, entries

    def matrix(self, values: Vector, in_pattern: bool) -> Any:
        """The result of ``entries`` as a matrix, CSC or dense."""
        if self.pattern is None:
            return values
        if in_pattern:
            pattern = self.pattern
            return sparse.csc_matrix((values, pattern.indices, pattern.indptr), shape=pattern.shape)
        full = np.zeros((self.n, self.n))
        full[self.places()] = values
        return full


class _Driver:
    """A solver with its callbacks."""

    # Shapes: slope (n,).

    def __init__(self, task: Task) -> None:
        self.task, self.problem, self.equations = task, task.problem, CountedEquations(task)
        self.sparse = self.problem.n >= SPARSE_FROM and self.equations.pattern is not None
        self.rejected = 0
        self.slope = task.slope
        self._latest = task.t0
        self.watches = False  # Whether a step was accepted.

    def watch(self, t: float) -> None:
        """Count a rejected attempt if F is evaluated at an earlier time than before."""
        if t < self._latest and self.watches:
            self.rejected += 1
        self._latest = t


class _IdaDriver(_Driver):
    def make(self, module: Any, options: dict[str, Any]) -> Any:
        problem, equations = self.problem, self.equations
        if self.sparse:
            options |= {"linsolver": "sparse", "sparsity": equations.pattern}
        if problem.n_alg:
            options["algebraic_idx"] = np.arange(problem.n_diff, problem.n)
        fill = ida_jacobian(equations, self.sparse)
        # IDA evaluates the Jacobian whenever it sets up a linear system, and factorises it then.
        counters = [problem.work_counters[name] for name in ("jacobian", "factorization")]

        def residual(t: float, y: Vector, yp: Vector, res: Vector) -> None:
            self.watch(t)
            equations.residual(t, y, yp, res)

        def jacobian(t: float, y: Vector, yp: Vector, res: Vector, cj: float, JJ: Vector) -> None:
            for counter in counters:
                counter.niter += 1
            fill(t, y, yp, res, cj, JJ)

        return module.ida.IDA(residual, jacfn=jacobian, calc_initcond=None, **options)

    def begin(self, solver: Any, t: float, u: Vector, before: float) -> Vector:
        """Begin a piece after a step of size ``before``; returns its start value."""
        self.equations.begin(u, t)
        if t > self.task.t0:
            # Algebraic unknowns may jump at break points.
            state = consistent_restart(self.problem, self.problem.state(u), t, RESTART_STEP * before)
            u, last = np.array(state), state.polynomial
            self.slope = slope_at(self.problem, u, t) if last is None else np.array(last.derivative_at_end())
        self._latest, self.watches = t, True
        solver.init_step(t, u, self.slope)
        return u

    def derivative(self, found: Any) -> Vector:
        return np.array(found.yp)

    interpolated_slope = derivative


class _CvodeDriver(_Driver):
    """CVODE on u' = f, the solution of F(t, u, u') = 0 with the matrix M = dF/du'."""

    def make(self, module: Any, options: dict[str, Any]) -> Any:
        problem, equations = self.problem, self.equations
        n = problem.n
        self._zero, self._residual = np.zeros(n), np.empty(n)
        self._mass: Any = None
        self._find_mass(self.task.t0, self.task.start)
        if self.sparse:
            singular = self._diagonal is not None and not np.all(self._diagonal)
        else:  # whatever the units of the equations are
            rows = self._size.max(axis=1, keepdims=True)
            singular = not rows.all() or int(np.linalg.matrix_rank(self._mass / rows)) < n
        if singular:
            raise InputError(
                f"CVODE takes ordinary differential equations; dF/du' of {problem.name} is "
                f"singular at t={self.task.t0:.6g}; use 'ida'"
            )
        self.sparse = self.sparse and self._diagonal is not None
        if self.sparse:
            options |= {"linsolver": "sparse", "sparsity": equations.pattern}

        def right_hand_side(t: float, y: Vector, yp: Vector) -> None:
            self.watch(t)
            yp[:] = self.f(t, y)

        def jacobian(t: float, y: Vector, yp: Vector, JJ: Vector) -> None:
            problem.work_counters["jacobian"].niter += 1
            mass, both = equations.blank(), equations.blank()
            equations.entries(t, y, yp, 0.0, mass)
            equations.entries(t, y, yp, 1.0, both)
            both -= mass
            if self.sparse:
                JJ[:] = -both / self._diagonal[equations.places()[0]]
            else:
                JJ[:] = -self._solve(equations.matrix(both, False))

        return module.cvode.CVODE(right_hand_side, jacfn=jacobian, **options)

    def begin(self, solver: Any, t: float, u: Vector, before: float) -> Vector:
        self.equations.begin(u, t)
        self._find_mass(t, u)
        self.slope = self.f(t, u)
        # CVODE's choice of its first step evaluates f at times that are no attempts at a step.
        self._latest, self.watches = t, False
        solver.init_step(t, u)
        return u

    def derivative(self, found: Any) -> Vector:
        return self.f(float(found.t), np.array(found.y))

    def interpolated_slope(self, found: Any) -> Vector:
        """NaN: the interpolant of the solver has no u'."""
        return np.full(self.problem.n, np.nan)

    def f(self, t: float, y: Vector) -> Vector:
        """The right-hand side; M is kept while it gives F = 0 at u' = f, so never where F is nonlinear."""
        residual, rest = self.equations.residual, self._residual
        residual(t, y, self._zero, rest)
        at_zero = rest.copy()
        slope = -self._solve(at_zero)
        if self._left(t, y, slope, at_zero) > UNCHANGED_MATRIX and np.isfinite(at_zero).all():
            self._find_mass(t, y)
            slope = -self._solve(at_zero)
            if self._left(t, y, slope, at_zero) > LINEAR_IN_DERIVATIVES:
                raise InputError(
                    f"CVODE takes equations that are linear in u'; those of {self.problem.name} "
                    f"are not, or dF/du' is nearly singular at t={t:.6g}; use 'ida'"
                )
        return slope

    def _left(self, t: float, y: Vector, slope: Vector, at_zero: Vector) -> float:
        """Largest F at u' = ``slope``, relative to its terms; NaN where F is not defined."""
        self.equations.residual(t, y, slope, self._residual)
        scale = self._size @ np.abs(slope) + np.abs(at_zero)
        return float((np.abs(self._residual) / np.maximum(scale, np.finfo(float).tiny)).max())

    def _find_mass(self, t: float, y: Vector) -> None:
        values = self.equations.blank()
        self.equations.entries(t, y, self._zero, 0.0, values)
        self._mass = mass = self.equations.matrix(values, self.sparse)
        self._size = abs(mass)
        diagonal = mass.diagonal()
        off = self._size.sum() - np.abs(diagonal).sum()
        self._diagonal: Any = diagonal if off == 0.0 else None
        self._factors = superlu(mass) if self.sparse and off else None

    def _solve(self, right: Vector) -> Vector:
        """M^(-1) times a vector or matrix; NaN where M is singular."""
        if self._diagonal is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.asarray(right / (self._diagonal if right.ndim == 1 else self._diagonal[:, None]))
        if self._factors is not None:
            return np.asarray(self._factors.solve(right))
        try:
            return np.linalg.solve(self._mass, right)
        except np.linalg.LinAlgError:
            return np.full_like(right, np.nan)


class _WithoutMessages(io.TextIOBase):
    """Standard output without the messages that SUNDIALS both prints and returns."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._after = stream, False

    def write(self, text: str) -> int:
        if _MESSAGE.match(text):
            self._after = True
        elif not (self._after and text == "\n"):
            self._after = False
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


_OUTPUT = Lock()  # Held while standard output, which all threads share, is redirected.
