"""All unknowns of the user, also eliminated ones, and functions and expressions of their names in texts."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dae_sdc.arguments import shown
from dae_sdc.control.events import NO_MOMENT, Event
from dae_sdc.dae.branches import INITIAL, MESSAGE, TIE
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.initial.given import Condition, is_pattern, matched
from dae_sdc.registry import unknown
from dae_sdc.sharing import one_at_a_time

if TYPE_CHECKING:
    from dae_sdc.model.simplified import Simplified


Jet = tuple[str, int]  # Name of an unknown and order of a derivative.
Jets = Mapping[Jet, Vector]  # Their values at all points, each of shape (K,).
MOST_ENTRIES = 2_000_000  # Largest number of entries of the matrices that are solved at once.

MOST_ITERATIONS = 12

CORRECTION_TOLERANCE = 1e-13  # Correction, relative to 1 + the value, at which Newton's method has converged.
# Largest last correction with which a value is accepted, as rounding errors may prevent convergence.
ACCEPTED_CORRECTION = 1e-8


class Unknowns:
    """All unknowns of a model from the states of the simplified one."""

    # Values in the state are taken from there, and other derivatives are computed by the equations: stage s
    # of the Sigma-method solves the derivatives c_i + s of the equations for those of order d_j + s of the
    # unknowns. If the system Jacobian is singular, derivatives are those of the solution.
    # J. D. Pryce: A simple structural analysis method for DAEs, BIT 41 (2001), section 4.

    def __init__(self, simplified: Simplified, parameters: Mapping[str, float]) -> None:
        self.simplified = simplified
        self.parameters = dict(parameters)
        self.names: tuple[str, ...] = simplified.original.names
        self._known: tuple[Any, dict[Jet, Vector]] | None = None
        self._needed: dict[str, set[Jet]] = {}  # What must be known for unknowns and derivatives.

    def __deepcopy__(self, memo: Any) -> Unknowns:
        return self  # its cache belongs to no run

    @property
    def removed(self) -> tuple[str, ...]:
        """Names of the unknowns that the simplified model does not have."""
        return tuple(self.simplified.map)

    @property
    def units_of_removed(self) -> tuple[str, ...]:
        """Units of the removed unknowns."""
        return tuple(self.simplified.original.variables_by_name[name].unit for name in self.simplified.map)

    @one_at_a_time
    def values(self, name: str, t: Vector, u: Vector, du: Vector, entries: Sequence[str]) -> Vector:
        """Values of an unknown, or of a derivative."""
        # Shapes: t (K,), u and du (K, n) -> (K,).
        base, _ = name_and_order(name)
        if base not in self.names:
            raise InputError(unknown(f"name in model {self.simplified.original.name}", base, self.names))
        if name not in self._needed:
            self._needed[name] = self.simplified.needed(name)
        needed = self._needed[name]
        jets = self._jets(needed, t, u, du, entries)
        missing = sorted(needed - jets.keys())
        if missing:
            raise InputError(
                f"{name} of model {self.simplified.original.name} needs {name_of(*missing[0])}, which its "
                f"equations do not tell from the state; solve without simplify"
            )
        values = self._evaluate(name, lambda *jet: jets[jet], t)
        return np.broadcast_to(values, np.shape(t)).astype(np.float64)

    def _jets(
        self, needed: Iterable[Jet], t: Vector, u: Vector, du: Vector, entries: Sequence[str]
    ) -> dict[Jet, Vector]:
        """Values of unknowns and derivatives, with the needed ones if they are determined."""
        if self._known is None or self._known[0] is not u:
            names, jets = set(self.simplified.model.names), enumerate(map(name_and_order, entries))
            self._known = u, {jet: u[:, at] for at, jet in jets if jet[0] in names}
        known = self._known[1]
        missing = [jet for jet in needed if jet not in known]
        if not missing:
            return known
        jets = enumerate(map(name_and_order, entries))
        rates = {(name, order + 1): du[:, at] for at, (name, order) in jets}
        c, d = self._offsets
        if c:
            orders = dict(zip(self.simplified.model.names, d, strict=True))
            last = max(order - orders[name] for name, order in missing)
            known.update(self._derivatives(max(0, last), t, known, rates))
        for jet in missing:
            if jet in rates and (jet not in known or not np.isfinite(known[jet]).all()):
                values = known.get(jet, rates[jet])
                known[jet] = np.where(np.isfinite(values), values, rates[jet])
        return known

    @cached_property
    def _evaluate(self) -> Callable[..., Vector]:
        return self.simplified.evaluator(self.parameters)

    @cached_property
    def _offsets(self) -> tuple[list[int], list[int]]:
        """Those of the equations and unknowns; empty where the system Jacobian is singular."""
        from dae_sdc.structure.analysis import structure

        analysed = structure(self.simplified.model, differentiation=False)
        return (analysed.c.tolist(), analysed.d.tolist()) if analysed.regular else ([], [])

    def _derivatives(self, last: int, t: Vector, known: Jets, rates: Jets) -> dict[Jet, Vector]:
        """Values of the derivatives up to order d_j + last; NaN where they cannot be computed."""
        c, d = self._offsets
        names, size = self.simplified.model.names, max(1, MOST_ENTRIES // max(1, len(c)) ** 2)
        parts = []
        for begin in range(0, len(t), size):
            rows = slice(begin, begin + size)
            before = {jet: values[rows] for jet, values in known.items()}
            guesses = {jet: values[rows] for jet, values in rates.items()}
            computed: dict[Jet, Vector] = {}
            for s in range(-max(c), last + 1):
                jets = [(names[j], order + s) for j, order in enumerate(d) if order + s >= 0]
                equations = [(i, order + s) for i, order in enumerate(c) if order + s >= 0]
                # The last stages are square; in earlier ones, values of the state are not changed.
                jets = [jet for jet in jets if s >= 0 or jet not in before]
                if jets:
                    values = self._stage(equations, jets, t[rows], {**before, **computed}, guesses)
                    computed.update(zip(jets, values, strict=True))
            parts.append({jet: values for jet, values in computed.items() if jet not in before})
        return {jet: np.concatenate([part[jet] for part in parts]) for jet in parts[0]}

    def _stage(
        self, equations: Sequence[tuple[int, int]], jets: Sequence[Jet], t: Vector, known: Jets, guesses: Jets
    ) -> Vector:
        """Values of jets by Newton's method at all points, shape (jets, K)."""
        from dae_sdc.jets.graph import GraphJets, differentiated

        model, every = self.simplified.model, list(dict.fromkeys([*jets, *known]))
        index = {name: j for j, name in enumerate(model.names)}
        place = {(index[name], order): at for at, (name, order) in enumerate(every)}
        given = model.parameters_by_name.items()
        parameters = np.array([self.parameters.get(name, entry.value) for name, entry in given], dtype=float)
        rows = [(model.roots[i], order) for i, order in equations]
        stage = GraphJets(differentiated(model.graph, model.roots), rows, place, {"p": parameters})
        count, zero = len(jets), np.zeros(len(t))
        x = np.array([known.get(jet, guesses.get(jet, zero)) for jet in every])
        own = x[:count]
        own[~np.isfinite(own)] = 0.0
        # Equations without an unknown of the stage are satisfied by the stages before.
        for _ in range(MOST_ITERATIONS):
            change = _solved(stage.dense(x, range(count), t=t), stage.values(x, t=t).T).T
            own -= change
            settled = np.abs(change) <= CORRECTION_TOLERANCE * (1.0 + np.abs(own))
            if settled[np.isfinite(change)].all():
                break
        return np.where(np.abs(change) <= ACCEPTED_CORRECTION * (1.0 + np.abs(own)), own, np.nan)


