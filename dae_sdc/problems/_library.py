"""Problems of the library: tables of parameters, stored reference solutions, and records of the Test Set."""

from __future__ import annotations

import functools
import inspect
import io
import json
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from itertools import accumulate, groupby
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from numpy.polynomial import chebyshev

from dae_sdc.dae.kernels import COMPLEX_STEP
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError, ReferenceRangeError

TEST_SET = "F. Mazzia, C. Magherini: Test Set for IVP Solvers, release 2.4, 2008"
HAIRER_WANNER = "E. Hairer, G. Wanner: Solving Ordinary Differential Equations II, 2nd edition, Springer 1996"
HAIRER_LUBICH_ROCHE = (
    "E. Hairer, C. Lubich, M. Roche: The Numerical Solution of Differential-Algebraic Systems by Runge-Kutta "
    "Methods, Lecture Notes in Mathematics 1409, Springer 1989"
)

WIDTH = 106  # Largest length of a line of a documented parameter.
TIMES_OF_START = 1e-9  # Distance from 0 up to which a time counts as the start.


def require_positive(problem: ProblemDAE, name: str) -> None:
    """Raise :class:`InputError` unless the named parameter of ``problem`` is positive and finite."""
    value = getattr(problem, name)
    if not isinstance(value, (int, float, np.number)) or not 0.0 < value < math.inf:
        raise InputError(f"{name} of {type(problem).__name__} must be positive and finite; got {value!r}")


def require_finite(problem: ProblemDAE, name: str) -> None:
    """Raise :class:`InputError` unless the named parameter of ``problem`` is a finite number."""
    value = getattr(problem, name)
    if not isinstance(value, (int, float, complex, np.number)) or not np.isfinite(value):
        raise InputError(f"{name} of {type(problem).__name__} must be finite; got {value!r}")


def require_defaults(problem: LibraryProblem, free: Sequence[str] = ()) -> None:
    """Raise :class:`ReferenceRangeError` unless parameters that are not ``free`` have the stored values."""
    for name, entry in problem.parameters.items():
        given = getattr(problem, name)
        if name not in free and given != entry.default:
            raise ReferenceRangeError(
                f"the reference of {type(problem).__name__} is for default parameters and this one has "
                f"{name}={given}; compute a reference with a tight tolerance"
            )


class Parameter(NamedTuple):
    """A parameter of a problem; its value is the attribute of the same name of the problem."""

    default: Any  # Default value.
    unit: str  # Unit of the value; "1" if dimensionless, "none" if the value is not passed to the equations.
    meaning: str  # Description for the documentation.
    # Function of the problem and the name that raises :class:`InputError` for an inadmissible value.
    check: Callable[..., None] | None = None
    kind: str = ""  # Admissible values, for the documentation; by default the type of the default value.
    fixed: bool = False  # Whether the attribute is read-only.
    # Whether the value is passed on to the constructor of the base class, which checks and stores it.
    inherited: bool = False


def positive(unit: str, meaning: str, /, **defaults: float) -> dict[str, Parameter]:
    """Positive parameters of the same unit and meaning; the keywords are their names and defaults."""
    return {name: Parameter(value, unit, meaning, require_positive) for name, value in defaults.items()}


def finite(unit: str, meaning: str, /, **defaults: complex) -> dict[str, Parameter]:
    """Finite parameters of the same unit and meaning; the keywords are their names and defaults."""
    return {name: Parameter(value, unit, meaning, require_finite) for name, value in defaults.items()}


def formulation(*names: str) -> dict[str, Parameter]:
    """The parameter "formulation" of a problem with constraints: one of ``names``, by default the first."""
    listed = ", ".join(f'"{name}"' for name in names)
    meaning = f'Form in which implicit methods see the constraints; "{names[0]}" by default'
    return {"formulation": Parameter(None, "none", meaning, None, f"{{{listed}}}, optional", inherited=True)}


