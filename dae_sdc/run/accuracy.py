"""Check the orders of the node-parallel sweepers at index 1, 2 and 3; exits with 1 if one is off.

Example: mpirun -n 3 dae-sdc accuracy
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dae_sdc.arguments import checked
from dae_sdc.errors import require_count
from dae_sdc.run import options
from dae_sdc.run.convergence import COLUMNS, convergence, print_table
from dae_sdc.run.processes import everyone, world
from dae_sdc.run.results import Result, combinations_of
from dae_sdc.run.study import Study
from dae_sdc.sweepers.collocation import MOST_NODES, expected_orders
from dae_sdc.sweepers.parallel import DIAGONAL

PROBLEMS = ("hessenberg-1", "hessenberg-2", "hessenberg-3")
SWEEPERS = ("fully-implicit", "semi-implicit", "constrained")

FRACTIONS = (0.625, 0.75, 0.875, 1.0)
"""Numbers of steps of a study, as parts of the largest: within a factor of two one power of dt rules."""

LENGTH = {1: 2.5, 2: 1.0, 3: 1.0}
"""Longest time, for hessenberg-<index>, that a study covers."""

MOST_STEPS = 24
MOST_STEPS_A_UNIT = 512.0
"""Where an order is so low that errors are large anyway: smallest step size, as steps in a LENGTH."""

DIGITS = 11.0
"""Accuracy at the smallest step size."""

RESTOL = 2e-14
"""What sweeps with MIN-SR-S leave of the iteration is up to a hundred times this."""

MAXITER = 400
"""The fully implicit sweep at index 3 contracts by a half."""

TOLERANCE = 0.3
"""Largest distance of a measured order from theory."""


@checked()
def accuracy(
    *,
    sweepers: str | Sequence[str] = SWEEPERS,
    nodes: int | None = None,
    qdelta: str = DIAGONAL,
    parallel: str = "nodes",
    comm: Any = None,
    out: str | Path | None = None,
    progress: bool = False,
) -> Result:
    """Orders of the converged solution at index 1, 2 and 3, measured with the nodes on the ranks of MPI.

    Parameters
    ----------
    sweepers : str or sequence of str
        Names of SDC sweepers.
    nodes : int, optional
        M; if not given, the number of ranks, at least 2.
    qdelta : str
        A diagonal Q_Delta.
    parallel : str
        What the ranks share: nodes, steps or both.
    comm : mpi4py.MPI.Intracomm, optional
        The ranks; COMM_WORLD if not given.
    out : str or Path, optional
        File to save the result to.
    progress : bool
        Show a progress bar if standard error is a terminal.

    Returns
    -------
    Result
        Of kind "convergence"; :func:`off` lists what of it is farther than 0.3 from theory.

    Raises
    ------
    InputError
        If something given cannot be used, for instance more ranks than nodes.
    """
    size = (world() if comm is None else comm).Get_size()
    number = max(size, 2) if nodes is None else nodes
    require_count("nodes", number, MOST_NODES)
    study = Study("convergence", COLUMNS, {"dt": "s", "error": "1"}, out, everyone(parallel, comm))
    with study:
        for index, problem in enumerate(PROBLEMS, start=1):
            best = max(order for order in expected_orders("RADAU-RIGHT", number, index) if order)
            dts, end = step_sizes(index, best)
            part = convergence(
                problem,
                sweepers=sweepers,
                nodes=number,
                qdeltas=qdelta,
                dts=dts,
                t_end=end,
                parallel=parallel,
                comm=comm,
                progress=progress,
                restol=RESTOL,
                maxiter=MAXITER,
            )
            study.parameters["failures"] += part.parameters["failures"]
            study.add(part.data.tolist(), last=True)
    return study.result()


def step_sizes(
    index: int, order: float, most_steps: int = MOST_STEPS, digits: float = DIGITS
) -> tuple[list[float], float]:
    """Step sizes and end time for hessenberg-<index> at which a method of this order errs by 10^-digits."""
    shortest = LENGTH[index] / min(0.5 * 10.0 ** ((digits - 0.5) / order), MOST_STEPS_A_UNIT)
    steps = min(most_steps, 8 * max(1, round(LENGTH[index] / shortest / 8.0)))
    end = steps * shortest
    return [end / round(part * steps) for part in FRACTIONS], end


def off(result: Result) -> list[str]:
    """What of a convergence study is not of the order that theory states, a line each."""
    keys = ("problem", "sweeper", "nodes", "qdelta", "group")
    found = []
    for (problem, sweeper, number, qdelta, group), rows in combinations_of(result.data, keys):
        row = rows[0]
        if not abs(row["slope"] - row["expected"]) <= TOLERANCE:
            found.append(
                f"{problem}, {sweeper}, M={number}, {qdelta}, {group}: order {row['slope']:.2f} instead of "
                f"{row['expected']:.0f}"
            )
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc accuracy``."""
    options.add(parser, "sweepers nodes qdelta parallel out")
    parser.set_defaults(sweeper=list(SWEEPERS), parallel="nodes", qdelta=DIAGONAL)


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc accuracy``."""
    result = accuracy(
        sweepers=args.sweeper,
        nodes=args.nodes,
        qdelta=args.qdelta,
        parallel=args.parallel,
        out=args.out,
        progress=True,
    )
    print_table(result)
    failures = [*result.parameters["failures"], *off(result)]
    for failure in off(result):
        print(f"dae-sdc: {failure}", file=sys.stderr)
    if args.out:
        print(f"written to {args.out}")
    if not failures:
        print(f"all orders within {TOLERANCE} of theory")
    return 1 if failures else 0
