"""Time steps inside pySDC's controllers: spectral deferred corrections, Runge-Kutta and multistep methods."""

from dae_sdc.links import one_room

one_room(__name__)
