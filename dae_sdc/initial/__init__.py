"""Consistent initial values of DAEs, and projection on invariants."""
