"""The same work here and in pySDC.projects.DAE, taking turns; the table of docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dae_sdc.run.bench import bench, print_report

RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] = ()) -> int:
    """Run the study; takes no arguments."""
    RESULTS.mkdir(exist_ok=True)
    print_report(bench("upstream", out=RESULTS / "upstream.npy", progress=True))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
