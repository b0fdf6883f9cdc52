"""Machine code is kept under what it holds, in one file that one process makes while others wait."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from numba import njit, types
from numba.extending import intrinsic

import dae_sdc as ds
from dae_sdc import sharing
from dae_sdc.dae.code_digest import IMPLEMENTATIONS, kept_digest
from dae_sdc.dae.compiling import compiled_as
from dae_sdc.dae.kernels import inlined
from dae_sdc.sharing import alone

PACKAGE = Path(ds.__file__).parent

TEXT = """
import math
{imports}
def other(x):
    return {other}
def law(x, y={default}):
    {document}
    return {body}
"""


def law_of(
    body: str = "rate * called(x) + y",
    *,
    rate: Any = 2.0,
    called: Any = None,
    default: str = "1.0",
    other: str = "x",
    imports: str = "",
    document: str = '""',
) -> Any:
    text = TEXT.format(body=body, default=default, other=other, imports=imports, document=document)
    space: dict[str, Any] = {"rate": rate, "called": called or (lambda x: x * x)}
    exec(compile(text, __file__, "exec"), space)
    return space["law"]


def shifted(offset: float) -> Callable[[float], float]:
    return lambda x: x + offset


def sum_of(factor: int) -> Any:
    @intrinsic
    def scaled(context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fmul(arguments[0], context.get_constant(types.float64, factor))

        return types.float64(types.float64), generate

    return scaled


def implemented(factor: float) -> Any:
    def plain(x: float) -> float:
        return x

    compiled_as(plain)(lambda x: factor * x)
    return plain


CHANGES: dict[str, tuple[Any, Any]] = {
    "constant": (law_of("2.0 * x"), law_of("3.0 * x")),
    "type of a constant": (law_of("2.0 * x"), law_of("2 * x")),
    "operation": (law_of("x + x"), law_of("x - x")),
    "function of a library": (law_of("math.sin(x)"), law_of("math.cos(x)")),
    "global number": (law_of(), law_of(rate=3.0)),
    "global array": (law_of("rate[1] * x", rate=np.ones(2)), law_of("rate[1] * x", rate=np.arange(2.0))),
    "global tuple": (law_of("rate[1] * x", rate=(1, 2)), law_of("rate[1] * x", rate=(1, 3))),
    "default": (law_of(), law_of(default="2.0")),
    "function that is called": (law_of(), law_of(called=lambda x: x * x * x)),
    "number that a called function has": (law_of(called=shifted(1.0)), law_of(called=shifted(2.0))),
    "function called by one that is called": (
        law_of(called=law_of(called=lambda x: x)),
        law_of(called=law_of(called=lambda x: -x)),
    ),
    "compiled function": (law_of(called=njit(lambda x: x)), law_of(called=njit(lambda x: -x))),
    "option of a compiled function": (
        law_of(called=njit(shifted(1.0))),
        law_of(called=njit(error_model="numpy")(shifted(1.0))),
    ),
    "inlined function": (law_of(called=inlined(lambda x: x)), law_of(called=inlined(lambda x: -x))),
    "intrinsic": (law_of(called=sum_of(2)), law_of(called=sum_of(3))),
    "form in compiled code": (law_of(called=implemented(2.0)), law_of(called=implemented(3.0))),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_digest_changes_with_all_that_machine_code_holds(what: str) -> None:
    one, other = map(kept_digest, CHANGES[what])
    assert one is not None and other is not None
    assert one != other


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"imports": "# a comment\n\n\nimport os"},
        {"other": "2.0 * x"},
        {"document": '"""Another docstring."""'},
    ],
    ids=["nothing", "lines above", "another function", "docstring"],
)
def test_a_digest_does_not_change_with_anything_else(more: dict[str, str]) -> None:
    square = law_of("x * x")
    assert kept_digest(law_of(called=square)) == kept_digest(law_of(called=square, **more))


def test_a_method_of_a_structure_is_part_of_what_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from dae_sdc.compiled import machine_newton

    before = kept_digest(machine_newton._solve_at)
    assert before is not None
    monkeypatch.setitem(IMPLEMENTATIONS, "move", [lambda nodes: None])
    assert kept_digest(machine_newton._solve_at) not in (before, None)


def test_structures_of_other_modules_with_a_method_of_the_same_name_change_no_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dae_sdc.sweepers import _simultaneous

    before = kept_digest(_simultaneous._act)
    monkeypatch.setitem(IMPLEMENTATIONS, "end_step", [*IMPLEMENTATIONS["end_step"], lambda steps: None])
    assert kept_digest(_simultaneous._act) == before is not None


def test_what_has_no_digest_is_not_kept() -> None:
    assert kept_digest(law_of(rate=object())) is None


# --- processes ----------------------------------------------------------------------------------------------

RUNS = """
import dae_sdc as ds
from numba.core import event

