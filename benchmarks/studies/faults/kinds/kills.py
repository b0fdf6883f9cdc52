"""Runs that are ended from outside at a random moment, and what stands in their directory then."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.runs import Finding
from benchmarks.studies.faults import cases
from benchmarks.studies.faults.cases import DONE, HANG, LINES, LOST, RAW, TORN, Case, Random, choice, kind
from dae_sdc.errors import DAEError

SOLVE = "solve simple --sweeper semi-implicit --nodes 2 --out run.npy --dt"
KEEP = "solve simple --sweeper semi-implicit --nodes 2 --out run.npy --checkpoint"
TOLERANCE = "solve simple --out run.npy --rtol"
BOTH = "hessenberg-1,hessenberg-2 --nodes 2,3 --sweeper semi-implicit,fully-implicit"
STUDY = f"convergence {BOTH} --out run.npy"

# Number of ranks, the run that is ended, and a short one of the same files that follows
RUNS: Mapping[str, tuple[int, str, str]] = {
    "solve": (1, f"{SOLVE} 1e-5", f"{SOLVE} 0.1"),
    "solve with a checkpoint": (1, f"{KEEP} state.npz --every 20 --dt 1e-5", f"{KEEP} other.npz --dt 0.1"),
    "solve to a tolerance": (1, f"{TOLERANCE} 1e-10 --sweeper esdirk43", f"{TOLERANCE} 1e-3"),
    "convergence": (1, STUDY, f"{STUDY} --dt 0.2,0.1"),
    "solve on two ranks": (2, f"{SOLVE} 1e-4 --parallel nodes", f"{SOLVE} 0.1"),
}

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def torn(place: Path) -> str:
    """What is not whole among the files under their final names, or nothing."""
    for path in sorted(place.iterdir()):
        if path.name.startswith("."):
            continue
        try:
            if path.name in ("state.npz", "other.npz"):
                short: dict[str, Any] = {"dt": 1e-5, "sweeper": "semi-implicit", "nodes": 2, "t_end": 1e-5}
                # It refuses an end before the checkpoint, once that has been read.
                with suppress(ds.InputError):
                    ds.solve("simple", checkpoint=path, resume=True, **short)
                with np.load(path) as kept:
                    dict(kept)
            elif path.suffix == ".npy":
                ds.load(path)
            elif path.suffix == ".png":
                if b"IEND" not in path.read_bytes()[-8:]:
                    return f"{path.name} without its end"
            elif not any(one.with_suffix(".npy").exists() for one in (path, path.with_suffix(""))):
                return f"{path.name} without its .npy"
        except (DAEError, OSError, ValueError, KeyError) as error:
            return f"{path.name}: {error}"
    return ""


def finished(place: Path) -> bool:
    """Whether the result is there, whole, and of a run that came to its end."""
    with suppress(DAEError):
        about = ds.load(place / "run.npy").parameters
        return bool(about.get("complete", about.get("success", True)))
    return False


def left(place: Path) -> list[str]:
    """Files that are hidden, temporary or of a run that did not end."""
    return [path.name for path in sorted(place.iterdir()) if path.name[0] == "." or "partial" in path.name]


@dataclass(frozen=True)
class Kill:
    number: int  # Signal
    first: bool  # Whether it comes after the run has begun to write its first file, and not after its start
    delay: float  # How long after, in seconds
    before: bool  # Whether a finished result is there already


def ended(command: list[str], kill: Kill) -> tuple[bool, tuple[int, str] | None]:
    """End a run, which has begun to write files or not; its exit code and what it said."""
    child = cases.start(command)
    limit = time.monotonic() + cases.PROCESS_LIMIT / 2
    while kill.first and child.poll() is None and time.monotonic() < limit and not left(Path()):
        time.sleep(0.001)
    begun = bool(left(Path()))
    time.sleep(kill.delay)
    child.send_signal(kill.number)
    done = cases.finish(child)
    time.sleep(0.1)
    return begun, done


def judged(long: str, short: str, kill: Kill, ranks: int = 1) -> Finding:
    """What comes of ending a run in the current directory, and of the short one that follows."""
    place, again = Path(), cases.words(*short.split())
    if kill.before and (cases.process(again) or (1, ""))[0] != 0:
        return Finding(RAW, "the short run fails")
    launched = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    begun, done = ended([*launched, *cases.words(*long.split())], kill)
    if done is None:
        return Finding(HANG, "it does not end")
    if kill.before and not (place / "run.npy").exists():
        return Finding(LOST, f"run.npy; there are {sorted(map(str, place.iterdir()))}")
    if broken := torn(place):
        return Finding(TORN, broken)
    if kill.before and not finished(place):
        return Finding(LOST, "run.npy is not the finished one")
    # After the command has ended, while the interpreter takes itself down, a signal ends it without a word.
    code, said = done
    over = code == -kill.number and not left(place) and finished(place)
    must_say = begun and ranks == 1 and kill.number != signal.SIGKILL and code != 0 and not over
    if must_say and ("Traceback" in said or len(said.strip().splitlines()) != 1):
        return Finding(LINES, said[-300:])
    next_run = cases.process(again)
    if next_run is None or next_run[0] != 0:
        return Finding(RAW, f"the next run: {next_run}")
    if left(place) or torn(place) or not finished(place):
        return Finding(TORN, f"after the next run: {torn(place)} {left(place)}")
    return Finding(DONE)


@kind("kill", 3.0, most=100)
def kill(rng: Random) -> Case:
    """A run that a signal ends, in an empty directory or over a finished result, and the next one."""
    names = [name for name, (ranks, _, _) in RUNS.items() if ranks == 1 or which("mpirun")]
    name, number, first = choice(rng, names), choice(rng, SIGNALS), bool(rng.random() < 0.7)
    when = Kill(number, first, float(rng.uniform(0.0, 0.4 if first else 4.0)), bool(rng.random() < 0.6))
    ranks, long, short = RUNS[name]
    moment = f"{when.delay:.2f} s after its {'first file' if first else 'start'}"
    text = f"{signal.Signals(number).name} for {name} {moment}{', over a finished result' * when.before}"
    return Case(text, lambda: judged(long, short, when, ranks))
