"""All unknowns of the user, also eliminated ones, along the solution of a simplified model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.registry import unknown
from dae_sdc.sharing import one_at_a_time

if TYPE_CHECKING:
    from dae_sdc.expressions.dag import Leaf
    from dae_sdc.model.model import Model
    from dae_sdc.model.simplified import Simplified

Jet = tuple[str, int]
"""Name of an unknown and order of a derivative."""

MOST_ENTRIES = 2_000_000
"""Largest number of entries of the matrices that are solved at once."""

MOST_ITERATIONS = 12

CORRECTION_TOLERANCE = 1e-13
"""Correction, relative to 1 + the value, at which Newton's method has converged."""

ACCEPTED_CORRECTION = 1e-8
"""Largest last correction with which a value is accepted, as rounding errors may prevent convergence."""


class Unknowns:
    """All unknowns of a model from the states of the simplified one.

    Values in the state are taken from there, and other derivatives are computed by the equations: stage s of
    the Sigma-method solves the derivatives c_i + s of the equations for those of order d_j + s of the
    unknowns. If the system Jacobian is singular, derivatives are those of the solution.

    References
    ----------
    J. D. Pryce: A simple structural analysis method for DAEs, BIT 41 (2001), section 4.
    """

    def __init__(self, simplified: Simplified, parameters: Mapping[str, float]) -> None:
        self.simplified = simplified
        self.parameters = dict(parameters)
        self.names: tuple[str, ...] = simplified.original.names
        self._offsets: tuple[list[int], list[int]] | None = None
        self._known: tuple[Any, dict[Jet, Vector]] | None = None

    def __deepcopy__(self, memo: Any) -> Unknowns:
        return self  # its cache belongs to no run

    @property
    def removed(self) -> tuple[str, ...]:
        """Names of the unknowns that the simplified model does not have."""
        return tuple(self.simplified.map)

    @property
    def units_of_removed(self) -> tuple[str, ...]:
        """Units of the removed unknowns."""
        known = self.simplified.original.variables_by_name
        return tuple(known[name].unit for name in self.simplified.map)

    @one_at_a_time
    def values(self, name: str, t: Vector, u: Vector, du: Vector, entries: Sequence[str]) -> Vector:
        """Values of an unknown, or of a derivative."""
        # Shapes: t (K,), u and du (K, n) -> (K,).
        base, _ = name_and_order(name)
        if base not in self.names:
            raise InputError(unknown(f"name in model {self.simplified.original.name}", base, self.names))
        needed = self.simplified.needed(name)
        found = self._jets(needed, t, u, du, entries)
        missing = sorted(needed - found.keys())
        if missing:
            raise InputError(
                f"{name} of model {self.simplified.original.name} needs {name_of(*missing[0])}, which its "
                f"equations do not tell from the state; solve without simplify"
            )
        told = self.simplified.evaluate(name, lambda *jet: found[jet], t, self.parameters)
        return np.broadcast_to(told, np.shape(t)).astype(np.float64)

    def _jets(
        self, needed: Iterable[Jet], t: Vector, u: Vector, du: Vector, entries: Sequence[str]
    ) -> dict[Jet, Vector]:
        """Values of unknowns and derivatives, with the needed ones if they are determined."""
        if self._known is None or self._known[0] is not u:
            names = set(self.simplified.model.names)
            state: dict[Jet, Vector] = {}
            for at, entry in enumerate(entries):
                jet = name_and_order(entry)
                if jet[0] in names:
                    state[jet] = u[:, at]
            self._known = u, state
        known = self._known[1]
        missing = [jet for jet in needed if jet not in known]
        if not missing:
            return known
        rates = {
            (name, order + 1): du[:, at] for at, (name, order) in enumerate(map(name_and_order, entries))
        }
        offsets = self._structure()
        if offsets is not None:
            model = self.simplified.model
            index = {name: j for j, name in enumerate(model.names)}
            last = max(order - offsets[1][index[name]] for name, order in missing)
            known.update(_Stages(model, offsets, self.parameters).solve(max(0, last), t, known, rates))
        for jet in missing:
            if jet in rates and (jet not in known or not np.isfinite(known[jet]).all()):
                told = known.get(jet, rates[jet])
                known[jet] = np.where(np.isfinite(told), told, rates[jet])
        return known

    def _structure(self) -> tuple[list[int], list[int]] | None:
        """Offsets of the simplified model; None if its system Jacobian is singular."""
        if self._offsets is None:
            from dae_sdc.structure.analysis import structure

            found = structure(self.simplified.model, differentiation=False)
            self._offsets = (found.c.tolist(), found.d.tolist()) if found.regular else ([], [])
        return self._offsets if self._offsets[0] else None


