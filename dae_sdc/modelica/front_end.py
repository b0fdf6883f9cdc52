"""Modelica by rumoca: its flat form, of version 0.10.2, as the syntax tree that the own parser makes."""

from __future__ import annotations

import importlib
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from dae_sdc.errors import InputError
from dae_sdc.modelica import syntax
from dae_sdc.modelica.parser import CLASSES, MODELS, READ_ANNOTATIONS, ClassParser
from dae_sdc.modelica.syntax import (
    Call,
    ClassDefinition,
    Component,
    Expression,
    Modification,
    Name,
    Operation,
    Precedence,
    Source,
)

LARGEST, LEAST = 1e60, 1e-60  # Numbers beyond these stand for all that are too large, or too small.

Node: TypeAlias = dict[str, Any]  # A part of rumoca's form, mostly with its kind as the only key.

# What operators of two operands are in a text, with their precedence.
_OPERATORS: Final = {
    **{
        f"{word}{suffix}": (sign, Precedence.SUM)
        for word, sign in (("Add", "+"), ("Sub", "-"))
        for suffix in ("", "Elem")
    },
    "Mul": ("*", Precedence.PRODUCT),
    "MulElem": (".*", Precedence.PRODUCT),
    **dict.fromkeys(("Div", "DivElem"), ("/", Precedence.PRODUCT)),
    "Exp": ("^", Precedence.POWER),
    "ExpElem": (".^", Precedence.POWER),
    "And": ("and", Precedence.AND),
    "Or": ("or", Precedence.OR),
    **{
        word: (sign, Precedence.COMPARISON)
        for word, sign in zip(("Lt", "Le", "Gt", "Ge", "Eq", "Neq"), "< <= > >= == <>".split(), strict=True)
    },
}
_SIGNS: Final = {"Minus": "-", "DotMinus": "-", "Plus": "+", "DotPlus": "+"}
# Operators whose operands stand in one list, as the parser leaves them.
_CHAINED: Final = (Precedence.SUM, Precedence.PRODUCT, Precedence.AND, Precedence.OR)
_TYPES: Final = ("Real", "Integer", "Boolean", "String")
# Words before an if that is no part of an expression.
_BEGINNINGS: Final = (";", "equation", "algorithm", "then", "else", "loop")
# Where a message of rumoca says its place, [FILE:LINE:COLUMN].
_PLACE: Final = re.compile(r"\[([^\[\]\n]*):(\d+):\d+\]")


def flattened(source: Source, name: str, libraries: Sequence[str | Path]) -> ClassDefinition:
    """The flat class of a model; behind it ``source`` has the texts of all files that rumoca read."""
    try:
        rumoca = importlib.import_module("rumoca")
    except ImportError:
        raise InputError(f"{source.file} needs the reader rumoca: pip install 'dae_sdc[modelica]'") from None
    roots = [str(path) for path in (*libraries, *_library_path())]
    for root in roots:
        if not Path(root).is_dir():
            raise InputError(f"the library {root} is no directory; give the one in which Modelica/ lies")
    try:
        model = rumoca.Session(roots=roots).loads(source.text, model=name)
        flat, files = model.to_dict("flat"), model.to_dict("dae")["source_map"]["files"]
    except (rumoca.RumocaError, RuntimeError) as error:
        raise InputError(_message(source, str(error))) from None
    return _Tree(source, flat, files).definition(name)


