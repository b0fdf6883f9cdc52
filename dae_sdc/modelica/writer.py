"""Models as flat Modelica, which both readers read back with the same names."""

from __future__ import annotations

import ast
import html
import math
import re
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from dae_sdc.arguments import checked
from dae_sdc.dae.branches import MESSAGE
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import COMPARISONS, Leaf, Op, name_and_order
from dae_sdc.expressions.graph import Graph
from dae_sdc.expressions.source import TEXT, Language, Writer
from dae_sdc.files import check_place, replacing
from dae_sdc.model.model import Formula, Model
from dae_sdc.modelica.arithmetic import Condition, conjuncts, denied, opposite, shown
from dae_sdc.modelica.syntax import KEYWORDS

LONGEST_EXPRESSION: Final = 1_000_000  # Characters; what it shares is written at each place.
_LANGUAGE: Final = Language({}, "{}^{}", {**TEXT.signs, Op.POW: ("^", 3)})
_MOMENTS: Final = ("initial(", "sample(", "terminal(")  # How conditions begin that hold at times alone.
_OF_EVENTS: Final = Language({}, signs=TEXT.signs, digits=False)
_FORMULAS: Final = {  # Of functions that the language does not have.
    Op.ASINH: "log({0} + sqrt({0}^2 + 1))",
    Op.ACOSH: "log({0} + sqrt({0}^2 - 1))",
    Op.ATANH: "0.5*log((1 + {0})/(1 - {0}))",
}
_BUILT_IN: Final = frozenset("time der Real Integer Boolean String Clock".split())
_IDENTIFIER: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)
_FACTORS: Final = r"[A-Za-z%]+(?:-?\d+)?(?:\.[A-Za-z%]+(?:-?\d+)?)*"  # Of a unit.
_UNIT: Final = re.compile(rf"(?:1|{_FACTORS})(?:/(?:[A-Za-z%]+\d*|\({_FACTORS}\)))?")


def quoted(name: str) -> str:
    """A name as Modelica writes it, in quotes unless it is an identifier."""
    if "'" in name or "\\" in name or not name.isprintable():
        raise InputError(f"{name!r} is no name in Modelica; rename it without quotes and backslashes")
    return name if _IDENTIFIER.fullmatch(name) and name not in KEYWORDS | _BUILT_IN else f"'{name}'"


def _string(text: str) -> str:
    words = " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{words}"'


def _number(value: float | None) -> str:
    """A number with all its digits; nothing for one that is not finite."""
    return repr(float(value)) if value is not None and math.isfinite(value) else ""


def _unit(text: str) -> dict[str, str]:
    """The attribute of a unit such as N m/s^2, N.m/s2 in Modelica; none for one that has no such form."""
    first, *under = re.sub(r"\^(-?\d+)(?![\d.])", r"\1", text).replace(" ", ".").split("/")
    unit = "/".join([first, *under]) if len(under) < 2 else f"{first}/({'.'.join(under)})"
    return {"unit": _string(unit)} if _UNIT.fullmatch(unit) else {}


def _attributes(values: Mapping[str, float | str | None]) -> str:
    """The modifiers of a declaration, of which those that are None or not finite are left out."""
    texts = {word: value if isinstance(value, str) else _number(value) for word, value in values.items()}
    parts = [f"{word}={text}" for word, text in texts.items() if text]
    return f"({', '.join(parts)})" if parts else ""


