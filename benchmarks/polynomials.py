"""Time and reliability of the solution of polynomial systems; the tables of docs/polynomials.md."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import sympy as sp

from dae_sdc.initial.homotopy import solve_polynomials
from dae_sdc.initial.polynomials import PolynomialSystem
from dae_sdc.initial.singular_points import singular_points
from dae_sdc.initial.witness import decompose

x, y, z = sp.symbols("x y z")


def katsura(n: int) -> PolynomialSystem:
    """Katsura's magnets: n + 1 unknowns, 2^n solutions."""
    u = sp.symbols(f"u0:{n + 1}")

    def at(k: int) -> Any:
        return u[abs(k)] if abs(k) <= n else 0

    everywhere = range(-n, n + 1)
    equations = [sum(at(k) * at(m - k) for k in everywhere) - u[m] for m in range(n)]
    return PolynomialSystem.from_sympy([*equations, sum(map(at, everywhere)) - 1], u)


def cyclic(n: int) -> PolynomialSystem:
    """Cyclic n-roots."""
    u = sp.symbols(f"u0:{n}")
    sums = [sum(sp.prod([u[(i + j) % n] for j in range(k)]) for i in range(n)) for k in range(1, n)]
    return PolynomialSystem.from_sympy([*sums, sp.prod(u) - 1], u)


def product_of(roots: list[Any]) -> PolynomialSystem:
    """A polynomial of one variable with these roots."""
    return PolynomialSystem.from_sympy([sp.expand(sp.prod([z - root for root in roots]))], [z])


def six_components() -> PolynomialSystem:
    """A sphere, a twisted cubic, three lines and a point."""
    half, sphere = sp.Rational(1, 2), x**2 + y**2 + z**2 - 1
    given = [
        (y - x**2) * sphere * (x - half),
        (z - x**3) * sphere * (y - half),
        (y - x**2) * (z - x**3) * sphere * (z - half),
    ]
    return PolynomialSystem.from_sympy([sp.expand(one) for one in given], [x, y, z])


def slider_crank(ratio: int) -> PolynomialSystem:
    """Positions of a slider crank with the ratio of the bars."""
    n1, n2, n3, n4 = sp.symbols("n1:5")
    given = [ratio * n3 + n1, n1**2 + n2**2 - 1, n3**2 + n4**2 - 1]
    return PolynomialSystem.from_sympy(given, [n1, n2, n3, n4])


def solved(system: PolynomialSystem, seed: int) -> str:
    """Counts of the solutions."""
    roots = solve_polynomials(system, seed=seed)
    return f"{len(roots.solutions)} roots, {len(roots.real)} real, {roots.failed} paths lost"


def split(system: PolynomialSystem, seed: int) -> str:
    """Dimensions and degrees of the components, and the trace test."""
    parts = decompose(system, seed=seed)
    certified = all(part.certified for part in parts.components)
    found = ", ".join(f"{part.degree} in dimension {part.dimension}" for part in parts.components)
    return f"degrees {found}{'' if certified else ', not certified'}"


def singular(system: PolynomialSystem, seed: int) -> str:
    """Number and ranks of the singular points."""
    points = singular_points(system, seed=seed)
    return f"{len(points.points)} points of ranks {points.ranks.tolist()}, elsewhere {points.generic_rank}"


CASES: dict[str, tuple[Callable[[PolynomialSystem, int], str], PolynomialSystem, int]] = {
    "katsura-5": (solved, katsura(5), 100),
    "cyclic-5": (solved, cyclic(5), 20),
    "four simple roots": (solved, product_of([3, sp.Rational(1, 2) + 5 * sp.I, sp.I, 7 * sp.I]), 20),
    "a root of multiplicity 6": (solved, product_of([3] * 6), 20),
    "six roots, two double": (
        solved,
        product_of([-15, -15, 48.9 * sp.I, *[36.9 - 10.3 * sp.I] * 2, sp.sqrt(2)]),
        20,
    ),
    "slider crank": (split, slider_crank(2), 20),
    "equal bars": (split, slider_crank(1), 20),
    "six components": (split, six_components(), 10),
    "slider crank, singular": (singular, slider_crank(2), 10),
    "equal bars, singular": (singular, slider_crank(1), 10),
}


def main() -> None:
    """Prints, for each case, every result, how many seeds have it, and times of the processor."""
    for name, (run, system, seeds) in CASES.items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        counts: dict[str, int] = {}
        times = []
        for seed in range(seeds):
            begun = time.process_time()
            told = run(system, seed)
            times.append(time.process_time() - begun)
            counts[told] = counts.get(told, 0) + 1
        middle = sorted(times)[len(times) // 2]
        for told, count in counts.items():
            print(f"{name}: {told}: {count} of {seeds} seeds; {middle:.2f} s, at most {max(times):.2f} s")


if __name__ == "__main__":
    main()
