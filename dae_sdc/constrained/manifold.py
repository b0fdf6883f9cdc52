"""Methods for quasilinear equations on the manifold of their constraints: charts, projections, RATTLE."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.constrained.parts import PARTS, Pointers
from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.dae.machine_code import entry
from dae_sdc.dae.memory import ArrayMemory, Counts, fields, tell_addresses
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import EndDerivative, EndWithInterior, MeshDAE, Vector, attach
from dae_sdc.errors import InputError, SingularMatrixError, SolveError
from dae_sdc.registry import Registry
from dae_sdc.sweepers.direct import DirectSweeper
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.sweepers.simultaneous import RunNumbers, StepNumbers
from dae_sdc.sweepers.steps_ahead import BEGINNING, UNFINISHED
from dae_sdc.sweepers.tableaux import MethodRecord
from dae_sdc.sweepers.tolerance import Outcome

# Forms: A u' = h with g(u) = 0; A u' + B lambda = h with g(u) = 0; A u'' + B lambda = h with g(u) = 0; and A
# u'' + B lambda = h with g(u, u') = 0.
FIRST, MULTIPLIED, SECOND, NONHOLONOMIC = range(4)
SOLVED, UNDEFINED, SLOW, DEPENDENT, SINGULAR = range(5)  # How a step has ended.
# Form of each type of equations.
FORMS = {"daeq1": 0, "daeq2": 1, "daeq3": 2, "eulag": 2, "nohol": 3}
HOLONOMIC = ("daeq3", "eulag")  # Types with constraints on positions.
TREATMENTS = ("chart", "ambient", "rattle")  # Steps in local coordinates; in u and v themselves; by RATTLE.
# Cosine of the angle between a chart and the tangent space below which the chart is given up.
CHART_COSINE = 0.95
STEPS_WATCHED = 3  # Steps in which the determinant of the equations is followed.
# Least fall of the logarithm of that determinant, below both ends of the steps, that shows it touching zero.
LEAST_DIP = 1.9

# Messages on the ends of a step, in the order of their numbers.
REASONS = (
    "",
    "the equations are not defined there",
    "Newton's method for the constraints does not converge",
    "the constraint Jacobian loses rank: {constraint} depends on the others",
    "the matrix of the derivatives and multipliers is singular: the constraints are dependent, or A is not "
    "regular on the kernel of their Jacobian",
)


@dataclass(frozen=True)
class ExplicitPair:
    """An explicit Runge-Kutta pair with an interpolant, from the tables of SciPy."""

    # A, b, c: tableau; the slope at the end of the step is one more stage.
    A: Vector
    b: Vector
    c: Vector
    E: Vector  # Shape (1 or 2, stages + 1). Weights of the error estimates.
    # A_extra, c_extra: further stages of the interpolant.
    A_extra: Vector
    c_extra: Vector
    D: Vector  # Shape (P, stages + 1 + extra). Weights of the slopes in the values at ``theta``.
    theta: Vector  # Shape (P,). Places within the step that the interpolant is fixed by, besides its ends.
    # order, embedded_order: order of the method, and of the estimates together.
    order: int
    embedded_order: int


def _inner_points(degree: int) -> Vector:
    """Extrema of the Chebyshev polynomial of a degree, within (0, 1)."""
    return 0.5 - 0.5 * np.cos(np.pi * np.arange(1, degree) / degree)


def _dormand_prince() -> ExplicitPair:
    from scipy.integrate import RK45  # most runs need neither

    theta = _inner_points(4)
    powers = theta[:, None] ** np.arange(1, 5)
    A = np.zeros((6, 6))
    A[:, :5] = RK45.A
    none = np.zeros((0, 7))
    D = powers @ RK45.P.T
    return ExplicitPair(A, RK45.B, RK45.C, RK45.E[None], none, np.zeros(0), D, theta, 5, 4)


def _dop853() -> ExplicitPair:
    from scipy.integrate import DOP853

    theta = _inner_points(7)
    count = 16
    # The interpolant of Hairer: y0 + x (F0 + (1 - x) (F1 + x (F2 + ...))), all of it linear in the slopes.
    whole = np.concatenate([DOP853.B, np.zeros(4)])
    start, end = np.eye(count)[0], np.eye(count)[12]
    F = [whole, start - whole, 2.0 * whole - start - end, *DOP853.D]
    D = np.zeros((len(theta), count))
    for row, x in zip(D, theta, strict=True):
        for i, term in enumerate(reversed(F)):
            row += term
            row *= x if i % 2 == 0 else 1.0 - x
    E = np.array([DOP853.E5, DOP853.E3])
    return ExplicitPair(DOP853.A, DOP853.B, DOP853.C, E, DOP853.A_EXTRA, DOP853.C_EXTRA, D, theta, 8, 7)


# Pairs by name, made where they are needed first.
PAIRS = {"dopri5": cache(_dormand_prince), "dop853": cache(_dop853)}

_REFERENCES = {
    "dopri5": "J. R. Dormand, P. J. Prince, J. Comput. Appl. Math. 6 (1980) 19",
    "dop853": "E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I (1993), II.5",
}


@dataclass(frozen=True)
class ManifoldMethod(MethodRecord):
    """A method for quasilinear equations with constraints.

    Parameters
    ----------
    name, class_name : str
        Name in the registry of sweepers, and of the sweeper class.
    treatment : {"chart", "ambient", "rattle"}
        Whether steps are taken in local coordinates of the manifold, in u and u' themselves, or by RATTLE.
    pair : {"dopri5", "dop853", ""}
        The explicit pair.
    positions, velocities : bool
        Without a chart: whether the end of a step is projected on the constraint, and on its derivative.
    alpha, beta : float
        Coefficients of Baumgarte's stabilisation, 1/s: g'' + 2 alpha g' + beta^2 g = 0 takes the place of
        g'' = 0, and g' + alpha g = 0 that of g' = 0.
    turned : float
        Cosine of the angle between chart and tangent space below which a new chart is made; 1 for a chart a
        step.
    order : int
        Classical order.
    reference : str
        Where the method comes from.

    Examples
    --------
    >>> method = ds.MANIFOLD_METHODS["projected-dop853"]
    >>> method.class_name
    'ProjectedDop853DAE'
    """

    kind = "method on manifolds"

    name: str
    class_name: str
    treatment: str
    pair: str
    order: int
    reference: str
    positions: bool = False
    velocities: bool = False
    alpha: float = 0.0
    beta: float = 0.0
    turned: float = CHART_COSINE

    def __post_init__(self) -> None:
        self._check_names()
        if self.treatment not in TREATMENTS:
            raise self._error(f"treatment must be one of {', '.join(TREATMENTS)}; got {self.treatment!r}")
        if (self.treatment == "rattle") != (self.pair == ""):
            raise self._error("a pair belongs to the treatments chart and ambient, and to them alone")
        if self.pair and self.pair not in PAIRS:
            raise self._error(f"pair must be one of {', '.join(PAIRS)}; got {self.pair!r}")
        if self.treatment != "ambient" and (self.positions or self.velocities or self.alpha or self.beta):
            raise self._error("projections and Baumgarte's coefficients belong to the treatment ambient")
        if min(self.alpha, self.beta) < 0.0:
            raise self._error(f"alpha and beta must not be negative; got {self.alpha}, {self.beta}")
        if not 0.0 < self.turned <= 1.0:
            raise self._error(f"turned must be above 0 and at most 1; got {self.turned}")

    @property
    def stages(self) -> int:
        """Number of stages of a step."""
        return len(PAIRS[self.pair]().b) if self.pair else 2

    @property
    def embedded_order(self) -> int | None:
        """Order of the error estimate."""
        return PAIRS[self.pair]().embedded_order if self.pair else None

    @property
    def orders(self) -> Mapping[int, tuple[int, ...]]:
        """Orders of all groups of unknowns by the index: multipliers follow from positions and velocities."""
        p = self.order
        return {3: (p, p, p)} if self.treatment == "rattle" else {1: (p, p), 2: (p, p, p), 3: (p, p, p)}

    @property
    def stiffly_accurate(self) -> bool:
        """Derivatives at the ends of steps are those of the equations there."""
        return True


# All methods on manifolds by name.
MANIFOLD_METHODS: Registry[ManifoldMethod] = Registry("method on manifolds")


class ManifoldMarks(ctypes.Structure):
    """Integers that steps pass on, for Python and for compiled code; checkpoints have them in this order."""

    _fields_ = [
        # Whether there is a chart, how many there have been, whether the step began with a new one.
        *fields(ctypes.c_int64, "valid made fresh"),
        ("counts", Counts),
        *fields(
            ctypes.c_int64,
            "where",  # unknown with the largest error of a solved step, or constraint that depends on others
            # Signs of determinants: of the last matrix, of the last one of a chart, and of the saddle-point
            # matrix at the start and at the end of the step.
            "sign chart_sign start_sign end_sign",
            "crossed",  # whether the sign of the chart has changed in the step
        ),
    ]


class ManifoldMemory(ctypes.Structure):
    """What steps work on, for Python and for compiled code: addresses of doubles unless said.

    With n unknowns u, m constraints, d = n - m, k local coordinates, and S slopes, of the stages, the end of
    the step and the stages that serve the interpolant alone.
    """

    _fields_ = [
        ("marks", ManifoldMarks),
        ("numbers", StepNumbers),  # of which steps of these methods have the error, and others are 0
        ("run", RunNumbers),
        *fields(
            ctypes.c_double,
            "alpha beta",  # coefficients of Baumgarte's stabilisation
            "turned",  # cosine of the angle to the tangent space below which a new chart is made
            "rtol rate",  # of weights, see :class:`~dae_sdc.sweepers.tolerance.Weights`; the last is not used
            # Logarithm of the determinant of the saddle-point matrix: the last one, that at the start of the
            # step, the least within the step and that at its end.
            "log_determinant start_log_determinant least_log_determinant end_log_determinant",
        ),
        *fields(
            ctypes.c_int64,
            "form",  # of the equations, one of the four above
            "chart positions velocities",  # whether there are charts, and which projections at ends of steps
            "rattles adaptive",  # whether steps are those of RATTLE, and whether their errors are estimated
            "n m coordinates slopes stages extra points",  # numbers; the last three of the method
            "size n_diff",  # numbers of unknowns in a state, and of those that are differential
            "rows",  # number of states of a step that are kept: those within, and the end
            "inside dipped",  # whether those within are known; whether a determinant has fallen and grown
            # Of steps that are taken one after the other, see :class:`StagesMemory`; others of it are 0.
            "taken room step_sizes sizes_before work_rows run_u run_du in_turn linearize swept",
            "follows watched atol counted sizes seen",  # of weights
            "error_estimates",  # number, 1 or 2
            "A B h g dg dg_dt d2g",  # functions; B is 0 if it is the transpose of dg, dg_dt if it is zero
            "p",  # parameters of the functions
            # Coefficients of the method: times (stages,), (extra,) and (points,), and weights of the slopes
            # (stages, S), (S,), (error_estimates, S), (extra, S) and (points, S).
            "stage_times extra_times point_times",
            "stage_weights end_weights error_weights extra_weights point_weights",
            "base",  # of the chart, (n,)
            "u v a u0 v0 a0 u1 v1 a1",  # state and its last derivative at a stage, at the start, at the end
            "weights",  # of u and v in norms of errors, (2, n)
            "z0 z1 z local_error",  # local coordinates at the start, the end and a stage; their error
            "K",  # slopes of the local coordinates, (S, k)
            "multipliers end_multipliers",  # at a stage or the start, and at the end, (m,)
            "g_value rest_value",  # of the constraints, and of what their derivatives add, (m,)
            "scale rhs",  # of the rows of a matrix, and right-hand side or solution, (n + m,)
            "chart_pivots saddle_pivots",  # integers, (n + m,)
            "basis",  # U, (n, d)
            "chart_matrix",  # [G; U^T] or a copy of A, and then its factors, (n, n)
            "A_value B_value dg_value",  # (n, n), (n, m), (m, n)
            # [A B; G 0] or [A; G], and then its factors, (n + m, n + m) or (n, n); reflected for a chart
            "saddle",
            "end_rows",  # states within the step and that at its end, (points + 1, unknowns)
            "end_slope_row",  # the derivative of the last, NaN where no equation gives one, (unknowns,)
            # Logarithms of the determinant in the last steps, at the start and the least within, (steps, 2)
            "recent",
        ),
    ]


STEP, STEPS, WEIGH, DIFFERENTIATE = range(4)  # What compiled code may be asked for.


@cache
def compiled_act() -> Any:
    """The C function that does one of these for the memory at an address."""
    kinds = ctypes.c_int64, ctypes.c_int64, ctypes.c_double, ctypes.c_double
    return ctypes.PYFUNCTYPE(ctypes.c_int64, *kinds)(entry("dae_sdc.constrained._manifold:act").address)


class ManifoldDAE(DirectSweeper):
    r"""A step of an explicit method for equations whose constraints are kept, as a pySDC sweeper.

    The derivative and the multipliers follow from the saddle-point equations

    .. math::
        \begin{pmatrix} A & B \\ G & 0 \end{pmatrix} \begin{pmatrix} \ddot q \\ \lambda \end{pmatrix}
        = \begin{pmatrix} h \\ -\gamma \end{pmatrix},

    with the Jacobian G of the constraints and :math:`\gamma`, their second derivative less
    :math:`G \ddot q`. In a chart, with an orthonormal basis U of the kernel of G at a base point :math:`q_0`,
    the step is taken in :math:`\eta = U^T (q - q_0)` and :math:`\nu = U^T \dot q`; Newton's method finds the
    point with these coordinates on the manifold. Without a chart the end of the step is projected.

    Parameters
    ----------
    params : dict
        Parameters of the sweeper; the method itself is the class attribute ``method``.
    level : pySDC.core.level.Level
        The level that steps.

    Attributes
    ----------
    on_manifold : bool
        Whether the ends of steps meet the constraints and their derivatives, and so output must.
    charts : int
        Charts that have been made.
    passed : list of tuple of float
        Start and end of the steps within which a determinant has changed its sign: that of the saddle-point
        matrix, or that of a chart. A singular point lies between.
    dipped : bool
        Whether the determinant of the saddle-point matrix has become small in the last steps and grown again
        without a change of its sign.

    References
    ----------
    W. C. Rheinboldt, Solving algebraically explicit DAEs with the MANPAK-manifold-algorithms, Comput. Math.
    Appl. 33 (1997) 31; E. Hairer, G. Wanner, Solving Ordinary Differential Equations II (1996), sec. VII.2;
    J. Baumgarte, Comput. Methods Appl. Mech. Eng. 1 (1972) 1; H. C. Andersen, J. Comput. Phys. 52 (1983) 24.

    Examples
    --------
    >>> method = ds.MANIFOLD_METHODS["projected-dop853"]
    >>> issubclass(ds.manifold_method(method), ds.ManifoldDAE)
    True
    """

    method: ClassVar[ManifoldMethod]
    family = "method on manifolds"
    on_manifold: ClassVar[bool] = False
    uses_jacobian = False

    def __init__(self, params: dict[str, Any], level: Any) -> None:
        super().__init__(params, level)
        self.keeps_interior = True
        self._left: Any = None
        self._start: tuple[Any, float] | None = None
        self.resumed = False
        self.passed: list[tuple[float, float]] = []
        self.dipped = False
        self.advanced: int | None = None  # How a step has ended that was begun ahead.
        self._theta = tuple(PAIRS[self.method.pair]().theta.tolist()) if self.method.pair else ()

    @classmethod
    def check_problem(cls, problem: ProblemDAE) -> None:
        """Raise InputError for equations of no quasilinear type, or that RATTLE is not made for."""
        if not isinstance(problem, QuasilinearProblem):
            raise InputError(
                f"'{cls.method.name}' needs equations of a quasilinear type (ds.QuasiLagrangeProblem and its "
                f"like); {problem.name} is none, use an SDC sweeper or a Radau IIA method"
            )
        if cls.method.treatment == "rattle" and problem.kind not in HOLONOMIC:
            raise InputError(
                f"'{cls.method.name}' is for second-order equations with constraints on positions; "
                f"{problem.name} is of type {problem.kind}"
            )

    @classmethod
    def check_adaptive(cls) -> None:
        """Raise InputError for a method whose error cannot be estimated."""
        if not cls.method.pair:
            super().check_adaptive()

    @property
    def charts(self) -> int:
        """Charts that have been made."""
        return int(self._memory.structure.marks.made) if self._problem is not None else 0

    def _bind(self, problem: ProblemDAE, *_: Any) -> None:
        assert isinstance(problem, QuasilinearProblem)
        pointers = problem.pointers()
        self._n = pointers.n
        # Number of unknowns that are no multipliers.
        self._bound = 2 * self._n if FORMS[pointers.kind] >= SECOND else self._n
        goal, scales = self.tolerance, problem.run_scales
        self._weights = None if goal is None else goal.weights_of(problem, 1.0, self._bound, plain=True)
        self._memory = self._allocate(pointers, problem.n)
        s = self._memory.structure
        s.size, s.n_diff = problem.n, problem.n_diff
        s.rattles, s.adaptive = self.method.treatment == "rattle", goal is not None
        s.rows = 1 + (len(self._theta) if self.keeps_interior else 0)
        self._take_parts(pointers)
        self._left = self._start = self.advanced = None
        if s.rattles:
            self._check_separable(problem)
        if self._weights is not None:
            s.rtol = self._weights.rtol
            for name in ("counted", "atol"):
                if (values := getattr(self._weights, name)) is not None:
                    self._memory.replace(name, np.ascontiguousarray(values))
            self._memory.replace("sizes", scales.unknowns)
            self._memory.replace("seen", scales.seen)
        self._solver = _Ahead(self)

    def _allocate(self, pointers: Pointers, total: int) -> ArrayMemory:
        form, method, n, m = FORMS[pointers.kind], self.method, pointers.n, pointers.m
        d, chart = n - m, method.treatment == "chart"
        pair = PAIRS[method.pair or "dopri5"]()
        stages, extra, points = len(pair.b), len(pair.c_extra), len(pair.theta)
        slopes = stages + 1 + extra
        size = (d, d, 2 * d, n + d)[form] if chart else (n, n, 2 * n, 2 * n)[form]
        s = ManifoldMemory(form=form, n=n, m=m, coordinates=size, chart=chart)
        s.positions, s.velocities = method.positions, method.velocities
        s.alpha, s.beta, s.turned = method.alpha, method.beta, method.turned
        s.stages, s.extra, s.points, s.slopes, s.error_estimates = stages, extra, points, slopes, len(pair.E)
        times = {"stage_times": pair.c, "extra_times": pair.c_extra, "point_times": pair.theta}
        weights = {
            **{"stage_weights": pair.A, "end_weights": pair.b[None], "error_weights": pair.E},
            **{"extra_weights": pair.A_extra, "point_weights": pair.D},
        }
        shapes: dict[str, int | tuple[int, int]] = {
            **dict.fromkeys(("base", "u", "v", "a", "u0", "v0", "a0", "u1", "v1", "a1"), n),
            **dict.fromkeys(("z0", "z1", "z", "local_error"), size),
            **dict.fromkeys(("multipliers", "end_multipliers", "g_value", "rest_value"), m),
            **dict.fromkeys(("scale", "rhs"), n + m),
            **dict.fromkeys(("chart_matrix", "A_value"), (n, n)),
            **{"K": (slopes, size), "basis": (n, d), "B_value": (n, m), "dg_value": (m, n)},
            **{"saddle": (n + m, n + m), "end_rows": (points + 1, total), "end_slope_row": total},
        }
        arrays: dict[str, Any] = {
            **{name: np.array(table) for name, table in times.items()},
            **{name: np.pad(W, ((0, 0), (0, slopes - W.shape[1]))) for name, W in weights.items()},
            **{name: np.zeros(shape) for name, shape in shapes.items()},
            **{name: np.zeros(n + m, dtype=np.int64) for name in ("chart_pivots", "saddle_pivots")},
            "weights": np.ones(2 * n),
            # Nothing has fallen before the first step.
            "recent": np.tile([-np.inf, np.inf], (STEPS_WATCHED, 1)),
        }
        arrays["end_slope_row"].fill(np.nan)
        return ArrayMemory(s, arrays)

    def _take_parts(self, pointers: Pointers) -> None:
        """Write the addresses of the parts of the equations, and of their parameters, to the memory."""
        self._failure, s = pointers.failure, self._memory.structure
        for name, function in zip(PARTS, pointers.addresses.tolist(), strict=False):
            setattr(s, name, function)
        self._memory.replace("p", pointers.p)

    def _check_separable(self, problem: QuasilinearProblem) -> None:
        """Refuse for RATTLE an A that is not constant, and forces that depend on velocities."""
        n, generator = self._n, np.random.default_rng(0)
        u0 = self.level.u[0].view(np.ndarray)
        q, v, t = u0[:n], u0[n : 2 * n], self.level.time
        other_q, other_v = q + generator.standard_normal(n), v + 1.0 + generator.standard_normal(n)
        cls = problem.name
        constant = f"a constant A; that of {cls} changes with positions or velocities"
        at_rest = f"forces that depend on positions alone; h of {cls} changes with velocities"
        for part, place, need in ((problem.A, other_q, constant), (problem.h, q, at_rest)):
            if not np.allclose(part(t, q, v), part(t, place, other_v), rtol=1e-10, atol=1e-300):
                raise InputError(f"'{self.method.name}' needs {need}, use a projected or chart method")

    # --- steps ----------------------------------------------------------------------------------------------

    def begin(self, start: MeshDAE, time: float) -> int:
        """Write the start of a step and its derivative to the memory; returns how that ended."""
        memory = self._memory
        s, arrays = memory.structure, memory.arrays
        pointers = self.level.prob.pointers()
        if pointers.p is not arrays["p"]:  # other parameters, or a copy of the problem
            self._take_parts(pointers)
            self._left = self._start = None
        polynomial = start.polynomial
        slope: Vector | None = None if polynomial is None else polynomial.value
        if self._start is not None and self._start[1] == time:
            known = self._start[0]
            if known is start or (known is None and self._stands(start.view(np.ndarray), slope)):
                return SOLVED  # a repeated step finds everything in its place, and one behind steps ahead
        self._place_start(start.view(np.ndarray))
        if slope is not None and (polynomial is self._left or self.resumed):
            arrays["a0"][:] = self._last(slope)
            s.marks.start_sign, s.start_log_determinant = s.marks.end_sign, s.end_log_determinant
            status = SOLVED
        else:
            s.marks.valid = 0
            status = self.act(DIFFERENTIATE, time)
        self.resumed = False
        self._start = (start, time) if status == SOLVED else None
        return status

    def _last(self, slope: Vector) -> Vector:
        """The part of u' that is the last derivative of the equations."""
        return slope[self._bound - self._n : self._bound]

    def _stands(self, u: Vector, slope: Vector | None) -> bool:
        """Whether a state and its derivative are those from which the last step was or would be taken."""
        arrays, bound = self._memory.arrays, self._bound
        same = slope is not None and np.array_equal(self._last(slope), arrays["a0"])
        return same and np.array_equal(u[:bound], np.append(arrays["u0"], arrays["v0"])[:bound])

    def _place_start(self, u: Vector) -> None:
        """Write u, and v where there is one, to the start of the step."""
        self._memory.arrays["u0"][:] = u[: self._n]
        if self._bound > self._n:
            self._memory.arrays["v0"][:] = u[self._n : self._bound]

    def act(self, what: int, time: float, dt: float = 0.0) -> int:
        """Let compiled code do a piece of its work; raises what an equation has raised within."""
        scales, s = self.level.prob.run_scales, self._memory.structure
        s.follows, s.watched = scales.running, scales.running and scales.watched
        status: int = compiled_act()(self._memory.address, what, time, dt)
        if what != STEPS or status != UNFINISHED:  # where the step that was begun raises it
            self._failure.check()
        return status

    def _step(self) -> None:
        L, s, adaptive = self.level, self._memory.structure, self.tolerance is not None
        status, self.advanced = self.advanced, None
        if status is not None:
            self._start = L.u[0], L.time
            self._failure.check()
        elif (status := self.begin(L.u[0], L.time)) == SOLVED:
            status = self.act(STEP, L.time, L.dt)
        error = float(s.numbers.error)
        good = status == SOLVED and error <= 1.0
        if good and (s.marks.crossed or s.marks.start_sign != s.marks.end_sign):
            self.passed = [*self.passed, (L.time, L.time + L.dt)]
        self.dipped = good and bool(s.dipped)
        s.marks.counts.add_to(L.prob)
        if adaptive:
            worst = int(s.marks.where) if status == SOLVED else 0
            reason = "" if status == SOLVED else self._reason(status)
            self.outcome = Outcome(status == SOLVED, error, self._solver.order, 0.0, 0.0, reason, worst)
        elif status != SOLVED:
            kind = SingularMatrixError if status in (DEPENDENT, SINGULAR) else SolveError
            raise kind(
                f"the step from t={L.time:.10g} with dt={L.dt:.3g} cannot be taken: {self._reason(status)}; "
                f"take smaller steps, or check the state there for a singularity"
            )
        self._keep_end(good)

    def _reason(self, status: int) -> str:
        names, at = self.level.prob.constraint_names, int(self._memory.structure.marks.where)
        return REASONS[status].format(constraint=names[at] if status == DEPENDENT else "")

    def _keep_end(self, good: bool) -> None:
        L, arrays = self.level, self._memory.arrays
        rows, slope = arrays["end_rows"].copy(), arrays["end_slope_row"].copy()
        row, inside = rows[-1], good and bool(self._memory.structure.inside)
        if not good:
            row, slope = np.array(L.u[0]), np.full(L.prob.n, np.nan)
        end = attach(row, L.prob.n_diff)
        end.polynomial = EndWithInterior(slope, *((self._theta, rows[:-1]) if inside else ()))
        self._end = end
        L.u[1][:], L.f[1][:] = row, slope
        self._shown = L.u[1], L.f[1]

    def _end_step(self) -> None:
        """Set u at the end of the step; one that somebody else has assigned begins a new chart."""
        L = self.level
        if L.u[1] is not self._shown[0] or L.f[1] is not self._shown[1]:
            self._end = L.prob.dtype_u(L.u[1])
            self._end.polynomial = EndDerivative(np.array(L.f[1]))
            self._shown = L.u[1], L.f[1]
            L.uend = self._end
            return
        L.uend, self._left = self._end, self._end.polynomial

    def starting_step(self, u0: MeshDAE, t0: float, span: float) -> float:
        """A size for the first step of an interval, at most a hundredth of it."""
        # E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I (1993), sec. II.4.
        longest = 0.01 * span
        self.make_ready(u0, t0)
        self._start = None
        bound = self._bound
        state = u0.view(np.ndarray)[:bound]
        self._place_start(state)
        self.act(WEIGH, t0)
        weights = self._memory.arrays["weights"][:bound]

        def norm(y: Vector) -> float:
            return float(np.sqrt(np.mean((weights * y) ** 2)))

        first = self._slope_at(state, t0)
        if first is None:
            return longest
        size, speed = norm(state), norm(first)
        step = min(longest, 1e-6 * span if min(size, speed * span) < 1e-5 else 0.01 * size / speed)
        second = self._slope_at(state + step * first, t0 + step)
        if second is None:
            return step
        # In units of the interval; the original takes those of the user.
        largest = max(speed * span, norm(second - first) * span**2 / step)
        order = self.method.embedded_order or 1
        better = max(1e-6 * span, 1e-3 * step)
        if largest > 1e-15:
            better = span * (0.01 / largest) ** (1.0 / (order + 1))
        return float(min(100.0 * step, better, longest))

    def _slope_at(self, y: Vector, t: float) -> Vector | None:
        """The derivative of u and v, None where there is none."""
        self._place_start(y)
        memory = self._memory
        status = self.act(DIFFERENTIATE, t)
        memory.structure.marks.counts.add_to(self.level.prob)
        if status != SOLVED:
            return None
        v, change = memory.arrays["v0"], memory.arrays["a0"]
        return np.concatenate([v, change]) if self._bound > self._n else change.copy()


