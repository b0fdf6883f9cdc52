"""From the options of a user to the description dictionary of pySDC's controllers, and to time steps."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np

from dae_sdc.control.driver import StopAtRoundOff
from dae_sdc.control.transfer import SameUnknowns, TransferDAE
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import LARGEST_COUNT, InputError, require_number
from dae_sdc.options import (
    ConsistentStart,
    End,
    Method,
    Multistep,
    Observation,
    Output,
    Parallel,
    Parameters,
    Preparation,
    Saving,
    Sharing,
    Solves,
    Start,
    Steps,
    Sweeps,
    Times,
    Values,
    equations,
    takes,
)
from dae_sdc.registry import unknown
from dae_sdc.run.target import ProblemLike, copied, problem_name, resolve
from dae_sdc.sweepers.collocation import check_quadrature, determines_multiplier, expected_orders
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.parallel import DIAGONAL, WAYS, SweeperDAEMPI, across_nodes, serial_form
from dae_sdc.sweepers.sdc import BACKENDS, RESIDUAL_TYPES, SWEEPERS, SpectralDeferredCorrectionDAE

SweeperLike = str | type[Any]

RESTOL = 1e-10
MAXITER = 60
EXACT_STEPS = 1e-9  # Largest distance, in steps, of t_end from a whole number of them; else dt is refused.


@dataclass(frozen=True)
class Setup:
    """Problem, sweeper and settings of one run."""

    problem: ProblemDAE  # An instance for names, times and exact values; the run makes its own.
    label: Mapping[str, Any]  # Identifies the run in a table: problem, sweeper, quad, nodes, qdelta.
    description: Mapping[str, Any] = field(repr=False)  # For a pySDC controller, without the step size.
    adaptive: bool  # Whether the user gave convergence controllers, which may change the step size.
    sweeper_class: type[Any] = field(repr=False)  # That of the finest level.
    has_coarse_level: bool = field(repr=False)  # Whether there is a second level.
    parallel: str | None = None  # What ranks share: "nodes", "steps" or "both"; None in a serial run.

    def iterates_alone(self, steps: int | None) -> bool:
        """Whether steps are taken one at a time on one level, where ``steps`` iterate together."""
        return steps in (None, 1) and not self.has_coarse_level and self.parallel not in ("steps", "both")

    def require_alone(self, steps: int | None, what: str, out: str, adaptive: bool = True) -> None:
        """Refuse what is done in runs of one step at a time, which may be ``adaptive`` or not, in others."""
        if not self.iterates_alone(steps) or (self.adaptive and not adaptive):
            raise InputError(
                f"{what} in runs of one step at a time on one level; leave steps, coarse_nodes, "
                f"parallel='steps' and {out}"
            )

    def with_parts(self, **parts: Mapping[Any, Any]) -> Setup:
        """The setup with entries in sections of its description added, or removed where they are None."""
        description = dict(self.description)
        for section, entries in parts.items():
            joined = {**description[section], **entries}.items()
            description[section] = {name: x for name, x in joined if entries.get(name, 0) is not None}
        return replace(self, description=description)

    def with_step(self, dt: float) -> dict[str, Any]:
        """A copy of the description with step size ``dt``; a copy, because pySDC changes its argument."""
        parts = {k: dict(v) if isinstance(v, dict) else v for k, v in self.description.items()}
        parts["level_params"]["dt"] = dt
        return parts

    def expected(self) -> dict[str, float]:
        """Order in dt of each component group by theory; NaN where theory gives none."""
        index, label, cls = self.problem.index, self.label, self.sweeper_class
        if issubclass(cls, DirectMethod):
            orders = cls.method.orders.get(index or 0, ())
        else:
            orders = expected_orders(label["quad"], label["nodes"], index, cls.integrates_algebraic)
        groups = self.problem.groups
        known = dict(zip(groups, orders, strict=False))
        if len(orders) == 2 and len(groups) > 2:
            # Below index 3 there are two groups, differential and algebraic unknowns.
            known = {group: orders[part.stop > self.problem.n_diff] for group, part in groups.items()}
        return {group: float(known.get(group) or np.nan) for group in groups}


def poor_choice(setup: Setup) -> str:
    """A warning of a valid setup that gives poor results; empty otherwise."""
    label, sweeper = setup.label, setup.sweeper_class
    if (setup.problem.index or 0) < 3 or issubclass(sweeper, DirectMethod):
        return ""
    if determines_multiplier(label["quad"], label["nodes"], sweeper.integrates_algebraic):
        return ""
    return (
        f"the multiplier of an index-3 problem does not converge with {label['nodes']} {label['quad']} nodes "
        f"and '{label['sweeper']}', however small dt; use RADAU-RIGHT nodes"
    )


@dataclass(frozen=True)
class EquationOptions(Parameters):
    """Options that say which equations are solved."""

    problem: ProblemLike = field(
        metadata=equations(
            "A class or instance of a problem, a model, and functions F(t, u, du) or f(t, u) are taken too.",
            "str, type, ProblemDAE, Model or callable",
        )
    )


@dataclass(frozen=True)
class SetupOptions(Sharing, Multistep, Solves, Sweeps, EquationOptions, Method):
    """Options of :func:`describe`."""


# The bases of records stand in the order of the signature, from the last to the first.
@dataclass(frozen=True)
class Numerics(Observation, Multistep, Solves, Sweeps):
    """Options of how the steps of a run are solved and watched."""


@dataclass(frozen=True)
class Course(Preparation, ConsistentStart, Start, Steps):
    """Options of how a run begins and how it takes its steps."""


@dataclass(frozen=True)
class RunOptions(Saving, Parallel, Numerics, Parameters, Output, Values, Times, Course, End, Method):
    """Options of a run, without its equations."""


@dataclass(frozen=True)
class SolveOptions(RunOptions, SetupOptions):
    """Options of :func:`dae_sdc.run.solve.solve`."""


@takes(SetupOptions)
def describe(options: SetupOptions) -> Setup:
    """The setup of a run: problem, sweeper, and the description for pySDC's controllers.

    {options}

    Returns
    -------
    Setup
        Its ``description`` lacks the step size, see :meth:`Setup.with_step`.

    Raises
    ------
    InputError
        For unknown names, and for options that have no effect on the chosen sweeper.
    """
    params = {**(options.params or {}), **options.chosen(Solves, without=("convergence_controllers",))}
    target = resolve(options.problem)
    by_class = isinstance(target.problem, type)
    return setup_of(options, target.make_problem(params), params if by_class else None)


def setup_of(options: SetupOptions, instance: ProblemDAE, arguments: Mapping[str, Any] | None) -> Setup:
    """The setup of a run of a problem, which is copied for each level, or made by its class of arguments."""
    for controller, own in (options.convergence_controllers or {}).items():
        if not (isinstance(controller, type) and isinstance(own, Mapping)):
            raise InputError(
                f"convergence_controllers maps classes to mappings of parameters; got {controller!r}: {own!r}"
            )
    sweeper = "fully-implicit" if options.sweeper is None else options.sweeper
    cls = SWEEPERS[sweeper] if isinstance(sweeper, str) else sweeper
    if not (isinstance(cls, type) and issubclass(cls, DirectMethod | SpectralDeferredCorrectionDAE)):
        raise InputError(f"a sweeper is a name or a class of dae_sdc; got {sweeper!r}")
    name = sweeper if isinstance(sweeper, str) else SWEEPERS.name_of(cls) or cls.__name__
    parallel = options.parallel
    if parallel is not None and parallel not in WAYS:
        raise InputError(unknown("way to run in parallel", parallel, WAYS))
    if issubclass(cls, SweeperDAEMPI):
        parallel = parallel or "nodes"
    if parallel in ("nodes", "both") and not issubclass(cls, DirectMethod):
        cls = across_nodes(cls)
    direct = issubclass(cls, DirectMethod)
    multistep, taken = options.chosen(Multistep), cls.options if direct else ()
    if strange := [option for option in multistep if option not in taken]:
        raise InputError(f"these options have no effect on '{name}': {', '.join(strange)}")
    if direct:
        _check_direct(options, cls, name, parallel)
        cls.check_problem(instance)
        label = {"quad": "", "nodes": cls.method.stages, "qdelta": ""}
        parts: dict[str, Any] = {"sweeper_params": multistep}
        parts |= {"level_params": {"restol": -1.0}, "step_params": {"maxiter": 1}}
    else:
        label, parts = _of_sweeps(options, DIAGONAL if parallel in ("nodes", "both") else "LU")
    description: dict[str, Any] = {
        "problem_class": functools.partial(copied, instance) if arguments is None else type(instance),
        **{"problem_params": dict(arguments or {}), "sweeper_class": cls, **parts},
        "convergence_controllers": {k: dict(v) for k, v in (options.convergence_controllers or {}).items()},
    }
    if options.coarse_nodes is not None:
        _add_coarse_level(description, instance, options)
    elif not direct and options.chosen(Sweeps).keys() & {"coarse_qdelta", "coarsen", "match_sweep"}:
        raise InputError("coarse_qdelta, coarsen and match_sweep belong to a coarse level; give coarse_nodes")
    if not direct:
        description["convergence_controllers"].setdefault(StopAtRoundOff, {})
    called = problem_name(instance if arguments is None else type(instance))
    label = {"problem": called, "sweeper": name, **label}
    adaptive, coarse = bool(options.convergence_controllers), options.coarse_nodes is not None
    return Setup(instance, label, description, adaptive, cls, coarse, parallel)


def _check_direct(options: SetupOptions, cls: type[Any], name: str, parallel: str | None) -> None:
    """Refuse options that have no effect on a method without sweeps."""
    if idle := options.chosen(Method, Sweeps, without=("sweeper",)):
        raise InputError(f"these options have no effect on the {cls.family} '{name}': {', '.join(idle)}")
    if parallel is not None and not (parallel == "nodes" and cls.shares_stages()):
        raise InputError(
            f"the {cls.family} '{name}' has nothing that ranks could share; use an SDC sweeper "
            f"with --parallel"
        )


def _of_sweeps(options: SetupOptions, preconditioner: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Label and description entries of an SDC sweeper."""
    chosen: dict[str, Any] = {"quad": "RADAU-RIGHT", "nodes": 3, "qdelta": preconditioner, "restol": RESTOL}
    chosen |= {"residual_type": "full_abs", "maxiter": MAXITER, **options.chosen(Method, Sweeps)}
    label = {name: chosen[name] for name in ("quad", "nodes", "qdelta")}
    check_quadrature(label["quad"], label["nodes"])
    for name, known in (("backend", BACKENDS), ("residual_type", RESIDUAL_TYPES)):
        value = getattr(options, name)
        if value is not None and value not in known:
            raise InputError(unknown(name, value, known))
    sweeper = {"num_nodes": label["nodes"], "quad_type": label["quad"], "QI": label["qdelta"]}
    own = {"initial_guess": options.initial_guess, "random_seed": options.seed, "backend": options.backend}
    sweeper |= {name: value for name, value in own.items() if value is not None}
    level: dict[str, Any] = {"restol": float(chosen["restol"]), "nsweeps": chosen.get("nsweeps", 1)}
    level["residual_type"] = chosen["residual_type"]
    most = {"maxiter": chosen["maxiter"]}
    return label, {"sweeper_params": sweeper, "level_params": level, "step_params": most}


