"""Parser of equations: equalities, if-equations, loops and connections."""

from __future__ import annotations

from dae_sdc.modelica import syntax
from dae_sdc.modelica.expression_parser import ExpressionParser
from dae_sdc.modelica.words import REFUSED_CALLS


class EquationParser(ExpressionParser):
    """Parser of the equations in a section of a class."""

    def equations(self, ends: tuple[str, ...]) -> list[syntax.Equation]:
        """Equations up to one of the words ``ends``, which is not taken."""
        found: list[syntax.Equation] = []
        while self.now.kind != "end" and not (self.now.kind == "word" and self._ends(ends)):
            if self.now.text == "assert" and self.behind.text == "(":
                # An assertion is a check of the solution and does not change it.
                self.call(self.name())
            else:
                found.append(self._equation())
            self.skip_annotation()
            self.need(";", "behind an equation")
        return found

    def _ends(self, ends: tuple[str, ...]) -> bool:
        text = self.now.text
        if text == "initial":  # the function initial() is no section
            return text in ends and self.behind.text in ("equation", "algorithm")
        return text in ends

    def _equation(self) -> syntax.Equation:
        self.refuse()
        at, text = self.now.at, self.now.text
        if text in REFUSED_CALLS and self.behind.text == "(":
            self.fail(REFUSED_CALLS[text])
        if text == "if" and self.now.kind == "word":
            return self._if_equation()
        if text == "for":
            return self._for_equation()
        if self.takes("connect"):
            self.need("(", "behind connect")
            left = self.name()
            self.need(",", "between two connectors")
            right = self.name()
            self.need(")", "behind two connectors")
            self.note()
            return syntax.Connect(at, left, right)
        left_side = self.expression()
        if self.now.text in (":=", "=="):
            self.fail(f"{self.now.text} in an equation; write =")
        if self.now.text in (";", "end") and isinstance(left_side, syntax.Call):
            self.fail(f"{left_side.function} is called as an equation, which is not understood", at)
        self.need("=", "in an equation")
        return syntax.Equal(at, left_side, self.expression(), self.note())

    def _if_equation(self) -> syntax.IfEquation:
        """An if-equation, whose first word is next."""
        self.deeper()
        at, branches, other = self.now.at, [], None
        self.take()
        while True:
            condition = self.expression()
            self.need("then", "behind a condition")
            branches.append((condition, self.equations(("elseif", "else", "end"))))
            if not self.takes("elseif"):
                break
        if self.takes("else"):
            other = self.equations(("end",))
        self._end("if", "if-equation", at)
        return syntax.IfEquation(at, branches, other)

    def _for_equation(self) -> syntax.For:
        """A loop, whose first word is next."""
        self.deeper()
        at = self.take().at
        indices = self.indices()
        self.need("loop", "behind the range of for")
        body = self.equations(("end",))
        self._end("for", "loop", at)
        return syntax.For(at, indices, body)

    def _end(self, word: str, what: str, at: int) -> None:
        """Take ``end if`` or ``end for`` of an equation that begins at the place ``at``."""
        where = f"of the {what} of line {self.source.line(at)}"
        self.need("end", where)
        self.need(word, f"{where}, end {word};")
        self.note()
        self.depth -= 1
