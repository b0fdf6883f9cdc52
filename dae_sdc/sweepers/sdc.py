"""Spectral deferred corrections for F(t, u, u') = 0: one sweep, three variants as data."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pySDC.core.sweeper import Sweeper

from dae_sdc.dae.jacobian import NOISE_LIMIT
from dae_sdc.dae.jacobian_check import JacobianWatch
from dae_sdc.dae.noise import measured_noise
from dae_sdc.dae.polynomial import interpolation_matrix, reaches
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import EvaluationError, InputError, SolveError, require_tolerance
from dae_sdc.registry import Registry, unknown
from dae_sdc.sharing import filtering
from dae_sdc.sweepers.collocation import (
    QMAT,
    check_qdelta,
    check_quadrature,
    qdelta_matrix,
    transient_growth,
)
from dae_sdc.sweepers.direct import require_problem
from dae_sdc.sweepers.nodes import (
    OK,
    RESIDUAL_FAILED,
    SWEEP_FAILED,
    NodeCommunicator,
    NodeList,
    SerialNodes,
    Stages,
    differing,
    rows_of,
)
from dae_sdc.sweepers.simultaneous import eigenbasis
from dae_sdc.sweepers.solvers import Place, PythonNodes
from dae_sdc.sweepers.start import starting_derivative
from dae_sdc.sweepers.step_error import SMALLEST_NEWTON, StepError, multiplier_noise, multipliers
from dae_sdc.sweepers.sweep import (
    CHANGE,
    CONTINUE,
    CONTRACTION,
    CONVERGED,
    ETA,
    ETA_GROWS,
    FLOOR,
    GOAL_NUMBERS,
    GOING_ON,
    INTEGRATE,
    LEFT,
    MOST_SWEEPS,
    NOTHING,
    PATIENCE,
    SHARE,
    TOO_SLOW,
    Continuation,
    Goal,
    SweepArrays,
    add_defects,
    residual,
)
from dae_sdc.sweepers.tolerance import Outcome, Tolerance

SWEEPERS: Registry[type[Sweeper]] = Registry("sweeper", "dae_sdc.sweepers", "dae_sdc.constrained")
"""Every sweeper by its name."""

INITIAL_GUESSES = ("extrapolate", "spread", "zero", "random")
RESIDUAL_TYPES = ("full_abs", "last_abs", "full_rel", "last_rel")

BACKENDS = ("compiled", "numpy")

SETTLED = 3
"""Sweeps from a cold start after which another step of the same block may continue the polynomial of this."""

FORCING = 0.01
"""Part of its first correction that a node's solve may leave to the next sweep, where nobody sees this one.

Where constraints determine integrated unknowns, what is left comes back divided by dt, and none may be."""

FORCING_BY_INDEX = (FORCING, FORCING, FORCING, 1e-4)
"""The same in steps of a given accuracy, by the index of the problem."""

ALLOWED_FOR = 50
"""Steps for which it holds what residuals may be, as measured in one."""

RESIDUAL_FLOOR = 1e-13
"""Smallest residual that a node's solve is asked for on behalf of the tolerance of the sweeps."""


