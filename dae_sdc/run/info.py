"""Show a problem, a model, a method or this installation.

Example: dae-sdc info pendulum
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from qmat.qdelta import QDELTA_GENERATORS

from dae_sdc.arguments import checked
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.imports import launched
from dae_sdc.options import Reading, add_options
from dae_sdc.problems._models import MODELS
from dae_sdc.registry import unknown
from dae_sdc.run.processes import mpi_library
from dae_sdc.run.results import provenance
from dae_sdc.run.target import is_file, make_model, make_problem, resolve
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.sweepers.teams import LEAST_SHARED, cores

MACHINE: Final = "machine"  # What stands for this machine in the place of a name.
# Variables of the environment that limit the threads of BLAS.
THREAD_LIMITS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

if TYPE_CHECKING:
    from dae_sdc.model.model import Model


@checked()
def info(name: str | None = None) -> str:
    """A description of a problem, model, sweeper or preconditioner; versions without a name.

    Parameters
    ----------
    name : str, optional
        A name that ``dae-sdc list`` shows, ``file.mo``, ``file.py`` or ``file.py:name``, or "machine" for
        what could share the work of a run. A file of Python is run.

    Returns
    -------
    str
        The description, of several lines.

    Raises
    ------
    InputError
        For a name that is none of these.

    Examples
    --------
    >>> print(ds.info("bdf3").splitlines()[0])
    bdf3: class BDF3DAE
    """
    if name is None:
        versions = provenance()
        if versions["mpi4py"] and not versions["mpi"]:  # this process has not loaded the library
            try:
                versions["mpi"] = mpi_library()
            except InputError as error:
                versions["mpi"] = str(error)
        pairs = versions.items()
        return "\n".join(f"{key:<12} {'not installed' if value is None else value}" for key, value in pairs)
    if name == MACHINE:
        return "\n".join(f"{key:<16} {value}" for key, value in _machine().items())
    lines, about = _described(name)
    return "\n".join([*lines, "", _plain(about or "")])


Description = tuple[list[str], str | None]  # Lines, and a docstring.


def _described(name: str) -> Description:
    if is_file(name):
        target = resolve(name)
        about = inspect.getdoc(target.thing) or "" if callable(target.thing) else ""
        if target.problem is not None:
            return _problem(name, target.make_problem({}))
        if target.function is not None:
            from dae_sdc.model.functions import problem_of_function

            return _problem(name, problem_of_function(target.function), about)
        return _model(name, make_model(name)), about
    if name in PROBLEMS:
        return _problem(name, make_problem(name))
    if name in MODELS:
        return _model(name, make_model(name)), inspect.getdoc(MODELS[name])
    if name in SWEEPERS:
        sweeper: type[Any] = SWEEPERS[name]
        more = sweeper.summary() if issubclass(sweeper, DirectMethod) else []
        return [f"{name}: class {sweeper.__name__}", *more], inspect.getdoc(sweeper)
    if name in QDELTA_GENERATORS:
        generator = QDELTA_GENERATORS[name]
        aliases = [other for other, kind in QDELTA_GENERATORS.items() if kind is generator and other != name]
        more = [f"other names: {', '.join(aliases)}"] if aliases else []
        return [f"{name}: preconditioner {generator.__name__} of qmat", *more], inspect.getdoc(generator)
    known = [*PROBLEMS, *MODELS, *SWEEPERS, *QDELTA_GENERATORS, MACHINE]
    raise InputError(unknown("problem, model, sweeper or preconditioner", name, known))


def _machine() -> dict[str, str]:
    """What there is to share the work of a run, and what 'auto' makes of it."""
    limits = {name: os.environ[name] for name in THREAD_LIMITS if name in os.environ}
    several, ranks = cores(), launched()
    has_mpi = importlib.util.find_spec("mpi4py") is not None
    choice = f"1 or up to {several} threads, with threads='auto'" if several > 1 else "1 thread"
    if ranks > 1:
        choice = f"1 or {ranks} ranks, with parallel='auto'"
    return {
        "cores": f"{os.cpu_count()}, of which this process may use {several}",
        "threads of BLAS": ", ".join(f"{name}={value}" for name, value in limits.items()) or "not limited",
        "MPI": f"mpi4py is {'' if has_mpi else 'not '}installed; started on {ranks} rank{'s' * (ranks > 1)}",
        "auto": f"{choice}; serial below {LEAST_SHARED} unknowns",
    }


def _problem(name: str, problem: ProblemDAE, of_function: str | None = None) -> Description:
    """What is known of a problem; of one made of a function with its docstring."""
    known, until = f"a function of {problem.n}", "t_end is yours to give"
    if of_function is None:
        known = f"class {type(problem).__name__}, index {problem.index}, {problem.n_diff} differential and "
        known, until = f"{known}{problem.n_alg} algebraic", _interval(problem.interval, problem.time_unit)
    names = zip(problem.names, problem.units, strict=True)
    lines = [
        f"{name}: {problem.title}".removesuffix(": "),
        f"{known} unknowns, {until}",
        "unknowns: " + ", ".join(f"{name} [{unit}]" if unit else name for name, unit in names),
    ]
    if of_function is not None:
        own = getattr(problem, "parameter_values", {})
        lines += _parameters([(key, value, "") for key, value in own.items()])
    values = problem.params
    lines += _parameters([(key, values.get(key), unit) for key, unit in problem.parameter_units.items()])
    if name in MODELS:
        lines.append("also given by its equations: structure, reduce, simplify and initial read them")
    return lines, inspect.getdoc(type(problem)) if of_function is None else of_function


def _model(name: str, model: Model) -> list[str]:
    return [
        f"{name}: {model.title}".removesuffix(": "),
        f"model of {len(model.roots)} equations, {_interval(model.interval, 's')}",
        "unknowns: " + ", ".join(f"{v.name} [{v.unit or 1}]" for v in model.variables_by_name.values()),
        *_parameters([(p.name, p.value, p.unit) for p in model.parameters_by_name.values()]),
    ]


def _interval(interval: tuple[float, float], unit: str) -> str:
    return f"t from {interval[0]:g} to {interval[1]:g} {'' if unit == '1' else unit}".rstrip()


def _parameters(rows: Sequence[tuple[str, Any, str]]) -> list[str]:
    lines = [f"  {key} = {value} {unit}".rstrip() for key, value, unit in rows]
    return ["parameters:", *lines] if rows else []


# Patterns of TeX and their replacements in plain text, in the order of application.
_ROLES: Final = re.compile(r":(\w+):`~?([^`]*)`")
_LINKS: Final = re.compile(r"`\[?([^`<\]]*)\]?\s*(?:<[^`>]*>)?`_+")
_TEX: Final = (
    (r"\\(?:left|right|[Bb]igg?|displaystyle|textstyle|limits)(?![a-z])", ""),
    (r"\\t?frac\s*(\w)\s*(\w)", r"\1/\2"),
    (r"\\d?frac\{((?:[^{}]|\{[^{}]*\})*)\}\{((?:[^{}]|\{[^{}]*\})*)\}", r"(\1)/(\2)"),
    (r"\\sqrt\{((?:[^{}]|\{[^{}]*\})*)\}", r"sqrt(\1)"),
    (r"\\(?:math\w+|text\w*|overline)\s*\{([^{}]*)\}", r"\1"),
    (r"\\(?:begin|end)\{[^{}]*\}", ""),
    (r"\\ne(?![a-z])|\\neq(?![a-z])", "!="),
    (r"\\leq?(?![a-z])", "<="),
    (r"\\geq?(?![a-z])", ">="),
    (r"\\l?dots(?![a-z])", "..."),
    (r"\\cdot(?![a-z])|\\times(?![a-z])", "*"),
    (r"\\qquad|\\quad", "  "),
    (r"\\[,;:! ]", " "),
    (r"\\\\|(?<!\\)&", " "),
    (r"\\([A-Za-z]+)", r"\1"),
    (r"\\([{}|])", r"\1"),
    (r"\^\{(\w)\}|\^\{(\\prime)\}", r"^\1"),
)


def _plain(text: str) -> str:
    """A docstring without its examples, directives, roles and commands of TeX."""
    lines = []
    formula: int | None = None
    for line in text.partition("\nExamples\n")[0].splitlines():
        indent = len(line) - len(line.lstrip())
        if line.lstrip().startswith(".. math::"):
            formula = indent
            line = line.replace(".. math::", "")
        elif formula is not None and line.strip() and indent <= formula:
            formula = None
        if formula is not None:
            line = line[:indent] + _without_tex(line[indent:])
        lines.append(line.rstrip())
    joined = _LINKS.sub(lambda link: link[1].strip(), "\n".join(lines))
    return re.sub(r"\n{3,}", "\n\n", _ROLES.sub(_role, joined)).replace("``", "")


def _role(match: re.Match[str]) -> str:
    kind, text = match[1], match[2]
    return _without_tex(text) if kind == "math" else text.rpartition(".")[2] if "~" in match[0] else text


def _without_tex(formula: str) -> str:
    for pattern, instead in _TEX:
        before = ""
        while before != formula:  # from the inside out
            before, formula = formula, re.sub(pattern, instead, formula)
    return re.sub(r"(?<=\S) +(?==)", " ", re.sub(r"(?<=\S)  +", "  ", formula))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc info``."""
    parser.add_argument(
        "name",
        nargs="?",
        help="problem, model, sweeper, preconditioner, FILE.mo, FILE.py:NAME, which is run, or 'machine'; "
        "without it, versions",
    )
    add_options(parser, Reading, only=("libraries", "reader"))


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc info``."""
    print(info(args.name))
    return 0
