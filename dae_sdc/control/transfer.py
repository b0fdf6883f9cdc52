"""Transfer between the levels of MLSDC and PFASST, for sweeps whose unknown is the derivative."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from pySDC.core.base_transfer import BaseTransfer
from pySDC.core.collocation import CollBase
from pySDC.core.errors import TransferError, UnlockError
from pySDC.core.space_transfer import SpaceTransfer
from scipy.linalg import null_space
from scipy.optimize import minimize

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import EndDerivative, MeshDAE, Vector, attach, interpolation_matrix
from dae_sdc.errors import InputError
from dae_sdc.registry import require_name
from dae_sdc.sweepers.amplification import spectral_radius
from dae_sdc.sweepers.collocation import qdelta_matrix
from dae_sdc.sweepers.sdc import SpectralDeferredCorrectionDAE


class SameUnknowns(SpaceTransfer):  # type: ignore[misc]
    """The transfer between levels with the same unknowns and equations, which differ in their nodes only.

    The part of :class:`TransferDAE`, whose example shows it.

    A transfer between different unknowns is a class with the same constructor and ``restrict(u)`` and
    ``prolong(u)``, linear in the state ``u``: they are applied to u, to u' and to differences. It may have
    ``restrict_residual(r)``, for equations that are coarsened in another way than the unknowns; without it
    residuals are restricted as states. With ``restrict_nodes``, ``prolong_nodes`` and
    ``restrict_residual_nodes``, which take one row a node, all nodes are transferred in one call.

    Parameters
    ----------
    fine_prob, coarse_prob : ProblemDAE
        The equations of the two levels.
    params : dict
        Parameters of pySDC's space transfer; without effect here.

    Raises
    ------
    InputError
        If the numbers of unknowns differ.
    """

    def __init__(self, fine_prob: ProblemDAE, coarse_prob: ProblemDAE, params: dict[str, Any]) -> None:
        super().__init__(fine_prob, coarse_prob, params)
        fine, coarse = ((P.n_diff, P.n_alg) for P in (fine_prob, coarse_prob))
        if fine != coarse:
            raise InputError(
                f"SameUnknowns transfers between equal states; the levels have (n_diff, n_alg) = {fine} and "
                f"{coarse}; give a space_transfer_class with restrict(u) and prolong(u)"
            )

    def restrict(self, u: MeshDAE) -> MeshDAE:
        """A copy of the state."""
        return MeshDAE(u)

    prolong = restrict

    def project(self, u: MeshDAE) -> MeshDAE:
        """Refused: pySDC's ``base_transfer_mass`` asks for it, and its equations are not those of DAEs."""
        raise InputError(
            "base_transfer_mass transfers no DAE; set base_transfer_class to dae_sdc.TransferDAE"
        )

    def restrict_nodes(self, values: Vector) -> Vector:
        """The rows themselves, shape (M, n)."""
        return values

    prolong_nodes = restrict_nodes


