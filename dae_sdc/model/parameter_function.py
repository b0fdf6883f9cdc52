"""Expressions of parameters as a compiled function."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.errors import InputError, require_number
from dae_sdc.expressions.codegen import compile_program
from dae_sdc.expressions.dag import Leaf
from dae_sdc.expressions.program import Input
from dae_sdc.model.model import Model

_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_double, *[ctypes.c_void_p] * 4)


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
    >>> frame = ds.Frame(model)
    >>> frame.point("A", 0, 0, 0)
    >>> frame.point("B", 0, 0, -2)
    >>> frame.bar("A", "B", E=2e11, A=1e-4)
    >>> frame.support("A")
    >>> frame.support("B", "x", "y")
    >>> frame.load("B", z=-load)
    >>> response = frame.solve()
    >>> response.function.parameter_names
    ('load',)
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
        for name in parameters:
            if name not in self.parameter_names:
                raise InputError(f"model {self._model.name} has no parameter {name}")
        chosen: list[Any] = [
            parameters.get(name, value)
            for name, value in zip(self.parameter_names, self._defaults, strict=True)
        ]
        for name, value in zip(self.parameter_names, chosen, strict=True):
            if value is None:
                raise InputError(f"parameter {name} of model {self._model.name} has no value; give {name}=")
        return np.array(
            [require_number(name, value) for name, value in zip(self.parameter_names, chosen, strict=True)]
        )

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
        found = np.empty(self._n) if out is None else out
        if found.shape != (self._n,) or found.dtype != np.float64 or not found.flags.c_contiguous:
            raise InputError(f"out is a contiguous array of {self._n} float64")
        given = np.ascontiguousarray(values)
        self._call(0.0, None, None, given.ctypes.data, found.ctypes.data)
        return found

    def __call__(self, **parameters: float) -> npt.NDArray[np.float64]:
        """The expressions for parameters by name; those that are not given have the values of the model."""
        return self.at(self.values(**parameters))
