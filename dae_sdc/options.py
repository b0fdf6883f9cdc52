"""Every option of the package, declared once: name, type, default, bounds, words, and what a shell calls it.

An option is a field of a frozen dataclass. The classes here are groups of options; a function that takes
options has a record of its own, a dataclass that inherits the groups and adds what is the function's alone:

>>> @dataclass(frozen=True)
... class SolveOptions(Method, Steps):
...     problem: str = field(metadata=about("name in the library"))
>>> @takes(SolveOptions)
... def solve(given: SolveOptions) -> Solution:
...     '''Solve a DAE.
...
...     {options}
...     '''

:func:`takes` gives the function one keyword for each field, with the types and defaults of the fields, for
users, editors and type checkers alike, the section Parameters of its docstring, and the attribute ``record``;
:func:`add_options` and :func:`given_options` do that for a verb of the command line, whose options have the
same names with dashes.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from contextlib import nullcontext, suppress
from dataclasses import MISSING, Field, dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from dae_sdc.arguments import checked, is_integer, shown
from dae_sdc.deadline import limited
from dae_sdc.errors import InputError, require_count, require_number, require_tolerance
from dae_sdc.registry import MOST_NAMES, unknown
from dae_sdc.sharing import ONE_THREAD
from dae_sdc.text import names_in

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

WIDTH = 106  # Columns of a docstring.
# Largest number of iterations of a step, and of sweeps in an iteration, that may be allowed.
LARGEST_ITERATION_COUNT = 100_000
MOST_TOGETHER = 10_000  # Steps that may iterate together: each has a level of its own in memory.
MOST_TIMES = 10_000_000  # Times at which a solution may be asked for.
HIGHEST_ORDER = 5  # Highest order of backward differentiation formulas.
LARGEST_SEED = 2**32 - 1
MODELICA_READERS = ("own", "rumoca")  # What reads texts of Modelica.
READER_VARIABLE = "DAE_SDC_READER"  # The variable of the environment that chooses one of them.
PLAIN = str | bool | int | float  # Types of values that a table shows as they are.

# What is called with the name of an option and its value, and raises InputError for one out of bounds.
Check = Callable[[str, Any], object]


@dataclass(frozen=True)
class Option:
    """What is known of an option besides its name, type and default."""

    help: str  # What it is, in one line, with the default in parentheses.
    more: str = ""  # Further sentences, for the docstring.
    check: Check | None = None  # Checks the bounds of a value that is not the default.
    like: str = ""  # Type and shape for the docstring, where the annotation does not tell.
    # Converts the text typed in a shell; chosen by the annotation if not given.
    read: Callable[[str], Any] | None = None
    metavar: str | None = None  # What stands for the value in the help of a verb.
    choices: Sequence[str] = ()  # The values that there are.
    flag: str = ""  # Its name in a shell, or several; that of the field with dashes if empty.
    repeated: bool = False  # Whether it may be repeated in a shell, each time with one value.
    shell: bool = True  # Whether the command line has it; objects of Python cannot be typed there.
    # Whether the parameters of a result include it; options that say where files lie are left out.
    told: bool = True
    equations: bool = False  # Whether it names equations, which may stand in a file of Modelica.


def about(help: str, more: str = "", **others: Any) -> Mapping[str, Option]:
    """Metadata of a field that is an option, see :class:`Option`."""
    return {"option": Option(help, more, **others)}


def option(default: Any, help: str, more: str = "", **others: Any) -> Any:
    """A field that is an option, see :class:`Option`."""
    return field(default=default, metadata=about(help, more, **others))


def equations(more: str, like: str) -> Mapping[str, Option]:
    """Metadata of a field that names the equations of a verb."""
    known = "name of a problem or model, FILE.mo, or FILE.py:NAME, which is run; 'dae-sdc list' shows all"
    return about(known, more, like=like, equations=True)


def redeclared(group: Any, name: str, default: Any, more: str | None = None) -> Any:
    """The option of a group with another default, and other sentences if given."""
    known = _fields(group)[name].metadata["option"]
    words = known.help.rpartition(" (")[0] or known.help
    shown = ", ".join(default) if isinstance(default, tuple) else default
    changed = {**vars(known), "help": known.help if default is None else f"{words} ({shown})"}
    return field(default=default, metadata=about(**(changed if more is None else changed | {"more": more})))


@functools.cache
def _fields(record: Any) -> Mapping[str, Field[Any]]:
    """The options of a record or group by name, positional ones first."""
    options = [one for one in fields(record) if "option" in one.metadata]
    return {one.name: one for one in sorted(options, key=attrgetter("kw_only"))}


def names_of_options(record: Any) -> list[str]:
    """The names of the options of a record or group."""
    return list(_fields(record))


@dataclass(frozen=True, kw_only=True)
class Group:
    """Options that belong together; making one looks at their bounds."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, one in _fields(kind).items():
            check, value = one.metadata["option"].check, getattr(self, name)
            if check is not None and value is not None and value is not one.default:
                check(name, value)

    def changed(self, **changes: Any) -> Self:
        """A copy with other values of some options, which have been looked at before."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **changes)
        return copy

    def of(self, group: Any, **changes: Any) -> dict[str, Any]:
        """The values of the options in a group, some of them changed, by name."""
        return {name: getattr(self, name) for name in _fields(group)} | changes

    def chosen(self, *groups: Any, without: Collection[str] = ()) -> dict[str, Any]:
        """The options of groups, all if none are named, whose value is not the default, by name."""
        return {
            name: value
            for group in groups or (type(self),)
            for name, one in _fields(group).items()
            if (value := self.__dict__[name]) is not None and value is not one.default and name not in without
        }

    def told(self) -> dict[str, Any]:
        """The chosen options that the parameters of a result include, as numbers and texts."""
        kind: Any = type(self)
        told: dict[str, Any] = {}
        for name, value in self.chosen().items():
            entries = value if isinstance(value, list | tuple) else (value,)
            if _fields(kind)[name].metadata["option"].told and all(isinstance(one, PLAIN) for one in entries):
                told[name] = list(value) if entries is value else value
        return told


# --- Bounds -------------------------------------------------------------------------------------------------


def count(most: int, called: str = "") -> Check:
    """A check for integers from 1 to ``most``; ``called`` is what messages say instead of the name."""
    return lambda name, value: require_count(called or name, value, most)


def _whole(name: str, value: Any, least: int, most: int) -> None:
    if not is_integer(value) or not least <= value <= most:
        raise InputError(f"{name} must be an integer from {least} to {most}; got {shown(value)}")


def up_to(most: int) -> Check:
    """A check for integers from 0 to ``most``."""
    return functools.partial(_whole, least=0, most=most)


def highest_order(name: str, value: Any) -> None:
    """Check one or several orders of backward differentiation formulas, from 1 to 5."""
    for order in value if isinstance(value, Sequence) else (value,):
        _whole(name, order, 1, HIGHEST_ORDER)


def _positive(name: str, value: Any) -> None:
    if not require_number(name, value) > 0.0:
        raise InputError(f"{name} must be positive; got {value!r}")


def number(text: str) -> float:
    """A number in a shell; Python would take 1_000 for one too, which stands for a typing error."""
    if "_" in text:
        raise argparse.ArgumentTypeError(f"needs a number; got {text!r}")
    return float(text)


def integer(text: str) -> int:
    """An integer in a shell, see :func:`number`."""
    number(text)
    return int(text)


def listed(kind: Callable[[str], Any], of: str) -> Callable[[str], list[Any]]:
    """A reader of values that are separated by commas, at least one."""

    def read(text: str) -> list[Any]:
        values: list[Any] = []
        with suppress(ValueError, argparse.ArgumentTypeError):
            values = [kind(part) for part in map(str.strip, text.split(",")) if part]
        if not values:
            raise argparse.ArgumentTypeError(f"needs {of}, separated by commas; got {text!r}")
        return values

    return read


def directory(text: str) -> str:
    """The path of a directory that exists."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"needs a directory; got {text!r}")
    return text


