"""Time of a step by problem, sweeper, Q_Delta and backend, and the parts of a step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dae_sdc.plotting import plot
from dae_sdc.run.bench import bench, print_report

RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] = ()) -> int:
    """Run both studies; takes no arguments."""
    RESULTS.mkdir(exist_ok=True)
    for study in ("work", "profile"):
        print_report(bench(study, out=RESULTS / f"{study}.npy", progress=True))
        print(plot(study, RESULTS / f"{study}.npy"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
