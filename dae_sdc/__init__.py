"""Differential-algebraic equations by spectral deferred corrections, parallel in time, inside pySDC.

Everything public can be taken from here: ``import dae_sdc as ds``, then ``ds.solve``, ``ds.ProblemDAE``,
``ds.FullyImplicitDAE``, and every problem of the library by its class, ``ds.SimpleDAE``. What a name stands
for is imported when the name is first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dae_sdc.deferred import defer_mpi

if TYPE_CHECKING:  # what _HOME says, for type checkers and editors, which do not run __getattr__
    from dae_sdc.constrained.first_order import (
        ImplicitDAE as ImplicitDAE,
        QuasiFirstOrderProblem as QuasiFirstOrderProblem,
    )
    from dae_sdc.constrained.manifold import (
        MANIFOLD_METHODS as MANIFOLD_METHODS,
        ManifoldDAE as ManifoldDAE,
        ManifoldMethod as ManifoldMethod,
        manifold_method as manifold_method,
    )
    from dae_sdc.constrained.quasilinear import QuasilinearProblem as QuasilinearProblem
    from dae_sdc.constrained.second_order import (
        NonholonomicProblem as NonholonomicProblem,
        QuasiLagrangeProblem as QuasiLagrangeProblem,
        QuasiSecondOrderProblem as QuasiSecondOrderProblem,
    )
    from dae_sdc.control.blocks import ShareBlock as ShareBlock
    from dae_sdc.control.events import (
        Event as Event,
        EventRecord as EventRecord,
    )
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
    from dae_sdc.control.stagnation import StopAtRoundOff as StopAtRoundOff
    from dae_sdc.control.transfer import (
        SameUnknowns as SameUnknowns,
        TransferDAE as TransferDAE,
    )
    from dae_sdc.dae.problem import (
        PROBLEMS as PROBLEMS,
        ProblemDAE as ProblemDAE,
    )
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
    )
    from dae_sdc.initial.consistent import Initial as Initial
    from dae_sdc.model.model import Model as Model
    from dae_sdc.model.problem import ModelProblem as ModelProblem
    from dae_sdc.model.simplified import Simplified as Simplified
    from dae_sdc.modelica.reader import (
        read_modelica as read_modelica,
        read_modelica_text as read_modelica_text,
    )
    from dae_sdc.plotting import plot as plot
    from dae_sdc.polynomials.homotopy import (
        Roots as Roots,
        solve_polynomials as solve_polynomials,
    )
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
    )
    from dae_sdc.run.initial import solution_sets as solution_sets
    from dae_sdc.run.models import trace as trace
    from dae_sdc.run.results import (
        Result as Result,
        load as load,
    )
    from dae_sdc.run.solution import Solution as Solution
    from dae_sdc.run.structure import repair as repair
    from dae_sdc.structure.analysis import Structure as Structure
    from dae_sdc.structure.repair import Repair as Repair
    from dae_sdc.structure.signature import StructureError as StructureError
    from dae_sdc.sweepers.linear_multistep import (
        MULTISTEP as MULTISTEP,
        MultistepMethod as MultistepMethod,
    )
    from dae_sdc.sweepers.multistep import (
        MultistepDAE as MultistepDAE,
        multistep as multistep,
    )
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
    from dae_sdc.sweepers.tableaux import (
        METHODS as METHODS,
        Tableau as Tableau,
    )

defer_mpi()  # before any room imports pySDC

__version__: str

_HOME = {
    "ShareBlock": "dae_sdc.control.blocks",
    "Event": "dae_sdc.control.events",
    "EventRecord": "dae_sdc.control.events",
    "SameUnknowns": "dae_sdc.control.transfer",
    "TransferDAE": "dae_sdc.control.transfer",
    "CheckInitialValue": "dae_sdc.control.hooks",
    "LogGlobalErrorPostIterationAlgebraicVariable": "dae_sdc.control.hooks",
    "LogGlobalErrorPostIterationDifferentialVariable": "dae_sdc.control.hooks",
    "LogGlobalErrorPostStepAlgebraicVariable": "dae_sdc.control.hooks",
    "LogGlobalErrorPostStepDifferentialVariable": "dae_sdc.control.hooks",
    "LogSolution": "dae_sdc.control.hooks",
    "LogSolutionAtNodes": "dae_sdc.control.hooks",
    "LogWork": "dae_sdc.control.hooks",
    "MarkProvisionalStarts": "dae_sdc.control.hooks",
    "RequireConvergence": "dae_sdc.control.hooks",
    "StepRecord": "dae_sdc.control.hooks",
    "PROBLEMS": "dae_sdc.dae.problem",
    "MODELS": "dae_sdc.problems._models",
    "ProblemDAE": "dae_sdc.dae.problem",
    "ImplicitDAE": "dae_sdc.constrained.first_order",
    "NonholonomicProblem": "dae_sdc.constrained.second_order",
    "QuasiFirstOrderProblem": "dae_sdc.constrained.first_order",
    "QuasiLagrangeProblem": "dae_sdc.constrained.second_order",
    "QuasiSecondOrderProblem": "dae_sdc.constrained.second_order",
    "QuasilinearProblem": "dae_sdc.constrained.quasilinear",
    "MeshDAE": "dae_sdc.dae.state",
    "ConvergenceError": "dae_sdc.errors",
    "DAEError": "dae_sdc.errors",
    "DAEWarning": "dae_sdc.errors",
    "EvaluationError": "dae_sdc.errors",
    "InconsistentStateError": "dae_sdc.errors",
    "InputError": "dae_sdc.errors",
    "NewtonError": "dae_sdc.errors",
    "ReferenceRangeError": "dae_sdc.errors",
    "RemoteError": "dae_sdc.errors",
    "ResultFileError": "dae_sdc.errors",
    "SingularMatrixError": "dae_sdc.errors",
    "SolveError": "dae_sdc.errors",
    "plot": "dae_sdc.plotting",
    "accuracy": "dae_sdc.run",
    "convergence": "dae_sdc.run",
    "drift": "dae_sdc.run",
    "info": "dae_sdc.run",
    "iterations": "dae_sdc.run",
    "pendulum_study": "dae_sdc.run",
    "playground": "dae_sdc.run",
    "reduce": "dae_sdc.run",
    "simplify": "dae_sdc.run",
    "solve": "dae_sdc.run",
    "structure": "dae_sdc.run",
    "initial": "dae_sdc.run",
    "Initial": "dae_sdc.initial.consistent",
    "Roots": "dae_sdc.polynomials.homotopy",
    "solve_polynomials": "dae_sdc.polynomials.homotopy",
    "PolynomialSystem": "dae_sdc.polynomials.polynomials",
    "SingularPoints": "dae_sdc.polynomials.singular_points",
    "singular_points": "dae_sdc.polynomials.singular_points",
    "Component": "dae_sdc.polynomials.witness",
    "Decomposition": "dae_sdc.polynomials.witness",
    "decompose": "dae_sdc.polynomials.witness",
    "solution_sets": "dae_sdc.run.initial",
    "repair": "dae_sdc.run.structure",
    "trace": "dae_sdc.run.models",
    "Structure": "dae_sdc.structure.analysis",
    "Repair": "dae_sdc.structure.repair",
    "ReducedProblem": "dae_sdc.reduction.problem",
    "Reduction": "dae_sdc.reduction.reduction",
    "StructureError": "dae_sdc.structure.signature",
    "sundials": "dae_sdc.run",
    "Solution": "dae_sdc.run.solution",
    "StopAtRoundOff": "dae_sdc.control.stagnation",
    "MULTISTEP": "dae_sdc.sweepers.linear_multistep",
    "MultistepMethod": "dae_sdc.sweepers.linear_multistep",
    "MultistepDAE": "dae_sdc.sweepers.multistep",
    "multistep": "dae_sdc.sweepers.multistep",
    "MANIFOLD_METHODS": "dae_sdc.constrained.manifold",
    "ManifoldDAE": "dae_sdc.constrained.manifold",
    "ManifoldMethod": "dae_sdc.constrained.manifold",
    "manifold_method": "dae_sdc.constrained.manifold",
    "METHODS": "dae_sdc.sweepers.tableaux",
    "SWEEPERS": "dae_sdc.sweepers.sdc",
    "Tableau": "dae_sdc.sweepers.tableaux",
    "runge_kutta": "dae_sdc.sweepers.runge_kutta",
    "Result": "dae_sdc.run.results",
    "load": "dae_sdc.run.results",
    "ConstrainedDAEMPI": "dae_sdc.sweepers.parallel",
    "FullyImplicitDAEMPI": "dae_sdc.sweepers.parallel",
    "SemiImplicitDAEMPI": "dae_sdc.sweepers.parallel",
    "SweeperDAEMPI": "dae_sdc.sweepers.parallel",
    "split_communicator": "dae_sdc.sweepers.parallel",
    "BackwardEulerDAE": "dae_sdc.sweepers.runge_kutta",
    "DIRK43_2DAE": "dae_sdc.sweepers.runge_kutta",
    "EDIRK4DAE": "dae_sdc.sweepers.runge_kutta",
    "RungeKuttaDAE": "dae_sdc.sweepers.runge_kutta",
    "TrapezoidalRuleDAE": "dae_sdc.sweepers.runge_kutta",
    "ConstrainedDAE": "dae_sdc.sweepers.sdc",
    "FullyImplicitDAE": "dae_sdc.sweepers.sdc",
    "SemiImplicitDAE": "dae_sdc.sweepers.sdc",
    "Simplified": "dae_sdc.model.simplified",
    "Model": "dae_sdc.model.model",
    "read_modelica": "dae_sdc.modelica.reader",
    "read_modelica_text": "dae_sdc.modelica.reader",
    "ModelProblem": "dae_sdc.model.problem",
}

__all__ = ["__version__", *_HOME]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dae_sdc")
    except PackageNotFoundError:  # a source tree that nobody installed
        return "0+unknown"


def _rooms() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(__path__)}


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
    value = _find(name)
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_rooms()})


class _FrontDoor(ModuleType):
    """The package itself, in which a room does not take the place of a function of the same name."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in _HOME):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor
