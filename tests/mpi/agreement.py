"""Compares node-parallel runs with serial ones: mpirun -n 4 python agreement.py result.json [8].

Every rank count from 1 to 4 is tried in communicators of that size, of fewer ranks theirs alone; with a
number, every eighth case. Rank 0 writes a list of records.
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from pySDC.core.step import Step

sys.path.append(str(Path(__file__).resolve().parents[1]))
from helpers.pairs import covering_pairs

import dae_sdc as ds
from dae_sdc.control.hooks import LogSolutionAtNodes
from dae_sdc.errors import DAEError
from dae_sdc.run.description import describe
from dae_sdc.sweepers.sdc import INITIAL_GUESSES, RESIDUAL_TYPES, SWEEPERS, SpectralDeferredCorrectionDAE

SDC = [name for name, cls in SWEEPERS.items() if issubclass(cls, SpectralDeferredCorrectionDAE)]
HESSENBERG = {"hessenberg-1": 0.1, "hessenberg-2": 0.05, "hessenberg-3": 0.05}
SPARSE = {"transmission-line": 0.05, "navier-stokes": 0.02}
LINEAR = {"simple": 0.05}
SWEEPS = (3, 1, 2)
"""Sweeps of the steps of a run: a step that has fewer than the one before drops a sweep made ahead."""


class Frozen(dict[str, Any]):
    """What a case is made of, as a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


