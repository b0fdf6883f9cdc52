"""Events: zeros of functions along solutions that are known, against the times that runs find.

Functions are u_j(t) - a for unknowns of index 1, whose zeros on the exact solution are found by bisection
between its extrema, and functions of time. A time is right within 100 rtol (1 + |u|) / |g'|: what the
tolerance allows of u moves the zero by that much. What is counted: all zeros and no others, the direction, an
end at a terminal event or at that of a given number, none at the start where the run begins at a zero, pairs
of zeros around an extremum that lie in one step, and several functions with zeros in one step. A function
that touches zero may have an event there or none, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq

import dae_sdc as ds
from benchmarks.measuring.runs import DONE, FAILED, WRONG, Finding
from benchmarks.studies.truth.draw import Generator, Vector
from benchmarks.studies.truth.generated import KINDS, Kind
from benchmarks.studies.truth.solves import DEFAULT, MARGIN, PATIENCE, drawn, generate, options_of, rtol_of

VARIANTS = ("crossing", "direction", "terminal", "second", "at-start", "pair", "tangent", "several", "fast")
METHODS = (DEFAULT, DEFAULT, "radau-iia-5", "fully-implicit", "radau-iia-9")
RTOLS = (1e-5, 1e-7, 1e-9)
SAMPLES = 4001
PER_SEED = 2


def zeros(function: Callable[[float], float], start: float, end: float) -> Vector:
    """All zeros with a change of sign, from samples that are dense beside the waves of the solution."""
    times = np.linspace(start, end, SAMPLES)
    values = np.array([function(t) for t in times])
    at = np.flatnonzero(values[:-1] * values[1:] < 0.0)
    return np.array([brentq(function, times[i], times[i + 1], xtol=1e-15) for i in at])


def _levels(variant: str, path: Vector, rng: Generator) -> list[float]:
    """Levels of an unknown that its path passes, or touches; none where it has no extremum."""
    low, high = float(path.min()), float(path.max())
    level = low + float(rng.uniform(0.15, 0.85)) * (high - low)
    if variant in ("pair", "tangent"):
        inner = np.flatnonzero(np.diff(path)[1:] * np.diff(path)[:-1] < 0.0) + 1
        if not inner.size:
            return []
        top = float(path[int(rng.choice(inner))])
        bend = 0.0 if variant == "tangent" else float(10.0 ** rng.uniform(-5, -2)) * max(1e-2, high - low)
        below = top != low and (path[max(inner[0] - 1, 0)] < path[inner[0]] or top == high)
        return [top - bend if below else top + bend]
    if variant == "several":
        return sorted(low + (high - low) * rng.uniform(0.2, 0.8, 4))
    return [float(path[0]) if variant == "at-start" else level]


def run(family: str, seed: int, variant: str, method: str = DEFAULT, size: str = "rtol=1e-07") -> Finding:
    dae, rtol = generate(family, seed), rtol_of(size)
    start, end = dae.interval
    rng = np.random.default_rng([seed, VARIANTS.index(variant), *family.encode()])
    j = int(rng.choice([j for j in range(dae.n) if dae.variable_index[j] == 1]))
    path = np.array([dae.solution(t)[j] for t in np.linspace(start, end, SAMPLES)])
    levels = _levels(variant, path, rng)
    if not levels:
        return Finding(DONE, "no extremum")
    terminal: bool | int = {"terminal": True, "second": 2}.get(variant, False)
    direction = float(rng.choice((-1, 1))) if variant == "direction" else 0.0

    def above(level: float, u: Any, t: Any) -> Any:
        return u[j] - level

    def exceeds(level: float, t: float) -> float:
        return float(above(level, dae.solution(t), t))

    exact: list[Callable[[float], float]] = [partial(exceeds, level) for level in levels]
    events = [ds.Event(partial(above, level), terminal, direction, f"level {level:.4g}") for level in levels]
    options: dict[str, Any] = {"u0": dae.solution(start), "rtol": rtol, "time_limit": PATIENCE}
    if variant == "fast":
        w = float(rng.uniform(20.0, 60.0))
        exact = [lambda t: float(np.sin(w * t + 0.3))]
        events = [ds.Event(lambda u, t: np.sin(w * t + 0.3), name="fast")]
        options["dt_max"] = 1.0 / w
    solution = ds.solve(dae.problem(True), events=events, **options, **options_of(method))
    steps = int(solution.stats["steps"])
    if not solution.success:
        return Finding(FAILED, solution.message, steps=steps, solves=1)
    allowed = MARGIN * rtol * (1.0 + max(abs(float(path.min())), abs(float(path.max()))))
    worst = 0.0
    for function, event, record in zip(exact, events, solution.events, strict=True):
        expected = zeros(function, start, end)
        if variant == "at-start":
            expected = expected[expected > start + 1e-6]
        slope = np.array([(function(t + 1e-6) - function(t - 1e-6)) / 2e-6 for t in expected])
        counted = slope * direction > 0.0 if direction else np.full(len(slope), True)
        last = int(terminal) or None
        expected, slope = expected[counted][:last], slope[counted][:last]
        said, error = _compared(record, expected, slope, allowed, variant, function)
        if said:
            return Finding(WRONG, f"{event.name}: {said}", error, steps, 1)
        worst = max(worst, error)
        if terminal and len(expected) == int(terminal) and solution.t[-1] != record.t[-1]:
            return Finding(WRONG, f"the run ends at {solution.t[-1]!r}, the event is at {record.t[-1]!r}")
    return Finding(DONE, "", worst, steps, 1)


def _compared(
    record: Any, expected: Vector, slope: Vector, allowed: float, variant: str, function: Any
) -> tuple[str, float]:
    """What is wrong with the times of a record, and the largest error in units of what is allowed."""
    times = np.asarray(record.t)
    # Pairs that the tolerance cannot tell from a function that touches zero, or misses it.
    unsure = np.abs(slope) < 4.0 * np.sqrt(allowed)
    if variant == "tangent" or unsure.any():
        stray = [t for t in times if abs(function(t)) > allowed]
        if stray:
            return f"an event at t={stray[0]:.6g}, where the function is {function(stray[0]):.2g}", np.inf
        for t in expected[~unsure]:
            if np.abs(times - t).min(initial=np.inf) > 1e-3:
                return f"the zero at t={t:.6g} is missing", np.inf
        return "", 0.0
    if len(times) != len(expected):
        said = f"{len(times)} events, at {_times(times)}; there are {len(expected)}, at {_times(expected)}"
        return said, np.inf
    error = np.abs(times - expected) / (allowed / np.abs(slope) + 1e-12)
    worst = float(error.max(initial=0.0))
    if worst > 1.0:
        i = int(error.argmax())
        return f"an event at {times[i]:.12g} for {expected[i]:.12g}, {worst:.2g} times what is allowed", worst
    if (np.sign(slope) != np.asarray(record.direction)).any():
        return "a direction is not that of the function", np.inf
    return "", worst


def _times(times: Vector) -> str:
    shown = ", ".join(f"{t:.6g}" for t in times[:6])
    return shown + (", ..." if len(times) > 6 else "") if len(times) else "no time"


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    for family, seed, dae in drawn(families, seeds, quick, PER_SEED):
        if 1 not in dae.variable_index:
            continue
        rng = np.random.default_rng([seed, 13, *family.encode()])
        for variant in VARIANTS if not quick else rng.choice(VARIANTS, 2, replace=False):
            method = rng.choice(METHODS)
            yield f"{family}:{seed}:events:{variant}:{method}:rtol={rng.choice(RTOLS):g}"


KINDS.add("events", Kind(run, plan))
