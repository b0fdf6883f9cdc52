"""The compiled equations of every problem of the library, and those of a user's problem."""

from __future__ import annotations

import copy
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dill
import numpy as np
import pytest
from numba import njit

from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.dae.kernels import COMPLEX_STEP, machine
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.problems import power as machines
from dae_sdc.problems.circuits import GROUND, SIGNAL, SUPPLY, Amplifier, Components
from dae_sdc.problems.grids import TransmissionLine
from dae_sdc.problems.linear import SimpleDAE
from dae_sdc.problems.power import BRANCHES, LOAD, SYNCHRONOUS_SPEED, WSCC9BusSystem, admittance
from dae_sdc.run.solve import solve

NAMES = list(PROBLEMS)
# Problems whose residual is put together from kernels of its parts.
OF_PARTS = [name for name, cls in PROBLEMS.items() if issubclass(cls, QuasilinearProblem)]
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "line-1": ("transmission-line", {"sections": 1}),
    "line-2": ("transmission-line", {"sections": 2, "waves": 0.3, "amplitude": -0.4}),
    "line-end": ("transmission-line", {"sections": 7, "feed": "end"}),
    "flow-2": ("navier-stokes", {"cells": 2, "nu": 0.7, "inertia": 3.0}),
    "flow-5": ("navier-stokes", {"cells": 5, "wells": 0.0}),
    "pipes-2": ("pipe-network", {"rows": 1, "columns": 2}),
    "pipes-day": ("pipe-network", {"rows": 2, "columns": 5, "left_out": 0.0, "sources": "day"}),
    "pipes-tree": ("pipe-network", {"rows": 3, "columns": 3, "left_out": 1.0, "mean_velocity": 0.0}),
    "wscc9-pysdc": ("wscc9", {"data": "pysdc"}),
    "wscc9-other": ("wscc9", {"outage": (5, 6), "t_fault": 0.2}),
}
CASES = [*NAMES, *MORE]
# Problems whose equations are defined for positive unknowns only.
POSITIVE = {"chemical-akzo-nobel"}
# Equations that bend within the differences taken here; test_wheelset_water_fekete.py takes shorter ones.
BENT = {"wheelset"}
# Problems with one branch for a step; the water tubes have one for each pipe.
SWITCHED = [name for name in NAMES if hasattr(PROBLEMS[name], "event") and name != "water-tube"]
# How far from the start the equations are defined; by 0.05 where not given.
SPREAD: dict[str, Any] = {
    "wheelset": 1e-6,
    "water-tube": np.r_[np.full(18, 1e-6), np.full(2, 1.0), np.full(18, 1e-5), np.full(11, 1.0)],
}
EPS = float(np.finfo(float).eps)
GUARD = 8


def make(case: str) -> Any:
    name, params = MORE.get(case, (case, {}))
    return PROBLEMS[name](**params)


def branches(P: Any) -> Iterator[None]:
    """Every branch that a step may choose, one after the other."""
    chosen = [a for a in ("switched", "limited") if hasattr(P, a)]
    for branch in (False, True) if chosen else (False,):
        for attribute in chosen:
            setattr(P, attribute, branch)
        yield


def points(P: Any, count: int = 3) -> Iterator[tuple[Any, Any, float]]:
    """States near the start, derivatives, and times on both sides of every disturbance."""
    rng = np.random.default_rng(7)
    start = np.asarray(P.u_exact(P.interval[0]))
    size = next((size for name, size in SPREAD.items() if isinstance(P, PROBLEMS[name])), 0.05)
    positive = any(isinstance(P, PROBLEMS[name]) for name in POSITIVE)
    for t in np.linspace(0.01, 0.3, count):
        u, du = start + size * rng.standard_normal(P.n), rng.standard_normal(P.n)
        yield np.abs(u) if positive else u, du, float(t)


def sampled(P: Any) -> Iterator[tuple[Any, Any, float]]:
    for _ in branches(P):
        yield from points(P)


