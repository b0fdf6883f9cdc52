"""What methods without sweeps over a step have in common: one prediction or one update solves the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pySDC.core.sweeper import Sweeper

from dae_sdc.dae.jacobian_check import JacobianWatch
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.sweepers.tolerance import Outcome


class DirectMethod:
    """A method that solves a step at once: what the rest of the package asks of its class.

    Attributes
    ----------
    method : object
        The record of the method, with ``name``, ``stages``, ``order``, ``reference``, and ``orders``, a
        mapping from the index of a problem to the orders of its groups of unknowns.
    family : str
        What kind of method it is, for messages: "Runge-Kutta method".
    options : tuple of str
        Which of the settings that belong to some methods alone it takes, see
        :func:`dae_sdc.run.description.describe`.
    """

    method: ClassVar[Any]
    family: ClassVar[str] = "method"
    options: ClassVar[tuple[str, ...]] = ()

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
        """What there is to say of the method, line by line."""
        method = cls.method
        lines = [f"{method.stages} stages, classical order {method.order}"]
        for index, orders in method.orders.items():
            shown = ", ".join("-" if order is None else str(order) for order in orders)
            lines.append(f"orders at index {index}: {shown}")
        return lines


class DirectSweeper(DirectMethod, Sweeper):  # type: ignore[misc]
    """A sweeper whose only node is the end of the step, for methods that are no Runge-Kutta methods.

    A subclass gives ``_bind(problem)``, called before the first step and when the problem is another one, and
    ``_step()``, which solves the step of the level, keeps its end for ``compute_end_point``, and sets
    ``outcome`` in runs to a tolerance.

    Parameters
    ----------
    params : dict
        Settings named in ``options``, and ``tolerance`` in runs to a tolerance.
    level : pySDC.core.level.Level
        The level that steps. pySDC wants ``maxiter`` 1 for direct methods.
    """

    collocation = False
    uses_jacobian: ClassVar[bool] = True

    def __init__(self, params: dict[str, Any], level: Any) -> None:
        params = {**params, "num_nodes": 1, "quad_type": "RADAU-RIGHT", "do_coll_update": False}
        # pySDC asks for the residual after every sweep; here the equations of a step are solved or it fails.
        params.setdefault(
            "skip_residual_computation", ("IT_CHECK", "IT_FINE", "IT_COARSE", "IT_UP", "IT_DOWN")
        )
        super().__init__(params, level)
        self.tolerance = params.get("tolerance")
        self.outcome: Outcome | None = None
        self.shows_stages = True
        self._problem: ProblemDAE | None = None
        self._solved = False

    def _bind(self, problem: ProblemDAE) -> None:
        raise NotImplementedError

    def _step(self) -> None:
        raise NotImplementedError

    def _take_problem(self, problem: Any) -> None:
        """Make ready for a problem, unless it is the one of the step before."""
        if self._problem is problem:
            return
        if not isinstance(problem, ProblemDAE):
            raise InputError(f"{type(self).__name__} solves a ProblemDAE; got {type(problem).__name__}")
        self.check_problem(problem)
        self._watch = JacobianWatch(problem, self.tolerance is not None)
        self._bind(problem)
        self._problem = problem

    def predict(self) -> None:
        """Begin a step; in a run to a tolerance, carry it out."""
        L = self.level
        P = L.prob
        self._take_problem(P)
        P.start_step(L.u[0], L.time)
        if self.uses_jacobian:
            self._watch.begin(L.u[0], L.time, L.dt)
        polynomial = L.u[0].polynomial
        L.f[0] = P.dtype_f(P.init)
        if polynomial is not None:
            L.f[0][:] = polynomial.derivative_at_end()
        L.u[1], L.f[1] = P.dtype_u(L.u[0]), P.dtype_f(L.f[0])
        self._solved = False
        if self.tolerance is not None:
            self._step()
            self._solved = True
            L.status.residual = 0.0
        L.status.unlocked = True
        L.status.updated = True

    def update_nodes(self) -> None:
        """Solve the step.

        Raises
        ------
        InputError
            If a second sweep is asked for: the first one solves the step.
        SolveError
            If it cannot be solved.
        """
        if self._solved:
            raise InputError(
                f"'{self.method.name}' solves a step in one sweep; set step_params maxiter and level_params "
                f"nsweeps to 1, and one step at a time"
            )
        self._step()
        self._solved = True
        self.level.status.updated = True

    def compute_residual(self, stage: str = "") -> None:
        """The residual of the step, 0 where it is not looked at: it is solved, or has failed."""
        L = self.level
        L.status.residual = 0.0 if L.status.residual is None else L.status.residual
        L.status.updated = False

    def judge(self) -> Outcome:
        """What the error estimate says of the finished step."""
        assert self.outcome is not None
        return self.outcome

    def integrate(self) -> Sequence[Any]:
        """Unused: there is no quadrature over nodes."""
        raise InputError(f"'{self.method.name}' has no nodes to integrate over")

    @property
    def keeps_memory(self) -> bool:
        """Whether :meth:`memory` is all that the next step depends on besides its start."""
        return False

    def memory(self) -> dict[str, Any]:
        """What a step leaves to the next, for a checkpoint."""
        return {}

    def begin_anew(self) -> None:
        """Let the next step find a sweeper that has taken no steps."""
        self._problem = None
