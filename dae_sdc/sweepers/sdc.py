"""Spectral deferred corrections for F(t, u, u') = 0 as sweepers of pySDC: one sweep, three variants."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pySDC.core.sweeper import QDELTA_GENERATORS_ALIASES, Sweeper

from dae_sdc.dae.jacobian import NOISE_LIMIT
from dae_sdc.dae.newton_checks import JacobianWatch
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import measured_noise
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import InputError, SolveError, require_tolerance
from dae_sdc.registry import Registry, unknown
from dae_sdc.sharing import filtering
from dae_sdc.sweepers import collocation as quadrature
from dae_sdc.sweepers.amplification import LinearStep
from dae_sdc.sweepers.collocation import QMAT, SweepMatrices, qdelta_generator, qdelta_matrix
from dae_sdc.sweepers.direct import NotOfOthers, require_problem
from dae_sdc.sweepers.iterate import INITIAL_GUESSES as INITIAL_GUESSES, StepIterate
from dae_sdc.sweepers.nodes import NodeCommunicator
from dae_sdc.sweepers.solvers import PythonNodes
from dae_sdc.sweepers.step_sweeps import (
    RESIDUAL_TYPES as RESIDUAL_TYPES,
    AccuracyGoal,
    StepSweeps,
    SweepsAhead,
)
from dae_sdc.sweepers.tolerance import Outcome, Weights

BACKENDS = ("compiled", "numpy")  # Names of the kinds of code that can solve at the nodes.
# Every sweeper by its name.
SWEEPERS: Registry[type[Sweeper]] = Registry("sweeper", "dae_sdc.sweepers", "dae_sdc.constrained")

# Most unknowns of equations in Python that are called back: their matrices are dense.
MOST_CALLED_BACK = 100


def node_solver(
    problem: ProblemDAE,
    n_integrated: int,
    owned: range,
    diagonal: bool,
    num_nodes: int,
    backend: str | None,
    to_tolerance: bool,
) -> PythonNodes:
    """The solver for the nodes of a process: in compiled code where that is possible, in Python otherwise."""
    # Runs to a tolerance have compiled code for their estimates, which others of equations in Python are not
    # to wait for.
    called = to_tolerance and backend is None and problem.n <= MOST_CALLED_BACK and problem.sparsity is None
    if backend != "numpy" and (called or problem.solver_kernels is not None):
        module: Any = importlib.import_module("dae_sdc.sweepers._machine_nodes")
        made: PythonNodes = module.CompiledNodes(problem, n_integrated, owned, diagonal, num_nodes)
        return made
    if backend == "compiled":
        kernels = problem.kernels
        given = 0 if kernels is None else 1 + (kernels.jacobian != 0)
        raise InputError(
            f"backend='compiled' needs a problem with residual_kernel and jacobian_kernel; "
            f"{problem.name} has {given} of them"
        )
    return PythonNodes(problem, n_integrated, owned, diagonal)


class SpectralDeferredCorrectionDAE(NotOfOthers, Sweeper):  # type: ignore[misc]
    r"""The sweep that all SDC sweepers for DAEs share.

    With U_m = u'(t_m) at M collocation nodes, Q the collocation matrix and Q_Delta lower triangular, sweep
    k + 1 solves node by node

    .. math::
        F\Big(t_m,\; u_0 + \Delta t \sum_{j} (q_{mj} - \tilde q_{mj}) U_j^k
        + \Delta t \sum_{j \le m} \tilde q_{mj} U_j^{k+1},\; U_m^{k+1}\Big) = 0

    for U_m. The variants differ in which unknowns are integrated and in which value of u is kept at a node:

    ===================== ====================== =======================================
    sweeper               integrated unknowns    value kept at a node
    ===================== ====================== =======================================
    FullyImplicitDAE      all                    u_0 + dt sum_j q_mj U_j
    SemiImplicitDAE       differential           u_0 + dt sum_j q_mj U_j, and z
    ConstrainedDAE        differential           the value of the node's solve, and z
    ===================== ====================== =======================================

    References
    ----------
    J. Huang, J. Jia, M. Minion, Arbitrary order Krylov deferred correction methods for differential algebraic
    equations, J. Comput. Phys. 221 (2007) 739, sec. 3.
    """

    integrates_algebraic: ClassVar[bool] = True
    keeps_node_value: ClassVar[bool] = False
    collocation: ClassVar[bool] = True  # Whether a step leaves the polynomial of its stages behind.

    def __init__(self, params: dict[str, Any], level: Any) -> None:
        defaults = {"quad_type": "RADAU-RIGHT", "QI": "LU", "initial_guess": "extrapolate"}
        given = {**defaults, "initial_sweeps": 0, "backend": None, "locate_switches": True, **params}
        quadrature.check_quadrature(given["quad_type"], given.get("num_nodes"))
        if given["initial_guess"] not in INITIAL_GUESSES:
            raise InputError(unknown("initial_guess", given["initial_guess"], INITIAL_GUESSES))
        if given["backend"] not in (None, *BACKENDS):
            raise InputError(unknown("backend", given["backend"], BACKENDS))
        if given.get("tolerance") is not None and given["quad_type"] != "RADAU-RIGHT":
            raise InputError(
                f"runs to a tolerance need RADAU-RIGHT nodes, for which there is an error estimate; got "
                f"quad_type '{given['quad_type']}'; leave it out, or give dt instead of rtol"
            )
        if given["quad_type"] == "GAUSS":
            given["do_coll_update"] = True
        if "QE" in given or type(self).get_Qdelta_explicit is not Sweeper.get_Qdelta_explicit:
            raise InputError(
                f"{type(self).__name__} takes no part of F(t, u, u') = 0 explicitly: leave out QE and "
                f"get_Qdelta_explicit, and give a lower triangular Q_Delta by QI or get_Qdelta_implicit"
            )
        super().__init__(given, level)
        self.nodes = self._communicator()
        method = type(self).get_Qdelta_implicit  # Errors name it where a subclass gives its own.
        named = method is SpectralDeferredCorrectionDAE.get_Qdelta_implicit
        self._qdelta_name: str = self.params.QI if named else method.__qualname__
        # As in pySDC a generator tells whether its coefficients change from sweep to sweep.
        self.matrices = SweepMatrices(
            self.coll, self._qdelta, lambda: "genQI" in vars(self) and bool(self.genQI.isKDependent())
        )
        self.together = self.coupled = self.provisional = False
        self.initial_sweeps, self.defers = 0, False
        self.failure: Exception | None = None
        self._step: StepSweeps | None = None
        self._ahead: SweepsAhead | None = None

    def _communicator(self) -> NodeCommunicator:
        return NodeCommunicator(self.coll.num_nodes)

    def buildGenerator(self, qdType: str) -> Any:
        """The generator of a Q_Delta of qmat, refused where no sweep can go by it."""
        qdelta_matrix(self.coll, qdType)
        generator = qdelta_generator(self.coll, qdType)
        QDELTA_GENERATORS_ALIASES.setdefault(type(generator), set()).add(qdType)  # if newer than pySDC's list
        return generator

    def _qdelta(self, sweep: int) -> Vector:
        with QMAT, filtering("ignore"):
            matrix = np.asarray(self.get_Qdelta_implicit(self.params.QI, k=sweep), dtype=np.float64)
        quadrature.check_shape(self.coll, self._qdelta_name, matrix[1:, 1:])
        return matrix

    @property
    def step(self) -> StepSweeps:
        """The sweeps of the level's problem; made anew when the level has another problem."""
        problem = self.level.prob
        if self._step is None or self._step.iterate.problem is not problem:
            self._step = self._bind(problem, self._step)
        return self._step

    @property
    def iterate(self) -> StepIterate:
        """The iterate of the step."""
        return self.step.iterate

    @property
    def solver(self) -> PythonNodes:
        """The Newton solver at the nodes of this process."""
        return self.step.solver

    def _bind(self, problem: ProblemDAE, before: StepSweeps | None) -> StepSweeps:
        """Prepare for a problem; raises InputError if this sweeper cannot solve it."""
        require_problem(self, problem)
        for option in ("restol", "e_tol"):
            given = self.level.params.get(option)
            if given is not None:
                require_tolerance(option, given)
        if self.level.level_index > 0 and not self.coupled:
            raise InputError(
                f"{type(self).__name__} stands on a coarse level, whose equations only TransferDAE knows how "
                f"to make; set base_transfer_class to dae_sdc.TransferDAE"
            )
        n_integrated = problem.n if self.integrates_algebraic else problem.n_diff
        if n_integrated < problem.n and _depends_on_algebraic_derivative(problem, self.level):
            raise InputError(
                f"{type(self).__name__} needs a semi-explicit DAE, but F of {problem.name} depends "
                f"on the derivative of algebraic unknowns; use FullyImplicitDAE"
            )
        index = problem.index
        # A singular mass matrix hides constraints among the integrated unknowns, at index 1 too.
        hidden = n_integrated == problem.n and (index is None or index >= 1)
        constrained = hidden or (index is not None and index >= 2)
        name, matrices, nodes = self._qdelta_name, self.matrices, self.nodes
        if constrained:
            quadrature.check_qdelta(self.coll, name, index, matrices.of_sweep)
        about = n_integrated, nodes.owned, matrices.diagonal, self.coll.num_nodes, self.params.backend
        solver = node_solver(problem, *about, self.tolerance is not None)
        iterate = StepIterate(self.level, nodes, matrices, self, solver, constrained)
        if before is not None:
            iterate.sweeps = before.iterate.sweeps
            iterate.may_run_ahead = before.iterate.may_run_ahead
        watch = JacobianWatch(problem, self.tolerance is not None)
        accuracy = None if self.tolerance is None else AccuracyGoal(iterate, self.tolerance, name, watch)
        step = StepSweeps(iterate, accuracy, watch, self.params)
        self._ahead = SweepsAhead(step, self.params)
        return step

    def steps_ahead(self, value: Any, time: float) -> SweepsAhead | None:
        """What takes the next steps ahead, from a state; None where each of them is to be looked at."""
        known = self._step is not None and self._step.iterate.problem is self.level.prob
        ahead = self._ahead if known else None
        return ahead if ahead is not None and ahead.starts_from(value) else None

    @property
    def rank(self) -> int:
        """Rank of this process among those that share the nodes."""
        return self.nodes.rank

    def updateVariableCoeffs(self, k: int) -> None:
        """Take the Q_Delta of the coming sweep where it changes from sweep to sweep."""
        self.matrices.take(1 + (0 if self._step is None else self._step.iterate.sweeps))

    def predict(self) -> None:
        """Fill the nodes before the first sweep of a step, by the ``initial_guess``."""
        self.failure = None
        try:
            self.step.predict()
            self.initial_sweeps = self.step.iterate.sweeps
        except Exception as error:
            self.fail(error)
        self._settle()
        self.level.status.unlocked = self.level.status.updated = True

    def fail(self, error: Exception) -> None:
        """Raise an error, keep it where ``defers`` is set, or let it end a step to a tolerance."""
        # A step on a rank of its own that stopped in the middle of a block would leave the other ranks
        # waiting forever: it goes on without computing, and the error is raised when the block has ended.
        accuracy = self._accuracy
        if accuracy is not None and isinstance(error, SolveError):
            accuracy.reason = str(error)
            return
        if not self.defers:
            raise error
        self.failure = error

    def update_nodes(self) -> None:
        """One sweep: solve at every owned node, exchange, integrate once, keep the values of the variant."""
        L, accuracy = self.level, self._accuracy
        if not L.status.unlocked:
            raise InputError("a sweep needs a prediction first; call predict()")
        if self.failure is None and not (accuracy is not None and accuracy.reason):
            try:
                self.step.update()
            except Exception as error:
                self.fail(error)
        self._settle()
        L.status.updated = True

    def _settle(self) -> None:
        if self._step is not None:
            self._step.iterate.settle()

    def compute_residual(self, stage: str = "") -> None:
        """Largest abs(F(t_m, u_0 + dt sum_j q_mj U_j, U_m)), by the level's ``residual_type``."""
        L, accuracy = self.level, self._accuracy
        if stage in self.params.skip_residual_computation:
            L.status.residual = 0.0 if L.status.residual is None else L.status.residual
            return
        if accuracy is not None:
            self.step.iterate.adopt()
            L.status.residual = 0.0 if accuracy.ended else accuracy.remainder
            L.status.updated = False
            return
        if self.failure is None:
            try:
                self.step.measure()
            except Exception as error:
                self.fail(error)
        self._settle()
        if self.failure is not None:
            L.status.residual = 0.0
        L.status.updated = False

    def compute_end_point(self) -> None:
        """Put the value at the end of the step into ``level.uend``, see :meth:`StepIterate.end_value`."""
        L, accuracy = self.level, self._accuracy
        if self.failure is not None or (accuracy is not None and accuracy.failed):
            L.uend = L.prob.dtype_u(L.u[0])
            return
        iterate = self.step.iterate
        iterate.adopt()
        # The controller asks before and after every exchange; nothing has changed since the last sweep.
        if L.status.updated or not iterate.ends_at(L.uend):
            try:
                L.uend = self.step.end_value()
            except Exception as error:
                L.uend = iterate.end_value(self.params.do_coll_update)
                self.fail(error)

    def integrate(self) -> list[MeshDAE]:
        """dt sum_j q_mj U_j at the M nodes; zero in the unknowns that are not integrated."""
        iterate = self.step.iterate
        iterate.adopt()
        iterate.scale()
        rows = np.zeros(iterate.stages.u.shape)
        rows[:, : iterate.n_integrated] = np.dot(iterate.matrices.dt_q, iterate.stages.integrated)
        return [attach(row, iterate.problem.n_diff) for row in rows]

    def residual_scale(self) -> float:
        """Size of the terms that F adds up at the last node; the round-off of F is relative to it."""
        last = self.coll.num_nodes - 1
        return self.nodes.from_last(self.solver.magnitude(last) if last in self.nodes.owned else 0.0)

    @property
    def linear_step(self) -> LinearStep:
        """What a step, solved to the end, does with errors of its start."""
        A = self.coll.Qmat[1:, 1:]
        ends = self.coll.right_is_node and not self.params.do_coll_update
        return LinearStep.of_runge_kutta(A, A[-1] if ends else self.coll.weights, self.coll.nodes)

    @property
    def QI(self) -> Vector:
        """Q_Delta with pySDC's row and column for the start of the step, shape (M + 1, M + 1)."""
        return self.matrices.qdelta

    @QI.setter
    def QI(self, matrix: Vector) -> None:
        self.matrices.replace(matrix[1:, 1:])

    @property
    def _accuracy(self) -> AccuracyGoal | None:
        return None if self._step is None else self._step.accuracy

    @classmethod
    def estimate_index(cls, nodes: int) -> int:
        """Largest index at which the error estimate of a run to a tolerance holds, with a number of nodes."""
        return nodes + 1

    def starting_step(self, u0: MeshDAE, t0: float, span: float) -> float:
        """A size for the first step of a run to a tolerance."""
        if self._step is None or self._step.iterate.problem is not self.level.prob:
            self.level.u[0], self.level.status.time = u0, t0
        accuracy = self.step.accuracy
        assert accuracy is not None
        return accuracy.starting_step(u0, t0, span)

    def judge(self) -> Outcome:
        """The outcome of the finished step, with its error estimate, see :meth:`AccuracyGoal.judge`."""
        assert self.step.accuracy is not None
        return self.step.accuracy.judge()

    def error_between(self, weights: Weights, judged: Vector) -> float | None:
        """Largest error of chosen unknowns between the nodes, by compiled code; None where there is none."""
        accuracy = self._accuracy
        return None if accuracy is None else accuracy.stages.error_between(weights, judged)

    @property
    def keeps_state(self) -> bool:
        """Whether :meth:`get_state` gives all that the next step depends on besides its start."""
        return self.nodes.keeps_state and self._step is not None and self._step.solver.keeps_state

    def get_state(self) -> dict[str, Any]:
        """The state that the next step depends on, for a checkpoint."""
        state: dict[str, Any] = {}
        if self.params.initial_guess == "random":
            state["random"] = self.rng.get_state()
        if self.keeps_state:
            state["solver"] = self.solver.get_state()
            if self._accuracy is not None:
                state |= self._accuracy.get_state()
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take what :meth:`get_state` gave, to the last bit."""
        if "random" in state:
            self.rng.set_state(state["random"])
        if "solver" in state:
            self._step = self._bind(self.level.prob, self._step)
            self.solver.set_state(state["solver"])
            if self._accuracy is not None:
                self._accuracy.set_state(state)

    def reset(self) -> None:
        """Drop matrices and the memory of steps, as if no step had been taken."""
        self._step = None

    def _received(self) -> StepSweeps:
        """The step, with what others have put at its nodes and at its start."""
        self.step.iterate.adopt()
        self.step.iterate.receive()
        self._settle()
        return self.step

    def node_values(self) -> tuple[Vector, Vector]:
        """u and U at all nodes, copies of shape (M, n), see :meth:`StepIterate.node_values`."""
        iterate = self._received().iterate
        return iterate.node_values(), iterate.stages.du.copy()

    def node_residuals(self) -> Vector:
        """F - tau at :meth:`node_values`, shape (M, n); all processes that share nodes have to call this."""
        rows = self._received().residual_rows()
        self._settle()
        return rows

    def place(self, u0: MeshDAE, values: Vector, derivatives: Vector) -> None:
        """Replace this level's iterate by the values that a transfer between levels brings."""
        # Shapes: values and derivatives (M, n).
        L = self.level
        L.u[0] = u0  # first, as a sweeper that meets its problem looks at it
        iterate = self.iterate
        if iterate.shown is None or not iterate.shown.begins:
            L.prob.start_step(u0, L.time)
            iterate.allocate()
            iterate.scale()
            L.f[0] = L.prob.eval_f(u0, L.time)
        iterate.begin_at(u0)
        stages = iterate.stages
        stages.u[:], stages.du[:] = values, derivatives
        stages.du[:, iterate.n_integrated :] = 0.0
        stages.integral_known = False
        iterate.show(stages)
        L.status.unlocked = L.status.updated = True

    def correct(self, values: Vector, residuals: Vector) -> None:
        """Give both equations right-hand sides by which the iterate at ``values`` has 0 and ``residuals``."""
        # They are those of TransferDAE, which makes a level the coarse one of another.
        # Shapes: values (M, n), residuals (M, n).
        L, iterate = self.level, self.iterate
        k, stages = iterate.n_integrated, iterate.stages
        iterate.integral_tau, stages.integral_known = None, False
        iterate.integrate()
        iterate.integral_tau = values[:, :k] - iterate.start_values[:k] - stages.integral
        stages.integral_known = iterate.residuals_known = False
        tau = L.prob.evaluate_nodes(values, stages.du, iterate.times) - residuals
        L.tau[:] = [attach(row, L.prob.n_diff) for row in tau]


