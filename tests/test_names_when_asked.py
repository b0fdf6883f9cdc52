"""Names of unknowns are made when somebody asks for them, and are those that a class or its user gives."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import dae_sdc as ds
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.problems.grids import NavierStokes, TransmissionLine
from dae_sdc.problems.pipes import PipeNetwork


class Plain(ProblemDAE):
    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] + u[0], u[1] - u[0]]


class Named(Plain):
    names = ("level", "flow")


@pytest.mark.parametrize("make", [TransmissionLine, NavierStokes, PipeNetwork, lambda: Plain(1, 1)])
def test_nothing_is_named_unasked(make: Any) -> None:
    problem = make()
    for name in ("names", "units", "equation_names"):
        assert name not in vars(problem)
        made = getattr(problem, name)
        assert len(made) == problem.n and all(isinstance(text, str) for text in made)
        assert getattr(problem, name) is made, "made once"


def test_names_are_what_they_were() -> None:
    line, flow, plain = TransmissionLine(sections=2), NavierStokes(cells=2), Plain(1, 1)
    assert line.names == ("v[1]", "v[2]", "w[1]", "w[2]") and line.units == ("V",) * 4
    assert line.equation_names[2] == "current into the middle of section 1"
    assert flow.names == ("u[1,0]", "u[1,1]", "v[0,1]", "v[1,1]", "p[0,0]", "p[0,1]", "p[1,0]")
    assert flow.units == ("m/s",) * 4 + ("m^2/s^2",) * 3
    assert flow.equation_names[3:5] == ("balance of momentum at v[1,1]", "balance of mass in cell [0,0]")
    pipes = PipeNetwork(rows=1, columns=3)
    assert pipes.names == ("phi_east[0,0]", "phi_east[0,1]", "p[0,2]", "p[0,0]", "p[0,1]")
    assert pipes.units == ("m^3/s",) * 2 + ("Pa",) * 3
    assert pipes.equation_names[1:3] == ("momentum of phi_east[0,1]", "balance of node [0,2]")
    assert plain.names == ("u[0]", "u[1]") and plain.equation_names == ("equation 0", "equation 1")


def test_names_of_a_class_and_of_its_user_count_and_are_checked() -> None:
    assert Named(1, 1).names == ("level", "flow")
    problem = Plain(1, 1)
    problem.names = ["a", "b"]  # type: ignore[assignment]
    assert problem.names == ("a", "b") and copy.copy(problem).names == ("a", "b")
    with pytest.raises(InputError, match="twice"):
        problem.names = ("a", "a")
    with pytest.raises(InputError, match="3 entries for 2"):
        type("Wrong", (Plain,), {"names": ("a", "b", "c")})(1, 1)
    assert type("Empty", (Plain,), {"names": ()})(1, 1).names == ("u[0]", "u[1]")


def test_a_solution_has_the_names() -> None:
    solution = ds.solve("transmission-line", params={"sections": 2}, rtol=1e-3, t_end=0.1)
    assert solution.names == ("v[1]", "v[2]", "w[1]", "w[2]")
