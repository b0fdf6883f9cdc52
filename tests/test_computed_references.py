"""Studies against a reference that is computed, where there is no exact solution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.errors import InputError, SolveError
from dae_sdc.plotting.convergence import loglog, semilogy
from dae_sdc.run.convergence import summary


class Relaxation(ds.ProblemDAE):
    """v' = i, i + r v + v^3 = cos t, known at the start alone."""

    index = 1
    names = ("v", "i")
    interval = (0.0, 1.0)
    dt = 0.1

    def __init__(self, r: float = 1.0, **settings: Any) -> None:
        super().__init__(1, 1, **settings)
        self.r = r

    def eval_f(self, u: Any, du: Any, t: float) -> list[Any]:
        return [du[0] - u[1], u[1] + self.r * u[0] + u[0] ** 3 - np.cos(t)]

    def u_exact(self, t: float) -> Any:
        return [1.0, -self.r] if t == 0.0 else super().u_exact(t)


METHOD: dict[str, Any] = {"sweeper": "semi-implicit", "dt": [0.1, 0.05, 0.025, 0.0125]}


def test_orders_are_found_without_an_exact_solution(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no exact solution to compare with .* reference=1e-12 computes one"
    ):
        ds.convergence(Relaxation, nodes=2, **METHOD)
    result = ds.convergence(Relaxation, nodes=[2, 3], reference=1e-12, out=tmp_path / "c", **METHOD)
    assert np.isfinite(result.data["error"]).all()
    assert (np.abs(result.data["slope"] - result.data["expected"]) < 0.15).all()
    (told,) = ds.load(tmp_path / "c.npy").parameters["reference"]
    assert told["problem"] == "Relaxation" and told["rtol"] == 1e-12 and told["sweeper"].startswith("radau")
    assert (
        told["differences"].keys() == {"differential", "algebraic"}
        and max(told["differences"].values()) < 1e-10
    )
    text = summary(result)
    assert "errors of Relaxation are those against a computed reference (radau-iia-13, rtol=1e-12" in text
    assert {axes.get_ylabel() for axes in loglog(result).axes} == {"error against a computed reference [-]"}


def test_errors_below_the_accuracy_of_the_reference_are_left_out_of_orders() -> None:
    result = ds.convergence(Relaxation, nodes=3, reference=1e-7, **METHOD)
    assert result.parameters["at_round_off"] and "at the accuracy of the reference" in summary(result)


def test_a_computed_reference_gives_the_errors_that_the_exact_solution_gives() -> None:
    exact, computed = (
        ds.convergence("hessenberg-2", nodes=2, reference=reference, sweeper="radau-iia-3", dt=[0.1, 0.05])
        for reference in (None, 1e-12)
    )
    assert "reference" not in exact.parameters and "reference" not in summary(exact)
    assert np.allclose(computed.data["error"], exact.data["error"], rtol=1e-3, atol=1e-10)


def test_sweeps_are_compared_with_a_reference_too() -> None:
    settings: dict[str, Any] = {"sweeper": "semi-implicit", "nodes": 3, "maxiter": 6, "dt": 0.1}
    result = ds.iterations(Relaxation, reference=1e-11, params={"r": 2.0}, **settings)
    errors = result.data["error"][result.data["group"] == "differential"]
    assert (errors[1:4] < 0.3 * errors[:3]).all() and len(result.parameters["reference"]) == 1
    assert "computed reference" in semilogy(result).axes[0].get_ylabel()


def test_what_is_no_reference_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="reference must be positive"):
        ds.convergence(Relaxation, reference=0.0, **METHOD)
    with pytest.raises(SolveError, match=r"no reference with rtol=1e-08: .*singularity"):
        ds.convergence("simple", reference=1e-8, sweeper="radau-iia-5", dt=0.1, t_end=2.5)
    command = "convergence hessenberg-1 --nodes 1 --dt 0.5,0.25 --reference 1e-9"
    assert main(command.split()) == 0
    assert "against a computed reference" in capsys.readouterr().out
