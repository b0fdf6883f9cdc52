"""Lines of many equal sections: sparse DAEs of any size."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sparse
from pySDC.core.space_transfer import SpaceTransfer

from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import InputError, ReferenceRangeError, require_count
from dae_sdc.problems._reference import require_finite, require_positive
from dae_sdc.registry import unknown

FEEDS = ("wave", "end")


class LineTransfer(SpaceTransfer):  # type: ignore[misc]
    """Between a line and the one with half as many sections, each made of two; exact for linear functions.

    Voltages of the capacitors are restricted by taking every second one and prolonged by linear
    interpolation. Voltages of the diodes, which lie in the middle of a section, are restricted by averages
    of two and prolonged by the line through the neighbours that keeps the average. Restricting what was
    prolonged gives it back. Next to the source the voltage is extrapolated: a transfer is linear and does not
    know the time. Differential unknowns come from differential ones and algebraic from algebraic ones.

    Parameters
    ----------
    fine_prob, coarse_prob : TransmissionLine
        The second has the parameters ``fine_prob.coarse_params()``.
    params : dict
        Parameters of pySDC's base class.
    """

    def restrict(self, F: MeshDAE) -> MeshDAE:
        """A state of the coarse line from one of the fine line."""
        fine, m = F.view(np.ndarray), self.coarse_prob.n_diff
        coarse = np.empty(2 * m)
        coarse[:m] = fine[1 : 2 * m : 2]
        coarse[m:] = 0.5 * (fine[2 * m :: 2] + fine[2 * m + 1 :: 2])
        return attach(coarse, m)

    def prolong(self, G: MeshDAE) -> MeshDAE:
        """A state of the fine line from one of the coarse line."""
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


@PROBLEMS.register("transmission-line")
class TransmissionLine(ProblemDAE):
    r"""RC line with a diode to ground in every section; index 1, half of the unknowns algebraic.

    Section k = 1 ... N leads from node k - 1 to node k through two resistors R/2. At the node between them,
    of voltage :math:`w_k`, a diode leads to ground and no capacitor stands: its current balance is a
    constraint. Node k has the capacitance C to ground (C/2 at the open end) and the voltage :math:`v_k`, node
    0 the source :math:`V(t)`. Divided by capacitance and conductance the balances read

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

    solves the equations exactly for every N. With ``feed="end"`` there is nothing but the source,
    :math:`a = b = 0`; the line starts at rest, all unknowns and derivatives zero, and a closed form for
    later times is not known.

    The eigenvalues of the linear part lie between -8 / (RC) and 0 whatever N is; more sections are a longer
    line. For a given line in finer pieces divide R, C and I_s by what ``sections`` is multiplied with.

    Parameters
    ----------
    sections : int
        Number of sections, half the number of unknowns; unit 1.
    R : float
        Resistance of a section; unit kOhm.
    C : float
        Capacitance of a section; unit uF.
    I_s : float
        Saturation current of a diode, not negative; unit mA.
    U_d : float
        Thermal voltage of a diode times its emission coefficient; unit V.
    amplitude : float
        Largest voltage of the source; unit V.
    frequency : float
        Frequency of the source; unit kHz.
    waves : float
        Number of wave lengths on the line with feed "wave"; unit 1.
    feed : str
        "wave" or "end", as above; unit none.
    **settings
        ``newton_tol`` and ``newton_maxiter`` of :class:`ProblemDAE`.

    References
    ----------
    Made for this package. C.-W. Ho, A. E. Ruehli, P. A. Brennan, The modified nodal approach to network
    analysis, IEEE Trans. Circuits Syst. 22 (1975) 504, for the balances; the diode's values are those of a
    small-signal silicon diode.
    """

    title = "RC line with diodes, any number of sections"
    index = 1
    parameter_units = {
        **{"sections": "1", "R": "kOhm", "C": "uF", "I_s": "mA", "U_d": "V"},
        **{"amplitude": "V", "frequency": "kHz", "waves": "1", "feed": "none"},
    }
    reference = "nodal analysis; manufactured wave"
    interval = (0.0, 2.0)
    dt = 0.1
    time_unit: ClassVar[str] = "ms"
    space_transfer: ClassVar[type] = LineTransfer

    sections: int
    R: float
    C: float
    I_s: float
    U_d: float
    amplitude: float
    frequency: float
    waves: float
    feed: str

    def __init__(
        self,
        sections: int = 50,
        R: float = 1.0,
        C: float = 0.1,
        I_s: float = 2.5e-6,
        U_d: float = 0.045,
        amplitude: float = 0.5,
        frequency: float = 0.25,
        waves: float = 1.0,
        feed: str = "wave",
        **settings: Any,
    ) -> None:
        require_count("sections of TransmissionLine", sections)
        n = int(sections)
        numbers = range(1, n + 1)
        self.names = (*(f"v[{k}]" for k in numbers), *(f"w[{k}]" for k in numbers))
        self.units = ("V",) * (2 * n)
        self.equation_names = (
            *(f"current into node {k}" for k in numbers),
            *(f"current into the middle of section {k}" for k in numbers),
        )
        super().__init__(n, n, **settings)
        self._makeAttributeAndRegister(*self.parameter_units, localVars=locals())
        require_positive(self, "R", "C", "U_d")
        require_finite(self, "I_s", "amplitude", "frequency", "waves")
        if self.I_s < 0.0:
            raise InputError(f"I_s of TransmissionLine must not be negative; got {self.I_s}")
        if feed not in FEEDS:
            raise InputError(unknown("feed", feed, FEEDS))
        self._omega = 2.0 * math.pi * self.frequency
        self._rate = 2.0 / (self.R * self.C)
        self._drop = 0.25 * self.R * self.I_s
        phase = 2.0 * math.pi * self.waves / n * np.concatenate([np.arange(1, n + 1), np.arange(n) + 0.5])
        self._cos, self._sin = np.cos(phase), np.sin(phase)
        self._build()

    def _build(self) -> None:
        """The pattern of the Jacobian, and the constant part of its entries in the order of the pattern."""
        n = self.sections
        k = np.arange(n)
        rate = np.full(n, self._rate)
        last = np.where(k == n - 1, 2.0 * self._rate, self._rate)
        ones = np.ones(n)
        entries = [
            (k, k, ones, 2.0 * rate),
            (k, n + k, 0.0 * ones, -last),
            (k[:-1], n + k[1:], 0.0 * ones[1:], -rate[1:]),
            (n + k, k, 0.0 * ones, -0.5 * ones),
            (n + k[1:], k[:-1], 0.0 * ones[1:], -0.5 * ones[1:]),
            (n + k, n + k, 0.0 * ones, ones),
        ]
        rows, columns, mass, slope = (np.concatenate(part) for part in zip(*entries, strict=True))
        order = np.lexsort((rows, columns))
        self._mass, self._slope = mass[order], slope[order]
        self._diodes = np.flatnonzero((rows[order] >= n) & (rows[order] == columns[order]))
        starts = np.searchsorted(columns[order], np.arange(2 * n + 1))
        self.sparsity = sparse.csc_matrix((np.ones(len(rows)), rows[order], starts), shape=(2 * n, 2 * n))
        self.sparsity.has_sorted_indices = True

    def _wave(self, t: float) -> tuple[Vector, Vector]:
        """Cosine and sine of omega t - 2 pi waves s / N at all nodes, capacitors first."""
        c, s = math.cos(self._omega * t), math.sin(self._omega * t)
        return c * self._cos + s * self._sin, s * self._cos - c * self._sin

    @np.errstate(over="ignore", invalid="ignore")
    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """The residual as printed above, in V/ms at nodes and V in middles; see :class:`ProblemDAE`."""
        n = self.sections
        x, value = u.view(np.ndarray), np.empty(2 * n)
        v, w = x[:n], x[n:]
        nodes, middles = value[:n], value[n:]
        np.multiply(v, 2.0, out=nodes)
        nodes -= w
        nodes[:-1] -= w[1:]
        nodes[-1] -= w[-1]
        nodes *= self._rate
        nodes += du.view(np.ndarray)[:n]
        current = np.exp(w / self.U_d)
        source = 0.5 * self.amplitude * (1.0 - math.cos(self._omega * t))
        np.multiply(v, -0.5, out=middles)
        middles[1:] += middles[:-1].copy()
        middles[0] -= 0.5 * source
        middles += w
        if self.feed == "wave":
            # Second differences of the wave in closed form, which loses no digits to cancellation.
            half, step = 0.5 * self.amplitude, 2.0 * math.pi * self.waves / n
            bend = 2.0 * half * (1.0 - math.cos(0.5 * step))
            cosine, sine = self._wave(t)
            nodes -= half * self._omega * sine[:n]
            nodes += self._rate * bend * cosine[:n]
            # At the open end the wave has a slope, w_{N+1} := w_N has none.
            past = math.cos(self._omega * t - (n + 0.5) * step) - math.cos(self._omega * t - (n - 0.5) * step)
            nodes[-1] += self._rate * half * past
            middles += 0.5 * bend * cosine[n:]
            current -= np.exp((half - half * cosine[n:]) / self.U_d)
        else:
            current -= 1.0
        middles += self._drop * current
        return value

    @np.errstate(over="ignore", invalid="ignore")
    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
        """The matrix dF/du' + c dF/du, CSC of the pattern ``sparsity``."""
        data = c * self._slope
        data += self._mass
        data[self._diodes] += (c * self._drop / self.U_d) * np.exp(
            u.view(np.ndarray)[self.sections :] / self.U_d
        )
        pattern = self.sparsity
        matrix = sparse.csc_matrix((data, pattern.indices, pattern.indptr), shape=pattern.shape)
        matrix.has_sorted_indices = True
        return matrix

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
        half = 0.5 * self.amplitude
        return attach(half - half * self._wave(t)[0], self.n_diff)

    def du_exact(self, t: float) -> MeshDAE:
        """Its derivative."""
        self._refuse_later(t)
        if self.feed == "end":
            return attach(np.zeros(self.n), self.n_diff)
        return attach(0.5 * self.amplitude * self._omega * self._wave(t)[1], self.n_diff)

    def coarse_params(self) -> dict[str, Any]:
        """Parameters of the same line in half as many sections; raises :class:`InputError` if it has none."""
        if self.sections % 2 or self.sections < 4:
            raise InputError(
                f"TransmissionLine coarsens by joining pairs of sections, an even number of at least 4; "
                f"it has {self.sections}"
            )
        own: dict[str, Any] = {name: getattr(self, name) for name in self.parameter_units}
        doubled = {name: 2.0 * own[name] for name in ("R", "C", "I_s")}
        return {**own, "sections": self.sections // 2, **doubled}
