"""Every mistake a user can make through ``import dae_sdc as ds``, and what is said about it.

A message is one line with the value that offends, where it stands, and the choices or what to do.
"""

from __future__ import annotations

import inspect
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from pySDC.core.hooks import Hooks
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

import dae_sdc as ds
from dae_sdc.arguments import OTHERS
from dae_sdc.dae.jacobian import linearize
from dae_sdc.options import names_of_options
from dae_sdc.run.description import SolveOptions


class Sphere(ds.ProblemDAE):
    """y' = -z with y^2 + z^2 = 1 from (1, 0); at t >= 0.25 the sphere vanishes and no z exists."""

    index = 1
    names = ("y", "z")
    equation_names = ("rate of y", "sphere")
    interval = (0.0, 1.0)
    dt = 0.1

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        y, z = u.tolist()
        constant = 1.0 if t < 0.25 else -1.0
        return [du[0] - 1.0, z * z - constant - y * y]

    def u_exact(self, t: float) -> Any:
        return [t, math.sqrt(1.0 + t * t)]


class Logarithm(ds.ProblemDAE):
    """y' = 1, z = log(0.35 - y): undefined from t = 0.35 on."""

    index = 1
    names = ("y", "z")
    equation_names = ("rate of y", "level")
    interval = (0.0, 1.0)
    dt = 0.1

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        gap = 0.35 - t
        return [du[0] - 1.0, u[1] - (math.log(gap) if gap > 0.0 else math.nan)]

    def u_exact(self, t: float) -> Any:
        return [t, math.log(0.35 - t)]


class RaisingLogarithm(Logarithm):
    """The same with the exception of the math module."""

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] - 1.0, u[1] - math.log(0.35 - t)]


class Plain:
    """Not a problem at all."""


@dataclass(frozen=True)
class Mistake:
    """A call of ``ds.solve`` with one mistake in it, and what the message must hold."""

    problem: Any
    options: dict[str, Any]
    says: tuple[str, ...]
    error: type[Exception] = ds.InputError
    short: dict[str, Any] = field(default_factory=lambda: {"t_end": 0.1})

    def call(self) -> Any:
        return ds.solve(self.problem, **{**self.short, **self.options})


SIMPLE: Any = "simple"
USE = ("use one of", "LU", "MIN-SR-S")