class Conditions(Writer):
    """Texts of nodes in a language where a condition is no number, as that of events."""

    choice = "({1} if {0} else {2})"
    # Names of what events alone change, which is equal to something where neither is larger; None for all.
    discrete: Collection[str] | None = ()

    def _written(self, node: int) -> tuple[str, int]:
        op, operands, number = self.graph.op[node], self.graph.operands(node), self.graph.numbers.get(node)
        if op is Op.SELECT or op in COMPARISONS:
            values = [self._texts[each][0] for each in operands[1:]] if op is Op.SELECT else ["1", "0"]
            return self.choice.format(self.condition(operands[0] if op is Op.SELECT else node), *values), 4
        if isinstance(number, Fraction) and not self._language.digits:
            return repr(float(number)).removesuffix(".0"), 4
        return super()._written(node)

    def condition(self, node: int) -> str:
        """A condition that holds where a number is not 0."""
        graph, op, other = self.graph, self.graph.op[node], denied(self.graph, node)
        if op in COMPARISONS:
            text = super()._written(node)[0]
            is_moment, begins = text.startswith(_MOMENTS), text.removesuffix(" > 0.5")
            return text if not is_moment else begins if begins != text else f"not {text[: -len(' <= 0.5')]}"
        if other is None and op is not Op.MUL:
            return f"abs({self._texts[node][0]}) > 0"
        parts = conjuncts(graph, node if other is None else other)
        sides = graph.args[parts[0]] if len(parts) == 2 and graph.op[parts[0]] is Op.LE else ()
        if sides and graph.args[parts[1]] == sides[::-1] and graph.op[parts[1]] is Op.LE:
            names = [self._name(leaf) for leaf in graph.leaves_of(*sides) if leaf.kind != "p"]
            changes = any(name.startswith("pre(") for name in names)
            if self.discrete is not None and not (changes or all(name in self.discrete for name in names)):
                return (" != " if other else " == ").join(self._part(side, 1) for side in sides)
        if len(parts) == 1:
            return f"not ({self.condition(parts[0])})"
        ways = parts if other is None else [opposite(graph, part) for part in parts]
        texts = [self.condition(k) if graph.op[k] in COMPARISONS else f"({self.condition(k)})" for k in ways]
        return (" or " if other else " and ").join(texts)


def event_text(graph: Graph, value: Any, discrete: Collection[str] = ()) -> str:
    """An expression or condition of named leaves as texts of events have it; a text itself."""
    if isinstance(value, str):
        return value
    writer = Conditions(graph, shown, _OF_EVENTS)
    writer.discrete = discrete
    text = writer.text(getattr(value, "node", value))
    return writer.condition(value.node) if isinstance(value, Condition) else text


class _Expressions(Conditions):
    choice, discrete = "(if {0} then {1} else {2})", None

    def _written(self, node: int) -> tuple[str, int]:
        op, operands = self.graph.op[node], self.graph.operands(node)
        if op in _FORMULAS:
            return f"({_FORMULAS[op].format(f'({self._texts[operands[0]][0]})')})", 4
        text, binding = super()._written(node)
        if text in ("inf", "-inf", "nan") and not operands:
            raise InputError("a number in the equations is not finite, which Modelica cannot write")
        if len(text) > LONGEST_EXPRESSION:
            raise InputError("an equation is too long for Modelica; make unknowns of its parts")
        if op is Op.INTPOW and self.graph.args[node][1] < 0:
            text = text.replace("^-", "^(-") + ")"
        return text, 1 if text.startswith("-") else binding


