"""Chemical kinetics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from dae_sdc.dae.kernels import COMPLEX_STEP
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.problems._models import Expressions, Symbols, equations_of
from dae_sdc.problems._reference import require_finite, require_positive
from dae_sdc.problems._testset import TestSetProblem

if TYPE_CHECKING:
    from dae_sdc.model.model import Model


def akzo_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`ChemicalAkzoNobel`."""
    k1, k2, k3, k4, K = p[0], p[1], p[2], p[3], p[4]
    # A negative concentration of oxygen gives NaN, which ends the step.
    root = math.sqrt(u[1])
    r1 = k1 * u[0] ** 4 * root
    r2 = k2 * u[2] * u[3]
    r3 = k2 / K * u[0] * u[4]
    r4 = k3 * u[0] * u[3] ** 2
    r5 = k4 * u[5] ** 2 * root
    inflow = p[5] * (p[7] / p[8] - u[1])
    out[0] = du[0] + 2.0 * r1 - r2 + r3 + r4
    out[1] = du[1] + 0.5 * r1 + r4 + 0.5 * r5 - inflow
    out[2] = du[2] - r1 + r2 - r3
    out[3] = du[3] + r2 - r3 + 2.0 * r4
    out[4] = du[4] - r2 + r3 - r5
    out[5] = p[6] * u[0] * u[3] - u[5]


def akzo_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    """dF/du' + c dF/du of :class:`ChemicalAkzoNobel`."""
    k1, k2, k3, k4, K = p[0], p[1], p[2], p[3], p[4]
    root = math.sqrt(u[1])
    for i in range(36):
        out[i] = 0.0
    # Derivatives of the five rates, times c.
    a0, a1 = c * 4.0 * k1 * u[0] ** 3 * root, c * 0.5 * k1 * u[0] ** 4 / root
    b2, b3 = c * k2 * u[3], c * k2 * u[2]
    d0, d4 = c * k2 / K * u[4], c * k2 / K * u[0]
    e0, e3 = c * k3 * u[3] ** 2, c * 2.0 * k3 * u[0] * u[3]
    g1, g5 = c * 0.5 * k4 * u[5] ** 2 / root, c * 2.0 * k4 * u[5] * root
    out[0], out[1], out[2], out[3], out[4] = 1.0 + 2.0 * a0 + d0 + e0, 2.0 * a1, -b2, -b3 + e3, d4
    out[6], out[7] = 0.5 * a0 + e0, 1.0 + 0.5 * a1 + 0.5 * g1 + c * p[5]
    out[9], out[11] = e3, 0.5 * g5
    out[12], out[13], out[14], out[15], out[16] = -a0 - d0, -a1, 1.0 + b2, b3, -d4
    out[18], out[20], out[21], out[22] = -d0 + 2.0 * e0, b2, 1.0 + b3 + 2.0 * e3, -d4
    out[24], out[25], out[26], out[27], out[28], out[29] = d0, -g1, -b2, -b3, 1.0 + d4, -g5
    out[30], out[33], out[35] = c * p[6] * u[3], c * p[6] * u[0], -c


