"""The state of a DAE: a packed vector whose two parts survive everything that pySDC does with it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import dill
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, StateShape, attach
from dae_sdc.errors import InputError


class Idle(ProblemDAE):
    """Three differential and two algebraic unknowns; its equations do not matter here."""

    def __init__(self) -> None:
        super().__init__(3, 2)

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
        return du


def five() -> MeshDAE:
    return Idle().state([1.0, -2.0, 3.0, -7.0, 5.0])


def plain(u: Any) -> list[float]:
    return np.asarray(u).tolist()


def test_the_differential_unknowns_come_first_and_the_algebraic_after() -> None:
    u = five()
    assert plain(u.diff) == [1.0, -2.0, 3.0]
    assert plain(u.alg) == [-7.0, 5.0]
    assert u.n_diff == 3


def test_writing_into_a_part_writes_into_the_state() -> None:
    u = five()
    u.diff[0] = 10.0
    u.alg[:] = [20.0, 30.0]
    assert plain(u) == [10.0, -2.0, 3.0, 20.0, 30.0]
    u.diff, u.alg = 1.0, [2.0, 3.0]
    assert plain(u) == [1.0, 1.0, 1.0, 2.0, 3.0]


def test_the_parts_share_memory_with_the_state() -> None:
    u = five()
    assert np.shares_memory(u, u.diff) and np.shares_memory(u, u.alg)
    assert not np.shares_memory(u.diff, u.alg)


def test_in_place_arithmetic_on_a_part_changes_the_state() -> None:
    u = five()
    u.diff += 1.0
    u.alg *= 2.0
    assert plain(u) == [2.0, -1.0, 4.0, -14.0, 10.0]


def test_in_place_arithmetic_on_a_part_held_by_name_changes_the_state() -> None:
    u = five()
    part = u.alg
    part += 1.0
    assert plain(u) == [1.0, -2.0, 3.0, -6.0, 6.0]


def test_in_place_arithmetic_works_in_place() -> None:
    u = five()
    same = u
    u += five()
    u *= 2.0
    u -= 1.0
    u /= 3.0
    assert u is same
    assert u.n_diff == 3
    np.testing.assert_allclose(np.asarray(same), (4.0 * np.asarray(five()) - 1.0) / 3.0, rtol=1e-15)


def test_in_place_arithmetic_on_a_row_of_the_stages_changes_the_stages() -> None:
    stages = np.zeros((2, 5))
    row = attach(stages[1], 3)
    row += five()
    row.alg -= 1.0
    assert plain(stages) == [[0.0] * 5, [1.0, -2.0, 3.0, -8.0, 4.0]]


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda u: u + u,
    "difference": lambda u: u - 0.5 * u,
    "scalar from the left": lambda u: 2.0 * u,
    "numpy scalar from the left": lambda u: np.float64(2.0) * u,
    "plain array from the left": lambda u: np.ones(5) + u,
    "plain array from the right": lambda u: u + np.ones(5),
    "negative": lambda u: -u,
    "power": lambda u: u**2,
    "exponential": lambda u: np.exp(u),
    "matrix times state": lambda u: np.diag([1.0, 2.0, 3.0, 4.0, 5.0]) @ u,
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_arithmetic_gives_a_state_with_the_same_parts(operation: Callable[[Any], Any]) -> None:
    result = operation(five())
    expected = operation(np.asarray(five()))
    assert isinstance(result, MeshDAE)
    assert result.n_diff == 3
    np.testing.assert_array_equal(np.asarray(result), expected)


def test_arithmetic_with_a_mask_gives_what_numpy_gives() -> None:
    u = five()
    out = np.add(u, u, where=u > 0.0, out=u.copy())
    assert plain(out) == [2.0, -2.0, 6.0, -7.0, 10.0]


def test_arithmetic_makes_new_values() -> None:
    u = five()
    v = u + 0.0
    v[0] = 100.0
    assert u[0] == 1.0


finite = st.floats(-1e6, 1e6)
vectors = hnp.arrays(np.float64, 5, elements=finite)


@given(values=vectors, others=vectors, a=finite, n_diff=st.integers(0, 5))
def test_taking_parts_commutes_with_linear_combinations(
    values: Any, others: Any, a: float, n_diff: int
) -> None:
    u, v = attach(values, n_diff), attach(others, n_diff)
    combined = a * u + v
    np.testing.assert_array_equal(np.asarray(combined.diff), a * np.asarray(u.diff) + np.asarray(v.diff))
    np.testing.assert_array_equal(np.asarray(combined.alg), a * np.asarray(u.alg) + np.asarray(v.alg))
    assert combined.diff.shape == (n_diff,)
    assert combined.alg.shape == (5 - n_diff,)


COPIES: dict[str, Callable[[MeshDAE], MeshDAE]] = {
    "constructor": MeshDAE,
    "method": lambda u: u.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda u: pickle.loads(pickle.dumps(u)),
    "dill": lambda u: dill.loads(dill.dumps(u)),
    "dill.copy": dill.copy,
}


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_a_copy_has_the_same_values_and_parts_and_memory_of_its_own(
    duplicate: Callable[[MeshDAE], MeshDAE],
) -> None:
    u = five()
    v = duplicate(u)
    assert type(v) is MeshDAE
    assert v.n_diff == 3
    assert plain(v) == plain(u)
    v.alg[0] = 100.0
    assert plain(u) == [1.0, -2.0, 3.0, -7.0, 5.0]


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_state_without_algebraic_unknowns_has_none(
    duplicate: Callable[[MeshDAE], MeshDAE],
) -> None:
    v = duplicate(MeshDAE(StateShape(2, None, np.dtype(np.float64), 2), val=3.0))
    assert plain(v.diff) == [3.0, 3.0]
    assert v.alg.shape == (0,)


@pytest.mark.parametrize(
    "duplicate", [MeshDAE, COPIES["pickle"], COPIES["dill"]], ids=["ctor", "pickle", "dill"]
)
def test_the_polynomial_of_the_last_step_travels_with_the_value(
    duplicate: Callable[[MeshDAE], MeshDAE],
) -> None:
    u = five()
    u.polynomial = ("what the last step knows", 1.0)
    assert duplicate(u).polynomial == u.polynomial


def test_arithmetic_drops_the_polynomial_because_the_value_is_another() -> None:
    u = five()
    u.polynomial = "of the value before"
    for other in (u + 0.0, 2.0 * u, u - u, -u, u[:]):
        assert other.polynomial is None
    assert u.polynomial == "of the value before"


def test_the_absolute_value_is_the_maximum_norm() -> None:
    u = five()
    assert abs(u) == 7.0
    assert isinstance(abs(u), float)
    assert abs(u.diff) == 3.0
    assert abs(u.alg) == 7.0
    assert abs(u - u) == 0.0


def test_the_absolute_value_shows_a_nan() -> None:
    u = five()
    u[2] = np.nan
    assert np.isnan(abs(u))


def test_the_absolute_value_of_an_empty_part_is_zero() -> None:
    u = MeshDAE(StateShape(2, None, np.dtype(np.float64), 2), val=3.0)
    assert u.alg.size == 0
    assert abs(u.alg) == 0.0


CUTS: dict[str, Callable[[MeshDAE], Any]] = {
    "shorter slice": lambda u: u[:2],
    "every other": lambda u: u[::2],
    "matrix": lambda u: u.reshape(1, 5),
    "chosen entries": lambda u: u[[0, 1]],
    "where positive": lambda u: u[u > 0.0],
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("part", ["diff", "alg"])
def test_an_array_cut_from_a_state_has_no_parts(cut: Callable[[MeshDAE], Any], part: str) -> None:
    piece = cut(five())
    assert piece.n_diff is None
    with pytest.raises(
        AttributeError, match="cut from a state has no differential and algebraic part"
    ) as error:
        getattr(piece, part)
    assert str(piece.shape) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_slice_of_everything_is_still_a_state() -> None:
    u = five()
    assert plain(u[:].alg) == [-7.0, 5.0]
    u[:][4] = 0.0
    assert u[4] == 0.0


def test_the_flat_view_of_a_matrix_of_one_state_is_cut() -> None:
    """Only the problem knows where the parts of such a vector are: ``attach`` says it."""
    row = five().reshape(1, 5)[0]
    assert row.n_diff is None
    assert plain(attach(row, 3).alg) == [-7.0, 5.0]


def test_entries_are_numbers() -> None:
    assert five()[3] == -7.0
    assert not isinstance(five()[3], MeshDAE)
    assert float(np.max(five())) == 5.0


# --- what pySDC does with states ------------------------------------------------------------------


def test_a_shape_makes_a_state_of_zeros_or_of_a_given_value() -> None:
    P = Idle()
    assert plain(P.dtype_u(P.init)) == [0.0] * 5
    assert plain(P.dtype_u(P.init, val=1.0)) == [1.0] * 5
    assert plain(P.dtype_f(P.init).diff) == [0.0] * 3
    assert P.dtype_u(P.init, val=1.0).n_diff == 3


def test_a_state_makes_a_copy_of_a_state() -> None:
    P = Idle()
    u = five()
    v = P.dtype_u(u)
    v[:] = 0.0
    assert plain(u) == [1.0, -2.0, 3.0, -7.0, 5.0]
    assert v.n_diff == 3


def test_the_first_entry_of_init_is_the_shape_of_a_state() -> None:
    P = Idle()
    u = five()
    assert u.reshape(P.init[0]).shape == u.shape
    assert plain(u.reshape(P.init[0]).alg) == [-7.0, 5.0]
    assert np.zeros(P.init[0]).shape == u.shape
    assert P.init[1] is None
    assert P.init[2] == np.dtype(np.float64)


def test_init_survives_pickle_and_dill() -> None:
    """pySDC copies steps with dill, and ``init`` with them."""
    init = Idle().init
    assert pickle.loads(pickle.dumps(init)) == init
    again = dill.loads(dill.dumps(init))
    assert MeshDAE(again).n_diff == 3


@pytest.mark.parametrize("shape", [4, (4,), (4, 6)])
def test_a_plain_shape_of_pysdc_is_that_of_each_part_as_in_its_dae_project(shape: Any) -> None:
    u = MeshDAE((shape, None, np.dtype(np.float64)), val=2.0)
    assert u.diff.shape == u.alg.shape == (shape if isinstance(shape, tuple) else (shape,))
    assert (u.diff == 2.0).all() and (u.alg == 2.0).all()
    assert MeshDAE(u).n_diff == u.n_diff == 4


def test_the_values_of_another_mesh_can_be_assigned() -> None:
    u, v = five(), Idle().dtype_u(Idle().init)
    v[:] = u
    assert plain(v) == plain(u)
    assert v.n_diff == 3


@pytest.mark.parametrize("wrong", [[1.0, 2.0], 3, None, np.zeros(3)], ids=["list", "number", "None", "array"])
def test_anything_else_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(InputError, match=f"shape or another MeshDAE; got {type(wrong).__name__}") as error:
        MeshDAE(wrong)
    assert "\n" not in str(error.value)
