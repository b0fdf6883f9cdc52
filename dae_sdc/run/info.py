"""Show a problem, a method or this installation.

Example: dae-sdc info pendulum
"""

from __future__ import annotations

import argparse
import inspect
from typing import Any

from dae_sdc.arguments import checked
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.registry import unknown
from dae_sdc.run.description import make_problem
from dae_sdc.run.results import provenance
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.sdc import SWEEPERS


@checked()
def info(name: str | None = None) -> str:
    """What there is to know about a problem or a sweeper; versions and machine without a name.

    Parameters
    ----------
    name : str, optional
        Name of a problem or sweeper.

    Raises
    ------
    InputError
        For a name that is neither.
    """
    if name is None:
        return "\n".join(f"{key:<12} {value}" for key, value in provenance().items())
    if name in PROBLEMS:
        return _problem(name, make_problem(name))
    if name in SWEEPERS:
        return _sweeper(name, SWEEPERS[name])
    raise InputError(unknown("problem or sweeper", name, [*PROBLEMS, *SWEEPERS]))


def _problem(name: str, problem: ProblemDAE) -> str:
    start, end = problem.interval
    lines = [
        f"{name}: {problem.title}",
        f"class {type(problem).__name__}, index {problem.index}, "
        f"{problem.n_diff} differential and {problem.n_alg} algebraic unknowns, "
        f"t from {start:g} to {end:g} {problem.time_unit}",
        "unknowns: " + ", ".join(f"{n} [{u}]" for n, u in zip(problem.names, problem.units, strict=True)),
    ]
    if problem.parameter_units:
        values = problem.params
        lines.append("parameters:")
        lines += [f"  {key} = {values.get(key)} {unit}" for key, unit in problem.parameter_units.items()]
    return "\n".join([*lines, "", inspect.getdoc(type(problem)) or ""])


def _sweeper(name: str, sweeper: type[Any]) -> str:
    lines = [f"{name}: class {sweeper.__name__}"]
    if issubclass(sweeper, DirectMethod):
        lines += sweeper.summary()
    return "\n".join([*lines, "", inspect.getdoc(sweeper) or ""])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc info``."""
    parser.add_argument("name", nargs="?", help="problem or sweeper; without it, versions and machine")


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc info``."""
    print(info(args.name))
    return 0
