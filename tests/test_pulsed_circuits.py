"""Circuits of the Test Set that pulses or diodes drive: pulses, equations, hidden constraints, end values."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import linalg
from scipy.integrate import solve_ivp

from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import InputError, ReferenceRangeError
from dae_sdc.problems.circuits import ChargePump, Pulse, RingModulator, transistor_charges
from dae_sdc.problems.digital import NandGate, TwoBitAdder, channel_current, junction_capacitance
from dae_sdc.run.solve import solve

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "nand": ("nand-gate", {}),
    "adder": ("two-bit-adder", {}),
    "ring": ("ring-modulator", {}),
    "ring-dae": ("ring-modulator", {"cs": 0.0}),
    "pump": ("charge-pump", {}),
}
PULSED = ("nand-gate", "two-bit-adder", "charge-pump")


def make(case: str) -> Any:
    name, params = CASES[case]
    return PROBLEMS[name](**params)


def residual(P: Any, u: Any, du: Any, t: float) -> Any:
    return np.asarray(P.eval_f(P.state(u), P.state(du), t))


def jacobian(P: Any, u: Any, du: Any, t: float, c: float) -> Any:
    matrix = P.jacobian(P.state(u), P.state(du), t, c)
    return matrix if P.sparsity is None else matrix.toarray()


def digits(P: Any, u: Any, *names: str) -> float:
    """Correct digits of the worst of the named unknowns at the end of the interval."""
    at = [P.names.index(name) for name in names]
    reference = P.reference_end.u[at]
    return float(-np.log10(np.abs((np.asarray(u)[at] - reference) / reference).max()))


# --- pulses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PULSED)
def test_pulses_are_periodic_trapezoids(name: str) -> None:
    start, end = PROBLEMS[name]().interval
    for pulse in PROBLEMS[name].pulses:  # type: ignore[attr-defined]
        corners = np.cumsum([pulse.delay, pulse.rise, pulse.high, pulse.fall])
        for t in np.linspace(start, end, 1777):
            phase = t % pulse.period
            expected = pulse.level * np.interp(phase, corners, [0.0, 1.0, 1.0, 0.0])
            assert pulse.line(t).at(t) == pytest.approx(expected, abs=1e-9 * pulse.level)


def test_a_piece_begins_at_its_corner_also_when_the_time_has_rounding_errors() -> None:
    pulse = Pulse(50e-9, 10e-9, 50e-9, 10e-9, 120e-9, 20.0)
    slopes = (2e9, 0.0, -2e9, 0.0)
    for cycle in range(8):
        for corner, slope in zip((50e-9, 60e-9, 110e-9, 120e-9), slopes, strict=True):
            t = cycle * 120e-9 + corner
            for near in (t, t * (1.0 - 4e-16), t * (1.0 + 4e-16)):
                assert pulse.line(near).slope == pytest.approx(slope)
    assert pulse.line(50e-9 - 1e-15).slope == 0.0


@pytest.mark.parametrize("name", PULSED)
def test_steps_get_the_pieces_of_their_times_in_any_order_of_steps(name: str) -> None:
    P: Any = PROBLEMS[name]()
    start, end = P.interval
    corners = np.array(P.breakpoints(start, end)[:12])
    near = np.concatenate([corners * (1.0 + factor) for factor in (-1e-9, -4e-16, 0.0, 4e-16, 1e-9)])
    times = np.concatenate([near, np.linspace(start, end, 97)])
    u = P.u_exact(start)
    for t in (*np.sort(times), *np.random.default_rng(3).permutation(times)):
        P.start_step(u, float(t))
        assert P.lines == tuple(pulse.line(float(t)) for pulse in P.pulses)


@pytest.mark.parametrize("name", PULSED)
def test_breakpoints_are_the_corners_strictly_within(name: str) -> None:
    P: Any = PROBLEMS[name]()
    start, end = P.interval
    found = P.breakpoints(start, end)
    if name == "charge-pump":
        expected = [k * 120e-9 + corner for k in range(10) for corner in (50e-9, 60e-9, 110e-9, 120e-9)][:-1]
    elif name == "nand-gate":
        expected = list(np.arange(5.0, 80.0, 5.0))
    else:
        expected = list(np.arange(5.0, 320.0, 5.0))
    assert found == pytest.approx(expected, rel=1e-14)
    assert P.breakpoints(found[2], found[5]) == found[3:5]
    assert P.breakpoints(found[0], found[1]) == ()


@pytest.mark.parametrize("name", PULSED)
def test_a_step_keeps_the_pieces_that_begin_with_it(name: str) -> None:
    P: Any = PROBLEMS[name]()
    u, rest = P.state(P.u_exact(P.interval[0])), np.zeros(P.n)
    before, corner, after = P.breakpoints(*P.interval)[:3]
    P.start_step(u, 0.5 * (before + corner))
    kept, packed = P.lines, P.packed_parameters
    left = residual(P, u, rest, corner)
    P.start_step(u, before)
    assert P.lines is kept and P.packed_parameters is packed
    P.start_step(u, corner)
    assert P.lines != kept
    right = residual(P, u, rest, corner)
    # Signals are continuous, so F changes at most by their derivatives, which gates turn into currents.
    if name == "charge-pump":
        np.testing.assert_allclose(left, right, atol=1e-9)
    else:
        assert not np.array_equal(left, right)
    P.start_step(u, 0.5 * (corner + after))
    np.testing.assert_array_equal(residual(P, u, rest, corner), right)


# --- equations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["nand", "ring", "ring-dae", "pump"])
def test_initial_value_and_derivative_satisfy_the_equations(case: str) -> None:
    P = make(case)
    u, du = P.u_exact(0.0), P.du_exact(0.0)
    size = np.abs(jacobian(P, u, du, 0.0, 1.0)) @ np.maximum(np.abs(u), 1.0)
    assert (np.abs(residual(P, u, du, 0.0)) <= 1e-15 * size).all()
    # Constraints stay satisfied along the derivative: F has no first derivative there.
    h = 1e-6 * P.interval[1]
    rows = np.flatnonzero(np.abs(jacobian(P, u, du, 0.0, 0.0)).max(axis=1) == 0.0)
    ahead = residual(P, u + h * du, du, h)[rows]
    assert (np.abs(ahead) <= 1e-15 * size[rows] + 1e-9 * np.abs(h * du).max()).all()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("c", [0.0, 0.4])
def test_jacobian_is_the_slope_of_the_residual(case: str, c: float) -> None:
    P, h = make(case), 1e-5
    rng = np.random.default_rng(3)
    start = np.asarray(P.u_exact(0.0))
    for t in P.interval[1] * np.array([0.07, 0.6]):
        P.start_step(P.state(start), t)
        u, du = start + 0.03 * rng.standard_normal(P.n), rng.standard_normal(P.n)
        if case == "pump":
            u[5:8] = 12.0, 5.0, 20.0  # in the piece of the channel
        matrix = jacobian(P, u, du, t, c)
        for j in range(P.n):
            e = np.zeros(P.n)
            e[j] = h
            one = residual(P, u + c * e, du + e, t) - residual(P, u - c * e, du - e, t)
            two = residual(P, u + 2 * c * e, du + 2 * e, t) - residual(P, u - 2 * c * e, du - 2 * e, t)
            slope = (8.0 * one - two) / (12.0 * h)
            noise = 1e-15 * (np.abs(residual(P, u, du, t)).max() + np.abs(matrix).max()) / h
            np.testing.assert_allclose(
                matrix[:, j], slope, rtol=0.0, atol=noise + 1e-8 * np.abs(matrix).max()
            )


def test_nand_gate_has_the_capacitances_of_the_test_set() -> None:
    """Its matrix C(U), written down entry by entry, and the gain of the official source at negative drops."""
    P = NandGate()
    y = np.asarray(P.u_exact(0.0)) + np.linspace(-0.3, 0.4, 14)
    CG, C9 = 0.6e-4, 0.5e-4

    def cb(v: float) -> float:
        return 2.4e-5 / math.sqrt(1.0 - v / 0.87) if v <= 0.0 else 2.4e-5 * (1.0 + v / 1.74)

    a, b, c = cb(y[2] - y[4]), cb(y[3] - 5.0), cb(y[8] - y[4])
    d, e = cb(y[7] - y[9]), cb(y[13] - y[9])
    C = np.diag([CG, CG, a, b, 2 * CG + a + c + C9, CG, CG, d, c, d + e + C9, CG, CG, cb(y[12]), e])
    for i, j, value in ((1, 5, CG), (2, 5, CG), (3, 5, a), (5, 9, c), (8, 10, d), (10, 14, e)):
        C[i - 1, j - 1] = C[j - 1, i - 1] = -value
    np.testing.assert_allclose(jacobian(P, y, np.zeros(14), 1.0, 0.0), C, rtol=1e-14, atol=1e-20)


def test_channel_current_is_continuous_and_has_ten_times_less_gain_backward() -> None:
    forward, backward = 1.748e-3, 1.748e-4
    device = (forward, backward, 0.2, 0.035, 1.01)
    over = 3.0 - 0.2 - 0.035 * (math.sqrt(1.01 + 2.5) - math.sqrt(1.01))
    flat = channel_current(over, 3.0, -2.5, 3.0 - over, -2.5 - over, device, 0)
    assert flat == pytest.approx(-forward * over**2 * (1.0 + 0.02 * over), rel=1e-14)
    assert channel_current(over * (1.0 - 1e-9), 3.0, -2.5, 0.0, 0.0, device, 0) == pytest.approx(
        flat, rel=1e-8
    )
    # Source and drain exchanged: the opposite current, with the gain of the other direction.
    back = channel_current(-1.5, 1.5, -1.0, 3.0, -2.5, device, 0)
    there = channel_current(1.5, 3.0, -2.5, 1.5, -1.0, device, 0)
    assert back / backward == pytest.approx(-there / forward, rel=1e-14)
    assert channel_current(1.0, 0.1, -2.5, -0.9, -3.5, device, 0) == 0.0
    assert junction_capacitance(1e-12, 1.0) == pytest.approx(junction_capacitance(-1e-12, 1.0), abs=1e-11)


def test_adder_satisfies_the_charges_of_the_official_end_value() -> None:
    """All 350 official values at both ends, computed by another code, are in the 175 functions Q = g(U)."""
    P = TwoBitAdder(misprint=True)
    for t in P.interval:
        u = P.u_exact(t)
        assert np.abs(residual(P, u, np.zeros(350), t)[175:]).max() < 1e-9 * np.abs(u[:175]).max()
    # At rest before the first rise, no current flows but that of V_1' into its gates.
    start = residual(P, P.u_exact(0.0), np.zeros(350), 0.0)[:175]
    gates = {k - 1 for t in P.circuit.transistors if t.gate == -3 for k in (t.node, t.node + 1)}
    assert set(np.flatnonzero(np.abs(start) > 1e-6).tolist()) == gates
    np.testing.assert_allclose(start[sorted(gates)], -0.6, atol=1e-6)


@pytest.mark.parametrize(("misprint", "groups"), [(False, 16), (True, 13)])
def test_potentials_of_index_2_are_those_that_charges_leave_free(misprint: bool, groups: int) -> None:
    P = TwoBitAdder(misprint=misprint)
    u = np.asarray(P.u_exact(0.0)) + 0.05 * np.random.default_rng(5).standard_normal(350)
    matrix = jacobian(P, u, np.zeros(350), 0.0, 1.0)
    free = linalg.null_space(matrix[175:, 175:], rcond=1e-10)
    assert free.shape[1] == len(P.circuit.floating()) == groups
    # The currents into the groups determine what the charges do not: the index is 2, not higher.
    behind = linalg.null_space(matrix[175:, 175:].T, rcond=1e-10).T @ matrix[:175, 175:] @ free
    assert np.linalg.cond(behind) < 10.0
    reached = np.abs(free).max(axis=1) > 1e-8
    assert P.variable_index == (*(1,) * 175, *(2 if there else 1 for there in reached))


@pytest.mark.parametrize("cs", [2e-12, 0.0, 1e-9])
def test_ring_modulator_is_the_circuit_in_matrix_form(cs: float) -> None:
    """Diodes by their incidence matrix, coils by theirs; unknowns in the order of the Test Set."""
    P = RingModulator(cs=cs)
    order = [
        P.names.index(name) for name in (*(f"U_{k}" for k in range(1, 8)), *(f"I_{k}" for k in range(1, 9)))
    ]
    rng = np.random.default_rng(11)
    y, dy, t = 0.2 * rng.standard_normal(15), rng.standard_normal(15), 3.3e-4
    U, current = y[:7], y[7:]
    #              U_3 U_4 U_5 U_6 U_7
    diodes = np.array([[1, 0, -1, 0, -1], [0, -1, 0, 1, -1], [0, 1, 1, 0, 1], [-1, 0, 0, -1, 1]], dtype=float)
    carrier = 2.0 * math.sin(2e4 * math.pi * t)
    q = 40.67286402e-9 * np.expm1(17.7493332 * (diodes @ U[2:] + diodes[:, 4] * carrier))
    coils = np.zeros((8, 7))  # voltage that drives each current
    coils[0, 0] = coils[1, 1] = coils[6, 0] = coils[7, 1] = -1.0
    coils[2:6, :2] = [[0.5, 0.0], [-0.5, 0.0], [0.0, 0.5], [0.0, -0.5]]
    coils[2:6, 2:6] = np.diag([-1.0, 1.0, -1.0, 1.0])
    into = -coils.T @ current
    into[2:] -= diodes.T @ q
    into[[0, 1, 6]] -= U[[0, 1, 6]] / [25e3, 25e3, 50.0]
    drop = coils @ U - np.array([0, 0, 17.3, 17.3, 17.3, 17.3, 86.3, 636.3]) * current
    drop[6] += 0.5 * math.sin(2e3 * math.pi * t)
    mass = np.array([1.6e-8, 1.6e-8, cs, cs, cs, cs, 1e-8, 4.45, 4.45, 5e-4, 5e-4, 5e-4, 5e-4, 2e-3, 2e-3])
    expected = mass * dy - np.concatenate([into, drop])
    u, du = np.empty(15), np.empty(15)
    u[order], du[order] = y, dy
    np.testing.assert_allclose(residual(P, u, du, t)[order], expected, rtol=1e-12, atol=1e-15)


def test_ring_modulator_without_capacitances_is_of_index_2() -> None:
    P = RingModulator(cs=0.0)
    assert (P.index, P.n_diff, P.n_alg, P.variable_index) == (2, 11, 4, (1,) * 11 + (2,) * 4)
    assert P.names[11:] == ("U_3", "U_4", "U_5", "U_6")
    u, du = np.zeros(15), np.asarray(P.du_exact(0.0))
    matrix = jacobian(P, u, du, 0.0, 1.0) - jacobian(P, u, du, 0.0, 0.0)
    # One combination of the constraints is free of the algebraic unknowns: I_3 + I_4 + I_5 + I_6.
    assert np.linalg.matrix_rank(matrix[11:, 11:]) == 3
    hidden = np.array([1.0, -1.0, 1.0, -1.0]) @ matrix[11:]
    assert np.flatnonzero(np.abs(hidden) > 1e-12).tolist() == [P.names.index(f"I_{k}") for k in (3, 4, 5, 6)]
    # So the potentials that drive it add up to zero, at first with slopes from the constraints' derivatives.
    assert np.array([-1.0, 1.0, -1.0, 1.0]) @ du[11:] == 0.0
    assert RingModulator().index == 0
    with pytest.raises(InputError, match="cs of RingModulator must not be negative"):
        RingModulator(cs=-1e-12)
    other = RingModulator(cs=1e-12)
    for ask in (P.du_exact, other.u_exact, other.du_exact):
        with pytest.raises(ReferenceRangeError):
            ask(1e-3)
    with pytest.raises(ReferenceRangeError):
        print(other.reference_end)


def test_charges_of_the_pump_are_continuous_and_symmetric() -> None:
    flat = 0.2 - 0.035 * math.sqrt(1.01) - 1.01
    assert transistor_charges(flat, 0.0, 0.0) == (0.0, 0.0)
    assert transistor_charges(flat + 1e-12, 0.0, 0.0)[0] == pytest.approx(0.0, abs=1e-23)
    # Where the channel opens: v = V_T at bulk potential -0.5 below the source.
    threshold = 0.2 + 0.035 * (math.sqrt(1.51) - math.sqrt(1.01))
    at = [transistor_charges(threshold + 0.5 + h, threshold + h, -1.0) for h in (-1e-9, 1e-9)]
    np.testing.assert_allclose(at[0], at[1], rtol=1e-6, atol=1e-20)
    assert transistor_charges(8.0, 6.0, 1.0) == transistor_charges(8.0, 1.0, 6.0)


# --- solutions ------------------------------------------------------------------------------------


def test_pump_is_solved_by_a_scalar_equation_at_any_time() -> None:
    P = ChargePump()
    rng = np.random.default_rng(2)
    for t in rng.uniform(*P.interval, 60):
        u, rest = P.u_exact(t), np.zeros(9)
        P.start_step(P.state(u), t)
        rows = residual(P, u, rest, t)[3:]
        scale = np.array([1.0, *(1e-12,) * 5])
        assert (np.abs(rows) <= 1e-13 * 20.0 * scale).all()
        assert u[1] + u[2] == 0.0 and u[3] + u[4] == 0.0
        h = 1e-13
        slope = (P.u_exact(t + h)[0] - P.u_exact(t - h)[0]) / (2.0 * h)
        assert u[8] == pytest.approx(-slope, abs=1e-9)


def test_end_of_the_pump_is_the_stored_one() -> None:
    P = ChargePump()
    for t, stored in ((P.interval[0], None), (P.interval[1], P.reference_end.u)):
        u = np.asarray(P.u_exact(t))
        np.testing.assert_array_equal(u[1:8], np.zeros(7))
        if stored is not None:
            np.testing.assert_allclose(u, stored, rtol=1e-14, atol=0.0)
    # Of the published values of the current one has five digits, the other seven.
    assert abs(u[8] / 0.152255686815577679e-3 - 1.0) == pytest.approx(6.2e-6, rel=0.05)
    assert abs(u[8] / 0.1522565920949845e-3 - 1.0) == pytest.approx(1.2e-7, rel=0.05)
    with pytest.raises(ReferenceRangeError):
        P.du_exact(1e-7)


@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "constrained"])
def test_pump_is_followed_over_all_its_pulses(sweeper: str) -> None:
    # Its charges are of 1e-11 C, which the usual residual tolerance leaves open.
    found = solve("charge-pump", dt=2e-9, sweeper=sweeper)
    P = ChargePump()
    exact = np.array([P.u_exact(t) for t in found.t])
    error = np.abs(np.asarray(found.u) - exact).max(axis=0) / np.maximum(np.abs(exact).max(axis=0), 1e-30)
    assert error[:8].max() < 1e-8


def test_ring_modulator_without_capacitances_reaches_its_end_value() -> None:
    """The stored end is on both constraints, and a method of another order comes close to it."""
    P = RingModulator(cs=0.0)
    end = np.asarray(P.u_exact(1e-3))
    assert np.abs(residual(P, end, np.zeros(15), 1e-3)[11:]).max() < 1e-12
    assert abs(np.array([-1.0, 1.0, -1.0, 1.0]) @ end[11:]) < 1e-9
    found = solve("ring-modulator", params={"cs": 0.0}, sweeper="radau-iia-5", rtol=1e-6)
    assert digits(P, found.u[-1], *P.names) > 3.0
    # The others are near those of the circuit with small capacitances, which add a ripple to U_3 ... U_6.
    small = RingModulator()
    near = [small.reference_end.u[small.names.index(name)] for name in P.names[:11]]
    np.testing.assert_allclose(end[:11], near, rtol=2e-3)


def test_nand_gate_reaches_its_end_value() -> None:
    found = solve("nand-gate", dt=0.1)
    assert digits(NandGate(), found.u[-1], "U_5") > 5.5


CORNERS = np.arange(0.0, 81.0, 5.0)
"""Start, corners of the input signals, and end of the run of the NAND gate."""


@pytest.fixture(scope="module")
def potentials_at_corners() -> Any:
    """Potentials by LSODA on the smooth pieces between corners, as u' = -C(u)^-1 F(t, u, 0)."""
    P = NandGate()
    rest, found = P.state(np.zeros(14)), [np.array(P.u_exact(0.0))]
    for begin, end in itertools.pairwise(CORNERS):
        P.start_step(P.state(found[-1]), begin)

        def slope(t: float, u: Any) -> Any:
            capacitances = P.jacobian(P.state(u), rest, t, 0.0)
            return linalg.solve(capacitances, -np.asarray(P.eval_f(P.state(u), rest, t)))

        piece = solve_ivp(slope, (begin, end), found[-1], method="LSODA", rtol=1e-11, atol=1e-12)
        found.append(piece.y[:, -1])
    return np.array(found)


