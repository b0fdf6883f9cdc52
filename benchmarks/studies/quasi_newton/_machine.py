"""The contact of a tyre as a nonlinear system, and the iterations that solve it, compiled.

Importing this imports numba. The modified Newton iteration is :func:`dae_sdc.dae.newton.iterate` itself,
whose operations are the methods of :class:`ContactMemory`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numba import carray
from numba.extending import register_jitable

from dae_sdc.compiled.machine_newton import kept_at, lapack_factor, lapack_solve
from dae_sdc.dae.compiling import RecordView, call_jacobian, call_residual, doubles, kept
from dae_sdc.dae.memory import ArrayMemory, fields, lapack
from dae_sdc.dae.newton import BACKWARD_ERROR, HERE, SOLVED, factorize_anew, iterate
from dae_sdc.problems.tyre import BrushTyre

LEAST_FRACTION = 2.0**-10  # Damping factor that is taken even if the residual does not decrease
# Decrease of the norm of the residual, relative to the damping factor, for which a step is taken
SUFFICIENT_DECREASE = 1e-4
NEWTON, OURS = -2, -1  # Methods that are no updates
SMALLEST_DENOMINATOR = 1e-14  # Size of z^T y relative to abs(z) abs(y) below which the inverse is not updated

compiled = register_jitable(error_model="numpy")  # Decorator of functions that compiled code calls


class ContactMemory(ctypes.Structure):
    """The last m equations of a problem for its last m unknowns x, at given values of the others."""

    _fields_ = [
        *fields(
            ctypes.c_int64,
            "residual jacobian getrf getrs",  # addresses of kernels and of functions of LAPACK
            "n m parameters",  # numbers of all unknowns, of those of the contact, and of parameters
            "p u du out",  # (parameters,) and (n,)
            "x f delta saved weights",  # iterate, residual, correction, guess, and units, (m,)
            "whole matrix factors inverse",  # the Jacobian, (n, n), its part and what is made of it, (m, m)
            "pivots small",  # integers of 32 bits, (m,) and (4,)
            "numbers",  # of the kept matrix, see dae_sdc.dae.newton.KeptNumbers
            "evaluations jacobians iterations",
        ),
        *fields(ctypes.c_double, "time newest"),
    ]


_view = RecordView(ContactMemory)
contact_at = _view.at


@compiled
def vector(address: Any, size: Any) -> Any:
    return carray(doubles(address), (size,))


@compiled
def square(address: Any, size: Any) -> Any:
    return carray(doubles(address), (size, size))


@_view.method(_nrt=True)
def _place(c: Any, time: Any, state: Any, p: Any) -> None:
    """Take time, parameters, the values of the other unknowns and the guess from a state."""
    c.time = time
    # The Jacobian's kernel finds its workspace before the parameters: their memory stays.
    vector(c.u, c.n)[:], vector(c.p, c.parameters)[:] = state, p
    vector(c.x, c.m)[:] = state[c.n - c.m :]
    vector(c.saved, c.m)[:] = vector(c.x, c.m)


@_view.method(_nrt=True)
def _evaluate(c: Any, x: Any, f: Any) -> None:
    c.evaluations += 1
    vector(c.u, c.n)[c.n - c.m :] = x
    call_residual(c.residual, c.time, c.u, c.du, c.p, c.out)
    f[:] = vector(c.out, c.n)[c.n - c.m :]


@_view.method(_nrt=True)
def _differentiate(c: Any) -> None:
    c.jacobians += 1
    vector(c.u, c.n)[c.n - c.m :] = vector(c.x, c.m)
    call_jacobian(c.jacobian, c.time, c.u, c.du, 1.0, c.p, c.whole)
    square(c.matrix, c.m)[:] = square(c.whole, c.n)[c.n - c.m :, c.n - c.m :]


# The operations of dae_sdc.dae.newton, see dae_sdc.dae.newton.ModifiedNewton


@_view.method(_nrt=True)
def _correct(c: Any) -> Any:
    c.iterations += 1
    c.evaluate(vector(c.x, c.m), vector(c.f, c.m))
    c.solve()
    return c.size()


@_view.method(_nrt=True)
def _solve(c: Any) -> None:
    vector(c.delta, c.m)[:] = vector(c.f, c.m)
    lapack_solve(c.getrs, c.small, c.factors, c.pivots, c.delta)


@_view.method(_nrt=True)
def _size(c: Any) -> Any:
    return np.abs(vector(c.delta, c.m) * vector(c.weights, c.m)).max()


@_view.method(_nrt=True)
def _move(c: Any) -> None:
    x = vector(c.x, c.m)
    x -= vector(c.delta, c.m)


@_view.method(_nrt=True)
def _largest_residual(c: Any) -> Any:
    return np.abs(vector(c.f, c.m)).max()


@_view.method(_nrt=True)
def _at_round_off(c: Any) -> Any:
    x, f = vector(c.x, c.m), vector(c.f, c.m)
    c.evaluate(x, f)
    scale = np.abs(square(c.matrix, c.m)) @ np.abs(x)
    return (np.abs(f) <= BACKWARD_ERROR * scale).all()


@_view.method(_nrt=True)
def _restore(c: Any) -> None:
    vector(c.x, c.m)[:] = vector(c.saved, c.m)


@_view.method()
def _kept_numbers(c: Any) -> Any:
    return kept_at(c.numbers)


@_view.method()
def _newest_age(c: Any) -> Any:
    return c.newest


@_view.method()
def _linearize_here(c: Any) -> None:
    c.differentiate()
    c.newest = max(c.newest, 0.0) + 1.0


@_view.method(_nrt=True)
def _factor(c: Any) -> Any:
    square(c.factors, c.m)[:] = square(c.matrix, c.m).T
    return lapack_factor(c.getrf, c.small, c.factors, c.pivots)


@_view.method()
def _renew(c: Any, which: Any) -> Any:
    return factorize_anew(c, which)


def contact_of(tyre: BrushTyre) -> ArrayMemory:
    """The contact of a tyre, which works on the memory of its parameters."""
    n, m, start = tyre.n, tyre.n_alg, tyre.u_exact(0.0)
    tyre.jacobian(start, tyre.du_exact(0.0), 0.0, 1.0)  # makes the workspace of the Jacobian's kernel
    kernels, p = tyre.kernels, tyre.packed_parameters
    assert kernels is not None
    memory = ContactMemory(residual=kernels.residual, jacobian=kernels.jacobian, n=n, m=m, parameters=len(p))
    memory.getrf, memory.getrs, memory.newest = lapack("dgetrf"), lapack("dgetrs"), -1.0
    arrays = {name: np.zeros(n) for name in ("u", "du", "out")}
    arrays |= {name: np.zeros(m) for name in ("x", "f", "delta", "saved")}
    arrays |= {name: np.zeros((m, m)) for name in ("matrix", "factors", "inverse")}
    # A deflection of 1 cm weighs as much as a slip of 0.1.
    arrays |= {"weights": np.repeat([100.0, 10.0], m // 2), "p": p, "whole": np.zeros((n, n))}
    arrays |= {"small": np.array([m, 1, 0, ord("N")], np.int32), "pivots": np.zeros(m, np.int32)}
    return ArrayMemory(memory, arrays | {"numbers": np.array([-1.0, 1.0, 0.0, 0.0])})


@compiled
def modified_newton(c: Any, damped: Any, tolerance: Any, goal: Any, maxiter: Any) -> Any:
    """Our iteration, and the damped one where it fails; whether it has converged."""
    if iterate(c, True, tolerance, goal, 0.0, maxiter) == SOLVED:
        return True
    if not damped:
        return False
    c.restore()
    x, f, delta = vector(c.x, c.m), vector(c.f, c.m), vector(c.delta, c.m)
    c.evaluate(x, f)
    for _ in range(maxiter):
        if not factorize_anew(c, HERE):
            return False
        c.iterations += 1
        c.solve()
        size, step, fraction = c.size(), delta.copy(), 1.0
        while True:
            x -= fraction * step
            c.evaluate(x, f)
            c.solve()
            after = c.size()
            if after <= (1.0 - 0.25 * fraction) * size:
                break
            if c.largest_residual() <= goal:
                return True
            x += fraction * step
            fraction *= 0.5
            if fraction < LEAST_FRACTION:
                return False
        if fraction == 1.0 and after <= tolerance:
            return c.largest_residual() <= goal
    return False


@compiled
def newton(c: Any, goal: Any, maxiter: Any) -> Any:
    """Newton's method with a new matrix in every iteration; whether it has converged."""
    for _ in range(maxiter):
        c.evaluate(vector(c.x, c.m), vector(c.f, c.m))
        if c.largest_residual() <= goal:
            return True
        c.iterations += 1
        c.differentiate()
        if not c.factor():
            return False
        c.solve()
        c.move()
    return False


