"""From what a user says to what pySDC's controllers take: the description dictionary and the time steps."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, cast
from weakref import WeakKeyDictionary

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.control.stagnation import StopAtRoundOff
from dae_sdc.control.transfer import SameUnknowns, TransferDAE
from dae_sdc.dae.declaration import check_newton
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import MeshDAE
from dae_sdc.errors import LARGEST_COUNT, InputError, require_count, require_tolerance
from dae_sdc.problems._models import MODELS
from dae_sdc.registry import unknown
from dae_sdc.run.models import is_file
from dae_sdc.sharing import one_at_a_time
from dae_sdc.sweepers.collocation import check_quadrature, determines_multiplier, expected_orders
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.parallel import DIAGONAL, WAYS, SweeperDAEMPI, across_nodes, serial_form
from dae_sdc.sweepers.sdc import BACKENDS, RESIDUAL_TYPES, SWEEPERS, SpectralDeferredCorrectionDAE

if TYPE_CHECKING:
    from dae_sdc.model.model import Model


class ModelLike(Protocol):
    """Equations that become a problem, as a :class:`dae_sdc.model.model.Model` does."""

    def problem(self, **settings: Any) -> ProblemDAE:
        """The problem, with values of parameters and settings of its nonlinear solves."""


ProblemLike = str | type[ProblemDAE] | ProblemDAE | ModelLike
SweeperLike = str | type[Any]

_PARAMETERS: WeakKeyDictionary[Any, Mapping[str, inspect.Parameter]] = WeakKeyDictionary()
_STRUCTURES: WeakKeyDictionary[Any, tuple[int, Any]] = WeakKeyDictionary()

RESTOL = 1e-10
MAXITER = 60
MOST_SWEEPS = 100_000
"""Largest number of iterations of a step, and of sweeps in an iteration, that may be allowed."""

EXACT_STEPS = 1e-9
"""How far, in steps, t_end may be from a whole number of steps before dt is refused."""


@dataclass(frozen=True)
class Setup:
    """Everything one run needs.

    Parameters
    ----------
    problem : ProblemDAE
        An instance to ask for names, times and exact values; the run makes its own.
    label : dict
        What identifies the run in a table: problem, sweeper, quad, nodes, qdelta.
    description : dict
        For a pySDC controller, without the step size.
    adaptive : bool
        Whether convergence controllers were given that may change the step size.
    parallel : str or None
        What ranks share: nodes, steps or both.
    """

    problem: ProblemDAE
    label: Mapping[str, Any]
    description: Mapping[str, Any] = field(repr=False)
    adaptive: bool
    parallel: str | None = None

    @property
    def sweeper_class(self) -> type[Any]:
        """The sweeper, of the finest level."""
        given = self.description["sweeper_class"]
        cls: type[Any] = given[0] if isinstance(given, list) else given
        return cls

    @property
    def most_sweeps(self) -> int:
        """Iterations a step may take, with the sweeps that belong to its prediction."""
        initial = self.description["sweeper_params"].get("initial_sweeps", 0)
        return int(self.description["step_params"]["maxiter"] + initial)

    def with_step(self, dt: float) -> dict[str, Any]:
        """A description of its own for a controller with step size ``dt``; pySDC changes what it is given."""
        parts = {k: dict(v) if isinstance(v, dict) else v for k, v in self.description.items()}
        parts["level_params"]["dt"] = dt
        return parts

    def expected(self) -> dict[str, float]:
        """Order in dt that theory gives each component group, NaN where it gives none."""
        index = self.problem.index
        if issubclass(self.sweeper_class, DirectMethod):
            orders = self.sweeper_class.method.orders.get(index or 0, ())
        else:
            orders = expected_orders(
                self.label["quad"], self.label["nodes"], index, self.sweeper_class.integrates_algebraic
            )
        groups = self.problem.groups
        known = dict(zip(groups, orders, strict=False))
        if len(orders) == 2 and len(groups) > 2:
            # Below index 3 positions and velocities are alike.
            known = {group: orders[part.stop > self.problem.n_diff] for group, part in groups.items()}
        return {group: float(known.get(group) or np.nan) for group in groups}


def poor_choice(setup: Setup) -> str:
    """What is known to give poor results in a setup that is allowed; empty if nothing is."""
    label, sweeper = setup.label, setup.sweeper_class
    if (setup.problem.index or 0) < 3 or issubclass(sweeper, DirectMethod):
        return ""
    if determines_multiplier(label["quad"], label["nodes"], sweeper.integrates_algebraic):
        return ""
    return (
        f"the multiplier of an index-3 problem does not converge with {label['nodes']} {label['quad']} nodes "
        f"and '{label['sweeper']}', however small dt; use RADAU-RIGHT nodes"
    )


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function or constructor, which take a while to find out."""
    known = _PARAMETERS.get(function)
    if known is None:
        known = _PARAMETERS[function] = inspect.signature(function).parameters
    return known


