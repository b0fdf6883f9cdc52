"""Index, degrees of freedom and dependent equations of models, against what they were made with.

Models come from the families as they are, and in a disguise: rows of F are replaced by F_i + c(u) F_j, which
changes no solution, but is another matrix of derivatives everywhere but on the solutions. In "dependent"
models one equation is a combination of the others. A number is wrong where it differs from the truth and no
warning says that it cannot be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.outcomes import DONE, REFUSED, WRONG, Finding
from benchmarks.studies.truth.generated import KINDS, Generated, Kind
from benchmarks.studies.truth.random_parts import decimal
from benchmarks.studies.truth.solves import drawn, generate, model_of

DISGUISED = ("mixed", "mixed-repair")
PLAIN = ("plain", "repair")
VARIANTS = (*PLAIN, *DISGUISED, "dependent")
PER_SEED = 3  # Disguises of each model


def disguised(given: Generated, salt: int) -> Generated:
    """The same DAE with one or two rows changed by others, with factors that depend on the unknowns."""
    rng = np.random.default_rng([given.seed, salt, 11])
    n = given.n
    if n < 2:
        return given
    changes = []
    for _ in range(int(rng.integers(1, 3))):
        i, j = rng.choice(n, 2, replace=False)
        changes.append(
            (int(i), int(j), int(rng.integers(n)), int(rng.integers(3)), decimal(rng, 0.3, 1.0, 1))
        )
    factors = [np.array([change[4]], dtype=object) for change in changes]

    def mix(rows: Any, u: Any, t: Any, functions: Any) -> Any:
        rows = np.array(rows, dtype=object if rows.dtype == object else None)
        for (i, j, k, kind, _), factor in zip(changes, factors, strict=True):
            x = u[k : k + 1]
            c = (x, functions.sin(x), x * x)[kind] * functions.matrix(factor)
            rows[i] = rows[i] + c[0] * rows[j]
        return rows

    return given.with_rows(mix, f"{given.family}-mixed-{salt}")


def dependent(given: Generated, salt: int) -> Generated:
    """Equations of which one is a combination of two others, so that they do not determine a solution."""
    rng = np.random.default_rng([given.seed, salt, 12])
    i, j, k = (int(one) for one in rng.permutation(given.n)[:3])
    varies, place = bool(rng.random() < 0.5), int(rng.integers(given.n))

    def mix(rows: Any, u: Any, t: Any, functions: Any) -> Any:
        rows = np.array(rows, dtype=object if rows.dtype == object else None)
        factor = functions.sin(u[place : place + 1])[0] if varies else 2
        rows[i] = rows[j] + factor * rows[k]
        return rows

    return given.with_rows(mix, f"{given.family}-dependent-{salt}")


def run(family: str, seed: int, variant: str, salt: str = "0") -> Finding:
    given = generate(family, seed)
    if variant == "dependent":
        return _dependent(dependent(given, int(salt)))
    model = disguised(given, int(salt)).model() if variant in DISGUISED else model_of(given)
    if variant in ("repair", "mixed-repair"):
        repaired = ds.repair(model)
        found = repaired.structure
        if not found.regular:
            return Finding(WRONG, f"repaired, but the system Jacobian has rank {found.rank} of {found.size}")
        if found.dof != given.dof:
            told = " ".join((*found.warnings, *map(str, getattr(repaired, "warnings", ()))))
            said = f"repaired to {found.dof} degrees of freedom, not {given.dof}"
            return Finding(REFUSED if told else WRONG, f"{said}; warning: {told}" if told else said)
        return Finding(DONE)
    return _compared(ds.structure(model), given)


def _compared(found: Any, given: Generated) -> Finding:
    dof = found.true_dof if found.true_dof is not None else found.dof if found.regular else None
    said = []
    if found.differentiation_index is not None and found.differentiation_index != given.index:
        said.append(f"differentiation index {found.differentiation_index}, not {given.index}")
    if found.regular and found.index < given.index:
        said.append(f"index {found.index} with a regular system Jacobian, not {given.index}")
    if dof is not None and dof != given.dof:
        said.append(f"{dof} degrees of freedom, not {given.dof}")
    if found.regular and found.dof != given.dof and dof == given.dof:
        said.append(f"dof is {found.dof} beside true_dof {dof} with a regular system Jacobian")
    if not said:
        told = "no index is told" if found.differentiation_index is None and not found.regular else ""
        return Finding(DONE, told)
    text = "; ".join(said)
    if found.warnings:
        return Finding(REFUSED, f"{text}; warning: {found.warnings[0]}")
    return Finding(WRONG, text)


def _dependent(given: Generated) -> Finding:
    try:
        found = ds.structure(given.model())
    except ds.StructureError as error:
        return Finding(DONE, f"told: {error}")
    if found.warnings and found.differentiation_index is None:
        return Finding(DONE)
    text = (
        f"an equation follows from others; told: index {found.differentiation_index}, {found.true_dof} free"
    )
    return Finding(REFUSED if found.warnings else WRONG, f"{text}; warnings: {found.warnings[:1]}")


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    for family, seed, given in drawn(families, seeds, quick, PER_SEED):
        if given.n < 2:
            continue
        head = f"{family}:{seed}:structure"
        salts = range(1 if quick else 2)
        yield from (f"{head}:{variant}" for variant in PLAIN)
        for variant in DISGUISED:
            yield from (f"{head}:{variant}:{salt}" for salt in salts)
        if given.n >= 3:
            yield from (f"{head}:dependent:{salt}" for salt in salts)


KINDS.add("structure", Kind(run, plan))
