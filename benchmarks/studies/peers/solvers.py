"""Solvers of other packages on problems of this one: one equation, one start, one clock for all.

A peer gets the compiled residual and the exact Jacobian of a problem through callbacks that do nothing else,
the consistent start, and an own absolute tolerance for every unknown. It begins anew at every break point.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.measuring import ida
from benchmarks.measuring.races import Outcome, PeerFailure
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import CONSTANTS
from dae_sdc.model.trace import trace_problem
from dae_sdc.modelica.writer import modelica_text, quoted
from dae_sdc.problems._models import start_at
from dae_sdc.registry import Registry
from dae_sdc.run.sundials import EXCLUDED_TOLERANCE, MOST_INNER_STEPS, SPARSE_FROM, Equations, slope_at
from dae_sdc.sharing import filtering

FIRST_STEP = 1e-6  # First step of scipy-dae relative to a piece of the interval, where u' = 0 at its start


class Case:
    """A problem between two times, with its solution at the start, and its pieces between break points."""

    equations: Equations  # Of the run that goes on

    def __init__(self, problem: ProblemDAE, start: Vector | None = None) -> None:
        self.problem = problem
        self.t0, self.t_end = map(float, problem.interval)
        self.start: Vector = np.array(problem.u_exact(self.t0) if start is None else start, dtype=float)
        between = problem.breakpoints(self.t0, self.t_end)
        self.pieces = (self.t0, *(float(t) for t in between), self.t_end)
        problem.start_step(problem.state(self.start), self.t0)
        try:
            self.slope: Vector = np.array(problem.du_exact(self.t0), dtype=float)
        except InputError:
            self.slope = slope_at(problem, self.start, self.t0)

    @property
    def switches(self) -> bool:
        """Whether the branch of the equations is chosen by the state at the start of a step."""
        return type(self.problem).start_step is not ProblemDAE.start_step and len(self.pieces) == 2

    @property
    def exclusions(self) -> dict[str, NDArray[np.bool_]]:
        """Which unknowns a peer's error test may leave out, by names for tables; at first none."""
        problem, index = self.problem, np.array(self.problem.variable_index)
        choices = {"all": np.zeros(problem.n, dtype=bool)}
        choices |= {f"<={highest}": index > highest for highest in np.unique(index)[-2::-1]}
        choices["diff"] = np.arange(problem.n) >= problem.n_diff
        names: dict[bytes, str] = {}
        for name, mask in choices.items():
            names.setdefault(mask.tobytes(), name)
        return {name: choices[name] for name in names.values() if not choices[name].all()}

    @cached_property
    def in_modelica(self) -> tuple[str, str, list[str]]:
        """The equations as flat Modelica, the name of their class, and those of the unknowns there."""
        origin = getattr(self.problem, "origin", None)
        model = trace_problem(self.problem).model if origin is None else origin.model
        start_at(model, self.problem.names, self.start)
        names = [re.sub(r"der\((.*)\)", r"der_\1", name) for name in self.problem.names]
        return modelica_text(model), quoted(model.name), names

    @property
    def sparse(self) -> bool:
        return self.problem.n >= SPARSE_FROM and self.problem.sparsity is not None


@dataclass(frozen=True)
class Peer:
    name: str  # Name in tables
    module: str  # The module it needs
    package: str  # The package that brings the module
    like: bool = True  # Whether it evaluates the same compiled equations as all others

    def settings(self, case: Case) -> str:
        """What it is given besides equations, start and tolerances."""
        raise NotImplementedError

    def run(self, case: Case, rtol: float, atol: Vector, count: bool) -> Outcome:
        """Integrate over the interval, with steps counted if that costs time; raises where it fails."""
        raise NotImplementedError


# Peers by name, those of every file of this directory; the numbers in names are classical orders
PEERS: Registry[Peer] = Registry("peer", "benchmarks.studies.peers")


def known_peers() -> tuple[Peer, ...]:
    return tuple(sorted((peer for _, peer in PEERS.items()), key=lambda peer: not peer.like))


def missing(peer: Peer) -> bool:
    return importlib.util.find_spec(peer.module) is None