# Arrays that later steps depend on, and with these those of the start of a step.
KEPT = ("base", "basis", "recent")
CHANGED = (*KEPT, "u0", "v0", "a0")


class _Ahead:
    """What :class:`~dae_sdc.sweepers.steps_ahead.StepsAhead` takes the steps of a sweeper with."""

    # Of what Newton's method of others tells of steps there is nothing here.
    slack, told, noisy, failures, first, forgets_first = 1.0, 0.0, 0.0, 0.0, 0, 0.0
    in_turn, past, swept_by, late, multipliers, spread = True, None, None, None, None, 0
    keeps_state = True
    judge_by = repetition = forget_errors = went_ahead = staticmethod(lambda *_: 0)

    def __init__(self, sweeper: ManifoldDAE) -> None:
        self._sweeper, self.stages, memory = sweeper, self, sweeper._memory
        s = self._structure = memory.structure
        self._arrays, self.weights = memory.arrays, sweeper._weights
        self.n, self.n_integrated, self.rows, self.interior = s.size, s.size, s.rows, s.rows > 1
        self.nodes = (*sweeper._theta, 1.0) if self.interior else (1.0,)
        self.order = (sweeper.method.embedded_order or 0) + 1

    # They are parts of the structure, also of a copy of it.
    run = property(lambda self: self._structure.run)
    counts = property(lambda self: self._structure.marks.counts)

    def goes_ahead(self, value: MeshDAE) -> bool:
        """Whether steps can be taken ahead from a state."""
        return self.weights is not None and self._sweeper.advanced is None

    def take_steps(
        self, value: MeshDAE, weights: Any, arrays: dict[str, Any], numbers: dict[str, int], room: int
    ) -> tuple[int, int]:
        """Take at most so many steps ahead from a state; how they have ended, and how many they are."""
        tell_addresses(self._structure, arrays)
        for name, number in (numbers | {"room": room, "taken": 0}).items():
            setattr(self._structure, name, number)
        sweeper, time = self._sweeper, float(self.run.time)
        if sweeper.begin(value, time) != SOLVED:
            return BEGINNING, 0
        status = sweeper.act(STEPS, time)
        sweeper.dipped, sweeper._start = False, (None, float(self.run.time))
        sweeper.advanced = int(self.run.status) if status == UNFINISHED else None
        return status, int(self._structure.taken)

    def get_run(self) -> tuple[Any, ...]:
        """All that steps taken ahead change, but for sizes of unknowns and steps."""
        return bytes(self._structure), [self._arrays[name].copy() for name in CHANGED], self._sweeper._start

    def set_run(self, kept: tuple[Any, ...]) -> None:
        """Restore what :meth:`get_run` gave, as if no step had been taken since."""
        ctypes.memmove(ctypes.addressof(self._structure), kept[0], len(kept[0]))
        for name, values in zip(CHANGED, kept[1], strict=True):
            self._arrays[name][:] = values
        self._sweeper._start, self._sweeper.advanced = kept[2], None

    def get_state(self) -> dict[str, Any]:
        """State on which later steps depend, for a checkpoint."""
        s = self._structure
        known = {name: self._arrays[name].copy() for name in KEPT}
        marks = np.frombuffer(s.marks, dtype=np.int64).copy()
        return known | {"marks": marks, "end size": s.end_log_determinant}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """Restore what :meth:`get_state` gave, to the last bit."""
        for name in KEPT:
            self._arrays[name][:] = kept[name]
        np.frombuffer(self._structure.marks, dtype=np.int64)[:] = kept["marks"]
        self._structure.end_log_determinant, self._sweeper.resumed = kept["end size"], True


