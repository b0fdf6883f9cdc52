"""Newton iterations with other matrices: quasi-Newton updates of a contact, and real poles of stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.studies.poles import SAMPLES, WAYS, collocation, radii
from benchmarks.studies.quasi_newton import _machine
from benchmarks.studies.quasi_newton.study import UPDATES, counted, random_contacts
from dae_sdc.problems.tyre import BrushTyre

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


NAMES = list(UPDATES)
SETTINGS = (1e-9, 4e-6, 100)


def update(name: str, h: Any, s: Any, y: Any, before: Any = None) -> Any:
    """The updated inverse, with s as the new F, which no update needs to be another one."""
    m, z, new = len(s), np.empty(len(s)), h.copy()
    last = np.zeros((3, m)) if before is None else np.array([*before, np.ones(m)])
    hy = h @ y
    _machine.weights_of(NAMES.index(name), h, s, y, hy, s, last, z)
    _machine.updated(new, s, hy, y, z)
    return new


@pytest.mark.parametrize("name", NAMES)
def test_an_updated_inverse_maps_the_last_change_to_the_last_step(name: str) -> None:
    rng = np.random.default_rng(1)
    h, s, y = rng.standard_normal((4, 4)), rng.standard_normal(4), rng.standard_normal(4)
    new = update(name, h, s, y)
    assert new @ y == pytest.approx(h @ y if name == "PIM" else s, abs=1e-12)
    assert np.linalg.matrix_rank(new - h, tol=1e-10) == (name != "PIM")


def test_updates_are_the_least_changes_that_their_names_say() -> None:
    rng = np.random.default_rng(2)
    h, s, y = rng.standard_normal((4, 4)), rng.standard_normal(4), rng.standard_normal(4)
    jacobian = np.linalg.inv(h)
    good = jacobian + np.outer(y - jacobian @ s, s) / (s @ s)
    assert np.linalg.inv(update("BGM", h, s, y)) == pytest.approx(good, abs=1e-9)
    assert update("BBM", h, s, y) == pytest.approx(h + np.outer(s - h @ y, y) / (y @ y), abs=1e-12)
    columns = np.abs(np.linalg.inv(update("CUM", h, s, y)) - jacobian).max(axis=0) > 1e-9
    assert columns.tolist() == (np.abs(s) == np.abs(s).max()).tolist()
    columns = np.abs(update("ICM", h, s, y) - h).max(axis=0) > 1e-12
    assert columns.tolist() == (np.abs(y) == np.abs(y).max()).tolist()


def test_the_combined_update_is_one_of_both_by_the_test_of_martinez() -> None:
    rng = np.random.default_rng(3)
    chosen = set()
    for _ in range(20):
        h, (s, y, *before) = rng.standard_normal((4, 4)), rng.standard_normal((4, 4))
        found = update("BCM", h, s, y, before)
        good = abs(s @ before[0]) / abs(s @ h @ y) < abs(y @ before[1]) / (y @ y)
        assert found == pytest.approx(update("BGM" if good else "BBM", h, s, y))
        chosen.add(bool(good))
    assert chosen == {True, False}


@pytest.mark.parametrize("name", ["newton", "ours", *NAMES])
def test_what_counts_as_solved_is_a_solution(name: str) -> None:
    tyre = BrushTyre(ribs=3)
    cases = random_contacts(tyre, 20, 4)
    contact = _machine.contact_of(tyre)
    method = {"newton": _machine.NEWTON, "ours": _machine.OURS}.get(name)
    method = NAMES.index(name) if method is None else method
    for k in range(20):
        one = tuple(part[k : k + 1] for part in cases)
        solved = _machine.run(contact, one, method, False, False, 0.0, SETTINGS)[0, 0]
        if solved:
            found = contact.arrays["x"].copy()
            _machine.run(contact, one, _machine.OURS, True, False, 0.0, (1e-13, 1e-8, 100))
            assert found == pytest.approx(contact.arrays["x"], abs=1e-8)
    assert (cases.parameters[:, 0] == 3.0).all()


def test_updates_in_steps_give_the_same_solution() -> None:
    run = "chemical-akzo-nobel", "fully-implicit"
    plain, updated = (counted(kind, *run) for kind in ("ours", "BGM stays"))
    assert updated.u[-1] == pytest.approx(plain.u[-1], rel=1e-5)
    assert updated.stats["newton"] < plain.stats["newton"]
