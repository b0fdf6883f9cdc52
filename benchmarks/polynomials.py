"""Polynomial systems whose solutions are known: how often they are found, and in what time."""

from pathlib import Path

from dae_sdc.run.bench import bench, print_report

RESULTS = Path(__file__).parent / "results"

if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    print_report(bench("polynomials", out=RESULTS / "polynomials.npy", progress=True))
