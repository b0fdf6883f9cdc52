"""The solution of one run: values at ends of steps and between, work, success, global errors, its files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dae_sdc.compiled.pointwise import equations_at_points
from dae_sdc.control.events import EventRecord
from dae_sdc.dae.interpolant import DenseOutput, round_off_of_times, times_within
from dae_sdc.dae.memory import COUNTERS
from dae_sdc.dae.pointwise import Pointwise
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.files import damaged, is_texts, opened, read_archive
from dae_sdc.registry import unknown
from dae_sdc.run.results import BESIDE, Result, Table, Tabulated, View, checksum, command_line, load, put_down
from dae_sdc.run.unknowns import SavedUnknowns, Unknowns
from dae_sdc.sharing import tell
from dae_sdc.text import brief

SAMPLES = ("sample_times", "samples")  # Arrays of eliminated unknowns, in the file beside a solution.
DENSE_LIMIT = 10_000  # Most unknowns for which the data for values between steps is kept by default.
DENSE_FILE_LIMIT = 4_000_000  # Most values, times by unknowns, for which that data is saved by default.
MOST_PRINTED = 60  # Rows of the table that ``print`` shows.
MOST_ESTIMATED = 100  # Times at which no solution is found, of which errors are estimated for a message.
MOST_NAMED = 8  # Unknowns that such a message names.
LEAST_NAMED = 1e-12  # Estimated errors, relative to the size of an unknown, that are not more than rounding.
TOLD_BETWEEN = 30.0  # Errors between nodes of a step, in units of the tolerance, of which a warning tells.
PICTURE_POINTS = 1200  # Times, at least, at which a picture knows a solution; about the number of its pixels.
CORRECTED_IN_PICTURES = 200  # Most unknowns for which pictures correct values between the steps.


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Tabulated):
    """The solution of a run, returned by :func:`dae_sdc.run.solve`; called with times, it gives u there.

    Parameters
    ----------
    t : ndarray, shape (K,)
        Start time and end of every accepted step, or the times of ``t_eval`` that were reached; the start if
        none was.
    u, du : ndarray, shape (K, n)
        State and its derivative at these times; NaN where a derivative is not known.
    names, units : tuple of str
        Name and unit of every unknown.
    success : bool
        Whether the run reached its end time.
    message : str
        Why the run did not reach its end, which terminal event ended it, or singular points it has passed.
    stats : mapping
        ``steps``, ``rejected``, ``sweeps`` and the work counters ``rhs``, ``newton``, ``jacobian``,
        ``factorization``, ``solve`` of the whole run.
    per_step : mapping of str to ndarray, shape (K,)
        ``residual``, ``sweeps`` and the work counters of every step; 0 at the start. With ``t_eval`` the
        largest residual and the work of the steps that ended since the previous time.
    parameters : mapping
        Problem, method and options of the run.
    log : mapping
        pySDC's statistics of the run, for :func:`pySDC.helpers.stats_helper.get_sorted`.
    events, switches : tuple of EventRecord
        Zeros of each event function, and of each switch of the problem.
    dense : DenseOutput, optional
        Polynomials for u(t) between the steps.
    saves_dense : bool, optional
        Whether :meth:`save` writes these polynomials too; up to :data:`DENSE_FILE_LIMIT` if not given.
    unknowns : Unknowns or SavedUnknowns, optional
        The unknowns that were eliminated from a simplified model, see :meth:`values`.
    equations : Pointwise, optional
        Correction of values between the steps by the equations; a solution from a file has none, unless its
        problem is one of the library.

    Examples
    --------
    >>> solution = ds.solve("simple", rtol=1e-8)
    >>> solution.success, solution.u.shape[1], solution.names
    (True, 3, ('u1', 'u2', 'z'))
    >>> bool(np.allclose(solution(0.5), ds.SimpleDAE().u_exact(0.5), atol=1e-7))
    True
    """

    t: NDArray[np.float64]
    u: NDArray[np.float64]
    du: NDArray[np.float64]
    names: tuple[str, ...]
    units: tuple[str, ...]
    success: bool
    message: str
    stats: Mapping[str, Any]
    per_step: Mapping[str, NDArray[Any]]
    parameters: Mapping[str, Any]
    log: Mapping[Any, Any] = field(default_factory=dict)
    events: tuple[EventRecord, ...] = ()
    switches: tuple[EventRecord, ...] = ()
    dense: DenseOutput | None = None
    saves_dense: bool | None = None
    unknowns: Unknowns | SavedUnknowns | None = None
    equations: Pointwise | None = None

    def __call__(self, t: Any) -> NDArray[np.float64]:
        """u between the steps: integrated unknowns by polynomials, the others by the equations.

        If the equations have no solution near the polynomials, a warning is given, and the values are those
        of the polynomials.

        Parameters
        ----------
        t : float or array_like, shape (K,)
            Times within the computed steps, in the time unit of the problem, in any order. At the end of a
            step u is the value with which it ended, the limit from the left.

        Returns
        -------
        ndarray, shape (n,) or (K, n)
            u(t).

        Raises
        ------
        InputError
            If a time is outside the computed steps, or the polynomials were not kept.
        """
        return self._evaluated(t)[0]

    def derivative(self, t: Any) -> NDArray[np.float64]:
        """u' between the steps, which with u of :meth:`__call__` satisfies the equations.

        Derivatives that the equations at a single time do not determine are those of the polynomials.

        Parameters
        ----------
        t : float or array_like, shape (K,)
            Times within the computed steps. Between two steps u' is that at the end of the first.

        Returns
        -------
        ndarray, shape (n,) or (K, n)
            u'(t).

        Raises
        ------
        InputError
            If a time is outside the computed steps, or the polynomials were not kept.
        """
        return self._evaluated(t)[1]

    def _evaluated(self, t: Any) -> tuple[Vector, Vector]:
        """u and u' at one time or several, with a warning about times at which they are only interpolated."""
        times = self._dense().check(t)
        u, du, said = self._corrected(np.atleast_1d(times))
        for remark in filter(None, (said, _long_steps(self, np.atleast_1d(times)))):
            tell(remark)
        return (u[0], du[0]) if times.ndim == 0 else (u, du)

    def _corrected(self, times: Vector, at_ends: bool = False) -> tuple[Vector, Vector, str]:
        """u and u' at K times, and a message about those at which they do not satisfy the equations."""
        dense = self._dense()
        u, du = dense.values_at(dense.check(times), 0, 1)
        return u, du, self._correct(times, u, du, dense.sizes_at(times), at_ends)

    def _correct(self, times: Vector, u: Vector, du: Vector, sizes: Vector, at_ends: bool) -> str:
        """Correct rows by the equations, in place; returns a message about those where that failed."""
        if self.equations is None:
            return ""
        rows = np.flatnonzero(sizes if at_ends and self.equations.at_ends else sizes > 0.0)
        if not rows.size:
            return ""
        new_u, new_du = u[rows], du[rows]
        solved = self.equations.correct(times[rows], new_u, new_du, sizes[rows])
        u[rows], du[rows] = new_u, new_du
        failed = np.flatnonzero(~solved)
        if not failed.size:
            return ""
        looked_at = zip(rows[failed].tolist(), sizes[rows[failed]], range(MOST_ESTIMATED), strict=False)
        each = [self.equations.errors(times[row], u[row], du[row], abs(h)) for row, h, _ in looked_at]
        errors, count = np.max(each, axis=0), "1 time" if len(failed) == 1 else f"{len(failed)} times"
        order = np.argsort(-errors, kind="stable").tolist()
        off = brief([self.names[j] for j in order if errors[j] > LEAST_NAMED], MOST_NAMED)
        sizes_off = f", {off} with errors up to {errors.max():.1g} of their sizes" if off else ""
        return (
            f"at {count} between the steps, the first t={times[rows[failed[0]]]:.10g}, the equations have no "
            f"solution near the interpolated values, which are given instead{sizes_off}; take shorter steps "
            f"there (dt_max)"
        )

    def _dense(self) -> DenseOutput:
        if self.dense is None:
            raise InputError(
                "the solution between the steps was not kept; solve with dense=True, or name the times with "
                "t_eval"
            )
        return self.dense

    def with_corrected_events(self) -> Solution:
        """A copy with states at events and switches within steps corrected by the equations."""
        if self.dense is None or self.equations is None or not (self.events or self.switches):
            return self

        def exact(record: EventRecord) -> EventRecord:
            if not len(record):
                return record
            rows = self._dense().sizes_at(record.t) > 0.0
            u = record.u.copy()
            u[rows] = self._corrected(record.t[rows])[0]
            return replace(record, u=u)

        return replace(self, events=tuple(map(exact, self.events)), switches=tuple(map(exact, self.switches)))

    def __repr__(self) -> str:
        problem = self.parameters.get("problem", "")
        return f"<Solution of {problem}: {self.u.shape[1]} unknowns, t = {self.t[0]:g} to {self.t[-1]:g}>"

    def _table(self) -> Table:
        return self.result()._table()

    def _view(self, printed: bool) -> View:
        about, unit = self.parameters, self.parameters.get("time_unit", "s")
        kind = [str(about[key]) for key in ("problem", "sweeper") if about.get(key)]
        end = "" if self.success else ", not finished"
        headline = (
            f"{', '.join(kind)}: t = {self.t[0]:g} to {self.t[-1]:g} {unit}{end}, "
            f"{self.stats.get('steps', 0)} steps, {self.stats.get('rhs', 0)} residual evaluations"
        )
        rows = len(self.all_names) + 1
        most = MOST_PRINTED if printed else rows
        below = [f"and {rows - most} more unknowns"] if rows > most else []
        below += [self.message] if self.message else []
        return View(headline, [headline, ""], self._table().summary(most), below)

    def __getitem__(self, name: Any) -> NDArray[np.float64]:
        """``solution["x"]``: values of an unknown, see :meth:`values`, or of the time, "t"."""
        name = str(name)
        return self.t.copy() if name == "t" and name not in self.all_names else self.values(name)

    def values(self, name: Any) -> NDArray[np.float64]:
        """Values of an unknown at the times :attr:`t`.

        Parameters
        ----------
        name : str or sympy.Symbol
            Name of an unknown, or "der(x)" for a derivative. For a simplified model also the eliminated
            unknowns of the original one.

        Returns
        -------
        ndarray, shape (K,)
            The values. Derivatives that are no part of the state are computed by the equations of a
            simplified model; otherwise they are those of the solution.

        Raises
        ------
        InputError
            If there is no such unknown, or it is not determined.
        """
        name = str(name)  # it may be a symbol of the model
        if name in self.names:
            return self.u[:, self.names.index(name)].copy()
        if isinstance(self.unknowns, Unknowns):
            return self.unknowns.values(name, self.t, self.u, self.du, self.names)
        rates = [name_of(base, order + 1) for base, order in map(name_and_order, self.names)]
        if name in rates:
            return self.du[:, rates.index(name)].copy()
        if self.unknowns is not None:
            return self.unknowns.values(name, self.t, self.names)
        raise InputError(unknown("name", name, self.names))

    @property
    def all_names(self) -> tuple[str, ...]:
        """Names of the unknowns of the state, and of those eliminated from a simplified model."""
        return self.names if self.unknowns is None else (*self.names, *self.unknowns.removed)

    def at(self, times: ArrayLike) -> Solution:
        """A copy of the solution at other times, as far as they were reached.

        Parameters
        ----------
        times : float or array_like, shape (K,)
            Increasing times from the start on.

        Returns
        -------
        Solution
            u and u' at these times are those of :meth:`__call__` and :meth:`derivative`; the message says at
            which times they are only interpolated.
        """
        dense = self._dense()
        asked = np.atleast_1d(times_within(times, dense.t0, np.inf, "times", dense.slack))
        reached = asked[asked <= dense.t_end + dense.slack]
        # The work of a step belongs to the first row at or after its end.
        rows = np.searchsorted(dense.check(reached), self.t[1:])
        within = rows < len(reached)
        per_step = {}
        for name, values in self.per_step.items():
            summary = np.zeros(len(reached), values.dtype)
            (np.maximum if name == "residual" else np.add).at(summary, rows[within], values[1:][within])
            per_step[name] = summary
        u, du, said = self._corrected(reached, at_ends=True)
        return replace(self, t=reached, u=u, du=du, per_step=per_step).with_remark(said)

    def reached(self, count: int, sizes: Vector) -> Solution:
        """A copy with the first ``count`` rows, corrected by the equations where they lie within steps."""
        t, u, du = self.t[:count].copy(), self.u[:count].copy(), self.du[:count].copy()
        said = self._correct(t, u, du, sizes[:count], True)
        per_step = {name: values[:count] for name, values in self.per_step.items()}
        return replace(self, t=t, u=u, du=du, per_step=per_step).with_remark(said)

    def with_remark(self, remark: str) -> Solution:
        """A copy with another remark in its message, if there is one."""
        known = remark in self.message
        return self if known else replace(self, message="; ".join(filter(None, (self.message, remark))))

    def result(self) -> Result:
        """The solution as a result table of kind "solution"."""
        n = self.u.shape[1]
        columns: list[Any] = [("t", "f8"), ("u", "f8", (n,)), ("du", "f8", (n,)), ("residual", "f8")]
        columns += [(name, "i8") for name in ("sweeps", *COUNTERS)]
        if units_of_others := units_of_eliminated(self):
            columns.append(("others", "f8", (len(units_of_others),)))
        data = np.zeros(len(self.t), dtype=columns)
        data["t"], data["u"], data["du"] = self.t, self.u, self.du
        for name, values in self.per_step.items():
            data[name] = values
        parameters = {
            **self.parameters,
            **{name: getattr(self, name) for name in ("success", "message", "stats")},
            **{kind: [record.plain() for record in getattr(self, kind)] for kind in ("events", "switches")},
        }
        if units_of_others:
            data["others"] = eliminated_values(self)
            parameters |= {"others": list(self.all_names[n:]), "other_units": list(units_of_others)}
        return Result("solution", data, {"t": parameters.get("time_unit", "s")}, parameters, command_line())

    def save(self, path: str | Path) -> Path:
        """Write the solution to a .npy file with a .json beside it.

        The polynomials for u(t) are written to ``<name>.dense.npz`` too, with ``dense=True`` or if they are
        not very large.

        Parameters
        ----------
        path : path-like
            File to write; ``.npy`` is added if it is missing. A name that ends in ``.csv`` gets time and
            unknowns as text with commas, and no other file.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        InputError
            If it cannot be written.
        """
        result, dense = self.result(), self.dense
        small = dense is not None and dense.values.size <= DENSE_FILE_LIMIT
        wanted = small if self.saves_dense is None else self.saves_dense
        if dense is None or not wanted or str(path).endswith(".csv"):
            return result.save(path)
        arrays: dict[str, Any] = {"checksum": np.array(checksum(result.data)), **dense.arrays()}
        # Values of the eliminated unknowns between the steps, which a file without equations cannot tell.
        if isinstance(self.unknowns, SavedUnknowns):
            arrays |= self.unknowns.samples
        elif self.unknowns is not None and self.unknowns.removed:
            fine = for_picture(self)
            arrays |= zip(SAMPLES, (fine.t, eliminated_values(fine)), strict=True)
        return result.save_with(path, lambda file: np.savez(file, **arrays))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Solution:
        """Read a solution that :meth:`save` wrote.

        Parameters
        ----------
        path : path-like
            The .npy file; the suffix may be left out.

        Returns
        -------
        Solution
            The solution without pySDC's statistics. u(t) is available if its polynomials were saved, and
            corrected by the equations for a problem of the library.

        Raises
        ------
        ResultFileError
            If a file is missing, damaged, or holds no solution.
        """
        result = load(path)
        if result.kind != "solution":
            raise ResultFileError(f"{path} holds a result of kind '{result.kind}'; give a file of a solution")
        data, parameters = result.data, dict(result.parameters)
        if wrong := ", ".join(_wrong_parameters(parameters, data["u"].shape[1])):
            raise ResultFileError(f"{path} lacks what a solution tells of its run ({wrong}); solve again")
        beside = file_between(path)
        dense, samples = _load_dense(beside, result) if beside.exists() else (None, {})
        others, units = parameters.pop("others", ()), parameters.pop("other_units", ())
        shape = data.dtype["others"].shape if "others" in (data.dtype.names or ()) else (0,)
        if not len(others) == len(units) == sum(shape):
            raise ResultFileError(f"{path} lacks the values of eliminated unknowns; solve again")
        unknowns = None
        if others:
            columns = data["t"].copy(), data["others"].copy()
            unknowns = SavedUnknowns(tuple(others), tuple(units), *columns, samples)
        fields: dict[str, Any] = {
            **{name: data[name].copy() for name in ("t", "u", "du")},
            **{name: tuple(parameters[name]) for name in ("names", "units")},
            **{name: parameters.pop(name) for name in ("success", "message", "stats")},
            "per_step": {name: data[name].copy() for name in ("residual", "sweeps", *COUNTERS)},
            **{
                kind: tuple(EventRecord.of(record, data["u"].shape[1]) for record in parameters.pop(kind, ()))
                for kind in ("events", "switches")
            },
            **{
                "parameters": parameters,
                "dense": dense,
                "saves_dense": dense is not None,
                "unknowns": unknowns,
            },
            "equations": None if dense is None else _equations(parameters, dense),
        }
        return cls(**fields)


