"""Compiled forms of functions that Python runs as they are. Importing this imports numba."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba.extending import overload

from dae_sdc.compiled.machine_newton import INNER


def compiled_as(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Decorator of what compiled code calls in place of a function, with the same parameters.

    Parameters
    ----------
    function : callable
        What Python calls.
    """

    def register(implementation: Any) -> Any:
        def typed(*_: Any) -> Any:
            return implementation

        vars(typed)["__signature__"] = inspect.signature(implementation)
        overload(function, jit_options=INNER)(typed)
        return implementation

    return register
