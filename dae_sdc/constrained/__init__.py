"""Equations with constraints by type, and methods whose steps stay on the manifold of the constraints."""
