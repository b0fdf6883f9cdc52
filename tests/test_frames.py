"""Frames of bars and beams with symbols: closed forms, a textbook, numbers, derivatives, mechanisms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy

import dae_sdc as ds
from benchmarks.studies.compliance import in_numbers, tower
from dae_sdc.reduction.symbolic_factors import METHODS, typical_values

SECTION = ("E", "G", "A", "Iy", "Iz", "J")
STEEL = (2.1e11, 8.0e10, 2.0e-3, 3.0e-6, 2.0e-6, 4.0e-6)


def model_with_section(name: str = "frame") -> tuple[ds.Model, dict[str, Any]]:
    model = ds.Model(name)
    return model, dict(zip(SECTION, model.parameters(SECTION, STEEL), strict=True))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("symmetric", [False, True])
def test_every_factorisation_solves_and_differentiates(method: str, symmetric: bool) -> None:
    source, n = np.random.default_rng(3), 6
    model = ds.Model()
    given = model.parameters([f"p{i}" for i in range(n)], source.uniform(0.5, 2.0, n).tolist())
    matrix = sympy.zeros(n, n)
    for i, j in np.ndindex(n, n):
        if i == j or source.random() < 0.5:
            matrix[i, j] = given[source.integers(n)] + 2 * given[source.integers(n)] * given[i]
    matrix = matrix + matrix.T if symmetric else matrix
    right = [one**2 for one in given]
    made = ds.SymbolicMatrix(model, matrix, method)
    nodes = model.nodes(right)
    found = made.factors.solve(nodes)
    values = typical_values(model)
    assert values is not None
    dense = values(model.nodes(matrix)).reshape(n, n)
    np.testing.assert_allclose(values(found), np.linalg.solve(dense, values(nodes)), rtol=1e-11)
    leaf = model.graph.parameter(2)
    # Equal expressions are one node: the derivative by the factors is that of the solution, exactly.
    slopes = made.factors.derivative(nodes, found, leaf)
    assert slopes == [model.graph.differentiate(node, leaf) for node in found]
    veils, solution = made.veiled(right, limit=40)
    assert veils
    table = {one: model.parameters_by_name[one.name].value for one in given}
    for symbol, expression in veils:
        table[symbol] = expression.subs(table)
    np.testing.assert_allclose([float(one.subs(table)) for one in solution], values(found), rtol=1e-9)


def test_fraction_free_entries_are_minors() -> None:
    model = ds.Model()
    symbols = model.parameters([f"a{i}{j}" for i in range(3) for j in range(3)])
    matrix = sympy.Matrix(3, 3, symbols)
    made = ds.SymbolicMatrix(model, matrix, "fraction-free-lu")
    last = model.sympy([made.factors.steps[-1].pivot])[0]  # type: ignore[attr-defined]
    assert sympy.simplify(last**2 - matrix.det() ** 2) == 0


def test_qr_solves_tall_systems_in_the_sense_of_least_squares() -> None:
    model = ds.Model()
    a, b = model.parameters("a b", [2.0, 3.0])
    made = ds.SymbolicMatrix(model, [[a, 1], [b, 1], [a * b, 2]], "qr")
    values = typical_values(model)
    assert values is not None
    found = values(made.factors.solve(model.nodes([1, a, b])))
    matrix = np.array([[2.0, 1.0], [3.0, 1.0], [6.0, 2.0]])
    np.testing.assert_allclose(found, np.linalg.lstsq(matrix, [1.0, 2.0, 3.0])[0], rtol=1e-12)
    with pytest.raises(ds.InputError, match="give a square one"):
        ds.SymbolicMatrix(model, [[a, 1], [b, 1], [a * b, 2]], "lu")


def test_a_matrix_that_is_always_singular_is_refused() -> None:
    model = ds.Model()
    a, b = model.parameters("a b")
    for method in METHODS:
        with pytest.raises(ds.SingularMatrixError, match="singular whatever its symbols are"):
            ds.SymbolicMatrix(model, [[a, b], [2 * a, 2 * b]], method)
    with pytest.raises(ds.InputError, match="take one of lu, fraction-free-lu"):
        ds.SymbolicMatrix(model, [[a]], "cholesky")


@pytest.mark.parametrize("shear", [False, True])
@pytest.mark.parametrize("direction", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (2, -1, 2)])
def test_cantilevers_bend_as_the_formulas_say(direction: Any, shear: bool) -> None:
    model, section = model_with_section("cantilever")
    size, force, moment = model.parameters("L F M", [1.7, 900.0, 70.0])
    along = np.array(direction) / np.linalg.norm(direction)
    up = np.cross(along, [0.3, -0.5, 0.7])
    up /= np.linalg.norm(up)
    areas = model.parameters("Ay Az", [1e-3, 8e-4])
    frame = ds.Frame(model)
    frame.point("A", 0, 0, 0)
    frame.point("B", *(size * float(one) for one in along))
    frame.beam("A", "B", **section, shear=areas if shear else None, up=up.tolist())
    frame.support("A")
    across = np.cross(up, along)
    frame.load("B", **{one: force * float(a) for one, a in zip("xyz", up, strict=True)})
    frame.load("B", **{f"r{one}": moment * float(a) for one, a in zip("xyz", along, strict=True)})
    state = frame.solve().at()
    E, G, _, Iy, _, J = STEEL
    L, F, M = 1.7, 900.0, 70.0
    moved = np.array([state[f"B.{one}"] for one in "xyz"])
    turned = np.array([state[f"B.r{one}"] for one in "xyz"])
    bending = F * L**3 / (3 * E * Iy) + (F * L / (G * 8e-4) if shear else 0.0)
    np.testing.assert_allclose(moved, bending * up, atol=1e-12)
    np.testing.assert_allclose(turned, M * L / (G * J) * along - F * L**2 / (2 * E * Iy) * across, atol=1e-12)
    reaction = np.array([state.reactions[f"A.r{one}"] for one in "xyz"])
    np.testing.assert_allclose(reaction, F * L * across - M * along, atol=1e-8)


def space_frame() -> Any:
    """Three beams from fixed supports to one joint, in kips and inches, with the loads of the textbook.

    The load of 0.25 kip/in on the first beam is given by forces and moments at its ends.
    """
    model = ds.Model("space frame")
    frame = ds.Frame(model)
    section: dict[str, Any] = {"E": 29000, "G": 11500, "A": 32.9, "Iz": 716, "Iy": 236, "J": 15.1}
    for name, place in {"1": (0, 0, 0), "2": (-240, 0, 0), "3": (0, -240, 0), "4": (0, 0, -240)}.items():
        frame.point(name, *place)
    angle = np.radians(30.0)
    ups = {"2": (0, 0, 1), "3": (1, 0, 0), "4": (-float(np.cos(angle)), -float(np.sin(angle)), 0)}
    for name, up in ups.items():
        frame.beam(name, "1", **section, up=up)
        frame.support(name)
    frame.load("1", y=-30, rx=-1800, rz=3000)
    frame.load("2", y=-30, rz=-1200)
    return frame.solve().at()


def test_a_space_frame_of_a_textbook() -> None:
    """A. Kassimali, Matrix Analysis of Structures, 2nd edition, example 8.4; printed to five digits."""
    state = space_frame()
    directions = ("x", "y", "z", "rx", "ry", "rz")
    found = [1e3 * state[f"1.{one}"] for one in directions]
    np.testing.assert_allclose(found, [-1.3522, -2.7965, -1.812, -3.0021, 1.0569, 6.4986], rtol=1e-4)
    printed = {
        "2": [5.3757, 44.106, -0.74272, 2.1722, 58.987, 2330.5],
        "3": [-4.6249, 11.117, -6.4607, -515.55, -0.76472, 369.67],
        "4": [-0.75082, 4.7763, 7.2034, -383.5, -60.166, -4.702],
    }
    for name, forces in printed.items():
        found = [state.reactions[f"{name}.{one}"] for one in directions]
        np.testing.assert_allclose(found, forces, rtol=2e-4)


def test_the_space_frame_agrees_with_flexibilities() -> None:
    """The joint moves by the inverse of the sum of inverse flexibilities of three cantilevers."""
    L, EA, EIz, EIy, GJ = 240.0, 29000 * 32.9, 29000 * 716.0, 29000 * 236.0, 11500 * 15.1
    tip = np.diag([L / EA, L**3 / (3 * EIz), L**3 / (3 * EIy), L / GJ, L / EIy, L / EIz])
    tip[1, 5] = tip[5, 1] = L**2 / (2 * EIz)
    tip[2, 4] = tip[4, 2] = -(L**2) / (2 * EIy)
    half, root = 0.5, np.sqrt(0.75)
    total = np.zeros((6, 6))
    for x, y, z in (
        ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
        ((0, 1, 0), (0, 0, 1), (1, 0, 0)),
        ((0, 0, 1), (half, -root, 0), (root, half, 0)),
    ):
        turn = np.kron(np.eye(2), np.array([x, y, z], dtype=float))
        total += turn.T @ np.linalg.inv(tip) @ turn
    moved = np.linalg.solve(total, [0, -30, 0, -1800, 0, 3000])
    state = space_frame()
    found = [state[f"1.{one}"] for one in ("x", "y", "z", "rx", "ry", "rz")]
    np.testing.assert_allclose(found, moved, rtol=1e-11)


def test_a_three_hinged_arch_has_the_thrust_of_statics() -> None:
    model, section = model_with_section("arch")
    half, rise, force = model.parameters("a h F", [4.0, 3.0, 1000.0])
    frame = ds.Frame(model)
    for name, place in {
        "A": (-half, 0, 0),
        "D": (-half / 2, 0, rise * 0.8),
        "C": (0, 0, rise),
        "B": (half, 0, 0),
    }.items():
        frame.point(name, *place)
    frame.beam("A", "D", **section)
    frame.beam("D", "C", **section, released=("", "ry"))
    frame.beam("C", "B", **section)
    for name in "ADCB":
        frame.support(name, "y", "rx", "rz")
    frame.support("A", "x", "z")
    frame.support("B", "x", "z")
    frame.load("D", z=-force)
    state = frame.solve().at()
    # Moments about the hinge: the right half carries the thrust H = F a / (4 h).
    assert state.reactions["A.x"] == pytest.approx(1000.0 * 4.0 / (4 * 3.0), rel=1e-9)
    assert state.reactions["B.x"] == pytest.approx(-1000.0 * 4.0 / (4 * 3.0), rel=1e-9)
    assert state.reactions["A.z"] == pytest.approx(750.0, rel=1e-9)
    assert state.reactions["B.z"] == pytest.approx(250.0, rel=1e-9)


def test_supports_that_sink_and_springs() -> None:
    model, section = model_with_section()
    sunk, stiffness = model.parameters("s k", [0.01, 5e4])
    frame = ds.Frame(model)
    for at, name in enumerate("ABC"):
        frame.point(name, 2 * at, 0, 0)
    frame.bar("A", "B", E=section["E"], A=section["A"])
    frame.bar("B", "C", E=section["E"], A=section["A"])
    frame.support("A", x=sunk)
    frame.support("C", "x")
    frame.spring("B", x=stiffness)
    for name in "ABC":
        frame.support(name, "y", "z")
    response = frame.solve()
    bar = STEEL[0] * STEEL[2] / 2.0
    assert response.at()["B.x"] == pytest.approx(0.01 * bar / (2 * bar + 5e4), rel=1e-12)
    assert response.at()["A.x"] == 0.01
    slope = response.derivatives(["s", "k"])().reshape(2, -1)
    at = response.names.index("reaction A.x")
    assert slope[0, at] == pytest.approx(bar - bar**2 / (2 * bar + 5e4), rel=1e-9)


MOST_OPERATIONS = {"lu": 45_000, "fraction-free-lu": 95_000, "gauss-jordan": 130_000, "qr": 260_000}
"""Instructions of one evaluation; a processor of its own takes some 4000 a microsecond for the first."""


@pytest.mark.parametrize("method", METHODS)
def test_a_frame_with_138_degrees_of_freedom_agrees_with_numbers(method: str) -> None:
    frame = tower()
    assert [len(one) for one in (frame.degrees_of_freedom, frame.free, frame.supported)] == [138, 72, 66]
    response = frame.solve(method)
    assert len(frame.model.parameters_by_name) >= 12
    assert response.function.operations < MOST_OPERATIONS[method]
    found = np.split(response.function(), [72])
    for values, exact in zip(found, in_numbers(frame), strict=True):
        assert np.abs(values - exact).max() <= 1e-10 * np.abs(exact).max()


@pytest.mark.parametrize("method", METHODS)
def test_derivatives_of_frames_are_exact(method: str) -> None:
    frame = tower(1, 1)
    response = frame.solve(method)
    names = frame.model.parameter_names
    slopes = response.derivatives(names)().reshape(len(names), -1)
    function = response.function
    given = function.values()
    for i, slope in enumerate(slopes):
        step = np.zeros(len(given))
        step[i] = 1e-4 * given[i]
        near, far = (function.at(given + k * step) - function.at(given - k * step) for k in (1, 2))
        expected = (8 * near - far) / (12 * step[i])
        assert np.abs(slope - expected).max() <= 1e-7 * np.abs(expected).max()


def test_a_frame_that_moves_freely_is_refused() -> None:
    model, section = model_with_section()
    frame = ds.Frame(model)
    frame.point("A", 0, 0, 0)
    frame.point("B", 1, 0, 0)
    frame.beam("A", "B", **section)
    frame.support("A", "x", "y", "z")
    with pytest.raises(ds.SingularMatrixError, match=r"singular whatever its symbols are: .* B\."):
        frame.solve()
    with pytest.raises(ds.InputError, match="no point C"):
        frame.load("C", x=1)
    with pytest.raises(ds.InputError, match="parallel"):
        frame.beam("A", "B", **section, up=(1, 0, 0))
    with pytest.raises(ds.InputError, match="moves freely in itself"):
        frame.beam("A", "B", **section, released=("rx", "rx"))


def test_a_mass_on_a_condensed_beam_vibrates_with_its_natural_frequency() -> None:
    model, section = model_with_section("mass on a beam")
    frame = ds.Frame(model)
    for at in range(3):
        frame.point(f"P{at}", 0.5 * at, 0, 0)
    for at in range(2):
        frame.beam(f"P{at}", f"P{at + 1}", **section)
    frame.support("P0")
    mass = model.parameter("m", 40.0)
    found = frame.condense({"P2.z": 0}, {"P2.z": mass})
    model.start(found["P2.z"], 1e-3, fixed=True)
    model.start(model.der(found["P2.z"]), 0.0, fixed=True)
    stiffness = 3 * STEEL[0] * STEEL[3]  # of a length of 1
    period = 2 * np.pi / np.sqrt(stiffness / 40.0)
    times = np.linspace(0.0, period, 9)
    solution = ds.solve(model, t_end=period, rtol=1e-10, atol=1e-14, t_eval=times)
    np.testing.assert_allclose(
        solution.u[:, solution.names.index("P2.z")], 1e-3 * np.cos(2 * np.pi * times / period), atol=1e-9
    )


def test_without_a_mass_a_condensed_frame_is_algebraic() -> None:
    model, section = model_with_section("compliant mount")
    frame = ds.Frame(model)
    frame.point("A", 0, 0, 0)
    frame.point("B", 0.4, 0, 0)
    frame.beam("A", "B", **section)
    frame.support("A")
    frame.load("B", z=100)
    q = model.variable("q", 0.0)
    model.equation(model.der(q) - 1)
    frame.condense({"B.z": 500 * q}, prefix="mount.")
    found = ds.structure(model)
    assert (found.index, found.dof) == (1, 1)
    solution = ds.solve(model, t_end=1.0, rtol=1e-8)
    exact = (500 * 1.0 + 100) * 0.4**3 / (3 * STEEL[0] * STEEL[3])
    assert solution.u[-1, solution.names.index("mount.B.z")] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("flat", [True, False])
def test_a_deformed_frame_is_drawn(tmp_path: Path, flat: bool) -> None:
    model, section = model_with_section("portal")
    frame = ds.Frame(model)
    for name, place in {
        "A": (0, 0, 0),
        "B": (0, 0, 3),
        "C": (4, 0, 3),
        "D": (4, 0 if flat else 1, 0),
    }.items():
        frame.point(name, *place)
    for first, second, released in (("A", "B", ("", "")), ("B", "C", ("", "ry")), ("C", "D", ("", ""))):
        frame.beam(first, second, **section, released=released)
    frame.support("A")
    frame.support("D")
    frame.load("B", x=2000)
    made = ds.draw_frame(frame.solve().at(), tmp_path / "portal.png")
    assert (tmp_path / "portal.png").stat().st_size > 10_000
    axes = made.axes[0]
    assert (axes.name == "3d") is not flat
    assert len(axes.lines) == 7  # three members twice, and the supports


def mounted(assumption: str, force: float = 0.0) -> ds.Model:
    """One mass on a spring and a damper behind a compliant arm, a cantilever."""
    model, section = model_with_section(assumption)
    m, k, c, f = model.parameters("m k c f", [250.0, 2e4, 1500.0, force])
    x, y = model.variables("x y", 0.0)
    der = model.der
    arm = ds.Frame(model)
    arm.point("A", 0, 0, 0)
    arm.point("B", 1.5, 0, 0)
    arm.beam("A", "B", **section)
    arm.support("A")
    if assumption == "rigid":
        model.equations(m * der(y, 2) + c * der(x) + k * x - f, y - x)
    elif assumption == "quasi-static":
        d = arm.condense({"B.z": f})["B.z"]
        model.equations(m * der(x, 2) + c * der(x) + k * x - f, y - x - d)
    else:
        d = arm.condense({"B.z": k * x + c * der(x)}, damping=2e-3)["B.z"]
        model.equations(m * der(y, 2) + k * x + c * der(x) - f, y - x - d)
    return model


@pytest.mark.parametrize("assumption", ["rigid", "quasi-static", "dynamic"])
def test_assumptions_on_compliance_have_their_transfer_functions(assumption: str) -> None:
    found = ds.linearize(mounted(assumption), inputs=["f"], outputs=["y"])
    s = 1j * np.logspace(-2, 4, 61)
    m, k, c = 250.0, 2e4, 1500.0
    stiffness = 3 * STEEL[0] * STEEL[3] / 1.5**3
    damping = 2e-3 * stiffness
    simple = 1 / (m * s**2 + c * s + k)
    series = 1 / (1 / (k + c * s) + 1 / (stiffness + damping * s))
    exact = {"rigid": simple, "quasi-static": simple + 1 / stiffness, "dynamic": 1 / (m * s**2 + series)}
    np.testing.assert_allclose(found.frequency_response(s.imag)[:, 0, 0], exact[assumption], rtol=1e-9)
    assert len(found.poles) == (3 if assumption == "dynamic" else 2)
    times = np.linspace(0.0, 0.5, 6)
    solution = ds.solve(mounted(assumption, 100.0), t_end=0.5, rtol=1e-8, t_eval=times)
    expected = 100.0 * found.step(times)[:, 0, 0]
    moved = solution.u[1:, solution.names.index("y")]
    np.testing.assert_allclose(moved, expected[1:], atol=1e-4 * np.abs(expected).max())
