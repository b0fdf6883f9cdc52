"""The library of models from equations to solutions: structure, reduction, start, simulation, and a check."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.studies.models.cases import Case, Check, Flight, exactly, integrated
from benchmarks.studies.models.devices import CASES as DEVICES
from benchmarks.studies.models.mechanisms import CASES as MECHANISMS
from benchmarks.study import Layout, Table, chosen, study
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError, InputError
from dae_sdc.model.model import Model
from dae_sdc.problems._library import load_record
from dae_sdc.problems.circuits import RingModulator
from dae_sdc.reduction.problem import ReducedProblem
from dae_sdc.reduction.reduction import reduce_index
from dae_sdc.run.initial import initial
from dae_sdc.run.results import Result
from dae_sdc.run.simplify import simplify
from dae_sdc.run.solution import Solution
from dae_sdc.run.solve import solve
from dae_sdc.run.target import make_model, resolve
from dae_sdc.run.unknowns import Unknowns
from dae_sdc.structure.analysis import structure

DRAWN = 400  # Least number of times at which solutions are saved
LENGTH = 1e-12  # Largest error of the length of a pendulum

TEXT = Layout(
    "model:<24|index={index:>4} /{true_index:>3}:>9|dof:>4|size={written:>3} /{equations:>3} /{n:>4}:>14|"
    "reduction:<13|operations:>10|s:>36|steps:>6|invariants={drift_before:>6.0e} /{drift:>6.0e}:>14"
)


def test_set(record: str, names: Sequence[str], allowed: float) -> Check:
    """Largest relative error at the end against the Test Set for IVP Solvers."""

    def error(flight: Flight) -> float:
        end = load_record(record).end
        compared = [i for i in end.scored if i < len(names) and end.digits[i] > 0.0]
        return max(abs(float(flight(names[i])[-1]) / float(end.u[i]) - 1.0) for i in compared)

    return Check("end value of the test set", error, allowed)


def _modulator_end(flight: Flight) -> float:
    """Error of the ring modulator without capacitances, for which the test set has no value."""
    other = RingModulator(cs=0.0)
    pairs = zip(other.names, other.reference_end.u, strict=True)
    return max(abs(float(flight(name)[-1]) / float(value) - 1.0) for name, value in pairs)


def _difference(flight: Flight, other: Solution, names: Sequence[str]) -> float:
    """Largest difference at the end, relative to the largest value over time."""
    if not other.success:
        return math.inf
    return max(
        float(abs(flight(name)[-1] - other.u[-1, other.names.index(name)]) / np.abs(flight(name)).max())
        for name in names
    )


def _unreduced(flight: Flight) -> float:
    """Difference to the equations as they are, solved by another method."""
    other = _otherwise(flight, flight.model, initial(flight.model, restarts=0).u)
    # What is not differentiated is less exact without a reduction.
    names = [name for name in flight.model.names if f"der({name})" in (*other.names, *flight.solution.names)]
    return _difference(flight, other, names or flight.model.names)


def _staged(flight: Flight) -> float:
    """Difference to the equations of all stages, solved by another method."""
    problem = reduce_index(flight.model, "stages").problem()
    other = _otherwise(flight, problem, _start(flight.model, problem)[0], project=True)
    return _difference(flight, other, flight.model.names)


def _otherwise(flight: Flight, equations: Any, u0: Vector, **how: Any) -> Solution:
    t_end = float(flight.t[-1])
    return solve(equations, u0=u0, sweeper="radau-iia-9", rtol=1e-8, t_end=t_end, **how)


UNREDUCED = Check("equations as they are", _unreduced, 1e-7)
STAGED = Check("reduced in stages", _staged, 1e-7)


def _torus(flight: Flight) -> dict[str, Any]:
    distance = flight.value("rho") * np.cos(flight.t) + flight.value("r")
    return {
        "x1": distance * np.cos(flight.t),
        "x2": distance * np.sin(flight.t),
        "x3": -flight.value("rho") * np.sin(flight.t),
    }


def _robot(flight: Flight) -> dict[str, Any]:
    growth = np.exp(flight.t)
    return {"x1": 1.0 - growth, "x3": growth - flight.t, "der(x1)": -growth, "der(x3)": growth - 1.0}


def _by_angle(values: Callable[[Flight, Any, Any], Sequence[Any]]) -> Callable[[Flight], dict[str, Any]]:
    """Values of all unknowns, in their order, from the sine and the cosine of time."""
    both = np.sin, np.cos
    return lambda f: dict(zip(f.model.names, values(f, *(each(f.t) for each in both)), strict=True))


def _reissig(flight: Flight) -> dict[str, Any]:
    """Two stages, in which x3 = x4 and x1 = x2: x4' + x4 = cos t + sin t and x2' + x2 = cos t - x4'."""
    decay = np.exp(-flight.t)
    last, first = flight("x4")[0], flight("x2")[0]
    x4 = np.sin(flight.t) + last * decay
    x2 = (first + last * flight.t) * decay
    return {"x1": x2, "x2": x2, "x3": x4, "x4": x4, "x5": np.cos(flight.t)}


