"""Kinds of runs besides solves, a file each."""
