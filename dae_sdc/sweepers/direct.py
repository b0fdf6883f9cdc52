"""The base of methods without iteration over a step: one prediction or one update solves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from pySDC.core.sweeper import Sweeper

from dae_sdc.dae.adapter import adapt_level
from dae_sdc.dae.newton_checks import JacobianWatch
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import attach
from dae_sdc.errors import InputError, MissingPartError
from dae_sdc.sweepers.amplification import LinearStep
from dae_sdc.sweepers.steps_ahead import StepsAhead
from dae_sdc.sweepers.teams import Team
from dae_sdc.sweepers.tolerance import Outcome, Tolerance


def require_problem(sweeper: Sweeper, problem: Any) -> None:
    """Raise InputError for a problem that is not a ProblemDAE; prepare others for a run of steps."""
    if not isinstance(problem, ProblemDAE):
        cls = type(problem)
        raise InputError(
            f"{type(sweeper).__name__} solves a ProblemDAE of dae_sdc, with eval_f(u, du, t); got "
            f"{cls.__name__} of {cls.__module__}"
        )
    problem.begin_steps(isinstance(sweeper, DirectMethod))


class NotOfOthers:
    """The base of all sweepers: what parts of pySDC for sweepers of other kinds ask for is refused."""

    def __init__(self, params: Mapping[str, Any], level: Any) -> None:
        if "G_inv" in params:
            raise InputError(
                "ParaDiag diagonalises steps of u' = f(u, t) and solves no DAE; use controller_nonMPI or "
                "controller_MPI, and ranks or several steps at once for parallel runs"
            )
        given = dict(params)
        self.tolerance: Tolerance | None = given.pop("tolerance", None)
        super().__init__(given, level)  # type: ignore[call-arg]
        adapt_level(level)

    def __getattr__(self, name: str) -> Any:
        if name in ("_delta_setup", "comm"):
            raise MissingPartError(
                f"{type(self).__name__} has no '{name}', which the transfer between levels asks for; set "
                f"base_transfer_class to dae_sdc.TransferDAE"
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @classmethod
    def get_update_order(cls) -> int:
        """Refused: pySDC's ``AdaptivityRK`` asks for the order of an embedded method, and there is none."""
        raise InputError(
            f"{cls.__name__} has no embedded method, which AdaptivityRK needs; use Adaptivity, or "
            f"AdaptivityDAE of dae_sdc"
        )


