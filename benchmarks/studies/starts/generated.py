"""Starts of generated DAEs: what is held and guessed is drawn from a line, and what comes back is judged.

Members w_i of a family stand in a row, w = phi(T x): T = I + C couples the unknowns of every second member to
those of its neighbours, phi is x, a square with a second solution, or an exponential function, and is x at
the truth but for a constant. The rows of the other members get those of their neighbours besides. So all
constraints and hidden constraints of x are those of the members at w.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.linalg import block_diag, null_space

import dae_sdc as ds
from benchmarks.measuring.runs import DONE, FAILED, REFUSED, WRONG, Finding
from benchmarks.studies.starts.peers import Square, compared, terms
from benchmarks.studies.truth.draw import Generator, Vector
from benchmarks.studies.truth.generated import FAMILIES, NUMBERS, SYMBOLS, differences
from dae_sdc.errors import DAEError, InputError
from dae_sdc.model.functions import FunctionProblem

COUPLING = 0.25
SAME, SQUARE, EXPONENTIAL = range(3)
LEAST = 0.1  # Part of a direction that must be new for a value to count as free besides others
RANK = 1e-7  # Singular values below this part of the largest are zero


class Chain:
    """Members of a family, and a point where all their equations hold; as they are if not ``mixed``."""

    def __init__(self, family: str, seed: int, count: int = 1, mixed: bool = True) -> None:
        rng = np.random.default_rng([seed, count, 21, *family.encode()])
        self.name = f"{family}-{seed}"
        self.members = [FAMILIES[family](seed + k) for k in range(count)]
        self.t = self.members[0].interval[0]
        ends = np.cumsum([member.n for member in self.members]).tolist()
        self.parts = [slice(end - member.n, end) for member, end in zip(self.members, ends, strict=True)]
        self.n, self.dof = ends[-1], sum(member.dof for member in self.members)
        self.index = max(member.index for member in self.members)
        self.linear = family.startswith(("pencil", "varying"))
        self.pairs, self.rows = self._coupled(rng)
        shape = rng.choice((SAME, SQUARE, EXPONENTIAL), self.n, p=(0.7, 0.15, 0.15))
        shape[[j for j, _ in self.pairs] if mixed else slice(None)] = SAME
        self.square, self.exponential = (np.flatnonzero(shape == kind) for kind in (SQUARE, EXPONENTIAL))
        self.w0 = np.concatenate([member.solution(self.t) for member in self.members])
        self.v0 = self.w0.copy()
        self.v0[self.square] = rng.choice((-1.0, 1.0), len(self.square)) * rng.uniform(0.8, 2.0)
        places = np.arange(self.n)
        self.order, self.row_order = (rng.permutation(places) if mixed else places for _ in range(2))
        self.names = tuple(f"x{j}" for j in range(self.n))
        slopes = np.concatenate([member.slope(self.t) for member in self.members])
        self.u, self.du = (_added(v, self.pairs, -COUPLING)[self.order] for v in (self.v0, slopes))

    def _coupled(self, rng: Generator) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Pairs of unknowns, and of rows of one kind, of neighbours."""
        moved = []  # which rows have derivatives in them
        for member in self.members:
            rows_of = partial(member.residual, member.solution(self.t), t=self.t)
            moved.append(np.abs(differences(rows_of, member.slope(self.t))).max(axis=1) > 0.0)
        unknowns, rows = [], []
        for k in range(1, len(self.members)):
            even, odd = sorted((k - 1, k), key=lambda i: i % 2)
            first, second = self.members[even], self.members[odd]
            at, beside = self.parts[even].start, self.parts[odd].start
            unknowns += [(at + j, beside + j) for j in range(min(first.n_diff, second.n_diff))]
            for j in range(min(first.n, second.n)):
                if moved[even][j] == moved[odd][j] and rng.random() < 0.5:
                    rows.append((beside + j, at + j))
        return unknowns, rows

    def by_name(self, values: Vector) -> dict[str, float]:
        return dict(zip(self.names, values.tolist(), strict=True))

    def bent(self, x: Any, dx: Any, functions: Any = NUMBERS) -> tuple[Any, Any]:
        """The unknowns of the members and their derivatives."""
        back = np.argsort(self.order)
        v, dv = (_added(np.asarray(values)[back], self.pairs, COUPLING) for values in (x, dx))
        w, dw = v.copy(), dv.copy()
        for j in self.square:
            w[j] = float(self.w0[j]) + (v[j] ** 2 - float(self.v0[j]) ** 2) / (2.0 * float(self.v0[j]))
            dw[j] = v[j] / float(self.v0[j]) * dv[j]
        for j in self.exponential:
            grown = functions.exp(v[j : j + 1] - float(self.v0[j]))[0]
            w[j], dw[j] = float(self.w0[j]) + grown - 1.0, grown * dv[j]
        return w, dw

    def residual(self, t: Any, x: Any, dx: Any, functions: Any = NUMBERS) -> Any:
        w, dw = self.bent(x, dx, functions)
        parts = zip(self.members, self.parts, strict=True)
        rows = functions.stack([member.residual(w[part], dw[part], t, functions) for member, part in parts])
        return _added(rows, self.rows, COUPLING)[self.row_order]

    def here(self, x: Any, dx: Any) -> Any:
        return np.asarray(self.residual(self.t, x, dx))

    def _constrained(self, x: Vector) -> list[tuple[Callable[[Vector, float], Vector], Vector]]:
        w, _ = self.bent(x, np.zeros(self.n))
        parts = zip(self.members, self.parts, strict=True)
        return [(member.constraints, w[part]) for member, part in parts if member.constraints is not None]

    def constraints(self, x: Vector, t: float) -> Vector:
        return np.concatenate([constraints(w, t) for constraints, w in self._constrained(x)])

    def slopes(self, x: Vector) -> Vector:
        """Their Jacobian, shape (n - dof, n)."""
        blocks = [differences(lambda v, c=c: c(v, self.t), w) for c, w in self._constrained(x)]
        turn = np.array([self.bent(x, direction)[1] for direction in np.eye(self.n)]).T
        return np.asarray(block_diag(*blocks) @ turn)

    def rates(self, x: Vector, dx: Vector) -> Vector:
        return np.ravel(differences(lambda s: self.constraints(x + s[0] * dx, self.t + s[0]), np.zeros(1)))

    @cached_property
    def moved(self) -> Vector:
        """Which unknowns have a derivative in the equations."""
        slopes = differences(lambda dx: self.here(self.u, dx), self.du)
        return np.asarray(np.abs(slopes).max(axis=0) > 1e-9)

    def free_directions(self, with_rates: bool) -> Vector:
        """A basis of what constraints leave of the values, and of the derivatives besides, as columns."""
        if self.dof == 0:
            return np.zeros((2 * self.n if with_rates else self.n, 0))
        if not with_rates:
            return np.asarray(null_space(self.slopes(self.u), RANK)) if self.dof < self.n else np.eye(self.n)

        def conditions(both: Vector) -> Vector:
            x, dx = both[: self.n], both[self.n :]
            return np.concatenate([self.here(x, dx), self.constraints(x, self.t), self.rates(x, dx)])

        return np.asarray(null_space(differences(conditions, np.concatenate([self.u, self.du])), 1e-6))

    def problem(self, declared: bool) -> ds.ProblemDAE:
        """The DAE as a plain function, or as a class that declares its index."""
        problem = FunctionProblem(lambda t, u, du: self.residual(t, u, du), self.n, self.names)
        if declared:
            problem.index = self.index
        problem.interval = self.members[0].interval
        return problem

    def model(self, guesses: dict[str, float]) -> Any:
        model = ds.Model(self.name, interval=self.members[0].interval)
        unknowns = model.variables(list(self.names), start=[guesses.get(name) for name in self.names])
        slopes = np.array([model.der(x) for x in unknowns], dtype=object)
        model.equations(*self.residual(model.t, np.array(unknowns, dtype=object), slopes, SYMBOLS))
        return model


