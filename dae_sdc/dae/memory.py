"""What Python and compiled code share: structures of C, functions in Python as C functions, counters."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from pySDC.core.problem import WorkCounter

from dae_sdc.dae.state import Vector
from dae_sdc.dae.values import undefined
from dae_sdc.errors import InputError

# Imaginary part of a complex step: its square is negligible, and as a power of two it divides exactly.
STEP: Final = 2.0**-400


def fields(kind: Any, *names: str) -> list[tuple[str, Any]]:
    """Fields of one type for a structure of :mod:`ctypes`; names are separated by spaces."""
    return [(name, kind) for several in names for name in several.split()]


def address(array: npt.NDArray[Any]) -> int:
    """Address of the first number of an array, without the objects of ctypes."""
    return int(array.__array_interface__["data"][0])


def tell_addresses(memory: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the addresses of arrays into the fields of these names of a structure."""
    for name, array in arrays.items():
        setattr(memory, name, array.__array_interface__["data"][0])


def lapack(name: str) -> int:
    """Address of a function of the LAPACK that SciPy uses."""
    capsule = importlib.import_module("scipy.linalg.cython_lapack").__pyx_capi__[name]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer_of(capsule, name_of(capsule)))


class ArrayMemory:
    """A structure for compiled code, with the arrays whose addresses it has; deep copies have their own."""

    def __init__(self, structure: Any, arrays: dict[str, npt.NDArray[Any]]) -> None:
        self.structure, self.arrays, self.address = structure, arrays, ctypes.addressof(structure)
        tell_addresses(structure, arrays)

    def replace(self, name: str, array: npt.NDArray[Any]) -> None:
        """Put an array in the place of that of a field."""
        self.arrays[name] = array
        setattr(self.structure, name, address(array))

    def __reduce__(self) -> Any:
        return type(self), (self.structure, self.arrays)


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


_Function = TypeVar("_Function", bound=Callable[..., Any])
_MARK = "_dae_sdc_inlined"
INLINED: Final[list[Any]] = []  # Marked functions that numba is yet to be told of.


def inlined(function: _Function) -> _Function:
    """Mark a plain Python function as callable from kernels; a decorator."""
    if not isinstance(function, FunctionType):
        raise InputError(f"inlined takes a plain Python function; got {function!r}")
    setattr(function, _MARK, True)
    INLINED.append(function)
    return function


def is_inlined(value: Any) -> bool:
    """Whether :func:`inlined` has marked it."""
    return isinstance(value, FunctionType) and getattr(value, _MARK, False)


# Residual evaluations, Newton iterations, Jacobian evaluations, LU factorisations, LU solves.
COUNTERS = ("rhs", "newton", "jacobian", "factorization", "solve")


class Counts(ctypes.Structure):
    """What compiled code has counted, a number for each name in :data:`COUNTERS`."""

    _fields_ = fields(ctypes.c_int64, *COUNTERS)

    def add_to(self, problem: Any) -> None:
        """Add them to the counters of a problem, and begin at 0 again."""
        for name in COUNTERS:
            count = getattr(self, name)
            if count:
                problem.work_counters[name].niter += count
                setattr(self, name, 0)


def new_counters() -> dict[str, WorkCounter]:
    """Counters at zero, one for each name in :data:`COUNTERS`."""
    return {name: WorkCounter() for name in COUNTERS}


def counts_of(problem: Any) -> list[int]:
    """What the counters of a problem stand at, in the order of :data:`COUNTERS`."""
    return [problem.work_counters[name].niter for name in COUNTERS]


@contextmanager
def uncounted(problem: Any) -> Iterator[None]:
    """Leave the counters of a problem as they are, whatever is evaluated within."""
    kept = counts_of(problem)
    try:
        yield
    finally:
        for name, count in zip(COUNTERS, kept, strict=True):
            problem.work_counters[name].niter = count


def codes_of(code: CodeType) -> list[CodeType]:
    """A code and those of functions and comprehensions in it."""
    codes = [code]
    for outer in codes:
        for entry in outer.co_consts:
            if isinstance(entry, CodeType):
                codes.append(entry)
    return codes
