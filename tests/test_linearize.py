"""Linear systems of DAEs near states: poles, modes, zeros, responses and minimal forms."""

from __future__ import annotations

import struct
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import sympy

import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.initial import jets
from dae_sdc.linear.system import LinearSystem, by_ranks
from dae_sdc.run.linearize import main as linearize_verb
from dae_sdc.sharing import Recent

M, C, K, KC, CC = 250.0, 1500.0, 2.0e4, 1.8e5, 300.0


def one_mass(assumption: str) -> tuple[Any, str]:
    """A mass on a compliant mount, by the assumption on the mount; and the name of its acceleration."""
    m = ds.Model(assumption)
    der = m.der
    x, f = m.variable("x", 0.0, unit="m"), m.parameter("f", 0.0, unit="N")
    if assumption == "none":
        m.equation(M * der(x, 2) + C * der(x) + K * x - f, name="force")
        return m, "der(x, 2)"
    d, y = m.variables("d y", 0.0, unit="m")
    if assumption == "quasi-static":
        m.equations(M * der(x, 2) + C * der(x) + K * x - f, KC * d - f, y - x - d)
    else:
        m.equations(
            M * der(y, 2) + KC * d + CC * der(d) - f, K * x + C * der(x) - KC * d - CC * der(d), y - x - d
        )
    return m, "der(y, 2)"


def formula(assumption: str, s: Any) -> Any:
    plain = M * s**2 + C * s + K
    if assumption == "none":
        return s**2 / plain
    if assumption == "quasi-static":
        return s**2 / plain + s**2 / KC
    below = M * (C + CC) * s**3 + (C * CC + M * (K + KC)) * s**2 + (KC * C + K * CC) * s + K * KC
    return ((C + CC) * s**3 + (K + KC) * s**2) / below


CASES = {"none": (0, 2), "quasi-static": (1, 2), "dynamic": (1, 3)}
"""Index and number of finite poles by assumption."""


@pytest.mark.parametrize("assumption", CASES)
def test_one_mass_on_a_mount_has_the_transfer_function_of_its_formula(assumption: str) -> None:
    model, acceleration = one_mass(assumption)
    found = ds.linearize(model, inputs=["f"], outputs=[acceleration])
    omega = np.logspace(-2.0, 4.0, 121)
    expected = formula(assumption, 1j * omega)
    response = found.frequency_response(omega)[:, 0, 0]
    assert np.abs(response / expected - 1.0).max() < 1e-12
    assert (found.index, len(found.poles)) == CASES[assumption]
    assert found.infinite + len(found.poles) == found.E.shape[0]
    assert found.output_units == ("m/s^2",) and found.input_units == ("N",)
    form = found.minimal()
    by_form = [_value(form, s) for s in 1j * omega]
    np.testing.assert_allclose(np.ravel(by_form), expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())
    assert bool(form.of_derivatives) == (assumption == "quasi-static")


def _value(form: Any, s: complex) -> Any:
    inner = np.linalg.solve(s * np.eye(len(form.A)) - form.A, form.B)
    return form.C @ inner + form.D + sum(D * s**k for k, D in enumerate(form.of_derivatives, start=1))


def test_modes_have_frequency_damping_and_names() -> None:
    found = ds.linearize(one_mass("quasi-static")[0], inputs=["f"], outputs=["der(y, 2)"])
    (mode,) = found.modes
    assert mode.frequency == pytest.approx(np.sqrt(K / M), rel=1e-13)
    assert mode.damping == pytest.approx(C / (2.0 * np.sqrt(K * M)), rel=1e-12)
    assert mode.unknowns == ("x",)
    zeros = found.zeros()
    assert np.abs(zeros[np.abs(zeros) > 1.0]) == pytest.approx(np.sqrt((K + KC) / M), rel=1e-12)
    dynamic = ds.linearize(one_mass("dynamic")[0])
    assert [mode.unknowns for mode in dynamic.modes] == [("y",), ("d",)]
    assert "infinite" in str(found) and "damping" in str(found)


