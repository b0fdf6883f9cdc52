"""Runs of one problem over values of parameters or start values."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from dae_sdc.arguments import shown
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError, InputError, require_number, words_of
from dae_sdc.model.model import Model
from dae_sdc.options import (
    LARGEST_SEED,
    Method,
    Output,
    OutputTimes,
    Ranks,
    Steps,
    Values,
    about,
    count,
    equations,
    option,
    redeclared,
    takes,
    up_to,
)
from dae_sdc.polynomials.pool import share_jobs
from dae_sdc.registry import require_name
from dae_sdc.run.code import code_digest
from dae_sdc.run.description import Course, Numerics, SolveOptions
from dae_sdc.run.processes import everyone, is_root, join, on_root
from dae_sdc.run.solution import Solution, eliminated_values, output_times, units_of_eliminated
from dae_sdc.run.solve import Repeated, portable_text
from dae_sdc.run.sweep_statistics import OF_EACH_RUN, reduction_of
from dae_sdc.run.sweep_table import SHARED, START, WORK, Outcome, RunningSweep, Sweep, earlier_of
from dae_sdc.run.target import ProblemLike, is_file, problem_name, resolve
from dae_sdc.sharing import bar_of, tell

OUTPUT_TIMES = 201  # Default number of output times.

MOST_RUNS = 100_000

COMBINATIONS = ("grid", "zip")

FEWEST_POINTS = 2  # Output times of runs of which only the end is kept.
SAMPLERS = ("sobol", "latin-hypercube", "random")  # How points of the unit cube are drawn.

SAMPLES = 128  # Default number of draws from distributions.
Named = Mapping[str, Any]  # Values by the names of arguments or parameters.

# Options of a sweep that are not those of its runs.
NOT_OF_A_RUN = (
    *("problem", "params", "combine", "workers", "parallel", "comm", "resume", "out", "progress"),
    *("samples", "sampler", "sample_seed"),
)


@dataclass(frozen=True, kw_only=True)
class SweepOptions(Numerics, Output, Values, OutputTimes, Course, Method, Ranks):
    """Options of :func:`sweep`."""

    time_limit: float | None = redeclared(Steps, "time_limit", None, "It is that of each run.")

    problem: ProblemLike = field(
        kw_only=False,
        metadata=equations(
            "A class of a problem, a model, and functions F(t, u, du) or f(t, u) are taken too.",
            "str, type, Model or callable",
        ),
    )
    params: Mapping[str, Any] | None = field(
        default=None,
        kw_only=False,
        metadata=about(
            "parameters by name: R=10,20,30 and R=start:stop:count (with :log in equal ratios) and draws of "
            "a distribution of scipy.stats, R=norm(10,0.5), are swept, one value is not; u0:x is the start "
            "value of x",
            "Several values are a sequence, a distribution of scipy.stats, or a text as on the command line.",
            like="mapping of str to object",
            metavar="NAME=VALUES",
            flag="params param",
        ),
    )
    combine: str = option(
        "grid",
        "several swept parameters: every value with every other, or the first with the first (grid)",
        choices=COMBINATIONS,
    )
    samples: int | None = option(
        None, f"draws from the distributions of parameters ({SAMPLES})", check=count(MOST_RUNS)
    )
    sampler: str = option(
        "sobol",
        "draws: points of a scrambled Sobol sequence, a Latin hypercube, or independent ones (sobol)",
        choices=SAMPLERS,
    )
    sample_seed: int = option(0, "seed of the draws (0)", check=up_to(LARGEST_SEED))
    points: int | None = redeclared(OutputTimes, "points", OUTPUT_TIMES)
    reduce: bool | str | Sequence[str] | Mapping[str, Any] | None = option(  # type: ignore[assignment]
        None,
        "keep statistics over the runs alone, mean,std,min,max,quantile(0.05), and of each run what is "
        "named: end,events, values at its end and times of its events (all values)",
        "A mapping has names or patterns of the unknowns, or events, for each. Memory does not grow with the "
        "values of the runs. True and False say whether the index of a model is reduced first, as in "
        ":func:`dae_sdc.run.solve.solve`.",
        like="str, sequence of str, mapping of str to str or sequence of str, or bool",
        metavar="NAMES",
    )
    workers: int = option(1, "processes that share the runs (1)", check=count(10_000))
    parallel: str | None = option(
        None,
        "what the ranks of MPI share: the runs",
        "All ranks call, and all return the same; rank 0 alone writes and shows progress.",
        choices=("runs",),
        told=False,
    )
    resume: bool = option(
        False,
        "take the runs that out, or its partial file, has already, and run the others",
        "The other options are the same as before; values may be added.",
        told=False,
    )


@takes(SweepOptions, limits_call=False)
def sweep(request: SweepOptions) -> Sweep:
    """Solutions of one problem for several values of its parameters or start values.

    A run that fails does not end the sweep: its row has ``success`` False, a ``message``, and values up to
    the time that it has reached. With ``out`` every run is in the file as soon as it is over, so that a sweep
    that was killed can go on with ``resume``.

    {options}

    Returns
    -------
    Sweep
        ``parameters``, ``t`` (K,), ``u`` (S, K, n), ``success`` and ``message`` of the S runs, which stand in
        the order of the values, those of the last parameter changing fastest in a grid.

    Raises
    ------
    InputError
        For invalid options, and if no run can begin.

    Examples
    --------
    >>> runs = ds.sweep("simple", {"alpha": "5:10:3"}, rtol=1e-6)
    >>> runs.quantity("u2")
    array([2.71828183, 2.71828183, 2.71828183])
    >>> drawn = ds.sweep("simple", {"alpha": "uniform(5,5)"}, samples=8, rtol=1e-6)
    >>> len(drawn), drawn.quantile("u2", 0.5)[-1].round(6)
    (8, np.float64(2.718282))
    """
    problem = request.problem
    over, fixed = swept_values(request.params or {})
    require_name("combination", request.combine, COMBINATIONS)
    names, values = combined(over, request.combine, draws_of(request, over))
    reduction = None if isinstance(request.reduce, bool | None) else reduction_of(request.reduce)
    options = _identity(request, fixed)
    parameters = {"problem": options["problem"], "sweep": options, **request.told()}
    settings = request.chosen(without=(*NOT_OF_A_RUN, *(("reduce",) if reduction else ())))
    keeps_values = reduction is None or any(name not in OF_EACH_RUN for name in reduction)
    if request.t_eval is None:
        settings["points"] = request.points if keeps_values else FEWEST_POINTS
    of_runs = SolveOptions(problem=problem, dense=False, **settings)
    function = Runs(of_runs, fixed, tuple(names), keeps_values)
    home = problem if callable(problem) else type(problem)
    if request.workers > 1 and getattr(home, "__module__", "") == "__main__":
        raise InputError(
            f"other processes cannot import {shown(problem)} from the program that is run; put it in a file "
            f"and give FILE.py:NAME, or leave workers out"
        )
    comm = _ranks(request, options, values)
    table: Any = None  # The running sweep of rank 0, which writes.

    def begin() -> Any:
        nonlocal table
        table = RunningSweep(names, values, parameters, _units(problem, over), request.out, reduction)
        if request.resume:
            if request.out is None:
                raise InputError("resume goes on with the sweep in the file out; name it")
            if (earlier := earlier_of(request.out, options)) is not None:
                table.take(earlier)
        return table.missing

    def arrived(job: int, outcome: Outcome) -> None:
        if table is not None:
            table.put(missing[job], outcome)
        bar.update(1)

    try:
        missing = on_root(comm, begin)
        jobs, progress = [values[run] for run in missing], request.progress if is_root(comm) else False
        with bar_of(len(values), "run", progress, len(values) - len(missing)) as bar:
            share_jobs(function, jobs, arrived, workers=request.workers, comm=comm)
        runs = Sweep(on_root(comm, lambda: table.finish()))
    finally:  # an interrupt loses no run that has come
        if table is not None:
            table.close()
    failures = runs.failures()
    if failures and is_root(comm):
        more = f"; and {len(failures) - 1} more" if len(failures) > 1 else ""
        tell(f"{len(failures)} of {len(runs)} runs failed: {failures[0]}{more}")
    return runs


def _ranks(request: SweepOptions, options: Mapping[str, str], values: Sequence[tuple[float, ...]]) -> Any:
    """The communicator of the ranks that share the runs, which are the same on all; None without ranks."""
    if request.comm is not None and request.parallel is None:
        raise InputError("a communicator was given; say what is parallel: parallel='runs'")
    if (comm := everyone(request.parallel, request.comm)) is not None:
        join(comm)
        told = comm.allgather(hashlib.sha256(repr((options, values)).encode()).hexdigest())
        if len(set(told)) > 1:
            raise InputError("the ranks were given different sweeps; give all of them the same")
    return comm


@dataclass(frozen=True)
class Runs:
    """The runs of a sweep, by their values."""

    request: SolveOptions  # The options of all of them.
    fixed: Named  # Parameters and start values that all of them have.
    names: tuple[str, ...]  # Those of the swept ones.
    keeps: bool  # Whether values before the end of a run are needed.

    @cached_property
    def _repeated(self) -> Repeated:
        return Repeated()

    def __call__(self, swept: Sequence[float]) -> Outcome:
        """What the run of some values gives; an error that it causes is a part of that."""
        tic = perf_counter()
        try:
            solution = self._repeated.solution(self._request(swept))
        except DAEError as error:
            return Outcome(str(error))
        except (ValueError, ArithmeticError) as error:
            # A constructor or function of the user may refuse a value in its own words.
            return Outcome(words_of(error))
        return self._outcome(solution, perf_counter() - tic)

    def _request(self, swept: Sequence[float]) -> SolveOptions:
        every, request = {**self.fixed, **dict(zip(self.names, swept, strict=True))}, self.request
        params = {name: value for name, value in every.items() if not name.startswith(START)}
        starts = {name.removeprefix(START): value for name, value in every.items() if name not in params}
        if not starts:
            return request.changed(params=params or None)
        if not isinstance(request.u0, Mapping | None):
            raise InputError("where start values are swept, u0 is given by names")
        return request.changed(params=params or None, u0={**(request.u0 or {}), **starts})

    def _outcome(self, solution: Solution, seconds: float) -> Outcome:
        t, about = solution.t, solution.parameters
        times = output_times(None, self.request.points, about["t0"], about["t_end"])
        times = np.array(self.request.t_eval, float) if times is None else times
        reached = float(about["t_end"])
        if len(t) < len(times) or not solution.success:
            reached = float(np.concatenate([t[-1:], *(record.t[-1:] for record in solution.events)]).max())
        numbers: dict[str, float] = {"t_end": reached, "time": seconds}
        numbers |= {name: int(solution.stats.get(name, 0)) for name in WORK}
        units, columns = units_of_eliminated(solution), [*solution.u.T, *eliminated_values(solution).T]
        if not self.keeps:
            columns = [values[-1:] for values in columns]
        of_each = zip((*solution.units, *units), columns, strict=True)
        unknowns = dict(zip(solution.all_names, of_each, strict=True))
        others = list(solution.all_names[len(solution.names) :])
        every = {**about, "others": others, "other_units": list(units)}
        told = {name: every[name] for name in SHARED}
        events = {record.name: record.t for record in solution.events}
        return Outcome(solution.message, solution.success, times, unknowns, told, numbers, events)


def swept_values(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values or distributions of swept parameters, and the others."""
    over: dict[str, Any] = {}
    fixed: dict[str, Any] = {}
    for name, entry in params.items():
        if (distribution := distribution_of(name, entry)) is not None:
            over[name] = distribution
        elif isinstance(entry, str) and ("," in entry or ":" in entry):
            over[name] = [number for part in entry.split(",") for number in _numbers(name, part.strip())]
        elif isinstance(entry, Iterable) and not isinstance(entry, str | Mapping):
            over[name] = [_plain(name, value) for value in entry]
        else:
            fixed[name] = entry
    empty = [name for name, values in over.items() if values == []]
    if empty or not over:
        which = f"{empty[0]} has no values" if empty else "there is no parameter with several values"
        raise InputError(f"nothing to sweep: {which}; give some: {{'R': [10, 20, 30]}} or R=10,20,30")
    return over, fixed


