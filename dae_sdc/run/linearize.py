"""The linear system that a DAE is near a state: poles, modes, frequency and step responses.

Example: dae-sdc linearize pendulum --at x=0.1 --at y=-1 --inputs "force x" --outputs x
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, require_number
from dae_sdc.initial.consistent import Initial
from dae_sdc.initial.jets import start_time
from dae_sdc.linear.equilibrium import Steady
from dae_sdc.linear.linearized import Linearizer, LinearModel, LinearProblem, State, inputs_of
from dae_sdc.linear.system import LinearSystem
from dae_sdc.options import ResultFile, add_options, count, given_options, option, takes
from dae_sdc.registry import require_name
from dae_sdc.run.equations import Equations, equations_near, with_model
from dae_sdc.run.results import Result, check_target, put_down, say_written, tabulated
from dae_sdc.run.solution import Solution
from dae_sdc.run.steady import AnyEquations, SteadyOptions, guess_of, rest_of
from dae_sdc.sharing import one_at_a_time

TIMES_ALONG = 101  # Times along a solution.
FREQUENCIES = 400  # Frequencies between two that are given.
STEPS = 301  # Times of a step response.


@dataclass(frozen=True, kw_only=True)
class Where(ResultFile, AnyEquations):
    """Equations, and what of them is linearised."""

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
    inputs: Sequence[str] | Mapping[str, Any] = option(
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

    along: Any = option(None, "the solution, or its file", like="Solution, str or Path", metavar="FILE.npy")
    points: int = option(TIMES_ALONG, f"number of times ({TIMES_ALONG})", check=count(100_000))


class Eigenvalues(NamedTuple):
    """Finite poles along a solution."""

    t: Vector  # Shape (K,). Times.
    # Shape (K, r). The poles, in each column one that changes continuously; NaN where there are fewer.
    values: npt.NDArray[np.complex128]
    # Those given, to which poles belong where a solution moves; empty for those along the constraints.
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
    omega = None if options.omega is None else _frequencies(options.omega)
    if options.t_step is not None and not 0.0 < require_number("t_step", options.t_step) < np.inf:
        raise InputError(f"t_step must be a positive finite time; got {options.t_step!r}")
    if options.out is None and (omega is not None or options.t_step is not None):
        raise InputError("omega and t_step are of the responses in the file; give out, or leave them out")
    by_number = options.at if isinstance(options.at, list | tuple | np.ndarray) else None
    guess = options.at if isinstance(options.at, Mapping) else by_number
    equations = with_model(equations_near(options.problem, options.params, guess, options.t))
    linearizer = _linearizer(equations, options.inputs, options.coordinates)
    state = _state(equations, linearizer, options)
    system = linearizer.linearize(state, options.outputs, tuple(options.coordinates))
    if options.out is not None:
        put_down(_table(system, omega, options.t_step), options.out, True)
    return system


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
    solution = Solution.load(options.along) if isinstance(options.along, str | Path) else options.along
    if not isinstance(solution, Solution):
        raise InputError("along takes the result of ds.solve, or its file")
    equations = with_model(equations_near(options.problem, options.params, solution.u[0], solution.t[0]))
    linearizer = _linearizer(equations, (), options.coordinates)
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
        if values and len(poles) == len(values[-1]):  # in the order of the nearest ones before
            poles = poles[linear_sum_assignment(np.abs(values[-1][:, None] - poles[None]))[1]]
        values.append(poles)
    table = np.full((len(values), max(map(len, values))), np.nan + 0j)
    for at, poles in enumerate(values):
        table[at, : len(poles)] = poles
    if options.out is not None:
        columns = [("t", "f8"), ("number", "i8"), ("re", "f8"), ("im", "f8")]
        cells = [(rows.t[k], number, pole.real, pole.imag) for (k, number), pole in np.ndenumerate(table)]
        about: dict[str, Any] = {"problem": linearizer.title, "coordinates": list(options.coordinates)}
        about |= {"changes": changes, "points": options.points}
        put_down(tabulated("eigenvalues", columns, cells, about, {"t": "s"}), options.out, True)
    return Eigenvalues(rows.t.copy(), table, tuple(options.coordinates), tuple(changes))


def _linearizer(equations: Equations, inputs: Any, coordinates: Sequence[str]) -> Linearizer:
    if equations.model is None:
        linearizer: Linearizer = LinearProblem(equations.problem, inputs_of(inputs))
    else:
        linearizer = LinearModel(equations.model, inputs_of(inputs), equations.labels)
    for name in coordinates:
        require_name("coordinate", name, linearizer.names)
    return linearizer


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
        state = _by_names(linearizer, at.t if t is None else require_number("t", t), at.names, at.u, at.du)
        return state if isinstance(at, Steady) else linearizer.near(state)
    problem, names = equations.problem, equations.problem.names
    rates: dict[str, Any] = {}
    time = start_time(problem.interval, t)
    if isinstance(at, Mapping):
        rates = {str(name): value for name, value in at.items() if str(name) not in names}
        at = {name: value for name, value in at.items() if str(name) in names}
    u, du = guess_of(problem, at, time), np.full(len(names), np.nan)
    known = [*(f"der({unknown})" for unknown in names), *names]
    for name, value in rates.items():
        du[require_name("unknown", name, known)] = require_number(name, value)
    return linearizer.near(_by_names(linearizer, time, names, u, du))


def _by_names(linearizer: Linearizer, t: float, names: Sequence[str], u: Vector, du: Vector) -> State:
    order = list(map(list(names).index, linearizer.names))
    return State(t, u[order], du[order])


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


def _frequencies(omega: Any) -> Vector:
    """Angular frequencies, from a pair of their ends, a text or all of them."""
    ends = omega.split(":") if isinstance(omega, str) else omega
    try:
        values = np.array([float(end) for end in ends])
    except (TypeError, ValueError):
        values = np.zeros(0)
    if len(values) < 2 or not ((values > 0.0) & (values < np.inf)).all() or not (np.diff(values) > 0.0).all():
        raise InputError(f"omega takes increasing positive frequencies, for instance 0.1:100; got {omega!r}")
    return np.geomspace(float(values[0]), float(values[1]), FREQUENCIES) if len(values) == 2 else values


# Rows of a linear system in a file: poles, zeros of a channel, frequency responses and step responses.
COLUMNS = (("what", "U9"), ("input", "U64"), ("output", "U64"), ("at", "f8"), ("re", "f8"), ("im", "f8"))


def _table(system: LinearSystem, omega: Vector | None, end: float | None) -> Result:
    def cells(what: str, source: str, output: str, places: Vector, values: Any) -> list[tuple[Any, ...]]:
        pairs = zip(places, values, strict=True)
        return [(what, source, output, at, value.real, value.imag) for at, value in pairs]

    rows = cells("pole", "", "", np.zeros(len(system.poles)), system.poles)
    omega = system.frequencies() if omega is None else omega
    values = system.frequency_response(omega)
    times = np.linspace(0.0, _step_end(system) if end is None else end, STEPS)
    steps = system.step(times)
    for i, output in enumerate(system.outputs):
        for j, source in enumerate(system.inputs):
            with suppress(InputError):  # the output does not depend on the input
                zeros = system.zeros(source, output)
                rows += cells("zero", source, output, np.zeros(len(zeros)), zeros)
            rows += cells("frequency", source, output, omega, values[:, i, j])
            rows += cells("step", source, output, times, steps[:, i, j])
    about: dict[str, Any] = {"problem": system.title, "t": system.t, "index": system.index}
    about |= {"infinite": system.infinite, "state": dict(zip(system.states, system.u.tolist(), strict=True))}
    about["modes"] = [[mode.frequency, mode.damping, ", ".join(mode.unknowns)] for mode in system.modes]
    about["input_units"] = dict(zip(system.inputs, system.input_units, strict=True))
    about["output_units"] = dict(zip(system.outputs, system.output_units, strict=True))
    return tabulated("linear-system", COLUMNS, rows, about)


def _step_end(system: LinearSystem) -> float:
    """A time over which the slowest pole that decays does, or a few periods of the slowest one."""
    poles = system.poles[np.abs(system.poles) > 1e-9 * np.abs(system.poles).max(initial=0.0)]
    if not poles.size:
        return 1.0
    decays = poles[poles.real < 0.0]
    by_decay = 5.0 / np.abs(decays.real).min() if decays.size == poles.size else np.inf
    return float(min(by_decay, 20.0 * np.pi / np.abs(poles).min()))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc linearize``."""
    add_options(parser, LinearizeOptions)
    add_options(parser, EigenvaluesOptions, only=("along", "points"))


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc linearize``."""
    if args.along:
        options = given_options(args, EigenvaluesOptions)
        useless = set(given_options(args, LinearizeOptions)) - set(options)
        if useless:
            raise InputError(f"{', '.join(sorted(useless))} have no effect along a solution; leave them out")
        poles = eigenvalues(**options)
        largest = poles.values[np.isfinite(poles.values)].real.max(initial=-np.inf)
        print(f"{poles.values.shape[1]} poles at {len(poles.t)} times, largest real part {largest:.6g}")
        print(f"coordinates: {', '.join(poles.coordinates) or 'along the constraints'}")
        for t in poles.changes:
            print(f"other coordinates from t={t:.6g} on")
    else:
        print(linearize(**given_options(args, LinearizeOptions)))
    say_written(args.out)
    return 0