MISTAKES: dict[str, Mistake] = {
    # names
    "unknown problem": Mistake(
        "simpel", {}, ("unknown problem 'simpel'", "did you mean 'simple'", "pendulum")
    ),
    "unknown sweeper": Mistake(
        SIMPLE,
        {"sweeper": "semi-implict"},
        ("unknown sweeper 'semi-implict'", "'semi-implicit'", "radau-iia-5"),
    ),
    "unknown quadrature": Mistake(
        SIMPLE, {"quad": "RADAU"}, ("quad_type 'RADAU'", "RADAU-RIGHT", "LOBATTO", "GAUSS")
    ),
    "quadrature without damping": Mistake(
        SIMPLE, {"quad": "RADAU-LEFT"}, ("quad_type 'RADAU-LEFT'", "RADAU-RIGHT", "no damping")
    ),
    "unknown Q_Delta": Mistake(
        SIMPLE, {"qdelta": "LUU"}, ("unknown Q_Delta 'LUU'", "'LU'", "MIN-SR-S", "IE")
    ),
    "unknown initial guess": Mistake(
        SIMPLE,
        {"initial_guess": "sprad"},
        ("initial_guess 'sprad'", "extrapolate", "random", "spread", "zero"),
    ),
    "unknown residual type": Mistake(
        SIMPLE,
        {"residual_type": "full"},
        ("residual_type 'full'", "full_abs", "full_rel", "last_abs", "last_rel"),
    ),
    "unknown parameter": Mistake(
        SIMPLE,
        {"params": {"alfa": 1.0}},
        ("unknown parameter of SimpleDAE 'alfa'", "did you mean 'alpha'?", "newton_tol", "newton_maxiter"),
    ),
    "parameter that the problem sets itself": Mistake(
        SIMPLE, {"params": {"n_diff": 5}}, ("unknown parameter of SimpleDAE 'n_diff'", "alpha")
    ),
    "parameter that is not a number": Mistake(
        SIMPLE, {"params": {"alpha": "ten"}}, ("alpha", "SimpleDAE", "ten")
    ),
    "parameter that is not finite": Mistake(
        SIMPLE, {"params": {"alpha": math.nan}}, ("alpha of SimpleDAE must be finite", "nan")
    ),
    "parameter of a problem that is already made": Mistake(
        ds.SimpleDAE(),
        {"params": {"alpha": 1.0}},
        ("SimpleDAE is already made", "alpha", "when you make it"),
    ),
    "unknown option": Mistake(
        SIMPLE, {"newtontol": 1e-8}, ("'newtontol'", "newton_tol", "restol", "maxiter")
    ),
    # things of the wrong kind
    "problem that is none": Mistake(Plain, {}, ("a problem is a name, a ProblemDAE class", "Plain")),
    "problem that is missing": Mistake(None, {}, ("a problem is a name", "None")),
    "sweeper class of another library": Mistake(
        SIMPLE, {"sweeper": Plain}, ("a sweeper is a name or a class of dae_sdc", "Plain")
    ),
    "sweeper that is a number": Mistake(SIMPLE, {"sweeper": 3}, ("sweeper must be a text or a class", "3")),
    # options without effect
    "options of sweeps for a Runge-Kutta method": Mistake(
        SIMPLE,
        {"sweeper": "backward-euler", "nodes": 3, "qdelta": "LU"},
        ("no effect on the Runge-Kutta method 'backward-euler'", "nodes", "qdelta"),
    ),
    "tolerance of sweeps for a Runge-Kutta method": Mistake(
        SIMPLE,
        {"sweeper": "radau-iia-5", "restol": 1e-8, "maxiter": 3},
        ("'radau-iia-5'", "restol", "maxiter"),
    ),
    # initial values
    "initial value of another shape": Mistake(
        SIMPLE, {"u0": [1.0, 1.0]}, ("a state of SimpleDAE has shape (3,)", "differential", "got shape (2,)")
    ),
    "initial value with a column too many": Mistake(
        SIMPLE, {"u0": [[1.0], [1.0], [-0.5]]}, ("SimpleDAE has shape (3,)", "got shape (3, 1)")
    ),
    "initial value that is not numbers": Mistake(SIMPLE, {"u0": ["one", 1.0, -0.5]}, ("SimpleDAE", "one")),
    "initial value that is ragged": Mistake(
        SIMPLE, {"u0": [1.0, [1.0, 2.0], 3.0]}, ("SimpleDAE", "shape (3,)")
    ),
    "initial value that is complex": Mistake(
        SIMPLE, {"u0": [1.0 + 1.0j, 1.0, -0.5]}, ("SimpleDAE", "complex")
    ),
    "initial value that is a complex array": Mistake(
        SIMPLE, {"u0": np.array([1.0, 1.0, -0.5]) + 1.0j}, ("SimpleDAE", "complex")
    ),
    "initial value that violates an equation": Mistake(
        SIMPLE,
        {"u0": [1.0, 2.0, -0.5]},
        # (t + 2) u1 + (t^2 - 4) u2 - (t^2 + t - 2) e^t = 2 - 8 + 2 at t = 0
        (
            "u0 of SimpleDAE violates equation 'constraint' at t=0",
            "residual -4 ",
            "tolerance",
            "consistent u0",
        ),
        error=ds.InconsistentStateError,
    ),
    "equations that return complex numbers": Mistake(
        type("Rooted", (Sphere,), {"eval_f": lambda self, u, du, t: [du[0] - 1.0, (-1.0) ** 0.5]}),
        {},
        ("Rooted.eval_f must return real numbers of shape (2,)", "complex128", "return NaN"),
    ),
    "names that are one text": Mistake(
        type("Lettered", (Sphere,), {"names": "yz"}), {}, ("Lettered.names must be a tuple", "'yz'")
    ),
    "Newton tolerance that is no number": Mistake(
        SIMPLE, {"newton_tol": "a"}, ("newton_tol must be a number", "'a'")
    ),
    "initial value with a NaN": Mistake(SIMPLE, {"u0": [1.0, math.nan, -0.5]}, ("u0", "'u2'", "nan", "t=0")),
    "initial value that is infinite": Mistake(SIMPLE, {"u0": [math.inf, 1.0, -0.5]}, ("u0", "'u1'", "inf")),
    "no initial value known": Mistake(
        type("Nameless", (Sphere,), {"u_exact": ds.ProblemDAE.u_exact}),
        {},
        ("Nameless has no u_exact", "pass", "u0"),
    ),
    "start outside the range of the solution": Mistake(
        SIMPLE,
        {"t0": 2.5, "t_end": 2.6, "dt": 0.1},
        ("SimpleDAE", "singular", "t=2.5"),
        error=ds.ReferenceRangeError,
    ),
    # times
    "dt that does not divide the interval": Mistake(
        SIMPLE,
        {"dt": 0.03},
        (
            "dt=0.03 does not divide the time from 0 to 0.1",
            "dt=0.0333333333333 (3 steps)",
            "dt=0.025 (4 steps)",
        ),
    ),
    "dt longer than the interval": Mistake(
        SIMPLE, {"dt": 0.3}, ("dt=0.3 does not divide", "use dt=0.1 (1 step")
    ),
    "dt negative": Mistake(SIMPLE, {"dt": -0.1}, ("need", "dt > 0", "dt=-0.1")),
    "dt zero": Mistake(SIMPLE, {"dt": 0.0}, ("need", "dt > 0", "dt=0")),
    "dt not a number": Mistake(SIMPLE, {"dt": math.nan}, ("dt must be a number", "nan")),
    "end before the start": Mistake(SIMPLE, {"t0": 0.5, "t_end": 0.2}, ("t_end > t0", "t0=0.5", "t_end=0.2")),
    "end at the start": Mistake(SIMPLE, {"t_end": 0.0}, ("t_end > t0", "t0=0", "t_end=0")),
    "start infinite": Mistake(SIMPLE, {"t0": math.inf, "points": 3}, ("finite", "t0=inf")),
    "end infinite": Mistake(SIMPLE, {"t_end": math.inf}, ("finite", "t_end=inf")),
    # Q_Delta that cannot work
    "Q_Delta of Picard": Mistake(
        SIMPLE,
        {"qdelta": "PIC"},
        ("Q_Delta 'PIC' has a zero on its diagonal", "3 RADAU-RIGHT", "index 2", *USE),
    ),
    "Q_Delta of explicit Euler": Mistake(
        SIMPLE, {"qdelta": "EE"}, ("Q_Delta 'EE' has a zero on its diagonal", "index 2", *USE)
    ),
    "Q_Delta that diverges at index 2": Mistake(
        SIMPLE, {"qdelta": "MIN-SR-NS"}, ("Q_Delta 'MIN-SR-NS' diverge", "index 2", "error factor", *USE)
    ),
    "Q_Delta that diverges at index 2, algebraic unknowns not integrated": Mistake(
        SIMPLE, {"qdelta": "MIN-SR-NS", "sweeper": "semi-implicit"}, ("'MIN-SR-NS' diverge", "index 2", *USE)
    ),
    "Q_Delta that diverges at index 1 where algebraic unknowns are integrated": Mistake(
        "hessenberg-1", {"qdelta": "MIN-SR-NS"}, ("'MIN-SR-NS' diverge", "index 1", *USE)
    ),
    "Q_Delta that is not lower triangular": Mistake(
        SIMPLE, {"qdelta": "Exact"}, ("Q_Delta 'Exact' is not lower triangular", "radau-iia-5", "LU")
    ),
    # sweepers that cannot work
    "semi-implicit where z' appears": Mistake(
        "problematic-f",
        {"sweeper": "semi-implicit"},
        (
            "SemiImplicitDAE needs a semi-explicit DAE",
            "ProblematicF depends on the derivative",
            "FullyImplicitDAE",
        ),
    ),
    "constrained where z' appears": Mistake(
        "problematic-f",
        {"sweeper": "constrained"},
        ("ConstrainedDAE needs a semi-explicit DAE", "ProblematicF", "use FullyImplicitDAE"),
    ),
    "parameter without an implicit step": Mistake(
        "problematic-f", {"params": {"eta": -1.0}}, ("ProblematicF", "eta=-1", "eta > -0.5")
    ),
    # numbers
    "nodes that are no integer": Mistake(SIMPLE, {"nodes": 2.5}, ("nodes must be an integer", "got 2.5")),
    "no nodes": Mistake(SIMPLE, {"nodes": 0}, ("nodes must be an integer, at least 1", "got 0")),
    "one LOBATTO node": Mistake(
        SIMPLE, {"nodes": 1, "quad": "LOBATTO"}, ("num_nodes", "at least 2 for LOBATTO", "got 1")
    ),
    "nodes that are a truth value": Mistake(SIMPLE, {"nodes": True}, ("nodes must be an integer", "True")),
    "no iterations": Mistake(SIMPLE, {"maxiter": 0}, ("maxiter must be", "at least 1", "got 0")),
    "iterations that are no integer": Mistake(SIMPLE, {"maxiter": 2.5}, ("maxiter", "integer", "2.5")),
    "no sweeps": Mistake(SIMPLE, {"nsweeps": 0}, ("nsweeps must be", "at least 1", "got 0")),
    "no steps": Mistake(SIMPLE, {"steps": 0}, ("number of steps", "at least 1", "got 0")),
    "steps that are no integer": Mistake(SIMPLE, {"steps": 1.5}, ("steps", "integer", "1.5")),
    "Newton tolerance not positive": Mistake(
        SIMPLE, {"newton_tol": -1e-8}, ("newton_tol must be positive", "-1e-08")
    ),
    "Newton tolerance not positive, for a problem that is made": Mistake(
        ds.SimpleDAE(), {"newton_tol": -1e-8}, ("newton_tol must be positive", "-1e-08")
    ),
    "no Newton iterations": Mistake(
        SIMPLE, {"params": {"newton_maxiter": 0}}, ("newton_maxiter must be", "at least 1", "got 0")
    ),
    "residual tolerance not a number": Mistake(SIMPLE, {"restol": math.nan}, ("restol", "nan")),
    "seed out of range": Mistake(SIMPLE, {"initial_guess": "random", "seed": -1}, ("seed", "-1")),
    # files
    "result in a directory that does not exist": Mistake(
        SIMPLE, {"out": "/nonexistent/result.npy"}, ("cannot write /nonexistent/result.npy", "does not exist")
    ),
}


