"""Parser of Modelica: from a text to its classes with their declarations and equations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from dae_sdc.modelica import syntax
from dae_sdc.modelica.arithmetic import FUNCTIONS
from dae_sdc.modelica.syntax import REFUSED_CALLS, Operation, Precedence, Words, shown

PAIRS: Final = (Precedence.COMPARISON, Precedence.POWER)  # Whose operators have two operands.
OPERATORS: Final = {
    "or": Precedence.OR,
    "and": Precedence.AND,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "<>"), Precedence.COMPARISON),
    **dict.fromkeys(("+", "-", ".+", ".-"), Precedence.SUM),
    **dict.fromkeys(("*", "/", ".*", "./"), Precedence.PRODUCT),
    **dict.fromkeys(("^", ".^"), Precedence.POWER),
}
PREFIXES: Final = {"not": Precedence.NOT, **dict.fromkeys(("-", "+", ".-", ".+"), Precedence.SUM)}
# Only scalars are divisors, so that ./ is the same as /; the dots of .* and .^ are kept.
_DOTTED: Final = {".-": "-", ".+": "+", "./": "/"}


class ExpressionParser(Words):
    """Parser of expressions; each method starts at the next word and stops after the last one it needs."""

    in_subscripts = 0  # In how many of them, where the size is called end.

    def expression(self) -> syntax.Expression:
        """An if-expression, a range, or operators and operands."""
        self.deeper()
        at, branches = self.now.at, []
        # A chain of if-expressions becomes one choice, without recursion.
        while self.takes("if"):
            branches += self.branches("elseif", self.expression)
            self.need("else", "of an if-expression; it needs a value for all cases")
        value = syntax.If(at, branches, self.expression()) if branches else self._operation()
        if self.takes(":"):
            bounds = [value, self._operation()]
            if self.takes(":"):
                bounds.append(self._operation())
            value = syntax.Range(value.at, bounds)
        self.depth -= 1
        return value

    def branches(self, again: str, part: Callable[[], Any]) -> list[tuple[syntax.Expression, Any]]:
        """Conditions with what stands behind each of them, the further ones behind the word ``again``."""
        branches: list[tuple[syntax.Expression, Any]] = []
        while not branches or self.takes(again):
            condition = self.expression()
            self.need("then", "behind a condition")
            branches.append((condition, part()))
        return branches

    def _operation(self, least: Precedence = Precedence.NONE) -> syntax.Expression:
        """An operand, with the operators behind it that bind more strongly than another one."""
        _, text, at = self.now
        if text not in PREFIXES:
            whole = self._primary()
        else:
            prefix = PREFIXES[text]
            if prefix is Precedence.NOT and least > prefix:
                self.fail("not behind an operator; put it in brackets")
            if prefix is Precedence.SUM and least >= prefix:
                self.fail(f"{text} behind {self.tokens[self.p - 1].text}; put what has a sign in brackets")
            self.take()
            whole = Operation(at, prefix, [(_DOTTED.get(text, text), self._operation(prefix))])
        operator = ""
        while (level := OPERATORS.get(self.now.text, Precedence.NONE)) > least:
            if self.now.text == "*" and self.behind.text == "*":
                self.fail("** is no operator of Modelica; write ^")
            if level in PAIRS and OPERATORS.get(operator) is level:
                self.fail(f"{self.now.text} behind {operator}; use brackets")
            operator = self.take().text
            part = _DOTTED.get(operator, operator), self._operation(level)
            if isinstance(whole, Operation) and whole.precedence is level and level not in PAIRS:
                whole.parts.append(part)
            else:
                whole = Operation(whole.at, level, [("", whole), part])
        return whole

    def _primary(self) -> syntax.Expression:
        kind, text, at = token = self.now
        if kind == "number":
            return syntax.Number(at, self.take().text)
        if kind in ("name", "quoted") or text in ("der", "initial") or text == ".":
            if text == "initial" and self.behind.text != "(":
                self.fail("an expression is missing before initial")
            name = self.name()
            return self._selected(at, self.call(name) if self.now.text == "(" else name)
        if kind == "text":
            return syntax.Text(at, self.string())
        if text in ("true", "false"):
            return syntax.Truth(at, self.take().text == "true")
        if self.takes("("):
            items: list[syntax.Expression] = []
            # Of several results some may be left out, or called _.
            while not items or self.takes(","):
                empty = self.takes("_") or self.now.text in ((",", ")") if items else (",",))
                items.append(syntax.Every(self.now.at if items else at) if empty else self.expression())
            self.close(")", at)
            if len(items) > 1:
                return syntax.Results(at, items)
            inner = self._selected(at, items[0])
            # A sum or product in brackets is one term, to which terms after the brackets are not appended.
            if isinstance(inner, Operation) and inner.precedence in (Precedence.SUM, Precedence.PRODUCT):
                return Operation(at, Precedence.SUM, [("", inner)])
            return inner
        if self.takes("{"):
            items = [] if self.now.text in ("}", ")") else self.listed(self.expression)
            indices = self.ranges(self.indices(), items) if items and self.takes("for") else []
            self.close("}", at)
            return syntax.Array(at, items, indices)
        if self.takes("["):
            rows = self.listed(lambda: self.listed(self.expression), ";")
            self.close("]", at)
            return syntax.Matrix(at, rows)
        if text == "end" and self.in_subscripts:
            return syntax.Name(at, [(self.take().text, [])])
        self.refuse()
        self.fail(f"an expression is missing before {shown(token)}")

    def _selected(self, at: int, whole: syntax.Expression) -> syntax.Expression:
        """What subscripts and words that are next select of a value; the value itself if there are none."""
        parts = [("", self.subscripts())]
        if self.takes("."):
            parts += self.parts(self.subscripts)
        return syntax.Selected(at, whole, parts) if parts != [("", [])] else whole

    def indices(self) -> list[tuple[str, syntax.Expression]]:
        """Names of indices with their ranges."""

        def index() -> tuple[str, syntax.Expression]:
            at, name = self.now.at, self.word("an index")
            return name, self.expression() if self.takes("in") else syntax.Every(at)

        return self.listed(index)

    def ranges(self, indices: list[tuple[str, syntax.Expression]], body: Any) -> list[Any]:
        """Indices with their ranges; one without has that of an array of which it is a subscript."""
        wanted = {word: where.at for word, where in indices if isinstance(where, syntax.Every)}
        implied = dict[str, syntax.Expression]()
        names = [part for part in syntax.parts_of(body) if isinstance(part, syntax.Name)] if wanted else []
        for whole, k in ((each, k) for each in names for k in range(len(each.parts))):
            (word, subscripts), at = whole.parts[k], whole.at
            for place, item in enumerate(subscripts, 1):
                if str(item) in wanted:
                    array = syntax.Name(at, [*whole.parts[:k], (word, [])])
                    size = syntax.Name(at, [("size", [])])
                    last = syntax.Call(at, size, [array, syntax.Number(at, str(place))], {})
                    implied[str(item)] = syntax.Range(at, [syntax.Number(at, "1"), last])
        for word in (word for word in wanted if word not in implied and not self.lenient):
            self.fail(f"the index {word} has no range; write for {word} in 1:n", wanted[word])
        return [(word, implied.get(word, where)) for word, where in indices]

    def call(self, name: syntax.Name) -> syntax.Call:
        """The call of a function, whose opening bracket is next."""
        begin = self.take().at
        call = syntax.Call(name.at, name, [], {})
        while self.now.text != ")":
            token = self.now
            if token.kind in ("name", "quoted") and self.behind.text == "=":
                self.p += 2
                if token.text in call.named:
                    self.fail(f"{token.text} gets two values; remove one", token.at)
                call.named[token.text] = self.expression()
            else:
                if self.lenient:
                    self.takes("function")
                if call.named:
                    self.fail("an argument without a name behind one with a name")
                argument = self.expression()
                if self.now.text == "$":  # t$2 in diff(x, t$2)
                    at = self.take().at
                    order = syntax.Name(at, [("$", [])])
                    argument = syntax.Call(at, order, [argument, self._primary()], {})
                elif self.takes("for"):
                    argument = syntax.Array(argument.at, [argument], self.ranges(self.indices(), argument))
                call.arguments.append(argument)
            if not self.takes(","):
                break
        self.close(")", begin)
        return call

    def name(self) -> syntax.Name:
        """A name with dots and subscripts, or one of the functions der and initial."""
        at = self.now.at
        self.takes(".")
        is_function = self.now.text in ("der", "initial")
        return syntax.Name(at, [(self.take().text, [])] if is_function else self.parts(self.subscripts))

    def parts(
        self, subscripts: Callable[[], list[syntax.Expression]] = list, what: str = "a name"
    ) -> syntax.NameParts:
        """The words of a name that have dots between them; ``subscripts`` reads what stands behind each."""
        parts = [(self.word(what), subscripts())]
        while self.takes("."):
            if len(parts) >= syntax.MOST_PARTS:
                self.fail(f"a name of more than {syntax.MOST_PARTS} parts; write it with fewer dots")
            parts.append((self.word("a name"), subscripts()))
        return parts

    def subscripts(self) -> list[syntax.Expression]:
        """The subscripts in the square brackets that are next; none if there are no brackets."""
        if self.now.text != "[":
            return []
        begin, self.in_subscripts = self.take().at, self.in_subscripts + 1
        subscripts = self.listed(
            lambda: syntax.Every(self.take().at) if self.now.text == ":" else self.expression()
        )
        self.close("]", begin)
        self.in_subscripts -= 1
        return subscripts


class EquationParser(ExpressionParser):
    """Parser of the equations in a section of a class, or of the statements of an algorithm."""

    in_algorithm = in_initial = in_when = False

    def equations(self, ends: tuple[str, ...] = ("elsewhen", "elseif", "else", "end")) -> list[Any]:
        """Equations or statements up to one of some words, which is not taken; by default the inner ones."""
        equations: list[Any] = []
        while self.now.kind != "end":
            # The function initial() is no section.
            is_section = self.now.text != "initial" or self.behind.text in ("equation", "algorithm")
            if self.now.text in ends and is_section:
                break
            equations.append(self._equation())
            self.skip_annotation()
            self.need(";", "behind an equation")
        return equations

    def _equation(self) -> syntax.Equation | syntax.Statement:
        self.refuse()
        at, text = self.now.at, self.now.text
        if text in ("assert", *REFUSED_CALLS) and self.behind.text == "(":
            is_there = self.in_when or (self.in_initial and text == "terminate") or self.lenient
            if text in REFUSED_CALLS and not is_there:
                self.fail(f"{text} stands in a when-equation; write when CONDITION then {text}(...) end when")
            call = self.call(self.name())
            if text != "reinit":
                return syntax.Assert(at, call)
            if len(call.arguments) != 2:
                self.fail("reinit takes a variable and its value", at)
            return syntax.Equal(at, call.arguments[0], call.arguments[1], reinit=True)
        if self.in_when and text in ("when", "connect") and not self.lenient:
            self.fail(f"{text} in a when-equation is not understood; write it around or behind it")
        if text in ("if", "for", "when", "while"):
            self.deeper()
            self.take()
            whole = self._nested(at, text)
            where = f"of the {text}-equation of line {self.source.line(at)}"
            self.need("end", where)
            self.need(text, f"{where}, end {text};")
            self.note()
            self.depth -= 1
            return whole
        if self.takes("connect"):
            self.need("(", "behind connect")
            left = self.name()
            self.need(",", "between two connectors")
            right = self.name()
            self.need(")", "behind two connectors")
            self.note()
            return syntax.Connect(at, left, right)
        if self.in_algorithm and text in ("break", "return"):
            return syntax.Leave(at, self.take().text)
        left_side = self.expression()
        if isinstance(left_side, syntax.Call) and self.now.text in (";", "end", "annotation"):
            return syntax.Equal(at, syntax.Results(at, []), left_side)
        if self.in_algorithm:
            self.need(":=", "in an algorithm")
            if not isinstance(left_side, syntax.Name | syntax.Results) and not self.lenient:
                self.fail("this cannot be assigned; write NAME := EXPRESSION", at)
        elif self.now.text in (":=", "=="):
            self.fail(f"{self.now.text} in an equation; write =")
        else:
            self.need("=", "in an equation")
        return syntax.Equal(at, left_side, self.expression(), self.note())

    def _nested(self, at: int, word: str) -> syntax.Statement:
        """What begins with a word such as if, up to its end, which is not taken."""
        if word == "when":
            self.in_when = True
            branches = self.branches("elsewhen", self.equations)
            self.in_when = False
            return syntax.When(at, branches, self.in_algorithm)
        if word == "if":
            branches = self.branches("elseif", self.equations)
            return syntax.If(at, branches, self.equations() if self.takes("else") else [])
        if word == "while" and not self.in_algorithm:
            self.fail("while among equations; write it in an algorithm", at)
        head: Any = self.indices() if word == "for" else self.expression()
        self.need("loop", f"behind the head of {word}")
        body = self.equations()
        loop = syntax.While(at, head, body)
        return loop if word == "while" else syntax.For(at, self.ranges(head, body), body)


MODELS: Final = ("model", "class", "block")
CLASSES: Final = (*MODELS, "connector", "package", "type", "record", "function")
_DECLARED: Final = {  # The words before the class of a component, of each of which kinds it has one.
    **dict.fromkeys(("discrete", "parameter", "constant"), "variability"),
    **{"input": "causality", "output": "causality", "flow": "flow"},
}
_CLASS_PREFIXES: Final = ("encapsulated", "partial", "expandable", "pure", "impure", "operator")
_SECTIONS: Final = tuple("equation initial algorithm public protected end annotation external".split())
READ_ANNOTATIONS: Final = ("experiment", "Documentation")


def parse(source: syntax.Source) -> syntax.ClassDefinition:
    """The classes of a text, inside a class without a name."""
    return ClassParser(source).file()


def _literal(at: int, word: str, number: int) -> syntax.Component:
    """The constant that a literal of an enumeration is; they have the numbers from 1."""
    value = syntax.Modification(at, syntax.Number(at, str(number)))
    return syntax.Component(at, word, syntax.Name(at, [("Integer", [])]), [], value, "constant")


class ClassParser(EquationParser):
    """Parser of classes: declarations, sections and annotations."""

    literals: dict[str, set[int]]  # Numbers of those of enumerations without a name, which flat texts have.

    def file(self) -> syntax.ClassDefinition:
        """All classes of the text, inside a class without a name."""
        root, self.literals = syntax.ClassDefinition(0, "package", ""), {}
        if self.now.kind == "end" and not self.lenient:
            self.fail("there is no class in this text; write model NAME ... end NAME;")
        if self.takes("within") and not self.takes(";"):
            self.name()
            self.need(";", "behind within")
        while self.now.kind != "end":
            self.takes("final")
            self._class(root)
            self.need(";", "behind the end of a class")
        root.elements += [_literal(0, word, *own) for word, own in self.literals.items() if len(own) == 1]
        return root

    def _class(self, parent: syntax.ClassDefinition) -> None:
        self.deeper()
        words = [""]
        while self.now.text in _CLASS_PREFIXES:
            self.refuse()
            words.append(self.take().text)
        if self.now.text in CLASSES:
            words.append(self.take().text)
        elif not self.lenient or words[-1] != "operator":  # whose functions are in a class without a kind
            self.refuse()
            self.fail(f"a class is missing before {shown(self.now)}; write model NAME ... end NAME;")
        at, extends_itself = self.now.at, self.takes("extends")
        if extends_itself and not self.lenient:
            self.fail("a class that extends itself is not understood; write extends BASE; in a new class", at)
        at = self.now.at
        name = syntax.spelled(self.parts(what=f"the name of a {words[-1]}"))  # with dots in flat texts
        definition = syntax.ClassDefinition(at, words[-1], name, partial="partial" in words, parent=parent)
        if self.takes("="):
            at, (causality, flow) = self.now.at, self._prefixes("causality", "flow")
            base, sizes = self._type(definition)
            change = self.modifications()
            definition.short = syntax.Component(at, "", base, sizes, change, "", causality, bool(flow))
            if definition.elements:  # literals, which have the numbers from 1
                first = syntax.Modification(at, syntax.Number(at, "1"))
                base.parts[0] = "Integer", []
                definition.short.modification = syntax.Modification(at, None, {"start": first})
            self._constraint()
            definition.description = self.note()
            self._annotation(definition)
        else:
            if extends_itself:
                base = syntax.Name(at, [(name, [])])
                definition.elements.append(syntax.Component(at, "", base, [], self.modifications()))
            definition.description = self.note()
            if definition.description.startswith("Automatically generated record constructor"):
                definition.kind = "record"
            self._body(definition)
            if not self.takes("end"):
                self.refuse()
                self.fail(f"an equation or end {name} is missing before {shown(self.now)}")
            at, other = self.now.at, syntax.spelled(self.parts(what=f"the name {name} behind end"))
            if other != name:
                kind, line = definition.kind, self.source.line(definition.at)
                self.fail(f"end {other} ends {kind} {name} of line {line}; write end {name}", at)
            counts = Counter(item.name for item in definition.elements)
            for item in definition.elements:
                # Flat texts declare the elements of an array one by one, with subscripts in the names.
                if counts[item.name] > 1 and all(isinstance(size, syntax.Number) for size in item.sizes):
                    item.name, item.sizes = syntax.spelled([(item.name, item.sizes)]), []
        if parent.classes.setdefault(name, definition) is not definition and not self.lenient:
            self.fail(f"there are two classes named {name} here; rename or remove one", definition.at)
        self.depth -= 1

    def _body(self, definition: syntax.ClassDefinition) -> None:
        """The declarations, sections and annotations of a class, up to its end."""
        while self.now.text not in ("end", "the end of the text"):
            at = self.now.at
            if self.now.text == "annotation":
                self._annotation(definition)
                self.need(";", "behind an annotation")
            elif self.takes("external"):
                self._external(definition)
                if self.now.text not in _SECTIONS:  # No declaration follows it.
                    return
            elif self.now.text in ("initial", "equation", "algorithm"):
                self.in_initial, self.in_algorithm = self.takes("initial"), self.takes("algorithm")
                if not self.in_algorithm:
                    self.need("equation", "behind initial")
                body: list[Any] = self.equations(_SECTIONS)
                if self.in_algorithm:
                    body = [syntax.Algorithm(at, body) if self.in_initial else body]
                into = definition.algorithms if self.in_algorithm else definition.equations
                (definition.initial if self.in_initial else into).extend(body)
                self.in_algorithm = self.in_initial = False
            elif not self.takes("public", "protected"):
                if self.lenient and self.takes("import"):
                    while self.now.text not in (";", "the end of the text"):
                        self.take()
                elif self.takes("extends"):
                    extended = syntax.Component(at, "", self.name(), [], self.modifications())
                    definition.elements.append(extended)
                    self.skip_annotation()
                else:
                    self._element(definition)
                self.need(";", "behind a declaration")

    def _external(self, definition: syntax.ClassDefinition) -> None:
        """What an external function is: that of the language, as "builtin", or an elementary one of C."""
        if definition.kind != "function":
            self.p -= 1
            self.refuse()
        definition.built_in, definition.external = self.note() == "builtin", True
        if not definition.built_in and self.behind.text == "=":
            equation: Any = self._equation()
            right = equation.right
            if isinstance(right, syntax.Call) and (word := str(right.function)) in FUNCTIONS:
                # Not by its word alone, which may be the name of the function itself.
                right.function = syntax.Name(right.at, [("Modelica", []), ("Math", []), (word, [])])
                definition.built_in = definition.name == str(right.function)
                definition.algorithms.append([equation])
                definition.external = False
        while self.now.text not in (";", "the end of the text"):
            self.take()
        self.need(";", "behind an external function")

    def _constraint(self) -> None:
        """Take what constrains another class in the place of this one, as rumoca understands it."""
        if self.lenient and self.takes("constrainedby"):
            self.name()
            self.modifications()

    def _replaces(self) -> bool:
        """Take the words about what is replaced, or stands outside; whether there are some."""
        begin = self.p
        while self.lenient and self.takes("redeclare", "inner", "outer", "replaceable", "stream"):
            pass
        return self.p > begin

    def _element(self, definition: syntax.ClassDefinition, several: bool = True) -> None:
        self._replaces()
        final = self.takes("final")
        self._replaces()
        if self.now.text in (*CLASSES, *_CLASS_PREFIXES):
            self._class(definition)
            return
        variability, causality, flow = self._prefixes("variability", "causality", "flow")
        if self.now.kind == "word" and self.now.text != "enumeration":
            self.refuse()
            self.fail(f"a declaration is missing before {self.now.text}")
        # What changes in when-equations alone is known from these.
        prefixes = variability.removeprefix("discrete"), causality, bool(flow), final
        kind, common = self._type(syntax.ClassDefinition(self.now.at, "type", ""))
        if self.now.text == "=":
            self.fail("an equation among declarations; write the word equation before it")

        def component() -> syntax.Component:
            at, parts = self.now.at, self.parts(self.subscripts)  # in flat texts the name may contain dots
            word, sizes = parts[-1]
            if not all(isinstance(item, syntax.Number) for _, inner in parts[:-1] for item in inner):
                self.fail("the subscripts in a declared name must be numbers", at)
            name = syntax.spelled([*parts[:-1], (word, [])])
            modification = self._modification()
            if self.now.text == "if" and not self.lenient:
                self.fail(f"{name} is declared with a condition; write the class with or without it")
            condition = self.expression() if self.takes("if") else None
            self._constraint()
            self.note()
            self.skip_annotation()
            return syntax.Component(at, name, kind, [*sizes, *common], modification, *prefixes, condition)

        definition.elements += self.listed(component) if several else [component()]

    def _prefixes(self, *kinds: str) -> list[str]:
        """The words of some kinds before the class of what is declared, empty where there is none."""
        words = dict.fromkeys(kinds, "")
        while words.get(kind := _DECLARED.get(self.now.text, "")) == "":
            words[kind] = self.take().text
        return [*words.values()]

    def _type(self, definition: syntax.ClassDefinition) -> tuple[syntax.Name, list[syntax.Expression]]:
        """The name of a class, and the array sizes after it; literals of an enumeration become constants."""
        if self.now.text == "enumeration":
            name = syntax.Name(self.now.at, [(self.take().text, [])])
            self.need("(", "behind enumeration")
            is_open = self.lenient and self.takes(":")
            literals = [] if is_open else self.listed(lambda: (self.now.at, self.word("a name"), self.note()))
            for k, (at, word, _) in enumerate(literals, 1):
                definition.elements.append(_literal(at, word, k))
                if not definition.name:
                    self.literals.setdefault(word, set()).add(k)
            self.need(")", "behind the names of an enumeration")
            return name, self.subscripts()
        name = self.name()
        word, sizes = name.parts[-1]
        name.parts[-1] = word, []
        return name, sizes

    def _modification(self) -> syntax.Modification | None:
        """The modification after the name of a component: modifications of its parts, and a value."""
        at, modification = self.now.at, self.modifications()
        if self.takes("=", ":="):  # as old texts have it
            modification = modification or syntax.Modification(at)
            modification.value = self.expression()
        return modification

    def modifications(self) -> syntax.Modification | None:
        """The modifications in the brackets that are next; None if there are no brackets."""
        if self.now.text != "(":
            return None
        self.deeper()
        modification = syntax.Modification(self.take().at)
        while self.now.text != ")":
            replaces = self._replaces()
            each = self.takes("each")
            final = self.takes("final")
            if self._replaces() or replaces or (self.lenient and self.now.text in CLASSES):
                self._element(syntax.ClassDefinition(self.now.at, "type", ""), several=False)
                if not self.takes(","):
                    break
                continue
            at, parts = self.now.at, self.parts(what="the name of an attribute or a component")
            if len(parts) > 1 and self.lenient:
                word = parts[0][0]
                self.fail(f"rumoca loses what {word}.NAME modifies; write {word}(NAME=...)", at)
            path, inner, target = syntax.spelled(parts), self._modification(), modification
            self.note()
            inner = inner or (syntax.Modification(at) if self.lenient else None)
            if inner is None:
                self.fail(f"{path} gets no value; write {path}=...", at)
            inner.each, inner.final = each, final
            for word, _ in parts[:-1]:
                target = target.parts.setdefault(word, syntax.Modification(at))
            if target.parts.setdefault(parts[-1][0], inner) is not inner:
                self.fail(f"{path} gets two values; remove one", at)
            if not self.takes(","):
                break
        self.need(")", "at the end of a modification")
        self.depth -= 1
        return modification

    def _annotation(self, definition: syntax.ClassDefinition) -> None:
        """Parse an annotation if there is one; only experiment and documentation are kept."""
        begin = self.p
        self.skip_annotation()
        end = self.p
        for at in range(begin, end):
            text, self.p = self.tokens[at].text, at + 1
            if text in READ_ANNOTATIONS and self.now.text == "(" and self.tokens[at - 1].text in ("(", ","):
                definition.annotations[text] = self.modifications() or syntax.Modification(at)
        self.p = end