class TransferDAE(BaseTransfer):  # type: ignore[misc]
    r"""Full approximation scheme for F(t, u, u') = 0 with the unknowns U_m = u'(t_m) at the nodes.

    With R the interpolation from fine to coarse nodes, P the one from coarse to fine nodes and a bar on
    coarse quantities, :meth:`restrict` sets U and the algebraic unknowns z of the coarse level to those of
    the fine one and gives both coarse equations a right-hand side,

    .. math::
        \bar u_m - \bar u_0 - \Delta t \sum_j \bar q_{mj} \bar U_j &= \tau^u_m
            = (R u)_m - u_0 - \Delta t \sum_j \bar q_{mj} (R U)_j, \\
        \bar F(t_m, \bar u_m, \bar U_m) &= \tau^F_m
            = \bar F(t_m, (R u)_m, (R U)_m) - \big(R\,(F - \tau)\big)_m,

    so that the restricted solution of the fine equations solves the coarse ones, and the value it ends with
    is the fine end value: without :math:`\tau^u` the next step would start from the coarse quadrature.
    :math:`\tau^F` is the level's ``tau``. :meth:`prolong` adds P times what the coarse sweep has changed to
    U, to z and to the values at the nodes, and its change of u_0 to the fine u_0, which together move the
    fine end value as far as the coarse one: what a step has received on the coarse level goes on with it.

    Where constraints bind integrated unknowns (index 2 and higher; index 1 when z is integrated too), the
    values at the nodes that a step hands on are those of the nodes' solves, which satisfy the constraints, in
    every sweeper. Sweeps answer an error d of u_0 across a constraint by U = -Q^{-1} 1 d / dt: errors that an
    integral leaves there would be amplified from step to step, in every iteration.

    Parameters
    ----------
    fine_level, coarse_level : pySDC.core.level.Level
        The levels; their sweepers must integrate the same kind of unknowns, on nodes of the same kind.
    base_transfer_params : dict
        ``match_sweep`` (default False): fit sweep and coarse correction to each other, by
        :func:`matched_diagonal` in place of a diagonal Q_Delta of the fine level, else by
        :func:`matched_restriction`. ``finter`` of pySDC has no effect: the unknown is the derivative, so it
        is always interpolated.
    space_transfer_class : type
        See :class:`SameUnknowns`, which is for coarsening in the nodes only.
    space_transfer_params : dict
        Its parameters.

    Raises
    ------
    InputError
        For levels between which nothing can be transferred.

    References
    ----------
    M. Emmett, M. Minion, Toward an efficient parallel in time method for partial differential equations,
    Commun. Appl. Math. Comput. Sci. 7 (2012) 105. M. Bolten, D. Moser, R. Speck, A multigrid perspective on
    the parallel full approximation scheme in space and time, Numer. Linear Algebra Appl. 24 (2017) e2110.

    Examples
    --------
    >>> levels = {"nodes": 3, "coarse_nodes": 2}
    >>> solution = ds.solve("hessenberg-1", sweeper="semi-implicit", dt=0.1, t_end=0.2, **levels)
    >>> solution.success
    True
    """

    def __init__(
        self,
        fine_level: Any,
        coarse_level: Any,
        base_transfer_params: dict[str, Any],
        space_transfer_class: Any,
        space_transfer_params: dict[str, Any],
    ) -> None:
        SF, SG = fine_level.sweep, coarse_level.sweep
        for sweep in (SF, SG):
            if not isinstance(sweep, SpectralDeferredCorrectionDAE):
                raise InputError(f"TransferDAE needs an SDC sweeper for DAEs; got {type(sweep).__name__}")
        if SF.integrates_algebraic != SG.integrates_algebraic:
            wanted = "both levels must integrate the algebraic unknowns or neither"
            raise InputError(f"{wanted}; got {type(SF).__name__} and {type(SG).__name__}")
        F, G = SF.coll, SG.coll
        if F.quad_type != G.quad_type:
            raise InputError(f"both levels need the same quad_type; got {F.quad_type} and {G.quad_type}")
        if F.num_nodes < G.num_nodes:
            wanted = "a coarse level has at most the nodes of the fine one"
            raise InputError(f"{wanted}; got num_nodes={G.num_nodes} below {F.num_nodes}")
        for name in base_transfer_params:
            require_name("base_transfer_params entry", name, ("finter", "match_sweep"))
        parameters = {"match_sweep": False, **base_transfer_params}
        try:
            super().__init__(
                fine_level, coarse_level, parameters, space_transfer_class, space_transfer_params
            )
        except (AttributeError, TypeError, TransferError) as error:
            raise InputError(
                f"{space_transfer_class.__name__} does not fit states of {type(fine_level.prob).__name__} "
                f"({error}); use SameUnknowns, or a class with restrict(u) and prolong(u)"
            ) from error
        SF.coupled = SG.coupled = True
        self._restrict_residuals = self.Rcoll
        if self.params.match_sweep and F.num_nodes > G.num_nodes:
            nodes = (F.quad_type, F.num_nodes, G.num_nodes)
            if np.tril(SF.QI, -1).any():
                self._restrict_residuals = matched_restriction(*nodes, SF.params.QI, SG.params.QI)
            else:
                SF.matrices.replace(np.diag(matched_diagonal(*nodes, SG.params.QI)))
        self._start = self._restricted = np.empty(0)

    def restrict(self) -> None:
        """Set coarse iterate and right-hand sides from the fine ones; UnlockError before there are any."""
        F, G = self.fine, self.coarse
        if not F.status.unlocked:
            raise UnlockError("fine level is still locked, cannot use data from there")
        G.sweep.failure = F.sweep.failure
        if F.sweep.failure is None:
            try:
                self._restrict()
            except Exception as error:
                F.sweep.fail(error)
                G.sweep.failure = error
        if G.u[0] is None:
            G.u[0] = G.prob.dtype_u(G.prob.init)  # to be received into, though nothing is computed

    def _restrict(self) -> None:
        F, G = self.fine, self.coarse
        rows = F.sweep.node_values()
        values, derivatives = (self.Rcoll @ self._in_space("restrict", part, F.prob) for part in rows)
        residuals = self._in_space("restrict_residual", F.sweep.node_residuals(), F.prob)
        residuals = self._restrict_residuals @ residuals
        u0 = G.prob.state(self.space_transfer.restrict(F.u[0]))
        if G.sweep.coll.left_is_node and F.u[0].polynomial is not None:
            # A node at the start takes u' from there, and so must the coarse one until it receives another.
            slope = attach(np.array(F.u[0].polynomial.derivative_at_end()), F.prob.n_diff)
            u0.polynomial = EndDerivative(np.array(self.space_transfer.restrict(slope)))
        G.sweep.place(u0, values, derivatives)
        G.sweep.correct(values, residuals)
        # A copy: messages are put into the state itself.
        self._start, self._restricted = np.array(u0), np.array([values, derivatives])
        G.uold[:] = [u0, *(attach(row, G.prob.n_diff) for row in values)]
        G.fold[1:] = [attach(row, G.prob.n_diff) for row in derivatives]

    def prolong(self) -> None:
        """Add to the fine iterate the coarse changes since the restriction; UnlockError without one."""
        F, G = self.fine, self.coarse
        if G.sweep.failure is not None:
            F.sweep.failure = G.sweep.failure
            return
        if not G.status.unlocked:
            raise UnlockError("coarse level is still locked, cannot use data from there")
        changes, u0 = np.array([G.u[1:], G.f[1:]]) - self._restricted, F.u[0]
        both = F.sweep.node_values()
        for values, change in zip(both, changes, strict=True):
            values += self.Pcoll @ self._in_space("prolong", change, G.prob)
        shift = attach(G.u[0].view(np.ndarray) - self._start, G.prob.n_diff)
        if shift.any():
            u0 = MeshDAE(u0)
            u0 += self.space_transfer.prolong(shift)
        F.sweep.place(u0, *both)

    prolong_f = prolong  # with ``finter``

    def _in_space(self, name: str, rows: Vector, problem: ProblemDAE) -> Vector:
        """The rows of all nodes between the unknowns of the levels, at once where that is offered."""
        space = self.space_transfer
        if name == "restrict_residual" and not any(hasattr(space, n) for n in (name, f"{name}_nodes")):
            name = "restrict"
        if hasattr(space, f"{name}_nodes"):
            return np.asarray(getattr(space, f"{name}_nodes")(rows))
        return np.array([getattr(space, name)(attach(row, problem.n_diff)) for row in rows])