# --- Groups -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Parameters(Group):
    """Values of the parameters of equations."""

    params: Mapping[str, Any] | None = option(
        None,
        "parameters of the problem or model by name",
        like="mapping of str to object",
        metavar="NAME=VALUE",
    )


@dataclass(frozen=True, kw_only=True)
class Reading(Group):
    """How a text of Modelica is read."""

    name: str | None = option(None, "name of the class to read (the last model)")
    parameters: Mapping[str, Any] | None = option(
        None,
        "values of parameters that replace those of the text",
        "For Boolean ones true or false, or 1 or 0.",
        like="mapping of str to float",
    )
    libraries: Sequence[str | Path] = option(
        (),
        "directory in which libraries such as Modelica/ lie, besides those of the variable MODELICAPATH",
        like="sequence of str or Path",
        read=directory,
        metavar="PATH",
        flag="library",
        repeated=True,
    )
    reader: str | None = option(
        None, "what reads a file of Modelica (rumoca what the own reader refuses)", choices=MODELICA_READERS
    )


@dataclass(frozen=True, kw_only=True)
class Simplification(Group):
    """What is done to the equations of a model first."""

    simplify: bool | None = option(
        None,
        "remove the trivial equations of a model first (where solve reads a file of Modelica)",
        "The state has the remaining unknowns; :meth:`Solution.values` gives all of the original ones, "
        "by their names. See :func:`dae_sdc.run.simplify.simplify`.",
    )


