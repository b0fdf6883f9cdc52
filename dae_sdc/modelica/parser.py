"""From the text of Modelica to its parts."""

from __future__ import annotations

from collections import Counter
from typing import Final, NoReturn

from dae_sdc.errors import InputError
from dae_sdc.modelica.syntax import (
    Array,
    Assignment,
    Call,
    ClassDefinition,
    Comparison,
    Component,
    Connect,
    Equal,
    Equation,
    Every,
    Expression,
    Extends,
    For,
    If,
    IfEquation,
    Import,
    Logic,
    Matrix,
    Modification,
    Name,
    Negation,
    Number,
    Power,
    Product,
    Range,
    Sum,
    Text,
    Truth,
    spelled,
)
from dae_sdc.modelica.text import Source, Token, tokens

__all__ = ["parse"]

DEEPEST: Final = 100
"""How deep brackets, calls, choices and classes may be nested in a text."""

_KINDS: Final = ("model", "class", "block", "connector", "package", "type", "record", "function")
_CLASS_PREFIXES: Final = ("encapsulated", "partial", "expandable", "pure", "impure", "operator")
_SECTIONS: Final = (
    "equation",
    "initial",
    "algorithm",
    "public",
    "protected",
    "end",
    "annotation",
    "external",
)

_REFUSED: Final = {
    "when": "when-equations are not understood; a model has no events: write the equation for all times",
    "while": "while is not understood; write the values it computes",
    "inner": "inner is not understood; give the component to those that use it by modifications",
    "outer": "outer is not understood; give the component to those that use it by modifications",
    "redeclare": "redeclare is not understood; write the class with the other component",
    "replaceable": "replaceable is not understood; write the class without it",
    "constrainedby": "constrainedby is not understood; write the class without it",
    "stream": "stream connectors are not understood; write the balance as equations",
    "external": "external functions are not understood; write the function in Modelica",
    "discrete": "discrete variables are not understood; write the equation for all times",
    "enumeration": "enumerations are not understood; use Integer parameters",
    "operator": "operator classes are not understood; write a record and functions",
    "expandable": "expandable connectors are not understood; write the variables that are connected",
    "break": "break is not understood; write the class without it",
    "return": "return is not understood; write one assignment for every result",
}
_REFUSED_CALLS: Final = {
    "assert": "assert is not understood here; remove it",
    "terminate": "terminate is not understood; stop the run by its end time",
    "reinit": "reinit is not understood; a model has no events",
}

_OPERATORS: Final = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "<>"), 4),
    **dict.fromkeys(("+", "-", ".+", ".-"), 5),
    **dict.fromkeys(("*", "/", ".*", "./"), 6),
    **dict.fromkeys(("^", ".^"), 7),
}
_NOT: Final = 3
_SIGN: Final = 5


