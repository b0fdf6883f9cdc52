"""Names of unknowns and of their derivatives with respect to time: "x", "der(x)", "der(x, 2)"."""

from __future__ import annotations

import re

_DERIVATIVE = re.compile(r"der\((?P<base>[^,()]+)(?:,\s*(?P<order>\d+))?\)")


def name_of(base: str, order: int) -> str:
    """Name of a derivative of an unknown."""
    if not order:
        return base
    return f"der({base})" if order == 1 else f"der({base}, {order})"


def name_and_order(name: str) -> tuple[str, int]:
    """The unknown and the order of the derivative that a name such as "der(x, 2)" stands for."""
    match = _DERIVATIVE.fullmatch(name)
    return (match["base"].strip(), int(match["order"] or 1)) if match else (name, 0)
