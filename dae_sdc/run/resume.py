"""Checkpoint files: the complete state of a run, from which it continues bit for bit."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from dae_sdc.arguments import shown
from dae_sdc.control.checkpoint import Checkpoints, check_state, plain_attributes, same
from dae_sdc.control.driver import Control, driver_of, require_single_steps
from dae_sdc.control.events import Event
from dae_sdc.control.hooks import StepRecord, hook_of
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.files import check_place, damaged, opened, read_archive, replacing
from dae_sdc.options import Saving as SavingOptions
from dae_sdc.run.description import Setup
from dae_sdc.run.processes import Ranks
from dae_sdc.run.results import provenance
from dae_sdc.sharing import signals_held, tell

FORMAT = "dae_sdc checkpoint"
VERSION = 4
SUFFIX = ".npz"


@dataclass
class Saving:
    """Checkpoints of a run, as the user asks for them."""

    path: Path  # The checkpoint file.
    every: int | None  # Number of accepted steps between two checkpoints, as given.
    resume: bool  # Whether to continue from the file if it exists.
    run: dict[str, Any] = field(default_factory=dict)
    start: dict[str, Any] | None = None

    @classmethod
    def checked(cls, options: SavingOptions) -> Saving | None:
        """The record for the options of a user; None if no checkpoints are wanted."""
        checkpoint, every, resume = options.checkpoint, options.every, options.resume
        if checkpoint is None:
            if every is not None or resume:
                raise InputError("every and resume need the file of the checkpoints; give checkpoint")
            return None
        if not Path(checkpoint).name:
            raise InputError(f"checkpoint must be the name of a file that ends in .npz; got {checkpoint!r}")
        path = Path(checkpoint)
        return cls(path if path.suffix == SUFFIX else path.with_name(path.name + SUFFIX), every, resume)

    def describe(self, setup: Setup, about: Mapping[str, Any], events: Sequence[Event]) -> None:
        """Store a description of the run, by which a checkpoint is recognised."""
        description, problem = setup.description, setup.problem
        parts = ("sweeper_params", "level_params", "step_params")
        settings = {name: value for part in parts for name, value in description[part].items()}
        settings.pop("tolerance", None)
        self.run = {**_of_problem(setup.label["problem"], problem), **described(about)}
        self.run |= {"sweeper": setup.label["sweeper"], "setting": described(settings)}
        marks = [[event.name, event.last, event.direction, event.change is not None] for event in events]
        self.run |= {"parallel": setup.parallel, "events": marks}

    def prepare(self) -> None:
        """Check that the file can be written, and read it for a resumed run; raises InputError."""
        check_place(self.path, SUFFIX)
        if self.resume and self.path.exists():
            written, self.start = read_checkpoint(self.path)
            _check_same_run(self.path, written, self.run)

    def attach(self, controller: Any, record: StepRecord, team: Ranks) -> Checkpoints:
        """The :class:`Checkpoints` that watch a controller during the run."""
        if team.comm is not None:
            self.start = team.comm.bcast(self.start, root=0)
        problem = controller.MS[0].levels[0].prob
        return Checkpoints(problem, record, self.every, self._write, self.start, team.nodes)

    def _write(self, state: Mapping[str, Any]) -> None:
        arrays: list[Any] = []
        about: dict[str, Any] = {"format": FORMAT, "version": VERSION, "made_by": provenance()["dae_sdc"]}
        about |= {"steps": len(state["record"]["t"]), "time": state["time"]}
        about |= {"run": _packed(self.run, arrays), "state": _packed(state, arrays)}
        header = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
        named = {f"array{number}": array for number, array in enumerate(arrays)}
        checksum = np.array(_checksum([header, *arrays]))
        try:
            with replacing(self.path) as (file,), signals_held():
                np.savez(file, allow_pickle=False, header=header, checksum=checksum, **named)
        except InputError as error:  # the run is worth more than this checkpoint
            if not isinstance(error.__cause__, OSError):
                raise
            tell(f"{error}; the run goes on without this checkpoint")

    @property
    def parameters(self) -> dict[str, Any]:
        """Entries for the parameters of a solution."""
        return {"resumed_at": self.start and self.start["time"]} if self.resume else {}


class SaveCheckpoints(Control):
    """Writes checkpoints of a run in pySDC's own controllers, one step at a time, and goes on from one.

    Parameters (in ``params``)
    --------------------------
    checkpoint : str or pathlib.Path
        The file, as in :func:`dae_sdc.run.solve.solve`.
    every : int, optional
        Accepted steps between two checkpoints.
    resume : bool
        Whether to go on from the file if it exists.
    """

    order = 1100  # behind the driver, which chooses the next step
    defaults: ClassVar = {"checkpoint": None, "every": None, "resume": False}

    def __init__(self, controller: Any, params: dict[str, Any], description: dict[str, Any]) -> None:
        super().__init__(controller, params, description)
        if (driver := driver_of(controller, description)) is None:
            raise InputError("SaveCheckpoints is for controllers of pySDC; give solve checkpoint instead")
        self._driver, driver.saving = driver, self
        controller.add_hook(StepRecord)
        self.record: StepRecord = hook_of(controller, StepRecord)

    def setup_status_variables(self, controller: Any, **kwargs: Any) -> None:
        """Read the file of a run that goes on."""
        require_single_steps(controller, kwargs.get("comm"), "SaveCheckpoints")
        step = controller.steps[0]
        level, given = step.levels[0], self.params
        if given.checkpoint is None:
            raise InputError("SaveCheckpoints needs checkpoint, the name of a file that ends in .npz")
        saving = Saving.checked(SavingOptions(**{name: getattr(given, name) for name in self.defaults}))
        assert saving is not None
        settings = plain_attributes(level.sweep.params) | plain_attributes(level.params)
        saving.run = _of_problem(type(level.prob).__name__, level.prob)
        saving.run |= {"sweeper": type(level.sweep).__name__, "setting": described(settings)}
        saving.prepare()
        self._view = SimpleNamespace(
            MS=[step], adaptivity=self._driver.sizes, events=self._driver.events, convergence_controllers=[]
        )
        nodes = getattr(level.sweep.params, "comm", None)
        team: Any = SimpleNamespace(comm=nodes, nodes=nodes)
        self._checkpoints = saving.attach(self._view, self.record, team)

    def begin(self, step: Any) -> None:
        """Go on from the checkpoint, where there is one, when a run begins."""
        L = step.levels[0]
        L.status.time, L.u[0] = self._checkpoints.begin(self._view, float(L.time), L.u[0])

    def prepare_next_block(
        self, controller: Any, S: Any, size: int, time: Any, Tend: float, **kwargs: Any
    ) -> None:
        """Write a checkpoint if one is due."""
        if not S.status.restart:
            now = float(time if kwargs.get("comm") is not None else time[0])
            self._checkpoints.look(self._view, now, S.levels[0].uend)


def _of_problem(name: str, problem: Any) -> dict[str, Any]:
    """What tells the problem of a run from others."""
    return {"problem": name, "parameter": {**described(problem.params), **plain_attributes(problem)}}


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The description and the state of a run in a checkpoint."""
    broken = f"{path} is damaged or no checkpoint; delete it to begin the run at its start"
    try:
        with damaged(broken):
            with opened(path) as file:
                stored = read_archive(file)
            about = json.loads(stored["header"].tobytes())
            if about["format"] != FORMAT:
                raise ResultFileError(broken)
            version = about["version"]
            if version != VERSION:
                raise ResultFileError(
                    f"{path} is a checkpoint of version {version}, written by dae_sdc {about.get('made_by')}"
                    f"; this one reads version {VERSION}; use the dae_sdc that wrote it"
                )
            arrays = [stored[f"array{number}"] for number in range(len(stored) - 2)]
            if int(stored["checksum"]) != _checksum([stored["header"], *arrays]):
                raise ResultFileError(broken)
            run, state = _unpacked(about["run"], arrays), _unpacked(about["state"], arrays)
            check_state(state)
            return run, state
    except OSError as error:
        raise ResultFileError(f"cannot read {path}: {error.strerror or error}; check the file") from None