def length(P: Any) -> int:
    return int(P.n**2 if P.sparsity is None else P.sparsity.nnz)


def dense(P: Any, entries: Any) -> Any:
    """Entries of a Jacobian as an array of shape (n, n)."""
    if P.sparsity is None:
        return np.reshape(entries, (P.n, P.n)).copy()
    found = P.sparsity.copy()
    found.data = np.array(entries)
    return found.toarray()


def residual(P: Any, u: Any, du: Any, t: float) -> Any:
    return np.asarray(P.eval_f(P.state(u), P.state(du), t))


def jacobian(P: Any, u: Any, du: Any, t: float, c: float) -> Any:
    matrix = P.jacobian(P.state(u), P.state(du), t, c)
    return matrix if P.sparsity is None else matrix.toarray()


def terms(P: Any, u: Any, du: Any, t: float) -> Any:
    """Size of what every equation adds up, at least one."""
    mass = jacobian(P, u, du, t, 0.0)
    stiffness = jacobian(P, u, du, t, 1.0) - mass
    at = np.maximum(np.abs(u), 1.0)
    return 1.0 + np.abs(stiffness) @ at + np.abs(mass) @ np.abs(du) + np.abs(residual(P, u, du, t))


class Guarded:
    """A copy of an array between cells of NaN."""

    def __init__(self, values: Any) -> None:
        self.given = np.array(values, dtype=np.float64).ravel()
        self.buffer = np.full(len(self.given) + 2 * GUARD, np.nan)
        self.cells = self.buffer[GUARD:-GUARD]
        self.cells[:] = self.given

    def untouched(self) -> bool:
        return self.guarded() and np.array_equal(self.cells, self.given, equal_nan=True)

    def guarded(self) -> bool:
        return bool(np.isnan(self.buffer[:GUARD]).all() and np.isnan(self.buffer[-GUARD:]).all())


# --- the library ----------------------------------------------------------------------------------


def test_every_problem_of_the_library_has_both_kernels() -> None:
    for name in NAMES:
        assert (PROBLEMS[name].residual_kernel is None) == (name in OF_PARTS)
        kernels = PROBLEMS[name]().kernels
        assert kernels is not None and kernels.residual != 0 and kernels.jacobian != 0


@pytest.mark.parametrize("case", CASES)
def test_kernels_called_by_address_are_the_methods_and_write_their_result_alone(case: str) -> None:
    P = make(case)
    kernels = P.kernels
    for u, du, t in sampled(P):
        given = [Guarded(values) for values in (u, du, P.packed_parameters)]
        state, rate, p = (array.cells for array in given)
        if case in OF_PARTS:  # which take no copy of the parameters
            p = P.packed_parameters
        out = Guarded(np.full(P.n, np.nan))
        machine("residual_at")(kernels.residual, t, state, rate, p, out.cells)
        assert np.isfinite(out.cells).all() and out.guarded()
        np.testing.assert_array_equal(out.cells, residual(P, u, du, t))
        if P.jacobian_kernel is COMPLEX_STEP:  # which takes no copy of the parameters
            p = P.packed_parameters
        for c in (0.0, 0.3):
            entries = Guarded(np.full(length(P), np.nan))
            machine("jacobian_at")(kernels.jacobian, t, state, rate, c, p, entries.cells)
            assert np.isfinite(entries.cells).all() and entries.guarded()
            np.testing.assert_array_equal(dense(P, entries.cells), jacobian(P, u, du, t, c))
        assert all(array.untouched() for array in given)


@pytest.mark.parametrize("case", CASES)
def test_many_nodes_in_one_call_are_the_single_nodes(case: str) -> None:
    P = make(case)
    u, du, t = (np.array(part) for part in zip(*points(P, 5), strict=True))
    out = np.empty_like(u)
    machine("residuals_at")(P.kernels.residual, t, u, du, P.packed_parameters, out)
    expected = [residual(P, *point) for point in zip(u, du, t, strict=True)]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("case", [case for case in CASES if case not in BENT])
