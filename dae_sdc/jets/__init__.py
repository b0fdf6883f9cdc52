"""Equations and their derivatives along t at a point, with sparse Jacobians."""
