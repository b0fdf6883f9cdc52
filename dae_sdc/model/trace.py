"""From a residual in plain Python to the equations of a model, and to a problem with these equations."""

from __future__ import annotations

import copy
import linecache
import os
import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import CodeType, TracebackType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.adapter import AdaptedProblem
from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import DAEError, InputError, MisreadError, require_number, words_of
from dae_sdc.expressions.dag import Leaf, name_and_order
from dae_sdc.expressions.graph import Graph
from dae_sdc.model.model import Model, Variable
from dae_sdc.model.problem import Form, FormEquations, Shared, SwitchingEquations
from dae_sdc.model.retargeting import Reads, Retargeting, given_by_library, parameter_names, state_of
from dae_sdc.model.symbolic_values import (
    ExecutionPaths,
    NumberNeeded,
    Scalar,
    SymbolArray,
    Untraceable,
    array_of,
    entries_of,
    node_of,
)
from dae_sdc.sharing import once


class SymbolicParts:
    """Parts of quasilinear equations as expressions by name; missing derivatives are those of constraints."""

    def __init__(self, problem: Any, work: Retargeting, graph: Graph, parameters: Any) -> None:
        self.problem, self.work, self.graph, self.parameters = problem, work, graph, parameters

    def __call__(self, name: str, t: Scalar, q: Any, v: Any = None) -> Any:
        """The part ``name`` at time t, positions q and velocities v, as an array of its shape."""
        source, given, shape = self.problem.given_part(name)
        if source == "kernel":
            kernel = getattr(type(self.problem), f"{given}_kernel")
            out = np.zeros(int(np.prod(shape)), dtype=object).view(SymbolArray)
            self.work.of(kernel)(t, q, q if v is None else v, self.parameters, out)
            return out.reshape(shape)
        if source == "method":
            method = getattr(self.work.problem, given)
            value = array_of(method(t, *self.problem.part_arguments(name, q, v)))
            if value.shape != shape:
                raise Untraceable(f"{given} returns shape {value.shape}, which should be {shape}")
            return value
        if name == "B":
            return self("dg", t, q, v).T
        g = self("g", t, q, v)
        if name == "dg":
            by = v if len(self.problem.part_arguments("g", q, v)) > 1 else q
            return array_of([[self._slope(entry, unknown) for unknown in by] for entry in g])
        rates = self._rates(g, t, q, v)
        return rates if name == "dg_dt" else self._rates(rates, t, q, v)

    def _rates(self, values: Any, t: Scalar, q: Any, v: Any) -> Any:
        """Total time derivatives of values, for positions of velocity v; for fixed positions if v is None."""
        rates: Any = array_of([self._slope(value, t) for value in values])
        if v is None:
            return rates
        return rates + array_of([[self._slope(value, unknown) for unknown in q] for value in values]) @ v

    def _slope(self, value: Any, leaf: Scalar) -> Scalar:
        return Scalar(self.graph, self.graph.differentiate(node_of(self.graph, value), leaf.node))


CHECKED_POINTS = 4  # Random points near the start at which equations and function are compared.
CHECKED_DISTANCE = 0.1  # Distance of these points from the start, relative to the sizes of the unknowns.
EQUAL_VALUES = 1e-7  # Difference, relative to the value of an equation, up to which both are equal.
EQUAL_BY_ROUNDING = 1e-11  # Difference by rounding, relative to the largest value of all equations.

_Start = tuple[Vector | None, Vector | None]


class IdleEquationError(InputError):
    """An equation of a function has no unknown in it."""


@dataclass(frozen=True)
class Traced(Shared):
    """The equations that a residual in plain Python computes."""

    model: Model  # The equations, with unknowns in the order of the problem.
    # For each parameter of the model, the name of the attribute of the problem that has its value.
    attributes: tuple[str, ...]
    # Names of attributes that are numbers in the equations, because the function branches on them.
    numbers: tuple[str, ...] = ()
    branches: bool = False  # Whether the function branches on values of unknowns or of time.
    # What the residual has read from outside of itself, where all of that is known.
    reads: Reads | None = None
    # State and derivative near which the equations were compared with the function.
    start: _Start = (None, None)
    point: tuple[Any, ...] = ()  # State, derivative, time, and the value of the function there.

    def is_true_of(self, problem: ProblemDAE) -> bool:
        """Whether a function has the value at the point of comparison that it had."""
        *point, before = self.point
        with uncounted(problem), np.errstate(all="ignore"), suppress(Exception):
            return np.array_equal(_values(problem, *point), before, equal_nan=True)
        return False  # told where the function is read anew

    def is_of(self, problem: ProblemDAE) -> bool:
        """Whether these are still the equations of a problem with the same parameters."""
        return self.reads is not None and self.reads.unchanged(problem) and self.is_true_of(problem)

    def __reduce__(self) -> Any:
        # What a function reads is known by objects of this process.
        kept = self.model, self.attributes, self.numbers, self.branches, None, self.start, self.point
        return Traced, kept


