"""Equations read from residuals in plain Python and NumPy: ds.trace, and what is made of it."""

import itertools
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sparse

import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.model.trace import trace_problem
from dae_sdc.run.equations import read


def problem(residual, n_diff=2, n_alg=2, **attributes):
    """A problem with this eval_f(self, u, du, t), and attributes of the class."""
    own = {"eval_f": residual, "__init__": lambda self, **k: ds.ProblemDAE.__init__(self, n_diff, n_alg, **k)}
    return type("Own", (ds.ProblemDAE,), {**attributes, **own})()


def growth(x, rate):
    return rate * math.exp(x) if rate else 0.0


class Spring:
    """A force of its own class."""

    def __init__(self, stiffness):
        self.stiffness = stiffness

    def force(self, x):
        return self.stiffness * math.sinh(x)


class Pendulum(ds.ProblemDAE):
    """A pendulum with an array of results, index 3, nothing declared."""

    g = 9.81
    interval = (0.0, 1.0)
    names = ("x", "y", "vx", "vy", "lam")

    def __init__(self, length=1.0, **settings):
        super().__init__(n_diff=4, n_alg=1, **settings)
        self.length = length

    def eval_f(self, u, du, t):
        x, y, vx, vy, lam = u
        f = np.zeros(self.n)
        f[0], f[1] = du[0] - vx, du[1] - vy
        f[2:4] = du[2:4] + lam * u[:2]
        f[3] += self.g
        f[4] = x**2 + y**2 - self.length**2
        return f

    def u_exact(self, t):
        return np.array([1.0, 0.0, 0.0, 0.0, 0.0])


def loops(self, u, du, t):
    f = self.f_init
    for i in range(self.n_diff):
        f[i] = du[i] - sum(math.sin(x) for x in u[: i + 1])
    f.alg[:] = u.alg**2 - np.array([u[0], 1.0])
    return f


def choices(self, u, du, t):
    kink = np.where(u[:2] > 0.5, u[:2], u[:2] ** 2 + 0.25)
    bounds = np.array([max(u[2], 0.0), np.minimum(u[3], t)])
    return np.concatenate([du[:2] - kink, bounds + np.clip(u[2:], -1.0, 1.0)])


def matrices(self, u, du, t):
    a = np.array([[2.0, u[0]], [t, 3.0]])
    first = du.diff - a @ u.diff - np.linalg.solve(a, u.alg)
    second = [np.linalg.norm(u) - np.einsum("i,i->", u, u), np.dot(u[:2], u[2:]) + np.linalg.det(a)]
    return np.hstack([first, second])


def sparse_products(self, u, du, t):
    return np.concatenate([du.diff - self.stiff @ u.diff, self.stiff.T.dot(u.alg) - np.cumsum(u.diff)])


def helpers(self, u, du, t):
    w = np.outer(u.alg, u.diff).sum(axis=0) + self.spring.force(u[2]) + growth(u[3], self.rate)
    return np.stack([du[0] - w[0], du[1] - w[1], u[2] + np.hypot(u[0], t), np.mean(u) + math.atan2(u[3], 2)])


def functions(self, u, du, t):
    f = np.empty_like(u)
    f[:2] = du[:2] + np.tanh(u[:2]) * np.expm1(u[2:]) + np.log1p(u[:2] ** 2)
    f[2] = np.arctan2(u[2], 1.0 + u[3] ** 2) + np.abs(u[0]) + np.maximum(u[1], u[2])
    f[3] = np.float64(2.0) * u[3] + u[2] % 1.5 + np.sqrt(1.0 + t) - 2.0 ** u[1]
    return f


TRACED = {
    "loops": problem(loops),
    "choices": problem(choices),
    "matrices": problem(matrices),
    "sparse": problem(sparse_products, stiff=sparse.csr_matrix([[1.0, 2.0], [0.0, 3.0]])),
    "helpers": problem(helpers, spring=Spring(2.0), rate=0.5),
    "functions": problem(functions),
    "lists": problem(lambda self, u, du, t: [du[0] - u[1], du[1] + u[2], u[3] * t, u[2] - u[0]]),
    "pendulum": Pendulum(),
    "kernel": ds.PROBLEMS["robertson"](),
}


