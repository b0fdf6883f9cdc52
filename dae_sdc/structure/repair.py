"""Repair of DAEs whose system Jacobian is singular for all values, so that structural analysis fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.linalg import qr
from scipy.sparse.csgraph import connected_components

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import PRIME, Leaf
from dae_sdc.expressions.graph import Graph
from dae_sdc.jets.graph import Jet, residues
from dae_sdc.jets.scalars import NoValueError
from dae_sdc.model.model import Definition, Model
from dae_sdc.registry import unknown
from dae_sdc.structure.analysis import Structure, analyse, is_nonlinear, leading_values, structure
from dae_sdc.structure.consistent import Start, dependent_rows, independent_columns, solve
from dae_sdc.structure.prolongation import Prolongation
from dae_sdc.structure.rank import Echelon, Span, independent_rows
from dae_sdc.structure.signature import Integers, StructureError, derivative_name, listed

METHODS = ("auto", "lc", "augmentation")
"""Ways to repair: the one that fits, linear combinations, or copies of equations with new unknowns."""

LARGEST_CONSTANT = 2**31  # Bound of the numerators and denominators of factors that count as constants.
# Distance of a row of norm 1, at the start, from the span of others, below which it counts as dependent.
NEARLY_DEPENDENT = 1e-3
VANISHING_ROW = 1e-12  # Norm of a row at the start, relative to the largest, that counts as 0.


@dataclass(frozen=True)
class Step:
    """A change of the equations by the repair."""

    method: str  # "lc" or "augmentation".
    equation: str  # Name of the equation that was replaced.
    # Names of the equations on which it depends, with primes for their differentiations.
    others: tuple[str, ...]
    unknowns: tuple[str, ...]  # Names of new unknowns.

    def __str__(self) -> str:
        others = listed(self.others)
        if self.method == "lc":
            return f"equation '{self.equation}' replaced by a linear combination with {others}"
        return (
            f"copies of {others}, in the new unknowns {listed(self.unknowns)}, take the leading derivatives "
            f"out of equation '{self.equation}'"
        )


@dataclass(frozen=True, eq=False)
class Repair:
    """A DAE with a regular system Jacobian and the solutions of a given one.

    Returned by :func:`repair`, whose example shows it.

    Parameters
    ----------
    model : Model
        The repaired equations.
    structure : Structure
        Their structure; its differentiation index is that of the original equations.
    steps : tuple of Step
        The changes, in order.
    """

    model: Model
    structure: Structure
    steps: tuple[Step, ...]


def repair(model: Model, *, method: str = "auto", start: Start | None = None) -> Repair:
    """Change the equations of a DAE until its system Jacobian is regular.

    While rows of the system Jacobian depend on one another, one of their equations is replaced. If the
    factors of the dependence are constant, a linear combination of derivatives of the equations takes its
    place (LC). Otherwise its leading derivatives become new unknowns, which copies of the other equations
    determine (augmentation); leading derivatives without a new unknown can have any constant values. The
    value of the transversal decreases each time, so that this ends.

    References
    ----------
    G. Tan, N. S. Nedialkov, J. D. Pryce: Conversion methods for improving structural analysis of
    differential-algebraic equation systems, BIT 57 (2017).
    T. Oki: Improved structural methods for nonlinear differential-algebraic equations via combinatorial
    relaxation, IMA J. Numer. Anal. 43 (2023).
    """
    if method not in METHODS:
        raise InputError(unknown("method of repair", method, METHODS))
    first = found = structure(model, start=start)
    begin = deepcopy(start or Start.of(model))
    system = without_equations(
        model, f"{model.name}-repaired", f"{model.title}, repaired" if model.title else ""
    )
    # A graph of its own: in a shared one equal expressions may be written with derivatives that cancel.
    system.graph, system.redundant, system.held = model.graph.copy(), model.redundant, model.held
    for root, name in zip(model.roots, model.equation_names, strict=True):
        system.add_root(root, name)
    steps: list[Step] = []
    while not found.regular:
        value = found.dof
        # No dependence of the list uses an equation that another one of them replaces.
        dependences = _find_dependences(system, found, begin)
        changes = [_change(system, found, one, method, begin) for one in dependences]
        steps += changes
        found = _again(system, changes, begin)
        if found.dof >= value:
            raise InputError(
                f"the equations cannot be repaired: replacing {listed([step.equation for step in changes])} "
                f"did not take the leading derivatives out; give the model start values near a consistent "
                f"point"
            )
    if not steps:
        return Repair(model, first, ())
    return Repair(_rewritten(system), replace(found, differentiation=first.differentiation), tuple(steps))


def _change(system: Model, found: Structure, dependence: Dependence, method: str, begin: Start) -> Step:
    step = None if method == "augmentation" else _combine(system, found, dependence)
    if step is not None:
        return step
    if method == "lc":
        why = "are not constant" if dependence.everywhere else "are so only where the constraints hold"
        raise InputError(
            f"the factors with which equations {listed(dependence.names(system))} depend on one another "
            f"{why}, so that linear combinations do not repair them; use augmentation"
        )
    return _augment(system, found, dependence, begin)


def _again(system: Model, steps: Sequence[Step], begin: Start) -> Structure:
    try:
        return analyse(system, begin)
    except StructureError as error:
        if len(steps) == 1:
            others = steps[0].others
            said = f"follows from {listed(others)} or contradicts them" if others else "binds no unknown"
            why = f"equation '{steps[0].equation}' {said}"
        else:
            names = listed([step.equation for step in steps])
            why = f"of the equations {names}, some follow from others or contradict them"
        raise StructureError(f"{why}: {error}") from None


@dataclass(frozen=True, eq=False)
class Dependence:
    """Equations whose rows of the system Jacobian are linearly dependent."""

    # Factors of a sum of the rows that is 0: over the finite field, or at a point that satisfies the
    # constraints.
    factors: Mapping[int, Any]
    target: int  # The equation to replace: one with the smallest c.
    pivots: list[int]  # Unknowns in which the rows of the other equations are independent.
    # Whether they are dependent at all points, and not just where the constraints hold.
    everywhere: bool = True

    @property
    def others(self) -> list[int]:
        """The equations without the target."""
        return sorted(self.factors.keys() - {self.target})

    def names(self, system: Model) -> list[str]:
        """Names of all equations of the dependence."""
        return [system.equation_names[i] for i in sorted(self.factors)]

    def differentiated(self, system: Model, rates: Mapping[int, int]) -> tuple[str, ...]:
        """Names of the other equations, differentiated so many times."""
        return tuple(derivative_name(system.equation_names[i], rates[i]) for i in self.others)


def _find_dependences(system: Model, found: Structure, begin: Start) -> list[Dependence]:
    """A dependence for each redundant row; no target is among the other equations of another dependence."""
    n = found.size
    if found.leading is not None and found.leading.rows:
        at_point = found.leading.rows
        return [
            Dependence(
                factors,
                target := next(iter(factors)),
                independent_columns(at_point[i] for i in sorted(factors) if i != target),
                everywhere=False,
            )
            for factors in dependent_rows(at_point, found.c)
        ]
    rows: list[dict[int, int]] = [{} for _ in range(n)]
    for (i, j), value in leading_values(system, found.c, found.d).items():
        rows[i][n + j] = value
    at_start = _at_start(system, found, begin)
    echelon = Echelon()
    dependences = []
    for i in _in_order(at_start, found.c):
        row = {**rows[i], i: 1}
        if echelon.add(row, down_to=n) is None:
            inner, others = Echelon(), [k for k in row if k != i]
            leads = [inner.add(dict(rows[k])) for k in others]
            pivots = sorted(lead - n for lead in leads if lead is not None)
            dependences.append(Dependence(row, i, _regular_columns(at_start, others, pivots)))
    return dependences


def _at_start(system: Model, found: Structure, begin: Start) -> Any:
    """The system Jacobian at the start values, sparse, with rows of norm 1 or 0."""

    def value(leaf: Leaf) -> float:
        known = begin.value(leaf)
        # Unknown values are replaced by general ones, at which no entry vanishes by chance.
        return float(np.cos(1.0 + leaf.index + 3.0 * leaf.order)) if known is None else known

    nodes = system.graph.leading_slopes(system.roots, found.c.tolist(), found.d.tolist())
    values = np.nan_to_num(system.graph.numeric(list(nodes.values()), value), posinf=0.0, neginf=0.0)
    places = np.array(list(nodes), dtype=np.int64).reshape(-1, 2).T
    matrix = sparse.csr_array((values, tuple(places)), shape=(found.size, found.size))
    sizes = np.sqrt(matrix.multiply(matrix).sum(axis=1))
    large = sizes > VANISHING_ROW * sizes.max(initial=0.0)
    parts = np.divide(1.0, sizes, out=np.zeros(found.size), where=large)
    return sparse.csr_array(sparse.diags_array(parts) @ matrix)


def _dense_rows(matrix: Any, rows: Sequence[int]) -> tuple[npt.NDArray[np.float64], list[int]]:
    """Some rows as a dense matrix without their empty columns, and the numbers of its columns."""
    part = matrix[rows]
    columns = np.unique(part.indices)
    return part[:, columns].toarray(), columns.tolist()


def _in_order(at_start: Any, c: Integers) -> list[int]:
    """Rows by decreasing c, so that the redundant row of a dependence is one with the smallest c."""
    # Of rows with the same c, one that depends on others at the start comes last: its replacement is
    # determined by the others, which must be independent there.
    late = np.asarray(abs(at_start).sum(axis=1) == 0.0)
    by_differentiation = np.lexsort((np.arange(len(c)), -c))
    # Rows in different connected components of the matrix are independent.
    groups, group = connected_components(at_start @ at_start.T, directed=False)
    members: list[list[int]] = [[] for _ in range(groups)]
    for i in by_differentiation.tolist():
        members[group[i]].append(i)
    for rows in members:
        if len(rows) > 1:
            dense, columns = _dense_rows(at_start, rows)
            span = Span(len(columns))
            late[rows] = [not span.add(row, NEARLY_DEPENDENT) for row in dense]
    order: list[int] = np.lexsort((np.arange(len(c)), late, -c)).tolist()
    return order


def _regular_columns(at_start: Any, rows: Sequence[int], found: list[int]) -> list[int]:
    """Columns in which rows are independent at the start too; ``found`` if there are none."""
    matrix, columns = _dense_rows(at_start, rows)
    known = [columns.index(j) for j in found if j in columns]
    sizes = np.linalg.svd(matrix[:, known], compute_uv=False)
    if len(columns) < len(rows) or (len(known) == len(rows) and sizes.min(initial=1.0) > NEARLY_DEPENDENT):
        return found
    _, triangle, order = qr(matrix, mode="economic", pivoting=True)
    better = sorted(columns[k] for k in order[: len(rows)])
    return better if np.abs(np.diag(triangle)).min(initial=1.0) > NEARLY_DEPENDENT else found


def _combine(system: Model, found: Structure, dependence: Dependence) -> Step | None:
    """Replace the target by a combination with constant factors; None where none cancels everywhere."""
    graph, target = system.graph, dependence.target
    if not dependence.everywhere:
        return None
    of_target = pow(dependence.factors[target], -1, PRIME)
    factors = {i: _fraction(residue * of_target % PRIME) for i, residue in dependence.factors.items()}
    rates = {i: int(found.c[i] - found.c[target]) for i in factors}
    terms = [
        graph.mul(graph.constant(factor), graph.total_derivative(system.roots[i], rates[i]))
        for i, factor in factors.items()
        if factor is not None
    ]
    if len(terms) < len(factors):
        return None
    combined = graph.add(*terms)
    wanted = graph.depends(combined)
    idle = [graph.variable(*jet) for jet in graph.jets_of(combined) if jet not in wanted]
    (system.roots[target],) = graph.without([combined], idle)
    return Step("lc", system.equation_names[target], dependence.differentiated(system, rates), ())


def _fraction(residue: int) -> Fraction | None:
    """The fraction with small terms that a residue represents, by Euclid's algorithm; None without one."""
    before, rest, old, new = PRIME, residue, 0, 1
    while rest >= LARGEST_CONSTANT:
        quotient = before // rest
        before, rest, old, new = rest, before - quotient * rest, new, old - quotient * new
    if not new or abs(new) >= LARGEST_CONSTANT:
        return None
    return Fraction(rest, new)