@dataclass(frozen=True, eq=False)
class SavedUnknowns:
    """The eliminated unknowns of a solution that was read from a file, at the times in the file only."""

    removed: tuple[str, ...]  # Their names.
    units_of_removed: tuple[str, ...]
    # t, table: shape (K,) and (K, m). Times, and values at them.
    t: Vector
    table: Vector
    # Arrays of values between the steps, by name, for pictures.
    samples: Mapping[str, Vector] = field(default_factory=dict)

    def values(self, name: str, t: Vector, entries: Sequence[str]) -> Vector:
        """Values of an eliminated unknown at times t, shape (K,); ``entries`` are names for the message."""
        if name not in self.removed:
            raise InputError(unknown("name", name, (*entries, *self.removed)))
        if not np.array_equal(t, self.t):
            raise InputError(
                f"{name} was eliminated, and its values are saved at the times of the file alone; solve "
                f"again, with t_eval"
            )
        return self.table[:, self.removed.index(name)].copy()

    def interpolated(self, name: str, t: Vector) -> Vector:
        """Values of an eliminated unknown by straight lines between what the file has, shape (K,)."""
        times, table = self.samples.get("sample_times", self.t), self.samples.get("samples", self.table)
        return np.interp(t, times, table[:, self.removed.index(name)])