def put_down_of(whole: Solution, out: Any) -> Solution:
    """A solution that has been written to its file, where it has one."""
    return whole if out is None else whole.with_remark(put_down(whole, out, whole.success))


def units_of_eliminated(solution: Solution) -> tuple[str, ...]:
    """Units of the unknowns that were eliminated."""
    return () if solution.unknowns is None else solution.unknowns.units_of_removed


def eliminated_values(solution: Solution) -> NDArray[np.float64]:
    """Values of the unknowns that were eliminated, shape (K, m); NaN where they are not determined."""
    names = solution.all_names[len(solution.names) :]
    table = np.full((len(solution.t), len(names)), np.nan)
    for column, name in zip(table.T, names, strict=True):
        with suppress(InputError):
            column[:] = solution.values(name)
    return table


def for_picture(solution: Solution, logarithmic: bool = False) -> Solution:
    """A copy of a solution at so many times that straight lines between them look like the solution."""
    dense = solution.dense
    if dense is None or len(dense.ends) > 4 * PICTURE_POINTS or not len(dense.ends):
        return solution
    whole = solution if solution.u.shape[1] <= CORRECTED_IN_PICTURES else replace(solution, equations=None)
    return whole.at(dense.spread(PICTURE_POINTS, logarithmic))


def file_between(path: str | os.PathLike[str]) -> Path:
    """The file for values between the steps that belongs to a ``.npy`` file, whose suffix may be left out."""
    source = Path(path)
    return (source if source.suffix == ".npy" else source.with_name(f"{source.name}.npy")).with_suffix(BESIDE)