@dataclass
class _Symbols:
    """Attributes of a problem as parameters of a model, made when they are read."""

    model: Model
    problem: ProblemDAE
    names: list[str]
    used: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> Scalar | None:
        if name not in self.names:
            return None
        if name not in self.used:
            own = _free(name, {*self.model.names, *self.model.parameters_by_name})
            unit = self.problem.parameter_units.get(name, "")
            self.model.add_parameter(own, float(getattr(self.problem, name)), unit)
            self.used.append(name)
        return Scalar(self.model.graph, self.model.graph.parameter(self.used.index(name)))


def trace_problem(problem: ProblemDAE, u0: Vector | None = None, *, name: str = "") -> Traced:
    """The equations of a problem by a call of ``eval_f`` with symbols, compared near the start."""
    # Shapes: u0 (n,).
    numbers: list[str] = []
    known = parameter_names(problem)
    start = _start_of(problem, u0)
    t0, t_end = (require_number("the interval", end) for end in problem.interval)
    while True:
        model = Model(
            name or problem.name,
            title=problem.title,
            interval=(t0, t_end),
            dt=require_number("dt", problem.dt),
            reference=problem.reference,
        )
        model.of_function = True
        symbols = _Symbols(model, problem, [one for one in known if one not in numbers])
        for j, (unknown, unit) in enumerate(zip(problem.names, problem.units, strict=True)):
            own = _free(unknown, model.names)
            model.check_name(own)
            model.add_variable(Variable(own, unit, _start_values(start, j), set()))
        paths = ExecutionPaths(model.graph)
        try:
            residual, reads = _called(problem, model, symbols, paths, [(j, 0) for j in range(problem.n)])
            break
        except NumberNeeded as needed:
            numbers += [symbols.used[i] for i in sorted(needed.parameters)]
    _add_equations(model, problem, residual)
    reads.seal()
    point = _compare(problem, model, start)
    seen = reads if reads.complete else None
    return Traced(model, tuple(symbols.used), tuple(numbers), paths.branches, seen, start, point)


def add_equations(model: Model, problem: ProblemDAE, symbols: Iterable[str]) -> None:
    """Add the equations of a problem, in which ``symbols`` are parameters, to a model of its unknowns."""
    # An unknown "der(x)" of the problem is the derivative of x in the model, and what defines it is left out.
    known = _Symbols(model, problem, list(symbols), list(model.parameters_by_name))
    names = [name_and_order(name) for name in problem.names]
    places = [(model.names.index(name), order) for name, order in names]
    entries, _ = _called(problem, model, known, ExecutionPaths(model.graph), places)
    for name, entry in zip(problem.equation_names, entries, strict=True):
        root = node_of(model.graph, entry)
        if root != model.graph.zero:
            model.add_root(root, name)


def traced_before(problem: ProblemDAE, traced: Traced, u0: Vector | None = None) -> Traced | None:
    """The equations of a problem by an earlier trace of a problem of its class with the same texts."""
    # Shapes: u0 (n,).
    if traced.reads is None or not traced.reads.unchanged(problem):
        return None
    start = _start_of(problem, u0)
    numbers = [float(getattr(problem, name)) for name in traced.attributes]
    parameters = traced.model.parameters_by_name
    if numbers != [parameter.value for parameter in parameters.values()]:
        valued = traced.model.with_values(dict(zip(parameters, numbers, strict=True)))
        model = with_starts(valued, lambda j: _start_values(start, j), problem.interval)
        try:
            compared = _compare(problem, model, start, 1)
        except InputError:  # told where the function is read anew
            return None
        return replace(traced, model=model, start=start, point=compared)
    if not traced.is_true_of(problem):
        return None
    pairs = zip((*start, problem.interval), (*traced.start, traced.model.interval), strict=True)
    if all(now is then if now is None or then is None else np.array_equal(now, then) for now, then in pairs):
        return traced
    model = with_starts(traced.model, lambda j: _start_values(start, j), problem.interval)
    _compare(problem, model, start)
    return replace(traced, model=model, start=start)


