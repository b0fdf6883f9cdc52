"""Settings of the path tracker and what becomes of a path, for the tracker and its compiled code."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN, FINITE, INFINITE = 0, 1, 2
"""What is known of the end of a path."""


class EndgameOptions(NamedTuple):
    """Settings of the endgame, which goes round t = 0 on circles that become smaller.

    Parameters
    ----------
    predictor_factor : float
        Predictor error that is allowed on circles, in units of that on the way times the velocity of the path
        with respect to log t: other branches of the path are about as far away as it moves.
    samples : int
        Points on a circle, for Cauchy's integral.
    most_steps_per_sample : int
        Steps between two points of a circle.
    radius_ratio : float
        Radius of a circle in units of the one before.
    circles, first_circle : int
        Number of the last and of the first circle; larger ones often enclose other branch points than t = 0.
    more_turns, most_turns : int
        Times that a path may go round the first circle, and in addition round each further one; and at all.
    closing : float
        Distance of a coordinate from where it began that means that it is back, in units of how far it went.
    agreement : float
        Difference of the ends by two circles with which no smaller one is needed.
    accepted_difference : float
        Difference of the ends by two circles with which the end is known at all.
    largest_value : float
        Size of the polynomials, with coefficients of size 1, at ends.
    growth_tolerance : float
        Difference of the power of t with which the first coordinate vanishes, measured from circle to circle,
        from the power that follows from its turns around 0.
    vanishing_mean : float
        Mean of the first coordinate over a circle that is 0, in units of its largest value there.
    smallest_t : float
        Value of t to which the end of a path is followed, where near solutions differ.
    """

    predictor_factor: float = 300.0
    samples: int = 12
    most_steps_per_sample: int = 60
    radius_ratio: float = 0.2
    circles: int = 12
    first_circle: int = 3
    more_turns: int = 6
    most_turns: int = 24
    closing: float = 1e-3
    agreement: float = 1e-9
    accepted_difference: float = 1e-5
    largest_value: float = 1e-11
    growth_tolerance: float = 0.01
    vanishing_mean: float = 1e-8
    smallest_t: float = 1e-24


class TrackerOptions(NamedTuple):
    """Settings of the path tracker. Lengths are in coordinates of norm 1, steps are parts of the way.

    Parameters
    ----------
    endgame_start : float
        Homotopy parameter t at which the endgame begins.
    shortest_step : float
        Smallest step on the way to the endgame; paths can come very near to each other.
    shortest_step_to_end : float
        Smallest step on the straight way to t = 0, where the endgame does better.
    most_steps, most_steps_to_end : int
        Steps on the way to the endgame, and straight to t = 0.
    newton_correction_tolerance : float
        A point counts as on the path when the second Newton correction is smaller.
    newton_noise : float
        Round-off of a Newton correction near singular ends.
    regular_pivot_ratio : float
        Ratio of pivots of the Jacobian up to which an end is regular without a further check.
    displacement : float
        Distance from other ends from where Newton's method must lead back to a regular one.
    vanishing_coordinate : float
        First coordinate of a finite end must be larger.
    endgame : EndgameOptions
        Settings of the endgame.
    """

    endgame_start: float = 0.05
    shortest_step: float = 1e-10
    shortest_step_to_end: float = 1e-4
    most_steps: int = 1000
    most_steps_to_end: int = 60
    newton_correction_tolerance: float = 1e-8
    newton_noise: float = 1e-7
    regular_pivot_ratio: float = 1e6
    displacement: float = 1e-11
    vanishing_coordinate: float = 1e-20
    endgame: EndgameOptions = EndgameOptions()


class Care(NamedTuple):
    """How carefully paths are followed.

    Parameters
    ----------
    predictor_tolerance : float
        Error of a predictor that is allowed, in coordinates of norm 1.
    extended : bool
        Whether equations are evaluated in double-double arithmetic.
    displacement : float
        Distance from an end from where Newton's method must lead back to a regular one, where coefficients
        have round-off; 0 if they are exact, and solutions as near to each other as 1e-9 are told apart.
    options : TrackerOptions
        Settings of the tracker.
    """

    predictor_tolerance: float
    extended: bool = False
    displacement: float = 0.0
    options: TrackerOptions = TrackerOptions(shortest_step_to_end=1e-8, most_steps_to_end=1000)
