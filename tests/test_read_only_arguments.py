"""Functions of users get read-only arguments: what they write to is the memory of the solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.errors import InputError

METHODS = ("radau-iia-5", "fully-implicit", "semi-implicit", "constrained", "esdirk43", "bdf2")


class Decay(ds.ProblemDAE):
    """y' = -y, z = y."""

    index = 1

    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=1, n_alg=1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return np.array([du[0] + u[0], u[1] - u[0]])


def run(problem: Any, sweeper: str = "radau-iia-5", **options: Any) -> Any:
    steps = {"dt": 0.1} if sweeper == "bdf2" else {"rtol": 1e-5}
    return ds.solve(problem, u0=[1.0, 1.0], sweeper=sweeper, t_end=0.5, **steps, **options)


@pytest.mark.parametrize("sweeper", METHODS)
@pytest.mark.parametrize("how", ["whole", "part", "derivative", "in place", "at the end"])
def test_an_eval_f_that_writes_to_an_argument_is_refused_by_name(sweeper: str, how: str) -> None:
    class Writes(Decay):
        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            value = np.array([du[0] + u[0], u[1] - u[0]])
            if how == "whole":
                u[:] = 0.0
            elif how == "part":
                u.diff[0] = 0.0
            elif how == "derivative":
                du[0] = 3.0
            elif how == "in place":
                u *= 0.5
            else:
                np.add(u, 1.0, out=u)
            return value

    with pytest.raises(InputError, match=r"^Writes.eval_f writes to one of its arguments"):
        run(Writes, sweeper)


def test_a_jacobian_and_residual_nodes_that_write_are_refused() -> None:
    class Jacobian(Decay):
        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            du[0] = 1.0
            return np.array([[1.0 + c, 0.0], [-c, c]])

    class Nodes(Decay):
        def residual_nodes(self, u: Any, du: Any, t: Any) -> Any:
            u[:, 0] = 0.0
            return np.stack([du[:, 0] + u[:, 0], u[:, 1] - u[:, 0]], axis=1)

    for cls, name in ((Jacobian, "jacobian"), (Nodes, "residual_nodes")):
        with pytest.raises(InputError, match=f"{cls.__name__}.{name} writes to one of its arguments"):
            run(cls)


def test_switches_starts_of_steps_and_events_that_write_are_refused() -> None:
    class Switch(Decay):
        def switches(self, u: Any, t: float) -> Any:
            u[0] = 0.7
            return [u[0] - 0.8]

    class Starts(Decay):
        def start_step(self, u: Any, t: float) -> None:
            u[0] = 2.0

    def event(u: Any, t: float) -> float:
        u[0] -= 0.8
        return float(u[0])

    for cls, name in ((Switch, "switches"), (Starts, "start_step")):
        with pytest.raises(InputError, match=f"{cls.__name__}.{name} writes to one of its arguments"):
            run(cls)
    with pytest.raises(InputError, match="event 'event' writes to one of its arguments"):
        run(Decay, events=event)


def test_parts_of_quasilinear_equations_that_write_are_refused() -> None:
    class Circle(ds.QuasiLagrangeProblem):
        def __init__(self, **settings: Any) -> None:
            super().__init__(n=2, m=1, **settings)

        def A(self, t: float, q: Any, v: Any) -> Any:
            return np.eye(2)

        def h(self, t: float, q: Any, v: Any) -> Any:
            q[0] = 0.0
            return np.array([0.0, -9.81])

        def g(self, t: float, q: Any) -> Any:
            return np.array([q @ q - 1.0])

    with pytest.raises(InputError, match=r"Circle\.h writes to one of its arguments"):
        problem = Circle()
        ds.solve(problem, u0=problem.consistent(0.0, [1.0, 0.0], [0.0, 0.0]), rtol=1e-5, t_end=0.1)


def test_a_residual_kernel_that_writes_to_an_argument_is_refused() -> None:
    class Compiled(ds.ProblemDAE):
        index = 1

        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=1, n_alg=1, **settings)

        @staticmethod
        def residual_kernel(t: Any, u: Any, du: Any, p: Any, out: Any) -> None:
            out[0] = du[0] + u[0]
            out[1] = u[1] - u[0]
            u[0] = 0.0

    with pytest.raises(InputError, match="residual_kernel of Compiled writes to its argument u"):
        run(Compiled)


def test_arguments_can_be_written_to_again_behind_a_call_and_results_may_be_views() -> None:
    class Same(Decay):
        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            self.last = u
            return du + u[::-1] * 0.0 + np.array([u[0], u[1] - u[0] - du[1]])

    solution = run(Same)
    assert solution.success, solution.message
    problem = Same()
    u, du = problem.state([1.0, 1.0]), problem.state([0.0, 0.0])
    problem.eval_f(u, du, 0.0)
    u[0] = 2.0
    assert problem.last[0] == 2.0
