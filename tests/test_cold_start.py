"""A process with warm caches solves without numba, which compiles, and without SymPy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dae_sdc as ds
from dae_sdc.sharing import read_kept, write_kept

PACKAGE = Path(ds.__file__).parent

SOLVES = {
    "problem": "s = ds.solve('pendulum', rtol=1e-6)",
    "sparse problem": "s = ds.solve('transmission-line', rtol=1e-4)",
    "function": """
def f(t, u, du):
    return [du[0] - u[1], du[1] + u[0]]
s = ds.solve(f, u0=[1.0, 0.0], t_end=1.0, rtol=1e-6)
""",
}
ENDS = """
print(s.u[-1].tobytes().hex())
print(*(name in sys.modules for name in ("numba", "sympy")))
"""

KERNEL = """
import sys
from dae_sdc.dae.problem import ProblemDAE
{imports}
def kernel(t, u, du, p, out):
    {body}
class P(ProblemDAE):
    residual_kernel = kernel
problem = P(1, 0)
{before}
for value in {values}:
    found = problem.eval_f(problem.state([value]), problem.state([1.0]), 0.5)[0]
    print(found, "numba" in sys.modules)
"""


def kernel(
    body: str = "out[0] = t + du[0] + u[0]",
    imports: str = "",
    before: str = "",
    values: tuple[float, ...] = (2.0,),
) -> str:
    return KERNEL.format(body=body, imports=imports, before=before, values=values)


def run(file: Path, cache: Path | None, package: Path = PACKAGE) -> tuple[list[str], str]:
    """What a process prints that has this cache, or the one that all tests have, and its error output."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    command = [sys.executable, "-P", str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("name", SOLVES)
def test_a_process_with_warm_caches_imports_neither_numba_nor_sympy(name: str, tmp_path: Path) -> None:
    file = tmp_path / "solves.py"
    file.write_text(f"import sys\nimport dae_sdc as ds\n{SOLVES[name]}\n{ENDS}")
    (state, _), _ = run(file, None)
    assert run(file, None) == ([state, "False False"], "")


COMPILED, LOADED = ["3.5 True"], (["3.5 False"], "")


@pytest.fixture
def warm(tmp_path: Path) -> tuple[Path, Path]:
    """The file of a program that evaluates a kernel, and the cache that a first process has filled."""
    file, cache = tmp_path / "evaluates.py", tmp_path / "cache"
    file.write_text(kernel())
    assert run(file, cache)[0] == COMPILED
    assert run(file, cache) == LOADED
    return file, cache


Warm = tuple[Path, Path]


def files(cache: Path, kind: str) -> list[Path]:
    return sorted((cache / "dae_sdc_functions").glob(f"*.{kind}"))


def test_a_cache_that_can_only_be_read_serves(warm: Warm) -> None:
    file, cache = warm
    places = [cache, *cache.rglob("*")]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    try:
        assert run(file, cache) == LOADED
    finally:
        for place in places:
            place.chmod(0o755)


@pytest.mark.parametrize("kind", ["o", "at"])
def test_a_broken_file_is_named_and_its_function_compiled_anew(kind: str, warm: Warm) -> None:
    file, cache = warm
    broken, *_ = files(cache, kind)
    broken.write_bytes(broken.read_bytes()[:-9])
    printed, told = run(file, cache)
    assert printed == COMPILED
    assert re.search(re.escape(f"{broken} was damaged"), told)
    assert run(file, cache) == LOADED


@pytest.mark.parametrize("kind", ["o", "at"])
def test_a_function_whose_file_is_gone_is_compiled_anew(kind: str, warm: Warm) -> None:
    file, cache = warm
    for path in files(cache, kind):
        path.unlink()
    assert run(file, cache)[0] == COMPILED
    assert run(file, cache) == LOADED


def test_an_object_that_refers_to_what_is_not_there_is_compiled_anew(warm: Warm) -> None:
    """LLVM would end the process."""
    file, cache = warm
    (foreign,) = (path for path in files(cache, "o") if path.name.startswith("kernel-"))
    head, _, code = (read_kept(foreign) or b"").partition(b"\n")
    assert write_kept(foreign, head + b"\tno_function_of_this_name\n" + code)
    assert run(file, cache)[0] == COMPILED
    assert run(file, cache) == LOADED


def copy_of_package(folder: Path) -> Path:
    shutil.copytree(PACKAGE, folder / "dae_sdc", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "dae_sdc"


def test_another_text_of_a_compiled_function_is_compiled(warm: Warm, tmp_path: Path) -> None:
    file, cache = warm
    package = copy_of_package(tmp_path)
    place = package / "dae" / "compiling.py"
    text = place.read_text(encoding="utf-8")
    assert text.count("call_residual(address, t, numbers_of(u)") == 1
    changed = text.replace(
        "call_residual(address, t, numbers_of(u)", "call_residual(address, 2.0 * t, numbers_of(u)"
    )
    place.write_text(changed, encoding="utf-8")
    assert run(file, cache, package)[0] == ["4.0 True"]
    assert run(file, cache, package) == (["4.0 False"], "")
    assert run(file, cache) == LOADED, "what the other checkout has compiled is still there"


CHANGE = """
from pathlib import Path
import dae_sdc
place = Path(dae_sdc.__file__).parent / "dae" / "compiling.py"
place.write_text(place.read_text() + "\\n")
"""


def test_files_that_change_while_a_process_runs_do_not_tell_what_it_has(
    tmp_path: Path,
) -> None:
    file, cache, package = tmp_path / "evaluates.py", tmp_path / "cache", copy_of_package(tmp_path)
    file.write_text(kernel(before=CHANGE))
    for _ in range(2):
        assert run(file, cache, package)[0] == COMPILED
        assert files(cache, "o") and not files(cache, "at")


def test_an_exception_in_loaded_code_is_shown_as_numba_shows_it(tmp_path: Path) -> None:
    file, cache = tmp_path / "raises.py", tmp_path / "cache"
    body = "if u[0] < 0.0:\n        raise ValueError('no number below zero')\n    out[0] = u[0]"
    file.write_text(kernel(body, values=(2.0, -2.0)))
    (compiled, first), (loaded, second) = (run(file, cache) for _ in range(2))
    assert compiled[0] == "2.0 True" and loaded[0] == "2.0 False"
    assert compiled[1].endswith("True") and loaded[1].endswith("True"), "numba shows it"
    for told in (first, second):
        assert "Exception ignored" in told and "ValueError: no number below zero" in told


def test_a_kernel_that_makes_arrays_is_kept_and_has_the_memory_of_numba(tmp_path: Path) -> None:
    file, cache = tmp_path / "arrays.py", tmp_path / "cache"
    body = "work = np.zeros(2)\n    work[0] = u[0]\n    out[0] = t + du[0] + work.sum()"
    file.write_text(kernel(body, imports="import numpy as np"))
    assert run(file, cache)[0] == COMPILED
    kept = files(cache, "o")
    assert run(file, cache)[0] == COMPILED
    assert files(cache, "o") == kept
