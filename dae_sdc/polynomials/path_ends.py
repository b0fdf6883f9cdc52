"""Where a path of a homotopy ends, for the tracker and its compiled code."""

from __future__ import annotations

UNKNOWN, FINITE, INFINITE = 0, 1, 2
"""What is known of the end of a path."""
