"""Mistakes put into a copy of the package on purpose, to see that the tests find them.

    python tools/mutations.py --list
    python tools/mutations.py
    python tools/mutations.py --only jacobian-sign bdf-order --tests another/checkout/tests

A mutation replaces a text of one file that stands there once; where it stands there no longer, or more often,
the run ends with an error, and the mutation is to be written anew. The tests of a mutation are run on the
copy as it is, where they must pass, and with the mutation, where one must fail or the time must run out. They
are fast tests, see ``tests/helpers/suites.py``. The mutations stand in ``mutations.toml``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_suffix(".toml")
TIME_LIMIT = 600.0
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
    Mutation(name=name, **record) for name, record in tomllib.loads(TABLE.read_text(encoding="utf-8")).items()
]
"""All mutations. A new one needs a record in the table, and nothing else."""


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
            [
                sys.executable,
                "-P",
                "-m",
                "pytest",
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                "-m",
                "not long",
                *chosen,
            ],
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
    if done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
        raise SystemExit(f"{tests}: {' '.join(last)}")
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
    """Try the chosen mutations; 1 if one survives or fits no more, 2 if the tests fail without any."""
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
            print(f"{mutation.name:<28} {mutation.file:<30} {mutation.mistake}\n{'':<28} {mutation.tests}")
        return 0
    try:
        for mutation in chosen:
            mutation.applied((ROOT / "dae_sdc" / mutation.file).read_text(encoding="utf-8"))
    except OutdatedMutation as error:
        print(error, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="mutations-") as directory:
        tree = copied(args.tests.resolve(), Path(directory))
        if not args.trust:
            passed, said = run_tests(tree, " ".join(dict.fromkeys(" ".join(m.tests for m in chosen).split())))
            if not passed:
                print(f"the tests fail without a mutation: {said}", file=sys.stderr)
                return 2
        killed: dict[bool, list[str]] = {True: [], False: []}
        for mutation in chosen:
            found, said = try_mutation(mutation, tree)
            killed[found].append(mutation.name)
            print(f"{mutation.name:<28} {'killed' if found else 'SURVIVED':<8} {said}", flush=True)
    print(f"killed {len(killed[True])} of {len(chosen)}: {', '.join(killed[True])}")
    print(f"survived {len(killed[False])}: {', '.join(killed[False])}")
    return int(bool(killed[False]))


if __name__ == "__main__":
    sys.exit(main())