def _added(values: Any, pairs: list[tuple[int, int]], factor: float) -> Any:
    """Values, to some of which others are added."""
    sums = np.array(values)
    for j, k in pairs:
        sums[j] = sums[j] + factor * values[k]
    return sums


def independent(directions: Vector, places: Vector, most: int) -> list[int]:
    """Places whose values may be chosen together, in the order in which they are tried."""
    rest, chosen = directions.copy(), list[int]()
    for j in places.tolist():
        size = float(np.linalg.norm(rest[j]))
        if len(chosen) < most and size > LEAST:
            chosen.append(j)
            rest -= np.outer(rest @ rest[j], rest[j]) / size**2
    return chosen


FORMS = ("model", "function", "class", "solve", "called")
# What is held: what determines all other values, less, less and nothing but true values, more than can be
DETERMINES, LEAVES, CONTRADICTS, NOTHING = "determines", "leaves", "contradicts", "nothing"
VARIANTS = (DETERMINES, LEAVES, CONTRADICTS, NOTHING)
# Guesses of the other values: the truth with noise of this size, or none
SIZES: Mapping[str, float | None] = {"true": 0.0, "near": 0.01, "off": 0.3, "far": 3.0, "none": None}
BOUNDED = "bounded"
MET = 1e-8  # Part of its terms that may be left of an equation or a constraint
TRUE = 1e-6  # Largest error of values that are determined, relative to 1 + abs(u)
MOVED = 0.05  # Size by which held values differ from the truth where they leave it open
AGAINST = 0.5  # Size by which a value that follows from held ones is held elsewhere
MOST_WITH_RATES = 12  # Unknowns up to which derivatives are held too
PATIENCE = 200.0  # Seconds by the clock that a start may take, on a busy machine
CHAINS = (3, 8, 20, 40)  # Numbers of members of chains


