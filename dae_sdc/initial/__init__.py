"""Consistent initial values, and projection on invariants."""
