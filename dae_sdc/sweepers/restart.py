"""Where other equations begin to hold: states from which a run goes on, and steps solved in pieces."""

# Algebraic unknowns and u' may jump there. Pieces of a step end where switches change their signs.

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import qr, solve_triangular
from scipy.optimize import brentq

from dae_sdc.dae import state as polynomials
from dae_sdc.dae.branches import SIDE_SLACK
from dae_sdc.dae.consistency import LARGEST_VIOLATION, violation
from dae_sdc.dae.jacobian import ROOT_EPS, Linearization, linearize
from dae_sdc.dae.linear import Matrix
from dae_sdc.dae.newton import ImplicitSystem, ModifiedNewton
from dae_sdc.dae.paths import MOST_PATH_UNKNOWNS, newton_homotopy
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import balanced
from dae_sdc.dae.state import EndDerivative, MeshDAE, Vector, attach
from dae_sdc.errors import DAEError, EvaluationError, SolveError
from dae_sdc.sweepers.coupled import CoupledStages, stages_without_guess
from dae_sdc.sweepers.tableaux import radau_iia
from dae_sdc.sweepers.tolerance import in_one_piece

EPS = float(np.finfo(float).eps)

# Nodes of the Radau IIA step from which algebraic unknowns behind a switch are extrapolated to it.
RESTART_NODES = 5
# Relative error of u' and of the algebraic unknowns behind a switch of equations of index 1.
RESTART_TOLERANCE = 1e-13
# Violation of an equation by a state of a higher index behind a switch, relative to its terms, above which a
# transient is taken to be shorter than the step, and parts of that step that are tried.
RESTART_VIOLATION = 1e-7
RESTART_PARTS = (1.0, 1e-2, 1e-4, 1e-6)
# Move of an unknown behind a change, relative to its size, above which the changed state is inconsistent.
INCONSISTENT_MOVE = 1e-5
RESTART_RANK = 1e-12  # Pivot of the balanced dF/du', relative to the largest, that counts as 0.
# Distance, in steps, behind the time of a change at which the equations are taken: functions of time may have
# either value at the time itself.
DISTANCE_BEHIND = 1e-12
# FOLD_PARTS, FOLD_MOVE: parts of the run by which the state goes on ahead of a fold, and the change of the
# unknowns, in their sizes, from which on they are on another branch.
FOLD_PARTS, FOLD_MOVE = (1e-8, 1e-6, 1e-4, 1e-2), 1e-3


# Distance between the starts of two jumps, in sizes of the unknowns, up to which their ends are compared, and
# that of these ends up to which they lie on one branch.
NEAR_JUMP = 0.1
MOST_KNOWN_JUMPS = 4  # Jumps that are remembered.
Jump = tuple[Vector, Vector, Vector]  # The state before one, and behind it with its u'.
Jumps = list[Jump] | None  # Those that homotopies have followed, the last one first.