def _augment(system: Model, found: Structure, dependence: Dependence, begin: Start) -> Step:
    """Replace leading derivatives in the target by new unknowns, which copies of the others determine."""
    graph, target, starts = system.graph, dependence.target, begin.values
    rates = {i: int(found.c[i] - found.c[target]) for i in dependence.others}
    level = found.d - found.c[target]
    used = [system.roots[target]]
    used += [graph.total_derivative(system.roots[i], rate) for i, rate in rates.items()]
    unknowns = sorted({j for j, _ in graph.jets_of(*used)})
    leading = [(j, int(level[j])) for j in unknowns if level[j] >= 0]
    taken, idle = ([jet for jet in leading if (jet[0] in dependence.pivots) == new] for new in (True, False))
    own, values = tuple(range(len(system.names), len(system.names) + len(taken))), dict[int, int]()
    for new, (j, order) in zip(own, taken, strict=True):
        starts[new, 0] = starts.get((j, order), 0.0)
        values[graph.variable(j, order)] = graph.variable(new)
        system.variable(_new_name(system.names, system.names[j], order))
    held = [{jet: starts.get(jet, 0.0) for jet in idle}]
    if any(is_nonlinear(graph, node, lambda *jet: jet in leading) for node in used):
        # Copies of nonlinear equations may have a real solution for some constants alone.
        held += [_nearest(graph, used, begin), *(dict.fromkeys(idle, guess) for guess in (0.0, 1.0, 0.375))]

    def value(leaf: Leaf) -> float:
        known = begin.value(leaf)
        return known if known is not None else np.nan if leaf.kind == "p" else 0.0

    best: tuple[int, Definition, Any] | None = None
    for numbers in held:
        starts |= {(j, 0): numbers.get(jet, starts[j, 0]) for j, jet in zip(own, taken, strict=True)}
        constants = {graph.variable(*jet): graph.constant(numbers.get(jet, 0.0)) for jet in idle}
        try:
            replaced, *copies = graph.substitute(used, values | constants)
            partials = residues(graph, [(node, 0) for node in copies])
        except (InputError, NoValueError):  # divides by 0 there
            continue
        rows = [{j: slope for (j, _), slope in slopes.items() if j in own and slope} for slopes in partials]
        if len(independent_rows(rows)) == len(rows):  # The copies determine as many new unknowns.
            definition = Definition(own, tuple(copies), (system.equation_names[target], used[0]))
            solution = definition.solve(graph, value)
            best = (replaced, definition, solution) if solution or best is None else best
            if solution:
                break
    if best is None:
        raise InputError(
            f"the copies of {listed(dependence.names(system))} do not determine the new unknowns; give the "
            f"model start values near a consistent point"
        )
    system.roots[target], definition, solution = best
    for (i, rate), node in zip(rates.items(), definition.roots, strict=True):
        system.add_root(node, _new_name(system.equation_names, system.equation_names[i], rate))
    system.definitions = (*system.definitions, definition)
    starts |= {(j, 0): number for j, number in zip(own, solution or (), strict=False)}
    made = tuple(system.names[j] for j in own)
    for j, name in zip(own, made, strict=True):
        system.variables_by_name[name].start[0] = starts[j, 0]
    return Step("augmentation", system.equation_names[target], dependence.differentiated(system, rates), made)