def scrambled(source: np.random.Generator, index: int) -> tuple[Any, Any, Any, Any, Any]:
    """E, A of a given index, with the poles and their condition numbers, and the number of infinite ones."""
    n = int(source.integers(2 * index + 4, 61))
    infinite = 0 if index == 0 else int(source.integers(index, n - 1))
    finite = n - infinite
    inner, at = np.zeros((finite, finite)), 0
    while at < finite:
        size, turn = 10.0 ** source.uniform(-1.0, 1.5, 2)
        if at + 1 < finite and source.random() < 0.5:
            inner[at : at + 2, at : at + 2] = [[-size, turn], [-turn, -size]]
            at += 2
        else:
            inner[at, at] = size * source.choice([-1.0, 1.0])
            at += 1
    chains, at = np.zeros((infinite, infinite)), 0
    while at < infinite:
        length = min(index if at == 0 else int(source.integers(1, index + 1)), infinite - at)
        chains[at : at + length - 1, at + 1 : at + length] = np.eye(length - 1)
        at += length
    E, A = scipy.linalg.block_diag(np.eye(finite), chains), scipy.linalg.block_diag(inner, np.eye(infinite))
    left, right = (_mixing(source, n) for _ in range(2))
    E, A = left @ E @ right, left @ A @ right
    poles, vectors = np.linalg.eig(inner)
    # A perturbation of relative size eps moves a pole by |y| |x| (|A| + |pole| |E|) eps / |y E x|.
    x = np.linalg.solve(right, np.vstack([vectors, np.zeros((infinite, finite))]))
    y = np.linalg.solve(left.T, np.vstack([np.linalg.inv(vectors).T, np.zeros((infinite, finite))]))
    sizes = np.linalg.norm(x, axis=0) * np.linalg.norm(y, axis=0)
    moved = sizes * (np.linalg.norm(A, 2) + np.abs(poles) * np.linalg.norm(E, 2)) / np.abs(poles)
    return E, A, poles, moved, infinite


def _mixing(source: np.random.Generator, n: int) -> Any:
    turns = [np.linalg.qr(source.standard_normal((n, n)))[0] for _ in range(2)]
    return turns[0] @ np.diag(10.0 ** source.uniform(-1.0, 1.0, n)) @ turns[1]


def test_finite_and_infinite_poles_of_scrambled_systems_are_told_apart() -> None:
    source = np.random.default_rng(7)
    held = 0
    for number in range(200):
        index = number % 5
        E, A, poles, moved, infinite = scrambled(source, index)
        form, steps = by_ranks(E, A, np.zeros((len(E), 0)))
        found = form.poles()
        assert (steps, len(E) - len(found)) == (index, infinite)
        distance = np.abs(poles[:, None] - found[None]) / np.abs(poles)[:, None]
        rows, columns = scipy.optimize.linear_sum_assignment(distance)
        # To 1e-8 where the condition number allows it: up to 1e8 units of round-off over 1e-8, with a factor.
        allowed = np.maximum(1e-8, 100.0 * np.finfo(float).eps * moved[rows])
        assert (distance[rows, columns] <= allowed).all()
        held += int((distance[rows, columns] <= 1e-8).all())
    assert held == 200


def test_a_singular_pencil_is_refused() -> None:
    E, A = np.diag([1.0, 0.0, 0.0]), np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 2.0, 2.0]])
    with pytest.raises(ds.SingularMatrixError, match="dependent"):
        by_ranks(E, A, np.zeros((3, 0)))


