"""Functions of one variable that interpolate between points, as expressions whose corners are switches."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.errors import InputError
from dae_sdc.imports import LaterModule
from dae_sdc.registry import require_name

sympy: Any = LaterModule("sympy")  # a function that is read has none of its symbols

KINDS: Final = "linear", "akima", "makima", "pchip", "fritsch-butland", "steffen", "spline", "natural"
OUTSIDE: Final = "hold", "linear", "refuse"
MOST_CORNERS: Final = 100  # Corners of a table up to which runs switch there; else the step size sees them.
EDGE: Final = 1e-6  # Part of the width of a table by which its first and last pieces go on before NaN.


class LookupTable:
    """A function of one variable by interpolation between points.

    It takes an expression of a model, what a function that is read is given, or numbers. Where pieces meet, a
    hundred at most, a run switches: steps end there, and hold one piece from start to end.

    Parameters
    ----------
    x, y : array_like, shape (N,)
        Places, increasing, and the values there.
    kind : {"linear", "akima", "makima", "pchip", "fritsch-butland", "steffen", "spline", "natural"}
        Straight lines; cubic pieces with continuous slopes by Akima, as modified to overshoot less, or
        without overshoot by Fritsch and Butland with the ends of SciPy or of Modelica, or by Steffen;
        or with continuous curvature, that ends "not a knot" or at 0.
    outside : {"hold", "linear", "refuse"}
        Beyond the ends: the values there, straight lines with the slopes there, or NaN, which ends a run.

    Raises
    ------
    InputError
        If places do not increase, or there are not two points of finite numbers.

    Examples
    --------
    >>> torque = ds.LookupTable([0.0, 1.0, 3.0, 4.0], [0.0, 2.0, 2.0, 0.0], kind="pchip")
    >>> float(torque(2.0)), float(torque(5.0))
    (2.0, 0.0)
    >>> m = ds.Model("motor", interval=(0.0, 1.0))
    >>> speed = m.variable("speed", start=0.5, fixed=True)
    >>> m.equation(m.der(speed) - torque(speed))
    >>> [record.name for record in ds.solve(m, rtol=1e-6).switches if len(record)]
    ['speed < 1']
    """

    @checked()
    def __init__(self, x: Any, y: Any, kind: str = "linear", outside: str = "hold") -> None:
        require_name("'kind' of a table", kind, KINDS)
        require_name("'outside' of a table", outside, OUTSIDE)
        places, values = (np.asarray(part, dtype=np.float64) for part in (x, y))
        if places.ndim != 1 or places.shape != values.shape or len(places) < 2:
            raise InputError(f"a table needs as many x as y, at least 2; got {places.shape}, {values.shape}")
        if not (np.isfinite([places, values]).all() and (np.diff(places) > 0.0).all()):
            raise InputError("the x of a table must increase, and all its numbers must be finite")
        inner = _coefficients(kind if len(places) > 2 else "linear", places, values)[::-1].tolist()
        self._pieces = pieces_of(places.tolist(), values.tolist(), inner, outside)

    def __call__(self, x: Any) -> Any:
        """The value at a place, or at each of an array."""
        return in_pieces(x, *self._pieces)


def _coefficients(kind: str, x: Any, y: Any) -> Any:
    """Coefficients of the polynomials between points, the highest first, shape (D, N - 1)."""
    # F. N. Fritsch, J. Butland, SIAM J. Sci. Stat. Comput. 5 (1984) 300; M. Steffen, Astron. Astrophys. 239
    # (1990) 443. In Modelica's library the slopes at the ends are those of the straight lines.
    from scipy import interpolate

    width = np.diff(x)
    lines = np.diff(y) / width
    if kind == "linear":
        return np.array([lines, y[:-1]])
    if kind in ("akima", "makima"):
        return interpolate.Akima1DInterpolator(x, y, method=kind).c
    if kind in ("spline", "natural"):
        return interpolate.CubicSpline(x, y, bc_type="natural" if kind == "natural" else "not-a-knot").c
    slopes = interpolate.PchipInterpolator(x, y).derivative()(x[1:-1])
    if kind == "pchip":
        return interpolate.PchipInterpolator(x, y).c
    if kind == "steffen":
        before, behind = lines[:-1], lines[1:]
        parabola = abs(before * width[1:] + behind * width[:-1]) / (width[1:] + width[:-1])
        steepest = np.minimum(np.minimum(abs(before), abs(behind)), 0.5 * parabola)
        slopes = (np.sign(before) + np.sign(behind)) * steepest
    return interpolate.CubicHermiteSpline(x, y, np.concatenate([lines[:1], slopes, lines[-1:]])).c


def pieces_of(places: list[Any], values: list[Any], inner: list[list[Any]], outside: str) -> tuple[Any, Any]:
    """Where pieces of a table meet, and where they begin with their coefficients, the lowest first."""
    rows = [places[:-1], *inner]
    if outside == "linear" and len(inner) == 2:
        return places[1:-1], rows
    width = places[-1] - places[-2]
    last = sum(k * row[-1] * width ** (k - 1) for k, row in enumerate(inner) if k)
    for end, slope, at in ((0, inner[1][0], 0), (-1, last, len(places))):
        value = None if outside == "refuse" else values[end]
        beyond = [places[end], value, slope if outside == "linear" else 0, 0, 0]
        for row, number in zip(rows, beyond, strict=False):
            row.insert(at, number)
    # Differences are taken also beside a start that is at an end.
    room = EDGE * (places[-1] - places[0]) if outside == "refuse" else 0
    return [places[0] - room, *places[1:-1], places[-1] + room], rows


def in_pieces(x: Any, meet: list[Any], rows: list[list[Any]]) -> Any:
    """The polynomial of the piece in which a place is; of an expression its coefficients are chosen."""
    array = np.asarray(x)
    if array.dtype == object and array.ndim:
        entries = np.array([in_pieces(entry, meet, rows) for entry in array.ravel()], dtype=object)
        return entries.reshape(array.shape).view(type(x) if isinstance(x, np.ndarray) else np.ndarray)
    if array.dtype != object:
        piece = np.searchsorted(meet, array.real, side="right")
        begin, *coefficients = np.array(rows, dtype=np.float64)[:, piece]
    else:
        in_sympy = not hasattr(x, "graph")
        less = partial(sympy.StrictLessThan, evaluate=False) if in_sympy else operator.lt
        nan = sympy.log(-1, evaluate=False) if in_sympy else np.log(0 * x - 1)
        piecewise = lambda test, a, b: sympy.Piecewise((a, test), (b, True), evaluate=False)  # noqa: E731
        choose = partial(_chosen, [less(x, place) for place in meet], piecewise if in_sympy else np.where)
        rows = [[nan if item is None else item for item in row] for row in rows]
        if len(meet) > MOST_CORNERS:  # whole pieces, which meet without a jump
            return choose([_polynomial(x, *piece) for piece in zip(*rows, strict=True)])
        begin, *coefficients = map(choose, rows)
    return _polynomial(x, begin, *coefficients)


def _polynomial(x: Any, begin: Any, *coefficients: Any) -> Any:
    """The value of a polynomial with coefficients in x - begin, the lowest first."""
    result = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = result * (x - begin) + coefficient
    return result


def _chosen(tests: Sequence[Any], where: Callable[..., Any], values: Sequence[Any]) -> Any:
    """The value before the first of ordered conditions that holds, or the last one, by halves."""
    if all(getattr(value, "node", value) == getattr(values[0], "node", values[0]) for value in values):
        return values[0]
    half = len(tests) // 2
    before = _chosen(tests[:half], where, values[: half + 1])
    return where(tests[half], before, _chosen(tests[half + 1 :], where, values[half + 1 :]))
