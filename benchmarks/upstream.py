"""The same work here and in pySDC.projects.DAE, taking turns; the table of docs/performance.md."""

from pathlib import Path

from dae_sdc.run.bench import bench, print_report

RESULTS = Path(__file__).parent / "results"

if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    print_report(bench("upstream", out=RESULTS / "upstream.npy", progress=True))
