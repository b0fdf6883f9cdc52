"""Bounce of the elastic pendulum with methods of fixed step size and with CVODE, over spring constants.

Example: dae-sdc pendulum-study --sweeper bdf2,bdf3,cvode --k 100,1500 --out pendulum.npy
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, ReferenceRangeError, require_number
from dae_sdc.options import Multistep, Output, Steps, highest_order, option, redeclared, takes
from dae_sdc.registry import require_name
from dae_sdc.run.convergence import several
from dae_sdc.run.description import describe, number_of_steps
from dae_sdc.run.method import SOLVERS
from dae_sdc.run.results import Result
from dae_sdc.run.solution import Solution
from dae_sdc.run.solve import solve
from dae_sdc.run.study import Study, verb
from dae_sdc.run.sundials import installed
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.text import aligned

PROBLEM = "elastic-pendulum"

KS = (1.0, 10.0, 100.0, 500.0, 1000.0, 1500.0)

REFERENCE = "reference"  # Name of the accurate solution that others are compared with.

ACCURATE = {"sweeper": "radau-iia-13", "rtol": 1e-11}

METHODS = (REFERENCE, "explicit-euler", "bdf2", "bdf2/fixed-point", "bdf3", "bdf4", "cvode")
"""Default methods; a corrector is given after a slash."""

RTOLS = (1e-6, 1e-3, 1e-2)
MAX_ORDERS = (5, 1)
DT = 0.01

START = "explicit-euler"  # Start of multistep methods by steps of the first order, as in the classical study.
SHORTEST_WINDOW = 0.2  # Smallest length of the windows in which the bounce is measured.

UNITS = {"amplitude_start": "1", "amplitude_end": "1", "energy": "1", "error": "1", "dt": "1", "time": "s"}


@dataclass(frozen=True)
class Method:
    """A method of the study with its settings."""

    sweeper: str  # Name of the sweeper, of a solver of SUNDIALS, or :data:`REFERENCE`.
    corrector: str = ""  # Corrector of a multistep method; empty for its default.
    rtol: float = math.nan  # Tolerance of a solver that chooses its steps; NaN for others.
    max_order: int = 0  # Highest order of a solver that chooses its steps; 0 for others.

    @property
    def label(self) -> str:
        """Name in tables and of pictures."""
        parts = [self.sweeper, self.corrector, "" if math.isnan(self.rtol) else f"{self.rtol:g}"]
        parts += [f"order-{self.max_order}"] if self.max_order else []
        return "-".join(part for part in parts if part)

    def settings(self, dt: float, start: str, times: Vector) -> dict[str, Any]:
        """Arguments of :func:`dae_sdc.run.solve.solve`."""
        if self.sweeper == REFERENCE:
            return {**ACCURATE, "t_eval": times, "dense": False}
        if self.sweeper in SOLVERS:
            size = {"rtol": self.rtol, "atol": self.rtol, "max_order": self.max_order, "global_error": False}
            return {"sweeper": self.sweeper, **size, "t_eval": times, "dense": False}
        settings = {"sweeper": self.sweeper, "dt": dt, "dense": False}
        if "starting_procedure" in getattr(SWEEPERS[self.sweeper], "options", ()):
            settings["starting_procedure"] = start
        if self.corrector:
            settings["corrector"] = self.corrector
        return settings


@dataclass(frozen=True, kw_only=True)
class PendulumOptions(Output):
    """Options of :func:`pendulum_study`."""

    k: float | Sequence[float] = option(
        KS, f"one or several spring constants ({', '.join(f'{k:g}' for k in KS)})"
    )
    sweeper: str | Sequence[str] | None = option(
        None,
        "one or several methods (explicit Euler, BDF and CVODE)",
        "Names of sweepers that take steps of ``dt``, 'bdf2/fixed-point' for a corrector other than Newton's "
        "method; 'ida' and 'cvode', which take every one of ``rtol`` with every one of ``max_order``; "
        "'reference' for an accurate solution. If none is given, :data:`METHODS`, and CVODE if it is "
        "installed.",
    )
    dt: float = redeclared(Steps, "dt", DT, "")
    rtol: float | Sequence[float] = option(
        RTOLS, "one or several relative and absolute tolerances of ida and cvode (1e-6, 1e-3, 1e-2)"
    )
    max_order: int | Sequence[int] = option(
        MAX_ORDERS, "one or several highest orders of ida and cvode (5, 1)", check=highest_order
    )
    starting_procedure: str = redeclared(
        Multistep, "starting_procedure", START, "By explicit Euler, as in the classical study."
    )


@takes(PendulumOptions)
def pendulum_study(options: PendulumOptions) -> Result:
    """Growth or decay of the bounce of an elastic pendulum with each method, over spring constants.

    The bounce is the motion of r = sqrt(y1^2 + y2^2), of frequency near sqrt(k). Its amplitude in a window is
    half of the largest minus the smallest r at the times 0, ``dt``, 2 ``dt``, ... in it; the windows are the
    first and the last part of the run of length max(0.2, 2 pi/sqrt(k)), half of the run at most.

    {options}

    Returns
    -------
    Result
        Of kind "pendulum", a row for each method and spring constant: ``amplitude_start`` and
        ``amplitude_end``; ``theory``, the factor of the amplitude over the run by linear theory, the modulus
        of the principal root at i ``dt`` sqrt(k) to the power of the number of steps (NaN for methods without
        one); ``energy``, at the end minus at the start; ``error``, the largest of a position at the end where
        the solution is known; the work; and the trajectory ``y1``, ``y2`` at the times 0, ``dt``, ....

    Raises
    ------
    InputError
        For invalid options.

    Examples
    --------
    >>> study = ds.pendulum_study(sweeper=["bdf2"], k=[100.0], t_end=1.0)  # doctest: +SKIP
    >>> ds.plot("pendulum", study)  # doctest: +SKIP
    """
    ks, dt, start = several(options.k), options.dt, options.starting_procedure
    if not ks or not all(require_number("k", k) > 0.0 for k in ks):
        raise InputError(f"the spring constants must be positive, one at least; got {ks!r}")
    methods, left_out = _methods(options)
    first, last = (float(t) for t in PROBLEMS[PROBLEM].interval)
    steps = number_of_steps(first, last, require_number("dt", dt))
    times = np.linspace(first, last, steps + 1)
    chosen = [(method, method.settings(dt, start, times)) for method in methods]
    for method, settings in chosen:  # invalid ones are refused before the first run
        named = {name: settings[name] for name in ("starting_procedure", "corrector") if name in settings}
        if method.sweeper not in SOLVERS:
            describe(PROBLEM, sweeper=settings["sweeper"], **named)
    columns: list[Any] = [
        *(("method", "U48"), ("sweeper", "U32"), ("corrector", "U16"), ("starting_procedure", "U16")),
        *(("k", "f8"), ("dt", "f8"), ("rtol", "f8"), ("max_order", "i8")),
        *(("amplitude_start", "f8"), ("amplitude_end", "f8"), ("theory", "f8")),
        *(("energy", "f8"), ("error", "f8"), ("time", "f8")),
        *(("steps", "i8"), ("rejected", "i8"), ("rhs", "i8"), ("newton", "i8"), ("jacobian", "i8")),
        *(("y1", "f8", (steps + 1,)), ("y2", "f8", (steps + 1,))),
    ]
    rows = Study("pendulum", columns, UNITS, options.out)
    rows.parameters |= {"k": ks, "dt": dt, "starting_procedure": start, "interval": [first, last]}
    rows.parameters |= {"left_out": left_out, "shortest_window": SHORTEST_WINDOW}
    with rows.running(len(methods) * len(ks), "run", options.progress) as bar:
        for (method, settings), k in product(chosen, ks):
            tic = perf_counter()
            solution = solve(PROBLEM, params={"k": k}, **settings)
            took = perf_counter() - tic
            rows.note(f"{method.label}, k={k:g}", solution)
            rows.add([_row(method, k, solution, settings, times, took)])
            bar.update(1)
    return rows.result()


def _methods(options: PendulumOptions) -> tuple[list[Method], list[str]]:
    """The methods to compare, and a line for each one left out."""
    left_out = []
    names = METHODS if options.sweeper is None else several(options.sweeper)
    if options.sweeper is None and not installed():
        names = [name for name in METHODS if name not in SOLVERS]
        left_out = ["cvode: scikit-sundae is not installed"]
    if not names:
        raise InputError("nothing to run: name at least one sweeper")
    methods: list[Method] = []
    for name in names:
        sweeper, _, corrector = name.partition("/")
        require_name("sweeper", sweeper, [*SWEEPERS, *SOLVERS, REFERENCE])
        if corrector and sweeper in (*SOLVERS, REFERENCE):
            raise InputError(f"'{sweeper}' has no choice of correctors; leave '/{corrector}' away")
        if sweeper in SOLVERS:
            sizes = product(several(options.rtol), several(options.max_order))
            methods += [Method(sweeper, "", rtol, order) for rtol, order in sizes]
        else:
            methods.append(Method(sweeper, corrector))
    if not methods:
        raise InputError("nothing to run: give rtol and max_order for the solvers of SUNDIALS")
    return methods, left_out


def windows(k: float, times: Vector) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks of the times in the first and in the last window, see :func:`pendulum_study`."""
    first, last = float(times[0]), float(times[-1])
    length = min(max(SHORTEST_WINDOW, 2.0 * math.pi / math.sqrt(k)), 0.5 * (last - first))
    slack = 1e-9 * (last - first)
    return times <= first + length + slack, times >= last - length - slack


