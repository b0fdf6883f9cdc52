"""Generated equations that are linear in pieces, written in three ways, beside their exact solutions.

Between switches solutions are matrix exponentials, and switching times are zeros of affine functions of them.
The equations are models, Modelica and functions, with relays that slide, saturations, hysteresis by events,
pulses by the time, complementarity of index 1 and 2, resets, and equations that are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import sympy as sp
from scipy.linalg import expm
from scipy.optimize import brentq

import dae_sdc as ds
from dae_sdc.errors import DAEError
from dae_sdc.modelica.reader import read_modelica_text

TOLERANCES = (1e-4, 1e-6, 1e-9)
T_END = 4.0
SAMPLES = 1200  # Of an interval on which the exact solution is looked at for switches.
# Least value of a guard at its extrema, or slope at its zeros, of equations that are taken: no grazing.
CLEAR = 0.02
COUNT = 300


@dataclass
class Guard:
    """An affine function row @ (x, 1) at whose fall below 0 a mode is left."""

    row: Any
    following: Callable[[Any], str]  # The next mode by the state.
    reset: Any = None  # Matrix that changes (x, 1).


@dataclass
class Exact:
    """The solution of a hybrid automaton with affine fields."""

    fields: dict[str, Any]  # By modes the matrices of (x, 1)'.
    guards: dict[str, list[Guard]]
    times: list[float] = field(default_factory=list)

    def end(self, mode: str, x: Any, stops: Sequence[float] = (), timed: Any = None) -> Any:
        """The state at the end; ValueError where a guard is grazed."""
        t, state = 0.0, np.append(x, 1.0)
        for stop in (*stops, T_END):
            while t < stop:
                state, t, mode = self._arc(mode, state, t, stop)
            if timed is not None and stop < T_END:
                mode = timed(mode)
                self.times.append(stop)
        return state[:-1]

    def _arc(self, mode: str, state: Any, t: float, stop: float) -> tuple[Any, float, str]:
        matrix, guards = self.fields[mode], self.guards.get(mode, [])
        step = (stop - t) / SAMPLES
        one, places = expm(matrix * step), [state]
        for _ in range(SAMPLES):
            places.append(one @ places[-1])
        first = None
        for guard in guards:
            values = np.array(places) @ guard.row
            begin = 1 if abs(values[0]) < 1e-9 else 0
            below = np.flatnonzero(values[begin:] < 0.0)
            inner = values[max(begin, 3) :]
            if not below.size and len(inner) and inner.min() < CLEAR and inner.argmin() < len(inner) - 1:
                raise ValueError("grazing")
            if below.size:
                k = int(below[0]) + begin
                if k <= 1:
                    raise ValueError("at once")

                def value(s: float, row: Any = guard.row) -> float:
                    return float(row @ expm(matrix * s) @ state)

                at = brentq(value, (k - 1) * step, k * step, xtol=1e-15)
                if abs(float(guard.row @ matrix @ expm(matrix * at) @ state)) < CLEAR:
                    raise ValueError("grazing")
                if first is None or at < first[0]:
                    first = at, guard
        if first is None:
            return places[-1], stop, mode
        at, guard = first
        state = expm(matrix * at) @ state
        if t + at > T_END - 0.02:
            raise ValueError("at the end")
        self.times.append(t + at)
        following = guard.following(state)
        return (state if guard.reset is None else guard.reset @ state), t + at, following


@dataclass
class Case:
    """Equations in the three ways, with their exact end and switching times (None: kinks, not recorded)."""

    kind: str
    x0: Any
    end: Any
    times: list[float] | None
    model: Callable[[], ds.Model]
    modelica: str
    function: Any
    u0: Any
    events: Sequence[Any] = ()


def affine(a: Any, b: Any) -> Any:
    n = len(b)
    matrix = np.zeros((n + 1, n + 1))
    matrix[:n, :n], matrix[:n, n] = a, b
    return matrix


def shown(values: Any, names: Sequence[str], constant: float = 0.0) -> str:
    return " + ".join(
        [
            *(f"({value!r})*{name}" for value, name in zip(values.tolist(), names, strict=True)),
            f"({float(constant)!r})",
        ]
    )


def modelica(n: int, x0: Any, rates: Sequence[str], declared: str, others: str) -> str:
    starts = ", ".join(f"x{k + 1}(start={float(x0[k])!r}, fixed=true)" for k in range(n))
    equations = " ".join(f"der(x{k + 1}) = {rates[k]};" for k in range(n))
    body = f"Real {starts}; {declared} equation {equations} {others}"
    return f"model Case {body} annotation(experiment(StopTime={T_END})); end Case;"


def model_of(n: int, x0: Any, a: Any, b: Any) -> tuple[ds.Model, list[Any], Callable[..., None]]:
    m = ds.Model("case", interval=(0.0, T_END))
    x = [m.variable(f"x{k + 1}", start=x0[k], fixed=True) for k in range(n)]

    def rates(c: Any = None, z: Any = 0) -> None:
        for k in range(n):
            inner = sum(float(a[k, j]) * x[j] for j in range(n)) + float(b[k])
            m.equation(m.der(x[k]) - inner - (0 if c is None else float(c[k]) * z))

    return m, x, rates


def drawn(seed: int) -> Case:
    """A case whose solution grazes no border."""
    for again in range(200):
        rng = np.random.default_rng([seed, again])
        try:
            case = KINDS[seed % len(KINDS)](rng)
        except ValueError:
            continue
        if np.abs(case.end).max() < 50.0 and (case.times is None or 1 <= len(case.times) <= 25):
            return case
    raise AssertionError(f"no case for seed {seed}")


def system(rng: Any, n: int) -> tuple[Any, Any, Any, Any, Any]:
    a = rng.normal(size=(n, n))
    a -= (max(np.linalg.eigvals(a).real.max(), 0.0) + rng.uniform(0.0, 0.5)) * np.eye(n)
    a += rng.uniform(1.0, 3.0) * (np.eye(n, k=1) - np.eye(n, k=-1))
    return a, rng.normal(size=n), rng.normal(size=n), rng.normal(size=n), rng.normal(size=n)


def names_of(n: int) -> list[str]:
    return [f"x{k + 1}" for k in range(n)]


def fed_back(matrices: Any, x0: Any, law: str, of_model: Any, of_function: Any) -> tuple[Any, Any, Any]:
    """x' = A x + b + c z with a law for z and d x, as a model, as Modelica and as a function."""
    (a, b, c, d), n = matrices, len(x0)
    names = names_of(n)
    rows = [f"{shown(a[k], names, b[k])} + ({float(c[k])!r})*z" for k in range(n)]
    text = modelica(n, x0, rows, "Real z;", f"z = {law.format(shown(d, names))};")

    def model() -> ds.Model:
        m, x, rates = model_of(n, x0, a, b)
        z = m.variable("z", start=0.0)
        rates(c, z)
        m.equation(of_model(z, sum(float(d[k]) * x[k] for k in range(n))))
        return m

    def function(t: float, u: Any, du: Any) -> list[Any]:
        x, z = u[:n], u[n]
        rate = [sum(a[k, j] * x[j] for j in range(n)) + b[k] + c[k] * z for k in range(n)]
        return [*(du[k] - rate[k] for k in range(n)), of_function(z, sum(d[k] * x[k] for k in range(n)))]

    return model, text, function


