"""Time steps inside pySDC's controllers: spectral deferred corrections, Runge-Kutta and multistep methods."""
