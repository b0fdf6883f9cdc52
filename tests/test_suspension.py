"""The double wishbone in space: kinematics, statics, linear answers and time, by three assumptions."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import sympy
from scipy.linalg import expm
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

import dae_sdc as ds
from dae_sdc.linear.linearized import LinearModel, State, inputs_of
from dae_sdc.problems.suspension import ASSUMPTIONS, PLACES, suspension_frame
from dae_sdc.run.target import make_model

AT = {name: np.array(place) for name, place in PLACES.items()}
POSE = ("x", "y", "z", "camber", "pitch", "toe")
DIRECTIONS = ("x", "y", "z", "rx", "ry", "rz")


def rest_of(assumption: str, **params: float) -> Any:
    return ds.steady_state("suspension", params={"assumption": assumption, **params})


@cache
def linear(assumption: str) -> Any:
    """The linear system at rest."""
    given, outputs = {"assumption": assumption}, ["x", "z", "camber", "toe"]
    return ds.linearize("suspension", params=given, inputs=["F_y", "F_z", "road"], outputs=outputs)


def positions(z: float) -> tuple[np.ndarray, float, float]:
    """Pose of the carrier, length of the shock absorber and turn of the rocker, by SciPy alone."""

    def moved(q: Any) -> dict[str, np.ndarray]:
        x, y, camber, pitch, toe, rocker = q
        turn = Rotation.from_euler("ZXY", [-toe, -camber, pitch])
        about_x = Rotation.from_euler("x", rocker)
        centre = AT["W"] + [x, y, z]
        found = {one: centre + turn.apply(AT[one] - AT["W"]) for one in ("LO", "UO", "TO")}
        return found | {one: AT["R"] + about_x.apply(AT[one] - AT["R"]) for one in ("RP", "RS")}

    def lengths(q: Any) -> list[float]:
        places = AT | moved(q)
        rods = (("LF", "LO"), ("LR", "LO"), ("UF", "UO"), ("UR", "UO"), ("T", "TO"), ("RP", "LO"))
        return [math.dist(places[a], places[b]) - math.dist(AT[a], AT[b]) for a, b in rods]

    q = least_squares(lengths, np.zeros(6), xtol=1e-15, ftol=1e-15, gtol=1e-15).x
    assert np.abs(lengths(q)).max() < 1e-13
    shock = float(np.linalg.norm(moved(q)["RS"] - AT["S"]))
    return np.array([q[0], q[1], z, *q[2:5]]), shock, q[5]


@pytest.mark.parametrize("load", [-1200.0, 0.0, 1500.0])
def test_the_rigid_suspension_rests_where_work_and_lengths_say(load: float) -> None:
    rest = rest_of("rigid", load=load)
    z = rest["z"]
    pose, shock, rocker = positions(z)
    np.testing.assert_allclose([rest[one] for one in POSE], pose, atol=1e-10)
    assert rest["rocker"] == pytest.approx(rocker, abs=1e-10)
    near, far = (positions(z + step) for step in (-1e-5, 1e-5))
    slope = (far[1] - near[1]) / 2e-5
    camber = (far[0][3] - near[0][3]) / 2e-5
    push = 5249.65 + 5e4 * (float(np.linalg.norm(AT["S"] - AT["RS"])) - shock)
    ground = (300.0 + 35.0) * 9.81 + load  # all that rests on it
    # The ground does work where the lowest point of the wheel rises, z + r (1 - cos camber).
    work = ground * (1 + 0.21 * np.sin(pose[3]) * camber) - 35.0 * 9.81 + push * slope
    assert abs(work) < 1e-5 * ground
    height = rest["heave"] + z + 0.21 * (1 - np.cos(pose[3]))
    assert height == pytest.approx(-load / 2e5, abs=1e-12)


def test_the_compliant_suspension_is_displaced_as_its_frame_is() -> None:
    loads = {"F_x": -900.0, "F_y": 1500.0, "F_z": -400.0, "M_x": 60.0, "M_y": -80.0, "M_z": 120.0}
    rests = [rest_of(one, **loads) for one in ("quasi-static", "dynamic")]
    for name in rests[0].names[:13]:
        assert rests[1][name] == pytest.approx(rests[0][name], abs=1e-11)
    rest = rests[0]
    rigid = np.array([rest[f"rigid.{one}"] for one in POSE])
    turn = Rotation.from_euler("ZXY", [-rigid[5], -rigid[3], rigid[4]])
    places = dict(AT)
    for one in ("LO", "UO", "TO"):
        places[one] = AT["W"] + rigid[:3] + turn.apply(AT[one] - AT["W"])
    places["W"] = AT["W"] + rigid[:3]
    for one in ("RP", "RS"):
        places[one] = AT["R"] + Rotation.from_euler("x", rest["rocker"]).apply(AT[one] - AT["R"])
    ground = (300.0 + 35.0) * 9.81 - loads["F_z"]
    lean, toe = rest["camber"], rest["toe"]
    down = -0.21 * np.array([np.sin(lean) * np.sin(toe), np.sin(lean) * np.cos(toe), np.cos(lean)])
    force = np.array([0.0, 0.0, ground])
    total = np.concatenate([force - [0.0, 0.0, 35.0 * 9.81], np.cross(down, force)]) + list(loads.values())
    frame = suspension_frame(ds.Model("frame"), {name: place.tolist() for name, place in places.items()})
    frame.load("W", **dict(zip(DIRECTIONS, total.tolist(), strict=True)))
    state = frame.solve().at()
    moved = [state[f"W.{one}"] for one in DIRECTIONS]
    np.testing.assert_allclose([rest[f"W.{one}"] for one in DIRECTIONS], moved, rtol=1e-8)
    np.testing.assert_allclose([rest[one] for one in "xyz"], rigid[:3] + moved[:3], atol=1e-11)
    both = Rotation.from_euler("ZXY", [-rest["toe"], -rest["camber"], rest["pitch"]]) * turn.inv()
    np.testing.assert_allclose(both.as_rotvec(), moved[3:], atol=2e-5)  # the square of the rotation


@pytest.mark.parametrize(
    ("assumption", "expected"), [("rigid", (3, 4)), ("quasi-static", (3, 4)), ("dynamic", (2, 15))]
)
def test_assumptions_have_their_index_and_poles(assumption: str, expected: tuple[int, int]) -> None:
    found = linear(assumption)
    assert (found.index, len(found.poles)) == expected and found.stable
    assert found.modes[0].frequency == pytest.approx(8.8, abs=0.2)  # the body on its spring


def along_waves(found: Any, height: float, omega: float, times: np.ndarray) -> np.ndarray:
    """Outputs of a linear system on a road of height (1 - cos(omega t)) / 2, by exponentials of matrices."""
    form, column = found.minimal(), found.inputs.index("road")
    n, gain = len(form.A), 0.5 * height * form.B[:, column]
    whole = np.zeros((n + 3, n + 3))
    whole[:n, :n], whole[:n, n], whole[:n, n + 1] = form.A, gain, -gain
    whole[n + 1, n + 2], whole[n + 2, n + 1] = -omega, omega
    start = np.zeros(n + 3)
    start[n : n + 2] = 1.0
    states = np.array([expm(whole * t) @ start for t in times])
    road = 0.5 * height * (1.0 - np.cos(omega * times))
    assert not form.of_derivatives
    return np.asarray(states[:, :n] @ form.C.T + road[:, None] * form.D[:, column])


@pytest.mark.parametrize("assumption", ASSUMPTIONS)
def test_small_loads_move_it_as_the_linear_answer_says(assumption: str) -> None:
    found, rest = linear(assumption), rest_of(assumption)
    times = np.linspace(0.0, 0.2, 21)
    run = ds.solve(
        "suspension",
        u0={name: rest[name] for name in rest.names if not name.startswith("der(")},
        params={"assumption": assumption, "bump": 1e-5, "speed": 10.0, "wave": 0.5},
        t_end=0.2,
        rtol=1e-8,
        atol=1e-11,
        t_eval=times,
    )
    assert run.success
    answers = along_waves(found, 1e-5, 40.0 * np.pi, times)
    for name, expected in zip(found.outputs, answers.T, strict=True):
        moved = run.values(name) - rest[name]
        assert np.abs(moved - expected).max() <= 1e-4 * np.abs(expected).max(), name


@cache
def responses(assumption: str, **params: float) -> Any:
    """Of x, z, camber and toe to forces and the road, by the matrices alone, without their index."""
    model = make_model("suspension", {"assumption": assumption, **params})
    rest, frozen = ds.steady_state(model), LinearModel(model, inputs_of(["F_y", "F_z", "road"]))
    place = [rest.names.index(name) for name in frozen.names]
    matrices = frozen.matrices(State(0.0, rest.u[place], np.zeros(len(place))))
    mass, slope, gain = (matrix.toarray() for matrix in matrices)
    outputs = [frozen.names.index(name) for name in ("x", "z", "camber", "toe")]
    return np.array([np.linalg.solve(1j * omega * mass - slope, gain)[outputs] for omega in (1.0, 3.0, 20.0)])


def difference(one: Any, other: Any) -> float:
    """The largest difference of frequency responses, relative to that of each input."""
    return float((np.abs(one - other) / np.abs(other).max(axis=(0, 1))).max())


@pytest.mark.long
def test_without_mass_the_dynamic_suspension_is_quasi_static() -> None:
    found = []
    for part in (1.0, 1e-3):
        masses = {"m_wheel": 35.0 * part, "J_across": 1.2 * part, "J_along": 0.4 * part}
        given = masses if part < 1.0 else {}
        damped = {**masses, "beta": 1e-4 * part} if part < 1.0 else {}
        found.append(difference(responses("dynamic", **damped), responses("quasi-static", **given)))
    assert found[1] == pytest.approx(1e-3 * found[0], rel=0.2)


@pytest.mark.parametrize("assumption", ["quasi-static", "dynamic"])
def test_a_stiff_suspension_is_rigid(assumption: str) -> None:
    stiff = responses(assumption, E=2.1e14, G=8e13, k_mount=8e9)
    far = difference(responses(assumption), responses("rigid"))
    assert difference(stiff, responses("rigid")) == pytest.approx(1e-3 * far, rel=0.2)


def test_an_unknown_assumption_is_refused() -> None:
    with pytest.raises(ds.InputError, match="quasi-static"):
        ds.MODELS["suspension"]("static")


def table_of_a_step(height: float, place: float) -> ds.LookupTable:
    """How high a wheel of 0.21 m is lifted that goes up on an edge: its centre is on a circle about it."""
    before = math.sqrt(2.0 * 0.21 * height - height**2)
    along = np.linspace(place - before, place, 13)
    lifted = height - 0.21 + np.sqrt(0.21**2 - (along - place) ** 2)
    return ds.LookupTable(along, np.maximum(lifted, 0.0), kind="linear", outside="hold")


def test_a_flat_profile_changes_nothing_at_rest() -> None:
    rest = ds.steady_state(ds.MODELS["suspension"](profile=lambda place: 0 * place))
    assert np.abs(rest.u - rest_of("rigid").u).max() < 1e-9


@pytest.mark.long
def test_behind_a_step_the_car_is_as_before_it_but_higher() -> None:
    model = ds.MODELS["suspension"](profile=table_of_a_step(0.02, 1.0))
    ride = ds.solve(model, t_end=12.0, rtol=1e-6)
    assert ride.success
    assert ride["heave"][-1] == pytest.approx(0.02, abs=1e-6)
    for name in ride.names:
        if name.startswith("tension"):
            assert ride[name][-1] == pytest.approx(ride[name][0], rel=1e-5)
    # Until the wheel meets the edge, 9 cm before it, nothing moves.
    early = ride.at(np.linspace(0.0, 0.09, 10))
    assert np.abs(early.values("heave")).max() < 1e-6


@pytest.mark.long
def test_long_low_waves_are_followed() -> None:
    """At 0.05 Hz the body is where the road is, but for the square of that over its own frequency."""
    height, wave = 0.004, 40.0
    profile = lambda place: height / 2 * (1 - sympy.cos(2 * sympy.pi * place / wave))  # noqa: E731
    ride = ds.solve(ds.MODELS["suspension"](profile=profile), params={"speed": 2.0}, t_end=20.0, rtol=1e-6)
    road = height / 2 * (1.0 - np.cos(2.0 * np.pi * 2.0 * ride.t / wave))
    assert np.abs(ride["heave"] - road).max() < 0.01 * height
