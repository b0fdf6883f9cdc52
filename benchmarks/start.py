"""Time of imports and of the first solve in a fresh process, before and after numba has compiled."""

from pathlib import Path

from dae_sdc.run.bench import bench, print_report

RESULTS = Path(__file__).parent / "results"

if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    print_report(bench("start", out=RESULTS / "start.npy", progress=True))
