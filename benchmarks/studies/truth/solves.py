"""Integrations in every way that the package offers, held against the exact solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.runs import DONE, FAILED, WRONG, Finding
from benchmarks.studies.truth.draw import Vector
from benchmarks.studies.truth.generated import FAMILIES, Generated
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
Attempt = tuple[Any, dict[str, Any]]  # What is handed to ds.solve: a problem or model, further arguments


@lru_cache(maxsize=4)
def generate(family: str, seed: int) -> Generated:
    return FAMILIES[family](seed)


def drawn(families: list[str], seeds: range, quick: bool, count: int) -> Iterator[tuple[str, int, Generated]]:
    """DAEs that have no type of their own, with family and seed; ``count`` for each seed if not quick."""
    for family in families:
        for seed in seeds if quick else range(seeds.start, seeds.start + count * len(seeds)):
            if (dae := generate(family, seed)).problem_class is None:
                yield family, seed, dae


def rtol_of(size: str) -> float:
    return float(size.removeprefix("rtol="))


def options_of(method: str) -> dict[str, Any]:
    return {} if method == DEFAULT else {"sweeper": method}


@lru_cache(maxsize=4)
def model_of(dae: Generated) -> Any:
    return dae.model()


def _repaired(dae: Generated) -> Attempt:
    model: Any = ds.repair(model_of(dae)).model
    guesses = dict(zip(dae.names, dae.solution(dae.interval[0]).tolist(), strict=True))
    start = ds.initial(model, guesses=guesses)
    return model, {"u0": {name: start.values[name] for name in model.problem().names}}


def _reduced(dae: Generated, settings: Mapping[str, Any], **options: Any) -> Attempt:
    model = model_of(dae)
    problem = ds.reduce(model, **settings).problem()
    return problem, {"u0": problem.state_of(ds.initial(model).values), **options}


def _exact(dae: Generated, declared: bool, **options: Any) -> Attempt:
    return dae.problem(declared), {"u0": dae.solution(dae.interval[0]), **options}


def _times(dae: Generated) -> Vector:
    return np.sort(np.random.default_rng(dae.seed).uniform(*dae.interval, 40))


# How a generated DAE comes to be solved
WAYS: Mapping[str, Callable[[Generated], Attempt]] = {
    "declared": lambda dae: _exact(dae, True),
    "undeclared": lambda dae: _exact(dae, False),
    "model": lambda dae: (model_of(dae), {}),
    "simplify": lambda dae: (model_of(dae), {"simplify": True}),
    "reduce": lambda dae: (model_of(dae), {"reduce": True}),
    "started": lambda dae: (model_of(dae), {"u0": ds.initial(model_of(dae)).u}),
    "repair": _repaired,
    "stages": lambda dae: _reduced(dae, {"method": "stages"}),
    "ode": lambda dae: _reduced(dae, {"form": "ode"}),
    "projected": lambda dae: _reduced(dae, {}, project=True),
    "between": lambda dae: _exact(dae, True, t_eval=_times(dae)),
    "model-between": lambda dae: (model_of(dae), {"simplify": True, "t_eval": _times(dae)}),
}
MODEL_WAYS = "model simplify reduce started repair stages ode projected model-between".split()


def run(family: str, seed: int, way: str, method: str, size: str) -> Finding:
    """One run to a tolerance, ``rtol=1e-6``, or two with fixed steps, ``fixed``."""
    dae, options = generate(family, seed), options_of(method)
    if size == "fixed":
        return _fixed(dae, way, options)
    equations, start = WAYS[way](dae)
    rtol = rtol_of(size)
    return judge(dae, ds.solve(equations, rtol=rtol, time_limit=PATIENCE, **start, **options), rtol)


def rows(dae: Generated, solution: Any) -> tuple[Vector, Vector, Vector]:
    """Values and exact values of the unknowns that a solution tells, shape (K, j), and their places."""
    places, columns = [], []
    for j, name in enumerate(dae.names):
        with suppress(InputError):
            columns.append(solution.values(name))
            places.append(j)
    exact = np.array([dae.solution(t) for t in solution.t])[:, places]
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


def judge(dae: Generated, solution: Any, rtol: float) -> Finding:
    start, end = dae.interval
    every = len(solution.t) == int(solution.stats["steps"]) + 1  # whether all ends of steps are told
    if lost := unfinished(solution, end, 1e-12 * (1.0 + abs(end)) if every else np.inf):
        return lost
    values, exact, places = rows(dae, solution)
    ends = solution.t if solution.dense is None else np.append(solution.dense.t0, solution.dense.ends)
    ratio = ratios(dae, values - exact, exact, rtol, smallest_step(ends, start, end), places)
    names = [f"{dae.names[j]} of index {dae.variable_index[j]}" for j in places]
    return right_or_wrong(solution, names, values - exact, ratio, ".2g")


def ratios(dae: Generated, error: Vector, exact: Vector, rtol: float, h: float, at: Any = ...) -> Vector:
    """Errors in units of what the contract allows of unknowns at some places, both of shape (K, j)."""
    amplified = max(1.0, dae.tau / h) ** (np.array(dae.variable_index)[at] - 1)
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


def orders_of(dae: Generated, method: str) -> tuple[float, ...]:
    """Order that theory gives an unknown of index 1, 2, ... of the DAE; NaN where it gives none."""
    cls: Any = SWEEPERS[method]
    if dae.orders == "one" and dae.index > 1:
        return (np.nan,) * dae.index
    if issubclass(cls, DirectMethod):
        told = tuple(cls.method.orders.get(dae.index, ()))
    else:
        told = tuple(expected_orders("RADAU-RIGHT", 3, dae.index, cls.integrates_algebraic))
    orders = [float(order or np.nan) for order in told] or [np.nan]
    orders += [np.nan] * (dae.index - len(orders))
    if dae.orders == "one":
        return tuple(1.0 if np.isfinite(order) else order for order in orders)
    # Index 1 has differential and algebraic unknowns of index 1; in mixed unknowns the lowest order shows.
    if dae.index <= 1:
        orders = [float(np.min(orders))]
    return tuple(np.minimum.accumulate(orders).tolist())


def _fixed(dae: Generated, way: str, options: dict[str, Any]) -> Finding:
    start, end = dae.interval
    count = int(np.ceil((end - start) * STEPS_OF_TAU / dae.tau))
    errors, steps = [], 0
    for halves in (1, 2):
        equations, begun = WAYS[way](dae)
        solution = ds.solve(equations, dt=(end - start) / (halves * count), **begun, **options)
        steps += int(solution.stats["steps"])
        if not solution.success:
            return Finding(FAILED, solution.message, steps=steps, solves=halves)
        values, exact, places = rows(dae, solution)
        difference = np.abs(values - exact)[solution.t >= 0.5 * (start + end)]
        errors.append(np.where(np.isfinite(difference), difference, np.inf).max(axis=0))
    size = 1.0 + np.abs(exact).max(axis=0)
    h = (end - start) / (2 * count)
    index = np.array(dae.variable_index)[places]
    orders = np.array(orders_of(dae, options.get("sweeper", "fully-implicit")))
    p = orders[np.minimum(index, len(orders)) - 1]
    claimed = np.isfinite(p)
    p = np.where(claimed, p, 1.0)
    converged = errors[0] * 2.0 ** -np.maximum(p - 1.0, 0.5 * p)
    small = size * (h / dae.tau) ** p
    nonlinear = MARGIN * NONLINEAR_TOLERANCE * size * (dae.tau / h) ** (index - 1.0)
    allowed = np.minimum(np.maximum.reduce([converged, small, nonlinear]), size)
    ratio = np.where(claimed, errors[1] / allowed, 0.0)
    worst = int(np.argmax(ratio))
    if ratio[worst] <= 1.0:
        said = "" if claimed.all() else "theory gives no order for some unknowns"
        return Finding(DONE, said, float(ratio[worst]), steps, 2)
    said = (
        f"{dae.names[int(places[worst])]} of index {index[worst]}, order {p[worst]:g} expected: errors "
        f"{errors[0][worst]:.2g} and {errors[1][worst]:.2g} with h = tau / {dae.tau / h / 2:.1f}, h / 2"
    )
    return Finding(WRONG, said, float(ratio[worst]), steps, 2)


def takes_tolerance(method: str) -> bool:
    """Whether a method can be expected to run to a tolerance: refusals of others are all alike."""
    if method == DEFAULT or method.startswith("radau-iia"):
        return True
    cls: Any = SWEEPERS[method]
    is_sdc = issubclass(cls, SpectralDeferredCorrectionDAE)
    return is_sdc or getattr(cls.method, "b_embedded", None) is not None


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    methods = [DEFAULT, *SWEEPERS]
    adaptive = [method for method in methods if takes_tolerance(method)]
    for family, seed in product(families, seeds):
        rng = np.random.default_rng([seed, *family.encode()])

        def some(count: int) -> list[str]:
            picked = rng.choice(len(TOLERANCES), count, replace=False)  # noqa: B023
            return [f"rtol={TOLERANCES[i]:g}" for i in sorted(picked)]

        head = f"{family}:{seed}"
        typed = generate(family, seed).problem_class is not None  # such a class always knows its index
        if quick:
            yield from (f"{head}:declared:{DEFAULT}:{size}" for size in some(2))
            if not typed:
                yield f"{head}:undeclared:{DEFAULT}:{some(1)[0]}"
            for method in rng.choice(adaptive[1:], 2, replace=False):
                yield f"{head}:declared:{method}:{some(1)[0]}"
            for method in rng.choice(methods[1:], 3, replace=False):
                yield f"{head}:declared:{method}:fixed"
            if not typed:
                yield f"{head}:{rng.choice(MODEL_WAYS)}:{DEFAULT}:{some(1)[0]}"
            continue
        yield from (f"{head}:declared:{DEFAULT}:rtol={rtol:g}" for rtol in TOLERANCES)
        if not typed:
            yield from (f"{head}:undeclared:{DEFAULT}:{size}" for size in some(4))
        for method in adaptive[1:]:
            yield from (f"{head}:declared:{method}:{size}" for size in some(2))
            if not typed:
                yield f"{head}:undeclared:{method}:{some(1)[0]}"
        yield from (f"{head}:declared:{method}:fixed" for method in methods[1:])
        yield from (f"{head}:between:{DEFAULT}:{size}" for size in some(2))
        for way in () if typed else MODEL_WAYS:
            yield from (f"{head}:{way}:{DEFAULT}:{size}" for size in some(2))
