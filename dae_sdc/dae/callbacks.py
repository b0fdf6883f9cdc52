"""Functions in Python as C functions of the signature of residual kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.dae.values import undefined

# Most addresses a callback remembers; compiled solvers pass a handful of buffers again and again.
MOST_VIEWS = 256

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_double, *4 * [ctypes.c_void_p])


class CallbackFailure:
    """Where callbacks leave the first exception that compiled code cannot pass on."""

    error: BaseException | None = None

    def keep(self, error: BaseException) -> None:
        """Remember an exception, unless there is one already."""
        if self.error is None:
            self.error = error

    def check(self) -> None:
        """Raise what was kept, once; solvers call this when the compiled code has returned."""
        error, self.error = self.error, None
        if error is not None:
            raise error


def no_copy() -> None:
    """Give None for a copy of an object with addresses, which would be those of the original."""


class Callback:
    """The C function ``f(t, u*, v*, p*, out*)`` that calls a function in Python."""

    def __init__(
        self,
        function: Callable[..., Vector],
        n: int,
        shape: tuple[int, ...],
        velocities: bool,
        failure: CallbackFailure,
    ) -> None:
        size = int(np.prod(shape))
        inputs: dict[int, Vector] = {}
        outputs: dict[int, Vector] = {}

        def view(known: dict[int, Vector], address: int, length: int, shape: tuple[int, ...]) -> Vector:
            if address not in known:
                if len(known) >= MOST_VIEWS:
                    known.clear()
                buffer: Any = (ctypes.c_double * length).from_address(address)
                known[address] = np.frombuffer(buffer).reshape(shape)
            return known[address]

        def call(t: float, u: int, v: int | None, p: int | None, out: int) -> None:
            target = None
            try:
                target = view(outputs, out, size, shape)
                place = view(inputs, u, n, (n,))
                # Copies: the function may keep its arguments, or change them.
                if v is None or not velocities:
                    target[...] = function(t, place.copy())
                    return
                target[...] = function(t, place.copy(), view(inputs, v, n, (n,)).copy())
            except BaseException as error:  # also an interrupt: it would be lost in compiled code
                if target is not None:
                    target.fill(np.nan)
                if not (isinstance(error, Exception) and undefined(error)):
                    failure.keep(error)

        self._function = _SIGNATURE(call)
        self.address = int(ctypes.cast(self._function, ctypes.c_void_p).value or 0)

    def __reduce__(self) -> Any:
        return no_copy, ()
