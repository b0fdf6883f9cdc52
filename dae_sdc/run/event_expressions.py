"""Event functions from texts, such as "x - 0.5" in the names of unknowns, of parameters and of the time."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dae_sdc.control.events import Event
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.registry import unknown
from dae_sdc.run.unknowns import Unknowns

# Functions by the names that expressions may call.
FUNCTIONS: Mapping[str, Any] = {
    **{
        name: getattr(np, name)
        for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "log10")
    },
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "atan2")},
    **{"sqrt": np.sqrt, "abs": np.abs, "min": min, "max": max},
}

CONSTANTS: Mapping[str, float] = {"pi": float(np.pi), "e": float(np.e)}

TIME = ("time", "t")  # Names of the time, where no unknown or parameter is called so.
# Parameters of every problem, which are none of its equations.
SETTINGS_OF_SOLVES = ("newton_tol", "newton_maxiter")

_WORDS = ("terminal", "rising", "falling")
_PARTS = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Load),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.UAdd, ast.USub),
)
_PLACE = "u__{}"


def events_of(given: Any, problem: ProblemDAE, unknowns: Unknowns | None) -> Any:
    """Events as :func:`dae_sdc.control.events.as_events` takes them, with functions in place of texts."""
    if isinstance(given, str):
        return (_event(given, problem, unknowns),)
    if not isinstance(given, Sequence):
        return given
    return tuple(_event(one, problem, unknowns) if isinstance(one, str) else one for one in given)


def _event(text: str, problem: ProblemDAE, unknowns: Unknowns | None) -> Event:
    expression, *parts = text.split(";")
    terminal, direction, values = 0, 0.0, {}
    words: list[str] = []
    for part in parts:
        name, assigns, value = (word.strip() for word in part.partition("="))
        if not assigns or name.split()[-1:] in ([word] for word in _WORDS):
            words += part.replace(",", " ").split()
        elif name in problem.names:
            values[name] = function_of(value, problem, unknowns)
        elif unknowns is not None and name in unknowns.removed:
            base, other = _through(name, text, problem, unknowns)
            values[base] = other(function_of(value, problem, unknowns))
        else:
            raise InputError(unknown(f"unknown that event '{text}' changes", name, problem.names))
    for word in words:
        name, _, number = word.partition("=")
        if name not in _WORDS or (number and not (name == "terminal" and number.isdigit())):
            raise InputError(
                f"after the semicolon of event '{text}' there may be terminal, terminal=2, rising or "
                f"falling, not '{word}', and changes such as x = 0.5*x"
            )
        if name == "terminal":
            terminal = int(number or 1)
        else:
            direction = 1.0 if name == "rising" else -1.0
    expression = expression.strip()

    def change(u: Any, t: float) -> dict[str, float]:
        return {name: value(u, t) for name, value in values.items()}

    function = function_of(expression, problem, unknowns)
    return Event(function, terminal, direction, expression, change if values else None)


def _through(
    name: str, text: str, problem: ProblemDAE, unknowns: Unknowns
) -> tuple[str, Callable[[Callable[[Any, float], float]], Callable[[Any, float], float]]]:
    """The unknown of the state that an eliminated one is a multiple of, and its value for one of that."""
    current, ones = function_of(name, problem, unknowns), np.ones(problem.n)
    slopes = np.array([current(ones + row, 0.0) - current(ones, 0.0) for row in np.eye(problem.n)])
    among = [problem.names[j] for j in np.flatnonzero(slopes)]
    if len(among) != 1 or not np.isfinite(slopes).all():
        raise InputError(
            f"event '{text}' changes '{name}', which was eliminated and follows from "
            f"{', '.join(among) or 'derivatives'}; change these, or leave simplify out"
        )
    (j,) = np.flatnonzero(slopes)

    def through(value: Callable[[Any, float], float]) -> Callable[[Any, float], float]:
        return lambda u, t: float(u[j] + (value(u, t) - current(u, t)) / slopes[j])

    return among[0], through


def function_of(
    text: str, problem: ProblemDAE, unknowns: Unknowns | None = None
) -> Callable[[Any, float], float]:
    """The function f(u, t) of an expression."""
    removed = () if unknowns is None else unknowns.removed
    numbers = _parameters(problem)
    known = [*problem.names, *removed, *(name for name in numbers if name not in problem.names)]
    # Names such as Main.joint.phi and der(x) are no names of Python; the longest go first.
    names = "|".join(map(re.escape, sorted(known, key=len, reverse=True))) or r"(?!)"
    places: list[str] = []

    def place(found: re.Match[str]) -> str:
        if found[0] not in places:
            places.append(found[0])
        return _PLACE.format(places.index(found[0]))

    code = re.sub(rf"(?<![\w.])(?:{names})(?![\w.\[(])", place, text).replace("^", "**")

    def shown(node: ast.AST) -> str:
        return re.sub(r"u__(\d+)", lambda found: places[int(found[1])], ast.unparse(node))

    try:
        tree = ast.parse(code, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"event '{text}' is no expression, such as x - 0.5 or x**2 + y**2 - 1") from None
    _check(tree, text, (*known, *TIME), shown)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            node.value = float(node.value)  # whole numbers may become too long to be finished
    compiled = compile(tree, "<event>", "eval")
    place_of = {name: at for at, name in enumerate(problem.names)}

    def value(name: str, u: Any, t: float) -> Any:
        if name in place_of:
            return u[place_of[name]]
        if unknowns is not None and name in removed:
            row = np.array(u, dtype=float)[None]
            return float(
                unknowns.values(name, np.array([t]), row, np.full(row.shape, np.nan), problem.names)[0]
            )
        return numbers[name]

    def function(u: Any, t: float) -> float:
        values = {_PLACE.format(at): value(name, u, t) for at, name in enumerate(places)}
        every = {**FUNCTIONS, **CONSTANTS, **dict.fromkeys(TIME, t), **values, "__builtins__": {}}
        with np.errstate(all="ignore"):
            try:
                return float(eval(compiled, every))
            except ArithmeticError:
                return float("nan")

    try:
        function(np.ones(problem.n), 0.0)
    except (TypeError, NameError) as error:
        raise InputError(f"event '{text}' cannot be evaluated: {error}") from None
    return function


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


def _check(tree: ast.AST, text: str, known: Sequence[str], shown: Callable[[ast.AST], str]) -> None:
    """Refuse whatever an expression may not have."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and not node.keywords}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.BoolOp):
            raise InputError(f"event '{text}' has no sign that changes; write x - 0.5 for x > 0.5")
        plain = isinstance(node, _PARTS)
        if isinstance(node, ast.Constant):
            plain = isinstance(node.value, int | float)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id not in (*FUNCTIONS, "der"):
                raise InputError(f"event '{text}': {unknown('function', node.func.id, FUNCTIONS)}")
            plain = node.func.id in FUNCTIONS and id(node.func) in called
        elif isinstance(node, ast.Name):
            plain = id(node) in called or node.id in (*CONSTANTS, *TIME) or node.id.startswith("u__")
        if not plain:
            raise InputError(f"event '{text}': {unknown('name', shown(node), known)}")