def two_level_error(
    delta: Vector, restriction: Vector, fine: CollBase, coarse: CollBase, coarse_qdelta: str
) -> Vector:
    """Error propagation of a coarse correction and a fine sweep in unknowns fixed by constraints, dt to 0."""
    # (I - Q_Delta^{-1} Q) (I - P QC_Delta^{-1} R Q), with QC_Delta that of the coarse level.
    # Shapes: delta (M, M), restriction (coarse M, M).
    first = int(fine.left_is_node)
    P = interpolation_matrix(tuple(coarse.nodes.tolist()), tuple(fine.nodes.tolist()))[first:, first:]
    Q = fine.Qmat[1 + first :, 1 + first :]
    smoother = np.eye(len(Q)) - np.linalg.solve(delta[first:, first:], Q)
    coarse_delta = qdelta_matrix(coarse, coarse_qdelta)[first:, first:]
    correction = P @ np.linalg.solve(coarse_delta, restriction[first:, first:] @ Q)
    return smoother @ (np.eye(len(Q)) - correction)


@lru_cache(maxsize=32)
def matched_diagonal(quad_type: str, num_nodes: int, coarse_nodes: int, coarse_qdelta: str = "LU") -> Vector:
    """Diagonal Q_Delta of a fine level for sweeps with a coarse correction between them, shape (M,)."""
    # MIN-SR-S makes the spectral radius of I - Q_Delta^{-1} Q vanish (G. Caklovic and others, SIAM J. Sci.
    # Comput. 47 (2025) A430), and this that of two_level_error as small as can be: for 5 and 3 RADAU-RIGHT
    # nodes with LU on the coarse level below 0.1, where MIN-SR-S has 0.63. Alone its sweeps diverge.
    fine, coarse, restriction = _collocations(quad_type, num_nodes, coarse_nodes)
    start = np.where(fine.nodes > 0.0, fine.nodes, 1.0)

    def radius(logarithms: Vector) -> float:
        delta = np.diag(start * np.exp(logarithms))
        return spectral_radius(two_level_error(delta, restriction, fine, coarse, coarse_qdelta))

    # Coefficients nodes / mu damp the power t^(j-1) by 1 - mu / j; one mu that damps all is where to begin.
    guesses = [np.full(num_nodes, -np.log(mu)) for mu in np.linspace(0.5, 1.0, 6) * num_nodes]
    best = _minimum(radius, min(guesses, key=radius))
    diagonal: Vector = np.where(fine.nodes > 0.0, start * np.exp(best), 0.0)
    diagonal.setflags(write=False)
    return diagonal


