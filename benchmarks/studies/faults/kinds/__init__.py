"""Kinds of faults, one module each."""
