"""Polynomial systems whose solutions are known: how often they are found, and in what time."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import sympy as sp

from benchmarks.measuring.clock import clocked
from benchmarks.study import Layout, Option, Table, chosen, study
from dae_sdc.errors import require_count
from dae_sdc.polynomials.homotopy import solve_polynomials
from dae_sdc.polynomials.polynomials import PolynomialSystem
from dae_sdc.polynomials.singular_points import singular_points
from dae_sdc.polynomials.witness import decompose
from dae_sdc.run.results import Result

of_expressions = PolynomialSystem.from_sympy
TEXT = Layout("system=case:<20|seeds={right} of {seeds}:>9|certified:>9|s={time:.2f} {time_longest:.2f}:>13")


class Case(NamedTuple):
    name: str
    what: str  # What is looked for
    system: str  # What makes it
    known: str  # What must be found, as WAYS tell it


def katsura(n: int) -> PolynomialSystem:
    """Magnets of Katsura: n + 1 unknowns, 2^n solutions."""
    u = sp.symbols(f"u0:{n + 1}")

    def at(k: int) -> Any:
        return u[abs(k)] if abs(k) <= n else 0

    everywhere = range(-n, n + 1)
    equations = [sum(at(k) * at(m - k) for k in everywhere) - u[m] for m in range(n)]
    return of_expressions([*equations, sum(map(at, everywhere)) - 1], u)


def cyclic(n: int) -> PolynomialSystem:
    u = sp.symbols(f"u0:{n}")
    sums = [sum(sp.prod([u[(i + j) % n] for j in range(k)]) for i in range(n)) for k in range(1, n)]
    return of_expressions([*sums, sp.prod(u) - 1], u)


def chandrasekhar(n: int) -> PolynomialSystem:
    """A discretised H equation of Chandrasekhar, with c = 0.51234: 2^n real solutions, of size up to 2e4."""
    h, c = sp.symbols(f"h1:{n + 1}"), sp.Rational("0.51234")
    sums = [1 + sum(sp.Rational(k, k + i) * h[i - 1] for i in range(1, n)) for k in range(1, n + 1)]
    return of_expressions([2 * n * x - c * x * terms - 2 * n for x, terms in zip(h, sums, strict=True)], h)


def reimer(n: int) -> PolynomialSystem:
    """Equations of Reimer: alternating sums of the powers 2 to n + 1 of n unknowns are 1/2."""
    u = sp.symbols(f"u1:{n + 1}")
    return of_expressions([sum((-1) ** j * 2 * u[j] ** (i + 2) for j in range(n)) - 1 for i in range(n)], u)


def noon(n: int) -> PolynomialSystem:
    """A neural network by Noonburg, with c = 1.1: 3^n paths, of which 2 n go to infinity."""
    u = sp.symbols(f"u1:{n + 1}")
    others = [sum(u[j] ** 2 for j in range(n) if j != i) for i in range(n)]
    return of_expressions([u[i] * others[i] - sp.Rational(11, 10) * u[i] + 1 for i in range(n)], u)


def product_of(*roots: complex | str) -> PolynomialSystem:
    """A polynomial of one variable with these roots, numbers or texts such as "sqrt(2)"."""
    z = sp.Symbol("z")
    return of_expressions([sp.expand(sp.prod([z - sp.sympify(root) for root in roots]))], [z])


def slider_crank(ratio: int) -> PolynomialSystem:
    """Positions of a slider crank, by sine and cosine of both angles, with the ratio of the bars."""
    n1, n2, n3, n4 = sp.symbols("n1:5")
    return of_expressions([ratio * n3 + n1, n1**2 + n2**2 - 1, n3**2 + n4**2 - 1], [n1, n2, n3, n4])


def six_components() -> PolynomialSystem:
    x, y, z = sp.symbols("x y z")
    half, sphere = sp.Rational(1, 2), x**2 + y**2 + z**2 - 1
    cubic, twisted = (y - x**2) * sphere, (z - x**3) * sphere
    factors = cubic * (x - half), twisted * (y - half), cubic * (z - x**3) * (z - half)
    return of_expressions([sp.expand(product) for product in factors], [x, y, z])


def _solutions(system: PolynomialSystem, seed: int) -> tuple[str, int]:
    roots = solve_polynomials(system, seed=seed)
    lost = f", {roots.failed} paths lost" if roots.failed else ""
    multiple = sorted(int(count) for count in roots.multiplicity if count > 1)
    several = f", multiplicities {' '.join(map(str, multiple))}" if multiple else ""
    proved = -1 if roots.uncertified_because else int(roots.certified.sum())
    return f"{len(roots.solutions)} solutions, {len(roots.real)} real{several}{lost}", proved


def _components(system: PolynomialSystem, seed: int) -> tuple[str, int]:
    parts = decompose(system, seed=seed)
    told = []
    for dimension in sorted({one.dimension for one in parts.components}, reverse=True):
        degrees = sorted((one.degree for one in parts.of_dimension(dimension)), reverse=True)
        told.append(f"dimension {dimension}: degrees {' '.join(map(str, degrees))}")
    if not all(one.certified for one in parts.components):
        told.append("not certified")
    return "; ".join(told), -1


def _singular_points(system: PolynomialSystem, seed: int) -> tuple[str, int]:
    found = singular_points(system, seed=seed)
    ranks = f" of ranks {' '.join(map(str, found.ranks.tolist()))}" if len(found.points) else ""
    return f"{len(found.points)} points{ranks}, elsewhere {found.generic_rank}", -1


# What is found, and the number of solutions that are proved, -1 if none can be
WAYS: dict[str, Callable[[PolynomialSystem, int], tuple[str, int]]] = {
    "solutions": _solutions,
    "components": _components,
    "singular points": _singular_points,
}

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CASES = tuple(Case(name, what, system, known) for name, (what, system, known) in _TABLE.items())


@study(
    "polynomials",
    "case:U32 what:U16 known:U96 seeds:i8 right:i8 certified:i8 time[s] time_longest[s] found:U120",
    example="--problems katsura-5 --repetitions 3",
    options={"repetitions": Option("number of seeds, 0, 1, ...", check=require_count)},
)
def polynomials(rows: Table, *, problems: Sequence[str] | None = None, repetitions: int = 20) -> None:
    """Solve and decompose polynomial systems whose solutions are known, with many seeds."""
    names = chosen("polynomial system", problems, [case.name for case in CASES])
    for case in rows.each([case for case in CASES if case.name in names], "system"):
        system, times, wrong, proved = eval(case.system), [], [], []
        for seed in range(repetitions):
            spent, (answer, certified) = clocked(partial(WAYS[case.what], system, seed))
            times.append(spent.processor)
            proved.append(certified)
            wrong += [f"seed {seed}: {answer}"] if answer != case.known else []
        rows.put(
            **{"case": case.name, "what": case.what, "known": case.known, "seeds": repetitions},
            **{"right": repetitions - len(wrong), "certified": min(proved)},
            **{"time": sorted(times)[len(times) // 2], "time_longest": max(times)},
            found="; ".join(wrong)[:120],
        )


@polynomials.reports
def report(result: Result) -> Iterator[str]:
    yield (
        "seeds that gave what is known, of all; solutions certified with every seed; seconds of one core, "
        "median and longest"
    )
    yield f"{TEXT.head()}  known"
    for row in result.data:
        certified = "" if row["certified"] < 0 else row["certified"]
        yield f"{TEXT.line(row, certified=certified)}  {row['known']}"
        if row["found"]:
            yield f"  else {row['found']}"
