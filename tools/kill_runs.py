"""Kill runs at random times, let them go on from their checkpoints, and compare the digits.

    python tools/kill_runs.py                    100 kills
    python tools/kill_runs.py --kills 20 --seed 3

Runs of several problems and methods write a checkpoint every few steps. A process that carries one out is
killed (SIGKILL) at a random time of its run, the checkpoint is read and compared with what the process had
written before, and another process goes on from it, to be killed in its turn. Nothing may be lost: the file
is always whole, the steps in it never become fewer and are the first ones of the solution, and the solution
of the last process, which comes to the end, has the same digits as that of an undisturbed run without
checkpoints. The exit code is 0 if all that holds.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dae_sdc as ds
from dae_sdc.run.resume import read_checkpoint

RUN = """
import json, sys
import dae_sdc as ds
problem, settings, short, file, out = json.loads(sys.argv[1])
ds.solve(problem, **short)
print("begun", flush=True)
ds.solve(problem, checkpoint=file, resume=True, out=out, **settings)
print("ended", flush=True)
"""

CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("pendulum", {"rtol": 1e-10, "t_end": 20.0, "every": 3}),
    ("nand-gate", {"rtol": 1e-6, "t_end": 60.0, "every": 10}),
    ("charge-pump", {"rtol": 1e-5, "t_end": 1e-6, "every": 5}),
    ("transmission-line", {"rtol": 1e-7, "t_end": 10.0, "every": 2}),
    ("pendulum", {"sweeper": "semi-implicit", "dt": 0.005, "t_end": 4.0, "every": 7}),
    ("pendulum", {"sweeper": "semi-implicit", "rtol": 1e-8, "t_end": 8.0, "every": 1}),
)
"""Problems and settings that take turns."""


class Kill(NamedTuple):
    """What a killed process has left.

    Parameters
    ----------
    steps : int
        Accepted steps in the checkpoint.
    new : int
        Those among them that this process has taken.
    unfinished : int
        Files left of a write that the kill interrupted.
    """

    steps: int
    new: int
    unfinished: int


class Case:
    """A run that is killed again and again, until it has ended and begins anew."""

    def __init__(self, problem: str, settings: dict[str, Any], directory: Path) -> None:
        self.problem, self.settings = problem, settings
        self.file, self.out = directory / "run.npz", directory / "run.npy"
        self.plain = {name: value for name, value in settings.items() if name != "every"}
        # Processes load and compile all they need before their time counts.
        self.short = {**self.plain, "t_end": settings.get("dt", 1e-3 * settings["t_end"])}
        ds.solve(problem, **self.short)
        began = time.perf_counter()
        self.whole = ds.solve(problem, **self.plain)
        self.duration = time.perf_counter() - began
        self.steps, self.ended = 0, 0

    def process(self) -> subprocess.Popen[str]:
        """Begin or go on in a process of its own."""
        what = json.dumps([self.problem, self.settings, self.short, str(self.file), str(self.out)])
        return subprocess.Popen([sys.executable, "-c", RUN, what], stdout=subprocess.PIPE, text=True)

    def kill(self, chance: float) -> Kill | None:
        """Kill a process after a part of the time of the run; None if it has ended before."""
        with self.process() as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(2.0 * chance * self.duration)
            process.kill()
            process.communicate()
        if process.returncode == 0:
            self.finish()
            return None
        left = list(self.file.parent.glob(".*.tmp"))
        for one in left:
            one.unlink()
        if not self.file.exists():
            check(self.steps == 0, "the checkpoint is gone")
            return Kill(0, 0, len(left))
        record = read_checkpoint(self.file)[1]["record"]
        steps, new = len(record["t"]), len(record["t"]) - self.steps
        check(new >= 0, f"{-new} steps were lost")
        for name in ("t", "u", "du"):
            expected = getattr(self.whole, name)[1 : steps + 1]
            check(np.array_equal(record[name], expected), f"{name} has other digits after {steps} steps")
        self.steps = steps
        return Kill(steps, new, len(left))

    def finish(self) -> None:
        """Look at the solution of the last process, and begin anew."""
        solution = ds.Solution.load(self.out)
        for name in ("t", "u", "du"):
            same = np.array_equal(getattr(solution, name), getattr(self.whole, name))
            check(same, f"{name} of the solution has other digits")
        check(solution.stats == self.whole.stats, "the work was counted differently")
        self.file.unlink()
        self.steps, self.ended = 0, self.ended + 1


def check(holds: bool, failure: str) -> None:
    """End the script with a message unless something holds."""
    if not holds:
        raise SystemExit(failure)


def main() -> int:
    """Kill processes, and tell what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100, help="number of kills (100)")
    parser.add_argument("--seed", type=int, default=1, help="of the times of the kills (1)")
    args = parser.parse_args()
    chances, kills = random.Random(args.seed), 0
    interrupted = 0
    with tempfile.TemporaryDirectory() as name:
        cases = []
        for number, (problem, settings) in enumerate(CASES):
            directory = Path(name) / str(number)
            directory.mkdir()
            cases.append(Case(problem, settings, directory))
        while kills < args.kills:
            case = cases[kills % len(cases)]
            found = case.kill(chances.random())
            if found is None:
                continue
            kills += 1
            interrupted += found.unfinished
            print(f"kill {kills:3}: {case.problem}, {found.steps} steps kept, {found.new} new", flush=True)
        for case in cases:
            with case.process() as process:
                process.communicate()
            check(process.returncode == 0, f"{case.problem} did not come to its end")
            case.finish()
        ended = sum(case.ended for case in cases)
    print(
        f"{kills} kills, {interrupted} of them in the middle of a write, {ended} runs came to their ends: no "
        f"file was damaged, no step lost, and all digits are those of undisturbed runs"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
