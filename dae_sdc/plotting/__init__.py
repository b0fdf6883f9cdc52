"""Pictures from the result files of studies; matplotlib is loaded when the first picture is made."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# The module and the function share a name: importing here makes the function win, always.
from dae_sdc.plotting.plot import plot

if TYPE_CHECKING:
    from dae_sdc.plotting.convergence import loglog
    from dae_sdc.plotting.growth import size
    from dae_sdc.plotting.histories import drift
    from dae_sdc.plotting.iterations import semilogy
    from dae_sdc.plotting.ranks import scaling
    from dae_sdc.plotting.solution import linear
    from dae_sdc.plotting.steps import profile, work
    from dae_sdc.plotting.trajectories import pendulum
    from dae_sdc.plotting.work_precision import peers

__all__ = ["drift", "linear", "loglog", "peers", "pendulum"]
__all__ += ["plot", "profile", "scaling", "semilogy", "size", "work"]

_HOME = {
    **{"linear": "solution", "loglog": "convergence", "scaling": "ranks", "semilogy": "iterations"},
    **{"size": "growth", "work": "steps", "profile": "steps", "peers": "work_precision"},
    **{"pendulum": "trajectories", "drift": "histories"},
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
