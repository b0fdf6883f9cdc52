"""Quasi-Newton updates beside the modified Newton iteration, on the contact of a tyre with ribs."""

from benchmarks.studies.quasi_newton.study import quasi_newton as quasi_newton