@dataclass(frozen=True, kw_only=True)
class Preparation(Simplification):
    """What is done to the equations before they are solved."""

    mass: Any = option(
        None,
        "M of M u' = f(t, u), also singular (identity)",
        like="matrix or callable",
        shell=False,
        told=False,
    )
    reduce: bool | None = option(
        None,
        "reduce the index of a model first (where it is above 3)",
        "No method takes a higher one; the message says so. See :func:`dae_sdc.run.reduce.reduce`.",
    )
    trace: bool | None = option(
        None,
        "read the eval_f of a problem as equations first (where that can be done)",
        "They are compiled, and give exact Jacobians and the index. ``parameters['equations']`` says whether "
        "they were read, or why not. See :func:`dae_sdc.run.target.trace`.",
    )


@dataclass(frozen=True, kw_only=True)
class Method(Group):
    """The method of a run."""

    sweeper: str | type[Any] | None = option(
        None,
        "name of the method (Radau IIA; with dt fully-implicit); 'dae-sdc list sweepers' shows all, ida "
        "and cvode are those of SUNDIALS",
        "A class is taken too. With ``rtol`` a Radau IIA method has as many nodes as pay at the tolerance, "
        "see :func:`dae_sdc.run.method.default_sweeper`. Quasilinear equations that are not stiff get an "
        "explicit method that keeps their constraints, see :func:`dae_sdc.run.method.explicit_method`; "
        "``parameters['chosen_for']`` says why. "
        "With 'ida' or 'cvode' SUNDIALS does the run, see :func:`dae_sdc.run.sundials.sundials`.",
        like="str or type",
    )
    nodes: int | None = option(None, "number of collocation nodes (3; with rtol as many as pay)")
    qdelta: str | None = option(None, "preconditioner Q_Delta (LU); 'dae-sdc list qdelta' shows all")


@dataclass(frozen=True, kw_only=True)
class Methods(Group):
    """The methods of a study, every combination of which is run."""

    sweeper: str | type[Any] | Sequence[str | type[Any]] = option(
        "fully-implicit",
        "one or several methods (fully-implicit); 'dae-sdc list sweepers' shows all",
        like="str, type or sequence of these",
    )
    nodes: int | Sequence[int] | None = option(None, "one or several numbers of collocation nodes (3)")
    qdelta: str | Sequence[str] | None = option(
        None, "one or several preconditioners Q_Delta (LU)", "Methods that do not sweep take none."
    )


@dataclass(frozen=True, kw_only=True)
class ComputedReference(Group):
    """What errors are measured against."""

    reference: float | None = option(
        None,
        "relative tolerance of a reference solution that is computed (the exact solution)",
        "Without it a problem needs ``u_exact``. How far the reference is from one of ten times this "
        "tolerance is told, and errors below three times that are left out of orders.",
        check=_positive,
        metavar="RTOL",
    )