def _equations(parameters: Mapping[str, Any], dense: DenseOutput) -> Pointwise | None:
    """The correction by the equations of a problem of the library, from the parameters in a file."""
    name = parameters.get("problem")
    if isinstance(name, str) and name in PROBLEMS:
        with suppress(InputError, TypeError, ValueError, ArithmeticError):  # parameters of another version
            problem = PROBLEMS[name](**parameters.get("params", {}))
            if problem.n == len(dense.u0):
                return equations_at_points(problem, dense.largest())
    return None


def _wrong_parameters(parameters: Mapping[str, Any], n: int) -> list[str]:
    """Names of parameters that a saved solution of n unknowns lacks, or has with another type."""
    entries = {"params": {}, "others": [], "other_units": [], **parameters}
    kinds = {"success": bool, "message": str, "stats": dict, "params": dict}
    counts = {"names": n, "units": n, "others": None, "other_units": None}
    wrong = [name for name, kind in kinds.items() if not isinstance(entries.get(name), kind)]
    wrong += [name for name, count in counts.items() if not is_texts(entries.get(name), count)]
    for name in ("events", "switches"):
        try:
            for record in entries.get(name, ()):
                EventRecord.of(record, n)
        except (TypeError, ValueError, KeyError, OverflowError):
            wrong.append(name)
    return wrong


