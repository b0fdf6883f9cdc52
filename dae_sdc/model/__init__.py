"""A DAE as its user writes it: variables, equations, parameters, and the removal of trivial equations."""

from __future__ import annotations

from typing import Final, Literal, get_args

Level = Literal["trivial", "linear", "explicit"]
"""Which equations are removed, see :func:`dae_sdc.model.aliases.simplify`."""

LEVELS: Final[tuple[Level, ...]] = get_args(Level)