def one_line(text: str) -> str:
    assert text and "\n" not in text, text
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_ends_in_one_line_that_says_what_where_and_what_to_do(mistake: Mistake) -> None:
    with pytest.raises(mistake.error) as error:
        mistake.call()
    text = one_line(str(error.value))
    for part in mistake.says:
        assert part in text, f"{part!r} is missing in {text!r}"


def test_every_mistake_is_a_value_error_for_those_who_do_not_know_our_exceptions() -> None:
    with pytest.raises(ValueError, match="unknown problem"):
        ds.solve("no such problem")


def test_the_nearest_step_sizes_that_a_message_gives_are_accepted() -> None:
    with pytest.raises(ds.InputError) as error:
        ds.solve("simple", t_end=0.1, dt=0.03)
    offered = [
        float(word.removeprefix("dt=")) for word in str(error.value).split() if word.startswith("dt=0.0")
    ]
    assert len(offered) == 3, "the wrong one and two right ones"
    for dt in offered[1:]:
        assert ds.solve("simple", t_end=0.1, dt=dt).success


def test_a_q_delta_that_a_message_offers_is_accepted() -> None:
    with pytest.raises(ds.InputError) as error:
        ds.solve("simple", t_end=0.05, qdelta="PIC")
    offered = str(error.value).split("use one of ")[1].split(", ")
    assert len(offered) > 3
    for name in offered:
        ds.solve("simple", t_end=0.05, dt=0.05, qdelta=name, restol=-1.0, maxiter=1)
    best = ds.solve("simple", t_end=0.05, dt=0.05, qdelta=offered[0])
    assert best.success, best.message


