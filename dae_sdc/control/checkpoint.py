"""The complete state of a run between two steps: taken from a controller, and put back into another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from time import perf_counter
from typing import Any

import numpy as np

from dae_sdc.control.hooks import StepRecord
from dae_sdc.dae.interpolant import packed_steps, unpacked_steps
from dae_sdc.dae.memory import COUNTERS, counts_of
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, attach, unpack
from dae_sdc.errors import InputError, words_of

CHECKPOINT_EVERY = 10  # Accepted steps between two checkpoints.
LARGEST_SHARE_OF_TIME = 0.1  # Part of the time of a run that writing may take.
FIRST_CHECKPOINT_AFTER = 0.2  # Seconds before the first checkpoint, whose cost is not known yet.

_STATE = ("time", "u", "carried", "dt", "steps", "events", "problem", "scales", "sweeper", "counters")
_COLUMNS = ("t", "u", "du", "residual", "sweeps")  # Entries of rows that are arrays of their own.


class Checkpoints:
    """Writes the state of a run between steps now and then, and begins a run from such a state."""

    # A sweeper whose state cannot be saved is reset where a checkpoint is due, whether it is written or not,
    # so that a run that goes on from one takes the same steps.

    def __init__(
        self,
        problem: ProblemDAE,
        record: StepRecord,
        every: int | None,
        write: Callable[[dict[str, Any]], None],
        start: Mapping[str, Any] | None = None,
        comm: Any = None,
    ) -> None:
        self._problem, self._record = problem, record  # of a run that has not begun
        self._fresh = plain_attributes(problem)
        self.every, self.always = every or CHECKPOINT_EVERY, every is not None
        self.write, self.start = write, start
        self.comm = None if comm is None or comm.Get_size() == 1 else comm
        self._root = self.comm is None or self.comm.Get_rank() == 0
        self._due = perf_counter() + FIRST_CHECKPOINT_AFTER

    def begin(self, controller: Any, time: float, value: MeshDAE) -> tuple[float, MeshDAE]:
        """Restore ``start`` to a run that is about to begin; its time and its state."""
        if self.start is None:
            return time, value
        try:
            return self._restored(controller, self.start)
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"the checkpoint holds no state of this run ({words_of(error)}); delete it to "
                f"begin the run at its start"
            ) from error

    def _restored(self, controller: Any, start: Mapping[str, Any]) -> tuple[float, MeshDAE]:
        level, problem = controller.MS[0].levels[0], self._problem
        for name, value in {**self._fresh, **start["problem"]["attributes"]}.items():
            if not same(getattr(problem, name, None), value):
                setattr(problem, name, _as_type_of(self._fresh.get(name), value))
        held = start["problem"]["held"]
        problem.hold_sides(None if held is None else tuple(held))
        problem.run_scales.set_state(start["scales"])
        level.sweep.reset()
        level.sweep.set_state(start["sweeper"])
        controller.adaptivity.set_state(start["steps"])
        if controller.events is not None:
            controller.events.set_state(start["events"])
        counts = start["counters"] if self._root else [0] * len(COUNTERS)
        for name, count in zip(COUNTERS, counts, strict=True):
            problem.work_counters[name].niter = int(count)
        record, work = start["record"], start["record"]["work"]
        columns = {name: record[name] for name in _COLUMNS}
        columns |= zip(COUNTERS, (work if self._root else np.zeros_like(work)).T, strict=True)
        self._record.rejected = int(record["rejected"])
        self._record.rows.fill(columns, unpacked_steps(record["dense"]) if self._record.dense else [])
        level.params.dt = float(start["dt"])
        state = attach(np.array(start["u"], dtype=np.float64), problem.n_diff)
        state.polynomial = unpack(start["carried"])
        return float(start["time"]), state

    def look(self, controller: Any, time: float, value: MeshDAE) -> None:
        """Write a checkpoint if one is due; the next step begins at ``time`` with ``value``."""
        if len(self._record.rows) % self.every:
            return
        began = perf_counter()
        sweep, wanted = controller.MS[0].levels[0].sweep, self.always or began >= self._due
        if self.comm is not None and not self.always:
            wanted = self.comm.bcast(wanted, root=0)
        if not sweep.keeps_state:
            sweep.reset()
        if wanted:
            state = self._state(controller, time, value)
            if self._root:
                self.write(state)
            ended = perf_counter()
            self._due = ended + (ended - began) / LARGEST_SHARE_OF_TIME

    def _state(self, controller: Any, time: float, value: MeshDAE) -> dict[str, Any]:
        problem, level, events = self._problem, controller.MS[0].levels[0], controller.events
        fresh, now = self._fresh, plain_attributes(problem).items()
        attributes = {name: value for name, value in now if not (name in fresh and same(value, fresh[name]))}
        columns = self._record.rows.columns()
        record: dict[str, Any] = {name: columns[name] for name in _COLUMNS}
        record["work"] = self._total(np.column_stack([columns[name] for name in COUNTERS]))
        record["rejected"] = self._record.rejected
        if self._record.dense:
            record["dense"] = packed_steps(self._record.rows.dense)
        return {
            "time": time,
            "u": np.array(value),
            "carried": np.empty(0) if value.polynomial is None else value.polynomial.pack(True),
            "dt": float(level.params.dt),
            "steps": controller.adaptivity.get_state(),
            "events": None if events is None else events.get_state(),
            "problem": {"attributes": attributes, "held": problem.held_sides},
            "scales": problem.run_scales.get_state(),
            "sweeper": level.sweep.get_state(),
            "counters": self._total(np.array(counts_of(problem), dtype=np.int64)),
            "record": record,
        }

    def _total(self, counts: Any) -> Any:
        if self.comm is None:
            return counts
        total = np.empty_like(counts)
        self.comm.Allreduce(counts, total)
        return total


def check_state(state: Mapping[str, Any]) -> None:
    """Raise KeyError or ValueError for anything but a state that :class:`Checkpoints` writes."""
    for name in _STATE:
        state[name]
    float(state["time"])
    int(state["record"]["rejected"])
    if len({len(state["record"][name]) for name in (*_COLUMNS, "work")}) != 1:
        raise ValueError("steps are missing")


def plain_attributes(owner: Any) -> dict[str, Any]:
    """The public attributes of an object that are numbers, texts, arrays, or lists and tuples of them."""
    return {name: deepcopy(x) for name, x in vars(owner).items() if name[0] != "_" and is_plain(x)}


def is_plain(value: Any) -> bool:
    """Whether a value can be written exactly."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufc"
    return isinstance(value, bool | int | float | str | np.bool_ | np.number | None)


def same(a: Any, b: Any) -> bool:
    """Whether two plain values, or mappings to such, are equal; NaN equals NaN."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc" and b.dtype.kind in "fc"))
    return bool(a == b) or (a != a and b != b)


def _as_type_of(model: Any, value: Any) -> Any:
    """A value read from a file, in the types of that of a fresh problem."""
    if isinstance(model, tuple | list) and isinstance(value, tuple | list):
        models = [*model, *[model[-1] if model else None] * len(value)]
        entries = [_as_type_of(own, entry) for own, entry in zip(models, value, strict=False)]
        make: Any = getattr(type(model), "_make", type(model))
        return make(entries)
    return value