@dataclass
class Given:
    held: dict[str, float]
    guesses: dict[str, float]
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    unique: bool = False  # Whether all other values are proven to be the true ones
    against: str = ""  # The held value that cannot be had besides the others, near the truth at least
    impossible: bool = False  # Whether it cannot be had anywhere
    branch: float = np.inf  # Largest distance from the guesses


def drawn(chain: Chain, variant: str, size: str, bounded: bool, rng: Generator) -> Given:
    n, names = chain.n, [*chain.names, *(f"der({name})" for name in chain.names)]
    with_rates = n <= MOST_WITH_RATES and rng.random() < 0.5
    true = np.concatenate([chain.u, chain.du]).tolist()
    directions = chain.free_directions(with_rates)
    places = np.concatenate([np.arange(n), n + np.flatnonzero(chain.moved)])
    places = rng.permutation(places[: len(directions)])
    if not with_rates:
        places = rng.permutation(n)
    elif rng.random() < 0.5:  # derivatives first
        places = places[np.argsort(places < n, kind="stable")]
    most = chain.dof if variant in (DETERMINES, CONTRADICTS) else 0
    most = int(rng.integers(0, max(chain.dof, 1))) if variant == LEAVES else most
    chosen = independent(directions, places, most)
    given = Given({names[j]: true[j] for j in chosen}, {})
    held, bounds = given.held, given.bounds
    if variant == LEAVES and not bounded:
        held |= {name: value + MOVED * float(rng.standard_normal()) for name, value in held.items()}
    if variant == CONTRADICTS and len(chosen) == chain.dof:
        rest = [j for j in range(n) if j not in chosen]
        if rest:
            j = int(rng.choice(rest))
            given.against = names[j]
            held[names[j]] = true[j] + AGAINST * float(rng.choice((-1.0, 1.0)))
    others = [j for j in range(n) if names[j] not in held]
    two = [j for j in range(n) if chain.order[j] in chain.square]  # with a second solution
    for j in others if bounded else ():
        low, high = (1.0 + abs(true[j])) * rng.uniform(0.2, 1.0, 2)
        bounds[names[j]] = true[j] - float(low), true[j] + float(high)
        if j in two:  # which lies outside
            low, high = sorted((0.2 * true[j], 2.0 * true[j]))
            bounds[names[j]] = low, high
    noise = SIZES[size]
    for j in others if noise is not None else ():
        guess = float(true[j] + noise * (1.0 + abs(true[j])) * rng.standard_normal())
        low, high = bounds.get(names[j], (-np.inf, np.inf))
        given.guesses[names[j]] = min(max(guess, low), high)
    # Values that are consistent are not changed.
    consistent = not given.against and all(value == true[names.index(name)] for name, value in held.items())
    single = chain.linear and all(names[j] in bounds or names[j] in held for j in two)
    determined = single and variant == DETERMINES and len(chosen) == chain.dof
    given.unique = determined or (size == "true" and consistent)
    given.impossible = single and bool(given.against)
    return given