@checked()
def manifold_method(record: ManifoldMethod) -> type[ManifoldDAE]:
    """The sweeper class of a record, for instance one of your own.

    Parameters
    ----------
    record : ManifoldMethod
        The record of the method.

    Returns
    -------
    type
        A subclass of :class:`ManifoldDAE` named ``record.class_name``.

    Raises
    ------
    InputError
        If ``record`` is no :class:`ManifoldMethod`.

    Examples
    --------
    >>> from dataclasses import replace
    >>> method = ds.MANIFOLD_METHODS["baumgarte-dop853"]
    >>> soft = replace(method, name="soft", class_name="SoftDAE", alpha=2.0, beta=2.0)
    >>> ds.manifold_method(soft).__name__
    'SoftDAE'
    """
    doc = f"Quasilinear equations by {record.reference}."
    kept = record.treatment != "ambient" or (record.positions and record.velocities)
    attributes = {"method": record, "on_manifold": kept, "__doc__": doc, "__module__": __name__}
    return type(record.class_name, (ManifoldDAE,), attributes)


_CHARTS = "local parametrisation, W. C. Rheinboldt, Comput. Math. Appl. 33 (1997) 31, with "
_PROJECTED = (
    "projection, E. Hairer, G. Wanner, Solving Ordinary Differential Equations II (1996), sec. VII.2, of "
)
_BAUMGARTE = "stabilisation, J. Baumgarte, Comput. Methods Appl. Mech. Eng. 1 (1972) 1, with "