def is_model(problem: object) -> TypeGuard[ModelLike]:
    """Whether equations were given, from which a problem is to be made."""
    return not isinstance(problem, str | type | ProblemDAE) and callable(getattr(problem, "problem", None))


@functools.lru_cache(maxsize=16)
def _model(name: str) -> Model:
    from dae_sdc.run.models import make_model

    return make_model(name)


def named(problem: ProblemLike) -> ProblemLike:
    """The model that a name stands for where it is none of a problem, everything else as it is."""
    if not isinstance(problem, str) or problem in PROBLEMS:
        return problem
    return _model(problem) if problem in MODELS or is_file(problem) else problem


def make_problem(problem: ProblemLike, params: Mapping[str, Any] | None = None) -> ProblemDAE:
    """An instance of a problem given by name, class, instance or model.

    Parameters
    ----------
    problem : str, type, ProblemDAE or Model
        Name in the library, of a problem or a model, class, instance (of which a copy is made), or model.
    params : mapping, optional
        Arguments of the constructor, or parameters of the model.

    Raises
    ------
    InputError
        For an unknown name, or arguments the constructor does not have.
    """
    given = dict(params or {})
    problem = named(problem)
    if is_model(problem):
        return _problem_of(problem, given)
    if isinstance(problem, ProblemDAE):
        settable = ("newton_tol", "newton_maxiter", "linear_solver")
        unsettable = [name for name in given if name not in settable]
        if unsettable:
            raise InputError(
                f"{type(problem).__name__} is already made; set {', '.join(unsettable)} when you make it"
            )
        try:
            own = copy.deepcopy(cast(ProblemDAE, problem))
        except Exception as error:
            raise InputError(
                f"{type(problem).__name__} cannot be copied for a run ({type(error).__name__}: {error}); let "
                f"its class keep what cannot be copied, or give the class"
            ) from error
        for name, value in given.items():
            setattr(own, name, value)
        check_newton(own.newton_tol, own.newton_maxiter, own.linear_solver)
        own.check_properties()
        return own
    cls: Any = PROBLEMS[problem] if isinstance(problem, str) else problem
    if not (isinstance(cls, type) and issubclass(cls, ProblemDAE)):
        raise InputError(
            f"a problem is a name, a ProblemDAE class or an instance of one, or a Model; got {problem!r}"
        )
    accepted: Mapping[str, inspect.Parameter] = parameters_of(cls)
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values())
    if open_ended:
        own_names = ("n_diff", "n_alg")  # given by the problem to its base, not by the user
        base = parameters_of(ProblemDAE)
        accepted = {**accepted, **{name: p for name, p in base.items() if name not in own_names}}
        if issubclass(cls, QuasilinearProblem):
            accepted["formulation"] = parameters_of(QuasilinearProblem)["formulation"]
    strange = [name for name in given if name not in accepted]
    if strange:
        known = [name for name in accepted if name not in ("settings", "n_diff", "n_alg")]
        raise InputError(f"{cls.__name__} has no parameter {', '.join(strange)}; it has {', '.join(known)}")
    made: ProblemDAE = cls(**given)
    made.check_properties()
    return made


@one_at_a_time
def _problem_of(model: ModelLike, given: Mapping[str, Any]) -> ProblemDAE:
    """The problem of a model, with its index where the structure of the equations tells it."""
    if not hasattr(model, "signature"):
        return model.problem(**given)
    known = _STRUCTURES.get(model)
    size = len(getattr(model, "equation_names", ()))
    if known is None or known[0] != size:
        from dae_sdc.structure.analysis import structure

        known = _STRUCTURES[model] = size, structure(cast(Any, model))
    found: Any = known[1]
    own = model.problem(**given)
    use_offsets = getattr(own, "use_offsets", None)
    if own.index is None and found.regular and use_offsets is not None:
        index = found.differentiation_index
        use_offsets(found.c, found.d, found.index if index is None else index)
    return own


