"""The index of equations that are functions, found from their Jacobians."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg as linalg

import dae_sdc as ds
from benchmarks.studies.starts.generated import Chain
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.initial.index import FoundIndex, index_of
from dae_sdc.initial.neighbourhood import Neighbourhood
from dae_sdc.run.equations import read, with_index

MORE_CAREFUL = ("charge-pump", "problematic-f", "water-tube")
"""Problems of which some unknowns are found to have a higher index than is declared."""

DEGENERATE = ("two-bit-adder",)
"""Problems whose system Jacobian is singular, with more unknowns than dense ranks are for."""


@pytest.mark.parametrize("name", ds.PROBLEMS)
def test_the_index_of_the_catalogue_is_found(name: str) -> None:
    problem = ds.PROBLEMS[name]()
    start = problem.interval[0]
    found = index_of(problem, start, np.array(problem.u_exact(start)))
    if name in DEGENERATE:
        assert found is None
        return
    assert found is not None and found.index == problem.index
    if name not in MORE_CAREFUL:
        assert found.of_unknowns == tuple(problem.variable_index)


def scrambled(index: int, seed: int, varying: bool) -> tuple[ProblemDAE, tuple[int, ...]]:
    """Linear equations P (E Q u' + A Q u) = f with chains of derivatives, and the index of each unknown."""
    rng = np.random.default_rng(seed)
    chains = [index, *rng.integers(1, index + 1, 3).tolist()]
    n = 2 + sum(chains)
    nilpotent = linalg.block_diag(*[np.diag(np.ones(size - 1), 1) for size in chains])
    mass = linalg.block_diag(np.eye(2), nilpotent)
    stiffness = linalg.block_diag(rng.normal(size=(2, 2)), np.eye(n - 2))
    rows, unknowns = rng.normal(size=(n, n)), linalg.block_diag(rng.normal(size=(n - 1, n - 1)), 1.0)
    # What a chain holds depends on the derivatives of what comes behind it.
    of_chains = [1, 1, *(size - at for size in chains for at in range(size))]
    back = np.linalg.inv(unknowns)
    of_unknowns = tuple(max(k for k, part in zip(of_chains, row, strict=True) if part != 0.0) for row in back)

    class Scrambled(ProblemDAE):
        def __init__(self, **settings: Any) -> None:
            super().__init__(n, 0, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            factor = 1.0 + 0.3 * np.sin(t + np.arange(n)) if varying else 1.0
            return factor * (rows @ (mass @ (unknowns @ du) + stiffness @ (unknowns @ u))) - np.sin(t)

    return Scrambled(), of_unknowns


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("index", [1, 2, 3, 4])
def test_the_index_of_scrambled_linear_equations_is_found(index: int, varying: bool) -> None:
    for seed in range(8):
        problem, of_unknowns = scrambled(index, seed, varying)
        assert index_of(problem, 0.2, np.ones(problem.n)) == FoundIndex(index, of_unknowns)


@pytest.mark.parametrize("seed", [2, 4, 15])
def test_no_lower_index_is_found_of_equations_mixed_by_the_unknowns(seed: int) -> None:
    chain = Chain("pencil-3", seed)
    problem = ds.FunctionProblem(chain.residual, chain.n)
    problem.interval = chain.t, chain.t + 1.0
    found = index_of(problem, chain.t, problem.state(chain.u))
    assert found is None or found.index == 3


def test_a_kernel_that_turns_is_not_taken_for_a_constant_one() -> None:
    class Turning(ProblemDAE):
        r"""A pencil that is singular for every t, though the equations have one solution (Petzold's)."""

        def __init__(self, **settings: Any) -> None:
            super().__init__(2, 0, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [u[0] + t * u[1] - np.sin(t), du[0] + t * du[1] + 2.0 * u[1]]

    found = index_of(Turning(), 0.3, np.ones(2))
    assert found is None or found.index == 2


def test_unknowns_beside_a_hidden_constraint_keep_their_own_index() -> None:
    class Loop(ProblemDAE):
        """A capacitor across a source, whose current has index 2, and a nonlinear divider beside it."""

        def __init__(self, **settings: Any) -> None:
            super().__init__(3, 0, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            potential, current, divided = u
            return [current + du[0], potential - np.sin(t), divided**3 + divided - potential]

    assert index_of(Loop(), 0.3, np.array([np.sin(0.3), -np.cos(0.3), 0.2])) == FoundIndex(2, (1, 2, 1))


def test_equations_that_determine_nothing_have_no_index() -> None:
    class Twice(ProblemDAE):
        def __init__(self, **settings: Any) -> None:
            super().__init__(1, 1, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [du[0] + u[1], 2.0 * du[0] + 2.0 * u[1]]

    assert index_of(Twice(), 0.0, np.ones(2)) is None


class Pendulum(ProblemDAE):
    """A point on a circle under gravity, with its multiplier: index 3, which is not declared."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(4, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        x, y, v, w, multiplier = u
        return [
            du[0] - v,
            du[1] - w,
            du[2] + x * multiplier,
            du[3] + y * multiplier + 9.81,
            x * x + y * y - 1.0,
        ]


class Scrambled(ProblemDAE):
    """A Hessenberg system of index 2 with its unknowns in any order, all of them called differential."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(3, 0, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        z, a, b = u
        return [a * a * b - 1.0, du[1] - a * b * b * z * z, du[2] - a * a * b * b + 3.0 * b * b * z]


class Perturbed(ProblemDAE):
    """A Hessenberg system of index 3 whose solution is x = sin t."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        x, y, z = u
        return [du[0] - y - 0.1 * (x - np.sin(t)), du[1] - z * (1.0 + x * x), x - np.sin(t)]


SINE = np.array([np.sin(1.0), np.cos(1.0), -np.sin(1.0) / (1.0 + np.sin(1.0) ** 2)])
EXPONENTIALS = np.exp([2.0, 1.0, -2.0])

UNDECLARED: dict[str, tuple[type[ProblemDAE], list[float], Any]] = {
    "index 3": (Perturbed, [0.0, 1.0, 0.0], SINE),
    "scrambled": (Scrambled, [1.0, 1.0, 1.0], EXPONENTIALS),
    "pendulum": (Pendulum, [1.0, 0.0, 0.0, 0.0, 0.0], None),
}


@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("case", UNDECLARED)
def test_a_run_needs_no_declared_index(case: str, rtol: float, trace: bool | None) -> None:
    problem, u0, exact = UNDECLARED[case]
    found = ds.solve(problem, u0=u0, rtol=rtol, t_end=1.0, trace=trace)
    assert found.success and len(found.t) < 40
    told = found.parameters["equations"]
    assert told == "traced" if trace is None else told.endswith("by its Jacobians near the start")
    if exact is None:
        x, y, v, w, _ = found.u[-1]
        assert abs(x * x + y * y - 1.0) <= 10.0 * rtol and abs(v * v + w * w + 2.0 * 9.81 * y) <= 100.0 * rtol
    else:
        assert np.abs(found.u[-1] / exact - 1.0)[:-1].max() <= 10.0 * rtol


def test_what_is_declared_stays() -> None:
    class Declared(Pendulum):
        index = 3

    found = ds.solve(Declared, u0=UNDECLARED["pendulum"][1], rtol=1e-6, t_end=0.1, trace=False)
    assert "Jacobians" not in found.parameters["equations"]


class Guarded(ProblemDAE):
    """An equation that has no meaning for negative values, and starts at 0."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 0, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        if float(u[0]) < 0.0:
            raise RuntimeError("a negative amount")
        return [du[0] - 1.0, u[1] - 2.0 * u[0]]


class Protected(Guarded):
    """Equations of Guarded, whose condition lets symbols pass."""

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        if not hasattr(u[0], "graph") and u[0] < 0.0:
            raise RuntimeError("a negative amount")
        return [du[0] - 1.0, u[1] - 2.0 * u[0]]


def test_a_function_that_raises_beside_the_start_says_so_and_no_more() -> None:
    with pytest.raises(ds.InputError, match=r"stops at a random point near the start \(RuntimeError"):
        ds.trace(Protected)
    found = with_index(read(Guarded(), [0.0, 0.0], False))
    assert found.problem.index is None
    assert "its index is not found (RuntimeError beside the start: 'a negative amount')" in found.origin


def test_a_declared_index_that_is_wrong_is_refused_of_functions_too():
    table = np.linspace(0.0, 2.0, 50)

    def residual(self, u, du, t):  # the table keeps it from being read as equations
        return [du[0] - u[1], u[0] - np.interp(t, table, np.sin(table), period=9.0)]

    wrong = type("Wrong", (ds.ProblemDAE,), {"eval_f": residual, "index": 1})
    with pytest.raises(ds.InputError, match="declares index 1, but its Jacobians near the start have inde"):
        ds.solve(wrong(1, 1), u0=[0.0, 1.0], t_end=0.5, rtol=1e-4)
    right = type("Right", (ds.ProblemDAE,), {"eval_f": residual, "index": 2})
    assert ds.solve(right(1, 1), u0=[0.0, 1.0], t_end=0.5, dt=0.1, trace=False).parameters


def test_an_index_that_changes_on_the_way_is_told():
    def residual(t, u, du):  # index 1 as long as the clipped slope is not 0
        slope = max(0.0, 1.0 - t)
        return [
            du[0] - u[1] + np.interp(t, [0.0, 9.0], [0.0, 0.0]),
            slope * u[1] + u[0] - np.exp(-t) * (1 - slope),
        ]

    found = ds.solve(residual, u0=[1.0, -1.0], t_end=2.0, rtol=1e-4, trace=False)
    assert "the index is 1 near the start, but 2 near t=" in found.message


@pytest.mark.parametrize("saturation", [1e-12, 1e-9, 1e-7, 1e-6])
def test_the_current_of_a_rectifier_has_the_size_that_its_diodes_let_through_at_the_start(
    saturation: float,
) -> None:
    def rectifier(t: Any, u: Any, du: Any) -> list[Any]:
        """A source of 12 V with a capacitor across it, four diodes that leak, and a load."""
        a, b, load, current = u

        def diode(v: Any) -> Any:
            return saturation * (np.exp(v / 0.025) - 1.0) + 1e-3 * v

        inflow = current + 0.49 * (du[0] - du[1])
        return [
            inflow + diode(a - load) - diode(-a),
            -inflow + diode(b - load) - diode(-b),
            11.0 * du[2] + load / 0.94 - diode(a - load) - diode(b - load),
            a - b - 12.0 * np.sin(t),
        ]

    problem = ds.FunctionProblem(rectifier, 4)
    problem.interval = (0.0, 10.0)
    with np.errstate(all="ignore"):
        found, near = index_of(problem, 0.0, np.zeros(4)), Neighbourhood(problem, 0.0, np.zeros(4))
    assert found is not None and (found.index, found.of_unknowns) == (2, (1, 1, 1, 2))
    # The diodes conduct 1e-3 + saturation / 0.025 at 0, and the voltage is at most 12.
    assert near.sizes[3] <= 12.0 * (1e-3 + saturation / 0.025)
