"""Sparse matrices in the compiled stages of :mod:`dae_sdc.sweepers._simultaneous`. This imports numba."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.extending import register_jitable
from scipy import sparse
from scipy.sparse.linalg import splu

from dae_sdc.compiled import machine_newton as mn, triangular
from dae_sdc.compiled.machine_newton import AT, INNER, doubles, integers, short_integers
from dae_sdc.compiled.triangular import (
    LARGEST_ROW_FILL,
    REFACTORIZED,
    RowPattern,
    TriangularFactors,
    copy_for,
    refactorize,
    solve_triangular,
    superlu_factors,
)
from dae_sdc.dae.compiling import c_function
from dae_sdc.dae.linear import SUPERNODES
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import SingularMatrixError
from dae_sdc.sharing import once
from dae_sdc.sweepers import _simultaneous as memory
from dae_sdc.sweepers._simultaneous import MachineStages, address, complexes, places_at


@dataclass(frozen=True)
class PivotSettings:
    """When a matrix stays with SuperLU.

    Parameters
    ----------
    paying_factorizations : int
        Pivots that serve fewer factorisations cost more than they save.
    most_short_lived : int
        So many such pivots in turn, and the matrix stays with SuperLU.
    """

    paying_factorizations: int = 4
    most_short_lived: int = 4


SETTINGS = PivotSettings()

REMEMBERED = ("NUMBERS", "MASS", "STIFFNESS", "COEFFICIENTS", "LASTED")
"""Arrays that the next step may depend on, besides the factors."""

PARTS, ROW_PARTS = len(TriangularFactors._fields) - 1, len(RowPattern._fields)


def _triangles(view: Any) -> Any:
    """A compiled function that gives the factors of a matrix, of numbers that ``view`` looks at."""

    @register_jitable(**INNER)
    def triangles(a: Any, k: Any) -> Any:
        parts = integers(a.TRIANGLES + 8 * PARTS * k)
        return TriangularFactors(
            view(parts[0]),
            short_integers(parts[1]),
            short_integers(parts[2]),
            view(parts[3]),
            short_integers(parts[4]),
            short_integers(parts[5]),
            view(parts[6]),
            short_integers(parts[7]),
            short_integers(parts[8]),
            doubles(parts[9]),
            a.N,
        )

    return triangles


real_triangles, complex_triangles = _triangles(doubles), _triangles(complexes)

refactorized, solved = register_jitable(**INNER)(refactorize), register_jitable(**INNER)(solve_triangular)


def _compile(digest: int) -> tuple[Any, Any, Any]:
    """C functions that factorise and solve with matrix k, and that multiply with dF/du'."""

    def refactorize_at(places: Any, k: Any, _: Any) -> Any:
        a = places_at(places)
        if digest < 0 or integers(a.TRIANGLES)[PARTS * k] == 0:
            return 0
        size, mass, stiffness = a.ENTRIES, doubles(a.MASS), doubles(a.STIFFNESS)
        coefficient = complexes(a.COEFFICIENTS)[k]
        parts = integers(a.PATTERNS + 8 * ROW_PARTS * k)
        pattern = RowPattern(short_integers(parts[0]), short_integers(parts[1]), short_integers(parts[2]))
        if k == 0:
            data = doubles(a.DATA)
            for i in range(size):
                data[i] = mass[i] + coefficient.real * stiffness[i]
            status = refactorized(pattern, real_triangles(a, k), data, doubles(a.SCRATCH))
        else:
            values = complexes(a.DATA)
            for i in range(size):
                values[i] = mass[i] + coefficient * stiffness[i]
            status = refactorized(pattern, complex_triangles(a, k), values, complexes(a.SCRATCH))
        if status != REFACTORIZED:
            return 0
        integers(a.LASTED)[k] += 1
        return 1

    def substitute_at(places: Any, k: Any, x_at: Any) -> Any:
        a = places_at(places)
        if digest < 0:
            return 0
        if integers(a.TRIANGLES)[PARTS * k] == 0:
            return mn._answer_of_3(a.SOLVE_OUTSIDE, (places, k, x_at))
        n, x = a.N, doubles(x_at)
        if k == 0:
            solved(real_triangles(a, k), x, x, doubles(a.SCRATCH))
            return 1
        row = complexes(a.ROW)
        for j in range(n):
            row[j] = complex(x[j], x[n + j])
        solved(complex_triangles(a, k), row, row, complexes(a.SCRATCH))
        for j in range(n):
            x[j], x[n + j] = row[j].real, row[j].imag
        return 1

    def multiply_at(places: Any, x_at: Any, out_at: Any) -> Any:
        if digest < 0:
            return 0
        a = places_at(places)
        x, out, mass = doubles(x_at), doubles(out_at), doubles(a.MASS)
        indices, starts = short_integers(a.INDICES), short_integers(a.STARTS)
        for i in range(a.N):
            out[i] = 0.0
        for j in range(a.N):
            for entry in range(starts[j], starts[j + 1]):
                out[indices[entry]] += mass[entry] * x[j]
        return 1

    return c_function(refactorize_at, AT), c_function(substitute_at, AT), c_function(multiply_at, AT)


