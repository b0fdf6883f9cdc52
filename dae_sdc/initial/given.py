"""What is given of a start, by names of unknowns and derivatives or by patterns of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from dae_sdc.errors import InputError, require_number
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.registry import unknown
from dae_sdc.text import brief

V = TypeVar("V")
Fixed = Mapping[str, float] | Iterable[str] | None
Bounds = Mapping[str, tuple[float, float]]

# Distance of a value outside its bounds, in units of its size, that is what round-off leaves.
OUTSIDE = 1e-9


class Condition(str):
    """The text of an expression of unknowns that is fixed, with the expression in SymPy's form."""

    __slots__ = ("expression",)
    expression: Any

    def __new__(cls, text: str, expression: Any) -> Condition:  # noqa: D102
        made = super().__new__(cls, text)
        made.expression = expression
        return made


def is_pattern(name: str) -> bool:
    """Whether a name stands for those that it matches, with * for any text and ? for one character."""
    return not isinstance(name, Condition) and ("*" in name or "?" in name)


def matched(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a pattern matches, with the derivative that it asks for."""
    base, order = name_and_order(pattern)
    wanted = re.compile(re.escape(base).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)
    bases = dict.fromkeys(name for name in names if not name_and_order(name)[1])
    return [name_of(name, order) for name in bases if wanted.fullmatch(name)]


def by_name(
    given: Mapping[Any, V], names: Iterable[str], what: str, kept: Collection[str] = ()
) -> dict[str, V]:
    """Values by name, with the names that patterns match; names win over patterns, later ones over earlier.

    What is ``kept`` no pattern stands for.
    """
    entries = {name if isinstance(name, str) else str(name): value for name, value in given.items()}
    exact = {name: value for name, value in entries.items() if not is_pattern(name)}
    names, matches = list(names), dict[str, V]()
    for pattern in (name for name in entries if name not in exact):
        own = matched(pattern, names)
        if not own:
            raise InputError(unknown(f"pattern, which no {what} matches,", pattern, names))
        matches |= dict.fromkeys((name for name in own if name not in kept), entries[pattern])
    return matches | exact


def expanded(given: Any, names: Iterable[str], what: str) -> Any:
    """Values by name, or a list of names, with names in place of patterns; others as they are."""
    if isinstance(given, Mapping):
        return by_name(given, names, what)
    if given is None or isinstance(given, str) or not isinstance(given, Iterable):
        return given
    return list(by_name(dict.fromkeys(given), names, what))


class OfResult(dict[str, float]):
    """Values of another result, of which those are guesses whose names there are."""


def of_names(given: Any, names: Collection[str], title: str) -> Any:
    """What is given, of another result the values whose names there are; InputError where there are none."""
    if not isinstance(given, OfResult):
        return given
    known = {name: value for name, value in given.items() if name in names}
    if not known:
        raise InputError(
            f"the guesses have no unknown of {title}, which are {brief(list(names))}; give them by name"
        )
    return known


def numbers(
    what: str, given: Mapping[str, Any] | None, names: Iterable[str], kind: str, kept: Collection[str] = ()
) -> dict[str, float]:
    """Finite values by name, see :func:`by_name`."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(f"{what} must map names to values; got {given!r}")
    values = by_name(given, names, kind, kept)
    for name, value in values.items():
        values[name] = require_number(f"{what} {name}", value)
        if not np.isfinite(values[name]):
            raise InputError(f"{what} {name} must be finite; got {value}")
    return values


def split(fixed: Any, names: Iterable[str], kind: str) -> tuple[dict[str, float], list[str]]:
    """Fixed values by name, and names of those that are fixed at their guesses."""
    if fixed is None:
        return {}, []
    if isinstance(fixed, Mapping):
        return numbers("fixed value", fixed, names, kind), []
    if isinstance(fixed, str) or not isinstance(fixed, Iterable):
        raise InputError(f"fixed must map names to values, or be a sequence of names; got {fixed!r}")
    return {}, expanded(fixed, names, kind)


def bounds_of(given: Mapping[str, Any] | None, names: Iterable[str], what: str) -> dict[str, Any]:
    """Smallest and largest values by name, infinite where there is none."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(f"bounds must map names to pairs, for instance {{'x': (0, 1)}}; got {given!r}")
    names = list(names)
    bounds = {name: _ends(name, ends) for name, ends in by_name(given, names, what).items()}
    for name in bounds:
        if name not in names and name_and_order(name)[0] not in names:
            raise InputError(unknown(what, name, names))
    return bounds


def _ends(name: str, given: Any) -> tuple[float, float]:
    try:
        low, high = given.split(":") if isinstance(given, str) else given
        pair = [
            end if one in (None, "") else require_number(f"the bound of {name}", float(one))
            for one, end in ((low, -np.inf), (high, np.inf))
        ]
    except (TypeError, ValueError):
        raise InputError(
            f"bounds of {name} are a pair, (0, 1), (0, None) for no upper one, or 0:1; got {given!r}"
        ) from None
    if not pair[0] <= pair[1]:
        raise InputError(f"the lower bound of {name} is above the upper one; got {given!r}")
    return pair[0], pair[1]


def bounds_of_model(model: Any, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Bounds that a model gives its unknowns, and others that are given in their place."""
    ends = ((one.name, one.minimum, one.maximum) for one in model.unknowns())
    own = {
        name: (-np.inf if low is None else low, np.inf if high is None else high)
        for name, low, high in ends
        if low is not None or high is not None
    }
    others = bounds_of(given, model.names, f"unknown of model {model.name}")
    return own | {name_of(*model.unknown(name)): pair for name, pair in others.items()}


def require_within(title: str, values: Iterable[tuple[str, float]], bounds: Bounds) -> None:
    """Raise InputError for a value outside its bounds by more than round-off."""
    for name, value in values:
        low, high = bounds.get(name, (-np.inf, np.inf))
        least = OUTSIDE * (abs(value) or 1.0)
        if value < low - least or value > high + least:
            raise InputError(
                f"{name} = {value:.10g} of {title} is outside its bounds, {shown_bounds(low, high)}; give a "
                f"value within them, or other bounds"
            )


def shown_bounds(low: float, high: float) -> str:
    """Bounds in words."""
    if not np.isfinite(high):
        return f"at least {low:.10g}"
    return f"{low:.10g} to {high:.10g}" if np.isfinite(low) else f"at most {high:.10g}"


def box_of(bounds: Bounds, jet_names: Collection[str], title: str) -> Any:
    """Lower and upper bounds of all values, shape (2, jets); None if there are none."""
    strange = [name for name in bounds if name not in jet_names and name_and_order(name)[1]]
    if strange:
        raise InputError(
            f"{strange[0]} of {title} has no bounds, as it follows from lower derivatives; bound those"
        )
    ends = [bounds.get(name, (-np.inf, np.inf)) for name in jet_names]
    return np.array(ends, dtype=np.float64).reshape(-1, 2).T if bounds else None
