"""The contact of a tyre as a nonlinear system, and the iterations that solve it, compiled.

Importing this imports numba. The modified Newton iteration is :func:`dae_sdc.dae.newton.iterate` itself,
whose operations are those of :class:`Contact`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int32, int64, njit
from numba.experimental import jitclass

from dae_sdc.compiled.machine_newton import lapack, lapack_factor, lapack_solve
from dae_sdc.dae.compiling import call_jacobian, call_residual
from dae_sdc.dae.newton import BACKWARD_ERROR, HERE, SOLVED, factorize_anew, iterate
from dae_sdc.problems.tyre import BrushTyre

_iterate, _factorize_anew = njit(iterate), njit(factorize_anew)
LEAST_FRACTION = 2.0**-10  # Damping factor that is taken even if the residual does not decrease
# Decrease of the norm of the residual, relative to the damping factor, for which a step is taken
SUFFICIENT_DECREASE = 1e-4
NEWTON, OURS = -2, -1  # Methods that are no updates
SMALLEST_DENOMINATOR = 1e-14  # Size of z^T y relative to abs(z) abs(y) below which the inverse is not updated


@jitclass([(name, float64) for name in ("age", "rate", "is_aged", "last_change")])
class Kept:
    """What is known of a kept matrix, see :class:`dae_sdc.dae.newton.KeptNumbers`."""

    def __init__(self) -> None:
        self.age, self.rate, self.is_aged, self.last_change = -1.0, 1.0, 0.0, 0.0


@jitclass(
    [
        *((name, int64) for name in ("residual_at", "jacobian_at", "getrf", "getrs", "first", "m")),
        *((name, int64) for name in ("evaluations", "jacobians", "iterations")),
        ("time", float64),
        *((name, float64[::1]) for name in ("p", "u", "du", "out", "x", "f", "delta", "saved", "weights")),
        *((name, float64[:, ::1]) for name in ("whole", "matrix", "factors", "inverse")),
        *((name, int32[::1]) for name in ("pivots", "small")),
        ("kept", vars(Kept)["class_type"].instance_type),
        ("newest", float64),
    ]
)
class Contact:
    """The last m equations of a problem for its last m unknowns x, at given values of the others."""

    def __init__(self, addresses: Any, p: Any, n: int, m: int, small: Any, weights: Any) -> None:
        self.residual_at, self.jacobian_at, self.getrf, self.getrs = addresses
        self.first, self.m, self.time = n - m, m, 0.0
        self.evaluations, self.jacobians, self.iterations = 0, 0, 0
        self.p, self.u, self.du, self.out = p, np.zeros(n), np.zeros(n), np.zeros(n)
        self.x, self.f, self.delta = np.zeros(m), np.zeros(m), np.zeros(m)
        self.saved, self.weights = np.zeros(m), weights
        self.whole = np.zeros((n, n))
        self.matrix, self.factors, self.inverse = np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m))
        self.pivots, self.small = np.zeros(m, np.int32), small
        self.kept, self.newest = Kept(), -1.0

    def place(self, time: float, state: Any, p: Any) -> None:
        """Take time, parameters, the values of the other unknowns and the guess from a state."""
        self.time = time
        # The Jacobian's kernel finds its workspace before the parameters: their memory stays.
        self.u[:], self.p[:] = state, p
        self.x[:] = state[self.first :]
        self.saved[:] = self.x

    def evaluate(self, x: Any, f: Any) -> None:
        """The residual at x into f."""
        self.evaluations += 1
        self.u[self.first :] = x
        u, out = self.u.ctypes.data, self.out.ctypes.data
        call_residual(self.residual_at, self.time, u, self.du.ctypes.data, self.p.ctypes.data, out)
        f[:] = self.out[self.first :]

    def differentiate(self) -> None:
        """The Jacobian at the iterate into ``matrix``."""
        self.jacobians += 1
        self.u[self.first :] = self.x
        u, p = self.u.ctypes.data, self.p.ctypes.data
        whole = self.whole.ctypes.data
        call_jacobian(self.jacobian_at, self.time, u, self.du.ctypes.data, 1.0, p, whole)
        self.matrix[:] = self.whole[self.first :, self.first :]

    def forget(self) -> None:
        """Keep nothing of earlier solves."""
        self.kept.age, self.newest = -1.0, -1.0

    # The operations of dae_sdc.dae.newton, see dae_sdc.dae.newton.ModifiedNewton.

    def correct(self) -> float:
        self.iterations += 1
        self.evaluate(self.x, self.f)
        self.solve()
        return self.size()

    def solve(self) -> None:
        """The correction for the residual ``f``."""
        self.delta[:] = self.f
        factors, pivots = self.factors.ctypes.data, self.pivots.ctypes.data
        lapack_solve(self.getrs, self.small.ctypes.data, factors, pivots, self.delta.ctypes.data)

    def size(self) -> float:
        """Largest weighted entry of the correction."""
        return float(np.abs(self.delta * self.weights).max())

    def move(self) -> None:
        self.x -= self.delta

    def largest_residual(self) -> float:
        return float(np.abs(self.f).max())

    def at_round_off(self) -> bool:
        self.evaluate(self.x, self.f)
        scale = np.abs(self.matrix) @ np.abs(self.x)
        return bool((np.abs(self.f) <= BACKWARD_ERROR * scale).all())

    def restore(self) -> None:
        self.x[:] = self.saved

    def kept_numbers(self) -> Any:
        return self.kept

    def newest_age(self) -> float:
        return self.newest

    def linearize_here(self) -> None:
        self.differentiate()
        self.newest = max(self.newest, 0.0) + 1.0

    def factor(self) -> bool:
        self.factors[:] = self.matrix.T
        factors, pivots = self.factors.ctypes.data, self.pivots.ctypes.data
        return bool(lapack_factor(self.getrf, self.small.ctypes.data, factors, pivots))

    def renew(self, which: int) -> bool:
        return bool(_factorize_anew(self, which))


def contact_of(tyre: BrushTyre) -> Any:
    """The contact of a tyre, which works on the memory of its parameters."""
    m, start = tyre.n_alg, tyre.u_exact(0.0)
    kernels = tyre.kernels
    assert kernels is not None
    tyre.jacobian(start, tyre.du_exact(0.0), 0.0, 1.0)  # makes the workspace of the Jacobian's kernel
    small = np.array([m, 1, 0, ord("N")], np.int32)
    # A deflection of 1 cm weighs as much as a slip of 0.1.
    weights = np.repeat([100.0, 10.0], m // 2)
    addresses = (kernels.residual, kernels.jacobian, lapack("dgetrf"), lapack("dgetrs"))
    return Contact(addresses, tyre.packed_parameters, tyre.n, m, small, weights)


@njit(error_model="numpy")
def modified_newton(c: Any, damped: Any, tolerance: Any, goal: Any, maxiter: Any) -> Any:
    """Our iteration, and the damped one where it fails; whether it has converged."""
    if _iterate(c, True, tolerance, goal, 0.0, maxiter) == SOLVED:
        return True
    if not damped:
        return False
    c.restore()
    c.evaluate(c.x, c.f)
    for _ in range(maxiter):
        if not _factorize_anew(c, HERE):
            return False
        c.iterations += 1
        c.solve()
        size, step, fraction = c.size(), c.delta.copy(), 1.0
        while True:
            c.x -= fraction * step
            c.evaluate(c.x, c.f)
            c.solve()
            after = c.size()
            if after <= (1.0 - 0.25 * fraction) * size:
                break
            if c.largest_residual() <= goal:
                return True
            c.x += fraction * step
            fraction *= 0.5
            if fraction < LEAST_FRACTION:
                return False
        if fraction == 1.0 and after <= tolerance:
            return c.largest_residual() <= goal
    return False


@njit(error_model="numpy")
def newton(c: Any, goal: Any, maxiter: Any) -> Any:
    """Newton's method with a new matrix in every iteration; whether it has converged."""
    for _ in range(maxiter):
        c.evaluate(c.x, c.f)
        if c.largest_residual() <= goal:
            return True
        c.iterations += 1
        c.differentiate()
        if not c.factor():
            return False
        c.solve()
        c.move()
    return False