@dataclass(frozen=True, kw_only=True)
class Sweeping(Group):
    """The sweeps of a step, of methods of spectral deferred corrections."""

    quad: str | None = option(
        None, "type of the nodes: RADAU-RIGHT, LOBATTO or GAUSS (RADAU-RIGHT)", metavar="TYPE"
    )
    maxiter: int | None = option(
        None, "largest number of iterations in a step (60)", check=count(LARGEST_ITERATION_COUNT)
    )
    nsweeps: int | None = option(None, "sweeps in one iteration (1)", check=count(LARGEST_ITERATION_COUNT))
    initial_guess: str | None = option(None, "predictor: extrapolate, spread, zero or random (extrapolate)")
    residual_type: str | None = option(
        None, "how residuals are measured: full_abs, last_abs, full_rel or last_rel (full_abs)"
    )
    backend: str | None = option(
        None,
        "what carries out the sweeps: compiled or numpy (compiled where it can be)",
        "Compiled sweeps need a problem with kernels.",
    )
    seed: int | None = option(None, "seed of the random initial guess", check=up_to(LARGEST_SEED))
    coarse_nodes: int | None = option(
        None, "nodes of a second, coarse level: MLSDC, and PFASST where several steps iterate together"
    )
    coarse_qdelta: str | None = option(
        None,
        "preconditioner of the coarse level (LU)",
        "All ranks that share nodes compute the whole of the coarse level.",
    )
    coarsen: bool = option(
        False,
        "coarsen the unknowns too",
        "That is for a problem which offers ``coarse_params`` and ``space_transfer``.",
    )
    match_sweep: bool | None = option(
        None,
        "fit sweep and coarse correction to each other (where it pays)",
        "It pays from index 2 on with sweepers that integrate only the differential unknowns, on RADAU-RIGHT "
        "nodes. See :class:`dae_sdc.control.transfer.TransferDAE`.",
    )


@dataclass(frozen=True, kw_only=True)
class Sweeps(Sweeping):
    """The sweeps of a step, and when they end."""

    restol: float | None = option(
        None,
        "residual at which sweeps end (1e-10)",
        "If it is not positive, there are always ``maxiter`` iterations.",
        check=require_tolerance,
    )


@dataclass(frozen=True, kw_only=True)
class Solves(Group):
    """How systems of equations are solved, and what pySDC's controllers are given besides."""

    newton_tol: float | None = option(None, "tolerance of the nonlinear solves (that of the problem)")
    linear_solver: str | None = option(
        None,
        "linear solver: auto, dense, superlu, klu or gmres (that of the problem)",
        "See :class:`dae_sdc.dae.problem.ProblemDAE`.",
    )
    convergence_controllers: Mapping[type[Any], Mapping[str, Any]] | None = option(
        None,
        "pySDC's convergence controllers and their parameters",
        like="mapping of type to mapping",
        shell=False,
        told=False,
    )


@dataclass(frozen=True, kw_only=True)
class Multistep(Group):
    """Options of multistep methods alone."""

    corrector: str | None = option(
        None, "how steps of multistep methods are solved: newton or fixed-point (newton)"
    )
    starting_procedure: str | None = option(
        None, "first values of multistep methods, by collocation or explicit-euler (collocation)"
    )


@dataclass(frozen=True, kw_only=True)
class Sharing(Group):
    """How work is divided among processes."""

    parallel: str | None = option(
        None,
        "what the ranks of MPI share: the nodes of a step, the steps of a block, or both",
        "Values are 'nodes', 'steps' and 'both'. All ranks call, all return the same; rank 0 alone writes "
        "and shows progress. Where ranks share nodes, Q_Delta must be diagonal, and is MIN-SR-S if none is "
        "given. In :func:`dae_sdc.run.solve.solve` also 'auto': ranks share the stages of Radau IIA if the "
        "first steps show that this is faster than a serial run.",
    )


@dataclass(frozen=True, kw_only=True)
class End(Group):
    """Where a run ends."""

    t_end: float | None = option(None, "end time (that of the problem)")


@dataclass(frozen=True, kw_only=True)
class Limit(Group):
    """How long a call may take."""

    time_limit: float | None = option(
        None,
        "seconds after which a call is given up (none)",
        "It covers all of a call; the message tells what was under way. A run that has begun keeps its "
        "steps.",
        check=_positive,
        metavar="SECONDS",
    )


@dataclass(frozen=True, kw_only=True)
class Steps(Limit, End):
    """Sizes of steps and what they are chosen by."""

    dt: float | None = option(
        None,
        "step size in the time unit of the problem (that of the problem); with rtol the first step",
        "A fixed step size must divide the interval.",
    )
    rtol: float | None = option(
        None,
        "relative tolerance: step sizes are chosen by error estimates (1e-6 with neither dt nor a method)",
        "Where a method, ``dt`` or ``hooks`` are given, steps are of a fixed size without it. Sweepers of "
        "spectral deferred corrections end their sweeps by it, and take as many nodes as pay unless told.",
    )
    atol: Any = option(
        None,
        "absolute tolerance, with rtol (rtol times the sizes of the unknowns)",
        "The sizes are the ``nominal`` values of the problem, and without these the largest value so far "
        "of each unknown.",
        like="float or array_like, shape (n,)",
        read=number,
    )
    leave_out: Sequence[str] | None = option(
        None,
        "names of unknowns whose error does not count, with rtol",
        "The error of an unknown of index k is multiplied by min(1, h / tau)^(k - 1), see "
        ":class:`dae_sdc.sweepers.tolerance.Tolerance`. SUNDIALS leaves out those of index 2 and higher if "
        "it is not given, as its error estimates need not fall with the step; ``global_error`` holds them.",
    )
    dt_max: float | None = option(None, "largest step, with rtol", check=_positive)
    max_order: int | None = option(
        None, "highest order, of the sweepers ida and cvode (5)", check=highest_order
    )
    global_error: bool | None = option(
        None,
        "estimate the global error by runs to smaller tolerances, of the sweepers ida and cvode (yes)",
        "Their error tests hold the error of a step in the mean of all unknowns. Runs are repeated with a "
        "tenth of the tolerance until two of them agree, see :func:`dae_sdc.run.sundials.sundials`.",
    )