@pytest.mark.parametrize(
    "options",
    [
        {"dt": 0.3},
        {"qdelta": "LUU"},
        {"quad": "RADAU"},
        {"u0": [1.0]},
        {"maxiter": 0},
        {"residual_type": "full"},
    ],
    ids=str,
)
def test_a_mistake_is_found_before_the_first_step_is_computed(options: dict[str, Any]) -> None:
    class NoRun(Hooks):
        def pre_run(self, step: Any, level_number: int) -> None:
            raise AssertionError("the run begins")

    with pytest.raises(ds.InputError):
        ds.solve(Sphere, hooks=[NoRun], **options)
    with pytest.raises(AssertionError, match="the run begins"):
        ds.solve(Sphere, hooks=[NoRun])


# --- runs that fail numerically -------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """A call that is right but whose numerics fail, and what the solution's message must hold."""

    problem: Any
    options: dict[str, Any]
    says: tuple[str, ...]
    steps: int


FAILURES: dict[str, Failure] = {
    "sweeps that do not converge": Failure(
        "simple",
        {"t_end": 0.1, "dt": 0.05, "maxiter": 2, "restol": 1e-12},
        (
            "step from t=0 with dt=0.05",
            "after 2 iterations",
            "residual",
            "restol=1.0e-12",
            "reduce dt",
            "maxiter",
        ),
        0,
    ),
    "Newton that has no solution to find": Failure(
        Sphere,
        {"dt": 0.1},
        (
            "Newton did not converge at t=0.2",
            "step from 0.25 with dt=0.05",
            "'sphere'",
            "tolerance",
            "reduce dt",
        ),
        3,
    ),
    "Newton of a Runge-Kutta method that has no solution to find": Failure(
        Sphere,
        {"sweeper": "backward-euler"},
        ("Newton did not converge at t=0.3", "from 0.25", "'sphere'"),
        3,
    ),
    "Newton of coupled stages that has no solution to find": Failure(
        Sphere, {"sweeper": "radau-iia-5"}, ("Newton did not converge at t=", "from 0.25", "sphere"), 3
    ),
    "equations that are not defined any more": Failure(
        Logarithm,
        {"dt": 0.1},
        ("eval_f of Logarithm returned nan in 'level' at t=", "from 0.3", "reduce dt"),
        3,
    ),
    "equations that raise where they are not defined any more": Failure(
        RaisingLogarithm,
        {"dt": 0.1},
        ("eval_f of RaisingLogarithm returned nan", "at t=", "from 0.3", "reduce dt"),
        3,
    ),
    "equations that are not defined any more, for a Runge-Kutta method": Failure(
        Logarithm, {"sweeper": "backward-euler"}, ("eval_f of Logarithm returned nan in 'level' at t=0.4",), 3
    ),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_run_that_fails_returns_what_it_computed_and_says_why_in_one_line(failure: Failure) -> None:
    solution = ds.solve(failure.problem, **failure.options)
    assert solution.success is False
    text = one_line(solution.message)
    for part in failure.says:
        assert part in text, f"{part!r} is missing in {text!r}"
    assert len(solution.t) == len(solution.u) == len(solution.du) == 1 + failure.steps
    assert np.isfinite(solution.u).all()
    assert solution.stats["steps"] == failure.steps


def test_the_steps_before_a_failure_are_correct() -> None:
    solution = ds.solve(Sphere, dt=0.1)
    assert not solution.success
    # The jump is found, and the steps lead up to it.
    np.testing.assert_allclose(solution.t, [0.0, 0.1, 0.2, 0.25], atol=1e-12)
    np.testing.assert_allclose(solution.u, [Sphere().u_exact(t) for t in (0.0, 0.1, 0.2, 0.25)], atol=1e-9)


def test_the_message_about_sweeps_gives_the_residual_of_the_step() -> None:
    settings = {"t_end": 0.05, "dt": 0.05, "maxiter": 2}
    solution = ds.solve("simple", **settings, restol=1e-12)
    # The same two sweeps as a fixed number, which is no failure and keeps its residual.
    residual = float(ds.solve("simple", **settings, restol=-1.0).per_step["residual"][-1])
    assert residual > 1e-12
    assert f"residual {residual:.1e}" in solution.message


def test_a_fixed_number_of_sweeps_is_no_failure() -> None:
    assert ds.solve("simple", t_end=0.05, dt=0.05, maxiter=2, restol=-1.0).success


# --- pySDC's own description ----------------------------------------------------------------------


@pytest.fixture
def quiet() -> Iterator[None]:
    """Undo what a pySDC controller does to the root logger."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def through_pysdc(sweeper: type[Any], problem: Any = None, **parts: dict[str, Any]) -> Any:
    description = {
        "problem_class": ds.SimpleDAE if problem is None else problem,
        "problem_params": {},
        "sweeper_class": sweeper,
        "sweeper_params": {"num_nodes": 3, "quad_type": "RADAU-RIGHT", "QI": "LU"},
        "level_params": {"dt": 0.05, "restol": 1e-10},
        "step_params": {"maxiter": 50},
    }
    for name, changes in parts.items():
        description[name] = {**description[name], **changes}
    controller = controller_nonMPI(
        num_procs=1, controller_params={"logger_level": logging.ERROR}, description=description
    )
    return controller.run(u0=ds.SimpleDAE().u_exact(0.0), t0=0.0, Tend=0.1)


@dataclass(frozen=True)
class Described:
    """A description dictionary with one mistake."""

    sweeper: Callable[[], type[Any]]
    parts: dict[str, Any]
    says: tuple[str, ...]


DESCRIBED: dict[str, Described] = {
    "unknown Q_Delta": Described(
        lambda: ds.FullyImplicitDAE, {"sweeper_params": {"QI": "LUU"}}, ("unknown Q_Delta 'LUU'", "'LU'")
    ),
    "missing number of nodes": Described(
        lambda: ds.FullyImplicitDAE,
        {"sweeper_params": {"num_nodes": None}},
        ("num_nodes must be an integer", "None"),
    ),
    "quadrature for ordinary equations": Described(
        lambda: ds.SemiImplicitDAE,
        {"sweeper_params": {"quad_type": "RADAU-LEFT"}},
        ("quad_type 'RADAU-LEFT'", "RADAU-RIGHT"),
    ),
    "Q_Delta that is singular": Described(
        lambda: ds.SemiImplicitDAE,
        {"sweeper_params": {"QI": "PIC"}},
        ("Q_Delta 'PIC'", "index 2", "use one of"),
    ),
    "unknown residual type": Described(
        lambda: ds.FullyImplicitDAE,
        {"level_params": {"residual_type": "full"}},
        ("residual_type 'full'", "full_abs", "last_rel"),
    ),
}


@pytest.mark.parametrize("case", DESCRIBED.values(), ids=DESCRIBED)
@pytest.mark.usefixtures("quiet")
def test_a_mistake_in_a_description_of_pysdc_is_refused_in_the_same_words(case: Described) -> None:
    with pytest.raises(ds.InputError) as error:
        through_pysdc(case.sweeper(), **case.parts)
    text = one_line(str(error.value))
    for part in case.says:
        assert part in text, f"{part!r} is missing in {text!r}"


@pytest.mark.usefixtures("quiet")
def test_a_problem_that_is_no_dae_is_refused_by_name() -> None:
    from pySDC.implementations.problem_classes.TestEquation_0D import testequation0d

    for sweeper in (ds.FullyImplicitDAE, ds.BackwardEulerDAE):
        own = {} if sweeper is ds.BackwardEulerDAE else {"num_nodes": 3}
        with pytest.raises(ds.InputError) as error:
            through_pysdc(sweeper, problem=testequation0d, sweeper_params=own, step_params={"maxiter": 1})
        assert (
            f"{sweeper.__name__} solves a ProblemDAE of dae_sdc, with eval_f(u, du, t); got testequation0d"
            in one_line(str(error.value))
        )


# --- the front door -------------------------------------------------------------------------------


def test_a_name_that_the_package_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError) as error:
        _ = ds.FullyImplicit
    assert "'dae_sdc' has no attribute 'FullyImplicit'" in one_line(str(error.value))


class Decay(ds.ProblemDAE):
    """u' = -u, to be broken in one place at a time."""

    index = 0

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 0, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] + u[0]]

    def u_exact(self, t: float) -> Any:
        return [math.exp(-t)]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"dt": "a"}, "dt must be a number"),
        ({"dt": 0.1j}, "dt must be a number"),
        ({"t0": [0]}, "t0 must be a number"),
        ({"dt": 1e-300, "t_end": 0.001}, "lost in the rounding"),
        ({"t0": 1e17, "t_end": 1e17 + 64, "dt": 1.0, "u0": [1.0]}, "lost in the rounding"),
        ({"hooks": [3]}, "hooks must be"),
        ({"hooks": ds.LogWork}, "hooks must be"),
        ({"controller_params": [1]}, "controller_params must be a mapping"),
        ({"params": "alpha=1"}, "params must be a mapping"),
        ({"convergence_controllers": {1: {}}}, "mapping of classes"),
        ({"restol": "a"}, "restol must be a number"),
        ({"out": 3}, "out must be a text or a path"),
    ],
)
def test_settings_of_a_wrong_type_are_refused_in_one_line(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ds.InputError, match=says) as caught:
        ds.solve(Decay, **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("jacobian", "error", "says"),
    [
        (lambda u: [["a"]], ds.InputError, "must return real numbers"),
        (lambda u: [[1.0], [1.0, 2.0]], ds.InputError, "must return real numbers"),
        (lambda u: np.eye(1) * 1j, ds.InputError, "complex"),
        (lambda u: None, ds.InputError, "object"),
        (lambda u: [[math.sqrt(-1.0)]], ds.EvaluationError, "not defined at t=0"),
        (lambda u: [[1.0 / 0.0]], ds.EvaluationError, "not defined at t=0"),
    ],
)
def test_a_jacobian_that_is_none_is_told(jacobian: Any, error: type[Exception], says: str) -> None:
    class Broken(Decay):
        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            return jacobian(u)

    with pytest.raises(error, match=says):
        linearize(problem := Broken(), problem.state([1.0]), problem.state([-1.0]), 0.0)


