"""A problem of a class of the user, run with the equations that were traced from its residual."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.model.problem import Form, FormEquations
from dae_sdc.model.trace import Traced


class TracedEquations(FormEquations):
    """Compiled equations that replace ``eval_f`` in a problem whose residual was traced.

    Attributes
    ----------
    traced : Traced
        The equations, and the attribute of each parameter.
    """

    traced: Traced

    def kernel_parameters(self) -> npt.ArrayLike:
        """The values of the attributes that are parameters of the equations."""
        return np.array([getattr(self, name) for name in self.traced.attributes], dtype=np.float64)


def use_trace(problem: ProblemDAE, traced: Traced, form: Form) -> None:
    """Let a problem compute its residual and its Jacobian by compiled code, in place of its ``eval_f``.

    The class of the problem becomes a subclass of its own one, with the same other methods and attributes.

    Parameters
    ----------
    problem : ProblemDAE
        The problem, which is changed.
    traced : Traced
        The equations of this problem.
    form : Form
        These equations as programs, with the unknowns in the order of the problem.
    """
    cls = type(problem)
    own: dict[str, Any] = {
        "eval_f": TracedEquations.eval_f,
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
        "__qualname__": cls.__qualname__,
        "untraced": cls,
    }
    problem.__dict__.update(form=form, traced=traced, _parameters=None)
    object.__setattr__(problem, "__class__", type(cls.__name__, (TracedEquations, cls), own))
    problem.sparsity, problem.constant_mass = form.pattern, form.constant_mass