def with_starts(
    model: Model, start_of: Callable[[int], dict[int, float]], interval: tuple[float, float]
) -> Model:
    """The equations of a model with other start values of its unknowns, in another interval."""
    model = copy.copy(model)
    model.interval = interval[0], interval[1]
    unknowns = enumerate(model.variables_by_name.items())
    model.variables_by_name = {name: replace(one, start=start_of(j)) for j, (name, one) in unknowns}
    return model


def _start_of(problem: ProblemDAE, u0: Vector | None) -> _Start:
    """State and derivative at the start, as far as they are known."""
    u, du = u0, None
    with suppress(DAEError, ArithmeticError, ValueError, TypeError, AttributeError):
        t = float(problem.interval[0])
        u = np.array(problem.state(problem.u_exact(t) if u0 is None else u0))
        du = np.array(problem.state(problem.du_exact(t)))
    return u, du


def _free(name: str, taken: Iterable[str]) -> str:
    """A name for a symbol made from a text, different from those taken."""
    own = re.sub(r"[\s,;()]+", "_", name).strip("_") or "x"
    while own in (*taken, "t"):
        own += "_"
    return own


def _start_values(start: _Start, j: int) -> dict[int, float]:
    """Finite values of an unknown and its derivative at the start, by order of the derivative."""
    return {k: float(x[j]) for k, x in enumerate(start) if x is not None and np.isfinite(x[j])}


def _called(
    problem: ProblemDAE,
    model: Model,
    symbols: _Symbols,
    paths: ExecutionPaths,
    places: Sequence[tuple[int, int]],
) -> tuple[list[Any], Reads]:
    """The entries of the residual for symbols, over all paths through its branches, and its reads."""
    # ``places``: the unknown of the model and the order of its derivative that each unknown is.
    graph, n = model.graph, problem.n
    u, du = (
        array_of([Scalar(graph, graph.variable(j, order + more)) for j, order in places]) for more in (0, 1)
    )
    t = Scalar(graph, graph.time())
    for array in (u, du):
        array.n_diff = problem.n_diff
        array.flags.writeable = False
    work = Retargeting(problem, symbols, paths)
    kernel: Any = type(problem).residual_kernel
    by_parts = kernel is None and given_by_library(problem)
    if by_parts and not hasattr(problem, "residual_of_parts"):
        raise InputError(
            f"{type(problem).__name__} gives its equations by parts, and not by an eval_f that could be read"
        )

    def entries() -> list[Any]:
        if kernel is None:
            if by_parts:
                parts = SymbolicParts(problem, work, graph, _kernel_parameters(problem, work))
                residual: Any = problem.residual_of_parts(t, u, du, parts)
            elif isinstance(problem, AdaptedProblem):
                # A problem of pySDC's DAE project has an order of its own.
                meshes = state_of(problem.original), state_of(problem.original)
                for mesh, values in zip(meshes, (u, du), strict=True):
                    mesh[problem.places] = values
                residual = work.of(problem.original).eval_f(*meshes, t)[problem.rows]
            else:
                residual = work.problem.eval_f(u, du, t)
            entries_of_paths = entries_of(residual)
            if work.undo_changes():
                raise Untraceable("it changes what is outside of it: state that changes between calls")
            return entries_of_paths
        out = np.zeros(n, dtype=object).view(SymbolArray)
        work.of(kernel)(t, u, du, parameters, out)
        return list(out)

    try:
        parameters = None if kernel is None else _kernel_parameters(problem, work)
        entries_of_paths = cast(list[Any], paths.of_function(entries))
        if kernel is not None or by_parts:
            work.reads.complete = False  # parameters of kernels and parts are numbers of any origin
        return entries_of_paths, work.reads
    except NumberNeeded:
        work.undo_changes()
        raise
    except Untraceable as error:
        work.undo_changes()
        raise _refused(problem, str(error), error.__traceback__, work.codes) from None
    except InputError as error:
        raise _refused(problem, f"stops: {error}", error.__traceback__, work.codes) from None
    except Exception as error:
        when = "on a path through its branches" if paths.branches else "with symbols"
        reason = f"stops {when} ({words_of(error)})"
        raise _refused(problem, reason, error.__traceback__, work.codes) from error


