"""A DAE as its user writes it: variables, equations, parameters, and the removal of trivial equations."""

from __future__ import annotations

from typing import Final, Literal, get_args

# Which equations are removed, see :func:`dae_sdc.model.simplified.simplify`.
Level = Literal["trivial", "linear", "explicit"]

LEVELS: Final[tuple[Level, ...]] = get_args(Level)
