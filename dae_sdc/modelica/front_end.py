"""Modelica by rumoca: its flat form, of version 0.10.2, as the syntax tree that the own parser makes."""

from __future__ import annotations

import importlib
import math
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from dae_sdc.errors import InputError
from dae_sdc.modelica import syntax
from dae_sdc.modelica.arithmetic import FUNCTIONS
from dae_sdc.modelica.parser import CLASSES, MODELS, OPERATORS, READ_ANNOTATIONS, ClassParser
from dae_sdc.modelica.syntax import (
    CLOSING,
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

_Used = TypeVar("_Used")
Node: TypeAlias = dict[str, Any]  # A part of rumoca's form, mostly with its kind as the only key.

# What operators are in a text.
_OPERATORS: Final = dict(
    zip(
        "Add AddElem Sub SubElem Mul MulElem Div DivElem Exp ExpElem And Or Lt Le Gt Ge Eq Neq".split(),
        "+ + - - * .* / / ^ .^ and or < <= > >= == <>".split(),
        strict=True,
    )
)
_SIGNS: Final = {"Not": "not", "Minus": "-", "DotMinus": "-", "Plus": "+", "DotPlus": "+"}
# Operators whose operands stand in one list, as the parser leaves them.
_CHAINED: Final = (Precedence.SUM, Precedence.PRODUCT, Precedence.AND, Precedence.OR)
_TYPES: Final = ("Real", "Integer", "Boolean", "String")
# Words outside of brackets behind which an equation begins.
_BEGINNINGS: Final = (";", "equation", "algorithm", "loop")
_DERIVED: Final = re.compile(r"[\w']+\s*=\s*der\b")
_ASSERTS: Final = re.compile("assert|terminate")
# Where a message of rumoca says its place, [FILE:LINE:COLUMN].
_PLACE: Final = re.compile(r"\[([^\[\]\n]*):(\d+):\d+\]")


# rumoca reads a class of a library where the text that it is given has a class that extends that.
_WRAPPER: Final = "whole__"
_WITHIN: Final = re.compile(r"\s*within\s+([\w.]+)\s*;")


def _path_in(text: str, name: str) -> str:
    """The path of a class in a text that may lie within a package; empty if it can be no class there."""
    within = _WITHIN.match(text)
    around = f"{within[1]}." if within is not None else ""
    return name.removeprefix(around) if name.startswith(around) else ""


def compiled(
    source: Source, name: str, libraries: Sequence[str | Path], use: Callable[[Any], _Used]
) -> _Used:
    """What a function makes of rumoca's model of a class that a text, or a library, has."""
    try:
        rumoca = importlib.import_module("rumoca")
    except ImportError:
        raise InputError(f"{source.file} needs the reader rumoca: pip install 'dae_sdc[modelica]'") from None
    more = os.environ.get("MODELICAPATH", "").split(os.pathsep)
    roots = [str(path) for path in (*libraries, *filter(None, more))]
    for root in roots:
        if not Path(root).is_dir():
            raise InputError(f"the library {root} is no directory; give the one in which Modelica/ lies")
    text, word = source.text, name
    if _path_in(text, name) not in Outline(source).models:
        text, word = f"{text}\nmodel {_WRAPPER} extends {name}; end {_WRAPPER};", _WRAPPER
    try:
        return use(rumoca.Session(roots=roots).loads(text, model=word))
    except (rumoca.RumocaError, RuntimeError) as error:
        raise InputError(_message(source, str(error))) from None


def flattened(source: Source, name: str, libraries: Sequence[str | Path]) -> ClassDefinition:
    """The flat class of a model; behind it ``source`` has the texts of all files that rumoca read."""
    forms = compiled(source, name, libraries, lambda model: (model.to_dict("flat"), model.to_dict("dae")))
    flat, files = forms[0], forms[1]["source_map"]["files"]
    tree = _Tree(source, flat, files)
    definition = tree.definition(name)
    tree.require_asserts(files)
    definition.annotations = tree.annotations(name, files)
    return definition


@dataclass
class _Class:
    """A class of a text, as an :class:`Outline` sees it."""

    name: str
    begin: int
    end: int = 0
    # Each assertion in its if-equations, the place of its first argument, which may be read for it, and the
    # beginnings and the ends of the conditions around it.
    asserted: list[tuple[syntax.Token, int, list[list[tuple[int, int]]]]] = field(default_factory=list)


class Outline:
    """The models of a text, annotations and assertions, looked for without parsing what is in them."""

    def __init__(self, source: Source) -> None:
        self.words = ClassParser(source)
        self.models: dict[str, bool] = {}  # Whether each is partial, by its path.
        self.annotations: dict[str, dict[str, Modification]] = {}
        self.classes: list[_Class] = []  # The inner ones first.
        words, open_classes, around = self.words.tokens, list[_Class](), list[list[tuple[int, int]]]()
        section, depth, head, begins = "", 0, -1, True  # Where a condition begins; whether an equation does.
        for k, word in enumerate(words[:-1]):
            text, before, behind = word.text, words[k - 1].text if k else "", words[k + 1]
            section = text if text in ("equation", "algorithm") else section
            depth += (text in CLOSING) - (text in CLOSING.values())
            if begins and text in ("if", "elseif", "when", "elsewhen"):
                head = word.at
                if text in ("if", "when"):
                    around.append([])
            elif text == "end" and behind.text in ("if", "when") and around:
                around.pop()
            is_class = text in CLASSES and before != "end" and behind.kind in ("name", "quoted")
            is_head = bool(around) and text == "then" and depth == 0 and head >= 0
            if is_head:
                around[-1].append((head, word.at))
                head = -1
            elif text in ("assert", "terminate") and section == "equation" and around and open_classes:
                open_classes[-1].asserted.append((word, words[k + 2].at, [*around]))
            elif word.kind == "word" and is_class:
                path = ".".join([*(each.name for each in open_classes), behind.text])
                if text in MODELS:
                    self.models[path] = before == "partial"
                if words[k + 2].text != "=":
                    open_classes.append(_Class(behind.text, word.at))
            elif text == "end" and open_classes and behind.text == open_classes[-1].name:
                self.classes.append(open_classes.pop())
                self.classes[-1].end = word.at
            elif text in READ_ANNOTATIONS and behind.text == "(" and before in ("(", ","):
                self.words.p = k + 1
                inside = self.annotations.setdefault(".".join(each.name for each in open_classes), {})
                inside[text] = self.words.modifications() or Modification(word.at)
            begins = is_head or (begins and text == "else") or (depth == 0 and text in _BEGINNINGS)

    def lost(self, begin: int, places: Sequence[int], decided: Sequence[int]) -> Iterator[syntax.Token]:
        """The assertions at none of the places that were read, but where decided choices leave them out."""
        for whole in self.classes:
            is_used = _within(places, begin + whole.begin, begin + whole.end)
            for word, last, around in whole.asserted if is_used else ():
                left_out = all(
                    any(_within(decided, begin + first, begin + last) for first, last in parts)
                    for parts in around
                )
                if not left_out and not _within(places, begin + word.at, begin + last + 1):
                    yield word


def _within(numbers: Sequence[int], begin: int, end: int) -> bool:
    """Whether one of some sorted numbers lies between two."""
    return bisect_left(numbers, begin) < bisect_left(numbers, end)


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
        self._texts = {number: text for number, _, text in files}
        self.places: set[int] = set()  # Those of what was read.
        self._records: dict[str, Node] = flat["record_instances"]
        self._literals: dict[str, int] = flat["enum_literal_ordinals"]

    def at(self, node: Node) -> int:
        """The place of a node in the texts."""
        span: Node = node.get("span") or node.get("source_span") or {}
        at = self._begins.get(span.get("source", 0), 0) + int(span.get("start", 0))
        self.places.add(at)
        return at

    def require_asserts(self, files: Iterable[tuple[int, str, str]]) -> None:
        """Refuse an assertion that rumoca has lost, as it does in if-equations of unknowns."""
        places = sorted(self.places)
        decided = sorted({self.at(item) for item in self.flat.get("parameter_branch_selections", [])})
        for number, file, text in files:
            begin = self._begins[number]
            if _within(places, begin, begin + len(text)) and _ASSERTS.search(text):
                for word in Outline(Source(text, file)).lost(begin, places, decided):
                    what = f"rumoca loses {word.text} in an if-equation"
                    self.source.fail(begin + word.at, f"{what}; move it out of if")

    def annotations(self, name: str, files: Iterable[tuple[int, str, str]]) -> dict[str, Modification]:
        """The annotations of a class, which are those in the text that defines it."""
        annotations: dict[str, Modification] = {}
        for number, file, text in files:
            path = _path_in(text, name)
            if path and f"end {path.rpartition('.')[2]}" in text:
                parts, at = Outline(Source(text, file)).annotations.get(path, {}), self._begins[number]
                annotations |= {word: syntax.moved(part, at) for word, part in parts.items()}
        return annotations

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
        definition.algorithms = [self.read(item["statements"]) for item in flat["algorithms"]]
        definition.initial = [self.equation(item) for item in flat["initial_equations"]]
        definition.initial += [self.assertion(item) for item in flat["initial_assert_equations"]]
        definition.initial += [
            syntax.Algorithm(self.at(item), self.read(item["statements"]))
            for item in flat["initial_algorithms"]
        ]
        return definition

    # Declarations

    def component(self, item: Node) -> Component:
        at, shown = self.at(item), item["name"]
        kind = self.flat["variable_type_names"].get(shown, "Real")
        variability = _word(item["variability"])
        causality = _word(item["causality"])
        parts = {
            word: Modification(at, self.read(item[word]))
            for word in ("min", "max", "nominal")
            if item[word] is not None
        }
        if item["unit"]:
            parts["unit"] = Modification(at, syntax.Text(at, item["unit"]))
        is_value = not variability or item["binding"] is None
        if item["start"] is not None and is_value and self.at(next(iter(item["start"].values()))) != at:
            parts["start"] = Modification(at, self.read(item["start"]))
        elif kind not in _TYPES:  # of an enumeration
            parts["start"] = Modification(at, syntax.Number(at, "1"))
        if item["fixed"]:
            truths = [syntax.Truth(at, truth) for truth in item["fixed"]]
            whole = truths[0] if len(truths) == 1 else syntax.Array(at, [*truths])
            parts["fixed"] = Modification(at, whole)
        value = None if item["binding"] is None else self.read(item["binding"])
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
        at, span = self.at(item), item["span"]
        if _DERIVED.match(self._texts.get(span["source"], ""), span["start"]):
            self.source.fail(at, f"rumoca takes the derivative {item['name']} for its function; write it out")
        kind = "record" if item["is_constructor"] else "function"
        function = ClassDefinition(at, kind, item["name"], parent=root)
        for causality in ("inputs", "outputs", "locals"):
            for part in item[causality]:
                default = part["default"]
                place = self.at(part)
                value = None if default is None else Modification(place, self.read(default))
                sizes = self.read(part["shape_expr"])
                kind = part["type_name"] if part["type_name"] in _TYPES else "Real"
                word = "" if causality == "locals" else causality[:-1]
                name = Name(place, [(kind, [])])
                function.elements.append(Component(place, part["name"], name, sizes, value, "", word))
        function.external = item["external"] is not None
        # In version 3 of the library elementary functions are external ones.
        function.built_in = function.external and function.name.removeprefix("Modelica.Math.") in FUNCTIONS
        function.algorithms = [self.read(item["body"])]
        return function

    # Equations

    def equation(self, item: Node) -> syntax.Equal | syntax.Connect:
        at, residual = self.at(item), item["residual"]
        origin = item["origin"]
        if ends := origin.get("Connection"):
            if self.flat["variable_type_names"].get(ends["lhs"], "Real") != "Real":
                # Which side has a value is looked for.
                return syntax.Connect(at, self.read(ends["lhs"], at), self.read(ends["rhs"], at))
        where = origin.get("ComponentEquation", origin.get("Algorithm", {})).get("component", "")
        note = f"{where}: line {self.source.line(at)}" if where else ""
        binary = residual.get("Binary")
        if binary is None or binary["op"] != "Sub":
            return syntax.Equal(at, self.read(residual), syntax.Zeros(at), note)
        return syntax.Equal(at, self.read(binary["lhs"]), self.read(binary["rhs"]), note)

    def assertion(self, item: Node) -> syntax.Assert:
        """An assertion, or the end of a run with a message."""
        name = "assert" if "condition" in item else "terminate"
        parts = (item.get(word) for word in ("condition", "message", "level"))
        return syntax.Assert(self.at(item), self.call(item, name, [part for part in parts if part]))

    def when(self, item: Node) -> syntax.When:
        clauses = [item["first"], *item["else_when"]]
        branches = [(self.read(part["condition"]), self.read(part["equations"])) for part in clauses]
        return syntax.When(self.at(item), branches)

    def reset(self, item: Node) -> syntax.Equal:
        at = self.at(item)
        state = self.read(item.get("state") or item["variable"], at)
        return syntax.Equal(at, state, self.read(item["value"]), reinit=True)

    # Expressions and statements

    def read(self, part: Any, at: int = 0) -> Any:
        """A part of rumoca's form in the syntax tree: a node, a name, or several of them."""
        if isinstance(part, str):
            return Name(at, [(part, [])])
        if not isinstance(part, dict):
            parts = (each for each in part or () if not isinstance(each, dict) or "Empty" not in each)
            return [self.read(each, at) for each in parts]
        if "parts" in part:
            return Name(self.at(part), [(each["ident"], self.read(each["subs"])) for each in part["parts"]])
        if "cond" in part:
            return self.read(part["cond"]), self.read(part["stmts"])
        if "range" in part:
            return part.get("name") or part["ident"], self.read(part["range"])
        ((kind, item),) = part.items()
        if kind in _READERS:
            return _READERS[kind](self, item)
        at = self.at(item)
        for make, *words in _FORMS.get(kind, ()):
            if all(word in item for word in words):
                return make(at, *(self.read(item[word], at) for word in words))
        self.source.fail(at, f"{kind} of rumoca is not understood here; write it in another way")

    def binary(self, item: Node) -> Expression:
        at, sign = self.at(item), _OPERATORS[item["op"]]
        behind, precedence = [(sign, item["rhs"])], OPERATORS[sign]
        left: Node = item["lhs"]
        while precedence in _CHAINED and "Binary" in left:
            sign = _OPERATORS[left["Binary"]["op"]]
            if OPERATORS[sign] is not precedence:
                break
            behind.append((sign, left["Binary"]["rhs"]))
            left = left["Binary"]["lhs"]
        parts = [("", left), *behind[::-1]]
        return Operation(at, precedence, [(sign, self.read(part)) for sign, part in parts])

    def unary(self, item: Node) -> Expression:
        sign = _SIGNS[item["op"]]
        precedence = Precedence.NOT if sign == "not" else Precedence.SUM
        return Operation(self.at(item), precedence, [(sign, self.read(item["rhs"]))])

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
        return Name(at, [(word, self.read(item["subscripts"]))])

    def call(self, item: Node, name: str, arguments: list[Node]) -> Call:
        at = self.at(item)
        return Call(at, self.read(name, at), self.read(arguments), {})

    def builtin(self, item: Node) -> Expression:
        word = item["function"]
        return self.call(item, word[0].lower() + word[1:], item["args"])

    def function_call(self, item: Node) -> Expression | syntax.Equal:
        """A call of a function, or the statement that assigns its results."""
        if "outputs" not in item:
            return self.call(item, item["name"]["name"], item["args"])
        at, target = self.at(item), item["comp"]
        name = target.get("name") or ".".join(part["ident"] for part in target["parts"])
        results = syntax.Results(at, self.read(item["outputs"]))
        return syntax.Equal(at, results, self.call(item, name, item["args"]))

    def array(self, item: Node) -> Expression:
        at, parts = self.at(item), item["elements"]
        if item["kind"] == "Array":
            return syntax.Array(at, self.read(parts))
        rows = (
            [parts]
            if item["kind"] != "Vertical"
            else [
                part["Array"]["elements"]
                if "Array" in part and part["Array"]["kind"] == "Horizontal"
                else [part]
                for part in parts
            ]
        )
        return syntax.Matrix(at, self.read(rows))

    def picked(self, item: Node) -> Expression:
        """Elements of an array, by its name where it has one; or a number as a subscript."""
        if "value" in item:
            return syntax.Number(self.at(item), str(item["value"]))
        base, subscripts = self.read(item["base"]), self.read(item["subscripts"])
        if isinstance(base, Name) and not base.parts[-1][1]:
            *before, (word, _) = base.parts
            return Name(base.at, [*before, (word, subscripts)])
        return syntax.Picked(self.at(item), base, subscripts)


# What is read in a way of its own, by its kind.
_READERS: Final[dict[str, Callable[[_Tree, Node], Any]]] = {
    "Binary": _Tree.binary,
    "Unary": _Tree.unary,
    "Literal": _Tree.literal,
    "VarRef": _Tree.reference,
    "BuiltinCall": _Tree.builtin,
    "FunctionCall": _Tree.function_call,
    "Array": _Tree.array,
    "Index": _Tree.picked,
    "Assert": _Tree.assertion,
    "Terminate": _Tree.assertion,
    "Reinit": _Tree.reset,
    "Expr": lambda tree, item: tree.read(item["expr"]),
    "Tuple": lambda tree, item: syntax.Results(tree.at(item), [*map(tree.read, item["elements"])]),
    "FieldAccess": lambda tree, item: syntax.Field(tree.at(item), tree.read(item["base"]), item["field"]),
    "Range": lambda tree, item: syntax.Range(
        tree.at(item), tree.read([item[word] for word in ("start", "step", "end") if item[word] is not None])
    ),
    "ArrayComprehension": lambda tree, item: syntax.Array(
        tree.at(item), [tree.read(item["expr"])], tree.read(item["indices"])
    ),
    "FunctionCallOutputs": lambda tree, item: syntax.Equal(
        tree.at(item), syntax.Results(tree.at(item), tree.read(item["outputs"])), tree.read(item["function"])
    ),
}
# Every other kind with the nodes that it may become, each with the parts of rumoca's form in its order.
_FORMS: Final[dict[str, list[tuple[Any, ...]]]] = {
    "If": [(syntax.If, "branches", "else_branch"), (syntax.IfEquation, "cond_blocks", "else_block")],
    "Conditional": [(syntax.IfEquation, "branches", "else_branch")],
    "Empty": [(syntax.Every,)],
    "Colon": [(syntax.Every,)],
    "StringConversion": [(partial(syntax.Text, value="..."),)],
    "Assign": [(syntax.Equal, "target", "value")],
    "Assignment": [(syntax.Equal, "comp", "value")],
    "For": [(syntax.For, "indices", "equations")],
    "While": [(lambda at, block: syntax.While(at, *block), "block")],
    "When": [(partial(syntax.When, in_algorithm=True), "blocks")],
    "Return": [(partial(syntax.Leave, word="return"),)],
    "Break": [(partial(syntax.Leave, word="break"),)],
}


def _word(prefix: Any) -> str:
    """The word of a prefix such as parameter or input, empty without one."""
    return next(iter(prefix)).lower() if isinstance(prefix, dict) else ""
