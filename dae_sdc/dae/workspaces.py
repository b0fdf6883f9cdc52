"""Arrays that Jacobians by complex steps work with, and parameters that lead to them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.linear import column_groups
from dae_sdc.dae.memory import STEP, address, fields, no_copy
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError

HEADER = 2  # Numbers before the parameters: :data:`SIGN`, and the bits of the address of a workspace.
# Says that a workspace follows. A copy of the parameters alone lacks it, and gets NaN for a Jacobian.
SIGN = -2.7182818284590455e-217

_RESIDUAL = ctypes.PYFUNCTYPE(None, ctypes.c_double, *4 * [ctypes.c_void_p])


class WorkspaceMemory(ctypes.Structure):
    """What the Jacobian's kernel works on: addresses, but for the numbers n, groups and outside."""

    _fields_ = fields(ctypes.c_int64, "residual n work groups starts columns first rows outside")


class Workspace:
    """Arrays with which the Jacobian's kernel works, and their addresses."""

    def __init__(self, residual: int, n: int, pattern: Any, owner: str) -> None:
        self.pattern = pattern
        work = self._work = np.zeros((4, n), dtype=np.complex128)
        memory: Any = WorkspaceMemory(residual=residual, n=n, work=address(work), outside=-1)
        if pattern is None:
            self._starts = np.arange(n + 1, dtype=np.int64)
            self._columns = self._starts
        else:
            self._first, self._rows = _checked_pattern(pattern, n, owner)
            memory.first, memory.rows = address(self._first), address(self._rows)
            groups = column_groups(pattern)
            self._columns = np.concatenate(groups).astype(np.int64)
            self._starts = np.cumsum([0, *map(len, groups)], dtype=np.int64)
        self.n_groups = memory.groups = len(self._starts) - 1
        memory.starts, memory.columns = address(self._starts), address(self._columns)
        self._memory, self.address = memory, ctypes.addressof(memory)

    def __reduce__(self) -> Any:
        return no_copy, ()

    def serves(self, pattern: Any) -> bool:
        """Whether it was made for this pattern."""
        if pattern is None or self.pattern is None:
            return pattern is self.pattern
        if getattr(pattern, "format", "") != "csc":
            return False
        if pattern.indices is self.pattern.indices and pattern.nnz == len(self._rows):
            return True
        return np.array_equal(pattern.indptr, self._first) and np.array_equal(pattern.indices, self._rows)

    def outside(
        self, t: float, u: Vector, du: Vector, c: float, parameters: Vector
    ) -> tuple[int, int] | None:
        """Row and column of an entry that the pattern lacks, if the last Jacobians gave reason to look."""
        suspicious = self._memory.outside >= 0
        self._memory.outside = -1
        for j in range(len(u)) if suspicious else ():
            value, slope, residual = self._work[:3]
            value[:], slope[:] = u, du
            value[j] += 1j * c * STEP
            slope[j] += 1j * STEP
            _RESIDUAL(self._memory.residual)(t, *map(address, (value, slope, parameters, residual)))
            missing = np.setdiff1d(
                np.flatnonzero(residual.imag), self._rows[self._first[j] : self._first[j + 1]]
            )
            if len(missing):
                return int(missing[0]), j
        return None


class _Block(np.ndarray[Any, Any]):
    """The numbers of a header and of parameters, with the workspace to which the header leads."""

    workspace: Workspace


class Parameters:
    """Parameters behind a header that leads to a workspace."""

    def __init__(self, workspace: Workspace, values: npt.ArrayLike) -> None:
        self.workspace = workspace
        numbers = np.ravel(np.asarray(values, dtype=np.float64))
        block = _Block(HEADER + max(1, len(numbers)))
        block.workspace = workspace
        block[:] = 0.0
        block[0] = SIGN
        block.view(np.int64)[1] = workspace.address
        block[HEADER : HEADER + len(numbers)] = numbers
        self.array: Vector = np.asarray(block)[HEADER:]

    def __reduce__(self) -> Any:
        return no_copy, ()


def _checked_pattern(pattern: Any, n: int, owner: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Copies of the two index arrays of a pattern."""
    if getattr(pattern, "format", "") != "csc" or pattern.shape != (n, n):
        raise InputError(
            f"{owner}.sparsity must be a CSC matrix of shape ({n}, {n}) for complex steps; "
            f"got {type(pattern).__name__} {getattr(pattern, 'shape', '')}"
        )
    first, rows = pattern.indptr.astype(np.int64), pattern.indices.astype(np.int64)
    ascending = np.diff(rows) > 0
    ascending[first[1:-1][(first[1:-1] > 0) & (first[1:-1] < len(rows))] - 1] = True
    if not ascending.all():
        raise InputError(
            f"{owner}.sparsity must have its rows in ascending order and no entry twice; call its "
            f"sum_duplicates() and sort_indices()"
        )
    return first, rows
