"""Compute the stored reference solutions of the problem library, each by two independent methods.

    python tools/make_references.py                  every reference
    python tools/make_references.py two-transistor   one of them

Method A solves the DAE itself by Radau collocation of high degree, with steps so short that the collocation
polynomials are resolved to round-off; these polynomials are what is stored. Method B reduces the DAE to an
explicit ordinary differential equation, where the algebraic unknowns come from a Newton iteration in the
right-hand side, and integrates it by the explicit Runge-Kutta method DOP853 of order 8. The two are compared
at every step of B.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
from numpy.polynomial import chebyshev
from scipy.integrate import DOP853
from scipy.linalg import LinAlgWarning, lu_factor, lu_solve
from scipy.optimize import brentq
from scipy.special import roots_jacobi

from dae_sdc.dae.problem import PROBLEMS, ProblemDAE

Vector = npt.NDArray[np.float64]
DATA = Path(__file__).resolve().parent.parent / "dae_sdc" / "problems" / "data"
TOLERANCES = {"one-transistor": 1e-13, "two-transistor": 3e-13, "synchronous-machine": 2e-14, "wscc9": 2e-14}
"""Largest of the last three Chebyshev coefficients of a piece, relative to the size of the component.

An amplifier multiplies the round-off of its input, so its pieces cannot be resolved as far as those of the
others.
"""
FLOOR = 0.3
"""Added to the size of a component, for those smaller than the unknowns from which they are computed."""
RTOL = 2.3e-14
"""Relative tolerance of method B, the smallest that SciPy accepts."""

RANGES = {"one-transistor": 0.1, "two-transistor": 0.2, "synchronous-machine": 1.0, "wscc9": 1.0}
"""End of the stored range of every reference; all start at 0."""
STAGES = {"one-transistor": 20, "two-transistor": 20, "synchronous-machine": 16, "wscc9": 14}
DISTURBANCES = {"synchronous-machine": 0.05, "wscc9": 0.05}


class Collocation:
    """Method A: Radau IIA collocation with ``stages`` nodes on pieces of adapted length.

    Parameters
    ----------
    problem : ProblemDAE
        What to solve.
    stages : int
        Number of nodes of a piece.
    """

    def __init__(self, problem: ProblemDAE, stages: int) -> None:
        self.problem = problem
        self.stages = stages
        inner, _ = roots_jacobi(stages - 1, 1.0, 0.0)
        self.points = np.concatenate([[-1.0], inner, [1.0]])
        distance = self.points[:, None] - self.points
        np.fill_diagonal(distance, 1.0)
        weight = 1.0 / distance.prod(axis=1)
        derivative = weight / weight[:, None] / distance
        np.fill_diagonal(derivative, 0.0)
        np.fill_diagonal(derivative, -derivative.sum(axis=1))
        self.derivative = derivative[1:, 1:]
        self.from_all = np.linalg.inv(chebyshev.chebvander(self.points, stages))
        self.from_nodes = np.linalg.inv(chebyshev.chebvander(self.points[1:], stages - 1))

    def piece(self, u: Vector, t: float, h: float) -> Vector:
        """Chebyshev coefficients, shape (stages + 1, n), of the solution from state ``u`` over [t, t + h].

        The unknowns are the differences to ``u``, so that round-off is relative to the change over the piece.
        """
        problem, s, n = self.problem, self.stages, len(u)
        times = t + 0.5 * h * (self.points[1:] + 1.0)
        slope = self.derivative * (2.0 / h)
        change = np.zeros((s, n))
        last = math.inf
        problem_size = np.abs(u) + FLOOR
        for _ in range(40):
            residual = np.array(
                [
                    problem.eval_f(problem.state(u + x), problem.state(dx), time)
                    for x, dx, time in zip(change, slope @ change, times, strict=True)
                ]
            )
            matrix = np.zeros((s, n, s, n))
            for i, (x, time) in enumerate(zip(change, times, strict=True)):
                state, rest = problem.state(u + x), problem.state(np.zeros(n))
                by_rate = np.asarray(problem.jacobian(state, rest, time, 0.0))
                both = np.asarray(problem.jacobian(state, rest, time, 1.0))
                matrix[i] = by_rate[:, None, :] * slope[i][None, :, None]
                matrix[i, :, i, :] += both - by_rate
            if not (np.isfinite(matrix).all() and np.isfinite(residual).all()):
                raise ArithmeticError(f"Newton iteration diverged at t={t}")
            step = lu_solve(lu_factor(matrix.reshape(s * n, s * n)), residual.ravel()).reshape(s, n)
            change -= step
            size = float((np.abs(step) / (problem_size + np.abs(change).max(axis=0))).max())
            if size < 1e-15 or (size < 1e-10 and size > 0.3 * last):
                break
            if not size < 1e6:
                raise ArithmeticError(f"Newton iteration diverged at t={t}")
            last = size
        else:
            raise ArithmeticError(f"Newton iteration did not converge at t={t}")
        coefficients = self.from_all @ np.vstack([np.zeros(n), change])
        # An algebraic unknown may jump at the start of a piece, so its polynomial does not use the start.
        m = problem.n_diff
        coefficients[:-1, m:] = self.from_nodes @ change[:, m:]
        coefficients[-1, m:] = 0.0
        coefficients[0] += u
        return coefficients

    def until_event(
        self, event: Callable[[Any, float], float], u: Vector, t: float, h: float, coefficients: Vector
    ) -> float:
        """Length of the piece from state ``u`` at ``t`` that ends at the event inside [t, t + h]."""
        for _ in range(3):

            def level(x: float, piece: Vector = coefficients) -> float:
                return event(self.problem.state(chebyshev.chebval(x, piece)), t)

            h *= 0.5 * (float(brentq(level, -1.0, 1.2, xtol=1e-16)) + 1.0)
            coefficients = self.piece(u, t, h)
        return h

    def solve(
        self, start: Vector, t_end: float, stop: float | None, scale: Vector, tolerance: float
    ) -> tuple[Vector, Vector, list[float]]:
        """Breaks, coefficients of all pieces, and times of events from ``start`` at 0 to ``t_end``.

        The last coefficients of a piece are at most ``tolerance`` times (``scale`` + ``FLOOR``).
        """
        problem = self.problem
        event: Callable[[Any, float], float] | None = getattr(problem, "event", None)
        u, t, h = start, 0.0, 0.01 * t_end
        breaks, pieces, events = [0.0], [], []
        while t < t_end:
            bound = stop if stop is not None and t < stop else t_end
            # A remainder much shorter than a piece is avoided by halving what is left.
            end = (
                bound if t + h > bound - 1e-12 else (t + 0.5 * (bound - t) if t + 2.0 * h > bound else t + h)
            )
            problem.start_step(problem.state(u), t)
            try:
                coefficients = self.piece(u, t, end - t)
            except ArithmeticError:
                h = 0.3 * (end - t)
                if h < 1e-9 * t_end:
                    raise
                continue
            tail = float((np.abs(coefficients[-3:]).max(axis=0) / (scale + FLOOR)).max())
            if not tail <= tolerance:
                h = (end - t) * max(0.1, min(0.9, 0.9 * (tolerance / tail) ** (1.0 / self.stages)))
                continue
            after = np.asarray(chebyshev.chebval(1.0, coefficients))
            if (
                event is not None
                and event(problem.state(u), t) < -1e-10
                and event(problem.state(after), end) > 0.0
            ):
                end = t + self.until_event(event, u, t, end - t, coefficients)
                coefficients = self.piece(u, t, end - t)
                after = np.asarray(chebyshev.chebval(1.0, coefficients))
                events.append(end)
            breaks.append(end)
            pieces.append(coefficients)
            # The last coefficients of a resolved piece are round-off; they do not tell how long it could be.
            h = (end - t) * (1.3 if tail < 0.3 * tolerance else 1.0)
            u, t = after, end
        return np.array(breaks), np.array(pieces), events


def amplifier(problem: Any, stages: int) -> tuple[Vector, Callable[..., Vector], Callable[..., Vector]]:
    """The amplifiers as differential equations in the voltages of their capacitors.

    Between two coupling capacitors stands one transistor. Its base voltage solves one scalar equation, in
    which the source is the signal or the voltage at the end of the stage before.
    """
    p = problem
    stage_parts = [
        (p.R_0, p.R_1, p.R_2, p.R_3, p.C_1, p.C_2),
        *([(p.R_4, p.R_5, p.R_6, p.R_7, p.C_3, p.C_4)] if stages == 2 else []),
    ]
    collector, load, coupling = (p.R_8, p.R_9, p.C_5) if stages == 2 else (p.R_4, p.R_5, p.C_3)
    omega = 2.0 * math.pi * p.frequency
    bases = [0.5 * p.U_b] * stages

    def emitted(voltage: float) -> float:
        # Trial steps that will be rejected may go where the exponential overflows.
        return float(p.beta * math.exp(min(voltage / p.U_F, 200.0)))

    def walk(t: float, x: Vector) -> tuple[list[float], list[float]]:
        voltages, rates = [], []
        source, drawn = p.amplitude * math.sin(omega * t), 0.0
        for k, (r_in, r_ground, r_supply, r_emitter, c_in, c_emitter) in enumerate(stage_parts):
            across, emitter = float(x[2 * k]), float(x[2 * k + 1])
            base = bases[k]
            for _ in range(60):
                growth = emitted(base - emitter)
                g = growth - p.beta
                into = (source - base - across) / r_in - drawn
                own = (p.U_b - base) / r_supply - base / r_ground - (1.0 - p.alpha) * g
                slope = -1.0 / r_in - 1.0 / r_supply - 1.0 / r_ground - (1.0 - p.alpha) * growth / p.U_F
                step = (into + own) / slope
                base -= max(-0.1, min(0.1, step))
                if abs(step) < 1e-15:
                    break
            bases[k] = base
            g = emitted(base - emitter) - p.beta
            into = (source - base - across) / r_in - drawn
            voltages += [base + across, base, emitter]
            rates += [into / c_in, (g - emitter / r_emitter) / c_emitter]
            source, drawn = p.U_b, p.alpha * g
        across = float(x[-1])
        last = (source / collector - drawn + across / load) / (1.0 / collector + 1.0 / load)
        voltages += [last, last - across]
        rates.append((last - across) / load / coupling)
        return voltages, rates

    start = np.asarray(problem.u_exact(0.0))
    pairs = [(0, 1), (2, None), (3, 4), (5, None), (6, 7)][: 2 * stages + 1]
    x0 = np.array([start[i] - (start[j] if j is not None else 0.0) for i, j in pairs])
    return x0, lambda t, x: np.array(walk(t, x)[1]), lambda t, x: np.array(walk(t, x)[0])


def eliminated(problem: Any) -> tuple[Vector, Callable[..., Vector], Callable[..., Vector]]:
    """A DAE with F = f(y, z, t) - y' as y' = f(y, z(y), t), in the deviations from the start."""
    start = np.asarray(problem.u_exact(0.0))
    m = problem.n_diff
    rest = problem.state(np.zeros(problem.n))
    memory = [start[m:].copy()]

    def complete(t: float, deviation: Vector) -> Vector:
        u = np.concatenate([start[:m] + deviation, memory[0]])
        for _ in range(30):
            state = problem.state(u)
            residual = np.asarray(problem.eval_f(state, rest, t))[m:]
            step = np.linalg.solve(problem.jacobian(state, rest, t, 1.0)[m:, m:], residual)
            u[m:] -= step
            if np.abs(step).max() < 1e-11:
                # Newton converges quadratically: what is left is below round-off.
                break
        memory[0] = u[m:].copy()
        return u

    def rate(t: float, deviation: Vector) -> Vector:
        return np.asarray(problem.eval_f(problem.state(complete(t, deviation)), rest, t))[:m]

    return np.zeros(m), rate, complete


def explicit(name: str, problem: Any, t_end: float, events: list[float]) -> Iterator[tuple[float, Vector]]:
    """Method B: times and states after every step of DOP853 and at events, which it notes in ``events``."""
    if name.endswith("transistor"):
        x, rate, complete = amplifier(problem, 2 if name.startswith("two") else 1)
    else:
        x, rate, complete = eliminated(problem)
    event = getattr(problem, "event", None)
    stop = DISTURBANCES.get(name)
    t = 0.0
    for bound in [*([stop] if stop is not None else []), t_end]:
        while t < bound:
            # Past a disturbance its first evaluation must already see what follows it.
            later = t + 2e-9 if stop is not None and t >= stop else -math.inf
            problem.start_step(problem.state(complete(max(t, later), x)), t)
            watched = event is not None and not problem.limited

            def over(t: float, x: Vector, later: float = later) -> Vector:
                return rate(max(t, later), x)

            def level(t: float, x: Vector, later: float = later) -> float:
                return float(event(problem.state(complete(max(t, later), x)), t))  # type: ignore[misc]

            solver = DOP853(over, t, x, bound, rtol=RTOL, atol=1e-16, first_step=1e-6 * t_end)
            while solver.status == "running":
                before, x_before = solver.t, solver.y.copy()
                solver.step()
                if watched and level(solver.t, solver.y) > 0.0:
                    t, x = landing(over, level, before, x_before, solver.t)
                    events.append(t)
                    yield t, complete(max(t, later), x)
                    break
                yield solver.t, complete(max(solver.t, later), solver.y)
            else:
                if solver.status == "failed":
                    raise ArithmeticError(f"DOP853 failed at t={solver.t}")
                t, x = bound, solver.y


def landing(over: Any, level: Any, t: float, x: Vector, t_next: float) -> tuple[float, Vector]:
    """State at the zero of ``level`` in [t, t_next], each trial integrated anew up to its own end."""
    reached = x

    def at(end: float) -> float:
        nonlocal reached
        solver = DOP853(over, t, x, end, rtol=RTOL, atol=1e-16)
        while solver.status == "running":
            solver.step()
        reached = solver.y
        return float(level(end, reached))

    root = float(brentq(at, t + 1e-6 * (t_next - t), t_next, xtol=1e-16, rtol=1e-15))
    at(root)
    return root, reached


def evaluate(breaks: Vector, pieces: Vector, t: float) -> Vector:
    """Value at ``t`` of the piecewise polynomial, from the left at a break."""
    k = min(max(int(np.searchsorted(breaks, t, side="left")) - 1, 0), len(pieces) - 1)
    a, b = breaks[k], breaks[k + 1]
    return np.asarray(chebyshev.chebval(2.0 * (t - a) / (b - a) - 1.0, pieces[k]))


def largest(pieces: Vector) -> Vector:
    """Largest absolute value of every component of a piecewise polynomial, on a grid; 1 where it is zero."""
    values = chebyshev.chebvander(np.linspace(-1.0, 1.0, 9), pieces.shape[1] - 1) @ pieces
    size: Vector = np.abs(values).max(axis=(0, 1))
    size[size == 0.0] = 1.0
    return size


def make(name: str) -> None:
    """Compute, compare and store one reference."""
    problem_class: Any = PROBLEMS[name]
    problem = problem_class()
    t_end, stop = RANGES[name], DISTURBANCES.get(name)
    method = Collocation(problem, STAGES[name])
    start = np.asarray(problem.u_exact(0.0)).copy()
    # A first, rough solution tells how large every component becomes.
    _, pieces, _ = method.solve(start, t_end, stop, np.maximum(np.abs(start), 0.1), 1e-6)
    scale = largest(pieces)
    print(f"{name}: {len(pieces)} pieces in the rough solution", flush=True)
    breaks, pieces, events = method.solve(start, t_end, stop, scale, TOLERANCES[name])
    print(f"{name}: {len(pieces)} pieces, events at {events}", flush=True)
    worst, where, steps, times = np.zeros(problem.n), 0.0, 0, []
    events_b: list[float] = []
    for t, u in explicit(name, problem_class(), t_end, events_b):
        difference = np.abs(u - evaluate(breaks, pieces, t)) / scale
        if difference.max() > worst.max():
            where = t
        worst, steps = np.maximum(worst, difference), steps + 1
        times.append(t)
    record = {
        "problem": name,
        "range": [0.0, t_end],
        "pieces": len(pieces),
        "degree": method.stages,
        "method_a": f"Radau IIA collocation of the DAE, {method.stages} nodes, to {TOLERANCES[name]:g}",
        "method_b": f"reduced to an explicit ODE, DOP853 with rtol {RTOL:g}, {steps} steps",
        "agreement": float(worst.max()),
        "agreement_of": problem.names[int(worst.argmax())],
        "agreement_at": where,
        "agreement_meaning": "largest difference at the steps of B over the largest value of the component",
        "disturbance": stop,
        "events": events,
        "events_of_method_b": events_b,
        "command": f"python tools/make_references.py {name}",
        "date": date.today().isoformat(),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
    }
    DATA.mkdir(exist_ok=True)
    np.savez_compressed(DATA / f"{name}.npz", breaks=breaks, coefficients=pieces)
    (DATA / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    size = (DATA / f"{name}.npz").stat().st_size
    print(
        f"{name}: A and B agree to {record['agreement']:.1e} ({record['agreement_of']} at t={where:.4g}), "
        f"{len(pieces)} pieces, {steps} steps of B, events at {events}, {size / 1000:.0f} kB"
    )


def main() -> None:
    """Make the references named on the command line, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(RANGES)}; all if none is given"
    )
    names = parser.parse_args().names
    unknown = sorted(set(names) - set(RANGES))
    if unknown:
        sys.exit(f"no stored reference is made for {', '.join(unknown)}; available: {', '.join(RANGES)}")
    # Pieces that are tried too long may overflow; they are rejected and tried shorter.
    warnings.simplefilter("ignore", LinAlgWarning)
    with np.errstate(over="ignore", invalid="ignore"):
        for name in names or RANGES:
            make(name)


if __name__ == "__main__":
    main()
