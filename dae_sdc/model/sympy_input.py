"""The symbols that a model hands out, and conversion of SymPy expressions to nodes of the graph, and back."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, Final

import numpy as np
import sympy
from sympy.core.function import AppliedUndef
from sympy.core.numbers import NumberSymbol
from sympy.logic.boolalg import BooleanFalse, BooleanTrue
from sympy.printing.str import StrPrinter

from dae_sdc.arguments import checked, shown
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import Leaf, Op, name_of
from dae_sdc.expressions.graph import Graph
from dae_sdc.model.symbolic_values import Scalar

TIME: Any = sympy.Symbol("t", real=True)  # Time.


class Unknown(sympy.Symbol):  # type: ignore[misc]
    """An unknown of a model or one of its derivatives, whose derivative by time is the next one."""

    __slots__ = ("base", "order")

    base: str
    order: int

    def __new__(cls, base: str, order: int = 0) -> Unknown:  # noqa: D102
        symbol: Unknown = sympy.Symbol.__xnew__(cls, name_of(base, order), real=True)
        symbol.base, symbol.order = base, order
        return symbol

    def __getnewargs_ex__(self) -> tuple[tuple[str, int], dict[str, Any]]:
        return (self.base, self.order), {}

    @property
    def free_symbols(self) -> set[Any]:
        """The unknown, and time, of which it is a function."""
        return {self, TIME}

    def _eval_derivative(self, variable: Any) -> Any:
        return self._eval_derivative_n_times(variable, sympy.S.One)

    def _eval_derivative_n_times(self, variable: Any, times: Any) -> Any:
        if variable == TIME and times.is_Integer:
            return Unknown(self.base, self.order + int(times))
        return super()._eval_derivative_n_times(variable, times)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        text = str(printer._deal_with_super_sub(self.base)) if "{" not in self.base else self.base
        if 1 <= self.order <= 3:
            text = f"\\{'d' * self.order}ot{{{text}}}"
        elif self.order:
            text = f"{text}^{{({self.order})}}"
        if exp is None:
            return text
        return f"\\left({text}\\right)^{{{exp}}}" if self.order > 3 else f"{text}^{{{exp}}}"


class Homotopy(sympy.Function):  # type: ignore[misc]
    """An expression, and a simpler one for which a start is found first, from which it is followed."""

    nargs = 2

    def _eval_derivative(self, variable: Any) -> Any:
        return Homotopy(*(sympy.diff(part, variable) for part in self.args))


@checked()
def homotopy(actual: Any, simplified: Any) -> Any:
    """An expression of a model, with a simpler one that leads to its start.

    A start is found with ``simplified`` in its place first, and followed to that with ``actual``; in a run it
    is ``actual``.

    Parameters
    ----------
    actual, simplified : sympy.Expr or float
        What the equation has, and what stands for it at the begin of the path, for instance the same without
        a term or with a constant coefficient.

    Returns
    -------
    sympy.Expr
        The expression for :meth:`dae_sdc.model.model.Model.equation`; in functions F(t, u, du), and of
        numbers, ``actual``.

    Raises
    ------
    InputError
        If one of them is neither an expression nor a real number.

    Examples
    --------
    >>> m = ds.Model("pipe")
    >>> q, p = m.variables("q p", start=[0.0, 10.0], fixed=[False, True])
    >>> m.equations(m.der(p) + q, ds.homotopy(q**3 + q, q) - p)
    >>> round(ds.initial(m)["q"], 6)
    2.0
    """
    both = actual, simplified
    with suppress(TypeError, OverflowError):  # of what is neither an expression nor a float
        if not any(isinstance(part + 0.0, complex) for part in both):
            return Homotopy(*both) if any(isinstance(part, sympy.Basic) for part in both) else actual
    raise InputError(f"homotopy takes two expressions or real numbers; got {shown(both)}")


def derivative(expression: Any, order: int = 1) -> Any:
    """The derivative of an expression with respect to time."""
    if isinstance(expression, Unknown):
        return Unknown(expression.base, expression.order + order)
    for _ in range(order):
        expression = sympy.diff(expression, TIME)
    return expression


# The operation of each of SymPy's classes.
OPERATIONS: Final[dict[type, Op]] = {
    **{getattr(sympy, op.sympy): op for op in Op if op.sympy},
    sympy.ITE: Op.SELECT,
}

_TRUTHS: Final = (sympy.core.relational.Relational, BooleanTrue, BooleanFalse)

HIGHEST_POWER: Final = 1_000_000  # Largest size of a rational exponent in equations.
LARGEST_DIVISOR_OF_PI: Final = 1000  # Largest q of multiples p / q pi that are recognised.
ROUNDED_PI: Final = 4e-16  # Relative difference of a number from such a multiple that is rounding.

Resolve = Callable[[Any], int | None]


def sympified(given: Any) -> Any:
    """A value as a SymPy expression; InputError for texts, which SymPy would run as code, and others."""
    try:
        return sympy.sympify(given, strict=True)
    except (sympy.SympifyError, TypeError, ValueError, AttributeError):
        raise InputError(
            f"{shown(given)} is no expression of SymPy; write it with symbols, not as a text"
        ) from None


def vanishing(given: Any) -> sympy.Expr:
    """The expression of SymPy that an equation lets vanish."""
    expression = sympified(given)
    if isinstance(expression, sympy.Equality):
        expression = sympy.Add(expression.lhs, -expression.rhs, evaluate=False)
    if not isinstance(expression, sympy.Expr):
        raise InputError(f"no equation but a {type(expression).__name__}, {expression}")
    return expression


def from_sympy(graph: Graph, expression: Any, resolve: Resolve) -> int:
    """The node of a SymPy expression."""
    nodes: dict[int, int] = {}
    stack: list[tuple[Any, Sequence[Any] | None]] = [(expression, None)]
    while stack:
        item, parts = stack.pop()
        if id(item) in nodes:
            continue
        if parts is not None:
            nodes[id(item)] = _built(graph, item, [nodes[id(part)] for part in parts])
        elif item.is_Symbol or isinstance(item, AppliedUndef | sympy.Derivative):
            node = resolve(item)
            if node is None:
                raise InputError(f"{item} is no unknown and no parameter")
            nodes[id(item)] = node
        else:
            parts = _parts(item)
            stack += [(item, parts), *((part, None) for part in parts)]
    return nodes[id(expression)]


def _parts(item: Any) -> Sequence[Any]:
    """The operands from which the node of an expression is built."""
    if isinstance(item, sympy.Mul):
        return [factor.base if _divides(factor) else factor for factor in item.args]
    if isinstance(item, sympy.Pow) and item.exp.is_Rational:
        return (item.base,)
    if isinstance(item, sympy.Piecewise):
        return [part for branch in item.args for part in branch.args]
    return tuple(item.args)


def _divides(factor: Any) -> bool:
    return isinstance(factor, sympy.Pow) and bool(factor.exp.is_Rational) and bool(factor.exp < 0)


def _exponent(graph: Graph, exponent: Any) -> int:
    if abs(exponent) > HIGHEST_POWER:
        raise InputError(f"the power {shown(exponent)} is higher than {HIGHEST_POWER}; write another form")
    return graph.constant(Fraction(int(exponent.p), int(exponent.q)))


def _built(graph: Graph, item: Any, parts: list[int]) -> int:
    """The node of an expression from those of its parts."""
    if isinstance(item, sympy.Add):
        return graph.add(*parts)
    if isinstance(item, sympy.Mul):
        over, under = graph.one, graph.one
        for factor, part in zip(item.args, parts, strict=True):
            if _divides(factor):
                under = graph.mul(under, graph.power(part, _exponent(graph, -factor.exp)))
            else:
                over = graph.mul(over, part)
        return graph.div(over, under)
    if isinstance(item, sympy.Pow):
        exponent = parts[1] if len(parts) > 1 else _exponent(graph, item.exp)
        return graph.power(parts[0], exponent)
    if not parts and item.is_number:  # is_number is evaluated last: SymPy computes it by recursion
        return _number(graph, item)
    if isinstance(item, BooleanTrue | BooleanFalse):
        return graph.constant(bool(item))
    if isinstance(item, sympy.Piecewise):
        return _piecewise(graph, item, parts)
    formula, op = _FORMULAS.get(type(item)), OPERATIONS.get(type(item))
    if formula is not None:
        return formula(*(Scalar(graph, part) for part in parts)).node
    if op is None:
        raise InputError(f"{type(item).__name__} in {shown(item)} cannot be used in an equation")
    if op in (Op.MIN, Op.MAX):
        return functools.reduce(functools.partial(graph.call, op), parts)
    return graph.call(op, *parts)


def _number(graph: Graph, item: Any) -> int:
    exact = sympy.Rational(item) if item.is_Float and item._prec > 53 else item
    if exact.is_Rational:
        return graph.constant(Fraction(int(exact.p), int(exact.q)))
    if item is sympy.pi:
        return graph.constant("pi")
    if item is sympy.E:
        return graph.call(Op.EXP, graph.one)
    if isinstance(item, NumberSymbol) or item.is_Float:
        return graph.constant(float(item))
    raise InputError(f"the number {item} cannot be used in an equation")


def _piecewise(graph: Graph, item: Any, parts: list[int]) -> int:
    if item.args[-1].cond != sympy.true:
        raise InputError(f"{shown(item)} has no value where none of its conditions holds; end it with True")
    node = parts[-2]
    for at in range(len(parts) - 4, -1, -2):
        node = graph.call(Op.SELECT, parts[at + 1], parts[at], node)
    return node


# SymPy's classes that are no operation of the graph, as formulas of scalars.
_FORMULAS: Final[Mapping[type, Callable[..., Scalar]]] = {
    sympy.StrictGreaterThan: lambda a, b: b < a,
    sympy.GreaterThan: lambda a, b: b <= a,
    sympy.Equality: lambda a, b: (a <= b) * (b <= a),
    sympy.Unequality: lambda a, b: 1 - (a <= b) * (b <= a),
    sympy.And: lambda *parts: functools.reduce(operator.mul, parts),
    # Conditions are 0 or 1, and any of them holds where 1 - (1 - a) (1 - b) ... is 1.
    sympy.Or: lambda *parts: 1 - functools.reduce(operator.mul, [1 - part for part in parts]),
    sympy.Not: lambda a: 1 - a,
    sympy.Heaviside: np.heaviside,
    Homotopy: lambda actual, simplified: actual,
    sympy.ceiling: lambda a: -(-a).floor(),
    sympy.Mod: lambda a, b: a - b * (a / b).floor(),
    sympy.cot: lambda a: a.cos() / a.sin(),
    sympy.sec: lambda a: 1 / a.cos(),
    sympy.csc: lambda a: 1 / a.sin(),
    sympy.coth: lambda a: a.cosh() / a.sinh(),
    sympy.sech: lambda a: 1 / a.cosh(),
    sympy.csch: lambda a: 1 / a.sinh(),
}


def to_sympy(graph: Graph, nodes: Sequence[int], symbol: Callable[[Leaf], Any]) -> list[Any]:
    """Expressions of the graph as SymPy expressions, with exact numbers."""
    expressions: dict[int, Any] = {}
    for node in graph.below(nodes):
        leaf, number = graph.leaves.get(node), graph.numbers.get(node)
        if leaf is not None:
            expressions[node] = symbol(leaf)
        elif isinstance(number, str):
            expressions[node] = getattr(sympy, number)
        elif number is not None:
            expressions[node] = sympy.Rational(number.numerator, number.denominator)
        else:
            parts = [expressions[arg] for arg in graph.operands(node)]
            expressions[node] = _written(graph.op[node], parts, graph.args[node])
    return [_as_number(expressions[node]) for node in nodes]


class _TextOfEvents(StrPrinter):  # type: ignore[misc]
    """Writes expressions as texts of events are read, with all digits of their numbers."""

    def _print_Piecewise(self, expression: Any) -> str:
        *parts, (last, test) = expression.args
        if test != sympy.true:
            raise InputError(
                f"{expression} has no value where none of its conditions holds; add (value, True)"
            )
        choices = [f"{self._print(value)} if {self._print(test)} else " for value, test in parts]
        return f"({''.join(choices)}{self._print(last)})"

    def _print_Relational(self, condition: Any) -> str:
        return f"{self._print(condition.lhs)} {condition.rel_op} {self._print(condition.rhs)}"

    def _print_And(self, condition: Any) -> str:
        word = " and " if isinstance(condition, sympy.And) else " or "
        return f"({word.join(map(self._print, condition.args))})"

    _print_Or = _print_And

    def _print_Not(self, condition: Any) -> str:
        return f"(not {self._print(condition.args[0])})"

    def _print_ITE(self, condition: Any) -> str:
        return str(self._print(condition.to_nnf(simplify=False)))

    def _print_Function(self, expression: Any) -> str:
        name = type(expression).__name__.lower().replace("ceiling", "ceil")
        return f"{name}({', '.join(map(self._print, expression.args))})"

    _print_Max = _print_Min = _print_Abs = _print_Function

    def _print_Mod(self, expression: Any) -> str:
        return "(({}) % ({}))".format(*map(self._print, expression.args))

    def _print_Float(self, number: Any) -> str:
        return repr(float(number))

    def _print_Exp1(self, number: Any) -> str:
        return "e"


def as_text(expression: Any) -> str:
    """An expression or condition as texts of events have it."""
    printer = _TextOfEvents()
    return expression if isinstance(expression, str) else str(printer.doprint(sympy.sympify(expression)))


def with_pi(expression: Any) -> Any:
    """An expression with multiples of pi in place of the numbers that they are as doubles."""
    multiples = {}
    for number in expression.atoms(sympy.Rational):
        if number.q <= LARGEST_DIVISOR_OF_PI or abs(number) > 1e15:
            continue
        ratio = Fraction(float(number) / math.pi).limit_denominator(LARGEST_DIVISOR_OF_PI)
        if math.isclose(ratio * math.pi, number, rel_tol=ROUNDED_PI):
            multiples[number] = sympy.Rational(ratio.numerator, ratio.denominator) * sympy.pi
    return expression.xreplace(multiples)


# What SymPy has no class of that is an operation.
_UNNAMED: Final = {Op.NEG: operator.neg, Op.DIV: operator.truediv, Op.SQRT: sympy.sqrt}


def _written(op: Op, parts: list[Any], args: tuple[int, ...]) -> Any:
    """An operation as a SymPy expression of its operands; the exponent of INTPOW is in ``args``."""
    if op is Op.SELECT:
        condition, first, second = parts
        holds = condition if isinstance(condition, _TRUTHS) else sympy.Ne(condition, 0)
        return sympy.Piecewise((_as_number(first), holds), (_as_number(second), True))
    operands = [_as_number(part) for part in parts]
    if op is Op.INTPOW:
        return operands[0] ** args[1]
    return (_UNNAMED.get(op) or getattr(sympy, op.sympy))(*operands)


def _as_number(value: Any) -> Any:
    """A condition as the number 1 or 0; other values unchanged."""
    return sympy.Piecewise((1, value), (0, True)) if isinstance(value, _TRUTHS) else value