class _FlatClass:
    """A model as the parts of a class of Modelica."""

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        self.variables = list(model.variables_by_name.values())
        self.place = {name: j for j, name in enumerate(model.names)}
        # The highest order of each unknown is the last.
        orders = dict(model.graph.jets_of(*model.roots, *model.simplified_roots.values()))
        highest = [orders.get(j, 0) for j in range(len(self.variables))]
        # Names of each unknown and of its derivatives but the highest, which are unknowns of their own.
        self.chains, used = [[name] for name in model.names], {*model.names, *model.parameter_names}
        for chain, most in zip(self.chains, highest, strict=True):
            for order in range(1, most):
                name = f"der{order if order > 1 else ''}_{chain[0]}"
                while name in used:
                    name += "_"
                used.add(name)
                chain.append(name)
        self.is_state = [most > 0 and not v.discrete for v, most in zip(self.variables, highest, strict=True)]
        self.writer = _Expressions(model.graph, self.leaf, _LANGUAGE)

    def leaf(self, leaf: Leaf) -> str:
        if leaf.kind == "u":
            return self.unknown(leaf.index, leaf.order)
        return quoted(self.model.parameter_names[leaf.index]) if leaf.kind == "p" else "time"

    def unknown(self, j: int, order: int) -> str:
        chain = self.chains[j]
        return quoted(chain[order]) if order < len(chain) else f"der({quoted(chain[-1])})"

    def lines(self) -> Iterator[str]:
        model, name, events = self.model, quoted(self.model.name), _Events(self)
        if model.held or model.redundant:
            raise InputError(f"{model.name} has equations of its start alone; write it before it is repaired")
        changed = {j for branches in events.whens for _, news, _ in branches for j in news}
        yield f"model {name}{f' {_string(model.title)}' if model.title else ''}"
        for parameter in model.parameters_by_name.values():
            value = "" if parameter.value is None else f" = {_number(parameter.value)}"
            yield f"  parameter Real {quoted(parameter.name)}{_attributes(_unit(parameter.unit))}{value};"
        for j, variable in enumerate(self.variables):
            for order in range(len(self.chains[j])):
                start, fixed = variable.start.get(order, 0.0 if order else None), order in variable.fixed
                attributes: dict[str, float | str | None] = {"start": start, "fixed": "true" if fixed else ""}
                if order == 0:
                    attributes |= {**_unit(variable.unit), "min": variable.minimum, "max": variable.maximum}
                attributes |= {"nominal": variable.nominal.get(order)}
                follow = {"start" if key == order else key: each for key, each in variable.formulas.items()}
                attributes |= {word: self.formula(follow[word]) for word in attributes if word in follow}
                word = ("discrete " if j in changed else "input ") if variable.discrete else ""
                yield f"  {word}Real {self.unknown(j, order)}{_attributes(attributes)};"
        starts = [*self.starts()]
        yield from ["initial equation", *starts] if starts else ()
        yield "equation"
        for chain in self.chains:
            for lower, higher in pairwise(map(quoted, chain)):
                yield f"  der({lower}) = {higher};"
        held = {self.graph.variable(j, 1) for j, variable in enumerate(self.variables) if variable.discrete}
        for k, (root, label) in enumerate(zip(model.roots, model.equation_names, strict=True)):
            if root not in held:
                simpler, text = model.simplified_roots.get(k), self.writer.text(root)
                if simpler is not None:
                    text = f"homotopy(actual={text}, simplified={self.writer.text(simpler)})"
                yield f"  0 = {text} {_string(label)};"
        yield from events.lines()
        times = dict(zip(("StartTime", "StopTime", "Interval"), (*model.interval, model.dt), strict=True))
        about = f"experiment{_attributes(times)}"
        if model.reference:
            about += f", Documentation(info={_string(html.escape(model.reference, quote=False))})"
        yield f"  annotation({about});\nend {name};"

    def formula(self, formula: Formula) -> str:
        writer = _Expressions(formula.graph, lambda leaf: quoted(formula.names[leaf.index]), _LANGUAGE)
        return writer.text(formula.node)

    def starts(self) -> Iterator[str]:
        """Fixed starts of the highest derivatives, which are no unknowns; guesses of them are left out."""
        for j, variable in enumerate(self.variables):
            for order in sorted(variable.fixed):
                if order > len(self.chains[j]):
                    what = f"the fixed start of derivative {order} of {variable.name}"
                    raise InputError(f"{what} cannot be written in Modelica; add an equation for it")
                if order == len(self.chains[j]):
                    formula = variable.formulas.get(order)
                    value = _number(variable.start[order]) if formula is None else self.formula(formula)
                    yield f"  {self.unknown(j, order)} = {value};"


_SIGNS: Final[dict[type, str]] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^", ast.And: "and", ast.Or: "or"},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "<>"},
    **{ast.Not: "not ", ast.USub: "-", ast.UAdd: "+"},
}
_CONSTANTS: Final = {"t": "time", "time": "time", "pi": repr(math.pi), "e": repr(math.e)}
# Conditions that hold at events alone.
_AT_EVENTS: Final = re.compile(r"(initial|terminal|sample|change|edge)\(")
_TIMED: Final = re.compile(rf"\btime\b|{_AT_EVENTS.pattern}")  # Conditions that may begin to hold together.