def _depends_on_algebraic_derivative(problem: ProblemDAE, level: Any) -> bool:
    """Whether F changes with u' of the algebraic unknowns, seen by trying at the start value."""
    u0, time = level.u[0], level.time
    without, with_one = problem.dtype_f(problem.init), problem.dtype_f(problem.init)
    with_one.alg = 1.0
    # At the start itself the factor of z' may happen to vanish, as in t z'.
    for t in (time, time + 0.382 * level.dt, time + level.dt):
        before = problem.evaluate(u0, without, t).copy()
        after = problem.evaluate(u0, with_one, t).copy()
        if np.array_equal(before, after, equal_nan=True):
            continue
        # Two values of a noisy F differ even without a dependence on z', and seldom do so twice by much.
        noise = problem.noise or measured_noise(problem, u0.view(np.ndarray), without.view(np.ndarray), t)
        if noise is None:
            return True
        again = problem.evaluate(u0, with_one, t).copy() - problem.evaluate(u0, without, t)
        if not (np.minimum(np.abs(after - before), np.abs(again)) <= NOISE_LIMIT * noise.absolute).all():
            return True
    return False


@SWEEPERS.register("fully-implicit")
class FullyImplicitDAE(SpectralDeferredCorrectionDAE):
    """SDC that integrates all unknowns; takes any F(t, u, u') = 0.

    See :class:`SpectralDeferredCorrectionDAE` for the equation and the parameters.

    Examples
    --------
    >>> solution = ds.solve("simple", sweeper=ds.FullyImplicitDAE, nodes=3, qdelta="LU", dt=0.1)
    >>> bool(abs(solution.u[-1] - ds.SimpleDAE().u_exact(1.0)) < 1e-3)
    True
    """


