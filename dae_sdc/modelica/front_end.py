"""Modelica by rumoca: its flat form, of version 0.10.2, as the syntax tree that the own parser makes."""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from dae_sdc.errors import InputError
from dae_sdc.modelica import syntax
from dae_sdc.modelica.arithmetic import FUNCTIONS
from dae_sdc.modelica.library import STANDARD, TABLE_BLOCKS, TABLES
from dae_sdc.modelica.outline import Outline, within
from dae_sdc.modelica.parser import OPERATORS, PAIRS, PREFIXES
from dae_sdc.modelica.syntax import ClassDefinition, Expression, Modification, Name, Precedence, Source
from dae_sdc.sharing import tell

LARGEST, LEAST = 1e60, 1e-60  # Numbers beyond these stand for all that are too large, or too small.

_Used = TypeVar("_Used")
Node: TypeAlias = dict[str, Any]  # A part of rumoca's form, mostly with its kind as the only key.

# What operators are in a text.
_OPERATORS: Final = dict(
    zip(
        "Add AddElem Sub SubElem Mul MulElem Div DivElem Exp ExpElem And Or Lt Le Gt Ge Eq Neq Not Minus "
        "DotMinus Plus DotPlus".split(),
        "+ + - - * .* / / ^ .^ and or < <= > >= == <> not - - + +".split(),
        strict=True,
    )
)
_TYPES: Final = ("Real", "Integer", "Boolean", "String")
_DERIVED: Final = re.compile(r"[\w']+\s*=\s*der\b")
_ASSERTS: Final = re.compile("assert|terminate")
# Where a message of rumoca says its place, [FILE:LINE:COLUMN].
_PLACE: Final = re.compile(r"\[([^\[\]\n]*):(\d+):\d+\]")
# What is quoted in a message of rumoca, which may be a name of the text.
_QUOTED: Final = re.compile("['`]([A-Za-z_][\\w.]*)")

# rumoca reads a class of a library, or with other values of its parameters, where a class extends that.
_WRAPPER: Final = "whole__"
_WITHIN: Final = re.compile(r"\s*within\s+([\w.]+)\s*;")
_NAME: Final = "<text>"  # Of a text that is in no directory, whose other files would be read, too.
_STANDARD: Final = re.compile(r"\bModelica\s*\.")
_TABLES: Final = re.compile(r"\bModelica\.Blocks\.(?:Tables\.CombiTable[12]D[sv]?|Sources\.CombiTimeTable)\b")
_DEFINED: Final = re.compile(r"\bpackage\s+Modelica\b")


def _around(text: str) -> str:
    """The package within which a text lies, with a dot behind it; empty without one."""
    return f"{inside[1]}." if (inside := _WITHIN.match(text)) is not None else ""


def compiled(
    outline: Outline,
    name: str,
    libraries: Sequence[str | Path],
    use: Callable[[Any], _Used],
    numbers: Mapping[str, float] = {},
) -> _Used:
    """What a function makes of rumoca's model of a class that a text, or a library, has."""
    import rumoca  # which takes time, and is for texts that the own reader does not understand

    more = os.environ.get("MODELICAPATH", "").split(os.pathsep)
    roots = [str(path) for path in (*libraries, *filter(None, more))]
    for root in roots:
        if not Path(root).is_dir():
            raise InputError(f"the library {root} is no directory; give the one in which Modelica/ lies")
    text, word = outline.source.text, name
    outline.check()
    is_there = _DEFINED.search(text) or any([*Path(root).glob("Modelica*")] for root in roots)
    lacks_standard = not is_there and _STANDARD.search(text)
    if lacks_standard or (_TABLES.search(text) and not _DEFINED.search(text)):  # external in the library
        text = _TABLES.sub(lambda match: match[0].replace(".", "_"), text) + "\n" + TABLE_BLOCKS
    if lacks_standard:
        types = STANDARD.partition("package SI\n")[2].partition("end SI;")[0]  # which it does not inherit
        text += "\n" + STANDARD.replace("extends Modelica.Units.SI;", types)
    around = _around(text)
    if name not in {f"{around}{path}" for path in outline.models}:
        text, word = f"{text}\nmodel {_WRAPPER} extends {name}; end {_WRAPPER};", f"{around}{_WRAPPER}"
    session = rumoca.Session(roots=roots)
    try:
        model = session.loads(text, model=word, filename=_NAME)
        if numbers:
            flat = model.to_dict("flat")
            for k, changed in enumerate(filter(None, (_modified(flat, *item) for item in numbers.items()))):
                text += f"\nmodel {_WRAPPER}{k} extends {word}({changed}); end {_WRAPPER}{k};"
                word = f"{around}{_WRAPPER}{k}"
            model = session.loads(text, model=word, filename=_NAME)
        return use(model)
    except (rumoca.RumocaError, RuntimeError) as error:
        checked = [each.message for each in rumoca.validate_source(outline.source.text, filename=_NAME)]
        raise InputError(_message(outline, name, str(error), checked)) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise InputError(_message(outline, name, f"it fails inside of itself: {error}", [])) from None