def relay(rng: Any) -> Case:
    """x' = A x + b + c z, z = -sign(d x)."""
    n = int(rng.integers(2, 4))
    a, b, c, d, x0 = system(rng, n)
    if abs(d @ c) < 0.3 or abs(d @ x0) < 0.2:
        raise ValueError
    row, gain = np.append(d, 0.0), d @ c
    up, down = affine(a, b - c), affine(a, b + c)  # where d x is positive, and negative
    free = affine(a, b)
    s_row = row @ free / gain  # what -z is while it slides
    slide = free - np.outer(np.append(c, 0.0), s_row)

    def at_border(state: Any) -> str:
        rate_up, rate_down = row @ up @ state, row @ down @ state
        if min(abs(rate_up), abs(rate_down)) < CLEAR:
            raise ValueError
        if rate_up < 0.0 < rate_down:
            return "slide"
        if rate_up > 0.0 > rate_down:
            raise ValueError  # two solutions
        return "up" if rate_up > 0.0 else "down"

    one = np.append(np.zeros(n), 1.0)
    guards = {
        "up": [Guard(row, at_border)],
        "down": [Guard(-row, at_border)],
        "slide": [Guard(one - s_row, lambda state: "up"), Guard(one + s_row, lambda state: "down")],
    }
    exact = Exact({"up": up, "down": down, "slide": slide}, guards)
    # While it slides z = -s is between -1 and 1: it leaves upward where s comes to 1.
    end = exact.end("up" if d @ x0 > 0.0 else "down", x0)
    forms = fed_back(
        (a, b, c, d),
        x0,
        "if {} > 0 then -1 else 1",
        lambda z, value: z + sp.sign(value),
        lambda z, value: z + np.sign(value),
    )
    return Case("relay", x0, end, exact.times, *forms, np.append(x0, -np.sign(d @ x0)))