@once
def functions() -> tuple[Any, Any, Any]:
    """What stands at ``REFACTORIZE``, ``SUBSTITUTE`` and ``MULTIPLY``, compiled when first needed."""
    return _compile(mn.digest_of(triangular, mn, memory, sys.modules[__name__]))


ANSWER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class SparseStages(MachineStages):
    """:class:`~dae_sdc.sweepers._simultaneous.MachineStages` with kernels of a CSC pattern.

    SuperLU chooses the pivots of the real matrix, in a call from compiled code to Python. With these the
    complex matrices are factorised too, and those of the next steps, in compiled code. Where a pivot gets too
    small SuperLU chooses that matrix's own. Factors that are rather full stay with SuperLU, which works on
    blocks, and so does a matrix that needs new pivots all the time.
    """

    def _make_matrices(self) -> None:
        problem, places, count = self.problem, self._places, len(self.pairs) + 1
        pattern = self._pattern = problem.sparsity
        entries = self._entries = len(pattern.indices)
        self._arrays |= {
            "MASS": np.zeros(entries),
            "STIFFNESS": np.zeros(entries),
            "COEFFICIENTS": np.zeros(count, dtype=np.complex128),
            "INDICES": pattern.indices.astype(np.int32),
            "STARTS": pattern.indptr.astype(np.int32),
            "DATA": np.empty(entries, dtype=np.complex128),
            "SCRATCH": np.empty(3 * problem.n, dtype=np.complex128),
            "TRIANGLES": np.zeros((count, PARTS), dtype=np.int64),
            "PATTERNS": np.zeros((count, ROW_PARTS), dtype=np.int64),
            "LASTED": np.zeros(count, dtype=np.int64),
        }
        self._kept: dict[int, tuple[TriangularFactors, RowPattern]] = {}
        self._outside: dict[int, Any] = {}
        self._vain = [0] * count
        self._checked = False
        self._raised: BaseException | None = None
        self._called = _callback(self, SparseStages._repivot), _callback(self, SparseStages._solve_outside)
        for place, function in zip(("REPIVOT", "SOLVE_OUTSIDE"), self._called, strict=True):
            places[place] = ctypes.cast(function, ctypes.c_void_p).value or 0
        for place, made in zip(("REFACTORIZE", "SUBSTITUTE", "MULTIPLY"), functions(), strict=True):
            places[place] = made.address
        places["ENTRIES"] = entries
        self._tell_places()

    def _act(self, what: int, t0: float, h: float, first: bool = False, again: bool = False) -> float:
        pattern = self.problem.sparsity
        if pattern is not self._pattern or len(pattern.indices) != self._entries:
            self._make_matrices()
            self.forget()
        self._time = t0 + 0.5 * h
        result = super()._act(what, t0, h, first, again)
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised
        return result

    def get_state(self) -> dict[str, Any]:
        """See :class:`Simultaneous`."""
        kept = [(k, list(factors[:-1]), list(pattern)) for k, (factors, pattern) in self._kept.items()]
        about = {"kept": kept, "outside": list(self._outside), "vain": self._vain, "checked": self._checked}
        return {name: self._arrays[name].copy() for name in REMEMBERED} | about

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """See :class:`Simultaneous`."""
        for name in REMEMBERED:
            self._arrays[name][:] = kept[name]
        for k, factors, pattern in kept["kept"]:
            self._put(k, TriangularFactors(*(*factors, self.problem.n)), RowPattern(*pattern))
        for k in kept["outside"]:
            self._outside[k] = self._factorized_by_superlu(self._matrix(k))
        self._vain, self._checked = kept["vain"], kept["checked"]

    # --- called by compiled code ----------------------------------------------------------------------------

    def _repivot(self, k: int, _: int) -> int:
        """Factorise matrix k with pivots of its own; 0 where it is singular."""
        if not self._checked:
            # What is wrong with the pattern is said by the problem's own way to the Jacobian.
            n_diff, (du, u) = self.problem.n_diff, self._arrays["WORK"]
            jacobian: Any = self.problem.jacobian
            jacobian(attach(u, n_diff), attach(du, n_diff), self._time, 1.0)
            self._checked = True
        known = k in self._kept
        if not known and k not in self._outside and 0 in self._kept:
            factors, pattern = self._kept[0]
            self._put(k, copy_for(factors, np.complex128), pattern)
            if functions()[0].ctypes(self._at, k, 0):
                return 1
        elif known:
            lasted = self._arrays["LASTED"]
            self._vain[k] = self._vain[k] + 1 if lasted[k] < SETTINGS.paying_factorizations else 0
            lasted[k] = 0
        matrix = self._matrix(k)
        if not np.isfinite(matrix.data).all():
            return 0
        try:
            lu = self._factorized_by_superlu(matrix)
            if lu.nnz > LARGEST_ROW_FILL * self.problem.n or self._vain[k] >= SETTINGS.most_short_lived:
                self._outside[k] = lu
                self._kept.pop(k, None)
                self._arrays["TRIANGLES"][k] = 0
            else:
                self._put(k, *superlu_factors(lu, matrix))
        except (RuntimeError, SingularMatrixError):
            return 0
        return 1

    @staticmethod
    def _factorized_by_superlu(matrix: Any) -> Any:
        # SuperLU sorts indices in place where they are not in order.
        return splu(matrix if matrix.has_canonical_format else matrix.copy(), **SUPERNODES)

    def _matrix(self, k: int) -> Any:
        c = self._arrays["COEFFICIENTS"][k]
        data = self._arrays["MASS"] + (c if k else c.real) * self._arrays["STIFFNESS"]
        parts = (data, self._arrays["INDICES"], self._arrays["STARTS"])
        return sparse.csc_matrix(parts, shape=self._pattern.shape)

    def _put(self, k: int, factors: TriangularFactors, pattern: RowPattern) -> None:
        self._kept[k] = factors, pattern
        self._arrays["TRIANGLES"][k] = [address(part) for part in factors[:-1]]
        self._arrays["PATTERNS"][k] = [address(part) for part in pattern]

    def _solve_outside(self, k: int, x_at: int) -> int:
        """Solve with SuperLU's factors of matrix k in place."""
        x = np.ctypeslib.as_array((ctypes.c_double * (self.problem.n * (2 if k else 1))).from_address(x_at))
        if k == 0:
            x[:] = self._outside[k].solve(x)
        else:
            real, imaginary = x.reshape(2, -1)
            row: Vector = self._outside[k].solve(real + 1j * imaginary)
            real[:], imaginary[:] = row.real, row.imag
        return 1


def _callback(stages: SparseStages, method: Callable[[SparseStages, int, int], int]) -> Any:
    """A C function that calls a method; what is raised there has to wait until compiled code is left."""
    known = weakref.ref(stages)

    def call(_: int, k: int, argument: int) -> int:
        own = known()
        assert own is not None, "it is called by its own compiled code alone"
        try:
            return method(own, k, argument)
        except BaseException as raised:
            own._raised = raised
            return 0

    return ANSWER(call)