def _modified(flat: Node, name: str, number: float) -> str:
    """The modification by which a parameter has another value; empty for a part of an array."""
    kind = flat["variable_type_names"].get(name, "Real")
    literals = (word for word, k in flat["enum_literal_ordinals"].items() if k == number)
    texts = {"Real": repr(float(number)), "Integer": f"{number:.0f}", "Boolean": str(bool(number)).lower()}
    text = texts.get(kind) or next((word for word in literals if word.startswith(f"{kind}.")), "")
    is_known = name in flat["variables"] and "[" not in name and not flat["variable_final_flags"].get(name)
    if not (text and is_known and math.isfinite(number)):
        return ""
    *around, last = name.split(".")
    return f"{'('.join([*around, last])} = {text}{')' * len(around)}"


def flattened(
    outline: Outline, name: str, libraries: Sequence[str | Path], numbers: Mapping[str, float]
) -> tuple[ClassDefinition, set[str]]:
    """The flat class of a model, behind whose text there are all others, and parameters it has put in."""
    forms = compiled(outline, name, libraries, lambda it: (it.to_dict("flat"), it.to_dict("dae")), numbers)
    (flat, equations), source = forms, outline.source
    finals, tree = flat["variable_final_flags"], _Tree(source, flat, equations["source_map"]["files"])
    definition = tree.definition(name)
    tree.require_asserts()
    definition.annotations = tree.annotations(name)
    structural = {word for word in flat["variables"] if word.rpartition(".")[2] in outline.conditions}
    for word, variable in flat["variables"].items():
        if variable["evaluate"] and (word not in finals or "Literal" in (variable["binding"] or {})):
            structural.add(word)  # whose value may stand in that of others
    for evaluated in flat.get("parameter_branch_selections", []):
        structural.update(*evaluated["references"])
    for word in sorted(structural & numbers.keys()):
        if "[" in word or finals.get(word):
            raise InputError(f"{source.file}: {word} decides what there is; write its value into the text")
    return definition, structural


def _first(text: str, name: str) -> int | None:
    """Where a name, or that of the component that it begins with, stands first in a text."""
    words = (name, re.split(r"[.\[]", name)[0])
    matches = (re.search(rf"(?<![\w.]){re.escape(word)}\b", text) for word in words)
    return next((match.start() for match in matches if match is not None), None)


def _message(outline: Outline, name: str, text: str, more: Iterable[str]) -> str:
    """What rumoca says, in one line with file and line: those of a name in it where it tells none."""
    source = outline.source
    first, last = text.partition("\n")[0].partition("; unknowns[")[0], source.line(len(source.text))
    what = f"rumoca: {' '.join(_PLACE.sub('', first).split())}"
    for place in filter(None, map(_PLACE.search, (text, *more))):
        if place[1] != _NAME or int(place[2]) <= last:
            return f"{place[1].replace(_NAME, source.file)}:{place[2]}: {what}"
    begins = {path.rpartition(".")[2]: each.at for path, each in outline.classes.items()}
    places = (_first(source.text, word) for word in _QUOTED.findall(first) if word not in begins)
    at = next((at for at in places if at is not None), begins.get(name.rpartition(".")[2], 0))
    return str(source.error(at, what))


