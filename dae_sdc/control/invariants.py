"""Projection on invariants after each step, in pySDC's controllers, and how far steps drift."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sparse
from pySDC.core.hooks import Hooks

from dae_sdc.control.driver import MarkingControl, require_single_steps
from dae_sdc.control.hooks import add_at_end, hook_of
from dae_sdc.dae.consistency import LARGEST_VIOLATION, VALUE_ROUND_OFF
from dae_sdc.dae.declaration import names_given
from dae_sdc.dae.newton import ModifiedNewton, NodeSystem
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.projection import EquationFunctions, Projection, project
from dae_sdc.dae.state import EndDerivative, MeshDAE, StepPolynomial, Vector, attach
from dae_sdc.errors import InconsistentStateError, InputError, SolveError

COMPLETION_TOLERANCE = 1e-12  # Error, relative to 1 + the largest value, of what follows from a state.
# What a problem has whose invariants vanish along solutions: names, functions of (u, t) that give the values,
# shape (k,), and their derivatives with respect to the state, shape (k, n), dense or sparse.
INVARIANTS = ("invariant_names", "invariants", "invariants_jacobian")


def complete(problem: ProblemDAE, u: Vector, du: Vector, t: float) -> tuple[Vector, Vector] | None:
    r"""Solve F(t, u, u') = 0 for the derivatives of the differential unknowns and the algebraic unknowns."""
    # They are those of a node at t itself, whose step is 0.
    # Shapes: u and du (n,) -> u, du (n,).
    rows = np.array(u, dtype=np.float64), np.array(du, dtype=np.float64)
    system = NodeSystem(problem, problem.n_diff)
    system.place(*rows, t, 0.0, (t, 0.0), 1)
    try:
        ModifiedNewton(problem, tolerance=COMPLETION_TOLERANCE).solve(system)
    except SolveError:
        return None
    return rows


def nearest(problem: Any, u: Vector, t: float, tolerance: float = LARGEST_VIOLATION) -> Projection:
    """The nearest state at which the invariants of a problem vanish, in units of its nominal values."""
    # Shapes: u (n,).
    equations = EquationFunctions(
        lambda x: np.asarray(problem.invariants(attach(x, problem.n_diff), t), dtype=np.float64),
        lambda x: problem.invariants_jacobian(attach(x, problem.n_diff), t),
    )
    sizes = np.broadcast_to(np.asarray(problem.nominal, dtype=np.float64), u.shape)
    return project(u, equations, weights=1.0 / sizes, tolerance=tolerance)


class _WatchInvariants(Hooks):  # type: ignore[misc]
    """Checks the start of a run, and logs the largest invariants before and after projections."""

    control: Invariants

    def pre_run(self, step: Any, level_number: int) -> None:
        L = step.levels[0]
        if not step.status.first or L.status.time is None:
            return
        problem, u, t = L.prob, L.u[0], L.time
        values = np.asarray(problem.invariants(u, t), dtype=np.float64)
        size = np.abs(u.view(np.ndarray)) + VALUE_ROUND_OFF / LARGEST_VIOLATION * np.asarray(problem.nominal)
        scale = np.asarray(abs(_checked_jacobian(problem, values, u, t)) @ size).ravel()
        relative = np.divide(np.abs(values), scale, out=np.abs(values) / 1e-300, where=scale > 0.0)
        worst = int(relative.argmax()) if relative.size else 0
        if relative.size and not relative[worst] <= LARGEST_VIOLATION:
            raise InconsistentStateError(
                f"u0 of {problem.name} violates the invariant '{problem.invariant_names[worst]}' "
                f"at t={t:.6g}: {values[worst]:.2g} (tolerance {LARGEST_VIOLATION * scale[worst]:.1e}); pass "
                f"a consistent u0, see initial()"
            )

    def post_step(self, step: Any, level_number: int) -> None:
        super().post_step(step, level_number)
        if step.status.get("restart"):
            return
        L = step.levels[level_number]
        known = step.status.get("drift")
        values = L.prob.invariants(L.uend, L.time + L.dt) if known is None else known[1]
        after = float(np.abs(np.asarray(values)).max(initial=0.0))
        add_at_end(self, step, L, "drift", after)
        if known is None:
            self.control.note(after, after)
        else:
            add_at_end(self, step, L, "drift_before_projection", known[0])


def _checked_jacobian(problem: Any, values: Vector, u: MeshDAE, t: float) -> Any:
    """The Jacobian of the invariants; raises InputError where it does not fit ``values`` and names."""
    matrix, name = problem.invariants_jacobian(u, t), problem.name
    counts = values.size, matrix.shape[0], len(names_given(problem, "invariant_names"))
    if len(set(counts)) > 1:
        raise InputError(
            f"{name} has invariants with {counts[0]} values at t={t:.6g}, invariants_jacobian with "
            f"{counts[1]} rows and {counts[2]} names in invariant_names; give one of each for every invariant"
        )
    entries = matrix.data if sparse.issparse(matrix) else matrix
    if not (np.isfinite(values).all() and np.isfinite(entries).all()):
        raise InputError(
            f"{name}.invariants or {name}.invariants_jacobian is not finite at the start, t={t:.6g}; "
            f"correct it, or start where the invariants are defined"
        )
    return matrix


class Invariants(MarkingControl):
    """Moves the end of every accepted step to the nearest state at which the invariants vanish.

    At index 0 and 1 the algebraic unknowns and u' follow from the equations there; the polynomial that the
    step hands on is changed, too. With the parameter ``project`` False invariants are only evaluated.
    """

    order = 275  # when a step has been accepted, before anything looks for events on it
    defaults: ClassVar = {"project": True}
    marks: ClassVar = {"drift": None}  # Invariants before and after the projection.

    def __init__(self, controller: Any, params: dict[str, Any], description: dict[str, Any]) -> None:
        super().__init__(controller, params, description)
        controller.add_hook(_WatchInvariants)
        hook_of(controller, _WatchInvariants).control = self
        self.projections = self.iterations = 0
        self.before = self.after = 0.0

    def note(self, before: float, after: float) -> None:
        """Take the largest absolute values of the invariants at the end of a step."""
        self.before, self.after = max(self.before, before), max(self.after, after)

    def summary(self) -> dict[str, float]:
        """Counts and largest invariants of a run, by name."""
        counts = {"projections": self.projections, "projection_iterations": self.iterations}
        projected = {"drift_before_projection": self.before, **counts}
        return {"drift": self.after, **(projected if self.params.project else {})}

    def setup_status_variables(self, controller: Any, **kwargs: Any) -> None:
        """Refuse problems without invariants, and runs in which ends of steps cannot be moved."""
        require_invariants(controller.steps[0].levels[0].prob)
        require_single_steps(controller, kwargs.get("comm"), "Invariants", self.params.project)
        super().setup_status_variables(controller, **kwargs)

    def reset_status_variables(self, controller: Any, **kwargs: Any) -> None:
        super().reset_status_variables(controller, **kwargs)
        for step in controller.steps:
            vars(step.levels[0].sweep).pop("compute_end_point", None)

    def determine_restart(self, controller: Any, S: Any, **kwargs: Any) -> None:
        """Move the end of a finished step."""
        L, accepted = S.levels[0], S.status.done and not S.status.get("restart")
        # Without a projection invariants are looked at when the step counts.
        if not (accepted and self.params.project) or getattr(L.sweep, "failure", None) is not None:
            return
        problem, end, t = L.prob, L.uend, float(L.time + L.dt)
        nearer = nearest(problem, np.array(end), t)
        before, after = (float(np.abs(values).max(initial=0.0)) for values in (nearer.before, nearer.after))
        if not nearer.converged:
            worst = nearer.contradictory[0] if nearer.contradictory else int(np.abs(nearer.before).argmax())
            raise SolveError(
                f"found no state near the end of the step to t={t:.10g} at which the invariants of "
                f"{problem.name} vanish: '{problem.invariant_names[worst]}' is {before:.2g} there; "
                f"take smaller steps, or do not project"
            )
        S.status.drift = before, after
        self.note(before, after)
        self.iterations += nearer.iterations
        if not np.array_equal(nearer.x, end.view(np.ndarray)):
            self.projections += 1
            L.uend = moved(problem, end, nearer.x, t)
            # Later calls for the end of the step give the moved one.
            vars(L.sweep)["compute_end_point"] = partial(setattr, L, "uend", L.uend)


def moved(problem: ProblemDAE, end: MeshDAE, values: Vector, t: float) -> MeshDAE:
    """The end of a step moved to other values, with what follows from these, and its polynomial."""
    # Shapes: values (n,).
    polynomial, slope = end.polynomial, None
    if problem.index in (0, 1) and polynomial is not None:
        before = polynomial.derivative_at_end()
        finite = np.isfinite(before)
        if finite[: problem.n_diff].all():
            if (followed := complete(problem, values, np.nan_to_num(before), t)) is not None:
                values, slope = followed[0], np.where(finite, followed[1], before)
    state = attach(np.array(values), problem.n_diff)
    if isinstance(polynomial, EndDerivative):
        polynomial = replace(polynomial, value=polynomial.value.copy() if slope is None else slope)
    elif isinstance(polynomial, StepPolynomial) and polynomial.nodes[-1] == 1.0:
        rows, slopes = polynomial.value.copy(), polynomial.derivative.copy()
        rows[-1], slopes[-1] = state, slopes[-1] if slope is None else slope
        polynomial = polynomial._replace(value=rows, derivative=slopes)
    state.polynomial = polynomial
    return state


def require_invariants(problem: ProblemDAE) -> None:
    """Raise InputError for a problem without invariants."""
    if any(getattr(problem, name, None) is None for name in INVARIANTS):
        name = problem.name
        keeps = "solve with reduce=True, which keeps its constraints, or " if hasattr(problem, "form") else ""
        raise InputError(
            f"{name} has no invariants to project on; {keeps}give it the methods invariants(u, t) and "
            f"invariants_jacobian(u, t) and the names invariant_names, or leave project out"
        )
