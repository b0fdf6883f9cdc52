"""Sparse matrices in the compiled stages of :mod:`dae_sdc.sweepers._simultaneous`. This imports numba."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import types
from scipy import sparse

from dae_sdc.compiled import machine_newton as mn
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
from dae_sdc.dae.compiling import c_function, call_at, doubles, integers, short_integers, within_compiled
from dae_sdc.dae.linear import sparse_factors
from dae_sdc.dae.memory import address, tell_addresses
from dae_sdc.dae.state import attach
from dae_sdc.errors import SingularMatrixError
from dae_sdc.sharing import once
from dae_sdc.sweepers._simultaneous import MachineStages, complexes, python_answer, stages_at
from dae_sdc.sweepers.simultaneous import NOT_JUDGED
from dae_sdc.sweepers.teams import FACTORIZE

PAYING_FACTORIZATIONS = 4  # Factorisations with one pivot order from which on its reuse saves time.
# Number of pivot orders in succession that served fewer factorisations, after which SuperLU is used.
MOST_SHORT_LIVED = 4

# Arrays that the next step may depend on, besides the factors.
REMEMBERED = ("mass", "stiffness", "coefficients", "lasted")

complex_factors = mn.factors_view(complexes)

refactorized, solved = within_compiled(refactorize), within_compiled(solve_triangular)

# Signature of the C functions that stages call; the first argument is the address of their memory.
AT = types.int64(types.int64, types.int64, types.int64)


def _refactorize_at(address: Any, k: Any, _: Any) -> Any:
    a = stages_at(address)
    factors, n, size = integers(a.triangles + 8 * mn.PARTS * k), a.n, a.entries
    if factors[0] == 0:
        return 0
    is_end = k > a.pairs
    own_part = 0 if is_end else 16 * a.several * k
    data_at, scratch = a.end_matrix if is_end else a.data + own_part * size, a.scratch + 3 * own_part * n
    mass, stiffness = doubles(a.mass), doubles(a.stiffness)
    pattern = mn.row_pattern_of(integers(a.patterns + 8 * mn.ROW_PARTS * k))
    if k == 0 or is_end:
        data, factor = doubles(data_at), complexes(a.coefficients)[0].real
        if not is_end:
            for i in range(size):
                data[i] = mass[i] + factor * stiffness[i]
        status = refactorized(pattern, mn.real_factors(factors, n), data, doubles(scratch))
    else:
        values, coefficient = complexes(data_at), complexes(a.coefficients)[k]
        for i in range(size):
            values[i] = mass[i] + coefficient * stiffness[i]
        status = refactorized(pattern, complex_factors(factors, n), values, complexes(scratch))
    if status != REFACTORIZED:
        return 0
    if not is_end:
        integers(a.lasted)[k] += 1
    return 1


def _substitute_at(address: Any, k: Any, x_at: Any) -> Any:
    a = stages_at(address)
    factors, n = integers(a.triangles + 8 * mn.PARTS * k), a.n
    if factors[0] == 0:
        return call_at(a.solve_outside, (address, k, x_at))
    if k == 0 or k > a.pairs:
        solved(mn.real_factors(factors, n), doubles(x_at), doubles(x_at), doubles(a.scratch))
    else:
        row, scratch = complexes(x_at), complexes(a.scratch + 48 * n * a.several * k)
        solved(complex_factors(factors, n), row, row, scratch)
    return 1


def _multiply_at(address: Any, x_at: Any, out_at: Any) -> Any:
    a = stages_at(address)
    x, out, mass = doubles(x_at), doubles(out_at), doubles(a.mass)
    indices, starts = short_integers(a.indices), short_integers(a.starts)
    for i in range(a.n):
        out[i] = 0.0
    for j in range(a.n):
        for entry in range(starts[j], starts[j + 1]):
            out[indices[entry]] += mass[entry] * x[j]
    return 1


@once
def functions() -> tuple[Any, Any, Any]:
    """The C functions to factorise matrix k, solve with it, and multiply with dF/du', compiled when used."""
    made: Any = (c_function(function, AT) for function in (_refactorize_at, _substitute_at, _multiply_at))
    return tuple(made)