class _Tree:
    """The parts of rumoca's flat form as nodes of the syntax tree."""

    def __init__(self, source: Source, flat: Node, files: Sequence[tuple[int, str, str]]) -> None:
        self.source, self.flat, self.files = source, flat, files
        # What is added to the text itself stands behind it.
        self._begins = {k: 0 if file == _NAME else source.add(text, file) for k, file, text in files}
        self._texts = {number: text for number, _, text in files}
        # The places of rumoca count bytes: where each character ends.
        self._ends = {k: [*accumulate(len(c.encode()) for c in t)] for k, _, t in files if not t.isascii()}
        self._whole = ""  # The component whose declaration, or equation, is read.
        self.places: set[int] = set()  # Those of what was read.
        self._connectors = defaultdict[str, dict[str, bool]](dict)  # What each has, and whether it is a flow.
        for name, variable in flat["variables"].items():
            whole, _, word = name.rpartition(".")
            self._connectors[whole][word] = variable["flow"]

    def at(self, node: Node) -> int:
        span: Node = node.get("span") or node.get("source_span") or {}
        number, start = span.get("source", 0), int(span.get("start", 0))
        begin, ends = self._begins.get(number, 0), self._ends.get(number)
        start = start if ends is None else bisect_right(ends, start)
        if begin == 0 and start > len(self.source.text):
            return _first(self.source.text, self._whole) or 0
        self.places.add(begin + start)
        return begin + start

    def require_asserts(self) -> None:
        """Refuse, or tell of a library, an assertion that rumoca loses as it does in if-equations."""
        read = sorted(self.places)
        decided = sorted({self.at(item) for item in self.flat.get("parameter_branch_selections", [])})
        for number, file, text in self.files:
            begin = self._begins[number]
            if within(read, begin, begin + len(text)) and _ASSERTS.search(text):
                places = ([at - begin for at in numbers] for numbers in (read, decided))
                for lost in Outline(Source(text, file)).lost(*places):
                    what = f"rumoca loses {lost.call.function} in an if-equation"
                    if not begin:
                        self.source.fail(lost.at, f"{what}; move it out of if")
                    tell(str(self.source.error(begin + lost.at, f"{what}, which is not watched")))

    def annotations(self, name: str) -> dict[str, Modification]:
        """The annotations of a class, which are those in the text that defines it."""
        annotations: dict[str, Modification] = {}
        for number, file, text in self.files:
            if name.startswith(_around(text)) and f"end {name.rpartition('.')[2]}" in text:
                read = Outline(Source(text, file)).classes.get(name.removeprefix(_around(text)))
                annotations |= syntax.moved(read.annotations if read else {}, self._begins[number])
        return annotations

    def definition(self, name: str) -> ClassDefinition:
        flat = self.flat
        root = ClassDefinition(0, "package", "")
        definition = ClassDefinition(0, "model", name, flat["model_description"] or "", parent=root)
        root.classes[name] = definition
        for function in flat["functions"].values():
            root.classes[function["name"]] = self.function(function, root)
        definition.elements = [self.component(item) for item in flat["variables"].values()]
        definition.equations = [*self.equations(""), *map(self.when, flat["when_chains"])]
        definition.algorithms = [self.read(item["statements"]) for item in flat["algorithms"]]
        definition.initial = self.equations("initial_")
        for item in flat["initial_algorithms"]:
            definition.initial.append(syntax.Algorithm(self.at(item), self.read(item["statements"])))
        return definition

    def component(self, item: Node) -> syntax.Component:
        self._whole = shown = item["name"]
        at = self.at(item)
        kind = self.flat["variable_type_names"].get(shown, "Real")
        prefixes = (item[word] for word in ("variability", "causality"))
        variability, causality = (next(iter(p)).lower() if isinstance(p, dict) else "" for p in prefixes)
        known = [word for word in ("min", "max", "nominal") if item[word] is not None]
        parts = {word: Modification(at, self.read(item[word])) for word in known}
        if item["unit"]:
            parts["unit"] = Modification(at, syntax.Text(at, item["unit"]))
        is_value = not variability or item["binding"] is None
        if item["start"] is not None and is_value and self.at(next(iter(item["start"].values()))) != at:
            parts["start"] = Modification(at, self.read(item["start"]))
        elif kind not in _TYPES:  # of an enumeration
            parts["start"] = Modification(at, syntax.Number(at, "1"))
        if truths := [syntax.Truth(at, truth) for truth in item["fixed"] or ()]:
            parts["fixed"] = Modification(at, truths[0] if len(truths) == 1 else syntax.Array(at, [*truths]))
        return syntax.Component(
            at,
            shown,
            Name(at, [(kind if kind in _TYPES else "Integer", [])]),
            [syntax.Number(at, str(size)) for size in item["dims"]],
            Modification(at, None if item["binding"] is None else self.bound(item), parts),
            variability if variability in ("parameter", "constant") else "",
            causality if causality in ("input", "output") else "",
        )

    def bound(self, item: Node) -> Expression:
        """The value of a variable; rumoca puts in that of R where a part is modified by R = R."""
        *around, word = item["name"].split(".")
        for k in reversed(range(len(around) if item["binding_from_modification"] else 0)):
            outer = ".".join([*around[:k], word])
            if self.flat["variables"].get(outer, {}).get("binding") == item["binding"]:
                return Name(self.at(item), [(outer, [])])
        value: Expression = self.read(item["binding"])
        return value

    def function(self, item: Node, root: ClassDefinition) -> ClassDefinition:
        """A function; an external one is refused where it is called."""
        at, span = self.at(item), item["span"]
        if _DERIVED.match(self._texts.get(span["source"], ""), span["start"]):
            self.source.fail(at, f"rumoca takes the derivative {item['name']} for its function; write it out")
        kind = "record" if item["is_constructor"] else "function"
        function = ClassDefinition(at, kind, item["name"], parent=root)
        for key, causality in (("inputs", "input"), ("outputs", "output"), ("locals", "")):
            for part in item[key]:
                default, place, sizes = part["default"], self.at(part), self.read(part["shape_expr"])
                value = None if default is None else Modification(place, self.read(default))
                is_known = part["type_name"] in (*_TYPES, *self.flat["functions"])  # those of records as well
                type_name = Name(place, [(part["type_name"] if is_known else "Real", [])])
                component = syntax.Component(place, part["name"], type_name, sizes, value, "", causality)
                function.elements.append(component)
        function.external = item["external"] is not None
        # In version 3 of the library elementary functions are external ones.
        short = function.name.removeprefix("Modelica.Math.")
        function.built_in = function.external and short in (*FUNCTIONS, *TABLES)
        function.algorithms = [self.read(item["body"])]
        return function

    def equations(self, section: str) -> list[syntax.Equation]:
        """The equations of a section; of loops rumoca has the first two equations, and the form of all."""
        equations: list[syntax.Equation] = [*map(self.equation, self.flat[f"{section}equations"])]
        for loop in reversed(self.flat[f"{section}structured_equations"]):
            if loop["interiors_materialized"]:
                continue
            at, first, size = self.at(loop), loop["first_equation_index"], loop["equations_per_point"]
            indices = list[tuple[str, Expression]]()
            for each in loop["domain"]["binders"]:
                bounds = [syntax.Number(at, str(each[word])) for word in ("lower", "step", "upper")]
                indices.append((each["display_name"], syntax.Range(at, [*bounds])))
                size *= (each["upper"] - each["lower"]) // each["step"] + 1
            body = [self.equation({**loop, "residual": part}) for part in loop["template"]["body"]]
            equations[first : first + size] = [syntax.For(at, indices, body)]
        return [*equations, *map(self.assertion, self.flat[f"{section}assert_equations"])]

    def equation(self, item: Node) -> syntax.Equal | syntax.Connect:
        origin, residual = item["origin"], item["residual"]
        origins = origin.get("ComponentEquation", origin.get("Algorithm", {}))
        self._whole = where = origins.get("component", "")
        at = self.at(item)
        if ends := origin.get("Connection"):
            # rumoca connects the variables that both connectors have.
            first, second = (end.rpartition(".")[0] for end in (ends["lhs"], ends["rhs"]))
            one, other = self._connectors[first], self._connectors[second]
            if first and second and one.keys() != other.keys() and any((*one.values(), *other.values())):
                what = f"{first} and {second} have different variables; connect two connectors of one class"
                self.source.fail(_first(self.source.text, first) or 0, what)
            if self.flat["variable_type_names"].get(ends["lhs"], "Real") != "Real":
                # Which side has a value is looked for.
                return syntax.Connect(at, self.read(ends["lhs"], at), self.read(ends["rhs"], at))
        note = f"{where}: line {self.source.line(at)}" if where else ""
        binary = residual.get("Binary")
        if binary is None or binary["op"] != "Sub":
            whole = self.read(residual)
            zeros = syntax.Operation(at, Precedence.PRODUCT, [("", syntax.Number(at, "0")), ("", whole)])
            return syntax.Equal(at, whole, zeros, note)
        return syntax.Equal(at, self.read(binary["lhs"]), self.read(binary["rhs"]), note)

    def assertion(self, item: Node) -> syntax.Assert:
        name = "assert" if "condition" in item else "terminate"
        parts = (item.get(word) for word in ("condition", "message", "level"))
        return syntax.Assert(self.at(item), self.call(item, name, [part for part in parts if part]))

    def when(self, item: Node) -> syntax.When:
        clauses = [item["first"], *item["else_when"]]
        branches = [(self.read(part["condition"]), self.read(part["equations"])) for part in clauses]
        return syntax.When(self.at(item), branches)

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

    def operation(self, item: Node) -> Expression:
        at, sign = self.at(item), _OPERATORS[item["op"]]
        if "lhs" not in item:
            return syntax.Operation(at, PREFIXES[sign], [(sign, self.read(item["rhs"]))])
        precedence, left, parts = OPERATORS[sign], {"Binary": item}, list[tuple[str, Node]]()
        # All operands stand in one list, as the parser leaves them.
        while (inner := left.get("Binary")) and OPERATORS[sign := _OPERATORS[inner["op"]]] is precedence:
            parts.insert(0, (sign, inner["rhs"]))
            left = inner["lhs"]
            if precedence in PAIRS:
                break
        parts.insert(0, ("", left))
        return syntax.Operation(at, precedence, [(sign, self.read(part)) for sign, part in parts])

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
        if word in self.flat["enum_literal_ordinals"] and not item["subscripts"]:
            return syntax.Number(at, str(self.flat["enum_literal_ordinals"][word]))
        *around, last = [word] if word in self.flat["variables"] else word.split(".")  # before fields
        return Name(at, [*((each, []) for each in around), (last, self.read(item["subscripts"]))])

    def call(self, item: Node, name: str, arguments: list[Node]) -> syntax.Call:
        at = self.at(item)
        return syntax.Call(at, self.read(name, at), self.read(arguments), {})

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
        rows = [parts]
        if item["kind"] == "Vertical":
            inner = [part.get("Array", {}).get("kind") == "Horizontal" for part in parts]
            rows = [p["Array"]["elements"] if row else [p] for row, p in zip(inner, parts, strict=True)]
        return syntax.Matrix(at, self.read(rows))

    def picked(self, item: Node) -> Expression:
        """Elements of an array, by its name where it has one; or a number as a subscript."""
        if "value" in item:
            return syntax.Number(self.at(item), str(item["value"]))
        base, subscripts = self.read(item["base"]), self.read(item["subscripts"])
        if isinstance(base, Name) and not base.parts[-1][1]:
            *before, (word, _) = base.parts
            return Name(base.at, [*before, (word, subscripts)])
        return syntax.Selected(self.at(item), base, [("", subscripts)])


