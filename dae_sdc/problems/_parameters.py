"""Problems with a table of parameters, which holds the default, unit, meaning and check of each."""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError, ReferenceRangeError

WIDTH = 106  # Largest length of a line of a documented parameter.


def require_positive(problem: ProblemDAE, *names: str) -> None:
    """Raise :class:`InputError` unless the named parameters of ``problem`` are positive and finite."""
    for name in names:
        value = getattr(problem, name)
        if not isinstance(value, (int, float, np.number)) or not 0.0 < value < math.inf:
            raise InputError(f"{name} of {type(problem).__name__} must be positive and finite; got {value!r}")


def require_finite(problem: ProblemDAE, *names: str) -> None:
    """Raise :class:`InputError` unless the named parameters of ``problem`` are finite numbers."""
    for name in names:
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
            cls.__doc__ = _documented(cls.__doc__ or "", cls.parameters)
        elif "__init__" in own:  # a class of a user with parameters outside the table
            given = inspect.signature(own["__init__"]).parameters
            cls.__signature__ = inspect.Signature(list(given.values())[1:])
        super().__init_subclass__(**kwargs)

    def __init__(self, *values: Any, **settings: Any) -> None:
        bound = self._signature.bind(*values, **settings)
        bound.apply_defaults()
        given = dict(bound.arguments)
        rest: dict[str, Any] = given.pop("settings")
        for fixed in (False, True):
            names = [
                k for k, entry in self.parameters.items() if entry.fixed is fixed and not entry.inherited
            ]
            self._makeAttributeAndRegister(*names, localVars=given, readOnly=fixed)
        for name, entry in self.parameters.items():
            if entry.check is not None:
                entry.check(self, name)
            elif entry.inherited:
                rest[name] = given[name]
        self._check_parameters()
        super().__init__(*self._counts(), **rest)

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

    def kernel_parameters(self) -> npt.ArrayLike:
        """Values of the parameters with a unit other than "none", in the order of the table."""
        return [getattr(self, name) for name, entry in self.parameters.items() if entry.unit != "none"]


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
