"""Run one of the two small playgrounds.

Example: dae-sdc playground synchronous-machine --out machine.npy
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dae_sdc.options import about, add_options, given_options, takes
from dae_sdc.registry import require_name
from dae_sdc.run.convergence import errors
from dae_sdc.run.description import RunOptions
from dae_sdc.run.results import say_written
from dae_sdc.run.solution import Solution
from dae_sdc.run.solve import solve
from dae_sdc.run.target import make_problem

_SHARED: Mapping[str, Any] = {"sweeper": "fully-implicit", "nodes": 3, "t_end": 1.0}

# Options of an index-2 problem, solvable for some parameters only, and of a machine whose torque drops.
PLAYGROUNDS: Mapping[str, dict[str, Any]] = {
    "fully-implicit": {"problem": "problematic-f", "qdelta": "IE", "dt": 0.1, "restol": 1e-6},
    "synchronous-machine": {"problem": "synchronous-machine", "qdelta": "LU", "dt": 0.01, "restol": 1e-7},
}


@dataclass(frozen=True)
class PlaygroundOptions(RunOptions):
    """Options of :func:`playground`; given ones replace those of the playground."""

    name: str = field(metadata=about(f"playground: {' or '.join(PLAYGROUNDS)}"))


@takes(PlaygroundOptions)
def playground(options: PlaygroundOptions) -> Solution:
    """Run a playground and return its solution.

    {options}

    Returns
    -------
    Solution
        The solution, as :func:`solve` returns it.

    Raises
    ------
    InputError
        For an unknown name.

    Examples
    --------
    >>> solution = ds.playground("fully-implicit")  # doctest: +SKIP
    >>> print(solution.stats["sweeps"])  # doctest: +SKIP
    """
    require_name("playground", options.name, PLAYGROUNDS)
    return solve(**{**_SHARED, **PLAYGROUNDS[options.name], **options.chosen(without=("name",))})


add_arguments = partial(add_options, record=PlaygroundOptions)


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc playground``."""
    given = given_options(args, PlaygroundOptions)
    solution = playground(**{"progress": None, **given})
    problem = make_problem(solution.parameters["problem"], given.get("params"))
    print(f"{solution.parameters['problem']}: t = {solution.t[-1]:g}, {solution.stats['sweeps']} sweeps")
    if not solution.success:
        print(f"dae-sdc: {solution.message}", file=sys.stderr)
        return 1
    for group, error in errors(problem, solution).items():
        print(f"  largest error, {group}: {error:.2e}")
    say_written(args.out)
    return 0
