"""The polynomial that a step leaves behind, for predictors and for the derivative at the next start."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import NDArray
from qmat.lagrange import LagrangeApproximation

Vector: TypeAlias = NDArray[np.float64]

TINY = float(np.finfo(float).tiny)


@lru_cache(maxsize=256)
def interpolation_matrix(nodes: tuple[float, ...], targets: tuple[float, ...]) -> Vector:
    """Matrix that takes values at ``nodes`` to values at ``targets``, both in units of the step."""
    matrix: Vector = LagrangeApproximation(np.array(nodes)).getInterpolationMatrix(np.array(targets))
    matrix.setflags(write=False)
    return matrix


@lru_cache(maxsize=256)
def continuation_matrix(
    nodes: tuple[float, ...], targets: tuple[float, ...], start: float, ratio: float
) -> Vector:
    """Matrix that takes values at the nodes of a step to values at the nodes of a later one."""
    # Steps of changing sizes need a new one each: Newton's products take a sixth of the time of Lagrange's.
    without_last, divided_differences = _newton(nodes)
    distances = (start + ratio * _as_array(targets))[:, None] - without_last
    products = np.ones((len(targets), len(nodes)))
    np.multiply.accumulate(distances, axis=1, out=products[:, 1:])
    matrix: Vector = products @ divided_differences
    matrix.setflags(write=False)
    return matrix


def lagrange_weights(nodes: Vector) -> Vector:
    """Factors 1 / prod_{j != k} (c_k - c_j) of the Lagrange polynomials of distinct nodes, shape (M,)."""
    distances = np.subtract.outer(nodes, nodes)
    np.fill_diagonal(distances, 1.0)
    weights: Vector = 1.0 / distances.prod(axis=1)
    return weights


@lru_cache(maxsize=64)
def _newton(nodes: tuple[float, ...]) -> tuple[Vector, Vector]:
    """All nodes but the last, and the matrix that takes values at the nodes to their divided differences."""
    points = _as_array(nodes)
    products = np.cumprod(np.subtract.outer(points, points[:-1]), axis=1)
    return points[:-1], np.linalg.inv(np.column_stack([np.ones(len(nodes)), products]))


@lru_cache(maxsize=64)
def _as_array(nodes: tuple[float, ...]) -> Vector:
    return np.array(nodes)


@lru_cache(maxsize=64)
def differentiation_row(nodes: tuple[float, ...], target: float) -> Vector:
    """Weights of the values at ``nodes`` in the derivative of their polynomial at ``target``."""
    approximation = LagrangeApproximation(np.array(nodes))
    at_nodes = approximation.getDerivativeMatrix()
    row: Vector = (interpolation_matrix(nodes, (target,)) @ at_nodes)[0]
    row.setflags(write=False)
    return row


def unresolved(nodes: tuple[float, ...], rows: Vector) -> Vector:
    """The part of u that its values at start and M nodes of a step, the rows, do not show; 0 for M < 3.

    It is the first coefficient in Legendre polynomials that they do not show, as far as the last three that
    they show tell how the coefficients go down, or by the nodes alone, where that is less: a start that does
    not fit the nodes is an error of the step before.
    """
    # Shapes: rows (M + 1, n) -> (n,).
    if len(nodes) < 3:
        return np.zeros(rows.shape[1])
    parts = []
    for coefficients, ahead in (
        (_last_coefficients((0.0, *nodes)) @ rows, 0.5),
        (_last_coefficients(nodes) @ rows[1:], 1.0),
    ):
        last, *before = np.abs(coefficients)
        parts.append(last * (last / np.maximum(np.max(before, axis=0), np.maximum(last, TINY))) ** ahead)
    return np.asarray(np.minimum(*parts))


@lru_cache(maxsize=64)
def _last_coefficients(nodes: tuple[float, ...]) -> Vector:
    """Matrix from values at ``nodes`` to the last three Legendre coefficients, the last first."""
    return np.asarray(np.linalg.inv(legvander(2.0 * _as_array(nodes) - 1.0, len(nodes) - 1))[:-4:-1])


@lru_cache(maxsize=64)
def coefficients_of_last(nodes: tuple[float, ...]) -> Vector:
    """The matrices of :func:`unresolved` on start and nodes, with and without the start, (2, 3, M + 1)."""
    matrices = np.zeros((2, 3, len(nodes) + 1))
    if len(nodes) > 2:
        matrices[0], matrices[1, :, 1:] = _last_coefficients((0.0, *nodes)), _last_coefficients(nodes)
    return matrices


@dataclass(frozen=True)
class EndDerivative:
    """What a step without a polynomial leaves behind: u' at its end."""

    value: Vector  # Shape (n,). u' at the end of the step.

    def derivative_at_end(self) -> Vector:
        """u' at the end of the step, shape (n,), a copy."""
        return self.value.copy()

    def pack(self) -> Vector:
        """All of it as one vector of numbers, for a message; :func:`unpack` is the inverse."""
        return np.concatenate([[0.0], self.value])


