"""Models of several pendula: a row in which each changes the length of the next, and a chain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dae_sdc.problems._models import MODELS, require_size, start_at

if TYPE_CHECKING:
    from dae_sdc.model.model import Model

_UNITS = ("m", "m", "1/s^2")
"""Units of x, y and of the tension by mass and length."""


@MODELS.register("pendula")
def pendula(count: int = 2) -> Model:
    """Row of pendula in which the tension of each changes the length of the next: index 2 count + 1.

    References
    ----------
    N. S. Nedialkov, J. D. Pryce: DAETS user guide, 2009: "chained pendula".
    """
    from dae_sdc.model.model import Model

    count = require_size("count", count)
    model = Model(
        f"pendula-{count}",
        title=f"{count} pendula, the tension of each setting the length of the next",
        interval=(0.0, 10.0),
        reference="Nedialkov, Pryce, DAETS user guide",
    )
    g = model.parameter("g", 9.8, unit="m/s^2")
    coupling = model.parameter("c", 0.1, unit="m s^2")
    # Near the equilibrium, so that no length comes close to zero, where a pendulum is singular.
    angle, rest = 0.1, 1.0
    before: Any = None
    for i in range(1, count + 1):
        start = [rest * math.sin(angle), rest * math.cos(angle), 9.8 / rest]
        x, y, tension = model.variables([f"x{i}", f"y{i}", f"lambda{i}"], start=start, unit=_UNITS)
        start_at(model, [f"x{i}", f"y{i}"], [0.0, 0.0], 1)
        rest = 1.0 + 0.1 * start[2]
        length = 1 if before is None else 1 + coupling * before
        model.equation(model.der(x, 2) + x * tension, name=f"force x{i}")
        model.equation(model.der(y, 2) + y * tension - g, name=f"force y{i}")
        model.equation(x**2 + y**2 - length**2, name=f"length {i}")
        before = tension
    return model


@MODELS.register("pendulum-chain")
def pendulum_chain(count: int = 10) -> Model:
    """Chain of point masses on rigid links: 3 count equations of index 3."""
    from dae_sdc.model.model import Model

    count = require_size("count", count)
    model = Model(
        f"pendulum-chain-{count}", title=f"chain of {count} point masses on rigid links", interval=(0.0, 1.0)
    )
    g = model.parameter("g", 9.81, unit="m/s^2")
    # The chain starts from rest along a straight line, 30 degrees below the horizontal.
    across, down = math.cos(math.pi / 6.0), -math.sin(math.pi / 6.0)
    points = [
        model.variables([f"x{i}", f"y{i}", f"lambda{i}"], start=[i * across, i * down, 0.0], unit=_UNITS)
        for i in range(1, count + 1)
    ]
    links = []
    for i, (x, y, _) in enumerate(points):
        x0, y0 = points[i - 1][:2] if i else (0, 0)
        links.append((x - x0, y - y0))
    for i, (x, y, tension) in enumerate(points):
        pull_x, pull_y = tension * links[i][0], tension * links[i][1]
        if i + 1 < count:
            follower = points[i + 1][2]
            pull_x, pull_y = pull_x - follower * links[i + 1][0], pull_y - follower * links[i + 1][1]
        model.equation(model.der(x, 2) + pull_x, name=f"force x{i + 1}")
        model.equation(model.der(y, 2) + pull_y + g, name=f"force y{i + 1}")
        model.equation(links[i][0] ** 2 + links[i][1] ** 2 - 1, name=f"link {i + 1}")
        start_at(model, [f"x{i + 1}", f"y{i + 1}"], [0.0, 0.0], 1)
    return model