def _load_dense(path: Path, result: Result) -> tuple[DenseOutput, dict[str, Vector]]:
    """The polynomials in a file, and samples of eliminated unknowns."""
    with damaged(f"{path} is damaged; restore it, or delete it to load the values at the steps alone"):
        with opened(path) as file:
            arrays = read_archive(file)
        belongs, dense = int(arrays.pop("checksum")), DenseOutput.from_arrays(arrays)
        if dense.values.shape[1:] != result.data["u"].shape[1:]:
            raise ValueError("has another number of unknowns")
        samples = {name: table for name, table in arrays.items() if name in SAMPLES}
        rows = len(samples["sample_times"]) if samples else 0
        if samples and samples["samples"].shape != (rows, *result.data["others"].shape[1:]):
            raise ValueError("has another number of eliminated unknowns")
    if belongs != checksum(result.data):
        raise ResultFileError(
            f"{path} belongs to another solution; restore the files, or delete it to load the values at the "
            f"steps alone"
        )
    return dense, samples


def output_times(t_eval: Any, points: int | None, start: float, end: float) -> Vector | None:
    """The output times of a run; None if neither times nor a number of them is given."""
    # Shapes: t_eval (K,) -> (K,).
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


def _long_steps(solution: Solution, times: Vector) -> str:
    """Which integrated unknowns are not as good at times between steps as at their ends, and how good."""
    dense, about = solution._dense(), solution.parameters
    rows = dense.sizes_at(times) > 0.0
    if about.get("rtol") is None or not rows.any():
        return ""
    allowed = about["rtol"] * dense.largest()
    if about.get("atol") is not None:
        allowed = np.maximum(allowed, about["atol"])
    errors = dense.errors_between(times[rows]) / np.where(allowed > 0.0, allowed, np.inf)
    errors[[name in about.get("algebraic", ()) for name in solution.names]] = 0.0
    if not errors.max() > TOLD_BETWEEN:
        return ""
    off = [solution.names[j] for j in np.argsort(-errors).tolist() if errors[j] > TOLD_BETWEEN]
    return (
        f"the steps are long, and between them {brief(off, MOST_NAMED)} may be off by up to "
        f"{errors.max():.1g} times the tolerance; solve with dense=True, or with these times as t_eval"
    )