def distribution_of(name: str, entry: Any) -> Any:
    """The frozen distribution of SciPy that an entry is, or is the text of; None for another entry."""
    if hasattr(entry, "ppf") and hasattr(entry, "rvs"):
        return entry
    call = re.fullmatch(r"\s*([a-z]\w*)\(([^()]*)\)\s*", entry) if isinstance(entry, str) else None
    if call is None:
        return None
    stats = importlib.import_module("scipy.stats")
    family, texts = getattr(stats, call[1], None), filter(None, map(str.strip, call[2].split(",")))
    if not isinstance(family, stats.rv_continuous | stats.rv_discrete):
        raise InputError(f"scipy.stats has no distribution '{call[1]}' for {name}; try norm or uniform")
    try:
        return family(*(float(text) for text in texts))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} takes {call[1]} with numbers for its shapes, loc and scale; got '{entry}' ({error})"
        ) from None


def draws_of(request: SweepOptions, over: dict[str, Any]) -> tuple[str, ...]:
    """The names of parameters with distributions, whose draws are put in their places."""
    drawn = tuple(name for name, values in over.items() if not isinstance(values, list))
    if not drawn:
        if request.samples is not None:
            raise InputError("samples are drawn from distributions of parameters; give some, or leave it out")
        return ()
    if request.seed is not None and request.initial_guess != "random":
        raise InputError("seed is that of random initial guesses; give sample_seed, that of the draws")
    others = [len(values) for values in over.values() if isinstance(values, list)]
    usual = others[0] if others and request.combine == "zip" else SAMPLES
    number = usual if request.samples is None else request.samples
    cube = _points_of_cube(request.sampler, number, len(drawn), request.sample_seed)
    for name, column in zip(drawn, cube.T, strict=True):
        values = np.asarray(over[name].ppf(column), dtype=np.float64)
        if values.shape != column.shape or not np.isfinite(values).all():
            raise InputError(f"the distribution of {name} has no finite quantiles; give its shapes and scale")
        over[name] = values.tolist()
    return drawn


