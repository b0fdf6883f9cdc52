"""Pictures of solutions and of results of studies; matplotlib is loaded when the first picture is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# The module and the function share a name: importing here makes the function win, always.
from dae_sdc.imports import function_at
from dae_sdc.links import one_room
from dae_sdc.plotting.plot import PICTURES, plot

one_room(__name__)

if TYPE_CHECKING:
    from dae_sdc.plotting.convergence import drift, loglog, semilogy
    from dae_sdc.plotting.mechanism import mechanism, pendulum, phase
    from dae_sdc.plotting.solution import linear

__all__ = ["drift", "linear", "loglog", "mechanism", "pendulum", "phase", "plot", "semilogy"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return function_at(PICTURES[name].home)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
