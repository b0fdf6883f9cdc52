"""Tables of a text or of a file: values between their points, by the library's kinds of segments."""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from dae_sdc.expressions.dag import Op
from dae_sdc.model.symbolic_values import Scalar, node_of
from dae_sdc.model.tables import LookupTable, in_pieces, pieces_of
from dae_sdc.modelica.library import Scope
from dae_sdc.modelica.syntax import Call
from dae_sdc.modelica.values import Values

# What lies between the points of a table, and what beyond its ends, in the order of the library.
_SMOOTHNESS: Final = ("linear", "akima", "constant", "fritsch-butland", "steffen", "makima")
_EXTRAPOLATION: Final = ("hold", "linear", "periodic", "refuse")
_STRAIGHT: Final = ("linear", "constant")
_NUMBER: Final = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?:[\s,;]+|$)"


def _value(
    values: Values, call: Call, scope: Scope, form: tuple[str, str], points: list[list[int]], number: int
) -> int:
    """The value of a table at a number, which follows what parameters the points of straight pieces have."""
    at, graph, (kind, outside), (places, heights) = call.at, values.graph, form, points
    is_straight, is_periodic = kind in _STRAIGHT, outside == "periodic"
    jumps = is_straight and str(call.function).endswith("OfTime")
    spots = [values.numeric(each, at, "a place in a table") for each in places]
    if not spots or any(b < a or (b == a and not jumps) for a, b in pairwise(spots)):
        values.fail(at, "the places in a table must increase; sort them and remove equal ones")
    if spots[0] == spots[-1]:
        return heights[-1]
    if outside == "refuse":
        shown = (scope.instance and scope.instance.shown) or str(call.arguments[-3]).rpartition(".")[0]
        within = [graph.compared(">=", number, places[0]), graph.compared("<=", number, places[-1])]
        about = {"terminal": True, "message": f"the table {shown} ends", "success": False}
        values.require(at, graph.joined(True, within), about)
    elif is_periodic:
        width, outside = graph.sub(places[-1], places[0]), "hold"
        turns = graph.call(Op.FLOOR, graph.divided(graph.sub(number, places[0]), width))
        number = graph.sub(number, graph.mul(width, turns))
    if is_straight:
        # Lines, or steps, between points; where a place stands twice, its last value counts.
        x, y = (list[Any](map(partial(Scalar, graph), row)) for row in points)
        wide = [k for k, (a, b) in enumerate(pairwise(spots)) if b > a]
        slopes = [(y[k + 1] - y[k]) / (x[k + 1] - x[k]) for k in wide]
        steps = kind == "constant"
        inner = [[y[k] for k in wide], [0 * slope for slope in slopes] if steps else slopes]
        goes_on = steps and outside == "linear"
        meet, rows = pieces_of([*(x[k] for k in wide), x[-1]], y, inner, "hold" if goes_on else outside)
        if goes_on:
            rows[2][0], rows[2][-1] = slopes[0], slopes[-1]
        return node_of(graph, in_pieces(Scalar(graph, number), meet, rows))
    values.structural.update(values.names_in(*places, *heights))
    tops = [values.numeric(each, at, "a value in a table") for each in heights]
    if is_periodic:  # so that its slopes are so, too
        period = spots[-1] - spots[0]
        spots = [*(x - period for x in spots[-4:-1]), *spots, *(x + period for x in spots[1:4])]
        tops = [*tops[-4:-1], *tops, *tops[1:4]]
    return node_of(graph, LookupTable(spots, tops, kind, outside)(Scalar(graph, number)))


def of_table(values: Values, item: Call, scope: Scope) -> int:
    """The value of a column of a table at a number, or that of a table of two numbers."""
    at = item.at
    name, file, rows, second, number, *form = (values.value(part, scope) for part in item.arguments)
    if file:
        rows = _of_file(values, at, name, file)
    elif rows[0][0] == values.graph.number("1e60"):
        values.fail(at, "a table must have rows of x and y, [x1, y1; x2, y2; ...]")
    rows = [[values.as_number(each, at) for each in row] for row in rows]
    kinds = [values.whole(each, at, "the form of a table") - 1 for each in form]
    kind, x = _SMOOTHNESS[kinds[0]], values.as_number(number, at)
    table = partial(_value, values, item, scope, (kind, _EXTRAPOLATION[kinds[1]]))
    if not str(item.function).endswith("2"):
        k = values.whole(second, at, "the column of a table")
        if not 1 <= k <= len(rows[0]):
            values.fail(at, f"a table has columns 1 to {len(rows[0])}; there is no element {k}")
        return table([[row[0] for row in rows], [row[k - 1] for row in rows]], x)
    if kind not in _STRAIGHT:
        values.fail(at, "a table of two numbers is read with linear or constant segments alone")
    (_, *across), *lines = rows
    if not (across and lines):
        values.fail(at, "a table of two numbers must have rows and columns, [0, y1, y2; x1, z11, z12]")
    places = [line[0] for line in lines]
    heights = [table([places, [*column]], x) for column in [*zip(*lines, strict=True)][1:]]
    return table([across, heights], values.as_number(second, at))


def _of_file(values: Values, at: int, name: str, file: str) -> list[list[int]]:
    """The rows of a table in a file, behind "double name(rows, columns)", or of a .csv file."""
    near = Path(values.source.file).parent / file
    path = near if near.is_file() else Path(file)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        values.fail(at, f"the table {name} in {path} cannot be read: {reason}")
    if path.suffix == ".csv":
        lines = [line for line in map(str.strip, text.splitlines()) if re.fullmatch(f"(?:{_NUMBER})+", line)]
        return [[values.graph.number(word) for word in re.findall(_NUMBER, line)] for line in lines]
    text = re.sub(r"#[^\n]*", "", text)
    head = re.search(rf"(?:double|float)\s+{re.escape(name)}\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)", text)
    if head is None:
        values.fail(at, f"{path} has no table {name}; give it as double {name}(rows, columns)")
    count, width = int(head[1]), int(head[2])
    whole = re.compile(f"(?:{_NUMBER}){{{count * width}}}").match(text[head.end() :].lstrip())
    if whole is None:
        values.fail(at, f"the table {name} in {path} has no {count} rows of {width} numbers")
    nodes = [values.graph.number(number) for number in re.findall(_NUMBER, whole[0])]
    return [nodes[k * width : (k + 1) * width] for k in range(count)]
