"""What scripts of OpenModelica ask for, and the values that they print."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.measuring.modelica import cases, one

MODEL = """loadString("
model Decay
  parameter Real k = 1;
  Real x(start=1, fixed=true), y[2];
equation
  der(x) = -k*x;
  y = {x, 2*x};
end Decay;
"); getErrorString();
"""
RUN = 'simulate(Decay, stopTime = 2.0, simflags="-override=x=3,k=0.5 -lv=LOG_SOTI"); getErrorString();\n'
LISTS = "val(x, {0.0, 2.0});\nval(y[2], 1.0);\n"
ENDS = 3.0 * math.exp(-1.0), 6.0 * math.exp(-0.5)
PRINTED = f"// Result:\n// true\n// {{3.0,{ENDS[0]}}}\n// {ENDS[1]}\n// endResult\n"


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_run_has_the_numbers_of_its_script_and_is_compared_with_what_that_prints(
    tmp_path: Path, is_wrong: bool
) -> None:
    text = MODEL + RUN + LISTS + PRINTED
    (tmp_path / "decay.mos").write_text(text.replace("3.0,1.", "3.0,2.") if is_wrong else text)
    (case,) = cases(tmp_path)
    assert {name: case.numbers[name] for name in ("x", "k", "stopTime")} == {
        "x": 3.0,
        "k": 0.5,
        "stopTime": 2.0,
    }
    assert [each[:2] for each in case.expected] == [("x", 0.0), ("x", 2.0), ("y[2]", 1.0)]
    answer = one({**case._asdict(), "libraries": [], "limit": 60.0})
    assert (answer["stage"], answer["check"]) == (4 if is_wrong else 5, "script")


@pytest.mark.parametrize(
    ("old", "new"),
    [("// true", "// 7.0"), ("-lv=", "-s=qss -lv="), ("val(y", "y := val(y")],
    ids=["other numbers are printed", "a method of large errors", "a value that is not printed"],
)
def test_values_that_may_be_others_are_not_taken(tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / "decay.mos").write_text((MODEL + RUN + LISTS + PRINTED).replace(old, new))
    (case,) = cases(tmp_path)
    assert not case.expected
