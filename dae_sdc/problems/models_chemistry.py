"""Chemical reactions as equations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dae_sdc.problems._models import MODELS, start_at
from dae_sdc.problems._testset import load_record

if TYPE_CHECKING:
    from dae_sdc.model.model import Model


@MODELS.register("chemical-akzo-nobel")
def chemical_akzo_nobel() -> Model:
    """Reactions of FLB and ZHU with oxygen from the gas above the liquid, index 1.

    References
    ----------
    F. Mazzia, C. Magherini: Test Set for IVP Solvers, release 2.4, 2008, chemical Akzo Nobel problem.
    """
    from sympy import sqrt

    from dae_sdc.model.model import Model

    model = Model(
        "chemical-akzo-nobel",
        title="chemical process with five reactions and an inflow of oxygen",
        interval=(0.0, 180.0),
        dt=0.05,
        reference="Mazzia, Magherini: Test Set for IVP Solvers, release 2.4, chemical Akzo Nobel problem",
    )
    names = ["FLB", "O2", "FLBT", "ZHU", "ZLA", "FLB.ZHU"]
    y = model.variables(names, unit="mol/l", minimum=0.0)
    k1, k2, k3, k4 = model.parameters("k1 k2 k3 k4", [18.7, 0.58, 0.09, 0.42])
    K, klA, Ks, pressure, H = model.parameters("K klA Ks pressure H", [34.4, 3.3, 115.83, 0.9, 737.0])
    r1, r2, r3 = k1 * y[0] ** 4 * sqrt(y[1]), k2 * y[2] * y[3], k2 / K * y[0] * y[4]
    r4, r5 = k3 * y[0] * y[3] ** 2, k4 * y[5] ** 2 * sqrt(y[1])
    inflow = klA * (pressure / H - y[1])
    rates = [-2 * r1 + r2 - r3 - r4, -r1 / 2 - r4 - r5 / 2 + inflow, r1 - r2 + r3, -r2 + r3 - 2 * r4]
    for name, unknown, rate in zip(names[:5], y[:5], [*rates, r2 - r3 + r5], strict=True):
        model.equation(model.der(unknown) - rate, name=f"balance of {name}")
    model.equation(Ks * y[0] * y[3] - y[5], name="equilibrium of FLB.ZHU")
    start_at(model, names, load_record("chemakzo").u0)
    return model


@MODELS.register("robertson")
def robertson() -> Model:
    """Autocatalytic reaction of Robertson with the conservation of mass, index 1.

    References
    ----------
    F. Mazzia, C. Magherini: Test Set for IVP Solvers, release 2.4, 2008, problem of Robertson.
    """
    from dae_sdc.model.model import Model

    model = Model(
        "robertson",
        title="autocatalytic reaction with conservation of mass",
        interval=(0.0, 1e11),
        dt=1e-6,
        reference="Mazzia, Magherini: Test Set for IVP Solvers, release 2.4, problem of Robertson",
    )
    y1, y2, y3 = model.variables("y_1 y_2 y_3", start=[1.0, 0.0, 0.0])
    k1, k2, k3 = model.parameters("k1 k2 k3", [0.04, 3e7, 1e4], unit="1/s")
    model.equation(model.der(y1) + k1 * y1 - k3 * y2 * y3, name="balance of y_1")
    model.equation(model.der(y2) - k1 * y1 + k3 * y2 * y3 + k2 * y2**2, name="balance of y_2")
    model.equation(y1 + y2 + y3 - 1, name="conservation of mass")
    return model
