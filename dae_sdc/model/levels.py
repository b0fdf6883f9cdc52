"""How much of the equations of a model a simplification removes; importing this loads no SymPy."""

from __future__ import annotations

from typing import Final, Literal, get_args

Level = Literal["trivial", "linear", "explicit"]
"""How much is removed, see :func:`dae_sdc.model.aliases.simplify`."""

LEVELS: Final[tuple[Level, ...]] = get_args(Level)
