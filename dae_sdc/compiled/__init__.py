"""Machine code on memory: Newton's method at the nodes of a step, and sparse triangular factors."""