class _Events:
    """The events of a model as when-equations and assertions."""

    def __init__(self, flat: _FlatClass) -> None:
        self.flat = flat
        known = sorted([*flat.place, *flat.model.parameter_names], key=len, reverse=True)
        name = "|".join(map(re.escape, known)) or "(?!)"
        self.names = re.compile(rf"(?<![\w.])(?:(pre|der)\(({name})(?:, (\d+))?\)|({name})(?![\w.\[(]))")
        # Branches of when-equations: a condition, new values of discrete unknowns, and statements.
        self.whens: list[list[tuple[str, dict[int, str], list[str]]]] = []
        self.asserts = list[str]()
        for event in flat.model.events:
            self.enter(event)

    def lines(self) -> Iterator[str]:
        """When-equations, of which all branches assign the same, and assertions."""
        for branches in self.whens:
            targets = sorted({j for _, news, _ in branches for j in news})
            for k, (condition, news, statements) in enumerate(branches):
                yield f"  {'elsewhen' if k else 'when'} {condition} then"
                for name, j in ((self.flat.unknown(j, 0), j) for j in targets):
                    yield f"    {name} = {news.get(j, f'pre({name})')};"
                yield from (f"    {statement};" for statement in statements)
            yield "  end when;"
        yield from (f"  {text};" for text in self.asserts)

    def enter(self, event: str) -> None:
        """Make a branch of a when-equation of an event, or an assertion."""
        head, _, message = event.partition(MESSAGE)
        condition, *parts = (part.strip() for part in head.rstrip("; ").split(";"))
        words = {part for part in parts if part.isalpha()}
        if "lasting" in words:
            changes = [part for part in parts if part not in words]
            self.enter("; ".join([condition, "implicit", *changes]))
            denied = [f"{name} = 1 - ({value})" for name, value in (part.split(" = ") for part in changes)]
            return self.enter("; ".join([f"not ({condition})", "implicit", *denied]))
        only = next((self.text(part[3:]) for part in parts if part.startswith("if ")), "")
        if "terminal" in words and not message:
            message, words = condition, {*words, "success"}
        level = "" if "terminal" in words else ", AssertionLevel.warning"
        test, holds = ("", False) if condition == "beside" else self.condition(condition, words)
        news, statements = dict[int, str](), list[str]()
        for part in (part for part in parts if part not in words and not part.startswith("if ")):
            target, _, value = part.partition("=")
            name, order = name_and_order(target.rstrip(": "))
            if name not in self.flat.place:
                raise self.refused(event, f"{name} is no unknown of the model")
            j, new = self.flat.place[name], self.text(value, "implicit" not in words)
            is_discrete, this = self.flat.variables[j].discrete, self.flat.unknown(j, order)
            if not is_discrete and not (self.flat.is_state[j] and order < len(self.flat.chains[j])):
                raise self.refused(event, f"{name} has no derivative there")
            new = f"if {only} then {new} else {f'pre({this})' if is_discrete else this}" if only else new
            if is_discrete:
                news[j] = new
            else:
                statements.append(f"reinit({this}, {new})")
        if message and "success" in words:
            if only:
                raise self.refused(event, "it ends a run under a second condition")
            statements.append(f"terminate({_string(message)})")
        elif message and holds and not (words - {"terminal"} or only or parts[1:]):
            self.asserts.append(f"assert(not ({test}), {_string(message)}{level})")
            return
        elif message:
            statements.append(f"assert({f'not ({only})' if only else 'false'}, {_string(message)}{level})")
        branch = test, news, statements
        if not test and self.whens:
            self.whens[-1][-1][2].extend(statements)
        elif "otherwise" in words and self.whens:
            self.whens[-1].append(branch)
        else:
            with_same = [when for when in self.whens if any(news.keys() & others for _, others, _ in when)]
            others = [each for when in with_same for each in when]
            if _TIMED.search(test) and any(_TIMED.search(other) for other, _, _ in others):
                raise self.refused(event, "another event may change the same at the same time")
            self.whens = [when for when in self.whens if when not in with_same] + [[*others, branch]]

    def refused(self, event: str, why: str) -> InputError:
        return InputError(f"the event '{event}' cannot be written in Modelica: {why}; leave it out")

    def condition(self, text: str, words: Collection[str]) -> tuple[str, bool]:
        """The condition of an event, and whether it was one, or a function that passes zero."""
        tree = self.parsed(text)
        written = self.written(tree)
        denied = isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not)
        if denied or isinstance(tree, ast.Compare | ast.BoolOp) or _AT_EVENTS.match(text):
            return written, True
        signs = [sign for word, sign in (("falling", "<"), ("rising", ">")) if word in words]
        tests = [f"{written} {sign} 0" for sign in signs or "<>"]
        return (tests[0] if len(tests) == 1 else f"{{{', '.join(tests)}}}"), False

    def text(self, expression: str, before: bool = False) -> str:
        """An expression of an event in Modelica, of the values before it if ``before`` says so."""
        return self.written(self.parsed(expression, before))

    def parsed(self, text: str, before: bool = False) -> ast.expr:
        """The syntax tree of an expression, in which names of Modelica stand as texts."""

        def named(match: re.Match[str]) -> str:
            function, inner, order, plain = match.groups()
            j = self.flat.place.get(inner or plain)
            if j is None:
                return repr(quoted(inner or plain))
            name = self.flat.unknown(j, int(order or 1) if function == "der" else 0)
            # States have their values before an event until all other unknowns have changed.
            is_old = (before or function == "pre") and not self.flat.is_state[j]
            return repr(f"pre({name})" if is_old else name)

        try:
            return ast.parse(self.names.sub(named, text).replace("^", "**").strip(), mode="eval").body
        except SyntaxError:
            raise self.refused(text, "a name in it is none of the model") from None

    def written(self, tree: ast.expr) -> str:
        match tree:
            case ast.Constant(value):
                return value if isinstance(value, str) else repr(value)
            case ast.Name(name) if name in _CONSTANTS:
                return _CONSTANTS[name]
            case ast.Call(ast.Name(name), arguments):
                return f"{name.replace('arc', 'a')}({', '.join(map(self.written, arguments))})"
            case ast.BinOp(left, ast.Mod(), right):
                return f"mod({self.written(left)}, {self.written(right)})"
            case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]):
                return f"({self.written(left)} {_SIGNS[type(sign)]} {self.written(right)})"
            case ast.UnaryOp(sign, operand):
                return f"({_SIGNS[type(sign)]}{self.written(operand)})"
            case ast.BoolOp(sign, parts):
                return f"({f' {_SIGNS[type(sign)]} '.join(map(self.written, parts))})"
            case ast.IfExp(test, first, second):
                return f"(if {self.written(test)} then {self.written(first)} else {self.written(second)})"
        raise self.refused(ast.unparse(tree), "it is no unknown of the model, or no operation there")


def modelica_text(model: Model) -> str:
    """A model as the text of a flat class of Modelica."""
    return "\n".join([*_FlatClass(model).lines(), ""])


@checked()
def write_modelica(model: Model, path: str | Path) -> Path:
    """Write a model as flat Modelica, which :func:`~dae_sdc.modelica.reader.read_modelica` reads back.

    Names stay as they are. Derivatives below the highest get unknowns of their own, "der_x" for der(x);
    guesses of the highest, and units that Modelica cannot have, are left out.

    Parameters
    ----------
    model : Model
        The model, also a simplified or a reduced one.
    path : path-like
        File to write; ``.mo`` is added if it is missing.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InputError
        If the file cannot be written, or the model has what Modelica has not.

    Examples
    --------
    >>> path = ds.write_modelica(ds.simplify("dc-motor").model, "small.mo")
    >>> ds.read_modelica(path).names
    ('load.phi', 'der_load.phi', 'der2_load.phi')
    """
    target, content = check_place(path, ".mo"), modelica_text(model).encode()
    with replacing(target) as (file,):
        file.write(content)
    return target