class LibraryProblem(ProblemDAE):
    """A problem of the library: its constructor takes the parameters of its table, and settings."""

    # The table, in the order of the constructor and of :meth:`kernel_parameters`.
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    # First two arguments of the base class: numbers of differential and algebraic unknowns of ProblemDAE.
    size: ClassVar[tuple[int, int]]
    # Names and sizes of groups of consecutive unknowns that converge at different orders.
    group_sizes: ClassVar[Mapping[str, int]] = {}
    _signature: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        own = vars(cls)
        if "parameters" in own or "size" in own:
            cls.parameter_units = {name: entry.unit for name, entry in cls.parameters.items()}
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            table = [inspect.Parameter(k, kind, default=one.default) for k, one in cls.parameters.items()]
            settings = inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)
            cls.__signature__ = cls._signature = inspect.Signature([*table, settings])
            cls.__doc__ = with_reference(_documented(cls.__doc__ or "", cls.parameters), cls.reference)
        elif "__init__" in own:  # a class of a user with parameters outside the table
            given = inspect.signature(own["__init__"]).parameters
            cls.__signature__ = inspect.Signature(list(given.values())[1:])
        if "names" in own and "units" not in own and isinstance(own["names"], tuple):
            cls.units = ("1",) * len(own["names"])
        # Complex steps are exact, so a class has a Jacobian by hand only where that is much faster.
        if "residual_kernel" in own and not own.keys() & {"jacobian", "jacobian_kernel"}:
            cls.jacobian_kernel = COMPLEX_STEP
        super().__init_subclass__(**kwargs)

    def __init__(self, *values: Any, **settings: Any) -> None:
        if values:
            named = dict(self._signature.bind(*values, **settings).arguments)
            settings = {**named.pop("settings", {}), **named}
        given = {name: settings.pop(name, entry.default) for name, entry in self.parameters.items()}
        for fixed in (False, True):
            names = [
                k for k, entry in self.parameters.items() if entry.fixed is fixed and not entry.inherited
            ]
            self._makeAttributeAndRegister(*names, localVars=given, readOnly=fixed)
        for name, entry in self.parameters.items():
            if entry.check is not None:
                entry.check(self, name)
            elif entry.inherited:
                settings[name] = given[name]
        self._check_parameters()
        super().__init__(*self._counts(), **settings)

    def _check_parameters(self) -> None:
        """Raise :class:`InputError` for values of parameters that contradict each other."""

    def _counts(self) -> tuple[int, int]:
        """The first two arguments of the constructor of the base class."""
        return self.size

    @property
    def groups(self) -> dict[str, slice]:
        """Places of the unknowns of each group in ``group_sizes``; by default as in :class:`ProblemDAE`."""
        ends = accumulate(self.group_sizes.values())
        own = {
            name: slice(end - self.group_sizes[name], end)
            for name, end in zip(self.group_sizes, ends, strict=True)
        }
        return own or super().groups

    def _choose(self, **chosen: Any) -> None:
        """Set what changes; any assignment makes the problem pack the parameters of its kernels anew."""
        for name, value in chosen.items():
            if value != getattr(self, name):
                setattr(self, name, value)

    def kernel_parameters(self) -> npt.ArrayLike:
        """Values of the parameters with a unit other than "none", in the order of the table."""
        return [getattr(self, name) for name, entry in self.parameters.items() if entry.unit != "none"]


def with_reference(text: str, reference: str) -> str:
    """A docstring with the citation of its equations as its last section."""
    section = textwrap.wrap(f"{reference}.", WIDTH, break_on_hyphens=False) if reference else ()
    lines = [inspect.cleandoc(text), "", "References", "----------", *section]
    return textwrap.indent("\n".join(lines), "    ").lstrip(" ") + "\n    " if section else text


def _documented(text: str, parameters: Mapping[str, Parameter]) -> str:
    """The docstring of a class with a section on its parameters inserted before its first section."""
    lines = ["Parameters", "----------"]

    def alike(item: tuple[str, Parameter]) -> tuple[str, str, str]:
        entry = item[1]
        return entry.kind or type(entry.default).__name__, entry.meaning, entry.unit

    for (kind, meaning, unit), items in groupby(parameters.items(), alike):
        lines.append(f"{', '.join(name for name, _ in items)} : {kind}")
        # A unit stays on one line.
        words = f"{meaning}; {f'unit {unit}.'.replace(' ', chr(0))}"
        lines += textwrap.wrap(words, WIDTH, initial_indent="    ", subsequent_indent="    ")
    lines += ["**settings", "    ``newton_tol`` and ``newton_maxiter`` of :class:`ProblemDAE`."]
    section = "\n".join(lines).replace(chr(0), " ")
    text = inspect.cleandoc(text)
    first = re.search(r"^\w+\n-+$", text, re.MULTILINE)
    head, tail = (text[: first.start()], f"\n{text[first.start() :]}\n") if first else (f"{text}\n\n", "\n")
    return textwrap.indent(f"{head}{section}\n{tail}", "    ").lstrip(" ") + "    "


Values: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike]  # A solution and its derivative.


