"""Models of electric circuits, of a flight along a path, and small test systems for structural analysis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dae_sdc.problems._models import MODELS, require_size, start_at, total

if TYPE_CHECKING:
    from dae_sdc.model.model import Model


@MODELS.register("op-amp-cascade")
def op_amp_cascade(count: int = 10) -> Model:
    """Differentiators made of ideal operational amplifiers, in a chain of length count: index count.

    The last voltage is the derivative of order count - 1 of the input, times (-1)^(count - 1).
    """
    from sympy import cos

    from dae_sdc.model.model import Model

    count = require_size("count", count)
    model = Model(
        f"op-amp-cascade-{count}", title=f"{count} ideal differentiators in a row", interval=(0.0, 10.0)
    )
    u = model.variables([f"u{k}" for k in range(1, count + 1)], unit="V")
    # -cos, -sin, cos, sin, -cos, ... at t = 0.
    values = (-1.0, 0.0, 1.0, 0.0)
    turns = [values[k % 4] for k in range(count)]
    start_at(model, [f"u{k}" for k in range(1, count + 1)], turns)
    model.equation(u[0] + cos(model.t), name="input")
    for k in range(1, count):
        model.equation(u[k] + model.der(u[k - 1]), name=f"stage {k}")
    return model


@MODELS.register("diode-ladder")
def diode_ladder(count: int = 10) -> Model:
    """Ladder of resistors with a capacitor and a diode from every second node to ground.

    The voltages of the other nodes and all currents of the resistors are algebraic: index 1 with 2 count
    unknown voltages and 2 count currents.
    """
    from sympy import exp, pi, sin

    from dae_sdc.model.model import Model

    count = require_size("count", count)
    model = Model(f"diode-ladder-{count}", title=f"ladder of {count} diodes", interval=(0.0, 0.02))
    resistance, capacitance = model.parameter("R", 100.0, unit="Ohm"), model.parameter("C", 1e-6, unit="F")
    saturation, thermal = model.parameter("I_s", 1e-12, unit="A"), model.parameter("U_T", 0.026, unit="V")
    before = sin(100 * pi * model.t)
    rungs = []
    for k in range(1, 2 * count + 1):
        voltage, current = model.variables([f"u{k}", f"i{k}"], start=0.0)
        rungs.append((voltage, current))
        model.equation(before - voltage - resistance * current, name=f"resistor {k}")
        before = voltage
    for k, (voltage, current) in enumerate(rungs, start=1):
        terms = [current]
        if k < 2 * count:
            terms.append(-rungs[k][1])
        if k % 2 == 0:
            terms += [-capacitance * model.der(voltage), -saturation * (exp(voltage / thermal) - 1)]
        model.equation(total(terms), name=f"node {k}")
    return model


_NAMES = ("H", "xi", "lambda", "V", "gamma", "A", "beta")
_UNITS = ("ft", "rad", "rad", "ft/s", "rad", "rad", "rad")
_SOURCE = (
    "Brenan, Campbell, Petzold, Numerical Solution of Initial-Value Problems in DAEs (1996), section 6.2"
)


def _flight(model: Model, state: tuple[Any, ...], lift: Any, drag: Any, area_by_mass: Any) -> Any:
    """Add the six equations of motion to the model; returns the deceleration by drag."""
    from sympy import cos, exp, sin, tan

    height, longitude, latitude, speed, path, azimuth, bank = state
    earth = model.parameter("a_e", 20902900.0, unit="ft")
    mu = model.parameter("mu", 0.1407653916e17, unit="ft^3/s^2")
    omega = model.parameter("Omega", 7.292115e-5, unit="rad/s")
    density = model.parameter("rho_0", 0.002378, unit="slug/ft^3")
    scale = model.parameter("scale", 23800.0, unit="ft")
    r = height + earth
    gravity = mu / r**2
    pressure = density * exp(-height / scale) * speed**2 / 2 * area_by_mass
    up, back = lift * pressure, drag * pressure
    cg, sg, ca, sa = cos(path), sin(path), cos(azimuth), sin(azimuth)
    cl, sl = cos(latitude), sin(latitude)
    rates = {
        height: speed * sg,
        longitude: speed * cg * sa / (r * cl),
        latitude: speed * cg * ca / r,
        speed: -back - gravity * sg - omega**2 * r * cl * (sl * ca * cg - cl * sg),
        path: up * cos(bank) / speed
        + cg / speed * (speed**2 / r - gravity)
        + 2 * omega * cl * sa
        + omega**2 * r * cl / speed * (sl * ca * sg + cl * cg),
        azimuth: up * sin(bank) / (speed * cg)
        + speed / r * cg * sa * tan(latitude)
        - 2 * omega * (cl * ca * tan(path) - sl)
        + omega**2 * r * cl * sl * sa / (speed * cg),
    }
    for unknown, rate in rates.items():
        model.equation(model.der(unknown) - rate, name=f"rate of {unknown}")
    return back


@MODELS.register("shuttle-initial")
def shuttle_initial() -> Model:
    """Reentry of the space shuttle, initial stage: the drag is a cubic polynomial of the speed, index 3.

    References
    ----------
    K. E. Brenan, S. L. Campbell, L. R. Petzold: Numerical Solution of Initial-Value Problems in
    Differential-Algebraic Equations, SIAM 1996, section 6.2.
    """
    from dae_sdc.model.model import Model

    model = Model(
        "shuttle-initial",
        title="reentry of the space shuttle, initial stage",
        interval=(332.868734542, 419.868734542),
        reference=_SOURCE,
    )
    state = model.variables(_NAMES, unit=_UNITS)
    area = model.parameter("S", 2690.0, unit="ft^2")
    mass = model.parameter("m", 5964.496499824, unit="slug")
    # Coefficients of lift and drag at an angle of attack of 40 degrees.
    lift = model.parameter("C_L", 0.84 - 0.48 * (38.0 - 40.0) / 26.0)
    drag = model.parameter("C_D", 0.78 - 0.58 * (38.0 - 40.0) / 26.0)
    back = _flight(model, state, lift, drag, area / mass)
    coefficients = [3.974960446019, -0.01448947694635, -0.2156171551995e-4, -0.1089609507291e-7]
    start_speed = 24317.0798
    above = state[3] - model.parameter("V_0", start_speed, unit="ft/s")
    c = model.parameters("C_0 C_1 C_2 C_3", coefficients)
    model.equation(back - (c[0] + above * (c[1] + above * (c[2] + above * c[3]))), name="drag")
    degrees = [177.718047, 32.0417885, -0.749986488, 62.7883367, 41.100771834]
    longitude, latitude, path, azimuth, bank = (math.radians(value) for value in degrees)
    start_at(model, _NAMES, [264039.328, longitude, latitude, start_speed, path, azimuth, bank])
    return model


@MODELS.register("shuttle-final")
def shuttle_final() -> Model:
    """Reentry of the space shuttle, final stage: path angle and azimuth are prescribed, index 2.

    References
    ----------
    K. E. Brenan, S. L. Campbell, L. R. Petzold: Numerical Solution of Initial-Value Problems in
    Differential-Algebraic Equations, SIAM 1996, section 6.2.
    """
    from sympy import pi

    from dae_sdc.model.model import Model

    model = Model(
        "shuttle-final",
        title="reentry of the space shuttle, final stage",
        interval=(0.0, 300.0),
        reference=_SOURCE,
    )
    *state, attack = model.variables([*_NAMES, "alpha"], unit=[*_UNITS, "rad"])
    lift = attack * 180 / pi / 100
    _flight(model, tuple(state), lift, lift**2 / 10 + 0.04, 1 / model.parameter("m/S", 2.890532728))
    part = (model.t / 300) ** 2
    model.equation(state[4] + pi / 180 * (1 + 9 * part), name="path angle")
    model.equation(state[5] - pi / 180 * (45 + 90 * part), name="azimuth")
    start = [100000.0, 0.0, 0.0, 12000.0, math.radians(-1.0), math.radians(45.0)]
    # From the equations; the published -0.9112291796e-3 and 0.4665038328e-1 agree to 6 and 8 digits.
    start_at(model, [*_NAMES, "alpha"], [*start, -0.911229054603211e-3, 0.4665038317151279e-1])
    return model


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