def about_problem(problem: ProblemDAE) -> dict[str, Any]:
    """What the file of a solution says of its problem: unknowns, units, and parameters, also of its model."""
    # Unknowns of a plain function stand in any order; those whose derivatives do not occur are algebraic.
    algebraic = [name for name, of_kind in zip(problem.names, problem.is_algebraic, strict=True) if of_kind]
    params = {**problem.params, **(getattr(problem, "values", {}) if hasattr(problem, "model_name") else {})}
    plain = {name: str(x) if isinstance(x, complex) else x for name, x in params.items()}
    about = {"n_diff": problem.n - len(algebraic), "algebraic": algebraic, "names": list(problem.names)}
    about |= {"labels": dict(getattr(problem, "labels", ()))}
    return {**about, "units": list(problem.units), "time_unit": problem.time_unit, "params": plain}


def derivative_at_start(problem: ProblemDAE, u0: Vector, t0: float, is_exact: bool) -> Vector:
    """u' at the start of a run by the problem's ``du_exact``, shape (n,); NaN if that is not known."""
    try:
        exact = u0 if is_exact else problem.u_exact(t0)
        slope = problem.du_exact(t0)
    except InputError as error:
        if error.__cause__ is not None:  # the user's functions raised it
            raise
        return np.full(problem.n, np.nan)
    if not (np.abs(problem.state(exact).view(np.ndarray) - u0) <= 1e-12 + 1e-9 * np.abs(u0)).all():
        return np.full(problem.n, np.nan)
    return np.asarray(problem.state(slope))


