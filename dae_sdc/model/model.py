"""A DAE as equations: unknowns, parameters and expressions that vanish."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import sympy

from dae_sdc.errors import InputError, require_count, require_number
from dae_sdc.expressions.dag import name_of
from dae_sdc.expressions.symbols import TIME, Homotopy, Unknown, derivative
from dae_sdc.model.equations import Equations, Parameter, Variable
from dae_sdc.model.problem import Form, ModelProblem, first_order
from dae_sdc.model.sympy_input import from_sympy, sympified
from dae_sdc.sharing import one_at_a_time
from dae_sdc.text import aligned, html_table, html_view

HIGHEST_DERIVATIVE = 100  # Highest order of a derivative in equations.


class Model(Equations):
    r"""A differential-algebraic system as named unknowns, parameters and equations.

    Unknowns and parameters are symbols of SymPy. An equation is an expression that vanishes, or a
    ``sympy.Eq``, of unknowns, their derivatives ``der(x, k)`` with respect to time, parameters and time
    ``t``.

    Parameters
    ----------
    name : str
        Name in tables and messages.
    title : str
        One line that says what the equations describe.
    interval : (float, float)
        Start and end time used where the user gives none.
    dt : float, optional
        Step size used where the user gives none; a hundredth of the interval if not given.
    reference : str
        Source of the equations.

    Attributes
    ----------
    variables_by_name : dict of str to Variable
        The unknowns.
    parameters_by_name : dict of str to Parameter
        The parameters.
    graph : Graph
        The equations as expressions that are differentiated and compiled; unknown j is
        ``graph.variable(j)``, parameter i is ``graph.parameter(i)``.
    roots : list of int
        The node of every equation in the graph.
    of_function : bool
        Whether the equations were read from a function, which rounds the numbers in them.
    conditions : tuple of callable
        Functions of the values of all parameters by name that raise :class:`InputError` for values that the
        equations do not allow.
    definitions : tuple of Definition
        Auxiliary unknowns that are expressions of the others, in an order in which they can be evaluated.

    Examples
    --------
    >>> model = ds.Model("pendulum")
    >>> x, y, tension = model.variables("x y lambda", start=[1.0, 0.0, 0.0])
    >>> g = model.parameter("g", 9.81, unit="m/s^2")
    >>> der = model.der
    >>> model.equations(der(x, 2) + tension * x, der(y, 2) + tension * y + g, x**2 + y**2 - 1)
    """

    def __init__(
        self,
        name: str = "model",
        *,
        title: str = "",
        interval: tuple[float, float] = (0.0, 1.0),
        dt: float | None = None,
        reference: str = "",
    ) -> None:
        super().__init__(name, interval)
        self.title = title
        self.dt = dt
        self.reference = reference
        self.of_function = False
        self._forms: dict[tuple[int, int, bool | None], Form] = {}

    # Making a model

    def variable(
        self,
        name: str,
        start: float | None = None,
        *,
        fixed: bool = False,
        unit: str = "",
        min: float | None = None,
        max: float | None = None,
    ) -> Any:
        """A new unknown.

        Parameters
        ----------
        name : str
            Name, different from those of all other unknowns and parameters of the model.
        start : float, optional
            Start value, or a guess of it.
        fixed : bool
            Whether the start value must not be changed.
        unit : str
            Unit.
        min, max : float, optional
            Bounds of the unknown, which its values at the start keep.

        Returns
        -------
        sympy.Symbol
            The symbol of the unknown in equations.

        Raises
        ------
        InputError
            If the name is taken or not valid, or ``fixed`` is given without ``start``.
        """
        self._check_name(name)
        if fixed and start is None:
            raise InputError(f"{name} of model {self.name} is fixed, but has no start value; give start")
        for bound in (min, max):
            if bound is not None:
                require_number(f"the bound of {name}", bound)
        if min is not None and max is not None and min > max:
            raise InputError(f"min of {name} in model {self.name} is above max; correct one")
        values = {} if start is None else {0: self._number("start", name, start)}
        variable = Variable(name, unit, values, {0} if fixed else set(), min, max)
        self._index[name] = len(self.variables_by_name)
        self.variables_by_name[name] = variable
        self._unknowns.append(variable)
        return Unknown(name)

    def variables(
        self,
        names: str | Iterable[str],
        start: float | Sequence[float | None] | None = None,
        *,
        fixed: bool | Sequence[bool] = False,
        unit: str | Sequence[str] = "",
        min: float | Sequence[float | None] | None = None,
        max: float | Sequence[float | None] | None = None,
    ) -> tuple[Any, ...]:
        """Several new unknowns, see :meth:`variable`.

        Parameters
        ----------
        names : str or iterable of str
            Names, as a sequence or as one text with blanks or commas between them.
        start, fixed, unit, min, max : optional
            One value for all, or a sequence with one for each.

        Returns
        -------
        tuple of sympy.Symbol
            The symbols of the unknowns in equations.
        """
        chosen = _split(names)
        settings = {"start": start, "fixed": fixed, "unit": unit, "min": min, "max": max}
        columns = {key: self._for_each(key, value, chosen) for key, value in settings.items()}
        rows = [{key: column[at] for key, column in columns.items()} for at in range(len(chosen))]
        return tuple(self.variable(name, **row) for name, row in zip(chosen, rows, strict=True))

    def parameter(self, name: str, value: float | None = None, *, unit: str = "") -> Any:
        """A new parameter.

        Parameters
        ----------
        name : str
            Name, different from those of all other parameters and unknowns of the model.
        value : float, optional
            Value; not needed for structural analysis and index reduction.
        unit : str
            Unit.

        Returns
        -------
        sympy.Symbol
            The symbol of the parameter in equations.
        """
        self._check_name(name)
        number = None if value is None else self._number("value", name, value)
        self._index[name] = len(self.parameters_by_name)
        self.parameters_by_name[name] = Parameter(name, number, unit)
        self._parameters.append(self.parameters_by_name[name])
        return sympy.Symbol(name, real=True)

    def parameters(
        self,
        names: str | Iterable[str],
        values: float | Sequence[float | None] | None = None,
        *,
        unit: str | Sequence[str] = "",
    ) -> tuple[Any, ...]:
        """Several new parameters, see :meth:`parameter`; arguments are as in :meth:`variables`."""
        chosen = _split(names)
        numbers, units = self._for_each("values", values, chosen), self._for_each("unit", unit, chosen)
        rows = zip(chosen, numbers, units, strict=True)
        return tuple(self.parameter(name, number, unit=text) for name, number, text in rows)

    def der(self, expression: Any, order: int = 1) -> Any:
        """The derivative of an unknown, or of any expression, with respect to time."""
        require_count("the order of a derivative", order, HIGHEST_DERIVATIVE)
        return derivative(sympified(expression), order)

    def equation(self, expression: Any, *, name: str = "") -> None:
        """Add an equation.

        Parameters
        ----------
        expression : sympy.Expr or sympy.Eq
            An expression that vanishes, or two sides that are equal.
        name : str
            Name of the equation; by default its number.

        Raises
        ------
        InputError
            If a symbol is neither an unknown nor a parameter of the model, if the equation contains no
            unknown, or if it is no equation.
        """
        name = name or f"equation {len(self.roots)}"
        where = f"{name} of model {self.name}"
        if name in self._equation_names:
            raise InputError(f"model {self.name} has two equations named {name}; give each a name of its own")
        if isinstance(expression, bool) or expression in (sympy.true, sympy.false):
            raise InputError(
                f"{where} is {expression}: '==' compares at once; write left - right or sympy.Eq"
            )
        try:
            given = sympified(expression)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        vanishes = given
        if isinstance(given, sympy.Equality):
            vanishes = sympy.Add(given.lhs, -given.rhs, evaluate=False)
        if not isinstance(vanishes, sympy.Expr):
            raise InputError(f"{where} is no equation but a {type(given).__name__}: {given}")
        try:
            root = from_sympy(self.graph, vanishes, self._resolve)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        if root in self.graph.numbers:
            reason = "holds always" if root == self.graph.zero else "never holds"
            raise InputError(f"{where} {reason}: no unknown is left in it")
        if vanishes.has(Homotopy):
            simpler = vanishes.replace(Homotopy, lambda actual, simplified: simplified)
            self.simplified_roots[len(self.roots)] = from_sympy(self.graph, simpler, self._resolve)
        self.add_root(root, name, vanishes)

    def add_root(self, root: int, name: str, expression: Any = None) -> None:
        """Add an equation that is in the graph already.

        Parameters
        ----------
        root : int
            Node of the expression that vanishes.
        name : str
            Name of the equation, different from those of all others.
        expression : sympy.Expr, optional
            The expression as it was written; by default it is made from the node when asked for.
        """
        self.roots.append(root)
        self._expressions.append(expression)
        self._equation_names[name] = len(self._equation_names)

    def nodes(self, expressions: Iterable[Any]) -> list[int]:
        """Nodes, in the graph of the model, of SymPy expressions in its symbols."""
        return [from_sympy(self.graph, sympified(one), self._resolve) for one in expressions]

    def equations(self, *expressions: Any, **named: Any) -> None:
        """Add equations, see :meth:`equation`; keyword arguments give them names.

        Parameters
        ----------
        *expressions
            Equations, or lists and column matrices of them.
        **named
            Equations by their names.
        """
        for expression in expressions:
            if isinstance(expression, sympy.MatrixBase | list | tuple):
                self.equations(*expression)
            else:
                self.equation(expression)
        for name, expression in named.items():
            self.equation(expression, name=name)

    def start(self, unknown: Any, value: float, *, fixed: bool = False) -> None:
        """Set the start value of an unknown or of one of its derivatives.

        Parameters
        ----------
        unknown : sympy.Symbol or str
            ``x`` or ``der(x)``, or their names.
        value : float
            Start value, or a guess of it.
        fixed : bool
            Whether it must not be changed.
        """
        name, order = self.unknown(unknown)
        variable = self.variables_by_name[name]
        variable.start[order] = self._number("start", name_of(name, order), value)
        (variable.fixed.add if fixed else variable.fixed.discard)(order)

    # Names

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str) or not name or re.search(r"[\s,;()]", name):
            raise InputError(f"a name in model {self.name} must be a word without brackets; got {name!r}")
        if name in self._index:
            raise InputError(f"model {self.name} has {name} already; give every symbol a name of its own")
        if name == TIME.name:
            raise InputError(f"{name} is time in model {self.name}; give the symbol another name")

    def _number(self, what: str, name: str, value: Any) -> float:
        if isinstance(value, sympy.Basic) and value.is_real and value.is_number:
            value = float(value)
        number = require_number(f"{what} of {name} in model {self.name}", value)
        if not np.isfinite(number):
            raise InputError(f"{what} of {name} in model {self.name} must be finite; got {value!r}")
        return number

    def _for_each(self, what: str, given: Any, names: Sequence[str]) -> list[Any]:
        if given is None or isinstance(given, str) or not isinstance(given, Iterable):
            return [given] * len(names)
        values = list(given)
        if len(values) != len(names):
            raise InputError(f"{what} in model {self.name} has {len(values)} entries for {len(names)} names")
        return values

    # Problems

    @one_at_a_time
    def problem(self, **settings: Any) -> ModelProblem:
        """The model as a problem that can be solved.

        For unknowns of order two and more, all derivatives but the highest become unknowns named "der(x)",
        with equations that define them.

        Parameters
        ----------
        **settings
            Values of parameters by name, and the settings of :class:`~dae_sdc.model.problem.ModelProblem`.

        Raises
        ------
        InputError
            If there are more or fewer equations than unknowns, or a parameter has no value.
        """
        return ModelProblem.of(self, **settings)

    @one_at_a_time
    def form(self, dense: bool | None = None) -> Form:
        """The model as a system of first order, cached; see :class:`~dae_sdc.model.problem.Form`."""
        key = len(self.roots), len(self.names), dense
        if key not in self._forms:
            self._forms[key] = first_order(self, dense)
        return self._forms[key]

    # Text

    def __repr__(self) -> str:
        return f"<Model {self.name}: {self._counts()}>"

    def _counts(self) -> str:
        kinds = {"unknown": self.names, "equation": self.roots, "parameter": self.parameters_by_name}
        return ", ".join(
            f"{len(parts)} {what}{'' if len(parts) == 1 else 's'}" for what, parts in kinds.items()
        )

    def _rows(self) -> dict[str, list[tuple[str, ...]]]:
        """The rows of the tables of unknowns, parameters and equations."""
        equations = zip(self._equation_names, self.expressions, strict=True)
        return {
            "unknowns": [(v.name, _listed(v), v.unit) for v in self.variables_by_name.values()],
            "parameters": [
                (p.name, "no value" if p.value is None else f"{p.value:.10g}", p.unit)
                for p in self.parameters_by_name.values()
            ],
            "equations": [(name, f"0 = {expression}") for name, expression in equations],
        }

    def _repr_html_(self) -> str:
        rows = self._rows()
        return html_view(
            f"{self.title or self.name}: {self._counts()}",
            html_table(("unknown", "start", "unit"), rows["unknowns"]),
            html_table(("parameter", "value", "unit"), rows["parameters"]),
            html_table(("equation", ""), rows["equations"]),
        )

    def __str__(self) -> str:
        title = f" ({self.title})" if self.title else ""
        lines = [f"{self.name}{title}: {self._counts()}"]
        for heading, rows in self._rows().items():
            if rows:
                shown = [(*row[:2], *(f"[{unit}]" if unit else "" for unit in row[2:])) for row in rows]
                lines += [f"  {heading}", *(f"    {line}" for line in aligned(shown, gap="  ").split("\n"))]
        return "\n".join(lines)

    def latex(self) -> str:
        """The equations as LaTeX source for math mode."""
        if not self._expressions:
            return r"\begin{aligned}\end{aligned}"
        try:
            rows = [f"0 &= {sympy.latex(expression)}" for expression in self.expressions]
        except RecursionError:
            raise InputError(
                f"an equation of {self.name} is nested too deeply to be shown; make unknowns of its parts"
            ) from None
        return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex()}$"


def _split(names: str | Iterable[str]) -> list[str]:
    return names.replace(",", " ").split() if isinstance(names, str) else list(names)


def _listed(variable: Variable) -> str:
    """Start values and bounds of an unknown as text."""
    parts = [
        f"{'' if order == 0 else name_of(variable.name, order) + ' '}"
        f"{'fixed' if order in variable.fixed else 'start'} {value:.10g}"
        for order, value in sorted(variable.start.items())
    ]
    if variable.minimum is not None:
        parts.append(f"min {variable.minimum:.10g}")
    if variable.maximum is not None:
        parts.append(f"max {variable.maximum:.10g}")
    return ", ".join(parts)