def _solved(matrix: Vector, rhs: Vector) -> Vector:
    """Solutions of many linear systems, by least squares where they are not square or are singular."""
    scale = np.abs(matrix).max(axis=2, initial=0.0)
    scale = np.where(scale > 0.0, scale, 1.0)
    rows, right = matrix / scale[:, :, None], rhs / scale
    finite = np.isfinite(rows).all(axis=(1, 2)) & np.isfinite(right).all(axis=1)
    solutions = np.full((len(rhs), matrix.shape[2]), np.nan)
    rows, right = rows[finite], right[finite, :, None]
    if matrix.shape[1] == matrix.shape[2]:
        with suppress(np.linalg.LinAlgError):  # at one point or more
            solutions[finite] = np.linalg.solve(rows, right)[:, :, 0]
            return solutions
    with suppress(np.linalg.LinAlgError):  # the singular values did not converge
        solutions[finite] = (np.linalg.pinv(rows, rcond=1e-12) @ right)[:, :, 0]
    return solutions


# Functions by the names that expressions may call.
_OF_NUMPY = "sin cos tan sinh cosh tanh exp log log10 arcsin arccos arctan arctan2 sqrt abs"
FUNCTIONS: Mapping[str, Any] = {
    **{name: getattr(np, name) for name in _OF_NUMPY.split()},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "atan2")},
    **{"min": min, "max": max, "sign": np.sign, "floor": np.floor, "ceil": np.ceil},
}

MOST_FIXED_ORDERS = 4  # Number of derivatives of an unknown, from 0 on, that a fixed expression may have.
# Functions of SymPy with names of their own.
_ARCS = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2"}
SYMPY: Mapping[str, str] = {"abs": "Abs", "min": "Min", "max": "Max", "ceil": "ceiling", **_ARCS}

CONSTANTS: Mapping[str, float] = {"pi": float(np.pi), "e": float(np.e)}

TIME = ("time", "t")  # Names of the time, where no unknown or parameter is called so.
# Parameters of every problem, which are none of its equations.
SETTINGS_OF_SOLVES = ("newton_tol", "newton_maxiter")

_WORDS = ("terminal", "rising", "falling", "implicit", "otherwise", "success", "lasting")
_PARTS = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Load),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod, ast.UAdd, ast.USub),
)
# Parts of conditions, and of the choice of a value by a condition.
_CONDITIONS = (
    *(ast.Compare, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq),
    *(ast.BoolOp, ast.And, ast.Or, ast.Not, ast.IfExp),
)
# What may stand in parentheses, with others in them.
_INSIDE = reduce(lambda inside, _: rf"(?:[^()]|\({inside}\))*", range(6), "[^()]*")
# What holds at moments alone.
_MOMENT = re.compile(rf"(?<![\w.])(?:initial\(\)|terminal\(\)|sample\({_INSIDE}\))")
_SAMPLE = re.compile(r"sample\((.*),(.*)\)")
_CHANGE = re.compile(rf"(?<![\w.])(edge|change)\(({_INSIDE})\)")
# Conditions that a Boolean, or a number, has not the value that it had.
_CHANGES = {"edge": "({0} > 0.5 and not pre({0}) > 0.5)", "change": "({0} > pre({0}) or {0} < pre({0}))"}
_CLOSE = 1e-12  # Relative distance of a time from a moment that is rounding.
BESIDE = "beside"  # The event before it, in place of a condition.
_AT_EVENTS = re.compile(r"(?<![\w.])(?:pre|edge|change)\(")
_ONLY = "if "  # How what else must hold at an event begins.
MOST_SAMPLES = 10_000_000
_PLACE = "u__{}"
_OR_TIE = "u__or_tie"  # Name of the function that gives a distance, or where it is 0 that of a tie.


