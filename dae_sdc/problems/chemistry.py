"""Chemical kinetics."""

from __future__ import annotations

import math

import numpy.typing as npt

from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.problems._library import HAIRER_WANNER, TEST_SET, TestSetProblem, finite, positive
from dae_sdc.problems._models import also_model


def akzo_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
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


@also_model("chemical-akzo-nobel")
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
    """

    title = "chemical process with five reactions and an inflow of oxygen"
    index = 1
    names = ("FLB", "O2", "FLBT", "ZHU", "ZLA", "FLB.ZHU")
    units = ("mol/l",) * 6
    equation_names = (*(f"balance of {x}" for x in names[:5]), "equilibrium of FLB.ZHU")
    size = (5, 1)
    parameters = {
        **finite("(l/mol)^3.5/min", "Rate constant of the first reaction", k1=18.7),
        **finite("l/mol/min", "Rate constant of the second reaction", k2=0.58),
        **finite("(l/mol)^2/min", "Rate constant of the fourth reaction", k3=0.09),
        **finite("(l/mol)^1.5/min", "Rate constant of the fifth reaction", k4=0.42),
        **positive("1", "Equilibrium constant of the second and third reaction", K=34.4),
        **finite("1/min", "Mass transfer coefficient", klA=3.3),
        **positive("l/mol", "Equilibrium constant of FLB.ZHU", Ks=115.83),
        **finite("bar", "Partial pressure p of oxygen", pressure=0.9),
        **positive("bar l/mol", "Henry constant", H=737.0),
    }
    reference = f"{TEST_SET}, chemical Akzo Nobel problem"
    interval = (0.0, 180.0)
    dt = 0.05
    time_unit = "min"
    record = "chemakzo"
    residual_kernel = akzo_residual

    def _start(self) -> npt.ArrayLike:
        return [0.444, 0.00123, 0.0, 0.007, 0.0, self.Ks * 0.444 * 0.007]


def hires_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
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
    """

    title = "high irradiance responses of photomorphogenesis"
    index = 0
    names = ("Pr", "Pfr", "PrX", "PfrX", "PrX2", "PfrX2", "PfrX2E", "E")
    equation_names = tuple(f"balance of {x}" for x in names)
    size = (8, 0)
    reference = f"{HAIRER_WANNER}, chapter IV. {TEST_SET}, HIRES"
    interval = (0.0, 321.8122)
    dt = 0.3218122
    time_unit = "1"
    record = "hires"
    residual_kernel = hires_residual


def robertson_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    pairs = p[1] * u[1] * u[1]
    # In balance the two rates are up to 1e10 times their difference, of which no digit may be lost.
    net = p[0] * u[0] - p[2] * u[1] * u[2]
    out[0] = du[0] + net
    out[1] = du[1] - net + pairs
    out[2] = u[0] + u[1] + u[2] - 1.0


@also_model("robertson")
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
    these values. The step size ``dt`` of the problem is meant for its start.
    """

    title = "autocatalytic reaction with conservation of mass"
    index = 1
    names = ("y_1", "y_2", "y_3")
    equation_names = ("balance of y_1", "balance of y_2", "conservation of mass")
    size = (2, 1)
    parameters = {**finite("1/s", "Rate constants", k1=0.04, k2=30000000.0, k3=10000.0)}
    reference = (
        "H. H. Robertson: The solution of a set of reaction rate equations, in: J. Walsh (ed.), Numerical "
        f"Analysis, Academic Press 1966, pages 178-182. {TEST_SET}, problem of Robertson"
    )
    interval = (0.0, 1e11)
    dt = 1e-6
    record = "robertson"
    residual_kernel = robertson_residual

    def _start(self) -> npt.ArrayLike:
        return [1.0, 0.0, 0.0]