def _row(
    method: Method, k: float, solution: Solution, settings: dict[str, Any], times: Vector, took: float
) -> tuple[Any, ...]:
    problem: Any = PROBLEMS[PROBLEM](k=k)  # type: ignore[call-arg]
    u = np.full((len(times), 4), np.nan)
    u[: len(solution.u)] = solution.u
    r = np.hypot(u[:, 0], u[:, 1])
    amplitudes = [0.5 * float(np.ptp(r[window])) for window in windows(k, times)]
    energies = [problem.energy(row[:2], row[2:]) for row in u[[0, -1]]]
    try:
        error = float(np.abs(u[-1, :2] - np.array(problem.u_exact(times[-1]))[:2]).max())
    except ReferenceRangeError:
        error = math.nan
    method_of = getattr(SWEEPERS[settings["sweeper"]], "method", None) if "dt" in settings else None
    growth, theory = getattr(method_of, "growth", None), math.nan
    if growth is not None:
        with np.errstate(over="ignore"):
            theory = float(np.abs(growth(1j * settings["dt"] * math.sqrt(k))) ** np.float64(len(times) - 1))
    work = [solution.stats[name] for name in ("steps", "rejected", "rhs", "newton", "jacobian")]
    return (
        *(method.label, method.sweeper, method.corrector, settings.get("starting_procedure", "")),
        *(k, settings.get("dt", math.nan), method.rtol, method.max_order),
        *(*amplitudes, theory, energies[1] - energies[0], error, took),
        *(*work, u[:, 0], u[:, 1]),
    )


def summary(result: Result) -> str:
    """The result as a table of text."""
    work = ("steps", "rejected", "rhs")
    lines = [("method", "k", "bounce at start", "at end", "theory", "energy", "error", *work, "time")]
    for row in result.data:
        amplitudes = (f"{row[f'amplitude_{end}']:.4g}" for end in ("start", "end"))
        factor = f"x {row['theory']:.3g}" if np.isfinite(row["theory"]) else "-"
        error = f"{row['error']:.1e}" if np.isfinite(row["error"]) else "-"
        cells = (row["method"], f"{row['k']:g}", *amplitudes, factor, f"{row['energy']:.1e}", error)
        lines.append((*cells, *(row[name] for name in work), f"{row['time']:.2f}s"))
    table = aligned(lines, (26, -6, -15, -9, -9, -9, -9, -7, -8, -8, -7))
    return "\n".join([table, *(f"left out: {text}" for text in result.parameters["left_out"])])


# A method that fails is a result of the study, not a failure of it.
add_arguments, main = verb(pendulum_study, summary, failed=lambda result: False)
