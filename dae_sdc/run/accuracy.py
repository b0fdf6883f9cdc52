"""Check the orders of the node-parallel sweepers at index 1, 2 and 3; exits with 1 if one is off.

Example: mpirun -n 3 dae-sdc accuracy
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from dae_sdc.errors import require_count
from dae_sdc.options import Method, Methods, Output, Ranks, Sharing, option, redeclared, takes
from dae_sdc.run.convergence import convergence, summary
from dae_sdc.run.processes import everyone, world
from dae_sdc.run.results import COLUMNS, Result, combinations_of
from dae_sdc.run.study import Study, verb
from dae_sdc.sweepers.collocation import MOST_NODES, expected_orders
from dae_sdc.sweepers.parallel import DIAGONAL

PROBLEMS = ("hessenberg-1", "hessenberg-2", "hessenberg-3")
SWEEPERS = ("fully-implicit", "semi-implicit", "constrained")

# Numbers of steps of a study, relative to the largest: within a factor of two one power of dt dominates.
FRACTIONS = (0.625, 0.75, 0.875, 1.0)
LENGTH = {1: 2.5, 2: 1.0, 3: 1.0}  # Longest interval of a study of hessenberg-<index>, by index.

MOST_STEPS_A_LENGTH = 24  # Most steps in a LENGTH, for orders so low that errors stay large.
MOST_STEPS_A_UNIT = 512.0  # The same in a unit of time.

DIGITS = 11.0  # Wanted number of correct digits at the smallest step size.
RESIDUAL_TOLERANCE_OF_STUDY = 2e-14  # Ends sweeps; with MIN-SR-S iteration errors are up to 100 times this.
ITERATIONS_OF_STUDY = 400  # Most sweeps; the fully implicit one contracts by 1/2 only at index 3.
TOLERANCE = 0.3  # Largest distance of a measured order from theory.


@dataclass(frozen=True, kw_only=True)
class AccuracyOptions(Ranks, Sharing, Output, Methods):
    """Options of :func:`accuracy`."""

    sweeper: str | Sequence[str] = redeclared(Methods, "sweeper", SWEEPERS)
    nodes: int | None = option(None, "number of collocation nodes (that of the ranks, at least 2)")
    qdelta: str = redeclared(Method, "qdelta", DIAGONAL, "It is diagonal.")
    parallel: str = redeclared(Sharing, "parallel", "nodes")


@takes(AccuracyOptions)
def accuracy(options: AccuracyOptions) -> Result:
    """Orders of the converged solution at index 1, 2 and 3, measured with the nodes on the ranks of MPI.

    {options}

    Returns
    -------
    Result
        Of kind "convergence"; :func:`off` lists orders that differ by more than 0.3 from theory.

    Raises
    ------
    InputError
        For invalid options, for instance more ranks than nodes.

    Examples
    --------
    >>> study = ds.accuracy(nodes=3)  # doctest: +SKIP
    >>> print(study.data["slope"])  # doctest: +SKIP
    """
    size = (world() if options.comm is None else options.comm).Get_size()
    number = max(size, 2) if options.nodes is None else options.nodes
    require_count("nodes", number, MOST_NODES)
    settings = {**options.of(Methods, nodes=number), **options.of(Sharing), **options.of(Ranks)}
    settings |= {"restol": RESIDUAL_TOLERANCE_OF_STUDY, "maxiter": ITERATIONS_OF_STUDY}
    units, ranks = {"dt": "s", "error": "1"}, everyone(options.parallel, options.comm)
    with Study("convergence", COLUMNS["convergence"], units, options.out, ranks) as study:
        for index, problem in enumerate(PROBLEMS, start=1):
            best = max(order for order in expected_orders("RADAU-RIGHT", number, index) if order)
            dts, end = step_sizes(index, best)
            part = convergence(problem, dt=dts, t_end=end, progress=options.progress, **settings)
            study.parameters["failures"] += part.parameters["failures"]
            study.add(part.data.tolist())
    return study.result()


def step_sizes(index: int, order: float, most_steps: int = MOST_STEPS_A_LENGTH) -> tuple[list[float], float]:
    """Step sizes and end time for hessenberg-<index>, for an error of 10^-DIGITS at the smallest one."""
    shortest = LENGTH[index] / min(0.5 * 10.0 ** ((DIGITS - 0.5) / order), MOST_STEPS_A_UNIT)
    steps = min(most_steps, 8 * max(1, round(LENGTH[index] / shortest / 8.0)))
    end = steps * shortest
    return [end / round(part * steps) for part in FRACTIONS], end


def off(result: Result) -> list[str]:
    """A line for each order of a convergence study that differs from theory by more than TOLERANCE."""
    keys = ("problem", "sweeper", "nodes", "qdelta", "group")
    return [
        f"{problem}, {sweeper}, M={number}, {qdelta}, {group}: order {rows['slope'][0]:.2f} instead of "
        f"{rows['expected'][0]:.0f}"
        for (problem, sweeper, number, qdelta, group), rows in combinations_of(result.data, keys)
        if not abs(rows["slope"][0] - rows["expected"][0]) <= TOLERANCE
    ]


def failed(result: Result) -> bool:
    """Whether a run has failed or an order is off, which is told."""
    for order in off(result):
        print(f"dae-sdc: {order}", file=sys.stderr)
    if result.parameters["failures"] or off(result):
        return True
    print(f"all orders within {TOLERANCE} of theory")
    return False


_arguments, main = verb(accuracy, summary, failed)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc accuracy``."""
    _arguments(parser)
    parser.set_defaults(parallel="nodes")  # the command line needs no --parallel under mpirun
