"""MLSDC and PFASST: what the full approximation scheme promises, and how many iterations it takes."""

from __future__ import annotations

from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.pairs import covering_pairs
from numpy.typing import NDArray
from pySDC.core.collocation import CollBase
from pySDC.core.errors import ControllerError, UnlockError
from pySDC.core.hooks import Hooks
from pySDC.core.space_transfer import SpaceTransfer
from pySDC.helpers.stats_helper import get_sorted
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

from dae_sdc.control.transfer import (
    SameUnknowns,
    TransferDAE,
    matched_diagonal,
    matched_restriction,
    two_level_error,
)
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import interpolation_matrix
from dae_sdc.errors import InputError
from dae_sdc.run.description import describe
from dae_sdc.sweepers.collocation import QUADRATURES, qdelta_matrix
from dae_sdc.sweepers.runge_kutta import RungeKuttaDAE
from dae_sdc.sweepers.sdc import SWEEPERS, FullyImplicitDAE, SemiImplicitDAE, SpectralDeferredCorrectionDAE

Vector = NDArray[np.float64]

SDC = [name for name, cls in SWEEPERS.items() if issubclass(cls, SpectralDeferredCorrectionDAE)]
NOT_INTEGRATED = ["semi-implicit", "constrained"]
STEP = {"hessenberg-1": 0.1, "hessenberg-2": 0.05, "simple": 0.05, "hessenberg-3": 0.05, "pendulum": 0.02}