def version(peer: Peer) -> str:
    return f"{peer.package} {importlib.metadata.version(peer.package)}"


class Ida(Peer):
    def settings(self, case: Case) -> str:
        return ", ".join(f"{name}={value}" for name, value in ida.settings(case.sparse).items())

    def run(self, case: Case, rtol: float, atol: Vector, count: bool) -> Outcome:
        """See :class:`Peer`; counting goes from step to step, which takes a little longer."""
        tic = process_time()
        case.equations = Equations(case.problem, case.switches)
        solver = ida.integrator(case.equations, case.sparse, rtol, atol)
        outcome = ida.integrate(solver, case, count)
        return replace(outcome, time=process_time() - tic)


@dataclass(frozen=True)
class ScipyDae(Peer):
    """A solver of scipy-dae, with the exact Jacobians by y and y'."""

    solver: str = ""  # Its class
    options: Mapping[str, Any] = field(default_factory=dict)  # Its options besides equations and tolerances

    def settings(self, case: Case) -> str:
        given = {**self.options, "jac": "exact" + (", sparse" if case.sparse else ", dense")}
        told = ", ".join(f"{name}={value}" for name, value in given.items())
        return f"{told}, first step {FIRST_STEP:g} of a piece that begins at rest"

    def run(self, case: Case, rtol: float, atol: Vector, count: bool) -> Outcome:
        """See :class:`Peer`; it goes step by step."""
        tic = process_time()
        problem, equations = case.problem, Equations(case.problem, case.switches)
        make = getattr(importlib.import_module(f"{self.module}.integrate"), self.solver)
        n, residual = problem.n, equations.residual

        def fun(t: float, y: Vector, yp: Vector) -> Vector:
            out = np.empty(n)
            residual(float(t), np.ascontiguousarray(y), np.ascontiguousarray(yp), out)
            return out

        jac = self._jacobian(equations, case.sparse)
        u, work = case.start, dict.fromkeys(("steps", "rhs", "jacobian", "factorization"), 0.0)
        for t, end in pairwise(case.pieces):
            equations.begin(u, t)
            slope = case.slope if t == case.t0 else slope_at(problem, u, t)
            # At rest, its own choice of a first step is the whole piece, whatever happens on the way.
            first = None if slope.any() else FIRST_STEP * (end - t)
            given = {"rtol": rtol, "atol": atol, "jac": jac, "first_step": first, **self.options}
            solver = make(fun, t, u, slope, end, **given)
            while solver.status == "running":
                message = solver.step()
                work["steps"] += 1
            if solver.status == "failed":
                raise PeerFailure(f"t={float(solver.t):.4g}: {message}")
            u = np.array(solver.y)
            work["rhs"] += solver.nfev
            work["jacobian"] += solver.njev
            work["factorization"] += solver.nlu
        return Outcome(process_time() - tic, u, **work)

    @staticmethod
    def _jacobian(equations: Equations, in_pattern: bool) -> Callable[..., Any]:
        """The pair (dF/dy, dF/dy') from the Jacobian dF/du' + c dF/du at c = 0 and c = 1."""
        entries, n, pattern = equations.entries, equations.n, equations.pattern
        places = None if pattern is None else equations.places()

        def as_matrix(values: Vector) -> Any:
            if places is None:
                return values
            if in_pattern:
                return sparse.csc_matrix((values, pattern.indices, pattern.indptr), shape=(n, n))
            full = np.zeros((n, n))
            full[places] = values
            return full

        def jac(t: float, y: Vector, yp: Vector) -> tuple[Any, Any]:
            mass, both = equations.blank(), equations.blank()
            y, yp = np.ascontiguousarray(y), np.ascontiguousarray(yp)
            entries(float(t), y, yp, 0.0, mass)
            entries(float(t), y, yp, 1.0, both)
            return as_matrix(both - mass), as_matrix(mass)

        return jac