class Outline:
    """The models of a text and their annotations, looked for without parsing what is in them."""

    def __init__(self, source: Source) -> None:
        self.words = ClassParser(source)
        self.models: dict[str, bool] = {}  # Whether each is partial, by its path.
        self.annotations: dict[str, dict[str, Modification]] = {}
        words, open_classes = self.words.tokens, list[str]()
        section, branches = "", 0
        for k, word in enumerate(words[:-1]):
            before, behind = words[k - 1].text if k else "", words[k + 1]
            section = word.text if word.text in ("equation", "algorithm") else section
            if word.text == "if" and before in _BEGINNINGS:
                branches += 1
            elif word.text == "if" and before == "end":
                branches -= 1
            elif word.text in ("assert", "terminate") and branches and section == "equation":
                source.fail(word.at, f"rumoca loses {word.text} in an if-equation; move it out of if")
            if word.kind == "word" and word.text in CLASSES and before != "end":
                if behind.kind not in ("name", "quoted"):
                    continue
                path = ".".join([*open_classes, behind.text])
                if word.text in MODELS:
                    self.models[path] = before == "partial"
                if words[k + 2].text != "=":
                    open_classes.append(behind.text)
            elif word.text == "end" and open_classes and behind.text == open_classes[-1]:
                open_classes.pop()
            elif word.text in READ_ANNOTATIONS and behind.text == "(" and before in ("(", ","):
                self.words.p = k + 1
                inside = self.annotations.setdefault(".".join(open_classes), {})
                inside[word.text] = self.words.modifications() or Modification(word.at)


def _library_path() -> list[str]:
    return [part for part in os.environ.get("MODELICAPATH", "").split(os.pathsep) if part]


def _message(source: Source, text: str) -> str:
    """What rumoca says, in one line that begins with file and line where it tells them."""
    first = text.partition("\n")[0]
    place = _PLACE.search(text)
    if place is None:
        return f"{source.file}: rumoca: {first}"
    file = source.file if place[1].endswith(("input.mo", "<string>")) else place[1]
    return f"{file}:{place[2]}: rumoca: {_PLACE.sub('', first).strip()}"


