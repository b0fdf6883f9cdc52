"""Consistent initial values, from guesses and from values that are fixed.

Example: dae-sdc initial pendulum --fixed x=0.6 --guess y=0.5
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dae_sdc.arguments import checked
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import InputError, require_number
from dae_sdc.initial.consistent import Initial
from dae_sdc.initial.search import initial_of_model, initial_of_problem, sets_of_model
from dae_sdc.initial.sets import SolutionSet
from dae_sdc.problems._models import MODELS
from dae_sdc.registry import unknown
from dae_sdc.run import options
from dae_sdc.run.description import make_problem
from dae_sdc.run.models import ModelLike, is_file, make_model
from dae_sdc.run.simplify import simplify
from dae_sdc.sharing import one_at_a_time

if TYPE_CHECKING:
    from dae_sdc.model.model import Model


@checked()
@one_at_a_time
def initial(
    equations: str | Model | ProblemDAE | type[ProblemDAE] | Any,
    *,
    fixed: Mapping[str, float] | Iterable[str] | None = None,
    guesses: Mapping[str, float] | None = None,
    u0: Any = None,
    t0: float | None = None,
    seed: int = 0,
    restarts: int | None = None,
    params: Mapping[str, Any] | None = None,
    every: bool = False,
    workers: int = 1,
    comm: Any = None,
) -> Initial:
    r"""Values at which the equations of a DAE hold, and all that follows from them by differentiation.

    .. math::
        \min \tfrac12 \| W (x - \tilde x) \|^2 \quad\text{subject to}\quad
        f_i^{(k)}(t, x, x', \ldots) = 0, \quad k \le c_i

    with the offsets c of the structural analysis, stage by stage: values bound by equations that are
    differentiated less come first, and are not changed by the stages after, unless there is no solution else.
    Where a solution exists with the given values as they are, none is changed, and a fixed one never is.

    With ``every``, a model is solved block by block for all its solutions: polynomials, with sines and
    cosines as pairs, by homotopy continuation; linear blocks directly; others by Newton's method from random
    starts. The blocks have more values than equations. Fixed values are put in, and of the guesses as many,
    as they are, as it takes for the rest to follow: those given here first, in their order.

    Parameters
    ----------
    equations : str, Model, ProblemDAE, type or callable
        Model or problem: its name in the library, ``file.py:name``, itself, or the class or function that
        makes it. A library's model goes before the problem of the same name.
    fixed : mapping of str to float, or iterable of str, optional
        Values that must not be changed, by name, "der(x)" for the derivative of x; or names of those whose
        guesses must not.
    guesses : mapping of str to float, optional
        Values that are changed as little as possible. Start values of a model are guesses, or fixed where it
        says so.
    u0 : array_like, shape (n,), optional
        Of a problem: guesses of all unknowns; those it has itself if not given.
    t0 : float, optional
        Time; the start of the interval if not given.
    seed : int
        Of the random starts from which other solutions are looked for, and of homotopies.
    restarts : int, optional
        Number of these; 12, and 0 where there are more than 800 values, if not given. With ``every`` those of
        a block that is no polynomial; 24 if not given.
    params : mapping, optional
        Parameters of the model or problem.
    every : bool
        Whether all solutions are looked for, of a model only.
    workers : int
        With ``every``: number of processes that follow the paths of homotopies.
    comm : mpi4py.MPI.Comm, optional
        The same with MPI: all its processes call this, and all get the result.

    Returns
    -------
    Initial
        State ``u`` and derivative ``du`` for :func:`dae_sdc.run.solve.solve`, all ``values``, what was
        ``changed`` and ``violated``, what is ``free``, and other ``solutions``; ``print`` shows it. With
        ``every`` also the ``blocks``, and where they are ``singular``.

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
    """
    if restarts is not None and (isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0):
        raise InputError(f"restarts must be an integer, at least 0; got {restarts!r}")
    settings: dict[str, Any] = {
        "fixed": fixed,
        "guesses": guesses,
        "t0": t0,
        "seed": _seed(seed),
        "restarts": restarts,
    }
    if _is_problem(equations):
        if every:
            raise InputError(
                "every solution is looked for of a model only; a problem has no equations to read"
            )
        return initial_of_problem(make_problem(equations, params), u0=u0, **settings)
    if u0 is not None:
        raise InputError("u0 belongs to problems; of a model give guesses by name")
    model = make_model(equations, params)
    return initial_of_model(model, **settings, every=every, workers=_workers(workers), comm=comm)


@checked()
@one_at_a_time
def solution_sets(
    model: ModelLike,
    *,
    fixed: Mapping[str, float] | None = None,
    t0: float | None = None,
    seed: int = 0,
    workers: int = 1,
    params: Mapping[str, Any] | None = None,
) -> tuple[SolutionSet, ...]:
    r"""The curves and surfaces that the equations of a model allow at one time, and their singular points.

    Each block :math:`B_k` of the structural analysis that is not linear has one, with its free values left
    free: all complex solutions of its polynomials, in which cos(x) and sin(x) of an angle x are variables.

    Parameters
    ----------
    model : str, Path, Model or callable
        Model: its name in the library, ``file.py:name``, itself, or the function that makes it.
    fixed : mapping of str to float, optional
        Values that are put in, by name.
    t0 : float, optional
        Time; the start of the interval if not given.
    seed : int
        Of the random numbers of homotopies.
    workers : int
        Number of processes that follow paths.
    params : mapping, optional
        Parameters of the model.

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
    """
    if _is_problem(model):
        raise InputError("solution sets are those of a model; a problem has no equations to read")
    found = make_model(model, params)
    return sets_of_model(found, fixed=fixed, t0=t0, seed=_seed(seed), workers=_workers(workers))


def _seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be an integer, at least 0; got {seed!r}")
    return seed


def _workers(workers: Any) -> int:
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"workers must be an integer, at least 1; got {workers!r}")
    return workers


def _is_problem(equations: Any) -> bool:
    if isinstance(equations, str):
        if equations in MODELS or is_file(equations):
            return False
        if equations in PROBLEMS:
            return True
        raise InputError(unknown("model or problem", equations, {*MODELS, *PROBLEMS}))
    return isinstance(equations, ProblemDAE) or (
        isinstance(equations, type) and issubclass(equations, ProblemDAE)
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc initial``."""
    parser.add_argument("model", help="name of a model or problem, FILE.mo or FILE.py:NAME")
    for name, what in (("fixed", "value that must not be changed"), ("guess", "guess of a value")):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help=f'{what}, "der(x)=1" for a derivative; may be repeated',
        )
    parser.add_argument("--t0", type=float, help="time (the start of the interval)")
    parser.add_argument("--restarts", type=int, help="random starts for other solutions (12)")
    options.add(parser, "simplify param")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random starts (0)")
    parser.add_argument("--every", action="store_true", help="look for all solutions, block by block")
    parser.add_argument(
        "--singular", action="store_true", help="show solution sets of the blocks and their singular points"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes that follow paths (1)")


def _values(option: str, pairs: list[str]) -> dict[str, float]:
    found = {}
    for pair in pairs:
        name, equals, text = pair.rpartition("=")
        try:
            value = float(text)
        except ValueError:
            equals = ""
        if not (equals and name):
            raise InputError(f"--{option} takes NAME=VALUE, for instance x=0.5; got '{pair}'")
        found[name.strip()] = require_number(name, value)
    return found


def _simplified(model: str, params: Mapping[str, Any] | None, given: Iterable[str]) -> Model:
    """A model without its trivial equations, which still has all that values are given for."""
    found = simplify(model, params=params)
    for name in given:
        removed = found.map.get(found.original.unknown(name)[0])
        if removed is not None:
            raise InputError(
                f"{name} is not in {found.model.name} once it is simplified, as {removed}; "
                "give that, or leave --simplify away"
            )
    return found.model


def _print_sets(
    args: argparse.Namespace,
    equations: ModelLike,
    params: Mapping[str, Any] | None,
    fixed: Mapping[str, float],
) -> None:
    sets = solution_sets(
        equations, fixed=fixed, t0=args.t0, seed=args.seed, workers=args.workers, params=params
    )
    for one in sets:
        print(one)
    if not sets:
        print("all blocks are linear")


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc initial``."""
    fixed, guesses = _values("fixed", args.fixed), _values("guess", args.guess)
    params: dict[str, Any] | None = options.parameters(args.param)
    equations: Any = args.model
    if args.simplify:
        equations, params = _simplified(args.model, params, [*fixed, *guesses]), None
    if args.singular:
        _print_sets(args, equations, params, fixed)
        if not args.every:
            return 0
    found = initial(
        equations,
        fixed=fixed,
        guesses=guesses,
        t0=args.t0,
        seed=args.seed,
        restarts=args.restarts,
        params=params,
        every=args.every,
        workers=args.workers,
    )
    print(found)
    return 0
