"""Experiments: every verb of the command line as a function of the same name."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from dae_sdc.run.results import Result, load
from dae_sdc.run.solution import Solution

if TYPE_CHECKING:
    from dae_sdc.run.bench import bench as bench
    from dae_sdc.run.convergence import convergence as convergence
    from dae_sdc.run.info import info as info
    from dae_sdc.run.iterations import iterations as iterations
    from dae_sdc.run.list import list as list
    from dae_sdc.run.playground import playground as playground
    from dae_sdc.run.solve import solve as solve

__all__ = ["Result", "Solution", "load"]

for _module in pkgutil.iter_modules(__path__):
    # A file that defines a function of its own name is an experiment; the function takes the name of the file.
    _function = getattr(importlib.import_module(f"{__name__}.{_module.name}"), _module.name, None)
    if callable(_function):
        globals()[_module.name] = _function
        __all__ += [_module.name]
