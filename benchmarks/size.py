"""Time and memory from a hundred to a hundred thousand unknowns, and against IDA at equal accuracy."""

from pathlib import Path

from dae_sdc.plotting import plot
from dae_sdc.run.bench import bench, print_report

RESULTS = Path(__file__).parent / "results"

if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    print_report(bench("size", out=RESULTS / "size.npy", progress=True))
    print(plot("size", RESULTS / "size.npy"))
