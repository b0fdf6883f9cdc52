"""Tables of the Modelica library: the values that theory, NumPy and SciPy have for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import interpolate

import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.modelica.reader import read_modelica_text

X, Y = np.array([0.0, 1.0, 2.5, 3.0, 4.5]), np.array([1.0, 3.0, 2.0, 2.5, -1.0])
ROWS = "; ".join(f"{x}, {y}" for x, y in zip(X, Y, strict=True))
TYPES = "Modelica.Blocks.Types"
INSIDE = np.array([0.2, 0.9, 1.3, 2.6, 2.9, 4.4])


def values(text: str, name: str, times: object, reader: str = "own") -> np.ndarray:
    """The values of an unknown at some times."""
    model = read_modelica_text(text, reader=reader)
    solution = ds.solve(model, u0=ds.initial(model).u, rtol=1e-8)
    assert solution.success, solution.message
    return np.asarray(solution.at(np.asarray(times))[name])


def table(smoothness: str, extrapolation: str = "LastTwoPoints") -> str:
    """A model whose table is asked for the time less 5."""
    kinds = f"smoothness={TYPES}.Smoothness.{smoothness}, extrapolation={TYPES}.Extrapolation.{extrapolation}"
    return f"""model M
  Modelica.Blocks.Tables.CombiTable1Ds T(table=[{ROWS}], {kinds});
equation
  T.u = time - 5;
  annotation(experiment(StopTime=20));
end M;"""


def steps(x: np.ndarray) -> np.ndarray:
    return Y[np.searchsorted(X, x, side="right") - 1]


def monotone(x: np.ndarray) -> np.ndarray:
    lines = np.diff(Y) / np.diff(X)
    slopes = interpolate.PchipInterpolator(X, Y).derivative()(X[1:-1])
    return interpolate.CubicHermiteSpline(X, Y, [lines[0], *slopes, lines[-1]])(x)


KINDS = {
    "LinearSegments": lambda x: np.interp(x, X, Y),
    "ConstantSegments": steps,
    "ContinuousDerivative": interpolate.Akima1DInterpolator(X, Y),
    "MonotoneContinuousDerivative1": monotone,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", ["own", "rumoca"])
def test_a_table_has_the_values_of_its_segments(kind: str, reader: str) -> None:
    reached = values(table(kind), "T.y[1]", INSIDE + 5, reader)
    np.testing.assert_allclose(reached, KINDS[kind](INSIDE), atol=1e-7)


@pytest.mark.parametrize("kind", ["LinearSegments", "ConstantSegments"])
def test_a_table_goes_on_through_its_last_two_points(kind: str) -> None:
    beyond = np.array([-2.0, 6.0])
    lines = np.polyval(np.polyfit(X[:2], Y[:2], 1), -2.0), np.polyval(np.polyfit(X[-2:], Y[-2:], 1), 6.0)
    np.testing.assert_allclose(values(table(kind), "T.y[1]", beyond + 5), lines, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_holds_its_last_points(kind: str) -> None:
    reached = values(table(kind, "HoldLastPoint"), "T.y[1]", np.array([-2.0, 6.0]) + 5)
    np.testing.assert_allclose(reached, Y[[0, -1]], atol=1e-7)


@pytest.mark.parametrize("kind", ["LinearSegments", "ConstantSegments"])
def test_a_table_is_periodic(kind: str) -> None:
    for turns in (-1, 2):
        reached = values(table(kind, "Periodic"), "T.y[1]", INSIDE + turns * X[-1] + 5)
        np.testing.assert_allclose(reached, KINDS[kind](INSIDE), atol=1e-6)


def test_a_periodic_table_has_the_slopes_of_its_repetition() -> None:
    x = np.concatenate([X[:-1] + turns * X[-1] for turns in range(-3, 4)])
    y = np.tile(np.array([1.0, 3.0, 2.0, 2.5]), 7)
    rows = "; ".join(f"{a}, {b}" for a, b in zip(X, [1.0, 3.0, 2.0, 2.5, 1.0], strict=True))
    text = table("ContinuousDerivative", "Periodic").replace(ROWS, rows)
    reached = values(text, "T.y[1]", INSIDE + 5)
    np.testing.assert_allclose(reached, interpolate.Akima1DInterpolator(x, y)(INSIDE), atol=1e-7)


@pytest.mark.parametrize("reader", ["own", "rumoca"])
def test_a_table_without_extrapolation_ends_the_run(reader: str) -> None:
    text = table("LinearSegments", "NoExtrapolation").replace("time - 5", "time")
    model = read_modelica_text(text, reader=reader)
    solution = ds.solve(model, u0=ds.initial(model).u, rtol=1e-6)
    assert not solution.success
    assert "the table T ends" in solution.message
    np.testing.assert_allclose(solution.t[-1], X[-1], atol=1e-5)


@pytest.mark.parametrize("reader", ["own", "rumoca"])
def test_a_table_of_two_numbers_is_bilinear(reader: str) -> None:
    def height(a: float, b: float) -> float:
        return 2 + 3 * a - b + a * b

    rows, columns = [0.0, 1.0, 4.0], [-1.0, 0.5, 2.0]
    lines = [[0.0, *columns], *([a, *(height(a, b) for b in columns)] for a in rows)]
    matrix = "; ".join(", ".join(map(str, line)) for line in lines)
    text = f"""model M
  Modelica.Blocks.Tables.CombiTable2Ds T(table=[{matrix}]);