@dataclass(frozen=True)
class EndWithInterior(EndDerivative):
    """u' at the end of a step, and values within it, left out of messages, for a polynomial with its ends."""

    theta: tuple[float, ...] = ()  # Where they are, in (0, 1).
    inner: Vector | None = None  # Shape (P, n). u there, if it was kept.


class StepPolynomial(NamedTuple):
    """What a step leaves behind: the polynomials of u' and of the unknowns that are not integrated."""

    # time, dt: start and size of the step, in the unit of time of the problem.
    time: float
    dt: float
    nodes: tuple[float, ...]  # The M nodes in [0, 1].
    value: Vector  # Shape (M, n). u at the nodes.
    derivative: Vector  # Shape (M, n). u' at the nodes; meaningful in the first ``n_integrated`` columns.
    n_integrated: int  # Number of leading unknowns whose u' is interpolated; of the others u itself is.
    settled: bool = True  # Whether it is more than the first guess of a step that still iterates.

    def derivative_at_end(self) -> Vector:
        """u' at the end of the step, shape (n,), a copy."""
        k = self.n_integrated
        end = np.empty(self.value.shape[1])
        if self.nodes[-1] == 1.0:
            end[:k] = self.derivative[-1, :k]
        else:
            end[:k] = interpolation_matrix(self.nodes, (1.0,))[0] @ self.derivative[:, :k]
        if k < end.size:
            end[k:] = differentiation_row(self.nodes, 1.0) @ self.value[:, k:] / self.dt
        return end

    def left_behind(self, settled: bool, apart: bool) -> StepPolynomial:
        """The polynomial that goes with the value at the end of the step."""
        if apart:
            return self._replace(value=self.value.copy(), derivative=self.derivative.copy(), settled=settled)
        return self if settled == self.settled else self._replace(settled=settled)

    def pack(self) -> Vector:
        """All of it as one vector of numbers, for a message; :func:`unpack` is the inverse."""
        k, n = self.n_integrated, self.value.shape[1]
        about = [len(self.nodes), self.time, self.dt, k, n, self.settled, *self.nodes]
        # Unknowns that are not integrated have no u' here; where all are, a method may continue any u.
        value = self.value[:, k:] if k < n else self.value
        return np.concatenate([about, value.ravel(), self.derivative[:, :k].ravel()])

    def continuation(self, time: float, dt: float, nodes: tuple[float, ...]) -> Vector:
        """Matrix from the nodes of this step to those of a step at ``time`` of size ``dt``."""
        # Rounded, so that equal steps find their matrix made although their times are sums.
        start, ratio = round((time - self.time) / self.dt, 9), round(dt / self.dt, 9)
        return continuation_matrix(self.nodes, nodes, start, ratio)

    def extrapolate(
        self, time: float, dt: float, nodes: tuple[float, ...], value: Vector, derivative: Vector
    ) -> None:
        """Continue the polynomials to the nodes of another step: z into ``value``, U into ``derivative``."""
        k = self.n_integrated
        matrix = self.continuation(time, dt, nodes)
        np.matmul(matrix, self.derivative[:, :k], out=derivative[:, :k])
        if k < self.value.shape[1]:
            np.matmul(matrix, self.value[:, k:], out=value[:, k:])


# End of the new step, in units of the last one from its start, beyond which its polynomial is not used.
FARTHEST_EXTRAPOLATION = 3.5


def reaches(polynomial: Any, end: float, n_integrated: int) -> bool:
    """Whether the polynomial of a step can be continued to a later time."""
    if not isinstance(polynomial, StepPolynomial) or polynomial.n_integrated != n_integrated:
        return False
    return (end - polynomial.time) / polynomial.dt <= FARTHEST_EXTRAPOLATION


def unpack(numbers: Vector) -> EndDerivative | StepPolynomial | None:
    """The object that ``pack`` wrote as a vector; None for an empty one."""
    if not numbers.size:
        return None
    m = int(numbers[0])
    if m == 0:
        return EndDerivative(numbers[1:])
    time, dt, k, n = float(numbers[1]), float(numbers[2]), int(numbers[3]), int(numbers[4])
    nodes, rest = tuple(numbers[6 : 6 + m].tolist()), numbers[6 + m :]
    value = np.full((m, n), np.nan)
    known = value[:, k:] if k < n else value
    known[:] = rest[: known.size].reshape(known.shape)
    derivative = rest[known.size :].reshape(m, k)
    return StepPolynomial(time, dt, nodes, value, derivative, k, bool(numbers[5]))
