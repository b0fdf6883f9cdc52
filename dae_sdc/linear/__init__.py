"""A DAE near a state: where it rests, how that moves with a parameter, and the linear system around it."""
