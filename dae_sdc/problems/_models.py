"""The library of DAEs given by their equations alone, those in the Modelica files of this room among them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError, require_count
from dae_sdc.expressions.dag import name_and_order
from dae_sdc.problems._library import with_reference
from dae_sdc.registry import Registry

if TYPE_CHECKING:
    from dae_sdc.model.model import Model


MODELS: Registry[Callable[..., Model]] = Registry("model", "dae_sdc.problems")
"""Functions that return a new model, by name; their arguments are numbers of equations or constants.

A name that :data:`~dae_sdc.dae.problem.PROBLEMS` has too stands for the same equations, see
:class:`ModelOfProblem`.
"""

Symbols: TypeAlias = Sequence[Any]
Expressions: TypeAlias = Mapping[str, Any]
P = TypeVar("P", bound=ProblemDAE)


class ModelOfProblem:
    """The model of a problem with compiled equations: the same unknowns in the same order, and the same F.

    Unknowns, parameters, interval, step size and start are those of the problem. An unknown "der(x)" of the
    problem is in the model the derivative of its unknown x, and the equation that defines it is left out. The
    equations are read from the kernels of the problem, where ``held`` names parameters that are numbers in
    them while they are 0, as a derivative times a symbol counts as a derivative. Or ``equations``, a function
    of a model and its unknowns as symbols, returns the residuals by the names of the equations.
    """

    def __init__(
        self,
        name: str,
        problem_class: Callable[..., ProblemDAE],
        equations: Callable[[Model, Symbols], Expressions] | None = None,
        held: Sequence[str] = (),
    ) -> None:
        self.held = held
        self.name, self.problem_class, self.equations = name, problem_class, equations
        self.__doc__ = (problem_class.__doc__ or "").partition("\n")[0]
        given = inspect.signature(problem_class).parameters
        units: Mapping[str, str] = getattr(problem_class, "parameter_units", {})
        self.parameters = [parameter for parameter, unit in units.items() if unit != "none"]
        self.__signature__ = inspect.Signature([given[parameter] for parameter in self.parameters])

    def __call__(self, **parameters: float) -> Model:
        """A new model; the arguments are values of parameters by their names."""
        from dae_sdc.model.model import Model
        from dae_sdc.model.trace import add_equations

        problem = self.problem_class(**parameters)
        model = Model(
            self.name,
            title=problem.title,
            interval=problem.interval,
            dt=problem.dt,
            reference=problem.reference,
        )
        units = dict(zip(problem.names, problem.units, strict=True))
        own = [name for name in problem.names if name_and_order(name)[1] == 0]
        unknowns = model.variables(own, unit=[_plain(units[name]) for name in own])
        values = [getattr(problem, name) for name in self.parameters]
        model.parameters(
            self.parameters, values, unit=[_plain(problem.parameter_units[name]) for name in self.parameters]
        )
        if self.equations is not None:
            for name, expression in self.equations(model, unknowns).items():
                model.equation(expression, name=name)
        else:
            symbols = [name for name in self.parameters if name not in self.held or getattr(problem, name)]
            add_equations(model, problem, symbols)
        start_at(model, problem.names, np.asarray(problem.u_exact(problem.interval[0])).tolist())
        if problem.given_nominal is not None:
            sizes = np.broadcast_to(np.asarray(problem.given_nominal, dtype=np.float64), (problem.n,))
            for state, size in zip(problem.names, sizes.tolist(), strict=True):
                unknown, order = name_and_order(state)
                model.variables_by_name[unknown].nominal[order] = size
        return model


def _plain(unit: str) -> str:
    """The unit of a problem as models write it: the empty string for 1."""
    return "" if unit == "1" else unit


def start_at(model: Model, names: Sequence[str], values: Iterable[float], order: int = 0) -> None:
    """Set the start values of the named unknowns, or of their derivatives of order ``order``."""
    for name, value in zip(names, values, strict=True):
        model.start(name if order == 0 else f"der({name}, {order})", float(value))


# Largest number of repeated parts of a model: SymPy takes about a millisecond for each equation.
MOST_PARTS = 10_000


def library_model(
    name: str, title: str, least: int = 1, **settings: Any
) -> Callable[[Callable[..., None]], Callable[..., Model]]:
    """Decorator that registers what fills a new model; sizes are at least ``least``, the title shows them."""

    def enter(fill: Callable[..., None]) -> Callable[..., Model]:
        signature = inspect.signature(fill)
        sizes_alone = list(signature.parameters.values())[1:]
        signature = signature.replace(parameters=sizes_alone, return_annotation="Model")

        @functools.wraps(fill)
        def build(*values: int, **named: int) -> Model:
            from dae_sdc.model.model import Model

            bound = signature.bind(*values, **named)
            bound.apply_defaults()
            for what, size in bound.arguments.items():
                require_count(what, size, MOST_PARTS)
                if size < least:
                    raise InputError(f"{what} must be at least {least}; got {size}")
            sizes = {what: int(size) for what, size in bound.arguments.items()}
            model = Model(
                "-".join(map(str, (name, *sizes.values()))), title=title.format(**sizes), **settings
            )
            fill(model, **sizes)
            return model

        build.__doc__ = with_reference(fill.__doc__ or "", settings.get("reference", ""))
        vars(build)["__signature__"] = signature
        MODELS.add(name, build)
        return build

    return enter


def also_model(
    name: str,
    equations: Callable[[Model, Symbols], Expressions] | None = None,
    held: Sequence[str] = (),
) -> Callable[[type[P]], type[P]]:
    """Decorator that registers the :class:`ModelOfProblem` of a class."""

    def enter(problem_class: type[P]) -> type[P]:
        MODELS.add(name, ModelOfProblem(name, problem_class, equations, held))
        return problem_class

    return enter


def constraint_forces(model: Model, constraints: Expressions, q: Symbols, names: Symbols = ()) -> list[Any]:
    """G^T lambda with G = dg/dq, by multipliers that have ``names`` or are new unknowns lambda_1, ..."""
    new = [f"lambda_{k}" for k in range(1, len(constraints) + 1)]
    multipliers = names or model.variables(new, start=0.0)
    pairs = list(zip(constraints.values(), multipliers, strict=True))
    return [total([expression.diff(x) * factor for expression, factor in pairs]) for x in q]


def total(terms: Sequence[Any]) -> Any:
    """The sum of SymPy expressions in one call, faster than repeated +."""
    from sympy import Add

    return Add(*terms)


DIRECTORY: Final = Path(__file__).with_name("modelica")

_DESCRIBED = re.compile(r'^model\s+\w+\s+"([^"]*)"', re.MULTILINE)


class ModelicaFile:
    """A model of the library that is read from a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        described = _DESCRIBED.findall(path.read_text(encoding="utf-8"))
        # The description is that of the last class, the model.
        text = described[-1] if described else path.stem
        self.__doc__ = f"{text[:1].upper()}{text[1:]}."

    def __call__(self, **parameters: float) -> Model:
        """A new model; the arguments are values of parameters by their names."""
        from dae_sdc.modelica.reader import read_modelica

        model = read_modelica(self.path, parameters=parameters)
        model.name = self.path.stem
        return model


for _path in sorted(DIRECTORY.glob("*.mo")):
    MODELS.add(_path.stem, ModelicaFile(_path))
