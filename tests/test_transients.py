"""Values in transients whose time is uncertain are told, and the short steps in them are taken."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dae_sdc as ds
from benchmarks.measuring.runs import DONE, REFUSED
from benchmarks.studies.truth.study import repeat
from dae_sdc.model.functions import problem_of_function
from dae_sdc.run.equations import read
from dae_sdc.sweepers.steps_ahead import StepSizes, approached
from dae_sdc.sweepers.tolerance import multipliers

LEAK, SATURATION, THERMAL = 1e-6, 1e-9, 0.04


def current(v: Any) -> Any:
    """Current of a diode."""
    return SATURATION * (np.exp(v / THERMAL) - 1.0) + LEAK * v


def coil(t: Any, u: Any, du: Any) -> list[Any]:
    """A coil that is discharged through a diode, until that closes within a millionth of the time."""
    i, v = u
    return [du[0] + 0.3 * i + 1.0 + v, i - current(v)]


def slowness(v: float, t: Any = None) -> list[float]:
    """dt/dv of the coil: its solution is an integral over v."""
    slope = SATURATION / THERMAL * np.exp(v / THERMAL) + LEAK
    return [float(slope / -(0.3 * current(v) + 1.0 + v))]


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("way", [{}, {"nodes": 3}, {"trace": False}])
def test_an_unknown_that_follows_a_late_transient_is_told(way: dict[str, Any], rtol: float) -> None:
    v0 = THERMAL * np.log(1.0 / SATURATION)
    solution = ds.solve(coil, u0={"i": current(v0), "v": v0}, t_end=1.5, rtol=rtol, **way)
    # Each row tells by its v how late it is, and that is an error of v of so much times v'.
    some = (solution["v"] > -0.9) & (solution["v"] < v0)
    exact = solve_ivp(slowness, (v0, -0.9), [0.0], rtol=1e-13, atol=1e-15, dense_output=True).sol
    rows = zip(solution.t[some], solution["v"][some], strict=True)
    errors = [abs((t - exact(v)[0]) / slowness(v)[0]) for t, v in rows]
    told = re.search(r"^v: errors up to (\S+), .* in transients as near t=0\.5", solution.message)
    assert solution.success and told is not None
    assert max(errors) <= float(told[1])


def test_values_outside_a_transient_are_not_told() -> None:
    v0 = THERMAL * np.log(1.0 / SATURATION)
    ways: dict[str, Any] = {"u0": {"i": current(v0), "v": v0}, "t_end": 1.5, "rtol": 1e-6}
    solution = ds.solve(coil, t_eval=np.linspace(0.0, 1.5, 31), **ways)
    assert solution.success and "errors up to" not in solution.message


def relaxing(t: Any, u: Any, du: Any) -> list[Any]:
    """Two unknowns that relax in a ten-millionth of the time, behind a start and a jump at t = 1."""
    fast, after = u
    return [1e-7 * du[0] + fast - np.where(t < 1.0, 0.5, 2.0) * np.cos(t), after - fast**2]


def swinging(t: Any, u: Any, du: Any) -> list[Any]:
    """An oscillation of two thousand periods."""
    return [du[0] - 1e3 * u[1], du[1] + 1e3 * u[0], u[2] - u[0] * u[1]]


@pytest.mark.parametrize("nodes", [None, 3])
def test_transients_from_known_times_and_fast_oscillations_are_not_told(nodes: int | None) -> None:
    ways: dict[str, Any] = {"rtol": 1e-6, "nodes": nodes}
    solution = ds.solve(relaxing, u0={"fast": 0.0, "after": 0.0}, t_end=2.0, **ways)
    assert solution.success and not solution.message
    solution = ds.solve(swinging, u0=[1.0, 0.0, 0.0], t_end=12.0, **ways)
    assert solution.success and not solution.message


def diodes(t: Any, u: Any, du: Any) -> list[Any]:
    """Three coils in a node of their own, between diodes that close within a ten-millionth of the time."""

    def diode(v: Any, saturation: float, thermal: float, leak: float) -> Any:
        return 1e-3 * (saturation * (np.exp(v / thermal) - 1.0) + leak * v)

    e1, e2, e3, e4, e5, i_source, i1, i2, i3 = u
    bridge = 0.12e-6 * (du[1] - du[0]) + (e2 - e1) * (1.0 / 9.2e3 + 1.0 / 380.0)
    upper, lower = diode(e3 - e2, 1e-9, 0.05, 1e-5), diode(e4 - e3, 1e-9, 0.035, 1e-6)
    to_source, to_lower = diode(-e1, 1e-6, 0.05, 1e-6), diode(-e4, 1e-8, 0.026, 1e-6)
    return [
        *(i_source - bridge - to_source, bridge - upper - i2, upper - lower - i3, lower - to_lower),
        *(i1 + i2 + i3, e1 - 6.0 * (1.0 - np.cos(780.0 * t))),
        *(0.15 * du[6] - e5, 0.26 * du[7] - e5 + e2, 0.12 * du[8] - e5 + e3),
    ]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("rtol", [1e-7, 1e-8])
def test_rounding_in_short_steps_ends_no_run_whose_index_is_not_known(rtol: float) -> None:
    names = "e1 e2 e3 e4 e5 i_source i1 i2 i3".split()
    solution = ds.solve(diodes, u0=dict.fromkeys(names, 0.0), t_end=0.01, rtol=rtol, trace=False)
    assert "index is not found" in solution.parameters["equations"]
    assert solution.success, solution.message
    # Behind the transients the circuit follows the source.
    known = ds.solve(diodes, u0=dict.fromkeys(names, 0.0), t_end=0.01, rtol=rtol)
    np.testing.assert_allclose(solution.u[-1], known.u[-1], rtol=100.0 * rtol, atol=100.0 * rtol)


@pytest.mark.parametrize("rtol", [1e-6, 1e-7, 1e-8])
@pytest.mark.parametrize("width", [0.02, 0.05, 0.1])
def test_an_unknown_of_index_2_is_held_where_it_changes_within_a_step(width: float, rtol: float) -> None:
    """x is given, with a rise at t = 1, and z + z |z| / 10 = x'."""

    def rise(t: Any, u: Any, du: Any) -> list[Any]:
        x, y, z = u
        return [du[0] - z - 0.1 * z * abs(z), x - 3.0 * np.arctan((t - 1.0) / width), du[1] + y - z]

    def exact(t: Any) -> Any:
        slope = 3.0 * width / (width**2 + (t - 1.0) ** 2)
        return 5.0 * (np.sqrt(1.0 + 0.4 * slope) - 1.0)

    start = {"x": 3.0 * np.arctan(-1.0 / width), "y": 0.0, "z": float(exact(0.0))}
    for end in (1.0, 1.6):  # the last step may be the one that sees it
        solution = ds.solve(rise, u0=start, t_end=end, rtol=rtol, trace=False)
        z = exact(solution.t)
        allowed = 30.0 * rtol * (z + np.maximum.accumulate(z))
        assert solution.success and (np.abs(solution["z"] - z) <= allowed).all()


