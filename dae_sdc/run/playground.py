"""Run one of the two small playgrounds.

Example: dae-sdc playground synchronous-machine --out machine.npy
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dae_sdc.arguments import checked
from dae_sdc.errors import InputError
from dae_sdc.registry import unknown
from dae_sdc.run import options
from dae_sdc.run.convergence import errors
from dae_sdc.run.description import make_problem
from dae_sdc.run.solution import Solution
from dae_sdc.run.solve import solve

PLAYGROUNDS: Mapping[str, dict[str, Any]] = {
    "fully-implicit": {
        "problem": "problematic-f",
        "sweeper": "fully-implicit",
        "nodes": 3,
        "qdelta": "IE",
        "dt": 0.1,
        "t_end": 1.0,
        "restol": 1e-6,
    },
    "synchronous-machine": {
        "problem": "synchronous-machine",
        "sweeper": "fully-implicit",
        "nodes": 3,
        "qdelta": "LU",
        "dt": 0.01,
        "t_end": 1.0,
        "restol": 1e-7,
    },
}
"""The runs.

One is the standard index-2 problem that is solvable only for some parameters, the other a machine whose
torque drops.
"""


@checked("dae_sdc.run.solve:solve", "dae_sdc.run.description:describe", without=("problem",))
def playground(
    name: str, *, out: str | Path | None = None, progress: bool = False, **changes: Any
) -> Solution:
    """Run a playground and return its solution.

    Parameters
    ----------
    name : str
        ``fully-implicit``: fully-implicit SDC on ProblematicF; ``synchronous-machine``: the machine under its
        torque disturbance.
    out : str or Path, optional
        File to save the solution to.
    progress : bool
        Show a progress bar if standard error is a terminal.
    **changes
        Arguments of :func:`dae_sdc.run.solve` that replace those of the playground.

    Raises
    ------
    InputError
        For an unknown name.
    """
    if name not in PLAYGROUNDS:
        raise InputError(unknown("playground", name, PLAYGROUNDS))
    return solve(**{**PLAYGROUNDS[name], **changes}, out=out, progress=progress)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc playground``."""
    parser.add_argument("name", help=" or ".join(PLAYGROUNDS))
    options.add(parser, "nodes qdelta dt t-end restol maxiter param out")


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc playground``."""
    changes = options.settings(args)
    given = {name: getattr(args, name) for name in ("dt", "t_end") if getattr(args, name) is not None}
    solution = playground(args.name, out=args.out, progress=True, **changes, **given)
    problem = make_problem(solution.parameters["problem"], changes.get("problem_params"))
    print(f"{solution.parameters['problem']}: t = {solution.t[-1]:g}, {solution.stats['sweeps']} sweeps")
    if not solution.success:
        print(f"dae-sdc: {solution.message}", file=sys.stderr)
        return 1
    for group, error in errors(problem, solution).items():
        print(f"  largest error, {group}: {error:.2e}")
    if args.out:
        print(f"written to {args.out}")
    return 0
