"""The response of a frame to its loads: expressions of parameters, compiled, and numbers for a drawing."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dae_sdc.errors import InputError, require_number
from dae_sdc.expressions.codegen import compile_program
from dae_sdc.expressions.dag import Leaf
from dae_sdc.expressions.graph import Input
from dae_sdc.model.model import Model
from dae_sdc.reduction.factor import Row
from dae_sdc.reduction.symbolic_factors import SymbolicFactors
from dae_sdc.registry import require_name

Vector = tuple[int, int, int]  # Components as nodes of a graph.

_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_double, *[ctypes.c_void_p] * 4)


@dataclass(frozen=True)
class Member:
    """A bar or a beam between two points."""

    # first, second: the points.
    first: str
    second: str
    released: tuple[int, ...] = ()  # Local degrees of freedom of 12 that joints release.
    slender: bool = False  # Whether it is a bar, which does not bend.


class ParameterFunction:
    """Expressions of the parameters of a model, compiled to machine code.

    Parameters
    ----------
    model : Model
        Has the parameters.
    nodes : sequence of int
        The expressions, as nodes of the graph of the model.

    Raises
    ------
    InputError
        If an expression depends on an unknown or on time.

    Examples
    --------
    >>> model = ds.Model("cable")
    >>> load = model.parameter("load", 100.0)
    >>> ds.ParameterFunction(model, model.nodes([load**2, 2 * load]))(load=3.0)
    array([9., 6.])
    """

    def __init__(self, model: Model, nodes: Sequence[int]) -> None:
        self.parameter_names = model.parameter_names
        self._defaults = [parameter.value for parameter in model.parameters_by_name.values()]
        self._model = model
        self._compiled = compile_program(model.graph.program(nodes, self._input), "residual")
        self._call = _KERNEL(self._compiled.address)
        self._n = len(nodes)

    @property
    def operations(self) -> int:
        """Number of instructions of an evaluation."""
        return len(self._compiled.program.code)

    def _input(self, leaf: Leaf) -> Input:
        if leaf.kind != "p":
            raise InputError(
                f"{self._model.symbol(leaf)} is no parameter of model {self._model.name}; what is evaluated "
                "here may depend on parameters alone"
            )
        return Input("p", leaf.index)

    def values(self, **parameters: float) -> npt.NDArray[np.float64]:
        """Values of all parameters in their order: those given, and those of the model for the others."""
        chosen = dict(zip(self.parameter_names, self._defaults, strict=True))
        for name in parameters:
            require_name(f"parameter of model {self._model.name}", name, chosen)
        chosen |= parameters
        for name, value in chosen.items():
            if value is None:
                raise InputError(f"parameter {name} of model {self._model.name} has no value; give {name}=")
        return np.array([require_number(name, value) for name, value in chosen.items()])

    def at(
        self, values: npt.NDArray[np.float64], out: npt.NDArray[np.float64] | None = None
    ) -> npt.NDArray[np.float64]:
        """The expressions at values of all parameters.

        Parameters
        ----------
        values : ndarray of float64, shape (n_parameters,)
            Contiguous, as :meth:`values` returns them.
        out : ndarray of float64, shape (n_nodes,), optional
            Where the result is written.

        Returns
        -------
        ndarray, shape (n_nodes,)
        """
        if values.shape != (len(self.parameter_names),) or values.dtype != np.float64:
            raise InputError(
                f"values have shape ({len(self.parameter_names)},) and are float64; got {values.shape} of "
                f"{values.dtype}"
            )
        result = np.empty(self._n) if out is None else out
        if result.shape != (self._n,) or result.dtype != np.float64 or not result.flags.c_contiguous:
            raise InputError(f"out is a contiguous array of {self._n} float64")
        self._call(0.0, None, None, np.ascontiguousarray(values).ctypes.data, result.ctypes.data)
        return result

    def __call__(self, **parameters: float) -> npt.NDArray[np.float64]:
        """The expressions for parameters by name; those that are not given have the values of the model."""
        return self.at(self.values(**parameters))


@dataclass(frozen=True)
class Deformation:
    """A deformed frame in numbers.

    Parameters
    ----------
    name : str
        Name of the model.
    members : tuple of Member
        Bars and beams.
    coordinates : dict of str to ndarray, shape (3,)
        Points without load.
    displacements : dict of str to float
        All degrees of freedom, supported ones included.
    reactions : dict of str to float
        Forces and moments that the supports exert, by degrees of freedom.

    Examples
    --------
    >>> frame = ds.Frame(ds.Model("cable"))
    >>> frame.point("A", 0, 0, 0); frame.point("B", 0, 0, -2)
    >>> frame.bar("A", "B", E=2e11, A=1e-4)
    >>> frame.support("A"); frame.support("B", "x", "y")
    >>> frame.load("B", z=-200.0)
    >>> round(frame.solve().at()["B.z"], 8)
    -2e-05
    """

    name: str
    members: tuple[Member, ...]
    coordinates: dict[str, npt.NDArray[np.float64]]
    displacements: dict[str, float]
    reactions: dict[str, float]

    def __getitem__(self, name: str) -> float:
        """The displacement of a degree of freedom."""
        return self.displacements[name]


@dataclass(frozen=True)
class Supports:
    """The equations of supported degrees of freedom, as nodes."""

    names: tuple[str, ...]  # The degrees of freedom.
    # Their rows of the stiffness matrix; the columns are free degrees of freedom, and after them these.
    stiffness: list[Row]
    # displacements, loads: given displacements, and loads.
    displacements: list[int]
    loads: list[int]


class FrameResponse:
    """Displacements and reactions of a frame as compiled functions of the parameters of its model.

    Parameters
    ----------
    model : Model
        Has the parameters.
    points : dict of str to Vector
        Points of the frame.
    members : tuple of Member
        Bars and beams.
    free : tuple of str
        Free degrees of freedom.
    factors : SymbolicFactors
        Those of their stiffness matrix.
    right : list of int
        Forces on them.
    supports : Supports
        The other degrees of freedom.

    Attributes
    ----------
    names : tuple of str
        Free degrees of freedom, and after them "reaction NAME" of the supported ones: the order of the values
        of :attr:`function`.
    nodes : list of int
        Their nodes in the graph of the model.

    Examples
    --------
    >>> model = ds.Model("cable")
    >>> load = model.parameter("load", 100.0)
    >>> frame = ds.Frame(model)
    >>> frame.point("A", 0, 0, 0); frame.point("B", 0, 0, -2)
    >>> frame.bar("A", "B", E=2e11, A=1e-4)
    >>> frame.support("A"); frame.support("B", "x", "y")
    >>> frame.load("B", z=-load)
    >>> round(frame.solve().at(load=200.0)["B.z"], 8)
    -2e-05
    """

    def __init__(
        self,
        model: Model,
        points: dict[str, Vector],
        members: tuple[Member, ...],
        free: tuple[str, ...],
        factors: SymbolicFactors,
        right: list[int],
        supports: Supports,
    ) -> None:
        self.model, self.points, self.members = model, points, members
        self.factors, self.supports = factors, supports
        self._free, self._right, self._moved = free, right, factors.solve(right)
        graph, values = model.graph, [*self._moved, *supports.displacements]
        reactions = []
        for row, load in zip(supports.stiffness, supports.loads, strict=True):
            force = graph.add(*(graph.mul(node, values[j]) for j, node in row.items()))
            reactions.append(graph.sub(force, load))
        self.names = (*free, *(f"reaction {name}" for name in supports.names))
        self.nodes = [*self._moved, *reactions]

    @cached_property
    def function(self) -> ParameterFunction:
        """The compiled function of all parameters that gives displacements and reactions."""
        return ParameterFunction(self.model, self.nodes)

    @cached_property
    def _geometry(self) -> ParameterFunction:
        points = [node for point in self.points.values() for node in point]
        return ParameterFunction(self.model, [*points, *self.supports.displacements])

    def at(self, **parameters: float) -> Deformation:
        """The deformed frame for parameters by name; others have the values of the model."""
        values = self.function(**parameters)
        places = self._geometry(**parameters)
        n, points = len(self._free), list(self.points)
        coordinates = dict(zip(points, places[: 3 * len(points)].reshape(-1, 3), strict=True))
        displacements = dict(zip(self._free, values[:n].tolist(), strict=True))
        displacements |= dict(zip(self.supports.names, places[3 * len(points) :].tolist(), strict=True))
        reactions = dict(zip(self.supports.names, values[n:].tolist(), strict=True))
        return Deformation(self.model.name, self.members, coordinates, displacements, reactions)

    def derivatives(self, parameters: Sequence[str]) -> ParameterFunction:
        """Exact derivatives of all displacements and reactions, by the factors that are there.

        Parameters
        ----------
        parameters : sequence of str
            Names of parameters.

        Returns
        -------
        ParameterFunction
            Its values, reshaped to (parameters, names), are the derivatives.
        """
        model, nodes = self.model, []
        for name in parameters:
            place = require_name(f"parameter of model {model.name}", name, model.parameter_names)
            leaf = model.graph.parameter(place)
            nodes += self._derivative(leaf)
        return ParameterFunction(model, nodes)

    def _derivative(self, leaf: int) -> list[int]:
        graph = self.model.graph

        def slope(node: int) -> int:
            return graph.gradient(node, parameters=True).get(leaf, graph.zero)

        moved = self.factors.derivative(self._right, self._moved, leaf)
        values = [*self._moved, *self.supports.displacements]
        slopes = [*moved, *(slope(node) for node in self.supports.displacements)]
        forces = []
        for row, load in zip(self.supports.stiffness, self.supports.loads, strict=True):
            terms = [graph.neg(slope(load))]
            for j, node in row.items():
                terms += [graph.mul(slope(node), values[j]), graph.mul(node, slopes[j])]
            forces.append(graph.add(*terms))
        return [*moved, *forces]
