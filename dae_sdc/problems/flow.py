"""Incompressible flow on a staggered grid: sparse DAEs of index 2 and of any size."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from pySDC.core.space_transfer import SpaceTransfer

from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import InputError, require_count
from dae_sdc.problems._reference import require_finite, require_positive


class StaggeredTransfer(SpaceTransfer):  # type: ignore[misc]
    """Between a staggered grid and the one with cells twice as wide; keeps fields free of divergence.

    A coarse face has the mean of its two fine faces, a coarse cell the mean pressure of its four cells, less
    that of the last cell, whose pressure is zero. Prolongation is linear along a coarse face and keeps its
    mean; faces inside a coarse cell take the values for which all four cells have the divergence of the
    coarse one. The divergence of a restricted field is the mean of the divergences, and restricting what was
    prolonged gives it back.

    Parameters
    ----------
    fine_prob, coarse_prob : NavierStokes
        The second has the parameters ``fine_prob.coarse_params()``.
    params : dict
        Parameters of pySDC's base class.

    References
    ----------
    G. Toth, P. L. Roe, Divergence- and curl-preserving prolongation and restriction formulas, J. Comput.
    Phys. 180 (2002) 736, sec. 2.
    """

    def restrict(self, F: MeshDAE) -> MeshDAE:
        """A state of the coarse grid from one of the fine grid."""
        u, v, p = self.fine_prob.fields(F)
        means = (
            0.5 * (u[1::2, ::2] + u[1::2, 1::2]),
            0.5 * (v[::2, 1::2] + v[1::2, 1::2]),
            0.25 * (p[::2, ::2] + p[1::2, ::2] + p[::2, 1::2] + p[1::2, 1::2]),
        )
        state: MeshDAE = self.coarse_prob.pack(*means)
        return state

    def prolong(self, G: MeshDAE) -> MeshDAE:
        """A state of the fine grid from one of the coarse grid."""
        u, v, p = self.coarse_prob.fields(G)
        across, along = _faces(u), _faces(v.T).T
        # Half the change of the flow through a coarse cell, in its lower and upper or left and right half.
        low, high = (0.5 * np.diff(across[:, i::2], axis=0) for i in (0, 1))
        left, right = (0.5 * np.diff(along[i::2], axis=1) for i in (0, 1))
        m = 2 * self.coarse_prob.cells
        fine_u, fine_v = np.zeros((m - 1, m)), np.zeros((m, m - 1))
        fine_u[1::2], fine_v[:, 1::2] = across[1:-1], along[:, 1:-1]
        bend_u, bend_v = 0.5 * (right - left), 0.5 * (high - low)
        for i in (0, 1):
            fine_u[::2, i::2] = 0.5 * (across[:-1, i::2] + across[1:, i::2]) + bend_u
            fine_v[i::2, ::2] = 0.5 * (along[i::2, :-1] + along[i::2, 1:]) + bend_v
        slopes = [0.25 * s for s in np.gradient(p)]
        fine_p = np.empty((m, m))
        for i in (0, 1):
            for j in (0, 1):
                fine_p[i::2, j::2] = p + (2 * i - 1) * slopes[0] + (2 * j - 1) * slopes[1]
        state: MeshDAE = self.fine_prob.pack(fine_u, fine_v, fine_p)
        return state


def _faces(u: Vector) -> Vector:
    """Values on the two halves of every coarse face, walls included, linear along the faces of one line.

    Shape (m - 1, m) becomes (m + 1, 2 m). Beyond a wall the velocity along it is the opposite.
    """
    m = u.shape[1]
    wide = np.zeros((m + 1, m + 2))
    wide[1:-1, 1:-1] = u
    wide[:, 0], wide[:, -1] = -wide[:, 1], -wide[:, -2]
    change = (wide[:, 2:] - wide[:, :-2]) / 8.0
    halves = np.empty((m + 1, 2 * m))
    halves[:, ::2], halves[:, 1::2] = wide[:, 1:-1] - change, wide[:, 1:-1] + change
    return halves


@PROBLEMS.register("navier-stokes")
class NavierStokes(ProblemDAE):
    r"""Incompressible flow in a closed square, on a staggered grid of m times m cells; index 2.

    With the velocities y on the faces inside the square (u on vertical, v on horizontal ones), the pressures
    z in all cells but the last, where it is zero, and D, G = -D^T and L the discrete divergence, gradient
    and Laplacian,

    .. math::
        0 &= y' - \mathrm{nu}\, L y + \mathrm{inertia}\; N(y) + G z - f(t), \\
        0 &= D y - g(t).

    N is the convective term in divergence form with central means,

    .. math::
        N_u = \partial_x (\bar u^x)^2 + \partial_y (\bar u^y \bar v^x), \qquad
        N_v = \partial_x (\bar u^y \bar v^x) + \partial_y (\bar v^y)^2.

    The walls of the square of side 1 m do not let the fluid slip. The equation of the last cell, which
    follows from those of the others, is left out, so D G is nonsingular. The force f and the sources and
    sinks g are such that

    .. math::
        y = a(t)\, y_1 + b(t)\, y_2 + \mathrm{wells}\; d(t)\, y_3, \qquad z = q(t)\, z_1, \qquad
        a = 1 + \tfrac12 \sin 2t, \quad b = \cos 3t, \quad d = \cos 2t, \quad q = e^{-t},

    solves these equations, not only their limit, up to round-off on every grid. The velocities y_1 and y_2
    are differences of the stream functions :math:`\sin^2(\pi x) \sin^2(\pi y) / \pi` and
    :math:`\sin^2(\pi x) \sin^2(2 \pi y) / (2 \pi)` at the corners of the cells and therefore free of
    discrete divergence; y_3 has the means of :math:`(\sin^2(\pi x) \sin^2(\pi y), 0)` over the faces and
    flows from sources in the left half to sinks in the right; z_1 has the means of
    :math:`\cos(\pi x) \cos(\pi y)` over the cells.

    With wells = 0 the constraint is D y = 0, and Runge-Kutta and collocation methods see an ordinary
    differential equation for y: all U_m satisfy D U_m = 0, so z at a node follows from y there as in the
    exact equations. Methods with a node at the end of the step then have the order of y in z too. A g that
    changes with time brings out the order that the theory of index 2 gives z.

    Parameters
    ----------
    cells : int
        Number m of cells along a side, at least 2; there are 3 m^2 - 2 m - 1 unknowns; unit 1.
    nu : float
        Kinematic viscosity; unit m^2/s.
    inertia : float
        Factor of the convective term, 0 for Stokes flow; unit 1.
    wells : float
        Largest velocity that sources and sinks drive, 0 for none; unit m/s.
    **settings
        ``newton_tol`` and ``newton_maxiter`` of :class:`ProblemDAE`.

    References
    ----------
    F. H. Harlow, J. E. Welch, Numerical calculation of time-dependent viscous incompressible flow of fluid
    with free surface, Phys. Fluids 8 (1965) 2182. E. Hairer, C. Lubich, M. Roche, The Numerical Solution of
    Differential-Algebraic Systems by Runge-Kutta Methods, LNM 1409, Springer (1989), sec. 1, for the index.
    """

    title = "incompressible flow in a closed square, any number of cells"
    index = 2
    parameter_units = {"cells": "1", "nu": "m^2/s", "inertia": "1", "wells": "m/s"}
    reference = "Harlow, Welch (1965); manufactured force and sources"
    interval = (0.0, 1.0)
    dt = 0.05
    space_transfer: ClassVar[type] = StaggeredTransfer

    cells: int
    nu: float
    inertia: float
    wells: float

    def __init__(
        self,
        cells: int = 8,
        nu: float = 0.05,
        inertia: float = 1.0,
        wells: float = 0.5,
        **settings: Any,
    ) -> None:
        require_count("cells of NavierStokes", cells)
        m = int(cells)
        if m < 2:
            raise InputError(f"cells of NavierStokes must be at least 2; got {cells}")
        n_diff, n_alg = 2 * m * (m - 1), m * m - 1
        places = {
            "u": [f"[{i},{j}]" for i in range(1, m) for j in range(m)],
            "v": [f"[{i},{j}]" for i in range(m) for j in range(1, m)],
            "p": [f"[{i},{j}]" for i in range(m) for j in range(m)][:-1],
        }
        self.names = tuple(f"{name}{place}" for name, found in places.items() for place in found)
        self.units = ("m/s",) * n_diff + ("m^2/s^2",) * n_alg
        self.equation_names = (
            *(f"balance of momentum at {name}" for name in self.names[:n_diff]),
            *(f"balance of mass in cell {place}" for place in places["p"]),
        )
        super().__init__(n_diff, n_alg, **settings)
        self._makeAttributeAndRegister(*self.parameter_units, localVars=locals())
        require_positive(self, "nu")
        require_finite(self, "inertia", "wells")
        self._half = m * (m - 1)
        self._build()
        self._manufacture()

    def fields(self, state: npt.ArrayLike) -> tuple[Vector, Vector, Vector]:
        """u of shape (m - 1, m), v of shape (m, m - 1) and p of shape (m, m), first index along x."""
        m, k = self.cells, self._half
        values = np.asarray(state).view(np.ndarray)
        pressure = np.append(values[2 * k :], 0.0).reshape(m, m)
        return values[:k].reshape(m - 1, m), values[k : 2 * k].reshape(m, m - 1), pressure

    def pack(self, u: Vector, v: Vector, p: Vector) -> MeshDAE:
        """The state of these fields, with the pressure of the last cell taken as zero."""
        pressure = p.ravel()[:-1] - p[-1, -1]
        return attach(np.concatenate([u.ravel(), v.ravel(), pressure]), self.n_diff)

    def _build(self) -> None:
        """The discrete operators as kronecker products, and the parts of the Jacobian on one pattern."""
        m = self.cells
        cell, line = sparse.eye_array(m), sparse.eye_array(m - 1)
        # From the m - 1 lines inside the square to the m cells of a row; its walls carry zeros.
        change = m * sparse.diags_array([1.0, -1.0], offsets=[0, -1], shape=(m, m - 1))
        mean = abs(change) / (2.0 * m)
        twice = -(change.T @ change)
        # A value half a cell from a wall has its opposite behind it.
        ends = np.zeros(m)
        ends[0] -= 2.0 * m * m
        ends[-1] -= 2.0 * m * m
        across = -(change @ change.T) + sparse.diags_array(ends)
        laplacian = sparse.block_diag(
            [
                sparse.kron(twice, cell) + sparse.kron(line, across),
                sparse.kron(cell, twice) + sparse.kron(across, line),
            ]
        )
        self._divergence = sparse.csr_array(
            sparse.hstack([sparse.kron(change, cell), sparse.kron(cell, change)])
        )[:-1]
        self._viscous = sparse.csr_array(-self.nu * laplacian)
        self._gradient = sparse.csr_array(-self._divergence.T)
        # Means along x and y: u in cells, u and v at the inner corners, v in cells; N = T (P y * Q y).
        in_u, in_v = sparse.kron(mean, cell), sparse.kron(cell, mean)
        at_u, at_v = sparse.kron(line, mean.T), sparse.kron(mean.T, line)
        first = sparse.block_array([[in_u, None], [at_u, None], [None, in_v]])
        second = sparse.block_array([[in_u, None], [None, at_v], [None, in_v]])
        self._first, self._second = sparse.csr_array(first), sparse.csr_array(second)
        self._flux = sparse.csr_array(
            sparse.block_array(
                [
                    [sparse.kron(-change.T, cell), sparse.kron(line, change), None],
                    [None, sparse.kron(change, line), sparse.kron(cell, -change.T)],
                ]
            )
        )
        self._build_jacobian()

    def _build_jacobian(self) -> None:
        """Entries of dF/du' + c dF/du on one pattern: mass + c (slope + convection @ y)."""
        n, k = self.n, self.n_diff
        linear = sparse.coo_array(
            sparse.block_array([[self._viscous, self._gradient], [self._divergence, None]])
        )
        rows, columns, by, values = _bilinear(self._flux, self._first, self._second)
        diagonal = np.arange(k)
        # 64 bits: n^2 exceeds 32.
        keys = [
            np.asarray(j, dtype=np.int64) * n + i
            for i, j in ((*linear.coords,), (rows, columns), (diagonal, diagonal))
        ]
        pattern, place = np.unique(np.concatenate(keys), return_inverse=True)
        of_linear, of_convection, of_mass = np.split(place, np.cumsum([len(key) for key in keys])[:-1])
        self._slope = np.bincount(of_linear, linear.data, len(pattern))
        self._mass = np.bincount(of_mass, minlength=len(pattern)).astype(float)
        self._convection = sparse.csr_array(
            sparse.coo_array((self.inertia * values, (of_convection, by)), shape=(len(pattern), k))
        )
        starts = np.searchsorted(pattern, n * np.arange(n + 1))
        self.sparsity = sparse.csc_matrix((np.ones(len(pattern)), pattern % n, starts), shape=(n, n))
        self.sparsity.has_sorted_indices = True

    def _manufacture(self) -> None:
        """The parts of the exact solution, and those of f and g in the order of :meth:`_sources`."""
        m = self.cells
        x = np.arange(m + 1) / m
        wide, narrow = np.sin(math.pi * x) ** 2, np.sin(2.0 * math.pi * x) ** 2
        streams = [np.outer(wide, wide) / math.pi, np.outer(wide, narrow) / (2.0 * math.pi)]
        parts = [
            np.concatenate([m * np.diff(s[1:-1], axis=1).ravel(), -m * np.diff(s[:, 1:-1], axis=0).ravel()])
            for s in streams
        ]
        means = m * np.diff(0.5 * x - np.sin(2.0 * math.pi * x) / (4.0 * math.pi))
        wells = np.zeros(self.n_diff)
        wells[: self._half] = self.wells * np.outer(wide[1:-1], means).ravel()
        parts.append(wells)
        means = m * np.diff(np.sin(math.pi * x)) / math.pi
        pressure = np.outer(means, means).ravel()
        self._pressure = pressure[:-1] - pressure[-1]
        self._parts = np.column_stack(parts)

        def product(first: Vector, second: Vector) -> Vector:
            term: Vector = self._flux @ ((self._first @ first) * (self._second @ second))
            return self.inertia * term

        pairs = [
            product(one, one) if i == j else product(one, other) + product(other, one)
            for i, one in enumerate(parts)
            for j, other in enumerate(parts)
            if i <= j
        ]
        viscous = [self._viscous @ part for part in parts]
        self._force = np.column_stack([*parts, *viscous, *pairs, self._gradient @ self._pressure])
        self._wells = self._divergence @ wells

    @staticmethod
    def _amounts(t: float) -> tuple[tuple[float, float, float], tuple[float, float, float], float]:
        """a, b and d, their derivatives, and q."""
        amounts = (1.0 + 0.5 * math.sin(2.0 * t), math.cos(3.0 * t), math.cos(2.0 * t))
        rates = (math.cos(2.0 * t), -3.0 * math.sin(3.0 * t), -2.0 * math.sin(2.0 * t))
        return amounts, rates, math.exp(-t)

    def _sources(self, t: float) -> tuple[Vector, Vector]:
        """f and g."""
        (a, b, d), rates, q = self._amounts(t)
        amounts = [*rates, a, b, d, a * a, a * b, a * d, b * b, b * d, d * d, q]
        return self._force @ amounts, d * self._wells

    @np.errstate(over="ignore", invalid="ignore")
    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """The residual as printed above; see :meth:`ProblemDAE.eval_f`."""
        k = self.n_diff
        x, value = u.view(np.ndarray), np.empty(self.n)
        y = x[:k]
        force, wells = self._sources(t)
        momentum = value[:k]
        np.subtract(du.view(np.ndarray)[:k], force, out=momentum)
        momentum += self._viscous @ y
        momentum += self._gradient @ x[k:]
        if self.inertia != 0.0:
            momentum += self.inertia * (self._flux @ ((self._first @ y) * (self._second @ y)))
        np.subtract(self._divergence @ y, wells, out=value[k:])
        return value

    @np.errstate(over="ignore", invalid="ignore")
    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
        """The matrix dF/du' + c dF/du, CSC of the pattern ``sparsity``."""
        if c == 0.0:
            data = self._mass.copy()
        else:
            data = self._convection @ u.view(np.ndarray)[: self.n_diff]
            data += self._slope
            data *= c
            data += self._mass
        pattern = self.sparsity
        matrix = sparse.csc_matrix((data, pattern.indices, pattern.indptr), shape=pattern.shape)
        matrix.has_sorted_indices = True
        return matrix

    def u_exact(self, t: float) -> MeshDAE:
        """The exact solution at any t."""
        amounts, _, q = self._amounts(t)
        return attach(np.concatenate([self._parts @ amounts, q * self._pressure]), self.n_diff)

    def du_exact(self, t: float) -> MeshDAE:
        """Its derivative."""
        _, rates, q = self._amounts(t)
        return attach(np.concatenate([self._parts @ rates, -q * self._pressure]), self.n_diff)

    def coarse_params(self) -> dict[str, Any]:
        """Parameters on cells twice as wide; raises :class:`InputError` if there are none."""
        if self.cells % 2 or self.cells < 4:
            raise InputError(
                f"NavierStokes coarsens by joining two by two cells, an even number of at least 4 along a "
                f"side; it has {self.cells}"
            )
        own: dict[str, Any] = {name: getattr(self, name) for name in self.parameter_units}
        return {**own, "cells": self.cells // 2}


def _bilinear(T: Any, P: Any, Q: Any) -> tuple[Vector, Vector, Vector, Vector]:
    """The Jacobian of T (P y * Q y), which is linear in y: rows i, columns j, l and factors of y_l.

    Entry (i, j) is the sum over l of factor y_l with the factors T_ik (Q_kj P_kl + P_kj Q_kl).
    """
    targets, weights = _padded(T.T)
    one, of_one = _padded(P)
    other, of_other = _padded(Q)
    found: list[list[Vector]] = []
    for s in range(targets.shape[1]):
        for p in range(one.shape[1]):
            for q in range(other.shape[1]):
                factor = weights[:, s] * of_one[:, p] * of_other[:, q]
                kept = factor != 0.0
                for j, y in ((other[:, q], one[:, p]), (one[:, p], other[:, q])):
                    found.append([targets[kept, s], j[kept], y[kept], factor[kept]])
    rows, columns, by, values = (np.concatenate(part) for part in zip(*found, strict=True))
    return rows, columns, by, values


def _padded(matrix: Any) -> tuple[Any, Vector]:
    """Columns and entries of every row, filled up with zeros to the length of the longest."""
    rows = sparse.csr_array(matrix)
    lengths = np.diff(rows.indptr)
    columns = np.zeros((rows.shape[0], lengths.max()), dtype=np.intp)
    entries = np.zeros(columns.shape)
    row = np.repeat(np.arange(rows.shape[0]), lengths)
    place = np.arange(len(row)) - rows.indptr[row]
    columns[row, place], entries[row, place] = rows.indices, rows.data
    return columns, entries