def saturation(rng: Any) -> Case:
    """x' = A x + b + c z, z = d x within -1 and 1."""
    n = int(rng.integers(2, 4))
    a, b, c, d, x0 = system(rng, n)
    row, one = np.append(d, 0.0), np.append(np.zeros(n), 1.0)
    fields = {"low": affine(a, b - c), "mid": affine(a + np.outer(c, d), b), "high": affine(a, b + c)}
    guards = {
        "low": [Guard(-one - row, lambda s: "mid")],
        "mid": [Guard(one - row, lambda s: "high"), Guard(one + row, lambda s: "low")],
        "high": [Guard(row - one, lambda s: "mid")],
    }
    value = d @ x0
    if min(abs(value - 1.0), abs(value + 1.0)) < 0.1:
        raise ValueError
    exact = Exact(fields, guards)
    end = exact.end("low" if value < -1.0 else "high" if value > 1.0 else "mid", x0)
    if not exact.times:
        raise ValueError
    forms = fed_back(
        (a, b, c, d),
        x0,
        "max(-1, min(1, {}))",
        lambda z, value: z - sp.Piecewise((-1, value < -1), (1, value > 1), (value, True)),
        lambda z, value: z - np.clip(value, -1.0, 1.0),
    )
    return Case("saturation", x0, end, None, *forms, np.append(x0, np.clip(value, -1.0, 1.0)))