def test_unknowns_may_be_multipliers_where_the_index_is_not_known() -> None:
    problem = problem_of_function(coil, ("i", "v"))
    problem.index, problem.variable_index = 1, (1, 1)
    assert not multipliers(problem).any()
    problem.index = None
    assert multipliers(problem).all()


def test_a_diode_beside_coils_and_a_floating_capacitor_keeps_index_1() -> None:
    def circuit(t: Any, u: Any, du: Any) -> list[Any]:
        e1, e2, e3, e4, e6, i_source, i1, i2 = u
        charge = 0.37 * (du[2] - du[3])
        first, second = current(e1 - e2), current(e2 - e4)
        return [
            *(i_source + first + (e1 - e3) / 5.0 - i2, second - first),
            *((e3 - e1) / 5.0 + charge - i1, e4 / 3.0 - charge - second),
            *(i1 + i2, e1 - 12.0 * np.sin(t) ** 2),
            *(0.36 * du[6] - e6 + e3, 0.18 * du[7] - e6 + e1),
        ]

    names = "e1 e2 e3 e4 e6 i_source i1 i2".split()
    found = read(problem_of_function(circuit, names), np.zeros(8)).problem
    # The source determines e1, the second row e2, the first the current; e6 follows from i1' + i2' = 0.
    assert found.index == 2 and found.variable_index == (1, 1, 1, 1, 2, 1, 1, 1)