class SpectralDeferredCorrectionDAE(Sweeper):  # type: ignore[misc]
    r"""The sweep that all SDC sweepers for DAEs share.

    With U_m = u'(t_m) at M collocation nodes, Q the collocation matrix and Q_Delta lower triangular, sweep
    k + 1 solves node by node

    .. math::
        F\Big(t_m,\; u_0 + \Delta t \sum_{j} (q_{mj} - \tilde q_{mj}) U_j^k
        + \Delta t \sum_{j \le m} \tilde q_{mj} U_j^{k+1},\; U_m^{k+1}\Big) = 0

    for U_m. The variants differ in which unknowns are integrated and in which value of u is kept at a node:

    ===================== ====================== =======================================
    sweeper               integrated             kept
    ===================== ====================== =======================================
    FullyImplicitDAE      all                    u_0 + dt sum_j q_mj U_j
    SemiImplicitDAE       differential           u_0 + dt sum_j q_mj U_j, and z
    ConstrainedDAE        differential           the value of the node's solve, and z
    ===================== ====================== =======================================

    Parameters
    ----------
    params : dict
        ``num_nodes``; ``quad_type`` (default RADAU-RIGHT; LOBATTO, GAUSS); ``QI``, any Q_Delta of qmat that
        converges for the index of the problem (default LU); ``initial_guess``: extrapolate (the last step's
        polynomial, default), spread, zero or random (with ``random_seed``); ``initial_sweeps``: how many
        sweeps may belong to the prediction (0), which ends when the residual meets ``restol``: they cost no
        iterations of the controller. They are done where a step depends on no other: serial, on one level;
        ``backend``: compiled or numpy, see :func:`dae_sdc.run.description.describe`; ``tolerance``, a
        :class:`Tolerance` if steps are to be of a given accuracy: sweeps then go on until u at the nodes
        changes no more, ``restol`` must be 1, and :meth:`judge` says what came of a step.
    level : pySDC.core.level.Level
        The level that sweeps.

    Attributes
    ----------
    nodes : NodeCommunicator
        Which nodes this process owns, and how it gets those of the others.
    together, coupled : bool
        Whether other steps iterate with this one, and whether other levels do; set by the hook
        ``MarkProvisionalStarts`` and by ``TransferDAE``.
    initial_sweeps : int
        Number of sweeps that were part of the prediction.
    provisional : bool
        Whether the step before still changes. A sweep that fails then leaves the step as it was.
    defers, failure : bool, Exception or None
        Whether errors are kept in ``failure`` until somebody asks, instead of being raised.

    Raises
    ------
    InputError
        For a quadrature, Q_Delta or initial guess that does not exist, or that cannot work for this problem.

    References
    ----------
    J. Huang, J. Jia, M. Minion, Arbitrary order Krylov deferred correction methods for differential algebraic
    equations, J. Comput. Phys. 221 (2007) 739, sec. 3.
    """

    integrates_algebraic: ClassVar[bool] = True
    keeps_node_value: ClassVar[bool] = False

    def __init__(self, params: dict[str, Any], level: Any) -> None:
        given = dict(params)
        given.setdefault("quad_type", "RADAU-RIGHT")
        given.setdefault("QI", "LU")
        given.setdefault("initial_guess", "extrapolate")
        given.setdefault("initial_sweeps", 0)
        given.setdefault("backend", None)
        tolerance: Tolerance | None = given.pop("tolerance", None)
        check_quadrature(given["quad_type"], given.get("num_nodes"))
        if given["initial_guess"] not in INITIAL_GUESSES:
            raise InputError(unknown("initial_guess", given["initial_guess"], INITIAL_GUESSES))
        if given["backend"] not in (None, *BACKENDS):
            raise InputError(unknown("backend", given["backend"], BACKENDS))
        if given["quad_type"] == "GAUSS":
            given["do_coll_update"] = True
        if tolerance is not None and given["quad_type"] != "RADAU-RIGHT":
            raise InputError(
                f"runs to a tolerance need RADAU-RIGHT nodes, for which there is an error estimate; got "
                f"quad_type '{given['quad_type']}'; leave it out, or give dt instead of rtol"
            )
        super().__init__(given, level)
        qdelta_matrix(self.coll, self.params.QI)
        self._node_tuple = tuple(self.coll.nodes.tolist())
        # A node at the start of the step is given, and not solved for.
        self._first_solved = 1 if self.coll.left_is_node else 0
        self.nodes = self._communicator()
        self._set_qdelta(1)
        self._problem: ProblemDAE | None = None
        self._dt = 0.0
        self._sweeps = self._last_sweeps = self.initial_sweeps = 0
        self._continuation: Continuation | None = None
        self._residual_now = np.inf
        self._unseen = False
        self.defers = self.provisional = self.together = self.coupled = False
        self._integral_tau: Vector | None = None
        self._shown: tuple[Any, Any] = (None, None)
        self.failure: Exception | None = None
        self._ahead = self._misled = False
        self._may_run_ahead = self.nodes.size > 1
        self.tolerance = tolerance
        self._steps: StepError | None = None
        self._continues_values = False
        self._reason, self._how = "", GOING_ON

    # --- set-up ---------------------------------------------------------------------------------------------

    def _communicator(self) -> NodeCommunicator:
        return SerialNodes(self.coll.num_nodes)

    @property
    def rank(self) -> int:
        """Rank of this process among those that share the nodes."""
        return self.nodes.rank

    def _set_qdelta(self, sweep: int) -> None:
        with QMAT, filtering("ignore"):
            self.QI = self.get_Qdelta_implicit(self.params.QI, k=sweep)
        self._delta = np.ascontiguousarray(self.QI[1:, 1:])
        self._diagonal = not np.tril(self._delta, -1).any()
        self._coefficients_of = sweep
        self._dt = 0.0

    def updateVariableCoeffs(self, k: int) -> None:
        """Take the Q_Delta of the coming sweep where it changes from sweep to sweep.

        pySDC's ``k`` restarts in every iteration; the sweeps of the step are counted here instead.
        """
        self._take_coefficients()

    def _take_coefficients(self) -> None:
        if self.genQI.isKDependent() and self._coefficients_of != self._sweeps + 1:
            self._set_qdelta(self._sweeps + 1)

    def _bind(self, problem: ProblemDAE) -> None:
        """Look at the problem once: what is integrated, and whether this sweep can solve it."""
        require_problem(self, problem)
        name = type(self).__name__
        for option in ("restol", "e_tol"):
            given = self.level.params.get(option)
            if given is not None:
                require_tolerance(option, given)
        if self.level.level_index > 0 and not self.coupled:
            raise InputError(
                f"{name} stands on a coarse level, whose equations only TransferDAE knows how to make; set "
                f"base_transfer_class to dae_sdc.TransferDAE"
            )
        self._n_integrated = problem.n if self.integrates_algebraic else problem.n_diff
        if self._n_integrated < problem.n and _depends_on_algebraic_derivative(problem, self.level):
            raise InputError(
                f"{name} needs a semi-explicit DAE, but F of {type(problem).__name__} depends on the "
                f"derivative of algebraic unknowns; use FullyImplicitDAE"
            )
        index = problem.index
        # A singular mass matrix hides constraints among the integrated unknowns, at index 1 too.
        hidden = self._n_integrated == problem.n and (index is None or index >= 1)
        constrained = hidden or (index is not None and index >= 2)
        check_qdelta(self.coll, self.params.QI, index, constrained)
        self._constrained = constrained
        self.solver = self._make_solver(problem)
        self._watch = JacobianWatch(problem, self.tolerance is not None)
        self._guide = np.empty((2, problem.n))
        self._residuals = np.empty((self.coll.num_nodes, problem.n))
        self._right_side = np.zeros((self.coll.num_nodes, self._n_integrated))
        self._mixed = np.zeros((self.coll.num_nodes, problem.n))
        self._times = np.zeros(self.coll.num_nodes)
        self._norms_of_nodes = np.zeros(self.coll.num_nodes)
        self._owned = slice(self.nodes.owned.start, self.nodes.owned.stop)
        if self.tolerance is not None:
            self._bind_adaptive(problem, self.tolerance)
        self._problem = problem

    def _make_solver(self, problem: ProblemDAE) -> PythonNodes:
        """What solves at the nodes, by the ``backend`` asked for."""
        backend = self.params.backend
        kernels = None if backend == "numpy" else problem.kernels
        owned, k, M = self.nodes.owned, self._n_integrated, self.coll.num_nodes
        solvers = ("auto", "dense" if problem.sparsity is None else "superlu")
        if kernels is not None and kernels.jacobian and problem.linear_solver in solvers:
            module: Any = importlib.import_module("dae_sdc.sweepers._compiled")
            made: PythonNodes = module.compiled_nodes(problem, k, owned, self._diagonal, M)
            return made
        if backend == "compiled":
            given = 0 if kernels is None else 1 + (kernels.jacobian != 0)
            raise InputError(
                f"backend='compiled' needs a problem with residual_kernel and jacobian_kernel, and one of "
                f"the linear solvers {', '.join(solvers)}; {type(problem).__name__} has {given} "
                f"kernels and linear_solver='{problem.linear_solver}'"
            )
        return PythonNodes(problem, k, owned, self._diagonal)

    def _stages(self) -> Stages:
        L = self.level
        P = L.prob
        return Stages(self._node_tuple, P.n, P.n_diff, self._n_integrated, L.time, L.dt)

    def _allocate(self) -> None:
        """New stage arrays for a step; the last step's live on in the polynomial its end value carries."""
        # What steps hand on while they iterate must satisfy the constraints on integrated unknowns, or the
        # next step answers with a derivative as large as what is left, over dt; only a node's solve does.
        # Without such constraints the integral is the better value, and all that a coarse level needs.
        coarse = self.coupled and self.level.level_index > 0
        self._keeps = (self.keeps_node_value and not coarse) or (
            (self.coupled or self.together) and self._constrained
        )
        self._show(self._stages())
        self._residuals_known = self._residuals_shared = False
        self._spare: Stages | None = None
        self._sweeps = 0
        self._extrapolated = False
        self._start: MeshDAE | None = None
        self._start_polynomial: Any = None
        self._end: tuple[Any, int, int] = (self, 0, 0)

    def _show(self, stages: Stages) -> None:
        """Make these the values of the level."""
        L = self.level
        self._now, self._norms_known = stages, False
        if type(L.u) is not NodeList:
            L.u, L.f = NodeList(L.u), NodeList(L.f)
        L.u[1:], L.f[1:] = stages.values, stages.derivatives
        self._shown = L.u, L.f
        L.u.assigned = L.f.assigned = False

    def _scale(self) -> None:
        """Matrices times the step size, remade when that changes."""
        L = self.level
        if L.dt != self._dt:
            self._dt = L.dt
            self._dt_q = np.ascontiguousarray(L.dt * self.coll.Qmat[1:, 1:])
            self._dt_delta = L.dt * self._delta
            self._coefficients = np.diagonal(self._dt_delta).copy()
            self._offsets = L.dt * np.asarray(self.coll.nodes)
        np.add(self._offsets, L.time, out=self._times)

    # --- one step -------------------------------------------------------------------------------------------

    def predict(self) -> None:
        """Fill the nodes before the first sweep of a step, by the ``initial_guess``."""
        self.failure = None
        self._reason, self._how = "", GOING_ON
        try:
            self._predict()
        except Exception as error:
            self.fail(error)
        self.level.status.unlocked = True
        self.level.status.updated = True

    def fail(self, error: Exception) -> None:
        """Raise an error, or keep it where ``defers`` is set.

        A step on a rank of its own that stopped in the middle of a block would leave the others waiting. It
        goes on without computing, and the error is raised when the block has ended. A step that is to be of
        a given accuracy is judged instead.
        """
        if self._steps is not None and isinstance(error, SolveError):
            self._reason = str(error)
            return
        if not self.defers:
            raise error
        self.failure = error

    def _predict(self) -> None:
        L = self.level
        P = L.prob
        if self._problem is not P:
            self._bind(P)
        u0 = L.u[0]
        P.start_step(u0, L.time)
        self._watch.begin(u0, L.time, L.dt)
        self._last_sweeps = self._sweeps
        self._misled = False
        self._integral_tau = None
        self._forget_ahead()
        self._allocate()
        self._scale()
        self._begin_at(u0)
        if self._steps is not None:
            self._begin_adaptive(self._steps, u0)
        now, k = self._now, self._n_integrated
        u, du = now.u, now.du
        guess = self.params.initial_guess
        polynomial = u0.polynomial
        self._extrapolated = guess == "extrapolate" and reaches(polynomial, L.time + L.dt, k)
        if self._extrapolated:
            self._extrapolate()
        elif guess == "extrapolate" and self._steps is not None and polynomial is not None:
            # The last step was too short for its polynomial to be of use.
            u[:], du[:] = self._start_values, self._steps.du0
            du[:, P.n_diff :] = 0.0
            u[:, :k] += np.outer(self._offsets, du[0, :k])
        elif guess == "random":
            u[:], du[:] = self.rng.random_sample(u.shape), self.rng.random_sample(du.shape)
            du[:, k:] = 0.0
        else:
            u[:] = 0.0 if guess == "zero" else self._start_values
            du[:] = 0.0
        if self._steps is not None:
            known = self._steps.du0.copy()
        else:
            known = np.zeros(P.n) if polynomial is None else polynomial.derivative_at_end()
        L.f[0] = attach(known, P.n_diff)
        self._place_start()
        # A step that depends on no other computation need not wait for the controller's iterations.
        most = self.params.initial_sweeps
        if self._steps is not None and most:
            most = MOST_SWEEPS
        self._unseen = not self._constrained and not self.keeps_node_value
        while self._alone() and self._sweeps < most:
            self._sweep_or_adopt(most - self._sweeps)
            if self._steps is not None:
                if self._how != GOING_ON:
                    break
            elif self._residual_now <= L.params.restol or self._residual_now == np.inf:
                break
        self._unseen = False
        self.initial_sweeps = self._sweeps

    def _alone(self) -> bool:
        """Whether the sweeps of this step depend on nothing outside, and end where the residual is small."""
        if self.together or self.coupled or self.provisional or self.nodes.size > 1:
            return False
        return bool(self.level.level_index == 0 and self.level.params.restol > 0.0)

    def _extrapolate(self) -> None:
        """Continue the polynomial that the start value carries, or leave that to the first sweep."""
        L = self.level
        last = L.u[0].polynomial
        matrix = last.continuation(L.time, L.dt, self._node_tuple)
        continuation = Continuation(CONTINUE, len(last.nodes), matrix, last.value, last.derivative)
        if self._continues_values:
            self._continue_values(continuation)
        elif self._first_solved == 0 and self.params.initial_sweeps > 0 and self._alone():
            self._continuation = continuation
        else:
            self.solver.prepare(self._place(self._now))
            self.solver.continue_polynomial(continuation)
        self._now.integral_known = True

    def _continue_values(self, last: Continuation) -> None:
        """Continue the polynomial, but for algebraic unknowns that of their values.

        From index 2 on their derivative is too rough to be continued.
        """
        L, now, split = self.level, self._now, self.level.prob.n_diff
        self.solver.prepare(self._place(now))
        self.solver.continue_polynomial(last)
        change = last.matrix @ last.value[:, split:] - self._start_values[split:]
        now.du[:, split:] = (self._inverse / L.dt) @ change
        now.u[:, split:] = self._start_values[split:] + change
        now.integral[:, split:] = change

    def _begin_at(self, u0: MeshDAE) -> None:
        self._start, self._start_polynomial = u0, u0.polynomial
        self._start_values = u0.view(np.ndarray)
        # A copy: messages are put into the state itself.
        self._start_kept = self._start_values[self._n_integrated :].copy()
        self._residuals_known = self._norms_known = False

    def _starts_at(self, u0: MeshDAE) -> bool:
        return self._start is u0 and self._start_polynomial is u0.polynomial

    def _receive(self) -> None:
        """Take a new value at the start of the step: another object, or one that a message was put into."""
        u0 = self.level.u[0]
        if not self._starts_at(u0):
            knew = bool(self._sweeps) or self._extrapolated
            L, k = self.level, self._n_integrated
            if L.level_index > 0 or not knew:
                # Not integrated, z would keep the guess made for another start and lead to another solution.
                self._now.u[:, k:] += u0.view(np.ndarray)[k:] - self._start_kept
            self._begin_at(u0)
            guesses = self.params.initial_guess == "extrapolate"
            known = u0.polynomial
            if not knew and guesses and reaches(known, L.time + L.dt, k) and known.settled:
                self._extrapolate()
                self._extrapolated = True
            self._place_start()
            # What was computed ahead is void, and would be in every iteration to come.
            self._may_run_ahead = False
            self._forget_ahead()

    def _forget_ahead(self) -> None:
        """Drop a sweep that was computed ahead of its time, with all it has left behind."""
        if self._ahead:
            self._ahead = False
            self.solver.recall()

    def _place_start(self) -> None:
        """A node at the start of the step has the given value and its derivative."""
        L, now = self.level, self._now
        if self.coll.left_is_node:
            now.u[0] = self._start_values
            now.du[0] = starting_derivative(L.prob, L.u[0], L.time, L.dt, self.coll.num_nodes, True)
            now.du[0, self._n_integrated :] = 0.0
            now.integral_known = False

    def _integrate(self) -> None:
        """Make dt Q U current; sweeps leave it so, predictors and convergence controllers do not."""
        if not self._now.integral_known:
            self._integrate_stages(self._now)

    def _integrate_stages(self, stages: Stages) -> None:
        self.solver.prepare(self._place(stages))
        self.solver.integrate()
        stages.integral_known = True

    def _arrays(self, stages: Stages) -> SweepArrays:
        """What a sweep works on."""
        tau = self._integral_tau
        return SweepArrays(
            stages.u,
            stages.du,
            self._start_values,
            stages.integral,
            self._right_side,
            self._mixed,
            self._dt_q,
            self._dt_delta,
            self._right_side if tau is None else tau,
            tau is not None,
            self.coll.num_nodes,
            len(self._start_values),
            self._n_integrated,
            self._diagonal,
            self._keeps,
            self._first_solved,
        )

    def _place(self, stages: Stages) -> Place:
        """The same with what the solves at the nodes need besides."""
        L = self.level
        P, restol = L.prob, L.params.restol
        tolerance = max(0.1 * restol, RESIDUAL_FLOOR) if restol > 0.0 else np.inf
        limits = (P.newton_tol, tolerance, P.newton_maxiter, FORCING if self._unseen else 0.0)
        if self._steps is not None:
            limits = (self._newton_tolerance, np.inf, P.newton_maxiter, self._forcing)
        arrays, times, coefficients = self._arrays(stages), self._times, self._coefficients
        return Place(stages, arrays, L.time, self._dt, times, coefficients, L.tau, self._guide, limits)

    def _adopt(self) -> None:
        """Take over values that others put at the nodes in place of the stage arrays.

        Where only values of u were given, U is what integrates to them; where only values of U, the nodes
        keep what those integrate to.
        """
        L = self.level
        P = L.prob
        u, f = L.u, L.f
        if self._problem is not P:
            self._bind(P)
        elif u is self._shown[0] and f is self._shown[1]:
            if not (u.assigned or f.assigned):
                return
            u.assigned = f.assigned = False
            values, derivatives = differing(u, self._now.values), differing(f, self._now.derivatives)
            if values or derivatives:
                self._adopt_at_nodes(not derivatives, not values)
            return
        at_nodes, slopes = rows_of(u, "u", P.n), rows_of(f, "f", P.n)
        self._forget_ahead()
        self._allocate()
        self._scale()
        self._now.u[:], self._now.du[:] = at_nodes, slopes
        if not slopes.any():
            self._differentiate()

    def _adopt_at_nodes(self, only_values: bool, only_derivatives: bool) -> None:
        """Take over what was assigned within the step that is being swept."""
        L, now, n = self.level, self._now, self.level.prob.n
        at_nodes, slopes = rows_of(L.u, "u", n), rows_of(L.f, "f", n)
        self._forget_ahead()
        now.u[:], now.du[:] = at_nodes, slopes
        now.du[:, self._n_integrated :] = 0.0
        self._show(now)
        now.integral_known = self._residuals_known = self._residuals_shared = False
        self._scale()
        if not slopes.any():
            self._place_start()
        if only_values or not slopes.any():
            self._differentiate()
        elif only_derivatives and not self._keeps:
            self._finish(now)
        self._end = (self, 0, 0)
        L.status.updated = True

    def _differentiate(self) -> None:
        """Give the nodes the derivatives that integrate to their values."""
        L, now, k, first = self.level, self._now, self._n_integrated, self._first_solved
        change = now.u[:, :k] - L.u[0].view(np.ndarray)[:k]
        if self._integral_tau is not None:
            change -= self._integral_tau
        if first:
            start = starting_derivative(L.prob, L.u[0], L.time, L.dt, self.coll.num_nodes, True)[:k]
            change -= np.outer(self._dt_q[:, 0], start)
        now.du[first:, :k] = np.linalg.solve(self._dt_q[first:, first:], change[first:])

    def update_nodes(self) -> None:
        """One sweep: solve at every owned node, exchange, integrate once, keep the values of the variant.

        Raises
        ------
        NewtonError, SingularMatrixError, EvaluationError
            If a node cannot be solved, on whatever process.
        """
        L = self.level
        if not L.status.unlocked:
            raise InputError("a sweep needs a prediction first; call predict()")
        if self.failure is None and not self._reason:
            try:
                self._update_nodes()
            except Exception as error:
                self.fail(error)
        L.status.updated = True

    def _update_nodes(self) -> None:
        L = self.level
        self._adopt()
        self._receive()
        if self.provisional or L.level_index > 0:
            self._misled = self.provisional
            before = self._now.rows.copy()
            try:
                self._sweep_or_adopt()
            except SolveError:
                # No solution need belong to a start that is not the last word; and a coarse level that finds
                # none leaves the finer one as it is.
                self._now.rows[:] = before
                self._now.integral_known = False
            return
        misled, self._misled = self._misled, False
        if misled:
            self._reconsider()
        try:
            self._sweep_or_adopt()
        except SolveError:
            if not misled:
                raise
            self._predict()
            self._sweep_or_adopt()

    def _reconsider(self) -> None:
        """Begin anew from the step before, now that it is final, if that is nearer to the solution.

        Where provisional starts have led need not be near it: from index 2 on they violate constraints.
        """
        reached, sweeps, norms = self._now, self._sweeps, self._norms()
        self._predict()
        if max(norms) <= max(self._norms()):
            self._show(reached)
            self._sweeps, self._extrapolated = sweeps, False

    def _sweep_or_adopt(self, most: int = 1) -> None:
        """One sweep, or at most that many where the step is alone."""
        if self._ahead:
            assert self._spare is not None
            before, self._ahead = self._now, False
            self._show(self._spare)
            self._spare = before
            self._sweeps += 1
            return
        sweep = self._sweep_alone if self._alone() else self._sweep
        try:
            sweep(most)
        except SolveError:
            if self._sweeps > 0 or not self._extrapolated:
                raise
            # The last step's polynomial need not lead anywhere, for instance past a jump of algebraic
            # unknowns.
            if self._steps is not None:
                self.solver.forget()
            self._now.u[:], self._now.du[:] = self._start_values, 0.0
            self._place_start()
            self._now.integral_known = self._extrapolated = False
            sweep(most)

    def _sweep_alone(self, most: int) -> None:
        """Sweep until the residual meets its tolerance; residuals are then known."""
        L = self.level
        self._take_coefficients()
        if L.dt != self._dt:
            self._scale()
        guarded = self._diagonal and self._sweeps == 0 and self._steps is None
        if guarded:
            self.solver.remember()
        solver, began = self.solver, self._sweeps
        solver.prepare(self._place(self._now))
        if self.genQI.isKDependent():
            most = 1
        if self._steps is not None:
            self._sweep_to_tolerance(most)
            return
        kind = L.params.residual_type
        scale = abs(L.u[0]) if kind.endswith("rel") else 1.0
        self._norms_known = False
        try:
            last, self._continuation = self._continuation or self._nothing(), None
            tolerance, only_last = L.params.restol * scale, kind[0] == "l"
            norms = self._norms_of_nodes
            done, value = solver.sweeps(last, norms, began, most, tolerance, only_last)
            self._sweeps += done
        except SolveError:
            self._sweeps = solver.number
            self._now.integral_known = False
            if guarded and solver.number == began:
                solver.recall()
            raise
        self._now.integral_known = self._norms_known = True
        self._residual_now = value / scale if scale > 0.0 else np.inf

    def _sweep_to_tolerance(self, most: int) -> None:
        """Sweep until u at the nodes changes no more, with everything in place."""
        solver, began = self.solver, self._sweeps
        last, self._continuation = self._continuation or self._nothing(), None
        try:
            done, how = solver.sweeps_to_tolerance(last, self._goal, began, most)
            self._sweeps += done
        except SolveError:
            self._sweeps = solver.number
            self._now.integral_known = False
            raise
        self._now.integral_known = True
        self._how = self._or_rounding(how)

    def _nothing(self) -> Continuation:
        """Values are in place already."""
        wanted = NOTHING if self._now.integral_known else INTEGRATE
        return Continuation(wanted, 0, self._dt_q, self._now.u, self._now.du)

    def _sweep(self, most: int) -> None:
        """Turn the values before a sweep into those after it."""
        stages, self._norms_known = self._now, False
        # A step that can go on after a failure must not know how far its nodes had come, which depends on
        # who owns them.
        guarded = self._diagonal and (self._sweeps == 0 or self.together or self.coupled)
        if self._steps is not None:
            self.solver.prepare(self._place(stages))
            self.solver.keep_old(self._goal)
        elif guarded:
            self.solver.remember()
        failure = self._solve_owned(stages)
        failed = failure is not None
        if self.nodes.size > 1:
            stages.states[self._owned] = SWEEP_FAILED if failed else OK
            self.nodes.exchange(stages)
            failed = bool((stages.states != OK).any())
        if failed:
            if guarded and self._steps is None:
                self.solver.recall()
            self.nodes.settle(failure)
        self._finish(stages)
        self._sweeps += 1
        if self._steps is not None:
            self._how = self._or_rounding(self.solver.look_at_change(self._goal, self._sweeps))

    def _solve_owned(self, stages: Stages) -> Exception | None:
        """Solve at the nodes of this process; an error is kept for all processes to hear of."""
        self._take_coefficients()
        if self.level.dt != self._dt:
            self._scale()
        try:
            self._solve_nodes(stages)
        except Exception as error:
            return error
        return None

    def _solve_nodes(self, stages: Stages) -> None:
        """Solve at the owned nodes in turn, with the right-hand sides the last sweep leaves."""
        self._integrate()
        owned, L = self.nodes.owned, self.level
        self.solver.prepare(self._place(stages))
        # What the nodes keep in the end needs those of all.
        needed = range(self.coll.num_nodes) if self._keeps else owned
        self.solver.start_sweep(self._now, self._sweeps, needed.start, needed.stop)
        self.solver.solve(owned.start, owned.stop)
        if self._steps is None and L.params.restol <= 0.0 and L.level_index == 0:
            # Nobody else asks whether the equations are met.
            self.solver.verify(owned.start, owned.stop)

    def _finish(self, stages: Stages) -> None:
        """Integrate the derivatives of a sweep, and keep at the nodes what the variant keeps."""
        self.solver.prepare(self._place(stages))
        self.solver.finish()
        stages.integral_known = True

    def compute_residual(self, stage: str = "") -> None:
        """Largest abs(F(t_m, u_0 + dt sum_j q_mj U_j, U_m)) over the nodes.

        It is measured as the level's ``residual_type`` says. For unknowns that are not integrated their node
        value stands in F.

        Raises
        ------
        EvaluationError
            If F is NaN or infinite after a sweep, with time, node and equation.
        """
        L = self.level
        if stage in self.params.skip_residual_computation:
            L.status.residual = 0.0 if L.status.residual is None else L.status.residual
            return
        if self._steps is not None:
            self._adopt()
            ended = self._reason or self._how != GOING_ON
            L.status.residual = 0.0 if ended else float(self._goal.numbers[LEFT])
            L.status.updated = False
            return
        if self.failure is None:
            try:
                self._compute_residual()
            except Exception as error:
                self.fail(error)
        if self.failure is not None:
            L.status.residual = 0.0
        L.status.updated = False

    def _compute_residual(self) -> None:
        L = self.level
        self._adopt()
        if not L.status.updated and self._starts_at(L.u[0]):
            return
        self._receive()
        kind = L.params.residual_type
        if kind not in RESIDUAL_TYPES:
            raise InputError(unknown("residual_type", kind, RESIDUAL_TYPES))
        if self._norms_known:
            value = self._residual_now
        else:
            norms = self._norms()
            value = residual(norms, len(norms), kind[0] == "l")
            if kind.endswith("rel"):
                value = value / abs(L.u[0]) if L.u[0].any() else np.inf
        if value == np.inf and self._sweeps:
            self._explain_not_finite()
        L.status.residual = value

    def _norms(self) -> list[float]:
        """Norms of the residual at all nodes.

        Where nodes are shared, a sweep is waited for anyway until the step has had as many as the one before:
        it is done at once, and the norms travel with its values. Otherwise they travel alone.
        """
        if self.nodes.size == 1:
            return self._residual_norms()
        now = self._now
        failure, state = None, OK
        try:
            now.norms[self._owned] = self._residual_norms()
        except Exception as error:
            failure, state = error, RESIDUAL_FAILED
        carrier = now
        if self._may_run_ahead and not self.coupled and self._sweeps < self._last_sweeps:
            if self._spare is None:
                self._spare = self._stages()
            carrier = self._spare
            # Those of the other nodes come with the exchange.
            carrier.rows[self._owned] = now.rows[self._owned]
            self.solver.remember()
            if failure is None and self._solve_owned(carrier) is not None:
                state = SWEEP_FAILED
        carrier.states[self._owned] = state
        if carrier is now:
            self.nodes.exchange_notes(now)
        else:
            self.nodes.exchange(carrier)
        if failure is not None or (carrier.states == RESIDUAL_FAILED).any():
            self.nodes.settle(failure)
        if carrier is not now:
            self._ahead = True
            if (carrier.states == OK).all():
                self._finish(carrier)
            else:  # it is repeated in its time, which tells why
                self._forget_ahead()
        norms: list[float] = carrier.norms.tolist()
        return norms

    def residual_scale(self) -> float:
        """Size of the terms that F adds up at the last node, what its round-off is relative to."""
        last = self.coll.num_nodes - 1
        return self.nodes.from_last(self.solver.magnitude(last) if last in self.nodes.owned else 0.0)

    def _residual_norms(self) -> list[float]:
        """Largest abs(F) at every owned node, with the integrated unknowns at u_0 + dt sum_j q_mj U_j."""
        own = self.nodes.owned
        if self._norms_known:
            known: list[float] = self._norms_of_nodes.tolist()
            return known
        self._integrate()
        self.solver.prepare(self._place(self._now))
        if self.coupled:
            residuals = self.solver.measured(own.start, own.stop)
            self._residuals[self._owned] = residuals
            self._residuals_known, self._residuals_shared = True, False
            own_norms = np.abs(residuals).max(axis=1, initial=0.0)
            if self._keeps:
                found = np.zeros(self.coll.num_nodes)
                found[self._owned] = own_norms
                add_defects(self._arrays(self._now), own.start, own.stop, found)
                own_norms = found[self._owned]
            norms: list[float] = own_norms.tolist()
            return norms
        self.solver.norms(own.start, own.stop, self._norms_of_nodes)
        norms = self._norms_of_nodes[self._owned].tolist()
        return norms

    @property
    def step_coefficients(self) -> tuple[Vector, Vector] | None:
        """A and c of the collocation method, of shapes (M, M) and (M,), where it ends in its last node."""
        known = self.coll.right_is_node and not self.params.do_coll_update
        return (self.coll.Qmat[1:, 1:], self.coll.nodes) if known else None

    # --- steps of a given accuracy --------------------------------------------------------------------------

    @classmethod
    def estimate_index(cls, nodes: int) -> int:
        """Largest index at which the error estimate of a run to a tolerance holds, with a number of nodes."""
        return nodes + 1

    def _bind_adaptive(self, problem: ProblemDAE, tolerance: Tolerance) -> None:
        M, n = self.coll.num_nodes, problem.n
        self._allowed, self._least_allowed = np.zeros(n), 0.0
        self._allowed_dt, self._allowed_for = 1.0, 0
        if not self._delta[-1, -1] > 0.0:
            raise InputError(
                f"the error estimate of a run to a tolerance needs an implicit Q_Delta; the last entry of "
                f"'{self.params.QI}' is {self._delta[-1, -1]:g}; use LU, or give dt instead of rtol"
            )
        self._steps = StepError.of_collocation(problem, tolerance, M)
        self._goal = Goal(np.zeros((M, n)), self._steps.weights, np.zeros(GOAL_NUMBERS))
        self.solver.measure_by(self._steps.weights, self._steps.unit)
        index, numbers = self._steps.index, self._goal.numbers
        numbers[ETA], numbers[SHARE] = 1.0, self._steps.share
        # Constraints need that many times M sweeps until they contract as they will.
        numbers[PATIENCE] = max(index, 1) * M + 3.0
        numbers[FLOOR] = self._steps.round_off(self._node_tuple[0])
        # The same as Radau IIA has, which gives the same solution.
        self._gamma = eigenbasis(np.ascontiguousarray(self.coll.Qmat[1:, 1:])).real
        self._at_start = interpolation_matrix(self._node_tuple, (0.0,))[0]
        integrates = problem.n_diff < self._n_integrated
        self._continues_values = index > 1 and integrates
        # What is left at a node may grow in the sweeps to come.
        changes = range(1, M + 1) if self.genQI.isKDependent() else ()
        deltas = [qdelta_matrix(self.coll, self.params.QI, sweep) for sweep in changes] or M * [self._delta]
        self._growth = transient_growth(self.coll.Qmat[1:, 1:], deltas)
        # What is left of an integrated multiplier comes back divided by dt.
        forcing = 0.0 if index > 1 and integrates else FORCING_BY_INDEX[min(index, 3)]
        self._forcing = forcing / self._growth
        self._inverse = np.linalg.inv(self.coll.Qmat[1:, 1:])

    def _begin_adaptive(self, steps: StepError, u0: MeshDAE) -> None:
        """Nothing is known of the sweeps of this step but how those of the last contracted."""
        numbers = self._goal.numbers
        steps.begin(u0, self.level.dt)
        numbers[ETA] = max(float(numbers[ETA]), 1e-16) ** ETA_GROWS
        numbers[[CHANGE, CONTRACTION, LEFT]] = 0.0, 0.0, np.inf
        self._newton_tolerance = max(SMALLEST_NEWTON, steps.newton_tolerance / self._growth)

    def starting_step(self, u0: MeshDAE, t0: float, span: float) -> float:
        """A size for the first step, see :meth:`~dae_sdc.sweepers.tolerance.Weights.first_step`."""
        P = self.level.prob
        if self._problem is not P:
            self.level.u[0] = u0
            self._bind(P)
        assert self._steps is not None
        P.start_step(u0, t0)
        self._goal.numbers[ETA] = 1.0
        return self._steps.starting_step(u0, t0, span, float(self._gamma))

    def judge(self) -> Outcome:
        r"""What the error estimate says of the finished step.

        .. math::
            e = (M + c J)^{-1} M h \gamma (u'(t_0) - p'(t_0))

        with the collocation polynomial p, and the matrices M = dF/du' and J = dF/du and the coefficient c of
        the last node as its solves have left them. See :mod:`dae_sdc.sweepers.simultaneous`.
        """
        steps, x = self._steps, self._goal.numbers
        assert steps is not None
        rate = float(x[CONTRACTION])
        if self._reason or self._how != CONVERGED:
            return self._unsolved(steps, rate)
        if not self._residual_is_small(steps):
            self._reason = "the sweeps change nothing, but what is left of the equations is not small"
            return self._unsolved(steps, 0.0)
        self._watch.succeeded(False)
        error, worst = np.inf, 0
        last = self.coll.num_nodes - 1
        if last in self.nodes.owned:
            try:
                error, worst = self._estimate(steps, last)
            except SolveError:  # a matrix that is made for want of one may not exist
                error = np.inf
        error = self.nodes.from_last(error)
        worst = int(self.nodes.from_last(float(worst)))
        if not error <= 1.0:
            x[ETA] = 1.0
        return steps.solved(error, worst, self._sweeps / MOST_SWEEPS, 0.0)

    def _or_rounding(self, how: int) -> int:
        """What sweeps have come to; CONVERGED if all that still changes are multipliers, by rounding.

        Their weights become what can be reached then: rounding of what they multiply grows as 1 / dt or more.
        """
        steps = self._steps
        if how != TOO_SLOW or steps is None or self.nodes.size > 1:
            return how
        P, stages, which = self.level.prob, self._now, multipliers(self.level.prob)
        change = np.abs(stages.u - self._goal.old)
        if not which.any() or not np.isfinite(change).all():
            return how
        with np.errstate(over="ignore"):
            others = np.square(change * steps.weights)[:, ~which].sum(axis=1)
        if not others.max() <= P.n * steps.share**2:
            return how
        largest = np.zeros(int(which.sum()))
        for m, c in enumerate(self.solver.place.coefficients):
            if not c > 0.0:
                continue
            noise = multiplier_noise(P, stages.u[m], stages.du[m], float(self._times[m]), float(c), which)
            if noise is None or (change[m, which] > noise).any():
                return how
            np.maximum(largest, noise, out=largest)
        steps.weights[which] = np.minimum(steps.weights[which], 1.0 / largest)
        return CONVERGED

    def _residual_is_small(self, steps: StepError) -> bool:
        """Whether the equations are met as well as small changes say, at the nodes of all processes.

        What they may leave is measured now and then; a residual below the least of it is small at once.
        """
        own, norms = self.nodes.owned, self._norms_of_nodes
        alone = self.nodes.size == 1
        if alone and self._allowed_for > 0 and self._now.integral_known:
            self._allowed_for -= 1
            self.solver.norms(own.start, own.stop, norms)
            if max(norms.tolist()) <= self._least_allowed * min(1.0, self.level.dt / self._allowed_dt):
                return True
        self._integrate()
        self.solver.prepare(self._place(self._now))
        size = self.level.prob.run_scales.unknowns + np.abs(self._now.u[-1])
        # Sweeps end where round-off leaves them, too.
        share = max(steps.share, float(self._goal.numbers[FLOOR]))
        # Unknowns that are left out have no weight.
        least = share / np.maximum(size, np.finfo(float).tiny)
        tolerated = share / np.maximum(steps.weights, least)
        small = self.solver.is_small(own.start, own.stop, tolerated, share * steps.unit, self._allowed)
        if alone:
            self._least_allowed, self._allowed_dt = float(self._allowed.min()), self.level.dt
            self._allowed_for = ALLOWED_FOR if small else 0
            return small
        self._now.states[self._owned] = OK if small else RESIDUAL_FAILED
        self.nodes.exchange_notes(self._now)
        return bool((self._now.states == OK).all())

    def _estimate(self, steps: StepError, last: int) -> tuple[float, int]:
        L, P = self.level, self.level.prob
        made = self.solver.operators(last)
        scale = self._gamma * L.dt
        error = made.mass(scale * (steps.du0 - self._at_start @ self._now.du))
        if steps.first:
            start, slope = L.u[0], attach(steps.du0, P.n_diff)
            error = error - scale * P.evaluate(start, slope, L.time)
        return steps.filtered(error, made, L.time)

    def _unsolved(self, steps: StepError, rate: float) -> Outcome:
        # What matrices met in a step too large is no guide for a smaller one.
        self.solver.forget()
        self._goal.numbers[ETA] = 1.0
        L = self.level
        points = [(L.u[0].view(np.ndarray), steps.du0, L.time)]
        if self.nodes.size == 1:  # other processes need not see the same
            points.append((self._now.u[-1], self._now.du[-1], float(self._times[-1])))
        self._watch.failed(points, L.dt)
        with np.errstate(all="ignore"):
            change = np.abs(self._now.u - self._goal.old).max(axis=0) * steps.weights
        # Where ranks share the nodes, each has its own idea of what failed.
        worst = int(self.nodes.from_last(float(np.argmax(np.nan_to_num(change, posinf=0.0)))))
        if self._reason:
            return steps.unsolved(self._reason, worst, 0.0)
        return steps.unsolved(f"{self._sweeps} sweeps did not converge", worst, rate)

    # --- checkpoints ----------------------------------------------------------------------------------------

    @property
    def keeps_state(self) -> bool:
        """Whether :meth:`get_state` is all that the next step depends on besides its start."""
        alone = isinstance(self.nodes, SerialNodes)
        return alone and self._problem is not None and self.solver.keeps_state

    def get_state(self) -> dict[str, Any]:
        """What a step leaves to the next, for a checkpoint."""
        kept: dict[str, Any] = {}
        if self.params.initial_guess == "random":
            kept["random"] = self.rng.get_state()
        if self.keeps_state:
            kept["solver"] = self.solver.get_state()
            if self._steps is not None:
                kept["goal"] = self._goal.numbers.copy()
                kept["allowed"] = np.array([self._least_allowed, self._allowed_dt, self._allowed_for])
        return kept

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """Take what :meth:`get_state` gave, to the last bit."""
        if "random" in kept:
            self.rng.set_state(kept["random"])
        if "solver" in kept:
            self._bind(self.level.prob)
            self.solver.set_state(kept["solver"])
            if self._steps is not None:
                self._goal.numbers[:] = kept["goal"]
                self._least_allowed, self._allowed_dt, steps = kept["allowed"].tolist()
                self._allowed_for = int(steps)

    def reset(self) -> None:
        """Let the next step find a sweeper that has taken no steps, without matrices."""
        self._problem = None
        self._sweeps, self._ahead = 0, False
        self._may_run_ahead = self.nodes.size > 1

    # --- several levels -------------------------------------------------------------------------------------

    def node_values(self) -> tuple[Vector, Vector]:
        """What a transfer between levels takes from this one: u and U at all nodes, copies of shape (M, n).

        The integrated unknowns of u are u_0 + dt sum_j q_mj U_j + tau^u_m, whatever value the nodes keep.
        """
        self._adopt()
        self._receive()
        self._integrate()
        k = self._n_integrated
        values = self._now.u.copy()
        np.add(self._start_values[:k], self._now.integral, out=values[:, :k])
        return values, self._now.du.copy()

    def node_residuals(self) -> Vector:
        """F - tau at all nodes, shape (M, n), at the values that :meth:`node_values` gives.

        Every process that shares the nodes gets all rows; all call it.
        """
        L = self.level
        self._adopt()
        self._receive()
        failure: Exception | None = None
        if not self._residuals_known or L.status.updated:
            try:
                self._residual_norms()
            except Exception as error:
                failure = error
        if self.nodes.size == 1:
            self.nodes.settle(failure)
        elif not self._residuals_shared:
            self._now.states[self._owned] = OK if failure is None else RESIDUAL_FAILED
            self.nodes.exchange_notes(self._now)
            if (self._now.states != OK).any():
                self.nodes.settle(failure)
            self.nodes.share(self._residuals)
            self._residuals_shared = True
        return self._residuals

    def place(self, u0: MeshDAE, values: Vector, derivatives: Vector) -> None:
        """Take what a transfer between levels brings in place of this level's iterate.

        Parameters
        ----------
        u0 : MeshDAE
            Value at the start of the step.
        values, derivatives : ndarray, shape (M, n)
            u and U at the nodes.
        """
        L = self.level
        L.u[0] = u0
        if self._problem is not L.prob:
            self._bind(L.prob)
        if L.u is not self._shown[0] or L.u[1] is not self._now.values[0]:
            L.prob.start_step(u0, L.time)
            self._allocate()
            self._scale()
            L.f[0] = L.prob.eval_f(u0, L.time)
        self._begin_at(u0)
        self._now.u[:], self._now.du[:] = values, derivatives
        self._now.du[:, self._n_integrated :] = 0.0
        self._now.integral_known = self._norms_known = False
        L.status.unlocked = True
        L.status.updated = True

    def correct(self, values: Vector, residuals: Vector) -> None:
        r"""Give the equations of this level the right-hand sides that a finer level asks for.

        Both equations of a node get one,

        .. math::
            u_m - u_0 - \Delta t \sum_j q_{mj} U_j = \tau^u_m, \qquad F(t_m, u_m, U_m) = \tau^F_m,

        such that the iterate in place has the residuals 0 and ``residuals`` at ``values``.

        Parameters
        ----------
        values : ndarray, shape (M, n)
            u of the finer level at the nodes of this one, where its U is in place already.
        residuals : ndarray, shape (M, n)
            F - tau of the finer level at the nodes of this one.
        """
        L = self.level
        k = self._n_integrated
        self._integral_tau, self._now.integral_known = None, False
        self._integrate()
        self._integral_tau = values[:, :k] - self._start_values[:k] - self._now.integral
        self._now.integral_known = self._residuals_known = False
        tau = L.prob.evaluate_nodes(values, self._now.du, self._times) - residuals
        L.tau[:] = [attach(row, L.prob.n_diff) for row in tau]

    def replace_qdelta(self, delta: Vector) -> None:
        """Sweep with the lower triangular matrix ``delta``, shape (M, M), instead of the Q_Delta named."""
        self.QI[1:, 1:] = delta
        self._delta = np.ascontiguousarray(delta)
        self._diagonal = not np.tril(delta, -1).any()
        self._dt = 0.0

    def _explain_not_finite(self) -> None:
        values = self.node_values()[0]
        residual = self.level.prob.evaluate_nodes(values, self._now.du, self._times)
        bad = np.argwhere(~np.isfinite(residual))
        if not bad.size:
            raise InputError("a relative residual_type needs an initial value other than zero; use full_abs")
        node, i = bad[0]
        P = self.level.prob
        raise EvaluationError(
            f"eval_f of {type(P).__name__} returned {residual[node, i]} in '{P.equation_names[i]}' at "
            f"t={self._times[node]:.6g}, node {node + 1} of the step from {self.level.time:.6g}; reduce dt"
        )

    def compute_end_point(self) -> None:
        """The value at the end of the step: the last node's, or the polynomial's without a node there."""
        L = self.level
        P = L.prob
        if self.failure is not None or self._reason or self._how == TOO_SLOW:
            L.uend = P.dtype_u(L.u[0])
            return
        self._adopt()
        # The controller asks before and after every exchange; nothing has changed since the last sweep.
        if not L.status.updated and self._end[0] is L.uend and self._end[1:] == (self._sweeps, id(L.u[0])):
            return
        now = self._now
        if self.coll.right_is_node and not self.params.do_coll_update:
            end = attach(now.u[-1].copy(), P.n_diff)
        else:
            k = self._n_integrated
            end = P.dtype_u(P.init)
            end[:k] = L.u[0][:k] + L.dt * (self.coll.weights @ now.integrated)
            end[k:] = interpolation_matrix(self._node_tuple, (1.0,))[0] @ now.u[:, k:]
        settled = self._extrapolated or self._sweeps >= SETTLED
        # Another step may read the values when this one has gone on.
        end.polynomial = now.polynomial.left_behind(settled, self.together or self.coll.left_is_node)
        if L.u[0].polynomial is None:
            # No step before told u' at the start; pySDC interpolates from it when it repeats a step.
            k = self._n_integrated
            L.f[0][:k] = interpolation_matrix(self._node_tuple, (0.0,))[0] @ now.integrated
        L.uend = end
        self._end = (end, self._sweeps, id(L.u[0]))

    def integrate(self) -> list[MeshDAE]:
        """dt sum_j q_mj U_j at the M nodes; zero in the unknowns that are not integrated."""
        self._adopt()
        P, k = self.level.prob, self._n_integrated
        result = np.zeros((self.coll.num_nodes, P.n))
        self._scale()
        result[:, :k] = np.dot(self._dt_q, self._now.integrated)
        return [attach(row, P.n_diff) for row in result]