class SolvedProblem(LibraryProblem):
    """A problem with a formula for its solution, or for its start alone."""

    def _solution(self, t: float) -> Values:
        """The solution and its derivative at time ``t``, each of shape (n,)."""
        raise InputError(f"{type(self).__name__} has no formula for its solution; pass an initial value u0")

    def u_exact(self, t: float) -> MeshDAE:
        """The solution at time ``t``; :class:`ReferenceRangeError` where the formula does not hold."""
        return self.state(self._solution(t)[0])

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative of the solution; raises like :meth:`u_exact`."""
        return self.state(self._solution(t)[1])

    def _only_at_start(self, t: float, when: str = "", advice: str = "") -> None:
        """Raise :class:`ReferenceRangeError` unless ``t`` is 0, up to round-off."""
        if not abs(t) <= TIMES_OF_START:
            raise ReferenceRangeError(
                f"the solution of {type(self).__name__}{when} is known at t=0 only; got t={t:g}; "
                f"{advice}compute a reference with a tight tolerance"
            )


def pattern(n: int, rows: npt.ArrayLike, columns: npt.ArrayLike) -> Any:
    """A sparsity pattern of n equations by the places of its entries, as a CSC matrix in order."""
    matrix = sparse.csc_matrix((np.ones(len(np.asarray(rows))), (rows, columns)), shape=(n, n))
    matrix.sort_indices()
    return matrix


class Pieces(NamedTuple):
    """A piecewise polynomial."""

    breaks: Vector  # Ends of the P pieces, shape (P + 1,), increasing.
    coefficients: Vector  # Chebyshev coefficients on each piece mapped to [-1, 1], shape (P, K, n).


@functools.cache
def load(name: str) -> Pieces:
    """The stored piecewise polynomial ``name``, read once."""
    content = (resources.files("dae_sdc.problems") / "data" / f"{name}.npz").read_bytes()
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return Pieces(stored["breaks"], stored["coefficients"])


class ReferencedProblem(LibraryProblem):
    """A problem with a start for all parameters, and for default ones a solution in ``data/<stored>.npz``.

    ``tools/make_references.py`` makes the data; the JSON file beside each states the method and the
    difference of two independent methods. Values are accurate to 1e-11, derivatives to 1e-9, relative to the
    largest value of the component and of its derivative. At an event, both are those before it.
    """

    stored: str = ""

    def reference_at(self, t: float, rate: bool = False) -> Vector:
        """The stored solution, or its derivative, at a time in the stored range, shape (n,)."""
        require_defaults(self)
        breaks, coefficients = load(self.stored)
        start, end = breaks[0], breaks[-1]
        # A sum of time steps misses the end of the interval by round-off.
        slack = 1e-9 * (end - start)
        if not start - slack <= t <= end + slack:
            raise ReferenceRangeError(
                f"the reference of {type(self).__name__} covers t from {start:g} to {end:g}; got t={t:g}"
            )
        piece = min(max(int(np.searchsorted(breaks, t, side="left")) - 1, 0), len(breaks) - 2)
        scale = 2.0 / float(breaks[piece + 1] - breaks[piece])
        values = chebyshev.chebder(coefficients[piece], scl=scale) if rate else coefficients[piece]
        return np.asarray(chebyshev.chebval((t - float(breaks[piece])) * scale - 1.0, values))

    def _start(self) -> npt.ArrayLike:
        """The state at t = 0, shape (n,)."""
        raise InputError(f"{type(self).__name__} has no initial value")

    def _initial_derivative(self) -> npt.ArrayLike:
        """The derivative at t = 0, shape (n,)."""
        raise InputError(f"{type(self).__name__} has no derivative at the start")

    def u_exact(self, t: float) -> MeshDAE:
        """The initial value at t = 0 for any parameters, the stored reference elsewhere."""
        return self.state(self._start() if t == 0.0 else self.reference_at(t))

    def du_exact(self, t: float) -> MeshDAE:
        """The derivative at t = 0 for any parameters, that of the stored reference elsewhere."""
        return self.state(self._initial_derivative() if t == 0.0 else self.reference_at(t, rate=True))


_SLACK = 1e-9  # Tolerance for a time to count as an end of the interval, relative to its length.


class ReferenceEnd(NamedTuple):
    """Reference solution of a problem at the end of its interval."""

    t: float  # End of the interval.
    u: Vector  # The solution at ``t``, shape (n,), in the order of the state.
    # Number of digits of each component known to be correct, shape (n,); 0 where none is known, or where the
    # component vanishes and has no relative error.
    digits: Vector
    scored: tuple[int, ...]  # Numbers of the unknowns in the official score.
    source: str  # Origin of the values, and of the digits.


class Record(NamedTuple):
    """The entry of a problem in ``data/testset.json``; arrays are in the order of its state."""

    t0: float  # Start of the interval.
    u0: Vector  # Consistent initial value, shape (n,).
    du0: Vector | None  # Derivatives of all unknowns at ``t0``, shape (n,); None where they are not stored.
    end: ReferenceEnd  # The solution at the end.
    variable_index: tuple[int, ...]  # Index of every unknown; 1 for ordinary differential equations.
    # Sizes below which an absolute error counts, shape (n,). Where none are stored, the nonzero values at the
    # two ends give them: the smaller for scored unknowns, the larger for others, 1 if both are zero.
    nominal: Vector


@functools.cache
def _stored() -> dict[str, dict[str, Any]]:
    content = (resources.files("dae_sdc.problems") / "data" / "testset.json").read_text(encoding="utf-8")
    stored: dict[str, dict[str, Any]] = json.loads(content)
    return stored


def _constant(values: list[float]) -> Vector:
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array


@functools.cache
def load_record(name: str) -> Record:
    """The record ``name`` of ``data/testset.json``, read once; its arrays are read-only."""
    stored = _stored()[name]
    end = ReferenceEnd(
        stored["t_end"],
        _constant(stored["u_end"]),
        _constant(stored["digits"]),
        tuple(stored["scored"]),
        stored["source"],
    )
    du0 = None if stored["du0"] is None else _constant(stored["du0"])
    index = tuple(stored["variable_index"])
    nominal = stored.get("nominal") or _sizes(stored["u0"], stored["u_end"], end.scored)
    return Record(stored["t0"], _constant(stored["u0"]), du0, end, index, _constant(nominal))


def _sizes(u0: list[float], u_end: list[float], scored: tuple[int, ...]) -> list[float]:
    sizes = [sorted({abs(first), abs(last)} - {0.0}) or [1.0] for first, last in zip(u0, u_end, strict=True)]
    return [size[0] if i in scored else size[-1] for i, size in enumerate(sizes)]


class StoredEnds(LibraryProblem):
    """A problem whose solution is stored at both ends of its interval."""

    record: str = ""  # Key in ``data/testset.json``.
    independent_of: tuple[str, ...] = ()  # Parameters on which the solution does not depend.

    def _arranged(self, values: npt.ArrayLike) -> MeshDAE:
        """The state of values in the order of the record."""
        return self.state(values)

    def u_exact(self, t: float) -> MeshDAE:
        """The stored solution at the start, and for default parameters at the end of the interval."""
        record = load_record(self.record)
        slack = _SLACK * (record.end.t - record.t0)
        if abs(t - record.t0) <= slack:
            return self._arranged(self._start())
        self._require_defaults()
        if abs(t - record.end.t) <= slack:
            return self._arranged(self._end().u)
        raise ReferenceRangeError(
            f"the solution of {type(self).__name__} is stored at t={record.t0:g} and t={record.end.t:g} "
            f"only; got t={t:g}"
        )

    def du_exact(self, t: float) -> MeshDAE:
        """The stored derivative of the solution at the start of the interval; raises like :meth:`u_exact`."""
        record = load_record(self.record)
        self._require_defaults()
        if record.du0 is None or abs(t - record.t0) > _SLACK * (record.end.t - record.t0):
            known = "not stored" if record.du0 is None else f"stored at t={record.t0:g} only"
            raise ReferenceRangeError(f"the derivative of {type(self).__name__} is {known}; got t={t:g}")
        return self._arranged(record.du0)

    def _start(self) -> npt.ArrayLike:
        """The initial value for default parameters; subclasses may give it for all parameters."""
        self._require_defaults()
        return load_record(self.record).u0

    def _end(self) -> ReferenceEnd:
        """The solution at the end of the interval for default parameters; subclasses may have more digits."""
        return load_record(self.record).end

    def _require_defaults(self) -> None:
        require_defaults(self, self.independent_of)


class TestSetProblem(StoredEnds):
    """A problem of the Test Set; the indices and sizes of its unknowns are those of its record."""

    __test__ = False  # pytest takes classes by this name for tests

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        record = load_record(self.record)
        self.variable_index, self.nominal = record.variable_index, record.nominal

    @property
    def reference_end(self) -> ReferenceEnd:
        """The reference solution at the end of the interval, for default parameters."""
        self._require_defaults()
        return self._end()
