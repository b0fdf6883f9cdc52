"""Structure of a DAE that is given by its equations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.arguments import checked
from dae_sdc.run.models import ModelLike, make_model
from dae_sdc.sharing import one_at_a_time
from dae_sdc.structure.analysis import Structure, structure as analyse
from dae_sdc.structure.repair import Repair, repair as mend
from dae_sdc.structure.signature import Signature


@checked()
@one_at_a_time
def structure(
    model: ModelLike | Signature | npt.NDArray[Any] | list[list[float]],
    *,
    point: Mapping[Any, float] | None = None,
    differentiation: bool | None = None,
    params: Mapping[str, Any] | None = None,
) -> Structure:
    """Index, degrees of freedom, blocks, stages and ranks of a DAE, see :class:`Structure`.

    Parameters
    ----------
    model : str, Path, Model, callable, Signature or array
        Name in the library, file, model or function that returns one; or orders of derivative alone, as an
        array with -inf where an unknown does not occur.
    point : mapping, optional
        Values of unknowns, derivatives and time by name at which the rank of the system Jacobian is found; a
        random point, with exact arithmetic, if not given.
    differentiation : bool, optional
        Whether the differentiation index is found, however long it takes; as far as it takes a few seconds if
        not given.
    params : mapping, optional
        Arguments of a model of the library, or values of parameters.

    Returns
    -------
    Structure
        What is known of the equations; ``print`` shows it.

    Raises
    ------
    StructureError
        If equations and unknowns do not match; with names.
    InputError
        If something given cannot be used.
    """
    if isinstance(model, Signature | np.ndarray | list):
        return analyse(model)
    return analyse(make_model(model, params), point=point, differentiation=differentiation)


@checked()
@one_at_a_time
def repair(model: ModelLike, *, method: str = "auto", params: Mapping[str, Any] | None = None) -> Repair:
    """Change equations whose system Jacobian is singular until their structure is right.

    Parameters
    ----------
    model : str, Path, Model or callable
        As for :func:`structure`.
    method : {"auto", "lc", "augmentation"}
        Linear combinations of equations, copies of equations with new unknowns, or what fits.
    params : mapping, optional
        As for :func:`structure`.

    Returns
    -------
    Repair
        ``.model``, ``.structure`` and the ``.steps`` taken.

    Raises
    ------
    InputError
        See :func:`dae_sdc.structure.repair.repair`.
    """
    return mend(make_model(model, params), method=method)
