"""A solve in a process of its own, asked for and told in JSON: its time from a cold start, and its memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring.clock import stopwatch
from benchmarks.measuring.processes import PATIENCE, as_answer, ask, environment, without_error
from dae_sdc.dae.memory import COUNTERS
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import DAEError
from dae_sdc.run.solve import solve
from dae_sdc.run.target import make_problem


def nominal_of(problem: ProblemDAE) -> Any:
    return np.asarray(problem.nominal, dtype=np.float64)


def largest_error(problem: ProblemDAE, found: NDArray[np.float64], exact: NDArray[np.float64]) -> float:
    """Largest error of an unknown in units of its nominal value."""
    return float(np.abs((found - exact) / nominal_of(problem)).max())


def common_sizes(problem: ProblemDAE, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The size of the largest unknown, for all of them: each in units of its nominal value."""
    # Shapes: values (n,).
    nominal = np.broadcast_to(nominal_of(problem), values.shape)
    return np.asarray(nominal * np.abs(values / nominal).max(), dtype=np.float64)


def peak_memory() -> float:
    """Largest memory of this process so far, in bytes."""
    # On Linux, getrusage begins with the memory of the process that started this one.
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return 1024.0 * float(line.split()[1])
    try:
        import resource
    except ImportError:
        return float("nan")
    largest = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return largest if sys.platform == "darwin" else 1024.0 * largest


def carry_out(problem: str, params: Any, t_end: float, warm: Any = None, **settings: Any) -> dict[str, Any]:
    """Solve once and say what it took; raises DAEError where that fails."""
    if warm is not None:
        solve(problem, params=warm, t_end=t_end, **settings)
    before = peak_memory()
    with stopwatch() as spent:
        solution = solve(problem, params=params, t_end=t_end, **settings)
    memory = peak_memory()
    if not solution.success:
        raise DAEError(solution.message)
    made: Any = make_problem(problem, params)
    counts = {name: solution.stats[name] for name in ("steps", "sweeps", *COUNTERS)}
    error = largest_error(made, solution.u[-1], np.asarray(made.u_exact(t_end)))
    took = {"time": spent.wall, "processor": spent.processor, "memory": memory, "memory_before": before}
    return {**took, "error": error, **counts}


def in_a_new_process(asked: Mapping[str, Any], patience: float = PATIENCE) -> dict[str, Any]:
    """What :func:`carry_out` finds in a new process."""
    module = ("-m", "benchmarks.measuring.cold")
    return without_error(ask(module, asked, "a solve in a process of its own", patience, environment()))


def main() -> int:
    try:
        found = carry_out(**json.load(sys.stdin))
    except DAEError as error:
        found = as_answer(error)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
