"""Differential-algebraic equations by spectral deferred corrections, parallel in time, inside pySDC.

Everything public can be taken from here: ``import dae_sdc as ds``, then ``ds.solve``, ``ds.ProblemDAE``,
``ds.FullyImplicitDAE``, and every problem of the library by its class, ``ds.SimpleDAE``. What a name stands
for is imported when the name is first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import pkgutil
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dae_sdc.imports import defer_mpi, launched, take_over

if TYPE_CHECKING:  # for type checkers and editors, which do not run __getattr__; _HOME is made of it
    from dae_sdc.constrained.equations import (
        ImplicitDAE as ImplicitDAE,
        NonholonomicProblem as NonholonomicProblem,
        QuasiFirstOrderProblem as QuasiFirstOrderProblem,
        QuasiLagrangeProblem as QuasiLagrangeProblem,
        QuasiSecondOrderProblem as QuasiSecondOrderProblem,
    )
    from dae_sdc.constrained.manifold import (
        MANIFOLD_METHODS as MANIFOLD_METHODS,
        ManifoldDAE as ManifoldDAE,
        ManifoldMethod as ManifoldMethod,
        manifold_method as manifold_method,
    )
    from dae_sdc.constrained.quasilinear import QuasilinearProblem as QuasilinearProblem
    from dae_sdc.control.driver import ShareBlock as ShareBlock, StopAtRoundOff as StopAtRoundOff
    from dae_sdc.control.events import Event as Event, EventRecord as EventRecord
    from dae_sdc.control.hooks import (
        CheckInitialValue as CheckInitialValue,
        LogGlobalErrorPostIterationAlgebraicVariable as LogGlobalErrorPostIterationAlgebraicVariable,
        LogGlobalErrorPostIterationDifferentialVariable as LogGlobalErrorPostIterationDifferentialVariable,
        LogGlobalErrorPostStepAlgebraicVariable as LogGlobalErrorPostStepAlgebraicVariable,
        LogGlobalErrorPostStepDifferentialVariable as LogGlobalErrorPostStepDifferentialVariable,
        LogSolution as LogSolution,
        LogSolutionAtNodes as LogSolutionAtNodes,
        LogWork as LogWork,
        MarkProvisionalStarts as MarkProvisionalStarts,
        RequireConvergence as RequireConvergence,
        StepRecord as StepRecord,
    )
    from dae_sdc.control.transfer import SameUnknowns as SameUnknowns, TransferDAE as TransferDAE
    from dae_sdc.dae.problem import PROBLEMS as PROBLEMS, ProblemDAE as ProblemDAE
    from dae_sdc.dae.state import MeshDAE as MeshDAE
    from dae_sdc.errors import (
        ConvergenceError as ConvergenceError,
        DAEError as DAEError,
        DAEWarning as DAEWarning,
        EvaluationError as EvaluationError,
        InconsistentStateError as InconsistentStateError,
        InputError as InputError,
        NewtonError as NewtonError,
        ReferenceRangeError as ReferenceRangeError,
        RemoteError as RemoteError,
        ResultFileError as ResultFileError,
        SingularMatrixError as SingularMatrixError,
        SolveError as SolveError,
        TimeLimitError as TimeLimitError,
    )
    from dae_sdc.frames.frame import Frame as Frame
    from dae_sdc.frames.response import (
        Deformation as Deformation,
        FrameResponse as FrameResponse,
        ParameterFunction as ParameterFunction,
    )
    from dae_sdc.initial.consistent import Initial as Initial
    from dae_sdc.linear.equilibrium import Steady as Steady
    from dae_sdc.linear.system import LinearSystem as LinearSystem
    from dae_sdc.model.functions import (
        FunctionProblem as FunctionProblem,
        MassMatrixProblem as MassMatrixProblem,
    )
    from dae_sdc.model.model import Model as Model
    from dae_sdc.model.problem import ModelProblem as ModelProblem
    from dae_sdc.model.simplified import Simplified as Simplified
    from dae_sdc.model.sympy_input import homotopy as homotopy
    from dae_sdc.model.tables import LookupTable as LookupTable
    from dae_sdc.modelica.fmu import write_fmu as write_fmu
    from dae_sdc.modelica.reader import (
        read_modelica as read_modelica,
        read_modelica_text as read_modelica_text,
    )
    from dae_sdc.modelica.writer import write_modelica as write_modelica
    from dae_sdc.plotting import plot as plot
    from dae_sdc.plotting.frames import draw_frame as draw_frame
    from dae_sdc.polynomials.homotopy import Roots as Roots, solve_polynomials as solve_polynomials
    from dae_sdc.polynomials.polynomials import PolynomialSystem as PolynomialSystem
    from dae_sdc.polynomials.singular_points import (
        SingularPoints as SingularPoints,
        singular_points as singular_points,
    )
    from dae_sdc.polynomials.witness import (
        Component as Component,
        Decomposition as Decomposition,
        decompose as decompose,
    )
    from dae_sdc.problems._models import MODELS as MODELS
    from dae_sdc.reduction.problem import ReducedProblem as ReducedProblem
    from dae_sdc.reduction.reduction import Reduction as Reduction
    from dae_sdc.reduction.symbolic_factors import SymbolicMatrix as SymbolicMatrix
    from dae_sdc.run import (
        accuracy as accuracy,
        convergence as convergence,
        drift as drift,
        info as info,
        initial as initial,
        iterations as iterations,
        pendulum_study as pendulum_study,
        playground as playground,
        reduce as reduce,
        simplify as simplify,
        solve as solve,
        structure as structure,
        sundials as sundials,
        sweep as sweep,
    )
    from dae_sdc.run.initial import record_paths as record_paths, solution_sets as solution_sets
    from dae_sdc.run.linearize import eigenvalues as eigenvalues, linearize as linearize
    from dae_sdc.run.results import Result as Result, load as load
    from dae_sdc.run.solution import Solution as Solution
    from dae_sdc.run.steady import steady_branch as steady_branch, steady_state as steady_state
    from dae_sdc.run.structure import repair as repair
    from dae_sdc.run.sweep_table import Sweep as Sweep
    from dae_sdc.run.target import trace as trace
    from dae_sdc.structure.analysis import Structure as Structure
    from dae_sdc.structure.partial import ranking as ranking
    from dae_sdc.structure.repair import Repair as Repair
    from dae_sdc.structure.signature import StructureError as StructureError
    from dae_sdc.sweepers.linear_multistep import MULTISTEP as MULTISTEP, MultistepMethod as MultistepMethod
    from dae_sdc.sweepers.multistep import MultistepDAE as MultistepDAE, multistep as multistep
    from dae_sdc.sweepers.parallel import (
        ConstrainedDAEMPI as ConstrainedDAEMPI,
        FullyImplicitDAEMPI as FullyImplicitDAEMPI,
        SemiImplicitDAEMPI as SemiImplicitDAEMPI,
        SweeperDAEMPI as SweeperDAEMPI,
        split_communicator as split_communicator,
    )
    from dae_sdc.sweepers.runge_kutta import (
        DIRK43_2DAE as DIRK43_2DAE,
        EDIRK4DAE as EDIRK4DAE,
        BackwardEulerDAE as BackwardEulerDAE,
        RungeKuttaDAE as RungeKuttaDAE,
        TrapezoidalRuleDAE as TrapezoidalRuleDAE,
        runge_kutta as runge_kutta,
    )
    from dae_sdc.sweepers.sdc import (
        SWEEPERS as SWEEPERS,
        ConstrainedDAE as ConstrainedDAE,
        FullyImplicitDAE as FullyImplicitDAE,
        SemiImplicitDAE as SemiImplicitDAE,
    )
    from dae_sdc.sweepers.tableaux import METHODS as METHODS, Tableau as Tableau

defer_mpi()  # before any room imports pySDC

__version__: str

_HOME = {
    name: home
    for home, names in re.findall(
        r"^    from (\S+) import (\([^)]*\)|.*)$",
        (pkgutil.get_data(__name__, "__init__.py") or b"").decode(),
        flags=re.MULTILINE,
    )
    for name in re.findall(r"(\w+) as \1\b", names)
}
"""The module of every public name, read from the imports above, which only type checkers run."""

__all__ = ["__version__", *_HOME]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dae_sdc")
    except PackageNotFoundError:  # a source tree that nobody installed
        return "0+unknown"


@functools.cache
def _rooms() -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(__path__))


def _find(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _rooms():
        return importlib.import_module(f"{__name__}.{name}")
    if not name.startswith("_"):  # special names are asked for by tools, and must not load the library
        problems = importlib.import_module("dae_sdc.problems")
        if name in dir(problems):
            return getattr(problems, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __getattr__(name: str) -> Any:
    globals()[name] = value = _find(name)  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_rooms()})


class _FrontDoor(ModuleType):
    """The package itself, in which a room does not take the place of a function of the same name."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in _HOME):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor


if launched() > 1:  # a rank that ends before its first run is waited for as well
    atexit.register(lambda: importlib.import_module(f"{__name__}.run.processes").leave())
take_over(lambda file: importlib.import_module(f"{__name__}.cli").run_script(file))