# Name, name of the class, treatment, where the method is from, and what it does besides, for every pair.
_VARIANTS: tuple[tuple[str, str, str, str, dict[str, Any]], ...] = (
    ("chart", "Chart", "chart", _CHARTS, {}),
    ("projected", "Projected", "ambient", _PROJECTED, {"positions": True, "velocities": True}),
    ("position-projected", "PositionProjected", "ambient", _PROJECTED, {"positions": True}),
    ("velocity-projected", "VelocityProjected", "ambient", _PROJECTED, {"velocities": True}),
    ("unprojected", "Unprojected", "ambient", "the differentiated constraints alone, with ", {}),
    ("baumgarte", "Baumgarte", "ambient", _BAUMGARTE, {"alpha": 10.0, "beta": 10.0}),
)


def _records() -> Iterator[ManifoldMethod]:
    for pair, label, order in (("dopri5", "Dopri5", 5), ("dop853", "Dop853", 8)):
        for name, class_name, treatment, text, settings in _VARIANTS:
            names, source = (f"{name}-{pair}", f"{class_name}{label}DAE"), text + _REFERENCES[pair]
            yield ManifoldMethod(*names, treatment, pair, order, source, **settings)
    source = "H. C. Andersen, J. Comput. Phys. 52 (1983) 24; B. Leimkuhler, R. Skeel (1994)"
    yield ManifoldMethod("rattle", "RattleDAE", "rattle", "", 2, source)


for _record in _records():
    # The classes are attributes of this module, so that they can be imported and pickled by name.
    MANIFOLD_METHODS.add(_record.name, _record)
    globals()[_record.class_name] = _sweeper = manifold_method(_record)
    SWEEPERS.add(_record.name, _sweeper)

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[ManifoldDAE]: ...