def started(chain: Chain, form: str, given: Given) -> Any:
    """The start in one of the forms: an Initial, or values and what the run says of them."""
    how: dict[str, Any] = {"guesses": given.guesses, "bounds": given.bounds or None, "time_limit": PATIENCE}
    if form in ("solve", "called"):
        problem, trace = chain.problem(False), None if form == "solve" else False
        run: dict[str, Any] = {"rtol": 1e-6, "t_end": chain.t + 1e-3, "t0": chain.t, "trace": trace}
        if given.held and not any(name.startswith("der(") for name in given.held):
            return ds.solve(problem, u0=given.held, **how, **run)
        return ds.solve(problem, fixed=given.held, **how, **run)
    target = chain.model(given.guesses) if form == "model" else chain.problem(form == "class")
    return ds.initial(target, fixed=given.held or None, t0=chain.t, **how)


def judged(chain: Chain, given: Given, start: Any) -> Finding:
    is_run = not hasattr(start, "values") or callable(start.values)
    order = [start.names.index(name) for name in chain.names]
    x = np.asarray(start.u[0] if is_run else start.u, dtype=float)[order]
    values = chain.by_name(x) if is_run else start.values
    if not np.isfinite(x).all():
        return Finding(WRONG, f"values that are no numbers: {x}")
    for name, value in given.held.items():
        if name in values and values[name] != value:
            return Finding(WRONG, f"{name} was held at {value!r}, and is {values[name]!r}")
    for name, (low, high) in given.bounds.items():
        if not low <= values[name] <= high:
            return Finding(WRONG, f"{name} = {values[name]!r} is not within its bounds {low!r}, {high!r}")
    guesses = {**chain.by_name(x), **given.guesses}
    if (distance := max(abs(x[j] - guesses[name]) for j, name in enumerate(chain.names))) > given.branch:
        return Finding(WRONG, f"guesses near a consistent point were left by {distance:.2g}")
    slopes = chain.slopes(x)
    left = np.abs(chain.constraints(x, chain.t)) / (1.0 + np.abs(slopes) @ np.abs(x))
    worst = float(left.max(initial=0.0))
    if worst > MET:
        said = f"constraint {int(left.argmax())} is violated by {worst:.2g} of its terms"
        return Finding(WRONG, said, worst)
    dx = np.full(chain.n, np.nan) if is_run else np.asarray(start.du, dtype=float)[order]
    told = np.isfinite(dx)
    if not is_run and told[chain.moved].all():
        dx = np.where(told, dx, 0.0)
        left = np.abs(chain.here(x, dx)) / (1.0 + terms(chain.here, x, dx))
        worst = max(worst, float(left.max()))
        if left.max() > MET:
            return Finding(WRONG, f"an equation is violated by {left.max():.2g} of its terms", worst)
        sure = ~(np.abs(slopes[:, ~told]) > 1e-12).any(axis=1)
        left = np.abs(chain.rates(x, dx)) / (1.0 + np.abs(slopes) @ (np.abs(x) + np.abs(dx)))
        if left[sure].max(initial=0.0) > 10.0 * MET:
            return Finding(WRONG, f"derivatives violate that of a constraint by {left[sure].max():.2g}")
    off = np.abs(x - chain.u) / (1.0 + np.abs(chain.u))
    if given.unique and off.max() > TRUE:
        j = int(off.argmax())
        return Finding(WRONG, f"{chain.names[j]} is determined, and off by {off[j]:.2g}", float(off.max()))
    return Finding(DONE, "" if off.max() <= TRUE else "another point", worst)