class During(NamedTuple):
    """The run in which texts of events are read: its interval, and what is known of unknowns in it."""

    t0: float = math.nan
    t_end: float = math.nan
    stays: Mapping[str, float] = {}  # Values of unknowns that stay.
    constant: Collection[str] = ()  # Names of those that events alone change.

    def moments(self, text: str, problem: ProblemDAE) -> Callable[..., list[float]]:
        """The times in an interval at which what holds at moments alone holds."""
        if (sample := _SAMPLE.fullmatch(text)) is None:
            moment = self.t0 if text == INITIAL else self.t_end
            return lambda t0, t_end: [moment] if t0 <= moment <= t_end else []
        start, period = (_constant(part, problem, text, self.stays) for part in sample.groups())
        if not period > 0.0:
            raise InputError(f"event '{text}' has the period {period:g}; give a positive one")

        def times(t0: float, t_end: float) -> list[float]:
            first, last = (math.floor((t - start) / period) for t in (t0, t_end))
            if last - first > MOST_SAMPLES:
                raise InputError(
                    f"event '{text}' happens more than {MOST_SAMPLES} times; give a longer period"
                )
            every = [start + period * number for number in range(max(0, first), max(0, last + 2))]
            return [time for time in every if t0 <= time <= t_end]

        return times


def events_of(given: Any, problem: ProblemDAE, unknowns: Unknowns | None, during: During) -> Any:
    """Events as :func:`dae_sdc.control.events.as_events` takes them, with functions in place of texts."""
    if not isinstance(given, Sequence):
        return given
    several = (given,) if isinstance(given, str) else given
    return tuple(_event(one, problem, unknowns, during) if isinstance(one, str) else one for one in several)


def _event(text: str, problem: ProblemDAE, unknowns: Unknowns | None, during: During) -> Event:
    known = problem, unknowns, during
    text, _, message = text.partition(MESSAGE)
    expression, *parts = text.rstrip("; ").split(";")
    terminal, direction, words = 0, 0.0, list[str]()
    # New values by name, which may depend on each other where they are implicit; those behind ":=" follow.
    values: dict[str, Callable[..., float]] = {}
    others: dict[str, Callable[..., float]] = {}
    only: list[Callable[..., float]] = []  # What else must hold.
    for part in parts:
        name, assigns, value = (word.strip() for word in part.partition("="))
        chosen = others if name.endswith(":") else values
        name = name.removesuffix(":").strip()
        if part.lstrip().startswith(_ONLY):
            only.append(function_of(part.strip()[len(_ONLY) :], *known))
        elif not assigns or name.split()[-1:] in ([word] for word in _WORDS):
            words += part.replace(",", " ").split()
        elif name in problem.names:
            chosen[name] = function_of(value, *known)
        elif unknowns is not None and name in unknowns.removed:
            base, chosen_value = _through(name, value, text, problem, unknowns, during)
            chosen[base] = chosen_value
        else:
            raise InputError(unknown(f"unknown that event '{text}' changes", name, problem.names))
    for word in words:
        name, _, number = word.partition("=")
        if name not in _WORDS or (number and not (name == "terminal" and number.isdigit())):
            raise InputError(
                f"after the semicolon of event '{text}' there may be terminal, terminal=2, rising, "
                f"falling, implicit or otherwise, not '{word}', changes such as x = 0.5*x, and if x > 1"
            )
        if name == "terminal":
            terminal = int(number or 1)
        elif name in ("rising", "falling"):
            direction = 1.0 if name == "rising" else -1.0
    expression, is_implicit, every = expression.strip(), "implicit" in words, values | others
    function = function_of("1" if expression == BESIDE else expression, *known, "event")
    if function.holds and direction:
        raise InputError(
            f"event '{text}' happens where its condition begins to hold; leave rising and falling out"
        )
    at_moments = _MOMENT.findall(expression)
    judged = function.holds and (is_implicit or bool(at_moments or _AT_EVENTS.search(expression)))
    direction = -1.0 if function.holds and "lasting" not in words else direction

    def change(u: Any, t: float) -> dict[str, float]:
        return {name: value(u, t) for name, value in every.items()}

    def implicit(u: Any, t: float, before: Any) -> tuple[dict[str, float], ...]:
        return tuple({name: f(u, t, before) for name, f in part.items()} for part in (values, others))

    acts: Any = implicit if is_implicit else change
    acts.depends = any(getattr(value, "depends", True) for value in every.values())
    acts, otherwise = acts if every else None, "otherwise" in words
    about: dict[str, Any] = {"beside": expression == BESIDE, "success": "success" in words}
    if only:
        about["only"] = lambda u, t, before: all(holds(u, t, before) > 0.0 for holds in only)
    moments = [during.moments(moment, problem) for moment in at_moments]

    def times(t0: float, t_end: float) -> list[float]:
        return sorted({time for each in moments for time in each(t0, t_end)})

    about |= {"judged": judged, "ceases": "lasting" in words, "at_start": INITIAL in at_moments}
    about["located"] = expression != BESIDE and not (judged and function.is_constant)
    about["several"] = getattr(function, "several", None)
    timing = (is_implicit, otherwise, times if moments else None, message.strip())
    return Event(function, terminal, direction, expression, acts, *timing, **about)