@dataclass(frozen=True, kw_only=True)
class Start(Group):
    """Where a run starts."""

    t0: float | None = option(None, "start time (that of the problem)")
    u0: Any = option(
        None,
        "initial value, consistent with the equations: by names or in order, or a file of initial or solve",
        "If it is not given, it is the problem's own. Of models it is found from their start values, see "
        ":func:`dae_sdc.run.initial.initial`; the message says what was changed, and where other starts were "
        "found. What contradicts hidden constraints is refused: a ``u0``, and start values of all states "
        "that satisfy the equations as they are written. Values of some unknowns by name are kept, and the "
        "others, or those with None, follow. What :func:`dae_sdc.run.initial.initial` returns, or wrote to a "
        "file, is taken with its time, and of the file of a solution its end.",
        like="array_like, shape (n,), mapping of str to float or None, Initial, or path of a file",
        metavar="FILE.npy|NAME=VALUE,...|VALUES",
        told=False,
    )


@dataclass(frozen=True, kw_only=True)
class Guesses(Group):
    """What is known of consistent values."""

    fixed: Mapping[str, float] | Iterable[str] | None = option(
        None,
        'values that must not be changed, "der(x)=1" for a derivative',
        "They are given by name, or as names of those whose guesses must not be changed, with * and ? for "
        "any characters and any one.",
        like="mapping of str to float, or iterable of str",
        metavar="NAME=VALUE",
    )
    guesses: Mapping[str, float] | Any = option(
        None,
        "guesses of values, with * and ? in names; or a file of initial or solve",
        "They are changed as little as possible. Start values of a model are guesses, or fixed where it "
        "says so. A name goes before a pattern. Of a solution, a start, a steady state or the file of one "
        "the values at its end are taken, of unknowns that there are.",
        like="mapping of str to float, Solution, Initial, Steady, or path of a file",
        metavar="NAME=VALUE|FILE.npy",
        flag="guesses guess",
    )
    bounds: Mapping[str, Any] | None = option(
        None,
        "smallest and largest values at the start, by name (min and max of the unknowns of a model)",
        "Each is a pair, None for no bound, or a text such as '0:1'. They say nothing of the run after it.",
        like="mapping of str to (float, float)",
        metavar="NAME=LEAST:MOST",
    )


@dataclass(frozen=True, kw_only=True)
class ConsistentStart(Guesses):
    """How a start is made consistent."""

    start: str | None = option(
        None,
        "given: start at the given values (where there are any); consistent: at the nearest consistent ones",
        "With 'consistent', and where ``fixed`` or ``guesses`` are given, values of ``u0`` are guesses; the "
        "message says what was changed.",
        choices=("given", "consistent"),
    )

    @property
    def is_made_consistent(self) -> bool:
        """Whether a run starts at the nearest consistent values, and given ones are guesses."""
        return self.start == "consistent" or self.fixed is not None or self.guesses is not None


@dataclass(frozen=True, kw_only=True)
class OutputTimes(Group):
    """Times at which a solution is wanted."""

    t_eval: Any = option(
        None,
        "increasing times within the interval at which the solution is given (the ends of the steps)",
        "With ``rtol`` steps are also as short as values between their ends need.",
        like="array_like, shape (K,)",
        read=listed(number, "numbers"),
        told=False,
    )
    points: int | None = option(
        None,
        "give the solution at so many equally spaced times (at the steps)",
        "That is another way to give ``t_eval``.",
        check=functools.partial(_whole, least=2, most=MOST_TIMES),
    )


