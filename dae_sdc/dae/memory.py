"""Memory that Python and compiled code share: structures of C, whose fields both of them read by name."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt


def fields(kind: Any, *names: str) -> list[tuple[str, Any]]:
    """Fields of one type for a structure of :mod:`ctypes`; names are separated by spaces."""
    return [(name, kind) for several in names for name in several.split()]


def address(array: npt.NDArray[Any]) -> int:
    """Address of the first number of an array, without the objects of ctypes."""
    place: int = array.__array_interface__["data"][0]
    return place


def tell_addresses(memory: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the addresses of arrays into the fields of these names of a structure."""
    for name, array in arrays.items():
        setattr(memory, name, address(array))


class ArrayMemory:
    """A structure for compiled code, with the arrays whose addresses it has; deep copies have their own."""

    def __init__(self, structure: Any, arrays: dict[str, npt.NDArray[Any]]) -> None:
        self.structure, self.arrays, self.address = structure, arrays, ctypes.addressof(structure)
        tell_addresses(structure, arrays)

    def replace(self, name: str, array: npt.NDArray[Any]) -> None:
        """Put an array in the place of that of a field."""
        self.arrays[name] = array
        setattr(self.structure, name, address(array))

    def __reduce__(self) -> Any:
        return type(self), (self.structure, self.arrays)