def test_nand_gate_is_right_at_every_corner_of_its_inputs(potentials_at_corners: Any) -> None:
    sizes = np.abs(potentials_at_corners).max(axis=0)
    for rtol in (1e-4, 1e-6, 1e-9):
        found = solve("nand-gate", rtol=rtol)
        assert found.success and np.isin(CORNERS, found.t).all()
        assert (np.abs(found(CORNERS) - potentials_at_corners) <= 30.0 * rtol * sizes).all(), rtol


def test_adder_reaches_its_outputs_and_adds() -> None:
    found = solve("two-bit-adder", dt=0.5)
    P = TwoBitAdder()
    outputs = ("U[49]", "U[130]", "U[148]")
    # The digits of the official value, which is that of the misprint.
    official = TwoBitAdder(misprint=True).reference_end
    for place in official.scored:
        difference = abs(P.reference_end.u[place] - official.u[place])
        assert difference <= 1.1 * 10.0 ** -official.digits[place] * official.u[place]
    assert digits(P, found.u[-1], *outputs) > 4.5
    # For 5 units before every multiple of 10 all signals are flat, which is long enough for all gates.
    seen = set()
    for t in np.arange(10.0, 321.0, 10.0):
        signals = [round(pulse.line(t).at(t)) == 5 for pulse in P.pulses]
        a0, b0, a1, b1 = (not signal for signal in signals[:4])
        total = a0 + b0 + 2 * (a1 + b1) + signals[4]
        state = found.u[int(np.argmin(np.abs(found.t - t)))]
        low, high, no_carry = (state[P.names.index(name)] > 2.5 for name in outputs)
        assert low + 2 * high + 4 * (not no_carry) == total
        seen.add(tuple(signals))
    assert len(seen) == 32


