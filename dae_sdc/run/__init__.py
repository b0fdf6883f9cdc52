"""Experiments: every verb of the command line as a function of the same name.

A module here that defines a function of its own name is an experiment, and ``dae_sdc.run.<name>`` is that
function. Modules are imported when they are first used.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dae_sdc.links import one_room

if TYPE_CHECKING:
    from dae_sdc.run.accuracy import accuracy as accuracy
    from dae_sdc.run.convergence import convergence as convergence
    from dae_sdc.run.drift import drift as drift
    from dae_sdc.run.info import info as info
    from dae_sdc.run.initial import initial as initial
    from dae_sdc.run.iterations import iterations as iterations
    from dae_sdc.run.list import list as list
    from dae_sdc.run.pendulum_study import pendulum_study as pendulum_study
    from dae_sdc.run.playground import playground as playground
    from dae_sdc.run.reduce import reduce as reduce
    from dae_sdc.run.simplify import simplify as simplify
    from dae_sdc.run.solve import solve as solve
    from dae_sdc.run.structure import structure as structure
    from dae_sdc.run.sundials import sundials as sundials
    from dae_sdc.run.sweep import sweep as sweep


def _modules() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(__path__)}


def __getattr__(name: str) -> Any:
    if name in _modules():
        module = importlib.import_module(f"{__name__}.{name}")
        return getattr(module, name, module)  # another thread may be importing it
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> Iterable[str]:
    return sorted({*globals(), *_modules()})


class _Experiments(ModuleType):
    """Type of the package: where Python binds an experiment's module, its function is bound instead."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType):
            value = getattr(value, name, value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Experiments
one_room(__name__)
