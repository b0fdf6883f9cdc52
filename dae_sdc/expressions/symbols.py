"""The symbols that a model hands out: SymPy's own, which know that unknowns are functions of time."""

from __future__ import annotations

from typing import Any

import sympy

from dae_sdc.arguments import checked
from dae_sdc.expressions.dag import name_of

TIME: Any = sympy.Symbol("t", real=True)  # Time.


class Unknown(sympy.Symbol):  # type: ignore[misc]
    """An unknown of a model or one of its derivatives with respect to time.

    Differentiated with respect to time it gives its next derivative; with respect to another unknown, or to a
    derivative of its own, it is a constant, as in Lagrange's equations.
    """

    __slots__ = ("base", "order")

    base: str
    order: int

    def __new__(cls, base: str, order: int = 0) -> Unknown:  # noqa: D102
        made: Unknown = sympy.Symbol.__xnew__(cls, name_of(base, order), real=True)
        made.base = base
        made.order = order
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str, int], dict[str, Any]]:
        return (self.base, self.order), {}

    @property
    def free_symbols(self) -> set[Any]:
        """The unknown, and time, of which it is a function."""
        return {self, TIME}

    def _eval_derivative(self, variable: Any) -> Any:
        return self._eval_derivative_n_times(variable, sympy.S.One)

    def _eval_derivative_n_times(self, variable: Any, times: Any) -> Any:
        if variable == TIME and times.is_Integer:
            return Unknown(self.base, self.order + int(times))
        return super()._eval_derivative_n_times(variable, times)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        text = str(printer._deal_with_super_sub(self.base)) if "{" not in self.base else self.base
        if 1 <= self.order <= 3:
            text = f"\\{'d' * self.order}ot{{{text}}}"
        elif self.order:
            text = f"{text}^{{({self.order})}}"
        if exp is None:
            return text
        return f"\\left({text}\\right)^{{{exp}}}" if self.order > 3 else f"{text}^{{{exp}}}"


class Homotopy(sympy.Function):  # type: ignore[misc]
    """An expression, and a simpler one for which a start is found first, from which it is followed."""

    nargs = 2

    def _eval_derivative(self, variable: Any) -> Any:
        return Homotopy(*(sympy.diff(part, variable) for part in self.args))

    def simplified(self) -> Any:
        """The simpler expression."""
        return self.args[1]


@checked()
def homotopy(actual: Any, simplified: Any) -> Any:
    """An expression of a model, with a simpler one that leads to its start.

    A start is found with ``simplified`` in its place first, and followed to that with ``actual``; in a run it
    is ``actual``.

    Parameters
    ----------
    actual, simplified : sympy.Expr or float
        What the equation has, and what stands for it at the begin of the path, for instance the same without
        a term or with a constant coefficient.

    Returns
    -------
    sympy.Expr
        The expression for :meth:`dae_sdc.model.model.Model.equation`; in functions F(t, u, du), and of
        numbers, ``actual``.

    Raises
    ------
    InputError
        If there are other arguments than these two.

    Examples
    --------
    >>> m = ds.Model("pipe")
    >>> q, p = m.variables("q p", start=[0.0, 10.0], fixed=[False, True])
    >>> m.equations(m.der(p) + q, ds.homotopy(q**3 + q, q) - p)
    >>> round(ds.initial(m)["q"], 6)
    2.0
    """
    if not any(isinstance(part, sympy.Basic) for part in (actual, simplified)):
        return actual
    return Homotopy(actual, simplified)


def derivative(expression: Any, order: int = 1) -> Any:
    """The derivative of an expression with respect to time."""
    for _ in range(order):
        if isinstance(expression, Unknown):
            expression = Unknown(expression.base, expression.order + 1)
        else:
            expression = sympy.diff(expression, TIME)
    return expression
