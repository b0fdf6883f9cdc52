"""Settings of the path tracker, and the states of the end of a path, for Python and compiled code."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN, FINITE, INFINITE = 0, 1, 2
"""State of the end of a path."""


class EndgameOptions(NamedTuple):
    """Settings of the endgame, which follows a path on ever smaller circles around t = 0."""

    # Predictor tolerance on circles, in units of that elsewhere times the speed of the path with respect to
    # log t: other branches of the path are about as far away as it moves.
    predictor_factor: float = 300.0
    samples: int = 12  # Number of points on a circle, for Cauchy's integral.
    most_steps_per_sample: int = 60  # Largest number of steps between two points of a circle.
    radius_ratio: float = 0.2  # Radius of a circle in units of the one before.
    # circles, first_circle: number of the last and of the first circle; larger ones often enclose other
    # branch points than t = 0.
    circles: int = 12
    first_circle: int = 3
    # more_turns, most_turns: turns that a path may take on the first circle, and more on each further one;
    # and the largest number.
    more_turns: int = 6
    most_turns: int = 24
    # A loop is closed when all coordinates are back to this distance, relative to how far they moved.
    closing: float = 1e-3
    # Difference of the ends computed on two circles at which no smaller circle is needed.
    agreement: float = 1e-9
    # Largest difference of the ends computed on two circles at which the end is known.
    accepted_difference: float = 1e-5
    largest_value: float = 1e-11  # Largest size of the polynomials, with coefficients of size 1, at an end.
    # Largest difference of the power of t with which the first coordinate vanishes, as measured from circle
    # to circle, from the power given by its winding number.
    growth_tolerance: float = 0.01
    # Mean of the first coordinate over a circle, relative to its largest value there, that counts as 0.
    vanishing_mean: float = 1e-8
    smallest_t: float = 1e-24  # Value of t to which a path is followed to tell nearby solutions apart.


class TrackerOptions(NamedTuple):
    """Settings of the path tracker. Lengths are in coordinates of norm 1, steps relative to the whole way."""

    endgame_start: float = 0.05  # Homotopy parameter t at which the endgame begins.
    # Smallest step on the way to the endgame, where paths can come very near to each other.
    shortest_step: float = 1e-10
    # Smallest step on the straight way to t = 0, below which the endgame takes over.
    shortest_step_to_end: float = 1e-4
    # most_steps, most_steps_to_end: largest numbers of steps on the way to the endgame, and straight to t =
    # 0.
    most_steps: int = 1000
    most_steps_to_end: int = 60
    # A point counts as on the path when the second Newton correction is smaller than this.
    newton_correction_tolerance: float = 1e-8
    newton_noise: float = 1e-7  # Round-off of a Newton correction near singular ends.
    # Ratio of pivots of the Jacobian up to which an end counts as regular without a further check.
    regular_pivot_ratio: float = 1e6
    displacement: float = 1e-11  # Newton's method must return to a regular end from points at this distance.
    vanishing_coordinate: float = 1e-20  # Lower bound of the first coordinate of a finite end.
    endgame: EndgameOptions = EndgameOptions()  # Settings of the endgame.


class Care(NamedTuple):
    """How carefully paths are followed."""

    predictor_tolerance: float  # Largest error of a predictor step, in coordinates of norm 1.
    extended: bool = False  # Whether equations are evaluated in double-double arithmetic.
    # Where coefficients have round-off, Newton's method must return to a regular end from points at this
    # distance; 0 if they are exact, and solutions as near to each other as 1e-9 are told apart.
    displacement: float = 0.0
    # Settings of the tracker.
    options: TrackerOptions = TrackerOptions(shortest_step_to_end=1e-8, most_steps_to_end=1000)
