"""Index, degrees of freedom and dependent equations of models, against what they were made with.

Models come from the families as they are, and in a disguise: rows of F are replaced by F_i + c(u) F_j, which
changes no solution, but is another matrix of derivatives everywhere but on the solutions. In "dependent"
models one equation is a combination of the others. A number is wrong where it differs from the truth and no
warning says that it cannot be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.runs import DONE, REFUSED, WRONG, Finding
from benchmarks.studies.truth import draw
from benchmarks.studies.truth.generated import KINDS, Generated, Kind
from benchmarks.studies.truth.solves import drawn, generate, model_of

PLAIN, DISGUISED = ("plain", "repair"), ("mixed", "mixed-repair")
PER_SEED = 3  # Disguises of each model


def disguised(dae: Generated, salt: int) -> Generated:
    """The same DAE with one or two rows changed by others, with factors that depend on the unknowns."""
    rng = np.random.default_rng([dae.seed, salt, 11])
    n, changes = dae.n, []
    if n < 2:
        return dae
    for _ in range(int(rng.integers(1, 3))):
        i, j = rng.choice(n, 2, replace=False)
        k, kind = int(rng.integers(n)), int(rng.integers(3))
        changes.append((int(i), int(j), k, kind, np.array([draw.decimal(rng, 0.3, 1.0, 1)], dtype=object)))

    def mix(rows: Any, u: Any, t: Any, functions: Any) -> Any:
        rows = np.array(rows, dtype=object if rows.dtype == object else None)
        for i, j, k, kind, factor in changes:
            x = u[k : k + 1]
            c = (x, functions.sin(x), x * x)[kind] * functions.matrix(factor)
            rows[i] = rows[i] + c[0] * rows[j]
        return rows

    return replace(dae, mix=mix, family=f"{dae.family}-mixed-{salt}")


def dependent(dae: Generated, salt: int) -> Generated:
    """Equations of which one is a combination of two others, so that they do not determine a solution."""
    rng = np.random.default_rng([dae.seed, salt, 12])
    i, j, k = rng.permutation(dae.n)[:3].tolist()
    varies, place = bool(rng.random() < 0.5), int(rng.integers(dae.n))

    def mix(rows: Any, u: Any, t: Any, functions: Any) -> Any:
        rows = np.array(rows, dtype=object if rows.dtype == object else None)
        rows[i] = rows[j] + (functions.sin(u[place : place + 1])[0] if varies else 2) * rows[k]
        return rows

    return replace(dae, mix=mix, family=f"{dae.family}-dependent-{salt}")


def run(family: str, seed: int, variant: str, salt: str = "0") -> Finding:
    dae = generate(family, seed)
    if variant == "dependent":
        try:
            structure = ds.structure(dependent(dae, int(salt)).model())
        except ds.StructureError as error:
            return Finding(DONE, f"told: {error}")
        index, warnings = structure.differentiation_index, structure.warnings
        if warnings and index is None:
            return Finding(DONE)
        text = f"an equation follows from others; told: index {index}, {structure.true_dof} free"
        return Finding(REFUSED if warnings else WRONG, f"{text}; warnings: {warnings[:1]}")
    model = disguised(dae, int(salt)).model() if variant in DISGUISED else model_of(dae)
    return _repaired(model, dae) if variant.endswith("repair") else _compared(ds.structure(model), dae)


def _repaired(model: Any, dae: Generated) -> Finding:
    repaired = ds.repair(model)
    structure = repaired.structure
    if not structure.regular:
        said = f"repaired, but the system Jacobian has rank {structure.rank} of {structure.size}"
        return Finding(WRONG, said)
    if structure.dof == dae.dof:
        return Finding(DONE)
    said = f"repaired to {structure.dof} degrees of freedom, not {dae.dof}"
    warned = " ".join((*structure.warnings, *map(str, getattr(repaired, "warnings", ()))))
    return Finding(REFUSED, f"{said}; warning: {warned}") if warned else Finding(WRONG, said)


def _compared(structure: Any, dae: Generated) -> Finding:
    index, regular, dof = structure.differentiation_index, structure.regular, structure.true_dof
    if dof is None and regular:
        dof = structure.dof
    said = []
    if index not in (None, dae.index):
        said.append(f"differentiation index {index}, not {dae.index}")
    if regular and structure.index < dae.index:
        said.append(f"index {structure.index} with a regular system Jacobian, not {dae.index}")
    if dof not in (None, dae.dof):
        said.append(f"{dof} degrees of freedom, not {dae.dof}")
    if regular and structure.dof != dae.dof and dof == dae.dof:
        said.append(f"dof is {structure.dof} beside true_dof {dof} with a regular system Jacobian")
    if not said:
        return Finding(DONE, "no index is told" if index is None and not regular else "")
    text = "; ".join(said)
    if structure.warnings:
        return Finding(REFUSED, f"{text}; warning: {structure.warnings[0]}")
    return Finding(WRONG, text)


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    for family, seed, dae in drawn(families, seeds, quick, PER_SEED):
        if dae.n < 2:
            continue
        variants = [*DISGUISED, *["dependent"] * (dae.n >= 3)]
        salted = (f"{variant}:{salt}" for variant in variants for salt in range(1 if quick else 2))
        yield from (f"{family}:{seed}:structure:{variant}" for variant in (*PLAIN, *salted))


KINDS.add("structure", Kind(run, plan))