class Passes(event.Listener):
    count = 0
    def on_start(self, event):
        Passes.count += 1
    def on_end(self, event):
        pass

event.register("numba:run_pass", Passes())
from dae_sdc.dae import compiling, machine_code
read, loaded = compiling.read_kept, []
for module in (compiling, machine_code):
    module.read_kept = lambda path: loaded.append(read(path)) or loaded[-1]
machine_code._surroundings = str  # as if files were changing: nothing is told by their content
import dae_sdc.constrained._manifold, dae_sdc.structure.following
from dae_sdc.dae.machine_code import entry
from dae_sdc.dae.kernels import stepped_jacobian
ds.solve("simple", sweeper="fully-implicit", nodes=2, dt=0.1, t_end=0.1, backend="compiled")
ds.solve("simple", rtol=1e-2, sweeper="radau-iia-5", t_end=0.1)
entry("dae_sdc.compiled.machine_newton:substitute"), stepped_jacobian()
print(Passes.count, len(loaded) - loaded.count(None), ds.__file__)
"""


def python(program: str, path: Path = PACKAGE.parent) -> str:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


COMPILERS = {"compiling.py", "complex_step.py"}
"""Files that change how kernels are compiled."""


def test_another_checkout_with_other_times_lines_and_functions_compiles_nothing(tmp_path: Path) -> None:
    python(RUNS)
    shutil.copytree(PACKAGE, tmp_path / "dae_sdc", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (tmp_path / "dae_sdc").rglob("*.py"):
        path.touch()
        head, future, rest = path.read_text(encoding="utf-8").partition(
            "from __future__ import annotations\n"
        )
        if future and path.name not in COMPILERS:
            more = "\n\ndef _uncalled():\n    return 1\n\n\n"
            path.write_text(head + future + more + rest, encoding="utf-8")
    compiled, loaded, where = python(RUNS, path=tmp_path).split()
    assert (int(compiled), where) == (0, str(tmp_path / "dae_sdc" / "__init__.py"))
    assert int(loaded) > 10


SLOW = """
import sys
from dae_sdc.dae.compiling import kept
space = {"__name__": "__main__"}
body = "".join(f"    x = x * {n}.0 + {n}\\n" for n in range(200))
exec(compile("def f(x):\\n" + body + "    return x\\n", sys.argv[1], "exec"), space)
f = kept(space["f"])
sys.stdin.readline()
f(1.0)
print(sum(f.stats.cache_misses.values()), sum(f.stats.cache_hits.values()))
"""


def test_of_processes_that_want_the_same_function_one_compiles_and_the_others_load(tmp_path: Path) -> None:
    file = tmp_path / "slow.py"
    file.touch()
    surroundings = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "NUMBA_CACHE_DIR": str(tmp_path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", SLOW, str(file)],
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    with ThreadPoolExecutor(3) as threads:
        said = list(threads.map(lambda process: process.communicate("\n")[0].split(), started))
    assert sorted(said) == [["0", "1"], ["0", "1"], ["1", "0"]]
    assert [path.suffix for path in (tmp_path / "dae_sdc_functions").iterdir()] == [".nbc"]


HOLDER = """
import os, sys, time
from pathlib import Path
from dae_sdc.sharing import alone
with alone(Path(sys.argv[1])):
    child = os.fork() if sys.argv[2] == "forked" else os.getpid()
    if child:
        print(child, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(os.name != "posix", reason="locks are those of POSIX")
@pytest.mark.parametrize("what", ["alone", "forked"])
def test_a_process_that_is_killed_holds_nobody_off(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "LONGEST_WAIT", np.inf)
    path = tmp_path / "f.nbc"
    killed = Event()  # before the process ends, which gives its lock back before anybody can wait for it

    def take() -> bool:
        with alone(path):
            return killed.is_set()

    command = [sys.executable, "-P", "-c", HOLDER, str(path), what]
    surroundings = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    with (
        subprocess.Popen(command, env=surroundings, stdout=subprocess.PIPE, text=True) as holder,
        ThreadPoolExecutor(1) as threads,
    ):
        assert holder.stdout is not None
        last = int(holder.stdout.readline())
        waiting = threads.submit(take)
        assert not waiting.done()
        killed.set()
        holder.send_signal(signal.SIGKILL)
        try:
            assert waiting.result(60.0)
        finally:
            os.kill(last, signal.SIGKILL)  # the child outlives its parent, without the lock


def test_a_process_that_is_stopped_holds_others_off_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.nbc"
    monkeypatch.setattr(sharing, "LONGEST_WAIT", 0.0)
    with alone(path), alone(path):
        pass


def test_the_directory_is_the_one_of_the_environment_or_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert sharing.cache_directory("functions") == tmp_path / "numba" / "dae_sdc_functions"
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert sharing.cache_directory("functions") == tmp_path / "dae_sdc" / "functions"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sharing.cache_directory("programs") == tmp_path / ".cache" / "dae_sdc" / "programs"