@pytest.mark.parametrize("c", [0.0, 0.3])
def test_jacobian_is_the_slope_of_the_residual(case: str, c: float) -> None:
    """Central differences with two steps; their difference bounds the error of those with the smaller."""
    P, h = make(case), 1e-4
    for u, du, t in sampled(P):
        exact, size = jacobian(P, u, du, t, c), terms(P, u, du, t)
        slopes = []
        for step in (h, 2.0 * h):
            columns = [
                (residual(P, u + c * e, du + e, t) - residual(P, u - c * e, du - e, t)) / (2.0 * step)
                for e in step * np.eye(P.n)
            ]
            slopes.append(np.array(columns).T)
        allowed = np.abs(slopes[1] - slopes[0]) + 8.0 * EPS * size[:, None] / h
        assert (np.abs(slopes[0] - exact) <= allowed).all()
        assert allowed.max() < 1e-2 * np.abs(exact).max(), "or the bound says nothing"


@pytest.mark.parametrize("case", [case for case in CASES if case not in OF_PARTS])
def test_kernels_run_as_plain_python_give_what_they_give_compiled(case: str) -> None:
    P = make(case)
    cls = type(P)
    for u, du, t in sampled(P):
        p, value, entries = P.packed_parameters, np.full(P.n, np.nan), np.full(length(P), np.nan)
        cls.residual_kernel(t, u, du, p, value)
        assert (np.abs(value - residual(P, u, du, t)) <= 8.0 * EPS * terms(P, u, du, t)).all()
        for c in (0.0, 0.3) if cls.jacobian_kernel is not COMPLEX_STEP else ():
            cls.jacobian_kernel(t, u, du, c, p, entries)
            expected = jacobian(P, u, du, t, c)
            allowed = 16.0 * EPS * np.abs(expected).max(axis=1, keepdims=True)
            assert (np.abs(dense(P, entries) - expected) <= allowed).all()


# --- other formulations ---------------------------------------------------------------------------


def assert_same(P: Any, other: Callable[..., Any], tolerance: float = 16.0) -> None:
    """``other(P, u, du, t)`` is the residual to a few roundings of what the equations add up."""
    for u, du, t in sampled(P):
        allowed = tolerance * EPS * terms(P, u, du, t)
        assert (np.abs(residual(P, u, du, t) - other(P, u, du, t)) <= allowed).all()


def one_transistor(P: Any, u: Any, du: Any, t: float) -> Any:
    u1, u2, u3, u4, u5 = u
    d1, d2, d3, d4, d5 = du
    g = P.beta * np.expm1((u2 - u3) / P.U_F)
    signal = P.amplitude * np.sin(2.0 * np.pi * P.frequency * t)
    return [
        (signal - u1) / P.R_0 + P.C_1 * (d2 - d1),
        (P.U_b - u2) / P.R_2 - u2 / P.R_1 + P.C_1 * (d1 - d2) - (1.0 - P.alpha) * g,
        g - u3 / P.R_3 - P.C_2 * d3,
        (P.U_b - u4) / P.R_4 + P.C_3 * (d5 - d4) - P.alpha * g,
        -u5 / P.R_5 + P.C_3 * (d4 - d5),
    ]


def two_transistors(P: Any, u: Any, du: Any, t: float) -> Any:
    u1, u2, u3, u4, u5, u6, u7, u8 = u
    d1, d2, d3, d4, d5, d6, d7, d8 = du
    g1, g2 = P.beta * np.expm1((u2 - u3) / P.U_F), P.beta * np.expm1((u5 - u6) / P.U_F)
    signal = P.amplitude * np.sin(2.0 * np.pi * P.frequency * t)
    return [
        (signal - u1) / P.R_0 + P.C_1 * (d2 - d1),
        (P.U_b - u2) / P.R_2 - u2 / P.R_1 + P.C_1 * (d1 - d2) - (1.0 - P.alpha) * g1,
        g1 - u3 / P.R_3 - P.C_2 * d3,
        (P.U_b - u4) / P.R_4 + P.C_3 * (d5 - d4) - P.alpha * g1,
        (P.U_b - u5) / P.R_6 - u5 / P.R_5 + P.C_3 * (d4 - d5) - (1.0 - P.alpha) * g2,
        g2 - u6 / P.R_7 - P.C_4 * d6,
        (P.U_b - u7) / P.R_8 + P.C_5 * (d8 - d7) - P.alpha * g2,
        -u8 / P.R_9 + P.C_5 * (d7 - d8),
    ]


