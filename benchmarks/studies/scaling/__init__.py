"""How sweeps get faster on ranks of MPI, and a model of their cost."""

from benchmarks.studies.scaling.study import scaling as scaling
