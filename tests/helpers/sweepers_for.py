"""Which of the registered sweepers take a problem: some are for ordinary differential equations alone."""

from __future__ import annotations

from dae_sdc.errors import InputError
from dae_sdc.run.target import make_problem
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.sdc import SWEEPERS


def sweepers_for(problem: str) -> list[str]:
    """Names of the sweepers that do not refuse the problem of that name."""
    instance = make_problem(problem)

    def takes(cls: type) -> bool:
        if not issubclass(cls, DirectMethod):
            return True
        try:
            cls.check_problem(instance)
        except InputError:
            return False
        return True

    return [name for name, cls in SWEEPERS.items() if takes(cls)]