@pytest.mark.parametrize("name", TRACED)
def test_equations_are_those_of_the_function(name):
    of_function = TRACED[name]
    model = ds.trace(of_function)
    assert len(model.roots) == of_function.n
    source = np.random.default_rng(3)
    u, du = source.uniform(0.1, 0.9, (2, of_function.n))
    parameters = [parameter.value for parameter in model.parameters_by_name.values()]

    def value(leaf):
        return {"t": [0.3], "p": parameters, "u": (u, du)[leaf.order]}[leaf.kind][leaf.index]

    true = of_function.evaluate(of_function.state(u), of_function.state(du), 0.3)
    assert model.graph.numeric(model.roots, value) == pytest.approx(true, rel=1e-12, abs=1e-14)


def test_attributes_are_parameters_and_can_be_set():
    model = ds.trace(Pendulum, params={"length": 2.0})
    assert {name: p.value for name, p in model.parameters_by_name.items()} == {"g": 9.81, "length": 2.0}
    assert model.names == ("x", "y", "vx", "vy", "lam")
    assert model.variables_by_name["x"].start[0] == 1.0


def test_attributes_that_decide_are_numbers():
    def branches(self, u, du, t):
        return du + self.rate * u if self.friction > 0.0 else du - u

    traced = trace_problem(problem(branches, rate=2.0, friction=0.1))
    assert traced.attributes == ("rate",) and traced.numbers == ("friction",)


def test_names_that_a_model_does_not_take():
    names = ("a b", "a_b", "t", "rate")
    model = ds.trace(problem(lambda self, u, du, t: du + self.rate * u, names=names, rate=1.0))
    assert model.names == ("a_b", "a_b_", "t_", "rate") and model.parameter_names == ("rate_",)


def test_structure_reduction_and_start_of_a_function():
    found = ds.structure(Pendulum)
    assert (found.index, found.dof) == (3, 2)
    assert ds.reduce(Pendulum()).index <= 1
    start = ds.initial(Pendulum, guesses={"x": 0.6, "y": 0.9})
    assert start.values["x"] ** 2 + start.values["y"] ** 2 == pytest.approx(1.0)


def test_problems_in_files(tmp_path: Path):
    path = tmp_path / "own.py"
    path.write_text(
        "import numpy as np\nimport dae_sdc as ds\n\n\nclass Own(ds.ProblemDAE):\n"
        "    def __init__(self, **settings):\n        super().__init__(1, 1, **settings)\n\n"
        "    def eval_f(self, u, du, t):\n        return np.array([du[0] - u[1], u[0] - np.sin(t)])\n"
    )
    assert ds.structure(f"{path}:Own").index == 2
    found = ds.solve(f"{path}:Own", u0=[0.0, 1.0], t_end=0.5, rtol=1e-6)
    assert found.u[-1] == pytest.approx([np.sin(0.5), np.cos(0.5)], abs=1e-6)


def noisy(self, u, du, t):
    return du + u + np.random.default_rng(1).normal()


def rounded(self, u, du, t):
    return du * int(u[0])


def counts(self, u, du, t):
    self.calls = 1
    return du + u


def reads(self, u, du, t):
    return du + np.loadtxt("forces.txt")


TABLE = np.linspace(0.0, 1.0, 5)
CALLS = []
TALLY = {"calls": 0}
SEEN = set()
ONCE = 1.0
COUNT = 0


def counted(self, u, du, t):
    global COUNT
    COUNT += 1
    return du + u


def of_a_closure():
    count = 0

    def counted_inside(self, u, du, t):
        nonlocal count
        count += u[1] < 0.0
        return du + u

    return counted_inside


def tallied_by_name(self, u, du, t):
    TALLY["calls"] += 1
    return du + u


def collected(self, u, du, t):
    SEEN.add(len(SEEN))
    return du + u


def forgotten(self, u, du, t):
    global ONCE
    del ONCE
    return du + u


def recorded(self, u, du, t):
    CALLS.append(t)
    return du + u