# Error of the finer of two runs relative to their difference, where their tolerances differ by REFINEMENT: by
# its square root at least, that of steps of the first order, errors fall, 1 / (10^(1/2) - 1) = 0.46.
REMAINING_ERROR, REFINEMENT = 0.5, 0.1
ACCEPTED_ERROR = 30.0  # Estimated error, in tolerances, of an accepted run: errors of steps accumulate.
MOST_INACCURATE = 100  # Largest number of inaccurate unknowns that are named in a message.
ERROR_OF_TIME = 0.05  # Error of the time of transients, in rtol and the time of a change.


def estimated(coarse: Vector, fine: Vector) -> Vector:
    """Estimated errors of the finer of two runs at common times, infinite where they are no numbers."""
    with np.errstate(all="ignore"):
        errors = REMAINING_ERROR * np.abs(fine - coarse)
    return np.where(np.isfinite(errors), errors, np.inf)


def inaccurate(names: Sequence[str], errors: Vector, allowed: Vector, rtol: float, why: str = "") -> str:
    """Which unknowns have larger errors than a tolerance allows, and up to which; empty if none."""
    # Shapes: errors and allowed (K, n).
    ratios = (errors / allowed).max(axis=0)
    loose = np.flatnonzero(ratios > ACCEPTED_ERROR)
    if not loose.size:
        return ""
    worst = [names[j] for j in loose[np.argsort(-ratios[loose], kind="stable")].tolist()]
    shown = brief(worst, MOST_INACCURATE)
    return (
        f"{shown}: errors up to {errors[:, loose].max():.1g}, {ratios.max():.1g} times what "
        f"rtol={rtol:g} allows a step, "
        + (why or "by comparison of runs to two tolerances; reduce the index, or use another sweeper")
    )