@dataclass(frozen=True, kw_only=True)
class Times(OutputTimes):
    """Times at which a solution is wanted, and what is seen of it before."""

    watch: str | Sequence[str] | None = option(
        None, "unknowns that progress shows with time and step, with * and ?", metavar="A,B", told=False
    )
    dense: bool | None = option(
        None,
        "keep what the solution between the steps needs, solution(t) (up to 10000 unknowns)",
        "It is written to a file beside ``out``, too; of more than 4 million values only if True. With True "
        "and ``rtol`` steps are also as short as values between their ends need.",
    )


@dataclass(frozen=True, kw_only=True)
class Values(Group):
    """What the values of a solution satisfy."""

    hidden_constraints: bool | None = option(
        None,
        "make velocities and multipliers satisfy the hidden constraints (with rtol, where these are known)",
        "They are solved for at the ends of steps and between them, and are as accurate as the positions and "
        "velocities that they follow from. Hidden constraints are known of models, and of problems whose "
        "``eval_f`` is read as equations, which True does with any problem; steps and their errors do not "
        "depend on it.",
    )


@dataclass(frozen=True, kw_only=True)
class ResultFile(Group):
    """Where results go."""

    out: str | Path | None = option(
        None,
        "file for the result; a .json of the same name says how it was made",
        "Its name gets ``.npy`` where that is missing; a name that ends in ``.csv`` gets the columns as "
        "text, and no file beside. Until the run has come to its end, and when it fails, what it has "
        "computed lies in ``<out>.partial.npy`` beside.",
        metavar="FILE.npy",
        told=False,
    )


@dataclass(frozen=True, kw_only=True)
class Output(ResultFile):
    """Where results of what takes long go, and whether progress is shown."""

    progress: bool | None = option(
        False,
        "show progress with the remaining time on standard error (if that is a terminal)",
        "True always, False never, None on a terminal. Commands have None, functions False.",
        told=False,
    )


@dataclass(frozen=True, kw_only=True)
class Observation(Group):
    """What is observed during a run: events, invariants and singular points."""

    events: Any = option(
        (),
        "functions f(u, t) whose zeros are wanted, or texts: 'x-0.5', 'phi-pi/2; terminal rising'",
        "Functions have the attributes ``terminal``, ``direction`` and ``name`` where needed, see "
        ":class:`dae_sdc.control.events.Event`. Texts have the names of unknowns, parameters and the time t.",
        like="callable, Event, str, or sequence of these",
        metavar="EXPRESSION",
        flag="events event",
        repeated=True,
        told=False,
    )
    chattering: str | None = option(
        None,
        "where both sides of a switch lead back to it: slide along it, or stop (slide, where possible)",
        "The solution slides with a value between the two of the jump (Filippov), until one side leads away. "
        "That takes ``rtol``, and equations that are a model or are read from a function.",
    )
    project: bool | None = option(
        None,
        "move the end of each step to the invariants of the problem, or only tell the drift",
        "True moves it to the nearest state at which the invariants vanish, ``invariants(u, t)`` with "
        "``invariants_jacobian(u, t)`` and ``invariant_names``; of quasilinear problems these are the "
        "constraints. ``stats`` then has ``drift``, the largest invariant at the ends of steps, "
        "``drift_before_projection``, ``projections`` and ``projection_iterations``, and ``log`` the first "
        "two for every step. False gives ``drift`` alone, None nothing.",
    )
    singular: str | None = option(
        None,
        "at a singular point of the equations: stop, or pass along the branch that the method takes (stop; "
        "quasilinear equations: pass)",
        "Such points are where the equations no longer determine their solution, see "
        ":class:`dae_sdc.control.singular.WatchSingularPoints`: the run ends before one, or goes on; the "
        "message has time, place and rank. If not given, it is 'stop' for models and 'pass' for quasilinear "
        "equations; in other runs singular points are not sought.",
        like="{'stop', 'pass'}",
    )
    hooks: Sequence[type[Any]] = option(
        (), "pySDC hooks to run besides those that record the solution", shell=False, told=False
    )
    controller_params: Mapping[str, Any] | None = option(
        None,
        "parameters of pySDC's controller, for instance ``mssdc_jac``",
        like="mapping of str to object",
        shell=False,
        told=False,
    )


@dataclass(frozen=True, kw_only=True)
class Ranks(Group):
    """Processes of MPI."""

    comm: Any = option(None, "the ranks (COMM_WORLD)", like="mpi4py.MPI.Intracomm", shell=False, told=False)