@njit(error_model="numpy")
def weights_of(which: Any, h: Any, s: Any, y: Any, hy: Any, f: Any, before: Any, z: Any) -> Any:
    """The vector z of an update into z; ``before`` has s and y of the iteration before, and 1 if there is."""
    if which == 0:
        z[:] = s @ h
    elif which == 1:
        z[:] = y
    elif which == 2:
        # Martinez' test: the good update where steps are more nearly orthogonal than changes of F.
        z[:] = y
        if before[2, 0] > 0.0:
            steps = abs(s @ before[0]) * (y @ y)
            if steps < abs(y @ before[1]) * abs(s @ hy):
                z[:] = s @ h
        else:
            z[:] = s @ h
    elif which == 3:
        z[:] = f
    elif which == 4:
        z[:] = hy @ h
    elif which == 5:
        z[:] = h[np.abs(s).argmax()]
    else:
        z[:] = 0.0
        z[np.abs(y).argmax()] = 1.0


@njit(error_model="numpy")
def updated(h: Any, s: Any, hy: Any, y: Any, z: Any) -> Any:
    """H + (s - H y) z^T / (z^T y) in place, unless z^T y is nearly zero."""
    product = z @ y
    if not abs(product) > SMALLEST_DENOMINATOR * np.sqrt((z @ z) * (y @ y)):
        return
    m = len(s)
    for i in range(m):
        factor = (s[i] - hy[i]) / product
        for j in range(m):
            h[i, j] += factor * z[j]


