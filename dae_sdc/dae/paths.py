"""Paths of solutions of n equations in n + 1 values, followed by their arc length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.deadline import check
from dae_sdc.errors import ConvergenceError, DAEError

MOST_PATH_UNKNOWNS = 500  # Largest number of unknowns; matrices are dense.
# FIRST_LENGTH, LARGEST_LENGTH, SMALLEST_LENGTH: lengths of steps along the path, in units of the sizes of the
# values; the largest also in units of the range of the parameter.
FIRST_LENGTH = 0.01
LARGEST_LENGTH = 0.05
SMALLEST_LENGTH = 1e-9
PATH_TOLERANCE = 1e-10  # Length of the last correction, in units of the sizes.
# Number of iterations of a correction from which on each must be shorter by ``contraction``.
CORRECTION_ITERATIONS = 8
# Largest ratio of the lengths of such iterations: differences across a kink converge slowly.
SLOWEST_CORRECTION = 0.6
MOST_PATH_CORRECTIONS = 50  # Largest number of iterations of a correction.
EASY_CORRECTIONS = 4  # Number of iterations up to which the next step is longer.
SHARPEST_TURN = 0.95  # Smallest cosine of the angle between the directions of two points.
# Length of a step, of those that do not succeed, from which on the path is taken to have a kink there.
KINK_LENGTH = 1e-4
KINK_REACH = 10.0  # Largest distance, in such steps, at which it goes on behind the kink.
MOST_POINTS = 2000  # Largest number of points.


@dataclass(frozen=True, eq=False)
class PathEquations:
    """n equations in n + 1 values, their derivatives, and the sizes of the values, shape (n + 1,)."""

    residual: Callable[[Vector], Vector]
    jacobian: Callable[[Vector], Vector]
    sizes: Vector


@dataclass(frozen=True, eq=False)
class PathPoint:
    """A point of a path."""

    values: Vector  # Shape (n + 1,). The values, the parameter last.
    tangent: Vector  # Shape (n + 1,). Direction of the path in units of the sizes, of length 1.


def follow(
    equations: PathEquations, start: Vector, within: tuple[float, float], forward: float = 1.0
) -> Iterator[PathPoint]:
    """The points of a path from a solution on, until the last value leaves its range or the path is lost."""
    # E. L. Allgower, K. Georg: Introduction to Numerical Continuation Methods, SIAM (2003).
    # Shapes: start (n + 1,).
    direction = np.append(np.zeros(len(start) - 1), forward)
    point = PathPoint(start, tangent_at(equations, start, direction))
    yield point
    length = FIRST_LENGTH
    for _ in range(MOST_POINTS):
        found = None
        while found is None and length >= SMALLEST_LENGTH:
            check()
            try:
                found, easy = _next(equations, point, length, within)
                if found is None and length <= KINK_LENGTH:
                    found = _behind_kink(equations, point, length)
            except (DAEError, np.linalg.LinAlgError):
                found, easy = None, False
            if found is None:
                length *= 0.5
        if found is None:
            return
        point = found
        yield point
        if point.values[-1] in within:
            return
        length = min(LARGEST_LENGTH, length * (1.5 if easy else 1.0))


def _next(
    equations: PathEquations, point: PathPoint, length: float, within: tuple[float, float]
) -> tuple[PathPoint | None, bool]:
    """The point after a step, and whether it was found easily; None where the step is too long."""
    sizes = equations.sizes
    guess = point.values + length * sizes * point.tangent
    normal = point.tangent
    outside = [end for end in within if (guess[-1] - end) * (point.values[-1] - end) < 0.0]
    if outside:
        # The last step ends on the border, where the parameter and no longer the length is given.
        part = (outside[0] - point.values[-1]) / (length * sizes[-1] * point.tangent[-1])
        guess = point.values + part * length * sizes * point.tangent
        guess[-1] = outside[0]
        normal = np.append(np.zeros(len(guess) - 1), 1.0)
    values, count = corrected(equations, guess, normal)
    if values is None:
        return None, False
    if outside:
        values[-1] = outside[0]
    tangent = tangent_at(equations, values, point.tangent)
    if tangent @ point.tangent < SHARPEST_TURN:
        return None, False
    return PathPoint(values, tangent), count <= EASY_CORRECTIONS


def _behind_kink(equations: PathEquations, point: PathPoint, length: float) -> PathPoint | None:
    """A point behind a kink, where the equations have other derivatives; None where there is no path."""
    # The determinant of the derivatives and the direction keeps its sign, also where the path turns back.
    sizes, beyond = equations.sizes, point.values + length * equations.sizes * point.tangent
    before, behind = equations.jacobian(point.values), equations.jacobian(beyond)
    null = np.linalg.svd(_with_rows_of_one_size(behind * sizes))[2][-1]
    signs = [
        np.linalg.slogdet(np.vstack([_with_rows_of_one_size(matrix * sizes), direction]))[0]
        for matrix, direction in ((before, point.tangent), (behind, null))
    ]
    tangent: Vector = null * signs[0] * signs[1]
    values, _ = corrected(equations, beyond + length * sizes * tangent, tangent)
    if values is None or not signs[0] * signs[1]:
        return None
    is_near = np.linalg.norm((values - beyond) / sizes) <= KINK_REACH * length
    return PathPoint(values, tangent) if is_near else None


def _with_rows_of_one_size(matrix: Vector) -> Vector:
    rows = np.abs(matrix).max(axis=1)
    rows[rows == 0.0] = 1.0
    return np.asarray(matrix / rows[:, None])


def corrected(equations: PathEquations, guess: Vector, normal: Vector) -> tuple[Vector | None, int]:
    """The solution on the plane through a guess, by Newton's method, and its iterations; None if it fails."""
    values, before, sizes = guess.copy(), np.inf, equations.sizes
    for count in range(1, MOST_PATH_CORRECTIONS + 1):
        left = equations.residual(values)
        if not np.isfinite(left).all():
            return None, count
        matrix = np.vstack([equations.jacobian(values) * sizes, normal])
        rows = np.abs(matrix).max(axis=1)
        if not (rows > 0.0).all() or not np.isfinite(rows).all():
            return None, count
        right = np.append(-left, -normal @ ((values - guess) / sizes))
        step = np.linalg.solve(matrix / rows[:, None], right / rows)
        values = values + sizes * step
        size = float(np.abs(step).max())
        if size <= PATH_TOLERANCE * max(1.0, float(np.abs(values / sizes).max())):
            return values, count
        slowest = 1.0 if count <= CORRECTION_ITERATIONS else SLOWEST_CORRECTION
        if not size < slowest * before:
            return None, count
        before = size
    return None, MOST_PATH_CORRECTIONS


