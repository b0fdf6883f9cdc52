"""Measurements: against peers, ourselves and known solutions; ``python -m benchmarks NAME``."""
