"""Integrations in every way that the package offers, held against the exact solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.outcomes import DONE, FAILED, WRONG, Finding
from benchmarks.studies.truth.generated import FAMILIES, Generated, Vector
from dae_sdc.errors import InputError
from dae_sdc.sweepers.collocation import expected_orders
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.sdc import SWEEPERS, SpectralDeferredCorrectionDAE

MARGIN = 100.0  # Error in units of the tolerance up to which an answer is right
STEPS_OF_TAU = 8.0  # Coarser of the two fixed step sizes: this part of the time scale
# Of Newton iterations and sweeps in runs with fixed steps: the default of the package
NONLINEAR_TOLERANCE = 1e-10
PATIENCE = 30.0  # Time limit of runs to a tolerance, in seconds; all others have that of the process
TOLERANCES = tuple(10.0**-k for k in range(3, 11))
DEFAULT = "default"


@dataclass(frozen=True, eq=False)
class Attempt:
    """What is handed to ``ds.solve`` in one of the ways."""

    equations: Any  # Problem or model
    options: dict[str, Any]  # Further arguments


@lru_cache(maxsize=4)
def generate(family: str, seed: int) -> Generated:
    """The DAE of a family and a seed."""
    return FAMILIES[family](seed)


def drawn(families: list[str], seeds: range, quick: bool, count: int) -> Iterator[tuple[str, int, Generated]]:
    """DAEs that have no type of their own, with family and seed; ``count`` for each seed if not quick."""
    for family in families:
        for seed in seeds if quick else range(seeds.start, seeds.start + count * len(seeds)):
            given = generate(family, seed)
            if given.problem_class is None:
                yield family, seed, given


@lru_cache(maxsize=4)
def model_of(given: Generated) -> Any:
    """Its model, which is compiled once."""
    return given.model()


def _repaired(given: Generated) -> Attempt:
    model: Any = ds.repair(model_of(given)).model
    start = ds.initial(model, guesses=exact_values(given))
    return Attempt(model, {"u0": {name: start.values[name] for name in model.problem().names}})


def _reduced(given: Generated, settings: Mapping[str, Any], **options: Any) -> Attempt:
    model = model_of(given)
    problem = ds.reduce(model, **settings).problem()
    return Attempt(problem, {"u0": problem.state_of(ds.initial(model).values), **options})


def _exact(given: Generated, declared: bool, **options: Any) -> Attempt:
    return Attempt(given.problem(declared), {"u0": given.solution(given.interval[0]), **options})


def _times(given: Generated) -> Vector:
    return np.sort(np.random.default_rng(given.seed).uniform(*given.interval, 40))


# How a generated DAE comes to be solved
WAYS: Mapping[str, Callable[[Generated], Attempt]] = {
    "declared": lambda given: _exact(given, True),
    "undeclared": lambda given: _exact(given, False),
    "model": lambda given: Attempt(model_of(given), {}),
    "simplify": lambda given: Attempt(model_of(given), {"simplify": True}),
    "reduce": lambda given: Attempt(model_of(given), {"reduce": True}),
    "started": lambda given: Attempt(model_of(given), {"u0": ds.initial(model_of(given)).u}),
    "repair": _repaired,
    "stages": lambda given: _reduced(given, {"method": "stages"}),
    "ode": lambda given: _reduced(given, {"form": "ode"}),
    "projected": lambda given: _reduced(given, {}, project=True),
    "between": lambda given: _exact(given, True, t_eval=_times(given)),
    "model-between": lambda given: Attempt(model_of(given), {"simplify": True, "t_eval": _times(given)}),
}
MODEL_WAYS = "model simplify reduce started repair stages ode projected model-between".split()


def exact_values(given: Generated) -> dict[str, float]:
    return dict(zip(given.names, given.solution(given.interval[0]).tolist(), strict=True))


def run(family: str, seed: int, way: str, method: str, size: str) -> Finding:
    """One run to a tolerance, ``rtol=1e-6``, or two with fixed steps, ``fixed``."""
    given = generate(family, seed)
    options: dict[str, Any] = {} if method == DEFAULT else {"sweeper": method}
    if size == "fixed":
        return _fixed(given, way, options)
    attempt = WAYS[way](given)
    rtol = float(size.removeprefix("rtol="))
    solution = ds.solve(attempt.equations, rtol=rtol, time_limit=PATIENCE, **attempt.options, **options)
    return judge(given, solution, rtol)


def rows(given: Generated, solution: Any) -> tuple[Vector, Vector, Vector]:
    """Values and exact values of the unknowns that a solution tells, shape (K, j), and their places."""
    places = []
    columns = []
    for j, name in enumerate(given.names):
        try:
            columns.append(solution.values(name))
        except InputError:
            continue
        places.append(j)
    exact = np.array([given.solution(t) for t in solution.t])[:, places]
    return np.array(columns).T.reshape(exact.shape), exact, np.array(places, dtype=int)


def smallest_step(times: Vector, start: float, end: float) -> float:
    """The smallest regular step: neither the first, nor the last, which the end cuts short."""
    steps = np.diff(times)
    regular = steps[1:-1] if len(steps) > 2 else steps
    return float(regular.min()) if regular.size else end - start


def unfinished(solution: Any, end: float, allowed: float) -> Finding | None:
    """What came of a run that failed, or ended elsewhere than at ``end``; None of any other."""
    steps = int(solution.stats["steps"])
    if not solution.success:
        return Finding(FAILED, solution.message, steps=steps, solves=1)
    if abs(solution.t[-1] - end) > allowed:
        return Finding(WRONG, f"success, but the run ended at {solution.t[-1]!r}", steps=steps, solves=1)
    return None


def judge(given: Generated, solution: Any, rtol: float) -> Finding:
    """Hold a run to a tolerance against the contract."""
    start, end = given.interval
    every = len(solution.t) == int(solution.stats["steps"]) + 1  # whether all ends of steps are told
    if lost := unfinished(solution, end, 1e-12 * (1.0 + abs(end)) if every else np.inf):
        return lost
    values, exact, places = rows(given, solution)
    ends = solution.t if solution.dense is None else np.append(solution.dense.t0, solution.dense.ends)
    ratio = ratios(given, values - exact, exact, rtol, smallest_step(ends, start, end), places)
    names = [f"{given.names[j]} of index {given.variable_index[j]}" for j in places]
    return right_or_wrong(solution, names, values - exact, ratio, ".2g")


def ratios(
    given: Generated, error: Vector, exact: Vector, rtol: float, h: float, places: Any = slice(None)
) -> Vector:
    """Errors in units of what the contract allows of unknowns at some places, both of shape (K, j)."""
    amplified = max(1.0, given.tau / h) ** (np.array(given.variable_index)[places] - 1)
    # An answer that is off by the whole of it is wrong, however short the steps are.
    allowed: Vector = np.minimum(MARGIN * rtol * amplified, 1.0) * (1.0 + np.abs(exact))
    return np.abs(error) / allowed


def right_or_wrong(solution: Any, names: Sequence[str], error: Vector, ratio: Vector, form: str) -> Finding:
    """What comes of errors, shape (K, n), and of what they are in units of what is allowed."""
    ratio = np.where(np.isfinite(ratio), ratio, np.inf)
    worst, steps = float(ratio.max(initial=0.0)), int(solution.stats["steps"])
    if worst <= 1.0:
        return Finding(DONE, "", worst, steps, 1)
    i, j = np.unravel_index(np.argmax(ratio), ratio.shape)
    first = int(np.flatnonzero((ratio > 1.0).any(axis=1))[0])
    said = (
        f"{names[int(j)]} is off by {abs(error[i, j]):.2g} at t={solution.t[i]:.4g}, {worst:{form}} times "
        f"what is allowed; first wrong at row {first} of {len(solution.t)}, {steps} steps"
    )
    told = f"; message: {solution.message}" if solution.message else ""
    return Finding(WRONG, said + told, worst, steps, 1)


def orders_of(given: Generated, method: str) -> tuple[float, ...]:
    """Order that theory gives an unknown of index 1, 2, ... of the DAE; NaN where it gives none."""
    cls: Any = SWEEPERS[method]
    if given.orders == "one" and given.index > 1:
        return (np.nan,) * max(given.index, 1)
    if issubclass(cls, DirectMethod):
        known = tuple(cls.method.orders.get(given.index, ()))
    else:
        known = tuple(expected_orders("RADAU-RIGHT", 3, given.index, cls.integrates_algebraic))
    found = [float(order or np.nan) for order in known] or [np.nan]
    found += [np.nan] * (given.index - len(found))
    if given.orders == "one":
        return tuple(1.0 if np.isfinite(order) else order for order in found)
    # Index 1 has differential and algebraic unknowns of index 1; in mixed unknowns the lowest order shows.
    if given.index <= 1:
        found = [float(np.min(found))]
    return tuple(np.minimum.accumulate(found).tolist())


def _fixed(given: Generated, way: str, options: dict[str, Any]) -> Finding:
    start, end = given.interval
    count = int(np.ceil((end - start) * STEPS_OF_TAU / given.tau))
    errors, steps = [], 0
    for halves in (1, 2):
        attempt = WAYS[way](given)
        dt = (end - start) / (halves * count)
        solution = ds.solve(attempt.equations, dt=dt, **attempt.options, **options)
        steps += int(solution.stats["steps"])
        if not solution.success:
            return Finding(FAILED, solution.message, steps=steps, solves=halves)
        values, exact, places = rows(given, solution)
        late = solution.t >= 0.5 * (start + end)
        difference = np.abs(values - exact)[late]
        errors.append(np.where(np.isfinite(difference), difference, np.inf).max(axis=0))
    size = 1.0 + np.abs(exact).max(axis=0)
    h = (end - start) / (2 * count)
    index = np.array(given.variable_index)[places]
    method = options.get("sweeper", "fully-implicit")
    orders = np.array(orders_of(given, method))
    p = orders[np.minimum(index, len(orders)) - 1]
    claimed = np.isfinite(p)
    p = np.where(claimed, p, 1.0)
    allowed = np.maximum.reduce(
        [
            errors[0] * 2.0 ** -np.maximum(p - 1.0, 0.5 * p),
            size * (h / given.tau) ** p,
            MARGIN * NONLINEAR_TOLERANCE * size * (given.tau / h) ** (index - 1.0),
        ]
    )
    ratio = np.where(claimed, errors[1] / np.minimum(allowed, size), 0.0)
    worst = int(np.argmax(ratio))
    if ratio[worst] <= 1.0:
        said = "" if claimed.all() else "theory gives no order for some unknowns"
        return Finding(DONE, said, float(ratio[worst]), steps, 2)
    said = (
        f"{given.names[int(places[worst])]} of index {index[worst]}, order {p[worst]:g} expected: errors "
        f"{errors[0][worst]:.2g} and {errors[1][worst]:.2g} with h = tau / {given.tau / h / 2:.1f}, h / 2"
    )
    return Finding(WRONG, said, float(ratio[worst]), steps, 2)


def takes_tolerance(method: str) -> bool:
    """Whether a method can be expected to run to a tolerance: refusals of others are all alike."""
    if method == DEFAULT:
        return True
    cls: Any = SWEEPERS[method]
    if issubclass(cls, SpectralDeferredCorrectionDAE):
        return True
    record = cls.method
    return getattr(record, "b_embedded", None) is not None or method.startswith("radau-iia")


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    methods = [DEFAULT, *SWEEPERS]
    for family in families:
        for seed in seeds:
            rng = np.random.default_rng([seed, *family.encode()])
            given = generate(family, seed)

            def some(count: int) -> list[str]:
                picked = rng.choice(len(TOLERANCES), count, replace=False)  # noqa: B023
                return [f"rtol={TOLERANCES[i]:g}" for i in sorted(picked)]

            head = f"{family}:{seed}"
            adaptive = [method for method in methods if takes_tolerance(method)]
            if quick:
                yield from (f"{head}:declared:{DEFAULT}:{size}" for size in some(2))
                if given.problem_class is None:
                    yield f"{head}:undeclared:{DEFAULT}:{some(1)[0]}"
                for method in rng.choice(adaptive[1:], 2, replace=False):
                    yield f"{head}:declared:{method}:{some(1)[0]}"
                for method in rng.choice(methods[1:], 3, replace=False):
                    yield f"{head}:declared:{method}:fixed"
                if given.problem_class is None:
                    yield f"{head}:{rng.choice(MODEL_WAYS)}:{DEFAULT}:{some(1)[0]}"
                continue
            yield from (f"{head}:declared:{DEFAULT}:rtol={rtol:g}" for rtol in TOLERANCES)
            own = given.problem_class is not None  # such a class always knows its index
            if not own:
                yield from (f"{head}:undeclared:{DEFAULT}:{size}" for size in some(4))
            for method in adaptive[1:]:
                yield from (f"{head}:declared:{method}:{size}" for size in some(2))
                if not own:
                    yield f"{head}:undeclared:{method}:{some(1)[0]}"
            yield from (f"{head}:declared:{method}:fixed" for method in methods[1:])
            yield from (f"{head}:between:{DEFAULT}:{size}" for size in some(2))
            if not own:
                for way in MODEL_WAYS:
                    yield from (f"{head}:{way}:{DEFAULT}:{size}" for size in some(2))
