"""Reduce the index of a model to 1 or 0, and show what it costs.

A model is a name of the library, see 'dae-sdc list models', a Modelica file FILE.mo or FILE.mo:CLASS, or a
Python file that defines one, FILE.py:NAME, which is run. Several models, or all, are put into a table.

Example: dae-sdc reduce car-axis --form explicit
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from dae_sdc.errors import InputError
from dae_sdc.files import replacing
from dae_sdc.options import Output, Parameters, Simplification, add_options, given_options, option, takes
from dae_sdc.reduction.code import LANGUAGES, language
from dae_sdc.reduction.factor import LIMIT
from dae_sdc.reduction.reduction import FORMS, METHODS, Form, Method, Reduction, reduce_index
from dae_sdc.run.simplify import model_of
from dae_sdc.run.target import ModelOptions, add_models, make_model, models_of
from dae_sdc.sharing import each, one_at_a_time
from dae_sdc.text import aligned

_HEADS = (
    *("model", "n", "method", "index", "differentiated", "unknowns", "invariants"),
    *("operations", "veils", "as written", "seconds", "compiled"),
)


@dataclass(frozen=True, kw_only=True)
class ReduceOptions(ModelOptions):
    """Options of :func:`reduce`."""

    method: Method = option(
        "auto",
        "how it is done (auto)",
        "Elimination and differentiation in turns, with or without divisions; or the equations of all stages "
        "of the Sigma-method with dummy derivatives. By default separation, unless expressions would grow by "
        "it or a constraint that it differentiates may jump.",
        choices=METHODS,
    )
    form: Form = option(
        "implicit",
        "form of the result (implicit)",
        "Of a separated system: E x' = g, 0 = a; x' = f, 0 = a; x' = f, z = phi; or x' = f for all unknowns.",
        choices=FORMS,
    )
    limit: int | None = option(
        LIMIT,
        f"size of an expression that becomes a veil ({LIMIT})",
        "It counts nodes, and a veil is a variable of its own; with None there are none.",
    )
    invariants: Mapping[str, Any] | Sequence[Any] = option(
        (),
        "further expressions that vanish along solutions",
        like="mapping of str to sympy.Expr, or sequence",
        shell=False,
    )
    at: Mapping[Any, float] | None = option(
        None,
        "values by name at which pivots must not be small (the start values)",
        like="mapping",
        shell=False,
    )


@takes(ReduceOptions)
@one_at_a_time
def reduce(options: ReduceOptions) -> Reduction:
    """Reduce the index of a DAE that is given by its equations to 1 or 0.

    {options}

    Returns
    -------
    Reduction
        Its ``problem()`` can be solved by every method; the result is in ``model``, ``invariants``,
        ``veil_expressions`` and ``steps``, and shown by ``print``.

    Raises
    ------
    InputError
        If the model is ill-posed, with the names of equations or unknowns, or for invalid options.

    Examples
    --------
    >>> found = ds.reduce("pendulum")
    >>> found.index, found.differentiations, found.method
    (1, 2, 'separation')
    """
    model = make_model(options.model, options.params)
    return reduce_index(
        model, options.method, options.form, limit=options.limit, invariants=options.invariants, at=options.at
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc reduce``."""
    add_models(parser)
    add_options(parser, ReduceOptions, only=("method", "form", "limit"))
    parser.add_argument("--equations", action="store_true", help="print the equations, veils and invariants")
    parser.add_argument("--code", metavar="FILE", help="write code that stands alone, Python (.py) or C (.c)")
    parser.add_argument("--out", metavar="FILE", help="write the reduced model as .mo or .fmu")
    parser.add_argument(
        "--language", choices=LANGUAGES, help="language of the code (by the name of the file)"
    )
    add_options(parser, Simplification)
    add_options(parser, Parameters)
    add_options(parser, Output, only=("progress",))


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc reduce``."""
    names, alone = models_of(args)
    params = given_options(args, Parameters).get("params")
    given = given_options(args, ReduceOptions, without=("model", "params"))
    if alone:
        reduction = reduce(model_of(names[0], params, args.simplify), **given)
        print(reduction)
        if args.equations:
            if reduction.goal != "stages":
                print("\nequations", *(f"  0 = {e}" for e in reduction.model.expressions), sep="\n")
            invariants = zip(reduction.invariant_names, reduction.invariants, strict=True)
            print("\ninvariants", *(f"  {name}: {e}" for name, e in invariants), sep="\n")
            if reduction.veil_expressions:
                print("\nveils", *(f"  {symbol} = {e}" for symbol, e in reduction.veil_expressions), sep="\n")
        if args.code is not None:
            _write_code(reduction, args.code, args.language)
        if args.out is not None:
            from dae_sdc.modelica.fmu import write_model

            print(f"wrote {write_model(reduction.model, args.out)}")
        return 0
    if args.equations or args.code is not None or args.out is not None:
        raise InputError("--equations, --code and --out are of one model; name one, or leave them away")
    models = (model_of(name, params, args.simplify) for name in each(names, "model", args.progress))
    print(aligned([_HEADS, *(_row(reduce(model, **given)) for model in models)], gap="  "))
    return 0


def _write_code(reduction: Reduction, place: str, name: str | None) -> None:
    """Write the code of a reduced system to a file, in a language that its name tells if none is chosen."""
    by_suffix = {language(one)["suffix"]: one for one in LANGUAGES if language(one)["suffix"]}
    name = name or by_suffix.get(Path(place).suffix)
    if name is None:
        raise InputError(f"'{place}' tells no language; end it with {' or '.join(by_suffix)}")
    with replacing(Path(place)) as (file,):
        file.write(reduction.code(name).encode())
    print(f"\nwrote {place} ({name})")


def _row(reduction: Reduction) -> tuple[str, ...]:
    begin = perf_counter()
    problem = reduction.problem()
    _ = problem.kernels
    unknowns = reduction.index, reduction.differentiations, problem.n, len(reduction.invariant_names)
    sizes = sum(reduction.cost.shared), len(reduction.veils), sum(reduction.cost.trees)
    cells = map(str, (*unknowns, *sizes))
    times = f"{reduction.seconds:.3f}", f"{perf_counter() - begin:.2f}"
    return (reduction.name, str(len(reduction.names)), reduction.method, *cells, *times)
