"""Branches on values of unknowns and of time: every path is read, and all become one expression."""

import math

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.model.trace import trace_problem
from dae_sdc.run.equations import read


def problem(residual, n_diff=2, n_alg=2, **attributes):
    """A problem with this eval_f(self, u, du, t), and attributes of the class."""
    own = {"eval_f": residual, "__init__": lambda self, **k: ds.ProblemDAE.__init__(self, n_diff, n_alg, **k)}
    return type("Own", (ds.ProblemDAE,), {"interval": (0.0, 10.0), **attributes, **own})()


def flow(x):
    if x > 1.0:
        return math.sqrt(x)
    if x < -1.0:
        return -math.sqrt(-x), "turned"
    return x


def of_one_type(x, limit=1.0):
    if x > limit:
        return math.sqrt(x)
    return -math.sqrt(-x) if x < -limit else x


def pair(x, y):
    return (x, [y, 0.0]) if x < y else (y, [x, 1.0])


def charge(u, i):
    below = u[:2] if u[i] <= 0.0 else 2.0 * u[:2]
    return below * (1.0 if u[2] > u[3] else np.exp(u[3]))


def add_to(f, i, x):
    if x > 0.2:
        f[i] += x
    f[i] += 1.0


def checked(x):
    if x < -1e9:
        raise ValueError("too small")
    return x


def schedule(self, u, du, t):
    level = 0.0
    for corner in range(1, 32):  # as many paths as pieces
        if t > 0.25 * corner:
            level = level + (1.0 if corner % 2 else -1.0)
    return [du[0] - level, du[1] + u[0], u[2] - u[0], u[3] - t]


def pieces(self, u, du, t):
    if u[0] < 0.3:
        level = u[0]
    if 0.3 <= u[0] < 0.6:
        level = 2.0
    if not u[0] < 0.6:
        level = u[0] ** 2
    return [du[0] - level, du[1], u[2], u[3]]


def many_calls(self, u, du, t):
    first, (second, third) = pair(u[2], u[3])
    return [du[0] - sum(of_one_type(5.0 * (x - 0.5)) for x in u), du[1] - first, second - u[0], third - u[3]]


def arrays(self, u, du, t):
    f = np.zeros(4)
    for i in range(4):
        add_to(f, i, u[i] - 0.3)
    f[:2] += du[:2] + charge(u - 0.5, 1)
    return f


def singular(self, u, du, t):
    x = u[0] - 0.4
    ratio = 1.0 if x == 0.0 or t != t else math.sin(x) / x
    return [du[0] - ratio, du[1] + (u[1] if u[1] > 0.5 and t < 9.0 else 0.0), u[2], u[3]]


def of_two_kinds(self, u, du, t):  # one path of `flow` returns something else, which the others do not meet
    return [du[0] - flow(u[0]), du[1], u[2], u[3]]


def indices(self, u, du, t):
    k = 0 if u[0] < u[1] else 1
    return [du[0] - u[k], du[1] - self.rates[k], sorted(u[:3])[1] - u[3], u[2] - 1.0]


PATHS = {
    function.__name__: function for function in (schedule, pieces, many_calls, arrays, singular, indices)
}


@pytest.mark.parametrize("name", PATHS)
def test_all_paths_are_read(name):
    of_function = problem(PATHS[name], rates=(2.0, 3.0))
    traced = trace_problem(of_function)
    assert traced.branches
    source, graph = np.random.default_rng(3), traced.model.graph
    for _ in range(200):
        u, du, t = source.uniform(0.0, 1.0, 4), source.normal(size=4), source.uniform(0.0, 10.0)

        def value(leaf, values=(u, du), time=t):
            return time if leaf.kind == "t" else values[leaf.order][leaf.index]

        true = of_function.evaluate(of_function.state(u), of_function.state(du), t)
        with np.errstate(all="ignore"):
            assert graph.numeric(traced.model.roots, value) == pytest.approx(true, rel=1e-12, abs=1e-13)


def test_jacobians_are_those_of_the_branch_that_is_taken():
    of_function = problem(many_calls)
    found, source = read(problem(many_calls)).problem, np.random.default_rng(0)
    for _ in range(20):
        u, du = source.uniform(0.0, 1.0, 4), source.normal(size=4)
        exact = found.jacobian(found.state(u), found.state(du), 0.0, 1.0)
        ahead, back = (
            [np.array(of_function.eval_f(u + s * e, du + s * e, 0.0)) for e in np.eye(4)]
            for s in (1e-7, -1e-7)
        )
        assert np.allclose(exact, (np.array(ahead) - np.array(back)).T / 2e-7, atol=1e-6)


def newton(self, u, du, t):
    x = u[0]
    while abs(x * x - u[1]) > 1e-10:
        x = x - 0.5 * (x * x - u[1]) / x
    return [du[0] - x, du[1], u[2], u[3]]


