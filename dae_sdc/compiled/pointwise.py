"""The correction of values at single times by the equations, compiled where these are."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.dae.machine_code import entry
from dae_sdc.dae.memory import ArrayMemory, address, fields, lapack, tell_addresses
from dae_sdc.dae.pointwise import PointwiseEquations
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector

LARGEST_COMPILED = 64  # Largest number of unknowns: matrices of three times as many rows have no sparsity.


def equations_at_points(problem: ProblemDAE, sizes: Vector) -> PointwiseEquations:
    """The equations of a problem as a correction of values, for sizes of the unknowns in a run."""
    # Shapes: sizes (n,).
    plain = problem.n <= LARGEST_COMPILED and problem.sparsity is None and not problem.chooses_branch
    kernels = problem.solver_kernels if plain else None
    return PointwiseEquations(problem, sizes) if kernels is None else MachinePoints(problem, sizes)


class PointMemory(ctypes.Structure):
    """What the pair at a time is solved on: addresses of doubles unless said."""

    _fields_ = [
        *fields(ctypes.c_double, "time h scale"),  # with the unit of time of Jacobians
        *fields(
            ctypes.c_int64,
            "residual jacobian p",  # kernels, and their parameters
            "dgetrf dgetrs small",  # functions of LAPACK; integers of 32 bits for n and 3 n, (2, 4)
            "n square",  # number of unknowns; whether u' and algebraic unknowns may follow from F
            "determined follows",  # whether they do, by the factors, and y changes with y'
            "doubtful",  # whether a matrix may be singular
            "borrows",  # whether there are factors of the last time
            "times steps order",  # of all pairs, (K,), and integers for their order, (K,)
            "u du",  # (K, n)
            "here there step",  # pairs and a change of them, (2, n)
            "value sizes algebraic",  # (n,); the last 1 for algebraic unknowns
            "mass stiffness",  # row by row, (n, n)
            "matrix lu other",  # row by row, (n, n), and factors, column by column, (3 n, 3 n)
            "pivots",  # integers of 32 bits, (3 n,)
            "right row_scale",  # (3 n,) and (n,)
        ),
    ]


@functools.cache
def _solve() -> Any:
    """Solves the pairs of the memory at an address, from one on; the first that is left to Python."""
    kind = ctypes.PYFUNCTYPE(ctypes.c_int64, *3 * [ctypes.c_int64])
    return kind(entry("dae_sdc.compiled.points:solve").address)


class MachinePoints(PointwiseEquations):
    """:class:`PointwiseEquations` in compiled code, for a problem with kernels of dense Jacobians."""

    @functools.cached_property
    def _memory(self) -> ArrayMemory:
        """What compiled code works on, made when the first values are asked for, which few runs are."""
        problem: Any = self.problem
        n, kernels = problem.n, problem.kernels
        memory: Any = PointMemory(residual=kernels.residual, jacobian=kernels.jacobian, n=n)
        memory.square = int(problem.index == int(self.algebraic.any()))
        memory.dgetrf, memory.dgetrs = lapack("dgetrf"), lapack("dgetrs")
        small = np.array([[count, 1, 0, ord("N")] for count in (n, 3 * n)], dtype=np.int32)
        arrays = {name: np.empty((n, n)) for name in ("mass", "stiffness", "matrix")}
        arrays |= {name: np.empty((2, n)) for name in ("there", "step", "other")}
        arrays |= {"here": np.empty((2, n)), "value": np.empty(n), "row_scale": np.empty(n), "small": small}
        arrays |= {"lu": np.empty((3 * n, 3 * n)), "pivots": np.empty(3 * n, dtype=np.int32)}
        arrays |= {"sizes": self.sizes.astype(float), "algebraic": self.algebraic.astype(float)}
        self._owners = kernels
        return ArrayMemory(memory, arrays | {"right": np.empty(3 * n)})

    def __reduce__(self) -> Any:
        return type(self), (self.problem, self.sizes)  # addresses are those of this process

    def _solve_all(self, t: Vector, u: Vector, du: Vector, h: Vector, order: NDArray[np.int64]) -> Any:
        memory, done, number = self._memory.structure, np.ones(len(t), dtype=bool), 0
        arrays = {"times": t, "steps": h, "u": u, "du": du, "order": order}
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        tell_addresses(memory, arrays)
        parameters = self.problem.packed_parameters
        memory.p, memory.scale, memory.borrows = address(parameters), self.problem.run_scales.time, 0
        while (number := _solve()(self._memory.address, number, len(t))) < len(t):
            # What fails here is done again in Python, where differences may stand for a Jacobian of NaN.
            row = int(order[number])
            pair = arrays["u"][row], arrays["du"][row]
            done[row] = self._solve(float(t[row]), *pair, float(h[row]), False)
            number += 1
        u[:], du[:] = arrays["u"], arrays["du"]
        return done
