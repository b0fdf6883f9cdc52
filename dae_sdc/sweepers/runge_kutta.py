"""Runge-Kutta methods for F(t, u, u') = 0 as pySDC sweepers, each made from its record."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pySDC.implementations.sweeper_classes.Runge_Kutta import (
    ButcherTableau,
    ButcherTableauEmbedded,
    RungeKutta,
)

from dae_sdc.arguments import checked
from dae_sdc.dae.newton_checks import JacobianWatch
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import EndDerivative, MeshDAE, StepPolynomial, Vector, attach
from dae_sdc.errors import InputError
from dae_sdc.sweepers.amplification import kernel_turns
from dae_sdc.sweepers.coupled import starting_derivative
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.nodes import ShownRows, rows_of
from dae_sdc.sweepers.parallel import team_of
from dae_sdc.sweepers.restart import SwitchedSteps
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.sweepers.steps_ahead import CRAWLING_CONTRACTION, StepsAhead
from dae_sdc.sweepers.tableaux import DEFECT_TOLERANCE, METHODS, Tableau, tableau_of_bases
from dae_sdc.sweepers.together import FewerNodes, PlainStages, StagesTogether
from dae_sdc.sweepers.tolerance import Outcome, Weights


class RungeKuttaDAE(DirectMethod, RungeKutta):  # type: ignore[misc]
    r"""A Runge-Kutta step for a DAE in the derivative form.

    .. math::
        F\Big(t_0 + c_i \Delta t,\; u_0 + \Delta t \sum_j a_{ij} U_j,\; U_i\Big) = 0, \qquad
        u_1 = u_0 + \Delta t \sum_j b_j U_j

    Lower triangular tableaux are solved stage by stage, all others as one coupled system. An explicit first
    stage takes U_1 = u'(t_0) from the last stage of the step before, and in the first step from a consistent
    derivative.

    A subclass has its tableau in the class attribute ``method``, or is made with one of pySDC's Runge-Kutta
    classes, whose ``matrix``, ``weights`` and ``nodes`` it takes: ``class X(RungeKuttaDAE, BackwardEuler)``.

    Parameters
    ----------
    params : dict
        pySDC's parameters of a sweeper; ``locate_switches`` (default True), as for
        :class:`~dae_sdc.sweepers.sdc.SpectralDeferredCorrectionDAE`; and in runs to a tolerance
        ``tolerance``, a :class:`~dae_sdc.sweepers.tolerance.Tolerance`. Where all stages are solved together
        to a tolerance, they can be shared: ``comm``, a communicator of MPI; ``threads``, a number or "auto";
        ``measured``, whether it is measured if ranks pay. Without them, ``fewer_nodes`` lets steps be solved
        with fewer nodes of Radau IIA where Newton's method fails, see
        :class:`~dae_sdc.sweepers.together.FewerNodes`.
    level : pySDC.core.level.Level
        The level that steps. pySDC wants ``maxiter`` 1 for direct methods.

    References
    ----------
    E. Hairer, C. Lubich, M. Roche, The Numerical Solution of Differential-Algebraic Systems by Runge-Kutta
    Methods, LNM 1409, Springer (1989), eq. (1.11).

    Examples
    --------
    >>> ds.METHODS["radau-iia-5"].order
    5
    >>> ds.solve("pendulum", sweeper="radau-iia-5", dt=0.05).success
    True
    """

    method: ClassVar[Tableau]
    _shown: ShownRows | None = None
    _watch: JacobianWatch
    family = "Runge-Kutta method"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        found = tableau_of_bases(cls)
        if found is not None:
            cls.method = found
        if hasattr(cls, "method"):
            cls.ButcherTableauClass = ButcherTableauEmbedded if cls.method.embedded else ButcherTableau

    def __init__(self, params: dict[str, Any], level: Any) -> None:
        cls = type(self)
        if getattr(cls, "method", None) is None:
            raise InputError(
                f"{cls.__name__} has no tableau; give it the class attribute method, a Tableau, or one of "
                f"pySDC's Runge-Kutta classes as a second base"
            )
        given = {"locate_switches": True, **params}
        self._takes_fewer = bool(given.pop("fewer_nodes", False))
        self._shared = {name: given.pop(name, None) for name in ("comm", "threads", "measured")}
        super().__init__(given, level)
        # The stages lie on a polynomial through the start of the step where A is full and satisfies C(s).
        c, powers = self.method.c[:, None], np.arange(self.method.stages)
        defect = np.abs(self.method.A @ c**powers - c ** (powers + 1) / (powers + 1)).max()
        self.collocation = not self.method.diagonally_implicit and bool(defect <= DEFECT_TOLERANCE)
        self._used = self.method
        self._turns: bool | None = None
        self._switched: SwitchedSteps | None = None

    @classmethod
    def get_Butcher_tableau(cls) -> Any:
        """The tableau in pySDC's form; ``nodes`` has c alone, as what interpolates adds the start itself."""
        b, c, A, embedded = cls.method.b, cls.method.c, cls.method.A, cls.method.b_embedded
        made = cls.ButcherTableauClass(b if embedded is None else np.array([b, embedded]), c, A)
        made.nodes = np.array(c)
        return made

    @classmethod
    def get_update_order(cls) -> int:
        """Order of the local error of the embedded method; step size control has its inverse as exponent."""
        if cls.method.embedded_order is None:
            raise InputError(
                f"'{cls.method.name}' has no embedded weights for an error estimate; "
                f"use one of {', '.join(name for name, tableau in METHODS.items() if tableau.embedded)}"
            )
        return cls.method.embedded_order + 1

    def _bind(self, problem: ProblemDAE, u0: MeshDAE | None = None, t0: float = 0.0) -> None:
        tableau, tolerance = self.method, self.tolerance
        if tolerance is None:
            self._solver = PlainStages(problem, tableau.A, tableau.c, self.collocation)
        else:
            if self._turns is None:
                asked = tableau.embedded and max(problem.variable_index, default=1) <= 1
                self._turns = asked and u0 is not None and kernel_turns(problem, u0, t0)
            self.team, self._serial_remark = team_of(problem.n, tableau.stages // 2 + 1, **self._shared)
            full = self._served
            if full is None or not full.rewind(problem, tolerance, self._turns):
                full = StagesTogether(problem, tableau, tolerance, self.team, turns=self._turns)
                self._served = full
            self._solver = FewerNodes(problem, tolerance, full, self._takes_fewer and self.team is None)
        located = self.params.locate_switches and type(problem).switches is not ProblemDAE.switches
        self._switched = SwitchedSteps(problem, tableau.stages) if located else None

    def _begin_step(self) -> None:
        """Allocate stages and set u' at the start; in runs to a tolerance stages do so themselves."""
        L = self.level
        P = L.prob
        self._watch.begin(L.u[0], L.time, L.dt)
        if self._switched is not None:
            self._switched.begin(L.u[0], L.time)
        if self.tolerance is not None:
            return
        if self.shows_stages:
            start = L.u[0].view(np.ndarray)
            self._take(np.tile(start, (self.method.stages, 1)), np.zeros((self.method.stages, P.n)))
        slope = L.u[0].derivative()
        if self.method.explicit_first_stage:
            slope = starting_derivative(P, L.u[0], L.time, L.dt, self.method.order)
        L.f[0] = attach(slope, P.n_diff)

    @classmethod
    def estimate_index(cls, nodes: int) -> int:
        """Largest index at which the error estimate holds."""
        return cls.method.estimate_index

    @classmethod
    def check_adaptive(cls) -> None:
        """Raise InputError for a method whose error cannot be estimated."""
        if not cls.method.estimate_index:
            able = ", ".join(name for name, tableau in METHODS.items() if tableau.estimate_index)
            raise InputError(
                f"'{cls.method.name}' has no error estimate for runs to a tolerance; use one of {able}"
            )

    @classmethod
    def shares_stages(cls) -> bool:
        """See :class:`DirectMethod`."""
        return not cls.method.diagonally_implicit and cls.method.estimate_index > 0

    def starting_step(self, u0: MeshDAE, t0: float, span: float) -> float:
        """A size for the first step, see :func:`~dae_sdc.sweepers.steps_ahead.first_step`."""
        self.make_ready(u0, t0)
        used = self._solver.used
        return float(used.stages.starting_step(u0, used.weights, t0, span))

    def judge(self) -> Outcome:
        """The outcome of the finished step, with its error estimate."""
        outcome = super().judge()
        if outcome.solved:
            self._watch.succeeded(outcome.rate > CRAWLING_CONTRACTION)
        else:
            u0, time, dt = self.level.u[0], self.level.time, self.level.dt
            points = (u0.view(np.ndarray), u0.derivative(), time), (self._u[-1], self._du[-1], time + dt)
            self._watch.failed(points, dt)
        return outcome

    def steps_ahead(self, value: Any, time: float) -> StepsAhead | None:
        """See :class:`DirectMethod`."""
        switched = self._switched is not None and not self.level.prob.located
        return None if switched or not self.method.stiffly_accurate else super().steps_ahead(value, time)

    def drop_step(self) -> None:
        """Forget the step that was begun ahead."""
        self._solver.used.stages.take_advanced()

    def error_between(self, weights: Weights, judged: Vector) -> float | None:
        """Largest error of chosen unknowns between the nodes, by compiled code; None where there is none."""
        return self._solver.used.stages.error_between(weights, judged) if self._adaptive else None

    @property
    def within_step(self) -> tuple[tuple[float, ...], Vector]:
        """Places in the step, and u there, (K, n), that stages solved one by one give besides its ends."""
        c = np.array(self.method.c)
        inner = (c > 0.0) & (c < 1.0)
        u = self._solver.used.stages.u if self._adaptive else self._u
        return (tuple(c[inner].tolist()), u[inner]) if len(u) == len(c) == len(set(c)) else ((), u[:0])

    @property
    def fewer_nodes(self) -> int:
        """Number of steps that were solved with fewer nodes than the method has."""
        return self._solver.count if self._adaptive else 0

    @property
    def tried(self) -> str:
        """What was tried in vain in the last step besides the method itself; empty if nothing was."""
        return self._solver.tried if self._adaptive else ""

    @property
    def _adaptive(self) -> bool:
        return self._problem is not None and self.tolerance is not None

    def _take(self, u: Any, du: Any) -> None:
        L = self.level
        self._u, self._du = u, du
        self._shown = ShownRows(L, u, du) if self.shows_stages else None

    def _adopt(self) -> None:
        """Take over what hooks and convergence controllers have assigned to, or written into, the stages."""
        L, tableau, shown = self.level, self._used, self._shown
        values, slopes = (False, False) if shown is None else shown.changed()
        if not (values or slopes):
            return
        self._u[:], self._du[:] = rows_of(L)
        if not slopes:
            first = int(tableau.explicit_first_stage)
            change = (self._u - L.u[0].view(np.ndarray)) / L.dt - tableau.A[:, :first] @ self._du[:first]
            self._du[first:] = np.linalg.solve(tableau.A[first:, first:], change[first:])
        elif not values:
            self._u[:] = L.u[0].view(np.ndarray) + L.dt * (tableau.A @ self._du)
        self._take(self._u, self._du)

    def _step(self) -> None:
        """Solve all stages of the step."""
        L = self.level
        if self.tolerance is not None:
            together = self._solver
            self.outcome = together.step(L.u[0], L.time, L.dt)
            stages, self._used = together.used.stages, together.used.tableau
            self._take(stages.u, stages.du)
            L.f[0] = attach(stages.du0.copy(), L.prob.n_diff)
        else:
            self._take(*self._solver.step(L.u[0], EndDerivative(L.f[0].view(np.ndarray)), L.time, L.dt))

    def compute_residual(self, stage: str = "") -> None:
        """Largest abs(F) over the stages; pySDC skips it for direct methods unless told otherwise."""
        L = self.level
        self._solve_late()
        if stage in self.params.skip_residual_computation:
            L.status.residual = 0.0 if L.status.residual is None else L.status.residual
            return
        self._adopt()
        times = L.time + L.dt * self._used.c
        L.status.residual = float(np.abs(L.prob.evaluate_nodes(self._u, self._du, times)).max())
        L.status.updated = False

    def _end_step(self) -> None:
        """u at the end of the step, and the embedded solution where there is one."""
        self._adopt()
        L, tableau = self.level, self._used
        P = L.prob
        start = L.u[0].view(np.ndarray)
        last = self._u[-1].copy() if tableau.stiffly_accurate else start + L.dt * (tableau.b @ self._du)
        end = attach(last, P.n_diff)
        if tableau.diagonally_implicit:
            end.polynomial = EndDerivative(self._du[-1])
        else:
            end.polynomial = StepPolynomial(L.time, L.dt, tableau.nodes, self._u, self._du, P.n)
        switched = self._switched
        L.uend = end if switched is None else switched.end(L.u[0], L.time, L.dt, self._u, tableau.c, end)
        if tableau.b_embedded is not None:
            self.u_secondary = P.state(start + L.dt * (tableau.b_embedded @ self._du))
            if L.uend is not end:  # the difference, which is the estimate of the error, stays
                self.u_secondary += L.uend - end

    def get_state(self) -> dict[str, Any]:
        """See :class:`DirectMethod`."""
        kept = super().get_state()
        return kept and kept | {"turns": self._turns}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """See :class:`DirectMethod`."""
        self._turns = kept.get("turns", self._turns)
        super().set_state(kept)

    def integrate(self) -> list[MeshDAE]:
        """dt sum_j a_ij U_j at the stages."""
        self._require_one_level()
        self._adopt()
        return [attach(row, self.level.prob.n_diff) for row in self.level.dt * (self._used.A @ self._du)]


@cache
@checked()
def runge_kutta(tableau: Tableau) -> type[RungeKuttaDAE]:
    """The sweeper class of a tableau, for instance one of your own, as in the example of :class:`Tableau`.

    Parameters
    ----------
    tableau : Tableau
        The record of the method.

    Returns
    -------
    type
        A subclass of :class:`RungeKuttaDAE` named ``tableau.class_name``.

    Raises
    ------
    InputError
        If ``tableau`` is no :class:`Tableau`.

    Examples
    --------
    >>> ds.solve("hessenberg-1", sweeper=ds.runge_kutta(ds.METHODS["radau-iia-5"]), dt=0.1).success
    True
    """
    return tableau.sweeper(RungeKuttaDAE)


for _name, _tableau in METHODS.items():
    # The classes are attributes of this module, so that they can be imported and pickled by name.
    globals()[_tableau.class_name] = _sweeper = runge_kutta(_tableau)
    SWEEPERS.add(_name, _sweeper)

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[RungeKuttaDAE]: ...