def hysteresis(rng: Any) -> Case:
    """x' = A x + b + c s, where s becomes 0 as d x passes 1 and 1 as it falls below -1."""
    n = int(rng.integers(2, 4))
    a, b, c, d, x0 = system(rng, n)
    c *= 4.0
    row, one = np.append(d, 0.0), np.append(np.zeros(n), 1.0)
    if abs(d @ x0) > 0.9:
        raise ValueError
    exact = Exact(
        {"on": affine(a, b + c), "off": affine(a, b)},
        {"on": [Guard(one - row, lambda s: "off")], "off": [Guard(row + one, lambda s: "on")]},
    )
    end = exact.end("on", x0)
    if not exact.times:
        raise ValueError
    names = names_of(n)
    inner = shown(d, names)
    rates_text = [f"{shown(a[k], names, b[k])} + (if on then {float(c[k])!r} else 0)" for k in range(n)]
    text = modelica(
        n,
        x0,
        rates_text,
        "Boolean on(start=true);",
        f"when {inner} > 1 then on = false; elsewhen {inner} < -1 then on = true; end when;",
    )

    def model() -> ds.Model:
        m, x, rates = model_of(n, x0, a, b)
        s = m.discrete("s", 1.0)
        rates(c, s)
        value = sum(float(d[k]) * x[k] for k in range(n))
        m.when(value > 1, {s: 0})
        m.when(value < -1, {s: 1})
        return m

    def function(t: float, u: Any, du: Any) -> list[Any]:
        x, s = u[:n], u[n]
        rate = [sum(a[k, j] * x[j] for j in range(n)) + b[k] + c[k] * s for k in range(n)]
        return [*(du[k] - rate[k] for k in range(n)), du[n]]

    def changed(value: float) -> Callable[[Any, float], None]:
        def change(u: Any, t: float) -> None:
            u[n] = value

        return change

    events = [
        ds.Event(lambda u, t: float(d @ np.asarray(u)[:n]) - 1.0, direction=1, change=changed(0.0)),
        ds.Event(lambda u, t: float(d @ np.asarray(u)[:n]) + 1.0, direction=-1, change=changed(1.0)),
    ]
    return Case("hysteresis", x0, end, exact.times, model, text, function, np.append(x0, 1.0), events)


def pulses(rng: Any) -> Case:
    """x' = A x + b + c p with pulses p of the time."""
    n = int(rng.integers(2, 4))
    a, b, c, _, x0 = system(rng, n)
    period, duty = rng.uniform(0.3, 1.1), rng.uniform(0.2, 0.8)
    stops = sorted(s for k in range(20) for s in (k * period, (k + duty) * period) if 0.0 < s < T_END)
    if T_END - stops[-1] < 0.01:
        raise ValueError
    exact = Exact({"on": affine(a, b + c), "off": affine(a, b)}, {})
    end = exact.end("on", x0, stops, lambda mode: "off" if mode == "on" else "on")
    names = names_of(n)
    condition = f"mod(time, {float(period)!r}) < {float(duty * period)!r}"
    text = modelica(
        n,
        x0,
        [f"{shown(a[k], names, b[k])} + ({float(c[k])!r})*p" for k in range(n)],
        "Real p;",
        f"p = if {condition} then 1 else 0;",
    )

    def model() -> ds.Model:
        m, _, rates = model_of(n, x0, a, b)
        p = m.variable("p", start=1.0)
        rates(c, p)
        phase = m.t - period * sp.floor(m.t / period)
        m.equation(p - sp.Piecewise((1, phase < duty * period), (0, True)))
        return m

    def function(t: float, u: Any, du: Any) -> list[Any]:
        x, p = u[:n], u[n]
        rate = [sum(a[k, j] * x[j] for j in range(n)) + b[k] + c[k] * p for k in range(n)]
        return [*(du[k] - rate[k] for k in range(n)), p - np.where(t % period < duty * period, 1.0, 0.0)]

    return Case("pulses", x0, end, None, model, text, function, np.append(x0, 1.0))


