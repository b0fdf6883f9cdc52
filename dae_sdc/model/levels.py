"""Levels of simplification of a model. Importing this loads no SymPy."""

from __future__ import annotations

from typing import Final, Literal, get_args

Level = Literal["trivial", "linear", "explicit"]
"""Which equations are removed, see :func:`dae_sdc.model.aliases.simplify`."""

LEVELS: Final[tuple[Level, ...]] = get_args(Level)