class SavedUnknowns:
    """The eliminated unknowns of a solution that was read from a file, at the times in the file only.

    Pictures may ask for other times, see :meth:`interpolated`.
    """

    # Shapes: t (K,), table (K, m).

    def __init__(
        self,
        names: Sequence[str],
        units: Sequence[str],
        t: Vector,
        table: Vector,
        samples: Mapping[str, Vector] | None = None,
    ) -> None:
        self.samples = dict(samples or {})
        self.removed = tuple(names)
        self.units_of_removed = tuple(units)
        self.t, self.table = t, table

    def values(self, name: str, t: Vector, entries: Sequence[str]) -> Vector:
        """Values of an eliminated unknown at times t, shape (K,); ``entries`` are names for the message."""
        if name not in self.removed:
            raise InputError(unknown("name", name, (*entries, *self.removed)))
        if not np.array_equal(t, self.t):
            raise InputError(
                f"{name} was eliminated, and its values are saved at the times of the file alone; solve "
                f"again, with t_eval"
            )
        return self.table[:, self.removed.index(name)].copy()

    def interpolated(self, name: str, t: Vector) -> Vector:
        """Values of an eliminated unknown by straight lines between what the file has, shape (K,)."""
        times, table = self.samples.get("sample_times", self.t), self.samples.get("samples", self.table)
        return np.interp(t, times, table[:, self.removed.index(name)])


