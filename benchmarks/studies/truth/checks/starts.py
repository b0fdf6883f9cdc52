"""Consistent starts: fixed values kept, hidden constraints met, the branch kept, the impossible refused.

Families know all constraints c(u, t) = 0, hidden ones too. Whether a fixed value can be had is known from the
rank of dc/du: it can where the other columns alone have full row rank, and it cannot, near the solution,
where the unknown is bound by constraints alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.outcomes import DONE, FAILED, WRONG, Finding
from benchmarks.studies.truth.families.hessenberg import differences
from benchmarks.studies.truth.generated import Generated, Vector
from benchmarks.studies.truth.kinds import KINDS, Kind
from benchmarks.studies.truth.solves import drawn, generate, model_of
from dae_sdc.errors import InconsistentStateError

VARIANTS = ("exact", "near", "fixed", "free", "impossible", "zero", "problem")
NEAR = 0.01  # Size of what is added to values of a consistent point
MET = 1e-6  # Violation of constraints, of terms of size 1, of a consistent point
KEPT_BRANCH = 50.0  # Distance from the guesses, in units of their distance from a consistent point
PER_SEED = 2


def run(family: str, seed: int, variant: str) -> Finding:
    """One start."""
    given = generate(family, seed)
    t = given.interval[0]
    rng = np.random.default_rng([seed, VARIANTS.index(variant), *family.encode()])
    exact = given.solution(t)
    near = exact + NEAR * rng.standard_normal(given.n)
    if variant == "problem":
        start = ds.initial(given.problem(True), u0=near)
        return _checked(given, np.array(start.u), {}, near)
    model = model_of(given)
    guesses = {"exact": exact, "near": near, "zero": np.zeros(given.n)}
    if variant in guesses:
        start = ds.initial(model, guesses=_named(given, guesses[variant]))
        off = float(np.abs(_values(given, start) - exact).max())
        if variant == "exact" and off > MET:
            return Finding(WRONG, f"consistent guesses were changed by {off:.2g}")
        beside = None if variant == "zero" else guesses[variant]
        return _checked(given, _values(given, start), {}, beside, start)
    slopes = _slopes(given, exact, t)
    if variant == "fixed":
        j = int(rng.integers(given.n))
        fixed = {given.names[j]: float(exact[j] + 5.0 * NEAR)}
        rest = np.delete(slopes, j, axis=1)
        free = (np.linalg.matrix_rank(rest, tol=1e-6) if rest.size else 0) == len(slopes)
        return _with_fixed(given, model, fixed, exact, possible=free)
    if variant == "free":
        chosen = _independent(slopes, given.dof, rng)
        fixed = {given.names[j]: float(near[j]) for j in chosen}
        return _with_fixed(given, model, fixed, exact, possible=True)
    # All values are fixed, and one constraint or more is violated.
    if not len(slopes):
        return Finding(DONE, "no constraints")
    wrong = exact + 5.0 * NEAR * slopes[int(rng.integers(len(slopes)))]
    return _with_fixed(given, model, _named(given, wrong), exact, possible=False)


def _named(given: Generated, values: Vector) -> dict[str, float]:
    return dict(zip(given.names, values.tolist(), strict=True))


def _values(given: Generated, start: Any) -> Vector:
    return np.array([start.values[name] for name in given.names])


def _slopes(given: Generated, u: Vector, t: float) -> Vector:
    """Jacobian of all constraints."""
    assert given.constraints is not None
    if given.dof == given.n:
        return np.zeros((0, given.n))
    constraints = given.constraints
    return np.asarray(differences(lambda v: constraints(v, t), u), dtype=float)


def _independent(slopes: Vector, count: int, rng: np.random.Generator) -> list[int]:
    """Unknowns whose values may be chosen together: without their columns the rank is still full."""
    chosen: list[int] = []
    for j in rng.permutation(slopes.shape[1]).tolist():
        rest = np.delete(slopes, [*chosen, j], axis=1)
        least = np.linalg.svd(rest, compute_uv=False).min(initial=np.inf) if len(slopes) else np.inf
        if len(chosen) < count and rest.shape[1] >= len(slopes) and least > 0.1:
            chosen.append(j)
    return chosen


def _with_fixed(
    given: Generated, model: Any, fixed: dict[str, float], exact: Vector, possible: bool
) -> Finding:
    guesses = {name: value for name, value in _named(given, exact).items() if name not in fixed}
    try:
        start = ds.initial(model, fixed=fixed, guesses=guesses)
    except InconsistentStateError as error:
        if possible:
            return Finding(FAILED, f"there is a start with {', '.join(fixed)} fixed: {error}")
        return Finding(DONE, f"told: {error}")
    found = _checked(given, _values(given, start), fixed, None, start)
    if found.outcome == WRONG and not possible:
        return Finding(WRONG, f"impossible values of {', '.join(fixed)} were taken: {found.message}")
    return found


def _checked(
    given: Generated, found: Vector, fixed: dict[str, float], near: Vector | None, start: Any = None
) -> Finding:
    """Hold a start against what it must satisfy."""
    t = given.interval[0]
    if not np.isfinite(found).all():
        return Finding(WRONG, f"the start is {found}")
    for name, value in fixed.items():
        if (kept := found[given.names.index(name)]) != value:
            return Finding(WRONG, f"{name} was fixed at {value!r}, and is {kept!r}")
    assert given.constraints is not None
    violation = np.abs(given.constraints(found, t))
    size = 1.0 + float(np.abs(found).max())
    if violation.max(initial=0.0) > MET * size:
        return Finding(WRONG, f"constraint {int(violation.argmax())} is violated by {violation.max():.2g}")
    if near is not None and (distance := float(np.abs(found - near).max())) > KEPT_BRANCH * NEAR:
        return Finding(WRONG, f"guesses near a consistent point were left by {distance:.2g}")
    if start is not None:
        slopes = np.array([start.values.get(f"der({name})", np.nan) for name in given.names])
        if np.isfinite(slopes[: given.n_diff]).all():
            residual = np.abs(given.residual(found, np.nan_to_num(slopes), t)).max()
            if residual > 10.0 * MET * (size + np.abs(np.nan_to_num(slopes)).max()):
                return Finding(WRONG, f"derivatives leave a residual of {residual:.2g}")
    return Finding(DONE)


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    """Lines of all runs."""
    for family, seed, given in drawn(families, seeds, quick, PER_SEED):
        variants: tuple[str, ...] = VARIANTS if not quick else ("near", "fixed", "impossible")
        variants = () if given.constraints is None else variants
        yield from (f"{family}:{seed}:initial:{variant}" for variant in variants)


KINDS.add("initial", Kind(run, plan))