def controller(
    problem: Any,
    sweeper: str,
    nodes: tuple[int, ...] = (5, 3),
    num_procs: int = 1,
    dt: float | None = None,
    qdelta: str = "LU",
    match: bool = False,
    hooks: list[Any] | None = None,
    predict_type: str | None = None,
    change: dict[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """A controller with one level for each entry of ``nodes``; LU below the finest."""
    own = {"restol": 1e-10, "newton_tol": 1e-12, "maxiter": 60, **settings}
    size = STEP[problem] if dt is None else dt
    description = describe(problem, sweeper=sweeper, nodes=nodes[0], qdelta=qdelta, **own).with_step(size)
    params: dict[str, Any] = {"logger_level": 50, "mssdc_jac": False, "hook_class": hooks or []}
    if len(nodes) > 1:
        description["sweeper_params"]["num_nodes"] = list(nodes)
        description["sweeper_params"]["QI"] = [qdelta] + ["LU"] * (len(nodes) - 1)
        description["base_transfer_class"] = TransferDAE
        description["base_transfer_params"] = {"match_sweep": match}
        description["space_transfer_class"] = SameUnknowns
        params["predict_type"] = predict_type
    for part, entries in (change or {}).items():
        description[part] = {**description[part], **entries} if isinstance(entries, dict) else entries
    return controller_nonMPI(num_procs=num_procs, controller_params=params, description=description)


def run(own: Any, steps: int = 4, restol: float = 1e-10) -> tuple[Vector, list[int]]:
    S = own.MS[0]
    P = S.levels[0].prob
    end, stats = own.run(u0=P.state(P.u_exact(0.0)), t0=0.0, Tend=(steps - 0.5) * S.dt)
    assert max(value for _, value in get_sorted(stats, type="residual_post_step")) <= restol
    return np.array(end), [value for _, value in get_sorted(stats, type="niter")]


def solved_step(problem: Any, sweeper: str, nodes: tuple[int, ...] = (5, 3), **settings: Any) -> Any:
    """One step whose levels hold what they ended with."""
    own = controller(problem, sweeper, nodes, restol=1e-13, newton_tol=1e-14, **settings)
    S = own.MS[0]
    P = S.levels[0].prob
    own.run(u0=P.state(P.u_exact(0.0)), t0=0.0, Tend=0.5 * S.dt)
    return S


# --- the full approximation scheme --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sweeper", "problem", "quad"),
    covering_pairs(product(SDC, ("hessenberg-1", "hessenberg-2", "simple"), QUADRATURES)),
)
def test_the_restricted_solution_is_a_fixed_point_of_the_coarse_sweep(
    sweeper: str, problem: str, quad: str
) -> None:
    S = solved_step(problem, sweeper, (5, 3, 2), quad=quad)
    for fine, coarse in ((0, 1), (1, 2)):
        F, G = S.levels[fine], S.levels[coarse]
        S.transfer(source=F, target=G)
        G.sweep.compute_residual()
        assert G.status.residual < 1e-11
        u, du = np.array(G.u[1:]), np.array(G.f[1:])
        G.sweep.update_nodes()
        np.testing.assert_allclose(np.array(G.u[1:]), u, atol=1e-9)
        np.testing.assert_allclose(np.array(G.f[1:]), du, atol=1e-8)
        # What the coarse level hands on is the fine end value, not one of its own quadrature.
        if quad != "GAUSS":
            F.sweep.compute_end_point()
            G.sweep.compute_end_point()
            np.testing.assert_allclose(G.uend, F.uend, atol=1e-10)
    # The coarse equations without right-hand side have another solution.
    G = S.levels[1]
    G.tau[:] = [None] * 3
    G.sweep.iterate.integral_tau = None
    G.status.updated, G.sweep.iterate.stages.integral_known = True, False
    G.sweep.compute_residual()
    assert G.status.residual > 1e-9


@pytest.mark.parametrize("sweeper", SDC)
def test_tau_vanishes_between_equal_levels(sweeper: str) -> None:
    S = solved_step("hessenberg-2", sweeper, (4, 4))
    F, G = S.levels
    F.sweep.place(F.u[0], 1.01 * np.array(F.u[1:]), 0.99 * np.array(F.f[1:]))
    S.transfer(source=F, target=G)
    # F itself does not vanish there, and nothing of it is lost.
    np.testing.assert_allclose(np.array(G.tau), 0.0, atol=1e-13)
    np.testing.assert_allclose(G.sweep.iterate.integral_tau, 0.0, atol=1e-15)
    np.testing.assert_allclose(G.sweep.node_residuals(), F.sweep.node_residuals(), atol=1e-13)
    assert np.abs(F.sweep.node_residuals()).max() > 1e-3


@pytest.mark.parametrize("quad", ["RADAU-RIGHT", "LOBATTO"])
@pytest.mark.parametrize("sweeper", SDC)
def test_what_arrives_on_the_coarse_level_goes_on_to_the_end_of_the_fine_one(sweeper: str, quad: str) -> None:
    S = solved_step("hessenberg-1", sweeper, quad=quad)
    F, G = S.levels
    S.transfer(source=F, target=G)
    start, polynomial = F.u[0], F.u[0].polynomial
    G.u[0] = G.prob.dtype_u(G.u[0]) + np.array([1e-2, -2e-2, 3e-2])
    G.u[0].polynomial = polynomial if polynomial is not None else G.sweep.iterate.stages.polynomial
    G.sweep.update_nodes()
    G.sweep.compute_end_point()
    S.transfer(source=G, target=F)
    F.sweep.compute_end_point()
    np.testing.assert_allclose(F.uend, G.uend, atol=1e-10)
    np.testing.assert_allclose(F.u[0] - start, [1e-2, -2e-2, 3e-2], atol=1e-14)


def test_prolongation_without_a_coarse_change_changes_nothing() -> None:
    S = solved_step("pendulum", "semi-implicit")
    F, G = S.levels
    u, du = F.sweep.node_values()
    start = F.u[0]
    S.transfer(source=F, target=G)
    S.transfer(source=G, target=F)
    assert F.u[0] is start
    np.testing.assert_array_equal(np.array(F.f[1:]), du)
    np.testing.assert_array_equal(np.array(F.u[1:]), u)


class Given(ProblemDAE):
    """z = sin t: all there is for a constraint to fix."""

    index = 1

    def __init__(self, **settings: Any) -> None:
        super().__init__(0, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return u - np.sin(t)

    def u_exact(self, t: float) -> list[float]:
        return [np.sin(t)]


class Iterates(Hooks):  # type: ignore[misc]
    """U after every iteration."""

    seen: ClassVar[list[Vector]] = []

    def post_iteration(self, step: Any, level_number: int) -> None:
        super().post_iteration(step, level_number)
        self.seen.append(np.array(step.levels[0].f[1:])[:, 0])


@pytest.mark.parametrize("match", [False, True])
@pytest.mark.parametrize("qdelta", ["LU", "MIN-SR-S"])
def test_errors_of_what_constraints_fix_obey_the_two_level_operator(qdelta: str, match: bool) -> None:
    Iterates.seen.clear()
    own = controller(Given, "fully-implicit", dt=0.1, qdelta=qdelta, match=match, hooks=[Iterates])
    run(own, 1)
    fine, coarse = (CollBase(m, 0, 1, quad_type="RADAU-RIGHT") for m in (5, 3))
    solution = np.linalg.solve(0.1 * fine.Qmat[1:, 1:], np.sin(0.1 * fine.nodes))
    delta = qdelta_matrix(fine, qdelta)
    restriction = interpolation_matrix(tuple(fine.nodes), tuple(coarse.nodes))
    if match and qdelta == "LU":
        restriction = matched_restriction("RADAU-RIGHT", 5, 3)
    elif match:
        delta = np.diag(matched_diagonal("RADAU-RIGHT", 5, 3))
    operator = two_level_error(delta, restriction, fine, coarse, "LU")
    error = -solution
    for iterate in Iterates.seen:
        error = operator @ error
        np.testing.assert_allclose(iterate - solution, error, atol=1e-10)
    assert len(Iterates.seen) > 5


# --- iterations ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize("sweeper", NOT_INTEGRATED)
def test_pfasst_over_four_steps_at_index_1_takes_five_iterations_at_most(sweeper: str, halved: bool) -> None:
    dt = 0.05 if halved else 0.1
    serial, sdc = run(controller("hessenberg-1", sweeper, (5,), dt=dt))
    for qdelta in ("LU", "MIN-SR-S"):
        end, counts = run(controller("hessenberg-1", sweeper, num_procs=4, dt=dt, qdelta=qdelta))
        assert max(counts) <= 5 < sdc[0]
        np.testing.assert_allclose(end, serial, atol=1e-10)


@pytest.mark.parametrize("sweeper", NOT_INTEGRATED)
def test_mlsdc_takes_fewer_iterations_than_sdc_at_index_1(sweeper: str) -> None:
    serial, sdc = run(controller("hessenberg-1", sweeper, (5,)))
    end, mlsdc = run(controller("hessenberg-1", sweeper))
    assert mlsdc[0] <= sdc[0] - 3
    assert sum(mlsdc) <= 0.7 * sum(sdc)
    np.testing.assert_allclose(end, serial, atol=1e-10)
    _, three = run(controller("hessenberg-1", sweeper, (5, 3, 2)))
    assert sum(three) <= sum(mlsdc)


@pytest.mark.parametrize("qdelta", ["LU", "MIN-SR-S"])
@pytest.mark.parametrize("problem", ["hessenberg-2", "simple"])
@pytest.mark.parametrize("sweeper", SDC)
def test_at_index_2_later_steps_converge_with_the_first(sweeper: str, problem: str, qdelta: str) -> None:
    serial, _ = run(controller(problem, sweeper, (5,), qdelta=qdelta))
    end, counts = run(controller(problem, sweeper, num_procs=4, qdelta=qdelta))
    # One step alone takes as many: what passes between the steps costs nothing but a few last digits.
    _, alone = run(controller(problem, sweeper, qdelta=qdelta), 1)
    assert counts[0] == alone[0] < 60
    assert max(counts) <= counts[0] + 5
    np.testing.assert_allclose(end, serial, rtol=1e-8)


@pytest.mark.parametrize(("qdelta", "most"), [("LU", 18), ("MIN-SR-S", 20)])
@pytest.mark.parametrize("problem", ["hessenberg-2", "simple"])
@pytest.mark.parametrize("sweeper", NOT_INTEGRATED)
def test_matched_levels_halve_the_iterations_at_index_2(
    sweeper: str, problem: str, qdelta: str, most: int
) -> None:
    settings = {"num_procs": 4, "qdelta": qdelta, "predict_type": "pfasst_burnin"}
    serial, _ = run(controller(problem, sweeper, (5,)))
    _, plain = run(controller(problem, sweeper, **settings))
    end, matched = run(controller(problem, sweeper, match=True, **settings))
    assert max(matched) <= most
    assert max(matched) <= (0.85 if qdelta == "LU" else 0.6) * max(plain)
    np.testing.assert_allclose(end, serial, rtol=1e-8)


@pytest.mark.parametrize("problem", ["hessenberg-3", "pendulum"])
@pytest.mark.parametrize("sweeper", SDC)
def test_index_3_converges_with_lu(sweeper: str, problem: str) -> None:
    # The fully implicit sweep is at round-off below 1e-9, with one level too.
    restol = 1e-8 if sweeper == "fully-implicit" else 1e-10
    serial, _ = run(controller(problem, sweeper, (5,), restol=restol), restol=restol)
    end, counts = run(controller(problem, sweeper, num_procs=4, restol=restol), restol=restol)
    assert max(counts) <= counts[0] + 5
    np.testing.assert_allclose(end, serial, rtol=1e-4 if sweeper == "fully-implicit" else 1e-6, atol=1e-6)


@pytest.mark.parametrize("levels", [(5, 3), (5,)])
def test_steps_that_begin_with_the_value_of_another_time_find_the_same_solution(
    levels: tuple[int, ...],
) -> None:
    # The hidden constraint has a second root, half as large, which is nearer to the z of some steps before.
    own = controller("hessenberg-2", "constrained", levels, num_procs=4, dt=0.1)
    end, _ = run(own, 9)
    np.testing.assert_allclose(end, own.MS[0].levels[0].prob.u_exact(0.9), rtol=1e-7)


@pytest.mark.parametrize("problem", ["hessenberg-1", "simple"])
@pytest.mark.parametrize("sweeper", SDC)
def test_lobatto_nodes_and_incomplete_blocks_give_the_serial_solution(sweeper: str, problem: str) -> None:
    for quad in ("LOBATTO", "RADAU-RIGHT"):
        serial, _ = run(controller(problem, sweeper, (5,), quad=quad), 6)
        end, counts = run(controller(problem, sweeper, num_procs=4, quad=quad), 6)
        assert len(counts) == 6
        np.testing.assert_allclose(end, serial, atol=1e-9)


@pytest.mark.parametrize("sweeper", SDC)
def test_gauss_nodes_work_for_one_step_at_a_time_and_are_refused_by_pysdc_for_several(sweeper: str) -> None:
    serial, _ = run(controller("hessenberg-1", sweeper, (5,), quad="GAUSS"))
    end, _ = run(controller("hessenberg-1", sweeper, quad="GAUSS"))
    np.testing.assert_allclose(end, serial, atol=1e-9)
    with pytest.raises(ControllerError):
        controller("hessenberg-1", sweeper, num_procs=2, quad="GAUSS")


# --- coarsening in the unknowns -----------------------------------------------------------------------------


class Rod(ProblemDAE):
    """Heat in a rod with ``points`` inner points, heated so that the mean temperature is cos t (index 2)."""

    index = 2

    def __init__(self, points: int = 15, **settings: Any) -> None:
        super().__init__(points, 1, **settings)
        self._makeAttributeAndRegister("points", localVars=locals())
        self.x = np.arange(1, points + 1) / (points + 1)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        y = np.concatenate([[0.0], u[:-1], [0.0]])
        laplace = 0.1 * (y[:-2] - 2.0 * y[1:-1] + y[2:]) * (self.points + 1) ** 2
        rate = du[:-1] - laplace - u[-1] * np.sin(np.pi * self.x)
        return np.append(rate, 2.0 * u[:-1] @ np.sin(np.pi * self.x) / (self.points + 1) - np.cos(t))

    def u_exact(self, t: float) -> Any:
        rate = 0.4 * (self.points + 1) ** 2 * np.sin(0.5 * np.pi / (self.points + 1)) ** 2
        return np.append(np.cos(t) * np.sin(np.pi * self.x), rate * np.cos(t) - np.sin(t))


class EveryOther(SpaceTransfer):  # type: ignore[misc]
    """Every other point of the rod, and straight lines between."""

    def restrict(self, u: Any) -> Any:
        return np.append(u[1:-1:2], u[-1])

    def prolong(self, u: Any) -> Any:
        y = np.concatenate([[0.0], u[:-1], [0.0]])
        fine = np.empty(2 * len(y) - 1)
        fine[::2], fine[1::2] = y, 0.5 * (y[:-1] + y[1:])
        return np.append(fine[1:-1], u[-1])


@pytest.mark.parametrize("num_procs", [1, 4])
@pytest.mark.parametrize("sweeper", SDC)
def test_levels_may_differ_in_their_unknowns(sweeper: str, num_procs: int) -> None:
    serial, _ = run(controller(Rod, sweeper, (4,), dt=0.05))
    change = {"problem_params": {"points": [15, 7]}, "space_transfer_class": EveryOther}
    own = controller(Rod, sweeper, (4, 3), num_procs, dt=0.05, change=change)
    assert [L.prob.n for L in own.MS[0].levels] == [16, 8]
    end, _ = run(own)
    np.testing.assert_allclose(end, serial, atol=1e-7)
    np.testing.assert_allclose(end, Rod().u_exact(0.2), atol=1e-6)


def test_residuals_have_a_restriction_of_their_own_where_it_is_given() -> None:
    class Doubled(EveryOther):
        def restrict_residual(self, r: Any) -> Any:
            return 2.0 * self.restrict(r)

    tau = []
    for cls in (EveryOther, Doubled):
        change = {"problem_params": {"points": [15, 7]}, "space_transfer_class": cls}
        S = controller(Rod, "semi-implicit", (4, 3), dt=0.05, change=change).MS[0]
        S.init_step(S.levels[0].prob.state(np.ones(16)))
        S.levels[0].status.time = S.levels[1].status.time = 0.0
        S.levels[0].sweep.predict()
        S.transfer(source=S.levels[0], target=S.levels[1])
        restricted = S.base_transfer.Rcoll @ np.array(
            [S.base_transfer.space_transfer.restrict(row) for row in S.levels[0].sweep.node_residuals()]
        )
        tau.append(np.array(S.levels[1].tau))
    np.testing.assert_allclose(tau[0] - tau[1], restricted, atol=1e-12)
    assert np.abs(restricted).max() > 0.1


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sweeper_params": {"quad_type": ["RADAU-RIGHT", "LOBATTO"]}}, "same quad_type"),
        ({"sweeper_params": {"num_nodes": [3, 5]}}, "at most the nodes"),
        ({"sweeper_class": [FullyImplicitDAE, SemiImplicitDAE]}, "integrate the algebraic"),
        ({"base_transfer_params": {"match": True}}, "match_sweep"),
    ],
)
def test_levels_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        controller("hessenberg-1", "semi-implicit", change=change)
    assert "\n" not in str(caught.value)


