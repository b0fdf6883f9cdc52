"""Parser of expressions: operators by precedence, names, calls and arrays."""

from __future__ import annotations

from typing import Final

from dae_sdc.modelica import syntax
from dae_sdc.modelica.syntax import Operation, Precedence
from dae_sdc.modelica.text import Token, Words, shown

_OPERATORS: Final = {
    "or": Precedence.OR,
    "and": Precedence.AND,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "<>"), Precedence.COMPARISON),
    **dict.fromkeys(("+", "-", ".+", ".-"), Precedence.SUM),
    **dict.fromkeys(("*", "/", ".*", "./"), Precedence.PRODUCT),
    **dict.fromkeys(("^", ".^"), Precedence.POWER),
}


class ExpressionParser(Words):
    """Parser of expressions; each method starts at the next word and stops after the last one it needs."""

    def expression(self) -> syntax.Expression:
        """An if-expression, a range, or operators and operands."""
        self.deeper()
        value = self._choice() if self.now.text == "if" and self.now.kind == "word" else self._simple()
        if self.takes(":"):
            bounds = [value, self._simple()]
            if self.takes(":"):
                bounds.append(self._simple())
            value = syntax.Range(value.at, bounds)
        self.depth -= 1
        return value

    def _choice(self) -> syntax.If:
        at, branches = self.take().at, []
        while True:
            condition = self.expression()
            self.need("then", "behind a condition")
            branches.append((condition, self.expression()))
            if self.takes("elseif"):
                continue
            self.need("else", "of an if-expression; it needs a value for all cases")
            # A chain of if-expressions becomes one choice, without recursion.
            if not self.takes("if"):
                return syntax.If(at, branches, self.expression())

    def _simple(self) -> syntax.Expression:
        """Operators and their operands; only brackets and calls recurse."""
        operands: list[syntax.Expression] = []
        pending: list[tuple[Precedence, Token]] = []
        while True:
            token = self.now
            if token.text == "not":
                if pending and pending[-1][0] > Precedence.NOT:
                    self.fail("not behind an operator; put it in brackets")
                pending.append((Precedence.NOT, Token("prefix", token.text, self.take().at)))
                continue
            if token.text in ("-", "+", ".-", ".+"):
                if pending and pending[-1][0] >= Precedence.SUM:
                    self.fail(f"{token.text} behind {pending[-1][1].text}; put what has a sign in brackets")
                # A token of another kind, because a sign has one operand and a sum has two.
                pending.append((Precedence.SUM, Token("prefix", token.text, self.take().at)))
                continue
            operands.append(self._primary())
            level = _OPERATORS.get(self.now.text, Precedence.NONE)
            if self.now.text == "*" and self.behind.text == "*":
                self.fail("** is no operator of Modelica; write ^")
            while pending and pending[-1][0] >= level:
                before = pending.pop()
                if before[0] == level and level in (Precedence.COMPARISON, Precedence.POWER):
                    self.fail(f"{self.now.text} behind {before[1].text}; use brackets")
                _apply(*before, operands)
            if not level:
                return operands[0]
            pending.append((level, self.take()))

    def _primary(self) -> syntax.Expression:
        token = self.now
        text, kind, at = token.text, token.kind, token.at
        if kind == "number":
            self.take()
            return syntax.Number(at, text)
        if kind in ("name", "quoted") or text in ("der", "initial") or text == ".":
            if text == "initial" and self.behind.text != "(":
                self.fail("an expression is missing before initial")
            name = self.name()
            return self.call(name) if self.now.text == "(" else name
        if kind == "text":
            return syntax.Text(at, self.string())
        if text in ("true", "false"):
            self.take()
            return syntax.Truth(at, text == "true")
        if text == "(":
            self.take()
            inner = self.expression()
            if self.now.text == ",":
                self.fail("several results in brackets are not understood; call functions with one result")
            self.close(")", at)
            # A sum or product in brackets is one term, to which terms after the brackets are not appended.
            if isinstance(inner, Operation) and inner.precedence in (Precedence.SUM, Precedence.PRODUCT):
                return Operation(at, Precedence.SUM, [("", inner)])
            return inner
        if text == "{":
            self.take()
            items = [] if self.now.text in ("}", ")") else self.listed(self.expression)
            indices = self._ranges() if items and self.takes("for") else []
            self.close("}", at)
            return syntax.Array(at, items, indices)
        if text == "[":
            self.take()
            rows = [self.listed(self.expression)]
            while self.takes(";"):
                rows.append(self.listed(self.expression))
            self.close("]", at)
            return syntax.Matrix(at, rows)
        if text == "end" and kind == "word":
            self.fail("end as a subscript, or an expression that is missing; write the number")
        self.refuse()
        self.fail(f"an expression is missing before {shown(token)}")

    def indices(self) -> list[tuple[str, syntax.Expression | None]]:
        """Names of indices with their ranges, None where a range is not given."""

        def index() -> tuple[str, syntax.Expression | None]:
            name = self.word("an index")
            return name, self.expression() if self.takes("in") else None

        return self.listed(index)

    def _ranges(self) -> list[tuple[str, syntax.Expression]]:
        """Indices with their ranges; an error if a range is missing."""
        ranges = []
        for name, where in self.indices():
            if where is None:
                self.fail(f"the index {name} has no range; write for {name} in 1:n")
            ranges.append((name, where))
        return ranges

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
                if call.named:
                    self.fail("an argument without a name behind one with a name")
                argument = self.expression()
                if self.now.text == "$":  # t$2 in diff(x, t$2)
                    at = self.take().at
                    order = syntax.Name(at, [("$", [])])
                    argument = syntax.Call(at, order, [argument, self._primary()], {})
                elif self.takes("for"):
                    argument = syntax.Array(argument.at, [argument], self._ranges())
                call.arguments.append(argument)
            if not self.takes(","):
                break
        self.close(")", begin)
        return call

    def name(self) -> syntax.Name:
        """A name with dots and subscripts, or one of the functions der and initial."""
        at = self.now.at
        self.takes(".")
        if self.now.text in ("der", "initial"):
            return syntax.Name(at, [(self.take().text, [])])
        return syntax.Name(at, self.parts())

    def parts(self) -> list[tuple[str, list[syntax.Expression]]]:
        """The words of a name that have dots between them, with their subscripts."""
        parts = [(self.word("a name"), self.subscripts())]
        while self.now.text == "." and self.behind.kind in ("name", "quoted"):
            self.take()
            parts.append((self.take().text, self.subscripts()))
        return parts

    def subscripts(self) -> list[syntax.Expression]:
        """The subscripts in the square brackets that are next; none if there are no brackets."""
        if self.now.text != "[":
            return []
        begin = self.take().at
        subscripts: list[syntax.Expression] = []
        while not subscripts or self.takes(","):
            subscripts.append(syntax.Every(self.take().at) if self.now.text == ":" else self.expression())
        self.close("]", begin)
        return subscripts


def _apply(precedence: Precedence, token: Token, operands: list[syntax.Expression]) -> None:
    """Replace the last operands by the operation of an operator with these operands."""
    right = operands.pop()
    # Only scalars are divisors, so that ./ is the same as /; the dot of .* is kept.
    sign = token.text if token.text == ".*" else token.text.removeprefix(".")
    if token.kind == "prefix":
        operands.append(Operation(token.at, precedence, [(sign, right)]))
        return
    left = operands[-1]
    is_pair = precedence in (Precedence.COMPARISON, Precedence.POWER)
    if isinstance(left, Operation) and left.precedence is precedence and not is_pair:
        left.parts.append((sign, right))
    else:
        operands[-1] = Operation(left.at, precedence, [("", left), (sign, right)])