@PROBLEMS.register("chemical-akzo-nobel")
class ChemicalAkzoNobel(TestSetProblem):
    r"""Reactions of FLB and ZHU with oxygen from the gas above the liquid, index 1.

    With the rates

    .. math::
        r_1 = k_1 y_1^4 \sqrt{y_2}, \quad r_2 = k_2 y_3 y_4, \quad r_3 = \frac{k_2}{K} y_1 y_5, \quad
        r_4 = k_3 y_1 y_4^2, \quad r_5 = k_4 y_6^2 \sqrt{y_2}

    and the inflow :math:`F_{in} = k_{lA} (p/H - y_2)` the residual is

    .. math::
        F_1 &= y_1' + 2 r_1 - r_2 + r_3 + r_4, & F_2 &= y_2' + \tfrac12 r_1 + r_4 + \tfrac12 r_5 - F_{in}, \\
        F_3 &= y_3' - r_1 + r_2 - r_3, & F_4 &= y_4' + r_2 - r_3 + 2 r_4, \\
        F_5 &= y_5' - r_2 + r_3 - r_5, & F_6 &= K_s y_1 y_4 - y_6 .

    It is defined for :math:`y_2 \ge 0`. The initial value is
    :math:`(0.444, 0.00123, 0, 0.007, 0, K_s y_1 y_4)`.

    Parameters
    ----------
    k1 : float
        Rate constant of the first reaction; unit (l/mol)^3.5/min.
    k2 : float
        Rate constant of the second reaction; unit l/mol/min.
    k3 : float
        Rate constant of the fourth reaction; unit (l/mol)^2/min.
    k4 : float
        Rate constant of the fifth reaction; unit (l/mol)^1.5/min.
    K : float
        Equilibrium constant of the second and third reaction; unit 1.
    klA : float
        Mass transfer coefficient; unit 1/min.
    Ks : float
        Equilibrium constant of FLB.ZHU; unit l/mol.
    pressure : float
        Partial pressure p of oxygen; unit bar.
    H : float
        Henry constant; unit bar l/mol.
    **settings
        ``newton_tol`` and ``newton_maxiter`` of :class:`ProblemDAE`.

    References
    ----------
    F. Mazzia, C. Magherini: Test Set for IVP Solvers, release 2.4, 2008, chemical Akzo Nobel problem.
    """

    title = "chemical process with five reactions and an inflow of oxygen"
    index = 1
    names = ("FLB", "O2", "FLBT", "ZHU", "ZLA", "FLB.ZHU")
    units = ("mol/l",) * 6
    equation_names = (*(f"balance of {x}" for x in names[:5]), "equilibrium of FLB.ZHU")
    parameter_units = {
        **{"k1": "(l/mol)^3.5/min", "k2": "l/mol/min", "k3": "(l/mol)^2/min", "k4": "(l/mol)^1.5/min"},
        **{"K": "1", "klA": "1/min", "Ks": "l/mol", "pressure": "bar", "H": "bar l/mol"},
    }
    reference = "Mazzia, Magherini: Test Set for IVP Solvers, release 2.4, chemical Akzo Nobel problem"
    interval = (0.0, 180.0)
    dt = 0.05
    time_unit = "min"
    record = "chemakzo"
    residual_kernel = akzo_residual
    jacobian_kernel = akzo_jacobian

    def __init__(
        self,
        k1: float = 18.7,
        k2: float = 0.58,
        k3: float = 0.09,
        k4: float = 0.42,
        K: float = 34.4,
        klA: float = 3.3,
        Ks: float = 115.83,
        pressure: float = 0.9,
        H: float = 737.0,
        **settings: Any,
    ) -> None:
        super().__init__(5, 1, **settings)
        self._makeAttributeAndRegister(*self.parameter_units, localVars=locals())
        require_finite(self, "k1", "k2", "k3", "k4", "klA", "pressure")
        require_positive(self, "K", "Ks", "H")

    def kernel_parameters(self) -> npt.ArrayLike:
        """The parameters in their order."""
        return [getattr(self, name) for name in self.parameter_units]

    def _start(self) -> npt.ArrayLike:
        return [0.444, 0.00123, 0.0, 0.007, 0.0, self.Ks * 0.444 * 0.007]


@equations_of("chemical-akzo-nobel", ChemicalAkzoNobel)
def akzo_equations(model: Model, y: Symbols, p: Symbols) -> Expressions:
    """The balances of the five substances, and the equilibrium."""
    from sympy import sqrt

    k1, k2, k3, k4, K, klA, Ks, pressure, H = p
    r1, r2, r3 = k1 * y[0] ** 4 * sqrt(y[1]), k2 * y[2] * y[3], k2 / K * y[0] * y[4]
    r4, r5 = k3 * y[0] * y[3] ** 2, k4 * y[5] ** 2 * sqrt(y[1])
    inflow = klA * (pressure / H - y[1])
    rates = [-2 * r1 + r2 - r3 - r4, -r1 / 2 - r4 - r5 / 2 + inflow, r1 - r2 + r3, -r2 + r3 - 2 * r4]
    rows = [model.der(unknown) - rate for unknown, rate in zip(y[:5], [*rates, r2 - r3 + r5], strict=True)]
    return dict(zip(ChemicalAkzoNobel.equation_names, [*rows, Ks * y[0] * y[3] - y[5]], strict=True))