def synchronous_machine(P: Any, u: Any, du: Any, t: float) -> Any:
    """With complex voltages and the matrix of the inductances."""
    flux, delta, omega, current = u[:6], u[6], u[7], u[8:]
    drop = P.Z_line * (current[1] - 1j * current[0])
    voltage = P.E_B * np.exp(-1j * delta) + drop
    applied = np.array([-voltage.imag, voltage.real, P.v_F, 0.0, 0.0, 0.0])
    resistance = np.array([P.R_s, P.R_s, P.R_F, P.R_D, P.R_Q1, P.R_Q2])
    turned = np.array([omega * flux[1], -omega * flux[0], 0.0, 0.0, 0.0, 0.0])
    on_d = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    inductance = P.L_md * np.outer(on_d, on_d) + P.L_mq * np.outer(1.0 - on_d, 1.0 - on_d)
    np.fill_diagonal(inductance, [P.L_d, P.L_q, P.L_F, P.L_D, P.L_Q1, P.L_Q2])
    torque = P.T_m if t <= P.t_disturbance else P.T_m_after
    torque -= flux[1] * current[0] - flux[0] * current[1] + P.K_D * P.omega_b * (omega - 1.0)
    return np.concatenate(
        [
            P.omega_b * (applied - resistance * current + turned) - du[:6],
            [P.omega_b * (omega - 1.0) - du[6], torque / (2.0 * P.H) - du[7]],
            inductance @ current - flux,
        ]
    )


def wscc9(P: Any, u: Any, du: Any, t: float) -> Any:
    """All machines at once, with phasors; set points from the initial value, the network branch by branch."""
    k = machines
    eqp, si1d, edp, si2q, delta, w, efd, rf, vr, tm, psv, i_d, i_q = u[:39].reshape(13, 3)
    at_rest = np.asarray(P.u_exact(0.0))
    v_ref, p_c = at_rest[39:42] + at_rest[24:27] / k.KA, at_rest[27:30]
    d, q = k.Xdp - k.Xls, k.Xqp - k.Xls
    lag_d, lag_q = si1d + d * i_d - eqp, si2q + q * i_q + edp
    reach_d = i_d - (k.Xdp - k.Xdpp) / d**2 * lag_d
    reach_q = i_q - (k.Xqp - k.Xqpp) / q**2 * lag_q
    in_d, in_q = k.A1 * eqp + k.A2 * si1d, k.A3 * edp - k.A4 * si2q
    torque = in_d * i_q + in_q * i_d + (k.Xqpp - k.Xdpp) * i_d * i_q
    droop = (w / SYNCHRONOUS_SPEED - 1.0) / k.RD
    rates = [
        (-eqp - (k.Xd - k.Xdp) * reach_d + efd) / k.Td0p,
        (-si1d + eqp - d * i_d) / k.Td0pp,
        (-edp + (k.Xq - k.Xqp) * reach_q) / k.Tq0p,
        (-si2q - edp - q * i_q) / k.Tq0pp,
        w - w @ k.H / k.H.sum(),
        SYNCHRONOUS_SPEED / (2.0 * k.H) * (tm - torque - k.Dm * (w - SYNCHRONOUS_SPEED)),
        (-(k.KE + k.Ax * np.exp(k.Bx * efd)) * efd + vr) / k.TE,
        (-rf + k.KF / k.TF * efd) / k.TF,
        (-vr + k.KA * rf - k.KA * k.KF / k.TF * efd + k.KA * (v_ref - u[39:42])) / k.TA,
        (-tm + psv) / k.TCH,
        (-psv + p_c - droop) / k.TSV,
    ]
    rates[-1][0] *= not P.limited
    v = u[39:48] * np.exp(1j * u[48:])
    terminal = v[:3] * np.exp(-1j * delta)
    # The network as its branches, or as the matrix in another bus order.
    outage = P.outage if t > P.t_fault else None
    drawn = np.zeros(9, dtype=complex)
    if P.data == "corrected":
        for first, second, resistance, reactance, charging in BRANCHES:
            if outage is None or {first, second} != set(outage):
                a, b = first - 1, second - 1
                through = (v[a] - v[b]) / (resistance + 1j * reactance)
                drawn[a] += through + 0.5j * charging * v[a]
                drawn[b] += -through + 0.5j * charging * v[b]
    else:
        order = np.arange(9) if outage is None else np.array([1, 2, 3, 4, 9, 5, 8, 7, 6]) - 1
        drawn = admittance(without=outage)[np.ix_(order, order)] @ v
    power = -LOAD - v * np.conj(drawn)
    power[:3] += (i_q + 1j * i_d) * terminal
    return np.concatenate(
        [
            np.concatenate(rates) - du[:33],
            k.Rs * i_d - k.Xqpp * i_q - in_q - terminal.imag,
            k.Rs * i_q + k.Xdpp * i_d - in_d + terminal.real,
            *(power.real[:3], power.imag[:3], power.real[3:], power.imag[3:]),
        ]
    )


