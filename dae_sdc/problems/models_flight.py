"""Reentry of the space shuttle along a prescribed path, as equations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dae_sdc.problems._models import MODELS, start_at

if TYPE_CHECKING:
    from dae_sdc.model.model import Model

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