def _constant(text: str, problem: ProblemDAE, event: str, stays: Mapping[str, float]) -> float:
    """The value of an expression of numbers, parameters, and unknowns with values that stay in a run."""
    value: float = function_of(text, problem)([stays.get(name, np.nan) for name in problem.names], np.nan)
    if not np.isfinite(value):
        raise InputError(f"'{text.strip()}' in event '{event}' has no value; give numbers or parameters")
    return value


def _through(
    name: str, text: str, event: str, problem: ProblemDAE, unknowns: Unknowns, during: During
) -> tuple[str, Callable[..., float]]:
    """The unknown of the state that an eliminated one is a multiple of, and its value for one of that."""
    current, ones = function_of(name, problem, unknowns), np.ones(problem.n)
    slopes = np.array([current(ones + row, 0.0) - current(ones, 0.0) for row in np.eye(problem.n)])
    among = [problem.names[j] for j in np.flatnonzero(slopes)]
    if len(among) != 1 or not np.isfinite(slopes).all():
        raise InputError(
            f"event '{event}' changes '{name}', which was eliminated and follows from "
            f"{', '.join(among) or 'derivatives'}; change these, or leave simplify out"
        )
    (j,), value = np.flatnonzero(slopes), function_of(text, problem, unknowns, during)
    return among[0], lambda u, *more: float(u[j] + (value(u, *more) - current(u, *more)) / slopes[j])


def function_of(
    text: str,
    problem: ProblemDAE,
    unknowns: Unknowns | None = None,
    during: During | None = None,
    use: str = "value",
) -> Any:
    """The function f(u, t, before, slack) of an expression, with values before an event and moments.

    Without a state ``before`` these are those of u, and without ``slack``, the distance of times that is
    rounding, events have no moments. With the use "event" a condition holds where it is negative.
    """
    removed, during = () if unknowns is None else unknowns.removed, during or During()
    numbers = _parameters(problem)
    code = _CHANGE.sub(lambda found: _CHANGES[found[1]].format(found[2]), text)
    moments = {each: during.moments(each, problem) for each in _MOMENT.findall(code)}
    known = [*problem.names, *removed, *(name for name in numbers if name not in problem.names)]
    known += [f"pre({name})" for name in known]
    code = _MOMENT.sub(r"(\g<0> > 0.5)", code)
    compiled, places, holds = compiled_expression(code, [*known, *moments], f"event {shown(text)}", use)
    place_of = {name: at for at, name in enumerate(problem.names)}

    def value(name: str, u: Any, t: float, before: Any, slack: float) -> Any:
        if name in moments:
            return float(len(moments[name](t - slack, t + slack)) > 0)
        if name[:4] == "pre(" and name not in place_of:
            return value(name[4:-1], before, t, before, slack)
        return u[place_of[name]] if name in place_of else numbers[name]

    def column(name: str, u: Vector, t: Vector, before: Vector, slack: float) -> list[Any]:
        if name[:4] == "pre(" and name not in place_of:
            return column(name[4:-1], before, t, before, slack)
        if unknowns is not None and name in removed:
            return list(unknowns.values(name, t, u, np.full(u.shape, np.nan), problem.names).tolist())
        return [value(name, row, at, row, slack) for row, at in zip(u, t.tolist(), strict=True)]

    def number(values: Sequence[Any], t: float) -> float:
        try:
            return float(evaluated(compiled, values, t))
        except ArithmeticError:
            return float("nan")

    def several(u: Vector, t: Vector, before: Vector | None = None, slack: float = NO_MOMENT) -> Vector:
        columns = [column(name, u, t, u if before is None else before, slack) for name in places]
        return np.array([number(row, at) for *row, at in zip(*columns, t.tolist(), strict=True)])

    def function(u: Any, t: float, before: Any = None, slack: float | None = None) -> float:
        slack = (NO_MOMENT if use == "event" else _CLOSE * abs(t)) if slack is None else slack
        if not reads_removed:
            return number([value(name, u, t, u if before is None else before, slack) for name in places], t)
        row = np.array(u, dtype=float)[None]
        row_before = row if before is None else np.array(before, dtype=float)[None]
        return float(several(row, np.array([t]), row_before, slack)[0])

    own: Any = function
    own.holds = holds  # whether it is the condition of an event
    inner = [name[4:-1] if name[:4] == "pre(" and name not in place_of else name for name in places]
    reads_removed = any(name in removed for name in inner)
    if reads_removed:
        own.several = several
    else:
        own.reads = [place_of[name] for name in inner if name in place_of]
    own.depends = any(name not in numbers and name not in moments and name[:4] != "pre(" for name in places)
    moving = {*inner} - {*numbers, *moments, *during.constant}
    own.is_constant = not moving and not {*TIME} & {*compiled.co_names}
    try:
        function(np.ones(problem.n), 0.0)
    except (TypeError, NameError) as error:
        raise InputError(f"event {shown(text)} cannot be evaluated: {error}") from None
    return function