def hires_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`Hires`."""
    product = 280.0 * u[5] * u[7]
    out[0] = du[0] + 1.71 * u[0] - 0.43 * u[1] - 8.32 * u[2] - 0.0007
    out[1] = du[1] - 1.71 * u[0] + 8.75 * u[1]
    out[2] = du[2] + 10.03 * u[2] - 0.43 * u[3] - 0.035 * u[4]
    out[3] = du[3] - 8.32 * u[1] - 1.71 * u[2] + 1.12 * u[3]
    out[4] = du[4] + 1.745 * u[4] - 0.43 * u[5] - 0.43 * u[6]
    out[5] = du[5] + product - 0.69 * u[3] - 1.71 * u[4] + 0.43 * u[5] - 0.69 * u[6]
    out[6] = du[6] - product + 1.81 * u[6]
    out[7] = du[7] + product - 1.81 * u[6]


@PROBLEMS.register("hires")
class Hires(TestSetProblem):
    r"""High irradiance responses of a plant to light, a stiff ordinary differential equation.

    The residual is :math:`F = y' - f(y)` with

    .. math::
        f_1 &= -1.71 y_1 + 0.43 y_2 + 8.32 y_3 + 0.0007, & f_2 &= 1.71 y_1 - 8.75 y_2, \\
        f_3 &= -10.03 y_3 + 0.43 y_4 + 0.035 y_5, & f_4 &= 8.32 y_2 + 1.71 y_3 - 1.12 y_4, \\
        f_5 &= -1.745 y_5 + 0.43 y_6 + 0.43 y_7, & f_7 &= 280 y_6 y_8 - 1.81 y_7, \\
        f_6 &= -280 y_6 y_8 + 0.69 y_4 + 1.71 y_5 - 0.43 y_6 + 0.69 y_7, & f_8 &= -f_7 .

    The initial value is (1, 0, 0, 0, 0, 0, 0, 0.0057).

    Parameters
    ----------
    **settings
        ``newton_tol`` and ``newton_maxiter`` of :class:`ProblemDAE`.

    References
    ----------
    E. Hairer, G. Wanner: Solving Ordinary Differential Equations II, 2nd edition, Springer 1996, chapter IV.
    F. Mazzia, C. Magherini: Test Set for IVP Solvers, release 2.4, 2008, HIRES.
    """

    title = "high irradiance responses of photomorphogenesis"
    index = 0
    names = ("Pr", "Pfr", "PrX", "PfrX", "PrX2", "PfrX2", "PfrX2E", "E")
    units = ("1",) * 8
    equation_names = tuple(f"balance of {x}" for x in names)
    reference = "Mazzia, Magherini: Test Set for IVP Solvers, release 2.4, HIRES"
    interval = (0.0, 321.8122)
    dt = 0.3218122
    time_unit = "1"
    record = "hires"
    residual_kernel = hires_residual
    jacobian_kernel = COMPLEX_STEP

    def __init__(self, **settings: Any) -> None:
        super().__init__(8, 0, **settings)


def robertson_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """F of :class:`Robertson`."""
    pairs = p[1] * u[1] * u[1]
    # In balance the two rates are up to 1e10 times their difference, of which no digit may be lost.
    net = p[0] * u[0] - p[2] * u[1] * u[2]
    out[0] = du[0] + net
    out[1] = du[1] - net + pairs
    out[2] = u[0] + u[1] + u[2] - 1.0


def robertson_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    """dF/du' + c dF/du of :class:`Robertson`."""
    by_second, by_third = c * p[2] * u[2], c * p[2] * u[1]
    out[0], out[1], out[2] = 1.0 + c * p[0], -by_second, -by_third
    out[3], out[4], out[5] = -c * p[0], 1.0 + by_second + 2.0 * c * p[1] * u[1], by_third
    out[6], out[7], out[8] = c, c, c


@PROBLEMS.register("robertson")
class Robertson(TestSetProblem):
    r"""Autocatalytic reaction of Robertson with the conservation of mass, index 1.

    The residual is

    .. math::
        F_1 &= y_1' + k_1 y_1 - k_3 y_2 y_3, \\
        F_2 &= y_2' - k_1 y_1 + k_3 y_2 y_3 + k_2 y_2^2, \\
        F_3 &= y_1 + y_2 + y_3 - 1 .

    The initial value is (1, 0, 0). No fixed step size suits both its transient and the long interval, at the
    end of which the first two unknowns are 2e-8 and 8e-14: give ``rtol``, and absolute tolerances far below
    these values. The step size of the problem is one for its start.

    Parameters
    ----------
    k1, k2, k3 : float
        Rate constants; unit 1/s.
    **settings
        ``newton_tol`` and ``newton_maxiter`` of :class:`ProblemDAE`.

    References
    ----------
    H. H. Robertson: The solution of a set of reaction rate equations, in: J. Walsh (ed.), Numerical Analysis,
    Academic Press 1966, pages 178-182. F. Mazzia, C. Magherini: Test Set for IVP Solvers, release 2.4, 2008,
    problem of Robertson.
    """

    title = "autocatalytic reaction with conservation of mass"
    index = 1
    names = ("y_1", "y_2", "y_3")
    units = ("1", "1", "1")
    equation_names = ("balance of y_1", "balance of y_2", "conservation of mass")
    parameter_units = {"k1": "1/s", "k2": "1/s", "k3": "1/s"}
    reference = "Mazzia, Magherini: Test Set for IVP Solvers, release 2.4, problem of Robertson"
    interval = (0.0, 1e11)
    dt = 1e-6
    record = "robertson"
    residual_kernel = robertson_residual
    jacobian_kernel = robertson_jacobian

    def __init__(self, k1: float = 0.04, k2: float = 3e7, k3: float = 1e4, **settings: Any) -> None:
        super().__init__(2, 1, **settings)
        self._makeAttributeAndRegister("k1", "k2", "k3", localVars=locals())
        require_finite(self, "k1", "k2", "k3")

    def kernel_parameters(self) -> npt.ArrayLike:
        """The numbers k1, k2 and k3."""
        return [self.k1, self.k2, self.k3]

    def _start(self) -> npt.ArrayLike:
        return [1.0, 0.0, 0.0]


@equations_of("robertson", Robertson)
def robertson_equations(model: Model, y: Symbols, p: Symbols) -> Expressions:
    """Two balances and the conservation of mass."""
    (y1, y2, y3), (k1, k2, k3) = y, p
    return {
        "balance of y_1": model.der(y1) + k1 * y1 - k3 * y2 * y3,
        "balance of y_2": model.der(y2) - k1 * y1 + k3 * y2 * y3 + k2 * y2**2,
        "conservation of mass": y1 + y2 + y3 - 1,
    }
