"""The processes of a parallel run: their tasks, their output, and the propagation of failures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep
from typing import Any

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.imports import launched, launchers
from dae_sdc.registry import require_name
from dae_sdc.sharing import python, surroundings
from dae_sdc.sweepers.parallel import WAYS, load_mpi, no_mpi, split_communicator

MOST_SAID = 300  # Largest number of characters of the output of a broken MPI in a message.
PATIENCE = 60.0  # Largest time in seconds that MPI may take to start.


@dataclass(frozen=True)
class Ranks:
    """The ranks of a run, and their communicators."""

    comm: Any = None  # Communicator of all ranks; None where there is only this one.
    nodes: Any = None  # That of the ranks that share the nodes of a step.
    steps: Any = None  # That of the ranks that share the steps of a block.

    @property
    def root(self) -> bool:
        """Whether this process writes and prints."""
        return is_root(self.comm)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return 1 if self.comm is None else int(self.comm.Get_size())

    @property
    def steps_at_once(self) -> int:
        """Number of steps that are computed at once on different ranks."""
        return 1 if self.steps is None else int(self.steps.Get_size())

    def total(self, values: Vector, across: Any) -> Vector:
        """Sum of ``values`` over the ranks of the communicator ``across``; ``values`` if that is None."""
        if across is None or across.Get_size() == 1:
            return values
        result = np.empty_like(values)
        across.Allreduce(values, result)
        return result


def everyone(parallel: str | None, comm: Any) -> Any:
    """Communicator of all ranks of a run, by default COMM_WORLD; None for a serial run."""
    if parallel is None:
        return None
    end_job_on_uncaught_errors()
    return world() if comm is None else comm


def is_root(comm: Any) -> bool:
    """Whether this process writes and prints, among the ranks of ``comm`` or alone."""
    return comm is None or bool(comm.Get_rank() == 0)


def on_root(comm: Any, action: Callable[[], Any]) -> Any:
    """What a function gives on rank 0, on all ranks; an InputError of it is raised on all of them."""
    if comm is None:
        return action()
    result, message = None, None
    if is_root(comm):
        try:
            result = action()
        except InputError as error:
            message = str(error)
    result, message = comm.bcast((result, message), root=0)
    if message is not None:
        raise InputError(message)
    return result


def _ranks_of_a_step(parallel: str, size: int, num_nodes: int, steps: int | None) -> int:
    """Number of ranks that share the nodes of a step; InputError if ranks, nodes and steps do not fit."""
    require_name("way to run in parallel", parallel, WAYS)
    if parallel == "nodes":
        if size > num_nodes:
            raise InputError(
                f"--parallel nodes with {num_nodes} nodes takes 1 to {num_nodes} ranks; started on {size}; "
                f"use fewer ranks, more nodes, or --parallel both"
            )
        return size
    if parallel == "steps":
        if steps not in (None, 1, size):
            raise InputError(
                f"--parallel steps gives every rank a step: {steps} steps take {steps} ranks; "
                f"started on {size}; leave --steps out or start {steps} ranks"
            )
        return 1
    if steps is None:
        return max(k for k in range(1, min(num_nodes, size) + 1) if size % k == 0)
    if size % steps or size // steps > num_nodes:
        fitting = ", ".join(str(steps * k) for k in range(1, num_nodes + 1))
        raise InputError(
            f"--parallel both with {num_nodes} nodes and {steps} steps takes {fitting} ranks; "
            f"started on {size}"
        )
    return size // steps


@contextmanager
def ranks(parallel: str | None, comm: Any, num_nodes: int, steps: int | None) -> Iterator[Ranks]:
    """The ranks of a run; communicators are freed at its end."""
    if parallel is None:
        if comm is not None:
            raise InputError("a communicator was given; say what is parallel: nodes, steps or both")
        yield Ranks()
        return
    team = everyone(parallel, comm)
    node_ranks = _ranks_of_a_step(parallel, team.Get_size(), num_nodes, steps)
    if parallel == "nodes":
        yield Ranks(team, nodes=team)
    elif parallel == "steps":
        yield Ranks(team, steps=team)
    else:
        along_nodes, along_steps = split_communicator(team, node_ranks)
        try:
            yield Ranks(team, along_nodes, along_steps)
        finally:
            along_nodes.Free()
            along_steps.Free()


def world() -> Any:
    """The communicator COMM_WORLD of mpi4py."""
    if "mpi4py.MPI" not in sys.modules and not launchers():
        _try_mpi()
    MPI = load_mpi()
    if MPI.COMM_WORLD.Get_size() == 1 and launched() > 1:
        library = MPI.Get_library_version().strip("\0 \n").splitlines()[0]
        raise InputError(
            f"the launcher started {launched()} processes, but to mpi4py each is alone: it uses {library}; "
            f"start with the mpirun of that library (with the pip wheel, the one beside python)"
        )
    return MPI.COMM_WORLD


def mpi_library() -> str:
    """Name and version of the MPI library, which stays without being started; InputError without one."""
    first = "import mpi4py; mpi4py.rc.initialize = False"
    return _try_mpi(f"{first}; from mpi4py import MPI; print(MPI.Get_library_version())")


def _try_mpi(code: str = "from mpi4py import MPI") -> str:
    """Load MPI in another process, because a broken library would end this one; its first line of output."""
    # Not under a launcher, which would count the process; there MPI reports its errors itself.
    command = python("-c", code)
    pipe = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "env": surroundings()}
    try:
        done = subprocess.run(command, timeout=PATIENCE, check=False, **pipe)  # type: ignore[call-overload]
    except subprocess.TimeoutExpired:
        raise no_mpi(f"it has not started within {PATIENCE:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        last = max((at for at, line in enumerate(lines) if line[:1] == " "), default=-1)
        said = " ".join(lines[last + 1 :])
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"code {done.returncode}"
        raise no_mpi(f"loading it ended a process with {how}" + (f": {said[:MOST_SAID]}" if said else ""))
    return str(done.stdout).strip("\0 \n").partition("\n")[0].strip()


GRACE = 2.0  # Time in seconds that a failed rank waits for the others to fail with it.
FORWARDING = 0.3  # Time in seconds for the launcher to forward output, before the job is ended.

RUN_ENDED, FAILED, BEGINS, LEAVES = 32001, 32002, 32003, 32004  # Tags of messages to other ranks.


def meet(comm: Any, tag: int, patience: float = float("inf")) -> bool:
    """Wait for all ranks of a communicator to call this; False if they do not within ``patience`` seconds."""
    # Point-to-point messages are used, because a collective call cannot be aborted after a timeout.
    rank, size = comm.Get_rank(), comm.Get_size()
    others = [other for other in range(size) if other != rank] if rank == 0 else [0]
    messages = np.zeros(len(others), dtype=np.int8)
    answers = [comm.Irecv(messages[i : i + 1], source=other, tag=tag) for i, other in enumerate(others)]
    sent = [] if rank == 0 else [comm.Isend(np.ones(1, dtype=np.int8), dest=0, tag=tag)]
    began = monotonic()
    while not all([request.Test() for request in (*answers, *sent)]):
        waited = monotonic() - began
        if waited > patience:
            return False
        if waited > 1e-3:
            sleep(5e-4)
    for other in others if rank == 0 else ():
        comm.Send(np.ones(1, dtype=np.int8), dest=other, tag=tag)
    return True


def join(comm: Any) -> None:
    """Wait for all ranks of a communicator to begin a run; a rank that ends instead sees who waits for it."""
    MPI, rank = load_mpi(), comm.Get_rank()
    others = [other for other in range(comm.Get_size()) if other != rank]
    here, told = np.ones(1, dtype=np.int8), np.zeros((len(others), 1), dtype=np.int8)
    requests = [comm.Isend(here, dest=other, tag=BEGINS) for other in others]
    requests += [comm.Irecv(told[i], source=other, tag=BEGINS) for i, other in enumerate(others)]
    MPI.Request.Waitall(requests)


def leave() -> None:
    """Wait at the end of a process for the others; end the job where one waits for it to begin a run."""
    MPI: Any = sys.modules.get("mpi4py.MPI")
    if MPI is None or not MPI.Is_initialized() or MPI.Is_finalized():
        return
    comm = MPI.COMM_WORLD
    rank, here, told = comm.Get_rank(), np.ones(1, dtype=np.int8), np.zeros(comm.Get_size(), dtype=np.int8)
    others = [other for other in range(comm.Get_size()) if other != rank]
    requests = [comm.Isend(here, dest=other, tag=LEAVES) for other in others]
    requests += [comm.Irecv(told[other : other + 1], source=other, tag=LEAVES) for other in others]
    while not MPI.Request.Testall(requests):
        status = MPI.Status()
        if comm.Iprobe(MPI.ANY_SOURCE, BEGINS, status):
            said = f"rank {rank} has ended, and rank {status.Get_source()} waits for it to begin a run"
            print(f"{said}; let all ranks make the same calls", file=sys.stderr, flush=True)
            sleep(FORWARDING)
            comm.Abort(1)
        sleep(1e-2)


def fail_together(message: str, code: int, say: Callable[[str], None]) -> None:
    """Report an error once if all ranks have it; otherwise report it for this rank and end the others."""
    try:
        comm = world()
    except InputError:
        say(message)
        return
    if comm.Get_size() > 1 and not meet(comm, FAILED, GRACE):
        end_job(message, code, say)
    if comm.Get_rank() == 0:
        say(message)


def end_job(message: str, code: int = 1, say: Callable[[str], None] | None = None) -> None:
    """Report an error of this rank and end all of them."""
    comm, tell = world(), say or partial(print, file=sys.stderr)
    tell(f"rank {comm.Get_rank()}: {message}")
    for stream in (sys.stdout, sys.stderr, sys.__stderr__):
        if stream is not None:
            stream.flush()
    sleep(FORWARDING)
    comm.Abort(code)


def end_job_on_uncaught_errors() -> None:
    """Install a hook by which an uncaught exception on one rank ends the job instead of hanging it."""
    if world().Get_size() == 1 or getattr(sys.excepthook, "ends_job", False):
        return
    show = sys.excepthook

    def told(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        def say(message: str) -> None:
            show(kind, error, trace)
            print(message, file=sys.stderr, flush=True)

        fail_together(f"{kind.__name__}: {error}", 1, say)

    told.ends_job = True  # type: ignore[attr-defined]
    sys.excepthook = told