def test_an_eval_f_of_an_ordinary_differential_equation_is_refused_where_it_is_defined() -> None:
    with pytest.raises(ds.InputError, match=r"must take \(self, u, du, t\)"):

        class Ordinary(ds.ProblemDAE):
            def eval_f(self, u: Any, t: float) -> Any:
                return -u


def test_an_eval_f_that_raises_blames_no_equation() -> None:
    class Root(ds.ProblemDAE):
        index = 1

        def __init__(self, **settings: Any) -> None:
            super().__init__(1, 1, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [du[0] + 1.0, u[1] - math.sqrt(0.25 - t)]

    solution = ds.solve(Root, u0=[1.0, 0.5], dt=0.1, t_end=0.5, trace=False)
    assert not solution.success
    assert "returned nan at t=" in solution.message


@pytest.mark.parametrize("nodes", [2, 3, 4])
@pytest.mark.parametrize("quad", ["RADAU-RIGHT", "LOBATTO", "GAUSS"])
@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit"])
def test_nodes_with_which_a_multiplier_does_not_converge_are_warned_of(
    sweeper: str, quad: str, nodes: int
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = ds.convergence(
            "hessenberg-3",
            sweeper=sweeper,
            quad=quad,
            nodes=nodes,
            dt=[1 / 8, 1 / 16],
            t_end=1.0,
            restol=1e-9,
            maxiter=200,
        )
    error = result.data["error"][result.data["group"] == "multiplier"]
    warned = any("does not converge" in str(warning.message) for warning in caught)
    # Of order 1 an error halves; where it does not converge it stays or grows.
    assert warned == (error[1] > 0.75 * error[0])


# --- functions and attributes that are right at first, or never


class Switched(Sphere):
    """The sphere, which stays, with a switch that is far away."""

    switch_names = ("far",)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] - 1.0, u[1] * u[1] - 1.0 - u[0] * u[0]]

    def switches(self, u: Any, t: float) -> Any:
        return [u[0] - 5.0]


