"""Tables of the Modelica library, with piecewise linear interpolation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import sympy

from dae_sdc.modelica.arithmetic import minus, plus
from dae_sdc.modelica.arrays import elements
from dae_sdc.modelica.modifications import Change
from dae_sdc.modelica.scope import Bound, Variable
from dae_sdc.modelica.syntax import Name
from dae_sdc.modelica.text import similar
from dae_sdc.modelica.values import Values
from dae_sdc.modelica.vanishing import Vanishing

_PARAMETERS: Final = "table columns smoothness extrapolation tableOnFile verboseExtrapolation".split()


@dataclass(slots=True)
class Table:
    """A component that interpolates in a table."""

    at: int  # Place of its declaration in the text.
    shown: str  # Name in the text.
    rows: list[list[Any]]  # Values of the table; the first column holds the abscissas.
    columns: list[int]  # Numbers, from 1, of the columns that are interpolated.
    # Whether to extrapolate by the first and the last value; otherwise by the first and the last line.
    hold: bool
    # inputs, outputs: its variables; a single input belongs to all columns.
    inputs: list[Variable]
    outputs: list[Variable]

    def equations(self, values: Values) -> Iterator[Vanishing]:
        """The equations of the outputs."""
        for k, (column, output) in enumerate(zip(self.columns, self.outputs, strict=True)):
            points = [(row[0], row[column - 1]) for row in self.rows]
            x = values.symbol(self.inputs[k if len(self.inputs) > 1 else 0])
            value = values.interpolated(points, x, self.at, self.hold)
            yield Vanishing(self.at, plus([values.symbol(output), minus(value)]), self.shown)


def read_table(shown: str, at: int, change: Change, values: Values) -> Table:
    """The table of a component, still without variables."""
    given: dict[str, Bound] = {}
    for word, part in change.parts.items():
        if word not in _PARAMETERS or part.bound is None:
            values.fail(part.at, f"the table {shown} has no {word}{similar(word, _PARAMETERS)}")
        given[word] = part.bound
    if "tableOnFile" in given and values.bound(given["tableOnFile"]) != sympy.false:
        values.fail(at, f"the table {shown} is in a file; write its numbers, table=[...]")
    smoothness = _last_word(given.get("smoothness"), "LinearSegments")
    extrapolation = _last_word(given.get("extrapolation"), "LastTwoPoints")
    if smoothness != "LinearSegments" or extrapolation not in ("LastTwoPoints", "HoldLastPoint"):
        values.fail(
            at, f"the table {shown} is {smoothness}, {extrapolation}; straight lines alone are understood"
        )
    if "table" not in given:
        values.fail(at, f"the table {shown} has no numbers; write table=[x1, y1; x2, y2; ...]")
    rows = values.bound(given["table"])
    widths = {len(row) if isinstance(row, list) else 0 for row in rows} if isinstance(rows, list) else {0}
    width = min(widths, default=0)
    if len(widths) > 1 or width < 2:
        values.fail(
            change.parts["table"].at, f"the table {shown} must have rows of x and y, [x1, y1; x2, y2; ...]"
        )
    columns = list(range(2, width + 1))
    if "columns" in given:
        listed = elements(values.bound(given["columns"]))
        numbers = [values.as_number(one, at) for one in listed]
        columns = [round(values.numeric(one, at, f"a column of {shown}")) for one in numbers]
        if not columns or not all(2 <= one <= width for one in columns):
            values.fail(change.parts["columns"].at, f"the columns of {shown} must be from 2 to {width}")
    return Table(at, shown, rows, columns, extrapolation == "HoldLastPoint", [], [])


def _last_word(bound: Bound | None, default: str) -> str:
    """The last part of a name that is the value of a parameter; ``default`` without a value."""
    if bound is None:
        return default
    return bound.expression.parts[-1][0] if isinstance(bound.expression, Name) else "of a form of its own"
