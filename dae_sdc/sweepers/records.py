"""What records of methods have in common: checks of their names and of their arrays."""

from __future__ import annotations

from dataclasses import fields
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dae_sdc.errors import InputError

Array = NDArray[np.float64]

# Largest defect of an order condition; row sums, end point and stiff accuracy are held to a tenth of it.
DEFECT_TOLERANCE = 1e-12


class MethodRecord:
    """A method described by its coefficients, which checks itself when it is made."""

    kind: ClassVar[str] = "method"

    name: str
    class_name: str
    reference: str

    def __reduce__(self) -> tuple[object, ...]:
        # Through the constructor, as arrays forget in a pickle that they are read-only.
        record: Any = self  # a dataclass
        values = (getattr(self, field.name) for field in fields(record))
        plain = (dict(value) if isinstance(value, MappingProxyType) else value for value in values)
        return type(self), tuple(plain)

    def _error(self, message: str) -> InputError:
        return InputError(f"{self.kind} '{self.name}': {message}")

    def _array(self, label: str, value: ArrayLike) -> Array:
        """Coefficients as a read-only array of finite numbers."""
        try:
            array = np.array(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise self._error(f"{label} is not an array of numbers") from None
        if not np.isfinite(array).all():
            raise self._error(f"{label} has entries that are not finite")
        array.setflags(write=False)
        return array

    def _check_names(self) -> None:
        words = self.name.split("-")
        if not all(word.isascii() and word.isalnum() and word == word.lower() for word in words):
            raise self._error("name must be lower-case words and numbers joined by hyphens")
        if not self.class_name.isidentifier():
            raise self._error(f"class_name must be a Python identifier; got '{self.class_name}'")
        if not self.reference.strip():
            raise self._error("reference must say where the coefficients come from")