class _Tree:
    """The parts of rumoca's flat form as nodes of the syntax tree."""

    def __init__(self, source: Source, flat: Node, files: Iterable[tuple[int, str, str]]) -> None:
        self.source, self.flat = source, flat
        self._begins = {number: source.add(text, file) for number, file, text in files}
        self._records: dict[str, Node] = flat["record_instances"]
        self._literals: dict[str, int] = flat["enum_literal_ordinals"]

    def at(self, node: Node) -> int:
        """The place of a node in the texts."""
        span: Node = node.get("span") or node.get("source_span") or {}
        return self._begins.get(span.get("source", 0), 0) + int(span.get("start", 0))

    def definition(self, name: str) -> ClassDefinition:
        flat = self.flat
        root = ClassDefinition(0, "package", "")
        definition = ClassDefinition(0, "model", name, flat["model_description"] or "", parent=root)
        root.classes[name] = definition
        for function in flat["functions"].values():
            root.classes[function["name"]] = self.function(function, root)
        definition.elements = [self.component(item) for item in flat["variables"].values()]
        definition.equations = [self.equation(item) for item in flat["equations"]]
        definition.equations += [self.assertion(item) for item in flat["assert_equations"]]
        definition.equations += [self.when(item) for item in flat["when_chains"]]
        definition.algorithms = [self.statements(item["statements"]) for item in flat["algorithms"]]
        definition.initial = [self.equation(item) for item in flat["initial_equations"]]
        definition.initial += [self.assertion(item) for item in flat["initial_assert_equations"]]
        return definition

    # Declarations

    def component(self, item: Node) -> Component:
        at, shown = self.at(item), item["name"]
        kind = self.flat["variable_type_names"].get(shown, "Real")
        variability = _word(item["variability"])
        causality = _word(item["causality"])
        parts = {
            word: Modification(at, self.expression(item[word]))
            for word in ("min", "max")
            if item[word] is not None
        }
        if item["unit"]:
            parts["unit"] = Modification(at, syntax.Text(at, item["unit"]))
        if item["start"] is not None and not variability and self.at(_inner(item["start"])) != at:
            parts["start"] = Modification(at, self.expression(item["start"]))
        if item["fixed"]:
            truths = [syntax.Truth(at, truth) for truth in item["fixed"]]
            whole = truths[0] if len(truths) == 1 else syntax.Array(at, [*truths])
            parts["fixed"] = Modification(at, whole)
        value = None if item["binding"] is None else self.expression(item["binding"])
        return Component(
            at,
            shown,
            Name(at, [(kind if kind in _TYPES else "Integer", [])]),
            [syntax.Number(at, str(size)) for size in item["dims"]],
            Modification(at, value, parts),
            variability if variability in ("parameter", "constant") else "",
            causality if causality in ("input", "output") else "",
        )

    def function(self, item: Node, root: ClassDefinition) -> ClassDefinition:
        """A function; an external one is refused where it is called."""
        at = self.at(item)
        kind = "record" if item["is_constructor"] else "function"
        function = ClassDefinition(at, kind, item["name"], parent=root)
        for causality in ("inputs", "outputs", "locals"):
            for part in item[causality]:
                default = part["default"]
                place = self.at(part)
                value = None if default is None else Modification(place, self.expression(default))
                sizes = [self.subscript(size) for size in part["shape_expr"]]
                kind = part["type_name"] if part["type_name"] in _TYPES else "Real"
                word = "" if causality == "locals" else causality[:-1]
                name = Name(place, [(kind, [])])
                function.elements.append(Component(place, part["name"], name, sizes, value, "", word))
        function.external = item["external"] is not None
        function.algorithms = [self.statements(item["body"])]
        return function

    # Equations

    def equation(self, item: Node) -> syntax.Equal | syntax.Connect:
        at, residual = self.at(item), item["residual"]
        origin = item["origin"]
        if ends := origin.get("Connection"):
            names = [Name(at, [(ends[side], [])]) for side in ("lhs", "rhs")]
            if self.flat["variable_type_names"].get(ends["lhs"], "Real") != "Real":
                return syntax.Connect(at, *names)  # Which side has a value is looked for.
        where = origin.get("ComponentEquation", origin.get("Algorithm", {})).get("component", "")
        note = f"{where}: line {self.source.line(at)}" if where else ""
        binary = residual.get("Binary")
        if binary is None or binary["op"] != "Sub":
            return syntax.Equal(at, self.expression(residual), syntax.Zeros(at), note)
        return syntax.Equal(at, self.expression(binary["lhs"]), self.expression(binary["rhs"]), note)

    def assertion(self, item: Node) -> syntax.Assertion:
        at = self.at(item)
        level = [] if item.get("level") is None else [self.expression(item["level"])]
        arguments = [self.expression(item["condition"]), self.expression(item["message"]), *level]
        return syntax.Assertion(at, Call(at, Name(at, [("assert", [])]), arguments, {}))

    def when(self, item: Node) -> syntax.When:
        clauses = [item["first"], *item["else_when"]]
        return syntax.When(
            self.at(item),
            [(self.expression(part["condition"]), self.changes(part["equations"])) for part in clauses],
        )

    def changes(self, items: Iterable[Node]) -> list[syntax.Equation]:
        """The equations in a when-equation."""
        return [_CHANGES[kind](self, item) for node in items for kind, item in node.items()]

    # Expressions

    def expression(self, node: Node) -> Expression:
        ((kind, item),) = node.items()
        if kind not in _EXPRESSIONS:
            self.source.fail(
                self.at(item), f"{kind} of rumoca is not understood here; write it in another way"
            )
        return _EXPRESSIONS[kind](self, item)

    def binary(self, item: Node) -> Expression:
        at, (sign, precedence) = self.at(item), _OPERATORS[item["op"]]
        behind = [(sign, item["rhs"])]
        left: Node = item["lhs"]
        while precedence in _CHAINED and "Binary" in left:
            sign, other = _OPERATORS[left["Binary"]["op"]]
            if other is not precedence:
                break
            behind.append((sign, left["Binary"]["rhs"]))
            left = left["Binary"]["lhs"]
        parts = [("", left), *behind[::-1]]
        return Operation(at, precedence, [(sign, self.expression(part)) for sign, part in parts])

    def unary(self, item: Node) -> Expression:
        at, inner = self.at(item), self.expression(item["rhs"])
        if item["op"] == "Not":
            return Operation(at, Precedence.NOT, [("not", inner)])
        return Operation(at, Precedence.SUM, [(_SIGNS[item["op"]], inner)])

    def literal(self, item: Node) -> Expression:
        at = self.at(item)
        ((kind, value),) = item["value"].items()
        if kind == "Boolean":
            return syntax.Truth(at, value)
        if kind == "String":
            return syntax.Text(at, value)
        if value and not LEAST <= abs(value) <= LARGEST:  # of floating-point numbers, as libraries have them
            value = math.copysign(LARGEST if abs(value) > 1.0 else LEAST, value)
        return syntax.Number(at, repr(value))

    def reference(self, item: Node) -> Expression:
        at, word = self.at(item), item["name"]["name"]
        if not item["subscripts"] and (record := self._records.get(word)) is not None:
            fields = self.flat["record_types"][str(record["type_def_id"])]["fields"]
            parts = {part["name"]: {**item, "name": {"name": f"{word}.{part['name']}"}} for part in fields}
            return syntax.Record(at, {name: self.reference(part) for name, part in parts.items()})
        if word in self._literals and not item["subscripts"]:
            if word.startswith("AssertionLevel."):
                return syntax.Text(at, word)
            return syntax.Number(at, str(self._literals[word]))
        return Name(at, [(word, [self.subscript(part) for part in item["subscripts"]])])

    def subscript(self, node: Node) -> Expression:
        ((kind, item),) = node.items()
        at = self.at(item)
        if kind == "Colon":
            return syntax.Every(at)
        return syntax.Number(at, str(item["value"])) if kind == "Index" else self.expression(item["expr"])

    def builtin(self, item: Node) -> Expression:
        word = item["function"]
        return self.called(item, word[0].lower() + word[1:])

    def called(self, item: Node, name: str) -> Call:
        at = self.at(item)
        return Call(at, Name(at, [(name, [])]), [self.expression(part) for part in item["args"]], {})

    def array(self, item: Node) -> Expression:
        at, parts = self.at(item), item["elements"]
        if item["kind"] != "Vertical":
            elements = [self.expression(part) for part in parts]
            return syntax.Array(at, elements) if item["kind"] == "Array" else syntax.Matrix(at, [elements])
        rows = [
            part["Array"]["elements"] if "Array" in part and part["Array"]["kind"] == "Horizontal" else [part]
            for part in parts
        ]
        return syntax.Matrix(at, [[self.expression(part) for part in row] for row in rows])

    def choice(self, item: Node) -> Expression:
        branches = [(self.expression(test), self.expression(value)) for test, value in item["branches"]]
        return syntax.If(self.at(item), branches, self.expression(item["else_branch"]))

    def range(self, item: Node) -> Expression:
        bounds = [item["start"], item["step"], item["end"]]
        return syntax.Range(self.at(item), [self.expression(part) for part in bounds if part is not None])

    def comprehension(self, item: Node) -> Expression:
        indices = [(index["name"], self.expression(index["range"])) for index in item["indices"]]
        return syntax.Array(self.at(item), [self.expression(item["expr"])], indices)

    def picked(self, item: Node) -> Expression:
        """Elements of an array, by its name where it has one."""
        base, subscripts = (
            self.expression(item["base"]),
            [self.subscript(part) for part in item["subscripts"]],
        )
        if isinstance(base, Name) and not base.parts[-1][1]:
            *before, (word, _) = base.parts
            return Name(base.at, [*before, (word, subscripts)])
        return syntax.Picked(self.at(item), base, subscripts)

    # Algorithms

    def statements(self, items: Iterable[Node]) -> list[syntax.Statement]:
        """The statements of an algorithm."""
        return [
            _STATEMENTS[kind](self, item) for node in items for kind, item in node.items() if kind != "Empty"
        ]

    def target(self, item: Node) -> Name:
        parts = [(part["ident"], [self.subscript(sub) for sub in part["subs"]]) for part in item["parts"]]
        return Name(self.at(item), parts)

    def blocks(self, items: Iterable[Node]) -> list[tuple[Expression, Any]]:
        return [(self.expression(item["cond"]), self.statements(item["stmts"])) for item in items]