class SparseStages(MachineStages):
    """:class:`~dae_sdc.sweepers._simultaneous.MachineStages` with kernels of a CSC pattern."""

    # SuperLU chooses the pivots of the real matrix. With these the complex matrices are factorised too, and
    # those of the next steps, in compiled code; one whose pivots get too small gets its own. Factors that are
    # rather full stay with SuperLU, which works on blocks, and so does a matrix that needs new pivots all the
    # time.

    def _make_matrices(self) -> None:
        problem, memory, count = self.problem, self._memory, len(self.pairs) + 1
        pattern = self._pattern = problem.sparsity
        entries = self._entries = len(pattern.indices)
        self._arrays |= {
            "mass": np.zeros(entries),
            "stiffness": np.zeros(entries),
            "end_matrix": np.empty(entries),
            "indices": pattern.indices.astype(np.int32),
            "starts": pattern.indptr.astype(np.int32),
            "data": np.empty((self._copies, entries), dtype=np.complex128),
            "scratch": np.empty((self._copies, 3 * problem.n), dtype=np.complex128),
            "triangles": np.zeros((count + 1, mn.PARTS), dtype=np.int64),
            "patterns": np.zeros((count + 1, mn.ROW_PARTS), dtype=np.int64),
            "lasted": np.zeros(count, dtype=np.int64),
        }
        self._kept: dict[int, tuple[TriangularFactors, RowPattern]] = {}
        self._outside: dict[int, Any] = {}
        self._vain = [0] * count
        self._checked = False
        self._real_is_done = False
        self._first = threading.Lock()
        self._called = tuple(
            python_answer(self, method) for method in (SparseStages._repivot, SparseStages._solve_outside)
        )
        memory.repivot, memory.solve_outside = (
            ctypes.cast(function, ctypes.c_void_p).value for function in self._called
        )
        memory.refactorize, memory.substitute, memory.multiply = (made.address for made in functions())
        memory.entries = entries
        tell_addresses(memory, self._arrays)

    def _act(self, what: int, t0: float, h: float, judging: tuple[int, bool, bool] = NOT_JUDGED) -> float:
        pattern = self.problem.sparsity
        if pattern is not self._pattern or len(pattern.indices) != self._entries:
            self._make_matrices()
            self.forget()
        self._time = t0 + 0.5 * h
        return super()._act(what, t0, h, judging)

    def get_state(self) -> dict[str, Any]:
        kept = [(k, list(factors[:-1]), list(pattern)) for k, (factors, pattern) in self._kept.items()]
        about = {"kept": kept, "outside": list(self._outside), "vain": self._vain, "checked": self._checked}
        return self._kept_arrays(REMEMBERED) | about

    def set_state(self, kept: Mapping[str, Any]) -> None:
        super().set_state({name: kept[name] for name in map(str.upper, ("numbers", *REMEMBERED))})
        for k, factors, pattern in kept["kept"]:
            self._put(k, TriangularFactors(*(*factors, self.problem.n)), RowPattern(*pattern))
        for k in kept["outside"]:
            self._outside[k] = sparse_factors(self._matrix(k))
        self._vain, self._checked = kept["vain"], kept["checked"]

    def _known(self, k: int) -> bool:
        return k in self._kept or k in self._outside

    def _do_part(self, kind: int, part: int) -> int:
        if kind != FACTORIZE or (part and self._known(part)):
            return super()._do_part(kind, part)
        # The complex matrices begin with the pivots of the real one, in whichever order they come. A rank
        # that has no share in that needs it too, at this step size: pivots may depend on the size.
        with self._first:
            if not self._real_is_done:
                self._real_is_done = super()._do_part(kind, 0) != 0
            found = int(self._real_is_done)
        return super()._do_part(kind, part) if part else found

    def _share_parts(self, kind: int, count: int) -> int:
        self._real_is_done = False
        if kind == FACTORIZE and not self._known(0) and self.team is not None and self.team.separate:
            # The pivots that all matrices begin with are those of the first one, on every rank.
            self.team.everywhere(lambda: self._do_part(kind, 0))
        return super()._share_parts(kind, count)

    # --- called by compiled code ----------------------------------------------------------------------------

    def _repivot(self, k: int, _: int) -> int:
        """Factorise matrix k with pivots of its own; 0 where it is singular."""
        if not self._checked:  # The method of the problem itself compares its sparsity pattern.
            n_diff, (du, u) = self.problem.n_diff, self._arrays["work"]
            jacobian: Any = self.problem.jacobian
            jacobian(attach(u, n_diff), attach(du, n_diff), self._time, 1.0)
            self._checked = True
        known = k in self._kept
        if not known and k not in self._outside and 0 in self._kept:
            factors, pattern = self._kept[0]
            self._put(k, copy_for(factors, np.complex128), pattern)
            if functions()[0].ctypes(self._memory.own, k, 0):
                return 1
        elif known:
            lasted = self._arrays["lasted"]
            self._vain[k] = self._vain[k] + 1 if lasted[k] < PAYING_FACTORIZATIONS else 0
            lasted[k] = 0
        matrix = self._matrix(k)
        if not np.isfinite(matrix.data).all():
            return 0
        try:
            lu = sparse_factors(matrix)
            if lu.nnz > LARGEST_ROW_FILL * self.problem.n or self._vain[k] >= MOST_SHORT_LIVED:
                self._outside[k] = lu
                self._kept.pop(k, None)
                self._arrays["triangles"][k :: len(self.pairs) + 1] = 0
            else:
                self._put(k, *superlu_factors(lu, matrix))
        except SingularMatrixError:
            return 0
        return 1

    def _matrix(self, k: int) -> Any:
        c = self._arrays["coefficients"][k]
        data = self._arrays["mass"] + (c if k else c.real) * self._arrays["stiffness"]
        parts = (data, self._arrays["indices"], self._arrays["starts"])
        return sparse.csc_matrix(parts, shape=self._pattern.shape)

    def _put(self, k: int, factors: TriangularFactors, pattern: RowPattern) -> None:
        self._kept[k] = factors, pattern
        placed = {k: factors}
        # The pivots may differ from rank to rank, and with them the rounding of the last stage.
        if k == 0 and self._memory.checks and not (self.team is not None and self.team.separate):
            placed[len(self.pairs) + 1] = self._of_end = copy_for(factors)
        for place, parts in placed.items():
            self._arrays["triangles"][place] = [address(part) for part in parts[:-1]]
            self._arrays["patterns"][place] = [address(part) for part in pattern]

    def _solve_outside(self, k: int, x_at: int) -> int:
        """Solve with SuperLU's factors of matrix k in place: for a complex row, but for the first matrix."""
        memory: Any = (ctypes.c_double * (self.problem.n * (2 if k else 1))).from_address(x_at)
        x = np.frombuffer(memory, dtype=np.complex128 if k else np.float64)
        x[:] = self._outside[k].solve(x)
        return 1