class Slope(NamedTuple):
    """The end of a step at which the largest relative u' is known."""

    value: float

    def end_slope(self) -> float:
        return self.value


@pytest.mark.parametrize(("part", "least", "most"), [(1.0, 1e-7, 2.3e-6), (0.01, 1e-9, 3e-8)])
def test_an_approach_that_changes_little_is_followed_nearer(part: float, least: float, most: float) -> None:
    """Rounding of time changes u by more than rtol = 1e-10 from 2.2e-6 on at a pole, at a logarithm later."""
    sizes, time, found = StepSizes(1e-10), 0.0, math.nan
    while math.isnan(found):
        left = 1.0 - time
        found = approached(sizes, Slope(part / left), time, 0.3 * left)
        time += 0.3 * left if math.isnan(found) else 0.0
    assert least < 1.0 - time < most


def test_steps_that_no_longer_move_the_time_approach_no_point() -> None:
    sizes = StepSizes(1e-10)
    assert all(math.isnan(approached(sizes, Slope(1e100), 1.0, 0.7**k)) for k in range(200))


@pytest.mark.parametrize(
    "line, outcome",
    [
        # A voltage of 148 at the start, 5 from then on: what rtol is relative to is told.
        ("circuits:144001:written:smooth:nodes-3:rtol=1e-06", REFUSED),
        ("circuits:144001:written:smooth:untraced:rtol=1e-08", REFUSED),
        # The current of a loop of capacitors between the nodes of a step.
        ("circuits:144003:written:smooth-loop:between:rtol=1e-06", DONE),
        # A current that follows from a state and multiplies its error by 30, by many short steps.
        *((f"bridges:54002:written:bridge-exponential-loop:nodes-3:rtol=1e-0{k}", DONE) for k in (6, 9)),
        # Equations whose units differ by 24 orders of magnitude, of which one depends on others.
        ("mechanics-index-3:54000:plain:function+units:traced:rtol=1e-09", DONE),
        # A knee that the nodes of a step see as smooth: F between them shows it.
        ("bridges:63002:written:bridge-smooth:traced:rtol=1e-05", DONE),
        ("bridges:78000:written:bridge-smooth:untraced:rtol=0.0001", DONE),
        # A current that follows a voltage fast, bound by a hidden constraint, between the steps.
        ("circuits:224001:written:exponential-cutset:between:rtol=1e-08", DONE),
        # A rank that a diode which blocks leaves in doubt: its index is 2.
        *((f"circuits:224005:written:exponential-cutset:between:rtol={r}", DONE) for r in (1e-6, 1.07e-6)),
        # Multipliers at the end of a step that grows.
        ("hessenberg-3:63000:plain:problem+jacobian:traced:rtol=1e-08", REFUSED),
    ],
)
def test_generated_circuits_are_right_or_told(line: str, outcome: str) -> None:
    finding = repeat(line)  # rounding may decide that what would be told is right
    assert finding.outcome in (DONE, outcome), finding.message


def test_an_algebraic_unknown_with_a_rare_peak_is_told_by_its_size_and_others_are_not() -> None:
    def peaked(t: float, u: Any, du: Any) -> Any:
        x, y, z = u
        return [du[0] - 1.0, y - 1e3 * np.exp(-1e5 * x) - np.sin(x), z - 2.0 * y]

    settings: dict[str, Any] = {"u0": {"x": 0.0, "y": 1e3, "z": 2e3}, "t_end": 3.0, "rtol": 1e-6}
    run = ds.solve(peaked, **settings)
    assert run.success and "y, z: errors up to" in run.message and "relative to 2e+03" in run.message
    assert "relative to" not in ds.solve(peaked, atol=1e-6, **settings).message
    often = ds.solve(lambda t, u, du: [du[0] - 1.0, u[1] - 1e3 * np.sin(u[0])], u0=[0.0, 0.0], t_end=3.0)
    assert often.message == ""