@pytest.mark.filterwarnings("ignore:Custom sparse Jacobian:UserWarning")
@pytest.mark.parametrize(
    ("name", "tolerance", "at_least"), [("nand-gate", 1e-8, 8.0), ("two-bit-adder", 1e-8, 7.5)]
)
def test_ida_reaches_the_end_values(name: str, tolerance: float, at_least: float) -> None:
    """An independent integrator, restarted at every corner."""
    module = pytest.importorskip("sksundae.ida")
    P: Any = PROBLEMS[name]()
    u = np.array(P.u_exact(0.0))
    corners = [0.0, *P.breakpoints(*P.interval), P.interval[1]]
    for start, end in itertools.pairwise(corners):
        P.start_step(P.state(u), start)
        du, rest = np.zeros(P.n), np.zeros(P.n)
        found = residual(P, u, rest, start)
        if name == "nand-gate":
            du = np.linalg.solve(jacobian(P, u, rest, start, 0.0), -found)
        else:
            du[: P.n_diff] = -found[: P.n_diff]

        def residual_of(t: float, y: Any, yp: Any, out: Any) -> None:
            out[:] = residual(P, y, yp, t)

        def jacobian_of(t: float, y: Any, yp: Any, out: Any, cj: float, J: Any) -> None:
            matrix = P.jacobian(P.state(y), P.state(yp), t, 1.0 / cj)
            J[:] = cj * (matrix if P.sparsity is None else matrix.data)

        options = {"rtol": tolerance, "atol": tolerance, "first_step": 1e-9, "max_num_steps": 10**5}
        if P.sparsity is not None:
            options |= {"linsolver": "sparse", "sparsity": P.sparsity}
        if P.n_alg:
            options["algebraic_idx"] = np.arange(P.n_diff, P.n)
        ida = module.IDA(residual_of, jacfn=jacobian_of, **options)
        ida.init_step(start, u, du)
        last = ida.step(end, method="normal", tstop=end)
        assert last.success
        u = np.array(last.y)
    scored = [P.names[i] for i in P.reference_end.scored]
    assert digits(P, u, *scored) > at_least