@dataclass(frozen=True, kw_only=True)
class Parallel(Ranks, Sharing):
    """Steps that iterate together, and processes."""

    steps: int | None = option(
        None,
        "time steps that iterate together (1; in parallel as many as the ranks allow)",
        "That is multi-step SDC, and PFASST with ``coarse_nodes``.",
        check=count(MOST_TOGETHER, "the number of steps that iterate together"),
    )
    threads: int | str | None = option(
        None,
        "threads that share the stages of a step of Radau IIA to a tolerance; auto measures if they pay (1)",
        "The values are those of one thread. With 'auto' the first steps are measured, and "
        "``parameters['sharing']`` of the solution says what was chosen and why.",
        check=lambda name, value: None if value == "auto" else require_count(name, value),
        read=lambda text: text if text == "auto" else integer(text),
        metavar="N",
    )


@dataclass(frozen=True, kw_only=True)
class Saving(Group):
    """Checkpoints."""

    checkpoint: str | Path | None = option(
        None,
        "file to which the complete state of the run is written now and then, to go on from with resume",
        "It ends in .npz. Runs of one step at a time on one level have it. It is replaced as a whole, and "
        "stays when the run fails or is killed.",
        metavar="FILE.npz",
        told=False,
    )
    every: int | None = option(
        None,
        "accepted steps between two checkpoints (10, in a tenth of the time at most)",
        check=count(10**9, "every, the number of steps between two checkpoints,"),
        metavar="N",
        told=False,
    )
    resume: bool = option(
        False,
        "go on from checkpoint; begin at the start if there is no such file",
        "The other arguments are the same as before. The solution is that of the whole run, with "
        "``parameters['resumed_at']``, None at the start.",
        told=False,
    )


# --- Functions of Python ------------------------------------------------------------------------------------


