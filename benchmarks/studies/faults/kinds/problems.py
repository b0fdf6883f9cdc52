"""Problems whose functions raise or return nonsense, and whose attributes have wrong types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import numpy as np
import scipy.sparse as sparse

import dae_sdc as ds
from benchmarks.studies.faults.cases import VALUES, Case, Random, called, choice, functions_of, kind, tables


class Ring(ds.ProblemDAE):
    """x' = y, y' = -x, z = x y, with everything that a problem may have."""

    index = 1
    interval = (0.0, 0.2)
    dt = 0.1
    switch_names = ("s",)

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return np.array([du[0] - u[1], du[1] + u[0], u[2] - u[0] * u[1]])

    def u_exact(self, t: float) -> Any:
        return np.array([np.sin(t), np.cos(t), np.sin(t) * np.cos(t)])

    def du_exact(self, t: float) -> Any:
        return np.array([np.cos(t), -np.sin(t), np.cos(2 * t)])


def _jacobian(self: Any, u: Any, du: Any, t: float, c: float) -> Any:
    return np.array([[1.0, -c, 0.0], [c, 1.0, 0.0], [-c * u[1], -c * u[0], c]])


# Methods that a problem may have, right ones
EXTRA: Mapping[str, Callable[..., Any]] = {
    "jacobian": _jacobian,
    "residual_nodes": lambda self, u, du, t: np.array(
        [[b[0] - a[1], b[1] + a[0], a[2] - a[0] * a[1]] for a, b in zip(u, du, strict=True)]
    ),
    "switches": lambda self, u, t: [u[0] - 5.0],
    "invariants": lambda self, u, t: np.array([u[0] ** 2 + u[1] ** 2 - 1.0]),
    "invariants_jacobian": lambda self, u, t: np.array([[2.0 * u[0], 2.0 * u[1], 0.0]]),
    "breakpoints": lambda self, t0, t_end: (0.1,),
    "start_step": lambda self, u, t: None,
}

METHODS = ("eval_f", "eval_f", "eval_f", "u_exact", "du_exact", *EXTRA)

ATTRIBUTES = tables()["words"]["attributes"].split()


class Own(Exception):
    """An exception of the user."""


class OwnBase(BaseException):
    """One that nothing catches."""


RAISED: tuple[BaseException, ...] = (
    *(ValueError("a\nb"), TypeError(), KeyError("k"), IndexError(), AttributeError("x"), ZeroDivisionError()),
    *(FloatingPointError(), OverflowError(), RuntimeError("index out of bounds"), RecursionError()),
    *(MemoryError(), StopIteration(), NotImplementedError(), OSError(2, "no"), ImportError()),
    *(AssertionError(), Own("own"), Warning("w"), UnicodeDecodeError("utf-8", b"x", 0, 1, "no")),
    *(np.linalg.LinAlgError("singular"), ds.DAEError("d"), EOFError(), GeneratorExit(), KeyboardInterrupt()),
    *(SystemExit(3), OwnBase("base"), ExceptionGroup("g", [ValueError()])),
)

ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit, OwnBase)  # What no library may catch


def _with_entry(entry: Any, value: Any, at: int) -> Any:
    listed = list(value) if np.ndim(value) else [value]
    listed[at % len(listed)] = entry
    return listed


def _out_of_range(row: int) -> Any:
    matrix = sparse.csc_matrix(np.eye(3))
    matrix.indices = np.array([0, row, 2], dtype=np.int32)
    return matrix


TOOLS: dict[str, Any] = {"sparse": sparse, "with_entry": _with_entry, "out_of_range": _out_of_range}
# What a function returns in the place of what is right
RETURNED: Mapping[str, Callable[[Any, int], Any]] = {
    **{name: lambda right, at, make=make: make() for name, make in VALUES.items()},  # type: ignore[misc]
    **functions_of(tables()["returned"], "right, at", **TOOLS),
}
PATTERNS = functions_of(tables()["patterns"], **TOOLS)
ACTIONS = functions_of(tables()["actions_of_problems"], "p", ds=ds)


def _wrong(method: str, after: int, fault: Callable[[Any], Any]) -> dict[str, Any]:
    """A method that is right up to so many calls, and what a class needs besides."""
    right: Any = EXTRA.get(method) or getattr(Ring, method)
    calls = count(1)

    def wrong(self: Any, *args: Any) -> Any:
        number, value = next(calls), right(self, *args)
        return value if number <= after else fault(value)

    others: dict[str, Any] = {}
    if method.startswith("invariants"):
        others = {name: EXTRA[name] for name in EXTRA if name.startswith("invariants")}
        others["invariant_names"] = ("circle",)
    return others | {method: wrong}


@kind("problem", 15.0)
def problem(rng: Random) -> Case:
    """A problem with one mistake, in a function or an attribute, from the first call on or later."""
    action, what = choice(rng, ACTIONS), rng.random()
    after = int(choice(rng, [0, 0, 1, 2, 5, 20, 50]))
    method, at = choice(rng, METHODS), int(rng.integers(3))
    late = False
    members: Callable[[], dict[str, Any]]  # What a class has in place of what is right, or an object of it
    if what < 0.3:
        error = choice(rng, RAISED)

        def fault(value: Any) -> Any:
            raise error

        text, members = f"{method} raises {error!r} after {after} calls", lambda: _wrong(method, after, fault)
    elif what < 0.65:
        name = choice(rng, RETURNED)
        text = f"{method} returns {name} after {after} calls"
        members = lambda: _wrong(method, after, lambda value: RETURNED[name](value, at))  # noqa: E731
    elif what < 0.75:
        pattern = choice(rng, PATTERNS)
        text, members = f"sparsity is {pattern}", lambda: {"sparsity": PATTERNS[pattern]()}
    else:
        attribute, value = choice(rng, ATTRIBUTES), choice(rng, VALUES)
        late = rng.random() < 0.4
        text, members = f"{attribute} is {value}", lambda: {attribute: VALUES[value]()}

    def call() -> Any:
        if not late:
            return ACTIONS[action](type("Faulty", (Ring,), members()))
        ring = Ring()
        for name, member in members().items():
            setattr(ring, name, member)
        return ACTIONS[action](ring)

    return Case(f"{action} where {text}{', of the object' * late}", lambda: called(call, own=ENDS))
