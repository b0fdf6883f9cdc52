"""Reduce the index of a model to 1 or 0, and show what it costs.

A model is a name of the library, see 'dae-sdc list models', a Modelica file FILE.mo or FILE.mo:CLASS, or a
Python file that defines one, FILE.py:NAME. Several models, or all, are put into a table.

Example: dae-sdc reduce car-axis --form explicit
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from dae_sdc.arguments import checked
from dae_sdc.errors import InputError
from dae_sdc.options import Parameters, Simplification, add_options, given_options
from dae_sdc.problems._models import MODELS
from dae_sdc.reduction.reduction import FORMS, METHODS, Form, Method, Reduction, reduce_index
from dae_sdc.reduction.veils import LIMIT
from dae_sdc.run.models import ModelLike, make_model
from dae_sdc.run.simplify import model_of
from dae_sdc.sharing import one_at_a_time

ALL = "all"
"""Stands for all models of the library."""

_HEADS = (
    "model",
    "n",
    "method",
    "index",
    "differentiated",
    "unknowns",
    "invariants",
    "operations",
    "veils",
    "as written",
    "seconds",
    "compiled",
)


@checked()
@one_at_a_time
def reduce(
    model: ModelLike,
    *,
    method: Method = "auto",
    form: Form = "implicit",
    limit: int | None = LIMIT,
    invariants: Mapping[str, Any] | Sequence[Any] = (),
    at: Mapping[Any, float] | None = None,
    params: Mapping[str, Any] | None = None,
) -> Reduction:
    """Reduce the index of a DAE that is given by its equations to 1 or 0.

    Parameters
    ----------
    model : str, Path, Model or callable
        Name in the library, ``file.py:name``, model, or a function that returns one.
    method : {"auto", "separation", "fraction-free", "stages"}
        Elimination and differentiation in turns, with or without divisions; or the equations of all stages of
        the Sigma-method with dummy derivatives. By default separation, unless expressions would grow by it or
        a constraint that it differentiates may jump.
    form : {"implicit", "semi-explicit", "explicit", "ode"}
        Of a separated system: E x' = g, 0 = a; x' = f, 0 = a; x' = f, z = phi; or x' = f for all unknowns.
    limit : int or None
        Nodes above which an expression becomes a veil, a variable of its own; None for no veils.
    invariants : mapping of str to sympy.Expr, or sequence
        Further expressions that vanish along solutions.
    at : mapping, optional
        Values by name at which pivots must not be small; the start values if not given.
    params : mapping, optional
        Arguments of a model of the library, or values of parameters.

    Returns
    -------
    Reduction
        ``problem()`` can be solved by every method; ``model``, ``invariants``, ``veil_expressions`` and
        ``steps`` tell what was found, and ``print`` shows it.

    Raises
    ------
    InputError
        If the model is ill-posed, with the names of equations or unknowns, or something given cannot be used.
    """
    return reduce_index(make_model(model, params), method, form, limit=limit, invariants=invariants, at=at)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc reduce``."""
    parser.add_argument(
        "model", help="name of a model, FILE.mo, FILE.py:NAME, several separated by commas, or all"
    )
    parser.add_argument("--method", choices=METHODS, default="auto", help="how it is done (auto)")
    parser.add_argument("--form", choices=FORMS, default="implicit", help="form of the result (implicit)")
    parser.add_argument(
        "--limit", type=int, default=LIMIT, help=f"size of an expression that becomes a veil ({LIMIT})"
    )
    parser.add_argument("--equations", action="store_true", help="print the equations, veils and invariants")
    add_options(parser, Simplification)
    add_options(parser, Parameters)


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc reduce``."""
    names = list(MODELS) if args.model == ALL else [name for name in args.model.split(",") if name]
    params = given_options(args, Parameters).get("params")
    given = {"method": args.method, "form": args.form, "limit": args.limit}
    if len(names) == 1 and args.model != ALL:
        found = reduce(model_of(names[0], params, args.simplify), **given)
        print(found)
        if args.equations:
            _show_equations(found)
        return 0
    if args.equations:
        raise InputError("equations are those of one model; name one, or leave --equations away")
    rows: list[tuple[str, ...]] = [_HEADS]
    rows += [_row(reduce(model_of(name, params, args.simplify), **given)) for name in names]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _row(found: Reduction) -> tuple[str, ...]:
    begin = perf_counter()
    problem = found.problem()
    _ = problem.kernels
    numbers = (
        found.index,
        found.differentiations,
        problem.n,
        len(found.invariant_names),
        sum(found.cost.shared),
        len(found.veils),
        sum(found.cost.trees),
    )
    cells = (str(number) for number in numbers)
    times = f"{found.seconds:.3f}", f"{perf_counter() - begin:.2f}"
    return (found.name, str(len(found.names)), found.method, *cells, *times)


def _show_equations(found: Reduction) -> None:
    if found.goal != "stages":
        print("\nequations", *(f"  0 = {e}" for e in found.model.expressions), sep="\n")
    print("\ninvariants")
    for name, expression in zip(found.invariant_names, found.invariants, strict=True):
        print(f"  {name}: {expression}")
    if found.veil_expressions:
        print("\nveils", *(f"  {symbol} = {e}" for symbol, e in found.veil_expressions), sep="\n")
