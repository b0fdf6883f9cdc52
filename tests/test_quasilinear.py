"""Quasilinear problems: formulations, derivatives, compiled parts, and what they refuse."""

from __future__ import annotations

import copy
import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import dae_sdc as ds
from dae_sdc.constrained.parts import PARTS, Pointers
from dae_sdc.dae.jacobian import most_accurate
from dae_sdc.dae.kernels import COMPLEX_STEP, machine
from dae_sdc.dae.state import Vector
from dae_sdc.run.description import describe
from dae_sdc.sweepers._machine_stages import MachineStages

GRAVITY = 9.8
EXACT = ds.Pendulum2D(g=GRAVITY)
"""Its solution in elliptic functions; 2 l^2 times its constraint is that of the pendulums here."""


class Pendulum(ds.QuasiLagrangeProblem):
    """Unit mass on a rod of unit length, let go from (-1, 0)."""

    names = ("x", "y", "u", "v", "lambda")
    units = ("m", "m", "m/s", "m/s", "N/m")
    constraint_names = ("length of the rod",)

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def A(self, t: float, q: Vector, v: Vector) -> Any:
        return np.eye(2)

    def h(self, t: float, q: Vector, v: Vector) -> Any:
        return [0.0, -GRAVITY]

    def g(self, t: float, q: Vector) -> Any:
        return [0.5 * (q[0] * q[0] + q[1] * q[1] - 1.0)]

    def energy(self, q: Vector, v: Vector) -> float:
        return float(0.5 * v @ v + GRAVITY * q[1])


class WithB(ds.QuasiSecondOrderProblem):
    """The same with B and all derivatives given."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def A(self, t: float, q: Vector, v: Vector) -> Any:
        return np.eye(2)

    def B(self, t: float, q: Vector, v: Vector) -> Any:
        return q[:, None]

    def h(self, t: float, q: Vector, v: Vector) -> Any:
        return np.array([0.0, -GRAVITY])

    def g(self, t: float, q: Vector) -> Any:
        return np.array([0.5 * (q @ q - 1.0)])

    def dg(self, t: float, q: Vector) -> Any:
        return q[None, :]

    def dg_dt(self, t: float, q: Vector) -> Any:
        return np.zeros(1)

    def d2g(self, t: float, q: Vector, v: Vector) -> Any:
        return np.array([v @ v])


def mass_kernel(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1], out[2], out[3] = 1.0, 0.0, 0.0, 1.0


def force_kernel(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1] = 0.0, -p[0]


def rod_kernel(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = 0.5 * (q[0] * q[0] + q[1] * q[1] - 1.0)


def rod_slopes(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1] = q[0], q[1]


def rod_rates(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = 0.0


def rod_rest(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = v[0] * v[0] + v[1] * v[1]


class Compiled(ds.QuasiLagrangeProblem):
    """The same from kernels."""

    A_kernel = mass_kernel
    h_kernel = force_kernel
    g_kernel = rod_kernel

    def __init__(self, gravity: float = GRAVITY, **settings: Any) -> None:
        super().__init__(2, 1, **settings)
        self._makeAttributeAndRegister("gravity", localVars=locals())

    def kernel_parameters(self) -> list[float]:
        return [self.gravity]


class Skate(ds.NonholonomicProblem):
    """A blade at an angle that glides along itself: a circle when it turns at a constant rate."""

    names = ("x", "y", "angle", "vx", "vy", "rate", "side force")
    constraint_names = ("no sliding sideways",)

    def __init__(self, **settings: Any) -> None:
        super().__init__(3, 1, **settings)

    def A(self, t: float, q: Vector, v: Vector) -> Any:
        return np.diag([2.0, 2.0, 1.0])

    def h(self, t: float, q: Vector, v: Vector) -> Any:
        return np.zeros(3)

    def g(self, t: float, q: Vector, v: Vector) -> Any:
        return [np.sin(q[2]) * v[0] - np.cos(q[2]) * v[1]]

    def u_exact(self, t: float, speed: float = 1.5, rate: float = 2.0) -> Any:
        radius = speed / rate
        place = [radius * math.sin(rate * t), radius * (1.0 - math.cos(rate * t)), rate * t]
        velocity = [speed * math.cos(rate * t), speed * math.sin(rate * t), rate]
        return self.state([*place, *velocity, 2.0 * speed * rate])


class Circle(ds.QuasiFirstOrderProblem):
    """u = (cos t, sin t) from one differential equation and the circle."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def A(self, t: float, u: Vector) -> Any:
        return [[1.0, 0.0]]

    def h(self, t: float, u: Vector) -> Any:
        return [-u[1]]

    def g(self, t: float, u: Vector) -> Any:
        return [u[0] ** 2 + u[1] ** 2 - 1.0]

    def u_exact(self, t: float) -> Any:
        return self.state([math.cos(t), math.sin(t)])


class Held(Circle):
    """u = (cos t, sin t), held on the circle by a multiplier e^t."""

    def A(self, t: float, u: Vector) -> Any:
        return np.array([[2.0, 0.0], [0.0, 1.0]])

    def B(self, t: float, u: Vector) -> Any:
        return np.array([[u[0]], [u[1] + 3.0]])

    def h(self, t: float, u: Vector) -> Any:
        x, y = u
        return [-2.0 * y + x * math.exp(t), x + (y + 3.0) * math.exp(t)]

    def u_exact(self, t: float) -> Any:
        return self.state([math.cos(t), math.sin(t), math.exp(t)])


class Implicit(ds.ImplicitDAE):
    """u = e^-t and w = 1 + t."""

    names = ("u", "p", "w")

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)

    def F(self, t: float, u: Vector, p: Vector, w: Vector) -> Any:
        return [p[0] ** 3 + (w[0] - t) * u[0] ** 3, w[0] ** 2 - (1.0 + t) ** 2]

    def u_exact(self, t: float) -> Any:
        return self.state([math.exp(-t), -math.exp(-t), 1.0 + t])


def implicit_kernel(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = u[1] ** 3 + (u[2] - t) * u[0] ** 3
    out[1] = u[2] * u[2] - (1.0 + t) * (1.0 + t)


class CompiledImplicit(ds.ImplicitDAE):
    F_kernel = implicit_kernel

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)


