"""Time and memory from a hundred to a hundred thousand unknowns, and against IDA at equal accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dae_sdc.plotting import plot
from dae_sdc.run.bench import bench, print_report

RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] = ()) -> int:
    """Run the study; takes no arguments."""
    RESULTS.mkdir(exist_ok=True)
    print_report(bench("size", out=RESULTS / "size.npy", progress=True))
    print(plot("size", RESULTS / "size.npy"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
