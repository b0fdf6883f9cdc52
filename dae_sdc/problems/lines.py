"""Lines of many equal sections: sparse DAEs of any size."""

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
from dae_sdc.errors import InputError, ReferenceRangeError, require_count
from dae_sdc.problems._library import LibraryProblem, Parameter, finite, positive
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


def line_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    """dF/du' + c dF/du of :class:`TransmissionLine`, column by column in the order of its pattern."""
    n, rate, drop, U_d = int(p[0]), p[1], p[4], p[5]
    at = 0
    for k in range(n):
        out[at], out[at + 1] = 1.0 + 2.0 * c * rate, -0.5 * c
        at += 2
        if k < n - 1:
            out[at] = -0.5 * c
            at += 1
    for k in range(n):
        if k > 0:
            out[at] = -c * rate
            at += 1
        out[at] = -c * rate if k < n - 1 else -2.0 * c * rate
        out[at + 1] = c * (1.0 + drop / U_d * math.exp(u[n + k] / U_d))
        at += 2


@PROBLEMS.register("transmission-line")
class TransmissionLine(LibraryProblem):
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

    References
    ----------
    Made for this package. C.-W. Ho, A. E. Ruehli, P. A. Brennan, The modified nodal approach to network
    analysis, IEEE Trans. Circuits Syst. 22 (1975) 504, for the balances; the diode's values are those of a
    small-signal silicon diode.
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
    reference = "nodal analysis; manufactured wave"
    interval = (0.0, 2.0)
    dt = 0.1
    residual_kernel = line_residual
    jacobian_kernel = line_jacobian
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
        self.sparsity = self._pattern()

    def _pattern(self) -> Any:
        """Sparsity pattern of the Jacobian: each equation has its own voltage and those of its neighbours."""
        n = self.n_diff
        k = np.arange(n)
        rows = [k, n + k, n + k[1:], k, k[:-1], n + k]
        columns = [k, k, k[:-1], n + k, n + k[1:], n + k]
        entries = (np.ones(6 * n - 2), (np.concatenate(rows), np.concatenate(columns)))
        pattern = sparse.csc_matrix(entries, shape=(2 * n, 2 * n))
        pattern.sort_indices()
        return pattern

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

    def _wave(self, t: float) -> tuple[Vector, Vector]:
        """Cosine and sine of omega t - 2 pi waves s / N at all nodes, capacitors first."""
        phase = self._omega * t - self._phase()
        return np.cos(phase), np.sin(phase)

    def _refuse_later(self, t: float) -> None:
        if self.feed == "end" and t != 0.0:
            raise ReferenceRangeError(
                f"the solution of TransmissionLine with feed='end' is known at t=0 only; got t={t:g}; "
                f"use feed='wave', or compute a reference with a tight tolerance"
            )

    def u_exact(self, t: float) -> MeshDAE:
        """The wave at any t; the line at rest at t = 0 with ``feed="end"``."""
        self._refuse_later(t)
        if self.feed == "end":
            return attach(np.zeros(self.n), self.n_diff)
        # 1 - cos(x) as 2 sin(x / 2)^2, which is as exact where it is small.
        phase = 0.5 * (self._omega * t - self._phase())
        return attach(self.amplitude * np.sin(phase) ** 2, self.n_diff)

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative of the solution; raises like :meth:`u_exact`."""
        self._refuse_later(t)
        if self.feed == "end":
            return attach(np.zeros(self.n), self.n_diff)
        return attach(0.5 * self.amplitude * self._omega * self._wave(t)[1], self.n_diff)

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