_EXPRESSIONS: Final[dict[str, Callable[[_Tree, Node], Expression]]] = {
    "Binary": _Tree.binary,
    "Unary": _Tree.unary,
    "Literal": _Tree.literal,
    "VarRef": _Tree.reference,
    "BuiltinCall": _Tree.builtin,
    "FunctionCall": lambda tree, item: tree.called(item, item["name"]["name"]),
    "If": _Tree.choice,
    "Array": _Tree.array,
    "Tuple": lambda tree, item: syntax.Results(
        tree.at(item), [tree.expression(part) for part in item["elements"]]
    ),
    "Range": _Tree.range,
    "ArrayComprehension": _Tree.comprehension,
    "Index": _Tree.picked,
    "FieldAccess": lambda tree, item: syntax.Field(
        tree.at(item), tree.expression(item["base"]), item["field"]
    ),
    "Empty": lambda tree, item: syntax.Every(tree.at(item)),
    "StringConversion": lambda tree, item: syntax.Text(tree.at(item), "..."),
}


def _assigned(tree: _Tree, item: Node, word: str = "target", reinit: bool = False) -> syntax.Equal:
    at = tree.at(item)
    return syntax.Equal(at, Name(at, [(item[word], [])]), tree.expression(item["value"]), reinit=reinit)


