"""Measurements against peers, against ourselves and against exact solutions: ``python -m benchmarks NAME``."""