def test_sweepers_and_unknowns_that_do_not_fit_are_refused() -> None:
    method = next(cls for _, cls in SWEEPERS.items() if issubclass(cls, RungeKuttaDAE))
    with pytest.raises(InputError, match="SDC sweeper"):
        controller(
            "hessenberg-1",
            "semi-implicit",
            change={
                "sweeper_class": method,
                "sweeper_params": {},
                "problem_params": {"newton_tol": [1e-10] * 2},
            },
        )
    with pytest.raises(InputError, match="space_transfer_class"):
        controller(Rod, "semi-implicit", dt=0.05, change={"problem_params": {"points": [15, 7]}})


def test_coefficients_that_change_with_the_sweep_are_refused_by_pysdc() -> None:
    with pytest.raises(ControllerError):
        controller("hessenberg-1", "semi-implicit", qdelta="MIN-SR-FLEX")


def test_a_transfer_needs_an_iterate() -> None:
    S = controller("hessenberg-1", "semi-implicit").MS[0]
    with pytest.raises(UnlockError):
        S.transfer(source=S.levels[0], target=S.levels[1])
    with pytest.raises(UnlockError):
        S.transfer(source=S.levels[1], target=S.levels[0])


# --- sweep and coarse correction that fit -------------------------------------------------------------------


