"""Test problems at a row of tolerances, here and with solvers of other packages."""

from benchmarks.studies.peers.study import peers as peers