class AlgebraicPart(ImplicitSystem):
    """F(t, u, u') = 0 for the algebraic part of u and the determined part of u', the rest of u held."""

    # With a basis V of the null space of M = F_u', u may move along V alone, and of u' the pivot columns of M
    # are looked for. At index 1 the matrix of M's pivot columns and F_u V is regular.

    key = "algebraic part"

    def __init__(self, problem: ProblemDAE, u: MeshDAE, du: MeshDAE, t: float, h: float) -> None:
        self.problem, self.time, self._h = problem, t, h
        self.u, self.du = u, du
        self._u, self._du = u.view(np.ndarray), du.view(np.ndarray)
        self._saved = np.empty((2, problem.n))
        self._newton = ModifiedNewton(problem, trust=False, tolerance=RESTART_TOLERANCE)
        # Newton's method begins where its matrix has been evaluated.
        self._at_start: Linearization | None = linearize(problem, u, du, t)
        # Numbers of the unknowns with a derivative to be found and of the others, which parametrise V.
        mass: Any = self._at_start.mass
        self._slopes, self._free = np.arange(problem.n_diff), np.arange(problem.n_diff, problem.n)
        self._coupling: Vector | None = None
        if not sparse.issparse(mass) or problem.n <= MOST_PATH_UNKNOWNS:
            dense = mass.toarray() if sparse.issparse(mass) else mass
            self._slopes, self._free, self._coupling = _pivots_of(dense.tobytes(), problem.n)
        self._places = in_one_piece(self._slopes), in_one_piece(self._free)
        self._turns = np.zeros(problem.n, dtype=bool)
        self._turns[self._slopes] = True
        self._weights = np.empty(problem.n)
        self.rescale()

    def linearize(self) -> Linearization:
        at_start, self._at_start = self._at_start, None
        if at_start is None or getattr(self.problem, "jacobian", None) is None:
            return linearize(self.problem, self.u, self.du, self.time)
        self.problem.work_counters["jacobian"].niter += 1
        return at_start

    @property
    def where(self) -> str:
        return "with the differential unknowns held"

    def residual(self) -> Vector:
        return self.problem.evaluate(self.u, self.du, self.time)

    def matrix(self, linearization: Linearization) -> Matrix:
        mass: Any = linearization.mass
        stiffness: Any = linearization.stiffness
        if not sparse.issparse(mass):
            return self._mixed(mass, stiffness)
        if self._coupling is not None:
            return self._mixed(mass.toarray(), stiffness.toarray())
        return self._mixed(mass.tocsc(), stiffness.tocsc())

    def _mixed(self, mass: Any, stiffness: Any) -> Matrix:
        """The columns of dF/du' and of dF/du V, each at the number of its unknown."""
        if sparse.issparse(mass):
            parts = sparse.hstack([mass[:, self._slopes], stiffness[:, self._free]], format="csc")
            return parts[:, np.argsort(np.concatenate([self._slopes, self._free]))]
        matrix = np.empty(mass.shape)
        slopes, free = self._places
        matrix[:, slopes], matrix[:, free] = mass[:, slopes], stiffness[:, free]
        if self._coupling is not None:
            matrix[:, self._free] -= stiffness[:, self._slopes] @ self._coupling
        return matrix

    def move(self, correction: Vector, fraction: float) -> None:
        change, (slopes, free) = fraction * correction, self._places
        self._du[slopes] -= change[slopes]
        self._u[free] -= change[free]
        if self._coupling is not None:
            self._u[self._slopes] += self._coupling @ change[self._free]

    @property
    def sizes(self) -> Vector:
        """Sizes of what is looked for."""
        scales = self.problem.run_scales
        known = scales.unknowns if scales.begun else np.ones(self.problem.n)
        whole = np.maximum(known, np.abs(self._u))
        return np.where(self._turns, np.maximum(np.abs(self._du), whole / self._h), whole)

    def rescale(self) -> None:
        np.divide(1.0, np.maximum(self.sizes, np.finfo(float).tiny), out=self._weights)

    def solve(self, known: Jumps = None) -> None:
        """Solve by Newton's method, damped where need be, then by a homotopy; else the state is as it was."""
        # Where the homotopy from a state near this one has come to is ``known``, Newton begins there.
        start = self._u.copy(), self._du.copy()
        try:
            self._newton.solve(self)
            return
        except SolveError as error:
            failure = str(error).partition(";")[0]
        self._u[:], self._du[:] = start
        known = [] if known is None else known
        if not any(self._follow(start, jump) for jump in known):
            try:
                self._follow_homotopy()
                self._newton.solve(self)
            except (DAEError, np.linalg.LinAlgError) as error:
                self._u[:], self._du[:] = start
                raise SolveError(f"{failure}; homotopy: {error}") from None
        known[:] = [(start[0], self._u.copy(), self._du.copy()), *known[: MOST_KNOWN_JUMPS - 1]]

    def _follow(self, start: tuple[Vector, Vector], jump: Jump) -> bool:
        """Whether Newton's method from the end of a jump that began near here comes to an end near that."""
        (u, du), (before, after, slope) = start, jump
        near = NEAR_JUMP * np.maximum(self.problem.run_scales.unknowns, np.abs(u))
        if (np.abs(before - u) > near).any():
            return False
        self.move(np.where(self._turns, du - slope, u - after), 1.0)
        with suppress(SolveError):
            self._newton.solve(self)
            near = np.maximum(near, NEAR_JUMP * np.abs(after))
            if (np.abs(self._u - after) <= near).all():
                return True
        self._u[:], self._du[:] = start
        return False

    def _follow_homotopy(self) -> None:
        """Move to the end of the path of F = (1 - s) F(start)."""
        if self.problem.n > MOST_PATH_UNKNOWNS:
            raise SolveError(f"it is for at most {MOST_PATH_UNKNOWNS} unknowns; begin a run behind the jump")
        u, du, n, sizes = self._u.copy(), self._du.copy(), self.problem.n, self.sizes

        def place(x: Vector) -> None:
            self._u[:], self._du[:] = u, du
            self.move(x, -1.0)

        def residual(x: Vector) -> Vector:
            place(x)
            return np.array(self.residual())

        def jacobian(x: Vector) -> Vector:
            place(x)
            if getattr(self.problem, "jacobian", None) is None:
                # More accurate formulas reach across kinks.
                base, change = np.array(self.residual()), np.diag(ROOT_EPS * sizes)
                return np.column_stack([(residual(x + row) - base) / row.sum() for row in change])
            matrix: Any = self.matrix(self.linearize())
            return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)

        if not np.isfinite(residual(np.zeros(n))).all():
            raise EvaluationError("the equations are not defined at its start; begin a run behind the jump")
        place(newton_homotopy(residual, jacobian, np.zeros(n), sizes))