def radius(delta: Vector, restriction: Vector, nodes: tuple[str, int, int]) -> float:
    fine, coarse = (CollBase(m, 0, 1, quad_type=nodes[0]) for m in nodes[1:])
    return float(np.abs(np.linalg.eigvals(two_level_error(delta, restriction, fine, coarse, "LU"))).max())


@pytest.mark.parametrize("quad", ["RADAU-RIGHT", "LOBATTO"])
@pytest.mark.parametrize("numbers", [(5, 3), (4, 2), (3, 2)])
def test_matching_lowers_the_radius_of_the_two_level_operator(quad: str, numbers: tuple[int, int]) -> None:
    nodes = (quad, *numbers)
    fine, coarse = (CollBase(m, 0, 1, quad_type=quad) for m in numbers)
    interpolation = interpolation_matrix(tuple(fine.nodes), tuple(coarse.nodes))
    plain = radius(qdelta_matrix(fine, "MIN-SR-S"), interpolation, nodes)
    matched = radius(np.diag(matched_diagonal(*nodes)), interpolation, nodes)
    assert matched < 0.1 and matched < 0.4 * plain
    lu = qdelta_matrix(fine, "LU")
    restriction = matched_restriction(*nodes)
    assert radius(lu, restriction, nodes) <= radius(lu, interpolation, nodes)
    for degree in range(numbers[1] + 1):
        np.testing.assert_allclose(restriction @ fine.nodes**degree, coarse.nodes**degree, atol=1e-11)
    np.testing.assert_array_equal(restriction[-1], interpolation[-1])
