"""Proofs that polynomials have exactly one solution near an approximate one. They need python-flint."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from dae_sdc.polynomials.polynomials import Complexes, PolynomialSystem
from dae_sdc.polynomials.tracking import Booleans, groups_of

PRECISIONS = (128, 256, 512, 1024)  # Bits of the ball arithmetic, increased until the proof holds.
# Distance within which a proved solution belongs to an approximate one, in units of 1 + its size.
CERTIFIED_DISTANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Certificates:
    """Properties of approximate solutions that are proved."""

    solutions: Complexes  # Shape (r, n). The solutions; those that are proved are rounded to doubles.
    # Shape (r,). Which are proved to be solutions, simple, and different from all other proved ones.
    proved: Booleans
    # real, complex: shape (r,). Which are proved to be real, and which not to be real.
    real: Booleans
    complex: Booleans
    reason: str = ""  # Why no proof was possible; empty otherwise.


class _Balls:
    """The polynomials, and their derivatives, in ball arithmetic of one precision."""

    def __init__(self, system: PolynomialSystem, precision: int) -> None:
        import flint

        self.flint, self.n = flint, system.variables
        self.rows: list[list[tuple[Any, list[tuple[int, int]]]]] = []
        self.highest = int(system.exponents.max(initial=1))
        self.real = True
        for i in range(system.equations):
            terms = []
            for k in np.flatnonzero(system.coefficients[i]).tolist():
                exact = system.exact.get((i, k))
                parts: list[Any] = [complex(system.coefficients[i, k])]
                if exact is not None:
                    parts = [self._number(part, precision) for part in exact.as_real_imag()]
                ball = flint.acb(*parts)
                self.real &= bool(ball.imag == 0)
                factors = [(j, e) for j, e in enumerate(system.exponents[k].tolist()) if e]
                terms.append((ball, factors))
            self.rows.append(terms)

    def _number(self, number: Any, precision: int) -> Any:
        if number.is_Rational:
            return self.flint.arb(self.flint.fmpq(int(number.p), int(number.q)))
        digits = int(0.302 * precision) + 10
        value = self.flint.arb(str(number.evalf(digits)))
        return self.flint.arb(value, abs(value) * self.flint.arb(10) ** (5 - digits))

    def both(self, x: list[Any]) -> tuple[Any, Any]:
        """Values and Jacobian of the polynomials on balls x."""
        zero, one = self.flint.acb(0), self.flint.acb(1)
        powers = []
        for value in x:
            row = [one, value]
            for _ in range(2, self.highest + 1):
                row.append(row[-1] * value)
            powers.append(row)
        values, slopes = [], []
        for terms in self.rows:
            total, gradient = zero, [zero] * self.n
            for coefficient, factors in terms:
                ahead = [coefficient]
                for j, e in factors:
                    ahead.append(ahead[-1] * powers[j][e])
                total += ahead[-1]
                behind = one
                for place in range(len(factors) - 1, -1, -1):
                    j, e = factors[place]
                    part = ahead[place] * behind
                    gradient[j] += part if e == 1 else part * powers[j][e - 1] * e
                    if place:
                        behind *= powers[j][e]
            values.append([total])
            slopes.append(gradient)
        return self.flint.acb_mat(values), self.flint.acb_mat(slopes)


def _krawczyk(balls: _Balls, start: list[Any], precision: int, on_axis: bool) -> list[Any] | None:
    """Balls with exactly one solution, near the limit of Newton's method; None without proof."""
    # With ``on_axis`` they are symmetric to the real axis, so that the solution is its own conjugate.
    flint, n = balls.flint, balls.n
    x = start
    try:
        for _ in range(12):
            values, slopes = balls.both(x)
            step = [row[0] for row in slopes.mid().solve(values.mid()).tolist()]
            x = [type(a)((a - b).real.mid(), (a - b).imag.mid()) for a, b in zip(x, step, strict=True)]
            if on_axis:
                x = [flint.acb(a.real.mid()) for a in x]
            far = max(
                float(abs(b).mid()) / (1e-300 + float(abs(a).mid()) + 1e-9)
                for a, b in zip(x, step, strict=True)
            )
            if far < 2.0 ** (-precision // 2):
                break
        values, slopes = balls.both(x)
        inverse = slopes.mid().inv().mid()
        moved = inverse * values
        size = max(float(abs(a).mid()) for a in x) + 1e-300
        radii = []
        for j in range(n):
            error = abs(moved[j, 0])
            radii.append(
                8 * (error.mid() + error.rad()) + flint.arb(size) * flint.arb(2) ** (-precision // 2)
            )
        box = [flint.acb(flint.arb(a.real, r), flint.arb(a.imag, r)) for a, r in zip(x, radii, strict=True)]
        _, wide = balls.both(box)
        identity = flint.acb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])
        spread = flint.acb_mat([[b - a] for a, b in zip(x, box, strict=True)])
        image = flint.acb_mat([[a] for a in x]) - moved + (identity - inverse * wide) * spread
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    inside = [image[j, 0] for j in range(n)]
    if not all(b.contains_interior(a) for a, b in zip(inside, box, strict=True)):
        return None
    return inside if not on_axis else [flint.acb(a.real) for a in inside]


