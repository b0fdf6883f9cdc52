"""Consistent initial values, from guesses and from values that are fixed, and paths that lead to them.

Example: dae-sdc initial pendulum --fixed x=0.6 --guesses y=0.5
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.values import needed_arguments
from dae_sdc.deadline import limited, unchecked, within
from dae_sdc.errors import InputError, require_count
from dae_sdc.initial.consistent import Initial
from dae_sdc.initial.every import SolutionSet
from dae_sdc.initial.given import of_names
from dae_sdc.initial.redundant import square_function
from dae_sdc.initial.search import initial_of_model, sets_of_model
from dae_sdc.options import (
    Guesses,
    Limit,
    Output,
    Parameters,
    Ranks,
    Simplification,
    Start,
    Sweeping,
    add_options,
    count,
    equations,
    given_options,
    names_of_options,
    option,
    redeclared,
    takes,
    up_to,
)
from dae_sdc.polynomials.tracking import RECORD, PathRecord
from dae_sdc.problems._models import MODELS
from dae_sdc.registry import unknown
from dae_sdc.run.equations import Equations, check_function, state_near, with_model, with_unknowns
from dae_sdc.run.results import Result, check_target, put_down, say_written, tabulated
from dae_sdc.run.simplify import simplify
from dae_sdc.run.start import consistent_values, guesses_of
from dae_sdc.run.target import ModelOptions, is_file, make_model, resolve
from dae_sdc.run.unknowns import conditions_in
from dae_sdc.sharing import bar_of, metering, one_at_a_time
from dae_sdc.structure.dependent import of_closed, square

if TYPE_CHECKING:
    from dae_sdc.model.model import Model


T = TypeVar("T")

MOST_RESTARTS = 100_000  # Most random starts of a search.


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Limit, Parameters):
    """How starts are looked for."""

    t0: float | None = redeclared(Start, "t0", None)
    seed: int = redeclared(Sweeping, "seed", 0, "Homotopies are random too.")
    workers: int = option(1, "processes that follow the paths of homotopies (1)", check=count(10_000))


@dataclass(frozen=True, kw_only=True)
class SetsOptions(ModelOptions, SearchOptions):
    """What :func:`solution_sets` takes."""

    fixed: Mapping[str, float] | None = option(None, "values that are put in, by name", metavar="NAME=VALUE")


@dataclass(frozen=True, kw_only=True)
class InitialOptions(Ranks, Output, Guesses, SearchOptions):
    """What :func:`initial` takes."""

    equations: str | Model | ProblemDAE | type[ProblemDAE] | Any = field(
        kw_only=False,
        metadata=equations(
            "A model, a problem, its class and a function that makes one are taken too. A model of the "
            "library goes before the problem of the same name.",
            "str, Model, ProblemDAE, type or callable",
        ),
    )
    u0: Any = option(
        None,
        "of a problem: guesses of all unknowns (those it has itself)",
        like="array_like, shape (n,)",
        shell=False,
    )
    restarts: int | None = option(
        None,
        "random starts for other solutions (12, and 0 where there are more than 800 values)",
        "With ``all_solutions`` those of a block that is no polynomial, 24 if not given.",
        check=up_to(MOST_RESTARTS),
    )
    all_solutions: bool = option(False, "look for all solutions of a model, block by block")
    paths: str | None = option(None, "file for paths of homotopies, see dae-sdc plot paths", metavar="FILE")
    predictor_steps: int | None = option(None, "steps of these without corrections", check=count(1_000_000))


@takes(InitialOptions)
@one_at_a_time
def initial(options: InitialOptions) -> Initial:
    r"""Values at which the equations of a DAE hold, and all that follows from them by differentiation.

    .. math::
        \min \tfrac12 \| W (x - \tilde x) \|^2 \quad\text{subject to}\quad
        f_i^{(k)}(t, x, x', \ldots) = 0, \quad k \le c_i

    with the offsets c of the structural analysis, stage by stage: values bound by equations that are
    differentiated less come first, and are not changed by the stages after, unless there is no solution else.
    Where a solution exists with the given values as they are, none is changed, and a fixed one never is.

    With ``all_solutions``, a model is solved block by block for all its solutions: polynomials, with
    sines and cosines as pairs, by homotopy continuation; linear blocks directly; others by Newton's
    method from random starts. The blocks have more values than equations. Fixed values are put in, and of
    the guesses as many, as they are, as it takes for the rest to follow: those given here first, in their
    order.

    {options}

    Returns
    -------
    Initial
        State ``u`` and derivative ``du`` for :func:`dae_sdc.run.solve.solve`, all ``values``, what was
        ``changed`` and ``violated``, what is ``free``, and other ``solutions``; ``print`` shows it. With
        ``all_solutions`` also the ``blocks``, and where they are ``singular``.

    Raises
    ------
    InconsistentStateError
        If there are no such values: with the names of the fixed values and equations that contradict each
        other, or the number of complex solutions.
    InputError
        If something given cannot be used.

    References
    ----------
    J. D. Pryce: A simple structural analysis method for DAEs, BIT 41 (2001). P. Stocco, E. Bertolazzi:
    Acausal modelling and index reduction by separation. R. P. K. Chan, P. Chartier, A. Murua:
    Post-projected Runge-Kutta methods for index-2 DAEs, Appl. Numer. Math. 42 (2002).

    Examples
    --------
    >>> start = ds.initial("pendulum", fixed={"x": 0.6}, guesses={"y": -0.5})
    >>> round(start.values["y"], 12), [one.name for one in start.changed], len(start.solutions)
    (-0.8, ['y', 'lambda'], 2)
    """
    for file in (options.out, options.paths):
        if file is not None:
            check_target(file)
    if options.paths is None and options.predictor_steps is not None:
        raise InputError("predictor_steps has no effect without paths; name a file for the paths")
    several = options.comm is not None and options.comm.Get_size() > 1  # which share paths, and end together
    with unchecked(several), metering(lambda total, unit: bar_of(total, unit, options.progress)):
        if options.paths is None:
            start = _consistent(options)
        else:
            call = partial(_consistent, options)
            start, paths = record_paths(call, predictor_steps=options.predictor_steps)
            put_down(paths, options.paths, True)
    if options.out is not None:
        widths = [max(map(len, texts), default=1) or 1 for texts in (start.names, start.units)]
        columns = [("name", f"U{widths[0]}"), ("value", "f8"), ("rate", "f8"), ("unit", f"U{widths[1]}")]
        rows = zip(start.names, start.u, start.du, start.units, strict=True)
        parameters = {
            **{"title": start.title, "t": start.t, "values": dict(start.values)},
            **{"fixed": start.fixed, "free": start.free, "guessed": start.guessed, "remarks": start.remarks},
            "changed": {one.name: [one.before, one.after] for one in start.changed},
        }
        put_down(tabulated("start", columns, rows, parameters), options.out, True)
    return start


def _consistent(options: InitialOptions) -> Initial:
    options = options.changed(guesses=guesses_of(options.guesses))
    equations: Any = options.equations
    if isinstance(equations, str) and not is_file(equations) and equations not in {*MODELS, *PROBLEMS}:
        raise InputError(unknown("model or problem", equations, {*MODELS, *PROBLEMS}))
    target = with_unknowns(resolve(equations, as_model=True), options.u0, options.fixed, options.guesses)
    settings = {**options.of(Guesses), "t0": options.t0, "seed": options.seed, "restarts": options.restarts}
    if target.problem is not None and not options.all_solutions:
        made = target.make_problem(options.params or {})
        near = state_near(made, options.u0)
        if target.is_new:
            check_function(made, options.t0, near)
        written = Equations(square_function(made, near))
        written = with_model(written) if written.problem.kernels is None else written
        settings["guesses"] = of_names(options.guesses, made.names, type(made).__name__)
        return consistent_values(written, u0=options.u0, **settings)
    if options.u0 is not None:
        raise InputError("u0 belongs to problems; of a model give guesses by name")
    model = square(target.make_model(options.params or {}))
    guesses = of_names(options.guesses, model.names + model.form().names, f"model {model.name}")
    settings |= {"fixed": conditions_in(options.fixed, model, {}), "guesses": guesses}
    processes: dict[str, Any] = {"workers": options.workers, "comm": options.comm}
    return of_closed(partial(initial_of_model, **settings, every=options.all_solutions, **processes), model)


@takes(SetsOptions)
@one_at_a_time
def solution_sets(options: SetsOptions) -> tuple[SolutionSet, ...]:
    r"""The curves and surfaces that the equations of a model allow at one time, and their singular points.

    Each block :math:`B_k` of the structural analysis that is not linear has one, with its free values left
    free: all complex solutions of its polynomials, in which cos(x) and sin(x) of an angle x are variables.

    {options}

    Returns
    -------
    tuple of SolutionSet
        For each block its irreducible components, by dimension, degree and rank, and the isolated points at
        which the rank of the Jacobian is lower than around them; or why there are none: no polynomials, or
        too many variables.

    Raises
    ------
    InputError
        If something given cannot be used.

    References
    ----------
    A. J. Sommese, C. W. Wampler: The numerical solution of systems of polynomials, World Scientific, 2005.
    N. Mani: Symbolic-numeric analysis of DAEs, thesis, University of Western Ontario 2010.

    Examples
    --------
    >>> found = ds.solution_sets("equal-bar-slider-crank")
    >>> [part.degree for part in found[0].decomposition.components]
    [2, 2]
    """
    settings = {name: getattr(options, name) for name in ("fixed", "t0", "seed", "workers")}
    return sets_of_model(make_model(options.model, options.params), **settings)


@checked()
def record_paths(call: Callable[[], T], *, predictor_steps: int | None = None) -> tuple[T, Result]:
    """What a call returns, and the paths of homotopies that it follows.

    Parameters
    ----------
    call : callable
        What follows paths, such as a call of :func:`~dae_sdc.polynomials.homotopy.solve_polynomials`.
    predictor_steps : int, optional
        Number of equal Runge-Kutta steps in which each path is also followed without Newton's method.

    Returns
    -------
    result, paths : object, Result
        What ``call`` returns, and a row for each step: ``homotopy``, ``path``, whether it is ``corrected``,
        ``t`` from 1 to 0 behind the ``step``, ``condition`` number of the Jacobian in homogeneous
        coordinates, and parts ``re`` and ``im`` of the variables, NaN at infinity. Of a path that is followed
        again this is the last way; ways around t = 0 are left out.

    Raises
    ------
    InputError
        If no path is followed.

    Examples
    --------
    >>> system = ds.PolynomialSystem([[1, -2]], [[2], [0]])  # x^2 - 2
    >>> roots, paths = ds.record_paths(lambda: ds.solve_polynomials(system))
    >>> np.sort(paths["re"][paths["t"] == 0, 0]).round(6)
    array([-1.414214,  1.414214])
    """
    if predictor_steps is not None:
        require_count("predictor_steps", predictor_steps)
    if needed := needed_arguments(call):
        raise InputError(f"call is called without arguments; it needs {', '.join(needed)}")
    record = PathRecord(predictor_steps or 0, [])
    with within(RECORD, record):
        result = call()
    if not record.rows:
        raise InputError("no paths were followed: nothing in the call is polynomial; leave the record away")
    values = np.array([*zip_longest(*(row[-1] for row in record.rows), fillvalue=np.nan * 1j)]).T
    rows = ((*row[:-1], x.real, x.imag) for row, x in zip(record.rows, values, strict=True))
    names = {"homotopy": "i8", "path": "i8", "corrected": "?", "t": "f8", "step": "f8", "condition": "f8"}
    columns = [*names.items(), ("re", "f8", values.shape[1:]), ("im", "f8", values.shape[1:])]
    return result, tabulated("paths", columns, rows, {"predictor_steps": record.predictor_steps})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc initial``."""
    add_options(parser, InitialOptions)
    add_options(parser, Simplification)
    parser.add_argument(
        "--singular", action="store_true", help="show solution sets of the blocks and their singular points"
    )


def _simplified(model: str, params: Mapping[str, Any] | None, given: Iterable[str]) -> Model:
    """A model without its trivial equations, which still has all that values are given for."""
    simplified = simplify(model, params=params)
    for name in given:
        if (removed := simplified.map.get(simplified.original.unknown(name)[0])) is not None:
            raise InputError(
                f"{name} is not in {simplified.model.name} once it is simplified, as {removed}; "
                "give that, or leave --simplify away"
            )
    return simplified.model


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc initial``."""
    given = given_options(args, InitialOptions)
    with limited(Limit(**given_options(args, Limit)).time_limit):
        if args.simplify:
            named = [*given.get("fixed", ()), *given.get("guesses", ())]
            given["equations"] = _simplified(args.equations, given.pop("params", None), named)
        if args.singular:
            own = {name: value for name, value in given.items() if name in names_of_options(SetsOptions)}
            print(*solution_sets(given["equations"], **own) or ["all blocks are linear"], sep="\n")
        if args.all_solutions or not args.singular:
            print(initial(**{"progress": None, **given}))
            say_written(args.out)
            say_written(args.paths)
    return 0
