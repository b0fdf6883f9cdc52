"""Sparse DAEs of any size, with transfers to half as many cells: lines of equal sections, flow on a grid."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from pySDC.core.space_transfer import SpaceTransfer

from dae_sdc.dae.declaration import when_asked
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import InputError, require_count
from dae_sdc.problems._library import Parameter, SolvedProblem, Values, finite, pattern, positive
from dae_sdc.registry import unknown

FEEDS = ("wave", "end")


class LineTransfer(SpaceTransfer):  # type: ignore[misc]
    """Transfer between a line and that with half as many sections, exact for linear functions.

    Restriction takes every second voltage of the capacitors, prolongation interpolates them linearly.
    Voltages of the diodes, in the middles of sections, are restricted to the means of two; prolongation keeps
    the mean, with the slope of the neighbours. Restriction after prolongation is the identity. Next to the
    source voltages are extrapolated, because a transfer does not depend on time. Differential and algebraic
    unknowns are transferred separately.

    The coarse problem has the parameters ``fine_prob.coarse_params()``.
    """

    def restrict(self, F: MeshDAE) -> MeshDAE:
        """The state of the coarse line, given one of the fine line."""
        fine, m = F.view(np.ndarray), self.coarse_prob.n_diff
        coarse = np.empty(2 * m)
        coarse[:m] = fine[1 : 2 * m : 2]
        coarse[m:] = 0.5 * (fine[2 * m :: 2] + fine[2 * m + 1 :: 2])
        return attach(coarse, m)

    def prolong(self, G: MeshDAE) -> MeshDAE:
        """The state of the fine line, given one of the coarse line."""
        m = self.coarse_prob.n_diff
        voltage, middle = np.split(G.view(np.ndarray), 2)
        fine = np.empty(4 * m)
        fine[1 : 2 * m : 2] = voltage
        fine[2 : 2 * m : 2] = 0.5 * (voltage[:-1] + voltage[1:])
        fine[0] = 1.5 * voltage[0] - 0.5 * voltage[1]
        quarter = 0.25 * np.gradient(middle)
        fine[2 * m :: 2] = middle - quarter
        fine[2 * m + 1 :: 2] = middle + quarter
        return attach(fine, 2 * m)


_LINE_LISTS = 8  # Place of the cosines of the phases in the parameters; the sines follow.


def line_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`TransmissionLine`, in V/ms at the nodes and V in the middles of sections."""
    n, rate, omega, half, drop, U_d = int(p[0]), p[1], p[2], p[3], p[4], p[5]
    wave, step = p[6] != 0.0, p[7]
    cosines, sines = _LINE_LISTS, _LINE_LISTS + 2 * n
    c, s = math.cos(omega * t), math.sin(omega * t)
    # Second differences of the wave in closed form, which loses no digits to cancellation.
    bend = 4.0 * half * math.sin(0.25 * step) ** 2
    for k in range(n):
        before = u[k - 1] if k > 0 else half - half * c
        after = u[n + k + 1] if k < n - 1 else u[n + k]
        out[k] = rate * (2.0 * u[k] - u[n + k] - after) + du[k]
        out[n + k] = u[n + k] - 0.5 * (before + u[k])
        at_rest = 1.0
        if wave:
            cosine = c * p[cosines + k] + s * p[sines + k]
            sine = s * p[cosines + k] - c * p[sines + k]
            out[k] += rate * bend * cosine - half * omega * sine
            cosine = c * p[cosines + n + k] + s * p[sines + n + k]
            out[n + k] += 0.5 * bend * cosine
            at_rest = math.exp((half - half * cosine) / U_d)
        out[n + k] += drop * (math.exp(u[n + k] / U_d) - at_rest)
    if wave:
        # At the open end the wave has a slope, w_{N+1} := w_N has none.
        out[n - 1] += rate * half * 2.0 * math.sin(omega * t - n * step) * math.sin(0.5 * step)