def divides(*arguments: Any) -> Any:
    return 1 / 0


OF_ITSELF: list[Any] = []
OF_ITSELF.append(OF_ITSELF)

SPOILT: dict[str, tuple[dict[str, Any], str]] = {
    "no row": ({"switches": lambda self, u, t: 10**400}, "switches must return a number for each"),
    "other number": (
        {"switches": lambda self, u, t: [u[0] - 5.0] * (1 + (t > 0.05))},
        r"returned 2 values at t=.* for 1 switches",
    ),
    "other number of sides": ({"sides": lambda self, u, t: (1, 1)}, "sides returned 2 values"),
    "u_exact of no shape": (
        {"u_exact": lambda self, t: [], "du_exact": lambda self, t: [1.0, 0.0]},
        r"has shape \(2,\)",
    ),
    "breakpoints that are none": ({"breakpoints": "ab"}, "breakpoints must be a function"),
    "breakpoints of nan": ({"breakpoints": lambda self, t0, t_end: (math.nan,)}, "nan among its times"),
    "invariants": (
        {
            "invariants": lambda self, u, t: "ab",
            "invariants_jacobian": lambda self, u, t: np.zeros((1, 2)),
            "invariant_names": ("a",),
        },
        "invariants must return a number for each",
    ),
    "slopes of invariants": (
        {
            "invariants": lambda self, u, t: [0.0],
            "invariants_jacobian": lambda self, u, t: np.zeros(2),
            "invariant_names": ("a",),
        },
        "must return a matrix with a column for each unknown",
    ),
    "another number of slopes": (
        {
            "invariants": lambda self, u, t: [0.0],
            "invariants_jacobian": lambda self, u, t: np.zeros((2, 2)),
            "invariant_names": ("a",),
        },
        r"invariants with 1 values .* invariants_jacobian with 2 rows and 1 names",
    ),
    "slopes of nan": (
        {
            "invariants": lambda self, u, t: [0.0],
            "invariants_jacobian": lambda self, u, t: np.full((1, 2), math.nan),
            "invariant_names": ("a",),
        },
        "invariants_jacobian is not finite at the start",
    ),
    "names of switches": ({"switch_names": math.nan}, "switch_names must be a tuple of texts; got nan"),
    "a text for names of switches": ({"switch_names": "a"}, "switch_names must be a tuple of texts"),
    "names of invariants": (
        {
            "invariants": lambda self, u, t: [0.0],
            "invariants_jacobian": lambda self, u, t: np.zeros((1, 2)),
            "invariant_names": (1.0,),
        },
        "invariant_names must be a tuple of texts",
    ),
    "texts for a pattern": ({"sparsity": np.full((2, 2), "a")}, "sparsity must be None or a matrix"),
    "units of no shape": ({"units": np.array(1.0)}, "units must be a tuple"),
    "units of themselves": ({"units": OF_ITSELF}, "units"),
    "what cannot be copied": ({"extra": math}, "cannot be copied for a run"),
}


