"""Masked arrays are refused wherever numbers are taken: their masked entries have no value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dae_sdc as ds

MASKED = np.ma.array([1.0, 2.0], mask=[False, True])


def decay(t: Any, u: Any, du: Any) -> list[Any]:
    return [du[0] + u[0], u[1] - 2.0 * u[0]]


class Returned(ds.ProblemDAE):
    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=2, n_alg=0, **settings)

    def eval_f(self, u: Any, du: Any, t: Any) -> Any:
        return np.ma.array(np.asarray(du) + np.asarray(u), mask=[False, True])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"u0": MASKED}, "u0 is a masked array"),
        ({"u0": [1.0, np.ma.masked]}, "u0 is a masked array, or has masked entries"),
        ({"u0": [1.0, 2.0], "t_eval": MASKED / 4.0}, "t_eval is a masked array"),
        ({"u0": [1.0, 2.0], "atol": MASKED}, "atol is a masked array"),
    ],
)
def test_masked_arguments_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ds.InputError, match=named):
        ds.solve(decay, t_end=1.0, rtol=1e-6, **options)


def test_a_masked_residual_is_refused() -> None:
    with pytest.raises(ds.InputError, match="masked entries have no value"):
        ds.solve(Returned, u0=[1.0, 1.0], t_end=1.0, rtol=1e-6, trace=False)
