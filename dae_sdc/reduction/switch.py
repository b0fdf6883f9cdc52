"""A C function at a fixed address that hands its arguments to another one, which can be changed."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from dae_sdc.expressions import llvm
from dae_sdc.expressions.codegen import Compiled

_ARGUMENTS = {
    "residual": ("double %t", "{place} %u", "{place} %du", "{place} %p", "{place} %out"),
    "jacobian": ("double %t", "{place} %u", "{place} %du", "double %c", "{place} %p", "{place} %out"),
}


class Switch:
    """A C function with a changing target, for sweepers, which ask for the address of a kernel only once."""

    def __init__(self, form: Literal["residual", "jacobian"], target: Compiled) -> None:
        self.form, self.target = form, target
        self._where = np.array([target.address], dtype=np.int64)
        place = llvm.pointer("double")
        arguments = ", ".join(_ARGUMENTS[form]).format(place=place)
        kinds = ", ".join(argument.split(" ")[0] for argument in arguments.split(", "))
        cell, function = llvm.pointer("i64"), llvm.pointer(f"void ({kinds})")
        text = f"""define void @kernel({arguments}) nounwind {{
%at = inttoptr i64 {self._where.ctypes.data} to {cell}
%target = load i64, {cell} %at
%function = inttoptr i64 %target to {function}
call void %function({arguments})
ret void
}}"""
        self.address, self._owners = llvm.linked(llvm.assembled(text, 0, keep=False), "kernel")

    def turn(self, target: Compiled) -> None:
        """Call another function from now on."""
        self.target = target
        self._where[0] = target.address

    def __reduce__(self) -> Any:
        return Switch, (self.form, self.target)

    def __deepcopy__(self, memo: Any) -> Switch:
        return Switch(self.form, self.target)