@SWEEPERS.register("semi-implicit")
class SemiImplicitDAE(SpectralDeferredCorrectionDAE):
    """SDC that integrates the differential unknowns y and solves for the algebraic z themselves.

    For semi-explicit DAEs, where F does not depend on z'. See :class:`SpectralDeferredCorrectionDAE`.

    Examples
    --------
    >>> solution = ds.solve("simple", sweeper=ds.SemiImplicitDAE, nodes=3, qdelta="LU", dt=0.1)
    >>> bool(abs(solution.u[-1] - ds.SimpleDAE().u_exact(1.0)) < 1e-3)
    True
    """

    integrates_algebraic = False


@SWEEPERS.register("constrained")
class ConstrainedDAE(SpectralDeferredCorrectionDAE):
    """SDC that keeps the constraints g(y, z) = 0 exact at every node in every sweep.

    Like :class:`SemiImplicitDAE`, but y at a node is the value with which the solve there ended.

    References
    ----------
    M. Bolten, L. Wimmer, arXiv 2601.16744 (2026), SDC-C.

    Examples
    --------
    >>> solution = ds.solve("simple", sweeper=ds.ConstrainedDAE, nodes=3, qdelta="LU", dt=0.1)
    >>> bool(abs(solution.u[-1] - ds.SimpleDAE().u_exact(1.0)) < 1e-3)
    True
    """

    integrates_algebraic = False
    keeps_node_value = True