class _Stages:
    """The equations of a model, solved for derivatives at many points at once."""

    def __init__(
        self, model: Model, offsets: tuple[list[int], list[int]], parameters: Mapping[str, float]
    ) -> None:
        self.model, self.graph = model, model.graph
        self.c, self.d = offsets
        self.parameters = [
            parameters.get(name, parameter.value) for name, parameter in model.parameters_by_name.items()
        ]

    def solve(
        self, last: int, t: Vector, known: Mapping[Jet, Vector], rates: Mapping[Jet, Vector]
    ) -> dict[Jet, Vector]:
        """Values of the derivatives up to order d_j + last; NaN where they cannot be computed."""
        names, size = self.model.names, max(1, MOST_ENTRIES // max(1, len(self.c)) ** 2)
        parts = []
        for begin in range(0, len(t), size):
            rows = slice(begin, begin + size)
            own = {jet: values[rows] for jet, values in known.items()}
            guesses = {jet: values[rows] for jet, values in rates.items()}
            found: dict[Jet, Vector] = {}
            for s in range(-max(self.c), last + 1):
                jets = [(names[j], d + s) for j, d in enumerate(self.d) if d + s >= 0]
                equations = [(i, c + s) for i, c in enumerate(self.c) if c + s >= 0]
                # The last stages are square; in earlier ones, values of the state are not changed.
                jets = [jet for jet in jets if s >= 0 or jet not in own]
                if jets:
                    new = self._stage(equations, jets, t[rows], {**own, **found}, guesses)
                    found.update(zip(jets, new, strict=True))
            parts.append({jet: values for jet, values in found.items() if jet not in own})
        return {jet: np.concatenate([part[jet] for part in parts]) for jet in parts[0]}

    def _stage(
        self,
        equations: Sequence[tuple[int, int]],
        jets: Sequence[Jet],
        t: Vector,
        known: Mapping[Jet, Vector],
        guesses: Mapping[Jet, Vector],
    ) -> npt.NDArray[np.float64]:
        """Values of jets by Newton's method at all points, shape (jets, K)."""
        graph, names = self.graph, self.model.names
        index = {name: j for j, name in enumerate(names)}
        roots = [graph.total_derivative(self.model.roots[i], order) for i, order in equations]
        cols = {graph.variable(index[name], order): at for at, (name, order) in enumerate(jets)}
        places, slopes = [], []
        for row, root in enumerate(roots):
            for leaf, slope in graph.gradient(root).items():
                if leaf in cols:
                    places.append((row, cols[leaf]))
                    slopes.append(slope)
        count, points = len(jets), len(t)
        x = np.array([self._guess(jet, known, guesses, points) for jet in jets])
        rows_, cols_ = (list(column) for column in zip(*places, strict=True)) if places else ([], [])
        change = np.full(x.shape, np.inf)
        # Equations without an unknown of the stage are satisfied by the stages before.
        for _ in range(MOST_ITERATIONS):
            values = self._values([*roots, *slopes], t, {**known, **dict(zip(jets, x, strict=True))})
            matrix = np.zeros((points, len(roots), count))
            matrix[:, rows_, cols_] = values[len(roots) :].T
            change = _solved(matrix, values[: len(roots)].T).T
            x -= change
            if bool((np.abs(change) <= CORRECTION_TOLERANCE * (1.0 + np.abs(x)))[np.isfinite(change)].all()):
                break
        x = np.where(np.abs(change) <= ACCEPTED_CORRECTION * (1.0 + np.abs(x)), x, np.nan)
        return x

    def _guess(
        self, jet: Jet, known: Mapping[Jet, Vector], guesses: Mapping[Jet, Vector], points: int
    ) -> Vector:
        found = known.get(jet, guesses.get(jet))
        return np.zeros(points) if found is None else np.where(np.isfinite(found), found, 0.0)

    def _values(
        self, nodes: Sequence[int], t: Vector, known: Mapping[Jet, Vector]
    ) -> npt.NDArray[np.float64]:
        """Values of expressions at all points, shape (nodes, K)."""
        names, parameters = self.model.names, self.parameters
        zero = np.zeros(len(t))

        def value(leaf: Leaf) -> Any:
            if leaf.kind == "u":
                # A derivative of higher order than all values cancels in the equations.
                return known.get((names[leaf.index], leaf.order), zero)
            return t if leaf.kind == "t" else parameters[leaf.index]

        found = self.graph.numeric([*nodes, self.graph.time()], value)[:-1]
        return np.broadcast_to(found, (len(nodes), len(t)))


def _solved(matrix: npt.NDArray[np.float64], rhs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Solutions of many linear systems, by least squares if they are not square."""
    scale = np.abs(matrix).max(axis=2, initial=0.0)
    scale = np.where(scale > 0.0, scale, 1.0)
    rows, right = matrix / scale[:, :, None], rhs / scale
    finite = np.isfinite(rows).all(axis=(1, 2)) & np.isfinite(right).all(axis=1)
    found = np.full((len(rhs), matrix.shape[2]), np.nan)
    rows, right = rows[finite], right[finite]
    solve: Callable[[Any, Any], Any] = _square if matrix.shape[1] == matrix.shape[2] else _least
    found[finite] = solve(rows, right)
    return found


def _square(rows: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(np.linalg.solve(rows, right[:, :, None])[:, :, 0], dtype=np.float64)
    except np.linalg.LinAlgError:  # at one point or more
        return _least(rows, right)


def _least(rows: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    try:
        inverse = np.linalg.pinv(rows, rcond=1e-12)
    except np.linalg.LinAlgError:  # the singular values did not converge
        return np.full((len(rows), rows.shape[2]), np.nan)
    return np.asarray((inverse @ right[:, :, None])[:, :, 0], dtype=np.float64)