equation
  T.u1 = 6*time - 1;
  T.u2 = 3 - 5*time;
end M;"""
    times = np.array([0.0, 0.3, 0.5, 0.8, 1.0])
    np.testing.assert_allclose(
        values(text, "T.y", times, reader), height(6 * times - 1, 3 - 5 * times), atol=1e-7
    )


@pytest.mark.parametrize("table", ["[0, 1, 2]", "[0; 1; 2]"])
def test_a_table_of_two_numbers_without_rows_or_columns_is_refused(table: str) -> None:
    text = f"model M Modelica.Blocks.Tables.CombiTable2Ds T(table={table}); equation T.u1=0; T.u2=0; end M;"
    with pytest.raises(InputError, match="a table of two numbers must have rows and columns, "):
        read_modelica_text(text, reader="own")


def test_a_table_of_times_jumps_where_a_time_stands_twice() -> None:
    text = """model M
  Modelica.Blocks.Sources.CombiTimeTable T(table=[0, 0; 1, 2; 1, 3; 3, 1], offset={10}, startTime=2,
    timeScale=2);
  Real x(start=0, fixed=true);
equation
  der(x) = T.y[1];
  annotation(experiment(StopTime=8));
end M;"""
    # Before t = 2 the offset alone, behind it twice the areas of a triangle and a trapezium, 1 and 4.
    np.testing.assert_allclose(values(text, "x", [2.0, 4.0, 8.0]), [20.0, 42.0, 90.0], atol=1e-5)
    np.testing.assert_allclose(values(text, "T.y[1]", [1.0, 3.0, 4.5]), [10.0, 11.0, 12.75], atol=1e-7)


FILES = {
    "levels.txt": "#1\ndouble other(1, 2)\n7 7\ndouble levels(3, 2) # of a tank\n0 1\n 2, 5 # top\n3\t4;\n",
    "levels.csv": "t,h\n0,1\n2,5\n3,4\n",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("reader", ["own", "rumoca"])
def test_a_table_is_read_from_a_file(name: str, reader: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name])
    text = f"""model M
  Modelica.Blocks.Tables.CombiTable1Ds T(tableOnFile=true, tableName="levels", fileName="{tmp_path / name}");
equation
  T.u = 3*time;
end M;"""
    np.testing.assert_allclose(values(text, "T.y[1]", [1 / 3, 2.5 / 3], reader), [3.0, 4.5], atol=1e-7)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("#1\ndouble other(1, 2)\n7 7\n", "has no table levels"),
        ("#1\ndouble levels(2, 2)\n7 7 8\n", "has no 2 rows of 2 numbers"),
        ("#1\ndouble levels(1, 2)\n7 x\n", "has no 1 rows of 2 numbers"),
        (None, "cannot be read"),
    ],
)
def test_a_file_without_the_table_is_refused(content: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "levels.txt"
    if content is not None:
        path.write_text(content)
    arguments = f'tableOnFile=true, tableName="levels", fileName="{path}"'
    text = f"model M Modelica.Blocks.Tables.CombiTable1Ds T({arguments}); equation T.u = time; end M;"
    with pytest.raises(InputError, match=words):
        read_modelica_text(text, reader="own")
