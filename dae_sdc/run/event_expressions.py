"""Functions and expressions from texts, such as "x - 0.5" in the names of unknowns and of parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from dae_sdc.control.events import Event
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.expressions.symbols import TIME as SYMBOL, Unknown
from dae_sdc.initial.given import Condition, is_pattern, matched
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

MOST_FIXED_ORDERS = 4  # Number of derivatives of an unknown, from 0 on, that a fixed expression may have.
# Functions of SymPy with names of their own.
SYMPY: Mapping[str, str] = {"abs": "Abs", "min": "Min", "max": "Max"}

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
    expression, _, words = text.partition(";")
    terminal, direction = 0, 0.0
    for word in words.replace(",", " ").split():
        name, _, number = word.partition("=")
        if name not in _WORDS or (number and not (name == "terminal" and number.isdigit())):
            raise InputError(
                f"after the semicolon of event '{text}' there may be terminal, terminal=2, rising or "
                f"falling, not '{word}'"
            )
        if name == "terminal":
            terminal = int(number or 1)
        else:
            direction = 1.0 if name == "rising" else -1.0
    return Event(function_of(expression.strip(), problem, unknowns), terminal, direction, expression.strip())


def function_of(
    text: str, problem: ProblemDAE, unknowns: Unknowns | None = None
) -> Callable[[Any, float], float]:
    """The function f(u, t) of an expression."""
    removed = () if unknowns is None else unknowns.removed
    numbers = _parameters(problem)
    known = [*problem.names, *removed, *(name for name in numbers if name not in problem.names)]
    compiled, places = _compiled(text, known, f"event '{text}'")
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


def _compiled(text: str, known: Sequence[str], what: str) -> tuple[Any, list[str]]:
    """The code of an expression, and the names that stand for its variables ``u__0``, ``u__1``, ..."""
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
        raise InputError(f"{what} is no expression, such as x - 0.5 or x**2 + y**2 - 1") from None
    _check(tree, what, (*known, *TIME), shown)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            node.value = float(node.value)  # whole numbers may become too long to be finished
    return compile(tree, "<expression>", "eval"), places


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
    orders = range(MOST_FIXED_ORDERS)
    symbols = {name_of(label, order): (name, order) for label, name in names.items() for order in orders}
    known = [*symbols, *(name for name in model.parameters_by_name if name not in symbols)]
    try:
        code, places = _compiled(text, known, f"the fixed '{text}'")
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


def _check(tree: ast.AST, what: str, known: Sequence[str], shown: Callable[[ast.AST], str]) -> None:
    """Refuse whatever an expression may not have."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and not node.keywords}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.BoolOp):
            raise InputError(f"{what} has no sign that changes; write x - 0.5 for x > 0.5")
        plain = isinstance(node, _PARTS)
        if isinstance(node, ast.Constant):
            plain = isinstance(node.value, int | float)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id not in (*FUNCTIONS, "der"):
                raise InputError(f"{what}: {unknown('function', node.func.id, FUNCTIONS)}")
            plain = node.func.id in FUNCTIONS and id(node.func) in called
        elif isinstance(node, ast.Name):
            plain = id(node) in called or node.id in (*CONSTANTS, *TIME) or node.id.startswith("u__")
        if not plain:
            raise InputError(f"{what}: {unknown('name', shown(node), known)}")