def line(P: Any, u: Any, du: Any, t: float) -> Any:
    """Node by node; the sources from putting the wave into the equations."""
    n, omega = P.sections, 2.0 * math.pi * P.frequency
    half = 0.5 * P.amplitude

    def phase(s: float) -> float:
        return omega * t - 2.0 * math.pi * P.waves * s / n

    def balances(v: list[float], w: list[float], dv: list[float]) -> Any:
        """Without the small sources; ``v`` begins with the source of the line."""
        w = [math.nan, *w, w[-1]]
        nodes = [
            dv[k] - 2.0 / (P.R * P.C) * (w[k] - 2.0 * v[k] + w[k + 1]) if k else math.nan
            for k in range(n + 1)
        ]
        middles = [
            w[k] - 0.5 * (v[k - 1] + v[k]) + 0.25 * P.R * P.I_s * math.expm1(w[k] / P.U_d)
            for k in range(1, n + 1)
        ]
        return np.array([*nodes[1:], *middles])

    source = half * (1.0 - math.cos(omega * t))
    found = balances([source, *u[:n]], [*u[n:]], [math.nan, *du[:n]])
    if P.feed == "end":
        return found
    v = [half * (1.0 - math.cos(phase(k))) for k in range(n + 1)]
    w = [half * (1.0 - math.cos(phase(k - 0.5))) for k in range(1, n + 1)]
    return found - balances(v, w, [half * omega * math.sin(phase(k)) for k in range(n + 1)])


OTHERS: dict[str, Callable[..., Any]] = {
    "one-transistor": one_transistor,
    "two-transistor": two_transistors,
    "synchronous-machine": synchronous_machine,
    "wscc9": wscc9,
    "transmission-line": line,
}


@pytest.mark.parametrize("case", [case for case in CASES if MORE.get(case, (case,))[0] in OTHERS])
def test_residual_is_that_of_another_formulation(case: str) -> None:
    P = make(case)
    assert_same(P, OTHERS[MORE.get(case, (case,))[0]])