# What is read in a way of its own, by its kind.
_READERS: Final[dict[str, Callable[[_Tree, Node], Any]]] = {
    **dict.fromkeys(("Binary", "Unary"), _Tree.operation),
    "Literal": _Tree.literal,
    "VarRef": _Tree.reference,
    "FunctionCall": _Tree.function_call,
    "Array": _Tree.array,
    "Index": _Tree.picked,
    **dict.fromkeys(("Assert", "Terminate"), _Tree.assertion),
    "BuiltinCall": lambda tree, item: tree.call(
        item, item["function"][0].lower() + item["function"][1:], item["args"]
    ),
    "Expr": lambda tree, item: tree.read(item["expr"]),
    "Tuple": lambda tree, item: syntax.Results(tree.at(item), [*map(tree.read, item["elements"])]),
}
# Every other kind with the nodes that it may become, each with the parts of rumoca's form in its order.
_FORMS: Final[dict[str, list[tuple[Any, ...]]]] = {
    "If": [(syntax.If, "branches", "else_branch"), (syntax.If, "cond_blocks", "else_block")],
    "Conditional": [(syntax.If, "branches", "else_branch")],
    "Range": [(lambda at, *bounds: syntax.Range(at, [*filter(None, bounds)]), "start", "step", "end")],
    "ArrayComprehension": [(lambda at, part, *each: syntax.Array(at, [part], *each), "expr", "indices")],
    "FieldAccess": [(lambda at, base, name: syntax.Selected(at, base, name.parts), "base", "field")],
    "FunctionCallOutputs": [
        (lambda at, outputs, call: syntax.Equal(at, syntax.Results(at, outputs), call), "outputs", "function")
    ],
    **{kind: [(syntax.Every,)] for kind in ("Empty", "Colon")},
    "StringConversion": [(partial(syntax.Text, value="..."),)],
    "Reinit": [(partial(syntax.Equal, reinit=True), word, "value") for word in ("state", "variable")],
    "Assign": [(syntax.Equal, "target", "value")],
    "Assignment": [(syntax.Equal, "comp", "value")],
    "For": [(syntax.For, "indices", "equations")],
    "While": [(lambda at, block: syntax.While(at, *block), "block")],
    "When": [(partial(syntax.When, in_algorithm=True), "blocks")],
    **{word.title(): [(partial(syntax.Leave, word=word),)] for word in ("return", "break")},
}
