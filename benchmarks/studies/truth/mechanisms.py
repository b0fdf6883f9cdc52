"""Point masses with bars between them: equations of motion with multipliers, and references for them.

Constraints are g(q) = 0: the squared length of each bar, and a coordinate of each slide. M q'' = f(q') -
G^T lambda with weight and damping. References solve M q'' + G^T lambda = f, G q'' = -gamma for q'' and
lambda: an ordinary differential equation, from a start that is projected on the constraints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.studies.truth.generated import Vector

GRAVITY = 9.81
TIGHT = 1e-13
# Formulations: constraints of places; of speeds; both, with a second multiplier that is 0
INDEX_3, INDEX_2, GGL = "index-3", "index-2", "ggl"


@dataclass(frozen=True, eq=False)
class Mechanism:
    # shape (p, d): Points at the start, in a plane or in space; the second coordinate points up
    places: Vector
    masses: tuple[float, ...]  # Their masses
    bars: tuple[tuple[int, Any], ...]  # (i, j) of two points, or (i, place) of a point and a fixed place
    slides: tuple[tuple[int, int], ...] = ()  # (i, k): coordinate k of point i stays what it is
    damping: float = 0.0  # Force by speed

    @property
    def n(self) -> int:
        return int(self.places.size)

    @property
    def m(self) -> int:
        return len(self.bars) + len(self.slides)

    def _ends(self) -> list[tuple[list[int], list[int] | None, list[float], float]]:
        """Of each bar the coordinates of its points, the fixed place, and its squared length."""
        d, ends = self.places.shape[1], []
        for i, j in self.bars:
            own = [d * i + k for k in range(d)]
            other = None if isinstance(j, tuple) else [d * j + k for k in range(d)]
            fixed = list(j) if isinstance(j, tuple) else [0.0] * d
            far = self.places[i] - (fixed if other is None else self.places[j])
            ends.append((own, other, fixed, float(far @ far)))
        return ends

    def function(self, formulation: str) -> Callable[[Any, Any, Any], list[Any]]:
        """F(t, u, u') of the unknowns q, v, lambda, and mu with GGL."""
        n, m, d = self.n, self.m, self.places.shape[1]
        ends, damping = self._ends(), self.damping
        masses = [mass for mass in self.masses for _ in range(d)]
        slides = [(d * i + k, float(self.places[i, k])) for i, k in self.slides]

        def function(t: Any, u: Any, du: Any) -> list[Any]:
            q, v, force = u[:n], u[n : 2 * n], u[2 * n : 2 * n + m]
            kinematic = [du[i] - v[i] for i in range(n)]
            dynamic = [masses[i] * du[n + i] + damping * v[i] for i in range(n)]
            for i in range(1, n, d):
                dynamic[i] = dynamic[i] + masses[i] * GRAVITY
            lengths, speeds = [], []
            for k, (own, other, fixed, square) in enumerate(ends):
                length: Any = -square
                speed: Any = 0.0
                for c in range(d):
                    i = own[c]
                    far = q[i] - fixed[c] if other is None else q[i] - q[other[c]]
                    fast = v[i] if other is None else v[i] - v[other[c]]
                    length, speed = length + far * far, speed + 2.0 * far * fast
                    dynamic[i] = dynamic[i] + 2.0 * far * force[k]
                    if other is not None:
                        dynamic[other[c]] = dynamic[other[c]] - 2.0 * far * force[k]
                    if formulation == GGL:
                        kinematic[i] = kinematic[i] + 2.0 * far * u[2 * n + m + k]
                        if other is not None:
                            kinematic[other[c]] = kinematic[other[c]] - 2.0 * far * u[2 * n + m + k]
                lengths.append(length)
                speeds.append(speed)
            for k, (i, height) in enumerate(slides, len(ends)):
                lengths.append(q[i] - height)
                speeds.append(v[i])
                dynamic[i] = dynamic[i] + force[k]
                if formulation == GGL:
                    kinematic[i] = kinematic[i] + u[2 * n + m + k]
            bound = {INDEX_3: lengths, INDEX_2: speeds, GGL: [*lengths, *speeds]}[formulation]
            return [*kinematic, *dynamic, *bound]

        return function

    def constraints(self, q: Vector) -> tuple[Vector, Vector]:
        """g and G at places."""
        g, G = np.zeros(self.m), np.zeros((self.m, self.n))
        for k, (own, other, fixed, square) in enumerate(self._ends()):
            far = q[own] - (fixed if other is None else q[other])
            g[k], G[k, own] = far @ far - square, 2.0 * far
            if other is not None:
                G[k, other] = -2.0 * far
        d = self.places.shape[1]
        for k, (i, c) in enumerate(self.slides, len(self.bars)):
            g[k], G[k, d * i + c] = q[d * i + c] - self.places[i, c], 1.0
        return g, G

    def forces(self, q: Vector, v: Vector) -> tuple[Vector, Vector]:
        """q'' and lambda at places and speeds."""
        _, G = self.constraints(q)
        gamma = np.zeros(self.m)
        for k, (own, other, _, _) in enumerate(self._ends()):
            fast = v[own] - (0.0 if other is None else v[other])
            gamma[k] = 2.0 * fast @ fast
        mass = np.repeat(self.masses, self.places.shape[1])
        pull = -self.damping * v
        pull[1 :: self.places.shape[1]] -= mass[1 :: self.places.shape[1]] * GRAVITY
        inner = G / mass
        force = np.linalg.solve(inner @ G.T, inner @ pull + gamma)
        return (pull - G.T @ force) / mass, force

    def projected(self, q: Vector, v: Vector, on_places: bool) -> tuple[Vector, Vector]:
        """The nearest places and speeds that the constraints allow."""
        for _ in range(20 if on_places else 0):
            g, G = self.constraints(q)
            q = q - np.linalg.lstsq(G, g, rcond=None)[0]
        G = self.constraints(q)[1]
        return q, v - np.linalg.lstsq(G, G @ v, rcond=None)[0]

    def free(self, q: Vector) -> Vector:
        """Directions in which it can move, orthonormal columns."""
        _, _, right = np.linalg.svd(self.constraints(q)[1])
        return right[self.m :].T

    def motion(self, q: Vector, v: Vector, end: float) -> Callable[[Vector], Vector]:
        """(q, v, lambda) at times of shape (K,), shape (K, 2 n + m), from a consistent start."""
        n = self.n

        def rates(t: float, state: Vector) -> Vector:
            return np.concatenate([state[n:], self.forces(state[:n], state[n:])[0]])

        how = {"method": "DOP853", "rtol": TIGHT, "atol": TIGHT, "dense_output": True}
        run = solve_ivp(rates, (0.0, end), np.concatenate([q, v]), **how)

        def values(times: Vector) -> Vector:
            states = np.array([run.sol(t) for t in times])
            return np.array([[*state, *self.forces(state[:n], state[n:])[1]] for state in states])

        return values