@pytest.mark.parametrize("settings", [{"dt": 0.1}, {"rtol": 1e-4}])
def test_breakpoints_are_looked_at_with_steps_of_a_fixed_size_too(settings: dict[str, float]) -> None:
    class Stopped(Decay):
        def breakpoints(self, t0: float, t_end: float) -> Any:
            return (math.nan,)

    with pytest.raises(ds.InputError, match="nan among its times"):
        ds.solve(Stopped, t_end=1.0, **settings)


RAISING: dict[str, tuple[Any, type[Exception]]] = {
    "switches": (divides, ZeroDivisionError),
    "start_step": (lambda self, u, t: np.linalg.inv(np.zeros((2, 2))), np.linalg.LinAlgError),
    "u_exact": (lambda self, t: 1.0 / 0.0 * t, ZeroDivisionError),
    "breakpoints": (lambda self, t0, t_end: {}[t0], KeyError),
}


@pytest.mark.parametrize("method", RAISING)
def test_what_a_method_raises_comes_through(method: str) -> None:
    function, error = RAISING[method]
    with pytest.raises(error):
        ds.solve(type("Spoilt", (Switched,), {method: function}), rtol=1e-3, t_end=0.2, u0=[0.0, 1.0])


@pytest.mark.parametrize("name", SPOILT)
def test_what_a_method_returns_is_looked_at_whenever_it_is_called(name: str) -> None:
    changes, message = SPOILT[name]

    def run() -> None:
        made = type("Spoilt", (Switched,), changes)()
        if "extra" in changes:
            made.own = changes["extra"]
        projected = {"project": True} if "invariants" in changes else {}
        ds.solve(made, rtol=1e-3, t_end=0.2, u0=[0.0, 1.0], **projected)

    with pytest.raises(ds.InputError, match=message) as caught:
        run()
    assert "\n" not in str(caught.value)


def test_an_event_that_raises_comes_through_and_a_run_without_a_step_has_none() -> None:
    with pytest.raises(ZeroDivisionError):
        ds.solve(Switched, rtol=1e-3, events=divides)

    class Nowhere(Switched):
        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [1.0 / (t - t), u[1]]

    found = ds.solve(Nowhere, rtol=1e-3, u0=[0.0, 1.0], events=lambda u, t: u[0] - 0.1)
    assert not found.success and len(found.t) == 1


@pytest.mark.parametrize(
    "word",
    [
        word
        for own, others in OTHERS.items()
        for word in others.split()
        if own != "at" and word not in names_of_options(SolveOptions)
    ],
)
def test_a_word_of_another_library_is_answered_with_ours(word: str) -> None:
    own = next(name for name, others in OTHERS.items() if word in others.split())
    with pytest.raises(ds.InputError, match=f"solve has no option '{word}'; {own} is what it takes for that"):
        ds.solve("simple", **{word: 1})
    if own not in inspect.signature(ds.structure).parameters:  # which then has no better answer
        with pytest.raises(ds.InputError, match="unknown option of structure"):
            ds.structure("simple", **{word: 1})