def combinations(self, u, du, t):
    f = [du[0], du[1], u[2], u[3]]
    for i in range(6):
        if u[i % 4] > math.sin(i + t):
            f[0] = f[0] + i
    return f


def raises(self, u, du, t):
    return [du[0] - checked(u[0]), du[1], u[2], u[3]]


REFUSED = {
    "a loop that a value ends": (newton, r"\('while .*'\) branches on values in more than 32 ways"),
    "too many": (combinations, r"\('if u\[i % 4\] > .*'\) branches on values in more than 32 ways"),
    "an error": (raises, r"\('raise ValueError.*'\) stops on a path .* \(ValueError: too small\)"),
    "another type": (of_two_kinds, "stops on a path through its branches \\(TypeError"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_expression_is_refused_with_its_line(name):
    residual, reason = REFUSED[name]
    with pytest.raises(InputError, match=reason) as refused:
        ds.trace(problem(residual))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("rtol", [1e-4, 1e-8])
def test_jumps_are_located_as_those_of_models(rtol):
    def heater(self, u, du, t):
        power = 2.0 if u[0] < 0.5 else 0.5
        if t > 1.0:
            power = -power
        return [du[0] - power, u[1] - u[0] ** 2]

    def run(trace):
        return ds.solve(problem(heater, 1, 1), u0=[0.0, 0.0], t_end=1.5, rtol=rtol, trace=trace)

    # 0.5 at t = 0.25, 0.875 at t = 1, and down with 0.5 to 0.625 at t = 1.5
    traced, called = run(None), run(False)
    assert traced.parameters["equations"] == "traced"
    assert traced.u[-1] == pytest.approx([0.625, 0.625**2], rel=1e-9)
    assert called.u[-1] == pytest.approx([0.625, 0.625**2], abs=10.0 * rtol)
    assert 2 * traced.stats["steps"] < called.stats["steps"]
    times = sorted(float(time) for switch in traced.switches for time in switch.t)
    assert times == pytest.approx([0.25, 1.0], abs=1e-9)


def test_multipliers_jump_where_forces_do():
    def pendulum(self, u, du, t):
        x, y, vx, vy, tension = u
        wind = 3.0 if t > 1.0 else 0.0
        drag = 0.2 if vx > 0.0 else 0.5
        forces = [du[2] + tension * x - wind + drag * vx, du[3] + tension * y + 9.81 + drag * vy]
        return [du[0] - vx, du[1] - vy, *forces, x * x + y * y - 1.0]

    start = [1.0, 0.0, 0.0, 0.0, 0.0]
    coarse, fine = (
        ds.solve(problem(pendulum, 4, 1), u0=start, t_end=1.5, rtol=rtol).u[-1] for rtol in (1e-6, 1e-10)
    )
    assert coarse == pytest.approx(fine, rel=1e-5)


def test_borders_behind_others_may_be_undefined():
    def rises(self, u, du, t):
        rate = 1.0
        if u[0] > 0.0 and math.sqrt(u[0]) > 0.5:
            rate = 2.0
        return [du[0] - rate, u[1] - u[0]]

    solution = ds.solve(problem(rises, 1, 1), u0=[-0.5, -0.5], t_end=1.0, rtol=1e-6)
    assert solution.success and solution.u[-1] == pytest.approx([0.75, 0.75], rel=1e-6)


def test_kinks_are_told_from_jumps():
    def kinks(self, u, du, t):
        x, y = u[0], u[1]
        flow = (x - y) * y if x - y > 0.0 else 0.0  # both vanish at the border
        return [du[0] - flow, du[1] - (y if y > 1.0 else y**2)]

    assert [jump.is_kink for jump in read(problem(kinks, 1, 1)).problem.form.jumps.jumps] == [True, True]


def test_a_problem_with_switches_of_its_own_keeps_them():
    def jumps(self, u, du, t):
        return [du[0] - (2.0 if u[0] < 0.5 else 0.5), u[1] - u[0]]

    switching = problem(jumps, 1, 1, switches=lambda self, u, t: (float(u[0]) - 0.5,))
    solution = ds.solve(switching, u0=[0.0, 0.0], t_end=0.5, rtol=1e-6)
    assert solution.parameters["equations"] == "traced" and len(solution.switches) == 1
    assert solution.u[-1] == pytest.approx([0.625, 0.625], rel=1e-6)


def test_an_index_that_only_branches_contradict_leaves_the_function():
    def switched(self, u, du, t):
        return [du[0] - u[1], u[1] - 1.0 if t < 100.0 else u[0]]

    found = read(problem(switched, 1, 1, index=3))
    assert found.origin.startswith("function: ") and "declares index 3" in found.origin