def expressions(problem: ProblemDAE, casadi: Any, t: Any, u: Any, du: Any) -> list[Any]:
    """The residual in expressions of CasADi, from the equations that are read from its function."""
    if type(problem).residual_kernel is None:
        raise InputError("the equations are no kernel, which CasADi's expressions are made from")
    traced = trace_problem(problem)
    if traced.branches:
        raise InputError("the equations branch on unknowns, which CasADi's expressions cannot follow")
    model, graph = traced.model, traced.model.graph
    parameters = [parameter.required(model.name) for parameter in model.parameters_by_name.values()]
    values: dict[int, Any] = {}
    with filtering("ignore", FutureWarning):  # of NumPy's functions of matrices: these are scalars
        for node in graph.below(model.roots):
            if node in graph.numbers:
                number = graph.numbers[node]
                values[node] = casadi.SX(float(CONSTANTS[number] if isinstance(number, str) else number))
            elif node in graph.leaves:
                leaf = graph.leaves[node]
                given = {"u": (u, du)[leaf.order], "p": parameters}.get(leaf.kind)
                values[node] = casadi.SX(t if given is None else given[leaf.index])
            else:
                operation = graph.op[node]
                operands = [values[operand] for operand in graph.operands(node)]
                values[node] = operation.numpy(*operands, *graph.args[node][operation.arity :])
    return [values[root] for root in model.roots]


class CasadiIdas(Peer):
    """IDAS of SUNDIALS inside CasADi, with expressions read from the problem.

    CasADi evaluates and differentiates these itself, and takes semi-explicit equations x' = f, 0 = g.
    """

    def settings(self, case: Case) -> str:
        return f"own expressions, max_num_steps={MOST_INNER_STEPS}, calc_ic=False, integrators made before"

    def run(self, case: Case, rtol: float, atol: Vector, count: bool) -> Outcome:
        """See :class:`Peer`; expressions and integrators are made before the clock starts."""
        casadi = importlib.import_module(self.module)
        if len(case.pieces) > 2 or case.switches:
            raise InputError("equations that change on the way are not passed on to CasADi")
        form = SemiExplicit(case, casadi)
        options = {"reltol": rtol, "abstolv": form.tolerances(atol), "max_num_steps": MOST_INNER_STEPS}
        options |= {"calc_ic": False, "init_xdot": form.slope.tolist(), "print_stats": False}
        options |= {"show_eval_warnings": False, "disable_internal_warnings": True}
        solver = casadi.integrator("peer", "idas", form.equations, case.t0, case.t_end, options)
        tic = process_time()
        try:
            found = solver(x0=form.x0, z0=form.z0)
        except RuntimeError as error:
            raise PeerFailure(str(error).strip().splitlines()[-1]) from None
        time = process_time() - tic
        stats = solver.stats()
        end = form.end(np.array(found["xf"]).ravel(), np.array(found["zf"]).ravel())
        counts = ("nsteps", "netfails", "nfevals", "nlinsetups", "nlinsetups")
        return Outcome(time, end, *(float(stats[name]) for name in counts))


