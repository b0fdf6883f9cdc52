"""Problems of the catalogue as the ``eval_f`` that a user would write, with nothing else declared."""

from __future__ import annotations

from typing import Any

import numpy as np

from dae_sdc.constrained.parts import PARTS
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.run.solve import solve


def plain_function(name: str) -> tuple[Any, Any]:
    """A problem of the catalogue, and a class with the eval_f that its kernels are in Python."""
    cls: Any = PROBLEMS[name]
    own = cls()
    p = np.array(own.kernel_parameters(), dtype=float)
    kernel = cls.residual_kernel
    given = {} if kernel else {part: own.given_part(part) for part in PARTS}
    kernels = {
        part: (getattr(cls, f"{one.name}_kernel"), one.shape)
        for part, one in given.items()
        if one.source == "kernel"
    }

    def value(part: str, t: float, q: Any, v: Any = None) -> Any:
        if part not in kernels:  # B of mechanics
            return value("dg", t, q, v).T
        function, shape = kernels[part]
        out = np.zeros(int(np.prod(shape)))
        function(t, q, q if v is None else v, p, out)
        return out.reshape(shape)

    def of_parts(self: Any, u: Any, du: Any, t: float) -> Any:
        return own.residual_of_parts(t, u, du, value)

    def of_kernel(self: Any, u: Any, du: Any, t: float) -> Any:
        out = np.zeros(self.n)
        kernel(t, u, du, p, out)
        return out

    def begin(self: Any, **settings: Any) -> None:
        ProblemDAE.__init__(self, own.n_diff, own.n_alg, **{"newton_tol": own.newton_tol, **settings})

    made: dict[str, Any] = {"__init__": begin, "interval": own.interval, "dt": own.dt}
    made["eval_f"] = of_parts if kernel is None else of_kernel
    made["u_exact"] = lambda self, t: own.u_exact(t)
    if own.given_nominal is not None:
        made["nominal"] = np.asarray(own.nominal)
    return own, type("Plain", (ProblemDAE,), made)


def first_change(name: str, **run: Any) -> float:
    """The first time at which a catalogue problem chooses other equations, or the end of its interval."""
    cls: Any = PROBLEMS[name]
    own = cls()
    end = min((*own.breakpoints(*own.interval), own.interval[1]))
    switches = solve(name, t_end=end, **run).switches
    times = [float(time) for switch in switches for time in np.atleast_1d(switch.t)]
    return 0.99 * min(times) if times else end
