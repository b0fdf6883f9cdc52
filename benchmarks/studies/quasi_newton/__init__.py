from benchmarks.studies.quasi_newton.study import quasi_newton as quasi_newton
