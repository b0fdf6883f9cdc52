"""The solution of one run: values at the ends of the steps and between, work, and whether it succeeded."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.control.events import EventRecord
from dae_sdc.dae.counters import COUNTERS
from dae_sdc.dae.interpolant import DenseOutput, round_off_of_times, times_within
from dae_sdc.dae.pointwise import Pointwise, PointwiseEquations
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEWarning, InputError, ResultFileError
from dae_sdc.expressions.names import name_and_order, name_of
from dae_sdc.registry import unknown
from dae_sdc.run.files import opened, read_archive
from dae_sdc.run.results import BESIDE, Result, checksum, command_line, load
from dae_sdc.run.unknowns import SavedUnknowns, Unknowns

DENSE_LIMIT = 10_000
"""Number of unknowns up to which what u(t) between the steps needs is kept unasked."""


@dataclass(frozen=True, eq=False)
class Solution:
    """What :func:`dae_sdc.run.solve` returns; called with times, it gives u there.

    Parameters
    ----------
    t : ndarray, shape (K,)
        Start time and end of every accepted step, or the times asked for with ``t_eval``.
    u, du : ndarray, shape (K, n)
        State and its derivative there; NaN where a derivative is not known.
    names, units : tuple of str
        Name and unit of every unknown.
    success : bool
        Whether the run reached its end time.
    message : str
        Why it did not, which terminal event ended it, or which singular points it has passed.
    stats : mapping
        ``steps``, ``rejected``, ``sweeps`` and the work counters ``rhs``, ``newton``, ``jacobian``,
        ``factorization``, ``solve`` of the whole run.
    per_step : mapping of str to ndarray, shape (K,)
        ``residual``, ``sweeps`` and the work counters of every step; 0 at the start. With ``t_eval`` the
        largest residual and the work of the steps that ended since the time before.
    parameters : mapping
        What was run.
    log : mapping
        pySDC's statistics of the run, for :func:`pySDC.helpers.stats_helper.get_sorted`.
    events, switches : tuple of EventRecord
        What each of the event functions asked for, and each of the switches of the problem, has found.
    dense : DenseOutput, optional
        What u(t) is computed from between the steps.
    saves_dense : bool
        Whether :meth:`save` writes that too.
    unknowns : Unknowns or SavedUnknowns, optional
        What the unknowns are that were eliminated from a simplified model, see :meth:`values`.
    equations : Pointwise, optional
        What makes values between the steps satisfy the equations; a solution from a file has none.
    """

    t: NDArray[np.float64]
    u: NDArray[np.float64]
    du: NDArray[np.float64]
    names: tuple[str, ...]
    units: tuple[str, ...]
    success: bool
    message: str
    stats: Mapping[str, Any]
    per_step: Mapping[str, NDArray[Any]] = field(repr=False)
    parameters: Mapping[str, Any] = field(repr=False)
    log: Mapping[Any, Any] = field(repr=False, default_factory=dict)
    events: tuple[EventRecord, ...] = field(repr=False, default=())
    switches: tuple[EventRecord, ...] = field(repr=False, default=())
    dense: DenseOutput | None = field(repr=False, default=None)
    saves_dense: bool = field(repr=False, default=False)
    unknowns: Unknowns | SavedUnknowns | None = field(repr=False, default=None)
    equations: Pointwise | None = field(repr=False, default=None)

    def __call__(self, t: Any) -> NDArray[np.float64]:
        """u between the steps: by polynomials what is integrated, by the equations there all else.

        Where the equations have no solution near the polynomials, a warning says so, and the values are those
        of the polynomials.

        Parameters
        ----------
        t : float or array_like, shape (K,)
            Times within the steps computed, in the unit of time of the problem, in any order. At the end of
            a step u is what the step ended with, the limit from the left.

        Returns
        -------
        ndarray, shape (n,) or (K, n)
            u(t).

        Raises
        ------
        InputError
            If a time lies outside the range, or the polynomials were not kept.
        """
        return self._evaluated(t)[0]

    def derivative(self, t: Any) -> NDArray[np.float64]:
        """u' between the steps, as it satisfies the equations together with u of :meth:`__call__`.

        Derivatives that the equations at a single time do not tell are those of the polynomials.

        Parameters
        ----------
        t : float or array_like, shape (K,)
            Times within the steps computed. Where steps meet it is the derivative on the step that ends.

        Returns
        -------
        ndarray, shape (n,) or (K, n)
            u'(t).

        Raises
        ------
        InputError
            If a time lies outside the range, or the polynomials were not kept.
        """
        return self._evaluated(t)[1]

    def _evaluated(self, t: Any) -> tuple[Vector, Vector]:
        """u and u' at one time or several, with a warning where they are interpolated only."""
        times = self._dense().check(t)
        u, du, failed = self._corrected(np.atleast_1d(times))
        if failed.size:
            warnings.warn(_interpolated(failed), DAEWarning, stacklevel=3)
        return (u[0], du[0]) if times.ndim == 0 else (u, du)

    def _corrected(self, times: Vector, at_ends: bool = False) -> tuple[Vector, Vector, Vector]:
        """u and u' at K times, and the times at which they do not satisfy the equations."""
        dense = self._dense()
        u, du = dense(times), dense.derivative(times)
        rows, sizes = dense.within(times)
        if at_ends and self.equations is not None and self.equations.at_ends:
            rows, sizes = np.arange(len(times)), np.zeros(len(times))
        return u, du, self._correct(times, u, du, rows, sizes)

    def _correct(self, times: Vector, u: Vector, du: Vector, rows: Any, sizes: Vector) -> Vector:
        """Make some rows satisfy the equations, in place; returns the times at which they do not."""
        if self.equations is None or not rows.size:
            return times[:0]
        new_u, new_du = u[rows], du[rows]
        solved = self.equations.correct(times[rows], new_u, new_du, sizes)
        u[rows], du[rows] = new_u, new_du
        return np.asarray(times[rows[~solved]])

    def _dense(self) -> DenseOutput:
        if self.dense is None:
            raise InputError(
                "the solution between the steps was not kept; solve with dense=True, or name the times with "
                "t_eval"
            )
        return self.dense

    def with_corrected_events(self) -> Solution:
        """A copy whose states at events and switches within steps satisfy the equations."""
        if self.dense is None or self.equations is None:
            return self

        def corrected(record: EventRecord) -> EventRecord:
            if not len(record):
                return record
            assert self.dense is not None
            rows, _ = self.dense.within(record.t)
            u = record.u.copy()
            u[rows] = self._corrected(record.t[rows])[0]
            return replace(record, u=u)

        return replace(
            self, events=tuple(map(corrected, self.events)), switches=tuple(map(corrected, self.switches))
        )

    def values(self, name: Any) -> NDArray[np.float64]:
        """An unknown at the times :attr:`t`, by its name.

        Parameters
        ----------
        name : str or sympy.Symbol
            An unknown, "der(x)" for a derivative. Of a model that was simplified these are the
            unknowns of the original one, those too that were eliminated.

        Returns
        -------
        ndarray, shape (K,)
            The values. Derivatives that the state does not hold follow from the equations of a simplified
            model; else they are those of the solution.

        Raises
        ------
        InputError
            If there is no such unknown, or nothing tells it.
        """
        name = str(name)  # of a symbol of the model
        if name in self.names:
            return self.u[:, self.names.index(name)].copy()
        if isinstance(self.unknowns, Unknowns):
            return self.unknowns.values(name, self.t, self.u, self.du, self.names)
        jets = [name_and_order(entry) for entry in self.names]
        rates = [name_of(base, order + 1) for base, order in jets]
        if name in rates:
            return self.du[:, rates.index(name)].copy()
        if self.unknowns is not None:
            return self.unknowns.values(name, self.t, self.names)
        raise InputError(unknown("name", name, self.names))

    @property
    def all_names(self) -> tuple[str, ...]:
        """Names of the state, and of the unknowns that were eliminated from a simplified model."""
        return self.names if self.unknowns is None else (*self.names, *self.unknowns.removed)

    def at(self, times: NDArray[np.float64]) -> Solution:
        """A copy of the run with ``times`` for rows, as many of them as were reached.

        Parameters
        ----------
        times : ndarray, shape (K,)
            Increasing times from the start on.

        Returns
        -------
        Solution
            With u, u' at these times as :meth:`__call__` and :meth:`derivative` give them; the message says
            where they are interpolated only.
        """
        dense = self._dense()
        reached = times[times <= dense.t_end + dense.slack]
        # A step belongs to the first row that is not before its end.
        rows = np.searchsorted(dense.check(reached), self.t[1:])
        within = rows < len(reached)
        per_step = {}
        for name, values in self.per_step.items():
            summary = np.zeros(len(reached), values.dtype)
            gather = np.maximum if name == "residual" else np.add
            gather.at(summary, rows[within], values[1:][within])
            per_step[name] = summary
        u, du, failed = self._corrected(reached, at_ends=True)
        return replace(self, t=reached, u=u, du=du, per_step=per_step)._told(failed)

    def reached(self, count: int, sizes: Vector) -> Solution:
        """The first ``count`` rows, corrected by the equations where they lie within steps of these sizes."""
        t, u, du = self.t[:count].copy(), self.u[:count].copy(), self.du[:count].copy()
        rows = np.flatnonzero(sizes[:count])
        if self.equations is not None and self.equations.at_ends:
            rows, sizes = np.arange(count), np.zeros(count)
        failed = self._correct(t, u, du, rows, sizes[rows])
        per_step = {name: values[:count] for name, values in self.per_step.items()}
        return replace(self, t=t, u=u, du=du, per_step=per_step)._told(failed)

    def _told(self, failed: Vector) -> Solution:
        """A copy with a message about times at which values are interpolated only."""
        parts = (self.message, _interpolated(failed) if failed.size else "")
        return replace(self, message="; ".join(part for part in parts if part))

    def result(self) -> Result:
        """The solution as a result table of kind "solution"."""
        n = self.u.shape[1]
        columns: list[tuple[Any, ...]] = [
            ("t", "f8"),
            ("u", "f8", (n,)),
            ("du", "f8", (n,)),
            ("residual", "f8"),
        ]
        columns += [(name, "i8") for name in ("sweeps", *COUNTERS)]
        others = () if self.unknowns is None else self.unknowns.removed
        if others:
            columns.append(("others", "f8", (len(others),)))
        data = np.zeros(len(self.t), dtype=columns)
        data["t"], data["u"], data["du"] = self.t, self.u, self.du
        for name, values in self.per_step.items():
            data[name] = values
        for at, name in enumerate(others):
            data["others"][:, at] = np.nan
            with suppress(InputError):  # nothing tells it; the rest is worth saving
                data["others"][:, at] = self.values(name)
        time_unit = self.parameters.get("time_unit", "s")
        parameters = {
            **self.parameters,
            "success": self.success,
            "message": self.message,
            "stats": self.stats,
            "events": [record.plain() for record in self.events],
            "switches": [record.plain() for record in self.switches],
        }
        if self.unknowns is not None and others:
            parameters |= {"others": list(others), "other_units": list(self.unknowns.units_of_removed)}
        return Result("solution", data, {"t": time_unit}, parameters, command_line())

    def save(self, path: str | Path) -> Path:
        """Write the solution to a .npy file with a .json beside it.

        A solution made with ``dense=True`` gets ``<name>.dense.npz`` besides, with what u(t) needs.

        Parameters
        ----------
        path : path-like
            Where to write; ``.npy`` is added when it is missing.

        Returns
        -------
        pathlib.Path
            The .npy file.

        Raises
        ------
        InputError
            If it cannot be written.
        """
        result, dense = self.result(), self.dense
        if dense is None or not self.saves_dense:
            return result.save(path)
        arrays: dict[str, Any] = {"checksum": np.array(checksum(result.data)), **dense.arrays()}
        return result.save_with(path, lambda file: np.savez(file, **arrays))

    @classmethod
    def load(cls, path: str | Path) -> Solution:
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path : path-like
            The .npy file; the suffix may be left out.

        Returns
        -------
        Solution
            As it was saved, without the statistics of pySDC. u(t) is there if it was saved, with the
            equations of a problem of the library, else by polynomials alone.

        Raises
        ------
        ResultFileError
            If a file is missing, damaged, or holds no solution.
        """
        result = load(path)
        if result.kind != "solution":
            raise ResultFileError(f"{path} holds a result of kind '{result.kind}'; give a file of a solution")
        data, parameters = result.data, dict(result.parameters)
        n = data["u"].shape[1]
        wrong = _lacking(parameters, n)
        if wrong:
            raise ResultFileError(
                f"{path} lacks what a solution tells of its run ({', '.join(wrong)}); solve again"
            )
        found = {
            kind: tuple(EventRecord.of(record, n) for record in parameters.pop(kind, ()))
            for kind in ("events", "switches")
        }
        source = Path(path)
        source = source if source.suffix == ".npy" else source.with_name(f"{source.name}.npy")
        beside = source.with_suffix(BESIDE)
        dense = _load_dense(beside, result) if beside.exists() else None
        others, units = parameters.pop("others", ()), parameters.pop("other_units", ())
        fields: Mapping[str, Any] = data.dtype.fields or {}
        shape = fields["others"][0].shape if "others" in fields else (0,)
        if not len(others) == len(units) == sum(shape):
            raise ResultFileError(f"{path} lacks the values of eliminated unknowns; solve again")
        unknowns = SavedUnknowns(others, units, data["t"].copy(), data["others"].copy()) if others else None
        return cls(
            data["t"].copy(),
            data["u"].copy(),
            data["du"].copy(),
            tuple(parameters["names"]),
            tuple(parameters["units"]),
            success=parameters.pop("success"),
            message=parameters.pop("message"),
            stats=parameters.pop("stats"),
            per_step={name: data[name].copy() for name in ("residual", "sweeps", *COUNTERS)},
            events=found["events"],
            switches=found["switches"],
            parameters=parameters,
            dense=dense,
            equations=None if dense is None else _equations(parameters, dense),
            saves_dense=dense is not None,
            unknowns=unknowns,
        )


def output_times(t_eval: Any, points: int | None, start: float, end: float) -> Vector | None:
    """The times at which a solution is asked for; None where there are none.

    Parameters
    ----------
    t_eval : array_like, shape (K,), or None
        What was given.
    points : int or None
        Number of equally spaced times, in place of them.
    start, end : float
        The interval.

    Returns
    -------
    ndarray, shape (K,), or None
        As floats.

    Raises
    ------
    InputError
        If there are none, they do not increase, or one lies outside the interval.
    """
    if points is not None:
        if t_eval is not None:
            raise InputError("t_eval and points both say at which times the solution is wanted; give one")
        return np.linspace(start, end, points)
    if t_eval is None:
        return None
    times = times_within(t_eval, start, end, "t_eval", round_off_of_times(start, end, 0))
    if times.ndim != 1 or not times.size or (np.diff(times) <= 0.0).any():
        raise InputError(f"t_eval must be an array of increasing times; got {t_eval!r}")
    return times


def _interpolated(times: Vector) -> str:
    """What to say of times at which values between the steps do not satisfy the equations."""
    count = "1 time" if len(times) == 1 else f"{len(times)} times"
    return (
        f"at {count} between the steps, the first t={times[0]:.10g}, the equations have no solution near the "
        f"interpolated values, which are given instead; take shorter steps there (dt_max)"
    )


def plain(value: Any) -> Any:
    """A parameter as it can stand in a result file."""
    return str(value) if isinstance(value, complex) else value


def derivative_at_start(problem: ProblemDAE, u0: Vector, t0: float) -> Vector:
    """u' at the start of a run where the problem knows it, NaN elsewhere."""
    try:
        exact = problem.u_exact(t0)
        slope = problem.du_exact(t0)
    except InputError as error:
        if error.__cause__ is not None:  # a mistake in them
            raise
        return np.full(problem.n, np.nan)
    if not np.allclose(problem.state(exact), u0, rtol=1e-9, atol=1e-12):
        return np.full(problem.n, np.nan)
    found: Vector = problem.state(slope).view(np.ndarray)
    return found