def _conditional(tree: _Tree, item: Node) -> syntax.IfEquation:
    branches = [(tree.expression(test), tree.changes(part)) for test, part in item["branches"]]
    return syntax.IfEquation(tree.at(item), branches, tree.changes(item["else_branch"]))


def _terminated(tree: _Tree, item: Node) -> syntax.Assertion:
    at = tree.at(item)
    return syntax.Assertion(
        at, Call(at, Name(at, [("terminate", [])]), [tree.expression(item["message"])], {})
    )


def _results(tree: _Tree, item: Node) -> syntax.Equal:
    at = tree.at(item)
    names: list[Expression] = [Name(at, [(name, [])]) for name in item["outputs"]]
    return syntax.Equal(at, syntax.Results(at, names), tree.expression(item["function"]))


_CHANGES: Final[dict[str, Callable[[_Tree, Node], syntax.Equation]]] = {
    "Assign": _assigned,
    "Reinit": lambda tree, item: _assigned(tree, item, "state", True),
    "Assert": _Tree.assertion,
    "Terminate": _terminated,
    "Conditional": _conditional,
    "FunctionCallOutputs": _results,
}


def _called_for_results(tree: _Tree, item: Node) -> syntax.Statement:
    at = tree.at(item)
    name = ".".join(part["ident"] for part in item["comp"]["parts"])
    call = tree.called(item, name)
    return syntax.Assignment(at, syntax.Results(at, [tree.target(part) for part in item["outputs"]]), call)


_STATEMENTS: Final[dict[str, Callable[[_Tree, Node], syntax.Statement]]] = {
    "Assignment": lambda tree, item: syntax.Assignment(
        tree.at(item), tree.target(item["comp"]), tree.expression(item["value"])
    ),
    "If": lambda tree, item: syntax.IfEquation(
        tree.at(item), tree.blocks(item["cond_blocks"]), tree.statements(item["else_block"] or [])
    ),
    "For": lambda tree, item: syntax.For(
        tree.at(item),
        [(index["ident"], tree.expression(index["range"])) for index in item["indices"]],
        tree.statements(item["equations"]),
    ),
    "While": lambda tree, item: syntax.While(tree.at(item), *tree.blocks([item["block"]])[0]),
    "Return": lambda tree, item: syntax.Leave(tree.at(item), "return"),
    "Break": lambda tree, item: syntax.Leave(tree.at(item), "break"),
    "FunctionCall": _called_for_results,
    "When": lambda tree, item: syntax.When(tree.at(item), tree.blocks(item["blocks"])),
    "Reinit": lambda tree, item: syntax.Equal(
        tree.at(item), tree.target(item["variable"]), tree.expression(item["value"]), reinit=True
    ),
    "Assert": _Tree.assertion,
}


def _word(prefix: Any) -> str:
    """The word of a prefix such as parameter or input, empty without one."""
    return next(iter(prefix)).lower() if isinstance(prefix, dict) else ""


def _inner(node: Node) -> Node:
    item: Node
    (item,) = node.values()
    return item