def problem_name(problem: ProblemLike) -> str:
    """Name under which a problem appears in tables."""
    if isinstance(problem, str):
        return problem
    model_name: str | None = getattr(problem, "model_name", None)
    if model_name is not None:
        return model_name
    cls = problem if isinstance(problem, type) else type(problem)
    return next((name for name, entry in PROBLEMS.items() if entry is cls), cls.__name__)


@checked()
def describe(
    problem: ProblemLike,
    *,
    sweeper: SweeperLike = "fully-implicit",
    nodes: int | None = None,
    quad: str | None = None,
    qdelta: str | None = None,
    restol: float | None = None,
    newton_tol: float | None = None,
    linear_solver: str | None = None,
    maxiter: int | None = None,
    nsweeps: int | None = None,
    initial_guess: str | None = None,
    residual_type: str | None = None,
    backend: str | None = None,
    seed: int | None = None,
    parallel: str | None = None,
    coarse_nodes: int | None = None,
    coarse_qdelta: str | None = None,
    coarsen: bool = False,
    match_sweep: bool | None = None,
    corrector: str | None = None,
    start: str | None = None,
    problem_params: Mapping[str, Any] | None = None,
    convergence_controllers: Mapping[type[Any], Mapping[str, Any]] | None = None,
) -> Setup:
    """The setup of a run.

    Parameters
    ----------
    problem : str, type, ProblemDAE or Model
        Name in the library, class, instance or model.
    sweeper : str or type
        Name or class of a sweeper.
    nodes, quad, qdelta, initial_guess : optional
        Number of collocation nodes (3), quadrature type (RADAU-RIGHT), Q_Delta (LU) and predictor
        (extrapolate).
    restol, residual_type, maxiter, nsweeps : optional
        Residual tolerance (1e-10; not positive: always ``maxiter`` iterations), how it is measured
        (full_abs), largest number of iterations (60), sweeps in an iteration (1).
    newton_tol : float, optional
        Tolerance of the nonlinear solves; the problem's own if None.
    linear_solver : str, optional
        How linear systems are solved, see :class:`ProblemDAE`; the problem's own if None.
    backend : str, optional
        "compiled" does the sweeps of a problem with kernels in compiled code, "numpy" in Python; compiled
        where that is possible if not given.
    seed : int, optional
        Seed of the random initial guess.
    parallel : str, optional
        What ranks share: nodes, steps or both. Where they share nodes, Q_Delta must be diagonal, and is
        MIN-SR-S if none is given.
    coarse_nodes : int, optional
        Number of nodes of a second, coarse level: MLSDC, and PFASST where several steps iterate together.
    coarse_qdelta : str, optional
        Q_Delta of the coarse level (LU), where all ranks that share nodes compute the same.
    coarsen : bool
        Coarsen the unknowns too, for a problem that offers ``coarse_params`` and ``space_transfer``.
    match_sweep : bool, optional
        Fit sweep and coarse correction to each other, see
        :class:`dae_sdc.control.transfer.TransferDAE`. If not given, from index 2 on with sweepers that
        integrate only the differential unknowns on RADAU-RIGHT nodes, where it pays.
    corrector, start : str, optional
        Of multistep methods alone: how implicit equations are solved ("newton" or "fixed-point"), and what
        gives the values before the first step ("collocation" or "explicit-euler").
    problem_params, convergence_controllers : mapping, optional
        Arguments of the problem; pySDC's convergence controllers and their parameters.

    Raises
    ------
    InputError
        For unknown names, and for options that have no effect on the chosen sweeper.
    """
    check_mapping("problem_params", problem_params)
    check_mapping("convergence_controllers", convergence_controllers)
    for controller, own in (convergence_controllers or {}).items():
        if not (isinstance(controller, type) and isinstance(own, Mapping)):
            raise InputError(
                f"convergence_controllers maps classes to mappings of parameters; got {controller!r}: {own!r}"
            )
    own_params = dict(problem_params or {})
    if newton_tol is not None:
        own_params["newton_tol"] = newton_tol
    if linear_solver is not None:
        own_params["linear_solver"] = linear_solver
    problem = named(problem)
    if is_model(problem):
        problem, own_params = make_problem(problem, own_params), {}
    instance = make_problem(problem, own_params)
    cls = SWEEPERS[sweeper] if isinstance(sweeper, str) else sweeper
    if not isinstance(cls, type):
        raise InputError(f"a sweeper is a name or a class of dae_sdc; got {sweeper!r}")
    name = sweeper if isinstance(sweeper, str) else _sweeper_name(cls)
    if parallel is not None and parallel not in WAYS:
        raise InputError(unknown("way to run in parallel", parallel, WAYS))
    if issubclass(cls, SweeperDAEMPI):
        parallel = parallel or "nodes"
    sweeps = {
        "nodes": nodes,
        "quad": quad,
        "qdelta": qdelta,
        "restol": restol,
        "maxiter": maxiter,
        "nsweeps": nsweeps,
        "initial_guess": initial_guess,
        "residual_type": residual_type,
        "backend": backend,
        "seed": seed,
        "coarse_nodes": coarse_nodes,
        "coarse_qdelta": coarse_qdelta,
        "coarsen": coarsen or None,
        "match_sweep": match_sweep,
    }
    direct = issubclass(cls, DirectMethod)
    own_options = {"corrector": corrector, "start": start}
    own_settings = {option: value for option, value in own_options.items() if value is not None}
    taken: tuple[str, ...] = cls.options if issubclass(cls, DirectMethod) else ()
    strange = [option for option in own_settings if option not in taken]
    if strange:
        raise InputError(f"these options have no effect on '{name}': {', '.join(strange)}")
    if direct:
        idle = [option for option, value in sweeps.items() if value is not None]
        if idle:
            raise InputError(f"these options have no effect on the {cls.family} '{name}': {', '.join(idle)}")
        if parallel is not None:
            raise InputError(
                f"the {cls.family} '{name}' has nothing that ranks could share; use an SDC sweeper "
                f"with --parallel"
            )
        cls.check_problem(instance)
        label = {"quad": "", "nodes": cls.method.stages, "qdelta": ""}
        sweeper_params: dict[str, Any] = own_settings
        level_params: dict[str, Any] = {"restol": -1.0}
        maxiter = 1
    elif isinstance(cls, type) and issubclass(cls, SpectralDeferredCorrectionDAE):
        if parallel in ("nodes", "both"):
            cls, default = across_nodes(cls), DIAGONAL
        else:
            default = "LU"
        label = {
            "quad": "RADAU-RIGHT" if quad is None else quad,
            "nodes": 3 if nodes is None else nodes,
            "qdelta": default if qdelta is None else qdelta,
        }
        check_quadrature(label["quad"], label["nodes"])
        sweeper_params = {"num_nodes": label["nodes"], "quad_type": label["quad"], "QI": label["qdelta"]}
        if initial_guess is not None:
            sweeper_params["initial_guess"] = initial_guess
        if seed is not None:
            sweeper_params["random_seed"] = seed
        if backend is not None:
            if backend not in BACKENDS:
                raise InputError(unknown("backend", backend, BACKENDS))
            sweeper_params["backend"] = backend
        level_params = {
            "restol": RESTOL if restol is None else restol,
            "nsweeps": 1 if nsweeps is None else nsweeps,
            "residual_type": "full_abs" if residual_type is None else residual_type,
        }
        maxiter = MAXITER if maxiter is None else maxiter
        require_count("maxiter", maxiter, MOST_SWEEPS)
        require_count("nsweeps", level_params["nsweeps"], MOST_SWEEPS)
        level_params["restol"] = require_tolerance("restol", level_params["restol"])
        if level_params["residual_type"] not in RESIDUAL_TYPES:
            raise InputError(unknown("residual_type", level_params["residual_type"], RESIDUAL_TYPES))
        if seed is not None and not (isinstance(seed, int) and 0 <= seed < 2**32):
            raise InputError(f"seed must be an integer from 0 to {2**32 - 1}; got {seed!r}")
    else:
        raise InputError(f"a sweeper is a name or a class of dae_sdc; got {sweeper!r}")
    given = isinstance(problem, ProblemDAE)
    description: dict[str, Any] = {
        "problem_class": functools.partial(make_problem, problem) if given else type(instance),
        "problem_params": {"params": own_params} if given else own_params,
        "sweeper_class": cls,
        "sweeper_params": sweeper_params,
        "level_params": level_params,
        "step_params": {"maxiter": maxiter},
        "convergence_controllers": {k: dict(v) for k, v in (convergence_controllers or {}).items()},
    }
    if coarse_nodes is not None:
        if match_sweep is None:
            high = instance.index is None or instance.index >= 2
            match_sweep = high and not cls.integrates_algebraic and label["quad"] == "RADAU-RIGHT"
        coarse = "LU" if coarse_qdelta is None else coarse_qdelta
        _add_coarse_level(description, instance, coarse_nodes, coarse, coarsen, match_sweep)
    elif coarse_qdelta is not None or coarsen or match_sweep is not None:
        raise InputError("coarse_qdelta, coarsen and match_sweep belong to a coarse level; give coarse_nodes")
    adaptive = bool(convergence_controllers)
    if not direct:
        description["convergence_controllers"].setdefault(StopAtRoundOff, {})
    label = {"problem": problem_name(problem), "sweeper": name, **label}
    return Setup(instance, label, description, adaptive, parallel)


