"""A model as a problem: unknowns in the order of a state, compiled residual and Jacobian."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.kernels import Kernels, follows_from_residual, machine, matrix_of_kernel, residual_of_kernel
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.dae.values import unguarded
from dae_sdc.errors import InputError, ReferenceRangeError, require_number
from dae_sdc.expressions.codegen import Compiled, compile_program
from dae_sdc.expressions.dag import MOVING, Leaf, Op, name_of
from dae_sdc.expressions.graph import Graph, Input, Program
from dae_sdc.model.jumps import (
    KINKS_FREE,
    Jump,
    Jumps,
    Sided,
    Timetable,
    guards_of,
    jumps_as_programs,
    jumps_of,
    with_choices,
    with_held_jumps,
)
from dae_sdc.registry import require_name

DENSE: Final = 30  # Number of unknowns up to which the Jacobian is a dense array and not a sparse matrix.
ROUNDING: Final = 1e-13  # Bound on rounding errors of an equation, relative to its terms.

_C = Leaf("c")


class Shared:
    """What copies of an object share, because nothing but caches changes in it."""

    def __deepcopy__(self, memo: Any) -> Self:
        return self


@dataclass(frozen=True, eq=False)
class Form(Shared):
    """A model as a system of first order, F(t, u, u') = 0."""

    # Unknown of the model and order of the derivative for every entry of u, differential ones first.
    states: tuple[tuple[int, int], ...]
    n_diff: int  # Number of differential unknowns.
    # names, units, equation_names: names and units of the unknowns, and names of the equations; those that
    # define derivatives come first.
    names: tuple[str, ...]
    units: tuple[str, ...]
    equation_names: tuple[str, ...]
    # residual, jacobian: programs for F and for the entries of dF/du' + c dF/du, row by row or in the order
    # of ``pattern``.
    residual: Program
    jacobian: Program
    pattern: Any  # Sparsity pattern of the Jacobian; None for a dense one.
    # The jumps whose values a step holds. The parameters of the programs are then those of the model, a
    # flag (1: evaluate the jumps, 0: use given values), and these values.
    jumps: Jumps | None = None
    # Arguments of steep functions that may change faster than integrated unknowns: where they are largest, a
    # pulse may lie between the nodes of a step.
    peaks: Program | None = None
    constant_mass: bool = False  # Whether dF/du' depends neither on time nor on unknowns.

    @functools.cached_property
    def compiled(self) -> tuple[Compiled, Compiled]:
        """Residual and Jacobian as C functions."""
        return compile_program(self.residual, "residual"), compile_program(self.jacobian, "jacobian")

    @functools.cached_property
    def compiled_peaks(self) -> Compiled | None:
        """The arguments of steep functions as a C function with the signature of a residual."""
        return None if self.peaks is None else compile_program(self.peaks, "residual")

    @functools.cached_property
    def compiled_sizes(self) -> Compiled:
        """The sizes of the equations if no terms cancelled, as a tape: they are seldom asked for."""
        return compile_program(self.residual.sizes, "residual", "tape")


def first_order(model: Any, dense: bool | None = None) -> Form:
    """A model as a system of first order, with unknowns for its lower derivatives."""
    graph, names = model.graph, model.names
    if len(model.roots) != len(names) or not names:
        raise InputError(
            f"model {model.name} has {len(model.roots)} equations for {len(names)} unknowns"
            f"{_unused(model)}; it needs as many equations as unknowns"
        )
    jets = sorted({jet for root in model.roots for jet in graph.depends(root)})
    order = {**dict.fromkeys(range(len(names)), -1), **dict(jets)}  # the highest order of each is the last
    if min(order.values()) < 0:
        raise InputError(f"model {model.name} cannot determine all unknowns{_unused(model)}")
    states = [(j, k) for k in range(max(order.values())) for j in order if order[j] > k]
    n_diff = len(states)
    states += [(j, 0) for j in order if order[j] == 0]
    place = {state: i for i, state in enumerate(states)}
    defined = [(j, k) for j, k in states if k + 1 < order[j]]

    def given(leaf: Leaf) -> Input | None:
        kind, index, derivative = leaf
        if kind != "u":
            return Input({"d": "du"}.get(kind, kind), index)
        if derivative > order.get(index, -1):  # it cancels in the equations
            return None
        if derivative < max(order[index], 1):
            return Input("u", place[index, derivative])
        return Input("du", place[index, derivative - 1])

    def follows(leaf: Leaf) -> bool:
        source = given(leaf)
        return source is not None and source.kind != "du"

    sided = _sided(model, follows)
    graph, roots = sided.graph, sided.roots
    rows = [graph.sub(graph.leaf(Leaf("d", place[j, k])), graph.variable(j, k + 1)) for j, k in defined]
    rows += roots
    row_names = *(f"definition of {name_of(names[j], k + 1)}" for j, k in defined), *model.equation_names
    return form_of(model, sided, (states, n_diff, given), (rows, row_names), dense, len(defined))


def in_given_order(model: Any, n_diff: int, borders: bool = True) -> Form:
    """The equations of a model of first order, with its unknowns in their given order."""
    sided = _sided(model, lambda leaf: borders and leaf.order == 0, unsure=False)

    def given(leaf: Leaf) -> Input:
        kinds = ("u", "du") if leaf.kind == "u" else (leaf.kind,)
        return Input(kinds[leaf.order], leaf.index)

    states = [(j, 0) for j in range(len(model.names))]
    return form_of(model, sided, (states, n_diff, given), (sided.roots, model.equation_names), None)


def form_of(
    model: Any,
    sided: Sided,
    state: tuple[Sequence[tuple[int, int]], int, Callable[[Leaf], Input | None]],
    equations: tuple[list[int], tuple[str, ...]],
    dense: bool | None,
    defined: int = 0,
    written: Callable[[Graph, list[int]], list[int]] = lambda graph, nodes: nodes,
) -> Form:
    """The form made of equations with their names, of which the first have entries of u' as leaves."""
    (states, n_diff, given), (rows, names_of_rows) = state, equations
    n, graph = len(states), sided.graph
    texts = model.texts([jump.node for jump in sided.jumps])
    dense = n <= DENSE if dense is None else dense
    pattern, outputs = jacobian_outputs(graph, rows, given, n, dense, graph.leaf(_C), defined)
    programs = graph.program(rows, given), graph.program(written(graph, outputs), given)
    jumps = jumps_as_programs(sided, texts, given) if sided.jumps else None
    steep = _steep_arguments(graph, rows, given, programs[0])
    peaks = graph.program(steep, given) if steep else None
    names = tuple(name_of(model.names[j], k) for j, k in states)
    of_unknowns = model.units
    units = tuple(unit_of_rate(of_unknowns[j], k) for j, k in states)
    slopes = (item for row in rows for item in graph.gradient(row).items())
    moving = {graph.leaves[leaf] for leaf, slope in slopes if graph.mark[slope] & MOVING}
    constant = not any(leaf.kind in "ud" and getattr(given(leaf), "kind", "") == "du" for leaf in moving)
    about = tuple(states), n_diff, names, units, names_of_rows
    return Form(*about, *programs, pattern, jumps, peaks, constant)


def _steep_arguments(
    graph: Graph, rows: Sequence[int], given: Callable[[Leaf], Input | None], residual: Program
) -> list[int]:
    """What exponential functions are taken of, if time or unknowns without derivatives are in it."""
    moving = {Input("u", source.index) for source in residual.inputs if source.kind == "du"}
    every: dict[int, None] = {}
    for node in graph.below(rows, MOVING):
        if graph.op[node] in (Op.EXP, Op.SINH, Op.COSH, Op.TANH):
            (argument,) = graph.operands(node)
            sources = {given(leaf) for leaf in graph.leaves_of(argument)}
            fast = [source for source in sources - moving if source and source.kind in ("t", "u")]
            if fast and None not in sources:
                every[argument] = None
                if graph.op[node] is not Op.EXP:
                    every[graph.neg(argument)] = None
    return list(every)


def _sided(model: Any, follows: Callable[[Leaf], bool], unsure: bool = True) -> Sided:
    """The equations of a model with the values of their jumps as parameters, see ``jumps_of``."""
    numbers = [math.nan if p.value is None else float(p.value) for p in model.parameters_by_name.values()]
    guards = guards_of(model.graph, model.roots)
    roots, back = with_choices(model.graph, model.roots, follows, guards)
    jumps = jumps_of(model.graph, roots, numbers.__getitem__, follows, guards, unsure)
    if not jumps:
        return Sided(model.graph, list(model.roots))
    # As the model has them written, with extremes and absolute values in them.
    pairs = {jump: model.graph.substitute([jump.node, jump.border], back) for jump in jumps}
    sided = with_held_jumps(model.graph, roots, jumps, len(numbers))
    written = [(jump, *pairs[jump]) for jump in sided.jumps]
    return sided._replace(jumps=[jump._replace(node=node, border=border) for jump, node, border in written])


def jacobian_outputs(
    graph: Graph,
    roots: Sequence[int],
    given: Callable[[Leaf], Input | None],
    n: int,
    dense: bool,
    factor: int,
    defined: int = 0,
) -> tuple[Any, list[int]]:
    """Pattern of dF/du' + factor dF/du, or None, and the nodes of its entries by columns, or by rows."""
    entries: dict[tuple[int, int], int] = {}
    for row, root in enumerate(roots):
        for node, slope in graph.gradient(root, parameters=row < defined).items():
            source = given(graph.leaves[node]) if graph.leaves[node].kind in "ud" else None
            if source is not None:
                part = graph.mul(factor, slope) if source.kind == "u" else slope
                key = source.index, row
                entries[key] = graph.add(entries[key], part) if key in entries else part
    if dense:
        every = [(col, row) for row in range(len(roots)) for col in range(n)]
        return None, [entries.get(key, graph.zero) for key in every]
    keys = sorted(entries)
    indptr = np.searchsorted([col for col, _ in keys], np.arange(n + 1)).astype(np.int32)
    indices = np.array([row for _, row in keys], dtype=np.int32)
    pattern = sparse.csc_matrix((np.ones(len(keys)), indices, indptr), shape=(len(roots), n))
    return pattern, [entries[key] for key in keys]


def _unused(model: Any) -> str:
    """Names of the unknowns that occur in no equation, as a part of a message."""
    used = {j for root in model.roots for j, _ in model.graph.depends(root)}
    missing = [name for j, name in enumerate(model.names) if j not in used]
    if not missing:
        return ""
    return f" ({', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''} in none of them)"


def unit_of_rate(unit: str, order: int) -> str:
    """Unit of a derivative with respect to time."""
    if not order or not unit:
        return unit
    return f"{unit}/s" if order == 1 else f"{unit}/s^{order}"


class Origin(Shared):
    """The model from which a problem was made."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __reduce__(self) -> Any:
        return Origin, (None,)


class FormEquations:
    """Base of problems whose residual and Jacobian are machine code generated from a ``form``."""

    form: Form
    n: int
    n_diff: int
    sparsity: Any
    packed_parameters: Vector
    kernel_parameters: Callable[[], npt.ArrayLike]
    jacobian_is_derived = True
    stepped_kernel: ClassVar[Callable[..., None] | None] = None  # Its parameters are others.

    @property
    def kernels(self) -> Kernels:
        """Residual and Jacobian as C functions."""
        residual, jacobian = self.form.compiled
        return Kernels(residual.address, jacobian.address, (residual, jacobian))

    @property
    def peaks(self) -> tuple[int, int]:
        """Address and number of the arguments of steep functions, see :class:`Form`; 0 without any."""
        compiled = self.form.compiled_peaks
        return (0, 0) if compiled is None else (compiled.address, len(self.form.peaks.outputs))  # type: ignore[union-attr]

    @property
    def peaks_read(self) -> list[int]:
        """Places of the unknowns on which these depend."""
        inputs = () if self.form.peaks is None else self.form.peaks.inputs
        return [source.index for source in inputs if source.kind == "u"]

    @property
    def is_algebraic(self) -> npt.NDArray[np.bool_]:
        """Mask of the algebraic unknowns: those so declared, or else those whose derivatives do not occur."""
        if self.n_diff < self.n:
            return np.arange(self.n) >= self.n_diff
        moving = {given.index for given in self.form.residual.inputs if given.kind == "du"}
        return np.array([i not in moving for i in range(self.n)])

    @unguarded
    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """The residual F(t, u, u'), shape (n,)."""
        return residual_of_kernel(self, self.form.compiled[0].address, u, du, t)

    @unguarded
    def residual_nodes(self, u: Vector, du: Vector, t: Vector) -> Vector:
        """F at the M nodes of a step, shape (M, n)."""
        out = np.empty(np.shape(u))
        times, place, slope = (np.ascontiguousarray(array, dtype=np.float64) for array in (t, u, du))
        address = self.form.compiled[0].address
        machine("residuals_at")(address, times, place, slope, self.packed_parameters, out)
        return out

    def residual_sizes(self, u: Vector, du: Vector, t: float) -> Vector:
        """Sizes of the equations at a state if no terms cancelled, constants among them, shape (n,)."""
        return residual_of_kernel(self, self.form.compiled_sizes.address, u, du, t)

    def residual_errors(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """What rounding of its terms may leave of every equation at a state, shape (n,)."""
        return ROUNDING * self.residual_sizes(u, du, t)

    @follows_from_residual
    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
        """The matrix dF/du' + c dF/du, shape (n, n), dense or CSC of the pattern ``sparsity``."""
        return matrix_of_kernel(self, self.form.compiled[1].address, u, du, t, c)

    def _taken(self, values: Any) -> Vector:
        array: Vector = np.ascontiguousarray(values, dtype=np.float64)
        if array.shape != (self.n,):
            name, shape = getattr(self, "model_name", type(self).__name__), array.shape
            raise InputError(f"model {name} has a state of {self.n} unknowns; got an array of shape {shape}")
        return array


class SwitchingEquations(FormEquations):
    """Equations whose jumps keep within a step the values of its start; their borders are switches."""

    # Runs of one step at a time locate the zeros of borders that depend on the state, and continue after them
    # from a consistent state. Jumps of time alone happen at breakpoints, which are known before.

    in_force: tuple[float, ...] | None = None  # The flag, and the values of the jumps.
    switches_rest = True  # a switch that stays at 0 has the side 0
    held_sides: Any
    located: bool
    interval: tuple[float, float]
    _jump_times: Timetable | None = None

    def equation_parameters(self) -> npt.ArrayLike:
        """Values of the parameters of the equations, as the class beside this one gives them to a kernel."""
        return super().kernel_parameters()

    def kernel_parameters(self) -> npt.ArrayLike:
        """Values of the parameters, the flag and the values of the jumps, see :class:`Form`."""
        return _with_jump_values(self, self.in_force)

    def switches(self, u: MeshDAE, t: float) -> tuple[float, ...]:
        """The functions at whose zeros equations jump, shape (W,); 1 where another condition excludes it."""
        values, _ = _borders(self, u, t, self.packed_parameters)
        return tuple(1.0 if math.isnan(value) else value for value in values.tolist())

    def switches_at(self, u: Vector, t: Vector) -> Vector:
        """The values of :meth:`switches` at K states of shape (K, n), shape (K, W)."""
        jumps, place = _jumps(self), np.ascontiguousarray(u)
        out = np.empty((len(u), len(jumps.watched) + len(jumps.levels)))
        if out.size:
            machine("residuals_at")(jumps.compiled.address, t, place, place, self.packed_parameters, out)
        values = out[:, : len(jumps.watched)]
        return np.where(np.isnan(values), 1.0, values)

    def sides(self, u: MeshDAE, t: float) -> tuple[int, ...]:
        """For each switch the sign in force, else that of its value; of a floor that of its parity."""
        held: tuple[int, ...] | None = self.held_sides
        if held is not None:
            return held
        values, arguments = _borders(self, u, t, _with_jump_values(self, None))
        signs = np.where(values < 0.0, -1, 1)
        signs[_jumps(self).levels] = 1 - 2 * (np.floor(arguments) % 2.0 == 1.0)
        return tuple(signs.tolist())

    def floor_argument(self, switch: int, u: MeshDAE, t: float) -> float:
        """What the floor of a switch is taken of, with the values of jumps that are in force."""
        _, arguments = _borders(self, u, t, self.packed_parameters)
        return float(arguments[_jumps(self).levels.tolist().index(switch)])

    @property
    def watched_jumps(self) -> list[Jump]:
        """The jump, or kink, of each switch."""
        return [_jumps(self).jumps[i] for i in _jumps(self).watched]

    @property
    def switches_read(self) -> list[int]:
        """Places of the unknowns on which the borders of jumps depend."""
        return [source.index for source in _jumps(self).borders.inputs if source.kind == "u"]

    @property
    def starts_alike(self) -> bool:
        """Whether jumps keep their values between breakpoints and zeros of switches, which are located."""
        return self.located and not len(_jumps(self).levels)

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Fix the values of the jumps for a step."""
        jumps, sides = _jumps(self), np.array(self.sides(u, t), dtype=np.intp)
        values = np.zeros(len(jumps.values))
        if len(jumps.timed):
            values[jumps.timed] = _timetable(self, t).at(t)
        values[jumps.watched] = jumps.values[jumps.watched, sides + 1]
        if len(jumps.levels):
            _find_levels(self, u, t, sides[jumps.levels], values)
        in_force = 0.0 if self.located else KINKS_FREE, *values.tolist()
        if in_force != self.in_force:  # setting it has the parameters of the kernels made anew
            self.in_force = in_force

    @property
    def timed_switch_names(self) -> tuple[str, ...]:
        """Names of the jumps that depend on time alone."""
        return tuple(_jumps(self).names[i] for i in _jumps(self).timed)

    @property
    def timed_values(self) -> tuple[float, ...]:
        """The values of these jumps that a step holds."""
        if self.in_force is None:
            return (np.nan,) * len(_jumps(self).timed)
        return tuple(self.in_force[1 + i] for i in _jumps(self).timed)

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """Times at which a condition changes that depends on time alone."""
        return _timetable(self, t0, t_end).between(t0, t_end) if len(_jumps(self).timed) else ()


def _jumps(problem: SwitchingEquations) -> Jumps:
    assert problem.form.jumps is not None
    return problem.form.jumps


def _with_jump_values(problem: SwitchingEquations, in_force: tuple[float, ...] | None) -> Vector:
    """Parameters of the programs with these values of jumps, or that have the jumps evaluated."""
    tail = (1.0, *(0.0,) * len(_jumps(problem).values)) if in_force is None else in_force
    return np.concatenate([np.asarray(problem.equation_parameters(), dtype=np.float64), tail])


def _borders(problem: SwitchingEquations, u: Any, t: float, parameters: Vector) -> tuple[Vector, Vector]:
    """Borders of the watched jumps, and arguments of the floors among them."""
    jumps = _jumps(problem)
    count = len(jumps.watched)
    out = np.empty(count + len(jumps.levels))
    if out.size:
        place = problem._taken(u)
        machine("residual_at")(jumps.compiled.address, float(t), place, place, parameters, out)
    return out[:count], out[count:]


def _find_levels(problem: SwitchingEquations, u: MeshDAE, t: float, parities: Any, values: Vector) -> None:
    """Write the values of floors, outer ones after those in their arguments."""
    places = _jumps(problem).watched[_jumps(problem).levels]
    values[places] = np.floor(_borders(problem, u, t, _with_jump_values(problem, None))[1])
    for _ in range(len(places)):
        arguments = _borders(problem, u, t, _with_jump_values(problem, (0.0, *values.tolist())))[1]
        levels = np.floor(arguments)
        # At a border rounding may have put the argument on the side that is left.
        other = levels + np.where(arguments - levels > 0.5, 1.0, -1.0)
        levels = np.where((levels % 2.0 == 1.0) == (parities < 0), levels, other)
        levels = np.where(parities == 0, np.round(arguments), levels)
        if np.array_equal(values[places], levels):
            return
        values[places] = levels


def _timetable(problem: SwitchingEquations, t0: float, t_end: float | None = None) -> Timetable:
    """The times at which jumps of time alone change, between two times, or around the start of a step."""
    table = problem._jump_times
    numbers = np.asarray(problem.equation_parameters(), dtype=np.float64)
    if table is None or not table.covers(t0, t_end) or not np.array_equal(table.parameters, numbers):
        first, last = (t0, t0) if table is None else (table.t0, table.t_end)
        if t_end is None:
            # Twice as long, so that the times of a long run are not found again and again.
            span = max(problem.interval[1] - problem.interval[0], 2.0 * abs(t0 - first))
            first, t_end = min(problem.interval[0], first, t0), t0 + span
        table = Timetable(_jumps(problem), numbers, min(first, t0), max(last, t_end))
        problem.__dict__["_jump_times"] = table
    return table


class ModelProblem(FormEquations, ProblemDAE):
    """A problem made from a model.

    Parameters
    ----------
    model : Model
        The equations.
    index : int, optional
        Differentiation index, where it is known.
    dense : bool, optional
        Whether the Jacobian is an array; up to 30 unknowns if not given.
    parameters : mapping of str to float, optional
        Values of parameters, which replace those of the model.
    **settings
        Values of parameters by their names, and ``newton_tol``, ``newton_maxiter`` and ``linear_solver`` of
        :class:`ProblemDAE`.

    Attributes
    ----------
    model_name : str
        Name of the model.
    form : Form
        The equations as a system of first order, with the unknown of each entry of the state.
    origin : Origin
        The model before a reduction of its index.
    values : mapping of str to float
        Values of the parameters.
    start_values : ndarray, shape (n,)
        Start values, NaN where the model gives none.

    Raises
    ------
    InputError
        If the model is not balanced, a parameter has no value, or a setting is unknown.

    Examples
    --------
    >>> m = ds.Model("decay", interval=(0.0, 1.0))
    >>> x, y = m.variables("x y", start=[1.0, 2.0])
    >>> rate = m.parameter("rate", 1.0)
    >>> m.equations(m.der(x) + rate * x, y - 2 * x)
    >>> problem = m.problem(rate=2.0)
    >>> problem.names, round(float(ds.solve(problem, u0=[1.0, 2.0]).u[-1, 1]), 5)
    (('x', 'y'), 0.27067)
    """

    def __init__(
        self,
        model: Any,
        *,
        index: int | None = None,
        dense: bool | None = None,
        parameters: Mapping[str, float] | None = None,
        **settings: Any,
    ) -> None:
        own = {key: settings.pop(key) for key in _SETTINGS if key in settings}
        values = _values(model, {**(parameters or {}), **settings})
        form = model.form(dense)
        super().__init__(form.n_diff, len(form.states) - form.n_diff, **own)
        self.form, self.constant_mass = form, form.constant_mass
        self.origin = Origin(model)
        self.model_name: str = model.name
        self.values = values
        self.names, self.units, self.equation_names = form.names, form.units, form.equation_names
        self.index = index
        self.interval = (float(model.interval[0]), float(model.interval[1]))
        self.dt = (self.interval[1] - self.interval[0]) / 100.0 if model.dt is None else model.dt
        self.sparsity = form.pattern
        unknowns = model.unknowns(values)
        entries = [(unknowns[j], k) for j, k in form.states]
        # Without a start value an unknown has NaN, and a derivative 0.
        self.start_values = np.array([variable.start.get(k, 0.0 if k else np.nan) for variable, k in entries])
        sizes = [variable.nominal.get(k) for variable, k in entries]
        if None not in sizes:
            self.nominal = np.array(sizes)
        described = ("title", "reference", "events", "labels")
        self.__dict__.update({name: getattr(model, name, ()) for name in described})

    def use_offsets(self, c: npt.ArrayLike, d: npt.ArrayLike, index: int) -> None:
        """Set :attr:`index` and :attr:`variable_index` from the offsets of the model."""
        self.index = index
        # After max(c) + 1 differentiations of the equations all derivatives of order d_j + 1 are known, and
        # that of order k + 1 of unknown j after d_j - k fewer: 1, 2, 3 for position, velocity, multiplier.
        most, of_unknown = int(np.max(c)) + 1, np.asarray(d).tolist()
        self.variable_index = tuple(max(1, most - of_unknown[j] + k) for j, k in self.form.states)

    def kernel_parameters(self) -> npt.ArrayLike:
        """Values of the parameters, in the order of the model."""
        return list(self.values.values())

    @staticmethod
    def of(model: Any, **settings: Any) -> ModelProblem:
        """The problem of a model: a :class:`SwitchingModelProblem` where its equations jump."""
        form = model.form(settings.get("dense"))
        return (ModelProblem if form.jumps is None else SwitchingModelProblem)(model, **settings)

    eval_f = FormEquations.eval_f

    def u_exact(self, t: float) -> MeshDAE:
        """The start values, at the start of the interval; other times raise an error.

        Raises
        ------
        ReferenceRangeError
            At other times.
        InputError
            If an unknown has no start value.
        """
        if t != self.interval[0]:
            raise ReferenceRangeError(
                f"model {self.model_name} has start values at t={self.interval[0]:g} and no exact solution; "
                f"got t={t:g}"
            )
        missing = np.flatnonzero(np.isnan(self.start_values))
        if missing.size:
            names = ", ".join(self.names[i] for i in missing[:5])
            raise InputError(
                f"model {self.model_name} has no start value for {names}; give start, or "
                f"u0=ds.initial(model).u"
            )
        return self.state(self.start_values)


class SwitchingModelProblem(SwitchingEquations, ModelProblem):
    """A model whose equations jump, see :class:`SwitchingEquations`."""

    def __init__(self, model: Any, **settings: Any) -> None:
        super().__init__(model, **settings)
        self.switch_names = _jumps(self).watched_names


_SETTINGS: Final = ("newton_tol", "newton_maxiter", "linear_solver")


def _values(model: Any, given: Mapping[str, Any]) -> dict[str, float]:
    known = model.parameters_by_name
    for name in given:
        require_name(f"parameter of model {model.name}", name, [*known, *_SETTINGS, "index", "dense"])
    values = {
        name: require_number(name, given[name]) if name in given else parameter.required(model.name)
        for name, parameter in known.items()
    }
    for condition in model.conditions:
        condition(values)
    return values
