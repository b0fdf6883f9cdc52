"""A small Runge-Kutta integrator in extended precision and DAEs with exact solutions, to measure orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dae_sdc.sweepers.tableaux import Tableau

LONG = np.longdouble
IMAGINARY = 1e-30
"""Step of derivatives along the imaginary axis: exact to roundoff, as nothing is subtracted."""


@dataclass(frozen=True)
class Hessenberg:
    """Equations F(t, u, u') = 0 made to have the solution exact(t); all functions take arrays over the last axis.

    Parameters
    ----------
    residual : callable
        (t, u, du, s) -> F, with s the exact solution and its first derivatives at t, from which the forcing is
        made.
    exact : callable
        t -> (n, ...) solution.
    parts : tuple of slice
        Components with an order of their own.
    """

    residual: Callable[..., np.ndarray]
    exact: Callable[[np.ndarray], np.ndarray]
    parts: tuple[slice, ...]

    def slope(self, t: np.ndarray) -> np.ndarray:
        """u'(t) to double precision."""
        return np.imag(self.exact(t.astype(float) + 1j * IMAGINARY)) / IMAGINARY


def curve(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two free coordinates and an algebraic variable as functions of time."""
    return np.sin(1.3 * t) + 0.2 * t, 0.5 * np.cos(t) + 0.1 * t * t, 0.7 + 0.4 * np.sin(0.9 * t + 0.3)


def velocity(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 1.3 * np.cos(1.3 * t) + 0.2, -0.5 * np.sin(t) + 0.2 * t


def acceleration(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return -1.69 * np.sin(1.3 * t), -0.5 * np.cos(t) + 0.2


def surface(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The third coordinate on the manifold of the constraint."""
    return 0.5 * a * a + a * np.sin(b) + 0.3 * b * b * b


def gradient(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return a + np.sin(b), a * np.cos(b) + 0.9 * b * b


def constraint(q: np.ndarray) -> np.ndarray:
    """Zero on the surface; the factor makes it nonlinear in the third coordinate too."""
    return (q[2] - surface(q[0], q[1])) * (1.5 + 0.4 * np.sin(q[0] + 2.0 * q[2]))


def normal(q: np.ndarray) -> np.ndarray:
    """The gradient of the constraint."""
    height = q[2] - surface(q[0], q[1])
    factor, slope = 1.5 + 0.4 * np.sin(q[0] + 2.0 * q[2]), 0.4 * np.cos(q[0] + 2.0 * q[2])
    ga, gb = gradient(q[0], q[1])
    return np.stack([-ga * factor + height * slope, -gb * factor, factor + 2.0 * height * slope])


def place(t: np.ndarray) -> np.ndarray:
    a, b, _ = curve(t)
    return np.stack([a, b, surface(a, b)])


def place_slope(t: np.ndarray) -> np.ndarray:
    (a, b, _), (da, db) = curve(t), velocity(t)
    ga, gb = gradient(a, b)
    return np.stack([da, db, ga * da + gb * db])


def place_curvature(t: np.ndarray) -> np.ndarray:
    (a, b, _), (da, db), (dda, ddb) = curve(t), velocity(t), acceleration(t)
    ga, gb = gradient(a, b)
    bent = da * da + 2.0 * np.cos(b) * da * db + (1.8 * b - a * np.sin(b)) * db * db
    return np.stack([dda, ddb, ga * dda + gb * ddb + bent])


def field(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """A right-hand side without symmetry, nonlinear in all of its arguments."""
    return np.stack(
        [
            y[1] * y[2] - 0.5 * y[0] * y[0] + np.sin(z) * y[1],
            np.cos(y[0]) * y[2] - 0.3 * z * z * y[0],
            -y[2] * y[0] + y[1] * y[1] + 2.0 * z + 0.4 * z * z * z + 0.5 * z * y[0],
        ]
    )


def forces(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.stack(
        [
            -q[0] * q[1] + 0.4 * v[1] * v[2] - np.sin(q[2]),
            0.5 * v[0] * v[0] - q[1] * v[2] + q[0] * q[2],
            np.cos(q[0]) * v[1] - 0.3 * v[2] * v[2] * q[1],
        ]
    )


def index_1() -> Hessenberg:
    def algebraic(y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return z + 0.3 * z * z * z + 0.4 * z * y[0] * y[1] - np.sin(y[2])

    def residual(t: np.ndarray, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        y, z, ys, zs = u[:3], u[3], place(t), curve(t)[2]
        rate = field(y, z) + place_slope(t) - field(ys, zs)
        return np.concatenate([du[:3] - rate, [algebraic(y, z) - algebraic(ys, zs)]])

    def exact(t: np.ndarray) -> np.ndarray:
        return np.concatenate([place(t), [curve(t)[2]]])

    return Hessenberg(residual, exact, (slice(0, 3), slice(3, 4)))


def index_2() -> Hessenberg:
    def residual(t: np.ndarray, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        y, z = u[:3], u[3]
        rate = field(y, z) + place_slope(t) - field(place(t), curve(t)[2])
        return np.concatenate([du[:3] - rate, [constraint(y)]])

    def exact(t: np.ndarray) -> np.ndarray:
        return np.concatenate([place(t), [curve(t)[2]]])

    return Hessenberg(residual, exact, (slice(0, 3), slice(3, 4)))


def index_3() -> Hessenberg:
    """A particle on a curved surface under forces that depend on position and velocity."""

    def residual(t: np.ndarray, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        q, v, multiplier = u[:3], u[3:6], u[6]
        qs, vs = place(t), place_slope(t)
        known = place_curvature(t) - forces(qs, vs) + normal(qs) * curve(t)[2]
        rate = forces(q, v) - normal(q) * multiplier + known
        return np.concatenate([du[:3] - v, du[3:6] - rate, [constraint(q)]])

    def exact(t: np.ndarray) -> np.ndarray:
        return np.concatenate([place(t), place_slope(t), [curve(t)[2]]])

    return Hessenberg(residual, exact, (slice(0, 3), slice(3, 6), slice(6, 7)))


def pendulum_on_circle() -> Hessenberg:
    """A particle on the unit circle, x = (sin phi, -cos phi), driven along the circle so that phi(t) is known."""

    def angle(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return (
            np.sin(1.2 * t) + 0.3 * t * t,
            1.2 * np.cos(1.2 * t) + 0.6 * t,
            -1.44 * np.sin(1.2 * t) + 0.6,
        )

    def exact(t: np.ndarray) -> np.ndarray:
        phi, rate, _ = angle(t)
        # In the radial direction: -rate^2 = -2 multiplier + gravity, with gravity -cos(phi) inwards.
        multiplier = 0.5 * (rate * rate + np.cos(phi))
        return np.stack(
            [np.sin(phi), -np.cos(phi), np.cos(phi) * rate, np.sin(phi) * rate, multiplier]
        )

    def residual(t: np.ndarray, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        x, y, v, w, multiplier = u
        phi, _, bend = angle(t)
        push = bend + np.sin(phi)
        return np.stack(
            [
                du[0] - v,
                du[1] - w,
                du[2] + 2.0 * x * multiplier - push * np.cos(phi),
                du[3] + 2.0 * y * multiplier + 1.0 - push * np.sin(phi),
                x * x + y * y - 1.0,
            ]
        )

    return Hessenberg(residual, exact, (slice(0, 2), slice(2, 4), slice(4, 5)))


def step(problem: Hessenberg, tableau: Tableau, u0: np.ndarray, du0: np.ndarray, t0: LONG, h: LONG) -> np.ndarray:
    """Derivatives U at the stages, shape (n, s), to extended precision."""
    n, A, first = len(u0), tableau.A.astype(LONG), int(tableau.explicit_first_stage)
    t = t0 + tableau.c.astype(LONG) * h
    U = problem.slope(t).astype(LONG)
    if first:
        U[:, 0] = du0
    s = tableau.stages - first
    last, smallest = np.inf, np.inf
    for _ in range(25):
        u = u0[:, None] + h * (U @ A.T)
        F = problem.residual(t, u, U)[:, first:]
        F_u, F_du = _derivatives(problem, t[first:], u[:, first:], U[:, first:])
        # Rows (equation, stage), columns (component, stage); the factors are divided by h where z' has h only.
        matrix = np.einsum("eci,ij->eicj", float(h) * F_u, tableau.A[first:, first:])
        matrix[:, range(s), :, range(s)] += np.moveaxis(F_du, 2, 0)
        change = np.linalg.solve(matrix.reshape(n * s, n * s), -F.astype(float).reshape(n * s))
        U[:, first:] += change.reshape(n, s)
        size = float(np.abs(change).max())
        # Double precision in the matrix leaves a linear rate; stop where roundoff ends the progress.
        if size >= 0.5 * last and size < 1e-6:
            return U
        last, smallest = size, min(smallest, size)
        if size == 0.0:
            return U
    raise AssertionError(f"Newton's method stopped at a change of {last:.1e}")


def _derivatives(
    problem: Hessenberg, t: np.ndarray, u: np.ndarray, du: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    n = len(u)
    t, u, du = t.astype(float), u.astype(complex), du.astype(complex)
    F_u, F_du = np.empty((n, n, len(t))), np.empty((n, n, len(t)))
    for k in range(n):
        for given, found in ((u, F_u), (du, F_du)):
            kept = given[k].copy()
            given[k] = kept + 1j * IMAGINARY
            found[:, k] = np.imag(problem.residual(t, u, du)) / IMAGINARY
            given[k] = kept
    return F_u, F_du


def global_error(problem: Hessenberg, tableau: Tableau, steps: int, t_end: float = 1.0) -> np.ndarray:
    """Largest error of each part in the second half of the interval.

    The first half is for starting errors to leave; the largest over many steps also sees errors that alternate.
    """
    h = LONG(t_end) / steps
    t = np.arange(steps + 1) * h
    exact = problem.exact(t)
    u, du = exact[:, 0], problem.slope(t[:1])[:, 0].astype(LONG)
    errors = np.zeros(len(problem.parts))
    b = tableau.b.astype(LONG)
    for k in range(steps):
        U = step(problem, tableau, u, du, t[k], h)
        u, du = u + h * (U @ b), U[:, -1]
        if 2 * (k + 1) >= steps:
            error = [np.abs(u[part] - exact[part, k + 1]).max() for part in problem.parts]
            errors = np.maximum(errors, np.asarray(error, dtype=float))
    return errors
