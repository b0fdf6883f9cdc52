"""Damaged files of every kind that the package writes or reads."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

import dae_sdc as ds
from benchmarks.measuring.runs import Finding
from benchmarks.studies.faults.cases import Case, Random, called, choice, functions_of, kind, tables
from benchmarks.studies.faults.kinds.commands import in_this_process, write_sources

NONSENSE_JSON: tuple[Any, ...] = (
    *(None, 3, -1, 1e400, "nan", [], {}, [[]], {"a": []}, True, [None], 10**30, ["a"]),
)


@lru_cache
def originals() -> Path:
    place = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    with redirect_stdout(StringIO()):
        checkpoint: dict[str, Any] = {"checkpoint": place / "state.npz", "every": 2}
        ds.solve("simple", dt=0.1, dense=True, out=place / "run.npy", **checkpoint)
        ds.solve("hessenberg-1", dt=0.1, out=place / "other.npy")
        ds.convergence("hessenberg-1", nodes=2, dt=[0.2, 0.1], out=place / "study.npy")
        ds.iterations("simple", nodes=2, dt=0.1, t_end=0.2, maxiter=3, out=place / "sweeps.npy")
    return place


# What is done to a file, and whether what reads it must notice
DAMAGES: Mapping[str, bool] = {
    **{"bits flipped": False, "cut": True, "emptied": True, "missing": False, "a directory": True},
    **{"a link": False, "another file": False, "random bytes": True, "longer": False, "other words": False},
}


def damaged(rng: Random, path: Path, damage: str) -> None:
    content = path.read_bytes()
    match damage:
        case "bits flipped":
            flipped = bytearray(content)
            first = min(len(content), 200) if rng.random() < 0.6 else len(content)
            for _ in range(int(rng.integers(1, 5))):
                flipped[int(rng.integers(first))] ^= 1 << int(rng.integers(8))
            path.write_bytes(flipped)
        case "cut":
            path.write_bytes(content[: int(rng.integers(0, max(1, 9 * len(content) // 10)))])
        case "emptied":
            path.write_bytes(b"")
        case "missing":
            path.unlink()
        case "a directory":
            path.unlink()
            path.mkdir()
        case "a link":
            path.unlink()
            path.symlink_to(choice(rng, [path.name, "missing", "."]))
        case "another file":
            other = choice(rng, sorted(path.parent.iterdir()))
            path.write_bytes(other.read_bytes() if other.is_file() else content)
        case "random bytes":
            path.write_bytes(rng.bytes(int(rng.integers(1, 400))))
        case "longer":
            path.write_bytes(content + rng.bytes(50))
        case "other words" if path.suffix == ".json":
            about = inner = json.loads(content)
            while isinstance(inner, (dict, list)) and inner:
                key: Any = choice(rng, inner if isinstance(inner, dict) else range(len(inner)))
                if not isinstance(inner[key], (dict, list)) or not inner[key] or rng.random() < 0.3:
                    inner[key] = choice(rng, NONSENSE_JSON)
                    break
                inner = inner[key]
            path.write_text(json.dumps(about), encoding="utf-8")
        case "other words":
            at, length = int(rng.integers(len(content))), int(rng.integers(1, 12))
            path.write_bytes(content[:at] + rng.bytes(length) + content[at + length :])


@kind("file", 9.0)
def file(rng: Random) -> Case:
    readers = tables()["readers"]
    taker, damage = choice(rng, readers), choice(rng, DAMAGES)
    read, take = readers[taker]
    name = choice(rng, read.split())

    def run() -> Finding:
        shutil.copytree(originals(), ".", dirs_exist_ok=True)
        write_sources()
        damaged(rng, Path(name), damage)
        # A new result may take the place of a damaged one, and comments of a source may be random.
        must_see = DAMAGES[damage] and "over it" not in taker and name != "own.py"
        why = f"{name} {damage}" if must_see else ""
        if taker.startswith("command"):
            return in_this_process(take.split(), why)
        return called(functions_of({taker: take}, ds=ds)[taker], nonsense=why)

    return Case(f"{taker}, {name} {damage}", run)
