"""Processes of their own, for a solve or as many as MPI has ranks, that answer in JSON."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring.clock import clocked
from dae_sdc.dae.memory import COUNTERS
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import DAEError, InputError, RemoteError
from dae_sdc.imports import launched
from dae_sdc.run.solve import solve
from dae_sdc.run.target import make_problem
from dae_sdc.sharing import python, surroundings

ROOT = Path(__file__).resolve().parents[2]  # The directory that benchmarks lies in
PATIENCE = 900.0  # Seconds after which a process is ended
# Ranks share the cores; threads of the linear algebra would take them from other ranks
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
# Open MPI refuses them otherwise
MORE_RANKS_THAN_CORES = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def environment() -> dict[str, str]:
    """The environment of another Python, which finds what this one finds, and ``benchmarks``."""
    found = surroundings()
    return {**found, "PYTHONPATH": os.pathsep.join([found["PYTHONPATH"], str(ROOT)])}


def as_answer(error: Exception) -> dict[str, str]:
    """What a process answers that an error has ended."""
    text = str(error) if isinstance(error, DAEError) else f"{type(error).__name__}: {error}"
    return {"error": text, "kind": "input" if isinstance(error, InputError) else "failure"}


def without_error(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer; raises the error that it is made from by :func:`as_answer`."""
    if answer.keys() >= {"error", "kind"}:
        raise (InputError if answer["kind"] == "input" else RemoteError)(answer["error"])
    return answer


# It is handed to Python as text: to start a module of this package would import the package before the clock.
FRESH = """
import json, sys, time

asked, clock, answer = json.load(sys.stdin), time.perf_counter, []
marks = [clock()]
import numpy, scipy.linalg, scipy.optimize, scipy.sparse.linalg
marks.append(clock())
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
marks.append(clock())
import dae_sdc as ds
marks.append(clock())
def oscillator(t, u, du):
    return [du[0] - u[1], du[1] + u[0]]

for name in asked["problems"]:
    target, how = name, {"rtol": asked["rtol"]} if asked["rtol"] else {}
    if name == "function":
        target, how = oscillator, {**how, "u0": [1.0, 0.0], "t_end": 1.0}
    times = [after - before for before, after in zip(marks, marks[1:])]
    for _ in range(2):
        begin = clock()
        solution = ds.solve(target, **how)
        times.append(clock() - begin)
        if not solution.success:
            sys.exit(f"{name}: {solution.message}")
    answer.append(times)
print(json.dumps(answer))
"""


def in_a_fresh_process(
    problems: Sequence[str],
    cache: str | os.PathLike[str] | None,
    patience: float = PATIENCE,
    rtol: float | None = None,  # Tolerance; without one, steps of a fixed size
) -> list[list[float]]:
    """Seconds in a new process for imports, and two solves of each problem.

    The imports are those of NumPy and of SciPy as far as pySDC needs them, of pySDC, and of this package. The
    problem "function" is a plain function.
    """
    variables = environment()
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    if cache is not None:
        variables["NUMBA_CACHE_DIR"] = os.fspath(cache)
    asked = {"problems": list(problems), "rtol": rtol}
    times: list[list[float]] = ask(("-c", FRESH), asked, "a fresh process", patience, variables)
    return times


def ask(arguments: tuple[str, ...], asked: Any, who: str, patience: float, given: Mapping[str, str]) -> Any:
    """Start another Python, hand it something, and return what it answers, both as JSON."""
    how: dict[str, Any] = {"capture_output": True, "text": True, "check": False, "env": dict(given)}
    try:
        done = subprocess.run(python(*arguments), input=json.dumps(asked), timeout=patience, **how)
    except subprocess.TimeoutExpired:
        raise RemoteError(f"{who} took more than {patience:g} s") from None
    try:
        return json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines()
        last = said[-1] if said else "no result"
        raise RemoteError(f"{who} ended with code {done.returncode}: {last}") from None


def launcher() -> str:
    """The ``mpirun`` beside the interpreter, where pip puts that of its MPI wheels, or that on the PATH."""
    if importlib.util.find_spec("mpi4py") is None:
        raise InputError("measuring ranks needs mpi4py and an MPI library: pip install 'dae_sdc[mpi]'")
    beside = str(Path(sys.executable).parent)
    for name in ("mpirun", "mpiexec"):
        found = shutil.which(name, path=beside) or shutil.which(name)
        if found:
            return found
    raise InputError(
        f"found no mpirun beside {sys.executable} nor on the PATH; pip install 'dae_sdc[mpi]', or put the "
        f"directory of the mpirun that belongs to mpi4py on the PATH"
    )


