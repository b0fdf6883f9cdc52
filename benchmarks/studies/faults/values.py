"""Values that hardly anybody means, by names that say what they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp

NAN, INF = float("nan"), float("inf")


def _of_itself() -> list[Any]:
    entries: list[Any] = []
    entries.append(entries)
    return entries


def _same(values: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """Values that no case can change."""
    return {name: lambda value=value: value for name, value in values.items()}  # type: ignore[misc]


# What can be changed is made anew, so that no case changes what another one gets
VALUES: Mapping[str, Callable[[], Any]] = {
    **_same({"None": None, "nan": NAN, "inf": INF, "-inf": -INF, "-1": -1, "0": 0, "0.0": 0.0, "0.5": 0.5}),
    **_same({"1": 1, "2": 2, "3": 3, "0.1": 0.1, "1e-5": 1e-5, "100": 100, "name": "simple"}),
    **_same({"method": "radau-iia-5"}),
    "function of a number": lambda: lambda u, t: u[0] - 1.0,
    "function of nan": lambda: lambda u, t: NAN,
    "list of numbers": lambda: [0.1, 0.05],
    "times": lambda: np.array([0.0, 0.1, 0.2]),
    "times that fall": lambda: [0.2, 0.1, 0.1],
    "dict of a name": lambda: {"x": 0.5},
    "dict of a parameter": lambda: {"alpha": NAN, "g": NAN},
    **_same({"1e300": 1e300, "-1e300": -1e300, "1e-300": 1e-300, "10**30": 10**30, "10**400": 10**400}),
    **_same({"True": True, "False": False, "empty text": "", "text": "text", "text of a number": "1e-3"}),
    **_same({"text of lines": "a\nb\nc", "text with a zero byte": "a\0b", "text of half a letter": "\udcff"}),
    **_same({"long text": "x" * 100_000, "bytes": b"\xff\x00", "complex": 1j}),
    "object": object,
    "function": lambda: lambda *args: None,
    "function that raises": lambda: lambda *args: 1 / 0,
    "class": lambda: int,
    "exception": lambda: ValueError("a\nb"),
    **_same({"module": math, "symbol": sp.Symbol("q")}),
    "matrix of symbols": lambda: sp.ones(2, 2) * sp.Symbol("q"),
    **_same({"nan of SymPy": sp.nan, "Fraction": Fraction(1, 3), "Decimal": Decimal("NaN")}),
    "path": lambda: Path("missing") / "file.npy",
    "directory": lambda: Path(),
    "empty list": list,
    "list": lambda: [1],
    "list of nan": lambda: [NAN, NAN, NAN],
    "list of None": lambda: [None],
    "list of texts": lambda: ["a", "b"],
    "list of lists": lambda: [[1.0], [2.0, 3.0]],
    "list of itself": _of_itself,
    "tuple": lambda: (1.0, "a"),
    "empty dict": dict,
    "dict": lambda: {"a": 1},
    "dict of numbers": lambda: {1: 2.0},
    "dict of nan": lambda: {"u1": NAN, "x": NAN},
    "set": lambda: {1.0, 2.0},
    "range": lambda: range(3),
    "generator": lambda: (i for i in range(3)),
    "array": lambda: np.ones(3),
    "empty array": lambda: np.ones(0),
    "array of shape ()": lambda: np.array(1.0),
    "array of shape (2, 3)": lambda: np.ones((2, 3)),
    "array of shape (0, 5)": lambda: np.ones((0, 5)),
    "array of nan": lambda: np.full(3, NAN),
    "array of complex": lambda: np.ones(3) * 1j,
    "array of texts": lambda: np.array(["a", "b", "c"]),
    "array of objects": lambda: np.array([object(), None, "x"], dtype=object),
    "array of dates": lambda: np.array(["2001-01-01"] * 3, dtype="datetime64[D]"),
    "record array": lambda: np.zeros(3, dtype=[("a", float)]),
    "masked array": lambda: np.ma.array(np.ones(3), mask=True),
    "nan of NumPy": lambda: np.float32(NAN),
    "bool of NumPy": lambda: np.bool_(True),
    "big integer of NumPy": lambda: np.uint64(2**64 - 1),
}

# What is no number and no row of numbers, whoever looks at it
NO_NUMBERS = frozenset(
    "nan|text|empty text|text of a number|text of lines|text with a zero byte|text of half a letter|long text"
    "|bytes|complex|object|function|function that raises|class|exception|module|symbol|matrix of symbols|path"
    "|nan of SymPy|directory|list of texts|list of itself|dict|dict of numbers|array of texts"
    "|array of objects|list of nan|array of nan|nan of NumPy|array of dates|list of None|set|Decimal".split(
        "|"
    )
)

# What is of no use to any option of the package
NOTHING = frozenset(
    "object|exception|module|bytes|nan|complex|nan of NumPy|array of dates|Decimal".split("|")
)

# Words for command lines; none is a path outside the current directory and its parent
TEXTS = (
    *("", " ", "a\nb", "\udcff", "\t", "a b", "9" * 5000, "x" * 5000, "9" * 30, "a'b\"c"),
    *"nan inf -inf -1 0 0.5 1e999 1e300 1e-300 1,2 1,,2 1e-3,1e-4 NaN,NaN 0x10 1_000 1j 1:2:3 None".split(),
    *"text \u00e9 \u03bb .. . missing/file.npy a=b a= = x=nan u1=nan -- - --- --nodes ' { {0} %s *".split(),
    *"simple pendulum radau-iia-5 LU bdf2 u1 all file.npy own.py:X model.mo text.mo a.npz a.csv".split(),
    *"a.png a.pdf .npy -o @file".split(),
)

NO_NUMBER_TEXTS = frozenset(
    {"", " ", "nan", "text", "\u00e9", "NaN,NaN", "a=b", "--", "'", '"', "{", "%s", "LU", "*"}
)

# Words that look like numbers
NUMBER_TEXTS = "nan inf -inf -1 0 1 2 0.5 1e999 1e300 1e-300 -1e-300 0x10 1_000 3 100 -0.0 5e-324".split()