def blade_mass(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    for i in range(9):
        out[i] = 0.0
    out[0], out[4], out[8] = 2.0, 2.0, 1.0


def blade_force(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1], out[2] = 0.0, 0.0, 0.0


def blade_slip(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = math.sin(q[2]) * v[0] - math.cos(q[2]) * v[1]


class CompiledSkate(ds.NonholonomicProblem):
    A_kernel = blade_mass
    h_kernel = blade_force
    g_kernel = blade_slip

    def __init__(self, **settings: Any) -> None:
        super().__init__(3, 1, **settings)


def circle_mass(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1] = 1.0, 0.0


def circle_rate(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = -u[1]


def circle_constraint(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = u[0] ** 2 + u[1] ** 2 - 1.0


class CompiledCircle(ds.QuasiFirstOrderProblem):
    A_kernel = circle_mass
    h_kernel = circle_rate
    g_kernel = circle_constraint

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)


def held_mass(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1], out[2], out[3] = 2.0, 0.0, 0.0, 1.0


def held_coupling(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1] = u[0], u[1] + 3.0


def held_rate(t: float, u: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = -2.0 * u[1] + u[0] * math.exp(t)
    out[1] = u[0] + (u[1] + 3.0) * math.exp(t)


class CompiledHeld(CompiledCircle):
    A_kernel = held_mass
    B_kernel = held_coupling
    h_kernel = held_rate


# --- what the six types are ---------------------------------------------------------------------------

KINDS = [
    (Implicit, "daen1", "daeq1", {"index-1": (1, 3)}),
    (Circle, "daeq1", "daeq1", {"index-1": (1, 2)}),
    (Held, "daeq2", "daeq2", {"index-2": (2, 3), "index-1": (1, 3)}),
    (WithB, "daeq3", "daeq3", {"index-3": (3, 5), "index-2": (2, 5), "ggl": (2, 6), "index-1": (1, 5)}),
    (Skate, "nohol", "nohol", {"index-2": (2, 7), "index-1": (1, 7)}),
    (Pendulum, "eulag", "eulag", {"index-3": (3, 5), "index-2": (2, 5), "ggl": (2, 6), "index-1": (1, 5)}),
]


@pytest.mark.parametrize(("cls", "kind", "form", "formulations"), KINDS)
def test_a_class_tells_its_type_and_its_formulations(
    cls: Any, kind: str, form: str, formulations: dict[str, tuple[int, int]]
) -> None:
    assert cls.formulations == tuple(formulations)
    assert cls().formulation == next(iter(formulations))
    for formulation, (index, n) in formulations.items():
        P = cls(formulation=formulation)
        assert (P.kind, P.pointers().kind, P.index, P.n) == (kind, form, index, n)
        assert max(P.variable_index) == index
        assert len(P.names) == len(P.equation_names) == len(P.units) == n
        assert sum(part.stop - part.start for part in P.groups.values()) == n
        assert P.params["formulation"] == formulation


def test_the_stabilised_formulation_adds_its_unknowns_to_names_and_units() -> None:
    P = Pendulum(formulation="ggl")
    assert P.names == ("x", "y", "u", "v", "lambda", "mu_0")
    assert P.units[-2:] == ("N/m", "")
    assert P.groups["stabiliser"] == slice(5, 6)
    assert P.variable_index == (1, 1, 1, 1, 2, 2)
    assert P.equation_names[-2:] == ("length of the rod", "first derivative of length of the rod")


# --- orders -------------------------------------------------------------------------------------------


def pendulum_start(P: Any, t: float = 0.0) -> Any:
    exact = EXACT.u_exact(t)
    return P.consistent(t, exact[:2], exact[2:4])


def errors(P: Any, start: Any, exact: Vector, t0: float, t_end: float, dt: float, **how: Any) -> Vector:
    how = {"sweeper": "radau-iia-5", **how}
    found = ds.solve(P, u0=start, t0=t0, t_end=t_end, dt=dt, **how)
    assert found.success, found.message
    difference = np.abs(np.asarray(found.u[-1])[: len(exact)] - exact)
    return np.array([difference[part].max() for part in P.groups.values() if part.stop <= len(exact)])


PENDULUM_ORDERS = {"index-3": (5, 3, 2), "index-2": (5, 5, 3), "ggl": (5, 5, 3), "index-1": (5, 5, 5)}


@pytest.mark.parametrize("cls", [Pendulum, WithB, Compiled])
@pytest.mark.parametrize(("formulation", "orders"), PENDULUM_ORDERS.items())
def test_radau_has_the_orders_of_theory_by_component_class(cls: Any, formulation: str, orders: Any) -> None:
    P = cls(formulation=formulation)
    exact = EXACT.u_exact(0.8)
    found = np.array([errors(P, pendulum_start(P), exact, 0.0, 0.8, dt) for dt in (0.1, 0.05, 0.025)])
    measured = np.log2(found[:-1] / found[1:])
    assert measured[-1] == pytest.approx(orders, abs=0.35), (found, measured)


def test_a_study_may_choose_the_formulation_of_a_class() -> None:
    assert describe(Pendulum, params={"formulation": "ggl"}).problem.formulation == "ggl"
    with refused(ds.InputError, "unknown parameter of Pendulum 'form'", "did you mean 'formulation'?"):
        describe(Pendulum, params={"form": "ggl"})


@pytest.mark.parametrize(("formulation", "orders"), PENDULUM_ORDERS.items())
def test_studies_expect_the_orders_of_theory_by_component_class(formulation: str, orders: Any) -> None:
    P = Pendulum(formulation=formulation)
    for how in ({"sweeper": "radau-iia-5"}, {"sweeper": "semi-implicit", "nodes": 3}):
        expected = describe(P, **how).expected()
        assert [expected[group] for group in ("position", "velocity", "multiplier")] == list(orders)


@pytest.mark.parametrize("sweeper", ["semi-implicit", "fully-implicit"])
@pytest.mark.parametrize("formulation", PENDULUM_ORDERS)
def test_converged_sweeps_give_the_collocation_solution_that_radau_gives(
    sweeper: str, formulation: str
) -> None:
    P = Pendulum(formulation=formulation)
    how = {"t_end": 0.1, "dt": 0.05, "u0": pendulum_start(P)}
    radau = ds.solve(P, sweeper="radau-iia-5", **how)
    swept = ds.solve(P, sweeper=sweeper, nodes=3, restol=1e-11, maxiter=300, **how)
    assert radau.success and swept.success, swept.message
    # Residuals of 1e-11 leave errors that grow by 1/dt with every index above 1.
    tolerance = 1e-9 * 20.0 ** (np.array(P.variable_index) - 1.0)
    assert (np.abs(radau.u[-1] - swept.u[-1]) <= tolerance).all()


FIRST_ORDER = [
    (Circle, "index-1", 0.5, (5,)),
    (Held, "index-2", 0.5, (5, 3)),
    (Held, "index-1", 0.5, (5,)),  # its multiplier is that of the solution wherever u is on the circle
    (Implicit, "index-1", 0.0, (5, 5)),
    (CompiledImplicit, "index-1", 0.0, (5, 5)),
]


@pytest.mark.parametrize(("cls", "formulation", "t0", "orders"), FIRST_ORDER)
def test_problems_of_first_order_have_the_orders_of_theory(
    cls: Any, formulation: str, t0: float, orders: Any
) -> None:
    P = cls(formulation=formulation)
    exact = Implicit().u_exact if cls is CompiledImplicit else P.u_exact
    found = np.array([errors(P, exact(t0), exact(t0 + 1.0), t0, t0 + 1.0, dt) for dt in (0.25, 0.125)])
    compared = found[:, : len(orders)]
    assert np.log2(compared[0] / compared[1]) == pytest.approx(orders, abs=0.35), found
    assert found[1].max() < 1e-3


@pytest.mark.parametrize("formulation", ["index-2", "index-1"])
def test_a_skate_goes_round_in_a_circle(formulation: str) -> None:
    P = Skate(formulation=formulation)
    exact = P.u_exact(1.0)
    found = np.array([errors(P, P.u_exact(0.0), exact, 0.0, 1.0, dt) for dt in (0.25, 0.125)])
    assert np.log2(found[0, :2] / found[1, :2]) == pytest.approx((5, 5), abs=0.35), found
    assert found[1, 2] < 1e-3


# --- derivatives --------------------------------------------------------------------------------------


class Surface(ds.QuasiSecondOrderProblem):
    """Two constraints that depend on everything, with a sine of time that takes complex times."""

    sine: Callable[[Any], Any] = staticmethod(np.sin)

    def __init__(self, **settings: Any) -> None:
        super().__init__(3, 2, **settings)

    def A(self, t: float, q: Vector, v: Vector) -> Any:
        return np.diag([2.0 + q[1] ** 2, 1.0 + 0.1 * v[0] ** 2, 3.0])

    def B(self, t: float, q: Vector, v: Vector) -> Any:
        return np.array([[1.0, q[1]], [0.5 * q[2], 2.0], [v[2], 0.3]])

    def h(self, t: float, q: Vector, v: Vector) -> Any:
        return np.array([q[0] * v[1], -np.sin(q[1]), t - v[2] * v[0]])

    def g(self, t: float, q: Vector) -> Any:
        x, y, z = q
        return np.array([self.sine(t) * x**2 + y * z - 1.0, np.exp(0.5 * x) * y + t * t * z])


def slopes_of_surface(t: float, q: Vector) -> Vector:
    x, y, z = q
    return np.array([[2.0 * x * np.sin(t), z, y], [0.5 * np.exp(0.5 * x) * y, np.exp(0.5 * x), t * t]])


def rates_of_surface(t: float, q: Vector) -> Vector:
    return np.array([np.cos(t) * q[0] ** 2, 2.0 * t * q[2]])


def rest_of_surface(t: float, q: Vector, v: Vector) -> Vector:
    (x, y, z), (a, b, c) = q, v
    first = -np.sin(t) * x**2 + 2.0 * np.cos(t) * 2.0 * x * a + 2.0 * np.sin(t) * a * a + 2.0 * b * c
    second = 2.0 * z + 2.0 * 2.0 * t * c + np.exp(0.5 * x) * (0.25 * y * a * a + a * b)
    return np.array([first, second])


class RealTime(Surface):
    sine = staticmethod(math.sin)


class RealOnly(Surface):
    """As a user writes who thinks of real numbers alone."""

    def g(self, t: float, q: Vector) -> Any:
        x, y, z = (float(entry) for entry in q)
        return [math.sin(t) * x**2 + y * z - 1.0, math.exp(0.5 * x) * y + t * t * z]


class Absolute(Surface):
    """Takes complex numbers, but is not analytic."""

    def g(self, t: float, q: Vector) -> Any:
        x, y, z = q
        return [np.sin(t) * np.abs(x) ** 2 + y * z - 1.0, np.exp(0.5 * x) * y + t * t * z]


class GivenSlopes(Surface):
    def dg(self, t: float, q: Vector) -> Any:
        return slopes_of_surface(t, q)


class AllGiven(GivenSlopes):
    def dg_dt(self, t: float, q: Vector) -> Any:
        return rates_of_surface(t, q)

    def d2g(self, t: float, q: Vector, v: Vector) -> Any:
        return rest_of_surface(t, q, v)


def surface_mass(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    for i in range(9):
        out[i] = 0.0
    out[0], out[4], out[8] = 2.0 + q[1] ** 2, 1.0 + 0.1 * v[0] ** 2, 3.0


def surface_coupling(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1], out[2], out[3], out[4], out[5] = 1.0, q[1], 0.5 * q[2], 2.0, v[2], 0.3


def surface_force(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1], out[2] = q[0] * v[1], -math.sin(q[1]), t - v[2] * v[0]


def surface_constraint(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = math.sin(t) * q[0] ** 2 + q[1] * q[2] - 1.0
    out[1] = math.exp(0.5 * q[0]) * q[1] + t * t * q[2]


class SurfaceKernels(ds.QuasiSecondOrderProblem):
    A_kernel = surface_mass
    B_kernel = surface_coupling
    h_kernel = surface_force
    g_kernel = surface_constraint

    def __init__(self, **settings: Any) -> None:
        super().__init__(3, 2, **settings)


T, Q, V = 0.7, np.array([0.8, -1.3, 0.4]), np.array([0.5, 1.1, -0.6])
SURFACES = [Surface, RealTime, RealOnly, Absolute, GivenSlopes, AllGiven, SurfaceKernels]


@pytest.mark.parametrize("cls", SURFACES)
def test_derivatives_that_are_not_given_are_those_of_the_constraints(cls: Any) -> None:
    P = cls()
    exact = cls in (Surface, RealTime, GivenSlopes, AllGiven, SurfaceKernels)
    assert P.dg(T, Q) == pytest.approx(slopes_of_surface(T, Q), abs=1e-14 if exact else 1e-11)
    assert P.dg_dt(T, Q) == pytest.approx(rates_of_surface(T, Q), abs=1e-11)
    assert P.d2g(T, Q, V) == pytest.approx(rest_of_surface(T, Q, V), abs=1e-9)


def curve_of_gamma(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = math.gamma(q[0]) - q[1]


def test_kernels_that_take_no_complex_numbers_are_differenced() -> None:
    class Gamma(Compiled):
        g_kernel = curve_of_gamma

    P, q, v = Gamma(), np.array([2.0, 1.0]), np.array([1.0, 0.5])
    slope, bend = 1.0 - np.euler_gamma, (1.0 - np.euler_gamma) ** 2 + np.pi**2 / 6.0 - 1.0
    assert P.dg(0.0, q) == pytest.approx(np.array([[slope, -1.0]]), abs=1e-11)
    assert P.d2g(0.0, q, v) == pytest.approx([bend], abs=1e-9)
    assert call(P.pointers(), "d2g", 0.0, q, v, np.zeros(1)) == pytest.approx([bend], abs=1e-9)
    x, dx = np.append(q, [1.0, 0.5, 0.2]), np.ones(5)
    assert P.jacobian(P.state(x), P.state(dx), 0.0, 0.3) == pytest.approx(
        differences(P, x, dx, 0.0, 0.3), abs=1e-5
    )


def differences(P: Any, x: Vector, dx: Vector, t: float, c: float) -> Vector:
    """The iteration matrix by Richardson extrapolation of central differences of the residual."""
    columns = []
    for e in np.eye(P.n):
        halved = []
        for step in (2e-3, 1e-3):
            values = [P.eval_f(P.state(x + k * c * e), P.state(dx + k * e), t) for k in (step, -step)]
            halved.append((values[0] - values[1]) / (2.0 * step))
        columns.append((4.0 * halved[1] - halved[0]) / 3.0)
    return np.transpose(columns)


@pytest.mark.parametrize("formulation", PENDULUM_ORDERS)
@pytest.mark.parametrize("cls", [*SURFACES, Pendulum, Compiled])
def test_jacobians_are_those_of_the_residual(cls: Any, formulation: str) -> None:
    P = cls(formulation=formulation)
    rng = np.random.default_rng(1)
    x, dx = rng.normal(size=(2, P.n))
    # Differences of differences, where complex numbers are not taken.
    tolerance = 1e-5 if cls in (RealOnly, Absolute) else 2e-8
    for c in (0.0, 0.3):
        found = P.jacobian(P.state(x), P.state(dx), T, c)
        assert found == pytest.approx(differences(P, x, dx, T, c), abs=tolerance)


OTHERS = [Skate, Circle, Held, Implicit, CompiledSkate, CompiledCircle, CompiledHeld, CompiledImplicit]


@pytest.mark.parametrize("cls", OTHERS)
def test_jacobians_of_the_other_types_are_those_of_the_residual(cls: Any) -> None:
    for formulation in cls.formulations:
        P = cls(formulation=formulation)
        rng = np.random.default_rng(2)
        x, dx = rng.normal(size=(2, P.n))
        found = P.jacobian(P.state(x), P.state(dx), T, 0.3)
        assert found == pytest.approx(differences(P, x, dx, T, 0.3), abs=2e-8)


TWINS: list[tuple[Any, Any]] = [
    (Surface, SurfaceKernels),
    (Pendulum, Compiled),
    (Implicit, CompiledImplicit),
    (Skate, CompiledSkate),
    (Circle, CompiledCircle),
    (Held, CompiledHeld),
]


@pytest.mark.parametrize(("one", "other"), TWINS)
def test_kernels_and_methods_are_the_same_equations(one: Any, other: Any) -> None:
    rng = np.random.default_rng(3)
    for formulation in one.formulations:
        P, K = one(formulation=formulation), other(formulation=formulation)
        assert P.kernels is None and K.kernels.residual and K.kernels.jacobian
        x, dx = rng.normal(size=(2, P.n))
        first, second = (p.eval_f(p.state(x), p.state(dx), T) for p in (P, K))
        assert first == pytest.approx(second, abs=1e-9)
        for c in (0.0, 0.3):
            first, second = (p.jacobian(p.state(x), p.state(dx), T, c) for p in (P, K))
            assert first == pytest.approx(second, abs=1e-7)


class Tilted(SurfaceKernels):
    """Two of its parts compiled, one in Python."""

    def h(self, t: float, q: Vector, v: Vector) -> Any:
        return [q[0], v[1], t]


class Ending(Compiled):
    """A method that one formulation alone reads."""

    def d2g(self, t: float, q: Vector, v: Vector) -> Any:
        return [v @ v]


def test_equations_are_compiled_where_all_that_they_read_is() -> None:
    assert Tilted().kernels is None
    assert {f: Ending(formulation=f).kernels is None for f in Ending.formulations} == {
        **dict.fromkeys(("index-3", "index-2", "ggl"), False),
        "index-1": True,
    }
    P = Compiled(formulation="index-1")
    x, dx = np.arange(1.0, 6.0), np.arange(2.0, 7.0)
    E = Ending(formulation="index-1")
    assert E.eval_f(E.state(x), E.state(dx), T) == pytest.approx(P.eval_f(P.state(x), P.state(dx), T))


def test_compiled_equations_follow_parameters_and_copies() -> None:
    P = Compiled(formulation="ggl")
    x, dx = np.arange(1.0, 7.0), np.arange(2.0, 8.0)
    before = P.jacobian(P.state(x), P.state(dx), T, 0.3)

    def force(p: Any) -> float:
        return float(p.eval_f(p.state(x), p.state(dx), T)[3])

    other = copy.deepcopy(P)
    other.gravity = 2.0
    assert force(P) - force(other) == pytest.approx(GRAVITY - 2.0)
    assert (other.jacobian(other.state(x), other.state(dx), T, 0.3) == before).all()
    assert not np.shares_memory(P.packed_parameters, other.packed_parameters)
    P.gravity, P.nominal = 1.0, 10.0
    assert force(other) - force(P) == pytest.approx(1.0)
    rows = np.tile(x, (3, 1)), np.tile(dx, (3, 1))
    counted = P.work_counters["rhs"].niter
    assert (P.evaluate_nodes(*rows, np.full(3, T)) == P.eval_f(P.state(x), P.state(dx), T)).all()
    assert P.work_counters["rhs"].niter == counted + 3


@pytest.mark.parametrize("cls", [Compiled, SurfaceKernels, CompiledSkate, CompiledHeld, CompiledImplicit])
def test_compiled_equations_write_nothing_for_a_copy_of_the_parameters(cls: Any) -> None:
    P = cls()
    copied = np.append([0.0, 0.0], P.packed_parameters)[2:]
    out = np.zeros(P.n * P.n)
    machine("residual_at")(P.kernels.residual, T, np.ones(P.n), np.ones(P.n), copied, out)
    assert np.isnan(out[0]) and not out[1:].any()
    machine("jacobian_at")(P.kernels.jacobian, T, np.ones(P.n), np.ones(P.n), 0.3, copied, out)
    assert np.isnan(out[0]) and not out[1:].any()


def test_problems_of_kernels_are_swept_and_solved_in_compiled_code() -> None:
    for cls, start in ((Compiled, pendulum_start(Compiled())), (CompiledSkate, Skate().u_exact(0.0))):
        P, how = cls(), {"u0": start, "t_end": 0.2, "dt": 0.05}
        assert MachineStages(P, np.eye(1), np.ones(1)).by_kernels
        one, other = (
            ds.solve(P, sweeper="fully-implicit", nodes=3, restol=1e-11, backend=backend, **how)
            for backend in ("compiled", "numpy")
        )
        assert one.success and other.success
        assert one.u[-1] == pytest.approx(other.u[-1], abs=1e-8)


def flat_residual(t: float, u: Vector, du: Vector, p: Vector, out: Vector) -> None:
    """The pendulum by hand."""
    out[0], out[1] = du[0] - u[2], du[1] - u[3]
    out[2], out[3] = du[2] + u[4] * u[0], du[3] + u[4] * u[1] + p[0]
    out[4] = 0.5 * (u[0] * u[0] + u[1] * u[1] - 1.0)


def flat_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    for i in range(25):
        out[i] = 0.0
    out[0], out[6], out[12], out[18] = 1.0, 1.0, 1.0, 1.0
    out[2], out[8] = -c, -c
    out[10], out[14], out[16], out[19] = c * u[4], c * u[0], c * u[4], c * u[1]
    out[20], out[21] = c * u[0], c * u[1]


class ByHand(Compiled):
    """With a residual beside its parts."""

    residual_kernel = flat_residual
    jacobian_kernel = flat_jacobian
    dg_kernel = rod_slopes
    dg_dt_kernel = rod_rates
    d2g_kernel = rod_rest


class ByComplexSteps(Compiled):
    residual_kernel = flat_residual
    jacobian_kernel = COMPLEX_STEP


class ByMethod(Compiled):
    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        out = np.empty(5)
        flat_residual(t, u, du, np.array([self.gravity]), out)
        return out

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        out = np.empty(25)
        flat_jacobian(t, u, du, c, np.empty(0), out)
        return out.reshape(5, 5)

    def residual_nodes(self, u: Any, du: Any, t: Any) -> Any:
        return np.array([self.eval_f(*row) for row in zip(u, du, t, strict=True)])


def wind_kernel(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1] = 3.0 - 0.5 * v[0], -p[0] - 0.5 * v[1]


class Wind:
    """A part from a class that is no problem."""

    def h(self, t: float, q: Vector, v: Vector) -> Any:
        return [3.0 - 0.5 * v[0], -GRAVITY - 0.5 * v[1]]


STATE, RATE = np.array([0.6, -0.8, 0.4, 0.3, 2.0]), np.array([0.1, -0.4, 0.7, 0.2, 0.9])


def expected_with(c: float | None, wind: bool = False, length: float = 1.0) -> Any:
    """Residual, or with c the Jacobian, of the pendulum, in the wind, on a rod of another length."""
    (x, y, a, b, tension), d = STATE, RATE
    drag = 0.5 if wind else 0.0
    if c is None:
        forces = [d[2] + tension * x + drag * a - 6.0 * drag, d[3] + tension * y + GRAVITY + drag * b]
        return np.array([d[0] - a, d[1] - b, *forces, 0.5 * (x * x + y * y - length * length)])
    slope = np.array([[0, 0, -1, 0, 0], [0, 0, 0, -1, 0], [tension, 0, drag, 0, x], [0, tension, 0, drag, y]])
    return np.diag([1.0, 1.0, 1.0, 1.0, 0.0]) + c * np.vstack([slope, [x, y, 0, 0, 0]])


def assert_equations(P: Any, **what: Any) -> None:
    found = P.eval_f(P.state(STATE), P.state(RATE), T)
    assert found == pytest.approx(expected_with(None, **what), abs=1e-13)
    assert P.evaluate_nodes(STATE[None], RATE[None], np.array([T]))[0] == pytest.approx(found, abs=1e-13)
    for c in (0.0, 0.3):
        found = P.jacobian(P.state(STATE), P.state(RATE), T, c)
        assert found == pytest.approx(expected_with(c, **what), abs=1e-13)
        if P.kernels is not None and P.kernels.jacobian:
            out, p = np.empty(25), P.packed_parameters
            machine("jacobian_at")(P.kernels.jacobian, T, STATE, RATE, c, p, out)
            assert out == pytest.approx(np.ravel(expected_with(c, **what)), abs=1e-13)


@pytest.mark.parametrize("base", [Compiled, ByHand, ByComplexSteps, ByMethod])
def test_a_class_with_a_new_part_has_none_of_the_equations_above_it(base: Any) -> None:
    assert_equations(base())
    assert_equations(type("Same", (base,), {})())
    assert_equations(type("Blown", (base,), {"h": Wind.h})(), wind=True)
    assert_equations(type("Blown", (base,), {"h_kernel": wind_kernel})(), wind=True)
    assert_equations(type("Blown", (Wind, base), {})(), wind=True)
    # Equations that a class gives beside a new part are its own.
    blown = type("Own", (base,), {"h_kernel": wind_kernel, "eval_f": ByMethod.eval_f})()
    assert blown.eval_f(blown.state(STATE), blown.state(RATE), T) == pytest.approx(
        expected_with(None), abs=1e-13
    )
    kept = type("Own", (base,), {"h_kernel": wind_kernel, "jacobian_kernel": flat_jacobian})()
    assert kept.eval_f(kept.state(STATE), kept.state(RATE), T) == pytest.approx(
        expected_with(None, wind=True), abs=1e-13
    )
    assert kept.jacobian(kept.state(STATE), kept.state(RATE), T, 0.3) == pytest.approx(
        expected_with(0.3), abs=1e-13
    )


def test_complex_steps_of_a_residual_that_is_no_longer_there_are_those_of_the_parts() -> None:
    space = {"h_kernel": wind_kernel, "jacobian_kernel": COMPLEX_STEP}
    assert_equations(type("Blown", (ByHand,), space)(), wind=True)
    stepped = type("Stepped", (ByHand,), {"jacobian_kernel": COMPLEX_STEP})()
    assert stepped.kernels.residual == ByHand().kernels.residual
    assert_equations(stepped)


def test_equations_of_a_class_without_the_part_that_is_new_stay() -> None:
    class Doubled(ds.QuasiLagrangeProblem):
        """Parts to be given; the residual twice what they say."""

        def __init__(self) -> None:
            super().__init__(2, 1)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return 2.0 * super().eval_f(u, du, t)

    parts = {"A_kernel": mass_kernel, "h_kernel": force_kernel, "g_kernel": rod_kernel}
    P: Any = type("Twice", (Doubled,), {**parts, "kernel_parameters": lambda self: [GRAVITY]})()
    assert P.kernels is None
    assert P.eval_f(P.state(STATE), P.state(RATE), T) == pytest.approx(2.0 * expected_with(None), abs=1e-13)


def long_rod(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = 0.5 * (q[0] * q[0] + q[1] * q[1] - 4.0)


def bent_rod(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0] = q[0] ** 3 + q[1] - 1.0


@pytest.mark.parametrize("base", [ByHand, WithB])
@pytest.mark.parametrize("compiled", [True, False])
def test_derivatives_of_a_constraint_that_is_replaced_are_forgotten(base: Any, compiled: bool) -> None:
    def bent(self: Any, t: float, q: Vector) -> Any:
        return [q[0] ** 3 + q[1] - 1.0]

    P = type("Bent", (base,), {"g_kernel": bent_rod} if compiled else {"g": bent})()
    q, v = np.array([0.5, 0.875]), np.array([2.0, -1.5])
    assert P.g(T, q) == pytest.approx([0.0], abs=1e-15)
    assert P.dg(T, q) == pytest.approx(np.array([[0.75, 1.0]]), abs=1e-14)
    assert P.d2g(T, q, v) == pytest.approx([6.0 * 0.5 * 4.0], abs=1e-9)
    P.check_start(P.consistent(0.0, q, v), 0.0)
    again = type("Given", (base,), {"g_kernel": bent_rod, "dg": lambda self, t, q: [[3.0 * q[0] ** 2, 1.0]]})
    assert again().dg(T, q) == [[0.75, 1.0]]
    assert again().d2g(T, q, v) == pytest.approx([12.0], abs=1e-9)


def test_a_rod_of_another_length_is_a_class_with_another_constraint() -> None:
    assert_equations(type("Long", (ByHand,), {"g_kernel": long_rod})(), length=2.0)
    F = type("Other", (CompiledImplicit,), {"F": Implicit.F})()
    assert F.kernels is None and F.dF(T, *np.array([[0.5], [2.0], [3.0]])).shape == (2, 3)


def gamma_force(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1] = math.gamma(2.0 + q[0] ** 2), -p[0] - math.gamma(3.0 + v[1] ** 2)


@pytest.mark.parametrize("formulation", PENDULUM_ORDERS)
def test_parts_without_complex_form_are_differenced_in_compiled_jacobians(formulation: str) -> None:
    P: Any = type("Gamma", (Compiled,), {"h_kernel": gamma_force})(formulation=formulation)
    assert P.kernels.jacobian
    x, dx = 0.3 + np.arange(P.n) / P.n, np.arange(1.0, 1.0 + P.n)
    found = P.jacobian(P.state(x), P.state(dx), T, 0.3)
    assert found == pytest.approx(differences(P, x, dx, T, 0.3), abs=1e-7)
    # gamma' = gamma psi, with psi(2 + x^2) from SciPy.
    slope = special.gamma(2.0 + x[0] ** 2) * special.digamma(2.0 + x[0] ** 2) * 2.0 * x[0]
    assert found[2, 0] == pytest.approx(0.3 * (x[4] - slope), abs=1e-11)


# --- pointers -----------------------------------------------------------------------------------------

POINTER = ctypes.POINTER(ctypes.c_double)
SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_double, *4 * [POINTER])


def call(pointers: Pointers, name: str, t: float, u: Vector, v: Vector, out: Vector) -> Vector:
    """What compiled code does with an address."""
    function = SIGNATURE(int(pointers.addresses[PARTS.index(name)]))
    function(t, *(array.ctypes.data_as(POINTER) for array in (u, v, pointers.p, out)))
    return out


ALL = [*SURFACES, Pendulum, Compiled, WithB, *OTHERS]


@pytest.mark.parametrize("cls", ALL)
def test_the_parts_at_their_addresses_are_the_methods(cls: Any) -> None:
    P = cls()
    pointers, kind = P.pointers(), P.pointers().kind
    rng = np.random.default_rng(4)
    u, v = rng.normal(size=(2, pointers.n))
    has = {"daeq1": 5, "daeq2": 6, "nohol": 5, "eulag": 6}.get(kind, 7)  # B may be the transpose of dg
    assert np.count_nonzero(pointers.addresses) == has
    for name in PARTS:
        if pointers.addresses[PARTS.index(name)] == 0:
            continue
        second = kind in ("daeq3", "nohol", "eulag")
        takes = second and (kind == "nohol" or name in ("A", "B", "h", "d2g"))
        expected = np.asarray(getattr(P, name)(T, u, v) if takes else getattr(P, name)(T, u))
        found = call(pointers, name, T, u, v, np.full(expected.shape, 7.0))
        assert found == pytest.approx(expected, abs=1e-12), name


def test_implicit_equations_are_quasilinear_of_index_1_in_their_state() -> None:
    for P in (Implicit(), CompiledImplicit()):
        pointers, x = P.pointers(), np.array([0.5, 2.0, 3.0])
        assert (pointers.n, pointers.m) == (3, 2)
        assert (P.n_u, P.n_w, P.n_constraints) == (1, 1, 2)
        assert call(pointers, "A", T, x, x, np.empty((1, 3))).tolist() == [[1.0, 0.0, 0.0]]
        assert call(pointers, "h", T, x, x, np.empty(1)).tolist() == [2.0]
        slopes = [[3.0 * (3.0 - T) * 0.25, 12.0, 0.125], [0.0, 0.0, 6.0]]
        assert call(pointers, "dg", T, x, x, np.empty((2, 3))) == pytest.approx(np.array(slopes))
        assert call(pointers, "dg_dt", T, x, x, np.empty(2)) == pytest.approx([-0.125, -2.0 * (1.0 + T)])


class Failing(Pendulum):
    error: BaseException | None = None

    def g(self, t: float, q: Vector) -> Any:
        if self.error is not None:
            raise self.error
        return super().g(t, q)


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt(), KeyError("x")])
def test_an_exception_in_a_callback_waits_for_the_caller(error: BaseException) -> None:
    P = Failing()
    pointers, q = P.pointers(), np.array([0.6, -0.8])
    P.error = error
    assert np.isnan(call(pointers, "g", 0.0, q, q, np.zeros(1))).all()
    assert pointers.failure.error is error
    P.error = RuntimeError("later")
    call(pointers, "g", 0.0, q, q, np.zeros(1))
    with pytest.raises(type(error)) as raised:
        pointers.failure.check()
    assert raised.value is error
    assert pointers.failure.error is None
    pointers.failure.check()


def test_a_function_without_a_value_gives_nan_and_no_exception() -> None:
    P = Failing()
    pointers, q = P.pointers(), np.array([0.6, -0.8])
    P.error = ZeroDivisionError("division by zero")
    assert np.isnan(call(pointers, "g", 0.0, q, q, np.zeros(1))).all()
    pointers.failure.check()
    P.error = None
    assert call(pointers, "g", 0.0, q, q, np.ones(1)) == pytest.approx([0.0])


def test_a_wrong_shape_in_a_callback_is_told_by_name() -> None:
    class Wrong(Pendulum):
        def A(self, t: float, q: Vector, v: Vector) -> Any:
            return [1.0, 1.0]

    P = Wrong()
    pointers, q = P.pointers(), np.ones(2)
    assert np.isnan(call(pointers, "A", 0.0, q, q, np.zeros(4))).all()
    with pytest.raises(ds.InputError, match=r"A of Wrong must return shape \(2, 2\); got \(2,\)"):
        pointers.failure.check()


def test_functions_may_keep_but_not_change_what_they_are_given() -> None:
    class Keeping(Pendulum):
        seen: list[Vector] = []

        def h(self, t: float, q: Vector, v: Vector) -> Any:
            self.seen.append(q)
            return [0.0, 0.0]

    class Greedy(Pendulum):
        def h(self, t: float, q: Vector, v: Vector) -> Any:
            q[0] = 5.0
            return [0.0, 0.0]

    P, q = Keeping(), np.array([0.6, -0.8])
    call(P.pointers(), "h", 0.0, q, q, np.zeros(2))
    q[:] = 0.0
    assert P.seen[0].tolist() == [0.6, -0.8]
    pointers, q = Greedy().pointers(), np.array([0.6, -0.8])
    call(pointers, "h", 0.0, q, q, np.zeros(2))
    assert q.tolist() == [0.6, -0.8]
    with pytest.raises(ds.InputError, match="writes to one of its arguments"):
        pointers.failure.check()


def test_pointers_follow_the_parameters_and_survive_copies() -> None:
    P = Compiled(gravity=3.0)
    q, out = np.array([0.6, -0.8]), np.zeros(2)
    assert call(P.pointers(), "h", 0.0, q, q, out)[1] == -3.0
    assert P.pointers() is P.pointers()
    P.gravity = 4.0
    assert call(P.pointers(), "h", 0.0, q, q, out)[1] == -4.0
    other = copy.deepcopy(P)
    other.gravity = 5.0
    assert call(P.pointers(), "h", 0.0, q, q, out)[1] == -4.0
    assert call(other.pointers(), "h", 0.0, q, q, out)[1] == -5.0


# --- services -----------------------------------------------------------------------------------------


def test_accelerations_and_multipliers_are_those_of_the_exact_solution() -> None:
    for cls in (Pendulum, WithB, Compiled):
        for t in (0.0, 0.3, 0.9):
            exact, rate = EXACT.u_exact(t), EXACT.du_exact(t)
            acceleration, multipliers = cls().saddle_point(t, exact[:2], exact[2:4])
            assert acceleration == pytest.approx(rate[2:4], abs=1e-9)
            assert multipliers == pytest.approx(exact[4:], abs=1e-9)
    P = Held()
    rate, multipliers = P.saddle_point(0.4, P.u_exact(0.4)[:2])
    assert rate == pytest.approx([-math.sin(0.4), math.cos(0.4)])
    assert multipliers == pytest.approx([math.exp(0.4)])
    rate, multipliers = Skate().saddle_point(0.2, Skate().u_exact(0.2)[:3], Skate().u_exact(0.2)[3:6])
    assert multipliers == pytest.approx([6.0])
    rate, multipliers = Implicit().saddle_point(0.4, Implicit().u_exact(0.4))
    assert rate == pytest.approx([-math.exp(-0.4), math.exp(-0.4), 1.0])
    assert multipliers.shape == (0,)


@pytest.mark.parametrize("cls", [Pendulum, Compiled])
def test_a_projection_goes_to_the_nearest_positions_and_velocities(cls: Any) -> None:
    for formulation in cls.formulations:
        P = cls(formulation=formulation)
        u = P.consistent(0.0, [1.2, -1.6], [1.0, 0.0], project=True)
        assert u[:2] == pytest.approx([0.6, -0.8], abs=1e-12)
        # What is left of (1, 0) along the tangent (0.8, 0.6).
        assert u[2:4] == pytest.approx([0.64, 0.48], abs=1e-12)
        assert u[4:] == pytest.approx([0.64 + 0.8 * GRAVITY, 0.0][: P.n - 4])
        drift = P.drift(0.0, u)
        assert drift["constraint"] <= 1e-15
        assert drift["velocity"] <= 1e-15
    assert Pendulum().drift(0.0, u)["energy"] == pytest.approx(0.32 - 0.8 * GRAVITY)


def test_a_state_on_the_manifold_has_the_derivative_of_the_solution() -> None:
    P, t = Pendulum(formulation="ggl"), 0.3
    exact, rate = np.asarray(EXACT.u_exact(t)), np.asarray(EXACT.du_exact(t))
    u, du = P.on_manifold(t, np.append(exact, 0.5) * 1.001, np.append(rate, 0.7))
    assert P.drift(t, u)["constraint"] <= 1e-15
    assert u[5] == du[5] == 0.0
    assert np.abs(u[:4] - exact[:4]).max() < 2e-2
    assert du[:2] == pytest.approx(u[2:4])
    # Where the mass is: v' + lambda q = gravity, and lambda = v^2 - g y.
    assert u[4] == pytest.approx(u[2] ** 2 + u[3] ** 2 - GRAVITY * u[1])
    assert du[2:4] == pytest.approx([-u[4] * u[0], -u[4] * u[1] - GRAVITY])
    q, v, multipliers = P.state_parts(u)
    assert v is not None and multipliers is not None
    assert (len(q), len(v), len(multipliers)) == (2, 2, 1)
    assert q.base is u


def test_implicit_equations_find_what_is_not_given() -> None:
    for P in (Implicit(), CompiledImplicit()):
        u0, exact = [math.exp(-0.2)], Implicit().u_exact(0.2)
        found = P.consistent(0.2, u0, [-1.0], project=True, w=[1.0])
        assert found == pytest.approx(exact, abs=1e-12)
        assert P.consistent(0.2, u0, exact[1:2], w=exact[2:]) == pytest.approx(exact, abs=1e-15)
        alone = P.consistent(0.2, u0, [-1.0])
        assert alone[:1] == pytest.approx(u0, abs=0.0)
        assert P.drift(0.2, alone)["constraint"] < 1e-12
        rows = P.on_manifold(0.2, np.append(u0, [-1.0, 1.0]), np.zeros(3))
        assert rows[0] == pytest.approx(exact, abs=1e-12)
        assert rows[1] == pytest.approx([-u0[0], u0[0], 1.0])


def test_implicit_equations_without_a_solution_say_so() -> None:
    class Hopeless(Implicit):
        def F(self, t: float, u: Vector, p: Vector, w: Vector) -> Any:
            return [p[0] + u[0], w[0] ** 2 + 1.0]

    with pytest.raises(ds.InconsistentStateError, match="found no u' and w that belong to u0 of Hopeless"):
        Hopeless().consistent(0.0, [1.0], w=[1.0])


def test_velocities_are_zero_where_none_are_given() -> None:
    assert Pendulum().consistent(0.0, [-1.0, 0.0]) == pytest.approx([-1.0, 0.0, 0.0, 0.0, 0.0])


# --- refusals -----------------------------------------------------------------------------------------


def refused(error: type[Exception], *parts: str) -> Any:
    return pytest.raises(error, match=".*".join(parts))


def one_line(found: Any) -> None:
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("A", [1.0, 1.0], r"A of Bad must return shape \(2, 2\); got \(2,\)"),
        ("h", [[0.0, 1.0]], r"h of Bad must return shape \(2,\); got \(1, 2\)"),
        ("g", 0.0, r"g of Bad must return shape \(1,\); got \(\)"),
        ("g", None, r"g of Bad must return real numbers of shape \(1,\) \(is its return statement missing"),
        ("h", ["a", "b"], r"h of Bad must return real numbers of shape \(2,\)"),
        ("dg", [0.6, -0.8], r"dg of Bad must return shape \(1, 2\); got \(2,\)"),
        ("dg", [[0.6, 0.8]], r"dg of Bad is wrong in entry \(0, 0\), constraint 'length of the rod'"),
        ("dg_dt", [1.0], r"dg_dt of Bad is wrong in entry \(0\)"),
        ("d2g", [0.0], r"d2g of Bad is wrong in entry \(0\)"),
    ],
)
def test_a_wrong_value_of_a_part_is_refused_by_name(name: str, value: Any, says: str) -> None:
    Bad = type("Bad", (WithB,), {name: lambda self, *at: value, "constraint_names": ("length of the rod",)})
    start = pendulum_start(WithB())
    with pytest.raises(ds.InputError, match=says) as found:
        ds.solve(Bad(), u0=start, t_end=0.1, dt=0.05)
    one_line(found)


def test_given_derivatives_that_are_right_pass() -> None:
    for P in (WithB(), AllGiven()):
        P._check_derivatives(T, Q[: P.n_u], V[: P.n_u])


def slope_of_rails(t: float, q: Vector) -> Any:
    return np.array([[-2e-4 * q[0], 1.0, 0.0], [-math.cos(q[0]), 0.0, 1.0]])


class Rails(ds.QuasiSecondOrderProblem):
    """A point 100 away that is held by a rail that is hardly bent, and by one that is."""

    right = np.ones(2)  # factors of the entries of d2g

    def __init__(self, **settings: Any) -> None:
        super().__init__(3, 2, **settings)

    def A(self, t: float, q: Vector, v: Vector) -> Any:
        return np.eye(3)

    def B(self, t: float, q: Vector, v: Vector) -> Any:
        return slope_of_rails(t, q).T

    def h(self, t: float, q: Vector, v: Vector) -> Any:
        return [0.0, -GRAVITY, 0.0]

    def g(self, t: float, q: Vector) -> Any:
        return [q[1] - 100.0 - 1e-4 * q[0] ** 2, q[2] - np.sin(q[0])]

    def d2g(self, t: float, q: Vector, v: Vector) -> Any:
        return self.right * [-2e-4 * v[0] ** 2, math.sin(q[0]) * v[0] ** 2]


class RailsWithSlopes(Rails):
    def dg(self, t: float, q: Vector) -> Any:
        return slope_of_rails(t, q)


class RealRails(Rails):
    def g(self, t: float, q: Vector) -> Any:
        return Rails.g(self, t, np.array([float(entry) for entry in q]))

    d2g = Rails.d2g


def rails(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
    out[0], out[1] = q[1] - 100.0 - 1e-4 * q[0] ** 2, q[2] - math.sin(q[0])


class CompiledRails(Rails):
    g_kernel = rails
    g = ds.QuasiSecondOrderProblem.g
    d2g = Rails.d2g


RAILS = [Rails, RailsWithSlopes, RealRails, CompiledRails]
ON_RAILS = np.array([0.5, 100.0, math.sin(0.5)]), np.array([1.0, 1e-4, math.cos(0.5)])


@pytest.mark.parametrize("dt", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("cls", RAILS)
def test_a_small_entry_that_is_right_passes_where_differences_have_large_errors(cls: Any, dt: float) -> None:
    P = cls()
    P.dt = dt
    P._check_derivatives(0.0, *ON_RAILS)


@pytest.mark.parametrize(
    "right", [[1.0, 1.001], [1.0, -1.0], [1.0, 0.0], [-1.0, 1.0], [0.0, 1.0], [1.1, 1.0]]
)
@pytest.mark.parametrize("dt", [1e-3, 1e-6])
@pytest.mark.parametrize("cls", RAILS)
def test_an_entry_that_is_wrong_is_refused_where_differences_have_large_errors(
    cls: Any, dt: float, right: Any
) -> None:
    P = cls()
    P.dt, P.right = dt, np.array(right)
    with refused(ds.InputError, rf"d2g of {cls.__name__} is wrong in entry \({int(right[0] == 1.0)}\)"):
        P._check_derivatives(0.0, *ON_RAILS)


def test_steps_that_are_lost_in_rounding_tell_nothing_of_a_derivative() -> None:
    nan = np.nan
    columns = [
        [0, 0, 0, 9, 2.5, 2, 2.1, 5],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 9, -4],
        [3, 3.1, 3, nan, 3, 3, 5, 9],
    ]
    best, error = most_accurate(np.transpose(columns))
    assert best[[0, 3]] == pytest.approx([2.0, 3.1]) and error[[0, 3]] == pytest.approx([0.5, 0.1])
    assert np.isinf(error[[1, 2]]).all()


def test_kernels_that_are_wrong_derivatives_are_refused() -> None:
    def wrong_slopes(t: float, q: Vector, v: Vector, p: Vector, out: Vector) -> None:
        out[0], out[1] = q[0], 2.0 * q[1]

    class Bad(Compiled):
        dg_kernel = wrong_slopes

    with refused(ds.InputError, "dg of Bad is wrong in entry", "0, 1", "correct it, or leave it out"):
        ds.solve(Bad(), u0=pendulum_start(Pendulum()), t_end=0.1, dt=0.05)


def test_inconsistent_positions_and_velocities_are_refused_by_constraint_and_size() -> None:
    P = Pendulum()
    with refused(
        ds.InconsistentStateError,
        "u0 of Pendulum violates constraint 'length of the rod' at t=0: residual 0.061",
        "project=True",
    ) as found:
        P.consistent(0.0, [0.65, -0.8366600265340756], [0.8, 0.6])
    one_line(found)
    with refused(
        ds.InconsistentStateError,
        "u'0 of Pendulum violates the derivative of constraint 'length of the rod' at t=0: residual 0.6",
        "project=True",
    ):
        P.consistent(0.0, [0.6, -0.8], [1.0, 0.0])
    with refused(ds.InconsistentStateError, "u'0 of Skate violates constraint 'no sliding sideways'", "-0.5"):
        Skate().consistent(0.0, np.zeros(3), [1.0, 0.5, 0.0])
    with refused(
        ds.InconsistentStateError, "u0 of Circle violates constraint 'constraint 0'", "residual 0.21"
    ):
        Circle().consistent(0.0, [1.1, 0.0])
    with refused(ds.InconsistentStateError, "violates constraint 'constraint 1'"):
        Implicit().consistent(0.0, [1.0], [-1.0], w=[1.1])


@pytest.mark.parametrize("formulation", PENDULUM_ORDERS)
def test_a_run_does_not_begin_beside_a_hidden_constraint(formulation: str) -> None:
    P = Pendulum(formulation=formulation)
    start = np.append([0.6, -0.8, 1.0, 0.0, 1.0], np.zeros(P.n - 5))
    with refused(
        ds.InconsistentStateError, "u0 of Pendulum violates hidden constraints at t=0: .*rod' .0.6"
    ) as found:
        ds.solve(P, u0=start, t_end=0.1, dt=0.05)
    one_line(found)


class Doubled(Pendulum):
    """A constraint twice, the second time as twice the first."""

    names, units = (), ()
    constraint_names = ("rod", "shadow of the rod")

    def __init__(self, **settings: Any) -> None:
        ds.QuasiLagrangeProblem.__init__(self, 2, 2, **settings)

    def g(self, t: float, q: Vector) -> Any:
        return [q[0] * q[0] + q[1] * q[1] - 1.0, 2.0 * (q[0] * q[0] + q[1] * q[1] - 1.0)]


def test_dependent_constraints_are_refused_by_name() -> None:
    with refused(
        ds.SingularMatrixError,
        "constraints of Doubled at t=0 are rank deficient \\(rank 1 of 2\\): 'shadow of the rod' depends",
    ) as found:
        Doubled().consistent(0.0, [0.6, -0.8])
    one_line(found)
    failed = ds.solve(Doubled(), u0=[0.6, -0.8, 0.0, 0.0, 0.0, 0.0], t_end=0.1, dt=0.05)
    assert not failed.success
    assert "rank 1 of 2" in failed.message
    # Where a single constraint loses its gradient.
    with refused(ds.SingularMatrixError, "rank 0 of 1", "no gradient"):
        Pendulum().saddle_point(0.0, [0.0, 0.0])


def test_a_direction_without_mass_is_refused() -> None:
    class Massless(WithB):
        def A(self, t: float, q: Vector, v: Vector) -> Any:
            return np.outer(q, q)  # regular across the circle, singular along it

    says = "A of Massless at t=0 is not regular on the kernel of the constraint Jacobian"
    with refused(ds.SingularMatrixError, says) as found:
        Massless().consistent(0.0, [0.6, -0.8])
    one_line(found)

    class Useless(WithB):
        def B(self, t: float, q: Vector, v: Vector) -> Any:
            return np.zeros((2, 1))

    with refused(ds.SingularMatrixError, "B of Useless at t=0 is rank deficient \\(rank 0 of 1\\)"):
        Useless().consistent(0.0, [0.6, -0.8])
    # Along the circle at (1, 0), u_0' does not say how u goes on.
    with refused(ds.SingularMatrixError, "A of Circle at t=0 is not regular on the kernel"):
        Circle().consistent(0.0, [1.0, 0.0])


def test_masses_of_very_different_sizes_are_no_singularity() -> None:
    class Uneven(WithB):
        def A(self, t: float, q: Vector, v: Vector) -> Any:
            return np.diag([1e-7, 1e7])

    # A a + q lambda = h and q a = 0 from rest.
    (x, y), (a, b) = (0.6, -0.8), Uneven().saddle_point(0.0, [0.6, -0.8])[0]
    assert x * a + y * b == pytest.approx(0.0, abs=1e-12)
    assert -y * 1e-7 * a + x * 1e7 * b == pytest.approx(-x * GRAVITY)


REFUSED_CLASSES = [
    ({"A": lambda self, t: 0.0}, r"Bad.A must take \(self, t, q, v\); it takes \(self, t\)"),
    ({"g": lambda self, q: 0.0}, r"Bad.g must take \(self, t, q\)"),
    ({"g": lambda self, t, q: 0.0, "g_kernel": rod_kernel}, "Bad gives g twice"),
]


@pytest.mark.parametrize(("body", "says"), REFUSED_CLASSES)
def test_a_class_with_a_mistake_is_refused_where_it_is_defined(body: dict[str, Any], says: str) -> None:
    with pytest.raises(ds.InputError, match=says):
        type("Bad", (Pendulum,), body)


def test_a_problem_with_a_mistake_is_refused_when_it_is_made() -> None:
    class Empty(ds.QuasiSecondOrderProblem):
        pass

    class Extra(Pendulum):
        def B(self, t: float, q: Vector, v: Vector) -> Any:
            return np.zeros((2, 1))

    class Named(Pendulum):
        constraint_names = ("one", "two")

    with refused(ds.InputError, r"Empty defines no A\(t, q, v\), B\(t, q, v\), h\(t, q, v\), g\(t, q\)"):
        Empty(2, 1)
    with refused(ds.InputError, "Empty needs from 1 to n constraints; got n=1, m=2"):
        Empty(1, 2)
    with refused(ds.InputError, "the numbers n and m of Empty must be integers"):
        Empty(2, 1.0)  # type: ignore[arg-type]
    with refused(
        ds.InputError, "unknown formulation of Pendulum 'index-0'", "ggl, index-1, index-2, index-3"
    ):
        Pendulum(formulation="index-0")
    with refused(ds.InputError, "formulation of Circle 'index-2'"):
        Circle(formulation="index-2")
    with refused(ds.InputError, "Extra defines B, but its B is the transposed of dg"):
        Extra()
    with refused(ds.InputError, "Named.constraint_names has 2 entries for 1 constraints"):
        Named()
    with refused(ds.InputError, "n_w must be an integer, at least 0; got -1"):
        ds.ImplicitDAE(1, -1)


def test_starts_of_a_wrong_form_are_refused() -> None:
    with refused(ds.InputError, r"u0 of Pendulum must have shape \(2,\); got \(3,\)"):
        Pendulum().consistent(0.0, [0.6, -0.8, 0.0])
    with refused(ds.InputError, r"u'0 of Pendulum must have shape \(2,\); got \(1,\)"):
        Pendulum().consistent(0.0, [0.6, -0.8], [0.0])
    with refused(ds.InputError, "u0 of Pendulum has a NaN or infinite entry"):
        Pendulum().consistent(0.0, [0.6, math.nan])
    with refused(ds.InputError, "Circle is of first order"):
        Circle().consistent(0.0, [0.6, 0.8], [0.0, 0.0])
    with refused(ds.InputError, "Pendulum has no w"):
        Pendulum().consistent(0.0, [0.6, -0.8], w=[1.0])


def test_a_constraint_of_time_is_none_of_euler_lagrange_equations() -> None:
    class Moving(Pendulum):
        def g(self, t: float, q: Vector) -> Any:
            return [0.5 * (q[0] * q[0] + q[1] * q[1] - 1.0 - t)]

    with refused(ds.InputError, "g of Moving depends on t", "use a QuasiSecondOrderProblem") as found:
        ds.solve(Moving(), u0=pendulum_start(Pendulum()), t_end=0.1, dt=0.05)
    one_line(found)


@pytest.mark.parametrize("kernels", [False, True])
def test_constraints_that_are_said_to_be_fixed_have_no_rates_and_must_be(kernels: bool) -> None:
    base: Any = SurfaceKernels if kernels else Surface
    P = type("Fixed", (base,), {"fixed_constraints": True})()
    assert (P.dg_dt(T, Q) == 0.0).all()
    assert P.d2g(0.0, Q, 0.0 * V) == pytest.approx([0.0, 0.0], abs=1e-12)
    # Those of this surface move.
    with refused(ds.InputError, "g of Fixed depends on t, but it says fixed_constraints = True"):
        P.check_start(P.packed(Q, V), 0.0)
    slip = type("Slip", (CompiledSkate,), {"fixed_constraints": True})()
    assert slip.dg_dt(T, Q, V) == pytest.approx(CompiledSkate().dg_dt(T, Q, V), abs=0.0)


def test_a_class_may_replace_a_kernel_by_a_method_and_back() -> None:
    class Heavier(Compiled):
        def A(self, t: float, q: Vector, v: Vector) -> Any:
            return 2.0 * np.eye(2)

    class Back(Heavier):
        A_kernel = mass_kernel

    q = np.array([0.6, -0.8])
    assert Heavier().A(0.0, q, q)[0][0] == 2.0
    assert call(Heavier().pointers(), "A", 0.0, q, q, np.zeros(4))[0] == 2.0
    assert Back().A(0.0, q, q)[0][0] == 1.0
    assert call(Back().pointers(), "A", 0.0, q, q, np.zeros(4))[0] == 1.0


def test_constraints_may_be_undefined_close_to_the_start() -> None:
    class Edge(ds.QuasiSecondOrderProblem):
        """A bead on the upper half of a circle, whose formula ends at x = 1."""

        def __init__(self) -> None:
            super().__init__(2, 1)

        def A(self, t: float, q: Vector, v: Vector) -> Any:
            return np.eye(2)

        def B(self, t: float, q: Vector, v: Vector) -> Any:
            return self.dg(t, q).T

        def h(self, t: float, q: Vector, v: Vector) -> Any:
            return [0.0, 0.0]

        def g(self, t: float, q: Vector) -> Any:
            return [q[1] - math.sqrt(1.0 - q[0] * q[0])]

        def dg(self, t: float, q: Vector) -> Any:
            return np.array([[q[0] / math.sqrt(1.0 - q[0] * q[0]), 1.0]])

    P, x = Edge(), 0.995
    start = P.consistent(0.0, [x, math.sqrt(1.0 - x * x)], [0.0, 0.0])
    assert start[4] == pytest.approx(0.0, abs=1e-12)
    P.check_start(start, 0.0)


def test_the_front_door_knows_the_classes() -> None:
    names = ["ImplicitDAE", "NonholonomicProblem", "QuasiFirstOrderProblem", "QuasiLagrangeProblem"]
    for name in [*names, "QuasiSecondOrderProblem"]:
        assert issubclass(getattr(ds, name), ds.QuasilinearProblem)
        assert name in ds.__all__


@pytest.mark.parametrize("cls", ALL)
def test_equations_are_read_from_the_parts(cls: Any) -> None:
    """With the derivatives that a class does not give; the values are compared when they are read."""
    for formulation in cls.formulations:
        own = cls(formulation=formulation)
        model = ds.trace(own)
        found = ds.structure(model)
        assert len(model.roots) == own.n
        assert (found.differentiation_index or found.index) == own.index


def test_a_pendulum_by_parts_is_reduced_and_started() -> None:
    assert ds.structure(Pendulum).dof == 2
    assert ds.reduce(Pendulum).index <= 1
    start = ds.initial(Pendulum, guesses={"x": 0.6, "y": 0.8, "u": 0.0, "v": 0.0, "lambda": 0.0})
    assert start.values["x"] ** 2 + start.values["y"] ** 2 == pytest.approx(1.0)
    with pytest.raises(ds.InputError, match="gives its equations by parts, and runs with these"):
        ds.solve(Pendulum, u0=[-1.0, 0.0, 0.0, 0.0, 0.0], trace=True)


@pytest.mark.parametrize("away", [(3.75, 5.75), (2.3, 4.0), (-5.0, -5.5), (0.01, 0.2), (2.0, 1.5)])
def test_values_far_from_an_ellipse_are_projected_on_its_nearest_point(away: tuple[float, float]) -> None:
    axes = np.array([1.0, 3.0])

    class Bead(ds.QuasiLagrangeProblem):
        def A(self, t: float, q: Vector, v: Vector) -> Any:
            return np.eye(2)

        def h(self, t: float, q: Vector, v: Vector) -> Any:
            return [0.0, -GRAVITY]

        def g(self, t: float, q: Vector) -> Any:
            return [(q / axes) @ (q / axes) - 1.0]

        def dg(self, t: float, q: Vector) -> Any:
            return (2.0 * q / axes**2)[None]

    start = Bead(2, 1).consistent(0.0, away, [0.0, 0.0], project=True)
    angles = np.linspace(0.0, 2.0 * np.pi, 100_001)
    nearest = np.hypot(*(axes[:, None] * [np.cos(angles), np.sin(angles)] - np.array(away)[:, None])).min()
    assert np.hypot(*(start[:2] - away)) == pytest.approx(nearest, rel=1e-7)


def test_the_jacobian_of_equations_beside_the_parts_is_that_of_these_equations() -> None:
    class Doubled(WithB):
        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return 2.0 * np.asarray(super().eval_f(u, du, t))

    plain, doubled = WithB(), Doubled()
    u, du = plain.state([0.6, -0.8, 4.0, 3.0, 7.0]), plain.state([4.0, 3.0, 1.0, -2.0, 0.5])
    expected = 2.0 * plain.jacobian(u, du, 0.1, 0.5)
    assert doubled.jacobian(u, du, 0.1, 0.5) == pytest.approx(expected, abs=1e-10)
