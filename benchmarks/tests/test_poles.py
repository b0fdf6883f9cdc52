"""Real matrices in the place of complex ones: their radii by iterating, and what stages do with them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.studies.poles import SAMPLES, WAYS, collocation, radii

NODES = 3


@pytest.mark.parametrize("way", WAYS)
def test_radii_are_those_of_the_iteration(way: str) -> None:
    A, T = collocation(NODES)[0], WAYS[way](NODES)
    known = radii(A, T)
    for axis, radius in zip((1j, -1.0), known, strict=True):
        rates = []
        for size in SAMPLES:
            error = np.random.default_rng(1).standard_normal(NODES).astype(np.complex128)
            z, sizes = axis * size, []
            for _ in range(60):
                error = np.linalg.solve(np.eye(NODES) - z * T, z * ((A - T) @ error))
                sizes.append(float(np.linalg.norm(error)))
                error /= max(sizes[-1], 1e-300)
            rates.append(np.exp(np.mean(np.log(np.maximum(sizes[20:], 1e-300)))))
        # The mean over iterations of a rate that may turn in a plane.
        assert max(rates) == pytest.approx(radius, abs=0.05)


def test_poles_are_what_their_names_say() -> None:
    A, _ = collocation(NODES)
    for way in ("distinct", "equal"):
        T = WAYS[way](NODES)
        assert np.array_equal(T, np.tril(T))
        assert len(np.unique(np.diagonal(T).round(12))) == (NODES if way == "distinct" else 1)
    assert np.array_equal(WAYS["diagonal"](NODES), np.diag(np.diagonal(WAYS["diagonal"](NODES))))
    # The lower factor makes the iteration nilpotent for infinitely stiff equations.
    left = np.eye(NODES) - np.linalg.solve(WAYS["distinct"](NODES), A)
    assert np.linalg.matrix_power(left, NODES) == pytest.approx(np.zeros((NODES, NODES)), abs=1e-12)
    assert max(radii(A, WAYS["equal"](NODES))) < max(radii(A, WAYS["distinct"](NODES)))