@compiled
def weights_of(which: Any, h: Any, s: Any, y: Any, hy: Any, f: Any, before: Any, z: Any) -> Any:
    """The vector z of an update into z; ``before`` has s and y of the iteration before, and 1 if there is."""
    if which == 0:
        z[:] = s @ h
    elif which == 1:
        z[:] = y
    elif which == 2:
        # Martinez' test: the good update where steps are more nearly orthogonal than changes of F.
        steps, changes = abs(s @ before[0]) * (y @ y), abs(y @ before[1]) * abs(s @ hy)
        z[:] = s @ h if before[2, 0] == 0.0 or steps < changes else y
    elif which == 3:
        z[:] = f
    elif which == 4:
        z[:] = hy @ h
    elif which == 5:
        z[:] = h[np.abs(s).argmax()]
    else:
        z[:] = 0.0
        z[np.abs(y).argmax()] = 0.0 if which == 8 else 1.0  # without an update where z is 0


@compiled
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


@compiled
def quasi_newton(c: Any, which: Any, damped: Any, goal: Any, maxiter: Any) -> Any:
    """Iterate with an inverse that gets the update ``which``; whether it has converged."""
    m, h, x, f = c.m, square(c.inverse, c.m), vector(c.x, c.m), vector(c.f, c.m)
    trial, after, z, before = np.empty(m), np.empty(m), np.empty(m), np.zeros((3, m))
    c.evaluate(x, f)
    for _ in range(maxiter):
        if c.largest_residual() <= goal:
            return True
        c.iterations += 1
        step, size, fraction = -(h @ f), np.sqrt(f @ f), 1.0
        while True:
            trial[:] = x + fraction * step
            c.evaluate(trial, after)
            norm = np.sqrt(after @ after)
            if not damped or norm <= (1.0 - SUFFICIENT_DECREASE * fraction) * size:
                break
            if fraction <= LEAST_FRACTION:
                break
            fraction *= 0.5
        if not norm < np.inf:
            return False
        s, y = fraction * step, after - f
        x[:], f[:] = trial, after
        if which == 7:  # that of Eirola and Nevanlinna is made along the next step
            s = -(h @ after)
            trial[:] = x + s
            c.evaluate(trial, after)
            y = after - f
            if not np.abs(y).max() < np.inf:
                return False
        hy = h @ y
        weights_of(0 if which == 7 else which, h, s, y, hy, f, before, z)
        updated(h, s, hy, y, z)
        before[0], before[1], before[2] = s, y, 1.0
    return False


