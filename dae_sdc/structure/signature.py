"""The signature matrix of a DAE: the orders of derivative in its equations, and whether it is balanced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix, csr_matrix

from dae_sdc.arguments import shown
from dae_sdc.dae.linear import maximum_matching
from dae_sdc.errors import InputError

if TYPE_CHECKING:
    from dae_sdc.model.model import Equations

Integers: TypeAlias = npt.NDArray[np.int64]

MOST_LISTED = 6  # Largest number of names that a message lists; the others are counted.


class StructureError(InputError):
    """Equations and unknowns of a model do not match, so that no index exists.

    Examples
    --------
    >>> m = ds.Model("twice")
    >>> x, y = m.variables("x y")
    >>> m.equations(m.der(x) + x, m.der(x) - x)
    >>> try:
    ...     ds.structure(m)
    ... except ds.StructureError as error:
    ...     print(error)
    ...
    2 equations do not determine 2 unknowns: equations 'equation 0' and 'equation 1' contain only
    unknown 'x' (1 too many); unknown 'y' occurs in no equation (1 equation missing)
    """


def is_model(model: Any) -> TypeGuard[Equations]:
    """Whether something is a model; asked without the class of models, which loads SymPy."""
    return hasattr(model, "graph")


@dataclass(frozen=True, eq=False)
class Signature:
    r"""Highest orders of derivative, :math:`\sigma_{ij}`, of the pairs of equation and unknown that occur."""

    # rows, cols, orders: shape (nnz,). Equation i, unknown j and the highest derivative of x_j in equation
    # i; each pair once, in the order of rows and columns.
    rows: Integers
    cols: Integers
    orders: Integers
    shape: tuple[int, int]  # Numbers of equations and of unknowns.
    # names, equation_names: names of unknowns and equations.
    names: Sequence[str]
    equation_names: Sequence[str]

    @staticmethod
    def make(
        entries: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike],
        shape: tuple[int, int],
        names: Sequence[str] | None = None,
        equation_names: Sequence[str] | None = None,
    ) -> Signature:
        """A signature from its entries in any order."""
        rows, cols, orders = (np.atleast_1d(np.asarray(part, dtype=np.int64)) for part in entries)
        if not rows.shape == cols.shape == orders.shape or rows.ndim != 1:
            raise InputError(
                f"rows, columns and orders of a signature must be equally long; got {rows.shape}, "
                f"{cols.shape} and {orders.shape}"
            )
        for what, part, size in (("row", rows, shape[0]), ("column", cols, shape[1])):
            if part.size and (part.min() < 0 or part.max() >= size):
                raise InputError(f"a {what} of the signature lies outside 0 to {size - 1}")
        if orders.size and orders.min() < 0:
            raise InputError("an order of the signature is negative; leave pairs that do not occur out")
        names = _names("unknown", names, "x", shape[1])
        equation_names = _names("equation", equation_names, "f", shape[0])
        key = rows * max(shape[1], 1) + cols
        by_key = np.lexsort((-orders, key))
        keep = by_key[np.unique(key[by_key], return_index=True)[1]]
        return Signature(rows[keep], cols[keep], orders[keep], shape, names, equation_names)

    @staticmethod
    def from_dense(
        matrix: npt.ArrayLike, names: Sequence[str] | None = None, equation_names: Sequence[str] | None = None
    ) -> Signature:
        """A signature from a matrix."""
        # Shapes: matrix (m, n).
        try:
            dense = np.asarray(matrix, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"a signature matrix has rows of numbers, of the same length; got {shown(matrix)}"
            ) from None
        if dense.ndim != 2:
            raise InputError(f"a signature matrix has two dimensions; got {dense.ndim}")
        rows, cols = np.nonzero(np.isfinite(dense))
        if np.any(dense[rows, cols] % 1):
            raise InputError("orders of derivative are integers, or -inf where an unknown does not occur")
        return Signature.make((rows, cols, dense[rows, cols]), dense.shape, names, equation_names)

    @staticmethod
    def of(model: Any) -> Signature:
        """The signature of a model, of a matrix, or the signature itself."""
        if isinstance(model, Signature):
            return model
        if is_model(model):
            shape = (len(model.equation_names), len(model.names))
            return Signature.make(model.signature(), shape, model.names, model.equation_names)
        return Signature.from_dense(model)

    @cached_property
    def pattern(self) -> csr_matrix:
        """Ones where an unknown occurs in an equation."""
        ones = np.ones(self.rows.size, dtype=np.int8)
        return coo_matrix((ones, (self.rows, self.cols)), shape=self.shape).tocsr()

    def dense(self) -> npt.NDArray[np.float64]:
        """The signature matrix, with -inf where an unknown does not occur."""
        matrix = np.full(self.shape, -np.inf)
        matrix[self.rows, self.cols] = self.orders
        return matrix


def _names(what: str, names: Sequence[str] | None, letter: str, size: int) -> Sequence[str]:
    if names is None:
        return [f"{letter}{number}" for number in range(1, size + 1)]
    if len(names) != size:
        raise InputError(f"{len(names)} names for {size} {what}s; give one for each")
    return names


@dataclass(frozen=True, eq=False)
class DulmageMendelsohn:
    """Over- and under-determined parts of a DAE.

    References
    ----------
    A. L. Dulmage, N. S. Mendelsohn: Coverings of bipartite graphs, Canadian J. Math. 10 (1958).
    """

    # over_rows, over_cols: the over-determined part: more equations than unknowns in them.
    over_rows: Integers
    over_cols: Integers
    # under_rows, under_cols: the under-determined part: more unknowns than equations with them.
    under_rows: Integers
    under_cols: Integers
    # surplus_rows, surplus_cols: equations and unknowns that a maximum matching leaves unmatched.
    surplus_rows: Integers
    surplus_cols: Integers


def dulmage_mendelsohn(signature: Signature) -> DulmageMendelsohn:
    """The coarse Dulmage-Mendelsohn parts of the pattern of a signature."""
    col_of = maximum_matching(signature.pattern).astype(np.int64)
    row_of = np.full(signature.shape[1], -1, dtype=np.int64)
    matched = np.flatnonzero(col_of >= 0)
    row_of[col_of[matched]] = matched
    surplus_rows, surplus_cols = np.flatnonzero(col_of < 0), np.flatnonzero(row_of < 0)
    by_row = signature.pattern
    by_col = signature.pattern.T.tocsr()
    over_rows, over_cols = alternate(by_row, surplus_rows, row_of)
    under_cols, under_rows = alternate(by_col, surplus_cols, col_of)
    return DulmageMendelsohn(over_rows, over_cols, under_rows, under_cols, surplus_rows, surplus_cols)


def alternate(pattern: csr_matrix, start: Integers, partner: Integers) -> tuple[Integers, Integers]:
    """Nodes that alternating paths reach from ``start``: those on its side, and those on the other."""
    own = np.zeros(pattern.shape[0], dtype=bool)
    other = np.zeros(pattern.shape[1], dtype=bool)
    front = start
    while front.size:
        own[front] = True
        reached = np.unique(pattern[front].indices)
        fresh = reached[~other[reached]]
        other[fresh] = True
        front = partner[fresh]
        front = front[(front >= 0) & ~own[front]]
    return np.flatnonzero(own), np.flatnonzero(other)


def require_balance(signature: Signature) -> None:
    """Raise :class:`StructureError` with names unless equations and unknowns can be matched one to one."""
    if signature.shape[0] == 0:
        raise StructureError("the model has no equations; give as many as there are unknowns")
    parts = dulmage_mendelsohn(signature)
    if not parts.surplus_rows.size and not parts.surplus_cols.size:
        return
    said = []
    equation, unknown = signature.equation_names.__getitem__, signature.names.__getitem__
    if parts.surplus_rows.size:
        few = parts.over_cols
        only = f"only {_listed('unknown', few, unknown)}" if few.size else "no unknown"
        said.append(
            f"{_listed('equation', parts.over_rows, equation)} contain"
            f"{'s' if parts.over_rows.size == 1 else ''} {only} ({parts.surplus_rows.size} too many)"
        )
    if parts.surplus_cols.size:
        alone = parts.under_rows.size == 0
        said.append(
            f"{_listed('unknown', parts.under_cols, unknown)} occur"
            f"{'s' if parts.under_cols.size == 1 else ''} "
            f"{'in no equation' if alone else 'only in ' + _listed('equation', parts.under_rows, equation)}"
            f" ({parts.surplus_cols.size} equation{'s' * (parts.surplus_cols.size > 1)} missing)"
        )
    m, n = signature.shape
    raise StructureError(
        f"{m} equation{'s do' if m != 1 else ' does'} not determine {n} unknown{'s' * (n != 1)}: "
        f"{'; '.join(said)}"
    )


def _listed(what: str, indices: Integers, name: Callable[[int], str]) -> str:
    names = [name(int(i)) for i in indices[: MOST_LISTED + 1]]
    return f"{what}{'s' * (len(indices) > 1)} {listed(names, len(indices))}"


def listed(names: Sequence[str], total: int | None = None) -> str:
    """Names as a part of a sentence, the first :data:`MOST_LISTED` of them."""
    total = len(names) if total is None else total
    shown = [f"'{name}'" for name in names[: MOST_LISTED if total > MOST_LISTED else total]]
    if total > MOST_LISTED:
        return f"{', '.join(shown)} and {total - MOST_LISTED} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def derivative_name(name: str, order: int) -> str:
    """Name of a derivative: x, x', x'', x''', and x^(4) from the fourth on."""
    return name + "'" * order if order <= 3 else f"{name}^({order})"