@njit(error_model="numpy")
def quasi_newton(c: Any, which: Any, damped: Any, goal: Any, maxiter: Any) -> Any:
    """Iterate with an inverse that is updated; whether it has converged.

    ``which`` is the place of the update in :data:`~benchmarks.studies.quasi_newton.study.UPDATES`; that of
    Eirola and Nevanlinna is made along the next step, with a second evaluation.
    """
    m, h = c.m, c.inverse
    trial, after, z, before = np.empty(m), np.empty(m), np.empty(m), np.zeros((3, m))
    c.evaluate(c.x, c.f)
    for _ in range(maxiter):
        if c.largest_residual() <= goal:
            return True
        c.iterations += 1
        step, size, fraction = -(h @ c.f), np.sqrt(c.f @ c.f), 1.0
        while True:
            trial[:] = c.x + fraction * step
            c.evaluate(trial, after)
            norm = np.sqrt(after @ after)
            if not damped or norm <= (1.0 - SUFFICIENT_DECREASE * fraction) * size:
                break
            if fraction <= LEAST_FRACTION:
                break
            fraction *= 0.5
        if not norm < np.inf:
            return False
        s, y = fraction * step, after - c.f
        c.x[:], c.f[:] = trial, after
        if which == 7:
            s = -(h @ after)
            trial[:] = c.x + s
            c.evaluate(trial, after)
            y = after - c.f
            if not np.abs(y).max() < np.inf:
                return False
        hy = h @ y
        weights_of(0 if which == 7 else which, h, s, y, hy, c.f, before, z)
        updated(h, s, hy, y, z)
        before[0], before[1], before[2] = s, y, 1.0
    return False


@njit(error_model="numpy")
def invert(c: Any, size: Any) -> Any:
    """Begin with the inverse of the Jacobian at the iterate, or, if ``size`` is positive, of size times 1."""
    if size > 0.0:
        c.inverse[:] = np.eye(c.m) / size
        return True
    c.differentiate()
    c.inverse[:] = np.linalg.inv(c.matrix)
    return True


@njit(error_model="numpy")
def run(c: Any, cases: Any, method: Any, damped: Any, warm: Any, start: Any, settings: Any) -> Any:
    """Solve at states in turn; for each whether it has converged, evaluations, Jacobians and iterations."""
    tolerance, goal, maxiter = settings
    times, states, p = cases
    found = np.zeros((len(states), 4), np.int64)
    known = False
    for k in range(len(states)):
        c.evaluations, c.jacobians, c.iterations = 0, 0, 0
        previous = c.x.copy()
        c.place(times[k], states[k], p[k])
        if warm and known:
            c.x[:] = previous
            c.saved[:] = previous
        solved = False
        for attempt in range(2 if warm and known else 1):
            fresh = not (warm and known) or attempt == 1
            if attempt == 1:
                c.restore()
            if method == NEWTON:
                solved = newton(c, goal, maxiter)
            elif method == OURS:
                if fresh:
                    c.forget()
                solved = modified_newton(c, damped, tolerance, goal, maxiter)
            else:
                if fresh:
                    invert(c, start)
                solved = quasi_newton(c, method, damped, goal, maxiter)
            if solved:
                break
        known = solved
        found[k, 0], found[k, 1], found[k, 2], found[k, 3] = solved, c.evaluations, c.jacobians, c.iterations
        if solved:
            c.evaluate(c.x, c.f)
            found[k, 0] = c.largest_residual() <= 10.0 * goal
    return found