def takes(record: Callable[P, T], limits_call: bool = True) -> Callable[[Callable[[T], R]], Callable[P, R]]:
    """Decorator for a function of one record: it is called with the fields of the record by their names.

    Whatever cannot be used is an InputError of one line, as by :func:`dae_sdc.arguments.checked`. A record
    with a ``time_limit`` limits the whole call, unless ``limits_call`` is False.
    """

    def decorate(function: Callable[[T], R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            options: Any = record(*args, **kwargs)
            has_limit = limits_call and isinstance(options, Limit)
            with ONE_THREAD, limited(options.time_limit) if has_limit else nullcontext():
                return function(options)

        flat: Any = call
        del flat.__wrapped__
        result = inspect.signature(function).return_annotation
        flat.__signature__ = inspect.signature(record).replace(return_annotation=result)
        flat.__annotations__ = {"return": result}
        flat.__doc__ = (function.__doc__ or "").replace("    {options}", parameters_section(record), 1)
        flat.record = record
        return checked()(call)

    return decorate


def parameters_section(record: Any) -> str:
    """The section Parameters of the docstring of a function that takes the options of a record."""
    lines = ["Parameters", "----------"]
    for name, one in _fields(record).items():
        known = one.metadata["option"]
        values = f"{{{', '.join(map(repr, known.choices))}}}" if known.choices else ""
        like = known.like or values or str(one.type).removesuffix(" | None").replace(" | ", " or ")
        lines.append(f"{name} : {like}" if one.default is MISSING else f"{name} : {like}, optional")
        words = f"{known.help[0].upper()}{known.help[1:]}. {known.more}".strip()
        lines += textwrap.wrap(words, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return textwrap.indent("\n".join(lines), "    ")


# --- The command line ---------------------------------------------------------------------------------------


# What makes a value from the text in a shell, by the first of these that an annotation contains.
READERS: Mapping[str, Callable[[str], Any]] = {
    "Mapping[": str,  # NAME=VALUE, see :func:`given_options`
    "Sequence[float": listed(number, "numbers"),
    "Sequence[int": listed(integer, "integers"),
    "Sequence[": listed(str, "names"),
    "float": number,
    "int": integer,
    "": str,
}


class SwitchOrText(argparse.BooleanOptionalAction):
    """A switch, ``--name`` and ``--no-name``, that may be given a text instead: ``--name TEXT``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.nargs = "?"

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Keep the text, or what the switch says."""
        if values is None:
            super().__call__(parser, namespace, values, option_string)
        elif str(option_string).startswith("--no-"):
            parser.error(f"argument {option_string}: takes no value; got {values!r}")
        else:
            setattr(namespace, self.dest, values)


def add_options(parser: argparse.ArgumentParser, record: Any, only: Sequence[str] = ()) -> None:
    """Give a parser the options of a record."""
    for name, one in _fields(record).items():
        known, annotation = one.metadata["option"], str(one.type)
        if not known.shell or (only and name not in only):
            continue
        given: dict[str, Any] = {"help": known.help.replace("%", "%%"), "default": None}
        if annotation.startswith("bool"):
            both = one.default is None or annotation.endswith("None")
            switch = SwitchOrText if "str" in annotation else argparse.BooleanOptionalAction
            given |= {"action": switch, "metavar": known.metavar} if both else {"action": "store_true"}
        else:
            kind = next(kind for part, kind in READERS.items() if part in annotation)
            given |= {"type": known.read or kind, "metavar": known.metavar, "choices": known.choices or None}
            if known.repeated or annotation.startswith("Mapping"):
                given |= {"action": "append", "help": f"{given['help']}; may be repeated"}
        if one.kw_only or known.flag:
            flags = (known.flag or name.replace("_", "-")).split()
            parser.add_argument(*(f"--{flag}" for flag in flags), dest=name, **given)
        else:
            given |= {} if one.default is MISSING else {"nargs": "?"}
            parser.add_argument(name, **given)
        if known.equations:
            add_options(parser, Reading, only=("libraries", "reader"))


def given_options(args: argparse.Namespace, record: Any, without: Sequence[str] = ()) -> dict[str, Any]:
    """The options of a record that were given on the command line, by name."""
    asked = {name: getattr(args, name, None) for name in _fields(record) if name not in without}
    chosen: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    for name in chosen:
        annotation = str(_fields(record)[name].type)
        if annotation.startswith("Mapping"):
            texts, is_file = chosen[name], "Any" in annotation.partition("]")[2]
            alone = is_file and len(texts) == 1 and "=" not in texts[0]
            chosen[name] = texts[0] if alone else pairs(name, texts, numbers="float" in annotation)
    return chosen


def patterns_of(show: str | Sequence[str]) -> list[str]:
    """Names and patterns from a text in which commas separate them, but for commas inside brackets."""
    texts = [show] if isinstance(show, str) else list(show)
    return [part for text in texts for part in names_in(text)]


_WILD = {"*": ".*", "?": "."}


def fitting(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a pattern with ``*`` and ``?`` fits, or the one name that it is."""
    known = list(names)
    if pattern in known:
        return [pattern]
    wanted = re.compile("".join(_WILD.get(letter, re.escape(letter)) for letter in pattern))
    return [name for name in known if wanted.fullmatch(name)]


def chosen_names(show: str | Sequence[str], names: Sequence[str]) -> list[str]:
    """Names by names and patterns, in the order of these."""
    chosen: dict[str, None] = {}
    for pattern in patterns_of(show):
        several = fitting(pattern, names)
        if not several:
            raise InputError(unknown("name", pattern, names))
        chosen |= dict.fromkeys(several)
    require_some(chosen, names)
    return list(chosen)


def places_of(show: str | Sequence[str] | None, names: Sequence[str]) -> dict[str, int]:
    """The places of unknowns by names and patterns; none for None."""
    return {name: names.index(name) for name in (chosen_names(show, names) if show else ())}


def require_some(chosen: Sized, names: Sequence[str]) -> None:
    """Raise InputError where nothing is chosen of these names."""
    if not chosen:
        raise InputError(f"no unknowns to draw; choose from: {', '.join(names[:MOST_NAMES])}")


def pairs(name: str, texts: Sequence[str], numbers: bool = False) -> dict[str, Any]:
    """Values by name from texts as "x=1,y=2"; numbers, true and false become what they say."""
    values: dict[str, Any] = {}
    for text in [part for one in texts for part in (names_in(one) if one.count("=") > 1 else [one])]:
        key, equals, right = text.partition("=")
        value = _value(right)
        if not (equals and key.strip()) or (numbers and isinstance(value, str | bool)):
            example = "x=0.5" if numbers else "alpha=10"
            raise InputError(f"--{name} takes NAME=VALUE, for instance {example}; got '{text}'")
        values[key.strip()] = value
    return values


def _value(text: str) -> Any:
    for convert in (integer, number):
        with suppress(ValueError, argparse.ArgumentTypeError):
            return convert(text)
    return {"true": True, "false": False}.get(text, text)