def tangent_at(equations: PathEquations, values: Vector, direction: Vector) -> Vector:
    """The direction of the path at a point, along a given one."""
    bordered = np.vstack([equations.jacobian(values) * equations.sizes, direction])
    rows = np.abs(bordered).max(axis=1)
    if not (rows > 0.0).all():
        raise ConvergenceError("an equation does not depend on any value; the path has no direction")
    right = np.zeros(len(bordered))
    right[-1] = 1.0 / rows[-1]
    found = np.linalg.solve(bordered / rows[:, None], right)
    return np.asarray(found / np.linalg.norm(found))


def newton_homotopy(
    residual: Callable[[Vector], Vector],
    jacobian: Callable[[Vector], Vector],
    x: Vector,
    sizes: Vector,
    matrix: Vector | None = None,
) -> Vector:
    """The end of the path of R(x) = (1 - s) R(start) from s = 0 to 1, followed by its arc length."""
    # With a matrix A it is that of s R(x) + (1 - s) A (x - start) = 0.
    # Shapes: x (n,), sizes (n,), matrix (n, n).
    begin, start, at_start = x, residual(x), np.abs(jacobian(x)) @ sizes
    rows = np.where(at_start > 0.0, at_start, 1.0)

    def deformed(point: Vector) -> Vector:
        s, left = point[-1], residual(point[:-1])
        if matrix is None:
            return np.asarray((left - (1.0 - s) * start) / rows)
        return np.asarray((s * left + (1.0 - s) * (matrix @ (point[:-1] - begin))) / rows)

    def derivatives(point: Vector) -> Vector:
        s, slopes, along = point[-1], jacobian(point[:-1]), start
        if matrix is not None:
            slopes = s * slopes + (1.0 - s) * matrix
            along = residual(point[:-1]) - matrix @ (point[:-1] - begin)
        return np.asarray(np.column_stack([slopes, along]) / rows[:, None])

    last = x, 0.0
    equations = PathEquations(deformed, derivatives, np.append(sizes, 1.0))
    for point in follow(equations, np.append(x, 0.0), (-0.5, 1.0)):
        last = point.values[:-1], float(point.values[-1])
    if last[1] < 1.0:
        raise ConvergenceError(f"the path of the homotopy was lost at {last[1]:.3g} of its way")
    return last[0]
