"""Small test systems for structural analysis, among them cases in which it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dae_sdc.problems._models import MODELS, require_size, start_at

if TYPE_CHECKING:
    from dae_sdc.model.model import Model


@MODELS.register("index-6")
def index_six() -> Model:
    """Linear system of index 6: each equation contains the derivative of the unknown of the next one.

    References
    ----------
    Example "Index 6" of the package Indigo (D. Stocco, E. Bertolazzi, University of Trento).
    """
    from sympy import cos, sin

    from dae_sdc.model.model import Model

    model = Model("index-6", title="linear system of index 6", interval=(0.0, 10.0))
    # The solution is 2 sin t, cos t, -sin t - cos t, sin t - 2 cos t, 2 sin t, cos t.
    x = model.variables([f"x{i}" for i in range(1, 7)], start=[0.0, 1.0, -1.0, -2.0, 0.0, 1.0])
    for i in range(1, 6):
        model.equation(model.der(x[6 - i]) + x[5 - i] - sin(model.t), name=f"link {i}")
    model.equation(x[5] - cos(model.t), name="drive")
    return model


@MODELS.register("reissig")
def reissig(stages: int = 2) -> Model:
    """Linear systems of index 1 with the structural index stages + 1.

    References
    ----------
    G. Reissig, W. S. Martinson, P. I. Barton: Differential-algebraic equations of index 1 may have an
    arbitrarily high structural index, SIAM J. Sci. Comput. 21 (2000).
    """
    from sympy import cos

    from dae_sdc.model.model import Model

    stages = require_size("stages", stages)
    model = Model(
        f"reissig-{2 * stages + 1}",
        title="system of index 1 with a high structural index",
        interval=(0.0, 10.0),
        reference="Reissig, Martinson, Barton, SIAM J. Sci. Comput. 21 (2000)",
    )
    x = model.variables([f"x{i}" for i in range(1, 2 * stages + 2)])
    drive = cos(model.t)
    for i in range(stages):
        before, first, second = x[2 * i : 2 * i + 3]
        rates = model.der(first) + model.der(second)
        model.equation(rates + before - drive, name=f"sum {i + 1}")
        model.equation(rates + first - drive, name=f"difference {i + 1}")
    model.equation(x[-1] - drive, name="drive")
    # One unknown of each stage is free, the others follow.
    start_at(model, [f"x{2 * i}" for i in range(1, stages + 1)], [1.0] * stages)
    return model


@MODELS.register("gear-petzold")
def gear_petzold() -> Model:
    """Two equations whose matrix pencil is singular in time: index 2, no degree of freedom.

    The factors t hide from the signature matrix that a combination of the equations has no derivatives.

    References
    ----------
    C. W. Gear, L. R. Petzold: ODE methods for the solution of differential/algebraic systems, SIAM J. Numer.
    Anal. 21 (1984).
    """
    from sympy import cos, sin

    from dae_sdc.model.model import Model

    model = Model(
        "gear-petzold",
        title="linear system of index 2 with a factor t",
        interval=(0.0, 1.0),
        reference="Gear, Petzold, SIAM J. Numer. Anal. 21 (1984)",
    )
    x, y = model.variables("x y", start=0.0)
    model.equation(x + model.t * y - sin(model.t), name="constraint")
    model.equation(model.der(x) + model.t * model.der(y) - cos(model.t) ** 2, name="rates")
    return model