def test_a_circuit_may_join_any_nodes_and_potentials() -> None:
    class Divider(Amplifier):
        """A filter: signal - C - node 0 - R - node 1, and both nodes to supply and ground."""

        U_b, U_F, alpha, beta, amplitude, frequency = 5.0, 0.025, 0.98, 1e-6, 0.3, 20.0
        size = (2, 0)

        def components(self) -> Components:
            resistors = [(1, 0, 2e3), (SUPPLY, 1, 5e3), (0, GROUND, 7e3), (SIGNAL, 1, 9e3)]
            return Components(resistors, [(SIGNAL, 0, 1e-6), (1, SUPPLY, 3e-6)], [])

    def currents(P: Any, u: Any, du: Any, t: float) -> Any:
        phase = 2.0 * np.pi * P.frequency * t
        signal, rate = P.amplitude * np.sin(phase), P.amplitude * 2.0 * np.pi * P.frequency * np.cos(phase)
        through = (u[1] - u[0]) / 2e3
        return [
            through - u[0] / 7e3 + 1e-6 * (rate - du[0]),
            (P.U_b - u[1]) / 5e3 - through + (signal - u[1]) / 9e3 - 3e-6 * du[1],
        ]

    P = Divider()
    rng = np.random.default_rng(4)
    for t in (0.0, 0.013):
        u, du = rng.standard_normal((2, 2))
        np.testing.assert_allclose(residual(P, u, du, t), currents(P, u, du, t), rtol=1e-13)
        matrix = np.array(
            [[residual(P, 0.3 * e, e, t) - residual(P, 0.0 * e, 0.0 * e, t)] for e in np.eye(2)]
        )
        np.testing.assert_allclose(jacobian(P, u, du, t, 0.3), matrix[:, 0].T, rtol=1e-9, atol=1e-18)


@pytest.mark.parametrize(
    "parts",
    [
        ([(0, 2, 1.0)], [], []),
        ([(GROUND, SUPPLY, 1.0)], [], []),
        ([], [(-4, 1, 1.0)], []),
        ([], [], [(0, GROUND, 1)]),
    ],
)
def test_a_circuit_with_a_node_that_it_has_not_is_refused(parts: tuple[Any, Any, Any]) -> None:
    class Wrong(Amplifier):
        U_b, U_F, alpha, beta, amplitude, frequency = 5.0, 0.025, 0.98, 1e-6, 0.3, 20.0
        size = (2, 0)

        def components(self) -> Components:
            return Components(*parts)

    P = Wrong()
    with pytest.raises(InputError, match="components of Wrong must join nodes 0 to 1"):
        residual(P, np.zeros(2), np.zeros(2), 0.0)


# --- parameters -----------------------------------------------------------------------------------

# Parameters that a problem reads once, because its size, data or start depend on them.
FIXED = {"sections", "cells", "ribs", "data", "outage", "feed", "formulation", "misprint"}
FIXED |= {"rows", "columns", "left_out", "nodes_per_tank", "seed", "sources"}


@pytest.mark.parametrize("name", NAMES)
def test_a_parameter_changed_later_reaches_the_equations_as_one_given_first(name: str) -> None:
    for parameter in PROBLEMS[name].parameter_units:
        if parameter in FIXED:
            continue
        given: Any = PROBLEMS[name]()
        value = 0.985 * getattr(given, parameter) + 0.0037
        before = given.packed_parameters
        setattr(given, parameter, value)
        expected: Any = PROBLEMS[name](**{parameter: value})
        u, du, t = next(points(PROBLEMS[name](), 1))
        np.testing.assert_array_equal(residual(given, u, du, t), residual(expected, u, du, t))
        np.testing.assert_array_equal(jacobian(given, u, du, t, 0.3), jacobian(expected, u, du, t, 0.3))
        if parameter != "psv_max":  # which decides the branch only
            assert not np.array_equal(given.packed_parameters, before)


@pytest.mark.parametrize("name", SWITCHED)
def test_the_branch_of_a_step_reaches_the_kernel(name: str) -> None:
    P: Any = PROBLEMS[name]()
    u, du, t = next(points(P, 1))
    found = []
    for _ in branches(P):
        found.append(residual(P, u, du, t))
    assert np.count_nonzero(found[0] != found[1]) == 1


