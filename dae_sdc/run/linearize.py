"""The linear system that a DAE is near a state: poles, modes, frequency and step responses.

Example: dae-sdc linearize pendulum --at x=0.1 --at y=-1 --inputs "force x" --outputs x
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, require_number
from dae_sdc.initial.consistent import Initial
from dae_sdc.linear.equilibrium import Steady
from dae_sdc.linear.linearized import Linearizer, LinearModel, LinearProblem, State, inputs_of
from dae_sdc.linear.system import LinearSystem
from dae_sdc.options import Parameters, ResultFile, about, add_options, count, given_options, option, takes
from dae_sdc.run.equations import Equations, equations_near, with_model
from dae_sdc.run.results import Result, check_target, command_line, put_down
from dae_sdc.run.solution import Solution
from dae_sdc.run.steady import SteadyOptions, guess_of, rest_of
from dae_sdc.sharing import one_at_a_time

TIMES_ALONG = 101
"""Times along a solution."""

FREQUENCIES = 400
"""Frequencies between two that are given."""

STEPS = 301
"""Times of a step response."""


@dataclass(frozen=True, kw_only=True)
class Where(ResultFile, Parameters):
    """Equations, and what of them is linearised."""

    problem: Any = field(
        kw_only=False,
        metadata=about(
            "name of a model or problem, FILE.mo or FILE.py:NAME",
            "A model, a problem, its class and a function F(t, u, du) are taken too.",
            like="str, Path, Model, ProblemDAE, type or callable",
        ),
    )
    coordinates: Sequence[str] = option(
        (),
        "unknowns that are coordinates of the minimal form as far as can be (by pivots)",
        'Positions and speeds are named apart, as "phi" and "der(phi)".',
        metavar="A,B",
    )


@dataclass(frozen=True, kw_only=True)
class LinearizeOptions(Where):
    """Options of :func:`linearize`."""

    at: Mapping[str, float] | Any = option(
        None,
        "the state (a steady state near the start)",
        "A solution, the result of steady_state or initial, all n values, or values by name; hidden "
        "constraints give the others. Of a solution it is the end, or the time ``t``. Without it, or with "
        "guesses of a function, a steady state is looked for.",
        like="Solution, Steady, Initial, mapping of str to float, or array_like, shape (n,)",
        metavar="NAME=VALUE",
    )
    t: float | None = option(None, "time (that of the state, or the start)")
    inputs: Sequence[str] | Any = option(
        (),
        "names of parameters, and of equations to which a force is added",
        "What an equation is equal to, instead of 0, is then the input. A mapping gives names to inputs that "
        "act on several equations: {'force': {'force x': 1.0, 'force y': -1.0}}.",
        like="sequence of str, or mapping of str to mapping of str to float",
        metavar="A,B",
    )
    outputs: Sequence[str] = option(
        (), 'names of unknowns and of derivatives, such as "der(x, 2)"', metavar="A,B"
    )
    omega: Any = option(
        None,
        "first and last angular frequency of the responses in the file (around the poles)",
        "A pair, a text such as '0.1:100', or all frequencies.",
        like="(float, float), str or array_like",
        metavar="FROM:TO",
    )
    t_step: float | None = option(None, "end time of the step responses in the file (from the poles)")


@dataclass(frozen=True, kw_only=True)
class EigenvaluesOptions(Where):
    """Options of :func:`eigenvalues`."""

    along: Any = option(
        None,
        "the solution, or its file",
        like="Solution, str or Path",
        metavar="FILE.npy",
    )
    points: int = option(TIMES_ALONG, f"number of times ({TIMES_ALONG})", check=count(100_000))


class Eigenvalues(NamedTuple):
    """Finite poles along a solution."""

    t: Vector  # Shape (K,). Times.
    # Shape (K, r). The poles, in each column one that changes continuously; NaN where there are fewer.
    values: npt.NDArray[np.complex128]
    # The coordinates that were given; empty for those along the constraints. Where a solution moves, poles
    # belong to coordinates.
    coordinates: tuple[str, ...]
    changes: tuple[float, ...]  # Times at which other coordinates had to be taken.


@takes(LinearizeOptions)
@one_at_a_time
def linearize(options: LinearizeOptions) -> LinearSystem:
    r"""The linear system of a DAE of any index near a state.

    .. math::
        E x' = A x + B v, \quad y = C x + D v \qquad \text{with}\quad E = F_{u'},\; A = -F_u

    for the system of first order. Its finite poles are those of the minimal form: the equations,
    differentiated as often as their offsets say, give the derivatives of the free coordinates by these.
    Nothing is told from the size of eigenvalues, and the form holds at states that move too. Equations whose
    offsets do not hold, and functions that cannot be read, are deflated by ranks.

    {options}

    Returns
    -------
    LinearSystem
        Sparse matrices with names and units; ``poles``, ``modes``, ``zeros()``, ``transfer(s)``,
        ``frequency_response(omega)``, ``step(t)``, ``minimal()``, ``to_control()``; ``print`` shows it.

    Raises
    ------
    ConvergenceError
        If no steady state is found, or hidden constraints have no solution near the state.
    InputError
        If something given cannot be used.

    References
    ----------
    J. D. Pryce: A simple structural analysis method for DAEs, BIT 41 (2001). P. Van Dooren: The computation
    of Kronecker's canonical form of a singular pencil, Linear Algebra Appl. 27 (1979).

    Examples
    --------
    >>> m = ds.Model("oscillator")
    >>> x, v = m.variables("x v", start=[0.0, 0.0])
    >>> m.equations(m.der(x) - v, m.der(v) + 4 * x)
    >>> system = ds.linearize(m)
    >>> system.index, np.sort(np.abs(system.poles)).round(9)
    (0, array([2., 2.]))
    """
    if options.out is not None:
        check_target(options.out)
    by_number = options.at if isinstance(options.at, list | tuple | np.ndarray) else None
    guess = options.at if isinstance(options.at, Mapping) else by_number
    equations = with_model(equations_near(options.problem, options.params, guess))
    linearizer = _linearizer(equations, options.inputs)
    found = linearizer.linearize(
        _state(equations, linearizer, options), options.outputs, tuple(options.coordinates)
    )
    if options.out is not None:
        put_down(_table(found, options), options.out, True)
    return found


@takes(EigenvaluesOptions)
@one_at_a_time
def eigenvalues(options: EigenvaluesOptions) -> Eigenvalues:
    """Finite poles of a DAE along a solution.

    The coordinates are orthonormal along the constraints at each time, and do not turn with them; or those
    that are given, as long as they can be.

    {options}

    Returns
    -------
    Eigenvalues
        Times and poles.

    Raises
    ------
    InputError
        If something given cannot be used.

    Examples
    --------
    >>> run = ds.solve("pendulum", rtol=1e-6, t_end=1.0)
    >>> along = ds.eigenvalues("pendulum", along=run, points=3)
    >>> len(along.values)
    3
    """
    if options.out is not None:
        check_target(options.out)
    solution = options.along
    if isinstance(solution, str | Path):
        solution = Solution.load(solution)
    if not isinstance(solution, Solution):
        raise InputError("along takes the result of ds.solve, or its file")
    equations = with_model(equations_near(options.problem, options.params, solution.u[0]))
    linearizer = _linearizer(equations, ())
    times = np.linspace(solution.t[0], solution.t[-1], options.points)
    rows = solution.at(times) if solution.dense is not None else solution
    preferred, changes = tuple(options.coordinates), []
    tangent = not preferred
    values: list[npt.NDArray[np.complex128]] = []
    for row, t in enumerate(rows.t.tolist()):
        form = linearizer.minimal(linearizer.near(_of_solution(linearizer, rows, row)), preferred, tangent)[0]
        if not tangent and set(form.coordinates) != set(preferred):
            preferred = form.coordinates
            changes.append(t)
        poles = form.poles()
        values.append(_tracked(values[-1], poles) if values else poles)
    wide = max(map(len, values))
    table = np.full((len(values), wide), np.nan + 0j)
    for at, one in enumerate(values):
        table[at, : len(one)] = one
    found = Eigenvalues(rows.t.copy(), table, tuple(options.coordinates), tuple(changes))
    if options.out is not None:
        put_down(_table_along(found, linearizer.title, options), options.out, True)
    return found


def _tracked(
    before: npt.NDArray[np.complex128], now: npt.NDArray[np.complex128]
) -> npt.NDArray[np.complex128]:
    """Poles in the order of the nearest ones before."""
    if len(now) != len(before):
        return now
    return np.asarray(now[linear_sum_assignment(np.abs(before[:, None] - now[None]))[1]])


def _linearizer(equations: Equations, inputs: Any) -> Linearizer:
    own = inputs_of(inputs)
    if equations.model is not None:
        return LinearModel(equations.model, own, equations.labels)
    return LinearProblem(equations.problem, own)


def _state(equations: Equations, linearizer: Linearizer, options: LinearizeOptions) -> State:
    """The state that was given, consistent, in the order of the linear system."""
    at, t = options.at, options.t
    if isinstance(at, Solution):
        row = -1
        if t is not None:
            at, row = at.at(np.array([at.t[0], require_number("t", t)])), 1
        return linearizer.near(_of_solution(linearizer, at, row))
    if at is None:
        at = rest_of(equations, SteadyOptions(problem=options.problem, t0=t))
    if isinstance(at, Steady | Initial):
        found = _by_names(linearizer, at.t if t is None else require_number("t", t), at.names, at.u, at.du)
        return found if isinstance(at, Steady) else linearizer.near(found)
    problem = equations.problem
    time = float(problem.interval[0]) if t is None else require_number("t0", t)
    if isinstance(at, Mapping):
        rates = {name: value for name, value in at.items() if str(name) not in problem.names}
        u = guess_of(problem, {name: value for name, value in at.items() if name not in rates}, time)
    else:
        rates, u = {}, guess_of(problem, at, time)
    names = problem.names
    du = np.zeros(len(names))
    for name, value in rates.items():
        places = [j for j, one in enumerate(names) if str(name) == f"der({one})"]
        if not places:
            raise InputError(f"there is no unknown {name} at which to linearise; it has {', '.join(names)}")
        du[places[0]] = require_number(str(name), value)
    return linearizer.near(_by_names(linearizer, time, names, u, du))


def _by_names(linearizer: Linearizer, t: float, names: Sequence[str], u: Vector, du: Vector) -> State:
    place = {name: at for at, name in enumerate(names)}
    order = [place[name] for name in linearizer.names]
    return State(t, u[order], np.nan_to_num(du[order]))


def _of_solution(linearizer: Linearizer, solution: Solution, row: int) -> State:
    """A row of a solution; unknowns that it does not have are 0, and follow from the others."""
    known = set(solution.all_names)
    u, du = np.zeros(len(linearizer.names)), np.zeros(len(linearizer.names))
    place = {name: at for at, name in enumerate(solution.names)}
    for at, name in enumerate(linearizer.names):
        if name in place:
            u[at], du[at] = solution.u[row, place[name]], np.nan_to_num(solution.du[row, place[name]])
        elif name in known:
            u[at] = solution.values(name)[row]
    return State(float(solution.t[row]), u, du)


def _frequencies(system: LinearSystem, omega: Any) -> Vector:
    if omega is None:
        return system.frequencies()
    ends = omega.split(":") if isinstance(omega, str) else omega
    try:
        found = np.array([float(one) for one in ends])
    except (TypeError, ValueError):
        found = np.zeros(0)
    if len(found) < 2 or not (found > 0.0).all() or not (np.diff(found) > 0.0).all():
        raise InputError(f"omega takes increasing positive frequencies, for instance 0.1:100; got {omega!r}")
    return np.geomspace(float(found[0]), float(found[1]), FREQUENCIES) if len(found) == 2 else found


COLUMNS = (("what", "U9"), ("input", "U64"), ("output", "U64"), ("at", "f8"), ("re", "f8"), ("im", "f8"))
"""Rows of a linear system in a file: poles, zeros of a channel, frequency responses and step responses."""


def _table(system: LinearSystem, options: LinearizeOptions) -> Result:
    """The linear system as a result of kind "linear-system"."""
    rows: list[tuple[Any, ...]] = [("pole", "", "", 0.0, one.real, one.imag) for one in system.poles]
    omega = _frequencies(system, options.omega)
    values = system.frequency_response(omega)
    end = _step_end(system) if options.t_step is None else require_number("t_step", options.t_step)
    times = np.linspace(0.0, end, STEPS)
    steps = system.step(times)
    for i, output in enumerate(system.outputs):
        for j, source in enumerate(system.inputs):
            rows += [
                ("zero", source, output, 0.0, one.real, one.imag) for one in _zeros(system, source, output)
            ]
            pairs = zip(omega, values[:, i, j], strict=True)
            rows += [("frequency", source, output, at, one.real, one.imag) for at, one in pairs]
            pairs = zip(times, steps[:, i, j], strict=True)
            rows += [("step", source, output, at, one, 0.0) for at, one in pairs]
    about = {
        "problem": system.title,
        "t": system.t,
        "index": system.index,
        "infinite": system.infinite,
        "state": dict(zip(system.states, system.u.tolist(), strict=True)),
        "modes": [[mode.frequency, mode.damping, ", ".join(mode.unknowns)] for mode in system.modes],
        "input_units": dict(zip(system.inputs, system.input_units, strict=True)),
        "output_units": dict(zip(system.outputs, system.output_units, strict=True)),
    }
    return Result("linear-system", np.array(rows, dtype=list(COLUMNS)), {}, about, command_line())


def _zeros(system: LinearSystem, source: str, output: str) -> npt.NDArray[np.complex128]:
    try:
        return system.zeros(source, output)
    except InputError:  # the output does not depend on the input
        return np.zeros(0, dtype=complex)


def _step_end(system: LinearSystem) -> float:
    """A time over which the slowest pole that decays does, or a few periods of the slowest one."""
    poles = system.poles[np.abs(system.poles) > 1e-9 * np.abs(system.poles).max(initial=0.0)]
    if not poles.size:
        return 1.0
    decays = poles[poles.real < 0.0]
    by_decay = 5.0 / np.abs(decays.real).min() if decays.size == poles.size else np.inf
    return float(min(by_decay, 20.0 * np.pi / np.abs(poles).min()))


def _table_along(found: Eigenvalues, title: str, options: EigenvaluesOptions) -> Result:
    """Eigenvalues as a result of kind "eigenvalues"."""
    rows = [
        (t, number, value.real, value.imag)
        for t, values in zip(found.t.tolist(), found.values, strict=True)
        for number, value in enumerate(values)
    ]
    kinds = [("t", "f8"), ("number", "i8"), ("re", "f8"), ("im", "f8")]
    about = {
        "problem": title,
        "coordinates": list(found.coordinates),
        "changes": list(found.changes),
        "points": options.points,
    }
    return Result("eigenvalues", np.array(rows, dtype=kinds), {"t": "s"}, about, command_line())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc linearize``."""
    add_options(parser, LinearizeOptions)
    add_options(parser, EigenvaluesOptions, only=("along", "points"))


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc linearize``."""
    if args.along:
        own = given_options(args, EigenvaluesOptions)
        beside = set(given_options(args, LinearizeOptions)) - set(own)
        if beside:
            raise InputError(f"{', '.join(sorted(beside))} have no effect along a solution; leave them out")
        found = eigenvalues(**own)
        largest = found.values[np.isfinite(found.values)].real.max(initial=-np.inf)
        print(f"{found.values.shape[1]} poles at {len(found.t)} times, largest real part {largest:.6g}")
        print(f"coordinates: {', '.join(found.coordinates) or 'along the constraints'}")
        for t in found.changes:
            print(f"other coordinates from t={t:.6g} on")
    else:
        print(linearize(**given_options(args, LinearizeOptions)))
    if args.out:
        print(f"written to {args.out}")
    return 0