def outcome(chain: Chain, given: Given, ask: Callable[[], Any]) -> Finding:
    """What comes of asking for a start: it is right, or it is refused by a name of what contradicts."""
    try:
        start = ask()
    except DAEError as error:
        if not given.against:
            return Finding(FAILED, str(error))
        named = any(name in str(error) for name in given.held)
        return Finding(REFUSED, str(error)) if named else Finding(FAILED, f"no name is in: {error}")
    if not getattr(start, "success", True):
        return Finding(FAILED, start.message)
    finding = judged(chain, given, start)
    if given.impossible and finding.outcome == DONE:
        held = f"{given.against} = {given.held[given.against]:.6g}"
        return Finding(WRONG, f"{held} contradicts the other held values, and was taken")
    return finding


def plan(rng: Generator, count: int) -> Iterator[str]:
    """Lines of random starts; one of six is a chain."""
    families = [name for name in FAMILIES if not name.startswith("quasi")]  # with known hidden constraints
    for _ in range(count):
        family, seed = str(rng.choice(families)), int(rng.integers(1_000_000))
        if rng.random() < 1.0 / 6.0:
            family += f"*{rng.choice(CHAINS, p=(0.4, 0.3, 0.2, 0.1))}"
        form = str(rng.choice(FORMS, p=(0.3, 0.25, 0.15, 0.2, 0.1)))
        parts = [form, str(rng.choice(VARIANTS, p=(0.45, 0.3, 0.2, 0.05))), str(rng.choice(list(SIZES)))]
        parts += [BOUNDED] if rng.random() < 0.3 else []
        yield ":".join([family, str(seed), *parts])


def repeat(line: str) -> Finding:
    """One start of ``FAMILY`` or, as ``FAMILY*K``, of K members in a row."""
    parts = line.split(":")
    family, seed, form, variant, size = (*parts, "", "", "", "")[:5]
    name, _, count = family.partition("*")
    exists = name in FAMILIES and seed.isdigit() and form in FORMS and variant in VARIANTS and size in SIZES
    if not exists or len(parts) not in (5, 6):
        raise InputError(f"a start is FAMILY:SEED:FORM:HELD:GUESSES or one more, {BOUNDED}; got '{line}'")
    chain, bounded = Chain(name, int(seed), int(count or 1)), len(parts) == 6
    rng = np.random.default_rng([int(seed), 22, *f"{family}{variant}{size}{bounded}".encode()])
    given = drawn(chain, variant, size, bounded, rng)
    square, values = None, np.array([name not in given.held for name in chain.names])
    rates_held = any(name.startswith("der(") for name in given.held)
    many = int(values.sum() + chain.moved.sum())  # values and derivatives that peers look for
    if variant == DETERMINES and chain.index <= 1 and many == chain.n and not rates_held:
        x = np.array([given.held.get(name, given.guesses.get(name, 0.0)) for name in chain.names])
        square = Square(chain.here, x, np.zeros(chain.n), values, chain.moved)
    about = {"n": chain.n, "index": chain.index, "held": len(given.held)}
    return compared(lambda: outcome(chain, given, lambda: started(chain, form, given)), square, about, 1)
