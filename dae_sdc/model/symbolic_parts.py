"""Expressions for the parts A, B, h, g, ... of quasilinear equations that are given as methods or kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from dae_sdc.expressions.graph import Graph
from dae_sdc.model.retargeting import Retargeting
from dae_sdc.model.symbolic_values import Scalar, SymbolArray, Untraceable, array_of, node_of


class SymbolicParts:
    """Parts of quasilinear equations as expressions by name; missing derivatives are those of constraints."""

    def __init__(self, problem: Any, work: Retargeting, graph: Graph, parameters: Any) -> None:
        self.problem, self.work, self.graph, self.parameters = problem, work, graph, parameters

    def __call__(self, name: str, t: Scalar, q: Any, v: Any = None) -> Any:
        """The part ``name`` at time t, positions q and velocities v, as an array of its shape."""
        source, given, shape = self.problem.given_part(name)
        if source == "kernel":
            kernel = getattr(type(self.problem), f"{given}_kernel")
            out = np.zeros(int(np.prod(shape)), dtype=object).view(SymbolArray)
            self.work.of(kernel)(t, q, q if v is None else v, self.parameters, out)
            return out.reshape(shape)
        if source == "method":
            method = getattr(self.work.problem, given)
            value = array_of(method(t, *self.problem.part_arguments(name, q, v)))
            if value.shape != shape:
                raise Untraceable(f"{given} returns shape {value.shape}, which should be {shape}")
            return value
        if name == "B":
            return self("dg", t, q, v).T
        g = self("g", t, q, v)
        if name == "dg":
            by = v if len(self.problem.part_arguments("g", q, v)) > 1 else q
            return array_of([[self._slope(entry, unknown) for unknown in by] for entry in g])
        rates = self._rates(g, t, q, v)
        return rates if name == "dg_dt" else self._rates(rates, t, q, v)

    def _rates(self, values: Any, t: Scalar, q: Any, v: Any) -> Any:
        """Total time derivatives of values, for positions of velocity v; for fixed positions if v is None."""
        rates: Any = array_of([self._slope(value, t) for value in values])
        if v is None:
            return rates
        return rates + array_of([[self._slope(value, unknown) for unknown in q] for value in values]) @ v

    def _slope(self, value: Any, leaf: Scalar) -> Scalar:
        return Scalar(self.graph, self.graph.differentiate(node_of(self.graph, value), leaf.node))
