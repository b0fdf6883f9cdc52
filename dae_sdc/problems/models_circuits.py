"""Electric circuits as equations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dae_sdc.problems._models import MODELS, require_size, start_at, total

if TYPE_CHECKING:
    from dae_sdc.model.model import Model


@MODELS.register("transistor-amplifier")
def transistor_amplifier() -> Model:
    """Amplifier with two transistors and eight nodes: index 1, structural index 0.

    References
    ----------
    F. Mazzia, C. Magherini: Test Set for IVP Solvers, release 2.4, 2008, transistor amplifier.
    """
    from sympy import exp, pi, sin

    from dae_sdc.model.model import Model

    model = Model(
        "transistor-amplifier",
        title="amplifier with two transistors",
        interval=(0.0, 0.2),
        dt=1e-4,
        reference="Mazzia, Magherini: Test Set for IVP Solvers, release 2.4, transistor amplifier",
    )
    half = 3.0
    start = [0.0, half, half, 6.0, half, half, 6.0, 0.0]
    u = (None, *model.variables([f"U_{i}" for i in range(1, 9)], start=start, unit="V"))
    supply, thermal = model.parameter("U_b", 6.0, unit="V"), model.parameter("U_F", 0.026, unit="V")
    alpha, beta = model.parameter("alpha", 0.99), model.parameter("beta", 1e-6, unit="A")
    r = [model.parameter(f"R_{i}", 1000.0 if i == 0 else 9000.0, unit="Ohm") for i in range(10)]
    c = [None, *(model.parameter(f"C_{i}", i * 1e-6, unit="F") for i in range(1, 6))]
    signal = 0.1 * sin(200 * pi * model.t)

    def current(base: int) -> object:
        return beta * (exp((u[base] - u[base + 1]) / thermal) - 1)

    first, second = current(2), current(5)
    rate = [None, *(model.der(voltage) for voltage in u[1:])]
    entry, between, leaving = rate[2] - rate[1], rate[5] - rate[4], rate[8] - rate[7]
    currents = [
        (signal - u[1]) / r[0] + c[1] * entry,
        (supply - u[2]) / r[2] - u[2] / r[1] - c[1] * entry - (1 - alpha) * first,
        first - u[3] / r[3] - c[2] * rate[3],
        (supply - u[4]) / r[4] + c[3] * between - alpha * first,
        (supply - u[5]) / r[6] - u[5] / r[5] - c[3] * between - (1 - alpha) * second,
        second - u[6] / r[7] - c[4] * rate[6],
        (supply - u[7]) / r[8] + c[5] * leaving - alpha * second,
        -u[8] / r[9] - c[5] * leaving,
    ]
    for i, expression in enumerate(currents, start=1):
        model.equation(expression, name=f"current into node {i}")
    return model


@MODELS.register("op-amp-cascade")
def op_amp_cascade(count: int = 10) -> Model:
    """Differentiators by ideal operational amplifiers, one after the other: index count.

    The last voltage is the derivative of order count - 1 of the input, with changing signs.
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

    The other nodes have none, so that their voltages and all currents of the resistors are algebraic: index 1
    with 2 count unknown voltages and 2 count currents.
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