def _depends_on_algebraic_derivative(problem: ProblemDAE, level: Any) -> bool:
    """Whether F changes with u' of the algebraic unknowns, seen by trying at the start value."""
    u0 = level.u[0]
    time = level.time
    without, with_one = problem.dtype_f(problem.init), problem.dtype_f(problem.init)
    with_one.alg = 1.0
    # At the start itself the factor of z' may happen to vanish, as in t z'.
    for t in (time, time + 0.382 * level.dt, time + level.dt):
        before = problem.evaluate(u0, without, t).copy()
        after = problem.evaluate(u0, with_one, t).copy()
        if np.array_equal(before, after, equal_nan=True):
            continue
        # Two values of a noisy F differ anyway.
        noise = problem.noise or measured_noise(problem, u0.view(np.ndarray), without.view(np.ndarray), t)
        if noise is None or not (np.abs(after - before) <= NOISE_LIMIT * noise.absolute).all():
            return True
    return False


@SWEEPERS.register("fully-implicit")
class FullyImplicitDAE(SpectralDeferredCorrectionDAE):
    """SDC that integrates all unknowns; takes any F(t, u, u') = 0.

    See :class:`SpectralDeferredCorrectionDAE` for the equation and the parameters.
    """


@SWEEPERS.register("semi-implicit")
class SemiImplicitDAE(SpectralDeferredCorrectionDAE):
    """SDC that integrates the differential unknowns y and solves for the algebraic z themselves.

    For semi-explicit DAEs, where F does not depend on z'. See :class:`SpectralDeferredCorrectionDAE`.
    """

    integrates_algebraic = False


@SWEEPERS.register("constrained")
class ConstrainedDAE(SpectralDeferredCorrectionDAE):
    """SDC that keeps the constraints g(y, z) = 0 exact at every node in every sweep.

    As :class:`SemiImplicitDAE`, but the value of y at a node is the one its solve ended with.

    References
    ----------
    M. Bolten, L. Wimmer, arXiv 2601.16744 (2026), SDC-C.
    """

    integrates_algebraic = False
    keeps_node_value = True
