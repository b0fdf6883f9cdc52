"""Absurd tolerances and counts, empty texts and misspelt names are refused with the bound or the names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.errors import InputError
from dae_sdc.options import MOST_TIMES

INF, NAN = float("inf"), float("nan")

REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({"restol": value}, r"restol must be a (finite )?number") for value in (INF, NAN, 1e300, 2.0, -INF)),
    *(({"newton_tol": value}, "newton_tol must be") for value in (INF, NAN, 1e300, 2.0, 0.0, -1.0)),
    *(({"rtol": value, "dt": None}, "rtol must be") for value in (INF, NAN, 1e300, 1.0, 0.0, "1e-3")),
    *(
        ({"rtol": 1e-3, "dt": None, "atol": value}, "atol must be")
        for value in (INF, NAN, 1e300, -1.0, "1e-3", ["1e-3"] * 5, True, None.__class__)
    ),
    *(({"dt": value}, "dt") for value in (INF, NAN, 1e-300, -1.0, 0.0)),
    *(({"rtol": 1e-3, "dt": value}, "dt must be") for value in (INF, NAN, -1.0)),
    ({"dt": 1e-12}, r"at most 1e\+09 can be"),
    ({"maxiter": 10**20}, "maxiter must be at most 100000; got a number of 21 digits"),
    ({"nsweeps": 10**9}, "nsweeps must be at most 100000"),
    ({"points": MOST_TIMES + 1}, "points must be an integer from 2 to 10000000; got 10000001"),
    ({"nodes": 1000}, "num_nodes must be at most 100"),
    ({"steps": 10**8}, "must be at most 10000"),
    ({"params": {"newton_maxiter": 10**9}}, "newton_maxiter must be at most 10000"),
    *(
        ({name: ""}, "unknown|cannot be used")
        for name in (
            "sweeper",
            "quad",
            "qdelta",
            "initial_guess",
            "residual_type",
            "backend",
            "linear_solver",
            "parallel",
        )
    ),
    ({"coarse_nodes": 2, "coarse_qdelta": ""}, "unknown Q_Delta"),
    ({"controller_params": {"mssdc_jak": True}}, "did you mean 'mssdc_jac'"),
    ({"sweeper": "bdf2", "corrector": ""}, "unknown corrector"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=str)
def test_what_makes_no_sense_is_refused_with_one_line(options: dict[str, Any], message: str) -> None:
    given = {"dt": 0.02, "t_end": 0.1, **options}
    with pytest.raises(InputError, match=message) as caught:
        ds.solve("pendulum", **{name: value for name, value in given.items() if value is not None})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--restol", "inf", "--dt", "0.02"],
        ["--restol", "1e300", "--dt", "0.02"],
        ["--newton-tol", "1e999", "--dt", "0.02"],
        ["--rtol", "1e999"],
        ["--rtol", "1e-3", "--atol", "inf"],
        ["--sweeper", "", "--dt", "0.02"],
        ["--qdelta", "", "--dt", "0.02"],
        ["--maxiter", "9" * 20, "--dt", "0.02"],
        ["--nodes", "1000", "--dt", "0.02"],
        ["--steps", "100000000", "--dt", "0.02"],
    ],
    ids=" ".join,
)
def test_the_command_line_refuses_them_with_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", "pendulum", "--t-end", "0.1", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("dae-sdc: ") and error.count("\n") == 1 and "defect" not in error


@pytest.mark.parametrize(
    "level", [{"restol": INF}, {"restol": 1e300}, {"restol": 1e-9, "e_tol": INF}], ids=str
)
def test_descriptions_for_controllers_of_pysdc_are_held_to_the_same(level: dict[str, Any]) -> None:
    description = {
        "problem_class": ds.PROBLEMS["simple"],
        "problem_params": {},
        "sweeper_class": ds.FullyImplicitDAE,
        "sweeper_params": {"num_nodes": 3, "quad_type": "RADAU-RIGHT", "QI": "LU"},
        "level_params": {"dt": 0.1, **level},
        "step_params": {"maxiter": 10},
    }
    controller = controller_nonMPI(1, {"logger_level": 40}, description)
    problem = controller.MS[0].levels[0].prob
    with pytest.raises(InputError, match="must be a finite number"):
        controller.run(u0=problem.state(problem.u_exact(0.0)), t0=0.0, Tend=0.1)


def test_what_makes_sense_is_taken() -> None:
    for options in ({"restol": -1.0, "maxiter": 3}, {"restol": 1e-8, "nodes": np.int64(3)}):
        known = {"mssdc_jac": False}
        assert ds.solve("simple", dt=0.1, t_end=0.2, controller_params=known, **options).success
    assert ds.solve("simple", rtol=1e-3, atol=np.array(1), t_end=0.2).success


LONG = "x" * 10_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ds.solve("simple", rtol=10**400), "rtol is a number of 401 digits, too large for a float"),
        (lambda: ds.solve("simple", rtol=10**5000), "too large for a float"),
        (lambda: ds.solve("simple", rtol=1e-3, t_end=1e-300), "use another time unit"),
        (lambda: ds.accuracy(nodes=10**400), "nodes must be at most 100"),
        (lambda: ds.accuracy(nodes=0), "nodes must be an integer, at least 1"),
        (lambda: ds.accuracy(comm=np.ones(3)), "comm must be a communicator"),
        (lambda: ds.split_communicator(3.0, 1), "comm must be a communicator"),
        (lambda: ds.simplify("pendulum", level=np.ones(2)), "level must be one of trivial"),
        (lambda: ds.drift(case=np.array([])), "name at least one case"),
        (lambda: ds.pendulum_study(sweeper=np.array(["a", "b"])), "unknown sweeper 'a'"),
        (
            lambda: ds.reduce("pendulum", invariants=np.ones(2)),
            "invariant 0 of model pendulum has no unknown",
        ),
        (lambda: ds.reduce("pendulum", invariants={"e": "x**2"}), "is no expression of SymPy"),
        (lambda: ds.structure([[0], [1, 0]]), "a signature matrix has rows of numbers"),
        (lambda: ds.structure(int), "int is no function that returns a model"),
        (lambda: ds.structure(lambda: 1 / 0), "raised ZeroDivisionError"),
        (lambda: ds.load(LONG), "cannot be read: File name too long"),
        (lambda: ds.solve("simple", dt=0.1, out=LONG), "cannot write .*File name too long"),
        (lambda: ds.solve("simple", dt=0.1, out="a\0b"), "no name has a zero byte"),
        (lambda: ds.structure(f"{LONG}.py"), "there is no file"),
    ],
)
def test_what_no_float_file_or_row_can_be_is_refused_in_one_line(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