class DirectMethod(NotOfOthers):
    """A method that solves a step at once: the interface that controllers and ``describe`` rely on."""

    # Where several steps are computed together, a step is solved when its start is final, and passes on that
    # start, marked as ``provisional``, until then.

    method: ClassVar[Any]
    family: ClassVar[str] = "method"
    initial_sweeps: ClassVar[int] = 0
    failure: Exception | None = None
    options: ClassVar[tuple[str, ...]] = ()
    uses_jacobian: ClassVar[bool] = True

    level: Any
    u_secondary: Any
    outcome: Outcome | None = None
    shows_stages = True
    _problem: ProblemDAE | None = None
    _watch: JacobianWatch | None = None
    _ahead: StepsAhead | None = None
    _solver: Any = None  # What solves steps, with matrices that it keeps from one to the next.
    team: Team | None = None
    _serial_remark = ""
    _served: Any = None  # What solved the steps of the last problem, for the next.
    _solved = False
    _swept = False
    _began_at: tuple[Any, Any, Any] = (None, None, None)

    def _bind(self, *problem: Any, **start: Any) -> None:
        """Make ready for another problem, which may begin at a state and time."""
        raise NotImplementedError

    def _take_problem(self, problem: Any, *start: Any) -> None:
        """Make ready for a problem, unless it is the one of the step before."""
        if self._problem is problem:
            return
        require_problem(self, problem)
        self._require_one_level()
        self.check_problem(problem)
        self._watch = JacobianWatch(problem, self.tolerance is not None)
        self._bind(problem, *start)
        if self._solver is not None:
            self._ahead = StepsAhead(self._solver, self._watch, problem)
        self._problem = problem

    def make_ready(self, u0: Any, t0: float) -> None:
        """Be ready for steps from a state."""
        self._take_problem(self.level.prob, u0, t0)
        self.level.prob.start_step(u0, t0)

    def predict(self) -> None:
        """Begin a step; in a run to a tolerance, carry it out."""
        L = self.level
        self._take_problem(L.prob, L.u[0], L.time)
        if L.u[0].provisional:
            raise InputError(
                f"the step before t={L.time:.6g} was never solved; '{type(self).__name__}' solves a step in "
                f"one sweep, set step_params maxiter to 1"
            )
        self._swept = False
        self._restart()
        if self.tolerance is not None:
            self._step()
            self._solved = True
            L.status.residual = 0.0

    def _begin_step(self) -> None:
        """Make the level ready for a step from the value at its start."""
        raise NotImplementedError

    def _step(self) -> None:
        """Solve the step of the level."""
        raise NotImplementedError

    def _restart(self) -> None:
        """Begin the step from the value at its start as it is now."""
        L = self.level
        u0 = L.u[0]
        L.prob.start_step(u0, L.time)
        self._begin_step()
        self._solved = False
        # A copy, because the controller writes the values it receives into the state itself.
        self._began_at = u0, u0.polynomial, u0.view(np.ndarray).copy()
        vars(L.status).update(unlocked=True, updated=True)

    def _require_one_level(self) -> None:
        if self.level.level_index > 0:
            raise InputError(
                f"'{type(self).__name__}' solves a step at once, and a coarse level has nothing to add to "
                f"it; use it on one level"
            )

    def update_nodes(self) -> None:
        """Solve the step, unless its start is not final, or it has been solved from there."""
        self._swept = True
        self._solve_where_due()
        self.level.status.updated = True

    def _solve_where_due(self) -> bool:
        """Solve the step if its start is final and it is not solved from there; whether it was solved now."""
        L = self.level
        u0, (start, polynomial, values) = L.u[0], self._began_at
        anew = (u0 is not start or u0.polynomial is not polynomial) and not (
            self._solved and np.array_equal(u0.view(np.ndarray), values)
        )
        if anew and self.tolerance is not None:
            raise InputError(
                f"steps of a given accuracy are taken one at a time; the step from t={L.time:.6g} was given "
                f"another start when it was solved; run one step at a time"
            )
        if u0.provisional or (self._solved and not anew):
            return False
        if anew:
            self._restart()
        self._step()
        self._solved = True
        return True

    def _solve_late(self) -> None:
        """Solve a step whose start was not final when it was swept, and put its end into the level."""
        if self._swept and self._solve_where_due():
            self.compute_end_point()

    def compute_end_point(self) -> None:
        """Set ``level.uend`` to the end value; for an unsolved step to the start, marked as provisional."""
        L = self.level
        if self._solved:
            self._end_step()
            return
        L.uend = L.prob.dtype_u(L.u[0])
        L.uend.provisional = True
        # Error estimators of pySDC look at both solutions before the first sweep, too.
        self.u_secondary = L.uend

    def _end_step(self) -> None:
        """Put the value at the end of the solved step into ``level.uend``."""
        raise NotImplementedError

    def judge(self) -> Outcome:
        """The outcome of the finished step, with its error estimate."""
        assert self.outcome is not None
        return self.outcome

    @classmethod
    def shares_stages(cls) -> bool:
        """Whether threads or ranks can share the stages of a step to a tolerance."""
        return False

    @property
    def sharing(self) -> str:
        """Who shared the stages, and why; empty where nobody was to share them."""
        return self._serial_remark if self.team is None else self.team.remark

    def steps_ahead(self, value: Any, time: float) -> StepsAhead | None:
        """What takes the next steps ahead, from a state; None where each of them is to be looked at."""
        looks = self.shows_stages or self._watch is None or (self.uses_jacobian and self._watch.looks)
        if looks or self._problem is None or self._ahead is None or not self.level.prob.starts_alike:
            return None
        return self._ahead if self._ahead.starts_from(value) else None

    @property
    def linear_step(self) -> LinearStep | None:
        """What a step does with errors of the past; None where that is not known."""
        return getattr(self.method, "linear_step", None)

    def reset(self) -> None:
        """Drop matrices and the memory of steps, as if no step had been taken."""
        self._problem = None

    @property
    def keeps_state(self) -> bool:
        """Whether :meth:`get_state` is all that the next step depends on besides its start."""
        return self._problem is not None and self._solver is not None and bool(self._solver.keeps_state)

    def get_state(self) -> dict[str, Any]:
        """The state that the next step depends on, for a checkpoint."""
        return dict(self._solver.get_state()) if self.keeps_state else {}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """Take what :meth:`get_state` gave, to the last bit."""
        if kept:
            self.reset()
            self._take_problem(self.level.prob)
            self._solver.set_state(kept)

    @classmethod
    def check_problem(cls, problem: ProblemDAE) -> None:
        """Raise InputError for a problem that the method cannot solve."""

    @classmethod
    def check_adaptive(cls) -> None:
        """Raise InputError for a method whose error cannot be estimated."""
        raise InputError(
            f"'{cls.method.name}' has no error estimate for runs to a tolerance; give dt, or use another "
            f"sweeper"
        )

    @classmethod
    def summary(cls) -> list[str]:
        """A description of the method, line by line."""
        method = cls.method
        lines = [f"{method.stages} stages, classical order {method.order}"]
        if getattr(method, "embedded", False):
            lines.append(f"embedded weights of order {method.embedded_order}")
        for index, orders in method.orders.items():
            shown = ", ".join("-" if order is None else str(order) for order in orders)
            lines.append(f"orders at index {index}: {shown}")
        return lines