def test_a_step_on_the_same_branch_keeps_the_parameters() -> None:
    P = WSCC9BusSystem()
    u = P.u_exact(0.0)
    P.start_step(u, 0.0)
    before = P.packed_parameters
    P.start_step(u, 0.1)
    assert P.packed_parameters is before
    u[P.names.index("PSV1")] = 2.0
    P.start_step(u, 0.2)
    assert P.packed_parameters is not before
    assert np.count_nonzero(P.packed_parameters != before) == 1


def test_networks_given_later_are_used_and_must_have_nine_buses() -> None:
    P = WSCC9BusSystem()
    u, du, t = next(points(P, 1))
    P.networks = (P.networks[1], P.networks[1])
    other = WSCC9BusSystem(t_fault=-1.0)
    np.testing.assert_array_equal(residual(P, u, du, t), residual(other, u, du, t))
    P.networks = (np.eye(10), np.eye(9))
    with pytest.raises(ValueError, match="reshape"):
        residual(P, u, du, t)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda P: dill.loads(dill.dumps(P))])
@pytest.mark.parametrize("name", NAMES)
def test_copies_of_a_problem_have_the_equations_and_parameters_of_their_own(
    name: str, duplicate: Callable[[Any], Any]
) -> None:
    P: Any = PROBLEMS[name]()
    u, du, t = next(points(P, 1))
    expected = residual(P, u, du, t)
    other = duplicate(P)
    np.testing.assert_array_equal(residual(other, u, du, t), expected)
    assert other.kernels.residual == P.kernels.residual
    if P.packed_parameters.size:
        assert not np.shares_memory(other.packed_parameters, P.packed_parameters)
    numbers = [parameter for parameter, unit in P.parameter_units.items() if unit not in ("none", "1")]
    for parameter in [p for p in numbers if p not in FIXED][:1]:
        if parameter == "t_fault":
            continue
        setattr(other, parameter, 1.5 * getattr(other, parameter))
        assert (residual(other, u, du, t) != expected).any()
    np.testing.assert_array_equal(residual(P, u, du, t), expected)


# --- problems of a user ---------------------------------------------------------------------------