def _add_coarse_level(
    description: dict[str, Any],
    problem: ProblemDAE,
    nodes: int,
    qdelta: str,
    coarsen: bool,
    match_sweep: bool,
) -> None:
    """Turn the entries of a description into pairs, fine and coarse."""
    fine = description["sweeper_class"]
    sweeper, levels = description["sweeper_params"], description["level_params"]
    sweeper.update(num_nodes=[sweeper["num_nodes"], nodes], QI=[sweeper["QI"], qdelta])
    # Nobody looks at the residual of a coarse level.
    sweeper["skip_residual_computation"] = [(), ("IT_DOWN", "IT_COARSE", "IT_UP")]
    levels["nsweeps"] = [levels["nsweeps"], 1]
    # Each rank computes the coarse level for itself: it has fewer nodes, and its sweeps are not parallel.
    description["sweeper_class"] = [fine, serial_form(fine)]
    description["base_transfer_class"] = TransferDAE
    description["base_transfer_params"] = {"match_sweep": match_sweep}
    description["space_transfer_class"] = SameUnknowns
    if coarsen:
        transfer = getattr(problem, "space_transfer", None)
        if transfer is None or not hasattr(problem, "coarse_params"):
            raise InputError(
                f"{type(problem).__name__} offers no coarser unknowns (coarse_params and space_transfer); "
                f"leave coarsen out"
            )
        if not isinstance(description["problem_class"], type):
            raise InputError("to coarsen the unknowns, give the problem by its name or class")
        description["space_transfer_class"] = transfer
        for name, value in problem.coarse_params().items():
            description["problem_params"][name] = [getattr(problem, name), value]