def complementarity(rng: Any) -> Case:
    """x' = A x + b + c z, 0 <= z, 0 <= d x + e z + f, one of them 0; e = 0 is of index 2."""
    n = int(rng.integers(2, 4))
    a, b, c, d, x0 = system(rng, n)
    e, f = float(rng.choice([0.0, rng.uniform(0.3, 1.0)])), float(rng.normal())
    gain = d @ c
    if d @ x0 + f < 0.2 or gain < 0.3:
        raise ValueError
    row = np.append(d, f)
    free = affine(a, b)
    # z where the other factor is 0
    z_row = -row / e if e else -(row @ free) / gain
    held = free + np.outer(np.append(c, 0.0), z_row)
    exact = Exact(
        {"free": free, "held": held},
        {"free": [Guard(row, lambda s: "held")], "held": [Guard(z_row, lambda s: "free")]},
    )
    if e:  # z begins at 0
        exact.guards["held"] = [Guard(z_row, lambda s: "free")]
    end = exact.end("free", x0)
    if not exact.times:
        raise ValueError
    names = names_of(n)
    text = modelica(
        n,
        x0,
        [f"{shown(a[k], names, b[k])} + ({float(c[k])!r})*z" for k in range(n)],
        "Real z(start=0);",
        f"min(z, {shown(d, names, f)} + ({float(e)!r})*z) = 0;",
    )

    def model() -> ds.Model:
        m, x, rates = model_of(n, x0, a, b)
        z = m.variable("z", start=0.0)
        rates(c, z)
        m.equation(sp.Min(z, sum(float(d[k]) * x[k] for k in range(n)) + e * z + f))
        return m

    def function(t: float, u: Any, du: Any) -> list[Any]:
        x, z = u[:n], u[n]
        rate = [sum(a[k, j] * x[j] for j in range(n)) + b[k] + c[k] * z for k in range(n)]
        return [
            *(du[k] - rate[k] for k in range(n)),
            np.minimum(z, sum(d[k] * x[k] for k in range(n)) + e * z + f),
        ]

    return Case(
        f"complementarity {1 if e else 2}",
        x0,
        end,
        None if e else exact.times,
        model,
        text,
        function,
        np.append(x0, 0.0),
    )


def resets(rng: Any) -> Case:
    """x' = A x + b; where d x passes 1 it goes to x - 2 r, with d r = 1."""
    n = int(rng.integers(2, 4))
    a, b, _, d, x0 = system(rng, n)
    r = d / (d @ d)
    b = b + 3.0 * r
    if d @ x0 > 0.8:
        raise ValueError
    row, one = np.append(d, 0.0), np.append(np.zeros(n), 1.0)
    reset = np.eye(n + 1)
    reset[:n, n] -= 2.0 * r
    exact = Exact({"only": affine(a, b)}, {"only": [Guard(one - row, lambda s: "only", reset)]})
    end = exact.end("only", x0)
    if not exact.times:
        raise ValueError
    names = names_of(n)
    inner = shown(d, names)
    changes = " ".join(f"reinit(x{k + 1}, x{k + 1} - ({float(2.0 * r[k])!r}));" for k in range(n))
    text = modelica(
        n,
        x0,
        [shown(a[k], names, b[k]) for k in range(n)],
        "Real y;",
        f"y = x1; when {inner} > 1 then {changes} end when;",
    )

    def model() -> ds.Model:
        m, x, rates = model_of(n, x0, a, b)
        rates()
        y = m.variable("y")
        m.equation(y - x[0])
        value = sum(float(d[k]) * x[k] for k in range(n))
        m.when(value > 1, {x[k]: x[k] - 2.0 * float(r[k]) for k in range(n)})
        return m

    def function(t: float, u: Any, du: Any) -> list[Any]:
        x = u[:n]
        return [*(du[k] - sum(a[k, j] * x[j] for j in range(n)) - b[k] for k in range(n)), u[n] - u[0]]

    def change(u: Any, t: float) -> None:
        u[:n] -= 2.0 * r

    events = [ds.Event(lambda u, t: float(d @ np.asarray(u)[:n]) - 1.0, direction=1, change=change)]
    return Case("resets", x0, end, exact.times, model, text, function, np.append(x0, x0[0]), events)