def _add_coarse_level(description: dict[str, Any], problem: ProblemDAE, options: SetupOptions) -> None:
    """Turn the entries of a description into lists for a fine and a coarse level."""
    nodes, qdelta = options.coarse_nodes, "LU" if options.coarse_qdelta is None else options.coarse_qdelta
    fine, match_sweep = description["sweeper_class"], options.match_sweep
    sweeper, levels = description["sweeper_params"], description["level_params"]
    if match_sweep is None:
        high = problem.index is None or problem.index >= 2
        match_sweep = high and not fine.integrates_algebraic and sweeper["quad_type"] == "RADAU-RIGHT"
    sweeper.update(num_nodes=[sweeper["num_nodes"], nodes], QI=[sweeper["QI"], qdelta])
    # The residual of a coarse level is not used.
    sweeper["skip_residual_computation"] = [(), ("IT_DOWN", "IT_COARSE", "IT_UP")]
    levels["nsweeps"] = [levels["nsweeps"], 1]
    # Each rank computes the whole coarse level, whose sweeps are serial: it has fewer nodes.
    description["sweeper_class"] = [fine, serial_form(fine)]
    description["base_transfer_class"] = TransferDAE
    description["base_transfer_params"] = {"match_sweep": match_sweep}
    description["space_transfer_class"] = SameUnknowns
    if options.coarsen:
        transfer = getattr(problem, "space_transfer", None)
        if transfer is None or not hasattr(problem, "coarse_params"):
            raise InputError(
                f"{problem.name} offers no coarser unknowns (coarse_params and space_transfer); "
                f"leave coarsen out"
            )
        if not isinstance(description["problem_class"], type):
            raise InputError("to coarsen the unknowns, give the problem by its name or class")
        description["space_transfer_class"] = transfer
        for name, value in problem.coarse_params().items():
            description["problem_params"][name] = [getattr(problem, name), value]