def in_minimal_coordinates(found: LinearSystem) -> Any:
    """Poles of a mechanism at rest, by the null space of its constraints: M x'' + D x' + K x + G' l = 0."""
    E, A = found.E.toarray(), found.A.toarray()
    names = list(found.states)
    of = {name: name[4:-1] if name.startswith("der(") else name[2:] for name in names}
    speeds = [j for j, name in enumerate(names) if name.startswith(("der(", "v_"))]
    places = [names.index(of[names[j]]) for j in speeds]
    others = [j for j in range(len(names)) if j not in places]
    moving = [i for i in range(len(E)) if E[i, speeds].any()]
    fixed = [i for i in range(len(E)) if not E[i].any() and not A[i, others].any()]
    forces = [j for j in others if j not in speeds and A[moving, j].any()]
    mass, damping = E[np.ix_(moving, speeds)], -A[np.ix_(moving, speeds)]
    stiffness, multipliers = -A[np.ix_(moving, places)], -A[np.ix_(moving, forces)]
    free = scipy.linalg.null_space(A[np.ix_(fixed, places)])
    left = scipy.linalg.null_space(multipliers.T)
    mass, damping, stiffness = (left.T @ one @ free for one in (mass, damping, stiffness))
    r = len(mass)
    lower = np.linalg.solve(mass, np.hstack([-stiffness, -damping]))
    return np.linalg.eigvals(np.vstack([np.hstack([np.zeros((r, r)), np.eye(r)]), lower]))


def same(found: Any, expected: Any, relative: float = 1e-8) -> None:
    assert len(found) == len(expected)
    sizes = np.maximum(np.abs(expected), 1e-3 * np.abs(expected).max())
    distance = np.abs(np.asarray(expected)[:, None] - np.asarray(found)[None]) / sizes[:, None]
    rows, columns = scipy.optimize.linear_sum_assignment(distance)
    assert distance[rows, columns].max() <= relative


def test_a_hanging_pendulum_swings_with_its_frequency() -> None:
    found = ds.linearize("pendulum", at={"x": 0.0, "y": -1.0, "lambda": 9.8})
    same(found.poles, [1j * np.sqrt(9.8), -1j * np.sqrt(9.8)], 1e-13)
    assert (found.index, found.infinite) == (3, 3) and found.modes[0].unknowns == ("x",)
    standing = ds.linearize(
        "pendulum", at=ds.steady_state("pendulum", guess={"x": 0, "y": 1, "lambda": -9.8})
    )
    same(standing.poles, [np.sqrt(9.8), -np.sqrt(9.8)], 1e-13)
    assert not standing.stable


