"""Record what 300 calls return, or compare with a record: digits, messages, parameters, files and errors.

A change that is to leave behaviour as it is shows that by two records that are equal:

    python tools/recorded.py before.json
    python tools/recorded.py --against before.json

The calls run in processes of their own, each with a time limit; ``--workers`` tells how many at once.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.deadline import limited
from dae_sdc.problems._models import MODELS
from dae_sdc.run.description import describe
from dae_sdc.sweepers.sdc import SWEEPERS

Call = Callable[[], Any]

ROOT = Path(ds.__file__).parents[1]

SECONDS = 60.0
"""Time that a call may take."""

UNTOLD = {
    "version",
    "created",
    "seconds",
    "time",
    "timing",
    "host",
    "machine",
    "command",
    "log",
    "python",
    "made",
}
"""Entries of results that differ from run to run."""

REFUSED: tuple[dict[str, Any], ...] = (
    {"problem": "pendulums"},
    {"problem": 3},
    {"problem": "nothing.py"},
    {"problem": "nothing.mo"},
    {"problem": "pendulum", "rtol": -1.0},
    {"problem": "pendulum", "rtol": 1e-30},
    {"problem": "pendulum", "dt": 0.3, "t_end": 1.0},
    {"problem": "pendulum", "dt": -0.1},
    {"problem": "pendulum", "dt": 1e-300},
    {"problem": "pendulum", "t_end": -1.0},
    {"problem": "pendulum", "t_end": math.nan},
    {"problem": "pendulum", "t0": 1.0, "t_end": 1.0},
    {"problem": "pendulum", "sweeper": "radau"},
    {"problem": "pendulum", "sweeper": int},
    {"problem": "pendulum", "quad": "RADAU"},
    {"problem": "pendulum", "dt": 0.1, "quad": "RADAU-LEFT"},
    {"problem": "pendulum", "dt": 0.1, "nodes": 0},
    {"problem": "pendulum", "dt": 0.1, "qdelta": "UL"},
    {"problem": "pendulum", "dt": 0.1, "atol": 1e-3},
    {"problem": "pendulum", "rtol": 1e-5, "restol": 1e-9},
    {"problem": "pendulum", "rtol": 1e-5, "steps": 4},
    {"problem": "pendulum", "rtol": 1e-5, "coarse_nodes": 2, "sweeper": "fully-implicit"},
    {"problem": "pendulum", "rtol": 1e-5, "nodes": 9},
    {"problem": "pendulum", "u0": [1.0, 2.0]},
    {"problem": "pendulum", "u0": [1.0, 1.0, 1.0, 1.0, 1.0]},
    {"problem": "pendulum", "u0": {"z": 1.0}},
    {"problem": "pendulum", "u0": "nowhere.npy"},
    {"problem": "pendulum", "u0": [math.nan] * 5},
    {"problem": "pendulum", "params": {"weight": 1.0}},
    {"problem": "pendulum", "controller_params": {"noise": 3}},
    {"problem": "pendulum", "convergence_controllers": {3: 4}},
    {"problem": "pendulum", "start": "nearby"},
    {"problem": "pendulum", "start": "given", "guesses": {"x": 1.0}},
    {"problem": "pendulum", "fixed": {"x": 0.6}, "guesses": {"x": 0.5}},
    {"problem": "pendulum", "simplify": True},
    {"problem": "pendulum", "sweeper": "ida"},
    {"problem": "pendulum", "sweeper": "ida", "rtol": 1e-5, "nodes": 3},
    {"problem": "pendulum", "sweeper": "cvode", "rtol": 1e-5},
    {"problem": "pendulum", "max_order": 3},
    {"problem": "pendulum", "global_error": True},
    {"problem": "pendulum", "threads": 0},
    {"problem": "pendulum", "parallel": "times"},
    {"problem": "pendulum", "parallel": "steps", "rtol": 1e-5},
    {"problem": "pendulum", "singular": "past"},
    {"problem": "pendulum", "every": 3},
    {"problem": "pendulum", "resume": True},
    {"problem": "pendulum", "t_eval": [3.0, 1.0]},
    {"problem": "pendulum", "t_eval": [99.0]},
    {"problem": "pendulum", "points": 1},
    {"problem": "pendulum", "events": ["z - 1"]},
    {"problem": "pendulum", "project": True, "dt": 0.1, "steps": 2},
    {"problem": "simple", "project": True},
    {"problem": "simple", "sweeper": "rattle", "dt": 0.1},
    {"problem": "simple", "dt": 0.1, "sweeper": "bdf2", "nodes": 3},
    {"problem": "simple", "dt": 0.1, "sweeper": "bdf2", "parallel": "steps"},
    {"problem": "simple", "dt": 0.1, "coarse_qdelta": "LU"},
    {"problem": "simple", "dt": 0.1, "coarse_nodes": 2, "coarsen": True},
    {"problem": "simple", "dt": 0.1, "seed": -1},
    {"problem": "simple", "dt": 0.1, "backend": "fortran"},
    {"problem": "simple", "dt": 0.1, "residual_type": "most"},
    {"problem": "simple", "leave_out": ["q"], "rtol": 1e-4},
    {"problem": "simple", "hooks": [3]},
    {"problem": "simple", "linear_solver": "cramer"},
    {"problem": "simple", "newton_tol": 0.0},
    {"problem": "rlc-circuit", "params": {"Q": 1.0}},
    {"problem": "rlc-circuit", "reduce": "yes"},
    {"problem": "rlc-circuit", "u0": {"i": "a"}},
    {"problem": "index-6", "reduce": False, "t_end": 0.1},
)
"""Options of solve that are refused, or tell something."""


def decay(t: float, u: Any, du: Any) -> list[Any]:
    """An index-1 function."""
    return [du[0] + u[0], u[1] - 2.0 * u[0]]


def rolling(t: float, u: Any, du: Any) -> list[Any]:
    """The pendulum of length 1, index 3."""
    x, y, vx, vy, force = u
    return [du[0] - vx, du[1] - vy, du[2] + force * x, du[3] + force * y + 9.81, x**2 + y**2 - 1.0]


def driven(t: float, u: Any, du: Any) -> list[Any]:
    """A capacitor across a source, index 2."""
    return [u[0] - np.sin(t), du[0] - u[1], du[2] + u[2] - u[1]]


def square(t: float, u: Any, du: Any) -> list[Any]:
    """An equation with a square wave."""
    return [du[0] + u[0] - (1.0 if math.sin(7.0 * t) > 0.0 else -1.0)]


def bouncing(t: float, u: Any, du: Any) -> list[Any]:
    """An equation whose side depends on its state."""
    return [du[0] - u[1], du[1] + np.where(u[0] > 0.0, u[0], 3.0 * u[0])]


def high(t: float, u: Any, du: Any) -> list[Any]:
    """A chain of index 4."""
    return [du[0] - u[1], du[1] - u[2], du[2] - u[3], u[0] - np.sin(t)]


def failing(t: float, u: Any, du: Any) -> list[Any]:
    """A solution that ends at t = 1."""
    return [du[0] - u[0] ** 2]


FUNCTIONS: Mapping[Callable[..., Any], Any] = {
    decay: [1.0, 2.0],
    rolling: [0.6, -0.8, 0.0, 0.0, -7.848],
    driven: [0.0, 1.0, 0.0],
    square: [0.0],
    bouncing: [1.0, 0.0],
    high: [0.0, 1.0, 0.0, -1.0],
    failing: [1.0],
}
"""Functions with their starts."""

WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"rtol": 1e-8},
    {"trace": False},
    {"dt": 0.05, "sweeper": "semi-implicit"},
    {"dt": 0.05, "steps": 2},
    {"dt": 0.1, "coarse_nodes": 2},
    {"rtol": 1e-5, "points": 7, "dense": False},
    {"start": "consistent"},
    {"rtol": 1e-5, "sweeper": "fully-implicit", "nodes": 4},
    {"rtol": 1e-5, "sweeper": "ida"},
    {"dt": 0.1, "sweeper": "bdf2"},
)
"""Options of the runs of functions."""

COMMANDS = (
    "list",
    "list sweepers",
    "list problems",
    "info pendulum",
    "info rlc-circuit",
    "structure pendulum",
    "structure rlc-circuit",
    "initial pendulum",
    "initial rlc-circuit",
    "reduce pendulum-chain",
    "simplify dc-motor",
    "linearize dc-motor",
    "steady dc-motor",
    "solve simple --rtol 1e-6 --t-end 0.5 --out {out}/s.npy",
    "solve pendulum --dt 0.05 --t-end 0.5 --out {out}/p.npy",
    "solve dc-motor --t-end 0.1 --simplify --out {out}/m.npy",
    "convergence simple --sweeper fully-implicit,bdf2 --out {out}/c.npy",
    "convergence hessenberg-2 --sweeper semi-implicit --nodes 2,3 --out {out}/c.npy",
    "iterations simple --sweeper fully-implicit --nodes 3 --out {out}/i.npy",
    "sweep simple --out {out}/w.npy",
    "sweep rlc-circuit --params R=1,2,3 --t-end 0.1 --out {out}/w.npy",
    "solve nothing",
    "solve simple --dt fast",
    "plot loglog nothing.npy",
)
"""Command lines."""

RANKS = (
    "ds.solve('simple', dt=0.1, sweeper='fully-implicit', nodes=2, parallel='nodes', t_end=1.0)",
    "ds.solve('pendulum', dt=0.1, sweeper='semi-implicit', nodes=3, parallel='steps', t_end=0.4)",
    "ds.solve('pendulum', rtol=1e-6, parallel='nodes', t_end=0.5)",
    "ds.solve('pendulum', rtol=1e-6 if rank else 1e-5, parallel='nodes')",
    "ds.solve('pendulum', dt=0.3 if rank else 0.1, parallel='nodes', sweeper='fully-implicit')",
)
"""Calls on two ranks."""


def calls() -> Iterator[tuple[str, Call]]:
    """All calls by the texts that name them."""
    for name in PROBLEMS:
        yield f"solve {name}", lambda name=name: of_part(name, 0.1, rtol=1e-5)
        yield f"describe {name}", lambda name=name: describe(problem=name)
    for name in MODELS:
        yield f"solve model {name}", lambda name=name: of_part(name, 0.05, rtol=1e-4)
        yield f"initial {name}", lambda name=name: ds.initial(name)
    for name in SWEEPERS:
        yield f"sweeper {name}", lambda name=name: ds.solve("simple", sweeper=name, dt=0.125, t_end=0.5)
        yield f"pendulum {name}", lambda name=name: ds.solve("pendulum", sweeper=name, dt=0.02, t_end=0.2)
    for function, start in FUNCTIONS.items():
        for way in WAYS:
            yield (
                f"{function.__name__} {way}",
                lambda f=function, u=start, w=way: ds.solve(
                    f, u0=u, t_end=0.8 if f is not failing else 1.5, **w
                ),
            )
    for options in REFUSED:
        yield f"refused {options}", lambda options=options: ds.solve(**options)
    for name in ("simple", "pendulum", "robertson", "rlc-circuit", "dc-motor", "pendulum-chain"):
        for verb in (ds.structure, ds.reduce, ds.simplify, ds.trace, ds.linearize, ds.steady_state):
            yield f"{verb.__name__} {name}", lambda verb=verb, name=name: verb(name)
    for line in COMMANDS:
        yield f"dae-sdc {line}", lambda line=line: of_shell(line)
    for text in RANKS:
        yield f"two ranks: {text}", lambda text=text: on_ranks(text)


def of_part(name: str, part: float, **options: Any) -> Any:
    """The solution over the first part of the interval of a problem."""
    start, end = describe(problem=name).problem.interval
    return ds.solve(name, t_end=float(start + part * (end - start)), **options)


def of_shell(line: str) -> list[Any]:
    """What a command line prints, its exit code and the files that it writes."""
    with tempfile.TemporaryDirectory() as out:
        printed, told = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
            try:
                code: Any = cli.main(line.format(out=out).split())
            except SystemExit as error:
                code = error.code
        files = {}
        for path in sorted(Path(out).iterdir()):
            text = path.read_bytes()
            files[path.name] = (
                plain(json.loads(text))
                if path.suffix == ".json"
                else plain(np.load(path))
                if path.suffix == ".npy"
                else ""
            )
        texts = [text.getvalue().replace(out, "") for text in (printed, told)]
        return [code, *map(without_places, texts), files]


def on_ranks(text: str) -> list[Any]:
    """The digits of a solution on two ranks, or its error."""
    program = (
        "import dae_sdc as ds\nfrom mpi4py import MPI\nrank = MPI.COMM_WORLD.Get_rank()\n"
        f"try:\n    s = {text}\n    said = [s.u[-1].tolist(), s.message, s.stats['steps']]\n"
        "except ds.DAEError as error:\n    said = str(error)\n"
        "if not rank:\n    print(said)\n"
    )
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    return [done.stdout, done.returncode]


def plain(value: Any) -> Any:
    """A value as lists, texts and numbers in full precision; arrays by a digest and their last row."""
    if isinstance(value, np.ndarray) and value.dtype.names:
        return {name: plain(value[name]) for name in value.dtype.names if name not in UNTOLD}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return [plain(entry) for entry in value.tolist()]
        last = repr(value[-1:].tolist()) if value.ndim else repr(value.item())
        return [str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()[:12], last]
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items() if name not in UNTOLD}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, ds.Solution):
        names = ("t", "u", "du", "names", "success", "message", "stats", "per_step", "parameters")
        found = {name: plain(getattr(value, name)) for name in names}
        return found | {"events": [plain(event.t) for event in (*value.events, *value.switches)]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = [entry.name for entry in dataclasses.fields(value) if entry.name[0] != "_"]
        return {name: plain(getattr(value, name)) for name in shown if name not in UNTOLD}
    if isinstance(value, type) or callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    return without_places(repr(value))[:4000]


def without_places(text: str) -> str:
    """A text without addresses, the paths of this checkout, modules of objects and measured seconds."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text).replace(str(ROOT), "")
    return re.sub(r"\b\d+\.\d+ s\b", "", re.sub(r"<[\w.]+\.(\w+ object)", r"<\1", text))