def cases() -> list[Frozen]:
    """All of sweeper, problem and M, where the other choices and all pairs of these occur with each."""
    found: list[dict[str, Any]] = []
    for sweeper, (problem, dt), nodes in itertools.product(SDC, HESSENBERG.items(), (2, 3, 4)):
        base = {"sweeper": sweeper, "problem": problem, "dt": dt, "nodes": nodes}
        found.append({"how": "sweeps", **base, "quad": "RADAU-RIGHT", "qdelta": "MIN-SR-S"})
    rules = [("RADAU-RIGHT", "MIN-SR-S"), ("RADAU-RIGHT", "MIN-SR-FLEX")]
    rules += [("LOBATTO", "MIN-SR-S"), ("GAUSS", "MIN-SR-FLEX")]
    ends = [("fixed", -1.0, 4), ("tolerance", 1e-10, 60)]
    bases = list(itertools.product(SDC, (2, 3, 4)))
    every = itertools.product(bases, HESSENBERG.items(), rules, INITIAL_GUESSES, RESIDUAL_TYPES, ends)
    for (sweeper, nodes), (problem, dt), rule, guess, kind, end in covering_pairs(every):
        base = {"sweeper": sweeper, "problem": problem, "dt": dt, "nodes": nodes}
        more = {**dict(zip(("quad", "qdelta"), rule, strict=True)), "guess": guess, "residual": kind}
        found.append({**base, **more, **dict(zip(("how", "restol", "maxiter"), end, strict=True))})
    turns = ((INITIAL_GUESSES[i % 4], RESIDUAL_TYPES[(i + i // 5) % 4]) for i in itertools.count())
    for i, (sweeper, (problem, dt)) in enumerate(itertools.product(SDC, {**SPARSE, **LINEAR}.items())):
        for nodes in (4, 2 + i % 2):
            guess, kind = next(turns)
            more = {"quad": "RADAU-RIGHT", "qdelta": "MIN-SR-S", "guess": guess, "residual": kind}
            base = {"sweeper": sweeper, "problem": problem, "dt": dt, "nodes": nodes}
            found.append({"how": "fixed", **base, **more, "restol": -1.0, "maxiter": 4})
    # A step whose extrapolated guess leads nowhere and that begins again without it.
    base = {"sweeper": "semi-implicit", "problem": "hessenberg-3", "dt": 0.05, "nodes": 4}
    more = {"quad": "RADAU-RIGHT", "qdelta": "MIN-SR-FLEX", "guess": "extrapolate", "residual": "last_rel"}
    found.append({"how": "again", **base, **more, "restol": -1.0, "maxiter": 4})
    return [Frozen(case) for case in found]


def guesses_and_residuals(case: Frozen) -> list[tuple[str, str]]:
    """Every initial guess and every residual type once; over all cases every pair of them."""
    shift = case["nodes"] + SDC.index(case["sweeper"])
    return [(guess, RESIDUAL_TYPES[(i + shift) % 4]) for i, guess in enumerate(INITIAL_GUESSES)]


def by_sweeps(case: Frozen, comm: Any) -> list[tuple[dict[str, Any], list[Any]]]:
    """Three steps with each of :func:`guesses_and_residuals`, as a controller would do them."""
    parallel = None if comm is None else "nodes"
    settings = {name: case[name] for name in ("sweeper", "nodes", "quad", "qdelta")}
    setup = describe(case["problem"], **settings, parallel=parallel, seed=7)
    shared = {} if comm is None else {"comm": comm}
    sweeper_params = {**setup.description["sweeper_params"], **shared}
    found: list[tuple[dict[str, Any], list[Any]]] = []
    L: Any = None
    for guess, kind in guesses_and_residuals(case):
        if L is None:
            step = Step(setup.with_step(case["dt"]) | {"sweeper_params": sweeper_params})
            L = step.levels[0]
            P = L.prob
        L.sweep.params.initial_guess, L.params.residual_type = guess, kind
        L.sweep.rng = np.random.RandomState(7)
        values: list[Any] = []
        u0, time = P.state(P.u_exact(0.2)), 0.2
        try:
            for sweeps in SWEEPS:
                L.status.time, L.status.sweep = time, 1
                step.init_step(u0)
                L.sweep.predict()
                L.sweep.compute_residual()
                residuals = [L.status.residual]
                for _ in range(sweeps):
                    L.sweep.updateVariableCoeffs(1)
                    L.sweep.update_nodes()
                    L.sweep.compute_residual(stage="IT_FINE")
                    residuals.append(L.status.residual)
                L.sweep.compute_end_point()
                values += [np.array(L.u[1:]), np.array(L.f[1:]), np.array(residuals), np.array(L.uend)]
                # Few sweeps lead to no value that a step could start from.
                time += L.dt
                u0 = P.state(P.u_exact(time))
                u0.polynomial = L.uend.polynomial
        except DAEError as error:
            values.append(str(error))
            L = None  # what a failed sweep leaves of its matrices is nobody's business
        found.append(({"guess": guess, "residual": kind}, values))
    return found


def by_solve(case: Frozen, comm: Any) -> list[tuple[dict[str, Any], list[Any]]]:
    """Three steps of ``dae_sdc.solve``."""
    names = ("sweeper", "nodes", "quad", "qdelta", "restol", "maxiter")
    parallel = {} if comm is None else {"parallel": "nodes", "comm": comm}
    try:
        done = ds.solve(
            case["problem"],
            dt=case["dt"],
            t_end=3 * case["dt"],
            initial_guess=case["guess"],
            residual_type=case["residual"],
            seed=7,
            hooks=[LogSolutionAtNodes],
            **{name: case[name] for name in names},
            **parallel,
        )
    except DAEError as error:
        return [({}, [str(error)])]
    nodes = [value for key, value in sorted(done.log.items()) if key.type in ("u_nodes", "du_nodes")]
    return [({}, [done.message, done.u, done.du, done.per_step["residual"], done.per_step["sweeps"], *nodes])]


def carry_out(case: Frozen, comm: Any) -> list[tuple[dict[str, Any], list[Any]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (by_sweeps if case["how"] == "sweeps" else by_solve)(case, comm)


def compare(expected: list[Any], got: list[Any]) -> dict[str, Any]:
    """How far two lists of texts and arrays are apart, relative to the size of an array."""
    texts = [[value for value in values if isinstance(value, str)] for values in (expected, got)]
    record = {"messages": texts, "worst": 0.0, "bitwise": True, "same": len(expected) == len(got)}
    for a, b in zip(expected, got, strict=False):
        if isinstance(a, str) or isinstance(b, str):
            record["same"] = record["same"] and a == b
        elif a.dtype.kind == "i" or a.shape != b.shape:
            record["same"] = record["same"] and np.array_equal(a, b)
        elif not np.array_equal(a, b, equal_nan=True):
            record["bitwise"] = False
            distance = np.abs(a - b).max() / np.abs(a).max()
            record["worst"] = max(record["worst"], float(distance)) if distance == distance else np.inf
    return record


def groups(size: int) -> list[list[int]]:
    """How the ranks are divided so that there are communicators of 1, 2, 3 and 4 ranks."""
    return [[4], [3, 1], [2, 2]] if size == 4 else [[size]]


def main(path: str, stride: str = "1") -> None:
    world = MPI.COMM_WORLD
    everything = cases()[:: int(stride)]
    mine = {case: carry_out(case, None) for case in everything[world.rank :: world.size]}
    serial: dict[Frozen, Any] = {}
    for part in world.allgather(mine):
        serial.update(part)
    records = []
    for sizes in groups(world.size):
        color = next(i for i in range(len(sizes)) if world.rank < sum(sizes[: i + 1]))
        comm = world.Split(color, world.rank)
        # Two groups of one size share the cases.
        twins = [i for i, size in enumerate(sizes) if size == sizes[color]]
        todo = [case for case in everything if case["nodes"] >= comm.size]
        for case in todo[twins.index(color) :: len(twins)]:
            for (more, a), (_, b) in zip(serial[case], carry_out(case, comm), strict=True):
                about = {**case, **more, "ranks": comm.size, "rank": comm.rank}
                records.append({**about, **compare(a, b)})
        comm.Free()
    collected = world.gather(records)
    if collected is not None:
        text = json.dumps([record for part in collected for record in part])
        Path(path).write_text(text, encoding="utf-8")
        print(f"{len(everything)} cases")


if __name__ == "__main__":
    main(*sys.argv[1:])