@lru_cache(maxsize=4)
def _pivots_of(entries: bytes, n: int) -> tuple[Any, Any, Vector | None]:
    """Pivot columns of a matrix, the others, and the matrix that takes its null space from these to those."""
    dense = np.frombuffer(entries).reshape(n, n)
    rows, columns = balanced(dense)
    triangle, order = qr(dense / rows[:, None] / columns, mode="r", pivoting=True)
    pivots = np.abs(np.diagonal(triangle))
    rank = int((pivots > RESTART_RANK * pivots.max(initial=0.0)).sum())
    slopes, free, coupling = np.sort(order[:rank]), np.sort(order[rank:]), None
    if rank and np.abs(triangle[:rank, rank:]).any():
        slopes, free = order[:rank], order[rank:]
        coupling = solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:])
        coupling = coupling / columns[slopes, None] * columns[free]
    return slopes, free, coupling


def consistent_restart(
    problem: ProblemDAE, u: MeshDAE, t: float, h: float, changed: bool = False, known: Jumps = None
) -> MeshDAE:
    """A state with the differential unknowns of ``u`` that is consistent with the branch in force."""
    # At index 1 algebraic unknowns and u' at t solve F = 0, behind a jump where there is one. The polynomials
    # of a Radau IIA step from there, without the start, give both at t to an order in h that is high for any
    # index: E. Hairer, C. Lubich, M. Roche, LNM 1409 (1989), theorems 4.6 and 6.4. Where the step cannot be
    # solved the state has no polynomial.
    k = problem.n_diff
    state = MeshDAE(u)
    state.polynomial = None
    problem.start_step(state, t)
    slope = attach(u.derivative(), k)
    low = problem.index in (0, 1) and not restart_failure(problem, state, slope, t, h, known)
    if low and problem.index == 0:  # the equations determine all of u'
        state.polynomial = EndDerivative(slope.view(np.ndarray))
        return state
    tableau = radau_iia(RESTART_NODES)
    nodes = tableau.nodes
    back, first = polynomials.interpolation_matrix(nodes, (0.0,))[0], None
    for step in (h * part for part in RESTART_PARTS):
        try:
            stages = stages_without_guess(problem, tableau, state, t, step)
        except SolveError:
            break
        behind, slope = MeshDAE(state), attach(back @ stages.du, k)
        slope[k:] = polynomials.differentiation_row(nodes, 0.0) @ stages.u[:, k:] / step
        behind.polynomial = EndDerivative(slope.view(np.ndarray))
        if low:  # derivatives of unknowns in the null space are known now, and the others follow
            restart_failure(problem, behind, slope, t, step)
            return behind
        if changed:
            _require_kept(problem, behind, back @ stages.u, t)
        behind[k:] = back @ stages.u[:, k:]
        first = behind if first is None else first
        remains, scale = violation(problem, behind, t + _distance(t, step))
        if (np.abs(remains) <= RESTART_VIOLATION * scale).all():
            return behind
    return state if first is None else first