def _equations(parameters: Mapping[str, Any], dense: DenseOutput) -> Pointwise | None:
    """The equations of a problem of the library, from what a file tells of the run."""
    name = parameters.get("problem")
    if not isinstance(name, str) or name not in PROBLEMS:
        return None
    with suppress(InputError, TypeError, ValueError, ArithmeticError):  # the problem has other parameters now
        problem = PROBLEMS[name](**parameters.get("params", {}))
        if problem.n == len(dense.u0):
            return PointwiseEquations(problem, dense.largest())
    return None


def _lacking(parameters: Mapping[str, Any], n: int) -> list[str]:
    """What the parameters of a saved solution of n unknowns lack, or have in another form."""
    kinds = {"success": bool, "message": str, "stats": dict, "params": dict}
    given = {"params": {}, **parameters}
    wrong = [name for name, kind in kinds.items() if not isinstance(given.get(name), kind)]
    for name, count in {"names": n, "units": n, "others": None, "other_units": None}.items():
        texts = given.get(name, None if count is not None else [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            wrong.append(name)
        elif count is not None and len(texts) != count:
            wrong.append(name)
    for name in ("events", "switches"):
        try:
            for record in given.get(name, ()):
                EventRecord.of(record, n)
        except (TypeError, ValueError, KeyError, OverflowError):
            wrong.append(name)
    return wrong


def _load_dense(path: Path, result: Result) -> DenseOutput:
    try:
        with opened(path) as file:
            arrays = read_archive(file)
        belongs, dense = int(arrays.pop("checksum")), DenseOutput.from_arrays(arrays)
        if dense.values.shape[1:] != result.data["u"].shape[1:]:
            raise ValueError("has another number of unknowns")
    except ResultFileError:  # is a ValueError too
        raise
    except (ValueError, KeyError, IndexError, TypeError, OverflowError):
        raise ResultFileError(
            f"{path} is damaged; restore it, or delete it to load the values at the steps alone"
        ) from None
    if belongs != checksum(result.data):
        raise ResultFileError(
            f"{path} belongs to another solution; restore the files, or delete it to load the values at the "
            f"steps alone"
        )
    return dense