def outcome(number: int) -> tuple[str, Any]:
    """The name of a call, and what it returns, warns of and raises."""
    name, call = list(calls())[number]
    said = io.StringIO()
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stderr(said):
        warnings.simplefilter("always")
        try:
            with limited(SECONDS):
                result = plain(call())
        except Exception as error:
            result = without_places(f"{type(error).__name__}: {error}")
    told = sorted({str(entry.message) for entry in warned if issubclass(entry.category, ds.DAEWarning)})
    return name, json.loads(json.dumps([result, told]))


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    """The places where two plain values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = sorted({*before, *after})
        return list(chain(*(differences(before.get(k), after.get(k), f"{where}.{k}") for k in names)))
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return list(chain(*(differences(a, b, f"{where}[{k}]") for k, (a, b) in pairs)))
    return [] if before == after else [f"{where}: {before!r}  ->  {after!r}"]


def main() -> int:
    """Record, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="?", help="where the record is written")
    parser.add_argument("--against", help="a record to compare with; exit code 1 where something differs")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    with ProcessPoolExecutor(args.workers) as pool:
        record = dict(pool.map(outcome, range(len(list(calls())))))
    print(f"{len(record)} calls, {sum('Error: ' in str(entry[0])[:40] for entry in record.values())} refused")
    if args.file:
        Path(args.file).write_text(json.dumps(record, indent=1), encoding="utf-8")
    if not args.against:
        return 0
    before = json.loads(Path(args.against).read_text(encoding="utf-8"))
    changed = {name: differences(before[name], record[name]) for name in before.keys() & record.keys()}
    changed = {name: places for name, places in changed.items() if places}
    for name, places in sorted(changed.items()):
        print(name, *(place[:300] for place in places[:6]), sep="\n    ")
    missing = sorted(before.keys() ^ record.keys())
    print(
        f"{len(before.keys() & record.keys()) - len(changed)} equal, {len(changed)} differ",
        *missing[:5],
        sep="\n",
    )
    return 1 if changed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