def _require_kept(problem: ProblemDAE, u: MeshDAE, taken: Vector, t: float) -> None:
    """Refuse a changed state which the constraints do not allow: with them it would jump to ``taken``."""
    # Shapes: taken (n,).
    sizes = np.maximum(problem.run_scales.unknowns, np.abs(u.view(np.ndarray)))
    moves = np.abs(taken - u)[: problem.n_diff] / sizes[: problem.n_diff]
    worst = int(moves.argmax()) if len(moves) else 0
    if len(moves) and not moves[worst] <= INCONSISTENT_MOVE:
        raise SolveError(
            f"the change at t={t:.10g} leaves a state that violates a constraint or one that is hidden: "
            f"'{problem.names[worst]}' is {u[worst]:.6g} and would go to {taken[worst]:.6g}; let the change "
            f"satisfy them"
        )


def restart_failure(
    problem: ProblemDAE, u: MeshDAE, du: MeshDAE, t: float, h: float, known: Jumps = None
) -> str:
    """Solve for the algebraic part of u and the determined part of u' just behind t, in place."""
    try:
        AlgebraicPart(problem, u, du, t + _distance(t, h), h).solve(known)
    except SolveError as error:
        return str(error)
    return ""


def jump_behind(
    problem: ProblemDAE, u: MeshDAE, t: float, h: float, least: float = LARGEST_VIOLATION
) -> tuple[bool, str]:
    """Move the algebraic part of u, and u', to where they have jumped just behind t, if they have."""
    if problem.index != 1:  # at index 0 nothing is algebraic
        return False, ""
    behind = t + _distance(t, h)
    try:
        remains, scale = violation(problem, u, behind)
    except EvaluationError as error:
        return False, str(error)
    if (np.abs(remains) <= least * scale).all():
        return False, ""
    slope = problem.dtype_f(problem.init)
    failure = restart_failure(problem, u, slope, t, h)
    if not failure:
        u.polynomial = EndDerivative(slope.view(np.ndarray))
    return not failure, failure


def behind_fold(
    problem: Any, u: MeshDAE, t: float, span: float, across: tuple[int, ...]
) -> tuple[MeshDAE | None, tuple[int, ...]]:
    """The state on another branch where that of ``u`` folds back at switches, and the sides there, if any."""
    # As an operational amplifier with positive feedback jumps from a limit to the other. On the sides
    # ``across``, which lead back, the state goes on as before; ahead of the fold equations have no solution
    # near, and the first that Newton's method comes to is on that branch.
    held, k, slopes = problem.held_sides, problem.n_diff, u.derivative()
    scales = problem.run_scales
    sizes = FOLD_MOVE * np.maximum(scales.unknowns, np.abs(u.view(np.ndarray)))
    able = u.polynomial is not None and getattr(problem, "in_force", None) is not None
    if able:
        problem.hold_sides(across)
        other = consistent_restart(problem, u, t, FOLD_PARTS[0] * span)
        change = np.abs(other.derivative() - slopes)[:k]
        able = other.polynomial is not None and bool(
            (change <= FOLD_MOVE * np.maximum(scales.rates, np.abs(slopes))[:k]).all()
        )
    for step in (part * span for part in FOLD_PARTS if able):
        ahead = attach(u.view(np.ndarray) + step * slopes, k)
        problem.in_force = None  # every jump is evaluated
        failure = restart_failure(problem, ahead, attach(slopes.copy(), k), t + step, step)
        problem.hold_sides(None)
        sides = problem.sides(ahead, t + step)
        problem.hold_sides(sides)
        ahead[:k] -= step * slopes[:k]
        if failure:
            continue
        if (np.abs(ahead - u) <= sizes).all():
            break  # on the same branch
        behind = consistent_restart(problem, ahead, t, step)
        pairs = zip(problem.switches(behind, t), sides, held, strict=True)
        if behind.polynomial is not None and all(x * side > 0.0 for x, side, old in pairs if side != old):
            return behind, sides
    problem.hold_sides(held)
    problem.start_step(u, t)
    return None, held