def check_mapping(name: str, value: object) -> None:
    """Refuse what is given for parameters by name and is no mapping."""
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"{name} must map names to values; got {value!r}")


def _sweeper_name(cls: type[Any]) -> str:
    return next((name for name, entry in SWEEPERS.items() if entry is cls), cls.__name__)


SHORTEST = 1e-150
"""Length of an interval from which on squares of rates are finite."""


def check_interval(t0: float, t_end: float) -> None:
    """Raise InputError unless ``t0`` and ``t_end`` are the ends of an interval."""
    if not (np.isfinite([t0, t_end]).all() and t_end > t0):
        raise InputError(f"need t_end > t0, both finite; got t0={t0:g}, t_end={t_end:g}")
    if t_end - t0 < SHORTEST:
        raise InputError(f"t_end={t_end:g} is less than {SHORTEST:g} after t0={t0:g}: use another time unit")


def number_of_steps(t0: float, t_end: float, dt: float) -> int:
    """How many steps of size ``dt`` lead from ``t0`` to ``t_end``.

    Raises
    ------
    InputError
        If that is not a whole number, with the nearest step sizes that are.
    """
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


def initial_state(problem: ProblemDAE, u0: Any, t0: float) -> MeshDAE:
    """The start value: ``u0`` if given, otherwise the problem's own; raises InputError on a wrong shape."""
    state = problem.state(problem.u_exact(t0) if u0 is None else u0)
    bad = np.flatnonzero(~np.isfinite(state.view(np.ndarray)))
    if bad.size:
        raise InputError(
            f"u0 of {type(problem).__name__} is {state[bad[0]]} in '{problem.names[bad[0]]}' at t={t0:.6g}; "
            f"pass finite values"
        )
    return state