def _tetrahedron(flight: Flight) -> float:
    """Four charges at rest are the corners of a regular tetrahedron, with multipliers of -3/4."""
    points = np.array([[flight(f"p{i}{axis}")[-1] for axis in "xyz"] for i in range(1, 5)])
    apart = [math.dist(points[i], points[j]) for i in range(4) for j in range(i)]
    pulls = [flight(f"lambda{i}")[-1] + 0.75 for i in range(1, 5)]
    return float(max(np.abs(np.array(apart) - math.sqrt(8 / 3)).max(), np.abs(pulls).max()))


def _lengths(flight: Flight) -> float:
    """Largest error of the squared lengths of pendula that set each other's."""
    length: Any = 1.0
    worst = 0.0
    for i in range(1, len(flight.model.names) // 3 + 1):
        error = flight(f"x{i}") ** 2 + flight(f"y{i}") ** 2 - length**2
        worst = max(worst, float(np.abs(error).max()))
        length = 1.0 + flight.value("c") * flight(f"lambda{i}")
    return worst


def _first_two(flight: Flight) -> float:
    """The first two pendula by their angles, which obey ordinary differential equations."""
    g, c = flight.value("g"), flight.value("c")

    def rates(_: float, y: Vector) -> list[float]:
        first, turn, second, swing = y
        turning = -g * math.sin(first)
        # The tension of the first is turn^2 + g cos(first); its rate moves the second's length.
        length = 1.0 + c * (turn**2 + g * math.cos(first))
        rate = c * (2.0 * turn * turning - g * math.sin(first) * turn)
        return [turn, turning, swing, (-g * math.sin(second) - 2.0 * rate * swing) / length]

    angles = [math.atan2(flight(f"x{i}")[0], flight(f"y{i}")[0]) for i in (1, 2)]
    (first, turn, second, _), _ = integrated(flight, rates, [angles[0], 0.0, angles[1], 0.0])
    length = 1.0 + c * (turn**2 + g * np.cos(first))
    exact = {"x1": np.sin(first), "y1": np.cos(first)}
    exact |= {"x2": length * np.sin(second), "y2": length * np.cos(second)}
    return max(float(np.abs(flight(name) - value).max()) for name, value in exact.items())


def _energy(flight: Flight) -> float:
    """Change of the energy of unit masses relative to their weight times the length of all links."""
    g, energy = flight.value("g"), np.zeros_like(flight.t)
    bobs = [name[1:] for name in flight.model.names if name[0] == "x"]
    length = len(bobs) if bobs[0] else flight.value("l")
    for bob in bobs:
        energy += (flight(f"der(x{bob})") ** 2 + flight(f"der(y{bob})") ** 2) / 2 + g * flight(f"y{bob}")
    return float(np.abs(energy - energy[0]).max() / (g * length * len(bobs)))


_CASCADE = _by_angle(lambda flight, s, c: [(-c, -s, c, s)[k % 4] for k in range(len(flight.model.names))])
_INDEX_SIX = _by_angle(lambda flight, s, c: (2 * s, c, -s - c, s - 2 * c, 2 * s, c))
_GEAR_PETZOLD = _by_angle(lambda flight, s, c: (s - flight.t * (c - c**2), c - c**2))
_PLACES = ("x_l", "y_l", "x_r", "y_r")
_AXIS = (*_PLACES, *(f"der({name})" for name in _PLACES), "lambda_1", "lambda_2")
_SQUEEZER = ("beta", "Theta", "gamma", "Phi", "delta", "Omega", "epsilon")
_CRANK = ("phi_1", "phi_2", "x_3", "q_1", "q_2", "q_3", "q_4")
_CHARGES = tuple(f"p{i}{axis}" for i in range(1, 21) for axis in "xyz")
_NODES = tuple(f"U_{i}" for i in range(1, 9))
_MODULATOR = (*(f"U_{i}" for i in range(1, 8)), *(f"I_{i}" for i in range(1, 9)))
_AKZO = ("FLB", "O2", "FLBT", "ZHU", "ZLA", "FLB.ZHU")
_TIGHT, _TINY = ({"rtol": 1e-8, "atol": atol} for atol in (1e-11, 1e-22))
TO = 200.0 * math.pi  # Where the particle has gone 100 times around the torus

# All models of the library
CASES: tuple[Case, ...] = (
    Case("pendulum", (Check("energy", _energy, 1e-7),)),
    *(
        Case(
            "pendula",
            (Check("squared lengths", _lengths, LENGTH), Check("angles of the first two", _first_two, 1e-6)),
            {"count": count},
        )
        for count in (2, 3, 4, 5)
    ),
    Case("pendulum-chain", (Check("energy", _energy, 1e-7),)),
    Case("car-axis", (test_set("caraxis", _AXIS, 1e-6),), settings={"rtol": 1e-10}),
    Case("seven-body", (test_set("andrews", _SQUEEZER, 1e-6),)),
    Case("flexible-slider-crank", (test_set("slidercrank", _CRANK, 1e-4),)),
    Case("slider-crank-4", (UNREDUCED,)),
    Case("charges-on-sphere", (Check("regular tetrahedron", _tetrahedron, 1e-7),), {"count": 4}),
    Case("charges-on-sphere", (test_set("fekete", _CHARGES, 1e-5),), {"count": 20}),
    Case("double-wishbone", (UNREDUCED, STAGED)),
    Case("suspension", (UNREDUCED,)),
    Case(
        "torus-particle",
        (exactly(_torus, 1e-4),),
        settings={"sweeper": "radau-iia-5", "dt": TO / 12566, "newton_tol": 1e-12, "t_end": TO},
    ),
    Case("robot-arm", (exactly(_robot, 1e-7),)),
    Case("shuttle-initial", (STAGED,)),
    Case("shuttle-final", (UNREDUCED, STAGED)),
    Case("transistor-amplifier", (test_set("transistor-amplifier", _NODES, 1e-6),)),
    Case("two-transistor", (test_set("transistor-amplifier", _NODES, 1e-6),)),
    Case("ring-modulator", (Check("end value without C_s", _modulator_end, 1e-5),), {"cs": 0.0}, _TIGHT),
    Case("ring-modulator", (test_set("ring-modulator", _MODULATOR, 1e-6),), settings=_TIGHT),
    *(Case("op-amp-cascade", (exactly(_CASCADE, 1e-10),), {"count": count}) for count in (10, 100)),
    Case("diode-ladder", (UNREDUCED,)),
    Case("chemical-akzo-nobel", (test_set("chemakzo", _AKZO, 1e-6),)),
    Case("robertson", (test_set("robertson", ("y_1", "y_2", "y_3"), 1e-5),), settings=_TINY),
    Case("index-6", (exactly(_INDEX_SIX, 1e-10),)),
    Case("reissig", (exactly(_reissig, 1e-7),)),
    Case("gear-petzold", (exactly(_GEAR_PETZOLD, 1e-8),)),
    *MECHANISMS,
    *DEVICES,
)


@study(
    "models",
    "model:U40 written:i8 equations:i8 index:i8 true_index:i8 dof:i8 reduction:U24 n:i8 operations:i8 "
    "veils:i8 time_read[s] time_simplify[s] time_structure[s] time_reduction[s] time_initial[s] time[s] "
    "sweeper:U32 rtol dt t_end steps:i8 reselections:i8 changed:i8 drift_before drift check:U64 error "
    "allowed passed:i8 message:U160",
    example="--problems reissig",
)
def models(
    rows: Table,
    *,
    problems: Sequence[str] | None = None,
    time_limit: float = 300.0,
    solutions: str | Path | None = None,
) -> None:
    """Analyse, reduce, start, simulate and check the models of the library."""
    known = dict.fromkeys(name for case in CASES for name in (case.label, case.model))
    names, labels = chosen("model with a check", problems, known), {case.label for case in CASES}
    # The name of a model stands for all its cases, unless it is that of one.
    cases = [c for c in CASES if c.label in names or (c.model in names and c.model not in labels)]
    folder = None if solutions is None else Path(solutions)
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the directory {folder}: {error.strerror}") from None
    for case in rows.each(cases, "model"):
        _measure(rows, case, time_limit, folder)


def _measure(rows: Table, case: Case, time_limit: float, folder: Path | None) -> None:
    times = [perf_counter()]
    written = make_model(case.model, case.params)
    times.append(perf_counter())
    simplified = simplify(written) if resolve(case.model).from_tool else None
    model = written if simplified is None else simplified.model
    times.append(perf_counter())
    found = structure(model)
    times.append(perf_counter())
    reduced = reduce_index(model)
    times.append(perf_counter())
    try:
        problem = reduced.problem()
        u0, changed = _start(model, problem)
        times.append(perf_counter())
        solution = solve(problem, u0=u0, project=True, time_limit=time_limit, **case.settings)
    except DAEError as error:
        rows.put(model=case.label, message=str(error))
        return
    times.append(perf_counter())
    if simplified is not None:
        values = {name: p.required(written.name) for name, p in written.parameters_by_name.items()}
        solution = replace(solution, unknowns=Unknowns(simplified, values))
    stats = solution.stats
    spent = dict(zip(models.units, np.diff(times), strict=True))
    about: dict[str, Any] = {
        **{"model": case.label, "written": len(written.names), "equations": len(model.names)},
        **{"index": found.index, "dof": found.true_dof},
        **{"true_index": -1 if found.differentiation_index is None else found.differentiation_index},
        **{"reduction": reduced.method, "n": problem.n, "veils": len(reduced.veils), "changed": changed},
        **{"operations": sum(reduced.cost.shared), "sweeper": str(solution.parameters["sweeper"])},
        **{"steps": stats["steps"], "t_end": solution.t[-1], "message": solution.message},
        **{"reselections": problem.reselections, "drift": stats["drift"]},
        "drift_before": stats["drift_before_projection"],
        **{name: case.settings[name] for name in ("rtol", "dt") if name in case.settings},
        **spent,
    }
    if folder is not None:
        t, filled = solution.t, solution
        if len(t) < DRAWN:
            filled = solution.at(np.union1d(t, np.linspace(t[0], t[-1], DRAWN)))
        filled.save(folder / f"{case.label}.npy")
    if not solution.success:
        rows.put(**about)
        return
    for check in case.checks:
        found_error = check.error(Flight(written, solution))
        passed = int(found_error <= check.allowed)
        rows.put(**about, check=check.what, error=found_error, allowed=check.allowed, passed=passed)


def _start(model: Model, problem: ReducedProblem) -> tuple[Vector, int]:
    """The state of a reduced system with consistent values, and how many start values had to change."""
    found = initial(model, restarts=0)
    return np.array([found.values[name] for name in problem.names]), len(found.changed)


@models.reports
def report(result: Result) -> Iterator[str]:
    yield "index: structural / true; size: equations as written / simplified / unknowns after reduction;"
    yield "operations of the reduced system; s: reading, simplification, structure, reduction, start,"
    yield "simulation; invariants: before / after projection"
    yield f"{TEXT.head()}  check"
    failed, before = [], ""
    for row in result.data:
        if not row["check"]:
            yield f"{row['model']:<24} {row['message']}"
            failed.append(str(row["model"]))
            continue
        head = TEXT.line(row, s=" ".join(f"{row[name]:5.2f}" for name in models.units))
        head = " " * len(head) if row["model"] == before else head
        before = row["model"]
        yield f"{head}  {row['check']}: {row['error']:.1e} (allowed {row['allowed']:.0e})"
        if not row["passed"]:
            failed.append(f"{row['model']} ({row['check']})")
    yield f"not reached: {', '.join(failed) or 'none'}"
