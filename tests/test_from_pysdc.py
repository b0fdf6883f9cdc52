"""What users of pySDC and its DAE project bring along: exceptions, tableaux, start values, problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pySDC.core.errors as theirs
import pySDC.implementations.sweeper_classes.Runge_Kutta as tableaux
import pytest
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

import dae_sdc as ds

QUIET = {"logger_level": 40, "dump_setup": False}


def run(problem: Any, sweeper: Any, t0: float, t_end: float, dt: float, u0: Any = None, **more: Any) -> Any:
    """The controller and the end value of a run of pySDC's controller."""
    direct = issubclass(sweeper, tableaux.RungeKutta)
    params = {"quad_type": "RADAU-RIGHT", "num_nodes": 3, "QI": "LU", **more.pop("sweeper_params", {})}
    given = {
        "problem_class": problem,
        "problem_params": more.pop("problem_params", {}),
        "sweeper_class": sweeper,
        "sweeper_params": {} if direct else params,
        "level_params": {"dt": dt, "restol": -1.0 if direct else 1e-10},
        "step_params": {"maxiter": 1 if direct else 60},
    }
    controller = controller_nonMPI(1, {**QUIET, **more}, given)
    P = controller.MS[0].levels[0].prob
    end, _ = controller.run(u0=P.u_exact(t0) if u0 is None else u0, t0=t0, Tend=t_end)
    return controller, end


# --- exceptions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "kind"),
    [
        (ds.InputError, theirs.ParameterError),
        (ds.InconsistentStateError, theirs.ParameterError),
        (ds.ConvergenceError, theirs.ConvergenceError),
        (ds.NewtonError, theirs.ConvergenceError),
        (ds.NewtonError, theirs.ProblemError),
        (ds.EvaluationError, theirs.ProblemError),
        (ds.SingularMatrixError, theirs.ProblemError),
    ],
)
def test_an_exception_is_of_the_kind_that_pysdc_has_for_the_case(ours: type, kind: type) -> None:
    assert issubclass(ours, kind)
    assert issubclass(ours, ds.DAEError)


def test_a_wrong_setting_in_a_description_is_a_parameter_error_of_pysdc() -> None:
    with pytest.raises(theirs.ParameterError, match="RADAU-LEFT"):
        run(ds.SimpleDAE, ds.FullyImplicitDAE, 0.0, 0.1, 0.1, sweeper_params={"quad_type": "RADAU-LEFT"})


# --- tableaux -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (tableaux.BackwardEuler, ds.BackwardEulerDAE),
        (tableaux.CrankNicolson, ds.TrapezoidalRuleDAE),
        (tableaux.EDIRK4, ds.EDIRK4DAE),
        (tableaux.DIRK43_2, ds.DIRK43_2DAE),
    ],
)
def test_a_class_with_a_tableau_of_pysdc_steps_like_the_method_of_the_library(theirs: Any, ours: Any) -> None:
    made = type("Made", (ds.RungeKuttaDAE, theirs), {})
    assert made.method.order == ours.method.order
    ends = [np.array(run(ds.SimpleDAE, cls, 0.0, 0.5, 0.1)[1]) for cls in (made, ours)]
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-14)


@pytest.mark.parametrize(
    ("base", "order", "embedded"),
    [
        (tableaux.ImplicitMidpointMethod, 2, None),
        (tableaux.DIRK43, 4, 3),
        (tableaux.ESDIRK53, 5, 3),
        (tableaux.ARK548L2SAESDIRK, 5, 4),
        (tableaux.ARK324L2SAESDIRK, 3, 2),
    ],
)
def test_orders_of_a_tableau_are_found_and_reached_where_it_ends_in_a_stage(
    base: Any, order: int, embedded: int | None
) -> None:
    made = type("Made", (ds.RungeKuttaDAE, base), {})
    assert (made.method.order, made.method.embedded_order) == (order, embedded)
    if embedded is not None:
        assert made.get_update_order() == base.get_update_order()
    if not made.method.orders:
        return
    exact, tight = np.array(ds.DiscontinuousTestDAE().u_exact(2.0)), {"newton_tol": 1e-13}
    ends = [run(ds.DiscontinuousTestDAE, made, 1.0, 2.0, dt, problem_params=tight)[1] for dt in (0.1, 0.05)]
    errors = [abs(end[0] - exact[0]) for end in ends]
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.3


def test_a_method_with_coefficients_of_its_own_needs_no_second_base() -> None:
    class Own(ds.RungeKuttaDAE):
        nodes = np.array([1.0])
        weights = np.array([1.0])
        matrix = np.array([[1.0]])

    ends = [np.array(run(ds.SimpleDAE, cls, 0.0, 0.5, 0.1)[1]) for cls in (Own, ds.BackwardEulerDAE)]
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize(
    ("base", "words"),
    [(tableaux.RK4, "all stages are explicit"), (tableaux.ARK54, "ARK54 splits u' = f")],
)
def test_a_tableau_that_solves_no_dae_is_refused_when_the_class_is_made(base: Any, words: str) -> None:
    with pytest.raises(ds.InputError, match=words):
        type("Made", (ds.RungeKuttaDAE, base), {})


def test_a_runge_kutta_sweeper_without_a_tableau_says_how_to_give_one() -> None:
    with pytest.raises(ds.InputError, match="no tableau"):
        run(ds.SimpleDAE, ds.RungeKuttaDAE, 0.0, 0.1, 0.1)
