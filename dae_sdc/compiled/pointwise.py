"""The correction of values at single times by the equations, compiled where these are."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.dae.machine_code import entry
from dae_sdc.dae.memory import ArrayMemory, address, fields, lapack, tell_addresses
from dae_sdc.dae.pointwise import Course, PointwiseEquations
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector

LARGEST_COMPILED = 64  # Largest number of unknowns: matrices of three times as many rows have no sparsity.


def equations_at_points(problem: ProblemDAE, sizes: Vector, course: Course = ()) -> PointwiseEquations:
    """The equations of a problem as a correction of values, for sizes of the unknowns in a run."""
    # Shapes: sizes (n,).
    plain = problem.n <= LARGEST_COMPILED and problem.sparsity is None and not problem.chooses_branch
    kernels = problem.solver_kernels if plain else None
    return PointwiseEquations(problem, sizes, course) if kernels is None else MachinePoints(problem, sizes)


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


MOST_HIDDEN_ITERATIONS = 10  # Largest number of Newton iterations of a stage of hidden constraints.
ROUND_OFF = 1e-13  # Relative change of the values up to which the iteration at a time ends.
ROUNDING = 2.0**-50  # Rounding of the terms of an equation, relative to their sum.
# Largest relative change in the last iteration; a larger one counts as a failure.
ACCEPTED_CHANGE = 1e-9
# Largest change, relative to the size of the unknown, of values that a stage does not fully determine;
# beyond it the iteration counts as converged to another solution.
LARGEST_SHIFT = 0.05
# Largest ratio of the moves of values that follow their rates to those of values that do not.
MOVES = 2.0


class StageMemory(ctypes.Structure):
    """A stage of hidden constraints: addresses of integers unless said."""

    _fields_ = fields(
        ctypes.c_int64,
        "program",  # address of a function that computes the equations and their partial derivatives
        "rows columns entries",  # numbers of equations, of values solved for, and of partial derivatives
        "linear linear_following",  # 1 for equations that are linear in them, and in what follows them too
        "jets follower",  # numbers of the values, and of those that follow them, -1 without one, (columns,)
        # Of each partial derivative the row, the column, and that of the value that is followed, or -1.
        "row column followed",
        "small",  # integers of 32 bits for LAPACK, (4,)
    )


STAGE_BYTES = ctypes.sizeof(StageMemory)


class HiddenMemory(ctypes.Structure):
    """All stages, and what they are solved on: addresses of doubles unless said."""

    _fields_ = fields(
        ctypes.c_int64,
        "stages p dgetrf dgetrs",  # stages one behind the other, parameters, functions of LAPACK
        "count values n rated",  # numbers of stages, of values, of unknowns, and of those with a rate
        "states rates",  # integers: numbers of the values, and below them those of their unknowns
        "weights largest is_state before other",  # (values,), the last two for one more, which is 0
        "sizes",  # of the unknowns, (n,)
        "out matrix system right step start",  # of a stage
        "pivots",  # integers of 32 bits
    )


@functools.cache
def correct_hidden() -> Any:
    """Makes rows of values at times, for steps, satisfy the stages at an address; writes where it did."""
    kind = ctypes.PYFUNCTYPE(ctypes.c_int64, *6 * [ctypes.c_int64])
    return kind(entry("dae_sdc.compiled.points:correct").address)


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
