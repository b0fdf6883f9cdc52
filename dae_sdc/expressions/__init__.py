"""Equations as a graph: values are numbered, differentiated, and compiled to machine code."""