def _points_of_cube(sampler: str, number: int, dimension: int, seed: int) -> Vector:
    """Points inside the unit cube, shape (number, dimension), the first of more points with the same seed."""
    require_name("sampler", sampler, SAMPLERS)
    source = np.random.default_rng(seed)
    if sampler == "random":
        cube = source.random((number, dimension))
    else:
        qmc = importlib.import_module("scipy.stats.qmc")
        if sampler == "sobol":
            cube = qmc.Sobol(dimension, seed=source).random_base2((number - 1).bit_length())[:number]
        else:
            cube = qmc.LatinHypercube(dimension, seed=source).random(number)
    edge = float(np.finfo(float).eps)
    return np.clip(cube, edge, 1.0 - edge)


def combined(
    over: Mapping[str, list[float]], combine: str, drawn: Sequence[str] = ()
) -> tuple[list[str], list[tuple[float, ...]]]:
    """Names, and the values of every run in their order; those that are drawn go together in a grid, too."""
    counts = {name: len(values) for name, values in over.items()}
    if combine == "zip" and len(set(counts.values())) > 1:
        numbers = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise InputError(f"combine='zip' needs as many values of each parameter; got {numbers}")
    together = tuple(over) if combine == "zip" else tuple(drawn)
    groups = list(dict.fromkeys(together if name in together else (name,) for name in over))
    total = int(np.prod([counts[group[0]] for group in groups], dtype=float))
    if total > MOST_RUNS:
        raise InputError(f"a sweep has at most {MOST_RUNS} runs; got {total}")
    of_groups = (zip(*(over[name] for name in group), strict=True) for group in groups)
    runs = [tuple(chain(*parts)) for parts in product(*of_groups)]
    twice = next((values for values, count in Counter(sorted(runs)).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"the values {', '.join(f'{x:g}' for x in twice)} are given twice; give them once")
    return list(chain(*groups)), runs


def _numbers(name: str, text: str) -> list[float]:
    """Numbers from "10" or "start:stop:count", which ":log" puts in equal ratios."""
    parts = text.split(":")
    try:
        if len(parts) == 1:
            return [_plain(name, _number(text))]
        ratios = len(parts) == 4 and parts[3] == "log"
        if len(parts) != 3 and not ratios:
            raise ValueError
        start, stop, number = _number(parts[0]), _number(parts[1]), int(parts[2])
    except ValueError:
        raise InputError(
            f"{name} takes numbers separated by commas, start:stop:count or start:stop:count:log; got "
            f"'{text}'"
        ) from None
    if not 1 <= number <= MOST_RUNS:
        raise InputError(f"{name} takes 1 to {MOST_RUNS} values; got '{text}'")
    if ratios and not (start > 0.0 and stop > 0.0):
        raise InputError(f"values of {name} in equal ratios begin and end above 0; got '{text}'")
    values = np.geomspace(start, stop, number) if ratios else np.linspace(start, stop, number)
    whole = isinstance(start, int) and isinstance(stop, int) and bool((values == np.round(values)).all())
    return [int(value) if whole else float(value) for value in values]


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _plain(name: str, value: Any) -> float:
    number = require_number(f"a value of {name}", value)
    if not np.isfinite(number):
        raise InputError(f"a value of {name} must be finite; got {number}")
    return int(value) if isinstance(value, int | np.integer) else number


def _identity(options: SweepOptions, fixed: Mapping[str, Any]) -> dict[str, str]:
    """What tells a sweep from others, as texts: problem, options and parameters that are not swept."""
    problem = options.problem
    name = str(getattr(problem, "__name__", "")) if not hasattr(problem, "model_name") else ""
    title = problem.name if isinstance(problem, Model) else ""
    identity = {"problem": problem if isinstance(problem, str) else title or name or problem_name(problem)}
    if is_file(identity["problem"]):
        path = Path(identity["problem"].partition(":")[0])
        with suppress(OSError):
            identity["file"] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    elif not isinstance(problem, str | Path):
        digest = code_digest(problem)
        identity |= {"code of the problem": digest} if digest else {}
    identity |= {f"params {key}": str(value) for key, value in fixed.items()}
    for key, value in options.chosen(without=NOT_OF_A_RUN).items():
        plain = value.tolist() if isinstance(value, np.ndarray) else value
        if key == "reduce" and not isinstance(value, bool):
            plain = reduction_of(value)
        elif key == "events":
            plain = portable_text(value)
        identity[key] = str(getattr(plain, "__name__", plain))
    return identity


def _units(problem: ProblemLike, over: Iterable[str]) -> dict[str, str]:
    """Units of swept parameters, as far as the problem says them."""
    units: dict[str, str] = {}
    with suppress(DAEError):
        model = resolve(problem).shared_model
        parameters = getattr(model, "parameters_by_name", None) or {}
        units = {name: parameter.unit for name, parameter in parameters.items()}
        of_problem = getattr(model, "parameter_units", None)
        units |= of_problem if isinstance(of_problem, Mapping) else {}
    return {name: units[name] for name in over if name in units}
