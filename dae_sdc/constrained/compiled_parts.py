"""The parts of quasilinear equations as C functions, and compiled equations that are made of them."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dae_sdc.constrained.parts import PARTS, PartDerivatives
from dae_sdc.dae.kernels import compile_kernel, complex_step, machine
from dae_sdc.dae.memory import Callback, CallbackFailure, no_copy
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError


class Pointers(NamedTuple):
    """The parts of quasilinear equations as C functions ``part(t, u*, v*, p*, out*)``."""

    # "daeq1", "daeq2", "daeq3", "nohol" or "eulag"; an :class:`ImplicitDAE` is a "daeq1" in (u, u', w).
    kind: str
    # n, m: numbers of functions u and of constraints.
    n: int
    m: int
    # Shape (8,). Of A, B, h, g, dg, dg_dt and d2g, and 0; 0 for a part that the kind does not have. First-
    # order equations do not read v. For "nohol", dg is dg/dv, dg_dt is g_t + g_u v, and d2g is the same.
    addresses: npt.NDArray[np.int64]
    # Parameters, to be passed without a copy: numbers that the functions need stand before them in memory.
    p: Vector
    # Where functions in Python leave an exception; to be checked when compiled code has returned.
    failure: CallbackFailure
    owners: tuple[Any, ...]  # What must live as long as the addresses are used.


class _Compiled:
    """Pointers of one problem and the numbers they were made with; a copy of a problem makes its own."""

    def __init__(self, source: Vector, pointers: Pointers) -> None:
        self.source, self.pointers = source, pointers

    def __reduce__(self) -> Any:
        return no_copy, ()


@functools.cache
def constraint_machine() -> Any:
    """The module of compiled equations and derivatives, imported at the first call."""
    return importlib.import_module("dae_sdc.constrained._machine_constraints")


class CompiledParts(PartDerivatives):
    """Parts as C functions: kernels, compiled derivatives of constraints, and callbacks of methods."""

    def _begin_parts(self) -> None:
        super()._begin_parts()
        self._failure = CallbackFailure()
        self._compiled: _Compiled | None = None
        self._equations_compile: bool | None = None
        self._workspace_of_parts: Any = None

    def pointers(self) -> Pointers:
        """The parts of the equations as C functions, for solvers that use the quasilinear form."""
        source, known = self.packed_parameters, self._compiled
        if known is None or known.source is not source:
            known = self._compiled = _Compiled(source, self._make_pointers(source))
        return known.pointers

    def _make_pointers(self, source: Vector) -> Pointers:
        addresses = np.zeros(8, dtype=np.int64)
        p, owner = source, None
        if self._compiles_equations:
            functions = self.kernel_workspace().functions
        else:
            functions = self._functions()
            if self._compiles_derivatives:
                owner = complex_step().Parameters(self._make_workspace(functions), self.kernel_parameters())
                p = owner.array
        for name in self._parts_of_kind():
            addresses[PARTS.index(name)] = functions[name].address
        if self.kind == "nohol":
            addresses[PARTS.index("d2g")] = addresses[PARTS.index("dg_dt")]
        kind = "daeq1" if self.kind == "daen1" else self.kind
        owners = (*functions.values(), owner)
        return Pointers(kind, self._size, self.n_constraints, addresses, p, self._failure, owners)

    def _functions(self) -> dict[str, Any]:
        """The parts as C functions with their ``address``, by name."""
        structure = self._substitutes() if self._compiles_derivatives else {}
        functions: dict[str, Any] = {}
        for name in self._parts_of_kind():
            if self._source_of(name) == "kernel":
                kernel: Any = getattr(type(self), f"{self._user_names.get(name, name)}_kernel")
                functions[name] = compile_kernel(kernel, "residual")
            elif name in structure:
                functions[name] = constraint_machine().function(structure[name])
            else:
                method = functools.partial(self._part, name)
                velocities = name in self._with_velocity
                functions[name] = Callback(method, self._size, self._shapes[name], velocities, self._failure)
        return functions

    def _substitutes(self) -> dict[str, str]:
        """Names of the parts that :mod:`dae_sdc.constrained._machine_constraints` computes from others."""
        derived = {name: name for name in ("dg", "dg_dt", "d2g") if not self._source_of(name)}
        return derived | ({"dg_dt": "zero"} if "dg_dt" in derived and self._rates_vanish else {})

    def _supply(self, name: str, t: float, q: Any, v: Any = None) -> Vector:
        """A part that the class gives as a kernel or leaves to be derived."""
        label = self._user_names.get(name, name)
        if self._source_of(name) == "kernel":
            kernel: Any = getattr(type(self), f"{label}_kernel")
            return self._run(
                compile_kernel(kernel, "residual").address, name, t, q, v, self.packed_parameters
            )
        if name not in ("dg", "dg_dt", "d2g"):
            arguments = ", ".join(self._arguments[label])
            raise InputError(f"{type(self).__name__} defines no {label}({arguments})")
        if self._compiles_derivatives:
            pointers = self.pointers()
            return self._run(int(pointers.addresses[PARTS.index(name)]), name, t, q, v, pointers.p)
        q = np.asarray(q, dtype=float)
        if v is not None:
            v = np.asarray(v, dtype=float)
        derive: Callable[..., Vector] = getattr(self, f"_derived_{name}")
        return derive(t, q, v)

    def _run(self, address: int, name: str, t: float, q: Any, v: Any, p: Vector) -> Vector:
        out = np.empty(self._shapes[name])
        place = np.array(q, dtype=np.float64)
        rate = place if v is None else np.array(v, dtype=np.float64)
        for array in (place, rate):
            if array.shape != (self._size,):
                raise InputError(
                    f"{type(self).__name__} has {self._size} functions; got an array of shape {array.shape}"
                )
        machine().residual_at(address, float(t), place, rate, p, out.reshape(-1))
        return out

    def _make_workspace(self, functions: dict[str, Any]) -> Any:
        """The workspace of compiled derivatives of constraints."""
        own = constraint_machine()
        first = (self._size - self.n_constraints) if self.kind == "daen1" else 0
        memory = own.PartsMemory(n=self._size, m=self.n_constraints, n_u=first)
        memory.by_velocity = "g" in self._with_velocity
        memory.g, memory.dg = functions["g"].address, functions["dg"].address
        if self._source_of("dg_dt") or self._rates_vanish:
            memory.dg_dt = functions["dg_dt"].address
        if set(self._substitutes().values()) & {"dg", "dg_dt", "d2g"}:
            stepped = functions["complex g"] = self._complex_kernel("g")
            memory.complex_g = stepped.address
        scales, time = self._scales(np.zeros(self._size))
        return own.Workspace(memory, np.append(scales, time), functions)

    @property
    def _compiles_equations(self) -> bool:
        """Whether the residual of the formulation is made of compiled parts alone."""
        known = self._equations_compile
        if known is None:
            needed = ["B"] if self.kind == "daeq2" else []
            known = not self._gives_equations() and self._compiles_derivatives
            known = known and all(self._source_of(name) == "kernel" for name in (*self._needed, *needed))
            if self._last_rows() == "derivative" and self._source_of("d2g") == "method":
                known = False
            self._equations_compile = known
        return known and self.sparsity is None

    def _gives_equations(self) -> bool:
        """Whether a class gives a residual of its own besides the parts."""
        raise NotImplementedError

    def _last_rows(self) -> str:
        """Which equations of the formulation stand last: "constraint", "hidden", "both" or "derivative"."""
        raise NotImplementedError

    def kernel_workspace(self) -> Any:
        """The workspace of compiled parts; without these as in any :class:`ProblemDAE`."""
        if not self._compiles_equations:
            return super().kernel_workspace()
        known = self._workspace_of_parts
        if known is not None:
            scales, time = self._scales(np.zeros(self._size))  # settings may have changed
            known.scales[:] = np.append(scales, time)
            return known
        own, functions = constraint_machine(), self._functions()
        made = self._make_workspace(functions)
        memory = made.memory
        memory.second_order, memory.multiplied = "A" in self._with_velocity, "B" in functions
        memory.form = getattr(own, self._last_rows().upper())
        memory.A, memory.h = functions["A"].address, functions["h"].address
        if self._source_of("B"):
            memory.B = functions["B"].address
        if not self._rates_vanish:
            memory.rates = functions["dg_dt"].address
        memory.rest = functions["d2g" if "d2g" in functions else "dg_dt"].address
        self._workspace_of_parts = made
        return made

    def _enter_complex_parts(self) -> None:
        """Compile the parts that the Jacobian differentiates for complex steps, where that is possible."""
        if self._workspace_of_parts is not None and self._workspace_of_parts.stepped:
            return
        made, last = self.kernel_workspace(), self._last_rows()
        fields = {"A": "complex_A", "h": "complex_h", "B": "complex_B"}
        if last != "constraint" or ("B" in made.functions and not self._source_of("B")):
            fields["dg"] = "complex_dg"
        if last == "constraint" and "g" in self._with_velocity:
            fields["g"] = "complex_g"
        if last in ("hidden", "both"):
            fields["dg_dt"] = "complex_rates"
        if last == "derivative":
            fields["d2g" if "d2g" in self._parts_of_kind() else "dg_dt"] = "complex_rest"
        for name, field in fields.items():
            key = f"complex {name}"
            if self._source_of(name) == "kernel" and key not in made.functions:
                made.functions[key] = function = self._complex_kernel(name)
                setattr(made.memory, field, 0 if function is None else function.address)
        made.stepped = True