def _distance(t: float, h: float) -> float:
    """Distance behind a time at which functions of time have the value that holds from there on."""
    return max(8.0 * EPS * abs(t), DISTANCE_BEHIND * h)


LEAST_PIECE_NODES = 3  # Least number of nodes of the Radau IIA method that solves a piece.
# Largest number of corrections of the end of a piece towards the zero at which it is to end.
PIECE_CORRECTIONS = 5
# Distance, in pieces, over which the slope of a switch at the end of a piece is taken.
SLOPE_DISTANCE = 1e-3
MOST_PIECES = 100  # Pieces of one step after which a run is given up.
RESTART_STEP = 0.01  # Size, in steps, of the step by which a state behind a switch is found.


class SwitchedSteps:
    """The ends of steps in which switches change their signs, where nothing else locates them."""

    # If the signs of :meth:`~dae_sdc.dae.problem.ProblemDAE.switches` differ at a node or at the end, the
    # step is solved in pieces: up to the first zero with the branch at the start, from a state that is
    # consistent with the other branch to the next zero, and so on. What is iterated is left as it is.

    def __init__(self, problem: ProblemDAE, nodes: int) -> None:
        self._problem = problem
        self._tableau = radau_iia(max(nodes, LEAST_PIECE_NODES))
        self._places = (0.0, *self._tableau.c.tolist())
        self._sides: tuple[int, ...] = ()
        self._known: tuple[Vector, MeshDAE | None] = np.empty(0), None

    def begin(self, u0: MeshDAE, t: float) -> None:
        """Take the signs at the start of a step, on whose branch it is solved."""
        self._known = np.empty(0), None
        self._sides = () if self._problem.located else self._sides_at(u0, t)
        self._take_branch(u0, t)

    def is_stale(self, u0: MeshDAE, t: float) -> bool:
        """Whether a step was given another start since, which is on another branch."""
        return not self._problem.located and self._sides_at(u0, t) != self._sides

    def _sides_at(self, u: MeshDAE, t: float) -> tuple[int, ...]:
        """The signs in force from a state on; at a zero those on which the last step has ended."""
        found, last = self._problem.sides(u, t), u.sides
        if last is None:
            return found
        values = self._problem.switches(u, t)
        return tuple(
            before if abs(value) <= SIDE_SLACK else side
            for side, before, value in zip(found, last, values, strict=True)
        )

    def _take_branch(self, u0: MeshDAE, t: float) -> None:
        """Let the problem compute on the branch of the step again, or where its values at a zero mislead."""
        P = self._problem
        timed = getattr(P, "timed_switch_names", ())
        if (self._sides and (P.located or u0.sides is not None)) or (timed and not P.located):
            P.hold_sides(self._sides)
            P.start_step(u0, t)
            P.hold_sides(None)

    def end(self, u0: MeshDAE, t: float, dt: float, values: Vector, c: Vector, end: MeshDAE) -> MeshDAE:
        """The end of a step."""
        # Shapes: values (M, n), c (M,).
        P = self._problem
        if P.located or not (self._sides or self._timed(t, t + dt)):
            return end
        states = [*(attach(row, P.n_diff) for row in values), end]
        if not self._timed(t, t + dt) and not any(
            self._signed(state, t + at * dt, self._sides).min(initial=0.0) < -SIDE_SLACK
            for state, at in zip(states, (*c.tolist(), 1.0), strict=True)
        ):
            end.sides = self._sides
            return end
        key = np.concatenate([[t, dt], u0, end])
        if self._known[1] is None or not np.array_equal(self._known[0], key):
            try:
                self._known = key, self._in_pieces(u0, t, dt)
            finally:
                self._take_branch(u0, t)
        found = self._known[1]
        assert found is not None
        return found

    def _timed(self, t: float, t_end: float) -> tuple[float, ...]:
        """Times in a step at which switches of time alone change."""
        P: Any = self._problem
        slack = 4.0 * EPS * max(abs(t), abs(t_end))
        known = P.breakpoints(t + slack, t_end - slack) if getattr(P, "timed_switch_names", ()) else ()
        return tuple(known)

    def _signed(self, u: MeshDAE, t: float, sides: tuple[int, ...]) -> Vector:
        """The switches, positive on the sides that are in force, shape (S,)."""
        return np.asarray(self._problem.switches(u, t), dtype=np.float64) * sides

    def _in_pieces(self, u0: MeshDAE, t0: float, dt: float) -> MeshDAE:
        P, t, t_end, sides, u = self._problem, t0, t0 + dt, self._sides, u0
        for _ in range(MOST_PIECES):
            P.hold_sides(sides)
            P.start_step(u, t)
            stop = min(self._timed(t, t_end), default=t_end)
            stages = stages_without_guess(P, self._tableau, u, t, stop - t)
            found = self._first_zero(u, stages, sides)
            if found is None and stop < t_end:
                u, t = attach(stages.u[-1].copy(), P.n_diff), stop
                u = consistent_restart(P, u, t, RESTART_STEP * dt)
                continue
            if found is None:
                end = attach(stages.u[-1].copy(), P.n_diff)
                end.polynomial, end.sides = EndDerivative(stages.du[-1].copy()), sides
                return end
            theta, which = found
            u, t = self._up_to(u, t, theta * (stop - t), which, sides)
            sides = tuple(-side if i == which else side for i, side in enumerate(sides))
            P.hold_sides(sides)
            u = consistent_restart(P, u, t, RESTART_STEP * dt)
            if t_end - t <= 4.0 * EPS * max(abs(t0), abs(t_end)):
                u.sides = sides
                return u
        raise SolveError(
            f"a switch of {type(P).__name__} changes its sign again and again at t={t:.10g}, more than "
            f"{MOST_PIECES} times in a step: the solution slides along the switch, or switches ever "
            f"faster; smooth the switch, give it a hysteresis, or keep the branch of a step by the parameter "
            f"locate_switches=False of the sweeper"
        )

    def _first_zero(
        self, u: MeshDAE, stages: CoupledStages, sides: tuple[int, ...]
    ) -> tuple[float, int] | None:
        """Where in a piece the first switch changes its sign, in units of the piece, and which one."""
        t, h = stages.time, stages.dt
        # A switch at whose zero the piece begins may have any sign there.
        before = self._signed(u, t, sides)
        for k, at in enumerate(self._places[1:]):
            values = self._signed(attach(stages.u[k], self._problem.n_diff), t + at * h, sides)
            zeros = []
            for i in np.flatnonzero(values < -SIDE_SLACK).tolist():
                place, about = self._places[k], (u, stages, sides, i)
                if before[i] > SIDE_SLACK:
                    place = brentq(self._along, place, at, about, xtol=EPS, rtol=4.0 * EPS)
                zeros.append((place, i))
            if zeros:
                return min(zeros)
            before = values
        return None

    def _along(
        self, theta: float, u: MeshDAE, stages: CoupledStages, sides: tuple[int, ...], which: int
    ) -> float:
        """A switch at a place in units of a piece."""
        weights = polynomials.interpolation_matrix(self._places, (theta,))[0]
        state = attach(weights[0] * u.view(np.ndarray) + weights[1:] @ stages.u, self._problem.n_diff)
        return float(self._signed(state, stages.time + theta * stages.dt, sides)[which])

    def _up_to(
        self, u: MeshDAE, t: float, h: float, which: int, sides: tuple[int, ...]
    ) -> tuple[MeshDAE, float]:
        """State and time at a zero of a switch, near which a piece of size h ends."""
        P, best = self._problem, np.inf
        state, time = u, t
        for _ in range(PIECE_CORRECTIONS):
            if h <= 4.0 * EPS * max(abs(t), abs(t + h)):
                break
            stages = stages_without_guess(P, self._tableau, u, t, h)
            near, end = 1.0 - SLOPE_DISTANCE, attach(stages.u[-1].copy(), P.n_diff)
            value = self._signed(end, t + h, sides)[which]
            if not abs(value) < best:
                break
            best, state, time = abs(value), end, t + h
            earlier = self._along(near, u, stages, sides, which)
            change = value * SLOPE_DISTANCE * h / (earlier - value) if earlier != value else 0.0
            if abs(change) <= 4.0 * EPS * abs(t + h):
                break
            h += change
        return state, time