def tallied(self, u, du, t):
    self.tally[0] += 1.0
    return du + u


REFUSED = {
    "a number": (rounded, r"test_trace.py:\d+ \('return du \* int\(u\[0\]\)'\) needs a number"),
    "state": (counts, r"\('self.calls = 1'\) sets calls: state that changes between calls"),
    "a counter": (counted, "changes what is outside of it"),
    "a captured counter": (of_a_closure(), "changes what is outside of it"),
    "a list": (recorded, "changes what is outside of it"),
    "a mapping": (tallied_by_name, "changes what is outside of it"),
    "a set": (collected, "changes what is outside of it"),
    "a deleted name": (forgotten, "changes what is outside of it"),
    "an array": (tallied, "changes what is outside of it"),
    "a text": (lambda self, u, du, t: print(t) or du + u, "prints, which equations do not"),
    "a file": (reads, "reads a file"),
    "noise": (noisy, "reads random numbers"),
    "other noise": (lambda self, u, du, t: du + random.random() * u, "reads random numbers"),
    "a table": (lambda self, u, du, t: du + u + np.interp(t, TABLE, TABLE, 0.0), "reads a table"),
    "a buffer": (lambda self, u, du, t: np.add(du, u, out=self.buffer), "into an array of numbers"),
    "too few": (lambda self, u, du, t: du[:3], "returns 3 values for 4 unknowns"),
    "an idle one": (lambda self, u, du, t: [*du[:3], t], "no unknown is in 'equation 3'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_equation_is_refused_with_its_line(name):
    residual, reason = REFUSED[name]
    with pytest.raises(InputError, match=reason) as refused:
        ds.trace(problem(residual, buffer=np.zeros(4), tally=np.zeros(1)))
    assert "\n" not in str(refused.value)


def test_state_that_symbols_do_not_show_is_found_by_calling():
    ticks = itertools.count()

    def changes(self, u, du, t):
        return du + next(ticks) * u

    with pytest.raises(InputError, match="returns other values when it is called again"):
        ds.trace(problem(changes))


def test_nothing_of_the_function_or_its_module_is_changed():
    before = dict(globals()), np.zeros, math.sin
    of_function = TRACED["helpers"]
    ds.trace(of_function)
    assert dict(globals()) == before[0] and (np.zeros, math.sin) == before[1:]
    assert isinstance(growth(0.0, 1.0), float)


# Runs


@pytest.mark.parametrize("rtol", [1e-4, 1e-7, 1e-9])
def test_index_3_with_nothing_declared(rtol):
    solution = ds.solve(Pendulum, rtol=rtol)
    x, y, vx, vy, _ = solution.u[-1]
    assert solution.success and solution.parameters["equations"] == "traced"
    assert 0.5 * (vx**2 + vy**2) + 9.81 * y == pytest.approx(0.0, abs=1e3 * rtol)
    assert x**2 + y**2 == pytest.approx(1.0, abs=10.0 * rtol)


def test_the_index_of_a_problem_and_of_its_unknowns_is_found():
    found = read(Pendulum()).problem
    assert found.index == 3 and found.variable_index == (1, 1, 2, 2, 3)
    assert isinstance(found, Pendulum) and type(found).__name__ == "Pendulum"


def test_a_declared_index_that_is_wrong_is_refused():
    class Wrong(Pendulum):
        index = 2

    with pytest.raises(InputError, match="Wrong declares index 2, but its equations have index 3"):
        ds.solve(Wrong, rtol=1e-6)


def test_parameters_of_a_run_reach_the_equations():
    short, long = (
        ds.solve(Pendulum, u0=[x, 0, 0, 0, 0], params={"length": x}, rtol=1e-6) for x in (1.0, 2.0)
    )
    assert long.success and np.hypot(*long.u[-1, :2]) == pytest.approx(2.0, abs=1e-5)
    assert short.stats["steps"] != 0
    traced = read(Pendulum()).problem
    before = traced.evaluate(traced.state([1.0, 0, 0, 0, 0]), traced.state(np.zeros(5)), 0.0)[4]
    traced.length = 2.0
    after = traced.evaluate(traced.state([1.0, 0, 0, 0, 0]), traced.state(np.zeros(5)), 0.0)[4]
    assert (before, after) == (0.0, -3.0)


def test_index_above_3_is_reduced_by_itself():
    def chain(self, u, du, t):
        return np.append(du[:4] - u[1:], u[0] - np.sin(t))

    solution = ds.solve(problem(chain, 4, 1), u0=[0.0, 1.0, 0.0, -1.0, 0.0], t_end=1.0, rtol=1e-8)
    assert solution.success and "index 5 reduced" in solution.message
    assert solution.u[-1, solution.names.index("u[4]")] == pytest.approx(np.sin(1.0), abs=1e-6)


def test_a_function_that_cannot_be_read_runs_as_it_is():
    def tabulated(self, u, du, t):
        return [du[0] - np.interp(u[0], [0.0, 1.0], [1.0, 2.0], period=9.0), u[1] - u[0]]

    solution = ds.solve(problem(tabulated, 1, 1), u0=[0.0, 0.0], t_end=0.5, rtol=1e-6)
    assert solution.success and "reads a table" in solution.parameters["equations"]
    with pytest.raises(InputError, match="reads a table"):
        ds.solve(problem(tabulated, 1, 1), u0=[0.0, 0.0], t_end=0.5, rtol=1e-6, trace=True)


def test_tracing_is_switched_off():
    def decays(self, u, du, t):
        return [du[0] + u[0], u[1] - u[0]]

    run = {"u0": [1.0, 1.0], "t_end": 0.5, "rtol": 1e-6}
    assert ds.solve(problem(decays, 1, 1), **run).parameters["equations"] == "traced"
    solution = ds.solve(problem(decays, 1, 1), trace=False, **run)
    assert solution.parameters["equations"].startswith("function: trace is switched off")


class Damped(Pendulum):
    def eval_f(self, u, du, t):
        f = super().eval_f(u, du, t)
        f[2] = f[2] + 0.1 * u[2]
        return f


class DampedByName(Pendulum):
    def eval_f(self, u, du, t):
        f = np.array(Pendulum.eval_f(self, u, du, t))
        f[2] += 0.1 * u[2] if isinstance(self, Pendulum) else np.nan
        return f


@pytest.mark.parametrize("inherited", [Damped, DampedByName])
def test_what_a_class_inherits_is_read(inherited):
    model, source = ds.trace(inherited), np.random.default_rng(0)
    u, du, made = source.normal(size=5), source.normal(size=5), inherited()
    traced = read(inherited()).problem
    assert np.allclose(
        traced.evaluate(made.state(u), made.state(du), 0.5), made.eval_f(u, du, 0.5), rtol=1e-14
    )
    assert len(model.roots) == 5


def test_what_a_function_has_changed_is_put_back():
    before = len(CALLS)
    one = problem(recorded)
    with pytest.raises(InputError, match="changes what is outside"):
        ds.trace(one)
    assert len(CALLS) == before


def of_late_times(self, u, du, t):
    if type(t) is float and t > 0.3:  # which a symbol is not
        return [du[0] - 2.0, u[1] - u[0]]
    return [du[0] - 1.0, u[1] - u[0]]


@pytest.mark.parametrize(
    "settings", [{"rtol": 1e-6}, {"dt": 0.1, "sweeper": "edirk4"}, {"t_eval": [0.1, 0.9], "rtol": 1e-4}]
)
def test_equations_are_compared_with_the_function_along_the_run(settings, tmp_path):
    own, out = problem(of_late_times, 1, 1), tmp_path / "run.npy"
    reason = r"solved with the function called: Own.eval_f was read wrongly: 'equation 0' is .* near the"
    called = ds.solve(own, u0=[0.0, 0.0], t_end=1.0, out=out, **settings)
    assert called.success and re.search(reason, called.message) and out.exists()
    if "rtol" in settings:
        assert called.u[-1, 0] == pytest.approx(called.t[-1] + called.t[-1] - 0.3, rel=1e-4)
