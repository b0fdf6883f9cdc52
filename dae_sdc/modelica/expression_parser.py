"""Parser of expressions: operators by precedence, names, calls and arrays."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from dae_sdc.modelica import syntax
from dae_sdc.modelica.text import Token, Words, shown


class _Precedence(IntEnum):
    """Precedence of an operator; higher binds more strongly."""

    NONE = 0
    OR = 1
    AND = 2
    NOT = 3
    COMPARISON = 4
    SUM = 5
    PRODUCT = 6
    POWER = 7


_OPERATORS: Final = {
    "or": _Precedence.OR,
    "and": _Precedence.AND,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "<>"), _Precedence.COMPARISON),
    **dict.fromkeys(("+", "-", ".+", ".-"), _Precedence.SUM),
    **dict.fromkeys(("*", "/", ".*", "./"), _Precedence.PRODUCT),
    **dict.fromkeys(("^", ".^"), _Precedence.POWER),
}


class ExpressionParser(Words):
    """Parser of expressions; each method starts at the next word and stops after the last one it needs."""

    def expression(self) -> syntax.Expression:
        """An if-expression, a range, or operators and operands."""
        self.deeper()
        found = self._choice() if self.now.text == "if" and self.now.kind == "word" else self._simple()
        if self.now.text == ":" and not isinstance(found, syntax.Every):
            self.take()
            middle = self._simple()
            if self.takes(":"):
                found = syntax.Range(found.at, found, middle, self._simple())
            else:
                found = syntax.Range(found.at, found, None, middle)
        self.depth -= 1
        return found

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
        pending: list[tuple[_Precedence, Token]] = []
        while True:
            token = self.now
            if token.text == "not":
                if pending and pending[-1][0] > _Precedence.NOT:
                    self.fail("not behind an operator; put it in brackets")
                pending.append((_Precedence.NOT, self.take()))
                continue
            if token.text in ("-", "+", ".-", ".+"):
                if pending and pending[-1][0] >= _Precedence.SUM:
                    self.fail(f"{token.text} behind {pending[-1][1].text}; put what has a sign in brackets")
                # A token of another kind, because a sign has one operand and a sum has two.
                pending.append((_Precedence.SUM, Token("prefix", token.text, self.take().at)))
                continue
            operands.append(self._primary())
            level = _OPERATORS.get(self.now.text, _Precedence.NONE)
            if self.now.text == "*" and self.behind.text == "*":
                self.fail("** is no operator of Modelica; write ^")
            while pending and pending[-1][0] >= level:
                before = pending.pop()
                if before[0] == level and level in (_Precedence.COMPARISON, _Precedence.POWER):
                    self.fail(f"{self.now.text} behind {before[1].text}; use brackets")
                _apply(before[1], operands)
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
            found = self.expression()
            if self.now.text == ",":
                self.fail("several results in brackets are not understood; call functions with one result")
            self.close(")", at)
            # A sum or product in brackets is one term, to which terms after the brackets are not appended.
            return syntax.Sum(at, [(1, found)]) if isinstance(found, syntax.Product | syntax.Sum) else found
        if text == "{":
            return self._array()
        if text == "[":
            return self._matrix()
        if text == "end" and kind == "word":
            self.fail("end as a subscript, or an expression that is missing; write the number")
        self.refuse()
        self.fail(f"an expression is missing before {shown(token)}")

    def _array(self) -> syntax.Array:
        at = self.take().at
        items = [] if self.now.text in ("}", ")") else self.listed(self.expression)
        indices = self._ranges() if items and self.takes("for") else []
        self.close("}", at)
        return syntax.Array(at, items, indices)

    def _matrix(self) -> syntax.Matrix:
        at = self.take().at
        rows = [self.listed(self.expression)]
        while self.takes(";"):
            rows.append(self.listed(self.expression))
        self.close("]", at)
        return syntax.Matrix(at, rows)

    def indices(self) -> list[tuple[str, syntax.Expression | None]]:
        """Names of indices with their ranges, None where a range is not given."""

        def index() -> tuple[str, syntax.Expression | None]:
            name = self.word("an index")
            return name, self.expression() if self.takes("in") else None

        return self.listed(index)

    def _ranges(self) -> list[tuple[str, syntax.Expression]]:
        """Indices with their ranges; an error if a range is missing."""
        found = []
        for name, where in self.indices():
            if where is None:
                self.fail(f"the index {name} has no range; write for {name} in 1:n")
            found.append((name, where))
        return found

    def call(self, name: syntax.Name) -> syntax.Call:
        """The call of a function, whose opening bracket is next."""
        begin = self.take().at
        found = syntax.Call(name.at, name, [], {})
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
                found.arguments.append(self._argument())
            if not self.takes(","):
                break
        self.close(")", begin)
        return found

    def _argument(self) -> syntax.Expression:
        value = self.expression()
        if self.now.text == "$":  # t$2 in diff(x, t$2)
            at = self.take().at
            return syntax.Call(at, syntax.Name(at, [("$", [])]), [value, self._primary()], {})
        if self.takes("for"):
            return syntax.Array(value.at, [value], self._ranges())
        return value

    def name(self) -> syntax.Name:
        """A name with dots and subscripts, or one of the functions der and initial."""
        at = self.now.at
        self.takes(".")
        if self.now.text in ("der", "initial"):
            return syntax.Name(at, [(self.take().text, [])])
        parts: list[tuple[str, list[syntax.Expression]]] = []
        while True:
            parts.append((self.word("a name"), self.subscripts()))
            if self.now.text != "." or self.behind.kind not in ("name", "quoted"):
                return syntax.Name(at, parts)
            self.take()

    def subscripts(self) -> list[syntax.Expression]:
        """The subscripts in the square brackets that are next; none if there are no brackets."""
        if self.now.text != "[":
            return []
        begin = self.take().at
        found: list[syntax.Expression] = []
        while not found or self.takes(","):
            found.append(syntax.Every(self.take().at) if self.now.text == ":" else self.expression())
        self.close("]", begin)
        return found


def _apply(token: Token, operands: list[syntax.Expression]) -> None:
    """Replace the last operands by the expression of an operator with these operands."""
    right, text = operands.pop(), token.text.removeprefix(".")
    if text == "not":
        operands.append(syntax.Negation(token.at, right))
        return
    sign = -1 if text == "-" else 1
    if token.kind == "prefix":
        operands.append(syntax.Sum(token.at, [(sign, right)]))
        return
    left = operands.pop()
    at = left.at
    if text in "+-":
        if isinstance(left, syntax.Sum):
            left.terms.append((sign, right))
        else:
            left = syntax.Sum(at, [(1, left), (sign, right)])
    elif text in "*/":
        # Only scalars are divisors, so that ./ is the same as /; the dot of .* is kept.
        mark = token.text if token.text == ".*" else text
        if isinstance(left, syntax.Product):
            left.factors.append((mark, right))
        else:
            left = syntax.Product(at, [("*", left), (mark, right)])
    elif text == "^":
        left = syntax.Power(at, left, right)
    elif text in ("and", "or"):
        if isinstance(left, syntax.Logic) and left.word == text:
            left.parts.append(right)
        else:
            left = syntax.Logic(at, text, [left, right])
    else:
        left = syntax.Comparison(at, text, left, right)
    operands.append(left)