@compiled
def invert(c: Any, size: Any) -> None:
    """Begin with the inverse of the Jacobian at the iterate, or, if ``size`` is positive, of size times 1."""
    inverse = square(c.inverse, c.m)
    if size > 0.0:
        inverse[:] = np.eye(c.m) / size
    else:
        c.differentiate()
        inverse[:] = np.linalg.inv(square(c.matrix, c.m))


def run(contact: ArrayMemory, cases: Any, *how: Any) -> Any:
    """Solve at states in turn; for each whether it has converged, evaluations, Jacobians and iterations."""
    # How: the method, whether it is damped, whether it begins where the case before has ended, the size of
    # the first inverse, and largest correction, residual and number of iterations.
    return _run(contact.address, cases, *how)


@kept
def _run(where: Any, cases: Any, method: Any, damped: Any, warm: Any, start: Any, goals: Any) -> Any:
    (times, states, p), (tolerance, goal, maxiter) = cases, goals
    c = contact_at(where)
    x, f = vector(c.x, c.m), vector(c.f, c.m)
    table = np.zeros((len(states), 4), np.int64)
    known = False
    for k in range(len(states)):
        c.evaluations, c.jacobians, c.iterations = 0, 0, 0
        previous = x.copy()
        c.place(times[k], states[k], p[k])
        if warm and known:
            x[:] = previous
            vector(c.saved, c.m)[:] = previous
        solved = False
        for attempt in range(2 if warm and known else 1):
            fresh = not (warm and known) or attempt == 1
            if attempt == 1:
                c.restore()
            if method == NEWTON:
                solved = newton(c, goal, maxiter)
            elif method == OURS:
                if fresh:
                    c.kept_numbers().age, c.newest = -1.0, -1.0
                solved = modified_newton(c, damped, tolerance, goal, maxiter)
            else:
                if fresh:
                    invert(c, start)
                solved = quasi_newton(c, method, damped, goal, maxiter)
            if solved:
                break
        known = solved
        table[k, 0], table[k, 1], table[k, 2], table[k, 3] = solved, c.evaluations, c.jacobians, c.iterations
        if solved:
            c.evaluate(x, f)
            table[k, 0] = c.largest_residual() <= 10.0 * goal
    return table
