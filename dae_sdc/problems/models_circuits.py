"""Electric circuits as equations."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
