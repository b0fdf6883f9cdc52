"""Structure of a DAE that is given by its equations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.options import Limit, Parameters, about, option, takes
from dae_sdc.run.target import ModelLike, ModelOptions, make_model
from dae_sdc.sharing import one_at_a_time
from dae_sdc.structure.analysis import Structure, structure as analyse
from dae_sdc.structure.repair import METHODS, Repair, repair as mend
from dae_sdc.structure.signature import Signature


@dataclass(frozen=True, kw_only=True)
class StructureOptions(Limit, Parameters):
    """Options of :func:`structure`."""

    model: ModelLike | Signature | npt.NDArray[Any] | list[list[float]] = field(
        kw_only=False,
        metadata=about(
            "name in the library, file, model or function that returns one",
            "An array of orders of derivative is taken too, with -inf where an unknown does not occur.",
            like="str, Path, Model, callable, Signature or array",
            shell=False,
        ),
    )
    point: Mapping[Any, float] | None = option(
        None,
        "values of unknowns, derivatives and time by name at which the rank of the system Jacobian is found "
        "(a random point, with exact arithmetic)",
        like="mapping",
        shell=False,
    )
    differentiation: bool | None = option(
        None,
        "find the differentiation index (for models of up to some thousand equations)",
        "With True it is found however long it takes; if not given, as far as it takes a few seconds.",
        flag="true-index",
    )


@takes(StructureOptions)
@one_at_a_time
def structure(options: StructureOptions) -> Structure:
    """Index, degrees of freedom, blocks, stages and ranks of a DAE, see :class:`Structure`.

    {options}

    Returns
    -------
    Structure
        The result of the analysis; ``print`` shows it.

    Raises
    ------
    StructureError
        If equations and unknowns do not match, with their names.
    InputError
        For invalid options.

    Examples
    --------
    >>> found = ds.structure("pendulum")
    >>> found.index, found.dof
    (3, 2)
    """
    if isinstance(options.model, Signature | np.ndarray | list):
        return analyse(options.model)
    model = make_model(options.model, options.params)
    return analyse(model, point=options.point, differentiation=options.differentiation)


@dataclass(frozen=True, kw_only=True)
class RepairOptions(ModelOptions):
    """Options of :func:`repair`."""

    method: str = option(
        "auto",
        "how it is done (auto)",
        "Linear combinations of equations, copies of equations with new unknowns, or what fits.",
        choices=METHODS,
    )


@takes(RepairOptions)
@one_at_a_time
def repair(options: RepairOptions) -> Repair:
    """Change equations with a singular system Jacobian until it is regular.

    {options}

    Returns
    -------
    Repair
        ``.model``, ``.structure`` and the ``.steps`` taken.

    Raises
    ------
    InputError
        See :func:`dae_sdc.structure.repair.repair`.

    Examples
    --------
    >>> mended = ds.repair("robot-arm")
    >>> mended.structure.regular
    True
    """
    return mend(make_model(options.model, options.params), method=options.method)