def parse(source: Source) -> ClassDefinition:
    """The classes of a text, in a class without a name.

    Parameters
    ----------
    source : Source
        The text.

    Raises
    ------
    InputError
        If the text is no Modelica, or has a construct in it that is not understood.
    """
    return _Parser(source).file()


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = tokens(source)
        self.p = 0
        self.depth = 0

    # Words

    @property
    def now(self) -> Token:
        return self.tokens[self.p]

    @property
    def behind(self) -> Token:
        """The word behind the next one."""
        return self.tokens[min(self.p + 1, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.tokens[self.p]
        if token.kind != "end":
            self.p += 1
        return token

    def takes(self, *texts: str) -> bool:
        """Whether the next word is one of some; it is taken then."""
        if self.tokens[self.p].text in texts and self.tokens[self.p].kind != "end":
            self.p += 1
            return True
        return False

    def need(self, text: str, where: str) -> Token:
        token = self.tokens[self.p]
        if token.text != text or token.kind == "end":
            self.fail(f"{text} is missing {where}, before {_shown(token)}")
        self.p += 1
        return token

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        raise self.error(message, at)

    def error(self, message: str, at: int | None = None) -> InputError:
        return self.source.error(self.now.at if at is None else at, message)

    def word(self, what: str) -> str:
        token = self.now
        if token.kind not in ("name", "quoted"):
            if token.text in _REFUSED:
                self.fail(_REFUSED[token.text])
            more = "; quote the name, it is a keyword" if token.kind == "word" else ""
            self.fail(f"{what} is missing before {_shown(token)}{more}")
        self.p += 1
        return token.text

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(f"this is nested more than {DEEPEST} deep; write parts of it as variables of their own")

    def refuse(self) -> None:
        """Raise where the next word begins something that is not understood."""
        if self.now.text in _REFUSED:
            self.fail(_REFUSED[self.now.text])

    # Classes

    def file(self) -> ClassDefinition:
        root = ClassDefinition(0, "package", "")
        if self.now.kind == "end":
            self.fail("there is no class in this text; write model NAME ... end NAME;")
        if self.takes("within"):
            if self.now.text != ";":
                self.name()
            self.need(";", "behind within")
        while self.now.kind != "end":
            self.takes("final")
            self.refuse()
            if self.now.text not in (*_KINDS, *_CLASS_PREFIXES):
                self.fail(f"a class is missing before {_shown(self.now)}; write model NAME ... end NAME;")
            self.enter(root, self.class_definition())
            self.need(";", "behind the end of a class")
        return root

    def enter(self, parent: ClassDefinition, made: ClassDefinition) -> None:
        if made.name in parent.classes:
            self.fail(f"there are two classes named {made.name} here; rename or remove one", made.at)
        made.parent = parent
        parent.classes[made.name] = made

    def class_definition(self) -> ClassDefinition:
        self.deeper()
        partial = False
        while self.now.text in _CLASS_PREFIXES:
            if self.now.text in ("operator", "expandable"):
                self.refuse()
            partial = self.take().text == "partial" or partial
        token = self.take()
        if token.text not in _KINDS:
            self.fail(f"a class, such as model, is missing before {_shown(token)}", token.at)
        if self.now.text == "extends":
            self.fail("a class that extends itself is not understood; write extends BASE; in a new class")
        made = ClassDefinition(self.now.at, token.text, self.class_name(f"the name of a {token.text}"))
        made.partial = partial
        if self.takes("="):
            self.short(made)
        else:
            self.long(made)
        self.depth -= 1
        return made

    def class_name(self, what: str) -> str:
        """The name of a class, which has dots in flat texts."""
        words = [self.word(what)]
        while self.takes("."):
            words.append(self.word("a name"))
        return ".".join(words)

    def short(self, made: ClassDefinition) -> None:
        at, causality, flow = self.now.at, "", False
        while self.now.text in ("input", "output", "flow"):
            word = self.take().text
            flow, causality = flow or word == "flow", causality if word == "flow" else word
        self.refuse()
        base, sizes = self.type_name()
        modification = self.class_modification() if self.now.text == "(" else None
        made.short = Extends(at, base, modification, causality, flow, sizes)
        made.description = self.note()
        self.annotation(made)

    def long(self, made: ClassDefinition) -> None:
        made.description = self.note()
        self.elements(made)
        while self.now.text in _SECTIONS and self.now.text != "end" and self.now.kind == "word":
            token = self.take()
            if token.text == "initial":
                if self.takes("algorithm"):
                    self.fail("initial algorithm is not understood; write initial equation", token.at)
                self.need("equation", "behind initial")
                made.initial += self.equations(("end", *_SECTIONS))
            elif token.text == "equation":
                made.equations += self.equations(("end", *_SECTIONS))
            elif token.text in ("public", "protected"):
                self.elements(made)
            elif token.text == "annotation":
                self.p -= 1
                self.annotation(made)
                self.need(";", "behind an annotation")
                self.elements(made)
            elif token.text == "algorithm":
                self.algorithm(made, token)
            elif made.kind == "function" and self.now.text == '"builtin"':
                # What a function of the language is known to be.
                made.built_in = True
                while self.now.text != ";" and self.now.kind != "end":
                    self.take()
                self.need(";", "behind an external function")
            else:
                self.p -= 1
                self.refuse()
        token = self.now
        if token.text != "end":
            self.refuse()
            self.fail(f"an equation or end {made.name} is missing before {_shown(token)}")
        self.take()
        end = self.now
        name = self.class_name(f"the name {made.name} behind end")
        if name != made.name:
            line = self.source.line(made.at)
            self.fail(
                f"end {name} ends {made.kind} {made.name} of line {line}; write end {made.name}", end.at
            )
        _separate_elements(made)

    def algorithm(self, made: ClassDefinition, token: Token) -> None:
        if made.kind != "function":
            self.fail(
                f"an algorithm section in {made.kind} {made.name} is not understood; write equations",
                token.at,
            )
        made.algorithm = token.at
        while self.now.text not in _SECTIONS and self.now.kind != "end":
            self.refuse()
            if self.now.text in ("if", "for") or self.now.text in _REFUSED_CALLS:
                self.fail(
                    f"{self.now.text} in the algorithm of {made.name} is not understood; "
                    "write NAME := EXPRESSION"
                )
            at, name = self.now.at, self.name()
            self.need(":=", "in an algorithm")
            made.statements.append(Assignment(at, name, self.expression()))
            self.note()
            self.need(";", "behind an assignment")

    def elements(self, made: ClassDefinition) -> None:
        while self.now.kind != "end" and self.now.text not in _SECTIONS:
            if self.takes("import"):
                made.imports.append(self.import_clause())
            elif self.takes("extends"):
                at = self.tokens[self.p - 1].at
                base = self.name()
                modification = self.class_modification() if self.now.text == "(" else None
                made.elements.append(Extends(at, base, modification))
                self.annotation(None)
            else:
                self.element(made)
            self.need(";", "behind a declaration")

    def import_clause(self) -> Import:
        at, first = self.now.at, self.name()
        if self.takes("="):
            if len(first.parts) > 1:
                self.fail(f"the name {first} before = has dots; an import has one word there", at)
            alias, name = first.parts[0][0], str(self.name())
        elif self.takes("."):
            self.need("*", "at the end of an import")
            alias, name = "", str(first)
        elif self.takes(".*"):
            alias, name = "", str(first)
        else:
            alias, name = first.parts[-1][0], str(first)
        self.note()
        return Import(at, name, alias)

    def element(self, made: ClassDefinition) -> None:
        final = self.takes("final")
        self.refuse()
        if self.now.kind == "word" and self.now.text in (*_KINDS, *_CLASS_PREFIXES):
            self.enter(made, self.class_definition())
            return
        flow, variability, causality = False, "", ""
        while self.now.kind == "word":
            self.refuse()
            word = self.now.text
            if word == "flow" and not flow:
                flow = True
            elif word in ("parameter", "constant") and not variability:
                variability = word
            elif word in ("input", "output") and not causality:
                causality = word
            else:
                self.fail(f"a declaration is missing before {word}")
            self.take()
            if word in ("parameter", "constant") and self.now.text == "enumeration":
                break
        kind, common = self.type_name()
        if self.now.text == "=":
            self.fail("an equation among declarations; write the word equation before it")
        while True:
            at, name = self.now.at, self.declared()
            sizes = self.subscripts() if self.now.text == "[" else []
            component = Component(at, name, kind, sizes + common, None, variability, causality, flow, final)
            component.modification = self.modification()
            if self.now.text == "if":
                self.fail(f"{name} is declared with a condition; write the class with or without it")
            self.note()
            self.annotation(None)
            made.elements.append(component)
            if not self.takes(","):
                break

    def type_name(self) -> tuple[Name, list[Expression]]:
        """The name of a class, and the sizes behind it."""
        if self.now.text == "enumeration":
            name = Name(self.now.at, [(self.take().text, [])])
            self.need("(", "behind enumeration")
            while True:
                self.word("a name")
                self.note()
                if not self.takes(","):
                    break
            self.need(")", "behind the names of an enumeration")
            return name, self.subscripts() if self.now.text == "[" else []
        name = self.name()
        word, sizes = name.parts[-1]
        name.parts[-1] = word, []
        return name, sizes

    def declared(self) -> str:
        """The name of a component; flat texts have dots in it."""
        at = self.p
        words: list[tuple[str, list[Expression]]] = [(self.word("a name"), [])]
        while True:
            if self.now.text == "." and self.behind.kind in ("name", "quoted"):
                self.take()
                words.append((self.take().text, []))
                continue
            if self.now.text == "[" and self._dot_behind_bracket():
                words[-1] = words[-1][0], self.subscripts()
                if not all(isinstance(item, Number) for item in words[-1][1]):
                    self.fail("the subscripts in a declared name must be numbers", self.tokens[at].at)
                continue
            return spelled(words)

    def _dot_behind_bracket(self) -> bool:
        at = self.p
        while self.tokens[at].text != "]":
            if self.tokens[at].kind == "end" or self.tokens[at].text == ";":
                return False
            at += 1
        return self.tokens[at + 1].text == "."

    # Modifications

    def modification(self) -> Modification | None:
        at = self.now.at
        found = self.class_modification() if self.now.text == "(" else None
        if self.now.text == ":=":
            self.fail(":= in a declaration; write =")
        if self.takes("="):
            found = found or Modification(at)
            found.value = self.expression()
        return found

    def class_modification(self) -> Modification:
        self.deeper()
        found = Modification(self.need("(", "before a modification").at)
        while self.now.text != ")":
            each = self.takes("each")
            final = self.takes("final")
            if self.now.text in ("redeclare", "replaceable"):
                self.refuse()
            at = self.now.at
            path = [self.word("the name of an attribute or a component")]
            while self.takes("."):
                path.append(self.word("a name"))
            inner = self.modification()
            self.note()
            if inner is None:
                self.fail(f"{'.'.join(path)} gets no value; write {'.'.join(path)}=...", at)
            inner.each, inner.final = each, final
            target = found
            for word in path[:-1]:
                target = target.parts.setdefault(word, Modification(at))
            if path[-1] in target.parts:
                self.fail(f"{'.'.join(path)} gets two values; remove one", at)
            target.parts[path[-1]] = inner
            if not self.takes(","):
                break
        self.need(")", "at the end of a modification")
        self.depth -= 1
        return found

    def note(self) -> str:
        """A string that describes something, if there is one."""
        if self.now.kind != "text":
            return ""
        text = self.string()
        while self.takes("+"):
            if self.now.kind != "text":
                self.fail(f"a string is missing behind +, before {_shown(self.now)}")
            text += self.string()
        return " ".join(text.split())

    def string(self) -> str:
        return _unescaped(self.take().text[1:-1])

    def annotation(self, made: ClassDefinition | None) -> None:
        """Skip an annotation, but for what it says of a run and of the source of a class."""
        if not self.takes("annotation"):
            return
        begin = self.p
        self.skip_brackets()
        if made is None:
            return
        end, depth = self.p, 0
        for at in range(begin, end):
            text = self.tokens[at].text
            depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
            if depth == 1 and text in ("experiment", "Documentation") and self.tokens[at + 1].text == "(":
                self.p = at + 1
                made.annotations[text] = self.class_modification()
        self.p = end

    def skip_brackets(self) -> None:
        closing = {"(": ")", "[": "]", "{": "}"}
        begin, stack = self.now, []
        self.need("(", "behind annotation")
        stack.append(")")
        while stack:
            token = self.take()
            if token.kind == "end" or (token.text == ";" and stack[-1] != "]"):
                self.fail("the brackets of an annotation that begin here are never closed", begin.at)
            if token.text in closing:
                stack.append(closing[token.text])
            elif token.text in (")", "]", "}") and token.text != stack.pop():
                self.fail(f"{token.text} closes another bracket", token.at)

    # Equations

    def equations(self, ends: tuple[str, ...]) -> list[Equation]:
        found: list[Equation] = []
        while self.now.kind != "end" and not (self.now.kind == "word" and self._ends(ends)):
            if self.now.text == "assert" and self.behind.text == "(":
                # It says what must hold of a solution, and does not change it.
                self.call(self.name())
            else:
                found.append(self.equation())
            self.annotation(None)
            self.need(";", "behind an equation")
        return found

    def _ends(self, ends: tuple[str, ...]) -> bool:
        text = self.now.text
        if text == "initial":  # the function initial() is no section
            return text in ends and self.behind.text in ("equation", "algorithm")
        return text in ends

    def equation(self) -> Equation:
        self.refuse()
        at, text = self.now.at, self.now.text
        if text in _REFUSED_CALLS and self.behind.text == "(":
            self.fail(_REFUSED_CALLS[text])
        if text == "if" and self.now.kind == "word":
            return self.if_equation()
        if text == "for":
            return self.for_equation()
        if self.takes("connect"):
            self.need("(", "behind connect")
            left = self.name()
            self.need(",", "between two connectors")
            right = self.name()
            self.need(")", "behind two connectors")
            self.note()
            return Connect(at, left, right)
        left_side = self.expression()
        if self.now.text in (":=", "=="):
            self.fail(f"{self.now.text} in an equation; write =")
        if self.now.text in (";", "end") and isinstance(left_side, Call):
            self.fail(f"{left_side.function} is called as an equation, which is not understood", at)
        self.need("=", "in an equation")
        right_side = self.expression()
        return Equal(at, left_side, right_side, self.note())

    def if_equation(self) -> IfEquation:
        """An if-equation, whose first word is next.

        What is chosen last may be an if-equation again.
        """
        self.deeper()
        at, branches, other = self.now.at, [], None
        self.take()
        while True:
            condition = self.expression()
            self.need("then", "behind a condition")
            branches.append((condition, self.equations(("elseif", "else", "end"))))
            if self.takes("elseif"):
                continue
            if self.takes("else"):
                other = self.equations(("end",))
            break
        self.need("end", f"of the if-equation of line {self.source.line(at)}")
        self.need("if", f"of the if-equation of line {self.source.line(at)}, end if;")
        self.note()
        self.depth -= 1
        return IfEquation(at, branches, other)

    def for_equation(self) -> For:
        self.deeper()
        at = self.take().at
        indices = self.indices()
        self.need("loop", "behind the range of for")
        body = self.equations(("end",))
        self.need("end", f"of the loop of line {self.source.line(at)}")
        self.need("for", f"of the loop of line {self.source.line(at)}, end for;")
        self.note()
        self.depth -= 1
        return For(at, indices, body)

    def indices(self) -> list[tuple[str, Expression | None]]:
        found: list[tuple[str, Expression | None]] = []
        while True:
            name = self.word("an index")
            found.append((name, self.expression() if self.takes("in") else None))
            if not self.takes(","):
                return found

    # Expressions

    def expression(self) -> Expression:
        self.deeper()
        found = self.choice() if self.now.text == "if" and self.now.kind == "word" else self.simple()
        if self.now.text == ":" and not isinstance(found, Every):
            self.take()
            middle = self.simple()
            if self.takes(":"):
                found = Range(found.at, found, middle, self.simple())
            else:
                found = Range(found.at, found, None, middle)
        self.depth -= 1
        return found

    def choice(self) -> If:
        at, branches = self.take().at, []
        while True:
            condition = self.expression()
            self.need("then", "behind a condition")
            branches.append((condition, self.expression()))
            if self.takes("elseif"):
                continue
            self.need("else", "of an if-expression; it needs a value for all cases")
            # A chain of choices is one choice, however long.
            if not self.takes("if"):
                return If(at, branches, self.expression())

    def simple(self) -> Expression:
        """Operators and what they stand between; brackets and calls alone go deeper."""
        operands: list[Expression] = []
        pending: list[tuple[int, Token]] = []
        while True:
            token = self.now
            if token.text == "not":
                if pending and pending[-1][0] > _NOT:
                    self.fail("not behind an operator; put it in brackets")
                pending.append((_NOT, self.take()))
                continue
            if token.text in ("-", "+", ".-", ".+"):
                if pending and pending[-1][0] >= _SIGN:
                    self.fail(f"{token.text} behind {pending[-1][1].text}; put what has a sign in brackets")
                # Twice the place of an operand: a sign has one operand.
                pending.append((_SIGN, Token("prefix", token.text, self.take().at)))
                continue
            operands.append(self.primary())
            level = _OPERATORS.get(self.now.text, 0)
            if self.now.text == "*" and self.behind.text == "*":
                self.fail("** is no operator of Modelica; write ^")
            while pending and pending[-1][0] >= level:
                before = pending.pop()
                if before[0] == level and level in (4, 7):
                    self.fail(f"{self.now.text} behind {before[1].text}; use brackets")
                self.reduce(before[1], operands)
            if not level:
                return operands[0]
            pending.append((level, self.take()))

    def reduce(self, token: Token, operands: list[Expression]) -> None:
        right, text = operands.pop(), token.text.removeprefix(".")
        if text == "not":
            operands.append(Negation(token.at, right))
            return
        sign = -1 if text == "-" else 1
        if token.kind == "prefix":
            operands.append(Sum(token.at, [(sign, right)]))
            return
        left = operands.pop()
        at = left.at
        if text in "+-":
            if isinstance(left, Sum):
                left.terms.append((sign, right))
            else:
                left = Sum(at, [(1, left), (sign, right)])
            operands.append(left)
        elif text in "*/":
            # With a dot it is by elements, as it is for scalars anyway.
            mark = token.text if token.text == ".*" else text
            if isinstance(left, Product):
                left.factors.append((mark, right))
            else:
                left = Product(at, [("*", left), (mark, right)])
            operands.append(left)
        elif text == "^":
            operands.append(Power(at, left, right))
        elif text in ("and", "or"):
            if isinstance(left, Logic) and left.word == text:
                left.parts.append(right)
            else:
                left = Logic(at, text, [left, right])
            operands.append(left)
        else:
            operands.append(Comparison(at, text, left, right))

    def primary(self) -> Expression:
        token = self.now
        text, kind = token.text, token.kind
        if kind == "number":
            self.take()
            return Number(token.at, text)
        if kind in ("name", "quoted") or text in ("der", "initial") or text == ".":
            if text == "initial" and self.behind.text != "(":
                self.fail("an expression is missing before initial")
            name = self.name()
            return self.call(name) if self.now.text == "(" else name
        if kind == "text":
            return Text(token.at, self.string())
        if text in ("true", "false"):
            self.take()
            return Truth(token.at, text == "true")
        if text == "(":
            self.take()
            found = self.expression()
            if self.now.text == ",":
                self.fail("several results in brackets are not understood; call functions with one result")
            self.need(")", f"for the bracket of line {self.source.line(token.at)}")
            # Brackets end what is written in a row.
            return Sum(token.at, [(1, found)]) if isinstance(found, Product | Sum) else found
        if text == "{":
            self.take()
            items, indices = self.items()
            self.need("}", f"for the bracket of line {self.source.line(token.at)}")
            return Array(token.at, items, indices)
        if text == "[":
            return self.matrix()
        if text == "end" and kind == "word":
            self.fail("end as a subscript, or an expression that is missing; write the number")
        self.refuse()
        self.fail(f"an expression is missing before {_shown(token)}")

    def matrix(self) -> Matrix:
        at, rows = self.take().at, []
        while True:
            row = [self.expression()]
            while self.takes(","):
                row.append(self.expression())
            rows.append(row)
            if not self.takes(";"):
                break
        self.need("]", f"for the bracket of line {self.source.line(at)}")
        return Matrix(at, rows)

    def items(self) -> tuple[list[Expression], list[tuple[str, Expression]]]:
        found: list[Expression] = []
        if self.now.text in ("}", ")"):
            return found, []
        while True:
            found.append(self.expression())
            if self.takes("for"):
                return found, self.ranges()
            if not self.takes(","):
                return found, []

    def ranges(self) -> list[tuple[str, Expression]]:
        """Indices, each of which must have a range."""
        found = []
        for name, where in self.indices():
            if where is None:
                self.fail(f"the index {name} has no range; write for {name} in 1:n")
            found.append((name, where))
        return found

    def call(self, name: Name) -> Call:
        begin = self.take().at
        found = Call(name.at, name, [], {})
        while self.now.text != ")":
            token, behind = self.now, self.behind
            if token.kind in ("name", "quoted") and behind.text == "=":
                self.p += 2
                if token.text in found.named:
                    self.fail(f"{token.text} gets two values; remove one", token.at)
                found.named[token.text] = self.expression()
            else:
                if found.named:
                    self.fail("an argument without a name behind one with a name")
                found.arguments.append(self.argument())
            if not self.takes(","):
                break
        self.need(")", f"for the bracket of line {self.source.line(begin)}")
        return found

    def argument(self) -> Expression:
        value = self.expression()
        if self.now.text == "$":  # t$2 in diff(x, t$2)
            at = self.take().at
            return Call(at, Name(at, [("$", [])]), [value, self.primary()], {})
        if self.takes("for"):
            return Array(value.at, [value], self.ranges())
        return value

    def name(self) -> Name:
        at = self.now.at
        self.takes(".")
        if self.now.text in ("der", "initial"):
            return Name(at, [(self.take().text, [])])
        parts: list[tuple[str, list[Expression]]] = []
        while True:
            word = self.word("a name")
            parts.append((word, self.subscripts() if self.now.text == "[" else []))
            if self.now.text != "." or self.behind.kind not in ("name", "quoted"):
                return Name(at, parts)
            self.take()

    def subscripts(self) -> list[Expression]:
        begin = self.take().at
        found: list[Expression] = []
        while True:
            if self.now.text == ":":
                found.append(Every(self.take().at))
            else:
                found.append(self.expression())
            if not self.takes(","):
                break
        self.need("]", f"for the bracket of line {self.source.line(begin)}")
        return found


def _separate_elements(made: ClassDefinition) -> None:
    """Give names of their own to the elements of an array that a flat text declares one by one."""
    counts = Counter(item.name for item in made.elements if isinstance(item, Component))
    for item in made.elements:
        if not isinstance(item, Component) or counts[item.name] < 2 or not item.sizes:
            continue
        if all(isinstance(size, Number) for size in item.sizes):
            item.name, item.sizes = spelled([(item.name, item.sizes)]), []


def _shown(token: Token) -> str:
    if token.kind == "end":
        return token.text
    text = token.text if len(token.text) <= 40 else f"{token.text[:36]} ..."
    return text if token.kind in ("name", "word", "number", "text", "quoted") else f"'{text}'"


def _unescaped(text: str) -> str:
    """A string without its backslashes."""
    if "\\" not in text:
        return text
    plain = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "b": "\b", "a": "\a"}
    found, at = [], 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
            found.append(plain.get(text[at], text[at]))
        else:
            found.append(text[at])
        at += 1
    return "".join(found)