def _distance(condition: ast.expr) -> ast.expr:
    """An expression that is negative where a condition of comparisons holds, continuous as its sides."""
    # Where two sides are equal, as numbers of events may be, it is TIE away.
    if isinstance(condition, ast.BoolOp):
        name = ast.Name("max" if isinstance(condition.op, ast.And) else "min", ast.Load())
        return ast.Call(name, [_distance(part) for part in condition.values], [])
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        return ast.UnaryOp(ast.USub(), _distance(condition.operand))
    if not isinstance(condition, ast.Compare) or any(type(op) in (ast.Eq, ast.NotEq) for op in condition.ops):
        return ast.BoolOp(ast.And(), [condition])  # refused with its name where all of it is checked
    sides = [condition.left, *condition.comparators]
    parts: list[ast.expr] = []
    for sign, left, right in zip(condition.ops, sides, sides[1:], strict=False):
        less = isinstance(sign, ast.Lt | ast.LtE)
        distance = ast.BinOp(left if less else right, ast.Sub(), right if less else left)
        tie = ast.Constant(TIE if isinstance(sign, ast.Lt | ast.Gt) else -TIE)
        parts.append(ast.Call(ast.Name(_OR_TIE, ast.Load()), [distance, tie], []))
    return parts[0] if len(parts) == 1 else ast.Call(ast.Name("max", ast.Load()), parts, [])


def evaluated(code: Any, values: Sequence[Any], t: Any = np.nan) -> Any:
    """The value of an expression, by its code, for values of the names in it."""
    names: dict[str, Any] = {_PLACE.format(at): value for at, value in enumerate(values)}
    names[_OR_TIE] = lambda distance, tie: distance or tie
    with np.errstate(all="ignore"):
        return eval(code, {**FUNCTIONS, **CONSTANTS, **dict.fromkeys(TIME, t), **names, "__builtins__": {}})


def compiled_expression(
    text: str, known: Sequence[str], what: str, use: str = ""
) -> tuple[Any, list[str], bool]:
    """The code of an expression, the names of its variables ``u__0``, ..., and whether it was a condition."""
    # A "value" may have choices by conditions, an "event" be a condition, of which the distance is compiled.
    # Names such as Main.joint.phi and der(x) are no names of Python; the longest go first.
    names = "|".join(map(re.escape, sorted(known, key=len, reverse=True))) or r"(?!)"
    places: list[str] = []

    def place(name: re.Match[str]) -> str:
        if name[0] not in places:
            places.append(name[0])
        return _PLACE.format(places.index(name[0]))

    name_in_text = rf"(?<![\w.])(?:{names})(?![\w.\[(])"
    if "u__" in re.sub(name_in_text, "", text):  # names of this form are ours alone
        raise InputError(f"{what}: {unknown('name', text, (*known, *TIME))}")
    code = re.sub(name_in_text, place, text).replace("^", "**")

    try:
        tree = ast.parse(code.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"{what} is no expression; write one such as x - 0.5 or x**2 + y**2 - 1") from None
    logical = ast.Compare | ast.BoolOp
    holds = isinstance(getattr(tree.body, "operand", tree.body), logical) and use == "event"
    tree.body = _distance(tree.body) if holds else tree.body
    strange = _strange(tree, what, (*_PARTS, *(_CONDITIONS if use == "value" else ())))
    if strange is not None:
        written = re.sub(r"u__(\d+)", lambda match: places[int(match[1])], ast.unparse(strange))
        raise InputError(f"{what}: {unknown('name', written, (*known, *TIME))}")
    return compile(ast.fix_missing_locations(tree), "<expression>", "eval"), places, holds


