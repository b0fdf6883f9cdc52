"""A DAE as its user writes it: variables, equations, parameters, and the removal of trivial equations."""
