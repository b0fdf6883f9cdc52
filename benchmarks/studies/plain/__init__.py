"""Plain Python functions F(t, u, u') solved here and with solvers of other packages: time to equal error."""

from benchmarks.studies.plain.study import plain as plain
