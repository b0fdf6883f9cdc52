"""Rankings of partial derivatives in which one coordinate dominates, and the structure by that coordinate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy
from sympy.core.function import AppliedUndef

from dae_sdc.arguments import checked
from dae_sdc.errors import InputError
from dae_sdc.model.model import Model
from dae_sdc.model.sympy_input import TIME, derivative, vanishing
from dae_sdc.structure.analysis import Structure, analyse
from dae_sdc.structure.signature import Signature


@checked()
def ranking(equations: Sequence[Any], by: str = "t") -> tuple[int, Structure]:
    r"""Find a ranking in which a coordinate dominates partial differential equations, and their structure.

    A ranking orders derivatives such that each is above what it is a derivative of, and two keep their order
    where both are differentiated. A coordinate dominates if, in some ranking, derivatives by it alone are the
    highest ones of each unknown in each equation. Signature matrix, offsets and system Jacobian are then
    those of orders in this coordinate, and equations need to be differentiated by no other one.

    Parameters
    ----------
    equations : sequence of sympy.Expr or sympy.Eq
        Expressions that vanish, of functions of symbols, such as u(t, x), and of their derivatives.
    by : str
        Name of the coordinate.

    Returns
    -------
    weight : int
        The least one such that derivatives rank by ``weight`` times the order in the coordinate plus those in
        the others, and where these sums are equal by the order in the coordinate.
    structure : Structure
        The structure by derivatives in the coordinate, for general values of all others.

    Raises
    ------
    InputError
        If there is no such ranking, with a derivative that always ranks too high.
    StructureError
        If equations and unknowns do not match, with their names.

    References
    ----------
    W. Wu, G. Reid, S. Ilie: Implicit Riquier bases for PDAE and their semi-discretizations, J. Symb. Comput.
    44 (2009).

    Examples
    --------
    >>> import sympy
    >>> t, x = sympy.symbols("t x")
    >>> u = sympy.Function("u")(t, x)
    >>> weight, structure = ds.ranking([u.diff(t) - u.diff(x, 2)])
    >>> weight, structure.dof
    (2, 1)
    """
    rows = [vanishing(one).doit().expand() for one in equations]
    held = [sorted(row.atoms(AppliedUndef, sympy.Derivative), key=str) for row in rows]
    functions = {one for part in held for one in part if isinstance(one, AppliedUndef)}
    coordinates = sorted({x for one in functions for x in one.args}, key=lambda x: (str(x) != by, str(x)))
    if (
        not all(x.is_Symbol for x in coordinates)
        or any(by not in map(str, one.args) for one in functions)
        or len({one.func.__name__ for one in functions}) < max(1, len(functions))
    ):
        raise InputError(
            f"each unknown must be one function of {by} and of other symbols, such as u({by}, x)"
        )
    jets = {one: _orders(one, coordinates) for part in held for one in part}
    # An equation is differentiated at most as often as the highest orders of all rows together.
    terms = range(1 + sum(max((jets[one][1] for one in part), default=0) for part in [*held, jets]))
    model, curves = Model("partial"), dict[Any, Any]()
    for name, others in sorted({(name, others) for name, _, others in jets.values()}):
        if any(others):
            words = (".".join(map(str, [name, *others, k])) for k in terms)
            curves[name, others] = sum(model.parameter(word) * TIME**k for k, word in enumerate(words))
        else:
            curves[name, others] = model.variable(name)
    values = {one: derivative(curves[name, others], order) for one, (name, order, others) in jets.items()}
    for x in {x for row in rows for x in row.free_symbols}:
        values[x] = TIME if str(x) == by else sympy.Symbol(f"{x}_" if str(x) == "t" else str(x))
    model.parameters(sorted({str(one) for x, one in values.items() if x.is_Symbol} - {"t"}))
    model.equations(*(row.xreplace(values) for row in rows))
    weight, orders = 1, Signature.of(model).dense()
    for name, own, part in zip(model.equation_names, orders, held, strict=True):
        for one in (one for one in part if any(jets[one][2])):
            unknown, order, others = jets[one]
            above = own[model.names.index(unknown)] - order
            if above <= 0:
                raise InputError(
                    f"{by} dominates in no ranking: no derivative of {unknown} by {by} alone is above {one} "
                    f"in '{name}'; give another coordinate as 'by', or change coordinates"
                )
            weight = max(weight, math.ceil(sum(others) / above))
    # The derivative array of the model is that of its curves, and tells nothing of others.
    return weight, replace(analyse(model), equations=None)


def _orders(jet: Any, coordinates: Sequence[Any]) -> tuple[str, int, tuple[int, ...]]:
    """The name of an unknown, and the orders of its derivative in the first and in the other coordinates."""
    unknown, counts = (jet.expr, dict(jet.variable_count)) if jet.is_Derivative else (jet, {})
    first, *others = (int(counts.get(x, 0)) for x in coordinates)
    return unknown.func.__name__, first, tuple(others)
