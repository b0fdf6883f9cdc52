"""Listings of pySDC's DAE project with their imports alone changed: they run, or are refused in a line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pySDC.projects.DAE as project
import pytest

import dae_sdc as ds

ROOT = Path(next(iter(project.__path__)))
PROBLEMS = sorted(path.name for path in (ROOT / "problems").glob("*.py"))
IMPORT = re.compile(r"from pySDC\.projects\.DAE[.\w]* import")


def listing(file: str) -> dict[str, Any]:
    """What a file of the project defines where its names of the project are imported from here."""
    names: dict[str, Any] = {"__name__": "listing"}
    text = IMPORT.sub("from dae_sdc import", (ROOT / file).read_text(encoding="utf-8"))
    exec(compile(text, file, "exec"), names)
    return names


@pytest.mark.parametrize("file", PROBLEMS)
def test_a_problem_of_the_project_on_our_base_is_told_in_a_line_what_to_write(file: str) -> None:
    classes = [one for one in listing(f"problems/{file}").values() if isinstance(one, type)]
    own = [cls for cls in classes if cls.__module__ == "listing"]
    assert own
    for cls in own:
        with pytest.raises(ds.InputError) as error:
            cls(newton_tol=1e-10)
        said = str(error.value)
        assert (
            "n_diff and n_alg in place of nvars=" in said and "keep ProblemDAE of pySDC.projects.DAE" in said
        )
        assert "\n" not in said


@pytest.mark.parametrize("script", ["run_convergence_test", "run_iteration_test"])
def test_a_study_of_the_project_runs_with_our_classes(script: str) -> None:
    names = listing(f"run/{script}.py")
    description, controller_params, run_params = names["setup"]()
    run_params |= {"tend": 0.02, "qd_list": ["LU"]}
    if script == "run_convergence_test":
        run_params["dt_list"] = [0.02, 0.01]
    else:
        description["level_params"]["dt"] = 1e-2
    data = names["run"](description, controller_params, run_params)
    assert (
        description["problem_class"] is ds.SimpleDAE and description["sweeper_class"] is ds.FullyImplicitDAE
    )
    for entry in data["LU"].values():
        assert (np.asarray(entry["error"]) < 1e-4).all(), entry


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that stays open there
def test_a_playground_of_the_project_runs_with_our_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    listing("run/fully_implicit_dae_playground.py")["main"]()
    assert list(tmp_path.rglob("*.p"))