def conditions_in(fixed: Any, model: Any, labels: Mapping[str, str]) -> Any:
    """Fixed values with the expressions among their names read, in the names that a model has or is given."""
    if not isinstance(fixed, Mapping):
        return fixed
    if model is not None:
        names = {labels.get(name, name): name for name in model.names}
        return {_condition(name, model, names): value for name, value in fixed.items()}
    for text in map(str, fixed):
        if re.search(r"[-+/^(]", text.removeprefix("der(")):
            raise InputError(
                f"the fixed '{text}' is an expression, which needs equations that are read; give values"
            )
    return fixed


def _condition(text: Any, model: Any, names: Mapping[str, str]) -> Any:
    """The expression that a text is, or the name or pattern."""
    if not isinstance(text, str) or isinstance(text, Condition) or name_and_order(text)[0] in names:
        return text
    if not re.search(r"[-+*/^(]", text) or (is_pattern(text) and matched(text, names)):
        return text
    import sympy

    from dae_sdc.model.sympy_input import TIME as SYMBOL, Unknown

    orders = range(MOST_FIXED_ORDERS)
    symbols = {name_of(label, order): (name, order) for label, name in names.items() for order in orders}
    known = [*symbols, *(name for name in model.parameters_by_name if name not in symbols)]
    try:
        code, places, _ = compiled_expression(text, known, f"the fixed '{text}'")
    except InputError:
        if is_pattern(text):
            return text
        raise
    values = {
        _PLACE.format(at): Unknown(*symbols[name]) if name in symbols else sympy.Symbol(name, real=True)
        for at, name in enumerate(places)
    }
    functions = {name: getattr(sympy, SYMPY.get(name, name)) for name in FUNCTIONS if name != "log10"}
    functions |= {"log10": lambda value: sympy.log(value, 10), "pi": sympy.pi, "e": sympy.E}
    every = {**functions, **dict.fromkeys(TIME, SYMBOL), **values, "__builtins__": {}}
    try:
        expression = sympy.sympify(eval(code, every))
    except ArithmeticError as error:
        raise InputError(f"the fixed '{text}' cannot be evaluated: {error}; correct it") from None
    if not expression.free_symbols:
        raise InputError(f"the fixed '{text}' has no unknown; give an expression of some")
    whole = {one: sympy.Integer(int(one)) for one in expression.atoms(sympy.Float) if one == int(one)}
    return Condition(text, expression.xreplace(whole))


def _parameters(problem: ProblemDAE) -> dict[str, float]:
    """Values of the parameters of a model, or of the constructor and the public numbers of a problem."""
    from dae_sdc.model.retargeting import parameter_names

    values = getattr(problem, "values", None)
    if not isinstance(values, Mapping):
        values = {name: getattr(problem, name) for name in parameter_names(problem)} | dict(problem.params)
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and name not in SETTINGS_OF_SOLVES
    }


def _strange(tree: ast.AST, what: str, parts: tuple[type[ast.AST], ...]) -> ast.AST | None:
    """The first node that an expression may not have, whose numbers become floats; None where all may be."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and not node.keywords}
    for node in ast.walk(tree):
        plain = isinstance(node, parts)
        if isinstance(node, ast.Compare | ast.BoolOp) and not plain:
            raise InputError(f"{what} has no sign that changes; write x - 0.5 for x > 0.5")
        if isinstance(node, ast.Constant):
            number: Any = node.value
            plain = type(number) in (int, float)
            try:
                node.value = float(number) if plain else number  # whole ones may take too long
            except OverflowError:
                raise InputError(f"{what} has a number too large for a float; give a smaller one") from None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id not in (*FUNCTIONS, _OR_TIE, "der"):
                raise InputError(f"{what}: {unknown('function', node.func.id, FUNCTIONS)}")
            plain = node.func.id != "der" and id(node.func) in called
        elif isinstance(node, ast.Name):
            plain = id(node) in called or node.id in (*CONSTANTS, *TIME) or node.id.startswith("u__")
        if not plain:
            return node
    return None
