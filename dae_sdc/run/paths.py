"""Paths of homotopies as a table: which way solutions of polynomials were found, and how well."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import TypeVar

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.deadline import within
from dae_sdc.errors import InputError, require_count
from dae_sdc.polynomials.tracking import NOWHERE, RECORD, PathRecord
from dae_sdc.run.results import Result, tabulated

T = TypeVar("T")
TYPES = {"homotopy": "i8", "path": "i8", "corrected": "?", "t": "f8", "step": "f8", "condition": "f8"}


@checked()
def record_paths(call: Callable[[], T], *, predictor_steps: int | None = None) -> tuple[T, Result]:
    """What a call returns, and the paths of homotopies that it follows.

    Parameters
    ----------
    call : callable
        What follows paths, such as a call of :func:`~dae_sdc.polynomials.homotopy.solve_polynomials`.
    predictor_steps : int, optional
        Number of equal Runge-Kutta steps in which each path is also followed without Newton's method.

    Returns
    -------
    result, paths : object, Result
        What ``call`` returns, and a row for each step: ``homotopy``, ``path``, whether it is ``corrected``,
        ``t`` from 1 to 0 behind the ``step``, ``condition`` number of the Jacobian in homogeneous
        coordinates, and parts ``re`` and ``im`` of the variables, NaN at infinity. Of a path that is followed
        again this is the last way; ways around t = 0 are left out.

    Raises
    ------
    InputError
        If no path is followed.

    Examples
    --------
    >>> system = ds.PolynomialSystem([[1, -2]], [[2], [0]])  # x^2 - 2
    >>> roots, paths = ds.record_paths(lambda: ds.solve_polynomials(system))
    >>> np.sort(paths["re"][paths["t"] == 0, 0]).round(6)
    array([-1.414214,  1.414214])
    """
    if predictor_steps is not None:
        require_count("predictor_steps", predictor_steps)
    record = PathRecord(predictor_steps or 0, [])
    with within(RECORD, record):
        result = call()
    if not record.rows:
        raise InputError("no paths were followed: nothing in the call is polynomial; leave the record away")
    values = np.array([*zip_longest(*(row[-1] for row in record.rows), fillvalue=NOWHERE)]).T
    rows = ((*row[:-1], x.real, x.imag) for row, x in zip(record.rows, values, strict=True))
    columns = [*TYPES.items(), ("re", "f8", values.shape[1:]), ("im", "f8", values.shape[1:])]
    return result, tabulated("paths", columns, rows, {"predictor_steps": record.predictor_steps})