def test_equations_are_differentiated_once_for_all_states(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Counted(jets.ModelJets):
        def __init__(self, model: Any, t: float) -> None:
            super().__init__(model, t)
            made.append(model.name)

    monkeypatch.setattr(jets, "ModelJets", Counted)
    monkeypatch.setattr(jets, "_JETS", Recent(jets.KEPT_NODES, lambda each: len(each.model.graph)))
    for t, side in ((0.0, -1.0), (0.0, 1.0), (0.5, -1.0)):
        state = {"x": 0.0, "y": side, "lambda": -9.8 * side}
        found = ds.linearize("pendulum", at=state, inputs="force x", t=t)
        same(found.poles, np.array([1.0, -1.0]) * np.sqrt(9.8 * side + 0j), 1e-13)
    assert made == ["pendulum"]


@pytest.mark.parametrize("verb", [ds.steady_state, lambda given, t0: ds.linearize(given, at=[0.0] * 5, t=t0)])
def test_the_time_of_a_state_is_finite(verb: Any) -> None:
    with pytest.raises(InputError, match="t0 must be finite; got inf"):
        verb("pendulum", t0=np.inf)


@pytest.mark.parametrize("distance", [0.0, 1e-2])
def test_a_state_whose_derivatives_are_not_given_keeps_its_values(distance: float) -> None:
    t, problem = 0.3, ds.PROBLEMS["hessenberg-3"]()
    exact = np.array(problem.u_exact(t))
    off = exact + distance * np.sin(1.0 + np.arange(5))
    found = ds.linearize("hessenberg-3", at=off.tolist(), t=t)
    assert np.abs(found.u - off).max() <= 10.0 * distance + 1e-14
    # The derivatives are those of the equations, and hidden constraints leave y2 v1 - y1 v2 = 0.
    y1, y2, v1, v2, _ = found.u
    assert y2 * v1 == pytest.approx(y1 * v2, rel=1e-9)
    assert found.du[:2] == pytest.approx([2.0 * y1 * y2 * v1 * v2, -y1 * y2 * v2**2], rel=1e-9)
    known = ds.linearize("hessenberg-3", at=ds.initial("hessenberg-3", u0=exact, t0=t))
    same(found.poles, known.poles, 1e-8 + 20.0 * distance)


def test_a_function_that_cannot_be_read_has_the_derivatives_of_its_equations() -> None:
    def growing(t: float, u: Any, du: Any) -> list[float]:
        return [struct.unpack("d", struct.pack("d", u[0]))[0] * du[0] - 1.0]

    # u u' = 1: small changes of u decay as those of sqrt(u0^2 + 2 t), with the rate 1 / u^2.
    found = ds.linearize(ds.FunctionProblem(growing, 1, ("u",)), at=[2.0])
    assert found.du == pytest.approx([0.5], rel=1e-9)
    same(found.poles, [-0.25], 1e-6)


@pytest.mark.parametrize("name", ["car-axis", "seven-body", "slider-crank-4", "rigid-slider-crank"])
def test_mechanisms_at_rest_have_the_poles_of_minimal_coordinates(name: str) -> None:
    found = ds.linearize(name)
    same(found.poles, in_minimal_coordinates(found))
    form, steps = by_ranks(found.E, found.A, found.B)
    same(form.poles(), found.poles)
    assert steps == found.index


def test_two_forms_of_one_mechanism_have_the_same_poles() -> None:
    same(ds.linearize("andrews").poles, ds.linearize("seven-body").poles)


def slider_crank() -> tuple[Any, Any, Any]:
    """A slider-crank in three coordinates with two constraints, and its force by the angle alone."""
    inertia, mass, r, length, spring, damping = 0.3, 1.2, 0.5, 1.6, 7.0, 0.4
    m = ds.Model("slider-crank")
    der = m.der
    phi, psi, x, l1, l2 = m.variables("phi psi x l1 l2", [0.7, -0.2, 1.9, 0.0, 0.0])
    sin, cos = sympy.sin, sympy.cos
    m.equations(
        inertia * der(phi, 2) + l1 * r * sin(phi) + l2 * r * cos(phi),
        0.05 * der(psi, 2) + l1 * length * sin(psi) + l2 * length * cos(psi),
        mass * der(x, 2) + damping * der(x) + spring * (x - 1.5) + l1,
        x - r * cos(phi) - length * cos(psi),
        r * sin(phi) + length * sin(psi),
    )
    q, w = sympy.symbols("q w", real=True)
    angle = -sympy.asin(r / length * sin(q))
    place = r * cos(q) + length * cos(angle)
    effective = inertia + 0.05 * sympy.diff(angle, q) ** 2 + mass * sympy.diff(place, q) ** 2
    slope = sympy.diff(place, q)
    force = -(sympy.diff(effective, q) * w**2 / 2 + slope * (damping * slope * w + spring * (place - 1.5)))
    return m, (q, w), force / effective


@pytest.mark.parametrize(("angle", "speed"), [(0.7, 0.0), (0.7, 5.0), (2.1, -3.0)])
def test_a_slider_crank_that_turns_has_the_poles_of_its_angle(angle: float, speed: float) -> None:
    model, (q, w), acceleration = slider_crank()
    psi = -np.arcsin(0.5 / 1.6 * np.sin(angle))
    rate = -0.5 * np.cos(angle) / (1.6 * np.cos(psi)) * speed
    at = {"phi": angle, "psi": psi, "der(phi)": speed, "der(psi)": rate}
    at |= {"x": 0.5 * np.cos(angle) + 1.6 * np.cos(psi)}
    at["der(x)"] = -0.5 * np.sin(angle) * speed - 1.6 * np.sin(psi) * rate
    found = ds.linearize(model, at=at, coordinates=["phi", "der(phi)"])
    slopes = [float(sympy.diff(acceleration, one).subs({q: angle, w: speed})) for one in (q, w)]
    same(found.poles, np.linalg.eigvals([[0.0, 1.0], slopes]), 1e-10)
    assert set(found.minimal().coordinates) == {"phi", "der(phi)"}


def test_inputs_are_parameters_equations_and_forces_on_several() -> None:
    m = ds.Model("two")
    x, y = m.variables("x y", 0.0)
    k = m.parameter("k", 4.0, unit="N/m")
    m.equations(first=m.der(x, 2) + k * (x - y) + 0.1 * m.der(x), second=m.der(y, 2) + k * (y - x) + y - 1)
    by_force = ds.linearize(m, inputs=["first", "k"], outputs=["x", "y"])
    np.testing.assert_allclose(by_force.transfer(0.0)[:, 0], [1.25, 1.0], rtol=1e-13)
    np.testing.assert_allclose(by_force.transfer(0.0)[:, 1], 0.0, atol=1e-13)  # the spring is relaxed
    assert by_force.input_units == ("", "N/m")
    pair = ds.linearize(m, inputs={"pull": {"first": 1.0, "second": -1.0}}, outputs=["x", "y"])
    np.testing.assert_allclose(pair.transfer(0.0)[:, 0], [0.25, 0.0], atol=1e-13)
    np.testing.assert_allclose(by_force.step([0.0, 400.0])[1, :, 0], [1.25, 1.0], rtol=1e-3)
    with pytest.raises(ds.InputError, match="unknown"):
        ds.linearize(m, inputs=["third"])
    with pytest.raises(ds.InputError, match="unknown"):
        ds.linearize(m, outputs=["z"])


def test_step_responses_are_those_of_the_time_simulation() -> None:
    model, acceleration = one_mass("dynamic")
    found = ds.linearize(model, inputs=["f"], outputs=["y", acceleration])
    times = np.linspace(0.0, 1.0, 11)
    run = ds.solve(model, params={"f": 1.0}, t_end=1.0, rtol=1e-9, t_eval=times, fixed={"x": 0.0, "d": 0.0})
    np.testing.assert_allclose(found.step(times)[:, 0, 0], run.values("y"), atol=1e-11)


def test_functions_that_cannot_be_read_are_deflated_by_ranks() -> None:
    table = {0: 2.0}

    def equations(t: float, u: Any, du: Any) -> Any:
        x, y, vx, vy, tension = (float(one) for one in u)
        g = table[int(np.floor(abs(x) * 0.0))] + 7.8
        return [du[0] - vx, du[1] - vy, du[2] + tension * x, du[3] + tension * y + g, x**2 + y**2 - 1.0]

    names = ["x", "y", "vx", "vy", "tension"]
    problem = ds.FunctionProblem(equations, 5, names=names)
    found = ds.linearize(problem, at=[0.0, -1.0, 0.0, 0.0, 9.8], inputs=["equation 2"], outputs=["x"])
    same(found.poles, [1j * np.sqrt(9.8), -1j * np.sqrt(9.8)])
    assert (found.index, found.infinite) == (3, 3)
    assert found.transfer(0.0)[0, 0] == pytest.approx(1.0 / 9.8, rel=1e-7)


def test_a_flexible_structure_has_the_frequencies_of_its_formula() -> None:
    n = 1000
    m = ds.Model("bar")
    x = m.variables([f"x{j}" for j in range(n)], 0.0)
    force = m.variable("clamp", 0.0)
    for j in range(n):
        left = x[j] - x[j - 1] if j else 0
        right = x[j] - x[j + 1] if j + 1 < n else 0
        m.equation(m.der(x[j], 2) + 1e6 * (left + right) + (force if j == 0 else 0))
    m.equation(x[0])
    found = ds.linearize(m)
    assert found.E.shape == (2001, 2001) and found.index == 3 and found.infinite == 3
    expected = 2e3 * np.sin((2 * np.arange(n - 1) + 1) * np.pi / (2 * (2 * n - 1)))
    near = found.poles_near(0.1, 10)
    np.testing.assert_allclose(np.sort(near.imag[near.imag > 0.0]), expected[:5], rtol=1e-8)
    every = found.poles
    np.testing.assert_allclose(np.sort(every.imag[every.imag > 0.0]), expected, rtol=1e-8)
    assert np.abs(every.real).max() <= 1e-8 * expected[0]


def test_eigenvalues_along_a_solution_are_those_of_single_states() -> None:
    model, (q, w), acceleration = slider_crank()
    run = ds.solve(model, t_end=2.0, rtol=1e-9, fixed={"phi": 0.7, "der(phi)": 4.0})
    found = ds.eigenvalues(model, along=run, points=9, coordinates=["phi", "der(phi)"])
    assert found.coordinates == ("phi", "der(phi)") and found.changes == ()
    states = run.at(found.t)
    for at in range(9):
        here = {q: states.values("phi")[at], w: states.values("der(phi)")[at]}
        slopes = [float(sympy.diff(acceleration, one).subs(here)) for one in (q, w)]
        same(found.values[at], np.linalg.eigvals([[0.0, 1.0], slopes]), 1e-5)


def test_eigenvalues_along_the_constraint_of_a_pendulum_are_those_of_its_tangent() -> None:
    run = ds.solve("pendulum", t_end=2.0, rtol=1e-10, atol=1e-10)
    found = ds.eigenvalues("pendulum", along=run, points=11)
    states = run.at(found.t)
    # For the arc s from the bottom s'' = -g sin(s). Along the tangent at s the place is z = sin(ds), and so
    # dz'' = -(g cos(s) + s'^2) dz, where s'^2 = 2 g cos(s) for a pendulum that was let go from the side.
    expected = np.sqrt((3.0 * 9.8 * states.values("y")).astype(complex))
    for values, one in zip(found.values, expected, strict=True):
        np.testing.assert_allclose(np.sort_complex(values), np.sort_complex([one, -one]), atol=1e-5)
    assert found.coordinates == () and found.changes == ()


def test_to_control_gives_the_minimal_form_to_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def ss(*matrices: Any, **names: Any) -> str:
        given.update(names, matrices=matrices)
        return "system"

    found = ds.linearize(one_mass("none")[0], inputs=["f"], outputs=["x"])
    package: Any = types.ModuleType("control")
    package.ss = ss
    monkeypatch.setitem(sys.modules, "control", package)
    assert found.to_control() == "system"
    assert given["states"] == ["x", "der(x)"] and given["inputs"] == ["f"] and given["outputs"] == ["x"]
    np.testing.assert_allclose(given["matrices"][0], [[0.0, 1.0], [-K / M, -C / M]])
    improper = ds.linearize(one_mass("quasi-static")[0], inputs=["f"], outputs=["der(y, 2)"])
    with pytest.raises(ds.InputError, match="derivatives of inputs"):
        improper.to_control()
    monkeypatch.setitem(sys.modules, "control", None)
    with pytest.raises(ds.InputError, match="pip install control"):
        found.to_control()


def test_the_verb_writes_a_file_that_four_pictures_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dae_sdc.cli import main

    out = tmp_path / "linear.npy"
    words = [
        "linearize",
        "pendulum",
        "--at",
        "x=0",
        "--at",
        "y=-1",
        "--inputs",
        "force x",
        "--outputs",
        "x,y",
    ]
    assert main([*words, "--omega", "0.1:100", "--out", str(out)]) == 0
    assert "2 finite poles, 3 infinite" in capsys.readouterr().out
    for kind in ("bode", "nyquist", "poles", "step"):
        assert ds.plot(kind, out, out=tmp_path / f"{kind}.png").axes
    run = tmp_path / "run.npy"
    ds.solve("pendulum", t_end=1.0, rtol=1e-7, out=run)
    along = tmp_path / "along.npy"
    assert main(["linearize", "pendulum", "--along", str(run), "--points", "21", "--out", str(along)]) == 0
    assert ds.plot("eigenvalues", along).axes
    assert main(["linearize", "pendulum", "--along", str(run), "--inputs", "g"]) == 2
    assert callable(linearize_verb)


def test_bode_pictures_are_in_hertz_decibels_and_degrees_or_in_radians_by_second(tmp_path: Path) -> None:
    """A lag of 1/2 s with gain 3/2 at rest: 3 dB less and 45 degrees late at 2 rad/s."""
    m = ds.Model("lag")
    x, f = m.variable("x", 0.0), m.parameter("f", 0.0)
    m.equation(m.der(x) + 2.0 * x - 3.0 * f)
    frequencies = np.geomspace(0.02, 200.0, 401)
    ds.linearize(m, inputs=["f"], outputs=["x"], omega=frequencies, out=tmp_path / "lag.npy")
    for angular, unit, corner in (
        (False, "frequency [Hz]", 1.0 / np.pi),
        (True, "angular frequency [rad/s]", 2.0),
    ):
        upper, lower = ds.plot("bode", tmp_path / "lag.npy", angular=angular).axes
        assert (upper.get_ylabel(), lower.get_ylabel()) == ("magnitude [dB]", "phase [degrees]")
        assert lower.get_xlabel() == unit
        gain, phase = (
            np.interp(
                np.log(corner), np.log(np.asarray(axes.lines[0].get_xdata())), axes.lines[0].get_ydata()
            )
            for axes in (upper, lower)
        )
        assert gain == pytest.approx(20.0 * np.log10(1.5 / np.sqrt(2.0)), abs=0.01)
        assert phase == pytest.approx(-45.0, abs=0.1)


def test_bode_pictures_draw_no_rounding(tmp_path: Path) -> None:
    m = ds.Model("two equal masses, pushed apart")
    x, y, middle = m.variables("x y middle", 0.0)
    f, d = m.parameter("f", 0.0), m.der
    m.equations(d(x, 2) + 0.1 * d(x) + 3 * x - 1.37 * (y - x) - f, middle - x - y)
    m.equation(d(y, 2) + 0.1 * d(y) + 3 * y - 1.37 * (x - y) + f)
    ds.linearize(m, inputs=["f"], outputs=["x", "middle"], out=tmp_path / "two.npy")
    figure = ds.plot("bode", tmp_path / "two.npy")
    curves = [line.get_ydata() for axes in figure.axes for line in axes.lines if len(line.get_ydata()) > 2]
    assert [bool(np.isfinite(np.asarray(curve)).any()) for curve in curves] == [True, False, True, False]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["x by f", "middle by f: 0"]


def test_the_step_response_of_a_rate_begins_with_the_direct_part() -> None:
    m = ds.Model("lag")
    x, f = m.variable("x", 0.0), m.parameter("f", 0.0)
    m.equation(m.der(x) + 2.0 * x - 3.0 * f)
    found = ds.linearize(m, inputs=["f"], outputs=["der(x)"])
    times = np.array([0.0, 0.3, 1.0])
    np.testing.assert_allclose(found.step(times)[:, 0, 0], 3.0 * np.exp(-2.0 * times), rtol=1e-12)


def test_inputs_reach_what_is_deflated_by_ranks() -> None:
    source = np.random.default_rng(11)
    for index in (1, 2, 3):
        E, A, *_ = scrambled(source, index)
        B = source.normal(size=(len(E), 2))
        form, _ = by_ranks(E, A, B)
        for s in (0.7j, 1.0 + 2.0j):
            pushed = sum(part * s**k for k, part in enumerate(form.B))
            inner = np.linalg.solve(s * form.E - form.A, pushed)
            found = form.S @ inner + sum(part * s**k for k, part in enumerate(form.W))
            expected = np.linalg.solve(s * E - A, B)
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_a_parameter_of_a_class_is_an_input_by_its_slope() -> None:
    class Driven(ds.ProblemDAE):
        interval = (0.0, 1.0)
        push: float

        def __init__(self, push: float = 0.5) -> None:
            super().__init__(1, 0)
            self.push = push

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            rate = {0: 2.0}[int(np.floor(abs(float(u[0])) * 0.0))]
            return np.array([du[0] + rate * u[0] - 3.0 * self.push])

    found = ds.linearize(Driven, at=[0.75], inputs=["push"], outputs=["u[0]"])
    assert found.transfer(0.0)[0, 0] == pytest.approx(1.5, rel=1e-6)