def not_estimated(names: Sequence[str], why: str) -> str:
    """What is said of all unknowns if no run to a smaller tolerance tells their errors."""
    return f"{brief(names, MOST_INACCURATE)}: errors up to any size, as they were not estimated ({why})"


def in_transients(
    names: Sequence[str], t: Vector, u: Vector, du: Vector, sizes: Vector, rtol: float, begins: Vector
) -> str:
    """Which unknowns change so fast that a small error of time is a large one of theirs; empty if none."""
    # A state that is off by a part of rtol comes to a transient too early or too late, and what follows from
    # it is off as by a shift in time. Those that begin at known times, ``begins`` in order, are not shifted.
    # Shapes: t (K,), u and du (K, n), sizes (n,).
    part, span = ERROR_OF_TIME, t[-1] - t[0]
    sizes = np.maximum(sizes, np.abs(u).max(axis=0, initial=np.finfo(float).tiny))
    fastest = np.fmax(np.fmax.reduce(du), -np.fmin.reduce(du))
    fast = np.flatnonzero(part * span * fastest > ACCEPTED_ERROR * sizes)
    if not fast.size:
        return ""
    u, sizes, rates = u[:, fast], sizes[fast], np.abs(du[:, fast])
    rates[~np.isfinite(rates)] = 0.0
    since = t - begins[np.searchsorted(begins, t, side="right") - 1]
    longest = span * sizes / np.maximum(np.abs(u[1:] - u[:-1]).sum(axis=0), sizes)
    shifts = part * rtol * np.minimum(since[:, None], longest)
    errors = np.minimum(rates * shifts, u.max(axis=0) - u.min(axis=0))
    k = int(np.argmax((errors / sizes).max(axis=1)))
    why = f"in transients as near t={t[k]:.10g}, whose time is not known better; give a smaller rtol"
    return inaccurate([names[j] for j in fast.tolist()], errors, rtol * sizes, rtol, why)
