"""Equations that were read from functions, in runs of pySDC's own controllers, and compared with them."""

from __future__ import annotations

import copy
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
from pySDC.core.hooks import Hooks

from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import InputError, MisreadError
from dae_sdc.model.functions import FunctionProblem
from dae_sdc.run.equations import read
from dae_sdc.sharing import Recent


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
            if not hasattr(type(problem), "untraced"):  # not in an earlier run
                equations = read(problem, level.u[0]).told
                self.logger.info("equations of %s: %s", problem.name, equations)


STATES_IN_ORDER = 16  # Number of states at which a function is called in order and backwards.
RANDOM_SHARE = 10.0  # Difference of two values at one state, in those of calls in a row, that is no memory.
STATES = 4  # Number of states of a run at which equations that were read are compared with their function.
# Relative change of the unknowns there: residuals along a solution have nothing but rounding left in them.
DISTANCE = 1e-4
SAME_VALUE = 1e-5  # Difference, relative to the value of an equation, up to which both are equal.
ROUNDING = 1e-9  # Difference that rounding explains, relative to the largest value of all equations.
# Difference that rounding explains, relative to what a nudge changes in the function.
SENSITIVITY = 100.0
NUDGE = 1e-13  # Relative change of the unknowns for that.

# The states, by their numbers, at which equations were compared last, which are kept with them.
_COMPARED: Recent[Any, Any] = Recent(16)


@lru_cache(maxsize=16)
def _moves(count: int, n: int) -> Vector:
    """Random numbers from -1 to 1, alike in every run, shape (count, 3, n)."""
    return np.random.default_rng(2).uniform(-1.0, 1.0, (count, 3, n))


def _check_memory(problem: ProblemDAE, t: Vector, u: Vector, du: Vector) -> None:
    """Refuse a function whose values at states of a run depend on where it was called before."""
    rows = np.unique(np.linspace(1, len(t) - 1, STATES_IN_ORDER).astype(int)).tolist() if len(t) > 1 else []
    low, high, span = u.min(axis=0), u.max(axis=0), t[-1] - t[0]
    elsewhere = (low - (high - low), t[0] - span), (high + (high - low), t[-1] + span)

    def called(state: Vector, rate: Vector, time: float) -> Vector:
        return np.array(problem.evaluate(problem.state(state), problem.state(rate), float(time)))

    def again(k: int, before: tuple[tuple[Vector, float], ...] = ()) -> Vector:
        for state, time in before:
            with suppress(Exception):  # of a function that has no value there
                called(state, du[-1], time)
        return called(u[k], du[k], t[k])

    wrong = np.empty((0, 2), dtype=np.intp)
    with uncounted(problem), np.errstate(all="ignore"), suppress(Exception):
        in_order, backwards = [again(k) for k in rows], [again(k) for k in rows[::-1]][::-1]
        from_elsewhere = [[again(k, (place,)) for k in rows] for place in elsewhere]
        values = np.array([in_order, backwards, *from_elsewhere])
        random = max(np.abs(again(k, ((u[k], t[k]),)) - again(k)).max() for k in rows)
        size = np.abs([u[rows], du[rows]]).max(initial=0.0)
        differences = np.abs(values - values[0]).max(axis=0, initial=0.0)
        wrong = np.argwhere(differences > np.maximum(SAME_VALUE * size, RANDOM_SHARE * random))
    if wrong.size:
        k, i = wrong[0].tolist()
        least, most = values[:, k, i].min(), values[:, k, i].max()
        raise InputError(
            f"{problem.name}.eval_f remembers: '{problem.equation_names[i]}' is {least:.6g} or "
            f"{most:.6g} at the state of t={t[rows[k]]:.6g}, by the states before; let it depend on t, u and "
            f"du alone, and write a memory as a discrete unknown or an event that changes one"
        )


def _function_of(problem: Any) -> Any:
    """A problem whose equations were read, as it computes by its function."""
    function = copy.copy(problem)
    object.__setattr__(function, "__class__", type(problem).untraced)
    function.__dict__["_parameters"] = None  # it packs its own
    return function


def is_as_read(problem: Any) -> bool:
    """Whether the equations of a problem were read from its function, and are those of it now."""
    return hasattr(type(problem), "untraced") and problem.traced.is_of(_function_of(problem))


def check_at_states(problem: ProblemDAE, t: Vector, u: Vector, du: Vector) -> None:
    """Compare equations that were read with their function near states of a run; not those that jump."""
    untraced = getattr(type(problem), "untraced", None)
    if problem.kernels is None and isinstance(problem, FunctionProblem):
        _check_memory(problem, t, u, du)
    if untraced is None or hasattr(problem, "confirm_jumps"):
        return
    rows = sorted({(len(t) - 1) * k // STATES for k in range(1, STATES + 1)})
    # The function was found to be as it was when its equations were read.
    key = id(problem.traced), *(x[rows].tobytes() for x in (t, u, du)), problem.packed_parameters.tobytes()
    if key in _COMPARED:
        return
    function, moves = _function_of(problem), _moves(len(rows), problem.n)
    places, rates = (x[rows] * (1.0 + DISTANCE * moves[:, k]) for k, x in enumerate((u, du)))
    nudged = places * (1.0 + NUDGE * moves[:, 2])

    def called(at: Vector, k: int) -> Vector:
        state, rate = attach(at[k], problem.n_diff), attach(rates[k], problem.n_diff)
        return np.array(function.evaluate(state, rate, float(t[rows[k]])))

    with uncounted(problem), np.errstate(all="ignore"):
        for k, values in enumerate(problem.evaluate_nodes(places, rates, t[rows])):
            try:
                true = called(places, k)
                largest = np.abs(true[np.isfinite(true)]).max(initial=0.0)
                bound = SAME_VALUE * np.abs(true) + ROUNDING * largest
                if (np.abs(values - true) > bound).any():
                    bound += SENSITIVITY * np.abs(called(nudged, k) - true)
            except Exception:  # of a function that is not made for values beside those of the run
                continue
            wrong = np.flatnonzero(np.abs(values - true) > bound)
            if wrong.size:
                i = wrong[0]
                raise MisreadError(
                    f"{problem.name}.eval_f was read wrongly: '{problem.equation_names[i]}' is "
                    f"{true[i]:.6g} near the solution at t={t[rows[k]]:.6g}, and {values[i]:.6g} as it was "
                    f"read; solve with trace=False"
                )
    _COMPARED.keep(key, problem.traced)