@lru_cache(maxsize=32)
def matched_restriction(
    quad_type: str, num_nodes: int, coarse_nodes: int, qdelta: str = "LU", coarse_qdelta: str = "LU"
) -> Vector:
    """Restriction of residuals for a given fine Q_Delta, exact to degree coarse M, shape (coarse M, M)."""
    # What is left free minimises the spectral radius of two_level_error, for LU with 5 and 3 RADAU-RIGHT
    # nodes from 0.45 to 0.10. Rows of nodes at the ends of the step are those of interpolation.
    # Residuals of constraints are integrals of the unknowns, of which the coarse level represents the degree.
    fine, coarse, interpolation = _collocations(quad_type, num_nodes, coarse_nodes)
    spare = null_space(np.vander(fine.nodes, coarse_nodes + 1).T).T
    inner, delta = np.flatnonzero((coarse.nodes > 0.0) & (coarse.nodes < 1.0)), qdelta_matrix(fine, qdelta)

    def restriction(weights: Vector) -> Vector:
        matrix = np.array(interpolation)
        matrix[inner] += weights.reshape(inner.size, len(spare)) @ spare
        return matrix

    def radius(weights: Vector) -> float:
        return spectral_radius(two_level_error(delta, restriction(weights), fine, coarse, coarse_qdelta))

    best = restriction(_minimum(radius, np.zeros(inner.size * len(spare))))
    best.setflags(write=False)
    return best


def _collocations(quad_type: str, num_nodes: int, coarse_nodes: int) -> tuple[CollBase, CollBase, Vector]:
    """The collocations of two levels, and the interpolation from the fine to the coarse nodes."""
    fine = CollBase(num_nodes, 0, 1, quad_type=quad_type)
    coarse = CollBase(coarse_nodes, 0, 1, quad_type=quad_type)
    return fine, coarse, interpolation_matrix(tuple(fine.nodes.tolist()), tuple(coarse.nodes.tolist()))


def _minimum(function: Callable[[Vector], float], start: Vector) -> Vector:
    """Where the simplex method of Nelder and Mead ends, begun anew from where it ended."""
    best = start
    for _ in range(4 if start.size else 0):
        best = minimize(function, best, method="Nelder-Mead", options={"maxiter": 400, "xatol": 1e-8}).x
    return best