class SemiExplicit:
    """The equations of a problem as x' = f(t, x, z), 0 = g(t, x, z) in expressions of CasADi.

    Differential rows are solved for u' where the derivatives of the differential unknowns have a regular
    matrix there; a constant singular matrix of all derivatives is turned into diagonal form.
    """

    def __init__(self, case: Case, casadi: Any) -> None:
        problem, n = case.problem, case.problem.n
        self.case, self.n_diff = case, problem.n_diff
        t, u, du = casadi.SX.sym("t"), casadi.SX.sym("u", n), casadi.SX.sym("du", n)
        residual = casadi.vertcat(*expressions(problem, casadi, t, u, du))
        mass = casadi.jacobian(residual, du)
        if casadi.depends_on(mass, du):
            raise InputError("the equations are not linear in u', as CasADi's must be")
        rest = casadi.substitute(residual, du, casadi.SX.zeros(n))
        pattern = np.array(casadi.DM(mass.sparsity(), 1)) != 0
        rows = np.flatnonzero(pattern.any(axis=1))
        columns = np.flatnonzero(pattern.any(axis=0))
        others = np.setdiff1d(np.arange(n), rows)
        inner = mass[rows.tolist(), columns.tolist()]
        at_start = np.array(casadi.Function("m", [t, u], [inner])(case.t0, case.start))
        if len(rows) == len(columns) and np.linalg.matrix_rank(at_start) == len(rows):
            self.turn: Vector | None = None
            self.differential, self.algebraic = columns, np.setdiff1d(np.arange(n), columns)
            x, z = u[columns.tolist()], u[self.algebraic.tolist()]
            f, g = -casadi.solve(inner, rest[rows.tolist()]), rest[others.tolist()]
        else:
            if casadi.depends_on(mass, casadi.vertcat(t, u)):
                raise InputError("a singular matrix of u' that is not constant has no semi-explicit form")
            left, values, right = np.linalg.svd(np.array(casadi.DM(mass)))
            rank = int((values > 1e-12 * values[0]).sum())
            self.turn = right.T
            self.differential, self.algebraic = np.arange(rank), np.arange(rank, n)
            x, z = casadi.SX.sym("x", rank), casadi.SX.sym("z", n - rank)
            turned = casadi.substitute(rest, u, casadi.mtimes(self.turn, casadi.vertcat(x, z)))
            f = -casadi.mtimes(left.T[:rank] / values[:rank, None], turned)
            g = casadi.mtimes(left.T[rank:], turned)
        self.equations = {"t": t, "x": x, "z": z, "ode": f, "alg": g}
        first = self._turned(case.start)
        self.x0, self.z0 = first[self.differential], first[self.algebraic]
        self.slope = self._turned(case.slope)[self.differential]

    def _turned(self, u: Vector) -> Vector:
        return u if self.turn is None else self.turn.T @ u

    def tolerances(self, atol: Vector) -> list[float]:
        """The tolerances of (x, z); those of turned unknowns are the smallest."""
        if self.turn is not None:
            return [float(atol.min())] * len(atol)
        return [float(atol[i]) for i in (*self.differential, *self.algebraic)]

    def end(self, x: Vector, z: Vector) -> Vector:
        joined = np.empty(len(x) + len(z))
        joined[self.differential], joined[self.algebraic] = x, z
        return joined if self.turn is None else self.turn @ joined


class Rumoca(Peer):
    """BDF of rumoca, which reduces the index of the equations, as it gets them in flat Modelica, itself."""

    def settings(self, case: Case) -> str:
        return "equations compiled before the clock starts, one absolute tolerance for all unknowns"

    def run(self, case: Case, rtol: float, atol: Vector, count: bool) -> Outcome:
        """See :class:`Peer`; it tells nothing of its work."""
        rumoca = importlib.import_module(self.module)
        if atol.max() >= EXCLUDED_TOLERANCE * rtol:
            raise InputError("it takes one absolute tolerance for all unknowns")
        text, word, names = case.in_modelica
        try:
            model = rumoca.Session(roots=[]).loads(text, model=word)
            tic, config = process_time(), rumoca.SimConfig(rtol=rtol, atol=float(atol.min()))
            found = model.simulate((case.t0, case.t_end), dt=case.t_end - case.t0, config=config)
        except (rumoca.RumocaError, RuntimeError) as error:
            raise PeerFailure(str(error).partition("\n")[0]) from None
        time, values = process_time() - tic, {name.replace("'", ""): found[name][-1] for name in found.names}
        return Outcome(time, np.array([values[name] for name in names]))


for _peer in (
    Ida("ida", "sksundae", "scikit-sundae"),
    ScipyDae("scipy-radau5", "scipy_dae", "scipy-dae", solver="RadauDAE", options={"stages": 3}),
    ScipyDae("scipy-radau9", "scipy_dae", "scipy-dae", solver="RadauDAE", options={"stages": 5}),
    ScipyDae("scipy-bdf", "scipy_dae", "scipy-dae", solver="BDFDAE", options={"max_order": 5}),
    CasadiIdas("casadi-idas", "casadi", "casadi", like=False),
    Rumoca("rumoca", "rumoca", "rumoca", like=False),
):
    PEERS.add(_peer.name, _peer)