SHORTEST_INTERVAL = 1e-150  # Smallest length of an interval, for which squares of rates are finite.


def check_interval(t0: float, t_end: float) -> None:
    """Raise InputError unless ``t0`` < ``t_end``, both finite and not too close."""
    if not (isfinite(t0) and isfinite(t_end) and t_end > t0):
        raise InputError(f"need t_end > t0, both finite; got t0={t0:g}, t_end={t_end:g}")
    if t_end - t0 < SHORTEST_INTERVAL:
        raise InputError(
            f"t_end={t_end:g} is less than {SHORTEST_INTERVAL:g} after t0={t0:g}: use another time unit"
        )


def interval_of(problem: ProblemDAE, t0: float | None, t_end: float | None) -> tuple[float, float]:
    """Start and end of a run, those of the problem where none are given; raises as :func:`check_interval`."""
    start, end = problem.interval
    start = start if t0 is None else require_number("t0", t0)
    end = end if t_end is None else require_number("t_end", t_end)
    check_interval(start, end)
    return start, end


def number_of_steps(t0: float, t_end: float, dt: float) -> int:
    """Number of steps of size ``dt`` from ``t0`` to ``t_end``."""
    if not (np.isfinite([t0, t_end, dt]).all() and dt > 0.0 and t_end > t0):
        raise InputError(f"need t_end > t0 and dt > 0, all finite; got t0={t0:g}, t_end={t_end:g}, dt={dt:g}")
    if t0 + dt == t0 or t_end - dt == t_end:
        raise InputError(
            f"dt={dt:g} is lost in the rounding of times near {max(abs(t0), abs(t_end)):g}; enlarge dt"
        )
    length = t_end - t0
    steps = length / dt
    whole = round(steps)
    if whole > LARGEST_COUNT:
        raise InputError(
            f"dt={dt:g} takes {steps:.3g} steps from {t0:g} to {t_end:g}, at most {LARGEST_COUNT:g} can be "
            f"taken; enlarge dt"
        )
    if whole < 1 or abs(steps - whole) > EXACT_STEPS * max(1.0, steps):
        fewer, more = max(1, int(np.floor(steps))), int(np.ceil(steps))
        choices = " or ".join(f"dt={length / k:.12g} ({k} steps)" for k in sorted({fewer, more}))
        raise InputError(
            f"dt={dt:g} does not divide the time from {t0:g} to {t_end:g}: {steps:.6g} steps; use {choices}"
        )
    return whole