def rows_of(asked: Any, ranks: int, patience: float) -> Generator[dict[str, Any], None, None]:
    """What :mod:`benchmarks.measuring.ranks` prints, row by row; all ranks are gone when this ends."""
    if launched() > 1:
        raise InputError("studies of ranks start their processes themselves; start them without mpirun")
    how: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}
    with TemporaryDirectory(prefix="dae_sdc-") as errors, TemporaryFile() as complaints:
        command = [launcher(), "-n", str(ranks), *python("-m", "benchmarks.measuring.ranks", errors)]
        variables = {**MORE_RANKS_THAN_CORES, **environment(), **ONE_THREAD}
        # Without a buffer, lines that wait() does not see cannot be left in it.
        process = subprocess.Popen(command, stderr=complaints, env=variables, bufsize=0, **how)
        assert process.stdin is not None and process.stdout is not None
        try:
            with process.stdout as lines:
                with suppress(BrokenPipeError), process.stdin as questions:
                    questions.write(json.dumps(asked).encode())
                while wait([lines.fileno()], patience):
                    line = lines.readline().decode()
                    if not line:
                        break
                    try:
                        row = json.loads(line)
                    except ValueError:
                        said = f"the measuring processes printed '{line.strip()[:80]}', which is no row"
                        raise RemoteError(said) from None
                    yield row
                else:
                    raise RemoteError(
                        f"the measuring processes said nothing for {patience:g} s; take smaller sizes, or "
                        f"see whether mpirun works: mpirun -n 2 hostname"
                    )
            code = process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            raise RemoteError(f"'{command[0]}' has not ended {patience:g} s after its work") from None
        finally:
            _end(process)
        for path in sorted(Path(errors).glob("*.json")):
            without_error(json.loads(path.read_bytes()))
        if code:
            complaints.seek(0)
            said = complaints.read().decode().strip() or "it said nothing"
            raise RemoteError(f"'{' '.join(command)}' ended with code {code}: {said.splitlines()[-1]}")


def _end(process: subprocess.Popen[bytes], grace: float = 5.0) -> None:
    if process.poll() is not None:
        return
    process.terminate()  # the launcher ends its ranks
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=grace)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def nominal_of(problem: ProblemDAE) -> NDArray[np.float64]:
    """The nominal values of all unknowns, shape (n,)."""
    return np.broadcast_to(np.asarray(problem.nominal, dtype=np.float64), problem.n).copy()


def largest_error(problem: ProblemDAE, found: NDArray[np.float64], exact: NDArray[np.float64]) -> float:
    """Largest error of an unknown in units of its nominal value."""
    return float(np.abs((found - exact) / nominal_of(problem)).max())


def common_sizes(problem: ProblemDAE, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The size of the largest unknown, for all of them: each in units of its nominal value."""
    # Shapes: values (n,).
    nominal = nominal_of(problem)
    return np.asarray(nominal * np.abs(values / nominal).max(), dtype=np.float64)


def peak_memory() -> float:
    """Largest memory of this process so far, in bytes."""
    # On Linux, getrusage begins with the memory of the process that started this one.
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return 1024.0 * float(line.split()[1])
    try:
        import resource
    except ImportError:
        return float("nan")
    largest = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return largest if sys.platform == "darwin" else 1024.0 * largest


def carry_out(problem: str, params: Any, t_end: float, warm: Any = None, **settings: Any) -> dict[str, Any]:
    """Solve once and say what it took; raises DAEError where that fails."""
    if warm is not None:
        solve(problem, params=warm, t_end=t_end, **settings)
    before = peak_memory()
    spent, solution = clocked(lambda: solve(problem, params=params, t_end=t_end, **settings))
    memory = peak_memory()
    if not solution.success:
        raise DAEError(solution.message)
    exact = make_problem(problem, params)
    took = {"time": spent.wall, "processor": spent.processor, "memory": memory, "memory_before": before}
    took["error"] = largest_error(exact, solution.u[-1], np.asarray(exact.u_exact(t_end)))
    return took | {name: solution.stats[name] for name in ("steps", "sweeps", *COUNTERS)}


def in_a_new_process(asked: Mapping[str, Any], patience: float = PATIENCE) -> dict[str, Any]:
    """What :func:`carry_out` gives in a new process."""
    module = ("-m", "benchmarks.measuring.processes")
    return without_error(ask(module, asked, "a solve in a process of its own", patience, environment()))


if __name__ == "__main__":
    try:
        answer = carry_out(**json.load(sys.stdin))
    except DAEError as error:
        answer = as_answer(error)
    print(json.dumps(answer))
