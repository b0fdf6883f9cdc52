"""A problem of a class of the user, run with the equations that were traced from its residual."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import MisreadError
from dae_sdc.model.problem import ROUNDING, Form, FormEquations, SwitchingEquations
from dae_sdc.model.symbolic_values import entries_of
from dae_sdc.model.trace import Traced

JUMP_TOLERANCE = 1e-7
"""Difference between a function and its equations, relative to their terms, that rounding explains."""


class TracedEquations(FormEquations):
    """Compiled equations that replace ``eval_f`` in a problem whose residual was traced."""

    traced: Traced

    def kernel_parameters(self) -> npt.ArrayLike:
        """The values of the attributes that are parameters of the equations."""
        return np.array([getattr(self, name) for name in self.traced.attributes], dtype=np.float64)


class SwitchingTracedEquations(SwitchingEquations, TracedEquations):
    """What takes the place of ``eval_f`` where the equations that were read jump."""

    untraced: type[ProblemDAE]
    n_diff: int

    def equation_parameters(self) -> npt.ArrayLike:
        """The values of the attributes that are parameters of the equations."""
        return TracedEquations.kernel_parameters(self)

    def confirm_jumps(self, u: MeshDAE, du: Vector, t: float) -> None:
        """Compare the equations on the sides in force with the function that was read, away from borders."""
        own: Any = self
        rates = attach(du, self.n_diff)
        try:
            with np.errstate(all="ignore"):
                called = np.array(entries_of(self.untraced.eval_f(own, u, rates, t)), dtype=np.float64)
        except Exception:  # of a function that is not made for values beside those of the run
            return
        read = self.eval_f(u, rates, t)
        if (np.abs(read - called) <= JUMP_TOLERANCE * (np.abs(read) + np.abs(called))).all():
            return
        terms = self.residual_errors(u, rates, t) / ROUNDING
        wrong = np.flatnonzero(np.abs(read - called) > JUMP_TOLERANCE * terms)
        if wrong.size:
            i = wrong[0]
            raise MisreadError(
                f"{type(self).__name__}.eval_f was read wrongly: '{own.equation_names[i]}' is "
                f"{called[i]:.6g} at t={t:.6g}, and {read[i]:.6g} as it was read; solve with trace=False"
            )

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """Times at which a condition of time alone changes, and those that the class of the user gives."""
        own: Any = self
        return tuple(sorted({*super().breakpoints(t0, t_end), *self.untraced.breakpoints(own, t0, t_end)}))


def use_trace(problem: ProblemDAE, traced: Traced, form: Form) -> None:
    """Let a problem compute its residual and its Jacobian by compiled code, in place of its ``eval_f``.

    The class of the problem becomes a subclass of its own one, with the same other methods and attributes.
    """
    cls = type(problem)
    own: dict[str, Any] = {
        "eval_f": TracedEquations.eval_f,
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
        "__qualname__": cls.__qualname__,
        "untraced": cls,
    }
    if form.jumps is not None:
        own["switch_names"] = form.jumps.watched_names
    base = TracedEquations if form.jumps is None else SwitchingTracedEquations
    problem.__dict__.update(form=form, traced=traced, _parameters=None)
    object.__setattr__(problem, "__class__", type(cls.__name__, (base, cls), own))
    problem.sparsity, problem.constant_mass = form.pattern, form.constant_mass