class DirectSweeper(DirectMethod, Sweeper):  # type: ignore[misc]
    """A sweeper whose only node is the end of the step, for methods without stages."""

    # A subclass gives ``_bind(problem)``, called when the problem is another one than before, ``_step()``,
    # which sets ``outcome`` in runs to a tolerance, and ``_end_step()``, which puts the end into the level.

    collocation = False

    def __init__(self, params: dict[str, Any], level: Any) -> None:
        params = {**params, "num_nodes": 1, "quad_type": "RADAU-RIGHT", "do_coll_update": False}
        # pySDC asks for the residual after every sweep; here the equations of a step are solved or it fails.
        params.setdefault(
            "skip_residual_computation", ("IT_CHECK", "IT_FINE", "IT_COARSE", "IT_UP", "IT_DOWN")
        )
        super().__init__(params, level)
        # With a positive restol the controller would stop before the only sweep: the residual is set to 0.
        level.params.restol = -1.0

    def _begin_step(self) -> None:
        L = self.level
        P = L.prob
        if self.uses_jacobian and self._watch is not None:
            self._watch.begin(L.u[0], L.time, L.dt)
        L.f[0] = attach(L.u[0].derivative(), P.n_diff)
        L.u[1], L.f[1] = P.dtype_u(L.u[0]), P.dtype_f(L.f[0])

    def compute_residual(self, stage: str = "") -> None:
        """Set the residual of the step to 0 unless it was computed: the step is solved, or has failed."""
        L = self.level
        self._solve_late()
        L.status.residual = 0.0 if L.status.residual is None else L.status.residual
        L.status.updated = False

    def integrate(self) -> Sequence[Any]:
        """Unused: there is no quadrature over nodes."""
        self._require_one_level()
        raise InputError(f"'{self.method.name}' has no nodes to integrate over")
