"""Structures of bars and beams with symbols in them, by the direct stiffness method."""
