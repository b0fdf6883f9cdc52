"""The options of the command line, each with one spelling and one meaning for every verb."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from dae_sdc.errors import InputError


def _listed(kind: Callable[[str], Any], of: str) -> Callable[[str], list[Any]]:
    """A reader of values that are separated by commas, at least one."""

    def read(text: str) -> list[Any]:
        try:
            found = [kind(part) for part in map(str.strip, text.split(",")) if part]
        except ValueError:
            found = []
        if not found:
            raise argparse.ArgumentTypeError(f"needs {of}, separated by commas; got {text!r}")
        return found

    return read


_numbers = _listed(float, "numbers")
_integers = _listed(int, "integers")
_words = _listed(str, "names")


OPTIONS: Mapping[str, dict[str, Any]] = {
    "sweeper": {"help": "method; 'dae-sdc list sweepers' shows all", "default": "fully-implicit"},
    "sweeper-of-run": {
        "flag": "sweeper",
        "help": "method (fully-implicit; with --rtol Radau IIA); 'dae-sdc list sweepers' shows all; "
        "ida and cvode are those of SUNDIALS",
    },
    "rtol": {"type": float, "help": "relative tolerance: step sizes are chosen by error estimates"},
    "atol": {"type": float, "help": "absolute tolerance, with --rtol (rtol times the sizes of the unknowns)"},
    "dt-max": {"type": float, "help": "largest step, with --rtol"},
    "longest-run": {
        "flag": "time-limit",
        "type": float,
        "help": "seconds after which the run is given up, with --rtol",
    },
    "max-order": {"type": int, "help": "highest order, of the sweepers ida and cvode (5)"},
    "cases": {
        "flag": "case",
        "type": _words,
        "help": "methods, separated by commas, radau-iia-9/ggl with a formulation (all that keep or lose the "
        "constraints in a way of their own)",
    },
    "parts": {
        "flag": "points",
        "type": int,
        "help": "number of equal parts of the interval for which the largest errors are kept (100)",
    },
    "max-orders": {
        "flag": "max-order",
        "type": _integers,
        "help": "highest orders of ida and cvode, separated by commas (5,1)",
    },
    "start-of-pendulum": {
        "flag": "start",
        "help": "start of multistep methods: explicit-euler or collocation (explicit-euler)",
    },
    "spring-constants": {
        "flag": "k",
        "type": _numbers,
        "help": "spring constants, separated by commas (1,10,100,500,1000,1500)",
    },
    "sweepers-of-pendulum": {
        "flag": "sweeper",
        "type": _words,
        "help": "methods, separated by commas, bdf2/fixed-point for a corrector, ida and cvode for SUNDIALS, "
        "reference for an accurate solution (explicit Euler, BDF and CVODE)",
    },
    "rtols-of-pendulum": {
        "flag": "rtols",
        "type": _numbers,
        "help": "tolerances of ida and cvode, separated by commas (1e-6,1e-3,1e-2)",
    },
    "sweepers": {
        "flag": "sweeper",
        "type": _words,
        "help": "methods, separated by commas",
        "default": ["fully-implicit"],
    },
    "nodes": {"type": int, "help": "number of collocation nodes (3)"},
    "nodes-list": {
        "flag": "nodes",
        "type": _integers,
        "help": "numbers of collocation nodes, separated by commas (3)",
    },
    "quad": {"help": "quadrature: RADAU-RIGHT, LOBATTO or GAUSS (RADAU-RIGHT)"},
    "qdelta": {"help": "preconditioner Q_Delta (LU); 'dae-sdc list qdelta' shows all"},
    "qdeltas": {"flag": "qdelta", "type": _words, "help": "preconditioners, separated by commas (LU)"},
    "sweepers-of-study": {
        "flag": "sweeper",
        "type": _words,
        "help": "methods, separated by commas (all that take the problem)",
    },
    "backend": {"help": "what carries out the sweeps: compiled or numpy (compiled where it can be)"},
    "linear-solver": {"help": "linear solver: auto, dense, superlu, klu or gmres (auto)"},
    "linear-solvers": {
        "flag": "linear-solver",
        "type": _words,
        "help": "linear solvers, separated by commas (all that are installed)",
    },
    "dt": {"type": float, "help": "step size in the time unit of the problem"},
    "dts": {"type": _numbers, "help": "step sizes, separated by commas"},
    "t-end": {"type": float, "help": "end time"},
    "points": {"type": int, "help": "give the solution at so many equally spaced times (at the steps)"},
    "restol": {"type": float, "help": "residual tolerance of the sweeps (1e-10)"},
    "newton-tol": {"type": float, "help": "tolerance of the nonlinear solves"},
    "maxiter": {"type": int, "help": "largest number of iterations in a step (60)"},
    "nsweeps": {"type": int, "help": "sweeps in one iteration (1)"},
    "initial-guess": {"help": "predictor: extrapolate, spread, zero or random (extrapolate)"},
    "residual-type": {"help": "full_abs, last_abs, full_rel or last_rel (full_abs)"},
    "sizes": {"type": _integers, "help": "numbers of unknowns, separated by commas"},
    "accuracies": {"type": _numbers, "help": "errors at which to compare, separated by commas (1e-6,1e-9)"},
    "ranks": {"type": int, "help": "ranks of MPI to start (2)"},
    "rtols": {"type": _numbers, "help": "relative tolerances, separated by commas (1e-3,1e-4,...,1e-12)"},
    "time-limit": {"type": float, "help": "longest time of a run in seconds (20)"},
    "steps": {"type": int, "help": "time steps that iterate together (1; in parallel as many as fit)"},
    "coarse-nodes": {"type": int, "help": "nodes of a coarse level: MLSDC, with several steps PFASST"},
    "coarse-qdelta": {"help": "preconditioner of the coarse level (LU)"},
    "coarsen": {"action": "store_true", "help": "coarsen the unknowns too, where the problem can"},
    "match-sweep": {
        "action": argparse.BooleanOptionalAction,
        "help": "fit sweep and coarse correction to each other (where it pays)",
    },
    "simplify": {
        "action": argparse.BooleanOptionalAction,
        "help": "remove the trivial equations of a model first (only where solve reads FILE.mo)",
    },
    "project": {
        "action": argparse.BooleanOptionalAction,
        "help": "move the end of each step to the invariants of the problem, or only tell the drift",
    },
    "singular": {
        "choices": ("stop", "pass"),
        "help": "at a singular point of the equations: end the run, or go on along the branch that the "
        "method takes (stop; methods on manifolds: pass)",
    },
    "parallel": {"help": "what the ranks of mpirun share: nodes, steps or both"},
    "param": {
        "action": "append",
        "default": [],
        "metavar": "NAME=VALUE",
        "help": "parameter of the problem; may be repeated",
    },
    "seed": {"type": int, "help": "seed of the random initial guess"},
    "corrector": {"help": "of multistep methods: how steps are solved, newton or fixed-point (newton)"},
    "start": {"help": "of multistep methods: first values by collocation or explicit-euler (collocation)"},
    "checkpoint": {
        "metavar": "FILE.npz",
        "help": "file to which the state of the run is written now and then, to go on from with --resume",
    },
    "every": {
        "type": int,
        "metavar": "N",
        "help": "accepted steps between two checkpoints (10, in a tenth of the time at most)",
    },
    "resume": {
        "action": "store_true",
        "help": "go on from --checkpoint; begin at the start if there is no such file",
    },
    "out": {
        "metavar": "FILE.npy",
        "help": "file for the result; a .json of the same name says how it was made",
    },
}


def add(parser: argparse.ArgumentParser, *names: str) -> None:
    """Give a parser the named options; each argument may hold several names separated by blanks."""
    for name in " ".join(names).split():
        spec = dict(OPTIONS[name])
        flag = spec.pop("flag", name)
        parser.add_argument(f"--{flag}", **spec)


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """The options that describe a run, as arguments of the functions in ``dae_sdc.run``."""
    names = (
        "sweeper nodes quad qdelta restol newton_tol maxiter nsweeps initial_guess residual_type seed "
        "coarse_nodes coarse_qdelta coarsen match_sweep backend linear_solver corrector start"
    ).split()
    given = {name: getattr(args, name) for name in names if getattr(args, name, None) is not None}
    if getattr(args, "param", None):
        given["problem_params"] = parameters(args.param)
    return given


def parameters(pairs: list[str]) -> dict[str, Any]:
    """Parameters of a problem from "name=value" texts; numbers, true and false become what they say.

    Raises
    ------
    InputError
        For a text without a name and an equals sign.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not (equals and name):
            raise InputError(f"--param takes NAME=VALUE, for instance alpha=10; got '{pair}'")
        found[name] = _value(text)
    return found


def _value(text: str) -> Any:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)
