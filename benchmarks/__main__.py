"""Run a benchmark by its name.

Example: python -m benchmarks truth --quick
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

STUDIES = {
    "faults": "benchmarks.faults.study",
    "polynomials": "benchmarks.polynomials",
    "size": "benchmarks.size",
    "start": "benchmarks.start",
    "truth": "benchmarks.truth.study",
    "upstream": "benchmarks.upstream",
    "work": "benchmarks.work",
}
"""Module of each study, with a function ``main`` that takes the other arguments."""


def main(arguments: Sequence[str]) -> int:
    """Run the study that the first argument names, with the others."""
    from dae_sdc.registry import unknown

    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"usage: python -m benchmarks NAME, with NAME one of {', '.join(STUDIES)}")
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in STUDIES:
        print(unknown("benchmark", name, STUDIES), file=sys.stderr)
        return 2
    return int(importlib.import_module(STUDIES[name]).main(rest))


if __name__ == "__main__":
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # before NumPy is imported
    raise SystemExit(main(sys.argv[1:]))
