"""Measurements: against peers, ourselves and exact solutions; ``python -m benchmarks NAME``."""
