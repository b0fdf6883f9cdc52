"""Mistakes put into a copy of the package on purpose, to see that the tests find them.

    python tools/mutations.py --list
    python tools/mutations.py
    python tools/mutations.py --only jacobian-sign bdf-order --tests another/checkout/tests

A mutation replaces a text of one file that stands there once; where it stands there no longer, or more often,
the run ends with an error, and the mutation is to be written anew. The tests of a mutation are run on the
copy as it is, where they must pass, and with the mutation, where one must fail or the time must run out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parents[1]
TIME_LIMIT = 900.0
"""Seconds that the tests of one mutation may take; a mutation can make a loop endless."""


class OutdatedMutation(Exception):
    """A mutation does not fit the code any more."""


@dataclass(frozen=True)
class Mutation:
    """One mistake.

    Parameters
    ----------
    name : str
        By which it is chosen.
    mistake : str
        What it stands for.
    file : str
        Path inside the package, as "sweepers/sweep.py".
    old, new : str
        A text that stands in the file exactly once, and what takes its place.
    tests : str
        Files of tests, separated by spaces, each with ``::`` and a function if one alone is meant.
    """

    name: str
    mistake: str
    file: str
    old: str
    new: str
    tests: str

    def applied(self, text: str) -> str:
        """The text of the file with the mistake."""
        count = text.count(self.old)
        if count != 1:
            raise OutdatedMutation(f"{self.name}: {self.file} has {count} times {self.old!r}, not once")
        return text.replace(self.old, self.new)


MUTATIONS = [
    Mutation(
        "tableau-coefficient",
        "wrong coefficient of a Runge-Kutta method whose rows still sum to c",
        "sweepers/tableaux.py",
        "(13 / 42, 84 / 42, -125 / 42, 70 / 42)",
        "(14 / 42, 83 / 42, -125 / 42, 70 / 42)",
        "test_tableaux.py",
    ),
    Mutation(
        "tableau-order",
        "a method is said to have a higher order than it has",
        "sweepers/tableaux.py",
        "orders={1: (3, 3), 2: (2, 1), 3: (1, 1, None)}",
        "orders={1: (3, 3), 2: (3, 1), 3: (1, 1, None)}",
        "test_orders.py::test_runge_kutta_methods_reach_their_declared_orders",
    ),
    Mutation(
        "bdf-order",
        "wrong weight of a difference in the coefficients of BDF",
        "sweepers/linear_multistep.py",
        "alpha[j] += coefficient / m",
        "alpha[j] += coefficient / (m + (m == 3))",
        "test_multistep.py::test_coefficients_and_error_constants_are_those_of_the_books",
    ),
    Mutation(
        "characteristic-root",
        "wrong sign in the characteristic polynomial",
        "sweepers/linear_multistep.py",
        "np.roots(self.alpha - z * self.beta)",
        "np.roots(self.alpha + z * self.beta)",
        "test_multistep.py::test_the_growth_of_a_fast_oscillation_is_that_of_linear_theory",
    ),
    Mutation(
        "jacobian-sign",
        "wrong sign of one entry of a Jacobian",
        "problems/mechanics.py",
        "out[18], out[19] = 0.0, c * u[4], 0.0, m, c * u[1]",
        "out[18], out[19] = 0.0, c * u[4], 0.0, m, -c * u[1]",
        "test_problems.py::test_jacobian_is_the_derivative_of_the_residual",
    ),
    Mutation(
        "jacobian-factor",
        "dF/du without the factor c, right for c = 1",
        "problems/linear.py",
        "out[2] = -2.0 * c * y1 * y2 * y2 * z",
        "out[2] = -2.0 * y1 * y2 * y2 * z",
        "test_problems.py::test_jacobian_is_the_derivative_of_the_residual",
    ),
    Mutation(
        "jacobian-of-a-kernel",
        "an entry of a Jacobian in the wrong column, in the compiled form",
        "problems/linear.py",
        "out[3], out[4], out[5] = -c * z, 1.0 + c, -c * y1",
        "out[3], out[4], out[5] = -c * y1, 1.0 + c, -c * z",
        "test_kernels.py::test_jacobian_is_the_slope_of_the_residual",
    ),
    Mutation(
        "residual-sign",
        "wrong sign of a term of an equation",
        "problems/linear.py",
        "out[1] = du[1] - y1 * y1 * y2 * y2 + 3.0 * y2 * y2 * z",
        "out[1] = du[1] - y1 * y1 * y2 * y2 - 3.0 * y2 * y2 * z",
        "test_problems.py::test_initial_value_satisfies_the_equations_and_the_hidden_constraints",
    ),
    Mutation(
        "node-index",
        "the sweep leaves the node itself out of the sum over the nodes before it",
        "sweepers/sweep.py",
        "for j in range(m if a.diagonal else 0, m + 1):\n            add_to_row(to, 0, k, -entry",
        "for j in range(m if a.diagonal else 0, m):\n            add_to_row(to, 0, k, -entry",
        "test_sdc.py::test_a_sweep_solves_the_equation_of_its_docstring",
    ),
    Mutation(
        "sweep-in-python",
        "the sweep in Python is not that in machine code",
        "sweepers/sweep.py",
        "daxpy(values[first:last], to[first:last], a=factor)",
        "daxpy(values[first:last], to[first:last], a=factor * (1.0 + 1e-6))",
        "test_compiled.py::test_every_sweep_gives_the_values_of_the_one_in_python",
    ),
    Mutation(
        "end-of-dense-output",
        "the derivative at the end of a step is not multiplied by its length",
        "dae/interpolant.py",
        "rows[-1] = dt * derivative[0]",
        "rows[-1] = derivative[0]",
        "test_dense_output.py",
    ),
    Mutation(
        "parts-swapped",
        "the algebraic part of a state is the differential one",
        "dae/state.py",
        "return self._part(self.n_diff, None)",
        "return self._part(None, self.n_diff)",
        "test_state.py",
    ),
    Mutation(
        "start-unchecked",
        "an inconsistent start value is accepted",
        "control/hooks.py",
        "check_consistent(L.prob, L.u[0], L.time)",
        "pass",
        "test_hooks.py::test_an_inconsistent_start_is_refused_by_name",
    ),
    Mutation(
        "event-direction",
        "zeros are counted in the wrong direction",
        "control/events.py",
        "return self.direction * side >= 0.0",
        "return self.direction * side <= 0.0",
        "test_events.py::test_zeros_of_differential_and_algebraic_unknowns_and_their_directions",
    ),
    Mutation(
        "event-missed",
        "two zeros between two samples are not seen",
        "control/events.py",
        "if side * bend <= 0.0:",
        "if side * bend > 0.0:",
        "test_events.py::test_two_zeros_close_together_in_one_step_are_both_found",
    ),
    Mutation(
        "checkpoint-incomplete",
        "a checkpoint does not bring back what step sizes are chosen from",
        "control/checkpoint.py",
        'controller.adaptivity.set_state(start["steps"])',
        "pass",
        "test_checkpoint.py::test_a_resumed_run_to_a_tolerance_is_the_run_without_checkpoints",
    ),
    Mutation(
        "checkpoint-step-size",
        "a resumed run begins with the first step size",
        "control/checkpoint.py",
        'level.params.dt = float(start["dt"])',
        "pass",
        "test_checkpoint.py::test_a_resumed_run_to_a_tolerance_is_the_run_without_checkpoints",
    ),
    Mutation(
        "mpi-root",
        "what the last rank knows is taken from the first one",
        "sweepers/parallel.py",
        "self.comm.Bcast(message, root=self.size - 1)",
        "self.comm.Bcast(message, root=0)",
        "test_node_messages.py::test_what_the_last_node_knows_comes_from_the_rank_that_owns_it",
    ),
    Mutation(
        "mpi-offset",
        "a message begins at the wrong unknown of a node",
        "sweepers/parallel.py",
        "else ([n, 2], [k, 2 * n])",
        "else ([n, 2], [0, 2 * n])",
        "test_node_messages.py::test_a_message_carries_what_every_node_has_solved_for",
    ),
    Mutation(
        "mpi-printing",
        "another rank than 0 writes the file",
        "run/processes.py",
        "return comm is None or bool(comm.Get_rank() == 0)",
        "return comm is None or bool(comm.Get_rank() == 1)",
        "test_parallel.py::test_rank_0_alone_prints_and_writes",
    ),
    Mutation(
        "parser-precedence",
        "products bind no closer than sums",
        "modelica/expression_parser.py",
        '**dict.fromkeys(("*", "/", ".*", "./"), _Precedence.PRODUCT)',
        '**dict.fromkeys(("*", "/", ".*", "./"), _Precedence.SUM)',
        "test_modelica.py::test_an_expression_has_the_value_of_its_formula",
    ),
    Mutation(
        "derivative-sign",
        "the derivative of the cosine is the sine",
        "expressions/derivatives.py",
        "g.neg(g.mul(outer, g.call(Op.SIN, a)))",
        "g.mul(outer, g.call(Op.SIN, a))",
        "test_graph.py::test_values_and_partial_derivatives_are_those_of_sympy",
    ),
    Mutation(
        "quotient-rule",
        "wrong sign in the total derivative of a quotient",
        "expressions/derivatives.py",
        "change = self.sub(totals[args[0]], self._mul(node, totals[args[1]]))",
        "change = self.add(totals[args[0]], self._mul(node, totals[args[1]]))",
        "test_graph.py::test_the_total_derivative_is_that_of_functions_of_time",
    ),
    Mutation(
        "smallest-transversal",
        "a transversal of the smallest value in place of the largest",
        "structure/blocks.py",
        "weights = signature.orders.max() + 1.0 - signature.orders",
        "weights = signature.orders + 1.0",
        "test_structure.py::test_transversal_and_offsets_are_the_optimum_and_its_smallest_dual",
    ),
    Mutation(
        "index-off-by-one",
        "the index does not count unknowns that are found undifferentiated",
        "structure/blocks.py",
        "return int(c.max() + (d.min() == 0))",
        "return int(c.max())",
        "test_structure.py::test_structural_index_counts_one_more_for_unknowns_that_are_not_differentiated",
    ),
    Mutation(
        "coarse-derivatives",
        "values and derivatives are swapped on the way to the coarse level",
        "control/transfer.py",
        "G.sweep.place(u0, values, derivatives)",
        "G.sweep.place(u0, derivatives, values)",
        "test_transfer.py::test_the_restricted_solution_is_a_fixed_point_of_the_coarse_sweep",
    ),
    Mutation(
        "colours",
        "columns that share a row get one colour",
        "dae/colouring.py",
        "taken[row] |= bit",
        "taken[row] = bit",
        "test_jacobian.py",
    ),
    Mutation(
        "step-size-exponent",
        "the next step size follows from the error with the wrong power",
        "control/adaptivity.py",
        "factor = safety * error ** (-1.0 / outcome.order)",
        "factor = safety * error ** (-1.0 / (2 * outcome.order))",
        "test_adaptive.py::test_the_first_step_is_followed_by_one_of_the_tolerance",
    ),
    Mutation(
        "fitted-slope",
        "a study reports the intercept of its fit as the order",
        "run/convergence.py",
        "return float(line[0]), float(np.sqrt",
        "return float(line[1]), float(np.sqrt",
        "test_orders.py::test_runge_kutta_methods_reach_their_declared_orders",
    ),
    Mutation(
        "homotopy-starts",
        "paths begin at points that solve no start system",
        "polynomials/homotopy.py",
        "np.exp(2j * np.pi * np.arange(d) / d)",
        "np.exp(2j * np.pi * np.arange(d) / (d + 1))",
        "test_homotopy.py::test_katsura_5_has_32_roots_of_which_16_are_real",
    ),
    Mutation(
        "unit-scale",
        "sizes that balance the equations are the inverse ones",
        "dae/scales.py",
        "return np.exp2(np.round(BALANCE.grid * logarithm) / BALANCE.grid)",
        "return np.exp2(-np.round(BALANCE.grid * logarithm) / BALANCE.grid)",
        "test_units.py::test_sizes_balance_the_terms_of_every_equation "
        "test_units.py::test_an_answer_does_not_depend_on_the_unit_of_the_unknowns",
    ),
]
"""All mutations. A new one needs a record here, and nothing else."""


def copied(tests: Path, directory: Path) -> Path:
    """A copy of the checkout with these tests; what is compiled comes along."""
    tree = directory / "tree"
    tree.mkdir()
    for name in ("dae_sdc", "benchmarks", "docs", "tools"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True)
    shutil.copytree(tests, tree / "tests", symlinks=True)
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy2(path, tree)
    return tree


def run_tests(tree: Path, tests: str) -> tuple[bool, str]:
    """Whether the tests pass on a copy, and how they ended."""
    chosen = [str(tree / "tests" / name) for name in tests.split()]
    began = monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *chosen],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"no end after {TIME_LIMIT:.0f} s"
    last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1:]
    return done.returncode == 0, f"{' '.join(last)} [{monotonic() - began:.0f} s]"


def try_mutation(mutation: Mutation, tree: Path) -> tuple[bool, str]:
    """Whether the tests find the mistake, and how they ended."""
    path = tree / "dae_sdc" / mutation.file
    text = path.read_text(encoding="utf-8")
    try:
        path.write_text(mutation.applied(text), encoding="utf-8")
        passed, said = run_tests(tree, mutation.tests)
    finally:
        path.write_text(text, encoding="utf-8")
    return not passed, said


def main() -> int:
    """Try the chosen mutations; 1 if one is not found, 2 if one fits no more or its tests fail without it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the mutations and end")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="mutations to try (all)")
    parser.add_argument(
        "--tests", type=Path, default=ROOT / "tests", help="directory of the tests (%(default)s)"
    )
    parser.add_argument(
        "--trust", action="store_true", help="do not run the tests without the mutations first"
    )
    args = parser.parse_args()
    unknown = set(args.only or ()) - {mutation.name for mutation in MUTATIONS}
    if unknown:
        parser.error(f"no such mutation: {', '.join(sorted(unknown))}; see --list")
    chosen = [mutation for mutation in MUTATIONS if mutation.name in (args.only or mutation.name)]
    if args.list:
        for mutation in chosen:
            print(f"{mutation.name:<24} {mutation.file:<30} {mutation.mistake}\n{'':<24} {mutation.tests}")
        return 0
    try:
        for mutation in chosen:
            mutation.applied((ROOT / "dae_sdc" / mutation.file).read_text(encoding="utf-8"))
    except OutdatedMutation as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="mutations-") as directory:
        tree = copied(args.tests.resolve(), Path(directory))
        if not args.trust:
            passed, said = run_tests(tree, " ".join(dict.fromkeys(" ".join(m.tests for m in chosen).split())))
            if not passed:
                print(f"the tests fail without a mutation: {said}", file=sys.stderr)
                return 2
        missed = 0
        for mutation in chosen:
            found, said = try_mutation(mutation, tree)
            missed += not found
            print(f"{mutation.name:<24} {'caught' if found else 'MISSED':<7} {said}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