def _kernel_parameters(problem: ProblemDAE, work: Retargeting) -> Any:
    """The parameters of a kernel as expressions of attributes, or as numbers."""
    try:
        return array_of(list(work.problem.kernel_parameters()))
    except (Untraceable, NumberNeeded, Exception):
        return np.array(problem.kernel_parameters(), dtype=np.float64)


def _refused(
    problem: ProblemDAE, reason: str, trail: TracebackType | None = None, codes: Iterable[CodeType] = ()
) -> InputError:
    """The error with the reason why a function cannot be traced, and the line where a traceback tells it."""
    lines = [(frame.f_code, line) for frame, line in traceback.walk_tb(trail) if frame.f_code in codes]
    where = ""
    if lines:
        code, line = lines[-1]
        path = os.path.relpath(code.co_filename) if os.path.exists(code.co_filename) else code.co_filename
        path = min(path, code.co_filename, key=len)
        text = linecache.getline(code.co_filename, line).strip()
        where = f" {path}:{line}" + (f" ('{text}')" if text else "")
    what = "residual_kernel" if type(problem).residual_kernel is not None else "eval_f"
    return InputError(
        f"{type(problem).__name__}.{what} cannot be read as equations:{where} {reason}".replace("\n", " ")
    )


def _add_equations(model: Model, problem: ProblemDAE, entries: list[Any]) -> None:
    if len(entries) != problem.n:
        raise _refused(problem, f"it returns {len(entries)} values for {problem.n} unknowns")
    names: list[str] = []
    for given, entry in zip(problem.equation_names, entries, strict=True):
        try:
            root = node_of(model.graph, entry)
        except Untraceable as error:
            raise _refused(problem, f"'{given}' {error}") from None
        if not model.graph.depends(root):
            raise IdleEquationError(
                f"no unknown is in '{given}', which leaves one open; correct or remove it"
            )
        name = given
        while name in names:
            name += "'"
        names.append(name)
        model.add_root(root, name)


def _compare(
    problem: ProblemDAE, model: Model, start: _Start, count: int = CHECKED_POINTS
) -> tuple[Any, ...]:
    """A random point and the function there; raises InputError if equations and function differ at one."""
    n, source = problem.n, np.random.default_rng(1)
    near = []
    for values in start:
        middle = np.zeros(n) if values is None else np.asarray(values, dtype=np.float64)
        size = np.where(middle == 0.0, 1.0 if values is None else CHECKED_DISTANCE, np.abs(middle))
        spread = size * (1.0 if values is None else CHECKED_DISTANCE)
        near.append(middle[:, None] + spread[:, None] * source.uniform(-1.0, 1.0, (n, count)))
    u, du = near
    t0, t_end = model.interval
    t = t0 + 0.01 * (t_end - t0) * source.uniform(0.0, 1.0, count)
    parameters = [parameter.required(model.name) for parameter in model.parameters_by_name.values()]

    def value(leaf: Leaf) -> Any:
        if leaf.kind == "u":
            return (du if leaf.order else u)[leaf.index]
        return t if leaf.kind == "t" else parameters[leaf.index]

    found = np.broadcast_to(model.graph.numeric([*model.roots, model.graph.time()], value)[:-1], (n, count))
    try:
        with uncounted(problem), np.errstate(all="ignore"):
            called = [_values(problem, u[:, k], du[:, k], float(t[k])) for k in (*range(count), 0)]
    except Exception as error:  # the function may not be defined at other values than the start
        reason = f"it stops at a random point near the start ({words_of(error)})"
        raise _refused(problem, reason) from error
    if not np.array_equal(called[0], called[-1], equal_nan=True):
        raise _refused(problem, "it returns other values when it is called again")
    for k in range(count):
        true, own = called[k], found[:, k]
        both = np.isfinite(true) & np.isfinite(own)
        largest = float(np.abs(true[both]).max(initial=0.0))
        with np.errstate(invalid="ignore"):
            bound = EQUAL_VALUES * np.abs(true) + EQUAL_BY_ROUNDING * largest
            wrong = np.flatnonzero(both & ~(np.abs(true - own) <= bound))
        if wrong.size:
            i = wrong[0]
            name = problem.equation_names[i]
            differ = f"is {true[i]:.6g} at a random point, and {own[i]:.6g} as it was read"
            raise _refused(problem, f"'{name}' {differ}")
    return u[:, 0].copy(), du[:, 0].copy(), float(t[0]), called[0]


