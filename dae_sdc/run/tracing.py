"""Equations that were read from functions, in runs of pySDC's own controllers, and compared with them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from pySDC.core.hooks import Hooks

from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import MisreadError
from dae_sdc.run.equations import read


class ReadEquations(Hooks):  # type: ignore[misc]
    """Lets the problems of a run of pySDC's controllers compute with equations read from their ``eval_f``.

    They are read when a run begins, as by ``solve``: compiled, and with branches as switches. Problems whose
    equations cannot be read stay functions, which the log tells with the reason.

    Examples
    --------
    >>> from dae_sdc.run.tracing import ReadEquations
    >>> parameters = {"logger_level": 30, "hook_class": [ReadEquations]}
    """

    def pre_run(self, step: Any, level_number: int) -> None:
        """Read the equations of all levels of a step."""
        super().pre_run(step, level_number)
        for level in step.levels:
            problem = level.prob
            if hasattr(type(problem), "untraced"):  # in an earlier run
                continue
            equations = read(problem, level.u[0]).told
            self.logger.info("equations of %s: %s", type(problem).__name__, equations)


@dataclass(frozen=True)
class StateCheck:
    """How equations that were read are compared with their function at states of a run."""

    states: int = 4  # Number of states.
    # Relative change of the unknowns: residuals along a solution have nothing but rounding left in them.
    distance: float = 1e-4
    tolerance: float = 1e-5  # Difference, relative to the value of an equation, up to which both are equal.
    # Difference that rounding explains, relative to the largest value of all equations.
    rounding: float = 1e-9
    # Difference that rounding explains, relative to what ``nudge`` changes in the function.
    sensitivity: float = 100.0
    nudge: float = 1e-13  # Relative change of the unknowns for that.


CHECK = StateCheck()


def check_at_states(problem: ProblemDAE, t: Vector, u: Vector, du: Vector) -> None:
    """Compare equations that were read with their function near states of a run; not those that jump."""
    untraced = getattr(type(problem), "untraced", None)
    if untraced is None or hasattr(problem, "confirm_jumps"):
        return
    function, equations = copy.copy(problem), copy.copy(problem)
    object.__setattr__(function, "__class__", untraced)
    for one in (function, equations):  # each packs its own parameters
        one.__dict__.update(_parameters=None)
    source = np.random.default_rng(2)
    for k in np.unique(np.linspace(len(t) - 1, 0, CHECK.states, endpoint=False).astype(int)).tolist():
        place, rate = (x[k] * (1.0 + CHECK.distance * source.uniform(-1.0, 1.0, x[k].shape)) for x in (u, du))
        nudged = place * (1.0 + CHECK.nudge * source.uniform(-1.0, 1.0, place.shape))
        calls = ((equations, place), (function, place), (function, nudged))
        try:
            with uncounted(problem), np.errstate(all="ignore"):
                read, true, beside = (
                    np.array(one.evaluate(one.state(at), one.state(rate), float(t[k]))) for one, at in calls
                )
        except Exception:  # of a function that is not made for values beside those of the run
            continue
        with np.errstate(all="ignore"):
            largest = np.abs(true[np.isfinite(true)]).max(initial=0.0)
            bound = CHECK.tolerance * np.abs(true) + CHECK.rounding * largest
            bound += CHECK.sensitivity * np.abs(beside - true)
            wrong = np.flatnonzero(np.abs(read - true) > bound)
        if wrong.size:
            i = wrong[0]
            raise MisreadError(
                f"{type(problem).__name__}.eval_f was read wrongly: '{problem.equation_names[i]}' is "
                f"{true[i]:.6g} near the solution at t={t[k]:.6g}, and {read[i]:.6g} as it was read; solve "
                f"with trace=False"
            )