def _nearest(graph: Graph, nodes: Sequence[int], begin: Start) -> dict[Jet, float]:
    """Values near those of a start at which equations hold; none where they are not found."""
    highest = dict(sorted(graph.jets_of(*nodes)))
    orders = [highest.get(j, 0) for j in range(max(highest, default=-1) + 1)]
    system = Prolongation(graph, nodes, [0] * len(nodes), orders, begin.unit)
    x = np.array([begin.values.get(jet, 0.0) for jet in system.columns])
    point = solve(system, x, begin.t, [1.0 if known is None else known for known in begin.parameters])
    return {} if point is None else dict(zip(system.columns, point.x.tolist(), strict=True))


def _new_name(taken: Sequence[str], name: str, order: int) -> str:
    """A name that is not taken, such as "x_2" for the second derivative of x."""
    new = f"{name}_{order}"
    while new in taken:
        new += "_"
    return new


def without_equations(model: Model, name: str, title: str) -> Model:
    """A model with the variables, parameters, interval and reference of another, but no equations."""
    made = Model(name, title=title, interval=model.interval, dt=model.dt, reference=model.reference)
    made.events, made.labels = model.events, model.labels
    for variable in model.variables_by_name.values():
        made.add_variable(deepcopy(variable))
    for parameter in model.parameters_by_name.values():
        made.parameter(parameter.name, parameter.value, unit=parameter.unit)
    return made


def _rewritten(system: Model) -> Model:
    """The model with its equations in a graph of their own, which has no derivatives that cancel."""
    made = without_equations(system, system.name, system.title)
    further = [root for each in system.definitions for root in (*each.roots, each.replaced[1])]
    nodes = made.copied(system.graph, [*system.roots, *further, *dict(system.redundant).values()])
    for name, root in zip(system.equation_names, system.roots, strict=True):
        made.add_root(nodes[root], name)
    made.held, made.redundant = system.held, tuple((name, nodes[root]) for name, root in system.redundant)
    made.definitions = tuple(
        Definition(each.unknowns, tuple(map(nodes.__getitem__, each.roots)), (name, nodes[root]))
        for each in system.definitions
        for name, root in [each.replaced]
    )
    return made