def _values(problem: ProblemDAE, u: Vector, du: Vector, t: float) -> Vector:
    return np.array(problem.evaluate(problem.state(u), problem.state(du), t))


JUMP_TOLERANCE = 1e-7  # Difference of function and equations by rounding, relative to their terms.


class TracedEquations(FormEquations):
    """Compiled equations that replace ``eval_f`` in a problem whose residual was traced."""

    traced: Traced

    def __reduce__(self) -> Any:
        # No other process finds the class by its name, which is that of the user's class.
        kind: Any = type(self)
        return _blank, (kind.untraced, vars(kind).get("switch_names")), self.__getstate__()

    def kernel_parameters(self) -> npt.ArrayLike:
        """The values of the attributes that are parameters of the equations."""
        return np.array([getattr(self, name) for name in self.traced.attributes], dtype=np.float64)


class SwitchingTracedEquations(SwitchingEquations, TracedEquations):
    """What takes the place of ``eval_f`` where the equations that were read jump."""

    untraced: type[ProblemDAE]
    n_diff: int

    def confirm_jumps(self, u: MeshDAE, du: Vector, t: float) -> None:
        """Compare the equations on the sides in force with the function that was read, away from borders."""
        own: Any = self
        rates = attach(du, self.n_diff)
        try:
            with np.errstate(all="ignore"):
                called = np.array(entries_of(self.untraced.eval_f(own, u, rates, t)), dtype=np.float64)
        except Exception:  # of a function that is not made for values beside those of the run
            return
        read = np.asarray(self.eval_f(u, rates, t))
        if (np.abs(read - called) <= JUMP_TOLERANCE * (np.abs(read) + np.abs(called))).all():
            return
        terms = self.residual_sizes(u, rates, t)
        wrong = np.flatnonzero(np.abs(read - called) > JUMP_TOLERANCE * terms)
        if wrong.size:
            i = wrong[0]
            raise MisreadError(
                f"{type(self).__name__}.eval_f was read wrongly: '{own.equation_names[i]}' is "
                f"{called[i]:.6g} at t={t:.6g}, and {read[i]:.6g} as it was read; solve with trace=False"
            )

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """Times at which a condition of time alone changes, and those that the class of the user gives."""
        own: Any = self
        return tuple(sorted({*super().breakpoints(t0, t_end), *self.untraced.breakpoints(own, t0, t_end)}))


def use_trace(problem: ProblemDAE, traced: Traced, form: Form) -> None:
    """Let a problem compute by compiled code in place of its ``eval_f``, in a subclass of its own class."""
    problem.__dict__.update(form=form, traced=traced, _parameters=None)
    names = None if form.jumps is None else tuple(form.jumps.watched_names)
    object.__setattr__(problem, "__class__", _traced_class(type(problem), names))
    problem.sparsity, problem.constant_mass = form.pattern, form.constant_mass


@once
def _traced_class(cls: type[ProblemDAE], switch_names: tuple[str, ...] | None) -> type[ProblemDAE]:
    """The subclass of a class whose equations were read, with switches of these names where they jump."""
    own: dict[str, Any] = {name: getattr(cls, name) for name in ("__module__", "__doc__", "__qualname__")}
    own |= {"eval_f": TracedEquations.eval_f, "untraced": cls}
    if switch_names is not None:
        own["switch_names"] = switch_names
    base = TracedEquations if switch_names is None else SwitchingTracedEquations
    return type(cls.__name__, (base, cls), own)


def _blank(cls: type[ProblemDAE], switch_names: tuple[str, ...] | None) -> ProblemDAE:
    """A problem whose equations were read, without its attributes."""
    traced = _traced_class(cls, switch_names)
    return traced.__new__(traced)