def _check_same_run(path: Path, written: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise ResultFileError, with the first difference, for the checkpoint of another run."""
    for name in wanted:
        before, now = written.get(name), wanted[name]
        if not same(before, now):
            if isinstance(before, Mapping) and isinstance(now, Mapping):
                pairs = {f"{name} {key}": (before.get(key), now.get(key)) for key in [*now, *before]}
                name, (before, now) = next(pair for pair in pairs.items() if not same(*pair[1]))
            raise ResultFileError(
                f"{path} is the checkpoint of another run: {name} was {shown(before)}, and is now "
                f"{shown(now)}; give what it was, or another file"
            )


def described(value: Any) -> Any:
    """A value of the user in a form for a file; other objects than numbers, texts and arrays as text."""
    if isinstance(value, Mapping):
        return {str(key): described(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [described(entry) for entry in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return value
    if value is None or isinstance(value, str | bool | int | float | np.number | np.bool_):
        return value
    if isinstance(value, type) or callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text


def _packed(value: Any, arrays: list[Any]) -> Any:
    """A value in types of JSON, with its arrays appended to a list."""
    # Numbers are exact, because Python writes the shortest text that is read as the same double.
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        arrays.append(np.ascontiguousarray(value) if value.ndim else value)
        return {"array": len(arrays) - 1}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, complex):
        return _packed(np.array(value), arrays)
    if isinstance(value, list):
        return [_packed(entry, arrays) for entry in value]
    if isinstance(value, tuple):
        return {"tuple": [_packed(entry, arrays) for entry in value]}
    if isinstance(value, Mapping):
        return {"entries": {str(key): _packed(entry, arrays) for key, entry in value.items()}}
    raise InputError(f"a checkpoint cannot hold a {type(value).__name__}; leave checkpoint out")


def _unpacked(packed: Any, arrays: list[Any]) -> Any:
    """The inverse of :func:`_packed`."""
    if isinstance(packed, list):
        return [_unpacked(entry, arrays) for entry in packed]
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "array":
        return arrays[content]
    if kind == "tuple":
        return tuple(_unpacked(entry, arrays) for entry in content)
    return {key: _unpacked(entry, arrays) for key, entry in content.items()}


def _checksum(arrays: list[Any]) -> int:
    total = 0
    for array in arrays:
        total = zlib.crc32(f"{array.dtype.str} {array.shape}".encode(), total)
        total = zlib.crc32(np.ascontiguousarray(array).tobytes(), total)
    return total
