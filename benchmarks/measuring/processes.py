"""Processes of their own that answer in JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dae_sdc.errors import DAEError, InputError, RemoteError
from dae_sdc.sharing import python, surroundings

ROOT = Path(__file__).resolve().parents[2]  # The directory that benchmarks lies in
PATIENCE = 900.0  # Seconds after which a process is ended


def environment() -> dict[str, str]:
    """The environment of another Python, which finds what this one finds, and ``benchmarks``."""
    found = surroundings()
    return {**found, "PYTHONPATH": os.pathsep.join([found["PYTHONPATH"], str(ROOT)])}


def as_answer(error: Exception) -> dict[str, str]:
    """What a process answers that an error has ended."""
    text = str(error) if isinstance(error, DAEError) else f"{type(error).__name__}: {error}"
    return {"error": text, "kind": "input" if isinstance(error, InputError) else "failure"}


def without_error(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer; raises the error that it is made from by :func:`as_answer`."""
    if answer.keys() >= {"error", "kind"}:
        raise (InputError if answer["kind"] == "input" else RemoteError)(answer["error"])
    return answer


def ask_fresh(child: str, asked: Any, cache: str | os.PathLike[str] | None, patience: float) -> Any:
    """Ask a program that is a text, in a process that keeps byte code and has a cache of numba of its own."""
    given = environment()
    given.pop("PYTHONDONTWRITEBYTECODE", None)
    if cache is not None:
        given["NUMBA_CACHE_DIR"] = os.fspath(cache)
    return ask(("-c", child), asked, "a fresh process", patience, given)


def ask(arguments: tuple[str, ...], asked: Any, who: str, patience: float, given: Mapping[str, str]) -> Any:
    """Start another Python, hand it something, and return what it answers, both as JSON."""
    how: dict[str, Any] = {"capture_output": True, "text": True, "check": False, "env": dict(given)}
    try:
        done = subprocess.run(python(*arguments), input=json.dumps(asked), timeout=patience, **how)
    except subprocess.TimeoutExpired:
        raise RemoteError(f"{who} took more than {patience:g} s") from None
    try:
        return json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines()
        last = said[-1] if said else "no result"
        raise RemoteError(f"{who} ended with code {done.returncode}: {last}") from None
