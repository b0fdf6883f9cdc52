"""The linear system of a model or problem near a state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.sparse as sparse

from dae_sdc.arguments import shown
from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import ConvergenceError, InputError, SingularMatrixError, require_number
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.initial.jets import ModelJets, jets_of
from dae_sdc.initial.search import initial_of_problem
from dae_sdc.initial.solver import Given, Solver
from dae_sdc.linear.equilibrium import Hidden, Rest
from dae_sdc.linear.system import (
    DEPENDENT_BY_DIFFERENCES,
    DEPENDENT_POLES,
    LinearSystem,
    Minimal,
    by_offsets,
    by_ranks,
    in_coordinates,
)
from dae_sdc.model.problem import unit_of_rate
from dae_sdc.registry import unknown
from dae_sdc.structure.analysis import structure_of
from dae_sdc.structure.repair import without_equations

if TYPE_CHECKING:
    from dae_sdc.model.model import Model

# Inputs by name; each is a parameter of its name, or adds to equations with a factor for each.
Inputs = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class State:
    """A state of equations with its derivative, shapes (n,), NaN where it is not known, at a time."""

    t: float
    u: Vector
    du: Vector


PARAMETER_STEP: Final = 2.0**-12  # Change of a parameter, relative to its size, in differences.
# Size of a value that is moved to a consistent one, at least, relative to the largest of its stage.
LEAST_SIZE: Final = 1e-3
# Largest derivative, relative to the unknown in units of the interval, of a state at rest.
LARGEST_RATE_AT_REST: Final = 1e-9


def inputs_of(inputs: Sequence[str] | Mapping[str, Any]) -> Inputs:
    """Inputs in one form: names, or a mapping of names to the equations that they act on."""
    if isinstance(inputs, Mapping):
        return {str(name): _factors(str(name), equations) for name, equations in inputs.items()}
    return {name: {} for name in inputs}


def _factors(name: str, equations: Any) -> dict[str, float]:
    """What an input adds to equations: a factor for each, 1 where only their names are given."""
    if isinstance(equations, Mapping):
        return {
            str(name): require_number(f"the factor of {name}", value) for name, value in equations.items()
        }
    names = [equations] if isinstance(equations, str) else equations
    if not (isinstance(names, Sequence) and all(isinstance(name, str) for name in names)):
        raise InputError(
            f"input {name} acts on an equation by name, or on several with factors; got {shown(equations)}"
        )
    return dict.fromkeys(names, 1.0)


def with_inputs(model: Model, inputs: Inputs) -> Model:
    """A model in which each input, a parameter or a right side, is an unknown with an equation."""
    if not inputs:
        return model
    made = without_equations(model, model.name, model.title)
    made.definitions, made.conditions, made.of_function = (
        model.definitions,
        model.conditions,
        model.of_function,
    )
    graph = made.graph = model.graph.copy()
    known = list(model.parameters_by_name)
    names = model.equation_names
    roots, replaced, own = list(model.roots), {}, []
    for name, factors in inputs.items():
        symbol = f"input:{name}".replace(" ", "_")
        made.variable(symbol, model.parameters_by_name[name].value if name in known and not factors else 0.0)
        node = graph.variable(len(made.names) - 1)
        if name in known and not factors:
            parameter = graph.parameter(known.index(name))
            replaced[parameter] = node
            own.append(graph.sub(node, parameter))
            continue
        for equation, factor in (factors or {name: 1.0}).items():
            if equation not in names:
                raise InputError(
                    unknown("input, which is a parameter or an equation,", equation, [*known, *names])
                )
            at = names.index(equation)
            roots[at] = graph.sub(roots[at], graph.mul(graph.constant(factor), node))
        own.append(node)
    for root, name in zip(graph.substitute(roots, replaced) if replaced else roots, names, strict=True):
        made.add_root(root, name)
    for root, name in zip(own, inputs, strict=True):
        made.add_root(root, f"input {name}")
    return made


@dataclass(frozen=True)
class Output:
    """An output: derivative ``order`` of the unknown ``number`` of the state."""

    name: str
    number: int
    order: int
    unit: str


def unit_of(name: str, names: Sequence[str], units: Sequence[str]) -> str:
    """Unit of an unknown or derivative, from that of the lowest derivative that is known."""
    base, order = name_and_order(name)
    lowest = next(k for k in range(order + 1) if name_of(base, k) in names)
    return unit_of_rate(units[list(names).index(name_of(base, lowest))], order - lowest)


MOST_DIFFERENTIATED: Final = 10  # Largest order of a derivative that is an output.


def outputs_of(outputs: Sequence[str], names: Sequence[str], units: Sequence[str]) -> list[Output]:
    """Outputs by the names of unknowns and their derivatives."""
    nodes = []
    for name in [outputs] if isinstance(outputs, str) else map(str, outputs):
        base, order = name_and_order(name)
        lower = order
        while lower >= 0 and name_of(base, lower) not in names:
            lower -= 1
        if lower < 0:
            raise InputError(unknown("output", name, list(names)))
        at = names.index(name_of(base, lower))
        nodes.append(Output(name_of(base, order), at, order - lower, unit_of(name, names, units)))
    return nodes


class Linearizer(ABC):
    """The linear systems of equations at states."""

    dependent = DEPENDENT_POLES  # Singular value, relative to the largest, that counts as 0.
    title: str
    inputs: Inputs
    input_units: tuple[str, ...]
    names: tuple[str, ...]
    units: tuple[str, ...]

    @abstractmethod
    def matrices(self, state: State) -> tuple[Any, Any, Any]:
        """E, A and B at a state, sparse."""

    def minimal(
        self, state: State, preferred: Sequence[str] = (), tangent: bool = False
    ) -> tuple[Minimal, int, str]:
        """The minimal form at a state, the index, and a remark where it is that of frozen matrices."""
        form, index = by_ranks(*self.matrices(state), self.dependent)
        most = LARGEST_RATE_AT_REST * max(1.0, np.abs(state.u).max(initial=0.0))
        moves = index >= 2 and np.abs(state.du).max(initial=0.0) > most
        remark = "poles of matrices frozen at a state that moves: from index 2 on not those of the motion"
        return in_coordinates(form, self.names, preferred), index, remark if moves else ""

    def near(self, state: State) -> State:
        """The consistent state near a given one; the given one where hidden constraints are not known."""
        return replace(state, du=np.nan_to_num(state.du))

    def linearize(
        self, state: State, outputs: Sequence[str] = (), preferred: Sequence[str] = ()
    ) -> LinearSystem:
        """The linear system at a state."""
        E, A, B = self.matrices(state)
        form, index, remark = self.minimal(state, preferred)
        chosen = outputs_of(outputs, self.names, self.units)
        names, units, u, du, rows = list(self.names), list(self.units), state.u, state.du, []
        for output in chosen:
            at = output.number
            for _ in range(output.order):
                # x_at' - w = 0 defines the new unknown w.
                n = E.shape[0]
                mass = sparse.csc_matrix(([1.0], ([0], [at])), shape=(1, n + 1))
                E = sparse.vstack([sparse.hstack([E, sparse.csc_matrix((n, 1))]), mass])
                A = sparse.block_diag([A, [[1.0]]])
                B = sparse.vstack([B, sparse.csc_matrix((1, B.shape[1]))])
                form = form.with_rate(at)
                base, order = name_and_order(names[at])
                names.append(name_of(base, order + 1))
                units.append(unit_of(names[-1], names[:-1], units))
                u, du, at = np.append(u, du[at]), np.append(du, 0.0), n
            rows.append(at)
        C = sparse.csc_matrix((np.ones(len(rows)), (range(len(rows)), rows)), shape=(len(rows), E.shape[0]))
        own: Any = (
            *(self.title, state.t),
            *(sparse.csc_matrix(one) for one in (E, A, B)),
            *(C, sparse.csc_matrix((len(rows), len(self.inputs)))),
            *(tuple(names), tuple(units), tuple(self.inputs), self.input_units),
            *(tuple(output.name for output in chosen), tuple(output.unit for output in chosen)),
            *(u, du, index, form, (remark,) if remark else ()),
        )
        return LinearSystem(*own)


class LinearModel(Linearizer):
    """The linear systems of a model at states."""

    def __init__(self, model: Model, inputs: Inputs, labels: Mapping[str, str] | None = None) -> None:
        self.model = model
        self.extended = with_inputs(model, inputs)
        self.problem: Any = self.extended.problem()
        states, count, labels = self.problem.form.states, len(model.names), labels or {}
        self.states = [state for state in states if state[0] < count]
        self.places = [at for at, state in enumerate(states) if state[0] < count]
        self.input_places = [states.index((count + at, 0)) for at in range(len(inputs))]
        known = model.parameters_by_name
        self.title, self.inputs = model.name, inputs
        self.input_units = tuple(known[name].unit if name in known else "" for name in inputs)
        self.names = tuple(name_of(labels.get(model.names[j], model.names[j]), k) for j, k in self.states)
        self.units = tuple(self.problem.units[at] for at in self.places)
        self._labels = dict(
            zip((name_of(model.names[j], k) for j, k in self.states), self.names, strict=True)
        )

    def jets(self, t: float) -> ModelJets | None:
        """The differentiated equations; None where offsets do not hold."""
        try:
            system = jets_of(self.extended, t)
        except InputError:
            return None
        return None if system.repairs else system

    @cached_property
    def index(self) -> int:
        """Differentiation index of the equations."""
        analysed = structure_of(self.model)
        known = analysed.differentiation_index
        return analysed.index if known is None else known

    def matrices(self, state: State) -> tuple[Any, Any, Any]:
        """See :class:`Linearizer`; the equations of the inputs come last."""
        full, rates = np.nan_to_num(self.problem.start_values), np.zeros(self.problem.n)
        full[self.places], rates[self.places] = state.u, state.du
        rest = Rest.at(self.problem, state.t, full, rates)
        rows = slice(len(self.states))
        with uncounted(self.problem):
            mass, stiffness = (sparse.csc_matrix(half)[rows] for half in rest.halves(full, rates))
        return mass[:, self.places], -stiffness[:, self.places], -stiffness[:, self.input_places]

    def values(self, system: ModelJets, state: State) -> Vector:
        """Values of all jets near a state and its derivative that satisfy the equations, stage by stage."""
        hidden, u = Hidden(system, self.states), np.nan_to_num(state.u)
        x = hidden.point(u, state.du)
        if np.isnan(x).any():  # Where derivatives are not known, higher ones are not either.
            x = hidden.point(u, state.du, np.nan)
        count = len(self.model.names)
        for at, variable in enumerate(list(self.extended.variables_by_name.values())[count:]):
            x[system.place[count + at, 0]] = variable.start[0]
        x, known, sizes, nothing = np.nan_to_num(x), ~np.isnan(x), np.ones(x.size), np.zeros(x.size, bool)
        for stage in system.stages:
            values, is_known = np.abs(x[stage.jets]), known[stage.jets]
            largest = max(1.0, values.max(initial=0.0))
            # What is not known must not pull at what is.
            sizes[stage.jets] = np.maximum(values, largest * np.where(is_known, LEAST_SIZE, 1.0 / LEAST_SIZE))
        solver = Solver(system, Given(x, known, nothing, sizes))
        near = solver.by_stages(x, nothing, 1.0 / sizes, keep=None if known.all() else known)
        if near is None:
            raise ConvergenceError(
                f"the hidden constraints of {system.title} have no solution near the state at "
                f"t={system.t:g}; give a consistent state, for instance of ds.initial"
            )
        return near

    def near(self, state: State) -> State:
        """See :class:`Linearizer`."""
        system = self.jets(state.t)
        if system is None:
            return super().near(state)
        x, place = self.values(system, state), system.place
        jets = np.array([place.get((j, k + 1), -1) for j, k in self.states])
        rates = np.where(jets < 0, np.nan_to_num(state.du), x[jets])
        return State(state.t, x[[place[one] for one in self.states]], rates)

    def minimal(
        self, state: State, preferred: Sequence[str] = (), tangent: bool = False
    ) -> tuple[Minimal, int, str]:
        """See :class:`Linearizer`; by offsets where they hold."""
        system = self.jets(state.t)
        if system is not None:
            own = range(len(self.model.roots), len(self.model.roots) + len(self.inputs))
            with suppress(SingularMatrixError):
                back = {label: name for name, label in self._labels.items()}
                wanted = [back.get(name, name) for name in preferred]
                found = by_offsets(system, self.values(system, state), self.states, own, wanted, tangent)
                labels = tuple(self._labels.get(name, name) for name in found.coordinates)
                return replace(found, coordinates=labels), self.index, ""
        return super().minimal(state, preferred)


class LinearProblem(Linearizer):
    """The linear systems of a problem of functions at states: by numbers."""

    def __init__(self, problem: ProblemDAE, inputs: Inputs) -> None:
        self.problem = problem
        self.title, self.inputs = problem.name, inputs
        self.names, self.units = problem.names, problem.units
        self.input_units = tuple(problem.parameter_units.get(name, "") for name in inputs)
        if getattr(problem, "jacobian", None) is None:
            self.dependent = DEPENDENT_BY_DIFFERENCES

    def near(self, state: State) -> State:
        """See :class:`Linearizer`; where no derivative is known, they follow from the equations."""
        if np.isnan(state.du).all():
            start = initial_of_problem(self.problem, u0=state.u, t0=state.t)
            state = State(state.t, start.u, start.du)
        return super().near(state)

    def matrices(self, state: State) -> tuple[Any, Any, Any]:
        """E, A and B at a state, sparse."""
        problem = self.problem
        rest = Rest.at(problem, state.t, state.u, state.du)
        with uncounted(problem):
            halves = rest.halves(state.u, state.du)
            mass, stiffness = (sparse.csc_matrix(half)[: problem.n] for half in halves)
            columns = [self._column(name, factors, rest) for name, factors in self.inputs.items()]
        B = np.array(columns).reshape(len(columns), problem.n).T
        return mass, -stiffness, sparse.csc_matrix(B)

    def _column(self, name: str, factors: Mapping[str, float], rest: Rest) -> Vector:
        problem: Any = self.problem
        value = getattr(problem, name, None) if not factors and not name.startswith("_") else None
        if isinstance(value, float | int) and not isinstance(value, bool):
            step = PARAMETER_STEP * max(1.0, abs(value))
            sides = []
            for sign in (1.0, -1.0):
                setattr(problem, name, value + sign * step)
                try:
                    sides.append(rest.with_rates(rest.u, rest.du, rest.t)[: problem.n])
                finally:
                    setattr(problem, name, value)
            return np.asarray((sides[1] - sides[0]) / (2.0 * step))
        column = np.zeros(problem.n)
        for equation, factor in (factors or {name: 1.0}).items():
            if equation not in problem.equation_names:
                known = [*problem.parameter_units, *problem.equation_names]
                raise InputError(unknown("input, which is a parameter or an equation,", equation, known))
            column[problem.equation_names.index(equation)] = factor
        return column