def certify(system: PolynomialSystem, points: Complexes, chosen: Booleans) -> Certificates:
    r"""Prove by Krawczyk's operator in ball arithmetic that there are solutions near points.

    .. math::
        K(X) = x - Y F(x) + (I - Y F'(X)) (X - x), \qquad K(X) \subset \mathrm{int} X

    implies that X contains exactly one solution, a simple one. If the coefficients are real and X is
    symmetric to the real axis, the solution is real, because its conjugate lies in X too. Solutions are
    different if their balls are disjoint. The exact coefficients are used.

    References
    ----------
    Krawczyk, Computing 4 (1969) 187. Breiding, Rose and Timme, Certifying zeros of polynomial systems using
    interval arithmetic, ACM Trans. Math. Softw. 49 (2023) 11.
    """
    # Shapes: points (r, n), chosen (r,).
    count = len(points)
    none = np.zeros(count, dtype=np.bool_)
    found, proved, real, other = points.copy(), none.copy(), none.copy(), none.copy()
    if system.equations != system.variables:
        return Certificates(found, proved, real, other, "more polynomials than variables")
    if find_spec("flint") is None:
        return Certificates(
            found, proved, real, other, 'python-flint is missing: pip install "dae_sdc[certify]"'
        )
    import flint

    enclosures: dict[int, list[Any]] = {}
    before = flint.ctx.prec
    left = np.flatnonzero(chosen).tolist()
    try:
        for precision in PRECISIONS:
            flint.ctx.prec = precision
            balls = _Balls(system, precision)
            again = []
            for k in left:
                start = [flint.acb(value) for value in points[k].tolist()]
                nearly = np.abs(points[k].imag).max() <= CERTIFIED_DISTANCE * (1.0 + np.abs(points[k]).max())
                box = _krawczyk(balls, start, precision, True) if balls.real and nearly else None
                on_axis = box is not None
                box = _krawczyk(balls, start, precision, False) if box is None else box
                if box is None:
                    again.append(k)
                    continue
                off_axis = any(not a.imag.contains(0) for a in box)
                if balls.real and not on_axis and not off_axis and precision < PRECISIONS[-1]:
                    again.append(k)
                    continue
                value = np.array([complex(a.mid()) if hasattr(a, "mid") else complex(a) for a in box])
                if np.abs(value - points[k]).max() <= CERTIFIED_DISTANCE * (1.0 + np.abs(points[k]).max()):
                    enclosures[k], found[k] = box, value
                    proved[k], real[k], other[k] = True, on_axis, off_axis
            left = again
            if not left:
                break
        # Only balls of nearby solutions are compared: balls are far smaller than this distance.
        which = np.array(sorted(enclosures), dtype=np.int64)
        for group in groups_of(found[which], 1e-9) if which.size else []:
            kept: list[int] = []
            for k in which[group].tolist():
                same = any(
                    all(a.overlaps(b) for a, b in zip(enclosures[k], enclosures[m], strict=True))
                    for m in kept
                )
                proved[k] = not same
                kept += [] if same else [k]
    finally:
        flint.ctx.prec = before
    return Certificates(found, proved, real & proved, other & proved)