@PROBLEMS.register("transmission-line")
class TransmissionLine(SolvedProblem):
    r"""RC line with a diode to ground in every section; index 1, half of the unknowns algebraic.

    Section k = 1 ... N leads from node k - 1 to node k through two resistors R/2. Between them, at the
    voltage :math:`w_k`, there is a diode to ground but no capacitor: this current balance is a constraint.
    Node k has the capacitance C to ground (C/2 at the open end) and the voltage :math:`v_k`, node 0 the
    source :math:`V(t)`. Divided by capacitance and conductance the balances are

    .. math::
        0 &= v_k' - \frac{2}{RC} (w_k - 2 v_k + w_{k+1}) - a_k(t), \qquad w_{N+1} := w_N, \\
        0 &= w_k - \tfrac12 (v_{k-1} + v_k) + \tfrac{R}{4} I_s (e^{w_k / U_d} - 1) - b_k(t), \qquad v_0 := V.

    The derivative of constraint k with respect to :math:`w_k` is at least 1. The source is
    :math:`V = \tfrac12\,\mathrm{amplitude}\,(1 - \cos \omega t)`, with :math:`\omega = 2 \pi\,
    \mathrm{frequency}`. With ``feed="wave"`` small current sources at all nodes, :math:`a_k` and
    :math:`b_k`, are such that the travelling wave

    .. math::
        \varphi(s, t) = \tfrac12\,\mathrm{amplitude}\,(1 - \cos(\omega t - 2 \pi\,\mathrm{waves}\; s / N)),
        \qquad v_k = \varphi(k, t), \quad w_k = \varphi(k - \tfrac12, t),

    solves the equations exactly for every N. With ``feed="end"`` the only source is V,
    :math:`a = b = 0`; the line starts at rest, all unknowns and derivatives zero, and there is no closed form
    for later times.

    The eigenvalues of the linear part lie between -8 / (RC) and 0 for every N, as more sections are a longer
    line. For a finer grid on the same line divide R, C and I_s by the factor of ``sections``.
    """

    title = "RC line with diodes, any number of sections"
    index = 1
    parameters = {
        "sections": Parameter(50, "1", "Number of sections, half the number of unknowns"),
        **positive("kOhm", "Resistance of a section", R=1.0),
        **positive("uF", "Capacitance of a section", C=0.1),
        **finite("mA", "Saturation current of a diode, not negative", I_s=2.5e-06),
        **positive("V", "Thermal voltage of a diode times its emission coefficient", U_d=0.045),
        **finite("V", "Largest voltage of the source", amplitude=0.5),
        **finite("kHz", "Frequency of the source", frequency=0.25),
        **finite("1", 'Number of wave lengths on the line with feed "wave"', waves=1.0),
        "feed": Parameter("wave", "none", '"wave" or "end", as above'),
    }
    reference = (
        "Made for this package. C.-W. Ho, A. E. Ruehli, P. A. Brennan, The modified nodal approach to "
        "network analysis, IEEE Trans. Circuits Syst. 22 (1975) 504, for the balances; the diode's values "
        "are those of a small-signal silicon diode"
    )
    interval = (0.0, 2.0)
    dt = 0.1
    residual_kernel = line_residual
    time_unit: ClassVar[str] = "ms"
    space_transfer: ClassVar[type] = LineTransfer

    frequency: float
    waves: float

    def _check_parameters(self) -> None:
        require_count("sections of TransmissionLine", self.sections, 1_000_000)
        if self.I_s < 0.0:
            raise InputError(f"I_s of TransmissionLine must not be negative; got {self.I_s}")
        if self.feed not in FEEDS:
            raise InputError(unknown("feed", self.feed, FEEDS))

    def _counts(self) -> tuple[int, int]:
        """Numbers of nodes and of middles of sections."""
        return int(self.sections), int(self.sections)

    @when_asked
    def names(self) -> tuple[str, ...]:
        """Voltages of the nodes and of the middles of sections."""
        numbers = range(1, self.n_diff + 1)
        return (*(f"v[{k}]" for k in numbers), *(f"w[{k}]" for k in numbers))

    units = when_asked(lambda self: ("V",) * self.n)

    @when_asked
    def equation_names(self) -> tuple[str, ...]:
        """Balances of currents."""
        numbers = range(1, self.n_diff + 1)
        return (
            *(f"current into node {k}" for k in numbers),
            *(f"current into the middle of section {k}" for k in numbers),
        )

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        n = self.n_diff
        k = np.arange(n)
        rows = [k, n + k, n + k[1:], k, k[:-1], n + k]
        columns = [k, k, k[:-1], n + k, n + k[1:], n + k]
        self.sparsity = pattern(2 * n, np.concatenate(rows), np.concatenate(columns))

    def kernel_parameters(self) -> npt.ArrayLike:
        """Size, constants of the equations, whether there is a wave, and its phases."""
        n = self.n_diff
        head = [n, 2.0 / (self.R * self.C), self._omega, 0.5 * self.amplitude, 0.25 * self.R * self.I_s]
        head += [self.U_d, self.feed == "wave", 2.0 * math.pi * self.waves / n]
        phase = self._phase()
        return np.concatenate([head, np.cos(phase), np.sin(phase)])

    @property
    def _omega(self) -> float:
        return 2.0 * math.pi * self.frequency

    def _phase(self) -> Vector:
        """2 pi waves s / N at all nodes, capacitors first."""
        n = self.n_diff
        places = np.concatenate([np.arange(1, n + 1), np.arange(n) + 0.5])
        return 2.0 * math.pi * self.waves / n * places

    def _solution(self, t: float) -> Values:
        """The wave at any t; the line at rest at t = 0 with ``feed="end"``."""
        if self.feed == "end":
            self._only_at_start(t, " with feed='end'", "use feed='wave', or ")
            return np.zeros(self.n), np.zeros(self.n)
        phase = self._omega * t - self._phase()
        # 1 - cos(x) as 2 sin(x / 2)^2, which is as exact where it is small.
        u = self.amplitude * np.sin(0.5 * phase) ** 2
        return u, 0.5 * self.amplitude * self._omega * np.sin(phase)

    def coarse_params(self) -> dict[str, Any]:
        """Parameters of the line with half as many sections; raises :class:`InputError` if there is none."""
        if self.sections % 2 or self.sections < 4:
            raise InputError(
                f"TransmissionLine coarsens by joining pairs of sections, an even number of at least 4; "
                f"it has {self.sections}"
            )
        own: dict[str, Any] = {name: getattr(self, name) for name in self.parameter_units}
        doubled = {name: 2.0 * own[name] for name in ("R", "C", "I_s")}
        return {**own, "sections": self.sections // 2, **doubled}


class StaggeredTransfer(SpaceTransfer):  # type: ignore[misc]
    """Transfer between a staggered grid and that with cells twice as wide; preserves zero divergence.

    Restriction takes the mean of the two fine faces of a coarse face, and the mean pressure of the four fine
    cells of a coarse cell, less that of the last coarse cell. Prolongation is linear along a coarse face and
    keeps its mean; faces inside a coarse cell take the values for which all four fine cells have the
    divergence of the coarse one. The divergence of a restricted field is the mean of the fine divergences,
    and restriction after prolongation is the identity.

    The coarse problem has the parameters ``fine_prob.coarse_params()``.

    References
    ----------
    G. Toth, P. L. Roe, Divergence- and curl-preserving prolongation and restriction formulas, J. Comput.
    Phys. 180 (2002) 736, sec. 2.
    """

    def restrict(self, F: MeshDAE) -> MeshDAE:
        """The state on the coarse grid, given one on the fine grid."""
        u, v, p = self.fine_prob.fields(F)
        means = (
            0.5 * (u[1::2, ::2] + u[1::2, 1::2]),
            0.5 * (v[::2, 1::2] + v[1::2, 1::2]),
            0.25 * (p[::2, ::2] + p[1::2, ::2] + p[::2, 1::2] + p[1::2, 1::2]),
        )
        state: MeshDAE = self.coarse_prob.pack(*means)
        return state

    def prolong(self, G: MeshDAE) -> MeshDAE:
        """The state on the fine grid, given one on the coarse grid."""
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
    """Values on both halves of coarse faces, of which those along a wall have the other sign behind it."""
    m = u.shape[1]
    wide = np.zeros((m + 1, m + 2))
    wide[1:-1, 1:-1] = u
    wide[:, 0], wide[:, -1] = -wide[:, 1], -wide[:, -2]
    change = (wide[:, 2:] - wide[:, :-2]) / 8.0
    halves = np.empty((m + 1, 2 * m))
    halves[:, ::2], halves[:, 1::2] = wide[:, 1:-1] - change, wide[:, 1:-1] + change
    return halves


_FLOW_LISTS = 4  # Place of the parts of the force in the parameters, after cells, nu, inertia and wells.
_PARTS = 13  # Number of parts of the force on every face.


def flow_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`NavierStokes`, face by face and cell by cell.

    Face (i, j) of u lies right of cell (i, j), and both have number i m + j; face (i, j) of v lies above cell
    (i, j). The velocity through a wall is zero; behind a wall the tangential one has the opposite sign.
    """
    m, nu, inertia = int(p[0]), p[1], p[2]
    half = m * (m - 1)
    last = 2 * half + m * m - 1
    viscous, weight = nu * m * m, 0.25 * inertia * m
    a, b, d = 1.0 + 0.5 * math.sin(2.0 * t), math.cos(3.0 * t), p[3] * math.cos(2.0 * t)
    da, db, dd = math.cos(2.0 * t), -3.0 * math.sin(3.0 * t), -2.0 * p[3] * math.sin(2.0 * t)
    aa, ab, ad, bb, bd = inertia * a * a, inertia * a * b, inertia * a * d, inertia * b * b, inertia * b * d
    q, at = math.exp(-t), _FLOW_LISTS
    for r in range(2 * half):
        force = da * p[at] + db * p[at + 1] + dd * p[at + 2]
        force += nu * (a * p[at + 3] + b * p[at + 4] + d * p[at + 5])
        force += aa * p[at + 6] + ab * p[at + 7] + ad * p[at + 8] + bb * p[at + 9] + bd * p[at + 10]
        force += inertia * d * d * p[at + 11] + q * p[at + 12]
        out[r] = du[r] - force
        at += _PARTS
    for i in range(m - 1):
        for j in range(m):
            r, s = i * m + j, half + i * (m - 1) + j
            own = u[r]
            west, east = u[r - m] if i > 0 else 0.0, u[r + m] if i < m - 2 else 0.0
            south, north = u[r - 1] if j > 0 else -own, u[r + 1] if j < m - 1 else -own
            below = u[s - 1] + u[s + m - 2] if j > 0 else 0.0
            above = u[s] + u[s + m - 1] if j < m - 1 else 0.0
            ahead = u[2 * half + r + m] if 2 * half + r + m < last else 0.0
            bend = 4.0 * own - west - east - south - north
            flux = (own + east) * (own + east) - (west + own) * (west + own)
            flux += (own + north) * above - (south + own) * below
            out[r] += viscous * bend + weight * flux + m * (ahead - u[2 * half + r])
    for i in range(m):
        for j in range(m - 1):
            r, s = half + i * (m - 1) + j, i * m + j
            own = u[r]
            south, north = u[r - 1] if j > 0 else 0.0, u[r + 1] if j < m - 2 else 0.0
            west, east = u[r - m + 1] if i > 0 else -own, u[r + m - 1] if i < m - 1 else -own
            left = u[s - m] + u[s - m + 1] if i > 0 else 0.0
            right = u[s] + u[s + 1] if i < m - 1 else 0.0
            ahead = u[2 * half + s + 1] if 2 * half + s + 1 < last else 0.0
            bend = 4.0 * own - west - east - south - north
            flux = (own + north) * (own + north) - (south + own) * (south + own)
            flux += (own + east) * right - (west + own) * left
            out[r] += viscous * bend + weight * flux + m * (ahead - u[2 * half + s])
    for i in range(m):
        for j in range(m):
            r, s = i * m + j, half + i * (m - 1) + j
            if 2 * half + r < last:
                flow = (u[r] if i < m - 1 else 0.0) - (u[r - m] if i > 0 else 0.0)
                flow += (u[s] if j < m - 1 else 0.0) - (u[s - 1] if j > 0 else 0.0)
                out[2 * half + r] = m * flow - d * p[at + r]


@PROBLEMS.register("navier-stokes")
class NavierStokes(SolvedProblem):
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

    The fluid does not slip along the walls of the square of side 1 m. The equation of the last cell, which
    follows from the others, is left out, so D G is nonsingular. The force f and the sources g are such that

    .. math::
        y = a(t)\, y_1 + b(t)\, y_2 + \mathrm{wells}\; d(t)\, y_3, \qquad z = q(t)\, z_1, \qquad
        a = 1 + \tfrac12 \sin 2t, \quad b = \cos 3t, \quad d = \cos 2t, \quad q = e^{-t},

    solves these discrete equations up to round-off on every grid. The velocities y_1 and y_2
    are differences of the stream functions :math:`\sin^2(\pi x) \sin^2(\pi y) / \pi` and
    :math:`\sin^2(\pi x) \sin^2(2 \pi y) / (2 \pi)` at the corners of the cells and therefore free of
    discrete divergence; y_3 has the means of :math:`(\sin^2(\pi x) \sin^2(\pi y), 0)` over the faces and
    flows from sources in the left half to sinks in the right; z_1 has the means of
    :math:`\cos(\pi x) \cos(\pi y)` over the cells.

    With wells = 0 the constraint is D y = 0, and Runge-Kutta and collocation methods see an ordinary
    differential equation for y: all U_m satisfy D U_m = 0, so z at a node follows from y there as in the
    exact equations. Methods with a node at the end of the step then have the order of y in z too. With
    wells != 0, g depends on time and z has the order of the theory for index 2.
    """

    title = "incompressible flow in a closed square, any number of cells"
    index = 2
    parameters = {
        "cells": Parameter(8, "1", "Number m of cells along a side; 3 m^2 - 2 m - 1 unknowns"),
        **positive("m^2/s", "Kinematic viscosity", nu=0.05),
        **finite("1", "Factor of the convective term, 0 for Stokes flow", inertia=1.0),
        **finite("m/s", "Largest velocity that sources and sinks drive, 0 for none", wells=0.5),
    }
    reference = (
        "F. H. Harlow, J. E. Welch, Numerical calculation of time-dependent viscous incompressible flow of "
        "fluid with free surface, Phys. Fluids 8 (1965) 2182. E. Hairer, C. Lubich, M. Roche, The Numerical "
        "Solution of Differential-Algebraic Systems by Runge-Kutta Methods, LNM 1409, Springer (1989), sec. "
        "1, for the index"
    )
    interval = (0.0, 1.0)
    dt = 0.05
    residual_kernel = flow_residual
    space_transfer: ClassVar[type] = StaggeredTransfer

    def _check_parameters(self) -> None:
        require_count("cells of NavierStokes", self.cells, 1000)
        if self.cells < 2:
            raise InputError(f"cells of NavierStokes must be at least 2; got {self.cells}")

    def _counts(self) -> tuple[int, int]:
        """Numbers of velocities and of pressures."""
        m = int(self.cells)
        self._cells, self._half = m, m * (m - 1)
        return 2 * self._half, m * m - 1

    @when_asked
    def names(self) -> tuple[str, ...]:
        """Velocities on the faces and pressures in the cells."""
        m = self._cells
        return (
            *(f"u[{i},{j}]" for i in range(1, m) for j in range(m)),
            *(f"v[{i},{j}]" for i in range(m) for j in range(1, m)),
            *[f"p[{i},{j}]" for i in range(m) for j in range(m)][:-1],
        )

    units = when_asked(lambda self: ("m/s",) * self.n_diff + ("m^2/s^2",) * self.n_alg)

    @when_asked
    def equation_names(self) -> tuple[str, ...]:
        """Balances of momentum and of mass."""
        return (
            *(f"balance of momentum at {name}" for name in self.names[: self.n_diff]),
            *(f"balance of mass in cell {name[1:]}" for name in self.names[self.n_diff :]),
        )

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        m = self._cells
        cell, line = sparse.eye_array(m), sparse.eye_array(m - 1)
        # Difference and mean from the m - 1 faces of a row to its m cells; zero on the walls.
        change = m * sparse.diags_array([1.0, -1.0], offsets=[0, -1], shape=(m, m - 1))
        mean = abs(change) / (2.0 * m)
        twice = -(change.T @ change)
        # Half a cell behind a wall the value has the opposite sign.
        ends = np.zeros(m)
        ends[0] -= 2.0 * m * m
        ends[-1] -= 2.0 * m * m
        across = -(change @ change.T) + sparse.diags_array(ends)
        laplacian = sparse.csr_array(
            sparse.block_diag(
                [
                    sparse.kron(twice, cell) + sparse.kron(line, across),
                    sparse.kron(cell, twice) + sparse.kron(across, line),
                ]
            )
        )
        divergence = sparse.csr_array(sparse.hstack([sparse.kron(change, cell), sparse.kron(cell, change)]))
        divergence = divergence[:-1]
        # Convective term N = T (P y * Q y): P, Q are means of u in cells, u and v at corners, v in cells.
        in_u, in_v = sparse.kron(mean, cell), sparse.kron(cell, mean)
        at_u, at_v = sparse.kron(line, mean.T), sparse.kron(mean.T, line)
        first = sparse.csr_array(sparse.block_array([[in_u, None], [at_u, None], [None, in_v]]))
        second = sparse.csr_array(sparse.block_array([[in_u, None], [None, at_v], [None, in_v]]))
        flux = sparse.csr_array(
            sparse.block_array(
                [
                    [sparse.kron(-change.T, cell), sparse.kron(line, change), None],
                    [None, sparse.kron(change, line), sparse.kron(cell, -change.T)],
                ]
            )
        )
        among_velocities = abs(laplacian) + abs(flux) @ (first + second)
        whole = sparse.block_array([[among_velocities, abs(divergence.T)], [abs(divergence), None]])
        self.sparsity = pattern(self.n, *whole.nonzero())  # Kronecker products store explicit zeros
        self._parts, self._pressure = self._modes()
        parts = self._parts.T
        means = [(first @ part, second @ part) for part in parts]
        pairs = [
            flux @ (x * b if i == j else x * b + a * y)
            for i, (x, y) in enumerate(means)
            for j, (a, b) in enumerate(means)
            if i <= j
        ]
        gradient = -(divergence.T @ self._pressure)
        force = np.column_stack([*parts, *(-(laplacian @ part) for part in parts), *pairs, gradient])
        self._sources = np.concatenate([force.ravel(), divergence @ parts[2]])

    def fields(self, state: npt.ArrayLike) -> tuple[Vector, Vector, Vector]:
        """u of shape (m - 1, m), v of shape (m, m - 1) and p of shape (m, m), first index along x."""
        m, k = self._cells, self._half
        values = np.asarray(state).view(np.ndarray)
        pressure = np.append(values[2 * k :], 0.0).reshape(m, m)
        return values[:k].reshape(m - 1, m), values[k : 2 * k].reshape(m, m - 1), pressure

    def pack(self, u: Vector, v: Vector, p: Vector) -> MeshDAE:
        """The state of fields with the shapes of :meth:`fields`; pressures less that of the last cell."""
        pressure = p.ravel()[:-1] - p[-1, -1]
        return attach(np.concatenate([u.ravel(), v.ravel(), pressure]), self.n_diff)

    def _modes(self) -> tuple[Vector, Vector]:
        """The velocities y_1, y_2 and y_3 as columns, and the pressure z_1 with zero in the last cell."""
        m = self._cells
        x = np.arange(m + 1) / m
        wide, narrow = np.sin(math.pi * x) ** 2, np.sin(2.0 * math.pi * x) ** 2
        streams = [np.outer(wide, wide) / math.pi, np.outer(wide, narrow) / (2.0 * math.pi)]
        parts = [
            np.concatenate([m * np.diff(s[1:-1], axis=1).ravel(), -m * np.diff(s[:, 1:-1], axis=0).ravel()])
            for s in streams
        ]
        means = m * np.diff(0.5 * x - np.sin(2.0 * math.pi * x) / (4.0 * math.pi))
        parts.append(np.concatenate([np.outer(wide[1:-1], means).ravel(), np.zeros(self._half)]))
        means = m * np.diff(np.sin(math.pi * x)) / math.pi
        pressure = np.outer(means, means).ravel()
        return np.column_stack(parts), pressure[:-1] - pressure[-1]

    def kernel_parameters(self) -> npt.ArrayLike:
        """The parameters, and the parts of the force and of the sources."""
        return np.concatenate([[self._cells, self.nu, self.inertia, self.wells], self._sources])

    def _solution(self, t: float) -> Values:
        # Factors (a, b, wells d) of y_1, y_2, y_3 and q of z_1.
        d, q = self.wells, math.exp(-t)
        amounts = np.array([1.0 + 0.5 * math.sin(2.0 * t), math.cos(3.0 * t), d * math.cos(2.0 * t)])
        rates = np.array([math.cos(2.0 * t), -3.0 * math.sin(3.0 * t), -2.0 * d * math.sin(2.0 * t)])
        u = np.concatenate([self._parts @ amounts, q * self._pressure])
        return u, np.concatenate([self._parts @ rates, -q * self._pressure])

    def coarse_params(self) -> dict[str, Any]:
        """Parameters of the grid with cells twice as wide; raises :class:`InputError` if there is none."""
        if self.cells % 2 or self.cells < 4:
            raise InputError(
                f"NavierStokes coarsens by joining two by two cells, an even number of at least 4 along a "
                f"side; it has {self.cells}"
            )
        own: dict[str, Any] = {name: getattr(self, name) for name in self.parameter_units}
        return {**own, "cells": self.cells // 2}
