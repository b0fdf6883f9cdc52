"""Run a study by its name: measurements against peers, ourselves and known solutions.

Example: python -m benchmarks truth --quick
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; arguments, errors and exit codes are as those of ``dae-sdc``."""
    # The threads of libraries are chosen below, before these load NumPy.
    from benchmarks.study import PROGRAM
    from dae_sdc.cli import carry_out

    return carry_out(PROGRAM, _dispatch, argv)


def _dispatch(arguments: list[str]) -> int:
    """Run the study that the first argument without a hyphen names, or draw a result."""
    from benchmarks.study import PROGRAM, STUDIES
    from dae_sdc.cli import Parser, add_debug
    from dae_sdc.imports import launched
    from dae_sdc.plotting.plot import add_arguments, main as draw

    def parser(prog: str, **texts: str) -> Parser:
        formatter = argparse.RawDescriptionHelpFormatter
        return Parser(program=PROGRAM, prog=prog, formatter_class=formatter, **texts)

    lines = ["studies, each with a short run:"]
    for name, study in STUDIES.items():
        lines.append(f"  {name:<12} {study.about.splitlines()[0]}")
        lines.append(f"  {'':<12} {PROGRAM} {name} {study.example}")
    lines += ["", f"'{PROGRAM} NAME --help' explains one, '{PROGRAM} plot NAME FILE.npy' draws its result."]
    about = "Measurements against peers, ourselves and known solutions."
    whole = parser(PROGRAM, usage=f"{PROGRAM} NAME [options]", description=about, epilog="\n".join(lines))
    add_debug(whole)
    at = next((i for i, text in enumerate(arguments) if not text.startswith("-")), len(arguments))
    whole.parse_args(arguments[:at])
    if at == len(arguments):
        whole.error("no study named")
    name = arguments[at]
    if name == "plot":
        about, add, run = "Draw the result of a study.", add_arguments, draw
    else:
        about, add, run = STUDIES[name].about, STUDIES[name].add_arguments, STUDIES[name].main
    own = parser(f"{PROGRAM} {name}", description=about)
    add(own)
    add_debug(own)
    args = own.parse_args(arguments[at + 1 :])
    if launched() > 1:
        from dae_sdc.run.processes import world

        if world().Get_rank() > 0:
            return 0
    return run(args)


if __name__ == "__main__":
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # before NumPy is imported
    raise SystemExit(main(sys.argv[1:]))