def decay_residual(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
    out[0] = du[0] + p[0] * u[0]


def decay_jacobian(t: float, u: Any, du: Any, c: float, p: Any, out: Any) -> None:
    out[0] = 1.0 + c * p[0]


class Decay(ProblemDAE):
    """u' = -rate u."""

    residual_kernel = decay_residual
    jacobian_kernel = decay_jacobian

    def __init__(self, rate: float = 2.0, **settings: Any) -> None:
        super().__init__(1, 0, **settings)
        self.rate = rate

    def kernel_parameters(self) -> Any:
        return [self.rate]

    def u_exact(self, t: float) -> Any:
        return [math.exp(-self.rate * t)]


def test_a_problem_of_kernels_is_solved() -> None:
    solution = solve(Decay, params={"rate": 3.0}, dt=0.1, t_end=0.5, nodes=3, restol=1e-12)
    assert solution.success, solution.message
    assert abs(float(solution.u[-1][0]) - math.exp(-1.5)) < 1e-6


def test_a_subclass_with_equations_of_its_own_has_no_kernels() -> None:
    class Shifted(Decay):
        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return super().eval_f(u, du, t) + 1.0

    P: Any = Shifted()
    assert P.kernels is None
    assert Shifted.jacobian_kernel is None
    assert residual(P, [1.0], [0.5], 0.0).tolist() == [3.5]
    assert jacobian(P, [1.0], [0.5], 0.0, 0.1).tolist() == [[1.2]]


def test_a_subclass_with_a_jacobian_of_its_own_keeps_the_residual_kernel() -> None:
    class Doubled(Decay):
        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            return 2.0 * super().jacobian(u, du, t, c)

    P: Any = Doubled()
    assert P.kernels is not None and P.kernels.residual == Decay().kernels.residual  # type: ignore[union-attr]
    assert P.kernels.jacobian == 0
    assert jacobian(P, [1.0], [0.5], 0.0, 0.1).tolist() == [[2.4]]


def test_a_subclass_without_a_change_shares_the_kernels() -> None:
    class Same(SimpleDAE):
        pass

    assert Same().kernels == SimpleDAE().kernels


def test_equations_given_twice_are_refused() -> None:
    with pytest.raises(InputError, match="Twice gives its equations twice, as eval_f and as residual_kernel"):

        class Twice(ProblemDAE):
            residual_kernel = decay_residual

            def eval_f(self, u: Any, du: Any, t: float) -> Any:
                return du + u


def test_a_kernel_that_numba_cannot_compile_is_named() -> None:
    def with_text(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = u["first"]

    class Wrong(ProblemDAE):
        residual_kernel = with_text

    with pytest.raises(InputError, match=r"numba cannot compile the kernel .*with_text: ") as error:
        residual(Wrong(1, 0), [1.0], [1.0], 0.0)
    assert "\n" not in str(error.value)


def test_a_kernel_typed_at_a_prompt_has_no_file_and_works() -> None:
    space: dict[str, Any] = {}
    exec("def typed(t, u, du, p, out):\n    out[0] = du[0] + t * u[0] ** 2\n", space)

    class Typed(ProblemDAE):
        residual_kernel = space["typed"]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        P: Any = Typed(1, 0)
        assert residual(P, [3.0], [1.0], 2.0).tolist() == [19.0]
    assert P.kernels is not None and P.kernels.jacobian == 0


def test_numbers_that_a_function_does_not_take_give_nan_and_infinity() -> None:
    def undefined(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = math.log(u[0])
        out[1] = math.exp(u[1])
        out[2] = 1.0 / u[2]

    class Undefined(ProblemDAE):
        residual_kernel = undefined

    P: Any = Undefined(3, 0)
    found = residual(P, [-1.0, 1e4, 0.0], np.zeros(3), 0.0)
    assert np.isnan(found[0]) and found[1:].tolist() == [math.inf, math.inf]


def test_a_line_keeps_its_wave_where_differences_of_it_would_lose_digits() -> None:
    """On a long line neighbours differ by 1e-8 of the wave, and second differences by 1e-8 of that."""
    P = TransmissionLine(sections=4000, waves=1e-4, C=1e-6)
    for t in (0.1, 0.7):
        found = residual(P, P.u_exact(t), P.du_exact(t), t)
        assert np.abs(found).max() <= 4.0 * EPS * 4.0 * 2.0 / (P.R * P.C)


def test_a_global_number_is_that_of_the_run_and_not_that_of_an_earlier_one(tmp_path: Path) -> None:
    """Compiled code holds it and is kept on disk, and the file that reads it may have stayed the same."""
    file = tmp_path / "given_rate.py"
    file.write_text(
        "import sys\n"
        "from dae_sdc.dae.problem import ProblemDAE\n"
        "RATE = float(sys.argv[1])\n"
        "def given_rate(t, u, du, p, out):\n"
        "    out[0] = du[0] + RATE * u[0]\n"
        "class Decay(ProblemDAE):\n"
        "    residual_kernel = given_rate\n"
        "P = Decay(1, 0)\n"
        "print(P.eval_f(P.state([1.0]), P.state([0.0]), 0.0)[0])\n"
    )
    surroundings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for rate in ("2.0", "3.0", "2.0"):
        command = [sys.executable, str(file), rate]
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=surroundings)
        assert run.stdout.strip() == rate
    assert len(list(tmp_path.glob("dae_sdc_functions/given_rate-*.o"))) == 2, "each was compiled once"


def test_a_kernel_that_calls_a_compiled_function_works() -> None:
    double = njit(lambda x: 2.0 * x)

    space: dict[str, Any] = {"double": double}
    exec("def calls(t, u, du, p, out):\n    out[0] = du[0] + double(u[0])\n", space)

    class Calls(ProblemDAE):
        residual_kernel = space["calls"]

    assert residual(Calls(1, 0), [3.0], [1.0], 0.0).tolist() == [7.0]