def exchanged(rng: Any) -> Case:
    """x' = A x + b + c z with z = 0 before a time, and x1 = w, of index 2, behind it."""
    n = int(rng.integers(2, 4))
    a, b, c, _, x0 = system(rng, n)
    if abs(c[0]) < 0.3:
        raise ValueError
    when = float(rng.uniform(0.5, 3.5))
    free = affine(a, b)
    at = expm(free * when) @ np.append(x0, 1.0)
    first = np.append(np.eye(n)[0], 0.0)
    target = float(at[0] + rng.choice([0.0, 1.0]) * rng.normal())  # with 1 it must jump there, along c
    jump = np.append(c, 0.0) * (target - at[0]) / c[0]
    held = free - np.outer(np.append(c, 0.0), first @ free) / c[0]
    end = (expm(held * (T_END - when)) @ (at + jump))[:n]
    names = names_of(n)
    text = modelica(
        n,
        x0,
        [f"{shown(a[k], names, b[k])} + ({float(c[k])!r})*z" for k in range(n)],
        f"Real z(start=0); Boolean on = time >= {float(when)!r};",
        f"if on then x1 = {float(target)!r}; else z = 0; end if;",
    )

    def model() -> ds.Model:
        m, x, rates = model_of(n, x0, a, b)
        z = m.variable("z", start=0.0)
        rates(c, z)
        m.equation(sp.Piecewise((z, m.t < when), (x[0] - target, True)))
        return m

    def function(t: float, u: Any, du: Any) -> list[Any]:
        x, z = u[:n], u[n]
        rate = [sum(a[k, j] * x[j] for j in range(n)) + b[k] + c[k] * z for k in range(n)]
        return [*(du[k] - rate[k] for k in range(n)), np.where(t < when, z, x[0] - target)]

    return Case("exchanged", x0, end, None, model, text, function, np.append(x0, 0.0))


KINDS = (relay, saturation, hysteresis, pulses, complementarity, resets, exchanged)
WAYS = ("model", "modelica", "function")


def outcome(seed: int, way: str, rtol: float) -> str:
    """What a run of a case is: right, refused with why, or wrong with how much."""
    case = drawn(seed)
    try:
        if way == "function":
            run = ds.solve(case.function, u0=case.u0, t_end=T_END, rtol=rtol, events=case.events)
        else:
            run = ds.solve(case.model() if way == "model" else read_modelica_text(case.modelica), rtol=rtol)
    except DAEError as error:
        return f"refused {case.kind}: {error}"
    if not run.success:
        return f"refused {case.kind}: {run.message}"
    n = len(case.x0)
    values = run.u[-1, :n] if way == "function" else np.array([run[f"x{k + 1}"][-1] for k in range(n)])
    error = float((np.abs(values - case.end) / (1.0 + np.abs(case.end))).max()) / rtol
    if error > 10.0:
        return f"wrong {case.kind}: {error:.3g} rtol"
    # A function that runs as it is has kinks there, which are not recorded.
    if case.times is not None and not (way == "function" and case.kind.startswith("complementarity")):
        times = np.unique(
            np.concatenate([np.zeros(0), *(record.t for record in (*run.switches, *run.events))])
        )
        if case.kind == "hysteresis" and len(times):  # thresholds are passed where nothing changes, too
            times = np.array([times[np.abs(times - time).argmin()] for time in case.times])
        if len(times) != len(case.times):
            return f"wrong {case.kind}: {len(times)} times for {len(case.times)}"
        late = float(np.abs(times - np.array(case.times)).max(initial=0.0)) / rtol
        if late > 10.0:
            return f"wrong {case.kind}: times {late:.3g} rtol"
    return "right"


@pytest.mark.parametrize("first", range(0, COUNT, 40))
def test_generated_equations_linear_in_pieces_are_exact(first: int) -> None:
    outcomes = {}
    for seed in range(first, first + 20):
        way, rtol = WAYS[seed % 3], TOLERANCES[(seed // 3) % 3]
        outcomes[seed] = outcome(seed, way, rtol)
    left = {f"{seed} {WAYS[seed % 3]}": text for seed, text in outcomes.items() if text != "right"}
    print(f"{len(outcomes) - len(left)} right of {len(outcomes)}; {left}")
    assert not [text for text in left.values() if text.startswith("wrong")], left
    assert len(left) <= 1, left


def test_a_relay_that_comes_to_its_border_to_the_last_bit_slides() -> None:
    """It is at 0 between the two sides that lead back, at one time."""
    assert outcome(336, "model", 1e-9) == "right"
